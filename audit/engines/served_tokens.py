"""Asks servers by tokens, which show their tokenizer, their chat template and the probability of any token.

Two do: vLLM's and llama.cpp's. They are asked like a model on this machine, and everything that works with a local
model works with theirs. Each has a remote tokenizer and an engine of its own here: what it calls things.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, ClassVar, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from audit.configuration.model import ModelConfig, ThinksIn
from audit.engines.base import (
    AnswerStore,
    CachedPrompts,
    Done,
    EngineFacts,
    Generated,
    TokenIds,
    sampling_seeds,
    storable,
    unwatched,
)
from audit.engines.chat import ChatTokenizer
from audit.engines.chat_completions import PLAIN, ChatEngine
from audit.engines.endings import ending_of
from audit.engines.local import TokenEngine
from audit.engines.next_tokens import ImpossibleError, NextTokens
from audit.engines.server import Json, Odd, Server, request_names, token_count
from audit.engines.templates import pinned, shows_day
from audit.engines.whole import WholeReading
from audit.errors import AuditError, ModelError
from stimuli.hashes import fingerprint
from stimuli.prompts import Prompt

READ_TOGETHER: Final = 128  # prompts read together, so that vLLM still caches them when their next question comes
SEQUENCES: Final = 32  # sequences per request to vLLM
LISTED: Final = 256  # likeliest tokens per request to llama.cpp; others that are asked about take another request
_RAISED: Final = 50.0  # added to the logits of those, so that they are listed: e^-50 of the likeliest counts as none
_ABOVE: Final = 25.0  # how far, in logits, the token that is written must be above the others to be certain
_CERTAIN: Final = 1_000.0  # the same above any token
_SERVED: Final = "serve the model with a template"  # remedy for a chat template that does not show every message


class _Remote:
    """A server's tokenizer, with the methods that :class:`audit.engines.chat.ChatTokenizer` uses."""

    chat_template = "the server's"
    is_fast = False

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name

    def _post(self, path: str, key: str, **payload: Any) -> Any:
        """Return what an answer has under ``key``, or None."""
        answer = self._server.ask(path, {"model": self._name, **payload})
        if "http_status" in answer:
            raise ModelError(f"{self._server.base_url}: {path[1:]} rejected{answer.get('said', '')}")
        return answer.get(key)

    def _text(self, path: str, key: str, **payload: Any) -> str:
        text = self._post(path, key, **payload)
        if not isinstance(text, str):
            raise self._odd(path, "no text")
        return text

    def _ids(self, **payload: Any) -> list[int]:
        found = self._post("//tokenize", "tokens", **payload)
        if not isinstance(found, list) or not all(token_count(token) is not None for token in found):
            raise self._odd("//tokenize", "no tokens")
        return found

    def _odd(self, path: str, what: str) -> ModelError:
        return ModelError(
            f"{self._server.base_url}: {path[2:]} answers with {what}; check that it is the server that it says it is, "
            f"then run the same command again{self._server.said_of_kept}"
        )


class _VllmRemote(_Remote):
    """A vLLM server's tokenizer."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": self._ids(prompt=text, add_special_tokens=add_special_tokens)}

    def apply_chat_template(self, messages: list[dict[str, str]], **told: Any) -> str:
        shown = _variables(told)
        return self.decode(self._ids(messages=messages, add_generation_prompt=True, chat_template_kwargs=shown))

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        return self._text("//detokenize", "prompt", tokens=list(token_ids))


class _LlamaCppRemote(_Remote):
    """A llama.cpp server's tokenizer. The server leaves the BOS out of a rendered prompt, and puts it before a text."""

    def __init__(self, server: Server, name: str, chat_template: object) -> None:
        super().__init__(server, name)
        if isinstance(chat_template, str) and chat_template:
            self.chat_template = chat_template

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": self._ids(content=text, add_special=add_special_tokens, parse_special=True)}

    def apply_chat_template(self, messages: list[dict[str, str]], **told: Any) -> str:
        shown = _variables(told)
        return self._text("//apply-template", "prompt", messages=messages, chat_template_kwargs=shown)

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        return self._text("//detokenize", "content", tokens=list(token_ids))


