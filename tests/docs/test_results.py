"""docs/results.md: its tables are those of the committed runs, and its sentences have no number that no table has."""

from __future__ import annotations

import re
import shutil

import pandas as pd
import pytest
from published import DOCUMENT, FOLDER, TABLES, runs_in, written

TEXT = DOCUMENT.read_text("utf-8")
BLOCK = re.compile(r"<!-- table \w+ -->.*?<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"[+−]?\d+\.\d+")


def test_the_tables_are_those_of_the_committed_runs():
    assert written(TEXT, FOLDER) == TEXT, "python benchmarks/published.py"
    assert set(re.findall(r"<!-- table (\w+) -->", TEXT)) == set(TABLES)


def test_no_sentence_has_a_number_that_no_table_has():
    there = NUMBER.findall(" ".join(BLOCK.findall(TEXT)))
    there += [each.lstrip("+−") for each in there]
    # The elicitations of the embedded model, which follow, are no run: benchmarks/elicitations.py asks them.
    prose = BLOCK.sub("", TEXT.partition("## Elicitations")[0])
    prose = re.sub(
        r"`[^`]*`|\]\([^)]*\)|^    .*$|[-\w.]*\d\.\dB|Qwen\d\.\d[-\w]*|vLLM \S+", "", prose, flags=re.MULTILINE
    )
    assert [each for each in NUMBER.findall(prose) if each not in there] == []


def test_a_number_that_changes_in_a_run_changes_in_the_document(tmp_path):
    left_out = shutil.ignore_patterns("figures", "*.html", "*.gz", "[!emr]*.parquet", "*.png")
    for name in (FOLDER.name, "example-wordings", "example-strategies"):
        shutil.copytree(FOLDER.parent / name, tmp_path / name, ignore=left_out)
    folder = tmp_path / FOLDER.name
    assert written(TEXT, folder) == TEXT
    path = runs_in(folder)[-1] / "tables" / "verdicts.csv"
    verdicts = pd.read_csv(path)
    verdicts.loc[0, "delta"] += 1
    verdicts.to_csv(path, index=False)
    assert written(TEXT, folder) != TEXT


@pytest.mark.parametrize("run", runs_in(FOLDER), ids=lambda run: run.name)
def test_a_run_that_is_published_is_complete(run):
    assert (run / "report.html").is_file()
    verdicts = pd.read_csv(run / "tables" / "verdicts.csv")
    assert {"race_ethnicity", "nationality", "religion"} <= set(verdicts["dimension"])
