"""Ratings of served models are within their bound or missing: planted distributions, impossible ones, cut prompts."""

from __future__ import annotations

import io
import json
import math
import re
from urllib.parse import quote

import pandas as pd
import pytest
from digits import Digits
from hostile import KEY, Hostile, say
from runs import FOUR_RELIGIONS

from audit import open_run
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.generate import GenerateElicitation
from audit.configuration.engine import ServerConfig
from audit.engines.base import TopTokens
from audit.engines.next_tokens import ImpossibleError, NextTokens
from audit.engines.open import open_model
from audit.engines.refusals import meaning_of
from audit.errors import ModelError
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Scale

pytestmark = pytest.mark.server

HUNDRED = Scale(0, 100)
QUICK = {"backoff_s": 0.01, "timeout_s": 5, "concurrency": 4, "retries": 2}
PROMPTS = [Prompt("Judge.", f"How sad is number {place}?") for place in range(6)]
# Means by hand: .6 · 72 + .4 · 80 = 75.2; .46875 · 72 + .53125 · 80 = 76.25: in-group 1.05 higher. An "8" that is not
# followed and counts as 8 makes them .6 · 72 + .4 · 8 = 46.4 and .53125 · 80 + .46875 · 7 = 45.78.
OUT, IN = {72: 0.6, 80: 0.4}, {72: 0.46875, 80: 0.53125}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    monkeypatch.setattr("audit.engines.open._kept", None)


@pytest.fixture
def opened(tiny_config):
    engines = []

    def at(url):
        model, engine = tiny_config("tiny", engine="openai", dtype="auto", base_url=url, api_key_env="TESTS_KEY")
        engines.append(open_model(model, engine.model_copy(update={"server": ServerConfig(**QUICK)}), seed=3).engine)
        return engines[-1]

    yield at
    for engine in engines:
        engine.close()


def rate(server, opened, prompts=PROMPTS[:2], points=1.0):
    with server.serving() as url:
        return ExpectedElicitation.of(HUNDRED, points).elicit(opened(url), prompts)


# --- Bounds ----------------------------------------------------------------------------------------------------------


def test_digits_that_were_not_followed_are_asked_where_the_server_goes_on(opened):
    wide = {number: 1 / 101 for number in range(101)}
    for numbers, mean in ((OUT, 75.2), (IN, 76.25), ({8: 0.5, 80: 0.3, 100: 0.2}, 48.0), (wide, 50.0)):
        server = Digits(numbers=lambda text, numbers=numbers: numbers)
        for each in rate(server, opened):
            assert each.status is Status.RATED
            assert abs(each.intensity - mean) <= each.pruned_points + 1e-9
            assert each.pruned_points <= 1
            assert each.number_mass == pytest.approx(1, abs=0.05)


def test_a_rating_that_is_known_too_inexactly_is_missing_where_the_server_does_not_go_on(opened):
    server = Digits(numbers=lambda text: OUT, goes_on=False)
    for each in rate(server, opened):
        assert each.status is Status.INEXACT
        assert math.isnan(each.intensity)
        assert math.isnan(each.mode)
        assert each.pruned_points > 1 or math.isnan(each.pruned_points)
    assert server.n < 2 + 1 + 4  # that it does not go on is found once


def test_an_8_that_was_not_followed_is_no_rating_however_likely(opened):
    # One place is told: 8, or anything from 80 to 89.
    server = Digits(numbers=lambda text: {80: 0.999, 8: 0.001}, goes_on=False)
    place = server.place
    server.place = lambda asked, table, token, n: place(asked, table, token, n)
    whole = server.whole
    server.whole = lambda body, text: whole(body | {"max_tokens": 1}, text)
    assert {each.status for each in rate(server, opened)} == {Status.INEXACT}


def test_what_no_question_tells_keeps_a_rating_missing(opened):
    # Two tokens a place are told, of four tens that are as likely: half of the mass could be anywhere.
    spread = {11: 0.28, 33: 0.26, 55: 0.24, 77: 0.22}
    assert {each.status for each in rate(Digits(numbers=lambda text: spread, told=2), opened)} == {Status.INEXACT}
    assert {each.status for each in rate(Digits(numbers=lambda text: spread, told=4), opened)} == {Status.RATED}


