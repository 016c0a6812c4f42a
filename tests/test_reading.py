"""A published table is read as it was written: every table of the committed runs, and what a parser could change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted import alone, grouped, ratings_of
from runs import outside_run

import audit
from audit.comparing.tables import COMPARISON_TABLES, REPLY_COMPARISON_TABLES
from audit.extras.exchange.base import Collected
from audit.runs.manifest import ComparisonManifest, Manifest
from audit.tables.gap import GAP
from audit.tables.ratings import MANIPULATION
from audit.tables.reading import read_table
from audit.tables.run_of_ratings import TABLES
from audit.tasks.registry import task_of

REPORTS = Path(__file__).parents[1] / "reports"


@pytest.mark.parametrize(
    "path", [*REPORTS.rglob("tables/*.csv")], ids=lambda path: path.relative_to(REPORTS).as_posix()
)
def test_a_table_that_is_read_is_written_as_the_same_bytes(path):
    """The oracle is the file: numbers that lost their last digit, or texts that became numbers, write other bytes."""
    tables = _tables_of(path.parents[1])
    table = {**tables, **{each.former_file: each for each in tables.values()}}.get(path.stem)
    read, former = read_table(path, table), {} if table is None else table.former
    header = pd.read_csv(path, nrows=0).columns
    read = pd.DataFrame({name: read[former.get(name, name)] for name in header})
    assert read.to_csv(index=False).encode("utf-8") == path.read_bytes() or _with_counts(read) == path.read_bytes()


@pytest.mark.parametrize(
    "path", [*REPORTS.rglob("tables/*.csv")], ids=lambda path: path.relative_to(REPORTS).as_posix()
)
def test_a_table_that_is_written_has_a_row(path):
    assert len(pd.read_csv(path))


def test_a_table_without_rows_has_no_file_and_is_read_as_an_empty_one(tmp_path):
    groups = alone(3)
    run = outside_run(tmp_path, ratings_of(groups, n=6), grouped(groups))
    tables = audit.open_run(run).tables
    without = [name for name in TABLES if not (run / "tables" / f"{name}.csv").exists()]
    assert {"own_model", "wordings", "human"} <= set(without) < set(tables)
    for name in without:
        assert tables[name].empty
        assert list(tables[name]) == list(TABLES[name])
    assert {*TABLES} <= set(tables["dictionary"]["table"])
    collected = Collected.read(run, unfinished=False, texts=False)
    assert collected.statistics("own_model").empty
    # A table that had rows, and is gone, is no empty table.
    (run / "tables" / "gap.csv").unlink()
    assert "gap" not in audit.open_run(run).tables
    with pytest.raises(audit.AuditError, match=r"has no tables/gap\.csv; to make it"):
        collected.statistics("gap")
    assert {each.name for each in audit.open_run(run).verify()} == {"tables/gap.csv"}


def test_rows_that_the_answers_do_not_give_are_found(tmp_path):
    groups = alone(3)
    run = outside_run(tmp_path, ratings_of(groups, n=6), grouped(groups))
    (run / "tables" / "human.csv").write_text("dimension,variant\nreligion,origin\n")
    (run / "tables" / "wordings.csv").write_text("dimension,variant\n")  # as earlier versions wrote them
    faults = {(each.name, each.what) for each in audit.open_run(run).verify()}
    assert ("tables/human.csv", "has rows, but the answers give none") in faults
    assert ("tables/wordings.csv", "has rows, but the answers give none") not in faults


def _tables_of(folder):
    if ComparisonManifest.read_if_there(folder) is None:
        return task_of(Manifest.read(folder)).described
    return REPLY_COMPARISON_TABLES if (folder / "tables" / "measure_changes.csv").exists() else COMPARISON_TABLES


def _with_counts(read):
    """Counts of which one is missing are read as 3.0 and may have been written as 3."""
    whole = {
        name: values.astype("Int64")
        for name, values in read.select_dtypes("float64").items()
        if values.isna().any() and (values.dropna() % 1 == 0).all()
    }
    return read.assign(**whole).to_csv(index=False).encode("utf-8")


def row(**values):
    """A row of the table of gaps."""
    table = pd.DataFrame([{name: np.nan for name in GAP} | {"headline": True} | values])
    texts = [name for name, column in GAP.items() if column.type.plain == "text"]
    return table.assign(**{name: table[name].astype(object).where(table[name].notna(), "") for name in texts})


def written(path, table, described=GAP):
    path.write_bytes(described.csv(table))
    return read_table(path, described)


@pytest.mark.parametrize("number", [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -(2**0.5), 8.98846567431158e307])
def test_a_number_is_the_same_to_the_last_bit(number, tmp_path):
    assert written(tmp_path / "gap.csv", row(delta=number))["delta"].tolist() == [number]


@pytest.mark.parametrize("name", ["NA", "nan", "None", "null", "", "007", "1e3", "True", "=cmd()", "'=x"])
def test_a_text_is_that_text_whatever_it_looks_like(name, tmp_path):
    read = written(tmp_path / "gap.csv", row(dimension=name, note=name))
    assert (read["dimension"].tolist(), read["note"].tolist()) == ([name], [name])


def test_what_is_missing_is_missing_and_counts_and_flags_are_what_they_were(tmp_path):
    read = written(tmp_path / "gap.csv", pd.concat([row(n_answers=7), row(n_answers=8, headline=False)]))
    assert read["delta"].isna().all()
    assert (read["n_answers"].dtype, read["headline"].dtype) == (np.int64, bool)
    passed = pd.DataFrame([{name: np.nan for name in MANIPULATION} | {"passed": each} for each in (True, None)])
    texts = {name: "" for name, column in MANIPULATION.items() if column.type.plain == "text"}
    read = written(tmp_path / "manipulation.csv", passed.assign(**texts), MANIPULATION)
    assert read["passed"].tolist()[0] is True
    assert pd.isna(read["passed"].tolist()[1])


@pytest.mark.long
def test_a_dimension_that_a_parser_takes_for_nothing_keeps_its_name(tmp_path):
    """ "NA" is Namibia's code, and "007" no number."""
    names, groups = ("NA", "007"), alone(3)
    ratings = pd.concat([ratings_of(groups, n=6).assign(dimension=name) for name in names])
    run = outside_run(tmp_path, ratings, pd.concat([grouped(groups).assign(dimension=name) for name in names]))
    assert audit.open_run(run).headline["dimension"].tolist()[:2] == [*names]
    told = Collected.read(run, unfinished=False, texts=False).statistics("gap")
    assert set(told["dimension"]) == {*names, "all"}
