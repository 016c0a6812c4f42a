"""The words of a page of each kind: a snapshot, to be read as a whole when they change."""

from __future__ import annotations

import pytest
from page_texts import FOLDER, PAGES, words_of


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_was_read_and_kept(name: str) -> None:
    """If this fails: ``python tests/report/page_texts.py``, and read what changed."""
    assert words_of(PAGES[name]()).splitlines() == (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()
