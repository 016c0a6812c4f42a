"""No stored file changes unseen, and an analysis takes an earlier one's place whole or not at all."""

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import as_stored, of_before
from test_parts import Killed, count_down
from test_store import row

from audit.errors import StoreError
from audit.runs import ledger
from audit.runs.files import sha256_of
from audit.runs.ledger import Ledger, faults_of, is_made, story_of
from audit.runs.manifest import Manifest
from audit.runs.parts import part_name
from audit.runs.store import RunFolder
from audit.tables.people_of_replies import PEOPLE_SCORES
from audit.tables.ratings import ASKED_AGAIN, ELICITATION_SAMPLE, MANIPULATED
from audit.tables.replies import OWN_GAP_RATINGS
from audit.tables.stages import GIVEN, STAGES
from audit.tasks.reply.scoring import write_scorer, write_scores

MANIFEST = {"n_prompts": 4, "shard_size": 2, "status": "running"}
STAGE = {
    "prompt_index": 0, "stage": "s", "text": "t", "status": "written", "n_prompt_tokens": 1, "n_tokens": 1,
    "n_dropped": 0,
}  # fmt: skip
SCORED = pd.DataFrame({"prompt_index": [0], "measure": ["length"], "value": [1.0]})


def stored_in(folder):
    """Names of a run's stored files but for the ledger."""
    there = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in there if name not in (".lock", ledger.FILE) and not is_made(name))


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """A folder with a file of every kind that a run stores; not to be written to."""
    path = tmp_path_factory.mktemp("every") / "run"
    with RunFolder(path) as folder:
        folder.write_manifest(Manifest.of(MANIFEST))
        folder.write_file("prompts.json.gz", b"prompts")
        folder.table(GIVEN).write([])
        for number in range(2):
            folder.write_shard(number, [row(2 * number), row(2 * number + 1)])
            folder.parts(STAGES).write(part_name(number, 0), [STAGE])
        write_scores(folder, "lexical", 0, SCORED, {"length": {"n_words": 1}})
        write_scorer(folder, "lexical", {"scorer": "lexical"})
        folder.parts(OWN_GAP_RATINGS).write(part_name(0), pd.DataFrame([row(0)]))
        checked = {"prompt_index": 0, "status": "rated", "intensity": 1.0, "response": "1"}
        folder.table(ELICITATION_SAMPLE).write([checked])
        folder.table(ASKED_AGAIN).write([{**checked}])
        told = {"narrative_id": "n", "kind": "own", "emotion": "sad"}
        folder.table(MANIPULATED).write([told | {name: checked[name] for name in ("status", "intensity", "response")}])
        people = {"rater": ["r"], "prompt_index": [0], "question": ["q"], "score": [1.0]}
        folder.table(PEOPLE_SCORES).write_csv(pd.DataFrame(people))
        folder.write_file("people/key.csv", b"key")
    return path


@pytest.fixture
def run(every, tmp_path):
    return Path(shutil.copytree(every, tmp_path / "run"))


# --- Every change is named --------------------------------------------------------------------------------------------


def test_what_was_just_stored_is_as_the_ledger_says(every):
    assert not faults_of(every, made=True, needed=True)
    story = story_of(every)
    assert sorted(name for name in story.files if not is_made(name)) == stored_in(every)
    assert len(stored_in(every)) == 16
    for name, sha256 in story.files.items():
        assert hashlib.sha256((every / name).read_bytes()).hexdigest() == sha256
    assert (story.taken_over, story.accepted) == ((), ())


def changed_in_every_way(path, rng):
    """Yield ways to change a file, each with what it is called."""
    content = path.read_bytes()
    place = rng.randrange(len(content))
    yield "one bit", content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
    yield "cut short", content[: rng.randrange(len(content))]
    yield "a byte more", content + b"\0"
    yield "empty", b""


@pytest.mark.parametrize("seed", range(3))
def test_any_stored_file_that_changes_is_named_wherever_a_run_is_read(run, seed):
    rng = random.Random(seed)
    for name in stored_in(run):
        for how, content in changed_in_every_way(run / name, rng):
            kept = (run / name).read_bytes()
            if content == kept:
                continue
            (run / name).write_bytes(content)
            assert faults_of(run).changed == (name,), how
            if name != "manifest.json":
                with pytest.raises(StoreError) as raised:
                    Manifest.read(run)
                assert str(raised.value).startswith(
                    f"{run / name} has changed since it was stored (its SHA-256 differs); "
                )
            (run / name).write_bytes(kept)
        assert not faults_of(run)


