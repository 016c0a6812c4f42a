"""End to end through the command line: a tiny real model, the transformers engine, real files."""

import base64
import errno
import gzip
import itertools
import json
import os
import re
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from calibration import CALIBRATION, calibrate_run
from finished_runs import RATINGS as RATINGS_ASKED
from runs import as_stored, collected, in_parts

from audit.errors import ConfigError
from audit.report.sentences import LIMITS
from audit.report.verdicts import STEPS
from audit.runs.store import RunFolder
from audit.tables.ratings import RATINGS
from audit.tables.run_of_ratings import TABLES

SHOWN = "report:   {0} (all numbers, tables and N notes; to see it: xdg-open {0})"  # a run's last line
N_PROMPTS = 50  # 5 perceivers x 5 experiencers x 2 narratives: shards 0 to 6 of seven, shard 7 of one


def overrides(model, run_dir, *more):
    """Overrides of a small run; with a run_dir of a name, relative to the empty folder that a test runs in."""
    return [f"model.path={model}", *RATINGS_ASKED, f"run_dir={run_dir}", *more]


def ratings_of(run):
    with RunFolder(run) as folder:
        return folder.read_ratings(n_prompts=N_PROMPTS)


def shards_of(run):
    return collected(run, "ratings")


def files_of(run):
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("[!.]*.*")}


def collected_and_made(run):
    """The files but for the manifest and the ledger, in which those of an earlier version have other words."""
    return {name: content for name, content in files_of(run).items() if name not in ("manifest.json", "ledger.jsonl")}


def tables_of(run):
    return {path.name: path.read_bytes() for path in sorted((run / "tables").iterdir())}


def table_of(run, name):
    return pd.read_csv(run / "tables" / f"{name}.csv")


def gap_of(run, estimator, scope="narratives"):
    """The one row of the table of gaps."""
    gap = table_of(run, "gap")
    [row] = gap[(gap["estimator"] == estimator) & (gap["scope"].fillna("") == scope)].to_dict("records")
    return row


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text())


def change_manifest(run, change):
    manifest = manifest_of(run)
    change(manifest)
    (run / "manifest.json").write_text(json.dumps(manifest))
    as_stored(run)


@pytest.fixture(scope="session")
def uninterrupted(finished_model_run):
    """Folder of a run that nothing went wrong in; not to be written to."""
    return finished_model_run("ratings")


@pytest.fixture
def drawn():
    """Ask for it to have figures drawn; other tests do without, which takes a third of the time."""


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
        monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


@pytest.fixture
def finished(uninterrupted, tmp_path):
    """Folder of a finished run, ``run`` in the folder that the test runs in."""
    return shutil.copytree(uninterrupted, tmp_path / "run")


