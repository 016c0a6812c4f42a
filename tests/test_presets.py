"""Presets: the same amounts for every card and server, what the user says comes first, and a standard gate decides."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from audit.asking.plan import make_plan, narratives_for
from audit.configuration.composition import compose
from audit.statistics.bounded_mean import bounded_mean, narratives_to_bound
from audit.tasks.registry import TASKS

pytestmark = pytest.mark.long

CARDS = [
    ("model=smollm2",), ("model=planted",), ("model=qwen3-8b",), ("model.path=a/b",), ("model=openai", "model.path=x"),
    ("model=ollama", "model.path=x"),
]  # fmt: skip
AMOUNTS = {"quick": (2, False, 48, 16), "standard": ("enough", False, 200, 32), "thorough": ("all", True, 400, 200)}


def composed(*words):
    found, said = [], []
    compose(list(words), lambda each: found.append(each.validated()), say=said.append)
    return found[0], said


@pytest.mark.parametrize("card", CARDS, ids=" ".join)
@pytest.mark.parametrize("preset", AMOUNTS)
def test_a_preset_asks_as_much_of_every_card_and_server(preset, card):
    config, [said] = composed(f"preset={preset}", *card)
    stimuli, elicitation = config.stimuli, config.elicitation
    amounts = (stimuli.situations_per_emotion, stimuli.unspecified, elicitation.check_sample, elicitation.noise_sample)
    assert amounts == AMOUNTS[preset]
    assert said == (
        f"preset={preset}: stimuli.situations_per_emotion={amounts[0]} stimuli.unspecified={str(amounts[1]).lower()} "
        f"elicitation.check_sample={amounts[2]} elicitation.noise_sample={amounts[3]}"
    )


def test_without_a_preset_nothing_is_said_and_the_card_decides():
    config, said = composed("model=smollm2")
    assert (config.stimuli.situations_per_emotion, said) == (1, [])


@pytest.mark.parametrize("place", [0, 1], ids=["before", "after"])
def test_what_the_user_says_comes_first_and_is_told_apart(place):
    words = ["preset=thorough"]
    words.insert(place, "stimuli.situations_per_emotion=3")
    config, [said] = composed(*words)
    assert (config.stimuli.situations_per_emotion, config.stimuli.unspecified) == (3, True)
    assert said.endswith("; set by you: stimuli.situations_per_emotion=3")
    assert said.count("situations_per_emotion") == 1


def test_a_preset_of_ones_own_is_told_like_a_packaged_one(tmp_path):
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "mine.yaml").write_text(
        "# @package _global_\n# Mine.\nstimuli:\n  situations_per_emotion: 7\n"
    )
    config, [said] = composed(f"--config-dir={tmp_path}", "preset=mine")
    assert (config.stimuli.situations_per_emotion, said) == (7, "preset=mine: stimuli.situations_per_emotion=7")


@pytest.mark.parametrize("preset", AMOUNTS)
@pytest.mark.parametrize(
    "words",
    [
        ("experiment=personas",), ("experiment=us-them",), ("experiment=deployed", "prompt.system=system.txt"),
        ("task=reply",), ("task=inventory",), ("task=inventory", "task.affect=true"), ("language=de",),
        ("dimensions=[gender]",), ("stimuli=geneva20",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_preset_can_be_asked_of_every_experiment_and_task(words, preset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "system.txt").write_text("Be kind.")
    config, _ = composed(f"preset={preset}", *words)
    plan = TASKS[config.task.kind].plan(config)
    assert len(plan.grid) > 0
    assert not (plan.grid.narratives is not None and plan.config.stimuli.situations_per_emotion == "enough")


# --- How many narratives are enough ----------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.5, 1, 2, 3, 5, 10, 30])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_enough_is_as_many_as_the_bound_of_the_gate_needs_and_hardly_more(margin, alpha):
    needed = narratives_to_bound(margin, reach=200.0, alpha=alpha)
    n = narratives_for(margin, length=100.0, alpha=alpha)
    assert needed <= n <= math.ceil(1.04 * needed) + 1
    # The gate's own bound, of narratives without a gap: with a fifth fewer it does not decide.
    bounds = [bounded_mean(np.zeros(k), reach=200.0, alpha=alpha)[1] for k in (n, int(0.8 * n))]
    assert bounds[0] < margin < bounds[1]


@pytest.mark.parametrize(
    ("words", "each"),
    [((), 31), (("statistics.margin=5",), 13), (("stimuli.emotions=[sad,happy]", "statistics.margin=20"), 18),
     (("prompt=scale-10",), 31), (("prompt=scale-10", "statistics.margin=0.5"), 13),
     (("statistics.confidence=0.99", "statistics.margin=5"), 18)],
)  # fmt: skip
def test_standard_asks_equally_many_of_each_emotion_by_the_margin(words, each):
    # 368 for 2 of 100 (12 emotions: 30.7 each), 146 for 5, 36 for 20 (2 emotions); ln(2/.01)/−ln(1 − 5/200) = 209.3
    config, _ = composed("preset=standard", "dimensions=[religion]", *words)
    plan = make_plan(config)
    counted = Counter(narrative.emotion for narrative in plan.grid.narratives.narratives)
    assert set(counted.values()) == {each}
    assert plan.identity() == make_plan(composed("preset=standard", "dimensions=[religion]", *words,
                                                 f"stimuli.situations_per_emotion={each}")[0]).identity()  # fmt: skip


def test_what_is_too_little_is_asked_whole_and_said():
    config, _ = composed("preset=standard", "dimensions=[religion]", "statistics.margin=1")
    plan = make_plan(config)
    assert len(plan.grid.narratives.narratives) == 408
    assert plan.announced.endswith(
        "; 736 narratives decide a margin of 1 points for a model without a gap, and there are 408: a gate may stay "
        "undecided"
    )


def test_exported_prompts_name_the_number_that_was_enough(audit, tmp_path):
    words = ("preset=standard", "statistics.margin=20", "dimensions=[religion]", "stimuli.placebo=0")
    assert audit("prompts", *words, "out=prompts.jsonl") == 0
    kept = json.loads((tmp_path / "prompts.jsonl.run.json").read_text())
    assert kept["config"]["stimuli"]["situations_per_emotion"] == 3  # 36 narratives, 12 emotions


def test_a_standard_run_of_a_model_without_a_gap_is_decided_and_a_quick_one_is_not(audit):
    words = ("model=planted", "statistics.margin=10", "statistics.n_permutations=100", "elicitation.manipulation=20")
    for preset, code in (("quick", 3), ("standard", 0)):
        assert audit("run", f"preset={preset}", *words, f"run_dir={preset}") == 0
        assert audit("gate", preset, "margin=10") == code


def test_a_budget_that_stops_the_run_is_told_before_it_is_asked(audit, capsys):
    words = (
        "preset=standard",
        "dimensions=[religion]",
        "model=openai",
        "model.path=x",
        "tokens=0",
        "statistics.margin=20",
    )
    assert audit("plan", *words, "engine.server.max_requests=500") == 0  # 36 narratives of 60 pairs
    assert (
        "max_requests=500 is less than these 2,160 prompts: the run takes 5 sessions or more" in capsys.readouterr().err
    )
    assert audit("plan", *words, "engine.server.max_requests=2160") == 0
    assert "sessions" not in capsys.readouterr().err
