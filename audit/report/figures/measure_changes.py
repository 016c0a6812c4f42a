"""Changes between two runs of replies: of each measure's gap, and of the measure itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import draw_estimates, dress_rows, estimate_marks, fit_estimates, name_rows
from audit.report.figures.style import (
    INK,
    MUTED,
    NARROW,
    PAD,
    SMALL,
    TEXT,
    drawable,
    drawing,
    extent,
    fill,
    for_phones,
    height_of,
    is_narrow,
    new_figure,
    place_axes,
)
from audit.tables.formatting import coverage, error_rate, points

_PANEL: Final = 2.1  # width of a panel, in inches
_BETWEEN: Final = 0.16


@for_phones
def plot_measure_changes(rows: pd.DataFrame, titles: Mapping[str, str], *, confidence: float) -> Figure:
    """Draw the change of each measure's δ, and the change of its mean over all pairs, in standard deviations.

    A measure without a standard deviation among the reference's replies, such as one of whole corpora, is not drawn.
    Filled marks in the left panel have a corrected p below 1 − `confidence`; the right panel has no test, so its marks
    are hollow.
    """
    if len(rows[["dimension", "run"]].drop_duplicates()) > 1:
        raise ValueError("a figure of changes takes rows of one dimension and one run")
    known = np.isfinite(rows[["change_sd", "mean_sd"]].to_numpy(dtype=float)).any(axis=1)
    if not known.any():
        raise NotEstimableError("no measure has a change that can be set beside others")
    rows = rows.loc[known]
    stacked = is_narrow()
    labels = [
        drawable(titles.get(str(name), str(name)), width=18 if stacked else 26, lines=2) for name in rows["outcome"]
    ]
    tested = rows["p_adjusted"].to_numpy(dtype=float) < 1 - confidence
    panels = (
        estimate_marks(rows, "change_sd", "sd_ci_low", "sd_ci_high").assign(filled=tested),
        estimate_marks(rows, "mean_sd", "mean_sd_low", "mean_sd_high").assign(filled=False),
    )
    columns = [[_written(value) for value in marks["estimate"]] for marks in panels]
    rooms = [extent(column, size=TEXT)[0] + 0.1 for column in columns]
    level = coverage(confidence)
    left = PAD + extent(labels, size=TEXT)[0] + 0.08
    panel = max(NARROW - left - max(rooms) - PAD, 0.8) if stacked else _PANEL
    titles_below = [
        fill(title, width=panel + room, size=TEXT)
        for title, room in zip(
            (
                f"change of δ and its {level} interval, in SD of the reference's replies",
                f"change of the mean over all pairs and its {level} interval, in the same",
            ),
            rooms,
            strict=True,
        )
    ]
    width = left + panel + max(rooms) + PAD if stacked else left + 2 * panel + sum(rooms) + _BETWEEN + PAD
    said = (
        f"\N{BLACK CIRCLE} change of δ with p < {error_rate(confidence)} after correction (Holm, over measures and "
        "runs)   \N{WHITE CIRCLE} not so, or without p. Intervals are not corrected. A smaller |δ| is no proof of "
        "less bias."
    )
    note = fill(said, width=width - 2 * PAD, size=SMALL)
    step = max(0.26, height_of(labels, size=TEXT) + 0.05)
    below = height_of(titles_below, size=TEXT) + 0.19
    bottom = PAD + height_of([note], size=SMALL) + 0.06 + below
    # Panels are side by side or, on a phone, one above the other.
    block = len(rows) * step + below + 0.08 if stacked else 0.0
    with drawing():
        figure = new_figure(width, PAD + 0.04 + len(rows) * step + bottom + block)
        for number, (marks, column, title, room) in enumerate(zip(panels, columns, titles_below, rooms, strict=True)):
            axes = place_axes(figure, left, bottom + (block if not number else 0.0), panel, len(rows) * step)
            left += 0.0 if stacked else panel + room + _BETWEEN
            axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
            draw_estimates(axes, marks)
            fit_estimates(axes, marks)
            axes.set_yticks([])
            dress_rows(axes, len(rows))
            for row, text in enumerate(column):
                axes.text(1.04, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=TEXT)
            axes.set_xlabel(title, loc="left", labelpad=3)
            axes.set_ylabel("")
            if stacked or not number:
                name_rows(axes, labels)
        height = figure.get_figheight()
        figure.text(PAD / width, PAD / height, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _written(value: float) -> str:
    return points(value) if np.isfinite(value) else "not estimable"
