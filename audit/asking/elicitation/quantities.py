"""Finds the numbers of a response and converts them to scale points: fractions, ranges, lists, the scale's own ends."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final

from stimuli.languages import MARKS

_NUMBER = r"(?:[0-9]+(?:[.,][0-9]+)*|(?<![\w.,])\.[0-9]+)"
_QUANTITY = re.compile(
    rf"(?P<sign>(?<![\w)%])[-+]|\b(?:minus|negative) )?(?P<number>{_NUMBER})"
    r"(?: ?(?P<percent>(?:\\?%|per ?cent\b)(?: of 100\b(?![.,/-]?[0-9]|%))?)"
    rf"|(?: ?/ ?| (?:points? )?\(?(?:out of|of) (?:an? )?(?:(?:possible|total|maximum) )?)(?P<per>{_NUMBER})\)?)?"
    r"(?: ?(?:points?|pts)\b)?"
)
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL = re.compile(r"[0-9]+,[0-9]+|[0-9]*\.?[0-9]+")
_MAX_DIGITS: Final = 40
_MAX_NUMBERS: Final = 200  # a response with more only rambles, and the limit bounds the work
_DENOMINATORS: Final = frozenset({5.0, 10.0, 20.0, 100.0})  # others are dates, odds, shares: 9/11, 24/7, 3 of 4
_FOREIGN_HIGHS: Final = frozenset({5.0, 7.0, 10.0, 100.0})  # "from 1 to 10" names a scale, "from 1 to 30" does not
_SPANS = re.compile(r" ?- ?| to ")  # joins the ends of a range; "and" does so after "between"
_BETWEEN = re.compile(r"\bbetween \Z")
_RANGE_OPENS = re.compile(r"\b(?:(?:anywhere|somewhere|ranging) )?(?:between|from) \Z")
_LISTS = re.compile(r" and | or |, ?(?:(?:or|and|maybe|perhaps) )*")
_END_TO_END = re.compile(  # "0 (not at all) to 100", "0 is not at all and 100"
    r"(?: ?\([^()0-9\n]{1,40}\)| ?(?:=|is|being|means?|meaning|for|as)[^0-9.!?\n]{1,30}?)?,? ?(?:-|to\b|and\b) ?"
)
_ANCHOR = re.compile(  # "with 100 being the highest"
    r" ?(?:=|is|being|means?|meaning|represent(?:s|ing)|indicat(?:es|ing)|as|for) ?(?:the |an? )?"
    r"(?:not|no|none|extreme|max|min|high|low|most|least|worst|best|strong|complete|absolute|full)"
)
_SCALE_OF = re.compile(r"\b(?:scale of|out of(?: an?)?(?: possible| maximum)?) \Z")
_POINT_SCALE = re.compile(r"-point(?: [a-z]+)? scale")


_SAID_OF_END = re.compile(
    rf" ?(?:\(|=|:|is\b|being\b|means?\b|meaning\b|represent(?:s|ing)\b|indicat(?:es|ing)\b|stands? for\b)"
    rf" ?(?P<words>[^()0-9,;.!?\n{MARKS['ends']}]*?)"
    rf"(?= (?:to|and|or|-) ?[0-9]| and\b|[^\w\s'{MARKS['asked']}{MARKS['who']}-]| -|\Z)"
)
"""The words for an end right after its number: "0 (not at all)", "100 being the highest"."""
_OF_END = (
    rf"(?: (?:at all|the|an?|of|or|any|even|very|{MARKS['asked']}|{MARKS['who']}|emotions?|feelings?|intensity|intense"
    r"|possible|level|amount|degree|end|score|rating|value|number|person|felt|feels|feeling|experienced|whatsoever"
    r"|present|imaginable|ever|extreme(?:ly)?"
    r"|high(?:est)?|strong(?:est)?|severe|in|on|this|scale))*"
)
_LEAST = re.compile(
    r"(?:the |an? )?(?:(?:absolutely|completely) )?"
    r"(?:not|no|none|nothing|zero|absence|lack|min(?:imum|imal)?|lowest|least|weakest|low)"
    rf"\b{_OF_END}"
)
_MOST = re.compile(
    r"(?:the |an? )?(?:extreme(?:ly)?|max(?:imum|imal)?|highest|most|strongest|very|complete(?:ly)?|absolute(?:ly)?"
    rf"|full|total|overwhelming(?:ly)?|intense(?:ly)?|severe|greatest|utmost|high|strong|peak|{MARKS['asked']}){_OF_END}"
)


_ANCHORED = rf"{_ANCHOR.pattern}[a-z {MARKS['asked']}{MARKS['who']}]{{0,30}}"
_SPAN_OF_ENDS = re.compile(
    rf"{MARKS['ends']}(?:{_END_TO_END.pattern}|, ?){MARKS['ends']}(?: ?\([^()0-9\n]{{1,40}}\))?(?:{_ANCHORED})?"
    rf"|{MARKS['ends']}{_ANCHORED}"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number at ``text[start:end]``; its value is NaN if it cannot be one rating."""

    start: int
    end: int
    value: float
    per: float = math.nan  # the denominator of a fraction; 100 for a percentage, NaN for a plain number
    ends: tuple[float, float] | None = None  # the ends of a range; its value is the midpoint


