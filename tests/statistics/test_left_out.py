"""Why a situation that contradicts one group is left out for all groups of a dimension. Oracle: what is planted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from audit.tables.ratings import RATINGS
from stimuli.fitting import asked_pairs, contradictions
from stimuli.identities import load_dimensions
from stimuli.narratives import load_narratives

[AGE] = load_dimensions("six-groups", names=["age"], cues=["label"], perceiver_terms=1, unspecified=False)
NARRATIVES = load_narratives("geneva", emotions=["nervous", "sad", "worried"])
CONTRADICTED = list(contradictions(AGE, NARRATIVES))
BONUS = 8.0
"""Points by which one's own group is rated higher where a situation contradicts some group, and only there."""
FEW = AnalysisSettings(n_permutations=100)


def ratings_of(asked):
    """Ratings without noise, but for a little that gives an interval: of every group alike."""
    rng = np.random.default_rng(5)
    level = 50 + 10 * rng.standard_normal(len(CONTRADICTED))
    jitter = 0.2 * rng.standard_normal(asked.shape)
    rows = []
    for p, e, i in np.argwhere(asked):
        perceiver, experiencer = AGE.perceivers[p], AGE.experiencers[e]
        own = AGE.in_group(perceiver, experiencer)
        narrative = NARRATIVES.by_emotion[i]
        rows.append(
            dict.fromkeys(RATINGS)
            | {
                "prompt_index": len(rows), "dimension": "age", "variant": "origin", "wording": 0,
                "narrative_id": narrative.narrative_id, "emotion": narrative.emotion, "status": "rated",
                "perceiver": perceiver.term, "experiencer": experiencer.term, "in_group": own,
                "perceiver_group": perceiver.group, "experiencer_group": experiencer.group,
                "n_shared": AGE.n_shared(perceiver, experiencer),
                "intensity": level[i] + p - 0.5 * e + BONUS * bool(own and CONTRADICTED[i]) + jitter[p, e, i],
            }
        )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(RATINGS))
    return table.astype({"in_group": "boolean", "n_shared": "Int64", "intensity": "Float64", "number_mass": "float64"})


def own_gaps(asked, *, drawn):
    """Return each group's own gap, and the row of the average."""
    told = Repetition({"age": AGE.stems}, drawn=["age"] if drawn else [])
    made = analyse(ratings_of(asked), scales={"origin": (0.0, 100.0)}, seed=0, settings=FEW, repetition=told).tables
    families = made["families"]
    groups = families[families["family"] == "group"].set_index("member")["delta"]
    [average] = made["gap"].query("headline and scope == 'narratives'").to_dict("records")
    return groups, average


def one_by_one(*, most):
    """Each group asked about all but the situations that contradict it, of those that contradict at most so many."""
    asked = np.ones((len(AGE.perceivers), len(AGE.experiencers), len(CONTRADICTED)), dtype=bool)
    for e, experiencer in enumerate(AGE.experiencers):
        asked[:, e] = [experiencer.group not in found and len(found) <= most for found in CONTRADICTED]
    return asked


@pytest.fixture(scope="module", params=[True, False], ids=["balanced", "all pairs"])
def together(request):
    """The design that is taken."""
    asked = asked_pairs(AGE, NARRATIVES, balanced=request.param, seed=0)
    return own_gaps(asked, drawn=request.param), asked


def test_over_the_same_situations_groups_that_are_alike_have_the_same_gap(together):
    (groups, average), asked = together
    assert len(groups) == 6
    # no situation that is asked supposes anything, so nothing is planted in what is asked
    assert groups.to_numpy() == pytest.approx(np.zeros(6), abs=0.1)
    assert average["delta"] == pytest.approx(0, abs=0.05)
    assert average["n_narratives"] == asked.any(axis=(0, 1)).sum() == sum(not found for found in CONTRADICTED)
    assert average["n_missing"] == 0


def test_left_out_one_by_one_groups_that_are_alike_would_seem_to_differ():
    groups, _ = own_gaps(one_by_one(most=1), drawn=True)
    # Each situation with the bonus contradicts the seventies here: they never have it, the other five always do there.
    with_bonus = [found for found in CONTRADICTED if len(found) == 1]
    assert {*map(tuple, with_bonus)} == {("Seventies",)}
    share = len(with_bonus) / sum(len(found) <= 1 for found in CONTRADICTED)
    assert groups["Forties"] == pytest.approx(BONUS * share, abs=0.4)
    assert groups["Seventies"] == pytest.approx(0, abs=0.4)


def test_left_out_one_by_one_some_situations_would_not_have_a_gap_at_all():
    assert max(map(len, CONTRADICTED)) >= 4  # those at school contradict all adults but the youngest
    with pytest.raises(NotEstimableError, match="do not determine its gap"):
        own_gaps(one_by_one(most=6), drawn=True)


def test_the_planted_bonus_is_in_a_good_share_of_the_situations():
    share = np.mean([bool(found) for found in CONTRADICTED])
    assert 0.3 < share < 0.7
