"""A run's folder may come from anybody: what its ledger, its links and its copies say is not followed out of it."""

import gzip
import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import as_stored, of_before
from test_ledger import MANIFEST, NEW, OLD, analysed, every, run  # noqa: F401  fixtures
from test_parts import Killed, count_down
from test_store import row

from audit.api import Tables
from audit.errors import StoreError
from audit.extras.integrity.recover import recover
from audit.runs import files as files_module
from audit.runs import ledger
from audit.runs.files import sha256_of
from audit.runs.ledger import LedgerDifferences, faults_of, story_of
from audit.runs.manifest import COPY, Manifest
from audit.runs.store import RunFolder
from audit.tables.run_of_ratings import TABLES

PLANTED = "ratings/part-000000.parquet"


def with_line(folder, **said):
    """Add a line to a folder's ledger, as whoever forges one would."""
    with (folder / ledger.FILE).open("a") as stream:
        stream.write(f"{json.dumps(said)}\n")


def tampered(folder, name=PLANTED):
    """Change a rating in a stored part, so that it is a readable part."""
    other = folder.parent / "other"
    with RunFolder(other) as made:
        made.write_shard(0, [row(0, intensity=99.0), row(1, intensity=99.0)])
    shutil.copy(other / PLANTED, folder / name)
    shutil.rmtree(other)


# --- Names that lead out of the folder --------------------------------------------------------------------------------

OUTSIDE = ["../thesis.tex", "tables/../../thesis.tex", "/etc/passwd", "C:\\thesis.tex", "..\\thesis.tex", "", "a\0b",
           ledger.FILE]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_ledger_that_names_a_file_outside_the_folder_is_at_fault_and_moves_nothing(name, run):  # noqa: F811
    mine = run.parent / "thesis.tex"
    mine.write_text("mine")
    with_line(run, files={name: None, "x/thesis.tex": "0" * 64}, published="a")
    (run / ledger.ASIDE / "x").mkdir(parents=True)
    (run / ledger.ASIDE / "x" / "thesis.tex").write_text("theirs")
    assert "names a file outside the folder" in faults_of(run).ledger
    with pytest.raises(StoreError, match="names a file outside the folder"):
        Manifest.read(run)
    with RunFolder(run):
        pass
    assert mine.read_text() == "mine"
    assert (run / ledger.ASIDE / "x" / "thesis.tex").exists()  # nothing of that line was followed
    recover(run)  # the remedy
    assert not faults_of(run, needed=True)
    assert mine.read_text() == "mine"


def test_names_that_runs_do_use_are_no_fault(run):  # noqa: F811
    with RunFolder(run) as folder:
        for name in ("figures/cells-race_ethnicity-persona-1.svg", "figures/a..b.svg", "figures/é ü.png"):
            folder.write_file(name, b"x")
    assert not faults_of(run, made=True)


# --- Links ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(run):  # noqa: F811
    """A folder of the user's, to which a folder that came from elsewhere has a link."""
    place = run.parent / "documents"
    place.mkdir()
    (place / "thesis.csv").write_text("mine")
    return place


@pytest.mark.parametrize("name", ["tables", "figures", ledger.ASIDE])
def test_an_analysis_is_not_written_where_a_link_leads_and_removes_nothing_there(name, run, elsewhere):  # noqa: F811
    (run / name).symlink_to(elsewhere, target_is_directory=True)
    with RunFolder(run) as folder:
        if name == ledger.ASIDE:
            folder.publish(Manifest.of({**MANIFEST, "generation": "new"}), NEW)
        else:
            with pytest.raises(StoreError, match=f"run/{name} is a link to another place"):
                folder.publish(Manifest.of({**MANIFEST, "generation": "new"}), OLD)
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"thesis.csv": "mine"}
    if name != ledger.ASIDE:
        (run / name).unlink()  # the remedy
        with RunFolder(run) as folder:
            folder.publish(Manifest.of({**MANIFEST, "generation": "new"}), OLD)
    assert Manifest.read(run).generation == "new"


def test_an_analysis_that_was_killed_takes_nothing_from_where_a_link_leads(run, elsewhere):  # noqa: F811
    with_line(run, files={"tables/thesis.csv": hashlib.sha256(b"mine").hexdigest()}, published="a")
    (run / ledger.ASIDE).mkdir()
    (run / ledger.ASIDE / "tables").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(StoreError, match="is a link to another place"), RunFolder(run):
        pass
    assert (elsewhere / "thesis.csv").read_text() == "mine"


