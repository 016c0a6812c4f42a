"""Verify a folder made from several runs: a comparison, judged pairs, or choices."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from audit.asking.progress import Say
from audit.comparing.comparison import compare_folders
from audit.errors import AuditError
from audit.extras.integrity.verification import Finding, first_table_difference, tables_with_rows
from audit.runs import ledger
from audit.runs.manifest import ChoicesManifest, ComparisonManifest, JudgementManifest, OfRuns
from audit.tables.formatting import plural
from stimuli.errors import StimulusError

_KINDS: Final[tuple[type[OfRuns], ...]] = (ComparisonManifest, JudgementManifest, ChoicesManifest)
_NOT_COMPUTED: Final = {
    "judgement": (
        "not checked: whether its tables match the judge's answers; run the same `judge` command to make them again"
    ),
    "choices": (
        "not checked: whether its tables match what raters sent; run `people import` with their files to make them "
        "again"
    ),
}


def verify_of_runs(path: Path, *, say: Say) -> list[Finding] | None:
    """Check a folder made from several runs, by its ledger or by making it again; None if it is none."""
    manifest = _manifest(path)
    if manifest is None:
        return None
    if isinstance(manifest, ComparisonManifest):
        return list(_made_again(path, manifest, say))
    faults = ledger.faults_of(path, made=True, needed=bool(manifest.content.get("ledger")))
    found = [Finding(name, what, ledger.remedy_for(path, name, what)) for name, what in faults.lines()]
    story = ledger.story_of(path)
    if story is None and not found:
        unknown = "is missing, as in folders of an earlier version: whether files have changed is unknown"
        found.append(Finding(ledger.FILE, unknown, "run its command again to start one"))
    elif story is not None and not found:
        say(f"stored: {plural(len(story.files), 'file')} as written, by {ledger.FILE}")
    say(_NOT_COMPUTED[manifest.kind_written])
    return found


def is_of_runs(path: Path) -> bool:
    """Tell whether a folder was made from several runs; StoreError if its manifest is damaged."""
    return _manifest(path) is not None


def _manifest(path: Path) -> OfRuns | None:
    return next((there for kind in _KINDS if (there := kind.read_if_there(path)) is not None), None)


def _made_again(path: Path, manifest: ComparisonManifest, say: Say) -> Iterator[Finding]:
    """Yield files of a comparison that differ from what its runs give."""
    say("a comparison has no ledger, so all of it is made again from its runs")
    again = f"`{manifest.command}` makes it again" if manifest.command else "make it again from its runs"
    runs: Sequence[Mapping[str, Any]] = manifest.content.get("runs") or ()  # checked to be names with values
    folders = [Path(folder) for folder in dict.fromkeys(str(run.get("folder", "")) for run in runs)]
    absent = [str(folder) for folder in folders if not folder.is_dir()]
    if absent or not folders:
        names = ", ".join(absent) or "none"
        what = f"names runs that are missing ({names}): whether it matches them is unknown"
        yield Finding("manifest.json", what, "verify it from the folder in which its command was run")
        return
    settings = manifest.content.get("settings")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            made = compare_folders(
                folders,
                out=Path(scratch) / "comparison",
                reports_dir=Path(scratch),
                settings=settings if isinstance(settings, Mapping) else {},
                series=manifest.content.get("series"),
                command=manifest.command,
                left_out=[str(each) for each in manifest.content.get("left_out") or ()],
                say=lambda line: None,
            ).path
        except (AuditError, StimulusError) as error:
            yield Finding("manifest.json", f"names runs that cannot be compared now: {error}")
            return
        now = ComparisonManifest.read_if_there(made)
        assert now is not None
        if other := _other_runs(runs, now.content["runs"]):
            yield Finding("manifest.json", f"has other answers than {other} has now", again)
        else:
            say(f"runs: {len(folders)} of {len(folders)} have the answers that were compared, as their ledgers say")
        yield from _other_files(path, made, same_versions=manifest.versions == now.versions, again=again, say=say)


def _other_runs(told: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    """Name a run whose answers have changed since the comparison; empty if none has."""
    for before, after in zip(told, now, strict=False):
        if before != after:
            return str(after["run"])
    return "" if len(told) == len(now) else "one of its runs"


def _other_files(path: Path, made: Path, *, same_versions: bool, again: str, say: Say) -> Iterator[Finding]:
    names = sorted(file.relative_to(made).as_posix() for file in made.rglob("*") if file.is_file())
    tables = [name for name in names if name.endswith(".csv")]
    n_equal = 0
    for name in tables:
        kept = (path / name).read_bytes() if (path / name).is_file() else b""
        difference = first_table_difference(kept, (made / name).read_bytes())
        if difference:
            yield Finding(name, f"differs from what the runs give: {difference}", again)
        n_equal += not difference
    for name in tables_with_rows(path):
        if name not in tables:
            yield Finding(name, "is not of this comparison", "move it out of the folder")
    say(f"statistics: {n_equal} of {plural(len(tables), 'table')} computed again: equal")
    drawn = [name for name in names if not name.endswith((".csv", ".json", ".lock")) and (path / name).is_file()]
    other = [name for name in drawn if (path / name).read_bytes() != (made / name).read_bytes()]
    if other and same_versions:
        yield from (Finding(name, "differs from what the runs give", again) for name in other)
    elif other:
        say(f"not compared: {', '.join(other)}, which other versions drew")
    if drawn:
        say(f"page and figures: {len(drawn) - len(other)} of {plural(len(drawn), 'file')} made again: identical")
    if "comparison.html" not in drawn:
        yield Finding("comparison.html", "is gone", again)
