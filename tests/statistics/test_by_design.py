"""Pairs that a narrative is not asked about are not missing. Oracles: least squares, counting, all ways to fill."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.statistics.analysis import analyse
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import complete_narratives
from audit.statistics.controls import Repetition
from audit.statistics.deciding_estimate import gaps_of
from audit.statistics.echo import echo_free
from audit.statistics.headline import headline_gap
from audit.statistics.missing import estimate_refusal_gap
from audit.statistics.narrative_fits import designed_weights, narrative_fits
from audit.statistics.outcome import INTENSITY, analyse_outcome
from audit.statistics.published import published_gap
from audit.statistics.ratings import compact_ratings
from audit.tables.ratings import RATINGS
from stimuli.identities import load_dimensions
from stimuli.pairs import drawn_pairs

[RELIGION] = load_dimensions("six-groups", names=["religion"], perceiver_terms=1)
FEW = AnalysisSettings(n_permutations=100)


def ratings_of(n=12, *, gap=0.0, levels=0.0, sd=1.0, seed=0, refused=(), dimension=RELIGION):
    """Ratings of a drawn design, one row a prompt; ``refused`` are places among its rows."""
    asked, rng = drawn_pairs(dimension, n, seed=seed), np.random.default_rng(seed)
    level = 50 + levels * rng.standard_normal(n)
    rows = []
    for p, e, i in np.argwhere(asked):
        perceiver, experiencer = dimension.perceivers[p], dimension.experiencers[e]
        own = dimension.in_group(perceiver, experiencer)
        value = level[i] + 2.0 * p - e + gap * bool(own) + sd * rng.standard_normal()
        status = "refused" if len(rows) in refused else "rated"
        rows.append(
            dict.fromkeys(RATINGS)
            | {
                "prompt_index": len(rows), "dimension": dimension.name, "variant": "origin", "wording": 0,
                "narrative_id": f"n{i}", "emotion": "sad" if i % 2 else "joy", "status": status,
                "perceiver": perceiver.term, "experiencer": experiencer.term, "in_group": own,
                "perceiver_group": perceiver.group, "experiencer_group": experiencer.group,
                "n_shared": dimension.n_shared(perceiver, experiencer),
                "intensity": value if status == "rated" else None,
            }
        )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(RATINGS))
    return table.astype({"in_group": "boolean", "n_shared": "Int64", "intensity": "Float64", "number_mass": "float64"})


def cube_of(ratings, *, by_design=True, free=True):
    cube = NarrativeCube.from_ratings(ratings, dimension="religion", variant="origin", by_design=by_design)
    return echo_free(cube, RELIGION.stems) if free else cube


TOLD = Repetition({"religion": RELIGION.stems}, drawn=["religion"])


def analysed(ratings, told=TOLD):
    return analyse(ratings, scales={"origin": (0.0, 100.0)}, seed=0, settings=FEW, repetition=told)


def test_the_weights_of_a_narrative_make_its_own_gap_of_what_it_was_asked():
    cube = cube_of(ratings_of(gap=3.0, levels=20))
    weights = designed_weights(cube)
    assert (weights[np.isnan(cube.y)] == 0).all()
    made = (weights * np.nan_to_num(cube.y)).sum(axis=(1, 2))
    assert made == pytest.approx(narrative_fits(cube).gaps, abs=1e-9)
    # s = 1/Σw² is 4.5 of the 5 that all pairs have: kG/(k + 1), k = 3 of 5 other groups, G = 6
    assert 1 / (weights**2).sum(axis=(1, 2)) == pytest.approx(np.full(12, 4.5))
    assert not complete_narratives(cube).any()
    assert not cube.lacking.any()


def test_a_planted_gap_is_found_whatever_the_levels_of_narratives():
    found = headline_gap(cube_of(ratings_of(60, gap=3.0, levels=30, sd=0.5)), confidence=0.95)
    assert found.delta == pytest.approx(3.0, abs=0.15)
    assert found.se < 0.1
    assert found.n_narratives == 60


def test_what_was_not_asked_by_design_is_no_limit_of_the_gap():
    made = analysed(ratings_of(gap=3.0))
    assert {"incomplete_narratives", "many_missing"} & {each.code for each in made.remarks} == set()
    checks = made.tables["sensitivity"].set_index("check")
    assert checks.loc["listwise", "n_narratives"] == 12
    [headline] = made.tables["gap"].query("headline and scope == 'narratives'")["delta"]
    for check in ("worst_case_low", "worst_case_high", "listwise"):
        assert checks.loc[check, "delta"] == pytest.approx(headline)
    assert made.tables["power"]["sum_of_squares"].tolist() == pytest.approx([4.5])
    missing = made.tables["missing"].set_index("outcome")
    assert (missing["n_narratives"] == 12).all()
    gap = made.tables["gap"]
    wide = gap.loc[(gap["estimator"] == "contrast") & (gap["scope"] == "narratives_and_terms")]
    assert np.isfinite(wide["ci_low"]).all()  # groups as a sample, which five or more allow
    published = gap.loc[gap["estimator"] == "published"]
    assert published["note"].str.contains("stimuli.pairs=all").all()


def test_the_same_holes_without_a_design_are_prompts_that_were_never_asked():
    made = analysed(ratings_of(gap=3.0), Repetition({"religion": RELIGION.stems}))
    checks = made.tables["sensitivity"].set_index("check")
    assert "never asked" in checks.loc["worst_case_low", "note"]
    assert "incomplete_narratives" in {each.code for each in made.remarks}


def test_the_study_s_number_takes_all_pairs():
    cube = NarrativeCube.from_ratings(ratings_of(), dimension="religion", variant="origin", by_design=True)
    with pytest.raises(NotEstimableError, match=r"stimuli\.pairs=all"):
        published_gap(cube, rng=np.random.default_rng(0))


def test_worst_cases_are_the_ends_of_all_ways_to_fill_what_was_refused():
    ratings = ratings_of(8, gap=1.0, refused={40, 41, 200})
    part = analyse_outcome(INTENSITY, compact_ratings(ratings), seed=0, settings=FEW, repetition=TOLD).parts[0]
    found = {
        (each.kind, each.member): each
        for each in gaps_of(part, placebos={}, repetition=TOLD, scale=(0.0, 100.0), confidence=0.95)
    }
    cube = part.cube.without_baselines()
    holes = np.argwhere(cube.lacking)
    assert 1 <= len(holes) <= 3

    def filled(values):
        y = cube.y.copy()
        y[tuple(holes.T)] = values
        return headline_gap(replace(cube, y=y), confidence=0.95).delta

    every = [filled(values) for values in product((0.0, 100.0), repeat=len(holes))]
    least, most = found["average", ""].worst
    assert (least.delta, most.delta) == pytest.approx((min(every), max(every)))
    for (kind, _), each in found.items():
        if kind == "group":
            low, high = each.worst
            assert low.delta <= each.made.delta <= high.delta
    # the farthest that one narrative's refusals can be apart, not the sum over narratives
    refusals = found["refusals", ""]
    assert refusals.farthest == pytest.approx(100 * np.maximum(designed_weights(cube), 0).sum(axis=(1, 2)).max())
    assert refusals.farthest < 250
    # the sensitivity table has the same bounds
    checks = analysed(ratings).tables["sensitivity"].set_index("check")
    bounds = checks.loc[["worst_case_low", "worst_case_high"], "delta"].tolist()
    assert bounds == pytest.approx([min(every), max(every)])


def test_a_refusal_gap_is_of_what_was_asked():
    """All of the same words refused, nothing else: in words, 6 of 12 in-group prompts of each narrative."""
    ratings = ratings_of(10)
    same = ratings["perceiver"] == ratings["experiencer"]
    own = same & ratings["in_group"].fillna(False)
    ratings.loc[own, "status"] = "refused"
    ratings.loc[own, "intensity"] = pd.NA
    found, with_any = estimate_refusal_gap(cube_of(ratings, free=False), confidence=0.95)
    assert found.n_narratives == 10
    assert with_any.all()
    # δ of the indicator over whatever words: half of the in-group pairs, 50 percentage points
    assert found.delta == pytest.approx(50.0)


def test_a_cell_s_mean_is_free_of_which_narratives_it_was_asked_about():
    """Ratings are a level, 2p − e and nothing else: the means of cells must differ by 2 and by 1 exactly."""
    cells = analysed(ratings_of(10, levels=25, sd=0.0)).tables["cells"]
    means = cells.pivot(index="perceiver", columns="experiencer", values="mean")
    means = means.loc[[each.term for each in RELIGION.perceivers], [each.term for each in RELIGION.experiencers]]
    assert np.diff(means.to_numpy(), axis=0) == pytest.approx(np.full((6, 13), 2.0), abs=1e-6)
    assert np.diff(means.to_numpy(), axis=1) == pytest.approx(np.full((7, 12), -1.0), abs=1e-6)


def test_an_intersection_is_estimated_from_its_draw():
    [crossed] = load_dimensions("geneva", names=["race_ethnicity+religion"], unspecified=False)
    ratings = ratings_of(6, gap=4.0, sd=0.1, dimension=crossed)
    cube = NarrativeCube.from_ratings(ratings, dimension=crossed.name, variant="origin", by_design=True)
    assert headline_gap(cube, confidence=0.95).delta == pytest.approx(4.0, abs=0.1)
    assert cube.expected.mean() < 0.5
