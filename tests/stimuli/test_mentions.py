"""Narratives that name a group are told; the oracle is what was planted."""

import pytest

from stimuli.identities import load_dimensions, load_placebos
from stimuli.mentions import remarks
from stimuli.narratives import load_narratives

GROUPS = """
football:
  groups:
    Reds: [a fan of the Reds]
    Greens: [a Greens supporter]
"""


def told(tmp_path, *texts):
    """Return what is said of narratives of a user's own."""
    (tmp_path / "groups.yaml").write_text(GROUPS, "utf-8")
    rows = [f"n{number},joy,{text}" for number, text in enumerate(texts, start=1)]
    (tmp_path / "own.csv").write_text("\n".join(["id,emotion,text", *rows, ""]), "utf-8")
    columns = {"narrative_id": "id", "emotion": "emotion", "neutral": "text"}
    dimensions = load_dimensions("geneva", own=tmp_path / "groups.yaml", names=["football"])
    return remarks(load_narratives("csv", path=tmp_path / "own.csv", columns=columns), dimensions)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("As a fan of the reds I was there.", "fan of the reds"),
        ("I cheered for the Reds.", "Reds"),
        ("I am a Greens supporter.", "Greens supporter"),
    ],
)
def test_a_narrative_that_names_a_group_is_told_with_its_word(text, word, tmp_path):
    assert told(tmp_path, "I won.", text) == (
        f"1 of 2 narratives names a group (the first is 'n2', which has {word!r}), but each narrative "
        "is shown as told by people of every group; reword what would be untrue for other groups",
    )


def test_several_are_counted(tmp_path):
    [said] = told(tmp_path, "I cheered for the Reds.", "I won.", "The Greens lost.")
    assert said.startswith("2 of 3 narratives name a group (the first is 'n1', which has 'Reds')")


@pytest.mark.parametrize(
    "text", ["I ate my greens.", "I saw the Redskins.", "I was a person.", "I hundreds of times won."]
)
def test_what_only_resembles_a_group_is_not_told(text, tmp_path):
    assert told(tmp_path, text) == ()


def test_of_packaged_narratives_and_invented_groups_nothing_is_told():
    narratives = load_narratives("geneva")
    assert remarks(narratives, load_dimensions("geneva")) == ()
    assert remarks(narratives, load_placebos(1, n_terms=1, seed=0)) == ()
    assert remarks(None, ()) == ()
