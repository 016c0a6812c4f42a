"""Recover a damaged run folder. Nothing is ever deleted.

A lost or damaged manifest is restored from its copy. Parts that cannot be read, or are not what the run asked, move to
``set-aside/``, so that the run's own command collects them anew. The intact parts of a damaged consolidated file become
single parts again. If no manifest can be restored, :mod:`audit.extras.integrity.rescued` saves the answers as tables.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from audit.asking.run_identity import kept_difference
from audit.errors import StoreError
from audit.extras.integrity.rescued import rescue
from audit.runs import ledger
from audit.runs.files import sha256_of
from audit.runs.manifest import COPY, DamagedError, Manifest
from audit.runs.manifest import FILE as MANIFEST
from audit.runs.parts import Parts
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import PromptsAsked
from audit.runs.store import KINDS, Kind, RunFolder
from audit.tables.formatting import plural
from audit.tables.ratings import (
    ASKED_AGAIN,
    ASKED_IN_FORMATS,
    ELICITATION_SAMPLE,
    END_SHARES,
    MANIPULATED,
    TRIAL_ANSWERS,
    Status,
)
from audit.tables.replies import OWN_GAP_RATINGS, RATIONALES, SCORES
from audit.tables.stages import GIVEN, STAGES
from audit.tasks.registry import TASKS
from stimuli.strategies import THOUGHT

ASIDE: Final = "set-aside"  # subfolder of a run for files that were moved out of the way
_LABELS: Final = ("dimension", "narrative_id", "emotion", "perceiver", "experiencer")
"""Columns that distinguish a run's rows from those of another run's grid."""
_IN_ONE_FILE: Final = (
    GIVEN, TRIAL_ANSWERS, END_SHARES, MANIPULATED, ELICITATION_SAMPLE, ASKED_AGAIN, *ASKED_IN_FORMATS.values()
)  # fmt: skip
_NOT_NOW: Final = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EISDIR, errno.ESTALE)
"""Errors that do not mean damage: the file may be intact although it cannot be read."""
Wrong = Callable[[str, pa.Table], str]  # check of a part: name and rows → what is wrong, or an empty string


@dataclass
class Recovery:
    """What was done to a folder, and what to do next, one line each; a command has a line to itself."""

    done: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)


class _Held(RunFolder):
    """A run folder in any state."""

    confirms = False  # files that differ from the ledger are what we look for

    def _check(self) -> None:
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is not a folder; give a run folder")
        names = {MANIFEST, COPY, PROMPTS, "stages", "stages.parquet", *KINDS, *(f"{kind}.parquet" for kind in KINDS)}
        if not any((self.path / name).exists() for name in names):
            raise StoreError(f"{self.path} has no files of a run; give a run folder")


def recover(path: Path) -> Recovery:
    """Bring a run folder into a state from which its own command, or ``report``, can go on."""
    made = Recovery()
    held = _Held(path)
    held.check()
    with held as folder:
        faults = _faults(path)
        if faults.ledger:  # nothing can be written without one, and what the files were is unknown
            folder.accept(faults)
            made.done.append(f"started again: {ledger.FILE}, which {faults.ledger} (the report says so)")
            faults = _faults(path)
        asked = _asked(folder, made)
        manifest = _manifest(folder, asked, faults, made)
        if manifest is None:
            rescue(folder, asked, faults, made.done, made.next)
            return made
        _Mender(folder, manifest, asked, faults, made).mend()
        left = _faults(path)
        kept = replace(left, gone=tuple(name for name in left.gone if not ledger.asked_anew(name)))
        if kept:
            folder.accept(kept)
            made.done += [f"kept as it is: {name}, which {what} (the report says so)" for name, what in kept.lines()]
    return made


def _faults(path: Path) -> ledger.LedgerDifferences:
    return ledger.faults_of(path, needed=bool(Manifest.content_of(path).get("ledger")))


def _asked(folder: RunFolder, made: Recovery) -> PromptsAsked | None:
    """Return the prompts that the folder keeps; set the file aside if it cannot be read."""
    try:
        return PromptsAsked.read(folder.path)
    except StoreError as error:
        set_aside(folder, PROMPTS, _reason(error), made)
        return None


def _manifest(
    folder: RunFolder, asked: PromptsAsked | None, faults: ledger.LedgerDifferences, made: Recovery
) -> Manifest | None:
    """Return the run's manifest, restored from its copy if needed; None if both are unusable."""
    found: dict[str, Manifest] = {}
    fault = {}
    for name in (MANIFEST, COPY):
        try:
            manifest = Manifest.read(folder.path, file=name, check=False)
        except DamagedError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NOT_NOW:
                raise
            fault[name] = "it is gone" if not (folder.path / name).exists() else _why(error, folder.path / name)
        except StoreError:
            if name == MANIFEST:  # a comparison's, or of a later version: its error says what to do
                raise
            fault[name] = "it is gone"
        else:
            as_stored = ledger.story_of(folder.path)
            if misfit := _misfit(manifest, asked):
                fault[name] = misfit
            elif (
                name == MANIFEST in faults.changed
                and as_stored is not None
                and sha256_of(folder.path / COPY) == as_stored.files[MANIFEST]
            ):
                fault[name] = "it is not what was stored"
            found[name] = manifest
    right = next((name for name in (MANIFEST, COPY) if name in found and name not in fault), None)
    if used := right or next((name for name in (MANIFEST, COPY) if name in found), None):
        _tell_if_changed(folder, used, made)
    if right == MANIFEST:
        if COPY in fault:
            if (folder.path / COPY).exists():
                set_aside(folder, COPY, fault[COPY], made)
            folder.write_manifest(found[MANIFEST])
            made.done.append(f"written again: {COPY}, from {MANIFEST}")
        return found[MANIFEST]
    if right == COPY:
        if (folder.path / MANIFEST).exists():
            set_aside(folder, MANIFEST, fault[MANIFEST], made)
        folder.write_manifest(found[COPY])
        made.done.append(f"restored: {MANIFEST}, from its copy")
        return found[COPY]
    if MANIFEST in found:  # the prompts are another run's, so the manifest is all there is
        set_aside(folder, PROMPTS, fault[MANIFEST], made)
        return found[MANIFEST]
    for name in (MANIFEST, COPY):
        made.done.append(f"{name}: {fault[name]}")
    return None


