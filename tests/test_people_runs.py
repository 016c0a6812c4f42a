"""People and a judge in whole runs: a form exported, files imported, and what the report then says."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest
from runs import as_stored

from audit.runs.store import RunFolder


@pytest.fixture(scope="session")
def judged(finished_model_run):
    """Folder of a finished run; not to be written to."""
    return finished_model_run("judged-replies")


@pytest.fixture
def finished(judged, audit, tmp_path):
    """Folder of a finished run, ``run`` in the folder that the test runs in."""
    return shutil.copytree(judged, tmp_path / "run")


def tables_of(run):
    return {path.stem: pd.read_csv(path) for path in (run / "tables").glob("*.csv")}


def test_a_judge_scores_each_reply_and_its_own_gap_stands_beside(finished):
    tables = tables_of(finished)
    assert {"judge_empathy_empathy", "judge_empathy_coherence"} <= set(tables["measures"]["measure"])
    effects = tables["judge_effects"]
    assert set(effects["experiencer"]) == {"a Buddhist", "a Christian", "a Hindu", "a Muslim"}
    # Of each measure they are about the mean of all.
    assert effects.groupby("outcome")["effect"].sum().abs().max() < 1e-9
    assert (tables["judge_gap"].query("estimator == 'contrast'")["n_narratives"] == 2).all()
    page = (finished / "report.html").read_text()
    assert "The judge&#39;s own gap" in page or "The judge's own gap" in page


def test_what_raters_saved_is_analysed_beside_the_measures(finished, audit, tmp_path, capsys):
    assert audit("people", "export", finished, "n=16", "seed=1") == 0
    assert f"send raters: {finished / 'people' / 'raters'}" in capsys.readouterr().out
    items = pd.read_csv(finished / "people" / "raters" / "items.csv")
    form = (finished / "people" / "raters" / "form.html").read_text()
    assert all(item in form for item in items["item_id"])
    assert "perceiver" not in items.columns
    questions = [name for name in items if name not in ("item_id", "person", "narrative", "reply")]
    for rater in ("anna", "ben"):
        given = items.assign(**{name: [1 + place % 5 for place in range(len(items))] for name in questions})
        given[["item_id", *questions]].to_csv(tmp_path / f"{rater}.csv", index=False)
    silent = tmp_path / "\x1b[31mcarl.csv"
    items[["item_id", *questions]].to_csv(silent, index=False)
    assert audit("people", "import", finished, tmp_path / "anna.csv", tmp_path / "ben.csv", silent) == 0
    told = capsys.readouterr()
    assert re.search(r"note: \d+ scores by 2 raters", told.err)
    assert "who are left out: \\x1b[31mcarl" in told.err
    assert "\x1b" not in told.err + told.out
    tables = tables_of(finished)
    agreement = tables["agreement"].set_index("question")
    assert set(agreement.index) == set(questions)
    assert agreement["alpha"].tolist() == pytest.approx([1.0] * len(questions))  # they agree on everything
    assert set(tables["human_correlations"]["measure"]) >= {"n_words", "judge_empathy_empathy"}
    gaps = tables["gap"]
    assert {f"people_{name}" for name in questions} <= set(gaps["outcome"])
    assert "What people say of these replies" in (finished / "report.html").read_text()
    with RunFolder(finished) as folder:
        assert folder.read_manifest().people.n_raters == 2
    # Another export would make the ratings those of other items.
    assert audit("people", "export", finished) == 2
    assert "move it away" in capsys.readouterr().err


def test_scores_of_other_replies_are_not_imported(judged, finished, audit, tmp_path, capsys):
    """A sheet whose columns were sorted apart, and the export of another run with the same prompts."""
    assert audit("people", "export", finished, "n=8", "seed=1") == 0
    raters = finished / "people" / "raters"
    items = pd.read_csv(raters / "items.csv")
    questions = [name for name in items if name not in ("item_id", "person", "narrative", "reply")]
    items = items.assign(**dict.fromkeys(questions, 3))
    items.assign(reply=items["reply"].sort_values().to_numpy()[::-1]).to_csv(tmp_path / "sorted.csv", index=False)
    assert audit("people", "import", finished, tmp_path / "sorted.csv") == 2
    assert re.search(r"sorted\.csv: .*line \d+: the reply is not that of item", capsys.readouterr().err)
    items.sample(frac=1, random_state=1).to_csv(tmp_path / "whole.csv", index=False)  # whole rows may move
    other = shutil.copytree(judged, tmp_path / "other")
    shutil.copytree(finished / "people", other / "people")
    assert audit("people", "import", other, tmp_path / "whole.csv") == 2
    assert "key.csv was not stored by this run" in capsys.readouterr().err
    assert audit("people", "import", finished, tmp_path / "whole.csv") == 0


def test_what_can_not_be_exported_or_imported_is_one_line(finished, audit, tmp_path, capsys):
    for arguments, said in (
        (("export",), "people export needs one run folder"),
        (("import", finished), "the raters' files"),
        (("send", finished), "people needs export or import, got send"),
        (("import", finished, "anna.csv"), "export the items first"),
        (("export", finished, "n=none"), "n=none: must be a whole number"),
        (("export", tmp_path), "is not a run folder"),
    ):
        capsys.readouterr()
        assert audit("people", *arguments) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert said in lines[0]
    manifest = json.loads((finished / "manifest.json").read_text())
    (finished / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
    as_stored(finished)
    assert audit("people", "export", finished) == 2
    assert "is not finished" in capsys.readouterr().err
