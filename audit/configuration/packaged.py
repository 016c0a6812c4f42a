"""Where the packaged configuration lies."""

from __future__ import annotations

from pathlib import Path


def conf_folder() -> Path:
    """Return the configuration's folder: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