@pytest.fixture
def no_model(monkeypatch):
    """Make any loading of a model fail."""

    def fail(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("audit.engines.open.open_model", fail)


@pytest.fixture
def interfere(monkeypatch):
    """Return a function that raises an error at the nth call that the engine gets, counted from 1."""
    from audit.engines.transformers import TransformersEngine

    def at(nth, error):
        calls = 0
        answer = TransformersEngine.read

        def interfering(self, *arguments):
            nonlocal calls
            calls += 1
            if calls == nth:
                raise error
            return answer(self, *arguments)

        monkeypatch.setattr(TransformersEngine, "read", interfering)

    return at


# --- A run ------------------------------------------------------------------------------------------------------------


def test_a_run_writes_its_folder_and_nothing_else(uninterrupted):
    assert [path.name for path in uninterrupted.parent.iterdir()] == ["run"]
    assert sorted(path.name for path in uninterrupted.iterdir() if path.name != ".lock") == [
        "engine.log",
        "figures",
        "ledger.jsonl",
        "manifest.copy.json",
        "manifest.json",
        "prompts.json.gz",
        "ratings.parquet",
        "report.html",
        "tables",
    ]
    shards = json.loads(pq.read_metadata(uninterrupted / "ratings.parquet").metadata[b"audit.parts"])
    assert [name for name, _, _ in shards] == [f"part-{k:06}" for k in range(8)]
    assert [n_rows for _, n_rows, _ in shards] == [7] * 7 + [1]
    tables = {path.stem for path in (uninterrupted / "tables").glob("*.csv")}
    assert {"dictionary", "verdicts", "gap", "cells", "narratives"} <= tables <= {"dictionary", *TABLES}
    assert [*tables_of(uninterrupted)] == sorted(["generation.txt", *(f"{name}.csv" for name in tables)])
    assert "<html" in (uninterrupted / "report.html").read_text()


def test_ratings_hold_every_prompt_once(uninterrupted):
    ratings = ratings_of(uninterrupted)
    assert list(ratings.columns) == list(RATINGS)
    assert ratings["prompt_index"].tolist() == list(range(N_PROMPTS))
    assert not ratings.duplicated(["perceiver", "experiencer", "narrative_id"]).any()
    assert ratings["perceiver"].nunique() == ratings["experiencer"].nunique() == 5
    assert ratings.groupby("emotion", observed=True)["narrative_id"].nunique().to_dict() == {"happy": 1, "sad": 1}
    assert set(ratings["status"]) == {"rated"}
    assert ratings["intensity"].between(0, 100).all()
    assert ratings["intensity"].nunique() == N_PROMPTS


def test_in_group_is_recorded_and_missing_for_the_baseline(uninterrupted):
    ratings = ratings_of(uninterrupted)
    baseline = (ratings["perceiver"] == "a person") | (ratings["experiencer"] == "a person")
    assert ratings["in_group"].isna().tolist() == baseline.tolist()
    assert int(ratings["in_group"].sum()) == 4 * 2
    assert int((~ratings["in_group"]).sum()) == 4 * 3 * 2


def test_the_gap_is_that_of_the_ratings(uninterrupted):
    # Oracle: arithmetic in numpy. With the same identities on both sides, each once, the double-centred contrast of a
    # narrative is (mean of the diagonal minus grand mean) · k / (k - 1); δ is its mean over narratives.
    ratings = ratings_of(uninterrupted)
    ratings = ratings[ratings["in_group"].notna()]
    contrasts = []
    for _, own in ratings.groupby("narrative_id", observed=True):
        cells = own.pivot_table(index="perceiver", columns="experiencer", values="intensity", observed=True)
        assert list(cells.index) == list(cells.columns)
        contrasts.append((np.diag(cells).mean() - cells.to_numpy().mean()) * 4 / 3)
    row = gap_of(uninterrupted, "contrast")
    assert row["delta"] == pytest.approx(np.mean(contrasts), rel=1e-9)
    assert (row["n_narratives"], row["n_missing"], row["headline"]) == (2, 0, True)


def test_the_manifest_says_what_ran(uninterrupted, tiny_model):
    from audit.engines.resolve import file_hashes

    manifest = manifest_of(uninterrupted)
    assert manifest["status"] == "complete"
    assert manifest["counts"] == {"rated": 50, "refused": 0, "unparseable": 0, "failed": 0, "total": 50}
    assert manifest["model"]["files"] == file_hashes(tiny_model)
    assert manifest["engine"]["name"] == "transformers"
    assert manifest["elicitation"]["method"] == "expected"
    assert manifest["n_sessions"] == 1
    assert manifest["command"].startswith("python -m audit run model.path=")
    assert manifest["example_prompt"]["user"].endswith("Number:")


def test_a_run_shows_the_gap_and_where_the_report_is(tiny_model, audit, capsys, finished):
    assert audit("run", *overrides(tiny_model, "run")) == 0
    out, err = capsys.readouterr()
    assert out.startswith("answer:   faith: ")
    assert SHOWN.format("run/report.html") == re.sub(r"\d+ notes?", "N notes", out.splitlines()[-1])
    assert "all 50 prompts are already answered; analysing" in err


@pytest.mark.usefixtures("no_model")
def test_the_same_command_again_loads_no_model_and_gives_the_same_tables(tiny_model, audit, finished, uninterrupted):
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert shards_of(finished) == shards_of(uninterrupted)
    assert tables_of(finished) == tables_of(uninterrupted)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("seed=1", "seed is 0 there and 1 here"),
        ("prompt=persona-1", "prompt.variant is 'origin' there and 'persona-1' here"),
        ("elicitation.max_pruned_points=0", "elicitation.max_pruned_points is 0.05 there and 0.0 here"),
        ("elicitation=generate", "elicitation.method is 'expected' there and 'generate' here"),
        ("engine.batch_size=3", "engine.batch_size is 16 there and 3 here"),
        ("stimuli.emotions=[sad,amused]", "stimuli.emotions"),
        ("dimensions=nationality", "dimensions is ['faith'] there and ['nationality'] here"),
        ("stimuli.placebo=[invented_2]", "dimensions is ['faith'] there and ['faith', 'invented_2'] here"),
        ("stimuli.unspecified=false", "stimuli.unspecified is True there and False here"),
    ],
)
@pytest.mark.usefixtures("no_model")
def test_another_run_in_the_folder_is_refused_with_the_setting_that_differs(
    change, difference, tiny_model, audit, finished, uninterrupted, capsys
):
    assert audit("run", *overrides(tiny_model, "run", change)) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("audit: run_dir=run holds another run: ")
    assert difference in line
    assert line.endswith("; choose another run_dir, or leave it out")
    assert shards_of(finished) == shards_of(uninterrupted)
    assert manifest_of(finished) == manifest_of(uninterrupted)


@pytest.mark.usefixtures("no_model")
def test_statistics_may_change_between_analyses_of_the_same_ratings(tiny_model, audit, finished, uninterrupted):
    assert audit("run", *overrides(tiny_model, "run", "statistics.confidence=0.9")) == 0
    assert "90% interval" in (finished / "report.html").read_text()
    wide, narrow = (pd.read_csv(run / "tables" / "gap.csv").loc[0] for run in (uninterrupted, finished))
    assert wide["delta"] == narrow["delta"]
    assert wide["ci_low"] < narrow["ci_low"] < narrow["ci_high"] < wide["ci_high"]
    assert manifest_of(finished)["command"].endswith("statistics.confidence=0.9")
    assert audit("report", "run") == 0
    assert "90% interval" in (finished / "report.html").read_text()


def test_a_model_that_changed_behind_its_path_can_not_go_on(tiny_model, audit, finished, capsys, tmp_path):
    from safetensors.torch import load_file, save_file

    model = shutil.copytree(tiny_model, tmp_path / "model")
    assert audit("run", *overrides("model", "mine")) == 0
    weights = load_file(model / "model.safetensors")
    weights["lm_head.weight"] *= 2
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    (in_parts(tmp_path / "mine") / "ratings" / "part-000003.parquet").unlink()
    from audit.engines import open as opening

    opening._kept = None  # as in another process
    assert audit("run", *overrides("model", "mine")) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("audit: run_dir=mine holds answers of another model: model_files is")
    assert "choose another run_dir to ask this model" in line
    assert "ratings/part-000003.parquet" not in shards_of(tmp_path / "mine")


