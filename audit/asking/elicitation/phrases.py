"""Reads an intensity from a model's free text, in any language, using that language's phrases.

A wrong number accuses or acquits a model; a missing one is only missing. So decoration is removed first, and a sentence
states a rating only if a pattern matches all of it. Every other number must be explained: it describes the scale, is
quoted from the prompt, or is of a kind that is no rating (a time, an age, a count). If one is not explained, the
response is unparseable. A wording that the phrases do not cover is missing, never misread.

The words for the emotion in question and for the experiencer are known. They are masked before any pattern is tried, so
that the reading does not depend on the emotion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache, partial
from typing import Final

from audit.asking.elicitation.plain_text import (
    UNKNOWN,
    answer_of,
    bare,
    follows_unknown_token,
    normalise_text,
    split_words,
)
from audit.asking.elicitation.quantities import describe_scale, find_quantities
from audit.tables.ratings import Status
from stimuli.languages import MARKS, NUMBER, Replies, english_replies
from stimuli.prompts import Question, Scale

_FIGURE: Final = r"(?<![\w.,])[-+]?(?:[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)"
_PLAIN_FIGURE: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_DIGITS: Final = re.compile(r"[0-9]+")
_NUMERAL: Final = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE_END: Final = re.compile(
    r"\n+"
    r"|;(?=\s)"
    r"|(?<=\b(?:is|it|ok|so|me|us|do|be|up|in|on|at|to|of))[.!…]+(?=\s|\Z)"
    r"|(?<=[^\W_]{3})[.!…]+(?=[\s\"'*)\]_]|\Z)"
    r"|(?<=[0-9%\"'*)\]_\ue000-\ue004])[.!…]+(?=\s|\Z)"
    r"|(?<=\w\?)[?!]*(?=\s|\Z)"
)
"""Line ends, and full stops after a word of three letters or a number, so that "ca. 85" and "z. b. 85" stay whole."""
_WRAPPED: Final = re.compile(
    r"\A(?:[\s*_\"'`()\[\]{}:=|~„“”»«]|>(?! ?[0-9])|[-•·] )+"
    r"|[\s*_\"'`()\[\]{}<#:|~„“”»«.!?…,;-]+\Z"
)
_TWICE: Final = re.compile(r"(?<![\w.,])([0-9]+(?:\.[0-9]+)?) ?\(\1\)")  # a number in words and digits: "seventy (70)"
_WINDOW: Final = 3
_SHORT: Final = 40
_YEAR: Final = 4
_MAX_SENTENCE: Final = 600
_MAX_TEXT: Final = 60_000
_OTHER, _ENDS = MARKS["other"], MARKS["ends"]


class Strength(IntEnum):
    """How plainly a sentence states a rating."""

    GIVEN = 1
    LABELLED = 2  # the number is called the rating, and not only by the emotion's name
    CLOSING = 3  # it is called the final answer


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """The reading of one response; ``intensity`` is in scale points, NaN unless rated."""

    status: Status
    intensity: float


class _Patterns:
    """Patterns that are compiled when they are first looked for: long ones take a third of a second each."""

    def __init__(self, replies: Replies, patterns: Sequence[str], number: str) -> None:
        self._replies, self._patterns, self._number = replies, patterns, number
        self._compiled: list[re.Pattern[str]] = []

    def __iter__(self) -> Iterator[re.Pattern[str]]:
        yield from self._compiled
        for pattern in self._patterns[len(self._compiled) :]:
            written = self._replies.written_out(pattern).replace(f"<{NUMBER}>", self._number)
            self._compiled.append(re.compile(written))
            yield self._compiled[-1]


@dataclass(frozen=True, eq=False)
class _Phrases:
    """The compiled phrases of a language pack."""

    replies: Replies
    stating: tuple[tuple[Strength, _Patterns], ...]
    told: _Patterns
    rivals: _Patterns
    asking: _Patterns
    remarks: _Patterns
    denials: _Patterns
    revisions: _Patterns
    reasoning: _Patterns
    lowest: _Patterns
    highest: _Patterns
    others: _Patterns
    mentions: _Patterns
    refusals: _Patterns
    numbers: re.Pattern[str] | None
    amounts: re.Pattern[str] | None
    thousands: re.Pattern[str] | None
    ordinals: re.Pattern[str] | None
    emotions: re.Pattern[str] | None
    people: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What the numbers in a sentence turned out to be."""

    strength: Strength | None = None  # set if it states a rating
    value: float = math.nan
    ends: tuple[float, float] | None = None
    is_unexplained: bool = False  # it has a number that nothing explains
    is_rival: bool = False
    is_denial: bool = False
    is_of_another: bool = False
    is_question: bool = False
    is_asking: bool = False  # it asks for the rating
    is_remark: bool = False  # it adds nothing to the rating before it, or explains it


