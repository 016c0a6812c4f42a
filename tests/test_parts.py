"""A table in parts becomes one file: the same rows at every moment, however it is interrupted."""

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import as_stored
from test_store import names, row

from audit.errors import StoreError
from audit.runs import parts as module
from audit.runs.parts import part_name
from audit.runs.store import JudgementFolder, RunFolder
from audit.tables.preference import JUDGED_PAIRS
from audit.tables.ratings import RATINGS
from audit.tables.replies import OWN_GAP_RATINGS, SCORES
from audit.tables.stages import STAGES
from audit.tasks.reply.scoring import read_scores, score_counts, write_scorer, write_scores

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
SIZES = (4, 3, 0, 5, 1)
N_PROMPTS = sum(SIZES)
SHARDS = [f"ratings/part-{number:06}.parquet" for number in range(len(SIZES))]


def shard_rows(number, **changes):
    """Rows of a shard, with words that shards before have not."""
    begin = sum(SIZES[:number])
    return [
        row(k, emotion=("sad", "happy", f"e{k % 3}")[k % 3], perceiver=f"p{N_PROMPTS - k}", response=f"{k}é", **changes)
        for k in range(begin, begin + SIZES[number])
    ]


@pytest.fixture
def run(tmp_path):
    """A run folder in parts."""
    with RunFolder(tmp_path / "run") as folder:
        for number in (3, 0, 2, 1, 4):
            folder.write_shard(number, pd.DataFrame(shard_rows(number), columns=list(RATINGS)))
    return tmp_path / "run"


def ratings_of(run):
    return RunFolder(run).read_ratings(n_prompts=N_PROMPTS)


def consolidate(run):
    """Consolidate a run, and return what is said."""
    said = []
    with RunFolder(run) as folder:
        folder.consolidate(said.append)
    return said


def files_of(run):
    return [name for name in names(run) if name != ".lock"]


def metadata_of(path):
    return pq.read_metadata(path).metadata


# --- One file ---------------------------------------------------------------------------------------------------------


def test_parts_become_one_file_with_the_same_rows(run):
    before, sha256 = ratings_of(run), RunFolder(run).ratings_sha256()
    written = b"".join((run / name).read_bytes() for name in SHARDS)
    assert sha256 == hashlib.sha256(written).hexdigest()
    shas = [hashlib.sha256((run / name).read_bytes()).hexdigest() for name in SHARDS]
    assert consolidate(run) == []
    assert files_of(run) == ["ratings.parquet"]
    assert not (run / "ratings").exists()
    # Word for word, and in the same order of categories.
    pd.testing.assert_frame_equal(ratings_of(run), before)
    assert RunFolder(run).ratings_sha256() == sha256
    assert RunFolder(run).shards() == {0, 1, 2, 3, 4}
    assert json.loads(metadata_of(run / "ratings.parquet")[b"audit.parts"]) == [
        [f"part-{number:06}", size, sha] for number, (size, sha) in enumerate(zip(SIZES, shas, strict=True))
    ]
    assert metadata_of(run / "ratings.parquet")[b"audit.table_version"] == b"6"
    # Any tool reads it as a table.
    assert pd.read_parquet(run / "ratings.parquet")["prompt_index"].tolist() == list(range(N_PROMPTS))


def test_the_same_parts_are_the_same_bytes_and_a_second_time_changes_nothing(run, tmp_path):
    again = shutil.copytree(run, tmp_path / "again")
    for each in (run, again):
        consolidate(each)
    assert (run / "ratings.parquet").read_bytes() == (again / "ratings.parquet").read_bytes()
    before = (run / "ratings.parquet").stat()
    assert consolidate(run) == []
    assert (run / "ratings.parquet").stat() == before


def test_a_folder_without_parts_stays_as_it_is(tmp_path):
    assert consolidate(tmp_path / "run") == []
    assert files_of(tmp_path / "run") == []
    with RunFolder(tmp_path / "run") as folder:
        assert folder.shards() == set()
        assert folder.ratings_sha256() == hashlib.sha256().hexdigest()


