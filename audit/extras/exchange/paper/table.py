"""A table in APA style, set in Markdown and LaTeX; :mod:`audit.extras.exchange.paper.word` sets it in Word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from audit.extras.exchange.paper.text import Line, Mark, as_latex, as_markdown, line
from audit.tables.formatting import MISSING, bare_p, fixed

_FEWEST: Final = 2
_MOST: Final = 8  # fewest and most decimals of a number with a unit; its standard error decides in between


@dataclass(frozen=True, slots=True)
class ManuscriptRow:
    """A row: its name, then its other cells. ``depth`` is the indentation of the name."""

    cells: tuple[Line, ...]
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ManuscriptTable:
    """A table for a paper."""

    number: int
    title: Line  # in title case
    head: tuple[Line, ...]
    rows: tuple[ManuscriptRow, ...]
    notes: tuple[Line, ...]  # sentences of the general note
    marked: tuple[Line, ...] = ()  # sentences of the specific notes, "a" first
    n_words: int = 1  # leading columns that hold words; the others hold numbers
    label: str = "tab:gap1"  # of LaTeX

    def all_notes(self) -> tuple[Line, ...]:
        """Return the general note, then one for each letter."""
        marked = [line(Mark(letter_of(place)), " ", said) for place, said in enumerate(self.marked)]
        general = tuple(piece for place, said in enumerate(self.notes) for piece in ((" ",) if place else ()) + said)
        return (general, *marked)

    def markdown(self) -> str:
        """Return the table in GitHub's Markdown."""
        rows = [self.head, *(row.cells for row in self.rows)]
        cells = [[as_markdown(cell) for cell in row] for row in rows]
        for own, row in zip(cells[1:], self.rows, strict=True):
            own[0] = "&emsp;" * row.depth + own[0]
        head, *body = [f"| {' | '.join(row)} |" for row in cells]
        under = f"|{':---|' * self.n_words}{'---:|' * (len(self.head) - self.n_words)}"
        general, *marked = map(as_markdown, self.all_notes())
        notes = [f"*Note.* {general}", *marked]
        return "\n".join(
            [f"**Table {self.number}**", "", f"*{as_markdown(self.title)}*", "", head, under, *body, ""]
        ) + "\n" + "\n\n".join(notes) + "\n"  # fmt: skip

    def latex(self) -> str:
        """Return a ``table`` environment for pdfLaTeX, XeLaTeX or LuaLaTeX."""
        head, *body = [
            f"{' & '.join(as_latex(cell) for cell in cells)} \\\\"
            for cells in (self.head, *(row.cells for row in self.rows))
        ]
        body = [rf"\hspace*{{{row.depth}em}}{text}" if row.depth else text
                for row, text in zip(self.rows, body, strict=True)]  # fmt: skip
        general, *marked = map(as_latex, self.all_notes())
        notes = "\\\\\n".join([rf"\textit{{Note.}} {general}", *marked])
        return "\n".join(
            [
                "% In the preamble: \\usepackage[T1]{fontenc} \\usepackage{booktabs,graphicx}",
                "\\begin{table}[htbp]",
                f"\\caption{{{as_latex(self.title)}}}",
                f"\\label{{{self.label}}}",
                "\\centering\\small",
                "% No wider than the text; letters shrink where it would be.",
                "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
                f"\\begin{{tabular}}{{{'l' * self.n_words}{'r' * (len(self.head) - self.n_words)}}}",
                "\\toprule",
                head,
                "\\midrule",
                *body,
                "\\bottomrule",
                "\\end{tabular}}",
                "\\par\\medskip",
                "\\begin{minipage}{\\linewidth}\\footnotesize",
                notes,
                "\\end{minipage}",
                "\\end{table}",
                "",
            ]
        )


class Marks:
    """Assigns letters to notes, the same letter for the same sentence."""

    def __init__(self) -> None:
        self._said: dict[Line, int] = {}

    def mark(self, said: Line) -> Mark:
        """Return the letter of a sentence."""
        return Mark(letter_of(self._said.setdefault(said, len(self._said))))

    @property
    def said(self) -> tuple[Line, ...]:
        """Sentences in the order of their letters."""
        return tuple(self._said)


def letter_of(place: int) -> str:
    """Return the letter of a note: a to z, then aa."""
    return (letter_of(place // 26 - 1) if place >= 26 else "") + chr(ord("a") + place % 26)


def decimals_for(errors: Iterable[Any]) -> int:
    """Return the decimals that show the smallest of these standard errors with two digits."""
    known = [float(each) for each in errors if each is not None and math.isfinite(float(each)) and float(each) > 1e-9]
    if not known:
        return _FEWEST
    return min(max(1 - math.floor(math.log10(min(known))), _FEWEST), _MOST)


def format_number(value: Any, decimals: int) -> str:
    """Format a number that can exceed 1: with leading zero, true minus and no plus; an en dash if missing."""
    return fixed(float(value), decimals=decimals) if value is not None else MISSING


def interval_written(low: Any, high: Any, decimals: int) -> str:
    """Format an interval in APA style: "[0.06, 0.12]"."""
    if not (math.isfinite(float(low)) and math.isfinite(float(high))):
        return MISSING
    return f"[{format_number(low, decimals)}, {format_number(high, decimals)}]"


def p_written(value: Any) -> str:
    """Format p for a column headed p, without leading zero: "< .001", ".012"."""
    return bare_p(float(value)) if value is not None else MISSING


def df_written(value: Any) -> str:
    """Format degrees of freedom: whole numbers as such, others with two decimals."""
    number = float(value)
    return format_number(number, 0 if number == round(number, 6) and number == round(number) else 2)


def row_of(name: Line, cells: Sequence[str], *, depth: int = 0) -> ManuscriptRow:
    """Return a row of a name and numbers."""
    return ManuscriptRow((name, *((cell,) for cell in cells)), depth)
