"""Pairs of replies for people: what raters see tells nothing of the runs, and what they chose is read back."""

import itertools

import numpy as np
import pandas as pd
import pytest

from audit.comparing.preference.pairs import (
    SIDES_FILE,
    choices_made,
    load_pair_questions,
    pair_files,
    read_sides,
    sample_pairs,
)
from audit.errors import ConfigError, StoreError
from audit.people.ratings import read_human_ratings, read_key
from audit.tables.preference import CHOICES, PAIR_SIDES

TERMS = ("a Muslim", "a Hindu", "a Jew")


def pairs_of(narratives=4, **changes):
    rows = [
        {
            "dimension": "religion", "variant": "reply", "narrative_id": f"n{k}", "emotion": "joy",
            "perceiver": p, "experiencer": e, "perceiver_group": p[2:], "experiencer_group": e[2:],
            "in_group": p == e if "a person" not in (p, e) else pd.NA, "n_shared": int(p == e),
            "narrative": f"{e} lost key no. {k}.", "first_reply": "written", "second_reply": "cut",
            "text_1": f"ALPHA {k} {p} {e} ", "text_2": f"  BETA {k} {p} {e}", "same_text": False,
        }
        for p, e in itertools.product((*TERMS, "a person"), repeat=2) for k in range(narratives)
    ]  # fmt: skip
    table = pd.DataFrame(rows).astype({"in_group": "boolean"})
    return table.assign(pair=range(len(table)), **changes)


def chosen(folder, wanted, *, n=None, seed=0):
    """Export, have raters answer ``wanted(run that stands first)`` with a score each, and read it all back."""
    questions = load_pair_questions()
    sample = sample_pairs(pairs_of(), n=n, seed=seed)
    for name, content in pair_files(sample, questions).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    items = pd.read_csv(folder / "raters/items.csv", encoding="utf-8-sig")
    alpha_first = items["reply"].str.startswith("1.\nALPHA")
    path = folder / "anna.csv"
    items.assign(empathy=[wanted(first) for first in alpha_first])[["item_id", "empathy"]].to_csv(path, index=False)
    key, sides = read_key(folder / "key.csv"), read_sides(folder / SIDES_FILE)
    human = read_human_ratings([path], key=key, questions=questions)
    return choices_made(human, key, sides, questions), alpha_first


# --- What raters see -------------------------------------------------------------------------------------------------


def test_raters_see_both_replies_in_an_order_that_is_drawn_and_nothing_of_the_runs():
    sample = sample_pairs(pairs_of(), n=None, seed=0)
    shown = sample.items.shown
    assert list(shown) == ["item_id", "person", "narrative", "reply"]
    assert len(shown) == 4 * 9  # baselines are left out
    first = shown["reply"].str.startswith("1.\nALPHA")
    assert (first | shown["reply"].str.startswith("1.\nBETA")).all()
    assert shown["reply"].str.count("ALPHA").eq(1).all()
    assert shown["reply"].str.count("BETA").eq(1).all()
    assert not shown["reply"].str.contains("  ").any()  # white space at an end would tell
    sides = shown[["item_id"]].merge(sample.sides, on="item_id")["first"]
    assert (sides == np.where(first, 1, 2)).all()


def test_each_run_stands_first_as_often_in_every_narrative():
    pairs = pairs_of(narratives=40)
    sample = sample_pairs(pairs.loc[pairs["in_group"].notna()], n=None, seed=3)
    first = sample.items.key.merge(sample.sides, on="item_id").groupby("narrative_id")["first"]
    assert set(first.apply(lambda own: (own == 1).sum())) == {4, 5}  # of 9
    assert 150 < (sample.sides["first"] == 1).sum() < 210


def test_the_order_is_the_seed_s_and_a_smaller_sample_is_part_of_a_larger_one():
    small, large, other = (sample_pairs(pairs_of(), n=n, seed=seed) for n, seed in ((8, 0), (20, 0), (20, 1)))
    assert set(small.items.shown["item_id"]) < set(large.items.shown["item_id"])
    both = small.sides.merge(large.sides, on="item_id")
    assert (both["first_x"] == both["first_y"]).all()
    assert set(large.items.shown["item_id"]).isdisjoint(other.items.shown["item_id"])


