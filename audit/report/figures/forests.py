"""Forest plots: gaps with their intervals, one below the other, each with its numbers beside it.

One routine draws the headline by dimension, the members of a family, and the differences between variants.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.errors import NotEstimableError
from audit.report.figures.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    NARROW,
    ORANGE,
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
    is_whole,
    new_figure,
    place_axes,
    write_ticks,
)
from audit.tables.disparity import deciding_view
from audit.tables.formatting import MISSING, beside, coverage, dimension_title, error_rate, interval, points

_PLOT: Final = 2.7  # width of the plot between the texts, in inches
_NARROW: Final = 4.5  # in figures narrower than this, in inches, letters are small and intervals below estimates
_SHARES: Final = ((0.36, 2), (0.36, 4), (0.27, 4), (0.27, 6))
"""Share of the figure's width for the plot, and most lines of a name, tried in turn."""
_FEWEST_LETTERS: Final = 10
_LETTERS: Final = (26, 36)  # most letters in a line of a name, the first with which no name is cut
_AT_MOST: Final = 60
_STACKED: Final = ((0.4, 0.3, 0.3), (0.56, 0.4, 0.17))
"""Layouts with texts above marks: row height in inches, then height of name and of numbers above the mark in rows. The
first has both on one line, the second on two.
"""
_TICK: Final = 0.14  # room beside the axis for half of the number at its end, in inches
_LETTER: Final = 0.62 * TEXT / 72  # width of a letter, in inches
_ORDERED: Final = frozenset({"valence", "degree", "uplift"})
"""Families whose members have an order of their own. Other families are sorted by gap."""


@for_phones
def plot_gaps(
    rows: pd.DataFrame, *, confidence: float = 0.95, margin: float | None = None, width: float | None = None
) -> Figure:
    """Draw the δ of each row of :func:`rows_to_draw` with its interval, in scale points, with a line at 0.

    Filled marks are gaps that are found. A gap that could not be estimated keeps its row, which says so. ``margin``,
    in points, is drawn as a band around 0; ``width`` is that of the whole figure, in inches.
    """
    if rows.empty:
        raise ValueError("there is no gap to draw")
    several = rows["variant"].nunique() > 1
    names = [
        dimension_title(str(name)) + (f", {variant}" if several else "")
        for name, variant in zip(rows["dimension"], rows["variant"], strict=True)
    ]
    return _forest(
        _Forest(
            rows=_rows(names, rows, estimate="delta").assign(filled=(rows["code"] == "gap").to_numpy()),
            axis=f"δ in scale points (in-group minus out-group) and its {coverage(confidence)} interval",
            notes=("\N{BLACK CIRCLE} a gap is found   \N{WHITE CIRCLE} none is found, or there is no verdict.",),
            margin=margin,
        ),
        width=width,
    )


@for_phones
def plot_family(families: pd.DataFrame, *, family: str, confidence: float, width: float | None = None) -> Figure:
    """Draw the members of one family of contrasts: δ by emotion, by group, by cluster and so on.

    Filled marks have p, corrected for the family, below 1 − `confidence`. Members are sorted by contrast, the largest
    first, except in families with an order of their own (valence, degree, uplift). Of more than 60 members the 60
    furthest from 0 are drawn, and the figure says so.
    """
    members = families.loc[families["family"] == family]
    if members.empty:
        raise ValueError(f"the table of families has no family {family!r} to draw")
    for name in ("dimension", "variant"):
        if members[name].nunique() > 1:
            found = ", ".join(sorted(map(str, members[name].unique())))
            raise ValueError(f"a family of one {name} is drawn at a time, and there are several: {found}")
    if not np.isfinite(members["delta"]).any():
        raise NotEstimableError(f"no member of the family {family!r} could be estimated: {_note_of(members)}")
    n_all = len(members)
    chosen = members.loc[members["delta"].abs().sort_values(ascending=False, kind="stable").index[:_AT_MOST]]
    chosen = chosen.sort_index() if family in _ORDERED else chosen.sort_values("delta", ascending=False)
    partners = chosen["partner"].fillna("").astype(str)
    names = [
        f"{member} {MISSING} {partner}" if partner else str(member)
        for member, partner in zip(chosen["member"], partners, strict=True)
    ]
    notes = _significance_notes(chosen, confidence=confidence, method=str(chosen["method"].iloc[0]))
    if n_all > _AT_MOST:
        notes = (*notes, f"The {_AT_MOST} of {n_all} that are furthest from 0.")
    return _forest(
        _Forest(
            rows=_rows(names, chosen, estimate="delta", alpha=1 - confidence),
            axis=f"gap in scale points and its {coverage(confidence)} interval, not corrected",
            notes=notes,
        ),
        width=width,
    )


