"""The statistics tables as the page shows them: which columns, in which words, rounded.

A table shown without further text is listed once, in :data:`SHOWN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

import pandas as pd
from markupsafe import Markup

from audit.report.dimensions import Key
from audit.report.numbers import Row, rounded, rows_of, show, show_rounded_interval
from audit.report.section import Block, captioned, section
from audit.report.sentences import ALONE, direction
from audit.report.table_layout import Column, Table, interval, number, out_of, speaks_of, table_of, text
from audit.tables.formatting import SCOPES, bare_p, brief, count, dimension_title, fixed, plural, points, rate, unsigned
from audit.tables.ratings import FORMATS
from audit.tables.shared import OVERALL

_PAIRS: Final = {
    "in_group": "in-group pairs",
    "out_group": "out-group pairs",
    "baseline": "pairs with a baseline",
    "all": "all pairs",
}
_FAMILIES: Final = {
    "uplift": "Against the unspecified perceiver: what of δ is in-group rated higher, and what out-group rated lower",
    "degree": "Gap by the number of shared dimensions, against sharing none",
    "valence": "δ within positive, negative and neutral emotions",
    "emotion": "δ within each emotion",
    "cluster": "Cultural clusters: pairs within one, and each cluster's gap to the others",
    "group": "Each group's own gap: its ratings of its own, beyond how it rates others and others rate it",
    "cue": "δ by how experiencers' terms tell their group: by its label, a first name, or what its members do",
    "pair": "Gaps of pairs of groups",
}
_HEADS: Final = {"uplift": "part", "degree": "shared dimensions"}
_SHOWN_PAIRS: Final = 20
_OUTCOMES: Final = {
    "refused": "refused",
    "unparseable": "unparseable",
    "failed": "failed",
    "inexact": "known too inexactly",
    "missing": "no rating, for any reason",
}
_CHECKS: Final = {
    "listwise": "complete narratives alone",
    "equal_narratives": "every narrative's own gap, equally weighted",
    "within_narratives": "least squares within narratives",
    "mixed_crossed": "a mixed model with random perceivers and experiencers",
    "worst_case_low": "every missing rating at the end that lowers δ most",
    "worst_case_high": "every missing rating at the end that raises δ most",
    "tipping_point": "every missing rating shifted until δ is 0",
    "number_mass_weighted": "ratings weighted by number mass",
    "number_mass_above": "ratings of enough number mass alone",
    "ranks": "ranks within each narrative (percentile points)",
    "mode": "the most probable number in place of the mean",
    "tobit": "a scale that goes on beyond its ends (tobit)",
}
_OF_MISSING: Final = ("listwise", "worst_case_low", "worst_case_high", "tipping_point")
"""Checks that equal the headline if no rating is missing."""
_MISSING_SHARE: Final = "of prompts without a rating"
_SHARES: Final = {
    "listwise": "of narratives complete",
    "worst_case_low": _MISSING_SHARE,
    "worst_case_high": _MISSING_SHARE,
    "tipping_point": _MISSING_SHARE,
    "number_mass_weighted": "of prompts below the minimum",
    "number_mass_above": "of ratings kept",
    "tobit": "of ratings at an end",
}


def gaps_table(rows: Sequence[tuple[str, Row]], *, alone: Set[Key] = frozenset(), level: str) -> Table:
    """Show the headline gaps, each in both scopes, with their sizes in proportion.

    ``rows`` have a title each. ``alone`` are dimensions and variants whose verdict rests on other numbers than the gap
    over narratives alone.
    """
    titles = {row.line: title for title, row in rows}

    def speaks_of(row: Row) -> str:
        narrow = row["scope"] == "narratives" and (str(row["dimension"]), str(row["variant"])) in alone
        return f"{SCOPES[row['scope']]}, {ALONE}" if narrow else SCOPES[row["scope"]]

    return table_of(
        [row for _, row in rows],
        Column("dimension", lambda row: titles[row.line]),
        Column("speaks of", speaks_of, words=True),
        number("δ, points", "delta", points),
        interval(level),
        number("SE", "se", unsigned),
        number("df", "df", _degrees),
        number("p", "p", bare_p),
        number("p, corrected", "p_adjusted", bare_p),
        number("% of scale", "percent_of_scale", points),
        number("SD of ratings", "delta_sd", points),
        number("plain mean, in-group", "raw_in", unsigned),
        number("plain mean, out-group", "raw_out", unsigned),
        number(Markup("d<sub>z</sub>"), "d_z", points),
        out_of("narratives", "n_narratives", "n_narratives_asked"),
        number("ratings", "n_answers", count),
        text("estimator", "estimator"),
        note="note",
    )


def _degrees(df: float) -> str:
    """Format degrees of freedom: whole numbers as such."""
    return fixed(df, decimals=0 if df.is_integer() else 1)


def outcomes_table(outcomes: pd.DataFrame) -> Table:
    """Show the outcomes of prompts, by kind of pair."""
    with_mass = bool(outcomes["mean_number_mass"].notna().any())
    beyond = (("below the scale", "n_below_scale"), ("above the scale", "n_above_scale"))
    masses = (("mean number mass", "mean_number_mass"), ("of low number mass", "low_mass_share"))
    return table_of(
        rows_of(outcomes, "outcomes"),
        Column("pairs", lambda row: _PAIRS.get(row["pairs"], str(row["pairs"]))),
        number("prompts", "n_prompts", count),
        number("rated", "n_rated", count),
        Column("refused", lambda row: _counted(row, "n_refused", "refusal_rate")),
        Column("unparseable", lambda row: _counted(row, "n_unparseable", "unparseable_rate")),
        number("failed", "n_failed", count),
        *(number(head, name, count) for head, name in (("inexact", "n_inexact"),) if outcomes[name].any()),
        number("at lower end", "floor_share", rate),
        number("at upper end", "ceiling_share", rate),
        *(number(head, name, count) for head, name in beyond if outcomes[name].any()),
        *(number(head, name, rate) for head, name in masses if with_mass),
    )


def calls_table(calls: pd.DataFrame) -> Table | None:
    """Show the outcomes of each call of a strategy; None if the question is the only call."""
    if not (calls["place"] > 0).any() and not (calls[["n_shortened", "n_cut"]] > 0).any(axis=None):
        return None
    return table_of(
        rows_of(calls, "calls"),
        Column("call", lambda row: brief(str(row["call"]))),
        *(number(name, f"n_{name}", count) for name in ("prompts", "written", "cut", "empty", "failed", "shortened")),
        number("tokens read", "mean_prompt_tokens", partial(fixed, decimals=1)),
        number("tokens written", "mean_tokens", partial(fixed, decimals=1)),
    )


def _counted(row: Row, number: str, share: str) -> str:
    return Markup("{} ({})").format(show(row, number, count), show(row, share, rate))


def missing_table(missing: pd.DataFrame, *, level: str) -> Table:
    """Show the gaps of refusals and other missing ratings that occur."""
    return table_of(
        rows_of(missing.loc[missing["n_with_outcome"] > 0], "missing"),
        Column("outcome", lambda row: _OUTCOMES.get(row["outcome"], str(row["outcome"]))),
        number("in-group", "rate_in_group", rate),
        number("out-group", "rate_out_group", rate),
        number("gap, percentage points", "gap_pp", points),
        interval(level),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        note="note",
    )


def beneath_tables(families: pd.DataFrame, *, level: str) -> Iterator[tuple[str, Table]]:
    """Yield a table for each family of contrasts; of pairs only those with the smallest p."""
    for family, title in _FAMILIES.items():
        own = families.loc[families["family"] == family]
        if own.empty:
            continue
        n_tests = own["family_size"].max()
        shown = f"{title} (p corrected by {own['method'].iloc[0]} for {plural(n_tests, 'test')})" if n_tests else title
        rows = rows_of(own.sort_values("p", kind="stable") if family == "pair" else own, "families")
        if family == "pair" and len(rows) > _SHOWN_PAIRS:
            rows = rows[:_SHOWN_PAIRS]
            shown += f": the {_SHOWN_PAIRS} of {count(len(own))} with the smallest p; all are in tables/families.csv"
        rest = (
            number("gap of the rest", "delta_rest", points),
            number("difference", "change", points),
            number("its p, corrected", "change_p_adjusted", bare_p),
        )
        yield (
            shown,
            table_of(
                rows,
                Column(_HEADS.get(family, family), _members),
                number("gap, points", "delta", points),
                interval(level),
                number("p", "p", bare_p),
                number("p, corrected", "p_adjusted", bare_p),
                *(rest if any(math.isfinite(row.number("change")) for row in rows) else ()),
                number("narratives", "n_narratives", count),
                note="note",
            ),
        )


def _members(row: Row) -> str:
    return " and ".join(brief(str(row[side])) for side in ("member", "partner") if row[side])


def heterogeneity_table(heterogeneity: pd.DataFrame) -> Table:
    """Show the tests of whether the gap is the same in all emotions and groups."""
    return table_of(
        rows_of(heterogeneity, "heterogeneity"),
        Column("over all", lambda row: f"{row['over']}s"),
        number("compared", "n_members", count),
        number("F", "statistic", unsigned),
        Column("df", lambda row: Markup("{} and {}").format(*(show(row, n, _degrees) for n in ("df", "df_residual")))),
        number("p", "p", bare_p),
        number("p, corrected", "p_adjusted", bare_p),
        note="note",
    )


def sensitivity_table(sensitivity: pd.DataFrame, *, level: str) -> Table:
    """Show how δ changes under other assumptions; those about missing ratings only if one is missing."""
    complete = (sensitivity["check"] == "worst_case_low") & (sensitivity["share"] == 0)
    spared = _OF_MISSING if complete.any() else ()
    return table_of(
        rows_of(sensitivity.loc[~sensitivity["check"].isin(spared)], "sensitivity"),
        Column("instead of the headline", lambda row: _check(row)[0]),
        Column("δ, points", lambda row: _check(row)[1]),
        interval(level),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        number("ratings" if complete.any() else "ratings, filled ones included", "n_answers", count),
        Column("share", _share, words=True),
        note="note",
    )


def _share(row: Row) -> str:
    return Markup("{} {}").format(show(row, "share", rate), _SHARES[row["check"]]) if row["check"] in _SHARES else ""


def _check(row: Row) -> tuple[str, str]:
    """Name an assumption, and write the δ under it."""
    shift = row.number("shift_points")
    if row["check"] != "tipping_point" or not math.isfinite(shift):
        return _CHECKS.get(row["check"], str(row["check"])), show(row, "delta", points)
    size = show(row, "shift_points", lambda value: unsigned(abs(value)))
    said = Markup("every missing rating {} points {} than is expected of it").format(size, direction(shift))
    return said, points(0.0)


_CONTROLS: Final = {
    "all_terms": "in whatever words",
    "echo_free": "without a word in common",
    "echo": "what the very same words add",
    "same_words": "in the very same words",
    "placebo": "the same, of invented groups",
    "placebo_difference": "real minus invented groups",
    "wording": "over wordings, and any such wordings",
    "elicitation": "a sample, answered in words",
    "noise": "what asking again changes",
    **{f"noise_{name}": f"what {name} changes" for name in FORMATS},
}


def controls_table(controls: pd.DataFrame, *, level: str, titles: Sequence[str] = ()) -> Table:
    """Show δ without repeated words, and of invented groups.

    ``titles`` are columns that distinguish rows, such as the run.
    """
    return table_of(
        rows_of(controls, "controls"),
        *(Column(name, partial(_titled, name=name), words=True) for name in titles),
        Column("of which pairs", lambda row: _CONTROLS[str(row["control"])], words=True),
        number("δ, points", "delta", points),
        interval(level),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        number("ratings", "n_answers", count),
        note="note",
    )


def measure_controls_table(
    controls: pd.DataFrame, named: Callable[[Row], str], *, level: str, titles: Sequence[str] = ()
) -> Table | None:
    """Show the estimable controls of measures of replies; None if only that of all pairs is.

    ``named`` names a row's measure, ``titles`` are columns before it.
    """
    rows = [row for row in rows_of(controls, "controls") if math.isfinite(row.number("delta"))]
    if not any(row["headline"] for row in rows):
        return None
    return table_of(
        rows,
        *(Column(name, partial(_titled, name=name), words=True) for name in titles),
        Column("measure", named, words=True),
        Column("of which pairs", lambda row: _CONTROLS[str(row["control"])], words=True),
        Column("δ", lambda row: show(row, "delta", rounded(row, "ci_low", "ci_high"))),
        Column(f"{level} interval", show_rounded_interval),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        number("replies", "n_answers", count),
        note="note",
    )


def _titled(row: Row, *, name: str) -> str:
    return dimension_title(str(row[name])) if name == "dimension" else brief(str(row[name]))


_MANIPULATIONS: Final = {
    "emotion": "the narrative's own emotion, against a wrong one",
    "intensity": "the strong version of a situation, against the mild one",
}
_FOLLOWED: Final = {"follows": "yes", "does_not_follow": "no", "not_shown": "not shown"}


def manipulation_table(manipulation: pd.DataFrame, *, level: str) -> Table:
    """Show whether ratings follow the narrative when no identity is given."""
    return table_of(
        rows_of(manipulation, "manipulation"),
        Column("which is rated higher", lambda row: _MANIPULATIONS[str(row["check"])], words=True),
        number("mean", "mean_higher", unsigned),
        number("mean of the other", "mean_lower", unsigned),
        number("difference, points", "difference", points),
        interval(level),
        number("least response", "least_response", unsigned),
        Column("followed", lambda row: _FOLLOWED[str(row["answer"])], words=True),
        number("higher in", "share_higher", rate),
        out_of("narratives", "n_pairs", "n_asked", words=True),
        *([number("narratives to decide", "n_needed", count)] if manipulation["n_needed"].notna().any() else []),
        note="note",
    )


def own_model_table(own_model: pd.DataFrame, *, level: str) -> Table:
    """Show the terms of the user's own model."""
    return table_of(
        rows_of(own_model, "own_model"),
        Column("term", lambda row: str(row["term"])),
        text("component", "component"),
        number("estimate", "estimate", points),
        interval(level),
        number("p", "p", bare_p),
        note="message",
    )


