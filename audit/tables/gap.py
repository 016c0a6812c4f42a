"""Estimates of the gap δ, the data behind them, and what a run of that size can detect."""

from __future__ import annotations

from typing import Final

from audit.tables.base import (
    Table,
    cell_sds,
    count,
    flag,
    in_row_unit,
    number,
    percent,
    points,
    probability,
    squared_points,
    text,
    word,
)
from audit.tables.shared import DF, HOLM, KEYS, OUTCOME, P_OF_ZERO

NO_PERCEIVERS: Final = "the model was given no group's identity, so no group is its own"  # the note of a δ that is none
WITHOUT_PERCEIVERS: Final = (
    "The model was given no group's identity, so no group is its own, and there is no δ. Which groups get less than "
    "others is in tables/disparity.csv."
)

GAP: Final = Table(
    "gap",
    "an estimate of δ of an outcome: by one estimator, in one scope",
    {
        **OUTCOME,
        "dimension": KEYS["dimension"].adding("; 'all' is the mean over the single dimensions"),
        "variant": KEYS["variant"],
        "estimator": word(
            "contrast (each narrative's own gap by its own valid ratings, pooled over narratives), mixed (a model of "
            "narratives' levels and gaps alone, by REML) or published (hou2025 arithmetic)"
        ),
        "scope": word(
            "what the interval speaks about: narratives = these identities, any such narratives; narratives_and_terms "
            "= any such identities too; empty for published"
        ),
        "headline": flag("whether the row is of the headline's estimator, contrast"),
        "delta": in_row_unit("gap in the row's unit: in-group minus out-group"),
        "se": in_row_unit(
            "standard error of delta, in the row's unit; over conversations where narratives are utterances of them"
        ),
        "df": DF,
        "ci_low": in_row_unit("lower end of the confidence interval, in the row's unit", lengths=1),
        "ci_high": in_row_unit("upper end of the confidence interval, in the row's unit", lengths=1),
        "p": probability(
            "two-sided p against a gap of 0, of the same t distribution as the interval: interval, p and verdict "
            "follow one rule, and p is below 1 less the confidence just when the interval leaves out 0"
        ),
        "p_sign_flip": probability(
            "two-sided p of flipping the signs of the narratives' gaps, which supposes no normal distribution; it "
            "decides nothing; missing for all but contrast within narratives"
        ),
        "d_z": number(
            "delta over the root of n_narratives times se: over the standard deviation of the narratives' gaps "
            "where these count alike; no unit"
        ),
        "delta_z": cell_sds(
            "the published gap, in standard deviations of the matrix's own cells; comparable with nothing else"
        ),
        "null_low": cell_sds(
            "2.5 percentile of delta_z over permuted matrices: a null interval, not a confidence interval"
        ),
        "null_high": cell_sds("97.5 percentile of the same"),
        "n_narratives": count("narratives that the estimate uses"),
        "n_narratives_asked": count("narratives that were asked"),
        "n_answers": count(
            "ratings or replies that the estimate uses; of a prompt in several wordings their mean, which counts once"
        ),
        "n_missing": count(
            "prompts between the dimension's identities (baselines left out) whose answer has no number, in any wording"
        ),
        "note": text(
            "why there is no estimate or no interval, how many groups count for the wider scope where not all do, or "
            "which permutations were taken, in words; else empty"
        ),
        "p_adjusted": probability(
            "p of headlines within narratives, corrected (Holm, family-wise error): of ratings for all of the run, of "
            "every dimension, intersection and variant, but not of 'all', which is a mean of them; of a measure for "
            "the measures of the dimension, in which people's questions, whose names begin with people_, are a family "
            "of their own; missing in other rows"
        ),
        "family_size": count("tests that were corrected for: those headlines with a p; missing in other rows"),
        "percent_of_scale": percent(
            "delta in % of the scale's length; missing for published, and of measures, as are sd_within, raw_in and "
            "raw_out"
        ),
        "sd_within": in_row_unit(
            "standard deviation of the headline's ratings about their narrative's mean, pooled over narratives, in "
            "the row's unit; of 'all', the root of the dimensions' mean square; missing in rows that are no headline"
        ),
        "delta_sd": number(
            "delta over sd_within; of a measure over its standard deviation among scored replies; no unit"
        ),
        "sd_ci_low": number("of a measure, ci_low over the same standard deviation, which is taken as known"),
        "sd_ci_high": number("ci_high over the same"),
        "raw_in": in_row_unit(
            "plain mean of the headline's in-group ratings, baselines left out, in the row's unit; of 'all', the mean "
            "of the dimensions' means; missing in rows that are no headline"
        ),
        "raw_out": in_row_unit(
            "the same of out-group ratings, in an intersection of pairs that share nothing; raw_in - raw_out is not "
            "delta where groups differ in size, or ratings are missing, since it holds effects of perceivers "
            "and of experiencers too"
        ),
        "bound_low": in_row_unit(
            "least delta that is possible where every rating lies within its pruned_points, in the row's unit; missing "
            "where ratings carry no such bound, and in rows of published"
        ),
        "bound_high": in_row_unit("greatest delta that is possible so, in the row's unit"),
    },
    former={
        "delta_points": "delta", "n_ratings": "n_answers", "p_family_size": "family_size", "measure": "outcome",
        "n_replies": "n_answers",
    },
    former_file="measure_gaps",
)  # fmt: skip


