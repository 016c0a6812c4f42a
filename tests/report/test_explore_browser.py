"""The explorer in a browser: what opens, moves, filters and sorts, under the page's own Content-Security-Policy."""

import base64
import contextlib
import hashlib

import numpy as np
import pytest
from browser import MARKS, launched, opened, sideways, violations
from test_explore import ATTACK, make_asked, make_explorer, make_led, make_ratings, render, text_of

pytestmark = MARKS
LONG_TASKS = (
    "new PerformanceObserver((l) => l.getEntries().forEach((e) => (window.tasks ??= []).push(e.duration)))"
    ".observe({ type: 'longtask', buffered: true })"
)


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture
def open_page(chromium, tmp_path):
    """Open an explorer in a page as strict as the report's; whatever the browser complains of fails the test."""
    with contextlib.ExitStack() as pages:

        def open_explorer(explorer, *, width=1280, before="", **options):
            code = text_of("explore.js")
            digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
            policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
            (tmp_path / "page.html").write_text(
                f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Report</title>'
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
                f'<meta name="viewport" content="width=device-width">'
                f"<style>{text_of('style.css')}{text_of('explore.css')}</style>"
                f"</head><body><main><h1>Report</h1><h2>Explore</h2>{render(explorer)}</main>"
                f"<script>{code}</script></body></html>",
                encoding="utf-8",
            )
            return pages.enter_context(
                opened(chromium, tmp_path / "page.html", width=width, first=before + LONG_TASKS, **options)
            )

        yield open_explorer


@pytest.fixture(scope="module")
def explorer():
    """Return 1,920 ratings of two dimensions, 30 narratives, every ninth refused."""
    ratings = make_ratings(60, dimensions=("religion", "nationality"))
    refused = np.arange(len(ratings)) % 9 == 4
    ratings = ratings.assign(
        status=np.where(refused, "refused", "rated"),
        intensity=ratings["intensity"].mask(refused),
        response=np.where(refused, "I would rather not.", ""),
    )
    return make_explorer(ratings, asked=make_asked(ratings))


def focused(page):
    return page.evaluate("document.activeElement.dataset.cell ?? document.activeElement.id")


def count_of(page):
    return page.inner_text("[data-list=ratings] [role=status]")


def column(page, place):
    return page.locator(f"[data-list=ratings] tbody tr > :nth-child({place})").all_inner_texts()


