"""The tables that pass between stages: their columns, types and units, described once.

A *ratings* table has one row a prompt. *Statistics* tables are what ``tables/*.csv`` holds. Nothing in them is
rounded; a value that does not apply, or can not be estimated, is missing (NaN, an empty CSV field), never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

OVERALL: Final = "all"
"""In place of a dimension: the mean over the single ones."""


THEME: Final = "theme_"
"""Before the name of a theme of stereotype words: a score of texts, and a measure of ``STAGE_TEXTS``."""


class Status(StrEnum):
    """What became of one prompt."""

    RATED = "rated"
    """An intensity on the scale was read from the response."""
    REFUSED = "refused"
    """The model declined to rate: missing data, and an outcome of its own."""
    UNPARSEABLE = "unparseable"
    """There was a response, but no single intensity on the scale can be read from it."""
    FAILED = "failed"
    """The engine gave no response (an error, or the prompt is longer than the model's context)."""


RATINGS: Final[dict[str, str]] = {
    "prompt_index": "place of the prompt in the run's grid, from 0; unique",
    "dimension": "what perceiver and experiencer differ in, e.g. religion; 'a+b' is an intersection",
    "variant": "the prompt variant, e.g. origin",
    "narrative_id": "the narrative, unique within its source",
    "emotion": "the emotion asked about",
    "perceiver": "wording of the identity that the model is given; 'no persona' where it is given none",
    "experiencer": "wording of the identity of the person in the narrative",
    "perceiver_group": "group of the perceiver; 'unspecified' for the baseline, 'no persona' without one",
    "experiencer_group": "group of the experiencer; 'unspecified' for the baseline",
    "in_group": "whether perceiver and experiencer share the group in every dimension crossed; missing for baselines",
    "n_shared": "in how many of the crossed dimensions they share the group; 0 or 1 for one; missing for baselines",
    "status": "rated, refused, unparseable or failed",
    "intensity": "in points of the variant's scale; missing unless rated",
    "response": "the model's raw text (`generate`); empty for `expected`",
    "number_mass": "probability that the response begins with a number of the scale, which ends there (`expected`); "
    "missing for `generate`",
    "mode": "the most probable number of the scale (`expected`), in points",
    "spread": "standard deviation of the distribution over the scale's numbers (`expected`), in points",
    "n_prompt_tokens": "tokens of the prompt that asked for the rating; missing where it was not asked",
    "n_dropped": "examples and earlier calls left out of that prompt, the oldest first, for want of room",
    "pruned_points": "how far the intensity could be from the one reported for what was not asked: branches of the "
    "tree of numbers, and whether numbers end (`expected`), in points",
    "wording": "which wording of the prompt was asked, from 0, the original; runs of earlier versions had that alone",
}

STAGES: Final[dict[str, str]] = {
    "prompt_index": RATINGS["prompt_index"],
    "stage": "the strategy's model call, before the one that asks for the rating",
    "text": "what the model wrote, verbatim; empty where it failed",
    "status": "written, empty (white space alone), cut (at max_tokens; what there is was used) or failed",
    "n_prompt_tokens": "tokens that the model read; 0 where it was not asked",
    "n_tokens": "tokens that it wrote; a text that several prompts share counts in each",
    "n_dropped": "examples and earlier calls left out of the conversation, the oldest first, for want of room",
}

CALLS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "call": "the strategy's stage, or question, the call that asks for the rating",
    "place": "of the call among those of a prompt, from 0",
    "n_prompts": "prompts whose ratings are there",
    "n_written": "texts that came to an end of their own; of the question, prompts with a response",
    "n_cut": "texts cut at max_tokens, of which the beginning was used; missing for the question",
    "n_empty": "texts of white space alone; missing for the question",
    "n_failed": "prompts in which it failed, or was not asked since an earlier call failed or there was no room",
    "mean_prompt_tokens": "tokens that the model read, mean over the prompts in which it was asked",
    "mean_tokens": "tokens that it wrote, likewise; missing for the question",
    "n_shortened": "prompts in which examples or earlier calls were left out of what it read, for want of room",
}

GIVEN: Final[dict[str, str]] = {
    "narrative_id": RATINGS["narrative_id"],
    "kind": "example, shown before the first call, or knowledge, which templates show",
    "place": "of the example among those shown, or of the relation, from 0; of similar examples the nearest is last",
    "name": "the example's identifier in its pool, or the relation",
    "text": "the example's situation, or what is known",
    "answer": "what the model is shown to have answered; empty for knowledge",
    "emotion": "the example's emotion, where its pool tells it",
    "similarity": "cosine of the sentence embeddings of example and narrative; missing unless it was chosen by it",
}

ANSWERED: Final[dict[str, str]] = {
    "prompt_index": RATINGS["prompt_index"],
    "status": RATINGS["status"],
    "intensity": RATINGS["intensity"],
    "response": "the model's raw text; empty where it was asked for probabilities",
}
"""Prompts that were asked once more, in words or again, as ``elicitation_sample.parquet`` and ``asked_again.parquet``
hold them."""

FORMATS: Final = ("bfloat16", "float16", "float32")
"""Number formats that prompts may be asked again in, as ``asked_in_<format>.parquet`` holds them."""

MANIPULATED: Final[dict[str, str]] = {
    "narrative_id": RATINGS["narrative_id"],
    "kind": "own (its own emotion is asked about), wrong (another emotion), or mild or strong, in which a situation is "
    "written too",
    "emotion": RATINGS["emotion"],
    "status": RATINGS["status"],
    "intensity": RATINGS["intensity"],
    "response": "the model's raw text; empty where it was asked for probabilities",
}
"""Prompts without identities, as ``manipulation.parquet`` holds them."""

MANIPULATION: Final[dict[str, str]] = {
    "check": "emotion (a narrative's own emotion is rated higher than a wrong one) or intensity (the strong version of "
    "a situation higher than the mild one); no identity is told",
    "n_asked": "narratives that were asked both ways",
    "n_pairs": "of these rated both times",
    "mean_higher": "mean rating of the own emotion, or of the strong version, in points",
    "mean_lower": "mean rating of the wrong emotion, or of the mild version, in points",
    "difference": "mean_higher minus mean_lower, paired by narrative, in points",
    "se": "standard error of difference, in points",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of its confidence interval, in points",
    "ci_high": "upper end of the same",
    "p": "two-sided p of the t-test against no difference",
    "passed": "whether the interval lies above 0; missing where too few were rated",
    "note": "why there is no interval, in words; empty if there is one",
}

