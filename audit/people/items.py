"""Draws a sample of a run's replies for people to rate, blind to the perceiver, so that δ can be estimated."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.errors import ConfigError
from audit.tables.formatting import count, either, plural
from audit.tables.replies import SCORED

KEY: Final[dict[str, str]] = {
    "item_id": "what raters know the reply by; tells nothing",
    "prompt_index": "the reply's place in the run's grid",
    "dimension": "what perceiver and experiencer differ in",
    "variant": "the prompt variant",
    "narrative_id": "the narrative, unique within its source",
    "emotion": "the narrative's emotion",
    "perceiver": "wording of the identity that the model was given",
    "experiencer": "wording of the identity of the person in the narrative",
    "in_group": "whether they share the group",
    "status": "written or cut",
    "names_perceiver": "whether words of the perceiver's identity stand in the reply: raters may guess it",
    "names_experiencer": "whether words of the experiencer's identity do",
}
"""Columns of the key, which never goes to raters."""

_NEEDED: Final = tuple(name for name in KEY if name not in ("item_id", "names_perceiver", "names_experiencer"))
_WORDS: Final = {name: str for name in _NEEDED if name not in ("prompt_index", "in_group")}
_LETTERS: Final = str.maketrans("0123456789abcdef", "bcdfghjkmnpqrstv")
"""Replaces hexadecimal digits: without vowels and digits, no identifier is a word, month or number."""
_ID_LENGTH: Final = 10
_PLAIN: Final = frozenset(
    ["a", "an", "the", "of", "from", "who", "is", "and", "or", "with", "person", "people", "man", "woman", "someone"]
)
"""Words in an identity's wording that do not identify it."""
_ENDINGS: Final = "(?:s|es|ish|ism|ese|n|an|ian|i)?"

Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ItemSample:
    """Replies to be rated, and the key to them."""

    # All that raters may see, one row an item, in an order that reveals nothing: item_id; person, the experiencer's
    # identity, unless masked; narrative; reply, verbatim.
    shown: pd.DataFrame
    key: pd.DataFrame  # columns of KEY, in the same order
    n_asked: int | None  # None for all replies
    n_eligible: int  # replies that could be drawn
    masked: bool  # whether raters do not learn the experiencer's identity either

    @property
    def n_revealing(self) -> int:
        """How many replies contain words of the perceiver's identity."""
        return int(self.key["names_perceiver"].sum())

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the researcher about the sample."""
        key, n_items = self.key, len(self.key)
        said = [
            f"{plural(n_items, 'item')} of {plural(key['narrative_id'].nunique(), 'narrative')}, "
            f"{count(key['in_group'].sum())} in-group and {count((~key['in_group']).sum())} out-group, of "
            f"{plural(self.n_eligible, 'reply')} between identities, written or cut"
        ]
        if self.n_asked is not None and n_items < self.n_asked:
            said.append(
                f"{plural(self.n_asked, 'item')} {either(self.n_asked, 'was', 'were')} asked for: there are no more "
                "in-group replies that an out-group reply to the same narrative can be set beside"
            )
        if self.n_revealing:
            own = int((key["names_perceiver"] & (key["perceiver"] == key["experiencer"])).sum())
            said.append(
                f"{count(self.n_revealing)} of {plural(n_items, 'item')} may tell raters who the perceiver is: words "
                f"of that identity stand in the reply; {count(own)} of them reply to somebody of the same identity, "
                "whom they may mean. No text was altered; the key marks them in names_perceiver"
            )
        if self.masked and (n_naming := int(key["names_experiencer"].sum())):
            said.append(
                f"{count(n_naming)} of {plural(n_items, 'item')} {either(n_naming, 'names', 'name')} the "
                "experiencer's identity in the reply, though "
                "it is masked in the narrative; the key marks them in names_experiencer"
            )
        return tuple(said)


def sample_items(replies: pd.DataFrame, *, n: int | None, seed: int, mask_experiencer: bool = False) -> ItemSample:
    """Draw replies for people to rate; ``n`` of None takes all, balanced or not.

    ``replies`` has one row a prompt, with ``narrative`` as the model was shown it; its order does not matter. With the
    same ``seed``, a smaller sample is part of a larger one. ``mask_experiencer`` replaces the experiencer's wording by
    "a person" in the narrative; replies are never altered.

    Notes
    -----
    Baselines are left out, and so are replies that are neither written nor cut. The sampling unit is a *square*: the
    four replies of two perceivers to two experiencers in one narrative and dimension, two in-group and two out-group.
    In each square the contrast of in-group and out-group is free of the levels of the narrative, both perceivers and
    both experiencers, so δ of people can be estimated from few ratings without modelling these. Every narrative gives
    one square before any gives a second; dimensions and variants take turns. If a narrative has no square left, an
    in-group reply is paired with an out-group one to the same experiencer (or else by the same perceiver, or else any).
    ``n`` may cut the last square short. The design is ours.

    Identifiers are HMAC-SHA256 of ``prompt_index``, keyed by the seed and all replies that could be drawn: they reveal
    nothing without the run, and other runs have different ones.
    """
    if lacking := sorted({*_NEEDED, "narrative", "text"} - {*replies}):
        raise ValueError(f"the table of replies lacks {', '.join(lacking)}")
    if n is not None and n < 1:
        raise ConfigError(f"n={n}: give the number of replies to rate, at least 1; leave n out to rate all")
    if replies["prompt_index"].duplicated().any():
        raise ValueError("a prompt_index occurs twice among the replies")
    usable = replies["status"].isin(SCORED) & replies["in_group"].notna()
    eligible = replies.loc[usable].sort_values("prompt_index", ignore_index=True)
    if eligible.empty:
        raise ConfigError(
            f"nothing to rate: of {count(len(replies))} replies none between two identities is written or cut"
        )
    rng = np.random.default_rng(seed)
    drawn = range(len(eligible)) if n is None else list(itertools.islice(_balanced(eligible, rng), n))
    if not len(drawn):
        raise ConfigError(
            "no narrative has both an in-group and an out-group reply, so nothing can be balanced; leave n out to "
            f"take all {len(eligible):,} replies"
        )
    chosen = eligible.iloc[list(drawn)]
    words = chosen[["perceiver", "experiencer", "text", "narrative"]].astype(str)
    key = chosen[list(_NEEDED)].astype(_WORDS)
    key = key.assign(
        item_id=identifiers(chosen["prompt_index"], secret=_secret(eligible, seed=seed)),
        in_group=chosen["in_group"].astype(bool),
        names_perceiver=_named_in(words["text"], words["perceiver"], key["dimension"]),
        names_experiencer=_named_in(words["text"], words["experiencer"], key["dimension"]),
    )
    shown = pd.DataFrame({"item_id": key["item_id"], "person": words["experiencer"], "narrative": words["narrative"]})
    shown["reply"] = words["text"]
    if mask_experiencer:
        masked = [_masked(text, term) for text, term in zip(shown["narrative"], shown["person"], strict=True)]
        shown = shown.assign(narrative=masked).drop(columns="person")
    return ItemSample(
        shown=shown.sort_values("item_id", ignore_index=True),
        key=key[list(KEY)].sort_values("item_id", ignore_index=True),
        n_asked=n,
        n_eligible=len(eligible),
        masked=mask_experiencer,
    )


def _balanced(eligible: pd.DataFrame, rng: np.random.Generator) -> Iterator[int]:
    """Yield rows block by block: a block of each narrative in one scope, then of each narrative in the next."""
    columns = eligible[["dimension", "variant", "narrative_id", "perceiver", "experiencer"]].astype(str)
    pairs = list(zip(columns["perceiver"], columns["experiencer"], strict=True))
    in_group = eligible["in_group"].to_numpy(dtype=bool)
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, where in enumerate(columns[["dimension", "variant", "narrative_id"]].itertuples(index=False, name=None)):
        rows.setdefault(where, []).append(row)
    scopes = sorted({key[:2] for key in rows})
    narratives = sorted({key[2] for key in rows})
    left = {key: _blocks(rows[key], pairs, in_group, rng) for key in sorted(rows)}
    order = [narratives[at] for at in rng.permutation(len(narratives))]
    for turn in itertools.count():
        for place, narrative in enumerate(order):
            key = (*scopes[(place + turn) % len(scopes)], narrative)
            if key in left:
                block = next(left[key], None)
                if block is None:
                    del left[key]
                else:
                    yield from block
        if not left:
            return


def _blocks(
    rows: Sequence[int], pairs: Sequence[Pair], in_group: npt.NDArray[np.bool_], rng: np.random.Generator
) -> Iterator[tuple[int, ...]]:
    """Yield squares of one narrative's replies, then pairs of the rest, without repeating a reply."""
    order = [int(row) for row in rng.permutation(rows)]
    outside = {pairs[row]: row for row in order if not in_group[row]}
    inside, alone = [row for row in order if in_group[row]], []
    while inside:
        first = inside.pop(0)
        perceiver, experiencer = pairs[first]
        for second in inside:
            crossed, back = (perceiver, pairs[second][1]), (pairs[second][0], experiencer)
            if crossed in outside and back in outside:
                inside.remove(second)
                yield first, outside.pop(crossed), second, outside.pop(back)
                break
        else:
            alone.append(first)
    for row in alone[: len(outside)]:
        perceiver, experiencer = pairs[row]
        nearest = min(outside, key=lambda pair: (pair[1] != experiencer, pair[0] != perceiver))
        yield row, outside.pop(nearest)


