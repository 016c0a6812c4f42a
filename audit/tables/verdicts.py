"""What a run decides: a verdict for each average gap, and each gap compared with the margin."""

from __future__ import annotations

import math
from typing import Final

from audit.tables.base import Table, count, in_row_unit, number, percent, points, probability, share, text, whole, word
from audit.tables.shared import DF, KEYS, OUTCOME

DEALINGS_DRAWN: Final = 999  # ways to deal terms to groups that are drawn if there are too many to enumerate

VERDICTS: Final = Table(
    "verdicts",
    "the verdict on an average gap",
    {
        **OUTCOME,
        "dimension": KEYS["dimension"].adding("; 'all' is the mean over the single dimensions"),
        "variant": KEYS["variant"],
        "code": word(
            "gap (found, and nothing speaks against it), within (no average gap larger than the margin), undecided, "
            "no_verdict (the ratings cannot carry one) or no_estimate"
        ),
        "claim": word(
            "of a gap: groups (a gap between groups: repeated words cannot have made it, and it holds for any such "
            "groups), pairs (in these pairs of words) or uncontrolled (repeated words alone could make it); else empty"
        ),
        "direction": whole("1 towards the in-group, -1 towards the out-group, 0 where no gap is found"),
        "size": word(
            "of a gap: beyond the margin, smaller than it, or tiny (smaller than least_gap); empty where none is shown"
        ),
        "reasons": text("codes of what keeps the verdict back, joined by '; '; docs/statistics.md explains them"),
        "next_step": word("code of what would decide; nothing if it is decided"),
        "n_needed": number(
            "narratives that would rule out the margin (or least_gap without one) with the planned chance if there is "
            "no gap; missing where more narratives would not help",
            "count",
        ),
        "control": word(
            "of the deciding estimate: echo_free (pairs without a common word), placebo (beyond invented groups) or "
            "none"
        ),
        "scope": word("what the deciding estimate speaks of: groups (any such groups) or pairs (these pairs of words)"),
        "why_pairs": text("why it speaks of these pairs of words alone; empty where it speaks of groups"),
        "delta": in_row_unit("the deciding estimate of the gap, in the row's unit"),
        "se": in_row_unit("its standard error, in the row's unit"),
        "df": DF,
        "ci_low": in_row_unit("lower end of its confidence interval, in the row's unit", lengths=1),
        "ci_high": in_row_unit("upper end of the same", lengths=1),
        "p": probability("two-sided p of the deciding estimate against 0"),
        "p_adjusted": probability(
            "the same, corrected (Holm): of ratings for all averages of the run, of a measure for the measures of the "
            "dimension, in which people's questions are a family of their own"
        ),
        "delta_sd": number("of a measure, delta over its standard deviation among scored replies; no unit"),
        "sd_ci_low": number("ci_low over the same standard deviation, which is taken as known"),
        "sd_ci_high": number("ci_high over the same"),
        "n_narratives": count("narratives that the deciding estimate uses"),
        "bound_low": in_row_unit(
            "lower end of the interval that must lie inside the margin, in the row's unit: of two one-sided tests, "
            "with missing ratings at their worst",
            lengths=1,
        ),
        "bound_high": in_row_unit("upper end of the same", lengths=1),
        "margin": in_row_unit(
            "gap that was set as too small to matter, in the row's unit; missing where none was set, and of measures, "
            "which have none"
        ),
        "least_gap": in_row_unit("least gap of interest, in the row's unit"),
        "supported_margin": in_row_unit(
            "smallest margin that these data support, in the row's unit: any average gap is smaller; missing where "
            "nothing is ruled out"
        ),
        "other_delta": in_row_unit("where there are two controls, the second: the same words beyond invented groups"),
        "other_low": in_row_unit("lower end of its confidence interval, in the row's unit", lengths=2),
        "other_high": in_row_unit("upper end of the same", lengths=2),
        "parts_beyond": text(
            "emotions and groups whose gap is shown beyond the margin (beyond 0 without one), corrected for all gaps "
            "of the run; of 'all' also dimensions; joined by '; '"
        ),
        "parts_not_shown": text("with a margin, other emotions and groups that are not shown to lie within it"),
        "of_these_wordings": text(
            "why gap or size was not shown for other wordings of the prompt, where several were asked; else empty"
        ),
        "limits": text("codes of all remarks that bear on the gap, in whatever way, joined by '; '"),
        "rank": count(
            "place of the true dealing of terms to groups among all dealings, by the size of the gap; 0 where groups "
            "have one term"
        ),
        "n_dealings": count(
            f"dealings that were looked at: all of them up to 5,040; of more, {DEALINGS_DRAWN} that were drawn, and "
            "the true one"
        ),
        "response": points("response to the story without identities: own less wrong emotion, in points"),
        "response_low": points("lower end of its confidence interval, in points", lengths=1),
        "response_high": points("upper end of the same", lengths=1),
        "share_higher": share("share of narratives whose own emotion is rated higher than a wrong one"),
        "percent_of_response": percent(
            "delta in % of response; missing unless ratings are shown to match the story", before=math.nan
        ),
    },
    former={"delta_points": "delta", "measure": "outcome"},
)

ODD_PAIRS: Final = Table(
    "odd_pairs",
    "a pair of two groups that stands out among the pairs",
    {
        **KEYS,
        "perceiver_group": word("group of those who rate"),
        "experiencer_group": word("group of those who are rated"),
        "delta": points(
            "how much higher its ratings are than perceivers, experiencers, own gaps and the other pairs lead to "
            "expect, in points"
        ),
        "se": points("its standard error, by how the other pairs differ, in points"),
        "df": DF,
        "p_adjusted": probability("two-sided p against 0, corrected for all pairs (Bonferroni)"),
    },
    former={"delta_points": "delta"},
)

JUDGED: Final = Table(
    "judged",
    "a gap compared with the margin",
    {
        **KEYS,
        "kind": word("average, emotion, group or refusals"),
        "member": word("which emotion or group; empty otherwise"),
        "control": word("as in verdicts; not_needed of refusals"),
        "scope": word("as in verdicts; of a group's own gap pairs of groups count as random"),
        "delta": in_row_unit("the deciding estimate; points, or percentage points of refusals"),
        "low": in_row_unit("lower end of the interval that must lie inside the margin"),
        "high": in_row_unit("upper end of the same"),
        "margin": in_row_unit("the margin; 0 where none was set"),
        "p_beyond": probability("p that the gap lies beyond the margin"),
        "p_adjusted": probability("the same, corrected for all gaps of the run (Holm)"),
        "beyond_low": in_row_unit("lower end of the corrected interval, which must lie wholly beyond the margin"),
        "beyond_high": in_row_unit("upper end of the same"),
        "beyond_level": number("confidence of the corrected interval"),
        "outcome": word("beyond, within or undecided"),
        "reasons": text("codes of what keeps it undecided, joined by '; '"),
        "n_narratives": count("narratives that the estimate uses"),
    },
)
