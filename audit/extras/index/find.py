"""Find runs, and folders made from several runs, beneath a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from audit.runs import ledger
from audit.runs.manifest import COPY, FILE, Manifest

RUN: Final = "run"
MADE_OF_RUNS: Final = {"comparison": "comparison.html", "judgement": "judgement.html", "choices": ""}
"""Kinds of folders made from several runs → their page. Choices have none."""
_COLLECTED: Final = ("ratings", "replies", "answers")


@dataclass(frozen=True)
class FoundFolder:
    """A folder beneath the one that was searched."""

    path: Path
    kind: str = RUN  # `run`, one of MADE_OF_RUNS, or empty if the folder cannot be searched
    fault: str = ""  # why it cannot be searched


def find_runs(folder: Path) -> Iterator[FoundFolder]:
    """Yield runs and folders of several runs at any depth, through links, by name; none that begins with a dot."""
    yield from _within(folder, set())


def kind_of_runs(folder: Path) -> str:
    """Return ``run`` or one of :data:`MADE_OF_RUNS`; empty if the folder is neither."""
    if (folder / FILE).exists():
        kind = Manifest.content_of(folder).get("kind")
        return kind if isinstance(kind, str) and kind in MADE_OF_RUNS else RUN
    return RUN if _lacks_manifest(folder) else ""


def _within(folder: Path, seen: set[Path]) -> Iterator[FoundFolder]:
    try:
        place = folder.resolve(strict=True)
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_dir())
    except (OSError, RuntimeError) as error:  # a circular link raises one or the other
        yield FoundFolder(folder, "", f"cannot be searched ({getattr(error, 'strerror', None) or error})")
        return
    if place in seen:
        return
    seen.add(place)
    kind = kind_of_runs(folder)
    if kind:
        yield FoundFolder(folder, kind)
    for name in names:
        yield from _within(folder / name, seen)


def _lacks_manifest(folder: Path) -> bool:
    """Tell whether a folder is a run although its manifest is gone."""
    return any((folder / name).exists() for name in (COPY, ledger.FILE)) or any(
        (folder / f"{name}.parquet").exists() or any((folder / name).glob("part-*.parquet")) for name in _COLLECTED
    )
