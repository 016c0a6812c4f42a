"""Lines of answers in the forms of providers' batches, built from the vendors' documentation, one of each outcome."""

import json

import pytest

from audit.engines.answered import read_answers_file
from audit.errors import ConfigError

THINKS = "The loss was great: 90."


def openai(status="completed", *, content=None, output=None, reason=None, code=200, error=None):
    body = {
        "id": "resp_1", "object": "response", "status": status, "model": "m-2026-01-01", "error": None,
        "incomplete_details": None if reason is None else {"reason": reason}, "truncation": "disabled",
        "text": {"format": {"type": "text"}}, "reasoning": {"effort": "low", "summary": None},
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": THINKS}]},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content},
        ] if output is None else output,
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }  # fmt: skip
    return {"id": "batch_req_1", "custom_id": "RUN-0", "error": error,
            "response": {"status_code": code, "request_id": "r", "body": body}}  # fmt: skip


def anthropic(kind="succeeded", *, content=None, stop="end_turn", **more):
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
        "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 2},
    }  # fmt: skip
    return {"custom_id": "RUN-0", "result": {"type": kind, **({"message": message} if kind == "succeeded" else more)}}


def gemini(parts=None, *, reason="STOP", feedback=None):
    content = {"content": {"role": "model", **({} if parts is None else {"parts": parts})}}
    told = {"usageMetadata": {"promptTokenCount": 9}, "modelVersion": "m", "responseId": "x"}
    candidates = {} if feedback else {"candidates": [{**content, "finishReason": reason, "index": 0}]}
    return {
        "key": "RUN-0",
        "response": {**candidates, **({"promptFeedback": feedback} if feedback else {}), **told},
    }


def ollama(content, *, done="stop", **more):
    message = {"role": "assistant", "content": content, **more}
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True, "done_reason": done}


TEXT = [{"type": "output_text", "text": "70", "annotations": [], "logprobs": []}]
# name: line, and text, cut, refused; None if the answer is missing
LINES = {
    "OpenAI": (openai(content=TEXT), ("70", False, False)),
    "OpenAI, cut": (openai("incomplete", content=TEXT, reason="max_output_tokens"), ("70", True, False)),
    "OpenAI, thoughts alone": (
        openai("incomplete", output=[{"type": "reasoning", "summary": []}], reason="max_output_tokens"),
        ("", True, False),
    ),
    "OpenAI, nothing": (openai("incomplete", output=[], reason="max_output_tokens"), ("", True, False)),
    "OpenAI, a refusal": (openai(content=[{"type": "refusal", "refusal": "I can't."}]), ("I can't.", False, True)),
    "OpenAI, filtered": (openai("incomplete", output=[], reason="content_filter"), ("", True, True)),
    "OpenAI, an error": (openai(content=TEXT, code=500), None),
    "OpenAI, expired": (openai(content=TEXT, error={"code": "batch_expired", "message": "no"}), None),
    "Anthropic": (anthropic(content=[{"type": "text", "text": "70"}]), ("70", False, False)),
    "Anthropic, with a thought": (
        anthropic(content=[{"type": "thinking", "thinking": THINKS, "signature": "x"}, {"type": "text", "text": "70"}]),
        ("70", False, False),
    ),
    "Anthropic, cut": (anthropic(content=[{"type": "text", "text": "7"}], stop="max_tokens"), ("7", True, False)),
    "Anthropic, refused": (anthropic(content=[], stop="refusal"), ("", False, True)),
    "Anthropic, an error": (anthropic("errored", error={"type": "error", "error": {"type": "overloaded"}}), None),
    "Anthropic, expired": (anthropic("expired"), None),
    "Anthropic, cancelled": (anthropic("canceled"), None),
    "Gemini": (gemini([{"text": "70"}]), ("70", False, False)),
    "Gemini, with a thought": (gemini([{"text": THINKS, "thought": True}, {"text": "70"}]), ("70", False, False)),
    "Gemini, cut": (gemini([{"text": "7"}], reason="MAX_TOKENS"), ("7", True, False)),
    "Gemini, thoughts alone": (gemini(reason="MAX_TOKENS"), ("", True, False)),
    "Gemini, stopped": (gemini(reason="SAFETY"), ("", False, True)),
    "Gemini, blocked": (gemini(feedback={"blockReason": "PROHIBITED_CONTENT"}), ("", None, True)),
    "Gemini, an error": ({"key": "RUN-0", "error": {"code": 500, "message": "internal"}}, None),
    "Ollama": ({"id": "RUN-0", "response": ollama("70")}, ("70", False, False)),
    "Ollama, with a thought": ({"id": "RUN-0", "response": ollama("70", thinking=THINKS)}, ("70", False, False)),
    "Ollama, its own keys": ({"id": "RUN-0", **ollama("7", done="length")}, ("7", True, False)),
    "Ollama, generate": ({"id": "RUN-0", "response": "70", "done": True, "done_reason": "stop"}, ("70", False, False)),
}  # fmt: skip


