"""Few-shot examples: pairs of a situation and an empathic answer, of which a strategy shows some before it asks.

Which examples a narrative gets depends on the narrative alone. So the prompts with an in-group and those with an
out-group experiencer show the same ones, for every perceiver, and δ compares like with like. arXiv:2310.05140 shows
none, one or five examples, random ones or the most similar by the cosine of sentence embeddings, from the training pool
only, the most similar first. That the most similar may come last, and the random stream, are ours.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stimuli.errors import StimulusError
from stimuli.narratives import WORDINGS, Narratives
from stimuli.tables import check_unique, read_cells
from stimuli.words import words_alone
from stimuli.yaml_files import may_be_file

PACKAGED: Final = "packaged"  # the source of the pool that comes with the package
EXAMPLES_FILE: Final = Path(__file__).parent / "data" / "examples.csv"

_COLUMNS: Final = ("example_id", "text", "answer", "emotion")
_MIN_WORDS: Final = 5  # a text of fewer words inside another is a coincidence


@dataclass(frozen=True, slots=True)
class Example:
    """A situation as somebody tells it, and a reply to it; the emotion is empty where the pool gives none."""

    example_id: str
    text: str
    answer: str
    emotion: str = ""


@dataclass(frozen=True)
class ExamplePool:
    """The examples there are to choose from."""

    source: str  # `packaged`, or the path of the user's file as it was given
    examples: tuple[Example, ...]  # in the order of their file; a choice of examples names their places in it
    sha256: str  # of the identifiers, texts, answers and emotions, in their order

    @property
    def where(self) -> str:
        """What a message calls the pool."""
        return "the packaged pool" if self.source == PACKAGED else self.source


def load_pool(path: Path | None, columns: Mapping[str, str | None]) -> ExamplePool:
    """Return the packaged examples, or those of a user's file, in which no two texts are alike.

    ``columns`` has the file's column for each of ``example_id text answer emotion``; None for an emotion that it lacks.
    StimulusError if a cell is empty, an identifier stands twice, or two texts are the same but for case, white space
    and punctuation.
    """
    if path is None:
        columns = {ours: ours for ours in _COLUMNS}
    named = {ours: theirs for ours in _COLUMNS if (theirs := columns.get(ours)) is not None}
    for ours in ("example_id", "text", "answer"):
        if ours not in named:
            raise StimulusError(f"strategy.examples.columns.{ours} must name a column of {path}")
    file = EXAMPLES_FILE if path is None else path
    if not may_be_file(file):
        raise StimulusError(f"strategy.examples.pool={path} is not a file; use null for the packaged pool")
    rows = read_cells(file, named, of="examples")
    examples = tuple(Example(**cells) for _, cells in rows)
    check_unique((example.example_id for example in examples), of="example", place=str(file))
    first: dict[str, str] = {}
    for (place, _), example in zip(rows, examples, strict=True):
        twin = first.setdefault(words_alone(example.text) or example.text, example.example_id)
        if twin != example.example_id:
            raise StimulusError(f"{place}: example {example.example_id!r} has the text of {twin!r}; keep one of them")
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps(astuple(example)).encode() + b"\n")
    return ExamplePool(PACKAGED if path is None else str(path), examples, digest.hexdigest())


def check_unseen(pool: ExamplePool, narratives: Narratives) -> None:
    """Refuse a pool that holds a narrative of the run, in whichever wording.

    Texts are compared by their words: case and compatibility forms (NFKC) are folded, and whatever is no letter, mark
    or digit parts words. An example is a narrative if the two are equal in any wording, or if one of them holds the
    other as a whole and that has five words or more. In a script without spaces a clause counts as one word, so that a
    narrative inside a longer clause goes unnoticed there.
    """
    wordings: dict[str, str] = {}
    for narrative in narratives.narratives:
        for wording in WORDINGS:
            wordings.setdefault(words_alone(narrative.wording(wording)), narrative.narrative_id)
    wordings.pop("", None)
    texts = [words_alone(example.text) for example in pool.examples]
    different = dict.fromkeys(texts)
    seen: dict[str, tuple[str, str]] = {text: ("is", wordings[text]) for text in different if text in wordings}
    for text, wording in _held(different, wordings):
        seen.setdefault(text, ("is part of", wordings[wording]))
    for wording, text in _held(wordings, different):
        seen.setdefault(text, ("holds", wordings[wording]))
    found = [place for place, text in enumerate(texts) if text in seen]
    if found:
        how, narrative_id = seen[texts[found[0]]]
        raise StimulusError(
            f"{pool.where}: {len(found)} of {len(texts)} examples have the text of narratives of this run (first: "
            f"example {pool.examples[found[0]].example_id!r} {how} narrative {narrative_id!r}); remove them from "
            "the pool (strategy.examples.pool): an example must never be a narrative of the run"
        )


def _held(needles: Collection[str], haystacks: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each needle of enough words with each haystack that holds it; all are normalised."""
    # By their first words, the lengths of the needles: a look-up for each, however many begin alike.
    lengths: dict[tuple[str, ...], set[int]] = {}
    for needle in needles:
        words = needle.split()
        if len(words) >= _MIN_WORDS:
            lengths.setdefault(tuple(words[:_MIN_WORDS]), set()).add(len(words))
    for haystack in haystacks:
        words = haystack.split()
        for start, opening in enumerate(zip(*(words[k:] for k in range(_MIN_WORDS)), strict=False)):
            for length in sorted(lengths.get(opening, ())):
                held = " ".join(words[start : start + length])
                if held in needles:
                    yield held, haystack


