"""Inventories: what a file may hold, what prompts show, and which lines are answers. All items here are made up."""

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stimuli.errors import StimulusError
from stimuli.identities import NO_PERSONA, Identity
from stimuli.inventories import load_affect, orders, read_inventory, read_list_answers, sheets
from stimuli.narratives import emotion_valence, emotion_words

JAIN = Identity("a Jain", "Jain", ("Jain",))
NOBODY = Identity(NO_PERSONA, NO_PERSONA, ())
PERSONA = "For this task you are {perceiver}."


def body_of(**changes):
    return {
        "name": "tea test",
        "source": "made up",
        "scale": {"low": 0, "high": 4, "low_label": "never", "high_label": "always"},
        "instruction": "How often is this so?",
        "items": [
            {"id": 1, "text": "I warm the pot.", "subscale": "care"},
            {"id": 2, "text": "I let it\n go {cold}.", "subscale": "care", "reverse": True},
            {"id": "b1", "text": "I pour a second cup.", "subscale": "thirst"},
            {"id": "b2", "text": "I pour a third cup.", "subscale": "thirst"},
        ],
    } | changes


def write(tmp_path, body):
    path = tmp_path / "own.yaml"
    path.write_text(body if isinstance(body, str) else yaml.safe_dump(body), encoding="utf-8")
    return path


@pytest.fixture
def inventory(tmp_path):
    return read_inventory(write(tmp_path, body_of()))


def test_a_file_is_read_with_its_key(inventory):
    assert (inventory.name, inventory.source, inventory.total) == ("tea test", "made up", False)
    assert (inventory.scale.low, inventory.scale.high, inventory.scale.high_label) == (0, 4, "always")
    assert [item.item_id for item in inventory.items] == ["1", "2", "b1", "b2"]
    assert [item.subscale for item in inventory.items] == ["care", "care", "thirst", "thirst"]
    assert [item.reverse for item in inventory.items] == [False, True, False, False]
    assert inventory.items[1].text == "I let it go {cold}."  # one line, braces kept


def test_the_hash_is_of_what_is_asked_and_of_the_key(tmp_path, inventory):
    path = write(tmp_path, "# said otherwise\n" + yaml.safe_dump(body_of(), sort_keys=False))
    assert read_inventory(path).sha256 == inventory.sha256
    changed = body_of()
    changed["items"][0] = changed["items"][0] | {"reverse": True}
    assert read_inventory(write(tmp_path, changed)).sha256 != inventory.sha256


