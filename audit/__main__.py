"""``python -m audit COMMAND``: the command line.

Nothing heavy is imported before a command needs it: ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from audit import __version__

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pandas as pd

    from audit.comparison import Comparison
    from audit.composition import Composed
    from audit.config import AuditConfig
    from audit.paired_raters import Chosen
    from audit.preference import Judgement
    from audit.publish import Outcome
    from audit.replication import Replication

_Choice = TypeVar("_Choice", bound=str)

_HELP: Final = """\
usage: python -m audit COMMAND ...

Audits a language model for intergroup empathy gaps: does a model that speaks as one group rate the feelings of
another lower than those of its own?

commands:
  run        elicit ratings from a model, compute the gap, render a report
  report     analyse and render a run folder again, without its model; or ratings that another tool collected;
             or put several run folders side by side in one page
  people     have people rate a run's replies, or its narratives as perceivers: export forms, import what raters saved
  judge      have a model compare the replies of two runs, pair by pair, in both orders
  replicate  reproduce the published study's numbers and figures from its released result files
  calibrate  simulate data like a run's, and say how often its estimators err
  prompts    write the prompts of a run as JSON lines, without a model

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
At its end the runs are put side by side, as `report` does with several run folders, in comparison/ of run_dir, or in
reports/comparison-<hash>.

"""
_PROMPTS_HELP: Final = """\
usage: python -m audit prompts [OVERRIDE ...]

Writes one JSON object a prompt (dimension, variant, narrative_id, emotion, perceiver, experiencer, system, user) to
standard output or to out=FILE, for the same overrides that `run` takes. No model is loaded.

"""
_OUTSIDE: Final = ("ratings", "groups", "low", "high", "missing", "model", "seed")
"""Arguments of `report` that are of ratings of another tool."""
_REPORT_HELP: Final = """\
usage: python -m audit report RUN_DIR [statistics.KEY=VALUE ...]
       python -m audit report RUN_DIR RUN_DIR ... [run_dir=OUT] [statistics.KEY=VALUE ...]
       python -m audit report ratings=FILE groups=FILE run_dir=OUT [low=0] [high=100] [missing=-1] [model=NAME] [...]

Reads the ratings of a run, writes tables/, figures/ and report.html anew and prints the gap; of a run that is not
finished, what there is. No model is loaded.

The second form puts runs side by side, analysed alike: their gaps, the differences between them on the narratives they
share, and a table for a paper, in OUT/comparison.html (OUT is reports/comparison-<hash> unless given). Of the settings
it takes confidence, margin, n_permutations and min_number_mass, and the first run's where they are not given. Of runs
with task=reply: what changes in the gap of each measure against the run without a strategy, or else the first; it takes
confidence and n_permutations.

The third form takes ratings that another tool collected:

  ratings=FILE   CSV or Parquet with perceiver, experiencer, narrative_id, rating (empty = missing), and, if there are,
                 emotion, dimension, variant and status (rated, refused, unparseable or failed)
  groups=FILE    CSV with term, group, and dimension where a term's group depends on it; the group 'unspecified' is the
                 baseline
  low= high=     the ends of the rating scale, in points; they may be left out where the ratings reach from 0 to 100
  missing=       numbers that stand for a refusal or no answer in the ratings: missing=-1, missing=[-1,-99]
  seed=0         of the permutations

settings, with their defaults:
{settings}
"""
_CALIBRATE_HELP: Final = """\
usage: python -m audit calibrate RUN_DIR [n_datasets=1000] [delta=POINTS] [seed=0]

Simulates data sets of the run's own design, with its identities, narratives, variances and missing ratings: with no
gap, and with a gap of `delta` points (the smallest that the run can detect, unless given). Prints how often each
estimator finds a gap where there is none, how often its interval covers the true one and how often it finds it, and
writes calibration.csv into the run's folder.
"""

_PEOPLE_HELP: Final = """\
usage: python -m audit people export RUN_DIR [n=100] [seed=0] [mask_experiencer=false] [questions=FILE]
       python -m audit people export RUN_DIR [form=intensity|norming] [n=24] [lists=N] [seed=0] [introduction=FILE]
       python -m audit people import RUN_DIR FILE ... [form=norming]

Of a run with task=reply the first draws n replies, half of them in-group, and writes into RUN_DIR/people:
  raters/form.html   a page for raters, which works offline and saves a CSV; raters/items.csv is for spreadsheets
  key.csv            which reply is whose: never send it to raters
  questions.yaml     what is asked; questions=FILE takes your own

