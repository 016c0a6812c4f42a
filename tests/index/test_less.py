"""Who gets less, in the index: what the runs have stored, in the words of their pages, and of deployed runs no δ."""

import json
import math
import re
import shutil

import pandas as pd
import pytest
from indexed import changed, published, without_figures
from planted import Planted, grouped, ratings_of

from audit.extras.index.published import gap_rows_of_run, whole_row
from audit.extras.index.write import write_index
from audit.report.disparities import who_gets_less
from audit.report.numbers import rows_of
from audit.runs.csv_tables import read_table
from audit.tables.run_of_ratings import TABLES

pytestmark = pytest.mark.long

NAMES = ("Red", "Blue", "Green", "Tan <b>")
TERMS = {f"{word} {name}": name for name in NAMES for word in ("one", "an other")}
SAID = {"lower": "gap", "equal": "undecided", "small": "within", "within": "none", "deployed": "gap"}


def planted_runs() -> dict[str, Planted]:
    groups = grouped(TERMS).assign(stem=list(TERMS))

    def rated(by: float, n: int = 40, sd: float = 3.0, **settings: float) -> Planted:
        table = ratings_of(TERMS, n=n, level=lambda group: -by if group == "Red" else 0.0, sd=sd, seed=1)
        return Planted(table, groups, settings)

    lower = rated(20)
    nobody = pd.DataFrame({"term": ["no persona"], "group": ["unspecified"], "stem": [""]})
    alone = lower.ratings.loc[lower.ratings["perceiver"] == "one Blue"].assign(perceiver="no persona")
    return {
        "lower": lower, "equal": rated(0), "small": rated(3, 120, 1.0, margin=25), "within": rated(0, 120, margin=25),
        "deployed": Planted(alone, pd.concat([groups, nobody])),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        for name, case in planted_runs().items():
            published(place / name, case)
    return place


def row_of(run) -> dict:
    [row] = [whole_row(row) for row in gap_rows_of_run(run, run.name)]
    return row


@pytest.mark.parametrize("name", list(SAID))
def test_the_words_are_those_of_the_run_s_page(folder, name):
    row = row_of(folder / name)
    table = read_table(folder / name / "tables" / "disparity.csv", TABLES["disparity"])
    said = who_gets_less(rows_of(table, "disparity"), confidence=0.95)
    assert (row["less"], row["less_words"]) == (said.kind, str(said.words.striptags()))
    assert row["less"] == SAID[name]
    assert row["less_group"] == said.row["group"]
    numbers = [row[each] for each in ("disparity", "disparity_low", "disparity_high")]
    assert numbers == [said.row[each] for each in ("disparity", "ci_low", "ci_high")]


def test_a_run_without_perceivers_has_an_answer_and_no_verdict(folder):
    row = row_of(folder / "deployed")
    assert (row["verdict"], row["verdict_words"], row["control"]) == ("", "", "")
    assert row["less_words"].startswith("Red is rated lower than the others")
    assert row["disparity"] == pytest.approx(-20, abs=1.5)
    assert row["n_narratives"] == 40
    assert row["n_answers"] == 40 * len(TERMS)


def test_what_was_accepted_since_takes_the_answer_back(folder, tmp_path):
    run = shutil.copytree(folder / "lower", tmp_path / "lower")
    row = row_of(changed(run, accepted=["ratings/part-000000.parquet"]))
    assert row["less"] == "absent"
    assert row["less_words"].startswith("No verdict: ")


def test_a_run_that_an_earlier_version_analysed_says_so(folder, tmp_path):
    run = shutil.copytree(folder / "lower", tmp_path / "lower")
    (run / "tables" / "disparity.csv").unlink()
    dictionary = run / "tables" / "dictionary.csv"
    kept = [line for line in dictionary.read_text("utf-8").splitlines(True) if not line.startswith("disparity,")]
    dictionary.write_text("".join(kept), "utf-8")
    row = row_of(changed(run))
    assert (row["less"], row["less_words"]) == ("", "not known: an earlier version analysed this run")
    assert math.isnan(row["disparity"])
    assert row["verdict"] == "undecided"  # of δ it still has one


def test_the_page_counts_the_answers_and_escapes_names(folder):
    made = write_index(folder)
    page = made.page.read_text("utf-8")
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert (
        "Who gets less: a group gets less or more (2), a group gets less or more, by less than the margin (1), no "
        "group differs by the margin (1), undecided (1)." in text
    )
    verdicts = text.partition("Verdicts: ")[2].partition(".")[0]
    assert verdicts
    assert "no verdict" not in verdicts  # of the deployed run
    assert page.count('<td data-by="Red is rated lower than the others') == 3
    assert len(re.findall(r'class="words gap"><details><summary><bdi>Red</bdi> lower</summary>Red is rated', page)) == 2
    assert len(re.findall(r'class="words within"><details><summary><bdi>Red</bdi> lower, small</summary>', page)) == 1
    assert "Tan <b>" not in page
    rows = json.loads(made.page.with_suffix(".json").read_text("utf-8"))["rows"]
    assert {row["folder"]: row["less"] for row in rows} == SAID
    numbers = re.findall(r'data-at="index:(\d+):(disparity\w*)"', page)
    assert len(numbers) == 3 * len(SAID)
