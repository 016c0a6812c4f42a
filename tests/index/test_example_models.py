"""The committed example: two families of models, and the index of their runs as the command writes it today."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from audit.index.write import write_index

EXAMPLE = Path(__file__).parents[2] / "reports" / "example-models"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports") / EXAMPLE.name
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("figures", "engine.log", ".lock"))
    return write_index(folder)


def test_the_committed_index_is_what_the_command_writes_of_the_committed_runs(made):
    for path in (made.page, *made.files):
        assert path.read_bytes() == (EXAMPLE / path.name).read_bytes(), f"python -m audit index {EXAMPLE}"


def test_two_families_stand_in_one_group_and_neither_is_ranked(made):
    group = next(each for each in made.groups if len({row["model"] for row in each.rows}) > 1)
    assert {row["model"] for row in group.rows} == {"gemma-3-270m-q4_k_m.gguf", "smollm2"}
    assert "Sorting them by δ makes no ranking" in made.page.read_text("utf-8")


def test_sizes_are_those_of_the_models(made):
    sizes = made.rows.groupby("model")["parameters"].first()
    # As their makers name them: 270 and 135 million.
    assert sizes["gemma-3-270m-q4_k_m.gguf"] == pytest.approx(270e6, rel=0.02)
    assert sizes["smollm2"] == pytest.approx(135e6, rel=0.02)


def test_no_claim_is_decided_by_models_whose_ratings_were_not_shown_to_follow_the_story(made):
    assert set(made.rows["manipulation"]) == {"not shown"}
    assert {"size", "persona", "scale"} == set(made.claims["claim"])
    assert set(made.claims["says"]) == {"cannot_tell"}
