"""What was damaged of a run comes back, or is moved and asked anew; what is printed is followed."""

import gzip
import json
import os
import re
import shlex
import shutil
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from finished_runs import RUNS
from runs import as_stored, command_fixture, in_parts, of_before
from test_planted_strategy import Scripted

from audit.cli.main import main
from audit.errors import StoreError
from audit.runs.manifest import COPY, Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import ASKED_AGAIN, RATINGS
from audit.tables.replies import SCORES
from audit.tables.stages import STAGES
from audit.tasks.reply.scoring import score_counts, write_scores

pytestmark = pytest.mark.long

WORDS = RUNS["stages"].words


command = command_fixture("recovered", Scripted)


@pytest.fixture(scope="session")
def once(finished_run):
    """A run with stages, checks and two dimensions, one of them invented; not to be written to."""
    return finished_run("stages")


@pytest.fixture(autouse=True)
def made_anew(command):
    """Leave no run of what was recovered to the next test."""
    yield
    shutil.rmtree(command.folder / "run-recovered", ignore_errors=True)


@pytest.fixture(params=["consolidated", "parts"])
def run(request, once, command):
    """A copy of it, where it was made, and its ratings, once as one file a table and once in parts."""
    folder = shutil.copytree(once, command.folder / "run")
    if request.param == "parts":
        in_parts(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def copied(once, command):
    """A copy where it was made, one file a table."""
    yield shutil.copytree(once, command.folder / "run")
    shutil.rmtree(command.folder / "run")


@pytest.fixture
def parts(once, command):
    """The same in parts alone."""
    folder = in_parts(shutil.copytree(once, command.folder / "run"))
    yield folder
    shutil.rmtree(folder)


def ratings_of(folder):
    return RunFolder(folder).read_ratings(n_prompts=Manifest.read(folder).n_prompts)


def assert_same(folder, once):
    """The same ratings, stages and tables, whatever was asked anew."""
    pd.testing.assert_frame_equal(ratings_of(folder), ratings_of(once))
    pd.testing.assert_frame_equal(RunFolder(folder).parts(STAGES).frame(), RunFolder(once).parts(STAGES).frame())
    assert (folder / "tables" / "gap.csv").read_bytes() == (once / "tables" / "gap.csv").read_bytes()
    assert Manifest.read(folder).status == "complete"


def followed(command, printed):
    """Give the command that recover named last, and return its exit code."""
    python, dash, module, *words = shlex.split(printed.splitlines()[-1])
    assert (python, dash, module) == ("python", "-m", "audit")
    return command(*words)


def files_of(folder):
    """Return the content of all files but what is written anew."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (".lock", "ledger.jsonl", "manifest.json", COPY)
    }


# --- The manifest -----------------------------------------------------------------------------------------------------


def test_a_run_s_manifest_has_a_copy_that_is_written_first(once, tmp_path, monkeypatch):
    assert (once / COPY).read_bytes() == (once / "manifest.json").read_bytes()
    written = []
    monkeypatch.setattr("audit.runs.ledger.Ledger.write", lambda self, name, content: written.append(name))
    with RunFolder(tmp_path / "run") as folder:
        folder.write_manifest(Manifest.of({"n_prompts": 1}))
    assert written == [COPY, "manifest.json"]


BROKEN = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "gone": lambda path: path.unlink(),
    "a list": lambda path: path.write_text("[]"),
    "null": lambda path: path.write_text("null"),
    "no version": lambda path: edit(path, schema_version=None),
    "nested": lambda path: path.write_text("[" * 100_000),
    "a field of another type": lambda path: edit(path, scale=[0, 100]),
    "no prompts": lambda path: edit(path, n_prompts=None),
    "other prompts": lambda path: edit(path, n_prompts=7),
    "nan": lambda path: path.write_text(path.read_text().replace('"seed": 0', '"seed": NaN')),
    "huge": lambda path: path.write_text(path.read_text().replace('"seed": 0', '"seed": 1e999')),
    "belongs to another run or": lambda path: edit(path, identity={"prompt": {"variant": "other"}}),
}


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("damage", BROKEN)
def test_a_manifest_that_is_gone_or_damaged_comes_back_from_its_copy(damage, copied, command, once, capsys):
    BROKEN[damage](copied / "manifest.json")
    before = files_of(copied)
    if damage not in (
        "other prompts",
        "belongs to another run or",
    ):  # of these, what is wrong is known by the prompts alone
        with pytest.raises(StoreError, match=r"python -m audit recover \S+/run restores it from its copy") as raised:
            Manifest.read(copied)
        assert "\n" not in str(raised.value)
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "restored: manifest.json, from its copy\n" in printed
    assert ("set aside: manifest.json -> set-aside/manifest.json (" in printed) is (damage != "gone")
    assert (copied / "manifest.json").read_bytes() == (once / "manifest.json").read_bytes()
    assert printed.endswith("next: nothing that was collected is missing\n")
    assert {name: files_of(copied)[name] for name in before} == before


@pytest.mark.parametrize("damage", ["cut", "gone", "other prompts"])
def test_what_a_run_says_of_a_damaged_manifest_is_followed(damage, copied, command, once, capsys):
    BROKEN[damage](copied / "manifest.json")
    assert command("run", *WORDS, "run_dir=run") == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit: ")]
    [shown] = re.findall(r"python -m audit (recover \S+)", line)
    assert command(*shlex.split(shown)) == 0
    assert command("report", "run") == 0
    assert command("run", *WORDS, "run_dir=run") == 0
    assert_same(copied, once)


def test_what_is_whole_is_left_as_it_is(run, command, capsys):
    before, manifest = files_of(run), (run / "manifest.json").read_bytes()
    assert command("recover", "run") == 0
    assert (
        "next: nothing is wrong: every file that was collected is in place and can be read" in capsys.readouterr().out
    )
    assert (files_of(run), (run / "manifest.json").read_bytes()) == (before, manifest)


def test_a_copy_that_is_gone_or_damaged_is_written_anew(copied, once, command):
    (copied / COPY).unlink()  # as in a run of an earlier version
    assert command("recover", "run") == 0
    assert (copied / COPY).read_bytes() == (once / COPY).read_bytes()
    (copied / COPY).write_bytes(b"{")
    assert command("recover", "run") == 0
    assert (copied / COPY).read_bytes() == (once / COPY).read_bytes()
    assert (copied / "set-aside" / COPY).read_bytes() == b"{"


# --- Parts ------------------------------------------------------------------------------------------------------------


def flip(path):
    """Change a bit of a value: without a ledger, only the checksums of pages tell."""
    column = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1] ^= 0x10
    path.write_bytes(content)


def other_rows(folder, number, change):
    """Write a shard's rows anew, changed."""
    with RunFolder(folder) as opened:
        rows = opened._collected("ratings").read_part(f"part-{number:06d}").to_pandas()
        opened.write_shard(number, change(rows)[list(RATINGS)])


PARTS = {
    "cut": lambda run: cut(run / "ratings/part-000001.parquet"),
    "empty": lambda run: (run / "ratings/part-000001.parquet").write_bytes(b""),
    "text": lambda run: (run / "ratings/part-000001.parquet").write_text("prompt_index,intensity\n"),
    "flipped": lambda run: flip(run / "ratings/part-000001.parquet"),
    "doubled": lambda run: shutil.copy(run / "ratings/part-000001.parquet", run / "ratings/part-000007.parquet"),
    "in the place of another": lambda run: shutil.copy(
        run / "ratings/part-000001.parquet", run / "ratings/part-000002.parquet"
    ),
    "beyond the scale": lambda run: other_rows(run, 1, lambda rows: rows.assign(intensity=5000.0, status="rated")),
    "of other labels": lambda run: other_rows(run, 1, lambda rows: rows.assign(perceiver="a Martian")),
    "a prompt twice": lambda run: other_rows(
        run, 1, lambda rows: rows.assign(prompt_index=[*rows.prompt_index[:-1], 20])
    ),
    "too few": lambda run: other_rows(run, 1, lambda rows: rows[:-1]),
    "a stage": lambda run: cut(run / "stages/part-000001-00.parquet"),
    "a foreign stage": lambda run: shutil.copy(
        run / "stages/part-000001-00.parquet", run / "stages/part-000000-00.parquet"
    ),
    "no such stage": lambda run: shutil.copy(
        run / "stages/part-000001-00.parquet", run / "stages/part-000001-09.parquet"
    ),
    "a check": lambda run: cut(run / "asked_again.parquet"),
    "prompts": lambda run: cut(run / "prompts.json.gz"),
}


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def moved_by(printed):
    """Return what was moved where."""
    return dict(re.findall(r"^set aside: (\S+) -> (set-aside/\S+) \(.+\)$", printed, re.MULTILINE))


@pytest.mark.parametrize("damage", PARTS)
def test_parts_that_are_damaged_doubled_or_foreign_are_moved(damage, parts, command, once, capsys):
    PARTS[damage](parts)
    damaged = set(files_of(parts).values())
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    moved = moved_by(printed)
    assert moved
    assert all((parts / place).is_file() and not (parts / name).exists() for name, place in moved.items())
    assert set(files_of(parts).values()) == damaged, "nothing is deleted, and nothing changed"
    with_stages = {"ratings/part-000001.parquet"} if damage == "a stage" else set()
    assert with_stages <= set(moved), "a shard whose stages are asked again is asked again"
    assert ("to ask what is missing and analyse everything:" in printed) is (damage != "prompts")
    assert command("recover", "run") == 0  # a second time there is nothing to do
    assert not moved_by(capsys.readouterr().out)


def test_what_was_moved_is_asked_anew_by_the_command_that_is_named(parts, command, once, capsys):
    cut(parts / "ratings/part-000000.parquet")
    for damage in ("in the place of another", "doubled", "beyond the scale"):  # shards 2, 7 and 1
        PARTS[damage](parts)
    cut(parts / "stages/part-000003-00.parquet")
    cut(parts / "asked_again.parquet")
    capsys.readouterr()
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert set(moved_by(printed)) == {
        *(f"ratings/part-00000{number}.parquet" for number in (0, 1, 2, 3, 7)),
        "stages/part-000003-00.parquet", "asked_again.parquet",
    }  # fmt: skip
    assert followed(command, printed) == 0
    assert_same(parts, once)
    answers = [RunFolder(folder).table(ASKED_AGAIN).frame() for folder in (parts, once)]
    pd.testing.assert_frame_equal(*answers)


@pytest.mark.parametrize("damage", ["footer", "no footer", "middle", "a foreign part", "a rating"])
def test_a_consolidated_file_gives_the_parts_that_are_whole(damage, parts, command, once, monkeypatch, capsys):
    monkeypatch.setattr("audit.runs.parts._N_ROWS", 20)  # a row group a part
    folder = parts
    if damage == "a rating":
        other_rows(folder, 1, lambda rows: rows.assign(intensity=5000.0, status="rated"))
    if damage == "a foreign part":
        shutil.copy(folder / "ratings/part-000001.parquet", folder / "ratings/part-000009.parquet")
    n_parts = len(list((folder / "ratings").glob("*")))
    with RunFolder(folder) as opened:
        opened.consolidate()
    path = folder / "ratings.parquet"
    content = bytearray(path.read_bytes())
    if damage == "footer":
        content[-6] ^= 0x10  # of how long it is
    elif damage == "no footer":
        content = content[: len(content) // 2]
    elif damage == "middle":
        content[100] ^= 0x10
    path.write_bytes(content)
    capsys.readouterr()
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "set aside: ratings.parquet -> set-aside/ratings.parquet (" in printed
    assert (folder / "set-aside" / "ratings.parquet").read_bytes() == content
    kept = 0 if "footer" in damage else n_parts - 1
    assert len(list((folder / "ratings").glob("*")) if kept else []) == kept
    assert ("asked again" if not kept else f"{kept} parts of it kept") in printed
    if damage in ("footer", "a rating"):
        assert followed(command, printed) == 0
        assert_same(folder, once)


def test_a_report_of_what_is_left_can_be_made_before_it_is_asked_anew(parts, command, capsys):
    flip(parts / "ratings/part-000001.parquet")
    assert command("report", "run") == 2
    line = capsys.readouterr().err
    assert "python -m audit recover run sets it aside, and the same run command collects that part again" in line
    assert command("recover", "run") == 0
    assert command("report", "run") == 0
    assert Manifest.read(parts).status == "running"


def test_what_is_moved_twice_keeps_both(parts, command):
    for _ in range(2):
        flip(parts / "ratings/part-000001.parquet")
        assert command("recover", "run") == 0
        shutil.copy(parts / "ratings/part-000000.parquet", parts / "ratings/part-000001.parquet")
    assert sorted(path.name for path in (parts / "set-aside/ratings").iterdir()) == [
        "part-000001.parquet", "part-000001.parquet.2",
    ]  # fmt: skip


# --- Neither manifest -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", [True, False], ids=["with prompts", "without"])
def test_without_any_manifest_the_ratings_become_tables_that_a_report_reads(prompts, run, command, once, capsys):
    (run / "manifest.json").write_bytes(b"{")
    (run / COPY).unlink()
    if not prompts:
        (run / "prompts.json.gz").unlink()
    (run / ".lock").unlink(missing_ok=True)
    assert command("report", "run") == 2
    assert "python -m audit recover run restores it from its copy, or saves what was colle" in capsys.readouterr().err
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "manifest.json: it cannot be read" in printed
    assert f"{COPY}: it is gone\n" in printed
    assert (run / "manifest.json").read_bytes() == b"{"
    if not prompts:  # nothing says what the scale was
        assert "(LOW and HIGH are the ends of the scale, which are not recorded here)" in printed
        printed = printed.replace("low=LOW high=HIGH", "low=0 high=100")
    else:
        assert "invented_1 is a set of invented groups" in printed
    assert followed(command, printed) == 0
    made = command.folder / "run-recovered"
    theirs, ours = ratings_of(once), ratings_of(made)
    labels = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "in_group", "intensity"]
    for label in (*labels, "status"):
        assert ours[label].astype(object).tolist() == theirs[label].astype(object).tolist() or label == "intensity"
    assert ours["intensity"].fillna(-1).tolist() == theirs["intensity"].fillna(-1).tolist()
    gap, before = (pd.read_csv(folder / "tables" / "gap.csv") for folder in (made, once))
    [ours, theirs] = [table.loc[table["dimension"] == "religion", "delta"].to_numpy() for table in (gap, before)]
    assert ours[0] == theirs[0]


def test_what_cannot_be_read_or_is_there_twice_is_left_out_of_the_tables_and_named(parts, command, capsys):
    for name in ("manifest.json", COPY):
        (parts / name).unlink()
    flip(parts / "ratings/part-000001.parquet")
    shutil.copy(parts / "ratings/part-000000.parquet", parts / "ratings/part-000009.parquet")
    before = files_of(parts)
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "left out: run/ratings/part-000001.parquet cannot be read (" in printed
    assert "left out: 20 rows that are there twice\n" in printed
    assert {name: files_of(parts)[name] for name in before} == before
    assert followed(command, printed) == 0


def altered(path, **columns):
    """Write a part anew with other values, a list of them or those of another column, which Arrow reads as before."""
    before = table = pq.read_table(path)
    for name, values in columns.items():
        values = before[values].to_pylist() if isinstance(values, str) else values
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)


