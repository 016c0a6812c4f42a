"""What people say about a run's replies, how far they agree, and how far measures agree with them."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Storage, Table, count, number, text, word
from audit.tables.people import CORRELATIONS
from audit.tables.replies import MEASURES
from audit.tables.shared import PROMPT

PEOPLE_SCORES: Final = Table(
    "people_scores",
    "a rater's score of a reply, kept in ``people/ratings.csv``",
    {
        "rater": word("who rated"),
        "prompt_index": PROMPT["prompt_index"],
        "question": word("what the rater was asked"),
        "score": number("what the rater answered, on the question's scale"),
    },
    kept=Storage("people/ratings.csv", again="import the raters' files again"),
)

AGREEMENT: Final = Table(
    "agreement",
    "a question that raters answered",
    {
        "question": word("what raters were asked"),
        "level": word("what differences between scores mean: ordinal"),
        "alpha": number("Krippendorff's alpha: 1 where raters agree, 0 where no more than by chance"),
        "ci_low": number("lower end of its percentile interval over resampled narratives, each with all replies to it"),
        "ci_high": number("upper end of the same"),
        "n_raters": count("raters with a score"),
        "n_items": count("replies with the scores of two raters or more: they alone count"),
        "n_narratives": count("narratives that these are to: what is resampled; of fewer than 20 there is no interval"),
        "n_scores": count("scores of these"),
        "n_left_out": count("scores of replies that one rater alone scored"),
        "note": text("why there is no alpha or interval, in words; else empty"),
    },
)

HUMAN_CORRELATIONS: Final = Table(
    "human_correlations",
    "a question, a measure and an emotion, or all",
    {
        "question": AGREEMENT["question"],
        "measure": MEASURES["measure"],
        **{"n_narratives" if name == "n_units" else name: column for name, column in CORRELATIONS.items()},
        "n_narratives": count("narratives that the replies are to: what is resampled"),
    },
)
