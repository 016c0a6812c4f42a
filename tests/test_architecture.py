"""The house rules, proved from the syntax trees: which way imports flow, where heavy libraries are, what composes."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import audit
import stimuli
from audit.configuration.composition import choices, conf_folder
from audit.configuration.schema import AuditConfig, load_config
from audit.tasks.registry import TASKS

PATH = Path(__file__).parents[1] / "benchmarks" / "imports.py"
spec = importlib.util.spec_from_file_location("imports", PATH)
layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layers)
CONF = conf_folder()
ROOTS = {"audit": Path(audit.__file__).parent, "stimuli": Path(stimuli.__file__).parent}

DRAWING = (
    "audit.report.figures", "audit.tasks.inventory.figures", "audit.tasks.reply.figures",
    "audit.extras.exchange.paper.figures",
)  # fmt: skip
ONLY_IN = {
    **dict.fromkeys(
        ("torch", "transformers", "vllm", "huggingface_hub", "accelerate", "gguf", "sentence_transformers"),
        "audit.engines.",
    ),
    "httpx2": "audit.engines.server",
    "ray": "audit.asking.workers.cluster",
    "inspect_ai": ("audit.extras.exchange.inspect_task", "audit.engines.inspect_log"),
    "pyreadstat": ("audit.extras.exchange.spss", "stimuli.table_files"),
    "docx": "audit.extras.exchange.paper.word",
    **dict.fromkeys(("hydra", "omegaconf"), "audit.configuration.composition"),
    **dict.fromkeys(("matplotlib", "seaborn"), DRAWING),
    "statsmodels": "audit.statistics.",
    "scipy": (
        "audit.statistics.",
        "audit.people.",
        "audit.tasks.",
        "audit.comparing.",
        "audit.asking.elicitation.ends",
    ),
    "patsy": "audit.statistics.own_model",
    "sklearn": "audit.statistics.tsne",
    "jinja2": ("audit.report.", "audit.engines.rendering"),
    "tabulate": "audit.comparing.paper_table",
    "pyarrow": ("audit.runs.", "audit.extras.integrity.", "stimuli.table_files"),
    "inflect": "stimuli.identities",
    "python_calamine": "stimuli.spreadsheets",
    "vaderSentiment": "audit.tasks.measures.text_scores",
}
"""The one place of each library that takes long to import or ties us to its maker."""

ONLY_INSIDE_FUNCTIONS = {
    "torch", "transformers", "vllm", "huggingface_hub", "accelerate", "gguf", "httpx2", "hydra", "omegaconf", "inflect",
    "sentence_transformers", "sklearn", "vaderSentiment", "ray", "pyreadstat", "docx", "python_calamine",
}  # fmt: skip


# --- Which way imports flow ------------------------------------------------------------------------------------------


GRAPH = layers.imports()


def test_every_part_has_its_place_among_the_layers():
    assert {layers.layer_of(part) for part in layers.between_parts(GRAPH)} == set(layers.LAYERS)


def test_a_part_is_a_folder_and_a_folder_set_apart_has_its_own():
    assert layers.part_of("audit.runs.store") == "runs"
    assert layers.part_of("audit.tasks.base") == "tasks"
    assert layers.part_of("audit.tasks.reply.judge.rubric") == "tasks.reply"
    assert layers.part_of("audit.extras.gate.judge") == "extras.gate"
    assert layers.part_of("audit.__main__") == layers.part_of("audit.api") == layers.part_of("audit") == "audit"


def test_nothing_imports_upward():
    assert [
        f"{name} imports {target}"
        for name, targets in GRAPH.items()
        for target in sorted(targets)
        if layers.is_upward(layers.part_of(name), layers.part_of(target))
    ] == []


def test_there_is_no_circle_of_imports():
    assert layers.circles(GRAPH) == []
    assert layers.circles(layers.between_parts(GRAPH)) == []


def test_the_layers_see_what_goes_up_and_what_goes_round():
    assert layers.is_upward("tables", "runs")
    assert layers.is_upward("tasks", "tasks.reply")
    assert layers.is_upward("tasks.reply", "tasks.recognition")
    assert layers.is_upward("cli", "audit")
    assert layers.is_upward("cli.terminal", "extras.gate")
    assert layers.is_upward("extras.gate", "cli")
    assert not layers.is_upward("cli", "cli.terminal")
    assert not layers.is_upward("runs", "tables")
    assert not layers.is_upward("extras.gate", "extras.index")
    assert layers.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]


def test_elicitation_knows_the_engine_s_protocol_and_tokenizer_but_no_engine():
    known = {
        ".".join(i.target.split(".")[:3])
        for i in layers.all_imports()
        if i.importer.startswith("audit.asking.elicitation.") and i.target.startswith("audit.engines.")
    }
    assert known <= {"audit.engines.base", "audit.engines.chat", "audit.engines.dialects"}  # the marks of thoughts


def tables_known_to(*modules: str, through: str = "") -> set[str]:
    """Return the modules of tables that some modules import, or that these import in turn, though not ``through``."""
    known = {f"audit.tables.{through}"} if through else set()
    left = set(modules)
    while left:
        found = {
            ".".join(i.target.split(".")[:3])
            for i in layers.all_imports()
            if i.importer in left and i.target.startswith("audit.tables.")
        }
        left, known = found - known, known | found
    return {name.removeprefix("audit.tables.") for name in known}


def test_the_store_knows_no_table_of_a_feature():
    # It takes all of them from one list, and names none.
    assert tables_known_to("audit.runs.store", "audit.runs.parts", "audit.runs.one_file", through="stored") == {
        "base", "ratings", "shared", "spreadsheets", "stored",
    }  # fmt: skip


def test_the_tables_of_a_run_of_ratings_are_made_of_no_other_run_s():
    others = {"comparison", "inventory", "people_of_replies", "preference", "recognition", "replies"}
    assert tables_known_to("audit.tables.run_of_ratings") & others == set()


def test_every_task_is_a_folder_of_its_own():
    assert {kind: task.kind for kind, task in TASKS.items()} == {kind: kind for kind in TASKS}
    assert {layers.part_of(type(task).__module__) for task in TASKS.values()} == {
        "tasks.intensity", "tasks.reply", "tasks.recognition", "tasks.inventory"
    }  # fmt: skip


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
        for name, source in layers.sources().items()
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
    assert [name for name in layers.sources() if drawers & set(name.split("."))] == []


def test_only_tasks_are_imported_by_a_string():
    importing = ("import_module", "__import__", "resolve_name")
    found = {
        name
        for name, source in layers.sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Name, ast.Attribute))
        and (node.id if isinstance(node, ast.Name) else node.attr) in importing
    }
    assert found == {"audit.tasks.registry"}


# --- Heavy libraries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_in_its_one_place(library):
    of_it = [i for i in layers.all_imports() if i.target.split(".")[0] == library]
    assert [str(i) for i in of_it if not i.importer.startswith(ONLY_IN[library])] == []


@pytest.mark.parametrize("library", sorted(ONLY_INSIDE_FUNCTIONS))
def test_a_heavy_library_is_imported_only_when_it_is_needed(library):
    of_it = [i for i in layers.all_imports() if i.target.split(".")[0] == library]
    assert [str(i) for i in of_it if i.when == "module"] == []


def test_figures_are_imported_only_when_they_are_drawn():
    def draws(name: str) -> bool:
        return name.startswith(DRAWING)

    early = [i for i in layers.all_imports() if draws(i.target) and not draws(i.importer) and i.when == "module"]
    assert [str(i) for i in early] == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("audit.cli.main", {"pandas", "numpy", "pydantic", *ONLY_IN}),
        ("audit.comparing.comparison", set(ONLY_IN) - {"pyarrow"}),
        ("audit.tasks.pipeline", set(ONLY_IN) - {"pyarrow"}),
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
    from audit.tasks import pipeline
    return lambda: __import__
try:
    import vllm
except ImportError:
    pass
"""
    assert [(i.target, i.when) for i in layers.imports_of("x", source)] == [
        ("torch.nn", "module"),
        ("audit.runs.store.RunFolder", "types"),
        ("seaborn", "module"),
        ("audit.tasks.pipeline", "function"),
        ("vllm", "module"),
    ]


def test_the_checker_reads_the_whole_of_both_packages():
    assert {"audit.tasks.pipeline", "audit.engines.vllm", "stimuli.prompts"} <= set(layers.sources())
    assert {i.target.split(".")[0] for i in layers.all_imports()} >= {
        "vllm",
        "torch",
        "transformers",
        "hydra",
        "seaborn",
    }


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
        assert hasattr(importlib.import_module(module), name) or f"{module}.{name}" in layers.sources(), (
            f"{module}: {name}"
        )
