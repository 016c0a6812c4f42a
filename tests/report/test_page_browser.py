"""Whole reports in a browser: what a reader sees, saves and prints, and what hostile texts cannot do."""

from __future__ import annotations

import codecs
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import MARKS, launched, open_all, opened, sideways, violations
from runs import as_stored, outside_run

from audit.comparing.comparison import compare_folders
from audit.tables.formatting import without_overrides
from audit.tasks.pipeline import report_run

pytestmark = MARKS
EXAMPLE = Path(__file__).parents[2] / "reports" / "example"
ATTACK = (
    '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">{{7*7}}</script>javascript:window.hacked=1'
)
FORMULAS = ('=HYPERLINK("javascript:window.hacked=1")', "+1", "@x", "-2")
TERMS = (*FORMULAS, ATTACK, "\u202egnorw", "\x01\x1b[31m\x7f", "😀👩‍👩‍👧", "$x_{$ &amp; \\")
LOOKS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


def ratings_of(terms, *, n, tail="", change=0.0):
    """Return ratings of two dimensions and n narratives, one in fifty refused, and each term as its own group."""
    rng = np.random.default_rng(0)
    rows = [
        (f"{dimension}{tail}", f"variant{tail}", f"n{k}{tail}", f"{('joy', 'fear')[k % 2]}{tail}", p, e, "rated")
        for dimension in ("one", "two") for k in range(n) for p in terms for e in terms
    ]  # fmt: skip
    names = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "status"]
    ratings = pd.DataFrame(rows, columns=names)
    ratings["rating"] = (rng.uniform(0, 90, len(ratings)) + change).round(2)
    ratings.loc[::50, ["status", "rating"]] = ["refused", None]
    return ratings, pd.DataFrame({"term": terms, "group": terms})


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the pages by name: of the example, of hostile ratings, of a long name; a comparison of hostile runs."""
    example = tmp_path_factory.mktemp("example") / "run"
    shutil.copytree(EXAMPLE, example)
    hostile, other, long = (tmp_path_factory.mktemp(name) for name in ("hostile", "other", "long"))
    made = {"example": report_run(example).report}
    outside_run(hostile, *ratings_of(TERMS, n=6, tail=ATTACK))
    manifest = json.loads((hostile / "run" / "manifest.json").read_text("utf-8"))
    manifest |= {"command": ATTACK, "preset": ATTACK, "model": manifest["model"] | {"name": ATTACK}}
    (hostile / "run" / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    as_stored(hostile / "run")
    made["hostile"] = report_run(hostile / "run").report
    made["long"] = outside_run(long, *ratings_of(("x" * 100_000, "a", "b", "c"), n=3)) / "report.html"
    outside_run(other, *ratings_of(TERMS, n=6, tail=ATTACK, change=5))
    compared = compare_folders(
        [hostile / "run", other / "run"],
        out=tmp_path_factory.mktemp("compared") / "out",
        reports_dir=tmp_path_factory.mktemp("reports"),
        say=lambda line: None,
    )
    return made | {"comparison": compared.page}


def save(page, button):
    """Click on a download and return the bytes of the file that is saved."""
    with page.expect_download() as saved:
        button.click()
    page.wait_for_timeout(120)  # of more than ten downloads in a second Chromium drops the others without a word
    return saved.value.path().read_bytes()


def use_everything(page):
    """Do what a reader can do, once each, but for the downloads, which have a test of their own."""
    page.evaluate("location.hash = 'explore'")
    cell = page.locator("[data-cell]").first
    cell.click()
    page.locator("#explore-panel summary").first.click()
    page.click("#explore-panel [data-do=close]")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.locator("#explore-panel").is_visible()
    page.keyboard.press("Escape")
    for view in page.locator("[name=explore-view]").all():
        view.check()
        if page.locator("#explore-mask").is_enabled():
            page.check("#explore-mask")
    page.locator("[data-filter=kind] select").select_option(label="out-group")
    page.fill("[data-filter=search] input", "n")
    page.click("text=Show all")
    for head in page.locator("[data-list=ratings] thead button").all():
        head.click()
    page.click("[data-list=ratings] >> text=Next")
    page.locator("[data-list=ratings] tbody button").first.click()
    open_all(page)
    page.locator("[data-list=narratives] tbody button").first.click()
    for link in page.locator("nav a, h3 a").all():
        link.click()


@pytest.mark.parametrize("name", ["example", "hostile"])
def test_nothing_fails_and_nothing_is_fetched_whatever_is_used(chromium, pages, name):
    with opened(chromium, pages[name]) as page:
        use_everything(page)
        assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("name", ["hostile", "comparison"])
def test_hostile_texts_are_shown_as_texts_and_run_nothing(chromium, pages, name):
    with opened(chromium, pages[name]) as page:
        open_all(page)
        assert page.evaluate("window.hacked") is None
        assert page.locator("[onerror], [onload], [href^=javascript], script[src]").count() == 0
        assert page.locator("img:not([src^='data:image/svg+xml;base64,'])").count() == 0
        assert ATTACK in page.locator("body").inner_text()
        if name == "hostile":
            # A model's name is one that anybody may have chosen: of a long one its beginning stands on the page.
            heading = page.locator("h1").inner_text()
            assert heading == f"Intergroup empathy gap of {ATTACK[:80]}… ({len(ATTACK)} characters)"
            assert page.locator(".heat").first.locator("thead th").all_text_contents() == [
                *map(without_overrides, TERMS)
            ]
            page.locator("[data-cell]").first.click()
            assert page.locator("#explore-panel h3").inner_text() == f"{TERMS[0]} about {TERMS[0]}"


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", ["hostile", "long", "comparison"])
def test_no_text_however_long_makes_the_page_scroll_sideways_or_grow_without_bound(chromium, pages, name, width):
    assert pages[name].stat().st_size < 3_000_000
    with opened(chromium, pages[name], width=width) as page:
        open_all(page)
        assert sideways(page) == 0
        assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("name", ["example", "hostile"])
def test_each_download_is_its_table_with_no_formula_left(chromium, pages, name):
    tables = pages[name].parent / "tables"
    with opened(chromium, pages[name]) as page:
        open_all(page)
        saved = {button.inner_text(): save(page, button) for button in page.locator("[data-download]").all()}
    assert {"gap.csv", "cells.csv", "families.csv"} <= set(saved)
    dictionary = pd.read_csv(tables / "dictionary.csv")
    for file, content in saved.items():
        assert content.startswith(codecs.BOM_UTF8)
        found, expected = (
            pd.read_csv(each, dtype=str, keep_default_na=False, encoding="utf-8-sig")
            for each in (io.BytesIO(content), tables / file)
        )
        # The page's copy leaves out what the file has once more under a former name.
        meaning = dictionary[dictionary["table"] == file.removesuffix(".csv")].set_index("column")["description"]
        left_out = [column for column in expected.columns if column not in found.columns]
        assert all(meaning[column].startswith("former name of") for column in left_out)
        expected = expected.drop(columns=left_out)
        # A column is of numbers where all that the run folder's file has in it can be read as one.
        for column in expected.columns.difference(pd.read_csv(tables / file).select_dtypes("number").columns):
            formula = expected[column].str.startswith(tuple("=+-@\t\r"))
            expected[column] = expected[column].mask(formula, "'" + expected[column])
        pd.testing.assert_frame_equal(found, expected)
        if (name, file) == ("hostile", "cells.csv"):
            # What nobody can see in a text is written out in the file, as on pages.
            written = [r"\u202egnorw", r"\x01\x1b[31m\x7f"]
            expected = {*(f"'{term}" for term in FORMULAS), ATTACK, *written, *TERMS[len(FORMULAS) + 3 :]}
            assert set(found["perceiver"]) == expected


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", ["example", "comparison"])
def test_every_reader_can_read_and_reach_everything(chromium, pages, name, width, scheme):
    with opened(chromium, pages[name], width=width, color_scheme=scheme) as page:
        assert sideways(page) == 0
        open_all(page)
        assert violations(page) == []
        assert sideways(page) == 0
        small = page.locator("nav a, button, summary, select, [type=search]").evaluate_all(
            "(all) => all.filter((each) => each.checkVisibility()).map((each) => [each.outerHTML,"
            " each.getBoundingClientRect()]).filter(([, box]) => Math.min(box.width, box.height) < 24)"
        )
        assert small == []
        if name == "example":
            page.locator("[data-cell]").nth(1).click()
            page.locator("#explore-panel summary").first.click()
            assert violations(page) == []
            assert sideways(page) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_shows_everything_but_the_controls(chromium, pages, scheme):
    with opened(chromium, pages["example"], color_scheme=scheme) as page:
        page.emulate_media(media="print", color_scheme=scheme)
        assert page.locator("main details > :not(summary)").filter(visible=True).count() > 10
        unseen = page.locator(
            "main details:not(.explore details, section:has(> #downloads) details) > :not(summary, script)"
        ).filter(visible=False)
        assert unseen.count() == 0
        controls = page.locator(
            "nav, select, input, [data-script], [data-list], button:not([data-cell], [data-download])"
        )
        assert controls.filter(visible=True).evaluate_all("(all) => all.map((each) => each.outerHTML)") == []
        ink, paper = page.evaluate("['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])")
        assert (ink, paper) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
        pdf = page.pdf()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 5
    assert len(pdf) > 100_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cells_keep_their_colours_on_paper(chromium, pages, scheme):
    # Of ratings that differ: those of the example are so alike that few colours tell their means.
    with opened(chromium, pages["long"], color_scheme=scheme) as page:
        page.emulate_media(media="print", color_scheme=scheme)
        cells = page.locator("[data-cell]").evaluate_all(
            "(all) => all.map((each) => getComputedStyle(each)).map((style) => [style.backgroundColor,"
            " style.printColorAdjust])"
        )
    assert len({colour for colour, _ in cells}) > len(cells) / 2
    assert {kept for _, kept in cells} == {"exact"}


def test_the_first_screen_answers(chromium, pages):
    with opened(chromium, pages["example"]) as page:
        assert page.locator(".headline").inner_text().startswith("We cannot judge this model: ")
        # Without a verdict no gap and no group is drawn: only the response to the story, beside what is required of it.
        assert page.locator(".finding .glance").count() == 0
        assert page.locator(".scale .glance tr").count() == page.locator(".scale .least").count() == 1
        verdicts = page.locator(".finding .verdict").all_inner_texts()
        assert len(verdicts) == 2
        assert all(each.startswith("No verdict: ") for each in verdicts)
        assert page.locator(".summary .line strong").all_inner_texts() == [
            "What next:", "Check:", "How it varies:", "This does not show:", "Read with care:", "The gap δ",
            "The disparity D",
        ]  # fmt: skip
        ends = page.locator(".asked, .finding, .scale, .summary .line").evaluate_all(
            "(all) => all.map((each) => each.getBoundingClientRect().bottom)"
        )
        assert max(ends) <= 900
        page.click("text=Why that matters")
        assert page.locator("#limits li").first.is_visible()


def test_without_a_script_the_page_still_answers(chromium, pages):
    with opened(chromium, pages["example"], script=False) as page:
        for shown in (".headline", ".verdict", ".glance", ".part figure img", "#gaps ~ .scroll table"):
            assert page.locator(shown).first.is_visible(), shown
        for summary in page.locator("main summary:visible").all():
            summary.click()
        for shown in ("[data-at='cells:0:mean']", ".heat table", ".part details table"):
            assert page.locator(shown).first.is_visible(), shown
        assert page.inner_text("main").count("switch on JavaScript") == 2
        assert page.locator("[data-download]:enabled, [data-cell]:enabled").count() == 0
        assert page.locator("#explore-filters, .heat-views, #explore-panel").filter(visible=True).count() == 0