VARIANCES: Final = Table(
    "variances",
    "an estimator's variances",
    {
        **KEYS,
        "estimator": word("contrast (what narratives' own fits tell) or mixed, as in gap"),
        "intercept_variance": squared_points("between narratives' levels, in squared points"),
        "slope_variance": squared_points("between narratives' gaps, in squared points"),
        "covariance": squared_points("of a narrative's level and its gap, in squared points"),
        "residual_variance": squared_points("of a rating about its narrative's fit, in squared points"),
        "narrative_perceiver_variance": squared_points(
            "of what a narrative adds to one perceiver, in squared points (contrast); missing in the mixed model, "
            "which has no such term"
        ),
        "narrative_experiencer_variance": squared_points(
            "of what a narrative adds to one experiencer, in squared points (contrast)"
        ),
        "criterion": number("-2 log REML likelihood at the optimum, with its constants"),
        "converged": flag("whether the optimum was confirmed, at the boundary too"),
        "boundary": flag(
            "whether a variance, or the correlation of level and gap, is at the boundary of what is possible"
        ),
        "n_narratives": count("narratives with a rating; of contrast, whose ratings tell of narrative × identity"),
        "n_informative": count(
            "narratives with an in-group and an out-group rating; of contrast, that have a gap of their own"
        ),
        "n_answers": count("ratings used"),
        "note": text("why there is no fit, in words; empty if there is one"),
    },
    former={"n_ratings": "n_answers"},
)

LEAVE_ONE_OUT: Final = Table(
    "leave_one_out",
    "δ without one group",
    {
        **KEYS,
        "estimator": word("the headline's, as in gap"),
        "group": word("the group whose perceivers and experiencers are left out; groups that do not count have no row"),
        "delta": points("gap of the cell means of the others, in points"),
    },
    former={"delta_points": "delta"},
)

