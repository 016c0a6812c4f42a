"""Formats numbers and names for figures and the report, so that both round alike.

Everything before this point is unrounded. The minus is a true minus sign, a value that rounds to zero is "0.00" and
never "−0.00", and a missing value is an en dash.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

MINUS: Final = "\N{MINUS SIGN}"
MISSING: Final = "\N{EN DASH}"
CROSS: Final = "\N{MULTIPLICATION SIGN}"
_NUMERICAL_ZERO: Final = 1e-9  # a smaller gap, on any scale, is floating-point residue
_WIDE: Final = 0.01  # half an interval: from here on two decimals show all that it supports
_LEAST_SHOWN: Final = 0.005  # in two decimals, whatever is smaller is 0.00
_JOINERS: Final = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # Persian and Indic names need them, and emoji
OVERRIDES: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Bidirectional embeddings, overrides and isolates: with one in its name, a model could rewrite a line of the page."""
_MARKDOWN: Final = re.compile(
    r"[^A-Za-z0-9 ,;+()%'/._:-]|(?<=\bwww)\.|(?<=\A[0-9])\.(?![0-9])|(?<=\A[0-9]{2})\.(?![0-9])|:(?! |\Z)"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])",
    re.ASCII | re.IGNORECASE,
)
"""Characters that Markdown or its HTML may interpret: links, mentions, emphasis, emoji, lists, cell ends."""
_NO_WIDTH: Final = "&#8203;"
"""A zero-width space: repository pages link a name after "@" and a number after "#", even as entities."""
BEYOND: Final = (
    "after removing two things: that some perceivers rate everyone higher, and that some experiencers are rated higher "
    "by everyone"
)
"""What δ leaves out: if groups differ in size, in-group means can be below out-group means while δ is positive."""
MEANING: Final = f"how much higher in-group experiencers are rated than out-group ones, {BEYOND}"
"""The meaning of δ, wherever it is put in words; it is never a difference of two means."""
OF_GROUPS_AND_MODELS: Final = "anything about real people of these groups, other models or other prompts"
"""What no run shows; follows "this does not show:"."""
_DIMENSIONS: Final = {"race_ethnicity": "race/ethnicity", "all": "all dimensions"}
PHONE: Final = "phone/"  # prefix of the names of figures drawn for a phone
SCOPES: Final = {"narratives": "these identities", "narratives_and_terms": "any such identities"}
"""What an interval generalises to, beside any such narratives."""
SAME: Final = "give the same contrast, so their spread is 0"  # note if all narratives have the same gap: no interval
NO_SHIFT: Final = "no shift on the scale explains δ away"  # of a tipping point beyond the length of the scale
OF_RATED: Final = "between identities that have some at all"
"""Restricts a tipping point to some missing ratings if an identity has no ratings."""


def fixed(value: float, *, decimals: int, signed: bool = False) -> str:
    """Write a number with a fixed number of decimals; NaN gives an en dash."""
    if not math.isfinite(value):
        return MISSING
    digits = f"{abs(value):,.{decimals}f}"
    if not any(digit in "123456789" for digit in digits):
        return digits
    sign = MINUS if value < 0 else "+" if signed else ""
    return sign + digits


def points(value: float, *, signed: bool = True) -> str:
    """Write a gap, or the like, in scale points: two decimals, or two significant digits if it is below 0.01."""
    size = abs(value)
    if not _NUMERICAL_ZERO <= size < 0.01:
        return fixed(value, decimals=2, signed=signed)
    return fixed(value, decimals=1 - math.floor(math.log10(size)), signed=signed)


def error_rate(confidence: float) -> str:
    """Write the error rate of tests, 1 − `confidence`: ".05"."""
    return f"{1 - confidence:.6g}".removeprefix("0")


def unsigned(value: float) -> str:
    """Write a size by the rule of `points`, without a plus."""
    return points(value, signed=False)


def magnitude(value: float) -> str:
    """Write the size of a number of either sign."""
    return unsigned(abs(value))


def interval(low: float, high: float) -> str:
    """Write an interval as "low to high", each end by `end_of`."""
    return " to ".join(map(end_of(low, high), (low, high)))


def beside(low: float, high: float) -> Callable[[float], str]:
    """Return the format of a gap beside its interval, without digits that the interval does not support.

    A gap below 0.01 would get two significant digits, which mean nothing beside an interval from -0.33 to 0.34. A gap
    that is found lies farther from 0 than half its interval, so none is shown as 0.00.
    """
    return partial(fixed, decimals=2, signed=True) if (high - low) / 2 >= _WIDE else end_of(low, high)


