"""Tables of a comparison of runs."""

from __future__ import annotations

from typing import Final

from audit.tables.base import (
    Table,
    by_name,
    count,
    flag,
    in_row_unit,
    number,
    points,
    probability,
    seconds,
    share,
    text,
    tokens,
    whole,
    word,
)
from audit.tables.cells import CELLS, PUBLISHED_CELLS
from audit.tables.controls import CONTROLS
from audit.tables.disparity import DISPARITY
from audit.tables.gap import COMPARISONS, EQUIVALENCE, GAP
from audit.tables.ratings import MANIPULATION
from audit.tables.replies import MEASURES, REPLY_TALLY, ReplyStatus
from audit.tables.shared import HOLM, IN_POINTS, KEYS, OUTCOME, SIDES, TALLY
from audit.tables.verdicts import VERDICTS

RUNS: Final = Table(
    "runs",
    "a run that is compared",
    {
        "run": word(
            "the run's label in the comparison: what sets it apart from the others; a run with several prompt variants "
            "has a row for each"
        ),
        "folder": text("the run's folder, as it was given"),
        "model": word(
            "what was asked: the model's id at its server and the server's host, its id on the hub, or the name of its "
            "folder, file or table of ratings"
        ),
        "prompt": word("the prompt variant"),
        "language": word("the language of the prompts; empty of ratings that another tool collected"),
        "strategy": word("how the model was led to empathise before it was asked; none if it was not"),
        "narratives": word("where the narratives come from"),
        "elicitation": word(
            "how a rating is got: expected, generate, or outside (by another tool), with what answers were begun with "
            "and how the model thought before them, if so"
        ),
        "scale": word("the ends of the rating scale, in points"),
        "seed": word("the run's seed"),
        "engine": word("the library that ran the model, and its version"),
        "device": word("what it ran on"),
        "dtype": word("number format of the model's weights"),
        "quantization": word("how the weights were quantised; empty if not"),
        "parser": word("how a rating was read from an answer (`generate`)"),
        "server": word("address of the server that was asked; empty without one"),
        "stated": word("which model the server says it is, where that is more than what was asked for"),
        "path": word("where the model comes from"),
        "revision": word("the model's revision"),
        "dimensions": word("the dimensions that were asked"),
        "n_narratives": word("narratives that were asked"),
        "wording": word("SHA-256 of the prompt variant's wording"),
        "texts": word("SHA-256 of the narratives"),
        "identities": word(
            "SHA-256 of the identities, of who is in-group to whom, of where narratives have a draw of pairs, and of "
            "the narratives left out because they contradict a group"
        ),
        "leading": word(
            "SHA-256 of what the strategy asks, with its pool of examples and its knowledge; empty without one"
        ),
        "n_prompts": count("prompts of the run and variant, baselines included"),
        **TALLY,
        "started": word("when the run was started"),
        "version": word("version of empathy-audit that collected the ratings"),
        "command": text("the command that collected them"),
        "identity": word("SHA-256 of all that the run's ratings depend on"),
        "ratings": word("SHA-256 of the files of ratings, one after another"),
    },
)

COMPARED_GAP: Final = Table(
    "gap",
    "a run's estimate of δ",
    {
        "run": RUNS["run"],
        **GAP.without("headline", "delta_z", "null_low", "null_high", "note"),
        "p_adjusted": probability(
            "p of headlines within narratives, corrected (Holm, family-wise error): of ratings for all of the "
            "comparison, of every run, dimension and intersection, but not of 'all', which is a mean of them; of "
            "measures within the run, as in its own table; missing in other rows"
        ),
        "n_asked": count(
            "prompts between the dimension's identities, baselines left out; missing of measures, as are the next"
        ),
        "missing_share": share("n_missing / n_asked"),
        "largest_gap": EQUIVALENCE["largest_gap"].adding(": that of the equivalence test"),
        "margin": EQUIVALENCE["margin"],
        "p_equivalence": EQUIVALENCE["p_equivalence"],
        "verdict": EQUIVALENCE["verdict"],
        "note": GAP["note"],
    },
    former=GAP.former,
    former_file="measure_gap_all",
)

COMPARED_VERDICTS: Final = Table(
    "verdicts", "the verdict on a run's average gap", {"run": RUNS["run"], **VERDICTS}, former=VERDICTS.former
)

