"""Hashes of plain values, by which two of them are known to be the same."""

from __future__ import annotations

import hashlib
import json


def fingerprint(content: object) -> str:
    """Hash plain values with SHA-256, independently of key order."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
