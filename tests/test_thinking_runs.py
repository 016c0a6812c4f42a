"""Runs in which the model thinks before its answers: a scripted reasoner, in each of its dialects."""

import json
import re
from statistics import NormalDist
from zlib import crc32

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, scripted_models

from audit.asking.conversations import what_was_asked
from audit.engines.base import EngineFacts, Generated
from audit.engines.chat import ChatTokenizer
from audit.engines.local import TokenEngine
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.stages import STAGES
from audit.tasks.publishing import on_thoughts
from stimuli.examples import EXAMPLES_FILE

EXAMPLES = ("strategy=few-shot-5-random", f"strategy.examples.pool={EXAMPLES_FILE}")

MESSAGES = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
TEMPLATES = {
    "think": MESSAGES + "{{ '<|start|>assistant\n<think>\n' }}",
    "seed": "{% set mark = '<seed:think>' %}" + MESSAGES + "{{ '<|start|>assistant\n' }}",
    "kimi": MESSAGES + "{{ '<|start|>assistant\n' }}",
    "gpt-oss": "{# <|channel|> #}" + MESSAGES + "<|start|>assistant",
    "cohere": "{# <|START_THINKING|> #}" + MESSAGES + "<|start|>assistant",
}
GAP, GAP_OF_THOUGHT = 14, 3
"""Points by which a model rates its own group higher, without a thought and after one."""
SETTINGS = (
    "model.path=scripted", "elicitation=generate", "statistics.n_permutations=100", "elicitation.noise_sample=4",
    "elicitation.manipulation=0",
    "stimuli.unspecified=false", "stimuli.situations_per_emotion=1", *FOUR_RELIGIONS,
)  # fmt: skip


def draw(sd, *words):
    return NormalDist(0, sd).inv_cdf((crc32("\0".join(words).encode()) % 9973 + 0.5) / 9973)


class Reasoner(TokenEngine):
    """Rates by who it is and whom it is asked about, as it reads them; after a thought, by what stands in that.

    ``ends(narrative)`` says whether it ends its thought of a narrative.
    """

    facts = EngineFacts("scripted", "1", "cpu", "float32")
    max_model_len = 100_000

    def __init__(self, tokenizer, *, ends=lambda narrative: True, stop_at=None):
        self.tokenizer, self.ends, self.stop_at = tokenizer, ends, stop_at
        self.calls = []

    def forget(self):
        pass

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, until="", done=None):
        if len(self.calls) == self.stop_at:
            self.stop_at = None
            raise KeyboardInterrupt
        texts = [self.tokenizer.decode(list(ids), marks=True) for ids in prompts]
        self.calls.append((texts, until, seeds))
        return [self.written(text, until, max_tokens) for text in texts]

    def written(self, text, until, max_tokens):
        marks = self.tokenizer.thinking
        asked = re.findall(r'^(.+) tells of [^\n]*:\n"([^"]+)"\nFrom 0 to 100', text, re.MULTILINE)
        told_by, narrative = asked[-1]
        experiencer = told_by[0].lower() + told_by[1:]
        perceiver = re.search(r"For this task you are (.+)\.\n", text)[1]
        rating = 45 + draw(8, narrative) + draw(2, perceiver, experiencer, narrative)
        if text.rstrip().endswith(marks.opens):
            rating += draw(3, "thought", perceiver, experiencer, narrative)
            said = f" A 100 is out of place.\nSo {round(rating + GAP_OF_THOUGHT * (perceiver == experiencer))}.\n"
            said += f"{marks.closes}{marks.answers}99" if self.ends(narrative) else "But then again, 100 ..."
        else:
            thought = re.search(r"So (\d+)\.", text.rpartition(marks.opens)[2])
            own = rating + GAP * (perceiver == experiencer)
            said = thought[1] if thought is not None else str(round(own))
        assert bool(until) == text.rstrip().endswith(marks.opens)
        cut = bool(until) and until not in said
        return Generated(said.partition(until)[0] if until else said, 7, cut)