COMPARED_MANIPULATION: Final = Table(
    "manipulation", "a check that a run's ratings follow what is told", {"run": RUNS["run"], **MANIPULATION}
)

COMPARED_CONTROLS: Final = Table(
    "controls",
    "a control of a run's δ",
    {"run": RUNS["run"], **CONTROLS},
    former=CONTROLS.former,
    former_file=CONTROLS.former_file,
)

COMPARED_DISPARITY: Final = Table(
    "disparity",
    "how much lower or higher a run rates a group than the others: the row that decides about it",
    {"run": RUNS["run"], **DISPARITY.without("statistic", "df_residual")},
)

DISPARITY_CHANGES: Final = Table(
    "disparity_changes",
    "how the disparity of a group differs between two runs",
    {
        "outcome": word("intensity, or refusals: how much more often the group is refused", before="intensity"),
        "dimension": KEYS["dimension"],
        "group": word("the group"),
        "first": word("the run that is compared"),
        "second": word("the run that it is compared with"),
        "code": word(
            "lower or higher (the disparity is lower or higher in the first run than in the second: shown, and nothing "
            "speaks against it), not_shown (or, as limits say, only because another group's disparity differs), "
            "undecided (limits say why), no_verdict (the ratings of one of the two cannot carry one) or no_estimate"
        ),
        "claim": word(
            "of lower and higher: group (not these words alone) or words (these words of the group); else empty"
        ),
        "limits": text("codes of what limits the answer, joined by '; '; docs/statistics.md explains them"),
        "view_first": DISPARITY["view"].adding("; of the first run"),
        "view_second": word("the same of the second run"),
        "unit": COMPARISONS["unit"].reworded("unit of the gaps", "unit of the disparities"),
        "disparity_first": in_row_unit("disparity of the group in the first run, on the narratives that both have"),
        "disparity_second": in_row_unit("the same in the second run"),
        "disparity_change": in_row_unit("disparity_first minus disparity_second"),
        "se": in_row_unit(
            "standard error of disparity_change, in that unit: of narratives, and of what words, or labels of invented "
            "groups, differ by in either run"
        ),
        "df": COMPARISONS["df"],
        "ci_low": in_row_unit(
            "lower end of the confidence interval of disparity_change, in that unit; not corrected for multiplicity",
            lengths=2,
        ),
        "ci_high": in_row_unit("upper end of the same", lengths=2),
        "p": probability("two-sided p of the paired t-test against no difference"),
        "p_adjusted": probability("p corrected for the groups and pairs of runs of the dimension and outcome"),
        "method": HOLM,
        "family_size": count("tests that were corrected for: the dimension's changes with a p"),
        "n_narratives": count("narratives that both have"),
        "n_groups": count("groups that the runs compare"),
        "extreme": word(
            "of the other groups, the one whose disparity differs most between the two runs; empty for that one "
            "itself, and of two groups"
        ),
        "without_extreme": in_row_unit(
            "disparity_change with that group left out of the others, in that unit: a group is not named because "
            "another one's disparity differs"
        ),
        "without_low": in_row_unit("lower end of its confidence interval, in that unit", lengths=2),
        "without_high": in_row_unit("upper end of the same", lengths=2),
        "note": text("why there is no estimate or no interval, or what limits it, in words; else empty"),
    },
)

MEASURE_DISPARITY_CHANGES: Final = Table(
    "measure_disparity_changes",
    "how the disparity of a group in a measure of replies differs from the reference run's",
    {
        "dimension": KEYS["dimension"],
        "outcome": OUTCOME["outcome"].reworded("what δ is of", "what is compared with the other groups"),
        **{
            name: column
            for name, column in DISPARITY_CHANGES.items()
            if name not in ("outcome", "dimension", "p_adjusted")
        },
        "p_adjusted": probability("p corrected for the groups, measures and runs of the dimension"),
    },
)

_DECIDED: Final = {
    "code": word(
        "lower or higher (the gap is lower or higher in the first run than in the second: shown, and nothing speaks "
        "against it), not_shown, undecided (limits say why), no_verdict (the ratings of one of the two cannot carry "
        "one) or no_estimate; empty of a row that is compared with no run",
        before="",
    ),
    "claim": word(
        "of lower and higher: groups (repeated words cannot have made it, and it holds for any such groups), pairs (in "
        "these pairs of words) or uncontrolled (repeated words alone could make it); else empty",
        before="",
    ),
    "limits": text("codes of what limits the answer, joined by '; '; docs/statistics.md explains them", before=""),
    "next_step": word("code of what would decide; nothing if it is decided", before=""),
}
COMPARED_DELTAS: Final = Table(
    "comparisons", "how δ of a dimension differs between two runs", {**COMPARISONS, **_DECIDED}
)
"""``COMPARISONS``, with what each difference shows."""

