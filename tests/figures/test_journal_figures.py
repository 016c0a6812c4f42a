"""Figures for journals: as wide as they are printed, letters of 7 points or more, nothing cut or covered."""

from __future__ import annotations

import itertools
import re
import zlib

import pandas as pd
import pytest
from drawn import cells, disparities, family, gaps, many
from matplotlib.figure import Figure
from matplotlib.text import Text

from audit.extras.exchange.paper.figures import WIDTHS, draw_for_journal, journal_files
from audit.report.figures.heatmaps import plot_cells
from audit.report.figures.matrix import DoesNotFitError
from audit.report.figures.style import SMALL, drawing

LONG = "Names the narrator's strongest emotion, of replies that name one"
MEASURES = {"a": "Length", "b": LONG, "c": "perplexity of the named scorer", "d": "internationalisation"}
each_width = pytest.mark.parametrize("millimetres", WIDTHS)


def tables(*, terms=None, n_emotions=12):
    own = cells() if terms is None else cells(terms)
    emotions = family({f"emotion {k}": 0.3 - 0.05 * k for k in range(n_emotions)})
    groups = family({"a group with a rather long name": 0.12, "Buddhist": -1234.5}, name="group", p=0.01)
    rows = [("religion", "origin", 0.494, 0.12, 0.86), ("race_ethnicity+religion", "origin", -0.2, -0.5, 0.1),
            ("nationality", "persona-1", float("nan"), float("nan"), float("nan"))]  # fmt: skip
    return {"gap": gaps(*rows), "families": pd.concat([emotions, groups]), "cells": own}


def measures():
    gap = family(dict.fromkeys(MEASURES, 0.2)).rename(columns={"member": "outcome"})
    ends = {
        "delta_sd": [0.2, -0.1, 0.3, 0.0],
        "sd_ci_low": [-0.1, -0.48, 0.1, None],
        "sd_ci_high": [0.5, -0.0035, 1, None],
    }
    table = gap.assign(**ends, estimator="contrast", headline=True, scope="narratives")
    return {"gap": table, "measures": pd.DataFrame({"measure": list(MEASURES), "title": MEASURES.values()})}


def draw(own, millimetres, **more):
    return draw_for_journal(own, millimetres=millimetres, low=0, high=100, confidence=0.95, **more)


def shown(figure: Figure) -> list[Text]:
    with drawing():
        figure.canvas.draw()
        beyond = {id(label) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in not_drawn(axis)}
        found = [each for each in figure.findobj(Text) if each.get_text().strip() and each.get_visible()]
        return [each for each in found if id(each) not in beyond]


def not_drawn(axis):
    """Labels of ticks beyond an axis' ends, which are there and are not drawn."""
    low, high = sorted(axis.get_view_interval())
    for tick in axis.get_major_ticks():
        if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
            yield from (tick.label1, tick.label2)


def boxes(figure: Figure):
    texts = shown(figure)
    with drawing():
        return [(each.get_text(), each.get_window_extent()) for each in texts]


