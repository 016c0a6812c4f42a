"""The statistics tables as the page shows them: which columns, in which words, rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rounded, rows_of, show, show_interval, show_rounded_interval
from audit.report.sentences import direction
from audit.tables.ratings import FORMATS
from audit.tables.shared import OVERALL
from audit.wording import SCOPES, bare_p, brief, count, dimension_title, fixed, plural, points, rate, unsigned

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
    "missing": "no rating, for any reason",
}
_CHECKS: Final = {
    "listwise": "complete narratives alone",
    "equal_narratives": "every narrative's own gap, equally weighted",
    "within_narratives": "least squares within narratives",
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
"""Checks that are the headline again where no rating is missing."""
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


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is shown.

    Attributes
    ----------
    head, rows
        The first column heads its rows.
    words
        Columns that hold words in place of numbers.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()


def gaps_table(rows: Sequence[tuple[str, Row]], *, level: str) -> Table:
    """Show the headline gaps, each in both scopes, with what sets their size in proportion."""
    head = ("dimension", "speaks of", "δ, points", f"{level} interval", "SE", "df", "p", "p, corrected")
    sizes = ("% of scale", "SD of ratings", "plain mean, in-group", "plain mean, out-group", Markup("d<sub>z</sub>"))
    return with_notes(
        (*head, *sizes, "narratives", "ratings", "estimator"),
        [
            (
                title,
                SCOPES[row["scope"]],
                *_estimate(row),
                show(row, "p_adjusted", bare_p),
                *(show(row, name, points) for name in ("percent_of_scale", "delta_sd")),
                *(show(row, name, unsigned) for name in ("raw_in", "raw_out")),
                show(row, "d_z", points),
                Markup("{} of {}").format(*(show(row, n, count) for n in ("n_narratives", "n_narratives_asked"))),
                show(row, "n_ratings", count),
                str(row["estimator"]),
            )
            for title, row in rows
        ],
        [row["note"] for _, row in rows],
        words=(1, 15),
    )


def with_notes(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], notes: Sequence[str], *, words: Sequence[int] = ()
) -> Table:
    """Put notes at the end of the rows, if there are any."""
    if not any(notes):
        return Table(head, tuple(rows), words=frozenset(words))
    noted = tuple((*row, note) for row, note in zip(rows, notes, strict=True))
    return Table((*head, "note"), noted, words=frozenset((*words, len(head))))


def _estimate(row: Row) -> tuple[str, str, str, str, str]:
    return (
        show(row, "delta_points", points),
        show_interval(row),
        show(row, "se", unsigned),
        show(row, "df", _degrees),
        show(row, "p", bare_p),
    )


def _degrees(df: float) -> str:
    """Write degrees of freedom: whole where they are."""
    return fixed(df, decimals=0 if df.is_integer() else 1)


def outcomes_table(outcomes: pd.DataFrame) -> Table | None:
    """Show what became of the prompts, by kind of pair."""
    if outcomes.empty:
        return None
    with_mass = bool(outcomes["mean_number_mass"].notna().any())
    beyond = tuple(
        (name, label)
        for name, label in (("n_below_scale", "below the scale"), ("n_above_scale", "above the scale"))
        if outcomes[name].any()
    )
    head = (
        *("pairs", "prompts", "rated", "refused", "unparseable", "failed", "at lower end", "at upper end"),
        *(label for _, label in beyond),
    )
    return Table(
        (*head, "mean number mass", "of low number mass") if with_mass else head,
        tuple(
            (
                _PAIRS.get(row["pairs"], str(row["pairs"])),
                show(row, "n_prompts", count),
                show(row, "n_rated", count),
                _counted(row, "n_refused", "refusal_rate"),
                _counted(row, "n_unparseable", "unparseable_rate"),
                show(row, "n_failed", count),
                show(row, "floor_share", rate),
                show(row, "ceiling_share", rate),
                *(show(row, name, count) for name, _ in beyond),
                *(show(row, name, rate) for name in ("mean_number_mass", "low_mass_share") if with_mass),
            )
            for row in rows_of(outcomes, "outcomes")
        ),
    )


def calls_table(calls: pd.DataFrame) -> Table | None:
    """Show what became of each call of a strategy; None where the question is all there is."""
    if not (calls["place"] > 0).any() and not (calls["n_shortened"] > 0).any():
        return None
    statuses = ("n_prompts", "n_written", "n_cut", "n_empty", "n_failed", "n_shortened")
    tokens = ("mean_prompt_tokens", "mean_tokens")
    return Table(
        ("call", "prompts", "written", "cut", "empty", "failed", "shortened", "tokens read", "tokens written"),
        tuple(
            (
                brief(str(row["call"])),
                *(show(row, name, count) for name in statuses),
                *(show(row, name, lambda value: fixed(value, decimals=1)) for name in tokens),
            )
            for row in rows_of(calls, "calls")
        ),
    )


def _counted(row: Row, number: str, share: str) -> str:
    return Markup("{} ({})").format(show(row, number, count), show(row, share, rate))


def missing_table(missing: pd.DataFrame, *, level: str) -> Table | None:
    """Show the gaps of refusals and other missing ratings; None where nothing is missing."""
    rows = rows_of(missing.loc[missing["n_with_outcome"] > 0], "missing")
    if not rows:
        return None
    return with_notes(
        ("outcome", "in-group", "out-group", "gap, percentage points", f"{level} interval", "p", "narratives"),
        [
            (
                _OUTCOMES.get(row["outcome"], str(row["outcome"])),
                show(row, "rate_in_group", rate),
                show(row, "rate_out_group", rate),
                show(row, "gap_pp", points),
                show_interval(row),
                show(row, "p", bare_p),
                show(row, "n_narratives", count),
            )
            for row in rows
        ],
        [row["note"] for row in rows],
    )


def beneath_tables(families: pd.DataFrame, *, level: str) -> Iterator[tuple[str, Table]]:
    """Show what lies beneath δ, family by family; of the pairs only those of the smallest p."""
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
        against = any(math.isfinite(row.number("change_points")) for row in rows)
        head = (_HEADS.get(family, family), "gap, points", f"{level} interval", "p", "p, corrected")
        rest = ("gap of the rest", "difference", "its p, corrected") if against else ()
        yield (
            shown,
            with_notes(
                (*head, *rest, "narratives"),
                [
                    (
                        " and ".join(brief(str(row[side])) for side in ("member", "partner") if row[side]),
                        show(row, "delta_points", points),
                        show_interval(row),
                        show(row, "p", bare_p),
                        show(row, "p_adjusted", bare_p),
                        *(show(row, name, points) for name in ("delta_rest", "change_points") if against),
                        *(show(row, name, bare_p) for name in ("change_p_adjusted",) if against),
                        show(row, "n_narratives", count),
                    )
                    for row in rows
                ],
                [row["note"] for row in rows],
            ),
        )


def heterogeneity_table(heterogeneity: pd.DataFrame) -> Table | None:
    """Show the tests of whether the gap is the same in all emotions and groups; None where there is none."""
    rows = rows_of(heterogeneity, "heterogeneity")
    if not rows:
        return None
    return with_notes(
        ("over all", "compared", "F", "df", "p", "p, corrected"),
        [
            (
                f"{row['over']}s",
                show(row, "n_members", count),
                show(row, "statistic", unsigned),
                Markup("{} and {}").format(*(show(row, name, _degrees) for name in ("df", "df_residual"))),
                show(row, "p", bare_p),
                show(row, "p_adjusted", bare_p),
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
    )


def sensitivity_table(sensitivity: pd.DataFrame, *, level: str) -> Table | None:
    """Show how δ changes under other assumptions; those about missing ratings only where one is missing."""
    complete = (sensitivity["check"] == "worst_case_low") & (sensitivity["share"] == 0)
    spared = _OF_MISSING if complete.any() else ()
    ratings = "ratings" if complete.any() else "ratings, filled ones included"
    rows = rows_of(sensitivity.loc[~sensitivity["check"].isin(spared)], "sensitivity")
    if not rows:
        return None
    return with_notes(
        ("instead of the headline", "δ, points", f"{level} interval", "p", "narratives", ratings, "share"),
        [
            (
                *_check(row),
                show_interval(row),
                show(row, "p", bare_p),
                show(row, "n_narratives", count),
                show(row, "n_ratings", count),
                Markup("{} {}").format(show(row, "share", rate), _SHARES[row["check"]])
                if row["check"] in _SHARES
                else "",
            )
            for row in rows
        ],
        [row["note"] for row in rows],
        words=(6,),
    )


def _check(row: Row) -> tuple[str, str]:
    """Name what is assumed, and write the δ that it gives."""
    shift = row.number("shift_points")
    if row["check"] != "tipping_point" or not math.isfinite(shift):
        return _CHECKS.get(row["check"], str(row["check"])), show(row, "delta_points", points)
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


def controls_table(controls: pd.DataFrame, *, level: str, titles: Sequence[str] = ()) -> Table | None:
    """Show what δ is without repeated words, and of invented groups; None where there is no such analysis.

    ``titles`` are columns that tell rows apart, such as the run.
    """
    rows = rows_of(controls, "controls")
    if not rows:
        return None
    return with_notes(
        (*titles, "of which pairs", "δ, points", f"{level} interval", "p", "narratives", "ratings"),
        [
            (
                *(dimension_title(str(row[name])) if name == "dimension" else brief(str(row[name])) for name in titles),
                _CONTROLS[str(row["control"])],
                show(row, "delta_points", points),
                show_interval(row),
                show(row, "p", bare_p),
                show(row, "n_narratives", count),
                show(row, "n_ratings", count),
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
        words=range(len(titles) + 1),
    )


def measure_controls_table(
    controls: pd.DataFrame, named: Callable[[Row], str], *, level: str, titles: Sequence[str] = ()
) -> Table | None:
    """Show the controls of measures of replies that have an estimate; None where none but all pairs has one.

    ``named`` tells a row's measure, ``titles`` are columns before it.
    """
    rows = [row for row in rows_of(controls, "measure_controls") if math.isfinite(row.number("delta"))]
    if not any(row["headline"] for row in rows):
        return None
    return with_notes(
        (*titles, "measure", "of which pairs", "δ", f"{level} interval", "p", "narratives", "replies"),
        [
            (
                *(brief(str(row[name])) for name in titles),
                named(row),
                _CONTROLS[str(row["control"])],
                show(row, "delta", rounded(row, "ci_low", "ci_high")),
                show_rounded_interval(row),
                show(row, "p", bare_p),
                show(row, "n_narratives", count),
                show(row, "n_replies", count),
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
        words=range(len(titles) + 2),
    )


_MANIPULATIONS: Final = {
    "emotion": "the narrative's own emotion, against a wrong one",
    "intensity": "the strong version of a situation, against the mild one",
}


def manipulation_table(manipulation: pd.DataFrame, *, level: str) -> Table | None:
    """Show whether ratings follow what is told where no identity is; None where that was not asked."""
    rows = rows_of(manipulation, "manipulation")
    if not rows:
        return None
    return with_notes(
        ("which is rated higher", "mean", "mean of the other", "difference, points", f"{level} interval", "narratives"),
        [
            (
                _MANIPULATIONS[str(row["check"])],
                *(show(row, name, unsigned) for name in ("mean_higher", "mean_lower")),
                show(row, "difference", points),
                show_interval(row),
                Markup("{} of {}").format(*(show(row, name, count) for name in ("n_pairs", "n_asked"))),
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
        words=(0, 5),
    )


def own_model_table(own_model: pd.DataFrame, *, level: str) -> Table | None:
    """Show the terms of the user's own model; None where there is none."""
    if own_model.empty:
        return None
    rows = rows_of(own_model, "own_model")
    return with_notes(
        ("term", "component", "estimate", f"{level} interval", "p"),
        [
            (
                str(row["term"]),
                str(row["component"]),
                show(row, "estimate", points),
                show_interval(row),
                show(row, "p", bare_p),
            )
            for row in rows
        ],
        [str(row["message"]) for row in rows],
        words=(1,),
    )


