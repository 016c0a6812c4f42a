"""Figures as a phone shows them: within its width, with letters as large as before, and with no name lost."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from drawn import cells, comparisons, disparities, family, gaps, many, marked, published, runs, texts
from matplotlib.figure import Figure
from matplotlib.text import Text

from audit.report.figures.forests import plot_comparisons, plot_disparity, plot_family, plot_gaps
from audit.report.figures.heatmaps import plot_cells, plot_interaction, plot_published
from audit.report.figures.specification import plot_specification
from audit.report.figures.style import (
    NARROW,
    drawing,
    figure_bytes,
    for_phones,
    is_narrow,
    narrow,
    new_figure,
    page_svgs,
)
from audit.tables.formatting import PHONE

GROUPS = family({f"a group with a long name {k}": 0.1 * k for k in range(12)}, name="group")
DRAWN: dict[str, Callable[[], Figure]] = {
    "gaps": lambda: plot_gaps(gaps(("religion", "origin", 0.5, 0.1, 0.9)), margin=1),
    "groups": lambda: plot_family(GROUPS, family="group", confidence=0.95),
    "disparity": lambda: plot_disparity(
        disparities({"group with a long name": -20.0, "B": 3.0}, invented=2), confidence=0.95, margin=2
    ),
    "comparisons": lambda: plot_comparisons(comparisons(0.1, 0.2), confidence=0.95),
    "cells": lambda: plot_cells(cells(many(6)), low=0, high=100),
    "many cells": lambda: plot_cells(cells(many(20)), low=0, high=100),
    "interaction": lambda: plot_interaction(cells(many(9))),
    "published": lambda: plot_published(cells(), published(cells()), masked=True),
    "specification": lambda: plot_specification(runs(np.arange(12) / 10, prompt=["origin", "persona"] * 6), unit="pt"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_phone_shows_all_of_it_in_letters_of_nine_css_pixels(name: str) -> None:
    with narrow():
        figure = DRAWN[name]()
    assert figure.get_figwidth() <= NARROW + 0.01 < 390 / 96
    with drawing():
        figure.canvas.draw()
        width = figure.get_figwidth() * figure.dpi
        # What matplotlib has made and does not draw: ticks of an axis that is off, or beyond its ends.
        hidden = {
            label
            for axes in figure.axes
            for place, axis in enumerate((axes.xaxis, axes.yaxis))
            for label in axis.get_ticklabels()
            if not axes.axison
            or not min(axis.get_view_interval()) <= label.get_position()[place] <= max(axis.get_view_interval())
        }
        written = [
            each for each in figure.findobj(Text) if each.get_text() and each.get_visible() and each not in hidden
        ]
        for each in written:
            box = each.get_window_extent()
            assert box.x0 >= -1, each.get_text()
            assert box.x1 <= width + 1, each.get_text()
    assert min(each.get_fontsize() for each in written) * 96 / 72 >= 9


@pytest.mark.parametrize("name", ["gaps", "groups", "disparity", "comparisons"])
def test_a_forest_for_phones_has_the_same_names_and_numbers(name: str) -> None:
    wide = DRAWN[name]()
    with narrow():
        small = DRAWN[name]()
    joined = {" ".join(text.split()) for text in texts(wide)}
    kept = {" ".join(text.split()) for text in texts(small)}
    numbers = {text for text in joined if "[" in text}
    assert numbers
    assert numbers <= kept
    assert {text for text in joined if "group with" in text or "minus" in text} <= kept


def test_cells_without_room_for_their_numbers_say_so_and_others_keep_them() -> None:
    with narrow():
        few, crowded = plot_cells(cells(many(3)), low=0, high=100), DRAWN["many cells"]()
    said = "too small for their numbers"
    assert not any(said in text for text in texts(few))
    assert any(said in " ".join(text.split()) for text in texts(crowded))
    assert len([text for text in texts(few) if text.replace(".", "").isdigit() and "." in text]) >= 16
    assert not any(said in " ".join(text.split()) for text in texts(plot_cells(cells(many(20)), low=0, high=100)))


def test_what_is_too_wide_is_drawn_again_and_what_fits_is_not() -> None:
    svgs = page_svgs({"cells": DRAWN["cells"](), "small": plot_interaction(cells())})
    assert set(svgs) == {"cells", "small", f"{PHONE}cells"} | ({f"{PHONE}small"} & set(svgs))
    with narrow():
        assert svgs[f"{PHONE}cells"] == figure_bytes(DRAWN["cells"](), "svg")
    assert svgs["cells"] == figure_bytes(DRAWN["cells"](), "svg")

    @for_phones
    def stubborn() -> Figure:
        return new_figure(9, 1)

    assert set(page_svgs({"a": stubborn(), "b": new_figure(9, 1)})) == {"a", "b"}
    assert not is_narrow()


@pytest.mark.parametrize(("n_without", "beside", "beneath"), [(0, 0, 0), (1, 1, 0), (3, 0, 1)])
def test_that_there_is_no_interval_is_said_once(n_without: int, beside: int, beneath: int) -> None:
    members = family({name: 0.1 for name in "abcd"})
    members.loc[members.index[:n_without], ["ci_low", "ci_high"]] = math.nan
    figure = plot_family(members, family="emotion", confidence=0.95)
    written = texts(figure)
    assert sum("+0.10, no interval" in text for text in written) == beside
    assert sum("No line: no interval." in text for text in written) == beneath
    assert len(marked(figure, "interval")[0].get_segments()) == 4 - n_without  # type: ignore[attr-defined]
