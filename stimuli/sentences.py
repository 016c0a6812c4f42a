"""Splits a text into sentences and words, by simple rules that need no model.

The rules are for languages that put spaces between words; in others a whole clause counts as one word.
"""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "\u2010": "-", "\u2011": "-"})
_WORD: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_BREAK: Final = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]*]*\s+|(?<=[。！？])")


def words(text: str) -> list[str]:
    """Split a text into its words, in lower case: runs of letters and digits, with hyphens and apostrophes inside."""
    return _WORD.findall(text.translate(_PLAIN).lower())


def sentences(text: str) -> list[str]:
    """Split a text into sentences: at line breaks, and where ``.``, ``!``, ``?`` or ``…`` comes before a space.

    An abbreviation ("Dr. Lee") ends a sentence too. Parts without a letter or digit are left out.
    """
    return [part for line in text.splitlines() for part in _BREAK.split(line) if _WORD.search(part)]
