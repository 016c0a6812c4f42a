"""What a run asks to be rated, the ratings, and the outcome of each prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from audit.tables.base import (
    INT8,
    INT32,
    Storage,
    Table,
    count,
    flag,
    number,
    points,
    probability,
    share,
    text,
    tokens,
    whole,
    word,
)
from audit.tables.shared import DF, KEYS, P_OF_NO_DIFFERENCE, PAIRS_COUNTED, PROMPT, RATES, TALLY


class Status(StrEnum):
    """The outcome of one prompt."""

    RATED = "rated"  # an intensity on the scale was read from the response
    REFUSED = "refused"  # the model declined to rate: missing data, and an outcome of its own
    UNPARSEABLE = "unparseable"  # there was a response, but no single intensity on the scale could be read from it
    FAILED = "failed"  # the engine gave no response (an error, or the prompt is longer than the model's context)
    INEXACT = "inexact"
    """Too little of the distribution is known: the rating could be further off than ``max_pruned_points`` allows."""


RATINGS: Final = Table(
    "ratings",
    "a prompt that asks for a rating",
    {
        **PROMPT,
        "status": word("rated, refused, unparseable, failed or inexact"),
        "intensity": points("in points of the variant's scale; missing unless rated"),
        "response": text("the model's raw text (`generate`); empty for `expected`"),
        "number_mass": probability(
            "probability that the response begins with a number of the scale, which ends there (`expected`); missing "
            "for `generate`"
        ),
        "mode": points("the most probable number of the scale (`expected`), in points"),
        "spread": points("standard deviation of the distribution over the scale's numbers (`expected`), in points"),
        "n_prompt_tokens": tokens(
            "tokens of the prompt that asked for the rating; missing where it was not asked", type=INT32, since=2
        ),
        "n_dropped": count(
            "examples and earlier calls left out of that prompt, the oldest first, for want of room",
            type=INT32,
            since=2,
        ),
        "pruned_points": points(
            "how far the intensity could be off, in points (`expected`), because some branches of the tree of numbers "
            "were not asked, a server did not report the probability of some tokens, or it was not asked whether a "
            "number ends; missing where nothing bounds it; with calibrated ends (elicitation.ends) also half of the "
            "systematic difference that the sample leaves possible between in-group and out-group",
            since=3,
        ),
        "wording": whole(
            "which wording of the prompt was asked, from 0, the original; runs of earlier versions had that alone",
            type=INT8,
            since=4,
            before=0,
        ),
        "cut": flag(
            "whether the response stopped at the limit of its length (`generate`): a number that might go on after its "
            "end is not read, but by the study's parser; missing where none was written, or nothing said so",
            since=5,
        ),
        "ends_points": points(
            "with calibrated ends (elicitation.ends), the statistical bound on what that moves the intensity by: the "
            "half-width of a 99% prediction interval, in points; missing where ends were asked",
            since=6,
        ),
    },
    kept=Storage("ratings.parquet", "ratings"),
)


@dataclass(frozen=True, slots=True)
class ElicitedRating:
    """What an elicitation finds out about one prompt; each field is a column of :data:`RATINGS`."""

    status: Status
    intensity: float = math.nan
    response: str = ""
    number_mass: float = math.nan
    mode: float = math.nan
    spread: float = math.nan
    pruned_points: float = math.nan
    n_prompt_tokens: int | None = None
    ends_points: float = math.nan
    cut: bool | None = None
    """Whether the response stopped at its length limit; None if there was no response or the engine did not tell."""


NARRATIVE_COVARIATES: Final = Table(
    "narrative_covariates",
    "a number or label of a narrative, from a further column of another tool's ratings",
    {
        "narrative_id": PROMPT["narrative_id"],
        "covariate": word("the column; its value is the same in all rows of the narrative"),
        "number": number("its value, where all values of the column are numbers"),
        "label": word("its value, where they are words"),
    },
    kept=Storage("narrative_covariates.parquet"),
)
"""What a user's formula may use of the narratives."""

