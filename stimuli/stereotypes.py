"""Lexicons of stereotype words: themes of stems, which a lexical check of written texts counts.

The packaged words and their themes are ours and not normed on people; see the head of ``data/stereotypes.yaml``. A
count of them is crude: it sees no negation, no irony and no context, and it reads English.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stimuli.errors import StimulusError
from stimuli.hashes import fingerprint
from stimuli.yaml_files import read_yaml

STEREOTYPES_FILE: Final = Path(__file__).parent / "data" / "stereotypes.yaml"
MIN_STEM: Final = 3  # letters that must stand before a `*`: shorter stems take in words by accident
_NAME: Final = re.compile(r"[a-z][a-z_]*")
_STEM: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*\*?")


@dataclass(frozen=True)
class Lexicon:
    """Stereotype words by theme."""

    source: str  # the file that they come from
    # Theme → its stems, in lower case; one that ends in * stands for every word that begins so. A word may be in
    # several themes.
    themes: Mapping[str, tuple[str, ...]]

    @property
    def sha256(self) -> str:
        """Of themes and stems, whatever the file looks like."""
        content = {theme: sorted(stems) for theme, stems in self.themes.items()}
        return fingerprint(content)

    def themes_of(self, word: str) -> frozenset[str]:
        """Return the themes that a word in lower case is in; most are in none."""
        return frozenset(theme for theme, stems in self.themes.items() if any(_takes(stem, word) for stem in stems))


def load_stereotypes(path: Path | None = None) -> Lexicon:
    """Read a lexicon of stereotype words, a YAML file of ``theme: [stem, stem*, ...]``; None reads the packaged one.

    Examples
    --------
    >>> lexicon = load_stereotypes()
    >>> lexicon.source
    'packaged'
    >>> sorted(lexicon.themes_of("criminals")), sorted(lexicon.themes_of("table"))
    (['danger'], [])
    """
    file = STEREOTYPES_FILE if path is None else path
    themes: dict[str, tuple[str, ...]] = {}
    for theme, stems in read_yaml(file).items():
        if not isinstance(theme, str) or not _NAME.fullmatch(theme):
            raise StimulusError(
                f"{file}: theme {theme!r}: a name has lower-case letters a-z and underscores; rename it, and quote "
                "it if YAML reads it as something else"
            )
        if not isinstance(stems, list) or not stems:
            raise StimulusError(f"{file}: {theme} has no list of words; write {theme}: [word, stem*]")
        for place, stem in enumerate(stems):
            _check(stem, stems[:place], place=f"{file}: {theme}")
        themes[theme] = tuple(stems)
    return Lexicon(source="packaged" if path is None else str(path), themes=themes)


def _takes(stem: str, word: str) -> bool:
    return word.startswith(stem[:-1]) if stem.endswith("*") else word == stem


def _check(stem: object, earlier: list[object], *, place: str) -> None:
    """Raise StimulusError, with place, value and remedy, unless the stem can be counted."""
    if not isinstance(stem, str):
        raise StimulusError(f"{place}: {stem!r} is not a word; put it in quotes")
    if stem in earlier:
        raise StimulusError(f"{place}: {stem!r} is given twice; keep one")
    if stem != stem.lower():
        raise StimulusError(
            f"{place}: {stem!r} has capitals, but texts are compared in lower case; write {stem.lower()!r}"
        )
    if not _STEM.fullmatch(stem):
        raise StimulusError(
            f"{place}: {stem!r} is not one word (with at most a * at its end); give the words one by one"
        )
    if stem.endswith("*") and len(stem) <= MIN_STEM:
        raise StimulusError(f"{place}: {stem!r} is too short a stem; write at least {MIN_STEM} letters before *")
