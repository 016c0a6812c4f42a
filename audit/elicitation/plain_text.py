"""Brings a model's raw text to plain words and ASCII digits, so that one grammar reads every response."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from audit.engines.dialects import without_thoughts

_SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|\[/?inst\]|</?(?:start|end)_of_turn>|<(?:eos|bos|pad)>", re.IGNORECASE
)
_TURN = re.compile(  # base models go on with turns of their own, and rate in them
    r"^[ #*]{0,6}(?:user|human|system|assistant|model|question|instruction)[* ]{0,3}:\**", re.IGNORECASE | re.MULTILINE
)
_MARKUP: Final = (
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r"\\[dt]?frac ?\{([0-9.]{1,9})\}\{([0-9.]{1,9})\}"), r"\1/\2"),
    (re.compile(r"\\(?:text|textbf|mathbf|mathrm) ?\{([^{}\n]{0,60})\}"), r"\1"),
    (re.compile(r"\$ ?([0-9.]{1,9}(?: ?/ ?[0-9]{1,5}| ?\\?%)?) ?\$(?![0-9])"), r"\1"),  # "$85$" is maths, "$50" money
    (re.compile(r"\\?\bboxed ?\{([^{}\n]{0,60})\}"), r"\nfinal answer: \1\n"),
    (re.compile(r"\\[(\[\])]"), " "),
    (re.compile(r"</?[a-z][a-z_]{0,30}>"), "\n"),
    (re.compile(r"~~[^~\n]{1,60}~~"), ""),
    (re.compile(r"[-=]{1,2}>|[→⇒]"), ":"),
)
_NUMBERING = re.compile(r"^[ *#>-]{0,6}\(?([0-9]{1,2})[.):]\)?\*{0,2} +(?=\S)", re.MULTILINE)
_PLAIN = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "−": "-", "–": "-", "‐": "-", "‑": "-", "—": " - ", "٫": ".", "٬": ","}
    | {"٪": "%", "。": ". ", "\u200b": "", "\ufeff": "", "\u2060": "", "\ufe0f": ""}
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms of ASCII
)

_UNITS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS: Final = (
    "ten",
    "eleven",
    "twelve",
    *(f"{stem}teen" for stem in ("thir", "four", "fif", "six", "seven", "eigh", "nine")),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORD_VALUES: Final = {"zero": 0} | {
    word: start + step * place
    for words, start, step in ((_UNITS, 1, 1), (_TEENS, 10, 1), (_TENS, 20, 10))
    for place, word in enumerate(words)
}
_SMALL: Final = rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_UNITS)}))?|{'|'.join([*_TEENS, *_UNITS, 'zero'])})"
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?P<hundreds>{'|'.join(_UNITS)}|an?) )?hundred(?: (?:and )?(?P<rest>{_SMALL}))?\b"
    rf"|\b(?!one\b(?! to | out of |/))(?P<small>{_SMALL})\b"  # "one" is mostly a pronoun
)
_LONE_ONE = re.compile(r"[\W_]*one[\W_]*")
_WORD = re.compile(r"\w+")
_HALF = re.compile(r"\b([0-9]{1,3})(?: and a half\b|½)")
_SPOKEN_POINT = re.compile(r"\b([0-9]{1,3}) point ([0-9])\b")


def answer_of(response: str) -> str:
    """Keep what the model answers: no thought (nothing at all if one may not have ended), no turn that it invents."""
    response = without_thoughts(response)
    response = next((part for part in _SPECIAL_TOKEN.split(response) if part.strip()), "").strip()
    own = _TURN.match(response)
    response = response[own.end() :] if own else response
    invented = _TURN.search(response)
    return response[: invented.start()] if invented else response


def plain(text: str) -> str:
    """Write a text in lower case, single spaces and ASCII digits, without markup or the numbers of a list."""
    text = text.lower().translate(_PLAIN)
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    if _LONE_ONE.fullmatch(text):
        text = text.replace("one", "1")
    text = _NUMBER_WORDS.sub(_in_digits, text)
    text = _SPOKEN_POINT.sub(r"\1.\2", _HALF.sub(r"\1.5", text))
    expected = 1

    def without_numbering(match: re.Match[str]) -> str:
        nonlocal expected
        if int(match[1]) not in {1, expected}:  # "1. I think" numbers a list, "85. I think" is a rating
            return match.group()
        expected = int(match[1]) + 1
        return ""

    return _NUMBERING.sub(without_numbering, text)


def words_of(text: str) -> list[str]:
    """Split a text into its words and digits, without punctuation, so that texts can be compared."""
    return _WORD.findall(text)


def _in_digits(words: re.Match[str]) -> str:
    small = words["small"] or words["rest"]
    value = sum(_WORD_VALUES[word] for word in re.split("[- ]", small)) if small else 0
    return str(value if words["small"] else value + 100 * _WORD_VALUES.get(words["hundreds"] or "a", 1))
