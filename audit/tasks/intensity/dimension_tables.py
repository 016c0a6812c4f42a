"""The tables of a ratings page: which columns of each, in which words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from typing import Final

from markupsafe import Markup

from audit.report.dimensions import Key
from audit.report.numbers import PlacedRow, show
from audit.report.results import Results
from audit.report.section import Captioned
from audit.report.sentences import ALONE, direction
from audit.report.table_layout import IfKnown, ShownColumn, degrees, interval_column, out_of, said
from audit.report.tables import COMPARISONS, CONTROLS, MANIPULATION, calls
from audit.tables.formatting import SCOPES, bare_p, brief, count, magnitude, plural, points, rate
from audit.tables.shared import OVERALL

_PAIRS: Final = {
    "in_group": "in-group pairs",
    "out_group": "out-group pairs",
    "baseline": "pairs with a baseline",
    "all": "all pairs",
}
_FAMILIES: Final = {
    "uplift": "Relative to the unspecified perceiver: how much of δ is in-group rated higher, and out-group rated "
    "lower",
    "degree": "Gap by the number of shared dimensions, relative to sharing none",
    "valence": "δ of positive, negative and neutral emotions",
    "emotion": "δ of each emotion",
    "cluster": "Cultural clusters: pairs within a cluster, and each cluster's gap to the others",
    "group": "Each group's own gap: how much higher it rates its own than expected from its other ratings",
    "cue": "δ by how terms name the experiencer's group: a label, a first name, or what its members do",
    "pair": "Gaps of pairs of groups",
}
_HEADS: Final = {"uplift": "part", "degree": "shared dimensions"}
_SHOWN_PAIRS: Final = 20
_OUTCOMES: Final = {"inexact": "too inexact", "missing": "no rating, for any reason"}
_CHECKS: Final = {
    "listwise": "only complete narratives",
    "equal_narratives": "all narratives' gaps weighted equally",
    "within_narratives": "least squares within narratives",
    "mixed_crossed": "a mixed model with random perceivers and experiencers",
    "worst_case_low": "all missing ratings at the end that lowers δ most",
    "worst_case_high": "all missing ratings at the end that raises δ most",
    "tipping_point": "all missing ratings shifted until δ is 0",
    "number_mass_weighted": "ratings weighted by number mass",
    "number_mass_above": "only ratings with enough number mass",
    "ranks": "ranks within each narrative (percentile points)",
    "mode": "the most probable number instead of the mean",
    "tobit": "a scale without ends (tobit)",
}
_OF_MISSING: Final = ("listwise", "worst_case_low", "worst_case_high", "tipping_point")
"""Checks that equal the headline if no rating is missing."""
_MISSING_SHARE: Final = "of prompts without a rating"
_SHARES: Final = {
    "listwise": "of narratives are complete",
    "worst_case_low": _MISSING_SHARE,
    "worst_case_high": _MISSING_SHARE,
    "tipping_point": _MISSING_SHARE,
    "number_mass_weighted": "of prompts below the minimum",
    "number_mass_above": "of ratings kept",
    "tobit": "of ratings at an end",
}
_GROWS: Final = {
    "grows": "yes", "shrinks": "no, it shrinks", "higher": "yes: rated higher", "lower": "no: rated lower",
    "not_shown": "not shown",
    "too_few_groups": "not shown: too few groups to show it", "": "not known",
}  # fmt: skip
"""What a covariate's answer says of the gap or the disparity, in words."""
_OF_COVARIATE: Final = {
    "pairs": "the gap: how much lower out-group pairs are rated", "groups": "the gap: each group's own",
    "disparity": "the disparity of each group",
}  # fmt: skip


# --- All dimensions together -----------------------------------------------------------------------------------------


