"""A record of Every Eval Ever and an auditor's card: what they say is what the run's tables say, and no more."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
import uuid
from pathlib import Path

import pandas as pd
import pytest
from runs import as_stored, of_before, read_exactly

from audit.cli.main import main
from audit.extras.exchange.every_eval_ever import SCHEMA
from audit.tables.run_of_ratings import TABLES

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


def exact(name):
    """Read a table of the run with all digits of its numbers, which pandas 2 rounds."""
    rows = pd.read_csv(RUN / "tables" / f"{name}.csv", dtype=str)
    rows = rows.map(lambda text: float(text) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", str(text)) else text)
    return TABLES[name].renamed(rows)


def decides(run, **values):
    """Have the run's verdict say something else: first of all that it is undecided, of a gap smaller than 0.4."""
    path = run / "tables" / "verdicts.csv"
    said = {"code": "undecided", "reasons": "holds_zero", "limits": "", "supported_margin": 0.4} | values
    read_exactly(path).assign(**said).to_csv(path, index=False)
    as_stored(run)


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
    assert len(record["evaluation_results"]) == 1 + 6  # the gap, and each group
    for result in record["evaluation_results"]:
        assert {name: type(result[name]) for name in RESULT} == RESULT
        metric = result["metric_config"]
        assert (metric["lower_is_better"], metric["score_type"]) == (True, "continuous")
        assert (metric["min_score"], metric["max_score"]) == (0, 100)
        assert set(result["generation_config"]["generation_args"]) <= ARGUMENTS
        details = [source, model, result["source_data"], result["generation_config"]]
        for each in [*(each["additional_details"] for each in details), result["score_details"]["details"]]:
            assert {type(value) for value in each.values()} == {str}
        assert set(result["score_details"]) == {"score", "details"}


def result_of(run, audit, to="out"):
    """The result on the gap; those on groups come after it."""
    assert audit("export", run, *EEE, f"to={to}", "model_id=a/b") == 0
    result = record_in(to)[1]["evaluation_results"][0]
    return result["score_details"]["score"], result["score_details"]["details"]


def test_the_score_is_the_margin_that_the_verdict_supports_and_its_estimate_stands_in_the_details(run, audit):
    decides(run)
    score, details = result_of(run, audit)
    assert score == 0.4
    assert details["what it says"] == "any average gap is smaller than 0.4 points, at level 0.05"
    assert details["verdict"] == "No average gap found: any gap is smaller than 0.40 points"
    [verdict] = exact("verdicts").to_dict("records")
    for name in ("delta", "se", "df", "ci_low", "ci_high", "p", "p_adjusted", "n_narratives"):
        assert float(details[name]) == verdict[name], name
    assert details["n_missing"] == "0"
    assert details["manipulation check emotion"] == "not passed"
    placebo = exact("controls").set_index("control").loc["placebo"]
    assert details["control placebo"] == f"{placebo['delta']} ({placebo['ci_low']} to {placebo['ci_high']})"
    assert details["prompts of the run that were refused"] == "0"


def test_beside_groups_as_a_sample_the_gap_over_narratives_is_called_so(run, audit):
    """The verdict of the example rests on groups as a sample: the narrower interval is no answer to it."""
    [verdict] = exact("verdicts").to_dict("records")
    gap = exact("gap").query("headline == 'True' and scope == 'narratives'").iloc[0]
    assert verdict["scope"] == "groups"
    assert verdict["ci_low"] < 0 < gap["ci_low"]
    _, details = result_of(run, audit)
    assert details["it speaks of"] == "any such groups"
    assert details["gap for these words only"] == f"{gap['delta']} ({gap['ci_low']} to {gap['ci_high']})"
    assert [name for name, value in details.items() if str(gap["ci_low"]) in value] == [
        "gap for these words only",
        "control echo_free",
    ]
    decides(run, scope="pairs", **{name: gap[name] for name in ("delta", "se", "df", "ci_low", "ci_high")})
    _, details = result_of(run, audit, "of-pairs")
    assert details["it speaks of"] == "these pairs of words"
    assert float(details["ci_low"]) == gap["ci_low"]
    assert "gap for these words only" not in details


def test_a_gap_is_no_larger_than_the_scale_is_long(run, audit):
    decides(run, supported_margin=250.0)
    score, details = result_of(run, audit)
    assert score == 100
    assert details["what it says"].startswith("nothing: ")


