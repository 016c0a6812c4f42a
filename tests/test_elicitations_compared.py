"""Run folders that differ in their elicitation, through the command line to the page: planted gaps, no model."""

import re

import pandas as pd
import pytest
from test_comparison import Numbers, table_of
from test_mitigation import plant

from audit.runs.differences import choices_of, elicitation_sets
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import MANIPULATED

WORDS = {"elicitation": {"method": "generate", "parser": "scale"}}
READ = {"elicitation": {"method": "expected"}}
BEGUN = {"elicitation": {"method": "expected", "prefill": "Number: "}}


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


def section(folder):
    """Return the page's section on elicitations as plain text; empty without one."""
    page = (folder / "comparison.html").read_text("utf-8")
    part = page.partition('<h2 id="elicitations">')[2].partition("</section>")[0]
    return " ".join(re.sub("<[^>]*>", " ", part).replace("&#39;", "'").split()).replace(" ;", ";").replace(" .", ".")


@pytest.mark.parametrize(
    ("gaps", "said", "not_said"),
    [
        (
            [6, 6],
            "Neither the sign of δ nor the verdict depends on the elicitation. With each: an average gap towards the "
            "in-group, which repeated words alone could cause.",
            "Both the sign",
        ),
        (
            [6, -6],
            "Both the sign of δ and the verdict depend on the elicitation. With expected : an average gap towards the "
            "in-group, which repeated words alone could cause. With generate : an average gap towards the out-group, "
            "which repeated words alone could cause.",
            "Neither",
        ),
        (
            [-6, 0.35],
            "The sign of δ differs between elicitations, which may be chance, since no two intervals leave out 0 on "
            "opposite sides, and so does the verdict. With expected : an average gap towards the out-group, which "
            "repeated words alone could cause. With generate : no average gap found",
            "Neither",
        ),
    ],
)
def test_one_sentence_says_whether_sign_or_verdict_depends_on_the_elicitation(audit, tmp_path, gaps, said, not_said):
    for name, gap, how in zip("AB", gaps, (READ, WORDS), strict=True):
        plant(tmp_path / name, gap=gap, **how)
    assert audit("report", "A", "B", "run_dir=out") == 0
    text = section(tmp_path / "out")
    assert said in text
    assert not_said not in text
    rows = table_of(tmp_path / "out", "elicitations")
    assert rows["elicitation"].tolist() == ["expected", "generate"]
    assert rows["pairs"].tolist() == ["all_terms"] * 2
    own = table_of(tmp_path / "out", "verdicts")
    assert rows["verdict"].tolist() == own["code"].tolist()
    assert rows["direction"].tolist() == own["direction"].tolist()
    [whole] = table_of(tmp_path / "out", "elicitation_ranges").to_dict("records")
    assert whole["range"] == pytest.approx(abs(rows["delta"].diff()[1]))
    places = {each.partition(":")[0] for each, _ in Numbers((tmp_path / "out" / "comparison.html").read_text()).found}
    assert {"elicitations", "elicitation_ranges"} <= places


@pytest.mark.parametrize(
    ("failed", "sign", "n_changes"),
    [("A", "", 0), ("B", "", 0), ("AC", "", 0), ("C", "reverses", 1), ("", "reverses", 2)],
)
def test_a_run_without_a_verdict_shows_no_dependence(audit, tmp_path, failed, sign, n_changes):
    """Opposite gaps, found in all; but where ratings do not follow the story, they say nothing of either way."""
    for name, gap, how in (("A", 6, READ), ("B", -6, WORDS), ("C", -6, BEGUN)):
        if name == "C" and failed in ("A", "B"):
            continue
        plant(tmp_path / name, gap=gap, **how)
        with RunFolder(tmp_path / name) as kept:
            kept.table(MANIPULATED).write(
                {"narrative_id": f"n{k}", "kind": kind, "emotion": "joy", "status": "rated", "response": "",
                 "intensity": rating + k % 2}
                for k in range(30) for kind, rating in (("own", 40.0 if name in failed else 50.0), ("wrong", 45.0))
            )  # fmt: skip
    folders = [name for name in "ABC" if (tmp_path / name).exists()]
    assert audit("report", *folders, "run_dir=out") == 0
    [whole] = table_of(tmp_path / "out", "elicitation_ranges").astype(object).fillna("").to_dict("records")
    assert (whole["sign"], whole["n_changes"], whole["n_found"]) == (sign, n_changes, n_changes)
    assert (whole["verdict"] == "differs") == bool(sign)
    assert whole["n_verdicts"] == len(folders) - len(failed)
    assert section(tmp_path / "out").count("no verdict: the ratings do not match the story") == bool(failed)
    assert ("Both the sign of δ and the verdict depend" in section(tmp_path / "out")) == bool(sign)


