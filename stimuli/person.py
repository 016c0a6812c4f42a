"""By whom a narrative's text is told: the one definition of what may stand in which wording.

A text is told by the experiencer, in the first person, or it is about the experiencer, in the third person, and has a
place for them: ``{experiencer}``, which becomes the identity's words, or a beginning with "The person", whom prompts
ask about. Any other text is of somebody whom no prompt names, and its rating of nobody's group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from stimuli.words import capital
from stimuli.yaml_files import read_yaml

PLACE: Final = re.compile(r"\{[Ee]xperiencer\}")  # where the experiencer stands in a text in the third person
_FILE: Final = Path(__file__).parent / "data" / "person.yaml"
_QUOTED: Final = re.compile(
    # Marks that open also where nothing closes them: until the paragraph ends, as speech of several paragraphs is set.
    r'(?<!\w)"(?:[^"\n]|\n(?!\s*["\n]))*(?:"|$)|“(?:[^“”\n]|\n(?!\s*[“\n]))*(?:[“”]|$)|„(?:[^“”\n]|\n(?!\s*[„\n]))*(?:[“”]|$)'
    r"|«(?:[^»\n]|\n(?!\s*[«\n]))*(?:»|$)|‚(?:[^‚\n]|\n(?!\s*[‚\n]))*?(?:[‘’](?!\w)|$)|‹(?:[^›\n]|\n(?!\s*[‹\n]))*(?:›|$)"
    r"|(?<!\w)»[^«»]*«|(?<!\w)›[^‹›]*‹|(?<!\w)”[^”]*”|(?<!\w)‘[^‘]*?’(?!\w)"
    r"|(?<!\w)'(?!(?:cause|til|em|n|twas|tis)\b|\d)[^']*(?:\w'\w[^']*)*'(?!\w)",
    re.MULTILINE,
)
"""What somebody says in a text, which tells nothing of who tells the text; an apostrophe within a word ends nothing."""
_SAID: Final = " . \N{OBJECT REPLACEMENT CHARACTER} "  # stands for what was in quotation marks, and ends a sentence
_SET_OFF: Final = re.compile(
    rf"(?::(?!\d|//|-?[()]|-?[DP]\b)|[—―]|(?<!\w)–|–(?!\w)|(?<!\S)-(?=\s))(?!\s*{re.escape(_SAID.strip())})\s*.*"
)
"""What may be another's words without quotation marks: after "Boss:", a colon or a dash, until the line ends."""
_ARTICLE: Final = re.compile(r"(?<!\w)(?:an?|the)\s+\{experiencer\}", re.IGNORECASE)
_BEGINS: Final = r"(?:\A|[.!?…][\"”’)\]]{0,9}\s|\n)\W{0,20}"  # what a word stands behind that begins a sentence


def in_first_person(text: str) -> bool:
    """Tell whether a text is told by who lived through it, in any language that :file:`data/person.yaml` has.

    A text is so only by a word such as "I", "my" or "us" that nobody else says in it: outside of quotation marks, and
    not after a colon or a dash. A note without such a word is not: no verb tells whose it is. "Had the bus come …" and
    "Was Anna there?" begin as "Had to walk" and "Was late" do. Of the 50 narratives without such a word in three files
    of the study, a list of verbs took 2; see :doc:`/stimuli`. Speech that no mark, colon or dash sets off is not seen.

    Examples
    --------
    >>> in_first_person("I lost my dog."), in_first_person("Lost my dog."), in_first_person("Mir fiel ein Glas um.")
    (True, True, True)
    >>> in_first_person("A person lost their dog."), in_first_person('The boss said: "I am done with you."')
    (False, False)
    >>> in_first_person("Had Anna known, she would have stayed."), in_first_person("Got fired today.")
    (False, False)
    """
    whole = _QUOTED.fullmatch(text.strip())
    told = text.strip()[1:-1] if whole else text
    for _ in range(2):  # once more where ’ both opens and ends what is said
        told = _QUOTED.sub(_SAID, told).replace("’", "'")
    told = _SET_OFF.sub("", told)
    for first, never in _patterns():
        left = never.sub(" ", told)
        if first.search(left.lower() if left.isupper() else left):
            return True
    return False


def has_place(text: str) -> bool:
    """Tell whether a text in the third person has a place for the experiencer.

    "The person" is one only where it begins the text and nothing tells this person from others: "the person behind the
    counter" is somebody whom the experiencer meets.

    Examples
    --------
    >>> has_place("{experiencer} lost a dog."), has_place("The person lost a dog."), has_place("A person lost a dog.")
    (True, True, False)
    >>> has_place("A woman shouted at the person behind the counter."), has_place("The person next door shouted.")
    (False, False)
    """
    return PLACE.search(text) is not None or any(
        re.match(
            rf"\W*(?:{_either(words['person'])})(?!\w|,?\s+(?:{_either(words['which'])})(?!\w))", text, re.IGNORECASE
        )
        for words in _words().values()
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
        begins = found[0][1] == "E" or re.search(rf"{_BEGINS}\Z", text[: found.start()])
        return capital(experiencer) if begins else experiencer

    return PLACE.sub(put, text)


@cache
def _words() -> dict[str, dict[str, list[str]]]:
    return dict(read_yaml(_FILE))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return by language what tells a first person, and what is first taken out of a text."""
    found = []
    for words in _words().values():
        # "US" and "ME" are no pronouns, and a capital amid a sentence is a name's: "the hospital of Our Lady".
        anywhere = _either(words["first"])
        begins = _either([word.capitalize() for word in words["first"]])
        first = rf"(?:(?<!\w)(?:{anywhere})|{_BEGINS}(?:{begins}))(?!\w)"
        found.append((re.compile(first), re.compile("|".join(words["never"]) or r"(?!)")))
    return tuple(found)


def _either(words: Sequence[str]) -> str:
    return "|".join(map(re.escape, words))
