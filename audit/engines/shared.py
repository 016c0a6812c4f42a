"""Token ids of many prompts, with shared text rendered and tokenised once.

A tokenizer first splits a text at its special tokens, then tokenises each piece by itself. A text that is cut just
before a special token therefore has the tokens of both parts, one after another. A prompt is cut before the token that
begins its last message: the part before is the same for each system message, the part after for each user message and
answer beginning.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from stimuli.prompts import Prompt

ROOM: Final = 256 * 2**20  # approximate bytes of tokenised messages to keep; further ones are tokenised each time
_CHECKED: Final = 2  # prompts of each system message whose tokens are compared with those of the whole text
_ENTRY: Final = 250  # approximate bytes of a kept message besides its text and tokens
_USER: Final = "empathy-audit-user-message"
_SYSTEM: Final = "empathy-audit-system-message"


class Renderer(Protocol):
    """The methods of :class:`audit.engines.chat.ChatTokenizer` that are needed here."""

    @property
    def has_system_role(self) -> bool:
        """Whether the chat template shows a system message."""

    def render(self, prompt: Prompt) -> str:
        """Return the full text given to the model."""

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of rendered texts."""


_Tail: TypeAlias = tuple[bool, str, str]
"""Whether a system message comes before, the user message, and the answer's beginning.

The first is needed because a template that inspects the first message sees the user's if there is no other.
"""


class _Head(NamedTuple):
    """The part of a prompt before the last message."""

    text: str
    ids: list[int]


class SharedTokens:
    """Encodes prompts, message by message if they have neither earlier turns nor thoughts.

    For the tokens that are cut at (:func:`cut_pattern`), the parts provably make the whole; for what a chat template
    does, there is no proof. So the template itself renders each message, and the first prompts of each system message
    are compared with the tokens of their whole text. If one differs, whole texts are tokenised from then on.
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
        """Return the part before the user message; None if the two cannot be separated."""
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
        # If a template puts the system message inside the user's turn, each system message has another tail.
        if parts is None or parts[1] != self._sentinel_tail:
            return None
        return _Head(parts[0], self._tokenizer.encode_all([parts[0]])[0])

    def _cut(self, system: str) -> tuple[str, str] | None:
        text = self._tokenizer.render(Prompt(system, _USER))
        at = text.find(_USER)
        starts = [match.start() for match in self._cuts.finditer(text, 0, at)] if at > 0 else []
        return (text[: starts[-1]], text[starts[-1] :]) if starts else None

    def _tails_of(self, prompts: Sequence[Prompt]) -> dict[_Tail, array[int]]:
        """Render and tokenise user messages that are new; keep them while there is room."""
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
        """Reserve room for a message of this many bytes; return whether there was enough."""
        self._room -= size + _ENTRY
        return self._room >= 0


def _is_long(prompt: Prompt) -> bool:
    """Whether a prompt shares little with others: it has earlier turns or a thought."""
    return bool(prompt.turns) or prompt.thinks or prompt.thought is not None


def cut_pattern(hf: Any) -> re.Pattern[str] | None:
    """Return the pattern of special tokens before which any text can be cut; None if there are none.

    Such a token is matched in the raw text, whatever is to its left, and no token that begins before it can take a part
    of it.
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
    """Whether a match of ``other`` may begin before a match of ``content`` and end within or after it."""
    return any(other[k : k + len(content)] == content[: len(other) - k] for k in range(1, len(other)))
