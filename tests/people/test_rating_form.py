import pandas as pd
import pytest
from rated import QUESTIONS, sampled

from audit.people.items import sample_items
from audit.report.form import render_form

ITEMS = sampled(4).shown


def test_the_form_s_bytes_hold_nothing_of_the_perceiver_or_the_grid_but_what_texts_say():
    own = {"a Quaker": "a Muslim", "a Druid": "a Hindu"}  # perceiver -> the experiencer of the same group
    rows = [(p, e, own[p] == e, f"narr-{k}") for p in own for e in own.values() for k in range(3)]
    replies = pd.DataFrame(rows, columns=["perceiver", "experiencer", "in_group", "narrative_id"])
    replies = replies.assign(
        prompt_index=range(9000, 9012), dimension="creed-of-theirs", variant="reply-with-care", emotion="wistfulness",
        status="written", narrative="A key was lost.", text="Quakers feel with you.", model="Llama", strategy="ecn",
    )  # fmt: skip
    replies.loc[1:, "text"] = "I feel with you."
    sample = sample_items(replies, n=None, seed=0)
    page = render_form(sample.shown.merge(replies, how="cross", suffixes=("", "_run")).iloc[:1], QUESTIONS.questions)
    assert "Quaker" not in page.replace("Quakers feel with you.", "")
    page = render_form(sample.shown, QUESTIONS.questions)
    assert page.count("Quaker") == sample.n_revealing == 1
    for absent in (
        "Druid",
        "creed-of",
        "with-care",
        "narr-",
        "wistful",
        "Llama",
        "ecn",
        "in_group",
        "perceiver",
        "900",
    ):
        assert absent not in page, absent


def test_the_same_items_make_the_same_bytes_and_other_items_another_form():
    pages = [render_form(items, QUESTIONS.questions) for items in (ITEMS, ITEMS, ITEMS.iloc[1:])]
    assert pages[0] == pages[1] != pages[2]


def test_a_form_without_items_or_with_one_twice_is_refused():
    with pytest.raises(ValueError, match="needs an item"):
        render_form(ITEMS.iloc[:0], QUESTIONS.questions)
    with pytest.raises(ValueError, match="the same item_id"):
        render_form(ITEMS.iloc[[0, 0]], QUESTIONS.questions)
