"""The workflows are well-formed, may do no more than they need, and call what there is. They cannot be run here."""

import re
import shlex
import subprocess

import pytest
import yaml
from locking import ROOT

from audit.cli.main import COMMANDS
from audit.configuration.composition import compose

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WRITES = {
    ("release.yml", "attest"): {"id-token", "attestations"},
    ("release.yml", "publish"): {"id-token"},
    ("release.yml", "page"): {"contents"},
    ("docs.yml", "deploy"): {"pages", "id-token"},
}
"""The jobs that may write anything, and what."""
pytestmark = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def loaded(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path):
    for name, job in loaded(path)["jobs"].items():
        for step in job["steps"]:
            yield name, step


def commands(path):
    """The lines that the steps run."""
    return [line.strip() for _, step in steps(path) for line in step.get("run", "").splitlines() if line.strip()]


def test_it_is_a_workflow(path):
    text = loaded(path)
    assert text["name"] == path.stem
    assert text[True]  # `on`, which YAML 1.1 takes for a truth
    for name, job in text["jobs"].items():
        assert job["runs-on"] == "ubuntu-latest"
        assert job["timeout-minutes"] <= 90
        assert set(job) <= {"runs-on", "timeout-minutes", "steps", "needs", "permissions", "environment", "env"}, name
        assert {job["needs"]} <= set(text["jobs"]) if "needs" in job else True
    for _, step in steps(path):
        assert ("uses" in step) != ("run" in step)
        assert set(step) <= {"uses", "with", "name", "run", "env"}


def test_it_may_write_only_what_is_listed(path):
    text = loaded(path)
    assert text["permissions"] == {"contents": "read"}
    for name, job in text["jobs"].items():
        may = {what for what, how in job.get("permissions", {}).items() if how != "read"}
        assert may == WRITES.get((path.name, name), set()), name


def test_who_may_write_or_sign_runs_none_of_the_project_s_code(path):
    for name, step in steps(path):
        if (path.name, name) in WRITES:
            assert not step.get("uses", "").startswith("actions/checkout")
            assert re.match(r"gh release create ", step.get("run", "gh release create "))


def test_its_actions_are_pinned_and_its_secrets_are_none(path):
    for _, step in steps(path):
        if "uses" in step:
            owner, _, version = step["uses"].partition("@")
            assert owner.split("/")[0] in ("actions", "pypa"), owner
            assert re.fullmatch(r"v\d+(\.\d+)*|release/v\d+|[0-9a-f]{40}", version), step["uses"]
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_nothing_of_an_event_is_pasted_into_a_shell(path):
    for line in commands(path):
        assert "${{" not in line, line


@pytest.mark.process
def test_its_shell_can_be_parsed(path):
    for _, step in steps(path):
        if "run" in step:
            done = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr


def test_the_files_targets_and_commands_that_it_calls_are_there(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    called = 0
    for line in commands(path):
        words = shlex.split(line)
        for place, word in enumerate(words):
            if word in (".ci/run",) or re.match(r"(release|locks)/", word):
                called += 1
                assert (ROOT / word).is_file(), line
            if word == "make":
                called += 1
                assert words[place + 1] in targets, line
            if word == "-m" and words[place + 1] == "sphinx":
                called += 1
                assert {"-W", "docs"} <= set(words), line
                assert (ROOT / "docs" / "conf.py").is_file()
            if word == "-m" and words[place + 1] == "audit" and words[place + 2] != "--version":
                called += 1
                assert words[place + 2] in COMMANDS, line
                found = []
                compose(words[place + 3 :], lambda each, found=found: found.append(each.validated()))
                assert found, line
    assert called >= {"docs.yml": 1}.get(path.name, 4)


def test_the_gate_can_be_called_as_it_is(path):
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
