"""Compare ratings read from probabilities with ratings that the model wrote, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from audit.report.numbers import Row, show, show_interval
from audit.report.section import Section, captioned, paragraph, section
from audit.report.table_layout import Column, Table, interval, number, table_of, text
from audit.runs.manifest import Noise
from audit.tables.formatting import bare_p, count, fixed, plural, rate, unsigned
from audit.tables.formatting import points as write_points

_CAPTION = "δ of the same prompts, read from the model's probabilities and written in words"
_METHODS = {"expected": "read from the probabilities", "generate": "written in words"}
_NO_TEXT = Markup(
    "Asked to write its answer, the model stated a number of the scale in none of {} answers ({} refused, {} "
    "unparseable): the ratings of this page are what its probabilities say, and never what it writes."
)
_OUTCOMES = Markup("Of {} prompts that were also answered in words, {} were rated, {} refused and {} unparseable.")
_AGREE = Markup(
    " Over the {} that have both ratings, the two correlate by {} (ranks: {}), and the written one is {} points {} on "
    "average."
)
_MEAN = Markup(" Over the {} that have both ratings, the written one is {} points {} on average.")
_DIFFERENT = Markup(
    " Written in words, the gap differs from that of the probabilities by {} points ({} interval {}): how the rating "
    "is got matters here."
)
_UNDECIDED = Markup(
    " Whether the two ways give different gaps is undecided: written minus read, {} points ({} interval {})."
)
_NOISE = Markup(
    "Asked again with other {}, {} gave ratings that differ by {} points (root mean square; at most {}). If all "
    "prompts were asked again, δ would vary by {} points (one standard deviation)."
)
_FORMAT: Final = Markup(
    " The same {} once more in that order and these batches, in another {}, gave ratings that differ from those by {} "
    "points (root mean square; at most {}). If all prompts were asked in that format and their differences were "
    "independent, δ would vary by {} points (one standard deviation)."
)


def elicited(
    rows: Sequence[Row],
    controls: Sequence[Row],
    noise: Noise | None,
    formats: Mapping[str, Noise],
    *,
    title: str,
    level: str,
) -> Section | None:
    """Say whether numbers read from probabilities match what the model writes, and what asking again changed.

    ``rows`` and ``controls`` are of ``tables.ELICITATION`` and ``tables.CONTROLS``, of one dimension and variant.
    ``noise`` is about prompts asked again, ``formats`` about those asked in another number format, by its name. None if
    nothing was asked once more.
    """
    written = next((row for row in rows if row["method"] == "generate"), None)
    by_control = {str(row["control"]): row for row in controls}
    again = _again(by_control.get("noise"), noise)
    for name, own in formats.items():
        again += _in_format(by_control.get(f"noise_{name}"), own)
    found = (
        (
            paragraph(_in_words(written, level=level)),
            captioned(_table(rows, level=level), f"{title}: {_CAPTION}"),
        )
        if written
        else ()
    )
    return section("Does the number match the text?", *found, paragraph(again, "small"), look="subheading")


def _in_words(row: Row, *, level: str) -> Markup:
    of_all, rated, refused, unparseable = (
        show(row, name, count) for name in ("n_prompts", "n_rated", "n_refused", "n_unparseable")
    )
    if not row["n_rated"]:
        return _NO_TEXT.format(of_all, refused, unparseable)
    said = _OUTCOMES.format(of_all, rated, refused, unparseable)
    apart = row.number("mean_difference")
    if math.isfinite(apart):
        n = show(row, "n_answers", count)
        higher = "higher" if apart >= 0 else "lower"
        mean = show(row, "mean_difference", lambda value: unsigned(abs(value)))
        correlations = [show(row, name, lambda value: fixed(value, decimals=2)) for name in ("pearson", "spearman")]
        known = math.isfinite(row.number("pearson"))
        said += _AGREE.format(n, *correlations, mean, higher) if known else _MEAN.format(n, mean, higher)
    low, high = row.number("difference_low"), row.number("difference_high")
    if math.isfinite(low):
        words = _UNDECIDED if low <= 0 <= high else _DIFFERENT
        spread = show_interval(row, "difference_low", "difference_high")
        said += words.format(show(row, "difference", write_points), level, spread)
    return said


def _table(rows: Sequence[Row], *, level: str) -> Table:
    return table_of(
        rows,
        Column("rating", lambda row: _METHODS.get(str(row["method"]), str(row["method"]))),
        number("δ, points", "delta", write_points),
        interval(level),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        number("prompts used", "n_answers", count),
        number("refused", "refusal_rate", rate),
        text("note", "note"),
    )


def _again(row: Row | None, noise: Noise | None) -> Markup:
    if row is None or noise is None or not math.isfinite(row.number("se")):
        return Markup("")
    return _NOISE.format(
        noise.varied or "circumstances",
        plural(noise.n, "prompt"),
        unsigned(noise.rms_points),
        unsigned(noise.max_points),
        show(row, "se", unsigned),
    )


def _in_format(row: Row | None, noise: Noise) -> Markup:
    if row is None or not math.isfinite(row.number("se")):
        return Markup("")
    return _FORMAT.format(
        plural(noise.n, "prompt"),
        noise.varied or "number format",
        unsigned(noise.rms_points),
        unsigned(noise.max_points),
        show(row, "se", unsigned),
    )
