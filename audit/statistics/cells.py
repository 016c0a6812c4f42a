"""Ratings in the two shapes that statistics are computed on: a table of cells, and a cube of narratives.

A *cell* is a pair of a perceiver and an experiencer. :func:`cell_table` describes each cell over all narratives;
:class:`NarrativeCube` keeps the narratives apart, which every estimate of δ with a standard error needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.statistics.ratings import (
    BASELINES,
    STATUSES,
    BoolArray,
    FloatArray,
    IntArray,
    Pairs,
    axis_codes,
    compact_ratings,
    count_statuses,
    divide,
    label_of_code,
    split_ratings,
)
from audit.tables.cells import CELLS

_Scalar = TypeVar("_Scalar", bound=np.generic)
BY_DESIGN: Final = (
    "each narrative was asked about some of the pairs, and this takes all of them in the same narratives: run with "
    "stimuli.pairs=all"
)
"""Why a statistic that needs whole narratives is missing."""
_BY_PROMPT: Final = ("y", "status", "number_mass", "mode", "off")


def cell_table(ratings: pd.DataFrame) -> pd.DataFrame:
    """Describe every pair of identities that was asked: its mean, its spread and the statuses of its prompts.

    Baselines are included; identities are in order of first appearance, experiencers fastest. Means are over the rated
    prompts of the cell, so cells with refusals average different narratives.
    """
    tables = [_cells_of(dimension, variant, part) for dimension, variant, part in split_ratings(ratings)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(CELLS))


def _cells_of(dimension: str, variant: str, part: pd.DataFrame) -> pd.DataFrame:
    pairs = Pairs.of(part)
    n_pairs = pairs.n_prompts.size
    counts = count_statuses(part["status"], pairs.pair, n_groups=n_pairs)
    rated = part["status"].array.codes == 0
    pair, intensity = pairs.pair[rated], part["intensity"].to_numpy()[rated]
    n_rated = counts[:, 0]
    mean = divide(np.bincount(pair, weights=intensity, minlength=n_pairs), n_rated)
    squares = np.bincount(pair, weights=(intensity - mean[pair]) ** 2, minlength=n_pairs)
    n_prompts = pairs.n_prompts.ravel()
    n_experiencers = len(pairs.experiencers)
    columns: dict[str, Any] = {
        "dimension": dimension,
        "variant": variant,
        "perceiver": np.repeat(np.array(pairs.perceivers, dtype=object), n_experiencers),
        "experiencer": np.tile(np.array(pairs.experiencers, dtype=object), len(pairs.perceivers)),
        "perceiver_group": np.repeat(np.array(pairs.perceiver_groups, dtype=object), n_experiencers),
        "experiencer_group": np.tile(np.array(pairs.experiencer_groups, dtype=object), len(pairs.perceivers)),
        "in_group": pd.Series(pairs.in_group.ravel()).astype("boolean"),
        "n_shared": pd.Series(pairs.n_shared.ravel()).astype("Int64"),
        "mean": mean,
        "sd": np.sqrt(divide(squares, n_rated - 1)),
        "n_prompts": n_prompts,
        **{f"n_{status}": counts[:, code] for code, status in enumerate(STATUSES)},
        "refusal_rate": divide(counts[:, 1], n_prompts),
        "unparseable_rate": divide(counts[:, 2], n_prompts),
    }
    asked = n_prompts > 0
    return pd.DataFrame(columns, columns=list(CELLS)).loc[asked].reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class NarrativeCube:
    """The ratings of one dimension and variant, narrative by narrative.

    There are N narratives, P perceivers and E experiencers, in order of first appearance. If the prompt was asked in
    several wordings, a rating is the mean over those that were rated.
    """

    dimension: str
    variant: str
    y: FloatArray  # shape (N, P, E), in points of the scale; NaN where there is no rating
    # Shape (N, P, E), index in STATUSES; −1 where there was no prompt. For several wordings the first one in that
    # order: rated if one of them is.
    status: npt.NDArray[np.int8]
    number_mass: FloatArray  # shape (N, P, E), as mode; for several wordings the mean of those that have one
    mode: FloatArray
    # Shape (P, E), in how many of the crossed dimensions the pair shares the group; 0, without meaning, if either is a
    # baseline or the pair was never asked.
    n_shared: IntArray
    in_group: BoolArray  # shape (P, E), whether the pair shares the group in all of them; False as above
    asked: BoolArray  # shape (P, E), whether any narrative was asked about the pair
    baseline_perceiver: BoolArray  # shape (P,); a baseline is never compared with a group
    baseline_experiencer: BoolArray  # shape (E,)
    narrative_ids: tuple[Any, ...]
    emotions: tuple[str, ...]
    perceivers: tuple[str, ...]
    experiencers: tuple[str, ...]  # need not be the perceivers
    perceiver_groups: tuple[str, ...]
    experiencer_groups: tuple[str, ...]
    # Shape (M, P, E), 0/1: further columns beside which δ is estimated, next to perceivers, experiencers and lesser
    # sharing; see audit.statistics.echo.
    nuisance: FloatArray | None = None
    # shape (N, P, E, 5), how many wordings of the prompt had each of STATUSES; None if there is one wording
    of_wordings: npt.NDArray[np.int16] | None = None
    echoing: BoolArray | None = None  # shape (P, E), which pairs share a word, if δ is of those that share none
    # Shape (N, P, E), how far a rating could be from the one reported, in points; NaN where it has no bound, None if
    # none has one. For several wordings the mean of those that have one.
    off: FloatArray | None = None
    # whether every pair of terms counts alike, so that a group counts by its number of terms; else groups do
    terms_alike: bool = False
    by_design: bool = False  # whether each narrative was asked about a draw of pairs: others are not missing
    # Whether each narrative is the story of one experiencer. A narrative of the cube is a set then: one story of each.
    own_stories: bool = False

    @property
    def expected(self) -> BoolArray:
        """Where a rating should be, shape (N, P, E): at every pair, or by design at each pair that was asked."""
        return self.status >= 0 if self.by_design else np.ones(self.status.shape, dtype=bool)

    @property
    def lacking(self) -> BoolArray:
        """Where a rating should be and is not, shape (N, P, E)."""
        lacking: BoolArray = self.expected & np.isnan(self.y)
        return lacking

    @property
    def n_by_status(self) -> npt.NDArray[np.int16]:
        """Prompts of each of ``STATUSES``, shape (N, P, E, 5); all wordings of a prompt are counted."""
        if self.of_wordings is not None:
            return self.of_wordings
        counts: npt.NDArray[np.int16] = (self.status[..., None] == np.arange(len(STATUSES))).astype(np.int16)
        return counts

    @property
    def columns(self) -> FloatArray:
        """0/1 columns, shape (D, P, E): those that δ is estimated beside, then the one of δ itself."""
        degrees = degree_columns(self.n_shared)
        return degrees if self.nuisance is None else np.concatenate([self.nuisance, degrees])

    @property
    def cell_weights(self) -> FloatArray | None:
        """Weights of the pairs of terms, shape (P, E), with which groups count alike whatever their number of terms.

        None if all groups have as many terms, so that every pair counts alike anyway, and with ``terms_alike``.

        Notes
        -----
        Pairs of terms are of three kinds: what δ is of, what it is estimated beside, and the others. The pairs of one
        kind between two groups count together for what they do on average over all pairs of groups that have some.
        """
        if self.terms_alike:
            return None
        sides = [np.array(list(each), dtype=object) for each in (self.perceiver_groups, self.experiencer_groups)]
        sizes = [np.array([(side == name).sum() for name in dict.fromkeys(side.tolist())]) for side in sides]
        if all(np.ptp(each) == 0 for each in sizes if each.size):
            return None
        _, rows = np.unique(sides[0].astype(str), return_inverse=True)
        _, columns = np.unique(sides[1].astype(str), return_inverse=True)
        block = rows[:, None] * (int(columns.max()) + 1) + columns
        beside = np.zeros(self.in_group.shape, dtype=bool)
        if self.nuisance is not None:
            beside = (self.nuisance > 0).any(axis=0) & ~self.in_group
        if self.echoing is not None:
            beside |= self.echoing
        kind = np.where(beside, 2, np.where(self.in_group, 1, 0))
        weights = np.zeros(self.in_group.shape)
        of_block = np.bincount(block.ravel())
        for each in np.unique(kind):
            n = np.bincount(block.ravel(), weights=(kind == each).ravel().astype(float), minlength=of_block.size)
            there = n > 0
            share = float((n[there] / of_block[there]).mean())
            weights = np.where(kind == each, share / np.where(n[block] > 0, n[block], 1.0), weights)
        return weights

    @classmethod
    def from_ratings(
        cls, ratings: pd.DataFrame, *, dimension: str, variant: str, baselines: bool = False, by_design: bool = False
    ) -> Self:
        """Build the cube of one dimension and variant from ratings, one row a prompt, that may hold others too.

        ``baselines`` keeps those for whom ``in_group`` is missing; δ never uses them. With ``by_design``, pairs that a
        narrative was not asked about were left out by the run's design. Ratings that contradict themselves raise
        ValueError.

        Notes
        -----
        Where by design each narrative is a story of one group of experiencers, its ratings cannot tell a perceiver's
        own group from how that perceiver rates everybody. So the k-th stories of an emotion, one of each experiencer,
        are one narrative of the cube. In such a set, what a story and its experiencer are rated by everybody is one
        number, which δ is free of; a difference between experiencers is one between their stories, too.
        """
        compact = compact_ratings(ratings)
        wanted = ((compact["dimension"] == dimension) & (compact["variant"] == variant)).to_numpy()
        if not wanted.any():
            raise ValueError(f"the ratings hold none of dimension {dimension!r} and variant {variant!r}")
        part = compact if wanted.all() else compact.iloc[np.flatnonzero(wanted)]
        pairs = Pairs.of(part)
        _check_degrees(pairs, dimension)
        narrative_codes, narrative_ids = axis_codes(part["narrative_id"])
        if own_stories := by_design and are_own_stories(part):
            narrative_codes, narrative_ids = _sets_of_stories(part["emotion"], pairs, narrative_codes)
        shape = len(narrative_ids), len(pairs.perceivers), len(pairs.experiencers)
        place = narrative_codes * pairs.n_prompts.size + pairs.pair
        wording = part["wording"].to_numpy()
        n_cells = shape[0] * shape[1] * shape[2]
        times_asked = np.bincount(place, minlength=n_cells)
        several = bool((wording != wording[0]).any())
        in_one = _most_in_a_wording(place, wording, n_cells) if several else times_asked
        if in_one.max() > 1:
            narrative, perceiver, experiencer = np.unravel_index(int(np.argmax(in_one)), shape)
            raise ValueError(
                f"the ratings hold {in_one.max()} rows of dimension {dimension!r}, variant {variant!r}, narrative "
                f"{narrative_ids[narrative]!r}, perceiver {pairs.perceivers[perceiver]!r} and experiencer "
                f"{pairs.experiencers[experiencer]!r}: keep one"
            )

        def fill(values: npt.NDArray[_Scalar], absent: float) -> npt.NDArray[_Scalar]:
            filled = np.full(n_cells, absent, dtype=values.dtype)
            filled[place] = values
            return filled.reshape(shape)

        def fill_numbers(values: FloatArray) -> FloatArray:
            if not several:
                return fill(values, np.nan)
            there = ~np.isnan(values)
            total = np.bincount(place[there], weights=values[there], minlength=n_cells)
            return divide(total, np.bincount(place[there], minlength=n_cells)).reshape(shape)

        off = part["pruned_points"].to_numpy()
        of_wordings = None
        codes = part["status"].array.codes
        status = fill(codes, -1)
        if several:
            of_wordings = count_statuses(part["status"], place, n_groups=n_cells).astype(np.int16)
            # The first status that any wording had; a prompt that was never asked has none.
            first = np.where(of_wordings.any(axis=1), (of_wordings > 0).argmax(axis=1), -1)
            status = first.astype(codes.dtype).reshape(shape)
            of_wordings = of_wordings.reshape(*shape, len(STATUSES))
        compared = ~np.isnan(pairs.n_shared)
        cube = cls(
            dimension=dimension,
            variant=variant,
            y=fill_numbers(part["intensity"].to_numpy()),
            status=status,
            number_mass=fill_numbers(part["number_mass"].to_numpy()),
            mode=fill_numbers(part["mode"].to_numpy()),
            n_shared=np.where(compared, pairs.n_shared, 0).astype(np.int64),
            in_group=pairs.in_group == 1,
            asked=pairs.n_prompts > 0,
            baseline_perceiver=~np.asarray(compared.any(axis=1)),
            baseline_experiencer=~np.asarray(compared.any(axis=0)),
            narrative_ids=narrative_ids,
            emotions=label_of_code(part["emotion"], narrative_codes, shape[0]),
            perceivers=pairs.perceivers,
            experiencers=pairs.experiencers,
            perceiver_groups=pairs.perceiver_groups,
            experiencer_groups=pairs.experiencer_groups,
            of_wordings=of_wordings,
            by_design=by_design,
            own_stories=own_stories,
            off=None if np.isnan(off).all() else fill_numbers(off),
        )
        return cube if baselines else cube.without_baselines()

    @property
    def has_perceivers(self) -> bool:
        """Whether the model was given the identity of a group; else no group is its own, and there is no δ.

        Ratings without a group on either side count as having them: what they lack is not the perceivers alone.
        """
        perceivers, experiencers = (
            {*groups} - {*BASELINES} for groups in (self.perceiver_groups, self.experiencer_groups)
        )
        return bool(perceivers) or not experiencers

    def without_baselines(self) -> Self:
        """Keep the identities that belong to a group; returns the cube itself if there are no others."""
        return self.select(~self.baseline_perceiver, ~self.baseline_experiencer)

    def rated(self) -> Self:
        """Keep the identities that have a rating, as perceiver or as experiencer."""
        there = ~np.isnan(self.y)
        return self.select(np.asarray(there.any(axis=(0, 2))), np.asarray(there.any(axis=(0, 1))))

    def select(self, perceivers: BoolArray, experiencers: BoolArray) -> Self:
        """Keep some perceivers, shape (P,), and some experiencers, shape (E,)."""
        if perceivers.all() and experiencers.all():
            return self
        rows, columns = np.flatnonzero(perceivers), np.flatnonzero(experiencers)
        cells = np.ix_(rows, columns)
        return replace(
            self,
            **self._by_prompt((slice(None), rows[:, None], columns)),
            n_shared=self.n_shared[cells],
            in_group=self.in_group[cells],
            asked=self.asked[cells],
            baseline_perceiver=self.baseline_perceiver[rows],
            baseline_experiencer=self.baseline_experiencer[columns],
            perceivers=tuple(self.perceivers[row] for row in rows),
            experiencers=tuple(self.experiencers[column] for column in columns),
            perceiver_groups=tuple(self.perceiver_groups[row] for row in rows),
            experiencer_groups=tuple(self.experiencer_groups[column] for column in columns),
            nuisance=None if self.nuisance is None else self.nuisance[:, rows[:, None], columns],
            of_wordings=None if self.of_wordings is None else self.of_wordings[:, rows[:, None], columns],
            echoing=None if self.echoing is None else self.echoing[cells],
        )

    def _by_prompt(self, chosen: Any) -> dict[str, Any]:
        """Index every array of shape (N, P, E)."""
        return {name: getattr(self, name)[chosen] for name in _BY_PROMPT if getattr(self, name) is not None}

    def of_narratives(self, chosen: BoolArray) -> Self:
        """Keep some narratives, shape (N,)."""
        if chosen.all():
            return self
        places = np.flatnonzero(chosen)
        return replace(
            self,
            **self._by_prompt(places),
            narrative_ids=tuple(self.narrative_ids[place] for place in places),
            emotions=tuple(self.emotions[place] for place in places),
            of_wordings=None if self.of_wordings is None else self.of_wordings[places],
        )


def are_own_stories(part: pd.DataFrame) -> bool:
    """Whether in ratings of one dimension each narrative is of experiencers of one group, of several groups in all."""
    perceivers, experiencers = ({*part[f"{side}_group"]} - {*BASELINES} for side in ("perceiver", "experiencer"))
    whose = part[["narrative_id", "experiencer_group"]].drop_duplicates()
    return bool(perceivers) and len(experiencers) > 1 and bool(whose["narrative_id"].is_unique)


def _sets_of_stories(emotions: pd.Series, pairs: Pairs, narrative_codes: IntArray) -> tuple[IntArray, tuple[Any, ...]]:
    """Return which set each rating is of, and the sets' names: an emotion and a number from 1."""
    asked = pd.DataFrame({
        "emotion": emotions.astype(str).to_numpy(), "experiencer": pairs.pair % len(pairs.experiencers),
        "narrative": narrative_codes,
    })  # fmt: skip
    stories = asked.drop_duplicates(ignore_index=True)
    number = stories.groupby(["emotion", "experiencer"], observed=True, sort=False).cumcount() + 1
    named = stories.assign(of=stories["emotion"] + " " + number.astype(str))
    codes, names = pd.factorize(asked.merge(named, how="left")["of"])
    return codes.astype(np.int64), tuple(names)