def read_in_language(
    response: str,
    replies: Replies,
    scale: Scale,
    *,
    quoted: Sequence[str] = (),
    question: Question | None = None,
    cut: bool | None = False,
) -> ParsedResponse:
    """Read the intensity that a response states; it is never clipped to the scale.

    Arguments and amounts are those of :func:`audit.asking.elicitation.parsing.parse_response`, with the scale's labels
    in the language of ``replies``. Without ``question`` all common names of emotions count as the one in question. Two
    different ratings count as none. A refusing phrase, in the language or in English, counts if no rating is stated.
    """
    return read_response(
        response,
        replies,
        (scale.low, scale.high),
        labels=(scale.low_label, scale.high_label),
        quoted=quoted,
        question=question,
        cut=cut,
    )


def read_response(
    response: str,
    replies: Replies,
    ends: tuple[float, float],
    *,
    labels: tuple[str | None, str | None],
    quoted: Sequence[str] = (),
    question: Question | None = None,
    cut: bool | None = False,
) -> ParsedResponse:
    """Read a response, given the ends of the scale and their labels; see :func:`read_in_language`."""
    phrases = _phrases(replies)
    if len(response) <= _SHORT and len(split_words(normalise_text(response))) < _WINDOW:  # too short to quote anything
        return _read_short(response, phrases, ends, labels, question, cut)
    return _read(response, phrases, ends, labels, question, cut, quoted)


def is_refusal(text: str, sources: Sequence[str], patterns: Iterable[re.Pattern[str]] | None = None) -> bool:
    """Tell whether plain text has a refusing phrase that does not come from ``sources`` (words joined by spaces)."""
    patterns = _phrases(english_replies()).refusals if patterns is None else patterns
    phrases = [" ".join(split_words(match.group())) for pattern in patterns for match in pattern.finditer(text)]
    return any(all(phrase not in source for source in sources) for phrase in phrases)


def _read(
    response: str,
    phrases: _Phrases,
    ends: tuple[float, float],
    labels: tuple[str | None, str | None],
    question: Question | None,
    cut: bool | None,
    quoted: Sequence[str] = (),
) -> ParsedResponse:
    answer = answer_of(response)[:_MAX_TEXT]
    words = split_words(normalise_text(answer))
    if not cut and words:
        for label, end in zip(labels, ends, strict=True):
            if label and words == split_words(normalise_text(label)):
                return ParsedResponse(Status.RATED, float(end))
    sources = [" ".join(split_words(normalise_text(source))) for source in quoted]
    sentences = []
    if not follows_unknown_token(response):
        named = [_without_wordings(normalise_text(label or "").strip(), phrases, question) for label in labels]
        trailing = response[len(response.rstrip()) :][:2]  # a line break shows that the number before it is complete
        sentences = _weighed(answer + trailing, phrases, ends, named, question, sources, cut)
    if any(each.strength for each in sentences):
        value = _choose(sentences)
        if ends[0] <= value <= ends[1]:
            return ParsedResponse(Status.RATED, value + 0.0)  # never -0.0
        return ParsedResponse(Status.UNPARSEABLE, math.nan)
    texts = {normalise_text(answer), bare(answer)}
    declines = any(is_refusal(text, sources, own) for text in texts for own in (phrases.refusals, None))
    if declines and not any(each.is_rival for each in sentences):
        return ParsedResponse(Status.REFUSED, math.nan)
    return ParsedResponse(Status.UNPARSEABLE, math.nan)


