"""The page of a measure beside people: its corrected gaps first, then where it is off, and how far people agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from audit.comparing.page import comparison_prose
from audit.report.numbers import PlacedRow, rounded, show, show_rounded_interval
from audit.report.page import isolated, prose, render_page
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Note, present, section
from audit.report.summary import ShortAnswer, Summary, summary
from audit.report.table_layout import ShownColumn, number_column
from audit.tables.formatting import OF_GROUPS_AND_MODELS, brief, dimension_title, unsigned
from audit.tables.shared import OVERALL
from audit.tables.validation import VALIDATION_TABLES

_ESTIMATORS: Final = {
    "measure": "the measure alone",
    "people": "people alone",
    "ppi": "corrected",
    "ppi_tuned": "corrected, tuned",
}
_CODES: Final = {"higher": "scores higher than people", "lower": "scores lower than people", "not_shown": "not shown"}
_WHATS: Final = {
    "experiencer": "replies to",
    "perceiver": "replies by",
    "in_group": "in-group replies",
    "score": "the measure's score",
    "delta": "the measure's δ",
    "disparity": "the measure's D of",
    "spread": "how far the measure's scores are from their mean",
    "place": "place in the run",
}


def render_validation(
    tables: Mapping[str, pd.DataFrame],
    measure: Mapping[str, Any],  # its row of ``tables.MEASURES``
    *,
    remarks: Sequence[str],
    confidence: float,
    command: str,
) -> str:
    """Render the page, as HTML that can be encoded as UTF-8; ``tables`` are those of ``VALIDATION_TABLES``."""
    results = Results(tables, VALIDATION_TABLES, confidence)
    first = _summary(results, measure, alpha=1 - confidence)
    pooled = [row for row in results.rows("human_correlations") if row["emotion"] == OVERALL]
    single = [row for row in results.rows("human_correlations") if row["emotion"] != OVERALL]
    correlated = ("rho", "rho_low", "tau", "tau_low", ("n", "replies"), "n_narratives", "note")
    sections = [
        page_section(
            "answer", "Answer", "Which gaps would people's scores show?",
            prose("macros", "summarise", first), comparison_prose("validated"),
            section("What limits this", *map(Note, map(isolated, remarks)), anchor="limiting"),
        ),
        page_section(
            "gaps", "Gaps", "Each gap by the measure, by people, and corrected",
            results.table(
                "corrected_gaps", f"Gaps in {measure['title']}",
                ShownColumn("gap", _gap), "dimension",
                ShownColumn("estimated by", lambda row: _ESTIMATORS[str(row["estimator"])], words=True),
                ("estimate", "gap"), "ci_low", "p_adjusted", number_column("λ", "tuning", unsigned),
                ("n_replies", "replies"), ("n_labels", "labelled"),
                ("n_labelled_narratives", "narratives of these"), "note",
            ),
            comparison_prose("corrected"),
        ),
        page_section(
            "errors", "Errors", "Where the measure is off",
            results.table(
                "measure_errors", "The measure's score minus people's, by whom the replies are to",
                ShownColumn("replies", _error_of), "dimension",
                ShownColumn("compared with others", lambda row: _CODES.get(str(row["code"]), ""), words=True),
                ("difference", "difference"), "ci_low", "p_adjusted", ("error", "error"), "error_low",
                ("n_labels", "labelled"), "note",
            ),
            comparison_prose("measure_errors"),
        ),
        page_section(
            "agreement", "Agreement", "How far people agree with each other and with the measure",
            results.table(
                "agreement", "Krippendorff's α",
                ("question", "between"), "alpha", "ci_low", ("n_items", "replies"), "n_narratives", "n_scores", "note",
            ),
            results.table(
                "human_correlations", "Does the measure rank replies as people do?",
                "measure", *correlated, rows=pooled,
            ),
            section(
                "Emotion by emotion",
                results.table(
                    "human_correlations", "The same within each emotion", "emotion", *correlated, rows=single
                ),
                look="folded",
            ),
        ),
        page_section(
            "labelled", "Labelled replies", "Which replies people scored",
            results.table(
                "labelled_replies", "Labelled replies beside all",
                ShownColumn("what", _what), "dimension", number_column("labelled", "labelled", unsigned),
                number_column("all", "all", unsigned), "p", ("n_labels", "labelled, n"),
            ),
            comparison_prose("labelled"),
        ),
        page_section("limits", "Limits", "What this does not show", comparison_prose("limits_of_validation")),
        page_section(
            "reproduce", "Reproduce", "How to reproduce it", comparison_prose("reproduce_validation", command)
        ),
    ]  # fmt: skip
    return render_page(
        "run.html.j2",
        title=f"A measure of replies beside people: {measure['measure']}",
        heading=Markup("<bdi>{}</bdi>: as people would score it").format(measure["title"]),
        kicker="empathy-audit validation of a measure",
        asked=[first.asked],
        sections=present(*sections),
    )


def _summary(results: Results, measure: Mapping[str, Any], *, alpha: float) -> Summary:
    """Write the first screen: the corrected gaps beside the measure's own, and for whom the measure is off."""
    corrected = [row for row in results.rows("corrected_gaps") if row["headline"]]
    alone = {_key(row): row for row in results.rows("corrected_gaps", estimator="measure")}
    findings = [_finding(row, alone.get(_key(row)), measure, level=results.level, alpha=alpha) for row in corrected]
    off = [row for row in results.rows("measure_errors") if row["code"] in ("higher", "lower")]
    pooled = next((row for row in results.rows("human_correlations") if row["emotion"] == OVERALL), None)
    agrees = Markup("")
    if pooled is not None and math.isfinite(pooled.number("rho")):
        agrees = Markup("Spearman's ρ with people's mean scores: {} ({} interval {}).").format(
            show(pooled, "rho", rounded(pooled, "rho_low", "rho_high")), results.level,
            show_rounded_interval(pooled, "rho_low", "rho_high"),
        )  # fmt: skip
    return summary(
        Markup("Every reply has a number of the measure <bdi>{}</bdi>; people scored a sample of the replies").format(
            measure["measure"]
        ),
        findings,
        [
            ("Off for", Markup("; ").join(_off(row, measure) for row in off) + ("." if off else "")),
            ("Ranks as people do", agrees),
        ],
        not_concluded=[
            "that the measure is right where no error is shown",
            "what other raters would say",
            *(["that there is no gap where none is shown"] if any(each.kind != "gap" for each in findings) else []),
            OF_GROUPS_AND_MODELS,
        ],
        source=Markup("<bdi>{}</bdi>, corrected by people's scores.").format(measure["title"]),
        chosen_by="how far the corrected gap is from 0, in standard errors",
    )


