"""All tasks, by their names in ``task=`` and manifests. A new task is a module or folder here, and a line."""

from __future__ import annotations

from typing import Any, Final

from audit.errors import StoreError
from audit.runs.manifest import Manifest
from audit.tasks.base import Task
from audit.tasks.intensity.task import Intensity
from audit.tasks.inventory.task import InventoryFilling
from audit.tasks.recognition.task import Cause, Emotion
from audit.tasks.reply.task import ReplyWriting

TASKS: Final[dict[str, Task[Any]]] = {
    task.kind: task for task in (Intensity(), ReplyWriting(), Emotion(), Cause(), InventoryFilling())
}


def task_of(manifest: Manifest) -> Task[Any]:
    """Return the task of a run. Raise StoreError if this version does not know it."""
    kind = manifest.task.kind
    if kind not in TASKS:
        raise StoreError(
            f"the run is of task={kind!r}, which this version of empathy-audit does not know; it knows "
            f"{', '.join(TASKS)}"
        )
    return TASKS[kind]
