"""Tables that several pages show: which columns of each, in which words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from audit.report.numbers import PlacedRow
from audit.report.results import Results
from audit.report.section import Captioned
from audit.report.table_layout import IfKnown, Named, ShownColumn, out_of, said, speaks_of
from audit.tables.ratings import FORMATS

_OF_WHICH: Final = said(
    "control",
    "pairs counted",
    {
        "all_terms": "all pairs",
        "echo_free": "pairs without a common word",
        "echo": "effect of identical words",
        "same_words": "pairs with identical words",
        "placebo": "the same for invented groups",
        "placebo_difference": "real minus invented groups",
        "wording": "all wordings, for wordings like these",
        "elicitation": "a sample, with written answers",
        "noise": "repeatability: the same prompts asked again",
        **{f"noise_{name}": f"repeatability: asked again in {name}" for name in FORMATS},
    },
)
CONTROLS: Final[tuple[Named, ...]] = (
    _OF_WHICH, "delta", "ci_low", "p", "n_narratives", "n_answers", "note",
)  # fmt: skip
"""Columns of the controls of δ."""
COMPARISONS: Final[tuple[Named, ...]] = (
    "dimension", "first", "second", ("delta_first", "δ, first"), ("delta_second", "δ, second"),
    ("delta_change", "change"), "ci_low", "p_adjusted", speaks_of("scope"), "unit", "n_narratives", "note",
)  # fmt: skip
"""Columns of paired differences of δ."""

MANIPULATION: Final[tuple[Named, ...]] = (
    said("check", "what should be rated higher", {
        "emotion": "the story's own emotion, rather than a wrong one",
        "intensity": "the strong version of a situation, rather than the mild one",
    }),
    ("mean_higher", "mean"), ("mean_lower", "mean of the other"), ("difference", "difference, points"), "ci_low",
    ("least_response", "required difference"),
    said("answer", "passed", {"follows": "yes", "does_not_follow": "no", "not_shown": "inconclusive"}),
    ("share_higher", "higher in"), out_of("narratives", "n_pairs", "n_asked", words=True),
    IfKnown("n_needed", "narratives to decide"), "note",
)  # fmt: skip
"""Columns of the check of whether ratings match the story."""


def calls(own: Results) -> Captioned | None:
    """Show the outcomes of each call of a strategy; None if the question is the only call."""
    rows = own.rows("calls")
    if not any(row["place"] > 0 or row["n_shortened"] > 0 or row["n_cut"] > 0 for row in rows):
        return None
    return own.table(
        "calls",
        "what happened to the strategy's calls. Cut: reached the token limit of the stage. Shortened: earlier calls or "
        "examples were left out because they did not fit",
        "call", "n_prompts", "n_written", "n_cut", "n_empty", "n_failed", "n_shortened",
        ("mean_prompt_tokens", "tokens read"), ("mean_tokens", "tokens written"),
    )  # fmt: skip


def measure_controls(named: Callable[[PlacedRow], str]) -> tuple[Named, ...]:
    """Return the columns of the controls of measures; ``named`` names a row's measure."""
    measure = ShownColumn("measure", named, words=True)
    return measure, *CONTROLS


def estimable(controls: Sequence[PlacedRow]) -> list[PlacedRow]:
    """Return the estimable controls of measures; none if only that of all pairs is."""
    rows = [row for row in controls if math.isfinite(row.number("delta"))]
    return rows if any(row["headline"] for row in rows) else []
