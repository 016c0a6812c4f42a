"""Who is rated lower by everybody: the disparity of groups and terms, in which whoever perceives counts alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

import pandas as pd

from audit.tables.base import Table, count, flag, in_row_unit, number, percent, probability, share, text, word
from audit.tables.shared import DF, FAMILY_SIZE, HOLM, KEYS, OUTCOME

RowT = TypeVar("RowT", bound=Mapping[str, Any])
DISPARITY: Final = Table(
    "disparity",
    "how much higher or lower a group, or a term, is rated than the others, whoever perceives",
    {
        "outcome": OUTCOME["outcome"].reworded("what δ is of", "what is compared with the others"),
        "unit": OUTCOME["unit"],
        **KEYS,
        "side": word(
            "experiencer (who is rated lower by everybody) or perceiver (which persona rates everybody lower)"
        ),
        "view": word(
            "all (mean over the groups of the other side, each alike), unspecified (experiencers as rated by 'a "
            "person'), no_persona (experiencers as rated without a persona; of perceivers, against no persona) or "
            "baseline (against 'a person' in place of the other groups)"
        ),
        "level": word(
            "group, term (one wording of a group), cue (a group as told by one of several cues, such as labels and "
            "first names, against the others told so) or all (one test of all groups of the view)"
        ),
        "member": word("the group, the term or the cue; empty for all"),
        "group": word("the group that it is, or belongs to; empty for all"),
        "invented": flag("whether the groups do not exist: they show what any labels differ by, and carry no claim"),
        "scope": word(
            "what the interval speaks about: narratives (these terms, any such narratives), narratives_and_terms (any "
            "such terms of the group too, where every group has two or more without a common stem), "
            "narratives_and_labels (beyond what labels of invented groups differ by) or narratives_and_wordings (any "
            "such wordings of the prompt too)"
        ),
        "headline": flag("whether the row decides about its group: code, claim and limits are of that row alone"),
        "estimator": word(
            "contrast (no rating that it needs is missing), pairs (least squares on effects of narrative × perceiver "
            "and of all pairs, from all valid ratings) or adjusted (of transcripts without matches: least squares on "
            "groups and on covariates of messages)"
        ),
        "disparity": in_row_unit(
            "mean of the group's terms less the mean of the other groups' means (of a term: the term less the mean of "
            "the other groups' means; in the view baseline: less 'a person'), in the row's unit; negative where it is "
            "rated lower"
        ),
        "se": in_row_unit("standard error of disparity, in the row's unit"),
        "df": DF.adding("; of all, of what differs between groups"),
        "ci_low": in_row_unit(
            "lower end of the confidence interval, in the row's unit; not corrected for multiplicity", lengths=1
        ),
        "ci_high": in_row_unit("upper end of the same", lengths=1),
        "p": probability("two-sided p against 0: of the t-test, of all that groups do not differ"),
        "p_adjusted": probability(
            "p corrected for the groups, the terms, or the groups by cue, of the view; of a measure of replies, for "
            "those of all measures, in which people's questions are a family of their own"
        ),
        "method": HOLM.adding("; over measures Bonferroni"),
        "family_size": FAMILY_SIZE,
        "eq_low": in_row_unit(
            "lower end of the interval of level 1 - 2 alpha, in the row's unit: where the whole of it lies within a "
            "margin, so does the disparity, by the equivalence test",
            lengths=1,
        ),
        "eq_high": in_row_unit("upper end of the same", lengths=1),
        "percent_of_scale": percent("disparity in % of the scale's length; missing without a scale"),
        "percent_of_response": percent(
            "disparity in % of the response to the story; missing unless ratings are shown to match it", before=math.nan
        ),
        "disparity_sd": number(
            "of a measure of replies, disparity over the measure's standard deviation among scored replies; no unit",
            before=math.nan,
        ),
        "sd_ci_low": number("ci_low over the same standard deviation, which is taken as known", before=math.nan),
        "sd_ci_high": number("ci_high over the same", before=math.nan),
        "d_z": number("disparity over the standard deviation of the narratives' own; no unit"),
        "share_lower": share(
            "share of narratives in which the group is rated lower than the others, by the narrative's own ratings"
        ),
        "share_higher": share("the same, in which it is rated higher"),
        "n_narratives": count("narratives that the estimate uses"),
        "n_answers": count("ratings or replies that the estimate uses"),
        "n_pairs": count("pairs of a perceiver and an experiencer that it uses"),
        "n_terms": count("terms of the group; of all, of all groups"),
        "term_sd": in_row_unit(
            "standard deviation of the terms of the group about their mean, in the row's unit; of all, pooled over "
            "groups; missing with one term a group"
        ),
        "labels_sd": in_row_unit(
            "standard deviation of the disparities of invented groups of the same view, in the row's unit"
        ),
        "labels_largest": in_row_unit("the largest of them, without its sign"),
        "n_labels": count("invented groups that these are of"),
        "extreme": word(
            "the other groups that differ more and lie on the other side, joined by '; '; empty if there are none, in "
            "the view baseline, and of two groups"
        ),
        "without_extreme": in_row_unit(
            "disparity with these groups left out of the others, in the row's unit: a group is not named for being "
            "higher than those that are lower"
        ),
        "without_low": in_row_unit("lower end of its confidence interval, in the row's unit", lengths=1),
        "without_high": in_row_unit("upper end of the same", lengths=1),
        "bound_low": in_row_unit(
            "least disparity that is possible where every rating lies within its pruned_points, in the row's unit; "
            "missing where ratings carry no such bound"
        ),
        "bound_high": in_row_unit("greatest disparity that is possible so"),
        "worst_low": in_row_unit(
            "lower end of the confidence interval with every missing rating where it makes the disparity lowest, in "
            "the row's unit; ci_low where none is missing, missing where prompts were never asked",
            lengths=1,
        ),
        "worst_high": in_row_unit(
            "upper end of the same with every missing rating where it makes it highest", lengths=1
        ),
        "worst_eq_low": in_row_unit("as worst_low, of the interval of level 1 - 2 alpha", lengths=1),
        "worst_eq_high": in_row_unit("as worst_high, of the interval of level 1 - 2 alpha", lengths=1),
        "supported_margin": in_row_unit(
            "smallest margin that these data support, in the row's unit: the disparity is smaller wherever missing "
            "ratings lie, and if narratives with a large one were not drawn; missing where nothing is ruled out"
        ),
        "statistic": number("of all, the F of the test; see note"),
        "df_residual": number("of all, degrees of freedom of what the differences are measured by"),
        "code": word(
            "of a headline: lower or higher (shown, and nothing speaks against it), within (smaller than the margin), "
            "not_shown (or, as limits say, only because another group differs), undecided (limits say why), no_verdict "
            "(the ratings cannot carry one) or no_estimate; else empty"
        ),
        "claim": word(
            "of lower and higher: group (not these words alone: other terms, or invented groups, tell it from them), "
            "words (these words of the group) or observational (of transcripts: what the groups wrote differs in more "
            "than their words); else empty"
        ),
        "margin": in_row_unit(
            "the margin of the analysis, of headlines of ratings; missing without one", before=math.nan
        ),
        "size": word(
            "of lower and higher with a margin: beyond it (corrected for the groups of the view), smaller than it, or "
            "empty if neither is shown",
            before="",
        ),
        "n_needed": count(
            "narratives that would show, with the planned chance, that no group of the view differs by as much as the "
            "margin, if none does; missing without a margin, or if more narratives would not help",
            before=math.nan,
        ),
        "limits": text("codes of what limits the answer, joined by '; '; docs/statistics.md explains them"),
        "note": text("why there is no estimate or no interval, or what limits it, in words; else empty"),
    },
)
_DECIDING: Final = ("all", "no_persona", "unspecified")
SHOWN_APART: Final = {
    "no_persona_differs": "a difference is shown without a persona",
    "person_differs": "a difference is shown as rated by “a person”",
    "cue_differs": "a difference is shown as told by one of the cues",
    "emotion_differs": "a difference is shown in narratives of one of the emotions",
}
"""What another view, cue or emotion shows of a group that is not lower or higher over all, by code of ``limits``."""


REFUSALS: Final = "refusals"
"""The outcome of a run of ratings that says how much more often a group is refused; a table without one has no rows."""


def without_refusals(disparity: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ratings, or of measures, for readers who ask who is rated lower."""
    return disparity.loc[disparity["outcome"] != REFUSALS]


def deciding_view(views: Collection[str]) -> str:
    """Return the view that answers who gets less: over all perceivers, or, without any, as the model itself; or ''."""
    return next((view for view in _DECIDING if view in views), "")


def deciding_rows(rows: Iterable[RowT]) -> list[RowT]:
    """Return the rows that say who gets less: one for each group, in the view that decides in its place."""
    heads = [row for row in rows if row["headline"]]
    views: dict[tuple[Any, ...], set[str]] = {}
    for row in heads:
        views.setdefault(_place(row), set()).add(str(row["view"]))
    return [row for row in heads if row["view"] == deciding_view(views[_place(row)])]


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("outcome", "dimension", "variant"))
