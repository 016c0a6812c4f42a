"""The tables of runs that ask for replies: their columns, types and units, described once, as ``audit.schema`` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from audit.schema import (
    CALLS,
    CELLS,
    COMPARISONS,
    CONTROLS,
    CORRELATIONS,
    FAMILIES,
    GAP,
    GIVEN,
    MARKED_WORDS,
    RATINGS,
    RUNS,
    STAGE_TEXTS,
    STAGES,
    STRATEGIES,
)


class ReplyStatus(StrEnum):
    """What became of one prompt that asks for a reply."""

    WRITTEN = "written"
    """It came to an end of its own."""
    CUT = "cut"
    """It was cut at ``max_tokens``; what there is is scored."""
    EMPTY = "empty"
    """Nothing but white space."""
    REFUSED = "refused"
    """The model declined to write one: missing data, and an outcome of its own."""
    OTHER_SCRIPT = "other_script"
    """Most of its letters are of another script than the narrative's, which no scorer reads."""
    FAILED = "failed"
    """The engine gave none (an error, or the prompt is longer than the model's context)."""


SCORED: Final = frozenset({ReplyStatus.WRITTEN.value, ReplyStatus.CUT.value})
"""The statuses of replies that are scored. Of the others no measure is taken: missing, never 0."""

_WHOSE: Final = (
    "prompt_index", "dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "perceiver_group",
    "experiencer_group", "in_group", "n_shared",
)  # fmt: skip

REPLIES: Final[dict[str, str]] = {
    **{name: RATINGS[name] for name in _WHOSE},
    "emotion": "the narrative's emotion",
    "status": "written, cut (at max_tokens; what there is is scored), empty, refused, other_script or failed",
    "text": "the reply, verbatim; empty where it failed",
    "n_prompt_tokens": "tokens of the prompt that asked for the reply; 0 where it was not asked",
    "n_tokens": "tokens of the reply; a text that several prompts share counts in each",
    "n_dropped": RATINGS["n_dropped"],
}

SCORES: Final[dict[str, str]] = {
    "prompt_index": RATINGS["prompt_index"],
    "measure": "what was measured, as in the table of measures",
    "value": "the number, in the measure's unit; missing where the reply has no such number",
}

MEASURES: Final[dict[str, str]] = {
    "measure": "the measure's name",
    "title": "what it is",
    "unit": "of its numbers",
    "better": "higher, lower or neither: which way is more empathic, or better written",
    "low": "the lowest number that there can be; missing without",
    "high": "the highest number that there can be; missing without",
    "scorer": "what took it: a model, a list of words, or a count; empty where it is absent",
    "source": "where the formula is from",
    "caution": "what the number must not be taken for",
    "status": "scored, or absent: the scorer was not to be had, and nothing was measured",
    "n_replies": "replies that could be scored: written or cut",
    "n_scored": "of these with a number",
    "mean": "mean over the replies with a number, baselines included, in the measure's unit",
    "sd": "standard deviation (n - 1) of the same",
    "n_cut": "texts of which the scorer read the beginning alone; missing where it can not tell, as are the next four",
    "n_refused": "replies that a judge declined to score",
    "n_unparseable": "replies whose judge gave no score that can be read",
    "n_failed": "replies that the judge's engine gave no answer about",
    "mean_mass": "probability that a judge's answer is a number of the scale at all, mean over replies (`expected`)",
    "note": "of an absent one, why, and how to get it; else empty",
}

_OF_MEASURE: Final = {"measure": MEASURES["measure"]}

