"""Oracle: the numbers that were put in, and where a line through two known cells crosses 0."""

import numpy as np
import pandas as pd
import pytest

from audit.errors import NotEstimableError
from audit.report.figures.missing_grid import plot_missing_grid
from audit.report.figures.style import figure_bytes

SHIFTS = [-20.0, -10.0, 0.0, 10.0, 20.0]


def grid(*, delta=1.0, slope_in=0.1, slope_out=-0.2, half=1.0):
    rows = [
        {
            "dimension": "religion",
            "variant": "origin",
            "shift_in_group": inside,
            "shift_out_group": outside,
            "delta": (value := delta + slope_in * inside + slope_out * outside),
            "ci_low": value - half,
            "ci_high": value + half,
        }
        for inside in SHIFTS
        for outside in SHIFTS
    ]
    return pd.DataFrame(rows)


def test_every_cell_has_its_number_and_brackets_where_the_interval_holds_0():
    axes = plot_missing_grid(grid(), confidence=0.95).axes[0]
    written = {(text.get_position()): text.get_text() for text in axes.texts}
    assert len(written) == 25
    assert written[(2, 2)] == "(+1.00)"  # shifts 0 and 0; 1 ± 1 holds 0
    assert written[(4, 0)] == "+7.00"  # +20 and −20: 1 + 2 + 4
    assert written[(0, 4)] == "−5.00"  # −20 and +20: 1 − 2 − 4
    assert [label.get_text() for label in axes.get_xticklabels()] == ["−20", "−10", "0", "+10", "+20"]


def test_the_line_runs_where_delta_is_0():
    axes = plot_missing_grid(grid(), confidence=0.95).axes[0]
    line = np.vstack([path.vertices for collection in axes.collections[1:] for path in collection.get_paths()])
    inside, outside = 10 * (line[:, 0] - 2), 10 * (line[:, 1] - 2)  # from places of cells to points
    np.testing.assert_allclose(1 + 0.1 * inside - 0.2 * outside, 0, atol=1e-9)


def test_where_no_cell_changes_sides_there_is_no_line():
    axes = plot_missing_grid(grid(delta=9.0), confidence=0.95).axes[0]
    assert len(axes.collections) == 1


@pytest.mark.parametrize("delta", [0.0, np.nan])
def test_grids_without_a_gap_or_an_interval_are_drawn(delta):
    flat = grid(delta=0.0, slope_in=0.0, slope_out=0.0).assign(ci_low=delta, ci_high=delta)
    assert figure_bytes(plot_missing_grid(flat, confidence=0.9), "svg")


def test_nothing_missing_is_not_drawn():
    with pytest.raises(NotEstimableError, match="no rating is missing"):
        plot_missing_grid(grid().iloc[:0], confidence=0.95)
