import csv
import io
import math
import os

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from rated import QUESTIONS, replies_of, sampled, write

from audit.errors import ConfigError
from audit.people.items import sample_items
from audit.people.questions import load_questions
from audit.people.ratings import ITEMS_FILE, KEY_FILE, QUESTIONS_COPY, export_files, read_human_ratings, read_key
from stimuli.errors import StimulusError

KEY = sampled(3).key
A, B, C = KEY["item_id"]
FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", " =1", "＝1")


def rows(*given, rater="anna"):
    """Return a rater's rows of (item, warm, clear)."""
    return pd.DataFrame(given, columns=["item_id", "warm", "clear"], dtype=object).assign(rater=rater)


def read(*paths, key=KEY):
    return read_human_ratings(list(paths), key=key, questions=QUESTIONS)


def scores(ratings):
    return {(r, i, q): s for r, i, q, s in ratings.table.itertuples(index=False) if not math.isnan(s)}


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_spreadsheet_finds_no_formula_and_the_key_gives_its_texts_back(tmp_path, formula):
    replies = replies_of(narratives=1, terms=(formula.strip(), "'quoted", "a\nb"), text=formula)
    sample = sample_items(replies.assign(narrative=formula), n=None, seed=0)
    files = export_files(sample, QUESTIONS)
    for name in (ITEMS_FILE, KEY_FILE):
        text = files[name].decode("utf-8-sig")
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert [cell for cell in cells if cell.strip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "＝"))] == []
    (tmp_path / "key.csv").write_bytes(files[KEY_FILE])
    assert_frame_equal(read_key(tmp_path / "key.csv"), sample.key, check_dtype=False)


def test_every_cell_is_quoted_so_that_a_semicolon_splits_nothing():
    line = export_files(sampled(4, text="a;=1"), QUESTIONS)[ITEMS_FILE].decode("utf-8-sig").splitlines()[1]
    assert line.startswith('"')
    assert line.endswith('"a;=1","",""')


def test_what_raters_get_holds_neither_who_the_perceiver_is_nor_the_grid():
    sample = sampled(None, narratives=2)
    text = export_files(sample, QUESTIONS)[ITEMS_FILE].decode("utf-8-sig")
    table = pd.read_csv(io.StringIO(text))
    assert list(table) == ["item_id", "person", "narrative", "reply", "warm", "clear"]
    assert table[["warm", "clear"]].isna().all(axis=None)
    for absent in ("religion", "perceiver", "in_group", "prompt_index", "n0"):
        assert absent not in text


def test_an_export_s_questions_are_read_back(tmp_path):
    (tmp_path / "q.yaml").write_bytes(export_files(sampled(4), QUESTIONS)[QUESTIONS_COPY])
    assert load_questions(tmp_path / "q.yaml") == QUESTIONS


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_filled_spreadsheet_is_read_whatever_stands_between_its_cells(tmp_path, separator, encoding):
    exported = export_files(sampled(3, text="a;b,\n\tc"), QUESTIONS)[ITEMS_FILE]
    table = pd.read_csv(io.BytesIO(exported), dtype=object, keep_default_na=False)
    key = sampled(3, text="a;b,\n\tc").key
    table["warm"], table["clear"] = ["1", "", "5.0"], ["0", "", "4,0" if separator != "," else "4"]
    table.loc[len(table)] = ""  # spreadsheets leave such rows at the end
    ratings = read(write(tmp_path, table, "Anna B.csv", sep=separator, encoding=encoding), key=key)
    first, _, third = key["item_id"]
    assert scores(ratings) == {
        ("Anna B", first, "warm"): 1, ("Anna B", first, "clear"): 0,
        ("Anna B", third, "warm"): 5, ("Anna B", third, "clear"): 4,
    }  # fmt: skip
    assert (ratings.n_left_out, ratings.n_missing_rows, ratings.n_double) == (2, 0, 0)


def test_what_is_left_out_or_missing_is_nan_and_counted(tmp_path):
    ratings = read(
        write(tmp_path, rows((A, 1, ""), (B, "", "")), "1.csv"),
        write(tmp_path, rows((A, 5, 0), (B, 3, 4), (C, 2, 1), rater="ben"), "2.csv"),
        write(tmp_path, rows((A, "", ""), rater="carl"), "3.csv"),
    )
    table = ratings.table
    assert list(table) == ["rater", "item_id", "question", "score"]
    assert len(table) == 2 * 3 * 2
    assert table["score"].dtype == "float64"
    anna = table[table["rater"] == "anna"]
    assert anna["score"].notna().sum() == 1
    assert anna["score"].sum() == 1
    assert (ratings.n_left_out, ratings.n_missing_rows, ratings.without_score) == (3, 1, ("carl",))
    assert any("not 0" in remark for remark in ratings.remarks)
    assert any("carl" in remark for remark in ratings.remarks)
    assert len(ratings.files) == 3


def test_double_rows_that_agree_are_dropped_and_later_answers_complete_earlier_ones(tmp_path):
    ratings = read(
        write(tmp_path, rows((A, 1, ""), (A, 1, ""), (B, "", "")), "early.csv"),
        write(tmp_path, rows((A, 1, 2), (B, 3, ""), (C, "", "")), "late.csv"),
    )
    assert scores(ratings) == {("anna", A, "warm"): 1, ("anna", A, "clear"): 2, ("anna", B, "warm"): 3}
    assert (ratings.n_double, ratings.n_missing_rows, ratings.n_left_out) == (3, 0, 3)


