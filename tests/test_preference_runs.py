"""Two runs of replies compared by a judge: through the command line, by a scripted judge and by a tiny model."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, as_stored

from audit.asking import conversations
from audit.cli.main import main
from audit.engines.resolve import ModelFiles, file_hashes
from audit.report.page import asset
from audit.runs.parts import Parts
from audit.runs.store import JudgementFolder, RunFolder
from audit.tables.preference import JUDGED_PAIRS, PREFERENCE

sys.path.insert(0, str(Path(__file__).parent / "judge"))
from judging import draw, opened, shown

N_PAIRS = 4 * 16  # narratives, pairs of religions
FILES = {
    "manifest.json", "dictionary.csv", "judgement.html", "tables/pairs.csv", "tables/preference.csv",
    "pairs.parquet",
}  # fmt: skip
ATTACK = "<script src=//example.org/a.js>"  # a pair of marks would be cut, for what lies between may be a thought


def run_command(model, run, *more):
    return [
        "run", "task=reply", "engine=transformers", "engine.device=cpu", f"model.path={model}", "model.name=tiny",
        "model.dtype=float32", *FOUR_RELIGIONS, "stimuli.emotions=[sad,happy]", "stimuli.unspecified=false",
        "stimuli.situations_per_emotion=2", "task.max_tokens=12", "statistics.n_permutations=200",
        "measures.names=[lexical]", f"run_dir={run}", *more,
    ]  # fmt: skip


def rewrite(run, texts):
    """Give the replies of a run other texts, by perceiver group and in_group."""
    manifest = json.loads((run / "manifest.json").read_text())
    folder = RunFolder(run)
    replies = folder.read("replies", n_prompts=manifest["n_prompts"])
    given = [texts(row) for row in replies.to_dict("records")]
    replies = replies.assign(text=[text for text, _ in given], status=[status for _, status in given])
    folder.clear("replies")
    folder.write_shard(0, replies, "replies")


@pytest.fixture(scope="module", autouse=True)
def in_an_empty_folder_without_figures(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        patch.setattr(sys, "argv", list(sys.argv))
        patch.setenv("HYDRA_FULL_ERROR", "1")
        patch.setattr("audit.engines.open._kept", None)
        patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
        yield patch


@pytest.fixture(scope="module")
def collected(tiny_model, in_an_empty_folder_without_figures):
    """Two runs that differ in how they were asked, their replies as the tiny model wrote them."""
    assert main(run_command(tiny_model, "one")) == 0
    assert main(run_command(tiny_model, "two", "task.max_tokens=10")) == 0
    return Path("one").absolute(), Path("two").absolute()


@pytest.fixture(scope="module")
def runs(collected, tmp_path_factory):
    """The same with texts that a scripted judge can tell apart; one reply of the second run was refused."""
    place = tmp_path_factory.mktemp("runs")
    one, two = (Path(shutil.copytree(run, place / run.name)) for run in collected)
    rewrite(one, lambda row: (("warm" if row["in_group"] else "kind") + f" {ATTACK}", "written"))
    rewrite(two, lambda row: ("I see.", "refused" if row["prompt_index"] == 5 else "written"))
    return one, two


@pytest.fixture
def scripted(monkeypatch):
    """Let a scripted judge answer; returns what sets its answer, and what it was asked."""
    made = {}

    def use(answer):
        made["judge"] = opened(answer)
        monkeypatch.setattr("audit.engines.open.open_model", lambda *_, **__: made["judge"])
        return made["judge"].engine.texts

    return use


def prefers(text):
    """Prefer "warm" to "I see." by .8 and "kind" by .6, with noise of each pair, and .1 more for what stands first."""
    experiencer, (narrative, first, second) = shown(text)
    one = next(reply for reply in (first, second) if reply != "I see.")
    p = {"warm": 0.8, "kind": 0.6}[one.split()[0]] + draw(0.02, narrative, experiencer, one)
    p = (p if first == one else 1 - p) + 0.1
    return {"A": p, "B": 1 - p}


def judge(runs, out, *more):
    return ["judge", *map(str, runs), "model=a-judge", f"run_dir={out}", *more]


def table_of(out, name="preference"):
    return pd.read_csv(out / f"tables/{name}.csv", keep_default_na=False, na_values={"preference": [""]})


def test_a_planted_preference_gap_and_position_bias_come_out_of_the_command(runs, tmp_path, scripted, capsys):
    read = scripted(prefers)
    out = tmp_path / "out"
    assert main(judge(runs, out)) == 0
    assert {str(path.relative_to(out)) for path in out.rglob("[!.]*.*")} >= FILES
    rows = pd.read_csv(out / "tables/preference.csv").set_index("pairs")
    assert list(rows.reset_index().columns.sort_values()) == sorted(PREFERENCE)
    # a quarter of the pairs is in-group
    assert rows["preference"].to_dict() == pytest.approx(
        {"all": 0.65, "in_group": 0.8, "out_group": 0.6, "gap": 0.2}, abs=0.02
    )
    assert (rows["ci_low"] < rows["ci_high"]).all()
    assert rows.loc["gap", "ci_low"] > 0.1
    assert rows.loc[["all", "in_group", "out_group"], "position_bias"].tolist() == pytest.approx([0.1] * 3)
    assert rows.loc["all", ["n_pairs", "n_no_reply", "n_read", "n_narratives"]].tolist() == [N_PAIRS, 1, N_PAIRS - 1, 4]
    assert len(read) % (2 * (N_PAIRS - 1)) == 0
    pairs = table_of(out, "pairs")
    assert list(pairs.columns) == list(JUDGED_PAIRS)
    assert pairs.loc[pairs["second_reply"] == "refused", ["given_status", "given_chose_first"]].values.tolist() == [
        ["", ""]
    ]
    shown_there = capsys.readouterr()
    assert "in-group less out-group" in shown_there.out
    assert str(out / "judgement.html") in shown_there.out
    assert "leans to the reply that stands first, by 10.0 percentage points" in shown_there.err


class Page(HTMLParser):
    """What a page holds: its tags, and its numbers by their place."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.numbers = set(), {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        named = dict(attributes)
        if tag == "data":
            self.numbers[named["data-at"]] = named["value"]


