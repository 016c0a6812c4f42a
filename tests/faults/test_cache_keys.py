"""The two cache faults of a peer harness: answers that are not kept by the model, or not by the settings of sampling.

There a changed model, or another temperature, was answered from what an earlier run had kept. Here answers are kept in
a run's folder (in parts, and one by one in ``part-begun.jsonl``), a strategy's examples and knowledge in
``given.parquet``, and judged pairs in a folder of theirs. None of it may answer for another model or other settings.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from breaking import COMMAND
from runs import FOUR_RELIGIONS, in_parts, scripted_models
from test_planted_strategy import Scripted
from words import composed

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
from spoken import _CHAT, CARD, _server, _Told

from audit.asking.plan import make_plan
from audit.asking.run_identity import default_run_dir, plan_difference
from audit.cli.main import main
from audit.configuration.model import ModelConfig
from audit.engines.base import Generated, OpenModel
from audit.engines.chat_completions import ChatEngine
from audit.engines.local import LocalModel
from audit.engines.resolve import ModelFiles, file_hashes
from audit.runs.store import PartBegun, RunFolder
from stimuli.prompts import Prompt

REPLY = (
    "run", "task=reply", "measures.names=[lexical]", "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]",
    *FOUR_RELIGIONS, "statistics.n_permutations=100", "shard_size=7",
)  # fmt: skip
SAMPLED = ("task.temperature=0.7", "task.top_p=0.9", "task.max_tokens=11", "seed=1")
"""Settings of sampling; each alone makes other answers."""


class Answers(Scripted):
    """Writes what tells by whom and how it was written: the hash of its weights, and the settings of sampling."""

    def __init__(self, weights, stop_at=None):
        super().__init__(stop_at=stop_at)
        self.weights = weights

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        super().generate(prompts, max_tokens=max_tokens)
        said = f"{self.weights}/{max_tokens}/{temperature:g}/{top_p:g}/{seeds is not None}"
        return [Generated(str(int(hashlib.sha256(said.encode()).hexdigest(), 16) % 101), 1, False) for _ in prompts]


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Return a function that gives a command whose model is the folder ``ckpt`` (or another one) as it is now."""
    with scripted_models(tmp_path):

        def give(*words, ckpt="ckpt", stop_at=None):
            folder = tmp_path / ckpt
            engine = Answers((folder / "model.safetensors").read_text(), stop_at)
            opened = OpenModel(engine, LocalModel(ModelFiles(folder, None), file_hashes(folder)))
            monkeypatch.setattr("audit.engines.open.open_model", lambda *_, **__: opened)
            return main([*words, f"model.path={ckpt}"]), engine

        yield give


def weights(folder, content):
    """Write a model's folder; its weights are a text here."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text(content)


def texts_of(run, kind="ratings"):
    """Return the answers that a run's folder holds, each once."""
    column = "response" if kind == "ratings" else "text"
    return set(RunFolder(run)._collected(kind).read()[column].to_pylist())


# --- Not keyed by the model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["unfinished", "finished"])
def test_a_run_folder_does_not_answer_for_another_model(state, command, tmp_path, capsys):
    words = [word for word in COMMAND if not word.startswith("model.path")]
    weights(tmp_path / "ckpt", "first")
    code, _ = command(*words, "run_dir=mine", stop_at=3 if state == "unfinished" else None)
    assert code == (130 if state == "unfinished" else 0)
    there = texts_of(tmp_path / "mine")
    assert len(there) == 1
    weights(tmp_path / "ckpt", "second")
    capsys.readouterr()
    code, engine = command(*words, "run_dir=mine")
    out, err = capsys.readouterr()
    assert (code, engine.calls, out) == (2, [], "")
    assert "run_dir=mine holds answers of another model" in err.splitlines()[-1]
    assert texts_of(tmp_path / "mine") == there
    code, _ = command(*words, "run_dir=new")
    assert code == 0
    assert len(texts_of(tmp_path / "new")) == 1
    assert texts_of(tmp_path / "new") != there


def test_models_of_one_name_in_two_places_have_default_folders_of_their_own(command, tmp_path):
    words = [word for word in COMMAND if not word.startswith("model.path")]
    weights(tmp_path / "a" / "ckpt", "first")
    weights(tmp_path / "b" / "ckpt", "second")
    for ckpt in ("a/ckpt", "b/ckpt"):
        assert command(*words, ckpt=ckpt)[0] == 0
    one, other = sorted((tmp_path / "reports").glob("*ckpt*"))
    assert len(texts_of(one) | texts_of(other)) == 2


def test_an_overwritten_model_is_not_answered_from_its_default_folder(command, tmp_path, capsys):
    words = [word for word in COMMAND if not word.startswith("model.path")]
    weights(tmp_path / "ckpt", "first")
    assert command(*words)[0] == 0
    weights(tmp_path / "ckpt", "second")
    capsys.readouterr()
    code, engine = command(*words)
    assert (code, engine.calls) == (2, [])
    assert "holds answers of another model: model.path=ckpt has changed since" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    [
        ["strategy=few-shot-1", "task=reply", "strategy.examples.embedder=other/encoder"],
        ["strategy=knowledge-comet", "strategy.knowledge.path=own/comet", "strategy.knowledge.path=other/comet"],
        ["strategy=knowledge-comet", "strategy.knowledge.path=own/comet", "strategy.knowledge.revision=other"],
    ],
    ids=["embedder", "COMET", "its revision"],
)
def test_examples_and_knowledge_are_not_those_that_another_model_chose(changed):
    *before, last = changed
    after = [*(word for word in before if word.partition("=")[0] != last.partition("=")[0]), last]
    asked, other = (make_plan(composed([*COMMAND[1:], *words])) for words in (before, after))
    assert plan_difference(asked.identity(), other) is not None
    assert default_run_dir(asked) != default_run_dir(other)


