"""The tables of a comparison that go into a paper, as HTML, Markdown and LaTeX: a row a run and dimension.

Labels are untrusted text in all three: what Markdown or LaTeX would read as its own is escaped, so that a model's name
can neither break the table nor put anything into it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup
from tabulate import tabulate

from audit.report.layout import Table
from audit.report.numbers import Row, rows_of, show, show_interval
from audit.wording import (
    CROSS,
    MEANING,
    MINUS,
    MISSING,
    bare_p,
    count,
    coverage,
    dimension_title,
    mean_count,
    points,
    rate,
    unsigned,
)

_MARKDOWN: Final = re.compile(r"[\\`*_|~$]|\](?=[(\[])|[<&](?=[A-Za-z#/!?])")
"""What GitHub's Markdown reads as its own in a table's cell: emphasis, code, links, HTML."""
_LATEX: Final = {
    MINUS: "$-$",
    MISSING: "--",
    "δ": r"$\delta$",
    CROSS: r"$\times$",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    '"': "''",
}
"""After tabulate's escapes: what pdfLaTeX has no letter for, and what it takes for an option after a line's end."""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table as the page shows it, and as text to paste.

    Attributes
    ----------
    table
        As HTML shows it; numbers know their place in ``tables/``.
    caption
        What the columns are.
    """

    table: Table
    caption: str

    def markdown(self) -> str:
        """Return the table in GitHub's Markdown."""
        escaped = [[_markdown(cell) for cell in row] for row in (self.table.head, *self.table.rows)]
        return _tabulated(escaped, "github") + "\n"

    def latex(self) -> str:
        """Return the table as LaTeX with booktabs; it compiles in pdfLaTeX where the labels' letters do."""
        escaped = _tabulated([[_plain(cell) for cell in row] for row in (self.table.head, *self.table.rows)])
        for letter, command in _LATEX.items():
            escaped = escaped.replace(letter, command)
        escaped = escaped.replace(r" d\_z ", " $d_z$ ").replace(r"$\delta$\_z", r"$\delta_z$")
        return f"% \\usepackage{{booktabs}}\n{escaped}\n"