def test_a_wider_limit_takes_wider_ratings(opened):
    server = Digits(numbers=lambda text: {72: 0.98, 80: 0.02}, goes_on=False)
    # The 8 of .02 is 8, 80 to 89 or none: from (70.56 + .16) / 1 = 70.72 to (70.56 + 1.78) / 1 = 72.34.
    assert {each.status for each in rate(server, opened, points=1.0)} == {Status.INEXACT}
    [rated, _] = rate(server, opened, points=1.5)
    assert (rated.status, rated.intensity) == (Status.RATED, 72)
    assert rated.pruned_points == pytest.approx(72 - 70.72)


def asked_for(url, run, *more):
    settings = (f"engine.server.{name}={value}" for name, value in QUICK.items())
    return [
        "run", "model=llama-cpp", "model.path=tiny", f"model.base_url={url}", "model.api_key_env=TESTS_KEY", *settings,
        "elicitation=expected", "stimuli.situations_per_emotion=2", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS,
        "stimuli.unspecified=false", "stimuli.no_persona=false", "elicitation.check_sample=0",
        "elicitation.noise_sample=0", "elicitation.manipulation=0", "statistics.n_permutations=100", f"run_dir={run}",
        *more,
    ]  # fmt: skip


def planted(text):
    told = [name for name in ("Buddhist", "Christian", "Hindu", "Muslim") for _ in range(text.count(f"a {name}"))]
    told += [name for name in ("Buddhist", "Christian", "Hindu", "Muslim") for _ in range(text.count(f"A {name}"))]
    mean = IN if len(set(told)) == 1 else OUT
    # Narratives differ a little, so that there is an interval.
    shift = (len(text.split()) % 3 - 1) / 100
    return {72: mean[72] - shift, 80: mean[80] + shift}


def test_a_planted_gap_is_found_with_its_sign_or_not_at_all(audit, tmp_path):
    server = Digits(numbers=planted)
    with server.serving() as url:
        assert audit(*asked_for(url, tmp_path / "run")) == 0
        server.goes_on = False
        assert audit(*asked_for(url, tmp_path / "alone")) == 0
    found, alone = open_run(tmp_path / "run"), open_run(tmp_path / "alone")
    [row] = found.headline.to_dict("records")
    assert set(found.answers["status"].astype(str)) == {"rated"}
    assert row["delta"] == pytest.approx(1.05, abs=0.02)
    gap = pd.read_csv(tmp_path / "run" / "tables" / "gap.csv").iloc[0]
    assert gap["bound_low"] <= gap["delta"] <= gap["bound_high"]
    assert gap["bound_high"] - gap["bound_low"] < 4  # twice a sum of |weights| of 2 times a point
    counts = alone.answers["status"].astype(str).value_counts()
    assert counts.to_dict() == {"inexact": len(alone.answers)}
    assert alone.headline["delta"].isna().all()
    assert alone.manifest.counts["inexact"] == len(alone.answers)
    outcomes = pd.read_csv(tmp_path / "alone" / "tables" / "outcomes.csv")
    assert (outcomes["n_inexact"] == outcomes["n_prompts"]).all()
    page = (tmp_path / "alone" / "report.html").read_text()
    assert "inexact" in page
    assert audit("gate", str(tmp_path / "alone"), "margin=2") != 1
    assert audit("verify", str(tmp_path / "alone")) == 0


# --- Probabilities that cannot be ------------------------------------------------------------------------------------


def entries(*pairs):
    return [{"token": token, "logprob": value} for token, value in pairs]