# --- Not keyed by the settings of sampling ----------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["unfinished", "finished"])
@pytest.mark.parametrize("changed", SAMPLED)
def test_a_run_folder_does_not_answer_for_other_settings_of_sampling(changed, state, command, tmp_path, capsys):
    weights(tmp_path / "ckpt", "first")
    before = "task.temperature=0.5"  # so that top_p and seed count
    assert command(*REPLY, before, "run_dir=mine")[0] == 0
    if state == "unfinished":
        sorted(in_parts(tmp_path / "mine").glob("replies/*.parquet"))[2].unlink()
    there = texts_of(tmp_path / "mine", "replies")
    capsys.readouterr()
    now = [changed] if changed.startswith("task.temperature") else [before, changed]
    code, engine = command(*REPLY, *now, "run_dir=mine")
    assert (code, engine.calls) == (2, [])
    assert "run_dir=mine holds another run: " in capsys.readouterr().err.splitlines()[-1]
    assert texts_of(tmp_path / "mine", "replies") == there


@pytest.mark.parametrize("changed", [*SAMPLED, "thinking=on", "thinking=budget", "model.thinks_in=kimi"])
def test_other_settings_of_sampling_have_a_default_folder_of_their_own(changed):
    asked, other = (make_plan_of(words) for words in ([], [changed]))
    assert default_run_dir(asked) != default_run_dir(other)
    assert plan_difference(asked.identity(), other) is not None


def make_plan_of(words):
    from audit.tasks.registry import TASKS

    return TASKS["reply"].plan(composed([*REPLY[1:], "model.path=ckpt", *words]))


@pytest.mark.parametrize(
    "changed", [{"stage": "temperature", "to": 0.7}, {"stage": "top_p", "to": 0.5}, {"stage": "max_tokens", "to": 9}],
    ids=lambda changed: changed["stage"],
)  # fmt: skip
def test_what_a_strategy_wrote_is_not_taken_for_what_it_writes_with_other_settings(changed):
    words = [*COMMAND[1:], "strategy=two-stage"]
    name = next(iter(composed(words).strategy.stages))
    other = composed([*words, f"strategy.stages.{name}.{changed['stage']}={changed['to']}"])
    asked = make_plan(composed(words))
    assert plan_difference(asked.identity(), make_plan(other)) is not None
    assert default_run_dir(asked) != default_run_dir(make_plan(other))


# --- Answers that are kept one by one ---------------------------------------------------------------------------------


def kept_answers(path, *, model="tiny", seed=0, **settings):
    """Ask a server, which numbers its answers, through what is kept in a file; return text and number of requests."""
    n = 0

    def answer(method, url):
        nonlocal n
        n += 1
        message = {"message": {"content": f"{model} {sorted(settings.items())} {seed}"}, "finish_reason": "stop"}
        return 200, json.dumps({**_CHAT, "model": model, "choices": [message]}).encode()

    engine = ChatEngine(_server(_Told(answer)), ModelConfig(**{**CARD, "path": model}), seed=seed)
    engine.keep_in(PartBegun(path, "replies-000000"))
    [written] = engine.write([Prompt("Judge.", "How sad?")], **{"max_tokens": 5, **settings})
    return written.text, n


@pytest.mark.parametrize(
    "changed",
    [{"model": "other"}, {"seed": 1}, {"temperature": 0.7, "seeds": [3]}, {"max_tokens": 6}],
    ids=["model", "seed", "temperature", "max_tokens"],
)
def test_part_begun_does_not_answer_for_another_model_or_other_settings(changed, tmp_path):
    path = tmp_path / "part-begun.jsonl"
    first = kept_answers(path)
    assert first[1] == 1
    assert kept_answers(path) == (first[0], 0)  # the same is kept
    other = kept_answers(path, **changed)
    assert other[1] == 1
    assert other[0] != first[0]


def test_part_begun_tells_sampled_answers_apart_by_all_settings_of_sampling(tmp_path):
    path = tmp_path / "part-begun.jsonl"
    sampled = {"temperature": 0.7, "top_p": 0.9, "seeds": [3]}
    assert kept_answers(path, **sampled)[1] == 1
    for changed in ({"temperature": 0.8}, {"top_p": 0.8}, {"seeds": [4]}):
        assert kept_answers(path, **{**sampled, **changed})[1] == 1
    assert kept_answers(path, **sampled)[1] == 0


def test_part_begun_drops_what_it_kept_of_another_part(tmp_path):
    path = tmp_path / "part-begun.jsonl"
    PartBegun(path, "replies-000000").put("a", {"n": 1})
    assert PartBegun(path, "replies-000000").get("a") == {"n": 1}
    assert PartBegun(path, "replies-000001").get("a") is None


def test_an_answer_that_the_disk_has_changed_is_asked_again(tmp_path):
    path = tmp_path / "part-begun.jsonl"
    PartBegun(path, "replies-000000").put("a", {"text": "72"})
    path.write_bytes(path.read_bytes().replace(b'"72"', b'"73"'))
    assert PartBegun(path, "replies-000000").get("a") is None
    # A run that an earlier version began has no hashes, and goes on.
    path.write_bytes(b'{"part": "replies-000000"}\n\n{"name": "a", "answer": {"text": "72"}}\n')
    assert PartBegun(path, "replies-000000").get("a") == {"text": "72"}
