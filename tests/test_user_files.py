"""Files that a user names: which are opened at all, and that one table reads the same whichever program wrote it."""

from __future__ import annotations

import codecs
import json
import math
import os
import threading
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.engines.answered import read_answers_file
from audit.engines.gguf import read_header
from audit.engines.templates import read_template
from audit.errors import AuditError, ConfigError, ModelError, StoreError
from audit.people.questions import load_questions
from audit.people.ratings import read_key
from audit.runs.csv_tables import read_table
from audit.runs.manifest import Manifest
from audit.runs.outside import read_outside
from audit.runs.parquet import read_parquet
from audit.runs.prompts import PromptsAsked
from audit.runs.told import read_ledger as read_ledger
from audit.tables.gap import GAP
from audit.tables.ratings import RATINGS
from audit.tasks.measures.lexicon import load_lexicon
from stimuli.conversations import read_conversations
from stimuli.covariates import read_covariates
from stimuli.errors import StimulusError
from stimuli.examples import load_pool
from stimuli.files import LARGEST_TABLE, LARGEST_TEXT, read_file
from stimuli.human import read_human
from stimuli.identities import load_dimensions
from stimuli.inventories import read_inventory
from stimuli.narratives import load_narratives
from stimuli.prompts import read_published_variant
from stimuli.stereotypes import load_stereotypes
from stimuli.strategy_labels import read_levels
from stimuli.tables import read_cells, read_numbers

FAULTS = (StimulusError, AuditError, OSError)
COLUMNS = {"narrative_id": "id", "emotion": "emotion", "neutral": "text"}
OF_CORPUS = {name: name for name in ("conversation_id", "turn", "speaker", "text", "emotion")}
SHARED = Path(__file__).parents[2] / "shared" / "data" / "tables"
READERS = {
    "own_identities": lambda path: load_dimensions("geneva", own=path),
    "narratives": lambda path: load_narratives("csv", path=path, columns=COLUMNS),
    "conversations": lambda path: read_conversations(path, OF_CORPUS, history=None),
    "human": lambda path: read_human(path, ["a"], id_column="a", rating_column="b"),
    "covariates": read_covariates,
    "examples": lambda path: load_pool(path, {"example_id": "a", "text": "b", "answer": "c"}),
    "levels": lambda path: read_levels(path, ["a"], ["b"]),
    "inventory": read_inventory,
    "stereotypes": load_stereotypes,
    "lexicon": load_lexicon,
    "published prompts": lambda path: read_published_variant("1-person", path),
    "questions": load_questions,
    "key": read_key,
    "ratings": lambda path: read_outside(path, path, low=0, high=1),
    "answers": lambda path: read_answers_file(path, export="e", n_prompts=2),
    "chat template": lambda path: read_template(str(path)),
    "model": lambda path: read_header(path, "model.path"),
    "published table": lambda path: read_table(path, GAP),
    "part of a run": lambda path: read_parquet(path, RATINGS),
}


@pytest.fixture(params=["device", "pipe", "link to a device", "of the system", "folder", "too large"])
def no_file(request, tmp_path):
    """A path that must not be read as a file; a pipe has nobody who writes to it."""
    path = tmp_path / "gap.csv"
    match request.param:
        case "device":
            return Path("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "link to a device":
            path.symlink_to("/dev/zero")
        case "of the system":
            path.symlink_to("/proc/self/environ")
        case "folder":
            path.mkdir()
        case "too large":
            with path.open("wb") as stream:
                stream.truncate(8 << 30)  # takes no room on the disk
    return path


def within(seconds, read):
    """Return what a call raises; it fails where the call does not end."""
    found = []

    def call():
        try:
            read()
        except Exception as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it waits, or reads without end"
    return found[0]


@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_what_is_no_regular_file_or_too_large(name, no_file):
    if name in ("model",) and no_file.is_file() and no_file.stat().st_size:
        pytest.skip("weights may be as large as they are")
    error = within(20, lambda: READERS[name](no_file))
    assert isinstance(error, FAULTS), error
    assert "\n" not in str(error)
    assert "PATH=" not in str(error)  # of the environment nothing is told


def test_a_folder_of_choices_has_no_pipe_that_is_waited_for(audit, capsys):
    Path("own/prompt").mkdir(parents=True)
    os.mkfifo("own/prompt/mine.yaml")
    assert audit("prompts", "--config-dir=own", "out=p.jsonl") == 2
    assert "own/prompt/mine.yaml: cannot be read (it is a device, a pipe or a socket" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["manifest.json", "ledger.jsonl", "prompts.json.gz"])
