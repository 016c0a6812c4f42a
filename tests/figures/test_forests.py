import itertools
import math

import pandas as pd
import pytest
from drawn import comparisons, disparities, family, gaps, marked, offsets, texts
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import (
    plot_comparisons,
    plot_disparity,
    plot_family,
    plot_gaps,
    plot_runs,
    rows_to_draw,
)
from audit.report.figures.style import narrow

ONE_GAP = ("religion", "origin", 0.5, 0.1, 0.9)


def intervals(figure: Figure) -> list[list[float]]:
    """Both ends of each interval and its row."""
    (collection,) = marked(figure, "interval")
    return [[*segment[:, 0], segment[0, 1]] for segment in collection.get_segments()]  # type: ignore[attr-defined]


def names(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_gaps_stand_where_the_table_says_and_are_written_beside() -> None:
    figure = plot_gaps(
        gaps(
            ("religion", "origin", 0.494, 0.12, 0.86),
            ("race_ethnicity+religion", "origin", -0.2, -0.5, 0.1),
            ("nationality", "origin", math.nan, math.nan, math.nan),
            ("own", "origin", 0.3, math.nan, math.nan),
        )
    )
    shown = texts(figure)
    for words in ("+0.49  [+0.12 to +0.86]", "−0.20  [−0.50 to +0.10]", "not estimable", "+0.30, no interval"):
        assert words in shown
    assert names(figure) == ["religion", "race/ethnicity × religion", "nationality", "own"]
    # No mark for the one without an estimate: missing is not 0.
    assert offsets(figure, "filled") == [[0.494, 0], [-0.2, 1], [0.3, 3]]
    assert intervals(figure) == [[0.12, 0.86, 0], [-0.5, 0.1, 1]]
    low, high = figure.axes[0].get_xlim()
    assert low < -0.5
    assert high > 0.86


def test_gap_labels_name_the_variant_only_if_there_are_several() -> None:
    rows = [ONE_GAP, ("religion", "persona-1", 0.7, 0.3, 1.1)]
    assert names(plot_gaps(gaps(*rows[:1]))) == ["religion"]
    both = plot_gaps(gaps(*rows))
    assert names(both) == ["religion, origin", "religion, persona-1"]
    assert both.get_figheight() > plot_gaps(gaps(*rows[:1])).get_figheight()


def test_all_gaps_not_estimable_still_draws() -> None:
    figure = plot_gaps(gaps(("religion", "a", *[math.nan] * 3), ("religion", "b", *[math.nan] * 3)))
    assert texts(figure).count("not estimable") == 2
    assert offsets(figure, "filled") == []


def test_coverage_is_named_on_the_axis() -> None:
    assert "90% interval" in plot_gaps(gaps(ONE_GAP), confidence=0.9).axes[0].get_xlabel().replace("\n", " ")


def test_margin_is_a_band_about_zero_that_is_wholly_seen() -> None:
    figure = plot_gaps(gaps(ONE_GAP), margin=2)
    (band,) = marked(figure, "margin")
    box = band.get_path().get_extents(band.get_patch_transform())  # type: ignore[attr-defined]
    assert (box.x0, box.x1) == (-2, 2)
    low, high = figure.axes[0].get_xlim()
    assert (low < -2, high > 2) == (True, True)
    assert "margin: 2.00 points either way" in texts(figure)
    assert marked(plot_gaps(gaps(ONE_GAP)), "margin") == []


def test_what_the_verdict_rests_on_is_drawn_not_a_narrower_interval_of_the_same_gap() -> None:
    gap = gaps(("religion", "origin", 0.91, 0.81, 1.01), ("nationality", "origin", 0.88, 0.8, 0.96))
    wider = gap.assign(ci_low=[-0.51, 0.52], ci_high=[2.33, 1.25], code=["undecided", "gap"])
    figure = plot_gaps(rows_to_draw({"gap": gap, "verdicts": wider}))
    assert intervals(figure) == [[-0.51, 2.33, 0], [0.52, 1.25, 1]]
    assert (offsets(figure, "hollow"), offsets(figure, "filled")) == ([[0.91, 0]], [[0.88, 1]])


def test_an_estimate_has_the_decimals_of_its_interval() -> None:
    figure = plot_gaps(gaps(("a", "origin", -0.0042, -0.74, 0.73), ("b", "origin", 1.0021, 1.0011, 1.0031)))
    shown = texts(figure)
    assert "0.00  [−0.74 to +0.73]" in shown
    assert "+1.0021  [+1.0011 to +1.0031]" in shown


def test_of_a_run_without_verdicts_only_headlines_about_narratives_are_drawn() -> None:
    rows = [gaps(("religion", "origin", delta, 0.1, 0.9)) for delta in (0.5, 0.6, 0.7)]
    overall = gaps(("all", "origin", 0.4, 0.2, 0.6)).assign(estimator="mixed")
    table = pd.concat(
        [rows[0], rows[1].assign(scope="narratives_and_terms"), rows[2].assign(headline=False), overall],
        ignore_index=True,
    )
    figure = plot_gaps(rows_to_draw({"gap": table}))
    assert offsets(figure, "hollow") == [[0.5, 0], [0.4, 1]]  # nothing is said to be found
    assert names(figure) == ["religion", "all dimensions"]


def test_table_without_a_headline_is_an_error() -> None:
    with pytest.raises(ValueError, match="no gap to draw"):
        plot_gaps(rows_to_draw({"gap": gaps(ONE_GAP).assign(headline=False)}))


def test_members_are_filled_by_their_corrected_p_and_stand_by_their_gap() -> None:
    table = family({"sad": 0.1, "happy": 0.9, "tense": -0.4, "calm": math.nan})
    table.loc[0, "p_adjusted"] = 0.03
    figure = plot_family(table, family="emotion", confidence=0.95)
    assert names(figure) == ["happy", "sad", "tense", "calm"]
    assert offsets(figure, "filled") == [[0.1, 1]]
    assert offsets(figure, "hollow") == [[0.9, 0], [-0.4, 2]]
    assert any("● p < .05 after correction (Holm)" in text for text in texts(figure))
    # At 99% the same p is not enough.
    assert offsets(plot_family(table, family="emotion", confidence=0.99), "filled") == []


def test_families_with_an_order_of_their_own_keep_it() -> None:
    table = family({"1": 0.1, "2": 0.9}, name="degree")
    assert names(plot_family(table, family="degree", confidence=0.95)) == ["1", "2"]


def test_pairs_name_both_groups() -> None:
    table = family({"Asian": 0.1}, name="pair").assign(partner="Black")
    assert names(plot_family(table, family="pair", confidence=0.95)) == ["Asian – Black"]


def test_members_without_a_p_do_not_claim_a_correction() -> None:
    figure = plot_family(family({"sad": 0.1, "calm": 0.3}, p=math.nan), family="emotion", confidence=0.95)
    assert any("no p value" in text for text in texts(figure))
    assert len(offsets(figure, "hollow")) == 2


@pytest.mark.parametrize("n", [30, 60])
def test_rows_of_a_long_family_do_not_overlap(n) -> None:
    figure = plot_family(family({f"group {k}": k / n for k in range(n)}), family="emotion", confidence=0.95)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(boxes) == n
    assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(boxes))
    assert min(label.get_fontsize() for label in figure.axes[0].get_yticklabels()) >= 7


