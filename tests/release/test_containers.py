"""The container's recipe, the hooks and the forms name what is there."""

import json
import re
import tomllib

import pytest
import yaml
from locking import ROOT

DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
ALLOWED = {
    line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FORMS = sorted(set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"})


def stages():
    """The recipe of each stage, by its name."""
    _, *parts = re.split(r"^FROM (.+)$", DOCKERFILE, flags=re.MULTILINE)
    return {head.split(" AS ")[1]: body for head, body in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("stage", ["cpu", "gpu"])
def test_all_that_a_stage_copies_is_there_and_sent_to_the_builder(stage):
    copied = {name for line in re.findall(r"^COPY (.+)$", stages()[stage], re.MULTILINE) for name in line.split()[:-1]}
    copied = {name.removeprefix("./") for name in copied}
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    assert copied <= ALLOWED


@pytest.mark.parametrize("stage", ["cpu", "gpu"])
def test_a_stage_copies_all_that_the_wheel_is_built_from(stage):
    build = PROJECT["tool"]["hatch"]
    needed = {
        "pyproject.toml",
        "README.md",
        *PROJECT["project"]["license-files"],
        *build["build"]["targets"]["wheel"]["packages"],
        *build["build"]["targets"]["wheel"]["force-include"],
        build["metadata"]["hooks"]["custom"]["path"].split("/")[0],
    }
    copied = " ".join(re.findall(r"^COPY (.+) \./\S*$", stages()[stage], re.MULTILINE)).split()
    assert needed <= set(copied)


def test_a_container_is_no_root_and_the_cpu_s_installs_only_what_is_locked():
    for body in stages().values():
        assert re.search(r"^USER auditor$", body, re.MULTILINE)
    installs = re.findall(r"pip install ([^\\\n&]+)", stages()["cpu"])
    assert all("--require-hashes" in line or line.split()[-2:] == ["--no-deps", "."] for line in installs)


def test_the_gpu_s_takes_extras_and_a_vllm_that_are_declared():
    extras = re.search(r"'\.\[([^\]]+)\]'", stages()["gpu"])[1].split(",")
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])
    version = re.search(r"^ARG GPU_BASE=\S+:v(\d+\.\d+)\.", DOCKERFILE, re.MULTILINE)[1]
    assert f"vllm>={version}" in PROJECT["project"]["optional-dependencies"]["vllm"][-1]


def test_the_embedded_model_is_the_same_everywhere():
    wanted = PROJECT["dependency-groups"]["embedded-model"][0]
    assert wanted in DOCKERFILE
    assert wanted in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_hooks_before_a_commit_are_those_of_make_check():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for hook in hooks:
        tool = re.sub(r"^\.venv/bin/", "$(BIN)/", hook["entry"]).split(" --")[0]
        assert tool in makefile, hook["id"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_what_the_host_asks_of_one(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys() <= {"name", "description", "title", "labels", "body"}
    ids = [part["id"] for part in form["body"]]
    assert len(ids) == len(set(ids)) > 0
    for part in form["body"]:
        assert part["type"] in ("textarea", "input", "dropdown", "checkboxes", "markdown")
        assert part["attributes"]["label"]
        assert part.keys() <= {"type", "id", "attributes", "validations"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_commands_that_exist(path):
    from audit.cli.main import COMMANDS

    for word in re.findall(r"python -m audit (\S+?)[`\s]", path.read_text(encoding="utf-8")):
        assert word in COMMANDS or word == "--version"


def test_the_devcontainer_makes_a_target_that_is_there():
    made = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))["postCreateCommand"]
    target = made.removeprefix("make ").replace(".venv", "$(VENV)")
    assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