def test_row_groups_hold_several_parts_and_parts_are_read_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_N_ROWS", 5)
    stages = {
        f"part-{number:06}-{stage:02}": [
            {
                "prompt_index": 10 * number + k,
                "stage": f"s{stage}",
                "text": f"{number} {stage} {k}",
                "status": "written",
                "n_prompt_tokens": 1,
                "n_tokens": 2,
                "n_dropped": 0,
            }
            for k in range(size)
        ]
        for number, size in enumerate((3, 1, 7, 2, 4))
        for stage in range(2)
    }
    with RunFolder(tmp_path / "run") as folder:
        for name, rows in stages.items():
            folder.parts(STAGES).write(part_name(int(name[5:11]), int(name[-2:])), rows)
        before = folder.parts(STAGES).frame()
        folder.consolidate(pytest.fail)
        assert files_of(tmp_path / "run") == ["stages.parquet"]
        sizes = [pq.read_metadata(tmp_path / "run" / "stages.parquet").row_group(k).num_rows for k in range(5)]
        assert sizes == [
            6,
            9,
            7,
            8,
            4,
        ]  # parts of 3, 3 | 1, 1, 7 | 7 | 2, 2, 4 | 4 rows: whole parts, five rows or more
        pd.testing.assert_frame_equal(folder.parts(STAGES).frame(), before)
        for name, rows in stages.items():
            assert folder.parts(STAGES).read_part(name).to_pylist() == rows
            assert part_name(int(name[5:11]), 0) in folder.parts(STAGES)
        assert folder.parts(STAGES).names()
        assert part_name(5, 0) not in folder.parts(STAGES)
        assert folder.parts(STAGES).read_part(part_name(0, 2)) is None


def test_consolidating_holds_a_row_group_and_not_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_N_ROWS", 4000)
    with RunFolder(tmp_path / "run") as folder:
        for number in range(20):
            table = pd.DataFrame([row(0, response="x" * 500)] * 2000).assign(prompt_index=range(2000))
            folder.write_shard(number, table.assign(prompt_index=table["prompt_index"] + 2000 * number))
        whole = folder.read_ratings(n_prompts=40_000)
        size = pa.Table.from_pandas(whole).nbytes
        del whole
        held, before = [], pa.total_allocated_bytes()
        really = pq.ParquetWriter.write_table

        def write_table(self, table):
            held.append(pa.total_allocated_bytes() - before)
            really(self, table)

        monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)
        folder.consolidate(pytest.fail)
    assert len(held) == 10
    assert max(held) < size / 4


# --- Interruptions ----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What stops everything, as Ctrl-C does, or a kill but for what is cleared up."""