def test_the_page_has_the_tables_numbers_escapes_what_was_written_and_needs_no_network(runs, tmp_path, scripted):
    scripted(prefers)
    out = tmp_path / "out"
    assert main(judge(runs, out)) == 0
    text = (out / "judgement.html").read_text()
    page = Page(text)
    assert re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL) == [asset("page.js")]
    assert ATTACK.replace("<", "&lt;").replace(">", "&gt;") in text
    tables = {name: pd.read_csv(out / f"tables/{name}.csv") for name in ("preference", "pairs")}
    assert page.numbers
    for place, value in page.numbers.items():
        table, line, column = place.split(":")
        held = tables[table].loc[int(line), column]
        assert (value == "" and pd.isna(held)) or float(value) == pytest.approx(held)
    assert (
        text.index("Position bias")
        < text.index("Numbers cannot replace reading")
        < text.index("Which replies are better.")
    )
    described = pd.read_csv(out / "dictionary.csv")
    assert set(described["table"]) == {"pairs", "preference"}


def test_an_interrupted_comparison_goes_on_where_it_stopped_and_a_finished_one_needs_no_model(
    runs, tmp_path, scripted, monkeypatch
):
    monkeypatch.setattr("audit.comparing.preference.judging._PART", 32)
    read = scripted(prefers)
    assert main(judge(runs, tmp_path / "whole")) == 0
    n_whole = len(read)
    write, out = Parts.write, tmp_path / "out"

    def interrupted(self, name, pairs):
        if name == "part-000001":
            raise KeyboardInterrupt
        write(self, name, pairs)

    monkeypatch.setattr(Parts, "write", interrupted)
    assert main(judge(runs, out)) == 130
    monkeypatch.setattr(Parts, "write", write)
    read = scripted(prefers)
    assert main(judge(runs, out)) == 0
    assert len(read) / n_whole == 32 / (N_PAIRS - 1)
    for name in ("tables/pairs.csv", "tables/preference.csv", "pairs.parquet"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    read = scripted(prefers)
    before = (out / "judgement.html").read_bytes()
    assert main(judge(runs, out)) == 0
    assert read == []
    assert (out / "judgement.html").read_bytes() == before


def test_narratives_are_drawn_by_the_seed_and_another_question_does_not_mix_with_what_is_there(
    runs, tmp_path, scripted, capsys
):
    scripted(prefers)
    out = tmp_path / "out"
    assert main(judge(runs, out, "n=2", "seed=3")) == 0
    assert table_of(out, "pairs")["narrative_id"].nunique() == 2
    assert main(judge(runs, out, "n=2", "seed=3", "criterion=coherence")) == 2
    assert "holds another comparison by a judge" in capsys.readouterr().err
    assert main(["judge", *map(str, runs), "model=a-judge"]) == 0
    assert len(list(Path("reports").glob("judged-*"))) == 1
    assert main(["report", str(out)]) == 2
    assert "it has a comparison of two runs' replies by a judge" in capsys.readouterr().err


def test_a_judge_that_writes_its_answers_is_read_and_what_it_does_not_choose_is_missing(runs, tmp_path, scripted):
    scripted(lambda text: "A" if shown(text)[1][1] != "I see." else "neither")
    assert main(judge(runs, tmp_path / "out", "method=generate")) == 0
    row = table_of(tmp_path / "out").set_index("pairs").loc["all"]
    assert (row["n_read"], row["n_unread"], row["n_unparseable"]) == (0, N_PAIRS - 1, N_PAIRS - 1)
    assert pd.isna(row["preference"])
    assert "No answer: no pair could be read" in (tmp_path / "out/judgement.html").read_text()
    scripted(lambda text: "A" if shown(text)[1][1] != "I see." else "B")
    assert main(judge(runs, tmp_path / "sure", "method=generate")) == 0
    row = pd.read_csv(tmp_path / "sure/tables/preference.csv").set_index("pairs").loc["all"]
    assert row[["preference", "position_bias", "inconsistent"]].tolist() == [1, 0, 0]
    assert pd.isna(row["mean_mass"])
    assert "same preference" in row["note"]


def test_a_part_without_two_replies_is_not_asked_about(runs, tmp_path, scripted, monkeypatch):
    monkeypatch.setattr("audit.comparing.preference.judging._PART", 1)
    copy = changed(runs, tmp_path)
    rewrite(copy, lambda row: ("I see.", "written" if row["narrative_id"] == "sad-02" else "failed"))
    scripted(prefers)
    assert main(judge((runs[0], copy), tmp_path / "out")) == 0
    assert JudgementFolder(tmp_path / "out").parts(JUDGED_PAIRS).numbers() == {0, 1, 2, 3}
    row = pd.read_csv(tmp_path / "out/tables/preference.csv").set_index("pairs").loc["all"]
    assert row[["n_pairs", "n_no_reply", "n_read", "n_narratives"]].tolist() == [N_PAIRS, 48, 16, 1]


def changed(runs, place, **fields):
    """A copy of the second run with another manifest."""
    copy = Path(shutil.copytree(runs[1], place / "changed"))
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | fields))
    return as_stored(copy)


