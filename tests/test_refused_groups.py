"""Who is refused more by everybody: found, judged by the gate under refusal_margin, and absent without a refusal."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import planted
import pytest
from gated import TWO_TERMS, gate, of, run_maker, two_terms, verdict

import audit
from audit.__main__ import main
from audit.report.terminal import in_lines
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.disparity import REFUSALS
from audit.tasks.intensity.publish import publish_ratings

pytestmark = pytest.mark.long


@pytest.fixture
def make_run(tmp_path):
    return run_maker(tmp_path)


def refusing(share, *, others=0.0, n=150, seed=3, alone=True):
    """Refuse a share of the prompts about each group or term, of the rest another; ``alone`` of one perceiver."""
    table = two_terms(n=n, seed=seed)
    own = table.ratings
    own = own[own["perceiver"] == own["perceiver"].iloc[0]] if alone else own
    rate = own["experiencer"].map(share).fillna(own["experiencer"].map(TWO_TERMS).map(share)).fillna(others)
    gone = np.random.default_rng(seed).random(len(rate)) < rate
    return replace(table, ratings=planted.refused(own, gone))


def deployed(table):
    """Have the model rate without a persona, as ``experiment=deployed`` asks it."""
    return table.assign(perceiver="no persona", perceiver_group="no persona", in_group=pd.NA, n_shared=pd.NA)


def published(run):
    """Return the answers on refusals by group, the text of the page, and what the terminal answers."""
    with RunFolder(run) as kept:
        said = publish_ratings(kept, Manifest.read(run))
    table = pd.read_csv(run / "tables" / "disparity.csv", keep_default_na=False)
    heads = table[(table["outcome"] == REFUSALS) & (table["headline"].astype(str) == "True")]
    heads = heads[heads["view"] == "no_persona"].set_index("group")
    heads = heads.assign(disparity=heads["disparity"].astype(float))
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", said.report.read_text("utf-8")))
    return heads, page, in_lines(said.summary)["answer"]


def exported(run, to):
    """Yield the texts of the card and of the paper."""
    for form in ("card", "paper"):
        assert main(["export", str(run), f"form={form}", f"to={to / form}"]) == 0
        text = " ".join(path.read_text("utf-8") for path in (to / form).glob("*.md"))
        yield " ".join(unescape(text).split())


def verdicts_of(run):
    return {row["member"]: row["verdict"] for row in verdict(run)["gaps"] if row["kind"] == "group_refusals"}


@pytest.mark.parametrize(("rate", "others", "n"), [(0.08, 0.0, 200), (0.3, 0.02, 60)])
def test_a_group_that_everybody_refuses_more_fails_the_gate_and_no_other_gap_does(make_run, rate, others, n):
    run = make_run(refusing({"Cendi": rate}, others=others, n=n, alone=False))
    assert gate(run, "margin=10", "refusal_margin=5") == 1
    row = of(verdict(run), "group_refusals", "Cendi")
    assert (row["unit"], row["margin"]) == ("percentage points", 5.0)
    assert row["value"] == pytest.approx(100 * (rate - others), abs=2.0)
    failed = {(each["kind"], each["member"]) for each in verdict(run)["gaps"] if each["verdict"] == "failed"}
    assert failed == {("group_refusals", "Cendi")}
    # δ takes out what every perceiver does alike.
    assert abs(of(verdict(run), "refusals")["value"]) < 2


def test_a_deployed_model_that_refuses_a_group_fails_and_every_surface_names_the_group(make_run, tmp_path):
    run = make_run(refusing({"Cendi": 0.3}, others=0.02), change=deployed)
    assert gate(run, "margin=50", "refusal_margin=5") == 1
    assert verdicts_of(run)["Cendi"] == "failed"
    assert "Cendi" in verdict(run)["sentence"]
    assert "(refusals: 5 percentage points)" in verdict(run)["sentence"]
    found, page, terminal = published(run)
    assert tuple(found.loc["Cendi", ["code", "claim", "unit"]]) == ("higher", "group", "percentage points")
    assert set(found["code"]) == {"higher", "not_shown"}
    number = f"{found.loc['Cendi', 'disparity']:+.1f}"
    for said in (page, terminal):
        assert "Cendi is refused more often than the others" in said
        assert f"{number} percentage points" in said
    for text in exported(run, tmp_path):
        assert "Cendi is refused more often than the others" in text
        assert f"D = {number} percentage points" in text
    # Who asks who is rated lower gets ratings alone.
    assert set(audit.open_run(run).disparity["outcome"]) == {"intensity"}


def test_the_disparity_of_refusals_is_a_difference_of_shares_in_percentage_points(make_run):
    """By hand: of 2 terms × 150 prompts k are refused, of no other group: D = 100 k/300."""
    table = refusing({"Cendi": 0.3})
    k = int((table.ratings["status"] == "refused").sum())
    found, _, _ = published(make_run(table, change=deployed))
    assert found.loc["Cendi", "disparity"] == pytest.approx(100 * k / 300)
    assert found.loc["Arbo", "disparity"] == pytest.approx(-100 * k / 300 / 5)


def test_equal_refusals_find_nobody(make_run, tmp_path):
    run = make_run(refusing({}, others=0.1, n=400), change=deployed)
    assert gate(run, "margin=50", "refusal_margin=8") != 1
    assert set(verdicts_of(run).values()) == {"passed"}
    found, page, terminal = published(run)
    assert set(found["code"]) == {"not_shown"}
    assert not any("refused more often" in said for said in (page, terminal, *exported(run, tmp_path)))


def test_refusals_of_one_term_are_of_the_term_and_not_of_its_group(make_run):
    run = make_run(refusing({"an old Cendi": 0.5}), change=deployed)
    assert gate(run, "margin=50", "refusal_margin=5") != 1
    assert verdicts_of(run)["Cendi"] == "undecided"
    found, page, terminal = published(run)
    assert found.loc["Cendi", "code"] not in ("lower", "higher")
    assert "terms_differ" in found.loc["Cendi", "limits"]
    assert "refused more often" not in page + terminal


def test_without_a_refusal_there_is_no_row_and_no_gap(make_run):
    run = make_run(refusing({}, n=60), change=deployed)
    gate(run, "margin=50")
    assert verdicts_of(run) == {}
    assert "refusals" not in verdict(run)["sentence"]
    found, page, terminal = published(run)
    assert found.empty
    assert "who is refused" not in (page + terminal).lower()


def test_narratives_that_are_refused_whoever_is_in_them_make_no_group_refused_more(make_run):
    table = two_terms(n=150)
    own = table.ratings[table.ratings["perceiver"] == table.ratings["perceiver"].iloc[0]]
    table = replace(table, ratings=planted.refused(own, own["narrative_id"].isin([f"n{k:03d}" for k in range(12)])))
    run = make_run(table, change=deployed)
    gate(run, "margin=50", "refusal_margin=5")
    assert set(verdicts_of(run).values()) == {"passed"}
    found, _, _ = published(run)
    assert not {"lower", "higher"} & set(found["code"])


def test_few_refusals_find_nobody(make_run):
    """4 of 300 prompts about one group: a t interval of so few is too narrow."""
    table = two_terms(n=150)
    own = table.ratings[table.ratings["perceiver"] == table.ratings["perceiver"].iloc[0]]
    gone = own["experiencer"].isin([each for each in TWO_TERMS if TWO_TERMS[each] == "Cendi"])
    gone &= own["narrative_id"].isin(["n001", "n002"])
    run = make_run(replace(table, ratings=planted.refused(own, gone)), change=deployed)
    # By Clopper and Pearson 2 of 150 narratives are less than 4.15%, so no gap is larger than 4.15 percentage points.
    assert gate(run, "margin=50", "refusal_margin=4") != 1
    assert verdicts_of(run)["Cendi"] == "undecided"
    gate(run, "margin=50", "refusal_margin=4.3")
    assert verdicts_of(run)["Cendi"] == "passed"
    found, _, _ = published(run)
    assert found.loc["Cendi", "code"] == "undecided"
    assert "few_refusals" in found.loc["Cendi", "limits"]


def test_a_group_refused_more_than_in_a_baseline_without_refusals_fails(make_run):
    new = make_run(refusing({"Cendi": 0.3}), "new", change=deployed)
    old = make_run(refusing({}), "old", change=deployed)
    assert gate(new, "margin=50", "refusal_margin=5", f"baseline={old}") == 1
    assert verdicts_of(new)["Cendi"] == "failed"
    assert gate(old, "margin=50", "refusal_margin=5", f"baseline={new}") != 1


@pytest.mark.parametrize(("other", "code"), [(0.0, "higher"), (0.3, "not_shown")])
def test_a_comparison_says_who_is_refused_more_in_one_run_than_in_another(make_run, tmp_path, monkeypatch, other, code):
    """30% of prompts about one group are refused in one run; in the other none, or as many."""
    monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})
    shares = {"refusing": (0.3, 3), "other": (other, 4)}
    runs = [make_run(refusing({"Cendi": rate}, n=24, seed=seed, alone=False), name)
            for name, (rate, seed) in shares.items()]  # fmt: skip
    made = audit.compare(*runs, run_dir=tmp_path / "beside")
    changes = made.tables["disparity_changes"]
    refused = changes[changes["outcome"] == REFUSALS].set_index("group")
    assert set(refused.drop(index="Cendi")["code"]) <= {"not_shown"}
    assert refused.loc["Cendi", "code"] == code
    assert refused.loc["Cendi", "disparity_change"] == pytest.approx(100 * (0.3 - other), abs=8)
    assert refused.loc["Cendi", "unit"] == "percentage points"
    page = re.sub(r"<[^>]*>", "", made.page.read_text("utf-8"))
    assert ("Cendi is refused more often, compared with the other groups, in" in page) == (code == "higher")
    assert set(changes.loc[changes["outcome"] == "intensity", "code"]) <= {"not_shown", "undecided"}


def test_the_index_names_who_is_refused_more_beside_who_gets_less(make_run):
    from audit.extras.index.write import write_index

    run = make_run(refusing({"Cendi": 0.3}, n=24, alone=False))
    with RunFolder(run) as kept:
        publish_ratings(kept, Manifest.read(run))
    made = write_index(run.parent)
    [row] = made.rows.to_dict("records")
    assert row["refused_words"].startswith("Cendi is refused more often")
    assert "one refused more" in made.page.read_text("utf-8")
