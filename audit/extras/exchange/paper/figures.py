"""Draw a run's main figures at the widths that journals print, each at its final size.

Scaling a figure down would shrink its letters. Instead, texts are wrapped and plots narrowed until the figure has the
printed width, with letters of :data:`~audit.report.figures.style.SMALL` points or more. Figures that do not fit are
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from audit.errors import MissingCellError, NotEstimableError
from audit.report.cell_matrix import BASELINES
from audit.report.figures.forests import plot_disparity, plot_family, plot_gaps, plot_measures, rows_to_draw
from audit.report.figures.heatmaps import plot_cells, plot_interaction
from audit.report.figures.matrix import Clusters, DoesNotFitError
from audit.report.figures.style import figure_bytes, file_stem

WIDTHS: Final = (89, 183)  # one column and two columns, in millimetres
_INCH: Final = 25.4
_DPI: Final = 600
Draw = Callable[[], Figure]


@dataclass(frozen=True)
class PaperFigures:
    """Figures by name, and the reason for each one left out."""

    figures: Mapping[str, Figure]
    left_out: Mapping[str, str]


def draw_for_journal(
    tables: Mapping[str, pd.DataFrame],  # gap; for ratings families and cells, for written texts measures
    *,
    millimetres: float,
    low: float,  # ends of the scale, in points; unused for written texts
    high: float,
    confidence: float,
    margin: float | None = None,  # gap that counts as too small to matter, in points
    clusters: Mapping[str, Clusters] | None = None,  # dimension → group → cultural cluster
) -> PaperFigures:
    """Draw a run's main figures at their printed width, in millimetres."""
    width = millimetres / _INCH
    if "measures" in tables:
        kinds = _of_measures(tables, width=width, confidence=confidence)
    else:
        kinds = _of_ratings(
            tables, width=width, low=low, high=high, confidence=confidence, margin=margin, clusters=clusters or {}
        )
    figures, left_out = {}, {}
    for name, draw in kinds:
        try:
            figures[name] = draw()
        except (DoesNotFitError, NotEstimableError, MissingCellError) as error:
            left_out[name] = str(error)
    return PaperFigures(figures, left_out)


def journal_files(figures: Mapping[str, Figure], millimetres: float) -> dict[str, bytes]:
    """Return figures as PDF and as PNG at 600 dots per inch, under names that any file system takes."""
    files = {}
    for name, figure in figures.items():
        stem = file_stem(name)
        for form in ("pdf", "png"):
            files[f"figures/{stem}-{millimetres:g}mm.{form}"] = figure_bytes(figure, form, dpi=_DPI)
    return files


def _of_ratings(
    tables: Mapping[str, pd.DataFrame],
    *,
    width: float,
    low: float,
    high: float,
    confidence: float,
    margin: float | None,
    clusters: Mapping[str, Clusters],
) -> Iterator[tuple[str, Draw]]:
    gaps, cells = rows_to_draw(tables), tables["cells"]
    # Without perceivers there is neither a gap nor an interaction, and nothing to say of them.
    crossed = cells.empty or not cells["perceiver_group"].astype(str).isin(list(BASELINES)).all()
    if crossed and len(gaps):
        yield "gaps", partial(plot_gaps, gaps, confidence=confidence, margin=margin, width=width)
    for dimension, variant in cells[["dimension", "variant"]].drop_duplicates().itertuples(index=False):
        place = f"{dimension}-{variant}"
        compared = tables.get("disparity", pd.DataFrame())  # empty if an earlier version analysed the run
        decided = compared if compared.empty else _of(compared, dimension, variant)
        if not decided.empty and decided["headline"].astype(bool).any():
            yield (
                f"disparity-{place}",
                partial(plot_disparity, decided, confidence=confidence, margin=margin, width=width),
            )
        families = _of(tables["families"], dimension, variant)
        for kind, family in (("emotions", "emotion"), ("groups", "group")):
            if (families["family"] == family).sum() > 1:
                yield (
                    f"{kind}-{place}",
                    partial(plot_family, families, family=family, confidence=confidence, width=width),
                )
        own, of_groups = _of(cells, dimension, variant), clusters.get(str(dimension))
        yield f"cells-{place}", partial(plot_cells, own, low=low, high=high, clusters=of_groups, width=width)
        if crossed:
            yield f"interaction-{place}", partial(plot_interaction, own, clusters=of_groups, width=width)


def _of_measures(tables: Mapping[str, pd.DataFrame], *, width: float, confidence: float) -> Iterator[tuple[str, Draw]]:
    measures = tables["measures"]
    titles = dict(zip(measures["measure"], measures["title"], strict=True))
    for (dimension, variant), own in rows_to_draw(tables).groupby(["dimension", "variant"], sort=False, observed=True):
        shown = own.loc[own["delta_sd"].notna()]
        yield (
            f"measures-{dimension}-{variant}",
            partial(plot_measures, shown, titles, confidence=confidence, width=width),
        )


def _of(table: pd.DataFrame, dimension: object, variant: object) -> pd.DataFrame:
    return table.loc[(table["dimension"] == dimension) & (table["variant"] == variant)]
