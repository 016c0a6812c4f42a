"""By whom a narrative's text is told: the one definition of what may stand in which wording.

A text is told by the experiencer, in the first person, or it is about the experiencer, in the third person, and has a
place for them: ``{experiencer}``, which becomes the identity's words, or "the person", whom prompts ask about. Any
other text is of somebody whom no prompt names, and its rating of nobody's group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from stimuli.yaml_files import read_yaml

PLACE: Final = re.compile(r"\{[Ee]xperiencer\}")
"""Where the words for the experiencer stand in a text in the third person."""
_FILE: Final = Path(__file__).parent / "data" / "person.yaml"
_QUOTED: Final = re.compile(
    r'"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|»[^«]*«|(?<!\w)‘[^‘]*?’(?!\w)|(?<!\w)\'(?!(?:cause|til|em|n|twas|tis)\b)[^\']*(?:\w\'\w[^\']*)*\'(?!\w)'
)
"""What somebody says in a text, which tells nothing of who tells the text; an apostrophe within a word ends nothing."""
_BEFORE_A_NOTE: Final = r"(?:(?:just|when|today|yesterday|finally|heute|gestern)\s+)?"
_ARTICLE: Final = re.compile(r"(?<!\w)(?:an?|the)\s+\{experiencer\}", re.IGNORECASE)
_BEGINS: Final = re.compile(r"(?:\A|[.!?…][\"”’)\]]*\s+|\n\s*)[\"“„‘'(\[]*\Z")
"""What a word stands behind that begins a sentence."""


def in_first_person(text: str) -> bool:
    """Tell whether a text is told by who lived through it, in any language that :file:`data/person.yaml` has.

    Examples
    --------
    >>> in_first_person("I lost my dog."), in_first_person("Got fired today."), in_first_person("Mir fiel ein Glas um.")
    (True, True, True)
    >>> in_first_person("A person lost their dog."), in_first_person('The boss said: "I am done with you."')
    (False, False)
    """
    told = _QUOTED.sub(" ", text)
    if not any(map(str.isalnum, told)):  # nothing but what is in quotation marks
        told = text
    told = told.replace("’", "'")
    if told.isupper():
        told = told.lower()
    return any(first.search(never.sub(" ", told)) for first, never in _patterns())


def has_place(text: str) -> bool:
    """Tell whether a text in the third person has a place for the experiencer.

    Examples
    --------
    >>> has_place("{experiencer} lost a dog."), has_place("The person lost a dog."), has_place("A person lost a dog.")
    (True, True, False)
    """
    return PLACE.search(text) is not None or any(
        re.search(rf"(?<!\w)(?:{_either(words['person'])})(?!\w)", text, re.IGNORECASE) for words in _words().values()
    )


def article_before(text: str) -> str:
    """Return an article that stands before the place for the experiencer, whose words bring their own; else nothing."""
    found = _ARTICLE.search(text)
    return found[0] if found else ""


def placed(text: str, experiencer: str) -> str:
    """Return a text with the experiencer in their place, with a capital where it begins a sentence.

    Examples
    --------
    >>> placed("{experiencer} lost a dog. Nobody helped {experiencer}.", "a Muslim")
    'A Muslim lost a dog. Nobody helped a Muslim.'
    """

    def put(found: re.Match[str]) -> str:
        begins = found[0][1] == "E" or _BEGINS.search(text[: found.start()])
        return experiencer[:1].upper() + experiencer[1:] if begins else experiencer

    return PLACE.sub(put, text)


@cache
def _words() -> dict[str, dict[str, list[str]]]:
    return dict(read_yaml(_FILE))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return by language what tells a first person, and what is first taken out of a text."""
    found = []
    for words in _words().values():
        # With a capital or without; "US" and "ME" are no pronouns.
        first = _either([form for word in words["first"] for form in (word, word.capitalize())])
        notes = _either(words["notes"])
        pattern = rf"(?<!\w)(?:{first})(?!\w)|\A\W*(?i:{_BEFORE_A_NOTE}(?:{notes}))(?!\w)"
        found.append((re.compile(pattern), re.compile("|".join(words["never"]) or r"(?!)")))
    return tuple(found)


def _either(words: Sequence[str]) -> str:
    return "|".join(map(re.escape, words))
