"""Follow the tutorials of docs/ as on a fresh machine, and keep what was printed in docs/transcripts/.

    python benchmarks/transcripts.py                    # all of them, about ten minutes each: each installs the package
    python benchmarks/transcripts.py tutorial-gate      # one

Each tutorial is followed in a clone of the last commit, with an empty home, in one bash: what stands in a block with a
file's name (```text vignettes.csv) is saved as that file, and each line of a ```console block that begins with `$ ` is
typed. Nothing else is. The machine has Python, git and make, and R for the tutorial that has R code. Times, rates and
paths of this machine are left out, so that two transcripts of the same code are the same text. Exit code 1 if a command
ended in a fault (2, 70, or not found), which no tutorial's does.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FAULTS = frozenset({2, 70, 126, 127})
_BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIES = (
    (re.compile(r"^.*\bprompts/s, about .* left\n", re.MULTILINE), ""),
    (re.compile(r"^([a-z ]+: )?[\d,]+ of [\d,]+ prompts\n", re.MULTILINE), ""),  # before a rate is known
    (re.compile(r"\b\d[\d,.]* prompts/s"), "N prompts/s"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(T[\d:+&#;]+)?"), "DATE"),
    (re.compile(r"\b[\d.]+ (GB|MB|KB) are free"), r"N \1 are free"),
    (re.compile(r"SHA-256 of the last [0-9a-f]{64}"), "SHA-256 of the last HASH"),
    (re.compile(r"\b\d+ min \d+ s\b|\b\d+(\.\d+)? s\b"), "N s"),
    (re.compile(r"^bash: line \d+: ", re.MULTILINE), "bash: "),
)
"""What differs between two times, with what stands in its place."""
_ENDED = "--the-command-has-ended--"


@dataclass(frozen=True)
class Step:
    """A command of a tutorial, or, with ``text``, a file that its reader saves."""

    command: str = ""
    file: str = ""
    text: str = ""


def steps(page: str) -> Iterator[Step]:
    """Yield what a tutorial's reader does, in order."""
    for block in _BLOCK.finditer(page):
        if block["file"]:
            yield Step(file=block["file"], text=block["text"])
        elif block["language"] == "console":
            for line in block["text"].splitlines():
                if not line.startswith("$ "):
                    raise ValueError(f"{line!r}: a line of a console block is a command, and begins with '$ '")
                yield Step(command=line.removeprefix("$ "))


def follow(page: str, folder: Path, home: Path) -> tuple[str, list[str]]:
    """Do what a tutorial says in a folder, in one shell; return the transcript, and what ended in a fault."""
    environment = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    environment |= {"HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    environment |= {"PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    told, faults = [], []
    with subprocess.Popen(
        ["bash"],
        cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as shell:  # fmt: skip
        for step in steps(page):
            if step.file:
                (folder / step.file).write_text(step.text, encoding="utf-8")
                told.append(f"[{step.file} is saved]\n")
                continue
            printed, code = _typed(shell, step.command)
            printed = printed.replace(f"{folder}/", "").replace(str(folder), ".").replace(str(home), "~")
            for varies, instead in _VARIES:
                printed = varies.sub(instead, printed)
            ended = f"[exit code {code}]\n" if code else ""
            told.append(
                f"$ {step.command}\n{printed}{'' if printed.endswith(chr(10)) or not printed else chr(10)}{ended}"
            )
            if code in FAULTS:
                faults.append(step.command)
    return "\n".join(told), faults


def _typed(shell: subprocess.Popen[str], command: str) -> tuple[str, int]:
    """Return what a command printed in a shell that goes on, and its exit code."""
    if not shell.stdin or not shell.stdout:
        raise ValueError("the shell's input and output must be pipes")
    shell.stdin.write(f"eval {shlex.quote(command)} </dev/null; printf '\\n%s %d\\n' {_ENDED} $?\n")
    shell.stdin.flush()
    printed: list[str] = []
    for line in shell.stdout:
        if line.startswith(f"{_ENDED} "):
            return "".join(printed).removesuffix("\n"), int(line.split()[1])
        printed.append(line)
    raise ValueError(f"{command}: it ended the shell")


def main() -> int:
    names = sys.argv[1:] or sorted(path.stem for path in DOCS.glob("tutorial-*.md"))
    code = 0
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            project, home = Path(scratch) / "project", Path(scratch) / "home"
            home.mkdir()
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True)
            told, faults = follow((DOCS / f"{name}.md").read_text(encoding="utf-8"), project, home)
        place = DOCS / "transcripts" / f"{name}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_text(told, encoding="utf-8")
        for command in faults:
            print(f"{name}: a fault: {command}", file=sys.stderr)
            code = 1
        print(f"written: {place.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
