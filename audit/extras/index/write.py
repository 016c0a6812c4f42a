"""Index a folder of runs: find them, read them, and write one page with the same content as files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pandas as pd

from audit.errors import AuditError, ConfigError, StoreError, report_command
from audit.extras.index import claims as of_claims
from audit.extras.index.answer import IndexStep, answer_in_words, next_of_runs
from audit.extras.index.comparable import Group, common_settings, groups_of, not_comparable, numbered
from audit.extras.index.find import MADE_OF_RUNS, RUN, FoundFolder, find_runs, kind_of_runs
from audit.extras.index.page import MARK, ClaimShown, GroupShown, MadeOfRuns, render_index
from audit.extras.index.published import gap_rows_of_run, whole_row
from audit.extras.index.tables import CLAIMS, INDEX
from audit.report.numbers import rows_of
from audit.runs.differences import choices_of, identity_of
from audit.runs.files import write_atomically
from audit.runs.manifest import Manifest
from audit.tables.base import Table
from audit.tables.formatting import encodable
from audit.tables.version import __version__
from stimuli.files import open_file

PAGE: Final = "index.html"
_SCHEMA: Final = 1
_NAMED: Final = 12  # most runs named in a command
_LONGEST: Final = 1000  # longest reason, in letters: it may quote a value of any length
_START: Final = 4096  # bytes at the beginning of a page that contain our mark


@dataclass(frozen=True)
class Indexed:
    """An index as written."""

    page: Path
    files: tuple[Path, ...]
    rows: pd.DataFrame
    claims: pd.DataFrame
    groups: tuple[Group, ...]
    answer: str  # in a sentence what the runs found; empty if none has an answer
    step: IndexStep


def write_index(folder: Path, *, out: Path | None = None) -> Indexed:
    """Read all runs beneath a folder, and write their index; other files lie beside the page, under its stem."""
    page = _page(folder, out)
    found = list(find_runs(folder))
    if not found:
        raise ConfigError(f"{folder} has no run; give a folder with run folders in it, at any depth")
    base = page.parent
    rows: list[dict[str, Any]] = []
    entries: list[of_claims.Entry] = []
    for each in found:
        if each.kind in ("", RUN):
            own = list(_read(each, _name(each.path, base)))
            rows += own
            entries += _entries(each.path, own)
    made = [(each, _name(each.path, base)) for each in found if each.kind in MADE_OF_RUNS]
    compared, shown = _compared(made, entries)
    groups = groups_of(rows)
    index = _table(INDEX, numbered(rows, groups))
    claims = _table(CLAIMS, list(of_claims.claim_rows(entries, compared)))
    lines = rows_of(index, "index")
    answer = answer_in_words(lines)
    step = next_of_runs(
        lines, compared=any(each.kind == "comparison" for each, _ in made), run_dir=_name(folder / "comparison", base)
    )
    content = {
        "": render_index(
            name=encodable(folder.resolve().name or str(folder)),
            rows=lines,
            groups=[
                GroupShown(
                    group.number, group.title, common_settings(group), not_comparable(group, groups), group.unrecorded,
                    [row for row in lines if row["group"] == str(group.number)],
                )
                for group in groups
            ],
            claims=list(_claims(claims, folder, base)),
            made_of_runs=shown,
            copies=_copies(entries),
            answer=answer,
            step=step,
            stem=page.stem,
        ).encode(),
        ".csv": INDEX.csv(index),
        ".claims.csv": CLAIMS.csv(claims),
        ".json": _json(index, claims, groups, shown),
    }  # fmt: skip
    written = [_write(page.with_name(f"{page.stem}{end or page.suffix}"), each) for end, each in content.items()]
    return Indexed(written[0], tuple(written[1:]), index, claims, tuple(groups), answer, step)


def _page(folder: Path, out: Path | None) -> Path:
    """Return where the page goes; refuse a place with a file that is not ours."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give a folder with run folders in it")
    kind = kind_of_runs(folder)
    if kind:
        raise ConfigError(f"{folder} is itself a {kind}; give the folder it is in")
    page = out or folder / PAGE
    if page.suffix not in (".html", ".htm") or page.is_dir():
        raise ConfigError(f"out={page}: must be the name of a page, such as out={PAGE}")
    if kind_of_runs(page.parent):
        raise ConfigError(
            f"out={page} is inside a run's folder, which must hold only the run's files; choose another place"
        )
    try:
        there = _beginning(page) if page.exists() else MARK.encode()
    except OSError as error:
        raise StoreError(f"{page} cannot be read ({error.strerror or error}); choose another page with out=") from error
    if MARK.encode() not in there:
        raise ConfigError(f"{page} exists and is not an index that this command wrote; choose another page with out=")
    return page


def _name(path: Path, base: Path) -> str:
    """Return a folder's path relative to the page, separated by /."""
    return Path(os.path.relpath(path.absolute(), base.absolute())).as_posix()


