"""Who gets less, on the page of a comparison: planted runs through the command line, and names that are not trusted."""

import html
import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from indexed import published, without_figures
from planted import Planted, grouped, ratings_of
from test_comparison_page import ATTACK, SVG, Page, row_of, tables_of, told_of

from audit import compare
from audit.comparing.base import ComparisonContent
from audit.comparing.comparison import compare_folders
from audit.comparing.paper_table import disparity_paper, paper_table
from audit.comparing.rating_page import rating_page
from audit.comparing.tables import COMPARISON_TABLES
from audit.report.disparities import who_gets_less
from audit.report.numbers import rows_of
from audit.report.results import Results
from audit.report.summary import WORDS_DIFFER
from audit.runs.csv_tables import read_table
from audit.tables.run_of_ratings import TABLES

pytestmark = pytest.mark.long

NAMES = ("Red", "Blue", "Green", "Tan")
TERMS = {f"{word} {name}": name for name in NAMES for word in ("one", "an other")}
NOBODY = "no persona"


def ratings(by: float, seed: int) -> pd.DataFrame:
    return ratings_of(TERMS, n=40, level=lambda group: -by if group == "Red" else 0.0, sd=3.0, seed=seed)


def groups() -> pd.DataFrame:
    return grouped(TERMS).assign(stem=list(TERMS))


