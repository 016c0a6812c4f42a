"""A server's JSON that is JSON and no answer: tokens that are none, choices without places, counts beyond counting."""

import json
import math
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow as pa
import pytest

from audit.asking.run_identity import model_difference
from audit.configuration.engine import ServerConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import EngineFacts, Generated
from audit.engines.batch import Batches, _short
from audit.engines.chat_completions import ChatEngine
from audit.engines.openai import _opened
from audit.engines.served_tokens import LlamaCppServerEngine, VllmServerEngine
from audit.engines.server import Key, Server, request_names
from audit.errors import ModelError
from stimuli.prompts import Prompt

CARD = {
    "name": "tiny", "path": "tiny", "revision": None, "tokenizer": None, "dtype": "float32", "quantization": None,
    "max_model_len": 2048, "trust_remote_code": False, "elicitation": "expected",
}  # fmt: skip
DEEP = b'{"choices":' + b"[" * 100_000


class Line:
    """In place of a connection: gives what a function of method and address says."""

    def __init__(self, answer):
        self.answer = answer

    @contextmanager
    def stream(self, method, url, **_):
        content = self.answer(method, url)
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        yield SimpleNamespace(status_code=200, headers={}, iter_bytes=lambda: iter((content,)))


def server(answer):
    made = Server("http://localhost/v1", Key(""), ServerConfig(concurrency=1, retries=0, backoff_s=0))
    made._client = Line(answer if callable(answer) else lambda *_: answer)
    return made


def chat(answer):
    return ChatEngine(server(answer), ModelConfig(**CARD), seed=0)


def tokens(answer):
    return VllmServerEngine(chat(answer), ModelConfig(**CARD), version="1", longest=2048)


def choice(**changes):
    return {"index": 0, "text": "72", "finish_reason": "stop"} | changes


@pytest.mark.parametrize("found", [{}, {"tokens": 3}, {"tokens": [{}]}, {"tokens": ["x"]}, {"tokens": [-1]}, DEEP])
def test_a_tokenizer_that_gives_no_tokens_is_named(found):
    with pytest.raises(ModelError, match=r"http://localhost/v1: (tokenize answers with no tokens|no answer after)"):
        tokens(found).tokenizer.encode("x")


def test_a_server_renders_its_own_template_where_transformers_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    tokenizer = tokens({"tokens": [1, 2]}).tokenizer
    monkeypatch.setattr(type(tokenizer.hf), "apply_chat_template", lambda *_, **__: "by the server")
    assert tokenizer._applied([{"role": "user", "content": "x"}], {}) == "by the server"


@pytest.mark.parametrize("found", [{}, {"prompt": 3}, {"prompt": None}])
def test_a_tokenizer_that_gives_no_text_is_named(found):
    with pytest.raises(ModelError, match="detokenize answers with no text"):
        tokens(found).tokenizer.decode([1])


@pytest.mark.parametrize("changes", [{"index": None}, {"index": []}, {"index": -1}, {"text": 3}, {"text": None}])
def test_a_choice_that_cannot_be_placed_or_read_is_no_answer(changes):
    # Its tokenizer is asked, too: how a thought is marked stands in its chat template.
    answers = {"/tokenize": {"tokens": [1]}, "/detokenize": {"prompt": "x"}}
    answers["/v1/completions"] = {"choices": [choice(**changes)]}
    engine = tokens(lambda _, url: answers[url.removeprefix("http://localhost")])
    with pytest.raises(ModelError, match="its responses contain no answer"):
        engine.generate([[1]], max_tokens=3)


@pytest.mark.parametrize("logprob", [math.nan, math.inf, -math.inf, 900.0, 0.7, True, "x", "-1", None, [], {}])
def test_a_probability_that_is_none_is_no_answer(logprob):
    answer = {"choices": [choice(logprobs={"top_logprobs": [{"token_id:3": logprob}]})]}
    with pytest.raises(ModelError, match="no probabilities of the tokens asked about"):
        tokens(answer).probabilities([[1]], [3])


@pytest.mark.parametrize(("logprob", "expected"), [(1e-9, 1.0), (-9999.0, 0.0), (math.log(0.5), 0.5)])
def test_a_logprob_above_0_by_rounding_is_a_probability_of_1(logprob, expected):
    answer = {"choices": [choice(logprobs={"top_logprobs": [{"token_id:3": logprob}]})]}
    assert tokens(answer).probabilities([[1]], [3]).tolist() == [[pytest.approx(expected)]]


