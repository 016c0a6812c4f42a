"""What people say about a run, and how the model's numbers agree with theirs."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Storage, Table, count, number, points, probability, share, text, word
from audit.tables.shared import KEYS, PROMPT

PEOPLE_INTENSITIES: Final = Table(
    "people_intensities",
    "a rater's intensity of an item, kept in ``people/ratings.csv``",
    {
        "rater": word("who rated"),
        "list": word("the rater's list of items"),
        "dimension": word("what the experiencers of the item's list differ in"),
        **{name: PROMPT[name] for name in ("narrative_id", "emotion", "experiencer", "experiencer_group")},
        "intensity": points("what the rater answered, in points of the run's scale; missing where it was left out"),
    },
    kept=Storage("people/ratings.csv", again="import the raters' files again"),
)

RATERS: Final = Table(
    "raters",
    "a rater's own group in a dimension, kept in ``people/raters.csv``",
    {
        "rater": word("who rated"),
        "dimension": word("what the groups differ in"),
        "group": word("the rater's own group; empty where the rater did not say"),
    },
    kept=Storage("people/raters.csv", again="import the raters' files again"),
)

READINGS: Final = Table(
    "readings",
    "what a reader makes of a narrative, kept in ``norming/ratings.csv``",
    {
        "rater": word("who read"),
        "narrative_id": PROMPT["narrative_id"],
        "emotion": word("the emotion that the narrative was designed for"),
        "felt": word("the emotion that the reader says is felt; empty where none was chosen"),
        "intensity": points("how intense the reader says it is, in points of the run's scale; missing if left out"),
        "plausibility": number("how plausible the reader finds it, from 1 to 7; missing if left out"),
    },
    kept=Storage("norming/ratings.csv", again="import the raters' files again"),
)

_EMOTION: Final = PROMPT["emotion"].adding(
    "; 'all' in the first row: all emotions pooled, so that how they differ counts too"
)

CORRELATIONS: Final = Table(
    "correlations",
    "an emotion, or all",
    {
        "emotion": _EMOTION,
        "rho": number(
            "Spearman's rank correlation of the model's numbers with people's; 1 is the same order, -1 the reverse"
        ),
        "rho_low": number("lower end of its percentile interval over resampled units; not corrected for multiplicity"),
        "rho_high": number("upper end of the same"),
        "p": probability("two-sided p of rho against 0 (t approximation); missing where a unit has several pairs"),
        "p_adjusted": probability("p corrected for the number of emotions; missing in the row of all"),
        "method": word("the correction: Holm (family-wise error); empty in the row of all"),
        "family_size": count("tests that were corrected for: the emotions with a p"),
        "tau": number(
            "Kendall's tau-b: share of pairs of narratives in the same order minus in the reverse, corrected for ties"
        ),
        "tau_low": number("lower end of its percentile interval over resampled units; not corrected for multiplicity"),
        "tau_high": number("upper end of the same"),
        "n": count("pairs of a model's and people's number"),
        "n_units": count("what is resampled: the pairs, or the clusters (such as narratives) that they come in"),
        "n_missing": count("rows left out since the model's or people's number is missing"),
        "note": text("why there is no correlation or no interval, in words; empty if there is one"),
    },
)

HUMAN: Final = Table(
    "human",
    "an emotion, or all, of ratings by the model and by people",
    {
        **KEYS,
        **CORRELATIONS,
        "n": count("narratives with a rating by the model and by people"),
        "n_units": count("the same: what is resampled"),
        "n_missing": count("narratives of the run without a rating by people, or by the model"),
    },
)

PEOPLE_GAP: Final = Table(
    "people_gap",
    "the gap of people, beside the model's",
    {
        **KEYS,
        "delta": points(
            "gap of people in scale points: raters' ratings of their own group's experiencers minus those of others', "
            "each rater's mean and terms for narratives and experiencers taken off; in a crossed dimension own in all"
        ),
        "se": points("its standard error over raters (CR2), in points; missing below 4 raters"),
        "df": number("Satterthwaite's degrees of freedom"),
        "ci_low": points(
            "lower end of the confidence interval, in points: such raters, these narratives and these experiencers"
        ),
        "ci_high": points("upper end of the same"),
        "p": probability("two-sided p against a gap of 0, of the same t distribution"),
        "n_raters": count("raters who belong to a group of the dimension and rated an item of it"),
        "n_groups": count("groups that they belong to"),
        "n_narratives": count("narratives that they rated"),
        "n_ratings": count("ratings that the estimate uses"),
        "n_excluded": count("raters with items of the dimension who belong to none of its groups, or did not say"),
        "n_ratings_excluded": count("their ratings, which the estimate does not use"),
        "n_skipped": count("items of the dimension in raters' lists that were left out: missing, not 0"),
        "note": text("why there is no estimate or no interval, in words; else empty"),
        "model_delta": points(
            "the model's gap, of all in-group pairs whatever their words, of the same narratives and experiencers, "
            "with perceivers of the raters' groups"
        ),
        "model_ci_low": points("lower end of its confidence interval, in points: such narratives, these identities"),
        "model_ci_high": points("upper end of the same"),
        "model_n_narratives": count("narratives that it uses"),
        "model_note": text("why it has no estimate or no interval, in words; else empty"),
        "model_echo_free": points(
            "the same without a word in common: echo_free of controls, of those narratives and identities; missing "
            "where their terms do not allow that"
        ),
        "model_echo_free_low": points(
            "lower end of its confidence interval, in points: such narratives, these identities"
        ),
        "model_echo_free_high": points("upper end of the same"),
        "model_echo_free_note": text("why it has no estimate or no interval, in words; else empty"),
    },
    former={"delta_points": "delta", "model_delta_points": "model_delta"},
)

PEOPLE_AGREEMENT: Final = Table(
    "people_agreement",
    "an emotion, or all, of ratings by the model and by people who rated this run",
    {
        "variant": KEYS["variant"],
        "emotion": _EMOTION,
        "r": number(
            "Pearson's correlation, over narratives, of people's mean intensity, raters' own means taken off, with the "
            "model's mean over all its pairs of identities"
        ),
        "ci_low": number("lower end of Fisher's interval over narratives"),
        "ci_high": number("upper end of the same"),
        "n": count("narratives with a rating by people and by the model"),
        "n_raters": count("raters of these"),
        "n_ratings": count("ratings by people of these"),
        "note": text("why there is no correlation or no interval, in words; else empty"),
    },
)

NORMING: Final = Table(
    "norming",
    "a narrative that readers judged",
    {
        "narrative_id": PROMPT["narrative_id"],
        "emotion": word("the emotion that the narrative was designed for"),
        "n": count("readers who said which emotion is felt"),
        "share_designed": share("of these, the share who chose the designed one"),
        "most_chosen": word("the emotion that most of them chose; the first of several in a tie"),
        "n_intensity": count("readers who said how intense it is"),
        "mean_intensity": points("mean of what they said, in points of the run's scale"),
        "sd_intensity": points("its standard deviation (n - 1), in points"),
        "n_plausibility": count("readers who said how plausible it is that this happens to somebody like them"),
        "mean_plausibility": number("mean of what they said, from 1 to 7"),
        "flags": word(
            "few readers (below 5 for a question), emotion (share below 0.5), intensity (mean below a quarter of the "
            "scale), plausibility (mean below 4), joined by commas; empty for none"
        ),
    },
)