def end_of(low: float, high: float) -> Callable[[float], str]:
    """Return the format of an interval's ends: two decimals, and more if the interval is narrow.

    Ends of one sign that two decimals cannot tell apart get two significant digits of half their distance. An end that
    two decimals would show as 0.00 keeps its sign.
    """
    half = (high - low) / 2
    same = low * high > 0 and fixed(low, decimals=2) == fixed(high, decimals=2)
    if same and half >= _NUMERICAL_ZERO:
        return partial(fixed, decimals=1 - math.floor(math.log10(half)), signed=True)
    if not half >= _WIDE:
        return points
    return lambda end: points(end) if abs(end) < _LEAST_SHOWN else fixed(end, decimals=2, signed=True)


def p_value(p: float) -> str:
    """Write a p-value with its letter: "p < .001", "p = .012"; a missing one says so."""
    if not math.isfinite(p):
        return "p not available"
    if p < 0.001:
        return "p < .001"
    if p > 0.999:
        return "p > .999"
    return f"p = {p:.3f}".replace("0.", ".", 1)


def bare_p(p: float) -> str:
    """Write a p-value under a heading that names it: "< .001", ".012"; a missing one is an en dash."""
    return p_value(p).removeprefix("p ").removeprefix("= ") if math.isfinite(p) else MISSING


def rate(share: float) -> str:
    """Write a share as a percentage; only 0 reads as 0% and only 1 as 100%."""
    if not math.isfinite(share):
        return MISSING
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    if share < 0.001:
        return "<0.1%"
    if share > 0.999:
        return ">99.9%"
    return f"{share:.1%}"


def count(number: float) -> str:
    """Write a count with thousands separators; a missing one is an en dash."""
    return f"{round(number):,}" if math.isfinite(number) else MISSING


def plural(number: float, noun: str) -> str:
    """Write a count with its noun: "1 rating", "6,528 ratings", "2 replies"."""
    several = f"{noun[:-1]}ies" if noun.endswith("ply") else f"{noun}s"
    return f"{count(number)} {either(number, noun, several)}"


def either(number: float, one: str, several: str) -> str:
    """Choose the form of a word that goes with a count: "has" for 1, "have" for any other."""
    return one if number == 1 else several


def scale_end(value: float) -> str:
    """Write an end of the scale without needless decimals: "0", "100", "0.5"."""
    return f"{value:g}".replace("-", MINUS)


def coverage(confidence: float) -> str:
    """Write an interval's coverage: "95%", "99.5%"."""
    return f"{100 * confidence:.6g}%"


def towards(delta: float) -> str:
    """Say which way a gap goes, without saying that either side's mean is higher."""
    return f"towards the {'out' if delta < 0 else 'in'}-group"


def listed(names: Sequence[str], *, last: str = "and") -> str:
    """Write a list: "a", "a and b", "a, b and c"."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def first_few(names: Sequence[str], at_most: int = 3) -> str:
    """List the first names, and how many more there are: "a, b and 7 more"."""
    rest = len(names) - at_most
    return listed([*names[:at_most], f"{rest} more"] if rest > 0 else names)


def brief(name: str, *, at_most: int = 120) -> str:
    """Shorten a very long name to its beginning and its length."""
    return name if len(name) <= at_most else f"{name[:at_most]}… ({len(name):,} characters)"


def percentage_points(difference: float) -> str:
    """Write a difference of shares in percentage points."""
    return fixed(100 * difference, decimals=1, signed=True)


def mean_count(value: float) -> str:
    """Write a mean count: whole if it is whole, else with one decimal."""
    return count(value) if not math.isfinite(value) or value == round(value) else fixed(value, decimals=1)


def printable(text: str) -> str:
    r"""Make outside text safe for a terminal: characters that would act or hide there are escaped, e.g. ``\x1b``."""
    return "".join(map(_printable, text))


def encodable(text: str) -> str:
    """Replace what UTF-8 cannot hold: folder names may have bytes that are not text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def in_markdown(text: str) -> str:
    """Make outside text, such as a model's name, safe for Markdown and its HTML: active characters become entities."""
    return _MARKDOWN.sub(lambda found: _entity(found[0]), printable(text))


def _entity(character: str) -> str:
    if ord(character) > 127:
        return character
    return f"&#{ord(character)};{_NO_WIDTH if character in '@#' else ''}"


def without_overrides(text: str) -> str:
    r"""Escape what reverses the following text, e.g. ``\u202e``; marks that right-to-left scripts need stay."""
    return OVERRIDES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _printable(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if unicodedata.category(character) == "Zs":  # a spreadsheet's no-break space means no more than a space
        return " "
    return character.encode("unicode_escape").decode("ascii")


def dimension_title(dimension: str) -> str:
    """Write a dimension's name for people: "race_ethnicity+religion" is "race/ethnicity × religion"."""
    names = (brief(_DIMENSIONS.get(name, name.replace("_", " "))) for name in dimension.split("+"))
    return f" {CROSS} ".join(names)