def count_down(monkeypatch, owner, name, nth):
    """Have a function stop everything at its nth call, counted from 1."""
    really, calls = getattr(owner, name), 0

    def stop(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == nth:
            raise Killed
        return really(*arguments, **options)

    monkeypatch.setattr(owner, name, stop)


MOMENTS = [
    *[(module.pq.ParquetWriter, "write_table", nth) for nth in (1, 2)],
    (module.pq.ParquetWriter, "add_key_value_metadata", 1),
    *[(os, "fsync", nth) for nth in (1, 2, 3)],  # of the file; of the folder with it; of the one that is emptied
    (Path, "replace", 1),
    *[(Path, "unlink", nth) for nth in range(1, len(SIZES) + 1)],
    (Path, "rmdir", 1),
]


@pytest.mark.parametrize(("owner", "name", "nth"), MOMENTS, ids=[f"{name}-{nth}" for _, name, nth in MOMENTS])
def test_whenever_it_is_interrupted_all_rows_stay(owner, name, nth, run, tmp_path, monkeypatch):
    before, sha256 = ratings_of(run), RunFolder(run).ratings_sha256()
    undisturbed = shutil.copytree(run, tmp_path / "undisturbed")
    monkeypatch.setattr(module, "_N_ROWS", 6)
    consolidate(undisturbed)
    with monkeypatch.context() as patch:
        count_down(patch, owner, name, nth)
        with pytest.raises(Killed), RunFolder(run) as folder:
            folder.consolidate(pytest.fail)
    pd.testing.assert_frame_equal(ratings_of(run), before)
    assert RunFolder(run).ratings_sha256() == sha256
    assert RunFolder(run).shards() == {0, 1, 2, 3, 4}
    assert consolidate(run) == []
    assert files_of(run) == ["ratings.parquet"]
    assert not (run / "ratings").exists()
    assert (run / "ratings.parquet").read_bytes() == (undisturbed / "ratings.parquet").read_bytes()


def test_parts_that_were_to_be_removed_do_not_have_the_file_written_again(run, monkeypatch):
    with monkeypatch.context() as patch:
        count_down(patch, Path, "unlink", 3)
        with pytest.raises(Killed):
            consolidate(run)
    assert files_of(run) == ["ratings.parquet", *SHARDS[2:]]
    before = (run / "ratings.parquet").stat().st_mtime_ns
    assert consolidate(run) == []
    assert files_of(run) == ["ratings.parquet"]
    assert (run / "ratings.parquet").stat().st_mtime_ns == before


@linux
def test_what_a_killed_consolidation_left_is_cleared(run, child_environment):
    # SIGKILL clears nothing up: what is half written stays under another name, and is not read.
    code = """
    import os, signal, sys
    from pathlib import Path
    from audit.runs.store import RunFolder
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    with RunFolder(Path(sys.argv[1])) as folder:
        folder.consolidate(print)
    """
    before = ratings_of(run)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), run], env=child_environment, timeout=60, check=False
    )
    assert done.returncode == -9
    assert files_of(run) == [".ratings.parquet.unfinished", *SHARDS]
    pd.testing.assert_frame_equal(ratings_of(run), before)
    consolidate(run)
    assert files_of(run) == ["ratings.parquet"]


@linux
def test_a_full_disk_leaves_the_parts_and_says_so_in_one_line(run, child_environment):
    # RLIMIT_FSIZE lets some bytes through and refuses the rest: half a file has really been written.
    code = """
    import resource, signal, sys
    from pathlib import Path
    from audit.runs.store import RunFolder
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    with RunFolder(Path(sys.argv[1])) as folder:
        folder.consolidate(print)
    """
    before = ratings_of(run)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), run],
        env=child_environment, timeout=60, check=True, capture_output=True, text=True,
    )  # fmt: skip
    [line] = done.stdout.splitlines()
    assert line.startswith(f"note: the collected answers stay in parts: {run / 'ratings.parquet'} cannot be written (")
    assert files_of(run) == SHARDS
    pd.testing.assert_frame_equal(ratings_of(run), before)


@pytest.mark.parametrize("again", [False, True])
def test_no_space_is_said_to_be_that_also_where_the_file_is_written_anew(again, run, monkeypatch):
    if again:
        consolidate(run)
        with RunFolder(run) as folder:
            folder.write_shard(1, shard_rows(1, intensity=1.0))
    before, kept = ratings_of(run), files_of(run)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module._Hashed, "write", full)
        [line] = consolidate(run)
    assert line.endswith(
        "ratings.parquet cannot be written (No space left on device); free some space and give the "
        "same command again: what was collected is kept"
    )
    assert files_of(run) == kept
    pd.testing.assert_frame_equal(ratings_of(run), before)


def test_a_part_that_can_not_be_read_leaves_all_parts(run):
    (run / SHARDS[3]).write_bytes(b"no Parquet")
    [line] = consolidate(run)
    assert line.startswith("note: the collected answers stay in parts: ")
    assert "part-000003.parquet cannot be read (" in line
    assert files_of(run) == SHARDS


# --- A run that goes on -----------------------------------------------------------------------------------------------


