"""The index of the published runs, of two families of models, as the command writes it today."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from audit.extras.index.write import write_index

QWEN, LARGER = (f"qwen2.5-coder-{size}b-instruct-q4_k_m.gguf" for size in ("0.5", "1.5"))
PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports") / PUBLISHED.name
    shutil.copytree(PUBLISHED, folder, ignore=shutil.ignore_patterns("figures", "engine.log", ".lock"))
    return write_index(folder)


def test_the_committed_index_is_what_the_command_writes_of_the_committed_runs(made):
    for path in (made.page, *made.files):
        assert path.read_bytes() == (PUBLISHED / path.name).read_bytes(), f"python -m audit index {PUBLISHED}"


def test_two_sizes_stand_in_one_group_and_neither_is_ranked(made):
    group = next(each for each in made.groups if len({row["model"] for row in each.rows}) > 1)
    assert {row["model"] for row in group.rows} == {QWEN, LARGER}
    assert "Sorting them by δ makes no ranking" in made.page.read_text("utf-8")


def test_sizes_are_those_of_the_models(made):
    sizes = made.rows.groupby("model")["parameters"].first()
    # As their makers name them: 494 and 135 million. Qwen's GGUF file holds the embeddings twice, 151,936 x 896.
    assert sizes[QWEN] == pytest.approx(494e6 + 151_936 * 896, rel=0.02)
    assert sizes["smollm2"] == pytest.approx(135e6, rel=0.02)


def test_no_claim_is_decided_where_a_model_is_not_shown_to_follow_the_story(made):
    followed = made.rows.groupby("model")["manipulation"].unique().map(list).to_dict()
    assert followed == {LARGER: ["passed"], QWEN: ["not shown"], "smollm2": ["failed"]}
    assert set(made.rows.loc[made.rows["model"] == "smollm2", "verdict"]) == {"absent"}
    assert {"size", "persona", "scale"} == set(made.claims["claim"])
    follows = made.rows.groupby("folder")["manipulation"].first() == "passed"
    both = made.claims["first"].map(follows) & made.claims["second"].map(follows)
    assert set(made.claims.loc[~both, "says"]) == {"cannot_tell"}
    assert set(made.claims.loc[both, "claim"]) == {"persona", "scale"}, "of the only model that follows, at one size"
