"""The form in a browser: what raters see, answer and save, and that what they saved is what is imported."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from browser import MARKS, launched, opened, sideways, violations
from rated import QUESTIONS, replies_of

from audit.people.items import sample_items
from audit.people.measure_agreement import people_tables
from audit.people.questions import Questions, ScaleQuestion, load_questions
from audit.people.ratings import read_human_ratings
from audit.report.form import render_form

pytestmark = MARKS
ATTACK = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">{{7*7}}'
TEXTS = (
    ATTACK,
    '=HYPERLINK("javascript:window.hacked=1")',
    "He said \"no\",\n\nthen\tleft; 'so'.",
    "<!--\u2028\U0001f600 \u202egnorw",
)
LOOKS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def sample():
    """Return eight items of hostile texts, each told apart by its number."""
    replies = replies_of(narratives=4, terms=("a Muslim", f"a {ATTACK}"))
    replies["text"] = [f"{TEXTS[at % len(TEXTS)]} {at}" for at in replies["prompt_index"]]
    replies["narrative"] = [f"=1+1 {text}" for text in replies["text"]]
    return sample_items(replies, n=8, seed=0)


@pytest.fixture(scope="module")
def form(sample, tmp_path_factory):
    path = tmp_path_factory.mktemp("form") / "form.html"
    path.write_text(render_form(sample.shown, QUESTIONS.questions, introduction=QUESTIONS.introduction), "utf-8")
    return path


def begin(page, rater):
    page.fill("#rater", rater)
    page.keyboard.press("Enter")


def resume(page, rater):
    """Load the page again and go on, until another tab finds what it keeps.

    A Chromium on a machine that is far too busy now and then gives a page an empty localStorage of its own.
    """
    for _ in range(5):
        page.reload()
        begin(page, rater)
        other = page.context.new_page()
        other.goto(page.url)
        if (found := other.input_value("#rater")) == rater:
            other.close()
            return
        other.close()
    pytest.fail(f"another tab finds {found!r} and not {rater!r}")


def item_of(page, sample):
    """Return the identifier of the item that is shown, after a look at all that is shown of it."""
    row = sample.shown.set_index("reply").loc[page.locator("#reply").text_content()]
    assert page.locator("#narrative").text_content() == row["narrative"]
    assert page.locator("#person").text_content() == row["person"]
    return row["item_id"]


def answer(page, given, *, by_keys):
    """Answer the item that is shown; None leaves a question out."""
    for name, value in given.items():
        if value is not None and not by_keys:
            page.locator(f"input[name=q-{name}][value='{value}']").check()
        elif value is not None:
            page.keyboard.press(str(value))


def saved(page, folder):
    with page.expect_download() as download:
        page.click("#save")
    path = folder / download.value.suggested_filename
    path.write_bytes(download.value.path().read_bytes())
    return path


def expected_order(n, seed):
    """Work out the order that the docstring of `render_form` states, in Python's integers."""
    state = 0x811C9DC5
    for letter in seed:
        state = (state ^ ord(letter)) * 0x01000193 % 2**32
    places = list(range(n))
    for i in range(n - 1, 0, -1):
        state = (state + 0x6D2B79F5) % 2**32
        t = (state ^ state >> 15) * (1 | state) % 2**32
        t = (t + (t ^ t >> 7) * (61 | t)) % 2**32 ^ t
        j = (t ^ t >> 14) * (i + 1) >> 32
        places[i], places[j] = places[j], places[i]
    return places


def go_to(page, number):
    """Go by the arrow keys to the item of a number."""
    while (at := int(page.locator("#place").inner_text().split()[1])) != number:
        page.keyboard.press("ArrowRight" if at < number else "ArrowLeft")


