"""Run folders of earlier versions open for ever: they are read, reported and compared with the same numbers."""

import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from runs import leave_out_figures
from statsmodels.stats.multitest import multipletests

from audit.cli.main import main
from audit.comparing.tables import COMPARISON_TABLES, REPLY_COMPARISON_TABLES
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.run_of_ratings import TABLES
from audit.tables.run_of_replies import REPLY_TABLES

ARCHIVE = Path(__file__).parent / "old_runs" / "477f470.tar.xz"
SWEEP = [f"example-sweep/{name}" for name in ("origin", "persona-1", "scale-10")]
STRATEGIES = [f"example-strategies/{name}" for name in ("none", "two-stage", "perspective")]
EARLIER = {
    "example-17-columns": {
        "n_prompt_tokens": None, "n_dropped": None, "pruned_points": None, "wording": 0, "cut": None,
        "ends_points": None,
    },
    "example-20-columns": {"wording": 0, "cut": None, "ends_points": None},
    "example": {"cut": None, "ends_points": None},
}  # fmt: skip
"""What stands in the columns that a run's ratings lack."""


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A copy of the folders, which nothing changes."""
    place = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(place, filter="data")
    return place


@pytest.fixture
def again(tmp_path, monkeypatch):
    """A copy to work in, without figures, which are no numbers."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    leave_out_figures(monkeypatch)
    return tmp_path


GONE = {"missing_grid.csv", "wording_splits.csv", "null.csv", "published_cells.csv", "perceiver_map.csv"}
"""Tables that no run has any more, or replications alone."""


SPELT = {
    "can not": "cannot",
    r"audit\.texts\.replies": "audit.tasks.reply.reply_status",
    r"se is what δ would vary by if all prompts were asked (.+), by (\d+) that were": (
        r"se is the spread of δ if all prompts were asked \1, estimated from \2 that were"
    ),
}
"""What texts said until then: a spelling, the former name of a module, and a note."""


def still_made(table):
    """A table of an earlier version without the rows and columns that went since."""
    table = table.drop(columns=["perceiver_variance", "experiencer_variance"], errors="ignore")
    gone = {"estimator": ["mixed_crossed"], "check": ["mixed_crossed"], "measure": ["dist_1", "dist_2"]}
    for column, values in gone.items():
        if column in table:
            table = table.loc[~table[column].isin(values)]
    return table.reset_index(drop=True)


def corrected_over_fewer(gaps):
    """Correct p anew over the measures that are left, by statsmodels."""
    gaps = gaps.astype({"p_adjusted": float, "family_size": float})
    for _, own in gaps.loc[gaps["headline"] & (gaps["scope"] == "narratives")].groupby(["dimension", "variant"]):
        tested = own.loc[own["p"].notna()]
        gaps.loc[tested.index, "p_adjusted"] = multipletests(tested["p"], method="holm")[1]
        gaps.loc[own.index, "family_size"] = len(tested)
    return gaps


def assert_same_tables(made, expected):
    """Text is the same to the letter, but for a spelling; numbers to 1e-9, in which machines and libraries differ.

    Later versions may have more tables, more columns, and other names of either, with the former names beside them.
    What went since is in GONE.
    """
    names = sorted(path.name for path in expected.glob("*.csv"))
    assert names
    described = {table.name: table for table in (*TABLES.values(), *REPLY_TABLES.values())}
    if (expected / "runs.csv").exists():
        described = {**REPLY_COMPARISON_TABLES, **COMPARISON_TABLES}
    stems = {table.former_file: name for name, table in described.items() if table.former_file}
    for name in names:
        stem = Path(name).stem
        stem = stems.get(stem, stem)
        if not (made / f"{stem}.csv").exists():
            assert name in GONE or pd.read_csv(expected / name).empty, name
            continue
        former = described[stem].former
        ours, theirs = (still_made(pd.read_csv(path)) for path in (made / f"{stem}.csv", expected / name))
        if name in ("measure_gaps.csv", "measure_gap_all.csv"):
            theirs = corrected_over_fewer(theirs)
        assert set(theirs) <= set(ours), name
        for column in set(theirs) & set(former):
            pd.testing.assert_series_equal(ours[column], ours[former[column]], check_names=False)
        for column in theirs:
            if (name, column) == ("manipulation.csv", "passed"):  # compared with 0 then, and with 1 point of 100 now
                passed = np.where(ours["ci_low"] > 1, 1.0, np.where(ours["ci_high"] < 1, 0.0, np.nan))
                np.testing.assert_array_equal(ours["passed"].astype(float), passed)
            elif name == "manipulation.csv" and column in OF_RESPONSE:  # with a preference for pleasant words then
                assert ours[column].notna().equals(theirs[column].notna())
            elif (name, column) == ("comparisons.csv", "note"):  # which run has no verdict was not said then
                assert set(ours["code"]) == {"no_verdict"}
            elif pd.api.types.is_float_dtype(theirs[column]):
                np.testing.assert_allclose(ours[column], theirs[column], rtol=1e-7, atol=1e-9, err_msg=name)
            else:
                spelt = theirs[column].replace(SPELT, regex=True)
                pd.testing.assert_series_equal(ours[column], spelt)


OF_RESPONSE = {"mean_higher", "mean_lower", "difference", "se", "df", "ci_low", "ci_high", "p"}


@pytest.mark.parametrize("run", EARLIER)
def test_ratings_of_an_earlier_format_read_as_they_were_written(run, old):
    shards = sorted((old / run / "ratings").iterdir())
    written = pd.concat([pq.read_table(path).to_pandas() for path in shards], ignore_index=True)
    n_prompts = Manifest.read(old / run).n_prompts
    ratings = RunFolder(old / run).read_ratings(n_prompts=n_prompts)
    assert len(ratings) == len(written) == n_prompts
    for name, values in ratings.items():
        if name in EARLIER[run]:
            known = EARLIER[run][name]
            assert (values.isna() if known is None else values == known).all(), name
        else:
            assert values.astype(object).where(values.notna(), None).tolist() == (
                written[name].astype(object).where(written[name].notna(), None).tolist()
            ), name
    assert set(EARLIER[run]) == set(ratings) - set(written)


@pytest.mark.parametrize(
    "run", ["example", "example-17-columns", "example-20-columns", "example-replies", "example-strategies/two-stage"]
)
def test_a_run_of_an_earlier_version_is_reported_with_the_same_numbers(run, old, again):
    more = [] if run == "example-replies" else ["statistics.sensitivity=true"]
    assert main(["report", run, *more]) == 0
    assert_same_tables(again / run / "tables", old / run / "tables")
    if more:  # the mixed model with random identities has moved to another table
        before = pd.read_csv(old / run / "tables" / "gap.csv").query("estimator == 'mixed_crossed'")
        now = pd.read_csv(again / run / "tables" / "sensitivity.csv").query("check == 'mixed_crossed'")
        numbers = ["delta_points", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_ratings"]
        np.testing.assert_allclose(now[numbers].astype(float), before[numbers].astype(float), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("runs", [SWEEP, STRATEGIES], ids=["sweep", "strategies"])
def test_runs_of_earlier_versions_are_compared_with_the_same_numbers(runs, old, again):
    place = Path(runs[0]).parent / "comparison"
    assert main(["report", *runs, f"run_dir={place}"]) == 0
    assert_same_tables(again / place / "tables", old / place / "tables")
