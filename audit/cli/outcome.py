"""The outcome of a run as commands print it: remarks, the main table, and where the report is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.cli.terminal.printing import note, print_table, tell
from audit.tables.formatting import dimension_title

if TYPE_CHECKING:
    from audit.tasks.base import Published


def show_outcome(outcome: Published) -> None:
    """Print what was found in a run, and the path of its report."""
    about: dict[str, list[str]] = {}
    for remark in outcome.remarks:
        about.setdefault(remark.text, []).extend([dimension_title(remark.dimension)] if remark.dimension else [])
    for text, dimensions in about.items():
        note(f"{', '.join(dict.fromkeys(dimensions))}{': ' if dimensions else ''}{text}")
    if outcome.lines:
        print_table(outcome.lines)
    for line in outcome.controls:
        tell(line)
    tell(f"report: {outcome.report}")
