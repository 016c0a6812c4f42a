"""Thoughts by a real engine, whose answers are what direct computation gives; and what cannot be thought."""

import shutil

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

from audit.asking.conversations import grid_of
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from stimuli.prompts import Scale


def often_ends(model, folder):
    """Return a copy of a model that closes thoughts more often than at random."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        network.lm_head.weight[AutoTokenizer.from_pretrained(model).convert_tokens_to_ids("</think>")] *= 2
    shutil.copytree(model, folder)
    network.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("mode", "marks", "temperature"), [("budget", "think", 0), ("budget", "kimi", 0), ("on", "think", 1)]
)
def test_the_distribution_after_a_thought_is_what_direct_computation_gives(
    mode, marks, temperature, make_model, audit, open_engine, tmp_path
):
    folder = often_ends(make_model(whole_numbers=True), tmp_path / "model")
    settings = [
        f"model.path={folder}", "model.dtype=float32", "engine=transformers", "engine.device=cpu", "prompt=scale-10",
        f"thinking={mode}", "thinking.max_tokens=60", f"thinking.temperature={temperature}",
        f"model.thinks_in={marks}", "elicitation=expected",
        "elicitation.max_pruned_points=0", "elicitation.noise_sample=5", "elicitation.check_sample=6",
        "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]", "statistics.n_permutations=100",
        *FOUR_RELIGIONS, "run_dir=run",
    ]  # fmt: skip
    assert audit("run", *settings) == 0
    run = tmp_path / "run"
    ratings = pd.read_parquet(run / "ratings.parquet").set_index("prompt_index")
    thoughts = pd.read_parquet(run / "stages.parquet").set_index("prompt_index")
    assert set(thoughts["status"]) == ({"cut", "written"} if marks == "think" else {"cut"})
    assert ((ratings["status"] == "failed") == ((thoughts["status"] == "cut") & (mode == "on"))).all()
    engine = open_engine(folder, thinks_in=marks)
    tokenizer, elicitation = engine.tokenizer, ExpectedElicitation(Scale(0, 10), 0.0)
    with RunFolder(run) as entered:
        grid = grid_of(run, entered.read_manifest())[0]
    opens, closes = {"think": ("<think>\n", "</think>\n\n"), "kimi": ("◁think▷", "◁/think▷")}[marks]
    for place in [*ratings.index[ratings["status"] == "rated"][:4], *thoughts.index[thoughts["status"] == "cut"][:4]]:
        prompt, thought = grid.prompt(grid[place]), thoughts.loc[place]
        before = f"<|start|>system\n{prompt.system}<|end|>\n<|start|>user\n{prompt.user}<|end|>\n<|start|>assistant\n"
        if not temperature:
            [own] = engine.generate([tokenizer.encode(before + opens)], max_tokens=60, until=closes.strip())
            assert thought["text"] == tokenizer.up_to_special(own.text)
        if ratings.loc[place, "status"] == "rated":
            ended = "\n" if thought["status"] == "cut" else ""
            ids = tokenizer.encode(before + opens + thought["text"] + ended + closes)
            tokenizer.encode_prompts = lambda prompts, ids=ids: [ids]
            [direct] = elicitation.elicit(engine, [prompt])
            assert ratings.loc[place, "n_prompt_tokens"] == direct.n_prompt_tokens == len(ids)
            assert ratings.loc[place, "intensity"] == pytest.approx(direct.intensity, abs=1e-4)
            assert ratings.loc[place, "number_mass"] == pytest.approx(direct.number_mass, abs=1e-5)
            assert ratings.loc[place, "mode"] == direct.mode


def test_marks_of_the_users_own_reach_the_model_and_tell_the_run(make_model, audit, tmp_path, capsys):
    words = [
        f"model.path={make_model()}", "model.dtype=float32", "engine=transformers", "engine.device=cpu",
        "elicitation=generate", "elicitation.max_tokens=8", "elicitation.manipulation=0", "elicitation.noise_sample=0",
        "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad]", "statistics.n_permutations=100",
        *FOUR_RELIGIONS, "run_dir=run", "thinking.marks=['<|muse|>','<|/muse|>']",
    ]  # fmt: skip
    assert audit("run", *words) == 0
    assert "thoughts are closed at once with the marks of thinking.marks" in capsys.readouterr().err
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.identity.content["model"]["thinks_in"] == ["<|muse|>", "<|/muse|>"]
    assert manifest.identity.content["chat"]["closes"] == "thinking.marks"
    assert audit("run", *words) == 0  # what is stored is read again
    assert audit("run", *words, "thinking.marks=['<a>','</a>']") == 2
    assert audit("run", *words[:-2], "run_dir=on", words[-1], "thinking=budget", "thinking.max_tokens=8") == 0
    assert set(pd.read_parquet(tmp_path / "on" / "stages.parquet")["stage"]) == {"thought"}


# --- What cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["thinking=budget", "thinking.max_tokens=2048"],
            "thinking.max_tokens=2048 and an answer of 24 tokens leave no room for a prompt in "
            "model.max_model_len=1024 tokens; lower thinking.max_tokens, or raise model.max_model_len if "
            "the model allows it",
        ),
        (["thinking=budget", "thinking.max_tokens=984"], "thinking.max_tokens=984 and an answer of 24 tokens leave"),
        (
            ["thinking=on", "strategy=perspective", "+strategy.stages.thought={prompt: x, max_tokens: 5}"],
            "strategy perspective: a stage is called thought, the name of the model's own thoughts with "
            "thinking=on; rename the stage",
        ),
        (
            ["thinking=on", "task=inventory"],
            "thinking=on: task=inventory asks for numbers without a thought before them; use thinking=off",
        ),
        (["thinking=maybe"], "maybe"),
        (
            ["thinking.marks=['<a>','<a>']"],
            "thinking.marks=['<a>', '<a>']: must be the mark before a thought and the mark",
        ),
        (["thinking.marks=['<a>','']"], "two different texts of at least 2 characters"),
        (["thinking.marks=['<a>']"], "thinking.marks"),
        (["thinking.marks=<a>"], "thinking.marks"),
        (["thinking.marks=['<a>','</a>']", "model.thinks_in=kimi"], "both set the marks of thoughts; keep one"),
        (["thinking.max_tokens=5"], "thinking.max_tokens"),
        (["thinking=on", "thinking.temperature=-1"], "thinking.temperature"),
    ],
)
def test_what_cannot_be_thought_is_refused_in_a_line(words, says, audit, capsys):
    assert audit("run", *words, "run_dir=run") == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert says in line


def test_a_sweep_over_thinking_takes_how_long_as_it_is_told_to(audit, capsys):
    words = ("plan", "-m", "probe=0", "tokens=0", "model.path=x", *FOUR_RELIGIONS, "thinking=off,on,budget")
    assert audit(*words, "thinking.max_tokens=40") == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "thinking.max_tokens: unknown option; the thinking= chosen does not have it; choose another" in line
    assert "in a sweep over thinking= where only some have it, write ++thinking.max_tokens=VALUE" in line
    assert audit(*words, "++thinking.max_tokens=40") == 0
    said = capsys.readouterr().err
    assert said.count("thinking on (at most 40 tokens)") == said.count("thinking budget (at most 40 tokens)") == 1
    assert said.count(" in faith = ") == 3


def test_prompts_for_another_stack_are_without_thoughts(audit, capsys):
    assert audit("prompts", "thinking=on", *FOUR_RELIGIONS, "thinking.max_tokens=99", "out=prompts.jsonl") == 0
    said = "thinking=on asks after the model's own thought, which does not exist yet"
    assert f"`report answers=` cannot read prompts.jsonl: {said}" in capsys.readouterr().err