def _tell_if_changed(folder: RunFolder, name: str, made: Recovery) -> None:
    """Record in the ledger that a manifest, or the copy that replaces it, was changed after it was stored."""
    story = ledger.story_of(folder.path)
    known = set() if story is None else {story.was[each] for each in (MANIFEST, COPY) if each in story.was}
    if not known or sha256_of(folder.path / name) in known:
        return
    if name == MANIFEST:
        folder.accept(ledger.LedgerDifferences(changed=(MANIFEST,)))
    else:
        folder.mark_accepted((MANIFEST,))
    made.done.append(f"kept as it is: {name}, which {ledger.CHANGED} (the report says so)")


def _misfit(manifest: Manifest, asked: PromptsAsked | None) -> str:
    """Say how a manifest disagrees with the prompts beside it; empty if it does not."""
    if asked is None:
        return ""
    if manifest.n_prompts != len(asked.grid):
        return f"it says {manifest.n_prompts:,} prompts, and {PROMPTS} holds {len(asked.grid):,}"
    different = kept_difference(manifest.identity.content, asked)
    return f"it is not of the prompts in {PROMPTS} ({different.setting})" if different else ""


def _why(error: StoreError, path: Path) -> str:
    """Return what an error says is wrong, without the path and the remedy."""
    return "it " + str(error).partition("; python -m audit recover")[0].removeprefix(f"{path} ")


