"""All tables of a run of ratings.

A table of the run's folder must be listed here: then its file is checked when written, and ``dictionary.csv`` describes
it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from audit.tables.base import Table, by_name
from audit.tables.cells import CELL_EMOTIONS, CELLS, DISTRIBUTIONS, NARRATIVES, NULL, PUBLISHED_CELLS
from audit.tables.controls import CONTROLS, ELICITATION, MISSING, SENSITIVITY, WORDING_SHARES, WORDINGS
from audit.tables.disparity import DISPARITY
from audit.tables.gap import (
    COMPARISONS,
    COVARIATES,
    EQUIVALENCE,
    FAMILIES,
    GAP,
    HETEROGENEITY,
    LEAVE_ONE_OUT,
    OWN_MODEL,
    POWER,
    VARIANCES,
)
from audit.tables.people import HUMAN, NORMING, PEOPLE_AGREEMENT, PEOPLE_GAP
from audit.tables.ratings import (
    ASKED_AGAIN,
    ASKED_IN_FORMATS,
    ELICITATION_SAMPLE,
    END_SHARES,
    MANIPULATED,
    MANIPULATION,
    MODES,
    NARRATIVE_COVARIATES,
    OUTCOMES,
    RATINGS,
    READING_RULES,
    TRIAL_ANSWERS,
    TRIALS,
)
from audit.tables.stages import CALLS, GIVEN, MARKED_WORDS, STAGE_TEXTS, STAGES
from audit.tables.verdicts import JUDGED, ODD_PAIRS, VERDICTS

TABLES: Final = by_name(
    VERDICTS, JUDGED, ODD_PAIRS, GAP, DISPARITY, VARIANCES, LEAVE_ONE_OUT, FAMILIES, HETEROGENEITY, EQUIVALENCE, POWER,
    MISSING, SENSITIVITY, CONTROLS, MANIPULATION, WORDINGS, WORDING_SHARES, ELICITATION, COMPARISONS, COVARIATES,
    OWN_MODEL, CELLS, CELL_EMOTIONS, NARRATIVES, DISTRIBUTIONS, NULL, PUBLISHED_CELLS, OUTCOMES, MODES, CALLS,
    STAGE_TEXTS, MARKED_WORDS, HUMAN, PEOPLE_GAP, PEOPLE_AGREEMENT, NORMING,
)  # fmt: skip
"""The tables derived from a run of ratings, in its ``tables/``."""

OF_RATINGS: Final = (
    RATINGS, NARRATIVE_COVARIATES, STAGES, GIVEN, END_SHARES, ELICITATION_SAMPLE, ASKED_AGAIN, MANIPULATED,
    *ASKED_IN_FORMATS.values(), *TABLES.values(),
)  # fmt: skip
"""All tables in the folder of such a run, except :data:`OF_SOME` and ``TRIAL_ANSWERS``, which goes with ``TRIALS``."""

OF_SOME: Final = by_name(READING_RULES, TRIALS)  # of a study's released answers; of runs whose elicitation trials chose


def described_in(names: Collection[str]) -> tuple[Table, ...]:
    """Return what ``dictionary.csv`` describes in a run with tables of these names."""
    some = tuple(table for name, table in OF_SOME.items() if name in names)
    return (*OF_RATINGS, *some, *((TRIAL_ANSWERS,) if TRIALS in some else ()))