def _variables(told: Mapping[str, Any]) -> Json:
    """Return the variables of a chat template among the arguments of ``apply_chat_template``."""
    return {name: value for name, value in told.items() if name not in ("tokenize", "add_generation_prompt")}


class RemoteTokenizer(ChatTokenizer):
    """A server's chat template and tokenizer; renders several prompts at a time."""

    _mend = _SERVED

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

    @cached_property
    def chat_identity(self) -> dict[str, Any]:
        """See :class:`ChatTokenizer`; also what the server's template made of probes, unless it prints today's date."""
        if self._may_show_today:
            return super().chat_identity
        return super().chat_identity | {"rendered": fingerprint({"probes": self._probed(pinned(self.date))})}

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
        """See :class:`audit.engines.chat.ChatTokenizer`."""
        if not prompts:
            return []
        self.check_shown(prompts)
        self.begins_once(self.encode(self.render(prompts[0])))  # fills the caches before threads share them
        with ThreadPoolExecutor(max_workers=min(self._concurrency, len(prompts))) as pool:
            return list(pool.map(lambda prompt: self.begins_once(self.encode(self.render(prompt))), prompts))


class TokenServerEngine(TokenEngine):
    """A server that is asked by tokens, like a model on this machine."""

    tokenizer: RemoteTokenizer
    _PATH: ClassVar[str]  # where it continues token ids

    def __init__(
        self, chat: ChatEngine, model: ModelConfig, remote: _Remote, *, version: str, longest: int | None
    ) -> None:
        self._chat = chat
        self._server = chat.server
        self._name = model.path
        self.tokenizer = RemoteTokenizer(
            remote,
            name=model.name,
            date=model.date,
            thinks_in=model.thinks_in,
            concurrency=self._server.settings.concurrency,
        )
        self.max_model_len = min(model.max_model_len, longest) if isinstance(longest, int) else model.max_model_len
        self.facts = EngineFacts(name="openai", version=version.strip(), device="server", dtype="unknown")

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
        settings = self._writing(max_tokens, until) | {"temperature": temperature, "top_p": top_p}
        payloads = [
            {"model": self._name, "prompt": list(prompt), "seed": seed, **settings}
            for prompt, seed in zip(prompts, own_seeds or [self._chat.seed] * len(prompts), strict=True)
        ]
        written = self._server.ask_all(self._PATH, payloads, partial(self._generated, until=until), done=done)
        self._check_read(payloads, list(map(len, prompts)), [each.n_prompt_tokens for each in written])
        return written

    def _check_read(self, payloads: Sequence[Json], sent: Sequence[int], told: Sequence[int | None]) -> None:
        """Raise ModelError if the server says that it read other numbers of tokens than those sent."""
        for n_sent, n_read in zip(sent, told, strict=True):
            if n_read not in (None, n_sent):
                self._server.forget(self._PATH, payloads)  # ask them again once the server reads them whole
                raise ModelError(
                    f"{self._server.base_url}: of {n_sent:,} tokens that it was sent it read {n_read:,}; give the "
                    "model a longer context there (llama.cpp: --ctx-size; vLLM: --max-model-len), and run the same "
                    "command: cut prompts are not rated"
                )

    @abstractmethod
    def _writing(self, max_tokens: int, until: str) -> Json:
        """Return the settings of a request to write, besides those of sampling."""

    @abstractmethod
    def _generated(self, answer: Json, *, until: str) -> Generated:
        """Return the text of an answer."""

    def _text(self, text: object, ids: object, *, until: str) -> str:
        """Return a text with the marks of its thoughts, which servers leave out as special tokens."""
        if not isinstance(text, str):
            raise Odd("an answer without a text")
        if not until and isinstance(ids, list) and all(token_count(token) is not None for token in ids):
            text = self.tokenizer.written(ids, text)
        return storable(text)

    def _check_refusal(self, answer: Json) -> None:
        if "http_status" in answer:
            raise ModelError(
                f"{self._server.base_url}: refuses what is asked (HTTP {answer['http_status']}{answer.get('said', '')})"
            )


