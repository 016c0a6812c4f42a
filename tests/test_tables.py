"""Tables are described once: what holds for all of them, and what is checked when one is written."""

import csv
import importlib
import io
import pkgutil
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import audit.comparing.tables
import audit.tables
from audit.runs.csv_tables import read_table
from audit.tables.base import Column, Table, Type, count, dictionary, flag, number, points, text, whole, word
from audit.tables.ratings import ASKED_IN_FORMATS

COMMITTED = sorted((Path(__file__).parents[1] / "reports").rglob("dictionary.csv"))
MODULES = [importlib.import_module(f"audit.tables.{each.name}") for each in pkgutil.iter_modules(audit.tables.__path__)]
ALL = {
    f"{module.__name__.split('.')[-1]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Table)
}
EXAMPLE = Table(
    "example",
    "an example",
    {
        "name": word("who it is"),
        "said": text("what was said"),
        "right": flag("whether it is"),
        "n": count("how many"),
        "mean": points("how much"),
    },
)
ROWS = {"name": ["a", "b"], "said": ["", "x"], "right": [True, False], "n": [1, 2], "mean": [0.5, np.nan]}


@pytest.mark.parametrize("name", ALL)
def test_every_column_says_what_it_is(name):
    for column, described in ALL[name].items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column)
        assert len(described.meaning) > 5
        numeric = described.type not in (Type.WORD, Type.TEXT, Type.FLAG)
        assert numeric or not described.unit, column
        assert described.type != Type.FLOAT or "in points" not in described.meaning or described.unit, column


@pytest.mark.parametrize("name", [name for name, table in ALL.items() if table.stored])
def test_a_stored_table_has_a_first_version_and_no_gap_between_versions(name):
    since = {column.since for column in ALL[name].values()}
    assert since == set(range(1, ALL[name].version + 1))


def test_the_dictionary_has_a_row_for_each_column():
    described = pd.read_csv(io.BytesIO(dictionary([EXAMPLE])), keep_default_na=False)
    assert described.to_dict("list") == {
        "table": ["example"] * 5,
        "column": ["name", "said", "right", "n", "mean"],
        "description": ["who it is", "what was said", "whether it is", "how many", "how much"],
        "type": ["text", "text", "true or false", "whole number", "number"],
        "unit": ["", "", "", "count", "points"],
    }


def test_the_dictionaries_of_committed_runs_are_todays():
    """Else their verification fails: draw the page of a run that differs again."""
    today = {
        (row["table"], row["column"], row["description"])
        for table in (*ALL.values(), *ASKED_IN_FORMATS.values(), *vars(audit.comparing.tables).values())
        if isinstance(table, Table)
        for row in csv.DictReader(io.StringIO(dictionary([table]).decode()))
    }
    assert len(COMMITTED) > 10
    for path in COMMITTED:
        with path.open(newline="") as file:
            old = [row for row in csv.DictReader(file) if tuple(row.values())[:3] not in today]
        assert not old, path


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"name": pd.Categorical(["a", None])},
        {"said": [np.nan, np.nan], "mean": [1, 2]},
        {"right": pd.array([True, None], dtype="boolean"), "n": pd.array([1, None], dtype="Int8")},
        {"right": [None, True], "n": [1.0, np.nan]},
        {
            "right": [np.bool_(True), np.nan],
            "n": pd.Series([1, np.nan], dtype=object),
            "mean": pd.Series([1, 0.5], dtype=object),
        },
    ],
    ids=["plain", "categories", "missing", "nullable", "floats", "objects"],
)
def test_a_table_of_the_right_types_is_written(change):
    table = pd.DataFrame(ROWS | change)
    assert EXAMPLE.csv(table) == table.to_csv(index=False).encode()
    assert EXAMPLE.csv(table.iloc[:0].astype(object)) == b"name,said,right,n,mean\n"


