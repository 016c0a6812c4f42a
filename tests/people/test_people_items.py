import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from rated import replies_of, sampled

from audit.errors import ConfigError
from audit.people.items import KEY, sample_items

HIDDEN = {"perceiver", "dimension", "in_group", "prompt_index", "variant", "status"}


@pytest.mark.parametrize("n", [4, 12, 24])
def test_the_plain_difference_of_whole_squares_is_the_planted_gap_whoever_was_drawn(n):
    # score = narrative + perceiver + experiencer + 2 for in-group: squares cancel all but the gap, by arithmetic.
    own = {"a Muslim": 0.0, "a Hindu": 5.0, "a Jew": -11.0, "a Buddhist": 3.0}
    key = sampled(n, narratives=8, terms=tuple(own)).key
    score = key["perceiver"].map(own) + 7 * key["experiencer"].map(own) + key["narrative_id"].str[1:].astype(float) ** 2
    score += 2.0 * key["in_group"]
    assert score[key["in_group"]].mean() - score[~key["in_group"]].mean() == pytest.approx(2)
    assert key.groupby("narrative_id").size().to_list() == [4] * min(n // 4, 8)


def test_dimensions_take_turns_over_narratives():
    key = sampled(16, narratives=4, dimensions=("religion", "other")).key
    assert key["dimension"].value_counts().to_dict() == {"religion": 8, "other": 8}
    assert key["narrative_id"].nunique() == 4


@pytest.mark.parametrize("n", [1, 6, 9])
def test_a_sample_has_the_size_asked_for_and_is_balanced_within_one(n):
    in_group = sampled(n, narratives=5).key["in_group"]
    assert len(in_group) == n
    assert abs(in_group.sum() - (~in_group).sum()) <= 1


def test_a_smaller_sample_is_part_of_a_larger_one_and_the_table_s_order_does_not_matter():
    replies = replies_of(narratives=5)
    small, large = (sample_items(replies, n=n, seed=3) for n in (6, 17))
    assert set(small.key["item_id"]) < set(large.key["item_id"])
    assert_frame_equal(sample_items(replies.sample(frac=1, random_state=1), n=6, seed=3).shown, small.shown)


def test_a_run_folder_s_categories_make_no_difference():
    replies = replies_of()
    typed = replies.astype(
        dict.fromkeys(["dimension", "narrative_id", "perceiver", "experiencer", "status"], "category")
    )
    plain, sample = (sample_items(table, n=8, seed=0) for table in (replies, typed))
    assert_frame_equal(sample.shown, plain.shown)
    assert_frame_equal(sample.key, plain.key)
    assert sample.remarks == plain.remarks


def test_what_was_not_written_and_baselines_are_never_drawn():
    replies = replies_of(narratives=2)
    replies.loc[replies.index % 2 == 0, "status"] = "refused"
    replies.loc[replies.index % 4 == 1, "status"] = "cut"
    sample = sample_items(replies, n=None, seed=0)
    assert sample.n_eligible == len(sample.key) == 9  # of 9 pairs of identities and 2 narratives every second one
    assert set(sample.key["status"]) == {"written", "cut"}
    assert "a person" not in set(sample.key[["perceiver", "experiencer"]].to_numpy().ravel())


def test_no_more_is_drawn_than_can_be_balanced_and_that_is_said():
    sample = sampled(
        100, narratives=2
    )  # of each narrative's 3 in-group replies a square takes 2, and the third has a partner
    assert sample.key["in_group"].value_counts().to_dict() == {True: 6, False: 6}
    assert any("100 items were asked for" in remark for remark in sample.remarks)


def test_one_perceiver_s_replies_are_drawn_in_pairs():
    replies = replies_of(narratives=4)
    sample = sample_items(replies[replies["perceiver"] == "a Jew"], n=8, seed=0)
    assert sample.key.groupby("narrative_id")["in_group"].agg(["size", "sum"]).to_numpy().tolist() == [[2, 1]] * 4


def test_raters_see_the_texts_and_an_identifier_that_tells_nothing():
    replies = replies_of(narratives=4)
    sample = sample_items(replies, n=None, seed=0)
    assert list(sample.shown) == ["item_id", "person", "narrative", "reply"]
    assert list(sample.key) == list(KEY)
    merged = sample.shown.merge(sample.key, on="item_id").merge(replies, on="prompt_index", suffixes=("", "_run"))
    assert (merged["reply"] == merged["text"]).all()
    assert (merged["narrative"] == merged["narrative_run"]).all()
    assert (merged["person"] == merged["experiencer_run"]).all()
    assert sample.shown["item_id"].str.fullmatch("[bcdfghjkmnpqrstv]{10}").all()
    # 36 items in an order that has nothing to do with who is in them: |Spearman| < .5 but for a chance of 1 in 500.
    for name in ("prompt_index", "in_group"):
        assert abs(sample.key[name].astype(float).rank().corr(pd.Series(sample.key.index, dtype=float))) < 0.5


def test_identifiers_are_of_one_run_and_one_seed():
    replies = replies_of()
    other = replies.assign(text=replies["text"].where(replies.index > 0, "Another."))
    ids = [set(sample_items(r, n=None, seed=s).key["item_id"]) for r, s in ((replies, 0), (replies, 1), (other, 0))]
    assert len(set.union(*ids)) == 3 * len(ids[0])


@pytest.mark.parametrize(
    ("term", "dimension", "text", "names"),
    [
        ("a Muslim", "religion", "As a muslim, I hear you.", True),
        ("a Muslim", "religion", "Many Muslims feel so.", True),
        ("a Muslim", "religion", "I wear muslin.", False),
        ("a Jew", "religion", "What a jewel.", False),
        ("a person from Japan", "nationality", "In Japanese we say so.", True),
        ("a person from the United States", "nationality", "She states that we are united.", False),
        ("a person from the United States", "nationality", "Here in the United\nStates.", True),
        ("a Black person", "ethnicity", "A person like you.", False),
        ("a Black Muslim", "religion", "As a Muslim.", False),
        ("a Black Muslim", "ethnicity+religion", "As a Muslim.", True),
        ("a person", "religion", "A person.", False),
        ("a (b.c", "religion", "A (b.c you know", True),
    ],
)
def test_a_reply_that_names_the_perceiver_is_counted_and_left_as_it_is(term, dimension, text, names):
    replies = replies_of(narratives=1, terms=(term, "a Hindu"), dimensions=(dimension,), text=text)
    replies["in_group"] = replies["perceiver"] == replies["experiencer"]
    sample = sample_items(replies, n=None, seed=0)
    own = sample.key["perceiver"] == term
    assert sample.key["names_perceiver"].tolist() == (own & names).tolist()
    assert sample.n_revealing == (own.sum() if names else 0)
    assert any("may tell raters who the perceiver is" in remark for remark in sample.remarks) == names
    assert (sample.shown["reply"] == text).all()


def test_a_masked_experiencer_is_nobody_in_the_narrative_and_reply_s_mentions_are_counted():
    replies = replies_of(narratives=1, text="Dear Hindu friend.")
    sample = sample_items(replies, n=None, seed=0, mask_experiencer=True)
    assert list(sample.shown) == ["item_id", "narrative", "reply"]
    assert set(sample.shown["narrative"]) == {"A person lost key no. 0."}
    assert sample.key["names_experiencer"].tolist() == (sample.key["experiencer"] == "a Hindu").tolist()
    assert any("3 of 9 items name the experiencer's identity" in remark for remark in sample.remarks)


@pytest.mark.parametrize(
    ("change", "n", "said"),
    [
        ({}, 0, "n=0: give the number"),
        ({"status": "refused"}, 4, "nothing to rate: of 48 replies none"),
        ({"in_group": False}, 4, "no narrative has both"),
    ],
)
def test_what_can_not_be_drawn_is_said(change, n, said):
    with pytest.raises(ConfigError, match=said):
        sample_items(replies_of().assign(**change), n=n, seed=0)


def test_a_table_that_is_none_of_replies_is_refused():
    replies = replies_of()
    with pytest.raises(ValueError, match="lacks narrative, text"):
        sample_items(replies.drop(columns=["narrative", "text"]), n=4, seed=0)
    with pytest.raises(ValueError, match="occurs twice"):
        sample_items(pd.concat([replies, replies]), n=4, seed=0)
