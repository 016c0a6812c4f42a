"""The form of intensities in a browser: who a rater says to be, numbers and options that are answered, and the file."""

from __future__ import annotations

import pandas as pd
import pytest
from browser import MARKS, launched, opened, sideways, violations
from perceivers import RELIGION, dimension_of, grid_of, lists_of

from audit.people.lists import norming_lists, norming_questions, rating_questions
from audit.people.ratings import read_human_ratings
from audit.report.form import SITUATIONS, render_form

pytestmark = MARKS
ATTACK = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">{{{{7*7}}}}'


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def intensity(tmp_path_factory):
    """Return the form of one list of eight narratives, hostile ones, with its key and questions."""
    grid = grid_of(dimension_of("religion", {**RELIGION, "<img src=x onerror=hacked=1>": 1}), n=5, text=ATTACK + " {k}")
    lists = lists_of(grid, n=5)
    questions, _ = rating_questions(grid, grid.variant.scale, introduction=None)
    return written(tmp_path_factory, lists, questions), lists, questions


@pytest.fixture(scope="module")
def norming(tmp_path_factory):
    grid = grid_of(n=8)
    lists = norming_lists(grid, n=8, n_lists=None, seed=0, salt="salt")
    questions = norming_questions(grid, grid.variant.scale, introduction=None)
    return written(tmp_path_factory, lists, questions), lists, questions


def written(factory, lists, questions):
    path = factory.mktemp("form") / "form.html"
    shown = lists.shown.loc[lists.shown["list"] == lists.names[0]].drop(columns="list")
    page = render_form(
        shown, questions.questions, introduction=questions.introduction, about=questions.about, words=SITUATIONS
    )
    path.write_text(page, "utf-8")
    return path


def item_of(page, lists):
    rows = lists.shown.loc[lists.shown["list"] == lists.names[0]].set_index("narrative")
    return rows.loc[page.locator("#narrative").text_content()]


def saved(page, folder):
    with page.expect_download() as download:
        page.click("#save")
    path = folder / download.value.suggested_filename
    path.write_bytes(download.value.path().read_bytes())
    return path


def test_a_rater_says_who_they_are_writes_numbers_and_what_is_saved_is_imported(chromium, intensity, tmp_path):
    form, lists, questions = intensity
    wanted = {}
    with opened(chromium, form) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        page.fill("#rater", "anna")
        page.keyboard.press("Enter")
        assert "answer every question on this page" in page.locator("#trouble").inner_text()
        assert page.locator("#start").is_visible()
        page.select_option("#about-0", label="<img src=x onerror=hacked=1>")
        page.click("#who button")
        assert page.locator("#reply, #reply-head").filter(visible=True).count() == 0
        for number in range(5):
            item = item_of(page, lists)
            assert page.locator("legend").inner_text() == f"How intense was the person's {item['emotion']}?"
            if number < 3:
                wanted[item["item_id"]] = 10 * number + 7
                page.keyboard.type(str(10 * number + 7))  # the first figure leads into the field
                page.keyboard.press("Enter")
            elif number == 3:
                page.fill("[name=q-intensity]", "101")
                assert "from 0 to 100" in page.locator("#said").inner_text()
                page.click("#next")
        assert page.locator("#done").inner_text() == "3 of 5 rated in full"
        page.reload()
        page.fill("#rater", "anna")
        page.click("#who button")  # who the rater is was kept
        assert page.locator("#rating").is_visible()
        assert page.evaluate("window.hacked") is None
        path = saved(page, tmp_path)
    human = read_human_ratings([path], key=lists.key, questions=questions)
    assert dict(human.table.dropna()[["item_id", "score"]].to_numpy()) == wanted
    assert human.about == {"anna": {"about_1": "<img src=x onerror=hacked=1>"}}
    assert len(human.table) == 5


def test_options_and_two_scales_are_answered_and_imported(chromium, norming, tmp_path):
    form, lists, questions = norming
    with opened(chromium, form) as page:
        page.fill("#rater", "ben")
        page.keyboard.press("Enter")
        assert page.locator("select").count() == 0
        item = item_of(page, lists)["item_id"]
        page.get_by_label("fear", exact=True).check()
        page.fill("[name=q-intensity]", "60")
        page.locator("[name=q-plausibility][value='7']").check()
        assert page.locator("#done").inner_text() == "1 of 8 rated in full"
        path = saved(page, tmp_path)
    assert pd.read_csv(path, encoding="utf-8-sig").set_index("item_id").loc[item, "felt"] == "fear"
    table = read_human_ratings([path], key=lists.key, questions=questions).table.dropna()
    place = float(questions.questions[0].options.index("fear"))
    assert dict(table[["question", "score"]].to_numpy()) == {"felt": place, "intensity": 60.0, "plausibility": 7.0}


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
@pytest.mark.parametrize("which", ["intensity", "norming"])
def test_every_rater_can_read_and_reach_everything(chromium, request, which, width, scheme):
    form, _, _ = request.getfixturevalue(which)
    with opened(chromium, form, width=width, color_scheme=scheme) as page:
        assert violations(page) == []
        page.fill("#rater", "anna")
        if which == "intensity":
            page.select_option("#about-0", index=1)
        page.click("#who button")
        assert sideways(page) == 0
        assert violations(page) == []
        small = page.locator("button, .scale label, .options label, .number input").evaluate_all(
            "(all) => all.filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect())"
            ".filter((box) => box.width < 24 || box.height < 44).length"
        )
        assert small == 0
