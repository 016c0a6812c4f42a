"""Knowledge of narratives from a user's file: what is read, what is missed, and the hash of what is used."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stimuli.errors import StimulusError
from stimuli.knowledge import RELATIONS, read_knowledge
from stimuli.narratives import EmotionWords, Narrative, Narratives

TWO = ("xWant", "xReact")
FILE = "narrative_id,xReact,note,xWant\nn2,glad,x,to rest\nother,,,\nn1,tired,,to {sleep}\n"


def run_of(*narrative_ids):
    made = (Narrative(each, "joy", EmotionWords("", ""), "A day.", "", "") for each in narrative_ids)
    return Narratives("csv", tuple(made), len(narrative_ids), "")


@pytest.fixture
def write(tmp_path):
    """Write knowledge and return the file."""

    def to_file(content, name="known.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return to_file


def test_the_relations_are_the_five_of_the_paper():
    assert RELATIONS == ("xIntent", "xNeed", "xWant", "xEffect", "xReact")


def test_knowledge_is_in_the_order_of_the_run_and_of_the_relations_that_are_asked_for(write):
    path = write(FILE)
    knowledge = read_knowledge(path, run_of("n1", "n2"), TWO)
    assert knowledge.source == str(path)
    texts = [(each, list(known.items())) for each, known in knowledge.texts.items()]
    assert texts == [
        ("n1", [("xWant", "to {sleep}"), ("xReact", "tired")]),
        ("n2", [("xWant", "to rest"), ("xReact", "glad")]),
    ]


def test_what_the_run_does_not_ask_about_may_be_empty_and_changes_nothing(write):
    knowledge = read_knowledge(write(FILE), run_of("n1", "n2"), TWO)
    tsv = "narrative_id\txWant\txReact\txNeed\nn1\tto {sleep}\ttired\t\nn2\tto rest\tglad\t\nmore\ta\t\t\n"
    again = read_knowledge(write(tsv, "known.tsv"), run_of("n1", "n2"), TWO)
    assert (again.texts, again.sha256) == (knowledge.texts, knowledge.sha256)


def test_the_hash_is_of_what_is_used_in_its_order(write):
    path = write(FILE)
    asked = [
        (("n1", "n2"), TWO),
        (("n2", "n1"), TWO),
        (("n1",), TWO),
        (("n1", "n2"), TWO[:1]),
        (("n1", "n2"), TWO[::-1]),
    ]
    hashes = {read_knowledge(path, run_of(*ids), relations).sha256 for ids, relations in asked}
    hashes.add(read_knowledge(write(FILE.replace("tired", "weary")), run_of("n1", "n2"), TWO).sha256)
    assert len(hashes) == 6


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        pytest.param(
            "narrative_id,xWants,xReact\nn1,a,b\n",
            ": no column 'xWant' (for xWant); did you mean 'xWants'? there are: narrative_id, xReact, "
            "xWants; add a column for each relation, or remove one from strategy.knowledge.relations, and "
            "from the templates",
            id="no relation",
        ),
        pytest.param(
            "id,xWant,xReact\nn1,a,b\n", ": no column 'narrative_id' (for narrative_id); ", id="no identifier"
        ),
        pytest.param(
            "narrative_id,xWant,xReact\nn2,a,b\nx,a,b\n",
            ": 2 of the 3 narratives of this run are missing (first: 'n1'); add a row for each",
            id="narratives absent",
        ),
        pytest.param(
            'narrative_id,xWant,xReact\nn1,"a\nb",b\nn3,a,b\nn2,a,  \n',
            ": line 5: narrative 'n2' has no text for the relation xReact; fill the cell, or remove the "
            "relation from strategy.knowledge.relations",
            id="empty cell",
        ),
        pytest.param("narrative_id,xWant,xReact\nn1,a\n", ": line 2: narrative 'n1' has no text", id="too few cells"),
        pytest.param(
            "narrative_id,xWant,xReact\n,a,b\n", ": line 2: the cell in column 'narrative_id' is empty", id="id"
        ),
        pytest.param(
            "narrative_id,xWant,xReact\nn1,a,b\nn1,c,d\n", ": the narrative identifier 'n1' occurs twice", id="twice"
        ),
        pytest.param("narrative_id,xWant,xReact\n", ": has a header but no knowledge", id="header alone"),
    ],
)
def test_a_faulty_file_is_named_with_the_place_and_the_remedy(write, content, fragment):
    path = write(content)
    asked = run_of("n1") if ": narrative 'n1'" in fragment else run_of("n1", "n2", "n3")
    with pytest.raises(StimulusError) as caught:
        read_knowledge(path, asked, TWO)
    assert str(caught.value).startswith(f"{path}{fragment}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(StimulusError, match=r"absent\.csv is not a file"):
        read_knowledge(tmp_path / "absent.csv", run_of("n1"), TWO)


@given(st.integers(0, 2**16), st.integers(1, 6))
def test_the_order_of_the_file_changes_nothing(tmp_path_factory, seed, n):
    lines = [f"n{k},want {k},feel {k}\n" for k in range(6)]
    folder = tmp_path_factory.mktemp("order")
    read = []
    for name in ("one.csv", "other.csv"):
        (folder / name).write_text("narrative_id,xWant,xReact\n" + "".join(lines))
        read.append(read_knowledge(folder / name, run_of(*(f"n{k}" for k in range(n))), TWO))
        random.Random(seed).shuffle(lines)
    assert (read[0].texts, read[0].sha256) == (read[1].texts, read[1].sha256)
    assert list(read[1].texts) == [f"n{k}" for k in range(n)]