CELLS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "perceiver": RATINGS["perceiver"],
    "experiencer": RATINGS["experiencer"],
    "perceiver_group": RATINGS["perceiver_group"],
    "experiencer_group": RATINGS["experiencer_group"],
    "in_group": RATINGS["in_group"],
    "n_shared": RATINGS["n_shared"],
    "mean": "mean intensity over the rated prompts of the pair, in points",
    "sd": "standard deviation (n - 1) of the same, in points; missing below two ratings",
    "n_prompts": "prompts of the pair",
    "n_rated": "of these rated",
    "n_refused": "of these refused",
    "n_unparseable": "of these unparseable",
    "n_failed": "of these failed",
    "refusal_rate": "n_refused / n_prompts",
    "unparseable_rate": "n_unparseable / n_prompts",
}

CELL_EMOTIONS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "perceiver": RATINGS["perceiver"],
    "experiencer": RATINGS["experiencer"],
    "emotion": RATINGS["emotion"],
    **{name: CELLS[name] for name in ("mean", "sd", "n_prompts", "n_rated", "n_refused", "n_unparseable", "n_failed")},
}

NARRATIVES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "narrative_id": RATINGS["narrative_id"],
    "emotion": RATINGS["emotion"],
    "contrast_points": "the narrative's own gap in points, by least squares on in-group, perceiver and experiencer "
    "within it: what the headline is the (weighted) mean of; missing where its ratings do not determine it",
    "mean": "mean intensity over its rated prompts, in points",
    "n_prompts": "prompts of the narrative, baselines included",
    "n_rated": "of these rated",
}

DISTRIBUTIONS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "pairs": "which pairs are counted: in_group, out_group or baseline (one side unspecified or no persona)",
    "low": "lower end of the bin, in points",
    "high": "upper end of the bin, in points; the scale's own ends are bins with low = high; ratings beyond an end "
    "have a bin of their own, from that end to the farthest of them, if there are any",
    "n_ratings": "ratings in the bin: at the end of the scale, beyond it, or else from low up to, and without, high",
    "share": "n_ratings over the ratings of these pairs",
}

GAP: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"] + "; 'all' is the mean over the single dimensions",
    "variant": RATINGS["variant"],
    "estimator": "contrast (each narrative's own gap by its own valid ratings, pooled over narratives), mixed (a model "
    "of narratives' levels and gaps alone, by REML), mixed_crossed (the same with random perceivers and experiencers) "
    "or published (hou2025 arithmetic)",
    "scope": "what the interval speaks about: narratives = these identities, any such narratives; "
    "narratives_and_terms = any such identities too; empty for published",
    "headline": "whether the row is of the headline's estimator, contrast",
    "delta_points": "gap in scale points: in-group minus out-group",
    "se": "standard error of delta_points, in points",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the confidence interval, in points",
    "ci_high": "upper end of the confidence interval, in points",
    "p": "two-sided p against a gap of 0, of the same t distribution as the interval: interval, p and verdict follow "
    "one rule, and p is below 1 less the confidence just when the interval leaves out 0",
    "p_sign_flip": "two-sided p of flipping the signs of the narratives' gaps, which supposes no normal distribution; "
    "it decides nothing; missing for all but contrast within narratives",
    "d_z": "delta_points over the root of n_narratives times se: over the standard deviation of the narratives' gaps "
    "where these count alike; no unit",
    "delta_z": "the published gap, in standard deviations of the matrix's own cells; comparable with nothing else",
    "null_low": "2.5 percentile of delta_z over permuted matrices: a null interval, not a confidence interval",
    "null_high": "97.5 percentile of the same",
    "n_narratives": "narratives that the estimate uses",
    "n_narratives_asked": "narratives that were asked",
    "n_ratings": "ratings that the estimate uses; of a prompt in several wordings their mean, which counts once",
    "n_missing": "prompts between the dimension's identities (baselines left out) without a rating, in any wording",
    "note": "why there is no estimate or no interval, how many groups count for the wider scope where not all do, or "
    "which permutations were taken, in words; else empty",
    "p_adjusted": "p corrected for all headlines of the run within narratives: of every dimension, intersection and "
    "variant, but not of 'all', which is a mean of them (Holm, family-wise error); missing in other rows",
    "p_family_size": "tests that were corrected for: those headlines with a p; missing in other rows",
    "percent_of_scale": "delta_points in % of the scale's length; missing for published",
    "sd_within": "standard deviation of the headline's ratings about their narrative's mean, pooled over narratives, "
    "in points; of 'all', the root of the dimensions' mean square; missing in rows that are no headline",
    "delta_sd": "delta_points over sd_within; no unit",
    "raw_in": "plain mean of the headline's in-group ratings, baselines left out, in points; of 'all', the mean of the "
    "dimensions' means; missing in rows that are no headline",
    "raw_out": "the same of out-group ratings, in an intersection of pairs that share nothing; raw_in - raw_out is not "
    "delta_points where groups differ in size, or ratings are missing, since it holds effects of perceivers and of "
    "experiencers too",
}

CONTROLS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "control": "all_terms (in-group pairs of whatever words, the published sense of δ), echo_free (in-group pairs "
    "without a word in common), echo (what repeating the very same words adds to being of the same group), same_words "
    "(in-group pairs that repeat the same words), placebo (the same of invented groups), placebo_difference "
    "(same_words minus placebo, paired by narrative), wording (the headline over wordings, an interval for any such "
    "wordings), elicitation (the headline of a sample of prompts answered in words), noise (what the same prompts "
    "differ by when they are asked again in another order and other batches), or noise_bfloat16, noise_float16 or "
    "noise_float32 (what those differ by, in that order and these batches, in that number format)",
    **{name: GAP[name] for name in GAP if name not in ("dimension", "variant", "headline", "n_missing")},
    "headline": "whether this control decides if δ is a gap between groups",
    "n_missing": "prompts without a rating among those that it could have used",
    "levels": "sets of invented groups, or wordings, that it is of; 0 without an estimate",
}

WORDINGS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "wording": RATINGS["wording"],
    "delta_points": "gap in scale points of the wording's own ratings: in-group minus out-group, as the headline",
    **{name: GAP[name] for name in ("se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_ratings")},
    "note": "why there is no estimate or no interval, in words; else empty",
}