@for_phones
def plot_comparisons(comparisons: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw paired differences of δ in one unit; filled marks have a corrected p below 1 − `confidence`."""
    if comparisons.empty:
        raise ValueError("there are no comparisons to draw: a comparison needs two variants of one dimension")
    units = sorted(map(str, comparisons["unit"].unique()))
    if len(units) > 1:
        raise ValueError(f"comparisons in one unit are drawn at a time, and there are several: {', '.join(units)}")
    if not np.isfinite(comparisons["delta_change"]).any():
        raise NotEstimableError(f"no difference between variants could be estimated: {_note_of(comparisons)}")
    several = comparisons["dimension"].nunique() > 1
    names = [
        (f"{dimension_title(str(dimension))}: " if several else "") + f"{first} minus {second}"
        for dimension, first, second in zip(
            comparisons["dimension"], comparisons["first"], comparisons["second"], strict=True
        )
    ]
    unit = "scale points" if units[0] == "points" else units[0]
    return _forest(
        _Forest(
            rows=_rows(names, comparisons, estimate="delta_change", alpha=1 - confidence),
            axis=f"difference of two δ, in {unit}, and its {coverage(confidence)} interval, not corrected",
            notes=_significance_notes(
                comparisons, confidence=confidence, method=str(comparisons["method"].dropna().iloc[0])
            ),
        )
    )


@for_phones
def plot_runs(runs: pd.DataFrame, *, axis: str, margin: float | None = None) -> Figure:
    """Draw gaps of several runs on one axis: columns of, name, estimate, low, high, filled (found) and response.

    Rows stand under the heading ``of``, a dimension or a group; an empty one has no heading. Around 0 a band shows a
    tenth of how much higher that run rates a story's own emotion than a wrong one, where ``response`` is known;
    ``axis`` names what is drawn, and ``margin`` is a band, too.
    """
    if not np.isfinite(runs["estimate"].to_numpy(dtype=float)).any():
        raise NotEstimableError("no run has an estimate to draw")
    notes = ["\N{BLACK CIRCLE} found in that run   \N{WHITE CIRCLE} not found, or no verdict."]
    if runs["response"].notna().any():
        notes.append("Band: a tenth of how much higher the run rates a story's own emotion than a wrong one.")
    parts = []
    for of, rows in runs.assign(band=runs["response"] / 10).groupby("of", sort=False, observed=True):
        if of:
            parts.append(pd.DataFrame({"name": [of], "filled": False, "heading": True}))
        parts.append(rows.assign(heading=False))
    return _forest(_Forest(rows=pd.concat(parts, ignore_index=True), axis=axis, notes=tuple(notes), margin=margin))


def rows_to_draw(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the estimates behind the verdicts; for a run of an earlier version the headlines, without a verdict."""
    decided = tables.get("verdicts", pd.DataFrame())
    if not decided.empty:
        return decided
    gaps = tables["gap"]
    return gaps.loc[gaps["headline"].astype(bool) & (gaps["scope"] == "narratives")].assign(code="")


@for_phones
def plot_measures(
    gaps: pd.DataFrame, titles: Mapping[str, str], *, confidence: float, width: float | None = None
) -> Figure:
    """Draw δ of each measure of replies on one axis, in its SDs among replies; filled marks are gaps that are found."""
    if len(gaps[["dimension", "variant"]].drop_duplicates()) > 1:
        raise ValueError("a figure of measures takes rows of one dimension and one variant")
    rows = gaps.loc[gaps["delta_sd"].notna()]
    if not np.isfinite(rows["delta_sd"].to_numpy(dtype=float)).any():
        raise NotEstimableError("no measure has a δ that can be set beside others")
    found = rows["code"] == "gap"
    in_sd = rows.assign(ci_low=rows["sd_ci_low"], ci_high=rows["sd_ci_high"])
    drawn = _rows([titles.get(str(name), str(name)) for name in rows["outcome"]], in_sd, estimate="delta_sd")
    return _forest(
        _Forest(
            rows=drawn.assign(filled=found.to_numpy()),
            axis=f"δ (in-group minus out-group) and its {coverage(confidence)} interval, not corrected, in standard "
            "deviations of the measure among replies",
            notes=(
                "\N{BLACK CIRCLE} a gap is found, after correction (Holm, over the measures)   "
                "\N{WHITE CIRCLE} none is found, or there is no verdict.",
            ),
        ),
        width=width,
    )


@for_phones
def plot_disparity(
    disparity: pd.DataFrame,
    *,
    confidence: float,
    margin: float | None = None,
    unit: str = "scale points",
    width: float | None = None,
) -> Figure:
    """Draw how far each group lies below or above the others, the lowest first, and invented groups beneath.

    Rows are of one outcome and variant, and of one dimension besides those of invented groups; those that decide are
    drawn. Filled marks are lower or higher than
    the others: shown, after correction, and with nothing against it. ``margin`` is drawn as a band around 0. Of more
    than 60 groups the 60 furthest from 0 are drawn, and the figure says so.
    """
    rated = disparity.loc[(disparity["side"] == "experiencer") & (disparity["level"] == "group")]
    decided = rated.loc[rated["headline"].astype(bool)]
    view = deciding_view({*decided["view"]})
    decided = decided.loc[decided["view"] == view]
    if not np.isfinite(decided["disparity"].to_numpy(dtype=float)).any():
        raise NotEstimableError("no group could be compared with the others")
    kept = decided.loc[decided["disparity"].abs().sort_values(ascending=False, kind="stable").index[:_AT_MOST]]
    invented = rated.loc[rated["invented"].astype(bool) & (rated["view"] == view) & (rated["scope"] == "narratives")]
    drawn = pd.concat([each.sort_values("disparity", kind="stable") for each in (kept, invented)], ignore_index=True)
    notes = ["\N{BLACK CIRCLE} lower or higher than the others, after correction (Holm)   \N{WHITE CIRCLE} not shown."]
    if len(invented):
        notes.append("\N{WHITE DIAMOND} invented groups, of which no model can know anything.")
    if len(kept) < len(decided):
        notes.append(f"The {_AT_MOST} of {len(decided)} groups that are furthest from 0.")
    return _forest(
        _Forest(
            rows=_rows(drawn["group"].astype(str).tolist(), drawn, estimate="disparity").assign(
                filled=drawn["code"].isin(["lower", "higher"]), apart=drawn["invented"].astype(bool)
            ),
            axis=f"D in {unit} (the group minus the others) and its {coverage(confidence)} interval, not corrected",
            notes=tuple(notes),
            margin=margin,
        ),
        width=width,
    )


@dataclass(frozen=True)
class _Forest:
    """What a forest plot shows. ``rows`` has columns name, estimate, low, high and filled, from the top.

    Rows with a true ``apart``, if there is that column, stand beneath the others: they are not compared with them.
    ``band``, if there is that column, is how far a band reaches from 0 on either side; NaN for none. Rows with a true
    ``heading`` name what follows, and have no estimate.
    """

    rows: pd.DataFrame
    axis: str
    notes: tuple[str, ...] = ()
    margin: float | None = None


def _rows(names: Sequence[str], table: pd.DataFrame, *, estimate: str, alpha: float | None = None) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": list(names),
            "estimate": table[estimate].to_numpy(dtype=float),
            "low": table["ci_low"].to_numpy(dtype=float),
            "high": table["ci_high"].to_numpy(dtype=float),
            "filled": True if alpha is None else table["p_adjusted"].to_numpy(dtype=float) < alpha,
        }
    )


