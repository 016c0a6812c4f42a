"""``selftest``: plants known gaps in a scripted respondent, audits it as any model, and says whether they are found."""

from __future__ import annotations

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

from audit.cli.terminal.base import INTERRUPTED, OK, Command
from audit.cli.terminal.options import Usage
from audit.cli.terminal.printing import print_table, say, tell
from audit.errors import ConfigError
from audit.tables.formatting import interval, points

if TYPE_CHECKING:
    from audit.configuration.composition import Composed
    from audit.tables.base import Table

_NOT_FOUND: Final = 1
_USAGE: Final = Usage("selftest", "")
_NOISE: Final = 4.0  # standard errors within which a planted number must be found: chance exceeds it in 1 of 10,000
_SETTINGS: Final = (
    "model=planted", "dimensions=[religion]", "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=12",
    "elicitation.noise_sample=0", "statistics.n_permutations=1000",
)  # fmt: skip
"""Two emotions, so that answers are read fast, in 24 narratives; what is planted is 9 standard errors or more."""

_HELP: Final = """
Checks an installation: plants known gaps, disparities, echoes of words and refusals in a scripted respondent
(model=planted), asks and analyses it like any model, and says whether exactly what was planted is found. No
language model is needed. The runs are made in a temporary folder, which is removed.

exit codes:
  0  everything planted was found, and nothing else
  1  something planted was not found, or something was found that was not planted
"""


@dataclass(frozen=True)
class _Plant:
    """What is planted, and what must therefore be found; everything else must not be."""

    name: str
    options: tuple[str, ...] = ()  # of ``model.planted``
    gap: float = 0.0  # δ between groups, in points
    less: Mapping[str, float] = field(default_factory=dict)  # D by group, in points
    words: float = 0.0  # δ of invented groups, which have nothing but their words, in points
    refusals: float = 0.0  # gap of refusals, in percentage points
    response: float | None = None  # to the story, in points, if not the default


_PLANTS: Final = (
    _Plant("nothing"),
    _Plant("δ +5", ("gap=5",), gap=5),
    _Plant("D of Muslim −20", ("disparity={Muslim: -20}",), less={"Muslim": -20}),
    _Plant("echo +10", ("echo=10",), words=10),
    _Plant("δ +5, D of Muslim −20", ("gap=5", "disparity={Muslim: -20}"), gap=5, less={"Muslim": -20}),
    _Plant("30% refused out-group", ("refusals={out_group: 0.3}",), refusals=-30),
    # It follows no story, but likes pleasant words: neither a response nor, with a gap planted, a verdict.
    _Plant("pleasant words +20, δ +5", ("pleasant=20", "response=0", "noise=1", "gap=5"), gap=5, response=0),
)


@dataclass(frozen=True)
class _Finding:
    """A number that was found, and the answer that the audit gives."""

    question: str
    planted: float
    found: float
    low: float
    high: float
    se: float
    answer: str
    expected: str

    @property
    def is_right(self) -> bool:
        """Whether the answer is the expected one, and the number the planted one within its noise."""
        near = abs(self.found - self.planted) <= _NOISE * self.se
        return self.answer == self.expected and (near or (math.isnan(self.se) and self.found == self.planted))

    def row(self, plant: str) -> tuple[str, ...]:
        """Return the cells of the printed table."""
        spread = f" ({interval(self.low, self.high)})" if self.low == self.low else ""
        shown = f"{points(self.found)}{spread}"
        return plant, self.question, shown, self.expected, self.answer, "yes" if self.is_right else "NO"


_HEAD: Final = ("planted", "question", "found (95% interval)", "answer expected", "answer", "as it should be?")


def _selftest(words: Sequence[str]) -> int:
    given = _USAGE.read(words)
    if given.places:
        raise ConfigError(f"selftest takes no folder, got {given.places[0]}")
    began, wrong = time.monotonic(), 0
    rows: list[tuple[str, ...]] = [_HEAD]
    processes = get_context("spawn")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="empathy-audit-selftest-") as folder,
            processes.Pool(min(2, os.cpu_count() or 1), _begin) as pool,
        ):
            for plant, findings in zip(_PLANTS, pool.imap(partial(_tried, folder=folder), _PLANTS), strict=True):
                say(f"planted and audited: {plant.name}")
                rows += [each.row(plant.name) for each in findings]
                wrong += sum(not each.is_right for each in findings)
    except KeyboardInterrupt as interrupt:
        say("\nselftest: interrupted; its folder was removed")
        return INTERRUPTED - signal.SIGINT + int(getattr(interrupt, "number", signal.SIGINT))
    print_table(rows)
    took = f"{len(_PLANTS)} planted models, not language models, in {time.monotonic() - began:.0f} s"
    if wrong:
        tell(f"failed: {wrong} of {len(rows) - 1} answers are not as planted; do not trust this installation ({took})")
        return _NOT_FOUND
    tell(f"passed: everything planted was found, and nothing else ({took})")
    return OK