@pytest.fixture
def checkpoint(tiny_model, tmp_path):
    """Folder of a model that a test may write to, ``ckpt`` in the folder that it runs in."""
    return shutil.copytree(tiny_model, tmp_path / "ckpt")


def overwrite(checkpoint):
    """Save a model of other weights over a model, as training does."""
    from safetensors.torch import load_file, save_file

    weights = load_file(checkpoint / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"].flip(0).contiguous()
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})


def test_weights_that_were_overwritten_are_named_before_the_old_answers_are_shown(checkpoint, audit, capsys, tmp_path):
    assert audit("run", *overrides("ckpt", "mine")) == 0
    before = tables_of(tmp_path / "mine")
    overwrite(checkpoint)
    capsys.readouterr()
    assert audit("run", *overrides("ckpt", "mine")) == 2
    out, err = capsys.readouterr()
    assert not out  # no gap of the model that was
    assert err.splitlines()[-1] == (
        "audit: run_dir=mine holds answers of another model: model.path=ckpt has changed since "
        "(model.safetensors is another file); choose another run_dir to ask this model; to analyse "
        "the other model's answers: python -m audit report mine"
    )
    # Both remedies work.
    assert audit("report", "mine") == 0
    assert tables_of(tmp_path / "mine") == before
    from audit.engines import open as opening

    opening._kept = None  # as in another process
    assert audit("run", *overrides("ckpt", "new")) == 0
    assert tables_of(tmp_path / "new")["gap.csv"] != before["gap.csv"]


def test_answers_whose_model_is_gone_say_that_they_were_not_checked_until_it_is_back(
    checkpoint, audit, capsys, tmp_path
):
    assert audit("run", *overrides("ckpt", "mine")) == 0
    page = tmp_path / "mine" / "report.html"
    assert "not checked against the model" not in page.read_text()
    away = checkpoint.rename(tmp_path / "away")
    capsys.readouterr()
    assert audit("run", *overrides("ckpt", "mine")) == 0
    err = capsys.readouterr().err
    why = "model.path=ckpt: the run asked a folder that is gone"
    assert f"all 50 prompts are already answered, not checked against the model ({why}); analysing" in err
    assert "which may have changed since" in page.read_text()
    away.rename(checkpoint)
    assert audit("run", *overrides("ckpt", "mine")) == 0
    assert "all 50 prompts are already answered; analysing" in capsys.readouterr().err
    assert "not checked against the model" not in page.read_text()


@pytest.mark.parametrize("planted", [5000.0, -1.0, None], ids=["5000 on a scale to 100", "-1", "no number"])
def test_a_rating_that_no_answer_is_read_as_is_refused_wherever_it_is_read(
    planted, tiny_model, audit, finished, capsys
):
    file = in_parts(finished) / "ratings" / "part-000002.parquet"
    table = pq.read_table(file)
    rows = table.to_pydict()
    rows["intensity"][3] = planted
    place = rows["prompt_index"][3]
    pq.write_table(pa.Table.from_pydict(rows, schema=table.schema), file)
    as_stored(finished)
    for command in (["report", "run"], ["run", *overrides(tiny_model, "run")], ["gate", "run", "margin=2"]):
        capsys.readouterr()
        assert audit(*command) == 2, command
        line = capsys.readouterr().err.splitlines()[-1]
        assert f"run/ratings: prompt {place} has the rating " in line
        assert "on a scale from 0 to 100" in line


# --- Reporting --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_model")
@pytest.mark.every_format
def test_reporting_again_gives_the_same_tables_and_figures_byte_for_byte(audit, drawn, finished, uninterrupted, capsys):
    moved = finished.rename(finished.with_name("moved"))
    shutil.rmtree(moved / "tables")
    (moved / "figures" / "of-an-earlier-analysis.png").write_bytes(b"")
    assert audit("report", moved) == 0
    assert tables_of(moved) == tables_of(uninterrupted)
    for path in (uninterrupted / "figures").iterdir():
        assert (moved / "figures" / path.name).read_bytes() == path.read_bytes(), path.name
    assert len([*(moved / "figures").iterdir()]) == len([*(uninterrupted / "figures").iterdir()])
    assert (moved / "report.html").read_bytes() == (uninterrupted / "report.html").read_bytes()
    assert shards_of(moved) == shards_of(uninterrupted)
    last = capsys.readouterr().out.splitlines()[-1]
    assert SHOWN.format(moved / "report.html") == re.sub(r"\d+ notes?", "N notes", last)


def test_an_incomplete_run_is_not_reported(audit, finished, capsys):
    (in_parts(finished) / "ratings" / "part-000002.parquet").unlink()
    as_stored(finished)
    before = tables_of(finished)
    assert audit("report", "run") == 2
    assert capsys.readouterr().err == (
        "audit: run holds 43 of 50 prompts in 43 rows; run the command in its manifest.json again to complete it\n"
    )
    assert tables_of(finished) == before


def test_a_lost_shard_is_done_again_alike(tiny_model, audit, finished, uninterrupted):
    for name in ("part-000002.parquet", "part-000007.parquet"):
        (in_parts(finished) / "ratings" / name).unlink()
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert shards_of(finished) == shards_of(uninterrupted)
    assert manifest_of(finished)["n_sessions"] == 2


