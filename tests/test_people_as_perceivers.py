"""People as perceivers in whole runs: lists exported, forms filled in by script, and what the report then says."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from audit.runs.store import RunFolder
from audit.tables.people import RATERS

GROUPS = ("Buddhist", "Christian", "Hindu", "Muslim")


@pytest.fixture(scope="module")
def rated(audit_in, number_model, tmp_path_factory):
    """Folder of a finished run of ratings; not to be written to."""
    folder = tmp_path_factory.mktemp("rated")
    groups = "".join(f"    {group}: [a {group}]\n" for group in GROUPS)
    (folder / "own.yaml").write_text(f"faith:\n  groups:\n{groups}")
    overrides = [
        "engine=transformers", "engine.device=cpu", f"model.path={number_model}", "model.name=tiny",
        "model.dtype=float32", "stimuli.own_identities=own.yaml", "dimensions=[faith]", "stimuli.unspecified=false",
        "stimuli.placebo=0", "stimuli.situations_per_emotion=4", "elicitation=expected",
        "stimuli.emotions=[happy,sad,scared,anxious,tense,amused]", "statistics.n_permutations=200", "run_dir=run",
    ]  # fmt: skip
    assert audit_in(folder, "run", *overrides) == 0
    return folder / "run"


@pytest.fixture
def finished(rated, audit, tmp_path):
    """Folder of a finished run, ``run`` in the folder that the test runs in."""
    shutil.copy(rated.parent / "own.yaml", tmp_path)
    return shutil.copytree(rated, tmp_path / "run")


def tables_of(run):
    return {path.stem: pd.read_csv(path) for path in (run / "tables").glob("*.csv")}


def fill(run, folder, *, gap, n_raters=12, seed=0):
    """Fill in the spreadsheets as raters whose δ is ``gap``: rater SD 10, residual SD 8. Return the files."""
    rng = np.random.default_rng(seed)
    key = pd.read_csv(run / "people" / "key.csv", dtype=str, keep_default_na=False).set_index("item_id")
    lists = sorted((run / "people" / "raters").glob("*.csv"))
    told = {name: rng.normal(0, 9) for name in sorted(set(key["narrative_id"]))}
    tells = {name: rng.normal(0, 4) for name in sorted(set(key["experiencer"]))}
    paths = []
    for who in range(n_raters):
        own, level = GROUPS[who % 4], rng.normal(0, 10)
        table = pd.read_csv(lists[who // 4 % len(lists)], dtype=str, keep_default_na=False)
        rows = key.loc[table["item_id"]]
        mean = 50 + level + rows["narrative_id"].map(told) + rows["experiencer"].map(tells)
        value = mean + gap * (rows["experiencer_group"] == own) + rng.normal(0, 8, len(rows))
        given = table.assign(intensity=value.clip(0, 100).round().astype(int).to_numpy(), about_1=own)
        paths.append(folder / f"rater{who}.csv")
        given.to_csv(paths[-1], index=False)
    return paths


def test_a_gap_that_raters_were_given_is_found_and_none_is_not(finished, audit, tmp_path, capsys):
    assert audit("people", "export", finished, "seed=3") == 0
    told = capsys.readouterr()
    assert f"send raters: {finished / 'people' / 'raters'}" in told.out
    assert "4 lists of the same 24 narratives" in told.err
    forms = sorted((finished / "people" / "raters").glob("*.html"))
    assert [form.name for form in forms] == [f"list-{k}.html" for k in range(1, 5)]
    assert audit("people", "import", finished, *fill(finished, tmp_path, gap=6.0)) == 0
    row = tables_of(finished)["people_gap"].iloc[0]
    assert 0 < row["ci_low"] < 6 < row["ci_high"]
    assert row[["n_raters", "n_groups", "n_narratives", "n_ratings"]].to_list() == [12, 4, 24, 288]
    # The model's own δ of all its narratives is that of the headline: the same narratives, groups and estimator.
    headline = tables_of(finished)["gap"].query("estimator == 'contrast' and scope == 'narratives'").iloc[0]
    assert row["model_delta"] == pytest.approx(headline["delta"])
    assert row["model_ci_low"] == pytest.approx(headline["ci_low"])
    agreement = tables_of(finished)["people_agreement"]
    assert agreement["n"].to_list() == [24, 4, 4, 4, 4, 4, 4]
    page = (finished / "report.html").read_text()
    assert "People beside the model" in page
    assert "no standard for the model" in page
    with RunFolder(finished) as folder:
        assert folder.read_manifest().people.n_raters == 12
        assert set(folder.table(RATERS).frame()["group"]) == set(GROUPS)
    # Another import takes the first one's place: raters without a gap of their own.
    assert audit("people", "import", finished, *fill(finished, tmp_path, gap=0.0)) == 0
    row = tables_of(finished)["people_gap"].iloc[0]
    assert row["ci_low"] < 0 < row["ci_high"]
    assert audit("people", "export", finished) == 2
    assert "move it away" in capsys.readouterr().err


def test_what_raters_sent_that_can_not_be_used_is_one_line(finished, audit, tmp_path, capsys):
    assert audit("people", "export", finished) == 0
    paths = fill(finished, tmp_path, gap=0.0)
    good = pd.read_csv(paths[0], dtype=str, keep_default_na=False)
    other = pd.read_csv(paths[4], dtype=str, keep_default_na=False)  # of another list
    twice = pd.concat([good.iloc[:1].assign(intensity="0"), good.assign(intensity="1")])
    for table, said in (
        (good.assign(intensity="101"), "intensity '101' is not a whole number from 0 to 100"),
        (good.assign(intensity="12.5"), "intensity '12.5' is not a whole number"),
        (good.assign(item_id="bbbbbbbbbb"), "none of its items is in the key"),
        (good.assign(about_1="Jedi"), "about_1 'Jedi' is not one of its answers"),
        (good.assign(about_1=["Hindu", *["Muslim"] * 23]), "gives 'Muslim' for about_1, and 'Hindu' on"),
        (twice, "1 for intensity, and 0 on"),
        (pd.concat([good, other]), "has items of list-1 and of list-2"),
        (good.drop(columns="about_1"), "no column 'about_1'"),
        (good.assign(intensity=""), "no score is in the files given"),
    ):
        table.to_csv(tmp_path / "bad.csv", index=False)
        capsys.readouterr()
        assert audit("people", "import", finished, tmp_path / "bad.csv") == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert said in lines[0]


def test_raters_without_a_group_are_left_out_and_counted(finished, audit, tmp_path, capsys):
    assert audit("people", "export", finished, "n=8", "lists=2") == 0
    assert "4 lists are needed" in capsys.readouterr().err
    paths = fill(finished, tmp_path, gap=0.0)
    for path, said in zip(paths[:3], ("none of these", "prefer not to say", ""), strict=True):
        pd.read_csv(path, dtype=str).assign(about_1=said).to_csv(path, index=False)
    assert audit("people", "import", finished, *paths) == 0
    assert "1 rater left out faith" in capsys.readouterr().err
    row = tables_of(finished)["people_gap"].iloc[0]
    assert row[["n_raters", "n_excluded", "n_ratings", "n_ratings_excluded"]].to_list() == [9, 3, 72, 24]


def test_a_norming_form_is_filled_in_beside_and_flags_what_readers_do_not_take_as_meant(finished, audit, tmp_path):
    assert audit("people", "export", finished, "form=norming") == 0
    table = pd.read_csv(finished / "norming" / "raters" / "list-1.csv", dtype=str, keep_default_na=False)
    assert list(table) == ["item_id", "narrative", "felt", "intensity", "plausibility"]
    form = (finished / "norming" / "raters" / "list-1.html").read_text()
    assert not any(word in form for word in (*GROUPS, "about-0"))
    key = pd.read_csv(finished / "norming" / "key.csv", dtype=str).set_index("item_id")
    study = json.loads((finished / "norming" / "study.json").read_text())
    nouns = {
        "happy": "happiness", "sad": "sadness", "scared": "fear", "anxious": "anxiety", "tense": "tension",
        "amused": "amusement",
    }  # fmt: skip
    assert set(study["emotions"]) == set(nouns)
    designed = key.loc[table["item_id"], "emotion"].map(nouns).to_numpy()
    ids = key.loc[table["item_id"], "narrative_id"].to_numpy()
    paths = []
    for reader in range(6):
        given = table.assign(felt=designed, intensity="80", plausibility="6")
        given.loc[0, "felt"] = "fear" if designed[0] != "fear" else "sadness"  # by all six
        given.loc[1, "intensity"] = str(20 + reader)
        given.loc[2, "plausibility"] = "3"
        given.loc[3, ["felt", "intensity", "plausibility"]] = (
            "" if reader < 2 else given.loc[3, ["felt", "intensity", "plausibility"]]
        )
        given.loc[4, "felt"] = designed[4] if reader < 3 else "happiness" if designed[4] != "happiness" else "fear"
        paths.append(tmp_path / f"reader{reader}.csv")
        given.to_csv(paths[-1], index=False)
    assert audit("people", "import", finished, *paths, "form=norming") == 0
    norms = pd.read_csv(finished / "tables" / "norming.csv", keep_default_na=False).set_index("narrative_id")
    assert len(norms) == 24
    assert norms.loc[ids[:5], "flags"].to_list() == ["emotion", "intensity", "plausibility", "few readers", ""]
    assert norms.loc[ids[5:], "flags"].eq("").all()
    assert norms.loc[ids[4], "share_designed"] == "0.5" or float(norms.loc[ids[4], "share_designed"]) == 0.5
    assert float(norms.loc[ids[1], "mean_intensity"]) == 22.5
    assert float(norms.loc[ids[1], "sd_intensity"]) == pytest.approx(3.5**0.5)  # of 20 to 25
    assert int(norms.loc[ids[3], "n"]) == 4
    page = (finished / "report.html").read_text()
    assert "24 narratives were read, 4 are flagged" in page
    assert "δ of people and of the model" not in page


def test_options_that_the_form_does_not_have_are_refused(finished, audit, tmp_path, capsys):
    for arguments, said in (
        (("export", finished, "form=replies"), "form=replies: this run needs form=intensity or form=norming"),
        (("export", finished, "questions=q.yaml"), "questions: form=intensity does not take this option"),
        (("export", finished, "lists=9"), "lists=9: the run has 4 different lists; give"),
        (("export", finished, "form=norming", "n=0"), "n=0: must be a whole number of at least 1"),
        (("import", finished, "anna.csv", "form=norming"), "form=norming"),
        (("export", finished, "introduction=none.txt"), "none.txt"),
    ):
        capsys.readouterr()
        assert audit("people", *arguments) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert said in lines[0]