SPECIFICATIONS: Final = Table(
    "specifications",
    "a dimension, over runs",
    {
        "dimension": COMPARED_GAP["dimension"],
        "unit": COMPARISONS["unit"],
        "n_runs": count("runs that asked about the dimension, each prompt variant counted by itself"),
        "n_estimated": count("of these with a δ; all that follows is about them"),
        "n_no_interval": count("of those without an interval"),
        "median": in_row_unit("median of δ over the runs, in that unit; of an even number the mean of the middle two"),
        "lowest": in_row_unit("lowest δ, in that unit"),
        "highest": in_row_unit("highest δ, in that unit"),
        "lowest_run": word("the run that it is of"),
        "highest_run": word("the run that the highest δ is of"),
        "n_same_sign": count("runs whose δ has the median's sign"),
        "share_same_sign": share(
            "n_same_sign / n_estimated; no p value: runs are not independent, nor drawn from anything"
        ),
        "n_above": count("runs whose interval lies above 0"),
        "share_above": share("n_above / n_estimated"),
        "n_below": count("runs whose interval lies below 0"),
        "share_below": share("n_below / n_estimated"),
        "n_compatible": count("runs whose interval holds 0"),
    },
)

STRATEGIES: Final = Table(
    "strategies",
    "a run of a strategy, against one without",
    {
        "run": RUNS["run"],
        "strategy": RUNS["strategy"],
        "dimension": COMPARED_GAP["dimension"],
        "reference": word(
            "the run of strategy none that it is compared with: of the same model, files of it, prompt, narratives, "
            "elicitation with its settings, seed, scale and identities; empty of such a run itself, and where there is "
            "none"
        ),
        "unit": word(
            "unit of the gaps and their changes: points, or % of the scale (points over the scale's length) where the "
            "dimension's rows have different scales"
        ),
        "delta": in_row_unit("the run's headline gap, in that unit"),
        "ci_low": in_row_unit(
            "lower end of its confidence interval about narratives, in that unit; not corrected for multiplicity",
            lengths=1,
        ),
        "ci_high": in_row_unit("upper end of the same", lengths=1),
        "delta_change": in_row_unit(
            "the run's gap minus the reference's, narrative by narrative on those that both use, in that unit"
        ),
        "change_scope": COMPARISONS["scope"],
        "change_low": in_row_unit(
            "lower end of the confidence interval of delta_change, in that unit; not corrected for multiplicity",
            lengths=2,
        ),
        "change_high": in_row_unit("upper end of the same", lengths=2),
        "p": COMPARISONS["p"],
        "p_adjusted": probability(
            "p corrected for the dimension's strategies, each against its reference: a family of its own, apart from "
            "that of all pairs in comparisons"
        ),
        "method": word("the correction: Holm (family-wise error); empty without a reference"),
        "family_size": count(
            "tests that were corrected for: the dimension's strategies with a p; 0 without a reference"
        ),
        "n_narratives": count("narratives that both use; 0 without a reference"),
        "mean_rating": points(
            "mean over the rated prompts between the dimension's identities, baselines left out, in points"
        ),
        "mean_change": points("mean_rating minus the reference's, each over what it rated, in points"),
        "refusal_rate": share(
            "of the prompts between the dimension's identities refused; missing under `expected`, which sees no "
            "refusals"
        ),
        "missing_share": share("of the same without a rating, for any reason"),
        "mean_number_mass": probability(
            "mean of number_mass over the same prompts; missing where there is none (`generate`)"
        ),
        "n_calls": number(
            "model calls for each prompt of the run, whatever its dimension: the stages' and the one that asks for the "
            "rating; a stage's text that several prompts share counts in each"
        ),
        "n_prompt_tokens": tokens(
            "tokens that the stages read for each prompt of the run, counted likewise; 0 without stages"
        ),
        "n_question_tokens": tokens(
            "tokens of the prompt that asks for the rating, mean over those asked; else missing"
        ),
        "shortened_share": share(
            "of the run's prompts in which examples or earlier calls were left out for want of room"
        ),
        "n_tokens": tokens(
            "tokens that the stages wrote for each prompt of the run, counted likewise; 0 without stages"
        ),
        "n_text_tests": count(
            "tests whether stereotype words or sentiment of what the stages wrote about a group differ from what they "
            "wrote about the others, in the dimension; 0 without stages"
        ),
        "n_text_differences": count(
            "of these, those with a corrected p below the level, or with the same difference in all units; see "
            "stage_texts in the run's own tables"
        ),
        "seconds": seconds(
            "time of the run's last session, without loading the model, over the prompts that it asked from their "
            "first call on; missing if not recorded, or there were none"
        ),
        **_DECIDED,
        "note": text("why a number is missing, or what limits it, in words; else empty"),
    },
)

