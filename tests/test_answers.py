"""Prompts that another stack answers: what is written, what is read, and that it is the run that it would have been."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

from stimuli.examples import EXAMPLES_FILE

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from hostile import KEY, Hostile, rating_of

ROOT = Path(__file__).parents[1]
OTHER = ("elicitation=generate", "elicitation.noise_sample=0", "elicitation.manipulation=0", "elicitation.prefill=")
ASKED = (
    "model.path=tiny", "stimuli.situations_per_emotion=2", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS,
    "stimuli.placebo=1", "statistics.n_permutations=100", *OTHER,
)  # fmt: skip
WORDED = (
    *ASKED, "wordings=2", "dimensions=[religion]", "stimuli.unspecified=false", "stimuli.identities=geneva",
    "stimuli.perceiver_terms=null",
)  # fmt: skip
REPLY = "I am sorry to hear that. It must have been hard for you."


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write(path, lines):
    Path(path).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def odd(text):
    """Rate, refuse or ramble, by the text alone."""
    number = rating_of(text)
    said = {0: "I'm sorry, but I cannot rate this.", 1: "Well, who knows.", 2: f"I would say {number} of 100."}
    return said.get(number % 37, str(number))


def ask(server, monkeypatch):
    """Run the script of the documentation against a server."""
    [script] = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "elsewhere.md").read_text(encoding="utf-8"), re.DOTALL
    )
    with server.serving() as url:
        for name, value in (("URL", url), ("MODEL", "tiny"), ("KEY", KEY)):
            monkeypatch.setenv(name, value)
        exec(compile(script, "ask.py", "exec"), {})


def table(run, name):
    return pd.read_csv(Path(run) / "tables" / f"{name}.csv")


@pytest.fixture(scope="module")
def written(audit_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    assert audit_in(folder, "prompts", *ASKED, "out=p.jsonl") == 0
    return folder


@pytest.fixture
def there(written, tmp_path, monkeypatch):
    """A folder with prompts, and answers to all of them."""
    for name in ("p.jsonl", "p.jsonl.run.json"):
        shutil.copy(written / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    write("a.jsonl", [{"id": each["id"], "text": str(rating_of(each["user"]))} for each in lines_of("p.jsonl")])
    return tmp_path


def refused(audit, capsys, *words):
    """Return the one line that `report` ends with; nothing was written."""
    capsys.readouterr()
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run", *words) == 2
    said = capsys.readouterr().err.splitlines()
    assert not Path("run").exists()
    return said[-1]


@pytest.mark.long
@pytest.mark.slow
def test_answers_that_were_asked_elsewhere_make_the_run_that_they_would_have_made(audit, tmp_path, monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    with Hostile(answer=odd).serving() as url:
        server = ("model=openai", f"model.base_url={url}", "model.api_key_env=TESTS_KEY", "run_dir=own")
        assert audit("run", *server, *WORDED) == 0
    assert audit("prompts", *WORDED, "out=prompts.jsonl") == 0
    ask(Hostile(answer=odd), monkeypatch)
    given = ("answers=answers.jsonl", "prompts=prompts.jsonl", "run_dir=other", "model=tiny", "by=ask.py")
    assert audit("report", *given) == 0
    own, other = (pd.read_parquet(tmp_path / run / "ratings.parquet") for run in ("own", "other"))
    assert set(own["status"].astype(str)) == {"rated", "refused", "unparseable"}
    pd.testing.assert_frame_equal(
        own.drop(columns="n_prompt_tokens"), other.drop(columns="n_prompt_tokens"), check_categorical=False
    )
    names = {path.stem for path in (tmp_path / "own" / "tables").glob("*.csv")}
    others = {path.stem for path in (tmp_path / "other" / "tables").glob("*.csv")}
    assert names == others | {"calls"}, "of answers collected elsewhere no calls are known: the table has no row"
    assert others >= {"gap", "controls"}
    for name in sorted(names - {"calls"}):
        pd.testing.assert_frame_equal(table("own", name), table("other", name), check_exact=True)
    assert len(table("other", "wordings"))
    controls = table("other", "controls").set_index("control")["delta"]
    assert controls[["echo_free", "placebo", "wording"]].notna().all()
    page = (tmp_path / "other" / "report.html").read_text(encoding="utf-8")
    assert "collected elsewhere by ask.py" in page
    manifest = json.loads((tmp_path / "other" / "manifest.json").read_text())
    assert (manifest["model"]["elsewhere"]["by"], manifest["engine"]["name"]) == ("ask.py", "elsewhere")
    assert (tmp_path / "other" / "prompts.json.gz").read_bytes() == (tmp_path / "own" / "prompts.json.gz").read_bytes()
    assert audit("report", "own", "other", "run_dir=beside") == 0
    assert audit("report", "other", "statistics.confidence=0.9") == 0


@pytest.mark.slow
def test_the_line_for_a_pipeline_of_transformers_runs(tiny_model):
    from transformers import pipeline

    page = (ROOT / "docs" / "elsewhere.md").read_text(encoding="utf-8")
    [line] = re.findall(r"`text = (pipeline\(.*?)`", page)
    prompt = {"messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "How sad?"}]}
    made = pipeline("text-generation", model=str(tiny_model))
    assert isinstance(eval(line, {"pipeline": made, "prompt": prompt}), str)


def test_prompts_have_ids_that_are_unique_and_the_same_tomorrow_whoever_is_asked(there, audit):
    first = lines_of("p.jsonl")
    ids = [each["id"] for each in first]
    assert len(set(ids)) == len(ids)
    assert audit("prompts", *ASKED, "model=llama3", "seed=0", "dimensions=[faith]", "out=again.jsonl") == 0
    assert [each["id"] for each in lines_of("again.jsonl")] == ids
    assert audit("prompts", *ASKED, "seed=5", "out=others.jsonl") == 0
    assert {each["id"] for each in lines_of("others.jsonl")}.isdisjoint(ids)
    assert audit("prompts", *ASKED, "elicitation.prefill='I say '", "out=begun.jsonl") == 0
    begun = lines_of("begun.jsonl")
    assert {each["id"] for each in begun}.isdisjoint(ids)
    assert begun[0]["messages"][-1] == {"role": "assistant", "content": "I say "}
    each = first[0]
    assert each["messages"] == [
        {"role": "system", "content": each["system"]},
        {"role": "user", "content": each["user"]},
    ]


def test_nothing_but_the_two_files_and_the_answers_is_needed(there, audit, tmp_path):
    """Not the identities' file, which is the user's and may be gone."""
    kept = json.loads(Path("p.jsonl.run.json").read_text())
    kept["config"]["stimuli"]["own_identities"] = "gone.yaml"
    Path("p.jsonl.run.json").write_text(json.dumps(kept))
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl") == 0
    [run] = (tmp_path / "reports").iterdir()
    assert run.name.startswith("a-")
    ratings = pd.read_parquet(run / "ratings.parquet")
    assert ratings["response"].tolist() == [str(rating_of(each["user"])) for each in lines_of("p.jsonl")]
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl") == 0  # once more: the same run


def completion(text, **more):
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}]
    }


SHAPES = {
    "text": lambda id, text: {"id": id, "text": text},
    "output": lambda id, text: {"id": id, "output": text, "seconds": 0.3},
    "completion": lambda id, text: {"custom_id": id, "completion": text},
    "content": lambda id, text: {"id": id, "content": text},
    "answer": lambda id, text: {"id": id, "answer": text},
    "response": lambda id, text: {"id": id, "response": text},
    "a completion": lambda id, text: {"id": id, "response": completion(text)},
    "a batch": lambda id, text: {
        "id": "batch_req_1",
        "custom_id": id,
        "response": {"status_code": 200, "request_id": "x", "body": completion(text)},
        "error": None,
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_usual_shapes_of_a_line_are_read_in_any_order(shape, tmp_path):
    from audit.engines.answered import read_answers_file

    lines = [SHAPES[shape](f"ab-{place}", f"{place}\nof \u2028 100") for place in (2, 0, 1)]
    (tmp_path / "a.jsonl").write_text(
        "\n\n".join(json.dumps(line, ensure_ascii=place == 1) for place, line in enumerate(lines)), encoding="utf-8"
    )
    found = read_answers_file(tmp_path / "a.jsonl", export="ab", n_prompts=4)
    assert {place: each.text for place, each in found.texts.items()} == {n: f"{n}\nof \u2028 100" for n in (0, 1, 2)}
    assert (found.n_absent, found.n_without, found.n_repeated) == (1, 0, 0)


def test_an_answer_that_its_line_says_was_cut_is_read_so_far_as_it_is_whole_and_counted(there, audit):
    lines = lines_of("a.jsonl")
    cut = [("8", "length"), ("The number is 8", "length"), ("80\n\nThe person", "max_tokens"), ("8", "stop")]
    for place, (text, why) in enumerate(cut):
        lines[place] = {"id": lines[place]["id"], "text": text, "finish_reason": why}
    body = completion("8")
    body["choices"][0]["finish_reason"] = "length"
    lines[4] = {"id": lines[4]["id"], "response": body}
    write("a.jsonl", lines)
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 0
    ratings = pd.read_parquet("run/ratings.parquet").head(5)
    assert ratings["cut"].tolist() == [True, True, True, False, True]
    assert ratings["status"].astype(str).tolist() == ["unparseable", "unparseable", "rated", "rated", "unparseable"]
    assert ratings["intensity"][[2, 3]].tolist() == [80, 8]
    assert f"4 responses of {len(lines)} were cut" in Path("run/report.html").read_text("utf-8")
    calls = table("run", "calls")
    assert calls["n_cut"].sum() == 4


@pytest.mark.parametrize("form", ["a.csv", "a.jsonl"])
def test_what_says_that_a_text_is_not_whole_reaches_its_reader_from_every_form_of_file(form, there, audit, capsys):
    said = [("I would say 8", "MAX_TOKENS"), ("I would say 8", "STOP"), ("I would say 8", ""), ("8", ""), ("8.", "")]
    lines = [{**each, "finishReason": "STOP"} for each in lines_of("a.jsonl")]
    for line, (text, why) in zip(lines, said, strict=False):
        line |= {"text": text, "finishReason": why}
    write("a.jsonl", lines) if form == "a.jsonl" else pd.DataFrame(lines).to_csv(form, index=False)
    assert audit("report", f"answers={form}", "prompts=p.jsonl", "run_dir=run") == 0
    assert "3 without a sign of being complete" in capsys.readouterr().err
    ratings = pd.read_parquet("run/ratings.parquet").head(5)
    assert ratings["cut"].isna().tolist() == [False, False, True, True, True]
    assert ratings["cut"][:2].tolist() == [True, False]
    assert ratings["status"].astype(str).tolist() == ["unparseable", "rated", "unparseable", "rated", "rated"]
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["model"]["elsewhere"]["n_unsigned"] == 3
    page = Path("run/report.html").read_text("utf-8")
    assert f"1 response of {len(lines)} was cut" in page
    assert "For 3 answers it is not known whether they are complete or cut: add a column" in page


def test_settings_in_points_are_held_against_the_scale_of_what_was_asked(there, audit, capsys):
    for setting in ("margin=101", "least_gap=101", "missing_shift=1000"):
        assert f"statistics.{setting}: " in refused(audit, capsys, f"statistics.{setting}")


def test_half_a_character_of_json_can_be_kept(there, audit):
    lines = lines_of("a.jsonl")
    write("a.jsonl", [{"id": lines[0]["id"], "text": "\ud83d 70 \ud83d\ude00"}, *lines[1:]])
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 0
    ratings = pd.read_parquet("run/ratings.parquet")
    assert (ratings["response"][0], ratings["intensity"][0]) == ("\ufffd 70 \U0001f600", 70)


def test_what_is_no_answer_is_missing_and_told(there, audit, capsys):
    lines = lines_of("a.jsonl")
    own = [each["id"] for each in lines]
    write(
        "a.jsonl",
        [
            *lines[5:],
            lines[7],
            {"id": own[1], "text": None},
            {"id": "batch_req", "custom_id": own[2], "response": None, "error": {"code": "batch_expired"}},
            {"custom_id": own[3], "response": {"status_code": 500, "body": {"error": "internal"}}, "error": None},
            {"id": own[4], "response": completion(None, refusal="I can't help with that.")},
        ],
    )
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 0
    said = capsys.readouterr().err
    assert f"answers to {len(own) - 4:,} of {len(own):,} prompts; 1 without a line; 3 with a line that has no" in said
    assert "1 with a repeated line" in said
    assert f"4 prompts of {len(own):,} have no answer" in Path("run/report.html").read_text(encoding="utf-8")
    ratings = pd.read_parquet("run/ratings.parquet")
    assert ratings["status"].astype(str).tolist()[:5] == ["failed"] * 4 + ["refused"]
    assert ratings["intensity"].isna().sum() == 5


FAULTY = {
    "no JSON": (b"{", r"a\.jsonl: line 3 is not JSON"),
    "no UTF-8": (b'{"id": "\xff"}', r"a\.jsonl: line 3 is not JSON"),
    "no object": (b"[1]", r"line 3 must be a JSON object, but is a list"),
    "no id": (b'{"text": "7"}', r"line 3 has no id; give each answer the id of its prompt"),
    "another export": (
        b'{"id": "abc-0", "text": "7"}', r"line 3: id 'abc-0' belongs to other prompts, with ids from 'abc'",
    ),
    "no such place": (b'{"id": "EXPORT-99999", "text": "7"}', r"line 3: no prompt has the id .*-99999'"),
    "another number": (b'{"id": "EXPORT-007", "text": "7"}', r"line 3: no prompt has the id"),
    "no text": (b'{"id": "EXPORT-0", "rating": 7}', r"line 3 has no model text; call it text, response"),
    "a number": (b'{"id": "EXPORT-0", "text": 7}', r"line 3: text is a number, but must be text"),
    "two texts": (b'{"id": "EXPORT-0", "text": "7", "output": "8"}', r"line 3 has text and output; keep only the one"),
    "two choices": (
        b'{"id": "EXPORT-0", "response": {"choices": [{}, {}]}}', r"line 3: response has 2 choices, .* ask with n=1",
    ),
    "other JSON": (b'{"id": "EXPORT-0", "response": {"output": []}}', r"line 3: response is not a chat completion"),
    "another answer": (b'{"id": "EXPORT-0", "text": "other"}', r"line 3: prompt .*-0 has another answer on line 1"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTY)
def test_a_line_that_is_not_understood_is_named_with_its_place(fault, there, audit, capsys):
    line, says = FAULTY[fault]
    export = lines_of("p.jsonl")[0]["id"].partition("-")[0]
    first = Path("a.jsonl").read_bytes().split(b"\n")[:2]
    Path("a.jsonl").write_bytes(b"\n".join([*first, line.replace(b"EXPORT", export.encode()), b""]))
    assert re.search(says, refused(audit, capsys))


def test_files_that_do_not_belong_together_are_refused(there, audit, capsys):
    prompts = Path("p.jsonl").read_text()
    Path("p.jsonl").write_text(prompts.replace("sadness", "joy", 1))
    assert "is not the file that p.jsonl.run.json was written with" in refused(audit, capsys)
    Path("p.jsonl").write_text(prompts)
    beside = Path("p.jsonl.run.json").read_text()
    Path("p.jsonl.run.json").write_text(beside[:400])
    assert "p.jsonl.run.json cannot be read" in refused(audit, capsys)
    Path("p.jsonl.run.json").unlink()
    assert "there is no p.jsonl.run.json beside it" in refused(audit, capsys)
    Path("p.jsonl").unlink()
    assert "prompts=p.jsonl cannot be read (No such file or directory)" in refused(audit, capsys)


def test_options_of_other_forms_are_refused(there, audit, capsys):
    assert "low= is for ratings=FILE" in refused(audit, capsys, "low=0")
    assert audit("report", "answers=a.jsonl") == 2
    assert "prompts= must be given to read answers" in capsys.readouterr().err
    Path("a.jsonl").write_text("\n")
    assert "answers=a.jsonl has no answer; it needs one line of JSON per prompt" in refused(audit, capsys)


def test_a_folder_with_other_answers_is_not_mixed_with_these(there, audit, capsys):
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 0
    before = Path("run/ratings.parquet").read_bytes()
    write("a.jsonl", lines_of("a.jsonl")[1:])
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 2
    assert "run_dir=run holds another run: answers is" in capsys.readouterr().err
    assert Path("run/ratings.parquet").read_bytes() == before


@pytest.mark.server
def test_replies_go_the_same_way_and_the_same_prompt_may_have_two(audit, tmp_path, monkeypatch):
    words = (*ASKED, "task=reply", "measures.names=[lexical]", "stimuli.placebo=0", "dimensions=[faith,heritage]",
             "stimuli.situations_per_emotion=1", "stimuli.unspecified=true")  # fmt: skip
    assert audit("prompts", *words, "out=p.jsonl") == 0
    prompts = lines_of("p.jsonl")
    alike = [json.dumps(each["messages"]) for each in prompts]
    assert len(set(alike)) < len(alike)  # a person as seen by a person, in each dimension
    write("a.jsonl", [{"id": each["id"], "text": f"{REPLY} {place}"} for place, each in enumerate(prompts)])
    judge = Hostile(answer=lambda text: "3")
    with judge.serving() as url:
        assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 0
        monkeypatch.setenv("TESTS_KEY", KEY)
        by = (f"base_url={url}", "model=tiny", "api_key_env=TESTS_KEY", "method=generate")
        write("b.jsonl", [{"id": each["id"], "text": REPLY} for each in prompts])
        assert audit("report", "answers=b.jsonl", "prompts=p.jsonl", "run_dir=b", "model=b") == 0
        assert audit("judge", "run", "b", *by) == 0
    assert judge.n > len(prompts)
    replies = pd.read_parquet("run/replies.parquet")
    assert replies["text"].tolist() == [f"{REPLY} {place}" for place in range(len(prompts))]
    assert len(table("run", "gap"))


def test_a_strategy_that_only_words_the_question_otherwise_goes_the_same_way(audit, tmp_path):
    assert audit("prompts", *ASKED, "strategy=basic-empathy", "out=p.jsonl") == 0
    prompts = lines_of("p.jsonl")
    write("a.jsonl", [{"id": each["id"], "text": str(place % 101)} for place, each in enumerate(prompts)])
    assert audit("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run") == 0
    ratings = pd.read_parquet("run/ratings.parquet")
    assert ratings["intensity"].tolist() == [place % 101 for place in range(len(prompts))]
    assert json.loads(Path("run/manifest.json").read_text())["strategy"]["name"] == "basic-empathy"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["task=inventory"], "answers to task=inventory cannot be read from a file"),
        (["strategy=two-stage"], "asks after the model's own earlier texts, shown in brackets"),
        (["strategy=few-shot-1-random", f"strategy.examples.pool={EXAMPLES_FILE}"], "uses examples or knowledge"),
        (["-m", "seed=0,1"], "it has the prompts of several runs"),
    ],
)
def test_prompts_whose_answers_cannot_be_read_say_so_and_have_no_file_beside(words, says, audit, capsys, tmp_path):
    assert audit("prompts", *ASKED, "reports_dir=r", "out=p.jsonl", *words) == 0
    assert says in capsys.readouterr().err
    assert not Path("p.jsonl.run.json").exists()


def test_a_sample_is_said_also_where_prompts_go_to_a_pipe(audit, capsys):
    assert audit("prompts") == 0
    out, err = capsys.readouterr()
    n_prompts = len(out.splitlines())
    said, _, shown = err.partition("the first prompt:\n")
    assert shown == first_prompt(out)
    assert said == (
        "note: a sample: 12 of 408 narratives, 1 of 3 dimensions, 6 of 12 identities as perceivers, "
        "no unspecified baseline, in each narrative some pairs of religion, invented_2; for all of "
        "them: stimuli.situations_per_emotion=all dimensions=null stimuli.perceiver_terms=null "
        "stimuli.unspecified=true stimuli.pairs=all\n"
    )
    remedy = re.search("for all of them: (.*)", err)[1].split()
    one = [*remedy[1:], "stimuli.emotions=[sad]"]
    assert audit("prompts", *one, "stimuli.situations_per_emotion=all") == 0
    out, err = capsys.readouterr()
    assert err == "the first prompt:\n" + first_prompt(out)
    assert len(out.splitlines()) > n_prompts


def first_prompt(lines):
    """Return how the first of a file's prompts is shown: a message a line, and the answer's beginning."""
    asked = json.loads(lines.partition("\n")[0])
    *messages, begun = asked["messages"]
    assert [each["role"] for each in asked["messages"]] == ["system", "user", "assistant"]
    shown = [(each["role"], each["content"]) for each in messages] + [("begun", begun["content"])]
    return "".join(f"  {f'{whose}:':<8}{text}".replace("\n", "\n" + " " * 10) + "\n" for whose, text in shown)
