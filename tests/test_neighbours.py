"""The presets after questions of neighbouring studies: what they ask, and that they claim to be no replication."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from audit.asking.conversations import prompt_records
from audit.asking.plan import make_plan
from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from stimuli.identities import NO_PERSONA

DOCS = Path(__file__).parents[1] / "docs" / "replication.md"


@cache
def plan_of(experiment):
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        # What the embedded model's card leaves out.
        words = [f"experiment={experiment}", "stimuli.perceiver_terms=null", "stimuli.unspecified=false"]
        values = OmegaConf.to_container(compose("audit", words), resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return make_plan(load_config(values))


def test_personas_cross_age_gender_and_culture_and_ask_a_model_without_a_persona_too():
    plan = plan_of("personas")
    assert plan.kind == "ratings"
    *single, crossed = plan.grid.dimensions
    assert [d.name for d in single] == ["age", "gender", "culture"]
    terms = [each.term for each in crossed.experiencers]
    assert len(set(terms)) == 2 * 3 * 3
    assert {"an old woman from Egypt", "a young non-binary person from the United States"} < set(terms)
    assert [each.term for each in crossed.perceivers] == [*terms, NO_PERSONA]
    shared = [crossed.n_shared(crossed.perceivers[0], each) for each in crossed.experiencers]
    assert sorted(shared) == [0] * 4 + [1] * 8 + [2] * 5 + [3]  # in none, one, two or all three


def test_us_them_asks_what_each_side_writes_of_both():
    plan = plan_of("us-them")
    assert plan.kind == "replies"
    assert plan.config.measures.names == ("lexical", "regard", "diversity")
    [politics] = plan.grid.dimensions
    assert {each.group for each in politics.experiencers} == {"conservative", "liberal"}
    in_group = [politics.in_group(p, e) for p, e in politics.pairs()]
    assert (in_group.count(True), in_group.count(False), in_group.count(None)) == (8, 8, 4)
    for record in prompt_records(plan):
        assert "people like you" in record["user"]
        assert record["experiencer"].lower() in record["user"].lower()
        assert (record["perceiver"] == NO_PERSONA) == (record["perceiver"] not in record["system"])


@pytest.mark.parametrize(("name", "paper"), [("personas", "2510.10328"), ("us-them", "2512.13699")])
def test_a_preset_says_what_it_is_after_and_that_it_is_no_replication(name, paper):
    head = (conf_folder() / "experiment" / f"{name}.yaml").read_text(encoding="utf-8")
    assert f"arXiv:{paper}" in head
    assert "NOT a replication" in head
    assert "We had only the paper's abstract" in head
    told = DOCS.read_text(encoding="utf-8")
    assert f"experiment={name}" in told
    assert paper in told
