"""How a text ended, according to its author: by itself, cut at a limit, or declined; each server has names of its own.

What is not stated is unknown: a text without a sign does not count as complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

_How: TypeAlias = Literal["whole", "cut", "declined", ""]

REASONS: Final = (
    "finish_reason", "stop_reason", "done_reason", "completion_reason", "native_finish_reason", "termination_reason",
    "stop_type",
)  # fmt: skip
"""Keys of OpenAI and most, Gemini, Cohere, TGI; Anthropic, Bedrock; Ollama; Titan; OpenRouter; others; llama.cpp."""
_TRUE_IS_CUT: Final = ("truncated", "is_truncated", "was_truncated", "cut", "is_cut", "cut_off", "stopped_limit")
_FALSE_IS_CUT: Final = ("is_finished", "is_complete", "done")
_STATUS: Final = "status"
"""From OpenAI's Responses. Elsewhere it may be a request's status, so it counts only if it says that a text is cut."""
_DETAILS: Final = "incomplete_details"
SIGNS: Final = tuple(
    dict.fromkeys(
        spelt
        for name in (*REASONS, *_TRUE_IS_CUT, *_FALSE_IS_CUT, _STATUS, _DETAILS)
        for spelt in (name, name.replace("_", ""), name.replace("_", " "), name.replace("_", "-"))
    )
)
"""Possible names of a table's columns, in lower case."""
_NOT_OF_THE_TEXT: Final = frozenset({"messages", "prompt", "input", "request", "logprobs", "toolcalls"})
"""Keys that repeat the input, or are large."""
_DEPTH: Final = 8

_HOW: Final[Mapping[str, _How]] = {
    **dict.fromkeys(
        (
            "stop", "stopped", "stopsequence", "stopstring", "stopstringfound", "stopword", "word", "eos", "eosfound",
            "eostoken", "endoftext", "endofturn", "endturn", "end", "finish", "finished", "complete", "completed",
            "toolcall", "toolcalls", "tooluse", "functioncall",
        ),
        "whole",
    ),
    **dict.fromkeys(
        (
            "length", "limit", "maxlength", "maxtokens", "maxnewtokens", "maxoutputtokens", "maxcompletiontokens",
            "maxpredictedtokensreached", "modellength", "modelcontextwindowexceeded", "contextlength",
            "contextlengthreached", "tokenlimit", "errorlimit", "timelimit", "timeout", "abort", "aborted", "canceled",
            "cancelled", "usercancel", "userstopped", "error", "failed", "networkerror", "incomplete", "inprogress",
            "queued", "notfinished", "interrupted", "pauseturn", "insufficientsystemresource", "recitation", "language",
            "other", "repetition", "malformedfunctioncall", "malformedmodeloutput", "malformedtooluse", "truncated",
        ),
        "cut",
    ),
    **dict.fromkeys(
        (
            "contentfilter", "contentfiltered", "contentblocked", "safety", "imagesafety", "refusal", "blocklist",
            "prohibitedcontent", "spii", "guardrailintervened", "errortoxic", "sensitive",
        ),
        "declined",
    ),
    **dict.fromkeys(("", "none", "null", "na", "nan", "unknown", "unspecified"), ""),
}  # fmt: skip
"""Servers' values, letters only; ``cut`` is anything that did not end by itself."""
_NUMBERED: Final = {"0": "unspecified", "1": "stop", "2": "maxtokens", "3": "safety", "4": "recitation", "5": "other"}
"""Gemini's reasons as numbers, as its library may write them."""
_FILTERED: Final = "contentfilter"  # Gemini's interface for OpenAI's clients adds a reason: "content_filter: SAFETY"
_YES: Final = frozenset({"true", "yes", "y", "t", "1"})
_NO: Final = frozenset({"false", "no", "n", "f", "0"})


