"""``replicate``: reproduces the published study's numbers and figures from its released results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_path, one_of, whole_from
from audit.cli.terminal.printing import note, print_table, say, tell
from audit.errors import command_line
from audit.tables.formatting import count, coverage, dimension_title, interval, points

if TYPE_CHECKING:
    from audit.extras.replication.replication import Replication

_RUN_DIR: Final[Option[Path | None]] = Option(
    "run_dir",
    a_path,
    None,
    "folder for the runs and the comparison; default reports/replication-<hash>",
    "OUT",
)
_NARRATIVES: Final[Option[Path | None]] = Option(
    "narratives",
    a_path,
    None,
    "the folder with the 12 narrative files, which give each row's emotion if result files have a column text_id",
    "FOLDER",
)
_BEYOND: Final = Option(
    "beyond",
    one_of("refuse", "keep"),
    "refuse",
    "refuse = stop at a rating outside the scale; keep = accept what the study's parser accepted: answers up to "
    "100 in the variant 10-scale",
)
_SEED: Final = Option("seed", whole_from(0), 0, "random seed of the permutations")
_USAGE: Final = Usage("replicate", "FOLDER", options=(_RUN_DIR, _NARRATIVES, _BEYOND, _SEED), settings=True)

_HELP: Final = """
Reads the released results of Hou, Daumé III and Rudinger (2025), in FOLDER, of one kind:
  DIMENSION_VARIANT_MODEL_PERCEIVER_EXPERIENCER.tsv, with a column intensity (-1 means no rating); a column response,
    the model's answer, separates refusals from answers without a number, and is checked against intensity
  exp_MODEL/DIMENSION_VARIANT_batch-N.tsv, the raw answers, parsed by the study's own rule
Makes a run folder with a report for each model and variant, and compares them in OUT/comparison: the published gap, its
null interval, the heatmaps and the map of perceivers, and the gap in points. No model is loaded. docs/replication.md
says what is reproduced, and what is unknown about the study.

{options}

`python -m audit report --help` lists the settings of the analysis, statistics.KEY=VALUE.
"""


def _replicate(words: Sequence[str]) -> int:
    from audit.extras.replication.replication import replicate

    given = _USAGE.read(words)
    replication = replicate(
        given.one_folder("folder of result files"),
        run_dir=given[_RUN_DIR],
        reports_dir=Path("reports"),
        narratives=given[_NARRATIVES],
        keep_beyond=given[_BEYOND] == "keep",
        seed=given[_SEED],
        statistics=given.settings(),
        command=command_line("replicate", *words),
        say=say,
    )
    _show(replication)
    return OK


def _show(replication: Replication) -> None:
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
                points(row["delta"]),
                interval(row["ci_low"], row["ci_high"]) if row["ci_low"] == row["ci_low"] else "none",
            )
        )
    print_table(lines)
    if replication.comparison is None:
        for outcome in replication.outcomes.values():
            tell(f"report: {outcome.report}")
        return
    for text in replication.comparison.remarks:
        note(text)
    tell(f"comparison: {replication.comparison.page}")


COMMAND: Final = Command(
    "replicate",
    "reproduce the published study's numbers and figures from its released result files",
    lambda: _USAGE.help(_HELP),
    _replicate,
    usages=(_USAGE,),
)