def test_pairs_that_can_not_be_told_apart_or_lack_a_reply_are_not_asked_about():
    pairs = pairs_of(narratives=1)
    between = pairs.index[pairs["in_group"].notna()]
    pairs.loc[between[0], "same_text"] = True
    pairs.loc[between[1], "second_reply"] = "refused"
    sample = sample_pairs(pairs, n=None, seed=0)
    assert set(sample.items.key["prompt_index"]) == set(between[2:])
    assert sample.n_same == 1
    assert "1 pair of replies with the same words are left out" in sample.remarks[1]
    with pytest.raises(ConfigError, match="no pair of replies is written in both runs and differs"):
        sample_pairs(pairs_of(same_text=True), n=5, seed=0)


# --- What they chose -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "chose"),
    [
        (lambda alpha_first: 1 if alpha_first else 3, 1.0),  # always the first run's
        (lambda alpha_first: 3 if alpha_first else 1, 0.0),
        (lambda _: 2, 0.5),
    ],
)
def test_what_is_chosen_is_the_run_s_reply_wherever_it_stood(tmp_path, wanted, chose):
    choices, alpha_first = chosen(tmp_path, wanted, n=16)
    assert list(choices) == list(CHOICES)
    assert len(choices) == 16
    assert 0 < alpha_first.sum() < 16
    assert (choices["chose"] == chose).all()
    assert choices["chose_place"].nunique() == (1 if chose == 0.5 else 2)
    assert (choices["in_group"] == (choices["perceiver"] == choices["experiencer"])).all()


def test_who_takes_the_first_throughout_prefers_the_place(tmp_path):
    choices, _ = chosen(tmp_path, lambda _: 1, n=None)
    assert (choices["chose_place"] == 1).all()
    assert 0.3 < choices["chose"].mean() < 0.7


def test_a_pair_that_is_left_out_is_missing_and_no_tie(tmp_path):
    choices, alpha_first = chosen(tmp_path, lambda first: 1 if first else None, n=16)
    assert choices["chose"].isna().sum() == (~alpha_first).sum() > 0
    assert set(choices["chose"].dropna()) == {1.0}


def test_sides_of_other_pairs_are_refused(tmp_path):
    chosen(tmp_path, lambda _: 2, n=8)
    key, sides = read_key(tmp_path / "key.csv"), read_sides(tmp_path / SIDES_FILE)
    questions = load_pair_questions()
    human = read_human_ratings([tmp_path / "anna.csv"], key=key, questions=questions)
    with pytest.raises(StoreError, match="not of the same pairs"):
        choices_made(human, key, sides.iloc[1:], questions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("first", "side", 1), "cannot be read"),
        (lambda t: t.replace(",1,", ",7,").replace(",2,", ",7,"), "neither 1 nor 2"),
    ],
)
def test_sides_that_were_changed_are_refused(tmp_path, change, message):
    chosen(tmp_path, lambda _: 2, n=8)
    path = tmp_path / SIDES_FILE
    assert list(read_sides(path)) == list(PAIR_SIDES)
    path.write_text(change(path.read_text()))
    with pytest.raises(StoreError, match=message):
        read_sides(path)


def test_a_scale_without_a_middle_has_no_tie_and_is_refused(tmp_path):
    own = tmp_path / "own.yaml"
    body = "questions: {{warmth: {{text: Which, low: 1, high: {high}, low_label: first, high_label: second}}}}"
    own.write_text(body.format(high=4))
    with pytest.raises(ConfigError, match=r"own.yaml: questions.warmth: a scale between two replies needs a middle"):
        load_pair_questions(own)
    own.write_text(body.format(high=5))
    assert load_pair_questions(own).names == ("warmth",)


def test_a_number_that_no_column_holds_is_refused(tmp_path):
    chosen(tmp_path, lambda _: 2, n=8)
    path = tmp_path / SIDES_FILE
    path.write_text(path.read_text().replace(",1,", f",{'9' * 40},", 1))
    with pytest.raises(StoreError, match="cannot be read"):
        read_sides(path)
