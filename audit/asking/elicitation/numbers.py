"""The tokens of a scale's numbers as a tree, from the beginning of an answer to the end of each number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from audit.engines.chat import ChatTokenizer
from audit.errors import ModelError
from stimuli.prompts import Scale

Path: TypeAlias = tuple[int, ...]
_MAX_TOKENS_ASKED: Final = 128  # the limit of vLLM for one request


@dataclass(frozen=True)
class NumberTree:
    """The tokens of a scale's numbers; each of the n nodes is a path of tokens, the first one empty."""

    paths: tuple[Path, ...]  # the nodes' paths, parents before children
    numbers: npt.NDArray[np.float64]  # shape (n,): the number that a node spells; NaN if it only begins numbers
    # shape (n,), float64: the smallest and largest number that a node spells or begins
    lows: npt.NDArray[np.float64]
    highs: npt.NDArray[np.float64]
    parents: npt.NDArray[np.int64]  # shape (n,): each node's parent; -1 for the first node
    tokens: tuple[int, ...]  # the k tokens to ask about: all that continue a number, and digits
    columns: npt.NDArray[np.int64]  # shape (n,): the place in tokens of a node's last token; -1 for the first node
    # the places in tokens of those that continue a complete number: a number ends if none of them follows
    digits: npt.NDArray[np.int64]
    # Shape (n,): whether the next token matters, because the node begins numbers or its own number may go on. A number
    # that is a single token, like the numbers that begin with it, ends by itself.
    asked: npt.NDArray[np.bool_]

    @property
    def spells(self) -> npt.NDArray[np.bool_]:
        """Shape (n,): whether a node spells a number."""
        return ~np.isnan(self.numbers)

    @property
    def ends(self) -> npt.NDArray[np.bool_]:
        """Shape (n,): whether a node spells a number that no longer number of the scale begins with."""
        return self.spells & ~np.isin(np.arange(len(self.paths)), self.parents)

    @property
    def room(self) -> int:
        """The tokens of the longest path that is asked about, plus the next one."""
        return 1 + max(len(path) for path, asked in zip(self.paths, self.asked, strict=True) if asked)

    def n_asked(self, *, calibrated: bool) -> int:
        """Return the most nodes that a prompt is asked about, with ends of numbers asked or ``calibrated``."""
        return int((self.asked & ~self.ends if calibrated else self.asked).sum())


def number_tree(tokenizer: ChatTokenizer, scale: Scale, *, before: str) -> NumberTree:
    """Build the tree of a scale's numbers as the model would write them after ``before``, a rendered prompt."""
    number_at: dict[Path, int] = {}
    unended: set[Path] = set()
    digits: set[int] = set()
    for space in ("", " "):
        for number in range(scale.low, scale.high + 1):
            path = tokenizer.continuation(before, f"{space}{number}")
            if path is None or not path:
                continue
            if number_at.setdefault(path, number) != number:
                raise ModelError(
                    f"model {tokenizer.name}: its tokenizer encodes {number} like {number_at[path]}; use "
                    "elicitation=generate"
                )
            for digit in range(10) if number in (scale.low, scale.high) else (5,):
                longer = tokenizer.continuation(before, f"{space}{number}{digit}")
                if longer is not None and longer[:-1] == path:  # "725" must begin with the token of "72"
                    unended.add(path)
                    digits.add(longer[-1])
    if unended:  # a model may write "100" as "10" and "0" even if its tokenizer would not
        digits |= {path[0] for path, number in number_at.items() if number < 10 and len(path) == 1}
    if len(set(number_at.values())) < scale.high - scale.low + 1:
        raise ModelError(
            f"model {tokenizer.name}: its tokenizer merges numbers with the end of the prompt, so their "
            "probabilities cannot be read; use elicitation=generate"
        )
    following: dict[Path, set[int]] = {}
    for path in number_at:
        for end in range(len(path)):
            following.setdefault(path[:end], set()).add(path[end])
    tokens = sorted({*digits, *(token for after in following.values() for token in after)})
    if len(tokens) > _MAX_TOKENS_ASKED:
        raise ModelError(
            f"model {tokenizer.name}: the scale has more first tokens than the {_MAX_TOKENS_ASKED} that can be "
            "read at once; use a smaller scale or elicitation=generate"
        )
    return _tree(number_at, following, unended, tokens, digits)


def _tree(
    number_at: Mapping[Path, int],
    following: Mapping[Path, set[int]],
    unended: set[Path],
    tokens: list[int],
    digits: set[int],
) -> NumberTree:
    paths = sorted({*number_at, *following}, key=lambda path: (len(path), path))
    place = {path: k for k, path in enumerate(paths)}
    beneath: dict[Path, list[int]] = {path: [] for path in paths}
    for path, number in number_at.items():
        for end in range(len(path) + 1):
            beneath[path[:end]].append(number)
    return NumberTree(
        paths=tuple(paths),
        numbers=np.array([number_at.get(path, np.nan) for path in paths], dtype=np.float64),
        lows=np.array([min(beneath[path]) for path in paths], dtype=np.float64),
        highs=np.array([max(beneath[path]) for path in paths], dtype=np.float64),
        parents=np.array([place[path[:-1]] if path else -1 for path in paths]),
        tokens=tuple(tokens),
        columns=np.array([tokens.index(path[-1]) if path else -1 for path in paths]),
        digits=np.array(sorted(map(tokens.index, digits)), dtype=np.int64),
        asked=np.array([path in following or path in unended for path in paths]),
    )
