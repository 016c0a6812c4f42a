"""What every surface says of runs whose ratings follow the story, do not, may or may not, or were not checked.

Planted in all four: δ of 5 points, and a group 10 points lower. Beside a response of 30 points these are 16.7% and
33.3%; beside no response they are nothing.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from gated import NAMES as GROUPS
from gated import run_maker, two_terms
from test_surfaces_agree import plain

import audit
from audit.cli.main import main
from audit.extras.exchange.auditors_card import _card
from audit.extras.exchange.base import Collected
from audit.extras.exchange.every_eval_ever import _of_gaps, _of_groups
from audit.extras.exchange.facts import about
from audit.extras.exchange.groups import compared_groups
from audit.extras.exchange.paper.export import _study
from audit.extras.exchange.paper.limits import check_sentences
from audit.extras.exchange.paper.text import as_plain
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import MANIPULATED
from audit.tasks.intensity.publish import publish_ratings


@dataclass(frozen=True)
class Case:
    """A model's check: the points between own and wrong emotion, their spread, and what is to be said."""

    points: float
    sd: float  # of differences
    answer: str | None
    says: str  # page, exports
    index: str
    code: int  # of the gate at a margin of 8 points


CASES = {
    "follows": Case(30.0, 8.0, "follows", "passed", "passed", 1),
    "deaf": Case(0.0, 2.0, "does_not_follow", "failed", "failed", 3),
    "weak": Case(3.0, 20.0, "not_shown", "inconclusive", "not shown", 1),
    "unasked": Case(0.0, 0.0, None, "not made", "not made", 1),
}
NAMES = list(CASES)
LOWER = GROUPS[0]