WORDING_SHARES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "part": "what gaps vary with: narratives, wordings, rest (what is of a narrative in a wording alone, and the noise "
    "of ratings) or identities (of δ as a whole)",
    "variance": "of one narrative's gap in one wording, the part of its variance, in squared points; missing for "
    "identities, since a gap is of all of them",
    "sd": "the root of variance, in points",
    "share": "variance over the sum of the parts; missing where that is 0",
    "of_delta": "of δ over all narratives and wordings, the part of its variance, in squared points; missing where it "
    "is not known",
    "share_of_delta": "of_delta over the sum of the parts that are known",
    "levels": "narratives, wordings, both multiplied, or groups, that it is of",
    "note": "why the part is not known, in words; else empty",
}

WORDING_SPLITS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "split": "asked, best (the least standard error of as many prompts), or best of twice as many",
    "budget": "most prompts for a pair of identities: narratives times wordings",
    "n_narratives": "narratives of the split",
    "n_wordings": "wordings of the split, 64 at most",
    "se": "standard error of δ that the variances of wording_shares let one expect, in points",
}

ELICITATION: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "method": "expected (the run's ratings, of the same prompts) or generate (those that the model wrote in words)",
    **{name: GAP[name] for name in ("delta_points", "se", "df", "ci_low", "ci_high", "p", "n_narratives")},
    "delta_points": GAP["delta_points"]
    + ", over the prompts of the sample that both methods rated (or if there are none, expected); the "
    "headline's estimator",
    "n_ratings": "prompts that delta_points uses: rated by both methods, or if there are none, by expected",
    "n_prompts": "prompts of the sample",
    **{name: CELLS[name] for name in ("n_rated", "n_refused", "n_unparseable", "n_failed")},
    "refusal_rate": "n_refused / n_prompts; missing for expected, which sees no refusals",
    "pearson": "Pearson's correlation of the two ratings over those prompts; missing for expected, and where one of "
    "them is always the same",
    "spearman": "Spearman's rank correlation, likewise",
    "mean_difference": "mean over those prompts of the rating in words minus the expected one, in points",
    "difference": "gap in words minus the expected gap, in points: mean over narratives, paired",
    "difference_low": "lower end of its confidence interval, in points",
    "difference_high": "upper end of the same",
    "note": "why there is no estimate or no interval, or what limits the sample, in words; else empty",
}

PUBLISHED_CELLS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "perceiver": RATINGS["perceiver"],
    "experiencer": RATINGS["experiencer"],
    "z": "the cell's mean, rounded to 2 decimals as published, in standard deviations of all cells of the matrix, "
    "those of the unspecified identity among them, about their mean",
    "p_perceiver": "p of the published paired t-test against the perceiver's own cell; no test of intergroup bias",
    "p_experiencer": "p of the same against the experiencer's own cell",
    "shown": "whether the published heatmap shows the cell: both p below 0.05 / (identities + 1)^2, or an identity's "
    "own cell, or a baseline",
    "n_narratives": "narratives that z and both p are of: those with a rating in every cell of the matrix; the "
    "published gap is of those with one in every cell between identities",
}

NULL: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "low": "lower end of the bin, in the unit of delta_z",
    "high": "upper end of the bin; belongs to the next one, but for the last",
    "n_shuffles": "shuffled matrices whose published gap lies in the bin",
}

VARIANCES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "estimator": "contrast (what narratives' own fits tell), mixed or mixed_crossed, as in gap",
    "intercept_variance": "between narratives' levels, in squared points",
    "slope_variance": "between narratives' gaps, in squared points",
    "covariance": "of a narrative's level and its gap, in squared points",
    "residual_variance": "of a rating about its narrative's fit, in squared points",
    "perceiver_variance": "between perceivers, in squared points (mixed_crossed)",
    "experiencer_variance": "between experiencers, in squared points (mixed_crossed)",
    "narrative_perceiver_variance": "of what a narrative adds to one perceiver, in squared points (contrast); missing "
    "in the mixed models, which have no such term",
    "narrative_experiencer_variance": "of what a narrative adds to one experiencer, in squared points (contrast)",
    "criterion": "-2 log REML likelihood at the optimum, with its constants",
    "converged": "whether the optimum was confirmed, at the boundary too",
    "boundary": "whether a variance, or the correlation of level and gap, is at the boundary of what is possible",
    "n_narratives": "narratives with a rating; of contrast, whose ratings tell of narrative × identity",
    "n_informative": "narratives with an in-group and an out-group rating; of contrast, that have a gap of their own",
    "n_ratings": "ratings used",
    "note": "why there is no fit, in words; empty if there is one",
}

LEAVE_ONE_OUT: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "estimator": "the headline's, as in gap",
    "group": "the group whose perceivers and experiencers are left out; groups that do not count have no row",
    "delta_points": "gap of the cell means of the others, in points",
}

OUTCOMES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "pairs": "which pairs are counted: in_group, out_group, baseline (one side unspecified or no persona) or all",
    "n_prompts": "prompts of these pairs",
    "n_rated": "of these rated",
    "n_refused": "of these refused",
    "n_unparseable": "of these unparseable",
    "n_failed": "of these failed",
    "refusal_rate": "n_refused / n_prompts",
    "unparseable_rate": "n_unparseable / n_prompts",
    "floor_share": "share of ratings at the scale's lower end",
    "ceiling_share": "share of ratings at the scale's upper end",
    "n_below_scale": "ratings below the scale's lower end, which a parser accepted; they are at neither end",
    "n_above_scale": "ratings above the scale's upper end, which a parser accepted",
    "mean_number_mass": "mean of number_mass over the prompts that have one (`expected`)",
    "low_mass_share": "share of these prompts whose number_mass is below statistics.min_number_mass",
}

MODES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "of": "what is counted: mode (the most probable number of the scale, `expected`) or intensity (the rating, where "
    "there is no mode)",
    "value": "the most common one among the rated prompts between identities, in points; of two as common the lower",
    "share": "of those prompts, the share that has it",
    "n_values": "different values among them",
    "n": "those prompts: rated, baselines left out",
}

