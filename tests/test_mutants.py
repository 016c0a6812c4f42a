"""The mutation check: what it changes, and that it tells a test that notices from one that does not."""

import ast
import importlib.util
import json
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
    begin = "import sys; sys.path.insert(0, 'audit/statistics')\n"
    least = "    assert rest([3, 2, 7])[0] == -2 + 10\n"
    (tmp_path / "test_rest.py").write_text(f"{begin}from rest import rest\ndef test_least():\n{least}")
    (tmp_path / "test_later.py").write_text(
        f"{begin}def test_least():\n    from rest import rest\n{least}"
        "def test_wrong():\n    assert 1 == 2\n"
        "def test_for_ever():\n    while True:\n        pass\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    mutants.module.cache_clear()
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


def test_as_many_of_each_kind_are_drawn_by_the_seed_in_turns(planted):
    drawn = mutants.draw(10, 1)

    assert [each.kind for each in drawn[:5]] == list(mutants.KINDS)
    assert Counter(each.kind for each in drawn) == dict.fromkeys(mutants.KINDS, 2)
    assert drawn == mutants.draw(10, 1) != mutants.draw(10, 2)


def test_a_line_is_run_by_the_tests_of_its_expression_and_of_the_functions_that_name_it(planted):
    (planted / "audit" / "statistics" / "most.py").write_text(
        "MOST = 3\nTWICE = (MOST,\n    2)\n\n\n"
        "def more(number):\n    return (number +\n        1 -\n        TWICE[0])\n"
    )
    covered = {"audit/statistics/most.py": {1: set(), 2: {"test_first_import"}, 7: {"test_more"}, 9: {"test_most"}}}
    found = {}
    for each in mutants.mutants_of(planted / "audit" / "statistics" / "most.py"):
        found[each.line, each.before] = mutants.tests_of(each, covered)

    assert found[1, "3"] == {"test_most"}  # MOST is of TWICE, which line 9 names
    assert found[3, "2"] == {"test_most"}
    assert found[7, "+"] == {"test_more"}
    assert found[8, "1"] == {"test_more", "test_most"}  # a line of which coverage has nothing


def test_tests_that_run_least_code_come_first_and_files_named_as_the_module_before_them(planted):
    mutant = next(mutants.mutants_of(planted / "audit" / "statistics" / "rest.py"))
    widths = Counter({"test_a.py::wide": 90, "test_a.py::narrow": 1, "test_b.py::one": 2, "test_rest.py::one": 99})

    assert mutants.in_order(mutant, set(widths), widths) == [
        "test_rest.py::one", "test_b.py::one", "test_a.py::narrow", "test_a.py::wide"
    ]  # fmt: skip


def test_without_coverage_the_files_that_import_the_module_are_its_tests(planted):
    (planted / "tests").mkdir()
    for name, line in (
        ("a", "from audit.statistics.rest import rest"), ("b", "from audit.statistics import most, rest"),
        ("c", "from audit.statistics import most"), ("rest", ""),
    ):  # fmt: skip
        (planted / "tests" / f"test_{name}.py").write_text(f"{line}\n")
    mutant = next(mutants.mutants_of(planted / "audit" / "statistics" / "rest.py"))
    assert mutants.importing(mutant) == {f"tests/test_{name}.py" for name in ("a", "b", "rest")}


DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import mutants
tree = mutants.ROOT = Path({tree!r})
made = {{(each.kind, each.before): each for each in mutants.mutants_of(tree / "audit" / "statistics" / "rest.py")}}
chosen = [made["dropped line", "numbers.sort()"], made["comparison", "<"]]
def show(row):
    with open(tree / "shown", "a") as file:
        file.write(f"{{row['outcome']}} {{row['by']}} {{row['n_tests']}}\\n")
for test in ("test_rest.py::test_least", "test_later.py::test_least"):
    left = mutants.in_forks({{each: [test] for each in chosen}}, tree, show)
    for each in chosen:
        if each in left:
            show(mutants.at_import(each, [test], tree))
print(mutants.failed(["test_later.py::test_wrong", "test_later.py::test_least"], tree), flush=True)
mutants.HANGS = {{mutants.signal.ITIMER_PROF: 1}}
print(mutants.failed(["test_later.py::test_for_ever"], tree))
"""


@pytest.mark.process
@pytest.mark.long
def test_a_test_that_notices_is_told_from_one_that_does_not_and_from_one_that_fails_anyway(planted):
    driver = DRIVER.format(folder=str(PATH.parent), tree=str(planted))
    run = subprocess.run([sys.executable, "-c", driver], capture_output=True, text=True, check=True)

    # Imported with its tests, the functions change in memory; imported by a test, the file is read anew.
    assert (planted / "shown").read_text().splitlines() == [
        "noticed test_rest.py::test_least 1", "survived  1", "noticed test_later.py::test_least 1", "survived  1"
    ]  # fmt: skip
    assert run.stdout.splitlines() == ["['test_later.py::test_wrong']", "['hangs']"]
    assert (planted / "audit" / "statistics" / "rest.py").read_text("utf-8") == CODE


def test_the_table_counts_what_became_of_each():
    row = {"kind": "sign", "outcome": "survived"}
    rows = [
        row, row | {"equivalent": "the mean of one"}, {"kind": "sign", "outcome": "noticed"},
        {"kind": "constant", "outcome": "noticed", "slow": True},
        {"kind": "constant", "outcome": "noticed", "slow": True, "added": True},
        {"kind": "constant", "outcome": "not run"},
    ]  # fmt: skip
    lines = mutants.table(rows).splitlines()
    columns = "places, not run, noticed by quick tests, by slow ones, by a test added for it, equivalent, survived"
    assert lines[0] == f"| kind | {columns.replace(', ', ' | ')} |"
    assert "| sign | 3 | 0 | 1 | 0 | 0 | 1 | 1 |" in lines
    assert "| constant | 3 | 1 | 0 | 1 | 1 | 0 | 0 |" in lines
    assert lines[-1] == "| all | 6 | 1 | 1 | 1 | 1 | 1 | 1 |"


def test_the_documentation_has_the_table_of_what_was_found():
    root = PATH.parents[1]
    rows = json.loads((root / "tests" / "mutants.json").read_text(encoding="utf-8"))
    fates = Counter(map(mutants.fate, rows))
    tried = len(rows) - fates["equivalent"] - fates["not run"]
    found = tried - fates["survived"]
    documented = (root / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert mutants.table(rows) in documented
    assert f"{found} of {tried} ({found / tried:.1%})" in documented
    for row in rows:
        if mutants.fate(row) == "survived":
            assert f"`{row['path']}:{row['line']}`" in documented
    assert all(row["outcome"] == "survived" for row in rows if row.get("equivalent"))
