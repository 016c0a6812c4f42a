"""Texts of a strategy's stages: how each group differs from the others, as a small forest plot for each score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.forests import draw_estimates, dress_rows, fit_estimates, name_rows
from audit.report.figures.style import (
    INK,
    LABEL,
    LEADING,
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
from audit.tables.formatting import MISSING, coverage, error_rate, points

_TITLES: Final = {
    "stereotype_words": "stereotype words per 100",
    "sentiment": "sentiment (\N{MINUS SIGN}1 to 1)",
    "emotion_named": "names an emotion, % points",
    "emotion_accuracy": "names the narrative's, of those that name one, % points",
    "n_words": "length in words",
    "refused": "refusals, % points",
}
"""The scores to draw, from the left."""
_PLOT: Final = 1.45  # width of a panel, in inches
_BETWEEN: Final = 0.16
_TICKS: Final = 0.24  # room below a panel for its numbers, in inches
_AT_MOST: Final = 24


@for_phones
def plot_texts(stage_texts: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw how the texts about each group differ from those about the other groups, by stage and score.

    Themes are not drawn, nor a score in which no group differs at all. Filled marks have p, corrected for the family,
    below 1 − `confidence`. Of more than 24 groups those with the smallest p in any score are drawn, and the figure says
    so.
    """
    if stage_texts.empty or len(stage_texts[["dimension", "variant"]].drop_duplicates()) > 1:
        raise ValueError("a figure of texts takes rows of one dimension and one variant")
    rows = stage_texts.loc[stage_texts["measure"].isin(_TITLES) & stage_texts["difference"].notna()]
    moved = rows.loc[rows["difference"] != 0, "measure"].unique()
    measures = [measure for measure in _TITLES if measure in moved]
    if not measures:
        raise NotEstimableError("no score of the texts differs between groups, or none could be compared")
    groups = _groups(rows.loc[rows["measure"].isin(measures)])
    labels = [drawable(group, width=24) for group in groups]
    stages = list(map(str, rows["stage"].unique()))
    if is_narrow():
        return _below_each_other(rows, stages, measures, groups, labels, confidence)
    blocks = [_marks(rows, stage, measure, groups, confidence) for stage in stages for measure in measures]
    rooms = [
        extent([_written(each) for block in blocks[k :: len(measures)] for each in block["estimate"]], size=TEXT)[0]
        for k in range(len(measures))
    ]
    left = PAD + extent(labels, size=TEXT)[0] + 0.08
    starts = np.cumsum([left, *(_PLOT + 0.1 + room + _BETWEEN for room in rooms)])
    width = float(starts[-1]) - _BETWEEN + PAD
    titles = [
        fill(_TITLES[measure], width=_PLOT + room, size=TEXT) for measure, room in zip(measures, rooms, strict=True)
    ]
    n_all = rows["group"].nunique()
    note = fill(_note(confidence, n_drawn=len(groups), n_all=n_all), width=width - 2 * PAD, size=SMALL)
    step = max(0.22, height_of(labels, size=TEXT) + 0.05)
    heading = LEADING * LABEL / 72 + 0.06
    block_height = heading + len(groups) * step + _TICKS
    title_height = height_of(titles, size=TEXT)
    below = PAD + height_of([note], size=SMALL) + 0.08 + title_height
    height = PAD + len(stages) * block_height + below
    with drawing():
        figure = new_figure(width, height)
        for place, marks in enumerate(blocks):
            row, column = divmod(place, len(measures))
            bottom = below + (len(stages) - 1 - row) * block_height + _TICKS
            axes = place_axes(figure, float(starts[column]), bottom, _PLOT, len(groups) * step)
            axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
            draw_estimates(axes, marks)
            fit_estimates(axes, marks)
            _thin_ticks(axes)
            dress_rows(axes, len(groups))
            name_rows(axes, labels if column == 0 else [""] * len(groups))
            for y, estimate in zip(marks["row"], marks["estimate"], strict=True):
                at = axes.get_yaxis_transform()
                axes.text(1 + 0.1 / _PLOT, y, _written(estimate), transform=at, va="center", fontsize=TEXT)
            axes.set_ylabel("")
            axes.set_xlabel(titles[column] if row == len(stages) - 1 else "", loc="left", labelpad=3)
            if column == 0:
                top = (bottom + len(groups) * step + 0.05) / height
                said = f"Stage: {drawable(stages[row], width=60, lines=1)}"
                figure.text(PAD / width, top, said, ha="left", va="bottom", fontsize=LABEL, fontweight="bold")
        figure.text(PAD / width, PAD / height, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _below_each_other(
    rows: pd.DataFrame,
    stages: Sequence[str],
    measures: Sequence[str],
    groups: list[str],
    labels: Sequence[str],
    confidence: float,
) -> Figure:
    """Draw the panels one below the other, for a phone."""
    blocks = [
        (f"{stage}: {_TITLES[measure]}", _marks(rows, stage, measure, groups, confidence))
        for stage in stages
        for measure in measures
    ]
    words = [[_written(each) for each in marks["estimate"]] for _, marks in blocks]
    room = extent([text for own in words for text in own], size=TEXT)[0]
    left = PAD + extent(labels, size=TEXT)[0] + 0.08
    plot = max(NARROW - left - room - 0.1 - PAD, 0.8)
    width = left + plot + 0.1 + room + PAD
    heads = [fill(drawable(head, width=100, lines=2), width=width - 2 * PAD, size=TEXT) for head, _ in blocks]
    note = fill(
        _note(confidence, n_drawn=len(groups), n_all=rows["group"].nunique()), width=width - 2 * PAD, size=SMALL
    )
    step = max(0.22, height_of(labels, size=TEXT) + 0.05)
    block = height_of(heads, size=TEXT) + 0.08 + len(groups) * step + _TICKS
    below = PAD + height_of([note], size=SMALL) + 0.08
    height = PAD + len(blocks) * block + below
    with drawing():
        figure = new_figure(width, height)
        for place, ((_, marks), head, own) in enumerate(zip(blocks, heads, words, strict=True)):
            bottom = below + (len(blocks) - 1 - place) * block + _TICKS
            axes = place_axes(figure, left, bottom, plot, len(groups) * step)
            axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
            draw_estimates(axes, marks)
            fit_estimates(axes, marks)
            _thin_ticks(axes)
            dress_rows(axes, len(groups))
            name_rows(axes, labels)
            for y, text in zip(marks["row"], own, strict=True):
                axes.text(1 + 0.1 / plot, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=TEXT)
            axes.set_ylabel("")
            axes.set_xlabel("")
            figure.text(
                PAD / width, (bottom + len(groups) * step + 0.05) / height, head, ha="left", va="bottom",
                fontsize=TEXT, fontweight="bold",
            )  # fmt: skip
        figure.text(PAD / width, PAD / height, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _groups(rows: pd.DataFrame) -> list[str]:
    """Return the groups to draw, in the table's order; of too many, those with the smallest p."""
    smallest = rows.groupby("group", observed=True, sort=False)["p"].min()
    chosen = set(smallest.sort_values(kind="stable", na_position="last").index[:_AT_MOST])
    return [str(group) for group in smallest.index if group in chosen]


def _marks(rows: pd.DataFrame, stage: str, measure: str, groups: list[str], confidence: float) -> pd.DataFrame:
    own = rows.loc[(rows["stage"] == stage) & (rows["measure"] == measure)].set_index("group").reindex(groups)
    return pd.DataFrame(
        {
            "row": np.arange(len(groups), dtype=float),
            "estimate": own["difference"].to_numpy(dtype=float),
            "low": own["ci_low"].to_numpy(dtype=float),
            "high": own["ci_high"].to_numpy(dtype=float),
            "filled": own["p_adjusted"].to_numpy(dtype=float) < 1 - confidence,
        }
    )


def _thin_ticks(axes: Any) -> None:
    # A narrow panel fits three ticks; 0 stays one of them.
    ticks, labels = list(axes.get_xticks()), [label.get_text() for label in axes.get_xticklabels()]
    every = max(1, -(-len(ticks) // 3))
    zero = next((place for place, tick in enumerate(ticks) if tick == 0), 0)
    kept = [place for place in range(len(ticks)) if (place - zero) % every == 0]
    axes.set_xticks([ticks[place] for place in kept], [labels[place] for place in kept])


def _note(confidence: float, *, n_drawn: int, n_all: int) -> str:
    level = error_rate(confidence)
    some = f" The {n_drawn} of {n_all} groups with the smallest p." if n_drawn < n_all else ""
    return (
        f"Texts about the group minus those about the other groups, with {coverage(confidence)} intervals, not "
        f"corrected. \N{BLACK CIRCLE} p < {level} after correction (Holm)   \N{WHITE CIRCLE} not so, or without p. "
        f"No line: no interval.{some}"
    )


def _written(value: float) -> str:
    return points(value) if np.isfinite(value) else MISSING