def test_a_part_beside_the_file_takes_the_place_of_its_rows(run, tmp_path):
    sha256 = RunFolder(run).ratings_sha256()
    consolidate(run)
    with RunFolder(run) as folder:
        folder.write_shard(1, shard_rows(1, intensity=1.0))
        folder.write_shard(5, [row(N_PROMPTS, intensity=2.0)])
        apart = folder.read_ratings(n_prompts=N_PROMPTS + 1)
        assert folder.shards() == {0, 1, 2, 3, 4, 5}
        changed = folder.ratings_sha256()
    assert apart["prompt_index"].tolist() == list(range(N_PROMPTS + 1))
    assert (apart["intensity"] == 1.0).tolist() == [4 <= k < 7 for k in range(N_PROMPTS + 1)]
    assert changed != sha256
    consolidate(run)
    assert files_of(run) == ["ratings.parquet"]
    with RunFolder(run) as folder:
        pd.testing.assert_frame_equal(folder.read_ratings(n_prompts=N_PROMPTS + 1), apart)
        assert folder.ratings_sha256() == changed
    sizes = [[name, n] for name, n, _ in json.loads(metadata_of(run / "ratings.parquet")[b"audit.parts"])]
    assert sizes == [[f"part-{number:06}", size] for number, size in enumerate((*SIZES, 1))]


