"""Questionnaires: an inventory's items, the orders and prompts that show them, and what a filled-in list says.

An *inventory* is a user's file, since the items of the IRI (Davis 1983) and the BES (Jolliffe and Farrington 2006) are
their authors'; none of them is packaged. The wording around the items is ours: people were given sheets of paper, not
prompts. The packaged affect words are an inventory too, asked by default and while a situation is imagined.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, BeforeValidator, StrictBool, StrictInt, ValidationError

from stimuli.errors import StimulusError, suggest
from stimuli.faults import explain, shown
from stimuli.hashes import fingerprint
from stimuli.identities import NO_PERSONA, Identity, Word
from stimuli.prompts import Prompt, Scale
from stimuli.yaml_files import read_yaml

AFFECT_FILE: Final = Path(__file__).parent / "data" / "affect.yaml"
TOTAL: Final = "total"  # in place of a subscale: all items

Presentation: TypeAlias = Literal["single", "list"]

_IRI: Final = re.compile(r"(?<![a-z])iri(?![a-z])|interpersonal reactivity")
_SYSTEM: Final = {
    "single": "You fill in a questionnaire. Write one whole number and nothing more.",
    "list": "You fill in a questionnaire. Write one line for each item: the item's number, a colon and your answer as "
    "a whole number. Write nothing more.",
}
_IMAGINE: Final = 'Imagine that you are the person in this situation:\n"{}"\n\n'


@dataclass(frozen=True, slots=True)
class Item:
    """One statement or word of an inventory."""

    item_id: str  # unique in its inventory; no prompt shows it
    text: str  # what is rated, in one line
    subscale: str  # the one that it belongs to
    reverse: bool = False  # whether it is keyed in reverse: an answer x counts low + high − x


@dataclass(frozen=True)
class Inventory:
    """A questionnaire."""

    name: str  # what reports call it
    source: str  # where the items are from
    scale: Scale  # of an answer: every item has the same
    instruction: str  # what is asked of every item, shown before it
    total: bool  # whether a score over all items has a meaning
    items: tuple[Item, ...]  # in the file's order; two or more a subscale

    def __post_init__(self) -> None:
        """Raise StimulusError if an item stands twice, a subscale has one item, or there can be no total."""
        for what, values in (("id", [i.item_id for i in self.items]), ("text", [i.text for i in self.items])):
            value, times = Counter(values).most_common(1)[0] if values else ("", 0)
            if times > 1:
                raise StimulusError(f"items: the {what} {value!r} is given to {times} items; give each item its own")
        sizes = Counter(item.subscale for item in self.items)
        if not sizes:
            raise StimulusError("items is empty; give at least 2 for each subscale")
        for subscale, n_items in sizes.items():
            if n_items < 2:
                raise StimulusError(
                    f"the subscale {subscale!r} has 1 item, but a score needs 2; check the spelling of its name "
                    f"({suggest(subscale, set(sizes) - {subscale})})"
                )
            if subscale.casefold() == TOTAL:
                raise StimulusError(
                    f"a subscale is called {subscale!r}, the name of the score over all items; rename it"
                )
        if self.total and _IRI.search(self.name.casefold()):
            raise StimulusError(
                f"total: true, but {self.name} has no total score: the IRI's 4 subscales are scored separately "
                "(Davis 1983); write total: false"
            )

    @property
    def sha256(self) -> str:
        """Of all that it puts into prompts and of its key, whatever the file looks like."""
        return fingerprint(asdict(self))


# --- Reading a file --------------------------------------------------------------------------------------------------


def _as_line(value: object) -> object:
    """Take an id such as 7, which YAML reads as a number, and the lines of a block as one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return " ".join(value.split()) if isinstance(value, str) else value


_Body = TypeVar("_Body", bound=BaseModel)
_Line = Annotated[Word, BeforeValidator(_as_line)]


class _ScaleBody(BaseModel):
    low: StrictInt
    high: StrictInt
    low_label: Word
    high_label: Word


class _ItemBody(BaseModel):
    id: _Line
    text: _Line
    subscale: _Line
    reverse: StrictBool = False


class _File(BaseModel):
    name: _Line
    source: _Line
    scale: Any
    instruction: Word
    total: StrictBool = False
    items: list[Any]