def _secret(eligible: pd.DataFrame, *, seed: int) -> bytes:
    """Derive a secret that takes the run's replies to compute."""
    made = hashlib.sha256(f"{seed}".encode())
    for index, text in zip(eligible["prompt_index"], eligible["text"].astype(str), strict=True):
        made.update(f"\0{index}\0{text}".encode("utf-8", "surrogatepass"))
    return made.digest()


def identifiers(things: Iterable[object], *, secret: bytes) -> list[str]:
    """Give each thing an identifier that reveals nothing: ten letters, more if two would be equal."""
    digests = [
        hmac.new(secret, str(thing).encode("utf-8", "surrogatepass"), "sha256").hexdigest().translate(_LETTERS)
        for thing in things
    ]
    length = next(k for k in itertools.count(_ID_LENGTH) if len({digest[:k] for digest in digests}) == len(digests))
    return [digest[:length] for digest in digests]


def _named_in(texts: Iterable[str], terms: Iterable[str], dimensions: Iterable[str]) -> list[bool]:
    """Tell for each text whether it contains words of its identity."""
    patterns = (_naming(term, compound="+" in dimension) for term, dimension in zip(terms, dimensions, strict=True))
    return [bool(pattern and pattern.search(text)) for pattern, text in zip(patterns, texts, strict=True)]


@cache
def _naming(term: str, *, compound: bool) -> re.Pattern[str] | None:
    """Build a rough pattern for an identity's own words; None if its wording has none.

    Any single word of an intersection counts, for other identities the words in a row. Endings as in "Japanese" are
    allowed.
    """
    runs = [
        list(run)
        for plain, run in itertools.groupby(term.split(), key=lambda word: word.lower() in _PLAIN)
        if not plain
    ]
    found = [word for run in runs for word in run] if compound else [" ".join(run) for run in runs]
    if not found:
        return None
    either = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in found)
    return re.compile(rf"(?<!\w)(?:{either}){_ENDINGS}(?!\w)", re.IGNORECASE)


def _masked(text: str, term: str) -> str:
    """Replace the experiencer's wording by "a person", capitalised like the original."""
    return re.sub(
        rf"(?<!\w){re.escape(term)}(?!\w)",
        lambda found: "A person" if found[0][:1].isupper() and term[:1].islower() else "a person",
        text,
        flags=re.IGNORECASE,
    )
