import itertools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from audit.errors import MissingCellError
from audit.figures import figure_bytes, plot_cells, plot_gaps, plot_interaction

Terms = Sequence[tuple[str, str]]
RELIGION: Terms = [
    ("a Buddhist", "Buddhist"),
    ("a Christian", "Christian"),
    ("a Hindu", "Hindu"),
    ("a Muslim", "Muslim"),
]
BASELINE = ("a person", "unspecified")


def cells(perceivers: Terms, experiencers: Terms, *, baseline: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for perceiver, p_group in [*perceivers, *([BASELINE] if baseline else [])]:
        for experiencer, e_group in [*experiencers, *([BASELINE] if baseline else [])]:
            outside = "unspecified" in (p_group, e_group)
            rows.append(
                {
                    "dimension": "religion",
                    "variant": "origin",
                    "perceiver": perceiver,
                    "experiencer": experiencer,
                    "perceiver_group": p_group,
                    "experiencer_group": e_group,
                    "in_group": None if outside else p_group == e_group,
                    "mean": rng.uniform(50, 60),
                    "n_prompts": 408,
                    "n_rated": 408,
                }
            )
    return pd.DataFrame(rows)


def many(n: int) -> Terms:
    return [(f"a person from country {k}", f"country {k}") for k in range(n)]


def gaps(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    columns = ["dimension", "variant", "delta_points", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns).assign(estimator="contrast", scope="narratives", headline=True)


def texts(figure: Figure) -> list[str]:
    """All that is written, as it is shown: an escaped dollar is a dollar."""
    figure.canvas.draw()
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    labels = [label.get_text() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    return [text.replace(r"\$", "$") for text in (*found, *labels)]


def marked(figure: Figure, gid: str) -> list[object]:
    return [artist for artist in figure.axes[0].get_children() if artist.get_gid() == gid]


def frames(figure: Figure) -> int:
    """Edges of the frames around in-group cells."""
    (collection,) = marked(figure, "in-group")
    return len(collection.get_segments())  # type: ignore[attr-defined]


def test_each_lone_in_group_cell_is_framed_on_four_sides() -> None:
    assert frames(plot_cells(cells(RELIGION, RELIGION), low=0, high=100)) == 4 * 4


def test_in_group_cells_that_touch_share_one_frame() -> None:
    grouped = [("a1", "A"), ("a2", "A"), ("b1", "B")]  # a block of 2 x 2 has 8 outer edges, the lone cell 4
    assert frames(plot_cells(cells(grouped, grouped), low=0, high=100)) == 12


def test_frames_stay_out_of_the_gap_before_the_baselines() -> None:
    figure = plot_cells(cells(RELIGION, RELIGION), low=0, high=100)
    (collection,) = marked(figure, "in-group")
    ends = np.concatenate(collection.get_segments())  # type: ignore[attr-defined]
    assert 3.5 < ends.max() < 4


def test_baselines_stand_apart_and_groups_of_several_terms_are_separated() -> None:
    assert len(marked(plot_cells(cells(RELIGION, RELIGION), low=0, high=100), "boundary")) == 2
    assert len(marked(plot_cells(cells(RELIGION, RELIGION, baseline=False), low=0, high=100), "boundary")) == 0
    grouped = [("a1", "A"), ("a2", "A"), ("b1", "B"), ("c1", "C")]  # A|B, B|C and the baseline, both ways
    assert len(marked(plot_cells(cells(grouped, grouped), low=0, high=100), "boundary")) == 6


def test_pair_without_rating_is_hatched_and_not_coloured() -> None:
    table = cells(RELIGION, RELIGION)
    table.loc[1, ["mean", "n_rated"]] = [math.nan, 0]
    figure = plot_cells(table, low=0, high=100)
    (patch,) = marked(figure, "no-rating")
    assert patch.get_xy() == (1, 0)  # type: ignore[attr-defined]
    assert patch.get_hatch() == "////"  # type: ignore[attr-defined]
    assert "no\nrating" in texts(figure)
    drawn = figure.axes[0].collections[0].get_array()
    assert drawn is not None
    assert np.ma.getmaskarray(drawn).sum() == 1
    assert drawn.min() > 49  # nothing was drawn as 0


def test_mean_of_few_ratings_is_starred() -> None:
    table = cells(RELIGION, RELIGION)
    table.loc[2, "n_rated"] = 100
    starred = [text for text in texts(plot_cells(table, low=0, high=100)) if text.endswith("*")]
    assert starred == [f"{table.loc[2, 'mean']:.1f}*"]


def test_nothing_rated_still_draws() -> None:
    table = cells(RELIGION, RELIGION).assign(mean=math.nan, n_rated=0)
    figure = plot_cells(table, low=0, high=100)
    assert len(marked(figure, "no-rating")) == 25
    assert figure_bytes(figure, "svg")


def test_noise_is_not_stretched_over_all_colours() -> None:
    table = cells(RELIGION, RELIGION)
    table["mean"] = 50 + table["mean"] / 1000
    mesh = plot_cells(table, low=0, high=100).axes[0].collections[0]
    assert mesh.norm.vmax - mesh.norm.vmin == pytest.approx(10)


def test_means_off_the_scale_are_an_error() -> None:
    with pytest.raises(ValueError, match="not on the scale from 0 to 10"):
        plot_cells(cells(RELIGION, RELIGION), low=0, high=10)
    with pytest.raises(ValueError, match="not below"):
        plot_cells(cells(RELIGION, RELIGION), low=100, high=0)


def test_interaction_leaves_baselines_out_and_centres_colours_on_zero() -> None:
    figure = plot_interaction(cells(RELIGION, RELIGION))
    mesh = figure.axes[0].collections[0]
    assert mesh.get_array().shape == (4, 4)  # type: ignore[union-attr]
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert "a person" not in texts(figure)
    assert any(text.startswith("−") for text in texts(figure))


def test_interaction_of_additive_means_is_drawn_as_zero() -> None:
    table = cells(RELIGION, RELIGION).assign(mean=50.0)
    assert texts(plot_interaction(table)).count("0.0") >= 16


def test_interaction_needs_every_pair() -> None:
    table = cells(RELIGION, RELIGION)
    table.loc[1, ["mean", "n_rated"]] = [math.nan, 0]
    with pytest.raises(MissingCellError):
        plot_interaction(table)


def test_figure_grows_with_the_identities_and_cells_keep_their_size() -> None:
    small, large = (plot_cells(cells(many(n), many(n)), low=0, high=100) for n in (4, 21))
    wide = plot_cells(cells(many(3), many(21)), low=0, high=100)
    assert large.get_figwidth() > 2 * small.get_figwidth()
    assert wide.get_figwidth() > 2 * wide.get_figheight()
    for figure in (small, large, wide):
        figure.canvas.draw()
        box, mesh = figure.axes[0].get_window_extent(), figure.axes[0].collections[0].get_array()
        rows, columns = mesh.shape  # type: ignore[union-attr]
        assert box.width / columns / figure.dpi > 0.4  # inches
        assert box.height / rows / figure.dpi > 0.35


def test_column_labels_do_not_overlap() -> None:
    for table in (cells(RELIGION, RELIGION), cells(many(21), many(21))):
        figure = plot_cells(table, low=0, high=100)
        figure.canvas.draw()
        boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
        for left, right in itertools.pairwise(boxes):
            assert left.x1 <= right.x0 + 1


def test_wordings_are_plain_text_however_hostile() -> None:
    hostile = [(r"$\frac$", "A"), ("<script>alert(1)</script>", "B"), ("x" * 300 + "\x00\u202e", "C"), (" ", "D")]
    figure = plot_cells(cells(hostile, hostile), low=0, high=100)
    shown = texts(figure)
    assert r"$\frac$" in shown
    assert max(map(len, shown)) < 60
    svg = figure_bytes(figure, "svg")
    ElementTree.fromstring(svg)  # still well-formed
    assert b"<script" not in svg


def test_unknown_script_is_drawn_without_a_warning() -> None:
    figure = plot_cells(cells([("日本人", "A"), ("ꙮ", "B")], [("日本人", "A"), ("ꙮ", "B")]), low=0, high=100)
    assert figure_bytes(figure, "svg")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_same_table_gives_same_bytes(kind: str) -> None:
    table = cells(RELIGION, RELIGION)
    table.loc[1, ["mean", "n_rated"]] = [math.nan, 0]  # hatching has ids of its own
    figure = plot_cells(table, low=0, high=100)
    first = figure_bytes(figure, kind)  # type: ignore[arg-type]
    assert first == figure_bytes(figure, kind)  # type: ignore[arg-type]
    assert first == figure_bytes(plot_cells(table, low=0, high=100), kind)  # type: ignore[arg-type]


def test_users_matplotlibrc_does_not_matter() -> None:
    table = cells(RELIGION, RELIGION)
    first = figure_bytes(plot_cells(table, low=0, high=100), "svg")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "none"}):
        assert figure_bytes(plot_cells(table, low=0, high=100), "svg") == first


def test_pyplot_and_the_tables_are_left_alone() -> None:
    table = cells(RELIGION, RELIGION)
    before = table.copy()
    plot_cells(table, low=0, high=100)
    plot_interaction(table)
    plot_gaps(gaps(("religion", "origin", 0.5, 0.1, 0.9)))
    pd.testing.assert_frame_equal(table, before)
    assert matplotlib.pyplot.get_fignums() == []


def test_gaps_are_written_with_their_intervals_and_titles() -> None:
    figure = plot_gaps(
        gaps(
            ("religion", "origin", 0.494, 0.12, 0.86),
            ("race_ethnicity+religion", "origin", -0.2, -0.5, 0.1),
            ("nationality", "origin", math.nan, math.nan, math.nan),
            ("own", "origin", 0.3, math.nan, math.nan),
        )
    )
    shown = texts(figure)
    assert "+0.49  [+0.12 to +0.86]" in shown
    assert "−0.20  [−0.50 to +0.10]" in shown
    assert "not estimable" in shown
    assert "+0.30, no interval" in shown
    assert "race/ethnicity ×\nreligion" in shown
    assert "points" in figure.axes[0].get_xlabel()
    low, high = figure.axes[0].get_xlim()
    assert low < -0.5
    assert high > 0.86


def test_gap_labels_name_the_variant_only_if_there_are_several() -> None:
    rows = [("religion", "origin", 0.5, 0.1, 0.9), ("religion", "persona-1", 0.7, 0.3, 1.1)]
    assert "religion" in texts(plot_gaps(gaps(*rows[:1])))
    both = plot_gaps(gaps(*rows))
    assert any("persona-1" in text for text in texts(both))
    assert both.get_figheight() > plot_gaps(gaps(*rows[:1])).get_figheight()


def test_all_gaps_not_estimable_still_draws() -> None:
    figure = plot_gaps(gaps(("religion", "a", math.nan, math.nan, math.nan), ("religion", "b", *[math.nan] * 3)))
    assert texts(figure).count("not estimable") == 2


def test_coverage_is_named_on_the_axis() -> None:
    figure = plot_gaps(gaps(("religion", "origin", 0.5, 0.1, 0.9)), confidence=0.9)
    assert "90% interval" in figure.axes[0].get_xlabel()


def test_only_headlines_about_narratives_are_drawn() -> None:
    rows = [gaps(("religion", "origin", delta, 0.1, 0.9)) for delta in (0.5, 0.6, 0.7)]
    overall = gaps(("all", "origin", 0.4, 0.2, 0.6)).assign(estimator="mixed")
    table = pd.concat(
        [rows[0], rows[1].assign(scope="narratives_and_terms"), rows[2].assign(headline=False), overall],
        ignore_index=True,
    )
    shown = [text for text in texts(plot_gaps(table)) if "[" in text]
    assert shown == ["+0.50  [+0.10 to +0.90]", "+0.40  [+0.20 to +0.60]"]
    assert "all dimensions" in texts(plot_gaps(table))


def test_table_without_a_headline_is_an_error() -> None:
    with pytest.raises(ValueError, match="no headline"):
        plot_gaps(gaps(("religion", "origin", 0.5, 0.1, 0.9)).assign(headline=False))