def read(path, *lines):
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return read_answers_file(path, export="RUN", n_prompts=2)


@pytest.mark.parametrize("name", LINES)
def test_a_provider_s_line_is_read_with_how_it_ended(name, tmp_path):
    line, expected = LINES[name]
    found = read(tmp_path / "answers.jsonl", line, {"id": "RUN-1", "text": "5"})
    if expected is None:
        assert (sorted(found.texts), found.n_without) == ([1], 1)
    else:
        own = found.texts[0]
        assert (own.text, own.cut, own.refused) == expected


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"key": "RUN-0", "response": {"candidates": [{"content": {}}] * 2}}, "has 2 candidates, .* one answer per"),
        ({"key": "RUN-0", "response": gemini([{"inlineData": {}}])["response"]}, "with a part that is not text"),
        ({"custom_id": "RUN-0", "result": {"type": "succeeded"}}, "result is not a chat completion"),
        ({"id": "RUN-0", "message": "70"}, "has no model text"),
        ({"id": "RUN-0", "response": {"output": "70"}}, "is not a chat completion"),
    ],
)
def test_a_line_that_is_nearly_one_is_refused_with_its_place(line, says, tmp_path):
    with pytest.raises(ConfigError, match=rf"answers.jsonl: line 1.*{says}"):
        read(tmp_path / "answers.jsonl", line)


@pytest.mark.parametrize(
    "line",
    [
        {"id": "RUN-0", "text": "Error 503: try again in 60 s", "error": {"code": "overloaded"}},
        {"id": "RUN-0", "text": "7", "error": "the connection was lost"},
        {"id": "RUN-0", "response": {"status_code": 200, "body": {"error": {"code": 1}, "output": [{"text": "70"}]}}},
    ],
)
def test_a_text_beside_an_error_is_no_answer(line, tmp_path):
    found = read(tmp_path / "answers.jsonl", line, {"id": "RUN-1", "text": "5", "error": None})
    assert (sorted(found.texts), found.n_without) == ([1], 1)


def test_a_text_beside_an_error_in_a_table_is_no_answer(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("id,text,error\nRUN-0,60,timeout\nRUN-1,5,\n")
    found = read_answers_file(path, export="RUN", n_prompts=2)
    assert (sorted(found.texts), found.n_without) == ([1], 1)


def of_model(name, form):
    body = {"model": name, "choices": [{"message": {"content": "7"}, "finish_reason": "stop"}]}
    return {
        "line": {"text": "7", "model": name},
        "completion": {"response": body},
        "batch": {"response": {"status_code": 200, "body": body}, "error": None},
        "anthropic": {"result": {"type": "succeeded", "message": {"content": [{"text": "7"}], "model": name}}},
        "gemini": {"response": {"candidates": [{"content": {"parts": [{"text": "7"}]}}], "modelVersion": name}},
    }[form]


@pytest.mark.parametrize("form", ["line", "completion", "batch", "anthropic", "gemini"])
def test_answers_of_two_models_are_no_run(form, tmp_path):
    path = tmp_path / "answers.jsonl"
    one, other = ({"custom_id": f"RUN-{k}", **of_model(name, form)} for k, name in enumerate(("a-1", "b-2")))
    assert read(path, one, {"id": "RUN-1", "text": "5"}).model == "a-1"
    with pytest.raises(ConfigError, match=r"line 2: is an answer of model 'b-2', but that on line 1 is of 'a-1'"):
        read(path, one, other)
