"""Readers of what models and servers say: replies, thoughts, answers over HTTP; and of what a model's files say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import mutations
import numpy as np
import pyarrow as pa
from reading import Case, Reader, Tried, WrongValueError

from audit.asking.elicitation.bounded import read_seen, seen_of
from audit.asking.elicitation.parsing import holds_refusal, parse_response, parse_response_hou2025
from audit.asking.elicitation.plain_text import answer_of
from audit.configuration.engine import ServerConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import Generated
from audit.engines.batch import Batches
from audit.engines.chat import ChatTokenizer
from audit.engines.chat_completions import ChatEngine
from audit.engines.dialects import DIALECTS, dialect_of
from audit.engines.gguf import look_into
from audit.engines.local import TokenEngine
from audit.engines.served_tokens import LlamaCppServerEngine, VllmServerEngine
from audit.engines.server import Key, Server
from audit.engines.templates import read_template
from audit.errors import ModelError
from audit.tables.ratings import Status
from audit.tasks.measures.text_scores import score_texts
from audit.tasks.reply.judge.pairwise import _read as read_choice
from stimuli.inventories import read_list_answers
from stimuli.prompts import Prompt, Question, Scale
from stimuli.stereotypes import load_stereotypes

CARD = {
    "name": "tiny",
    "path": "tiny",
    "revision": None,
    "tokenizer": None,
    "dtype": "float32",
    "quantization": None,
    "max_model_len": 2048,
    "trust_remote_code": False,
    "elicitation": "expected",
}
SCALE = Scale(0, 100)
NARRATIVE = "I lost 2 dogs in 1999, and 85 people came to help."
_SAID = (
    "I would rate it a 85",
    "85",
    "Rating: 72.5",
    "**90**",
    "\\boxed{40}",
    "7/10",
    "85%",
    "70-80",
    "between 60 and 70",
    "over 90",
    "a hundred",
    "seventy-five",
    "one",
    "I cannot rate this.",
    "I can't help with that",
    "As an AI, I",
    "not a 100",
    "not at all",
    "extremely",
    "Final answer: 55",
    "On a scale from 0 to 100, I'd say 90",
    NARRATIVE,
    "The person felt 80 sadness.",
    "for me 100, for her 60",
    "٨٥",
    "８５",
    "8½",
    "1. 85",
    "1: 3",
    "2) 4 (quite true)",
    "3: 2 or 3",
    "A",
    "tie",
    "B.",
    "7 point 5",
    "$85$",
    "~~85~~ 70",
    "85+",
    "-20",
    "1,000",
    "7,5",
    "°85",
    "85²",
    "Ⅷ",
    "²",
    "①",
)
_MARKS = (
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<seed:think>",
    "</seed:think>",
    "◁think▷",
    "◁/think▷",
    "[think]",
    "[/think]",
    "<|channel|>analysis<|message|>",
    "<|channel|>final<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "<|im_end|>",
    "</s>",
    "<eos>",
    "analysis",
    "assistantfinal",
    "User:",
    "Assistant:",
    "### Question:",
    "<b>",
    "</b>",
    "Question:\n",
    "\\frac{1}{2}",
    "```",
    "*",
    "#",
    "> ",
)
_BETWEEN = ("", " ", "\n", ". ", ", ", ": ", " or ", " and ", "\n\n", " - ", "\t", " (", ") ", "“", "”")


def said(rng: Random) -> str:
    """Return what a model may have written, in fragments that mean something to a reader; sometimes a flood of one."""
    parts: list[str] = []
    for _ in range(rng.choice((1, 2, 3, 5, 8, 20))):
        kind = rng.randrange(10)
        if kind < 5:
            part = rng.choice(_SAID)
        elif kind < 8:
            part = rng.choice(_MARKS)
        else:
            part = rng.choice((*mutations.ODD, *mutations.HUGE))
        parts += [part, rng.choice(_BETWEEN)]
    if rng.random() < 0.05:
        parts = [
            rng.choice((*parts, "a ", "1 ", "I cannot ", "((", "and even just to ", "0.0.", "rating "))
            * rng.choice((50, 500, 3000))
        ]
    text = "".join(parts)
    return text[:: rng.choice((1,) * 20 + (-1,))]


# --- Replies ---------------------------------------------------------------------------------------------------------


def _replies(folder: Path) -> Tried:
    lexicon = load_stereotypes()
    question = Question("a Muslim", ("sadness", "sad"))

    def read(case: Case) -> object:
        text = case.content
        for scale in (SCALE, Scale(1, 7, "not", "very")):
            reading = parse_response(
                text,
                low=scale.low,
                high=scale.high,
                quoted=(NARRATIVE,),
                low_label=scale.low_label,
                high_label=scale.high_label,
                question=question,
            )
            within = scale.low <= reading.intensity <= scale.high
            if within != (reading.status is Status.RATED) or (not within and not math.isnan(reading.intensity)):
                raise WrongValueError(f"{reading} on {scale.low} to {scale.high}")
        published = parse_response_hou2025(text)
        if published.status is Status.RATED and not 0 <= published.intensity <= 100:
            raise WrongValueError(f"{published} of the study's parser")
        answers = read_list_answers(text, 5, 1, 7)
        if any(each is not None and not 1 <= each <= 7 for each in answers):
            raise WrongValueError(f"{answers} of a questionnaire")
        return (
            holds_refusal(text),
            read_choice(text),
            answer_of(text),
            score_texts([text, "I am sorry."], lexicon=lexicon),
        )

    # A process compiles each pattern when it first looks for it, which takes seconds that are no input's: this sentence
    # has a number and states no rating, so that all the long ones are looked for.
    read(Case("She counted to 85, and it was cold."))
    return Tried(lambda rng: Case(said(rng)), read, [Case("Rating: 85")])


def _thoughts(folder: Path) -> Tried:
    class Engine(TokenEngine):
        def __init__(self, tokenizer: Any) -> None:
            self.tokenizer = tokenizer

        def generate(self, *_: Any, **__: Any) -> list[Generated]:
            return []

    tokens = [SimpleNamespace(content=mark, special=True) for mark in ("<|end|>", "<|im_end|>", "</s>", "<eos>")]
    hf = SimpleNamespace(chat_template="x", added_tokens_decoder=dict(enumerate(tokens)))
    engine = Engine(ChatTokenizer(hf, name="tiny"))

    def read(case: Case) -> object:
        text = case.content
        thought = engine._thought(Generated(text, 3, False))
        ended = engine._ended(Generated(text, 3, False))
        dialect = dialect_of("auto", text, lambda mark: mark in text[:40])
        for each in DIALECTS:
            assert each.after(text, "so").endswith(each.closes + each.answers)
            assert each.at_once(text).rstrip().endswith((each.closes, (each.closes + each.answers).rstrip()))
            assert each.opened(text).rstrip().endswith(each.opens)
        assert thought.text is not None
        if not text.startswith(thought.text):
            raise WrongValueError("a thought that was not written")
        return answer_of(ended.text or ""), dialect

    return Tried(lambda rng: Case(said(rng)), read, [Case("So it is.</think>\n\n85")])


# --- Servers ---------------------------------------------------------------------------------------------------------


class _Told:
    """In place of a connection: answers what it is told, however often it is asked."""

    def __init__(self, answer: Callable[[str, str], tuple[int, bytes]]) -> None:
        self.answer = answer

    @contextmanager
    def stream(self, method: str, url: str, **_: Any) -> Iterator[Any]:
        status, content = self.answer(method, url)
        yield SimpleNamespace(status_code=status, headers={"retry-after": "0"}, iter_bytes=lambda: iter((content,)))

    def close(self) -> None:
        pass


def _server(told: _Told) -> Server:
    server = Server("http://localhost/v1", Key(""), ServerConfig(concurrency=1, retries=0, backoff_s=0))
    server._client = told  # type: ignore[assignment]
    return server


_TOKEN = {
    "token": "7",
    "logprob": -0.1,
    "top_logprobs": [{"token": "7", "logprob": -0.1}, {"token": "72", "logprob": -3.0}],
}
_CHAT = {
    "model": "tiny",
    "system_fingerprint": "fp",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "72"},
            "finish_reason": "stop",
            "logprobs": {"content": [_TOKEN, _TOKEN]},
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}
_TEXT = {
    "model": "tiny",
    "choices": [
        {
            "index": k,
            "text": "72",
            "finish_reason": "stop",
            "logprobs": {"top_logprobs": [{"token_id:3": -0.5, "token_id:4": -1.5}]},
        }
        for k in range(2)
    ],
    "usage": {"completion_tokens": 1, "total_tokens": 12},
}
_ERROR = {"error": {"message": "This model's maximum context length is 8 tokens", "code": 400, "type": "x"}}
_TOKENS = {"tokens": [1, 2, 3], "count": 3, "max_model_len": 2048}
_LISTED = {
    "model": "tiny",
    "tokens_evaluated": 1,
    "completion_probabilities": [
        {"id": 7, "logprob": -9.5, "top_logprobs": [{"id": 3, "logprob": -0.5}, {"id": 4, "logprob": -1.5}]}
    ],
}
_ASKED = {
    "listed": _LISTED,
    "write": _CHAT,
    "top": _CHAT,
    "generate": {**_TEXT, "choices": _TEXT["choices"][:1]},
    "probabilities": _TEXT,
    "encode": _TOKENS,
    "decode": {"prompt": "x"},
}


def _of_logprobs(rng: Random, content: bytes) -> bytes:
    """Return an answer whose logprobs are something else: probabilities, logits, zeros, one token many times."""
    value = rng.choice(
        (0.0, -0.0, 0.9, 12.5, -0.01, -9999.0, 1e308, -1e308, 1e400, -1e400, "nan", "-1", None, True, [])
    )
    text = content.decode()
    for _ in range(rng.randrange(1, 5)):
        number = rng.choice(("-0.1", "-3.0", "-0.5", "-1.5"))
        text = text.replace(number, json.dumps(value), rng.choice((1, 2, -1)))
    token = rng.choice(('"72"', '"7"', '"token_id:3"', '"token_id:4"'))
    return text.replace(token, rng.choice(('"7"', '"72"', '""', '"8"', token))).encode()


def _can_be_probabilities(content: bytes) -> bool:
    """Whether all logprobs of a chat's answer can be: finite, at most 0, of different tokens, the written one there."""
    for place in json.loads(content)["choices"][0]["logprobs"]["content"]:
        told = place["top_logprobs"]
        values = [each["logprob"] for each in told]
        if any(isinstance(each, bool) or not isinstance(each, int | float) for each in values):
            return False
        names = [json.dumps([each.get("id"), each.get("bytes"), each["token"]]) for each in told if each["token"]]
        if len(set(names)) < len(names) or str(place["token"]) not in {str(each["token"]) for each in told}:
            return False
        if not all(-math.inf < each <= 0.01 for each in values) or math.fsum(map(math.exp, values)) > 1.011:
            return False
    return True


