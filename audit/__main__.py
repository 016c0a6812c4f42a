"""``python -m audit COMMAND``: the command line, and the only place that imports Hydra.

Nothing heavy is imported before a command needs it: ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from audit import __version__

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from audit.config import AuditConfig
    from audit.pipeline import Outcome

_HELP: Final = """\
usage: python -m audit COMMAND ...

Audits a language model for intergroup empathy gaps: does a model that speaks as one group rate the feelings of
another lower than those of its own?

commands:
  run      elicit ratings from a model, compute the gap, render a report
  report   analyse and render a run folder again, without its model
  prompts  write the prompts of a run as JSON lines, without a model

`python -m audit COMMAND --help` explains one; `python -m audit --version` prints the version.
"""
_OVERRIDES: Final = """\
{command} takes overrides of the configuration: KEY=VALUE, or GROUP=CHOICE for the groups below.

groups:
{groups}

often used:
  dimensions=[religion]                which dimensions; [race_ethnicity+religion] crosses two
  stimuli.situations_per_emotion=all   all narratives, not a sample
  model.path=HUB_ID_OR_FOLDER          any model
  run_dir=PATH                         where the run is kept
  --config-dir=DIR                     a folder of yours with groups of your own, e.g. DIR/prompt/mine.yaml

all options and their defaults: python -m audit {command} --cfg job
"""
_RUN_HELP: Final = """\
usage: python -m audit run [-m] [OVERRIDE ...]

Asks the model every prompt, computes the gap per dimension with its uncertainty and writes the run folder:
manifest.json, ratings/, tables/, figures/, report.html. Given the same command again, an interrupted run goes on
where it stopped.

-m runs a sweep over all comma-separated values, with the model loaded once: -m prompt=origin,persona-1,scale-10

"""
_PROMPTS_HELP: Final = """\
usage: python -m audit prompts [OVERRIDE ...]

Writes one JSON object a prompt (dimension, variant, narrative_id, emotion, perceiver, experiencer, system, user) to
standard output or to out=FILE, for the same overrides that `run` takes. No model is loaded.

"""
_REPORT_HELP: Final = """\
usage: python -m audit report RUN_DIR

Reads the ratings of a complete run, writes tables/, figures/ and report.html anew and prints the gap. No model is
loaded.
"""

_FLAGS: Final = ("-m", "--multirun", "--cfg", "-c", "--config-dir", "-cd", "--resolve", "--package", "-p", "--info")
"""What Hydra's own command line takes of flags, as far as it is of use here."""

OK: Final = 0
FAILED: Final = 2
INTERRUPTED: Final = 130


def _conf_folder() -> Path:
    """Return the configuration's folder: inside the package in a wheel, beside it in a checkout."""
    here = Path(__file__).resolve().parent
    inside = here / "conf"
    return inside if inside.is_dir() else here.parent / "conf"