def read_inventory(path: Path) -> Inventory:
    """Read an inventory.

    A YAML file with ``name``, ``source``, ``scale: {low, high, low_label, high_label}``, ``instruction``, ``total``
    (false if left out) and ``items``, a list of ``{id, text, subscale, reverse}`` (``reverse`` false if left out).
    StimulusError if two items have one id or one text, a subscale has one item, or ``total`` is true of the IRI, which
    has no total score.
    """
    body = _validated(_File, read_yaml(path), place=str(path))
    ends = _validated(_ScaleBody, body.scale, place=f"{path}: scale")
    read = (
        _validated(_ItemBody, raw, place=f"{path}: item {place} of {len(body.items)}")
        for place, raw in enumerate(body.items, start=1)
    )
    items = tuple(Item(item.id, item.text, item.subscale, item.reverse) for item in read)
    try:
        scale = Scale(**ends.model_dump())
        return Inventory(body.name, body.source, scale, body.instruction, body.total, items)
    except StimulusError as error:
        raise StimulusError(f"{path}: {error}") from error


def _validated(kind: type[_Body], value: object, *, place: str) -> _Body:
    """Return what a mapping of the file says; its keys first, since the likeliest fault is a misspelt one."""
    if not isinstance(value, dict):
        raise StimulusError(
            f"{place}: {shown(value)} must have NAME: VALUE pairs; write {{{', '.join(kind.model_fields)}}}"
        )
    for key in value:
        if key not in kind.model_fields:
            raise StimulusError(f"{place}: unknown key {key!r}; {suggest(str(key), kind.model_fields)}")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise StimulusError(f"{place}: {explain(error, kind, value)}") from error


def load_affect() -> Inventory:
    """Return the packaged affect words, ours, with the subscales ``positive`` and ``negative``.

    Examples
    --------
    >>> affect = load_affect()
    >>> affect.scale.low, affect.scale.high, len(affect.items)
    (1, 5, 12)
    """
    return read_inventory(AFFECT_FILE)


# --- Showing it ------------------------------------------------------------------------------------------------------