Of a run of ratings the second writes a page and a spreadsheet for each list, raters/list-1.html and so on:
  form=intensity     raters say which groups they belong to, read narratives by experiencers of all groups and rate
                     them, as the model did; a narrative's experiencer rotates over the lists. Into RUN_DIR/people
  form=norming       readers say which emotion a narrative, without any identity, is of, how intense it is, and how
                     plausible. Into RUN_DIR/norming
  n=, lists=         narratives a list, and how many lists; as many as a full rotation, or all narratives, take
  introduction=FILE  a text that raters read first, such as what they consent to

The third reads the CSV files that raters saved, all of them, and analyses the run again. Replies: how far raters agree,
the gap of their mean scores beside that of every measure, and how far measures order replies as people do. Intensities:
people's gap beside the model's, and agreement by emotion. Norming: what readers made of each narrative. docs/people.md
says what such a study can show.
"""

_CHOICES_HELP: Final = """
usage: python -m audit people export RUN_A RUN_B [n=100] [seed=0] [mask_experiencer=false] [questions=FILE]
                                                 [run_dir=OUT]
       python -m audit people import OUT FILE ...

Of two runs the first draws n pairs of replies to the same prompt, whose order is drawn too, for people who say which of
the two shows more empathy, or that neither does. What they chose, imported, gives the share that prefers RUN_A's
replies, in-group, out-group and the gap between, with intervals over raters and narratives (tables/preference.csv).
"""

_JUDGE_HELP: Final = """\
usage: python -m audit judge RUN_A RUN_B model=PATH [method=expected] [rubric=empathy] [rubric_file=FILE]
                             [criterion=NAME] [n=NARRATIVES] [seed=0] [engine=NAME] [run_dir=OUT]

A model as judge compares the replies of two runs with task=reply on the same narratives and identities (two models, or
two strategies): which is better by a criterion, each pair asked twice with the order swapped. Writes how far the first
run's replies are preferred, in-group and out-group, and how far the judge leans to a place, to OUT/judgement.html and
OUT/tables (OUT is reports/judged-<hash> unless given). Given the same command again, an interrupted comparison goes on
where it stopped.

  model=PATH        the judge: a folder or hub id of a model that follows instructions
  method=           expected takes the probabilities of the answers A and B; generate what the judge writes
  rubric=           of the packaged ones (empathy), or of rubric_file=FILE
  criterion=        of the rubric; its first unless given
  n=                how many narratives, drawn by seed; all unless given
  engine=           vllm, transformers or auto; own, the default, is the first run's
"""

_REPLICATE_HELP: Final = """\
usage: python -m audit replicate FOLDER [run_dir=OUT] [narratives=FOLDER] [beyond=refuse] [seed=0]
                                 [statistics.KEY=VALUE ...]

Reads the released result files of Hou, Daumé III and Rudinger (2025), in FOLDER:
  DIMENSION_VARIANT_MODEL_PERCEIVER_EXPERIENCER.tsv, with a column intensity, in which -1 is no rating
Makes a run folder with its report of each model and variant, and sets them side by side in OUT/comparison: the
published gap, its null interval, the heatmaps and the map of perceivers, and the gap in points beside them. OUT is
reports/replication-<hash> unless given. No model is loaded. docs/replication.md says what is reproduced, and what is
not known of the study.

  narratives=FOLDER   the twelve files of narratives, which tell each row's emotion where result files have a column
                      text_id
  beyond=             refuse stops at a rating beyond the scale; keep takes what the study's parser took: answers of up
                      to 100 in the variant 10-scale
"""

OK: Final = 0
FAILED: Final = 2
INTERRUPTED: Final = 130


def _listed(group: str, names: Sequence[str]) -> str:
    """Write a group and its choices, in lines of a terminal's width."""
    head = f"  {group + '=':<13}"
    return textwrap.fill(" ".join(names), 118, initial_indent=head, subsequent_indent=" " * 15, break_on_hyphens=False)