FAMILIES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "family": "pair, group (the group's own cell: how much higher its ratings of its own are than its ratings of "
    "others and others' ratings of it lead one to expect), emotion, valence, cluster, degree, cue or uplift",
    "member": "what the contrast is about: a group, emotion, valence, cluster or cue, or a number of shared dimensions",
    "partner": "of a pair, the other group; else empty",
    "estimator": "contrast (no rating that it needs is missing); else pairs (least squares on effects of narratives "
    "and of all pairs, from all valid ratings); of emotion and valence always contrast, as the headline",
    "delta_points": "the contrast in scale points; positive where pairs that belong together are rated higher",
    "se": "standard error of delta_points, in points",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the confidence interval, in points; not corrected for multiplicity",
    "ci_high": "upper end of the same",
    "p": "two-sided p of the t-test against 0",
    "p_adjusted": "p corrected for the family",
    "method": "the correction: Holm (family-wise error) or Benjamini–Hochberg (false discovery rate)",
    "family_size": "tests that were corrected for: the members of the family with a p",
    "d_z": "delta_points over the standard deviation of the narratives' contrasts; no unit",
    "n_pairs": "pairs of a perceiver and an experiencer whose ratings the estimate uses",
    "n_narratives": "narratives that the estimate uses",
    "n_ratings": "ratings that the estimate uses",
    "note": "why there is no estimate or no interval, or what limits it, in words; else empty",
    "eq_low": "lower end of the interval of level 1 - 2 alpha, in points: where the whole of it lies within a margin, "
    "so does the member, by the equivalence test; not corrected for multiplicity",
    "eq_high": "upper end of the same",
    "delta_rest": "mean of delta_points over the other members of the family, each of them alike (of emotions, over "
    "those with a standard error); missing but for pair, group and emotion",
    "change_points": "delta_points minus delta_rest: how a member differs from the rest, in points",
    "change_se": "standard error of change_points, in points: of narratives, member and rest in one, or of emotions, "
    "whose narratives are other ones, by Welch",
    "change_p": "two-sided p of the t-test against no difference from the rest",
    "change_p_adjusted": "change_p corrected for the members of the family (Holm, family-wise error)",
}

HETEROGENEITY: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "over": "emotion or group: whose gaps are tested for being all the same, as in families",
    "n_members": "emotions or groups that the test compares",
    "statistic": "of the test, an F; see note",
    "df": "degrees of freedom of what differs between members",
    "df_residual": "degrees of freedom of what the differences are measured by",
    "p": "p of the test that the gap is the same in all of them; missing where there is no test",
    "p_adjusted": "p corrected for the rows of the table (Holm, family-wise error)",
    "note": "which test was made, or why there is none, in words",
}

EQUIVALENCE: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "estimator": "what made the estimate, as in the table of gaps",
    "scope": "what the interval speaks about, as in the table of gaps",
    "margin": "gap that counts as too small to matter, in points, chosen before the ratings were seen; missing without",
    "alpha": "error rate of each test: of the two one-sided ones of equivalence, and of the two-sided one of a gap",
    "delta_points": "gap in scale points: in-group minus out-group",
    "level": "coverage of the interval from low to high, 1 - 2 alpha: the one that the equivalence test goes by",
    "low": "lower end of that interval, in points",
    "high": "upper end of the same",
    "largest_gap": "the larger of |low| and |high|: no gap larger than this many points, at that level",
    "p_equivalence": "p of the two one-sided t-tests that the gap lies within the margin; missing without a margin",
    "verdict": "no gap larger than the margin; gap, smaller than the margin; gap; undecided; or not estimable",
}

POWER: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "sd_contrast": "standard deviation of the narratives' contrasts, se times the root of n_narratives, in points",
    "slope_sd": "standard deviation between narratives of the true gap (REML), in points; missing where unknown",
    "residual_sd": "standard deviation of a rating about its narrative's own fit, in points; missing where unknown",
    "sum_of_squares": "s, of the double-centred in-group mask: sd_contrast² estimates slope_sd² + residual_sd²/s",
    "n_narratives": "narratives that the estimate uses",
    "power": "chance of a right answer that detectable_points, n_for_wanted and n_for_margin are to have",
    "alpha": "error rate of the tests",
    "detectable_points": "smallest gap that a two-sided t-test finds with that power in n_narratives, in points",
    "detectable_low": "lower end of its interval (confidence 1 - alpha), since sd_contrast is an estimate, in points",
    "detectable_high": "upper end of the same, in points",
    "wanted_points": "gap that one wants to be able to find, in points; missing without",
    "n_for_wanted": "narratives that find it with that power",
    "margin_points": "margin of the equivalence test, in points; missing without",
    "n_for_margin": "narratives that show, with that power, that a gap of exactly 0 lies within the margin",
    "note": "why there is no power to speak of, in words; empty if there is",
}

MISSING: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "outcome": "refused, unparseable, failed, or missing (any of the three)",
    "rate_in_group": "share of the in-group prompts with the outcome, between 0 and 1",
    "rate_out_group": "share of the other prompts with the outcome, baselines left out",
    "gap_pp": "gap of the outcome in percentage points: δ's contrast of the 0/1 indicator, free of identities' effects",
    "se": "standard error of gap_pp, in percentage points",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the confidence interval, in percentage points",
    "ci_high": "upper end of the confidence interval, in percentage points",
    "p": "two-sided p of the t-test against a gap of 0",
    "d_z": "gap_pp over the standard deviation of the narratives' contrasts; no unit",
    "n_narratives": "narratives that gap_pp uses: those whose every prompt could have shown the outcome",
    "n_prompts": "prompts that could have shown the outcome; of refused and unparseable those that did not fail",
    "n_with_outcome": "of these with the outcome",
    "note": "why there is no gap or no interval, in words; empty if there is one",
}

SENSITIVITY: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "check": "what is assumed in place of the headline's: listwise (complete narratives alone), equal_narratives "
    "(the plain mean of the same narratives' own gaps that the headline weighs), within_narratives (least squares on "
    "narrative effects), worst_case_low and worst_case_high (missing ratings at the end of the scale that lowers or "
    "raises δ most), tipping_point (missing ratings shifted until δ is 0), number_mass_weighted (ratings weighted by "
    "number mass), number_mass_above (ratings of enough number mass alone), ranks (ranks within each narrative), mode "
    "(the most probable number), tobit (the scale goes on beyond its ends; where 10% of the ratings or more lie at one "
    "of them)",
    "unit": "of the estimate: points of the scale, or percentile points (ranks)",
    "delta_points": "gap in the row's unit: in-group minus out-group; missing for tipping_point",
    "shift_points": "tipping_point: how much higher all missing ratings would have to be than the ratings that there "
    "are let one expect for δ to be 0, in points; as in missing_grid",
    "se": "standard error of delta_points, in the row's unit",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the confidence interval, in the row's unit",
    "ci_high": "upper end of the confidence interval, in the row's unit",
    "p": "two-sided p of the t-test against a gap of 0",
    "n_narratives": "narratives that the estimate uses",
    "n_ratings": "ratings that the estimate uses, filled ones included",
    "share": "listwise: of the narratives, the complete ones; worst_case_low, worst_case_high, tipping_point: of the "
    "prompts, those without a rating; number_mass_weighted: of the prompts with a number mass, those below the "
    "minimum; number_mass_above: of the ratings, those kept; tobit: of the ratings, those at either end; otherwise "
    "missing",
    "note": "why there is no value or no interval, or what limits it, in words; else empty",
}

