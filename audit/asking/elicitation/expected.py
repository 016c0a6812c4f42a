"""Elicitation ``expected``: the mean of the model's own distribution over the scale's whole numbers.

A model that answers in words at temperature 0 still gives each number of the scale a probability as its first words.
These are read from next-token probabilities, by walking the tree of the numbers' tokens.

The probability of a number is that of its tokens, times the probability that no digit follows the last one: "7" is not
the beginning of "72", and "72" not that of "723", which is outside the scale. A tokenizer with one token for each
number needs no such question. *Number mass* is the sum over the scale: how much of the distribution begins like a
number of the scale. Decimals are not asked: "7.5" counts as 7.

If the answer is begun for the model, all of these are probabilities after that beginning, which may end with a space.
Whether the beginning or the number then holds the space depends on the tokenizer, see
:meth:`audit.engines.chat.ChatTokenizer.begun_as`.

What weighs little is not asked. A number whose end was not asked is assumed to end as often as the median of the
numbers of the same prompt that were asked; it could end always or never. A branch that is not followed is left out; it
could hold nothing, or all of its mass on any one of its numbers. The rating's ``pruned_points`` is the largest distance
that the mean could have from the reported one, over all of these cases together.

If numbers' ends were calibrated on a sample of the run's prompts, a number takes its share from there, and the bound is
a statistical one: see :mod:`audit.asking.elicitation.ends`.

If an engine only returns the likeliest tokens, the distribution is known within bounds: see
:mod:`audit.asking.elicitation.bounded`. A rating whose bound is wider than allowed is missing, with a status of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from audit.asking.elicitation.bounded import Bounded, Path, read_seen, seen_of, unfollowed
from audit.asking.elicitation.ends import DUST, MOST, SKIPPED, EndSample, Sampled, calibrated
from audit.asking.elicitation.numbers import NumberTree, number_tree
from audit.engines.base import (
    CachedPrompts,
    Done,
    Engine,
    GoesOn,
    TokenReader,
    TopReader,
    TopTokens,
    encode_prompts,
    read_probabilities,
    token_reader,
    unwatched,
)
from audit.tables.ratings import ElicitedRating, Status
from stimuli.prompts import Prompt, Scale

_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_TREES: Final[WeakKeyDictionary[Any, dict[Any, NumberTree]]] = WeakKeyDictionary()
"""Trees by tokenizer, and by the scale and how answers begin: with workers, each shard brings its own elicitation."""
_ROUNDS: Final = 8  # most rounds of questions on one prompt's begun answers; each asks what weighs most after the last


@dataclass
class ExpectedElicitation:
    """Reads the model's distribution over the scale's numbers."""

    scale: Scale
    max_pruned_points: float  # more is asked until the rest can move no intensity by more
    ends: EndSample | None = None  # how often numbers end in a sample of prompts; None if each prompt is asked

    @classmethod
    def of(cls, scale: Scale, hundredths: float, ends: EndSample | None = None) -> Self:
        """Build the elicitation with the bound given in hundredths of the scale."""
        return cls(scale, hundredths * (scale.high - scale.low) / 100, ends)

    @property
    def _hundredth(self) -> float:
        return (self.scale.high - self.scale.low) / 100

    @property
    def room(self) -> int:
        """The most tokens of an answer: a space, the digits of the largest number, and the next token."""
        return len(str(self.scale.high)) + 2

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[ElicitedRating]:
        """See :class:`audit.asking.elicitation.base.Elicitation`."""
        if isinstance(engine, TopReader):
            return self._bounded(engine, prompts, done)
        reader, tree = self._reader(engine, prompts)
        shares = None if self.ends is None else self.ends.on(tree)
        systematic = 0.0 if self.ends is None else self.ends.systematic / 2  # B of δ is about twice the ratings' bounds
        encoded = encode_prompts(reader, prompts, room=tree.room)
        fitting = {place: ids for place, ids in enumerate(encoded) if ids is not None}
        outcomes = [ElicitedRating(Status.FAILED) for _ in prompts]
        done(len(prompts) - len(fitting))
        places = list(fitting)
        likely = np.zeros(len(tree.paths), dtype=bool)
        for reading in reader.read(list(fitting.values())):
            walk = _Walk(tree, len(reading.places), self.max_pruned_points, shares, MOST * self._hundredth)
            asked = walk.walk(reading, likely)
            # Ask the next prompts at once for what most prompts needed: one pass over more tokens costs less than two.
            likely = asked.mean(axis=0) >= 0.5
            own = [places[k] for k in reading.places]
            rated = summarise(
                walk.distributions(self.scale),
                low=self.scale.low,
                pruned_points=walk.bounds + systematic,
                ends_points=None if shares is None else walk.statistical,
                n_prompt_tokens=[len(fitting[place]) for place in own],
            )
            for place, outcome in zip(own, rated, strict=True):
                outcomes[place] = outcome
            done(len(own))
        return outcomes

    def calibrate(
        self, engine: Engine, prompts: Sequence[Prompt], sampled: Sequence[Sampled], *, done: Done = unwatched
    ) -> EndSample | None:
        """Ask a sample of prompts about every number that weighs anything, and its end.

        None if no question can be saved: the engine reads no given tokens, or its tokens for numbers end by themselves.
        Prompts that are too long are left out.
        """
        if isinstance(engine, TopReader):
            return None
        reader, tree = self._reader(engine, prompts)
        if not (tree.ends & tree.asked).any():
            return None
        encoded = encode_prompts(reader, prompts, room=tree.room)
        fitting = [place for place, ids in enumerate(encoded) if ids is not None]
        done(len(prompts) - len(fitting))
        spelt = np.flatnonzero(tree.spells)
        masses, shares = np.zeros((2, len(fitting), len(spelt)))
        for reading in reader.read([ids for ids in encoded if ids is not None]):
            walk = _Walk(tree, len(reading.places), SKIPPED * self._hundredth)
            walk.walk(reading, tree.asked)
            own = list(reading.places)
            masses[own], shares[own] = (each[:, spelt] for each in walk.ends())
            done(len(reading.places))
        paths = tuple(tree.paths[node] for node in spelt)
        return EndSample(tuple(sampled[k] for k in fitting), paths, tree.numbers[spelt], masses, shares)

    def _reader(self, engine: Engine, prompts: Sequence[Prompt]) -> tuple[TokenReader, NumberTree]:
        reader = token_reader(engine, remedy="use elicitation=generate")
        trees = _TREES.setdefault(reader.tokenizer, {})
        key = (self.scale, prompts[0].begun, prompts[0].thought is None)
        if key not in trees:
            trees[key] = number_tree(reader.tokenizer, self.scale, before=reader.tokenizer.render(prompts[0]))
        return reader, trees[key]

    def _bounded(self, engine: TopReader, prompts: Sequence[Prompt], done: Done) -> list[ElicitedRating]:
        """Read ratings from the likeliest tokens; ``pruned_points`` is how far the mean could be off."""
        tops = engine.top(prompts, n_tokens=self.room, done=done)
        seen = {place: seen_of(top) for place, top in enumerate(tops) if top is not None and top.tables}
        self._follow(engine, prompts, tops, seen)
        return [
            ElicitedRating(Status.FAILED)
            if top is None
            else self._known(read_seen(seen[place], self.scale), top.n_prompt_tokens)
            if place in seen
            else ElicitedRating(Status.REFUSED, n_prompt_tokens=top.n_prompt_tokens)
            for place, top in enumerate(tops)
        ]

    def _follow(
        self,
        engine: TopReader,
        prompts: Sequence[Prompt],
        tops: Sequence[TopTokens | None],
        seen: Mapping[int, dict[Path, Mapping[str, float]]],
    ) -> None:
        """Ask what follows digits that a longer number may begin with, if the engine can continue begun answers."""
        untold: set[tuple[int, Path]] = set()
        for turn in range(_ROUNDS):
            wanted = [
                (place, top, path)
                for place, top in enumerate(tops)
                if top is not None and place in seen
                for path in unfollowed(
                    read_seen(seen[place], self.scale), self.scale, max_points=self.max_pruned_points
                )
                if (place, path) not in untold
            ]
            if not wanted or not isinstance(engine, GoesOn) or (turn == 0 and not engine.goes_on(prompts, tops)):
                return
            told = engine.top_after(
                [prompts[place] for place, _, _ in wanted],
                [top for _, top, _ in wanted],
                [path for _, _, path in wanted],
            )
            for (place, _, path), after in zip(wanted, told, strict=True):
                if after is not None and after.tables:
                    seen[place][path] = after.tables[0]
                else:
                    untold.add((place, path))

    def _known(self, known: Bounded, n_prompt_tokens: int | None) -> ElicitedRating:
        """Return the rating with its bound, or ``inexact`` if the bound is wider than allowed."""
        found = known.distribution[None, :]
        [rated] = summarise(found, low=self.scale.low, pruned_points=np.zeros(1), n_prompt_tokens=[n_prompt_tokens])
        begun = any(each.path for each in known.loose)
        if rated.status is not Status.RATED and not begun:
            return rated
        off = known.off(self.scale)
        if off <= self.max_pruned_points + DUST:
            return replace(rated, pruned_points=off)
        return ElicitedRating(
            Status.INEXACT,
            number_mass=float(min(known.distribution.sum(), 1.0)),
            pruned_points=off if np.isfinite(off) else float("nan"),
            n_prompt_tokens=n_prompt_tokens,
        )


class _Walk:
    """The walks of n prompts down one tree of N nodes, side by side.

    A node is *open* if its probability is known but not what follows it. ``mass`` is the probability of a node's path,
    ``final`` that of its number once known: without the share that continues with a digit. ``bounds``, shape (n,), is
    how far the mean could be from the reported one, in points, whatever the shares of ends are that were calibrated:
    ``shares``, shape (m, N), has them for each prompt of the sample, NaN where ends must be asked. ``statistical``,
    shape (n,), is the bound for these shares, at most ``most_points``; NaN if no share was calibrated.
    """

    def __init__(
        self,
        tree: NumberTree,
        n_prompts: int,
        max_points: float,
        shares: _Floats | None = None,
        most_points: float = np.inf,
    ) -> None:
        shape = (n_prompts, len(tree.paths))
        self._tree = tree
        self._max_points = max_points
        self._most_points = most_points
        self._spells, self._ends = tree.spells, tree.ends
        self._shares = np.full((1, shape[1]), np.nan) if shares is None else shares
        self._usual = self._shares.mean(axis=0)
        # A prompt whose bound is too wide is asked the exact way.
        self._calibrated: _Bools = np.tile(~np.isnan(self._usual), (n_prompts, 1))
        self.statistical = np.full(n_prompts, np.nan)
        self._falling, self._rising = np.argsort(-tree.highs, kind="stable"), np.argsort(tree.lows, kind="stable")
        self._mass = np.zeros(shape)
        self._mass[:, 0] = 1.0
        self._final = np.zeros(shape)
        self._open = np.zeros(shape, dtype=bool)
        self._open[:, 0] = tree.asked[0]
        self._ended = np.full(shape, np.nan)  # for numbers that no other number extends: the share that ends there
        self._take_stock()

    def walk(self, reading: CachedPrompts, likely: _Bools) -> _Bools:
        """Ask until the open nodes can move no mean by more than allowed; return which nodes each prompt needed.

        ``likely`` has shape (N,): nodes to include in the first question. Their answers are only used if needed, so
        that a rating does not depend on what was likely.
        """
        tree = self._tree
        needed = np.zeros_like(self._open)
        row_of = np.full(self._open.shape, -1)  # the row of ``answers`` for each question
        answers = np.empty((0, len(tree.tokens)))
        while (wanted := self._wanted()).any() or self._too_wide():
            missing = (wanted if needed.any() else wanted | likely) & (row_of < 0)
            if missing.any():
                tails = [[tree.paths[k] for k in np.flatnonzero(row).tolist()] for row in missing]
                row_of[missing] = len(answers) + np.arange(missing.sum())
                answers = np.concatenate([answers, *read_probabilities(reading, tails, tree.tokens)])
            self._follow(wanted, row_of, answers)
            self._take_stock()
            needed |= wanted
        return needed

    def _follow(self, wanted: _Bools, row_of: npt.NDArray[np.int64], answers: _Floats) -> None:
        """Apply the probabilities of ``tree.tokens`` after the wanted nodes; ``row_of`` finds each node's row."""
        tree = self._tree
        prompts, nodes = np.nonzero(wanted & self._spells)
        goes_on = answers[row_of[prompts, nodes, None], tree.digits].sum(axis=1)
        ended = np.maximum(0.0, 1.0 - goes_on)
        self._final[prompts, nodes] = self._mass[prompts, nodes] * ended
        self._ended[prompts, nodes] = np.where(self._ends[nodes], ended, np.nan)
        self._open &= ~wanted
        prompts, nodes = np.nonzero(wanted[:, tree.parents] & (tree.parents >= 0))
        parents = tree.parents[nodes]
        mass = self._mass[prompts, parents] * answers[row_of[prompts, parents], tree.columns[nodes]]
        self._mass[prompts, nodes] = mass
        self._open[prompts, nodes] = tree.asked[nodes] & (mass > 0)
        self._final[prompts, nodes] = np.where(self._ends[nodes] & ~tree.asked[nodes], mass, 0.0)

    def _take_stock(self) -> None:
        """Update the probability of each number, the mean and its bounds."""
        shares = np.where(self._calibrated, self._usual, _known_medians(self._ended)[:, None])
        self._likely = np.where(self._open & self._ends, self._mass * shares, self._final)
        self._total = self._likely.sum(axis=1)
        points = self._likely @ np.nan_to_num(self._tree.numbers)
        self._mean = np.divide(points, self._total, out=np.zeros_like(points), where=self._total > 0)
        self.bounds = self._bounds()

    def ends(self) -> tuple[_Floats, _Floats]:
        """Return the probability of each node's tokens, and the share of it that ends there: (n, N), NaN if unknown."""
        known = self._spells & ~self._open & (self._mass > 0)
        return self._mass, np.divide(self._final, self._mass, out=np.full_like(self._mass, np.nan), where=known)

    def distributions(self, scale: Scale) -> _Floats:
        """Return shape (n, numbers): the probability of each number of the scale, summed over its spellings."""
        spelt = np.flatnonzero(self._spells)
        onto = np.zeros((len(spelt), scale.high - scale.low + 1))
        onto[np.arange(len(spelt)), (self._tree.numbers[spelt] - scale.low).astype(int)] = 1.0
        distributions: _Floats = self._likely[:, spelt] @ onto
        return distributions

    def _bounds(self) -> _Floats:
        tree, mean = self._tree, self._mean
        open_ = self._open & ~self._calibrated
        loose = np.where(open_, self._mass, 0.0)
        sure = np.where(self._open & self._calibrated, self._likely, self._final)
        mass, points = sure.sum(axis=1, keepdims=True), (sure @ np.nan_to_num(tree.numbers))[:, None]
        farthest = np.zeros(len(mean))
        somewhere: _Bools = np.any(open_, axis=0)  # columns of zeros change no sum
        for falling, ends, sign in ((self._falling, tree.highs, 1.0), (self._rising, tree.lows, -1.0)):
            order = falling[somewhere[falling]]
            # The extreme mean gives the open nodes on its side all of their mass, and the others none.
            taken = loose[:, order]
            masses = np.hstack([mass, mass + np.cumsum(taken, axis=1)])
            sums = np.hstack([points, points + np.cumsum(taken * ends[order], axis=1)])
            means = np.divide(sums, masses, out=np.full_like(sums, -np.inf * sign), where=masses > 0)
            extreme = (means * sign).max(axis=1)
            farthest = np.maximum(farthest, np.where(np.isfinite(extreme), extreme - sign * mean, 0.0))
        return np.where(open_.any(axis=1), np.where(self._total > 0, farthest, np.inf), 0.0)

    def _too_wide(self) -> bool:
        """Compute the bounds for calibrated shares; return whether prompts gave these up, because it is too wide."""
        if not self._calibrated.any():
            return False
        held = self._open & self._calibrated
        sure, mass = np.where(held, 0.0, self._likely), np.where(held, self._mass, 0.0)
        _, bounds = calibrated(sure, mass, np.nan_to_num(self._tree.numbers), np.nan_to_num(self._shares))
        wide = bounds > self._most_points
        self._calibrated[wide] = False
        self.statistical = np.where(self._calibrated.any(axis=1), bounds, np.nan)
        if wide.any():
            self._take_stock()
        return bool(wide.any())

    def _wanted(self) -> _Bools:
        """Return shape (n, N): the open nodes to ask about now, which can move the mean or the mode most."""
        tree = self._tree
        unsure = self.bounds > self._max_points
        open_ = self._open & ~self._calibrated
        at = np.flatnonzero(open_[unsure].any(axis=0))
        loose = np.where(open_, self._mass, 0.0)
        mean, mass = self._mean[unsure, None], loose[np.ix_(unsure, at)]
        reach = np.maximum(np.abs(tree.highs[at] - mean), np.abs(tree.lows[at] - mean))
        total = self._total[unsure, None]
        influence = mass * reach / np.where(total > 0, total, mass.sum(axis=1, keepdims=True))
        order = np.argsort(influence, axis=1, kind="stable")
        left_out = np.cumsum(np.take_along_axis(influence, order, axis=1), axis=1) <= self._max_points
        asked = np.zeros(order.shape, dtype=bool)
        np.put_along_axis(asked, order, ~left_out, axis=1)
        # The most probable number must be one whose end is known.
        wanted: _Bools = open_ & (loose >= self._likely.max(axis=1, keepdims=True))
        wanted[np.ix_(unsure, at)] |= asked & open_[np.ix_(unsure, at)]
        # A node near the mean has little influence as long as others keep the mean there. If nothing else is left, ask
        # the heaviest.
        stuck = unsure & ~wanted.any(axis=1)
        wanted[stuck] = open_[stuck] & (loose[stuck] >= loose[stuck].max(axis=1, keepdims=True) / 2)
        return wanted


