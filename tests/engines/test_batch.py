"""Batches at a server: the same run as without them, and nothing lost or submitted twice where they go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time

import pandas as pd
import pytest
from batching import Batching
from forked import done, started
from hostile import KEY, N_FIRST, PAGE, Hostile, say, text_of
from test_openai import HUNDRED, PROMPTS, asked_for, collected, files_with, opened, texts_of, top_of, whole

from audit.asking.elicitation.expected import ExpectedElicitation
from audit.engines import batch as batches
from audit.engines.batch import Batches
from audit.engines.server import BudgetError
from audit.errors import ModelError
from audit.runs.store import RunFolder
from stimuli.prompts import Prompt

pytestmark = pytest.mark.server

__all__ = ["opened"]  # a fixture

N = 50
BATCH = ("engine.batch=true", "shard_size=50")
BATCH_OF_A_COMMAND = ("engine.batch=true", "shard_size=1000", "statistics.n_permutations=100")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TESTS_KEY", KEY)
    monkeypatch.setattr("audit.engines.open._kept", None)
    monkeypatch.setattr(batches, "LEAST", 1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, Hostile().serving() as url:
        patch.setenv("TESTS_KEY", KEY)
        patch.setattr("audit.engines.open._kept", None)
        return collected(tmp_path_factory.mktemp("undisturbed") / "run", url, "shard_size=50")


def by_batch(server, run, *overrides):
    with server.serving() as url:
        return collected(run, url, *BATCH, *overrides)


def test_a_run_by_batch_is_the_run_without_row_for_row(tmp_path, undisturbed, capfd):
    server = Batching(polls=3)
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert (server.n, len(server.batches), len(server.asked_by_batch)) == (N_FIRST, 1, N)
    assert server.n_polls == 4
    assert "batch batch_0 of 50 requests is submitted; if this process ends, the same" in capfd.readouterr().err
    assert files_with(KEY, tmp_path) == []
    assert not (tmp_path / "run" / "part-begun.jsonl").exists()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert "batch" not in manifest["identity"]["engine"]
    assert manifest["engine_why"].endswith("asked in batches")


def test_a_shard_is_as_much_as_a_batch_holds_and_of_a_run_without_batches_nothing_is_named(tmp_path):
    server = Batching()
    with server.serving() as url:
        collected(tmp_path / "run", url, "engine.batch=true", "shard_size=null")
        collected(tmp_path / "other", url)
    one, other = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("run", "other"))
    assert one["shard_size"] == 50_000
    assert one["config"]["engine"].pop("batch") is True
    assert one["config"]["engine"] == other["config"]["engine"]
    assert one["identity"] == other["identity"]


def in_another_order(n, lines):
    odd = [b'{"custom_id": "x', b"", b"[1]", {"custom_id": "unknown", "response": lines[0]["response"]}]
    return "completed", [*odd, *reversed(lines), lines[3]], []


def expires_half_way(n, lines):
    if n:
        return "completed", lines, []
    late = {"code": "batch_expired", "message": "This request could not be executed before the window expired."}
    return "expired", lines[:20], [{**line, "response": None, "error": late} for line in lines[20:]]


def fails_in_part(n, lines):
    if n > 1:
        return "completed", lines, []
    down = {"status_code": 503, "body": {"error": {"message": "overloaded"}}}
    return "completed", lines[10:], [{**line, "response": down} for line in lines[:10]]


def forgets_lines(n, lines):
    return "completed", lines[:-7] if n == 0 else lines, []


@pytest.mark.parametrize(
    ("ends", "n_batches"), [(in_another_order, 1), (expires_half_way, 2), (fails_in_part, 3), (forgets_lines, 2)]
)
def test_what_comes_back_in_disorder_late_or_not_at_all_is_asked_again_and_only_that(
    ends, n_batches, tmp_path, undisturbed
):
    server = Batching(ends=ends)
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert len(server.batches) == n_batches
    left = {in_another_order: 0, expires_half_way: 30, fails_in_part: 20, forgets_lines: 7}[ends]
    assert len(server.asked_by_batch) == N + left


def test_a_page_in_place_of_a_batch_s_file_is_not_paid_for_again(tmp_path, undisturbed):
    server = Batching()
    server.ends = lambda n, lines: ("completed", [PAGE], [])
    with server.serving() as url:
        with pytest.raises(
            ModelError,
            match=r"file file-\d of batch batch_0 has no answer; run the same command to read "
            r"it",
        ):
            collected(tmp_path / "run", url, *BATCH)
        [page] = [name for name, content in server.files.items() if content.startswith(PAGE)]
        answers = []
        for line in map(json.loads, server.files["file-0"].splitlines()):
            body = server.whole(line["body"], text_of(line["body"]))
            answers.append({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}})
        server.files[page] = "\n".join(map(json.dumps, answers)).encode()
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url, *BATCH), undisturbed)
    assert (len(server.batches), len(server.asked_by_batch)) == (1, N)


def test_few_that_are_left_are_not_worth_another_batch(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr(batches, "LEAST", 20)
    server = Batching(ends=fails_in_part)
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert (len(server.batches), server.n) == (1, N_FIRST + 10)


def test_a_request_that_never_has_an_answer_is_missing_and_told_and_all_together_stop_the_run(tmp_path, capfd):
    down = {"status_code": 500, "body": {"error": "internal"}}
    bad = []

    def ends(n, lines):
        bad[:] = bad or [lines[7]["custom_id"]]
        fails = [{**line, "response": down} for line in lines if line["custom_id"] in bad]
        return "completed", [line for line in lines if line["custom_id"] not in bad], fails

    server = Batching(ends=ends)
    ratings = by_batch(server, tmp_path / "run")
    assert ratings.index[ratings["status"].astype(str) == "failed"].tolist() == [7]
    assert ratings["intensity"].isna().sum() == 1
    assert len(server.batches) == batches.ROUNDS
    assert "1 requests came back without an answer from 3 batches" in capfd.readouterr().err
    none = Batching(ends=lambda n, lines: ("completed", [], [{**line, "response": None} for line in lines]))
    with pytest.raises(
        ModelError, match=r"50 requests came back without an answer from 3 batches .*engine\.batch=null"
    ):
        by_batch(none, tmp_path / "other")


def test_many_requests_are_split_and_their_batches_wait_together(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr(batches, "MOST_REQUESTS", 20)
    seen = []
    server = Batching(created=lambda n: seen.append(server.n_polls) or "")
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert seen == [0, 0, 0]
    monkeypatch.setattr(batches, "MOST_REQUESTS", 50)
    monkeypatch.setattr(batches, "MOST_BYTES", 20_000)
    small = Batching()
    pd.testing.assert_frame_equal(by_batch(small, tmp_path / "other"), undisturbed)
    uploaded = [small.files[f"file-{place}"] for place in range(len(small.files))]
    assert len(small.batches) > 1
    assert all(len(content) <= 20_000 for content in uploaded[: len(small.batches)])


def test_a_server_that_holds_so_many_for_too_many_is_asked_by_halves(tmp_path, undisturbed, monkeypatch, capfd):
    limit = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached\x1b[2J"}]}

    def ends(n, lines):
        return ("failed", [], limit) if len(lines) > 30 else ("completed", lines, [])

    server = Batching(ends=ends)
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert [each["request_counts"]["total"] for each in server.batches.values()] == [50, 25, 25]
    said = capfd.readouterr().err
    assert "half as many at a time" in said
    assert "\x1b" not in said


STOPS = {
    "failed": (
        ("failed", [], {"data": [{"code": "invalid", "message": f"bad line, key {KEY}"}]}),
        r"batch batch_0 failed \(bad line, key \[key\]\); fix the cause",
    ),
    "cancelled": (None, r"batch batch_0 was cancelled at the server; its answers are kept: run"),
}


@pytest.mark.parametrize("how", STOPS)
def test_a_batch_that_fails_or_is_cancelled_stops_the_run_which_goes_on(how, tmp_path, undisturbed):
    end, says = STOPS[how]

    def ends(n, lines):
        return ("completed", lines, []) if n else end or ("cancelled", lines[:5], [])

    server = Batching(ends=ends)
    with server.serving() as url:
        with pytest.raises(ModelError, match=says):
            collected(tmp_path / "run", url, *BATCH)
        assert files_with(KEY, tmp_path) == []
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url, *BATCH), undisturbed)
    assert len(server.asked_by_batch) == N + (50 if how == "failed" else 45)


def test_a_budget_holds_for_batches_and_what_was_submitted_is_read(tmp_path, undisturbed):
    server = Batching()
    with server.serving() as url:
        for n in (20 - N_FIRST, 39 - N_FIRST):  # beside the list of models, and the questions before the run
            with pytest.raises(BudgetError, match=r"max_requests=21 is used up"):
                collected(tmp_path / "run", url, *BATCH, "engine.server.max_requests=21")
            assert len(server.asked_by_batch) == n
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url, *BATCH), undisturbed)
        assert len(server.asked_by_batch) == N
        with pytest.raises(BudgetError, match=r"max_tokens=600 is used up"):
            collected(tmp_path / "other", url, *BATCH, "engine.server.max_tokens=600", "shard_size=10")
    assert N < len(server.asked_by_batch) < 2 * N


def test_a_batch_whose_making_was_not_told_is_found_and_not_made_again(tmp_path, undisturbed):
    server = Batching(created=lambda n: "lost" if n == 0 else "")
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert len(server.batches) == 1


def test_a_batch_that_could_not_be_made_is_made_later_once(tmp_path, undisturbed):
    server = Batching()
    made, server._make = server._make, lambda handler, asked: say(handler, b"overloaded", status=503)
    with server.serving() as url:
        with pytest.raises(ModelError, match=r"no answer after 1 try \(last: HTTP 503\)"):
            collected(tmp_path / "run", url, *BATCH)
        server._make = made
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url, *BATCH), undisturbed)
    assert (len(server.batches), len(server.asked_by_batch)) == (1, N)


def test_ours_is_found_among_many_batches_of_others(tmp_path, undisturbed):
    server = Batching(created=lambda n: "lost", page=2)
    others = {f"batch_of_others_{n}": {"id": f"batch_of_others_{n}", "metadata": None} for n in range(7)}
    made = server._make

    def make(handler, asked):
        server.created = lambda n: server.batches.update(others) or "lost"
        made(handler, asked)

    server._make = make
    pd.testing.assert_frame_equal(by_batch(server, tmp_path / "run"), undisturbed)
    assert len(server.batches) == 1 + len(others)


def test_a_server_without_batches_is_refused_with_the_remedy_which_works(tmp_path, undisturbed):
    with Hostile().serving() as url:
        plain = Hostile.post

        def post(self, handler):
            if handler.path == "/v1/files":
                handler.rfile.read(int(handler.headers["Content-Length"]))
                say(handler, {"detail": "Not Found"}, status=404)
            else:
                plain(self, handler)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Hostile, "post", post)
            with pytest.raises(
                ModelError,
                match=r"does not accept batches \(HTTP 404 at /files: Not Found\); "
                r"use engine\.batch=null to send prompts one by one",
            ):
                collected(tmp_path / "run", url, *BATCH)
        ratings = collected(tmp_path / "run", url, "engine.batch=null", "shard_size=50")
    pd.testing.assert_frame_equal(ratings, undisturbed)


def test_a_batch_that_the_server_does_not_know_any_more_is_not_paid_for_twice(tmp_path, undisturbed, stop_once):
    server = Batching(polls=10**6)
    with server.serving() as url:
        stop_once(lambda: server.batches)
        with contextlib.suppress(KeyboardInterrupt):
            collected(tmp_path / "run", url, *BATCH)
        [gone] = list(server.batches)
        server.batches[f"{gone}_of_another_account"] = server.batches.pop(gone)
        with pytest.raises(
            ModelError,
            match=r"does not know batch batch_0 \(HTTP 404.*key of the same "
            r"account.*batch=null",
        ):
            collected(tmp_path / "run", url, *BATCH)
        assert len(server.batches) == 1
        ratings = collected(tmp_path / "run", url, "shard_size=50")
    pd.testing.assert_frame_equal(ratings, undisturbed)


@pytest.fixture
def stop_once():
    """Return a function that interrupts as a user does, soon after something holds; it waits for half a minute."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop(holds):
        until = time.monotonic() + 30
        while not holds() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    yield lambda holds: threading.Thread(target=stop, args=[holds]).start()
    signal.signal(signal.SIGINT, earlier)


