"""Put a gap in proportion: to the scale, the spread of ratings, the response to the story, and plain means."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Final

from markupsafe import Markup

from audit.report.glance import Mark, mark
from audit.report.numbers import PlacedRow, show, show_interval
from audit.report.results import Results
from audit.report.table_layout import Write
from audit.tables.formatting import count, either, fixed, magnitude, points, rate, scale_end, unsigned
from audit.tables.ratings import DOES_NOT_FOLLOW, FOLLOWS, answer_in
from stimuli.words import capital

_CHECKED: Final = {  # what a check sets against each other
    "emotion": ("a story's own emotion", "a wrong one"),
    "intensity": ("the strong version of a situation", "the mild one"),
}
HARDLY_VARIES: Final = 0.9  # if one number is the most probable in at least this share of prompts, the page says which
NOT_MADE: Final = Markup("not made, so it is not known whether the ratings match the story.")
_DUST: Final = 1e-9  # a smaller difference of means is floating-point error


def say_effect_size(gap: PlacedRow, decided: PlacedRow | None = None) -> Markup:
    """Say how large the gap is: of the scale, of the spread within narratives, and of the response to the story."""
    others = " times the spread (SD) of the ratings of one narrative"
    names = [name for name in ("percent_of_scale", "delta_sd") if math.isfinite(gap.number(name))]
    sizes = [size_in(name, gap, decided, magnitude) for name in names]
    if "percent_of_scale" not in names or not all(sizes):
        return Markup("")
    said = [
        Markup("{}{}").format(size, Markup(after))
        for size, after in zip(sizes, ("% of the scale", others), strict=False)
    ]
    share = Markup("") if decided is None else share_of_response(decided)
    return Markup("; ").join(filter(None, (*said, share)))


def size_in(name: str, gap: PlacedRow, decided: PlacedRow | None, write: Write) -> Markup:
    """Write the deciding gap in the unit of a column of the headline; empty if that gap is 0 and shows no unit."""
    delta, of_verdict = gap.number("delta"), (decided or gap).number("delta")
    if math.isclose(delta, of_verdict, rel_tol=1e-9, abs_tol=1e-12):
        return show(gap, name, write)
    return Markup(write(gap.number(name) / delta * of_verdict)) if delta else Markup("")


def response_mark(own: Results) -> Mark | None:
    """Return the response to the story for the first screen's picture; None without one."""
    row = own.row("manipulation", check="emotion")
    return None if row is None else mark(row, "difference", "story response", look="beside")


def story_check(own: Results) -> Markup:
    """Say in short whether ratings match the story, with the number and what is required."""
    row = own.row("manipulation")  # the first check decides
    if row is None:
        return NOT_MADE
    if not row["n_pairs"]:
        return Markup("inconclusive: {}.").format(row["note"])
    found = {FOLLOWS: "passed", DOES_NOT_FOLLOW: "failed"}.get(answer_in(row), "inconclusive")
    required = Markup("")
    if "least_response" in row:  # earlier versions required none
        required = Markup("; required: more than {}").format(show(row, "least_response", _least))
    return Markup("{}. {}{}.").format(found, capital(_response(row, own)), required)


def response_beside(own: Results) -> Markup:
    """Say how much higher the right emotion is rated without any identity."""
    row = own.row("manipulation", check="emotion")
    if row is None or not row["n_pairs"]:
        return Markup("")
    said = Markup("Do the ratings match the story? Without any identity, {}.").format(_response(row, own))
    if math.isfinite(row.number("share_higher")):
        said += Markup(" It was rated higher in {} of {} {}.").format(
            show(row, "share_higher", rate),
            show(row, "n_pairs", count),
            either(row.number("n_pairs"), "narrative", "narratives"),
        )
    return said


def share_of_response(row: PlacedRow) -> Markup:
    """Say what share of the response to the story δ or D is; empty unless ratings are shown to match the story."""
    if not math.isfinite(row.get("percent_of_response", math.nan)):
        return Markup("")
    return Markup("{}% of the model’s response to the story").format(show(row, "percent_of_response", magnitude))


