import math

import pandas as pd
import pytest
from drawn import marked, offsets, texts
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.strategies import plot_strategies
from audit.report.figures.style import figure_bytes


def strategies(**changes: list[object]) -> pd.DataFrame:
    """Strategy none with δ 6, one that takes it to 2, one to 5.5 with a p too large."""
    nan = math.nan
    columns: dict[str, list[object]] = {
        "run": ["none", "ecn", "two-stage"],
        "strategy": ["none", "ecn", "two-stage"],
        "reference": ["", "none", "none"],
        "delta": [6.0, 2.0, 5.5],
        "ci_low": [5.0, 1.0, 4.5],
        "ci_high": [7.0, 3.0, 6.5],
        "delta_change": [nan, -4.0, -0.5],
        "change_low": [nan, -4.5, -1.25],
        "change_high": [nan, -3.5, 0.25],
        "p_adjusted": [nan, 0.001, 0.3],
        "n_calls": [1.0, 5.0, 3.0],
        "seconds": [0.5, 2.5, 1.5],
    }
    return pd.DataFrame(columns | changes).assign(dimension="religion", note="")


def draw(table: pd.DataFrame | None = None, *, unit: str = "points") -> Figure:
    return plot_strategies(strategies() if table is None else table, unit=unit, confidence=0.95)


def bars(figure: Figure) -> list[float]:
    return [bar.get_width() for bar in marked(figure, "cost")]  # type: ignore[attr-defined]


def test_gaps_changes_and_costs_stand_where_the_table_says() -> None:
    figure = draw()
    gap, change, cost = figure.axes
    assert [label.get_text() for label in gap.get_yticklabels()] == ["none", "ecn", "two-stage"]
    # δ is filled throughout; the change is where its corrected p is below .05.
    assert offsets(figure, "filled") == [[6, 0], [2, 1], [5.5, 2], [-4, 1]]
    assert offsets(figure, "hollow") == [[-0.5, 2]]
    assert bars(figure) == [0.5, 2.5, 1.5]
    ends = [[*line[:, 0], line[0, 1]] for kept in marked(figure, "interval") for line in kept.get_segments()]  # type: ignore[attr-defined]
    assert ends == [[5, 7, 0], [1, 3, 1], [4.5, 6.5, 2], [-4.5, -3.5, 1], [-1.25, 0.25, 2]]
    assert {"+6.00", "−4.00", "−0.50", "reference", "2.50"} <= set(texts(figure))
    assert len(marked(figure, "zero")) == 2
    assert "95% interval" in " ".join(gap.get_xlabel().split())
    assert "minus that of none" in " ".join(change.get_xlabel().split())
    assert cost.get_xlabel() == "seconds a rating"


def test_the_dashed_line_is_each_rows_own_reference() -> None:
    [lines] = marked(draw(), "reference")
    assert [line[:, 0].tolist() for line in lines.get_segments()] == [[6, 6]] * 3  # type: ignore[attr-defined]
    table = strategies(strategy=["none", "ecn", "ecn"], run=["none", "m1, ecn", "m2, ecn"], reference=["", "none", ""])
    figure = draw(table)
    [lines] = marked(figure, "reference")
    assert [line[:, 0].tolist() for line in lines.get_segments()] == [[6, 6]] * 2  # type: ignore[attr-defined]
    assert "m2, ecn" in texts(figure)


def test_without_all_seconds_the_cost_is_in_calls() -> None:
    figure = draw(strategies(seconds=[0.5, math.nan, 1.5]))
    assert bars(figure) == [1, 5, 3]
    assert figure.axes[2].get_xlabel() == "model calls a rating"


def test_what_is_missing_is_not_drawn_as_0() -> None:
    nan = math.nan
    without = {name: [nan] * 3 for name in ("delta_change", "change_low", "change_high", "p_adjusted")}
    figure = draw(strategies(delta=[6.0, nan, 5.5], ci_low=[5.0, nan, nan], ci_high=[7.0, nan, nan], **without))
    assert offsets(figure, "filled") == [[6, 0], [5.5, 2]]
    assert offsets(figure, "hollow") == []
    assert "not estimable" in texts(figure)
    with pytest.raises(NotEstimableError, match="no strategy has an estimate"):
        draw(strategies(delta=[nan] * 3))


def test_untrusted_names_are_drawn_as_text_and_the_bytes_are_the_same() -> None:
    table = strategies(strategy=["none", "$x^2$ <script>", "a" * 300])
    figure = draw(table, unit="% of the scale")
    assert "$x^2$ <script>" in texts(figure)
    assert "% of the scale" in " ".join(figure.axes[0].get_xlabel().split())
    assert figure_bytes(figure, "svg") == figure_bytes(draw(table, unit="% of the scale"), "svg")
    assert figure.get_figwidth() < 9


def test_rows_of_one_dimension_are_drawn_at_a_time() -> None:
    with pytest.raises(ValueError, match="one dimension"):
        draw(strategies().assign(dimension=["religion", "age", "age"]))
    with pytest.raises(ValueError, match="one dimension"):
        draw(strategies().iloc[:0])
