"""How runs get ratings, end to end: answers that are begun, a sample answered in words, and what is asked again."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from audit.store import RunFolder


def overrides(model, run_dir, *more):
    """Overrides of a small run: 5 perceivers (a baseline among them), all experiencers of religion, 2 narratives."""
    return [
        f"model.path={model}",
        "engine=transformers",
        "engine.device=cpu",
        "elicitation=expected",
        "elicitation.max_tokens=6",
        "elicitation.max_pruned_points=0",
        "stimuli.situations_per_emotion=1",
        "stimuli.emotions=[sad,happy]",
        "stimuli.perceiver_terms=1",
        "stimuli.placebo=0",
        "dimensions=religion",
        "statistics.n_permutations=200",
        f"run_dir={run_dir}",
        *more,
    ]


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def ratings_of(run):
    with RunFolder(run) as folder:
        return folder.read_ratings(n_prompts=manifest_of(run)["n_prompts"])


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.figures.gallery.draw_figures", lambda *_, **__: {})


@pytest.fixture
def no_model(monkeypatch):
    """Make any loading of a model fail."""

    def fail(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("audit.engines.open.open_model", fail)


# --- An answer that is begun for the model ----------------------------------------------------------------------------


def test_a_beginning_makes_another_run_and_none_leaves_the_run_and_its_folder_as_they_were():
    from audit.composition import compose
    from audit.plan import make_plan
    from audit.provenance import default_run_dir, plan_difference, run_identity

    def planned(*more):
        found = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", list(sys.argv))
            compose(["model.path=x", "elicitation=expected", *more], lambda each: found.append(each.validated()))
        return make_plan(found[0])

    plain, begun = planned(), planned("elicitation.prefill='Number: '")
    # What the identity held before an answer could be begun.
    assert set(run_identity(plain)["elicitation"]) == {"method", "max_tokens", "parser", "max_pruned_points", "reads"}
    assert run_identity(begun)["elicitation"]["prefill"] == "Number: "
    assert default_run_dir(plain) != default_run_dir(begun)
    for there, here, said in (
        (plain, plain, ""),
        (begun, begun, ""),
        (plain, begun, "elicitation.prefill is None there and 'Number: ' here"),
        (begun, plain, "elicitation.prefill is 'Number: ' there and None here"),
    ):
        assert plan_difference(run_identity(there), here) == said


def test_a_run_says_what_its_answers_were_begun_with(tiny_model, audit, tmp_path):
    assert audit("run", *overrides(tiny_model, "plain")) == 0
    assert audit("run", *overrides(tiny_model, "begun", "elicitation.prefill='I would say '")) == 0
    plain, begun = tmp_path / "plain", tmp_path / "begun"
    manifest = manifest_of(begun)
    assert manifest["elicitation"]["prefill"] == manifest["example_prompt"]["begun"] == "I would say "
    assert "<q>I would say </q>" in (begun / "report.html").read_text()
    assert "begun for the model" not in (plain / "report.html").read_text()
    ratings, others = ratings_of(begun), ratings_of(plain)
    assert (ratings["n_prompt_tokens"] > others["n_prompt_tokens"]).all()
    assert np.abs(ratings["intensity"] - others["intensity"]).max() > 0.1


@pytest.mark.parametrize(
    ("prefill", "said"), [("' '", "white space alone"), ("'I would say 80 '", "reads as a rating")]
)
def test_a_beginning_that_can_not_be_used_ends_in_one_line(tiny_model, audit, capsys, no_model, prefill, said):
    assert audit("run", *overrides(tiny_model, "run", f"elicitation.prefill={prefill}")) == 2
    assert said in capsys.readouterr().err
