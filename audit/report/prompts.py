"""Pack prompts and earlier calls for the explorer, each text once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from audit.asking.conversations import ConversationPrompt
from audit.report.explorer_columns import LONGEST_TEXT, IntArray, code_values, compact_json, pack_columns, shorten
from audit.tables.formatting import brief

_SHORTEST_CUT_OUT: Final = 20  # a written text of this length is stored once even if a later call quotes it
SHORTEST_CUT: Final = 100
_BYTES_OF_CALL: Final = 30  # bytes of a call, without its texts
_Frame = tuple[str | int, ...]
_Call = tuple[str, str | None, _Frame, str, str, bool]  # fields of `CallShown` in order; the user message as a frame


class Prompts:
    """System prompts, frames of the question, narratives and earlier calls, each stored once."""

    def __init__(self, asked: Callable[[int], ConversationPrompt] | None) -> None:
        self.asked = asked
        self.longest = LONGEST_TEXT
        self.systems: dict[str, int] = {}
        self.frames: dict[_Frame, int] = {}
        self.texts: dict[str, int] = {}
        self.conversations: dict[tuple[_Call, ...], int] = {}
        self.notes: dict[str, int] = {}
        self._asked: dict[int, ConversationPrompt] = {}
        self._seen: dict[int, tuple[int, int, int, int, int]] = {}
        self._counted: set[str | _Frame | tuple[_Call, ...]] = set()

    def codes(self, prompts: Sequence[int]) -> IntArray:
        """Return shape (n, 5): system, frame, narrative's text, earlier calls and note of each prompt, as positions."""
        return np.array([self._code(prompt) for prompt in prompts], dtype=np.int64).reshape(-1, 5)

    def bytes_of_calls(self, prompts: Sequence[int], *, anew: bool) -> int:
        """Estimate the bytes that these prompts' calls take or, unless ``anew``, add to those counted before."""
        if anew:
            self._counted.clear()
        n_bytes = 0
        for conversation in {_calls(self._prompt(prompt)) for prompt in prompts} - self._counted:
            self._counted.add(conversation)
            n_bytes += _BYTES_OF_CALL * len(conversation)
            for _, _, frame, written, _, _ in conversation:
                for text, shown in (frame, shown_frame(frame, self.longest)), (written, shorten(written, self.longest)):
                    if text not in self._counted:
                        self._counted.add(text)
                        n_bytes += len(compact_json(shown))
        return n_bytes

    def _prompt(self, prompt: int) -> ConversationPrompt:
        assert self.asked is not None
        if prompt not in self._asked:
            self._asked[prompt] = self.asked(prompt)
        return self._asked[prompt]

    def _code(self, prompt: int) -> tuple[int, int, int, int, int]:
        if prompt not in self._seen:
            was = self._prompt(prompt)
            frame = _frame(was.user, was.narrative, [call.written for call in was.calls])
            self._seen[prompt] = (
                self.systems.setdefault(was.system, len(self.systems)),
                self.frames.setdefault(frame, len(self.frames)),
                self.texts.setdefault(was.narrative, len(self.texts)),
                self.conversations.setdefault(_calls(was), len(self.conversations)),
                self.notes.setdefault(was.note, len(self.notes)),
            )
        return self._seen[prompt]


def _calls(was: ConversationPrompt) -> tuple[_Call, ...]:
    """Return the calls before a question, with the narrative and earlier texts cut out of each message."""
    written = [call.written for call in was.calls]
    return tuple(
        (call.name, call.system, _frame(call.user, was.narrative, written[:at]), call.written, call.note, call.example)
        for at, call in enumerate(was.calls)
    )


def _frame(user: str, narrative: str, written: Sequence[str] = ()) -> _Frame:
    """Cut the narrative, and earlier written texts, out of a message.

    The first element is the text before any cut. Then come pairs: the text after a cut, and what was cut. A cut of 0 or
    more is the narrative, without that many UTF-16 units at its start (as a script counts), since a template may
    replace its first words ("The person") by others ("a Muslim"). -1 stands for nothing, if the narrative is not in the
    message; -2 or less for the text that call 0, 1, … wrote.
    """
    starts = [0, *(found.end() - 1 for found, _ in zip(re.finditer(r"\S\s", narrative), range(3), strict=False))]
    pieces = [(0, user), (-1, "")]
    for start in starts if narrative else ():
        before, found, after = user.partition(narrative[start:])
        if found:
            pieces = [(0, before), (len(narrative[:start].encode("utf-16-le", "surrogatepass")) // 2, after)]
            break
    for call, text in enumerate(written):
        if len(text) > _SHORTEST_CUT_OUT:
            split = [(what, piece.split(text)) for what, piece in pieces]
            pieces = [
                each for what, (first, *others) in split for each in [(what, first), *((-2 - call, o) for o in others)]
            ]
    return pieces[0][1], *(each for what, piece in pieces[1:] for each in (piece, what))


def shown_frame(frame: _Frame, longest: int = LONGEST_TEXT) -> object:
    """Return a frame as the script reads it, with long texts shortened."""
    return [shorten(piece, longest) if isinstance(piece, str) else piece for piece in frame]


def packed_calls(conversations: Sequence[Sequence[_Call]], longest: int) -> dict[str, object]:
    """Pack the calls before the questions, conversation by conversation."""
    calls = [call for conversation in conversations for call in conversation]
    names, systems, frames, written, notes, examples = zip(*calls, strict=True)
    return pack_columns(
        [len(conversation) for conversation in conversations],
        name=code_values(names, brief),
        system=code_values(systems, lambda text: None if text is None else shorten(text)),
        frame=code_values(frames, lambda frame: shown_frame(frame, longest)),
        written=code_values(written, lambda text: shorten(text, longest)),
        note=code_values(notes, str),
        example=code_values(examples, int),
    )