def _servers(folder: Path) -> Tried:
    prompts = [Prompt("Judge.", "How sad?")]
    card = ModelConfig(**CARD)

    def make(rng: Random) -> Case:
        which = rng.choice(list(_ASKED))
        status = rng.choice((200,) * 8 + (400, 404, 422, 429, 500, 302, 401))
        content = json.dumps(_ASKED[which] if status == 200 or rng.random() < 0.3 else _ERROR).encode()
        if which in ("top", "probabilities", "listed") and rng.random() < 0.3:
            return Case((200, _of_logprobs(rng, content)), which=which)
        return Case((status, mutations.of_json(rng, content)), which=which)

    def read(case: Case) -> object:
        # What its tokenizer is asked beside the question: whether a mark of a thought is one token. Two are none.
        marks = (200, b'{"tokens": [1, 7]}') if case.which in ("generate", "listed") else case.content
        told = _Told(lambda method, url: marks if url.endswith("/tokenize") else case.content)
        chat = ChatEngine(_server(told), card, seed=0)
        tokens = VllmServerEngine(chat, card, version="1", longest=2048)
        match case.which:
            case "write":
                [written] = chat.write(prompts, max_tokens=5)
                pa.array([written.text])  # what is kept must be storable
                return written
            case "top":
                [top] = chat.top(prompts, n_tokens=3)
                if top is None or not top.tables:
                    return top
                if not _can_be_probabilities(case.content[1]):
                    raise WrongValueError("probabilities that cannot be were read")
                bounded = read_seen(seen_of(top), SCALE)
                if not (bounded.distribution >= 0).all() or bounded.distribution.sum() > 1.011:
                    raise WrongValueError(f"a distribution whose sum is {bounded.distribution.sum()}")
                return bounded
            case "generate":
                return tokens.generate([[1, 2]], max_tokens=5)
            case "probabilities" | "listed":
                if case.which == "probabilities":
                    found = tokens.probabilities([[1], [2]], [3, 4])
                else:
                    found = LlamaCppServerEngine(chat, card, {}).probabilities([[1], [2]], [3, 4], [0, 1])
                if not np.isfinite(found).all() or (found < 0).any() or (found.sum(axis=1) > 1.011).any():
                    raise WrongValueError(f"probabilities {found.tolist()}")
                return found
            case "encode":
                return tokens.tokenizer.encode("x")
            case _:
                return tokens.tokenizer.decode([1])

    return Tried(make, read, [Case((200, json.dumps(body).encode()), which=name) for name, body in _ASKED.items()])