def with_item(place, **changes):
    items = [dict(item) for item in body_of()["items"]]
    items[place] |= changes
    return body_of(items=items)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "is empty"),
        (body_of(scales=1), "unknown key 'scales'; did you mean 'scale'?"),
        (with_item(1, revers=True), "item 2 of 4: unknown key 'revers'; did you mean 'reverse'?"),
        (body_of(scale={"low": 0, "high": 4}), "scale: low_label: is missing"),
        (body_of(scale=body_of()["scale"] | {"mid": 2}), "scale: unknown key 'mid'"),
        (body_of(scale=body_of()["scale"] | {"low": 4}), "low=4 and high=4 must be whole numbers"),
        (
            body_of(scale=body_of()["scale"] | {"high": 4.5}),
            "scale: high: must be a whole number (given: 4.5)",
        ),
        (with_item(1, reverse="R"), "item 2 of 4: reverse: must be true or false (given: 'R')"),
        (with_item(1, reverse=None), "item 2 of 4: reverse: must be true or false (given: nothing)"),
        (with_item(1, reverse=1), "item 2 of 4: reverse: must be true or false (given: 1)"),
        (with_item(2, text=" "), "item 3 of 4: text: must not be empty"),
        (with_item(2, id=False), "item 3 of 4: id: must be text (given: false)"),
        (with_item(1, id="1"), "the id '1' is given to 2 items; give each item its own"),  # 1 and "1" are one id
        (with_item(3, text="I warm  the pot."), "the text 'I warm the pot.' is given to 2 items"),
        (
            with_item(3, subscale="thrist"),
            "'thirst' has 1 item, but a score needs 2; check the spelling of its name ",
        ),
        (with_item(0, subscale="Total"), "has 1 item"),
        (body_of(items=[]), "items is empty"),
        (
            body_of(items=["I warm the pot."]),
            "item 1 of 1: 'I warm the pot.' must have NAME: VALUE pairs; write {id, text, subscale, reverse}",
        ),
        (body_of(scale=None), "scale: nothing must have NAME: VALUE pairs; write {low, high, low_label, high_label}"),
        (body_of(total="no thanks"), "total: must be true or false"),
        (body_of(name="IRI", total=True), "total: true, but IRI has no total score"),
        (body_of(name="my_iri (short)", total=True), "has no total score"),
        (body_of(name="Interpersonal Reactivity Index", total=True), "write total: false"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused_in_one_line(tmp_path, body, said):
    with pytest.raises(StimulusError) as caught:
        read_inventory(write(tmp_path, body))
    assert said in str(caught.value)
    assert "own.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_subscale_can_not_be_called_as_the_total_is(tmp_path):
    items = [item | {"subscale": "Total"} for item in body_of()["items"]]
    with pytest.raises(StimulusError, match="a subscale is called 'Total'"):
        read_inventory(write(tmp_path, body_of(items=items)))


@pytest.mark.parametrize("name", ["tea test", "Irish tea", "IRI"])
def test_a_total_is_allowed_but_for_the_iri(tmp_path, name):
    total = name != "IRI"
    assert read_inventory(write(tmp_path, body_of(name=name, total=total))).total is total


def test_the_affect_words_are_adjectives_of_the_emotions_with_their_valence():
    affect = load_affect()
    valence = {words.adjective: emotion_valence()[name] for name, words in emotion_words().items()}
    assert {item.text: item.subscale for item in affect.items}.items() <= valence.items()
    assert [sum(item.subscale == name for item in affect.items) for name in ("positive", "negative")] == [6, 6]
    assert not any(item.reverse for item in affect.items)
    assert not affect.total


# --- Orders and prompts ----------------------------------------------------------------------------------------------


def test_the_first_order_is_the_file_s_own_and_the_others_are_permutations_that_differ():
    drawn = orders(28, 10, 3)
    assert drawn.shape == (10, 28)
    assert drawn[0].tolist() == list(range(28))
    assert all(sorted(row) == list(range(28)) for row in drawn.tolist())
    assert len({tuple(row) for row in drawn.tolist()}) == 10
    assert orders(28, 4, 3).tolist() == drawn[:4].tolist()  # more orders change none of the first
    assert orders(28, 4, 4).tolist() != drawn[:4].tolist()


def test_all_orders_of_few_items_can_be_asked_and_not_one_more():
    assert len({tuple(row) for row in orders(3, 6, 0).tolist()}) == math.factorial(3)
    for n_orders in (7, 0, -1):
        with pytest.raises(StimulusError, match=f"n_orders={n_orders}: 3 items have 1 to 6 orders"):
            orders(3, n_orders, 0)


def test_a_list_shows_each_order_with_its_items_numbered_by_place(inventory):
    own = sheets(inventory, presentation="list", n_orders=3, seed=1)
    assert [sheet.order for sheet in own] == [0, 1, 2]
    assert own[0].items == inventory.items
    for sheet, places in zip(own, orders(4, 3, 1).tolist(), strict=True):
        assert sheet.items == tuple(inventory.items[place] for place in places)
        user = sheet.prompt(JAIN, persona=PERSONA).user
        lines = "\n".join(f"{place}. {item.text}" for place, item in enumerate(sheet.items, start=1))
        assert lines in user
        assert "on a scale from 0 (never) to 4 (always)" in user


def test_an_item_alone_has_the_order_of_its_labels_turned_round_and_no_third(inventory):
    own = sheets(inventory, presentation="single", n_orders=2, seed=1)
    assert [(sheet.order, *(item.item_id for item in sheet.items)) for sheet in own] == [
        (order, item.item_id) for order in (0, 1) for item in inventory.items
    ]
    asked = [sheet.prompt(JAIN, persona=PERSONA).user for sheet in own]
    assert len(set(asked)) == 8
    assert all("from 0 (never) to 4 (always)" in user for user in asked[:4])
    assert all("from 4 (always) to 0 (never)" in user for user in asked[4:])
    assert '"I let it go {cold}."' in asked[1]
    with pytest.raises(StimulusError, match="n_orders=3: an item shown alone has 2 orders"):
        sheets(inventory, presentation="single", n_orders=3, seed=1)


def test_an_unknown_presentation_is_refused(inventory):
    with pytest.raises(StimulusError, match="did you mean 'list'"):
        sheets(inventory, presentation="lists", n_orders=1, seed=0)


@pytest.mark.parametrize("presentation", ["single", "list"])
def test_the_persona_begins_the_system_message_and_is_left_out_without_one(inventory, presentation):
    sheet = sheets(inventory, presentation=presentation, n_orders=1, seed=0)[0]
    given, without = (sheet.prompt(each, persona=PERSONA) for each in (JAIN, NOBODY))
    assert given.system == f"For this task you are a Jain.\n{without.system}"
    assert given.user == without.user
    assert without.system.startswith("You fill in a questionnaire.")
    assert NO_PERSONA not in without.system + without.user


def test_a_situation_is_imagined_before_the_question_and_its_braces_are_text(inventory):
    sheet = sheets(inventory, presentation="list", n_orders=1, seed=0)[0]
    default = sheet.prompt(JAIN, persona=PERSONA)
    evoked = sheet.prompt(JAIN, persona=PERSONA, situation="The {kettle} whistled.")
    assert (
        evoked.user
        == f'Imagine that you are the person in this situation:\n"The {{kettle}} whistled."\n\n{default.user}'
    )
    assert evoked.system == default.system


# --- Answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "1: 3\n2: 1\n3: 5",
        "3: 5\n1: 3\n2: 1",
        "Here are my answers:\n\n1. 3\n2) 1\n3 = 5\n\nI hope this helps!",
        "**1:** 3\n- 2: **1**\n* Item 3: 5.",
        "1: 3 (neither)\n2: 1 - not at all".replace("not at all", "never") + "\n3: 5/5",
        "01:3\n2: 1.0\n3: 5 out of 5",
        "1: 3\n1: 3\n2: 1\n3: 5\n4: 2\n0: 1",
        "1: I warm the pot. 3\n2. *I let it go cold*: 1\n3: 'I have 2 cups' - 5",
        "1. I warm the pot.\n2. I let it go cold\n3. I have 2 cups\n\n1: 3\n2: 1\n3: 5",
        "1：3\r\n2: 1\r\n3: 5",
    ],
)
def test_plain_lines_are_read(text):
    texts = ["I warm the pot.", "I let it go cold", "I have 2 cups"]
    assert read_list_answers(text, 3, 1, 5, texts=texts) == [3.0, 1.0, 5.0]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "2:",
        "2: I cannot say",
        "2: 6",
        "2: 0",
        "2: -3",
        "2: 3.5",
        "2: 3,5",
        "2: 3-4",
        "2: 3 - 4",
        "2: 3 or 4",
        "2: 3 (or 4)",
        "2: 3 (maybe four)",
        "2: 3 - not sure",
        "2: 3/4",
        "2: 30/50",
        "2: 3%",
        "2: about 3",
        "2: 3 2",
        "2: 3, 3: 4",
        "2 - 3",
        "2 3",
        "2.3",
        "2: ٣",
        "2: 3²",
        "2: three",
        "2: I let it go: 3",  # not the whole item
        "2: I warm the pot: 3",  # another item
        "2: 3\n2: 4",
        "2: 3\n2: 3 or 4",
        "2: 9\n2: 3",
        "12: 3",
        "my answer to 2: 3",
        "2: 99999999999999999999999",
    ],
)
def test_a_doubtful_line_is_no_answer_and_costs_no_other_item(line):
    texts = ["I warm the pot.", "I let it go cold", "I have 2 cups"]
    assert read_list_answers(f"1: 3\n{line}\n3: 5", 3, 1, 5, texts=texts) == [3.0, None, 5.0]


