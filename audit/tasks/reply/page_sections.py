"""The sections beside the measures of replies: the judge's own gap, people, EPITOME's mechanisms, recognition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Paragraph, Section, present, section
from audit.report.table_layout import ShownColumn, named
from audit.tables.shared import OVERALL

_PARTS = {
    "all": "all answers",
    "speaker": "said by",
    "experiencer": "attributed to",
    "perceiver": "read by",
    "pairs": "pairs",
}
"""How answers to an utterance are grouped, in words for the reader."""
_OF_RECOGNITION: Final = Markup(
    "An answer without a readable label counts as wrong, and as unreadable. Intervals come from resampled "
    "conversations. Speakers' identities are those of the corpus: their utterances also differ in what there is to "
    "recognise. The label of the corpus is one reading; people who label conversations often disagree."
)
_OF_CAUSES: Final = Markup(
    "<em>Marked</em>: answers about utterances in which people marked words as the cause. For the others, the right "
    "answer is that nothing said is the cause. Answers without a word are not counted. Intervals come from resampled "
    "conversations. Speakers' identities are those of the corpus: their utterances also differ in what there is to "
    "find. The marked words are one choice of where a cause begins and ends."
)
_OF_ENTAILMENT: Final = Markup(
    "The model was asked of one utterance at a time whether it brought on the emotion. <em>F1, causes</em>: of the "
    "utterances that people marked as a cause. <em>F1, others</em>: of the rest. <em>Macro F1</em>: the mean of both. "
    "<em>gap</em>: in-group minus out-group. Answers that are neither yes nor no count only as unreadable. Intervals "
    "come from resampled conversations. Speakers' identities are those of the corpus: their utterances also differ in "
    "what there is to find."
)
_OF_PEOPLE: Final = Markup(
    "δ of people's scores is listed with the measures of each dimension above, as <em>people: …</em>. It covers only "
    "the sample of replies that people rated."
)
_OF_ORDER: Final = Markup(
    "Whole narratives are resampled, because replies to the same narrative are not independent. If a measure ranks "
    "replies as people do, that says nothing about its δ. α is for ordinal scores. It is low if raters disagree, and "
    "also if all replies are alike."
)
_OF_JUDGE: Final = Markup(
    "Some replies were judged again with unchanged text, as replies to every experiencer. Differences in these scores "
    "come from the judge, not from the reply."
)
_OF_JUDGED: Final = Markup(
    "δ of a judged measure includes the judge's own gap: compare the two. Effects of single experiencers cancel in δ, "
    "but not in the means of pairs."
)


def topic_sections(results: Results, titles: Mapping[str, str]) -> Iterator[Section]:
    """Yield a section for each topic beside the measures; ``titles`` names each measure."""
    recognition = results.table(
        "recognition", "Accuracy and macro F1, for all answers and by whose they are",
        _ANSWERS, "dimension", "accuracy", "accuracy_low", "macro_f1", "macro_f1_low", "unreadable",
        ("n", "answers, n"), ("n_narratives", "utterances"), "note",
    )  # fmt: skip
    if recognition:
        labels = results.table(
            "recognition_labels", "Each label, over all answers",
            "label", "dimension", "precision", "recall", "f1", "f1_low", ("support", "right one of"),
            ("n_predicted", "given"),
            rows=results.rows("recognition_labels", by=OVERALL),
        )  # fmt: skip
        yield page_section(
            "recognition", "Recognition", "How well emotions are recognised", recognition,
            Paragraph(_OF_RECOGNITION, "small"), section("Label by label", labels, look="folded"),
        )  # fmt: skip
    causes = results.table(
        "recognition_causes", "Exact match and F1 of words, for all answers and by whose they are",
        _ANSWERS, "dimension", ("exact", "exact match"), "exact_low", "f1", "f1_low",
        ("exact_marked", "exact, marked"), ("f1_marked", "F1, marked"), ("told_unmarked", "said none, unmarked"),
        ("n", "answers, n"), ("n_narratives", "utterances"), "note",
    )  # fmt: skip
    if causes:
        yield page_section("causes", "Causes", "How well causes are found", causes, Paragraph(_OF_CAUSES, "small"))
    entailment = results.table(
        "recognition_entailment", "Precision, recall and F1, for all answers and by whose they are",
        _ANSWERS, "dimension", "precision", "precision_low", "recall", "recall_low",
        ("f1", "F1, causes"), "f1_low", ("f1_negative", "F1, others"),
        "f1_negative_low", ("macro_f1", "macro F1"), "macro_f1_low", "unreadable", ("n", "yes or no, n"),
        ("n_causes", "about causes"), ("n_conversations", "conversations"), "note",
    )  # fmt: skip
    if entailment:
        yield page_section(
            "entailment", "Causes", "How well causes are recognised", entailment, Paragraph(_OF_ENTAILMENT, "small"),
        )  # fmt: skip
    agreement = results.table(
        "agreement", "How well raters agree",
        "question", "alpha", "ci_low", "n_raters", ("n_items", "replies with two or more"), "n_narratives", "n_scores",
        "note",
    )  # fmt: skip
    if agreement:
        correlations = results.rows("human_correlations")
        pooled = [row for row in correlations if row["emotion"] == OVERALL]
        single = [row for row in correlations if row["emotion"] != OVERALL]
        measure = _measure("measure", titles)
        correlated = ("rho", "rho_low", "tau", "tau_low", ("n", "replies"), "n_narratives", "note")
        ordered = results.table(
            "human_correlations", "How well each measure ranks replies as people's mean scores do",
            "question", measure, *correlated, rows=pooled,
        )  # fmt: skip
        by_emotion = results.table(
            "human_correlations", "The same within each emotion", "question", measure, "emotion", *correlated,
            rows=single,
        )  # fmt: skip
        yield page_section(
            "people", "People", "What people say of these replies", Paragraph(_OF_PEOPLE), agreement, ordered,
            Paragraph(_OF_ORDER, "small") if ordered else None,
            section("Emotion by emotion", by_emotion, look="folded"),
        )  # fmt: skip
    judged = _measure("judged measure", titles)
    judge = present(
        results.table(
            "judge_gap",
            "The same texts as replies to in-group minus out-group experiencers of their writer, who is not named to "
            "the judge",
            "dimension", judged, ("delta", "own gap, points"), "ci_low", "p", "n_narratives", "note",
            rows=[row for row in results.rows("judge_gap", scope="narratives") if row["headline"]],
        ),
        results.table(
            "judge_effects", "The same texts as replies to each experiencer, compared with their mean over all",
            judged, "dimension", ("experiencer", "as a reply to"), ("effect", "effect, points"), "ci_low",
            "p_adjusted", "n_replies",
        ),
    )  # fmt: skip
    if judge:
        yield page_section(
            "judge", "The judge", "The judge's own gap", Paragraph(_OF_JUDGE), *judge, Paragraph(_OF_JUDGED, "small")
        )
    labelled = any(row["n_labelled"] for row in results.rows("epitome"))
    against = ", and whether it does if the reply of people to the narrative does" if labelled else ""
    epitome = results.table(
        "epitome", f"How many replies show each mechanism{against}",
        ShownColumn("mechanism", lambda row: str(row["mechanism"]).replace("_", " ")), "by", "dimension",
        ("share", "shown in"), "ci_low", "n_replies", "n_narratives",
        *(_AGAINST_PEOPLE if labelled else ()),
    )  # fmt: skip
    if epitome:
        yield page_section("epitome", "EPITOME", "EPITOME's strategies", epitome)


def _measure(head: str, titles: Mapping[str, str]) -> ShownColumn:
    def name(row: PlacedRow) -> Markup:
        measure = str(row["outcome"] if "outcome" in row else row["measure"])
        return named(titles.get(measure, measure))

    return ShownColumn(head, name, words=True)


def _part(row: PlacedRow) -> Markup:
    """Name the answers that a row covers."""
    level = Markup("") if row["by"] == OVERALL else named(str(row["level"]).replace("_", "-"))
    return Markup("{} {}").format(_PARTS.get(str(row["by"]), str(row["by"])), level)


_AGAINST_PEOPLE: Final = (
    "precision", "recall", "f1", "accuracy", ("level_accuracy", "same level"), ("macro_f1", "macro F1 of levels"),
)  # fmt: skip
_ANSWERS: Final = ShownColumn("answers", _part)
