"""Verify that a run folder holds what was collected and computed. Nothing is asked and nothing is written."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from audit.asking.collect import cell_columns
from audit.asking.progress import Say
from audit.errors import AuditError, recovery, report_command
from audit.runs import ledger
from audit.runs.manifest import FILE as MANIFEST
from audit.runs.manifest import DamagedError, Manifest
from audit.runs.prompts import PromptsAsked
from audit.runs.provenance import computed_by
from audit.runs.store import RunFolder
from audit.tables.formatting import plural
from audit.tasks.publishing import PAGE
from audit.tasks.registry import task_of
from stimuli.errors import StimulusError
from stimuli.files import read_file

TOLERANCE: Final = 1e-6  # largest difference of a recomputed number, as a share of it, or absolute below 1
DIGEST: Final = "digest"  # stands for a file's name in a finding about the run's digest
_ROWS: Final = 100_000  # rows compared with the prompts at a time


@dataclass(frozen=True)
class Finding:
    """What is wrong with a file of a run.

    Attributes
    ----------
    name
        Path of the file in the run folder.
    what
        What is wrong with it.
    remedy
        What to do; empty if the file's other finding says it.
    """

    name: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.what}{f'; {self.remedy}' if self.remedy else ''}"


class _Made(RunFolder):
    """A run folder that keeps the files of an analysis in memory."""

    files: Mapping[str, bytes] = {}

    def publish(self, manifest: Manifest, files: Mapping[str, bytes]) -> None:
        self.files = files


def verify_run(path: Path, *, say: Say, expect: str = "") -> list[Finding]:
    """Check that a run holds what was collected, and that its tables and page follow from that; empty if so."""
    again = report_command(path)
    try:
        manifest = Manifest.read(path, check=False)
    except DamagedError as error:
        gone = not (path / MANIFEST).exists()
        what = "is gone" if gone else str(error).removeprefix(f"{path / MANIFEST} ").partition("; python -m audit")[0]
        does = "restores it from its copy, or saves what was collected"
        return [Finding(MANIFEST, what, recovery(path, does))]
    found = list(_stored(path, manifest, say))
    lost = [each.name for each in found if not ledger.is_made(each.name)]
    folder = _Made(path)
    try:
        if set(lost) <= {ledger.FILE}:  # without a ledger, only the digest can tell
            found += _digest(folder, manifest, expect, say)
        if lost:
            say("not checked, because stored files have changed: labels, values, tables, page")
            return found
        answers = _answers(folder, manifest, say)
        found += _labels(path, manifest, answers, say)
        if manifest.generation:
            found += _generation(path, manifest, folder, again, say)
            found += _recomputed(folder, manifest, again, say)
        elif (path / PAGE).exists():
            say(f"not checked: tables and page, which an earlier version made; `{again}` makes them again")
        else:
            say(f"not checked: tables and page, which are missing; `{again}` makes them")
    except (AuditError, StimulusError) as error:
        found.append(Finding(manifest.task.kind, f"cannot be analysed: {error}"))
    return found


def accept_run(path: Path) -> ledger.LedgerDifferences:
    """Accept a run's changed files as they are and return them; tables and pages are made anew instead."""
    manifest = Manifest.read(path, check=False)
    with RunFolder(path) as folder:
        faults = ledger.faults_of(path, needed=bool(manifest.ledger))
        if faults:
            folder.accept(faults)
    return faults


def _stored(path: Path, manifest: Manifest, say: Say) -> Iterator[Finding]:
    """Yield files that differ from the ledger."""
    faults = ledger.faults_of(path, made=True, needed=bool(manifest.ledger))
    story = ledger.story_of(path)
    undrawn = [name for name in faults.gone if name.startswith("figures/")]
    for name, what in faults.lines():
        if name not in undrawn:
            yield Finding(name, what, ledger.remedy_for(path, name, what))
    if undrawn:
        say(f"not checked: {plural(len(undrawn), 'figure')} that are missing (`report` draws them again)")
    if story is None:
        if not faults:
            yield Finding(
                ledger.FILE,
                "is missing, as in runs of an earlier version: whether files have changed is unknown",
                f"`{report_command(path)}` starts one from the files as they are then",
            )
        return
    if not faults.ledger:
        n_wrong = len(faults.changed) + len(faults.gone)
        say(
            f"stored: {plural(len(story.files) - n_wrong, 'file')} of {len(story.files):,} as written, by {ledger.FILE}"
            f" ({plural(story.n_lines, 'line')})"
        )
    if story.taken_over:
        say(
            f"unknown: what happened to {plural(len(story.taken_over), 'file')} before an earlier "
            "version's run got a ledger"
        )
    if anew := dict.fromkeys(story.anew):
        say(
            f"asked more than once, with different answers: {', '.join(anew)}; only the last answers are kept, "
            "and the ledger does not say why the others were replaced"
        )
    if accepted := manifest.accepting(story.accepted).accepted:
        say(f"accepted although changed: {', '.join(accepted)}; the report says so")


