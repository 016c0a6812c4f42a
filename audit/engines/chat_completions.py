"""Asks servers by whole conversations: ``POST /chat/completions``, of any OpenAI-compatible server.

A server applies its own chat template and tokenizer. Its logprobs, if it returns any, cover only the likeliest tokens,
so a distribution is known within bounds (:mod:`audit.asking.elicitation.bounded`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, TypeVar

from audit.configuration.model import ModelConfig
from audit.engines.base import AnswerStore, Done, EngineFacts, Generated, TopTokens, sampling_seeds, storable, unwatched
from audit.engines.batch import Batches
from audit.engines.chat import as_known
from audit.engines.endings import ending_of
from audit.engines.next_tokens import ImpossibleError, NextTokens, token_key
from audit.engines.proof import PROMPTS, ROOM
from audit.engines.refusals import meaning_of
from audit.engines.server import Json, Odd, Server, error_said, token_count
from audit.errors import ModelError
from stimuli.prompts import Prompt

_Read = TypeVar("_Read")

TOP: Final = (20, 5)  # number of likeliest tokens to request: OpenAI's maximum first, then what other servers allow
PLAIN: Final[Json] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling from the model's own distribution. Servers take what is not sent from the model's generation_config.json."""
_OWN: Final = ("top_k", "min_p", "repetition_penalty")  # settings that OpenAI's interface does not have
_OPTIONAL: Final = ("temperature", "seed", *PLAIN)  # settings to leave out if a server refuses them
_BEGINS: Final[tuple[Json, ...]] = (
    {"message": {}, "settings": {"continue_final_message": True, "add_generation_prompt": False}},
    {"message": {}, "settings": {}},
    {"message": {"prefix": True}, "settings": {}},
)
"""How to ask for a continuation of the last message: vLLM and SGLang; llama.cpp and Ollama; DeepSeek and Mistral."""
_LONG: Final = 2_000  # characters from which a prompt is checked for truncation: no context is shorter
_LONGER: Final = 24  # characters by which a prompt must be longer before more tokens are expected; fewer may be chance
_N_WORDS: Final = 70
_WORDS: Final = "one two three four five six seven eight nine ten " * (_N_WORDS // 10)
_DIGITS: Final = re.compile(r" ?[0-9]+")
_ALIKE: Final = 0.05  # tolerance for a probability computed in two ways: as one token of several, or alone
_SURE: Final = 0.95  # if one token is more probable than this, that two answers agree proves nothing
# The likeliest of the other tokens is never so improbable, unless a server reports what its temperature of 0 left.
_NONE: Final = 1e-40
_PROBE: Final = Prompt("", "Write one number: 7")


class ChatEngine:
    """Asks a server by whole conversations; see :class:`audit.engines.base.Engine`."""

    def __init__(self, server: Server, model: ModelConfig, *, seed: int) -> None:
        self.server = server
        self._asker: Server | Batches = server
        self._asked_for = model.path
        self._thinks_in = model.thinks_in
        self.seed = seed
        self._room_is_called = "max_tokens"
        self._n_top = TOP[0]
        self._begins: Json | None = None  # how to begin an answer; {} if the server cannot
        self._begins_spaced = False
        self._begins_grown: int | None = None  # tokens that giving the first answer token added
        self.counts = True  # whether it reports how many tokens it reads, as far as the first answer shows
        self._whole = 0  # characters of the longest prompt known to be read whole
        self.stated = ""
        self.fingerprints: list[str] = []
        self.refused: list[str] = []
        self.facts = EngineFacts(name="openai", version="", device="server", dtype="unknown")

    def forget(self) -> None:
        """Do nothing: the server's cache is not ours."""

    def keep_in(self, kept: AnswerStore | None) -> None:
        """Store answers in ``kept`` as they come and reuse those there; see :class:`audit.engines.base.Keeps`."""
        self.server.kept = kept

    def in_format(self, dtype: str) -> AbstractContextManager[None]:
        """See :class:`audit.engines.base.Engine`."""
        raise ModelError(f"engine=openai cannot change to {dtype}: the server sets the number format")

    def fits(self, prompts: Sequence[Prompt], *, room: int) -> list[bool]:
        """See :class:`audit.engines.base.Engine`. Only the server knows, and it refuses what is too long."""
        for prompt in prompts:
            self._refuse_thought(prompt)
        return [True] * len(prompts)

    def _refuse_thought(self, prompt: Prompt) -> None:
        if prompt.thinks or prompt.thought is not None:
            raise ModelError(
                f"{self.server.base_url}: this server does not show where a thought ends and the answer begins; "
                "use thinking=off, or serve the model with vLLM or llama.cpp"
            )

    def close(self) -> None:
        """Close the connections."""
        self.server.close()

    def probe(self) -> None:
        """Ask one short question, so that a wrong address, name or key fails before the run begins."""
        # OpenAI's newer models refuse fewer output tokens than these.
        try:
            [answer] = self._ask([self._control()], self._generated, None, unwatched)
        except _RejectedError as error:  # perhaps for a setting that it does not name
            before = list(self.refused)
            self.refused += [name for name in _OWN if name not in before]
            try:
                [answer] = self._ask([self._control()], self._generated, None, unwatched)
            except _RejectedError:
                self.refused[:] = before
                raise error from None
        if answer.refused and not answer.text:
            raise ModelError(
                f"{self.server.base_url}: declines even a harmless question; check the rights of its account and key, "
                "and model.path"
            )
        self.counts = bool(answer.n_prompt_tokens)
        self.server.check_counted()
        self.server.control = ("/chat/completions", self._control())

    def same_answer(self) -> str | None:
        """Ask two unlike questions; return their text if both get the same, "" if not, None if one gets no text."""
        payloads = [self._payload(prompt, ROOM, seed=self.seed, temperature=0.0) for prompt in PROMPTS]
        told = self.server.ask_all("/chat/completions", payloads, self._generated)  # at once, if others go in batches
        first, second = ((each.text or "").strip() for each in told)
        if not (first and second):  # it may have thought until the end of its room
            return None
        return first if first == second else ""

    def by_batch(self) -> None:
        """Send requests in batches from now on."""
        self._asker = Batches(self.server)

    def _control(self) -> Json:
        return self._payload(_PROBE, 16, seed=self.seed, temperature=0.0)

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
        own_seeds = sampling_seeds(len(prompts), temperature=temperature, top_p=top_p, seeds=seeds)
        self._check_longest(prompts)
        settings: Json = {"temperature": temperature, **({} if own_seeds is None else {"top_p": top_p})}
        payloads = [
            self._payload(prompt, max_tokens, seed=seed, **settings)
            for prompt, seed in zip(prompts, own_seeds or [self.seed] * len(prompts), strict=True)
        ]
        written = self._ask(payloads, self._generated, lambda _: Generated(None, 0, False), done)
        self._check_read(prompts, payloads, [each.n_prompt_tokens for each in written])
        return written

    def top(self, prompts: Sequence[Prompt], *, n_tokens: int, done: Done = unwatched) -> list[TopTokens | None]:
        """See :class:`audit.engines.base.TopReader`; raises ModelError if the server returns no logprobs."""
        self._check_longest(prompts)
        payloads = [self._payload(prompt, n_tokens, seed=self.seed, temperature=0.0) for prompt in prompts]
        asked = [each | {"logprobs": True, "top_logprobs": self._n_top} for each in payloads]
        told = self._ask(asked, self._top, lambda _: None, done)
        asked = [each | {"top_logprobs": self._n_top} for each in asked]  # the limit that the server accepted
        self._check_read(prompts, asked, [None if each is None else each.n_prompt_tokens for each in told])
        return told

    def _check_longest(self, prompts: Sequence[Prompt]) -> None:
        """Check that the server reads the longest prompt whole, before any is asked, if it is long at all."""
        longest = max(prompts, key=_length, default=None)
        if longest is not None and _length(longest) > max(_LONG, self._whole):
            self._check_whole(longest)

    def _check_read(self, prompts: Sequence[Prompt], payloads: Sequence[Json], n_read: Sequence[int | None]) -> None:
        """Check a longer prompt of which the server counted no more tokens than of a shorter one."""
        told = sorted(
            ((_length(prompt), n, prompt) for prompt, n in zip(prompts, n_read, strict=True) if n is not None),
            key=lambda each: each[:2],
        )
        suspect: tuple[int, Prompt] | None = None
        shorter, most = 0, 0
        for length, n, prompt in told:
            while told[shorter][0] <= length - _LONGER:
                most = max(most, told[shorter][1])
                shorter += 1
            if 0 < n <= most and length > self._whole:
                suspect = n, prompt
        if suspect is None:
            return
        try:
            self._check_whole(suspect[1], n_read=suspect[0])
        except ModelError:
            self.server.forget("/chat/completions", payloads)  # ask them again once the server reads them whole
            raise

    def _check_whole(self, prompt: Prompt, *, n_read: int | None = None) -> None:
        """Raise ModelError if the server truncates ``prompt``: with many words put before it, it reads no more tokens.

        The words go at the head, so that the server's prefix cache does not affect the count.
        """
        plain, longer = (
            self._n_read(replace(prompt, user=f"{words}\n{prompt.user}")) for words in ("Read this:", _WORDS)
        )
        length = _length(prompt)
        self._whole = max(self._whole, length)
        if plain is None or longer is None:
            return  # the server refuses long prompts itself, or gives no counts
        where = f"{self.server.base_url}: cuts off long prompts"
        remedy = (
            "give the model a longer context there (Ollama: num_ctx; llama.cpp: --ctx-size), and run the same "
            "command: cut prompts are not rated"
        )
        if longer - plain < _N_WORDS // 2:
            raise ModelError(
                f"{where}: of a prompt of {length:,} characters it read {plain:,} tokens, and {longer:,} with "
                f"{_N_WORDS} words more; {remedy}"
            )
        if n_read is not None and plain - n_read > _N_WORDS // 2:
            raise ModelError(
                f"{where}: of a prompt of {length:,} characters it had read {n_read:,} tokens, and reads {plain:,} "
                f"now; {remedy}"
            )

    def _n_read(self, prompt: Prompt) -> int | None:
        """Return the server's token count for a prompt; None if it refuses the prompt or gives no count."""
        payload = self._payload(prompt, 16, seed=self.seed, temperature=0.0)
        usage = self.server.control_request("POST", "/chat/completions", payload).get("usage")
        return token_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None

    def goes_on(self, prompts: Sequence[Prompt], tops: Sequence[TopTokens | None]) -> bool:
        """See :class:`audit.engines.base.GoesOn`: tested with an answer's first token, whose next ones are known.

        A server that continues the answer returns the same next tokens whether the first token was given or written.
        One that treats it as a finished message, or ignores it, returns others.
        """
        if self._begins == {} or isinstance(self._asker, Batches):
            return False
        tried = [
            (prompt, top)
            for prompt, top in zip(prompts, tops, strict=True)
            if top is not None and len(top.tables) > 1 and _DIGITS.fullmatch(top.written[0])
        ]
        if not tried:
            return False
        prompt, top = min(tried, key=lambda each: max(each[1].tables[1].values(), default=1.0))
        # A way that worked before is tested again: the server may have been updated since.
        ways = _BEGINS if self._begins is None else (self._begins,)
        self._begins = next((way for way in ways if self._is_gone_on_with(way, prompt, top)), {})
        self._begins_spaced = top.written[0].startswith(" ")
        return bool(self._begins)

    def _is_gone_on_with(self, way: Json, prompt: Prompt, top: TopTokens) -> bool:
        answer = self.server.ask("/chat/completions", self._begun_payload(way, prompt, top.written[0]))
        try:
            told = self._next(answer)
        except (Odd, ModelError):
            return False
        if told is None or not told.tables:
            return False
        known, again = top.tables[1], told.tables[0]
        apart = max(abs(known.get(text, 0.0) - again.get(text, 0.0)) for text in {*known, *again})
        grown = _grown(top, told)
        telling = max(known.values()) <= _SURE or grown == 1
        self._begins_grown = grown
        return apart <= _ALIKE and telling and (grown is None or grown > 0)

    def top_after(
        self, prompts: Sequence[Prompt], tops: Sequence[TopTokens], begun: Sequence[tuple[str, ...]]
    ) -> list[TopTokens | None]:
        """See :class:`audit.engines.base.GoesOn`."""
        assert self._begins
        texts = ["".join(path) for path in begun]
        # A template may strip white space; only the first answer's kind of beginning was tested.
        asked = [place for place, text in enumerate(texts) if self._begins_spaced or not text.startswith(" ")]
        payloads = [self._begun_payload(self._begins, prompts[place], texts[place]) for place in asked]
        found: list[TopTokens | None] = [None] * len(texts)
        told = self._ask(payloads, self._next, lambda _: None, unwatched)
        for place, top in zip(asked, told, strict=True):
            if top is not None and self._is_as_long(tops[place], top, len(begun[place])):
                found[place] = top
        return found

    def _is_as_long(self, before: TopTokens, after: TopTokens, n_begun: int) -> bool:
        """Whether a prompt grew by the tokens that were given, as far as the server reports counts."""
        grown, first = _grown(before, after), self._begins_grown
        return grown is None or first is None or 0 <= grown - first < n_begun

    def _begun_payload(self, way: Json, prompt: Prompt, begun: str) -> Json:
        payload = self._payload(prompt, 1, seed=self.seed, temperature=0.0)
        message = {"role": "assistant", "content": begun} | way["message"]
        settings = {"logprobs": True, "top_logprobs": self._n_top} | way["settings"]
        asked: Json = payload | {"messages": [*payload["messages"], message]} | settings
        return asked

    def _next(self, answer: Json) -> TopTokens | None:
        """Return the likeliest tokens after a given beginning; None if the model ends the answer there."""
        choice = self._choice(answer)
        logprobs = choice.get("logprobs")
        return self._top(answer) if isinstance(logprobs, dict) and logprobs.get("content") else None

    def _payload(self, prompt: Prompt, max_tokens: int, *, seed: int, **settings: Any) -> Json:
        if prompt.begun:
            raise ModelError(
                f"{self.server.base_url}: this server does not show whether it continues an answer begun for the "
                "model; leave elicitation.prefill empty, or serve the model with vLLM or llama.cpp"
            )
        self._refuse_thought(prompt)
        asked: Json = {
            "model": self._asked_for,
            "messages": _messages(prompt),
            self._room_is_called: max_tokens,
            "seed": seed,
        }
        return {name: value for name, value in (asked | PLAIN | settings).items() if name not in self.refused}

    def _ask(
        self, payloads: list[Json], read: Callable[[Json], _Read], missing: Callable[[str], _Read] | None, done: Done
    ) -> list[_Read]:
        """Send all requests, and again if the server names a setting differently; see :meth:`Server.ask_all`."""
        try:
            return self._asker.ask_all("/chat/completions", payloads, read, missing=missing, done=done)
        except _OtherName as error:
            if error.name in _OPTIONAL:
                if any(error.name in text.lower() for each in payloads for text in _texts_of(each)):
                    raise error.error or error from None  # a prompt's word, and the server may repeat prompts
                self.refused.append(error.name)
                again = [{key: v for key, v in each.items() if key != error.name} for each in payloads]
            elif error.name == "top_logprobs":
                self._n_top = TOP[1]
                again = [each | {"top_logprobs": self._n_top} for each in payloads]
            else:
                old, self._room_is_called = self._room_is_called, error.name
                again = [{error.name if key == old else key: v for key, v in each.items()} for each in payloads]
            return self._ask(again, read, missing, done)

    def _choice(self, answer: Json) -> Json:
        """Return the single choice of an answer and record which model gave it."""
        self._check_refusal(answer)
        choices = answer.get("choices")
        if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
            raise Odd(("no choices" if choices in (None, []) else "invalid choices") + error_said(answer))
        self.note(answer)
        return choices[0]

    def note(self, answer: Json) -> None:
        """Record an answer's model name and state; raise ModelError if the model differs from earlier answers."""
        stated = answer.get("model")
        if isinstance(stated, str) and stated:
            if self.stated and stated != self.stated:
                raise ModelError(
                    f"{self.server.base_url}: answers as {stated!r} now and as {self.stated!r} before, but a run has "
                    "one model; give that version as model.path if the server has it, and start another run_dir"
                )
            self.stated = stated
        state = answer.get("system_fingerprint")
        if isinstance(state, str) and state and state not in self.fingerprints:
            self.fingerprints.append(state)

    def _check_refusal(self, answer: Json) -> None:
        status, said = answer.get("http_status"), str(answer.get("said", ""))
        if status is None:
            return
        where = self.server.base_url
        if status in (404, 405, 501):
            remedy = "check model.base_url (most end in /v1) and model.path, the model's name there"
            if self.server.has_models_below("/v1"):
                remedy = f"its API is one level below: model.base_url={where.rstrip('/')}/v1"
            raise ModelError(f"{where}: has no {self._asked_for} at /chat/completions (HTTP {status}{said}); {remedy}")
        low = said.lower()
        if "max_completion_tokens" in low and self._room_is_called == "max_tokens":
            raise _OtherName("max_completion_tokens")
        if "top_logprobs" in low and self._n_top == TOP[0]:
            raise _OtherName("top_logprobs")
        if "logprobs" in low:
            raise ModelError(f"{where}: returns no logprobs (HTTP {status}{said}); use elicitation=generate")
        error = _RejectedError(f"{where}: rejected the request (HTTP {status}{said}){self.server.said_of_kept}")
        for name in _OPTIONAL:
            if name not in self.refused and re.search(rf"\b{name}\b", low):
                raise _OtherName(name, error)
        raise error

    def _generated(self, answer: Json) -> Generated:
        if (refused := _of_prompt(answer)) is not None:
            return refused
        choice = self._choice(answer)
        message = _message_of(choice)
        text, declined = message.get("content"), message.get("refusal")
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        ending = ending_of(choice)
        if not isinstance(text, str):
            # No text: reasoning used all tokens, or the answer is a tool call or parts.
            text = declined if isinstance(declined, str) else ""
        return Generated(
            as_known(storable(text), self._thinks_in),
            token_count(usage.get("completion_tokens")) or 0,
            ending.at_worst,
            token_count(usage.get("prompt_tokens")),
            bool(declined) or ending.declined,
        )

    def _top(self, answer: Json) -> TopTokens | None:
        if (refused := _of_prompt(answer)) is not None:
            return TopTokens((), (), refused.n_prompt_tokens) if refused.refused else None
        choice = self._choice(answer)
        told = choice.get("logprobs")
        content = told.get("content") if isinstance(told, dict) else None
        if not (isinstance(content, list) and content):
            if ending_of(choice).declined:
                return TopTokens((), (), None)
            if not _message_of(choice).get("content"):
                raise Odd("neither a text nor logprobs", "use elicitation=generate")
            raise ModelError(
                f"{self.server.base_url}: returns no logprobs for {self._asked_for}, so no distribution can be "
                "read; use elicitation=generate"
            )
        try:
            tables = tuple(_table(each) for each in content)
            written = tuple(storable(str(each["token"])) for each in content)
        except ImpossibleError as error:
            raise Odd(f"invalid logprobs: {error}", "use elicitation=generate") from error
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise Odd(f"logprobs that cannot be read ({type(error).__name__})", "use elicitation=generate") from error
        usage = answer.get("usage")
        return TopTokens(written, tables, token_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None)


def _messages(prompt: Prompt) -> list[Json]:
    system = [("system", prompt.system)] if prompt.system else []
    return [{"role": role, "content": text} for role, text in (*system, *prompt.turns, ("user", prompt.user))]


class _RejectedError(ModelError):
    """The server rejects a request for a reason that is not known."""


class _OtherName(Exception):
    """The server names a setting differently, has another limit for it, or does not take it."""

    def __init__(self, name: str, error: ModelError | None = None) -> None:
        super().__init__(name)
        self.name, self.error = name, error  # error: what to raise if the name is a word of the prompt


def _of_prompt(answer: Json) -> Generated | None:
    """Return the outcome of a prompt that the server refused for its content or length; None for other answers."""
    if "http_status" not in answer:
        return None
    # Earlier versions stored the error without "means", and without the prompt that it repeats.
    means = answer["means"] if "means" in answer else meaning_of(answer, {})
    if means == "declined":
        return Generated("", 0, False, None, True)
    return Generated(None, 0, False) if means == "too long" else None


def _message_of(choice: Json) -> Json:
    message = choice.get("message")
    return message if isinstance(message, dict) else {}


def _texts_of(payload: Json) -> Iterator[str]:
    yield from (message["content"] for message in payload["messages"])


def _length(prompt: Prompt) -> int:
    return len(prompt.system) + len(prompt.user) + sum(len(text) for _, text in prompt.turns)


def _grown(before: TopTokens, after: TopTokens) -> int | None:
    """Return how many tokens ``after`` has more than ``before``; None without counts."""
    if before.n_prompt_tokens is None or after.n_prompt_tokens is None:
        return None
    return after.n_prompt_tokens - before.n_prompt_tokens


def _table(position: Mapping[str, Any]) -> NextTokens:
    """Return the probabilities of the likeliest tokens at one position, including the written token."""
    told = [
        (token_key(text, number=each.get("id"), octets=each.get("bytes")), text, each["logprob"])
        for each in position["top_logprobs"]
        for text in (storable(str(each["token"])),)
    ]
    table = NextTokens.of_logs(told, chosen=storable(str(position["token"])))
    if len(table) > 1 and sorted(table.values())[-2] < _NONE:
        raise ImpossibleError("only one token has a probability, as after the choice of the likeliest")
    return table
