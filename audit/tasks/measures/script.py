"""Finds the script that a text is written in, so that word lists of one language are not applied to another."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from typing import Final

_FIRST_OF_TWO: Final = frozenset(
    ["CAUCASIAN", "IMPERIAL", "INSCRIPTIONAL", "LINEAR", "MEROITIC", "NEW", "OL", "OLD", "TAI"]
)
_NO_SCRIPT: Final = frozenset(["CARON", "MASU", "MODIFIER", "ROMAN", "SUBSCRIPT", "SUPERSCRIPT", "TURNED", "VERTICAL"])
_CHINESE_AND_JAPANESE: Final = frozenset(
    ["CJK", "HENTAIGANA", "HIRAGANA", "IDEOGRAPHIC", "KATAKANA", "KATAKANA-HIRAGANA"]
)


def script_of(text: str) -> str | None:
    """Return the Unicode script of most of a text's letters, e.g. ``Latin`` or ``Cyrillic``; None without a letter.

    Han, Hiragana and Katakana count as one, ``Han``: Japanese mixes the three, and a text of Chinese characters alone
    may be in either language. Full-width and mathematical letters count as the letters that they stand for; digits,
    marks and emoji are not letters. If scripts have the same number of letters, the first in the text is returned.

    Notes
    -----
    A letter's script is read from its Unicode name, for Python's standard library has no table of scripts. A rare
    sign that is named otherwise counts as a script of its own.
    """
    counts = _counts(text)
    return counts.most_common(1)[0][0] if counts else None


def in_other_script(reply: str, narrative: str) -> bool:
    """Whether more than half of a reply's letters are not of the script of most of the narrative's.

    False if either has no letter: such a reply is empty or has no words, which is another fault. A reply in another
    language of the same script is not found.
    """
    expected = script_of(narrative)
    counts = _counts(reply)
    return expected is not None and 2 * counts[expected] < counts.total()


def _counts(text: str) -> Counter[str]:
    scripts = map(_script_of_letter, unicodedata.normalize("NFKC", text))
    return Counter(script for script in scripts if script is not None)


@lru_cache(maxsize=8192)
def _script_of_letter(character: str) -> str | None:
    name = unicodedata.name(character, "").split() if character.isalpha() else []
    if not name or name[0] in _NO_SCRIPT:
        return None
    if name[0] in _CHINESE_AND_JAPANESE:
        return "Han"
    return " ".join(name[: 2 if name[0] in _FIRST_OF_TWO else 1]).title()
