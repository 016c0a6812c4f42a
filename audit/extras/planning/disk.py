"""Free disk space, also for a folder that does not exist yet."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def existing(place: Path) -> Path:
    """Return a folder, or its nearest existing parent."""
    place = Path(os.path.expanduser(place)).absolute()
    while not os.path.exists(place):
        place = place.parent
    return place


def free_at(place: Path) -> int:
    """Return the free bytes at a folder's present or future place."""
    return shutil.disk_usage(existing(place)).free
