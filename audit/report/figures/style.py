"""Shared by all figures: colours, fonts, drawing of untrusted text, and rendering to bytes.

Lengths are in inches and font sizes in points, as in matplotlib. The layout is measured with DejaVu Sans, which comes
with matplotlib, so that it is the same on every machine; an SVG keeps its text as text.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial, wraps
from hashlib import sha256
from typing import Any, Final, Literal, ParamSpec
from weakref import WeakKeyDictionary

from matplotlib import font_manager, style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from audit.tables.formatting import PHONE, fixed

_LONGEST_STEM: Final = 150  # longest file name, in letters, without its suffix
INK: Final = "#1b1b1f"
MUTED: Final = "#55555e"
FAINT: Final = "#dedee6"
# Blue against orange is told apart under every common colour-vision deficiency; red against green is not. The blue is
# the darker of the two, and marks differ in shape, line or filling besides, so that a grey print can be read.
BLUE: Final = "#1f5f99"
ORANGE: Final = "#d9731a"
PALE_BLUE: Final = "#bcd7ee"
SEQUENTIAL: Final = ("#f7fafd", "#bcd7ee", "#62a2d4")
DIVERGING: Final = ("#5b9fd6", "#f8f8f8", "#ee9a4d")  # light throughout, so that dark numbers stay legible
SMALL: Final = 7.0  # the smallest letters that a journal prints, in points
TEXT: Final = 8.0
LABEL: Final = 9.0
PAD: Final = 0.08  # margin of a figure, in inches
LEADING: Final = 1.35  # height of a line of text, relative to the font size

NARROW: Final = 3.5  # width of a figure for a phone, in inches: 336 CSS pixels, of 390 that a phone has
_P = ParamSpec("_P")
_narrow: ContextVar[bool] = ContextVar("narrow", default=False)
_AGAIN: WeakKeyDictionary[Figure, Callable[[], Figure]] = WeakKeyDictionary()  # how to draw a figure again

_WIDE_FONTS: Final = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari")
_SVG_FONTS: Final = "'DejaVu Sans',Verdana,'Noto Sans',Arial,sans-serif"
"""For the reader's machine: Verdana has the widths of DejaVu Sans, the others are narrower, so all fit the layout."""
_STYLE: Final[dict[str, Any]] = {
    "font.size": TEXT,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT,
    "axes.linewidth": 0.7,
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "text.color": INK,
    "text.usetex": False,
    "hatch.linewidth": 0.8,
    "hatch.color": "#8a8a94",
    "svg.fonttype": "none",
    "svg.hashsalt": "empathy-audit",
    "pdf.fonttype": 42,
}


def figure_bytes(figure: Figure, format: Literal["svg", "png", "pdf"], *, dpi: int = 200) -> bytes:
    """Render a figure: the same bytes for the same figure, without date and random ids."""
    buffer = io.BytesIO()
    with drawing():
        if format == "svg":
            figure.savefig(buffer, format="svg", dpi=dpi, metadata={"Date": None})
            return _slim(buffer.getvalue().decode("utf-8")).encode("utf-8")
        if format == "pdf":
            with _embedding_outlines():
                figure.savefig(buffer, format="pdf", dpi=dpi, metadata={"CreationDate": None})
        else:
            figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def figure_files(name: str, figure: Figure, svg: bytes) -> dict[str, bytes]:
    """Return a figure's files in three formats. ``svg`` holds its bytes, since the page needs them first."""
    stem = file_stem(name)
    return {
        f"figures/{stem}.svg": svg,
        f"figures/{stem}.png": figure_bytes(figure, "png"),
        f"figures/{stem}.pdf": figure_bytes(figure, "pdf"),
    }


def file_stem(name: str) -> str:
    """Return a figure's name, which may hold the user's own words, as a file name for any file system.

    Examples
    --------
    >>> file_stem("matrix-a/b-origin")
    'matrix-a_b-origin'
    """
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "_", name)
    # File systems take 255 bytes; names that begin alike stay apart.
    return stem if len(stem) <= _LONGEST_STEM else f"{stem[:_LONGEST_STEM]}-{sha256(name.encode()).hexdigest()[:8]}"


@contextmanager
def narrow() -> Iterator[None]:
    """Draw for a phone: functions decorated with `for_phones` keep to `NARROW`, with letters of the same size."""
    token = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(token)


def is_narrow() -> bool:
    """Tell whether a figure is being drawn for a phone."""
    return _narrow.get()