@pytest.mark.parametrize("seed", range(5))
def test_any_parts_beside_the_file_are_read_in_their_places(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(module, "_N_ROWS", rng.randint(1, 9))
    expected, begin = {}, 0
    with RunFolder(tmp_path / "run") as folder:
        for number in range(12):
            size = rng.choice((0, 1, 2, 5, 9))
            expected[number] = [(begin + k, 0.0) for k in range(size)]
            begin += size
        for turn in range(4):
            chosen = [number for number in expected if turn == 0 or rng.random() < 0.4]
            for number in chosen:
                expected[number] = [(index, float(turn)) for index, _ in expected[number]]
                rows = [row(index, intensity=intensity) for index, intensity in expected[number]]
                folder.write_shard(number, pd.DataFrame(rows, columns=list(RATINGS)))
            for _ in range(2):
                ratings = folder.read_ratings(n_prompts=begin)
                read = list(zip(ratings["prompt_index"], ratings["intensity"], strict=True))
                assert read == [each for number in range(12) for each in expected[number]]
                folder.consolidate(pytest.fail)
        assert files_of(tmp_path / "run") == ["ratings.parquet"]


def test_a_changed_file_has_another_hash(run):
    consolidate(run)
    sha256 = RunFolder(run).ratings_sha256()
    table = pq.read_table(run / "ratings.parquet")
    at = table.column_names.index("intensity")
    values = pa.array([0.0, *table["intensity"].to_pylist()[1:]])
    # All that the file says of itself is kept, and says what it was.
    pq.write_table(table.set_column(at, "intensity", values), run / "ratings.parquet")
    as_stored(run)  # what a ledger does not tell, the file itself does
    assert metadata_of(run / "ratings.parquet")[b"audit.parts_sha256"] == sha256.encode()
    changed = ratings_of(run)
    assert changed["intensity"][0] == 0
    assert (
        RunFolder(run).ratings_sha256() == hashlib.sha256((run / "ratings.parquet").read_bytes()).hexdigest() != sha256
    )


def test_words_of_replies_that_are_asked_again_lose_their_scores(tmp_path):
    texts = {
        "text": "I am sorry.", "status": "written", "n_prompt_tokens": 1, "n_tokens": 3, "n_dropped": 0,
    }  # fmt: skip
    from audit.tables.replies import REPLIES

    replies = [{name: (row(k) | texts)[name] for name in REPLIES} for k in range(3)]
    with RunFolder(tmp_path / "run") as folder:
        for k in range(3):
            folder.write_shard(k, [replies[k]], "replies")
            scores = pd.DataFrame({"prompt_index": [k], "measure": pd.Categorical(["length"]), "value": [k / 2]})
            write_scores(folder, "lexical", k, scores, {"length": {"n_words": k, "n_long": 0.5}} if k else {})
        write_scorer(folder, "lexical", {"asked": {}})
        scores, counts = read_scores(folder), score_counts(folder, "lexical")
        assert counts == {"length": {"n_words": 3, "n_long": 1.0}}
        folder.consolidate(pytest.fail)
        assert files_of(tmp_path / "run") == [
            "replies.parquet",
            "scores/lexical/scorer.json",
            "scores/lexical/scores.parquet",
        ]
        pd.testing.assert_frame_equal(read_scores(folder), scores)
        assert score_counts(folder, "lexical") == counts
        assert folder.parts(SCORES, "lexical").numbers() == {0, 1, 2}
        folder.write_shard(1, [replies[1] | {"text": "Oh."}], "replies")
        assert folder.parts(SCORES, "lexical").numbers() == {0, 2}
        assert read_scores(folder)["prompt_index"].tolist() == [0, 2]
        assert score_counts(folder, "lexical") == {"length": {"n_words": 2, "n_long": 0.5}}
        write_scores(folder, "lexical", 1, scores.iloc[[1]], {"length": {"n_words": 9}})
        assert score_counts(folder, "lexical") == {"length": {"n_words": 11, "n_long": 0.5}}
        folder.consolidate(pytest.fail)
        assert score_counts(folder, "lexical") == {"length": {"n_words": 11, "n_long": 0.5}}
        pd.testing.assert_frame_equal(read_scores(folder), scores)
        folder.clear("scores/lexical")
        assert folder.parts(SCORES, "lexical").numbers() == set()
        assert read_scores(folder).empty


@pytest.mark.parametrize("nth", range(1, 5))
def test_counts_are_not_lost_between_a_part_and_what_was_counted_beside_it(nth, tmp_path, monkeypatch):
    with RunFolder(tmp_path / "run") as folder:
        for k in range(2):
            scores = pd.DataFrame({"prompt_index": [k], "measure": pd.Categorical(["length"]), "value": [1.0]})
            write_scores(folder, "lexical", k, scores, {"length": {"n_words": 1}})
        with monkeypatch.context() as patch:
            count_down(patch, Path, "unlink", nth)
            with pytest.raises(Killed):
                folder.consolidate(pytest.fail)
        assert score_counts(folder, "lexical") == {"length": {"n_words": 2}}
        folder.consolidate(pytest.fail)
        assert score_counts(folder, "lexical") == {"length": {"n_words": 2}}
    assert files_of(tmp_path / "run") == ["scores/lexical/scores.parquet"]


def test_judged_ratings_and_judged_pairs_are_consolidated_and_cleared(tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.parts(OWN_GAP_RATINGS).write(part_name(1), pd.DataFrame([row(0)]))
        folder.consolidate(pytest.fail)
        assert files_of(tmp_path / "run") == ["judged.parquet"]
        assert folder.parts(OWN_GAP_RATINGS).numbers() == {1}
        assert len(folder.parts(OWN_GAP_RATINGS).frame()) == 1
        folder.clear("judged")
        assert folder.parts(OWN_GAP_RATINGS).numbers() == set()
        assert files_of(tmp_path / "run") == []
    empty = pd.DataFrame({name: [] for name in JUDGED_PAIRS})
    with JudgementFolder(tmp_path / "judgement") as folder:
        folder.parts(JUDGED_PAIRS).write(part_name(3), empty)
        folder.consolidate(pytest.fail)
        assert folder.parts(JUDGED_PAIRS).numbers() == {3}
        assert list(folder.parts(JUDGED_PAIRS).frame()) == list(JUDGED_PAIRS)
    assert files_of(tmp_path / "judgement") == ["pairs.parquet"]


# --- Other processes, damage and versions -----------------------------------------------------------------------------


@pytest.mark.parametrize("nth", range(1, len(SIZES) + 1))
def test_parts_that_another_process_consolidates_are_read_all_the_same(nth, run, monkeypatch):
    before, sha256 = ratings_of(run), RunFolder(run).ratings_sha256()
    for module_of, name, read in (
        (module, "read_parquet", ratings_of),
        (module, "reading", lambda path: RunFolder(path).ratings_sha256()),
    ):
        copy = shutil.copytree(run, run.with_name(f"copy-{name}"))
        really, calls = getattr(module_of, name), 0

        def meanwhile(*arguments, really=really, copy=copy):
            nonlocal calls
            calls += 1
            if calls == nth:
                monkeypatch.undo()
                consolidate(copy)
            return really(*arguments)

        monkeypatch.setattr(module_of, name, meanwhile)
        found = read(copy)
        assert files_of(copy) == ["ratings.parquet"]
        if name == "reading":
            assert found == sha256
        else:
            pd.testing.assert_frame_equal(found, before)


def test_a_run_that_may_only_be_read_is_read(run):
    consolidate(run)
    before = ratings_of(run)
    for path in (run / "ratings.parquet", run):
        path.chmod(0o555 if path == run else 0o444)
    try:
        pd.testing.assert_frame_equal(ratings_of(run), before)
    finally:
        run.chmod(0o755)


def cut(path):
    path.write_bytes(path.read_bytes()[:300])


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(bytes(content))


def write_as_pandas_does(path):
    pd.read_parquet(path).to_parquet(path)


def drop_a_row(path):
    pq.write_table(pq.read_table(path).slice(1), path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, ""),
        (change_a_byte, ""),
        (write_as_pandas_does, "it does not list its parts"),
        (drop_a_row, "it has 12 rows, but its parts had 13"),
    ],
)
def test_a_file_that_can_not_be_read_is_named_with_the_remedy(damage, said, run):
    consolidate(run)
    damage(run / "ratings.parquet")
    with pytest.raises(StoreError) as raised:
        ratings_of(run)
    [line] = str(raised.value).splitlines()
    assert f"ratings.parquet cannot be read ({said}" in line
    assert line.endswith(
        "restore it from a copy, or rename it and run the same command again: it collects all of it again"
    )


