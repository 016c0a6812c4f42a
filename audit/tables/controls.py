"""What δ is compared with: controls, other wordings, answers in words, missing ratings, other assumptions."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Table, count, flag, in_row_unit, number, percentage_points, points, share, text, word
from audit.tables.gap import GAP
from audit.tables.ratings import RATINGS
from audit.tables.shared import DF, IN_POINTS, KEYS, OUTCOME, P_OF_NO_GAP, TALLY

NO_STEM: Final = "no stem is stated for"  # how the note on `echo_free` begins if the user could supply what is missing


class ComparedWords(dict[str, str]):
    """Stems by term, from a version that compared words; kept so that its runs give the same numbers."""


CONTROLS: Final = Table(
    "controls",
    "a control of δ",
    {
        **OUTCOME,
        **KEYS,
        "control": word(
            "all_terms (in-group pairs of whatever words, the published sense of δ), echo_free (in-group pairs without "
            "a word in common), echo (what repeating the very same words adds to being of the same group), same_words "
            "(in-group pairs that repeat the same words), placebo (the same of invented groups), placebo_difference "
            "(same_words minus placebo, paired by narrative), wording (the headline over wordings, an interval for any "
            "such wordings), elicitation (the headline of a sample of prompts answered in words), noise (what the "
            "same prompts differ by when they are asked again in another order and other batches, sampled replies with "
            "another seed), or noise_bfloat16, noise_float16 or noise_float32 (what those differ by, in that order and "
            "these batches, in that number format)"
        ),
        **GAP.without(*OUTCOME, *KEYS, "headline", "n_missing", "sd_ci_low", "sd_ci_high"),
        "headline": flag("whether this control decides if δ is a gap between groups"),
        "n_missing": count("prompts without a rating among those that it could have used"),
        "levels": count("sets of invented groups, or wordings, that it is of; 0 without an estimate"),
    },
    former=GAP.former,
    former_file="measure_controls",
)

WORDINGS: Final = Table(
    "wordings",
    "a wording of the prompt",
    {
        **OUTCOME,
        **KEYS,
        "wording": RATINGS["wording"],
        "delta": in_row_unit("gap of the wording's own answers: in-group minus out-group, as the headline"),
        **GAP.pick("se", "df", "ci_low", "ci_high", "p", "n_narratives", "n_answers"),
        "note": text("why there is no estimate or no interval, in words; else empty"),
    },
    former={"delta_points": "delta", "n_ratings": "n_answers"},
)

WORDING_SHARES: Final = Table(
    "wording_shares",
    "a part of what gaps vary with",
    {
        **OUTCOME,
        **KEYS,
        "part": word(
            "what gaps vary with: narratives, wordings, rest (what is of a narrative in a wording alone, and the noise "
            "of answers) or identities (of δ as a whole)"
        ),
        "variance": number(
            "of one narrative's gap in one wording, the part of its variance, in the row's unit squared; missing for "
            "identities, since a gap is of all of them",
            unit="the row's unit, squared",
        ),
        "sd": in_row_unit("the root of variance, in the row's unit"),
        "share": share("variance over the sum of the parts; missing where that is 0"),
        "of_delta": number(
            "of δ over all narratives and wordings, the part of its variance, in the row's unit squared; missing where "
            "it is not known",
            unit="the row's unit, squared",
        ),
        "share_of_delta": share("of_delta over the sum of the parts that are known"),
        "levels": count("narratives, wordings, both multiplied, or groups, that it is of"),
        "note": text("why the part is not known, in words; else empty"),
    },
)

ELICITATION: Final = Table(
    "elicitation",
    "a way to get ratings of the same prompts",
    {
        **KEYS,
        "method": word(
            "expected (the run's ratings, of the same prompts) or generate (those that the model wrote in words)"
        ),
        "delta": points(
            "gap in scale points: in-group minus out-group, over the prompts of the sample that both methods rated (or "
            "if there are none, expected); the headline's estimator"
        ),
        **IN_POINTS,
        **GAP.pick("p", "n_narratives"),
        "n_answers": count("prompts that delta uses: rated by both methods, or if there are none, by expected"),
        "n_prompts": count("prompts of the sample"),
        **TALLY,
        "refusal_rate": share("n_refused / n_prompts; missing for expected, which sees no refusals"),
        "pearson": number(
            "Pearson's correlation of the two ratings over those prompts; missing for expected, and where one of them "
            "is always the same"
        ),
        "spearman": number("Spearman's rank correlation, likewise"),
        "mean_difference": points("mean over those prompts of the rating in words minus the expected one, in points"),
        "difference": points("gap in words minus the expected gap, in points: mean over narratives, paired"),
        "difference_low": points("lower end of its confidence interval, in points", lengths=2),
        "difference_high": points("upper end of the same", lengths=2),
        "share_alike": share(
            "share of the narratives with two ratings or more by this method that have the same for all identities: "
            "neither a gap nor a disparity can show there; missing if there is no such narrative"
        ),
        "note": text("why there is no estimate or no interval, or what limits the sample, in words; else empty"),
    },
    former={"delta_points": "delta", "n_ratings": "n_answers"},
)

MISSING: Final = Table(
    "missing",
    "an outcome without a rating, and its gap",
    {
        **KEYS,
        "outcome": word("refused, unparseable, failed, inexact (if there are any), or missing (any of these)"),
        "rate_in_group": share("share of the in-group prompts with the outcome, between 0 and 1"),
        "rate_out_group": share("share of the other prompts with the outcome, baselines left out"),
        "gap_pp": percentage_points(
            "gap of the outcome in percentage points: δ's contrast of the 0/1 indicator, free of identities' effects"
        ),
        "se": percentage_points("standard error of gap_pp, in percentage points"),
        "df": DF,
        "ci_low": percentage_points("lower end of the confidence interval, in percentage points"),
        "ci_high": percentage_points("upper end of the confidence interval, in percentage points"),
        "p": P_OF_NO_GAP,
        "d_z": number("gap_pp over the standard deviation of the narratives' contrasts; no unit"),
        "n_narratives": count("narratives that gap_pp uses: those whose every prompt could have shown the outcome"),
        "n_prompts": count(
            "prompts that could have shown the outcome; of refused, unparseable and inexact those that did not fail"
        ),
        "n_with_outcome": count("of these with the outcome"),
        "note": text("why there is no gap or no interval, in words; empty if there is one"),
    },
)

SENSITIVITY: Final = Table(
    "sensitivity",
    "δ under another assumption",
    {
        **KEYS,
        "check": word(
            "what is assumed in place of the headline's: listwise (complete narratives alone), worst_case_low and "
            "worst_case_high (missing ratings at the end of the scale that lowers or raises δ most), tipping_point "
            "(missing ratings shifted until δ is 0), number_mass_weighted (ratings weighted by number mass), "
            "number_mass_above (ratings of enough number mass alone), mode (the most probable number), tobit (the "
            "scale goes on beyond its ends; where 10% of the ratings or more lie at one of them); with "
            "statistics.sensitivity=true alone equal_narratives (the plain mean of the same narratives' own gaps that "
            "the headline weighs), within_narratives (least squares on narrative effects), mixed_crossed (mixed, as "
            "in gap, with random perceivers and experiencers) and ranks (ranks within each narrative)"
        ),
        "unit": word("of the estimate: points of the scale, or percentile points (ranks)"),
        "delta": in_row_unit("gap in the row's unit: in-group minus out-group; missing for tipping_point"),
        "shift_points": points(
            "tipping_point: how much higher all missing ratings would have to be than the ratings that there are let "
            "one expect for δ to be 0, in points"
        ),
        "se": in_row_unit("standard error of delta, in the row's unit"),
        "df": DF,
        "ci_low": in_row_unit("lower end of the confidence interval, in the row's unit", lengths=1),
        "ci_high": in_row_unit("upper end of the confidence interval, in the row's unit", lengths=1),
        "p": P_OF_NO_GAP,
        "n_narratives": count("narratives that the estimate uses"),
        "n_answers": count("ratings that the estimate uses, filled ones included"),
        "share": share(
            "listwise: of the narratives, the complete ones; worst_case_low, worst_case_high, tipping_point: of the "
            "prompts, those without a rating; number_mass_weighted: of the prompts with a number mass, those below the "
            "minimum; number_mass_above: of the ratings, those kept; tobit: of the ratings, those at either end; "
            "otherwise missing"
        ),
        "note": text("why there is no value or no interval, or what limits it, in words; else empty"),
    },
    former={"delta_points": "delta", "n_ratings": "n_answers"},
)
