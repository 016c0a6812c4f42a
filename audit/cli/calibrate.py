"""``calibrate``: simulates data like a run's, and reports how often its estimators err."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_number, option_lines, usage_lines, whole_from
from audit.cli.terminal.printing import note, print_table, tell
from audit.configuration.composition import statistics_defaults
from audit.tables.formatting import SCOPES, count, dimension_title, fixed, rate

if TYPE_CHECKING:
    import pandas as pd

_N_DATASETS: Final = Option("n_datasets", whole_from(2), 1000, "how many data sets are simulated, of each kind")
_DELTA: Final[Option[float | None]] = Option(
    "delta", a_number, None, "the gap to find; the smallest that the run can detect, unless given", "POINTS"
)
_SEED: Final = Option("seed", whole_from(0), 0, "of the simulation")
_USAGE: Final = Usage("calibrate", "RUN_DIR", options=(_N_DATASETS, _DELTA, _SEED))

_HELP: Final = """
Simulates data sets of the run's own design, with its identities, narratives, variances and missing ratings: with no
gap, and with a gap of `delta` points. Prints how often each estimator finds a gap where there is none, how often its
interval covers the true one and how often it finds it, and writes calibration.csv into the run's folder.

{options}
"""


def _help() -> str:
    return usage_lines(_USAGE) + _HELP.format(options=option_lines(*_USAGE.options))


def _calibrate(words: Sequence[str]) -> int:
    from audit.tasks.pipeline import calibrate_run

    given = _USAGE.read(words)
    path, table = calibrate_run(
        given.one_folder(),
        defaults=statistics_defaults(),
        n_datasets=given[_N_DATASETS],
        delta=given[_DELTA],
        seed=given[_SEED],
        progress=True,
    )
    print_table(_lines(table))
    tell(f"table: {path}")
    return OK


def _lines(table: pd.DataFrame) -> list[tuple[str, ...]]:
    head = ("dimension", "variant", "true gap", "estimator", "speaks of", "false positives", "coverage", "power")
    lines: list[tuple[str, ...]] = [(*head, "bias", "data sets")]
    for row in table.to_dict("records"):
        if not row["n_datasets"]:
            note(f"{dimension_title(row['dimension'])}, {row['variant']}: {row['note']}")
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


COMMAND: Final = Command(
    "calibrate",
    "simulate data like a run's, and say how often its estimators err",
    _help,
    _calibrate,
    usages=(_USAGE,),
)
