"""Which test may say "a gap between groups"? How often each says so where there is none, and where there is one.

    python benchmarks/deciding_test.py [draws=4000]

Cell means of complete designs are drawn: perceivers have the first term of each group, experiencers all terms. On top
of a true gap there are affinities of pairs of groups, affinities of pairs of terms, own gaps of groups, how narratives
differ in their gap, and the noise of ratings. Perceivers and experiencers cancel and are left out. The tests:

- *narratives*: the t interval over narratives, which treats every pair of words as fixed.
- *groups*: the deciding test, groups as a sample of such groups (:func:`audit.statistics.scopes.widened`).
- *own group*: the place of the true gap among those of all ways to say which group is whose own.
- *other pairs*: a t-test against how the other pairs of groups differ.

The table is that of docs/statistics.md. One core needs about 3 minutes.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]
TESTS = ("narratives", "groups", "own group", "other pairs")
NOISE, SLOPE = 4.0, 1.0
"""Standard deviations of a rating and of narratives' true gaps, in points."""


def weights(n_groups: int, n_terms: int, without: int | None = None) -> tuple[Array, Array, Array, Array]:
    """Return weights of δ, shape (P, E), the groups of both sides, and which cells repeat their words.

    In-group is estimated beside repeated words where groups have several terms; ``without`` leaves a group out.
    """
    perceivers, experiencers = np.arange(n_groups), np.repeat(np.arange(n_groups), n_terms)
    own = perceivers[:, None] == experiencers
    repeated = own & (np.tile(np.arange(n_terms), n_groups) == 0)
    kept = np.ones(own.shape, dtype=bool)
    if without is not None:
        kept = (perceivers != without)[:, None] & (experiencers != without)
    columns = [np.broadcast_to((perceivers == p)[:, None], own.shape).ravel() for p in range(n_groups)]
    columns += [np.broadcast_to(np.arange(experiencers.size) == e, own.shape).ravel() for e in range(experiencers.size)]
    columns += [repeated.ravel()] if n_terms > 1 else []
    design = np.array(columns, dtype=np.float64).T[kept.ravel()]
    in_group = own.ravel()[kept.ravel()].astype(np.float64)
    rest = in_group - design @ np.linalg.lstsq(design, in_group, rcond=1e-9)[0]
    w = np.zeros(own.size)
    w[kept.ravel()] = rest / (rest @ rest)
    return w.reshape(own.shape), perceivers, experiencers, repeated


