"""Chooses which prompts of a run are asked again: a sample to compute δ from, and one for the noise.

Ratings are compared within narratives, so a sample holds whole narratives: all pairs of perceiver and experiencer, or
the same subset of pairs in every narrative.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pandas as pd

from stimuli.identities import NO_PERSONA, UNSPECIFIED

_LEAST_NARRATIVES: Final = 2  # one narrative says nothing about how narratives differ
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Prompts to ask again."""

    places: _Places  # prompt_index, ascending
    notes: dict[tuple[str, str], str]  # by dimension and variant: why its part of the sample is incomplete


def choose_sample(prompts: pd.DataFrame, *, size: int, seed: int, left_out: Collection[str] = ()) -> Sample:
    """Draw whole narratives from each dimension and variant, which share the sample of ``size`` prompts equally.

    Baselines, whose ``in_group`` is missing, are never drawn. Of several wordings only the first is drawn. If a share
    has no room for two narratives with all their pairs, it uses fewer identities: one term of each group as perceiver
    and as many terms of each group as experiencers as fit; if even one of each is too many, fewer groups. A share
    without room for two groups in two narratives stays empty, and a note says so.
    """
    compared = prompts.loc[prompts["in_group"].notna() & ~prompts["dimension"].isin(list(left_out))]
    if "wording" in compared:
        compared = compared.loc[compared["wording"] == 0]
    parts = [
        (str(key[0]), str(key[1]), part)
        for key, part in compared.groupby(["dimension", "variant"], observed=True, sort=False)
    ]
    places: list[_Places] = []
    notes: dict[tuple[str, str], str] = {}
    for dimension, variant, part in parts:
        rng = np.random.default_rng([seed, crc32(f"{dimension} {variant}".encode())])
        drawn, note = _draw(part, size // len(parts), rng)
        places.append(drawn)
        if note:
            notes[dimension, variant] = note
    return Sample(np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64), notes)


def choose_again(prompts: pd.DataFrame, *, size: int, seed: int) -> _Places:
    """Draw prompts at random, in the order to ask them, which differs from the run's order."""
    rng = np.random.default_rng([seed, crc32(b"asked again")])
    places = prompts["prompt_index"].to_numpy(dtype=np.int64)
    return rng.choice(places, size=min(size, len(places)), replace=False)


def _draw(part: pd.DataFrame, share: int, rng: np.random.Generator) -> tuple[_Places, str]:
    """Draw the prompts of one dimension and variant; also return what limits them."""
    pairs = part[["perceiver", "experiencer", "perceiver_group", "experiencer_group"]].drop_duplicates().astype(str)
    note = ""
    if _most_in_a_narrative(part) * _LEAST_NARRATIVES > share:
        kept = _fewer(pairs, share // _LEAST_NARRATIVES, rng)
        if kept is None:
            return np.empty(0, dtype=np.int64), f"{share} prompts do not hold two narratives of two groups"
        note = (
            f"{len(kept)} of {len(pairs)} pairs of identities: two narratives of all of them are more than {share} "
            "prompts"
        )
        asked = part.astype({"perceiver": str, "experiencer": str})
        own = pd.MultiIndex.from_frame(asked[["perceiver", "experiencer"]])
        part = part.loc[own.isin(pd.MultiIndex.from_frame(kept[["perceiver", "experiencer"]]))]
    narratives = part["narrative_id"].drop_duplicates().tolist()
    n_drawn = min(len(narratives), share // _most_in_a_narrative(part))
    chosen = {narratives[k] for k in rng.permutation(len(narratives))[:n_drawn]}
    drawn = part.loc[part["narrative_id"].isin(chosen), "prompt_index"].to_numpy(dtype=np.int64)
    if n_drawn < _LEAST_NARRATIVES:
        note = f"{note}; {n_drawn} narrative" if note else f"{n_drawn} narrative"
    return drawn, note


def _most_in_a_narrative(part: pd.DataFrame) -> int:
    """Return the most prompts that any narrative has."""
    return int(part.groupby("narrative_id", observed=True).size().max())


def _fewer(pairs: pd.DataFrame, room: int, rng: np.random.Generator) -> pd.DataFrame | None:
    """Choose as many groups, then as many experiencers, as there is room for; None if not even two groups fit."""

    def terms(side: str) -> dict[str, list[str]]:
        each = pairs[[f"{side}_group", side]].drop_duplicates()
        grouped = each.groupby(f"{side}_group", sort=False)[side]
        return {str(group): [own[k] for k in rng.permutation(len(own))] for group, own in grouped.agg(list).items()}

    perceivers, experiencers = terms("perceiver"), terms("experiencer")
    groups = [group for group in perceivers if group in experiencers]
    if not groups and not set(perceivers) - {NO_PERSONA, UNSPECIFIED}:  # the model is given no identity
        return _fewer_experiencers(pairs, room, experiencers, rng)
    groups = [groups[k] for k in rng.permutation(len(groups))]
    n_groups = next((n for n in range(len(groups), 1, -1) if n * n <= room), 0)
    if not n_groups:
        return None
    chosen = groups[:n_groups]
    most = max(len(experiencers[group]) for group in chosen)

    def n_pairs(n_terms: int) -> int:
        return n_groups * sum(min(n_terms, len(experiencers[group])) for group in chosen)

    n_terms = next(n for n in range(most, 0, -1) if n_pairs(n) <= room)
    of_perceivers = {perceivers[group][0] for group in chosen}
    of_experiencers = {term for group in chosen for term in experiencers[group][:n_terms]}
    return pairs.loc[pairs["perceiver"].isin(of_perceivers) & pairs["experiencer"].isin(of_experiencers)]


def _fewer_experiencers(
    pairs: pd.DataFrame, room: int, experiencers: Mapping[str, list[str]], rng: np.random.Generator
) -> pd.DataFrame | None:
    """Choose terms of as many groups as there is room for, the groups in turn; None if not even two groups fit."""
    named = [each for group, each in experiencers.items() if group not in (NO_PERSONA, UNSPECIFIED)]
    groups = [named[k] for k in rng.permutation(len(named))]
    in_turn = [each[turn] for turn in range(max(map(len, groups), default=0)) for each in groups if turn < len(each)]
    chosen = in_turn[: room // pairs["perceiver"].nunique()]
    return pairs.loc[pairs["experiencer"].isin(chosen)] if len(chosen) > 1 else None
