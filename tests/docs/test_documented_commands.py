"""Every command that the pages show exists, and takes the options that they give it."""

import re

import pytest
from documents import BESIDE, DOCS, PAGES, ROOT, SHELLS, audits, blocks, shell_commands

from audit.cli.main import COMMANDS
from audit.cli.terminal.options import Usage
from audit.configuration.composition import choices, compose
from audit.errors import ConfigError

COMPOSED = ("run", "prompts", "plan", "doctor")
"""What takes overrides of the configuration."""
OWN = "--config-dir=DIR"
"""A folder of the reader's, whose choices are not packaged."""
PLACES = ("...", "…")


def fault_of(words: list[str]) -> str:
    """What is wrong with a command of ours as a page shows it; empty if nothing is."""
    name, *given = words
    if name not in COMMANDS:
        return f"{name} is not a command"
    given = [word for word in given if word not in PLACES]
    if "--help" in given or "--cfg" in given:
        return ""
    known = COMMANDS[name].usages
    if not known and name not in COMPOSED:
        return ""
    if name not in COMPOSED:
        of_steps = [usage for usage in known if usage.command.split() == words[: usage.command.count(" ") + 1]]
        faults = [fault_in(usage, given) for usage in of_steps]
        return min(faults, key=len, default=f"{name} has steps, and {given[:1]} is none")
    own = {option for usage in known for option in usage.names}
    overrides = [word for word in given if word.partition("=")[0] not in own]
    if OWN in overrides:
        return ""
    return fault_of_overrides(overrides)


def fault_in(usage: Usage, given: list[str]) -> str:
    steps = usage.command.count(" ")
    try:
        read = usage.read(given[steps:])
        for option in (*usage.needed, *usage.options):
            read[option]
    except ConfigError as error:
        return str(error)
    return ""


def fault_of_overrides(overrides: list[str]) -> str:
    """Compose what a sweep begins with; of its other values, those that are choices must be there."""
    first = []
    for word in overrides:
        name, sign, value = word.partition("=")
        bare = name.lstrip("+")
        if word == "-m" or bare.startswith("hydra"):
            continue
        values = value.split(",") if "-m" in overrides and "[" not in value else [value]
        unknown = set(values) - {*choices().get(bare, values), "none"}
        if bare in choices() and unknown:
            return f"{word}: there is no {sorted(unknown)}"
        first.append(f"{name}{sign}{values[0]}")
    if any(name.startswith("++") for name in first):  # of another value of the sweep
        first = [name for name in first if not name.startswith("++")]
    composed = []
    try:
        compose(first, lambda each: composed.append(each.validated()))
    except Exception as error:  # whatever a reader would see
        return f"{type(error).__name__}: {error}"
    return "" if composed else "nothing was composed"


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_exist_and_take_their_options(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = list(dict.fromkeys(tuple(words) for words in audits(page)))
    flags = {"--version", "COMMAND"}
    faults = {" ".join(words): fault_of(list(words)) for words in commands if words and words[0] not in flags}
    assert {command: fault for command, fault in faults.items() if fault} == {}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("rum margin=2", "not a command"),
        ("gate RUN margni=2", "does not take this option"),
        ("gate RUN margin=much", "must be a number"),
        ("export RUN form=cvs to=OUT", "did you mean"),
        ("people expert RUN", "steps"),
        ("run promt=origin", "unknown option"),
        ("run prompt=orgin", "there is no"),
        ("run -m prompt=origin,person-1", "person-1"),
        ("run seed=soon", "seed"),
        ("plan probe=0 stimuli.emotion=[sad]", "did you mean 'stimuli.emotions'"),
    ],
)
def test_a_command_that_does_not_work_is_seen(command, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in fault_of(command.split())


def test_commands_are_found_in_blocks_of_all_kinds_and_in_sentences(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Give `python -m audit verify RUN` first.\n\n    python -m audit run \\\n        seed=1  # a remark\n\n"
        '```console\n$ python -m audit gate RUN margin=2 || echo "no; not so"\n```\n\n'
        '```sh\nA="seed=2 wordings=8"\n.venv/bin/python -m audit run $A\n```\n\n```text\npython -m audit no\n```\n'
    )
    assert audits(page) == [
        ["run", "seed=1"], ["gate", "RUN", "margin=2"], ["run", "seed=2", "wordings=8"], ["verify", "RUN"],
    ]  # fmt: skip


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_scripts_and_targets_that_a_page_calls_are_there(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    lacking = []
    for block in blocks(page):
        if block.language not in SHELLS:
            continue
        for words in shell_commands(block.text):
            lacking += [words[1]] if words[0] == "make" and words[1] not in targets else []
            scripts = [word for word in words[1:2] if re.match(r"(benchmarks|release|tests)/\S+\.py$", word)]
            lacking += [script for script in scripts if not (ROOT / script).is_file()]
    assert lacking == []


def test_every_command_is_shown_on_some_page():
    shown = {words[0] for page in DOCS.glob("*.md") for words in audits(page) if words}
    assert set(COMMANDS) - shown == set()