MEASURE_GAPS: Final[dict[str, str]] = {
    "dimension": GAP["dimension"],
    "variant": GAP["variant"],
    **_OF_MEASURE,
    "estimator": "contrast or mixed, as of ratings; of a measure of corpora (diversity) jackknife, over narratives",
    "scope": "what the interval speaks about: narratives = these identities, any such narratives; "
    "narratives_and_terms = any such identities too",
    "headline": "whether the row is of the estimator to go by: contrast, or jackknife",
    "delta": "gap in the measure's unit: in-group minus out-group",
    "se": "standard error of delta, in the measure's unit; over conversations where narratives are utterances of them",
    "df": GAP["df"],
    "ci_low": "lower end of the confidence interval, in the measure's unit",
    "ci_high": "upper end of the same",
    "p": GAP["p"],
    "p_sign_flip": GAP["p_sign_flip"],
    "p_adjusted": "of headlines within narratives: p corrected over the measures of the dimension (Holm); people's "
    "questions, whose names begin with people_, are a family of their own",
    "family_size": "measures that were corrected for: those of the dimension and family with a p",
    "d_z": "delta over the standard deviation of the narratives' contrasts; no unit",
    "delta_sd": "delta over the measure's standard deviation among scored replies; no unit; missing for diversity",
    "sd_ci_low": "ci_low over the same standard deviation, which is taken as known",
    "sd_ci_high": "ci_high over the same",
    "n_narratives": GAP["n_narratives"],
    "n_narratives_asked": GAP["n_narratives_asked"],
    "n_replies": "replies that the estimate uses",
    "n_missing": "prompts between the dimension's identities (baselines left out) whose reply has no number",
    "note": GAP["note"],
}

_IN_UNIT: Final = {"delta_points": "delta", "change_points": "change", "n_ratings": "n_replies"}


_OF_RATINGS: Final = frozenset(
    (
        "delta_z", "null_low", "null_high", "p_sign_flip", "p_adjusted", "p_family_size", "percent_of_scale",
        "sd_within", "delta_sd", "raw_in", "raw_out",
    )
)  # fmt: skip
"""Columns of gaps that are of ratings alone, or of one measure's headline."""


def _of_a_measure(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a table of gaps in points, by dimension and variant, of one in a measure's unit."""
    return {
        name: text.replace("scale points", "the measure's unit")
        .replace("in points", "in the measure's unit")
        .replace("_points", "")
        for name, text in (
            ("dimension", columns["dimension"]),
            ("variant", columns["variant"]),
            *_OF_MEASURE.items(),
            *((_IN_UNIT.get(name, name), text.replace("rating", "reply")) for name, text in list(columns.items())[2:]),
        )
    }


MEASURE_FAMILIES: Final = _of_a_measure(FAMILIES)
MEASURE_CONTROLS: Final = _of_a_measure({name: text for name, text in CONTROLS.items() if name not in _OF_RATINGS})

MEASURE_CELLS: Final[dict[str, str]] = {
    **{name: CELLS[name] for name in ("dimension", "variant")},
    **_OF_MEASURE,
    **{name: CELLS[name] for name in ("perceiver", "experiencer", "perceiver_group", "experiencer_group", "in_group")},
    "n_shared": CELLS["n_shared"],
    "mean": "mean of the measure over the pair's replies, in its unit; of diversity, of the replies taken together",
    "sd": "standard deviation (n - 1) of the same; missing below two replies, and of diversity",
    "n_prompts": CELLS["n_prompts"],
    "n_scored": "of these with a number",
}

REPLY_OUTCOMES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "pairs": "which pairs are counted: in_group, out_group, baseline (one side unspecified or no persona) or all",
    "n_prompts": "prompts of these pairs",
    **{f"n_{status}": f"of these {status.value}" for status in ReplyStatus},
    "mean_tokens": "tokens of a reply, mean over those written or cut",
}

JUDGE_GAP: Final[dict[str, str]] = {
    "dimension": GAP["dimension"],
    "variant": GAP["variant"],
    "measure": "the judged measure",
    **{name: GAP[name] for name in ("estimator", "scope", "headline")},
    "delta_points": "the judge's own gap in points of the measure: the same replies shown as ones to in-group minus to "
    "out-group experiencers of whoever wrote them, whom the judge is not told",
    **{name: GAP[name] for name in ("se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_ratings")},
    "n_missing": "questions to the judge without a score",
    "note": GAP["note"],
}

