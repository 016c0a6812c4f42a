"""What stands beside the measures of replies: the judge's own gap, people, EPITOME's strategies, recognition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.report.numbers import Row, rows_of, show, show_interval
from audit.report.section import Block, Captioned, Paragraph, Section, captioned, present, section
from audit.report.tables import Table
from audit.schema import OVERALL
from audit.wording import MISSING, bare_p, brief, count, coverage, dimension_title, points, rate, unsigned

_PARTS = {
    "all": "all answers",
    "speaker": "said by",
    "experiencer": "told to be said by",
    "perceiver": "read by",
    "pairs": "pairs",
}
"""What answers to an utterance are divided by, as a reader is told."""
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
    """Yield a section of each thing that stands beside the measures.

    Parameters
    ----------
    tables
        The tables of ``reply_schema.REPLY_TABLES`` by name, as they are written; an absent one counts as empty.
    titles
        Measure → what it is called.
    confidence
        Coverage of the intervals.
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
    if epitome:
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
