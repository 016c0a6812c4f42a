r"""Text written once, and set in Markdown, LaTeX and Word.

A line is a tuple of pieces. Words of a run or a user are :class:`PlainText`, escaped in every form, so that a model's
name can neither end a table's cell nor be a command (``\input``), a link or a mention. A plain ``str`` is our own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from audit.extras.paper.references import Reference, cited
from audit.tables.formatting import CROSS, MINUS, MISSING, brief, in_markdown, printable

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "{}&%$#_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "-": "-{}",
    MINUS: "$-$",
    MISSING: "--",
    CROSS: r"$\times$",
    "δ": r"$\delta$",
    "α": r"$\alpha$",
    "…": r"\ldots{}",
    "\N{ZERO WIDTH NON-JOINER}": "",
    "\N{ZERO WIDTH JOINER}": "",
}
"""What LaTeX would act on, or has no letter for: brackets and stars after a line's end, joined hyphens."""
_UNBROKEN: Final = 30  # length of a word, in letters, from which LaTeX may break it anywhere
_MARKDOWN: Final = re.compile(r"[\\`*_|~$#]|[<&](?=[A-Za-z#/!?])|\](?=[(\[])")
"""What Markdown would interpret in our own text, which has neither links nor HTML."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """Words of a run, a file or a user, always shown as plain text. Very long ones are cut, unless ``whole``."""

    text: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """The letter of a statistic. APA sets Latin letters in italics and Greek ones upright."""

    letter: str
    sub: str = ""

    @property
    def is_italic(self) -> bool:
        """Whether it is a Latin letter."""
        return self.letter.isascii()


@dataclass(frozen=True, slots=True)
class Italic:
    """Our own words in italics."""

    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The raised letter of a table's note."""

    letter: str


@dataclass(frozen=True, slots=True)
class Cite:
    """A citation of works, in brackets."""

    works: tuple[Reference, ...]


Piece: TypeAlias = str | PlainText | Symbol | Italic | Mark | Cite
Line: TypeAlias = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class StyledText:
    """Letters of the same style, as in Word."""

    text: str
    italic: bool = False
    sub: bool = False
    raised: bool = False


def line(*pieces: Piece | Line | None) -> Line:
    """Concatenate pieces and lines; None and empty texts are left out."""
    flat: list[Piece] = []
    for piece in pieces:
        flat.extend(piece if isinstance(piece, tuple) else () if piece is None or piece == "" else (piece,))
    return tuple(flat)


def join_lines(lines: Sequence[Line], between: str, *, last: str | None = None) -> Line:
    """Concatenate lines with a separator, and another one before the last line."""
    found: list[Piece] = []
    for place, each in enumerate(lines):
        if place:
            found.append(last if last is not None and place == len(lines) - 1 else between)
        found.extend(each)
    return tuple(found)


def told_names(names: Iterable[str], *, quoted: bool = False, last: str = ", ") -> Line:
    """List distinct words of a run; ``last`` separates the last two."""
    mark = ("“", "”") if quoted else ("", "")
    return join_lines([line(mark[0], PlainText(name), mark[1]) for name in dict.fromkeys(names)], ", ", last=last)


def works_in(lines: Iterable[Line]) -> tuple[Reference, ...]:
    """Return all works that lines cite, once each, in the order of a list of references."""
    works = {work.key: work for each in lines for piece in each if isinstance(piece, Cite) for work in piece.works}
    return tuple(sorted(works.values(), key=lambda work: (work.short.casefold(), work.key)))


def reference_line(work: Reference) -> Line:
    """Return a work's entry in a list of references."""
    return tuple(Italic(text) if italic else text for text, italic in work.parts())


def runs_of(pieces: Line) -> Iterator[StyledText]:
    """Yield what Word sets, piece by piece."""
    for piece in pieces:
        match piece:
            case PlainText():
                yield StyledText(_told(piece))
            case Symbol():
                yield StyledText(piece.letter, italic=piece.is_italic)
                if piece.sub:
                    yield StyledText(piece.sub, italic=piece.is_italic, sub=True)
            case Italic():
                yield StyledText(piece.text, italic=True)
            case Mark():
                yield StyledText(piece.letter, raised=True)
            case Cite():
                yield StyledText(f"({cited(piece.works)})")
            case _:
                yield StyledText(piece)


def as_plain(pieces: Line) -> str:
    """Return a line as plain text."""
    return "".join(run.text for run in runs_of(pieces))


def as_markdown(pieces: Line) -> str:
    """Return a line in GitHub's Markdown."""
    return "".join(map(_in_markdown, pieces))


def as_latex(pieces: Line) -> str:
    r"""Return a line in LaTeX; works are cited by natbib's ``\citep``."""
    return "".join(map(_in_latex, pieces)).strip()


def escape_latex(text: str) -> str:
    r"""Escape any text for LaTeX, so that nothing in it is a command and hyphens are not joined to a dash.

    Examples
    --------
    >>> escape_latex(r"50% & \input{/etc/passwd}")
    '50\\% \\& \\textbackslash{}input\\{/etc/passwd\\}'
    """
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"-\{\}(?!-)", "-", escaped)


def _told_latex(text: str) -> str:
    """Escape words of a run, and let LaTeX break long words such as digests."""
    words = [r"\allowbreak{}".join(map(escape_latex, _cut(word))) for word in text.split(" ")]
    return " ".join(words)


def _cut(word: str) -> list[str]:
    """Cut a long word into parts."""
    if len(word) < _UNBROKEN:
        return [word]
    return [word[start : start + _UNBROKEN // 2] for start in range(0, len(word), _UNBROKEN // 2)]


def _told(piece: PlainText) -> str:
    return " ".join(printable(piece.text if piece.whole else brief(piece.text, at_most=300)).split())


def _in_markdown(piece: Piece) -> str:
    match piece:
        case PlainText():
            return in_markdown(_told(piece))
        case Symbol():
            letter = f"*{piece.letter}*" if piece.is_italic else piece.letter
            return f"{letter}<sub>{piece.sub}</sub>" if piece.sub else letter
        case Italic():
            return f"*{piece.text}*"
        case Mark():
            return f"<sup>{piece.letter}</sup>"
        case Cite():
            return _own_markdown(f"({cited(piece.works)})")
        case _:
            return _own_markdown(piece)


def _own_markdown(text: str) -> str:
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", text)


def _in_latex(piece: Piece) -> str:
    match piece:
        case PlainText():
            return _told_latex(_told(piece))
        case Symbol():
            letter = piece.letter if piece.is_italic else _LATEX[piece.letter].strip("$")
            if not piece.sub and piece.is_italic:
                return rf"\textit{{{letter}}}"
            return f"${letter}_{{{piece.sub}}}$" if piece.sub else f"${letter}$"
        case Italic():
            return rf"\textit{{{escape_latex(piece.text)}}}"
        case Mark():
            return rf"\textsuperscript{{{piece.letter}}}"
        case Cite():
            return rf"\citep{{{','.join(work.key for work in piece.works)}}}"
        case _:
            return escape_latex(piece)