@dataclass(frozen=True)
class Ending:
    """How a text ended."""

    cut: bool | None = None  # True if it is incomplete, None if nothing says so
    declined: bool = False  # whether the request was declined
    unknown: str = ""  # an unrecognised sign if no other sign is known

    @property
    def at_worst(self) -> bool | None:
        """``cut``, with an unknown sign counted as cut: for callers that must not stop because of it."""
        return True if self.unknown else self.cut


def ending_of(told: Mapping[str, Any]) -> Ending:
    """Return how a text ended, from everything beside it: a line, a completion, or a row of a table.

    Examples
    --------
    >>> ending_of({"done_reason": "length"}).cut, ending_of({"finishReason": "STOP"}).cut, ending_of({"id": 1}).cut
    (True, False, None)
    >>> ending_of({"finish_reason": "tired"}).unknown
    "finish_reason='tired'"
    """
    signs = list(_signs(told))
    found = {how for how, _ in signs if how}
    unknown = next((said for _, said in signs if said), "")
    cut = True if "cut" in found else False if found else None
    return Ending(cut, "declined" in found, "" if found else unknown)


def _signs(told: object, depth: int = _DEPTH) -> Iterator[tuple[_How, str]]:
    """Yield each sign's meaning, or the sign itself if it is unknown."""
    if not depth:
        return
    if isinstance(told, list):
        for each in told:
            yield from _signs(each, depth - 1)
    if not isinstance(told, Mapping):
        return
    names = {letters_of(str(name)) for name in told}
    for name, value in told.items():
        own = letters_of(str(name))
        if own in _READERS:
            how = _READERS[own](own, _unpacked(value), names)
            yield ("", f"{name}={str(value)[:60]!r}") if how is None else (how, "")
        elif own not in _NOT_OF_THE_TEXT:
            yield from _signs(value, depth - 1)


def _of_reason(name: str, value: object, names: set[str]) -> _How | None:
    if isinstance(value, Mapping):  # SGLang and AI21
        value = value.get("reason", value.get("type"))
    if value is None:
        return ""
    said = letters_of(str(value))
    said = _NUMBERED.get(said, said) if name == "finishreason" else said
    for prefix in ("finishreason", "stopreason"):  # Python's form of an enumeration member
        said = said.removeprefix(prefix)
    if said.startswith(_FILTERED):
        return "cut" if _HOW.get(said.removeprefix(_FILTERED)) == "cut" else "declined"
    return _HOW.get(said)


def _of_flag(name: str, value: object, names: set[str]) -> _How | None:
    said = "" if value is None else str(value).strip().casefold()
    if _HOW.get(said) == "":
        return ""
    if said not in _YES | _NO:
        return None
    if (said in _NO) == (name in _WHOLE_IF_TRUE):
        return "cut"
    return "" if name == "done" else "whole"  # "done" is also true of a text that was cut


def _of_status(name: str, value: object, names: set[str]) -> _How | None:
    how = _HOW.get(letters_of(str(value)), "") if isinstance(value, str) else ""
    return "" if how == "whole" and letters_of(_DETAILS) not in names else how


def _of_details(name: str, value: object, names: set[str]) -> _How | None:
    how = _of_reason(name, value, names)
    return how if how in ("", "declined") else "cut"


_WHOLE_IF_TRUE: Final = frozenset(name.replace("_", "") for name in _FALSE_IS_CUT)
_READERS: Final = {
    name.replace("_", ""): read
    for names, read in (
        (REASONS, _of_reason),
        ((*_TRUE_IS_CUT, *_FALSE_IS_CUT), _of_flag),
        ((_STATUS,), _of_status),
        ((_DETAILS,), _of_details),
    )
    for name in names
}


def _unpacked(value: object) -> object:
    """Parse a table's cell if it is JSON."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def letters_of(text: str) -> str:
    """Return only letters and digits, in lower case: ``finishReason`` and ``finish_reason`` are one name."""
    return "".join(filter(str.isalnum, text.casefold()))