def test_of_a_very_long_family_the_furthest_from_zero_are_drawn_and_the_figure_says_so() -> None:
    figure = plot_family(family({f"{k}": k - 50 for k in range(200)}), family="emotion", confidence=0.95)
    assert sorted(map(int, names(figure))) == list(range(140, 200))
    assert any("The 60 of 200 that are furthest from 0." in text for text in texts(figure))


def test_family_that_can_not_be_drawn_is_an_error() -> None:
    with pytest.raises(ValueError, match="no family 'cluster'"):
        plot_family(family({"sad": 0.1}), family="cluster", confidence=0.95)
    with pytest.raises(NotEstimableError, match="'emotion' could be estimated: too few narratives"):
        plot_family(family({"sad": math.nan}).assign(note="too few narratives"), family="emotion", confidence=0.95)
    two = pd.concat([family({"sad": 0.1}), family({"sad": 0.1}).assign(dimension="nationality")])
    with pytest.raises(ValueError, match="several: nationality, religion"):
        plot_family(two, family="emotion", confidence=0.95)


def test_comparisons_are_drawn_as_differences_of_named_variants() -> None:
    figure = plot_comparisons(comparisons(0.5, -0.25), confidence=0.95)
    assert offsets(figure, "filled") == [[0.5, 0], [-0.25, 1]]
    assert intervals(figure) == [[0.25, 0.75, 0], [-0.5, 0, 1]]
    assert names(figure) == ["persona-0 minus origin", "persona-1 minus origin"]


def test_comparisons_in_several_units_have_no_axis_in_common() -> None:
    with pytest.raises(ValueError, match="several: % of the scale, points"):
        plot_comparisons(pd.concat([comparisons(0.5), comparisons(0.5, unit="% of the scale")]), confidence=0.95)
    with pytest.raises(ValueError, match="no comparisons"):
        plot_comparisons(comparisons(), confidence=0.95)
    with pytest.raises(NotEstimableError, match="no difference"):
        plot_comparisons(comparisons(math.nan), confidence=0.95)