MISSING_GRID: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "shift_in_group": "how much higher the missing in-group ratings are taken to be than the ratings that there are "
    "let one expect, in points",
    "shift_out_group": "the same of the missing out-group ratings; at 0 and 0 the row is the headline",
    "delta_points": "gap with the missing ratings filled by what is expected of them and shifted, in points",
    "se": "standard error of delta_points, in points; the uncertainty of the filled ratings is in it",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the confidence interval, in points",
    "ci_high": "upper end of the confidence interval, in points",
    "n_missing_in_group": "in-group prompts that were asked and gave no rating",
    "n_missing_out_group": "the same of the others, baselines left out",
    "note": "why there is no interval, in words; empty if there is one",
}

COMPARISONS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "first": "the variant, strategy or model that is compared",
    "second": "the one that it is compared with",
    "unit": "unit of the gaps: points, or % of the scale (points over the scale's length) where the two scales differ",
    "delta_first": "gap of the first on the narratives that both have, in that unit",
    "delta_second": "gap of the second on the same",
    "delta_change": "delta_first minus delta_second",
    "se": "standard error of delta_change, in that unit",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the confidence interval of delta_change, in that unit; not corrected for multiplicity",
    "ci_high": "upper end of the same",
    "p": "two-sided p of the paired t-test against no difference",
    "p_adjusted": "p corrected for the comparisons within the dimension",
    "method": "the correction: Holm (family-wise error)",
    "family_size": "tests that were corrected for: the comparisons within the dimension with a p",
    "n_narratives": "narratives that both have",
    "correlation": "Pearson's, of the two contrasts of a narrative: what pairing gains; missing below 3 narratives",
    "note": "why there is no estimate or no interval, in words; empty if there is one",
}

OWN_MODEL: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "formula": "the user's formula for the fixed terms",
    "fit": "mixed (MixedLM by REML, random terms per cluster) or ols (least squares, standard errors by cluster)",
    "term": "the column of the design, a (co)variance of random terms, or residual; empty where nothing was fitted",
    "component": "fixed, random (a variance or covariance of random terms per cluster) or residual (a variance)",
    "estimate": "fixed: in units of the left side for one unit of the term; else in units of the left side squared",
    "se": "standard error of a fixed term, in the unit of its estimate; missing for (co)variances",
    "statistic": "estimate / se: z for mixed, t for ols",
    "df": "degrees of freedom of t, n_clusters - 1; missing for z",
    "p": "two-sided p against 0, by t or z",
    "ci_low": "lower end of the confidence interval, in the unit of estimate",
    "ci_high": "upper end of the confidence interval, in the unit of estimate",
    "n_ratings": "ratings that the fit uses",
    "n_clusters": "clusters that the fit uses",
    "n_excluded": "prompts between identities that it does not use: not rated, or a column of the formula is missing",
    "converged": "whether the fit ended at an optimum with standard errors",
    "singular": "whether the design is rank deficient, or the (co)variances of the random terms lie on their boundary",
    "message": "what the fitter warned of and what was left out, one line; empty if nothing",
}

CALIBRATION: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "delta": "gap that the data sets were drawn with, of any such narratives and identities, in points",
    "estimator": "contrast, mixed, mixed_crossed or published, as in gap; listwise or equal_narratives, as in "
    "sensitivity; or headline, the contrast as speaking of any such identities",
    "scope": "what the interval speaks about: narratives or narratives_and_terms; empty for published",
    "n_datasets": "data sets drawn",
    "n_estimable": "of these, those in which the estimator gives an interval; all that follows is about them",
    "n_converged": "of those, the ones whose fit was confirmed to be the optimum; all of them where nothing is fitted",
    "bias": "mean of the estimate less its target, in points; the target is the gap of the identities drawn if the "
    "scope is narratives, and delta if it is narratives_and_terms",
    "sd_estimate": "standard deviation of the estimate less its target, in points",
    "mean_se": "mean standard error that the estimator gives itself, in points",
    "false_positives": "share that rejects the target, by t; for published the share outside its 95% null interval at "
    "a delta of 0, else missing",
    "false_positives_others": "share that rejects delta itself: what is got wrong where the test is read as speaking "
    "of any such identities",
    "coverage": "share of t intervals that hold the target",
    "power": "share that rejects a gap of 0; missing at a delta of 0",
    "monte_carlo_se": "standard error of false_positives for a test that holds its level, from the number of data sets",
    "note": "why a data set was not estimable, the first one's reason; empty if all were",
}

STAGE_TEXTS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "stage": STAGES["stage"],
    "measure": "what is scored in a text: n_words (length), sentiment (VADER's compound score, mean over sentences), "
    "stereotype_words (words of the lexicon), refused (a phrase that declines the task), emotion_named (a word for any "
    "emotion of the vocabulary, not negated), emotion_accuracy (of the texts that name an emotion, those that name the "
    "narrative's own, among others or alone), or theme_NAME, the lexicon's words of one theme, which are described and "
    "not tested",
    "group": "the experiencer's group that the texts are about; baselines are left out",
    "unit": "unit of the measure: words; compound, from -1 to 1; per 100 words; % of texts; or % of texts that name an "
    "emotion",
    "mean": "mean over the texts about the group, in the row's unit: over its terms, the perceivers, then the units",
    "mean_others": "the same, of the other groups' means, in the row's unit; each of them counts alike",
    "difference": "mean minus mean_others, in the row's unit (of % percentage points)",
    "se": "standard error of difference, in the row's unit",
    "df": "degrees of freedom of the t distribution, n_units - 1",
    "ci_low": "lower end of the confidence interval of difference; not corrected for multiplicity",
    "ci_high": "upper end of the same",
    "p": "two-sided p of the t-test against no difference",
    "p_adjusted": "p corrected for all tests of the dimension and variant: of every stage, measure and group",
    "method": "the correction: Holm (family-wise error)",
    "family_size": "tests that were corrected for: those with a p",
    "constant": "whether all units give the same difference, other than 0: then there is nothing to test",
    "units": "what the t-test takes for independent: narratives; or perceivers, where a pair's text does not depend on "
    "the narrative. Those that share more than half of their texts count as one",
    "n_units": "units that difference uses",
    "n_texts": "distinct texts about the group, without empty and failed ones",
    "n_empty": "prompts whose text about the group has no word: 0 words, not refused, and no other number",
    "n_failed": "prompts whose text about the group failed: missing in every measure",
    "n_scored": "of n_texts, those with a number of the measure: a text that names no emotion has no emotion_accuracy, "
    "one in another script than the Latin has neither; difference uses perceivers with a number about every group",
    "note": "why there is no difference or no interval, or what limits it, in words; else empty",
}