JUDGE_EFFECTS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "measure": JUDGE_GAP["measure"],
    "experiencer": "whom the same replies are shown as ones to",
    "group": RATINGS["experiencer_group"],
    "effect": "how far the judge scores them above their mean over all experiencers, in points of the measure",
    "se": "standard error of effect, in points, over narratives",
    "df": GAP["df"],
    "ci_low": GAP["ci_low"],
    "ci_high": GAP["ci_high"],
    "p": "two-sided p of the t-test against 0",
    "p_adjusted": "p corrected over the experiencers of the dimension and measure (Holm)",
    "n_narratives": "narratives whose replies were judged again",
    "n_replies": "replies with a score as one to every experiencer",
    "note": "why there is no interval, in words; else empty",
}

EPITOME: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "mechanism": "emotional_reactions, interpretations or explorations",
    "by": "what gave the levels: classifier, its likeliest level; or judge, the level nearest to its score, the lower "
    "of two as near, which need not be its likeliest where the score is the mean of its distribution (`expected`)",
    "n_replies": "replies with a level",
    "n_narratives": "narratives that they are to",
    "share": "share of replies that show it, at level 1 or 2: the mean of the narratives' shares",
    "ci_low": "lower end of its t interval over narratives",
    "ci_high": "upper end of the same",
    "n_labelled": "replies to narratives whose reply by people has a level",
    "precision": "of those that show it, the share where people's reply does",
    "recall": "of those where people's reply shows it, the share that do",
    "f1": "harmonic mean of the two",
    "accuracy": "share that show it where people's reply does, and not where it does not",
    "note": "why there is no share or interval, in words; else empty",
}

PAIRS: Final[dict[str, str]] = {
    "pair": "place of the pair among those compared, from 0",
    "narrative_id": "the narrative that both reply to",
    "dimension": "what perceiver and experiencer differ in",
    "emotion": "the narrative's emotion",
    "criterion": "what they were compared by",
    "preference": "for the first system's reply, from 0 to 1: mean over both orders; missing unless both were read",
    "consistent": "whether both orders prefer the same reply, or none; missing likewise",
    "first_place": "how far the reply that stood first was chosen, from 0 to 1: mean over both orders; 0.5 is no "
    "leaning to a place; missing likewise",
    "given_chose_first": "the first system's reply standing first: how far the reply that stood first was chosen; "
    "for `generate` 1, 0, or 0.5 for a tie",
    "given_status": "rated, refused, unparseable or failed",
    "given_mass": "probability that the answer is A or B at all (`expected`)",
    "given_response": "the judge's raw text (`generate`)",
    "swapped_chose_first": "the second system's reply standing first: how far the reply that stood first was chosen",
    "swapped_status": "as given_status",
    "swapped_mass": "as given_mass",
    "swapped_response": "as given_response",
}
"""Columns of :func:`audit.judge.pairwise.judge_pairs`."""

_PLACE: Final = ("pair", "narrative_id", "dimension", "emotion")
JUDGED_PAIRS: Final[dict[str, str]] = {
    **{name: PAIRS[name] for name in _PLACE},
    "pair": "place of the pair among those of both runs, from 0",
    **{name: RATINGS[name] for name in _WHOSE[5:]},
    "first_prompt_index": "prompt_index of the first run's reply in its run",
    "second_prompt_index": "prompt_index of the second run's reply in its run",
    "first_reply": "status of the first run's reply; only replies that were written or cut are compared",
    "second_reply": "status of the second run's reply",
    "same_text": "whether both replies have the same words: they are compared, and can not be preferred",
    **{name: text for name, text in PAIRS.items() if name not in _PLACE},
    "given_status": "rated, refused, unparseable or failed; empty where the pair was not asked about",
}

