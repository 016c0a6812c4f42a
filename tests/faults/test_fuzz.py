"""A small share of the fuzz suite's inputs; ``benchmarks/fuzz.py`` throws 100,000 of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import handed
import pytest
import reading
import stored
import words

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
import spoken

HEAVY = ("overrides", "own choices", "whole command lines")
"""Readers of which an input takes a tenth of a second: they are tried less often."""
OF_MODELS = ("GGUF headers", "chat templates (Jinja)")
"""Readers that need a library of models."""
READERS = [*stored.READERS, *handed.READERS, *spoken.READERS, *words.READERS]


@pytest.fixture(autouse=True)
def back_here():
    """Some readers are tried in a folder of their own."""
    before = Path.cwd()
    yield
    os.chdir(before)


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(reader, id=reader.name, marks=[pytest.mark.model] if reader.name in OF_MODELS else [])
        for reader in READERS
    ],
)
@pytest.mark.filterwarnings("ignore")  # of what is wrong with an input, by whichever library
def test_an_input_ends_in_a_value_or_in_one_line(reader, tmp_path):
    n = 4 if reader.name.startswith(HEAVY) else 25
    found = reading.try_reader(reader, tmp_path, seed=20_261, numbers=range(n))
    assert list(found.faults.values()) == []
    assert (found.n_read + found.n_refused, found.n_other, found.n_wrong) == (n, 0, 0)


def test_the_same_seed_gives_the_same_inputs_and_another_one_others(tmp_path):
    [reader] = [each for each in stored.READERS if each.name == "manifest.json"]
    make = reader.prepare(tmp_path).make
    first, again, other = ([make(reading.rng_of(seed, "x", k)) for k in range(20)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_reader_that_breaks_the_contract_is_found(tmp_path):
    def read(case):
        if case.content == 1:
            raise KeyError("x")
        if case.content == 2:
            raise reading.WrongValueError("another value")
        if case.content == 3:
            while True:
                pass

    def prepare(folder):
        return reading.Tried(lambda rng: reading.Case(next(numbers)), read, [])

    numbers = iter(range(4))
    tried = prepare(tmp_path)
    ended = [reading.try_one(tried, reading.rng_of(0, "x", k), limit_s=0.2) for k in range(4)]
    assert [what for what, _ in ended] == ["read", "other", "wrong", "other"]
    assert "took longer than 0.2 s" in ended[3][1]
