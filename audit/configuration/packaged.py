"""Finds the packaged configuration."""

from __future__ import annotations

from pathlib import Path


def conf_folder() -> Path:
    """Return the folder of the configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