ELICITATIONS: Final = Table(
    "elicitations",
    "a run of a set that differs in its elicitation alone",
    {
        "run": RUNS["run"],
        "elicitation": word(
            "how the run's ratings are got: the method, what its answers were begun with, how the model thought "
            "before them, and its parser or the hash of its settings where they tell two of a set apart"
        ),
        "dimension": COMPARED_GAP["dimension"],
        "reference": word("the first run of the set: of runs that differ in nothing but their elicitation"),
        "pairs": word(
            "in-group pairs that delta_change is of: echo_free (without a word in common), all_terms (whatever their "
            "words) or mixed (the mean over dimensions of either kind); empty without a gap"
        ),
        "delta": points(
            "the gap that the verdict rests on, as in the table verdicts, in points; of a verdict without an interval "
            "the headline's over narratives"
        ),
        **{name: IN_POINTS[name] for name in ("ci_low", "ci_high")},
        "verdict": VERDICTS["code"].adding("; that of the run's own page, as in the table verdicts"),
        **VERDICTS.pick("claim", "direction", "size", "control", "scope", "parts_beyond", "parts_not_shown"),
        "delta_change": points(
            "the run's gap minus the reference's, narrative by narrative on those that both use, in points; missing "
            "for the reference itself"
        ),
        "change_scope": COMPARISONS["scope"],
        "change_low": points(
            "lower end of the confidence interval of delta_change, in points; not corrected for multiplicity",
            lengths=2,
        ),
        "change_high": points("upper end of the same", lengths=2),
        "p": COMPARISONS["p"],
        "p_adjusted": probability(
            "p corrected for the dimension's elicitations in the set, each against the reference"
        ),
        "method": word("the correction: Holm (family-wise error); empty for the reference"),
        "family_size": count("tests that were corrected for; 0 for the reference"),
        "n_narratives": count("narratives that both use; 0 for the reference"),
        "note": text("why a number is missing, or what limits it, in words; else empty"),
    },
    former={"delta_points": "delta"},
)

ELICITATION_RANGES: Final = Table(
    "elicitation_ranges",
    "a dimension, over the elicitations of a set",
    {
        "reference": ELICITATIONS["reference"],
        "dimension": COMPARED_GAP["dimension"],
        "n_elicitations": count("elicitations of the set that asked about the dimension"),
        "n_estimated": count("of these with a gap; all that follows is about them"),
        "n_intervals": count("of those with an interval"),
        "n_verdicts": count("of those whose own page gives a verdict; sign, verdict and n_changes are about them"),
        "lowest": points("lowest gap, in points"),
        "highest": points("highest gap, in points"),
        "range": points("highest minus lowest, in points; each gap is of the narratives that its own run uses"),
        "lowest_elicitation": word("the elicitation that the lowest is of"),
        "highest_elicitation": word("the elicitation that the highest is of"),
        "sign": word(
            "same (all gaps have one sign), differs (they have not), or reverses (one interval lies above 0 and "
            "another below); empty below two verdicts"
        ),
        "verdict": word(
            "same (all verdicts, and of gaps that are found or ruled out what is claimed: direction, size, scope, "
            "control and whether it is shown in every part), or differs; empty below two of them"
        ),
        "n_changes": count(
            "paired differences from the reference that have a corrected p, where both runs have a verdict"
        ),
        "n_found": count("of these with a corrected p below the level"),
    },
)

