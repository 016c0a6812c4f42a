import math
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from test_numbers import Numbers

from audit.report.page import environment
from audit.report.results import Results
from audit.report.texts import text_section
from audit.tables.run_of_ratings import TABLES
from audit.tables.stages import MARKED_WORDS, STAGE_TEXTS

ATTACK = "<script>alert(1)</script>"
UNITS = {
    "n_words": "words", "sentiment": "compound", "refused": "% of texts", "emotion_named": "% of texts",
    "emotion_accuracy": "% of texts that name an emotion",
}  # fmt: skip
MEASURES = ("n_words", "sentiment", "stereotype_words", "refused", "theme_piety", "theme_danger")
EMOTIONS = ("emotion_named", "emotion_accuracy")


def scores(groups=("Hindu", "Jain", "Sikh"), stages=("day",), measures=MEASURES, **change):
    rng = np.random.default_rng(0)
    rows = [
        {
            "dimension": "religion", "variant": "origin", "stage": stage, "measure": measure, "group": group,
            "unit": UNITS.get(measure, "per 100 words"), "mean": 3.123456 + k, "mean_others": 2.0,
            "difference": rng.normal(), "se": 0.4, "df": 9.0, "ci_low": -1.23456, "ci_high": 2.34567,
            "p": 0.3, "p_adjusted": math.nan if measure.startswith("theme") else 0.8, "method": "Holm",
            "family_size": 9, "constant": False,
            "units": "narratives", "n_units": 10, "n_texts": 20 + k, "n_empty": 0, "n_failed": 0,
            "n_scored": 20 + k, "note": "",
        }
        for stage in stages
        for measure in measures
        for k, group in enumerate(groups)
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=list(STAGE_TEXTS)).assign(**change)
    table.loc[table["measure"].isin(["refused", "theme_danger"]), ["mean", "mean_others", "difference"]] = 0.0
    # As the section of a second dimension: its rows do not begin at 0 in the file.
    return table.set_axis(range(7, 7 + len(table)))


def words(*rows):
    made = [
        {"dimension": "religion", "variant": "origin", "stage": "day", "log_odds": 1.0, "family_size": 30} | row
        for row in rows
    ]
    return pd.DataFrame(made, columns=list(MARKED_WORDS)).set_axis(range(3, 3 + len(made)))


def results(table, marked=None, confidence=0.95):
    tables = {"stage_texts": table, "marked_words": words() if marked is None else marked}
    return Results(tables, TABLES, confidence, title="religion")


def page_of(table, marked=None, confidence=0.95):
    section = text_section(results(table, marked, confidence=confidence))
    html = str(environment().get_template("macros.html.j2").module.show([section]))
    return html, unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html)))


def test_a_difference_that_is_the_same_everywhere_is_named_though_nothing_can_be_tested():
    table = scores(p_adjusted=math.nan)
    row = (table["measure"] == "refused") & (table["group"] == "Jain")
    table.loc[row, ["difference", "constant"]] = [100.0, True]
    _, text = page_of(table)
    assert "texts about Jain had 100.00 percentage points more refusals (the same in all narratives)" in text
    assert "No difference between groups was found" not in text


def set_difference(table, measure, group, difference, p):
    row = (table["measure"] == measure) & (table["group"] == group)
    table.loc[row, ["difference", "p_adjusted"]] = [difference, p]


def test_every_number_of_the_section_is_that_of_its_place_in_the_table():
    table = scores(stages=("day", "feel"), measures=(*MEASURES, *EMOTIONS))
    table.loc[9, ["n_empty", "n_failed"]] = [2, 1]
    set_difference(table, "stereotype_words", "Jain", -1.51, 0.004)
    marked = words({"group": "Sikh", "word": "temple", "n_group": 12, "n_others": 3, "z": 4.26, "p_adjusted": 0.001})
    html, text = page_of(table, marked)
    numbers = Numbers(html)
    assert numbers.stray == []
    assert len(numbers.found) > 2 * 9 * 7
    tables = {"stage_texts": table, "marked_words": marked}
    for exact, place, _ in numbers.found:
        name, line, column = place.split(":")
        there = tables[name].loc[int(line), column]
        assert (exact == "") == bool(np.isnan(there)), place
        assert exact == "" or float(exact) == there
    assert "temple (4.3; 12, 3)" in text
    assert ", 2 empty, 1 failed" in text


def test_what_differs_after_correction_is_said_in_a_sentence():
    table = scores()
    set_difference(table, "stereotype_words", "Jain", -1.51, 0.004)
    set_difference(table, "sentiment", "Sikh", 0.25, 0.012)
    _, text = page_of(table)
    assert (
        "after correction for 9 tests, texts about Jain had 1.51 fewer stereotype words per 100 words (p = .004); "
        "Sikh had a "
        "sentiment higher by 0.25 (p = .012)." in text
    )
    assert "Hindu had" not in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "No difference between groups was found in these scores (p below .05 after correction for 9 tests). There "
             "may still be one."),
        ({"p_adjusted": math.nan}, "Differences between groups could not be tested"),
    ],
)  # fmt: skip
def test_no_difference_found_is_not_called_none_and_none_tested_is_said(change, said):
    assert said in page_of(scores(**change))[1]


