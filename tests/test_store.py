import errno
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import as_stored

import audit
from audit.errors import StoreError
from audit.runs import store
from audit.runs.files import _has_rested, write_atomically
from audit.runs.manifest import SCHEMA_VERSION, Manifest
from audit.runs.store import RunFolder
from audit.tables import stored
from audit.tables.base import Table, word
from audit.tables.ratings import RATINGS
from audit.tables.stored import KEPT

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def row(index, **changes):
    """One row of ratings, as the pipeline hands it over."""
    return {
        "prompt_index": index,
        "dimension": "religion",
        "variant": "origin",
        "narrative_id": f"sad-{index:02}",
        "emotion": "sad",
        "perceiver": "a Muslim",
        "experiencer": "a Hindu",
        "perceiver_group": "Muslim",
        "experiencer_group": "Hindu",
        "in_group": False,
        "n_shared": 0,
        "status": "rated",
        "intensity": 50.5 + index,
        "response": "",
        "number_mass": 0.25,
        "mode": 50.0,
        "spread": 1.5,
        "n_prompt_tokens": 120,
        "n_dropped": 0,
        "pruned_points": 0.04,
        "wording": 0,
        "cut": False,
        "ends_points": None,
    } | changes


def names(folder):
    """The files of a folder but for its ledger, of which tests/runs/test_ledger.py are."""
    there = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in there if name != "ledger.jsonl")


def in_a_process(code, *arguments, environment, **options):
    """Run a script in a Python of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False, **options)


# --- Writing ---------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "No space left on device); free some space and give the same command again"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "choose a folder that you can write to with run_dir=PATH"),
        (errno.EIO, "fix that and give the same command again"),
    ],
)
def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(call, number, remedy, tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StoreError) as raised:
        write_atomically(path, b"new")
    assert str(path) in str(raised.value)
    assert remedy in str(raised.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_ctrl_c_in_a_write_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@linux
def test_a_disk_that_is_really_full_leaves_the_old_file(tmp_path):
    # /dev/full takes no byte: the kernel itself says ENOSPC, at the first flush.
    path = tmp_path / "file"
    write_atomically(path, b"old")
    (tmp_path / ".file.unfinished").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"No space left on device.*free some space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@linux
def test_a_write_cut_short_by_the_system_leaves_the_old_file(tmp_path, child_environment):
    # RLIMIT_FSIZE lets 100 bytes through and refuses the rest: half a file has really been written.
    path = tmp_path / "file"
    write_atomically(path, b"old")
    done = in_a_process(
        """
        import resource, signal, sys
        from pathlib import Path
        from audit.errors import StoreError
        from audit.runs.files import write_atomically
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            write_atomically(Path(sys.argv[1]), b"n" * 1000)
        except StoreError as error:
            print(error)
        """,
        path,
        environment=child_environment,
    )
    assert "cannot be written (File too large)" in done.stdout, done.stderr
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_what_a_killed_write_left_is_cleared_and_never_read(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
    run = tmp_path / "run"
    (run / "ratings" / ".part-000001.parquet.unfinished").write_bytes(b"half a shard")
    (run / ".manifest.json.unfinished").write_bytes(b"{")
    with RunFolder(run) as folder:
        assert folder.shards() == {0}
        assert len(folder.read_ratings(n_prompts=1)) == 1
    assert not [name for name in names(run) if "unfinished" in name]


# --- Holding the folder ----------------------------------------------------------------------------------------------


def test_two_runs_can_not_hold_one_folder(tmp_path):
    with (
        RunFolder(tmp_path / "run"),
        pytest.raises(StoreError, match="is in use by another run; wait for it, or choose another"),
        RunFolder(tmp_path / "run"),
    ):
        pass


def test_a_folder_can_be_held_again_once_given_back(tmp_path):
    for _ in range(2):
        with RunFolder(tmp_path / "run"):
            pass


def test_a_folder_is_given_back_when_entering_it_fails(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / ".report.html.unfinished").mkdir()  # a folder where a file should be
    folder = RunFolder(tmp_path)
    with pytest.raises(StoreError, match="cannot be written"), folder:
        pass
    (tmp_path / ".report.html.unfinished").rmdir()
    with RunFolder(tmp_path):
        pass


@linux
def test_a_folder_is_free_after_kill_9(tmp_path, child_environment):
    code = """
    import sys, time
    from pathlib import Path
    from audit.runs.store import RunFolder
    with RunFolder(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "run")]
    with subprocess.Popen(command, env=child_environment, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="in use by another run"), RunFolder(tmp_path / "run"):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=10)
        with RunFolder(tmp_path / "run") as folder:
            assert folder.shards() == set()


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with (
        pytest.raises(StoreError, match="is not empty and is not a run folder; give an empty or new folder"),
        RunFolder(tmp_path),
    ):
        pass
    assert names(tmp_path) == ["thesis.tex"]


