"""All tables of a run of texts, for any task; see :mod:`audit.tables.run_of_ratings`."""

from __future__ import annotations

from typing import Final

from audit.tables.base import by_name
from audit.tables.cells import CELLS
from audit.tables.controls import CONTROLS, WORDING_SHARES, WORDINGS
from audit.tables.disparity import DISPARITY
from audit.tables.gap import FAMILIES, GAP
from audit.tables.people_of_replies import AGREEMENT, HUMAN_CORRELATIONS
from audit.tables.ratings import ASKED_AGAIN, MANIPULATION
from audit.tables.recognition import (
    RECOGNITION,
    RECOGNITION_CAUSES,
    RECOGNITION_CONFUSION,
    RECOGNITION_ENTAILMENT,
    RECOGNITION_LABELS,
)
from audit.tables.replies import (
    EPITOME,
    JUDGE_EFFECTS,
    JUDGE_GAP,
    MEASURES,
    RATIONALES,
    REPLIES,
    REPLY_OUTCOMES,
    SCORES,
    TRANSCRIPTS,
    TURNS,
)
from audit.tables.stages import CALLS, GIVEN, MARKED_WORDS, STAGE_TEXTS, STAGES
from audit.tables.verdicts import VERDICTS

REPLY_TABLES: Final = by_name(
    VERDICTS, MANIPULATION, MEASURES, GAP, DISPARITY, TURNS, CONTROLS, WORDINGS, WORDING_SHARES, FAMILIES, CELLS,
    REPLY_OUTCOMES, JUDGE_GAP, JUDGE_EFFECTS, EPITOME, AGREEMENT, HUMAN_CORRELATIONS, RECOGNITION, RECOGNITION_LABELS,
    RECOGNITION_CONFUSION, RECOGNITION_CAUSES, RECOGNITION_ENTAILMENT, CALLS, STAGE_TEXTS, MARKED_WORDS,
)  # fmt: skip
"""The tables derived from a run of replies."""

OF_REPLIES: Final = (
    REPLIES,
    TRANSCRIPTS,
    SCORES,
    RATIONALES,
    STAGES,
    GIVEN,
    ASKED_AGAIN,
    *REPLY_TABLES.values(),
)  # all tables in the folder of such a run
