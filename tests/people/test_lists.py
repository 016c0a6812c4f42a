"""Lists of narratives for people: their balance, exactly; what they show; and what they do not."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from perceivers import RELIGION, dimension_of, grid_of, lists_of, read_bytes, variant_of

from audit.errors import ConfigError
from audit.people.lists import norming_lists, norming_questions, rating_questions, shown_template
from audit.people.questions import OptionQuestion, load_questions
from audit.people.ratings import items_file
from audit.report.form import SITUATIONS, render_form

ATTACK = '</script><script>hacked=1</script><img src=x onerror="hacked=1">{{7*7}}'


def payload_of(page):
    found = re.search(r'<script type="application/json" id="form-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


@pytest.mark.parametrize("unspecified", [False, True])
def test_a_rater_reads_each_narrative_once_and_each_group_equally_often_and_lists_cross_all(unspecified):
    dimension = dimension_of("religion", RELIGION, unspecified=unspecified)
    n = 25 if unspecified else 24
    lists = lists_of(grid_of(dimension, n=n), n=n)
    key = lists.key
    n_groups = 4 + unspecified
    assert len(lists.names) == n_groups
    assert (key.groupby("list")["narrative_id"].agg(["size", "nunique"]) == n).all(axis=None)
    told = pd.crosstab(key["list"], key["experiencer_group"])
    assert told.shape == (n_groups, n_groups)
    assert (told == n // n_groups).all(axis=None)
    assert (pd.crosstab(key["narrative_id"], key["experiencer"]) == 1).all(axis=None)
    # 6 narratives of an emotion, 4 or 5 groups: each group tells one or two of it in every list.
    assert pd.crosstab([key["list"], key["emotion"]], key["experiencer_group"]).isin([1, 2]).all(axis=None)


def test_groups_of_several_terms_and_several_dimensions_are_as_balanced():
    race = dimension_of("race", {"Black": 3, "White": 2}, unspecified=True)
    religion = dimension_of("religion", {"Hindu": 1, "Jew": 1, "Muslim": 1}, unspecified=True)
    lists = lists_of(grid_of(race, religion, n=24), n=24)
    key = lists.key
    assert len(lists.names) == 6 * 3  # five groups and one unspecified experiencer, three rounds for three terms
    assert (pd.crosstab(key["list"], [key["dimension"], key["experiencer_group"]]) == 4).all(axis=None)
    assert set(key.loc[key["experiencer"] == "a person", "dimension"]) == {""}
    met = pd.crosstab(key["narrative_id"], key["experiencer"])
    assert (met > 0).all(axis=None)
    assert (met.filter(like="Black") == 1).all(axis=None)
    in_list = pd.crosstab(key["list"], key["experiencer"]).filter(like="Black")
    assert in_list.isin([1, 2]).all(axis=None)  # four narratives a list among three terms


def test_the_number_of_narratives_is_one_that_groups_share_evenly_and_that_is_said():
    grid = grid_of(dimension_of("religion", RELIGION, unspecified=True), n=24)
    lists = lists_of(grid)
    assert lists.key.groupby("list").size().to_list() == [20] * 5
    assert any("n=24 was asked for: 20 is the largest" in said for said in lists.remarks)
    few = lists_of(grid_of(dimension_of("religion", RELIGION, unspecified=True), n=3))
    assert few.key.groupby("list").size().to_list() == [3] * 5
    assert any("does not read all groups equally often" in said for said in few.remarks)
    two = lists_of(grid, n_lists=2)
    assert len(two.names) == 2
    assert any("5 lists are needed" in said for said in two.remarks)


@pytest.mark.parametrize(
    ("n", "n_lists", "said"),
    [(0, None, "n=0"), (24, 0, "lists=0"), (24, 5, "lists=5: the run has 4 different lists; give 1 to 4")],
)
def test_what_can_not_be_drawn_is_said(n, n_lists, said):
    with pytest.raises(ConfigError, match=said):
        lists_of(grid_of(), n=n, n_lists=n_lists)


def test_the_same_seed_draws_the_same_lists_and_another_one_others():
    grid = grid_of(n=60)
    first, again, other = (lists_of(grid, n=8, seed=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first.key, again.key)
    assert set(first.key["narrative_id"]) != set(other.key["narrative_id"])
    assert not set(first.key["item_id"]) & set(other.key["item_id"])


def test_an_item_is_worded_as_the_prompt_is_without_the_request_for_a_number():
    lists = lists_of(grid_of())
    row = lists.key.merge(lists.shown[["item_id", "narrative"]], on="item_id").iloc[0]
    noun = {"sad": "sadness", "joy": "joy", "fear": "fear", "anger": "anger"}[row["emotion"]]
    assert row["narrative"] == (
        f'A {row["experiencer_group"]} tells of a situation that brought on {noun}:\n"Text {row["narrative_id"][1:]}."'
    )


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("{Narrative}\nFrom {low} to {high}, how {emotion_adjective}?", "{Narrative}"),
        ("From {low} to {high}.\n{experiencer}: {narrative}\nNumber:", "{experiencer}: {narrative}"),
        ("{experiencer}, {low} to {high}: {narrative}", None),
        ("{narrative}\nHow much {emotion} did {experiencer} feel?", None),
    ],
)
def test_what_is_shown_of_a_template_ends_with_the_narrative_and_asks_for_no_number(user, shown):
    assert shown_template(user) == shown


def test_where_the_prompt_can_not_be_shown_our_words_are_and_that_is_said():
    lists = lists_of(grid_of(variant=variant_of("{narrative}\nHow much {emotion} did {experiencer} feel?")))
    assert lists.shown["narrative"].str.fullmatch(r'A \w+ tells:\n"Text \d+\."').all()
    assert any("raters read our words" in said for said in lists.remarks)


def test_a_rater_says_which_of_the_run_s_groups_is_theirs_none_or_nothing(tmp_path):
    grid = grid_of(dimension_of("religion", RELIGION, unspecified=True), dimension_of("race", {"Black": 2, "White": 1}))
    questions, asked = rating_questions(grid, grid.variant.scale, introduction="Hello.")
    assert asked == {"about_1": "religion", "about_2": "race"}
    assert [each.options for each in questions.about] == [
        (*RELIGION, "none of these", "prefer not to say"),
        ("Black", "White", "none of these", "prefer not to say"),
    ]
    (tmp_path / "q.yaml").write_text(questions.to_yaml(), "utf-8")
    assert load_questions(tmp_path / "q.yaml") == questions


def test_the_form_tells_neither_that_groups_are_compared_nor_who_is_whose():
    grid = grid_of(dimension_of("religion", RELIGION, unspecified=True))
    lists = lists_of(grid)
    questions, _ = rating_questions(grid, grid.variant.scale, introduction=None)
    shown = lists.shown.loc[lists.shown["list"] == lists.names[0]].drop(columns="list")
    page = render_form(
        shown, questions.questions, introduction=questions.introduction, about=questions.about, words=SITUATIONS
    )
    content = page.split("</style>")[1].lower()
    for absent in ("in-group", "out-group", "in_group", "ingroup", "group", "perceiver", "experiencer", "list-", "gap"):
        assert absent not in content, absent
    assert "n0" not in [cell for item in payload_of(page)["items"] for cell in item.values()]
    # The order of items has nothing to do with narratives or groups but by chance, 1 in 500.
    place = lists.key.loc[lists.key["list"] == lists.names[0]]
    for name in ("narrative_id", "experiencer_group"):
        codes = pd.Series(pd.factorize(place[name], sort=True)[0]).rank()
        assert abs(codes.corr(pd.Series(range(len(place)), dtype=float))) < 0.7


def test_hostile_narratives_groups_and_emotions_stay_text():
    dimension = dimension_of("religion", {f"Jew{ATTACK}": 1, "Hindu": 1})
    grid = grid_of(dimension, n=8, text="=HYPERLINK(1) " + ATTACK.replace("{", "{{").replace("}", "}}") + " {k}")
    lists = lists_of(grid, n=8)
    questions, _ = rating_questions(grid, grid.variant.scale, introduction=ATTACK)
    page = render_form(
        lists.shown, questions.questions, introduction=questions.introduction, about=questions.about, words=SITUATIONS
    )
    assert "<script>hacked" not in page
    assert "<img" not in page
    payload = payload_of(page)
    assert all(ATTACK in item["narrative"] for item in payload["items"])
    assert payload["about"][0]["options"][0] == f"Jew{ATTACK}"
    cells = read_bytes(items_file(lists.shown.assign(narrative="=1+1"), questions))
    assert set(cells["narrative"]) == {"'=1+1"}


@pytest.mark.parametrize(
    ("group", "said"), [("=1+1", "read as a formula in a spreadsheet"), ("none of these", "occurs twice")]
)
def test_a_group_that_can_not_be_offered_is_one_clear_line(group, said):
    grid = grid_of(dimension_of("religion", {group: 1, "Hindu": 1}))
    with pytest.raises(ConfigError, match=f"the groups of religion cannot be shown to raters: .*{said}"):
        rating_questions(grid, grid.variant.scale, introduction=None)


def test_norming_lists_hold_each_narrative_once_without_any_identity():
    grid = grid_of(n=22)
    lists = norming_lists(grid, n=8, n_lists=None, seed=0, salt="salt")
    assert len(lists.names) == 3
    assert sorted(lists.key["narrative_id"]) == sorted(f"n{k}" for k in range(22))
    assert lists.key.groupby("list").size().isin([7, 8]).all()
    assert pd.crosstab(lists.key["list"], lists.key["emotion"]).isin([1, 2]).all(axis=None)
    assert set(lists.shown) == {"item_id", "list", "narrative"}
    assert lists.shown["narrative"].str.fullmatch(r"Text \d+\.").all()
    questions = norming_questions(grid, grid.variant.scale, introduction=None)
    assert isinstance(questions.questions[0], OptionQuestion)
    assert set(questions.questions[0].options) == {"sadness", "joy", "fear", "anger"}
    with pytest.raises(ConfigError, match="lists=4: the run's 22 narratives fill 3 lists of 8"):
        norming_lists(grid, n=8, n_lists=4, seed=0, salt="salt")
