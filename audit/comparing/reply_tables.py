"""Tables of a comparison of runs of replies."""

from __future__ import annotations

from typing import Final

from audit.comparing.tables import RUNS, STRATEGIES
from audit.tables.base import Table, count, flag, in_measure_unit, number, probability, share, text, tokens, word
from audit.tables.gap import COMPARISONS, GAP
from audit.tables.replies import MEASURES, REPLY_TALLY, ReplyStatus
from audit.tables.shared import HOLM, OUTCOME

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
        "replies": word("SHA-256 of what became of each prompt, and of the texts"),
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
        "delta": in_measure_unit(
            "the run's gap on the narratives that both use, in the measure's unit: in-group minus out-group"
        ),
        "reference_delta": in_measure_unit("the reference's on the same"),
        "delta_change": in_measure_unit("delta minus reference_delta, narrative by narrative, in the measure's unit"),
        "scope": COMPARISONS["scope"],
        "se": in_measure_unit("standard error of delta_change, in the measure's unit"),
        "df": COMPARISONS["df"],
        "ci_low": in_measure_unit(
            "lower end of the confidence interval of delta_change, in the measure's unit; not corrected for "
            "multiplicity"
        ),
        "ci_high": in_measure_unit("upper end of the same"),
        "p": COMPARISONS["p"],
        "p_adjusted": probability(
            "p corrected for all changes of the dimension: of every measure, and of every run against its reference"
        ),
        "method": HOLM,
        "family_size": count("tests that were corrected for: the dimension's changes with a p"),
        "change_sd": number(
            "delta_change over the measure's standard deviation among the reference's scored replies; no unit; missing "
            "for diversity"
        ),
        "sd_ci_low": number("ci_low over the same standard deviation, which is taken as known"),
        "sd_ci_high": number("ci_high over the same"),
        "n_narratives": count("narratives that both use"),
        "mean": in_measure_unit(
            "the run's mean over the pairs between identities, baselines left out, in the measure's unit: mean over "
            "narratives of the mean over the pairs that have a number in both runs"
        ),
        "reference_mean": in_measure_unit("the reference's mean over the same pairs of the same narratives"),
        "mean_change": in_measure_unit(
            "mean minus reference_mean, in the measure's unit: does the run write otherwise to everybody"
        ),
        "mean_low": in_measure_unit(
            "lower end of the t interval of mean_change over narratives (of utterances, over conversations); not "
            "corrected for multiplicity"
        ),
        "mean_high": in_measure_unit("upper end of the same"),
        "mean_sd": number("mean_change over the standard deviation of change_sd"),
        "mean_sd_low": number("mean_low over the same"),
        "mean_sd_high": number("mean_high over the same"),
        "n_both": count("prompts with a number in both runs, which the means are of; baselines left out"),
        "n_answers": count("replies of the run that its own gap uses"),
        "reference_answers": count("replies of the reference that its own gap uses"),
        "n_missing": GAP["n_missing"],
        "reference_missing": count("the same of the reference"),
        "note": text("why a number is missing, and what else limits it, in words; else empty"),
    },
    former={"measure": "outcome", "n_replies": "n_answers", "reference_replies": "reference_answers"},
)

_COST: Final = ("n_calls", "n_prompt_tokens", "n_tokens", "n_question_tokens", "shortened_share", "seconds")

REPLY_COSTS: Final = Table(
    "reply_costs",
    "what a run's replies took, and what became of them",
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