def _read(found: FoundFolder, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run; one row that says why if it cannot be read."""
    try:
        if found.fault:
            raise StoreError(f"{found.path} {found.fault}")
        rows = [whole_row(row) for row in gap_rows_of_run(found.path, name)]
    except AuditError as error:
        rows = [_not_read(found, name, str(error))]
    except (KeyError, ValueError, TypeError, ArithmeticError) as error:
        # Tables of another tool or a later version: one folder must not hide all others.
        rows = [
            _not_read(found, name, f"its tables are not as this version reads them ({type(error).__name__}: {error})")
        ]
    for row in rows:
        linked = row | {"page": _link(row["page"])}
        yield linked | {key: encodable(value) for key, value in linked.items() if isinstance(value, str)}


def _link(place: str) -> str:
    """Quote a path for a link. Undecodable bytes are kept, and a colon is not read as a scheme."""
    return quote(os.fsencode(place))


def _not_read(found: FoundFolder, name: str, why: str) -> dict[str, Any]:
    """Return the row of a folder that could not be read."""
    reason = " ".join(why.replace(str(found.path), name).split())
    return whole_row({"state": "not_read", "folder": name, "reason": reason[:_LONGEST]})


def _entries(path: Path, rows: Sequence[Mapping[str, Any]]) -> Iterator[of_claims.Entry]:
    """Yield what claims need from a run of ratings, for each prompt."""
    rated = [row for row in rows if row["state"] == "gap" and row["outcome"] == "intensity"]
    if not rated:
        return
    manifest = Manifest.read(path, check=False)
    for prompt in dict.fromkeys(str(row["prompt"]) for row in rated):
        yield of_claims.Entry(
            folder=str(rated[0]["folder"]),
            path=path,
            choices=choices_of(manifest, variant=prompt),
            parameters=manifest.model.parameters,
            length=float(manifest.scale.high - manifest.scale.low),
            identity=identity_of(manifest),
            rows={str(row["dimension"]): row for row in rated if row["prompt"] == prompt},
        )


def _copies(entries: Sequence[of_claims.Entry]) -> list[list[str]]:
    """Return the folders of runs that have the same answers; several prompts of a run name them once."""
    alike = [[encodable(each.folder) for each in own] for own in of_claims.with_same_answers(entries) if len(own) > 1]
    return [list(each) for each in dict.fromkeys(map(tuple, alike))]


def _compared(
    made: Sequence[tuple[FoundFolder, str]], entries: Sequence[of_claims.Entry]
) -> tuple[list[of_claims.ComparisonClaims], list[MadeOfRuns]]:
    """Read folders made from several runs: differences of comparisons, and what the page shows of each."""
    differences, shown = [], []
    for found, name in made:
        compared, note = None, ""
        if found.kind == "comparison":
            compared, note = of_claims.read_comparison(found.path, name, entries)
        if compared is not None:
            differences.append(compared)
        page = MADE_OF_RUNS[found.kind]
        there = _link(f"{name}/{page}") if page and (found.path / page).is_file() else ""
        shown.append(MadeOfRuns(encodable(name), found.kind, there, _n_runs(found), encodable(note)))
    return differences, shown


def _n_runs(found: FoundFolder) -> int:
    runs = Manifest.content_of(found.path).get("runs")
    return len(runs) if isinstance(runs, Sequence) and not isinstance(runs, str) else 0


def _claims(claims: pd.DataFrame, folder: Path, base: Path) -> Iterator[ClaimShown]:
    for claim in of_claims.CLAIMS:
        own = claims.loc[claims["claim"] == claim.name]
        lacking = own.loc[own["comparison"] == ""]
        names = list(dict.fromkeys([*lacking["second"], *lacking["first"]]))
        yield ClaimShown(
            claim.words, claim.caution, claim.lacking, rows_of(own, "claims"), _command(names[:_NAMED], folder, base)
        )


def _command(names: Sequence[str], folder: Path, base: Path) -> str:
    """Return the command that compares runs, given in the page's folder; empty without runs."""
    if not names:
        return ""
    run_dir = _name(folder / "comparison-of-claims", base)
    return encodable(report_command(*names, run_dir=run_dir))


def _table(described: Table, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a table with nullable whole numbers."""
    table = pd.DataFrame([dict(row) for row in rows], columns=list(described))
    for name, column in described.items():
        if column.type.plain == "text":
            table[name] = table[name].astype(object)
        elif column.type.plain == "number":
            table[name] = table[name].astype(float)
        elif column.type.plain == "whole number":
            table[name] = table[name].astype(float).astype("Int64")
    return table


def _json(index: pd.DataFrame, claims: pd.DataFrame, groups: Sequence[Group], made: Sequence[MadeOfRuns]) -> bytes:
    content = {
        "schema_version": _SCHEMA,
        "made_by": f"empathy-audit {__version__}",
        "rows": _plain(index),
        "groups": [
            {
                "group": str(group.number), "about": group.title, "in_common": dict(common_settings(group)),
                "unrecorded": list(group.unrecorded), "not_comparable": not_comparable(group, groups),
            }
            for group in groups
        ],
        "claims": _plain(claims),
        "made_of_runs": [
            {"folder": each.folder, "kind": each.kind, "page": each.page, "n_runs": each.n_runs,
             "note": each.note} for each in made
        ],
        "columns": {
            table.name: {
                name: {"meaning": column.meaning, "type": column.type.plain, "unit": column.unit}
                for name, column in table.items()
            }
            for table in (INDEX, CLAIMS)
        },
    }  # fmt: skip
    return f"{json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)}\n".encode("utf-8", "replace")


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows for JSON, with null for missing values."""
    return [{str(name): _value(value) for name, value in row.items()} for row in table.to_dict("records")]


def _value(value: Any) -> Any:
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return encodable(value) if isinstance(value, str) else value


def _write(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except (OSError, StoreError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        why = getattr(cause, "strerror", None) or cause
        raise StoreError(f"{path} cannot be written ({why}); choose another page with out=FOLDER/{PAGE}") from error
    return path


def _beginning(page: Path) -> bytes:
    with open_file(page) as stream:
        return stream.read(_START)
