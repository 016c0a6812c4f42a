"""Runs that ask for replies: the replies, their scores, and the gaps of their measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from audit.tables.base import (
    INT32,
    Column,
    Kept,
    Table,
    count,
    flag,
    in_measure_unit,
    number,
    points,
    probability,
    share,
    text,
    tokens,
    word,
)
from audit.tables.cells import CELLS
from audit.tables.controls import CONTROLS
from audit.tables.gap import FAMILIES, GAP
from audit.tables.ratings import RATINGS
from audit.tables.shared import KEYS, P_OF_ZERO, PAIRS_COUNTED, PROMPT, SIDES
from audit.tables.verdicts import VERDICTS


class ReplyStatus(StrEnum):
    """The outcome of one prompt that asks for a reply."""

    WRITTEN = "written"
    """The model ended it itself."""
    CUT = "cut"
    """Cut at ``max_tokens``; the part that exists is scored."""
    EMPTY = "empty"
    """Nothing but white space."""
    REFUSED = "refused"
    """The model declined to write one: missing data, and an outcome of its own."""
    OTHER_SCRIPT = "other_script"
    """Most of its letters are in another script than the narrative's, which no scorer reads."""
    FAILED = "failed"
    """The engine gave none (an error, or the prompt is longer than the model's context)."""


SCORED: Final = frozenset({ReplyStatus.WRITTEN.value, ReplyStatus.CUT.value})
"""The statuses of replies that are scored. For others, measures are missing, never 0."""

REPLY_TALLY: Final = {f"n_{status}": count(f"of these {status.value}") for status in ReplyStatus}
"""Counts of prompts that ask for a reply, by outcome."""

REPLIES: Final = Table(
    "replies",
    "a prompt that asks for a reply",
    {
        **PROMPT,
        "emotion": word("the narrative's emotion"),
        "status": word("written, cut (at max_tokens; what there is is scored), empty, refused, other_script or failed"),
        "text": text("the reply, verbatim; empty where it failed"),
        "n_prompt_tokens": tokens(
            "tokens of the prompt that asked for the reply; 0 where it was not asked", type=INT32
        ),
        "n_tokens": tokens("tokens of the reply; a text that several prompts share counts in each", type=INT32),
        "n_dropped": replace(RATINGS["n_dropped"], since=1),
    },
    kept=Kept("replies.parquet", "replies"),
)

SCORES: Final = Table(
    "scores",
    "a number that a scorer gave a reply",
    {
        "prompt_index": PROMPT["prompt_index"],
        "measure": word("what was measured, as in the table of measures"),
        "value": in_measure_unit("the number, in the measure's unit; missing where the reply has no such number"),
    },
    kept=Kept("scores/*/scores.parquet", "scores/*", of_part="replies"),
)

OWN_GAP_RATINGS: Final = replace(RATINGS, kept=Kept("judged.parquet", "judged", of_all="replies"))
"""A judge's ratings of the same replies as replies to every experiencer, for its own gap; one part a dimension."""

MEASURES: Final = Table(
    "measures",
    "a measure of replies",
    {
        "measure": word("the measure's name"),
        "title": word("what it is"),
        "unit": word("of its numbers"),
        "better": word("higher, lower or neither: which way is more empathic, or better written"),
        "low": in_measure_unit("the lowest number that there can be; missing without"),
        "high": in_measure_unit("the highest number that there can be; missing without"),
        "scorer": word("what took it: a model, a list of words, or a count; empty where it is absent"),
        "source": word("where the formula is from"),
        "caution": word("what the number must not be taken for"),
        "status": word(
            "scored; described: a number of all replies together, which has no gap; or absent: the scorer was not to "
            "be had, and nothing was measured"
        ),
        "n_replies": count("replies that could be scored: written or cut"),
        "n_scored": count("of these with a number"),
        "mean": in_measure_unit("mean over the replies with a number, baselines included, in the measure's unit"),
        "sd": in_measure_unit("standard deviation (n - 1) of the same"),
        "n_cut": count(
            "texts of which the scorer read the beginning alone; missing where it cannot tell, as are the next five"
        ),
        "n_refused": count("replies that a judge declined to score"),
        "n_unparseable": count("replies whose judge gave no score that can be read"),
        "n_failed": count("replies that the judge's engine gave no answer about"),
        "n_inexact": count("replies whose score is known less closely than elicitation.max_pruned_points allows"),
        "mean_mass": probability(
            "probability that a judge's answer is a number of the scale at all, mean over replies (`expected`)"
        ),
        "note": text("of an absent one, why, and how to get it; else empty"),
    },
)

