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
_PROBE: Final = Option("probe", whole_from(0), 1, "0 = no engine is tried, and no server asked")
_LIMIT: Final = Option("limit_s", a_number, 300.0, "seconds that an engine may take to load and to answer")
_OUT: Final[Option[Path | None]] = Option("out", a_path, None, "a file that takes the page", "FILE")
_OPTIONS: Final[tuple[Option[Any], ...]] = (_PROBE, _LIMIT, _OUT)
_USAGE: Final = Usage("doctor", "[OVERRIDE ...]", options=_OPTIONS)

_HELP: Final = """\
usage: python -m audit doctor [OVERRIDE ...] [OPTION ...]

Prints one page of Markdown for an issue: machine, packages, the engine that `run` with the same overrides would take,
and what became of 20 prompts by each engine that is installed; a server is asked one question. A model of the hub is
downloaded first. The page names nobody, and holds no key. Exit code 1 if something keeps a run from working.

options:
{options}

"""


def _help() -> str:
    return _HELP.format(options=option_lines(*_OPTIONS)) + overrides_help("doctor")


def _doctor(words: Sequence[str]) -> int:
    given, overrides = split_arguments(_USAGE, words)
    probe, limit_s, out = bool(given[_PROBE]), given[_LIMIT], given[_OUT]
    if limit_s <= 0:
        raise ConfigError(f"limit_s={limit_s:g}: must be above 0")
    if {"-m", "--multirun"} & set(words):
        raise ConfigError("doctor looks at one run; leave out -m")
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
    "say what is installed, which engine would be taken, and whether it answers",
    _help,
    _doctor,
    usages=(_USAGE,),
    overrides=True,
)