def human_table(human: pd.DataFrame, *, level: str) -> Table:
    """Show how far the model orders narratives as people do."""
    return table_of(
        rows_of(human, "human"),
        Column("emotion", emotion_of),
        number("Spearman's ρ", "rho", points),
        interval(level, "rho_low", "rho_high"),
        number("Kendall's τ", "tau", points),
        interval(level, "tau_low", "tau_high"),
        Column("p, corrected", lambda row: show(row, "p" if row["emotion"] == OVERALL else "p_adjusted", bare_p)),
        number("narratives", "n", count),
        note="note",
    )


def emotion_of(row: Row) -> str:
    """Name a row's emotion, or say that it is of all emotions."""
    return "all emotions together" if row["emotion"] == OVERALL else brief(str(row["emotion"]))


def comparisons_table(comparisons: pd.DataFrame, *, level: str) -> Table:
    """Show the paired differences of δ between variants, or between runs."""
    return table_of(
        rows_of(comparisons, "comparisons"),
        Column("dimension", lambda row: dimension_title(str(row["dimension"]))),
        text("first", "first"),
        text("second", "second"),
        number("δ, first", "delta_first", points),
        number("δ, second", "delta_second", points),
        number("change", "delta_change", points),
        interval(level),
        number("p, corrected", "p_adjusted", bare_p),
        speaks_of("scope"),
        text("unit", "unit"),
        number("narratives", "n_narratives", count),
        note="note",
    )


