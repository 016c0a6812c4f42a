"""Tables of the index: gaps of many runs, and claims about them."""

from __future__ import annotations

from typing import Final

from audit.comparing.tables import RUNS
from audit.tables.base import Table, count, flag, in_row_unit, number, probability, share, text
from audit.tables.gap import COMPARISONS, GAP
from audit.tables.verdicts import VERDICTS

INDEX: Final = Table(
    "index",
    "a gap of a run, or a folder that has none to show",
    {
        "state": text(
            "gap (the row has one), no_gap (the run has none to show, see reason) or not_read (the folder could not be "
            "read, see reason)"
        ),
        "folder": text("the run's folder, from the folder of the index; / between names on every system"),
        "page": text("the run's page as a link from there, percent-encoded; empty where there is none"),
        "group": text(
            "number of the set of gaps that the row may be compared with: those of the same outcome, unit, dimension, "
            "scale, narratives, elicitation, language, identities and pairs; empty without a gap"
        ),
        "task": text("what the run asks for"),
        "status": text("complete or running"),
        "started": RUNS["started"],
        "model": RUNS["model"],
        "server": RUNS["server"],
        "parameters": count("numbers in the model's weights; missing where the run did not record it"),
        "weights_bytes": number("size of the model's weights on the disk; likewise", "bytes"),
        "prompt": RUNS["prompt"],
        "strategy": RUNS["strategy"],
        "dimension": GAP["dimension"],
        "outcome": text("intensity, or the measure of replies"),
        "unit": text("of delta and its interval"),
        "delta": in_row_unit(
            "the estimate of the gap that decides the run's verdict; the headline's, where the run has none"
        ),
        "confidence": probability("coverage of the interval"),
        "ci_low": in_row_unit("lower end of its confidence interval; not corrected for there being several gaps"),
        "ci_high": in_row_unit("upper end of the same"),
        "p": GAP["p"],
        "p_adjusted": probability("p corrected for the gaps of the run's own page, and not for those of this index"),
        "margin": in_row_unit("gap that the run counts as too small to matter; missing without one"),
        "verdict": text(
            "of the run's page: gap, within (a gap smaller than the margin), none (no gap larger than it, in no part "
            "either), average (none larger than it on average), undecided or absent; empty where the model was "
            "given no group's identity, so that there is no δ"
        ),
        "verdict_words": text("the same as the run's page says it"),
        "claim": VERDICTS["claim"],
        "less": text(
            "who gets less, whoever speaks, by the run's page: gap (a group is lower or higher), within (by less than "
            "the margin), none (no group differs by the margin), undecided or absent (no verdict); empty of a run that "
            "an earlier version analysed"
        ),
        "less_words": text("the same in words"),
        "less_claim": text(
            "the claim of the groups that are lower or higher, if it is one for all: group, words or observational "
            "(see disparity); else empty"
        ),
        "refused_words": text(
            "who is refused more often, whoever speaks, as the run's page says it; empty where nobody is shown to be"
        ),
        "less_group": text(
            "the group that disparity is of: of those that are lower or higher, or of all, the farthest"
        ),
        "disparity": in_row_unit("how much lower or higher that group is than the others, in unit"),
        "disparity_low": in_row_unit(
            "lower end of its confidence interval, in unit; not corrected for there being several groups"
        ),
        "disparity_high": in_row_unit("upper end of the same"),
        "control": text(
            "group or words: echo_free (the gap is of pairs without a word in common), placebo (compared with invented "
            "groups) or none"
        ),
        "control_words": text("the same as the run's page says it"),
        "manipulation": text(
            "passed, failed, not shown or not made: whether ratings or replies match the story; empty of other texts"
        ),
        "response": VERDICTS["response"],
        "response_low": VERDICTS["response_low"],
        "response_high": VERDICTS["response_high"],
        "share_higher": VERDICTS["share_higher"],
        "limits": text("what keeps the gap from carrying a claim, by the names of the run's page"),
        "n_narratives": count("narratives that the gap is of; without a gap, the disparity"),
        "n_answers": count("ratings or replies that the gap is of; without a gap, the disparity"),
        "n_missing": count("prompts between the dimension's identities without one"),
        "missing_share": share("n_missing over all such prompts; missing where their number was not published"),
        "scale": RUNS["scale"],
        "narratives": RUNS["narratives"],
        "texts": RUNS["texts"],
        "elicitation": text("how a rating is got, with what answers were begun with, parser and thinking, if so"),
        "language": RUNS["language"],
        "identities": RUNS["identities"],
        "pairs": text("which in-group pairs the gap is of: all, or those without a word in common"),
        "identity": RUNS["identity"],
        "next_step": text(
            "what would decide the row's first open question, as the run's page says it but for how many narratives; "
            "empty where that is not known"
        ),
        "next_command": text("the command that does it; empty without one"),
        "reason": text("why there is no gap, or why the folder could not be read, and what to do; else empty"),
    },
)

CLAIMS: Final = Table(
    "claims",
    "two runs that bear on a claim of the literature, in a dimension",
    {
        "claim": text("size, persona or scale"),
        "dimension": GAP["dimension"],
        "first": text(
            "folder of the run that the claim is about: the larger model, the stronger persona, the coarser scale"
        ),
        "second": text("folder of the run that it is compared with"),
        "comparison": text("folder of the comparison that has the difference; empty without one"),
        "unit": COMPARISONS["unit"],
        "delta_first": COMPARISONS["delta_first"],
        "delta_second": COMPARISONS["delta_second"],
        "delta_change": COMPARISONS["delta_change"],
        "ci_low": COMPARISONS["ci_low"],
        "ci_high": COMPARISONS["ci_high"],
        "n_narratives": COMPARISONS["n_narratives"],
        "flipped": flag("whether first and second stand the other way round in the comparison's table"),
        "says": text("for, against or cannot_tell: whether the size of the gap changes as the claim has it"),
        "why": text("why these two cannot tell; else empty"),
    },
)