def elsewhere(parts):
    """Bring a part of another run, of other prompts."""
    path = shutil.copy(parts / "ratings/part-000000.parquet", parts / "ratings/part-000009.parquet")
    index = [place + 5_000 for place in pq.read_table(path)["prompt_index"].to_pylist()]
    altered(path, prompt_index=index, narrative_id=["belongs to another run or"] * 20, intensity=[99.0] * 20)


NOT_ANSWERED = {
    "a rating that was changed": (
        lambda parts: altered(parts / "ratings/part-000001.parquet", intensity=[99.0] * 20),
        "left out: ratings/part-000001.parquet has changed since it was stored (its SHA-256 differs) (20 rows)",
    ),
    "a part of another run": (
        elsewhere,
        "left out: ratings/part-000009.parquet was not stored by this run (20 rows)",
    ),
    "perceivers and experiencers changed places": (
        lambda parts: altered(
            parts / "ratings/part-000001.parquet",
            perceiver="experiencer",
            experiencer="perceiver",
            intensity=[99.0] * 20,
        ),
        "left out: ratings/part-000001.parquet has changed since it was stored (its SHA-256 differs) (20 rows)",
    ),
}


@pytest.mark.parametrize("kind", NOT_ANSWERED)
def test_what_this_run_was_not_answered_is_in_no_table_that_is_rescued(kind, parts, command, once, capsys):
    as_stored(parts)
    spoil, said = NOT_ANSWERED[kind]
    spoil(parts)
    for name in ("manifest.json", COPY):
        (parts / name).unlink()
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert_rescued(parts, once, n_lost=0 if "another run" in kind else 20)
    assert followed(command, printed) == 0


