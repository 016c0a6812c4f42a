"""Whose side, and who gets less: the first screen on ratings whose truth is planted, by kinds, codes and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pandas as pd
import pytest
from planted import CASES, Planted, claims_of, decided, gets_less, grouped
from test_first_screen import analysis_of

from audit.report.summary import NO_GAP_NONE_LESS, NONE_LESS, WORDS_DIFFER, RenderedPage, ShortAnswer, summary
from audit.report.terminal import in_lines
from audit.report.verdicts import REASONS
from audit.statistics.analysis import Analysis
from audit.statistics.ratings import NO_PERSONA, UNSPECIFIED
from audit.tables.formatting import printable
from audit.tasks.intensity.first_screen import LESS, NOT_FOLLOWED, SIDE
from audit.tasks.intensity.page import render_report


@dataclass(frozen=True)
class Finding:
    """A finding as the page has it: its class, heading, verdict, the exact number and the cell that it is from."""

    kind: str
    title: str
    verdict: str
    value: float
    at: str


class Remarked:
    """A remark of a code on the whole run."""

    dimension = variant = ""
    text = "What limits the run."

    def __init__(self, code: str) -> None:
        self.code = code


def as_deployed(planted: Planted) -> Planted:
    """Return what one of the raters said, who was given no identity."""
    own = planted.ratings["perceiver"] == planted.ratings["perceiver"].iloc[0]
    nobody = grouped({"nobody": UNSPECIFIED}).assign(stem="")
    return Planted(
        planted.ratings.loc[own].assign(perceiver="nobody"), pd.concat([planted.groups, nobody]), planted.settings
    )


def without_persona(ratings: pd.DataFrame) -> pd.DataFrame:
    groups = ratings["perceiver_group"].astype(str).replace(UNSPECIFIED, NO_PERSONA)
    return ratings.assign(perceiver_group=groups.astype("category"))


def rendered(
    planted: Planted, *, deployed: bool = False, code: str = "", old: bool = False
) -> tuple[RenderedPage, Analysis]:
    """Return the page; ``code`` is of a remark on the run, and an old one has no table of disparities."""
    alter = [without_persona] if deployed else []
    manifest, analysis = analysis_of(as_deployed(planted) if deployed else planted, *alter)
    remarks = [Remarked(code)] if code else []
    analysis = decided(analysis, margin=planted.settings.get("margin"), remarks=remarks)
    tables = {name: table for name, table in analysis.tables.items() if not (old and name == "disparity")}
    page = render_report(manifest=manifest, tables=tables, figures={}, remarks=[*analysis.remarks, *remarks])
    claims = RenderedPage(claims_of(page))
    claims.summary = page.summary
    return claims, analysis


def findings_of(page: str) -> list[Finding]:
    """Return what stands on the first screen, in its order."""
    screen = page.partition('<div class="summary">')[2].partition("print-summary")[0]
    made = []
    for part in re.split(r'<div class="finding(?= |")', screen)[1:]:
        number = re.search(r'class="delta"><strong><data value="([^"]*)" data-at="([^"]*)">', part)
        heading, verdict = (
            re.sub(r"<[^>]*>", "", re.search(pattern, part)[1])  # type: ignore[index]
            for pattern in (r"<h3>(.*?)</h3>", r'<p class="verdict">(.*?)</p>')
        )
        made.append(
            Finding(
                part.partition('"')[0].strip(), heading, verdict, float(number[1]) if number else float("nan"),
                number[2] if number else "",
            )
        )  # fmt: skip
    return made


def line_of(page: str, name: str) -> str:
    found = re.search(rf'<p class="line[^"]*"><strong>{name}:</strong>(.*?)</p>', page, re.DOTALL)
    return re.sub(r"<[^>]*>", "", found[1]).strip() if found else ""


@cache
def shown(case: str) -> tuple[str, list[Finding], Analysis]:
    page, analysis = rendered(CASES[case]())
    return page, findings_of(page), analysis


def cell_at(analysis: Analysis, at: str) -> tuple[str, pd.Series]:
    """Return the column of a place, and its row."""
    table, line, column = at.split(":")
    return column, analysis.tables[table].loc[int(line)]


def test_a_group_that_everybody_rates_lower_is_the_first_line_in_colour_although_delta_is_0() -> None:
    _, (first, second), analysis = shown("less-for-one")
    assert (first.kind, first.title) == ("gap", f"identity{LESS}")
    assert first.value == pytest.approx(-20.0, abs=1.0)
    column, row = cell_at(analysis, first.at)
    assert (column, row["group"], row["code"], row["size"]) == ("disparity", "Birch", "lower", "beyond")
    assert "Birch" in first.verdict
    assert not [name for name in ("Alder", "Cedar", "Elm", "Maple") if name in first.verdict]
    assert (second.kind, second.title) == ("undecided", f"identity{SIDE}")
    assert second.value == pytest.approx(0.0, abs=0.5)


def test_a_gap_alone_is_the_first_line_and_no_group_is_named() -> None:
    _, (first, second), _ = shown("own-alone")
    assert (first.kind, first.title) == ("gap", f"identity{SIDE}")
    assert first.value == pytest.approx(8.0, abs=1.0)
    assert (second.kind, second.title) == ("undecided", f"identity{LESS}")
    assert not [name for name in ("Alder", "Birch", "Cedar", "Elm", "Maple") if name in second.verdict]


def test_both_are_found_side_by_side_and_neither_changes_the_other() -> None:
    _, (first, second), _ = shown("less-and-own")
    assert [(each.kind, each.title) for each in (first, second)] == [
        ("gap", f"identity{SIDE}"), ("gap", f"identity{LESS}")
    ]  # fmt: skip
    assert (first.value, second.value) == pytest.approx((8.0, -20.0), abs=1.0)


def test_equal_groups_with_a_margin_are_ruled_out_to_get_less_and_named_nowhere() -> None:
    page, (first, second), analysis = shown("no-less")
    assert {first.kind, second.kind} <= {"none", "average"}
    assert second.verdict == "No group is rated lower or higher than the others by 2.00 points or more"
    assert set(analysis.tables["disparity"].query("headline")["code"]) == {"within"}
    screen = page.partition('<div class="findings')[2].partition("print-summary")[0]
    assert not [name for name in ("Alder", "Birch", "Cedar", "Elm", "Maple") if name in screen]
    largest = analysis.tables["disparity"].query("headline")["supported_margin"].max()
    assert f"Any group differs from the others by less than {largest:.2f} points." in line_of(page, "How sure")


def test_a_claim_on_words_says_so_and_is_not_one_on_groups() -> None:
    page, (first, _), analysis = shown("less-in-these-words")
    assert cell_at(analysis, first.at)[1]["claim"] == "words"
    assert "in these words" in first.verdict
    assert WORDS_DIFFER in line_of(page, "This does not show")
    assert WORDS_DIFFER not in line_of(shown("less-for-one")[0], "This does not show")


@pytest.mark.parametrize("code", ["manipulation", "accepted", "unfinished", "number_mass"])
def test_what_allows_no_verdict_on_a_gap_allows_none_on_groups_and_says_why(code: str) -> None:
    found = findings_of(rendered(gets_less(), code=code)[0])
    assert [each.kind for each in found] == ["absent", "absent"]
    assert [each.title for each in found] == [f"identity{SIDE}", f"identity{LESS}"]
    assert all(each.verdict.startswith(f"No verdict: {REASONS[code]}") for each in found)
    assert pd.isna(found[1].value)


def test_few_narratives_name_no_group() -> None:
    page, _ = rendered(gets_less(n=8))
    less = next(each for each in findings_of(page) if each.title.endswith(LESS))
    assert (less.kind, less.verdict) == ("undecided", f"Undecided: {REASONS['few_narratives']}")
    assert NO_GAP_NONE_LESS in line_of(page, "This does not show")


def test_how_big_is_said_of_the_group_that_gets_less_and_of_the_gap() -> None:
    page, (first, second), analysis = shown("less-for-one")
    row = cell_at(analysis, first.at)[1]
    said = line_of(page, "How big")
    assert said.startswith(f"the disparity of Birch is {-row['percent_of_scale']:.2f}% of the scale; lower in 100%")
    assert "The gap is 0." in said
    assert "disparity of" not in line_of(shown("own-alone")[0], "How big")
    assert second.value != first.value


# --- Without perceivers -----------------------------------------------------------------------------------------------


def test_a_deployed_model_is_answered_by_who_gets_less_and_no_answer_on_delta_stands_above_it() -> None:
    page, analysis = rendered(gets_less(), deployed=True)
    [only] = findings_of(page)
    assert (only.kind, only.title) == ("gap", f"identity{LESS}")
    assert only.value == pytest.approx(-20.0, abs=1.5)
    assert cell_at(analysis, only.at)[1]["view"] == "no_persona"
    assert "No answer" not in page.partition("print-summary")[0]
    cards = page.partition('<div class="cards">')[2].partition("</section>")[0]
    assert cards.count('<article class="answer') == 1
    assert "Groups: who gets less?" in page
    assert "whose side?" not in page
    assert "whoever speaks" not in page.partition("print-summary")[0]


def test_a_deployed_model_without_a_difference_is_not_said_to_treat_groups_alike() -> None:
    page, _ = rendered(gets_less(0.0, margin=None), deployed=True)
    [only] = findings_of(page)
    assert only.kind == "undecided"
    assert NONE_LESS in line_of(page, "This does not show")


# --- Runs of earlier versions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["less-for-one", "own-alone"])
def test_a_run_without_the_table_has_the_one_question_that_it_answers(case: str) -> None:
    page, _ = rendered(CASES[case](), old=True)
    [only] = findings_of(page)
    assert only.title == "identity"
    text = re.sub(r"<[^>]*>", "", page.partition('id="manifest"')[0])
    for words in ("Who gets less", "who gets less", "Whose side", "disparity"):
        assert words not in text.replace("disparity.csv", "")
    assert line_of(page, "How big")[0].isdigit()


# --- Of more answers than a phone holds -------------------------------------------------------------------------------


def answer(title: str, question: str, kind: str, weight: float) -> ShortAnswer:
    return ShortAnswer(title, "", kind=kind, weight=weight, question=question)


def chosen(*answers: ShortAnswer) -> list[str]:
    made = summary("", answers, [], not_concluded=[], source="", chosen_by="this")
    return [f"{each.title} {each.question}" for each in made.findings]


def test_what_was_found_is_never_hidden_behind_what_is_undecided_and_each_question_keeps_an_answer() -> None:
    open_ones = [answer(f"d{k}", question, "undecided", 50.0) for k in range(4) for question in ("side", "less")]
    assert "d9 less" in chosen(*open_ones, answer("d9", "less", "gap", 0.1))
    assert "d9 side" in chosen(*open_ones, answer("d9", "side", "within", 0.1))
    sides = [answer(f"d{k}", "side", "gap", 9.0 - k) for k in range(6)]
    assert chosen(*sides, answer("d0", "less", "undecided", 0.0)) == ["d0 side", "d1 side", "d2 side", "d0 less"]


@pytest.mark.parametrize(
    ("less", "deployed", "step"),
    [
        (-20.0, False, "nothing"),
        (-2.3, False, "more_narratives"),
        (-20.0, True, "nothing"),
        (-2.3, True, "more_narratives"),
    ],
)
def test_the_answer_is_clear_only_if_what_was_found_is_beyond_the_margin(less, deployed, step) -> None:
    """Birch at 20 points less lies beyond the margin of 2; at 2.3 the interval holds the margin, as in the gate."""
    page, analysis = rendered(gets_less(less, gap=0.0 if deployed else 8.0), deployed=deployed)
    table = analysis.tables["disparity"]
    [row] = table.loc[table["headline"] & (table["group"] == "Birch") & (table["outcome"] == "intensity")].to_dict(
        "records"
    )
    assert row["code"] == "lower"
    assert (row["size"], "margin_open" in row["limits"]) == (("beyond", False) if step == "nothing" else ("", True))
    assert page.summary.step.code == step
    assert ("whether the disparity is larger than 2.00 points" in page.summary.step.striptags()) == (step != "nothing")


# --- The terminal -----------------------------------------------------------------------------------------------------


def test_the_terminal_says_the_same_words_with_the_number_and_the_next_step() -> None:
    page, _ = rendered(gets_less())
    first, _ = findings_of(page)
    said = in_lines(page.summary)["answer"].split("\n")[0]
    assert said.startswith(f"identity: Does a group get less, whoever it speaks as? {first.verdict} (−")
    assert f"{first.value:.2f} points".replace("-", "−") in said
    assert "<" not in said.replace("p < ", "").replace(": < ", "")
    lines = in_lines(rendered(gets_less(), code="manipulation")[0].summary)
    assert lines["answer"] == f"identity: No verdict: {REASONS['manipulation']}."  # of both questions, without a number
    assert lines["how sure"].endswith(" Read with care: failed check of the ratings.")
    assert lines["next"].startswith("Collect the ratings with another prompt")
    assert lines["careful"].startswith(f"This does not show {NOT_FOLLOWED}")


def test_a_name_cannot_steer_the_terminal_or_the_page() -> None:
    planted = gets_less()
    evil = "Bi<b>rch</b>\u202e; rm"
    groups = planted.groups.assign(group=planted.groups["group"].replace("Birch", evil))
    page, _ = rendered(Planted(planted.ratings, groups, planted.settings))
    assert "<b>rch" not in page
    said = in_lines(page.summary)["answer"]
    assert "Bi<b>rch</b>" in said
    assert "\u202e" not in printable(said)  # as the terminal prints it
    assert "\u202e" not in page.partition('id="manifest"')[0]
