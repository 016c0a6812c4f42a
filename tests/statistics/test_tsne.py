import sys

import numpy as np
import pandas as pd
import pytest

from audit.comparing.tables import PERCEIVER_MAP
from audit.errors import NotEstimableError
from audit.statistics.tsne import map_perceivers, perplexity_of

CLUSTERS = {f"g{n}": f"cluster {n // 6}" for n in range(12)}


def cells(z):
    """Cells of as many perceivers as rows, and a baseline on both sides."""
    n, m = z.shape
    rows = [
        {
            "perceiver": f"a {p}",
            "experiencer": f"an {e}",
            "perceiver_group": f"g{p}",
            "experiencer_group": f"g{e}",
            "in_group": None if p == n or e == m else p == e,
            "z": 99.0 if p == n or e == m else z[p, e],
        }
        for p in range(n + 1)
        for e in range(m + 1)
    ]
    return pd.DataFrame(rows)


def two_kinds(seed=0):
    """Twelve rows about two centres that lie far apart."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.normal(size=(2, 12)) * 5, 6, axis=0) + rng.normal(size=(12, 12)) * 0.1


def mapped(z, **changes):
    return pd.DataFrame(list(map_perceivers(cells(z), **({"clusters": CLUSTERS, "seed": 3} | changes))))


def test_perplexity_is_below_the_number_of_perceivers_wherever_there_is_a_map():
    assert [perplexity_of(n) for n in (6, 18, 21, 91, 400)] == [2, 5, 6, 30, 30]
    assert all(perplexity_of(n) < n for n in range(6, 200))


def test_alike_rows_come_to_stand_near_each_other_and_baselines_have_no_place():
    pytest.importorskip("sklearn")
    table = mapped(two_kinds())
    assert set(table) | {"run", "dimension"} == set(PERCEIVER_MAP)
    assert table["perceiver"].tolist() == [f"a {p}" for p in range(12)]
    assert table["cluster"].tolist() == ["cluster 0"] * 6 + ["cluster 1"] * 6
    assert (set(table["perplexity"]), set(table["seed"])) == ({3.0}, {3})
    xy = table[["x", "y"]].to_numpy()
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    for place in range(12):
        nearest = np.argsort(distance[place])[1:3]
        assert set(nearest // 6) == {place // 6}


def test_the_same_seed_gives_the_same_map():
    pytest.importorskip("sklearn")
    pd.testing.assert_frame_equal(mapped(two_kinds()), mapped(two_kinds()))


@pytest.mark.parametrize(
    ("z", "fault"),
    [
        (two_kinds()[:5], "takes 6 or more, and there are 5"),
        (two_kinds()[:, :1], "two experiencers or more, and there is one"),
        (np.where(np.eye(12) > 0, np.nan, two_kinds()), "12 of 144 pairs have no published value"),
        (np.ones((12, 12)), "all perceivers have the same row"),
    ],
)
def test_where_there_is_no_map_the_reason_is_given(z, fault):
    with pytest.raises(NotEstimableError, match=fault):
        mapped(z)


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(NotEstimableError, match=r"not installed; pip install 'empathy-audit\[tsne"):
        mapped(two_kinds())
