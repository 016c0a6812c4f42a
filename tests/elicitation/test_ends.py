import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scripted_model import DIGITS, HUNDRED, SPACED, TEN, WHOLE, FakeEngine

from audit.asking.elicitation.ends import EndSample, Sampled, calibrated, why_exact
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.tasks.intensity.calibration import _draw
from stimuli.prompts import Prompt

pytestmark = pytest.mark.model


def answers(rng, ends, *, spread=0.0):
    """One prompt's probabilities: digits at random, and after two digits an end by the number's share in ``ends``."""
    first = rng.dirichlet(np.ones(11))
    table = {(): {**{str(d): first[d] for d in range(10)}, "word": first[10]}}
    for d in range(1, 10):
        second = rng.dirichlet(np.ones(11))
        table[str(d),] = {str(e): second[e] for e in range(10)}
        for e in range(10):
            share = np.clip(ends[10 * d + e] + spread * rng.normal(), 0.01, 0.99)
            table[str(d), str(e)] = {"5": 1 - share, ".": share} if (d, e) != (1, 0) else {"0": 0.3, ".": 0.7}
    table["0",] = {"5": 1 - ends[0], ".": ends[0]}
    table["1", "0", "0"] = {"5": 1 - ends[100], ".": ends[100]}
    return table


def asked(n, *, seed=0, spread=0.0, pattern=DIGITS):
    """Return an engine of n prompts, and the prompts."""
    rng = np.random.default_rng(seed)
    ends = rng.uniform(0.3, 0.95, 101)
    engine = FakeEngine({f"q{k}": answers(rng, ends, spread=spread) for k in range(n)}, pattern=pattern)
    return engine, [Prompt("s", f"q{k}") for k in range(n)]


def exact_of(engine, prompts, limit=0.0):
    return ExpectedElicitation(HUNDRED, limit).elicit(engine, prompts)


def sample_of(engine, prompts):
    """Return the sample of prompts that are in-group and out-group by turns."""
    sampled = [Sampled(k, k % 2 == 0) for k in range(len(prompts))]
    return ExpectedElicitation(HUNDRED, 0.0).calibrate(engine, prompts, sampled)


def values(ratings, name="intensity"):
    return np.array([getattr(each, name) for each in ratings])


def test_shares_that_do_not_vary_give_the_exact_ratings_from_the_nodes_that_begin_numbers():
    engine, prompts = asked(40)
    sample = sample_of(engine, prompts[:16])
    assert why_exact(sample, HUNDRED) == ""
    exact = exact_of(engine, prompts[16:])
    engine.asked.clear()
    found = ExpectedElicitation(HUNDRED, 1e-6, sample).elicit(engine, prompts[16:])
    assert np.abs(values(found) - values(exact)).max() < 1e-9
    assert values(found, "mode").tolist() == values(exact, "mode").tolist()
    np.testing.assert_allclose(values(found, "number_mass"), values(exact, "number_mass"), atol=1e-12)
    assert (values(found, "pruned_points") + values(found, "ends_points")).max() < 1e-9
    # The answer, 1 to 9, and "1 0", of which "1 0 0" is longer.
    assert {sum(own) for own in zip(*engine.asked, strict=True)} == {11}


def test_shares_that_vary_are_not_calibrated_and_the_reason_says_by_how_much(monkeypatch):
    monkeypatch.setattr("audit.asking.elicitation.expected.SKIPPED", 0.0)
    engine, prompts = asked(24, spread=0.3)
    sample = sample_of(engine, prompts)
    moved = sample.moved[0]
    # The first prompt by hand: 1 to 10 as it is, since it was asked what follows them, and the others' mean shares.
    usual = np.where((sample.numbers >= 1) & (sample.numbers <= 10), sample.shares[0], sample.shares[1:].mean(axis=0))
    final, exact = (np.nan_to_num(sample.masses[0] * shares) for shares in (usual, sample.shares[0]))
    by_hand = final @ sample.numbers / final.sum() - exact @ sample.numbers / exact.sum()
    assert moved[0] == pytest.approx(by_hand, abs=1e-9)
    rms = math.sqrt((moved**2).mean())
    assert rms > 0.25
    assert why_exact(sample, HUNDRED) == f"ends of numbers vary between prompts, by {rms:.2g} hundredths of the scale"


def test_a_bound_is_that_of_a_prediction_interval():
    # One number ends half the time, beside a sure mass of .5 on 0: mean = 10·.25 / (.5 + .25). Of shares .4 and .6 the
    # means are 2 / .7 and 3 / .8; t(.995, 1) = 63.657; √(3 / 1)
    sure, mass, shares = np.array([[0.5, 0]]), np.array([[0, 0.5]]), np.array([[1, 0.4], [1, 0.6]])
    mean, bound = calibrated(sure, mass, np.array([0.0, 10]), shares)
    assert mean[0] == pytest.approx(10 / 3)
    square = ((2 / 0.7 - 10 / 3) ** 2 + (3 / 0.8 - 10 / 3) ** 2) / 2
    assert bound[0] == pytest.approx(63.6567 * math.sqrt(3) * math.sqrt(square), rel=1e-5)


