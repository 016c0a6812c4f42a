"""δ in each wording of the prompt, and the sources of its variance."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import draw_estimates, dress_rows, fit_estimates, name_rows
from audit.report.figures.style import (
    BLUE,
    INK,
    MUTED,
    NARROW,
    PAD,
    PALE_BLUE,
    SMALL,
    TEXT,
    drawing,
    extent,
    fill,
    for_phones,
    height_of,
    is_narrow,
    new_figure,
    place_axes,
)
from audit.tables.formatting import coverage, fixed

_FOREST, _BARS, _BETWEEN, _STEP = 2.1, 1.35, 0.3, 0.24
_ANY: Final = "any such wordings"
_PARTS: Final = ("narratives", "wordings", "rest", "identities")


@for_phones
def plot_wordings(
    wordings: pd.DataFrame, shares: pd.DataFrame, crossed: pd.Series | None, *, confidence: float
) -> Figure:
    """Draw δ in each wording, δ over all of them (``crossed``, a row of the controls), and the shares of variance."""
    if not np.isfinite(wordings["delta"].to_numpy(dtype=float)).any():
        raise NotEstimableError("there is no δ in any wording")
    rows = _rows(wordings, crossed)
    names = rows["name"].tolist()
    known = shares.set_index("part").reindex(list(_PARTS))
    left = PAD + extent(names, size=TEXT)[0] + 0.08
    parts_left = extent(_PARTS, size=TEXT)[0] + 0.08
    share = extent(["100%"], size=SMALL)[0] + 0.1 + PAD
    bars_high = 2 * len(_PARTS) * 0.17
    stacked = is_narrow()
    forest_wide = NARROW - left - PAD if stacked else _FOREST
    bars_wide = NARROW - PAD - parts_left - share if stacked else _BARS
    width = NARROW if stacked else left + _FOREST + _BETWEEN + parts_left + _BARS + share
    height = len(rows) * _STEP if stacked else max(len(rows) * _STEP, bars_high)
    axis = fill(f"δ in points, and its {coverage(confidence)} interval", width=forest_wide + 0.3, size=TEXT)
    note = fill(
        "\N{BLACK CIRCLE} δ over all wordings, with the interval for any such narratives and wordings   "
        "\N{WHITE CIRCLE} δ in one wording (0 is the original), for any such narratives.   Dark bars: of the variance "
        "of δ over all that was asked. Pale bars: of the variance of one narrative's gap in one wording.",
        width=width - 2 * PAD,
        size=SMALL,
    )
    below = PAD + height_of([note], size=SMALL) + 0.06 + height_of([axis], size=TEXT) + 0.22
    # The bars are beside the forest or, on a phone, below it.
    under = bars_high + 0.34 if stacked else 0.0
    axis_room = height_of([axis], size=TEXT) + 0.22
    with drawing():
        figure = new_figure(width, 0.28 + height + below + under)
        forest = place_axes(figure, left, below + under, forest_wide, height)
        forest.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
        draw_estimates(forest, rows)
        fit_estimates(forest, rows)
        dress_rows(forest, len(rows))
        name_rows(forest, names)
        forest.set_xlabel(axis, loc="left", labelpad=3)
        forest.set_ylabel("")
        bars = (
            place_axes(figure, PAD + parts_left, below - axis_room + 0.06, bars_wide, bars_high)
            if stacked
            else place_axes(figure, left + _FOREST + _BETWEEN + parts_left, below, _BARS, height)
        )
        _draw_shares(bars, known)
        whole = figure.get_figheight()
        figure.text(PAD / width, PAD / whole, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _rows(wordings: pd.DataFrame, crossed: pd.Series | None) -> pd.DataFrame:
    """Return the rows of the forest: δ over all wordings first, then each of them."""
    own = pd.DataFrame(
        {
            "name": [f"wording {int(wording)}" for wording in wordings["wording"]],
            "estimate": wordings["delta"].to_numpy(dtype=float),
            "low": wordings["ci_low"].to_numpy(dtype=float),
            "high": wordings["ci_high"].to_numpy(dtype=float),
            "filled": False,
        }
    )
    if crossed is not None:
        over_all = {
            "name": _ANY,
            "estimate": float(crossed["delta"]),
            "low": float(crossed["ci_low"]),
            "high": float(crossed["ci_high"]),
            "filled": True,
        }
        own = pd.concat([pd.DataFrame([over_all]), own], ignore_index=True)
    return own.assign(row=np.arange(len(own), dtype=float))


def _draw_shares(axes: Axes, shares: pd.DataFrame) -> None:
    """Draw two bars for each part: its share of the variance of δ, and of one narrative's gap in one wording."""
    places = np.arange(len(shares), dtype=float)
    for column, offset, colour in (("share_of_delta", -0.2, BLUE), ("share", 0.2, PALE_BLUE)):
        values = shares[column].to_numpy(dtype=float)
        axes.barh(places + offset, np.nan_to_num(values), height=0.36, color=colour, zorder=2, gid=column)
        for place, value in zip(places, values, strict=True):
            if np.isfinite(value):
                axes.text(value + 0.03, place + offset, f"{fixed(100 * value, decimals=0)}%", va="center",
                          fontsize=SMALL, color=INK)  # fmt: skip
    for place in places[~np.isfinite(shares[["share", "share_of_delta"]].to_numpy(dtype=float)).any(axis=1)]:
        axes.text(0.03, place, "not known", va="center", fontsize=SMALL, color=MUTED)
    axes.text(0.0, 1.0, "shares of variance", transform=axes.transAxes, ha="left", va="bottom", fontsize=TEXT)
    axes.set_yticks(places, list(shares.index))
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    sns.despine(ax=axes, bottom=True)