def _known_medians(shares: _Floats) -> _Floats:
    """Return each row's median, ignoring NaN; 1 if a row has no number."""
    known = np.sort(shares[:, ~np.isnan(shares).all(axis=0)], axis=1)  # NaN comes last
    if not known.shape[1]:
        return np.ones(len(shares))
    n = (~np.isnan(known)).sum(axis=1, keepdims=True)
    # Not the mean: round numbers, which are asked first, continue more often than others.
    middle = np.take_along_axis(known, np.maximum(np.hstack([n - 1, n]) // 2, 0), axis=1).mean(axis=1)
    return np.where(n[:, 0] > 0, middle, 1.0)


def summarise(
    distributions: _Floats,
    *,
    low: int,
    pruned_points: _Floats,
    n_prompt_tokens: Sequence[int | None],
    ends_points: _Floats | None = None,
) -> list[ElicitedRating]:
    """Compute mean, mode, spread and number mass from each prompt's unnormalised probabilities.

    ``distributions`` has shape (n, k): the k numbers from ``low`` up. A prompt without any mass on a number is
    unparseable, not an intensity of 0.
    """
    numbers = low + np.arange(distributions.shape[1], dtype=np.float64)
    mass = distributions.sum(axis=1)
    share = distributions / np.where(mass > 0, mass, 1.0)[:, None]
    # Rounding may carry a mean past an end of the scale by its last bit.
    mean = np.clip(share @ numbers, numbers[0], numbers[-1])
    spread = np.sqrt((share * (numbers - mean[:, None]) ** 2).sum(axis=1))
    columns = (mean, np.minimum(mass, 1.0), numbers[distributions.argmax(axis=1)], spread, pruned_points)
    ends = [math.nan] * len(mean) if ends_points is None else ends_points.tolist()
    rows = zip(*(column.tolist() for column in columns), ends, strict=True)
    return [
        ElicitedRating(
            Status.RATED,
            intensity=intensity,
            number_mass=number_mass,
            mode=mode,
            spread=points,
            pruned_points=pruned,
            ends_points=of_ends,
            n_prompt_tokens=n_tokens,
        )
        if number_mass > 0
        else ElicitedRating(Status.UNPARSEABLE, number_mass=0.0, n_prompt_tokens=n_tokens)
        for (intensity, number_mass, mode, points, pruned, of_ends), n_tokens in zip(rows, n_prompt_tokens, strict=True)
    ]