_read_short = lru_cache(maxsize=4096)(_read)  # runs repeat a few short responses many times


def _choose(sentences: Sequence[_Sentence]) -> float:
    """Return the rating that the sentences agree on; NaN if they state several or a number is unexplained."""
    stated = [(k, each) for k, each in enumerate(sentences) if each.strength]
    best = max(each.strength for _, each in stated if each.strength)
    place = max(k for k, each in stated if each.strength == best)
    asked = [sentences[k - 1] for k, _ in stated if k and sentences[k - 1].is_question]
    if any(not (each.is_asking or each.strength or each.is_unexplained) for each in asked):
        return math.nan
    after = sentences[stated[-1][0] + 1 :]
    since = place if best is Strength.CLOSING else stated[0][0]
    if any(each.is_of_another for each in sentences) or any(each.is_denial for each in sentences[since:]):
        return math.nan
    if after and (stated[-1][1].is_question or not (after[0].is_remark or after[0].is_unexplained)):
        return math.nan
    if best is Strength.CLOSING:  # what was considered before it does not count
        stated = [(k, each) for k, each in stated if k > place or each.strength == best]
        first = place
    elif best is Strength.LABELLED and place == stated[-1][0] and not any(each.is_rival for each in sentences):
        first = place
    else:
        first = 0
    if any(each.is_unexplained for each in sentences[first:]):
        return math.nan
    points = {each.value for _, each in stated if each.ends is None}
    if len(points) == 1:  # "70-80. Rating: 75"
        [point] = points
        stated = [(k, s) for k, s in stated if not (s.ends and s.ends[0] <= point <= s.ends[1])]
    values = {each.value for _, each in stated}
    return values.pop() if len(values) == 1 else math.nan


def _weighed(
    answer: str,
    phrases: _Phrases,
    ends: tuple[float, float],
    labels: Sequence[str],
    question: Question | None,
    sources: Sequence[str],
    cut: bool | None,
) -> list[_Sentence]:
    low, high = ends
    text = _without_wordings(bare(answer), phrases, question)
    text = text if phrases.ordinals is None else phrases.ordinals.sub("-", text)
    text = _TWICE.sub(r"\1", _in_digits(text, phrases))
    text, is_other = _without_bounds(text, phrases, ends)
    text, is_foreign = describe_scale(text, low=low, high=high, labels=labels)
    is_foreign |= is_other
    text = _unquoted(text, sources)
    for mention in phrases.mentions:
        text = mention.sub(partial(_accounted, high=high), text)
    sentences = list(_sentences(text))
    if cut and sentences and any(each.fullmatch(sentences[0][0]) for each in phrases.reasoning):
        return [_Sentence(is_unexplained=True)]  # the answer may not have begun
    may_go_on = cut is not False and _may_go_on(answer, phrases)
    is_open = False
    weighed = []
    for k, (sentence, is_question) in enumerate(sentences):
        if phrases.thousands is not None:
            sentence = phrases.thousands.sub(lambda found: re.sub(r"\D", "", found[0]), sentence)
        own = _weigh(sentence, phrases, ends, is_foreign, is_question)
        if k == len(sentences) - 1:
            is_open = may_go_on and (bool(cut) or _breaks_off(answer, sentence, phrases))
            own = _unended(sentence, own, phrases, is_open=is_open) if cut or is_open else own
        weighed.append(replace(own, is_question=is_question))
    if UNKNOWN in text:
        n_after = len(list(_sentences(text.rpartition(UNKNOWN)[2])))
        if not any(each.strength is Strength.CLOSING for each in weighed[len(weighed) - n_after :]):
            return [_Sentence(is_unexplained=True)]
    is_alone = len(sentences) == 1 and len(_NUMERAL.findall(answer)) <= 1
    if is_alone and question is not None and not (cut or is_open) and not weighed[0].strength:
        [(sentence, is_question)] = sentences
        value = math.nan if is_question else _told(sentence, phrases)
        whole = f" {' '.join(split_words(normalise_text(answer)))} "
        if not math.isnan(value) and not any(whole in f" {source} " for source in sources):
            return [_Sentence(Strength.GIVEN, value)]
    return weighed