def gaps(
    results: Results, titled: Sequence[tuple[str, PlacedRow]], *, alone: Set[Key]
) -> tuple[Captioned | None, Captioned | None]:
    """Show the headline gaps, each in both scopes, and in a table of its own how they were estimated."""
    titles = {row.line: title for title, row in titled}

    def speaks_of(row: PlacedRow) -> str:
        narrow = row["scope"] == "narratives" and (str(row["dimension"]), str(row["variant"])) in alone
        return f"{SCOPES[row['scope']]}, {ALONE}" if narrow else SCOPES[row["scope"]]

    heads = ShownColumn("dimension", lambda row: titles[row.line]), ShownColumn("speaks of", speaks_of, words=True)
    rows = [row for _, row in titled]
    return results.table(
        "gap", "In-group minus out-group, with both intervals", *heads,
        "delta", "ci_low", "p", "p_adjusted", "percent_of_scale",
        out_of("narratives", "n_narratives", "n_narratives_asked"), "n_answers", "note",
        rows=rows,
    ), results.table(
        "gap", "How each gap was estimated", *heads,
        "se", "df", ("delta_sd", "SD of ratings"), ("raw_in", "plain mean, in-group"),
        ("raw_out", "plain mean, out-group"), "d_z", "estimator",
        rows=rows,
    )  # fmt: skip


def manipulation(results: Results) -> Captioned | None:
    """Show whether ratings match the story when no identity is given."""
    return results.table(
        "manipulation",
        "Do the ratings match the story? Ratings without any identity. The check is passed if the interval is above "
        "the required difference, and failed if it is below. If the check of emotions fails, there is no verdict. If "
        "only the check of intensities fails, a gap can be found, but not that there is none",
        *MANIPULATION,
    )


def trials(results: Results) -> Captioned | None:
    """Show the ways to elicit ratings that were tried."""
    return results.table(
        "trials",
        "Ways to obtain ratings that were tried, the simplest first",
        "method",
        ShownColumn("answer begun with", lambda row: Markup("<q>{}</q>").format(row["begun"]) if row["begun"] else ""),
        ("mean_higher", "mean of the own emotion"), ("mean_lower", "mean of a wrong one"),
        ("difference", "difference, points"), ("standard_errors", "in standard errors"), ("share_higher", "higher in"),
        out_of("narratives", "n_pairs", "n_asked"), IfKnown("number_mass"),
        said("chosen", "chosen", {"True": "yes", "False": ""}),
        "note",
    )  # fmt: skip


def comparisons(results: Results) -> Captioned | None:
    """Show the paired differences of δ between variants."""
    return results.table(
        "comparisons", "Paired differences of δ between variants, on narratives that both have", *COMPARISONS
    )


# --- One dimension and variant ---------------------------------------------------------------------------------------


def prompts(own: Results) -> Iterator[Captioned | None]:
    """Yield what happened to the prompts, of the strategy's calls, and of ratings that are missing."""
    yield calls(own)
    yield own.table(
        "outcomes",
        "what happened to the prompts, and ratings at the ends of the scale",
        said("pairs", "pairs", _PAIRS),
        "n_prompts", "n_rated", _with_share("refused", "refusal_rate"), _with_share("unparseable", "unparseable_rate"),
        "n_failed", IfKnown("n_inexact", unless_zero=True),
        ("floor_share", "at lower end"), ("ceiling_share", "at upper end"),
        IfKnown("n_below_scale", unless_zero=True), IfKnown("n_above_scale", unless_zero=True),
        IfKnown("mean_number_mass"),
        IfKnown("low_mass_share", "of low number mass"),
    )  # fmt: skip
    yield own.table(
        "missing",
        "missing ratings, as shares of prompts, and their gap",
        said("outcome", "outcome", _OUTCOMES),
        ("rate_in_group", "in-group"), ("rate_out_group", "out-group"), ("gap_pp", "gap, percentage points"), "ci_low",
        "p", "n_narratives", "note",
        rows=[row for row in own.rows("missing") if row["n_with_outcome"] > 0],
    )  # fmt: skip


def controls(own: Results) -> Captioned | None:
    """Show δ without repeated words, and of invented groups."""
    return own.table("controls", "group or words? δ by which pairs are counted, and δ of invented groups", *CONTROLS)


def own_model(own: Results) -> Captioned | None:
    """Show the terms of the user's own model."""
    return own.table(
        "own_model", "terms of the formula in statistics.formula, fitted by statsmodels", "term", "component",
        "estimate", "ci_low", "p", ("message", "note"),
    )  # fmt: skip


