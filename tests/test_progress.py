"""What is said of a run while it goes on: how much of it, how fast, how long it may take still."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios

import pytest
from runs import FOUR_RELIGIONS, in_parts

from audit.asking.progress import Progress, beside_bars, duration
from audit.cli.main import main


class Clock:
    """Stands still until it is told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    """Takes what is drawn, as a terminal would."""

    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


def said(stream):
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (45.4, "45 s"),
        (59.7, "1 min"),
        (110, "1 min 50 s"),
        (3_599.9, "1 h"),
        (7_530, "2 h 6 min"),
        (86_399, "1 d"),
        (300_000, "3 d 11 h"),
    ],
)
def test_a_time_is_told_in_the_units_that_matter(seconds, words):
    assert duration(seconds) == words


def test_of_nothing_that_was_done_no_line_is_written(clock, stream):
    with Progress(900, stream=stream, clock=clock) as progress:
        progress.done(0)
    assert said(stream) == []


def test_a_plain_line_comes_after_the_first_batch_and_then_every_ten_seconds(clock, stream):
    with Progress(900, stream=stream, clock=clock) as progress:
        assert said(stream) == []
        for _ in range(60):
            clock.now += 2
            progress.done(15)
    assert said(stream)[:2] == [
        "15 of 900 prompts",
        "90 of 900 prompts, 7.5 prompts/s, about 1 min 48 s left",
    ]
    assert len(said(stream)) == 1 + 11 + 1  # at 2 s, from 12 s to 112 s, and the end
    assert said(stream)[-1] == "900 of 900 prompts, 7.5 prompts/s"
    assert "\r" not in stream.getvalue()


def test_rate_and_time_left_are_of_this_session(clock, stream):
    with Progress(1000, there=900, stream=stream, clock=clock) as progress:
        for _ in range(2):
            clock.now += 10
            progress.done(20)
    assert said(stream) == ["920 of 1,000 prompts", "940 of 1,000 prompts, 2.0 prompts/s, about 30 s left"]


def test_a_slow_first_batch_says_nothing_of_the_time_left(clock, stream):
    with Progress(900, stream=stream, clock=clock) as progress:
        clock.now += 60  # the model warms up: at this rate the others would take an hour and a half
        progress.done(10)
        for _ in range(12):
            clock.now += 1
            progress.done(10)
    # 100 in 10 s, and 790 left
    assert said(stream)[:2] == ["10 of 900 prompts", "110 of 900 prompts, 10 prompts/s, about 1 min 19 s left"]


def test_the_rate_at_the_end_is_of_the_whole_time(clock, stream):
    with Progress(20, stream=stream, clock=clock) as progress:
        clock.now += 9
        progress.done(10)
        clock.now += 1
        progress.done(10)
        assert str(progress) == "20 of 20 prompts, 2.0 prompts/s"


def test_a_part_ends_at_its_size_whatever_was_told_of_it(clock, stream):
    with Progress(20, stream=stream, clock=clock) as progress:
        with progress.part(10) as part:
            part.call()(7)  # three could not be asked
        assert str(progress) == "10 of 20 prompts"
        with progress.part(10) as part:
            done = part.call()
            done(8)
            done(8)
            assert str(progress) == "20 of 20 prompts"
    assert said(stream) == ["7 of 20 prompts", "20 of 20 prompts"]


