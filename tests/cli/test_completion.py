"""What a shell completes, asked of the shells themselves: the oracle is the word that stands in the line afterwards."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from audit.cli.completion import FILES, SHELLS, candidates, scopes, script
from audit.cli.main import COMMANDS
from audit.configuration.options import choices, option_rows
from audit.errors import ConfigError

WORDS = {(row.scope, row.word) for row in candidates(COMMANDS.values())}
COMPLETED = [
    # What is typed, and what the last word becomes where one thing alone may follow.
    ("empathy-audit consol", "consolidate"),
    ("empathy-audit run see", "seed="),
    ("empathy-audit run model=llama3-", "model=llama3-70b"),
    ("empathy-audit run statistics.conf", "statistics.confidence="),
    ("empathy-audit run statistics.fit=m", "statistics.fit=mixed"),
    ("empathy-audit run -m prompt=origin,nam", "prompt=origin,named"),
    ("empathy-audit run stimuli.columns.third", "stimuli.columns.third_person="),
    ("empathy-audit run run_dir=my-r", "run_dir=my-runs/"),
    ("empathy-audit run --config-dir=my-r", "--config-dir=my-runs/"),
    ("empathy-audit report my-r", "my-runs/"),
    ("empathy-audit report statistics.marg", "statistics.margin="),
    ("empathy-audit export form=sp", "form=spss"),
    ("empathy-audit gate strict_average=t", "strict_average=true"),
    ("empathy-audit options elicitation.pre", "elicitation.prefill"),
    ("empathy-audit completion z", "zsh"),
    ("python -m audit plan thinking=bud", "thinking=budget"),
    ("python3 -m audit verif", "verify"),
]
STAY = [
    "empathy-audit run nothing_of_the_kind",
    "empathy-audit report model=llama3-",
    "empathy-audit verify statistics.m",
]
LINES = [*(line for line, _ in COMPLETED), *STAY]


def typed(shell: list[str], begin: str, lines: list[str], folder: Path) -> dict[str, str]:
    """Type lines, each with the tab key, into an interactive shell; return the last word of each as it then stands."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(shell[0], shell, {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder), "PS1": "> "})
    last = {}
    try:
        _write(terminal, f"{begin}; echo rea''dy\n")
        _read_until(terminal, "ready")
        for line in lines:
            _write(terminal, f"{line}\t")
            time.sleep(0.1)
            # Ctrl-A and Ctrl-E go to the line's ends: it is printed, not run.
            _write(terminal, "\x01printf '<%s>' \x05; echo en''d\n")
            shown = _read_until(terminal, "end\r")
            last[line] = shown[shown.rindex("><") + 2 :].split(">")[0]
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return last


def _write(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())


def _read_until(terminal: int, marker: str) -> str:
    text, end = "", time.monotonic() + 20
    while marker not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")
    assert marker in text, text
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("completion")
    (place / "my-runs").mkdir()
    for shell in SHELLS:
        (place / f"script.{shell}").write_text(script(shell, COMMANDS.values()), "utf-8")
    return place


@pytest.fixture(scope="module")
def in_bash(folder) -> dict[str, str]:
    return typed(["bash", "--norc", "--noprofile", "-i"], "source script.bash", LINES, folder)


@pytest.fixture(scope="module")
def in_zsh(folder) -> dict[str, str]:
    begin = "bindkey -e; autoload -Uz compinit; compinit -u -D; source ./script.zsh"
    return typed(["zsh", "-f", "-i"], begin, LINES, folder)


@pytest.mark.process
@pytest.mark.parametrize(("line", "word"), [*COMPLETED, *((line, line.split()[-1]) for line in STAY)])
def test_bash_completes(line, word, in_bash):
    assert in_bash[line] == word


@pytest.mark.process
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not on this machine")
@pytest.mark.parametrize(("line", "word"), [*COMPLETED, *((line, line.split()[-1]) for line in STAY)])
def test_zsh_completes(line, word, in_zsh):
    assert in_zsh[line] == word.removesuffix("/")  # zsh takes the stroke away again when the word is ended


@pytest.mark.process
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not on this machine")
@pytest.mark.parametrize(("line", "word"), COMPLETED)
def test_fish_completes(line, word, folder):
    said = fish(line, folder)
    assert [each.split("\t")[0] for each in said] == [word]


@pytest.mark.process
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not on this machine")
def test_fish_tells_what_each_choice_is(folder):
    said = dict(each.split("\t") for each in fish("empathy-audit run model=llama3", folder))
    assert said["model=llama3"].startswith("Llama-3.1-8B-Instruct")
    assert set(said) == {"model=llama3", "model=llama3-70b", "model=llama3."}  # then 2-1b, 2-3b, 3-70b


def fish(line: str, folder: Path) -> list[str]:
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source script.fish; complete -C '{line}'"],
        capture_output=True, text=True, check=True, cwd=folder, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_every_command_option_and_choice_can_be_completed():
    assert {word for scope, word in WORDS if scope == "commands"} == {*COMMANDS, "--help", "--version"}
    for group, names in choices().items():
        assert {("overrides", f"{group}={name}") for name in names} <= WORDS
    for row in option_rows():
        if "NAME" not in row.name:
            assert ("overrides", f"{row.name}=") in WORDS
            assert {("overrides", f"{row.name}={choice}") for choice in row.choices} <= WORDS
    for command in COMMANDS.values():
        for usage in command.usages:
            assert {(command.name, f"{name}=") for name in usage.names} <= WORDS


def test_only_commands_that_take_them_complete_overrides_settings_and_files():
    of = scopes(COMMANDS.values())
    assert {name for name, taken in of.items() if "overrides" in taken} == {"run", "prompts", "plan", "doctor"}
    assert {name for name, taken in of.items() if "settings" in taken} == {"report", "replicate"}
    assert FILES in of["report"]
    assert FILES not in of["run"]
    assert FILES not in of["options"]


@pytest.mark.process
def test_what_a_script_holds_cannot_end_its_quotes():
    assert all("'" not in word and "\\" not in word and "\t" not in word for _, word in WORDS)
    for shell in SHELLS:
        assert "@TABLE@" not in script(shell, COMMANDS.values())
    of_bash = script("bash", COMMANDS.values())
    done = subprocess.run(["bash", "-n"], input=of_bash, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shell_that_has_no_script_suggests_one():
    with pytest.raises(ConfigError, match=r"completion fisch: .*did you mean 'fish'"):
        script("fisch", COMMANDS.values())


@pytest.mark.process
def test_the_script_is_printed_without_a_model_library_or_hydra():
    made = "from audit.cli.main import main; main(['completion', 'bash'])"
    heavy = "{'torch', 'hydra', 'omegaconf', 'pandas', 'transformers'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {made}; print(sorted({heavy}), file=sys.stderr)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.strip() == "[]"
    assert done.stdout == script("bash", COMMANDS.values())


@pytest.mark.process
def test_a_completion_takes_less_than_a_fifth_of_a_second_and_starts_no_python(folder):
    line = "empathy-audit run stimuli."
    given = f"COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_WORDS=(empathy-audit run stimuli.); COMP_CWORD=2"
    ask = f"source script.bash; PATH=; {given}; for i in {{1..10}}; do _empathy_audit; done; echo ${{#COMPREPLY[@]}}"
    begun = time.monotonic()
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, cwd=folder)
    assert int(done.stdout) > 10
    assert time.monotonic() - begun < 2
