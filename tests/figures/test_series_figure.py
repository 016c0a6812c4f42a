"""Oracle: the numbers that were put in."""

import numpy as np
import pandas as pd
import pytest

from audit.errors import NotEstimableError
from audit.report.figures.series import MOST_PANELS, plot_series
from audit.report.figures.style import NARROW, figure_bytes, narrow

NAMES = {30.0: "1B", 32.0: "4B", 34.0: "16B", 36.0: "64B"}


def of(member, values, *, code="not_shown", left_out=()):
    """Return a gap's rows of both tables: at 30, 32, ..., with intervals of 1 point."""
    kind = "disparity" if member else "average"
    x, values = 30.0 + 2 * np.arange(len(values)), np.array(values, dtype=float)
    used = ~np.isin(np.arange(len(values)), left_out)
    slope, level = np.polyfit(x[used], values[used], 1)
    line = {"line_first": level + slope * x[used][0], "line_last": level + slope * x[used][-1]}
    runs = {"kind": kind, "member": member, "position": x, "delta": values, "ci_low": values - 1, "ci_high": values + 1}
    trend = {"kind": kind, "member": member, "estimate": slope, "code": code, **line}
    return pd.DataFrame(runs | {"takes_part": used}), pd.DataFrame([trend])


def tables(*gaps):
    runs, trends = zip(*gaps, strict=True)
    return pd.concat(runs, ignore_index=True), pd.concat(trends, ignore_index=True)


def lines(axes):
    return {line.get_gid(): line.get_xydata().tolist() for line in axes.lines}


def test_each_gap_has_a_panel_with_its_numbers_and_the_line_of_its_trend():
    runs, trends = tables(of("", [6, 4, 2], code="falls"), of("Hindu", [1, 0, 2]))
    average, group = plot_series(runs, trends, NAMES, confidence=0.95).axes
    assert [axes.get_title(loc="left") for axes in (average, group)] == ["δ", "D of Hindu"]
    assert lines(average)["runs"] == [[30, 6], [32, 4], [34, 2]]
    np.testing.assert_allclose(lines(average)["trend"], [[30, 6], [34, 2]])
    np.testing.assert_allclose(lines(group)["not-shown"], [[30, 0.5], [34, 1.5]])  # slope 1/4 about (32, 1)
    [intervals] = average.collections
    assert [path.vertices[:, 1].tolist() for path in intervals.get_paths()] == [[5, 7], [3, 5], [1, 3]]
    assert [label.get_text() for label in average.get_xticklabels()] == ["1B", "4B", "16B"]


def test_a_run_that_takes_no_part_is_hollow_and_outside_the_line():
    runs, trends = tables(of("", [6, 4, 2, 50], code="falls", left_out=[3]))
    [axes] = plot_series(runs, trends, NAMES, confidence=0.95).axes
    hollow = next(line for line in axes.lines if line.get_gid() == "left-out")
    assert hollow.get_xydata().tolist() == [[36, 50]]
    assert hollow.get_markerfacecolor() == "white"
    np.testing.assert_allclose(lines(axes)["trend"], [[30, 6], [34, 2]])


def test_groups_share_a_vertical_scale_and_delta_has_its_own():
    runs, trends = tables(of("", [0.3, 0.2, 0.1]), of("Hindu", [-20, -10, 0]), of("Sikh", [2, 1, 0]))
    average, hindu, sikh = plot_series(runs, trends, NAMES, confidence=0.95).axes
    assert hindu.get_ylim() == sikh.get_ylim()
    assert hindu.get_ylim()[0] < -21
    assert average.get_ylim()[0] > -2


def test_delta_and_the_largest_trends_of_many_groups_are_drawn_in_their_order():
    groups = [of(f"group {place:02d}", [0, 0, place]) for place in range(20)]
    runs, trends = tables(of("", [0, 0, 0]), *groups)
    figure = plot_series(runs, trends, NAMES, confidence=0.95)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "δ", *(f"D of group {place:02d}" for place in range(20 - MOST_PANELS + 1, 20)),
    ]  # fmt: skip


def test_positions_without_room_are_left_out_but_never_the_first_and_the_last():
    runs, trends = tables(of("", np.arange(30.0)))
    names = {30.0 + 2 * place: f"2026-01-{place + 1:02d}" for place in range(30)}
    [axes] = plot_series(runs, trends, names, confidence=0.95).axes
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert shown[0] == "2026-01-01"
    assert shown[-1] == "2026-01-30"
    assert len(shown) < 4


def test_it_fits_a_phone_and_takes_any_name():
    runs, trends = tables(of("", [6, 4, 2]), *(of(f"$a_{place}$ <b>&{'x' * 90}", [1, 0, 2]) for place in range(5)))
    with narrow():
        figure = plot_series(runs, trends, NAMES, confidence=0.95)
    assert figure.get_figwidth() <= NARROW + 0.01
    drawn = figure_bytes(figure, "svg")
    with narrow():
        assert drawn == figure_bytes(plot_series(runs, trends, NAMES, confidence=0.95), "svg")


def test_without_a_trend_there_is_nothing_to_draw():
    runs, trends = tables(of("", [6, 4, 2]))
    with pytest.raises(NotEstimableError):
        plot_series(runs, trends.assign(estimate=np.nan), NAMES, confidence=0.95)
