import math

import numpy as np
import pandas as pd
import pytest
from drawn import distributions, gaps, marked, narratives, null, texts
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.distributions import plot_contrasts, plot_null, plot_ratings
from audit.report.figures.style import figure_bytes


def bars(figure: Figure) -> list[tuple[float, float, float]]:
    """Left, right and height of the histogram's bars."""
    return [(b.get_x(), b.get_x() + b.get_width(), b.get_height()) for b in figure.axes[0].patches]  # type: ignore[attr-defined]


def test_every_narrative_is_in_a_bar_and_no_bar_holds_both_signs() -> None:
    contrasts = np.random.default_rng(0).normal(0.3, 1, 500)
    figure = plot_contrasts(narratives([*contrasts, math.nan]))
    for left, right, height in bars(figure):
        assert left >= -1e-9 or right <= 1e-9
        assert height == ((contrasts >= left) & (contrasts < right)).sum()
    assert sum(height for *_, height in bars(figure)) == 500
    assert "(500 narratives; 1 without)" in figure.axes[0].get_xlabel().replace("\n", " ")


def test_headline_stands_at_its_delta_with_its_interval() -> None:
    headline = gaps(("religion", "origin", 0.5, 0.1, 0.9)).iloc[0]
    figure = plot_contrasts(narratives([0.2, 0.9]), confidence=0.9, headline=headline)
    (mean,), (interval,), (zero,) = (marked(figure, name) for name in ("mean", "interval", "zero"))
    assert [list(line.get_xdata()) for line in (mean, interval, zero)] == [[0.5] * 2, [0.1, 0.9], [0.0] * 2]  # type: ignore[attr-defined]
    assert "δ +0.50  [+0.10 to +0.90], 90% interval" in texts(figure)


def test_without_a_headline_the_plain_mean_is_drawn_and_no_interval() -> None:
    figure = plot_contrasts(narratives([0.25, 0.75]))
    (mean,) = marked(figure, "mean")
    assert list(mean.get_xdata()) == [0.5, 0.5]  # type: ignore[attr-defined]
    assert marked(figure, "interval") == []


@pytest.mark.parametrize(
    "contrasts",
    [[0.0, 0.0], [2.0], [-3.0, -3.0], [0.0, 1e6], [1e-12, 2e-12], [40.0, 40.001, 40.002], [*[0.1, 0.1001] * 50, 1e9]],
)
def test_contrasts_without_a_spread_are_drawn(contrasts) -> None:
    drawn = bars(plot_contrasts(narratives(contrasts)))
    assert sum(height for *_, height in drawn) == len(contrasts)
    assert len(drawn) <= 82


def test_thousands_of_narratives_make_a_small_file() -> None:
    contrasts = np.random.default_rng(0).standard_t(2, 6050)
    assert len(figure_bytes(plot_contrasts(narratives(contrasts)), "svg")) < 60_000


def test_contrasts_that_can_not_be_drawn_are_an_error() -> None:
    with pytest.raises(NotEstimableError, match="religion, origin: no narrative has a gap"):
        plot_contrasts(narratives([math.nan]))
    with pytest.raises(NotEstimableError, match="no narratives"):
        plot_contrasts(narratives([]))
    with pytest.raises(NotEstimableError, match="headline has no estimate"):
        plot_contrasts(narratives([1.0]), headline=gaps(("religion", "origin", *[math.nan] * 3)).iloc[0])
    with pytest.raises(ValueError, match="several: nationality, religion"):
        plot_contrasts(pd.concat([narratives([1.0]), narratives([1.0]).assign(dimension="nationality")]))


def steps(figure: Figure, pairs: str) -> tuple[list[float], list[float]]:
    (found,) = marked(figure, pairs)
    values, edges, _ = found.get_data()  # type: ignore[attr-defined]
    return list(values), list(edges)


def ends(figure: Figure, pairs: str) -> list[float]:
    return [bar.get_height() for bar in marked(figure, f"end-{pairs}")]  # type: ignore[attr-defined]