def _unended(sentence: str, own: _Sentence, phrases: _Phrases, *, is_open: bool) -> _Sentence:
    """Judge the last sentence of a cut text.

    If ``is_open``, its last number may be incomplete and does not count; nor does a rating that it begins to revise.
    """
    if any(each.search(sentence) for each in phrases.revisions):
        return _Sentence(is_unexplained=own.strength is not None, is_denial=True)
    if not is_open:
        return own
    *_, last = [None, *_DIGITS.finditer(sentence)]
    might_rate = last is not None and _SAYS_HOW_MUCH.search(sentence, 0, last.start()) is not None
    is_unexplained = own.strength is not None or might_rate
    return _Sentence(is_unexplained=is_unexplained, is_remark=_is_remark(sentence, phrases))


def _weigh(
    sentence: str, phrases: _Phrases, ends: tuple[float, float], is_foreign: bool, is_question: bool
) -> _Sentence:
    if len(sentence) <= _MAX_SENTENCE:
        if any(each.fullmatch(sentence) for each in phrases.others):
            return _Sentence(is_of_another=True)
        if not _DIGITS.search(sentence):
            is_remark = _is_remark(sentence, phrases, is_question=is_question)
            is_denial = not is_remark and any(each.fullmatch(sentence) for each in phrases.denials)
            is_asking = any(each.fullmatch(sentence) for each in phrases.asking)
            return _Sentence(is_denial=is_denial, is_remark=is_remark, is_asking=is_asking)
        for strength, patterns in phrases.stating:
            if any(each.fullmatch(sentence) for each in patterns):
                amounts = _amounts(sentence, phrases, ends, is_foreign)
                value, span = amounts[0] if len(amounts) == 1 else (math.nan, None)
                return _Sentence(strength, value, span)
    elif not _DIGITS.search(sentence):
        return _Sentence(is_denial=True)
    unexplained = bool(_amounts(sentence[:_MAX_SENTENCE], phrases, ends, is_foreign)) or len(sentence) > _MAX_SENTENCE
    is_rival = unexplained and any(each.fullmatch(sentence[:_MAX_SENTENCE]) for each in phrases.rivals)
    return _Sentence(is_unexplained=unexplained, is_rival=is_rival, is_remark=_is_remark(sentence, phrases))


def _is_remark(sentence: str, phrases: _Phrases, *, is_question: bool = False) -> bool:
    text = _DIGITS.sub(_OTHER, sentence[:_MAX_SENTENCE]) + "?" * is_question
    return any(each.fullmatch(text) for each in phrases.remarks)


def _told(sentence: str, phrases: _Phrases) -> float:
    """Return the number of a sentence that says how much the person felt, if that is the whole response; else NaN."""
    found = (pattern.fullmatch(sentence) for pattern in phrases.told)
    return next((float(match[NUMBER]) for match in found if match), math.nan)


def _without_wordings(text: str, phrases: _Phrases, question: Question | None) -> str:
    """Mask the words for the emotion in question, the experiencer and the perceiver."""
    if question is None:
        text = text if phrases.emotions is None else phrases.emotions.sub(MARKS["asked"], text)
    else:
        who, own = (
            _ARTICLE.sub("", normalise_text(each).strip()) for each in (question.experiencer, question.perceiver)
        )
        emotions = sorted((normalise_text(each).strip() for each in question.emotions), key=len, reverse=True)
        for word, mark in [(who, "who"), (own, "self"), *((each, "asked") for each in emotions)]:
            if word and (word == "person") <= (mark == "asked"):
                text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", MARKS[mark], text)
    return text if phrases.people is None else phrases.people.sub(MARKS["self"], text)


def _without_bounds(text: str, phrases: _Phrases, ends: tuple[float, float]) -> tuple[str, bool]:
    """Mask numbers that are called an end of the scale; also return whether one is not an end of this scale."""
    is_other = False
    for patterns, end in ((phrases.lowest, ends[0]), (phrases.highest, ends[1])):
        for pattern in patterns:
            is_other |= any(float(found[NUMBER]) != end for found in pattern.finditer(text))
            text = pattern.sub(lambda found: found[0].replace(found[NUMBER], MARKS["ends"]).replace(". ", " "), text)
    return text, is_other