def test_a_file_is_no_run_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(StoreError, match=f"run_dir={path} is a file; give a"), RunFolder(path):
        pass


def test_a_folder_below_a_file_can_not_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(StoreError, match=r"cannot be written \(Not a directory\)"),
        RunFolder(tmp_path / "file" / "run"),
    ):
        pass


@linux
def test_a_folder_that_may_not_be_written_names_the_remedy(tmp_path, child_environment):
    # In a process that is nobody, where this one is root and may write anywhere.
    done = in_a_process(
        """
        import os, sys, tempfile
        from pathlib import Path
        from audit.errors import StoreError
        from audit.runs.store import RunFolder
        with tempfile.TemporaryDirectory() as name:
            place = Path(name) / "place"
            place.mkdir()
            place.chmod(0o555)
            Path(name).chmod(0o755)
            if os.geteuid() == 0:
                os.seteuid(65534)
            for path in (place, place / "run"):
                try:
                    RunFolder(path).__enter__()
                except StoreError as error:
                    print(error)
            os.seteuid(os.getuid())
        """,
        environment=child_environment,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for line in lines:
        assert (
            "cannot be written (Permission denied); choose a folder that you can write to with run_dir=PATH"
        ) in line


# --- The manifest ----------------------------------------------------------------------------------------------------


def test_a_manifest_comes_back_as_it_was_written(tmp_path):
    written = {
        "status": "running",
        "n_prompts": 1,
        "shard_size": 1,
        "scale": {"low": 0, "high": 100},
        "identity": {"name": "Daumé", "n": [1, 2.5, None, True]},
    }
    with RunFolder(tmp_path / "run") as folder:
        assert folder.read_manifest() is None
        folder.write_manifest(Manifest.of(written))
        assert folder.read_manifest().content == {"schema_version": SCHEMA_VERSION, **written, "ledger": 1}
    assert Manifest.read(tmp_path / "run").identity.content["name"] == "Daumé"


def test_a_manifest_takes_no_nan(tmp_path):
    # JSON has none: other readers would choke on it.
    with RunFolder(tmp_path / "run") as folder, pytest.raises(ValueError, match="JSON"):
        folder.write_manifest(Manifest.of({"x": math.nan}))


def test_a_folder_without_manifest_is_said_to_be_no_run(tmp_path):
    with pytest.raises(StoreError, match=f"{tmp_path} is not a run folder: it has no manifest.json"):
        Manifest.read(tmp_path)
    with pytest.raises(StoreError, match="is not a run folder"):
        Manifest.read(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ['{"schema_version": 2}', '{"schema_version": "1"}', "{}", "[]", "null"])
def test_a_manifest_of_another_version_is_refused(content, tmp_path):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(
        StoreError, match=rf"has schema_version .*; this version of empathy-audit reads {SCHEMA_VERSION}"
    ):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b'{"schema', b"\xff\xfe\x00"])
def test_a_manifest_that_is_not_json_is_named(content, tmp_path):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read"):
        Manifest.read(tmp_path)


# --- The ratings -----------------------------------------------------------------------------------------------------