class VllmServerEngine(TokenServerEngine):
    """A vLLM server, asked like the local :class:`audit.engines.vllm.VllmEngine`."""

    _PATH = "/completions"

    def __init__(self, chat: ChatEngine, model: ModelConfig, *, version: str, longest: int | None) -> None:
        remote = _VllmRemote(chat.server, model.path)
        super().__init__(chat, model, remote, version=f"vllm {version}", longest=longest)

    def _writing(self, max_tokens: int, until: str) -> Json:
        settings: Json = PLAIN | {"max_tokens": max_tokens, "add_special_tokens": False}
        if until:
            settings |= {"stop": [until], "skip_special_tokens": False}
        elif self.tokenizer.dialect is not None:
            settings["return_token_ids"] = True
        return settings

    def _generated(self, answer: Json, *, until: str) -> Generated:
        choice = self._choices(answer, 1)[0]
        cut = choice.get("stop_reason") != until if until else ending_of(choice).at_worst
        text = self._text(choice.get("text"), choice.get("token_ids"), until=until)
        return Generated(text, _used(answer, "completion_tokens") or 0, cut, _used(answer, "prompt_tokens"))

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
                **PLAIN,
                "add_special_tokens": False,
                "logprobs": 1,
                "logprob_token_ids": list(token_ids),
                "return_tokens_as_token_ids": True,
            }
            for start in range(0, len(asked), SEQUENCES)
        ]

        def read(answer: Json) -> tuple[int | None, list[list[float]]]:
            choices = self._choices(answer, None)
            names = [f"token_id:{token}" for token in token_ids]
            try:
                tables = [choice["logprobs"]["top_logprobs"][0] for choice in choices]
                told = [NextTokens.of_logs((name, name, table[name]) for name in names) for table in tables]
                return _used(answer, "prompt_tokens"), [[each[name] for name in names] for each in told]
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                why = error if isinstance(error, ImpossibleError) else type(error).__name__
                raise Odd(f"no probabilities of the tokens asked about ({why})") from error

        answers = self._server.ask_all(self._PATH, payloads, read)
        sent = [sum(map(len, payload["prompt"])) for payload in payloads]
        self._check_read(payloads, sent, [n_read for n_read, _ in answers])
        rows = [row for _, table in answers for row in table]
        if len(rows) != len(asked):
            raise ModelError(
                f"{self._server.base_url}: returned {len(rows)} answers to {len(asked)} sequences; check the server"
            )
        return np.array(rows, dtype=np.float64).reshape(len(asked), len(token_ids))

    def _choices(self, answer: Json, n: int | None) -> list[Json]:
        """Return an answer's choices by index."""
        self._check_refusal(answer)
        choices = answer.get("choices")
        if not (isinstance(choices, list) and choices and all(isinstance(each, dict) for each in choices)):
            raise Odd("no choices" if choices in (None, []) else "invalid choices")
        if n is not None and len(choices) != n:
            raise Odd(f"{len(choices)} choices instead of {n}")
        self._chat.note(answer)
        places = [each.get("index", 0) for each in choices]
        if not all(token_count(place) is not None for place in places) or len(set(places)) < len(places):
            raise Odd("choices without places of their own")
        return [choices[at] for at in sorted(range(len(choices)), key=places.__getitem__)]