def _key(row: PlacedRow) -> tuple[object, ...]:
    return tuple(row[name] for name in ("dimension", "variant", "gap", "group"))


def _finding(
    row: PlacedRow, alone: PlacedRow | None, measure: Mapping[str, Any], *, level: str, alpha: float
) -> ShortAnswer:
    """Say what the corrected gap shows, and what the measure alone has."""
    title = Markup("{}: {}").format(dimension_title(str(row["dimension"])), _gap(row))
    if not math.isfinite(row.number("ci_low")):
        return ShortAnswer(title, f"Not corrected: {row['note']}.", kind="absent")
    found = row.number("p_adjusted") < alpha
    way = "higher" if row.number("estimate") > 0 else "lower"
    verdict = f"People's scores are {way}" if found else "No difference is shown in people's scores"
    spread = Markup("{} interval {}").format(level, show_rounded_interval(row))
    if alone is not None:
        spread += Markup("; the measure alone: {}, {}").format(
            show(alone, "estimate", rounded(alone)), show_rounded_interval(alone)
        )
    return ShortAnswer(
        title, verdict, show(row, "estimate", rounded(row)), Markup(" <bdi>{}</bdi>").format(measure["unit"]), spread,
        kind="gap" if found else "undecided", weight=abs(row.number("estimate") / row.number("se")),
    )  # fmt: skip


def _gap(row: PlacedRow) -> Markup:
    if row["gap"] == "delta":
        return Markup("δ, in-group minus out-group")
    return Markup("D, <bdi>{}</bdi> minus the others").format(brief(str(row["group"])))


def _error_of(row: PlacedRow) -> Markup:
    if row["pairs"] == "in_group":
        return Markup("in-group minus out-group")
    return Markup("to <bdi>{}</bdi>").format(brief(str(row["group"])))


def _off(row: PlacedRow, measure: Mapping[str, Any]) -> Markup:
    to = Markup("in-group replies") if row["pairs"] == "in_group" else Markup("replies {}").format(_error_of(row))
    return Markup("{} ({}) are scored {} than by people, compared with the others ({} <bdi>{}</bdi>)").format(
        to, dimension_title(str(row["dimension"])), row["code"], show(row, "difference", rounded(row)), measure["unit"]
    )


def _what(row: PlacedRow) -> Markup:
    return Markup("{} <bdi>{}</bdi>").format(_WHATS[str(row["what"])], brief(str(row["group"])))