@pytest.mark.parametrize("kind", ["a part of another run", "perceivers and experiencers changed places"])
def test_without_a_ledger_the_prompts_say_which_rows_are_of_this_run(kind, parts, command, once, capsys):
    spoil, _ = NOT_ANSWERED[kind]
    spoil(parts)
    for name in ("manifest.json", COPY):
        (parts / name).unlink()
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert re.search(r"left out: \d+ rows that are about others than their prompts, by prompts.json.gz", printed)
    assert "that have two different ones" not in printed  # so the right one of the two stays
    rescued = pd.read_csv(parts / "recovered" / "ratings.csv")
    theirs = ratings_of(once).set_index("prompt_index")
    for label in ("narrative_id", "perceiver", "experiencer"):
        assert rescued[label].tolist() == theirs.loc[rescued["prompt_index"], label].astype(str).tolist()
    assert followed(command, printed) == 0


def test_ratings_beyond_the_scale_are_left_out_and_named(parts, command, once, capsys):
    altered(parts / "ratings/part-000001.parquet", intensity=[5_000.0] * 20, status=["rated"] * 20)
    for name in ("manifest.json", COPY):
        (parts / name).unlink()
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "left out: 20 ratings beyond the scale from 0 to 100\n" in printed
    assert_rescued(parts, once, n_lost=20)
    assert followed(command, printed) == 0