def test_ratings_come_back_with_their_types_and_their_gaps(tmp_path):
    rows = [
        row(0),
        row(1, in_group=None, n_shared=None, perceiver="a person", perceiver_group="unspecified"),
        row(2, in_group=True, n_shared=2, status="refused", intensity=None, number_mass=None, mode=None, spread=None),
        row(3, response="I can’t\n🙂 do 'that', \"really\"\x00"),
    ]
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, rows)
        ratings = folder.read_ratings(n_prompts=4)
    assert list(ratings.columns) == list(RATINGS)
    assert ratings["prompt_index"].dtype == "int64"
    assert ratings["in_group"].dtype == pd.BooleanDtype()
    assert ratings["n_shared"].dtype == pd.Int8Dtype()
    for column in ("intensity", "number_mass", "mode", "spread"):
        assert ratings[column].dtype == "float64"
    for column in ("dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "status"):
        assert isinstance(ratings[column].dtype, pd.CategoricalDtype)
    assert ratings["in_group"].isna().tolist() == [False, True, False, False]
    assert ratings["n_shared"].dropna().tolist() == [0, 2, 0]
    assert ratings["intensity"].isna().tolist() == [False, False, True, False]
    assert ratings.loc[0, "intensity"] == 50.5
    assert ratings["response"].tolist()[3] == rows[3]["response"]
    assert ratings["perceiver"].tolist() == [r["perceiver"] for r in rows]


@pytest.mark.parametrize("typed", [True, False])
def test_a_table_of_ratings_comes_back_as_its_rows_would(typed, tmp_path):
    rows = [row(0), row(1, in_group=None, n_shared=None, status="refused", intensity=None, mode=None), row(2)]
    with RunFolder(tmp_path / "rows") as folder:
        folder.write_shard(0, rows)
        of_rows = folder.read_ratings(n_prompts=3)
    table = (of_rows if typed else pd.DataFrame(rows)).set_axis([5, 6, 7])
    before = table.copy()
    with RunFolder(tmp_path / "table") as folder:
        folder.write_shard(0, table)
        pd.testing.assert_frame_equal(folder.read_ratings(n_prompts=3), of_rows)
    pd.testing.assert_frame_equal(table, before)
    shard = pq.read_table(tmp_path / "table" / "ratings" / "part-000000.parquet")
    assert shard.schema.pandas_metadata is None
    assert shard["intensity"].null_count == 1  # as missing, not as NaN


def test_shards_with_words_of_their_own_become_one_table(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(1, [row(1, emotion="happy", status="refused", intensity=None)])
        folder.write_shard(0, [row(0, emotion="sad")])
        ratings = folder.read_ratings(n_prompts=2)
    assert ratings["prompt_index"].tolist() == [0, 1]
    assert ratings["emotion"].tolist() == ["sad", "happy"]
    assert sorted(ratings["status"].cat.categories) == ["rated", "refused"]


def test_the_same_rows_are_the_same_bytes(tmp_path):
    rows = [row(k, perceiver=("a Jew", "a Hindu")[k % 2]) for k in range(50)]
    columns = {name: [each[name] for each in rows] for name in rows[0]}
    for name, written in (("one", rows), ("two", rows), ("columns", columns)):
        with RunFolder(tmp_path / name) as folder:
            folder.write_shard(0, written)
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in tmp_path.glob("*/ratings/*.parquet")}
    assert len(digests) == 1


def test_rows_come_in_the_grid_s_order_however_they_were_written(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(2, emotion="sad"), row(0, emotion="happy"), row(1, emotion="proud")])
        ratings = folder.read_ratings(n_prompts=3)
    assert ratings["prompt_index"].tolist() == [0, 1, 2]
    assert ratings["emotion"].tolist() == ["happy", "proud", "sad"]
    assert ratings.index.tolist() == [0, 1, 2]