def _batches(folder: Path) -> Tried:
    """The batch that a server makes, how it says it is, and the lines of its file."""
    payloads = [{"model": "tiny", "messages": [{"role": "user", "content": f"{k}"}]} for k in range(100)]
    from audit.engines.batch import _short
    from audit.engines.server import request_names

    names = [_short(name) for name in request_names("/chat/completions", payloads)]
    lines = "\n".join(
        json.dumps({"custom_id": name, "response": {"status_code": 200, "body": _CHAT}, "error": None})
        for name in names
    ).encode()
    state = json.dumps(
        {
            "id": "b",
            "status": "completed",
            "output_file_id": "f",
            "error_file_id": None,
            "request_counts": {"completed": 3},
            "errors": {"data": [{"message": "limit"}]},
        }
    ).encode()
    made = json.dumps({"id": "b", "status": "validating", "metadata": {}}).encode()

    def make(rng: Random) -> Case:
        which = rng.choice(("lines", "lines", "state", "made"))
        content = (
            mutations.of_lines(rng, lines)
            if which == "lines"
            else mutations.of_json(rng, state if which == "state" else made)
        )
        return Case(content, which=which)

    def read(case: Case) -> object:
        whole = {"made": made, "state": state, "lines": lines}
        states = iter((whole | {case.which: case.content})["state"] for _ in range(1))

        def answer(method: str, url: str) -> tuple[int, bytes]:
            if url.endswith("/content"):
                return 200, case.content if case.which == "lines" else lines
            if url.endswith("/files"):
                return 200, b'{"id": "f"}'
            if "/batches" in url and method == "POST":
                return 200, case.content if case.which == "made" else made
            if "/batches" in url:  # where it says neither yes nor no, it is asked again
                return 200, next(states, state)
            return 200, json.dumps(_CHAT).encode()

        told = _Told(answer)
        chat = ChatEngine(_server(told), ModelConfig(**CARD), seed=0)
        with patch("time.sleep"):
            found = Batches(chat.server, say=lambda line: None).ask_all(
                "/chat/completions", payloads, chat._generated, missing=lambda why: Generated(None, 0, False)
            )
        return [each.text for each in found]

    return Tried(make, read, [Case(lines, which="lines"), Case(state, which="state"), Case(made, which="made")])


