"""Elicitation ``expected``: the mean of the model's own distribution over the scale's whole numbers.

A model that answers in words at temperature 0 still gives each number of the scale a probability as its first
words. Those probabilities are read from next-token probabilities, exactly, by walking the tree of the numbers' tokens:
models that split numbers into digits need up to three passes, models with a token for each number one.

The probability of a number is that of its tokens, times, where longer numbers of the scale begin with it, that of
no further digit following ("7", not the beginning of "72"). *Number mass* is the sum over the scale: how much of the
distribution began like a number of the scale at all.

The distribution is that of an answer held to the scale: what follows the last digit that a number of the scale can
have is not asked. So, with a tokenizer that splits digits, "80" on a scale that ends at 10 counts as 8, and "723" on
one that ends at 100 as 72; with a token for each number they do not count at all. A decimal part is not asked either:
"7.5" counts as 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from audit.elicitation.base import Elicited, encode_prompts
from audit.engines.base import Engine
from audit.engines.chat import ChatTokenizer
from audit.errors import ModelError
from audit.schema import Status
from stimuli.prompts import Prompt, Scale

Path: TypeAlias = tuple[int, ...]
_MAX_TOKENS_ASKED = 128  # vLLM takes no more in one request


@dataclass(frozen=True)
class NumberTree:
    """The tokens of a scale's numbers.

    Attributes
    ----------
    number_at
        The number that a token path spells.
    children
        For each path that goes on, the tokens that go on with it; the root is the empty path.
    digits
        Every token that goes on with a number already begun: whether one of them follows decides if it ends.
    """

    number_at: dict[Path, int]
    children: dict[Path, tuple[int, ...]]
    digits: tuple[int, ...]

    def paths(self, depth: int) -> list[Path]:
        """Return the paths of a length that go on."""
        return [path for path in self.children if len(path) == depth]

    def is_closed(self, path: Path) -> bool:
        """Return whether all that begins with a path is a number of the scale: it is one, and any digit may follow."""
        return path in self.number_at and set(self.digits) <= set(self.children[path])

    @property
    def depth(self) -> int:
        """Length of the longest path that goes on."""
        return max(len(path) for path in self.children)


def number_tree(tokenizer: ChatTokenizer, scale: Scale, *, before: str) -> NumberTree:
    """Return the tree of a scale's numbers as the model would write them, with or without a space before.

    Parameters
    ----------
    tokenizer
        The model's.
    scale
        Whose whole numbers are spelt.
    before
        A rendered prompt: a tokenizer may split a number differently at the head of a text.

    Raises
    ------
    ModelError
        If the numbers can not be told from their tokens.
    """
    number_at: dict[Path, int] = {}
    bare: set[Path] = set()
    for space in ("", " "):
        for number in range(scale.low, scale.high + 1):
            path = tokenizer.continuation(before, f"{space}{number}")
            if path is None or not path:
                continue
            if number_at.setdefault(path, number) != number:
                raise ModelError(
                    f"model {tokenizer.name}: its tokenizer spells {number} like {number_at[path]}; "
                    "use elicitation=generate"
                )
            if not space:
                bare.add(path)
    spelt = set(number_at.values())
    if len(spelt) < scale.high - scale.low + 1:
        raise ModelError(
            f"model {tokenizer.name}: its tokenizer joins numbers to the end of the prompt, so their "
            "probabilities can not be asked; use elicitation=generate"
        )
    following: dict[Path, set[int]] = {}
    for path in number_at:
        for end in range(len(path)):
            following.setdefault(path[:end], set()).add(path[end])
    begun = {path for path in following if any(path[:end] in number_at for end in range(1, len(path) + 1))}
    digits = {token for path in begun for token in following[path]}
    # A digit that no number of the scale goes on with still says that a number has not ended: "10" before "105".
    digits |= {path[0] for path in bare if len(path) == 1} if digits else set()
    tree = NumberTree(
        number_at, {path: tuple(sorted(tokens)) for path, tokens in following.items()}, tuple(sorted(digits))
    )
    if max(len({*tokens, *tree.digits}) for tokens in tree.children.values()) > _MAX_TOKENS_ASKED:
        raise ModelError(
            f"model {tokenizer.name}: the scale has more first tokens than the {_MAX_TOKENS_ASKED} that can be "
            "asked at once; use a smaller scale or elicitation=generate"
        )
    return tree


@dataclass
class ExpectedElicitation:
    """Reads the distribution over the scale's numbers.

    Attributes
    ----------
    scale
        Whose whole numbers are asked.
    max_pruned_points
        Branches of the number tree with so little mass that leaving all of them out can move the intensity by no
        more than this, in scale points, are not followed.
    """

    scale: Scale
    max_pruned_points: float
    _tree: NumberTree | None = field(default=None, repr=False)

    @property
    def room(self) -> int:
        """See :class:`audit.elicitation.base.Elicitation`: a space, the largest number's digits, and what follows."""
        return len(str(self.scale.high)) + 2

    def elicit(self, engine: Engine, prompts: Sequence[Prompt]) -> list[Elicited]:
        """See :class:`audit.elicitation.base.Elicitation`."""
        if self._tree is None:
            before = engine.tokenizer.render(prompts[0])
            self._tree = number_tree(engine.tokenizer, self.scale, before=before)
        tree = self._tree
        encoded = encode_prompts(engine, prompts, room=tree.depth + 1)
        fitting = {place: ids for place, ids in enumerate(encoded) if ids is not None}
        distributions = self._distributions(engine, list(fitting.values()), tree)
        outcomes = [Elicited(Status.FAILED) for _ in prompts]
        for (place, ids), distribution in zip(fitting.items(), distributions, strict=True):
            outcomes[place] = replace(summarise(distribution, low=self.scale.low), n_prompt_tokens=len(ids))
        return outcomes

    def _distributions(self, engine: Engine, prompts: list[list[int]], tree: NumberTree) -> npt.NDArray[np.float64]:
        """Return shape (n_prompts, n_numbers): the probability of each number of the scale."""
        n_numbers = self.scale.high - self.scale.low + 1
        distributions = np.zeros((len(prompts), n_numbers))
        frontier: list[dict[Path, float]] = [{(): 1.0} for _ in prompts]
        for _ in range(tree.depth + 1):
            tails = [list(paths) for paths in frontier]
            if not any(tails):
                break
            asked = tuple(
                sorted({*tree.digits, *(t for paths in tails for path in paths for t in tree.children[path])})
            )
            column = {token: k for k, token in enumerate(asked)}
            digit_columns = [column[token] for token in tree.digits]
            answers = engine.next_token_probabilities(prompts, tails, asked)
            for place, (paths, table) in enumerate(zip(tails, answers, strict=True)):
                reached: dict[Path, float] = {}
                for path, row in zip(paths, table, strict=True):
                    mass = frontier[place][path]
                    number = tree.number_at.get(path)
                    if number is not None:
                        ends = max(0.0, 1.0 - float(row[digit_columns].sum()))
                        distributions[place, number - self.scale.low] += mass * ends
                    for token in tree.children[path]:
                        child, child_mass = (*path, token), mass * float(row[column[token]])
                        if child in tree.children:
                            reached[child] = child_mass
                        else:
                            distributions[place, tree.number_at[child] - self.scale.low] += child_mass
                frontier[place] = self._prune(tree, reached, counted=float(distributions[place].sum()))
        return distributions

    def _prune(self, tree: NumberTree, reached: dict[Path, float], *, counted: float) -> dict[Path, float]:
        """Leave out the branches of least mass, as far as the bound allows.

        Leaving out mass m of a distribution moves its mean by at most range · m / M, where M is the number mass that is
        left. M is at least what is counted already and what the branches hold that can only end in numbers. The bound
        is shared out over the levels of the tree.
        """
        allowed = self.max_pruned_points / (self.scale.high - self.scale.low) / max(tree.depth, 1)
        kept = dict(reached)
        pruned = 0.0
        for path in sorted(reached, key=lambda p: reached[p]):
            pruned += reached[path]
            certain = counted + sum(mass for other, mass in kept.items() if other != path and tree.is_closed(other))
            if pruned > allowed * certain:
                break
            del kept[path]
        return kept


def summarise(distribution: npt.NDArray[np.float64], *, low: int) -> Elicited:
    """Return mean, mode, spread and number mass of unnormalised probabilities over the numbers from ``low`` up.

    Without any mass on a number there is no rating: the response is unparseable, not an intensity of 0.
    """
    mass = float(distribution.sum())
    if not mass > 0:
        return Elicited(Status.UNPARSEABLE, number_mass=0.0)
    numbers = low + np.arange(len(distribution), dtype=np.float64)
    share = distribution / mass
    # Rounding may carry a mean past an end of the scale by its last bit.
    mean = float(np.clip(share @ numbers, numbers[0], numbers[-1]))
    return Elicited(
        Status.RATED,
        intensity=mean,
        number_mass=min(mass, 1.0),
        mode=float(numbers[distribution.argmax()]),
        spread=float(np.sqrt(share @ (numbers - mean) ** 2)),
    )