def _significance_notes(table: pd.DataFrame, *, confidence: float, method: str) -> tuple[str, ...]:
    level = error_rate(confidence)
    if not np.isfinite(table["p_adjusted"].to_numpy(dtype=float)).any():
        return (f"\N{WHITE CIRCLE} no p value, and so no correction ({method}).",)
    return (f"\N{BLACK CIRCLE} p < {level} after correction ({method})   \N{WHITE CIRCLE} not so, or without a p.",)


def _note_of(table: pd.DataFrame) -> str:
    notes = [str(note) for note in table["note"].dropna() if str(note)]
    return notes[0] if notes else "the table does not say why"


@dataclass(frozen=True)
class _ForestLayout:
    """The texts beside the marks, and the widths of texts and plot, in inches."""

    names: list[str]
    words: list[str]
    left: float
    plot: float
    right: float
    size: float
    above: tuple[float, float] | None = None
    """Height of names and numbers above their marks, in rows; None if they are beside the marks."""
    step: float | None = None  # height of a row, in inches; None if it follows from the texts

    @property
    def width(self) -> float:
        return self.left + self.plot + self.right


def _lay_out(rows: pd.DataFrame, width: float | None, *, once: bool) -> _ForestLayout:
    """Give texts their room and the plot the rest; if the width is given, names wrap until the plot has its share."""
    narrow = width is not None and width < _NARROW
    words = [
        "" if heading else _written(*each, once=once, stacked=narrow)
        for heading, *each in zip(rows["heading"], rows["estimate"], rows["low"], rows["high"], strict=True)
    ]
    if width is None and is_narrow():
        plot = NARROW - 2 * (PAD + _TICK)
        beside = plot - extent(words, size=TEXT)[0] - 0.1
        on_two = any(len(str(name)) > int(beside / _LETTER) for name in rows["name"])
        step, *above = _STACKED[on_two]
        names = [_on_one_line(str(name), plot if on_two else beside) for name in rows["name"]]
        return _ForestLayout(names, words, PAD + _TICK, plot, PAD + _TICK, TEXT, above=(above[0], above[1]), step=step)
    if width is None:
        lines = 2 if len(rows) > 8 else 3
        for letters in _LETTERS:
            names = [drawable(name, width=letters, lines=lines) for name in rows["name"]]
            if all(map(is_whole, names, rows["name"])):
                break
        return _ForestLayout(names, words, _room(names, TEXT), _PLOT, 0.12 + extent(words, size=TEXT)[0] + PAD, TEXT)
    size = SMALL if narrow else TEXT
    right = 0.12 + extent(words, size=size)[0] + PAD
    for share, lines in _SHARES:
        for letters in range(30, _FEWEST_LETTERS - 1, -1):
            names = [drawable(name, width=letters, lines=lines) for name in rows["name"]]
            left = _room(names, size)
            fits = width - left - right >= share * width
            if fits and all(map(is_whole, names, rows["name"])):
                return _ForestLayout(names, words, left, width - left - right, right, size)
    return _ForestLayout(names, words, left, width - left - right, right, size)


