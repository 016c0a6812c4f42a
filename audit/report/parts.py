"""How a gap varies beneath its average, in words: an average near 0 can be made of opposite gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.report.numbers import Row, show
from audit.report.verdicts import few
from audit.wording import brief, dimension_title, fixed, listed, p_value, points, unsigned

_FAMILIES: Final = ("emotion", "group", "pair")
"""Families that are looked through for members that stand out."""
_OF_VERDICTS: Final = ("emotion", "group")
"""Families whose every member has to lie within the margin for a verdict that there is no gap larger than it."""
_NAMED: Final = 2
_TWO_DECIMALS: Final = 0.005


@dataclass(frozen=True, slots=True)
class Variation:
    """How a gap varies, in words, and whether that names something that was found."""

    words: Markup
    found: bool = False


def variation(families: Sequence[Row], tests: Sequence[Row], *, margin: Row | None, alpha: float) -> Variation:
    """Say which emotions, groups and pairs lie beyond the margin or differ from the rest; or that none was found to.

    Parameters
    ----------
    families
        Rows of the table of families, of one dimension and variant.
    tests
        Rows of the table of heterogeneity, likewise.
    margin
        A row that has the margin, if one was set.
    alpha
        Error rate of the tests. p are corrected within their family.

    Notes
    -----
    A pair of which a group is named already is left out: the group's own gap makes the pair's. So is a member that
    differs from the rest only since one of the rest, which is named, does: one odd group of twelve makes the other
    eleven differ from their rest, too.
    """
    within = math.nan if margin is None else margin.number("margin")
    own = [row for row in families if row["family"] in _FAMILIES]
    beyond = _without_consequences([row for row in own if _is_beyond(row, within, alpha=alpha)])
    differing = [row for family in _FAMILIES for row in _differing(own, family, beyond, alpha=alpha)]
    others = [row for row in _without_consequences([*beyond, *differing]) if row not in beyond]
    said = []
    if beyond and margin is not None:
        named = [_named(row) for row in _by_size(beyond, "delta_points")]
        size = show(margin, "margin", unsigned)
        said.append(Markup("Beyond the margin of {} points: {}.").format(size, few(named, at_most=_NAMED)))
    if others:
        named = [_named(row, rest=True) for row in _by_size(others, "change_points")]
        said.append(Markup("Different from the rest: {}.").format(few(named, at_most=_NAMED)))
    for test in tests:
        over = str(test["over"])
        if test.number("p_adjusted") < alpha and not any(row["family"] == over for row in (*beyond, *others)):
            words = Markup("Over all {}s together the gaps differ (corrected {}), though none was found to by itself.")
            said.append(words.format(over, show(test, "p_adjusted", p_value)))
    looked = [family for family in _FAMILIES if _was_tested(own, family)]
    if said:
        return Variation(Markup(" ").join(said), found=True)
    if not looked:
        return Variation(Markup("Whether it differs between emotions or groups could not be tested."))
    what = "lie beyond the margin or to differ from the rest" if math.isfinite(within) else "differ from the rest"
    words = Markup("No {} was found to {}; that does not show that none does.")
    return Variation(words.format(listed(looked, last="or"), what))


def parts_of(families: Sequence[Row]) -> list[str]:
    """Name the kinds of parts that a verdict about all of them is about; none where there are none."""
    return [family for family in _OF_VERDICTS if any(row["family"] == family for row in families)]


def of_dimensions(gaps: Mapping[str, Row]) -> Markup:
    """Say what a mean over dimensions is made of."""
    parts = [
        Markup("{} {}").format(dimension_title(dimension), show(row, "delta_points", points))
        for dimension, row in gaps.items()
    ]
    return Markup("The mean of {}.").format(few(parts, at_most=len(parts)))


def _is_beyond(row: Row, margin: float, *, alpha: float) -> bool:
    """Whether a member's gap is found, after correction, and its interval lies beyond the margin."""
    return row.number("p_adjusted") < alpha and (row.number("ci_low") > margin or row.number("ci_high") < -margin)


def _differing(rows: Sequence[Row], family: str, named: Sequence[Row], *, alpha: float) -> list[Row]:
    """Members of a family that differ from the rest after correction, and from the rest without those named, too."""
    own = [row for row in rows if row["family"] == family and math.isfinite(row.number("change_points"))]
    found = [row for row in own if row.number("change_p_adjusted") < alpha]
    least = min((_distance(row, row.number("change_points")) for row in found), default=math.inf)
    out = [row for row in own if row in named]
    for row in sorted(found, key=lambda row: -abs(row.number("change_points"))):
        rest = [other.number("delta_points") for other in own if other is not row and other not in out]
        change = row.number("delta_points") - math.fsum(rest) / len(rest) if rest else math.inf
        if row not in out and _distance(row, change) >= least:
            out.append(row)
    return out


def _distance(row: Row, change: float) -> float:
    """Measure a difference from the rest in standard errors."""
    return abs(change) / row.number("change_se") if row.number("change_se") > 0 else math.inf


def _was_tested(rows: Sequence[Row], family: str) -> bool:
    return any(row["family"] == family and math.isfinite(row.number("change_p_adjusted")) for row in rows)


def _without_consequences(rows: Sequence[Row]) -> list[Row]:
    """Leave out the pairs of a group that is there itself."""
    groups = {row["member"] for row in rows if row["family"] == "group"}
    return list(_unique(row for row in rows if row["family"] != "pair" or not {row["member"], row["partner"]} & groups))


def _unique(rows: Iterator[Row]) -> Iterator[Row]:
    seen = set()
    for row in rows:
        if row.line not in seen:
            seen.add(row.line)
            yield row


def _by_size(rows: Sequence[Row], column: str) -> list[Row]:
    return sorted(rows, key=lambda row: -abs(row.number(column)))


def _title(row: Row, *, several: bool = False) -> Markup:
    name = Markup("\N{EN DASH}").join(
        Markup("<bdi>{}</bdi>").format(brief(str(row[side]), at_most=40)) for side in ("member", "partner") if row[side]
    )
    return Markup("{} ({})").format(name, dimension_title(str(row["dimension"]))) if several else name


def _named(row: Row, *, rest: bool = False) -> Markup:
    if not rest or not math.isfinite(row.number("delta_rest")):
        return Markup("{} {}").format(_title(row), show(row, "delta_points", points))
    # Two numbers that are held against each other have as many decimals.
    size = max(abs(row.number(name)) for name in ("delta_points", "delta_rest"))
    write = partial(fixed, decimals=2, signed=True) if size >= _TWO_DECIMALS else points
    return Markup("{} {} (rest {})").format(
        _title(row), show(row, "delta_points", write), show(row, "delta_rest", write)
    )
