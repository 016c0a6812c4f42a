"""How words are written."""

from __future__ import annotations


def capital(words: str) -> str:
    """Begin words with a capital letter; the others, and markup, stay as they are."""
    return words[:1].upper() + words[1:]
