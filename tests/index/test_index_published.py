"""What the index says of a run, against the run's own page, and what is said of one that cannot be shown."""

from __future__ import annotations

import html
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import planted
import pytest
from gated import two_terms
from indexed import changed, published, without_figures
from runs import as_stored, read_exactly

from audit.errors import StoreError
from audit.extras.index.published import gap_rows_of_run, whole_row
from audit.report.sentences import LIMITS, OF_METHOD
from audit.runs.store import RunFolder
from audit.tables.ratings import MANIPULATED
from audit.tasks.pipeline import report_run

pytestmark = pytest.mark.long

CHECKS = ("manipulation", "manipulation_not_shown", "intensity_not_followed")
REPORTS = Path(__file__).parents[2] / "reports"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a published run of each planted case, by name."""
    folder = tmp_path_factory.mktemp("runs")
    cases = {name: case() for name, case in planted.CASES.items()}
    cases["gap"] = two_terms(n=40, gap=lambda emotion, group: 6.0)
    cases["none"] = replace(two_terms(n=120), settings={"margin": 4})
    cases["silent"] = _without_one(planted.alike())
    cases["at-the-end"] = _at_the_end(planted.alike())
    cases["incomplete"] = _with_holes(planted.alike())
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        return {name: published(folder / name, case) for name, case in cases.items()}


def _without_one(case):
    gone = case.ratings["experiencer"] == "a term 00"
    return planted.Planted(planted.refused(case.ratings, gone), case.groups, case.settings)


def _at_the_end(case):
    return planted.Planted(case.ratings.assign(rating=(case.ratings["rating"] * 2.0).clip(0, 100)), case.groups, {})


def _with_holes(case):
    gone = pd.Series(np.arange(len(case.ratings)) % 41 == 0)
    return planted.Planted(planted.refused(case.ratings, gone), case.groups, case.settings)


def words(text):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def screen(page):
    """Return of each card of a page that is of a gap its kind and its verdict, and the titles of the banner.

    tests/index/test_less.py has the cards on who gets less.
    """
    cards = re.findall(r'<div class="finding ?(\w*)">\s*<h3>(.*?)</h3>\s*<p class="verdict">(.*?)</p>', page, re.S)
    own = [(kind, words(verdict)) for kind, title, verdict in cards
           if "refusals" not in title and "who gets less?" not in title]  # fmt: skip
    banner = re.search(r'<details class="banner".*?</details>', page, re.S)
    titles = re.findall(r"<li><strong>(.*?)</strong>", banner[0], re.S) if banner else []
    return own, {words(title) for title in titles}


def index_of(run):
    return [whole_row(row) for row in gap_rows_of_run(run, run.name)]


CASES = [*planted.CASES, "gap", "none", "silent", "at-the-end", "incomplete"]


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_the_one_of_the_run_s_own_page(runs, name):
    """The oracle is the page, which knows the remarks of the analysis; the index has the tables alone."""
    rows = index_of(runs[name])
    own, limits = screen((runs[name] / "report.html").read_text("utf-8"))
    assert [(row["verdict"], row["verdict_words"]) for row in rows] == own
    assert {title for row in rows for title in filter(None, row["limits"].split("; "))} == limits & {
        title for title, _ in LIMITS.values()
    }


def test_the_cases_reach_all_kinds_of_verdict_and_most_limits(runs):
    """Without which the test above would say little."""
    rows = [row for name in CASES for row in index_of(runs[name])]
    assert {row["verdict"] for row in rows} >= {"gap", "none", "average", "undecided", "absent"}
    named = {title for row in rows for title in row["limits"].split("; ")}
    codes = {code for code, (title, _) in LIMITS.items() if title in named}
    assert codes >= {"few_narratives", "many_missing", "refusal_gap", "unrated_identity", "scale_end"}


@pytest.mark.parametrize(
    ("own", "strong", "answer", "limits"),
    [
        (40, 20, "passed", set()),
        (0, 20, "failed", {"manipulation"}),
        (1, 20, "not shown", {"manipulation_not_shown"}),
        (40, 0, "passed", {"intensity_not_followed"}),
        (1, 0, "not shown", {"manipulation_not_shown", "intensity_not_followed"}),
    ],
)
def test_what_a_check_answers_is_the_same_on_the_page_and_in_the_index(runs, tmp_path, own, strong, answer, limits):
    """Planted: a run whose page says "no gap larger than 4 points", and what its ratings answer to the story.

    Of 60 narratives, at an error of 0.2 points: 0 lies below the least response of 1 point, 1 on it, 20 and 40 above.
    """
    run = shutil.copytree(runs["none"], tmp_path / "run")
    errors = np.random.default_rng(0).permutation(np.linspace(-2.6, 2.6, 60))
    ratings = {
        "own": 40 + own + errors,
        "wrong": np.full(60, 40),
        "strong": 40 + strong + errors,
        "mild": np.full(60, 40),
    }
    with RunFolder(run) as kept:
        kept.table(MANIPULATED).write(
            [
                {"narrative_id": f"n{k}", "kind": kind, "emotion": "joy", "status": "rated", "response": "",
                 "intensity": float(value)}
                for kind, values in ratings.items() for k, value in enumerate(values)
            ]
        )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        report_run(run)
    [row] = index_of(run)
    cards, banner = screen((run / "report.html").read_text("utf-8"))
    assert cards == [(row["verdict"], row["verdict_words"])]
    assert row["manipulation"] == answer
    assert {code for code in CHECKS if LIMITS[code][0] in banner} == limits
    assert {title for title in row["limits"].split("; ") if title} == banner
    kinds = {"failed": "absent", "passed": "none", "not shown": "none"}
    assert row["verdict"] == ("undecided" if "intensity_not_followed" in limits else kinds[answer])


@pytest.mark.parametrize("name", ["example", "example-wordings"])
def test_of_the_committed_examples_too_which_fail_a_check(name):
    rows = index_of(REPORTS / name)
    own, limits = screen((REPORTS / name / "report.html").read_text("utf-8"))
    assert [(row["verdict"], row["verdict_words"]) for row in rows] == own
    assert rows[0]["verdict"] == "absent"
    assert rows[0]["manipulation"] == "failed"
    assert LIMITS["manipulation"][0] in limits
    assert set(rows[0]["limits"].split("; ")) - {LIMITS[code][0] for code in OF_METHOD} == limits


def test_numbers_are_the_published_ones_to_the_last_digit(runs):
    [row] = index_of(runs["gap"])
    own = read_exactly(runs["gap"] / "tables" / "verdicts.csv").iloc[0]
    assert [row[name] for name in ("delta", "ci_low", "ci_high", "p")] == [
        own[name] for name in ("delta", "ci_low", "ci_high", "p")
    ]
    assert 5.5 < row["delta"] < 6.5  # planted: 6
    assert (row["pairs"], row["control"]) == ("without a word in common", "echo_free")
    assert (row["unit"], row["scale"], row["confidence"], row["manipulation"]) == ("points", "0–100", 0.95, "not made")


def test_refusals_are_missing_and_counted(runs):
    [row] = index_of(runs["refused-when-high"])
    ratings = planted.refused_when_high().ratings
    n_missing = int(ratings["rating"].isna().sum())
    assert row["n_missing"] == n_missing
    assert row["missing_share"] == pytest.approx(n_missing / len(ratings))  # no baselines: all are between identities
    assert "Refusals that differ between in-group and out-group" in row["limits"]


def copied(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("tables/gap.csv", "gap.csv has changed since it was written ("),
        ("tables/cells.csv", "cells.csv has changed since it was written ("),
        ("report.html", "report.html has changed since it was written ("),
        ("ratings.parquet", "ratings.parquet has changed since it was stored"),
        ("manifest.json", "manifest.json has changed since it was stored"),
    ],
)
def test_a_changed_file_is_refused_by_name(runs, tmp_path, file, said):
    run = copied(runs["gap"], tmp_path)
    content = (run / file).read_bytes()
    (run / file).write_bytes(content + (b"\n" if file != "manifest.json" else b" "))
    with pytest.raises(StoreError, match=re.escape(said)):
        index_of(run)


def test_tables_of_an_earlier_analysis_are_refused(runs, tmp_path):
    """Other settings: the generation is of the answers and of how they were analysed."""
    run = copied(runs["gap"], tmp_path)
    (run / "tables" / "generation.txt").write_text("0" * 12 + "\n")
    as_stored(run)
    with pytest.raises(
        StoreError,
        match=r"its tables belong to other answers or settings.*audit report "
        r"run",
    ):
        index_of(run)


def test_a_run_without_tables_is_listed_with_what_makes_them(runs, tmp_path):
    run = copied(runs["gap"], tmp_path)
    shutil.rmtree(run / "tables")
    [row] = index_of(run)
    assert (row["state"], row["reason"]) == ("no_gap", "it has no tables; `python -m audit report run` makes them")
    assert math.isnan(row["delta"])


def test_an_unfinished_run_says_so_with_tables_and_without(runs, tmp_path):
    run = changed(copied(runs["none"], tmp_path), status="running")
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        report_run(run)
    [row] = index_of(run)
    assert (row["status"], row["verdict"]) == ("running", "absent")
    assert "the run is not finished" in row["verdict_words"]
    assert "The run is not finished" in row["limits"].split("; ")
    assert index_of(runs["none"])[0]["verdict"] == "none"  # the same ratings, finished
    shutil.rmtree(run / "tables")
    [row] = index_of(run)
    assert row["reason"].startswith("the run is not finished")


def test_a_questionnaire_has_no_gap_and_says_so(runs, tmp_path):
    run = changed(copied(runs["gap"], tmp_path), task={"kind": "inventory"})
    [row] = index_of(run)
    assert (row["state"], row["reason"]) == (
        "no_gap",
        "a run of task=inventory has no gap; its page says what it has",
    )


@pytest.fixture(scope="module")
def replies(tmp_path_factory):
    """The committed example of replies, reported by this version."""
    run = tmp_path_factory.mktemp("replies") / "run"
    shutil.copytree(REPORTS / "example-replies", run)
    report_run(run)
    return run


def test_measures_of_replies_have_their_unit_and_the_verdict_of_their_page(replies):
    rows = {row["outcome"]: row for row in index_of(replies)}
    titles = pd.read_csv(replies / "tables" / "measures.csv").set_index("measure")["title"]
    table = read_exactly(replies / "tables" / "verdicts.csv").query("dimension != 'all'")
    assert [titles[name] for name in table["outcome"]] == list(rows)
    assert (rows["Length"]["unit"], rows["Length"]["scale"]) == ("words", "")
    page = (replies / "report.html").read_text("utf-8")
    [shown] = re.findall(r'<table aria-label="religion: the verdict on each measure.*?</table>', page, re.DOTALL)
    said = re.findall(r"<tr>.*?</t[hd]>\s*<td[^>]*>(.*?)</td>", shown.split("</thead>")[1], re.DOTALL)
    assert [words(each) for each in said] == [row["verdict_words"] for row in rows.values()]
    for verdict, row in zip(table.to_dict("records"), rows.values(), strict=True):
        kind = {"gap": "gap", "undecided": "undecided"}.get(verdict["code"], "absent")
        assert row["verdict"] == kind
        if not math.isnan(verdict["ci_low"]):
            assert (row["delta"], row["ci_low"]) == (verdict["delta"], verdict["ci_low"])


def test_measures_that_an_earlier_version_analysed_have_no_verdict(replies, tmp_path):
    run = copied(replies, tmp_path)
    (run / "tables" / "verdicts.csv").unlink()
    gaps = read_exactly(run / "tables" / "gap.csv").query("headline and scope == 'narratives'")
    rows = {row["outcome"]: row for row in index_of(run)}
    assert {row["verdict"] for row in rows.values()} == {"absent"}
    assert rows["Length"]["delta"] == gaps.set_index("outcome").loc["n_words", "delta"]


def test_files_of_replies_that_were_accepted_take_verdicts_back(replies, tmp_path):
    run = changed(copied(replies, tmp_path), accepted=["replies.parquet"])
    rows = index_of(run)
    assert {row["verdict"] for row in rows} == {"absent"}
    assert all("files were changed after they were collected" in row["verdict_words"] for row in rows)


def test_the_size_of_a_model_is_the_manifest_s_or_missing(runs, tmp_path):
    run = changed(copied(runs["gap"], tmp_path), model__parameters=7, model__weights_bytes=28)
    [row] = index_of(run)
    assert (row["parameters"], row["weights_bytes"]) == (7, 28)
    assert math.isnan(index_of(runs["gap"])[0]["parameters"])


def test_accepted_files_are_a_limit_and_take_a_verdict_back(runs, tmp_path):
    run = copied(runs["gap"], tmp_path)
    assert index_of(run)[0]["verdict"] == "gap"
    changed(run, accepted=["ratings.parquet"])  # its verdict is as it was before
    [row] = index_of(run)
    assert "Files that were changed" in row["limits"].split("; ")
    assert (row["verdict"], row["verdict_words"]) == (
        "absent",
        "No verdict: files were changed after they were collected",
    )
    assert row["delta"] == index_of(runs["gap"])[0]["delta"]