def paper_table(gap: pd.DataFrame, told: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out the table: what sets each run apart, the dimension, δ and what belongs to it.

    Parameters
    ----------
    gap
        Rows of ``tables.COMPARED_GAP``, of which those about any such narratives are shown.
    told
        Runs in rows, by label; what sets them apart in columns, each headed by its name.
    confidence
        Coverage of the intervals.
    """
    rows = [row for row in rows_of(gap, "gap") if row["scope"] == "narratives"]
    with_margin = bool(gap["margin"].notna().any())
    level = coverage(confidence)
    head = (
        *map(str, told.columns),
        "dimension",
        f"δ, points [{level} CI]",
        "p",
        "p, corrected",
        "δ, % of scale",
        "δ, SD",
        Markup("d<sub>z</sub>"),
        "n narratives",
        "n ratings",
    )
    head += ("missing", *((_against(confidence),) if with_margin else ()))
    words = frozenset((*range(1, len(told.columns) + 1), *((len(head) - 1,) if with_margin else ())))
    lines = tuple(_line(row, tuple(told.loc[row["run"]]), with_margin=with_margin) for row in rows)
    return PaperTable(Table(head, lines, words=words), _caption(gap, confidence))


def strategies_paper(strategies: pd.DataFrame, names: Mapping[str, str], *, confidence: float) -> PaperTable:
    """Lay out what strategies change and cost, a row a strategy and dimension, each reference among them.

    Parameters
    ----------
    strategies
        Rows of ``tables.STRATEGIES``.
    names
        By run, what its rows are called.
    confidence
        Coverage of the intervals.
    """
    level = coverage(confidence)
    rows = rows_of(strategies, "strategies")
    with_mass = bool(strategies["mean_number_mass"].notna().any())
    head = (
        "dimension",
        "strategy",
        f"δ [{level} CI]",
        f"change of δ [{level} CI]",
        "p, corrected",
        "n narratives",
        "mean rating",
        "its change",
        "refused",
        "no rating",
        *(("number mass",) if with_mass else ()),
        "calls",
        "tokens written",
        "seconds",
    )
    lines = tuple(
        (
            dimension_title(str(row["dimension"])),
            names[str(row["run"])],
            with_interval(row, "delta", "ci_low", "ci_high"),
            with_interval(row, "delta_change", "change_low", "change_high"),
            show(row, "p_adjusted", bare_p),
            show(row, "n_narratives", count) if row["reference"] else MISSING,
            show(row, "mean_rating", unsigned),
            show(row, "mean_change", points),
            show(row, "refusal_rate", rate),
            show(row, "missing_share", rate),
            *((show(row, "mean_number_mass", rate),) if with_mass else ()),
            show(row, "n_calls", mean_count),
            show(row, "n_tokens", mean_count),
            show(row, "seconds", unsigned),
        )
        for row in rows
    )
    units = " and ".join(dict.fromkeys(map(str, strategies["unit"])))
    return PaperTable(
        Table(head, lines, words=frozenset({1, 2})),
        f"δ is in-group minus out-group, its change that against the run without a strategy, paired by narrative, both "
        f"in {units}, each with its {level} interval over narratives, not corrected; p is two-sided, corrected by Holm "
        "over the dimension's strategies. Mean rating and its change are in points, of what was rated. Calls, tokens "
        "that stages wrote and seconds are per prompt.",
    )


def published_paper(published: pd.DataFrame, gap: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out the study's table, δ_z by model and variant, with our δ in points beside it.

    Parameters
    ----------
    published
        Rows of ``tables.COMPARED_PUBLISHED``.
    gap
        Rows of ``tables.COMPARED_GAP`` of the same runs.
    confidence
        Coverage of the intervals of δ in points.
    """
    level = coverage(confidence)
    ours = {
        (str(row["run"]), str(row["dimension"])): row for row in rows_of(gap, "gap") if row["scope"] == "narratives"
    }
    rows = rows_of(published, "published")
    named = len({(str(row["model"]), str(row["prompt"]), str(row["dimension"])) for row in rows}) == len(rows)
    head = (
        "dimension",
        *(("model", "variant") if named else ("run",)),
        Markup("δ<sub>z</sub>"),
        "95% of the null",
        "narratives left out",
        "of the heatmap",
        f"δ, points [{level} CI]",
        "note",
    )
    lines = tuple(
        (
            dimension_title(str(row["dimension"])),
            *((str(row["model"]), str(row["prompt"])) if named else (str(row["run"]),)),
            show(row, "delta_z", points),
            show_interval(row, "null_low", "null_high"),
            Markup("{} of {}").format(show(row, "excluded_share", rate), show(row, "n_narratives_asked", count)),
            show(row, "excluded_share_heatmap", rate),
            with_interval(ours[key], "delta_points", "ci_low", "ci_high")
            if (key := (str(row["run"]), str(row["dimension"]))) in ours
            else MISSING,
            str(row["note"]),
        )
        for row in rows
    )
    return PaperTable(
        Table(head, lines, words=frozenset({1, 2, len(head) - 1} if named else {1, len(head) - 1})),
        "δ_z is the published gap: in-group minus out-group, in standard deviations of the matrix's own cells, so that "
        "it compares with no other row. The interval holds 95% of shuffled matrices: it is one of the null, and not a "
        "confidence interval of δ_z. A narrative is left out of δ_z if a rating is missing between identities, and out "
        f"of the heatmap if one is missing with the unspecified identity too. δ in points is ours, with its {level} "
        "interval over narratives, for these identities, from all valid ratings.",
    )


def with_interval(row: Row, name: str, low: str, high: str, *, write: Callable[[float], str] = points) -> Markup:
    """Write an estimate with its interval, if it has one."""
    estimate = show(row, name, write)
    if math.isfinite(row.number(low)):
        estimate += Markup(" [{}, {}]").format(*(show(row, end, write) for end in (low, high)))
    return estimate


def _line(row: Row, told: tuple[str, ...], *, with_margin: bool) -> tuple[str, ...]:
    return (
        *told,
        dimension_title(str(row["dimension"])),
        with_interval(row, "delta_points", "ci_low", "ci_high"),
        *(show(row, name, bare_p) for name in ("p", "p_adjusted")),
        *(show(row, name, points) for name in ("percent_of_scale", "delta_sd", "d_z")),
        show(row, "n_narratives", count),
        show(row, "n_ratings", count),
        show(row, "missing_share", rate),
        *((str(row["verdict"]),) if with_margin else ()),
    )


def _against(confidence: float) -> str:
    """Head the column of the equivalence tests, with the level that they go by."""
    return f"against the margin ({coverage(2 * confidence - 1)} interval)"


def _caption(gap: pd.DataFrame, confidence: float) -> str:
    level = coverage(confidence)
    margins = gap["margin"].dropna().unique()
    against = (
        f" The margin is {points(float(margins[0]), signed=False)} points, on the average gap alone; its column is of "
        f"two one-sided tests, which go by the {coverage(2 * confidence - 1)} interval."
        if len(margins)
        else ""
    )
    return (
        f"δ is {MEANING}, on average over narratives, in points of the run's scale, with its {level} t interval, for "
        "these identities; p is two-sided, of the same t distribution, and not corrected; corrected p (Holm) is for "
        "all rows but means over all dimensions. SD: δ over the standard deviation of ratings within narratives; d_z: "
        f"δ over that of the narratives' contrasts, which says how regular it is and not how large.{against}"
    )


def _plain(cell: str) -> str:
    """Return a cell without its tags, on one line and without what no line can hold."""
    text = Markup(cell.replace("<sub>", "_")).striptags() if isinstance(cell, Markup) else cell
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _markdown(cell: str) -> str:
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", _plain(cell))


def _tabulated(rows: list[list[str]], form: str = "latex_booktabs") -> str:
    """Let tabulate set the table; cells are text, whatever they look like."""
    head, *body = rows
    return str(tabulate(body, headers=head, tablefmt=form, disable_numparse=True))