PREFERENCE: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "criterion": PAIRS["criterion"],
    "pairs": "which pairs the row is of: in_group, out_group, baseline (one side unspecified or no persona) or all; or "
    "gap, in-group minus out-group by the contrast of δ",
    "preference": "how far the first run's reply is preferred, from 0 to 1 (`generate`: the share, a tie counting "
    "half): mean over narratives of their pairs' mean; of gap the difference",
    "se": "its standard error over narratives",
    "df": GAP["df"],
    "ci_low": "lower end of the t interval, which is not cut at 0 and 1",
    "ci_high": "upper end of the same",
    "p": "two-sided p of the t-test against one half; of gap against 0",
    "p_adjusted": "p corrected over dimensions (Holm), for each kind of row by itself",
    "family_size": "dimensions that were corrected for: those with a p",
    "position_bias": "how far the reply that stood first was chosen, minus 0.5: mean over narratives; missing for gap, "
    "as are the next four",
    "bias_low": "lower end of its t interval",
    "bias_high": "upper end of the same",
    "inconsistent": "share of the pairs read in which the two orders prefer different replies",
    "mean_mass": "probability that the answer is A or B at all, mean over both orders of the pairs read (`expected`)",
    "n_pairs": "pairs of both runs, compared or not",
    "n_no_reply": "of these, pairs that were not asked about, since one reply or both were not written or cut",
    "n_unread": "of those asked about, pairs without a choice in one order or both",
    "n_refused": "single answers in which the judge declined",
    "n_unparseable": "single answers without a choice that can be read",
    "n_failed": "single answers that the judge's engine did not give",
    "n_same_text": "pairs read whose replies have the same words",
    "n_read": "pairs read in both orders: those that the row is from",
    "n_narratives": "narratives of these",
    "note": "why there is no estimate or interval, and what else limits it, in words; else empty",
}

PREFERENCE_TABLES: Final[dict[str, dict[str, str]]] = {"pairs": JUDGED_PAIRS, "preference": PREFERENCE}
"""Each table of a folder in which a model compares the replies of two runs."""

CHOICES: Final[dict[str, str]] = {
    "rater": "who chose; a name's control characters are escaped",
    "item_id": "what raters know the pair by",
    "question": "what they were asked",
    **{name: JUDGED_PAIRS[name] for name in ("dimension", "narrative_id", "emotion", "perceiver", "experiencer")},
    **{name: JUDGED_PAIRS[name] for name in ("perceiver_group", "experiencer_group", "in_group", "n_shared")},
    "chose": "1 where the first run's reply was chosen, 0 where the second's, 0.5 for a tie; missing if left out",
    "chose_place": "1 where the reply that stood first was chosen, 0 where the other, 0.5 for a tie; missing likewise",
}

PEOPLE_PREFERENCE: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "question": CHOICES["question"],
    "pairs": "which pairs of replies the row is of: all, in_group or out_group; or gap, in-group minus out-group "
    "within each rater's narrative, free of single perceivers and experiencers",
    "share": "how far people choose the first run's reply, from 0 to 1, a tie counting half: mean over narratives of "
    "their raters' means; of gap the difference",
    "se": "its standard error over raters and narratives; of one rater over narratives alone",
    "df": "its degrees of freedom",
    "ci_low": "lower end of the t interval, which is not cut at 0 and 1",
    "ci_high": "upper end of the same",
    "p": "two-sided p of the t-test against one half; of gap against 0",
    "p_adjusted": "p corrected over dimensions and questions (Holm), for each kind of row by itself",
    "family_size": "tests that were corrected for: those with a p",
    "var_raters": "variance between raters' means, less what is chance in them; missing where it can not be told",
    "var_narratives": "variance between narratives' means, likewise",
    "position_bias": "how far the reply that stood first was chosen, minus 0.5; missing for gap, as are the next two",
    "bias_low": "lower end of its t interval, of the same kind",
    "bias_high": "upper end of the same",
    "n_raters": "raters that the row is from",
    "n_narratives": "narratives that it is from",
    "n_pairs": "pairs of replies that somebody chose from",
    "n_choices": "choices that were made",
    "n_ties": "of these, ties",
    "n_left_out": "choices that raters left out: missing, and never a tie",
    "note": "why there is no estimate or interval, and what else limits it, in words; else empty",
}

PEOPLE_PREFERENCE_TABLES: Final[dict[str, dict[str, str]]] = {"choices": CHOICES, "preference": PEOPLE_PREFERENCE}
"""Each table of a folder in which people choose between the replies of two runs."""