_OF_SERIES: Final = {
    "kind": word("what the gap is: average (δ of the dimension) or disparity (D of a group)"),
    "dimension": KEYS["dimension"],
    "member": word("the group of a disparity; empty of δ"),
}
_TESTED_IN_SERIES: Final = {
    "p": probability("two-sided p against 0, of the t distribution of the interval"),
    "p_beside": probability(
        "of a disparity the larger of p and the p without the other group that changes most, on the same side: if one "
        "group falls, the others rise against it; else p"
    ),
    "p_adjusted": probability("p_beside corrected for all rows of the table"),
    "method": HOLM,
    "family_size": count("tests that were corrected for: the rows with a p"),
    "scope": COMPARISONS["scope"].adding("; of a disparity, groups where other words, or invented groups, count too"),
    "limits": text("codes of what keeps it from being shown, joined by '; '; docs/statistics.md explains them"),
    "n_narratives": count("narratives that these runs have in common"),
    "note": text("why a number is missing, in words; else empty"),
}
_PER_UNIT: Final = "points per unit"

SERIES: Final = Table(
    "series",
    "the trend of a gap along the series of runs",
    {
        **_OF_SERIES,
        "code": word(
            "falls or rises (shown, and nothing speaks against it), not_shown, undecided (it would be shown, but "
            "limits say what could make it) or no_estimate"
        ),
        "size": word(
            "of a trend that is shown: nearer to 0 or farther from it, if that is shown too; crosses, if runs' "
            "intervals lie on both sides of 0; else empty"
        ),
        "per": word(
            "what the trend is for one of: a step to the next run, a doubling of the number of parameters, a unit of "
            "the positions given, or a day"
        ),
        "estimate": number(
            "the trend: least-squares slope of the gap on the position, in points for one of per", unit=_PER_UNIT
        ),
        "se": number("its standard error, likewise", unit=_PER_UNIT),
        "df": number("degrees of freedom of its t distribution"),
        "ci_low": number("lower end of its confidence interval; not corrected for multiplicity", unit=_PER_UNIT),
        "ci_high": number("upper end of the same", unit=_PER_UNIT),
        **{name: _TESTED_IN_SERIES[name] for name in ("p", "p_beside", "p_adjusted", "method", "family_size")},
        "p_size": probability(
            "p that the size of the gap changes along the line: the larger of p_beside and the p of the line's value "
            "halfway, corrected likewise"
        ),
        "line_first": points("the line's value at the first position of a run that takes part, in points"),
        "line_last": points("the line's value at the last such position"),
        "n_runs": count("runs that take part: those with a verdict on this gap"),
        "n_left_out": count("runs that do not"),
        **{name: _TESTED_IN_SERIES[name] for name in ("scope", "limits", "n_narratives", "note")},
    },
)

SERIES_CHANGES: Final = Table(
    "series_changes",
    "the step of a gap from one position of the series to the next",
    {
        **_OF_SERIES,
        "first": word("the run before the step; runs at one position are averaged, and joined by '; '"),
        "second": word("the run after it"),
        "first_position": number("position of the run before"),
        "second_position": number("position of the run after"),
        "code": SERIES["code"],
        "estimate": points("the gap after the step minus the gap before it, narrative by narrative, in points"),
        "line_change": points("what the straight line of the trend changes by in this step, in points"),
        "se": points("standard error of estimate, in points"),
        "df": SERIES["df"],
        "ci_low": points("lower end of its confidence interval, in points; not corrected for multiplicity", lengths=2),
        "ci_high": points("upper end of the same", lengths=2),
        **_TESTED_IN_SERIES,
    },
)

SERIES_RUNS: Final = Table(
    "series_runs",
    "a gap of a run of the series",
    {
        "run": RUNS["run"],
        "position": number(
            "where the run stands: its place in the order, the base-2 logarithm of its number of parameters, the "
            "number given for it, or the day (1 is the first day of the year 1)"
        ),
        **_OF_SERIES,
        "delta": points("the gap, by the estimate that decides about it in the run, in points"),
        **{name: IN_POINTS[name] for name in ("ci_low", "ci_high")},
        "takes_part": flag("whether it counts in the trend: the run has a verdict on it"),
        "note": text("why it does not: codes of what allows no verdict, joined by '; ', or words"),
    },
)