def human_table(human: pd.DataFrame, *, level: str) -> Table | None:
    """Show how far the model orders narratives as people do; None without people."""
    if human.empty:
        return None
    rows = rows_of(human, "human")
    return with_notes(
        (
            "emotion",
            "Spearman's ρ",
            f"{level} interval",
            "Kendall's τ",
            f"{level} interval",
            "p, corrected",
            "narratives",
        ),
        [
            (
                "all emotions together" if row["emotion"] == OVERALL else brief(str(row["emotion"])),
                show(row, "rho", points),
                show_interval(row, "rho_low", "rho_high"),
                show(row, "tau", points),
                show_interval(row, "tau_low", "tau_high"),
                show(row, "p" if row["emotion"] == OVERALL else "p_adjusted", bare_p),
                show(row, "n", count),
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
    )


def comparisons_table(comparisons: pd.DataFrame, *, level: str) -> Table | None:
    """Show the paired differences of δ between variants; None where there is one variant."""
    if comparisons.empty:
        return None
    rows = rows_of(comparisons, "comparisons")
    head = ("dimension", "first", "second", "δ, first", "δ, second", "change", f"{level} interval", "p, corrected")
    return with_notes(
        (*head, "unit", "narratives"),
        [
            (
                dimension_title(str(row["dimension"])),
                str(row["first"]),
                str(row["second"]),
                *(show(row, name, points) for name in ("delta_first", "delta_second", "delta_change")),
                show_interval(row),
                show(row, "p_adjusted", bare_p),
                str(row["unit"]),
                show(row, "n_narratives", count),
            )
            for row in rows
        ],
        [str(row["note"]) for row in rows],
        words=(1, 2, 8),
    )