def _answers(folder: RunFolder, manifest: Manifest, say: Say) -> pd.DataFrame:
    """Return the answers; StoreError unless each prompt has one, within the scale."""
    task = task_of(manifest)
    running = manifest.status == "running"
    if task.stores == "ratings":
        answers = folder.ratings_of(manifest, unfinished=running)
        within = (
            f", within {manifest.scale.low:g} to {manifest.scale.high:g}"
            if manifest.elicitation.keeps_scale
            else "; its parser keeps values beyond the scale"
        )
    else:
        answers, within = folder.read(task.stores, n_prompts=manifest.n_prompts, unfinished=running), ""
    n = answers["prompt_index"].nunique()
    of = f"{plural(manifest.n_prompts, 'prompt')}, one each{within}" if n == manifest.n_prompts else (
        f"{n:,} of {plural(manifest.n_prompts, 'prompt')}: the run is not finished{within}"
    )  # fmt: skip
    say(f"{task.stores}: of {of}")
    return answers


def _labels(path: Path, manifest: Manifest, answers: pd.DataFrame, say: Say) -> Iterator[Finding]:
    """Yield columns that disagree with the prompts."""
    asked = PromptsAsked.read(path)
    if asked is None:
        say(
            "not checked: whom the answers are about, because the folder has no prompts.json.gz (an earlier "
            "version or another tool asked, or it is a questionnaire run)"
        )
        return
    if len(asked.grid) != manifest.n_prompts:
        yield Finding("prompts.json.gz", f"has {len(asked.grid):,} prompts, and the manifest {manifest.n_prompts:,}")
        return
    wrong: dict[str, int] = {}
    for begin in range(0, len(answers), _ROWS):
        rows = answers.iloc[begin : begin + _ROWS]
        cells = [asked.grid[place] for place in rows["prompt_index"]]
        for name, should in cell_columns(cells, asked.grid.variant.name).items():
            differs = _differ(rows[name], pd.Series(should, index=rows.index, dtype=object))
            if differs.any() and name not in wrong:
                wrong[name] = int(rows["prompt_index"].to_numpy()[differs][0])
    for name, prompt in wrong.items():
        kind = task_of(manifest).stores
        yield Finding(f"{kind}.parquet", f"has another {name} for prompt {prompt} than was asked (prompts.json.gz)")
    if not wrong:
        say("labels: every answer is about the identities and narrative in prompts.json.gz")


def _differ(there: pd.Series, should: pd.Series) -> np.ndarray:
    own, other = there.astype(object), should.astype(object)
    equal = (own == other) | (own.isna() & other.isna())
    return ~equal.fillna(False).to_numpy(dtype=bool)


def _digest(folder: RunFolder, manifest: Manifest, expect: str, say: Say) -> Iterator[Finding]:
    """Report the digest; yield it if another one is expected."""
    now = folder.digest(manifest)
    say(f"digest: {now}{', as expected' if now == expect else ''}")
    if expect and now != expect:
        yield Finding(
            DIGEST,
            f"is {now}, not the expected {expect}: this is not the run with that digest",
            "ask whoever gave you the digest for their copy of the run",
        )