COMPARED_PUBLISHED: Final = Table(
    "published",
    "a run's published gap",
    {
        "run": RUNS["run"],
        "model": RUNS["model"],
        "prompt": RUNS["prompt"],
        "dimension": KEYS["dimension"],
        "delta_z": GAP["delta_z"],
        "null_low": GAP["null_low"],
        "null_high": GAP["null_high"],
        "n_narratives_asked": GAP["n_narratives_asked"],
        "n_narratives": count("narratives that delta_z uses: those with a rating in every cell between identities"),
        "excluded_share": share(
            "share of the narratives asked that delta_z does not use: 1 - n_narratives / n_narratives_asked"
        ),
        "n_narratives_heatmap": count(
            "narratives that the published heatmap uses: those with a rating in every cell, the unspecified perceiver "
            "and experiencer included"
        ),
        "excluded_share_heatmap": share("share of the narratives asked that the heatmap does not use"),
        "n_answers": GAP["n_answers"],
        "note": text("why there is no delta_z, or which permutations were taken, in words"),
    },
    former={"n_ratings": "n_answers"},
)

COMPARED_CELLS: Final = Table(
    "published_cells",
    "a cell of a run's published heatmap",
    {
        "run": RUNS["run"],
        "dimension": KEYS["dimension"],
        **CELLS.pick("perceiver", "experiencer", "perceiver_group", "experiencer_group", "in_group"),
        **PUBLISHED_CELLS.pick("z", "p_perceiver", "p_experiencer", "shown"),
    },
)

PERCEIVER_MAP: Final = Table(
    "perceiver_map",
    "a perceiver's place in the plane",
    {
        "run": RUNS["run"],
        "dimension": KEYS["dimension"],
        "perceiver": SIDES["perceiver"],
        "perceiver_group": SIDES["perceiver_group"],
        "cluster": word("cultural cluster of the perceiver's group; empty where it has none"),
        "x": number(
            "place in the plane by t-SNE of the perceivers' rows of published_cells; no unit, and only nearness is "
            "shown"
        ),
        "y": number("the same, the other way"),
        "perplexity": number("of the t-SNE: about how many neighbours each perceiver is placed by"),
        "seed": whole("of the t-SNE's draws: the run's own"),
    },
)

# --- Runs of replies -------------------------------------------------------------------------------------------------

_COMPARED_WITH: Final = word(
    "the run that it is compared with: where strategies differ, the one without a strategy of the same model, files of "
    "it, prompt, narratives, kind of reply, seed and identities; else the first; empty of that run itself, and where "
    "there is none"
)

REPLY_RUNS: Final = Table(
    "runs",
    "a run of replies that is compared",
    {
        **RUNS.pick("run", "folder", "model", "prompt", "strategy", "narratives"),
        "generation": word("what a reply may be: its tokens at most, and how they are drawn"),
        **RUNS.pick(
            "seed",
            "engine",
            "device",
            "dtype",
            "quantization",
            "server",
            "stated",
            "path",
            "revision",
            "dimensions",
            "n_narratives",
        ),
        **RUNS.pick("wording", "texts", "identities", "leading", "n_prompts"),
        **REPLY_TALLY,
        "started": RUNS["started"],
        "version": word("version of empathy-audit that collected the replies"),
        "command": RUNS["command"],
        "identity": word("SHA-256 of all that the run's replies depend on"),
        "replies": word("SHA-256 of what happened to each prompt, and of the texts"),
    },
)

COMPARED_MEASURES: Final = Table(
    "measures",
    "a measure of a run",
    {
        "run": RUNS["run"],
        **MEASURES.pick("measure", "title", "unit", "better", "scorer", "status"),
        **MEASURES.pick("n_replies", "n_scored", "mean", "sd"),
        "scorer_sha256": word(
            "SHA-256 of what the scorer was asked, of its facts (its model's files, templates, lists) and of the "
            "measure; empty of an absent one. Runs in which it differs are not compared"
        ),
        "reference": _COMPARED_WITH,
        "compared": flag("whether the measure is compared with that run"),
        "note": text("why it is not compared, or why the measure is absent; else empty"),
    },
)