def _say(line: str) -> None:
    from audit.wording import printable

    print("\n".join(map(printable, line.split("\n"))), file=sys.stderr, flush=True)


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
            from audit.composition import choices

            groups = "\n".join(_listed(name, names) for name, names in choices().items() if names)
            print(_RUN_HELP if command == "run" else _PROMPTS_HELP, end="")
            print(_OVERRIDES.format(command=command, groups=groups), end="")
            return OK
        case "report" if wants_help:
            settings = "\n".join(
                f"  statistics.{line.replace(': ', '=', 1)}" for line in _default_file().read_text("utf-8").splitlines()
            )
            print(_REPORT_HELP.format(settings=settings), end="")
            return OK
        case "calibrate" if wants_help:
            print(_CALIBRATE_HELP, end="")
            return OK
        case "people" if wants_help:
            print(_PEOPLE_HELP + _CHOICES_HELP, end="")
            return OK
        case "judge" if wants_help:
            print(_JUDGE_HELP, end="")
            return OK
        case "replicate" if wants_help:
            print(_REPLICATE_HELP, end="")
            return OK
        case "run":
            shown = shlex.join(["python", "-m", "audit", "run", *rest])
            code, jobs = _each_job(rest, lambda config, composed: _run(config, composed, command=shown))
            if not any(job.number is not None for job in jobs):
                return code
            return code if _attempt(lambda: _compare_jobs(jobs)) is None else FAILED
        case "prompts":
            written: set[Path] = set()
            return _each_job(rest, lambda config, _: _prompts(config, written=written))[0]
        case "report":
            return OK if _attempt(lambda: _report(rest)) is None else FAILED
        case "people":
            return OK if _attempt(lambda: _people(rest)) is None else FAILED
        case "judge":
            return OK if _attempt(lambda: _judge(rest)) is None else FAILED
        case "replicate":
            return OK if _attempt(lambda: _replicate(rest)) is None else FAILED
        case "calibrate":
            return OK if _attempt(lambda: _calibrate(rest)) is None else FAILED
    from stimuli.errors import suggest

    known = ("run", "report", "people", "judge", "replicate", "calibrate", "prompts")
    _say(f"audit: {command!r} is no command; {suggest(command, known)}")
    return FAILED


@dataclass(frozen=True)
class _Job:
    """What became of one composed configuration: ``fault`` is the line that it failed with, ``folder`` the run's."""

    number: int | None
    overrides: tuple[str, ...]
    config: AuditConfig | None
    folder: Path | None
    fault: str | None


def _run(config: AuditConfig, composed: Composed, *, command: str) -> Path:
    from audit.pipeline import run_audit

    outcome = run_audit(config, command=command, preset=composed.preset, job=composed.number, say=_say)
    _show(outcome)
    return outcome.run_dir


def _compare_jobs(jobs: Sequence[_Job]) -> None:
    """Put the runs of a sweep side by side; those that came to nothing are named."""
    from audit.comparison import compare_folders

    # Jobs that differ in statistics alone are one run.
    folders = list(dict.fromkeys(job.folder for job in jobs if job.folder is not None))
    everywhere = set.intersection(*(set(job.overrides) for job in jobs))
    left_out = [
        f"{' '.join(name for name in job.overrides if name not in everywhere) or f'job {job.number}'}: {job.fault}"
        for job in jobs
        if job.fault is not None
    ]
    if len(folders) < 2:
        _say(f"note: no comparison, which takes two runs: this sweep ended with {len(folders)}")
        return
    configs = [job.config for job in jobs if job.config is not None]
    places = {config.run_dir for config in configs}
    place = places.pop() if len(places) == 1 else None
    comparison = compare_folders(
        folders,
        out=None if place is None else place / "comparison",
        reports_dir=configs[0].reports_dir,
        defaults=_statistics(),
        left_out=left_out,
        say=_say,
    )
    for text in (*left_out, *comparison.remarks):
        _say(f"note: {text}")
    print(f"comparison: {comparison.page}")


def _show_comparison(comparison: Comparison) -> None:
    from audit.wording import bare_p, coverage, dimension_title, interval, p_value, points

    for text in comparison.remarks:
        _say(f"note: {text}")
    if "measure" in comparison.gap:
        _show_changes(comparison)
        return
    level = coverage(comparison.confidence)
    lines = [("run", "dimension", "average gap (points)", f"{level} interval", "p", "corrected p")]
    for row in comparison.gap[comparison.gap["scope"] == "narratives"].to_dict("records"):
        estimated = row["se"] == row["se"]
        lines.append(
            (
                row["run"],
                dimension_title(row["dimension"]),
                points(row["delta_points"]),
                interval(row["ci_low"], row["ci_high"]) if estimated else "none",
                p_value(row["p"]) if estimated else "none",
                bare_p(row["p_adjusted"]),
            )
        )
    _print_table(lines)
    print(f"comparison: {comparison.page}")