@pytest.mark.parametrize("name", [".lock", ledger.FILE, "engine.log", "part-begun.jsonl", "people/.key.csv.unfinished"])
def test_what_is_written_in_place_is_not_written_through_a_link(name, run, elsewhere):  # noqa: F811
    mine = elsewhere / "thesis.csv"
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(mine)

    def written():
        folder = RunFolder(run)
        if name == "people/.key.csv.unfinished":  # on entering it is removed
            folder.write_file("people/key.csv", b"x")
        with folder:
            if name == "engine.log":
                folder.appending(name).write(b"x")
            elif name == "part-begun.jsonl":
                folder.part_begun("part").put("a", {})
            else:
                folder.write_file("people/key.csv", b"x")

    with pytest.raises(StoreError, match="is a link to another place"):
        written()
    assert mine.read_text() == "mine"


def test_stored_files_may_be_links_as_tools_for_large_files_leave_them(run):  # noqa: F811
    (run.parent / "annex").mkdir()
    (run / PLANTED).rename(run.parent / "annex" / "object")
    (run / PLANTED).symlink_to(run.parent / "annex" / "object")
    assert not faults_of(run)
    tampered(run, "../annex/object")
    assert faults_of(run).changed == (PLANTED,)


def test_a_pipe_or_a_folder_in_a_file_s_place_is_named_and_not_waited_for(run):  # noqa: F811
    (run / PLANTED).unlink()
    os.mkfifo(run / PLANTED)
    found = []
    reader = threading.Thread(target=lambda: found.append(faults_of(run)), daemon=True)
    reader.start()
    reader.join(10)
    assert not reader.is_alive()
    assert found[0].changed == (PLANTED,)
    (run / PLANTED).unlink()
    (run / PLANTED).mkdir()
    assert faults_of(run).changed == (PLANTED,)
    with RunFolder(run) as folder, pytest.raises(StoreError, match="is not a file; move it out of the folder"):
        folder.accept(faults_of(run))


# --- Files that change while a command runs ---------------------------------------------------------------------------


def test_a_part_that_changes_after_the_run_was_opened_is_not_read(run):  # noqa: F811
    with RunFolder(run) as folder:
        assert folder.read_manifest() is not None
        tampered(run)
        with pytest.raises(StoreError, match=r"part-000000\.parquet has changed since it was stored"):
            folder.read_ratings(n_prompts=4)
        with pytest.raises(StoreError, match=r"part-000000\.parquet has changed since it was stored"):
            folder._collected("ratings").read_part("part-000000")


def test_consolidation_does_not_make_a_changed_part_a_stored_one(run):  # noqa: F811
    tampered(run)
    with RunFolder(run) as folder:
        notes = []
        folder.consolidate(notes.append)
    assert "part-000000.parquet has changed since it was stored" in notes[0]
    assert not (run / "ratings.parquet").exists()
    assert faults_of(run).changed == (PLANTED,)


def test_a_consolidated_file_that_was_changed_is_not_written_anew_with_a_later_part(run):  # noqa: F811
    with RunFolder(run) as folder:
        folder.consolidate()
        folder.write_shard(1, [row(2, intensity=3.0), row(3)])
        table = pq.read_table(run / "ratings.parquet")
        values = pa.array([99.0, *table["intensity"].to_pylist()[1:]])
        changed = table.set_column(table.column_names.index("intensity"), "intensity", values)
        pq.write_table(changed, run / "ratings.parquet")
        with pytest.raises(StoreError, match=r"ratings\.parquet has changed since it was stored"):
            folder.consolidate()
    assert faults_of(run).changed == ("ratings.parquet",)


@pytest.mark.parametrize("name", ["given.parquet", "people/key.csv", "prompts.json.gz", "scores/lexical/scorer.json"])
def test_an_analysis_of_files_that_changed_meanwhile_does_not_take_its_place(name, analysed):  # noqa: F811
    with RunFolder(analysed) as folder:
        manifest = folder.read_manifest()
        (analysed / name).write_bytes((analysed / name).read_bytes() + b" ")
        with pytest.raises(StoreError, match=f"{name} has changed since it was stored"):
            folder.publish(manifest.having(generation="new"), NEW)
    assert Manifest.read(analysed, check=False).generation == "old"
    assert (analysed / "report.html").read_bytes() == b"old"


def test_a_part_of_no_ledger_is_read_as_before(run):  # noqa: F811
    of_before(run)
    tampered(run)
    assert RunFolder(run).read_ratings(n_prompts=4)["intensity"].tolist()[:2] == [99.0, 99.0]


def test_a_hash_is_not_remembered_for_long_where_a_disk_s_times_are_coarse():
    second = 1_000_000_000
    assert not files_module._has_rested(5 * second, 4 * second, now=7 * second)
    assert files_module._has_rested(5 * second, 4 * second, now=8 * second)
    assert files_module._has_rested(5 * second + 1, 4 * second, now=6 * second)
    assert not files_module._has_rested(5 * second + 1, 4 * second, now=5 * second + 2)


