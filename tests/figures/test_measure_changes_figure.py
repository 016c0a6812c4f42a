import math

import pandas as pd
import pytest
from drawn import marked, offsets, texts
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.measure_changes import plot_measure_changes
from audit.report.figures.style import figure_bytes

TITLES = {"n_words": "Length", "eq": "EQ $x^2$ <script>", "dist_1": "Dist-1"}


def changes(**given: list[object]) -> pd.DataFrame:
    """Length with a change of δ, EQ with one of its mean, and a corpus without either in standard deviations."""
    nan = math.nan
    columns: dict[str, list[object]] = {
        "outcome": ["n_words", "eq", "dist_1"],
        "change_sd": [-0.5, 0.25, nan],
        "sd_ci_low": [-0.75, -0.25, nan],
        "sd_ci_high": [-0.25, 0.75, nan],
        "p_adjusted": [0.01, 0.6, 0.001],
        "mean_sd": [0.125, 2.0, nan],
        "mean_sd_low": [0.0, 1.5, nan],
        "mean_sd_high": [0.25, 2.5, nan],
    }
    return pd.DataFrame(columns | given).assign(dimension="religion", run="ecn")


def draw(table: pd.DataFrame | None = None) -> Figure:
    return plot_measure_changes(changes() if table is None else table, TITLES, confidence=0.95)


def test_changes_of_gaps_and_of_means_stand_where_the_table_says() -> None:
    figure = draw()
    gaps, _ = figure.axes
    assert [label.get_text() for label in gaps.get_yticklabels()] == ["Length", r"EQ \$x^2\$ <script>"]
    # A mean is not tested, so that its mark is hollow whatever it is.
    assert offsets(figure, "filled") == [[-0.5, 0]]
    assert offsets(figure, "hollow") == [[0.25, 1], [0.125, 0], [2, 1]]
    ends = [[*line[:, 0], line[0, 1]] for kept in marked(figure, "interval") for line in kept.get_segments()]  # type: ignore[attr-defined]
    assert ends == [[-0.75, -0.25, 0], [-0.25, 0.75, 1], [0, 0.25, 0], [1.5, 2.5, 1]]
    assert {"−0.50", "+0.25", "+2.00"} <= set(texts(figure))
    assert len(marked(figure, "zero")) == 2


def test_what_is_missing_is_not_drawn_as_0() -> None:
    nan = math.nan
    table = changes(change_sd=[nan, 0.25, nan], sd_ci_low=[nan, nan, nan], sd_ci_high=[nan, nan, nan])
    figure = draw(table)
    assert offsets(figure, "filled") == []
    assert offsets(figure, "hollow") == [[0.25, 1], [0.125, 0], [2, 1]]
    assert "not estimable" in texts(figure)
    with pytest.raises(NotEstimableError, match="no measure has a change"):
        draw(table.iloc[2:])


def test_rows_of_one_run_and_dimension_are_drawn_at_a_time_and_give_the_same_bytes() -> None:
    with pytest.raises(ValueError, match="one dimension and one run"):
        draw(changes().assign(run=["ecn", "ecn", "none"]))
    assert figure_bytes(draw(), "svg") == figure_bytes(draw(), "svg")