def _show_changes(comparison: Comparison) -> None:
    from audit.wording import bare_p, coverage, dimension_title, interval, plural, points

    level = coverage(comparison.confidence)
    tested = comparison.gap[comparison.gap["p"].notna()]
    head = ("run", "against", "dimension", "measure", "change of the gap (its unit)", f"{level} interval")
    lines = [(*head, "corrected p", "change of the mean", "from")]
    for row in tested.to_dict("records"):
        lines.append(
            (
                row["run"],
                row["reference"],
                dimension_title(row["dimension"]),
                row["measure"],
                points(row["delta_change"]),
                interval(row["ci_low"], row["ci_high"]),
                bare_p(row["p_adjusted"]),
                points(row["mean_change"]),
                plural(row["n_narratives"], "narrative"),
            )
        )
    _print_table(lines)
    if len(tested) < len(comparison.gap):
        untested = plural(len(comparison.gap) - len(tested), "change")
        _say(f"note: {untested} without a test; the page says why")
    print(f"comparison: {comparison.page}")


def _show(outcome: Outcome) -> None:
    from audit.wording import SCOPES, bare_p, count, coverage, dimension_title, interval, p_value, plural, points

    about: dict[str, list[str]] = {}
    for remark in outcome.remarks:
        about.setdefault(remark.text, []).extend([dimension_title(remark.dimension)] if remark.dimension else [])
    for text, dimensions in about.items():
        _say(f"note: {', '.join(dict.fromkeys(dimensions))}{': ' if dimensions else ''}{text}")
    if "measure" in outcome.gap:
        _show_measures(outcome)
        return
    if "subscale" in outcome.gap:
        _show_inventory(outcome)
        return
    head = ("dimension", "variant", "speaks of", "average gap (points)", f"{coverage(outcome.confidence)} interval")
    lines = [(*head, "p", "corrected p", "from")]
    for row in outcome.gap[outcome.gap["headline"]].to_dict("records"):
        estimated = row["se"] == row["se"]
        counts = (
            f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'narrative')}, "
            f"{plural(row['n_missing'], 'rating')} missing"
        )
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["variant"],
                SCOPES[row["scope"]],
                points(row["delta_points"]),
                interval(row["ci_low"], row["ci_high"]) if estimated else "none",
                p_value(row["p"]) if estimated else "none",
                bare_p(row["p_adjusted"]),
                counts if row["scope"] == "narratives" else row["note"] or plural(row["df"] + 1, "group"),
            )
        )
    _print_table(lines)
    for line in outcome.controls:
        print(line)
    print(f"report: {outcome.report}")


def _show_measures(outcome: Outcome) -> None:
    from audit.wording import bare_p, count, coverage, dimension_title, interval, plural, points

    level = coverage(outcome.confidence)
    lines = [("dimension", "measure", "gap (its unit)", f"{level} interval", "p", "corrected p", "from")]
    headlines = outcome.gap[outcome.gap["headline"].astype(bool) & (outcome.gap["scope"] == "narratives")]
    for row in headlines.sort_values("dimension", kind="stable").to_dict("records"):
        estimated = row["se"] == row["se"]
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["measure"],
                points(row["delta"]),
                interval(row["ci_low"], row["ci_high"]) if estimated else "none",
                bare_p(row["p"]),
                bare_p(row["p_adjusted"]),
                f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'narrative')}",
            )
        )
    _print_table(lines)
    print(f"report: {outcome.report}")


def _show_inventory(outcome: Outcome) -> None:
    from audit.wording import MINUS, bare_p, count, coverage, dimension_title, interval, plural, points, unsigned

    level = coverage(outcome.confidence)
    affect = "change" in outcome.gap
    said = ("situations", f"evoked {MINUS} default", f"{level} interval", "corrected p", "from")
    lines = [("dimension", "group", "subscale", *(said if affect else ("score", f"{level} interval", "items")))]
    for row in outcome.gap.to_dict("records"):
        spread = f"{interval(row['ci_low'], row['ci_high'])}" if row["ci_low"] == row["ci_low"] else "none"
        if affect:
            found: tuple[str, ...] = (
                row["narratives"],
                points(row["change"]),
                spread,
                bare_p(row["p_adjusted"]),
                f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'situation')}",
            )
        else:
            n_items = f"{count(row['n_items_used'])} of {count(row['n_items'])}"
            found = (unsigned(row["score"]), spread.replace("+", ""), n_items)
        lines.append((dimension_title(row["dimension"]), row["perceiver_group"], row["subscale"], *found))
    _print_table(lines)
    print(f"report: {outcome.report}")


