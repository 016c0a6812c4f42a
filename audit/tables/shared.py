"""Columns that tables of several families share."""

from __future__ import annotations

from typing import Final

from audit.tables.base import INT8, count, flag, number, points, probability, share, whole, word

OVERALL: Final = "all"  # stands for the mean over the single dimensions

KEYS: Final = {
    "dimension": word("what perceiver and experiencer differ in, e.g. religion; 'a+b' is an intersection"),
    "variant": word("the prompt variant, e.g. origin"),
}

OUTCOME: Final = {
    "outcome": word(
        "what δ is of: intensity, that of ratings, or a measure of replies, as in the table of measures",
        before="intensity",
    ),
    "unit": word("of the row's numbers: points of the rating scale, or the measure's unit"),
}
"""The outcome of a row, first in the tables that all outcomes have."""

SIDES: Final = {
    "perceiver": word("wording of the identity that the model is given; 'no persona' where it is given none"),
    "experiencer": word("wording of the identity of the person in the narrative"),
    "perceiver_group": word("group of the perceiver; 'unspecified' for the baseline, 'no persona' without one"),
    "experiencer_group": word("group of the experiencer; 'unspecified' for the baseline"),
    "in_group": flag(
        "whether perceiver and experiencer share the group in every dimension crossed; missing for baselines"
    ),
    "n_shared": count(
        "in how many of the crossed dimensions they share the group; 0 or 1 for one; missing for baselines", type=INT8
    ),
}
"""The two identities of a pair."""

PROMPT: Final = {
    "prompt_index": whole("place of the prompt in the run's grid, from 0; unique"),
    **KEYS,
    "narrative_id": word("the narrative, unique within its source"),
    "emotion": word("the emotion asked about"),
    **SIDES,
}
"""The columns that identify a prompt within its run."""

TALLY: Final = {
    "n_rated": count("of these rated"),
    "n_refused": count("of these refused"),
    "n_unparseable": count("of these unparseable"),
    "n_failed": count("of these failed"),
    "n_inexact": count("of these inexact: known less closely than elicitation.max_pruned_points allows"),
}
"""Counts of prompts that ask for a rating, by outcome."""

RATES: Final = {"refusal_rate": share("n_refused / n_prompts"), "unparseable_rate": share("n_unparseable / n_prompts")}

PAIRS_COUNTED: Final = word(
    "which pairs are counted: in_group, out_group, baseline (one side unspecified or no persona) or all"
)

DF: Final = number("degrees of freedom of the t distribution")
IN_POINTS: Final = {
    "se": points("standard error of delta, in points"),
    "df": DF,
    "ci_low": points("lower end of the confidence interval, in points", lengths=1),
    "ci_high": points("upper end of the confidence interval, in points", lengths=1),
}
"""The uncertainty of a gap in points."""
P_OF_ZERO: Final = probability("two-sided p of the t-test against 0")
P_OF_NO_GAP: Final = probability("two-sided p of the t-test against a gap of 0")
P_OF_NO_DIFFERENCE: Final = probability("two-sided p of the t-test against no difference")

HOLM: Final = word("the correction: Holm (family-wise error)")
FAMILY_SIZE: Final = count("tests that were corrected for: those with a p")
