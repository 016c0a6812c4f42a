"""How far people agree with a measure of replies, and its gaps corrected by their scores."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Table, by_name, count, flag, in_row_unit, number, probability, text, word
from audit.tables.people_of_replies import AGREEMENT, HUMAN_CORRELATIONS
from audit.tables.shared import DF, FAMILY_SIZE, KEYS, OUTCOME

_PLACE: Final = {**OUTCOME, **KEYS}
_INTERVAL: Final = {
    "se": in_row_unit("its standard error, clustered by narrative (of utterances, by conversation)"),
    "df": DF,
    "ci_low": in_row_unit("lower end of its t interval; not corrected for multiplicity"),
    "ci_high": in_row_unit("upper end of the same"),
    "p": probability("two-sided p of the t-test against 0"),
}
_CORRECTED_P: Final = {
    "p_adjusted": probability("p corrected (Holm) for the groups of the dimension; δ is one test"),
    "family_size": FAMILY_SIZE,
}

CORRECTED_GAPS: Final = Table(
    "corrected_gaps",
    "a gap in a measure of replies: as the measure has it, as people have it, or corrected",
    {
        **_PLACE,
        "gap": word("delta (in-group minus out-group) or disparity (a group minus the mean of the other groups)"),
        "group": word("of a disparity, the group; else empty"),
        "estimator": word(
            "measure (its scores of all replies alone), people (their scores of the labelled replies alone), ppi (the "
            "measure's, corrected by the labelled replies: prediction-powered inference) or ppi_tuned (the same, with "
            "the measure counting as much as makes the interval narrowest)"
        ),
        "headline": flag("whether the row is the corrected gap that the page states: ppi_tuned"),
        "estimate": in_row_unit("the gap; of all but measure, that of people's scores"),
        **_INTERVAL,
        **_CORRECTED_P,
        "tuning": number("λ, how much the measure counts: 0 for people, 1 for ppi; missing for measure"),
        "n_replies": count("replies with a score of the measure that the gap is of"),
        "n_narratives": count("narratives of these"),
        "n_labels": count("of these replies, those that people scored"),
        "n_labelled_narratives": count("narratives of these (of utterances, conversations)"),
        "n_strata": count("strata in which the labelled replies are weighted"),
        "note": text("why there is no estimate or no interval, in words; else empty"),
    },
)

MEASURE_ERRORS: Final = Table(
    "measure_errors",
    "how far a measure is off for the replies to one group, or for in-group replies",
    {
        **_PLACE,
        "pairs": word("experiencer (replies to one group) or in_group (replies to one's own group)"),
        "group": word("the group; empty for in_group"),
        "code": word(
            "higher or lower (compared with other replies, the measure scores these higher or lower than people do: p "
            "is below 1 less the confidence after correction), not_shown or no_estimate"
        ),
        "error": in_row_unit("measure minus people, mean over the labelled replies to the group; missing for in_group"),
        "error_low": in_row_unit("lower end of its t interval"),
        "error_high": in_row_unit("upper end of the same"),
        "difference": in_row_unit("error minus that of the other groups; for in_group, that in-group minus out-group"),
        **_INTERVAL,
        **_CORRECTED_P,
        "n_labels": count("labelled replies: to the group, or in-group"),
        "note": text("why there is no estimate, in words; else empty"),
    },
)

LABELLED_REPLIES: Final = Table(
    "labelled_replies",
    "how the labelled replies compare with all replies",
    {
        **_PLACE,
        "what": word(
            "experiencer or perceiver (the share of replies with this group), in_group (the share of in-group "
            "replies), score (the measure's mean), spread (how far its scores are from their mean), place (mean "
            "place of the replies in the run, from 0 to 1), delta or disparity (the measure's gap)"
        ),
        "group": word("the group; else empty"),
        "labelled": number(
            "of the labelled replies, in the unit of what; but for shares weighted by strata, as the gaps are"
        ),
        "all": number("of all replies with a score"),
        "p": probability(
            "two-sided p of no difference, which a random sample shows by chance alone; missing for shares, which the "
            "strata make up for"
        ),
        "n_labels": count("labelled replies with this group, or all"),
    },
)

VALIDATION_TABLES: Final = by_name(
    CORRECTED_GAPS,
    MEASURE_ERRORS,
    LABELLED_REPLIES,
    AGREEMENT,
    HUMAN_CORRELATIONS,
)
"""Tables of a measure that is compared with people."""