ELICITATION_SAMPLE: Final = Table(
    "elicitation_sample",
    "a prompt of the sample that was asked in words too",
    {
        "prompt_index": PROMPT["prompt_index"],
        "status": RATINGS["status"],
        "intensity": RATINGS["intensity"],
        "response": text("the model's raw text; empty where it was asked for probabilities"),
    },
    kept=Storage("elicitation_sample.parquet"),
)

ASKED_AGAIN: Final = Table(
    "asked_again",
    "a prompt that was asked once more",
    {
        "prompt_index": PROMPT["prompt_index"],
        "status": word("what happened, as of the run's own ratings or replies"),
        "intensity": RATINGS["intensity"],
        "response": text("the model's raw text, or the reply; empty where it was asked for probabilities"),
    },
    kept=Storage("asked_again.parquet"),
)

FORMATS: Final = ("bfloat16", "float16", "float32")  # number formats in which prompts may be asked again

ASKED_IN_FORMATS: Final = {
    name: Table(
        f"asked_in_{name}",
        f"a prompt that was asked once more in {name}",
        {**ELICITATION_SAMPLE},
        Storage(f"asked_in_{name}.parquet"),
    )
    for name in FORMATS
}
"""The prompts asked in each number format."""

END_SHARES: Final = Table(
    "end_shares",
    "a number of the scale, as its tokens, in a prompt of the sample that was asked about every number's end",
    {
        "prompt_index": PROMPT["prompt_index"],
        "in_group": PROMPT["in_group"],
        "number": whole("the number, in points", type=INT32),
        "tokens": word("its tokens' numbers in the model's vocabulary"),
        "probability": probability("probability of these tokens, whatever follows"),
        "share": share("share of it that ends there, no digit following; missing where the tokens have no probability"),
    },
    kept=Storage("end_shares.parquet"),
)
"""From this sample, a run with ``elicitation.ends=calibrated`` takes the shares that it does not ask for."""

MANIPULATED: Final = Table(
    "manipulated",
    "a prompt without identities, kept in ``manipulation.parquet``",
    {
        "narrative_id": PROMPT["narrative_id"],
        "kind": word(
            "own (its own emotion is asked about), wrong (another emotion), or mild or strong, in which a situation is "
            "written too"
        ),
        "emotion": PROMPT["emotion"],
        "status": RATINGS["status"],
        "intensity": RATINGS["intensity"],
        "response": ELICITATION_SAMPLE["response"],
    },
    kept=Storage("manipulation.parquet"),
)

MANIPULATION: Final = Table(
    "manipulation",
    "a check that ratings, or replies, follow what is told",
    {
        "check": word(
            "emotion (a narrative's own emotion is rated higher than a wrong one) or intensity (the strong version of "
            "a situation higher than the mild one); no identity is told. Of written replies: reply (more of a reply's "
            "words are in the story that it answers than in another one), all points being percentage points"
        ),
        "answer": word(
            "follows (the interval of difference lies above least_response), does_not_follow (it lies below) or "
            "not_shown; of a run the check of emotions decides, where it was made"
        ),
        "n_asked": count("narratives that were asked both ways"),
        "n_pairs": count("of these rated both times"),
        "mean_higher": points(
            "mean rating of the own emotion, or of the strong version, in points; or percent of a reply's words in "
            "its own story"
        ),
        "mean_lower": points("the same of the wrong emotion, of the mild version, or in another story"),
        "difference": points(
            "mean_higher minus mean_lower, paired by narrative, in points; in the check of emotions, both means are "
            "without a preference for pleasant or unpleasant words"
        ),
        "se": points("standard error of difference, in points"),
        "df": DF,
        "ci_low": points("lower end of its confidence interval, in points", lengths=1),
        "ci_high": points("upper end of the same", lengths=1),
        "p": P_OF_NO_DIFFERENCE,
        "share_higher": share("of n_pairs, the share in which the former is higher"),
        "least_response": points("statistics.least_response in points: a smaller difference is as good as none"),
        "n_needed": count(
            "where neither is shown: how many narratives decide, with a chance of statistics.power, if the true "
            "difference is 0 or at least twice least_response; missing where that is not known"
        ),
        "passed": flag(
            "the answer as earlier versions had it: true of follows, false of does_not_follow, else missing"
        ),
        "note": text("why there is no interval, in words; empty if there is one"),
    },
)

