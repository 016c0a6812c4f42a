import math

import numpy as np
import pandas as pd
import pytest
from drawn import texts

from audit.errors import NotEstimableError
from audit.report.figures.style import figure_bytes
from audit.report.figures.texts import plot_texts

MEASURES = ("n_words", "sentiment", "stereotype_words", "refused", "theme_piety")


def table_of(groups=("Hindu", "Jain", "Sikh"), stages=("day",), **change):
    rng = np.random.default_rng(0)
    rows = [
        {
            "dimension": "religion", "variant": "origin", "stage": stage, "measure": measure, "group": group,
            "difference": 0.0 if measure == "refused" else rng.normal(), "ci_low": -3.0, "ci_high": 3.0,
            "p": rng.uniform(), "p_adjusted": 1.0,
        }
        for stage in stages for measure in MEASURES for group in groups
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**change)


def panels(figure, gid):
    """Places (x, y) of the marks of one kind, by panel."""
    return [
        [tuple(place) for mark in axes.collections if mark.get_gid() == gid for place in mark.get_offsets().tolist()]
        for axes in figure.axes
    ]


def test_each_stage_has_a_panel_for_each_score_that_differs_with_a_mark_at_each_difference():
    table = table_of(stages=("day", "feel"))
    figure = plot_texts(table, confidence=0.95)
    assert len(figure.axes) == 2 * 3  # refusals are 0 throughout, themes are not drawn
    drawn = [[x for x, _ in marks] for marks in panels(figure, "hollow")]
    wanted = [
        table.loc[(table["stage"] == stage) & (table["measure"] == measure), "difference"].tolist()
        for stage in ("day", "feel")
        for measure in ("stereotype_words", "sentiment", "n_words")
    ]
    assert drawn == [pytest.approx(values) for values in wanted]
    written = texts(figure)
    assert {"Stage: day", "Stage: feel", "Hindu", "Jain", "Sikh"} <= set(written)


def test_emotions_have_panels_of_their_own_and_one_that_nobody_knows_has_none():
    measures = ("emotion_named", "emotion_accuracy")
    more = pd.concat([table_of().assign(measure=name).drop_duplicates("group") for name in measures])
    named, right = [-20.0, 5.0, 15.0], [3.0, -9.0, 6.0]
    table = pd.concat([table_of(), more.assign(difference=named + right)])
    figure = plot_texts(table, confidence=0.95)
    drawn = [[x for x, _ in marks] for marks in panels(figure, "hollow")]
    assert drawn[2:4] == [named, right]  # after stereotype words and sentiment
    titles = " ".join(" ".join(texts(figure)).split())
    assert "names an emotion, % points" in titles
    assert "names the narrative's, of those that name one, % points" in titles
    table.loc[table["measure"] == "emotion_accuracy", "difference"] = math.nan
    assert len(plot_texts(table, confidence=0.95).axes) == 4


def test_a_mark_is_filled_where_the_corrected_p_is_below_the_level():
    table = table_of()
    table.loc[(table["measure"] == "sentiment") & (table["group"] == "Jain"), "p_adjusted"] = 0.01
    filled = panels(plot_texts(table, confidence=0.95), "filled")
    assert [[y for _, y in marks] for marks in filled] == [[], [1.0], []]
    assert panels(plot_texts(table, confidence=0.995), "filled") == [[], [], []]


def test_a_difference_without_an_interval_is_drawn_and_a_missing_one_is_a_dash():
    table = table_of(ci_low=math.nan, ci_high=math.nan, p=math.nan, p_adjusted=math.nan)
    table.loc[(table["measure"] == "sentiment") & (table["group"] == "Jain"), "difference"] = math.nan
    written = texts(plot_texts(table, confidence=0.95))
    assert written.count("\N{EN DASH}") == 1


def test_of_many_groups_those_of_the_smallest_p_are_drawn_and_the_figure_says_so():
    names = tuple(f"group {k:02}" for k in range(30))
    table = table_of(groups=names)
    table["p"] = [0.5 if group < "group 06" else 0.1 for group in table["group"]]
    written = texts(plot_texts(table, confidence=0.95))
    assert "group 05" not in written
    assert {"group 06", "group 29"} <= set(written)
    assert any("The 24 of 30 groups" in " ".join(text.split()) for text in written)


def test_nothing_to_draw_is_said():
    with pytest.raises(NotEstimableError, match="no score of the texts differs"):
        plot_texts(table_of(difference=0.0), confidence=0.95)
    with pytest.raises(ValueError, match="one dimension and one variant"):
        plot_texts(table_of().iloc[:0], confidence=0.95)
    two = pd.concat([table_of(), table_of(variant="named")])
    with pytest.raises(ValueError, match="one dimension and one variant"):
        plot_texts(two, confidence=0.95)


def test_hostile_names_are_drawn_as_text_and_the_same_rows_give_the_same_bytes():
    table = table_of(groups=("$x_{$ <script>", "\u202egnorw", "a" * 500))
    svg = figure_bytes(plot_texts(table, confidence=0.95), "svg")
    assert b"<script>" not in svg
    assert svg == figure_bytes(plot_texts(table, confidence=0.95), "svg")
