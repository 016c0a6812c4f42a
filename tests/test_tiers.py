"""Tests of `make test` start no process, no server, no browser and no model, and a guard holds them to it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiers


def ask_a_model():
    import torch

    torch.nn.Identity()(0)


def bind():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))


STARTS = {
    "a program": (lambda: subprocess.run([sys.executable, "-c", ""]), "process"),
    "a shell": (lambda: os.system("true"), "process"),
    "a fork": (lambda: os.fork() or os._exit(0), "process"),
    "a process of Python's": (lambda: multiprocessing.get_context("spawn").Process(target=print).start(), "process"),
    "a server": (bind, "server"),
    "a model": (ask_a_model, "model"),
}


@pytest.mark.parametrize("what", STARTS)
def test_a_test_without_a_mark_that_starts_something_fails(what):
    start, kind = STARTS[what]
    with pytest.raises(tiers.Unmarked, match=f"mark the test '{kind}'"), tiers.guarded():
        start()


def test_it_fails_also_if_the_error_is_caught():
    def start():
        with contextlib.suppress(tiers.Unmarked):
            os.system("true")

    with pytest.raises(tiers.Unmarked, match="mark the test 'process'"), tiers.guarded():
        start()


def test_this_test_is_guarded_itself():
    assert tiers._armed


@pytest.mark.process
def test_one_that_is_marked_may():
    assert not tiers._armed
    assert subprocess.run([sys.executable, "-c", ""]).returncode == 0


def test_marks_are_those_of_fixtures_and_of_nothing_else(request):
    for item in request.session.items:
        assert tiers.is_quick(item) == (not {mark.name for mark in item.iter_markers()} & set(tiers.MARKS))
        for name in set(getattr(item, "fixturenames", ())) & set(tiers.FIXTURES):
            assert item.get_closest_marker(tiers.FIXTURES[name]), item.nodeid


def test_a_fixture_marks_a_test_once():
    added = []
    item = SimpleNamespace(
        fixturenames=["tmp_path", "make_model", "open_engine", "child_environment"],
        get_closest_marker=lambda name: name == "process",
        add_marker=added.append,
    )
    tiers.mark(item)
    assert added == ["model"]


@pytest.mark.process
def test_quick_leaves_out_simulations_too():
    file = Path(__file__).with_name("test_surfaces_agree.py")
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--quick", str(file)]
    told = subprocess.run(collect, capture_output=True, text=True, check=True).stdout
    assert "test_surfaces_agree_on_a_few_planted_runs" in told
    assert "test_surfaces_agree_on_any_planted_run" not in told