def test_the_stage_is_named_where_there_are_several():
    table = scores(stages=("day", "feel"))
    table.loc[(table["stage"] == "feel") & (table["measure"] == "n_words"), "p_adjusted"] = 0.001
    assert "more words in stage feel (p = .001)" in page_of(table)[1]


def test_refusals_are_shown_where_there_are_any():
    _, text = page_of(scores())
    assert "No text contains a phrase that declines the task." in text
    assert "refused, % of texts" not in text
    table = scores()
    table.loc[(table["measure"] == "refused") & (table["group"] == "Jain"), "mean"] = 12.5
    _, text = page_of(table)
    assert "No text holds a phrase" not in text
    assert "refused, % of texts" in text


def test_themes_without_a_word_are_left_out_and_words_that_do_not_stand_out_too():
    marked = words({"group": "Sikh", "word": "temple", "n_group": 2, "n_others": 3, "z": 1.2, "p_adjusted": 0.9})
    _, text = page_of(scores(), marked)
    assert "piety" in text
    assert "danger" not in text
    assert "temple" not in text
    assert "No word stands out after correction." in text


def test_naming_an_emotion_is_said_in_words_with_what_the_reading_misses():
    table = scores(measures=(*MEASURES, *EMOTIONS))
    set_difference(table, "emotion_named", "Jain", -12.5, 0.004)
    set_difference(table, "emotion_accuracy", "Sikh", 8.25, 0.012)
    _, text = page_of(table)
    assert (
        "texts about Jain named an emotion 12.50 percentage points less often (p = .004); Sikh named the narrative's "
        "emotion, where they named one, 8.25 percentage points more often (p = .012)." in text
    )
    assert "names an emotion, % of texts" in text
    assert "A stage that does not see the narrative can be right only by chance" in text
    assert "only by chance" not in page_of(scores())[1]


def test_texts_without_the_score_are_counted_beside_all():
    table = scores(measures=(*MEASURES, *EMOTIONS))
    table.loc[(table["measure"] == "emotion_accuracy") & (table["group"] == "Jain"), "n_scored"] = 9
    html, text = page_of(table)
    assert text.count("with a score") == 1
    assert "21, 9 with a score" in text
    assert Numbers(html).stray == []


def test_an_accuracy_that_nobody_knows_is_said_once_and_takes_no_rows():
    table = scores(measures=(*MEASURES, *EMOTIONS))
    numbers = ["mean", "mean_others", "difference", "ci_low", "ci_high", "p", "p_adjusted"]
    table.loc[table["measure"] == "emotion_accuracy", numbers] = math.nan
    table.loc[table["measure"] == "emotion_accuracy", "note"] = "why not"
    html, text = page_of(table)
    assert text.count("whether they name the narrative's emotion is unknown: why not") == 1
    assert "names the narrative's, % of texts that name one" not in text
    assert html.count('<th scope="col">note') == 0


def test_intervals_over_perceivers_are_called_so():
    assert "over perceivers, who are few" not in page_of(scores())[1]
    assert "over perceivers, who are few" in page_of(scores(units="perceivers"))[1]


def test_a_note_of_all_rows_is_said_once():
    _, text = page_of(scores(note="of 4 narratives 1 have the texts of another one"))
    assert text.count("of 4 narratives 1 have") == 1
    table = scores(note="of 4 narratives 1 have the texts of another one")
    table.loc[7, "note"] = "why there is none"
    _, text = page_of(table)  # one row says something else: the others' is still said once
    assert text.count("where the table has no note, of 4 narratives 1 have") == text.count("of 4 narratives") == 1
    assert text.count("why there is none") == 1
    table = scores()
    table.loc[7, "note"] = "why there is none"
    assert "why there is none" in page_of(table)[1]


def test_of_many_groups_the_rows_of_the_smallest_p_are_shown_and_the_caption_says_where_all_are():
    table = scores(groups=tuple(f"g{k}" for k in range(40)))
    table.loc[table["group"] == "g39", "p"] = 0.001
    html, text = page_of(table)
    assert "the 40 of 120 with the smallest p, all are in tables/stage_texts.csv" in text
    assert len(re.findall(r'data-at="stage_texts:\d+:ci_low"', html)) == 40
    smallest = table.index[(table["group"] == "g39") & (table["measure"] == "sentiment")][0]
    assert f'data-at="stage_texts:{smallest}:ci_low"' in html


def test_groups_stages_and_words_are_escaped():
    table = scores(groups=(ATTACK, "Jain"), stages=(ATTACK,), note=ATTACK)
    table["p_adjusted"] = table["p_adjusted"].where(table["p_adjusted"].isna(), 0.001)
    html, _ = page_of(table, words({"stage": ATTACK, "group": ATTACK, "word": ATTACK, "n_group": 1, "n_others": 0,
                                    "z": 9.0, "p_adjusted": 0.0}))  # fmt: skip
    assert ATTACK not in html
    assert "&lt;script&gt;" in html


def test_there_is_no_section_where_no_stage_wrote_anything():
    assert text_section(results(scores().iloc[:0])) is None
