"""Engines for OpenAI-compatible servers: ``POST /chat/completions`` for any of them, and token by token for vLLM.

A generic server applies its own chat template and tokenizer. Its logprobs, if it returns any, cover only the likeliest
tokens, so a distribution is known within bounds (:mod:`audit.asking.elicitation.bounded`).

vLLM's server also exposes its tokenizer, its chat template and the probability of any token. It is therefore asked like
our local vLLM engine, and everything that works with a local model works with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from audit.configuration.engine import EngineConfig, ServerConfig
from audit.configuration.model import DATE, ModelConfig, ThinksIn
from audit.configuration.schema import fingerprint
from audit.engines.base import (
    AnswerStore,
    CachedPrompts,
    Done,
    EngineFacts,
    Generated,
    OpenModel,
    TokenIds,
    TopTokens,
    sampling_seeds,
    storable,
    unwatched,
)
from audit.engines.batch import Batches
from audit.engines.chat import ChatTokenizer, as_known
from audit.engines.endings import ending_of
from audit.engines.local import TokenEngine
from audit.engines.next_tokens import ImpossibleError, NextTokens, token_key
from audit.engines.refusals import meaning_of
from audit.engines.server import Json, Key, Odd, Server
from audit.engines.shown import not_shown_once
from audit.engines.templates import shows_day
from audit.engines.whole import WholeReading
from audit.errors import AuditError, ModelError
from stimuli.errors import suggest
from stimuli.prompts import Prompt

_Read = TypeVar("_Read")

TOP: Final = (20, 5)  # number of likeliest tokens to request: OpenAI's maximum first, then what other servers allow
READ_TOGETHER: Final = 128  # prompts read together, so that vLLM still caches them when their next question comes
SEQUENCES: Final = 32  # sequences per request
_PLAIN: Final[Json] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling from the model's own distribution. Servers take what is not sent from the model's generation_config.json."""
_OWN: Final = ("top_k", "min_p", "repetition_penalty")  # settings that OpenAI's interface does not have
_OPTIONAL: Final = ("temperature", "seed", *_PLAIN)  # settings to leave out if a server refuses them
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
_MOST_TOKENS: Final = 2**31  # upper bound on a plausible token count: a server may return any number
_PROBE: Final = Prompt("", "Write one number: 7")