def _response(row: PlacedRow, own: Results) -> Markup:
    """Say how much higher what should be rated higher was rated than the other."""
    spread = Markup("")
    if math.isfinite(row.number("ci_low")):
        spread = Markup(" ({} interval {})").format(own.level, show_interval(row))
    if row["check"] == "reply":
        words = "{}% of a reply’s own words are in its own story and {}% in another one, {} percentage points {}{}"
        ends = (show(row, end, magnitude) for end in ("mean_higher", "mean_lower", "difference"))
        return Markup(words).format(*ends, "less" if row.number("difference") < 0 else "more", spread)
    one, other = _CHECKED[str(row["check"])]
    return Markup("{} was rated {} points {} than {}{}").format(
        one, show(row, "difference", magnitude), "lower" if row.number("difference") < 0 else "higher", other, spread
    )


def plain_means(gap: PlacedRow, *, free: bool = False) -> tuple[Markup, bool]:
    """Write the plain means of both sides, and tell whether their difference and δ have opposite signs.

    ``free`` tells that δ counts only pairs described in different words, unlike these means.
    """
    inside, outside, delta = (gap.number(name) for name in ("raw_in", "raw_out", "delta"))
    if not (math.isfinite(inside) and math.isfinite(outside)):
        return Markup(""), False
    means = Markup("{} in-group and {} out-group").format(
        *(show(gap, name, unsigned) for name in ("raw_in", "raw_out"))
    )
    if abs(inside - outside) < _DUST or (inside < outside) == (delta < 0):
        same = fixed(inside - outside, decimals=2) == fixed(delta, decimals=2)
        why = "" if same else (
            f" Their difference is not δ: it still includes {'pairs that repeat a word, ' if free else ''}how high "
            "each perceiver rates everyone and how high everyone rates each experiencer."
        )  # fmt: skip
        return Markup("Plain means: {}.{}").format(means, why), False
    return (
        Markup(
            "The plain means point the other way: {}. They still include how high each perceiver rates everyone and "
            "how high everyone rates each experiencer; δ does not."
        ).format(means),
        True,
    )


def is_of_probabilities(own: Results, *, codes: Set[str]) -> bool:
    """Tell whether a gap is one of the model's probabilities that its most probable answers hardly show."""
    return "number_mass" in codes or any(
        row["of"] == "mode" and row.number("share") >= HARDLY_VARIES for row in own.rows("modes")
    )


def say_likely_answer(own: Results, *, codes: Set[str]) -> Markup:
    """Say what the model would write, if that hardly varies or is mostly no number."""
    said = []
    for row in own.rows("modes"):
        constant = row["of"] == "intensity" and row.number("n_values") == 1  # the verdict says so
        if row.number("share") >= HARDLY_VARIES and not constant:
            what = "The most probable number is" if row["of"] == "mode" else "The rating is"
            value, share, n = show(row, "value", scale_end), show(row, "share", rate), show(row, "n", count)
            said.append(
                Markup("{} {} in {} of {} {}.").format(
                    what, value, share, n, either(row.number("n"), "prompt", "prompts")
                )
            )
    whole = own.row("outcomes", pairs="all")
    if "number_mass" in codes and whole is not None:
        mass = show(whole, "mean_number_mass", rate)
        said.append(Markup("The model answers with a number at all with a probability of {} on average.").format(mass))
    return Markup(" ").join(said)


def constant(gap: PlacedRow | None, own: Results) -> Markup | None:
    """Say that the ratings do not vary; None if they do."""
    for row in own.rows("modes"):
        if row["of"] == "intensity" and row.number("n_values") == 1 and row.number("n") > 1:
            baselines = any(row["n_rated"] for row in own.rows("outcomes", pairs="baseline"))
            where = " between identities" if baselines else ""
            return Markup("Every rating{} was {}").format(where, show(row, "value", scale_end))
    if gap is not None and gap.number("sd_within") < _DUST and gap.number("n_answers") > 1:
        return Markup("Within each narrative all ratings are the same")
    return None


def _least(value: float) -> str:
    return fixed(value, decimals=2)


def reach_in_sd(rows: Sequence[PlacedRow], *, level: str) -> Markup:
    """Say how large a gap or change of measures the intervals leave possible."""
    in_sd = [row for row in rows if math.isfinite(row.number("sd_ci_low"))]
    if not in_sd:
        return Markup("")
    low = min(in_sd, key=lambda row: row.number("sd_ci_low"))
    high = max(in_sd, key=lambda row: row.number("sd_ci_high"))
    return Markup(": the {} intervals of single replies' measures reach from {} to {} standard deviations").format(
        level, show(low, "sd_ci_low", points), show(high, "sd_ci_high", points)
    )
