"""How far a gap could be off for its ratings' bounds. Oracle: a hand-worked case, and ratings moved to their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cubes import cube_of
from markupsafe import Markup

from audit.report.controlled import Control
from audit.report.numbers import Row
from audit.report.verdicts import Reservations, bound, verdict
from audit.statistics.analysis import analyse
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.gate import Gap, hold
from audit.statistics.headline import headline_gap
from audit.statistics.inexactness import gap_off, weighted_off
from audit.tables.gap import off_of

GROUPS = ("a", "b", "c")


def random_cube(seed, *, missing=0.0, n=6):
    rng = np.random.default_rng(seed)
    y = rng.uniform(20, 80, (n, 3, 3))
    y[rng.random(y.shape) < missing] = np.nan
    off = np.where(np.isnan(y), np.nan, rng.uniform(0, 2, y.shape))
    return cube_of(y, groups=GROUPS, off=off)


def test_two_groups_by_hand():
    # d = (y_aa + y_bb - y_ab - y_ba) / 2: it could be off by half the sum of the half-widths, (1 + 2 + 3 + 4) / 2.
    cube = cube_of([[[60, 50], [52, 58]]] * 2, groups=("a", "b"), off=np.array([[[1.0, 2.0], [3.0, 4.0]]] * 2))
    assert gap_off(cube, headline_gap(cube, confidence=0.95)) == pytest.approx(5)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_sum_of_what_each_rating_moves_the_gap_by(seed, missing):
    cube = random_cube(seed, missing=missing)
    found = headline_gap(cube, confidence=0.95)
    moved = 0.0
    for place in np.argwhere(~np.isnan(cube.y)).tolist():
        y = cube.y.copy()
        y[tuple(place)] += cube.off[tuple(place)]
        gaps = headline_gap(replace(cube, y=y), confidence=0.95).by_narrative  # what each counts for is held
        used = ~np.isnan(gaps)
        moved += abs(float(found.weights[used] @ (gaps - found.by_narrative)[used]))
    assert gap_off(cube, found) == pytest.approx(moved, rel=1e-6)


def test_no_ratings_within_their_bounds_move_the_gap_further():
    cube = random_cube(7)
    found = headline_gap(cube, confidence=0.95)
    off, rng = gap_off(cube, found), np.random.default_rng(0)
    moved = [cube.y + cube.off * rng.choice([-1, 1], cube.y.shape) for _ in range(200)]
    gaps = [headline_gap(replace(cube, y=y), confidence=0.95).delta_points for y in moved]
    apart = [abs(gap - found.delta_points) for gap in gaps]
    assert 0 < max(apart) <= off + 1e-9


def test_ratings_without_bounds_give_none_and_exact_ones_give_0():
    cube = random_cube(1)
    found = headline_gap(cube, confidence=0.95)
    assert np.isnan(gap_off(replace(cube, off=None), found))
    assert gap_off(replace(cube, off=np.zeros(cube.y.shape)), found) == 0
    assert weighted_off(replace(cube, off=None), np.ones((3, 3))) == 0


# --- What reads it ---------------------------------------------------------------------------------------------------


def ratings(off, n=12, gap=1.0):
    """Return ratings of two groups in n narratives, in-group a point higher, each off by as much at most."""
    rng = np.random.default_rng(3)
    rows = [
        {"prompt_index": 4 * i + 2 * p + e, "dimension": "faith", "variant": "origin", "narrative_id": f"n{i}",
         "emotion": "sad", "perceiver": f"person {p}", "experiencer": f"someone {e}", "perceiver_group": f"g{p}",
         "experiencer_group": f"g{e}", "in_group": p == e, "n_shared": int(p == e), "status": "rated",
         "intensity": 50 + gap * (p == e) + rng.normal(0, 0.2), "number_mass": 1.0, "mode": 50.0, "pruned_points": off}
        for i in range(n) for p in range(2) for e in range(2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def headline_of(off, **more):
    tables = analyse(ratings(off, **more), scales={"origin": (0, 100)}, seed=0).tables
    gap = tables["gap"]
    return Row(gap.loc[gap["headline"] & (gap["scope"] == "narratives")].iloc[0].to_dict(), table="gap", line=0), tables


def said_of(gap, margin=None):
    row = None if margin is None else Row({"margin": margin}, table="equivalence", line=0)
    return verdict(
        gap, row, larger=(), not_shown=(), held_back=Reservations(), parts="", constant=None, in_probabilities=True,
        control=Control("none", None, Markup("")),
    )  # fmt: skip


def test_the_table_of_gaps_has_the_ends_and_the_verdict_reads_them():
    exact, _ = headline_of(0.0)
    known, _ = headline_of(0.1)  # half the sum of four: .2
    loose, _ = headline_of(0.6)  # 1.2, more than the gap
    assert (exact["bound_low"], exact["bound_high"]) == pytest.approx((exact["delta_points"],) * 2)
    assert loose["bound_high"] - loose["delta_points"] == pytest.approx(1.2)
    assert off_of(known) == pytest.approx(0.2)
    assert [said_of(each).kind for each in (exact, known, loose)] == ["gap", "gap", "undecided"]


def test_a_margin_is_not_kept_where_ratings_could_lie_beyond_it():
    kept, _ = headline_of(0.1, gap=0.0)
    loose, _ = headline_of(1.5, gap=0.0)
    assert [said_of(each, margin=2.0).kind for each in (kept, loose)] == ["average", "undecided"]


def test_no_size_is_ruled_out_that_ratings_within_their_bounds_could_have():
    exact, _ = headline_of(0.0)
    loose, _ = headline_of(0.6)
    assert "are ruled out" in bound(exact, Reservations(), confidence=0.95)
    assert "and 1.20 more if all ratings are as far off as they can be" in bound(loose, Reservations(), confidence=0.95)


def test_tables_of_earlier_versions_have_no_ends_and_are_read_as_before():
    gap, _ = headline_of(0.6)
    earlier = Row({name: value for name, value in gap.items() if not name.startswith("bound_")}, table="gap", line=0)
    assert off_of(earlier) == 0
    assert said_of(earlier).kind == "gap"


@pytest.mark.parametrize(("centre", "exactly"), [(0.0, "within"), (3.0, "beyond")])
def test_a_gate_decides_nothing_that_inexact_ratings_could_turn(centre, exactly):
    contrasts = np.random.default_rng(2).normal(centre, 0.5, 40)
    made = summarise_contrasts(contrasts, rounding=1e-9, confidence=0.95, n_ratings=40)

    changed = summarise_contrasts(
        contrasts + np.random.default_rng(4).normal(0, 0.2, 40), rounding=1e-9, confidence=0.95, n_ratings=40
    )

    def held(off, baseline=None):
        own = Gap("average", "", "faith", "plain", made, tuple(range(40)), (0.0, 100.0), control="echo_free", off=off)
        gaps = {own.key: replace(own, made=changed, off=baseline)} if baseline is not None else None
        [one] = hold([own], gaps, margins={"average": 1.0}, alpha=0.05, power=0.8, n_narratives=40)
        return one

    assert [held(off).decided for off in (0.0, 0.3, 2.5)] == [exactly, exactly, "undecided"]
    assert "max_pruned_points" in held(2.5).why
    wide = held(0.3)
    assert wide.high - wide.low == pytest.approx(held(0.0).high - held(0.0).low + 0.6)
    assert [held(off, baseline=off).decided for off in (0.0, 0.8)] == ["within", "undecided"]  # the change is small
