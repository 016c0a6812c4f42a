"""All tables of a run of texts, for any task; see :mod:`audit.tables.run_of_ratings`."""

from __future__ import annotations

from typing import Final

from audit.tables.base import by_name
from audit.tables.people_of_replies import AGREEMENT, HUMAN_CORRELATIONS
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
from audit.tables.stages import CALLS, GIVEN, MARKED_WORDS, STAGE_TEXTS, STAGES

REPLY_TABLES: Final = by_name(
    MEASURE_VERDICTS, MEASURES, MEASURE_GAPS, MEASURE_CONTROLS, MEASURE_FAMILIES, MEASURE_CELLS, REPLY_OUTCOMES,
    JUDGE_GAP, JUDGE_EFFECTS, EPITOME, AGREEMENT, HUMAN_CORRELATIONS, RECOGNITION, RECOGNITION_LABELS,
    RECOGNITION_CONFUSION, RECOGNITION_CAUSES, CALLS, STAGE_TEXTS, MARKED_WORDS,
)  # fmt: skip
"""The tables derived from a run of replies."""

OF_REPLIES: Final = (REPLIES, SCORES, STAGES, GIVEN, *REPLY_TABLES.values())
"""All tables in the folder of such a run."""