def test_a_damaged_shard_is_named_and_redone_once_deleted(tiny_model, audit, finished, uninterrupted, capsys):
    damaged = in_parts(finished) / "ratings" / "part-000001.parquet"
    damaged.write_bytes(damaged.read_bytes()[:300])
    assert audit("run", *overrides(tiny_model, "run")) == 2
    assert "part-000001.parquet cannot be read" in capsys.readouterr().err.splitlines()[-1]
    damaged.unlink()
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert shards_of(finished) == shards_of(uninterrupted)


def test_shard_size_given_anew_does_not_change_a_run_that_has_begun(tiny_model, audit, finished, uninterrupted):
    (in_parts(finished) / "ratings" / "part-000004.parquet").unlink()
    assert audit("run", *overrides(tiny_model, "run", "shard_size=10")) == 0
    assert shards_of(finished) == shards_of(uninterrupted)


@pytest.mark.usefixtures("no_model")
def test_a_setting_of_the_analysis_is_kept_until_it_is_given_anew(audit, finished):
    assert table_of(finished, "equivalence")["margin"].isna().all()
    assert audit("report", "run", "statistics.margin=2", "statistics.wanted=1.5") == 0
    assert set(table_of(finished, "equivalence")["margin"]) == {2}
    assert set(table_of(finished, "power")["wanted_points"]) == {1.5}
    manifest = manifest_of(finished)
    assert manifest["config"]["statistics"]["margin"] == 2
    assert manifest["report_command"] == "python -m audit report run statistics.margin=2 statistics.wanted=1.5"
    assert "No margin was set" not in (finished / "report.html").read_text()
    assert audit("report", "run") == 0
    assert set(table_of(finished, "equivalence")["margin"]) == {2}
    assert audit("report", "run", "statistics.margin=null") == 0
    assert table_of(finished, "equivalence")["margin"].isna().all()
    assert set(table_of(finished, "power")["wanted_points"]) == {1.5}


def test_runs_of_an_earlier_version_are_analysed_with_the_defaults(audit, finished, uninterrupted):
    def age(manifest):
        statistics = manifest["config"]["statistics"]
        manifest["config"]["statistics"] = {name: statistics[name] for name in ("n_permutations", "confidence")}
        del manifest["clusters"]

    change_manifest(finished, age)
    assert audit("report", "run") == 0
    assert tables_of(finished) == tables_of(uninterrupted)
    settings = manifest_of(finished)["config"]["statistics"]
    assert (settings["margin"], settings["power"], settings["n_permutations"]) == (None, 0.8, 200)


def test_a_formula_gives_its_table(audit, finished):
    assert audit("report", "run", "statistics.formula=intensity ~ in_group + C(perceiver)", "statistics.fit=ols") == 0
    rows = table_of(finished, "own_model")
    assert set(rows["formula"]) == {"intensity ~ in_group + C(perceiver)"}
    assert rows.set_index("term").loc["in_group", ["n_ratings", "n_clusters"]].tolist() == [32, 2]
    assert audit("report", "run", "statistics.formula=null") == 0
    assert not (finished / "tables" / "own_model.csv").exists()


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("command", ["run", "report"])
def test_a_formula_that_can_not_be_used_is_refused_before_anything_long(
    command, tiny_model, audit, finished, uninterrupted, capsys, tmp_path
):
    setting = "statistics.formula='intensity ~ in_grup'"
    if command == "run":
        assert audit("run", *overrides(tiny_model, "new", setting)) == 2
    else:
        assert audit("report", "run", setting.replace("'", "")) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("audit: statistics.formula='intensity ~ in_grup': unknown column or function 'in_grup'; ")
    assert "did you mean 'in_group'?" in line
    assert not (tmp_path / "new").exists()
    assert manifest_of(finished) == manifest_of(uninterrupted)


@pytest.mark.parametrize("fault", ["formula", "incomplete"])
def test_settings_of_an_analysis_that_failed_are_not_kept(fault, audit, finished, uninterrupted, capsys):
    if fault == "formula":  # which only the ratings show to be wrong
        setting, shard = "statistics.formula=intensity ~ C(emotion, Treatment('joy'))", None
    else:
        setting, shard = "statistics.margin=2", in_parts(finished) / "ratings" / "part-000002.parquet"
        shard.unlink()
    before = manifest_of(finished)
    assert audit("report", "run", setting) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert manifest_of(finished) == before
    assert audit("report", "run") == (2 if shard else 0)


def without(name):
    return lambda manifest: json.dumps({key: value for key, value in manifest.items() if key != name})


def having(**changes):
    return lambda manifest: json.dumps(manifest | changes)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            without("shard_size"),
            "manifest.json is damaged: the manifest has no shard_size; python -m audit recover run",
        ),
        (
            having(shard_size=None),
            "manifest.json is damaged: the manifest has no shard_size; python -m audit recover run",
        ),
        (
            having(shard_size=0),
            "damaged: the manifest's shard_size is 0, but must be at least 1; python -m audit recover run",
        ),
        (
            having(shard_size="7"),
            "damaged: the manifest's shard_size is '7', but must be a number; python -m audit recover run",
        ),
        (
            having(shard_size=[7]),
            "damaged: the manifest's shard_size is [7], but must be a number; python -m audit recover run",
        ),
        (without("n_prompts"), "manifest.json is damaged: the manifest has no n_prompts; python -m audit recover run"),
        (
            without("scale"),
            "damaged: the manifest's scale is None, but low must be below high; python -m audit recover run",
        ),
        (having(identity=7), "damaged: the manifest's identity is 7, but must be a JSON object; python -m"),
        (without("schema_version"), "manifest.json has schema_version None; this version of empathy-audit reads 1"),
        (lambda manifest: json.dumps(manifest)[:700], "manifest.json cannot be read ("),
        (lambda manifest: "[]", "manifest.json has schema_version None"),
        (lambda manifest: "", "manifest.json cannot be read ("),
    ],
)
@pytest.mark.usefixtures("no_model")
def test_a_damaged_manifest_ends_in_one_line(damage, said, tiny_model, audit, finished, uninterrupted, capsys):
    (finished / "manifest.json").write_text(damage(manifest_of(finished)))
    for command in (("report", "run"), ("run", *overrides(tiny_model, "run"))):
        assert audit(*command) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("audit: run/manifest.json ")
        assert said in line
    assert shards_of(finished) == shards_of(uninterrupted)


