"""How much room there is on a disk, also for a folder that is not there yet."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def existing(place: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    place = Path(os.path.expanduser(place)).absolute()
    while not os.path.exists(place):
        place = place.parent
    return place


def free_at(place: Path) -> int:
    """Return how many bytes are free where a folder is, or would be."""
    return shutil.disk_usage(existing(place)).free
