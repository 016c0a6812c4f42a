"""How far a gap could be off for its ratings' bounds. Oracle: a hand-worked case, and ratings moved to their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cubes import cube_of

from audit.statistics.analysis import analyse
from audit.statistics.deciding_estimate import DecidedGap
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.headline import headline_gap
from audit.statistics.inexactness import gap_off
from audit.statistics.margin_tests import hold
from audit.tasks.limits import limits_of

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
    gaps = [headline_gap(replace(cube, y=y), confidence=0.95).delta for y in moved]
    apart = [abs(gap - found.delta) for gap in gaps]
    assert 0 < max(apart) <= off + 1e-9


def test_ratings_without_bounds_give_none_and_exact_ones_give_0():
    cube = random_cube(1)
    found = headline_gap(cube, confidence=0.95)
    assert np.isnan(gap_off(replace(cube, off=None), found))
    assert gap_off(replace(cube, off=np.zeros(cube.y.shape)), found) == 0


# --- What reads it ---------------------------------------------------------------------------------------------------


def ratings(off, n=60, gap=1.0):
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


def decided(off, margin=None, **more):
    """Return the verdict on such ratings, and the run's row of the table of gaps."""
    made = analyse(ratings(off, **more), scales={"origin": (0, 100)}, seed=0)
    gap = made.tables["gap"]
    _, [found] = made.averages.verdicts(limits_of(set(), {}), margin=margin)
    return found, gap.loc[gap["headline"] & (gap["scope"] == "narratives")].iloc[0]


def test_the_table_of_gaps_has_the_ends_and_the_verdict_reads_them():
    exact, row = decided(0.0)
    assert (row["bound_low"], row["bound_high"]) == pytest.approx((row["delta"],) * 2)
    known, row = decided(0.1)  # half the sum of four: .2
    assert row["bound_high"] - row["delta"] == pytest.approx(0.2)
    loose, row = decided(0.6)  # 1.2, more than the gap
    assert row["bound_high"] - row["delta"] == pytest.approx(1.2)
    assert [each.code for each in (exact, known, loose)] == ["gap", "gap", "undecided"]
    assert loose.reasons == ("bounded",)
    assert loose.next_step == "narrower_bounds"


def test_a_margin_is_not_kept_where_ratings_could_lie_beyond_it():
    kept, _ = decided(0.1, margin=2.0, gap=0.0, n=300)
    loose, _ = decided(1.5, margin=2.0, gap=0.0, n=300)
    assert (kept.code, loose.code, loose.reasons) == ("within", "undecided", ("bounded",))
    assert loose.next_step == "narrower_bounds"


def test_as_many_narratives_are_asked_for_as_bounds_and_rare_gaps_need():
    short, _ = decided(0.1, margin=2.0, gap=0.0, n=150)
    assert (short.code, short.next_step) == ("undecided", "more_narratives")
    enough, _ = decided(0.1, margin=2.0, gap=0.0, n=int(short.n_needed))
    assert enough.code == "within"


def test_a_gap_whose_size_bounds_leave_open_asks_for_narrower_ones():
    found, _ = decided(1.0, margin=3.0, gap=4.0)  # off by 2 at most
    assert (found.code, found.size, found.next_step) == ("gap", "", "narrower_bounds")
    assert "bounded" in found.reasons


@pytest.mark.parametrize("off", [0.1, 0.6])
def test_no_size_is_ruled_out_that_ratings_within_their_bounds_could_have(off):
    exact, _ = decided(0.0, n=200)
    found, _ = decided(off, n=200)
    assert (found.bound_low, found.bound_high) == pytest.approx((exact.bound_low - 2 * off, exact.bound_high + 2 * off))
    assert found.supported_margin == pytest.approx(exact.supported_margin + 2 * off)


def test_ratings_that_carry_no_bound_are_read_as_they_stand():
    exact, _ = decided(0.0)
    found, row = decided(float("nan"))
    assert np.isnan([row["bound_low"], row["bound_high"]]).all()
    assert found == exact


@pytest.mark.parametrize(("centre", "exactly"), [(0.0, "within"), (3.0, "beyond")])
def test_a_gate_decides_nothing_that_inexact_ratings_could_turn(centre, exactly):
    n = 600  # narratives with a large gap, of which 600 happen to show none, move the average by .6 at most
    contrasts = np.random.default_rng(2).normal(centre, 0.5, n)
    made, changed = (
        summarise_contrasts(each, rounding=1e-9, confidence=0.95, n_answers=n)
        for each in (contrasts, contrasts + np.random.default_rng(4).normal(0, 0.2, n))
    )

    def held(off, baseline=None):
        own = DecidedGap(
            "average", "", "faith", "plain", made, tuple(range(n)), (0.0, 100.0), control="echo_free", off=off
        )
        gaps = {own.key: replace(own, made=changed, off=baseline)} if baseline is not None else None
        [one] = hold([own], gaps, margins={"average": 1.0}, alpha=0.05, power=0.8)
        return one

    assert [held(off).decided for off in (0.0, 0.3, 2.5)] == [exactly, exactly, "undecided"]
    assert held(2.5).reasons == ("bounded",)
    wide = held(0.3)
    assert wide.high - wide.low == pytest.approx(held(0.0).high - held(0.0).low + 0.6)
    assert [held(off, baseline=off).decided for off in (0.0, 0.8)] == ["within", "undecided"]  # the change is small