@pytest.mark.parametrize(
    ("ends", "written"),
    [((-1.0, 0.25), {"−0.75", "−0.50", "0.00", "+0.25"}), ((-0.002, 0.004), {"+0.002", "+0.004"})],
)
def test_ticks_are_written_as_they_stand(ends, written) -> None:
    axis = plot_gaps(gaps(("religion", "origin", sum(ends) / 2, *ends))).axes[0]
    shown = {label.get_text(): place for label, place in zip(axis.get_xticklabels(), axis.get_xticks(), strict=True)}
    assert written <= set(shown)
    for text, place in shown.items():
        assert float(text.replace("−", "-")) == pytest.approx(place, abs=1e-12)


def test_groups_stand_from_the_lowest_and_those_shown_are_filled() -> None:
    table = disparities({"A": 5.0, "B": -20.0, "C": 7.0, "D": math.nan}, lower=["B"])
    figure = plot_disparity(table, confidence=0.95, margin=2)
    assert names(figure) == ["B", "A", "C", "D"]
    assert offsets(figure, "filled") == [[-20.0, 0]]
    assert offsets(figure, "hollow") == [[5.0, 1], [7.0, 2]]
    assert intervals(figure) == [[-20.5, -19.5, 0], [4.5, 5.5, 1], [6.5, 7.5, 2]]
    (band,) = marked(figure, "margin")
    box = band.get_path().get_extents(band.get_patch_transform())  # type: ignore[attr-defined]
    assert (box.x0, box.x1) == (-2, 2)
    assert "not estimable" in texts(figure)
    assert marked(figure, "apart") == []


def test_invented_groups_stand_apart_beneath_in_another_colour_and_mark() -> None:
    figure = plot_disparity(disparities({"A": 5.0, "B": -20.0}, lower=["B"], invented=2), confidence=0.95)
    assert names(figure) == ["B", "A", "invented 1", "invented 0"]
    (line,) = marked(figure, "apart")
    assert set(line.get_ydata()) == {1.5}  # type: ignore[attr-defined]
    real, invented = (found for found in marked(figure, "hollow") if len(found.get_offsets()))  # type: ignore[attr-defined]
    assert invented.get_offsets().tolist() == [[-1.0, 2], [1.0, 3]]  # type: ignore[attr-defined]
    assert real.get_edgecolor().tolist() != invented.get_edgecolor().tolist()  # type: ignore[attr-defined]
    assert len(real.get_paths()[0]) != len(invented.get_paths()[0])  # type: ignore[attr-defined]


def test_only_the_view_that_decides_is_drawn_and_of_very_many_groups_the_furthest() -> None:
    table = disparities({"A": 5.0, "B": -20.0})
    others = [table.assign(view="baseline"), table.assign(side="perceiver", headline=False), table.assign(level="term")]
    assert names(plot_disparity(pd.concat([*others, table]), confidence=0.95)) == ["B", "A"]
    figure = plot_disparity(disparities({f"{k}": k - 50 for k in range(200)}), confidence=0.95)
    assert sorted(map(int, names(figure))) == list(range(140, 200))
    assert any("The 60 of 200 groups that are furthest from 0." in text for text in texts(figure))
    with pytest.raises(NotEstimableError, match="no group"):
        plot_disparity(disparities({"A": math.nan}), confidence=0.95)


def test_runs_stand_under_their_dimension_and_no_name_is_cut() -> None:
    long = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf, persona-1"
    rows = pd.DataFrame(
        {
            "of": ["religion", "nationality"] * 2,
            "name": ["other run", "other run", long, long],
            "estimate": [0.1, 0.2, 0.3, math.nan],
            "low": [0.0, 0.1, math.nan, math.nan],
            "high": [0.2, 0.3, math.nan, math.nan],
            "filled": [True, False, False, False],
            "response": math.nan,
        }
    )
    whole = plot_runs(rows, axis="δ")
    assert [name.replace("\n", " ") for name in names(whole)] == [
        "religion", "other run", long.replace("instruct-", "instruct- "), "nationality", "other run",
        long.replace("instruct-", "instruct- "),
    ]  # fmt: skip
    assert offsets(whole, "filled") == [[0.1, 1]]
    assert offsets(whole, "hollow") == [[0.3, 2], [0.2, 4]]
    assert texts(whole).count("not estimable") == 1, "a heading has no estimate to be missing"
    with narrow():
        assert texts(plot_runs(rows, axis="δ")).count(long) == 2
    assert names(plot_runs(rows.assign(of=""), axis="δ"))[0] == "other run"