def test_an_interruption_says_that_the_batch_goes_on_and_is_picked_up(tmp_path, undisturbed, capfd, stop_once):
    server = Batching(polls=10**6)
    with server.serving() as url:
        stop_once(lambda: server.batches)
        with pytest.raises(KeyboardInterrupt):
            collected(tmp_path / "run", url, *BATCH)
        assert "batch batch_0 continues at the server; the same command picks it up" in capfd.readouterr().err
        server.batches["batch_0"]["left"] = 0
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url, *BATCH), undisturbed)
        assert "waiting for batch batch_0, which was submitted before" in capfd.readouterr().err
    assert (len(server.batches), len(server.asked_by_batch)) == (1, N)


FOUR = ("stimuli.emotions=[sad,happy,scared,tense]",)
"""Emotions of as many prompts as are worth a batch."""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("when", ["before its id is told", "waiting", "reading"])
def test_a_command_that_is_killed_finds_its_batch_and_submits_nothing_twice(when, tmp_path):
    held, reached = threading.Event(), threading.Event()

    def hold(n=0):
        reached.set()
        held.wait(60)
        return ""

    server = Batching(polls=2)
    if when == "before its id is told":
        server.created = hold
    elif when == "waiting":
        server.polls = 10**6
    whole_get = server.get

    def get(handler):
        if when == "reading" and "/content" in handler.path and not held.is_set():
            name = handler.path.split("/")[3]
            content = server.files[name]
            half = len(content) // 2
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content[:half])
            handler.wfile.flush()
            hold()
            return
        whole_get(handler)
        if when == "waiting" and server.n_polls > 3:
            reached.set()

    server.get = get
    with Hostile().serving() as url:
        undisturbed = collected(tmp_path / "undisturbed", url, *FOUR)
    with server.serving() as url:
        words, said = ["run", *asked_for(url, tmp_path / "run"), *BATCH_OF_A_COMMAND, *FOUR], tmp_path / "said.txt"
        with started(words, said, TESTS_KEY=KEY) as process:
            assert reached.wait(120)
            process.kill()
        assert process.exitcode == -signal.SIGKILL
        held.set()
        assert files_with(KEY, tmp_path) == []
        server.created = lambda n: ""
        for each in server.batches.values():
            each["left"] = 1
        before = len(said.read_text())
        assert done(words, said, TESTS_KEY=KEY) == 0, said.read_text()
    assert "waiting for batch batch_0, which was submitted before" in said.read_text()[before:]
    ratings = RunFolder(tmp_path / "run").read_ratings(n_prompts=2 * N)
    pd.testing.assert_frame_equal(ratings, undisturbed)
    assert (len(server.batches), len(server.asked_by_batch)) == (1, 2 * N)
    assert files_with(KEY, tmp_path) == []


