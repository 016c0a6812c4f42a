"""A planted gap of each packaged dimension comes out, and the echo of words does not. Oracle: what is planted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.statistics.echo import Overlap
from audit.tables.ratings import RATINGS
from stimuli.identities import load_dimensions, packs
from stimuli.pairs import drawn_pairs

pytestmark = pytest.mark.long

GAP, ECHO, FORM = 4.0, 9.0, 3.0
"""Points for one's own group, for the very same words, and for words in the same form ("a person in their ...")."""
N = 24


def ratings_of(dimension):
    rng = np.random.default_rng(3)
    asked = drawn_pairs(dimension, N, seed=3)
    terms = [[each.term for each in side] for side in (dimension.perceivers, dimension.experiencers)]
    alike = Overlap.of(*terms, dimension.stems)
    rows = []
    for p, e, i in np.argwhere(asked):
        perceiver, experiencer = dimension.perceivers[p], dimension.experiencers[e]
        own = dimension.in_group(perceiver, experiencer)
        bonus = GAP * bool(own) + ECHO * alike.same_words[p, e] + FORM * alike.same_form[p, e]
        rows.append(
            dict.fromkeys(RATINGS)
            | {
                "prompt_index": len(rows), "dimension": dimension.name, "variant": "origin", "wording": 0,
                "narrative_id": f"n{i}", "emotion": "sad" if i % 2 else "joy", "status": "rated",
                "perceiver": perceiver.term, "experiencer": experiencer.term, "in_group": own,
                "perceiver_group": perceiver.group, "experiencer_group": experiencer.group,
                "n_shared": dimension.n_shared(perceiver, experiencer),
                "intensity": 40.0 + i + p - 0.5 * e + bonus + 0.3 * rng.standard_normal(),
            }
        )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(RATINGS))
    return table.astype({"in_group": "boolean", "n_shared": "Int64", "intensity": "Float64", "number_mass": "float64"})


@pytest.mark.parametrize("name", packs())
def test_the_gap_between_groups_is_told_from_the_echo_of_words_and_of_their_form(name):
    [dimension] = load_dimensions("six-groups", names=[name], cues=["label"], perceiver_terms=1, unspecified=False)
    made = analyse(
        ratings_of(dimension), scales={"origin": (0.0, 100.0)}, seed=0, settings=AnalysisSettings(n_permutations=100),
        repetition=Repetition({name: dimension.stems}, cues={name: dimension.cues}, drawn=[name]),
    ).tables  # fmt: skip
    rows = made["gap"].query("headline").set_index("scope")
    assert rows.loc["narratives", "delta"] == pytest.approx(GAP, abs=0.3)
    controls = made["controls"].set_index("control")
    assert controls["headline"].idxmax() == "echo_free"
    # with repeated words, the gap would be half of an echo too large
    assert controls.loc["all_terms", "delta"] > GAP + 2
    # five groups or more: they can be taken as a sample of such groups
    assert np.isfinite(rows.loc["narratives_and_terms", ["ci_low", "ci_high"]].to_numpy(dtype=float)).all()
    assert rows.loc["narratives_and_terms", "ci_low"] < GAP < rows.loc["narratives_and_terms", "ci_high"]