class LayOut(Protocol):
    """Lays out a table from its rows; ``level`` is the coverage of the intervals in words."""

    def __call__(self, rows: pd.DataFrame, /, *, level: str) -> Table | None: ...  # noqa: D102


class Place(Enum):
    """Position of a table on the page of a run of ratings."""

    ALL_GAPS = auto()
    """About all dimensions together."""
    PROMPTS = auto()
    """One dimension: outcomes of its prompts."""
    DELTA = auto()
    """One dimension: what δ is made of."""
    LAST = auto()
    """One dimension: after everything about δ."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A statistics table that the page shows without further text.

    Attributes
    ----------
    name
        In ``tables.TABLES``.
    place
        Tables of one place are shown in the order of :data:`SHOWN`.
    lay_out
        May return None, or a table without rows, to leave it out.
    heading
        Heading to unfold it by; if empty, it is always visible.
    """

    name: str
    place: Place
    caption: str
    lay_out: LayOut
    heading: str = ""


SHOWN: Final = (
    Shown(
        "manipulation",
        Place.ALL_GAPS,
        "Does the model follow what is told? Ratings without any identity, followed where the interval lies above the "
        "least response and not followed where it lies below. The check of emotions decides: a model that does not "
        "follow has no verdict. If it does not follow intensities alone, no gap is ruled out",
        manipulation_table,
    ),
    Shown(
        "comparisons",
        Place.ALL_GAPS,
        "Paired differences of δ between variants, on the narratives both have",
        comparisons_table,
    ),
    Shown(
        "calls",
        Place.PROMPTS,
        "what became of the strategy's calls. Cut: at the most tokens that a stage may write. Shortened: earlier calls "
        "or examples left out for want of room",
        lambda rows, *, level: calls_table(rows),
    ),
    Shown(
        "outcomes",
        Place.PROMPTS,
        "what became of the prompts, and ratings at the ends of the scale",
        lambda rows, *, level: outcomes_table(rows),
    ),
    Shown(
        "missing",
        Place.PROMPTS,
        "ratings that are missing, as shares of prompts, and their own gap",
        missing_table,
    ),
    Shown(
        "controls",
        Place.DELTA,
        "group or words? δ without repeated words, and of invented groups",
        controls_table,
    ),
    Shown(
        "own_model",
        Place.LAST,
        "terms of the formula in statistics.formula, by statsmodels",
        own_model_table,
        heading="Your own model",
    ),
)
"""Tables that the page shows without further text. To show another one, list it here."""


def shown_at(
    place: Place, tables: Mapping[str, pd.DataFrame], *, level: str, title: str = ""
) -> Iterator[Block | None]:
    """Yield the tables shown at one place of the page.

    ``tables`` has the rows to show; ``title`` goes before each caption, if there is one.
    """
    for each in SHOWN:
        if each.place == place:
            caption = f"{title}: {each.caption}" if title else each.caption
            shown = captioned(each.lay_out(tables[each.name], level=level), caption)
            yield section(each.heading, shown, look="folded") if each.heading else shown