@pytest.fixture(scope="module")
def reasoner(tiny_model):
    def made(dialect="think", **script):
        from transformers import AutoTokenizer

        hf = AutoTokenizer.from_pretrained(tiny_model)
        hf.chat_template = TEMPLATES[dialect]
        return Reasoner(ChatTokenizer(hf, name="tiny", thinks_in=dialect if dialect == "kimi" else "auto"), **script)

    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs a command on a scripted model, in one folder, without figures."""
    folder = tmp_path_factory.mktemp("audits")
    with scripted_models(folder) as load:

        def run_on(engine, run_dir, *words, code=0, verb="run"):
            from audit.cli.main import main

            load(engine)
            assert main([verb, *words, *SETTINGS, f"run_dir={run_dir}"]) == code
            return folder / run_dir

        yield run_on


def thoughts_of(path):
    stages = pd.read_parquet(path / "stages.parquet")
    assert set(stages["stage"]) == {"thought"}
    return stages.set_index("prompt_index")


# --- Thoughts are kept, and answers are read after them --------------------------------------------------------------


@pytest.fixture(scope="module", params=TEMPLATES)
def compared(request, run, reasoner):
    """One model, in one of its dialects, without thoughts, with them, and with a budget: folders and calls."""
    engine = reasoner(request.param, ends=lambda narrative: crc32(narrative.encode()) % 5 > 0)
    swept = run(engine, f"sweep-{request.param}", "-m", "thinking=off,on,budget")
    runs = {
        json.loads((path / "manifest.json").read_bytes())["config"]["thinking"]["mode"]: path
        for path in swept.glob("scripted-*")
    }
    return runs, swept / "comparison", engine


def test_a_thought_is_kept_and_the_answer_is_read_after_it(compared):
    runs, _, engine = compared
    marks = engine.tokenizer.thinking
    ratings, thoughts = pd.read_parquet(runs["on"] / "ratings.parquet"), thoughts_of(runs["on"])
    ended = thoughts["status"] == "written"
    assert 0 < (~ended).sum() < ended.sum()
    assert thoughts.loc[ended, "text"].str.fullmatch(r" A 100 is out of place\.\nSo \d+\.\n").all()
    said = thoughts.loc[ended, "text"].str.extract(r"So (\d+)\.")[0].astype(float)
    rated = ratings.set_index("prompt_index").loc[said.index]
    assert (rated["intensity"] == said).all()  # neither 100, which the thought holds, nor 99, the first answer
    assert not any(mark in "".join(thoughts["text"]) for mark in (*marks.marks, marks.closes))
    assert not (runs["off"] / "stages.parquet").exists()


def test_without_its_end_a_thought_costs_the_answer_or_is_closed(compared):
    runs, _, engine = compared
    on, budget = (
        pd.read_parquet(runs[mode] / "ratings.parquet").set_index("prompt_index") for mode in ("on", "budget")
    )
    unended = thoughts_of(runs["on"])["status"] == "cut"
    assert (on.loc[unended, "status"] == "failed").all()
    assert (on.loc[~unended, "status"] == "rated").all()
    assert (budget["status"] == "rated").all()
    thoughts = thoughts_of(runs["budget"])
    assert (thoughts["status"] == "cut").sum() == unended.sum()
    assert (budget["intensity"] == thoughts["text"].str.extract(r"So (\d+)\.")[0].astype(float)).all()
    marks = engine.tokenizer.thinking
    closed = f"But then again, 100 ...\n{marks.closes}{marks.answers}"
    assert any(text.endswith(closed) for texts, until, _ in engine.calls if not until for text in texts)


@pytest.mark.parametrize("mode", ["on", "budget"])
def test_a_thought_that_was_left_at_once_did_not_end(mode, run, reasoner):
    # Nothing but the token that ends a turn in place of a thought: its mark was never written.
    engine = reasoner()
    spoken = engine.written

    def written(text, until, max_tokens):
        leaves = until and crc32(text.encode()) % 4 == 0
        return Generated(" \n"[: crc32(text.encode()) % 3], 1, True) if leaves else spoken(text, until, max_tokens)

    engine.written = written
    path = run(engine, f"left-{mode}", f"thinking={mode}")
    ratings, thoughts = pd.read_parquet(path / "ratings.parquet").set_index("prompt_index"), thoughts_of(path)
    left = thoughts["text"].str.strip() == ""
    assert 0 < left.sum() < len(left)
    assert set(thoughts.loc[left, "status"]) == {"cut"}
    assert set(ratings.loc[left, "status"]) == {"failed" if mode == "on" else "rated"}
    page = (path / "report.html").read_text(encoding="utf-8")
    assert f"The model did not end {left.sum()} of them itself (" in page


def test_without_thoughts_they_are_closed_at_once(compared):
    runs, _, engine = compared
    marks = engine.tokenizer.thinking
    ratings = pd.read_parquet(runs["off"] / "ratings.parquet")
    own = ratings["in_group"]
    assert GAP - 4 < ratings.loc[own, "intensity"].mean() - ratings.loc[~own, "intensity"].mean() < GAP + 4
    without = [text for texts, until, _ in engine.calls if not until for text in texts if "A 100" not in text]
    assert all(text.endswith(marks.answers or marks.closes) for text in without)


def test_delta_with_thoughts_stands_against_delta_without(compared):
    _, comparison, _ = compared
    elicitations = pd.read_csv(comparison / "tables" / "elicitations.csv").set_index("elicitation")
    assert list(elicitations.index) == ["generate", "generate, thinking (1,024 tokens)",
                                        "generate, thinking, budget (256 tokens)"]  # fmt: skip
    off, on, budget = (row for _, row in elicitations.iterrows())
    assert off["ci_low"] < GAP < off["ci_high"]
    for row in (on, budget):
        assert row["ci_low"] < GAP_OF_THOUGHT < row["ci_high"]
        assert row["change_low"] < GAP_OF_THOUGHT - GAP < row["change_high"] < 0
        assert row["p_adjusted"] < 0.01


def test_a_page_says_how_long_it_thought_and_what_it_did_not_end(compared):
    runs, _, _ = compared
    page = {mode: (path / "report.html").read_text(encoding="utf-8") for mode, path in runs.items()}
    assert "The model thought before it answered" not in page["off"]
    for mode in ("on", "budget"):
        n, n_cut = len(thoughts_of(runs[mode])), int((thoughts_of(runs[mode])["status"] == "cut").sum())
        allowed = {"on": "1,024", "budget": "256"}[mode]
        said = f"The model thought before it answered: {n} thoughts with a median of 7 tokens and at most 7; "
        assert f"{said}{allowed} were allowed. The model did not end {n_cut} of them itself (" in page[mode]
    assert "in that case the answer is missing." in page["on"]
    assert "in that case it was closed for the model, which then answered." in page["budget"]


def planted(statuses, *, mode="budget", lengths=None, max_tokens=1500, **recorded):
    """Return what is said of thoughts of these: four about the own group, four about another, one of nobody."""
    n = len(statuses)
    groups = (["Hindu"] * 8 + ["no persona"] * (n - 8))[:n]
    stages = pd.DataFrame(
        {"prompt_index": range(n), "stage": "thought", "status": statuses, "n_tokens": lengths or [5] * n}
    )
    others = pd.DataFrame({"prompt_index": range(n), "stage": "reason", "status": "written", "n_tokens": 900})
    answers = pd.DataFrame(
        {
            "prompt_index": range(n),
            "in_group": pd.array(([True] * 4 + [False] * 4 + [None] * (n - 8))[:n], dtype="boolean"),
            "perceiver_group": groups,
            "experiencer_group": "Hindu",
        }
    )
    thinking = {"mode": mode, "max_tokens": max_tokens}
    manifest = Manifest.of({"config": {"thinking": thinking}, **recorded})
    told = on_thoughts(pd.concat([others, stages]), answers, manifest)
    return [remark.text for remark in told]


def test_what_is_said_of_thoughts_is_true_of_planted_ones():
    said = "The model thought before it answered: 8 thoughts with a median of 5 tokens and at most {}; 1,500 were "
    said += "allowed."
    assert planted(["written"] * 8) == [said.format(5)]
    assert planted(["written"] * 4 + ["empty"] * 4, lengths=[0, 0, 0, 5, 5, 5, 5, 1200]) == [said.format("1,200")]
    assert planted(["cut"] + ["written"] * 5 + ["cut"] * 2) == [
        f"{said.format(5)} The model did not end 3 of them itself (1 of 4, 25.0%, about the perceiver's own group, 2 "
        "of 4, 50.0%, about another): in that case it was closed for the model, which then answered."
    ]
    assert planted(["written"] * 8 + ["cut"], mode="on") == [
        f"{said.format(5).replace('8 thoughts', '9 thoughts')} The model did not end 1 of them itself (0 of 4, 0.0%, "
        "about the perceiver's own group, 0 of 4, 0.0%, about another): in that case the answer is "
        "missing."
    ]
    assert planted(["failed"] * 4 + ["cut"] * 4, mode="on") == [
        f"{said.format(5).replace('8 thoughts', '4 thoughts')} The model did not end 4 of them itself: in that case "
        "the answer is missing."
    ]
    assert planted(["written"] * 8, lengths=[1, 1, 1, 2, 3, 4, 5, 6], placebo=["blood"], max_tokens=6) == [
        "The model thought before it answered (invented groups aside): 8 thoughts with a median of 2.5 tokens and at "
        "most 6; 6 were allowed."
    ]
    assert planted(["cut"], lengths=[1], max_tokens=1, mode="on") == [
        "The model thought before it answered: 1 thought with a median of 1 token and at most 1; 1 was allowed. The "
        "model did not end it itself: in that case the answer is missing."
    ]
    assert planted(["failed"] * 8) == []
    assert planted(["written"] * 8, mode="off") == []


def test_a_reply_is_written_after_its_thought_and_holds_none_of_it(run, reasoner):
    engine = reasoner(ends=lambda narrative: crc32(narrative.encode()) % 5 > 0)

    def written(text, until, max_tokens):
        marks = engine.tokenizer.thinking
        narrative = re.findall(r'"([^"]+)"', text)[-1]
        thinks = text.rstrip().endswith(marks.opens)
        said = "A dog, so comfort." + ("</think>\n\nSorry" if engine.ends(narrative) else "")
        assert thinks or text.endswith(f"{marks.opens}\nA dog, so comfort.</think>\n\n")
        said = said if thinks else "I am sorry."
        return Generated(said.partition(until)[0] if until else said, 4, thinks and until not in said)

    engine.written = written
    path = run(engine, "replies", "task=reply", "thinking=on", "measures.names=[lexical]")
    replies, thoughts = pd.read_parquet(path / "replies.parquet"), thoughts_of(path)
    unended = (thoughts["status"] == "cut").to_numpy()
    assert 0 < unended.sum() < len(unended)
    assert (replies["status"] == "failed").to_numpy().tolist() == unended.tolist()
    assert set(replies.loc[~unended, "text"]) == {"I am sorry."}
    assert set(thoughts["text"]) == {"A dog, so comfort."}
    assert "The model thought before it answered" in (path / "report.html").read_text(encoding="utf-8")


def test_a_hostile_thought_is_text_wherever_it_is_shown(run, reasoner, capsys):
    evil = "</script><script>alert(1)</script><img src=x onerror=1>\x1b[31m\x00\x07\u202e</textarea>{{7*7}}-->"
    engine = reasoner()
    spoken = engine.written

    def written(text, until, max_tokens):
        said = spoken(text, until, max_tokens)
        return Generated(f"{evil} {'long ' * 9000}{said.text}", 7, said.cut) if until else said

    engine.written = written
    path = run(engine, "hostile", "thinking=on", "thinking.max_tokens=50000", "model.max_model_len=90000")
    assert set(pd.read_parquet(path / "ratings.parquet")["status"]) == {"rated"}
    assert thoughts_of(path)["text"].str.startswith(evil).all()
    page = (path / "report.html").read_text(encoding="utf-8")
    assert not [
        bad for bad in ("<script>alert", "<img src=x", "\x1b", "\x00", "\u202e", "</textarea>{{") if bad in page
    ]
    assert len(page) < 12e6
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert not [table for table in (path / "tables").iterdir() if "alert(1)" in table.read_text(encoding="utf-8")]


# --- Interrupted, resumed, another run -------------------------------------------------------------------------------


def test_a_run_that_ends_between_thought_and_answer_goes_on(run, reasoner):
    whole = run(reasoner(), "whole", "thinking=on", "shard_size=20")
    for stop_at in (1, 2, 3):
        name = f"stopped-{stop_at}"
        run(reasoner(stop_at=stop_at), name, "thinking=on", "shard_size=20", code=130)
        engine = reasoner()
        stopped = run(engine, name, "thinking=on", "shard_size=20")
        for table in ("ratings", "stages"):
            assert (stopped / f"{table}.parquet").read_bytes() == (whole / f"{table}.parquet").read_bytes()
        # Shard by shard a call for the thoughts, another one for the answers.
        n_asked = sum(len(texts) for texts, until, _ in engine.calls if until)
        assert n_asked == 192 - 20 * -(-stop_at // 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("thinking=on",), ()),
        ((), ("thinking=on",)),
        (("thinking=on",), ("thinking=budget", "thinking.max_tokens=1024")),
        (("thinking=on",), ("thinking=on", "thinking.temperature=0.6")),
    ],
)
def test_a_run_goes_on_with_the_same_thinking_alone(first, second, run, reasoner, capsys):
    name = f"one-{crc32(repr((first, second)).encode())}"
    run(reasoner(), name, *first)
    engine = reasoner()
    run(engine, name, *second, code=2)
    assert "thinking" in capsys.readouterr().err
    assert not engine.calls


def test_sampled_thoughts_have_seeds_of_their_own_whatever_the_shard(run, reasoner):
    seeds = []
    for shard in (7, 50):
        engine = reasoner()
        run(engine, f"sampled-{shard}", "thinking=on", "thinking.temperature=0.6", f"shard_size={shard}")
        seeds.append([seed for _, until, own in engine.calls if until for seed in own])
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 192


# --- With what comes before it ----------------------------------------------------------------------------------------


def test_what_a_thought_is_shown_is_what_its_answer_is_shown(run, reasoner):
    # Of a short context, examples are left out until thought and answer fit; the answer sees what the thought saw.
    engine = reasoner()
    engine.max_model_len = 1010
    words = ("thinking=on", *EXAMPLES, "thinking.max_tokens=200", "elicitation.max_tokens=16")
    path = run(engine, "short", *words)
    thoughts, answers = thoughts_of(path), pd.read_parquet(path / "ratings.parquet").set_index("prompt_index")
    assert thoughts["n_dropped"].nunique() > 1
    assert (answers["n_dropped"] == thoughts["n_dropped"]).all()
    asked = [text for texts, until, _ in engine.calls if until for text in texts]
    marks = engine.tokenizer.thinking
    for texts, until, _ in engine.calls:
        for text in texts:
            assert until or any(text.startswith(before) for before in asked)
    assert all(text.endswith(marks.opens + marks.begins) for text in asked)


def test_what_an_answer_is_begun_with_has_room_after_a_thought_too(run, reasoner):
    engine = reasoner()
    spoken, encode = engine.written, engine.tokenizer.encode

    def written(text, until, max_tokens):
        said = spoken(text, until, max_tokens)
        if not until:
            return said
        n_left = max_tokens - 4 - len(encode(said.text))  # a thought as long as it may be
        return Generated(said.text + " x" * (100 * n_left // len(encode(" x" * 100))), max_tokens, False)

    engine.written, engine.max_model_len = written, 1010
    begun = "All things considered, and with my feelings aside, the number that I would write down is "
    words = ("thinking=on", *EXAMPLES, "thinking.max_tokens=150", "elicitation.max_tokens=16")
    path = run(engine, "begun", *words, f"elicitation.prefill='{begun}'")
    thoughts, answers = thoughts_of(path), pd.read_parquet(path / "ratings.parquet").set_index("prompt_index")
    assert set(thoughts["status"]) == {"written"}
    assert thoughts["n_dropped"].nunique() > 1
    assert set(answers["status"]) == {"rated"}
    assert all(
        text.rstrip().endswith(begun.rstrip()) for texts, until, _ in engine.calls if not until for text in texts
    )


def test_a_thought_without_room_is_said_to_have_failed_and_no_answer_was_asked_for(run, reasoner):
    engine = reasoner()
    engine.fits = lambda prompts, room: [crc32(prompt.user.encode()) % 2 == 0 for prompt in prompts]
    path = run(engine, "no-room", "thinking=on")
    thoughts, answers = thoughts_of(path), pd.read_parquet(path / "ratings.parquet").set_index("prompt_index")
    failed = thoughts["status"] == "failed"
    assert 0 < failed.sum() < len(failed)
    assert (answers["status"] == "failed").tolist() == failed.tolist()
    with RunFolder(path) as folder:
        manifest = folder.read_manifest()
        own = folder.read_ratings(n_prompts=manifest.n_prompts)
        told, _ = what_was_asked(path, manifest, own, stages=folder.parts(STAGES).frame(), given=[])
    shown = told(int(failed.idxmax()))
    assert shown.calls[-1].note == "failed: it does not fit into the model's context"
    assert shown.note == "no answer was asked for, since the thought before it failed"
    assert f"The model thought before it answered: {(~failed).sum()} thoughts with" in (path / "report.html").read_text(
        encoding="utf-8"
    )


def test_stages_come_before_the_thought_and_think_not(run, reasoner, monkeypatch):
    engine = reasoner()
    spoken = engine.written

    def written(text, until, max_tokens):
        if "From 0 to 100" in text.rpartition("<|start|>user")[2]:
            return spoken(text, until, max_tokens)
        return Generated("They may grieve.", 4, False)

    engine.written = written
    path = run(engine, "led", "thinking=on", "strategy=two-stage")
    stages = pd.read_parquet(path / "stages.parquet")
    assert list(stages["stage"].unique())[-1] == "thought"
    assert stages["stage"].nunique() > 1
    calls = [until for _, until, _ in engine.calls]
    assert calls[: stages["stage"].nunique()] == [""] * (stages["stage"].nunique() - 1) + ["</think>"]
    for name, own in stages.groupby("stage"):
        assert (own["text"] == "They may grieve.").all() == (name != "thought")
    with RunFolder(path) as folder:
        manifest = folder.read_manifest()
        answers = folder.read_ratings(n_prompts=manifest.n_prompts)
        told, _ = what_was_asked(path, manifest, answers, stages=folder.parts(STAGES).frame(), given=[])
    calls = told(7).calls
    assert [call.name for call in calls] == [*dict.fromkeys(stages["stage"])]
    assert calls[-1].written.startswith(" A 100 is out of place.\nSo ")
    assert calls[-1].user == ""


@pytest.mark.parametrize("strategy", ["none", "two-stage"])
def test_a_model_that_tells_no_marks_is_refused_before_it_is_asked(strategy, run, reasoner, capsys):
    engine = reasoner()
    engine.tokenizer.dialect = None
    path = run(engine, f"unmarked-{strategy}", "thinking=on", f"strategy={strategy}", code=2)
    assert "neither its chat template nor its vocabulary shows how it marks a thought" in capsys.readouterr().err
    assert not engine.calls
    assert not list(path.glob("stages/*"))