def test_three_elicitations_of_two_models_are_two_sets(audit, tmp_path):
    for model, gaps in (("one", (6, 6, 6)), ("two", (6, -6, 6))):
        for (name, how), gap in zip({"r": READ, "w": WORDS, "b": BEGUN}.items(), gaps, strict=True):
            plant(tmp_path / f"{model}-{name}", gap=gap, model={"name": model, "path": model}, **how)
    folders = [f"{model}-{name}" for model in ("one", "two") for name in "rwb"]
    assert audit("report", *folders, "run_dir=out") == 0
    ranges = table_of(tmp_path / "out", "elicitation_ranges")
    assert ranges["reference"].tolist() == ["one, expected", "two, expected"]
    assert ranges["sign"].tolist() == ["same", "reverses"]
    assert ranges["n_elicitations"].tolist() == [3, 3]
    text = section(tmp_path / "out")
    assert "religion, beside one, expected Neither the sign of δ nor the verdict depends" in text
    assert "religion, beside two, expected Both the sign of δ and the verdict depend" in text
    assert "With expected and expected, begun 'Number: ' : an average gap towards the in-group" in text


def test_every_number_of_the_section_is_the_one_in_its_file_and_names_are_no_markup(audit, tmp_path):
    plant(tmp_path / "A", gap=6, **READ)
    plant(tmp_path / "B", gap=-6, elicitation={"method": "expected", "prefill": "<script>alert(1)</script>"})
    assert audit("report", "A", "B", "run_dir=out") == 0
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    own = [each for each in Numbers(page).found if each[0].startswith("elicitation")]
    assert len(own) > 15
    for place, value in own:
        name, line, column = place.split(":")
        written = pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv", dtype=str, keep_default_na=False)
        assert written[column][int(line)] == value, place
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_other_verdicts_are_not_called_other_gaps(audit, tmp_path):
    plant(tmp_path / "A", gap=0.6, n=20, **READ)
    plant(tmp_path / "B", gap=0.15, n=20, **WORDS)
    assert audit("report", "A", "B", "run_dir=out") == 0
    [whole] = table_of(tmp_path / "out", "elicitation_ranges").to_dict("records")
    assert (whole["verdict"], whole["n_found"]) == ("differs", 0), whole
    assert "So that δ itself depends on the elicitation is not shown." in section(tmp_path / "out")


@pytest.mark.parametrize(
    "other",
    [
        {"model": {"name": "another", "path": "another"}},
        {"strategy": {"name": "ecn", "stages": []}},
        {"seed": 5},
        {"variant": "named"},
        {"scale": (0, 200), "level": 100},
        {"source": "csv"},
    ],
)
def test_runs_that_differ_in_more_are_no_set(audit, tmp_path, other):
    plant(tmp_path / "A", gap=2, **READ)
    plant(tmp_path / "B", gap=-2, **WORDS | other)
    assert audit("report", "A", "B", "run_dir=out") == 0
    assert not (tmp_path / "out" / "tables" / "elicitations.csv").exists()
    assert section(tmp_path / "out") == ""
    assert 'href="#elicitations"' not in (tmp_path / "out" / "comparison.html").read_text("utf-8")


def choices(**changes):
    """Choices of a run in which all that is shared is empty."""
    return dict.fromkeys(choices_of(Manifest.of({}), variant=""), "") | changes


def test_settings_of_one_method_are_elicitations_and_a_second_run_of_one_is_left_out():
    runs = {
        "A": choices(elicitation="generate", parser="scale", answering="aaaaaaaaaa", device="cpu"),
        "again": choices(elicitation="generate", parser="scale", answering="aaaaaaaaaa", device="cuda"),
        "B": choices(elicitation="generate", parser="hou2025", answering="bbbbbbbbbb"),
        "C": choices(elicitation="generate", parser="scale", answering="cccccccccc", device="cuda"),
        "D": choices(elicitation="generate", parser="scale", answering="cccccccccc", device="cpu"),
    }
    assert elicitation_sets(runs) == [
        {
            "A": "generate, parser scale, settings aaaaaaaa",
            "B": "generate, parser hou2025, settings bbbbbbbb",
            "D": "generate, parser scale, settings cccccccc",  # of the two the one on the first's device
        }
    ]
    assert elicitation_sets({"A": runs["A"], "again": runs["again"]}) == []
    assert elicitation_sets({"A": runs["A"], "B": runs["B"]}) == [
        {"A": "generate, parser scale", "B": "generate, parser hou2025"}
    ]
    assert elicitation_sets({"A": runs["A"], "B": runs["B"] | {"asking": "special tokens"}}) == []


def test_another_engine_is_said(audit, tmp_path):
    for name, how, engine in (("A", READ, "transformers"), ("B", WORDS, "vllm")):
        plant(tmp_path / name, gap=2, engine={"name": engine, "version": "1", "device": "cpu"}, **how)
    assert audit("report", "A", "B", "run_dir=out") == 0
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "generate was run by vllm 1, cpu, and expected, which it is compared with, by transformers 1, cpu" in page