@pytest.mark.usefixtures("no_model")
def test_a_manifest_of_another_number_of_prompts_is_not_gone_on_with(tiny_model, audit, finished, capsys):
    change_manifest(finished, lambda manifest: manifest.update(n_prompts=N_PROMPTS + 100))
    assert audit("run", *overrides(tiny_model, "run")) == 2
    said = "audit: run/manifest.json is damaged: it lists 150 prompts, but the run has 50; "
    said += "python -m audit recover run restores it from its copy"
    assert capsys.readouterr().err.splitlines()[-1] == said


# --- Consolidation ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_model")
def test_a_finished_run_of_an_earlier_version_is_reported_in_parts_and_consolidated_by_its_command(
    tiny_model, audit, finished, uninterrupted
):
    before = shards_of(in_parts(finished))
    assert [*before] == [f"ratings/part-{k:06}.parquet" for k in range(8)]
    assert audit("report", "run") == 0
    assert shards_of(finished) == before
    assert tables_of(finished) == tables_of(uninterrupted)
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert shards_of(finished) == shards_of(uninterrupted)
    assert [*shards_of(finished)] == ["ratings.parquet"]
    assert tables_of(finished) == tables_of(uninterrupted)
    assert manifest_of(finished)["n_sessions"] == 1


@pytest.mark.usefixtures("no_model")
def test_runs_are_consolidated_by_a_command_that_changes_nothing_else(
    audit, finished, uninterrupted, monkeypatch, capsys
):
    second = shutil.copytree(in_parts(finished), finished.with_name("second"))
    assert audit("consolidate", "run", "second") == 0
    assert capsys.readouterr().out == "consolidated: run\nconsolidated: second\n"
    for run in (finished, second):
        assert collected_and_made(run) == collected_and_made(uninterrupted)
    assert audit("report", "run") == 0
    in_parts(second)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = collected_and_made(second)
    with monkeypatch.context() as patch:
        patch.setattr("audit.runs.parts._Hashed.write", full)
        assert audit("consolidate", "second") == 2
    said = "audit: second/ratings.parquet cannot be written (No space left on device); free some space and give"
    assert capsys.readouterr().err.splitlines()[-1].startswith(said)
    assert collected_and_made(second) == before


@pytest.mark.usefixtures("no_model")
def test_a_disk_too_full_to_consolidate_is_noted_and_the_run_ends_well(
    tiny_model, audit, finished, uninterrupted, monkeypatch, capsys
):
    before = shards_of(in_parts(finished))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("audit.runs.parts._Hashed.write", full)
        assert audit("run", *overrides(tiny_model, "run")) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "the collected answers stay in parts" in line]
    assert notes == [
        "note: the collected answers stay in parts: run/ratings.parquet cannot be written (No space "
        "left on device); free some space and give the same command again: what was collected is kept"
    ]
    assert shards_of(finished) == before
    assert tables_of(finished) == tables_of(uninterrupted)


def test_estimates_that_no_verdict_uses_are_made_where_they_are_asked_for(audit, finished, uninterrupted):
    more = {"equal_narratives", "within_narratives", "mixed_crossed", "ranks"}
    plain = pd.read_csv(finished / "tables" / "sensitivity.csv")
    assert not set(plain["check"]) & more
    assert audit("report", "run", "statistics.sensitivity=true") == 0
    asked = pd.read_csv(finished / "tables" / "sensitivity.csv")
    assert set(asked["check"]) == set(plain["check"]) | more
    pd.testing.assert_frame_equal(asked.loc[~asked["check"].isin(more)].reset_index(drop=True), plain)
    assert "a mixed model with random perceivers and experiencers" in (finished / "report.html").read_text()
    assert audit("report", "run", "statistics.sensitivity=false") == 0
    assert tables_of(finished) == tables_of(uninterrupted)


# --- Calibration ------------------------------------------------------------------------------------------------------


def test_the_benchmark_calibrates_a_run_the_same_for_the_same_seed(finished, uninterrupted, tmp_path, capsys):
    files = []
    for seed in (0, 0, 1):
        calibrate_run(finished, n_datasets=20, seed=seed, out=tmp_path / "calibration.csv")
        files.append((tmp_path / "calibration.csv").read_bytes())
    assert files[0] == files[1] != files[2]
    table = pd.read_csv(tmp_path / "calibration.csv")
    assert list(table.columns) == list(CALIBRATION)
    assert set(table["n_datasets"]) == {20}
    out = capsys.readouterr().out
    assert out.count("calibration.csv\n") == 3
    assert len(out.split("table: ")[0].splitlines()) == 2 + len(table)
    assert tables_of(finished) == tables_of(uninterrupted)