MEASURE_GAPS: Final = Table(
    "measure_gaps",
    "an estimate of a measure's gap",
    {
        "dimension": GAP["dimension"],
        "variant": GAP["variant"],
        "measure": MEASURES["measure"],
        "estimator": word("contrast or mixed, as of ratings"),
        "scope": word(
            "what the interval speaks about: narratives = these identities, any such narratives; narratives_and_terms "
            "= any such identities too"
        ),
        "headline": flag("whether the row is of the estimator to go by"),
        "delta": in_measure_unit("gap in the measure's unit: in-group minus out-group"),
        "se": in_measure_unit(
            "standard error of delta, in the measure's unit; over conversations where narratives are utterances of them"
        ),
        "df": GAP["df"],
        "ci_low": in_measure_unit("lower end of the confidence interval, in the measure's unit"),
        "ci_high": in_measure_unit("upper end of the same"),
        "p": GAP["p"],
        "p_sign_flip": GAP["p_sign_flip"],
        "p_adjusted": probability(
            "of headlines within narratives: p corrected over the measures of the dimension (Holm); people's "
            "questions, whose names begin with people_, are a family of their own"
        ),
        "family_size": count("measures that were corrected for: those of the dimension and family with a p"),
        "d_z": number("delta over the standard deviation of the narratives' contrasts; no unit"),
        "delta_sd": number(
            "delta over the measure's standard deviation among scored replies; no unit; missing for diversity"
        ),
        "sd_ci_low": number("ci_low over the same standard deviation, which is taken as known"),
        "sd_ci_high": number("ci_high over the same"),
        **GAP.pick("n_narratives", "n_narratives_asked"),
        "n_replies": count("replies that the estimate uses"),
        "n_missing": count("prompts between the dimension's identities (baselines left out) whose reply has no number"),
        "note": GAP["note"],
    },
)


def _of_measure(column: Column) -> Column:
    """Turn a column about ratings into one about a measure of replies."""
    words = column.meaning.replace("scale points", "the measure's unit").replace("in points", "in the measure's unit")
    unit = "the measure's unit" if column.unit == "points" else column.unit
    return replace(column, meaning=words.replace("rating", "reply").replace("_points", ""), unit=unit)


_IN_UNIT: Final = {"delta_points": "delta", "change_points": "change", "n_ratings": "n_replies"}
_OF_RATINGS: Final = (
    "delta_z", "null_low", "null_high", "p_sign_flip", "p_adjusted", "p_family_size", "percent_of_scale", "sd_within",
    "delta_sd", "raw_in", "raw_out",
)  # fmt: skip
"""Gap columns that only apply to ratings, or to one measure's headline."""