FAMILIES: Final = Table(
    "families",
    "a contrast of a family",
    {
        **OUTCOME,
        **KEYS,
        "family": word(
            "pair, group (the group's own cell: how much higher its ratings of its own are than its ratings of others "
            "and others' ratings of it lead one to expect), emotion, valence, cluster, degree, cue or uplift"
        ),
        "member": word(
            "what the contrast is about: a group, emotion, valence, cluster or cue, or a number of shared dimensions"
        ),
        "partner": word("of a pair, the other group; else empty"),
        "estimator": word(
            "contrast (no rating that it needs is missing); else pairs (least squares on effects of narratives and of "
            "all pairs, from all valid ratings); of emotion and valence always contrast, as the headline"
        ),
        "delta": in_row_unit(
            "the contrast in the row's unit; positive where pairs that belong together are rated higher"
        ),
        "se": in_row_unit("standard error of delta, in the row's unit"),
        "df": DF,
        "ci_low": in_row_unit(
            "lower end of the confidence interval, in the row's unit; not corrected for multiplicity", lengths=1
        ),
        "ci_high": in_row_unit("upper end of the same", lengths=1),
        "p": P_OF_ZERO,
        "p_adjusted": probability("p corrected for the family"),
        "method": word("the correction: Holm (family-wise error) or Benjamini–Hochberg (false discovery rate)"),
        "family_size": count("tests that were corrected for: the members of the family with a p"),
        "d_z": number("delta over the standard deviation of the narratives' contrasts; no unit"),
        "n_pairs": count("pairs of a perceiver and an experiencer whose ratings or replies the estimate uses"),
        "n_narratives": count("narratives that the estimate uses"),
        "n_answers": count("ratings or replies that the estimate uses"),
        "note": text("why there is no estimate or no interval, or what limits it, in words; else empty"),
        "eq_low": in_row_unit(
            "lower end of the interval of level 1 - 2 alpha, in the row's unit: where the whole of it lies within a "
            "margin, so does the member, by the equivalence test; not corrected for multiplicity",
            lengths=1,
        ),
        "eq_high": in_row_unit("upper end of the same", lengths=1),
        "delta_rest": in_row_unit(
            "mean of delta over the other members of the family, each of them alike (of emotions, over those "
            "with a standard error); missing but for pair, group and emotion"
        ),
        "change": in_row_unit("delta minus delta_rest: how a member differs from the rest, in the row's unit"),
        "change_se": in_row_unit(
            "standard error of change, in the row's unit: of narratives, member and rest in one, or of emotions, whose "
            "narratives are other ones, by Welch"
        ),
        "change_p": probability("two-sided p of the t-test against no difference from the rest"),
        "change_p_adjusted": probability("change_p corrected for the members of the family (Holm, family-wise error)"),
    },
    former={
        "delta_points": "delta", "n_ratings": "n_answers", "change_points": "change", "measure": "outcome",
        "n_replies": "n_answers",
    },
    former_file="measure_families",
)  # fmt: skip

HETEROGENEITY: Final = Table(
    "heterogeneity",
    "a test that the gap is the same in all emotions or groups",
    {
        **KEYS,
        "over": word("emotion or group: whose gaps are tested for being all the same, as in families"),
        "n_members": count("emotions or groups that the test compares"),
        "statistic": number("of the test, an F; see note"),
        "df": number("degrees of freedom of what differs between members"),
        "df_residual": number("degrees of freedom of what the differences are measured by"),
        "p": probability("p of the test that the gap is the same in all of them; missing where there is no test"),
        "p_adjusted": probability("p corrected for the rows of the table (Holm, family-wise error)"),
        "note": text("which test was made, or why there is none, in words"),
    },
)

EQUIVALENCE: Final = Table(
    "equivalence",
    "an estimate of δ compared with a margin",
    {
        **KEYS,
        "estimator": word("what made the estimate, as in the table of gaps"),
        "scope": word("what the interval speaks about, as in the table of gaps"),
        "margin": points(
            "gap that counts as too small to matter, in points, chosen before the ratings were seen; missing without"
        ),
        "alpha": probability(
            "error rate of each test: of the two one-sided ones of equivalence, and of the two-sided one of a gap"
        ),
        "delta": points("gap in scale points: in-group minus out-group"),
        "level": probability(
            "coverage of the interval from low to high, 1 - 2 alpha: the one that the equivalence test goes by"
        ),
        "low": points("lower end of that interval, in points", lengths=1),
        "high": points("upper end of the same", lengths=1),
        "largest_gap": points(
            "the larger of |low| and |high|: no gap larger than this many points, at that level", lengths=1
        ),
        "p_equivalence": probability(
            "p of the two one-sided t-tests that the gap lies within the margin; missing without a margin"
        ),
        "verdict": word(
            "no gap larger than the margin; gap, smaller than the margin; gap; undecided; or not estimable"
        ),
    },
    former={"delta_points": "delta"},
)