def describe_scale(text: str, *, low: float, high: float, labels: Sequence[str] = ("", "")) -> tuple[str, bool]:
    """Mask the numbers that describe a scale; also return whether that is not the scale that was asked.

    It is another scale if it runs the other way or if words for an end do not fit: ``labels`` are the prompt's own
    words for the two ends.
    """
    numbers = list(islice(_scan(text), _MAX_NUMBERS + 1))
    if len(numbers) > _MAX_NUMBERS:
        return text, False
    described, is_foreign = _scale_described(text, numbers, low, high)
    is_foreign |= any(_is_other_end(text, q, q.value == high, labels) for q in described if q.value in {low, high})
    for q in sorted(described, key=lambda q: -q.start):
        text = text[: q.start] + MARKS["ends"] + text[q.end :]
    return _SPAN_OF_ENDS.sub(MARKS["ends"], text), is_foreign


def find_quantities(text: str, *, low: float, high: float, is_foreign: bool = False) -> tuple[str, list[Quantity]]:
    """Find the numbers in plain text that do not describe the scale, in scale points.

    If another scale is meant (``is_foreign``), only fractions are read. Returns the text with the description of the
    scale blanked out, and the quantities in order; none if the text has more than 200 numbers.
    """
    numbers = list(islice(_scan(text), _MAX_NUMBERS + 1))
    if len(numbers) > _MAX_NUMBERS:
        return text, []
    described, is_other = _scale_described(text, numbers, low, high)
    is_foreign = is_foreign or is_other
    for q in described:
        text = text[: q.start] + " " * (q.end - q.start) + text[q.end :]

    def on_scale(value: float, per: float) -> float:
        if math.isnan(per):
            return math.nan if is_foreign else value
        if per == high:
            return value
        return low + value * (high - low) / per if per in _DENOMINATORS else math.nan

    return text, _fold(text, [q for q in numbers if q not in described], on_scale)


def _scan(text: str) -> Iterator[Quantity]:
    for match in _QUANTITY.finditer(text):
        sign = -1 if (match["sign"] or "").strip() in {"-", "minus", "negative"} else 1
        per = math.nan
        if match["percent"]:
            per = 100.0
        elif match["per"]:
            denominator = _value(match["per"])
            per = 0.0 if math.isnan(denominator) else denominator  # 0 marks a fraction whose denominator cannot be read
        yield Quantity(match.start(), match.end(), sign * _value(match["number"]), per)


def _value(number: str) -> float:
    if len(number) > _MAX_DIGITS:
        return math.nan
    if _THOUSANDS.fullmatch(number):
        return float(number.replace(",", ""))
    return float(number.replace(",", ".")) if _DECIMAL.fullmatch(number) else math.nan


def _scale_described(text: str, numbers: Sequence[Quantity], low: float, high: float) -> tuple[set[Quantity], bool]:
    """Find the numbers that only describe a scale, and whether it is not the scale that was asked."""
    described: set[Quantity] = set()
    is_foreign = False
    plain = [q for q in numbers if math.isnan(q.per)]
    for first, second in pairwise(plain):
        if {first.value, second.value} == {low, high} and _END_TO_END.fullmatch(text, first.end, second.start):
            described |= {first, second}
            is_foreign |= first.value == high
        elif first.value in {0, 1} and second.value in {*_FOREIGN_HIGHS, high} and _is_span(text, first, second):
            described |= {first, second}
            is_foreign |= second.value != high
    for q in plain:
        if q in described:
            continue
        if _SCALE_OF.search(text, max(0, q.start - 30), q.start) or _POINT_SCALE.match(text, q.end):
            described.add(q)
            is_foreign |= q.value != high
        elif q.value in {low, high} and _ANCHOR.match(text, q.end):
            described.add(q)
    return described, is_foreign


def _is_other_end(text: str, end: Quantity, is_high: bool, labels: Sequence[str]) -> bool:
    """Tell whether the words for an end of a scale do not fit the end that was asked."""
    found = _SAID_OF_END.match(text, end.end)
    words = found["words"].strip() if found else ""
    known = (_LEAST, _MOST)[is_high]
    return bool(words) and words != labels[is_high] and not known.fullmatch(words)


def _is_span(text: str, first: Quantity, second: Quantity) -> bool:
    if text[first.end : second.start] == " and ":
        return _BETWEEN.search(text, max(0, first.start - 10), first.start) is not None
    return _SPANS.fullmatch(text, first.end, second.start) is not None


def _fold(text: str, numbers: Sequence[Quantity], on_scale: Callable[[float, float], float]) -> list[Quantity]:
    """Merge a range into its midpoint, and a list into one quantity that is no single rating."""
    groups: list[list[Quantity]] = []
    for q in numbers:
        last = groups[-1][-1] if groups else None
        if last and (_is_span(text, last, q) or _LISTS.fullmatch(text, last.end, q.start)):
            groups[-1].append(q)
        else:
            groups.append([q])
    folded = []
    for group in groups:
        first, last = group[0], group[-1]
        start, is_range = first.start, len(group) == 2 and _is_span(text, first, last)
        if is_range and math.isnan(first.per):  # "70-80%"
            first = replace(first, per=last.per)
        values = [on_scale(q.value, q.per) for q in (first, *group[1:])]
        value = values[0] if len(set(values)) == 1 else math.nan
        if is_range:
            opening = _RANGE_OPENS.search(text, max(0, start - 20), start)
            start = opening.start() if opening else start
            value = sum(values) / 2 if values[0] < values[1] else math.nan
        folded.append(Quantity(start, last.end, value, ends=(values[0], values[1]) if is_range else None))
    return folded
