"""The house rules, proved from the syntax trees: which way imports flow, where heavy libraries are, what composes."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import audit
import stimuli
from audit.cli.composition import choices, conf_folder
from audit.config import AuditConfig, load_config
from audit.tasks.registry import TASKS

CONF = conf_folder()
ROOTS = {"audit": Path(audit.__file__).parent, "stimuli": Path(stimuli.__file__).parent}

FOUNDATIONS = {"errors", "plain_json", "runs.manifest", "runs.parts", "tables", "version", "wording"}
OF_TASKS = {
    *FOUNDATIONS, "collect", "config", "conversations", "engines", "figures", "publish", "report", "statistics",
    "progress", "stimuli", "runs.store", "tasks.base",
}  # fmt: skip
MAY_IMPORT: dict[str, set[str]] = {
    # What all stages may use, and what itself uses next to nothing.
    "errors": set(),
    "disk": set(),
    "plain_json": set(),
    "tables": {"stimuli"},
    "wording": set(),
    "version": set(),
    "runs": set(),
    "runs.files": {"errors"},
    "runs.told": {"stimuli"},
    "runs.ledger": {"errors", "runs.files", "runs.told"},
    "packaged": set(),
    "shown_prompt": {"wording"},
    "runs.model_names": {"packaged", "wording"},
    "runs.manifest": {"errors", "plain_json", "runs.ledger", "runs.model_names", "stimuli"},
    "runs.digest": {"runs.manifest", "tables"},
    "runs.parquet": {"errors", "stimuli", "tables"},
    "runs.parts": {"errors", "plain_json", "runs.files", "runs.ledger", "runs.parquet", "stimuli", "tables"},
    "runs.one_file": {"errors", "runs.ledger", "runs.parquet", "stimuli", "tables"},
    "runs.planned": {"config", "runs.store", "stimuli"},
    "runs.prompts": {"errors", "plain_json", "stimuli"},
    "progress": set(),
    "grid": FOUNDATIONS,
    "config": {"errors", "stimuli"},
    "commented": set(),
    "options": {"commented", "config", "errors", "packaged", "stimuli"},
    # The stages. No arrows but these: elicitation speaks to an engine, texts knows a refusal as elicitation does, and
    # statistics counts words as texts splits them.
    "engines": {"config", "errors", "plain_json", "progress", "stimuli", "tables"},
    "elicitation": {"engines", "errors", "stimuli", "tables"},
    "strategies": {"config", "engines", "errors", "plan", "stimuli"},
    "texts": {"elicitation", "stimuli", "tables"},
    "measures": {"config", "elicitation", "engines", "errors", "stimuli", "tables", "texts"},
    "measured": {"elicitation", "measures", "runs.manifest", "statistics", "stimuli", "tables"},
    "judge": {"elicitation", "engines", "errors", "measures", "stimuli", "tables"},
    "people": {"errors", "stimuli", "tables", "wording"},
    # Who asks: knows the model and the run's folder, and nothing of what is asked.
    "workers": {"config", "engines", "errors", "progress", "runs.store", "version", "wording"},
    "score": {
        *FOUNDATIONS, "config", "elicitation", "engines", "judge", "measures", "plan", "progress", "stimuli",
        "runs.model_names", "runs.parquet", "runs.store",
    },
    "raters": {*FOUNDATIONS, "conversations", "people", "report", "stimuli", "runs.store"},
    "statistics": {*FOUNDATIONS, "texts"},
    "figures": {*FOUNDATIONS, "grid"},
    "report": {*FOUNDATIONS, "conversations", "grid"},
    "runs.store": {
        "errors", "plain_json", "runs.digest", "runs.files", "runs.ledger", "runs.manifest",
        "runs.one_file", "runs.parquet", "runs.parts", "runs.prompts", "stimuli", "tables",
    },
    "runs.provenance": {
        "config", "engines", "errors", "runs.manifest", "runs.model_names", "runs.planned", "runs.prompts", "stimuli",
    },
    "runs.rescued": {
        "errors", "runs.ledger", "runs.outside", "runs.parquet", "runs.parts", "runs.prompts", "runs.store", "tables",
        "wording",
    },
    "runs.recover": {
        "errors", "runs.files", "runs.ledger", "runs.manifest", "runs.parquet", "runs.parts", "runs.prompts",
        "runs.provenance", "runs.rescued", "runs.store", "stimuli", "tables", "wording",
    },
    "plan": {"config", "errors", "runs.provenance", "stimuli", "runs.store", "wording"},
    "conversations": {
        *FOUNDATIONS, "config", "plan", "runs.provenance", "runs.prompts", "stimuli", "strategies",
    },
    "runs.outside": {*FOUNDATIONS, "runs.provenance", "stimuli"},
    "released": {*FOUNDATIONS, "elicitation", "runs.outside", "stimuli"},
    "exported": {
        *FOUNDATIONS, "config", "plan", "runs.files", "runs.planned", "runs.prompts", "stimuli",
    },
    # What all tasks use, and the tasks, none of which knows another one.
    "collect": {
        *FOUNDATIONS, "config", "conversations", "elicitation", "engines", "plan", "progress", "runs.provenance",
        "runs.planned", "runs.prompts", "shown_prompt", "stimuli", "runs.store", "strategies", "workers",
    },
    "publish": {
        *FOUNDATIONS, "conversations", "figures", "measures", "statistics", "stimuli", "runs.ledger", "runs.store",
        "texts",
    },
    "tasks": set(),
    "tasks.base": {
        *FOUNDATIONS, "config", "engines", "people", "progress", "report", "runs.planned", "statistics", "runs.store",
    },
    "tasks.written": {
        *OF_TASKS, "judge", "measured", "measures", "plan", "raters", "score", "strategies", "texts",
    },
    "tasks.rated": {*OF_TASKS, "elicitation", "plan", "progress", "strategies", "workers"},
    "tasks.intensity": {"config", "people", "tasks.rated"},
    "tasks.reply": {
        "collect", "config", "measures", "people", "plan", "report", "score", "strategies", "tasks.written", "texts",
    },
    "tasks.recognition": {
        *FOUNDATIONS, "config", "elicitation", "measures", "plan", "publish", "report", "statistics", "stimuli",
        "runs.store", "tasks.written",
    },
    "tasks.inventory": {*OF_TASKS, "elicitation", "runs.provenance", "shown_prompt", "workers"},
    "tasks.registry": {
        "errors", "runs.manifest", "tasks.base", "tasks.intensity", "tasks.inventory", "tasks.recognition",
        "tasks.reply",
    },
    # Who knows the order, and who asks for it.
    "pipeline": {
        *FOUNDATIONS, "config", "engines", "exported", "runs.outside",
        "runs.provenance", "raters", "statistics", "stimuli", "runs.store",
        "progress", "runs.planned", "tasks.base", "tasks.registry",
    },
    "verification": {
        *FOUNDATIONS, "collect", "config", "progress", "publish", "runs.ledger", "runs.prompts", "runs.provenance",
        "runs.store", "stimuli", "tasks.registry",
    },
    "verified_comparison": {*FOUNDATIONS, "comparison", "progress", "runs.ledger", "stimuli", "verification"},
    "choices": {*FOUNDATIONS, "config", "stimuli"},
    "side_by_side": {*FOUNDATIONS, "choices", "figures", "report"},
    "rating_comparison": {
        *FOUNDATIONS, "choices", "conversations", "figures", "measures", "report", "side_by_side", "statistics",
        "stimuli", "runs.store", "tasks.rated", "texts",
    },
    "reply_comparison": {
        *FOUNDATIONS, "choices", "config", "figures", "measured", "measures", "runs.provenance", "report",
        "score", "side_by_side", "statistics", "runs.store", "tasks.registry",
    },
    "comparison": {
        *FOUNDATIONS, "choices", "config", "runs.provenance", "rating_comparison", "reply_comparison", "side_by_side",
        "runs.store", "tasks.registry",
    },
    "replication": {
        *FOUNDATIONS, "comparison", "config", "runs.outside", "progress", "runs.provenance", "rating_comparison",
        "released",
        "stimuli", "runs.store", "tasks.base", "tasks.rated", "tasks.registry",
    },
    "preference": {
        *FOUNDATIONS, "choices", "config", "conversations", "elicitation", "engines", "judge", "measures", "progress",
        "runs.model_names", "runs.provenance", "report", "statistics", "stimuli", "runs.store", "tasks.registry",
    },
    "paired_raters": {
        *FOUNDATIONS, "choices", "config", "people", "preference", "runs.provenance", "report", "statistics",
        "runs.store",
    },
    "doctor": {
        "config", "disk", "elicitation", "engines", "errors", "plan", "progress", "tasks.registry", "wording",
        "workers",
    },
    "forecast": {
        *FOUNDATIONS, "collect", "config", "elicitation", "engines", "progress", "runs.ledger", "runs.planned",
        "runs.provenance",
        "runs.store", "statistics", "stimuli", "tasks.base", "workers",
    },
    "index": {
        *FOUNDATIONS, "choices", "grid", "publish", "report", "runs.files", "runs.ledger", "runs.store", "statistics",
        "stimuli", "tasks.registry",
    },
    "gate": {
        *FOUNDATIONS, "choices", "report", "runs.files", "runs.ledger", "runs.store", "statistics", "stimuli",
        "tasks.rated", "tasks.registry",
    },
    "paper": {*FOUNDATIONS, "grid", "report", "statistics"},
    "exchange": {
        *FOUNDATIONS, "choices", "collect", "elicitation", "engines", "exported", "figures", "paper", "plan",
        "report", "runs.files", "runs.ledger", "runs.parquet", "runs.store", "statistics", "stimuli", "tasks.rated",
        "tasks.registry",
    },
    "cli": {
        *FOUNDATIONS, "comparison", "config", "disk", "doctor", "exchange", "exported", "forecast", "gate",
        "index", "options",
        "pipeline", "paired_raters", "preference", "progress", "raters", "replication", "runs.prompts", "runs.recover",
        "shown_prompt", "stimuli", "tasks.base", "tasks.registry", "verification", "verified_comparison",
    },
    "__main__": {"cli"},
    "api": {
        *FOUNDATIONS, "cli", "comparison", "config", "conversations", "exchange", "figures", "gate", "runs.outside",
        "pipeline", "report", "statistics", "runs.ledger", "runs.store", "tasks.registry", "verification",
    },
    "__init__": {"api", "version"},
}  # fmt: skip
"""For each part of ``audit`` the other parts that it may import."""

MODULE_BY_MODULE = {"runs", "tasks"}
"""Packages whose modules are stages of their own, each a part."""

ONLY_IN = {
    **dict.fromkeys(
        ("torch", "transformers", "vllm", "huggingface_hub", "accelerate", "gguf", "sentence_transformers"),
        "audit.engines.",
    ),
    "httpx2": "audit.engines.server",
    "ray": "audit.workers.cluster",
    "inspect_ai": ("audit.exchange.inspect_task", "audit.engines.inspect_log"),
    "pyreadstat": ("audit.exchange.spss", "stimuli.table_files"),
    "docx": "audit.paper.word",
    **dict.fromkeys(("hydra", "omegaconf"), "audit.cli.composition"),
    **dict.fromkeys(("matplotlib", "seaborn"), "audit.figures"),
    **dict.fromkeys(("scipy", "statsmodels"), "audit.statistics."),
    "patsy": "audit.statistics.own_model",
    "sklearn": "audit.statistics.tsne",
    "jinja2": ("audit.report.", "audit.engines.rendering"),
    "tabulate": "audit.report.paper_table",
    "pyarrow": ("audit.runs.", "stimuli.table_files"),
    "inflect": "stimuli.identities",
    "python_calamine": "stimuli.spreadsheets",
    "vaderSentiment": "audit.texts.",
}
"""The one place of each library that takes long to import or ties us to its maker."""

ONLY_INSIDE_FUNCTIONS = {
    "torch", "transformers", "vllm", "huggingface_hub", "accelerate", "gguf", "httpx2", "hydra", "omegaconf", "inflect",
    "sentence_transformers", "sklearn", "vaderSentiment", "ray", "pyreadstat", "docx", "python_calamine",
}  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One import statement's target, and where it stands."""

    importer: str
    target: str
    line: int
    when: str  # "module" level, inside a "function", or for the "types" alone

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.target} ({self.when})"


