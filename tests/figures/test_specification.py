import math

import numpy as np
import pytest
from drawn import marked, offsets, runs, texts

from audit.errors import NotEstimableError
from audit.report.figures.specification import plot_specification
from audit.report.figures.style import figure_bytes


def test_runs_stand_by_their_delta_with_interval_zero_and_median() -> None:
    figure = plot_specification(runs([0.5, -1.0, 2.0]), unit="scale points")
    assert offsets(figure, "delta") == [[0, -1.0], [1, 0.5], [2, 2.0]]
    (interval,), (median,), (zero,) = (marked(figure, name) for name in ("interval", "median", "zero"))
    segments = [[*segment[:, 1]] for segment in interval.get_segments()]  # type: ignore[attr-defined]
    assert segments == [[-2.0, 0.0], [-0.5, 1.5], [1.0, 3.0]]
    assert list(median.get_ydata()) == [0.5, 0.5]  # type: ignore[attr-defined]
    assert list(zero.get_ydata()) == [0.0, 0.0]  # type: ignore[attr-defined]
    assert [label.get_text().replace("\n", " ") for label in figure.axes[0].get_xticklabels()] == [
        "run 1",
        "run 0",
        "run 2",
    ]


def test_each_run_has_a_dot_at_each_choice_that_it_made() -> None:
    table = runs([0.5, -1.0, 2.0], prompt=["origin", "persona", "origin"], scale=["10", "9", "9"], seed=["0"] * 3)
    figure = plot_specification(table, unit="scale points")
    # Rows from the top: prompt, origin, persona, scale, 9, 10 (by size, not by letter); the runs in the order 1, 0, 2.
    assert sorted(offsets(figure, "choice")) == [[0, 2], [0, 4], [1, 1], [1, 5], [2, 1], [2, 4]]
    shown = texts(figure)
    assert {"prompt", "origin", "persona", "scale", "9", "10"} <= set(shown)
    assert not {"seed", "run 0"} & set(shown)


def test_run_without_an_estimate_comes_last_is_named_and_not_drawn() -> None:
    figure = plot_specification(runs([math.nan, -1.0, 2.0]), unit="scale points")
    assert offsets(figure, "delta") == [[0, -1.0], [1, 2.0]]
    assert "not estimable" in texts(figure)
    assert any("Not estimable: run 0." in text for text in texts(figure))
    assert list(marked(figure, "median")[0].get_ydata()) == [0.5, 0.5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("n", [2, 60])
def test_a_few_runs_and_many_are_readable(n) -> None:
    table = runs(np.linspace(-1, 1, n), prompt=[f"variant {k % 9}" for k in range(n)])
    figure = plot_specification(table, unit="scale points")
    assert len(offsets(figure, "choice")) == n
    assert figure.get_figwidth() < 8
    assert len(figure_bytes(figure, "svg")) < 60_000


def test_curve_that_can_not_be_drawn_is_an_error() -> None:
    with pytest.raises(ValueError, match="lack the column 'ci_high'"):
        plot_specification(runs([1.0, 2.0]).drop(columns="ci_high"), unit="points")
    for n in (1, 61):
        with pytest.raises(ValueError, match=f"2 to 60 runs, and there are {n}"):
            plot_specification(runs([1.0] * n), unit="points")
    with pytest.raises(NotEstimableError, match="no run has an estimate"):
        plot_specification(runs([math.nan, math.nan]), unit="points")