AGREEMENT: Final[dict[str, str]] = {
    "question": "what raters were asked",
    "level": "what differences between scores mean: ordinal",
    "alpha": "Krippendorff's alpha: 1 where raters agree, 0 where no more than by chance",
    "ci_low": "lower end of its percentile interval over resampled narratives, each with all replies to it",
    "ci_high": "upper end of the same",
    "n_raters": "raters with a score",
    "n_items": "replies with the scores of two raters or more: they alone count",
    "n_narratives": "narratives that these are to: what is resampled; of fewer than 20 there is no interval",
    "n_scores": "scores of these",
    "n_left_out": "scores of replies that one rater alone scored",
    "note": "why there is no alpha or interval, in words; else empty",
}

HUMAN_CORRELATIONS: Final[dict[str, str]] = {
    "question": AGREEMENT["question"],
    **_OF_MEASURE,
    **{"n_narratives" if name == "n_units" else name: text for name, text in CORRELATIONS.items()},
    "n_narratives": "narratives that the replies are to: what is resampled",
}

_PARTS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "by": "what the answers are divided by: all (not at all), speaker (the speaker's own identity, as the corpus has "
    "it), experiencer and perceiver (as the prompt says) or pairs",
    "level": "which of these; of pairs in_group, out_group or baseline. Levels of speaker are of different utterances, "
    "so they differ in what there is to recognise, too; levels of the others are of the same utterances",
}

RECOGNITION: Final[dict[str, str]] = {
    **_PARTS,
    "n": "answers that were read: written or cut",
    "n_narratives": "utterances that they are about",
    "n_conversations": "conversations that these are from, which are what is resampled",
    "n_labels": "labels that macro_f1 is the mean of: those that occur there or were given",
    "accuracy": "share of all answers with the right label; an unreadable one is wrong",
    "accuracy_low": "lower end of its interval, from resampled conversations; not corrected for multiplicity",
    "accuracy_high": "upper end of the same",
    "macro_f1": "mean F1 of the labels, each counted alike",
    "macro_f1_low": "lower end of its interval",
    "macro_f1_high": "upper end of the same",
    "weighted_f1": "mean F1 of the labels, weighted by how often each is the right one",
    "weighted_f1_low": "lower end of its interval",
    "weighted_f1_high": "upper end of the same",
    "unreadable": "share of all answers in which no label, or no one label, can be read",
    "unreadable_low": "lower end of its interval; missing where none or all are unreadable",
    "unreadable_high": "upper end of the same",
    "note": "why there is no interval of accuracy or F1, in words; empty if there is one",
}

RECOGNITION_LABELS: Final[dict[str, str]] = {
    **_PARTS,
    "label": "the label, as the corpus has it",
    "precision": "share of the answers with the label for which it is right; missing where no answer has it",
    "recall": "share of the answers to its utterances that have it; missing where it is the right one of none",
    "f1": "harmonic mean of the two; missing where the label neither occurs nor was given",
    "f1_low": "lower end of its interval, from resampled conversations; not corrected for multiplicity",
    "f1_high": "upper end of the same",
    "support": "answers about utterances with the label",
    "n_predicted": "answers that give the label",
    "n_correct": "answers that are both",
}

RECOGNITION_CAUSES: Final[dict[str, str]] = {
    **_PARTS,
    "n": "answers that were read: written or cut, with a word",
    "n_marked": "of these about utterances with a marked cause",
    "n_unmarked": "of these about utterances of which people marked that nothing said is the cause",
    "n_wordless": "answers without a word, which are in no other number",
    "n_narratives": "utterances that the answers are about",
    "n_conversations": "conversations that these are from, which are what is resampled",
    "exact": "share of answers that are the marked words; where none are marked, that say so",
    "exact_low": "lower end of its interval, from resampled conversations; not corrected for multiplicity",
    "exact_high": "upper end of the same",
    "f1": "mean F1 of the words of an answer and the marked ones; where none are marked, as exact",
    "f1_low": "lower end of its interval",
    "f1_high": "upper end of the same",
    "exact_marked": "exact of the answers about utterances with a marked cause",
    "exact_marked_low": "lower end of its interval; missing of fewer than 20 conversations, as of the next two",
    "exact_marked_high": "upper end of the same",
    "f1_marked": "f1 of the same answers",
    "f1_marked_low": "lower end of its interval",
    "f1_marked_high": "upper end of the same",
    "told_unmarked": "share of the answers about utterances without a marked cause that say that there is none",
    "told_unmarked_low": "lower end of its interval",
    "told_unmarked_high": "upper end of the same",
    "note": "why exact or f1 has no interval, in words; else empty",
}