def test_a_score_says_what_the_page_says_the_gap_is_of_and_rounds_no_bound_downwards(run, audit):
    """2.4444444 written as 2.44444 would be a margin that the run does not support."""
    decides(run, supported_margin=2.4444444, control="none", scope="pairs")
    _, details = result_of(run, audit, "none")
    assert details["what it says"] == (
        "any average gap in these pairs of words is smaller than 2.4444444 points, including repeated words, at level "
        "0.05"
    )
    assert details["control for repeated words"] == "none: repeated words are included"
    decides(run, supported_margin=2.4444444, control="placebo", scope="groups")
    _, details = result_of(run, audit, "placebo")
    assert details["what it says"] == (
        "any average gap beyond that of invented groups is smaller than 2.4444444 points, at level 0.05"
    )
    assert details["control for repeated words"] == "the gap of invented groups is subtracted"


def test_what_limits_a_gap_stands_in_its_record(run, audit):
    decides(run, limits="few_narratives; one_cue")
    _, details = result_of(run, audit)
    # As on the page, what limits nearly every run is of the method.
    assert details["read with care"] == "Few narratives"
    assert audit("export", run, "form=card", "to=card") == 0
    assert "Read with care: Few narratives. " in Path("card/AUDIT_CARD.md").read_text(encoding="utf-8")


def tell(run, part, **values):
    """Change what a run's manifest says of a part."""
    path = run / "manifest.json"
    told = json.loads(path.read_text())
    told[part] |= values
    path.write_text(json.dumps(told))
    as_stored(run)


def test_a_planted_model_has_no_record_and_every_other_form_says_that_it_is_one(run, audit, capsys):
    tell(run, "model", planted={"gap": 5})
    assert audit("export", run, *EEE, "to=eee", "model_id=a/b") == 2
    assert "is of a planted model, not a language model; a record of it would stand" in capsys.readouterr().err
    assert not Path("eee").exists()
    for form, file in (("card", "AUDIT_CARD.md"), ("csv", "ABOUT.md"), ("huggingface", "README.md")):
        assert audit("export", run, f"form={form}", f"to={form}") == 0
        text = html.unescape(Path(form, file).read_text(encoding="utf-8")).partition("# ")[2]
        assert text.startswith(("Auditor's card: planted model, not", "Empathy audit: planted model, not"))
        first = text.partition("|")[0]
        assert "PLANTED: No language model was asked: these are the answers of a planted model" in first
        assert "nothing of any model" in first
    access = sections(Path("card/AUDIT_CARD.md").read_text(encoding="utf-8"))["Access"]
    assert "| access | none: no language model was asked |" in access


def test_answers_that_another_stack_collected_are_not_said_to_be_asked_by_us(run, audit):
    tell(run, "model", elsewhere={"by": "ask.py"})
    assert audit("export", run, *EEE, "to=eee", "model_id=a/b") == 0
    record = record_in("eee")[1]
    said = record["source_metadata"]["additional_details"]["run"]
    assert re.fullmatch(r"finished: all of [\d,]+ prompts were asked elsewhere, which was not checked", said)
    assert record["model_info"]["additional_details"]["run by"] == "elsewhere, by ask.py (as the user says)"


def test_a_run_without_an_interval_has_no_score(run, audit, capsys):
    decides(run, code="no_estimate", reasons="no_interval", se=float("nan"), ci_low=float("nan"), ci_high=float("nan"))
    assert audit("export", run, *EEE, "to=of-groups", "model_id=a/b") == 0
    record = record_in("of-groups")[1]
    said = record["source_metadata"]["additional_details"]["has no result"]
    assert said == "gap, religion (origin): No answer: δ has no interval"
    found = record["evaluation_results"]
    assert {each["metric_config"]["metric_id"] for each in found} == {"empathy_audit.largest_disparity_left"}
    path = run / "tables" / "disparity.csv"
    pd.read_csv(path).assign(ci_low=float("nan"), ci_high=float("nan")).to_csv(path, index=False)
    as_stored(run)
    assert audit("export", run, *EEE, "to=out", "model_id=a/b") == 2
    assert "has no gap or disparity with an interval, and so no score" in capsys.readouterr().err
    assert not Path("out").exists()


def fails(run):
    """Leave the example as it is: its ratings do not follow the story."""


def low_mass(run):
    decides(run, code="no_verdict", reasons="number_mass", supported_margin=float("nan"))


def nothing_ruled_out(run):
    decides(run, reasons="few_narratives", supported_margin=float("nan"))


def changed(run):
    """Put another table in the place of a stored one, and accept it; the verdict was made before."""
    decides(run)
    (run / "asked_again.parquet").write_bytes((run / "elicitation_sample.parquet").read_bytes())
    assert main(["verify", str(run), "accept=true"]) == 0