def deployed(by: float, seed: int) -> Planted:
    """The same as rated without a persona."""
    table = ratings(by, seed)
    alone = table.loc[table["perceiver"] == "one Blue"].assign(perceiver=NOBODY)
    nobody = pd.DataFrame({"term": [NOBODY], "group": ["unspecified"], "stem": [""]})
    return Planted(alone, pd.concat([groups(), nobody]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs A, rating one group 20 points lower, and B, rating all alike; C and D are the same without a persona."""
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        place = tmp_path_factory.mktemp("runs")
        published(place / "A", Planted(ratings(20, 1), groups()), model="model A")
        published(place / "B", Planted(ratings(0, 2), groups()), model="model B")
        published(place / "C", deployed(20, 1), model="model C")
        published(place / "D", deployed(0, 2), model="model D")
        for names in ("AB", "CD", "AD"):
            made = [place / name for name in names]
            compare_folders(made, out=place / names, reports_dir=place, say=lambda line: None)
    return place


def text_of(path) -> str:
    page = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", re.sub(r"</?(?:data|bdi|strong)\b[^>]*>", "", page))
    return " ".join(html.unescape(text).replace("\N{NO-BREAK SPACE}", " ").split())


def test_the_first_screen_names_the_group_that_gets_less_in_one_run_with_its_size(folder):
    page = text_of(folder / "AB" / "comparison.html")
    assert re.search(
        r"identity: who gets less\? Red is rated lower, compared with the other groups, in model A than in model B "
        r"−(19|20)\.\d+ points 95% interval −\d+\.\d+ to −\d+\.\d+; corrected p < \.001; 40 narratives; "
        r"D −(19|20)\.\d+ and [+−]?0\.\d+",
        page,
    )
    # What each run says by itself.
    assert "Red is rated lower than the others, whoever speaks" in page
    assert "No group is shown to be rated lower or higher than the others" in page
    assert "identity: whose side? model A and model B are not shown to differ in their gap" in page
    # Groups that differ because one does are named nowhere before the tables.
    first = page[: page.index("Every group of every run")]
    for name in NAMES[1:]:
        assert f"{name}: D" not in first
        assert f"{name} is rated" not in first


def test_every_number_of_the_section_is_the_one_in_its_file(folder):
    place = folder / "AB"
    numbers = Page((place / "comparison.html").read_text("utf-8")).numbers
    of_groups = [each for each in numbers if each[0].split(":")[0] in ("disparity", "disparity_changes")]
    assert {each[0].split(":")[0] for each in of_groups} == {"disparity", "disparity_changes"}
    assert len(of_groups) > 60
    for at, value, _ in of_groups:
        name, line, column = at.split(":")
        written = pd.read_csv(place / "tables" / f"{name}.csv", dtype=str, keep_default_na=False)
        assert written[column][int(line)] == value, at


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_a_run_s_answers_are_those_of_its_own_page(folder, name):
    own = read_table(folder / name / "tables" / "disparity.csv", TABLES["disparity"])
    compared = read_table(
        folder / ("AB" if name in "AB" else "CD") / "tables" / "disparity.csv", COMPARISON_TABLES["disparity"]
    )
    compared = compared.loc[compared["run"] == f"model {name}"].reset_index(drop=True)
    columns = [column for column in COMPARISON_TABLES["disparity"] if column in own]
    first = own.loc[own["headline"].astype(bool)]
    first = first.loc[first["view"] == compared["view"].iloc[0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(compared[columns], first[columns], check_dtype=False)
    said = [who_gets_less(rows_of(table, "disparity"), confidence=0.95).words.striptags() for table in (own, compared)]
    assert said[0] == said[1]


def test_runs_without_perceivers_are_compared_by_who_gets_less_alone(folder):
    page = text_of(folder / "CD" / "comparison.html")
    assert "Who gets less: 2 runs side by side" in page
    assert "Each of 2 runs asked a model without giving it an identity, to read accounts" in page
    assert re.search(
        r"Red is rated lower, compared with the other groups, in model C than in model D −(19|20)\.\d+ points", page
    )
    for claim in ("verdict of", "δ: ", "Verdicts of", "no verdict", "to speak as one person", "Gaps between runs"):
        assert claim not in page
    assert not (folder / "CD" / "tables" / "comparisons.csv").exists()
    changes = pd.read_csv(folder / "CD" / "tables" / "disparity_changes.csv").set_index("group")
    assert changes.loc["Red", "code"] == "lower"


def test_a_run_without_perceivers_beside_one_with_them_is_not_said_to_lack_a_verdict(folder):
    page = text_of(folder / "AD" / "comparison.html")
    assert "to speak as one person, or gave it no identity, to read accounts" in page
    assert "anything from runs without a verdict" not in page
    assert "one is over all perceivers, the other is not: what differs may be that" in page


def test_the_command_says_who_gets_less_and_prints_no_gap_where_nobody_perceives(folder, audit, tmp_path, monkeypatch,
                                                                               capsys):  # fmt: skip
    without_figures(monkeypatch)
    assert audit("report", str(folder / "C"), str(folder / "D"), f"run_dir={tmp_path / 'out'}") == 0
    out, _ = capsys.readouterr()
    assert "own group" not in out
    [answer] = [line for line in out.splitlines() if line.startswith("answer:")]
    assert "Red is rated lower, compared with the other groups, in model C than in model D (−19.6 points" in answer


def test_in_python_a_comparison_has_who_gets_less(folder, tmp_path, monkeypatch):
    without_figures(monkeypatch)
    beside = compare(folder / "A", folder / "B", run_dir=tmp_path / "out")
    found = beside.disparity.set_index(["run", "group"])
    assert found.loc[("model A", "Red"), "code"] == "lower"
    assert found.loc[("model B", "Red"), "code"] == "not_shown"
    changes = beside.tables["disparity_changes"].set_index("group")
    assert changes.loc["Red", "disparity_change"] == pytest.approx(-20, abs=1)


def test_the_dictionary_and_the_manifest_are_whole(folder):
    dictionary = pd.read_csv(folder / "AB" / "tables" / "dictionary.csv")
    for name in ("disparity", "disparity_changes"):
        assert dictionary.loc[dictionary["table"] == name, "column"].tolist() == list(COMPARISON_TABLES[name])
    assert json.loads((folder / "AB" / "manifest.json").read_text())["settings"]["confidence"] == 0.95


def test_names_of_groups_and_runs_are_escaped():
    tables = tables_of(ATTACK)
    known = {
        "dimension": "religion", "variant": "origin", "outcome": "intensity", "unit": "points", "view": "all",
        "headline": True, "code": "lower", "claim": "words", "size": "", "limits": "one_term", "disparity": -20.0,
        "ci_low": -21.0, "ci_high": -19.0, "p": 0.001, "p_adjusted": 0.002, "family_size": 2, "note": ATTACK,
        "percent_of_scale": -20.0, "share_lower": 1.0, "n_narratives": 12,
    }  # fmt: skip
    rows = [row_of("disparity", **known, run=run, group=f"a {ATTACK}") for run in (ATTACK, "persona-1")]
    change = row_of(
        "disparity_changes", outcome="intensity", dimension="religion", group=f"a {ATTACK}", first=ATTACK,
        second="persona-1", code="lower", claim="words", limits="one_term", unit="points",
        disparity_first=-20.0, disparity_second=0.0,
        disparity_change=-20.0, ci_low=-21.0, ci_high=-19.0, p_adjusted=0.001, n_narratives=12, note=ATTACK,
    )  # fmt: skip
    tables["disparity"] = pd.DataFrame(rows)
    tables["disparity_changes"] = pd.DataFrame([change])
    told = told_of(tables)
    papers = {
        "table": paper_table(tables["gap"], told, confidence=0.95, verdicts=tables["verdicts"]),
        "tables/disparity": disparity_paper(tables["disparity"], told, confidence=0.95),
    }
    content = ComparisonContent(
        tables=tables, described=COMPARISON_TABLES, confidence=0.95, collected="ratings", remarks=(),
        left_out=(), papers=papers, command="python -m audit report A B", page=rating_page,
    )  # fmt: skip
    page = rating_page(replace(content), Results(tables, COMPARISON_TABLES, 0.95, {"gaps": SVG}))
    assert "<script>alert(1)" not in page
    text = Page(page).text
    assert f"a {ATTACK}" in text
    assert "in these words" in text
    assert WORDS_DIFFER in text