def test_the_gap_of_a_calibration_can_be_chosen(finished, tmp_path):
    table = calibrate_run(finished, n_datasets=5, delta=3.5, out=tmp_path / "calibration.csv")
    assert set(table["delta"]) == {0, 3.5}
    with pytest.raises(ConfigError, match="delta=101"):
        calibrate_run(finished, n_datasets=5, delta=101.0, out=tmp_path / "calibration.csv")


# --- Ratings of another tool ------------------------------------------------------------------------------------------

# Contrast of a narrative of two groups: (aa + bb - ab - ba) / 2. So (80 + 70 - 60 - 50) / 2 = 20, then 8 and 2: δ = 10,
# their standard deviation √((10² + 2² + 8²) / 2) = √84, and the standard error √(84 / 3) = √28.
SQUARES = {"n1": (80, 60, 50, 70), "n2": (40, 30, 30, 36), "n3": (55, 49, 50, 48)}
PAIRS = [("a Red", "a Red"), ("a Red", "a Blue"), ("a Blue", "a Red"), ("a Blue", "a Blue")]


@pytest.fixture
def outside(audit, tmp_path):
    """Return a function that writes the squares to a table, but for what changes, and analyses it in the folder out."""

    def analyse(*arguments, changed=None, status=False, run_dir="out", ends=("low=0", "high=100")):
        rows = [
            {"perceiver": p, "experiencer": e, "narrative_id": name, "rating": rating, "status": "rated"}
            for name, ratings in SQUARES.items()
            for (p, e), rating in zip(PAIRS, ratings, strict=True)
        ]
        for place, change in (changed or {}).items():
            rows[place] |= change
        pd.DataFrame(rows).drop(columns=[] if status else "status").to_csv(tmp_path / "r.csv", index=False)
        (tmp_path / "g.csv").write_text("term,group\na Red,red\na Blue,blue\n")
        return audit("report", "ratings=r.csv", "groups=g.csv", f"run_dir={run_dir}", *ends, *arguments)

    return analyse


REFUSED = {1: {"rating": None, "status": "refused"}}


def test_outside_ratings_give_the_gap_worked_by_hand(outside, tmp_path, capsys):
    assert outside("model=a-model") == 0
    row = gap_of(tmp_path / "out", "contrast")
    assert row["headline"]
    assert (row["delta"], row["se"]) == pytest.approx((10, 28**0.5))
    assert (row["n_narratives"], row["n_answers"], row["n_missing"]) == (3, 12, 0)
    out, err = capsys.readouterr()
    assert "+10.00" in out
    assert SHOWN.format("out/report.html") == re.sub(r"\d+ notes?", "N notes", out.splitlines()[-1])
    assert err.splitlines()[0] == "r.csv: 12 ratings of 12 prompts on a scale from 0 to 100"
    manifest = manifest_of(tmp_path / "out")
    assert (manifest["model"]["name"], manifest["counts"]["rated"]) == ("a-model", 12)
    assert "The ratings were collected by another tool" in (tmp_path / "out" / "report.html").read_text()


def test_outside_ratings_can_be_analysed_again_in_either_way(audit, outside, tmp_path):
    assert outside() == 0
    before = tables_of(tmp_path / "out"), shards_of(tmp_path / "out")
    assert outside() == 0
    assert (tables_of(tmp_path / "out"), shards_of(tmp_path / "out")) == before
    assert audit("report", "out") == 0
    assert (tables_of(tmp_path / "out"), shards_of(tmp_path / "out")) == before
    assert audit("report", "out", "statistics.margin=3") == 0
    assert set(table_of(tmp_path / "out", "equivalence")["margin"]) == {3}


def test_other_outside_ratings_are_refused_in_the_same_folder(outside, finished, tmp_path, capsys):
    assert outside() == 0
    before = tables_of(tmp_path / "out"), manifest_of(tmp_path / "out")
    assert outside(changed={0: {"rating": 81}}) == 2
    assert "run_dir=out holds another run: outside.ratings is " in capsys.readouterr().err.splitlines()[-1]
    assert outside(ends=("low=0", "high=90")) == 2
    assert "scale.high is 100.0 there and 90.0 here" in capsys.readouterr().err.splitlines()[-1]
    assert outside(run_dir="run") == 2
    assert "run_dir=run holds another run: " in capsys.readouterr().err.splitlines()[-1]
    assert (tables_of(tmp_path / "out"), manifest_of(tmp_path / "out")) == before


def test_ratings_that_do_not_reach_the_default_ends_are_asked_for_their_scale(outside, tmp_path, capsys):
    assert outside(ends=()) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "the ratings go from 30 to 80" in line
    assert "give its ends with low= and high=" in line
    assert not (tmp_path / "out").exists()


def test_a_code_for_a_refusal_is_named_and_becomes_missing(audit, outside, tmp_path, capsys):
    refused = {1: {"rating": -1, "status": "refused"}}
    assert outside(changed=refused, status=False) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "-1 is likely a code for a refusal or a missing answer: if so, add missing=-1" in line
    assert "low=" not in line
    assert outside("missing=-1", changed=refused, status=True) == 0
    assert "11 ratings of 12 prompts on a scale from 0 to 100; 1 code (-1) for none" in capsys.readouterr().err
    coded = tables_of(tmp_path / "out")
    assert manifest_of(tmp_path / "out")["outside"]["missing"] == [-1]
    # The same with an empty cell: only the dictionary of what was read could differ, and it does not.
    assert outside(changed=REFUSED, status=True, run_dir="empty") == 0
    assert tables_of(tmp_path / "empty") == coded
    # As a setting of the ratings it is part of what the run is.
    assert outside("missing=[-1,-99]", changed=refused | {5: {"rating": -99, "status": "refused"}}, status=True) == 2
    assert "run_dir=out holds another run" in capsys.readouterr().err.splitlines()[-1]
    assert audit("report", "out") == 0
    assert tables_of(tmp_path / "out") == coded


