"""The section on who gets less, on ratings whose truth is planted: numbers and codes; words are in page_texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pandas as pd
import pytest
from markupsafe import Markup
from planted import CASES, Planted, gets_less, grouped, ratings_of
from test_first_screen import analysis_of

from audit.report.disparities import answer_in_words, who_gets_less
from audit.report.disparity_section import disparity_section, invented_rows
from audit.report.figures.gallery import draw_figures
from audit.report.numbers import PlacedRow, rows_of
from audit.report.results import Results, with_absent
from audit.report.section import Block, Captioned, Section
from audit.statistics.controls import Repetition
from audit.statistics.disparity_answers import beside_response
from audit.statistics.manipulation import response_of
from audit.tables.disparity import DISPARITY, deciding_rows
from audit.tables.run_of_ratings import TABLES
from audit.tasks.intensity.page import render_report

KEY = ("identity", "outside")


@cache
def results_of(case: str, *, response: str = "") -> Results:
    """Return the results of a planted case; with ``response``, its check of emotions found 40 points and says so."""
    tables = with_absent(analysis_of(CASES[case]())[1].tables, TABLES)
    if response:
        row = {"check": "emotion", "difference": 40.0, "answer": response, "n_pairs": 60, "ci_low": 0.0, "ci_high": 0.0}
        tables["disparity"] = beside_response(tables["disparity"], response_of([row]))
    return Results(tables, TABLES, 0.95).of(KEY, "identity")


def section_of(results: Results) -> Section:
    made = disparity_section(results)
    assert made is not None
    return made


def paragraphs(section: Section) -> list[str]:
    return [re.sub(r"<[^>]*>", "", block.text) for block in blocks(section) if block.kind == "paragraph"]


def blocks(section: Section) -> Iterator[Block]:
    for block in section.content:
        yield from blocks(block) if isinstance(block, Section) else [block]


def tables_of(section: Section) -> list[Captioned]:
    return [block for block in blocks(section) if isinstance(block, Captioned)]


def test_the_group_that_gets_less_stands_first_with_its_number_and_its_share_of_the_response() -> None:
    first, number, *_ = paragraphs(section_of(results_of("less-for-one", response="follows")))
    assert first == "Birch is rated lower than the others, whoever speaks, by more than 2.00 points."
    assert re.search(r"D = −(19|20)\.\d\d points \(95% interval", number)
    assert re.search(r"(49|50)\.\d\d?% of the model’s response to the story", number)  # 20 of 40 points
    assert "lower in 100% of 60 narratives" in number


@pytest.mark.parametrize("answer", ["not_shown", "does_not_follow"])
def test_a_share_of_a_response_that_was_not_found_is_not_said(answer: str) -> None:
    assert "response" not in " ".join(paragraphs(section_of(results_of("less-for-one", response=answer))))


def test_tables_have_the_groups_from_the_lowest_their_terms_the_same_for_other_words_and_perceivers() -> None:
    groups, terms, others, perceivers = tables_of(section_of(results_of("less-for-one")))
    heads = [[re.sub(r"<[^>]*>", "", row[0]) for row in each.content.rows] for each in (groups, terms, perceivers)]  # type: ignore[union-attr]
    assert heads[0][0] == "Birch"
    assert sorted(heads[0]) == ["Alder", "Birch", "Cedar", "Elm", "Maple"]
    assert len(heads[1]) == 10
    assert sorted(heads[2]) == sorted(heads[0])
    assert "answer" in groups.content.head  # type: ignore[union-attr]
    for table in (terms, others, perceivers):
        assert "answer" not in table.content.head  # type: ignore[union-attr]


def test_every_number_names_the_cell_that_it_is() -> None:
    section = section_of(results_of("less-for-one", response="follows"))
    frames = {"disparity": results_of("less-for-one", response="follows").tables["disparity"]}
    shown = [cell for table in tables_of(section) for row in table.content.rows for cell in row]  # type: ignore[union-attr]
    places = re.findall(r'<data value="([^"]*)" data-at="disparity:(\d+):(\w+)"', " ".join(shown))
    assert len(places) > 100
    for value, line, column in places:
        stored = frames["disparity"].loc[int(line), column]
        assert (value == "") == bool(pd.isna(stored)), (line, column)
        assert not value or float(value) == pytest.approx(float(stored), abs=0)


def test_invented_groups_are_dimensions_of_their_own_and_stand_beside_the_others_without_an_answer() -> None:
    planted = gets_less()
    names = {f"a {name}": name for name in ("Varnian", "Toskit", "Melodan")}
    more = ratings_of(names, n=60, level=lambda group: -2.0 if group == "Toskit" else 0.0, sd=4.0, seed=5)
    ratings = pd.concat([planted.ratings.assign(dimension="identity"), more.assign(dimension="invented_0")])
    groups = pd.concat([planted.groups, grouped(names).assign(stem="")])
    manifest, analysis = analysis_of(
        Planted(ratings, groups, planted.settings),
        repetition=Repetition({"identity": {term: term for term in planted.groups["term"]}}, placebo=("invented_0",)),
    )
    whole = Results(with_absent(analysis.tables, TABLES), TABLES, 0.95)
    invented = invented_rows(whole, "outside")
    assert {row["group"] for row in invented if row["level"] == "group"} == {*names.values()}
    made = disparity_section(whole.of(KEY, "identity"), invented=invented)
    assert made is not None
    of_invented = [each for each in tables_of(made) if "invented groups against each other" in each.caption]
    [table] = of_invented
    assert ">Toskit<" in table.content.rows[0][0]  # type: ignore[union-attr]
    assert len(table.content.rows) == 3  # type: ignore[union-attr]
    assert "answer" not in table.content.head  # type: ignore[union-attr]
    assert len(tables_of(made)) == len(tables_of(section_of(results_of("less-for-one")))) + 1
    figure = draw_figures(analysis.tables, low=0, high=100, confidence=0.95)["disparity-identity-outside"]
    drawn = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert drawn[0] == "Birch"
    assert sorted(drawn[5:]) == sorted(names.values())
    tables = {name: table for name, table in analysis.tables.items() if name != "disparity"}  # of an earlier version
    assert "disparity-identity-outside" not in draw_figures(tables, low=0, high=100, confidence=0.95)
    page = render_report(manifest=manifest, tables=analysis.tables, figures={}, remarks=analysis.remarks)
    assert "invented groups against each other" in page


def test_without_two_groups_or_without_the_table_there_is_no_section() -> None:
    results = results_of("less-for-one")
    none = {**results.tables, "disparity": pd.DataFrame(columns=list(DISPARITY))}
    assert disparity_section(Results(none, TABLES, 0.95).of(KEY, "")) is None
    assert disparity_section(results, outcome="words") is None


def test_a_measure_of_replies_is_named_in_captions_and_lower_in_its_own_words() -> None:
    results = results_of("less-for-one")
    of_words = results.tables["disparity"].assign(outcome="words", unit="words", margin=float("nan"), size="")
    own = Results({**results.tables, "disparity": of_words}, TABLES, 0.95).of(KEY, "identity")
    made = disparity_section(own, outcome="words", of="answered", measure="Length")
    assert made is not None
    assert paragraphs(made)[0] == "Birch is answered lower than the others, whoever speaks."
    assert all(each.caption.startswith("identity: Length: ") for each in tables_of(made))
    assert " points" not in paragraphs(made)[1]


def decided(planted: Planted) -> list[PlacedRow]:
    return deciding_rows(rows_of(analysis_of(planted)[1].tables["disparity"], "disparity"))


def test_the_answer_on_a_group_says_its_claim_and_its_size() -> None:
    by_group = {row["group"]: answer_in_words(row).striptags() for row in decided(gets_less(stems=False))}
    assert by_group["Birch"] == "lower, in these words, by more than 2.00 points"
    assert {row["code"]: answer_in_words(row).striptags() for row in decided(CASES["no-less"]())} == {
        "within": "within 2.00 points"
    }


def test_a_table_of_an_earlier_version_is_read_with_what_it_lacks_and_worded() -> None:
    table = analysis_of(gets_less(margin=None))[1].tables["disparity"]
    now = who_gets_less(rows_of(table, "disparity"), confidence=0.95)
    old = DISPARITY.renamed(table.drop(columns=["margin", "size", "n_needed"]))
    assert set(old) == set(DISPARITY)
    assert who_gets_less(rows_of(old, "disparity"), confidence=0.95).words == now.words


def test_how_each_cue_tells_a_group_is_shown_and_personas_are_compared_over_experiencers() -> None:
    results = results_of("less-for-one")
    table = results.tables["disparity"]
    of_groups = table[(table["level"] == "group") & (table["side"] == "experiencer") & (table["scope"] == "narratives")]
    cues = of_groups[of_groups["view"] == "all"].assign(level="cue", member="earlier_turn", headline=False)
    tables = {**results.tables, "disparity": pd.concat([table, cues], ignore_index=True)}
    shown = tables_of(section_of(Results(tables, TABLES, 0.95).of(KEY, "identity")))
    [by_cue] = [each for each in shown if "told by" in each.content.head]  # type: ignore[union-attr]
    assert len(by_cue.content.rows) == len(cues) == 5  # type: ignore[union-attr]
    assert by_cue.content.rows[0][1] == "label, in an earlier turn"  # type: ignore[union-attr]
    assert len(shown) == len(tables_of(section_of(results))) + 1  # without cues there is no such table
    [personas] = [each for each in shown if each.content.head[0] == "persona"]  # type: ignore[union-attr]
    assert not any("perceivers" in cell for row in personas.content.rows for cell in row[1:])  # type: ignore[union-attr]


def test_the_next_step_of_an_open_answer_is_one_that_could_close_it() -> None:
    """Without a margin no number of narratives rules a difference out; with one, the page says how many would."""
    said = who_gets_less(decided(gets_less(0.0, margin=None)), confidence=0.95)
    assert (said.kind, "statistics.margin" in said.step) == ("undecided", True)
    rows = decided(gets_less(0.0, margin=2.0))
    said = who_gets_less(rows, confidence=0.95)
    needed = max(row["n_needed"] for row in rows if row["n_needed"] > 0)
    assert said.kind == "undecided"
    assert f"at least {needed:,.0f} narratives" in Markup(said.step).striptags()
