"""``report``: analyses a run again without its model, compares runs, or analyses ratings from another tool."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from audit.cli.outcome import show_comparison, show_outcome
from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import (
    Option,
    Usage,
    a_number,
    a_path,
    a_text,
    numbers,
    option_lines,
    usage_lines,
    whole_from,
)
from audit.cli.terminal.printing import say
from audit.errors import ConfigError, command_line
from stimuli.errors import suggest


def _columns(name: str, text: str) -> dict[str, str]:
    """Parse ``OURS:YOURS,...``; a name of a column may have commas and colons."""
    from audit.tasks.pipeline import COLUMNS

    named: dict[str, str] = {}
    for part in re.split(rf",\s*(?=(?:{'|'.join(COLUMNS)})\s*:)", text):
        ours, _, theirs = map(str.strip, part.partition(":"))
        if ours not in COLUMNS or not theirs or ours in named:
            raise ConfigError(
                f"{name}={text}: {part!r} must be OURS:YOURS, as in rating:Score, each of ours once; "
                f"{suggest(ours, COLUMNS)}"
            )
        named[ours] = theirs
    return named


_RUN_DIR: Final[Option[Path | None]] = Option("run_dir", a_path, None, "the new run folder", "OUT")
_RATINGS: Final[Option[Path | None]] = Option(
    "ratings",
    a_path,
    None,
    "a table (.csv .tsv .txt .xlsx .sav .parquet .jsonl) with perceiver, experiencer, narrative_id, rating (empty "
    "= missing) and, optionally, emotion, dimension, variant and status (rated, refused, unparseable, failed or "
    "inexact)",
    "FILE",
)
_GROUPS: Final[Option[Path | None]] = Option(
    "groups",
    a_path,
    None,
    "a table with term, group and, if a term's group depends on it, dimension; 'unspecified' is the baseline",
    "FILE",
)
_LOW: Final[Option[float | None]] = Option("low", a_number, None, "the lower end of the rating scale, in points", "0")
_HIGH: Final[Option[float | None]] = Option(
    "high",
    a_number,
    None,
    "the upper end; low= and high= may be left out if the ratings reach from 0 to 100",
    "100",
)
_MISSING: Final[Option[Sequence[float | str]]] = Option(
    "missing",
    numbers,
    (),
    "numbers that mean a refusal or no answer in the ratings: missing=-1, missing=[-1,-99]",
    "-1",
)
_COLUMNS: Final[Option[Mapping[str, str]]] = Option(
    "columns",
    _columns,
    {},
    "your names of columns, in both files, if they are not called so: 'columns=perceiver:Rater,rating:Score (0-100)'",
    "OURS:YOURS,...",
)
_MODEL: Final[Option[str | None]] = Option("model", a_text, None, "the model's name in the report", "NAME")
_SEED: Final = Option("seed", whole_from(0), 0, "random seed of the permutations")

_REPLIES: Final[Option[Path | None]] = Option(
    "replies",
    a_path,
    None,
    "transcripts: a table with message, reply and, optionally, group, match_id, conversation, system, model and date; "
    "JSON lines with lists of messages; or an Inspect log",
    "FILE",
)
_TERMS: Final[Option[Path | None]] = Option(
    "groups",
    a_path,
    None,
    "a table with term and group; needed unless a column group of the replies has the groups themselves",
    "FILE",
)

_ANSWERS: Final[Option[Path | None]] = Option(
    "answers",
    a_path,
    None,
    'JSON lines with the id of a prompt and what the model wrote: {"id": ..., "text": ...}, or a batch\'s output; or '
    "an Inspect log (.eval)",
    "FILE",
)
_PROMPTS: Final[Option[Path | None]] = Option(
    "prompts",
    a_path,
    None,
    "the prompts that were asked, written by `prompts out=FILE`, with FILE.run.json in the same folder",
    "FILE",
)
_BY: Final = Option("by", a_text, "", "the tool that asked the model; neither this nor model= is checked", "STACK")

_SERIES: Final[Option[str | None]] = Option(
    "series",
    a_text,
    None,
    "three or more runs in an order: as given (order), by the number of parameters (size), or by a table with the "
    "columns run (its folder) and position (a number or a date)",
    "order|size|FILE",
    lambda: ("order", "size"),
)

_AGAIN: Final = Usage("report", "RUN_DIR", settings=True)
_SIDE_BY_SIDE: Final = Usage("report", "RUN_DIR RUN_DIR ...", options=(_SERIES, _RUN_DIR), settings=True)
_OUTSIDE: Final = Usage(
    "report",
    needed=(_RATINGS, _GROUPS, _RUN_DIR),
    options=(_LOW, _HIGH, _MISSING, _COLUMNS, _MODEL, _SEED),
    settings=True,
)
_ELSEWHERE: Final = Usage("report", needed=(_ANSWERS, _PROMPTS), options=(_MODEL, _BY, _RUN_DIR), settings=True)
_OBSERVED: Final = Usage(
    "report",
    needed=(_REPLIES, _RUN_DIR),
    options=(_TERMS, _COLUMNS, _MODEL, _SEED),
    settings=True,
    measures=True,
)
_ALL: Final = Usage(
    "report",
    options=(*_OUTSIDE.needed, *_OUTSIDE.options, _ANSWERS, _PROMPTS, _BY, _REPLIES, _SERIES),
    settings=True,
    measures=True,
)
"""The options of all forms."""

_HELP: Final = """
Reads the ratings of a run, writes tables/, figures/ and report.html again, and prints the gap. For an unfinished run,
analyses the ratings collected so far. No model is loaded.

