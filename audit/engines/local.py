"""Shared by engines with access to a tokenizer: they render and tokenise conversations, and ask by token ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import Done, Engine, Generated, OpenModel, TokenIds, encode_prompts, unwatched
from audit.engines.chat import ChatTokenizer
from audit.engines.formats import choose_format
from audit.engines.resolve import ModelFiles, file_hashes, resolve_model
from audit.engines.size import model_size
from stimuli.hashes import fingerprint
from stimuli.prompts import Prompt


class TokenEngine(ABC):
    """An engine with its model's tokenizer; see :class:`audit.engines.base.Engine`."""

    tokenizer: ChatTokenizer
    max_model_len: int  # most tokens of prompt and response together
    notes: tuple[str, ...] = ()  # what to say of how the model was loaded

    @abstractmethod
    def generate(
        self,
        prompts: Sequence[TokenIds],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        until: str = "",
        done: Done = unwatched,
    ) -> list[Generated]:
        """Return what the model writes after token ids; otherwise as :meth:`audit.engines.base.Engine.write`.

        With ``until``, a text is what comes before that string; a text without it counts as cut, however it ended.
        """

    def fits(self, prompts: Sequence[Prompt], *, room: int) -> list[bool]:
        """See :class:`audit.engines.base.Engine`."""
        return [ids is not None for ids in encode_prompts(self, prompts, room=room)]

    def write(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        done: Done = unwatched,
    ) -> list[Generated]:
        """See :class:`audit.engines.base.Engine`."""
        fitting = {
            place: ids for place, ids in enumerate(encode_prompts(self, prompts, room=max_tokens)) if ids is not None
        }
        thinks = any(prompt.thinks for prompt in prompts)
        generated = self.generate(
            list(fitting.values()),
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seeds=None if seeds is None else [seeds[place] for place in fitting],
            done=done,
            **({"until": self.tokenizer.thinking.closes} if thinks else {}),
        )
        texts = [Generated(None, 0, False)] * len(prompts)
        for (place, ids), text in zip(fitting.items(), generated, strict=True):
            texts[place] = replace(self._thought(text) if thinks else self._ended(text), n_prompt_tokens=len(ids))
        return texts

    def _thought(self, written: Generated) -> Generated:
        """Return a thought up to the first special token; it then counts as cut."""
        if written.text is None:
            return written
        own = self.tokenizer.up_to_special(written.text)
        return written if own == written.text else replace(written, text=own, cut=True)

    def _ended(self, written: Generated) -> Generated:
        """Return a text up to its end, if the user's chat template defines one."""
        template = self.tokenizer.template
        if template is None or written.text is None:
            return written
        own = template.cut(written.text)
        return written if own == written.text else replace(written, text=own, cut=False)


class LoadedEngine(Engine, Protocol):
    """An engine with a loaded local model and its tokenizer."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say of how the model was loaded."""

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The model's tokenizer and chat template."""


@dataclass(frozen=True)
class LocalModel:
    """A model on this machine's disk; a :class:`audit.engines.base.ModelSource`."""

    files: ModelFiles
    hashes: dict[str, str]  # SHA-256 of its files by name, including tokenizer and chat template
    chat: dict[str, Any] = field(default_factory=dict)
    chat_identity: dict[str, Any] = field(default_factory=dict)

    @property
    def revision(self) -> str | None:
        """See :class:`audit.engines.base.ModelSource`."""
        return self.files.revision

    def facts(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        made_of = {"weights": self.files.made_of} if self.files.made_of else {}
        chat = {"chat": self.chat} if self.chat else {}
        return {"files": self.hashes, **made_of, **model_size(self.files.folder), **chat}

    def states(self) -> None:
        """None: files have no changing state. See :class:`audit.engines.base.ModelSource`."""

    def identity(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        return {"model_files": fingerprint(self.hashes), **({"chat": self.chat_identity} if self.chat_identity else {})}


def open_local(
    make: Callable[[ModelConfig, EngineConfig, ModelFiles, int], LoadedEngine],
    model: ModelConfig,
    config: EngineConfig,
    *,
    device: str,
    seed: int,
    why: str,
) -> OpenModel:
    """Find a model's files, choose its number format, and load it."""
    files = resolve_model(model)
    form = choose_format(model.dtype, device=device, folder=files.folder)
    engine = make(model.model_copy(update={"dtype": form.dtype}), config, files, seed)
    chat = engine.tokenizer
    form_said = f"{engine.facts.dtype}: {form.why}"
    said = "; ".join(filter(None, (why, form_said, *engine.notes, files.made_of, chat.say_chat())))
    source = LocalModel(files, file_hashes(files.folder), chat.chat, chat.chat_identity)
    return OpenModel(engine, source, said)