Followed: TypeAlias = Literal["follows", "does_not_follow", "not_shown"]
FOLLOWS: Final = "follows"
DOES_NOT_FOLLOW: Final = "does_not_follow"
NOT_SHOWN: Final = "not_shown"
PASSED: Final[Mapping[Followed, bool | None]] = {FOLLOWS: True, DOES_NOT_FOLLOW: False, NOT_SHOWN: None}


def answer_in(row: Mapping[Any, Any]) -> Followed:
    """Return the answer in one row of ``MANIPULATION``; rows of earlier versions have ``passed`` in its place."""
    for answer in PASSED:
        if row.get("answer") == answer:
            return answer
    passed = str(row.get("passed")).strip().lower()
    return FOLLOWS if passed in ("true", "1.0") else DOES_NOT_FOLLOW if passed in ("false", "0.0") else NOT_SHOWN


TRIAL_ANSWERS: Final = Table(
    "trial_answers",
    "a prompt without identities that was asked to choose the elicitation",
    {
        "method": word("the elicitation tried: expected or generate"),
        "begun": word("what the answer was begun with; empty for nothing"),
        **MANIPULATED.without("response"),
        "number_mass": RATINGS["number_mass"],
        "response": MANIPULATED["response"],
    },
    kept=Storage("trial_answers.parquet"),
)

TRIALS: Final = Table(
    "trials",
    "a way to elicit ratings that was tried, on narratives without identities",
    {
        **TRIAL_ANSWERS.pick("method", "begun"),
        "chosen": flag("whether the run took it"),
        **MANIPULATION.pick("n_asked", "n_pairs", "mean_higher", "mean_lower", "difference", "se"),
        "standard_errors": number(
            "difference / se; missing where all narratives differ by the same: then the difference counts as certain"
        ),
        "share_higher": MANIPULATION["share_higher"],
        "number_mass": probability("mean of number_mass (`expected`)"),
        "note": text("why it could not be tried or taken, in words; empty if it could"),
    },
)

OUTCOMES: Final = Table(
    "outcomes",
    "what happened to one kind of pairs",
    {
        **KEYS,
        "pairs": PAIRS_COUNTED,
        "n_prompts": count("prompts of these pairs"),
        **TALLY,
        **RATES,
        "floor_share": share("share of ratings at the scale's lower end"),
        "ceiling_share": share("share of ratings at the scale's upper end"),
        "n_below_scale": count("ratings below the scale's lower end, which a parser accepted; they are at neither end"),
        "n_above_scale": count("ratings above the scale's upper end, which a parser accepted"),
        "mean_number_mass": probability("mean of number_mass over the prompts that have one (`expected`)"),
        "low_mass_share": share("share of these prompts whose number_mass is below statistics.min_number_mass"),
    },
)

READING_RULES: Final = Table(
    "reading_rules",
    "answers of released results of which two rules make the same",
    {
        **KEYS,
        "study": word("what the study's rule makes of them: rated, refused or unparseable"),
        "ours": word("what ours makes of them, likewise"),
        "n_prompts": count("such prompts"),
        "n_disagreeing": count("of these the released intensity is not what the study's rule reads in the answer"),
        "n_other_number": count("of these rated by both rules, with another number"),
    },
)

MODES: Final = Table(
    "modes",
    "the most common rating",
    {
        **KEYS,
        "of": word(
            "what is counted: mode (the most probable number of the scale, `expected`) or intensity (the rating, where "
            "there is no mode)"
        ),
        "value": points(
            "the most common one among the rated prompts between identities, in points; of two as common the lower"
        ),
        "share": share("of those prompts, the share that has it"),
        "n_values": count("different values among them"),
        "n": count("those prompts: rated, baselines left out"),
    },
)