def test_ratings_lie_within_their_statistical_bounds_and_what_was_skipped_within_its_own():
    engine, prompts = asked(220, spread=0.03, seed=3)
    sample = sample_of(engine, prompts[:32])
    assert why_exact(sample, HUNDRED) == ""
    exact = values(exact_of(engine, prompts[32:]))
    found = ExpectedElicitation(HUNDRED, 0.05, sample).elicit(engine, prompts[32:])
    statistical = values(found, "ends_points")
    assert np.isfinite(statistical).mean() > 0.9
    assert np.nanmax(statistical) <= 1
    assert values(found, "pruned_points").max() <= 0.05 + sample.systematic / 2
    off = np.abs(values(found) - exact)
    assert (off <= np.nan_to_num(statistical) + 0.05).mean() >= 0.97
    assert (off > np.nan_to_num(statistical) / 4 + 0.05).any()


def test_a_prompt_whose_bound_is_too_wide_is_asked_the_exact_way_and_no_other(monkeypatch):
    engine, prompts = asked(60, spread=0.03, seed=3)
    sample = sample_of(engine, prompts[:32])
    plain = ExpectedElicitation(HUNDRED, 0.05, sample).elicit(engine, prompts[32:])
    limit = float(np.nanmedian(values(plain, "ends_points")))
    monkeypatch.setattr("audit.asking.elicitation.expected.MOST", limit)
    found = ExpectedElicitation(HUNDRED, 0.05, sample).elicit(engine, prompts[32:])
    for one, before, exact in zip(found, plain, exact_of(engine, prompts[32:], 0.05), strict=True):
        if not before.ends_points <= limit:
            assert math.isnan(one.ends_points)
            assert one.intensity == pytest.approx(exact.intensity, abs=0.1)
        else:
            assert (one.intensity, one.ends_points) == pytest.approx((before.intensity, before.ends_points), abs=1e-12)
    assert 0 < np.isnan(values(found, "ends_points")).sum() < len(found)


def test_a_systematic_difference_between_in_group_and_out_group_prompts_is_bounded():
    # In-group prompts end less often at 50 and above. Their ratings, by everybody's shares, are too high.
    rng = np.random.default_rng(0)
    ends = np.full(101, 0.8)
    fewer = np.where(np.arange(101) >= 50, 0.78, 0.8)
    engine = FakeEngine({f"q{k}": answers(rng, fewer if k % 2 == 0 else ends) for k in range(232)})
    prompts = [Prompt("s", f"q{k}") for k in range(232)]
    sample = sample_of(engine, prompts[:32])
    found = ExpectedElicitation(HUNDRED, 0.05, sample).elicit(engine, prompts[32:])
    moved = values(found) - values(exact_of(engine, prompts[32:]))
    difference = moved[::2].mean() - moved[1::2].mean()
    assert difference > 0.1
    assert difference <= sample.systematic
    assert found[0].pruned_points >= sample.systematic / 2
    # Two-sample t by hand, on 30 degrees of freedom: t(.995) = 2.75.
    own, others = sample.moved[0][::2], sample.moved[0][1::2]
    se = math.sqrt((own.var() + others.var()) * 16 / 30 * (1 / 16 + 1 / 16))
    assert sample.systematic == pytest.approx(own.mean() - others.mean() + 2.75 * se, rel=1e-3)


def test_a_calibrated_rating_depends_neither_on_the_others_nor_on_their_order():
    engine, prompts = asked(60, spread=0.03, seed=5)
    elicitation = ExpectedElicitation(HUNDRED, 0.1, sample_of(engine, prompts[:24]))
    together, reversed_ = (elicitation.elicit(engine, own) for own in (prompts[24:], prompts[:23:-1]))
    alone = [elicitation.elicit(engine, [prompt])[0] for prompt in prompts[24:]]
    for name in ("intensity", "number_mass", "pruned_points", "ends_points", "mode"):
        for other in (reversed_[::-1], alone):  # the last bit of a sum may depend on how many are summed at once
            np.testing.assert_allclose(values(other, name), values(together, name), rtol=1e-12, atol=1e-14)


def test_a_kept_sample_is_the_same_sample():
    engine, prompts = asked(12, spread=0.03)
    sample = sample_of(engine, prompts)
    again = EndSample.of(sample.rows())
    assert again.prompts == tuple(Sampled(k, k % 2 == 0) for k in range(12))
    assert again.paths == sample.paths
    for name in ("numbers", "masses", "shares"):
        np.testing.assert_array_equal(getattr(again, name), getattr(sample, name))


