"""Tables of every kind that people's programs write: the oracle is what was written into them."""

import datetime
import sys
import zipfile

import pytest

from stimuli.errors import StimulusError
from stimuli.tables import column_names, read_cells

openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbooks, is not installed")

COLUMNS = {"narrative_id": "id", "emotion": "emotion", "neutral": "text"}
ROWS = [
    {"narrative_id": "1", "emotion": "joy", "neutral": "I paid 3,50; it was worth it."},
    {"narrative_id": "2", "emotion": "fear", "neutral": "A\tnight."},
]


def read(path, **more):
    return [cells for _, cells in read_cells(path, COLUMNS, of="narratives", **more)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_comma_semicolon_and_tab_are_told_apart_by_the_header(delimiter, suffix, tmp_path):
    path = tmp_path / f"own{suffix}"
    lines = [["id", "emotion", "text"], *(list(row.values()) for row in ROWS)]
    path.write_text("\n".join(delimiter.join(f'"{cell}"' for cell in line) for line in lines), "utf-8")
    assert read(path) == ROWS


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encodings_that_spreadsheets_save_are_read(encoding, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id;emotion;text\n1;joy;Grüße, 3,5\n", encoding)
    assert read(path) == [{"narrative_id": "1", "emotion": "joy", "neutral": "Grüße, 3,5"}]


def test_a_windows_encoding_is_refused_with_what_to_save(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes("id;emotion;text\n1;joy;Grüße\n".encode("cp1252"))
    with pytest.raises(StimulusError, match=r'line 2 is not UTF-8 \(byte 0xfc\); save .* \(in Excel: "CSV UTF-8"\)'):
        read(path)


def test_what_excel_adds_to_a_file_is_no_row_and_no_column(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("sep=;\r\nid;emotion;text;;\r\n1;joy;A day.;;\r\n;;;;\r\n2;joy;B;\r\n", "utf-8", newline="")
    assert [cells["neutral"] for cells in read(path)] == ["A day.", "B"]


def test_a_text_that_is_not_in_quotes_is_named_as_the_cause_of_too_many_cells(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,emotion,text\n1,joy,One, two.\n")
    with pytest.raises(StimulusError, match=r"line 2: has more cells .* in double quotes"):
        read(path)


def test_a_delimiter_that_is_asked_for_is_kept(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("id;emotion;text\n1;joy;A.\n")
    with pytest.raises(StimulusError, match="no columns 'id'"):
        read(path, delimiter="\t")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_names_of_columns_are_read_by_the_same_rule(delimiter, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(delimiter.join(["id", "a", "b"]) + "\n")
    assert column_names(path) == ["id", "a", "b"]


def test_columns_that_may_be_missing_are_empty_then(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,emotion,text,noun\n1,joy,A.,delight\n")
    assert read(path, may_be_missing=["noun", "adjective"])[0] == {
        "narrative_id": "1", "emotion": "joy", "neutral": "A.", "noun": "delight", "adjective": ""
    }  # fmt: skip


# --- Spreadsheets ----------------------------------------------------------------------------------------------------


def save(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


HEADER = ["id", "emotion", "text"]


def test_a_sheet_of_excel_is_read_with_numbers_dates_and_truths_as_texts(tmp_path):
    rows = [
        HEADER,
        [1, "joy", 2.5],
        [2.0, datetime.date(2024, 3, 1), True],
        [" 3 ", datetime.datetime(2024, 3, 1, 10, 30), " A day. "],
        [None, None, None],
        [10**15, "joy", datetime.time(3, 4)],
    ]
    assert [tuple(cells.values()) for cells in read(save(tmp_path / "own.xlsx", Sheet=rows))] == [
        ("1", "joy", "2.5"),
        ("2", "2024-03-01", "TRUE"),
        ("3", "2024-03-01 10:30:00", "A day."),
        ("1000000000000000", "joy", "03:04:00"),
    ]


@pytest.mark.parametrize("cell", [None, "", "  ", "=1+1", "=NA()"])
def test_a_cell_without_a_value_is_named_by_sheet_row_and_column(cell, tmp_path):
    # openpyxl computes nothing: a formula has no stored value, as in a file that a program made.
    path = save(tmp_path / "own.xlsx", Situations=[HEADER, [1, "joy", "A."], [2, "joy", cell]])
    expected = r"own\.xlsx: sheet 'Situations': row 3: the cell in column 'text' is empty \(so is a formula"
    with pytest.raises(StimulusError, match=expected):
        read(path)


def test_a_table_may_begin_below_empty_rows_and_places_count_as_the_spreadsheet_does(tmp_path):
    path = save(tmp_path / "own.xlsx", Sheet=[[None], [None], HEADER, [1, "joy", "A."]])
    assert read_cells(path, COLUMNS, of="narratives")[0][0].endswith("sheet 'Sheet': row 4")


def test_of_several_sheets_the_one_that_has_the_columns_is_read(tmp_path):
    path = save(tmp_path / "own.xlsx", Notes=[["what I did"]], Empty=[], Data=[HEADER, [1, "joy", "A."]])
    assert read(path)[0]["neutral"] == "A."


@pytest.mark.parametrize(
    ("sheets", "said"),
    [
        ({"A": [HEADER, [1, "joy", "A."]], "B": [HEADER, [2, "joy", "B."]]},
         r"several sheets have the columns 'id', 'emotion', 'text': 'A', 'B'; save the sheet you want "
        r"as a separate file"),
        ({"A": [["id"], [1]], "B": [["text"], [2]]},
         r"no sheet has all of the columns 'id', .*; 'A' has id, 'B' has text"),
        ({"A": []}, "has only empty sheets"),
        ({"A": [["id", "emotion", "texts"], [1, "joy", "A."]]}, "no column 'text' .* did you mean 'texts'"),
        ({"A": [HEADER]}, "has a header but no narratives"),
    ],
)  # fmt: skip
def test_which_sheet_is_meant_is_never_guessed(sheets, said, tmp_path):
    with pytest.raises(StimulusError, match=said):
        read(save(tmp_path / "own.xlsx", **sheets))


def test_what_is_no_spreadsheet_is_refused(tmp_path):
    path = tmp_path / "own.xlsx"
    path.write_bytes(b"id,emotion,text\n")
    with pytest.raises(StimulusError, match=r"own\.xlsx: cannot be read .*; save it again as \.xlsx"):
        read(path)
    with pytest.raises(StimulusError, match=r"no\.xlsx is not a file"):
        read(tmp_path / "no.xlsx")


def test_a_spreadsheet_of_libreoffice_is_read(tmp_path):
    cells = [HEADER, ["1", "joy", "A day, 3,5."]]
    table = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>' for cell in row
        )
        + "</table:table-row>"
        for row in cells
    )
    names = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"' for short in ("office", "table", "text")
    )
    with zipfile.ZipFile(tmp_path / "own.ods", "w") as archive:
        kind = "application/vnd.oasis.opendocument.spreadsheet"
        archive.writestr("mimetype", kind)
        manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        entry = f'<m:file-entry m:full-path="/" m:media-type="{kind}"/>'
        archive.writestr("META-INF/manifest.xml", f'<m:manifest xmlns:m="{manifest}">{entry}</m:manifest>')
        archive.writestr(
            "content.xml",
            f'<?xml version="1.0"?><office:document-content {names}><office:body><office:spreadsheet>'
            f'<table:table table:name="T">{table}</table:table></office:spreadsheet></office:body>'
            "</office:document-content>",
        )
    assert read(tmp_path / "own.ods") == [{"narrative_id": "1", "emotion": "joy", "neutral": "A day, 3,5."}]


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch):
    path = save(tmp_path / "own.xlsx", Sheet=[HEADER, [1, "joy", "A."]])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    expected = (
        r"own\.xlsx: reading spreadsheets needs: pip install 'empathy-audit\[excel\]'; or save the "
        r"sheet as CSV"
    )
    with pytest.raises(StimulusError, match=expected):
        read(path)