MARKED_WORDS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "stage": STAGES["stage"],
    "group": STAGE_TEXTS["group"],
    "word": "one of the 15 words at most, the most marked first, that texts about the group have more than others",
    "n_group": "how often the distinct texts about the group have it",
    "n_others": "how often the distinct texts about the other groups have it, each group's counted by themselves",
    "log_odds": "its log odds in the group's texts less those in the others', by a Dirichlet prior; natural log",
    "z": "log_odds over its standard error, if words were independent: descriptive, since words of one text are not",
    "p_adjusted": "two-sided p of z, corrected for the words tested by Holm; too small for the same reason",
    "family_size": "words tested: those in 3 distinct texts or more, without the words of the identities",
}

CORRELATIONS: Final[dict[str, str]] = {
    "emotion": RATINGS["emotion"] + "; 'all' in the first row: all emotions pooled, so that how they differ counts too",
    "rho": "Spearman's rank correlation of the model's numbers with people's; 1 is the same order, -1 the reverse",
    "rho_low": "lower end of its percentile interval over resampled units; not corrected for multiplicity",
    "rho_high": "upper end of the same",
    "p": "two-sided p of rho against 0 (t approximation); missing where a unit has several pairs",
    "p_adjusted": "p corrected for the number of emotions; missing in the row of all",
    "method": "the correction: Holm (family-wise error); empty in the row of all",
    "family_size": "tests that were corrected for: the emotions with a p",
    "tau": "Kendall's tau-b: share of pairs of narratives in the same order minus in the reverse, corrected for ties",
    "tau_low": "lower end of its percentile interval over resampled units; not corrected for multiplicity",
    "tau_high": "upper end of the same",
    "n": "pairs of a model's and people's number",
    "n_units": "what is resampled: the pairs, or the clusters (such as narratives) that they come in",
    "n_missing": "rows left out since the model's or people's number is missing",
    "note": "why there is no correlation or no interval, in words; empty if there is one",
}

HUMAN: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    **CORRELATIONS,
    "n": "narratives with a rating by the model and by people",
    "n_units": "the same: what is resampled",
    "n_missing": "narratives of the run without a rating by people, or by the model",
}

PEOPLE_GAP: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "delta_points": "gap of people in scale points: raters' ratings of their own group's experiencers minus those of "
    "others', each rater's mean and terms for narratives and experiencers taken off; in a crossed dimension own in all",
    "se": "its standard error over raters (CR2), in points; missing below 4 raters",
    "df": "Satterthwaite's degrees of freedom",
    "ci_low": "lower end of the confidence interval, in points: such raters, these narratives and these experiencers",
    "ci_high": "upper end of the same",
    "p": "two-sided p against a gap of 0, of the same t distribution",
    "n_raters": "raters who belong to a group of the dimension and rated an item of it",
    "n_groups": "groups that they belong to",
    "n_narratives": "narratives that they rated",
    "n_ratings": "ratings that the estimate uses",
    "n_excluded": "raters with items of the dimension who belong to none of its groups, or did not say",
    "n_ratings_excluded": "their ratings, which the estimate does not use",
    "n_skipped": "items of the dimension in raters' lists that were left out: missing, not 0",
    "note": "why there is no estimate or no interval, in words; else empty",
    "model_delta_points": "the model's gap, of all in-group pairs whatever their words, of the same narratives and "
    "experiencers, with perceivers of the raters' groups",
    "model_ci_low": "lower end of its confidence interval, in points: such narratives, these identities",
    "model_ci_high": "upper end of the same",
    "model_n_narratives": "narratives that it uses",
    "model_note": "why it has no estimate or no interval, in words; else empty",
    "model_echo_free": "the same without a word in common: echo_free of controls, of those narratives and identities; "
    "missing where their terms do not allow that",
    "model_echo_free_low": "lower end of its confidence interval, in points: such narratives, these identities",
    "model_echo_free_high": "upper end of the same",
    "model_echo_free_note": "why it has no estimate or no interval, in words; else empty",
}

PEOPLE_AGREEMENT: Final[dict[str, str]] = {
    "variant": RATINGS["variant"],
    "emotion": RATINGS["emotion"] + "; 'all' in the first row: all emotions pooled, so that how they differ counts too",
    "r": "Pearson's correlation, over narratives, of people's mean intensity, raters' own means taken off, with the "
    "model's mean over all its pairs of identities",
    "ci_low": "lower end of Fisher's interval over narratives",
    "ci_high": "upper end of the same",
    "n": "narratives with a rating by people and by the model",
    "n_raters": "raters of these",
    "n_ratings": "ratings by people of these",
    "note": "why there is no correlation or no interval, in words; else empty",
}

NORMING: Final[dict[str, str]] = {
    "narrative_id": RATINGS["narrative_id"],
    "emotion": "the emotion that the narrative was designed for",
    "n": "readers who said which emotion is felt",
    "share_designed": "of these, the share who chose the designed one",
    "most_chosen": "the emotion that most of them chose; the first of several in a tie",
    "n_intensity": "readers who said how intense it is",
    "mean_intensity": "mean of what they said, in points of the run's scale",
    "sd_intensity": "its standard deviation (n - 1), in points",
    "n_plausibility": "readers who said how plausible it is that this happens to somebody like them",
    "mean_plausibility": "mean of what they said, from 1 to 7",
    "flags": "few readers (below 5 for a question), emotion (share below 0.5), intensity (mean below a quarter of the "
    "scale), plausibility (mean below 4), joined by commas; empty for none",
}

TABLES: Final[dict[str, dict[str, str]]] = {
    "gap": GAP,
    "variances": VARIANCES,
    "leave_one_out": LEAVE_ONE_OUT,
    "families": FAMILIES,
    "heterogeneity": HETEROGENEITY,
    "equivalence": EQUIVALENCE,
    "power": POWER,
    "missing": MISSING,
    "sensitivity": SENSITIVITY,
    "controls": CONTROLS,
    "manipulation": MANIPULATION,
    "wordings": WORDINGS,
    "wording_shares": WORDING_SHARES,
    "wording_splits": WORDING_SPLITS,
    "elicitation": ELICITATION,
    "missing_grid": MISSING_GRID,
    "comparisons": COMPARISONS,
    "own_model": OWN_MODEL,
    "cells": CELLS,
    "cell_emotions": CELL_EMOTIONS,
    "narratives": NARRATIVES,
    "distributions": DISTRIBUTIONS,
    "null": NULL,
    "published_cells": PUBLISHED_CELLS,
    "outcomes": OUTCOMES,
    "modes": MODES,
    "calls": CALLS,
    "stage_texts": STAGE_TEXTS,
    "marked_words": MARKED_WORDS,
    "human": HUMAN,
    "people_gap": PEOPLE_GAP,
    "people_agreement": PEOPLE_AGREEMENT,
    "norming": NORMING,
}
"""Each table of ``tables/`` by its file's stem."""