def for_phones(plot: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Mark a function that can draw its figure for a phone, too: with the same arguments, within `narrow`."""

    @wraps(plot)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Figure:
        figure = plot(*args, **kwargs)
        if not is_narrow():
            _AGAIN[figure] = partial(plot, *args, **kwargs)
        return figure

    return drawn


def page_svgs(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Return figures as SVG by name; those too wide for a phone have a narrow form too, under `PHONE` and the name."""
    svgs = {}
    for name, figure in figures.items():
        svgs[name] = figure_bytes(figure, "svg")
        again = _AGAIN.get(figure)
        if again is not None and figure.get_figwidth() > NARROW + 0.01:
            with narrow():
                small = again()
            if small.get_figwidth() < figure.get_figwidth():
                svgs[PHONE + name] = figure_bytes(small, "svg")
    return svgs


@contextmanager
def _embedding_outlines() -> Iterator[None]:
    """Embed fonts without their layout tables, which take two thirds of a PDF's time; the text is laid out already.

    The list is private to fontTools, and matplotlib offers no other way. Without it, PDFs only take longer.
    """
    from fontTools.subset import Options

    kept = getattr(Options, "_drop_tables_default", None)
    if kept is None:
        yield
        return
    Options._drop_tables_default = [*kept, "GSUB", "GPOS", "GDEF", "MATH", "kern"]
    try:
        yield
    finally:
        Options._drop_tables_default = kept


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with this module's settings only, whatever the user's matplotlibrc says."""
    with style.context(["default", _STYLE | {"font.family": list(_families())}]), warnings.catch_warnings():
        # A script that no font here has is drawn as boxes; the report's tables still show the wording.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty white figure that pyplot does not know; sizes in inches."""
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def place_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches from the figure's lower left corner."""
    all_width, all_height = figure.get_size_inches()
    return figure.add_axes((left / all_width, bottom / all_height, width / all_width, height / all_height))


def drawable(text: str, *, width: int, lines: int = 2) -> str:
    r"""Make a wording safe to draw: printable, wrapped to ``width`` letters, cut with an ellipsis, ``$`` escaped."""
    start = text[: 2 * width * (lines + 1)]
    printable = "".join(character if character.isprintable() else " " for character in start)
    wrapped = textwrap.wrap(printable, width=width)
    if len(wrapped) > lines:
        # Not textwrap's own cut: it drops a last word that is longer than a line.
        wrapped = [*wrapped[: lines - 1], wrapped[lines - 1][: width - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"]
    return "\n".join(wrapped).replace("$", r"\$")


def is_whole(wrapped: str, text: str) -> bool:
    """Tell whether `plain` neither cut a wording nor broke one of its words."""
    return wrapped.replace("\n", " ").replace(r"\$", "$") == " ".join(text.split())


def extent(texts: Sequence[str], *, size: float, bold: bool = False) -> tuple[float, float]:
    """Return the widest and the highest text, in inches, as `drawing` draws them; 0 without texts."""
    with drawing():
        measured = [_extent(text, size, bold, _families()) for text in texts]
    return max((width for width, _ in measured), default=0.0), max((height for _, height in measured), default=0.0)


def height_of(texts: Sequence[str], *, size: float) -> float:
    """Return the height of the tallest text, in inches, from its number of lines."""
    return LEADING * size / 72 * max(text.count("\n") + 1 for text in texts)


def fill(text: str, *, width: float, size: float) -> str:
    """Wrap one of our sentences to a width in inches."""
    return textwrap.fill(text, width=max(int(width * 72 / (0.58 * size)), 20))


def write_ticks(axis: Axis, *, signed: bool = False, whole: bool = False, most: int = 6) -> None:
    """Fix an axis' ticks within its limits at round places, formatted as in the report; counts are ``whole``."""
    low, high = sorted(axis.get_view_interval())
    axis.set_ticks(*ticks_between(low, high, signed=signed, whole=whole, most=most))


def ticks_between(
    low: float, high: float, *, signed: bool = False, whole: bool = False, most: int = 6
) -> tuple[list[float], list[str]]:
    """Return about five round places from `low` to `high`, or fewer, and their labels."""
    locator = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10], integer=whole)
    places = [float(place) for place in locator.tick_values(low, high)]
    step = places[1] - places[0]
    decimals = next(n for n in range(12) if n == 11 or math.isclose(round(step, n), step, rel_tol=1e-6))
    shown = [place for place in places if low <= place <= high]
    return shown, [fixed(place, decimals=decimals, signed=signed) for place in shown]


@lru_cache(maxsize=4096)
def _extent(text: str, size: float, bold: bool, families: tuple[str, ...]) -> tuple[float, float]:
    scratch = new_figure(1, 1)
    scratch.set_dpi(288)
    drawn = scratch.text(0, 0, text, fontsize=size, fontweight="bold" if bold else "normal", family=families)
    box = drawn.get_window_extent()
    return float(box.width) / 288, float(box.height) / 288


@lru_cache(maxsize=1)
def _families() -> tuple[str, ...]:
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in _WIDE_FONTS if name in installed))


def _slim(svg: str) -> str:
    """Cut an SVG to about a third: a class for each style, two decimals, and fonts that other machines have."""
    own_fonts = ", ".join(map(repr, _families()))
    classes: dict[str, str] = {}

    def class_of(found: re.Match[str]) -> str:
        return f' class="{classes.setdefault(found[1], f"s{len(classes)}")}"'

    def slim_tag(found: re.Match[str]) -> str:
        tag = re.sub(r"(\d\.\d\d)\d+", r"\1", found[0])
        tag = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", tag)
        return re.sub(r' style="([^"]*)"', class_of, tag)

    # Only within tags: the text between them comes from users, with "<" and ">" escaped.
    slimmed = re.sub(r"<(?!style|\?|!)[^<>]+>", slim_tag, svg)
    slimmed = re.sub(r'<g id="text_\d+">\s*(<text [^<>]*>[^<>]*</text>)\s*</g>', r"\1", slimmed)
    rules = "".join(f".{name}{{{rule}}}" for rule, name in classes.items()).replace(own_fonts, _SVG_FONTS)
    return slimmed.replace("</style>", f"{rules}</style>", 1)
