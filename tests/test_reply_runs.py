"""Whole runs of replies on a tiny model: from the command line to δ of each measure, its report, and back again."""

from __future__ import annotations

import json
import re
import shutil
import sys
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from finished_runs import REPLIES
from runs import collected as files_of
from runs import in_parts

from audit.cli.main import main
from audit.report.sentences import LIMITS
from audit.report.verdicts import REASONS
from audit.runs.store import RunFolder
from audit.tables.stages import STAGES
from audit.tasks.reply import scoring as score
from audit.tasks.reply.scoring import read_scores, write_scores
from stimuli.words import capital

N_PROMPTS = 2 * 16  # narratives, pairs of religions; in shards of ten: 10, 10, 10 and 2
SHARDS = ["part-000000.parquet", "part-000001.parquet", "part-000002.parquet", "part-000003.parquet"]
COLLECTED = ("replies", "scores")


def overrides(model, run, *more):
    return [f"model.path={model}", *REPLIES, f"run_dir={run}", *more]


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def table_of(run, name):
    return pd.read_csv(run / f"tables/{name}.csv")


def forbid(patch, where):
    """Let nobody call what a name stands for."""

    def forbidden(*_, **__):
        raise AssertionError(f"{where} was called")

    patch.setattr(where, forbidden)


@pytest.fixture(scope="module", autouse=True)
def in_an_empty_folder_without_figures(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        patch.setattr(sys, "argv", list(sys.argv))
        patch.setenv("HYDRA_FULL_ERROR", "1")
        patch.setattr("audit.engines.open._kept", None)
        patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
        yield patch


@pytest.fixture(scope="session")
def finished(finished_model_run):
    return finished_model_run("replies")


@pytest.fixture
def again(finished, tmp_path, monkeypatch):
    """A copy of the finished run, in a process that can load no model."""
    forbid(monkeypatch, "audit.engines.open.open_model")
    return Path(shutil.copytree(finished, tmp_path / "again"))


@pytest.mark.parametrize(
    "tells", ["strategy=two-stage-oracle", "task.user='{Experiencer} felt {emotion_noun}: {narrative}'"]
)
def test_naming_an_emotion_that_the_model_was_told_is_not_scored(tells, tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("measures.names=[lexical,emotion,lexicon]", "measures.lexicon.narrative=emotion")
    assert main(["run", *overrides(tiny_model, "told", "stimuli.emotions=[sad]", *names, tells)]) == 0
    measures = table_of(Path("told"), "measures").set_index("measure")
    assert measures.loc["n_words", "status"] == "scored"
    assert "emotion_hit" not in measures.index
    for name in ("emotion", "lexicon"):
        assert "tells the model the emotion, so naming it shows no understanding" in measures.loc[name, "note"]


def test_a_run_of_replies_ends_in_delta_of_each_measure_and_names_what_is_absent(finished):
    manifest = manifest_of(finished)
    assert manifest["n_prompts"] == manifest["counts"]["total"] == N_PROMPTS
    with RunFolder(finished) as folder:
        replies = folder.read("replies", n_prompts=N_PROMPTS)
        scores = read_scores(folder)
    scored = replies.loc[replies["status"].isin(["written", "cut"]), "prompt_index"]
    assert len(scored) > 0
    assert scores.groupby("measure", observed=True)["prompt_index"].apply(set).map(set(scored).__eq__).all()
    measures = table_of(finished, "measures")
    assert {"n_words", "sentiment", "emotion_hit", "dist_1", "dist_2", "refused"} <= set(measures["measure"])
    absent = measures.loc[measures["status"] == "absent"].set_index("measure")["note"]
    assert "measures.epitome.emotional_reactions=" in absent["epitome"]
    assert "measures.bertscore.references=" in absent["bertscore"]
    gaps = table_of(finished, "gap")
    assert set(gaps.loc[gaps["headline"], "outcome"]) == set(measures.loc[measures["status"] == "scored", "measure"])
    page = (finished / "report.html").read_text()
    assert "measures.bertscore.references=" in page
    [_, told, _] = manifest["example_prompt"]["user"].splitlines()
    read = dict(re.findall(r"<h3><bdi>([^<:]*): ([^<]*)</bdi></h3>", page))
    assert set(read) == set(replies["narrative_id"])
    assert told.strip('"') in map(unescape, read.values())


def test_the_same_command_again_and_report_only_analyse_and_give_the_same(again, tiny_model, monkeypatch):
    forbid(monkeypatch, "audit.tasks.measures.lexical.LexicalScorer")
    forbid(monkeypatch, "audit.tasks.measures.emotion.EmotionScorer")
    before, page = files_of(again, *COLLECTED, "tables"), (again / "report.html").read_text()
    assert main(["report", str(again)]) == 0
    assert files_of(again, *COLLECTED, "tables") == before
    assert (again / "report.html").read_text() == page
    shutil.rmtree(again / "tables")
    assert main(["run", *overrides(tiny_model, again)]) == 0
    assert files_of(again, *COLLECTED, "tables") == before


def test_a_report_made_before_all_is_scored_says_so(again, capsys):
    part = sorted((in_parts(again) / "scores" / "lexical").glob("part-*.parquet"))[0]
    part.unlink()
    assert main(["report", str(again)]) == 0
    assert "answer:   faith: No verdict." in capsys.readouterr().out
    page = (again / "report.html").read_text()
    assert "lexical has not scored all replies yet" in page
    assert f"{capital(REASONS['unfinished'])} (" in page


def test_an_interrupted_run_goes_on_where_it_stopped_and_ends_in_the_same_bytes(
    finished, tiny_model, tmp_path, monkeypatch
):
    """First while the third shard's replies are written, then while the second scorer's third shard is scored."""
    from audit.engines.transformers import TransformersEngine

    run, command = tmp_path / "run", ["run", *overrides(tiny_model, tmp_path / "run")]
    calls = {"generate": 0, "write_scores": 0}

    def interrupted(owner, name, nth):
        whole = getattr(owner, name)

        def counting(self, *arguments, **settings):
            calls[name] += 1
            if calls[name] == nth:
                raise KeyboardInterrupt
            return whole(self, *arguments, **settings)

        monkeypatch.setattr(owner, name, counting)

    interrupted(TransformersEngine, "generate", 3)
    interrupted(score, "write_scores", 4 + 4 + 3)  # each scorer's shards, then those with prompts asked again: all
    assert main(command) == 130
    assert sorted(files_of(run, "replies")) == [f"replies/{name}" for name in SHARDS[:2]]
    assert main(["report", str(run)]) == 0
    assert "20 of 32 prompts have been asked" in (run / "report.html").read_text()
    assert main(command) == 130
    assert len(files_of(run, "replies")) == 4
    assert len(files_of(run, "scores")) == 6 + 2  # what each scorer is stands beside its scores
    assert main(command) == 0
    # What was interrupted is done twice; all 32 prompts are asked again, at once.
    assert calls == {"generate": 4 + 1 + 1, "write_scores": 16 + 1}
    assert files_of(run, *COLLECTED, "tables") == files_of(finished, *COLLECTED, "tables")


def test_a_scorer_that_is_added_later_scores_the_same_replies_and_one_left_out_keeps_its_scores(
    again, tiny_model, monkeypatch
):
    forbid(monkeypatch, "audit.tasks.measures.lexical.LexicalScorer")
    before = files_of(again, *COLLECTED)
    more = ["measures.names=[lexical,diversity,perplexity]", f"measures.perplexity.model={tiny_model}"]
    assert main(["run", *overrides(tiny_model, again, *more)]) == 0
    found = files_of(again, *COLLECTED)
    assert {name: found[name] for name in before} == before
    assert sorted(found.keys() - before.keys()) == [
        f"scores/perplexity/{name}" for name in ("scorer.json", "scores.parquet")
    ]
    measures = table_of(again, "measures").set_index("measure")
    assert "emotion_hit" not in measures.index
    scored = manifest_of(again)["counts"]
    assert measures.loc["perplexity", "n_scored"] == scored["written"] + scored["cut"]
    assert "perplexity" in set(table_of(again, "gap")["outcome"])
    assert LIMITS["own_scorer"][0] in (again / "report.html").read_text()
    forbid(monkeypatch, "audit.tasks.measures.emotion.EmotionScorer")
    assert main(["run", *overrides(tiny_model, again)]) == 0
    assert "emotion_hit" in set(table_of(again, "measures")["measure"])


def test_replies_that_are_written_again_are_scored_again(finished, tiny_model, tmp_path):
    run = Path(shutil.copytree(finished, tmp_path / "again"))
    before = files_of(run, *COLLECTED)
    (in_parts(run) / "replies" / SHARDS[1]).unlink()
    with RunFolder(run) as folder:
        scores = read_scores(folder)
        write_scores(folder, "lexical", 1, scores.iloc[:0], {})
    assert main(["run", *overrides(tiny_model, run)]) == 0
    assert files_of(run, *COLLECTED) == before


@pytest.mark.parametrize(
    ("strategy", "kept"), [("two-stage", "stages.parquet"), ("few-shot-1-random", "given.parquet")]
)  # fmt: skip
def test_a_strategy_leads_the_model_before_it_replies(strategy, kept, finished, tiny_model, tmp_path):
    run = tmp_path / "run"
    assert main(["run", *overrides(tiny_model, run, f"strategy={strategy}", "measures.names=[lexical]")]) == 0
    assert (run / kept).exists()
    with RunFolder(run) as folder, RunFolder(finished) as plain:
        led, unled = (each.read("replies", n_prompts=N_PROMPTS) for each in (folder, plain))
        stages = folder.parts(STAGES).frame()
    assert (led["text"] != unled["text"]).mean() > 0.5
    assert (led["n_prompt_tokens"] > unled["n_prompt_tokens"]).all()
    page = (run / "report.html").read_text()
    assert f"<dt>Strategy</dt><dd><bdi>{strategy}</bdi></dd>" in page
    assert set(stages["prompt_index"]) == (set(range(N_PROMPTS)) if strategy == "two-stage" else set())
    assert ("what happened to the strategy's calls" in page.replace("&#39;", "'")) == (strategy == "two-stage")


@pytest.mark.parametrize(("name", "value"), [("margin", 2), ("wanted", 1), ("formula", "intensity ~ in_group")])
def test_a_setting_that_is_of_ratings_is_refused_in_one_line(name, value, again, tiny_model, capsys):
    before = files_of(again, ".")
    asked = ["run", *overrides(tiny_model, again), f"statistics.{name}={value!r}"]
    for command in (asked, ["report", str(again), f"statistics.{name}={value}"]):
        assert main(command) == 2
        *_, said = capsys.readouterr().err.splitlines()
        assert said.startswith(f"audit: statistics.{name} is for runs of ratings")
    assert files_of(again, ".") == before


def test_a_folder_of_replies_takes_no_ratings_and_a_folder_of_ratings_no_replies(again, tiny_model, tmp_path, capsys):
    ratings = shutil.copytree(Path(__file__).parents[1] / "reports" / "example", tmp_path / "ratings")
    of_ratings = [
        word for word in overrides(tiny_model, again) if word.split("=")[0] not in ("task", "task.max_tokens")
    ]
    for command, folder in ((of_ratings, again), (overrides(tiny_model, ratings), ratings)):
        before = files_of(folder, ".")
        assert main(["run", *command]) == 2
        *_, said = capsys.readouterr().err.splitlines()
        assert f"run_dir={folder} holds another run: " in said
        assert files_of(folder, ".") == before


# --- Invented groups -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def controlled(tiny_model, in_an_empty_folder_without_figures):
    """Two runs whose groups are held against invented ones."""
    runs = []
    for name, n_tokens in (("controlled-1", 4), ("controlled-2", 5)):
        more = ("stimuli.placebo=[invented_1]", "measures.names=[lexical]", f"task.max_tokens={n_tokens}")
        assert main(["run", *overrides(tiny_model, name, *more)]) == 0
        runs.append(Path(name).absolute())
    return runs


def test_replies_to_invented_groups_are_a_control_and_nothing_else(controlled):
    run = controlled[0]
    with RunFolder(run) as folder:
        replies = folder.read("replies", n_prompts=2 * N_PROMPTS)
    assert replies["dimension"].value_counts().to_dict() == {"faith": N_PROMPTS, "invented_1": N_PROMPTS}
    invented = set(replies.loc[replies["dimension"] == "invented_1", "perceiver"].astype(str))
    controls = table_of(run, "controls")
    assert set(controls["dimension"]) == {"faith"}
    of_sets = controls.loc[controls["control"] == "placebo"]
    assert set(of_sets["levels"]) == {1}
    assert of_sets["delta"].notna().all()
    assert set(of_sets["n_narratives_asked"]) == {2}
    for path in (run / "tables").glob("*.csv"):
        table = pd.read_csv(path)
        if path.name == "disparity.csv":  # marked there, and without an answer
            assert set(table.loc[table["invented"], "dimension"]) == {"invented_1"}
            assert not table.loc[table["invented"], "headline"].any()
            table = table.loc[~table["invented"]]
        shown = set(table.astype(str).to_numpy().flat)
        assert not shown & {*invented, "invented_1"}, path.name
    own = replies.loc[replies["dimension"] == "faith"]
    scored = int(own["status"].isin(["written", "cut"]).sum())
    measures = table_of(run, "measures").query("status == 'scored'")
    assert set(measures["n_replies"]) == {scored, N_PROMPTS}
    page = unescape((run / "report.html").read_text("utf-8"))
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.S).partition('id="manifest"')[0]
    assert [(term, shown[shown.find(term) - 99 : shown.find(term) + 40]) for term in invented if term in shown] == []


def test_people_and_judges_are_not_asked_about_invented_groups(controlled, capsys):
    from audit.comparing.preference.judging import two_runs

    assert all(set(run.replies["dimension"]) == {"faith"} for run in two_runs(controlled))
    assert main(["people", "export", str(controlled[0]), f"n={N_PROMPTS}"]) == 0
    key = pd.read_csv(controlled[0] / "people" / "key.csv")
    assert len(key) > 4
    assert set(key["dimension"]) == {"faith"}
