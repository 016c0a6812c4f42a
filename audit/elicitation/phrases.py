"""Reads an intensity from a model's free text in a language other than English, by the phrases of its pack.

The English parser weighs every word around a number. A pack has patterns of whole sentences instead. A sentence that
one of them takes states a rating. Any other number in the text is unexplained, and makes the response unparseable,
unless it describes the scale or is quoted from the prompt. So what a pack does not know is missing, and not misread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from audit.elicitation.parsing import Reading, is_refusal
from audit.elicitation.plain_text import answer_of, plain, words_of
from audit.elicitation.quantities import find_quantities
from audit.tables.ratings import Status
from stimuli.languages import NUMBER, Replies
from stimuli.prompts import Scale

_FIGURE: Final = r"(?<![\w.,])[-+]?[0-9]+(?:[.,][0-9]+)*"
_DIGITS: Final = re.compile(r"[0-9]+")
_SENTENCE_END: Final = re.compile(r"\n+|(?<=[^\W_]{3})[.!?…]+(?=[\s\"'*)\]_]|\Z)|(?<=[0-9%\"'*)\]_])[.!?…]+(?=\s|\Z)")
"""Lines, and full stops after a word of three letters or a number: "ca. 85" and "z. b. 85" are one sentence each."""
_WRAPPED: Final = re.compile(
    r"\A(?:[\s*_\"'`()\[\]{}#:=|~„“”»«]|>(?! ?[0-9])|[-•·] )+"
    r"|[\s*_\"'`()\[\]{}<#:|~„“”»«.!?…,;]+\Z"
)
_WINDOW: Final = 3


@dataclass(frozen=True)
class _Phrases:
    """A pack's phrases, ready to be looked for."""

    ratings: tuple[re.Pattern[str], ...]
    refusals: tuple[re.Pattern[str], ...]
    numbers: re.Pattern[str] | None
    amounts: re.Pattern[str] | None
    thousands: re.Pattern[str] | None
    ordinals: re.Pattern[str] | None


def read_in_language(response: str, replies: Replies, scale: Scale, *, quoted: Sequence[str] = ()) -> Reading:
    """Read the intensity that a response states.

    Parameters
    ----------
    response
        The model's raw text; thoughts and invented turns are not read.
    replies
        The phrases of its language.
    scale
        As asked in the prompt, its words in that language.
    quoted
        Texts that the response may repeat.

    Returns
    -------
    Reading
        Rated, with an intensity within the scale; refused; or unparseable. An intensity is never clipped.

    Notes
    -----
    Amounts are read as in English: shares of the scale, ranges, decimal commas; see
    :func:`audit.elicitation.parsing.parse_response`. Two different ratings are none. A refusing phrase, of the language
    or an English one, counts where no rating is stated.
    """
    phrases = _phrases(replies)
    text = plain(answer_of(response))
    words = words_of(text)
    for label, end in ((scale.low_label, scale.low), (scale.high_label, scale.high)):
        if words and words == words_of(plain(label)):
            return Reading(Status.RATED, float(end))
    sources = [" ".join(words_of(plain(source))) for source in quoted]
    stated: set[float] = set()
    unexplained = False
    for sentence in _sentences(text if phrases.ordinals is None else phrases.ordinals.sub("-", text)):
        if phrases.thousands is not None:
            sentence = phrases.thousands.sub(lambda found: re.sub(r"\D", "", found[0]), sentence)
        in_digits = _in_digits(sentence, replies, phrases)
        if any(pattern.fullmatch(in_digits) for pattern in phrases.ratings):
            amounts = _amounts(in_digits, replies, phrases, scale)
            stated |= set(amounts) if len(amounts) == 1 else {math.nan}
        elif _DIGITS.search(sentence) and _amounts(sentence, replies, phrases, scale):
            unexplained |= not _is_quoted(sentence, sources)
    if stated:
        [value, *others] = stated
        if not others and not unexplained and scale.low <= value <= scale.high:
            return Reading(Status.RATED, value + 0.0)
        return Reading(Status.UNPARSEABLE, math.nan)
    if is_refusal(text, sources, phrases.refusals) or is_refusal(text, sources):
        return Reading(Status.REFUSED, math.nan)
    return Reading(Status.UNPARSEABLE, math.nan)


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(text):
        if bare := _WRAPPED.sub("", re.sub(r"[*_`]{1,3}|\"", "", sentence)):
            yield bare


def _in_digits(sentence: str, replies: Replies, phrases: _Phrases) -> str:
    if phrases.numbers is None:
        return sentence
    return phrases.numbers.sub(lambda found: str(replies.numbers[found[0]]), sentence)


def _amounts(sentence: str, replies: Replies, phrases: _Phrases, scale: Scale) -> list[float]:
    """Return the amounts of a sentence in points, without those that describe the scale; NaN where one is unclear."""
    if phrases.amounts is not None:
        sentence = phrases.amounts.sub(lambda found: replies.amounts[found[0]], sentence)
    return [each.value for each in find_quantities(sentence, low=scale.low, high=scale.high)[1]]


def _is_quoted(sentence: str, sources: Sequence[str]) -> bool:
    """Tell whether each number of a sentence stands in a source among the same words."""
    words = words_of(sentence)
    places = [place for place, word in enumerate(words) if _DIGITS.search(word)]
    windows = [
        [words[max(0, start) : start + _WINDOW] for start in range(place - _WINDOW + 1, place + 1)] for place in places
    ]
    return all(
        any(len(window) == _WINDOW and f" {' '.join(window)} " in f" {source} " for window in own for source in sources)
        for own in windows
    )


@lru_cache(maxsize=8)
def _of_patterns(ratings: tuple[str, ...], refusals: tuple[str, ...], words: tuple[tuple[str, ...], ...]) -> _Phrases:
    numbers, amounts, marks, ordinals = words
    thousands = rf"(?<![\d.,])[1-9][0-9]{{0,2}}(?:{re.escape(marks[0])}[0-9]{{3}})+(?![\d.,]?\d)" if marks else ""
    return _Phrases(
        tuple(map(re.compile, ratings)),
        tuple(map(re.compile, refusals)),
        _any_of(numbers),
        _any_of(amounts),
        re.compile(thousands) if thousands else None,
        re.compile(rf"(?<=[0-9])\. (?=(?:{'|'.join(map(re.escape, ordinals))})\b)") if ordinals else None,
    )


def _phrases(replies: Replies) -> _Phrases:
    between = "|".join(["[-/%]", *sorted(map(re.escape, replies.amounts), key=len, reverse=True)])
    amount = rf"{_FIGURE}(?: ?(?:{between})(?![^\W\d_])(?: ?[0-9]+(?:[.,][0-9]+)*)?)*"
    ratings = tuple(replies.written_out(each).replace(f"<{NUMBER}>", f"(?:{amount})") for each in replies.ratings)
    marks = (replies.thousands,) if replies.thousands else ()
    return _of_patterns(
        ratings,
        tuple(map(replies.written_out, replies.refusals)),
        (tuple(replies.numbers), tuple(replies.amounts), marks, replies.ordinals),
    )


def _any_of(words: Sequence[str]) -> re.Pattern[str] | None:
    if not words:
        return None
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})\b")