def _on_one_line(name: str, room: float) -> str:
    """Make a name safe to draw on one line of that many inches, cut if it is longer."""
    whole = drawable(name, width=len(name) + 1, lines=1)
    return whole if extent([whole], size=TEXT)[0] <= room else drawable(name, width=int(room / _LETTER), lines=1)


def _room(names: Sequence[str], size: float) -> float:
    return PAD + extent(names, size=size)[0] + 0.08


def _forest(forest: _Forest, *, width: float | None = None) -> Figure:
    headings = forest.rows.get("heading", pd.Series(False, index=forest.rows.index)).astype(bool)
    rows = forest.rows.assign(row=np.arange(len(forest.rows), dtype=float), heading=headings)
    without = rows["estimate"].notna() & rows[["low", "high"]].isna().any(axis="columns")
    laid = _lay_out(rows, width, once=without.sum() < 2)
    lines = [*laid.names, *laid.words]
    step = laid.step or max(0.19 if len(rows) > 12 else 0.26, height_of(lines, size=laid.size) + 0.05)
    axis = fill(forest.axis, width=laid.plot if laid.above else laid.plot + laid.right, size=laid.size)
    notes = forest.notes if without.sum() < 2 else (*forest.notes, "No line: no interval.")
    if forest.margin is not None and width is not None:  # in a narrow plot there is no room above the band
        notes = (*notes, f"Shaded: the margin of {points(forest.margin, signed=False)} points either way.")
    if width is not None:  # a mark stays beside its first word
        notes = tuple(re.sub(r"([○●]) ", "\\1\N{NO-BREAK SPACE}", line) for line in notes)
    note = "\n".join(fill(line, width=laid.width - 2 * PAD, size=SMALL) for line in notes)
    note_height = height_of([note], size=SMALL) + 0.06 if note else 0.0
    below = PAD + note_height + height_of([axis], size=laid.size) + 0.19
    above = PAD + (0.18 if forest.margin is not None and width is None else 0.04)
    with drawing():
        figure = new_figure(laid.width, above + len(rows) * step + below)
        axes = place_axes(figure, laid.left, below, laid.plot, len(rows) * step)
        axes.axvline(0.0, color=INK, linewidth=0.9, zorder=1, gid="zero")
        if forest.margin is not None:
            _draw_margin(axes, forest.margin, named=width is None)
        apart = rows.get("apart", pd.Series(False, index=rows.index))
        draw_estimates(axes, rows.loc[~apart])
        if apart.any():
            axes.axhline((~apart).sum() - 0.5, color=MUTED, linewidth=0.7, linestyle=(0, (4, 3)), gid="apart")
            draw_estimates(axes, rows.loc[apart], color=ORANGE, marker="D")
        fit_estimates(axes, rows, least=forest.margin or 0.0, most=6 if width is None else _ticks(laid.plot))
        if "band" in rows:
            axes.autoscale(False)
            bands = rows.loc[rows["band"].notna()]
            axes.barh(
                bands["row"], 2 * bands["band"], left=-bands["band"], height=0.8, color=FAINT, zorder=0, gid="response"
            )
        dress_rows(axes, len(rows))
        name_rows(axes, [""] * len(rows) if laid.above else laid.names)
        axes.tick_params(axis="y", labelsize=laid.size)
        for label in np.array(axes.get_yticklabels())[headings]:
            label.set_fontweight("bold")
        look: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": laid.size}
        over: dict[str, Any] = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5}, "zorder": 2}
        for row, name, text, heading in zip(rows["row"], laid.names, laid.words, headings, strict=True):
            if laid.above:
                place, weight = (row, "bold") if heading else (row - laid.above[0], "normal")
                axes.text(0, place, name, fontweight=weight, **look, **over)
                axes.text(1, row - laid.above[1], text, ha="right", **look, **over)
            else:
                axes.text(1 + 0.12 / laid.plot, row, text, **look)
        axes.set_xlabel(axis, loc="left", labelpad=3, fontsize=laid.size)
        axes.set_ylabel("")
        if note:
            height = figure.get_figheight()
            figure.text(PAD / laid.width, PAD / height, note, ha="left", va="bottom", fontsize=SMALL, color=MUTED)
    return figure