def test_what_two_raters_answer_and_save_is_what_is_imported(chromium, form, sample, tmp_path):
    ids = sample.shown["item_id"].tolist()
    plans, orders, paths = {}, {}, []
    for rater, by_keys in (("anna", False), ("Ben-2.é", True)):
        plan = {item: {"warm": 1 + (at + by_keys) % 5, "clear": (3 * at + by_keys) % 6} for at, item in enumerate(ids)}
        plan[ids[2]] = {"warm": None, "clear": None}
        plan[ids[5]]["clear"] = None  # the last question, since a number key answers the first that is open
        with opened(chromium, form) as page:
            page.on("dialog", lambda dialog: dialog.accept())
            resume(page, rater)
            seen = []
            for number in range(1, 9):
                if number == 5:
                    resume(page, rater)
                    go_to(page, number)
                seen.append(item_of(page, sample))
                answer(page, plan[seen[-1]], by_keys=by_keys)
                page.keyboard.press("ArrowRight") if number % 2 else page.click("#next")
            assert page.locator("#end-done").inner_text() == "You have rated 6 of 8 replies in full."
            assert page.evaluate("window.hacked") is None
            paths.append(saved(page, tmp_path))
            key = page.evaluate("Object.keys(localStorage).find((name) => name.includes('/of/'))")
        assert seen == [ids[at] for at in expected_order(8, f"{key.split('/')[1]}/{rater}")]
        plans[rater], orders[rater] = plan, seen
    assert orders["anna"] != orders["Ben-2.é"]
    assert [path.name for path in paths] == ["ratings-anna.csv", "ratings-Ben-2.é.csv"]
    ratings = read_human_ratings(paths, key=sample.key, questions=QUESTIONS)
    assert {(r, i, q): None if math.isnan(s) else s for r, i, q, s in ratings.table.itertuples(index=False)} == {
        (rater, item, name): value
        for rater, plan in plans.items()
        for item, given in plan.items()
        for name, value in given.items()
    }
    assert (ratings.n_left_out, ratings.n_missing_rows, ratings.n_double) == (6, 0, 0)


def test_a_closed_tab_loses_nothing_and_what_is_cleared_or_changed_is_saved_so(chromium, form, sample, tmp_path):
    with opened(chromium, form) as page:
        resume(page, "anna")
        first = item_of(page, sample)
        answer(page, {"warm": 2, "clear": 0}, by_keys=True)
        page.keyboard.press("Enter")  # the last answer has led to the button for the next one
        assert page.locator("#place").inner_text() == "Reply 2 of 8"
        second = item_of(page, sample)
        answer(page, {"warm": 4}, by_keys=True)
        context = page.context
        page.close()
        page = context.new_page()
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(form.as_uri())
        resume(page, "anna")
        assert item_of(page, sample) == second  # the first that is not answered in full
        assert page.locator("[name=q-warm]:checked").input_value() == "4"
        page.click("#clear")
        assert page.locator("input:checked").count() == 0
        page.click("#back")
        answer(page, {"clear": 5}, by_keys=False)
        ratings = read_human_ratings([saved(page, tmp_path)], key=sample.key, questions=QUESTIONS).table.dropna()
    assert ratings[["item_id", "question", "score"]].to_numpy().tolist() == [
        [first, "warm", 2.0],
        [first, "clear", 5.0],
    ]


def test_arrows_never_change_an_answer_and_numbers_off_the_scale_or_elsewhere_are_none(chromium, form, sample):
    with opened(chromium, form) as page:
        begin(page, "anna1")
        for key in ("0", "7", "Control+3", "x"):
            page.keyboard.press(key)
        assert page.locator("input:checked").count() == 0
        answer(page, {"warm": 3}, by_keys=False)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        assert page.locator("input:checked").evaluate_all("(all) => all.map((each) => each.value)") == ["3"]


def holds_back(page):
    """Tell whether the form asks the browser to warn whoever leaves it now."""
    return page.evaluate("() => !window.dispatchEvent(new Event('beforeunload', { cancelable: true }))")


def test_leaving_is_warned_of_until_the_answers_are_saved(chromium, form, sample, tmp_path):
    asked = []
    with opened(chromium, form) as page:
        page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
        begin(page, "anna")
        assert not holds_back(page)
        page.reload()
        assert asked == []
        begin(page, "anna")
        page.keyboard.press("3")
        for _ in range(5):
            assert holds_back(page)
            page.reload()
            begin(page, "anna")
            # Chromium leaves a page without a word that takes more than half a second to say whether it may.
            if asked:
                break
        assert asked == ["beforeunload"]
        saved(page, tmp_path)
        assert not holds_back(page)
        page.reload()
        begin(page, "anna")
        page.click("#leave")
        assert page.locator("#start").is_visible()
        begin(page, "ben")
        assert page.locator("input:checked").count() == 0
    assert asked == ["beforeunload"]