def set_aside(folder: RunFolder, name: str, why: str, made: Recovery) -> None:
    """Move a file of a run folder to ``set-aside/``, under a new name if that one is taken."""
    target = folder.path / ASIDE / name
    number = 2
    while target.exists():
        target = (folder.path / ASIDE / name).with_name(f"{Path(name).name}.{number}")
        number += 1
    folder.set_aside(name, target)
    made.done.append(f"set aside: {name} -> {target.relative_to(folder.path)} ({why})")


class _Mender:
    """Moves damaged, duplicate and foreign parts out of a run whose manifest can be read."""

    def __init__(
        self,
        folder: RunFolder,
        manifest: Manifest,
        asked: PromptsAsked | None,
        faults: ledger.LedgerDifferences,
        made: Recovery,
    ) -> None:
        self._folder, self._manifest, self._made = folder, manifest, made
        self._not_ours = dict.fromkeys(faults.changed, "it has changed since it was stored (its SHA-256 differs)")
        self._not_ours |= dict.fromkeys(faults.foreign, "it was not stored by this run")
        story = ledger.story_of(folder.path)
        self._was = {} if story is None else story.was
        fits = asked is not None and not _misfit(manifest, asked)
        self._grid = asked.grid if asked is not None and fits else None
        n, size = manifest.n_prompts, manifest.shard_size
        self._n_shards = -(-n // size)
        thinks = (THOUGHT,) if manifest.config.thinking.is_on else ()
        self._before = (*manifest.strategy.stages, *thinks)

    def mend(self) -> None:
        """Check everything collected, move what is wrong, and say what to do next."""
        before, as_read = len(self._made.done), self._manifest
        folder = self._folder
        again = self._look(folder.parts(STAGES), self._wrong_stage)
        for kind, table in {task.stores: task.collected for task in TASKS.values()}.items():
            parts = folder.parts(table)
            lost = set(self._look(parts, partial(self._wrong_shard, kind)))
            # A shard whose stages are asked anew is asked anew.
            lost |= set(self._move(parts, {f"part-{name.split('-')[1]}" for name in again}, "what led to it is"))
            if kind == "replies" and lost:
                self._of_other_replies(lost)
        for scorer in folder.names(SCORES):
            self._counts(folder.parts(SCORES, scorer))
            self._look(folder.parts(SCORES, scorer), self._wrong_scores)
        self._look(folder.parts(RATIONALES), self._wrong_scores)
        self._look(folder.parts(OWN_GAP_RATINGS), lambda name, rows: "")
        self._single()
        if len(self._made.done) > before and self._manifest.status == "complete":
            self._manifest = self._manifest.having(status="running")
        if self._manifest is not as_read:
            folder.write_manifest(self._manifest)
        self._say_next(moved=len(self._made.done) > before)

    def _say_next(self, *, moved: bool) -> None:
        command = self._manifest.command
        if moved or self._manifest.status != "complete":
            self._made.next.append("to ask what is missing and analyse everything:")
            self._made.next.append(command or "(the command that made the run; its manifest does not record it)")
        elif self._made.done:
            self._made.next.append("nothing that was collected is missing")
        else:
            self._made.next.append("nothing is wrong: every file that was collected is in place and can be read")

    def _look(self, parts: Parts, wrong: Wrong) -> list[str]:
        """Move a table's faulty parts; return their names."""
        _, file = parts.places
        try:
            names = parts.names()
        except StoreError as error:
            self._set_aside(file, f"{_reason(error)}; all of it is asked again")
            left = self._look(parts, wrong)
            return list(dict.fromkeys([*left, *(name for name in self._all_names(parts) if name not in parts)]))
        moved: list[str] = []
        faults: dict[str, str] = {}
        for name in names:
            while fault := self._fault(parts, name, wrong):
                if not self._beside(parts, name).exists():
                    faults[name] = fault
                    break
                self._set_aside(self._beside(parts, name), fault)
                moved.append(name)
                if name not in parts:  # a consolidated file may still hold an earlier version of it
                    break
        changed = self._not_ours.get(file.relative_to(self._folder.path).as_posix(), "")
        self._take_out(parts, faults, changed if file.exists() else "")
        return [name for name in dict.fromkeys([*moved, *faults]) if name not in parts]

    def _all_names(self, parts: Parts) -> list[str]:
        """Return the names of all parts that a table should have, when none is left."""
        if parts.places[0].name != "stages":
            return [f"part-{number:06d}" for number in range(self._n_shards)]
        return [f"part-{number:06d}-00" for number in range(self._n_shards)]

    def _move(self, parts: Parts, names: set[str], why: str) -> Iterator[str]:
        """Move parts by name, wherever they lie; yield the names that existed."""
        there = [name for name in sorted(names) if name in parts]
        for name in there:
            if self._beside(parts, name).exists():
                self._set_aside(self._beside(parts, name), f"{why} asked again")
        self._take_out(parts, {name: f"{why} asked again" for name in there if name in parts})
        yield from there

    def _take_out(self, parts: Parts, faults: dict[str, str], why: str = "") -> None:
        """Set a faulty consolidated file aside, after writing its intact parts as single files."""
        if not faults and not why:
            return
        _, file = parts.places
        kept = 0
        for name in parts.names():
            if name in faults or self._beside(parts, name).exists():
                continue
            with suppress(StoreError):
                rows = parts.read_part(name)
                assert rows is not None
                parts.write(name, rows.to_pydict())
                kept += 1
        if faults:
            first = next(iter(faults))
            more = f", and {len(faults) - 1:,} more" if len(faults) > 1 else ""
            why = f"{first}: {faults[first]}{more}"
        self._set_aside(file, f"{why}; {plural(kept, 'part')} of it kept")

    def _fault(self, parts: Parts, name: str, wrong: Wrong) -> str:
        beside = self._beside(parts, name)
        place = beside if beside.exists() else parts.places[1]
        fault = self._not_ours.get(place.relative_to(self._folder.path).as_posix(), "")
        if fault and place == beside:
            return fault
        try:
            rows = parts.read_part(name)
        except StoreError as error:
            return _reason(error)
        if rows is None:
            return ""
        # In a changed file, a part is as stored if writing it again gives the same bytes.
        if fault and hashlib.sha256(parts.bytes_of(rows)).hexdigest() != self._was.get(
            beside.relative_to(self._folder.path).as_posix()
        ):
            return fault
        return wrong(name, rows)

    def _wrong_shard(self, kind: Kind, name: str, rows: pa.Table) -> str:
        places = self._places(name)
        if places is None:
            return f"the run has {plural(self._n_shards, 'shard')}"
        index = rows["prompt_index"].to_pylist()
        if set(index) != set(places):
            return f"its prompts are not {places.start:,} to {places.stop - 1:,}"
        keys = list(zip(index, rows["item_id"].to_pylist(), strict=True)) if kind == "answers" else index
        if len(set(keys)) != len(keys):
            return "a prompt occurs twice"
        if self._grid is not None and kind != "answers":
            cells = [self._grid[place] for place in index]
            own = {
                "dimension": [cell.dimension.name for cell in cells],
                "narrative_id": [cell.narrative.narrative_id for cell in cells],
                "emotion": [cell.narrative.emotion for cell in cells],
                "perceiver": [cell.perceiver.term for cell in cells],
                "experiencer": [cell.experiencer.term for cell in cells],
            }
            for label in _LABELS:
                if rows[label].to_pylist() != own[label]:
                    return f"its {label} is not that of the run's prompts"
        return self._beyond_scale(rows) if kind == "ratings" else ""

    def _beyond_scale(self, rows: pa.Table) -> str:
        scale = self._manifest.scale
        if not self._manifest.elicitation.keeps_scale or not scale.low < scale.high:
            return ""
        for status, intensity in zip(rows["status"].to_pylist(), rows["intensity"].to_pylist(), strict=True):
            if status == Status.RATED.value and not (intensity is not None and scale.low <= intensity <= scale.high):
                return f"a rating is {intensity}, on a scale from {scale.low:g} to {scale.high:g}"
        return ""

    def _wrong_stage(self, name: str, rows: pa.Table) -> str:
        places, stage = self._places(name), int(name.split("-")[2]) if name.count("-") == 2 else -1
        if places is None or not 0 <= stage < len(self._before):
            return "the run has no such stage"
        if rows["prompt_index"].to_pylist() != list(places) or set(rows["stage"].to_pylist()) != {self._before[stage]}:
            return f"it is not {self._before[stage]} of prompts {places.start:,} to {places.stop - 1:,}"
        return ""

    def _wrong_scores(self, name: str, rows: pa.Table) -> str:
        places = self._places(name)
        if places is None or not set(rows["prompt_index"].to_pylist()) <= set(places):
            return "its scores are of no replies of that shard"
        return ""

    def _places(self, name: str) -> range | None:
        """Return the prompts of a part from its name; None if the run has no such shard."""
        number, size = int(name.split("-")[1]), self._manifest.shard_size
        if number >= self._n_shards:
            return None
        return range(number * size, min((number + 1) * size, self._manifest.n_prompts))

    def _of_other_replies(self, lost: set[str]) -> None:
        """Move scores of replies that will be asked anew: they describe other texts."""
        for scorer in self._folder.names(SCORES):
            parts = self._folder.parts(SCORES, scorer)
            for name in self._move(parts, lost, "the replies are"):
                self._beside_counts(parts, name, "the replies are asked again")
        list(self._move(self._folder.parts(RATIONALES), lost, "the replies are"))
        judged = self._folder.parts(OWN_GAP_RATINGS)
        list(self._move(judged, set(judged.names()), "replies are"))

    def _counts(self, parts: Parts) -> None:
        """Move unreadable counts together with the scores that they were counted from."""
        folder, _ = parts.places
        for path in sorted(folder.glob("part-*.json")):
            try:
                parts.counts()
            except StoreError as error:
                if str(path) not in str(error):
                    continue
                self._beside_counts(parts, path.stem, _reason(error))
                list(self._move(parts, {path.stem}, "what was counted beside is"))

    def _beside_counts(self, parts: Parts, name: str, why: str) -> None:
        path = parts.places[0] / f"{name}.json"
        if path.exists():
            self._set_aside(path, why)

    def _single(self) -> None:
        """Move unreadable tables that have one file instead of parts."""
        folder, checks = self._folder, dict(self._manifest.content.get("checks") or {})
        for table in _IN_ONE_FILE:
            kept = folder.table(table)
            try:
                kept.rows()
                fault = self._not_ours.get(kept.name)
            except StoreError as error:
                fault = _reason(error)
            if fault:
                self._set_aside(folder.path / kept.name, fault)
                if checks.pop(Path(kept.name).stem, None) is not None:
                    self._manifest = self._manifest.having(checks=checks)

    def _beside(self, parts: Parts, name: str) -> Path:
        return parts.places[0] / f"{name}.parquet"

    def _set_aside(self, path: Path, why: str) -> None:
        set_aside(self._folder, str(path.relative_to(self._folder.path)), why, self._made)


def _reason(error: StoreError) -> str:
    """Return why a file is damaged, the text in brackets of its error, which is raised if the file may be intact."""
    cause = error.__cause__
    if cause is None or "this version of empathy-audit reads" in str(cause):
        raise error
    if isinstance(cause, OSError) and cause.errno in _NOT_NOW:
        raise error
    return "it cannot be read: " + str(error).partition(" cannot be read (")[2].partition("); ")[0]
