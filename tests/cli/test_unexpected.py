"""What nobody foresaw ends in one line and an exit code of its own; its traceback is in a log, without secrets."""

import errno
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from audit.cli.main import COMMANDS, main
from audit.cli.terminal.base import FAILED, UNEXPECTED, try_step
from audit.cli.terminal.jobs import each_job
from audit.cli.terminal.unexpected import SWITCH
from audit.errors import ConfigError

SECRET = "sk-live-0123456789"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Where logs are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path / "state" / "empathy-audit" / "errors"


def failing(error):
    def step():
        raise error

    return step


def logs(state):
    return [path.read_text() for path in sorted(state.glob("*.log"))]


def deep():
    return deep()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such\nmoon"), "an unexpected error, ValueError: no such moon; "),
        (AssertionError(), "an unexpected error, AssertionError; "),
        (MemoryError(), "the machine's memory is used up (MemoryError); run the command on a machine with more; "),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "the disk is full ([Errno 28] No space left on "),
        (OSError(errno.EMFILE, "Too many open files"), "too many files are open ([Errno 24] Too many open files); r"),
        (ExceptionGroup("two", [KeyError("a"), OSError("b")]), "an unexpected error, ExceptionGroup: two "),
        (SystemExit(0), "an unexpected error, SystemExit: 0; "),
        (KeyError("x" * 5000), "characters); "),
        (RuntimeError("\x1b[2Jgone\u202e"), "RuntimeError: \\x1b[2Jgone\\u202e; "),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unforeseen_error_is_one_line_that_names_its_log(error, said, state, capsys):
    fault = try_step(failing(error), ["report", "a b"])
    assert fault is not None
    assert fault.code == UNEXPECTED not in (0, 1, 2, 3, 129, 130, 143)
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert line == f"audit: {fault}"
    assert said in line
    assert "Traceback" not in line
    [log] = state.glob("*.log")
    assert f"its traceback is in {log}, for an issue; what was collected is kept" in line
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    content = log.read_text()
    assert "command: python -m audit 'report' 'a b'\n" in content
    assert f"Python {'.'.join(map(str, sys.version_info[:3]))}" in content
    assert "pytest " in content.split("packages: ")[1].splitlines()[0]
    assert "in step\n" in content
    assert "    raise error\n" in content


def test_a_recursion_without_end_is_one_line(state, capsys):
    assert try_step(deep, []).code == UNEXPECTED
    [line] = capsys.readouterr().err.splitlines()
    assert "RecursionError" in line
    assert "in deep" in logs(state)[0]


def test_an_error_that_cannot_say_what_it_is_is_one_line_all_the_same(state, capsys):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert try_step(failing(Mute()), []).code == UNEXPECTED
    [line] = capsys.readouterr().err.splitlines()
    assert "an unexpected error, Mute; " in line
    assert "Mute" in logs(state)[0]


def test_what_the_user_can_mend_keeps_its_line_and_makes_no_log(state, capsys):
    fault = try_step(failing(ConfigError("model.path=x is no model")), [])
    assert (fault.line, fault.code) == ("model.path=x is no model", FAILED)
    assert capsys.readouterr().err == "audit: model.path=x is no model\n"
    assert not state.exists()


@pytest.mark.parametrize("error", [BrokenPipeError(), KeyboardInterrupt()])
def test_a_reader_who_leaves_and_ctrl_c_are_no_faults(error, state):
    with pytest.raises(type(error)):
        try_step(failing(error), [])
    assert not state.exists()


