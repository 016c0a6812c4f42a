"""The table of docs/statistics.md is of the estimator that ships, and not of a likeness of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from cubes import cube_of, mask_of
from scipy import stats

from audit.statistics.echo import echo_free
from audit.statistics.headline import headline_gap
from audit.statistics.scopes import group_scope

PATH = Path(__file__).parents[2] / "benchmarks" / "deciding_test.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("deciding_test", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("n_groups", "n_terms", "n"), [(5, 1, 12), (6, 2, 20), (5, 3, 4)])
def test_the_benchmark_s_test_of_groups_is_that_of_a_run(benchmark, n_groups, n_terms, n):
    rng = np.random.default_rng(n_groups + n_terms)
    k = n_groups * n_terms
    group = np.repeat(np.arange(n_groups), n_terms)
    terms = [f"way{place % n_terms} of {chr(65 + own)}" for place, own in enumerate(group)]
    firsts = list(range(0, k, n_terms))
    own = mask_of([f"g{each}" for each in group[firsts]], [f"g{each}" for each in group])
    means = 50 + rng.normal(0, 1, (n_groups, k)) + rng.normal(0, 3, (n_groups, 1)) + rng.normal(0, 3, k)
    y = means + (0.8 + rng.normal(0, 1, (n, 1, 1))) * own + rng.normal(0, 4, (n, n_groups, k))
    names = [f"g{each}" for each in group]
    cube = cube_of(
        y, own, groups=names, perceivers=tuple(terms[first] for first in firsts), experiencers=tuple(terms),
        perceiver_groups=tuple(names[first] for first in firsts), experiencer_groups=tuple(names),
    )  # fmt: skip
    if n_terms > 1:
        cube = echo_free(cube, {term: f"stem {place}" for place, term in enumerate(terms)})
    narrow = headline_gap(cube, confidence=0.95)
    found = group_scope(cube, narrow, confidence=0.95).estimate

    w, perceivers, _, _ = benchmark.weights(n_groups, n_terms)
    assert perceivers.tolist() == group[firsts].tolist()
    gaps = np.einsum("pe,npe->n", w, y)
    np.testing.assert_allclose(narrow.by_narrative, gaps, atol=1e-9)
    [p] = benchmark.of_groups_as_a_sample(
        y.mean(axis=0, keepdims=True), gaps.var(ddof=1, keepdims=True), narrow.noise.mean(), n_groups, n_terms, n
    )
    assert p == pytest.approx(found.p)
    assert 0 < p < 1


def test_the_benchmark_counts_what_it_says(benchmark):
    """Where nothing but noise differs the tests over narratives and groups reject about 5%; a gap of 3 is found."""
    told = {"of_groups": 0.0, "of_terms": 0.0, "own": "equal", "missing": 0.0, "draws": 400, "seed": 1}
    none = benchmark.rejections(5, 2, 100, gap=0.0, **told)
    assert set(none) == set(benchmark.TESTS)
    assert max(none["narratives"], none["groups"]) <= stats.binom.ppf(0.999, 400, 0.05) / 400
    assert benchmark.rejections(5, 2, 100, gap=3.0, **told)["groups"] > 0.9
    pairs = benchmark.rejections(5, 2, 400, gap=0.0, **told | {"of_groups": 0.5})
    assert pairs["narratives"] > 0.3 > 0.09 > pairs["groups"]
