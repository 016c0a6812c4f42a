"""All tables of a run that fills in a questionnaire; see :mod:`audit.tables.run_of_ratings`."""

from __future__ import annotations

from typing import Final

from audit.tables.base import by_name
from audit.tables.inventory import (
    AFFECT_CHANGES,
    AFFECT_DIFFERENCES,
    AFFECT_GROUPS,
    AFFECT_NARRATIVES,
    ANSWERS,
    INVENTORY_DIFFERENCES,
    INVENTORY_GROUPS,
    INVENTORY_OUTCOMES,
    INVENTORY_SCORES,
)

INVENTORY_TABLES: Final = by_name(INVENTORY_SCORES, INVENTORY_DIFFERENCES, INVENTORY_GROUPS, INVENTORY_OUTCOMES)
"""What is made of a run that fills in a questionnaire."""

AFFECT_TABLES: Final = by_name(AFFECT_NARRATIVES, AFFECT_CHANGES, AFFECT_DIFFERENCES, AFFECT_GROUPS)
"""What is made of it besides, where narratives are imagined first."""

OF_ANSWERS: Final = (ANSWERS, *INVENTORY_TABLES.values())
"""All that the folder of such a run holds, but for :data:`AFFECT_TABLES`."""