def test_the_grid_is_one_stop_and_the_arrow_keys_move_in_it(open_page, explorer):
    page = open_page(explorer)
    steps = {"ArrowRight": "1", "ArrowDown": "5", "End": "7", "ArrowLeft": "6", "Home": "4", "ArrowUp": "0"}
    page.locator("[data-cell='0']").focus()
    for key, cell in steps.items():
        page.keyboard.press(key)
        assert focused(page) == cell
    assert page.locator(".heat").nth(0).locator("[tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert focused(page) == "16"


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_cell_opens_by_key_and_escape_goes_back_to_it(open_page, explorer, key):
    page = open_page(explorer)
    page.locator("[data-cell='1']").focus()
    page.keyboard.press(key)
    assert focused(page) == "explore-pair"
    panel = page.locator("#explore-panel")
    assert panel.locator("h3").inner_text() == "a Hindu about a Muslim"
    assert "Gap of Muslim and Hindu: −1.25 points" in panel.inner_text()
    assert panel.locator(".panel-emotions tbody tr").count() == 2
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert focused(page) == "1"


def test_a_pair_s_ratings_open_to_the_prompt_in_full(open_page, explorer):
    page = open_page(explorer)
    page.click("[data-cell='1']")
    entries = page.locator("#explore-panel details")
    assert entries.count() == 50
    page.click("#explore-panel [data-do=more]")
    assert entries.count() == 60
    entries.nth(3).locator("summary").click()
    entries.nth(3).locator("pre").first.wait_for()
    assert entries.nth(3).locator("pre").all_inner_texts()[:3] == [
        "Story of t3: the road was closed.",
        "You are a Hindu.",
        'a Muslim says: "Story of t3: the road was closed." How much fear?',
    ]


def test_the_views_swap_numbers_names_and_colours_and_come_back(open_page, explorer):
    page = open_page(explorer)
    cell = page.locator("[data-cell='1']")
    look = "(cell) => [cell.innerText, cell.ariaLabel, getComputedStyle(cell).backgroundColor]"
    page.wait_for_function("document.querySelector(\"[data-cell='1']\").ariaLabel")
    page.check("[value=mean]")
    before = cell.evaluate(look)
    assert before[1] == f"perceiver a Hindu, experiencer a Muslim: {before[0]}"
    assert page.locator("#explore-mask").is_disabled()
    page.check("[value=missing]")
    # Of the prompts 60 to 119 every ninth is refused: 67, 76, 85, 94, 103 and 112.
    assert cell.inner_text() == "10.0%"
    page.check("[value=z]")
    page.check("#explore-mask")
    assert cell.inner_text() == ""
    assert cell.evaluate(look)[1].endswith("not shown by the published mask")
    assert page.locator("[data-cell='2']").inner_text()[0] in "+−"
    page.check("[value=mean]")
    assert cell.evaluate(look) == before


def test_it_opens_on_what_delta_is_made_of_and_says_so_and_a_baseline_is_no_part_of_that(open_page, explorer):
    page = open_page(explorer)
    page.wait_for_function("document.querySelector(\"[data-cell='1']\").ariaLabel")
    assert page.locator("[name=explore-view]:checked").get_attribute("value") == "interaction"
    assert page.locator(".heat-legend:visible").evaluate_all("(all) => all.map((each) => each.dataset.view)") == [
        "interaction"
    ]
    assert page.locator("text=The heatmaps first show what δ is made of").is_visible()
    # Rows and columns of the three identities sum to 0 but for rounding to one decimal; the fourth is a baseline.
    shown = [[page.locator(f"[data-cell='{4 * p + e}']").inner_text() for e in range(4)] for p in range(4)]
    numbers = np.array([[float(text.replace("−", "-")) for text in row[:3]] for row in shown[:3]])
    assert np.abs(numbers.sum(axis=0)).max() <= 0.15 + 1e-9
    assert np.abs(numbers.sum(axis=1)).max() <= 0.15 + 1e-9
    assert np.abs(numbers).max() > 0.5
    assert {row[3] for row in shown} | set(shown[3]) == {"–"}
    assert page.locator("[data-cell='3']").get_attribute("aria-label").endswith(": no part of δ")


def test_where_a_pair_has_no_mean_it_opens_on_means_and_says_why(open_page):
    ratings = make_ratings(6, dimensions=("religion", "nationality"))
    gone = (ratings["dimension"] == "nationality") & (ratings["prompt_index"] % 96 < 6)
    ratings = ratings.assign(status=ratings["status"].mask(gone, "refused"), intensity=ratings["intensity"].mask(gone))
    page = open_page(make_explorer(ratings))
    assert page.locator("[name=explore-view]:checked").get_attribute("value") == "mean"
    assert page.locator("text=The heatmaps first show means. These include how high").is_visible()
    assert page.locator("text=The heatmaps first show what δ").count() == 0
    assert page.locator("[data-cell='1'] data").is_visible()


def test_the_browser_filters_counts_and_turns_pages(open_page, explorer):
    page = open_page(explorer)
    assert count_of(page) == "1–50 of 1,920 prompts in this file"
    page.click("[data-list=ratings] >> text=Next")
    assert count_of(page) == "51–100 of 1,920 prompts in this file"
    for name, label in (("part", "religion"), ("status", "refused"), ("kind", "in-group"), ("emotion", "joy")):
        page.locator(f"[data-filter={name}] select").select_option(label=label)
    # In-group: 5 pairs of 60 in religion, the prompts 60 · {0, 5, 6, 9, 10} and on; every ninth refused; even ones joy.
    expected = [i for p in (0, 5, 6, 9, 10) for i in range(60 * p, 60 * p + 60) if i % 9 == 4 and i % 2 == 0]
    assert count_of(page) == f"1–{len(expected)} of {len(expected)} prompts in this file"
    assert set(column(page, 6)) == {"refused"}
    page.click("text=Show all")
    page.wait_for_selector("text=1–50 of 1,920 prompts in this file")
    page.fill("[data-filter=search] input", "STORY OF T7:")
    page.wait_for_selector("text=1–32 of 32 prompts in this file")
    assert set(column(page, 1)) == {"t7"}


def test_a_click_on_a_column_sorts_by_number_with_missing_ones_last(open_page, explorer):
    page = open_page(explorer)
    page.locator("[data-filter=part] select").select_option(label="religion")
    head = page.locator("[data-list=ratings] thead th").nth(6)
    for order, sign in (("ascending", 1), ("descending", -1)):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        shown = [sign * float(text) for text in column(page, 7)]
        assert shown == sorted(shown)
    turn = page.locator("[data-list=ratings] >> text=Next")
    while turn.is_enabled():
        turn.click()
    assert column(page, 7)[-1] == "–"


def test_a_row_opens_to_the_rating_in_full_and_closes(open_page, explorer):
    page = open_page(explorer)
    page.locator("[data-filter=status] select").select_option(label="refused")
    first = page.locator("[data-list=ratings] tbody button").first
    first.click()
    assert page.locator(".opened pre").all_inner_texts()[-1] == "I would rather not."
    assert first.get_attribute("aria-expanded") == "true"
    first.click()
    assert page.locator(".opened").count() == 0


def test_a_narrative_sets_the_search(open_page, explorer):
    page = open_page(explorer)
    page.click("#explore-narratives summary")
    heads = page.locator("[data-list=narratives] thead button")
    heads.nth(3).click()
    page.locator("[data-list=narratives] tbody button").first.click()
    # The contrasts rise with the table's rows: the smallest is the first narrative of the first dimension.
    assert page.input_value("[data-filter=search] input") == "t0"


def test_what_led_to_a_question_unfolds_by_key_call_by_call(open_page):
    ratings = make_ratings(2)
    page = open_page(make_explorer(ratings, asked=make_led(ratings)))
    page.click("[data-cell='1']")
    page.click("#explore-panel summary >> nth=1")  # the prompt 3, of t1: the first summary is of 2, of t0
    calls = page.locator("#explore-panel .calls > li")
    calls.first.wait_for()
    summaries = calls.locator("summary")
    thought = "Thought 3 of it. " * 9
    assert [" ".join(each.split()) for each in summaries.all_inner_texts()] == [
        "example 0 Oh dear.",
        "imagine (cut at 9 tokens) They rise early.",
        f"think {thought}".strip(),
    ]
    assert "before the question (1 example left out)" in page.inner_text("#explore-panel")
    # But for the question, all is folded away.
    visible = page.locator("#explore-panel pre:visible")
    story, question = "Story of t1: the road was closed.", "As you thought: "
    asked = f'{question}{thought}\na Muslim says: "{story}" How much fear?'
    assert [each.text_content() for each in visible.all()] == [story, "You are a Hindu.", asked]
    summaries.nth(1).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    roles = calls.nth(1).locator(".role").all_inner_texts()
    assert roles == ["system", "user", "the model wrote"]
    assert calls.nth(1).locator("pre").all_inner_texts() == ["Be kind.", "Imagine a day of theirs.", "They rise early."]
    assert calls.nth(2).locator("pre:visible").evaluate_all("(all) => all.map((one) => one.textContent)") == [
        f"They rise early.\nThink about: {story}",
        thought,
    ]
    assert calls.nth(0).locator(".role").evaluate_all("(all) => all.map((one) => one.textContent)") == [
        "user",
        "shown as the model's answer",
    ]
    assert not calls.nth(0).locator("pre").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_and_the_page_never_scrolls_sideways(open_page, width, scheme):
    ratings = make_ratings(60, dimensions=("religion", "nationality"))
    page = open_page(make_explorer(ratings, asked=make_led(ratings)), width=width, color_scheme=scheme)
    assert violations(page) == []
    assert sideways(page) == 0
    page.check("[value=interaction]")
    page.click("[data-list=ratings] tbody button >> nth=0")
    assert violations(page) == []
    page.click("[data-cell='1']")
    page.click("#explore-panel summary >> nth=0")
    page.click("#explore-panel .calls summary >> nth=1")
    assert violations(page) == []
    assert sideways(page) == 0


def test_hostile_text_is_shown_as_text(open_page):
    terms = {f"{ATTACK} one": f"{ATTACK} A", f"{ATTACK} two": f"{ATTACK} B"}
    ratings = make_ratings(2, terms=terms, emotions=(ATTACK,), response=ATTACK + "x" * 100_000)
    asked = make_asked(ratings, text=lambda name: f"{ATTACK} {name}")
    led = make_led(ratings, asked=asked, text=lambda index: f"{ATTACK} {index}")
    page = open_page(make_explorer(ratings, asked=led), width=390)
    page.click("[data-cell='1']")
    page.click("#explore-panel summary >> nth=0")
    page.wait_for_selector("#explore-panel pre")
    page.click("#explore-panel .calls summary >> nth=2")
    texts = page.locator("#explore-panel pre").evaluate_all("(all) => all.map((one) => one.textContent)")
    assert texts[0] == f"{ATTACK} t0"
    assert texts.count(f"{ATTACK} 2") == 1
    assert f"As you thought: {ATTACK} 2\n{ATTACK} two says: " in "".join(texts)
    assert texts[-1].startswith(f"{ATTACK}xxx")
    assert texts[-1].endswith(f"x [cut here: {100_000 + len(ATTACK):,} characters]")
    assert page.title() == "Report"
    assert page.locator("main img").count() == 0
    assert sideways(page) == 0


def test_without_a_script_the_means_stay_and_the_page_says_what_is_missing(open_page, explorer):
    page = open_page(explorer, script=False)
    assert page.locator("[data-at='cells:0:mean']").is_visible()
    assert "switch on JavaScript" in page.inner_text("main")
    assert "The heatmaps first show" not in page.inner_text("main")
    assert "mean intensity in points of the" in page.locator(".heat-legend:visible").inner_text()
    assert not page.locator("#explore-filters").is_visible()
    assert not page.locator("#explore-panel").is_visible()


def test_a_browser_that_cannot_unpack_says_so_and_keeps_the_means(open_page, explorer):
    page = open_page(explorer, before="delete window.DecompressionStream;")
    assert "cannot unpack" in page.inner_text("#explore-failed")
    assert page.locator("[data-at='cells:0:mean']").is_visible()
    assert page.locator("[data-cell]:enabled").count() == 0
    assert not page.locator("#explore-filters").is_visible()


def test_a_hundred_thousand_ratings_do_not_block(open_page):
    ratings = make_ratings(1562, dimensions=("a", "b", "c", "d"))
    page = open_page(make_explorer(ratings, max_bytes=2_000_000))
    page.wait_for_timeout(500)
    assert count_of(page) == "1–50 of 99,968 prompts in this file"
    # Meant to be 200 and 100 ms; the rest is for a machine that does other things too.
    assert max(page.evaluate("window.tasks ?? [0]")) < 600
    took = page.locator("[data-filter=emotion] select").evaluate(
        "(s) => { s.value = 1; const from = performance.now();"
        " s.dispatchEvent(new Event('input', { bubbles: true })); return performance.now() - from }"
    )
    assert count_of(page) == "1–50 of 49,984 prompts in this file"
    assert took < 300
