"""All tables, by what holds them: the runs of each kind, and what is made of several runs.

A table that a run's folder or a comparison is to have stands in one of these: its file is checked when it is written,
and ``dictionary.csv`` describes it.
"""

from __future__ import annotations

from typing import Final

from audit.tables.base import Table
from audit.tables.cells import CELL_EMOTIONS, CELLS, DISTRIBUTIONS, NARRATIVES, NULL, PUBLISHED_CELLS
from audit.tables.comparison import (
    COMPARED_CELLS,
    COMPARED_CONTROLS,
    COMPARED_GAP,
    COMPARED_PUBLISHED,
    COMPARED_VERDICTS,
    ELICITATION_RANGES,
    ELICITATIONS,
    PERCEIVER_MAP,
    RUNS,
    SPECIFICATIONS,
    STRATEGIES,
)
from audit.tables.controls import (
    CONTROLS,
    ELICITATION,
    MISSING,
    MISSING_GRID,
    SENSITIVITY,
    WORDING_SHARES,
    WORDING_SPLITS,
    WORDINGS,
)
from audit.tables.gap import (
    CALIBRATION,
    COMPARISONS,
    EQUIVALENCE,
    FAMILIES,
    GAP,
    HETEROGENEITY,
    LEAVE_ONE_OUT,
    OWN_MODEL,
    POWER,
    VARIANCES,
)
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
from audit.tables.people import AGREEMENT, HUMAN, HUMAN_CORRELATIONS, NORMING, PEOPLE_AGREEMENT, PEOPLE_GAP
from audit.tables.preference import CHOICES, JUDGED_PAIRS, PEOPLE_PREFERENCE, PREFERENCE
from audit.tables.ratings import (
    ASKED_AGAIN,
    ASKED_IN_FORMATS,
    ELICITATION_SAMPLE,
    MANIPULATED,
    MANIPULATION,
    MODES,
    OUTCOMES,
    RATINGS,
    READING_RULES,
)
from audit.tables.recognition import RECOGNITION, RECOGNITION_CAUSES, RECOGNITION_CONFUSION, RECOGNITION_LABELS
from audit.tables.replies import (
    EPITOME,
    JUDGE_EFFECTS,
    JUDGE_GAP,
    MEASURE_CELLS,
    MEASURE_CONTROLS,
    MEASURE_FAMILIES,
    MEASURE_GAPS,
    MEASURE_VERDICTS,
    MEASURES,
    REPLIES,
    REPLY_OUTCOMES,
    SCORES,
)
from audit.tables.reply_comparison import (
    COMPARED_MEASURE_CONTROLS,
    COMPARED_MEASURES,
    MEASURE_CHANGES,
    MEASURE_GAP_ALL,
    REPLY_COSTS,
    REPLY_RUNS,
)
from audit.tables.stages import CALLS, GIVEN, MARKED_WORDS, STAGE_TEXTS, STAGES
from audit.tables.verdicts import JUDGED, ODD_PAIRS, VERDICTS


def _by_name(*tables: Table) -> dict[str, Table]:
    return {table.name: table for table in tables}


TABLES: Final = _by_name(
    VERDICTS, JUDGED, ODD_PAIRS, GAP, VARIANCES, LEAVE_ONE_OUT, FAMILIES, HETEROGENEITY, EQUIVALENCE, POWER, MISSING,
    SENSITIVITY, CONTROLS, MANIPULATION, WORDINGS, WORDING_SHARES, WORDING_SPLITS, ELICITATION, MISSING_GRID,
    COMPARISONS, OWN_MODEL, CELLS, CELL_EMOTIONS, NARRATIVES, DISTRIBUTIONS, NULL, PUBLISHED_CELLS, OUTCOMES, MODES,
    CALLS, STAGE_TEXTS, MARKED_WORDS, HUMAN, PEOPLE_GAP, PEOPLE_AGREEMENT, NORMING,
)  # fmt: skip
"""What is made of a run of ratings, in its ``tables/``."""

OF_RATINGS: Final = (
    RATINGS, STAGES, GIVEN, ELICITATION_SAMPLE, ASKED_AGAIN, MANIPULATED, *ASKED_IN_FORMATS.values(), *TABLES.values(),
    CALIBRATION,
)  # fmt: skip
"""All that the folder of such a run holds, but for :data:`RELEASED_TABLES`."""

RELEASED_TABLES: Final = _by_name(READING_RULES)
"""What is made of it besides, where it is of a study's released answers."""

REPLY_TABLES: Final = _by_name(
    MEASURE_VERDICTS, MEASURES, MEASURE_GAPS, MEASURE_CONTROLS, MEASURE_FAMILIES, MEASURE_CELLS, REPLY_OUTCOMES,
    JUDGE_GAP, JUDGE_EFFECTS, EPITOME, AGREEMENT, HUMAN_CORRELATIONS, RECOGNITION, RECOGNITION_LABELS,
    RECOGNITION_CONFUSION, RECOGNITION_CAUSES, CALLS, STAGE_TEXTS, MARKED_WORDS,
)  # fmt: skip
"""What is made of a run of replies."""

OF_REPLIES: Final = (REPLIES, SCORES, STAGES, GIVEN, *REPLY_TABLES.values())
"""All that the folder of such a run holds."""

INVENTORY_TABLES: Final = _by_name(INVENTORY_SCORES, INVENTORY_DIFFERENCES, INVENTORY_GROUPS, INVENTORY_OUTCOMES)
"""What is made of a run that fills in a questionnaire."""

AFFECT_TABLES: Final = _by_name(AFFECT_NARRATIVES, AFFECT_CHANGES, AFFECT_DIFFERENCES, AFFECT_GROUPS)
"""What is made of it besides, where narratives are imagined first."""

OF_ANSWERS: Final = (ANSWERS, *INVENTORY_TABLES.values())
"""All that the folder of such a run holds, but for :data:`AFFECT_TABLES`."""

COMPARISON_TABLES: Final = _by_name(
    RUNS, COMPARED_VERDICTS, COMPARED_GAP, COMPARED_CONTROLS, COMPARISONS, SPECIFICATIONS, STRATEGIES, ELICITATIONS,
    ELICITATION_RANGES, COMPARED_PUBLISHED, COMPARED_CELLS, PERCEIVER_MAP,
)  # fmt: skip
"""What is made of several runs of ratings."""

REPLY_COMPARISON_TABLES: Final = _by_name(
    REPLY_RUNS, COMPARED_MEASURES, MEASURE_GAP_ALL, COMPARED_MEASURE_CONTROLS, MEASURE_CHANGES, REPLY_COSTS
)
"""What is made of several runs of replies."""

PREFERENCE_TABLES: Final = _by_name(JUDGED_PAIRS, PREFERENCE)
"""What a folder holds in which a model compares the replies of two runs."""

PEOPLE_PREFERENCE_TABLES: Final = _by_name(CHOICES, PEOPLE_PREFERENCE)
"""What a folder holds in which people choose between the replies of two runs."""

EVERY: Final = (
    *OF_RATINGS, *RELEASED_TABLES.values(), *OF_REPLIES, *OF_ANSWERS, *AFFECT_TABLES.values(),
    *COMPARISON_TABLES.values(), *REPLY_COMPARISON_TABLES.values(), *PREFERENCE_TABLES.values(),
    *PEOPLE_PREFERENCE_TABLES.values(),
)  # fmt: skip
"""All of these. Some have a name in common: those of a run, and those of several."""
