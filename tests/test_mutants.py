"""The mutation check: what it changes, and that it tells a test that notices from one that does not."""

import ast
import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "mutants.py"
spec = importlib.util.spec_from_file_location("mutants", PATH)
mutants = importlib.util.module_from_spec(spec)
sys.modules["mutants"] = mutants
spec.loader.exec_module(mutants)

CODE = '''"""A module."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def rest(numbers: "list[float]", least: float = 2) -> "tuple[float, 3]":
    if numbers[0] < least and numbers is not None:
        raise ValueError("é")
    numbers.sort()
    return -numbers[0] + sum(numbers[1:3]), [True for _ in range(len(numbers))]
'''


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A checkout of one module, with a test of its least number alone."""
    folder = tmp_path / "audit" / "statistics"
    folder.mkdir(parents=True)
    (folder / "rest.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "test_rest.py").write_text(
        "import sys; sys.path.insert(0, 'audit/statistics')\n"
        "def test_least():\n    from rest import rest\n    assert rest([3, 2, 7])[0] == -2 + 10\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return tmp_path


def test_every_kind_of_place_is_changed_once_and_nothing_else(planted):
    made = list(mutants.mutants_of(planted / "audit" / "statistics" / "rest.py"))

    changes = {(each.kind, each.before, each.after) for each in made}
    assert changes == {
        ("comparison", "<", "<="), ("comparison", "is not", "is"), ("sign", "-", ""), ("sign", "+", "-"),
        ("constant", "2", "(2 + 1)"), ("constant", "0", "(0 + 1)"), ("constant", "1", "(1 + 1)"),
        ("constant", "3", "(3 + 1)"), ("constant", "True", "False"), ("off by one", "1", "(1) + 1"),
        ("off by one", "3", "(3) + 1"), ("off by one", "len(numbers)", "(len(numbers)) - 1"),
        ("dropped line", 'raise ValueError("é")', "pass"), ("dropped line", "numbers.sort()", "pass"),
    }  # fmt: skip
    for each in made:
        tree = ast.parse(each.written(CODE))
        assert ast.dump(tree) != ast.dump(ast.parse(CODE))


def test_as_many_of_each_kind_are_drawn_by_the_seed_of_lines_that_a_test_runs(planted):
    covered = {"audit/statistics/rest.py": {line: {"test_rest.py::test_least"} for line in range(10, 14)}}

    drawn = mutants.draw(5, 1, covered)

    assert Counter(each.kind for each in drawn) == dict.fromkeys(mutants.KINDS, 1)
    assert drawn == mutants.draw(5, 1, covered)
    assert mutants.draw(5, 1, {}) == []


@pytest.mark.process
def test_a_test_that_notices_is_told_from_one_that_does_not(planted):
    made = {(each.kind, each.before): each for each in mutants.mutants_of(planted / "audit" / "statistics" / "rest.py")}
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "test_rest.py"], cwd=planted, check=False)
    assert run.returncode == 0

    rows = [
        mutants.outcome(made[key], {"test_rest.py::test_least"}, planted)
        for key in (("dropped line", "numbers.sort()"), ("comparison", "<"))
    ]

    assert [row["outcome"] for row in rows] == ["noticed", "survived"]
    assert rows[0]["by"] == "test_rest.py::test_least"
    assert (planted / "audit" / "statistics" / "rest.py").read_text("utf-8") == CODE
    assert "| all | 2 | 1 | 1 |" in mutants.table(rows)