POWER: Final = Table(
    "power",
    "what a run of this size can find",
    {
        **KEYS,
        "sd_contrast": points(
            "standard deviation of the narratives' contrasts, se times the root of n_narratives, in points"
        ),
        "slope_sd": points(
            "standard deviation between narratives of the true gap (REML), in points; missing where unknown"
        ),
        "residual_sd": points(
            "standard deviation of a rating about its narrative's own fit, in points; missing where unknown"
        ),
        "sum_of_squares": number(
            "s, of the double-centred in-group mask: sd_contrast² estimates slope_sd² + residual_sd²/s"
        ),
        "n_narratives": count("narratives that the estimate uses"),
        "power": probability(
            "chance of a right answer that detectable_points, n_for_wanted and n_for_margin are to have"
        ),
        "alpha": probability("error rate of the tests"),
        "detectable_points": points(
            "smallest gap that a two-sided t-test finds with that power in n_narratives, in points", lengths=1
        ),
        "detectable_low": points(
            "lower end of its interval (confidence 1 - alpha), since sd_contrast is an estimate, in points", lengths=1
        ),
        "detectable_high": points("upper end of the same, in points", lengths=1),
        "wanted_points": points("gap that one wants to be able to find, in points; missing without"),
        "n_for_wanted": count("narratives that find it with that power"),
        "margin_points": points("margin of the equivalence test, in points; missing without"),
        "n_for_margin": count("narratives that show, with that power, that a gap of exactly 0 lies within the margin"),
        "note": text("why there is no power to speak of, or what limits it, in words; else empty"),
    },
)

COMPARISONS: Final = Table(
    "comparisons",
    "two variants, strategies or models of a dimension",
    {
        "dimension": KEYS["dimension"],
        "first": word("the variant, strategy or model that is compared"),
        "second": word("the one that it is compared with"),
        "unit": word(
            "unit of the gaps: points, or % of the scale (points over the scale's length) where the two scales differ"
        ),
        "delta_first": in_row_unit("gap of the first on the narratives that both have, in that unit"),
        "delta_second": in_row_unit("gap of the second on the same"),
        "delta_change": in_row_unit("delta_first minus delta_second"),
        "scope": word(
            "what the difference speaks of: groups (any such groups, whose spread counts beside that of narratives) or "
            "pairs (these pairs of words alone); empty without one"
        ),
        "se": in_row_unit("standard error of delta_change, in that unit"),
        "df": DF,
        "ci_low": in_row_unit(
            "lower end of the confidence interval of delta_change, in that unit; not corrected for multiplicity",
            lengths=2,
        ),
        "ci_high": in_row_unit("upper end of the same", lengths=2),
        "p": probability("two-sided p of the paired t-test against no difference, of the row's scope"),
        "p_adjusted": probability("p corrected for the comparisons within the dimension"),
        "method": HOLM,
        "family_size": count("tests that were corrected for: the comparisons within the dimension with a p"),
        "n_narratives": count("narratives that both have"),
        "correlation": number(
            "Pearson's, of the two contrasts of a narrative: what pairing gains; missing below 3 narratives"
        ),
        "note": text("why there is no estimate or no interval, or what limits it, in words; else empty"),
    },
)

