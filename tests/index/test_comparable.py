"""Which gaps stand together, and what is said of those that do not: rows by hand, no run needed."""

from __future__ import annotations

import pytest

from audit.extras.index.comparable import common_settings, groups_of, not_comparable, numbered
from audit.extras.index.published import whole_row

ALIKE = {
    "state": "gap", "dimension": "religion", "outcome": "intensity", "unit": "points", "scale": "0–100",
    "texts": "a" * 64, "elicitation": "expected", "identities": "c" * 64, "pairs": "all", "narratives": "geneva",
    "language": "English",
}  # fmt: skip


def row(folder="one", **other):
    return whole_row({**ALIKE, "folder": folder, **other})


def test_model_prompt_and_strategy_may_differ_within_a_group():
    rows = [row("one", model="a"), row("two", model="b", prompt="persona-1"), row("three", strategy="ecn")]
    [group] = groups_of(rows)
    assert [each["folder"] for each in group.rows] == ["one", "two", "three"]
    assert not_comparable(group, [group]) == ""


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("scale", "0–10", "scale"),
        ("texts", "b" * 64, "narratives"),
        ("elicitation", "generate", "elicitation"),
        ("language", "German", "language of the prompts"),
        ("identities", "d" * 64, "identities"),
        ("pairs", "without a word in common", "scope (which in-group pairs)"),
        ("unit", "% of the scale", "unit"),
    ],
)
def test_what_differs_is_named_and_keeps_two_gaps_apart(column, value, said):
    groups = groups_of([row("one"), row("two", **{column: value})])
    assert [group.number for group in groups] == [1, 2]
    assert not_comparable(groups[0], groups) == f"Cannot be compared with set 2 (other {said})."
    assert not_comparable(groups[1], groups) == f"Cannot be compared with set 1 (other {said})."


def test_all_that_differs_is_named():
    groups = groups_of([row("one"), row("two", scale="0–10", elicitation="generate")])
    assert not_comparable(groups[0], groups) == "Cannot be compared with set 2 (other scale; elicitation)."


@pytest.mark.parametrize("column", ["texts", "identities"])
def test_what_was_not_recorded_is_like_nothing_else_not_even_like_itself(column):
    groups = groups_of([row("one", **{column: ""}), row("two", **{column: ""}), row("three")])
    assert [len(group.rows) for group in groups] == [1, 1, 1]
    assert len(groups[0].unrecorded) == 1
    assert groups[2].unrecorded == ()
    assert "not recorded" in not_comparable(groups[0], groups)


def test_other_dimensions_and_outcomes_are_groups_of_their_own_and_no_reproach():
    groups = groups_of([row(), row(dimension="nationality"), row(outcome="Length", unit="words", scale="")])
    assert [group.title for group in groups] == ["religion", "religion: Length", "nationality"]
    assert [not_comparable(group, groups) for group in groups] == ["", "", ""]


def test_many_other_groups_are_counted():
    groups = groups_of([row(str(place), scale=f"0–{place}") for place in range(1, 9)])
    assert not_comparable(groups[0], groups).endswith("set 5 (other scale) and 3 more sets.")


def test_rows_without_a_gap_are_in_no_group_and_are_kept():
    rows = [row("x", state="no_gap", dimension=""), row("one"), row("y", state="not_read", dimension="")]
    found = numbered(rows, groups_of(rows))
    assert [(each["folder"], each["group"]) for each in found] == [("one", "1"), ("x", ""), ("y", "")]


def test_a_group_says_what_its_gaps_have_in_common():
    [group] = groups_of([row()])
    said = dict(common_settings(group))
    assert (said["Scale"], said["How asked"], said["In-group pairs"]) == ("0–100", "expected", "all")
    assert "aaaaaaaa" in said["Narratives"]
    assert "Language" not in said
    assert dict(common_settings(groups_of([row(language="German")])[0]))["Language"] == "German"
