"""Texts in tables: no spreadsheet takes one for a formula, and all can be read back."""

import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.tables.base import Table, number, word
from audit.tables.spreadsheets import FORMULA, as_it_was, defused

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