def degree_columns(n_shared: npt.ArrayLike) -> FloatArray:
    """Turn degrees of sharing, shape (P, E), into 0/1 columns, shape (D, P, E), from degree 1 to the largest."""
    shared = np.asarray(n_shared)
    degrees = range(1, max(int(shared.max(initial=1)), 1) + 1)
    return np.stack([shared == degree for degree in degrees]).astype(np.float64)


def _most_in_a_wording(place: IntArray, wording: npt.NDArray[np.int16], n_cells: int) -> IntArray:
    """Count how often each cell was asked in the wording in which it was asked most often."""
    keys, times = np.unique(place * (int(wording.max()) + 1) + wording, return_counts=True)
    most = np.zeros(n_cells, dtype=np.int64)
    np.maximum.at(most, keys // (int(wording.max()) + 1), times)
    return most


def _check_degrees(pairs: Pairs, dimension: str) -> None:
    """Refuse ``n_shared`` and ``in_group`` that cannot both describe one set of identities."""
    compared = ~np.isnan(pairs.n_shared)
    forgotten = (pairs.n_prompts > 0) & ~compared & compared.any(axis=1, keepdims=True) & compared.any(axis=0)
    top = np.nanmax(pairs.n_shared) if compared.any() else 0.0
    contradictory = compared != ~np.isnan(pairs.in_group)
    if (pairs.in_group == 1).any():
        contradictory |= compared & ((pairs.n_shared == top) != (pairs.in_group == 1))
    wrong = forgotten | contradictory
    if wrong.any():
        perceiver, experiencer = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise ValueError(
            f"perceiver {pairs.perceivers[perceiver]!r} and experiencer {pairs.experiencers[experiencer]!r} of "
            f"dimension {dimension!r} have n_shared {pairs.n_shared[perceiver, experiencer]} and in_group "
            f"{pairs.in_group[perceiver, experiencer]}, which contradict the other pairs"
        )
