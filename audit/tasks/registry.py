"""All tasks, by their names in ``task=`` and manifests. A new task is a folder here, and a line.

Each stands on this folder and is named, not imported: a run needs one task, and loads no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from audit.errors import StoreError
from audit.runs.manifest import Manifest
from audit.tasks.base import Task

_PLACES: Final = {
    "intensity": "audit.tasks.intensity.task:Intensity",
    "reply": "audit.tasks.reply.task:ReplyWriting",
    "emotion": "audit.tasks.recognition.task:Emotion",
    "cause": "audit.tasks.recognition.task:Cause",
    "entailment": "audit.tasks.recognition.task:Entailment",
    "inventory": "audit.tasks.inventory.task:InventoryFilling",
}


class _Tasks(Mapping[str, Task[Any]]):
    """The tasks by name; one is imported when it is first looked up."""

    def __getitem__(self, kind: str) -> Task[Any]:
        return _task(kind)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


@cache
def _task(kind: str) -> Task[Any]:
    task: Task[Any] = resolve_name(_PLACES[kind])()
    return task


TASKS: Final[Mapping[str, Task[Any]]] = _Tasks()


def task_of(manifest: Manifest) -> Task[Any]:
    """Return the task of a run. Raise StoreError if this version does not know it."""
    kind = manifest.task.kind
    if kind not in TASKS:
        raise StoreError(
            f"the run is of task={kind!r}, which this version of empathy-audit does not know; it knows "
            f"{', '.join(TASKS)}"
        )
    return TASKS[kind]
