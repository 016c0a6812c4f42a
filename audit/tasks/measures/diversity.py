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

from audit.statistics.texts.words import words


def ngram_counts(texts: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """Count the n-grams of texts; none spans two texts."""
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