def test_prompts_of_another_run_take_no_row_from_what_is_rescued(parts, command, once, capsys):
    content = json.loads(gzip.decompress((parts / "prompts.json.gz").read_bytes()))
    for each in content["narratives"]["narratives"]:
        each["narrative_id"] = f"other-{each['narrative_id']}"
    (parts / "prompts.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    for name in ("manifest.json", COPY):
        (parts / name).unlink()
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "note: prompts.json.gz does not belong to these ratings and was not used\n" in printed
    assert "low=LOW high=HIGH" in printed
    assert_rescued(parts, once, n_lost=0)


def assert_rescued(folder, once, *, n_lost):
    """Every row that was written is one of the run's, with its rating."""
    rescued = pd.read_csv(folder / "recovered" / "ratings.csv").set_index("prompt_index")
    theirs = ratings_of(once).set_index("prompt_index")
    assert len(rescued) == len(theirs) - n_lost
    theirs = theirs.loc[rescued.index]
    for label in ("narrative_id", "perceiver", "experiencer", "status"):
        assert rescued[label].tolist() == theirs[label].astype(str).tolist()
    assert rescued["rating"].fillna(-1).tolist() == theirs["intensity"].fillna(-1).tolist()


def test_a_run_of_an_earlier_version_has_no_copy(tmp_path, monkeypatch, capsys):
    with tarfile.open(Path(__file__).parent / "old_runs" / "477f470.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    for run in ("example", "example-replies"):
        (Path(run) / "manifest.json").unlink()
        assert main(["recover", run]) == 0
    printed = capsys.readouterr().out
    assert "the folder has replies, from which no command makes a run without a manifest\n" in printed
    [line] = [line for line in printed.splitlines() if line.startswith("python ")]
    words = shlex.split(line.replace("LOW", "0").replace("HIGH", "100"))[3:]
    assert main(words) == 0
    assert Manifest.read(tmp_path / "example-recovered").n_prompts > 100


FOOTBALL = [
    ("a fan of the Reds", "Reds", "a player of the Reds", "Reds player", True),
    ("a fan of the Reds", "Reds", "a player of the Blues", "Blues player", False),
    ("a fan of the Blues", "Blues", "a player of the Reds", "Reds player", False),
    ("a fan of the Blues", "Blues", "a player of the Blues", "Blues player", True),
]


def sided(pairs, dimension="football"):
    """Return ratings of pairs: a prompt each."""
    from test_store import row

    names = ("perceiver", "perceiver_group", "experiencer", "experiencer_group", "in_group")
    return [
        row(
            k,
            dimension=dimension,
            n_shared=None if pair[4] is None else int(pair[4]),
            **dict(zip(names, pair, strict=True)),
        )
        for k, pair in enumerate(pairs)
    ]


def test_groups_of_two_sides_have_one_name_where_they_are_one_and_else_are_left_out(tmp_path, capsys):
    with RunFolder(tmp_path / "run") as folder:
        rows = sided(FOOTBALL)
        # Whoever is of one's own for two others that are not of each other's: no group a term can say that.
        both = sided([("A", "A", "C", "C", True), ("B", "B", "C", "C", True), ("A", "A", "B", "B", False)], "mixed")
        folder.write_shard(0, [*rows, *({**each, "prompt_index": 4 + k} for k, each in enumerate(both))])
    assert main(["recover", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert (
        "left out: dimension mixed, in which an identity is of the own group of several others (3 ratings)" in printed
    )
    groups = pd.read_csv(tmp_path / "run" / "recovered" / "groups.csv").set_index("term")["group"]
    assert groups["a fan of the Reds"] == groups["a player of the Reds"]
    assert groups["a fan of the Blues"] == groups["a player of the Blues"]
    assert groups.nunique() == 2


# --- What it does not take --------------------------------------------------------------------------------------------


def test_what_is_no_run_is_refused_and_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "manifest.json").write_text('{"schema_version": 2}')
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "manifest.json").write_text('{"kind": "comparison", "schema_version": 1}')
    for name, said in (
        ("nowhere", "nowhere is not a folder; give a run"),
        ("file", "file is not a folder; give a run"),
        ("notes", "notes has no files of a run; give a run folder"),
        ("later", "this version of empathy-audit reads 1: upgrade empathy-audit"),
        ("compared", "compared is not a run folder: it has a comparison of runs"),
    ):
        assert main(["recover", name]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    assert os.listdir(tmp_path / "notes") == ["a.txt"]


def test_a_run_that_is_being_written_is_not_touched(once, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(once, tmp_path / "run")
    (folder / "manifest.json").unlink()
    with RunFolder(folder):
        assert main(["recover", str(folder)]) == 2
    assert "is in use by another run; wait for it" in capsys.readouterr().err
    assert not (folder / "manifest.json").exists()


def test_a_folder_that_cannot_be_written_ends_in_one_line(once, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(once, tmp_path / "run")
    (folder / "manifest.json").write_text("{")
    (folder / "set-aside").write_text("a file of that name")
    assert main(["recover", str(folder)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "set-aside/manifest.json cannot be written (" in line
    assert (folder / "manifest.json").read_text() == "{"
    with pytest.raises(StoreError):
        Manifest.read(folder)


@pytest.mark.parametrize("what", ["later", "forbidden"])
def test_a_file_that_may_be_whole_is_not_moved(what, parts, command, monkeypatch, capsys):
    path = parts / "ratings/part-000001.parquet"
    if what == "later":
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({"audit.table_version": "99"}), path)
    else:  # as root may read everything, pyarrow says so in its stead
        real = pq.ParquetFile

        def opened(source, **options):
            if Path(source).name == path.name:
                raise PermissionError(13, "Permission denied", str(source))
            return real(source, **options)

        monkeypatch.setattr("audit.runs.parquet.pq.ParquetFile", opened)
    before = files_of(parts)
    assert command("recover", "run") == 2
    said = {"later": "was written by a newer version of empathy-audit", "forbidden": "Permission denied"}
    assert said[what] in capsys.readouterr().err
    assert files_of(parts) == before


@pytest.mark.skipif(os.name == "nt", reason="needs names that are bytes")
def test_a_folder_whose_name_is_no_utf_8_is_like_any_other(once, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9")
    folder = shutil.copytree(once, name)
    before = files_of(Path(folder))
    assert main(["recover", name]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    assert files_of(Path(folder)) == before
    (Path(folder) / "manifest.json").unlink()
    assert main(["recover", name]) == 0
    assert main(["gate", name, "margin=2"]) in (0, 1, 3)


# --- By the ledger ----------------------------------------------------------------------------------------------------


def test_a_rating_changed_within_the_scale_is_set_aside_and_the_other_parts_are_kept(copied, command, once, capsys):
    path = copied / "ratings.parquet"
    table = pq.read_table(path)
    columns = table.to_pydict()
    columns["intensity"][5] = 99.0
    pq.write_table(pa.Table.from_pydict(columns, schema=table.schema), path)
    n_parts = len(json.loads(pq.read_metadata(once / "ratings.parquet").metadata[b"audit.parts"]))
    assert command("recover", "run") == 0
    printed = capsys.readouterr().out
    assert "its SHA-256 differs)" in printed
    assert f"{n_parts - 1} parts of it kept" in printed
    assert followed(command, printed) == 0
    assert_same(copied, once)
    assert command("verify", "run") == 0
    assert "accepted as" not in (copied / "report.html").read_text()


def test_an_edited_manifest_comes_back_from_its_copy(copied, command, once, capsys):
    edit(copied / "manifest.json", model={"name": "a better model"})
    assert command("recover", "run") == 0
    assert "restored: manifest.json, from its copy" in capsys.readouterr().out
    assert (copied / "manifest.json").read_bytes() == (once / "manifest.json").read_bytes()
    assert command("verify", "run") == 0


def test_what_cannot_be_asked_anew_is_taken_as_it_is_and_the_report_says_so(copied, command, capsys):
    (copied / "ledger.jsonl").write_bytes(b"{}\n")
    assert command("report", "run") == 2
    assert "line 1 cannot be read; restore it from a copy, or python -m audit recover run restores" in (
        capsys.readouterr().err
    )
    assert command("recover", "run") == 0
    assert "started again: ledger.jsonl, which line 1 cannot be read (the report says so)" in capsys.readouterr().out
    assert (copied / "ledger.before-1.jsonl").read_bytes() == b"{}\n"
    assert command("report", "run") == 0
    assert "was accepted as it is: ledger.jsonl." in (copied / "report.html").read_text()


# --- Every remedy that a fault names, followed ------------------------------------------------------------------------


def faulted(command, capsys, *words):
    """Return the line in which a command ends."""
    capsys.readouterr()
    assert command(*words) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit: ")]
    return line


def named(line, *, run="run"):
    """Return the words of the recover that a line names."""
    [shown] = re.findall(rf"python -m audit (recover {run})\b", line)
    return shlex.split(shown)


def test_a_doubled_shard_no_longer_loops(parts, command, once, capsys):
    shutil.copy(parts / "ratings/part-000001.parquet", parts / "ratings/part-000007.parquet")
    assert command("run", *WORDS, "run_dir=run") == 2  # asking again cannot mend it
    line = faulted(command, capsys, "report", "run")
    assert ("holds 82 of 82 prompts in 102 rows; python -m audit recover run sets aside rows without a prompt") in line
    assert command(*named(line)) == 0
    assert followed(command, capsys.readouterr().out) == 0
    assert_same(parts, once)


def test_a_shard_that_is_gone_is_asked_by_the_command_in_the_manifest(parts, command, once, capsys):
    (parts / "ratings/part-000001.parquet").unlink()
    line = faulted(command, capsys, "report", "run")
    assert line.endswith("holds 62 of 82 prompts in 62 rows; run the command in its manifest.json again to complete it")
    assert command(*shlex.split(Manifest.read(parts).command)[3:]) == 0
    assert_same(parts, once)


def test_what_lies_beyond_the_scale_is_asked_anew(parts, command, once, capsys):
    PARTS["beyond the scale"](parts)
    line = faulted(command, capsys, "report", "run")
    assert "has the rating 5000 on a scale from 0 to 100 (20 in all are beyond it)" in line
    assert command(*named(line)) == 0
    assert followed(command, capsys.readouterr().out) == 0
    assert_same(parts, once)


def test_a_part_of_a_run_without_a_copy_is_set_aside_by_hand(parts, command, once, capsys):
    (parts / COPY).unlink()
    path = parts / "ratings/part-000001.parquet"
    cut(path)
    line = faulted(command, capsys, "report", "run")
    assert "restore it from a copy, or rename it and run the same command again" in line
    path.rename(path.with_name("damaged.parquet"))
    assert command("run", *WORDS, "run_dir=run") == 0
    assert_same(parts, once)


def test_a_stage_that_is_gone_is_not_needed_without_the_checks(copied, command, capsys):
    (of_before(copied) / "stages.parquet").unlink()
    more = [word for word in WORDS if "noise_sample" not in word]
    line = faulted(command, capsys, "run", *more, "elicitation.noise_sample=9", "run_dir=run")
    assert "is missing; give elicitation.check_sample=0 elicitation.noise_sample=0, or restore the file" in line
    assert command("run", *more, "elicitation.check_sample=0", "elicitation.noise_sample=0", "run_dir=run") == 0


def test_a_stage_of_other_prompts_is_set_aside(parts, command, once, capsys):
    (parts / "ratings/part-000000.parquet").unlink()
    PARTS["a foreign stage"](parts)
    line = faulted(command, capsys, "run", *WORDS, "run_dir=run")
    assert ("does not belong to this run; python -m audit recover run sets it aside, or choose another run_dir") in line
    assert command(*named(line)) == 0
    assert followed(command, capsys.readouterr().out) == 0
    assert_same(parts, once)


def test_ratings_without_any_manifest_are_not_mixed_with_others(copied, command, once, capsys):
    for name in ("manifest.json", COPY):
        (copied / name).unlink()
    line = faulted(command, capsys, "run", *WORDS, "run_dir=run")
    assert "run has ratings or stages but no manifest.json; python -m audit recover run restores it from its" in line
    assert command(*named(line)) == 0
    capsys.readouterr()
    assert command("run", *WORDS, "run_dir=another") == 0
    assert_same(command.folder / "another", once)
    shutil.rmtree(command.folder / "another")


def test_ratings_of_another_tool_that_are_damaged_are_read_again(tmp_path, monkeypatch, capsys):
    from planted import few_narratives

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    words = [*few_narratives().write(Path("in")), "statistics.n_permutations=100"]
    assert main(["report", *words]) == 0
    before = ratings_of(Path("in/run"))
    cut(Path("in/run/ratings.parquet"))
    line = faulted(lambda *words: main(list(words)), capsys, "report", "in/run")
    assert main(named(line, run="in/run")) == 0
    assert followed(lambda *words: main(list(words)), capsys.readouterr().out) == 0
    pd.testing.assert_frame_equal(ratings_of(Path("in/run")), before)


def replies_run(folder):
    """Make a run of two replies, scored, with what was counted, without a model."""
    from test_store import row

    from audit.tables.replies import REPLIES

    texts = {"text": "a", "status": "written", "n_prompt_tokens": 1, "n_tokens": 1, "n_dropped": 0}
    manifest = Manifest.of({"n_prompts": 2, "shard_size": 1, "status": "complete", "task": {"kind": "reply"}})
    with RunFolder(folder) as opened:
        opened.write_manifest(manifest)
        for k in range(2):
            opened.write_shard(k, [{name: (row(k) | texts)[name] for name in REPLIES}], "replies")
            scores = pd.DataFrame({"prompt_index": [k], "measure": pd.Categorical(["n"]), "value": [1.0]})
            write_scores(opened, "lexical", k, scores, {"n": {"cut": 1}})
    return folder


def test_scores_go_with_what_was_counted_beside_them_and_with_their_replies(tmp_path, capsys):
    run = replies_run(tmp_path / "run")
    (run / "scores/lexical/part-000000.json").write_text("[")
    assert main(["recover", str(run)]) == 0
    assert set(moved_by(capsys.readouterr().out)) == {
        f"scores/lexical/part-000000.{kind}" for kind in ("json", "parquet")
    }
    assert score_counts(RunFolder(run), "lexical") == {"n": {"cut": 1}}
    cut(run / "replies/part-000001.parquet")
    assert main(["recover", str(run)]) == 0
    assert set(moved_by(capsys.readouterr().out)) == {
        "replies/part-000001.parquet", "scores/lexical/part-000001.parquet", "scores/lexical/part-000001.json",
    }  # fmt: skip
    assert RunFolder(run).parts(SCORES, "lexical").numbers() == set()
