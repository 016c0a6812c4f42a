"""Extras stand on the core and can be taken away: entry points name their commands, and nothing else knows of them."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from test_architecture import graph

import audit
from audit.cli import main as cli
from audit.cli.main import COMMANDS

ROOT = Path(audit.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "conf").is_dir(), reason="folders are deleted from a copy of a checkout")
EXTRAS = sorted(path.name for path in (ROOT / "audit" / "extras").iterdir() if (path / "__init__.py").exists())
CORE_TESTS = ("test_store.py", "test_outside.py", "cli/test_composition.py", "statistics/test_outcome.py")
"""Run without any extra: files of a run, ratings of another tool to a page, the command line, and δ."""


@pytest.fixture
def checkout(tmp_path):
    """A copy of what a checkout holds, for folders to be deleted from."""
    for name in ("audit", "stimuli", "conf"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run_in(folder, *words):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_nothing_of_the_core_imports_an_extra_but_the_methods_of_the_api():
    importers = {
        name
        for name, targets in graph().items()
        if not name.startswith("audit.extras") and any(target.startswith("audit.extras") for target in targets)
    }
    assert importers == {"audit.api"}


@pytest.mark.process
def test_neither_the_package_nor_a_run_imports_an_extra():
    code = (
        "import sys, audit; from audit.cli.main import main; main(['run', '--help']); main(['report', '--help']); "
        "print([name for name in sys.modules if name.startswith('audit.extras')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_module_of_an_extra_is_named_by_an_entry_point():
    modules = {point.module for point in entry_points(group="empathy_audit.commands")}
    written = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "audit" / "extras").rglob("*.py")
        if "COMMAND: Final = Command(" in path.read_text("utf-8") or "COMMAND = Command(" in path.read_text("utf-8")
    }
    assert modules == written
    assert {point.name for point in entry_points(group="empathy_audit.commands")} < set(COMMANDS)


@pytest.mark.process
@pytest.mark.parametrize("extra", EXTRAS)
def test_without_an_extra_the_other_commands_are_there(checkout, extra):
    commands = {
        point.name for point in entry_points(group="empathy_audit.commands") if f".{extra}." not in f"{point.module}."
    }
    shutil.rmtree(checkout / "audit" / "extras" / extra)

    done = run_in(checkout, "audit", "--help")

    assert done.returncode == 0, done.stderr
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and line[2] != " "}
    assert commands | {"run", "report", "completion"} <= listed
    assert not listed & ({point.name for point in entry_points(group="empathy_audit.commands")} - commands)


@pytest.mark.process
def test_without_all_of_them_the_tests_of_the_core_pass(checkout):
    shutil.rmtree(checkout / "audit" / "extras")
    shutil.copytree(ROOT / "tests", checkout / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, checkout)

    named = run_in(checkout, "audit", "gate", "reports/example", "margin=2")
    tests = [str(checkout / "tests" / name) for name in CORE_TESTS]
    done = run_in(checkout, "pytest", "-q", "-x", "-p", "no:cacheprovider", "--simulations=none", *tests)

    assert named.returncode == 2
    assert "'gate' is not a command" in named.stderr + named.stdout
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_command_of_another_package_is_listed_and_a_broken_one_is_no_missing_one(monkeypatch, tmp_path):
    (tmp_path / "theirs.py").write_text(
        "from audit.cli.terminal.base import Command\n"
        "COMMAND = Command('theirs', 'does more', lambda: 'usage: theirs\\n', lambda words: 7)\n"
    )
    # What is missing has a name that the module's own begins with: it is another one all the same.
    (tmp_path / "no_such_library_tool.py").write_text("import no_such_library\nCOMMAND = None\n")
    monkeypatch.syspath_prepend(tmp_path)

    def points(names):
        return lambda group: [EntryPoint(name, f"{name}:COMMAND", group) for name in names]

    monkeypatch.setattr(cli, "entry_points", points(["theirs", "no_such_module"]))
    monkeypatch.setattr(cli, "COMMANDS", cli._Commands())
    assert cli.main(["theirs"]) == 7
    monkeypatch.setattr(cli, "entry_points", points(["no_such_library_tool"]))
    monkeypatch.setattr(cli, "COMMANDS", cli._Commands())
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        list(cli.COMMANDS)