def _print_table(lines: Sequence[Sequence[str]]) -> None:
    from audit.wording import printable

    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _prompts(config: AuditConfig, *, written: set[Path]) -> None:
    import json
    from contextlib import nullcontext

    from audit.config import InventoryTask
    from audit.errors import StoreError

    if isinstance(config.task, InventoryTask):
        from audit.inventory.plan import inventory_records, make_inventory_plan

        filled_in = make_inventory_plan(config)
        n_prompts, records = len(filled_in.grid), inventory_records(filled_in)
    else:
        from audit.conversations import prompt_records
        from audit.plan import make_plan

        plan = make_plan(config)
        n_prompts, records = len(plan.grid), prompt_records(plan)
    try:
        if config.out is None:
            target: AbstractContextManager[TextIO] = nullcontext(sys.stdout)
        else:
            # The jobs of a sweep follow each other in one file; what was in it before goes.
            target = config.out.open("a" if config.out in written else "w", encoding="utf-8")
            written.add(config.out)
        with target as stream:
            for record in records:
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"out={config.out} can not be written ({error.strerror or error})") from error
    if config.out is not None:
        from audit.wording import plural

        _say(f"{plural(n_prompts, 'prompt')}: {config.out}")


def _report(rest: list[str]) -> None:
    from audit.errors import ConfigError
    from audit.pipeline import report_outside, report_run

    folders, options = _arguments("report", rest, (*_OUTSIDE, "run_dir"))
    settings = _statistics_of(options)
    shown = shlex.join(["python", "-m", "audit", "report", *rest])
    outside = {name: value for name, value in options.items() if not name.startswith("statistics.")}
    if len(folders) > 1 and outside.keys() <= {"run_dir"}:
        from audit.comparison import compare_folders

        comparison = compare_folders(
            [Path(folder) for folder in folders],
            out=Path(outside["run_dir"]) if outside else None,
            reports_dir=Path("reports"),
            defaults=_statistics(),
            settings=settings,
            command=shown,
            say=_say,
        )
        _show_comparison(comparison)
        return
    if not outside:
        _show(report_run(_one_folder("report", folders), defaults=_statistics(), settings=settings, command=shown))
        return
    if folders:
        raise ConfigError(f"report takes a run folder or ratings=FILE, got {shlex.join(rest)}")
    for name in ("ratings", "groups", "run_dir"):
        if not outside.get(name):
            raise ConfigError(f"{name}= must be given to analyse outside ratings; see python -m audit report --help")
    outcome = report_outside(
        Path(outside["ratings"]),
        Path(outside["groups"]),
        Path(outside["run_dir"]),
        low=_number("low", outside["low"]) if "low" in outside else None,
        high=_number("high", outside["high"]) if "high" in outside else None,
        missing=_numbers("missing", outside.get("missing", "[]")),
        model=outside.get("model"),
        seed=_whole("seed", outside.get("seed", "0"), least=0),
        statistics=_statistics() | settings,
        command=shown,
        say=_say,
    )
    _show(outcome)


def _statistics_of(options: Mapping[str, str]) -> dict[str, str | None]:
    """Return the settings of the analysis among options, as words: a formula is no YAML."""
    return {
        name.removeprefix("statistics."): None if value == "null" else value
        for name, value in options.items()
        if name.startswith("statistics.")
    }


def _replicate(rest: list[str]) -> None:
    from audit.errors import ConfigError
    from audit.replication import replicate

    folders, options = _arguments("replicate", rest, ("run_dir", "narratives", "beyond", "seed"))
    if len(folders) != 1:
        given = shlex.join(folders) or "none"
        raise ConfigError(
            f"replicate takes one folder of result files, got {given}; see python -m audit replicate --help"
        )
    replication = replicate(
        Path(folders[0]),
        run_dir=Path(options["run_dir"]) if "run_dir" in options else None,
        reports_dir=Path("reports"),
        narratives=Path(options["narratives"]) if "narratives" in options else None,
        keep_beyond=_one_of("beyond", options.get("beyond", "refuse"), ("refuse", "keep")) == "keep",
        seed=_whole("seed", options.get("seed", "0"), least=0),
        statistics=_statistics() | _statistics_of(options),
        command=shlex.join(["python", "-m", "audit", "replicate", *rest]),
        say=_say,
    )
    _show_replication(replication)


def _show_replication(replication: Replication) -> None:
    from audit.wording import count, coverage, dimension_title, interval, points

    confidence = next(iter(replication.outcomes.values())).confidence
    head = ("model", "variant", "dimension", "published gap (SDs of its cells)", "95% of the null", "narratives used")
    lines: list[tuple[str, ...]] = [(*head, "gap (points)", f"{coverage(confidence)} interval")]
    for row in replication.table().to_dict("records"):
        lines.append(
            (
                row["model"],
                row["variant"],
                dimension_title(row["dimension"]),
                points(row["delta_z"]),
                interval(row["null_low"], row["null_high"]) if row["delta_z"] == row["delta_z"] else "none",
                f"{count(row['n_narratives'])} of {count(row['n_narratives_asked'])}",
                points(row["delta_points"]),
                interval(row["ci_low"], row["ci_high"]) if row["ci_low"] == row["ci_low"] else "none",
            )
        )
    _print_table(lines)
    if replication.comparison is None:
        for outcome in replication.outcomes.values():
            print(f"report: {outcome.report}")
        return
    for text in replication.comparison.remarks:
        _say(f"note: {text}")
    print(f"comparison: {replication.comparison.page}")