def imports_of(importer: str, source: str) -> Iterator[Import]:
    def visit(node: ast.AST, when: str) -> Iterator[Import]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            when = "function"
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            when = "types"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, node.lineno, when)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer}, line {node.lineno}: a relative import; write it out"
            for alias in node.names:
                # `from audit.runs import store` imports audit.runs.store: keep the last name where the first is a root.
                yield Import(importer, f"{node.module}.{alias.name}", node.lineno, when)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, when)

    yield from visit(ast.parse(source), "module")


@cache
def sources() -> dict[str, str]:
    """Map each module's dotted name to its text."""
    return {
        ".".join([root, *path.relative_to(folder).with_suffix("").parts]): path.read_text(encoding="utf-8")
        for root, folder in ROOTS.items()
        for path in sorted(folder.rglob("*.py"))
    }


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for name, source in sources().items() for found in imports_of(name, source))


def part(dotted: str) -> str:
    """Return which part of ``audit`` a dotted name lies in; ``stimuli`` is one part."""
    names = dotted.split(".")
    if names[0] == "stimuli":
        return "stimuli"
    if len(names) < 2 or names[1].startswith("__version"):
        return "__init__"
    if names[1] in MODULE_BY_MODULE and len(names) > 2 and not names[2].startswith("__"):
        return f"{names[1]}.{names[2]}"
    return names[1]