def without_figures(run):
    """Accept that the figures are gone, which says nothing of the answers."""
    shutil.rmtree(run / "figures", ignore_errors=True)  # which are there where `make example` has drawn them
    assert main(["verify", str(run), "accept=true"]) == 0


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (fails, "No verdict: the ratings do not match the story"),
        (without_figures, "No verdict: the ratings do not match the story"),
        (low_mass, "No verdict: the model would mostly write something other than a number"),
        (changed, "No verdict: files were changed after they were collected"),
        (nothing_ruled_out, "Undecided: too few narratives"),
    ],
)
def test_a_run_that_rules_nothing_out_has_the_worst_score(run, audit, spoil, says):
    spoil(run)
    score, details = result_of(run, audit)
    assert score == 100
    assert details["what it says"] == f"nothing: {says}; the score is all of the scale"
    assert details["verdict"] == says
    assert float(details["ci_high"]) == exact("verdicts")["ci_high"][0]


@pytest.mark.long
def test_a_table_that_somebody_edited_makes_no_record_and_no_data_set(run, audit, capsys):
    for name in ("verdicts", "gap"):
        path = run / "tables" / f"{name}.csv"
        as_it_was = path.read_bytes()
        path.write_bytes(as_it_was.replace(b"0.", b"0.0"))
        assert audit("export", run, *EEE, "to=out", "model_id=a/b") == 2
        said = capsys.readouterr().err
        assert f"tables/{name}.csv has changed since it was written (" in said
        assert "make it again: python -m audit report" in said
        path.write_bytes(as_it_was)
    path.write_bytes(as_it_was.replace(b"0.", b"0.0"))
    assert audit("export", run, "form=huggingface", "to=out") == 2
    assert audit("verify", run, "accept=true") == 0  # of what was collected alone
    assert audit("export", run, "form=huggingface", "to=out") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert ("tables/gap.csv has changed since it was written (its SHA-256 differs); make it again: ") in said
    assert not Path("out").exists()
    # The remedy, followed.
    assert audit(*shlex.split(said.partition("make it again: ")[2])[3:]) == 0
    assert audit("export", run, "form=huggingface", "to=out") == 0


@pytest.mark.parametrize(
    ("thinking", "temperature"),
    [
        ({"mode": "off"}, 0.0),
        ({"mode": "on", "max_tokens": 64, "temperature": 0.0, "top_p": 1}, 0.0),
        ({"mode": "on", "max_tokens": 64, "temperature": 0.6, "top_p": 1}, None),
    ],
)
def test_a_record_says_how_answers_were_drawn(run, audit, thinking, temperature):
    path = run / "manifest.json"
    told = json.loads(path.read_text())
    told["config"]["thinking"] = thinking
    told["elicitation"]["method"] = "generate"
    path.write_text(json.dumps(told))
    as_stored(run)
    assert audit("export", run, *EEE, "to=out", "model_id=a/b") == 0
    result = record_in("out")[1]["evaluation_results"][0]
    asked = result["generation_config"]
    assert asked["generation_args"].get("temperature") == temperature
    assert ("thinking" in asked["additional_details"]) == (thinking["mode"] == "on")
    assert audit("export", run, "form=card", "to=card") == 0
    said = "off" if thinking["mode"] == "off" else "thinking (64 tokens"
    assert f"| thinking | {said}" in Path("card/AUDIT_CARD.md").read_text(encoding="utf-8")


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
        (("organization=A", "relationship=other"), "model_id=: must be OWNER/NAME, so that.* is embedded:smollm2"),
        (("organization=A", "relationship=other", "model_id=../x"), r"model_id=\.\./x: must be OWNER/NAME, so that"),
        (("organization=A", "relationship=other", "model_id=b"), "model_id=b: must be OWNER/NAME, so that"),
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


def plain(text):
    """Return what a reader of the Markdown sees of a text without marks of its own."""
    return html.unescape(text).replace("\\", "")