def test_ratings_are_plain_parquet_for_other_readers(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(7, [row(0)])
        assert folder.shards() == {7}
    [path] = (tmp_path / "run").glob("ratings/*")
    assert path.name == "part-000007.parquet"
    assert pq.read_table(path).column_names == list(RATINGS)


@pytest.mark.parametrize(
    ("indices", "complaint"),
    [
        ([[0, 1], [3]], r"holds 3 of 4 prompts in 3 rows"),
        ([[0, 1], [2, 3], [3]], r"holds 4 of 4 prompts in 5 rows"),
        ([[0, 1], [1, 2]], r"holds 3 of 4 prompts in 4 rows"),
        ([[0, 1], [2, 4]], r"holds 4 of 4 prompts in 4 rows"),
        ([[-1, 0], [1, 2]], r"holds 4 of 4 prompts in 4 rows"),
        ([], r"holds 0 of 4 prompts in 0 rows"),
    ],
    ids=["missing", "one too many", "twice", "beyond", "before", "none"],
)
def test_ratings_that_are_not_every_prompt_once_are_refused(indices, complaint, tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        for number, part in enumerate(indices):
            folder.write_shard(number, [row(k) for k in part])
        with pytest.raises(StoreError, match=complaint):
            folder.read_ratings(n_prompts=4)


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "flipped"])
def test_a_shard_that_can_not_be_read_is_named_with_the_remedy(damage, tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        for number in range(3):
            folder.write_shard(number, [row(number * 40 + k, response=f"{k * 7919}") for k in range(40)])
        path = folder.path / "ratings" / "part-000001.parquet"
        whole = path.read_bytes()
        path.write_bytes(
            {
                "truncated": whole[: len(whole) // 2],
                "empty": b"",
                "text": b"prompt_index,intensity\n1,5\n",
                "flipped": whole[:-200] + bytes(b ^ 0xFF for b in whole[-200:-8]) + whole[-8:],
            }[damage]
        )
        with pytest.raises(StoreError) as raised:
            folder.read_ratings(n_prompts=120)
    [line] = str(raised.value).splitlines()
    assert "part-000001.parquet cannot be read (" in line
    assert "restore it from a copy, or rename it and run the same command again" in line


def test_damage_inside_a_shard_does_not_go_unnoticed(tmp_path):
    # A bit that flips on the disk must not become another rating.
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(k, intensity=k * 1.37) for k in range(40)])
        [path] = folder.path.glob("ratings/*.parquet")
        whole = bytearray(path.read_bytes())
        undisturbed = folder.read_ratings(n_prompts=40)
        unnoticed = 0
        footer = int.from_bytes(whole[-8:-4], "little") + 8
        for place in range(4, len(whole) - footer, 23):
            path.write_bytes(bytes(whole[:place]) + bytes([whole[place] ^ 0x10]) + bytes(whole[place + 1 :]))
            try:
                read = folder.read_ratings(n_prompts=40)
            except StoreError:
                continue
            unnoticed += not read.equals(undisturbed)
    assert unnoticed == 0


LATER = ["n_prompt_tokens", "n_dropped", "pruned_points", "wording", "cut", "ends_points"]
"""Columns that ratings did not have at first, in the order in which they came."""


def rewrite(path, version, change):
    """Write a part as another version would have: with the number of its format, or before there were numbers."""
    metadata = None if version is None else {"audit.table_version": str(version)}
    pq.write_table(change(pq.read_table(path)).replace_schema_metadata(metadata), path)


@pytest.mark.parametrize("kept", range(LATER.index("wording") + 1))  # parts have numbers since before that came
def test_a_shard_without_a_version_may_lack_the_columns_that_came_later(kept, tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0, wording=3)])
        rewrite(folder.path / "ratings" / "part-000000.parquet", None, lambda table: table.drop_columns(LATER[kept:]))
        as_stored(folder.path)
        ratings = folder.read_ratings(n_prompts=1)
        folder.write_shard(1, [row(1, wording=3)])
        both = folder.read_ratings(n_prompts=2)
    assert list(ratings) == list(RATINGS)
    known = dict.fromkeys(LATER) | {"wording": 0}
    for name in LATER[kept:]:
        assert ratings[name].isna().all() if known[name] is None else ratings[name].tolist() == [known[name]]
    for name in LATER[:kept]:
        assert ratings[name].tolist() == [row(0)[name]]
    assert both["wording"].tolist() == [0, 3]
    assert both.dtypes["wording"] == pd.Int8Dtype()


