"""How often numbers end: shares from a sample of prompts, so that other prompts need not be asked.

"72" counts as 72 only if no digit follows. The share that ends there hardly depends on the prompt, but to ask for it is
four fifths of all questions. So with ``elicitation.ends=calibrated`` a sample of the run's prompts is asked about every
number first, and all ratings take the sample's mean share of each number that no longer number begins with.

Nothing that is asked of a prompt bounds the error of that. The bound is statistical: the rating is computed with the
shares of each of the m prompts of the sample, and the bound is the half-width of the 99% prediction interval,
t(.995, m − 1) √((m + 1) / (m − 1)) times the root mean square distance to the reported rating. It assumes that the
sample's prompts are like the others, and that such distances are roughly normal. A prompt whose bound is wider than
:data:`MOST` is asked the exact way.

Such errors differ between prompts, and widen intervals as other noise does. In δ an error would matter that in-group
prompts have and out-group prompts have not. So half of the sample is in-group, and each of its prompts is rated by the
shares of the others, and exactly. The 99% interval of the difference in what this moves, in-group minus out-group,
bounds the systematic error: :attr:`EndSample.systematic`.

If ends vary too much in the sample (:func:`why_exact`), the run is asked the exact way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from audit.asking.elicitation.numbers import NumberTree, Path
from audit.tables.formatting import plural
from stimuli.prompts import Scale

SAMPLE: Final = 32  # prompts of the sample
WORTH: Final = 8  # a run with fewer prompts than this times the sample's is asked the exact way: it would save little
LEAST: Final = 16  # fewest prompts of a sample: some may be too long for the model
SKIPPED: Final = 0.001  # hundredths of the scale that what a sample is not asked about may move a rating
VARIES: Final = 0.25  # root mean square, in hundredths of the scale, of what shares move: above, ends count as varying
MOST: Final = 1.0  # widest bound of a rating with calibrated ends, in hundredths of the scale
OUTSIDE: Final = 0.1  # share of the sample outside its own bounds, above which the bounds do not hold
DUST: Final = 1e-9  # rounding error allowed on a bound, in points
_LEVEL: Final = 0.995  # quantile of t for 99%, both sides

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sampled:
    """A prompt of the sample."""

    prompt_index: int
    in_group: bool | None  # None if perceiver or experiencer is a baseline


@dataclass(frozen=True)
class EndSample:
    """The m prompts of a sample, and the K spellings of the scale's numbers."""

    prompts: tuple[Sampled, ...]
    paths: tuple[Path, ...]
    numbers: _Floats  # shape (K,)
    masses: _Floats  # shape (m, K): the probability of a number's tokens
    shares: _Floats  # shape (m, K): the share of it that ends there; NaN if it was not asked

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> EndSample:
        """Return the sample that rows of ``tables.END_SHARES`` hold; each prompt has the same numbers, in one order."""
        rows = list(rows)
        prompts = {int(row["prompt_index"]): row["in_group"] for row in rows}
        first = rows[: len(rows) // max(1, len(prompts))]

        def table(name: str) -> _Floats:
            return np.array([row[name] for row in rows], dtype=np.float64).reshape(len(prompts), len(first))

        return cls(
            tuple(Sampled(place, in_group) for place, in_group in prompts.items()),
            tuple(tuple(map(int, row["tokens"].split())) for row in first),
            np.array([row["number"] for row in first], dtype=np.float64),
            table("probability"),
            table("share"),
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of ``tables.END_SHARES``."""
        return [
            {
                "prompt_index": prompt.prompt_index,
                "in_group": prompt.in_group,
                "number": int(number),
                "tokens": " ".join(map(str, path)),
                "probability": mass,
                "share": None if math.isnan(share) else share,
            }
            for prompt, masses, shares in zip(self.prompts, self.masses.tolist(), self.shares.tolist(), strict=True)
            for path, number, mass, share in zip(self.paths, self.numbers, masses, shares, strict=True)
        ]

    def on(self, tree: NumberTree) -> _Floats:
        """Return shape (m, N): the shares at the tree's nodes; NaN where ends have to be asked."""
        place = {path: k for k, path in enumerate(self.paths) if self._known[k]}
        shares = np.full((len(self.prompts), len(tree.paths)), np.nan)
        for node, path in enumerate(tree.paths):
            if tree.ends[node] and tree.asked[node] and path in place:
                shares[:, node] = self._filled[:, place[path]]
        return shares

    @cached_property
    def moved(self) -> tuple[_Floats, _Floats]:
        """By how many points the other prompts' shares move each prompt's exact rating, and the bound: shape (m,)."""
        known = self._known
        final = self.masses * self._filled
        total = final.sum(axis=1)
        exact = np.divide(final @ self.numbers, total, out=np.full(len(total), np.nan), where=total > 0)
        found = np.empty((2, len(exact)))
        for place in range(len(exact)):
            sure = np.where(known, 0.0, final[place])[None]
            mass = np.where(known, self.masses[place], 0.0)[None]
            others = np.where(known, np.delete(self._filled, place, axis=0), 0.0)
            mean, bound = calibrated(sure, mass, self.numbers, others)
            found[:, place] = mean[0] - exact[place], bound[0]
        return found[0], found[1]

    @property
    def rms(self) -> float:
        """The root mean square of :attr:`moved`, in points."""
        return float(np.sqrt((self.moved[0] ** 2).mean()))

    @cached_property
    def systematic(self) -> float:
        """The largest difference in :attr:`moved`, in-group minus out-group, that its 99% interval has, in points.

        The interval is Student's, of equal variances. Without either group, which no δ compares then, halves of the
        sample stand for them, with a difference of 0.
        """
        moved = self.moved[0]
        groups = [moved[[each.in_group is own for each in self.prompts]] for own in (True, False)]
        difference = 0.0
        if min(map(len, groups)):
            difference = float(groups[0].mean() - groups[1].mean())
        else:
            groups = [moved[::2], moved[1::2]]
        df = sum(map(len, groups)) - 2
        variance = sum(float(((own - own.mean()) ** 2).sum()) for own in groups) / df
        se = math.sqrt(variance * sum(1 / len(own) for own in groups))
        return abs(difference) + float(stdtrit(df, _LEVEL)) * se

    @cached_property
    def _known(self) -> npt.NDArray[np.bool_]:
        """Shape (K,): whether most prompts tell a number's share, and no longer number begins with it."""
        begin = {path[:end] for path in self.paths for end in range(len(path))}
        last = np.array([path not in begin for path in self.paths], dtype=bool)
        known: npt.NDArray[np.bool_] = last & (np.isnan(self.shares).mean(axis=0) < 0.5)
        return known

    @cached_property
    def _filled(self) -> _Floats:
        """The shares, with the mean of the others for a prompt in which a number weighs too little to be asked."""
        there = ~np.isnan(self.shares)
        means = np.nan_to_num(self.shares).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        return np.where(there, self.shares, means)


def calibrated(sure: _Floats, mass: _Floats, numbers: _Floats, shares: _Floats) -> tuple[_Floats, _Floats]:
    """Return n prompts' means over numbers, and the bounds on their errors by m prompts' shares, in points.

    ``sure``, shape (n, K), is the mass that counts whatever the shares are; ``mass`` that of which a share ends, the
    mean over ``shares``, shape (m, K). Bounds are the statistical ones of this module. A prompt without any mass has
    NaN as its mean.
    """

    def mean(own: _Floats) -> _Floats:
        # Row by row, not as a product of matrices, whose last bits may depend on how many prompts are read together.
        final = sure + mass * own
        total = final.sum(axis=1)
        points = (final * numbers).sum(axis=1)
        means: _Floats = np.divide(points, total, out=np.full_like(points, np.nan), where=total > 0)
        return means

    m = len(shares)
    reported = mean(shares.mean(axis=0))
    squares = sum((mean(own) - reported) ** 2 for own in shares)
    return reported, float(stdtrit(m - 1, _LEVEL)) * math.sqrt((m + 1) / (m - 1)) * np.sqrt(squares / m)


def why_exact(sample: EndSample, scale: Scale) -> str:
    """Say why the sample's shares may not stand for other prompts'; empty if they may."""
    if len(sample.prompts) < LEAST:
        return f"only {plural(len(sample.prompts), 'prompt')} of the sample could be asked"
    moved, bounds = sample.moved
    hundredths = sample.rms * 100 / (scale.high - scale.low)
    if not hundredths <= VARIES:
        return f"ends of numbers vary between prompts, by {hundredths:.2g} hundredths of the scale"
    outside = int((abs(moved) > bounds + DUST).sum())
    if outside > OUTSIDE * len(moved):
        return f"{outside} of {len(moved)} prompts of the sample lie outside their bounds"
    return ""