MEASURE_CHANGES: Final = Table(
    "measure_changes",
    "a measure of a run, against its reference",
    {
        "run": RUNS["run"],
        "strategy": RUNS["strategy"],
        "reference": _COMPARED_WITH,
        "dimension": GAP["dimension"],
        **OUTCOME,
        "delta": in_row_unit(
            "the run's gap on the narratives that both use, in the measure's unit: in-group minus out-group"
        ),
        "reference_delta": in_row_unit("the reference's on the same"),
        "delta_change": in_row_unit("delta minus reference_delta, narrative by narrative, in the measure's unit"),
        "scope": COMPARISONS["scope"],
        "se": in_row_unit("standard error of delta_change, in the measure's unit"),
        "df": COMPARISONS["df"],
        "ci_low": in_row_unit(
            "lower end of the confidence interval of delta_change, in the measure's unit; not corrected for "
            "multiplicity"
        ),
        "ci_high": in_row_unit("upper end of the same"),
        "p": COMPARISONS["p"],
        "p_adjusted": probability(
            "p corrected for all changes of the dimension: of every measure, and of every run against its reference"
        ),
        "method": HOLM,
        "family_size": count("tests that were corrected for: the dimension's changes with a p"),
        "change_sd": number(
            "delta_change over the measure's standard deviation among the reference's scored replies; no unit"
        ),
        "sd_ci_low": number("ci_low over the same standard deviation, which is taken as known"),
        "sd_ci_high": number("ci_high over the same"),
        "n_narratives": count("narratives that both use"),
        "mean": in_row_unit(
            "the run's mean over the pairs between identities, baselines left out, in the measure's unit: mean over "
            "narratives of the mean over the pairs that have a number in both runs"
        ),
        "reference_mean": in_row_unit("the reference's mean over the same pairs of the same narratives"),
        "mean_change": in_row_unit(
            "mean minus reference_mean, in the measure's unit: does the run write otherwise to everybody"
        ),
        "mean_low": in_row_unit(
            "lower end of the t interval of mean_change over narratives (of utterances, over conversations); not "
            "corrected for multiplicity"
        ),
        "mean_high": in_row_unit("upper end of the same"),
        "mean_sd": number("mean_change over the standard deviation of change_sd"),
        "mean_sd_low": number("mean_low over the same"),
        "mean_sd_high": number("mean_high over the same"),
        "n_both": count("prompts with a number in both runs, which the means are of; baselines left out"),
        "n_answers": count("replies of the run that its own gap uses"),
        "reference_answers": count("replies of the reference that its own gap uses"),
        "n_missing": GAP["n_missing"],
        "reference_missing": count("the same of the reference"),
        **_DECIDED,
        "note": text("why a number is missing, and what else limits it, in words; else empty"),
    },
    former={"measure": "outcome", "n_replies": "n_answers", "reference_replies": "reference_answers"},
)

_COST: Final = ("n_calls", "n_prompt_tokens", "n_tokens", "n_question_tokens", "shortened_share", "seconds")

REPLY_COSTS: Final = Table(
    "reply_costs",
    "what a run's replies took, and what happened to them",
    {
        "run": RUNS["run"],
        "strategy": RUNS["strategy"],
        "reference": _COMPARED_WITH,
        "dimension": GAP["dimension"],
        "n_prompts": count("prompts between the dimension's identities, baselines left out"),
        **{
            name: share(meaning)
            for status in ReplyStatus
            for name, meaning in (
                (f"{status}_share", f"share of these {status.value}"),
                (f"{status}_change", f"{status}_share minus the reference's; missing without a reference"),
            )
            if status != ReplyStatus.WRITTEN
        },
        **{name: STRATEGIES[name].reworded("rating", "reply") for name in _COST},
        "n_reply_tokens": tokens(
            "tokens of a reply, mean over those written or cut of the run, whatever their dimension"
        ),
    },
)

COMPARISON_TABLES: Final = by_name(
    RUNS, COMPARED_VERDICTS, COMPARED_MANIPULATION, COMPARED_GAP, COMPARED_CONTROLS, COMPARED_DELTAS,
    COMPARED_DISPARITY, DISPARITY_CHANGES, SPECIFICATIONS, STRATEGIES, ELICITATIONS, ELICITATION_RANGES, SERIES,
    SERIES_CHANGES, SERIES_RUNS, COMPARED_PUBLISHED, COMPARED_CELLS, PERCEIVER_MAP,
)  # fmt: skip
"""Tables of a comparison of runs of ratings."""

REPLY_COMPARISON_TABLES: Final = by_name(
    REPLY_RUNS, COMPARED_MEASURES, COMPARED_VERDICTS, COMPARED_GAP, COMPARED_CONTROLS, MEASURE_CHANGES,
    MEASURE_DISPARITY_CHANGES, REPLY_COSTS,
)  # fmt: skip
"""Tables of a comparison of runs of replies."""