def _people(rest: list[str]) -> None:
    from audit.errors import ConfigError

    step, *more = rest or [""]
    if _choices(step, more):
        return
    if step == "import":
        from audit.pipeline import import_people

        form = next((each.removeprefix("form=") for each in more if each.startswith("form=")), None)
        folder, *files = [each for each in more if not each.startswith("form=")] or [""]
        if not folder or not files:
            raise ConfigError(
                "people import takes a run folder and the raters' files; see python -m audit people --help"
            )
        outcome, counted = import_people(
            Path(folder), [Path(file) for file in files], form=form, defaults=_statistics()
        )
        for text in counted:
            _say(f"note: {text}")
        _show(outcome)
        return
    if step != "export":
        raise ConfigError(f"people takes export or import, got {step or 'nothing'}; see python -m audit people --help")
    from audit.raters import export_items, export_lists, form_of

    of_replies, of_ratings = ("mask_experiencer", "questions"), ("lists", "introduction")
    folders, options = _arguments("people export", more, ("form", "n", "seed", *of_replies, *of_ratings))
    path = _one_folder("people export", folders)
    form = form_of(path, options.get("form"))
    for name in of_ratings if form == "replies" else of_replies:
        if name in options:
            raise ConfigError(f"{name}: form={form} has no such option; see python -m audit people --help")
    seed = _whole("seed", options.get("seed", "0"), least=0)
    if form == "replies":
        mask = _one_of("mask_experiencer", options.get("mask_experiencer", "false"), ("true", "false"))
        place, counted = export_items(
            path,
            n=_whole("n", options.get("n", "100"), least=1),
            seed=seed,
            questions=Path(options["questions"]) if "questions" in options else None,
            mask_experiencer=mask == "true",
        )
    else:
        place, counted = export_lists(
            path,
            form,
            n=_whole("n", options["n"], least=1) if "n" in options else None,
            n_lists=_whole("lists", options["lists"], least=1) if "lists" in options else None,
            seed=seed,
            introduction=Path(options["introduction"]) if "introduction" in options else None,
        )
    for text in counted:
        _say(f"note: {text}")
    print(f"send raters: {place}")


def _choices(step: str, more: list[str]) -> bool:
    """Export or import pairs of replies; False where neither is asked for, but one run's people."""
    from audit.paired_raters import export_pairs, holds_choices, import_choices

    if step == "import" and len(more) > 1 and holds_choices(Path(more[0])):
        _show_choices(import_choices(Path(more[0]), [Path(file) for file in more[1:]]))
        return True
    if step != "export" or sum("=" not in each for each in more) < 2:
        return False
    folders, options = _arguments("people export", more, ("n", "seed", "mask_experiencer", "questions", "run_dir"))
    mask = _one_of("mask_experiencer", options.get("mask_experiencer", "false"), ("true", "false"))
    place = export_pairs(
        [Path(folder) for folder in folders],
        n=_whole("n", options.get("n", "100"), least=1),
        seed=_whole("seed", options.get("seed", "0"), least=0),
        questions=Path(options["questions"]) if "questions" in options else None,
        mask_experiencer=mask == "true",
        out=Path(options["run_dir"]) if "run_dir" in options else None,
        reports_dir=Path("reports"),
        say=lambda text: _say(f"note: {text}"),
    )
    print(f"send raters: {place}")
    print(f"and then:    {shlex.join(['python', '-m', 'audit', 'people', 'import', str(place.parent)])} FILE ...")
    return True


