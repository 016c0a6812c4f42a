"""What stands beside the measures of replies: the judge's own gap, people, EPITOME's strategies, recognition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rows_of, show, show_interval
from audit.report.tables import Table
from audit.tables.shared import OVERALL
from audit.wording import MISSING, bare_p, brief, count, coverage, dimension_title, points, rate, unsigned

_PARTS = {
    "all": "all answers",
    "speaker": "said by",
    "experiencer": "told to be said by",
    "perceiver": "read by",
    "pairs": "pairs",
}
"""What answers to an utterance are divided by, as a reader is told."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The tables that a run has of these; None where it has none of a kind.

    Attributes
    ----------
    judge_gap, judge_effects
        The judge's own gap, and how it scores one text as a reply to each experiencer.
    agreement, correlations
        How far raters agree; how far measures order replies as they do, all emotions together.
    by_emotion
        The same for each emotion.
    epitome
        Which mechanisms show, and where people's replies have them.
    recognition, labels
        How well emotions are recognised, and each label by itself.
    causes
        How well causes are found.
    """

    judge_gap: Table | None
    judge_effects: Table | None
    agreement: Table | None
    correlations: Table | None
    by_emotion: Table | None
    epitome: Table | None
    recognition: Table | None
    labels: Table | None
    causes: Table | None


def beside(tables: Mapping[str, pd.DataFrame], titles: Mapping[str, str], *, confidence: float) -> Beside:
    """Show what stands beside the measures.

    Parameters
    ----------
    tables
        The tables of ``tables.REPLY_TABLES`` by name, as they are written; an absent one counts as empty.
    titles
        Measure → what it is called.
    confidence
        Coverage of the intervals.
    """
    level = coverage(confidence)
    rows = {name: rows_of(table, name) for name, table in tables.items()}
    correlations = rows.get("human_correlations", [])
    pooled = [row for row in correlations if row["emotion"] == OVERALL]
    single = [row for row in correlations if row["emotion"] != OVERALL]
    headlines = [row for row in rows.get("judge_gap", []) if row["headline"] and row["scope"] == "narratives"]
    return Beside(
        judge_gap=_judge_gap(headlines, titles, level=level),
        judge_effects=_judge_effects(rows.get("judge_effects", []), titles, level=level),
        agreement=_agreement(rows.get("agreement", []), level=level),
        correlations=_correlations(pooled, titles, level=level, emotions=False),
        by_emotion=_correlations(single, titles, level=level, emotions=True),
        epitome=_epitome(rows.get("epitome", []), level=level),
        recognition=_recognition(rows.get("recognition", []), level=level),
        labels=_labels([row for row in rows.get("recognition_labels", []) if row["by"] == OVERALL], level=level),
        causes=_causes(rows.get("recognition_causes", []), level=level),
    )


def _judge_gap(rows: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Table | None:
    head = ("dimension", "judged measure", "own gap, points", f"{level} interval", "p", "narratives", "note")
    return _table(
        head,
        [
            (
                dimension_title(str(row["dimension"])),
                _title(row["measure"], titles),
                show(row, "delta_points", points),
                show_interval(row),
                show(row, "p", bare_p),
                show(row, "n_narratives", count),
                str(row["note"] or ""),
            )
            for row in rows
        ],
        words=(1, 6),
    )


def _judge_effects(rows: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Table | None:
    head = ("judged measure", "dimension", "as a reply to", "effect, points", f"{level} interval", "corrected p")
    return _table(
        (*head, "replies"),
        [
            (
                _title(row["measure"], titles),
                dimension_title(str(row["dimension"])),
                _bdi(row["experiencer"]),
                show(row, "effect", points),
                show_interval(row),
                show(row, "p_adjusted", bare_p),
                show(row, "n_replies", count),
            )
            for row in rows
        ],
        words=(1, 2),
    )


def _agreement(rows: Sequence[Row], *, level: str) -> Table | None:
    return _table(
        (
            "question",
            "Krippendorff's α",
            f"{level} interval",
            "raters",
            "replies with two or more",
            "narratives",
            "scores",
            "note",
        ),
        [
            (
                _bdi(row["question"]),
                show(row, "alpha", points),
                show_interval(row),
                show(row, "n_raters", count),
                show(row, "n_items", count),
                show(row, "n_narratives", count),
                show(row, "n_scores", count),
                str(row["note"] or ""),
            )
            for row in rows
        ],
        words=(7,),
    )


def _correlations(rows: Sequence[Row], titles: Mapping[str, str], *, level: str, emotions: bool) -> Table | None:
    head = ("question", "measure", *(["emotion"] if emotions else []), "Spearman's ρ", f"{level} interval")
    return _table(
        (*head, "Kendall's τ", f"{level} interval", "replies", "narratives", "note"),
        [
            (
                _bdi(row["question"]),
                _title(row["measure"], titles),
                *([_bdi(row["emotion"])] if emotions else []),
                show(row, "rho", points),
                show_interval(row, "rho_low", "rho_high"),
                show(row, "tau", points),
                show_interval(row, "tau_low", "tau_high"),
                show(row, "n", count),
                show(row, "n_narratives", count),
                str(row["note"] or ""),
            )
            for row in rows
        ],
        words=(1, 2, 9) if emotions else (1, 8),
    )


def _epitome(rows: Sequence[Row], *, level: str) -> Table | None:
    head = ("mechanism", "by", "dimension", "shown in", f"{level} interval", "replies", "narratives")
    labelled = any(row.number("n_labelled") for row in rows)
    against = ("precision", "recall", "f1", "accuracy") if labelled else ()
    return _table(
        (*head, *({"f1": "F1"}.get(name, name) for name in against)),
        [
            (
                str(row["mechanism"]).replace("_", " "),
                str(row["by"]),
                dimension_title(str(row["dimension"])),
                show(row, "share", rate),
                _share_interval(row, "ci_low", "ci_high"),
                show(row, "n_replies", count),
                show(row, "n_narratives", count),
                *(show(row, name, unsigned) for name in against),
            )
            for row in rows
        ],
        words=(1, 2),
    )


def _recognition(rows: Sequence[Row], *, level: str) -> Table | None:
    head = ("answers", "dimension", "accuracy", f"{level} interval", "macro F1", f"{level} interval", "unreadable")
    return _table(
        (*head, "answers, n", "utterances", "note"),
        [
            (
                _part(row),
                dimension_title(str(row["dimension"])),
                show(row, "accuracy", rate),
                _share_interval(row, "accuracy_low", "accuracy_high"),
                show(row, "macro_f1", unsigned),
                _share_interval(row, "macro_f1_low", "macro_f1_high", unsigned),
                show(row, "unreadable", rate),
                show(row, "n", count),
                show(row, "n_narratives", count),
                str(row["note"] or ""),
            )
            for row in rows
        ],
        words=(1, 9),
    )


def _causes(rows: Sequence[Row], *, level: str) -> Table | None:
    head = ("answers", "dimension", "exact match", f"{level} interval", "F1", f"{level} interval")
    return _table(
        (*head, "exact, marked", "F1, marked", "said none, unmarked", "answers, n", "utterances", "note"),
        [
            (
                _part(row),
                dimension_title(str(row["dimension"])),
                show(row, "exact", rate),
                _share_interval(row, "exact_low", "exact_high"),
                show(row, "f1", unsigned),
                _share_interval(row, "f1_low", "f1_high", unsigned),
                show(row, "exact_marked", rate),
                show(row, "f1_marked", unsigned),
                show(row, "told_unmarked", rate),
                show(row, "n", count),
                show(row, "n_narratives", count),
                str(row["note"] or ""),
            )
            for row in rows
        ],
        words=(1, 11),
    )


def _labels(rows: Sequence[Row], *, level: str) -> Table | None:
    return _table(
        ("label", "dimension", "precision", "recall", "F1", f"{level} interval", "right one of", "given"),
        [
            (
                _bdi(row["label"]),
                dimension_title(str(row["dimension"])),
                show(row, "precision", unsigned),
                show(row, "recall", unsigned),
                show(row, "f1", unsigned),
                _share_interval(row, "f1_low", "f1_high", unsigned),
                show(row, "support", count),
                show(row, "n_predicted", count),
            )
            for row in rows
        ],
        words=(1,),
    )


def _part(row: Row) -> Markup:
    """Say which answers a row is of."""
    level = Markup("") if row["by"] == OVERALL else _bdi(str(row["level"]).replace("_", "-"))
    return Markup("{} {}").format(_PARTS.get(str(row["by"]), str(row["by"])), level)


def _share_interval(row: Row, low: str, high: str, write: Callable[[float], str] = rate) -> Markup:
    """Write an interval of a share, in percent unless another way is named; an en dash where there is none."""
    if row.number(low) != row.number(low):
        return Markup(MISSING)
    return Markup("{} to {}").format(show(row, low, write), show(row, high, write))


def _table(head: Sequence[str], rows: Sequence[tuple[str, ...]], *, words: Sequence[int] = ()) -> Table | None:
    return Table(tuple(head), tuple(rows), words=frozenset(words)) if rows else None


def _title(measure: object, titles: Mapping[str, str]) -> Markup:
    return _bdi(titles.get(str(measure), str(measure)))


def _bdi(name: object) -> Markup:
    return Markup("<bdi>{}</bdi>").format(brief(str(name)))