def inside(found: Import) -> bool:
    return found.target.split(".")[0] in ROOTS


# --- Which way imports flow ------------------------------------------------------------------------------------------


def test_stimuli_import_nothing_from_audit():
    wrong = [i for i in all_imports() if i.importer.startswith("stimuli.") and i.target.split(".")[0] == "audit"]
    assert [str(i) for i in wrong] == []


def test_every_part_of_audit_has_its_rule():
    parts = {part(name) for name in sources() if name.startswith("audit.")}
    assert parts - set(MAY_IMPORT) == set(), "say in MAY_IMPORT what this part may import"


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_a_part_imports_only_what_lies_before_it(name):
    allowed = MAY_IMPORT[name] | {name, "__init__"}
    wrong = [
        i
        for i in all_imports()
        if i.importer.startswith("audit.") and part(i.importer) == name and inside(i) and part(i.target) not in allowed
    ]
    assert [str(i) for i in wrong] == []


def test_the_rules_have_no_circle():
    done: set[str] = {"stimuli"}
    left = {name: allowed - {name} for name, allowed in MAY_IMPORT.items()}
    while left:
        free = {name for name, allowed in left.items() if allowed <= done}
        assert free, f"these import each other in a circle: {sorted(left)}"
        done |= free
        left = {name: allowed for name, allowed in left.items() if name not in free}