IMPOSSIBLE = {
    "probabilities": lambda text, listed: [each | {"logprob": math.exp(each["logprob"])} for each in listed],
    "logits": lambda text, listed: [each | {"logprob": 20 + each["logprob"]} for each in listed],
    "zeros": lambda text, listed: [each | {"logprob": 0.0} for each in listed] + entries(("x", 0.0)),
    "sum of 3": lambda text, listed: entries(("7", 0.0), ("8", 0.0), ("9", 0.0)),
    "one token often": lambda text, listed: [each | {"logprob": math.log(0.04)} for each in listed[:1]] * 20,
    "not a number": lambda text, listed: [each | {"logprob": math.nan} for each in listed],
    "minus infinity": lambda text, listed: [*listed, {"token": "y", "logprob": -math.inf}],
    "another token": lambda text, listed: entries(("nothing", -0.1)),
    "texts": lambda text, listed: [each | {"logprob": str(each["logprob"])} for each in listed],
    "true": lambda text, listed: [each | {"logprob": False} for each in listed],
    "nothing": lambda text, listed: [],
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_a_server_that_tells_what_cannot_be_probabilities_is_refused_in_one_line(opened, kind):
    server = Digits(numbers=lambda text: OUT, spoilt=IMPOSSIBLE[kind])
    with pytest.raises(ModelError, match="use elicitation=generate") as raised:
        rate(server, opened)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_one_answer_of_what_cannot_be_probabilities_has_failed_and_others_are_rated(opened, kind):
    def spoilt(text, listed):
        return IMPOSSIBLE[kind](text, listed) if "number 1?" in text else listed

    outcomes = rate(Digits(numbers=lambda text: OUT, spoilt=spoilt), opened, PROMPTS[:3])
    assert [each.status for each in outcomes] == [Status.RATED, Status.FAILED, Status.RATED]


def test_probabilities_at_a_place_are_held_against_what_they_can_be():
    half = math.log(0.5)
    assert dict(NextTokens.of_logs([(1, "a", half), (2, "b", half)], chosen="b")) == pytest.approx({"a": 0.5, "b": 0.5})
    assert NextTokens({"a": 0.25})["a"] == 0.25
    # Parts of letters and marks look alike: their probabilities are those of different tokens.
    assert dict(NextTokens.of_logs([(1, "", half), (2, "", half)], chosen="")) == pytest.approx({"": 1.0})
    for told in ([(1, "a", half), (1, "a", half)], [(1, "a", 0.1)], [(1, "a", -0.1), (2, "b", -0.1)],
                 [(1, "a", math.nan)], [(1, "a", 10**400)], [(1, "a", None)], [(1, "a", True)]):  # fmt: skip
        with pytest.raises(ImpossibleError):
            NextTokens.of_logs(told)
    with pytest.raises(ImpossibleError, match="'c'"):
        NextTokens.of_logs([(1, "a", half)], chosen="c")
    for table in ({"a": 1.2}, {"a": -0.1}, {"a": 0.6, "b": 0.6}, {"a": math.inf}):
        with pytest.raises(ImpossibleError):
            TopTokens(("a",), (table,), None)


# --- What a server says of an error ----------------------------------------------------------------------------------


def refusing(opened, answer, status, prompts=PROMPTS):
    server = Hostile()
    post = server.post

    def picky(handler):
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        if b"number 3?" in raw:
            say(handler, answer(json.loads(raw)), status=status)
            return
        handler.rfile = io.BytesIO(raw)
        post(handler)

    server.post = picky
    with server.serving() as url:
        return GenerateElicitation(HUNDRED, 16, "scale").elicit(opened(url), prompts)


TOLD = "In the context of my work I felt the content_filter was too long a wait: number 3?"
ECHOES = {
    "a list of faults that has the input": lambda body: {
        "detail": [{"type": "missing", "loc": ["body", "x"], "msg": "Field required", "input": body}]
    },
    "the input beside the error": lambda body: {"error": {"message": "Unprocessable", "code": 422}, "input": body},
    "the input within the error": lambda body: {"error": {"message": "No", "code": None, "param": body}},
    "the input in the message": lambda body: {"error": {"message": f"cannot take {body['messages'][-1]['content']}"}},
    "the input in an error that is a text": lambda body: {"error": f"bad input: {body['messages'][-1]['content']}"},
    **{
        f"the input {how} in the {where}": lambda body, change=change, where=where: {
            "error": {"message": "bad input", "code": None} | {where: change(body["messages"][-1]["content"])}
        }
        for where in ("message", "code")
        for how, change in {
            "in capitals": str.upper,
            "with doubled spaces": lambda told: told.replace(" ", "  "),
            "with breaks of lines": lambda told: told.replace(" ", "\r\n"),
            "as a part of an address": lambda told: quote(told, safe="").replace("_", "%5F"),
            "as JSON": lambda told: json.dumps(json.dumps(told)).replace(" ", "\\u0020"),
            "as HTML": lambda told: told.replace(" ", "&nbsp;").replace("_", "&#95;"),
            "without its marks": lambda told: re.sub(r"\W|_", " ", told),
            "in part": lambda told: told[10:][told[10:].index("con") :][:18],
        }.items()
    },
}
SHORT = "How long is the context length, number 3?"


@pytest.mark.parametrize("kind", ECHOES)
def test_words_of_a_narrative_that_an_error_repeats_say_nothing_of_it(opened, kind):
    for told in (TOLD, SHORT):
        with pytest.raises(ModelError, match=r"rejected the request \(HTTP 422"):
            refusing(opened, ECHOES[kind], 422, [Prompt("Judge.", told), *PROMPTS[:2]])


@pytest.mark.parametrize("told", ["content_filter", "context_length_exceeded"])
def test_a_code_that_is_all_that_was_sent_says_nothing_of_it(told):
    sent = {"messages": [{"role": "user", "content": told}]}
    assert meaning_of({"error": {"code": told.upper(), "message": "No"}}, sent) == ""
    assert meaning_of({"error": {"code": told.upper(), "message": "No"}}, {}) != ""
    # A known code counts where the prompt has it among other words: a server's codes are words of its own.
    among = {"messages": [{"role": "user", "content": f"I wrote {told} on the wall."}]}
    assert meaning_of({"error": {"code": told, "message": f"I wrote {told} on the wall."}}, among) != ""
    assert meaning_of({"error": {"code": f"I wrote {told} on the wall.", "message": "No"}}, {}) == ""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "too much", "code": "context_length_exceeded"}, Status.FAILED),
        ({"message": "the request exceeds the available context size. try increasing it", "code": 400}, Status.FAILED),
        ({"message": "prompt is too long: 9000 tokens > 8192 maximum", "code": None}, Status.FAILED),
        ({"message": "Please reduce the length of the messages."}, Status.FAILED),
        ({"message": "blocked", "code": "content_filter"}, Status.REFUSED),
        ({"message": "Your request was rejected as a result of our safety system."}, Status.REFUSED),
        ({"message": "The prompt triggered our content management policy", "code": "x"}, Status.REFUSED),
        ({"message": "No", "type": "exceed_context_size_error", "code": 400}, Status.FAILED),
        ({"message": "No", "code": "y", "innererror": {"code": "ResponsibleAIPolicyViolation"}}, Status.REFUSED),
        ("prompt is too long", Status.FAILED),
        ([{"msg": "Value error", "type": "string_too_long", "input": "x"}], Status.FAILED),
        # The code counts before words, and words that the prompt has not, whatever stands beside them.
        ({"message": "Your content filter was set", "code": "context_length_exceeded"}, Status.FAILED),
        ({"message": "How sad is number 3? It is blocked by our content policy"}, Status.REFUSED),
    ],
)
@pytest.mark.parametrize("within", ["error", "detail"])
def test_a_refusal_is_read_from_code_and_message(opened, error, status, within):
    outcomes = refusing(opened, lambda body: {within: error}, 400)
    assert [each.status for each in outcomes] == [status if place == 3 else Status.RATED for place in range(6)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        # xAI, OpenRouter, OpenAI's o1.
        ({"code": "permission-denied", "error": "Content violates usage guidelines. Failed check: BIO"}, 403),
        ({"error": {"code": 403, "message": "It requires moderation. Your input was flagged", "metadata": {}}}, 403),
        ({"error": {"code": "x", "message": "Invalid prompt: your prompt was flagged as violating our policy."}}, 400),
        # With code 200, as gateways answer.
        ({"error": {"code": "content_filter", "message": "No"}}, 200),
        ({"error": {"code": 403, "message": "your input was flagged"}, "choices": []}, 200),
        # Gemini's interface for OpenAI's clients: no message.
        ({"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]}, 200),
    ],
)
@pytest.mark.parametrize("way", ["generate", "expected"])
def test_a_filter_of_any_provider_is_a_refusal_of_that_prompt(opened, body, status, way):
    server = Digits(numbers=lambda text: {5: 1.0})
    post = server.post

    def picky(handler):
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        if b"number 3?" in raw:
            say(handler, body, status=status)
            return
        handler.rfile = io.BytesIO(raw)
        post(handler)

    server.post = picky
    elicitation = GenerateElicitation(HUNDRED, 16, "scale") if way == "generate" else ExpectedElicitation.of(HUNDRED, 9)
    with server.serving() as url:
        outcomes = elicitation.elicit(opened(url), PROMPTS)
    assert [each.status for each in outcomes] == [Status.REFUSED if place == 3 else Status.RATED for place in range(6)]


def test_an_account_that_is_refused_is_no_refusal_of_a_prompt(opened):
    for said in ("Access to the chat endpoint is denied", "Your account was suspended: it violates our policy"):
        with pytest.raises(ModelError, match=r"rejected the key \(HTTP 403: "):
            refusing(opened, lambda body, said=said: {"error": {"message": said}}, 403)


def test_an_answer_without_a_text_has_failed_and_the_others_are_rated(opened):
    class Silent(Digits):
        def whole(self, body, text):
            answer = super().whole(body, text)
            if "number 3?" in text:
                answer["choices"] = [{"index": 0, "message": {"content": None}, "finish_reason": "length"}]
            return answer

    outcomes = rate(Silent(numbers=lambda text: {5: 1.0}), opened, PROMPTS, points=9)
    assert [each.status for each in outcomes] == [Status.FAILED if place == 3 else Status.RATED for place in range(6)]


# --- Prompts that are cut --------------------------------------------------------------------------------------------


def growing(*lengths):
    return [Prompt("Judge.", f"{'word ' * length}How sad is it, {length}?") for length in lengths]


def n_asked(server):
    return sum("How sad" in text and "How sad is number" not in text for text in server.asked)


@pytest.mark.parametrize("way", ["generate", "expected"])
@pytest.mark.parametrize(("context", "lengths"), [(40, (20, 60, 90)), (40, (60, 90)), (400, (20, 700)), (900, (950,))])
def test_a_server_that_cuts_prompts_is_noticed(opened, context, lengths, way):
    server = Digits(numbers=lambda text: OUT, context=context)
    elicitation = (
        GenerateElicitation(HUNDRED, 16, "scale") if way == "generate" else ExpectedElicitation.of(HUNDRED, 1.0)
    )
    with server.serving() as url, pytest.raises(ModelError, match=r"cuts off long prompts.*num_ctx"):
        elicitation.elicit(opened(url), growing(*lengths))
    if max(lengths) > 500:  # as long as this, it is noticed before any prompt is asked
        assert len(server.asked) == 1 + 2


def test_a_server_that_reads_prompts_whole_is_asked_on(opened):
    server = Digits(numbers=lambda text: OUT)
    with server.serving() as url:
        engine = opened(url)
        for _ in range(2):
            assert [each.text for each in engine.write(growing(20, 60, 900), max_tokens=5)] == ["72"] * 3
    assert len(server.asked) == 1 + 2 + 2 * 3  # that it reads the longest whole is tried once


def test_counts_of_tokens_that_are_equal_by_chance_stop_nothing(opened):
    server = Digits(numbers=lambda text: OUT)
    # The second has more letters in as many words.
    prompts = [
        Prompt("Judge.", "How sad is it?"),
        Prompt("Judge.", "Howsoever extraordinarily miserable is everything?"),
    ]
    with server.serving() as url:
        assert [each.text for each in opened(url).write(prompts, max_tokens=5)] == ["72"] * 2


def test_once_a_server_reads_prompts_whole_those_that_it_had_cut_are_asked_anew(audit, tmp_path):
    server = Digits(numbers=lambda text: OUT, context=30)
    with server.serving() as url:
        words = [*asked_for(url, tmp_path / "run"), "elicitation=generate"]
        assert audit(*words) != 0
        n_cut = len(server.asked)
        server.context = None
        assert audit(*words) == 0
    answers = pd.read_parquet(tmp_path / "run" / "ratings.parquet")
    assert (answers["n_prompt_tokens"] > 30).all()
    assert len(server.asked) - n_cut >= len(answers)
