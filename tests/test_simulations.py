"""Which simulations and long files are run: by name, by a number, and alike on every worker."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest
from simulations import LONG, chosen, draw_of, left_for_another_gate, what_to_run

NAMES = [f"tests/test_a.py::test_{k}" for k in range(40)]


def test_all_are_run_or_none():
    assert chosen(NAMES, "all") == set(NAMES)
    assert chosen(NAMES, "none") == set()


@pytest.mark.parametrize(("n", "drawn"), [(0, 0), (1, 1), (16, 1), (17, 2), (40, 3)])
def test_a_number_draws_a_sixteenth_and_at_least_one(n, drawn):
    assert len(chosen(NAMES[:n], "7")) == drawn
    assert chosen(NAMES[:n], "7") <= set(NAMES)


def test_a_number_draws_the_same_whatever_the_order_and_another_number_draws_others():
    assert chosen(NAMES[::-1], "7") == chosen(NAMES, "7")
    assert chosen(NAMES, "8") != chosen(NAMES, "7")


def test_every_one_gets_its_turn():
    # One of 40 is left out by 250 numbers, each of which draws 3, with a probability of (37/40)^250 = 3e-9.
    assert set.union(*(chosen(NAMES, str(seed)) for seed in range(250))) == set(NAMES)


def test_those_that_share_their_set_up_are_drawn_together():
    alone, shared = pytest.mark.simulation.mark, pytest.mark.simulation(together="x").mark
    items = [
        SimpleNamespace(nodeid=name, get_closest_marker=lambda _, m=mark: m)
        for name, mark in (("a", alone), ("b", shared), ("c", shared))
    ]
    assert [draw_of(item) for item in items] == ["a", "x", "x"]


def test_both_engines_on_the_embedded_model_are_one_draw(request):
    found = [item for item in request.session.items if "test_agreement" in item.nodeid and "[embedded" in item.nodeid]
    assert len({draw_of(item) for item in found}) <= 1


@pytest.mark.parametrize("given", ["some", "", "-1", "0.5"])
def test_what_is_neither_a_word_nor_a_number_is_refused(given):
    with pytest.raises(argparse.ArgumentTypeError, match="give all, none, or a number"):
        what_to_run(given)


TOOK = {f"test_{k}.py": 100.0 - k for k in range(11)} | {"test_short.py": LONG - 0.1}


@pytest.mark.parametrize("asked", ["all", "none"])
def test_by_hand_no_long_file_is_left_out(asked):
    assert left_for_another_gate(TOOK, asked) == set()


def test_a_gate_takes_an_eighth_of_the_long_files_and_each_has_its_turn():
    left = [left_for_another_gate(TOOK, str(seed)) for seed in range(60)]
    for each in left:
        assert "test_short.py" not in each
        assert len(each) == 9
        assert 9 * 100 - 80 <= sum(TOOK[name] for name in each) <= 9 * 100
    # Of the last three, which are no eight, one is run.
    assert set.union(*left) == {f"test_{k}.py" for k in range(11)}
    assert set.intersection(*left) == set()
    assert left_for_another_gate(dict(reversed(TOOK.items())), "7") == left_for_another_gate(TOOK, "7")