@pytest.mark.parametrize("told", [2**200, -1, True, "9", 1.5, None])
def test_a_count_of_tokens_that_none_can_be_is_not_told(told):
    answer = {
        "choices": [{"message": {"content": "72"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": told, "prompt_tokens": told, "total_tokens": told},
    }
    engine = chat(answer)
    [written] = engine.write([Prompt("", "x")], max_tokens=3)
    assert (written.text, written.n_tokens, written.n_prompt_tokens) == ("72", 0, None)
    pa.array([written.n_tokens], pa.int32())  # as it is stored
    if not isinstance(told, int) or told < 1:
        assert engine.server._spent.n_tokens == 0


@pytest.mark.parametrize("status", [{}, [], None, 3])
def test_a_batch_that_does_not_say_how_it_is_is_named(status):
    asked = {"/files": {"id": "f"}, "/batches": {"id": "b"}, "/batches/b": {"id": "b", "status": status}}
    batches = Batches(server(lambda method, url: asked[url.removeprefix("http://localhost/v1")]), say=lambda _: None)
    with pytest.raises(ModelError, match="does not report the state of batch b"):
        batches.ask_all("/chat/completions", [{"n": k} for k in range(100)], lambda _: Generated("", 0, False))


def listed(*indices):
    tops = [{"token_id:3": math.log(0.5 / (place + 1))} for place in range(len(indices))]
    return [choice(index=index, logprobs={"top_logprobs": [top]}) for index, top in zip(indices, tops, strict=True)]


def test_choices_are_taken_by_their_places_and_two_in_one_place_are_no_answer():
    found = tokens({"choices": listed(1, 0)}).probabilities([[1], [2]], [3])
    assert found[:, 0].tolist() == pytest.approx([0.25, 0.5])
    with pytest.raises(ModelError, match="choices without places of their own"):
        tokens({"choices": listed(0, 0)}).probabilities([[1], [2]], [3])


@pytest.mark.parametrize(("n_read", "is_cut"), [(5, False), (4, True), (None, False), ("4", False)])
def test_a_server_that_reads_fewer_tokens_than_it_was_sent_gives_no_rating_and_is_asked_again(n_read, is_cut):
    answer = {"choices": listed(0, 1), "usage": {"prompt_tokens": n_read}}
    engine = tokens(answer)
    engine._server.kept = kept = Kept()
    if is_cut:
        with pytest.raises(ModelError, match="of 5 tokens that it was sent it read 4; give the model"):
            engine.probabilities([[1, 1, 1], [2, 2]], [3])
        answer["usage"]["prompt_tokens"] = 5
    assert engine.probabilities([[1, 1, 1], [2, 2]], [3]).shape == (2, 1)
    assert len(kept) == 1


class Kept(dict):
    put = dict.__setitem__


@pytest.mark.parametrize("form", ["vllm", "llama.cpp"])
def test_a_text_after_a_prompt_that_the_server_cut_is_not_taken(form):
    answer = {
        "vllm": {"choices": [choice()], "usage": {"prompt_tokens": 2}},
        "llama.cpp": {"content": "72", "stop_type": "eos", "tokens_evaluated": 2, "tokens_predicted": 1},
    }[form]
    replies = {"/tokenize": {"tokens": [1]}, "/detokenize": {"prompt": "x", "content": "x"}}
    replies["/apply-template"] = {"prompt": "x"}
    made = chat(lambda _, url: replies.get(url.removeprefix("http://localhost"), answer))
    model = ModelConfig(**CARD)
    engine = (
        VllmServerEngine(made, model, version="1", longest=2048)
        if form == "vllm"
        else LlamaCppServerEngine(made, model, {})
    )
    [written] = engine.generate([[1, 2]], max_tokens=3)
    assert written.text == "72"
    with pytest.raises(ModelError, match="of 3 tokens that it was sent it read 2"):
        engine.generate([[1, 2, 3]], max_tokens=3)


def test_a_llama_cpp_server_that_ignores_a_bias_is_no_answer():
    # The token to be written, 9, is among the likeliest anyway, but another was written.
    place = {"id": 4, "logprob": -0.1, "top_logprobs": [{"id": 4, "logprob": -0.1}, {"id": 9, "logprob": -3.0}]}
    engine = LlamaCppServerEngine(chat({"completion_probabilities": [place]}), ModelConfig(**CARD), {})
    engine.__dict__["_spare"] = 9
    with pytest.raises(ModelError, match="another token was written than it was made to"):
        engine.probabilities([[1]], [4], [0])


def test_the_template_of_a_server_identifies_a_run_and_one_that_changed_is_named(monkeypatch):
    def identity_of(template):
        tokenizer = tokens({"tokens": [1, 2], "prompt": "x"}).tokenizer
        monkeypatch.setattr(
            type(tokenizer.hf),
            "apply_chat_template",
            lambda _, messages, **__: "".join(template + each["content"] for each in messages),
        )
        return tokenizer.chat_identity

    def difference(earlier, now):
        facts = EngineFacts("openai", "", "server", "unknown")
        source = SimpleNamespace(identity=lambda: {"chat": now})
        return model_difference(
            {"chat": earlier, "engine_facts": vars(facts)}, SimpleNamespace(source=source, facts=facts)
        )

    one, same, other = map(identity_of, ("User: ", "User: ", "Human: "))
    assert difference(one, same) is None
    assert difference(one, other).setting == "chat.rendered"
    before = {name: value for name, value in one.items() if name != "rendered"}
    assert difference(before if any(before.values()) else None, other) is None, "of an earlier version"


@pytest.mark.parametrize(
    ("usage", "n_tokens"),
    [
        ({"total_tokens": 7}, 7),
        ({"prompt_tokens": 5, "completion_tokens": 1}, 6),
        ({"total_tokens": "7"}, 0),
        (None, 0),
    ],
)
def test_a_budget_of_tokens_that_nobody_counts_is_refused(usage, n_tokens):
    answer = {"choices": [{"message": {"content": "72"}, "finish_reason": "stop"}], "usage": usage}
    engine = chat(answer)
    engine.server.settings = engine.server.settings.model_copy(update={"max_tokens": 100})
    if n_tokens:
        engine.probe()
        assert engine.server._spent.n_tokens == n_tokens
    else:
        with pytest.raises(ModelError, match=r"max_tokens=100: .* does not report how many tokens an answer takes"):
            engine.probe()


def test_what_a_filter_keeps_back_may_cost_nothing_without_an_end_to_the_budget():
    engine = chat({"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]})
    engine.server.settings = engine.server.settings.model_copy(update={"max_tokens": 100})
    [answer] = engine.write([Prompt("", "x")], max_tokens=4)
    assert (answer.text or None, answer.refused) == (None, True)


def test_a_server_that_declines_a_harmless_question_is_no_model_that_refuses_everything():
    with pytest.raises(ModelError, match="declines even a harmless question"):
        chat({"choices": [{"index": 0, "finish_reason": "content_filter"}]}).probe()


@pytest.mark.parametrize(("n_read", "is_told"), [(5, False), ("5", True), (0, True), (None, True)])
def test_a_server_that_does_not_count_what_it_reads_is_said_to(n_read, is_told):
    answer = {"choices": [{"message": {"content": "72"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": n_read}}
    opened = _opened(server(answer), ModelConfig(**CARD), seed=0, why="asked for", batch=False)
    assert ("prompts that it cuts off would not be noticed" in opened.why) == is_told


@pytest.mark.parametrize("models", [3, "x", {}, [], None, [{}], ["x"]])
def test_a_list_of_models_that_is_none_is_not_one(models):
    answer = {"choices": [{"message": {"content": "72"}, "finish_reason": "stop"}]}
    at = server(lambda method, _: answer if method == "POST" else {"data": models})
    assert isinstance(_opened(at, ModelConfig(**CARD), seed=0, why="", batch=False).engine, ChatEngine)


@pytest.mark.parametrize(("others", "is_none"), [((-9999.0, -9999.0), True), ((-200.0,), True), ((-40.0,), False)])
def test_probabilities_after_a_temperature_of_0_are_no_distribution(others, is_none):
    top = [{"token": str(k), "logprob": value} for k, value in enumerate((0.0, *others))]
    content = [{"token": "0", "logprob": 0.0, "top_logprobs": top}]
    answer = {"choices": [{"message": {"content": "0"}, "logprobs": {"content": content}, "finish_reason": "stop"}]}
    if not is_none:
        assert chat(answer).top([Prompt("", "x")], n_tokens=3)[0].tables[0]["0"] == 1.0
        return
    with pytest.raises(ModelError, match="invalid logprobs: only one token has a probability"):
        chat(answer).top([Prompt("", "x")], n_tokens=3)


def test_a_batch_that_asks_again_what_was_cut_does_not_read_what_it_must_not_use():
    made = server({"choices": [{"message": {"content": "72"}, "finish_reason": "stop"}]})
    made.kept = Kept()
    made.forget("/chat/completions", [{"n": 0}])
    batches = Batches(made, say=lambda _: None)
    assert batches.ask_all("/chat/completions", [{"n": 0}], lambda answer: len(answer["choices"])) == [1]


def batch_of(change):
    """Ask a server for a hundred answers, 7 each, in one batch whose lines are changed; one by one it says "alone"."""

    def answer(method, url):
        path = url.removeprefix("http://localhost/v1")
        if path != "/files/o/content":
            done = {"id": "b", "status": "completed", "output_file_id": "o"}
            return {"/files": {"id": "f"}, "/batches": {"id": "b"}, "/batches/b": done}.get(path, {"text": "alone"})
        lines = [{"custom_id": name, "response": {"status_code": 200, "body": {"text": "7"}}} for name in names]
        return "\n".join(map(json.dumps, change(lines))).encode()

    payloads = [{"n": place} for place in range(100)]
    names = [_short(name) for name in request_names("/chat/completions", payloads)]
    batches = Batches(server(answer), say=lambda _: None)
    return batches.ask_all("/chat/completions", payloads, lambda each: each["text"])


def other(line, code=200):
    return {**line, "response": {"status_code": code, "body": {"text": "9"}}}


def test_two_answers_of_a_batch_to_one_request_are_none():
    for change in (lambda lines: [*lines, lines[0]], lambda lines: [other(lines[0], 503), *lines]):
        assert batch_of(change) == ["7"] * 100
    with pytest.raises(ModelError, match="file o of batch b has two different answers to one request"):
        batch_of(lambda lines: [*lines, other(lines[0])])


def test_an_answer_of_a_batch_beside_an_error_is_none():
    found = batch_of(lambda lines: [lines[0] | {"error": {"code": "cut"}}, *lines[1:]])
    assert found == ["alone", *["7"] * 99]
