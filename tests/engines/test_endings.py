"""What says that a text is not whole: the signs of real servers, beside a text, in a completion and in a table."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest

from audit.engines.answered import _remarks, read_answers_file
from audit.engines.endings import ending_of
from audit.engines.inspect_log import InspectLog, _shown, generated
from audit.errors import ConfigError

CUT = {
    "openai": {"finish_reason": "length"},
    "openai responses": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    "details alone": {"incomplete_details": {"reason": "max_output_tokens"}},
    "status alone": {"status": "incomplete"},
    "anthropic": {"stop_reason": "max_tokens", "stop_sequence": None},
    "anthropic, at the context's end": {"stop_reason": "model_context_window_exceeded"},
    "gemini": {"finishReason": "MAX_TOKENS"},
    "gemini, as python writes it": {"finish_reason": "FinishReason.MAX_TOKENS"},
    "gemini, by number": {"finish_reason": 2},
    "gemini, which recited": {"finishReason": "RECITATION"},
    "gemini, which recited, to openai's clients": {"finish_reason": "content_filter: RECITATION"},
    "bedrock": {"stopReason": "max_tokens"},
    "titan": {"completionReason": "LENGTH"},
    "cohere": {"finish_reason": "MAX_TOKENS"},
    "mistral": {"finish_reason": "model_length"},
    "watsonx": {"stop_reason": "TOKEN_LIMIT"},
    "ollama": {"done": True, "done_reason": "length"},
    "ollama, a part of a stream": {"done": False},
    "llama.cpp": {"stop_type": "limit", "truncated": False},
    "llama.cpp, earlier": {"stopped_limit": True},
    "llama.cpp, a cut context": {"truncated": True, "stop_type": "eos"},
    "vllm": {"finish_reason": "length", "stop_reason": None},
    "vllm, aborted": {"finish_reason": "abort"},
    "sglang": {"meta_info": {"finish_reason": {"type": "length", "length": 8}}},
    "ai21": {"finishReason": {"reason": "length", "length": 8}},
    "tgi": {"details": {"finish_reason": "length"}},
    "openrouter": {"finish_reason": None, "native_finish_reason": "MAX_TOKENS"},
    "langchain": {"response_metadata": {"finish_reason": "length"}},
    "lm studio": {"stats": {"stopReason": "maxPredictedTokensReached"}},
    "one's own": {"truncated": "yes"},
    "one's own, otherwise": {"is_complete": "no"},
    "a part that was cut": {"finish_reason": "stop", "truncated": True},
}
WHOLE = {
    "openai": {"finish_reason": "stop"},
    "openai, a tool": {"finish_reason": "tool_calls"},
    "openai responses": {"status": "completed", "incomplete_details": None},
    "anthropic": {"stop_reason": "end_turn"},
    "anthropic, a mark": {"stop_reason": "stop_sequence", "stop_sequence": "\n"},
    "gemini": {"finishReason": "STOP"},
    "gemini, by number": {"finish_reason": 1},
    "bedrock": {"stopReason": "end_turn"},
    "titan": {"completionReason": "FINISH"},
    "cohere": {"finish_reason": "COMPLETE"},
    "ollama": {"done": True, "done_reason": "stop"},
    "vllm, by a token": {"finish_reason": "stop", "stop_reason": 128009},
    "vllm, by a text": {"finish_reason": "stop", "stop_reason": "</answer>"},
    "tgi": {"details": {"finish_reason": "eos_token"}},
    "one's own": {"truncated": False},
}
DECLINED = {
    "openai": {"finish_reason": "content_filter"},
    "gemini, to openai's clients": {"finish_reason": "content_filter: PROHIBITED_CONTENT"},
    "openai responses": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    "anthropic": {"stop_reason": "refusal"},
    "gemini": {"finishReason": "SAFETY"},
    "bedrock": {"stopReason": "guardrail_intervened"},
    "cohere": {"finish_reason": "ERROR_TOXIC"},
}
UNSAID = {
    "nothing": {},
    "null": {"finish_reason": None},
    "an empty cell": {"finish_reason": " ", "truncated": ""},
    "a cell without a value": {"finish_reason": "NaN"},
    "inspect": {"stop_reason": "unknown"},
    "gemini": {"finishReason": "FINISH_REASON_UNSPECIFIED"},
    "a request that is done": {"done": True},
    "a request's status": {"status": "completed"},
    "a status of one's own": {"status": "ok"},
    "a status of HTTP": {"status": 200},
    "what was asked": {"request": {"stop_reason": "length"}, "messages": [{"finish_reason": "length"}]},
}
UNKNOWN = {
    "a reason": {"finish_reason": "tired"},
    "a mark alone": {"stop_reason": "</answer>"},
    "a number": {"finish_reason": 77},
    "a flag": {"truncated": "perhaps"},
}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        *((told, (True, False)) for told in CUT.values()),
        *((told, (False, False)) for told in WHOLE.values()),
        *((told, ("either", True)) for told in DECLINED.values()),
        *((told, (None, False)) for told in UNSAID.values()),
    ],
)
def test_how_a_text_ended_is_told_by_the_signs_of_real_servers(told, expected):
    ending = ending_of({"id": "a-0", "text": "I would say 8", **told})
    assert (ending.cut if expected[0] != "either" else "either", ending.declined) == expected
    assert not ending.unknown


@pytest.mark.parametrize("told", UNKNOWN.values())
def test_a_sign_that_nobody_knows_is_no_whole_text(told, tmp_path):
    assert ending_of(told).unknown
    assert ending_of(told).at_worst is True
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a-0", "text": "I would say 8", **told}))
    with pytest.raises(ConfigError, match=r"line 1 has .*, which is not a known ending"):
        read_answers_file(tmp_path / "a.jsonl", export="a", n_prompts=1)


def csv(frame, path):
    frame.to_csv(path, index=False)


def workbook(frame, path):
    pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbooks, is not installed")
    frame.to_excel(path, index=False)


FORMS = {
    "a.csv": csv,
    "a.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "a.xlsx": workbook,
    "a.parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "a.jsonl": partial(pd.DataFrame.to_json, orient="records", lines=True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("finish_reason", ["length", "stop", None, "content_filter"]),
        ("Finish Reason", ["MAX_TOKENS", "STOP", "", "SAFETY"]),
        ("finishReason", ["MAX_TOKENS", "STOP", None, "SAFETY"]),
        ("stop_reason", ["max_tokens", "end_turn", None, "refusal"]),
        ("done_reason", ["length", "stop", None, "content_filter"]),
    ],
)
def test_a_table_tells_it_in_a_column_as_a_line_does_by_a_name(form, column, values, tmp_path):
    frame = pd.DataFrame({"id": [f"a-{n}" for n in range(4)], "text": ["I would say 8"] * 4, column: values})
    FORMS[form](frame, tmp_path / form)
    found = read_answers_file(tmp_path / form, export="a", n_prompts=4)
    assert [each.cut for each in found.texts.values()] == [True, False, None, False]
    assert [each.refused for each in found.texts.values()] == [False, False, False, True]
    assert found.n_unsigned == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_table_says_it_with_true_and_false(form, tmp_path):
    frame = pd.DataFrame({"id": ["a-0", "a-1"], "text": ["I would say 8"] * 2, "truncated": [True, False]})
    FORMS[form](frame, tmp_path / form)
    found = read_answers_file(tmp_path / form, export="a", n_prompts=2)
    assert [each.cut for each in found.texts.values()] == [True, False]


@pytest.mark.parametrize("form", ["a.csv", "a.xlsx", "a.parquet"])
def test_a_value_that_nobody_knows_is_named_with_its_row(form, tmp_path):
    frame = pd.DataFrame({"id": ["a-0", "a-1"], "text": ["8", "8"], "finish_reason": ["stop", "tired"]})
    FORMS[form](frame, tmp_path / form)
    with pytest.raises(ConfigError, match=r"(line|row) \d+ has finish_reason='tired'"):
        read_answers_file(tmp_path / form, export="a", n_prompts=2)


def batch(body, **more):
    return {"custom_id": "a-0", "response": {"status_code": 200, "body": body}, "error": None, **more}


MESSAGE = {"content": "I would say 8"}
PARTS = [{"type": "text", "text": "I would say 8"}]
CUT_LINES = {
    "a batch of completions": batch({"choices": [{"message": MESSAGE, "finish_reason": "length"}]}),
    "a batch of responses": batch(
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"type": "message", "status": "completed", "content": PARTS}],
        }
    ),
    "a message of anthropic's": batch({"type": "message", "content": PARTS, "stop_reason": "max_tokens"}),
    "a completion of parts": {
        "id": "a-0",
        "response": {"choices": [{"message": {"content": PARTS}, "finish_reason": "length"}]},
    },
    "parts beside it": {"id": "a-0", "content": PARTS, "stopReason": "max_tokens"},
    "a sign beside a completion": {"id": "a-0", "response": {"choices": [{"message": MESSAGE}]}, "truncated": True},
}


@pytest.mark.parametrize("line", CUT_LINES.values(), ids=CUT_LINES)
def test_a_line_tells_it_wherever_it_stands(line, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    [text] = read_answers_file(tmp_path / "a.jsonl", export="a", n_prompts=1).texts.values()
    assert (text.text, text.cut, text.refused) == ("I would say 8", True, False)


@pytest.mark.parametrize(
    ("reason", "cut", "refused"),
    [
        ("stop", False, False),
        ("max_tokens", True, False),
        ("model_length", True, False),
        ("unknown", None, False),
        ("content_filter", False, True),
    ],
)
def test_a_log_of_inspect_tells_it_too(reason, cut, refused):
    choice = SimpleNamespace(message=SimpleNamespace(text="I would say 8"), stop_reason=reason)
    found = generated(SimpleNamespace(choices=[choice]))
    assert (found.cut, found.refused) == (cut, refused)


def test_what_a_model_was_shown_ends_before_its_answer():
    messages = [SimpleNamespace(role=role, text=role) for role in ("system", "user", "assistant")]
    answered = SimpleNamespace(messages=messages, output=SimpleNamespace(choices=["a"]))
    silent = SimpleNamespace(messages=messages[:2], output=SimpleNamespace(choices=[]))
    asked = [("system", "system"), ("user", "user")]
    assert (list(_shown(answered)), list(_shown(silent))) == (asked, asked)


@pytest.mark.parametrize(
    ("temperature", "said"), [(None, "was given no temperature"), (0.7, "at temperature 0.7"), (0, "")]
)
def test_a_log_whose_answers_were_drawn_is_remarked_on(temperature, said):
    found = list(_remarks(InspectLog("m", "Inspect", temperature, ())))
    assert [said in each for each in found] == ([True] if said else [])
