"""Each fault of the suite, tried a few times; ``benchmarks/faults.py`` tries them many times."""

from __future__ import annotations

from random import Random

import breaking
import pytest

FEW = {
    breaking.killed_at_every_write: 8, breaking.killed_at_random: 3, breaking.full_disk: 4, breaking.read_only: 2,
    breaking.small_disk: 1, breaking.torn: 4, breaking.flipped: 8, breaking.misplaced: 2, breaking.beyond: 2,
    breaking.foreign: 2, breaking.edited: 2, breaking.at_once: 3, breaking.changed_configuration: len(breaking.CHANGED),
}  # fmt: skip


@pytest.fixture(scope="module")
def audits(tmp_path_factory):
    with breaking.audits(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("fault", FEW, ids=lambda fault: fault.__name__)
def test_no_row_is_lost_doubled_or_changed(fault, audits):
    outcome = fault(audits, FEW[fault], Random(7))
    assert (outcome.n_lost, outcome.n_twice, outcome.n_wrong) == (0, 0, 0)
    assert outcome.faults == []
    assert outcome.n >= FEW[fault] or "not tried" in outcome.fault
    assert all(len(line.splitlines()) == 1 for line in outcome.lines)


def test_every_fault_is_tried_here():
    assert {fault for fault, _ in breaking.FAULTS} == {*FEW}