RECOGNITION_CONFUSION: Final[dict[str, str]] = {
    **_PARTS,
    "gold": "the right label",
    "predicted": "the label that was given; empty where none could be read",
    "n": "answers with both; pairs of labels without an answer have no row",
    "share": "of the answers about utterances with the right label",
}

REPLY_TABLES: Final[dict[str, dict[str, str]]] = {
    "measures": MEASURES,
    "measure_gaps": MEASURE_GAPS,
    "measure_controls": MEASURE_CONTROLS,
    "measure_families": MEASURE_FAMILIES,
    "measure_cells": MEASURE_CELLS,
    "reply_outcomes": REPLY_OUTCOMES,
    "judge_gap": JUDGE_GAP,
    "judge_effects": JUDGE_EFFECTS,
    "epitome": EPITOME,
    "agreement": AGREEMENT,
    "human_correlations": HUMAN_CORRELATIONS,
    "recognition": RECOGNITION,
    "recognition_labels": RECOGNITION_LABELS,
    "recognition_confusion": RECOGNITION_CONFUSION,
    "recognition_causes": RECOGNITION_CAUSES,
    "calls": CALLS,
    "stage_texts": STAGE_TEXTS,
    "marked_words": MARKED_WORDS,
}
"""Each table of a reply run's ``tables/`` by its file's stem."""


def reply_dictionary() -> Iterator[dict[str, str]]:
    """Yield table, column and description of all that a reply run's folders hold."""
    collected = {"replies": REPLIES, "scores": SCORES, "stages": STAGES, "given": GIVEN}
    for table, columns in {**collected, **REPLY_TABLES}.items():
        for column, description in columns.items():
            yield {"table": table, "column": column, "description": description}


_COMPARED_WITH: Final = (
    "the run that it is compared with: where strategies differ, the one without a strategy of the same model, files of "
    "it, prompt, narratives, kind of reply, seed and identities; else the first; empty of that run itself, and where "
    "there is none"
)
_RECORDED: Final = frozenset({"elicitation", "scale", "parser", "n_rated", "n_refused", "n_unparseable", "n_failed"})

REPLY_RUNS: Final[dict[str, str]] = {
    **{name: text for name, text in list(RUNS.items())[:6]},
    "generation": "what a reply may be: its tokens at most, and how they are drawn",
    **{name: text for name, text in list(RUNS.items())[6:-5] if name not in _RECORDED},
    **{f"n_{status}": f"of these {status.value}" for status in ReplyStatus},
    "started": RUNS["started"],
    "version": "version of empathy-audit that collected the replies",
    "command": RUNS["command"],
    "identity": "SHA-256 of all that the run's replies depend on",
    "replies": "SHA-256 of what became of each prompt, and of the texts",
}

COMPARED_MEASURES: Final[dict[str, str]] = {
    "run": RUNS["run"],
    **{
        name: MEASURES[name]
        for name in ("measure", "title", "unit", "better", "scorer", "status", "n_replies", "n_scored", "mean", "sd")
    },
    "scorer_sha256": "SHA-256 of what the scorer was asked, of its facts (its model's files, templates, lists) and of "
    "the measure; empty of an absent one. Runs in which it differs are not compared",
    "reference": _COMPARED_WITH,
    "compared": "whether the measure is compared with that run",
    "note": "why it is not compared, or why the measure is absent; else empty",
}

MEASURE_GAP_ALL: Final[dict[str, str]] = {
    "run": RUNS["run"],
    **{name: text for name, text in MEASURE_GAPS.items() if name != "headline"},
}

