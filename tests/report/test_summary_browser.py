"""The first screen, the contents and the page of paper of every kind of page, in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from browser import MARKS, launched, open_all, opened
from judged import judged, judged_page
from planted import CASES, Planted
from test_first_screen import analysis_of
from test_inventory_page import parts_of
from test_summary import several

from audit.tasks.intensity.page import render_report
from audit.tasks.inventory.page import render_inventory

pytestmark = MARKS
REPORTS = Path(__file__).parents[2] / "reports"
PLANTED = ("b1-emotions", "b1-group", "refused-when-high", "constant", "few-narratives", "several")
COMMITTED = {
    "example": REPORTS / "example" / "report.html",
    "wordings": REPORTS / "example-wordings" / "report.html",
    "replies": REPORTS / "example-replies" / "report.html",
    "published": REPORTS / "published" / "qwen2.5-coder-1.5b-origin" / "report.html",
    "sweep": REPORTS / "example-sweep" / "comparison" / "comparison.html",
    "strategies": REPORTS / "example-strategies" / "comparison" / "comparison.html",
}


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the pages by name: of planted ratings, a questionnaire, a judge, and committed ones of other kinds."""
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in (*PLANTED, "inventory", "accepted", "judge")}
    for name in PLANTED:
        planted = several(0.0, 6.0, -5.0) if name == "several" else CASES[name]()
        made[name].write_text(page_of(planted), "utf-8")
    made["accepted"].write_text(page_of(CASES["b1-group"](), accepted=True), "utf-8")
    prefers = [lambda k, own: 0.8, lambda k, own: 0.9 if own else 0.3]
    parts = [judged(each, dimension=f"d{place}", first_place=0.6) for place, each in enumerate(prefers)]
    made["judge"].write_text(judged_page(*parts), "utf-8")
    made["inventory"].write_text(render_inventory(**parts_of(hostile="")), "utf-8")
    return made | COMMITTED


class Accepted:
    """A remark that files were changed and accepted."""

    dimension = variant = ""
    code = "accepted"
    text = "1 file of the run had changed since it was stored, and was accepted as it is: ratings.parquet."


def page_of(planted: Planted, *, accepted: bool = False) -> str:
    own = [Accepted()] if accepted else []
    manifest, analysis = analysis_of(planted, remarks=own)
    return render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=[*analysis.remarks, *own])


def bottoms(page, selector: str) -> list[float]:
    return page.locator(selector).evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().bottom + scrollY)"
    )


@pytest.mark.parametrize("name", [*PLANTED, "accepted", "inventory", "judge", *COMMITTED])
def test_a_phone_and_a_desktop_show_who_the_answer_its_picture_and_what_next_at_once(chromium, pages, name):
    for width, height in ((390, 844), (1440, 900)):
        with opened(chromium, pages[name], width=width) as page:
            shown = page.locator(".summary .line strong").all_inner_texts()
            assert "This does not show:" in shown
            assert max(bottoms(page, ".asked, .headline, .finding, .scale, .summary .next")) <= height
            assert page.locator(".finding .verdict").count() >= 1


def test_a_comparison_says_on_a_phone_too_how_large_a_difference_may_be(chromium):
    with opened(chromium, REPORTS / "published" / "comparison" / "comparison.html", width=390) as page:
        assert page.locator(".finding").count() == 4
        assert page.locator(".finding .spread").filter(visible=True).count() == 4  # there is no picture that shows it
        assert bottoms(page, ".finding")[1] <= 844  # differences that are found name their runs, so the rest is below
    published = REPORTS / "published" / "qwen2.5-coder-1.5b-origin" / "report.html"
    with opened(chromium, published, width=390) as page:  # here there is
        assert page.locator(".finding").count() == 4
        assert page.locator(".finding .spread").filter(visible=True).count() == 0


def test_what_would_decide_is_said_on_every_screen(chromium, pages):
    for width, name in ((1440, "several"), (390, "several"), (390, "b1-group")):
        with opened(chromium, pages[name], width=width) as page:
            assert page.locator(".summary .next", has_text="What next:").is_visible()


@pytest.mark.parametrize("name", ["example", "b1-group", "refused-when-high", "several", "b1-emotions", "published"])
def test_a_page_is_short_until_something_is_unfolded(chromium, pages, name):
    with opened(chromium, pages[name]) as page:
        assert page.locator("main h2").filter(visible=True).count() <= 6
        assert len(page.inner_text("body").split()) <= 1500
        open_all(page)
        assert len(page.inner_text("body").split()) > 3000


def test_no_table_of_the_unfolded_page_is_wider_than_a_desktop_and_a_phone_says_what_scrolls(chromium, pages):
    wide = "(all) => all.filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)"
    with opened(chromium, pages["example"]) as page:
        assert page.locator(".scroll").evaluate_all(f"{wide}.length".replace(wide, f"(all) => ({wide})(all)")) == 0
    with opened(chromium, pages["example"], width=390) as page:
        page.wait_for_selector(".scrolls")
        unsaid = page.locator(".scroll").evaluate_all(
            f"(all) => ({wide})(all).filter((each) => !each.classList.contains('scrolls')).length"
        )
        assert unsaid == 0


