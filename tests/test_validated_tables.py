"""Corrected gaps of designs other than the crossed one: utterances, no perceivers, several terms, missing replies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.comparing.validation import _unlike, validation_tables
from audit.comparing.validation_page import render_validation
from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome
from audit.tables.validation import VALIDATION_TABLES

MILDER = 2.0
"""How much higher the planted judge scores replies to group A; to people, all groups' replies are alike."""


def planted(
    *, groups="ABC", n_terms=1, perceivers=True, n_conversations=0, refused=0.0, n_narratives=40, n_labels=200,
    chosen_of_a=False, seed=0,
):  # fmt: skip
    """Return the tables of planted replies, of which people scored ``n_labels``.

    With ``chosen_of_a`` the lower half of the judge's scores is labelled of replies to A, and the upper of the others.
    """
    rng = np.random.default_rng(seed)
    terms = [(group, f"{group}{k}") for group in groups for k in range(n_terms)]
    names = [f"c{k % n_conversations}:{k}" if n_conversations else f"n{k}" for k in range(n_narratives)]
    rows = pd.DataFrame(
        [
            (name, "joy", perceiver, experiencer, one, other)
            for name in names
            for one, perceiver in (terms if perceivers else [("no persona", "no persona")])
            for other, experiencer in terms
        ],
        columns=["narrative_id", "emotion", "perceiver", "experiencer", "perceiver_group", "experiencer_group"],
    )
    own = rows["perceiver_group"] == rows["experiencer_group"]
    known = rows["perceiver_group"] != "no persona"
    people = rng.normal(0, 1, len(rows)) + own
    judge = people + MILDER * (rows["experiencer_group"] == "A") + rng.normal(0, 0.5, len(rows))
    written = rng.random(len(rows)) >= refused
    replies = rows.assign(
        dimension="d", variant="v", prompt_index=np.arange(len(rows)), n_dropped=0, text="x",
        status=np.where(written, "written", "refused"),
        in_group=own.astype("boolean").mask(~known), n_shared=own.astype("Int64").mask(~known),
    )  # fmt: skip
    to_a = rows["experiencer_group"] == "A"
    median = judge.groupby(to_a).transform("median")
    may_be = written & (((judge < median) == to_a) if chosen_of_a else True)
    chosen = rng.permutation(np.flatnonzero(may_be))[:n_labels]
    given = pd.DataFrame({"rater": "r", "prompt_index": chosen, "score": people.to_numpy()[chosen]})
    return validation_tables(
        replies, Outcome("m", unit="points", values=judge.where(written)), given,
        settings=AnalysisSettings(), seed=0, repetition=Repetition(),
        source="conversations" if n_conversations else "geneva",
    )  # fmt: skip


DESIGNS = {
    "crossed": {},
    "without perceivers": {"perceivers": False, "n_narratives": 80, "n_labels": 120},
    "two terms a group": {"n_terms": 2},
    "utterances": {"n_conversations": 40, "n_narratives": 80},
    "refusals": {"refused": 0.15},
    "two groups": {"groups": "AB", "n_labels": 120},
}


@pytest.mark.parametrize("design", DESIGNS)
def test_the_judge_s_gap_is_corrected_and_the_group_that_it_is_milder_with_is_named(design):
    tables = planted(**DESIGNS[design])
    gaps = tables["corrected_gaps"]
    of_a = gaps.loc[gaps["group"] == "A"].set_index("estimator")
    assert of_a.loc["measure", "ci_low"] > 1
    assert of_a.loc["ppi_tuned", "ci_low"] < 0 < of_a.loc["ppi_tuned", "ci_high"]
    assert (gaps["gap"] == "delta").any() == (design != "without perceivers")
    errors = tables["measure_errors"].set_index("group")["code"]
    if design == "two groups":  # one is as much higher than the other as the other is lower
        assert errors[["A", "B"]].to_list() == ["higher", "lower"]
    else:
        assert errors[["A", "B", "C"]].to_list() == ["higher", "not_shown", "not_shown"]
    for name, table in tables.items():
        VALIDATION_TABLES[name].csv(table)


def test_replies_that_were_chosen_low_of_one_group_and_high_of_another_show_in_the_measure_s_gaps():
    found = planted(chosen_of_a=True)["labelled_replies"].set_index(["what", "group"])
    assert found.loc[("disparity", "A"), "p"] < 1e-6
    assert found.loc[("disparity", "A"), "labelled"] < found.loc[("disparity", "A"), "all"] - 1
    told = list(_unlike(found.reset_index(), AnalysisSettings()))
    assert any("the measure's D of A" in each for each in told)
    assert not list(_unlike(planted()["labelled_replies"], AnalysisSettings()))


def test_utterances_are_clustered_by_conversation():
    tables = planted(**DESIGNS["utterances"])
    row = tables["corrected_gaps"].query("gap == 'delta' and estimator == 'measure'").iloc[0]
    assert (row["n_narratives"], row["df"]) == (80, pytest.approx(39))


def test_what_anybody_may_have_written_is_text_on_the_page():
    attack = "<img src=x onerror=alert(1)>"
    about = {"measure": attack, "title": attack, "unit": attack}
    page = render_validation(planted(), about, remarks=[attack], confidence=0.95, command=attack)
    assert "<img" not in page
    assert page.count("&lt;img src=x") >= 5
