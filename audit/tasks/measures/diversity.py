"""Dist-n: how varied the words of many replies are; a number of a corpus, not of a reply.

Dist-n is the number of different n-grams over the number of all n-grams. It is due to Li, Galley, Brockett, Gao and
Dolan [1]_, who divide by the number of words for every n; we divide by the number of n-grams, as most have done since.
The two differ only for n > 1, and ours is 1 if no n-gram occurs twice.

Dist-n falls with the amount of text, since a language has few words and all are reused. So only corpora of equal size,
in replies and roughly in words, can be compared: never a group of many terms with a group of few, and never a run with
a longer run.

References
----------
.. [1] Li et al. (2016), A Diversity-Promoting Objective Function for Neural Conversation Models, arXiv:1510.03055.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from audit.statistics.texts.words import words


def ngram_counts(texts: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """Count the n-grams of texts; none spans two texts.

    Words are those of :func:`audit.statistics.texts.words.words`.
    """
    if n < 1:
        raise ValueError(f"n={n}: must be 1 or more")
    counts: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        found = words(text)
        counts.update(zip(*(found[k:] for k in range(n)), strict=False))
    return counts


def distinct(texts: Sequence[str], n: int) -> float:
    """Return Dist-n of texts, in (0, 1]; NaN if they hold no n-gram."""
    counts = ngram_counts(texts, n)
    return len(counts) / counts.total() if counts else float("nan")


def leave_one_out_distinct(texts_by_unit: Sequence[Sequence[str]], n: int) -> tuple[float, npt.NDArray[np.float64]]:
    """Return Dist-n of all texts, and without each unit in turn, for a jackknife over units such as narratives.

    The second value has shape (n_units,); it is NaN if the other units hold no n-gram.

    Notes
    -----
    An n-gram is gone with a unit if the unit has all of its occurrences, so each text is counted once.
    """
    by_unit = [ngram_counts(texts, n) for texts in texts_by_unit]
    counts: Counter[tuple[str, ...]] = Counter()
    for own in by_unit:
        counts.update(own)
    n_gone = np.array([sum(own[gram] == counts[gram] for gram in own) for own in by_unit], dtype=np.float64)
    n_left = counts.total() - np.array([own.total() for own in by_unit], dtype=np.float64)
    left_out = (len(counts) - n_gone) / np.where(n_left > 0, n_left, np.nan)
    return len(counts) / counts.total() if counts else float("nan"), left_out
