"""Committed pages in Firefox: nothing fails or is fetched, and first screen, contents and paper hold there, too."""

from __future__ import annotations

import contextlib
import re
import time
import zlib
from pathlib import Path

import pytest
from firefox import MARKS, launched

pytestmark = MARKS
REPORTS = Path(__file__).parents[2] / "reports"
PAGES = {
    "example": REPORTS / "example" / "report.html",
    "replies": REPORTS / "example-replies" / "report.html",
    "strategies": REPORTS / "example-strategies" / "comparison" / "comparison.html",
}


@pytest.fixture(scope="module")
def firefox():
    with launched() as started:
        yield started


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_answers_at_once_and_nothing_fails_or_is_fetched(firefox, name, width):
    firefox.complaints.clear()
    firefox.asked.clear()
    firefox.open(PAGES[name], width=width)
    assert firefox.tell("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    ends = firefox.tell(
        "[...document.querySelectorAll('.asked, .headline, .finding, .scale, .summary .next')].map((each) =>"
        " each.getBoundingClientRect().bottom + scrollY)"
    )
    assert len(ends) > 3
    assert max(ends) <= 844
    if name == "example":
        firefox.tell("(location.hash = 'explore')")
        firefox.tell("document.querySelector('[data-cell]').click()")
        assert firefox.tell("document.querySelector('#explore-panel').checkVisibility()")
    assert firefox.complaints == []
    assert [url for url in firefox.asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_the_contents_stay_in_sight_and_mark_the_section(firefox):
    firefox.open(PAGES["example"], width=390)
    firefox.tell("(location.hash = 'gaps')")
    for _ in range(50):
        current, top = firefox.tell(
            "[document.querySelector('nav [aria-current=location]').textContent,"
            " document.querySelector('nav').getBoundingClientRect().top]"
        )
        if current == "Evidence":
            break
        time.sleep(0.1)
    assert current == "Evidence"
    assert -1 <= top <= 1


@pytest.mark.parametrize("name", PAGES)
def test_the_summary_is_one_page_of_paper(firefox, name):
    firefox.open(PAGES[name], width=1440)
    firefox.tell("(window.print = () => {}, document.querySelector('#print-summary').click())")
    assert firefox.tell("document.documentElement.className") == "summary-alone"
    assert n_pages(firefox.pdf()) == 1


def n_pages(pdf):
    """Count the pages of a PDF, whose objects may be packed in streams."""
    streams = [pdf]
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        with contextlib.suppress(zlib.error):
            streams.append(zlib.decompress(stream))
    return sum(len(re.findall(rb"/Type\s*/Page\b", each)) for each in streams)