def test_a_folder_from_anybody_has_no_pipe_that_is_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    read = {
        "manifest.json": lambda: Manifest.read(tmp_path),
        "ledger.jsonl": lambda: read_ledger(tmp_path),
        "prompts.json.gz": lambda: PromptsAsked.read(tmp_path),
    }[name]
    assert isinstance(within(20, read), FAULTS)


def test_a_file_is_read_to_its_largest_size_and_no_further(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_file(path, at_most=5) == b"12345"
    with pytest.raises(OSError, match="larger than"):
        read_file(path, at_most=4)
    assert LARGEST_TEXT < LARGEST_TABLE


# --- One table, whoever wrote it -------------------------------------------------------------------------------------

HEADER = ["perceiver", "experiencer", "narrative_id", "rating"]
ROWS = [
    ("a Muslim", "a Muslim", "n1", 4.5),
    ("a Muslim", "NA", "n1", 3.25),
    ("NA", "a Muslim", "n1", 3.0),
    ("NA", "NA", "n1", None),
]
GROUPS = "term,group\na Muslim,Muslim\nNA,NA\n"


def delimited(between=",", *, comma=False, none="", first="", quoted=False):
    def cell(value):
        if value is None:
            return none
        text = str(value).replace(".", ",") if comma and isinstance(value, float) else str(value)
        return f'"{text}"' if quoted or between in text else text

    return first + "\n".join(between.join(map(cell, row)) for row in [HEADER, *ROWS]) + "\n"


def as_sav(path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs pyreadstat: pip install 'empathy-audit[spss]'")
    table = pd.DataFrame(ROWS, columns=HEADER)
    # Numbers that stand for words, as SPSS has them; of the ratings the ends have labels.
    codes = {"a Muslim": 1.0, "NA": 2.0}
    pyreadstat.write_sav(
        table.assign(perceiver=table["perceiver"].map(codes)),
        str(path),
        variable_value_labels={
            "perceiver": {code: word for word, code in codes.items()}, "rating": {1.0: "not at all", 3.0: "so so"},
        },
    )  # fmt: skip


def as_parquet(path):
    pq.write_table(pa.table(dict(zip(HEADER, map(list, zip(*ROWS, strict=True)), strict=True))), path)


def as_json_lines(path):
    path.write_text("".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in ROWS))


def as_workbook(path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbooks, is not installed")
    pytest.importorskip("python_calamine", reason="needs python-calamine: pip install 'empathy-audit[excel]'")
    book = openpyxl.Workbook()
    for row in [HEADER, *ROWS]:
        book.active.append(row)
    book.save(path)


FORMS = {
    "commas": ("r.csv", delimited()),
    "tabs": ("r.tsv", delimited("\t")),
    "text": ("r.txt", delimited(";")),
    "R": ("r.csv", delimited(none="NA")),
    "SPSS as text": ("r.csv", delimited(none="#NULL!")),
    "SAS": ("r.csv", delimited(none=".")),
    "Python": ("r.csv", delimited(none="nan")),
    "sep": ("r.csv", delimited(";", first="sep=;\n")),
    "sep in quotes": ("r.csv", delimited(";", first='"sep=;"\r\n')),
    "decimal commas between tabs": ("r.tsv", delimited("\t", comma=True)),
    "decimal commas between semicolons": ("r.csv", delimited(";", comma=True)),
    "decimal commas in quotes": ("r.csv", delimited(comma=True, quoted=True)),
    "UTF-16": ("r.csv", codecs.BOM_UTF16_LE + delimited("\t").encode("utf-16-le")),
    "UTF-16, the other way": ("r.csv", codecs.BOM_UTF16_BE + delimited().encode("utf-16-be")),
    "UTF-8 with a mark": ("r.csv", codecs.BOM_UTF8 + delimited().encode()),
    "SPSS": ("r.sav", as_sav),
    "Parquet": ("r.parquet", as_parquet),
    "JSON lines": ("r.jsonl", as_json_lines),
    "Excel": ("r.xlsx", as_workbook),
    "our own export's name": ("r.csv", delimited().replace(",rating\n", ",intensity\n")),
}


@pytest.fixture
def outside(tmp_path):
    """Return a function that writes ratings, and reads them with their groups."""

    def read(name="r.csv", content=None, *, groups=GROUPS, **options):
        path, of_groups = tmp_path / name, tmp_path / "g.csv"
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        of_groups.write_text(groups)
        return read_outside(path, of_groups, **{"low": 1, "high": 7} | options).ratings

    return read


@pytest.mark.parametrize("form", FORMS)
def test_ratings_are_the_same_from_every_program_and_a_group_may_be_called_na(form, outside):
    ratings = outside(*FORMS[form])
    assert ratings["perceiver"].tolist() == ["a Muslim", "a Muslim", "NA", "NA"]
    assert ratings["experiencer_group"].tolist() == ["Muslim", "NA", "Muslim", "NA"]
    assert ratings["intensity"].tolist()[:3] == [4.5, 3.25, 3.0]
    assert math.isnan(ratings["intensity"].iloc[3])
    assert ratings["status"].tolist() == ["rated"] * 3 + ["unparseable"]


def test_what_the_user_says_stands_for_none_does_and_nothing_else(outside):
    content = delimited(none="refused")
    with pytest.raises(ConfigError, match=r"line 5: the rating 'refused' is not a number; .* missing=MARK"):
        outside(content=content)
    assert outside(content=content, missing=["refused"])["intensity"].isna().tolist() == [False] * 3 + [True]
    with pytest.raises(ConfigError, match=r"missing=none of these: .* has no such rating"):
        outside(content=delimited(), missing=["none of these"])
    # Asked for, a mark stands for none in every column.
    with pytest.raises(
        ConfigError,
        match=r"line 3 .*the experiencer is 'NA', which counts as missing "
        r"\(missing=\)",
    ):
        outside(content=delimited(none="NA"), missing=["NA"])
    stems = GROUPS.replace("group\n", "group,stem\n").replace("Muslim\n", "Muslim,-\n").replace("NA\n", "NA,x\n")
    assert len(outside(content=delimited(none="-"), groups=stems, missing=["-"])) == 4


def test_all_faulty_rows_are_told_at_once_with_their_rows_and_their_count(outside):
    rows = [f"a Muslim,a Muslim,n{place},{cell}" for place, cell in enumerate(["4", "x", "", "y", "z", "w", "v"])]
    rows[2] = ",a Muslim,n2,5"
    with pytest.raises(ConfigError) as raised:
        outside(content="\n".join([",".join(HEADER), *rows]) + "\n")
    said = str(raised.value)
    assert "line 3 (and 5 more): the rating 'x'" in said
    assert [f"line {n}:" in said for n in (4, 5, 6, 7)] == [True, True, True, False]
    assert "the perceiver is empty" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("cells", "numbers", "wrong"),
    [
        (["4,5", "3"], [4.5, 3], []),
        (["1,234"], [None], [0]),  # thousands, or decimals: nobody can tell
        (["1,234", "4,5"], [1.234, 4.5], []),
        (["0,125"], [0.125], []),
        (["1,234", "4.5"], [None, 4.5], [0]),
        (["1,234.5"], [None], [0]),
        (["NA", ".", "#NULL!", "nan", "NaN", "", " "], [None] * 7, []),
        (["n/a", "-", "inf", "1_0", "0x1", "１"], [None] * 6, [0, 1, 2, 3, 4, 5]),
        (["-.5", "+2.", "1e2"], [-0.5, 2, 100], []),
    ],
)
def test_a_column_of_numbers_is_read_as_a_whole(cells, numbers, wrong):
    read, places = read_numbers(cells)
    assert [None if math.isnan(number) else number for number in read] == numbers
    assert places == wrong


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".sav", ".parquet"])
def test_narratives_and_people_s_ratings_come_from_the_same_reader(suffix, tmp_path):
    path = tmp_path / f"own{suffix}"
    table = pd.DataFrame(
        {"id": ["1", "2"], "emotion": ["joy", "fear"], "text": ["I won.", "I ran."], "felt": [3.5, None]}
    )
    match suffix:
        case ".csv":
            table.to_csv(path, index=False, na_rep="NA", sep="\t", encoding="utf-16")
        case ".jsonl":
            table.to_json(path, orient="records", lines=True)
        case ".sav":
            pytest.importorskip("pyreadstat").write_sav(table, str(path))
        case ".parquet":
            table.to_parquet(path)
    read = load_narratives("csv", path=path, columns=COLUMNS).narratives
    assert [(each.narrative_id, each.neutral) for each in read] == [("1", "I won."), ("2", "I ran.")]
    human = read_human(path, ["1", "2"], id_column="id", rating_column="felt")
    assert (human.mean, human.n_empty) == ({"1": 3.5}, 1)


