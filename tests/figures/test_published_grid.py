import math

import numpy as np
import pandas as pd
import pytest
from drawn import BASELINE, RELIGION, cells, many, marked, texts

from audit.errors import NotEstimableError
from audit.report.figures.published_grid import plot_published_grid


def run_cells(run="origin", terms=RELIGION, **kwargs):
    """Cells of a run: z rises by 0.1 a cell from −1, every second one is shown."""
    table = cells(terms, **kwargs)
    keep = ["dimension", "perceiver", "experiencer", "perceiver_group", "experiencer_group", "in_group"]
    place = np.arange(len(table))
    return table[keep].assign(run=run, z=place / 10 - 1, shown=place % 2 == 0, p_perceiver=0.5, p_experiencer=0.5)


def meshes(figure):
    return [axes.collections[0] for axes in figure.axes if axes.get_title(loc="left")]


def test_each_run_has_a_panel_of_its_own_cells_masked_on_one_scale_of_colours():
    runs = pd.concat([run_cells("origin"), run_cells("persona-1").assign(z=lambda own: own["z"] / 2)])
    figure = plot_published_grid(runs)
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")] == ["origin", "persona-1"]
    first, second = meshes(figure)
    z = np.arange(25).reshape(5, 5) / 10 - 1
    hidden = np.arange(25).reshape(5, 5) % 2 == 1
    for mesh, expected in ((first, z), (second, z / 2)):
        drawn = mesh.get_array()
        np.testing.assert_array_equal(np.ma.getmaskarray(drawn), hidden)
        np.testing.assert_allclose(drawn.compressed(), expected[~hidden])
        assert (mesh.norm.vmin, mesh.norm.vmax) == (-1.4, 1.4)


def test_a_cell_without_a_value_is_hatched_and_one_not_asked_is_grey():
    table = run_cells()
    table.loc[1, "z"] = math.nan
    other = run_cells("few").iloc[:20]  # nobody asked "a person" to perceive
    figure = plot_published_grid(pd.concat([table, other]))
    (hatched,) = marked(figure, "no-value")
    assert hatched.get_xy() == (1, 0)
    assert sorted(patch.get_xy() for patch in marked(figure, "not-asked")) == [(column, 4) for column in range(5)]


def test_a_run_without_any_value_says_so_and_only_such_runs_are_refused():
    empty = run_cells("empty").assign(z=math.nan)
    assert "no value" in texts(plot_published_grid(pd.concat([run_cells(), empty])))
    with pytest.raises(NotEstimableError, match="no cell of any run has a published value"):
        plot_published_grid(empty)


def test_every_identity_is_named_beside_and_over_the_panels_and_in_group_cells_are_framed_in_each_panel():
    runs = pd.concat([run_cells(run) for run in ("a run", "another", "a third")])
    figure = plot_published_grid(runs, n_columns=3)
    terms = [term for term, _ in [*RELIGION, BASELINE]]
    perceivers = [
        label.get_text() for axes in figure.axes if axes.get_ylim()[1] == 0 for label in axes.get_yticklabels()
    ]
    assert [name for name in perceivers if name] == terms
    assert [found.get_text() for found in figure.texts if found.get_text() in terms] == terms * 3  # over each panel
    assert [len(found.get_segments()) for found in marked(figure, "in-group")] == [4 * 4] * 3


def test_seven_variants_of_twenty_one_nations_do_not_overlap():
    runs = pd.concat([run_cells(f"variant {n}", many(21)) for n in range(7)])
    figure = plot_published_grid(runs, n_columns=4)
    figure.canvas.draw()
    boxes = [axes.get_window_extent() for axes in figure.axes]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])
        assert box.x0 > 0
        assert box.x1 < figure.bbox.width
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title(loc="left")]
    assert not any(title.overlaps(box) for title in titles for box in boxes)


def test_two_long_wordings_stay_two_names():
    terms = [(f"a person from the United {place}", place) for place in ("Kingdom", "States")]
    assert {term for term, _ in terms} <= set(texts(plot_published_grid(run_cells(terms=terms))))


def test_too_many_runs_and_two_dimensions_are_refused():
    with pytest.raises(ValueError, match="1 to 60 runs, and there are 61"):
        plot_published_grid(pd.concat([run_cells(f"{n}", RELIGION[:2]) for n in range(61)]))
    with pytest.raises(ValueError, match="one dimension"):
        plot_published_grid(pd.concat([run_cells(), run_cells().assign(dimension="age")]))