_ARTICLE: Final = re.compile(r"\A(?:an?|the|eine) ")  # in English and German: "als 25-jährige Person" has none


def _accounted(found: re.Match[str], *, high: float) -> str:
    if len(found[0]) == _YEAR and found[0].isdecimal() and float(found[0]) <= high:
        return found[0]  # on such a scale it may be a rating
    return _DIGITS.sub(_OTHER, re.sub(r"(?<=[0-9])[.,:/-](?=[0-9])", "", found[0]))


def _unquoted(text: str, sources: Sequence[str]) -> str:
    """Mask each number that has the same neighbouring words in a source."""
    if not sources:
        return text
    words = list(re.finditer(r"\w+", text))
    for place, word in enumerate(reversed(words)):
        place = len(words) - 1 - place
        if _DIGITS.search(word[0]):
            windows = (words[max(0, k) : k + _WINDOW] for k in range(place - _WINDOW + 1, place + 1) if k >= 0)
            phrases = (" ".join(each[0] for each in window) for window in windows if len(window) == _WINDOW)
            if any(f" {phrase} " in f" {source} " for phrase in phrases for source in sources):
                text = text[: word.start()] + _OTHER + text[word.end() :]
    return text


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence without surrounding marks, and whether it is a question."""
    for sentence in _SENTENCE_END.split(text):
        if sentence and (own := _WRAPPED.sub("", sentence)):
            yield own, sentence.rstrip().endswith("?")


def _in_digits(text: str, phrases: _Phrases) -> str:
    if phrases.numbers is None:
        return text
    return phrases.numbers.sub(lambda found: str(phrases.replies.numbers[found[0]]), text)


def _amounts(
    sentence: str, phrases: _Phrases, ends: tuple[float, float], is_foreign: bool
) -> list[tuple[float, tuple[float, float] | None]]:
    """Find the amounts of a sentence, in points, without those that describe the scale; NaN if one is unclear."""
    if phrases.amounts is not None:
        sentence = phrases.amounts.sub(lambda found: phrases.replies.amounts[found[0]], sentence)
    found = find_quantities(sentence, low=ends[0], high=ends[1], is_foreign=is_foreign)[1]
    return [(each.value, each.ends) for each in found]


def _may_go_on(answer: str, phrases: _Phrases) -> bool:
    """Tell whether the answer's last number may be incomplete: "8" of "80", "70" of "70 to 80"."""
    text = _in_digits(normalise_text(answer), phrases)
    last = max((match.end() for match in _NUMERAL.finditer(text)), default=0)
    rest = re.sub(r"[*_`\"]", "", text[last:])
    if not last or _OVER.search(rest):
        return False
    openings = ("", *".,/%-(+½", *phrases.replies.amounts, *phrases.replies.further)
    return any(each.startswith(rest.lstrip(" ,(")) for each in openings)


def _breaks_off(answer: str, sentence: str, phrases: _Phrases) -> bool:
    """Tell whether an answer that ends in a number may have been cut there, if it is unknown whether it was.

    A number alone or after a label is a complete answer. After other words it ends a sentence, which a model would
    close with a full stop or a mark.
    """
    if _is_unclosed(answer):
        return True
    end = answer.rstrip()[-1:]
    if not end.isalnum():
        return end in _HANGING
    rest = _after_numbers(answer, phrases)
    if rest:
        return phrases.replies.amounts.get(rest) not in _UNITS
    first = _DIGITS.search(sentence)
    return first is not None and _LED.search(sentence, 0, first.start()) is not None


def _is_unclosed(answer: str) -> bool:
    """Tell whether a bracket, quote or tag is left open."""
    tags = {name for name in re.findall(r"<([a-z]+)>", answer.lower()) if name not in _VOID}
    return (
        any(answer.count(opens) > answer.count(closes) for opens, closes in ("()", "[]", "{}"))
        or any(answer.count(mark) % 2 for mark in ("**", "`", '"'))
        or any(f"</{name}>" not in answer.lower() for name in tags)
    )


