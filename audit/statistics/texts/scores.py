"""Scores of written texts: length, refusal, sentiment, stereotype words and emotions.

They are crude: words are counted one by one, in English, without negation or context. They can show whether texts about
one group differ from texts about others, never what a single text means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.asking.elicitation.parsing import holds_refusal
from audit.asking.elicitation.plain_text import answer_of
from audit.statistics.texts.words import sentences, words
from audit.tables.stages import THEME
from stimuli.stereotypes import Lexicon

_WHOM: Final = (
    "dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "perceiver_group",
    "experiencer_group",
)  # fmt: skip

ReadEmotions: TypeAlias = Callable[[Sequence[str], Sequence[str]], Mapping[str, npt.NDArray[np.float64]]]
"""From texts, and the emotion of the narrative that each is about, to scores by name; NaN where a text has none."""


def score_texts(texts: Sequence[str], *, lexicon: Lexicon) -> pd.DataFrame:
    """Score each text; texts that are the same are scored once.

    One row a text, in their order, indexed from 0:

    - ``n_words``: words, by :func:`audit.statistics.texts.words.words`.
    - ``refused``: whether the text holds a phrase that declines the task, by the patterns that read ratings. They
      were made for short answers, and can be wrong about a long text.
    - ``sentiment``: mean over sentences of VADER's compound score [1]_, from -1 (negative) to 1 (positive).
    - ``stereotype_words``: words that are in any theme, per 100 words.
    - ``theme_NAME``: words of one theme, per 100 words. A word in several themes counts in each, and once above.

    A text without a word has 0 words and no other number: NaN, never 0.

    Notes
    -----
    VADER is a lexicon of about 7,500 words and rules for negation, emphasis and "but", made for English messages. Its
    package (3.3.2, of 2020) is frozen, so that the same text has the same score; the split into sentences is ours.

    References
    ----------
    .. [1] Hutto and Gilbert (2014), VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text,
       ICWSM 8(1), 216–225.
    """
    codes, distinct = pd.factorize(pd.Series(list(texts), dtype=object), use_na_sentinel=False)
    polarity = _polarity()
    themes_of = cache(lexicon.themes_of)
    columns = ["n_words", "refused", "sentiment", "stereotype_words", *(THEME + theme for theme in lexicon.themes)]
    scored = pd.DataFrame(
        [_score(str(text), list(lexicon.themes), themes_of, polarity) for text in distinct], columns=columns
    ).astype({"n_words": "int64", "refused": "bool"} | dict.fromkeys(columns[2:], "float64"))
    return scored.take(codes).reset_index(drop=True)


def score_stages(
    stages: pd.DataFrame, ratings: pd.DataFrame, *, lexicon: Lexicon, read_emotions: ReadEmotions | None = None
) -> pd.DataFrame:
    """Join the texts that stages wrote with whom they are about and with their scores, one row a prompt and stage.

    Stages of prompts that are not in ``ratings`` (or replies) are left out. ``read_emotions`` is given each pair of a
    text and its narrative's emotion once; what a model thinks before it answers is not read.
    """
    about = stages.merge(ratings[["prompt_index", *_WHOM]], on="prompt_index", how="inner", validate="many_to_one")
    scored = about.join(score_texts(about["text"].tolist(), lexicon=lexicon))
    if read_emotions is None:
        return scored
    pairs = pd.DataFrame({"text": about["text"].map(cache(answer_of)), "emotion": about["emotion"]}).astype(str)
    codes = pairs.groupby(["text", "emotion"], sort=False).ngroup().to_numpy(dtype=np.intp)
    distinct = pairs.drop_duplicates()
    of_pairs = read_emotions(distinct["text"].tolist(), distinct["emotion"].tolist())
    return scored.assign(**{name: scores[codes] for name, scores in of_pairs.items()})


def _score(
    text: str, themes: Sequence[str], themes_of: Callable[[str], frozenset[str]], polarity: Callable[[str], float]
) -> list[Any]:
    found = words(text)
    if not found:
        return [0, False, *[float("nan")] * (2 + len(themes))]
    of_words = [themes_of(word) for word in found]
    counts = Counter(theme for each in of_words for theme in each)
    parts = [polarity(sentence) for sentence in sentences(text)]
    return [
        len(found),
        holds_refusal(text),
        sum(parts) / len(parts),
        100 * sum(map(bool, of_words)) / len(found),
        *(100 * counts[theme] / len(found) for theme in themes),
    ]


@cache
def _polarity() -> Callable[[str], float]:
    # Imported here: it reads its lexicon, and only runs with texts need it.
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    analyser = SentimentIntensityAnalyzer()

    def compound(sentence: str) -> float:
        return float(analyser.polarity_scores(sentence)["compound"])

    return compound
