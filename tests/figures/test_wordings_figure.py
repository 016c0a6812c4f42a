"""Oracle: the numbers that were put in."""

import numpy as np
import pandas as pd
import pytest

from audit.errors import NotEstimableError
from audit.report.figures.style import figure_bytes
from audit.report.figures.wordings import plot_wordings

PARTS = ("narratives", "wordings", "rest", "identities")


def wordings(deltas):
    deltas = np.asarray(deltas, dtype=float)
    return pd.DataFrame({"wording": range(len(deltas)), "delta": deltas, "ci_low": deltas - 1, "ci_high": deltas + 1})


def shares(of_delta, of_one):
    return pd.DataFrame({"part": PARTS, "share_of_delta": of_delta, "share": of_one})


CROSSED = pd.Series({"delta": 2.0, "ci_low": -1.5, "ci_high": 5.5})
SHARES = shares([0.1, 0.6, 0.05, 0.25], [0.3, 0.2, 0.5, np.nan])


def test_the_interval_for_any_wordings_stands_first_and_each_wording_below_it():
    forest, _ = plot_wordings(wordings([1.0, 3.0]), SHARES, CROSSED, confidence=0.95).axes
    names = [label.get_text() for label in forest.get_yticklabels()]
    assert names == ["wordings like these", "wording 0", "wording 1"]
    [intervals] = [c for c in forest.collections if c.get_gid() == "interval"]
    ends = [(*path.vertices[:, 0], path.vertices[0, 1]) for path in intervals.get_paths()]
    np.testing.assert_allclose(ends, [(-1.5, 5.5, 0), (0, 2, 1), (2, 4, 2)])
    filled = {c.get_gid(): c.get_offsets().tolist() for c in forest.collections if c.get_gid() in ("filled", "hollow")}
    assert filled == {"filled": [[2.0, 0.0]], "hollow": [[1.0, 1.0], [3.0, 2.0]]}


def test_the_bars_are_as_long_as_the_shares_and_an_unknown_one_has_none():
    _, bars = plot_wordings(wordings([1.0, 3.0]), SHARES, CROSSED, confidence=0.95).axes
    widths = [[patch.get_width() for patch in container] for container in bars.containers]
    np.testing.assert_allclose(widths, [SHARES["share_of_delta"], [0.3, 0.2, 0.5, 0]])
    written = [text.get_text() for text in bars.texts]
    assert [text for text in written if text.endswith("%")] == ["10%", "60%", "5%", "25%", "30%", "20%", "50%"]
    assert [label.get_text() for label in bars.get_yticklabels()] == list(PARTS)


@pytest.mark.parametrize("crossed", [None, CROSSED * np.nan, CROSSED])
def test_what_is_not_known_is_left_out(crossed):
    figure = plot_wordings(wordings([1.0, np.nan]), SHARES.iloc[:0], crossed, confidence=0.9)
    assert [text.get_text() for text in figure.axes[1].texts].count("not known") == 4
    assert figure_bytes(figure, "svg")


def test_nine_wordings_fit():
    figure = plot_wordings(wordings(np.linspace(-3, 5, 9)), SHARES, CROSSED, confidence=0.95)
    assert figure.get_figheight() < 5
    assert figure_bytes(figure, "svg") == figure_bytes(
        plot_wordings(wordings(np.linspace(-3, 5, 9)), SHARES, CROSSED, confidence=0.95), "svg"
    )


def test_no_gap_in_any_wording_is_not_drawn():
    with pytest.raises(NotEstimableError, match="no δ in any wording"):
        plot_wordings(wordings([np.nan, np.nan]), SHARES, None, confidence=0.95)
