"""Tables of words on the first screens have an entry for every code that is stored, and none for a code that is not.

`test_limits_named` holds that they are on the page where a code is planted, and else are not.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import audit
from audit.comparing import first_screen as compared
from audit.comparing.preference import page as preference
from audit.comparing.tables import REPLY_RUNS, RUNS
from audit.report import disparities, disparity_section, sentences, verdicts
from audit.statistics.verdict import _NEXT, NOT_RULED_OUT, VOID
from audit.tasks.inventory import first_screen as inventory

PACKAGE = Path(audit.__file__).parent
DECIDED = ("statistics",)
REMARKED = ("statistics", "runs", "tasks", "comparing")
WORDS = {
    "reasons": (verdicts.REASONS, DECIDED),
    "steps": (verdicts.STEPS, DECIDED),
    "limits of disparities": (disparities._REASONS, DECIDED),
    "steps of disparities": (disparities._STEPS, DECIDED),
    "views": (disparity_section._VIEWS, DECIDED),
    "scopes": (disparity_section._SCOPES, DECIDED),
    "limits": (sentences.LIMITS, REMARKED),
    "limits of questionnaires": (inventory.LIMITS, REMARKED),
    "limits of preferences": (preference._LIMITS, REMARKED),
}


@cache
def strings_of(*parts: str) -> set[str]:
    """Return every string of the package's folders but docstrings and the keys of the tables of words."""
    found = set()
    for path in [path for part in parts for path in (PACKAGE / part).rglob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        tables = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in ("LIMITS", "_LIMITS")
        ]
        left_out = {id(key) for table in tables if isinstance(table, ast.Dict) for key in table.keys}
        left_out |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found |= {str(node.value) for node in strings if id(node) not in left_out}
    return found


@pytest.mark.parametrize("kind", [*WORDS])
def test_no_words_are_of_a_code_that_nothing_gives(kind: str) -> None:
    words, parts = WORDS[kind]
    assert {*words} - strings_of(*parts) == set()


def test_every_next_step_of_a_verdict_has_words() -> None:
    assert {step for _, step in _NEXT} | {"nothing"} == {*verdicts.STEPS}


def test_everything_that_can_limit_the_answer_on_a_group_has_words() -> None:
    """The codes are those of `docs/statistics.md`, in the table of limits, and what allows no verdict."""
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text("utf-8").partition("## Disparity")[2]
    table = text.partition("| code | what it says |")[2].partition("\n\n")[0]
    listed = re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|$)", table, re.MULTILINE)
    assert len(listed) > 12
    assert {*listed, *VOID, *NOT_RULED_OUT} - {"noise_floor"} <= {*disparities._REASONS}
    assert {*disparities._BLOCKING} <= {*disparities._REASONS}
    assert {*disparities._STEPS} <= {*disparities._REASONS}


def test_what_a_measure_calls_otherwise_is_a_reason_or_a_step_of_ratings() -> None:
    assert {*verdicts.OF_MEASURES} <= {*verdicts.REASONS}
    assert {*verdicts.STEPS_OF_MEASURES} <= {*verdicts.STEPS}
    assert {*disparities._REASONS_OF_MEASURES} == {*disparities._REASONS}
    assert {*disparities._STEPS_OF_MEASURES} <= {*disparities._STEPS}


def test_what_runs_may_differ_in_is_a_column_of_their_table_and_has_words_once() -> None:
    assert {*compared.DIFFERING, *compared.BESIDES} <= {*RUNS, *REPLY_RUNS}
    assert {*compared.DIFFERING} & {*compared.BESIDES} == set()
