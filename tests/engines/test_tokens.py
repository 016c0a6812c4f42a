"""How rows of tokens are put into batches."""

from hypothesis import given
from hypothesis import strategies as st

from audit.engines.tokens import batches


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 40))
def test_a_batch_with_its_padding_is_as_large_as_allowed_and_each_row_is_in_one(lengths, n_tokens):
    made = list(batches([[7] * n for n in lengths], n_tokens=n_tokens))
    assert sorted(place for batch in made for place in batch) == [k for k, n in enumerate(lengths) if n]
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= n_tokens


def test_rows_that_fit_are_one_batch():
    assert list(batches([[1], [1, 2, 3], [], [1, 2]], n_tokens=9)) == [[1, 3, 0]]
    assert list(batches([[1], [1, 2, 3], [], [1, 2]], n_tokens=8)) == [[1, 3], [0]]
