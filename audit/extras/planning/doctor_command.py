"""``doctor``: reports what is installed, which engine would be used, and whether it answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.cli.terminal.base import OK, Command, writing_out
from audit.cli.terminal.jobs import each_job, overrides_help, split_arguments
from audit.cli.terminal.options import Option, Usage, a_number, a_path, option_lines, whole_from
from audit.cli.terminal.printing import say, tell
from audit.errors import ConfigError

if TYPE_CHECKING:
    from audit.configuration.schema import AuditConfig

NOT_WORKING: Final = 1
_PROBE: Final = Option("probe", whole_from(0), 1, "0 = try no engine and ask no server")
_LIMIT: Final = Option("limit_s", a_number, 300.0, "time limit for an engine to load and answer, in seconds")
_OUT: Final[Option[Path | None]] = Option("out", a_path, None, "write the page to this file", "FILE")
_OPTIONS: Final[tuple[Option[Any], ...]] = (_PROBE, _LIMIT, _OUT)
_USAGE: Final = Usage("doctor", "[OVERRIDE ...]", options=_OPTIONS)

_HELP: Final = """\
usage: python -m audit doctor [OVERRIDE ...] [OPTION ...]

Prints one page of Markdown to paste into an issue: machine, packages, the engine that `run` with the same overrides
would use, and how each installed engine answers 20 prompts; a server is asked one question. A model from the hub is
downloaded first. The page has no names and no keys. Exit code 1 if something prevents a run.

options:
{options}

"""


def _doctor(words: Sequence[str]) -> int:
    given, overrides = split_arguments(_USAGE, words)
    probe, limit_s, out = bool(given[_PROBE]), given[_LIMIT], given[_OUT]
    if limit_s <= 0:
        raise ConfigError(f"limit_s={limit_s:g}: must be above 0 s")
    if {"-m", "--multirun"} & set(words):
        raise ConfigError("doctor checks one run; leave out -m")
    faults: list[str] = []
    code, _ = each_job(overrides, lambda config, _: faults.extend(_one(config, probe=probe, limit_s=limit_s, out=out)))
    return code or (NOT_WORKING if faults else OK)


def _one(config: AuditConfig, *, probe: bool, limit_s: float, out: Path | None) -> list[str]:
    from audit.extras.planning.examination import examine

    page, faults = examine(config, probe=probe, limit_s=limit_s, say=say)
    for line in page:
        tell(line)
    if out is not None:
        with writing_out(out):
            out.write_text("\n".join(page) + "\n", encoding="utf-8")
    return faults


COMMAND: Final = Command(
    "doctor",
    "show what is installed, which engine a run would use, and whether it answers",
    lambda: _HELP.format(options=option_lines(*_OPTIONS)) + overrides_help("doctor"),
    _doctor,
    usages=(_USAGE,),
    overrides=True,
)
