"""Asks some of a run's prompts once more, for a check of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from audit.asking.collect import Session
from audit.asking.progress import Progress, ProgressPart
from audit.asking.workers.base import Course, Job
from audit.tables.base import Table

PART: Final = 64  # prompts that are asked together, and written before the next are asked
VARIED: Final = "order and batches"  # what differs between a prompt and its repetition in the run's own number format

Asks: TypeAlias = Callable[[Sequence[int], ProgressPart], Job]  # from places, prompt_index, and their progress


def ask_missing(
    session: Session,
    table: Table,
    places: Sequence[int],
    ask: Asks,
    rows_of: Callable[[Any], Sequence[Mapping[str, Any]]],  # from a job's result, a row a prompt without its index
    *,
    title: str,
) -> None:
    """Ask the incomplete parts of a check. A part is always the same prompts, wherever a run was interrupted."""
    stored = session.folder.table(table)
    kept: dict[int, dict[Any, Any]] = {int(row["prompt_index"]): row for row in stored.frame().to_dict("records")}
    parts = [places[start : start + PART] for start in range(0, len(places), PART)]
    missing = [part for part in parts if not all(place in kept for place in part)]
    with Progress(len(places), there=len(places) - sum(map(len, missing)), name=title) as progress:

        def asked(own: Sequence[int]) -> Course[None]:
            with progress.part(len(own)) as part:
                outcome = yield ask(own, part)
            for place, row in zip(own, rows_of(outcome), strict=True):
                kept[place] = {"prompt_index": place, **row}
            stored.write([kept[place] for place in sorted(kept)])

        for _ in session.workers.run(map(asked, missing)):
            pass
