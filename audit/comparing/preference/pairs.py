"""Pairs of two runs' replies for people to choose from, blind to which run wrote which, and the choices made."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import pandas as pd

from audit.errors import ConfigError, StoreError
from audit.people.items import ItemSample, sample_items
from audit.people.questions import Questions, ScaleQuestion, load_questions
from audit.people.ratings import HumanRatings, export_files
from audit.tables.formatting import count, plural
from audit.tables.preference import CHOICES, PAIR_SIDES
from audit.tables.replies import SCORED
from stimuli.files import read_file

PAIRS_FILE: Final = Path(__file__).parent / "pairs.yaml"
SIDES_FILE: Final = "sides.csv"
"""Which run's reply stood first. Like the key it stays with the researcher."""
_SIDE_TYPES: Final = {"item_id": str, "first": np.int64, "n_shared": np.int64}
_BETWEEN: Final = "\n\n" + "\u2500" * 12 + "\n\n"


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs of replies to choose from."""

    items: ItemSample  # as for single replies, but each shown text holds both replies, one below the other
    sides: pd.DataFrame  # columns of PAIR_SIDES, one row an item
    n_same: int  # pairs left out because both replies have the same words

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the researcher must know about the sample, in plain words."""
        key = self.items.key
        said = [
            f"{plural(len(key), 'pair')} of replies to {plural(key['narrative_id'].nunique(), 'narrative')}, "
            f"{count(key['in_group'].sum())} in-group and {count((~key['in_group']).sum())} out-group, of "
            f"{count(self.items.n_eligible)} that differ; the first run's reply stands first in "
            f"{count((self.sides['first'] == 1).sum())}"
        ]
        if self.n_same:
            said.append(
                f"{plural(self.n_same, 'pair')} of replies with the same words are left out: what people choose speaks "
                "of the others alone"
            )
        return (*said, *self.items.remarks[1:])


def sample_pairs(pairs: pd.DataFrame, *, n: int | None, seed: int, mask_experiencer: bool = False) -> PairSample:
    """Draw pairs of replies to the same prompt for people to choose from.

    ``pairs`` are those of :func:`audit.comparing.preference.judging.paired_replies`, with ``narrative`` as the models
    were shown it. The rest is as for :func:`audit.people.items.sample_items`; the seed also decides which reply stands
    first. Raises ConfigError if no pair of replies can be compared or differs.

    Notes
    -----
    As for single replies, squares of two perceivers and two experiencers in a narrative are drawn, so that the gap of
    the choices is free of the levels of both. In half of a narrative's pairs, drawn at random, the first run's reply
    stands first. Raters are not told which.
    """
    compared = pairs["first_reply"].isin(SCORED) & pairs["second_reply"].isin(SCORED)
    same = pairs["same_text"].astype(bool)
    if not (compared & ~same).any():
        raise ConfigError("there is nothing to choose from: no pair of replies is written in both runs and differs")
    first = _sides(pairs, seed=seed)
    ones, others = (pairs[name].astype(str).str.strip() for name in ("text_1", "text_2"))
    shown = [
        f"1.\n{one}{_BETWEEN}2.\n{other}" if side == 1 else f"1.\n{other}{_BETWEEN}2.\n{one}"
        for one, other, side in zip(ones, others, first, strict=True)
    ]
    status = np.where(compared & ~same, "written", "not compared")
    table = pairs.assign(prompt_index=pairs["pair"], status=status, text=shown)
    items = sample_items(table, n=n, seed=seed, mask_experiencer=mask_experiencer)
    sides = items.key[["item_id", "prompt_index"]].merge(
        table.assign(first=first)[["prompt_index", "first", "perceiver_group", "experiencer_group", "n_shared"]],
        on="prompt_index",
        validate="1:1",
    )
    between = pairs["in_group"].notna()
    return PairSample(items, sides[list(PAIR_SIDES)], int((compared & same & between).sum()))


def _sides(pairs: pd.DataFrame, *, seed: int) -> np.ndarray:
    """Return 1 or 2 for each pair: whose reply stands first, each run in half of a narrative's pairs."""
    rng = np.random.default_rng([seed, crc32(b"sides")])
    first = np.empty(len(pairs), dtype=np.int64)
    for rows in pairs.groupby(["dimension", "narrative_id"], observed=True, sort=True).indices.values():
        halves = np.arange(len(rows)) + rng.integers(2)
        first[rows] = 1 + rng.permutation(halves % 2)
    return first


def load_pair_questions(path: Path | None = None) -> Questions:
    """Read the questions about pairs. None: the packaged question, which is ours and not normed on people.

    Raises ConfigError if a scale has no middle, which stands for a tie.
    """
    questions = load_questions(PAIRS_FILE if path is None else path)
    for asked in questions.questions:
        low, high = getattr(asked, "low", None), getattr(asked, "high", None)
        if low is None or high is None or (high - low) % 2:
            raise ConfigError(
                f"{path}: questions.{asked.name}: a scale between two replies needs a middle, the tie, such as low=1 "
                "and high=3"
            )
    return questions


def pair_files(sample: PairSample, questions: Questions) -> dict[str, bytes]:
    """Return the files of an export except the form, by path in its folder; see ``export_files``."""
    sides = sample.sides.to_csv(index=False).encode("utf-8", "replace")
    return {**export_files(sample.items, questions), SIDES_FILE: sides}


def read_sides(path: Path) -> pd.DataFrame:
    """Read which run's reply stood first. Raise StoreError if the file was changed."""
    try:
        types = {**dict.fromkeys(PAIR_SIDES, str), **_SIDE_TYPES}
        table = pd.read_csv(io.BytesIO(read_file(path)), dtype=types, keep_default_na=False)[list(PAIR_SIDES)]
    except (OSError, ValueError, KeyError, OverflowError) as error:
        raise StoreError(f"{path} cannot be read ({error}); export the pairs again") from error
    if not table["first"].isin([1, 2]).all() or table["item_id"].duplicated().any():
        raise StoreError(f"{path} was changed: a pair stands twice, or its first is neither 1 nor 2; export again")
    return table


def choices_made(human: HumanRatings, key: pd.DataFrame, sides: pd.DataFrame, questions: Questions) -> pd.DataFrame:
    """Return people's choices: columns of ``tables.CHOICES``, one row for each rater, pair and question.

    Below the middle of a question's scale the first reply was chosen, above it the second. Raises StoreError if ``key``
    and ``sides`` are of different pairs.
    """
    if set(key["item_id"]) != set(sides["item_id"]):
        raise StoreError(f"key.csv and {SIDES_FILE} are not of the same pairs; export them again")
    about = key.drop(columns="prompt_index").merge(sides, on="item_id", validate="1:1")
    table = human.table.merge(about, on="item_id", validate="many_to_one")
    scales = [asked for asked in questions.questions if isinstance(asked, ScaleQuestion)]
    middle = table["question"].map({asked.name: (asked.low + asked.high) / 2 for asked in scales})
    place = pd.Series((1 - np.sign(table["score"] - middle)) / 2, index=table.index)
    chose = place.where(table["first"] == 1, 1 - place)
    return table.assign(chose_place=place, chose=chose)[list(CHOICES)]