def _show_choices(chosen: Chosen) -> None:
    from audit.wording import bare_p, count, coverage, dimension_title, fixed

    def percent(row: dict[Any, Any], *names: str, signed: bool) -> str:
        if row[names[0]] != row[names[0]]:
            return "none"
        return " to ".join(fixed(100 * row[name], decimals=1, signed=signed) for name in names)

    for text in chosen.remarks:
        _say(f"note: {text}")
    level = coverage(chosen.confidence)
    head = ("dimension", "question", "pairs", "preferred (%)", f"{level} interval", "corrected p")
    lines: list[tuple[str, ...]] = [(*head, "position bias (points)", "ties", "from")]
    for row in chosen.preference.to_dict("records"):
        gap = row["pairs"] == "gap"
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["question"],
                "in-group less out-group" if gap else row["pairs"].replace("_", "-"),
                percent(row, "share", signed=gap),
                percent(row, "ci_low", "ci_high", signed=gap),
                bare_p(row["p_adjusted"]),
                "" if gap else percent(row, "position_bias", signed=True),
                count(row["n_ties"]),
                f"{count(row['n_choices'])} choices, {count(row['n_raters'])} raters, {count(row['n_narratives'])} "
                "narratives",
            )
        )
        if row["note"]:
            _say(f"note: {row['dimension']}, {row['question']}, {row['pairs'].replace('_', '-')}: {row['note']}")
    print(f"preferred by people: the replies of {chosen.labels[0]} over those of {chosen.labels[1]}")
    _print_table(lines)
    print(f"tables: {chosen.path / 'tables'}")


def _judge(rest: list[str]) -> None:
    from audit.preference import Asked, judge_runs

    known = ("model", "method", "rubric", "rubric_file", "criterion", "n", "seed", "engine", "run_dir")
    folders, options = _arguments("judge", rest, known)
    judged = judge_runs(
        [Path(folder) for folder in folders],
        Asked(
            model=options.get("model"),
            method=_one_of("method", options.get("method", "expected"), ("expected", "generate")),
            rubric=options.get("rubric", "empathy"),
            rubric_file=Path(options["rubric_file"]) if "rubric_file" in options else None,
            criterion=options.get("criterion"),
            n_narratives=_whole("n", options["n"], least=1) if "n" in options else None,
            seed=_whole("seed", options.get("seed", "0"), least=0),
            engine=_one_of("engine", options.get("engine", "own"), ("own", "auto", "vllm", "transformers")),
        ),
        out=Path(options["run_dir"]) if "run_dir" in options else None,
        reports_dir=Path("reports"),
        command=shlex.join(["python", "-m", "audit", "judge", *rest]),
        say=_say,
    )
    _show_judgement(judged)


def _show_judgement(judged: Judgement) -> None:
    from audit.wording import bare_p, count, coverage, dimension_title, fixed, plural

    for text in judged.remarks:
        _say(f"note: {text}")

    def percent(row: dict[Any, Any], *names: str, signed: bool) -> str:
        if row[names[0]] != row[names[0]]:
            return "none"
        return " to ".join(fixed(100 * row[name], decimals=1, signed=signed) for name in names)

    level = coverage(judged.confidence)
    head = ("dimension", "pairs", "preferred (%)", f"{level} interval", "corrected p", "position bias (points)")
    lines: list[tuple[str, ...]] = [(*head, f"{level} interval", "contradictions (%)", "from")]
    for row in judged.preference.to_dict("records"):
        gap = row["pairs"] == "gap"
        lines.append(
            (
                dimension_title(row["dimension"]),
                "in-group less out-group" if gap else row["pairs"].replace("_", "-"),
                percent(row, "preference", signed=gap),
                percent(row, "ci_low", "ci_high", signed=gap),
                bare_p(row["p_adjusted"]),
                "" if gap else percent(row, "position_bias", signed=True),
                "" if gap else percent(row, "bias_low", "bias_high", signed=True),
                "" if gap else percent(row, "inconsistent", signed=False),
                f"{count(row['n_read'])} of {plural(row['n_pairs'], 'pair')}, "
                f"{plural(row['n_narratives'], 'narrative')}",
            )
        )
    print(f"preferred: the replies of {judged.labels[0]} over those of {judged.labels[1]}")
    _print_table(lines)
    print(f"page: {judged.page}")


def _calibrate(rest: list[str]) -> None:
    from audit.pipeline import calibrate_run

    folders, options = _arguments("calibrate", rest, ("n_datasets", "delta", "seed"))
    path, table = calibrate_run(
        _one_folder("calibrate", folders),
        defaults=_statistics(),
        n_datasets=_whole("n_datasets", options.get("n_datasets", "1000"), least=2),
        delta=_number("delta", options["delta"]) if "delta" in options else None,
        seed=_whole("seed", options.get("seed", "0"), least=0),
        progress=True,
    )
    _print_table(_calibration_lines(table))
    print(f"table: {path}")


