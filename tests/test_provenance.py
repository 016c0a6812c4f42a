"""What makes two runs the same run, and what a run's manifest says of the identities that it asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from runs import FOUR_RELIGIONS
from test_planted_strategy import Scripted

from audit.asking.plan import make_plan
from audit.asking.run_identity import describe_run
from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.engines.base import OpenModel
from audit.engines.hardware import cpu_name
from audit.engines.local import LocalModel
from audit.engines.resolve import ModelFiles
from audit.tasks.inventory.plan import make_inventory_plan

AGE = (
    "age:\n  groups:\n    young: [{{term: a youth, stem: youth}}, {young}]\n"
    "    old: [{{term: an old person, stem: old}}, {old}]\n"
)
ALL = "stimuli.situations_per_emotion=all"
SAID = {
    "plain": ("{term: a person named Kim, stem: youth}", "{term: a person named Ada, stem: old}"),
    "stems": ("{term: a person named Kim, stem: kim}", "{term: a person named Ada, stem: ada}"),
    "cues": ("{term: a person named Kim, stem: youth, cue: name}", "{term: a person named Ada, stem: old, cue: name}"),
    "both": ("{term: a person named Kim, stem: kim, cue: name}", "{term: a person named Ada, stem: ada, cue: name}"),
}


def config_of(*overrides):
    small = ("model=own", "model.path=scripted", "stimuli.emotions=[sad]", "stimuli.situations_per_emotion=2")
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        composed = compose("audit", [*small, *overrides])
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return load_config(values)


def plan_of(*overrides):
    return make_plan(config_of(*overrides))


def identity_of(*overrides):
    return plan_of(*overrides).identity()


def manifest_of(*overrides):
    model = OpenModel(Scripted(), LocalModel(ModelFiles(Path(), None), {}))
    example = {"system": "Be a person.", "user": "Number:", "turns": []}
    return describe_run(
        plan_of(*overrides), model.known, example=example, given={}, command="python -m audit run"
    ).content


@pytest.fixture
def age(tmp_path):
    """Return a function that writes identities of two terms each, and gives the overrides to ask them."""

    def asked(said):
        young, old = SAID[said]
        (tmp_path / f"{said}.yaml").write_text(AGE.format(young=young, old=old))
        return (
            f"stimuli.own_identities={tmp_path / said}.yaml", "dimensions=[age]", "stimuli.placebo=0",
            "stimuli.cues=null",
        )  # fmt: skip

    return asked


# --- What is the same run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["stems", "cues", "both"])
def test_stems_and_cues_are_no_part_of_a_run_since_no_prompt_shows_them(age, said):
    assert identity_of(*age(said)) == identity_of(*age("plain"))


def test_the_terms_that_are_asked_are(age):
    whole = (*age("cues"), "stimuli.perceiver_terms=null")
    every, labels = identity_of(*whole), identity_of(*whole, "stimuli.cues=[label]")
    assert every["identities"] != labels["identities"]
    first = identity_of(*age("cues"), "stimuli.perceiver_terms=1")
    assert len({each["identities"] for each in (every, labels, first)}) == 3
    # All other settings are the same.
    assert every | {"identities": ""} == labels | {"identities": ""} == first | {"identities": ""}


@pytest.mark.parametrize(
    "same", ["stimuli.cues=null", "stimuli.perceiver_terms=null", "stimuli.placebo_terms=2", "stimuli.intensity=mild"]
)
def test_a_choice_that_leaves_out_nothing_is_the_same_run(same):
    assert identity_of(*FOUR_RELIGIONS, same) == identity_of(*FOUR_RELIGIONS)


def test_an_intensity_of_the_wheel_is_another_run_by_its_narratives():
    wheel = (*FOUR_RELIGIONS, "stimuli=geneva20", "stimuli.emotions=[joy]", "stimuli.situations_per_emotion=all")
    mild, strong = (identity_of(*wheel, f"stimuli.intensity={level}") for level in ("mild", "strong"))
    assert mild["narratives"] != strong["narratives"]
    assert mild | {"narratives": ""} == strong | {"narratives": ""}


def test_invented_groups_are_part_of_a_run():
    none, named = identity_of(*FOUR_RELIGIONS), identity_of(*FOUR_RELIGIONS, "stimuli.placebo=[invented_2]")
    assert (none["dimensions"], named["dimensions"]) == (["faith"], ["faith", "invented_2"])
    assert none["identities"] != named["identities"]
    longer = identity_of(*FOUR_RELIGIONS, "stimuli.placebo=[invented_2]", "stimuli.placebo_terms=2")
    assert longer["identities"] != named["identities"]
    assert longer["dimensions"] == named["dimensions"]


def test_a_set_that_is_drawn_is_the_run_of_the_set_that_is_named():
    drawn = identity_of(*FOUR_RELIGIONS, "stimuli.placebo=1")
    name = drawn["dimensions"][-1]
    assert drawn == identity_of(*FOUR_RELIGIONS, f"stimuli.placebo=[{name}]")


def test_all_that_a_run_without_them_is_known_by_is_what_it_was_before_there_were_invented_groups():
    # The keys of a run folder of an earlier version: one more, and no such run could be resumed.
    assert set(identity_of(*FOUR_RELIGIONS)["stimuli"]) == {
        "source", "identities", "unspecified", "no_persona", "emotions", "situations_per_emotion", "columns",
    }  # fmt: skip


@pytest.mark.parametrize("task", ["reply", "emotion"])
def test_what_is_written_is_held_against_invented_groups_as_ratings_are(task, tmp_path):
    rows = ["conversation_id,turn,speaker,text,emotion", "1,1,A,It rained.,sad", "2,1,B,We won.,happy"]
    (tmp_path / "corpus.csv").write_text("\n".join(rows))
    corpus = (f"stimuli.path={tmp_path / 'corpus.csv'}", "stimuli=conversations", ALL) if task == "emotion" else ()
    words = (*FOUR_RELIGIONS, f"task={task}", *corpus)
    assert identity_of(*words)["dimensions"] == ["faith"]
    assert identity_of(*words, "stimuli.placebo=[invented_2]")["dimensions"] == ["faith", "invented_2"]


def test_a_questionnaire_has_none_of_it():
    words = (*FOUR_RELIGIONS, "task=inventory")
    plain = make_inventory_plan(config_of(*words)).identity()
    more = ("stimuli.placebo=2", "stimuli.placebo_terms=2", "stimuli.cues=null", "stimuli.perceiver_terms=1")
    assert make_inventory_plan(config_of(*words, *more)).identity() == plain
    assert plain["dimensions"] == ["faith"]


# --- What the manifest says ------------------------------------------------------------------------------------------


def test_the_manifest_has_stems_and_cues_of_each_term_and_which_dimensions_are_invented(age):
    manifest = manifest_of(*age("both"), "stimuli.placebo=[trivial]", "stimuli.placebo_terms=2")
    assert manifest["dimensions"] == ["age", "trivial"]
    assert manifest["placebo"] == ["trivial"]
    assert manifest["stems_stated"]
    assert manifest["stems"]["age"] == {
        "a youth": "youth", "a person named Kim": "kim", "an old person": "old", "a person named Ada": "ada",
    }  # fmt: skip
    assert manifest["stems"]["trivial"]["a person born in May"] == "may"
    assert len(manifest["stems"]["trivial"]) == 8
    assert manifest["cues"] == {
        "age": {
            "a youth": "label",
            "a person named Kim": "name",
            "an old person": "label",
            "a person named Ada": "name",
        }
    }


def test_where_groups_have_one_term_and_nothing_is_invented_the_manifest_says_so(age):
    manifest = manifest_of(*FOUR_RELIGIONS)
    assert (manifest["stems"], manifest["stems_stated"], manifest["placebo"]) == ({}, True, [])
    manifest = manifest_of(*age("plain"))
    assert set(manifest["cues"]["age"].values()) == {"label"}


def test_the_cpu_is_named_so_that_a_figure_of_time_can_be_traced_to_it(monkeypatch):
    told = "processor\t: 0\nmodel name\t: A CPU @ 2.50GHz\nprocessor\t: 1\nmodel name\t: A CPU @ 2.50GHz\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert cpu_name() == "A CPU @ 2.50GHz"
    monkeypatch.undo()
    monkeypatch.setattr("audit.asking.run_identity.cpu_name", lambda: "A CPU")
    assert manifest_of(*FOUR_RELIGIONS)["hardware"]["cpu"] == "A CPU"


def test_a_cpu_without_a_name_is_told_by_its_architecture(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "processor: 0\n")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert cpu_name() == "riscv64"
