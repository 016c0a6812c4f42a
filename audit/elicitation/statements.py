"""Finds the numbers that a response states as its rating, and grades how plainly it does.

A number is a rating on evidence alone: it stands by itself ("85"), or the words before it state it ("I would rate it
an 85"). Every other number (people, years, prices, ages) is a mention.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

from audit.elicitation.plain_text import words_of
from audit.elicitation.quantities import Quantity, find_quantities


class Strength(IntEnum):
    """How plainly a number is stated as the rating."""

    MENTIONED = 0
    GIVEN = 1  # it stands alone, or is said: "95", "I'd say 95"
    MARKED = 2  # it is called a rating: "Rating: 95", "**95**", "I would rate it a 95"
    FINAL = 3  # it is called the last word: "My final answer is 95", \boxed{95}


@dataclass(frozen=True, slots=True)
class Statement:
    """A quantity and how plainly the response states it."""

    quantity: Quantity
    strength: Strength
    opens: bool = False  # the response begins with it, alone
    sentence: int = 0  # where its sentence begins
    is_unclear: bool = False  # it is neither a rating nor a count: "for me it would be 100, for her 60"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# What may stand before a number that is a rating.
_RATE = _set("rate rates assign give choose pick go estimate put place assess answer respond")
_SAY = _set("say think guess believe feel feels felt suppose imagine reckon call")
_NOUNS = _set("rating ratings intensity answer estimate response")
_SHARED_NOUNS = _set("score number value figure level")  # narratives have them too: they count only next to the number
_EMOTIONS = _set(
    "anger disgust fear sadness boredom joy pride trust relief surprise guilt shame empathy emotion feeling"
)
_HEDGES = _set(
    "a an about around approximately roughly maybe perhaps probably likely possibly exactly solid strong perfect full "
    "high like somewhere definitely certainly easily actually rather even"
)
_MODALS = _set("would should will may might could") | _HEDGES
_COPULAS = _set("is be being equals was")
_IT_IS = frozenset({"it's", "that's", "it is", "that is", "this is"})
_IT_WOULD_BE = frozenset({"it would be", "that would be", "this would be", "it'd be", "that'd be"})
_EQUALS_TO = _set("equates amounts corresponds translates equal set")
_FIRST_PERSON = _set("i i'd i'll i'm i've let's")
_SPEAKERS = _set("i he she they we you who i'm he's she's")  # "when she was 20" is an age
_POSSESSIVES = _set("my his her their our your")  # "my son is 5"
_PAST = _set("when while after since before")
_NEGATIONS = _set("not cannot never than instead unlike")
_NARRATED = _set("gave got received earned won had")  # "my boss gave me a rating of 2"
_OTHERS = _set("most many some others")  # "some would say 100"
_CLAUSE_ENDS = frozenset(",;:(-") | _set("but so then")
_THEN = _set("but so then hence thus therefore")
_LEAD_INS = (
    _set("as for from given on in considering based where with since because well okay ok yes overall finally") | _THEN
)
_CORRECTIONS = _set("no wait sorry")  # "85. No, 90."
_FINAL = _set("final finally overall ultimately conclusion conclude therefore")
_STOPS = frozenset(".!?;:=|…")
_WRAPPERS = frozenset("*_`\"'()[]{}$~≈#\\")
# What may stand after it: any other word ("2 people", "25 years") makes it a count.
_CONTINUES = _set(
    "on for because since as given considering based due which that though although but and if when while where with "
    "however i it this they he she the there from to at overall here personally"
)

_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|[^\sa-z]")
_SENTENCE_END = re.compile(r"[.!?…][\"'*)\]_]*\s|\n")
_UNSTATED = re.compile(  # "90 or more", "I feel 100% with you"
    r" ?(?:or|and) (?:more|less|higher|lower|above|below|over|under|up)\b| with (?:you|them|him|her|us)\b"
)
_NEXT_LABEL = re.compile(r" [a-z][a-z' -]{0,30}[:=]")  # "Anger: 85 Fear: 60"
_FOR = re.compile(r" \(?for ")
_GLUED_BEFORE = re.compile(r"(?:[^\W_]|[\w)]-|[0-9]:|[a-z][._']|[/\\#@$£€¥₹^×+])\Z|[<>≥≤±] ?\Z")
_GLUED_AFTER = re.compile(r"[^\W_]|[\^×+@\\]| ?[°$£€¥₹]| ?[+*×<>] ?[0-9]|[-_:/'][^\W_]")
_POSTFIX = re.compile(  # "85 is my rating", "a 90 on this scale"
    r" ?(?:(?:is|would be) (?:my|the) (?:final )?(?:rating|answer|score|estimate|intensity)\b"
    r"|on (?:an?|the|this|that) +(?:given |same )?scale\b)"
)
_OTHER_LABEL = re.compile(  # "Confidence: 90", "Age: 25", "No. 5"
    r"(?:\b(?:aged?|year|date|time|duration|room|seat|cost|price|confidence|certainty|probability)[*\"' ]*[:=]?[*\"' ]*"
    r"|\b(?:no|vs|e\.g)\. ?)\Z"
)


def find_statements(text: str, low: float, high: float, sources: Sequence[str]) -> list[Statement]:
    """Find the numbers that are stated as the rating and do not come from the quoted texts."""
    text, quantities = find_quantities(text, low=low, high=high)
    weighed = [_weigh(text, q) for q in quantities]
    shared_out = [s for s in weighed if _FOR.match(text, s.quantity.end)]
    if len(shared_out) > 1:  # "60 for the anger and 85 for the fear" rates two things
        weighed += [replace(s, strength=Strength.GIVEN) for s in shared_out if not s.strength]
    return [
        s
        for s in weighed
        if (s.strength or (s.is_unclear and low <= s.quantity.value <= high))
        and not _is_quotation(text, s.quantity, sources)
    ]


def _is_quotation(text: str, q: Quantity, sources: Sequence[str]) -> bool:
    before = words_of(text[max(0, q.start - 60) : q.start])[-2:]
    number = words_of(text[q.start : q.end])
    after = words_of(text[q.end : q.end + 60])[:2]
    windows = [[*before, *number], [*before[-1:], *number, *after[:1]], [*number, *after]]
    phrases = [f" {' '.join(window)} " for window in windows if len(window) == len(number) + 2]
    return any(phrase in f" {source} " for phrase in phrases for source in sources)


def _weigh(text: str, q: Quantity) -> Statement:
    """Judge from the words around it how plainly a number is stated as the rating."""
    before, after = text[max(0, q.start - 160) : q.start], text[q.end : q.end + 60]
    is_firm = _ends_firmly(after)
    if is_firm is None or _GLUED_BEFORE.search(before[-3:]) or _OTHER_LABEL.search(before[-40:]):
        return Statement(q, Strength.MENTIONED)
    *earlier, sentence = _SENTENCE_END.split(before)
    words = tokens = _TOKEN.findall(sentence)
    while tokens and (tokens[-1] in _HEDGES | _WRAPPERS or unicodedata.category(tokens[-1][0]) == "So"):  # emoji
        tokens = tokens[:-1]
    is_hedged = not _HEDGES.isdisjoint(words[len(tokens) :])
    strength = _strength(tokens, is_firm=is_firm, is_hedged=is_hedged)
    is_bold = is_firm and before.endswith("**") and after.startswith("**")
    if (is_bold or _POSTFIX.match(after)) and not _is_negated(tokens):
        strength = max(strength, Strength.MARKED)
    if strength and not _FINAL.isdisjoint(words):
        strength = Strength.FINAL
    return Statement(
        q,
        strength,
        opens=not tokens and not earlier and q.start <= 160,
        sentence=q.start - len(sentence),
        is_unclear=bool(is_firm) and not strength and not _is_negated(tokens),
    )


def _ends_firmly(after: str) -> bool | None:
    """Tell whether a sentence or line ends after the number, or only a clause; None where it goes on as a count."""
    if _GLUED_AFTER.match(after) or _UNSTATED.match(after):
        return None
    if after and unicodedata.category(after[0]).startswith("M"):  # a combining mark, such as a keycap
        return None
    if _POSTFIX.match(after) or _NEXT_LABEL.match(after):
        return False
    after = after.lstrip(" *_`\"')]}$~")
    if not after or after[0] in "\n.!?;|…<":
        return True
    word = _TOKEN.match(after)
    return None if after[0].isalnum() and not (word and word.group() in _CONTINUES) else False


def _is_negated(tokens: Sequence[str]) -> bool:
    """Tell whether the clause before a number denies it, supposes it, tells of it or ascribes it to others."""
    start = max((i for i, token in enumerate(tokens) if token in _CLAUSE_ENDS), default=-1) + 1
    clause = tokens[start:]
    if any(token in _NEGATIONS or token.endswith("n't") for token in clause):
        return True
    if ("if" in clause) != (not _NARRATED.isdisjoint(clause)):  # but "if I had to rate it I'd say 85"
        return True
    return any(one in _OTHERS and (two in _MODALS or two == "people") for one, two in pairwise(clause))


def _strength(tokens: Sequence[str], *, is_firm: bool, is_hedged: bool) -> Strength:
    """Grade the words of the sentence before a number, its hedges ("about", "an") taken off."""
    words = set(tokens)
    last, before_last = ["", "", *tokens][-1], ["", "", *tokens][-2]
    is_own = bool(words & _FIRST_PERSON) and not words & _PAST
    rates = bool(words & _RATE) or (is_own and bool(words & {"rated", "score", "scored"}))
    if not tokens or last in _STOPS:
        return Strength.MARKED if last in {":", "="} and (rates or words & (_NOUNS | _SHARED_NOUNS)) else Strength.GIVEN
    if last in {",", "-"} | _THEN:
        leads_in = (
            is_hedged
            or last != ","
            or (tokens[0] in _LEAD_INS and tokens[:2] not in (["as", "for"], ["as", "of"]))
            or before_last in _CORRECTIONS
            or words & _THEN
            or {"if", "i"} <= words
        )
        return Strength.GIVEN if is_firm and leads_in else Strength.MENTIONED
    if _is_negated(tokens):
        return Strength.MENTIONED
    is_it = " ".join(tokens[-3:]) in _IT_WOULD_BE or (is_firm and {last, f"{before_last} {last}"} & _IT_IS)
    if last in _SAY or is_it or " ".join(tokens[-2:]) in _IT_WOULD_BE:
        return Strength.GIVEN
    is_marked = (
        (last in _COPULAS and _is_rated_subject(tokens[:-1], is_past=last == "was"))
        or last in _NOUNS
        or (last in _RATE and bool(words & _FIRST_PERSON))
        or (last in {"it", "this", "that", "as", "with", *_EMOTIONS, *_SHARED_NOUNS} and rates)
        or (last == "as" and "be" in words and bool(words & (_NOUNS | _EMOTIONS)))
        or (last == "at" and (rates or before_last in _COPULAS - {"was"}))
        or (
            last == "of"
            and (before_last in _NOUNS or (before_last in _EMOTIONS | _SHARED_NOUNS and words & (_RATE | _SAY)))
        )
        or (last == "to" and before_last in _EQUALS_TO)
        or (last == "for" and before_last == "go")
    )
    return Strength.MARKED if is_marked else Strength.MENTIONED


def _is_rated_subject(subject: Sequence[str], *, is_past: bool) -> bool:
    """Tell whether what "is 85" is the rating or the emotion, rather than a person's age."""
    while subject and subject[-1] in _MODALS:
        subject = subject[:-1]
    if not subject or subject[-1] in _SPEAKERS or (is_past and not _PAST.isdisjoint(subject)):
        return False
    own = _NOUNS if is_past else _NOUNS | _SHARED_NOUNS
    if subject[-1] not in own | _EMOTIONS and not _POSSESSIVES.isdisjoint(subject[-2:]):
        return False
    return subject[-1] in own or not _NOUNS.isdisjoint(subject) or not _EMOTIONS.isdisjoint(subject[-3:])
