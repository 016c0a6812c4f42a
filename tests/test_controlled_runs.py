"""Whole runs whose groups have two terms each, held against invented groups, by a model that repeats words."""

from __future__ import annotations

import pandas as pd
import pytest
from calibration import calibrate_run
from runs import command_fixture
from test_planted_strategy import GAP, SHRINKS, Scripted

from audit.runs.store import RunFolder

OF_ALL_PROMPTS = {"controls", "disparity"}
"""The tables that may name a set of invented groups."""


command = command_fixture("controlled", Scripted)


@pytest.fixture(scope="module")
def runs(command):
    """Two runs of four narratives, with and without a strategy, and their comparison: the folder of them all."""
    words = (
        "model.path=scripted", "elicitation=generate", "dimensions=[religion]", "stimuli.unspecified=false",
        "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=2", "stimuli.perceiver_terms=1",
        "stimuli.placebo=[invented_1]", "statistics.n_permutations=100", "statistics.formula='intensity ~ in_group'",
        "elicitation.noise_sample=0", "elicitation.manipulation=0", "run_dir=sweep",
        "stimuli.identities=geneva", "stimuli.pairs=all",
    )  # fmt: skip
    assert command("run", "-m", "strategy=none,two-stage", *words) == 0
    return command.folder / "sweep"


def tables_of(run):
    return {path.stem: pd.read_csv(path, dtype={"note": str}) for path in (run / "tables").glob("*.csv")}


def folder_of(runs, strategy):
    table = pd.read_csv(runs / "comparison" / "tables" / "runs.csv", keep_default_na=False)
    [folder] = table.loc[table["run"] == strategy, "folder"]
    return runs.parent / folder


@pytest.mark.parametrize("strategy", ["none", "two-stage"])
def test_invented_groups_are_asked_and_are_in_the_tables_of_controls_and_disparities_alone(runs, strategy):
    run = folder_of(runs, strategy)
    with RunFolder(run) as folder:
        manifest = folder.read_manifest()
        ratings = folder.read_ratings(n_prompts=manifest.n_prompts)
    # 4 perceivers x 4 groups of 2 terms, and 4 x 4 invented ones, in each of 4 narratives
    assert ratings["dimension"].value_counts().to_dict() == {"religion": 32 * 4, "invented_1": 16 * 4}
    tables = tables_of(run)
    named = {name for name, table in tables.items() if table.astype(str).isin(["invented_1"]).to_numpy().any()}
    assert named <= OF_ALL_PROMPTS
    shown = {
        term
        for name, table in tables.items()
        if name not in OF_ALL_PROMPTS
        for term in table.astype(str).to_numpy().flat
    }
    assert not shown & set(ratings.loc[ratings["dimension"] == "invented_1", "perceiver"])
    controls = tables["controls"].set_index("control")
    assert set(controls["dimension"]) == {"religion"}
    assert controls.loc["placebo", "levels"] == 1
    if strategy != "none":
        assert set(tables["stage_texts"]["dimension"]) == {"religion"}
    assert set(tables["own_model"]["dimension"]) == {"religion"}


def test_a_model_that_raises_its_own_words_has_an_echo_and_no_gap(runs):
    for strategy, echo in (("none", GAP), ("two-stage", GAP - SHRINKS)):
        tables = tables_of(folder_of(runs, strategy))
        controls = tables["controls"].set_index("control")
        assert controls.loc["echo", "ci_low"] < echo < controls.loc["echo", "ci_high"]
        assert controls.loc["echo_free", "ci_low"] < 0 < controls.loc["echo_free", "ci_high"]
        assert controls.loc["same_words", "ci_low"] < echo < controls.loc["same_words", "ci_high"]
        gap = tables["gap"]
        [headline] = gap.loc[gap["headline"] & (gap["scope"] == "narratives"), "delta"]
        assert headline == pytest.approx(controls.loc["echo_free", "delta"])


def test_the_comparison_has_the_gap_of_each_run_s_own_report(runs):
    compared = tables_of(runs / "comparison")
    gap = compared["gap"].query("scope == 'narratives'").set_index("run")
    assert set(compared["gap"]["dimension"]) == {"religion"}
    assert set(compared["strategies"]["dimension"]) == {"religion"}
    for strategy in ("none", "two-stage"):
        own = tables_of(folder_of(runs, strategy))["gap"]
        [headline] = own.loc[own["headline"] & (own["scope"] == "narratives"), "delta"]
        assert gap.loc[strategy, "delta"] == pytest.approx(headline)


def test_invented_groups_are_not_calibrated(runs):
    run = folder_of(runs, "none")
    table = calibrate_run(run, n_datasets=2, out=run.parent / "calibration.csv")
    assert set(table["dimension"]) == {"religion"}
