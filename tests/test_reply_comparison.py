"""Runs of replies side by side, on a scripted model: a planted change is found, and what differs is not compared."""

from __future__ import annotations

import json
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup
from runs import FOUR_RELIGIONS, SMALL_IDENTITIES, as_stored, in_parts, named_in
from test_comparison import Numbers, files_of, table_of, write_run
from test_planted_strategy import INFERRED, Scripted, draw, uniform

from audit.comparing.replies import _references
from audit.comparing.tables import REPLY_COMPARISON_TABLES
from audit.engines.base import OpenModel
from audit.engines.local import LocalModel
from audit.engines.open import EngineChoice
from audit.engines.resolve import ModelFiles
from audit.report.verdicts import reason_in_words
from audit.runs.differences import choices_of
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder

pytestmark = pytest.mark.long

GAP, SHRINKS, RAISES = 10, 7, 8
"""Words: the gap, what two-stage takes off it, and what basic-empathy adds to every reply."""
DIMENSIONS = ("heritage", "faith")
N_PROMPTS = 16 * 12  # pairs of four identities x narratives, in each dimension
FILES = {
    "comparison.html", "manifest.json", "table.md", "table.tex", "tables/runs.csv", "tables/measures.csv",
    "tables/gap.csv", "tables/measure_changes.csv", "tables/reply_costs.csv", "tables/dictionary.csv",
    "tables/verdicts.csv", "tables/measure_disparity_changes.csv",
}  # fmt: skip
WORDS = [a + b for a in "bdfgklmnprst" for b in ("ane", "ide", "olt", "ush", "erm")]
ATTACK = "<script>alert(1)</script>"


class Writer(Scripted):
    """A model that writes more to its own group, by who it is and who it writes to, as it reads them."""

    def says(self, text, seed):
        asked = re.search(r'(.+) tells you:\n"([^"]+)"\nYour reply:$', text)
        if asked is None:
            return f"{INFERRED} {uniform(text, str(seed))}"
        experiencer, narrative = asked.groups()
        experiencer = experiencer.removeprefix("user: ")
        experiencer = experiencer[0].lower() + experiencer[1:]
        perceiver = re.match(r"system: For this task you are (.+)\.\n", text)[1]
        led = "two-stage" if f"understood them: {INFERRED}" in text else ""
        led = "basic-empathy" if "be empathetic" in text else led
        if led == "two-stage" and uniform("refused", text) < 0.04:
            self.n_refused += 1
            return "I cannot fulfil this request."
        n = 60 + draw(8, narrative) + draw(4, "as", perceiver) + draw(4, "of", experiencer) + draw(2, "noise", text)
        n += (GAP - SHRINKS * (led == "two-stage")) * (perceiver == experiencer) + RAISES * (led == "basic-empathy")
        drawn = [WORDS[int(len(WORDS) * uniform(text, str(place)))] for place in range(max(round(n), 1))]
        return " ".join([*named_in(narrative), *drawn][: len(drawn)])


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Return a function that runs a command on a scripted model, in one folder and without a run's own figures."""
    folder = tmp_path_factory.mktemp("audits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", list(sys.argv))
        patch.setenv("HYDRA_FULL_ERROR", "1")
        patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
        patch.setattr("audit.engines.open.choose_engine", lambda *_, **__: EngineChoice("scripted", "a test"))

        def run(*words, engine=None):
            from audit.cli.main import main

            opened = OpenModel(engine or Writer(), LocalModel(ModelFiles(folder, None), {}))
            patch.setattr("audit.engines.open.open_model", lambda *_, **__: opened)
            return main([str(word) for word in words])

        run.folder = folder
        yield run


@pytest.fixture
def drawn():
    """Ask for it to have figures drawn; but for the sweep, other tests do without, which is faster."""


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