# --- A model's files -------------------------------------------------------------------------------------------------


def _ggufs(folder: Path) -> Tried:
    from ggufs import write_gguf

    path = folder / "tiny.gguf"
    content = write_gguf(path, q8=True).read_bytes()
    path.unlink()
    head = (
        next(place for place in range(len(content) - 4, 0, -1) if content[place : place + 13] == b"output.weight")
        if b"output.weight" in content
        else 9_000
    )
    head = min(head + 60, len(content) - 64)
    card = ModelConfig(**{**CARD, "path": str(folder / "own.gguf")})

    def read(case: Case) -> object:
        (folder / "own.gguf").write_bytes(case.content)
        found = look_into(card, folder)
        header = found.header
        if not isinstance(header.start, int) or not 0 <= header.start <= len(case.content) + 2**20:
            raise WrongValueError(f"weights that begin at {header.start!r}")
        return found.announced(), found.n_bytes, found.made_of

    return Tried(lambda rng: Case(mutations.of_gguf(rng, content, head)), read, [Case(content)])


_TEMPLATE = (
    "{%- for message in messages %}\n{%- if message['role'] == 'user' %}{{ 'Question:\\n' }}\n"
    "{%- elif message.role == 'system' %}{{ bos_token }}{%- endif %}\n{{ message['content'] | trim + '\\n\\n' }}\n"
    "{%- endfor %}\n{{ strftime_now('%d %b %Y') }}{%- if add_generation_prompt %}{{ 'Answer:\\n' }}{%- endif %}"
)
_JINJA = (
    "{{ messages }}",
    "{{ raise_exception('no') }}",
    "{% for a in b %}",
    "{% endfor %}",
    "{{ 1/0 }}",
    "{{ x.y.z }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ range(10**7) }}",
    "{% include 'x' %}",
    "{% set x = messages %}",
    "{{ x|nope }}",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{#",
    "#}",
    "{{",
    "}}",
    "{%",
    "{{ '%s' % }}",
    "{{ messages[9].content }}",
    "{{ 'a' * 10**9 }}",
    "{{ {}[[]] }}",
    "{% break %}",
    "{{ none + 1 }}",
    "{{ messages|tojson }}",
    "{{ strftime_now(3) }}",
    "{{ 9999**9999 }}",
    "{{ namespace(a=1).a }}",
    "{% generation %}x{% endgeneration %}",
)
"""What a template's sandbox must bear; no loops upon loops: how long a template takes is its author's affair."""


def _templates(folder: Path) -> Tried:
    # By its place: "conftest" may be the one of another folder of tests.
    spec = spec_from_file_location("audit_tests_conftest", Path(__file__).parents[1] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    conftest = module_from_spec(spec)
    spec.loader.exec_module(conftest)
    tokenizer = conftest.write_tokenizer(folder, template="{{ messages }}", whole_numbers=True)
    path = folder / "own.jinja"

    def make(rng: Random) -> Case:
        text = _TEMPLATE
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(_JINJA) + text[at:]
        if rng.random() < 0.3:
            return Case(mutations.of_bytes(rng, text.encode()))
        return Case(mutations.of_text(rng, text) if rng.random() < 0.5 else text.encode())

    def read(case: Case) -> object:
        path.write_bytes(case.content)
        own = ChatTokenizer(tokenizer, name="tiny", template=read_template(str(path)))
        rendered = own.render(Prompt("Judge.", "How sad?"))
        with suppress(ModelError):
            own.render(Prompt("Judge.", "How sad?", turns=(("user", "a"), ("assistant", "b"))))
        return own.encode(rendered), own.chat, own.say_chat(), own.begun_as("Number: ")

    return Tried(make, read, [Case(_TEMPLATE.encode())])


_PREPARED: Sequence[tuple[str, int, Callable[[Path], Tried]]] = (
    ("models' replies: ratings, refusals, questionnaires, choices, scores", 5_000, _replies),
    ("thoughts, and the dialects that mark them", 5_000, _thoughts),
    ("servers' answers (JSON)", 8_000, _servers),
    ("servers' batches", 1_500, _batches),
    ("GGUF headers", 4_000, _ggufs),
    ("chat templates (Jinja)", 1_500, _templates),
)
READERS = tuple(Reader(*each) for each in _PREPARED)