class LlamaCppServerEngine(TokenServerEngine):
    """A llama.cpp server.

    It lists the likeliest tokens. Those that are asked about and not listed are asked about again, with raised logits:
    their ratio to the likeliest token's stays as it was.
    """

    _PATH = "//completion"

    def __init__(self, chat: ChatEngine, model: ModelConfig, props: Json) -> None:
        own = props.get("default_generation_settings")
        longest = token_count(own.get("n_ctx")) if isinstance(own, dict) else None
        remote = _LlamaCppRemote(chat.server, model.path, props.get("chat_template"))
        version = f"llama.cpp {props.get('build_info') or ''}"
        super().__init__(chat, model, remote, version=version, longest=longest)
        self._n_slots = token_count(props.get("total_slots")) or 1

    def _writing(self, max_tokens: int, until: str) -> Json:
        # Samplers that are not named are not applied, whatever the server was started with.
        settings = _LLAMA_CPP | {"n_predict": max_tokens, "samplers": ["temperature", "top_p"]}
        settings["response_fields"] = [*_ABOUT, "content", "tokens", "stop_type"]
        if until:
            return settings | {"stop": [until], "preserved_tokens": [until]}
        return settings | {"stop": [], "return_tokens": self.tokenizer.dialect is not None}

    def _generated(self, answer: Json, *, until: str) -> Generated:
        self._check_refusal(answer)
        self._chat.note(answer)
        text = self._text(answer.get("content"), answer.get("tokens"), until=until)
        cut = answer.get("stop_type") != "word" if until else ending_of(answer).at_worst
        n_written, n_read = (token_count(answer.get(name)) for name in ("tokens_predicted", "tokens_evaluated"))
        return Generated(text, n_written or 0, cut, n_read)

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[CachedPrompts]:
        """See :class:`audit.engines.base.TokenReader`. Each prompt has a slot of the server, which caches it."""
        order = sorted(range(len(prompts)), key=lambda place: list(prompts[place]))
        for start in range(0, len(order), self._n_slots):
            yield _InSlots(self, prompts, tuple(order[start : start + self._n_slots]))

    @cached_property
    def _spare(self) -> int:
        """A token to write: after one that is part of a character, the server lists nothing."""
        return self.tokenizer.encode("x")[-1]

    def probabilities(
        self, asked: Sequence[TokenIds], token_ids: TokenIds, slots: Sequence[int]
    ) -> npt.NDArray[np.float64]:
        """Return shape (n, k): the probability of each given token after each of n whole sequences."""
        spare, wanted = self._spare, frozenset(token_ids)
        written: Json = {"logit_bias": [[spare, _CERTAIN]], "top_k": 1, "n_probs": LISTED}
        listed = self._listed(asked, slots, [written] * len(asked), wanted)
        places = [place for place, known in enumerate(listed) if not known.keys() >= wanted]
        others = [sorted(wanted - listed[place].keys()) for place in places]
        # The spare one is raised above the others, which are at most as likely as the last one that was listed.
        above = []
        for place in places:
            known = listed[place]
            least = min((p for token, p in known.items() if token != spare), default=known[spare])
            above.append(math.log(least / known[spare]) + _ABOVE)
        raised: list[Json] = [
            {
                "logit_bias": [[spare, _RAISED + over], *([token, _RAISED] for token in own)],
                "top_k": len(own) + 1,
                "n_probs": len(own) + 1,
                "post_sampling_probs": True,
            }
            for own, over in zip(others, above, strict=True)
        ]
        again = self._listed([asked[place] for place in places], [slots[place] for place in places], raised, wanted)
        for place, own, over, found in zip(places, others, above, again, strict=True):
            known = listed[place]
            scale = known[spare] * math.exp(over) / found[spare]
            known |= {token: scale * found.get(token, 0.0) for token in own}
        return np.array([[known[token] for token in token_ids] for known in listed]).reshape(-1, len(token_ids))

    def _listed(
        self, asked: Sequence[TokenIds], slots: Sequence[int], settings: Sequence[Json], wanted: frozenset[int]
    ) -> list[dict[int, float]]:
        """Return the probabilities listed after each sequence: of wanted tokens, the least likely and the spare one."""
        payloads = [
            {"model": self._name, "prompt": list(ids), "n_predict": 1, "temperature": 1.0, **_READING, **own}
            for ids, own in zip(asked, settings, strict=True)
        ]

        def read(answer: Json) -> tuple[int | None, dict[int, float]]:
            self._check_refusal(answer)
            try:
                [position] = answer["completion_probabilities"]
                known = _known(position, self._spare, wanted)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                why = error if isinstance(error, ImpossibleError) else type(error).__name__
                raise Odd(f"no probabilities of the likeliest tokens ({why})", _UPDATE) from error
            self._chat.note(answer)
            return token_count(answer.get("tokens_evaluated")), known

        names = request_names(self._PATH, payloads)  # slots make no difference to an answer
        sent = [payload | {"id_slot": slot} for payload, slot in zip(payloads, slots, strict=True)]
        told = self._server.ask_all(self._PATH, sent, read, names=names)
        self._check_read(payloads, list(map(len, asked)), [n_read for n_read, _ in told])
        return [known for _, known in told]


