"""How words are written."""

from __future__ import annotations

import unicodedata
from typing import Final


def capital(words: str) -> str:
    """Begin words with a capital letter; the others, and markup, stay as they are."""
    return words[:1].upper() + words[1:]


class _ToWords(dict[int, int]):
    """For ``str.translate``: letters, marks and digits stay, all else is a space; learnt as characters come."""

    def __missing__(self, code: int) -> int:
        self[code] = code if unicodedata.category(chr(code))[0] in "LMN" else ord(" ")
        return self[code]


_TO_WORDS: Final = _ToWords()


def words_alone(text: str) -> str:
    """Return the words of a text with one space between them: without case, white space and punctuation."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_TO_WORDS).split())
