"""Texts in tables: no spreadsheet takes one for a formula, and all can be read back."""

import base64
import gzip
import io
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.extras.exchange.every_eval_ever import _seen
from audit.report.downloads import pack_tables
from audit.tables.base import Table, number, word
from audit.tables.spreadsheets import FORMULA, as_it_was, defused, seen

TABLE = Table("planted", "a row", {"who": word("who"), "value": number("a number")})
TEXTS = st.lists(st.text(alphabet="=+-@＝\t '\"ab,;\n", max_size=6), min_size=1, max_size=8)


@given(TEXTS)
def test_texts_of_a_table_s_file_are_no_formulas_and_come_back(texts):
    table = pd.DataFrame({"who": texts, "value": [-1.5] * len(texts)})
    written = pd.read_csv(io.BytesIO(TABLE.csv(table)), keep_default_na=False, dtype={"who": str})
    assert not any(text.lstrip(" ").startswith(FORMULA) for text in written["who"])
    assert (written["value"] == -1.5).all()  # a number is no formula
    same = pd.read_csv(io.BytesIO(table.to_csv(index=False).encode()), keep_default_na=False, dtype={"who": str})
    pd.testing.assert_frame_equal(as_it_was(written), same)


@pytest.mark.parametrize("text", ["=1+1", "＝1", "-2", "\t@x", " =1", "'=1", "' =1", "''+1"])
def test_a_formula_gets_one_apostrophe_more(text):
    assert defused(pd.DataFrame({"who": [text]}))["who"].tolist() == [f"'{text}"]


@pytest.mark.parametrize("text", ["", "a", "'a", "it's", "1+1", "a=b", "'", " "])
def test_other_texts_stay_as_they_are(text):
    assert defused(pd.DataFrame({"who": [text]}))["who"].tolist() == [text]


UNSEEN = [
    "\x00",
    "\x07",
    "\x1b[2J",
    "\x7f",
    "\x9b",
    "\u00ad",
    "\u200b",
    "\u2028",
    "\u202e",
    "\u2066",
    "\u2060",
    "\ufeff",
    "\U000e0041",
]
WANTED = ["a\tb", "line\nline", "\u0646\u200c\u0645", "\U0001f469\u200d\U0001f52c", "\u05d0\u200f", "Grüße"]


@pytest.mark.parametrize("hidden", UNSEEN)
def test_what_nobody_can_see_is_in_no_table_no_download_and_no_record(hidden):
    text = f"a{hidden}b"
    table = pd.DataFrame({"who": [text, "ab"], "value": [1.0, 2.0]})
    written = TABLE.csv(table).decode()
    _, packed = pack_tables({"gap": table}, max_bytes=10_000)
    saved = gzip.decompress(base64.b64decode(json.loads(packed)["gap.csv"])).decode()
    record = json.dumps(_seen({"model": [text]}), ensure_ascii=False)
    for content in (written, saved, record):
        assert hidden[0] not in content
    # Two groups stay two.
    assert pd.read_csv(io.StringIO(written))["who"].nunique() == 2


@pytest.mark.parametrize("text", WANTED)
def test_what_scripts_and_emoji_are_made_of_stays(text):
    assert seen(text) == text


def test_a_formula_behind_what_nobody_sees_runs_in_no_spreadsheet():
    assert not defused(pd.DataFrame({"who": ["\u200b=1+1"]}))["who"].iloc[0].startswith(FORMULA)
