"""The figures of a run of replies: a forest of its measures, and what is left out of it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from drawn import marked, offsets, texts

from audit.report.figures.forests import plot_measures
from audit.report.figures.style import figure_bytes
from audit.tables.replies import MEASURE_GAPS
from audit.tables.stages import STAGE_TEXTS
from audit.tasks.reply.figures import draw_measures


def gaps_of(deltas, *, dimension="religion", scope="narratives", **change):
    """Measures m0, m1 ... with these δ in their unit, whose standard deviation is 10; intervals of 2 on either side."""
    delta = np.array(deltas, dtype=float)
    table = pd.DataFrame(
        {
            "dimension": dimension, "variant": "origin", "measure": [f"m{k}" for k in range(len(delta))],
            "estimator": "contrast", "scope": scope, "headline": True, "delta": delta, "ci_low": delta - 2,
            "ci_high": delta + 2, "p_adjusted": 1.0, "delta_sd": delta / 10, "sd_ci_low": (delta - 2) / 10,
            "sd_ci_high": (delta + 2) / 10, "note": "",
        },
        columns=list(MEASURE_GAPS),
    )  # fmt: skip
    return table.assign(**change)


def drawn_of(*gaps, titles=None):
    table = pd.concat(gaps, ignore_index=True)
    verdicts = table.loc[table["headline"] & (table["scope"] == "narratives")].assign(
        code=lambda rows: np.where(rows["p_adjusted"] < 0.05, "gap", "undecided")
    )
    names = list(dict.fromkeys(table["measure"]))
    measures = pd.DataFrame({"measure": names, "title": titles or [f"Measure {name}" for name in names]})
    tables = {
        "verdicts": verdicts,
        "measure_gaps": table,
        "measures": measures,
        "stage_texts": pd.DataFrame(columns=list(STAGE_TEXTS)),
    }
    return draw_measures(tables, confidence=0.95)


def test_measures_of_any_unit_stand_on_one_axis_in_standard_deviations_in_their_order():
    figure = drawn_of(gaps_of([3, -1, 0]))["measures-religion-origin"]
    assert sorted(offsets(figure, "hollow"), key=lambda place: place[1]) == [
        pytest.approx(place) for place in ([0.3, 0], [-0.1, 1], [0.0, 2])
    ]
    [intervals] = marked(figure, "interval")
    ends = [segment[:, 0].tolist() for segment in intervals.get_segments()]
    assert ends == [pytest.approx(pair) for pair in ([0.1, 0.5], [-0.3, 0.1], [-0.2, 0.2])]
    written = texts(figure)
    assert {"Measure m0", "Measure m1", "+0.30  [+0.10 to +0.50]"} <= set(written)
    assert any("standard deviations of the measure among replies" in " ".join(text.split()) for text in written)


def test_a_mark_is_filled_where_a_gap_is_found():
    figure = drawn_of(gaps_of([3, -1, 0], p_adjusted=[0.01, 0.049, 0.051]))["measures-religion-origin"]
    assert [row for _, row in offsets(figure, "filled")] == [0, 1]
    assert any("Holm, over the measures" in " ".join(text.split()) for text in texts(figure))


def test_a_measure_that_has_no_place_beside_others_is_left_out():
    lacks = {"delta_sd": math.nan, "sd_ci_low": math.nan, "sd_ci_high": math.nan}
    without = gaps_of([5], **lacks).assign(measure="other")
    written = texts(drawn_of(gaps_of([3, -1]), without)["measures-religion-origin"])
    assert "Measure m0" in written
    assert not any("other" in text for text in written)
    assert drawn_of(without) == {}


def test_each_dimension_and_the_mean_over_them_has_a_figure_of_its_headlines_about_narratives():
    wider = gaps_of([9], scope="narratives_and_terms")
    lesser = gaps_of([7], headline=False)
    figures = drawn_of(
        gaps_of([3]), wider, lesser, gaps_of([2], dimension="nationality"), gaps_of([1], dimension="all")
    )
    assert list(figures) == ["measures-religion-origin", "measures-nationality-origin", "measures-all-origin"]
    assert [offsets(figure, "hollow") for figure in figures.values()] == [
        [pytest.approx([size, 0])] for size in (0.3, 0.2, 0.1)
    ]


def test_thirty_measures_with_long_names_do_not_overlap():
    names = [f"The share of replies that say what was asked for, in way {k}" for k in range(30)]
    figure = drawn_of(gaps_of(range(30)), titles=names)["measures-religion-origin"]
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(boxes) == 30
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0
    width, height = figure.get_size_inches()
    assert width < 7.5
    assert height < 12


def test_two_dimensions_are_not_drawn_as_one():
    with pytest.raises(ValueError, match="one dimension and one variant"):
        plot_measures(pd.concat([gaps_of([1]), gaps_of([1], dimension="nationality")]), {}, confidence=0.95)


def test_hostile_names_are_drawn_as_text_and_the_same_tables_give_the_same_bytes():
    titles = ["$x_{$ <script>alert(1)</script>", "\u202egnorw", "a" * 500]
    svg = figure_bytes(drawn_of(gaps_of([1, 2, 3]), titles=titles)["measures-religion-origin"], "svg")
    assert b"<script>" not in svg
    assert svg == figure_bytes(drawn_of(gaps_of([1, 2, 3]), titles=titles)["measures-religion-origin"], "svg")