def _of_a_measure(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Turn columns about ratings into those of a table about measures, with its keys."""
    in_unit = {_IN_UNIT.get(name, name): _of_measure(column) for name, column in columns.items()}
    return {**KEYS, "measure": MEASURES["measure"], **in_unit}


MEASURE_FAMILIES: Final = Table(
    "measure_families", "a contrast of a family, of a measure", _of_a_measure(FAMILIES.without(*KEYS))
)

MEASURE_CONTROLS: Final = Table(
    "measure_controls", "a control of a measure's δ", _of_a_measure(CONTROLS.without(*KEYS, *_OF_RATINGS))
)

MEASURE_VERDICTS: Final = Table(
    "verdicts",
    "the verdict on a measure's average gap",
    {
        **_of_a_measure(
            VERDICTS.without(
                *KEYS, "least_gap", "parts_beyond", "parts_not_shown", "rank", "n_dealings", "response", "response_low",
                "response_high", "share_higher",
            )
        ),
        "dimension": VERDICTS["dimension"],
        "p_adjusted": probability(
            "the same, corrected over the measures of the dimension (Holm); people's questions are a family of their "
            "own"
        ),
        "margin": in_measure_unit("missing: of measures there is no margin"),
        **MEASURE_GAPS.pick("delta_sd", "sd_ci_low", "sd_ci_high"),
    },
)  # fmt: skip

MEASURE_CELLS: Final = Table(
    "measure_cells",
    "a perceiver and an experiencer, of a measure",
    {
        **KEYS,
        "measure": MEASURES["measure"],
        **SIDES,
        "mean": in_measure_unit(
            "mean of the measure over the pair's replies, in its unit; of diversity, of the replies taken together"
        ),
        "sd": in_measure_unit("standard deviation (n - 1) of the same; missing below two replies, and of diversity"),
        "n_prompts": CELLS["n_prompts"],
        "n_scored": count("of these with a number"),
    },
)

REPLY_OUTCOMES: Final = Table(
    "reply_outcomes",
    "what became of the replies of one kind of pairs",
    {
        **KEYS,
        "pairs": PAIRS_COUNTED,
        "n_prompts": count("prompts of these pairs"),
        **REPLY_TALLY,
        "mean_tokens": tokens("tokens of a reply, mean over those written or cut"),
    },
)

JUDGE_GAP: Final = Table(
    "judge_gap",
    "an estimate of the judge's own gap",
    {
        "dimension": GAP["dimension"],
        "variant": GAP["variant"],
        "measure": word("the judged measure"),
        **GAP.pick("estimator", "scope", "headline"),
        "delta_points": points(
            "the judge's own gap in points of the measure: the same replies shown as ones to in-group minus to "
            "out-group experiencers of whoever wrote them, whom the judge is not told"
        ),
        **GAP.pick("se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_ratings"),
        "n_missing": count("questions to the judge without a score"),
        "note": GAP["note"],
    },
)

JUDGE_EFFECTS: Final = Table(
    "judge_effects",
    "what an experiencer's identity adds to a judge's score",
    {
        **KEYS,
        "measure": JUDGE_GAP["measure"],
        "experiencer": word("whom the same replies are shown as ones to"),
        "group": SIDES["experiencer_group"],
        "effect": points(
            "how far the judge scores them above their mean over all experiencers, in points of the measure"
        ),
        "se": points("standard error of effect, in points, over narratives"),
        **GAP.pick("df", "ci_low", "ci_high"),
        "p": P_OF_ZERO,
        "p_adjusted": probability("p corrected over the experiencers of the dimension and measure (Holm)"),
        "n_narratives": count("narratives whose replies were judged again"),
        "n_replies": count("replies with a score as one to every experiencer"),
        "note": text("why there is no interval, in words; else empty"),
    },
)

EPITOME: Final = Table(
    "epitome",
    "a mechanism of empathy in replies",
    {
        **KEYS,
        "mechanism": word("emotional_reactions, interpretations or explorations"),
        "by": word(
            "what gave the levels: classifier, its likeliest level; or judge, the level nearest to its score, the "
            "lower of two as near, which need not be its likeliest where the score is the mean of its distribution "
            "(`expected`)"
        ),
        "n_replies": count("replies with a level"),
        "n_narratives": count("narratives that they are to"),
        "share": share("share of replies that show it, at level 1 or 2: the mean of the narratives' shares"),
        "ci_low": share("lower end of its t interval over narratives"),
        "ci_high": share("upper end of the same"),
        "n_labelled": count("replies to narratives whose reply by people has a level"),
        "precision": share("of those that show it, the share where people's reply does"),
        "recall": share("of those where people's reply shows it, the share that do"),
        "f1": share("harmonic mean of the two"),
        "accuracy": share("share that show it where people's reply does, and not where it does not"),
        "note": text("why there is no share or interval, in words; else empty"),
    },
)
