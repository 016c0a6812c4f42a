"""Tables for a paper from a comparison, as HTML, Markdown and LaTeX: one row for each run and dimension.

Labels are untrusted text. Whatever Markdown or LaTeX would interpret is escaped, so that a model's name can neither
break the table nor inject anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

import pandas as pd
from markupsafe import Markup
from tabulate import tabulate

from audit.report.disparities import answer_in_words
from audit.report.effect_size import size_in
from audit.report.numbers import PlacedRow, rounded, rows_of, show, show_interval
from audit.report.sentences import ALONE
from audit.report.table_layout import ShownColumn, ShownTable, number_column, speaks_of, statistics_table, text
from audit.report.verdicts import worded
from audit.tables.formatting import (
    CROSS,
    MEANING,
    MINUS,
    MISSING,
    bare_p,
    count,
    coverage,
    dimension_title,
    fixed,
    mean_count,
    points,
    rate,
    unsigned,
)

_MARKDOWN: Final = re.compile(r"[\\`*_|~$]|\](?=[(\[])|[<&](?=[A-Za-z#/!?])")
"""What GitHub's Markdown interprets in a table cell: emphasis, code, links, HTML."""
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
"""Applied after tabulate's escapes: characters that pdfLaTeX lacks, or reads as an option after a line's end."""


_NARROWEST: Final = 1e-9
"""A smaller half interval is floating-point error."""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table for the page and to paste. In ``table``, numbers link to their place in ``tables/``."""

    table: ShownTable
    caption: str

    def markdown(self) -> str:
        """Return the table in GitHub's Markdown."""
        escaped = [[_markdown(cell) for cell in row] for row in (self.table.head, *self.table.rows)]
        return _tabulated(escaped, "github") + "\n"

    def latex(self) -> str:
        """Return the table as LaTeX with booktabs. It compiles in pdfLaTeX if the labels' letters do."""
        escaped = _tabulated([[_plain(cell) for cell in row] for row in (self.table.head, *self.table.rows)])
        for letter, command in _LATEX.items():
            escaped = escaped.replace(letter, command)
        escaped = escaped.replace(r" d\_z ", " $d_z$ ").replace(r"$\delta$\_z", r"$\delta_z$")
        return f"% \\usepackage{{booktabs}}\n{escaped}\n"


def paper_table(gap: pd.DataFrame, told: pd.DataFrame, *, confidence: float, verdicts: pd.DataFrame) -> PaperTable:
    """Lay out the main table: what sets each run apart, its dimension, verdict, δ and related numbers.

    Of ``gap`` (``tables.COMPARED_GAP``) the scope ``narratives`` is shown. ``told`` has runs in rows, by label, and a
    column for each thing that sets them apart. ``verdicts`` are rows of ``tables.COMPARED_VERDICTS`` of the same runs.
    """
    own = {(str(row["run"]), str(row["dimension"])): row for row in rows_of(verdicts, "verdicts")}

    def verdict_of(row: PlacedRow) -> PlacedRow | None:
        return own.get((str(row["run"]), str(row["dimension"])))

    def decided(row: PlacedRow) -> PlacedRow | None:
        found = verdict_of(row)
        return found if found is not None and math.isfinite(found.number("ci_low")) else None

    def size(row: PlacedRow, name: str) -> str:
        found = decided(row)
        return MISSING if found is None else size_in(name, row, found, points) or MISSING

    rows = [row for row in rows_of(gap, "gap") if row["scope"] == "narratives"]
    level = coverage(confidence)
    return PaperTable(
        statistics_table(
            rows,
            *told_columns(told),
            ShownColumn("dimension", _dimension, words=True),
            ShownColumn("verdict", lambda row: worded(verdict_of(row)).words, words=True),
            of_other(decided, ShownColumn(f"δ, points [{level} CI]", partial(with_interval, name="delta"))),
            of_other(decided, number_column("p", "p", bare_p)),
            of_other(decided, number_column("p, corrected", "p_adjusted", bare_p)),
            of_other(decided, speaks_of("scope")),
            ShownColumn("δ, % of scale", partial(size, name="percent_of_scale")),
            *(of_other(decided, each) for each in _of_response(verdicts, "δ")),
            ShownColumn("δ, SD", partial(size, name="delta_sd")),
            ShownColumn(f"δ {ALONE} [{level} CI]", partial(with_interval, name="delta")),
            number_column("its p, corrected", "p_adjusted", bare_p),
            number_column(Markup("d<sub>z</sub>"), "d_z", points),
            number_column("n narratives", "n_narratives", count),
            number_column("n ratings", "n_answers", count),
            number_column("missing", "missing_share", rate),
        ),
        _caption(gap, confidence),
    )


