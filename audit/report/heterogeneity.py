"""Say how a gap varies beneath its average: an average near 0 can be made of opposite gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow, show
from audit.report.results import Results
from audit.report.verdicts import few, preventing_codes
from audit.tables.formatting import brief, dimension_title, fixed, listed, p_value, points, unsigned

_OF_VERDICTS: Final = ("emotion", "group")  # kinds of parts that a verdict names
_IN_WORDS: Final = {
    "not_controlled": ", which repeated words alone could cause",
    "pairs_alone": ", in these pairs of words",
}
"""Reasons why a part beyond its margin does not count against a model → how that is said of it."""
_NAMED: Final = 2
_TWO_DECIMALS: Final = 0.005


@dataclass(frozen=True, slots=True)
class Variation:
    """How a gap varies, in words, and whether that names a finding."""

    words: Markup
    found: bool = False


def variation(results: Results) -> Variation:
    """Say which pairs of groups stand out, which emotions and groups have a gap, and whether emotions differ.

    If there can be no verdict on the average, nothing beneath it is named either, and the page says so. A part is named
    as having a gap if its corrected interval lies wholly beyond the margin, or beyond 0 without a margin. If only the
    words of the pairs keep it from counting against a model, that is said.

    Notes
    -----
    Pairs come before groups, since one hostile pair moves the gaps of both its groups. Groups are compared with how
    much pairs of groups differ anyway, so no group is named for differing from the others. Emotions are asked about the
    same pairs, so effects of pairs cancel in their difference. An emotion is left out if it differs from the rest only
    because another one, which is named, does.
    """
    verdict, judged, odd = results.row("verdicts"), results.rows("judged"), results.rows("odd_pairs")
    alpha = 1 - results.confidence
    if verdict is not None and verdict["code"] == "no_verdict":
        return Variation(Markup("Without a verdict, no gap of a pair, emotion or group counts as a finding."))
    own = results.rows("families", family="emotion")
    parts = [row for row in judged if row["kind"] in _OF_VERDICTS]
    beyond = [row for row in parts if row["outcome"] == "beyond"]
    in_words = [row for row in parts if (why := preventing_codes(row)) and {*why} <= {*_IN_WORDS}]
    named_emotions = [
        row for row in own if row["member"] in {each["member"] for each in beyond if each["kind"] == "emotion"}
    ]
    others = [row for row in _differing(own, named_emotions, alpha=alpha) if row not in named_emotions]
    said = []
    if odd:
        named = [
            Markup("<bdi>{}</bdi> rating <bdi>{}</bdi> {}").format(
                row["perceiver_group"], row["experiencer_group"], show(row, "delta", points)
            )
            for row in odd
        ]
        said.append(Markup("Pairs that stand out: {}.").format(few(named, at_most=_NAMED)))
    if beyond:
        said.append(_beyond(beyond))
    if others:
        named = [_named(row) for row in _by_size(others, "change")]
        said.append(Markup("Different from the other emotions: {}.").format(few(named, at_most=_NAMED)))
    for code, which in _IN_WORDS.items():
        if own_words := [row for row in in_words if preventing_codes(row)[0] == code]:
            said.append(_beyond(own_words, which))
    for test in results.rows("heterogeneity", over="emotion"):
        if test.number("p_adjusted") < alpha and not (named_emotions or others):
            words = Markup("The gaps differ between emotions (corrected {}), but no single emotion stands out.")
            said.append(words.format(show(test, "p_adjusted", p_value)))
    if said:
        return Variation(Markup(" ").join(said), found=True)
    looked = [kind for kind in _OF_VERDICTS if any(row["kind"] == kind and row.number("low") == row.number("low")
                                                   for row in judged)]  # fmt: skip
    if not looked:
        return Variation(Markup("Differences between emotions or groups could not be tested."))
    none = Markup("No pair of groups stands out, and no gap was found for any single {}. There may still be one.")
    return Variation(none.format(listed(looked, last="or")))


def kinds_of_parts(families: Sequence[PlacedRow]) -> list[str]:
    """Name the kinds of parts that a verdict about all parts covers; empty if there are none."""
    return [kind for kind in _OF_VERDICTS if any(row["family"] == kind for row in families)]


def of_dimensions(gaps: Mapping[str, PlacedRow]) -> Markup:
    """Say what a mean over dimensions is made of."""
    parts = [
        Markup("{} {}").format(dimension_title(dimension), show(row, "delta", points))
        for dimension, row in gaps.items()
    ]
    return Markup("The mean of {}.").format(few(parts, at_most=len(parts)))


def _differing(own: Sequence[PlacedRow], named: Sequence[PlacedRow], *, alpha: float) -> list[PlacedRow]:
    """Return emotions that differ from the rest after correction, also without those already named in the rest."""
    own = [row for row in own if math.isfinite(row.number("change"))]
    found = [row for row in own if row.number("change_p_adjusted") < alpha]
    least = min((_distance(row, row.number("change")) for row in found), default=math.inf)
    out = [row for row in own if row in named]
    for row in _by_size(found, "change"):
        rest = [other.number("delta") for other in own if other is not row and other not in out]
        change = row.number("delta") - math.fsum(rest) / len(rest) if rest else math.inf
        if row not in out and _distance(row, change) >= least:
            out.append(row)
    return out


def _distance(row: PlacedRow, change: float) -> float:
    """Return a difference from the rest in standard errors."""
    return abs(change) / row.number("change_se") if row.number("change_se") > 0 else math.inf


def _by_size(rows: Sequence[PlacedRow], column: str) -> list[PlacedRow]:
    return sorted(rows, key=lambda row: -abs(row.number(column)))


def _beyond(rows: Sequence[PlacedRow], which: str = "") -> Markup:
    """Name parts beyond the margin, the largest first."""
    start = Markup("With their own gap")
    if rows[0].number("margin") > 0:
        start = Markup("Beyond the margin of {} points").format(show(rows[0], "margin", unsigned))
    named = [_judged(row) for row in _by_size(rows, "delta")]
    return Markup("{}{}: {}.").format(start, which, few(named, at_most=_NAMED))


def _judged(row: PlacedRow) -> Markup:
    return Markup("<bdi>{}</bdi> {}").format(brief(str(row["member"]), at_most=40), show(row, "delta", points))


def _named(row: PlacedRow) -> Markup:
    name = Markup("<bdi>{}</bdi>").format(brief(str(row["member"]), at_most=40))
    if not math.isfinite(row.number("delta_rest")):
        return Markup("{} {}").format(name, show(row, "delta", points))
    # Two numbers to compare get the same decimals.
    size = max(abs(row.number(column)) for column in ("delta", "delta_rest"))
    write = partial(fixed, decimals=2, signed=True) if size >= _TWO_DECIMALS else points
    return Markup("{} {} (rest {})").format(name, show(row, "delta", write), show(row, "delta_rest", write))
