"""Runs that ask for replies: the replies, their scores and measures, and the judge of them."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

from audit.tables.base import (
    INT32,
    Storage,
    Table,
    count,
    in_measure_unit,
    in_row_unit,
    points,
    probability,
    share,
    text,
    tokens,
    whole,
    word,
)
from audit.tables.disparity import DISPARITY
from audit.tables.gap import GAP
from audit.tables.ratings import RATINGS
from audit.tables.shared import IN_POINTS, KEYS, P_OF_ZERO, PAIRS_COUNTED, PROMPT, SIDES


class ReplyStatus(StrEnum):
    """The outcome of one prompt that asks for a reply."""

    WRITTEN = "written"  # the model ended it itself
    CUT = "cut"  # cut at `max_tokens`; the part that exists is scored
    EMPTY = "empty"  # nothing but white space
    REFUSED = "refused"  # the model declined to write one: missing data, and an outcome of its own
    OTHER_SCRIPT = "other_script"  # most of its letters are in another script than the narrative's: no scorer reads it
    FAILED = "failed"  # the engine gave none (an error, or the prompt is longer than the model's context)


TRANSCRIPTS: Final = Table(
    "transcripts",
    "a reply that was read from a file, not asked for",
    {
        "prompt_index": PROMPT["prompt_index"],
        "id": word("of the row in the file; of a conversation with several turns, with the turn after a colon"),
        "conversation": word("what replies count together for: those of one conversation are not independent"),
        "message": text("what the reply answers"),
        "system": text("the system prompt; empty if not given"),
        "model": word("the model, as the file names it; empty if not given"),
        "date": word("when, as in the file; empty if not given"),
    },
    kept=Storage("transcripts.parquet"),
)

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
        "wording": replace(RATINGS["wording"], since=2),
    },
    kept=Storage("replies.parquet", "replies"),
)

OF_MESSAGE: Final = "message_"
"""Before the name of a measure that was taken of the message, which replies of transcripts are adjusted for."""

OF_AGAIN: Final = "again_"
"""Before the name of a measure that was taken of a reply to a prompt that was asked once more."""

SCORES: Final = Table(
    "scores",
    "a number that a scorer gave a reply",
    {
        "prompt_index": PROMPT["prompt_index"],
        "measure": word(
            "what was measured, as in the table of measures; of transcripts also of the message, message_ before the "
            "measure's name; of prompts that were asked once more also of that reply, again_ before it"
        ),
        "value": in_measure_unit("the number, in the measure's unit; missing where the reply has no such number"),
    },
    kept=Storage("scores/*/scores.parquet", "scores/*", of_part="replies"),
)

RATIONALES: Final = Table(
    "rationales",
    "words of a reply that a scorer's number rests on",
    {
        "prompt_index": PROMPT["prompt_index"],
        "measure": word("the number, as in the table of measures"),
        "start": whole("where the words begin in the reply's text, in characters from 0", type=INT32),
        "end": whole("where they end: the character after the last", type=INT32),
    },
    kept=Storage("rationales.parquet", "rationales", of_part="replies"),
)

OWN_GAP_RATINGS: Final = replace(RATINGS, kept=Storage("judged.parquet", "judged", of_all="replies"))
"""A judge's ratings of the same replies as replies to every experiencer, for its own gap; one part a dimension."""

TURNS: Final = Table(
    "turns",
    "a measure of the replies to a group in one turn of a talk",
    {
        **DISPARITY.pick("outcome", "unit"),
        **KEYS,
        "turn": whole("which of the model's replies, from 1", type=INT32),
        "group": word("whom the replies are to"),
        "mean": in_row_unit("mean over the replies to the group that have a number, in the row's unit"),
        **DISPARITY.pick("disparity", "se", "df", "ci_low", "ci_high", "n_narratives"),
        "n_replies": count("replies that mean is of"),
        "note": DISPARITY["note"],
    },
)

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

REPLY_OUTCOMES: Final = Table(
    "reply_outcomes",
    "what happened to the replies of one kind of pairs",
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
        "outcome": word("the judged measure"),
        **GAP.pick("dimension", "variant"),
        **GAP.pick("estimator", "scope", "headline"),
        "delta": points(
            "the judge's own gap in points of the measure: the same replies shown as ones to in-group minus to "
            "out-group experiencers of whoever wrote them, whom the judge is not told"
        ),
        **IN_POINTS,
        **GAP.pick("p", "d_z", "n_narratives"),
        "n_answers": count("scores that the estimate uses"),
        "n_missing": count("questions to the judge without a score"),
        "note": GAP["note"],
    },
    former={"measure": "outcome", "delta_points": "delta", "n_ratings": "n_answers"},
)

JUDGE_EFFECTS: Final = Table(
    "judge_effects",
    "what an experiencer's identity adds to a judge's score",
    {
        "outcome": JUDGE_GAP["outcome"],
        **KEYS,
        "experiencer": word("whom the same replies are shown as ones to"),
        "group": SIDES["experiencer_group"],
        "effect": points(
            "how far the judge scores them above their mean over all experiencers, in points of the measure"
        ),
        "se": points("standard error of effect, in points, over narratives"),
        **{name: IN_POINTS[name] for name in ("df", "ci_low", "ci_high")},
        "p": P_OF_ZERO,
        "p_adjusted": probability("p corrected over the experiencers of the dimension and measure (Holm)"),
        "n_narratives": count("narratives whose replies were judged again"),
        "n_replies": count("replies with a score as one to every experiencer"),
        "note": text("why there is no interval, in words; else empty"),
    },
    former={"measure": "outcome"},
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
        "level_accuracy": share("share at the very level of people's reply"),
        "macro_f1": share("mean F1 of the levels 0 to 2 that occur in either"),
        "note": text("why there is no share or interval, in words; else empty"),
    },
)