def disparity_paper(disparity: pd.DataFrame, told: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out who gets less: what sets each run apart, its dimension, and each group against the others.

    ``disparity`` are rows of ``tables.COMPARED_DISPARITY``; ``told`` is as of :func:`paper_table`.
    """
    level = coverage(confidence)
    return PaperTable(
        statistics_table(
            rows_of(disparity, "disparity"),
            *told_columns(told),
            ShownColumn("dimension", _dimension, words=True),
            text("group", "group"),
            ShownColumn("answer", answer_in_words, words=True),
            ShownColumn(f"D, points [{level} CI]", partial(with_interval, name="disparity")),
            number_column("p", "p", bare_p),
            number_column("p, corrected", "p_adjusted", bare_p),
            number_column("D, % of scale", "percent_of_scale", points),
            *_of_response(disparity, "D"),
            number_column("lower in", "share_lower", rate),
            number_column("n narratives", "n_narratives", count),
            number_column("n ratings", "n_answers", count),
        ),
        "D is how much lower (−) or higher (+) a group is rated than the mean of the other groups, whoever speaks, in "
        f"points of the run's scale, with a {level} t interval over narratives; where the run can tell a group from "
        "its words, the interval counts how other words of it, or labels of invented groups, differ. p is two-sided; "
        "corrected is Holm over the groups of the run's dimension. The answer is each run's own: lower and higher are "
        "shown after correction, wherever missing ratings lie, and not because another group's D differs. Lower in: "
        "share of narratives in which the group is rated lower than the others.",
    )


def strategies_paper(strategies: pd.DataFrame, names: Mapping[str, str], *, confidence: float) -> PaperTable:
    """Lay out what strategies change and cost, one row for each strategy and dimension, references included.

    ``strategies`` are rows of ``tables.STRATEGIES``; ``names`` are the strategies' names by run.
    """
    level = coverage(confidence)
    rows = rows_of(strategies, "strategies")
    with_mass = bool(strategies["mean_number_mass"].notna().any())
    units = " and ".join(dict.fromkeys(map(str, strategies["unit"])))
    return PaperTable(
        statistics_table(
            rows,
            ShownColumn("dimension", _dimension),
            ShownColumn("strategy", lambda row: names[str(row["run"])], words=True),
            ShownColumn(f"δ {ALONE} [{level} CI]", partial(with_interval, name="delta"), words=True),
            ShownColumn(
                f"change of δ [{level} CI]",
                partial(with_interval, name="delta_change", low="change_low", high="change_high"),
            ),
            number_column("p, corrected", "p_adjusted", bare_p),
            speaks_of("change_scope"),
            ShownColumn("n narratives", lambda row: show(row, "n_narratives", count) if row["reference"] else MISSING),
            number_column("mean rating", "mean_rating", unsigned),
            number_column("its change", "mean_change", points),
            number_column("refused", "refusal_rate", rate),
            number_column("no rating", "missing_share", rate),
            *([number_column("number mass", "mean_number_mass", rate)] if with_mass else []),
            number_column("calls", "n_calls", mean_count),
            number_column("tokens written", "n_tokens", mean_count),
            number_column("seconds", "seconds", unsigned),
        ),
        f"δ is in-group minus out-group, its change that against the run without a strategy, paired by narrative, both "
        f"in {units}, each with its {level} interval, not corrected, δ's over narratives; a change that speaks of "
        "groups counts their spread, too. p is two-sided, corrected by Holm over the dimension's strategies. Mean "
        "rating and its change are in points, of what was rated. Calls, tokens that stages wrote and seconds are per "
        "prompt.",
    )


def changes_paper(changes: pd.DataFrame, told: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out the changes of measures of replies against the reference, one row for each run, dimension and measure.

    ``told`` has runs in rows, by label, and a column for each thing that sets them apart.
    """
    level = coverage(confidence)
    mean = partial(with_rounded_interval, name="mean_change", low="mean_low", high="mean_high")
    return PaperTable(
        statistics_table(
            [row for row in rows_of(changes, "measure_changes") if math.isfinite(row.number("p"))],
            *told_columns(told),
            text("against", "reference"),
            ShownColumn("dimension", _dimension, words=True),
            text("measure", "outcome"),
            ShownColumn("δ of the reference", lambda row: show(row, "reference_delta", rounded(row))),
            ShownColumn("δ", lambda row: show(row, "delta", rounded(row))),
            ShownColumn(f"change of δ [{level} CI]", partial(with_rounded_interval, name="delta_change")),
            number_column("in SD", "change_sd", points),
            number_column("p", "p", bare_p),
            number_column("p, corrected", "p_adjusted", bare_p),
            speaks_of("scope"),
            ShownColumn(f"change of the mean [{level} CI]", mean),
            number_column("n narratives", "n_narratives", count),
        ),
        "δ is in-group minus out-group, in the measure's unit, on the narratives that run and reference share; its "
        f"change is paired by narrative, with its {level} interval, which counts groups' spread where it speaks of "
        "groups, and in standard deviations of the reference's scored replies. p is two-sided; corrected is Holm over "
        "all measures and runs of the dimension. Beside it the change of the measure's mean over all pairs. Intervals "
        "are not corrected. Changes without a test are left out; units are in tables/measures.csv.",
    )


def published_paper(published: pd.DataFrame, gap: pd.DataFrame, *, confidence: float) -> PaperTable:
    """Lay out the published study's table, δ_z by model and variant, with our δ in points beside it.

    ``published`` are rows of ``tables.COMPARED_PUBLISHED``, and ``gap`` those of ``tables.COMPARED_GAP`` for the same
    runs.
    """
    level = coverage(confidence)
    ours = {
        (str(row["run"]), str(row["dimension"])): row for row in rows_of(gap, "gap") if row["scope"] == "narratives"
    }
    rows = rows_of(published, "published")
    named = len({(str(row["model"]), str(row["prompt"]), str(row["dimension"])) for row in rows}) == len(rows)

    def own_gap(row: PlacedRow) -> str:
        of_ours = ours.get((str(row["run"]), str(row["dimension"])))
        return MISSING if of_ours is None else with_interval(of_ours, "delta")

    return PaperTable(
        statistics_table(
            rows,
            ShownColumn("dimension", _dimension),
            *([text("model", "model"), text("variant", "prompt")] if named else [text("run", "run")]),
            number_column(Markup("δ<sub>z</sub>"), "delta_z", points),
            ShownColumn("95% of the null", lambda row: show_interval(row, "null_low", "null_high")),
            ShownColumn("narratives left out", _left_out),
            number_column("of the heatmap", "excluded_share_heatmap", rate),
            ShownColumn(f"δ {ALONE}, points [{level} CI]", own_gap),
            text("note", "note"),
        ),
        "δ_z is the published gap: in-group minus out-group, in standard deviations of the matrix's own cells, so that "
        "it compares with no other row. The interval holds 95% of shuffled matrices: it is one of the null, and not a "
        "confidence interval of δ_z. A narrative is left out of δ_z if a rating is missing between identities, and out "
        f"of the heatmap if one is missing with the unspecified identity too. δ in points is ours, with its {level} "
        "interval over narratives, for these identities, from all valid ratings.",
    )


def told_columns(told: pd.DataFrame) -> list[ShownColumn]:
    """Return a column for each thing that sets runs apart; ``told`` has runs in rows, by label."""
    return [
        ShownColumn(str(head), partial(_told, told=told, place=place), words=place > 0)
        for place, head in enumerate(told.columns)
    ]


def _of_response(table: pd.DataFrame, what: str) -> list[ShownColumn]:
    """Return the column of sizes beside the response to the story, if any run has one."""
    known = table["percent_of_response"].notna().any()
    return [number_column(f"{what}, % of response", "percent_of_response", points)] if known else []


def of_other(other: Callable[[PlacedRow], PlacedRow | None], column: ShownColumn) -> ShownColumn:
    """Return a column that reads another row than its line's; an en dash if there is none."""

    def written(cell: Callable[[PlacedRow], str]) -> Callable[[PlacedRow], str]:
        return lambda row: MISSING if (found := other(row)) is None else cell(found)

    def alike(rows: Sequence[PlacedRow]) -> Callable[[PlacedRow], str] | None:
        cell = column.alike and column.alike([found for row in rows if (found := other(row)) is not None])
        return written(cell) if cell else None

    return replace(column, cell=written(column.cell), alike=alike)


def _told(row: PlacedRow, *, told: pd.DataFrame, place: int) -> str:
    return cast("str", told.loc[row["run"]].iloc[place])


def with_interval(
    row: PlacedRow, name: str, low: str = "ci_low", high: str = "ci_high", *, write: Callable[[float], str] = points
) -> Markup:
    """Write an estimate with its interval, if it has one.

    In points all three numbers have two decimals, or as many as tell the ends of a narrow interval apart.
    """
    half = (row.number(high) - row.number(low)) / 2
    if write is points and half > _NARROWEST:
        write = partial(fixed, decimals=max(2, -math.floor(math.log10(half))), signed=True)
    estimate = show(row, name, write)
    if math.isfinite(row.number(low)):
        estimate += Markup(" [{}, {}]").format(*(show(row, end, write) for end in (low, high)))
    return estimate


def with_rounded_interval(row: PlacedRow, name: str, low: str = "ci_low", high: str = "ci_high") -> Markup:
    """Write an estimate in any unit with its interval, if it has one."""
    return with_interval(row, name, low, high, write=rounded(row, low, high))


def _dimension(row: PlacedRow) -> str:
    return dimension_title(str(row["dimension"]))


def _left_out(row: PlacedRow) -> Markup:
    return Markup("{} of {}").format(show(row, "excluded_share", rate), show(row, "n_narratives_asked", count))


def _caption(gap: pd.DataFrame, confidence: float) -> str:
    level = coverage(confidence)
    margins = gap["margin"].dropna().unique()
    of_margin = f" The margin is {points(float(margins[0]), signed=False)} points." if len(margins) else ""
    return (
        f"δ is {MEANING}, on average over narratives, in points of the run's scale. The verdict is each run's own. δ, "
        f"its {level} interval and p beside it are those that it rests on: controlled for repeated words where the run "
        "can, and with the groups as a sample of such groups where they are enough; that p is corrected (Holm) for the "
        f"averages of its run. δ {ALONE} has a {level} t interval for these identities; its p is corrected (Holm) for "
        "all rows but means over all dimensions. SD: δ over the standard deviation of ratings within narratives; d_z: "
        f"δ {ALONE} over that of the narratives' contrasts, which says how regular it is and not how large.{of_margin}"
    )


def _plain(cell: str) -> str:
    """Return a cell as one line of printable text, without tags."""
    text = Markup(cell.replace("<sub>", "_")).striptags() if isinstance(cell, Markup) else cell
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _markdown(cell: str) -> str:
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", _plain(cell))


def _tabulated(rows: list[list[str]], form: str = "latex_booktabs") -> str:
    """Set the table with tabulate; cells stay text even if they look like numbers."""
    head, *body = rows
    return str(tabulate(body, headers=head, tablefmt=form, disable_numparse=True))
