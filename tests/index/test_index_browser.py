"""The page of an index in a browser: sorted, filtered, by keyboard, without a script, in all looks."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from browser import MARKS, launched, opened, sideways, violations
from gated import two_terms
from indexed import changed, published, without_figures
from planted import alike

from audit.extras.index.page import VERDICTS
from audit.extras.index.write import write_index

pytestmark = MARKS
ROOT = Path(__file__).parents[2]
LOOKS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return an index of gaps of 6, 2 and 10 in one group, one in another, one run without tables, one changed."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        for place, (name, size) in enumerate((("a", 6.0), ("b", 2.0), ("c", 10.0))):
            case = two_terms(n=24, gap=lambda emotion, group, size=size: size, seed=place)
            published(folder / name, case, model=f"model {name}", identity__name=name)
        published(folder / "d", alike(), model="Other <b>", identity__identities="d" * 64)
    changed(folder / "b", model__parameters=5)
    shutil.rmtree(shutil.copytree(folder / "a", folder / "e") / "tables")
    shutil.copytree(folder / "a", folder / "f")
    (folder / "f" / "tables" / "gap.csv").write_text("x")
    return write_index(folder).page


def order(view, group=1):
    return view.eval_on_selector_all(
        f"#group-{group} tr[data-text]:not([hidden])",
        "rows => rows.map((row) => row.cells[0].innerText)",
    )


def head(view, name):
    return view.locator("table.sortable").first.locator("th[scope=col]").filter(has_text=name)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_nothing_is_wrong_for_a_reader_who_listens_and_nothing_scrolls_aside(chromium, page, width, scheme):
    with opened(chromium, page, width=width, color_scheme=scheme) as view:
        assert violations(view) == []
        assert sideways(view) == 0
        head(view, "δ").locator("button").click()
        assert violations(view) == []


def test_a_column_is_sorted_up_down_and_back_and_says_so(chromium, page):
    with opened(chromium, page) as view:
        assert order(view) == ["a", "b", "c"]
        button = head(view, "δ").locator("button")
        seen = []
        for _ in range(3):
            button.click()
            seen.append((order(view), head(view, "δ").get_attribute("aria-sort")))
        assert seen == [
            (["b", "a", "c"], "ascending"), (["c", "a", "b"], "descending"), (["a", "b", "c"], None),
        ]  # fmt: skip
        assert view.locator("[aria-sort]").count() == 0


def test_numbers_are_sorted_as_numbers_and_what_is_missing_stands_last(chromium, page):
    with opened(chromium, page) as view:
        button = head(view, "size").locator("button")
        button.click()
        assert order(view)[0] == "b"
        button.click()
        assert order(view)[0] == "b"  # the others have no size, whichever way


def test_each_group_is_sorted_by_itself_and_another_column_takes_the_place_of_one(chromium, page):
    with opened(chromium, page) as view:
        head(view, "δ").locator("button").click()
        head(view, "model").locator("button").focus()
        view.keyboard.press("Enter")
        assert view.locator("[aria-sort]").count() == 1
        assert head(view, "model").get_attribute("aria-sort") == "ascending"
        assert order(view, group=2) == ["d"]


def test_rows_are_filtered_by_words_and_choices_and_a_group_without_any_goes(chromium, page):
    with opened(chromium, page) as view:
        status = view.locator("#filter-status")
        assert status.inner_text() == "4 of 4 gaps shown"
        view.fill("#filter-text", "MODEL b")
        assert (order(view), status.inner_text()) == (["b"], "1 of 4 gaps shown")
        assert not view.locator("#group-2").is_visible()
        view.click("#filter-reset")
        view.select_option("#filter-verdict", label="no gap larger than the margin")
        assert (order(view, group=2), status.inner_text()) == (["d"], "1 of 4 gaps shown")
        assert not view.locator("#group-1").is_visible()
        view.fill("#filter-text", "nothing like it")
        assert status.inner_text() == "0 of 4 gaps shown"
        view.click("#filter-reset")
        assert status.inner_text() == "4 of 4 gaps shown"


def test_without_its_script_the_page_is_the_same_tables(chromium, page):
    with opened(chromium, page, script=False) as view:
        assert order(view) == ["a", "b", "c"]
        assert view.locator("table button").count() == 0
        assert not view.locator("#filters").is_visible()
        assert view.locator("#unread").is_visible()
        assert "f" in view.locator(".unread").inner_text()


def test_a_link_of_the_page_opens_the_run_s(chromium, page):
    with opened(chromium, page) as view:
        href = view.locator("tbody a").first.get_attribute("href")
        assert (page.parent / href).is_file()
        assert view.locator("bdi", has_text="Other <b>").count() >= 1


def test_on_a_phone_the_first_gap_is_on_the_first_screen_and_the_filters_a_tap_away(chromium):
    committed = ROOT / "reports" / "published" / "index.html"
    with opened(chromium, committed, width=390) as view:
        assert not view.locator("#filter-text").is_visible()
        assert view.locator("tr[data-text]").first.bounding_box()["y"] < 844
        view.click("#filters summary")
        assert view.locator("#filter-text").is_visible()
        assert violations(view) == []
        assert sideways(view) == 0
    with opened(chromium, committed) as view:
        assert view.locator("#filter-text").is_visible()


def test_a_verdict_has_its_line(chromium):
    """A brace too many in a style sheet drops the rule behind it without a word."""
    with opened(chromium, ROOT / "reports" / "published" / "index.html") as view:
        cells = "cells => cells.map((cell) => getComputedStyle(cell).borderLeftWidth)"
        assert set(view.eval_on_selector_all("td.gap, td.undecided, td.absent", cells)) == {"4px"}


def test_the_first_lines_count_the_verdicts(chromium, page):
    with opened(chromium, page) as view:
        first, less = view.locator(".lede").inner_text().split("Who gets less: ")
        told = dict(re.findall(r"([a-z][a-z ]*[a-z]) \((\d)\)", first))
        shown = Counter(view.eval_on_selector_all("tr[data-text]", "rows => rows.map((row) => row.dataset.verdict)"))
        assert told == {VERDICTS[kind]: str(number) for kind, number in shown.items()}
        assert len(told) > 1
        assert sum(map(int, re.findall(r"\((\d)\)", less))) == shown.total()
