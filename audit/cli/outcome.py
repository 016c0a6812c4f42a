"""Prints the outcome of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.cli.terminal.printing import tell

if TYPE_CHECKING:
    from audit.comparing.comparison import Comparison
    from audit.tasks.base import Published


def show_outcome(outcome: Published) -> None:
    """Print what was found in a run, what to do next, and where its report is."""
    from audit.tasks.outcome import outcome_lines

    for line in outcome_lines(outcome):
        tell(line)


def show_comparison(comparison: Comparison) -> None:
    """Print what a comparison of runs found, what to do next, and where its page is."""
    from audit.tasks.outcome import compared_lines

    for line in compared_lines(comparison.summary, comparison.page, n_notes=len(comparison.remarks)):
        tell(line)