def _after_numbers(answer: str, phrases: _Phrases) -> str:
    """Return the text after the last number of an answer."""
    text = _in_digits(normalise_text(answer), phrases)
    last = max((match.end() for match in _NUMERAL.finditer(text)), default=len(text))
    return text[last:].strip()


_VOID: Final = frozenset({"br", "hr", "li", "p", "td", "th", "tr"})  # tags that need no closing tag
_HANGING: Final = frozenset("-–—,/(+~")  # marks that a number continues after
_UNITS: Final = frozenset({"percent", "per cent", "points", "point", "pts"})  # words that end a number
_LED: Final = re.compile(r"[^\W\d_]\s?\Z")  # a word right before a number, with no mark between them
_OVER: Final = re.compile(r"[\n})\]]|\A[.!?…]+ ")  # what ends a number for good, even if the text is cut after it
_SAYS_HOW_MUCH: Final = re.compile(
    r"(?:\A|[^a-zäöüß ] ?|\b(?:it|at|as|to|is|be|say|of|an?|with|around|about|auf|mit|bei|ist|von) )[~≈]?\Z"
)


def _amount(replies: Replies) -> str:
    between = "|".join(["[-/%]", r"\\%", *sorted(map(re.escape, replies.amounts), key=len, reverse=True)])
    more = r"(?: ?[0-9]+(?:[.,][0-9]+)*)?"
    joins = "|".join(
        sorted(
            map(re.escape, (word for word, means in replies.amounts.items() if means in _JOINS)), key=len, reverse=True
        )
    )
    listed = rf"|, ?(?:(?:{joins}) )?[0-9]+(?:[.,][0-9]+)*" if joins else ""
    return rf"{_FIGURE}(?: ?(?:{between})(?![^\W\d_]){more}{listed})*"


_JOINS: Final = frozenset({"or", "and", "maybe", "or maybe", "or perhaps"})
_COMPILED: Final[dict[int, _Phrases]] = {}


def _phrases(replies: Replies) -> _Phrases:
    if id(replies) not in _COMPILED:
        _COMPILED[id(replies)] = _compiled(replies)
    return _COMPILED[id(replies)]


def _compiled(replies: Replies) -> _Phrases:
    of = partial(_Patterns, replies, number=f"(?:{_amount(replies)})")
    plain_number = f"(?P<{NUMBER}>{_PLAIN_FIGURE})"

    mark = replies.thousands
    thousands = rf"(?<![\d.,])[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+(?![\d.,]?\d)" if mark else ""
    ordinals = "|".join(map(re.escape, replies.ordinals))
    return _Phrases(
        replies,
        (
            (Strength.CLOSING, of(replies.closing)),
            (Strength.LABELLED, of(replies.labels)),
            (Strength.GIVEN, of(replies.ratings)),
        ),
        of(replies.told, number=plain_number),
        of(replies.rivals),
        of(replies.asking),
        of(replies.remarks),
        of(replies.denials),
        of(replies.revisions),
        of(replies.reasoning),
        of(replies.lowest, number=plain_number),
        of(replies.highest, number=plain_number),
        of(replies.others),
        of(replies.mentions),
        of(replies.refusals),
        _any_of(tuple(replies.numbers)),
        _any_of(tuple(replies.amounts)),
        re.compile(thousands) if thousands else None,
        re.compile(rf"(?<=[0-9])\. (?=(?:{ordinals})\b)") if ordinals else None,
        _any_of(replies.emotions),
        _people(replies.people),
    )


def _people(terms: Sequence[str]) -> re.Pattern[str] | None:
    words = {_ARTICLE.sub("", normalise_text(term)) for term in terms} - {"person"}
    listed = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.compile(rf"(?<=\ba )(?:{listed})(?!\w)|(?<=\ban )(?:{listed})(?!\w)") if words else None


def _any_of(words: Sequence[str]) -> re.Pattern[str] | None:
    if not words:
        return None
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})\b")