COMPARED_MEASURE_CONTROLS: Final[dict[str, str]] = {"run": RUNS["run"], **MEASURE_CONTROLS}

MEASURE_CHANGES: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "strategy": RUNS["strategy"],
    "reference": _COMPARED_WITH,
    "dimension": GAP["dimension"],
    **_OF_MEASURE,
    "unit": MEASURES["unit"],
    "delta": "the run's gap on the narratives that both use, in the measure's unit: in-group minus out-group",
    "reference_delta": "the reference's on the same",
    "delta_change": "delta minus reference_delta, narrative by narrative, in the measure's unit",
    "se": "standard error of delta_change, in the measure's unit",
    "df": COMPARISONS["df"],
    "ci_low": "lower end of the confidence interval of delta_change, in the measure's unit; not corrected for "
    "multiplicity",
    "ci_high": "upper end of the same",
    "p": COMPARISONS["p"],
    "p_adjusted": "p corrected for all changes of the dimension: of every measure, and of every run against its "
    "reference",
    "method": "the correction: Holm (family-wise error)",
    "family_size": "tests that were corrected for: the dimension's changes with a p",
    "change_sd": "delta_change over the measure's standard deviation among the reference's scored replies; no unit; "
    "missing for diversity",
    "sd_ci_low": "ci_low over the same standard deviation, which is taken as known",
    "sd_ci_high": "ci_high over the same",
    "n_narratives": "narratives that both use",
    "mean": "the run's mean over the pairs between identities, baselines left out, in the measure's unit: mean over "
    "narratives of the mean over the pairs that have a number in both runs",
    "reference_mean": "the reference's mean over the same pairs of the same narratives",
    "mean_change": "mean minus reference_mean, in the measure's unit: does the run write otherwise to everybody",
    "mean_low": "lower end of the t interval of mean_change over narratives (of utterances, over conversations); not "
    "corrected for multiplicity",
    "mean_high": "upper end of the same",
    "mean_sd": "mean_change over the standard deviation of change_sd",
    "mean_sd_low": "mean_low over the same",
    "mean_sd_high": "mean_high over the same",
    "n_both": "prompts with a number in both runs, which the means are of; baselines left out",
    "n_replies": "replies of the run that its own gap uses",
    "reference_replies": "replies of the reference that its own gap uses",
    "n_missing": MEASURE_GAPS["n_missing"],
    "reference_missing": "the same of the reference",
    "note": "why a number is missing, and what else limits it, in words; else empty",
}

_COST: Final = ("n_calls", "n_prompt_tokens", "n_tokens", "n_question_tokens", "shortened_share", "seconds")

REPLY_COSTS: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "strategy": RUNS["strategy"],
    "reference": _COMPARED_WITH,
    "dimension": GAP["dimension"],
    "n_prompts": "prompts between the dimension's identities, baselines left out",
    **{
        name: text
        for status in ReplyStatus
        for name, text in (
            (f"{status}_share", f"share of these {status.value}"),
            (f"{status}_change", f"{status}_share minus the reference's; missing without a reference"),
        )
        if status != ReplyStatus.WRITTEN
    },
    **{name: STRATEGIES[name].replace("rating", "reply") for name in _COST},
    "n_reply_tokens": "tokens of a reply, mean over those written or cut of the run, whatever their dimension",
}

REPLY_COMPARISON_TABLES: Final[dict[str, dict[str, str]]] = {
    "runs": REPLY_RUNS,
    "measures": COMPARED_MEASURES,
    "measure_gap_all": MEASURE_GAP_ALL,
    "measure_controls": COMPARED_MEASURE_CONTROLS,
    "measure_changes": MEASURE_CHANGES,
    "reply_costs": REPLY_COSTS,
}
"""Each table of a comparison of runs of replies by its file's stem."""


def reply_comparison_dictionary() -> Iterator[dict[str, str]]:
    """Yield table, column and description of every column of such a comparison's ``tables/``."""
    for table, columns in REPLY_COMPARISON_TABLES.items():
        for column, description in columns.items():
            yield {"table": table, "column": column, "description": description}