def test_neither_line_nor_log_has_a_secret(state, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OURS", "what-we-call-ours")
    monkeypatch.setenv("MY_TOKEN", "1")  # no secret, and cut out it would be everywhere
    error = RuntimeError(f"401 for Bearer {SECRET}, what-we-call-ours at https://me:hunter2@host/v1, 1 try")
    try_step(failing(error), ["run", "model.api_key_env=OURS", f"model.base_url=https://me:hunter2@host/{SECRET}"])
    line, [log] = capsys.readouterr().err, logs(state)
    for text in (line, log):
        assert not any(hidden in text for hidden in (SECRET, "what-we-call-ours", "hunter2"))
        assert "Bearer <OPENAI_API_KEY>, <OURS> at https://<login>@host/v1, 1 try" in text
    assert "model.api_key_env=OURS" in log
    others = [value for name, value in os.environ.items() if len(value) > 40 and name not in ("PATH", "PYTHONPATH")]
    assert not any(value in log for value in others)


def test_the_switch_prints_the_traceback_at_once(capsys, monkeypatch):
    for value, shown in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv(SWITCH, value)
        try_step(failing(ValueError("moon")), [])
        printed = capsys.readouterr().err
        assert ("Traceback (most recent call last):" in printed) is shown
        assert printed.splitlines()[-1].startswith("audit: an unexpected error, ValueError: moon; its trac")


def test_a_log_that_cannot_be_kept_goes_to_temporary_files_and_else_to_the_terminal(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    try_step(failing(ValueError("moon")), [])
    [log] = tmp_path.glob("empathy-audit-*.log")
    assert f"its traceback is in {log}" in capsys.readouterr().err
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    assert try_step(failing(ValueError("moon")), []).code == UNEXPECTED
    *trace, line = capsys.readouterr().err.splitlines()
    assert "Traceback (most recent call last):" in trace
    assert ("ValueError: moon; no log could be written (Not a directory), so its traceback is printed above; ") in line


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_ends_so(name, state, capsys, monkeypatch):
    def do(words):
        raise ZeroDivisionError("division by zero")

    command = COMMANDS[name]
    failing = type(command)(name, command.summary, command.help, do, command.unread)
    monkeypatch.setattr("audit.cli.main.COMMANDS", {**COMMANDS, name: failing})
    assert main([name, "RUN"]) == UNEXPECTED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("audit: an unexpected error, ZeroDivisionError: division by zero; its traceback")
    assert f"command: python -m audit '{name}' 'RUN'" in logs(state)[0]


def test_a_run_of_a_sweep_that_fails_so_does_not_lose_the_others(audit, state, capsys, monkeypatch):
    from audit.cli import run
    from audit.tasks.base import Published

    monkeypatch.setattr(run, "show_outcome", lambda outcome: None)
    compared = []
    monkeypatch.setattr(
        "audit.comparing.comparison.compare_folders",
        lambda folders, **how: compared.append((folders, how["left_out"])) or Outcome(),
    )

    class Outcome:
        remarks, page = (), Path("page")

    def run_audit(config, **_):
        if config.prompt.name == "persona-1":
            raise MemoryError
        return Published(Path(config.prompt.name), Path("page"), (), (), (), None)

    monkeypatch.setattr("audit.tasks.pipeline.run_audit", run_audit)
    assert audit("run", "-m", "prompt=origin,persona-1,scale-10") == UNEXPECTED
    [(folders, [left_out])] = compared
    assert folders == [Path("origin"), Path("scale-10")]
    assert left_out.startswith("prompt=persona-1: the machine's memory is used up (MemoryError); ")
    assert capsys.readouterr().err.count("audit: the machine's memory is used up") == 1
    assert "'-m' 'prompt=origin,persona-1,scale-10'" in logs(state)[0]


def test_the_code_of_a_sweep_is_that_of_its_worst_fault(audit, capsys):
    errors = {"origin": ConfigError("mend this"), "persona-1": TypeError("a fault"), "scale-10": None}

    def do(config, composed):
        if (error := errors[config.prompt.name]) is not None:
            raise error

    for asked, code in (("scale-10", 0), ("origin,scale-10", 2), ("origin,persona-1,scale-10", 70)):
        assert each_job(["-m", f"prompt={asked}"], do)[0] == code


def test_a_command_in_a_process_of_its_own_shows_no_traceback(child_environment, tmp_path):
    import subprocess

    (tmp_path / "run").mkdir()
    (tmp_path / "sitecustomize.py").write_text(
        "import json\nreal = json.loads\n"
        "def loads(*a, **k):\n    raise UnboundLocalError('planted')\n"
        "json.loads = loads\n"
    )
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"schema_version": 1}))
    environment = child_environment | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), child_environment["PYTHONPATH"]]),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "audit", "report", "run"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (UNEXPECTED, "")
    [line] = done.stderr.splitlines()
    assert "UnboundLocalError: planted" in line
