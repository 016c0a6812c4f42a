"""Describe how a rating is elicited."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from audit.runs.manifest import RecordedEnds

_EXACT: Final = RecordedEnds()
_EXPECTED: Final = (
    "The model did not write its ratings. For each prompt, its probabilities for what comes next were read and reduced "
    "to the whole numbers of the scale ({scale}); the rating is the mean of that distribution, which can lie between "
    "two numbers. The number mass is the probability that the model gives to any of these numbers before that: where "
    "it is small, the model would rather have written something else, and the rating describes only a small part of "
    "what it would do. "
)
_REFUSALS_UNSEEN: Final = " A refusal cannot be seen this way."
ELICITATION: Final = {
    "expected": (
        f"{_EXPECTED}A number counts only as far as no other digit follows it: 7 is not the beginning of 72, nor 80 of "
        "800. A decimal part is not asked: 7.5 counts as 7. Numbers and ends of numbers that weigh little were not "
        "asked; how far they could move a rating stands beside it in the run's ratings (<code>pruned_points</code>)."
        " Where a server tells too little of the distribution for the bound that was set, the rating is missing, and "
        f"counts as inexact.{_REFUSALS_UNSEEN}"
    ),
    "expected, without ends": (
        f"{_EXPECTED}What follows the last digit that a number of the scale can have was not asked: digit by digit, 80 "
        f"on a scale that ends at 10 counts as 8.{_REFUSALS_UNSEEN}"
    ),
    "outside": (
        "The ratings were collected by another tool and read from a table; how the model was asked, and how its "
        "answers became numbers, is not known here. A missing rating counts as unparseable unless the table says "
        "otherwise."
    ),
    "generate": (
        "The model wrote its answer at temperature 0 (always the most probable next token), and one intensity on the "
        "scale ({scale}) was read from the text. An answer that declines to rate counts as refused, and one from "
        "which no single intensity on the scale can be read as unparseable. Both are missing data, never 0."
    ),
    "generate, hou2025": (
        "The model wrote its answer at temperature 0 (always the most probable next token), and an intensity was read "
        "from the text as the released code of Hou, Daumé III and Rudinger (2025) does, faults included: it is the "
        "first whole number of the text, or the second where the first is above 100, whatever the scale. An answer "
        "that begins with the words of a refusal which that code knows counts as refused, and one without such a "
        "number as unparseable. Both are missing data, never 0."
    ),
}
"""Descriptions by elicitation, with an exception to the usual after a comma."""


_BEGUN: Final = Markup(
    " The answer was begun for the model, which went on after <q>{begun}</q>: what it would have said without that is "
    "not known from these ratings."
)


_CALIBRATED: Final = Markup(
    " Whether another digit follows a number was asked of a random sample of {n} prompts, and its mean was taken for "
    "the others: in the sample this moved a rating by {most} points at most, and it moves δ by at most {systematic} "
    "points (99% interval), which bounds of gaps include."
)
_NOT_CALIBRATED: Final = Markup(" Whether numbers end was asked of each prompt, not of a sample, since {why}.")


def describe_elicitation(
    method: str, *, scale: str, parser: str = "", asks_ends: bool = True, begun: str = "", ends: RecordedEnds = _EXACT
) -> Markup:
    """Describe how a rating is elicited; earlier versions did not ask whether a number ends (``asks_ends``)."""
    kind = method
    if method == "expected" and not asks_ends:
        kind = "expected, without ends"
    if method == "generate" and parser == "hou2025":
        kind = "generate, hou2025"
    words = ELICITATION.get(kind, "This report has no description of the method {method!r}; see its documentation.")
    described = Markup(words).format(scale=scale, method=method)
    if ends.way == "calibrated":
        most, systematic = (f"{points:.2g}" for points in (ends.max_points, ends.systematic_points))
        described += _CALIBRATED.format(n=ends.n_prompts, most=most, systematic=systematic)
    elif ends.why and ends.n_prompts:  # else there was nothing to choose
        described += _NOT_CALIBRATED.format(why=ends.why)
    return described + _BEGUN.format(begun=begun) if begun else described