def test_faulty_rows_of_any_table_are_told_at_once(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,emotion,text\n1,joy,\n2,,I ran.\n3,joy,I won.\n4,joy,a,b\n5,joy,\n6,joy,\n")
    with pytest.raises(StimulusError) as raised:
        read_cells(path, COLUMNS, of="narratives")
    said = str(raised.value)
    assert said.startswith(f"{path}: line 2: the cell in column 'text' is empty")
    assert "4 more rows: line 3: the cell in column 'emotion' is empty; line 5: has more cells" in said
    assert "\n" not in said


def test_several_columns_make_an_identifier_that_no_others_make(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("book,page,emotion,text\na:1,2,joy,I won.\na,1:2,joy,I ran.\n")
    columns = COLUMNS | {"narrative_id": ("book", "page")}
    read = load_narratives("csv", path=path, columns=columns).narratives
    assert len({each.narrative_id for each in read}) == 2


def test_a_small_file_that_stands_for_very_much_is_refused(tmp_path):
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"id": pa.nulls(200_000_000, pa.null())}), path)
    with pytest.raises(StimulusError, match=r"has 200,000,000 cells, but at most 100,000,000 can be read; split it$"):
        read_cells(path, {"narrative_id": "id"}, of="rows")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.xlsx", r"unpacks to 3 MiB, and at most 1 can be read; save the sheet as CSV \(UTF-8\)$"),
        ("a.jsonl", "unpacks to 3 MiB, and the limit is 1 MiB; split it$"),
    ],
)
def test_an_archive_that_unpacks_to_very_much_is_refused_before_it_is(name, said, tmp_path, monkeypatch):
    for limit in ("stimuli.spreadsheets.LARGEST_TABLE", "audit.engines.answered._LARGEST_LOG"):
        monkeypatch.setattr(limit, 1 << 20)
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", bytes(3 << 20))
    assert path.stat().st_size < 1 << 14
    read = {
        "a.xlsx": lambda: read_cells(path, {"narrative_id": "id"}, of="rows"),
        "a.jsonl": lambda: read_answers_file(path, export="e", n_prompts=1),
    }[name]
    with pytest.raises((StimulusError, StoreError), match=said):
        read()