def own_gaps(kind: str, sd: float, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Draw groups' own gaps, of mean 0: shape (draws, groups)."""
    if kind == "equal":
        return np.zeros(shape)
    if kind == "normal":
        return rng.normal(0, sd, shape)
    if kind == "skewed":
        return sd * (rng.exponential(1, shape) - 1)
    if kind == "one in five odd":
        return sd * ((rng.random(shape) < 0.2) - 0.2) / 0.4
    raise ValueError(kind)


def of_groups_as_a_sample(
    means: Array, variance: Array, of_noise: float, n_groups: int, n_terms: int, n_narratives: int
) -> Array:
    """Return p of the deciding test, by draw.

    Parameters
    ----------
    means
        Shape (draws, P, E), cell means.
    variance
        Shape (draws,), of narratives' gaps.
    of_noise
        What of it is the noise of ratings.
    n_groups, n_terms, n_narratives
        Of the design.
    """
    delta = np.einsum("pe,npe->n", weights(n_groups, n_terms)[0], means)
    without = np.array([np.einsum("pe,npe->n", weights(n_groups, n_terms, k)[0], means) for k in range(n_groups)]).T
    jackknife = (n_groups - 1) / n_groups * ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    narrow = (variance / n_narratives) ** 0.5
    se = np.maximum((jackknife + np.maximum(0, variance - of_noise) / n_narratives) ** 0.5, narrow)
    return np.asarray(2 * stats.t.sf(np.abs(delta) / se, min(n_groups, n_narratives) - 1))


def rejections(
    n_groups: int, n_terms: int, n_narratives: int, *, of_groups: float, of_terms: float, own: str, gap: float,
    missing: float, draws: int, seed: int, alpha: float = 0.05,
) -> dict[str, float]:  # fmt: skip
    """Return how often each test finds a gap. Missing ratings, at random, make cell means noisier."""
    rng = np.random.default_rng(seed)
    w, perceivers, experiencers, repeated = weights(n_groups, n_terms)
    is_own = perceivers[:, None] == experiencers
    pairs = rng.normal(0, of_groups, (draws, n_groups, n_groups))
    means = pairs[:, perceivers][:, :, experiencers] + rng.normal(0, of_terms, (draws, *w.shape))
    means += (own_gaps(own, 1.0, (draws, n_groups), rng)[:, perceivers][:, :, None] + gap) * is_own
    noise = NOISE / (n_narratives * (1 - missing)) ** 0.5
    means += rng.normal(0, noise, means.shape) + rng.normal(0, SLOPE / n_narratives**0.5, draws)[:, None, None] * is_own
    delta = np.einsum("pe,npe->n", w, means)

    of_noise = NOISE**2 * float((w**2).sum()) / (1 - missing)
    variance = (SLOPE**2 + of_noise) * rng.chisquare(n_narratives - 1, draws) / (n_narratives - 1)
    narrow = (variance / n_narratives) ** 0.5
    found = {"narratives": 2 * stats.t.sf(np.abs(delta) / narrow, n_narratives - 1)}

    found["groups"] = of_groups_as_a_sample(means, variance, of_noise, n_groups, n_terms, n_narratives)

    there = ~repeated if n_terms > 1 else np.ones_like(repeated)
    blocks = np.stack([
        means[:, (perceivers[:, None] == a) & (experiencers == b) & there].mean(axis=1)
        for a in range(n_groups) for b in range(n_groups)
    ], axis=1).reshape(draws, n_groups, n_groups)  # fmt: skip
    centred = (
        blocks - blocks.mean(1, keepdims=True) - blocks.mean(2, keepdims=True) + blocks.mean((1, 2), keepdims=True)
    )
    orders = list(itertools.permutations(range(n_groups))) if n_groups < 7 else [
        tuple(range(n_groups)), *(tuple(rng.permutation(n_groups)) for _ in range(399))
    ]  # fmt: skip
    dealt = np.stack([centred[:, np.arange(n_groups), list(order)].mean(axis=1) for order in orders], axis=1)
    found["own group"] = (np.abs(dealt) >= np.abs(dealt[:, :1]) - 1e-12).mean(axis=1)

    in_blocks = centred[:, np.arange(n_groups), np.arange(n_groups)].mean(axis=1) * n_groups / (n_groups - 1)
    residual = centred - (np.eye(n_groups) - 1 / n_groups) * in_blocks[:, None, None]
    df = (n_groups - 1) ** 2 - 1
    spread = ((residual**2).sum(axis=(1, 2)) / df / (n_groups - 1)) ** 0.5
    found["other pairs"] = 2 * stats.t.sf(np.abs(in_blocks) / spread, df)
    return {name: float((found[name] <= alpha).mean()) for name in TESTS}


CASES = [
    (groups, terms, narratives, of_groups, of_terms, own, missing)
    for groups in (5, 6, 8, 12)
    for terms, narratives, of_groups, of_terms, own, missing in (
        (2, 12, 0.5, 0.3, "equal", 0.0), (2, 100, 0.5, 0.3, "equal", 0.0), (2, 400, 0.5, 0.3, "equal", 0.0),
        (1, 100, 0.5, 0.3, "equal", 0.0), (3, 100, 0.5, 0.3, "equal", 0.0), (2, 6, 0.5, 0.3, "equal", 0.0),
        (2, 100, 0.5, 0.3, "equal", 0.3), (2, 100, 0.5, 0.3, "normal", 0.0), (2, 400, 0.5, 0.3, "normal", 0.3),
        (2, 100, 0.5, 0.3, "skewed", 0.0), (2, 100, 0.5, 0.3, "one in five odd", 0.0),
        (2, 400, 0.0, 0.0, "one in five odd", 0.0),
    )
]  # fmt: skip


def main() -> None:
    """Print the table in Markdown."""
    draws = int(dict(word.split("=") for word in sys.argv[1:]).get("draws", 4000))
    print(
        f"| groups, terms, narratives | affinities of pairs of groups, of terms (SD) | own gaps (SD 1) | missing | "
        f"{' | '.join(f'no gap: {name}' for name in TESTS)} | gap of 1 point: groups | gap of 2 points: groups |"
    )
    print("|---|---|---|---|" + "---|" * 6)
    for place, (groups, terms, narratives, of_groups, of_terms, own, missing) in enumerate(CASES):
        told = {"of_groups": of_groups, "of_terms": of_terms, "own": own, "missing": missing, "draws": draws}
        none = rejections(groups, terms, narratives, gap=0.0, seed=place, **told)
        power = [rejections(groups, terms, narratives, gap=gap, seed=place, **told)["groups"] for gap in (1.0, 2.0)]
        numbers = " | ".join(f"{100 * share:.1f}" for share in (*none.values(), *power))
        print(f"| {groups}, {terms}, {narratives} | {of_groups:g}, {of_terms:g} | {own} | {missing:.0%} | {numbers} |",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
