"""The words of one page of each kind, as a reader meets them: what tests of codes and numbers leave open.

``python tests/report/page_texts.py`` writes ``page_texts/*.txt`` anew; read what changed there as a reader would.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

FOLDER: Final = Path(__file__).with_name("page_texts")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
_APART: Final = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
_BLOCK: Final = re.compile(
    r"</?(?:p|div|li|tr|h\d|caption|figcaption|summary|section|dt|dd|figure|pre|label|nav)\b[^>]*>"
)


def words_of(page: str) -> str:
    """Return a page's words but for its manifest, a line each block, with # for numbers and dates."""
    page = _APART.sub("", page).partition('id="manifest"')[0]
    lines = (" ".join(re.sub(r"<[^>]*>", " ", line).split()) for line in _BLOCK.sub("\n", page).split("\n"))
    text = "\n".join(dict.fromkeys(unescape(line) for line in lines if line))
    return re.sub(r"[+−-]?\d[\d.,]*", "#", re.sub(r"/\S+/", "/", text)) + "\n"


def ratings() -> str:
    """Return the page of ratings whose emotions have opposite gaps."""
    from planted import CASES
    from test_first_screen import analysis_of

    from audit.tasks.intensity.page import render_report

    manifest, analysis = analysis_of(CASES["b1-emotions"]())
    return render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=analysis.remarks)


def replies() -> str:
    """Return the page of replies to five groups, one of whose measures has a gap."""
    from test_replies_controls import FIVE, page_of

    with TemporaryDirectory() as folder:
        page_of(Path(folder), FIVE, group=3.0)
        return next(Path(folder).rglob("report.html")).read_text("utf-8")


def questionnaire() -> str:
    """Return the page of a questionnaire."""
    from test_inventory_page import parts_of

    from audit.tasks.inventory.page import render_inventory

    return render_inventory(**parts_of(hostile=""))


PAGES: Final[Mapping[str, Callable[[], str]]] = {"ratings": ratings, "replies": replies, "questionnaire": questionnaire}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / f"{name}.txt").write_text(words_of(page()), "utf-8")
