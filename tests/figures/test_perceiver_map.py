import pandas as pd
import pytest
from drawn import marked, offsets, texts

from audit.report.figures.perceiver_map import plot_perceiver_map

NATIONS = ["China", "Japan", "India", "Iran", "France", "Germany"]
CLUSTERS = ["Confucian", "Confucian", "West & South Asia", "African-Islamic", "Catholic Europe", "Protestant Europe"]


def places(run="origin", **columns):
    known = {
        "run": run,
        "dimension": "nationality",
        "perceiver": [f"a person from {nation}" for nation in NATIONS],
        "perceiver_group": NATIONS,
        "cluster": CLUSTERS,
        "x": range(6),
        "y": [5, 3, 1, 0, 2, 4],
        "perplexity": 2.0,
        "seed": 7,
    }
    return pd.DataFrame(known | columns)


def test_each_perceiver_stands_where_it_was_placed_and_is_named_by_what_tells_it_apart():
    figure = plot_perceiver_map(places())
    assert sorted(offsets(figure, "perceiver")) == [[x, y] for x, y in zip(range(6), [5, 3, 1, 0, 2, 4], strict=True)]
    assert [found.get_text() for found in marked(figure, "name")] == NATIONS


def test_colours_and_shapes_are_those_of_the_clusters_or_else_of_the_groups():
    figure = plot_perceiver_map(places())
    looks = {(tuple(found.get_facecolor()[0]), len(found.get_paths()[0])) for found in marked(figure, "perceiver")}
    assert len(looks) == len(set(CLUSTERS))
    assert set(CLUSTERS) <= set(texts(figure))
    assert set(NATIONS) <= set(texts(plot_perceiver_map(places(cluster=""))))


def test_seed_and_perplexity_stand_below_and_that_it_is_a_picture():
    written = texts(plot_perceiver_map(pd.concat([places(), places("persona-1")])))
    [note] = [text.replace("\n", " ") for text in written if text.startswith("t-SNE")]
    assert "perplexity 2, seed 7; the study's own perplexity is not known to us" in note
    assert "Each panel is placed by itself." in note
    assert "A picture: distances between and sizes of clumps mean nothing, and nothing is tested." in note


def test_two_dimensions_are_refused():
    with pytest.raises(ValueError, match="one dimension"):
        plot_perceiver_map(pd.concat([places(), places().assign(dimension="age")]))