RUNS: Final[dict[str, str]] = {
    "run": "the run's label in the comparison: what sets it apart from the others; a run with several prompt variants "
    "has a row for each",
    "folder": "the run's folder, as it was given",
    "model": "name of the model, or of the table of ratings",
    "prompt": "the prompt variant",
    "strategy": "how the model was led to empathise before it was asked; none if it was not",
    "narratives": "where the narratives come from",
    "elicitation": "how a rating is got: expected, generate, or outside (by another tool)",
    "scale": "the ends of the rating scale, in points",
    "seed": "the run's seed",
    "engine": "the library that ran the model, and its version",
    "device": "what it ran on",
    "dtype": "number format of the model's weights",
    "quantization": "how the weights were quantised; empty if not",
    "parser": "how a rating was read from an answer (`generate`)",
    "path": "where the model comes from",
    "revision": "the model's revision",
    "dimensions": "the dimensions that were asked",
    "n_narratives": "narratives that were asked",
    "wording": "SHA-256 of the prompt variant's wording",
    "texts": "SHA-256 of the narratives",
    "identities": "SHA-256 of the identities and of who is in-group to whom",
    "leading": "SHA-256 of what the strategy asks, with its pool of examples and its knowledge; empty without one",
    "n_prompts": "prompts of the run and variant, baselines included",
    "n_rated": "of these rated",
    "n_refused": "of these refused",
    "n_unparseable": "of these unparseable",
    "n_failed": "of these failed",
    "started": "when the run was started",
    "version": "version of empathy-audit that collected the ratings",
    "command": "the command that collected them",
    "identity": "SHA-256 of all that the run's ratings depend on",
    "ratings": "SHA-256 of the files of ratings, one after another",
}

_NOT_COMPARED: Final = ("headline", "p_sign_flip", "delta_z", "null_low", "null_high", "note")
COMPARED_GAP: Final[dict[str, str]] = {
    "run": RUNS["run"],
    **{name: text for name, text in GAP.items() if name not in _NOT_COMPARED},
    "p_adjusted": "p corrected for all headlines of the comparison within narratives: of every run, dimension and "
    "intersection, but not of 'all', which is a mean of them (Holm, family-wise error); missing in other rows",
    "n_asked": "prompts between the dimension's identities, baselines left out",
    "missing_share": "n_missing / n_asked",
    "largest_gap": EQUIVALENCE["largest_gap"] + ": that of the equivalence test",
    "margin": EQUIVALENCE["margin"],
    "p_equivalence": EQUIVALENCE["p_equivalence"],
    "verdict": EQUIVALENCE["verdict"],
    "note": GAP["note"],
}

SPECIFICATIONS: Final[dict[str, str]] = {
    "dimension": COMPARED_GAP["dimension"],
    "unit": COMPARISONS["unit"],
    "n_runs": "runs that asked about the dimension, each prompt variant counted by itself",
    "n_estimated": "of these with a δ; all that follows is about them",
    "n_no_interval": "of those without an interval",
    "median": "median of δ over the runs, in that unit; of an even number the mean of the middle two",
    "lowest": "lowest δ, in that unit",
    "highest": "highest δ, in that unit",
    "lowest_run": "the run that it is of",
    "highest_run": "the run that the highest δ is of",
    "n_same_sign": "runs whose δ has the median's sign",
    "share_same_sign": "n_same_sign / n_estimated; no p value: runs are not independent, nor drawn from anything",
    "n_above": "runs whose interval lies above 0",
    "share_above": "n_above / n_estimated",
    "n_below": "runs whose interval lies below 0",
    "share_below": "n_below / n_estimated",
    "n_compatible": "runs whose interval holds 0",
}

STRATEGIES: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "strategy": RUNS["strategy"],
    "dimension": COMPARED_GAP["dimension"],
    "reference": "the run of strategy none that it is compared with: of the same model, files of it, prompt, "
    "narratives, elicitation with its settings, seed, scale and identities; empty of such a run itself, and where "
    "there is none",
    "unit": "unit of the gaps and their changes: points, or % of the scale (points over the scale's length) where the "
    "dimension's rows have different scales",
    "delta": "the run's headline gap, in that unit",
    "ci_low": "lower end of its confidence interval about narratives, in that unit; not corrected for multiplicity",
    "ci_high": "upper end of the same",
    "delta_change": "the run's gap minus the reference's, narrative by narrative on those that both use, in that unit",
    "change_low": "lower end of the confidence interval of delta_change, in that unit; not corrected for multiplicity",
    "change_high": "upper end of the same",
    "p": COMPARISONS["p"],
    "p_adjusted": "p corrected for the dimension's strategies, each against its reference: a family of its own, apart "
    "from that of all pairs in comparisons",
    "method": "the correction: Holm (family-wise error); empty without a reference",
    "family_size": "tests that were corrected for: the dimension's strategies with a p; 0 without a reference",
    "n_narratives": "narratives that both use; 0 without a reference",
    "mean_rating": "mean over the rated prompts between the dimension's identities, baselines left out, in points",
    "mean_change": "mean_rating minus the reference's, each over what it rated, in points",
    "refusal_rate": "of the prompts between the dimension's identities refused; missing under `expected`, which sees "
    "no refusals",
    "missing_share": "of the same without a rating, for any reason",
    "mean_number_mass": "mean of number_mass over the same prompts; missing where there is none (`generate`)",
    "n_calls": "model calls for each prompt of the run, whatever its dimension: the stages' and the one that asks for "
    "the rating; a stage's text that several prompts share counts in each",
    "n_prompt_tokens": "tokens that the stages read for each prompt of the run, counted likewise; 0 without stages",
    "n_question_tokens": "tokens of the prompt that asks for the rating, mean over those asked; else missing",
    "shortened_share": "of the run's prompts in which examples or earlier calls were left out for want of room",
    "n_tokens": "tokens that the stages wrote for each prompt of the run, counted likewise; 0 without stages",
    "n_text_tests": "tests whether stereotype words or sentiment of what the stages wrote about a group differ from "
    "what they wrote about the others, in the dimension; 0 without stages",
    "n_text_differences": "of these, those with a corrected p below the level, or with the same difference in all "
    "units; see stage_texts in the run's own tables",
    "seconds": "time of the run's last session, without loading the model, over the prompts that it asked from their "
    "first call on; missing if not recorded, or there were none",
    "note": "why a number is missing, in words; empty if none is",
}