@dataclass
class ServedModel:
    """A model at a server; a :class:`audit.engines.base.ModelSource`."""

    base_url: str  # without credentials
    stated: str  # the server's own name for the model, often with a version date
    root: str  # what the server says the model was made from; empty if it does not say
    fingerprints: list[str]  # the distinct states that the server reported, oldest first
    refused: list[str] = field(default_factory=list)  # settings that it does not take
    tokenizer: _RemoteTokenizer | None = None  # None unless the server shows how its chat template renders messages

    @property
    def revision(self) -> str | None:
        """None: a server does not identify its weights. See :class:`audit.engines.base.ModelSource`."""
        return None

    def facts(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        chat = self.tokenizer.chat if self.tokenizer is not None else {}
        refused = {"settings_refused": self.refused} if self.refused else {}
        return {"files": {}, "server": self._server | refused, **({"chat": chat} if chat else {})}

    @property
    def _server(self) -> dict[str, str]:
        made_of = {"root": self.root} if self.root else {}
        return {"base_url": self.base_url, "id": self.stated, **made_of}

    def states(self) -> list[str]:
        """See :class:`audit.engines.base.ModelSource`; also names the date if prompts show the server's own."""
        today = self.tokenizer.today() if self.tokenizer is not None else None
        return [*self.fingerprints, *([f"prompts show {today}"] if today else [])]

    def identity(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        chat = self.tokenizer.chat_identity if self.tokenizer is not None else {}
        server = self._server
        return {"server": server, "model_files": fingerprint(server), **({"chat": chat} if chat else {})}


def open_model(model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
    """Connect to a server's model; see :class:`audit.engines.open.Opens`."""
    base_url, key = check_asked(model, config)
    server = Server(base_url, key, config.server or ServerConfig())
    try:
        return _opened(server, model, seed=seed, why=why, batch=bool(config.batch))
    except BaseException:
        server.close()
        raise


def check_asked(model: ModelConfig, config: EngineConfig) -> tuple[str, Key]:
    """Return the server's address and key without contacting it; refuse settings that are the server's."""
    if model.base_url is None:
        raise ModelError(
            "engine=openai needs the server's address, model.base_url=http://HOST:PORT/v1, and the model's name "
            "there, model.path=NAME; model=openai, model=ollama, model=llama-cpp and model=vllm-serve are model "
            "cards to start from"
        )
    _refuse_what_is_of_files(model, config)
    return model.base_url, Key.of(model.api_key_env)


def _opened(server: Server, model: ModelConfig, *, seed: int, why: str, batch: bool) -> OpenModel:
    """Identify the server and return its model with the matching engine."""
    listed = _listed(server, model.path)
    by_tokens = listed.get("owned_by") == "vllm"
    chat = ChatEngine(server, model, seed=seed)
    chat.probe()
    chat.shows_prompts = listed.get("owned_by") == "llamacpp"
    root = str(listed.get("root") or "")
    root = "" if root == chat.stated else root
    source = ServedModel(server.base_url, chat.stated, root, chat.fingerprints, chat.refused)
    if batch and by_tokens:
        raise ModelError(f"engine.batch=true: {server.base_url} is vLLM, which has no batches; leave it out")
    if batch:
        chat.by_batch()
    if not by_tokens:
        if model.date != DATE:
            raise ModelError(
                f"model.date={model.date}: {server.base_url} is not vLLM, and takes no date for its chat template; "
                "leave it out"
            )
        how = ", asked in batches" if batch else ""
        refused = f"; it refuses {', '.join(chat.refused)}, so its own values are in use" if chat.refused else ""
        return OpenModel(chat, source, f"{why}; the server's own number format, and its chat template{how}{refused}")
    version = (server.get("//version") or {}).get("version")
    engine = VllmServerEngine(chat, model, version=str(version or ""), longest=listed.get("max_model_len"))
    source = replace(source, tokenizer=engine.tokenizer)
    said = [why, "the server is vLLM, which is asked by tokens", engine.tokenizer.say_chat()]
    if today := engine.tokenizer.today():
        said.append(
            f"its chat template prints today's date ({today}), which model.date cannot fix there: prompts differ "
            "from day to day"
        )
    return OpenModel(engine, source, "; ".join(filter(None, said)))


def _refuse_what_is_of_files(model: ModelConfig, config: EngineConfig) -> None:
    """Raise ModelError for settings that concern model files: those are the server's."""
    asked = {
        "model.revision": model.revision,
        "model.tokenizer": model.tokenizer,
        "model.quantization": model.quantization,
        "model.dtype": None if model.dtype == "auto" else model.dtype,
        "model.trust_remote_code": model.trust_remote_code or None,
        "model.chat_template": model.chat_template,
        "engine.add_special_tokens": config.add_special_tokens or None,
    }
    for name, value in asked.items():
        if value is not None:
            raise ModelError(f"{name}={value}: engine=openai leaves this to the server; leave it out")


def _listed(server: Server, name: str) -> Json:
    """Return the server's list entry for a model, or an empty dict if it has no list."""
    listed = (server.get("/models") or {}).get("data")
    models = {str(each["id"]): each for each in listed or [] if isinstance(each, dict) and "id" in each}
    if models and name not in models:
        raise ModelError(f"model.path={name}: {server.base_url} serves no such model; {suggest(name, models)}")
    return models.get(name, {})


SERVED: Final = "serve the model with a template"  # remedy for a chat template that does not show every message


class ChatEngine:
    """Asks a server by whole conversations; see :class:`audit.engines.base.Engine`."""

    def __init__(self, server: Server, model: ModelConfig, *, seed: int) -> None:
        self._server = server
        self._asker: Server | Batches = server
        self._asked_for = model.path
        self._thinks_in = model.thinks_in
        self._seed = seed
        self._room_is_called = "max_tokens"
        self._n_top = TOP[0]
        self.shows_prompts = False
        self._begins: Json | None = None  # how to begin an answer; {} if the server cannot
        self._begins_spaced = False
        self._begins_grown: int | None = None  # tokens that giving the first answer token added
        self._whole = 0  # characters of the longest prompt known to be read whole
        self.stated = ""
        self.fingerprints: list[str] = []
        self.refused: list[str] = []
        self.facts = EngineFacts(name="openai", version="", device="server", dtype="unknown")

    def forget(self) -> None:
        """Do nothing: the server's cache is not ours."""

    def keep_in(self, kept: AnswerStore | None) -> None:
        """Store answers in ``kept`` as they come and reuse those there; see :class:`audit.engines.base.Keeps`."""
        self._server.kept = kept

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
                f"{self._server.base_url}: this server does not show where a thought ends and the answer begins; "
                "use thinking=off, or serve the model with vLLM"
            )

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def probe(self) -> None:
        """Ask one short question, so that a wrong address, name or key fails before the run begins."""
        # OpenAI's newer models refuse fewer output tokens than these.
        try:
            [_] = self._ask([self._control()], self._generated, None, unwatched)
        except _RejectedError as error:  # perhaps for a setting that it does not name
            before = list(self.refused)
            self.refused += [name for name in _OWN if name not in before]
            try:
                [_] = self._ask([self._control()], self._generated, None, unwatched)
            except _RejectedError:
                self.refused[:] = before
                raise error from None
        self._server.control = ("/chat/completions", self._control())

    def by_batch(self) -> None:
        """Send requests in batches from now on."""
        self._asker = Batches(self._server)

    def _control(self) -> Json:
        return self._payload(_PROBE, 16, seed=self._seed, temperature=0.0)

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
        self._check_shown(prompts)
        own_seeds = sampling_seeds(len(prompts), temperature=temperature, top_p=top_p, seeds=seeds)
        self._check_longest(prompts)
        settings: Json = {"temperature": temperature, **({} if own_seeds is None else {"top_p": top_p})}
        payloads = [
            self._payload(prompt, max_tokens, seed=seed, **settings)
            for prompt, seed in zip(prompts, own_seeds or [self._seed] * len(prompts), strict=True)
        ]
        written = self._ask(payloads, self._generated, lambda _: Generated(None, 0, False), done)
        self._check_read(prompts, payloads, [each.n_prompt_tokens for each in written])
        return written

    def top(self, prompts: Sequence[Prompt], *, n_tokens: int, done: Done = unwatched) -> list[TopTokens | None]:
        """See :class:`audit.engines.base.TopReader`; raises ModelError if the server returns no logprobs."""
        self._check_shown(prompts)
        self._check_longest(prompts)
        payloads = [self._payload(prompt, n_tokens, seed=self._seed, temperature=0.0) for prompt in prompts]
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
            self._server.forget("/chat/completions", payloads)  # ask them again once the server reads them whole
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
        where = f"{self._server.base_url}: cuts off long prompts"
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
        payload = self._payload(prompt, 16, seed=self._seed, temperature=0.0)
        usage = self._server.control_request("POST", "/chat/completions", payload).get("usage")
        return _count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None

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
        answer = self._server.ask("/chat/completions", self._begun_payload(way, prompt, top.written[0]))
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
        payload = self._payload(prompt, 1, seed=self._seed, temperature=0.0)
        message = {"role": "assistant", "content": begun} | way["message"]
        settings = {"logprobs": True, "top_logprobs": self._n_top} | way["settings"]
        asked: Json = payload | {"messages": [*payload["messages"], message]} | settings
        return asked

    def _next(self, answer: Json) -> TopTokens | None:
        """Return the likeliest tokens after a given beginning; None if the model ends the answer there."""
        choice = self._choice(answer)
        logprobs = choice.get("logprobs")
        return self._top(answer) if isinstance(logprobs, dict) and logprobs.get("content") else None

    def _check_shown(self, prompts: Sequence[Prompt]) -> None:
        """Check on the first prompt that the chat template shows every message, if the server exposes its template."""
        if not (self.shows_prompts and prompts):
            return
        self.shows_prompts = False

        def render(prompt: Prompt) -> str:
            answer = self._server.control_request("POST", "//apply-template", {"messages": _messages(prompt)})
            return str(answer.get("prompt") or "")

        if render(prompts[0]) and (fault := not_shown_once(prompts[0], render)):
            raise ModelError(
                f"{self._server.base_url}: its chat template {fault}, so the model would not be asked the question "
                f"as written; {SERVED} that writes each message's content once and in order"
            )

    def _payload(self, prompt: Prompt, max_tokens: int, *, seed: int, **settings: Any) -> Json:
        if prompt.begun:
            raise ModelError(
                f"{self._server.base_url}: this server does not show whether it continues an answer begun for the "
                "model; leave elicitation.prefill empty, or serve the model with vLLM"
            )
        self._refuse_thought(prompt)
        asked: Json = {
            "model": self._asked_for,
            "messages": _messages(prompt),
            self._room_is_called: max_tokens,
            "seed": seed,
        }
        return {name: value for name, value in (asked | _PLAIN | settings).items() if name not in self.refused}

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
            raise Odd("no choices" if choices in (None, []) else "invalid choices")
        self.note(answer)
        return choices[0]

    def note(self, answer: Json) -> None:
        """Record an answer's model name and state; raise ModelError if the model differs from earlier answers."""
        stated = answer.get("model")
        if isinstance(stated, str) and stated:
            if self.stated and stated != self.stated:
                raise ModelError(
                    f"{self._server.base_url}: answers as {stated!r} now and as {self.stated!r} before, but a run has "
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
        where = self._server.base_url
        if status in (404, 405, 501):
            remedy = "check model.base_url (most end in /v1) and model.path, the model's name there"
            if self._server.has_models_below("/v1"):
                remedy = f"its API is one level below: model.base_url={where.rstrip('/')}/v1"
            raise ModelError(f"{where}: has no {self._asked_for} at /chat/completions (HTTP {status}{said}); {remedy}")
        low = said.lower()
        if "max_completion_tokens" in low and self._room_is_called == "max_tokens":
            raise _OtherName("max_completion_tokens")
        if "top_logprobs" in low and self._n_top == TOP[0]:
            raise _OtherName("top_logprobs")
        if "logprobs" in low:
            raise ModelError(f"{where}: returns no logprobs (HTTP {status}{said}); use elicitation=generate")
        error = _RejectedError(f"{where}: rejected the request (HTTP {status}{said}); answers so far are kept")
        for name in _OPTIONAL:
            if name not in self.refused and re.search(rf"\b{name}\b", low):
                raise _OtherName(name, error)
        raise error

    def _generated(self, answer: Json) -> Generated:
        if (refused := _of_prompt(answer)) is not None:
            return refused
        choice = self._choice(answer)
        message = choice.get("message")
        message = message if isinstance(message, dict) else {}
        text, declined = message.get("content"), message.get("refusal")
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        ending = ending_of(choice)
        if not isinstance(text, str):
            # No text: reasoning used all tokens, or the answer is a tool call or parts.
            text = declined if isinstance(declined, str) else ""
        return Generated(
            as_known(storable(text), self._thinks_in),
            _count(usage.get("completion_tokens")) or 0,
            ending.at_worst,
            _count(usage.get("prompt_tokens")),
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
            raise ModelError(
                f"{self._server.base_url}: returns no logprobs for {self._asked_for}, so no distribution can be "
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
        return TopTokens(written, tables, _count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None)


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


def _texts_of(payload: Json) -> Iterator[str]:
    yield from (message["content"] for message in payload["messages"])


def _length(prompt: Prompt) -> int:
    return len(prompt.system) + len(prompt.user) + sum(len(text) for _, text in prompt.turns)


def _grown(before: TopTokens, after: TopTokens) -> int | None:
    """Return how many tokens ``after`` has more than ``before``; None without counts."""
    if before.n_prompt_tokens is None or after.n_prompt_tokens is None:
        return None
    return after.n_prompt_tokens - before.n_prompt_tokens


def _count(told: object) -> int | None:
    """Return a server's token count; None if the value cannot be one."""
    if not isinstance(told, int) or isinstance(told, bool):
        return None
    return told if 0 <= told < _MOST_TOKENS else None


def _table(position: Mapping[str, Any]) -> NextTokens:
    """Return the probabilities of the likeliest tokens at one position, including the written token."""
    told = [
        (token_key(text, number=each.get("id"), octets=each.get("bytes")), text, each["logprob"])
        for each in position["top_logprobs"]
        for text in (storable(str(each["token"])),)
    ]
    return NextTokens.of_logs(told, chosen=storable(str(position["token"])))


# --- vLLM's server, by tokens ----------------------------------------------------------------------------------------


class _Remote:
    """A vLLM server's tokenizer, with the methods that :class:`audit.engines.chat.ChatTokenizer` uses."""

    chat_template = "the server's"
    is_fast = False

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name

    def _post(self, path: str, **payload: Any) -> Json:
        answer = self._server.ask(path, {"model": self._name, **payload})
        if "http_status" in answer:
            raise ModelError(f"{self._server.base_url}: {path[1:]} rejected{answer.get('said', '')}")
        return answer

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": self._tokens(prompt=text, add_special_tokens=add_special_tokens)}

    def apply_chat_template(self, messages: list[dict[str, str]], **kwargs: Any) -> str:
        ours = ("tokenize", "add_generation_prompt")
        template = {name: value for name, value in kwargs.items() if name not in ours}
        return self.decode(self._tokens(messages=messages, add_generation_prompt=True, chat_template_kwargs=template))

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        text = self._post("//detokenize", tokens=list(token_ids)).get("prompt")
        if not isinstance(text, str):
            raise self._odd("detokenize", "no text")
        return text

    def _tokens(self, **payload: Any) -> list[int]:
        found = self._post("//tokenize", **payload).get("tokens")
        if not isinstance(found, list) or not all(_count(token) is not None for token in found):
            raise self._odd("tokenize", "no tokens")
        return found

    def _odd(self, path: str, what: str) -> ModelError:
        return ModelError(
            f"{self._server.base_url}: {path} answers with {what}; check that it is a vLLM server, then run the "
            "same command to continue: answers so far are kept"
        )


class _RemoteTokenizer(ChatTokenizer):
    """A server's chat template and tokenizer; renders several prompts at a time."""

    _mend = SERVED

    def __init__(
        self, remote: _Remote, *, name: str, date: str, concurrency: int, thinks_in: ThinksIn = "auto"
    ) -> None:
        super().__init__(remote, name=name, date=date, thinks_in=thinks_in)
        self._concurrency = concurrency

    def today(self) -> str | None:
        """Return today's date as the server's chat template prints it; None if it prints none, or a fixed one."""
        if not self._may_show_today:
            return None
        try:
            return self._shown_today()
        except AuditError:  # optional information: a spent budget or a lost server must not end the run here
            return None

    @cached_property
    def _may_show_today(self) -> bool:
        return self._shown_today() is not None

    def _shown_today(self) -> str | None:
        text = self._render([("user", "x")])
        days = (datetime.now(UTC) + timedelta(days=off) for off in (0, -1, 1))  # the server may be in another time zone
        return next(filter(None, (shows_day(text, day) for day in days if str(day.date()) != self.date)), None)

    def _is_token(self, mark: str) -> bool:
        ids = self.encode(mark)
        return len(ids) == 1 and self.hf.decode(ids) == mark  # otherwise it may be the unknown token

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        marks = () if self.dialect is None else self.dialect.marks
        return frozenset(ids[0] for ids in map(self.encode, marks) if len(ids) == 1)

    def _named(self, ids: Sequence[int]) -> list[str]:
        return [self.decode([token]) for token in ids]

    def encode_prompts(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        if not prompts:
            return []
        self.check_shown(prompts)
        self.begins_once(self.encode(self.render(prompts[0])))  # fills the caches before threads share them
        with ThreadPoolExecutor(max_workers=min(self._concurrency, len(prompts))) as pool:
            return list(pool.map(lambda prompt: self.begins_once(self.encode(self.render(prompt))), prompts))


class VllmServerEngine(TokenEngine):
    """A vLLM server, asked by tokens like the local :class:`audit.engines.vllm.VllmEngine`."""

    tokenizer: _RemoteTokenizer

    def __init__(self, chat: ChatEngine, model: ModelConfig, *, version: str, longest: int | None) -> None:
        self._chat = chat
        self._server = chat._server
        self._name = model.path
        self._seed = chat._seed
        remote = _Remote(self._server, model.path)
        self.tokenizer = _RemoteTokenizer(
            remote,
            name=model.name,
            date=model.date,
            thinks_in=model.thinks_in,
            concurrency=self._server.settings.concurrency,
        )
        self.max_model_len = min(model.max_model_len, longest) if isinstance(longest, int) else model.max_model_len
        self.facts = EngineFacts(name="openai", version=f"vllm {version}".strip(), device="server", dtype="unknown")

    def forget(self) -> None:
        """Do nothing: the server's cache is not ours, and affects answers no more than batching does."""

    def keep_in(self, kept: AnswerStore | None) -> None:
        """See :class:`ChatEngine`."""
        self._chat.keep_in(kept)

    def in_format(self, dtype: str) -> AbstractContextManager[None]:
        """See :class:`audit.engines.base.Engine`."""
        return self._chat.in_format(dtype)

    def close(self) -> None:
        """Close the connections."""
        self._chat.close()

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
        """See :class:`audit.engines.local.TokenEngine`."""
        own_seeds = sampling_seeds(len(prompts), temperature=temperature, top_p=top_p, seeds=seeds)
        settings: Json = _PLAIN | {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
        settings["add_special_tokens"] = False
        if until:
            settings |= {"stop": [until], "skip_special_tokens": False}
        elif self.tokenizer.dialect is not None:
            settings["return_token_ids"] = True
        payloads = [
            {"model": self._name, "prompt": list(prompt), "seed": seed, **settings}
            for prompt, seed in zip(prompts, own_seeds or [self._seed] * len(prompts), strict=True)
        ]
        return self._server.ask_all("/completions", payloads, partial(self._generated, until=until), done=done)

    def _generated(self, answer: Json, *, until: str) -> Generated:
        choice = self._choices(answer, 1)[0]
        usage = answer.get("usage")
        n_written = usage.get("completion_tokens") if isinstance(usage, dict) else 0
        cut = choice.get("stop_reason") != until if until else ending_of(choice).at_worst
        if not isinstance(choice.get("text"), str):
            raise Odd("a choice without a text")
        text, ids = choice["text"], choice.get("token_ids")
        if not until and isinstance(ids, list) and all(_count(token) is not None for token in ids):
            text = self.tokenizer.written(ids, text)
        return Generated(storable(text), _count(n_written) or 0, cut)

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[CachedPrompts]:
        """See :class:`audit.engines.base.TokenReader`. Prompts with a common beginning are read in sequence."""
        order = sorted(range(len(prompts)), key=lambda place: list(prompts[place]))
        for start in range(0, len(order), READ_TOGETHER):
            yield WholeReading(self, prompts, tuple(order[start : start + READ_TOGETHER]))

    def probabilities(self, asked: Sequence[TokenIds], token_ids: TokenIds) -> npt.NDArray[np.float64]:
        """Return shape (n, k): the probability of each given token after each of n whole sequences."""
        payloads = [
            {
                "model": self._name,
                "prompt": [list(ids) for ids in asked[start : start + SEQUENCES]],
                "max_tokens": 1,
                "temperature": 0.0,
                **_PLAIN,
                "add_special_tokens": False,
                "logprobs": 1,
                "logprob_token_ids": list(token_ids),
                "return_tokens_as_token_ids": True,
            }
            for start in range(0, len(asked), SEQUENCES)
        ]

        def read(answer: Json) -> list[list[float]]:
            choices = self._choices(answer, None)
            names = [f"token_id:{token}" for token in token_ids]
            try:
                tables = [choice["logprobs"]["top_logprobs"][0] for choice in choices]
                told = [NextTokens.of_logs((name, name, table[name]) for name in names) for table in tables]
                return [[each[name] for name in names] for each in told]
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                why = error if isinstance(error, ImpossibleError) else type(error).__name__
                raise Odd(f"no probabilities of the tokens asked about ({why})") from error

        rows = [row for table in self._server.ask_all("/completions", payloads, read) for row in table]
        if len(rows) != len(asked):
            raise ModelError(
                f"{self._server.base_url}: returned {len(rows)} answers to {len(asked)} sequences; check the server"
            )
        return np.array(rows, dtype=np.float64).reshape(len(asked), len(token_ids))

    def _choices(self, answer: Json, n: int | None) -> list[Json]:
        """Return an answer's choices by index."""
        if "http_status" in answer:
            raise ModelError(
                f"{self._server.base_url}: refuses what is asked (HTTP {answer['http_status']}{answer.get('said', '')})"
            )
        choices = answer.get("choices")
        if not (isinstance(choices, list) and choices and all(isinstance(each, dict) for each in choices)):
            raise Odd("no choices" if choices in (None, []) else "invalid choices")
        if n is not None and len(choices) != n:
            raise Odd(f"{len(choices)} choices instead of {n}")
        self._chat.note(answer)
        places = [each.get("index", 0) for each in choices]
        if not all(_count(place) is not None for place in places):
            raise Odd("choices without places")
        return [choices[at] for at in sorted(range(len(choices)), key=places.__getitem__)]