def test_runs_of_two_prompt_variants_are_called_by_them(runs, tmp_path, scripted, capsys):
    scripted(prefers)
    asked = json.loads((runs[1] / "manifest.json").read_text())["prompt"]
    other = changed(runs, tmp_path, prompt=asked | {"variant": "persona-1"})
    assert main(judge((runs[0], other), tmp_path / "out")) == 0
    assert f"the replies of {asked['variant']} over those of persona-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("same", "hold the same run"),
        ("one", "judge compares two run folders"),
        ("no model", "model= must be given"),
        ("criterion=warmth", "no criterion 'warmth'"),
        ("rubric=emathy", "unknown rubric 'emathy'"),
        ("method=guess", "method=guess: must be expected or generate"),
        ("n=0", "n=0: must be a whole number of at least 1"),
        ("ratings", "is a run of task=intensity, which has no replies to compare"),
        ("unfinished", "is not finished"),
        ("dimension", "have no pair of replies in common: one is of faith, the other of age"),
        ("narratives", "are of different narratives in faith"),
        ("identities", "are of different experiencers in faith: 'a "),
        ("wording", "has two wordings"),
        ("all refused", "have no pair of replies in common that can be compared"),
        ("taken", "has files that do not belong to a judgement"),
    ],
)
def test_what_can_not_be_compared_is_one_line(fault, line, runs, tmp_path, scripted, monkeypatch, capsys):
    scripted(prefers)
    first, second, more, out = runs[0], runs[1], [], tmp_path / "out"
    if "=" in fault:
        more = [fault]
    elif fault == "same":
        second = shutil.copytree(first, tmp_path / "again")
    elif fault == "ratings":
        second = changed(runs, tmp_path, task=None)
    elif fault == "unfinished":
        second = changed(runs, tmp_path, status="interrupted")
    elif fault == "taken":
        out.mkdir()
        (out / "mine.txt").write_text("")
    elif fault in ("dimension", "narratives", "identities", "all refused"):
        second = changed(runs, tmp_path)
        read = RunFolder.read
        column, value = {
            "dimension": ("dimension", "age"),
            "narratives": ("narrative_id", "another"),
            "identities": ("experiencer", "a Martian"),
            "all refused": ("status", "refused"),
        }[fault]

        def reading(self, kind, *, n_prompts, unfinished=False):
            replies = read(self, kind, n_prompts=n_prompts, unfinished=unfinished)
            return replies.assign(**{column: value}) if self.path == second else replies

        monkeypatch.setattr(RunFolder, "read", reading)
    elif fault == "wording":
        second = changed(runs, tmp_path)
        tell = conversations.narratives_of
        calls = []

        def telling(folder, manifest):
            calls.append(manifest)
            return {name: text + "!" * len(calls) for name, text in tell(folder, manifest).items()}

        monkeypatch.setattr("audit.comparing.preference.judging.narratives_of", telling)
    command = ["judge", str(first), str(second), "model=a-judge", f"run_dir={out}", *more]
    if fault == "one":
        command.remove(str(second))
    if fault == "no model":
        command.remove("model=a-judge")
    assert main(command) == 2
    said = capsys.readouterr().err.strip()
    assert line in said
    assert len(said.splitlines()) == 1