def asked(run_dir, *more):
    return [
        "run", "task=reply", "model.path=scripted", "stimuli.unspecified=false", "statistics.n_permutations=100",
        "stimuli.situations_per_emotion=1", "measures.names=[lexical,diversity]", "elicitation.noise_sample=0",
        f"run_dir={run_dir}", *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def swept(command):
    """Three audits of 12 narratives, side by side: the comparison's folder, and how often the model refused."""
    engine = Writer()
    # At 99%, since there are a dozen intervals, and the noise is one draw.
    more = ("-m", "strategy=none,two-stage,basic-empathy", *SMALL_IDENTITIES, f"dimensions=[{','.join(DIMENSIONS)}]")
    assert command(*asked("sweep", *more, "statistics.confidence=0.99"), engine=engine) == 0
    return command.folder / "sweep" / "comparison", engine.n_refused


def rows_of(swept, run, measure="n_words"):
    table = table_of(swept[0], "measure_changes")
    return table.loc[(table["run"] == run) & (table["outcome"] == measure)].set_index("dimension")


# --- A planted effect ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [*DIMENSIONS, "all"])
def test_a_planted_change_of_the_gap_is_found_within_its_interval(swept, dimension):
    row = rows_of(swept, "two-stage").loc[dimension]
    assert row["reference"] == "none"
    assert row["ci_low"] < -SHRINKS < row["ci_high"] < 0
    assert row["ci_high"] - row["ci_low"] < SHRINKS
    assert row["p_adjusted"] < 0.001
    assert row["delta_change"] == pytest.approx(row["delta"] - row["reference_delta"])
    assert (row["delta"], row["reference_delta"]) == pytest.approx((GAP - SHRINKS, GAP), abs=1.5)
    # A quarter of the pairs are in-group.
    assert row["mean_low"] < -SHRINKS / 4 < row["mean_high"]


@pytest.mark.parametrize("dimension", [*DIMENSIONS, "all"])
def test_a_strategy_that_makes_all_replies_longer_changes_the_mean_and_not_the_gap(swept, dimension):
    row = rows_of(swept, "basic-empathy").loc[dimension]
    assert row["ci_low"] < 0 < row["ci_high"]
    assert row["mean_low"] < RAISES < row["mean_high"]
    assert row["mean_low"] > 0.9 * RAISES
    # Nothing is missing here, so that the mean is that of all prompts, and the δ those of the runs' own reports.
    gaps = table_of(swept[0], "gap").query("scope == 'narratives' and outcome == 'n_words'")
    own = gaps.set_index(["run", "dimension"])["delta"]
    found = (row["delta"], row["reference_delta"])
    assert found == pytest.approx((own["basic-empathy", dimension], own["none", dimension]))


def test_every_gap_is_that_of_the_run_s_own_report(swept):
    compared = table_of(swept[0], "gap")
    for folder in swept[0].parent.iterdir():
        if folder.name == "comparison":
            continue
        own = table_of(folder, "gap").query("headline").drop(columns="headline").reset_index(drop=True)
        strategy = json.loads((folder / "manifest.json").read_text())["strategy"]["name"]
        found = compared.loc[compared["run"] == strategy].reset_index(drop=True)
        found = found.loc[found["outcome"].isin(own["outcome"])].reset_index(drop=True)
        assert own[["delta_z", "null_low", "null_high"]].isna().all(axis=None)  # these alone are of ratings
        shared = [name for name in own if name in found]
        pd.testing.assert_frame_equal(found[shared], own[shared])


def test_every_verdict_is_that_of_the_run_s_own_report(swept):
    """And the page says so of each run and measure."""
    compared = table_of(swept[0], "verdicts")
    for folder in swept[0].parent.iterdir():
        if folder.name == "comparison":
            continue
        own = table_of(folder, "verdicts")
        strategy = json.loads((folder / "manifest.json").read_text())["strategy"]["name"]
        found = compared.loc[compared["run"] == strategy].drop(columns="run").reset_index(drop=True)
        pd.testing.assert_frame_equal(found[list(own)], own)
    page = (swept[0] / "comparison.html").read_text("utf-8")
    n = len(compared.loc[compared["dimension"] == "faith"])
    assert f"Verdicts on {n} gaps, one for each run and measure, as on the runs' own pages:" in page
    table = page.partition('<p class="caption">faith: the verdict on δ of each measure')[2]
    title = table_of(swept[0], "measures").set_index("measure")["title"]["n_words"].iloc[0]
    [row] = re.findall(rf'<th scope="row">{title}</th>(.*?)</tr>', table.partition("</table>")[0])
    decided = re.findall(r"<td[^>]*>(.*?)</td>", row)
    missing = reason_in_words("incomplete_narratives", {"outcome": "n_words"}) in decided[1]
    assert (["too few narratives" in said for said in decided], missing) == ([True] * 3, True)


def test_changes_are_in_the_reference_s_standard_deviations(swept):
    measures = table_of(swept[0], "measures").query("run == 'none'").set_index("measure")["sd"]
    for run in ("two-stage", "basic-empathy"):
        row = rows_of(swept, run).loc["faith"]
        sd = measures["n_words"]
        in_sd = ("change_sd", "sd_ci_low", "sd_ci_high", "mean_sd", "mean_sd_low", "mean_sd_high")
        in_words = ("delta_change", "ci_low", "ci_high", "mean_change", "mean_low", "mean_high")
        assert row[list(in_sd)].tolist() == pytest.approx((row[list(in_words)] / sd).tolist())


def test_holm_is_over_all_measures_and_runs_of_a_dimension(swept):
    for _, own in table_of(swept[0], "measure_changes").groupby("dimension"):
        tested = own.loc[own["p"].notna()].sort_values("p")
        assert (own["family_size"] == len(tested)).all()
        assert set(tested["run"]) == {"two-stage", "basic-empathy"}
        steps = (tested["p"] * np.arange(len(tested), 0, -1)).cummax().clip(upper=1)
        assert tested["p_adjusted"].tolist() == pytest.approx(steps.tolist())


def test_refusals_and_costs_are_those_of_the_runs(swept):
    costs = table_of(swept[0], "reply_costs").fillna({"reference": ""})
    whole = costs.query("dimension == 'all'").set_index("run")
    refused = whole["refused_share"] * 2 * N_PROMPTS
    assert refused.to_dict() == pytest.approx({"none": 0, "two-stage": swept[1], "basic-empathy": 0})
    assert 5 < swept[1] < 40
    assert whole.loc["two-stage", "refused_change"] == whole.loc["two-stage", "refused_share"]
    assert whole["n_calls"].to_dict() == {"none": 1, "two-stage": 2, "basic-empathy": 1}
    assert whole["reference"].to_dict() == {"none": "", "two-stage": "none", "basic-empathy": "none"}
    # The share of refusals is a measure too: its mean over all pairs changes by as much.
    change = rows_of(swept, "two-stage", "refused").loc["faith"]
    share = costs.query("dimension == 'faith'").set_index("run")["refused_change"]["two-stage"]
    assert change["mean_change"] == pytest.approx(share)
    missing = rows_of(swept, "two-stage").loc["faith", ["n_missing", "reference_missing", "n_both"]].tolist()
    assert missing == pytest.approx([share * N_PROMPTS, 0, N_PROMPTS - share * N_PROMPTS])


def test_the_files_are_those_described_and_the_same_runs_give_the_same_bytes(swept, drawn, command):
    files = files_of(swept[0])
    assert set(files) > FILES
    numbered = {f"figures/changes-{name}-{run}.svg" for name in (*DIMENSIONS, "all") for run in (2, 3)}
    assert numbered <= set(files)
    for name, columns in REPLY_COMPARISON_TABLES.items():
        if f"tables/{name}.csv" in files:
            assert list(table_of(swept[0], name)) == [*columns, *columns.former]
            assert len(table_of(swept[0], name))
    described = table_of(swept[0], "dictionary")
    assert set(zip(described["table"], described["column"], strict=True)) == {
        (name, column) for name, columns in REPLY_COMPARISON_TABLES.items() for column in (*columns, *columns.former)
    }
    manifest = json.loads(files["manifest.json"])
    assert [run["run"] for run in manifest["runs"]] == ["none", "two-stage", "basic-empathy"]
    assert len({run["replies"] for run in manifest["runs"]}) == 3
    assert manifest["settings"] == {
        "confidence": 0.99, "n_permutations": 100, "min_number_mass": 0.5, "power": 0.8,
    }  # fmt: skip
    assert command(*manifest["command"].split()[3:]) == 0
    assert files_of(swept[0]) == files


def test_every_number_of_the_page_is_the_one_in_its_file(swept):
    page = (swept[0] / "comparison.html").read_text("utf-8")
    tables = {
        path.stem: pd.read_csv(path, dtype=str, keep_default_na=False) for path in (swept[0] / "tables").glob("*.csv")
    }
    numbers = Numbers(page).found
    shown = {(name, column) for name, _, column in (place.split(":") for place, _ in numbers)}
    assert {("measure_changes", name) for name in ("delta_change", "mean_change", "p_adjusted", "n_missing")} < shown
    assert {("reply_costs", "refused_change"), ("gap", "delta"), ("runs", "n_refused")} < shown
    for place, value in numbers:
        name, line, column = place.split(":")
        assert tables[name][column][int(line)] == value, place
    assert "A smaller |δ| is no proof of less bias" in page
    assert "No change of a gap is shown in any measure" in page
    assert re.findall("<h2 id[^>]*>(.*?)</h2>", page) == [
        "How does the gap in what is written differ between the runs?", "What changes", "Who gets less?",
        "Refusals and costs", "Side by side", "Not compared", "The table for a paper", "What this does not show",
        "How it was asked", "The runs", "How to reproduce it",
    ]  # fmt: skip
    heads = re.findall("<th scope=.col.[^>]*>(.*?)</th>", page)
    assert {"without a number", "without a number, of the reference"} <= set(heads)
    assert "The command below reads the runs' replies and scores and makes this folder again" in page


def test_a_strategy_that_raises_all_replies_alike_leaves_no_group_behind(swept):
    """One strategy adds eight words to each reply, one takes seven off those to the own group: every D is as it was."""
    changes = table_of(swept[0], "measure_disparity_changes")
    length = changes.loc[changes["outcome"] == "n_words"]
    assert set(length["dimension"]) == set(DIMENSIONS)
    assert not changes["code"].isin(["lower", "higher"]).any()
    assert length["disparity_change"].abs().max() < 2


def test_the_command_prints_what_its_page_says_first(command, swept, capsys):
    folders = [folder for folder in swept[0].parent.iterdir() if folder.name != "comparison"]
    assert command("report", *folders, "run_dir=printed") == 0
    compared, answer, *lines, last = capsys.readouterr().out.splitlines()
    page = Markup((command.folder / "printed" / "comparison.html").read_text("utf-8")).striptags()
    assert compared.startswith("compared: Each of 3 runs asked a model to speak as one person")
    assert answer.startswith("answer:   ")
    said = [line.partition("? ")[2].partition(" (")[0].rstrip(".") for line in (answer, *lines) if "? " in line]
    said += [line.removeprefix("next:").strip() for line in lines if line.startswith("next:")]
    assert len(said) == 5
    assert [each for each in said if each not in page] == []
    assert last.startswith("report:   printed/comparison.html (")


# --- Other choices, other scorers ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(command):
    """Two small runs that differ in their prompt, with six narratives each."""
    small = (*FOUR_RELIGIONS, "stimuli.situations_per_emotion=3", "stimuli.emotions=[sad,happy]")
    for name, prompt in (("one", "origin"), ("two", "persona-1")):
        words = [word for word in asked(name) if "per_emotion" not in word]
        engine = Writer()
        engine.says = lambda text, seed: " ".join(WORDS[: 20 + int(20 * uniform(text))])
        assert command(*words, *small, f"prompt={prompt}", engine=engine) == 0
    return command.folder / "one", command.folder / "two"


@pytest.fixture
def copies(two, tmp_path):
    return [shutil.copytree(folder, tmp_path / folder.name) for folder in two]


def change_manifest(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    as_stored(folder)


def test_without_a_difference_in_strategy_runs_are_held_against_the_first(copies, command, tmp_path):
    assert command("report", *copies, f"run_dir={tmp_path / 'out'}") == 0
    changes = table_of(tmp_path / "out", "measure_changes")
    assert set(changes["run"]) == {"persona-1"}
    assert set(changes["reference"]) == {"origin"}
    runs = table_of(tmp_path / "out", "runs")
    assert runs["generation"].tolist() == ["200 tokens, temperature 0"] * 2


@pytest.mark.parametrize("key", ["asked", "facts"])
@pytest.mark.parametrize("changed", [0, 1])
def test_a_measure_by_another_scorer_is_not_compared_and_the_page_says_why(copies, command, tmp_path, key, changed):
    change_manifest(copies[changed], lambda manifest: manifest["scorers"]["lexical"][key].update(files={"a": ATTACK}))
    assert command("report", *copies, f"run_dir={tmp_path / 'out'}") == 0
    measures = table_of(tmp_path / "out", "measures").query("run == 'persona-1'").set_index("measure")
    assert not measures.loc[["n_words", "sentiment"], "compared"].any()
    assert measures.loc["refused", "compared"]
    assert not measures.loc["dist_1", "compared"]
    note = measures.loc["n_words", "note"]
    assert f"taken by another scorer than in origin, where {key}.files is " in note
    assert note.endswith("not there") != (", and here" in note and f"{key}.files is not there, and here" in note)
    assert note.endswith("not there") == (changed == 0)
    assert set(table_of(tmp_path / "out", "measure_changes")["outcome"]) == {"refused"}
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "taken by another scorer than in" in page
    assert ATTACK not in page
    assert "n_words" in set(table_of(tmp_path / "out", "gap")["outcome"])


def test_a_measure_that_one_run_lacks_is_named(copies, command, tmp_path):
    for place, why in ((0, "was not asked for"), (1, "no model at hand")):
        folder = tmp_path / f"case-{place}"
        pair = [shutil.copytree(each, folder / each.name) for each in copies]

        def lack(manifest, place=place, why=why):
            del manifest["scorers"]["lexical"]
            if place:
                manifest["absent"]["lexical"] = why

        change_manifest(pair[place], lack)
        assert command("report", *pair, f"run_dir={folder / 'out'}") == 0
        assert "n_words" not in set(table_of(folder / "out", "measure_changes")["outcome"])
        assert why in (folder / "out" / "comparison.html").read_text("utf-8")


def test_untrusted_names_are_escaped(copies, command, tmp_path):
    for number, folder in enumerate(copies):
        change_manifest(folder, lambda manifest, number=number: manifest["model"].update(name=f"{ATTACK} {number}"))
    assert command("report", *copies, f"run_dir={tmp_path / 'out'}") == 0
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert ATTACK not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<script") == 1  # of the contents, which is the page's own


def test_runs_on_other_narratives_are_not_paired(copies, command, tmp_path):
    change_manifest(copies[1], lambda manifest: manifest["stimuli"].update(source="csv"))
    assert command("report", *copies, f"run_dir={tmp_path / 'out'}") == 0
    changes = table_of(tmp_path / "out", "measure_changes")
    assert changes["note"].str.contains("asked about different narratives").all()
    assert changes[["delta_change", "p", "mean_change"]].isna().all(axis=None)
    assert "Nothing could be tested" in (tmp_path / "out" / "comparison.html").read_text("utf-8")


def test_an_outcome_that_one_run_alone_shows_is_0_in_the_other(copies, command, tmp_path):
    folder = RunFolder(copies[1])
    n = json.loads((copies[1] / "manifest.json").read_text())["n_prompts"]
    replies = folder.read("replies", n_prompts=n)
    status = replies["status"].astype(str).mask(replies["prompt_index"] < 6, "cut")
    folder.clear("replies")
    (copies[1] / "scores").rename(tmp_path / "scores")  # they go with replies that are written again
    for number, (_, part) in enumerate(replies.assign(status=status).groupby(replies["prompt_index"] // 128)):
        folder.write_shard(number, part, "replies")
    (tmp_path / "scores").rename(copies[1] / "scores")
    as_stored(copies[1])
    assert command("report", *copies, f"run_dir={tmp_path / 'out'}") == 0
    [row] = table_of(tmp_path / "out", "measure_changes").query("outcome == 'cut'").to_dict("records")
    assert (row["mean"], row["reference_mean"]) == pytest.approx((6 / n, 0))
    assert row["n_answers"] == row["reference_answers"] == n
    of_cut = table_of(tmp_path / "out", "measures").query("measure == 'cut'").set_index("run")
    assert of_cut.loc["origin", ["n_scored", "mean", "sd"]].tolist() == [n, 0, 0]
    assert of_cut["compared"].to_dict() == {"origin": False, "persona-1": True}


def test_recognised_emotions_are_compared_as_replies_are_and_not_with_these(copies, command, tmp_path, capsys):
    labels = ("joy", "anger", "sadness")
    said = [[f"c{k}", 1, "Ann", f"Week {k} was what it was.", labels[k % 3]] for k in range(6)]
    columns = ["conversation_id", "turn", "speaker", "text", "emotion"]
    pd.DataFrame(said, columns=columns).to_csv(tmp_path / "corpus.csv", index=False)
    given = [
        "task=emotion", "model.path=scripted", "stimuli=conversations", f"stimuli.path={tmp_path / 'corpus.csv'}",
        "stimuli.situations_per_emotion=all", "stimuli.unspecified=false", *FOUR_RELIGIONS,
        "statistics.n_permutations=100", f"run_dir={tmp_path / 'sweep'}", "prompt=origin,persona-1",
    ]  # fmt: skip
    engine = Writer()
    engine.says = lambda text, seed: labels[int(3 * uniform(text))]
    assert command("run", "-m", *given, engine=engine) == 0
    out = tmp_path / "sweep" / "comparison"
    changes = table_of(out, "measure_changes").set_index("outcome")
    assert changes.loc["recognised", "ci_low"] < changes.loc["recognised", "delta_change"]
    assert "Intergroup gap in the recognition of emotions" in (out / "comparison.html").read_text("utf-8")
    one = next(path for path in out.parent.iterdir() if path != out)
    capsys.readouterr()
    assert command("report", copies[0], one) == 2
    assert "of task=emotion: what they measure has no unit in common" in capsys.readouterr().err


# --- What cannot be compared ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("one one", "one and one are the same folder; give each run once"),
        ("one again", "one and again hold the same run; give each run once"),
        ("one ratings", "one is a run of task=reply and ratings of task=intensity: what they measure has no unit in "),
        ("ratings one", "ratings is a run of task=intensity and one of task=reply: what they measure has no unit "
        "in "),
        ("one form", "one is a run of task=reply and form of task=inventory: what they measure has no unit in common"),
        ("form ratings", "form is a run of task=inventory and ratings of task=intensity: what they measure has no "),
        ("one half", "half is not finished: lexical has not scored all of its replies; give its command again to "
         "continue it"),
        ("one two statistics.margin=2", "statistics.margin: a comparison of runs has no use for it; it takes "
         "confidence, n_permutations"),
        ("one two run_dir=one", "run_dir=one has files that do not belong to a comparison; give an empty or "
         "new folder"),
    ],
)  # fmt: skip
def test_what_can_not_be_compared_ends_in_one_line_and_writes_nothing(copies, audit, tmp_path, capsys, arguments, line):
    write_run(tmp_path / "ratings")
    write_run(tmp_path / "form", seed=1, task={"kind": "inventory"})
    shutil.move(tmp_path / "form" / "ratings", tmp_path / "form" / "answers")
    as_stored(tmp_path / "form")
    shutil.copytree(tmp_path / "one", tmp_path / "again")
    shutil.copytree(tmp_path / "two", tmp_path / "half")
    (in_parts(tmp_path / "half") / "scores" / "lexical" / "part-000000.parquet").unlink()
    before = files_of(tmp_path)
    assert audit("report", *arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith(f"audit: {line}")
    assert files_of(tmp_path) == before


def choices(**named):
    """Choices of runs by label, each a strategy and a model."""
    same = dict.fromkeys(choices_of(Manifest.of({}), variant=""), "")
    return {
        label: {**same, "model": model, "strategy": strategy, "leading": "" if strategy == "none" else strategy}
        for label, (model, strategy) in named.items()
    }


@pytest.mark.parametrize(
    ("runs", "references", "n_said"),
    [
        ({"a": ("m", "none"), "b": ("m", "ecn")}, {"b": "a"}, 0),
        ({"a": ("m", "ecn"), "b": ("m", "none")}, {"a": "b"}, 0),
        ({"a": ("m", "none"), "b": ("other", "none")}, {"b": "a"}, 0),
        ({"a": ("m", "ecn"), "b": ("m", "two-stage")}, {"b": "a"}, 1),
        ({"a": ("m", "none"), "b": ("other", "ecn")}, {"b": "a"}, 1),
        ({"a": ("m", "none"), "b": ("m", "ecn"), "c": ("other", "ecn")}, {"b": "a"}, 1),
        ({"a": ("m", "none"), "b": ("m", "ecn"), "c": ("other", "none")}, {"b": "a"}, 1),
    ],
)
def test_the_reference_differs_in_nothing_but_the_strategy_or_is_the_first(runs, references, n_said):
    found, _, said = _references(choices(**runs))
    assert (found, len(said)) == (references, n_said)