def families(own: Results) -> Iterator[Captioned | None]:
    """Yield a table for each family of contrasts; of pairs only those with the smallest p."""
    for family, title in _FAMILIES.items():
        rows = own.rows("families", family=family)
        if not rows:
            continue
        n_tests, n_rows = max(row["family_size"] for row in rows), len(rows)
        shown = f"{title} (p corrected by {rows[0]['method']} for {plural(n_tests, 'test')})" if n_tests else title
        if family == "pair":
            rows = sorted(rows, key=lambda row: (math.isnan(row.number("p")), row.number("p")))[:_SHOWN_PAIRS]
        if len(rows) < n_rows:
            shown += f": the {_SHOWN_PAIRS} of {count(n_rows)} with the smallest p; all are in tables/families.csv"
        yield own.table(
            "families", shown, ShownColumn(_HEADS.get(family, family), _members), ("delta", "gap, points"), "ci_low",
            "p", "p_adjusted", IfKnown("delta_rest", "gap of the rest"), IfKnown("change", "difference"),
            IfKnown("change_p_adjusted", "its p, corrected"), "n_narratives", "note",
            rows=rows,
        )  # fmt: skip


def heterogeneity(own: Results) -> Captioned | None:
    """Show the tests of whether the gap is the same in all emotions and groups."""

    def both_df(row: PlacedRow) -> Markup:
        return Markup("{} and {}").format(*(show(row, name, degrees) for name in ("df", "df_residual")))

    return own.table(
        "heterogeneity",
        "is the gap the same in all emotions, and in all groups?",
        ShownColumn("over all", lambda row: f"{row['over']}s"),
        ("n_members", "compared"), "statistic",
        ShownColumn("df", both_df),
        "p", "p_adjusted", "note",
    )  # fmt: skip


def covariates(own: Results) -> Captioned | None:
    """Show whether the gap grows with the user's numbers of groups or of pairs."""
    rows = own.rows("covariates")
    if not rows:
        return None
    return own.table(
        "covariates",
        "does the gap, or the disparity, grow with the numbers in statistics.covariates? Change for one unit. The "
        "interval is for any such narratives and these groups; p comes from permuting groups",
        "covariate", said("of", "what", _OF_COVARIATE), said("answer", "does it grow?", _GROWS),
        ("slope", "change, points"), "ci_low",
        ("per_sd", "change for one SD"), "p", "p_adjusted", ("p_least", "smallest possible p"), "n_groups",
        "n_narratives", "note",
        rows=rows,
    )  # fmt: skip


def sensitivity(own: Results) -> Captioned | None:
    """Show how δ changes under other assumptions; those about missing ratings only if one is missing."""
    rows = own.rows("sensitivity")
    complete = any(row["check"] == "worst_case_low" and row["share"] == 0 for row in rows)
    return own.table(
        "sensitivity",
        "δ under other assumptions. None of these replaces the headline",
        ShownColumn("assumption", lambda row: _check(row)[0]),
        ShownColumn("δ, points", lambda row: _check(row)[1]),
        interval_column(own.level),
        "p", "n_narratives", ("n_answers", "ratings" if complete else "ratings, including filled ones"),
        ShownColumn("share", _share, words=True), "note",
        rows=[row for row in rows if not (complete and row["check"] in _OF_MISSING)],
    )  # fmt: skip


def human(own: Results) -> Captioned | None:
    """Show how far the model orders narratives as people do."""
    return own.table(
        "human",
        "does the model rank the narratives as people do? Its mean rating of each narrative, over all pairs of "
        "identities, and people's",
        "emotion", "rho", "rho_low", "tau", "tau_low",
        ShownColumn("corrected p", lambda row: show(row, "p" if row["emotion"] == OVERALL else "p_adjusted", bare_p)),
        ("n", "narratives"), "note",
    )  # fmt: skip


def _with_share(name: str, share: str) -> ShownColumn:
    return ShownColumn(
        name, lambda row: Markup("{} ({})").format(show(row, f"n_{name}", count), show(row, share, rate))
    )


def _members(row: PlacedRow) -> str:
    return " and ".join(brief(str(row[side])) for side in ("member", "partner") if row[side])


def _share(row: PlacedRow) -> str:
    return Markup("{} {}").format(show(row, "share", rate), _SHARES[row["check"]]) if row["check"] in _SHARES else ""


def _check(row: PlacedRow) -> tuple[str, str]:
    """Name an assumption, and write the δ under it."""
    shift = row.number("shift_points")
    if row["check"] != "tipping_point" or not math.isfinite(shift):
        return _CHECKS.get(row["check"], str(row["check"])), show(row, "delta", points)
    size = show(row, "shift_points", magnitude)
    words = Markup("all missing ratings {} points {} than expected").format(size, direction(shift))
    return words, points(0.0)