The second form compares runs, analysed with the same settings: their gaps, the differences between them on the
narratives they share, and a table for a paper, in OUT/comparison.html (OUT defaults to reports/comparison-<hash>). It
takes the settings confidence, margin, n_permutations, min_number_mass, least_gap, missing_shift and power; those not
given are the first run's. Runs of ratings that were asked the same can be a series, such as the sizes of a model: each
gap's trend along it is then tested, and each step.

{series}

For runs with task=reply the second form compares the gap of each measure with that of the run without a strategy, or
else of the first run; it takes confidence, n_permutations, min_number_mass and power.

The third form reads ratings collected by another tool:

{options}

The fourth form reads a model's answers to exported prompts, collected with any tool, and makes a run of them:

{answers}

The fifth form reads replies that nobody asked for here, such as a deployed assistant's, and measures them as
task=reply does. With match_id, replies of one match are compared; without, they are adjusted for their messages, and
what is found is observational (docs/chats.md):

{observed}

every setting, with its default and its meaning: python -m audit options statistics, and ... options measures
"""


def _help() -> str:
    options = option_lines(*_OUTSIDE.needed, *_OUTSIDE.options)
    answers = option_lines(*_ELSEWHERE.needed, *_ELSEWHERE.options)
    observed = option_lines(*_OBSERVED.needed, *_OBSERVED.options)
    shown = _HELP.format(series=option_lines(_SERIES), options=options, answers=answers, observed=observed)
    return usage_lines(_AGAIN, _SIDE_BY_SIDE, _OUTSIDE, _ELSEWHERE, _OBSERVED) + shown


def _report(words: Sequence[str]) -> int:
    from audit.tasks.pipeline import report_answers, report_outside, report_run, report_transcripts

    given = _ALL.read(words)
    settings = given.settings()
    shown = command_line("report", *words)
    own = given.texts.keys() & set(_ALL.names)
    if given.measures and _REPLIES.name not in own:
        raise ConfigError(f"{given.measures[0]} is for replies=FILE, and none is given; leave it out")
    if len(given.places) > 1 and own <= set(_SIDE_BY_SIDE.names):
        from audit.comparing.comparison import compare_folders

        comparison = compare_folders(
            [Path(folder) for folder in given.places],
            out=given[_RUN_DIR],
            reports_dir=Path("reports"),
            settings=settings,
            series=given[_SERIES],
            command=shown,
            say=say,
        )
        show_comparison(comparison)
    elif not own:
        show_outcome(report_run(given.one_folder(), settings=settings, command=shown))
    elif _SERIES.name in own and not given.places:
        raise ConfigError(f"series={given.texts[_SERIES.name]} is for several run folders, and none is given")
    elif given.places:
        first = next(word for word in words if word.partition("=")[0] in own)
        raise ConfigError(
            (
                f"{first} is for ratings=FILE, replies=FILE, answers=FILE or several run folders, but one run folder "
                f"is given, {shlex.quote(given.places[0])}; leave out one of them"
            )
            if len(given.places) == 1
            else (
                "report needs run folders, ratings=FILE, replies=FILE or answers=FILE, and only one of these; got "
                f"{shlex.join(words)}"
            )
        )
    elif _REPLIES.name in own:
        if more := sorted(own - set(_OBSERVED.names)):
            raise ConfigError(f"{more[0]}= is not for replies=FILE; leave it out")
        outcome = report_transcripts(
            given.need(_REPLIES, to="read replies"),
            given[_GROUPS],
            given.need(_RUN_DIR, to="read replies"),
            columns=given[_COLUMNS],
            model=given[_MODEL],
            seed=given[_SEED],
            measures=given.measures,
            statistics=settings,
            command=shown,
            say=say,
        )
        show_outcome(outcome)
    elif own & {_ANSWERS.name, _PROMPTS.name, _BY.name}:
        if _RATINGS.name in own:
            raise ConfigError("ratings= and answers= cannot be given together; keep one")
        if more := sorted(own - set(_ELSEWHERE.names)):
            raise ConfigError(f"{more[0]}= is for ratings=FILE, not for answers=FILE; leave it out")
        purpose = "read answers"
        outcome = report_answers(
            given.need(_ANSWERS, to=purpose),
            given.need(_PROMPTS, to=purpose),
            run_dir=given[_RUN_DIR],
            model=given[_MODEL],
            by=given[_BY],
            settings=settings,
            command=shown,
            say=say,
        )
        show_outcome(outcome)
    else:
        purpose = "analyse outside ratings"
        outcome = report_outside(
            given.need(_RATINGS, to=purpose),
            given.need(_GROUPS, to=purpose),
            given.need(_RUN_DIR, to=purpose),
            low=given[_LOW],
            high=given[_HIGH],
            missing=given[_MISSING],
            columns=given[_COLUMNS],
            model=given[_MODEL],
            seed=given[_SEED],
            statistics=settings,
            command=shown,
            say=say,
        )
        show_outcome(outcome)
    return OK


COMMAND: Final = Command(
    "report",
    "analyse a run folder again, without its model; or analyse ratings from another tool; or compare several run "
    "folders",
    _help,
    _report,
    usages=(_AGAIN, _SIDE_BY_SIDE, _OUTSIDE, _ELSEWHERE, _OBSERVED),
)