def orders(n_items: int, n_orders: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the orders in which items are shown: the file's own, then random ones, no two alike.

    Shape (n_orders, n_items): which item, from 0, stands at each place. More orders change none of the first.

    Examples
    --------
    >>> orders(3, 2, seed=0).tolist()
    [[0, 1, 2], [2, 0, 1]]
    """
    if n_orders < 1 or (n_items < 20 and n_orders > math.factorial(n_items)):
        raise StimulusError(
            f"n_orders={n_orders}: {n_items} items have 1 to {math.factorial(min(n_items, 20))} orders; choose at "
            "most that many"
        )
    rng = np.random.default_rng(seed)
    drawn = {tuple(range(n_items)): None}
    while len(drawn) < n_orders:
        drawn[tuple(rng.permutation(n_items).tolist())] = None
    return np.array(list(drawn), dtype=np.int64).reshape(n_orders, n_items)


@dataclass(frozen=True, slots=True)
class QuestionnaireSheet:
    """One prompt's worth of an inventory, whoever fills it in."""

    inventory: Inventory
    presentation: Presentation  # `single`: one item and a number to answer; `list`: all items and lines to answer
    order: int  # its number, from 0
    items: tuple[Item, ...]  # those shown, from first to last
    descending: bool = False  # whether the scale is described from its high end

    def prompt(self, perceiver: Identity, *, persona: str, situation: str = "") -> Prompt:
        """Return the prompt in which a perceiver fills it in, once it has imagined the situation, if there is one."""
        given = "" if perceiver.group == NO_PERSONA else persona.format(perceiver=perceiver.term)
        scale = self.inventory.scale
        ends = [f"{scale.low} ({scale.low_label})", f"{scale.high} ({scale.high_label})"]
        first, last = reversed(ends) if self.descending else ends
        asked = (_IMAGINE.format(situation) if situation else "") + self.inventory.instruction
        if self.presentation == "single":
            user = f'{asked}\n"{self.items[0].text}"\nAnswer on a scale from {first} to {last}. Number:'
        else:
            lines = "\n".join(f"{place}. {item.text}" for place, item in enumerate(self.items, start=1))
            user = f"{asked}\nAnswer on a scale from {first} to {last}.\n\n{lines}\n\nAnswers, one line for each item:"
        return Prompt(system=f"{given}\n{_SYSTEM[self.presentation]}".strip(), user=user)


def sheets(inventory: Inventory, *, presentation: str, n_orders: int, seed: int) -> tuple[QuestionnaireSheet, ...]:
    """Return the sheets that one perceiver fills in.

    ``single``: a sheet for each item, and since an item alone has no order, the second order describes the scale from
    its high end; at most 2, since a third would be the first prompt again, and no observation of its own. ``list``: a
    sheet for each order, with all items.
    """
    if presentation == "list":
        return tuple(
            QuestionnaireSheet(inventory, "list", order, tuple(inventory.items[place] for place in places))
            for order, places in enumerate(orders(len(inventory.items), n_orders, seed).tolist())
        )
    if presentation != "single":
        raise StimulusError(f"presentation={presentation!r}: {suggest(presentation, get_args(Presentation))}")
    if n_orders not in (1, 2):
        raise StimulusError(
            f"n_orders={n_orders}: an item shown alone has 2 orders (of the scale's ends); choose 1 or 2, or "
            "presentation: list"
        )
    return tuple(
        QuestionnaireSheet(inventory, "single", order, (item,), descending=order == 1)
        for order in range(n_orders)
        for item in inventory.items
    )


# --- Reading what was filled in --------------------------------------------------------------------------------------

_LINE: Final = re.compile(
    r"[\s>*_`•-]*(?:(?:item|question|statement|no\.?|nr\.?|#)\s*)?(?P<item>[0-9]{1,4})[*_`]*\s*"
    r"(?:[:：=)]|\.(?![0-9]))\s*(?P<said>.*)",
    re.IGNORECASE,
)
_ANSWER: Final = re.compile(
    r"(?P<answer>[0-9]{1,4})(?:\.0+)?(?:\s*(?:/|out of|of)\s*(?P<of>[0-9]{1,4}))?[.;,]?"
    r"(?:\s*\((?P<inside>[^()]*)\)|\s+[-–—]\s*(?P<after>.*)|)[.;,]?",
    re.IGNORECASE,
)
_DOUBT: Final = re.compile(
    r"\d|\b(?:or|not|to|between|maybe|perhaps|half|zero|one|two|three|four|five|six|seven|eight|nine|ten)\b",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"\w+")
_MARKUP: Final = str.maketrans("", "", "*_`\"'“”‘’")


def read_list_answers(
    text: str, n_items: int, low: float, high: float, *, texts: Sequence[str] = ()
) -> list[float | None]:
    r"""Read the answers of a ``list`` from lines such as ``1: 3``; when in doubt there is none.

    The answers, not keyed, are by place. None where no line answers the item, or one does so unclearly, with a number
    that is not whole or not on the scale, or otherwise than another line. A line may repeat its own item, as shown in
    ``texts``, before the answer.

    Notes
    -----
    A line is an item's if it begins with the item's number and ``:``, ``.``, ``)`` or ``=``. It answers if a whole
    number follows, or "3/5" where 5 is the high end, and nothing else but a remark in brackets or after a dash that
    names no number and no doubt ("or", "not", "maybe"). A line of the item's that holds another number, such as "3 or
    4" or "3.5", makes the item None, whatever other lines say; one without a number ("1: I cannot say") is no answer.
    Numbers in a row without the items' numbers are not read.

    Examples
    --------
    >>> read_list_answers("1: 3\n2) 4 (quite true)\n3: 2 or 3", n_items=3, low=1, high=5)
    [3.0, 4.0, None]
    """
    answers: list[float | None] = [None] * n_items
    unclear: set[int] = set()
    for line in text.splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None or not 1 <= int(match["item"]) <= n_items:
            continue
        place = int(match["item"]) - 1
        said = _without_item(match["said"], texts[place] if place < len(texts) else "")
        if not any(character.isdigit() for character in said):
            continue
        value = _value(said, low, high)
        if value is None or answers[place] not in (None, value):
            unclear.add(place)
        else:
            answers[place] = value
    return [None if place in unclear else answer for place, answer in enumerate(answers)]


def _without_item(said: str, item: str) -> str:
    """Take the item's own words from the beginning of a line, where all of them stand there."""
    plain, own = said.translate(_MARKUP).strip(), _WORDS.findall(item.translate(_MARKUP).casefold())
    found = list(_WORDS.finditer(plain))[: len(own)]
    if not own or [word.group().casefold() for word in found] != own:
        return plain
    return plain[found[-1].end() :].lstrip(" .!?,;:=–—-|)\t")


def _value(said: str, low: float, high: float) -> float | None:
    """Return the one number of the scale that a line says, or None."""
    match = _ANSWER.fullmatch(said)
    if match is None or (match["of"] and int(match["of"]) != high):
        return None
    if any(remark and _DOUBT.search(remark) for remark in (match["inside"], match["after"])):
        return None
    value = float(match["answer"])
    return value if low <= value <= high else None
