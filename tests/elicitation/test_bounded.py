"""What the likeliest tokens tell of a distribution: bounds that hold whatever the rest of it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from audit.asking.elicitation.bounded import Loose, bounds, read_seen, seen_of
from audit.engines.base import TopTokens
from stimuli.prompts import Scale

TEN, HUNDRED = Scale(0, 10), Scale(0, 100)


def top(*places, written=None):
    told = [max(table, key=table.get) for table in places]
    return seen_of(TopTokens(tuple(written or told), tuple(places), 7))


def mean_of(known, low=0):
    numbers = low + np.arange(len(known))
    return known @ numbers / known.sum()


# --- Worked by hand --------------------------------------------------------------------------------------------------


def test_all_that_is_seen_leaves_nothing_loose():
    # Whole numbers: 70 .5, 80 .25, and a word .25. Mean (35 + 20) / .75 = 73.33
    known = read_seen(top({"70": 0.5, "80": 0.25, "I": 0.25}), HUNDRED)
    assert known.lowest == known.highest == pytest.approx(55 / 0.75)
    assert mean_of(known.distribution) == pytest.approx(55 / 0.75)
    assert known.loose == ()


def test_what_is_beyond_the_likeliest_could_be_on_either_end():
    # 70 .5, 80 .25; .25 unseen: all on 0, 55 / 1; all on 100, (55 + 25) / 1
    known = read_seen(top({"70": 0.5, "80": 0.25}), HUNDRED)
    assert (known.lowest, known.highest) == pytest.approx((55, 80))
    assert [each.mass for each in known.loose] == pytest.approx([0.25])


def test_a_digit_that_was_not_followed_could_end_or_go_on():
    # Digits: "7" .6 written and followed: "2" .5 (72: .3), "." .5 (7: .3); "4" .4, not followed: 4, any of 40 to 49.
    # Seen for certain: (21.6 + 2.1) / .6 = 39.5. The least: 4 it is, (23.7 + 1.6) / 1 = 25.3. The greatest: 49, 43.3.
    known = read_seen(top({"7": 0.6, "4": 0.4}, {"2": 0.5, ".": 0.5}, {"!": 1.0}, written=("7", "2", "!")), HUNDRED)
    assert mean_of(known.distribution) == pytest.approx(39.5)
    assert known.off(HUNDRED) == pytest.approx(39.5 - 25.3)
    assert (known.lowest, known.highest) == pytest.approx((25.3, 43.3))


def test_a_number_off_the_scale_and_a_number_spelt_otherwise_are_none():
    known = read_seen(top({"50": 0.5, "101": 0.2, "07": 0.1, "-3": 0.1, "seven": 0.1}), HUNDRED)
    assert known.distribution.sum() == pytest.approx(0.5)
    assert (known.lowest, known.highest) == pytest.approx((50, 50))


def test_a_space_before_a_number_is_none_of_it():
    known = read_seen(top({" ": 0.5, " 3": 0.25, "3": 0.25}, {"3": 0.5, "8.": 0.5}, written=(" ", "3")), Scale(0, 9))
    assert mean_of(known.distribution, 0) == pytest.approx((0.25 * 3 + 0.25 * 8 + 0.25 * 3 + 0.25 * 3) / 1)


def test_an_answer_in_words_has_no_mean():
    known = read_seen(top({"I": 1.0}, {" feel": 1.0}), TEN)
    assert known.distribution.sum() == 0
    assert math.isnan(known.lowest)
    assert math.isnan(known.highest)


def test_loose_mass_is_taken_from_the_farthest_end_on():
    # 5 has .5 for certain. On 10: (2.5 + 2) / .7 = 6.43; then on 6 lies nothing beyond that mean, so it is left out.
    # On 0: 2.5 / .7; then on 4: not below 3.57, left out.
    loose = [Loose(0.2, 0, 10, None), Loose(0.3, 4, 6, None)]
    certain = np.eye(11)[5] * 0.5
    assert bounds(certain, loose, 0) == pytest.approx((2.5 / 0.7, 4.5 / 0.7))


@pytest.mark.parametrize(
    ("tables", "mean", "off"),
    [
        # "1" and "00" are 100, though "10" is a token and begins with "1": .5 · 100 + .3 · 85 + .2 · 10.
        (({"1": 0.5, "85": 0.3, "10": 0.2}, {"00": 1.0}, {"": 1.0}), 77.5, 0.0),
        # The same of "8" and "5" beside "80": .6 · 85 + .3 · 80 + .1 · 20.
        (({"8": 0.6, "80": 0.3, "20": 0.1}, {"5": 1.0}, {"": 1.0}), 77.0, 0.0),
        # "100" and "0" are no number of the scale; and "20" may go on, too.
        (({"100": 0.6, "20": 0.4}, {"0": 1.0}, {"": 1.0}), 20.0, 0.0),
        # "10" and "0": 85 and 20 may go on, off the scale: (.6 · 100 + .1 · 20) / .7 without 85.
        (({"10": 0.6, "85": 0.3, "20": 0.1}, {"0": 1.0}, {"": 1.0}), 87.5, 12.5),
        # Digits that follow a number by chance are no number of the scale, and no sign of how numbers are spelt.
        (({"85": 0.5, "20": 0.5}, {"": 0.98, "5": 0.02}), (0.49 * 85 + 0.5 * 20) / 0.99, 0.0),
        # What follows "85" beyond the likeliest is no digit.
        (({"85": 0.5, "20": 0.5}, {"": 0.9}), 52.5, 0.0),
    ],
)
def test_digits_that_were_seen_to_follow_a_number_belong_to_it_whatever_else_is_a_token(tables, mean, off):
    written = tuple(max(table, key=table.get) for table in tables)
    known = read_seen(seen_of(TopTokens(written, tables, None)), HUNDRED)
    assert known.mean(HUNDRED) == pytest.approx(mean)
    assert known.off(HUNDRED) == pytest.approx(off, abs=1e-9)


# --- Whatever the model ----------------------------------------------------------------------------------------------

WORDS = ["I", "\n", ".", " points"]


@st.composite
def models(draw, *, whole):
    """A model of answers: after each text the probabilities of the next token; and how many of them are told."""
    pieces = [*map(str, range(10)), *([str(n) for n in range(10, 103)] if whole else []), " ", *WORDS]
    seed = draw(st.integers(0, 2**32 - 1))
    sharpness = draw(st.floats(0.1, 4.0))
    return pieces, seed, sharpness, draw(st.integers(1, 20))


def after(text, pieces, seed, sharpness):
    if "10" in pieces and text[-1:].isdigit():  # a number that is a token ends by itself
        pieces = [piece for piece in pieces if not piece.isdigit()]
    rng = np.random.default_rng([seed, *text.encode()])
    logits = rng.normal(size=len(pieces)) * sharpness
    shares = np.exp(logits) / np.exp(logits).sum()
    return dict(zip(pieces, shares.tolist(), strict=True))


def exact(scale, pieces, seed, sharpness, *, whole):
    """Return the exact distribution: the tokens of each number, and, of digits, that no digit follows the last."""
    found = np.zeros(scale.high - scale.low + 1)
    for number in range(scale.low, scale.high + 1):
        tokens = [str(number)] if whole else list(str(number))
        for begun in ([], [" "]):
            text, mass = "", 1.0
            for token in (*begun, *tokens):
                mass *= after(text, pieces, seed, sharpness).get(token, 0.0)
                text += token
            if not whole:
                nexts = after(text, pieces, seed, sharpness)
                mass *= 1 - sum(nexts[digit] for digit in "0123456789")
            found[number - scale.low] += mass
    return found


def told(pieces, seed, sharpness, n_top, n_places):
    text, written, tables = "", [], []
    for _ in range(n_places):
        likely = sorted(after(text, pieces, seed, sharpness).items(), key=lambda each: -each[1])
        tables.append(dict(likely[:n_top]))
        written.append(likely[0][0])
        text += likely[0][0]
    return seen_of(TopTokens(tuple(written), tuple(tables), None))


@pytest.mark.parametrize("scale", [TEN, HUNDRED, Scale(1, 7)], ids=str)
@given(model=models(whole=False), n_places=st.integers(1, 5))
def test_bounds_hold_the_exact_mean_where_numbers_are_digits(scale, model, n_places):
    pieces, seed, sharpness, n_top = model
    known = read_seen(told(pieces, seed, sharpness, n_top, n_places), scale)
    mean = mean_of(exact(scale, pieces, seed, sharpness, whole=False), scale.low)
    if not math.isnan(known.lowest):
        assert known.lowest - 1e-9 <= mean <= known.highest + 1e-9
        if known.distribution.sum() > 0:
            assert known.lowest - 1e-9 <= mean_of(known.distribution, scale.low) <= known.highest + 1e-9
    else:
        assert exact(scale, pieces, seed, sharpness, whole=False).sum() < 1e-9


@given(model=models(whole=True), n_places=st.integers(1, 5))
def test_bounds_hold_the_exact_mean_where_numbers_are_tokens(model, n_places):
    pieces, seed, sharpness, n_top = model
    seen = told(pieces, seed, sharpness, n_top, n_places)
    assume(any(len(token) > 1 and token.isdigit() for table in seen.values() for token in table))
    known = read_seen(seen, HUNDRED)
    mean = mean_of(exact(HUNDRED, pieces, seed, sharpness, whole=True))
    assert known.lowest - 1e-9 <= mean <= known.highest + 1e-9
