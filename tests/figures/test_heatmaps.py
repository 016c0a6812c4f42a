import itertools
import math

import numpy as np
import pandas as pd
import pytest
from drawn import RELIGION, cells, many, marked, published, texts, unrated
from matplotlib.figure import Figure

from audit.errors import MissingCellError, NotEstimableError
from audit.report.figures.heatmaps import (
    interaction_reach,
    plot_cells,
    plot_interaction,
    plot_missing,
    plot_published,
    published_reach,
    shared_limits,
)

GROUPED = [("a1", "A"), ("a2", "A"), ("b1", "B"), ("c1", "C")]
CLUSTERS = {"Buddhist": "East", "Christian": "West", "Hindu": "East"}


def colours(figure: Figure) -> np.ma.MaskedArray:
    return figure.axes[0].collections[0].get_array()  # type: ignore[return-value]


def limits(figure: Figure) -> tuple[float, float]:
    norm = figure.axes[0].collections[0].norm
    return norm.vmin, norm.vmax  # type: ignore[return-value]


def frames(figure: Figure) -> int:
    """Edges of the frames around in-group cells."""
    (collection,) = marked(figure, "in-group")
    return len(collection.get_segments())  # type: ignore[attr-defined]


def labels(figure: Figure) -> tuple[list[str], list[str]]:
    axes = figure.axes[0]
    rows, columns = ([label.get_text() for label in side] for side in (axes.get_yticklabels(), axes.get_xticklabels()))
    return rows, columns


def bracket_names(figure: Figure) -> list[str]:
    return [found.get_text() for found in marked(figure, "bracket") if hasattr(found, "get_text")]


def test_every_cell_has_its_mean_in_colour_and_in_writing() -> None:
    table = cells()
    figure = plot_cells(table, low=0, high=100)
    np.testing.assert_array_equal(colours(figure), table["mean"].to_numpy().reshape(5, 5))
    assert {f"{mean:.1f}" for mean in table["mean"]} <= set(texts(figure))


def test_each_lone_in_group_cell_is_framed_on_four_sides() -> None:
    assert frames(plot_cells(cells(), low=0, high=100)) == 4 * 4


def test_in_group_cells_that_touch_share_one_frame() -> None:
    # A block of 2 x 2 has 8 outer edges, a lone cell 4.
    assert frames(plot_cells(cells(GROUPED[:3]), low=0, high=100)) == 12


def test_frames_stay_out_of_the_gap_before_the_baselines() -> None:
    (collection,) = marked(plot_cells(cells(), low=0, high=100), "in-group")
    assert 3.5 < np.concatenate(collection.get_segments()).max() < 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("terms", "baseline", "clusters", "lines"),
    [
        (RELIGION, True, None, 2),
        (RELIGION, False, None, 0),
        (GROUPED, True, None, 6),  # A|B, B|C and the baseline, both ways
        (RELIGION, True, CLUSTERS, 6),  # East|West, West|Muslim, which has none, and the baseline
    ],
)
def test_baselines_groups_of_several_terms_and_clusters_stand_apart(terms, baseline, clusters, lines) -> None:
    figure = plot_cells(cells(terms, baseline=baseline), low=0, high=100, clusters=clusters)
    assert len(marked(figure, "boundary")) == lines


def test_groups_of_several_terms_are_named_by_brackets_on_both_sides() -> None:
    assert bracket_names(plot_cells(cells(GROUPED), low=0, high=100)) == ["A", "A"]
    assert bracket_names(plot_cells(cells(), low=0, high=100)) == []


def test_clusters_are_named_by_brackets_and_bring_their_groups_together() -> None:
    figure = plot_cells(cells(), low=0, high=100, clusters=CLUSTERS)
    assert bracket_names(figure) == ["East", "West"] * 2
    order = ["a Buddhist", "a Hindu", "a Christian", "a Muslim", "a person"]
    rows, columns = labels(figure)
    assert [name.replace("\n", " ") for name in rows] == order
    assert [name.replace("\n", " ") for name in columns] == order
    means = cells().pivot(index="perceiver", columns="experiencer", values="mean").loc[order, order]
    np.testing.assert_array_equal(colours(figure), means)


def test_brackets_labels_and_cells_do_not_overlap_nor_leave_the_figure() -> None:
    terms = [(f"a person from the country {k}{j}", f"the group of number {k}") for k in range(4) for j in range(3)]
    clusters = {group: f"a rather long name of cluster {int(group[-1]) // 2}" for _, group in terms}
    figure = plot_cells(cells(terms), low=0, high=100, clusters=clusters)
    figure.canvas.draw()
    axes = figure.axes[0]
    inner = min(label.get_window_extent().x0 for label in axes.get_yticklabels())
    names = [found.get_window_extent() for found in marked(figure, "bracket")]
    left = [box for box in names if box.x1 < axes.get_window_extent().x0]
    assert len(left) == 2 * (4 + 2)  # each a line and a name
    assert max(box.x1 for box in left) < inner
    assert not any(one.overlaps(other) for one, other in itertools.combinations(names, 2))
    assert min(box.x0 for box in left) > 0
    assert max(box.y1 for box in names) < figure.bbox.height