# --- Whitewash --------------------------------------------------------------------------------------------------------


def renamed(path):
    """Have a manifest say another model's name."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "model": {"name": "a better model"}}, indent=2))


@pytest.mark.parametrize(
    "how", ["the copy alone, and the manifest removed", "both", "the manifest, and no copy", "both, and a part"]
)
def test_recover_takes_no_changed_manifest_without_the_report_saying_so(how, run):  # noqa: F811
    with RunFolder(run) as folder:
        folder.write_manifest(Manifest.of({**MANIFEST, "status": "complete"}))
    if how == "the manifest, and no copy":
        (run / COPY).unlink()
    else:
        renamed(run / COPY)
    if how == "the copy alone, and the manifest removed":
        (run / "manifest.json").unlink()
    else:
        renamed(run / "manifest.json")
    if how == "both, and a part":
        tampered(run)
    made = recover(run)
    assert any(line.startswith("kept as it is: manifest") for line in made.done)
    assert not faults_of(run, needed=True).changed
    with RunFolder(run) as folder:
        manifest, _ = folder.read_lacking()
        assert manifest.model.name == "a better model"
        assert "manifest.json" in manifest.accepted
        assert "manifest.json" in folder.stamped(manifest, {}).accepted


def test_a_copy_that_is_as_it_was_stored_restores_the_manifest_without_a_mark(run):  # noqa: F811
    renamed(run / "manifest.json")
    recover(run)
    with RunFolder(run) as folder:
        manifest, _ = folder.read_lacking()
    assert (manifest.model.name, manifest.accepted) == ("", ())


def test_accepting_some_files_says_nothing_of_others(run):  # noqa: F811
    (run / "people" / "key.csv").write_bytes(b"another")
    faults = faults_of(run)
    tampered(run)  # after what was to be accepted had been looked at
    with RunFolder(run) as folder:
        folder.accept(faults)
    assert faults_of(run).changed == (PLANTED,)
    assert story_of(run).accepted == ("people/key.csv",)


def test_what_was_accepted_is_said_for_ever_also_after_a_new_ledger(run):  # noqa: F811
    (run / "people" / "key.csv").write_bytes(b"another")
    with RunFolder(run) as folder:
        folder.accept(faults_of(run))
        assert Manifest.read(run).accepted == ("people/key.csv",)  # before any report has said so
        folder.publish(folder.stamped(Manifest.read(run), {}), NEW)
    (run / ledger.FILE).unlink()
    recover(run)
    assert set(Manifest.read(run).accepted) == {"people/key.csv", ledger.FILE}
    lines = (run / ledger.FILE).read_bytes().splitlines(keepends=True)
    (run / ledger.FILE).write_bytes(b"".join(lines) + b"{}\n")
    recover(run)
    with RunFolder(run) as folder:
        assert set(folder.stamped(Manifest.read(run), {}).accepted) == {"people/key.csv", ledger.FILE}


# --- Tables -----------------------------------------------------------------------------------------------------------


def analysis(folder, generation, value):
    made = {name: f"a\n{value}\n".encode() for name in ("tables/gap.csv", "tables/cells.csv")}
    made[ledger.GENERATION] = f"{generation}\n".encode()
    folder.publish(Manifest.of({**MANIFEST, "generation": generation}), {**made, "report.html": b"page"})


def test_no_reader_is_given_tables_of_two_analyses(run, monkeypatch):  # noqa: F811
    with RunFolder(run) as folder:
        analysis(folder, "old", 1)
    with monkeypatch.context() as patch:
        count_down(patch, Path, "replace", 2)
        with pytest.raises(Killed):
            analysis(RunFolder(run), "new", 2)
    both = {name: (run / "tables" / name).read_text() for name in ("gap.csv", "cells.csv")}
    assert len(set(both.values())) == 2  # the bare folder does show both
    with pytest.raises(StoreError, match="the last analysis was not stored completely"):
        Tables(run / "tables", TABLES)["gap"]
    with RunFolder(run):  # the remedy: any command that enters it
        pass
    assert (
        Tables(run / "tables", TABLES)["gap"]["a"].tolist()
        == Tables(run / "tables", TABLES)["cells"]["a"].tolist()
        == [2]
    )


def test_tables_that_were_opened_before_a_later_analysis_are_not_mixed_with_it(run):  # noqa: F811
    with RunFolder(run) as folder:
        analysis(folder, "old", 1)
        tables = Tables(run / "tables", TABLES)
        assert tables["gap"]["a"].tolist() == [1]
        analysis(folder, "new", 2)
    with pytest.raises(StoreError, match="was written by a later analysis than the tables read before"):
        tables["cells"]
    assert Tables(run / "tables", TABLES)["cells"]["a"].tolist() == [2]


def test_a_table_or_a_figure_that_no_analysis_made_is_named_and_not_read(run):  # noqa: F811
    with RunFolder(run) as folder:
        analysis(folder, "old", 1)
    (run / "figures").mkdir()
    for name in ("tables/extra.csv", "figures/gaps.svg", "figures/.DS_Store", "tables/notes.txt"):
        (run / name).write_text("a\n1\n")
    assert faults_of(run, made=True).foreign == ("figures/gaps.svg", "tables/extra.csv")
    assert not faults_of(run)
    with pytest.raises(StoreError, match=r"extra\.csv was not made by this run's analysis; move it out of the folder"):
        Tables(run / "tables", TABLES)["extra"]


# --- False alarms -----------------------------------------------------------------------------------------------------


def test_copies_that_lose_times_owners_and_links_raise_no_alarm(run, tmp_path):  # noqa: F811
    (run / "people" / "key.csv").touch()
    os.utime(run / PLANTED, (10**9, 10**9))
    assert not faults_of(run, made=True)
    shutil.make_archive(str(tmp_path / "packed"), "zip", run)
    shutil.unpack_archive(str(tmp_path / "packed.zip"), tmp_path / "unpacked")
    assert not faults_of(tmp_path / "unpacked", made=True, needed=True)
    Manifest.read(tmp_path / "unpacked")
    moved = (tmp_path / "unpacked").rename(tmp_path / "moved")
    os.link(moved / PLANTED, tmp_path / "hard link")
    (moved / ".DS_Store").write_text("x")
    (moved / "ratings" / "._part-000000.parquet").write_text("x")  # as macOS leaves them beside files
    assert not faults_of(moved, made=True, needed=True)


def test_other_line_ends_are_called_that(run):  # noqa: F811
    content = (run / ledger.FILE).read_bytes()
    (run / ledger.FILE).write_bytes(content.replace(b"\n", b"\r\n"))
    with pytest.raises(StoreError, match=r"has other line ends than were written.*\.gitattributes"):
        Manifest.read(run)
    (run / ledger.FILE).write_bytes(content)  # the remedy
    assert Manifest.read(run)


# --- The ledger's own end, and an old one -----------------------------------------------------------------------------


def digest_in(folder):
    return RunFolder(folder).digest(Manifest.read(folder))


def test_an_old_ledger_with_old_files_is_not_noticed_but_by_a_digest_kept_elsewhere(run, tmp_path):  # noqa: F811
    (run / "prompts.json.gz").write_bytes(gzip.compress(b"{}"))
    as_stored(run)
    old = Path(shutil.copytree(run, tmp_path / "old"))
    with RunFolder(run) as folder:
        folder.write_shard(0, [row(0, intensity=2.0), row(1)])
    assert not faults_of(old)  # this is said in docs/integrity.md
    assert digest_in(old) != digest_in(run)


@pytest.mark.parametrize("name", ["a rating", "the model's name", "a prompt"])
def test_files_that_were_written_anew_with_their_ledger_have_another_digest(name, run):  # noqa: F811
    before = digest_in(run)
    if name == "a rating":
        tampered(run)
    elif name == "a prompt":
        (run / "prompts.json.gz").write_bytes(gzip.compress(b"other prompts"))
    else:
        renamed(run / "manifest.json")
    (run / ledger.FILE).unlink()
    with RunFolder(run) as folder:
        folder._ledger.take_over()
    assert not faults_of(run, needed=True)  # whoever may write to the folder can do that
    assert digest_in(run) != before


def test_a_part_that_was_asked_until_it_pleased_is_told(run):  # noqa: F811
    assert story_of(run).anew == ()
    (run / PLANTED).unlink()
    with RunFolder(run) as folder:
        folder.write_shard(0, [row(0), row(1)])  # the same answers again are nothing to tell
    assert story_of(run).anew == ()
    (run / PLANTED).unlink()
    with RunFolder(run) as folder:
        folder.write_shard(0, [row(0, intensity=2.0), row(1)])
        folder.consolidate()
    assert story_of(run).anew == (PLANTED,)


def test_faults_may_be_accepted_one_by_one_until_none_is_left(run):  # noqa: F811
    for name in (PLANTED, "given.parquet", "people/ratings.csv"):
        (run / name).write_bytes(b"x")
        with RunFolder(run) as folder:
            folder.accept(LedgerDifferences(changed=(name,)))
    assert not faults_of(run)
    assert sha256_of(run / PLANTED) == story_of(run).files[PLANTED]