@pytest.mark.parametrize(
    ("version", "lost", "named"),
    [
        (None, ["spread"], "without spread"),
        (1, ["dimension", "mode"], "without dimension, mode"),
        (4, ["wording"], "without wording"),
        (5, ["cut"], "without cut"),
    ],
)
def test_a_column_that_its_version_had_is_damage_where_it_is_missing(version, lost, named, tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        path = folder.path / "ratings" / "part-000000.parquet"
        rewrite(path, version, lambda table: table.drop_columns(lost))
        with pytest.raises(StoreError) as raised:
            folder.read_ratings(n_prompts=1)
    assert str(raised.value).startswith(
        f"{path} cannot be read (its columns are not those of ratings: {named}); restore it from a copy, or "
    )


def test_a_shard_of_a_newer_version_is_said_to_be_one(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        path = folder.path / "ratings" / "part-000000.parquet"
        rewrite(path, RATINGS.version + 1, lambda table: table.append_column("mood", pa.array(["calm"])))
        with pytest.raises(StoreError) as raised:
            folder.read_ratings(n_prompts=1)
    assert str(raised.value) == (
        f"{path} was written by a newer version of empathy-audit: its ratings have format "
        f"{RATINGS.version + 1}, but this version reads formats up to {RATINGS.version}; upgrade "
        "empathy-audit"
    )


def test_a_column_that_no_version_had_is_named(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        path = folder.path / "ratings" / "part-000000.parquet"
        rewrite(path, RATINGS.version, lambda table: table.append_column("mood", pa.array(["calm"])))
        with pytest.raises(StoreError, match=r"not those of ratings: with mood\)"):
            folder.read_ratings(n_prompts=1)
        folder.write_shard(0, [row(0)])
        rewrite(path, RATINGS.version, lambda table: table.set_column(0, "prompt_index", pa.array([0.0])))
        with pytest.raises(StoreError, match="its column prompt_index has another type than in ratings"):
            folder.read_ratings(n_prompts=1)


def test_columns_may_stand_in_any_order(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        before = folder.read_ratings(n_prompts=1)
        rewrite(
            folder.path / "ratings" / "part-000000.parquet",
            RATINGS.version,
            lambda table: table.select(table.column_names[::-1]),
        )
        as_stored(folder.path)
        pd.testing.assert_frame_equal(folder.read_ratings(n_prompts=1), before)


@pytest.mark.parametrize("typed", ["rows", "columns", "table"])
@pytest.mark.parametrize(("change", "named"), [({"mood": "calm"}, "mood"), ({"spread": None}, "spread")])
def test_rows_with_other_columns_are_not_written(change, named, typed, tmp_path):
    made = row(0) | change
    if change == {"spread": None}:
        del made["spread"]
    rows = {"rows": [made], "columns": {name: [value] for name, value in made.items()}, "table": pd.DataFrame([made])}
    with RunFolder(tmp_path / "run") as folder:
        with pytest.raises(ValueError, match=f"rows of ratings have other columns than the table: {named}"):
            folder.write_shard(0, rows[typed])
        assert folder.shards() == set()


@pytest.mark.parametrize(("before", "expected"), [("calm", "calm"), (None, None)])
def test_a_column_that_is_added_opens_the_shards_of_before(before, expected, tmp_path, monkeypatch):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        added = Table(
            "ratings",
            RATINGS.row,
            {**RATINGS, "mood": word("how it was said", since=RATINGS.version + 1, before=before)},
        )
        monkeypatch.setitem(KEPT, "ratings.parquet", added)
        folder.write_shard(1, [row(1, mood="cross")])
        ratings = folder.read_ratings(n_prompts=2)
    assert list(ratings) == [*RATINGS, "mood"]
    assert ratings["mood"].astype(object).where(ratings["mood"].notna(), None).tolist() == [expected, "cross"]


@pytest.mark.process
def test_all_tables_that_folders_keep_are_known_whatever_is_loaded():
    package = Path(audit.__file__).parent
    declaring = {path.stem for path in package.rglob("*.py") if "kept=Storage(" in path.read_text("utf-8")}
    assert declaring == {module.__name__.rpartition(".")[2] for module in stored._DECLARING}
    known = subprocess.run(
        [sys.executable, "-c", "import audit.runs.store as s; print(*sorted(s.KEPT))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {"answers.parquet", "stages.parquet", "pairs.parquet"} <= {*known.stdout.split()} == {*KEPT}


def test_a_table_that_nothing_declares_is_not_passed_over(tmp_path):
    """Else a module that nobody imported would have its table left out of the digest, and in parts."""
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        folder.write_file("asked_in_int4.parquet", b"PAR1")
        with pytest.raises(StoreError, match=r"asked_in_int4\.parquet belongs to no table"):
            folder.consolidate()
        assert folder.shards() == {0}


def test_two_tables_are_not_kept_in_one_file():
    with pytest.raises(ValueError, match=r"ratings\.parquet"):
        replace(RATINGS, name="others")


def test_a_shard_says_the_version_of_its_table(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        [path] = folder.path.glob("ratings/*")
    assert pq.read_schema(path).metadata == {b"audit.table_version": b"6"}


def test_shards_of_several_versions_are_one_table(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0, wording=3), row(1, wording=3)])
        folder.write_shard(1, [row(2, wording=5)])
        path = folder.path / "ratings" / "part-000000.parquet"
        rewrite(path, 3, lambda table: table.drop_columns(["wording"]))
        as_stored(folder.path)
        ratings = folder.read_ratings(n_prompts=3)
    assert ratings["wording"].tolist() == [0, 0, 5]
    assert ratings["n_dropped"].tolist() == [0, 0, 0]


def test_a_shard_of_other_columns_is_refused(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        (folder.path / "ratings").mkdir()
        pq.write_table(pa.table({"prompt_index": [0]}), folder.path / "ratings" / "part-000000.parquet")
        with pytest.raises(
            StoreError,
            match=r"part-000000.parquet cannot be read \(its columns are not those of ratings: without dimension, ",
        ):
            folder.read_ratings(n_prompts=1)


def test_what_an_analysis_wrote_can_be_cleared_and_ratings_stay(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, [row(0)])
        folder.write_file("tables/gap.csv", b"old")
        folder.clear("tables")
        folder.clear("tables")
        assert folder.write_file("tables/cells.csv", b"new").read_bytes() == b"new"
    assert [name for name in names(tmp_path / "run") if name != ".lock"] == [
        "ratings/part-000000.parquet",
        "tables/cells.csv",
    ]


def test_a_run_that_failed_before_its_manifest_can_be_given_again(tmp_path):
    # A model that cannot be loaded, say: the folder is ours by its lock, and the next try must not be refused.
    with pytest.raises(RuntimeError, match="no such model"), RunFolder(tmp_path / "run"):
        raise RuntimeError("no such model")
    with RunFolder(tmp_path / "run") as folder:
        folder.write_manifest(Manifest.of({}))
    assert json.loads((tmp_path / "run" / "manifest.json").read_text()) == {
        "schema_version": SCHEMA_VERSION,
        "ledger": 1,
    }


def test_an_answer_that_was_kept_half_is_none_and_the_others_stay(tmp_path):
    path = tmp_path / "part-begun.jsonl"
    kept = store.PartBegun(path, "ratings-000000")
    for name in ("a", "b"):
        kept.put(name, {"text": f"{name} \u2028"})
    path.write_bytes(path.read_bytes() + b'\n{"name": "c", "answer": 3}\n{"name": "d"}\n\xff\xfe\n' + b"[" * 100_000)
    found = store.PartBegun(path, "ratings-000000")
    assert [found.get(name) for name in "abcd"] == [{"text": "a \u2028"}, {"text": "b \u2028"}, None, None]


def test_a_file_that_has_just_changed_may_change_again_within_the_tick_of_its_clock():
    second = 10**9
    now = 1_000 * second + 1
    assert not _has_rested(now, now - 1, now=now)
    assert not _has_rested(now - 1, now - 3_600 * second, now=now)
    assert _has_rested(now - 3_600 * second, now - 7_200 * second, now=now)


def test_a_folder_that_was_moved_while_it_was_in_use_is_not_made_again(tmp_path):
    run, moved, part = tmp_path / "run", tmp_path / "moved", "ratings/part-000001.parquet"
    with RunFolder(run) as folder:
        folder.write_shard(0, [row(0)])
        run.rename(moved)
        with pytest.raises(StoreError, match=r"run was moved or removed while this command ran.*run_dir=$"):
            folder.write_shard(1, [row(1)])
        with pytest.raises(StoreError, match="was moved or removed"):
            folder.publish(Manifest.of({}), {})
    assert not run.exists()
    with RunFolder(moved) as folder:
        begun = folder.part_begun(part)
        begun.put("one", {"choices": []})
        moved.rename(run)
        with pytest.raises(StoreError, match="was moved or removed"):
            begun.put("two", {"choices": []})
    assert not moved.exists()
    with RunFolder(run) as folder:
        assert folder.shards() == {0}
        assert folder.part_begun(part).get("one") == {"choices": []}
