"""What a server's error means: it declines the prompt, the prompt is too long, or neither.

An error may repeat what was sent, and a narrative may have any words. So a code counts only if it equals a known one,
and words of a message count only if the prompt does not have them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from audit.engines.endings import letters_of

Meaning: TypeAlias = Literal["declined", "too long", ""]

_MESSAGES: Final = ("message", "msg")
_CODES: Final = ("code", "type", "error_type", "status")
_WITHIN: Final = ("error", "errors", "detail", "details", "innererror", "inner_error")
"""Keys of an error's parts; other keys of a response may repeat the input."""
_DEPTH: Final = 5
_READ: Final = 4_000  # characters of a message to read
_LAYERS: Final = 4  # times that an echo may have been escaped
_MEANINGS: Final[Mapping[str, Meaning]] = {
    **dict.fromkeys(
        (
            "contentfilter", "contentfiltered", "contentpolicyviolation", "contentmoderation", "datainspectionfailed",
            "guardrailintervened", "moderationblocked", "responsibleaipolicyviolation",
        ),
        "declined",
    ),
    **dict.fromkeys(
        (
            "contextlengthexceeded", "contextwindowexceeded", "exceedcontextsizeerror", "inputtoolong",
            "maxcontextlengthexceeded", "modelcontextwindowexceeded", "prompttoolong", "requesttoolarge",
            "stringabovemaxlength", "stringtoolong", "toomanytokens",
        ),
        "too long",
    ),
}  # fmt: skip
"""Servers' error codes and types, letters only."""
_WORDS: Final[Mapping[Meaning, re.Pattern[str]]] = {
    "declined": re.compile(
        r"content ?(filter|policy|management policy|moderation)|responsible ?ai|safety (system|policy|filter)"
        r"|(content|inputs?|prompt|request|messages?) (\w+ ){0,3}(violat\w+ (\w+ ){0,3}(guideline|polic)|flagged)"
    ),
    "too long": re.compile(
        r"context ?(length|size|window)|(maximum|max|model'?s?) context|exceed\w* the (available )?context"
        r"|max model len"
        r"|maximum (sequence|input|prompt|total|number of) ?(length|tokens)|too many (input |prompt )?tokens"
        r"|reduce the length|(prompt|inputs?|request|messages?|text|string) ?(is|are|was|were)? ?too long"
        r"|too (long|large) for|fewer than \d+ tokens|less than \d+ tokens|max new tokens. must be"
    ),
}
"""Patterns of messages in normal form."""
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|([nrtfv])|(.))", re.IGNORECASE | re.DOTALL)


def meaning_of(body: object, sent: Mapping[str, Any]) -> Meaning:
    """Return what an error means for the prompt in the payload ``sent``.

    Examples
    --------
    >>> meaning_of({"error": {"code": "content_filter", "message": "No"}}, {})
    'declined'
    >>> asked = {"messages": [{"role": "user", "content": "My content_filter broke."}]}
    >>> meaning_of({"error": {"code": "x", "message": "bad: MY%20CONTENT_FILTER"}}, asked)
    ''
    """
    told = list(_told(body))
    prompt = {letters_of(_normal(text)) for text in _texts([sent.get("messages"), sent.get("prompt")])}
    for is_code, text in told:
        code = letters_of(_normal(text)) if is_code else ""
        if code in _MEANINGS and code not in prompt:
            return _MEANINGS[code]
    for meaning, pattern in _WORDS.items():
        for is_code, text in told:
            words = () if is_code else (found[0] for found in pattern.finditer(_normal(text)))
            if any(not any(letters_of(each) in own for own in prompt) for each in words):
                return meaning
    return ""


def _told(body: object, depth: int = _DEPTH) -> Iterator[tuple[bool, str]]:
    """Yield the codes (True) and messages (False) of an error."""
    if isinstance(body, str):
        yield False, body[:_READ]
    if not isinstance(body, dict | list) or not depth:
        return
    if isinstance(body, list):
        within: Iterable[Any] = body[:_READ]
    else:
        for names, is_code in ((_CODES, True), (_MESSAGES, False)):
            yield from ((is_code, body[name][:_READ]) for name in names if isinstance(body.get(name), str))
        within = map(body.get, _WITHIN)
    for each in within:
        yield from _told(each, depth - 1)


def _texts(told: object) -> Iterator[str]:
    """Yield all texts in nested messages."""
    if isinstance(told, str):
        yield told
    elif isinstance(told, dict | list):
        for each in told.values() if isinstance(told, dict) else told:
            yield from _texts(each)


def _normal(text: str) -> str:
    """Return a text unescaped and in lower case, with one space for each run of white space, ``_``, ``+`` and ``-``."""
    for _ in range(_LAYERS):
        plain = _ESCAPED.sub(_unescaped, html.unescape(unquote(text)))
        if plain == text:
            break
        text = plain
    text = "".join(letter for letter in unicodedata.normalize("NFKC", text) if unicodedata.category(letter) != "Cf")
    return re.sub(r"[\s_+-]+", " ", text.casefold())


def _unescaped(found: re.Match[str]) -> str:
    by_number = found[1] or found[2]
    return chr(int(by_number, 16)) if by_number else " " if found[3] else found[4]
