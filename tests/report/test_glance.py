"""The first screen's picture and the terms explained on the page, on numbers and ratings whose truth is planted."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from markupsafe import Markup
from planted import CASES, Planted, grouped, ratings_of
from test_first_screen import analysis_of

from audit.report.glance import Axis, Mark, axis_of
from audit.report.glossary import TERMS, explained, glossary, words
from audit.statistics.controls import Repetition
from audit.tasks.intensity.page import render_report


def at(low: float, high: float, look: str = "", least: float = math.nan) -> Mark:
    return Mark(Markup("a"), (low + high) / 2, low, high, Markup(), Markup(), look, least=least)


def page_of(case: str) -> tuple[str, dict]:
    manifest, analysis = analysis_of(CASES[case]())
    page = render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=analysis.remarks)
    return page.partition('<div class="summary">')[2].partition("print-summary")[0], analysis.tables


def places(text: str, pattern: str) -> list[tuple[float, float]]:
    """Return places in percent, and the numbers that stand for them."""
    found = re.findall(pattern, text, re.DOTALL)
    return [(float(place), float(number.replace("−", "-").replace(",", ""))) for place, number in found]


def test_the_axis_has_0_the_margin_and_every_interval() -> None:
    axis = axis_of([at(3.0, 5.0), at(-1.0, 0.5)], margin=8.0)
    assert axis is not None
    assert axis.low < -8.0
    assert 8.0 < axis.high < 10.0
    within = [float(axis.place(value)[:-1]) for value in (-8, -1, 0, 0.5, 3, 5, 8)]
    assert all(0 < a < b < 100 for a, b in pairwise(within))
    assert axis_of([at(0.0, 0.0)], margin=None) is None


@pytest.mark.parametrize(("response", "drawn"), [(30.0, True), (300.0, False)])
def test_what_intervals_are_compared_with_is_drawn_if_they_can_be_read_beside_it(response: float, drawn: bool) -> None:
    beside = at(response - 1, response + 1, look="beside")
    axis = axis_of([at(-2.0, 6.0), beside], margin=None)
    assert axis is not None
    assert axis.beyond(beside) != drawn
    alone = axis_of([at(-0.2, 0.6, look="beside", least=1.0)], margin=4.0)
    assert alone is not None
    assert 1.0 < alone.high < 2.0  # a check alone is seen beside what it requires, whatever the margin of gaps


@pytest.mark.parametrize(("low", "high"), [(-0.3, 0.9), (-21.0, 6.0), (0.0, 1e-4), (-100, 40)])
def test_ticks_are_round_numbers_at_their_places(low: float, high: float) -> None:
    axis = Axis(low, high)
    ticks = [(float(place[:-1]), float(number.replace("−", "-"))) for place, number in axis.ticks]
    assert 2 <= len(ticks) <= 6
    for place, number in ticks:
        assert place == pytest.approx(100 * (number - low) / (high - low), abs=0.01)


@pytest.mark.parametrize("case", ["less-and-own", "less-for-one", "b1-group"])
def test_marks_stand_where_their_numbers_are_and_findings_alone_are_filled(case: str) -> None:
    screen, tables = page_of(case)
    (a, one), *_, (b, two) = places(screen, r'<text x="([\d.]+)%" y="75%" text-anchor="middle">([+−\d.,]+)</text>')
    marked = re.findall(r'<circle cx="([\d.]+)%".*?<data value="([^"]*)" data-at="(\w+):(\d+):(\w+)">', screen)
    assert len(marked) >= 5
    for place, value, table, line, column in marked:
        assert float(value) == tables[table][column][int(line)]
        assert float(place) == pytest.approx(a + (float(value) - one) / (two - one) * (b - a), abs=0.1)
    found = set(re.findall(r'<tr class="found">.*?data-at="(\w+:\d+):', screen, re.DOTALL))
    said = {f"verdicts:{line}" for line in tables["verdicts"].query("code == 'gap'").index}
    said |= {
        f"disparity:{line}" for line in tables["disparity"].query("headline and code in ['lower', 'higher']").index
    }
    assert found == said


def test_without_a_verdict_nothing_is_drawn() -> None:
    assert 'class="glance"' not in page_of("constant")[0]


def test_every_term_is_defined_in_words_that_need_no_markup() -> None:
    for term in TERMS:
        assert len(glossary()[term]) > 20, term
        assert not re.search(r"[`*\[\]]", glossary()[term]), term


def test_a_term_is_marked_once_and_never_in_a_name_that_anybody_may_have_chosen() -> None:
    text = f"<p><bdi>the margin of</bdi> a margin of 2, the margin is</p>{words()}"
    made = explained(text)
    assert made.count("<dfn") == 1
    assert '<bdi>the margin of</bdi> a <dfn tabindex="0" aria-describedby="term-margin">margin</dfn> of 2' in made
    assert 'id="term-margin"' in made
    assert explained("<p>a margin of 2</p>") == "<p>a margin of 2</p>"  # a page without the glossary


@pytest.mark.parametrize(("margin", "size"), [(None, ""), (30.0, "smaller"), (0.5, "beyond")])
def test_a_gap_that_is_found_is_filled_however_small(margin: float | None, size: str) -> None:
    six = {f"a {word} {k}": f"group {k}" for k in range(6) for word in ("first", "second")}
    planted = Planted(
        ratings_of(six, n=60, gap=lambda *_: 1.5), grouped(six), {} if margin is None else {"margin": margin}
    )
    manifest, analysis = analysis_of(planted, repetition=Repetition({"identity": {term: term for term in six}}))
    [verdict] = analysis.tables["verdicts"].to_dict("records")
    assert (verdict["code"], verdict["size"]) == ("gap", size)
    page = render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=analysis.remarks)
    assert re.findall(r'<tr class="found"><th scope="row"><bdi>([^<]*)', page) == ["own vs. others"]
