"""From a prompt's messages to token ids, by the model's own chat template.

Models without a system role get the system text at the head of the first user message. Models that think before they
answer are told not to; where the template opens a thinking block all the same, it is closed at once. An answer that is
begun for the model stands after all that, as text of its own turn, which is not ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from audit.engines.shared import SharedTokens, cut_pattern
from audit.errors import ModelError
from stimuli.prompts import Prompt

_SENTINEL: Final = "empathy-audit-system-role"
_TURNS: Final = (("user", "empathy-audit-turn-1"), ("assistant", "empathy-audit-turn-2"))
_NUMBERS: Final = tuple(map(str, range(101)))
"""By which it is tried whether a tokenizer joins a number to the space before it."""


class ChatTokenizer:
    """A Hugging Face tokenizer that knows how to put our prompts.

    Parameters
    ----------
    tokenizer
        A ``PreTrainedTokenizerBase``.
    name
        The model's name, for messages.
    add_special_tokens
        Whether prompts get the special tokens that the tokenizer adds to any text, though the chat template has put
        its own: as vLLM does to a prompt that is handed to it as a string. A template that writes the token that begins
        a text then has it twice.

    Raises
    ------
    ModelError
        If the tokenizer has no chat template: an audit needs a model that follows instructions.
    """

    def __init__(self, tokenizer: Any, *, name: str, add_special_tokens: bool = False) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(f"model {name}: its tokenizer has no chat template; choose an instruction-tuned model")
        self.hf: Any = tokenizer
        self.name = name
        self.add_special_tokens = add_special_tokens
        self._begun: dict[str, str] = {"": ""}

    @classmethod
    def load(cls, where: str, *, name: str, trust_remote_code: bool, add_special_tokens: bool = False) -> ChatTokenizer:
        """Read the tokenizer in a local folder or of a hub id.

        Raises
        ------
        ModelError
            If there is none that can be read, or it has no chat template.
        """
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=trust_remote_code)
        except Exception as error:
            reason = str(error).strip().split("\n")[0]
            raise ModelError(f"model {name}: no tokenizer could be read from {where} ({reason})") from error
        return cls(tokenizer, name=name, add_special_tokens=add_special_tokens)

    @cached_property
    def has_system_role(self) -> bool:
        """Whether the chat template shows a system message."""
        try:
            return _SENTINEL in self._render([("system", _SENTINEL), ("user", "x")])
        except ModelError:
            return False

    @cached_property
    def shows_turns(self) -> bool:
        """Whether the chat template shows what was said before the last message, in order."""
        text = self._render([*_TURNS, ("user", "x")])
        places = [text.find(content) for _, content in _TURNS]
        return -1 not in places and places == sorted(places)

    def _render(self, messages: list[tuple[str, str]]) -> str:
        try:
            text: str = self.hf.apply_chat_template(
                [{"role": role, "content": content} for role, content in messages],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
                thinking=False,
            )
        except Exception as error:
            # A template refuses by raising whatever its author chose.
            raise ModelError(
                f"model {self.name}: its chat template refuses the messages {', '.join(role for role, _ in messages)} "
                f"({' '.join(str(error).split())}); ask without earlier turns, or choose another model"
            ) from error
        return text + "\n</think>\n\n" if text.rstrip().endswith("<think>") else text

    def render(self, prompt: Prompt) -> str:
        """Return the whole text that the model is given, up to where its answer begins, or goes on.

        Raises
        ------
        ModelError
            If the chat template refuses the messages, or leaves out earlier turns.
        """
        messages = [*prompt.turns, ("user", prompt.user)]
        if prompt.turns and not self.shows_turns:
            raise ModelError(
                f"model {self.name}: its chat template leaves out earlier turns; ask without them, or choose another "
                "model"
            )
        if prompt.system and self.has_system_role:
            messages.insert(0, ("system", prompt.system))
        elif prompt.system:
            first = next(place for place, (role, _) in enumerate(messages) if role == "user")
            messages[first] = ("user", f"{prompt.system}\n\n{messages[first][1]}")
        return self._render(messages) + self.begun_as(prompt.begun)

    def begun_as(self, begun: str) -> str:
        """Return what of an answer's beginning is given to the model; the rest is its own to write.

        A space at the end stays where the tokenizer keeps it apart from a number that follows, as those of Llama 3,
        Mistral, Qwen2 and SmolLM2 do. Where it joins the two to one token (GPT-2), no text that goes on with a number
        has a space of its own there: the model would be asked after tokens that its tokenizer never makes. So that
        space is the model's to write, as the beginning of its number.
        """
        if begun not in self._begun:
            before = self._render([("user", "x")]) + begun
            joins = begun.endswith(" ") and any(self.continuation(before, number) is None for number in _NUMBERS)
            self._begun[begun] = begun.rstrip(" ") if joins else begun
        return self._begun[begun]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a rendered text; the template has already put the special tokens."""
        return list(self.hf(text, add_special_tokens=False)["input_ids"])

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of rendered texts, as :meth:`encode` of each, and faster."""
        if not texts or not getattr(self.hf, "is_fast", False):
            return [self.encode(text) for text in texts]
        ids: list[list[int]] = self.hf(list(texts), add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return ids

    def encode_prompts(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the token ids of prompts; what they share is rendered and tokenised once.

        Where ``add_special_tokens``, they begin and end with those that the tokenizer adds, too.

        Raises
        ------
        ModelError
            As :meth:`render`, or if it cannot be told which tokens the tokenizer adds.
        """
        if self._shared is None:
            encoded = self.encode_all([self.render(prompt) for prompt in prompts])
        else:
            encoded = self._shared.encode(prompts)
        before, after = self.added
        return [[*before, *ids, *after] for ids in encoded] if before or after else encoded

    @cached_property
    def added(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The token ids that prompts get before and after those of their rendered text; none unless they are asked for.

        Raises
        ------
        ModelError
            If the tokenizer does more to a text than to put tokens around its own.
        """
        if not self.add_special_tokens:
            return (), ()
        # A text without special tokens stands at one place in what is made of it.
        own, whole = self.encode(_SENTINEL), self._encode_with_added(_SENTINEL)
        at = next((at for at in range(len(whole)) if whole[at : at + len(own)] == own), len(whole))
        before, after = tuple(whole[:at]), tuple(whole[at + len(own) :])
        shown = self._render([("user", "x")])
        for text in (_SENTINEL, shown):
            if self._encode_with_added(text) != [*before, *self.encode(text), *after]:
                raise ModelError(
                    f"model {self.name}: its tokenizer does more to a text than to put tokens before and after it, so "
                    "what it adds cannot be told apart; use engine.add_special_tokens=false"
                )
        return before, after

    def _encode_with_added(self, text: str) -> list[int]:
        return list(self.hf(text, add_special_tokens=True)["input_ids"])

    def say_added(self) -> str:
        """Say in a line what ``add_special_tokens`` does to this model's prompts; empty unless it is asked for."""
        if not self.add_special_tokens:
            return ""
        before, after = self.added
        if not before and not after:
            return (
                "engine.add_special_tokens: this model's tokenizer adds no tokens to a text, so prompts are the same "
                "as without it"
            )
        parts = [
            f"{' '.join(self._named(ids))} {side} the rendered prompt"
            for ids, side in ((before, "before"), (after, "after"))
            if ids
        ]
        said = f"engine.add_special_tokens: the tokenizer adds {' and '.join(parts)}"
        first = tuple(self.encode(self._render([("user", "x")])))
        if before and first[: len(before)] == before:
            return f"{said}; the chat template writes {' '.join(self._named(before))} too, so the model reads it twice"
        return said

    def as_fed(self, prompt: Prompt) -> str:
        """Return a prompt as the model reads it, special tokens written out and those that are added among them."""
        return str(
            self.hf.decode(
                self.encode_prompts([prompt])[0], skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def _named(self, ids: Sequence[int]) -> list[str]:
        return [str(token) for token in self.hf.convert_ids_to_tokens(list(ids))]

    @cached_property
    def _shared(self) -> SharedTokens | None:
        cuts = cut_pattern(self.hf)
        return None if cuts is None else SharedTokens(self, cuts)

    def decode(self, token_ids: list[int]) -> str:
        """Return the text of generated tokens, without special tokens."""
        return str(self.hf.decode(token_ids, skip_special_tokens=True))

    def continuation(self, text: str, continuation: str) -> tuple[int, ...] | None:
        """Return the tokens that follow ``text`` when ``continuation`` does; None where the two merge into a token."""
        before, both = self.encode(text), self.encode(text + continuation)
        return tuple(both[len(before) :]) if both[: len(before)] == before else None
