import numpy as np
import pandas as pd
import pytest

from audit.errors import MissingCellError
from audit.report.cell_matrix import colour_limits, interaction, lay_out_matrix


def cells(means: list[list[float]], *, terms: list[tuple[str, str]]) -> pd.DataFrame:
    rows = []
    for (perceiver, p_group), line in zip(terms, means, strict=True):
        for (experiencer, e_group), mean in zip(terms, line, strict=True):
            baseline = "unspecified" in (p_group, e_group)
            rows.append(
                {
                    "dimension": "religion",
                    "variant": "origin",
                    "perceiver": perceiver,
                    "experiencer": experiencer,
                    "perceiver_group": p_group,
                    "experiencer_group": e_group,
                    "in_group": None if baseline else p_group == e_group,
                    "mean": mean,
                    "n_prompts": 10,
                    "n_rated": 0 if np.isnan(mean) else 10,
                }
            )
    return pd.DataFrame(rows)


BASELINE_FIRST = [("a person", "unspecified"), ("a", "A"), ("b", "B")]


def test_baselines_come_last_on_both_sides() -> None:
    grid = lay_out_matrix(cells([[1, 2, 3], [4, 5, 6], [7, 8, 9]], terms=BASELINE_FIRST))
    assert list(grid.mean.index) == ["a", "b", "a person"]
    assert list(grid.mean.columns) == ["a", "b", "a person"]
    assert grid.mean.loc["a", "a person"] == 4
    np.testing.assert_array_equal(grid.in_group, np.diag([True, True, False]))


def test_terms_of_a_group_stand_together() -> None:
    mixed = [("a1", "A"), ("b1", "B"), ("a2", "A")]
    grid = lay_out_matrix(cells([[1, 2, 3], [4, 5, 6], [7, 8, 9]], terms=mixed))
    assert list(grid.mean.index) == ["a1", "a2", "b1"]
    assert grid.row_groups == ("A", "A", "B")


def test_interaction_has_no_main_effects() -> None:
    # Row means 2 and 6, column means 3 and 5, grand mean 4: 3 - 2 - 3 + 4 = 2, and so on with alternating signs.
    table = interaction(cells([[9, 9, 9], [9, 3, 1], [9, 3, 9]], terms=BASELINE_FIRST))
    np.testing.assert_allclose(table.to_numpy(), [[2, -2], [-2, 2]])


def test_pair_without_rating_is_no_zero_in_the_interaction() -> None:
    table = cells([[9, 9, 9], [9, 3, np.nan], [9, 3, 9]], terms=BASELINE_FIRST)
    assert lay_out_matrix(table).unrated.sum() == 1
    with pytest.raises(MissingCellError, match="1 of 4 identity pairs have no mean, the first \\('a', 'b'\\)"):
        interaction(table)


def test_baseline_without_rating_does_not_matter_to_the_interaction() -> None:
    table = cells([[np.nan, 9, 9], [9, 3, 1], [9, 3, 9]], terms=BASELINE_FIRST)
    assert interaction(table).shape == (2, 2)


def test_pair_given_twice_is_an_error() -> None:
    table = cells([[1, 2, 3], [4, 5, 6], [7, 8, 9]], terms=BASELINE_FIRST)
    with pytest.raises(ValueError, match="twice"):
        lay_out_matrix(pd.concat([table, table.head(1)]))


def test_two_dimensions_at_once_are_an_error() -> None:
    table = cells([[1, 2, 3], [4, 5, 6], [7, 8, 9]], terms=BASELINE_FIRST)
    with pytest.raises(ValueError, match="several: nationality, religion"):
        lay_out_matrix(pd.concat([table, table.assign(dimension="nationality")]))


def test_in_group_may_come_as_text_from_csv(tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = cells([[1, 2, 3], [4, 5, 6], [7, 8, 9]], terms=BASELINE_FIRST)
    table.to_csv(tmp_path / "cells.csv", index=False)
    grid = lay_out_matrix(pd.read_csv(tmp_path / "cells.csv"))
    np.testing.assert_array_equal(grid.in_group, np.diag([True, True, False]))


def test_groups_of_a_cluster_stand_together_and_one_without_a_cluster_alone() -> None:
    terms = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D"), ("u", "unspecified")]
    table = cells([[1.0] * 5] * 5, terms=terms)
    grid = lay_out_matrix(table, clusters={"A": "north", "C": "north", "D": ""})
    assert grid.row_groups == grid.column_groups == ("A", "C", "B", "D", "unspecified")


def test_another_value_of_the_pairs_is_laid_out_as_the_means_are() -> None:
    grid = lay_out_matrix(cells([[1, 2, 3], [4, 5, 6], [7, 8, 9]], terms=BASELINE_FIRST))
    table = pd.DataFrame({"perceiver": ["b", "a"], "experiencer": ["a", "a person"], "z": [0.5, -1.0]})
    aligned = grid.align(table, "z")
    assert aligned.loc["b", "a"] == 0.5
    assert aligned.loc["a", "a person"] == -1.0
    assert aligned.isna().to_numpy().sum() == 7
    with pytest.raises(ValueError, match="twice"):
        grid.align(pd.concat([table, table]), "z")


@pytest.mark.parametrize(
    ("means", "limits"),
    [
        ([40, 60], (40, 60)),
        ([50, 50], (45, 55)),  # a tenth of the scale at the least
        ([1, 1], (0, 6)),  # but not over an end that no mean lies beyond
        ([np.nan], (0, 100)),
        ([850, 850], (845, 850)),
        ([-3, 40], (-3, 40)),
        ([5, 850], (5, 850)),
    ],
)
def test_colours_span_the_means_wherever_they_lie(means, limits) -> None:
    assert colour_limits(np.array(means, dtype=float), low=0, high=100) == pytest.approx(limits)