def test_a_status_tells_refusals_and_gives_their_gap(outside, tmp_path, capsys):
    assert outside(changed=REFUSED, status=True) == 0
    missing = table_of(tmp_path / "out", "missing").set_index("outcome")
    # One of three narratives refuses one of two out-group prompts: (0 + 0 - 1 - 0) / 2 / 3, in percentage points.
    assert missing.loc["refused", "gap_pp"] == pytest.approx(-100 / 6)
    assert missing.loc["refused", ["rate_in_group", "rate_out_group"]].tolist() == pytest.approx([0, 1 / 6])
    assert gap_of(tmp_path / "out", "contrast")["headline"]
    err = capsys.readouterr().err
    assert "refused to rate" not in err  # one refusal may be an accident
    assert "does not say why" not in err


def test_without_a_status_it_is_said_that_nobody_knows_why_ratings_are_missing(outside, tmp_path):
    assert outside(changed=REFUSED) == 0
    assert "does not say why 1 rating" in (tmp_path / "out" / "report.html").read_text()
    assert manifest_of(tmp_path / "out")["counts"]["unparseable"] == 1
    assert outside(run_dir="whole") == 0
    assert "does not say why" not in (tmp_path / "whole" / "report.html").read_text()


def test_a_formula_is_refused_before_the_outside_folder_is_made(outside, tmp_path, capsys):
    assert outside("statistics.formula=intensity ~ in_grup") == 2
    assert "did you mean 'in_group'?" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_calibration_of_a_run_without_a_gap_says_why_there_is_none(outside, tmp_path, capsys):
    nothing = {place: {"rating": None, "status": "refused"} for place in range(12)}
    assert outside(changed=nothing, status=True) == 0
    calibrate_run(tmp_path / "out", n_datasets=5, out=tmp_path / "calibration.csv")
    assert "no pair of identities has a rating" in capsys.readouterr().out


# --- Interruption -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nth", [1, 5])
def test_ctrl_c_ends_in_130_and_the_same_command_goes_on_to_the_same_ratings(
    nth, tiny_model, audit, uninterrupted, tmp_path, interfere, capsys
):
    interfere(nth, KeyboardInterrupt())
    assert audit("run", *overrides(tiny_model, "run")) == 130
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "interrupted; what was collected is kept: run the same command to continue"
    kept = shards_of(tmp_path / "run")
    assert len(kept) < 8
    assert (nth == 1) == (not kept) == (not (tmp_path / "run").exists())
    if kept:
        assert audit("report", "run") == 0
        told = capsys.readouterr().out
        assert LIMITS["unfinished"][0].lower() in told
        assert f"next:     {STEPS['finish']}\n          {manifest_of(tmp_path / 'run')['command']}\n" in told
        assert LIMITS["unfinished"][0] in (tmp_path / "run" / "report.html").read_text()
        assert table_of(tmp_path / "run", "verdicts")["reasons"].str.startswith("unfinished").all()
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert LIMITS["unfinished"][0] not in (tmp_path / "run" / "report.html").read_text()
    assert "unfinished" not in "".join(table_of(tmp_path / "run", "verdicts")["limits"])
    assert shards_of(tmp_path / "run") == shards_of(uninterrupted)
    assert tables_of(tmp_path / "run") == tables_of(uninterrupted)
    assert manifest_of(tmp_path / "run")["n_sessions"] == (2 if kept else 1)


@pytest.mark.parametrize("nth", [1, 6, 30])
def test_a_full_disk_ends_in_one_line_and_the_same_command_goes_on(
    nth, tiny_model, audit, uninterrupted, tmp_path, monkeypatch, capsys
):
    really, calls = os.fsync, 0

    def fsync(descriptor):
        nonlocal calls
        calls += 1
        if calls >= nth:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        assert audit("run", *overrides(tiny_model, "run")) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("audit: run/")
    assert line.endswith(
        "cannot be written (No space left on device); free some space and give the same command "
        "again: what was collected is kept"
    )
    assert not [*(tmp_path / "run").rglob("*.unfinished")]
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert shards_of(tmp_path / "run") == shards_of(uninterrupted)


def test_an_engine_that_fails_inside_loses_nothing_collected(tiny_model, audit, uninterrupted, tmp_path, interfere):
    # A fault of ours or a library's is no user's mistake: the line names a log, and the run goes on all the same.
    interfere(4, RuntimeError("out of memory"))
    assert audit("run", *overrides(tiny_model, "run")) == 70
    assert 0 < len(shards_of(tmp_path / "run")) < 8
    assert audit("run", *overrides(tiny_model, "run")) == 0
    assert shards_of(tmp_path / "run") == shards_of(uninterrupted)


def test_a_model_that_can_not_be_loaded_does_not_spoil_the_folder(tiny_model, audit, tmp_path, capsys):
    assert audit("run", *overrides("nobody/nothing", "run")) == 2
    assert "model.path=nobody/nothing: is not a folder here" in capsys.readouterr().err.splitlines()[-1]
    assert audit("run", *overrides(tiny_model, "run")) == 0


