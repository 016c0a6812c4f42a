import math
from collections import Counter

import pytest

from audit.tasks.measures.diversity import distinct, ngram_counts

TEXTS = ["I hear you. I hear you!", "You are not alone", "alone"]


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        # i 2, hear 2, you 3, are, not, alone 2: 6 of 11 words.
        (1, 6 / 11),
        # i hear 2, hear you 2, you i; you are, are not, not alone; none in "alone": 6 of 8 pairs.
        (2, 6 / 8),
        # i hear you 2, hear you i, you i hear; you are not, are not alone: 5 of 6.
        (3, 5 / 6),
        (6, 1.0),
    ],
)
def test_dist_n_is_different_n_grams_over_all(n, expected):
    assert distinct(TEXTS, n) == pytest.approx(expected, abs=1e-15)


def test_n_grams_do_not_go_from_one_text_into_the_next():
    assert ngram_counts(["a b", "c"], 2) == Counter({("a", "b"): 1})
    assert ngram_counts(["a b c"], 2) == Counter({("a", "b"): 1, ("b", "c"): 1})


@pytest.mark.parametrize("texts", [[], [""], ["…!"], ["alone"]])
def test_no_n_gram_is_no_number(texts):
    assert math.isnan(distinct(texts, 2))


def test_it_falls_with_the_size_of_the_corpus():
    assert distinct(TEXTS * 2, 1) == distinct(TEXTS, 1) / 2


def test_no_words_at_a_time_are_refused():
    with pytest.raises(ValueError, match="n=0"):
        distinct(TEXTS, 0)