def _begin() -> None:
    """Prepare a process: Ctrl-C is left to the one that started it, progress is not shown, and it takes one core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)


def _tried(plant: _Plant, *, folder: str) -> list[_Finding]:
    """Ask, analyse and report as ``run`` does, and return what was found."""
    from audit.configuration.composition import compose
    from audit.tasks.pipeline import run_audit

    def job(composed: Composed) -> None:
        run_audit(composed.validated(), command="python -m audit selftest", say=lambda _: None)

    run = Path(folder) / str(_PLANTS.index(plant))
    compose([*_SETTINGS, *(f"model.planted.{option}" for option in plant.options), f"run_dir={run}"], job)
    return list(_findings(plant, run))


def _findings(plant: _Plant, run: Path) -> Iterator[_Finding]:
    """Yield what the tables of a run answer to each question."""
    from audit.configuration.planted import PlantedConfig
    from audit.tables.controls import CONTROLS, MISSING
    from audit.tables.disparity import DISPARITY
    from audit.tables.verdicts import VERDICTS

    [verdict] = _rows(run, VERDICTS)
    toward = "gap to in-group" if verdict["direction"] > 0 else "gap to out-group"
    answer = {"gap": toward, "no_verdict": "no verdict"}.get(verdict["code"], "no gap")
    expected = "no verdict" if plant.response == 0 else "gap to in-group" if plant.gap else "no gap"
    yield _finding("δ", plant.gap, verdict, answer, expected)
    response = {"delta": verdict["response"], "ci_low": verdict["response_low"], "ci_high": verdict["response_high"]}
    response["se"] = (response["ci_high"] - response["ci_low"]) / (2 * NormalDist().inv_cdf(0.975))
    planted = PlantedConfig().response if plant.response is None else plant.response
    answer, expected = (
        "follows stories" if sure else "does not follow" for sure in (response["ci_low"] > 0, planted > 0)
    )
    yield _finding("response", planted, response, answer, expected)
    deciding = [row for row in _rows(run, DISPARITY) if row["headline"] and row["outcome"] == "intensity"]
    beside = -sum(plant.less.values()) / (len(deciding) - 1)  # of the others, whom a group that gets less raises
    told = [row for row in deciding if row["group"] in plant.less or row["code"] in ("lower", "higher")]
    for row in told or [max(deciding, key=lambda each: abs(each["disparity"]))]:
        group = str(row["group"])
        answer = str(row["code"]) if row["code"] in ("lower", "higher") else "none gets less"
        expected = "none gets less" if group not in plant.less else "lower" if plant.less[group] < 0 else "higher"
        yield _finding(f"D of {group}", plant.less.get(group, beside), row, answer, expected)
    for row in _rows(run, CONTROLS):
        if row["control"] == "placebo":  # invented groups have nothing but their words
            answer = "words" if abs(row["delta"]) > _NOISE * row["se"] else "no words"
            yield _finding("words alone", plant.words, row, answer, "words" if plant.words else "no words")
    for row in _rows(run, MISSING):
        if row["outcome"] == "refused":
            answer = "refusals differ" if abs(row["gap_pp"]) > _NOISE * row["se"] else "refusals alike"
            yield _finding("refusals", plant.refusals, row, answer,
                           "refusals differ" if plant.refusals else "refusals alike")  # fmt: skip


def _rows(run: Path, table: Table) -> list[dict[Any, Any]]:
    import pandas as pd

    return pd.read_csv(table.place(run / "tables"), keep_default_na=False, na_values=[""]).to_dict("records")


def _finding(question: str, planted: float, row: Mapping[Any, Any], answer: str, expected: str) -> _Finding:
    """Return the finding of a table's row, whatever the table calls its number."""
    found = next(float(row[name]) for name in ("delta", "disparity", "gap_pp") if name in row)
    return _Finding(question, planted, found, row["ci_low"], row["ci_high"], row["se"], answer, expected)


COMMAND: Final = Command(
    "selftest",
    "check an installation: plant known gaps in a scripted respondent, and see whether they are found",
    lambda: _USAGE.help(_HELP),
    _selftest,
    usages=(_USAGE,),
)