# --- Sweeps -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def loads(monkeypatch):
    """List of what the transformers engine was constructed with."""
    from audit.engines.transformers import TransformersEngine

    made, construct = [], TransformersEngine.__init__

    def counting(self, model, *arguments, **options):
        made.append(model.path)
        construct(self, model, *arguments, **options)

    monkeypatch.setattr(TransformersEngine, "__init__", counting)
    return made


def test_a_sweep_loads_the_model_once_and_gives_each_job_a_folder(
    tiny_model, audit, uninterrupted, tmp_path, loads, capsys
):
    assert audit("run", "-m", *overrides(tiny_model, "sweep", "prompt=origin,scale-10", "reports_dir=sweep")) == 0
    assert loads == [str(tiny_model)]
    runs = {
        manifest_of(path.parent)["prompt"]["variant"]: path.parent for path in tmp_path.glob("sweep/*/ratings.parquet")
    }
    assert set(runs) == {"origin", "scale-10"}
    assert shards_of(runs["origin"]) == shards_of(uninterrupted)
    assert ratings_of(runs["scale-10"])["intensity"].between(0, 10).all()
    assert capsys.readouterr().out.count("report:   ") == 3  # the comparison's, too


def test_a_job_that_fails_does_not_stop_the_others_but_the_exit_code_tells(tiny_model, audit, tmp_path, loads, capsys):
    swept = "prompt=origin,published,scale-10"
    assert audit("run", "-m", *overrides(tiny_model, "sweep", swept, "reports_dir=sweep")) == 2
    assert loads == [str(tiny_model)]
    variants = {manifest_of(path.parent)["prompt"]["variant"] for path in tmp_path.glob("sweep/*/ratings.parquet")}
    assert variants == {"origin", "scale-10"}
    assert "audit: prompt=published needs prompt.path" in capsys.readouterr().err


# --- Models that give no gap ------------------------------------------------------------------------------------------


def test_prose_is_counted_as_unparseable_and_there_is_a_report_without_a_gap(make_model, audit, tmp_path, capsys):
    model = make_model(says=" I feel so sad")
    assert audit("run", *overrides(model, "run", "elicitation=generate", "elicitation.max_tokens=16")) == 0
    ratings = ratings_of(tmp_path / "run")
    assert set(ratings["status"]) == {"unparseable"}
    assert ratings["intensity"].isna().all()
    assert set(ratings["response"]) == {" I feel so sad"}
    assert manifest_of(tmp_path / "run")["counts"]["unparseable"] == N_PROMPTS
    gap = pd.read_csv(tmp_path / "run" / "tables" / "gap.csv")
    assert gap["delta"].isna().all()
    assert gap["delta_z"].isna().all()
    assert "answer:   faith: No verdict: there are no ratings.\n" in capsys.readouterr().out
    packed = (tmp_path / "run" / "report.html").read_text().split('id="explore-data">')[1].split("</script>")[0]
    assert b"I feel so sad" in gzip.decompress(base64.b64decode(packed))


def test_a_model_that_answers_one_number_for_all_has_a_gap_of_zero(make_model, audit, tmp_path):
    assert (
        audit("run", *overrides(make_model(says="85"), "run", "elicitation=generate", "elicitation.max_tokens=4")) == 0
    )
    ratings = ratings_of(tmp_path / "run")
    assert set(ratings["response"]) == {"85"}
    assert set(ratings["intensity"]) == {85}
    assert gap_of(tmp_path / "run", "contrast")["delta"] == 0
    assert np.isnan(gap_of(tmp_path / "run", "published", "")["delta_z"])


def test_prompts_that_are_too_long_have_failed_and_are_counted(tiny_model, audit, tmp_path):
    assert audit("run", *overrides(tiny_model, "run", "model.max_model_len=16")) == 0
    assert manifest_of(tmp_path / "run")["counts"] == {
        "rated": 0,
        "refused": 0,
        "unparseable": 0,
        "failed": 50,
        "total": 50,
    }


def test_variants_of_one_table_are_compared_and_a_formula_is_shown(tmp_path):
    """The second variant's gap is the first's less 4 in every narrative: a change of 4, without spread."""
    from audit.cli.main import main

    rows = ["perceiver,experiencer,narrative_id,rating,variant"]
    for variant, gap in (("plain", 10), ("warm", 6)):
        for narrative, level in enumerate((40, 50, 55, 61)):
            for perceiver, experiencer in itertools.product("AB", "AB"):
                rating = level + (gap + narrative) * (perceiver == experiencer)
                rows.append(f"{perceiver},{experiencer},n{narrative},{rating},{variant}")
    (tmp_path / "r.csv").write_text("\n".join(rows))
    (tmp_path / "g.csv").write_text("term,group\nA,a\nB,b\n")
    arguments = [f"ratings={tmp_path / 'r.csv'}", f"groups={tmp_path / 'g.csv'}", f"run_dir={tmp_path / 'out'}"]
    arguments += ["low=0", "high=100"]
    assert main(["report", *arguments, "statistics.formula=intensity ~ in_group", "statistics.fit=ols"]) == 0
    change = pd.read_csv(tmp_path / "out" / "tables" / "comparisons.csv").iloc[0]
    # Gaps 10 + 0, 1, 2, 3 on average 11.5, and 7.5.
    assert change[["delta_first", "delta_second", "delta_change"]].tolist() == pytest.approx([11.5, 7.5, 4])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Paired differences of δ between variants" in page
    assert page.count("terms of the formula in statistics.formula") >= 2