def test_the_whole_command_by_a_tiny_model(collected, tiny_model, tmp_path, capsys):
    command = ["judge", *map(str, collected), f"model={tiny_model}", "n=1", f"run_dir={tmp_path / 'out'}"]
    assert main(command) == 0
    told = capsys.readouterr()
    assert "The judge is the model that wrote the replies" in told.err
    pairs = pd.read_csv(tmp_path / "out/tables/pairs.csv")
    asked = pairs["given_status"].notna()
    assert asked.any()
    assert pairs.loc[asked, "given_status"].eq("rated").all()
    assert pairs.loc[asked, "preference"].between(0, 1).all()
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["status"], manifest["judge"]["engine"]["name"]) == ("complete", "transformers")


def test_help_says_what_the_command_takes(capsys):
    assert main(["judge", "--help"]) == 0
    said = capsys.readouterr().out
    assert "To continue an interrupted comparison, give\nthe same command again." in said
    assert main(["--help"]) == 0
    assert "judge        have a model compare" in capsys.readouterr().out


def test_a_finished_comparison_does_not_answer_for_a_judge_that_has_changed(runs, tmp_path, monkeypatch, capsys):
    place = tmp_path / "judge"
    place.mkdir()
    (place / "config.json").write_text("{}")
    (place / "model.safetensors").write_text("first")

    def give(out):
        made = opened(prefers)
        source = replace(made.source, files=ModelFiles(place, None), hashes=file_hashes(place))
        monkeypatch.setattr("audit.engines.open.open_model", lambda *_, **__: replace(made, source=source))
        return main(["judge", *map(str, runs), f"model={place}", f"run_dir={out}"])

    assert give(tmp_path / "out") == 0
    assert give(tmp_path / "out") == 0
    assert "all pairs are judged already; analysing" in capsys.readouterr().err
    (place / "model.safetensors").write_text("second")
    assert give(tmp_path / "out") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "holds what another judge answered: model=" in said
    assert "has changed since (model.safetensors is another file); name another folder to ask this one" in said
    assert give(tmp_path / "new") == 0
