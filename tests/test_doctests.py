"""The examples in the docstrings run, and the functions that a reader calls first have one."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import audit

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path
    for place in ("stimuli", "audit/statistics", "audit/api.py")
    for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
)
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]

CALLED_FIRST = {
    "stimuli.errors": ("suggest",),
    "stimuli.examples": ("choose_similar",),
    "stimuli.identities": ("load_dimensions", "load_placebos"),
    "stimuli.inventories": ("load_affect", "orders", "read_list_answers"),
    "audit.configuration.options": ("group_rows", "option_rows"),
    "stimuli.emotion_names": ("complete", "emotion_words", "words_of_emotion"),
    "stimuli.languages": ("load_language",),
    "stimuli.narratives": ("emotion_valence", "in_intensity", "load_narratives"),
    "stimuli.prompts": ("PromptGrid", "PromptVariant", "placeholders"),
    "stimuli.rubrics": ("load_rubrics", "quoted"),
    "stimuli.stereotypes": ("load_stereotypes",),
    "stimuli.tables": ("check_unique", "find_delimiter"),
    "audit.api": ("compare", "disparity", "empathy_gap", "open_run", "run"),
    "audit.statistics.agreement": ("krippendorff_alpha",),
    "audit.statistics.classification": ("score_labels",),
    "audit.statistics.contrasts": ("column_weights", "sign_flip_p"),
    "audit.statistics.conversations": ("conversation_of",),
    "audit.people.correlation": ("correlate",),
    "audit.statistics.crossed": ("crossed_gap",),
    "audit.statistics.estimates": ("summarise_contrasts", "t_interval"),
    "audit.statistics.families": ("adjust_p",),
    "audit.people.gap": ("fisher_interval",),
    "audit.statistics.planning": (
        "detectable_gap", "equivalence_power", "narratives_to_find", "narratives_to_rule_out", "spread_interval",
    ),
    "audit.statistics.published": ("exact_null", "standardise_cells"),
    "audit.statistics.scopes": ("adjusted_gap",),
    "audit.statistics.text_differences": ("log_odds_ratio",),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_say(name, monkeypatch):
    monkeypatch.chdir(ROOT)  # examples open the committed run by its relative path
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", sorted(CALLED_FIRST))
def test_what_a_reader_calls_first_has_an_example(name):
    tree = ast.parse((ROOT / Path(*name.split("."))).with_suffix(".py").read_text(encoding="utf-8"))
    said = {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    assert [each for each in CALLED_FIRST[name] if ">>> " not in said[each]] == []


def test_every_public_function_of_the_package_has_an_example():
    functions = {name for name in audit.__all__ if inspect.isfunction(getattr(audit, name))}
    assert functions == set(CALLED_FIRST["audit.api"])
