"""Perceivers in the plane by t-SNE, one panel a run: the study shows this picture, and no claim follows from it."""

from __future__ import annotations

from typing import Final

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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

MOST: Final = 60  # most panels that fit a figure
_COLUMNS: Final = 4
_SIDE: Final = 2.6
_GAP: Final = 0.16
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "p", "<", ">")
"""Groups differ in shape as well as colour, so that a grey print can be read."""
_FEW: Final = 10  # Most groups that colours and shapes can tell apart. With more, only names do.


@for_phones
def plot_perceiver_map(places: pd.DataFrame, *, n_columns: int | None = None) -> Figure:
    """Draw each run's perceivers where t-SNE placed them, coloured by cultural cluster, or by group if there is none.

    Up to 60 runs have a panel each. Axes have no unit and no ticks. A note gives seed and perplexity, and says that
    nothing follows from the picture.

    References
    ----------
    van der Maaten and Hinton (2008), Visualizing data using t-SNE, Journal of Machine Learning Research 9.
    """
    runs = [str(run) for run in places["run"].unique()]
    if places["dimension"].nunique() != 1 or not 1 <= len(runs) <= MOST:
        raise ValueError(f"a map of perceivers is of one dimension and of 1 to {MOST} runs, and there are {len(runs)}")
    kinds = places["cluster"].where(places["cluster"] != "", places["perceiver_group"]).astype(str)
    places = places.assign(kind=kinds)
    names = list(dict.fromkeys(kinds))
    colours = dict(zip(names, sns.color_palette("colorblind", min(len(names), _FEW)), strict=False))
    markers = dict(zip(names, _MARKERS, strict=False))
    told = len(names) <= _FEW
    common = _common_start(list(dict.fromkeys(places["perceiver"].astype(str))))
    columns = 1 if is_narrow() else n_columns or min(_COLUMNS, len(runs))
    side = NARROW - 2 * PAD if is_narrow() else _SIDE
    total = 2 * PAD + columns * side + (columns - 1) * _GAP
    note = fill(_note(places, len(runs)), width=total - 2 * PAD, size=SMALL)
    titles = [drawable(run, width=int(side * 72 / (0.6 * TEXT)), lines=2) for run in runs]
    title_room = height_of(titles, size=TEXT) + 0.05
    legend = [drawable(name, width=28, lines=1) for name in names] if told else []
    across = max(int((total - 2 * PAD) / (extent(legend, size=SMALL)[0] + 0.35)), 1) if legend else 1
    legend_room = -(-len(legend) // across) * 0.17 + 0.05 if legend else 0.0
    note_room = height_of([note], size=SMALL)
    below = PAD + note_room + 0.04 + legend_room + 0.06
    lines = -(-len(runs) // columns)
    step = side + title_room + 0.08
    with drawing():
        figure = new_figure(total, PAD + lines * step + below)
        for number, (run, title) in enumerate(zip(runs, titles, strict=True)):
            line, column = divmod(number, columns)
            bottom = below + (lines - 1 - line) * step
            axes = place_axes(figure, PAD + column * (side + _GAP), bottom, side, side)
            own = places.loc[places["run"] == run]
            for kind, rows in own.groupby("kind", sort=False):
                axes.scatter(
                    rows["x"], rows["y"], s=22, linewidth=0, gid="perceiver",
                    color=colours[str(kind)] if told else MUTED, marker=markers[str(kind)] if told else "o",
                )  # fmt: skip
            for x, y, name in zip(own["x"], own["y"], own["perceiver"].astype(str), strict=True):
                axes.annotate(
                    drawable(name.removeprefix(common), width=22, lines=1), (x, y), xytext=(0, 4),
                    textcoords="offset points", ha="center", fontsize=SMALL, color=INK, gid="name",
                )  # fmt: skip
            axes.margins(0.16)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(title, fontsize=TEXT, loc="left", pad=3, fontweight="bold")
        if legend:
            handles = [
                Line2D([], [], linestyle="", marker=markers[name], color=colours[name], markersize=5, label=label)
                for name, label in zip(names, legend, strict=True)
            ]
            height = figure.get_figheight()
            figure.legend(
                handles=handles, loc="lower left", bbox_to_anchor=(0, (PAD + note_room + 0.02) / height), ncols=across,
                fontsize=SMALL, frameon=False, handletextpad=0.3, columnspacing=1.0, labelspacing=0.3, borderpad=0.2,
            )  # fmt: skip
        figure.text(PAD / total, PAD / figure.get_figheight(), note, va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _note(places: pd.DataFrame, n_runs: int) -> str:
    perplexity, seed = (", ".join(f"{value:g}" for value in places[name].unique()) for name in ("perplexity", "seed"))
    runs = "Each panel is placed by itself. " if n_runs > 1 else ""
    return (
        f"t-SNE of the perceivers' rows of the published heatmap (scikit-learn, exact, from principal components); "
        f"perplexity {perplexity}, seed {seed}; the study's own perplexity is not known to us. {runs}Axes have no "
        "unit. A picture: distances between and sizes of clumps mean nothing, and nothing is tested."
    )


def _common_start(names: list[str]) -> str:
    """Return the words that all names begin with, such as "a person from ", except a name's last word."""
    shared = 0
    for words in zip(*(name.split(" ")[:-1] for name in names), strict=False):
        if len(set(words)) > 1:
            break
        shared += len(words[0]) + 1
    return names[0][:shared] if len(names) > 1 else ""