def test_parts_of_several_versions_become_one_file_of_today(run):
    path = run / SHARDS[1]
    table = pq.read_table(path).drop_columns(["wording"])
    pq.write_table(table.replace_schema_metadata({b"audit.table_version": b"3"}), path)
    as_stored(run)
    before = ratings_of(run)
    assert consolidate(run) == []
    pd.testing.assert_frame_equal(ratings_of(run), before)


def test_a_file_of_a_newer_version_is_said_to_be_one(run):
    consolidate(run)
    path = run / "ratings.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {b"audit.table_version": b"99"}), path)
    with pytest.raises(StoreError, match=r"ratings.parquet was written by a newer version of empathy-audit"):
        ratings_of(run)


def says(path, **said):
    """Write a consolidated file's rows anew, with other words about its parts; its hash of its data is left out."""
    table = pq.read_table(path)
    told = {f"audit.{name}".encode(): json.dumps(value).encode() for name, value in said.items()}
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | told), path)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (
            {"parts": [["x", 13, ""]]},
            "it lists a part 'x', which is not the name of a part or has a negative number of rows",
        ),
        (
            {"parts": [["part-000000", -1, ""], ["part-000001", 14, ""]]},
            "part 'part-000000', which is not the name of a part or has a negative number of rows",
        ),
        ({"parts": [["part-000000", 6, ""], ["part-000000", 7, ""]]}, "it lists a part twice"),
        ({"parts": 3}, "it does not list its parts"),
        ({"counts": []}, "it does not list its parts"),
        ({"counts": {"part-000000": {"length": 3}}}, "it does not list its parts"),
    ],
)
def test_a_file_that_says_what_no_file_of_ours_does_is_refused(said, complaint, run):
    consolidate(run)
    says(run / "ratings.parquet", **said)
    with pytest.raises(StoreError, match=complaint):
        ratings_of(run)
    with pytest.raises(StoreError, match=complaint):
        RunFolder(run).shards()


def test_a_column_that_stands_twice_is_damage(run):
    path = run / SHARDS[1]
    table = pq.read_table(path)
    pq.write_table(table.append_column("response", table["response"]), path)
    with pytest.raises(StoreError, match="its columns are not those of ratings: response occurs twice"):
        ratings_of(run)
