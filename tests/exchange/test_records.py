"""A record of Every Eval Ever and an auditor's card: what they say is what the run's tables say, and no more."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from pathlib import Path

import pandas as pd
import pytest
from runs import as_stored, of_before

from audit.exchange.every_eval_ever import SCHEMA

ROOT = Path(__file__).parents[2]
RUN = ROOT / "reports" / "example"
EEE = ("form=every-eval-ever", "organization=A lab", "relationship=third_party")
TOP = {
    "schema_version": str, "evaluation_id": str, "evaluation_timestamp": str, "retrieved_timestamp": str,
    "source_metadata": dict, "eval_library": dict, "model_info": dict, "evaluation_results": list,
}  # fmt: skip
"""The schema takes two more fields at the top, and requires all of these but evaluation_timestamp."""
RESULT = {"evaluation_name": str, "source_data": dict, "metric_config": dict, "score_details": dict}
ARGUMENTS = {"temperature", "top_p", "top_k", "max_tokens"}


@pytest.fixture
def run(audit, tmp_path):
    """A copy of the committed example, to be changed."""
    shutil.copytree(RUN, tmp_path / "run")
    return tmp_path / "run"


def record_in(folder):
    [path] = Path(folder).rglob("*.json")
    return path.relative_to(folder), json.loads(path.read_text(encoding="utf-8"))


def headline(name):
    rows = pd.read_csv(RUN / "tables" / f"{name}.csv")
    return rows[(rows["estimator"] == "contrast") & (rows["scope"] == "narratives")].iloc[0]


def test_a_record_has_the_fields_that_the_schema_demands(audit, tmp_path):
    assert audit("export", RUN, *EEE, "to=out", "model_id=a-lab/a.model") == 0
    path, record = record_in("out")
    assert path.parts[:-1] == ("data", "empathy-audit", "a-lab", "a.model")
    assert uuid.UUID(path.stem).version == 4
    assert {name: type(value) for name, value in record.items()} == TOP
    assert record["schema_version"] == SCHEMA == "0.3.0"
    assert record["retrieved_timestamp"].isdigit()
    source, model = record["source_metadata"], record["model_info"]
    assert (source["source_type"], source["source_organization_name"]) == ("evaluation_run", "A lab")
    assert source["evaluator_relationship"] == "third_party"
    assert (model["id"], model["developer"]) == ("a-lab/a.model", "a-lab")
    assert model["additional_details"]["deployment_type"] == "self_deployed"
    assert model["additional_details"]["model_availability"] == "unknown"
    assert record["eval_library"] == {"name": "empathy-audit", "version": "0.1.0"}
    [result] = record["evaluation_results"]
    assert {name: type(result[name]) for name in RESULT} == RESULT
    metric = result["metric_config"]
    assert (metric["lower_is_better"], metric["score_type"]) == (True, "continuous")
    assert (metric["min_score"], metric["max_score"]) == (0, 100)
    assert set(result["generation_config"]["generation_args"]) <= ARGUMENTS
    details = [source, model, result["source_data"], result["generation_config"]]
    for each in [*(each["additional_details"] for each in details), result["score_details"]["details"]]:
        assert {type(value) for value in each.values()} == {str}
    assert set(result["score_details"]) == {"score", "details"}


def test_the_score_is_the_largest_gap_left_possible_and_the_gap_stands_in_the_details(audit, tmp_path):
    """Of the committed tables: the larger of |low| and |high| of the 90% interval; δ beside it as it is."""
    assert audit("export", RUN, *EEE, "to=out", "model_id=a/b") == 0
    [result] = record_in("out")[1]["evaluation_results"]
    held, gap = headline("equivalence"), headline("gap")
    assert result["score_details"]["score"] == max(abs(held["low"]), abs(held["high"])) > gap["delta_points"]
    details = result["score_details"]["details"]
    for name in ("delta_points", "se", "ci_low", "ci_high", "p", "n_narratives", "n_missing"):
        assert float(details[name]) == gap[name], name
    assert details["what it says"] == "no average gap larger than 0.114136 points, at level 0.9"
    assert details["manipulation check emotion"] == "not passed"
    placebo = pd.read_csv(RUN / "tables" / "controls.csv").set_index("control").loc["placebo"]
    assert details["control placebo"] == f"{placebo['delta_points']} ({placebo['ci_low']} to {placebo['ci_high']})"
    assert details["prompts of the run that were refused"] == "0"


def test_a_gap_is_no_larger_than_the_scale_is_long(run, audit):
    path = run / "tables" / "equivalence.csv"
    table = pd.read_csv(path)
    table["largest_gap"] = table["largest_gap"] * 10_000
    table.to_csv(path, index=False)
    as_stored(run)
    assert audit("export", run, *EEE, "to=out", "model_id=a/b") == 0
    [result] = record_in("out")[1]["evaluation_results"]
    assert result["score_details"]["score"] == result["metric_config"]["max_score"] == 100


def test_a_run_without_an_interval_has_no_score(run, audit, capsys):
    path = run / "tables" / "equivalence.csv"
    table = pd.read_csv(path)
    table["largest_gap"] = float("nan")
    table.to_csv(path, index=False)
    as_stored(run)
    assert audit("export", run, *EEE, "to=out", "model_id=a/b") == 2
    assert "has no gap with an interval, so no score" in capsys.readouterr().err
    assert not Path("out").exists()


def test_the_same_run_has_the_same_name_and_another_one_another(run, audit):
    names = []
    for to, source in (("one", RUN), ("two", run)):
        assert audit("export", source, *EEE, f"to={to}", "model_id=a/b") == 0
        names.append(record_in(to)[0])
    assert names[0] == names[1]
    other = ROOT / "reports" / "example-wordings"
    assert audit("export", other, *EEE, "to=three", "model_id=a/b") == 0
    assert record_in("three")[0] != names[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("organization=A",),
            "relationship= must be given for form=every-eval-ever: what they are to the model's maker",
        ),
        (("relationship=other",), "organization= must be given for form=every-eval-ever: who ran this evaluation"),
        (("organization=A", "relationship=first", "model_id=a/b"), "relationship=first: .* did you mean 'first_party'"),
        (("organization=A", "relationship=other"), "model_id=: OWNER/NAME is wanted, .* is embedded:smollm2"),
        (("organization=A", "relationship=other", "model_id=../x"), r"model_id=\.\./x: OWNER/NAME is wanted"),
        (("organization=A", "relationship=other", "model_id=b"), "model_id=b: OWNER/NAME is wanted"),
    ],
)
def test_what_only_people_know_is_asked_for(words, says, audit, capsys, tmp_path):
    assert audit("export", RUN, "form=every-eval-ever", "to=out", *words) == 2
    assert re.search(says, capsys.readouterr().err)


def test_a_model_of_a_hub_needs_no_name(run, audit):
    path = run / "manifest.json"
    told = json.loads(path.read_text())
    told["model"] |= {"path": "owner/Name-1B", "revision": "0" * 40}
    path.write_text(json.dumps(told))
    as_stored(run)
    assert audit("export", run, *EEE, "to=out") == 0
    assert record_in("out")[1]["model_info"]["id"] == "owner/Name-1B"


# --- The auditor's card -----------------------------------------------------------------------------------------------


def sections(page):
    return {name: text for name, text in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)}


def test_a_card_has_all_sections_and_each_leaves_to_people_what_they_know(audit, tmp_path):
    assert audit("export", RUN, "form=card", "to=out") == 0
    found = sections(Path("out/AUDIT_CARD.md").read_text(encoding="utf-8"))
    assert list(found) == ["Auditor", "Scope", "Method", "Access", "Integrity", "Review"]
    assert all("**To be filled in by a person:**" in text for text in found.values())
    told = json.loads((RUN / "manifest.json").read_text())
    assert "| groups as perceivers | Buddhist, Christian, Hindu, Muslim |" in found["Scope"]
    assert told["stimuli"]["sha256"] in found["Scope"]
    assert told["prompt"]["sha256"] in found["Method"]
    assert "| command | python -m audit run |" in found["Method"]
    assert "the model's weights, on the auditor's machine" in found["Access"]
    for digest in told["model"]["files"].values():
        assert digest in found["Integrity"]
    assert "| what became of prompts | 576 rated |" in found["Integrity"]
    assert "16 prompts asked again (order and batches) differed by 4.9e-05 points" in found["Review"]


def test_the_integrity_section_says_whether_there_is_a_ledger(run, audit):
    assert audit("export", of_before(run), "form=card", "to=without") == 0
    as_stored(run)
    assert audit("export", run, "form=card", "to=with") == 0
    without, own = (sections(Path(to, "AUDIT_CARD.md").read_text())["Integrity"] for to in ("without", "with"))
    assert "The folder has no ledger of its files (`ledger.jsonl`). `python -m audit verify RUN_DIR`" in without
    assert "The folder has a ledger of its files (`ledger.jsonl`)." in own


def test_a_name_from_elsewhere_acts_on_no_page(run, audit):
    path = run / "manifest.json"
    told = json.loads(path.read_text())
    told["model"]["name"] = "x | <img src=y> [z](http://w) @me\n## Review"
    path.write_text(json.dumps(told))
    as_stored(run)
    for form in ("card", "csv", "huggingface"):
        assert audit("export", run, f"form={form}", f"to={form}") == 0
        [page] = [path for path in Path(form).iterdir() if path.suffix == ".md"]
        text = page.read_text(encoding="utf-8").split("---\n")[-1]
        assert "<img" not in text
        assert "](http" not in text
        assert "@me" not in text
        assert text.count("\n## Review") == (form == "card")


def test_runs_of_replies_and_of_another_tool_have_a_card(audit, tmp_path):
    assert audit("export", ROOT / "reports" / "example-replies", "form=card", "to=replies") == 0
    assert "Gaps of measures of written replies" in Path("replies/AUDIT_CARD.md").read_text(encoding="utf-8")
    rows = [(p, e, n, 50 + n) for p in ("a Hindu", "a Muslim") for e in ("a Hindu", "a Muslim") for n in range(4)]
    pd.DataFrame(rows, columns=["perceiver", "experiencer", "narrative_id", "rating"]).to_csv("r.csv", index=False)
    pd.DataFrame([("a Hindu", "Hindu"), ("a Muslim", "Muslim")], columns=["term", "group"]).to_csv("g.csv", index=False)
    assert audit("report", "ratings=r.csv", "groups=g.csv", "run_dir=outside", "low=0", "high=100") == 0
    for form in ("card", "csv", "huggingface"):
        assert audit("export", "outside", f"form={form}", f"to={form}") == 0
    assert "Hindu, Muslim" in Path("card/AUDIT_CARD.md").read_text(encoding="utf-8")