def _ticks(plot: float) -> int:
    """Return how many spaces between ticks fit a plot of that many inches."""
    return max(int(plot / 0.6), 1)


def _written(estimate: float, low: float, high: float, *, once: bool, stacked: bool = False) -> str:
    """Format an estimate and its interval. With ``once``, a missing interval is mentioned."""
    if not np.isfinite(estimate):
        return "not estimable"
    between = "\n" if stacked else "  "
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"{points(estimate)},{between[0]}no interval" if once else points(estimate)
    return f"{beside(low, high)(estimate)}{between}[{interval(low, high)}]"


def estimate_marks(rows: pd.DataFrame, estimate: str, low: str, high: str) -> pd.DataFrame:
    """Return what :func:`draw_estimates` draws of these columns, except ``filled``."""
    columns = {"estimate": estimate, "low": low, "high": high}
    taken = {name: rows[column].to_numpy(dtype=float) for name, column in columns.items()}
    return pd.DataFrame({"row": np.arange(len(rows), dtype=float), **taken})


def draw_estimates(axes: Axes, rows: pd.DataFrame, *, color: str = BLUE, marker: str = "o") -> None:
    """Draw estimates with their intervals, one a row: columns row, estimate, low, high and filled."""
    bounded = rows.loc[rows[["low", "high"]].notna().all(axis="columns")]
    axes.hlines(bounded["row"], bounded["low"], bounded["high"], color=color, linewidth=1.5, gid="interval")
    for filled, face in ((True, color), (False, "white")):
        sns.scatterplot(
            data=rows.loc[(rows["filled"] == filled) & rows["estimate"].notna()],
            x="estimate",
            y="row",
            facecolor=face,
            edgecolor=color,
            marker=marker,
            linewidth=1.2,
            s=20,
            legend=False,
            zorder=3,
            gid="filled" if filled else "hollow",
            ax=axes,
        )


def fit_estimates(axes: Axes, rows: pd.DataFrame, *, least: float = 0.0, most: int = 6) -> None:
    """Set the axis to hold 0, all intervals, and `least` on either side, with at most `most` spaces between ticks."""
    ends = rows[["estimate", "low", "high"]].to_numpy(dtype=float)
    low = min(float(np.nanmin(ends, initial=0.0)), -least)
    high = max(float(np.nanmax(ends, initial=0.0)), least)
    span = high - low if high - low > 1e-9 else 1.0
    axes.set_xlim(low - 0.06 * span, high + 0.06 * span)
    write_ticks(axes.xaxis, signed=True, most=most)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows, numbered from 0, at the left."""
    axes.set_yticks(np.arange(len(names)), names)
    for label in axes.get_yticklabels():
        label.set_multialignment("right")


def dress_rows(axes: Axes, n_rows: int) -> None:
    """Give a plot with one row per name its grid and ticks."""
    axes.set_ylim(n_rows - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=SMALL, length=2.5, pad=2)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    sns.despine(ax=axes, left=True)


def _draw_margin(axes: Axes, margin: float, *, named: bool) -> None:
    axes.axvspan(-margin, margin, color=FAINT, linewidth=0, zorder=0, gid="margin")
    if not named:
        return
    axes.text(
        0,
        1.0,
        f"margin: {points(margin, signed=False)} points either way",
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="bottom",
        fontsize=SMALL,
        color=MUTED,
    )