def test_a_process_that_ends_while_it_keeps_answers_goes_on_from_the_same_batch(tmp_path, undisturbed, monkeypatch):
    from audit.runs.store import PartBegun

    server, put = Batching(), PartBegun.put
    n_kept = []

    def fails(self, name, answer):
        n_kept.append(name)
        if len(n_kept) == 30:
            raise KeyboardInterrupt
        put(self, name, answer)

    with server.serving() as url:
        monkeypatch.setattr(PartBegun, "put", fails)
        with pytest.raises(KeyboardInterrupt):
            collected(tmp_path / "run", url, *BATCH)
        monkeypatch.setattr(PartBegun, "put", put)
        pd.testing.assert_frame_equal(collected(tmp_path / "run", url, *BATCH), undisturbed)
    assert (len(server.batches), len(server.asked_by_batch)) == (1, N)


def test_a_distribution_within_bounds_is_the_same_by_batch(opened, monkeypatch):
    server = Batching(logprobs=top_of({"70": 0.5, "80": 0.3, "I": 0.1}))
    elicitation = ExpectedElicitation.of(HUNDRED, 1)
    with server.serving() as url:
        engine = opened(url)
        one_by_one = elicitation.elicit(engine, PROMPTS)
        engine.by_batch()
        assert elicitation.elicit(engine, PROMPTS) == one_by_one
    assert len(server.batches) == 1