def _used(answer: Json, name: str) -> int | None:
    """Return a count of an answer's ``usage``; None if it has none."""
    usage = answer.get("usage")
    return token_count(usage.get(name)) if isinstance(usage, dict) else None


_LLAMA_CPP: Final[Json] = {
    "cache_prompt": True,
    "mirostat": 0,
    "dynatemp_range": 0.0,
    "grammar": "",
    "ignore_eos": False,
}
"""What a server's command line may set, and must not change a distribution."""
_ABOUT: Final = ("model", "tokens_evaluated", "tokens_predicted")
_READING: Final[Json] = _LLAMA_CPP | {
    "samplers": ["top_k"],
    "stop": [],
    "response_fields": [*_ABOUT, "completion_probabilities"],
}
_UPDATE: Final = "update llama.cpp to a version of 2025 or later, or use elicitation=generate"


def _known(position: Json, written: int, wanted: frozenset[int]) -> dict[int, float]:
    """Return a position's probabilities of ``written``, wanted tokens and the least likely that is listed.

    Others are dropped from the answer, which is stored after it is read. Raises ImpossibleError, and for what has
    another form LookupError, TypeError, ValueError, OverflowError or AttributeError.
    """
    name, listed = next((name, position[name]) for name in ("top_logprobs", "top_probs", "") if name in position)
    logs = [
        (_number(each["id"]), each["logprob"] if "logprob" in each else math.log(each["prob"]))
        for each in listed
        if each.get("prob") != 0
    ]
    told = NextTokens.of_logs((token, str(token), logprob) for token, logprob in logs)
    known = {token: told[str(token)] for token, _ in logs}
    least = min(known, key=known.__getitem__)
    position[name] = [each for each in listed if each["id"] in wanted or each["id"] in (least, written)]
    known = {token: p for token, p in known.items() if token in wanted or token in (least, written)}
    if position["id"] != written:
        raise ImpossibleError("another token was written than it was made to")
    if written not in known:
        known[written] = NextTokens.of_logs([(written, "", position["logprob"])])[""]
    return known


def _number(told: object) -> int:
    token = token_count(told)
    if token is None:
        raise ImpossibleError("a token without a number")
    return token


class _InSlots:
    """Reads each prompt in a slot of its own, taking turns, so that all slots work and none reads a prompt twice."""

    def __init__(self, engine: LlamaCppServerEngine, prompts: Sequence[TokenIds], places: Sequence[int]) -> None:
        self.places = places
        self._engine = engine
        self._prompts = [prompts[place] for place in places]

    def probabilities(self, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds) -> list[npt.NDArray[np.float64]]:
        """See :class:`audit.engines.base.CachedPrompts`."""
        turns = sorted((turn, slot) for slot, own in enumerate(tails) for turn in range(len(own)))
        asked = [[*self._prompts[slot], *tails[slot][turn]] for turn, slot in turns]
        table = self._engine.probabilities(asked, token_ids, [slot for _, slot in turns])
        found = [np.empty((len(own), len(token_ids))) for own in tails]
        for (turn, slot), row in zip(turns, table, strict=True):
            found[slot][turn] = row
        return found


def token_engine(chat: ChatEngine, model: ModelConfig, listed: Json) -> TokenServerEngine | None:
    """Return the engine of a server that can be asked by tokens, known by its entry in the list of models; else None.

    llama.cpp's server is one since it renders messages, /apply-template of February 2025.
    """
    server = chat.server
    if listed.get("owned_by") == "vllm":
        version = (server.get("//version") or {}).get("version")
        return VllmServerEngine(chat, model, version=str(version or ""), longest=listed.get("max_model_len"))
    if listed.get("owned_by") == "llamacpp":
        props = server.get(f"//props?model={quote(model.path, safe='')}")  # a router asks which model
        asked = {"model": model.path, "messages": [{"role": "user", "content": "x"}]}
        if props and isinstance(server.control_request("POST", "//apply-template", asked).get("prompt"), str):
            return LlamaCppServerEngine(chat, model, props)
    return None
