"""The outcome of a run as commands print it: what its report says first, what to do next, and where the report is."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from markupsafe import Markup

from audit.configuration.analysis_settings import USUAL_MARGIN
from audit.errors import PROGRAM, command_line
from audit.report.summary import Summary
from audit.report.terminal import NEXT, in_lines, named_lines
from audit.report.verdicts import Step
from audit.runs.manifest import Manifest
from audit.tables.formatting import plural
from audit.tasks.base import Published

_OPENS: Final = {"darwin": "open", "win32": "start"}  # what opens a file; xdg-open elsewhere
_OPTIONS: Final = {
    "controls": "stimuli.placebo",
    "missing_shift": "statistics.missing_shift",
    "narrower_bounds": "elicitation.max_pruned_points",
    "other_elicitation": "elicitation",
    "check": "elicitation.manipulation",
}
"""The option that a step's words name, by the step's code."""


def outcome_lines(outcome: Published) -> Iterator[str]:
    """Yield what was found in a run, what to do next, and where its report is."""
    lines, manifest, step = in_lines(outcome.summary), Manifest.read(outcome.run_dir), outcome.summary.step
    if manifest.status == "running":
        step = Step.of("finish")
        lines[NEXT] = str(step)
    if command := next_command(step, manifest, outcome.run_dir):
        lines[NEXT] += f"\n{command}"
    yield from named_lines(lines | _report(outcome.report, len(outcome.remarks)))


def compared_lines(summary: Summary, page: Path, *, n_notes: int) -> Iterator[str]:
    """Yield what a comparison of runs found, what to do next, and where its page is."""
    compared = {"compared": Markup(summary.asked).striptags()}  # that scales differ, say, is told there
    return named_lines(compared | in_lines(summary) | _report(page, n_notes))


def _report(page: Path, n_notes: int) -> dict[str, str]:
    opens = shlex.join([_OPENS.get(sys.platform, "xdg-open"), str(page)])
    return {"report": f"{page} (all numbers, tables and {plural(n_notes, 'note')}; to see it: {opens})"}


def next_command(step: Step, manifest: Manifest, run_dir: Path, *, sweep: bool = False) -> str:
    """Return a command that does what a step says, or one that explains the option it names; empty without either.

    ``sweep`` says that all runs of a sweep are to be asked again, not one.
    """
    length, set_margin = manifest.scale.high - manifest.scale.low, manifest.statistics.margin
    if step.code == "finish":
        return manifest.command
    if step.code == "more_narratives":
        n_emotions, there = max(1, len(manifest.stimuli.emotions)), manifest.stimuli.n_available or math.inf
        needed = 0 if math.isnan(step.n_needed) else step.n_of_run(manifest.stimuli.n_narratives or 0)
        if needed > there or manifest.stimuli.n_narratives == there:
            return ""  # of this source no command asks so many
        value = math.ceil(needed / n_emotions) or "all"
        return _again(manifest, "stimuli.situations_per_emotion", value, sweep=sweep)
    if step.code == "other_model":
        return _again(manifest, "prompt", "origin" if manifest.prompt.variant == "persona-1" else "persona-1")
    if step.code in ("margin", "nothing") and not math.isnan(length):
        margin = USUAL_MARGIN * length if set_margin is None else set_margin
        if step.code == "nothing":
            return command_line("gate", str(run_dir), f"margin={margin:g}")
        return command_line("report", str(run_dir), f"statistics.margin={margin:g}")
    return command_line("options", _OPTIONS[step.code]) if step.code in _OPTIONS else ""


def asked_before(command: str, choices: Mapping[str, object], asked: Iterable[Mapping[str, object]]) -> bool:
    """Whether a run's command with another prompt asks its model what one of several runs has asked already.

    ``choices`` are the run's, ``asked`` those of all runs: model, prompt and elicitation.
    """
    alike = [each for each in asked if all(each[name] == choices[name] for name in ("model", "elicitation"))]
    return any(f"prompt={each['prompt']}" in shlex.split(command) for each in alike)


def _again(manifest: Manifest, option: str, value: object, *, sweep: bool = False) -> str:
    """Return a run's command with an option set, for a folder of its own; empty if it asked for other runs, too."""
    asked = shlex.split(manifest.command)
    if asked[:4] != [*PROGRAM, "run"] or ({"-m", "--multirun"} & set(asked[4:]) and not sweep):
        return ""
    given = {option: f"{value}"}
    if (margin := manifest.statistics.margin) is not None:  # a later report may have set it
        given["statistics.margin"] = f"{margin:g}"
    kept = [word for word in asked[4:] if word.partition("=")[0].lstrip("+") not in ("run_dir", *given)]
    return command_line("run", *kept, *map("=".join, given.items()))