def test_a_part_that_is_broken_off_is_not_counted(clock, stream):
    def break_off():
        with Progress(20, stream=stream, clock=clock) as progress, progress.part(10) as part:
            part.call()(4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert said(stream) == ["4 of 20 prompts"]


def test_a_stage_is_named_with_its_own_count_and_counts_no_prompt(clock, stream):
    with Progress(100, n_calls=3, stream=stream, clock=clock) as progress, progress.part(10) as part:
        imagine = part.call("imagine")
        clock.now += 10
        imagine(4)
        assert str(progress) == "0 of 100 prompts (imagine: 4 of 10)"
        clock.now += 10
        imagine(6)
        # 6 calls in 10 s, and 290 of 300 left
        assert str(progress) == "0 of 100 prompts (imagine: 10 of 10), 0.2 prompts/s, about 8 min 3 s left"
        part.call("feel")(10)
        assert str(progress).startswith("0 of 100 prompts (feel: 10 of 10)")
        clock.now += 20
        part.call()(5)
        assert str(progress) == "5 of 100 prompts, 0.23 prompts/s, about 6 min 33 s left"  # 21 calls in 30 s


def test_a_stage_of_an_earlier_session_says_nothing_of_this_one_s_speed(clock, stream):
    with Progress(10, n_calls=2, stream=stream, clock=clock) as progress, progress.part(10) as part:
        part.skip()
        clock.now += 5
        answer = part.call()
        answer(2)
        clock.now += 3
        answer(3)
        assert str(progress) == "5 of 10 prompts, 0.5 prompts/s, about 5 s left"


def test_parts_that_are_under_way_at_once_are_one_count(clock, stream):
    with (
        Progress(30, n_calls=2, stream=stream, clock=clock) as progress,
        progress.part(10) as first,
        progress.part(10) as second,
        progress.part(10) as third,
    ):
        clock.now += 10
        for part, n in ((first, 4), (second, 6)):
            part.call("imagine")(n)
        third.skip()
        third.call()(5)
        assert str(progress) == "5 of 30 prompts (imagine: 10 of 20)"
        clock.now += 10
        second.call()(3)
        # 22 of 60 calls, 18 of them in the last 10 s, and 10 that an earlier session made
        assert str(progress) == "8 of 30 prompts (imagine: 4 of 10), 0.9 prompts/s, about 16 s left"


def test_a_call_that_is_made_again_counts_from_its_beginning(clock, stream):
    with Progress(20, stream=stream, clock=clock) as progress, progress.part(10) as part:
        lost = part.call()
        lost(7)
        again = part.call()
        assert str(progress).startswith("0 of 20 prompts")
        again(4)
        assert str(progress).startswith("4 of 20 prompts")


def test_what_is_counted_and_by_what_can_be_named(clock, stream):
    with Progress(3, unit="replies", name="judge", stream=stream, clock=clock) as progress:
        for _ in range(2):
            clock.now += 10
            progress.done(1)
    assert said(stream) == ["judge: 1 of 3 replies", "judge: 2 of 3 replies, 0.1 replies/s, about 10 s left"]


def test_in_a_terminal_there_is_a_bar_that_is_drawn_again_while_nothing_ends(monkeypatch):
    monkeypatch.setattr("audit.asking.progress._REDRAW_EVERY", 0.01)
    terminal = Terminal()
    with Progress(8, stream=terminal) as progress:
        progress.done(2)
        n_drawn = terminal.getvalue().count("2 of 8 prompts")
        while terminal.getvalue().count("2 of 8 prompts") < n_drawn + 3:
            pass
    assert " 25%|" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_a_line_that_is_said_beside_a_bar_stands_alone(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(8) as progress:
        progress.done(2)
        beside_bars(lambda line: print(line, file=terminal))("note: replica 1 has ended")
        progress.done(2)
    # The bar is wiped with blanks before the line, and drawn anew beneath it.
    assert re.search(r"of 8 prompts[^\r]*\r +\rnote: replica 1 has ended\n\r *\d+%\|", terminal.getvalue())


@pytest.mark.parametrize("columns", [0, 60, 200])
def test_a_terminal_without_a_size_is_drawn_in_as_one_with_a_size(columns):
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
    with os.fdopen(writing, "w") as terminal, Progress(8, stream=terminal) as progress:
        progress.done(2)
        drawn = ""
        while "2 of 8 prompts" not in drawn:
            drawn += os.read(reading, 4096).decode()
    os.close(reading)
    assert " 25%|" in drawn
    assert max(map(len, re.split(r"[\r\n]+", drawn))) <= (columns or 80)


# --- Through the command ---------------------------------------------------------------------------------------------

N_PROMPTS = 25  # 5 perceivers x 5 experiencers x 1 narrative, in shards of twenty and of five


def overrides(model, *more):
    return [
        f"model.path={model}", "engine=transformers", "engine.device=cpu", "engine.batch_size=3",
        "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad]", *FOUR_RELIGIONS,
        "elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0",
        "statistics.n_permutations=200", "shard_size=20", "run_dir=run", *more,
    ]  # fmt: skip


@pytest.fixture
def lines(monkeypatch, tmp_path):
    """Return a function that runs a command which says something at every batch, and returns what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.asking.progress.LINE_EVERY", 0.0)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    monkeypatch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})

    def run(*arguments):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["run", *arguments]) == 0
        return [line for line in said(stream) if re.match(r"[\d,]+ of [\d,]+ prompts", line)]

    return run


def counts(told):
    return [int(line.split(" of ")[0]) for line in told]


@pytest.mark.parametrize("how", ["elicitation=generate", "elicitation=expected", "task=reply"])
def test_the_bar_moves_inside_a_shard_and_ends_at_the_total(lines, tiny_model, how):
    told = lines(*overrides(tiny_model, how, "measures.names=[lexical]")[: None if how == "task=reply" else -1])
    assert counts(told) == sorted(counts(told))
    assert len({n for n in counts(told) if n < 20}) >= 3
    assert counts(told)[-1] == N_PROMPTS


def test_after_a_resume_what_was_there_is_counted_once(lines, tiny_model, tmp_path):
    asked = overrides(tiny_model, "elicitation=generate")
    lines(*asked)
    (in_parts(tmp_path / "run") / "ratings" / "part-000001.parquet").unlink()
    told = lines(*asked)
    assert counts(told)[0] == 23
    assert counts(told)[-1] == N_PROMPTS
    assert all(line.split(" prompts")[0].endswith(f"of {N_PROMPTS}") for line in told)


def test_stages_are_shown_call_by_call(lines, tiny_model):
    stages = ("strategy=two-stage", "elicitation=expected")
    told = lines(*overrides(tiny_model, *stages))
    inside = [re.search(r"\((\w+): (\d+) of (\d+)\)", line) for line in told]
    shown = [(found[1], int(found[2]), int(found[3])) for found in inside if found]
    first = [n for _, n, size in shown if size == 20]
    assert len(first) >= 3
    assert first == sorted(first)
    assert first[-1] == 20
    assert counts(told)[-1] == N_PROMPTS


def test_prompts_that_are_too_long_are_counted_too(lines, tiny_model):
    told = lines(*overrides(tiny_model, "elicitation=generate", "model.max_model_len=64"))
    assert counts(told) == [20, N_PROMPTS]