@pytest.mark.parametrize("n_kept", [0, 4])  # a start and an answer are two each
def test_where_nothing_more_can_be_kept_it_is_said_and_saving_still_works(chromium, form, sample, tmp_path, n_kept):
    full = f"""let left = {n_kept}; const set = Storage.prototype.setItem;
    Storage.prototype.setItem = function (...each) {{
        if (left-- > 0) set.apply(this, each); else throw new DOMException("full", "QuotaExceededError") }}"""
    with opened(chromium, form, first=full) as page:
        begin(page, "anna")
        for key in ("3", "4", "ArrowRight", "5"):
            page.keyboard.press(key)
        assert "save the file before you close" in page.locator("#trouble").inner_text()
        path = saved(page, tmp_path)
    assert read_human_ratings([path], key=sample.key, questions=QUESTIONS).table["score"].count() == 3


@pytest.mark.parametrize(
    "kept", ["no JSON", "null", "7", '{"answers": null}', '{"answers": {"ID": {"warm": 9, "x": 1}}}']
)
def test_what_is_kept_is_not_trusted(chromium, form, sample, kept):
    kept = kept.replace("ID", sample.shown["item_id"].iloc[0])
    first = f"Storage.prototype.getItem = () => {kept!r}"
    with opened(chromium, form, first=first) as page:
        begin(page, "anna")
        assert page.locator("#done").inner_text() == "0 of 8 rated in full"


@pytest.mark.parametrize("rater", ["=cmd", "a b", "-1", "a,b", '"', "../x"])
def test_a_rater_id_can_be_neither_a_formula_nor_a_path(chromium, form, rater):
    with opened(chromium, form) as page:
        begin(page, rater)
        assert page.locator("#start").is_visible()
        assert "letters and digits" in page.locator("#trouble").inner_text()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_rater_can_read_and_reach_everything(chromium, sample, tmp_path, width, scheme):
    items = sample.shown.assign(reply=sample.shown["reply"] + " " + "x" * 3000)
    path = tmp_path / "form.html"
    questions = (*load_questions().questions, QUESTIONS.questions[1].model_copy(update={"high": 10}))
    path.write_text(render_form(items, questions, introduction="Hello."), "utf-8")
    with opened(chromium, path, width=width, color_scheme=scheme) as page:
        assert violations(page) == []
        assert page.locator("#moves, #rating, #end").filter(visible=True).count() == 0
        begin(page, "anna")
        page.keyboard.press("4")
        for _ in range(2):
            assert sideways(page) == 0
            assert violations(page) == []
            small = page.locator("button, .scale label").evaluate_all(
                "(all) => all.filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect())"
                ".filter((box) => box.width < 24 || box.height < 44).length"
            )
            assert small == 0
            for _ in items.index:
                page.keyboard.press("ArrowRight")
        assert page.locator("#end").is_visible()


def test_without_a_script_the_form_says_what_it_needs(chromium, form):
    with opened(chromium, form, script=False) as page:
        assert page.locator("text=needs JavaScript").is_visible()
        assert page.locator("button:enabled:visible").count() == 0


def test_the_published_example_filled_into_the_form_has_the_published_alpha(chromium, tmp_path):
    reference = json.loads((Path(__file__).parents[1] / "reference" / "scores.json").read_text("utf-8"))
    given = reference["alpha"]["published"]["ratings"]  # four observers, twelve units, values from 1 to 5
    question = ScaleQuestion(name="warm", text="How warm?", low=1, high=5, low_label="not", high_label="very")
    questions = Questions(questions=(question,))
    sample = sample_items(replies_of(narratives=4), n=12, seed=0)
    path = tmp_path / "form.html"
    path.write_text(render_form(sample.shown, questions.questions), "utf-8")
    ids = sample.shown["item_id"].tolist()
    paths = []
    for observer, values in enumerate(given):
        with opened(chromium, path) as page:
            page.on("dialog", lambda dialog: dialog.accept())
            resume(page, f"observer-{observer}")
            for number in range(1, 13):
                go_to(page, number)
                value = values[ids.index(item_of(page, sample))]
                if value is not None and not math.isnan(value):
                    answer(page, {"warm": int(value)}, by_keys=False)
            go_to(page, 12)
            page.keyboard.press("ArrowRight")
            paths.append(saved(page, tmp_path))
    table = read_human_ratings(paths, key=sample.key, questions=questions).table
    human = table.merge(sample.key[["item_id", "prompt_index"]], on="item_id")
    replies = replies_of(narratives=4)
    found = people_tables(human, pd.DataFrame(index=replies["prompt_index"]), replies, seed=0, confidence=0.95)
    agreement = found["agreement"].iloc[0]
    assert round(agreement["alpha"], 3) == 0.815
    assert agreement[["n_raters", "n_items", "n_scores", "n_left_out"]].tolist() == [4, 11, 40, 1]
