"""Runs whose prompts are made by more than the model's own files: a template of the user's, a date."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

from audit.engines.base import EngineFacts, OpenModel
from audit.engines.local import LocalModel
from audit.engines.resolve import ModelFiles
from audit.engines.templates import read_template
from audit.runs.differences import choices_of
from audit.runs.manifest import Manifest
from audit.runs.provenance import model_difference, model_identity

DATED = (
    "<|start|>system\nToday: {{ date_string if date_string is defined else strftime_now('%d %b %Y') }}<|end|>\n"
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def overrides(model, run_dir, *more):
    return [
        f"model.path={model}", "engine=transformers", "engine.device=cpu", "elicitation=expected",
        "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS,
        "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=200", f"run_dir={run_dir}", *more,
    ]  # fmt: skip


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})


def test_a_base_model_is_asked_in_plain_text_and_the_run_is_of_that_template(make_model, audit, tmp_path, capsys):
    base = make_model(template=None)
    assert audit("run", *overrides(base, "run")) == 2
    assert "has no chat template" in capsys.readouterr().err
    assert audit("run", *overrides(base, "run", "model.chat_template=plain")) == 0
    assert "model.chat_template=plain; <|start|> added before each prompt" in capsys.readouterr().err
    manifest = manifest_of(tmp_path / "run")
    sha = read_template("plain").sha256
    assert manifest["identity"]["model"]["chat_template"] == sha
    assert manifest["identity"]["chat"]["template"] == manifest["model"]["chat"]["template"] == sha
    page = (tmp_path / "run" / "report.html").read_text()
    assert sha in page
    assert "model.chat_template=plain; &lt;|start|&gt; added before each prompt" in page
    assert f", chat template {sha[:8]}, BOS once" in choices_of(Manifest.read(tmp_path / "run"), variant="")["engine"]
    own = tmp_path / "own.jinja"
    own.write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    for other in ((), (f"model.chat_template={own}",)):
        assert audit("run", *overrides(base, "run", *other)) == 2
        assert "model.chat_template is " in capsys.readouterr().err
    assert audit("run", *overrides(base, "run", "model.chat_template=plain")) == 0


def test_a_run_is_of_the_date_that_its_prompts_show(make_model, audit, tmp_path, capsys):
    model = make_model(template=DATED)
    assert audit("run", *overrides(model, "run")) == 0
    assert "the chat template prints a date: model.date=2024-07-26" in capsys.readouterr().err
    manifest = manifest_of(tmp_path / "run")
    assert manifest["identity"]["chat"] == manifest["model"]["chat"]
    assert manifest["identity"]["chat"]["date"] == "2024-07-26"
    assert audit("run", *overrides(model, "run")) == 0
    assert audit("run", *overrides(model, "run", "model.date=2026-11-24")) == 2
    assert "chat.date is '2024-07-26' there and '2026-11-24' here" in capsys.readouterr().err


def test_a_run_without_a_date_is_the_run_that_it_was(tiny_model, audit, tmp_path):
    assert audit("run", *overrides(tiny_model, "run", "model.date=2026-11-24")) == 0
    manifest = manifest_of(tmp_path / "run")
    assert "chat" not in manifest["identity"]
    assert "chat" not in manifest["model"]
    assert not {"date", "chat_template"} & manifest["identity"]["model"].keys()
    assert audit("run", *overrides(tiny_model, "run")) == 0


@pytest.mark.parametrize(
    ("there", "here"),
    [({}, {"date": "2024-07-26"}), ({"date": "2024-07-26"}, {}), ({"date": "2024-07-26"}, {"date": "2025-07-26"})],
)
def test_a_run_goes_on_with_prompts_of_the_same_making_alone(there, here, tmp_path):
    def model(chat):
        source = LocalModel(ModelFiles(tmp_path, None), {}, chat, chat)
        return OpenModel(SimpleNamespace(facts=EngineFacts("x", "1", "cpu", "float32")), source)

    earlier = model_identity(model(there).known)
    assert model_difference(earlier, model(there).known) is None
    assert str(model_difference(earlier, model(here).known)).startswith("chat")


PARTS = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}"
    "<|end|>\n{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def test_a_template_of_parts_alone_shows_what_is_asked_and_the_run_is_told_apart(make_model, audit, tmp_path, capsys):
    assert audit("run", *overrides(make_model(template=PARTS), "run")) == 0
    assert "messages are passed to the chat template as lists of parts" in capsys.readouterr().err
    assert manifest_of(tmp_path / "run")["identity"]["chat"]["content"] == "parts"
    # An empty prompt gave one rating to all.
    assert pd.read_parquet(tmp_path / "run" / "ratings.parquet")["intensity"].nunique() > 10


@pytest.mark.parametrize(
    ("template", "says", "how"),
    [
        (
            "{% for m in messages %}<|start|>{{ m.role }}<|end|>{% endfor %}",
            "leaves out the user's message, both as",
            "expected",
        ),
        ("{{ messages[0].content }}" + DATED, "repeats part of the messages", "generate"),
        ("{% for m in messages %}{{ m.content[:60] }}\n{% endfor %}", "leaves out part of the messages", "thinking"),
        ("{% for m in messages | reverse %}{{ m.content }}\n{% endfor %}", "changes the order", "expected"),
        (
            "{% for m in messages %}{{ m.content | replace('Hindu', 'X') }}\n{% endfor %}",
            "leaves out part",
            "expected",
        ),
    ],
)
def test_a_template_that_would_ask_something_else_ends_in_a_line_before_anything_is_asked(
    template, says, how, make_model, audit, tmp_path, capsys
):
    words = ["thinking=on"] if how == "thinking" else [f"elicitation={how}"]
    assert audit("run", *overrides(make_model(template=template), "run", *words)) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert says in said
    assert "model.chat_template=FILE" in said
    assert not list(tmp_path.glob("run/**/*.parquet"))
    if how == "generate":  # the remedy works
        own = tmp_path / "own.jinja"
        own.write_text(DATED)
        words.append(f"model.chat_template={own}")
        assert audit("run", *overrides(make_model(template=template), "mended", *words)) == 0
