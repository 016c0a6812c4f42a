"""What a run asked, stored in its folder: ``prompts.json.gz`` has the parts of all prompts.

A prompt combines a perceiver, an experiencer, a narrative and a wording of the grid, plus the strategy's calls. The
file has each part once, as text: templates, identities, narratives in the wording that prompts show, and the strategy.
:class:`stimuli.prompts.PromptGrid` combines them in the order of ``prompt_index``. A report can thus show what was
asked even if packaged identities, the user's files or templates change. Narratives are included since reports show them
too.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from audit.errors import StoreError
from stimuli.files import open_file
from stimuli.identities import Dimension, Identity
from stimuli.json_text import parse_json
from stimuli.narratives import WORDINGS, EmotionWords, Narrative, Narratives
from stimuli.pairs import Mask
from stimuli.prompts import DeployedVariant, PromptGrid, PromptVariant, Scale
from stimuli.strategies import Examples, Stage, Strategy

FILE: Final = "prompts.json.gz"  # the file's name in a run's folder
_FORMAT: Final = 1
_LONGEST: Final = 2**28  # bytes of unpacked prompts, at most: a hundred times those of the study's 6,050 narratives


@dataclass(frozen=True, slots=True)
class CallShown:
    """A turn before a prompt's question: a call of its strategy, or an example.

    Attributes
    ----------
    name
        The stage, or the number of the example.
    user
        What was asked; empty if nothing was.
    written
        What the model wrote, or is shown as written.
    note
        Remarks on it; may be empty.
    system
        The call's system message if it differs from the question's; else None.
    example
        Whether this is an example that the model is shown, not its own text.
    """

    name: str
    user: str
    written: str
    note: str = ""
    system: str | None = None
    example: bool = False


@dataclass(frozen=True, slots=True)
class ConversationPrompt:
    """One prompt of a run, with the turns before it.

    Attributes
    ----------
    system, user
        The messages that ask for the answer.
    narrative
        The narrative's text in them.
    calls
        The turns before them, in order.
    note
        Remarks on them; may be empty.
    """

    system: str
    user: str
    narrative: str
    calls: tuple[CallShown, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PromptsAsked:
    """The prompts of a run."""

    grid: PromptGrid
    strategy: Strategy

    def content(self) -> dict[str, Any]:
        """Return the parts as plain values."""
        grid = self.grid
        return {
            "format": _FORMAT,
            "wordings": [asdict(each) for each in grid.wordings],
            "dimensions": [_plain_dimension(each) for each in grid.dimensions],
            **({"drawn": {name: _plain_mask(mask) for name, mask in grid.drawn.items()}} if grid.drawn else {}),
            "narratives": {
                "source": grid.narratives.source,
                "n_available": grid.narratives.n_available,
                "sha256": grid.narratives.sha256,
                "narratives": [_plain_narrative(each, grid.variant.narrative) for each in grid.narratives.narratives],
            },
            "strategy": _without_new(asdict(self.strategy)),
        }

    def to_bytes(self) -> bytes:
        """Return the file's bytes: always the same for the same prompts."""
        # ASCII escapes, since a user's file may have lone surrogates.
        return gzip.compress(json.dumps(self.content(), ensure_ascii=True, allow_nan=False).encode(), mtime=0)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return the prompts with this :meth:`content`; raises various errors if it is malformed."""
        if content["format"] != _FORMAT:
            raise ValueError(
                f"its format is {content['format']!r}; this version of empathy-audit reads format {_FORMAT}"
            )
        wordings = [_variant(each) for each in content["wordings"]]
        dimensions = [_dimension(each) for each in content["dimensions"]]
        narratives = _narratives(content["narratives"])
        strategy = _strategy(content["strategy"])
        for part in (*wordings, *dimensions, narratives, strategy):
            if not _is(part, type(part)):
                raise TypeError(f"a part of {type(part).__name__} has the wrong type")
        drawn = {name: _mask(kept) for name, kept in content.get("drawn", {}).items()}
        grid = PromptGrid(dimensions, narratives, wordings[0], wordings[1:], drawn)
        if not len(grid):
            raise ValueError("it has no prompts")
        return cls(grid, strategy)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the prompts of a run's folder; None if it has no such file, as runs of earlier versions."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            return cls.of(parse_json(unpacked(path)))
        except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); restore it, or move it away (the report then has no prompts)"
            ) from error


def unpacked(path: Path) -> bytes:
    """Return a gzip file's content; raise ValueError if it is larger than prompts can be, as in a gzip bomb."""
    with open_file(path) as packed, gzip.open(packed) as stream:
        content = stream.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ValueError(f"it unpacks to more than {_LONGEST >> 20} MiB")
    return content