def test_a_card_has_all_sections_and_each_leaves_to_people_what_they_know(audit, tmp_path):
    assert audit("export", RUN, "form=card", "to=out") == 0
    found = sections(Path("out/AUDIT_CARD.md").read_text(encoding="utf-8"))
    assert list(found) == ["Auditor", "Scope", "Method", "Verdicts", "Access", "Integrity", "Review"]
    of_people = [name for name, text in found.items() if "**To be filled in by a person:**" in text]
    assert of_people == [name for name in found if name != "Verdicts"]
    told = json.loads((RUN / "manifest.json").read_text())
    assert "| groups as perceivers | Buddhist, Christian, Hindu, Jewish, Muslim, Sikh |" in found["Scope"]
    assert told["stimuli"]["sha256"] in found["Scope"]
    assert told["prompt"]["sha256"] in found["Method"]
    assert f"| command | {told['command']} |" in plain(found["Method"])
    answer = "- **religion (origin):** No verdict: the ratings do not match the story."
    care = "Read with care: Few narratives; Failed check of the ratings; Written answers differ."
    step = "Next: Change the prompt (prompt=) or how ratings are obtained (elicitation=)."
    assert re.findall("^[#-].*", plain(found["Verdicts"]), re.MULTILINE) == [
        "### Whose side? The gap δ",
        f"{answer} {care} {step} If the check still fails, this model cannot be judged.",
        "### Who gets less? The disparity D",
        f"{answer} {step}",
    ]
    assert "the model's weights, on the auditor's machine" in found["Access"]
    for digest in told["model"]["files"].values():
        assert digest in found["Integrity"]
    assert f"| what happened to prompts | {told['n_prompts']} rated |" in found["Integrity"]
    noise = f"{told['noise']['rms_points']:.2g}"
    assert f"16 prompts asked again (order and batches) differed by {noise} points" in found["Review"]


def test_the_integrity_section_says_whether_there_is_a_ledger(run, audit):
    assert audit("export", of_before(run), "form=card", "to=without") == 0
    as_stored(run)
    assert audit("export", run, "form=card", "to=with") == 0
    without, own = (sections(Path(to, "AUDIT_CARD.md").read_text())["Integrity"] for to in ("without", "with"))
    assert "The folder has no ledger of its files (`ledger.jsonl`). `python -m audit verify RUN_DIR`" in without
    assert "The folder has a ledger of its files (`ledger.jsonl`)." in own


def test_the_integrity_section_names_files_that_were_changed_and_accepted(run, audit):
    without_figures(run)
    assert audit("export", run, "form=card", "to=before") == 0
    changed(run)
    assert audit("export", run, "form=card", "to=after") == 0
    before, after = (sections(Path(to, "AUDIT_CARD.md").read_text())["Integrity"] for to in ("before", "after"))
    assert "accepted" not in before
    plain = after.replace("\\_", "_").replace("&#95;", "_").replace("&#40;", "(").replace("&#41;", ")")
    assert "FILES HAD CHANGED since they were stored, and were accepted as they are (asked_again.parquet)" in plain


def test_a_margin_that_was_set_later_is_not_said_to_be_chosen_beforehand(run, audit):
    assert audit("report", run, "statistics.margin=4") == 0
    assert audit("export", run, "form=card", "to=out") == 0
    method = sections(Path("out/AUDIT_CARD.md").read_text(encoding="utf-8"))["Method"]
    assert "| margin | 4 points |" in method
    assert "beforehand" not in method
    assert "statistics.margin" in method


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
    replies = Path("replies/AUDIT_CARD.md").read_text(encoding="utf-8")
    assert "Gaps of measures of written replies" in replies
    assert "A refusal is missing" not in replies
    rows = [(p, e, n, 50 + n) for p in ("a Hindu", "a Muslim") for e in ("a Hindu", "a Muslim") for n in range(4)]
    pd.DataFrame(rows, columns=["perceiver", "experiencer", "narrative_id", "rating"]).to_csv("r.csv", index=False)
    pd.DataFrame([("a Hindu", "Hindu"), ("a Muslim", "Muslim")], columns=["term", "group"]).to_csv("g.csv", index=False)
    assert audit("report", "ratings=r.csv", "groups=g.csv", "run_dir=outside", "low=0", "high=100") == 0
    for form in ("card", "csv", "huggingface"):
        assert audit("export", "outside", f"form={form}", f"to={form}") == 0
    page = Path("card/AUDIT_CARD.md").read_text(encoding="utf-8")
    assert "Hindu, Muslim" in page
    # Nobody told the model's name: that of the file is none.
    assert page.startswith("# Auditor's card: a model that was not named\n")
    assert "| run | 16 rows read from a file: nothing was asked by this tool |" in page
    assert "| access | none of ours: another stack asked" in page
    assert "answers match the story?" in replies
    assert "ratings match the story?" not in replies
    # How another tool asked is not known, and none of it is said.
    assert "| thinking | not recorded |" in page
    assert not [said for said in ("answers begun with", "asks the same prompts", "none named") if said in page]
    assert "asks the same prompts" in replies
