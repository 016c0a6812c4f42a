"""``task=inventory``: a questionnaire made for people, or affect before and after a situation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from audit.asking.progress import Say
from audit.configuration.schema import AuditConfig
from audit.configuration.task import InventoryTask
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.answers import ANSWERS
from audit.tables.base import Table
from audit.tasks.base import Published, Task
from audit.tasks.inventory.ask import collect_answers
from audit.tasks.inventory.plan import InventoryPlan, inventory_records, make_inventory_plan
from audit.tasks.inventory.publish import draw_answers, publish_inventory
from audit.tasks.inventory.tables import AFFECT_TABLES, INVENTORY_TABLES

if TYPE_CHECKING:
    from audit.engines.base import OpenModel


class InventoryFilling(Task[InventoryPlan]):
    """The perceiver fills in a questionnaire."""

    kind = "inventory"
    settings = InventoryTask
    described: ClassVar[Mapping[str, Table]] = {**INVENTORY_TABLES, **AFFECT_TABLES}
    collected = ANSWERS

    def plan(self, config: AuditConfig) -> InventoryPlan:
        """Read the questionnaire and the identities; see :func:`audit.tasks.inventory.plan.make_inventory_plan`."""
        return make_inventory_plan(config)

    def records(self, plan: InventoryPlan) -> Iterator[dict[str, Any]]:
        """Yield every prompt; see :func:`audit.tasks.inventory.plan.inventory_records`."""
        return inventory_records(plan)

    def collect(
        self, plan: InventoryPlan, folder: RunFolder, *, command: str, say: Say, opened: OpenModel | None = None
    ) -> Manifest:
        """Ask for the missing answers; see :func:`audit.tasks.inventory.ask.collect_answers`."""
        return collect_answers(plan, folder, command=command, say=say)

    def draw(self, manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Any]:
        """Draw the scores; see :func:`audit.tasks.inventory.publish.draw_answers`."""
        return draw_answers(manifest, tables)

    def publish(self, folder: RunFolder, manifest: Manifest) -> Published:
        """Score the answers and render them; see :func:`audit.tasks.inventory.publish.publish_inventory`."""
        return publish_inventory(folder, manifest)
