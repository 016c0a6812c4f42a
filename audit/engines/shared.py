"""Token ids of many prompts, where what they share is rendered and tokenised once.

Before anything else a tokenizer splits a text at the special tokens that stand in it, and tokenises what lies between
by itself. So a text that is cut just before a special token has the tokens of both parts, one after another. A prompt
is cut before the token that begins its last message: what comes before is one for each system message, what comes after
one for each user message and what its answer is begun with.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from stimuli.prompts import Prompt

ROOM: Final = 256 * 2**20
"""About how many bytes of tokenised messages are kept; what comes after them is tokenised each time."""
_CHECKED: Final = 2
"""Prompts of each system message whose tokens are held against those of the whole text."""
_ENTRY: Final = 250
"""Bytes that a kept message takes beside its text and tokens, about."""
_USER: Final = "empathy-audit-user-message"
_SYSTEM: Final = "empathy-audit-system-message"


class Renderer(Protocol):
    """What is needed of :class:`audit.engines.chat.ChatTokenizer`."""

    @property
    def has_system_role(self) -> bool:
        """Whether the chat template shows a system message."""
        ...

    def render(self, prompt: Prompt) -> str:
        """Return the whole text that the model is given."""
        ...

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of rendered texts."""
        ...


_Tail: TypeAlias = tuple[bool, str, str]
"""Whether a system message comes before it, a user message, and what its answer is begun with.

A template that looks into the first message looks into the user's where there is no other.
"""


class _Head(NamedTuple):
    """What comes before the last message."""

    text: str
    ids: list[int]


class SharedTokens:
    """Encodes prompts, message by message where they have neither earlier turns nor thoughts.

    That the parts are the whole is proved of the tokens that are cut at (:func:`cut_pattern`); what a chat template
    does is not. So each message is rendered by the template itself, and the first prompts of each system message are
    compared with the tokens of their whole text: where one differs, whole texts are tokenised from then on.

    Parameters
    ----------
    tokenizer
        Renders prompts and tokenises texts.
    cuts
        What :func:`cut_pattern` returns.
    room
        See :data:`ROOM`.
    """

    def __init__(self, tokenizer: Renderer, cuts: re.Pattern[str], *, room: int = ROOM) -> None:
        self._tokenizer = tokenizer
        self._cuts = cuts
        self._room = room
        self._heads: dict[str, _Head | None] = {}
        self._tails: dict[_Tail, array[int]] = {}
        self._unchecked: dict[str, int] = {}
        self._sentinel_tail: str | None = None
        self.differs = False

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return each prompt's token ids."""
        if self.differs:
            return self._whole(prompts)
        found = self._tails
        fresh = self._tails_of(prompts)
        ids: list[list[int]] = [[]] * len(prompts)
        whole = []
        for place, prompt in enumerate(prompts):
            head = None if _is_long(prompt) else self._head(prompt.system)
            key = (bool(prompt.system), prompt.user, prompt.begun)
            tail = found.get(key) or fresh.get(key)
            if head is None or tail is None:
                whole.append(place)
            else:
                ids[place] = [*head.ids, *tail]
        if not self._agree(prompts, ids):
            self.differs = True
            self._heads, self._tails = {}, {}
            return self._whole(prompts)
        for place, own in zip(whole, self._whole([prompts[place] for place in whole]), strict=True):
            ids[place] = own
        return ids

    def _whole(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        return self._tokenizer.encode_all([self._tokenizer.render(prompt) for prompt in prompts])

    def _agree(self, prompts: Sequence[Prompt], ids: Sequence[list[int]]) -> bool:
        """Compare the first prompts of each system message with the tokens of their whole text."""
        checked = []
        for place, prompt in enumerate(prompts):
            if ids[place] and self._unchecked.get(prompt.system):
                self._unchecked[prompt.system] -= 1
                checked.append(place)
        return self._whole([prompts[place] for place in checked]) == [ids[place] for place in checked]

    def _head(self, system: str) -> _Head | None:
        """Return what comes before the user message; None where the two cannot be parted."""
        if system in self._heads or self._room < 0:
            return self._heads.get(system)
        head = self._parted(system)
        if self._keeps(len(system) + len(head.text) + 8 * len(head.ids) if head is not None else len(system)):
            self._heads[system] = head
            self._unchecked[system] = _CHECKED
        return head

    def _parted(self, system: str) -> _Head | None:
        if system and not self._tokenizer.has_system_role:
            return None
        if self._sentinel_tail is None:
            other = self._cut(_SYSTEM if self._tokenizer.has_system_role else "")
            self._sentinel_tail = other[1] if other is not None else ""
        parts = self._cut(system)
        # A template that shows the system message within the user's turn has another tail for each.
        if parts is None or parts[1] != self._sentinel_tail:
            return None
        return _Head(parts[0], self._tokenizer.encode_all([parts[0]])[0])

    def _cut(self, system: str) -> tuple[str, str] | None:
        text = self._tokenizer.render(Prompt(system, _USER))
        at = text.find(_USER)
        starts = [match.start() for match in self._cuts.finditer(text, 0, at)] if at > 0 else []
        return (text[: starts[-1]], text[starts[-1] :]) if starts else None

    def _tails_of(self, prompts: Sequence[Prompt]) -> dict[_Tail, array[int]]:
        """Render and tokenise the user messages that are not known yet; keep them as far as there is room."""
        texts: dict[_Tail, str] = {}
        for prompt in prompts:
            key = (bool(prompt.system), prompt.user, prompt.begun)
            if _is_long(prompt) or key in self._tails or key in texts:
                continue
            head = self._head(prompt.system)
            if head is None:
                continue
            text = self._tokenizer.render(prompt)
            if text.startswith(head.text) and self._cuts.match(text, len(head.text)):
                texts[key] = text[len(head.text) :]
        encoded = self._tokenizer.encode_all(list(texts.values()))
        fresh = {key: array("i", ids) for key, ids in zip(texts, encoded, strict=True)}
        for key, ids in fresh.items():
            if self._keeps(len(key[1]) + 4 * len(ids)):
                self._tails[key] = ids
        return fresh

    def _keeps(self, size: int) -> bool:
        """Say whether there is room for a message of so many bytes, and take it."""
        self._room -= size + _ENTRY
        return self._room >= 0


def _is_long(prompt: Prompt) -> bool:
    """Say whether a prompt shares little with others: it has earlier turns, or a thought."""
    return bool(prompt.turns) or prompt.thinks or prompt.thought is not None


def cut_pattern(hf: Any) -> re.Pattern[str] | None:
    """Return what matches the special tokens before which any text can be cut; None of a tokenizer without any.

    Such a token is looked for in the text as it is, whatever stands to its left, and no part of it can be taken by a
    token that begins before it.
    """
    if not getattr(hf, "is_fast", False) or getattr(hf, "split_special_tokens", False):
        return None
    raw = [token for token in hf.added_tokens_decoder.values() if not token.normalized and token.content]
    contents = [token.content for token in raw]
    found = [
        token.content
        for token in raw
        if token.special
        and not (token.lstrip or token.single_word)
        and not (token.content[0].isspace() or token.content[0].isalnum() or token.content[0] == "_")
        and not any(_reaches_into(other, token.content) for other in contents)
    ]
    return re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True)))) if found else None


def _reaches_into(other: str, content: str) -> bool:
    """Say whether a match of ``other`` may begin before a match of ``content`` and end within or behind it."""
    return any(other[k : k + len(content)] == content[: len(other) - k] for k in range(1, len(other)))