def test_a_change_that_keeps_size_and_times_is_named_too(run):
    name = "ratings/part-000000.parquet"
    before = (run / name).stat()
    faults_of(run)  # whatever is remembered of the file is so now
    content = bytearray((run / name).read_bytes())
    content[100] ^= 1
    (run / name).write_bytes(content)
    os.utime(run / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert faults_of(run).changed == (name,)


def test_any_stored_file_that_is_gone_is_named(run):
    for name in stored_in(run):
        (run / name).rename(run / "aside")
        assert faults_of(run).gone == (name,)
        (run / "aside").rename(run / name)
    (run / "people" / "ratings.csv").unlink()
    with pytest.raises(
        StoreError, match=r"people/ratings\.csv was stored but is gone; restore it from a copy, or give"
    ):
        Manifest.read(run)


@pytest.mark.parametrize(
    "name",
    ["ratings/part-000007.parquet", "ratings.parquet", "stages/part-000000-01.parquet", "scores/judge/scores.parquet",
     "people/raters.csv", "asked_in_float32.parquet", "scores/lexical/part-000001.json", "given.parquet"],
)  # fmt: skip
def test_a_file_that_was_not_stored_is_named(name, run):
    with RunFolder(run) as folder:
        folder.clear("given")  # as if the strategy had brought nothing
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(run / "ratings" / "part-000000.parquet", run / name)
    assert faults_of(run).foreign == (name,)
    with pytest.raises(StoreError, match="was not stored by this run; move it out of the folder"):
        Manifest.read(run)
    (run / name).unlink()  # the remedy
    Manifest.read(run)


def test_a_part_of_another_model_s_run_is_named(run, tmp_path):
    with RunFolder(tmp_path / "other") as folder:
        folder.write_shard(0, [row(0, intensity=99.0), row(1, intensity=99.0)])
    shutil.copy(tmp_path / "other" / "ratings" / "part-000000.parquet", run / "ratings")
    with pytest.raises(StoreError, match=r"part-000000\.parquet has changed since it was stored"):
        Manifest.read(run)


def test_files_of_the_user_s_own_are_nobody_s_business(run):
    (run / "notes.txt").write_text("mine")
    (run / "ratings" / "old-part-000000.parquet").write_bytes(b"set aside")
    (run / "export.parquet").write_bytes(b"mine")
    assert not faults_of(run, made=True)


# --- The ledger itself ------------------------------------------------------------------------------------------------


def test_a_ledger_that_is_gone_is_noticed(run):
    (run / ledger.FILE).unlink()
    with pytest.raises(StoreError, match=r"ledger\.jsonl is gone, so changes to files cannot be detected"):
        Manifest.read(run)


def test_a_line_that_is_changed_or_left_out_is_noticed_by_the_files_that_are_there(run):
    lines = (run / ledger.FILE).read_bytes().splitlines(keepends=True)
    now, n_noticed = story_of(run).files, 0
    for k, line in enumerate(lines):
        own = {name for name, sha256 in json.loads(line)["files"].items() if sha256 and now.get(name) == sha256}
        if not own or any(own & set(json.loads(later)["files"]) for later in lines[k + 1 :]):
            continue  # what it says was said again, or is of files that are gone
        name = next(iter(own))
        other = line.replace(now[name].encode(), b"0" * 64)
        (run / ledger.FILE).write_bytes(b"".join([*lines[:k], other, *lines[k + 1 :]]))
        assert name in faults_of(run, needed=True).changed or name in faults_of(run, made=True).changed
        (run / ledger.FILE).write_bytes(b"".join([*lines[:k], *lines[k + 1 :]]))
        found = faults_of(run, made=True)
        assert is_made(name) or name in (*found.foreign, *found.changed)
        n_noticed += 1
    assert n_noticed >= 15


def test_a_line_that_is_no_line_of_a_ledger_is_at_fault(run):
    for nonsense in (b"{}\n", b"[]\n", b"\xff\n", b'{"after": "", "files": {"a": 1}}\n', b"[" * 10_000 + b"\n"):
        (run / ledger.FILE).write_bytes(nonsense)
        assert faults_of(run).ledger == "line 1 cannot be read"


def test_a_ledger_whose_lines_are_chained_is_read_and_gone_on_with(run):
    """As earlier versions wrote them: each line has the SHA-256 of the one before."""
    chained, last = [], ""
    for line in (run / ledger.FILE).read_bytes().splitlines():
        chained.append(f"{json.dumps({'after': last, **json.loads(line)})}\n".encode())
        last = hashlib.sha256(chained[-1]).hexdigest()
    (run / ledger.FILE).write_bytes(b"".join(chained))
    assert not faults_of(run, made=True, needed=True)
    with RunFolder(run) as folder:
        folder.write_file("people/key.csv", b"another")
    assert not faults_of(run, made=True, needed=True)
    assert (run / ledger.FILE).read_bytes().startswith(b"".join(chained))
    (run / "people" / "key.csv").write_bytes(b"a third")
    assert faults_of(run).changed == ("people/key.csv",)


def test_a_ledger_that_lacks_its_last_lines_is_noticed_by_the_files(run):
    lines = (run / ledger.FILE).read_bytes().splitlines(keepends=True)
    (run / ledger.FILE).write_bytes(b"".join(lines[:-2]))
    assert faults_of(run).foreign == ("people/key.csv",)


def test_accepted_files_are_told_of_from_then_on_and_a_broken_ledger_is_kept(run):
    (run / "people" / "key.csv").write_bytes(b"another key")
    (run / "stages" / "part-000001-00.parquet").unlink()
    shutil.copy(run / "given.parquet", run / "asked_in_float32.parquet")
    with RunFolder(run) as folder:
        folder.accept(faults_of(run))
    assert not faults_of(run, needed=True)
    names = ("people/key.csv", "stages/part-000001-00.parquet", "asked_in_float32.parquet")
    assert story_of(run).accepted == names
    (run / ledger.FILE).write_bytes(b"{}\n")
    with RunFolder(run) as folder:
        folder.accept(faults_of(run))
    assert not faults_of(run, needed=True)
    assert story_of(run).accepted == (ledger.FILE,)
    assert (run / "ledger.before-1.jsonl").read_bytes() == b"{}\n"
    with RunFolder(run) as folder:
        assert folder.stamped(Manifest.read(run), {}).accepted == (ledger.FILE,)


def test_a_run_of_an_earlier_version_is_read_and_taken_over_when_it_is_entered(run):
    of_before(run)
    assert not faults_of(run)
    assert Manifest.read(run).n_prompts == 4
    with RunFolder(run):
        pass
    assert sorted(story_of(run).taken_over) == stored_in(run)
    (run / "given.parquet").write_bytes(b"x")
    with pytest.raises(StoreError, match="has changed since it was stored"):
        Manifest.read(run)


# --- Interruptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["fsync-1", "fsync-2", "replace-1", "fsync-3"])
def test_a_write_that_is_killed_leaves_the_old_file_or_the_new_one_and_a_ledger_that_agrees(at, run, monkeypatch):
    name, (call, nth) = "people/key.csv", at.split("-")
    with monkeypatch.context() as patch:
        count_down(patch, Path if call == "replace" else os, call, int(nth))
        with pytest.raises(Killed):
            Ledger(run).write(name, b"new key")
    content = (run / name).read_bytes()
    assert content == (b"new key" if at == "fsync-3" else b"key")
    assert not faults_of(run)
    with RunFolder(run):
        assert not faults_of(run)
    # Once the folder was entered, the other content is none that may be there.
    (run / name).write_bytes(b"key" if content != b"key" else b"new key")
    assert faults_of(run).changed == (name,)


def test_a_line_that_was_not_written_to_its_end_is_no_line(run):
    for cut in (b'{"files": ', b"{", b"\xff\xfe"):
        whole = (run / ledger.FILE).read_bytes()
        (run / ledger.FILE).write_bytes(whole + cut)
        assert not faults_of(run, needed=True)
        with RunFolder(run) as folder:
            folder.write_file("people/key.csv", b"new")
        assert not faults_of(run, needed=True)
        assert (run / ledger.FILE).read_bytes().startswith(whole + b'{"files": ')


def test_removal_that_is_killed_half_way_is_settled(run, monkeypatch):
    with monkeypatch.context() as patch:
        count_down(patch, Path, "unlink", 2)
        with pytest.raises(Killed):
            Ledger(run).remove(["stages/part-000000-00.parquet", "stages/part-000001-00.parquet"])
    assert not faults_of(run)
    with RunFolder(run) as folder:
        assert part_name(1, 0) in folder.parts(STAGES)
        assert part_name(0, 0) not in folder.parts(STAGES)
    assert not faults_of(run)


def test_a_write_that_fails_between_others_is_not_taken_for_done(run, monkeypatch):
    written = Ledger(run)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(StoreError):
            written.write("people/key.csv", b"new key")
    written.write("people/study.json", b"{}")
    assert not faults_of(run)
    assert story_of(run).files["people/key.csv"] == hashlib.sha256(b"key").hexdigest()


# --- An analysis takes its place whole --------------------------------------------------------------------------------

OLD = {"tables/gap.csv": b"old", "tables/cells.csv": b"old", "figures/gaps.svg": b"old", "report.html": b"old"}
NEW = {"tables/gap.csv": b"new", "tables/other.csv": b"new", "report.html": b"new"}


def made_in(folder):
    return {name: (folder / name).read_bytes() for name in {*OLD, *NEW} if (folder / name).exists()}


@pytest.fixture
def analysed(run):
    with RunFolder(run) as folder:
        folder.publish(Manifest.of({**MANIFEST, "generation": "old"}), OLD)
    assert made_in(run) == OLD
    return run


MOMENTS = [
    *[("fsync", nth) for nth in range(1, 11)],
    *[("replace", nth) for nth in range(1, 5)],
    *[("unlink", nth) for nth in range(1, 3)],
    *[("mkdir", nth) for nth in range(1, 4)],
    ("rmdir", 1),
]


@pytest.mark.parametrize(("call", "nth"), MOMENTS)
def test_killed_at_any_write_a_folder_shows_one_analysis_whole(call, nth, analysed, monkeypatch):
    with monkeypatch.context() as patch:
        count_down(patch, os if call == "fsync" else Path, call, nth)
        # What would clear up is not called by a kill either.
        patch.setattr("audit.runs.ledger.shutil.rmtree", lambda *_, **__: None)
        try:
            RunFolder(analysed).publish(Manifest.of({**MANIFEST, "generation": "new"}), NEW)
            reached = False
        except Killed:
            reached = True
    assert reached
    assert not faults_of(analysed, made=True)
    with RunFolder(analysed):
        pass
    assert made_in(analysed) in (OLD, NEW)
    assert Manifest.read(analysed).generation == ("old" if made_in(analysed) == OLD else "new")
    assert not faults_of(analysed, made=True)
    assert not (analysed / ledger.ASIDE).exists()
    # And it goes on from there.
    with RunFolder(analysed) as folder:
        folder.publish(Manifest.of({**MANIFEST, "generation": "new"}), NEW)
    assert made_in(analysed) == NEW
    assert not (analysed / "figures").exists()


def test_both_outcomes_of_a_kill_were_seen(analysed, monkeypatch):
    outcomes = set()
    for call, nth in (("fsync", 1), ("replace", 2)):
        with monkeypatch.context() as patch:
            count_down(patch, os if call == "fsync" else Path, call, nth)
            with pytest.raises(Killed):
                RunFolder(analysed).publish(Manifest.of({**MANIFEST, "generation": "new"}), NEW)
        with RunFolder(analysed):
            outcomes.add(Manifest.read(analysed).generation)
    assert outcomes == {"old", "new"}


def test_a_full_disk_keeps_the_earlier_analysis_and_leaves_nothing(analysed, monkeypatch):
    really, calls = os.fsync, 0

    def full(descriptor):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device")
        return really(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            RunFolder(analysed).publish(Manifest.of({**MANIFEST, "generation": "new"}), NEW)
    assert made_in(analysed) == OLD
    assert not (analysed / ledger.ASIDE).exists()
    assert Manifest.read(analysed).generation == "old"


def test_tables_that_were_changed_are_found_and_those_that_are_gone_are_no_fault_of_what_was_stored(analysed):
    (analysed / "tables" / "gap.csv").write_bytes(b"another")
    (analysed / "report.html").unlink()
    assert not faults_of(analysed)
    assert Manifest.read(analysed)
    found = faults_of(analysed, made=True)
    assert (found.changed, found.gone) == (("tables/gap.csv",), ("report.html",))


# --- Reading while another process writes -----------------------------------------------------------------------------


def test_a_reader_beside_a_writer_sees_no_fault(run):
    rng = np.random.default_rng(0)
    writer = RunFolder(run)
    real = ledger._compare

    def compare(folder, told, *, made):
        if rng.random() < 0.7:  # the writer is faster
            writer.write_shard(0, [row(0, intensity=float(rng.integers(100))), row(1)])
        return real(folder, told, made=made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_compare", compare)
        for _ in range(20):
            assert not faults_of(run)


def test_a_hash_is_remembered_only_of_files_that_have_rested(tmp_path):
    path = tmp_path / "file"
    for k in range(50):  # within the grain of the disk's clock, of one size
        path.write_bytes(f"{k:03}".encode())
        assert sha256_of(path) == hashlib.sha256(f"{k:03}".encode()).hexdigest()
    assert sha256_of(tmp_path / "none") is None


def test_the_tests_own_ways_to_lay_a_run_out_leave_no_fault(run):
    (run / "people" / "key.csv").write_bytes(b"changed")
    assert not faults_of(as_stored(run), needed=True)
