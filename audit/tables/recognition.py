"""How well a model recognises emotions and their causes in conversations."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Table, count, share, text, word
from audit.tables.shared import KEYS

_PARTS: Final = {
    "dimension": KEYS["dimension"],
    "variant": KEYS["variant"],
    "by": word(
        "what the answers are divided by: all (not at all), speaker (the speaker's own identity, as the corpus has "
        "it), experiencer and perceiver (as the prompt says) or pairs"
    ),
    "level": word(
        "which of these; of pairs in_group, out_group or baseline. Levels of speaker are of different utterances, "
        "so they differ in what there is to recognise, too; levels of the others are of the same utterances"
    ),
}

RECOGNITION: Final = Table(
    "recognition",
    "a part of the answers",
    {
        **_PARTS,
        "n": count("answers that were read: written or cut"),
        "n_narratives": count("utterances that they are about"),
        "n_conversations": count("conversations that these are from, which are what is resampled"),
        "n_labels": count("labels that macro_f1 is the mean of: those that occur there or were given"),
        "accuracy": share("share of all answers with the right label; an unreadable one is wrong"),
        "accuracy_low": share(
            "lower end of its interval, from resampled conversations; not corrected for multiplicity"
        ),
        "accuracy_high": share("upper end of the same"),
        "macro_f1": share("mean F1 of the labels, each counted alike"),
        "macro_f1_low": share("lower end of its interval"),
        "macro_f1_high": share("upper end of the same"),
        "weighted_f1": share("mean F1 of the labels, weighted by how often each is the right one"),
        "weighted_f1_low": share("lower end of its interval"),
        "weighted_f1_high": share("upper end of the same"),
        "unreadable": share("share of all answers in which no label, or no one label, can be read"),
        "unreadable_low": share("lower end of its interval; missing where none or all are unreadable"),
        "unreadable_high": share("upper end of the same"),
        "note": text("why there is no interval of accuracy or F1, in words; empty if there is one"),
    },
)

RECOGNITION_LABELS: Final = Table(
    "recognition_labels",
    "a label, in a part of the answers",
    {
        **_PARTS,
        "label": word("the label, as the corpus has it"),
        "precision": share("share of the answers with the label for which it is right; missing where no answer has it"),
        "recall": share(
            "share of the answers to its utterances that have it; missing where it is the right one of none"
        ),
        "f1": share("harmonic mean of the two; missing where the label neither occurs nor was given"),
        "f1_low": share("lower end of its interval, from resampled conversations; not corrected for multiplicity"),
        "f1_high": share("upper end of the same"),
        "support": count("answers about utterances with the label"),
        "n_predicted": count("answers that give the label"),
        "n_correct": count("answers that are both"),
    },
)

RECOGNITION_CAUSES: Final = Table(
    "recognition_causes",
    "a part of the answers",
    {
        **_PARTS,
        "n": count("answers that were read: written or cut, with a word"),
        "n_marked": count("of these about utterances with a marked cause"),
        "n_unmarked": count("of these about utterances of which people marked that nothing said is the cause"),
        "n_wordless": count("answers without a word, which are in no other number"),
        "n_narratives": count("utterances that the answers are about"),
        "n_conversations": count("conversations that these are from, which are what is resampled"),
        "exact": share("share of answers that are the marked words; where none are marked, that say so"),
        "exact_low": share("lower end of its interval, from resampled conversations; not corrected for multiplicity"),
        "exact_high": share("upper end of the same"),
        "f1": share("mean F1 of the words of an answer and the marked ones; where none are marked, as exact"),
        "f1_low": share("lower end of its interval"),
        "f1_high": share("upper end of the same"),
        "exact_marked": share("exact of the answers about utterances with a marked cause"),
        "exact_marked_low": share(
            "lower end of its interval; missing of fewer than 20 conversations, as of the next two"
        ),
        "exact_marked_high": share("upper end of the same"),
        "f1_marked": share("f1 of the same answers"),
        "f1_marked_low": share("lower end of its interval"),
        "f1_marked_high": share("upper end of the same"),
        "told_unmarked": share(
            "share of the answers about utterances without a marked cause that say that there is none"
        ),
        "told_unmarked_low": share("lower end of its interval"),
        "told_unmarked_high": share("upper end of the same"),
        "note": text("why exact or f1 has no interval, in words; else empty"),
    },
)

RECOGNITION_ENTAILMENT: Final = Table(
    "recognition_entailment",
    "a part of the answers",
    {
        **_PARTS,
        "level": word(
            "which of these; of pairs in_group, out_group, baseline or gap, which is in_group minus out_group. Levels "
            "of speaker are of different utterances; levels of the others are of the same utterances"
        ),
        "n": count("answers that say yes or no; missing of a gap, as all counts but n_conversations"),
        "n_causes": count("of these about utterances that people marked as a cause"),
        "n_said": count("of these that say yes"),
        "n_unreadable": count("answers that say neither, which count in unreadable alone"),
        "n_narratives": count("pairs of an utterance and a possible cause that all these are about"),
        "n_conversations": count(
            "conversations that readable answers are about, which are what is resampled; of a gap the fewer of both "
            "sides"
        ),
        "precision": share("share of the answers yes that are about a marked cause; missing where none says yes"),
        "precision_low": share(
            "lower end of its interval, from resampled conversations; not corrected for multiplicity"
        ),
        "precision_high": share("upper end of the same"),
        "recall": share("share of the answers about marked causes that say yes"),
        "recall_low": share("lower end of its interval"),
        "recall_high": share("upper end of the same"),
        "f1": share("harmonic mean of precision and recall"),
        "f1_low": share("lower end of its interval"),
        "f1_high": share("upper end of the same"),
        "f1_negative": share("F1 of the answers no about utterances that nobody marked"),
        "f1_negative_low": share("lower end of its interval"),
        "f1_negative_high": share("upper end of the same"),
        "macro_f1": share("mean of f1 and f1_negative"),
        "macro_f1_low": share("lower end of its interval"),
        "macro_f1_high": share("upper end of the same"),
        "unreadable": share("share of all answers that say neither yes nor no"),
        "unreadable_low": share("lower end of its interval; missing where none or all are unreadable"),
        "unreadable_high": share("upper end of the same"),
        "note": text("why numbers other than unreadable have no interval, in words; empty if they have one"),
    },
)

RECOGNITION_CONFUSION: Final = Table(
    "recognition_confusion",
    "a pair of labels, in a part of the answers",
    {
        **_PARTS,
        "gold": word("the right label"),
        "predicted": word("the label that was given; empty where none could be read"),
        "n": count("answers with both; pairs of labels without an answer have no row"),
        "share": share("of the answers about utterances with the right label"),
    },
)