def choose_random(pool: ExamplePool, narratives: Narratives, *, n: int, seed: int) -> dict[str, tuple[int, ...]]:
    """Draw n examples for each narrative, without replacement: places in ``pool.examples``, in the order shown.

    Each narrative has its own random stream, made of the seed and its identifier: its examples are the same for every
    pair of identities, and whatever else is asked.
    """
    check_enough(n, pool)
    chosen = {}
    for narrative in narratives.narratives:
        rng = np.random.default_rng([seed, zlib.crc32(narrative.narrative_id.encode())])
        places = rng.choice(len(pool.examples), size=n, replace=False)
        chosen[narrative.narrative_id] = tuple(places.tolist())
    return chosen


def choose_similar(
    similarity: npt.NDArray[np.floating[Any]], *, n: int, nearest_first: bool = False
) -> list[tuple[int, ...]]:
    """Choose for each narrative the n examples that are most similar to it.

    ``similarity`` has shape (n_narratives, n_examples), of any scale. The least similar comes first, so that the most
    similar example stands next to the question, unless ``nearest_first``. Among equals the earlier column counts as
    more similar.

    Examples
    --------
    >>> choose_similar(np.array([[0.1, 0.9, 0.5]]), n=2)  # the second example is the most similar, and stands last
    [(2, 1)]
    """
    n_examples = similarity.shape[1]
    if n > n_examples:
        raise ValueError(f"{n} of {n_examples} examples cannot be chosen")
    if np.isnan(similarity).any():
        raise ValueError("a similarity is NaN, so examples cannot be ranked")
    if n == 0:
        return [()] * len(similarity)
    chosen = []
    for row in similarity:
        least = np.partition(row, n_examples - n)[n_examples - n]
        (near,) = np.nonzero(row >= least)  # more than n where there are ties
        best = near[np.argsort(-row[near], kind="stable")][:n]
        chosen.append(tuple((best if nearest_first else best[::-1]).tolist()))
    return chosen


def check_enough(n: int, pool: ExamplePool) -> None:
    """Raise StimulusError if a pool has fewer than ``n`` examples."""
    if n > len(pool.examples):
        raise StimulusError(
            f"strategy.examples.n={n}, but {pool.where} has {len(pool.examples)} examples; ask for at most "
            f"{len(pool.examples)}, or give a larger pool in strategy.examples.pool"
        )