def test_tokens_that_are_numbers_leave_nothing_to_calibrate():
    engine, prompts = asked(12, pattern=SPACED)
    sampled = [Sampled(k, None) for k in range(12)]
    assert ExpectedElicitation(TEN, 0.0).calibrate(engine, prompts, sampled) is None
    assert engine.asked == []


def test_where_only_the_largest_number_may_go_on_only_that_is_calibrated():
    # "1005" is "100" and "5": 50 .5 and 100 .4, of which 1 in 4 goes on. mean = (25 + 30) / .8
    table = {(): {"50": 0.5, "100": 0.4}, ("100",): {"5": 0.25, ".": 0.75}}
    engine = FakeEngine({f"q{k}": table for k in range(17)}, pattern=WHOLE)
    prompts = [Prompt("s", f"q{k}") for k in range(17)]
    sample = sample_of(engine, prompts[:16])
    assert why_exact(sample, HUNDRED) == ""
    engine.asked.clear()
    [rated] = ExpectedElicitation(HUNDRED, 0.05, sample).elicit(engine, prompts[16:])
    assert rated.intensity == pytest.approx(55 / 0.8, abs=1e-12)
    assert engine.asked == [[1]]


def test_a_sample_of_prompts_that_are_too_long_is_too_small():
    engine, prompts = asked(24)
    engine.max_model_len = 40
    sample = sample_of(engine, [*prompts[:15], Prompt("s", "word " * 40)])
    assert sample.prompts == tuple(Sampled(k, k % 2 == 0) for k in range(15))
    assert why_exact(sample, HUNDRED) == "only 15 prompts of the sample could be asked"


def test_a_number_that_most_of_the_sample_gives_no_probability_is_asked_of_the_others():
    engine, prompts = asked(17)
    tokens = [engine.tokenizer.hf.token(piece) for piece in ("7", "2")]
    for table in list(engine.table.values())[:9]:
        table[tokens[0],][tokens[1]] = 0.0
    sample = sample_of(engine, prompts[:16])
    exact = exact_of(engine, prompts[16:])
    engine.asked.clear()
    [found] = ExpectedElicitation(HUNDRED, 1e-6, sample).elicit(engine, prompts[16:])
    assert found.intensity == pytest.approx(exact[0].intensity, abs=1e-9)
    assert sum(map(sum, engine.asked)) == 12  # one more than the nodes that begin numbers


def test_a_sample_with_one_out_group_prompt_still_bounds_the_difference_that_it_shows():
    rng = np.random.default_rng(0)
    ends = np.full(101, 0.8)
    fewer = np.where(np.arange(101) >= 50, 0.78, 0.8)
    engine = FakeEngine({f"q{k}": answers(rng, ends if k == 0 else fewer) for k in range(16)})
    prompts = [Prompt("s", f"q{k}") for k in range(16)]
    sample = ExpectedElicitation(HUNDRED, 0.0).calibrate(engine, prompts, [Sampled(k, k > 0) for k in range(16)])
    # Student's interval by hand, of a group of one: its variance is the other's, on 14 degrees of freedom, t = 2.977.
    own, other = sample.moved[0][1:], sample.moved[0][0]
    se = math.sqrt(own.var(ddof=1) * (1 / 15 + 1))
    assert sample.systematic == pytest.approx(abs(own.mean() - other) + 2.977 * se, rel=1e-3)


def grid_of(*kinds):
    """Return a plan in whose grid these kinds of pairs, True, False and None for a baseline, come by turns."""
    cells = [
        SimpleNamespace(perceiver=kind, experiencer=None, dimension=SimpleNamespace(in_group=lambda kind, _: kind))
        for kind in kinds
    ]
    return SimpleNamespace(config=SimpleNamespace(seed=0), grid=cells * (360 // len(cells)))


@pytest.mark.parametrize(
    ("kinds", "least"),
    [
        ((True, False, *[None] * 7), {True: 16, False: 8}),  # the out-group is rare beside baselines
        ((True, False, False, False), {True: 16, False: 16}),
        ((False, None), {False: 8}),
        ((True,), {True: 32}),
        ((None,), {None: 32}),
    ],
)
@pytest.mark.parametrize("seed", range(6))
def test_a_sample_has_both_kinds_of_pairs_that_a_gap_compares(kinds, least, seed):
    plan = grid_of(*kinds)
    plan.config.seed = seed
    places = _draw(plan, 32)
    assert places == sorted(set(places))
    assert len(places) == 32
    counted = Counter(plan.grid[place].perceiver for place in places)
    assert all(counted[kind] >= n for kind, n in least.items())
    assert counted[True] == least.get(True, 0)