# --- Parts as JSON has them ------------------------------------------------------------------------------------------


def _plain_dimension(dimension: Dimension) -> dict[str, Any]:
    return {
        "name": dimension.name,
        "perceivers": [_plain_identity(each) for each in dimension.perceivers],
        "experiencers": [_plain_identity(each) for each in dimension.experiencers],
        "in_group_pairs": [sorted(map(list, pairs)) for pairs in dimension.in_group_pairs],
        "clusters": dict(dimension.clusters),
        "placebo": dimension.placebo,
    }


def _plain_identity(identity: Identity) -> dict[str, Any]:
    """Return an identity as plain values; ``forms`` and ``said`` only if there are any, as before they existed."""
    return {name: value for name, value in asdict(identity).items() if name not in ("forms", "said") or value}


def _identity(kept: dict[str, Any]) -> Identity:
    return Identity(**{**kept, "groups": tuple(kept["groups"]), "forms": tuple(map(tuple, kept.get("forms", ())))})


def _dimension(kept: dict[str, Any]) -> Dimension:
    sides = {side: tuple(map(_identity, kept[side])) for side in ("perceivers", "experiencers")}
    pairs = tuple(frozenset((own, other) for own, other in pairs) for pairs in kept["in_group_pairs"])
    return Dimension(**{**kept, **sides, "in_group_pairs": pairs})


def _plain_mask(mask: Mask) -> dict[str, Any]:
    """Return a draw of pairs itself, since a later version may draw differently from the same seed."""
    return {"shape": list(mask.shape), "bits": base64.b64encode(np.packbits(mask).tobytes()).decode()}


def _mask(kept: dict[str, Any]) -> Mask:
    shape = tuple(map(int, kept["shape"]))
    bits = np.unpackbits(np.frombuffer(base64.b64decode(kept["bits"], validate=True), dtype=np.uint8))
    n = math.prod(shape)
    if not 0 <= len(bits) - n < 8:
        raise ValueError("a sample of pairs has another size than recorded")
    return bits[:n].astype(bool).reshape(shape)


def _without_new(kept: dict[str, Any]) -> dict[str, Any]:
    """Leave out what strategies and narratives had not when format 1 began, where it is empty."""
    return {
        name: value
        for name, value in kept.items()
        if value or name not in ("is_talk", "later", "answered", "identity", "valence")
    }


def _plain_narrative(narrative: Narrative, shown: str) -> dict[str, Any]:
    """Return a narrative without the wordings that no prompt shows."""
    return _without_new({**asdict(narrative), **{name: "" for name in WORDINGS if name != shown}})


def _narratives(kept: dict[str, Any]) -> Narratives:
    read = tuple(
        Narrative(
            **{
                **each,
                "words": EmotionWords(**each["words"]),
                **{name: tuple(each[name]) for name in ("later", "answered") if name in each},
            }
        )
        for each in kept["narratives"]
    )
    return Narratives(kept["source"], read, kept["n_available"], kept["sha256"])


def _variant(kept: dict[str, Any]) -> PromptVariant:
    kind = DeployedVariant if "earlier_user" in kept else PromptVariant
    return kind(**{**kept, "scale": None if kept["scale"] is None else Scale(**kept["scale"])})


def _strategy(kept: dict[str, Any]) -> Strategy:
    examples, reply = kept["examples"], kept["reply"]
    parts = {
        "stages": tuple(Stage(**each) for each in kept["stages"]),
        "examples": None if examples is None else Examples(**examples),
        "relations": tuple(kept["relations"]),
        "reply": None if reply is None else Stage(**reply),
    }
    return Strategy(**{**kept, **parts})


def _is(value: object, kind: Any) -> bool:
    """Whether a value matches an annotation at any depth: JSON may have a number where text should be."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is tuple and inside[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(inside) and all(map(_is, value, inside))
    if origin in (tuple, frozenset):
        return isinstance(value, origin) and all(_is(each, inside[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _is(name, inside[0]) and _is(each, inside[1]) for name, each in value.items()
        )
    if isinstance(kind, type) and is_dataclass(kind):
        return isinstance(value, kind) and all(
            _is(getattr(value, name), own) for name, own in _annotations(kind).items()
        )
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, kind)


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    told = get_type_hints(kind)
    return {each.name: told[each.name] for each in fields(kind)}
