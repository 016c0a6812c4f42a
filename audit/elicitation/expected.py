"""Elicitation ``expected``: the mean of the model's own distribution over the scale's whole numbers.

A model that answers in words at temperature 0 still gives each number of the scale a probability as its first
words. Those probabilities are read from next-token probabilities, by walking the tree of the numbers' tokens.

The probability of a number is that of its tokens, times that of no digit following the last of them: "7" is not the
beginning of "72", and "72" not that of "723", which is no number of the scale. A tokenizer with a token for each number
needs no such question. *Number mass* is the sum over the scale: how much of the distribution began like a number of the
scale at all. A decimal part is not asked: "7.5" counts as 7.

What weighs little is not asked. A number whose end is not asked is taken to end as often as the median of those of the
same prompt does that were asked; it could end always, or never. A branch that is not followed is left out; it could
hold nothing, or all of its mass on any one of its numbers. The largest distance that the mean could have from the one
reported, over all of these cases together, is the rating's ``pruned_points``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from audit.elicitation.base import Elicited, encode_prompts
from audit.elicitation.numbers import NumberTree, number_tree
from audit.engines.base import Done, Engine, Reading, unwatched
from audit.schema import Status
from stimuli.prompts import Prompt, Scale

_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]


@dataclass
class ExpectedElicitation:
    """Reads the distribution over the scale's numbers.

    Attributes
    ----------
    scale
        Whose whole numbers are asked.
    max_pruned_points
        As long as what has not been asked could move an intensity by more, in scale points, more of it is asked.
    """

    scale: Scale
    max_pruned_points: float
    _tree: NumberTree | None = field(default=None, repr=False)

    @classmethod
    def of(cls, scale: Scale, hundredths: float) -> Self:
        """Return the elicitation on a scale that bounds what is not asked in hundredths of the scale."""
        return cls(scale, hundredths * (scale.high - scale.low) / 100)

    @property
    def room(self) -> int:
        """See :class:`audit.elicitation.base.Elicitation`: a space, the largest number's digits, and what follows."""
        return len(str(self.scale.high)) + 2

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[Elicited]:
        """See :class:`audit.elicitation.base.Elicitation`."""
        if self._tree is None:
            before = engine.tokenizer.render(prompts[0])
            self._tree = number_tree(engine.tokenizer, self.scale, before=before)
        tree = self._tree
        encoded = encode_prompts(engine, prompts, room=tree.room)
        fitting = {place: ids for place, ids in enumerate(encoded) if ids is not None}
        outcomes = [Elicited(Status.FAILED) for _ in prompts]
        done(len(prompts) - len(fitting))
        places = list(fitting)
        likely = np.zeros(len(tree.paths), dtype=bool)
        for reading in engine.read(list(fitting.values())):
            walk = _Walk(tree, len(reading.places), self.max_pruned_points)
            asked = walk.walk(reading, likely)
            # What most prompts needed is asked of the next ones at once: a pass over more tokens costs less than two.
            likely = asked.mean(axis=0) >= 0.5
            distributions, bounds = walk.distributions(self.scale), walk.bounds()
            for k, distribution, bound in zip(reading.places, distributions, bounds, strict=True):
                outcome = summarise(distribution, low=self.scale.low)
                outcomes[places[k]] = replace(
                    outcome,
                    pruned_points=float(bound) if outcome.status is Status.RATED else math.nan,
                    n_prompt_tokens=len(fitting[places[k]]),
                )
            done(len(reading.places))
        return outcomes