@pytest.mark.parametrize("text", ["3\n1\n5", "3, 1, 5", "1: 3, 2: 1, 3: 5", "", "I would rather not answer."])
def test_numbers_without_an_item_a_line_are_not_read(text):
    assert read_list_answers(text, 3, 1, 5) == [None, None, None]


@given(
    st.permutations(range(1, 9)), st.lists(st.integers(0, 4), min_size=8, max_size=8), st.sampled_from([":", ".", ")"])
)
def test_lines_in_any_order_are_the_answers_that_they_state(places, given_answers, mark):
    text = "\n".join(f"{place}{mark} {given_answers[place - 1]}" for place in places)
    assert read_list_answers(text, 8, 0, 4) == given_answers


@given(st.text(alphabet="0123456789:.)= \n-/ab(²٣", max_size=60), st.integers(1, 4))
def test_whatever_is_written_an_answer_is_a_whole_number_of_the_scale_or_none(text, n_items):
    answers = read_list_answers(text, n_items, 1, 5, texts=["a", "b 1"])
    assert len(answers) == n_items
    assert set(answers) <= {None, 1.0, 2.0, 3.0, 4.0, 5.0}


def test_the_example_of_the_docs_can_be_read(tmp_path):
    docs = (Path(__file__).parents[2] / "docs" / "replies.md").read_text("utf-8")
    (tmp_path / "mine.yaml").write_text(docs.split("```yaml\n")[1].split("```")[0], "utf-8")
    inventory = read_inventory(tmp_path / "mine.yaml")
    assert [(item.item_id, item.reverse) for item in inventory.items] == [("q1", False), ("q2", True)]