def _answers(case: Case) -> list[dict[str, object]]:
    """Return 60 narratives whose differences alternate about their mean: of that spread, up to 60 / 59."""
    return [
        dict.fromkeys(MANIPULATED) | {"narrative_id": f"n{k:03d}", "kind": kind, "status": "rated", "intensity": value}
        for k in range(60)
        for kind, value in (("own", 40 + case.points + case.sd * (-1) ** k), ("wrong", 40.0))
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return analysed runs by name; they differ in their checks alone."""
    folder = tmp_path_factory.mktemp("story")
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.tasks.intensity.publish.draw_ratings", lambda *_: {})
        for seed, (name, case) in enumerate(CASES.items()):
            told = two_terms(
                n=24, gap=lambda emotion, group: 5.0, level=lambda group: -10.0 * (group == LOWER), seed=seed
            )
            made[name] = run_maker(folder)(told, name)
            with RunFolder(made[name]) as kept:
                manifest = Manifest.read(made[name])
                statistics = {**manifest.content["config"]["statistics"], "n_permutations": 100}
                if case.answer:
                    kept.table(MANIPULATED).write(_answers(case))
                kept.write_manifest(manifest.adding("config", statistics=statistics).having(status="complete"))
                publish_ratings(kept, Manifest.read(made[name]))
    return made


def page_of(run: Path) -> str:
    return plain((run / "report.html").read_text("utf-8").partition("<body>")[2])


def sizes_in(run: Path, table: str) -> set[float]:
    """Return the sizes beside the response that a page shows of a table, unrounded."""
    page = (run / "report.html").read_text("utf-8")
    found = re.findall(rf'<data value="([^"]+)" data-at="{table}:\d+:percent_of_response">', page)
    return {round(float(each), 6) for each in found}


@pytest.mark.parametrize("name", NAMES)
def test_the_run_itself_says_it(runs, name):
    run, case = audit.open_run(runs[name]), CASES[name]
    assert (run.response and run.response.answer) == case.answer
    said = "Not checked: whether" if case.says == "not made" else f"Check: {case.says}"
    assert said in page_of(run.path)
    [verdict] = run.verdicts
    assert (verdict.code == "no_verdict") == (case.answer == "does_not_follow")
    silent = set(run.tables["disparity"].query("headline")["code"]) == {"no_verdict"}
    assert silent == (case.answer == "does_not_follow")


@pytest.mark.parametrize("name", NAMES)
def test_delta_and_disparity_are_sized_by_the_response_where_there_is_one(runs, name):
    run = audit.open_run(runs[name])
    [verdict] = run.verdicts
    lowest = run.disparity.set_index("group").loc[LOWER]
    heads = run.tables["disparity"].query("headline").set_index("group")
    if name != "follows":
        assert math.isnan(verdict.percent_of_response)
        assert run.tables["disparity"]["percent_of_response"].isna().all()
        assert "of the model’s response" not in page_of(run.path)
        return
    # 5 of 30 points, and −10 of 30.
    assert verdict.percent_of_response == pytest.approx(100 * 5 / 30, abs=1.5)
    assert verdict.percent_of_response == pytest.approx(100 * verdict.delta / 30)
    assert heads.loc[LOWER, "percent_of_response"] == pytest.approx(100 * lowest["disparity"] / 30)
    assert heads.loc[LOWER, "percent_of_response"] == pytest.approx(-100 / 3, abs=1.5)
    assert round(verdict.percent_of_response, 6) in sizes_in(run.path, "verdicts")
    assert round(heads.loc[LOWER, "percent_of_response"], 6) in sizes_in(run.path, "disparity")


@pytest.mark.parametrize("name", NAMES)
def test_the_gate_withholds_its_verdict_of_a_deaf_model_alone_and_says_what_is_not_known(runs, name):
    case = CASES[name]
    gated = audit.open_run(runs[name]).gate(margin=8)
    assert gated.code == case.code
    codes = {code for row in gated.rows for code in row.reasons}
    assert ("manipulation" in codes) == (case.answer == "does_not_follow")
    said = " ".join(gated.notes)
    # SD √(60/59) · 20 = 20.17 of the differences: ((1.96 + 0.84) · 20.17 / 1)² = 3,193, and t is a little wider.
    assert ("not shown to follow the story: 3,195 narratives or more" in said) == (case.answer == "not_shown")
    assert ("whether the ratings follow the story was not checked" in said) == (case.answer is None)


def test_the_index_has_each_answer_with_its_number(runs):
    folder = next(iter(runs.values())).parent
    assert main(["index", str(folder)]) == 0
    table = pd.read_csv(folder / "index.csv").set_index("folder")
    page = plain((folder / "index.html").read_text("utf-8"))
    for name, case in CASES.items():
        row = table.loc[name]
        assert row["manipulation"] == case.index
        if case.answer is None:
            assert math.isnan(row["response"])
            continue
        assert row["response"] == pytest.approx(case.points)
        assert row["response_low"] < case.points < row["response_high"]
        assert row["share_higher"] == (1.0 if name == "follows" else 0.5)
    assert "+30.00" in page
    assert table.loc["deaf", "verdict"] == "absent"


def test_a_comparison_sets_responses_side_by_side_and_says_which_difference_is_of_a_deaf_model(runs, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.comparing.comparison._draw", lambda *_: {})
        made = audit.compare(*runs.values(), run_dir=tmp_path / "beside")
    tables = made.tables
    own = {run.partition("-ratings")[0]: run for run in tables["runs"]["run"]}
    checked = tables["manipulation"].set_index("run")
    assert set(checked.index) == {own[name] for name, case in CASES.items() if case.answer}
    for name, case in CASES.items():
        if case.answer:
            row = checked.loc[own[name]]
            assert row["answer"] == case.answer
            assert (row["mean_higher"], row["mean_lower"]) == (pytest.approx(40 + case.points), pytest.approx(40))
    page = plain(made.page.read_text("utf-8"))
    assert f"Not checked: {own['unasked']}." in page
    for row in tables["comparisons"].to_dict("records"):
        deaf = own["deaf"] in (row["first"], row["second"])
        assert (row["code"] == "no_verdict", "manipulation" in str(row["limits"])) == (deaf, deaf)
    sized = tables["verdicts"].set_index("run")["percent_of_response"].dropna()
    assert list(sized.index) == [own["follows"]]
    of_groups = tables["disparity"].dropna(subset="percent_of_response")
    assert set(of_groups["run"]) == {own["follows"]}
    head = (tmp_path / "beside" / "table.md").read_text("utf-8").splitlines()[0]
    assert "δ, % of response" in head


def test_a_series_of_which_one_run_is_deaf_has_no_trend_of_three(runs, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.comparing.comparison._draw", lambda *_: {})
        three = [runs[name] for name in ("follows", "deaf", "weak")]
        found = audit.compare(*three, run_dir=tmp_path / "deaf", series="order").tables["series"]
        assert set(found["code"]) == {"no_estimate"}
        assert found["note"].str.contains("runs with a verdict").all()
        three[1] = runs["unasked"]
        found = audit.compare(*three, run_dir=tmp_path / "three", series="order").tables["series"]
        assert set(found["code"]) != {"no_estimate"}


@pytest.mark.parametrize("name", NAMES)
def test_exports_say_it(runs, name):
    case = CASES[name]
    collected = Collected.read(runs[name], unfinished=False, texts=False)
    for text in (_card(collected), about(collected, files="")):
        [line] = [each for each in text.splitlines() if each.startswith("| ratings match the story? |")]
        assert case.says in html.unescape(line)
    details = [each["score_details"]["details"] for each in (*_of_gaps(collected), *_of_groups(collected))]
    assert len(details) == 1 + len(GROUPS)
    for each in details:
        assert each["ratings match the story?"].startswith(case.says)
        assert ("percent_of_response" in each) == (name == "follows")
    [compared] = compared_groups(collected.disparity, confidence=0.95)
    assert ("of the model’s response" in compared.number) == (name == "follows")
    said = " ".join(as_plain(each) for each in check_sentences(_study(collected)))
    result = {"follows": "was passed", "deaf": "failed", "weak": "decides nothing", "unasked": "No manipulation check"}
    assert result[name] in said
