"""The sections beside the measures of replies: the judge's own gap, people, EPITOME's mechanisms, recognition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rows_of
from audit.report.section import Block, Captioned, Paragraph, Section, captioned, present, section
from audit.report.table_layout import Column, Table, interval, named, names, number, plain_interval, table_of, text
from audit.tables.formatting import bare_p, count, coverage, dimension_title, points, rate, unsigned
from audit.tables.shared import OVERALL

_PARTS = {
    "all": "all answers",
    "speaker": "said by",
    "experiencer": "told to be said by",
    "perceiver": "read by",
    "pairs": "pairs",
}
"""How answers to an utterance are grouped, in words for the reader."""
_DIMENSION: Final = Column("dimension", lambda row: dimension_title(str(row["dimension"])), words=True)
_OF_RECOGNITION: Final = Markup(
    "An answer without a readable label is wrong, and counted as unreadable. Intervals are from resampled "
    "conversations. Speakers' own identities are those of the corpus: their utterances differ in what there is to "
    "recognise, too. The corpus' label is one reading; people who label conversations often disagree."
)
_OF_CAUSES: Final = Markup(
    "<em>Marked</em> are the answers about utterances of which people marked words as the cause; of the others an "
    "answer is right that says that nothing said is the cause. Answers without a word are in no number. Intervals are "
    "from resampled conversations. Speakers' own identities are those of the corpus: their utterances differ in what "
    "there is to find, too. The marked words are one choice of where a cause begins and ends."
)
_OF_PEOPLE: Final = Markup(
    "δ of people's scores stands with the measures of each dimension above, as <em>people: …</em>. It is of the "
    "replies that were rated, a sample."
)
_OF_ORDER: Final = Markup(
    "Narratives are resampled as a whole, since replies to one are not independent. That a measure orders replies as "
    "people do says nothing about its δ. α is of ordinal scores; it is low where raters disagree, and where all "
    "replies are alike."
)
_OF_JUDGE: Final = Markup(
    "Some replies were judged again, their text unchanged, as replies to every experiencer. What the judge then scores "
    "differently is the judge's, not the reply's."
)
_OF_JUDGED: Final = Markup(
    "δ of a judged measure holds the judge's own gap, too: hold the two against each other. Effects of single "
    "experiencers cancel in δ, and not in the means of pairs."
)


def beside(tables: Mapping[str, pd.DataFrame], titles: Mapping[str, str], *, confidence: float) -> Iterator[Section]:
    """Yield a section for each topic beside the measures.

    ``tables`` are those of ``tables.REPLY_TABLES``, an absent one counts as empty; ``titles`` names each measure.
    """
    level = coverage(confidence)
    rows = {name: rows_of(table, name) for name, table in tables.items()}
    headlines = [row for row in rows.get("judge_gap", []) if row["headline"] and row["scope"] == "narratives"]
    labels = [row for row in rows.get("recognition_labels", []) if row["by"] == OVERALL]
    recognition = captioned(
        _recognition(rows.get("recognition", []), level=level),
        "Accuracy and macro F1, of all answers and by whose they are",
    )
    if recognition:
        yield _page(
            "recognition", "Recognition", "How well emotions are recognised",
            recognition,
            Paragraph(_OF_RECOGNITION, "small"),
            section("Label by label", captioned(_labels(labels, level=level), "Each label, over all answers"),
                    look="folded"),
        )  # fmt: skip
    causes = captioned(
        _causes(rows.get("recognition_causes", []), level=level),
        "Exact match and F1 of words, of all answers and by whose they are",
    )
    if causes:
        yield _page("causes", "Causes", "How well causes are found", causes, Paragraph(_OF_CAUSES, "small"))
    agreement = captioned(_agreement(rows.get("agreement", []), level=level), "How far raters agree")
    if agreement:
        yield _people(agreement, rows.get("human_correlations", []), titles, level=level)
    judge = present(
        captioned(
            _judge_gap(headlines, titles, level=level),
            "The same texts as replies to in-group minus to out-group experiencers of whoever wrote them, whom the "
            "judge is not told",
        ),
        captioned(
            _judge_effects(rows.get("judge_effects", []), titles, level=level),
            "The same texts as replies to each experiencer, against their mean over all",
        ),
    )
    if judge:
        about, read_so = (Paragraph(_OF_JUDGE), Paragraph(_OF_JUDGED, "small"))
        yield _page("judge", "The judge", "The judge's own gap", about, *judge, read_so)
    epitome = _epitome(rows.get("epitome", []), level=level)
    if epitome.rows:
        against = ", and whether it shows where people's reply to the narrative has it"
        caption = f"In how many replies each mechanism shows{against if 'precision' in epitome.head else ''}"
        yield _page("epitome", "EPITOME", "EPITOME's strategies", captioned(epitome, caption))


def _page(anchor: str, label: str, title: str, *content: Block | None) -> Section:
    return Section(Markup(title), present(*content), anchor=anchor, label=label, look="page")


def _people(agreement: Captioned, correlations: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Section:
    pooled = [row for row in correlations if row["emotion"] == OVERALL]
    single = [row for row in correlations if row["emotion"] != OVERALL]
    ordered = captioned(
        _correlations(pooled, titles, level=level, emotions=False),
        "How far each measure orders replies as people's mean scores do",
    )
    by_emotion = captioned(_correlations(single, titles, level=level, emotions=True), "The same within each emotion")
    return _page(
        "people", "People", "What people say of these replies",
        Paragraph(_OF_PEOPLE),
        agreement,
        ordered,
        Paragraph(_OF_ORDER, "small") if ordered else None,
        section("Emotion by emotion", by_emotion, look="folded"),
    )  # fmt: skip


def _judge_gap(rows: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Table:
    return table_of(
        rows,
        replace(_DIMENSION, words=False),
        _measure("judged measure", titles),
        number("own gap, points", "delta", points),
        interval(level),
        number("p", "p", bare_p),
        number("narratives", "n_narratives", count),
        text("note", "note"),
    )


def _judge_effects(rows: Sequence[Row], titles: Mapping[str, str], *, level: str) -> Table:
    return table_of(
        rows,
        replace(_measure("judged measure", titles), words=False),
        _DIMENSION,
        names("as a reply to", "experiencer", words=True),
        number("effect, points", "effect", points),
        interval(level),
        number("corrected p", "p_adjusted", bare_p),
        number("replies", "n_replies", count),
    )


def _agreement(rows: Sequence[Row], *, level: str) -> Table:
    return table_of(
        rows,
        names("question", "question"),
        number("Krippendorff's α", "alpha", points),
        interval(level),
        number("raters", "n_raters", count),
        number("replies with two or more", "n_items", count),
        number("narratives", "n_narratives", count),
        number("scores", "n_scores", count),
        text("note", "note"),
    )


def _correlations(rows: Sequence[Row], titles: Mapping[str, str], *, level: str, emotions: bool) -> Table:
    return table_of(
        rows,
        names("question", "question"),
        _measure("measure", titles),
        *([names("emotion", "emotion", words=True)] if emotions else []),
        number("Spearman's ρ", "rho", points),
        interval(level, "rho_low", "rho_high"),
        number("Kendall's τ", "tau", points),
        interval(level, "tau_low", "tau_high"),
        number("replies", "n", count),
        number("narratives", "n_narratives", count),
        text("note", "note"),
    )


def _epitome(rows: Sequence[Row], *, level: str) -> Table:
    against = (("precision", "precision"), ("recall", "recall"), ("F1", "f1"), ("accuracy", "accuracy"))
    labelled = any(row.number("n_labelled") for row in rows)
    return table_of(
        rows,
        Column("mechanism", lambda row: str(row["mechanism"]).replace("_", " ")),
        text("by", "by"),
        _DIMENSION,
        number("shown in", "share", rate),
        plain_interval(level, "ci_low", "ci_high", rate),
        number("replies", "n_replies", count),
        number("narratives", "n_narratives", count),
        *(number(head, name, unsigned) for head, name in against if labelled),
    )


def _recognition(rows: Sequence[Row], *, level: str) -> Table:
    return table_of(
        rows,
        Column("answers", _part),
        _DIMENSION,
        number("accuracy", "accuracy", rate),
        plain_interval(level, "accuracy_low", "accuracy_high", rate),
        number("macro F1", "macro_f1", unsigned),
        plain_interval(level, "macro_f1_low", "macro_f1_high", unsigned),
        number("unreadable", "unreadable", rate),
        number("answers, n", "n", count),
        number("utterances", "n_narratives", count),
        text("note", "note"),
    )


def _causes(rows: Sequence[Row], *, level: str) -> Table:
    return table_of(
        rows,
        Column("answers", _part),
        _DIMENSION,
        number("exact match", "exact", rate),
        plain_interval(level, "exact_low", "exact_high", rate),
        number("F1", "f1", unsigned),
        plain_interval(level, "f1_low", "f1_high", unsigned),
        number("exact, marked", "exact_marked", rate),
        number("F1, marked", "f1_marked", unsigned),
        number("said none, unmarked", "told_unmarked", rate),
        number("answers, n", "n", count),
        number("utterances", "n_narratives", count),
        text("note", "note"),
    )


def _labels(rows: Sequence[Row], *, level: str) -> Table:
    return table_of(
        rows,
        names("label", "label"),
        _DIMENSION,
        number("precision", "precision", unsigned),
        number("recall", "recall", unsigned),
        number("F1", "f1", unsigned),
        plain_interval(level, "f1_low", "f1_high", unsigned),
        number("right one of", "support", count),
        number("given", "n_predicted", count),
    )


def _measure(head: str, titles: Mapping[str, str]) -> Column:
    def name(row: Row) -> Markup:
        measure = str(row["outcome"] if "outcome" in row else row["measure"])
        return named(titles.get(measure, measure))

    return Column(head, name, words=True)


def _part(row: Row) -> Markup:
    """Name the answers that a row covers."""
    level = Markup("") if row["by"] == OVERALL else named(str(row["level"]).replace("_", "-"))
    return Markup("{} {}").format(_PARTS.get(str(row["by"]), str(row["by"])), level)