# --- Answers ---------------------------------------------------------------------------------------------------------

PARTS = [{"type": "thinking", "thinking": "20?"}, {"type": "text", "text": "I say "}, {"type": "text", "text": "80."}]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"content": PARTS}, "I say 80."),
        ({"response": {"choices": [{"message": {"content": PARTS}, "finish_reason": "stop"}]}}, "I say 80."),
        ({"response": {"body": {"content": PARTS, "stop_reason": "end_turn"}}}, "I say 80."),
        ({"output": [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "80"}]}]},
         "80"),
        ({"text": ["80"]}, "80"),
        ({"content": []}, ""),
    ],
)  # fmt: skip
def test_content_may_be_a_list_of_parts(line, text, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "e-0"} | line) + "\n")
    assert read_answers_file(path, export="e", n_prompts=1).texts[0].text == text


def test_a_part_that_is_no_text_is_refused_and_a_refusal_is_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "e-0", "content": [{"type": "image_url", "image_url": "x"}]}) + "\n")
    with pytest.raises(ConfigError, match="line 1: content: is a list with a part that is not text"):
        read_answers_file(path, export="e", n_prompts=1)
    path.write_text(json.dumps({"id": "e-0", "content": [{"type": "refusal", "refusal": "No."}]}) + "\n")
    assert read_answers_file(path, export="e", n_prompts=1).texts[0].refused


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,text\ne-0,"80, I\nthink"\ne-1,\n'),
        ("a.tsv", 'text\tid\tmodel\n"80, I\nthink"\te-0\tm\n\te-1\tm\n'),
        ("a.csv", codecs.BOM_UTF16_LE + 'id;answer\ne-0;"80, I\nthink"\ne-1;\n'.encode("utf-16-le")),
        ("a.csv", 'id,text\ne-0,"[{""type"": ""text"", ""text"": ""80, I\\nthink""}]"\ne-1,\n'),
    ],
)
def test_answers_may_be_a_table_in_which_an_empty_cell_is_none(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    read = read_answers_file(path, export="e", n_prompts=2)
    assert {place: each.text for place, each in read.texts.items()} == {0: "80, I\nthink"}
    assert read.n_without == 1


def test_a_table_of_answers_names_what_it_lacks(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,said\ne-0,80\n")
    with pytest.raises(ConfigError, match=r"needs one column of text, response, .* its columns are: id, said"):
        read_answers_file(path, export="e", n_prompts=1)
    path.write_text('id,text\ne-0,"80\n')
    with pytest.raises(StoreError, match="line 2: unexpected end of data; a quotation mark is never closed"):
        read_answers_file(path, export="e", n_prompts=1)


# --- Files of other programs, where they are -------------------------------------------------------------------------


def shared_tables():
    return sorted(SHARED.glob("ratings*")) or [pytest.param(None, marks=pytest.mark.skip(f"{SHARED.name} is not here"))]


@pytest.mark.parametrize("path", shared_tables(), ids=lambda path: getattr(path, "name", "none"))
def test_tables_of_other_programs_give_the_gap_of_the_first(path):
    first, read = (read_outside(each, SHARED / "groups.csv", low=1, high=7) for each in (SHARED / "ratings.csv", path))
    expected = first.ratings["intensity"].copy()
    missing = read.ratings["intensity"].isna()
    assert int(missing.sum()) == (path.name == "ratings_R_NA.csv")
    pd.testing.assert_frame_equal(
        read.ratings.drop(columns=["intensity", "status"]), first.ratings.drop(columns=["intensity", "status"])
    )
    assert read.ratings["intensity"][~missing].tolist() == expected[~missing].tolist()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared tables are not here")
def test_a_corpus_with_marks_alone_is_read():
    read = read_conversations(SHARED / "conversation_punctuation.csv", OF_CORPUS, history=None)
    assert [each.narrative_id for each in read.narratives.narratives] == ["1:0", "1:3"]
    assert "Person B: ..." in read.narratives.narratives[1].neutral
    assert "Person A: !" in read.narratives.narratives[1].neutral


def test_a_template_that_is_a_device_ends_in_one_line():
    with pytest.raises(ModelError, match="it is a device, a pipe or a socket"):
        read_template("/dev/zero")