COVARIATES: Final = Table(
    "covariates",
    "a covariate of groups, or of pairs of groups, and whether the gap grows with it",
    {
        **KEYS,
        "covariate": word("a column of the table in statistics.covariates"),
        "of": word(
            "pairs (out-group pairs of groups: how much lower they are rated than perceiver and experiencer lead one "
            "to expect), groups (each group's own gap, as in families) or disparity (how each group is rated beside "
            "the others, whoever perceives, as in disparity)"
        ),
        "answer": word(
            "grows or shrinks (the gap, where the covariate is larger: p_adjusted is below 1 less the confidence, and "
            "the interval leaves out 0; of disparity higher or lower: groups with more of the covariate are rated so), "
            "not_shown, too_few_groups (p_least is not below 1 less the confidence); empty where there is no p"
        ),
        "slope": number(
            "change of the gap, or disparity, for one unit of the covariate, in points; above 0 where it grows",
            unit="points per unit",
        ),
        "se": number("standard error of slope over narratives", unit="points per unit"),
        "df": DF,
        "ci_low": number(
            "lower end of the confidence interval of slope: these groups, any such narratives; not corrected for "
            "multiplicity",
            unit="points per unit",
        ),
        "ci_high": number("upper end of the same", unit="points per unit"),
        "per_sd": points("slope times the covariate's standard deviation over these pairs or groups, in points"),
        "p": probability(
            "two-sided p of permuting the groups of the covariate, perceivers and experiencers together (matrix "
            "permutation): pairs that share a group are not independent"
        ),
        "p_least": probability(
            "the smallest p that any ratings could give with these groups and this covariate: the share of "
            "permutations that leave it as it is, or turn it around"
        ),
        "n_permutations": count("permutations that p is made of: all of them, or a draw if there are more"),
        "p_adjusted": probability("p corrected for the covariates, of gaps and of disparities each"),
        "method": HOLM,
        "family_size": count("tests that were corrected for: the covariates with a p"),
        "n_groups": count("groups whose numbers the slope uses"),
        "n_pairs": count("pairs of a perceiver and an experiencer whose ratings the slope uses"),
        "n_narratives": count("narratives that the slope uses"),
        "n_answers": count("ratings that the slope uses"),
        "note": text("how small p can be with few groups, which groups are left out, or why there is no slope"),
    },
)

OWN_MODEL: Final = Table(
    "own_model",
    "a term of the user's model",
    {
        **KEYS,
        "formula": text("the user's formula for the fixed terms"),
        "fit": word(
            "mixed (MixedLM by REML, random terms per cluster) or ols (least squares, standard errors by cluster)"
        ),
        "term": word(
            "the column of the design, a (co)variance of random terms, or residual; empty where nothing was fitted"
        ),
        "component": word(
            "fixed, random (a variance or covariance of random terms per cluster) or residual (a variance)"
        ),
        "estimate": in_row_unit(
            "fixed: in units of the left side for one unit of the term; else in units of the left side squared"
        ),
        "se": in_row_unit("standard error of a fixed term, in the unit of its estimate; missing for (co)variances"),
        "statistic": number("estimate / se: z for mixed, t for ols"),
        "df": number("degrees of freedom of t, n_clusters - 1; missing for z"),
        "p": probability("two-sided p against 0, by t or z"),
        "ci_low": in_row_unit("lower end of the confidence interval, in the unit of estimate"),
        "ci_high": in_row_unit("upper end of the confidence interval, in the unit of estimate"),
        "n_ratings": count("ratings that the fit uses"),
        "n_clusters": count("clusters that the fit uses"),
        "n_excluded": count(
            "prompts between identities that it does not use: not rated, or a column of the formula is missing"
        ),
        "converged": flag("whether the fit ended at an optimum with standard errors"),
        "singular": flag(
            "whether the design is rank deficient, or the (co)variances of the random terms lie on their boundary"
        ),
        "message": text("what the fitter warned of and what was left out, one line; empty if nothing"),
    },
)
