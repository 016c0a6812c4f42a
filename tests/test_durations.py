"""The tests stay as short as they are said to be: in all, and file by file."""

from __future__ import annotations

import json

import durations
import pytest

RECORD = json.loads(durations.FILE.read_text(encoding="utf-8"))
MOST_MINUTES = {"quick": 5, "all": 23}
"""Of wall time on two cores: `make test`; `make test-all` with a gate's simulations, which is to come to 18."""
SHARE = {"quick": 0.05, "all": 0.03}
"""A file's budget, as a share of what all of them take, since machines differ."""
MORE = {
    "engines/test_agreement.py": 0.07,
    "engines/test_batch.py": 0.04,
    "exchange/test_inspect_task.py": 0.04,
    "engines/test_token_servers.py": 0.04,
    "engines/test_vllm_architectures.py": 0.05,
    "report/test_every_page_browser.py": 0.05,
    "report/test_page_browser.py": 0.05,
    "test_reproduction.py": 0.05,
    "test_sweeps_elsewhere.py": 0.05,
    "workers/test_replicas.py": 0.04,
}
"""Files with larger budgets in `make test-all`: real engines, browsers, and processes of their own."""
KINDS = pytest.mark.parametrize("kind", ["quick", "all"])


@KINDS
def test_all_files_together_take_no_longer_than_is_said(kind):
    took = durations.seconds(quick_alone=kind == "quick")
    assert sum(took.values()) / RECORD["cores"] <= 60 * MOST_MINUTES[kind]


@KINDS
def test_no_file_takes_more_than_its_budget(kind):
    took = durations.seconds(quick_alone=kind == "quick")
    whole = sum(took.values())
    budgets = {name: MORE.get(name, SHARE[kind]) if kind == "all" else SHARE[kind] for name in took}
    assert {name: round(own / whole, 3) for name, own in took.items() if own > budgets[name] * whole} == {}


def test_the_record_is_of_files_that_are_there():
    there = {path.relative_to(durations.TESTS).as_posix() for path in durations.TESTS.rglob("test_*.py")}
    assert set(RECORD["seconds"]) - there == set()
    assert set(MORE) - there == set()
    # A few new files wait for the next gate.
    assert len(there - set(RECORD["seconds"])) <= 10


def test_seconds_are_added_up_by_file_and_kind(tmp_path):
    report = tmp_path / "tests.xml"
    quick = '<properties><property name="quick" value="yes"/></properties>'
    report.write_text(
        "<testsuites><testsuite>"
        f'<testcase classname="tests.test_durations" name="a" time="1.25">{quick}</testcase>'
        '<testcase classname="tests.test_durations" name="b" time="2"/>'
        '<testcase classname="tests.report.test_inventory_page.TestInABrowser" name="c" time="0.5"/>'
        "</testsuite></testsuites>"
    )
    assert durations.read(report) == {
        "report/test_inventory_page.py": {"quick": 0.0, "rest": 0.5},
        "test_durations.py": {"quick": 1.2, "rest": 2.0},
    }
    with pytest.raises(ValueError, match=r"tests\.gone is of no file"):
        durations.file_of("tests.gone")