def test_ratings_between_the_ends_are_steps_and_those_at_the_ends_bars() -> None:
    figure = plot_ratings(
        distributions(in_group=[10, 40, 50, 0], out_group=[0, 100, 99, 1], baseline=[9, 9, 9, 9]), low=0, high=100
    )
    assert steps(figure, "in_group") == ([40.0, 50.0], [0.0, 50.0, 100.0])
    assert steps(figure, "out_group") == ([50.0, 49.5], [0.0, 50.0, 100.0])
    assert ends(figure, "in_group") == [10.0, 0.0]
    assert ends(figure, "out_group") == [0.0, 0.5]
    shown = texts(figure)
    assert {"10.0%", "0%", "0.5%", "at 0", "at 100", "in-group (100 ratings)", "out-group (200 ratings)"} <= set(shown)
    assert marked(figure, "baseline") == []


def test_ratings_beyond_the_scale_are_bars_of_their_own() -> None:
    table = distributions(in_group=[10, 40, 40, 0], out_group=[0, 100, 100, 0])
    first = table.iloc[[0]]
    beyond = [
        first.assign(pairs="in_group", low=100.0, high=850.0, n_ratings=8, share=0.08),
        first.assign(pairs="in_group", low=-3.0, high=0.0, n_ratings=2, share=0.02),
    ]
    figure = plot_ratings(pd.concat([table, *beyond]), low=0, high=100)
    assert steps(figure, "in_group")[1] == [0.0, 50.0, 100.0]
    assert sorted(ends(figure, "in_group")) == pytest.approx(sorted([100 * 10 / 90, 0.0, 8.0, 2.0]))
    assert len(ends(figure, "out_group")) == 4
    assert {"below 0", "at 0", "at 100", "above 100"} <= set(texts(figure))
    assert not {"below 0", "above 100"} & set(texts(plot_ratings(table, low=0, high=100)))
    with pytest.raises(ValueError, match="do not run from 0 to 100"):
        plot_ratings(pd.concat([table, beyond[0].assign(low=99.0)]), low=0, high=100)


def test_kind_of_pair_without_a_rating_is_named_and_not_drawn() -> None:
    figure = plot_ratings(distributions(out_group=[0, 1, 1, 0]), low=0, high=100)
    assert "in-group: no rating" in texts(figure)
    assert marked(figure, "in_group") == []


def test_ratings_that_can_not_be_drawn_are_an_error() -> None:
    with pytest.raises(NotEstimableError, match="no pair of identities has a rating"):
        plot_ratings(distributions(baseline=[1, 1, 1, 1]), low=0, high=100)
    with pytest.raises(NotEstimableError, match="no distributions"):
        plot_ratings(distributions(in_group=[1, 1, 1, 1]).iloc[:0], low=0, high=100)
    with pytest.raises(ValueError, match="do not run from 1 to 10"):
        plot_ratings(distributions(in_group=[1, 1, 1, 1]), low=1, high=10)
    with pytest.raises(ValueError, match="do not run from 0 to 100"):
        plot_ratings(distributions(in_group=[1, 1, 1, 1]).drop(index=3), low=0, high=100)


def test_null_shows_the_shuffles_the_interval_and_the_observed_gap() -> None:
    figure = plot_null(null([1, 5, 3, 1]), delta_z=1.25, null_low=-0.9, null_high=0.8)
    assert steps(figure, "null") == ([1, 5, 3, 1], [-1.0, -0.5, 0.0, 0.5, 1.0])
    (observed,), (band,) = marked(figure, "observed"), marked(figure, "null-interval")
    assert list(observed.get_xdata()) == [1.25, 1.25]  # type: ignore[attr-defined]
    box = band.get_path().get_extents(band.get_patch_transform())  # type: ignore[attr-defined]
    assert (box.x0, box.x1) == pytest.approx((-0.9, 0.8))
    assert figure.axes[0].get_xlim()[1] > 1.25
    shown = " ".join(texts(figure))
    assert "observed +1.25" in shown
    assert "null interval, −0.90 to +0.80,\nnot a confidence interval" in shown


@pytest.mark.parametrize(
    "given", [{"delta_z": math.nan}, {"null_low": math.nan}, {"null_high": math.nan}, {"null": null([0, 0])}]
)
def test_null_that_is_missing_is_an_error(given) -> None:
    given = {"null": null([1, 2]), "delta_z": 0.1, "null_low": -0.5, "null_high": 0.5} | given
    with pytest.raises(NotEstimableError, match="religion, origin: the published gap or its null is missing"):
        plot_null(given.pop("null"), **given)
    with pytest.raises(NotEstimableError, match="no shuffles"):
        plot_null(null([]), delta_z=0.1, null_low=-0.5, null_high=0.5)