def test_pair_without_rating_is_hatched_and_not_coloured() -> None:
    figure = plot_cells(unrated(cells()), low=0, high=100)
    (patch,) = marked(figure, "no-rating")
    assert patch.get_xy() == (1, 0)  # type: ignore[attr-defined]
    assert patch.get_hatch() == "////"  # type: ignore[attr-defined]
    assert np.argwhere(np.ma.getmaskarray(colours(figure))).tolist() == [[0, 1]]
    assert colours(figure).min() > 49  # nothing was drawn as 0
    assert any("Hatched: no rating." in text for text in texts(figure))


def test_mean_of_few_ratings_is_starred() -> None:
    table = cells()
    table.loc[2, "n_rated"] = 100
    starred = [text for text in texts(plot_cells(table, low=0, high=100)) if text.endswith("*")]
    assert starred == [f"{table.loc[2, 'mean']:.1f}*"]


def test_nothing_rated_still_draws() -> None:
    figure = plot_cells(cells().assign(mean=math.nan, n_rated=0), low=0, high=100)
    assert len(marked(figure, "no-rating")) == 25
    assert limits(figure) == (0, 100)


def test_noise_is_not_stretched_over_all_colours() -> None:
    low, high = limits(plot_cells(cells().assign(mean=lambda own: 50 + own["mean"] / 1000), low=0, high=100))
    assert high - low == pytest.approx(10)


def test_panels_of_several_dimensions_can_share_their_colours() -> None:
    other = cells().assign(dimension="nationality", mean=lambda own: own["mean"] + 20)
    shared = shared_limits(pd.concat([cells(), other]), low=0, high=100)
    assert shared == pytest.approx((cells()["mean"].min(), other["mean"].max()))
    assert limits(plot_cells(cells(), low=0, high=100, limits=shared)) == shared
    with pytest.raises(ValueError, match="not within the colour limits from 70 to 80"):
        plot_cells(cells(), low=0, high=100, limits=(70, 80))


def test_means_beyond_the_scale_are_drawn_and_said() -> None:
    """A parser may accept what lies beyond the scale: the published one takes 85 on a scale to 10."""
    means = cells()["mean"]
    figure = plot_cells(cells(), low=0, high=10)
    assert limits(figure) == pytest.approx((means.min(), means.max()))
    np.testing.assert_allclose(np.sort(colours(figure).ravel()), np.sort(means))
    assert any("Some means lie beyond the scale's ends, 0 and 10." in text for text in texts(figure))
    assert not any("beyond the scale" in text for text in texts(plot_cells(cells(), low=0, high=100)))
    # A model that answers 85 throughout.
    low, high = limits(plot_cells(cells().assign(mean=85.0), low=0, high=10))
    assert low < 85 <= high


def test_a_scale_without_a_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="not below"):
        plot_cells(cells(), low=100, high=0)


def test_interaction_leaves_baselines_out_and_centres_colours_on_zero() -> None:
    figure = plot_interaction(cells())
    assert colours(figure).shape == (4, 4)
    np.testing.assert_allclose(colours(figure).sum(axis=0), 0, atol=1e-9)
    assert limits(figure) == (-np.abs(colours(figure)).max(), np.abs(colours(figure)).max())
    assert "a person" not in texts(figure)
    assert any(text.startswith("−") for text in texts(figure))


def test_interaction_of_additive_means_is_drawn_as_zero() -> None:
    assert texts(plot_interaction(cells().assign(mean=50.0))).count("0.0") >= 16


def test_interaction_panels_can_share_their_reach() -> None:
    other = cells().assign(dimension="nationality", mean=lambda own: 2 * own["mean"])
    lacking = unrated(cells().assign(dimension="race_ethnicity"))
    reach = interaction_reach(pd.concat([cells(), other, lacking]))
    assert reach is not None
    assert limits(plot_interaction(other)) == (-reach, reach)
    assert limits(plot_interaction(cells(), reach=reach)) == (-reach, reach)
    assert interaction_reach(lacking) is None
    with pytest.raises(ValueError, match=r"religion, origin: .* beyond the colours' reach of 0.1"):
        plot_interaction(cells(), reach=0.1)