def _calibration_lines(table: pd.DataFrame) -> list[tuple[str, ...]]:
    from audit.wording import SCOPES, count, dimension_title, fixed, rate

    head = ("dimension", "variant", "true gap", "estimator", "speaks of", "false positives", "coverage", "power")
    lines: list[tuple[str, ...]] = [(*head, "bias", "data sets")]
    for row in table.to_dict("records"):
        if not row["n_datasets"]:
            _say(f"note: {dimension_title(row['dimension'])}, {row['variant']}: {row['note']}")
            continue
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["variant"],
                fixed(row["delta"], decimals=2, signed=True),
                row["estimator"],
                SCOPES.get(row["scope"], "replication"),
                rate(row["false_positives"]),
                rate(row["coverage"]),
                rate(row["power"]),
                fixed(row["bias"], decimals=3, signed=True),
                count(row["n_estimable"]),
            )
        )
    return lines


def _arguments(command: str, rest: list[str], known: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split arguments into folders and KEY=VALUE options, ``statistics.`` ones for `report` and `replicate`."""
    from audit.config import StatisticsConfig
    from audit.errors import ConfigError
    from stimuli.errors import suggest

    names = [
        *known,
        *(f"statistics.{name}" for name in StatisticsConfig.model_fields if command in ("report", "replicate")),
    ]
    folders: list[str] = []
    options: dict[str, str] = {}
    for argument in rest:
        name, sign, value = argument.partition("=")
        if argument.startswith("-"):
            raise ConfigError(f"{command} has no flag {argument}; see python -m audit {command} --help")
        if not sign or Path(argument).is_dir():
            folders.append(argument)
        elif name not in names:
            raise ConfigError(f"{name}: {command} has no such option; {suggest(name, names)}")
        elif name in options:
            raise ConfigError(f"{name} is given twice, as {options[name]!r} and {value!r}; keep one")
        else:
            options[name] = value
    return folders, options


def _one_folder(command: str, folders: Sequence[str]) -> Path:
    from audit.errors import ConfigError

    if len(folders) != 1:
        given = shlex.join(folders) or "none"
        raise ConfigError(f"{command} takes one run folder, got {given}; see python -m audit {command} --help")
    return Path(folders[0])


def _number(name: str, text: str) -> float:
    import math

    from audit.errors import ConfigError

    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{name}={text}: a number is wanted")
    return number


def _numbers(name: str, text: str) -> list[float]:
    """Read a number, or a list of them in brackets."""
    from audit.errors import ConfigError

    inside = text.strip()
    if inside.startswith("[") and inside.endswith("]"):
        inside = inside[1:-1]
    if "[" in inside or "]" in inside:
        raise ConfigError(f"{name}={text}: a number is wanted, or numbers in brackets: {name}=[-1,-99]")
    return [_number(name, part.strip()) for part in inside.split(",")] if inside.strip() else []


def _whole(name: str, text: str, *, least: int) -> int:
    from audit.errors import ConfigError

    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise ConfigError(f"{name}={text}: a whole number from {least} on is wanted")
    return int(text)


def _one_of(name: str, text: str, choices: Sequence[_Choice]) -> _Choice:
    from audit.errors import ConfigError
    from stimuli.errors import suggest

    found = next((choice for choice in choices if choice == text), None)
    if found is None:
        raise ConfigError(f"{name}={text}: {' or '.join(choices)} is wanted; {suggest(text, choices)}")
    return found


def _default_file() -> Path:
    from audit.composition import conf_folder

    return conf_folder() / "statistics" / "default.yaml"


def _statistics() -> dict[str, Any]:
    """Return the defaults of an analysis."""
    from stimuli.yaml_files import read_yaml

    return dict(read_yaml(_default_file()))


def _attempt(step: Callable[[], None]) -> str | None:
    """Do a step; show what the user can mend as one line, and return that line, or None if all went well."""
    from audit.errors import AuditError
    from audit.wording import printable
    from stimuli.errors import StimulusError

    try:
        step()
    except (AuditError, StimulusError) as error:
        fault = printable(" ".join(str(error).split()))
        _say(f"audit: {fault}")
        return fault
    return None


def _each_job(overrides: list[str], do: Callable[[AuditConfig, Composed], Path | None]) -> tuple[int, list[_Job]]:
    """Do a job with the configuration, or with each one of a sweep; return the exit code and what became of each."""
    from audit.composition import compose

    jobs: list[_Job] = []

    def task(composed: Composed) -> None:
        config: AuditConfig | None = None
        folder: Path | None = None

        def step() -> None:
            nonlocal config, folder
            config = composed.validated()
            folder = do(config, composed)

        fault = _attempt(step)
        jobs.append(_Job(composed.number, composed.overrides, config, folder, fault))

    fault = _attempt(lambda: compose(overrides, task))
    failed = fault is not None or any(job.fault is not None for job in jobs)
    return FAILED if failed else OK, jobs


if __name__ == "__main__":
    sys.exit(main())