class _Walk:
    """The walks of n prompts down one tree of N nodes, side by side.

    A node is *open* when its probability is known and what follows it is not. ``mass`` is the probability of a node's
    path, ``final`` that of its number where it is known: without the share that goes on with a digit.
    """

    def __init__(self, tree: NumberTree, n_prompts: int, max_points: float) -> None:
        shape = (n_prompts, len(tree.paths))
        self._tree = tree
        self._max_points = max_points
        self._mass = np.zeros(shape)
        self._final = np.zeros(shape)
        self._open = np.zeros(shape, dtype=bool)
        self._ended = np.full(shape, np.nan)  # of numbers that nothing goes on with: the share that ends there
        self._ends = ~np.isnan(tree.numbers) & np.array([node not in tree.children for node in range(shape[1])])
        self._reach(np.arange(n_prompts), np.array([0]), np.ones((n_prompts, 1)))
        self._falling, self._rising = np.argsort(-tree.highs, kind="stable"), np.argsort(tree.lows, kind="stable")

    def walk(self, reading: Reading, likely: _Bools) -> _Bools:
        """Ask until what is open can move no mean by more than is allowed; return which nodes each prompt needed.

        Parameters
        ----------
        reading
            Of the n prompts.
        likely
            Shape (N,): nodes to ask about with the first question. What they say is used only if it is needed, so that
            a rating does not depend on what was likely.
        """
        tree = self._tree
        needed = np.zeros_like(self._open)
        row_of = np.full(self._open.shape, -1)  # where the answer to each question stands
        answers = np.empty((0, len(tree.tokens)))
        while (wanted := self._wanted()).any():
            missing = (wanted if needed.any() else wanted | likely) & (row_of < 0)
            if missing.any():
                tails = [[tree.paths[k] for k in np.flatnonzero(row).tolist()] for row in missing]
                row_of[missing] = len(answers) + np.arange(missing.sum())
                answers = np.concatenate([answers, *reading.probabilities(tails, tree.tokens)])
            for k in np.flatnonzero(wanted.any(axis=0)).tolist():
                prompts = np.flatnonzero(wanted[:, k])
                self._follow(prompts, k, answers[row_of[prompts, k]])
            needed |= wanted
        return needed

    def _reach(self, prompts: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64], mass: _Floats) -> None:
        at = np.ix_(prompts, nodes)
        self._mass[at] = mass
        self._open[at] = self._tree.asked[nodes] & (mass > 0)
        self._final[at] = np.where(self._ends[nodes] & ~self._tree.asked[nodes], mass, 0.0)

    def _follow(self, prompts: npt.NDArray[np.int64], node: int, following: _Floats) -> None:
        """Take in the probabilities of ``tree.tokens`` after a node, of shape (prompts, k)."""
        tree = self._tree
        mass = self._mass[prompts, node]
        if not np.isnan(tree.numbers[node]):
            final = mass * np.maximum(0.0, 1.0 - following[:, tree.digits].sum(axis=1))
            self._final[prompts, node] = final
            if self._ends[node]:
                self._ended[prompts, node] = final / mass
        self._open[prompts, node] = False
        children = tree.children.get(node)
        if children is not None:
            self._reach(prompts, children, mass[:, None] * following[:, tree.columns[children]])

    def _likely(self) -> _Floats:
        """Return shape (n, N): the probability of each node's number, where it is not known the likely one."""
        share = np.ones(len(self._ended))
        if (told := ~np.isnan(self._ended).all(axis=1)).any():
            # The median: round numbers, which are asked first, are gone on with more often than the others.
            share[told] = np.nanmedian(self._ended[told], axis=1)
        return np.where(self._open & self._ends, self._mass * share[:, None], self._final)

    def distributions(self, scale: Scale) -> _Floats:
        """Return shape (n, numbers): the probability of each number of the scale, over its spellings."""
        spelt = np.flatnonzero(~np.isnan(self._tree.numbers))
        onto = np.zeros((len(spelt), scale.high - scale.low + 1))
        onto[np.arange(len(spelt)), (self._tree.numbers[spelt] - scale.low).astype(int)] = 1.0
        distributions: _Floats = self._likely()[:, spelt] @ onto
        return distributions

    def _means(self) -> tuple[_Floats, _Floats]:
        """Return the probability of any number, and the mean; 0 where there is none."""
        likely = self._likely()
        total = likely.sum(axis=1)
        points = likely @ np.nan_to_num(self._tree.numbers)
        return total, np.divide(points, total, out=np.zeros_like(total), where=total > 0)

    def bounds(self) -> _Floats:
        """Return shape (n,): how far the mean could be from the one reported, in points; inf where it could be any."""
        tree = self._tree
        total, mean = self._means()
        loose = np.where(self._open, self._mass, 0.0)
        sure = self._final
        mass, points = sure.sum(axis=1, keepdims=True), (sure @ np.nan_to_num(tree.numbers))[:, None]
        farthest = np.zeros(len(mean))
        somewhere: _Bools = np.any(self._open, axis=0)  # columns of zeros change no sum
        for falling, ends, sign in ((self._falling, tree.highs, 1.0), (self._rising, tree.lows, -1.0)):
            order = falling[somewhere[falling]]
            # The extreme mean gives all their mass to the open nodes on its side, and none to the others.
            taken = loose[:, order]
            masses = np.hstack([mass, mass + np.cumsum(taken, axis=1)])
            sums = np.hstack([points, points + np.cumsum(taken * ends[order], axis=1)])
            means = np.divide(sums, masses, out=np.full_like(sums, -np.inf * sign), where=masses > 0)
            extreme = (means * sign).max(axis=1)
            farthest = np.maximum(farthest, np.where(np.isfinite(extreme), extreme - sign * mean, 0.0))
        return np.where(self._open.any(axis=1), np.where(total > 0, farthest, np.inf), 0.0)

    def _wanted(self) -> _Bools:
        """Return shape (n, N): the open nodes to ask about now, those that can move the mean or the mode most."""
        tree = self._tree
        total, mean = self._means()
        loose = np.where(self._open, self._mass, 0.0)
        at = np.flatnonzero(self._open.any(axis=0))
        scale = np.where(total > 0, total, loose.sum(axis=1))[:, None]
        reach = np.maximum(np.abs(tree.highs[at] - mean[:, None]), np.abs(tree.lows[at] - mean[:, None]))
        influence = np.divide(loose[:, at] * reach, scale, out=np.zeros((len(mean), len(at))), where=scale > 0)
        unsure = self.bounds() > self._max_points
        order = np.argsort(influence, axis=1, kind="stable")
        left_out = np.cumsum(np.take_along_axis(influence, order, axis=1), axis=1) <= self._max_points
        asked = np.zeros_like(self._open)
        asked[:, at] = np.take_along_axis(~left_out, np.argsort(order, axis=1), axis=1)
        # The most probable number is one whose end has been asked.
        top = loose >= self._likely().max(axis=1, keepdims=True)
        wanted: _Bools = self._open & ((asked & unsure[:, None]) | top)
        # Near the mean a node has little influence, as long as others keep it there: if it is their turn, the heaviest.
        stuck = unsure & ~wanted.any(axis=1)
        wanted[stuck] = self._open[stuck] & (loose[stuck] >= loose[stuck].max(axis=1, keepdims=True) / 2)
        return wanted


def summarise(distribution: _Floats, *, low: int) -> Elicited:
    """Return mean, mode, spread and number mass of unnormalised probabilities over the numbers from ``low`` up.

    Without any mass on a number there is no rating: the response is unparseable, not an intensity of 0.
    """
    mass = float(distribution.sum())
    if not mass > 0:
        return Elicited(Status.UNPARSEABLE, number_mass=0.0)
    numbers = low + np.arange(len(distribution), dtype=np.float64)
    share = distribution / mass
    # Rounding may carry a mean past an end of the scale by its last bit.
    mean = min(max(float(share @ numbers), float(numbers[0])), float(numbers[-1]))
    return Elicited(
        Status.RATED,
        intensity=mean,
        number_mass=min(mass, 1.0),
        mode=float(numbers[distribution.argmax()]),
        spread=math.sqrt(share @ (numbers - mean) ** 2),
    )