@pytest.mark.parametrize(
    ("column", "values", "held"),
    [
        ("name", [1, 2], "1"),
        ("said", [b"x", b"y"], "b'x'"),
        ("right", [1, 0], "1"),
        ("n", [1.5, 2.0], "1.5"),
        ("n", [True, False], "True"),
        ("mean", ["0.5", "1"], "'0.5'"),
    ],
)
def test_a_value_of_another_type_is_named(column, values, held):
    with pytest.raises(ValueError, match=f"the column {column} of the table example must have .*, but has .*{held}"):
        EXAMPLE.check(pd.DataFrame(ROWS | {column: values}))


def test_a_table_with_other_columns_is_named():
    table = pd.DataFrame(ROWS)
    with pytest.raises(ValueError, match="does not have the right columns: n, sd"):
        EXAMPLE.check(table.rename(columns={"n": "sd"}))
    with pytest.raises(ValueError, match="does not have the right columns: their order"):
        EXAMPLE.check(table[list(table)[::-1]])


def test_columns_are_composed():
    assert list(EXAMPLE.pick("mean", "n")) == ["mean", "n"]
    assert list(EXAMPLE.without("said", "n")) == ["name", "right", "mean"]
    column = number("a gap", "points", since=2, before=0)
    assert column.adding("; more") == Column("a gap; more", Type.FLOAT, "points", 2, 0)
    assert column.reworded("gap", "sum").meaning == "a sum"
    assert Table("t", "r", {"a": whole("a place"), "b": column}).version == 2


def test_a_renamed_column_is_written_under_both_names_and_read_under_the_new_one(tmp_path):
    table = Table("gap", "a gap", {"outcome": text("of what", before="intensity"), "delta": points("the gap")},
                  former={"delta_points": "delta"}, former_file="gaps")  # fmt: skip
    rows = pd.DataFrame({"outcome": ["n_words"], "delta": [1.5]})
    path = tmp_path / "gap.csv"
    path.write_bytes(table.csv(rows))
    assert path.read_text() == "outcome,delta,delta_points\nn_words,1.5,1.5\n"
    pd.testing.assert_frame_equal(read_table(path, table), rows)
    described = pd.read_csv(io.BytesIO(dictionary([table]))).set_index("column")
    assert described.loc["delta_points", "description"] == "former name of delta; gone in the next version"
    assert described.loc["delta_points", "unit"] == "points"


def test_a_table_of_an_earlier_version_is_read_under_the_names_of_today(tmp_path):
    table = Table("gap", "a gap", {"outcome": text("of what", before="intensity"), "delta": points("the gap")},
                  former={"delta_points": "delta", "measure": "outcome"}, former_file="gaps")  # fmt: skip
    assert table.place(tmp_path) == tmp_path / "gap.csv"
    (tmp_path / "gaps.csv").write_text("measure,delta_points\nn_words,1.5\n")
    found = read_table(table.place(tmp_path), table)
    assert found.to_dict("records") == [{"outcome": "n_words", "delta": 1.5}]
    (tmp_path / "gap.csv").write_text("delta_points\n2.5\n")  # of ratings, when no outcome was named
    found = read_table(table.place(tmp_path), table)
    assert found.to_dict("records") == [{"delta": 2.5, "outcome": "intensity"}]


def test_a_table_without_rows_has_numbers_and_one_without_a_header_is_none(tmp_path):
    table = Table("gap", "a gap", {"outcome": text("of what"), "delta": points("the gap")})
    path = tmp_path / "gap.csv"
    path.write_text("outcome,delta\n" + "x" * 200_000 + ",1\n")
    before = csv.field_size_limit()
    assert len(read_table(path, table)["outcome"][0]) == 200_000
    assert csv.field_size_limit() == before, "users' files are held to it"
    path.write_text("outcome,delta\n")
    assert [str(each) for each in read_table(path, table).dtypes] == ["str", "int64"]
    for content, why in (
        (b"", "the file is empty"),
        (b"\r\n", "the file is empty"),
        (b"outcome,delta\nx,1\ny\n", "the 2 cells"),
        (b"outcome,outcome\nx,1\n", "the same name"),
        (b'outcome,delta\n"x,1\n', "unexpected end of data"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=why):
            read_table(path, table)