def test_interaction_needs_every_pair() -> None:
    with pytest.raises(MissingCellError):
        plot_interaction(unrated(cells()))
    with pytest.raises(NotEstimableError, match=r"religion, origin: there are no pairs .* only baselines"):
        plot_interaction(cells([]))
    with pytest.raises(NotEstimableError, match="one perceiver or one experiencer"):
        plot_interaction(cells(RELIGION[:1], RELIGION))


def test_published_mask_blanks_cells_without_changing_the_colours_scale() -> None:
    bare, masked = (plot_published(cells(), published(cells()), masked=masked) for masked in (False, True))
    z = np.arange(25).reshape(5, 5) / 10 - 1
    np.testing.assert_allclose(colours(bare), z)
    np.testing.assert_array_equal(np.ma.getmaskarray(colours(masked)).ravel(), np.arange(25) % 2 == 1)
    assert limits(bare) == limits(masked) == pytest.approx((-1.4, 1.4))
    assert "+0.5" in texts(bare)
    assert "+0.5" not in texts(masked)
    assert marked(masked, "no-rating") == []  # blank, not hatched
    assert any("Blank: hidden by the published significance mask." in text for text in texts(masked))


def test_published_cell_without_a_value_is_hatched_whether_shown_or_not() -> None:
    table = published(cells())
    table.loc[[1, 2], "z"] = math.nan
    for masked in (False, True):
        assert len(marked(plot_published(cells(), table, masked=masked), "no-rating")) == 2


def test_published_cells_of_other_panels_are_left_alone() -> None:
    both = pd.concat([published(cells()).assign(variant="persona-1", z=9.0), published(cells())])
    assert colours(plot_published(cells(), both, masked=False)).max() == pytest.approx(1.4)
    assert published_reach(both) == 9.0
    assert limits(plot_published(cells(), both, masked=False, reach=9.0)) == (-9.0, 9.0)


def test_no_published_value_at_all_is_an_error() -> None:
    table = published(cells()).assign(z=math.nan)
    assert published_reach(table) is None
    for none in (table, table.iloc[:0]):
        with pytest.raises(NotEstimableError, match="religion, origin: no cell has a published value"):
            plot_published(cells(), none, masked=True)


def test_refusals_are_drawn_in_per_cent_from_zero() -> None:
    table = cells()
    table["refusal_rate"] = np.arange(25) / 100
    figure = plot_missing(table)
    np.testing.assert_allclose(colours(figure), np.arange(25.0).reshape(5, 5))
    assert limits(figure) == (0, 24)
    assert limits(plot_missing(table, upper=0.5)) == (0, 50)
    assert any("refusals, % of the pair's prompts" in text for text in texts(figure))


def test_no_refusal_is_an_observed_zero() -> None:
    figure = plot_missing(cells())
    assert texts(figure).count("0") >= 25
    assert limits(figure) == (0, 5)


def test_a_rare_refusal_does_not_read_as_none() -> None:
    table = cells()
    table.loc[3, "refusal_rate"] = 1 / 40_000
    assert texts(plot_missing(table)).count("<0.1") == 1


def test_pair_that_was_not_asked_has_no_refusals() -> None:
    figure = plot_missing(cells().drop(index=3))
    assert np.argwhere(np.ma.getmaskarray(colours(figure))).tolist() == [[0, 3]]


def test_figure_grows_with_the_identities_and_cells_keep_their_size() -> None:
    small, large = (plot_cells(cells(many(n)), low=0, high=100) for n in (4, 21))
    wide = plot_cells(cells(many(3), many(21)), low=0, high=100)
    assert large.get_figwidth() > 2 * wide.get_figheight()
    for figure in (small, large, wide):
        box, (rows, columns) = figure.axes[0].get_window_extent(), colours(figure).shape
        assert box.width / columns == pytest.approx(box.height / rows)
        assert box.width / columns / figure.dpi >= 0.3  # inches


@pytest.mark.parametrize("terms", [RELIGION, GROUPED, many(21)])
def test_no_text_overlaps_its_neighbour_and_all_letters_are_large_enough(terms) -> None:
    figure = plot_cells(cells(terms), low=0, high=100)
    figure.canvas.draw()
    axes = figure.axes[0]
    for left, right in itertools.pairwise(label.get_window_extent() for label in axes.get_xticklabels()):
        assert left.x1 <= right.x0 + 1
    for upper, lower in itertools.pairwise(label.get_window_extent() for label in axes.get_yticklabels()):
        assert lower.y1 <= upper.y0 + 1
    cell = axes.get_window_extent().width / colours(figure).shape[1]
    assert max(text.get_window_extent().width for text in axes.texts if text.get_gid() is None) < cell
    assert min(text.get_fontsize() for text in axes.texts) >= 7
