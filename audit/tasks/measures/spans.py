"""Agreement of two spans of text, word by word, as in SQuAD."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def span_words(text: str) -> list[str]:
    """Split a span into the words that are compared: lower case, without ASCII punctuation and articles.

    References
    ----------
    Rajpurkar et al. (2016), SQuAD, arXiv:1606.05250; ``normalize_answer`` of its evaluation script, version 1.1.
    """
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def exact_match(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Return 1 if two spans have the same words in the same order, else 0: SQuAD's exact match."""
    return float(list(found) == list(wanted))


def word_f1(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Return F1 of two spans' words, as multisets; 1 if neither has words, 0 if one has none."""
    n_words = len(found) + len(wanted)
    return 2 * (Counter(found) & Counter(wanted)).total() / n_words if n_words else 1.0