def test_a_term_is_explained_to_the_pointer_the_keyboard_and_on_paper(chromium, pages):
    with opened(chromium, pages["example"]) as page:
        term, tip = page.locator("main dfn").first, page.locator("#tip")
        meaning = page.locator(f"[id='{term.get_attribute('aria-describedby')}']").text_content()
        assert not tip.is_visible()
        term.hover()
        assert tip.inner_text() == meaning
        page.keyboard.press("Escape")
        page.mouse.move(0, 0)
        assert not tip.is_visible()
        term.focus()
        assert tip.inner_text() == meaning
        page.emulate_media(media="print")
        assert page.locator("dd", has_text=meaning).is_visible()
        assert not tip.is_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_changed_files_are_the_first_thing_that_may_not_be_concluded_from(chromium, pages, width):
    with opened(chromium, pages["accepted"], width=width) as page:
        first = page.locator(".summary .line", has_text="This does not show").inner_text()
        assert first.startswith("This does not show: that these are the model's own answers (files were changed")
        care = page.locator(".summary .line", has_text="Read with care").inner_text()
        assert "files that were changed" in care
        page.click("text=Why that matters")
        assert page.locator("#limits >> text=Files that were changed").is_visible()


def test_the_contents_stay_in_sight_and_mark_the_section_one_is_in(chromium, pages):
    for width in (390, 1440):
        with opened(chromium, pages["example"], width=width) as page:
            current = "document.querySelector('nav [aria-current=location]').textContent"
            assert page.evaluate(current) == "Answer"
            for anchor, label in (("gaps", "Evidence"), ("asked", "Method"), ("reproduce", "Reproduce")):
                page.evaluate(f"location.hash = '{anchor}'")
                page.locator(f"nav a[aria-current=location] >> text={label}").wait_for()
                box = page.locator("nav[aria-label=Contents]").bounding_box()
                assert 0 <= box["y"] <= 1
                assert page.locator(f"nav >> text={label}").is_visible()
                # The heading that a link leads to is not behind the contents.
                top = page.evaluate(f"document.getElementById('{anchor}').getBoundingClientRect().top")
                assert anchor == "reproduce" or top >= box["height"] - 1


def test_the_keyboard_skips_to_the_answer_and_reaches_the_contents(chromium, pages):
    with opened(chromium, pages["example"], width=390) as page:
        page.keyboard.press("Tab")
        skip = page.locator(".skip")
        assert skip.evaluate("(each) => each === document.activeElement")
        assert skip.bounding_box()["y"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('.summary') !== null")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", ["example", "replies", "strategies"])
def test_nothing_moves_while_the_page_is_read(chromium, pages, name, width):
    watch = (
        "window.moved = []; new PerformanceObserver((list) => list.getEntries().forEach((each) => "
        "{ if (!each.hadRecentInput) window.moved.push(each.value); })).observe({type: 'layout-shift', buffered: true})"
    )
    with opened(chromium, pages[name], width=width, first=watch) as page:
        for place in range(0, 6000, 700):
            page.evaluate(f"scrollTo(0, {place})")
            page.wait_for_timeout(30)
        assert sum(page.evaluate("window.moved")) < 0.01


@pytest.mark.parametrize("name", ["several", "refused-when-high", "inventory", "judge", *COMMITTED])
def test_the_summary_is_one_page_of_paper_with_the_numbers_of_the_screen(chromium, pages, name):
    with opened(chromium, pages[name]) as page:
        page.evaluate("window.print = () => { window.printed = document.documentElement.className; }")
        numbers = page.locator(".summary data").all_inner_texts()
        page.click("#print-summary")
        assert page.evaluate("window.printed") == "summary-alone"
        page.emulate_media(media="print")
        assert page.locator(".summary data").all_inner_texts() == numbers
        assert page.locator(".summary .source, .asked, .summary .line").filter(visible=True).count() >= 4
        assert page.locator("main h2").filter(visible=True).count() == 1
        assert page.locator("nav, .skip, #print-summary, .cards, .banner").filter(visible=True).count() == 0
        pdf = page.pdf(format="A4")
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
        page.wait_for_function("document.documentElement.className === ''")  # once it is told that it was printed


@pytest.mark.parametrize("name", ["example", "strategies"])
def test_on_paper_the_summary_has_a_page_of_its_own_and_no_interval_breaks(chromium, pages, name):
    broken = """() => {
      const lines = [];
      for (const low of document.querySelectorAll("main data")) {
        const to = low.nextSibling, high = low.nextElementSibling;
        if (!to || to.nodeType !== 3 || !/^\\s*to\\s*$/.test(to.data) || !high || high.tagName !== "DATA") continue;
        if (!low.checkVisibility()) continue;
        const [a, b] = [low, high].map((each) => each.getClientRects());
        lines.push(a.length === 1 && b.length === 1 && Math.abs(a[0].top - b[0].top) < 2);
      }
      return lines;
    }"""
    with opened(chromium, pages[name], width=720) as page:
        page.emulate_media(media="print")
        open_all(page)
        whole = page.evaluate(broken)
        assert len(whole) > 20
        assert all(whole)
        assert page.evaluate("getComputedStyle(document.querySelector('.summary')).breakAfter") == "page"


def test_without_a_script_the_summary_stands_and_its_button_is_not_shown(chromium, pages):
    with opened(chromium, pages["example"], script=False, width=390) as page:
        assert page.locator(".summary .line").filter(visible=True).count() > 3  # a phone has no room for the meaning
        assert page.locator("#print-summary").filter(visible=True).count() == 0


def test_numbers_of_the_summary_are_those_of_the_tables(pages):
    tables = REPORTS / "example" / "tables"
    page = pages["example"].read_text("utf-8")
    summary = page.partition('<div class="summary">')[2].partition("print-summary")[0]
    found = re.findall(r'<data value="([^"]*)" data-at="([^"]*)">', summary)
    assert len(found) >= 5
    for value, place in found:
        name, line, column = place.split(":")
        assert pd.read_csv(tables / f"{name}.csv", dtype=str)[column][int(line)] == value, place