def test_rows_that_contradict_each_other_name_files_rater_and_item(tmp_path):
    one, two = write(tmp_path, rows((A, 1, 2)), "1.csv"), write(tmp_path, rows((B, 1, 2), (A, 1, 3)), "2.csv")
    with pytest.raises(ConfigError) as caught:
        read(one, two)
    said = f"{two}: line 3: rater 'anna' gives item {A!r} 3 for clear, and 2 on {one}: line 2; keep one"
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("cell", ["6", "-1", "3.5", "3,5", "good", "1e0", "=3", "99999999999999999999"])
def test_a_score_off_the_scale_names_its_place_and_the_scale(tmp_path, cell):
    path = write(tmp_path, rows((A, 1, 0), (B, 2, cell)))
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert f"{path}: line 3: rater 'anna', item {B!r}: clear {cell!r} is not a whole number from 0 to 5" in str(
        caught.value
    )


def test_a_zero_is_a_score_only_where_the_scale_has_one(tmp_path):
    with pytest.raises(ConfigError, match="warm '0' is not a whole number from 1 to 5"):
        read(write(tmp_path, rows((A, 0, 0))))


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        (rows((A, 1, 1)).drop(columns="clear"), StimulusError, "no column 'clear'.*other questions"),
        (
            rows((A, 1, 1)).rename(columns={"item_id": "item"}),
            StimulusError,
            "no column 'item_id'.*did you mean 'item'",
        ),
        (rows(), StimulusError, "has a header but no ratings"),
        (rows((A, "", ""), (B, "", "")), ConfigError, "no score is in the files given"),
        (rows((A, 1, 1), ("zzz", 1, 1)), ConfigError, "line 3: the item 'zzz' is not in the key"),
        (rows(("bcdfg", 1, 1)), ConfigError, "belongs to another run or seed"),
        (rows((A, 1, 1), ("", 1, 1)), ConfigError, "line 3: the item '' is not in the key"),
        (pd.concat([rows((A, 1, 1)), rows((B, 1, 1), rater="")]), ConfigError, "line 3: has no rater"),
    ],
)
def test_a_file_that_can_not_be_used_is_named(tmp_path, table, error, said):
    path = write(tmp_path, table)
    with pytest.raises(error, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_another_run_s_file_is_refused(tmp_path):
    other = sampled(3, text="Another run's {index}.").key["item_id"]
    with pytest.raises(ConfigError, match="belongs to another run or"):
        read(write(tmp_path, rows(*((item, 1, 1) for item in other))))


HOSTILE = "\x1b]0;owned\x07\u202eanna"


def test_names_of_raters_and_files_can_do_nothing_to_a_terminal(tmp_path):
    empty, scored = rows((A, "", ""), rater=HOSTILE), rows((A, 1, 1)).drop(columns="rater")
    odd = os.fsdecode(b"\x1b[31mben\xff")  # as the system names a file that is not UTF-8
    ratings = read(write(tmp_path, empty, "1.csv"), write(tmp_path, scored, f"{odd}.csv"))
    named = [*ratings.without_score, *ratings.table["rater"], *ratings.files, *ratings.remarks]
    assert all(name.isprintable() for name in named)
    assert ratings.without_score == ("\\x1b]0;owned\\x07\\u202eanna",)
    assert set(ratings.table["rater"]) == {"\\x1b[31mben\\udcff"}
    wrong = (((A, 9, 1),), ((B, "", ""),), (("zzz", 1, 1),), ((A, 1, 1), ("zzz", 1, 1)), ((A, 1, 1), (A, 2, 1)))
    for table in (rows(*given, rater=HOSTILE) for given in wrong):
        with pytest.raises(ConfigError) as caught:
            read(write(tmp_path, table, f"{odd}.csv"))
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["Zoë", "王芳", "O'Brien \\ Söhne", "a b", "😀", "مهدی\u200cزاده"])
def test_names_that_only_say_who_rated_stay_as_they_are(tmp_path, name):
    assert set(read(write(tmp_path, rows((A, 1, 1), rater=name))).table["rater"]) == {name}


def test_a_space_of_a_spreadsheet_is_a_space(tmp_path):
    assert set(read(write(tmp_path, rows((A, 1, 1), rater="Anna\xa0Smith"))).table["rater"]) == {"Anna Smith"}


def test_files_without_raters_and_with_one_name_are_not_made_one_rater(tmp_path):
    paths = []
    for name in ("anna", "ben"):
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name, rows((A, 1, 1)).drop(columns="rater"), "items.csv"))
    with pytest.raises(ConfigError, match="the same name, so they would count as one rater"):
        read(*paths)


def test_no_file_or_one_file_twice_is_refused(tmp_path):
    path = write(tmp_path, rows((A, 1, 1)))
    with pytest.raises(ConfigError, match="no file of ratings"):
        read()
    with pytest.raises(ConfigError, match="is given twice; give each file once"):
        read(path, path.parent / "." / path.name)


def test_a_file_in_another_encoding_names_the_line(tmp_path):
    path = tmp_path / "anna.csv"
    path.write_bytes(f"item_id,warm,clear,reply\n{A},1,1,caf\xe9\n".encode("latin-1"))
    with pytest.raises(StimulusError, match="line 2 is not UTF-8"):
        read(path)


@pytest.mark.parametrize(("column", "value"), [("prompt_index", "x"), ("in_group", "maybe")])
def test_a_key_that_was_changed_is_refused(tmp_path, column, value):
    path = write(tmp_path, KEY.astype({column: object}).assign(**{column: value}), "key.csv")
    with pytest.raises(ConfigError, match=f"{column} '{value}'.*use the key as exported"):
        read_key(path)