def _generation(path: Path, manifest: Manifest, folder: RunFolder, again: str, say: Say) -> Iterator[Finding]:
    """Yield tables or a page whose analysis or answers are not those of the manifest."""
    remedy = f"`{again}` makes tables and page again"
    now = folder.generation_of(manifest, manifest.analysed_by)
    if now != manifest.generation or (manifest.digest and folder.digest(manifest) != manifest.digest):
        yield Finding(
            "manifest.json", "comes from an analysis of other answers or settings than are stored now", remedy
        )
    tables = path / ledger.GENERATION
    of = read_file(tables).decode("utf-8", "replace").strip() if tables.exists() else "none"
    if of != manifest.generation:
        yield Finding(
            ledger.GENERATION,
            f"says {of!r}, and the manifest {manifest.generation}: they come from two analyses",
            remedy,
        )
    page = path / PAGE
    shown = page.exists() and manifest.generation in read_file(page).decode("utf-8", "replace")
    if not shown:
        yield Finding(PAGE, f"does not come from the manifest's analysis, {manifest.generation}", remedy)
    if shown and now == of == manifest.generation:
        say(f"generation: manifest, tables and page belong to one analysis, {manifest.generation}")


def _recomputed(folder: _Made, manifest: Manifest, again: str, say: Say) -> Iterator[Finding]:
    """Yield tables that differ from a new analysis of the same answers."""
    task_of(manifest).publish(folder, manifest.adding("config", statistics=manifest.statistics.model_dump(mode="json")))
    by = computed_by()
    other = {name: version for name, version in manifest.analysed_by.items() if by.get(name) != version}
    made = {name: content for name, content in folder.files.items() if name.endswith(".csv")}
    n_equal = 0
    for name, content in made.items():
        place = folder.path / name
        kept = read_file(place) if place.exists() else b""
        difference = "" if kept == content else first_table_difference(kept, content)
        if difference:
            why = f" (made by {', '.join(f'{n} {v}, now {by.get(n)}' for n, v in other.items())})" if other else ""
            yield Finding(name, f"differs from what the answers give: {difference}{why}", f"`{again}` makes it again")
        n_equal += not difference
    known = {f"tables/{name}.csv" for name in task_of(manifest).described}
    for name in tables_with_rows(folder.path):
        if name in known and name not in made:
            yield Finding(name, "has rows, but the answers give none", f"`{again}` makes tables and page again")
    say(f"statistics: {n_equal} of {plural(len(made), 'table')} computed again: equal")
    yield from _drawn_again(folder, by_others=bool(other), again=again, say=say)


def _drawn_again(folder: _Made, *, by_others: bool, again: str, say: Say) -> Iterator[Finding]:
    """Yield a page or figures that differ when drawn again, unless the ledger vouches for them."""
    story = ledger.story_of(folder.path)
    vouched = {} if story is None else story.files
    n_same, otherwise, there = 0, [], []
    for name, content in folder.files.items():
        if name.startswith("tables/") or not (folder.path / name).exists():
            continue
        there.append(name)
        if (kept := read_file(folder.path / name)) == content:
            n_same += 1
        elif name in vouched and hashlib.sha256(kept).hexdigest() != vouched[name]:
            continue  # told before: it has changed since it was stored
        elif name in vouched or by_others:
            otherwise.append(name)
        else:
            yield Finding(name, "differs from what the answers give, and is in no ledger", f"`{again}` makes it again")
    if otherwise:
        say(
            f"not compared: {', '.join(otherwise)}, drawn differently by another version"
            + ("" if by_others else ", or changed together with the ledger")
        )
    if there:
        say(f"page and figures: {n_same} of {plural(len(there), 'file')} made again: identical to the byte")


def tables_with_rows(path: Path) -> list[str]:
    """Return the names of a folder's tables that have a row; earlier versions wrote tables without any."""
    tables = sorted((path / "tables").glob("*.csv"))
    return [f"tables/{table.name}" for table in tables if read_file(table).strip().count(b"\n")]


def first_table_difference(kept: bytes, made: bytes) -> str:
    """Say where two CSV tables differ, ``kept`` from ``made``; empty if they agree up to rounding."""
    try:
        tables = [pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False) for content in (kept, made)]
    except (ValueError, UnicodeDecodeError):
        return "it cannot be read as a table"
    one, other = tables
    if list(one.columns) != list(other.columns):
        return f"its columns are {', '.join(one.columns) or 'none'}"
    if len(one) != len(other):
        return f"it has {plural(len(one), 'row')} instead of {len(other):,}"
    for column in one.columns:
        for row in np.flatnonzero((one[column] != other[column]).to_numpy()):
            before, after = one[column].iloc[row], other[column].iloc[row]
            if not _same_number(before, after):
                return f"{column} in row {row + 1} is {before!r} instead of {after!r}"
    return ""


def _same_number(before: str, after: str) -> bool:
    try:
        return math.isclose(float(before), float(after), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except ValueError:
        return False
