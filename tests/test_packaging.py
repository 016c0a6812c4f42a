"""What the package says of itself agrees with itself."""

import re
import tomllib
from pathlib import Path

import yaml

from audit import __version__

ROOT = Path(__file__).resolve().parent.parent
BOUND = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)(?:,<([0-9.]+))?$")


def others(bounds):
    """Leave out extras that stand in another extra."""
    return [bound for bound in bounds if not bound.startswith("empathy-audit[")]


def test_ci_installs_exactly_the_lower_bounds_that_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    installed = ("local", "embedded", "examples", "tsne", "spss", "word", "excel")
    declared = project["dependencies"] + others(bound for extra in installed for bound in extras[extra])
    bounds = {match[1]: match[2] for match in map(BOUND.match, declared) if match}
    assert len(bounds) == len(declared), "a dependency has no lower bound"
    lines = (ROOT / "tests" / "lower-bounds.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert bounds.keys() == pinned.keys()
    for name, bound in bounds.items():
        parts, exact = bound.split("."), pinned[name].split(".")
        assert exact[: len(parts)] == parts, name
        assert not any(int(part) for part in exact[len(parts) :]), f"{name}: {pinned[name]} is not the bound {bound}"


def test_what_a_run_needs_has_an_upper_bound_and_the_gate_tries_the_newest_transformers_below_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["local"], *others(extras["examples"])]
    assert [each for each in needed if not BOUND.match(each)[3]] == []
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(
        r"pip\" install .*--upgrade transformers \"\$\(echo dist/\*\.whl\)\[local\]\"", gate
    )  # as the wheel bounds it


def test_the_citation_names_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__
    assert f"## {__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_page_on_installing_names_every_extra_for_users_and_no_other():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    named = {extra for listed in re.findall(r"'\.\[([a-z,-]+)\]'", page) for extra in listed.split(",")}
    assert named == project["optional-dependencies"].keys() - {"dev", "docs", "release"}


def test_messages_name_extras_that_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    messages = (ROOT / "tests" / "cli" / "messages.txt").read_text(encoding="utf-8")
    named = set(re.findall(r"'empathy-audit\[([a-z-]+)\]'", messages))
    assert "local" in named
    assert named <= project["optional-dependencies"].keys()