def test_elicitation_knows_the_engine_s_protocol_and_tokenizer_but_no_engine():
    known = {
        ".".join(i.target.split(".")[:3])
        for i in all_imports()
        if part(i.importer) == "elicitation" and part(i.target) == "engines"
    }
    assert known <= {"audit.engines.base", "audit.engines.chat", "audit.engines.dialects"}  # the marks of thoughts


def tables_known_to(*modules: str) -> set[str]:
    """Return the modules of tables that some modules import, or that these import in turn."""
    known: set[str] = set()
    left = set(modules)
    while left:
        found = {
            ".".join(i.target.split(".")[:3])
            for i in all_imports()
            if i.importer in left and i.target.startswith("audit.tables.")
        }
        left, known = found - known, known | found
    return {name.removeprefix("audit.tables.") for name in known}


def test_the_store_knows_no_table_of_a_feature():
    assert tables_known_to("audit.runs.store", "audit.runs.parts", "audit.runs.one_file") == {
        "base", "ratings", "shared", "spreadsheets",
    }  # fmt: skip


def test_the_tables_of_a_run_of_ratings_are_made_of_no_other_run_s():
    others = {"comparison", "inventory", "people_of_replies", "preference", "recognition", "replies"}
    assert tables_known_to("audit.tables.run_of_ratings") & others == set()


TASKS_OWN = {"tasks.intensity", "tasks.reply", "tasks.recognition", "tasks.inventory"}


@pytest.mark.parametrize("name", sorted(TASKS_OWN))
def test_a_task_knows_no_other_task(name):
    known = {part(i.target) for i in all_imports() if part(i.importer) == name and inside(i)}
    assert known & (TASKS_OWN | {"tasks.registry"}) <= {name}


def test_every_task_is_one_of_these():
    assert {part(type(task).__module__) for task in TASKS.values()} == TASKS_OWN
    assert {kind: task.kind for kind, task in TASKS.items()} == {kind: kind for kind in TASKS}