ELICITATIONS: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "elicitation": "how the run's ratings are got: the method, what its answers were begun with, and its parser or the "
    "hash of its settings where they tell two of a set apart",
    "dimension": COMPARED_GAP["dimension"],
    "reference": "the first run of the set: of runs that differ in nothing but their elicitation",
    "pairs": "in-group pairs that the gap is of: echo_free (without a word in common), all_terms (whatever their "
    "words) or mixed (the mean over dimensions of either kind); empty without a gap",
    "delta_points": COMPARED_GAP["delta_points"],
    "ci_low": "lower end of its confidence interval about narratives, in points; not corrected for multiplicity",
    "ci_high": "upper end of the same",
    "verdict": EQUIVALENCE["verdict"],
    "delta_change": "the run's gap minus the reference's, narrative by narrative on those that both use, in points; "
    "missing for the reference itself",
    "change_low": "lower end of the confidence interval of delta_change, in points; not corrected for multiplicity",
    "change_high": "upper end of the same",
    "p": COMPARISONS["p"],
    "p_adjusted": "p corrected for the dimension's elicitations in the set, each against the reference",
    "method": "the correction: Holm (family-wise error); empty for the reference",
    "family_size": "tests that were corrected for; 0 for the reference",
    "n_narratives": "narratives that both use; 0 for the reference",
    "note": "why a number is missing, in words; empty if none is",
}

ELICITATION_RANGES: Final[dict[str, str]] = {
    "reference": ELICITATIONS["reference"],
    "dimension": COMPARED_GAP["dimension"],
    "n_elicitations": "elicitations of the set that asked about the dimension",
    "n_estimated": "of these with a gap; all that follows is about them",
    "n_intervals": "of those with an interval, and so with a verdict",
    "lowest": "lowest gap, in points",
    "highest": "highest gap, in points",
    "range": "highest minus lowest, in points; each gap is of the narratives that its own run uses",
    "lowest_elicitation": "the elicitation that the lowest is of",
    "highest_elicitation": "the elicitation that the highest is of",
    "sign": "same (all gaps have one sign), differs (they have not), or reverses (one interval lies above 0 and "
    "another below); empty below two gaps",
    "verdict": "same (all verdicts, and the directions of gaps that are found), or differs; empty below two of them",
    "n_changes": "paired differences from the reference that have a corrected p",
    "n_found": "of these with a corrected p below the level",
}

COMPARED_PUBLISHED: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "model": RUNS["model"],
    "prompt": RUNS["prompt"],
    "dimension": RATINGS["dimension"],
    "delta_z": GAP["delta_z"],
    "null_low": GAP["null_low"],
    "null_high": GAP["null_high"],
    "n_narratives_asked": GAP["n_narratives_asked"],
    "n_narratives": "narratives that delta_z uses: those with a rating in every cell between identities",
    "excluded_share": "share of the narratives asked that delta_z does not use: 1 - n_narratives / n_narratives_asked",
    "n_narratives_heatmap": "narratives that the published heatmap uses: those with a rating in every cell, the "
    "unspecified perceiver and experiencer included",
    "excluded_share_heatmap": "share of the narratives asked that the heatmap does not use",
    "n_ratings": GAP["n_ratings"],
    "note": "why there is no delta_z, or which permutations were taken, in words",
}

COMPARED_CELLS: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "dimension": RATINGS["dimension"],
    "perceiver": RATINGS["perceiver"],
    "experiencer": RATINGS["experiencer"],
    "perceiver_group": RATINGS["perceiver_group"],
    "experiencer_group": RATINGS["experiencer_group"],
    "in_group": RATINGS["in_group"],
    **{name: PUBLISHED_CELLS[name] for name in ("z", "p_perceiver", "p_experiencer", "shown")},
}

PERCEIVER_MAP: Final[dict[str, str]] = {
    "run": RUNS["run"],
    "dimension": RATINGS["dimension"],
    "perceiver": RATINGS["perceiver"],
    "perceiver_group": RATINGS["perceiver_group"],
    "cluster": "cultural cluster of the perceiver's group; empty where it has none",
    "x": "place in the plane by t-SNE of the perceivers' rows of published_cells; no unit, and only nearness is shown",
    "y": "the same, the other way",
    "perplexity": "of the t-SNE: about how many neighbours each perceiver is placed by",
    "seed": "of the t-SNE's draws: the run's own",
}

COMPARED_CONTROLS: Final[dict[str, str]] = {"run": RUNS["run"], **CONTROLS}

COMPARISON_TABLES: Final[dict[str, dict[str, str]]] = {
    "runs": RUNS,
    "gap": COMPARED_GAP,
    "controls": COMPARED_CONTROLS,
    "comparisons": COMPARISONS,
    "specifications": SPECIFICATIONS,
    "strategies": STRATEGIES,
    "elicitations": ELICITATIONS,
    "elicitation_ranges": ELICITATION_RANGES,
    "published": COMPARED_PUBLISHED,
    "published_cells": COMPARED_CELLS,
    "perceiver_map": PERCEIVER_MAP,
}
"""Each table of a comparison of runs by its file's stem."""


def data_dictionary() -> Iterator[dict[str, str]]:
    """Yield table, column and description of all that ``ratings/``, ``stages/`` and the CSV files hold."""
    answered = {"elicitation_sample": ANSWERED, "asked_again": ANSWERED, "manipulated": MANIPULATED}
    answered |= {f"asked_in_{name}": ANSWERED for name in FORMATS}
    collected = {"ratings": RATINGS, "stages": STAGES, "given": GIVEN, **answered}
    for table, columns in {**collected, **TABLES, "calibration": CALIBRATION}.items():
        for column, description in columns.items():
            yield {"table": table, "column": column, "description": description}


def comparison_dictionary() -> Iterator[dict[str, str]]:
    """Yield table, column and description of every column of a comparison's ``tables/``."""
    for table, columns in COMPARISON_TABLES.items():
        for column, description in columns.items():
            yield {"table": table, "column": column, "description": description}