def _groups() -> dict[str, list[str]]:
    folders = sorted(path for path in _conf_folder().iterdir() if path.is_dir())
    return {f.name: sorted(p.stem for p in f.glob("*.yaml") if p.stem not in ("base", "none")) for f in folders}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 2 for what the user can mend, 130 for Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except KeyboardInterrupt:
        _say("\ninterrupted; what was collected is kept, and the same command goes on from there")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`); Python must not complain again when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED if given[:1] == ["run"] else OK


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        print(_HELP, end="")
        return OK if given else FAILED
    if given[0] == "--version":
        print(f"empathy-audit {__version__}")
        return OK
    command, rest = given[0], given[1:]
    wants_help = any(argument in ("-h", "--help") for argument in rest)
    match command:
        case "run" | "prompts" if wants_help:
            groups = "\n".join(
                f"  {name + '=':<13}{' '.join(choices)}" for name, choices in _groups().items() if choices
            )
            print(_RUN_HELP if command == "run" else _PROMPTS_HELP, end="")
            print(_OVERRIDES.format(command=command, groups=groups), end="")
            return OK
        case "report" if wants_help:
            print(_REPORT_HELP, end="")
            return OK
        case "run":
            shown = shlex.join(["python", "-m", "audit", "run", *rest])
            return _compose(rest, lambda config, job: _run(config, command=shown, job=job))
        case "prompts":
            written: set[Path] = set()
            return _compose(rest, lambda config, _: _prompts(config, written=written))
        case "report":
            return _report(rest)
    from stimuli.errors import suggest

    _say(f"audit: {command!r} is no command; {suggest(command, ('run', 'report', 'prompts'))}")
    return FAILED


def _run(config: AuditConfig, *, command: str, job: int | None) -> None:
    from audit.pipeline import run_audit

    _show(run_audit(config, command=command, job=job, say=_say))


def _show(outcome: Outcome) -> None:
    from audit.wording import count, dimension_title, interval, p_value, points

    for remark in outcome.remarks:
        _say(f"note: {dimension_title(remark.dimension)}: {remark.text}")
    lines = [
        ("dimension", "variant", "gap (points)", f"{outcome.confidence:.0%} interval", "p", "narratives", "missing")
    ]
    for row in outcome.gap[outcome.gap["estimator"] == "contrast"].to_dict("records"):
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["variant"],
                points(row["delta_points"]),
                interval(row["ci_low"], row["ci_high"]),
                p_value(row["p"]),
                f"{count(row['n_narratives'])} of {count(row['n_narratives_asked'])}",
                count(row["n_missing"]),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(f"report: {outcome.report}")


def _prompts(config: AuditConfig, *, written: set[Path]) -> None:
    import json
    from contextlib import nullcontext

    from audit.errors import StoreError
    from audit.pipeline import build_grid, prompt_records

    grid = build_grid(config)
    try:
        if config.out is None:
            target: AbstractContextManager[TextIO] = nullcontext(sys.stdout)
        else:
            # The jobs of a sweep follow each other in one file; what was in it before goes.
            target = config.out.open("a" if config.out in written else "w", encoding="utf-8")
            written.add(config.out)
        with target as stream:
            for record in prompt_records(grid):
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"out={config.out} can not be written ({error.strerror or error})") from error
    if config.out is not None:
        _say(f"{len(grid):,} prompts: {config.out}")


def _report(rest: list[str]) -> int:
    if len(rest) != 1 or rest[0].startswith("-"):
        _say(f"audit report: takes one run folder, got {shlex.join(rest) or 'none'}; see python -m audit report --help")
        return FAILED

    def analyse() -> None:
        from audit.pipeline import report_run

        _show(report_run(Path(rest[0])))

    return OK if _attempt(analyse) else FAILED


def _attempt(step: Callable[[], None]) -> bool:
    """Do a step; show what the user can mend as one line and return False."""
    from audit.errors import AuditError
    from stimuli.errors import StimulusError

    try:
        step()
    except (AuditError, StimulusError) as error:
        _say("audit: " + " ".join(str(error).split()))
        return False
    return True


def _compose(overrides: list[str], job: Callable[[AuditConfig, int | None], None]) -> int:
    """Let Hydra compose the configuration, once or for every job of a sweep, and do a job with each."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us as exceptions, not as text and exit code 1
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from hydra.types import RunMode
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    from audit.config import load_config
    from audit.errors import ConfigError
    from stimuli.errors import suggest

    succeeded: list[bool] = []
    gone: list[BrokenPipeError] = []

    def task(composed: Any) -> None:
        def step() -> None:
            try:
                values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
            except MissingMandatoryValue as error:
                raise ConfigError(f"{error.full_key} must be given: {error.full_key}=VALUE") from error
            except OmegaConfBaseException as error:
                raise ConfigError(str(error)) from error
            assert isinstance(values, dict)
            values.pop("experiment", None)
            sweep = HydraConfig.get()
            number = int(sweep.job.num) if sweep.mode == RunMode.MULTIRUN else None
            job(load_config({str(key): value for key, value in values.items()}), number)

        try:
            succeeded.append(_attempt(step))
        except BrokenPipeError as error:  # not past Hydra, which would report it
            gone.append(error)

    def compose() -> None:
        for flag in overrides:
            if flag.startswith("-") and flag.partition("=")[0] not in _FLAGS:
                raise ConfigError(f"{flag}: there is no such flag; {suggest(flag, _FLAGS)}")
        try:
            sys.argv = ["audit", *_normalise(overrides)]
            hydra.main(version_base="1.3", config_path=str(_conf_folder()), config_name="audit")(task)()
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(_explain(error, OverridesParser.create(), overrides)) from error

    composed = _attempt(compose)
    if gone:
        raise gone[0]
    return OK if composed and all(succeeded) else FAILED


def _normalise(overrides: Sequence[str]) -> list[str]:
    """Let ``+model=x`` mean ``model=x``, and a model's path without a card mean a model of one's own."""
    groups = _groups()
    plain = []
    for override in overrides:
        name, sign, value = override.partition("=")
        bare = name.lstrip("+")
        plain.append(f"{bare}{sign}{value}" if sign and bare in groups else override)
    chosen = {override.partition("=")[0] for override in plain}
    if "model.path" in chosen and "model" not in chosen:
        plain.append("model=own")
    # Hydra's own parser takes a flag only before the overrides.
    sweep = [flag for flag in plain if flag in ("-m", "--multirun")]
    return [*sweep, *(override for override in plain if override not in sweep)]


def _explain(error: Exception, parser: Any, overrides: Sequence[str]) -> str:
    """Say in our own words which override Hydra could not take."""
    from hydra.errors import HydraException

    from stimuli.errors import suggest

    groups = _groups()
    for override in _normalise(overrides):
        if override.startswith("-"):
            continue
        try:
            parsed = parser.parse_override(override)
        except HydraException as fault:
            reason = " ".join(str(fault).split())
            return f"{override!r} is no override, KEY=VALUE is wanted (quote values with spaces or commas): {reason}"
        name = parsed.key_or_group
        if name in groups:
            for value in parsed.sweep_string_iterator() if parsed.is_sweep_override() else [parsed.value()]:
                if isinstance(value, str) and value not in groups[name] and value != "none":
                    return f"{name}={value}: there is no such choice; {suggest(value, groups[name])}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    key = _unknown_key(lines)
    if key is not None:
        return f"{key}: there is no such option; {_near_option(key)}see python -m audit run --cfg job"
    return " ".join(lines)


def _unknown_key(lines: Sequence[str]) -> str | None:
    import re

    for line in lines:
        found = re.search(r"Could not override '([^']+)'|Key '([^']+)' is not in struct", line)
        if found:
            return found[1] or found[2]
    return None


def _near_option(key: str) -> str:
    import difflib

    from audit.config import option_names

    near = difflib.get_close_matches(key, option_names(), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}? " if near else ""


if __name__ == "__main__":
    sys.exit(main())