def asks_which_task(node: ast.AST) -> bool:
    """Say whether an expression depends on which task a run is of, or on the type of its settings or of its plan."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
        return any(name.endswith(("Task", "Plan")) for name in re.findall(r"\w+", ast.unparse(node.args[1])))
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
        return any(re.search(r"\btask(\.kind|\.name)?$", side) for side in sides)
    return False


def test_no_code_asks_which_task_a_run_is_of():
    found = [
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for name, source in sources().items()
        for node in ast.walk(ast.parse(source))
        if asks_which_task(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("isinstance(config.task, ReplyTask)", True),
        ("isinstance(plan, (Plan, InventoryPlan))", True),
        ("manifest.task.kind == 'reply'", True),
        ("plan.config.task in CORPORA", True),
        ("task.kind not in ('emotion', 'cause')", True),
        ("isinstance(config, dict)", False),
        ("other is not task", False),
        ("form == 'replies'", False),
    ],
)
def test_the_checker_sees_who_asks_for_the_task(source, asks):
    assert asks_which_task(ast.parse(source, mode="eval").body) is asks


def test_no_module_is_a_drawer_for_everything():
    drawers = {"utils", "util", "helpers", "helper", "misc", "common", "tools"}
    assert [name for name in sources() if drawers & set(name.split("."))] == []


def test_nothing_is_imported_by_a_string():
    found = [
        f"{name}, line {node.lineno}"
        for name, source in sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Name, ast.Attribute))
        and (node.id if isinstance(node, ast.Name) else node.attr) in ("import_module", "__import__")
    ]
    assert found == []


# --- Heavy libraries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_in_its_one_place(library):
    of_it = [i for i in all_imports() if i.target.split(".")[0] == library]
    assert [str(i) for i in of_it if not i.importer.startswith(ONLY_IN[library])] == []


@pytest.mark.parametrize("library", sorted(ONLY_INSIDE_FUNCTIONS))
def test_a_heavy_library_is_imported_only_when_it_is_needed(library):
    of_it = [i for i in all_imports() if i.target.split(".")[0] == library]
    assert [str(i) for i in of_it if i.when == "module"] == []


def test_figures_are_imported_only_when_they_are_drawn():
    early = [
        i for i in all_imports() if inside(i) and part(i.target) == "figures" != part(i.importer) and i.when == "module"
    ]
    assert [str(i) for i in early] == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("audit.cli.main", {"pandas", "numpy", "pydantic", *ONLY_IN}),
        ("audit.comparison", set(ONLY_IN) - {"pyarrow"}),
        ("audit.pipeline", set(ONLY_IN) - {"pyarrow"}),
        ("stimuli.prompts", {"audit", "pandas", *ONLY_IN}),
    ],
)
def test_importing_a_module_loads_no_heavy_library(module, absent):
    script = f"import json, sys, {module}; print(json.dumps([name for name in sys.modules if '.' not in name]))"
    here = str(ROOTS["audit"].parent)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=here)
    assert absent & set(json.loads(ran.stdout)) == set()


# --- The checker itself ----------------------------------------------------------------------------------------------


def test_the_checker_sees_imports_wherever_they_stand():
    source = """
import torch.nn as nn
if TYPE_CHECKING:
    from audit.runs.store import RunFolder
class A:
    import seaborn
def f():
    from audit import pipeline
    return lambda: __import__
try:
    import vllm
except ImportError:
    pass
"""
    assert [(i.target, i.when) for i in imports_of("x", source)] == [
        ("torch.nn", "module"),
        ("audit.runs.store.RunFolder", "types"),
        ("seaborn", "module"),
        ("audit.pipeline", "function"),
        ("vllm", "module"),
    ]
    assert [
        part(name) for name in ("audit.runs.store.RunFolder", "audit.pipeline", "audit.__version__", "stimuli.x")
    ] == [
        "runs.store",
        "pipeline",
        "__init__",
        "stimuli",
    ]


def test_the_checker_reads_the_whole_of_both_packages():
    assert {"audit.pipeline", "audit.engines.vllm", "stimuli.prompts"} <= set(sources())
    assert {i.target.split(".")[0] for i in all_imports()} >= {"vllm", "torch", "transformers", "hydra", "seaborn"}


# --- The packaged configuration --------------------------------------------------------------------------------------


CHOICES = [(path.parent.name, path.stem) for path in sorted(CONF.glob("*/*.yaml")) if path.stem != "base"]


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_a_packaged_choice_composes_to_a_valid_configuration(group, choice):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("audit", [f"{group}={choice}"])
    for key in OmegaConf.missing_keys(composed):
        assert key in ("model.path", "stimuli.path", "prompt.path"), f"{key} must be given, and nobody says so"
        OmegaConf.update(composed, key, "given by the user")
    values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    config = load_config(values)
    assert isinstance(config, AuditConfig)
    assert config.elicitation_method in ("generate", "expected")
    if group in ("model", "prompt") and choice != "published":
        assert getattr(config, group).name == choice


def test_the_packaged_choices_are_those_that_the_help_offers():
    offered = {(group, choice) for group, names in choices().items() for choice in names}
    assert offered == {(group, choice) for group, choice in CHOICES if choice != "none"}
    assert {"model", "prompt", "stimuli", "engine", "elicitation", "statistics", "experiment"} <= {
        group for group, _ in CHOICES
    }


# --- The scripts beside the package ----------------------------------------------------------------------------------

SCRIPTS = [
    path for folder in ("benchmarks", "release") for path in sorted((ROOTS["audit"].parent / folder).glob("*.py"))
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_what_is_there(path):
    # Before: benchmarks/controls.py, whose figures the docs have, could not be run.
    wanted = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ROOTS
        for alias in node.names
    ]
    for module, name in wanted:
        assert hasattr(importlib.import_module(module), name) or f"{module}.{name}" in sources(), f"{module}: {name}"
