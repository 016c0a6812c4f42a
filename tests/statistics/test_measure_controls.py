"""Measures of replies under the controls of ratings: repeated words, invented groups and conversations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from test_measures import SETTINGS, replies_of, values_of

from audit.comparing.changes import measure_change_rows
from audit.comparing.run_gaps import gaps_of_replies
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.statistics.conversations import conversation_of
from audit.statistics.outcome import Outcome
from audit.tables.controls import CONTROLS
from audit.tables.shared import OUTCOME
from audit.tasks.reply.gaps import measure_tables

REAL = {"Hindu": ("a Hindu", "a follower of the Gita"), "Muslim": ("a Muslim", "a follower of Islam"),
        "Sikh": ("a Sikh", "one who keeps the five Ks")}  # fmt: skip
INVENTED = {"Veltan": ("a Veltan",), "Dorrish": ("a Dorrish person",), "Kessari": ("a Kessari",)}
STEMS = {"religion": {term: term for terms in REAL.values() for term in terms}}
TOLD = Repetition(STEMS, placebo=("invented_1",))


def ratings_of(groups, dimension, rng, *, n=12, group=0.0, words=0.0, name="n{:02}"):
    terms = [(term, own) for own, terms in groups.items() for term in terms]
    rows = [
        {
            "dimension": dimension, "variant": "origin", "narrative_id": name.format(k), "emotion": "joy",
            "perceiver": p, "experiencer": e, "perceiver_group": of_p, "experiencer_group": of_e,
            "in_group": of_p == of_e, "n_shared": int(of_p == of_e), "status": "rated", "response": "",
            "intensity": 50 + 3 * (k % 4) + group * (of_p == of_e) + words * (p == e) + rng.normal(0, 0.5),
            "number_mass": np.nan, "mode": np.nan, "spread": np.nan,
        }
        for k, (p, of_p), (e, of_e) in product(range(n), terms, terms)
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"in_group": "boolean", "n_shared": "Int8"})


def both(*, seed=0, real=REAL, invented=0.0, **planted):
    rng = np.random.default_rng(seed)
    parts = [ratings_of(real, "religion", rng, **planted)]
    name = planted.get("name", "n{:02}")
    parts.append(ratings_of(INVENTED, "invented_1", rng, words=invented, name=name))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(prompt_index=np.arange(len(table)))


def tables_of(ratings, *measured, **options):
    measured = measured or (Outcome("eq", values=values_of(ratings)),)
    given = {"seed": 3, "settings": SETTINGS, "repetition": TOLD} | options
    return measure_tables(replies_of(ratings), measured, **given)


def headline(tables, measure="eq"):
    gaps = tables["gap"]
    chosen = gaps["headline"].astype(bool) & (gaps["scope"] == "narratives") & (gaps["outcome"] == measure)
    [row] = gaps.loc[chosen].to_dict("records")
    return row


@pytest.mark.parametrize("real", [REAL, {name: terms[:1] for name, terms in REAL.items()}])
def test_of_a_measure_that_is_an_intensity_every_control_is_the_one_of_ratings(real):
    ratings = both(real=real, group=1.0, words=2.0, invented=1.5)
    wanted = analyse(ratings, scales={"origin": (0.0, 100.0)}, seed=3, settings=SETTINGS, repetition=TOLD)
    wanted = wanted.tables["controls"]
    found = tables_of(ratings)["controls"]
    shared = list(CONTROLS.without(*OUTCOME))
    assert len(found) == 6
    assert set(found["outcome"]) == {"eq"}
    pd.testing.assert_frame_equal(found[shared], wanted[shared], check_exact=True, check_dtype=False)


def test_invented_groups_are_in_the_table_of_controls_and_marked_in_that_of_disparities_alone():
    tables = tables_of(both(invented=1.0))
    for name, table in tables.items():
        real = table[~table["invented"]] if name == "disparity" else table
        assert set(real["dimension"]) <= {"religion"}, name
    invented = tables["disparity"].query("invented")
    assert set(invented["dimension"]) == {"invented_1"}
    assert not invented["headline"].any()
    assert set(invented["code"]) == {""}
    sd = both(invented=1.0).query("dimension == 'religion'")["intensity"].std(ddof=1)
    row = headline(tables)
    assert row["delta_sd"] == pytest.approx(row["delta"] / sd)


def test_repeated_words_are_no_gap_of_a_measure():
    row = headline(tables_of(both(words=3.0)))
    assert row["ci_low"] < 0 < row["ci_high"]
    assert abs(row["delta"]) < 0.3
    whole = headline(tables_of(both(words=3.0), repetition=Repetition(stems={"religion": dict.fromkeys(
        [term for terms in REAL.values() for term in terms], "one")}, placebo=TOLD.placebo)))  # fmt: skip
    assert whole["ci_low"] > 1.0


def test_controls_of_utterances_are_over_their_conversations():
    ratings = both(group=1.0, words=1.0)
    narrative = ratings["narrative_id"].str[1:].astype(int)
    ratings["narrative_id"] = [f"talk {k // 3}:{k}" for k in narrative]
    tables = tables_of(ratings, conversation_of=conversation_of)
    apart = tables_of(ratings)["controls"].set_index("control")
    controls = tables["controls"].set_index("control")
    row = headline(tables)
    free = controls.loc["echo_free"]
    assert [free[name] for name in ("delta", "se", "df", "ci_low", "ci_high")] == [
        row[name] for name in ("delta", "se", "df", "ci_low", "ci_high")
    ]
    assert set(controls["df"]) == {3.0}
    assert set(apart["df"]) == {11.0}
    assert controls["note"].str.startswith("over 4 conversations").all()


def test_sets_of_invented_groups_are_no_sample_of_sets_where_narratives_are_no_independent_draws():
    parts = [both(group=1.0).query("dimension == 'religion'")]
    names = [f"invented_{k}" for k in range(5)]
    parts += [ratings_of(INVENTED, name, np.random.default_rng(k), words=1.0) for k, name in enumerate(names)]
    ratings = pd.concat(parts, ignore_index=True).assign(prompt_index=lambda table: np.arange(len(table)))
    told = Repetition(STEMS, placebo=tuple(names))
    crossed = tables_of(ratings, repetition=told)["controls"].set_index("control")
    ratings["narrative_id"] = [f"talk {int(k[1:]) // 3}:{k}" for k in ratings["narrative_id"]]
    over = tables_of(ratings, repetition=told, conversation_of=conversation_of)["controls"].set_index("control")
    assert crossed.loc["placebo", "levels"] == over.loc["placebo", "levels"] == 5
    assert crossed.loc["placebo", "df"] != over.loc["placebo", "df"] == 3.0
    assert over.loc["placebo", "delta"] == pytest.approx(1.0, abs=0.2)


def test_runs_are_compared_in_gaps_without_repeated_words():
    """One run echoes and the other has a gap of groups: the change of δ is that of the groups."""
    runs = {}
    for label, planted in (("none", {"words": 3.0}), ("ecn", {"group": 2.0, "words": 1.0})):
        ratings = both(seed=len(label), **planted)
        measured = [Outcome("eq", values=values_of(ratings))]
        runs[label] = gaps_of_replies(replies_of(ratings), measured, seed=0, settings=SETTINGS, repetition=TOLD)
        assert list(runs[label].identities) == ["religion"]
    [row] = measure_change_rows(
        runs, references={"ecn": "none"}, comparable={"ecn": ["eq"]}, texts=dict.fromkeys(runs, "one"), confidence=0.95
    )
    assert row["reference_delta"] == pytest.approx(0, abs=0.2)
    assert row["delta_change"] == pytest.approx(2.0, abs=0.3)
    assert row["n_both"] == 12 * 36
    assert row["delta"] == pytest.approx(runs["ecn"].headline("religion", "eq")["delta"], abs=1e-12)
