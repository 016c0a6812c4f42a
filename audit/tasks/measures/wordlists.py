"""The packaged word lists of the lexical measures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from stimuli import yaml_files
from stimuli.hashes import fingerprint
from stimuli.sentences import sentences
from stimuli.yaml_files import read_yaml

_DATA: Final = Path(yaml_files.__file__).parent / "data"
PATTERNS_FILE: Final = _DATA / "reply_patterns.yaml"
FORMS_FILE: Final = _DATA / "emotion_forms.yaml"
KINDS: Final = ("advice", "crisis_line", "professional_help")

_STRAIGHT: Final = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-"}
)
_DASH: Final = re.compile(r"\s*[\u2013\u2014]\s*|\s+--?\s+")
_MARKUP: Final = re.compile(r"[*_#`>\"]+|^\s*(?:[-\u2022]|\(?\d{1,2}[.)])\s+")
_REFERENCE: Final = re.compile(r"(?<!\(\?)(?<!\(\?P)<([a-z_]+)>")  # not the name of a group
_CUT: Final = " | "  # replaces a cut, so that the words around it do not join


@dataclass(frozen=True)
class ReplyPatterns:
    """Patterns of replies that give advice, name a crisis line or refer the reader to a professional."""

    patterns: Mapping[str, tuple[str, ...]]  # for each of KINDS, the regular expressions to look for
    unless: Mapping[str, tuple[str, ...]]  # those to cut out first

    @property
    def sha256(self) -> str:
        """Hash of the patterns."""
        return fingerprint({kind: [self.patterns[kind], self.unless[kind]] for kind in KINDS})

    def kinds_in(self, text: str) -> frozenset[str]:
        """Return which of :data:`KINDS` a text holds. Patterns match within one sentence."""
        plain = [plain_sentence(sentence) for sentence in sentences(text)]
        return frozenset(kind for kind, (finds, cuts) in self._compiled.items() if _any(plain, finds, cuts))

    @cached_property
    def _compiled(self) -> dict[str, tuple[re.Pattern[str], re.Pattern[str] | None]]:
        return {kind: (_either(self.patterns[kind]), _maybe(self.unless[kind])) for kind in KINDS}


@dataclass(frozen=True)
class EmotionForms:
    """Families of the forms that name an emotion."""

    source: str
    families: tuple[tuple[str, ...], ...]  # the forms of one emotion's words, in lower case; no form is in two families
    unless: tuple[str, ...] = ()  # regular expressions; a form inside a match names nothing

    @property
    def sha256(self) -> str:
        """Hash of forms and phrases."""
        return fingerprint([sorted(map(sorted, self.families)), self.unless])

    def family_of(self, word: str) -> tuple[str, ...]:
        """Return the family of a word in lower case; empty if it has none."""
        return self._family_of.get(word, ())

    def without_phrases(self, text: str) -> str:
        """Cut the matches of ``unless`` out of a text in lower case."""
        return self._cuts.sub(_CUT, text) if self._cuts else text

    @cached_property
    def _family_of(self) -> dict[str, tuple[str, ...]]:
        return {form: family for family in self.families for form in family}

    @cached_property
    def _cuts(self) -> re.Pattern[str] | None:
        return _maybe(self.unless)


def load_patterns() -> ReplyPatterns:
    """Read the packaged patterns of replies."""
    content = read_yaml(PATTERNS_FILE)
    names: dict[str, str] = {}
    for name, alternatives in content["names"].items():
        names[name] = f"(?:{'|'.join(_written_out(alternatives, names))})"
    return ReplyPatterns(
        {kind: _written_out(content[kind]["patterns"], names) for kind in KINDS},
        {kind: _written_out(content[kind].get("unless", ()), names) for kind in KINDS},
    )


def load_forms() -> EmotionForms:
    """Read the packaged forms that name emotions."""
    content = read_yaml(FORMS_FILE)
    return EmotionForms("packaged", tuple(map(tuple, content["families"].values())), tuple(content["unless"]))


def plain_sentence(sentence: str) -> str:
    """Return a sentence in lower case: no markup or double quotes, straight apostrophes, dashes as commas."""
    text = _MARKUP.sub("", _MARKUP.sub("", sentence.lower().translate(_STRAIGHT)))
    return " ".join(_DASH.sub(", ", text).split())


def _any(plain: list[str], finds: re.Pattern[str], cuts: re.Pattern[str] | None) -> bool:
    return any(finds.search(cuts.sub(_CUT, sentence) if cuts else sentence) for sentence in plain)


def _written_out(expressions: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Expand the names in regular expressions."""
    return tuple(_REFERENCE.sub(lambda found: names[found[1]], expression) for expression in expressions)


def _either(expressions: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{expression})" for expression in expressions))


def _maybe(expressions: tuple[str, ...]) -> re.Pattern[str] | None:
    return _either(expressions) if expressions else None