def check(figure: Figure, millimetres: float) -> None:
    assert figure.get_figwidth() == pytest.approx(millimetres / 25.4, abs=1e-9)
    assert min(each.get_fontsize() for each in shown(figure)) >= SMALL == 7.0
    width, height = (size * figure.dpi for size in figure.get_size_inches())
    found = boxes(figure)
    for text, box in found:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
        assert "\N{HORIZONTAL ELLIPSIS}" not in text, "no name is cut"
    for (one, a), (other, b) in itertools.combinations(found, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not (across > 0.5 and down > 0.5), (one, other)


@each_width
def test_gaps_and_families_keep_to_their_width(millimetres):
    drawn = draw(tables(), millimetres, margin=0.25)
    assert list(drawn.figures) == [
        "gaps", "emotions-religion-origin", "groups-religion-origin", "cells-religion-origin",
        "interaction-religion-origin",
    ]  # fmt: skip
    assert drawn.left_out == {}
    for figure in drawn.figures.values():
        check(figure, millimetres)


@each_width
def test_groups_that_get_less_are_drawn_with_names_whole_and_invented_ones_apart(millimetres):
    compared = disparities({"a group with a rather long name": -20.0, "B": 4.0, "C": 16.0}, lower=["B"], invented=3)
    drawn = draw(tables() | {"disparity": compared}, millimetres, margin=2)
    figure = drawn.figures["disparity-religion-origin"]
    check(figure, millimetres)
    text = " ".join(" ".join(each.get_text().split()) for each in shown(figure))
    for name in ("a group with a rather long name", "invented 2", "invented groups", "margin"):
        assert name in text


def test_without_perceivers_groups_are_drawn_and_neither_a_gap_nor_an_interaction():
    own = tables() | {"disparity": disparities({"A": -20.0, "B": 20.0})}
    own["cells"] = own["cells"].assign(perceiver_group="no persona")
    drawn = draw(own, 183)
    assert not {name for name in (*drawn.figures, *drawn.left_out) if name.startswith(("gaps", "interaction"))}
    assert "disparity-religion-origin" in drawn.figures


@each_width
def test_measures_keep_to_their_width(millimetres):
    [figure] = draw(measures(), millimetres).figures.values()
    check(figure, millimetres)
    text = " ".join(" ".join(each.get_text().split()) for each in shown(figure))
    assert LONG in text


def test_the_margin_is_named_beneath_where_no_room_is_above():
    own = tables()
    narrow = draw(own, 89, margin=0.25).figures["gaps"]
    assert any(
        "Shaded: the margin of 0.25 points either way." in " ".join(each.get_text().split()) for each in shown(narrow)
    )
    without = draw(own, 89).figures["gaps"]
    assert not any("margin" in each.get_text() for each in shown(without))


def test_a_mark_of_a_note_stays_with_its_words():
    figure = draw(measures(), 89).figures["measures-religion-origin"]
    for text in (each.get_text() for each in shown(figure)):
        assert not re.search(r"[○●]\s*\n", text)


def test_many_identities_fit_two_columns_or_are_left_out_with_the_reason():
    own = tables(terms=many(14))
    assert "cells-religion-origin" in draw(own, 183).figures
    narrow = draw(own, 89)
    assert narrow.left_out["cells-religion-origin"] == "15 rows and 15 columns have no room with letters of 7 points"
    assert "gaps" in narrow.figures
    with pytest.raises(DoesNotFitError, match="15 rows and 15 columns"):
        plot_cells(own["cells"], low=0, high=100, width=3.0)
    check(draw(own, 183).figures["cells-religion-origin"], 183)


@each_width
def test_a_file_is_as_wide_as_it_is_printed_and_its_letters_are_as_large(millimetres):
    """Read from the PDF itself: its page's width, and the size of every font that it sets."""
    drawn = draw(tables(), millimetres)
    figures = {"gaps": drawn.figures["gaps"], "cells": drawn.figures["cells-religion-origin"]}
    files = journal_files(figures, millimetres)
    assert set(files) == {f"figures/{n}-{millimetres}mm.{form}" for n in figures for form in ("pdf", "png")}
    assert files == journal_files(figures, millimetres)
    for name in figures:
        pdf = files[f"figures/{name}-{millimetres}mm.pdf"]
        [box] = re.findall(rb"/MediaBox \[ ([^\]]+) \]", pdf)
        assert float(box.split()[2]) == pytest.approx(millimetres / 25.4 * 72, abs=0.01)
        sizes = [float(size) for stream in streams(pdf) for size in re.findall(rb"/F\d+ ([\d.]+) Tf", stream)]
        assert len(sizes) > 5
        assert min(sizes) >= 7
        # PNG: 600 dots an inch.
        png = files[f"figures/{name}-{millimetres}mm.png"]
        assert int.from_bytes(png[16:20], "big") == pytest.approx(millimetres / 25.4 * 600, abs=1)


def streams(pdf: bytes):
    for found in re.finditer(rb"stream\r?\n(.*?)\r?\nendstream", pdf, flags=re.DOTALL):
        try:
            yield zlib.decompress(found[1])
        except zlib.error:
            continue