@pytest.mark.parametrize("code", [None, "context_length_exceeded"])
def test_an_error_of_a_batch_that_repeats_what_was_sent_says_no_more_than_its_own_words(opened, code):
    told = "They told me that my content filter was broken."

    def ends(n, lines):
        lines[1]["response"] |= {"status_code": 400, "body": {"error": {"message": f"Bad: {told}", "code": code}}}
        return "completed", lines, []

    with Batching(ends=ends).serving() as url:
        engine = opened(url)
        engine.by_batch()
        asked = [PROMPTS[0], Prompt("Judge.", told), PROMPTS[2]]
        if code is None:
            with pytest.raises(ModelError, match=r"rejected the request \(HTTP 400"):
                engine.write(asked, max_tokens=9)
        else:
            written = engine.write(asked, max_tokens=9)
            assert [(each.text is None, each.refused) for each in written] == [
                (False, False),
                (True, False),
                (False, False),
            ]


def test_progress_is_told_while_a_batch_is_under_way_and_adds_up(opened):
    server, told = Batching(polls=2), []
    with server.serving() as url:
        engine = opened(url)
        engine.by_batch()
        assert texts_of(engine.write(PROMPTS, max_tokens=9, done=told.append)) == whole(PROMPTS)
    assert told == [12, 12]


@pytest.mark.parametrize("name", ["../../admin", "a b", "", None, 7])
def test_an_id_that_could_be_an_address_is_refused(name):
    class Odd:
        base_url = "http://here"

    with pytest.raises(ModelError, match="returned a batch without an id"):
        Batches(Odd())._id({"id": name}, "a batch")


def test_batches_are_of_servers_alone(audit, capsys):
    assert audit("run", "engine.batch=true") == 2
    assert "engine.batch: batches need a server: use engine=openai" in capsys.readouterr().err


def test_vllm_s_server_is_asked_by_tokens_and_not_by_batch(tmp_path):
    server = Batching()
    server.get = lambda handler: say(handler, {"data": [{"id": "tiny", "owned_by": "vllm"}]})
    with pytest.raises(ModelError, match=r"engine\.batch=true: http://.* is vLLM, which has no batches"):
        by_batch(server, tmp_path / "run")


def test_a_whole_command_by_batch_ends_in_a_report(audit, tmp_path):
    server = Batching()
    with server.serving() as url:
        words = [*asked_for(url, "run"), "engine.batch=true", "statistics.n_permutations=100"]
        assert audit("run", *words) == 0
    assert (tmp_path / "run" / "report.html").exists()
    assert len(server.asked_by_batch) == N
