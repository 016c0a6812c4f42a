"""From a prompt's messages to token ids, by the model's own chat template.

If a template has no system role, the system text goes at the head of the first user message. Models that think before
they answer are told not to, unless a thought is asked for. If the template opens a thought anyway, or has no switch,
the thought is closed at once: see :mod:`audit.engines.dialects`. A begun answer comes after all that, as the text of an
assistant turn that is not ended.

The tokens that the tokenizer puts before any text (a BOS) come once before a prompt, whether the template writes them,
omits them or writes them twice. A template that prints the date is given a fixed one. One that shows no plain text gets
a list of parts. The first prompts are checked to show every message once and in order.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from audit.configuration.engine import EngineConfig
from audit.configuration.model import DATE, ModelConfig, ThinksIn
from audit.engines.dialects import (
    THINK,
    Dialect,
    dialect_of,
    has_unknown_marks,
    in_template,
    no_dialect,
    opens_unknown,
    without_thoughts,
)
from audit.engines.resolve import first_line
from audit.engines.shared import SharedTokens, cut_pattern
from audit.engines.shown import not_shown_once, quoted_start
from audit.engines.templates import PLAIN, ChatTemplate, another_day, clock, pinned, read_template
from audit.errors import ModelError
from stimuli.errors import in_one_line
from stimuli.prompts import Prompt

_SENTINEL: Final = "empathy-audit-system-role"
_TURNS: Final = (("user", "empathy-audit-turn-1"), ("assistant", "empathy-audit-turn-2"))
_PROBES: Final = ((("user", "x"),), (("system", "x"), ("user", "x")))  # reveal what a template writes around a prompt
_CHECKED: Final = 2  # prompts to check for each system message and number of turns
_SPACED: Final = "Number: "  # a beginning of an answer, to show whether the tokenizer keeps its space
_SHOWN_END: Final = 60  # characters of a prompt's end to show
_FIRST: Final = 4  # tokens among which the template's BOS may come, for example after white space
_NUMBERS: Final = tuple(map(str, range(101)))  # tests whether a tokenizer joins a number to the space before it


class ChatTokenizer:
    """A Hugging Face tokenizer that renders and encodes our prompts.

    With ``add_special_tokens`` the tokenizer's special tokens are added although the chat template has written its own,
    as vLLM does with a prompt given as a string: a template that writes a BOS then has it twice. ``date`` is
    YYYY-MM-DD, for templates that print today's.
    """

    _mend: ClassVar[str] = "give a template, model.chat_template=FILE,"

    def __init__(
        self,
        tokenizer: Any,
        *,
        name: str,
        add_special_tokens: bool = False,
        template: ChatTemplate | None = None,
        date: str = DATE,
        thinks_in: ThinksIn = "auto",
    ) -> None:
        if template is None and not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"model {name}: its tokenizer has no chat template; choose an instruction-tuned model, or set how "
                f"a base model is asked: model.chat_template={PLAIN}, or a Jinja file"
            )
        self.hf: Any = tokenizer
        self.name = name
        self.add_special_tokens = add_special_tokens
        self.template = template
        self.date = date
        self.thinks_in = thinks_in
        self._begun: dict[str, str] = {"": ""}
        self._checked: Counter[tuple[object, ...]] = Counter()
        if template is not None:
            self._content_is_parts  # noqa: B018 (raises where it does not show what is said)

    @classmethod
    def load(
        cls,
        where: str,
        *,
        name: str,
        trust_remote_code: bool,
        add_special_tokens: bool = False,
        template: ChatTemplate | None = None,
        date: str = DATE,
        thinks_in: ThinksIn = "auto",
    ) -> ChatTokenizer:
        """Load the tokenizer from a local folder or a hub id."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=trust_remote_code)
        except Exception as error:
            raise ModelError(
                f"model {name}: no tokenizer could be read from {where} ({first_line(error)}); download or copy "
                "the model again, including its tokenizer files"
            ) from error
        return cls(
            tokenizer,
            name=name,
            add_special_tokens=add_special_tokens,
            template=template,
            date=date,
            thinks_in=thinks_in,
        )

    @classmethod
    def of(cls, model: ModelConfig, engine: EngineConfig, folder: Path) -> ChatTokenizer:
        """Load the tokenizer of a model in a folder, by its card and the engine's settings."""
        return cls.load(
            model.tokenizer or str(folder),
            name=model.name,
            trust_remote_code=model.trust_remote_code,
            add_special_tokens=engine.add_special_tokens,
            template=read_template(model.chat_template),
            date=model.date,
            thinks_in=model.thinks_in,
        )

    @cached_property
    def has_system_role(self) -> bool:
        """Whether the chat template shows a system message."""
        try:
            return _SENTINEL in self._render([("system", _SENTINEL), ("user", "x")])
        except ModelError:
            return False

    @cached_property
    def own_system(self) -> str:
        """The system message that the chat template writes if a prompt has none; empty if it writes none."""
        if not self.has_system_role:
            return ""
        user = _TURNS[0]
        try:
            bare, whole = (self._render([*own, user]).partition(user[1])[0] for own in ([], [("system", _SENTINEL)]))
        except ModelError:
            return ""
        before, _, after = whole.partition(_SENTINEL)
        is_alike = bare.startswith(before) and bare.removeprefix(before).endswith(after)
        return bare.removeprefix(before).removesuffix(after).strip() if is_alike else ""

    @cached_property
    def shows_turns(self) -> bool:
        """Whether the chat template shows earlier turns, in order."""
        text = self._render([*_TURNS, ("user", "x")])
        places = [text.find(content) for _, content in _TURNS]
        return -1 not in places and places == sorted(places)

    @cached_property
    def dialect(self) -> Dialect | None:
        """How the model marks its thoughts; None if nothing shows that it has any."""
        return dialect_of(self.thinks_in, self._template_text, self._is_token)

    @property
    def _template_text(self) -> str:
        """The chat template; all of them, joined, if the tokenizer has several."""
        own = getattr(self.hf, "chat_template", None) if self.template is None else self.template.text
        return own if isinstance(own, str) else "\n".join(map(str, own.values())) if isinstance(own, Mapping) else ""

    def _is_token(self, mark: str) -> bool:
        """Whether a mark is a token of its own."""
        return any(token.content == mark for token in getattr(self.hf, "added_tokens_decoder", {}).values())

    @property
    def thinking(self) -> Dialect:
        """How the model marks its thoughts; raises ModelError if nothing shows that it has any."""
        if self.dialect is None:
            raise no_dialect(self.name)
        return self.dialect

    @cached_property
    def closes_thoughts(self) -> str:
        """Marks that close thoughts at once because the template cannot be told to omit them; empty if none.

        A ``<think>`` that the template opens is not named unless the card names it: earlier versions closed it too, so
        naming it would change the identity of their runs.
        """
        own = self._made(self._probe, pinned(self.date))
        if self.dialect is None or (self.dialect is THINK and self.thinks_in == "auto" and THINK.is_open(own)):
            return ""
        return self.dialect.name if self._render(self._probe) != own else ""

    @cached_property
    def _closes(self) -> bool:
        """Whether to close a thought that the template does not open, since the model thinks whatever it is told."""
        if self.dialect is None:
            return False
        named = self.thinks_in != "auto" or in_template(self._template_text) is self.dialect
        date = pinned(self.date)
        return (named or self.dialect.habitual) and (
            self._made(self._probe, date) == self._made(self._probe, date, thinks=True)
        )

    def _render(
        self, messages: Sequence[tuple[str, str]], told: Mapping[str, Any] | None = None, *, thinks: bool = False
    ) -> str:
        """Render messages up to where the answer begins, or the thought."""
        shown = pinned(self.date) if told is None else told
        if thinks:
            return self.thinking.opened(self._made(messages, shown, thinks=True))
        text = self._made(messages, shown)
        dialect = self.dialect or THINK
        return dialect.at_once(text) if dialect.is_open(text) or dialect.is_closed(text) or self._closes else text

    def _made(self, messages: Sequence[tuple[str, str]], shown: Mapping[str, Any], *, thinks: bool = False) -> str:
        """Return what the template alone makes of messages, told to think or not to."""
        return self._applied(_content(messages, parts=self._content_is_parts), shown, thinks=thinks)

    @property
    def _content_is_parts(self) -> bool:
        """Whether the template shows a message's content only as a list of parts."""
        return self._form[1]

    @property
    def _probe(self) -> tuple[tuple[str, str], ...]:
        """Messages that the template accepts: a question, after a system message if one is required."""
        return self._form[0]

    @cached_property
    def _form(self) -> tuple[tuple[tuple[str, str], ...], bool]:
        """Messages that the template accepts and shows, and whether their content is a list of parts."""
        faults = []
        question = ("user", _SENTINEL)
        probes = ((question,), (("system", "x"), question))
        for parts in (False, True):
            for probe in probes:
                try:
                    made = self._applied(_content(probe, parts=parts), pinned(self.date))
                except ModelError as error:
                    faults.append(error)
                    continue
                # A template that prints the list as code shows it too, but not as text.
                if _SENTINEL in made and "'type'" not in made and '"type"' not in made:
                    return probe, parts
        if len(faults) < 4:
            faults = [self._not_shown("leaves out the user's message, both as text and as a list of parts")]
        raise faults[0]

    def _not_shown(self, what: str) -> ModelError:
        """Return the error for a template that does not show every message."""
        asked = f"model {self.name}: its chat template" if self.template is None else f"{self.template.asked}:"
        return ModelError(
            f"{asked} {what}, so the model would not be asked the question as written; {self._mend} that writes "
            "each message's content once and in order"
        )

    def _applied(self, said: Sequence[Mapping[str, Any]], shown: Mapping[str, Any], *, thinks: bool = False) -> str:
        told: dict[str, Any] = {"enable_thinking": thinks, "thinking": thinks, **shown}
        if self.dialect is not None and self.dialect.told is not None:
            name, off, on = self.dialect.told
            told[name] = on if thinks else off
        try:
            if self.template is not None or self._is_rendered_here:
                from audit.engines.rendering import rendered

                text = self.hf.get_chat_template() if self.template is None else self.template.text
                return rendered(text, said, {**self.hf.special_tokens_map, **told})
            # Foreign renderers may not accept functions.
            told = {name: value for name, value in told.items() if not callable(value)}
            made: str = self.hf.apply_chat_template(list(said), tokenize=False, add_generation_prompt=True, **told)
        except Exception as error:
            if self.template is not None:
                raise ModelError(self.template.fault(error)) from error
            # Templates refuse by raising whatever exception their author chose.
            raise ModelError(
                f"model {self.name}: its chat template refuses the messages {', '.join(each['role'] for each in said)} "
                f"({in_one_line(error)}); ask without earlier turns, or choose another model"
            ) from error
        return made

    @cached_property
    def _is_rendered_here(self) -> bool:
        """Whether we can render the template; not for servers, nor for models with rendering code of their own."""
        library = sys.modules.get("transformers")  # loaded with its first tokenizer; servers are asked without it
        own = getattr(type(self.hf), "apply_chat_template", None)
        return library is not None and own is library.PreTrainedTokenizerBase.apply_chat_template

    def render(self, prompt: Prompt) -> str:
        """Return the full text given to the model, up to where its thought or answer begins or continues."""
        messages = [*prompt.turns, ("user", prompt.user)]
        if prompt.turns and not self.shows_turns:
            raise ModelError(
                f"model {self.name}: its chat template drops earlier turns; ask without them, or choose another model"
            )
        if prompt.system and self.has_system_role:
            messages.insert(0, ("system", prompt.system))
        elif prompt.system:
            first = next(place for place, (role, _) in enumerate(messages) if role == "user")
            messages[first] = ("user", f"{prompt.system}\n\n{messages[first][1]}")
        if prompt.thinks:
            return self._render(messages, thinks=True)
        if prompt.thought is not None:
            text = self.thinking.after(self._render(messages, thinks=True), prompt.thought)
        else:
            text = self._render(messages)
        return text + self.begun_as(prompt.begun)

    def check_shown(self, prompts: Sequence[Prompt]) -> None:
        """Check that each perceiver's first prompts show every message once, in order, without an unknown thought."""
        if prompts and (mark := self._opens_unknown):
            raise ModelError(
                f"model {self.name}: its chat template opens a thought with {mark!r}, which is not a known mark, "
                "so a number in a thought would be read as a rating; give the marks before and after a thought: "
                f"thinking.marks=['{mark}',CLOSES]"
            )
        for prompt in prompts:
            shape = (prompt.system, len(prompt.turns), prompt.thinks, prompt.thought is None)
            if self._checked[shape] < _CHECKED:
                self._checked[shape] += 1
                self._check_shown(prompt)

    @cached_property
    def _opens_unknown(self) -> str:
        """The unknown mark with which the template opens a thought; empty if none."""
        return opens_unknown(self._render(self._probe).rpartition(_SENTINEL)[2])

    def _check_shown(self, prompt: Prompt) -> None:
        # A thought may repeat messages, so it is left out of the check.
        prompt = replace(prompt, begun="", thought=None if prompt.thought is None else "")
        if fault := not_shown_once(prompt, self.render):
            raise self._not_shown(fault)

    def begun_as(self, begun: str) -> str:
        """Return the part of an answer's beginning that is given to the model; the model writes the rest.

        A final space stays if the tokenizer keeps it apart from a following number, as those of Llama 3, Mistral, Qwen2
        and SmolLM2 do. If it joins the two into one token (GPT-2), a number is never preceded by a separate space, and
        the model would be asked after tokens that its tokenizer never makes. The model then writes the space with its
        number.
        """
        if begun not in self._begun:
            before = self._render([("user", "x")]) + begun
            joins = begun.endswith(" ") and any(self.continuation(before, number) is None for number in _NUMBERS)
            self._begun[begun] = begun.rstrip(" ") if joins else begun
        return self._begun[begun]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a rendered text; the template has already written the special tokens."""
        return list(self.hf(text, add_special_tokens=False)["input_ids"])

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return :meth:`encode` of each text, faster."""
        if not texts or not getattr(self.hf, "is_fast", False):
            return [self.encode(text) for text in texts]
        ids: list[list[int]] = self.hf(list(texts), add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return ids

    def encode_prompts(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the token ids of prompts; shared text is rendered and tokenised once."""
        self.check_shown(prompts)
        if self._shared is None:
            encoded = self.encode_all([self.render(prompt) for prompt in prompts])
        else:
            encoded = self._shared.encode(prompts)
        if not self.add_special_tokens:
            return [self.begins_once(ids) for ids in encoded] if self._opening else encoded
        before, after = self.added
        return [[*before, *ids, *after] for ids in encoded] if before or after else encoded

    def begins_once(self, ids: list[int]) -> list[int]:
        """Return a prompt's tokens with the tokenizer's opening tokens (a BOS) exactly once."""
        opening = list(self._opening)
        # A user's words may look like the token, so remove it only if the template itself doubles it.
        while self._is_doubled and ids[: 2 * len(opening)] == opening * 2:
            ids = ids[len(opening) :]
        own = list(self._puts_before)
        if own and not self._opens_late and all(ids[at : at + len(own)] != own for at in range(_FIRST)):
            return [*own, *ids]
        return ids

    @cached_property
    def _opening(self) -> tuple[int, ...]:
        """Token ids that begin a text: those that the tokenizer adds before any, or its BOS; empty without one."""
        bos = getattr(self.hf, "bos_token_id", None)
        return self._puts_before or (() if bos is None else (int(bos),))

    @cached_property
    def _is_doubled(self) -> bool:
        made = [self.encode(text) for text in self._probed(pinned(self.date)) if text]
        return bool(self._opening) and any(ids[: 2 * len(self._opening)] == [*self._opening] * 2 for ids in made)

    @cached_property
    def _puts_before(self) -> tuple[int, ...]:
        own, whole = self.encode(_SENTINEL), self._encode_with_added(_SENTINEL)
        at = next((at for at in range(len(whole)) if whole[at : at + len(own)] == own), 0)
        return tuple(whole[:at])

    @cached_property
    def chat(self) -> dict[str, Any]:
        """What shapes prompts besides the model's own files, for the manifest; empty if nothing does."""
        return self._told(self.date if self._told_date else None)

    @cached_property
    def chat_identity(self) -> dict[str, Any]:
        """The entries of :attr:`chat` that make prompts differ from those of earlier versions; empty if none.

        ``begins`` is what was done about opening tokens, ``closes`` the marks of thoughts that are closed at once. The
        date that templates of Llama 3.1 write by themselves is left out: earlier versions had it too.
        """
        untold = self._probed({"strftime_now": clock(another_day(self.date))})
        return self._told(self.date if self._probed(pinned(self.date)) != untold else None)

    def _told(self, date: str | None) -> dict[str, Any]:
        template = None if self.template is None else self.template.sha256
        told = {"template": template, "date": date, "begins": self._said_of_beginning or None}
        if self.closes_thoughts:
            told["closes"] = self.closes_thoughts
        if self._content_is_parts:
            told["content"] = "parts"
        return told if any(told.values()) else {}

    def _probed(self, told: Mapping[str, Any]) -> list[str | None]:
        """Return the rendered probes with these date variables; None for a probe that the template refuses."""
        made: list[str | None] = []
        for probe in _PROBES:
            try:
                made.append(self._render(probe, told))
            except ModelError:
                made.append(None)
        return made

    @cached_property
    def _said_of_beginning(self) -> str:
        """What is done about the opening tokens, in words; empty if nothing is."""
        if self.add_special_tokens or not self._opening:
            return ""
        for text in filter(None, self._probed(pinned(self.date))):
            ids = self.encode(text)
            once = self.begins_once(ids)
            named = " ".join(self._named(self._opening))
            if len(once) > len(ids):
                return f"{named} added before each prompt, because the chat template leaves it out"
            if len(once) < len(ids):
                return f"{named} used once, although the chat template writes it more than once"
        return ""

    @cached_property
    def _before_opening(self) -> str:
        """What the template writes before the opening token; empty if that comes first, or nowhere."""
        own = [] if self.add_special_tokens else list(self._opening)
        is_end = own == [getattr(self.hf, "eos_token_id", None)]  # then it may also end a message
        for text in filter(None, self._probed(pinned(self.date)) if own else ()):
            ids = self.encode(text)
            at = next((at for at in range(_FIRST if is_end else len(ids)) if ids[at : at + len(own)] == own), 0)
            if at:
                return self.decode(ids[:at], marks=True)
        return ""

    @cached_property
    def _opens_late(self) -> bool:
        """Whether the template writes the opening token so late that it must not be added before."""
        return len(self.encode(self._before_opening)) >= _FIRST

    def say_chat(self) -> str:
        """Describe what shapes prompts besides the model's own files; empty if nothing does."""
        said = []
        if self.template is not None:
            over = " instead of the model's own" if getattr(self.hf, "chat_template", None) else ""
            said.append(f"{self.template.asked}{over}")
        if self.chat.get("date"):
            said.append(f"the chat template prints a date: model.date={self.date}")
        if self._said_of_beginning:
            said.append(self._said_of_beginning)
        if self._before_opening:
            what = "white space" if self._before_opening.isspace() else repr(self._before_opening)
            named = " ".join(self._named(self._opening))
            said.append(f"the chat template writes {what} before {named}, which must begin a text")
        if self._content_is_parts:
            said.append("messages are passed to the chat template as lists of parts, the only form it shows")
        if self.closes_thoughts:
            said.append(
                f"thoughts are closed at once with the marks of {self.closes_thoughts}, unless they are asked for"
            )
        return "; ".join(said)

    def describe(self) -> list[str]:
        """Return what was found of the chat template and the tokenizer's opening tokens, in ten lines; for doctor."""
        dates = pinned(self.date)
        made, shown = self._made(self._probe, dates), self._render(self._probe)
        opening = " ".join(self._named(self._opening)) or "none"
        if opening != "none":
            opening += f" {self._said_of_beginning or 'once'}"
        thoughts = "no known marks"
        if (dialect := self.dialect) is not None:
            switched = made != self._made(self._probe, dates, thinks=True)
            off = "closed at once" if shown != made else "off when told" if switched else "not opened"
            thoughts = f"marks of {dialect.name} ({dialect.opens!r}, {dialect.closes!r}); {off}"
        own = "the model's own" if self.template is None else self.template.asked
        system = "shown" if self.has_system_role else "none; its text goes before the first question"
        if self.own_system:
            system += f"; without a message, the template writes its own: {quoted_start(self.own_system)}"
        return [
            f"template: {own}, {len(self._template_text):,} characters",
            f"system role: {system}",
            f"earlier turns: {'shown, in order' if self.shows_turns else 'dropped: strategies with calls are refused'}",
            f"content of a message: {'a list of parts' if self._content_is_parts else 'a text'}",
            f"opening token: {opening}",
            f"before the opening token: {repr(self._before_opening) if self._before_opening else 'nothing'}",
            f"date: {f'model.date={self.date}' if self._told_date else 'none'}",
            f"thoughts: {thoughts}",
            f"an answer begins after: {shown.rpartition(_SENTINEL)[2][-_SHOWN_END:]!r}",
            f"an answer begun with {_SPACED!r}: given as {self.begun_as(_SPACED)!r}",
        ]

    @property
    def _told_date(self) -> bool:
        """Whether the template prints a date."""
        return self._probed(pinned(self.date)) != self._probed(pinned(another_day(self.date)))

    @cached_property
    def added(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Token ids added before and after a rendered text; both empty unless ``add_special_tokens``."""
        if not self.add_special_tokens:
            return (), ()
        # A text without special tokens occurs once, unchanged, in its encoding.
        own, whole = self.encode(_SENTINEL), self._encode_with_added(_SENTINEL)
        at = next((at for at in range(len(whole)) if whole[at : at + len(own)] == own), len(whole))
        before, after = tuple(whole[:at]), tuple(whole[at + len(own) :])
        shown = self._render([("user", "x")])
        for text in (_SENTINEL, shown):
            if self._encode_with_added(text) != [*before, *self.encode(text), *after]:
                raise ModelError(
                    f"model {self.name}: its tokenizer does more than add tokens before and after a text, so its "
                    "additions cannot be identified; use engine.add_special_tokens=false"
                )
        return before, after

    def _encode_with_added(self, text: str) -> list[int]:
        return list(self.hf(text, add_special_tokens=True)["input_ids"])

    def say_added(self) -> str:
        """Describe the effect of ``add_special_tokens`` in one line; empty unless it is set."""
        if not self.add_special_tokens:
            return ""
        before, after = self.added
        if not before and not after:
            return (
                "engine.add_special_tokens: this model's tokenizer adds no tokens, so prompts are the same without it"
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
        """Return a prompt as the model reads it, with all special tokens written out."""
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

    def decode(self, token_ids: list[int], *, marks: bool = False) -> str:
        """Return the text of generated tokens; ``marks`` keeps special tokens."""
        return str(self.hf.decode(token_ids, skip_special_tokens=not marks))

    def written(self, token_ids: list[int], text: str | None = None) -> str:
        """Return the text of an output without special tokens, except the marks that tell a thought from its answer."""
        text = self.decode(token_ids) if text is None else text
        if not self._special_ids.isdisjoint(token_ids):
            whole = self.decode(token_ids, marks=True)
            dialect = self.dialect
            if dialect is not None and any(mark in whole for mark in (*dialect.marks, dialect.opens)):
                text = self._without_special(whole, dialect)
            elif without_thoughts(whole) != whole or has_unknown_marks(whole):
                text = whole
        return as_known(text, self.thinks_in)

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        added = getattr(self.hf, "added_tokens_decoder", {})
        return frozenset(token_id for token_id, token in added.items() if token.special)

    def _without_special(self, text: str, dialect: Dialect) -> str:
        """Remove special tokens from a text, except the marks of a thought."""
        if self._special is None:
            return text
        return self._special.sub(lambda found: found[0] if dialect.holds(found[0]) else "", text)

    def up_to_special(self, text: str) -> str:
        """Return a text up to its first special token."""
        found = None if self._special is None else self._special.search(text)
        return text if found is None else text[: found.start()]

    @cached_property
    def _special(self) -> re.Pattern[str] | None:
        """Pattern of any special token; None if there are none, or if they are unknown."""
        added = getattr(self.hf, "added_tokens_decoder", {}).values()
        contents = sorted({token.content for token in added if token.special and token.content}, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, contents))) if contents else None

    def continuation(self, text: str, continuation: str) -> tuple[int, ...] | None:
        """Return the tokens of ``continuation`` after ``text``; None if the two merge into one token."""
        before, both = self.encode(text), self.encode(text + continuation)
        return tuple(both[len(before) :]) if both[: len(before)] == before else None


def as_known(text: str, thinks_in: ThinksIn) -> str:
    """Replace the thought marks that a card names by the ``<think>`` marks that every reader knows."""
    if isinstance(thinks_in, tuple):
        for own, known in zip(thinks_in, THINK.marks, strict=True):
            text = text.replace(own, known)
    return text


def _content(messages: Sequence[tuple[str, str]], *, parts: bool) -> list[dict[str, Any]]:
    """Return messages in the form that chat templates take."""
    return [{"role": role, "content": [{"type": "text", "text": text}] if parts else text} for role, text in messages]
