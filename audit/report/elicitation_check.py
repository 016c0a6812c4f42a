"""Compare ratings read from probabilities with ratings that the model wrote, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow, show, show_interval
from audit.report.results import Results
from audit.report.section import Section, paragraph, section
from audit.report.table_layout import said
from audit.runs.manifest import Noise
from audit.tables.formatting import count, fixed, magnitude, plural, points, rate, unsigned

_CAPTION = "δ of the same prompts, from the model's probabilities and from its written answers"
_METHODS = {"expected": "from probabilities", "generate": "written by the model"}
_NO_TEXT = Markup(
    "The model was also asked to write its answers. None of {} contains a number of the scale ({} refused, {} "
    "unparseable). So all ratings on this page come from its probabilities, not from what it writes."
)
_OUTCOMES = Markup("The model also wrote an answer to {} prompts: {} were rated, {} refused and {} unparseable.")
_AGREE = Markup(
    " In the {} prompts with both ratings, the two correlate at {} (ranks: {}). The written rating is {} points {} on "
    "average."
)
_MEAN = Markup(" In the {} prompts with both ratings, the written one is {} points {} on average.")
_USED: Final = Markup(
    " δ of the written ratings uses {} of these {}: the others are in narratives with too few ratings to show a gap."
)
_DIFFERENT = Markup(
    " δ of the written ratings differs from δ of the probabilities by {} points ({} interval {}). So the result "
    "depends on how ratings are obtained."
)
_UNDECIDED = Markup(
    " Whether the two give different δ is undecided: written minus probabilities is {} points ({} interval {})."
)
_ALIKE: Final = Markup(
    " In {} of the narratives of this sample, the model wrote the same number for all identities: what it wrote there "
    "shows no gap and no disparity."
)
_NOISE = Markup(
    "Repeatability: when asked again with other {}, ratings of {} changed by {} points (root mean square; at most {}). "
    "If all prompts were asked again, δ would change by about {} points (one standard deviation)."
)
_FORMAT: Final = Markup(
    " In another {1}, ratings of the same {0}, in the same order and batches, changed by {2} points (root mean square; "
    "at most {3}). If all prompts were asked in that format and the changes were independent, δ would change by about "
    "{4} points (one standard deviation)."
)


def elicited(own: Results, noise: Noise | None, formats: Mapping[str, Noise]) -> Section | None:
    """Say whether numbers read from probabilities match what the model writes, and how repeatable they are."""
    written = own.row("elicitation", method="generate")
    again = _again(own.row("controls", control="noise"), noise)
    for name, of_format in formats.items():
        again += _in_format(own.row("controls", control=f"noise_{name}"), of_format)
    return section(
        "Do written answers match the probabilities?",
        paragraph(_in_words(written, own.row("controls", control="elicitation"), level=own.level)) if written else None,
        own.table(
            "elicitation", _CAPTION, said("method", "rating", _METHODS), "delta", "ci_low", "p", "n_narratives",
            ("n_answers", "prompts with both ratings"), ("refusal_rate", "refused"), "note",
        ) if written else None,
        paragraph(again, "small"),
        look="subheading",
    )  # fmt: skip


def _in_words(row: PlacedRow, used: PlacedRow | None, *, level: str) -> Markup:
    of_all, rated, refused, unparseable = (
        show(row, name, count) for name in ("n_prompts", "n_rated", "n_refused", "n_unparseable")
    )
    if not row["n_rated"]:
        return _NO_TEXT.format(of_all, refused, unparseable)
    words = _OUTCOMES.format(of_all, rated, refused, unparseable)
    apart = row.number("mean_difference")
    if math.isfinite(apart):
        n = show(row, "n_answers", count)
        higher = "higher" if apart >= 0 else "lower"
        mean = show(row, "mean_difference", magnitude)
        correlations = [show(row, name, lambda value: fixed(value, decimals=2)) for name in ("pearson", "spearman")]
        known = math.isfinite(row.number("pearson"))
        words += _AGREE.format(n, *correlations, mean, higher) if known else _MEAN.format(n, mean, higher)
    if row.number("share_alike") > 0:
        words += _ALIKE.format(show(row, "share_alike", rate))
    if used is not None and 0 < used.number("n_answers") < row.number("n_rated"):
        words += _USED.format(show(used, "n_answers", count), rated)
    low, high = row.number("difference_low"), row.number("difference_high")
    if math.isfinite(low):
        found = _UNDECIDED if low <= 0 <= high else _DIFFERENT
        spread = show_interval(row, "difference_low", "difference_high")
        words += found.format(show(row, "difference", points), level, spread)
    return words


def _again(row: PlacedRow | None, noise: Noise | None) -> Markup:
    if row is None or noise is None or not math.isfinite(row.number("se")):
        return Markup("")
    return _NOISE.format(
        noise.varied or "circumstances",
        plural(noise.n, "prompt"),
        unsigned(noise.rms_points),
        unsigned(noise.max_points),
        show(row, "se", unsigned),
    )


def _in_format(row: PlacedRow | None, noise: Noise) -> Markup:
    if row is None or not math.isfinite(row.number("se")):
        return Markup("")
    return _FORMAT.format(
        plural(noise.n, "prompt"),
        noise.varied or "number format",
        unsigned(noise.rms_points),
        unsigned(noise.max_points),
        show(row, "se", unsigned),
    )
