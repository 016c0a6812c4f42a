"""``gate``: holds a run against a margin, for a release pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import Command
from audit.cli.terminal.options import Option, Usage, a_number, a_path, a_text, true_or_false
from audit.cli.terminal.printing import note, print_table, tell
from audit.errors import report_command


def _names(name: str, text: str) -> Sequence[str]:
    inside = text.strip().removeprefix("[").removesuffix("]")
    return tuple(part.strip() for part in inside.split(",") if part.strip())


_MARGIN: Final[Option[float | None]] = Option(
    "margin", a_number, None, "the margin: the largest gap that is too small to matter, in points of the scale", "2"
)
_REFUSALS: Final[Option[float]] = Option(
    "refusal_margin", a_number, 5.0, "the margin for refusals, in percentage points of prompts", "5"
)
_BASELINE: Final[Option[Path | None]] = Option(
    "baseline",
    a_path,
    None,
    "a run of the same prompts to compare with: no gap may be worse than its gap by more than the margin",
    "RUN0",
)
_AVERAGE: Final[Option[bool]] = Option(
    "strict_average", true_or_false, False, "test only the average gap of each dimension, and not who gets less"
)
_DIMENSIONS: Final[Option[Sequence[str]]] = Option("dimensions", _names, (), "test only these dimensions", "[religion]")
_MEASURE: Final[Option[str]] = Option(
    "measure", a_text, "", "of a run of replies: the measure to test; the margin is in its unit", "NAME"
)
_OUT: Final[Option[Path | None]] = Option("out", a_path, None, "folder for the files; default RUN/gate", "FOLDER")
_FOLDER: Final = "gate"
_USAGE: Final = Usage(
    "gate", "RUN", needed=(_MARGIN,), options=(_REFUSALS, _BASELINE, _AVERAGE, _DIMENSIONS, _MEASURE, _OUT)
)

_HELP: Final = """
Tests whether all gaps of a run of ratings, or of one measure of replies, are smaller than a margin. Two questions are
asked. Whose side does the model take (δ)? The average gap, the gap of each emotion and group, and the refusal gap. Who
gets less (D)? How far each group is rated below or above the others, whoever perceives. No model is loaded. The last
line is the verdict; details are in verdict.json, junit.xml and summary.md.

exit codes:
  0  passed: every gap is shown to be within the margin
  1  failed: at least one gap is shown to be beyond it (corrected for their number)
  2  the command or the run has a fault
  3  undecided: the last line says why, and how many narratives would decide

{options}

A gap does not fail a model if invented groups show it too, or if there was no control for repeated words. A group does
not fail it if the group's words alone, or another group, may be the reason why it is lower or higher.
docs/gate.md has the rules, the files and a workflow.
"""


def _places(words: Sequence[str]) -> Iterator[Path]:
    """Yield where this command's verdict will go, even if its words are wrong."""
    out = [text for name, _, text in (word.partition("=") for word in words) if name == _OUT.name and text]
    yield from map(Path, out or [os.path.join(word, _FOLDER) for word in words if os.path.isdir(word)])


def _gate(words: Sequence[str]) -> int:
    from audit.extras.gate.files import gap_table_rows, withdraw_verdict, write_verdict
    from audit.extras.gate.judge import gate_run, sentence, undecided_reasons
    from audit.tables.version import __version__

    # A pipeline must not read the files of an earlier run if this one reaches no verdict.
    for place in _places(words):
        withdraw_verdict(place)
    given = _USAGE.read(words)
    path = given.one_folder()
    gated = gate_run(
        path,
        margin=given.need(_MARGIN, to="set the margin: the largest gap that is too small to matter"),
        refusal_margin=given[_REFUSALS],
        baseline=given[_BASELINE],
        strict_average=given[_AVERAGE],
        dimensions=given[_DIMENSIONS],
        measure=given[_MEASURE],
    )
    written = write_verdict(gated, given[_OUT] or path / _FOLDER, version=__version__)
    for said in gated.notes:
        note(said)
    if gated.manifest.statistics.margin != gated.margin and not gated.measure:
        note(f"to show this margin in the run's report: {report_command(path)} statistics.margin={gated.margin:g}")
    print_table(list(gap_table_rows(gated)))
    for number, why in enumerate(undecided_reasons(gated), start=1):
        tell(f"({number}) {why}")
    for place in written:
        tell(f"written: {place}")
    tell(sentence(gated))
    return gated.code


COMMAND: Final = Command(
    "gate",
    "test whether a run's gaps, and who gets less, are smaller than a margin, or no worse than a baseline's: exit code "
    "0 passed, 1 failed, 3 undecided",
    lambda: _USAGE.help(_HELP),
    _gate,
    usages=(_USAGE,),
)
