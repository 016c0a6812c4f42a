"""Language packs: what prompts are made of, and how answers are read, in another language than English.

A pack is one file, ``data/languages/CODE.yaml``. It has a text for each packaged English text, found by that text
itself: a template that was changed since has no translation, and is refused. So no English is left in a prompt unseen.
An identity is written out in every grammatical form that the pack's templates show. Nothing is put together by rules.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, StringConstraints, ValidationError, model_validator

from stimuli.errors import StimulusError, suggest
from stimuli.faults import explain
from stimuli.files import read_file
from stimuli.identities import CASES, NO_PERSONA, Dimension, Identity, pack_terms, packaged_terms
from stimuli.narratives import EmotionWords, Narrative, Narratives, hash_of
from stimuli.prompts import SCALE_FIELDS, VALUE_NAMES, PromptVariant, Scale, in_any_case
from stimuli.strict import StrictModel
from stimuli.yaml_files import read_yaml

ENGLISH: Final = "en"
FOLDER: Final = Path(__file__).parent / "data" / "languages"
NAMING: Final = "nominative"  # the form that names an identity, in tables too: `{perceiver}`, `{experiencer}`
NUMBER: Final = "number"  # the name, in patterns, of a number that may be a rating
MARKS: Final = {
    "asked": "\ue000",
    "who": "\ue001",
    "other": "\ue002",
    "ends": "\ue003",
    "box": "\ue004",
    "answer": "\ue007",
    "self": "\ue009",
}
"""What stands in a text, as patterns see it, for a word of the emotion that was asked about; for the person in the
narrative; for a number that is accounted for as something else than a rating; for numbers that describe the scale; and
before what stands in a box, and in an element that is called answer; and for whom the model is to be. No alphabet has
these characters."""
_SOURCE: Final = "geneva"  # the source of narratives that packs have the situations of
_NAME: Final = re.compile(r"<([a-z_]+)>")
_MANY: Final = 3

Text = Annotated[str, StringConstraints(min_length=1)]


class _Text(StrictModel):
    en: Text
    text: Text
    back: Text
    note: str = ""

    @model_validator(mode="after")
    def _shows_the_same(self) -> _Text:
        shown = {
            name: {each.replace("Exp", "exp") for each in in_any_case(getattr(self, name), VALUE_NAMES, place=name)}
            for name in ("en", "text")
        }
        for one, other in (("en", "text"), ("text", "en")):
            for name in sorted(shown[one] - shown[other]):
                raise ValueError(f"`{other}` lacks the placeholder {{{name}}}, which `{one}` shows: {self.text!r:.60}")
        return self


class _TranslatedTerm(StrictModel):
    forms: dict[str, Text]
    stem: Text | None = None
    back: Text
    note: str = ""


class _Emotion(StrictModel):
    noun: Text
    adjective: Text
    back: Text
    note: str = ""


class _Situation(StrictModel):
    of: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
    text: Text
    back: Text
    note: str = ""


class Replies(StrictModel):
    """How answers of a language are read, see :mod:`audit.asking.elicitation.phrases`.

    Patterns may hold :data:`MARKS` as names, too.
    """

    numbers: dict[Text, Annotated[int, Field(ge=0, le=1000)]]  # number words, and what they stand for
    amounts: dict[Text, Text]  # words between and after numbers, and their English: of, to, percent, points
    thousands: str  # what separates thousands; "" if nothing does
    # words before which a number with a full stop is an ordinal: "25. november" is no 25, where ordinals are so written
    ordinals: tuple[Text, ...] = ()
    # alternatives by a name, which patterns hold as <name>; a name's alternatives may hold those above it
    names: dict[Text, tuple[Text, ...]] = Field(default_factory=dict)
    ratings: tuple[Text, ...] = Field(min_length=1)  # of sentences that state a rating, each with <number> once
    # of sentences that call their number the rating: one at the end counts for more than unexplained ones before
    labels: tuple[Text, ...] = ()
    closing: tuple[Text, ...] = ()  # of sentences that call it the last word: ratings before it do not count
    told: tuple[Text, ...] = ()  # of a whole response that tells how much the person felt; their number is a plain one
    rivals: tuple[Text, ...] = ()  # of sentences that may rate something else, which a label does not outweigh
    asking: tuple[Text, ...] = ()  # of questions without a number that may come right before a rating: they ask for it
    # Of sentences without a number that leave the rating before them as it is: reasons, the story, thanks. The sentence
    # right after a rating must be one of them.
    remarks: tuple[Text, ...] = ()
    denials: tuple[Text, ...] = ()  # of others that take back, or deny, the rating before them, or may speak of it
    # of what may begin to revise a rating, looked for in the unfinished sentence at the end of a cut text
    revisions: tuple[Text, ...] = ()
    # of a first sentence after which a text thinks: if it is cut, its answer may not have begun
    reasoning: tuple[Text, ...] = ()
    lowest: tuple[Text, ...] = ()  # of a <number> that is called an end of the scale
    highest: tuple[Text, ...] = ()
    others: tuple[Text, ...] = ()  # of sentences, with or without a number, that name another emotion
    mentions: tuple[Text, ...] = ()  # of numbers that are something else than a rating: times, ages, counts
    people: tuple[Text, ...] = ()  # terms of people whom the model may be asked to be
    emotions: tuple[Text, ...] = ()  # words of emotions, which count as asked about where it is not told which one was
    # words beside those of amounts that may go on with a number: a text that was cut before them has none
    further: tuple[Text, ...] = ()
    refusals: tuple[Text, ...] = Field(min_length=1)  # patterns of what declines the task, wherever it stands

    @model_validator(mode="after")
    def _can_be_read(self) -> Replies:
        stating = ("ratings", "labels", "closing", "told", "rivals", "lowest", "highest")
        beside = ("asking", "remarks", "denials", "revisions", "reasoning", "others", "mentions", "refusals")
        for kind in (*stating, *beside):
            for pattern in getattr(self, kind):
                if kind in stating and pattern.count(f"<{NUMBER}>") != 1:
                    raise ValueError(f"{kind}: {pattern!r} needs <{NUMBER}> once")
                self._check(kind, pattern, {*self.names, *MARKS, NUMBER})
        before = {*MARKS, NUMBER}
        for name, alternatives in self.names.items():
            for pattern in alternatives:
                self._check(f"names.{name}", pattern, before)
            before.add(name)
        return self

    def _check(self, kind: str, pattern: str, names: Set[str]) -> None:
        """Refuse what is no pattern; written out, patterns take seconds to compile, so they are not here."""
        unknown = next((each for each in _NAME.findall(pattern) if each not in names), None)
        try:
            if unknown is not None:
                raise ValueError(f"unknown name <{unknown}>")
            re.compile(_NAME.sub("x", pattern))
        except (re.error, ValueError) as error:
            raise ValueError(f"{kind}: {pattern!r} is not a valid pattern: {error}") from error

    def written_out(self, pattern: str) -> str:
        """Return a pattern with all names but ``<number>`` written out; KeyError if there is no such name."""
        known: dict[str, str] = dict(MARKS)

        def put(text: str) -> str:
            return _NAME.sub(lambda found: f"<{NUMBER}>" if found[1] == NUMBER else known[found[1]], text)

        for name, alternatives in self.names.items():
            known[name] = f"(?:{'|'.join(map(put, alternatives))})"
        return put(pattern)


class _Pack(StrictModel):
    name: Text
    reviewed: Text
    policy: Text
    begins: dict[str, Text]
    prompts: tuple[Text, ...]
    texts: tuple[_Text, ...]
    terms: dict[str, _TranslatedTerm]
    emotions: dict[str, _Emotion]
    situations: dict[str, _Situation]
    replies: Replies

    @model_validator(mode="after")
    def _fits_together(self) -> _Pack:
        for case in self.begins:
            if case not in (NAMING, *CASES):
                raise ValueError(f"begins: {suggest(case, (NAMING, *CASES))}")
        if NAMING not in self.begins:
            raise ValueError(f"begins: needs {NAMING}, the form that names an identity")
        for english, count in Counter(each.en for each in self.texts).items():
            if count > 1:
                raise ValueError(f"texts: {english!r:.60} is translated twice; keep one")
        for english, term in self.terms.items():
            if set(term.forms) != set(self.begins):
                raise ValueError(f"terms: {english!r} has the forms {sorted(term.forms)}, not {sorted(self.begins)}")
            for case, form in term.forms.items():
                if not form.startswith(self.begins[case]):
                    raise ValueError(
                        f"terms: the {case} of {english!r} is {form!r}, but by `begins` it must start with "
                        f"{self.begins[case]!r}"
                    )
        return self


@dataclass(frozen=True)
class LanguagePack:
    """What prompts are made of, in one language."""

    code: str  # e.g. de
    name: str  # what the language is called in English
    sha256: str  # of the pack's file
    _content: _Pack

    @property
    def replies(self) -> Replies:
        """How answers are read."""
        return self._content.replies

    @property
    def reviewed(self) -> str:
        """Who has read the pack, in words."""
        return self._content.reviewed

    @property
    def policy(self) -> str:
        """How the pack words people, in words."""
        return self._content.policy

    @property
    def prompts(self) -> tuple[str, ...]:
        """The packaged prompts whose texts the pack has."""
        return self._content.prompts

    def items(self) -> list[tuple[str, str, str, str, str]]:
        """Return every item: the kind, the English text or its name, the text, the text translated back, the note."""
        pack = self._content
        return [
            *(("text", each.en, each.text, each.back, each.note) for each in pack.texts),
            *(("term", name, each.forms[NAMING], each.back, each.note) for name, each in pack.terms.items()),
            *(
                ("emotion", name, f"{each.noun}; {each.adjective}", each.back, each.note)
                for name, each in pack.emotions.items()
            ),
            *(("situation", name, each.text, each.back, each.note) for name, each in pack.situations.items()),
        ]

    def variant(self, variant: PromptVariant) -> PromptVariant:
        """Return a prompt variant in this language."""
        parts = {part: self._text(getattr(variant, part), variant, part) for part in ("persona", "system", "user")}
        if (scale := variant.scale) is not None:
            ends = {
                part: self._text(getattr(scale, part), variant, f"scale.{part}")
                for part in sorted(SCALE_FIELDS)
                if part.endswith("label")
            }
            scale = Scale(scale.low, scale.high, **ends)
        return replace(variant, **parts, scale=scale)

    def beginning(self, begun: str) -> str:
        """Return what an answer is begun with in this language; what already is in it stays."""
        own = self._texts
        if not begun or begun in own.values():
            return begun
        if begun not in own:
            known = [text for english, text in own.items() if english.endswith(": ")]
            raise StimulusError(
                f"elicitation.prefill={begun!r}: {self._lacks('text of it')}; the pack has these beginnings: "
                f"{', '.join(map(repr, known)) or 'none'}"
            )
        return own[begun]

    def dimension(self, dimension: Dimension) -> Dimension:
        """Return a dimension whose identities are worded in this language; groups keep their English names."""
        sides: list[tuple[Identity, ...]] = []
        for identities in (dimension.perceivers, dimension.experiencers):
            terms = (each.term for each in identities if each.group != NO_PERSONA)
            if lacking := [term for term in terms if term not in self._content.terms]:
                raise StimulusError(
                    f"dimension {dimension.name!r}: {self._lacks(_several(lacking))}; "
                    + (
                        "of invented groups it has the first term: stimuli.placebo_terms=1"
                        if dimension.placebo
                        else f"it has those of {self._identities()}; none of intersections"
                    )
                )
            sides.append(tuple(map(self.identity, identities)))
            for term, count in Counter(each.term for each in sides[-1]).items():
                if count > 1:
                    raise StimulusError(f"{self._file}: two identities of {dimension.name!r} are worded {term!r}")
        perceivers, experiencers = sides
        return replace(dimension, perceivers=perceivers, experiencers=experiencers)

    def identity(self, identity: Identity) -> Identity:
        """Return an identity worded in this language; no persona is worded nowhere. KeyError if it is not there."""
        if identity.group == NO_PERSONA:
            return identity
        own = self._content.terms[identity.term]
        others = tuple((case, own.forms[case]) for case in CASES if case in own.forms)
        stem = None if identity.is_baseline else own.stem
        return replace(identity, term=own.forms[NAMING], stem=stem, forms=others)

    def narratives(self, narratives: Narratives) -> Narratives:
        """Return narratives told in this language; the identifiers stay. Others are left out where it lacks them."""
        if narratives.source != _SOURCE:
            raise StimulusError(
                f"stimuli.source={narratives.source}: {self._lacks('text of its narratives')}; it has the situations "
                f"of stimuli={_SOURCE}"
            )
        there = self._content.situations
        if lacking := [each.narrative_id for each in narratives.narratives if each.narrative_id not in there]:
            raise StimulusError(
                f"stimuli={_SOURCE}: {self._lacks(_several(lacking))}; it has {len(there)} of them, of "
                f"the emotions {', '.join(dict.fromkeys(each.rpartition('-')[0] for each in there))}"
            )
        told = tuple(map(self._told, narratives.narratives))
        others = [
            each
            for each in narratives.others
            if each.emotion in self._content.emotions
            and (own := there.get(each.narrative_id)) is not None
            and own.of == mark_of(each.first_person)
        ]
        return replace(narratives, narratives=told, sha256=hash_of(told), others=tuple(map(self._told, others)))

    def _told(self, narrative: Narrative) -> Narrative:
        own, words = self._content.situations[narrative.narrative_id], self._content.emotions.get(narrative.emotion)
        if own.of != (english := mark_of(narrative.first_person)):
            raise StimulusError(
                f"{self._file}: situations: {narrative.narrative_id} was translated from another English text; "
                f"translate it again, and write `of: {english}`"
            )
        if words is None:
            raise StimulusError(f"stimuli.emotions: {self._lacks(_several([narrative.emotion]))}")
        shown = EmotionWords(words.noun, words.adjective)
        return replace(narrative, words=shown, neutral=own.text, first_person=own.text, third_person="")

    @property
    def _texts(self) -> dict[str, str]:
        return {each.en: each.text for each in self._content.texts}

    @property
    def _file(self) -> Path:
        return FOLDER / f"{self.code}.yaml"

    def _text(self, english: str, variant: PromptVariant, part: str) -> str:
        if english not in (own := self._texts):
            shown = " ".join(english.split())
            raise StimulusError(
                f"prompt.{part} of prompt {variant.name} ({shown!r:.50}): {self._lacks('text of it')}; it has the "
                f"prompts {', '.join(self.prompts)}, as packaged"
            )
        return own[english]

    def _lacks(self, what: str) -> str:
        return f"the language pack {self.code} has no {self.name} {what}"

    def _identities(self) -> str:
        """Say whose identities the pack words: studies, and dimensions that have a file of their own."""
        known, packs = self._content.terms.keys(), pack_terms()
        studies = [name for name, terms in packaged_terms().items() if terms <= known]
        whole = [name for name, terms in packs.items() if terms.keys() <= known]
        labels = [
            name
            for name, terms in packs.items()
            if name not in whole and all(each in known for each, cue in terms.items() if cue == "label")
        ]
        told = [
            f"stimuli.identities={', '.join(studies)}" if studies else "",
            f"dimensions=[{', '.join(whole)}]" if whole else "",
            f"dimensions=[{', '.join(labels)}] with stimuli.cues=[label]" if labels else "",
        ]
        return "; ".join(filter(None, told)) or "none"


def mark_of(text: str) -> str:
    """Return by what a pack knows the English text that it has a translation of: the beginning of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def languages() -> tuple[str, ...]:
    """Return the codes of all languages that prompts can be asked in, English first."""
    return (ENGLISH, *sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_language(code: str) -> LanguagePack | None:
    """Return the pack of a language; None for English, which the package is written in.

    Examples
    --------
    >>> german = load_language("de")
    >>> german.name
    'German'
    >>> load_language("en") is None
    True
    """
    if code not in languages():
        raise StimulusError(
            f"language={code}: {suggest(code, languages())}; to add a language, write one file: docs/languages.md"
        )
    return None if code == ENGLISH else read_pack(FOLDER / f"{code}.yaml")


@cache
def read_pack(path: Path) -> LanguagePack:
    """Read a language pack's file."""
    content = read_yaml(path)
    try:
        pack = _Pack.model_validate(content)
    except ValidationError as error:
        raise StimulusError(f"{path}: {explain(error, _Pack, content)}") from error
    return LanguagePack(path.stem, pack.name, hashlib.sha256(read_file(path)).hexdigest(), pack)


def _several(names: Iterable[str]) -> str:
    """Name the first few of what is lacking, and say how many others there are."""
    listed = list(dict.fromkeys(names))
    more = f", and {len(listed) - _MANY} more" if len(listed) > _MANY else ""
    return f"text of {', '.join(map(repr, listed[:_MANY]))}{more}"


def pack_replies(code: str) -> Replies | None:
    """Return how answers in a language are read; None for English. Raises as :func:`load_language`."""
    pack = load_language(code)
    return None if pack is None else pack.replies


@cache
def english_replies() -> Replies:
    """Return how answers in English are read."""
    people = sorted(set().union(*packaged_terms().values()))
    return Replies.model_validate({**read_yaml(FOLDER.parent / "english_replies.yaml"), "people": people})
