"""The report's sentences: what an estimate says, in words that claim no more than it does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from audit.report.cell_matrix import BASELINES
from audit.report.echo import control_of
from audit.report.effect_size import (
    constant,
    is_of_probabilities,
    plain_means,
    response_beside,
    say_effect_size,
    say_likely_answer,
)
from audit.report.heterogeneity import Variation, kinds_of_parts, of_dimensions, variation
from audit.report.numbers import (
    PlacedRow,
    rounded,
    show,
    show_gap,
    show_interval,
    show_rounded_interval,
    show_sum,
)
from audit.report.results import Results
from audit.report.verdicts import VerdictSentence, dealt, is_of_measure, is_zero, supported, told_plainly, worded
from audit.tables.formatting import (
    BEYOND,
    MISSING,
    NO_SHIFT,
    OF_RATED,
    SAME,
    bare_p,
    beside,
    brief,
    count,
    coverage,
    either,
    interval,
    listed,
    magnitude,
    p_value,
    points,
    rate,
)
from stimuli.words import capital

_IDENTITIES_NAMED: Final = 8
_FREE: Final = "echo_free"
_NOTHING: Final = Markup("")

LIMITS: Final = {
    "planted": ("A planted model", "no language model was asked"),
    "accepted": ("Files that were changed", "these may not be the model's own answers"),
    "unfinished": ("The run is not finished", "the results are those of the prompts asked so far"),
    "nothing_rated": ("No rating", "without ratings there is no δ"),
    "not_estimable": ("No δ", "the ratings cannot determine it"),
    "no_interval": ("No interval", "the uncertainty of δ could not be computed"),
    "not_converged": ("A fit that did not converge", "do not rely on the rows of that estimator"),
    "number_mass": (
        "Low number mass",
        "the model would often write something other than a number, and the ratings do not cover that",
    ),
    "many_missing": ("Many missing ratings", "the missing ratings may differ from the others"),
    "refusal_gap": (
        "Refusals that differ between in-group and out-group",
        "the refusals are a finding of their own; δ only covers prompts that were rated",
    ),
    "texts_differ": (
        "Texts that differ between groups",
        "the strategy wrote differently about some groups, and a smaller δ bought with stereotypes is no improvement",
    ),
    "observational": (
        "Observational",
        "nobody chose which group writes what, so a difference between groups may be one between their messages",
    ),
    "no_better_than_guesses": (
        "Answers no better than guesses",
        "answers that do not depend on what was said show nothing about who is understood",
    ),
    "unanswered_group": (
        "A group whose replies do not match the story",
        "what is measured of replies that would fit any story says little about that group",
    ),
    "replies_missing": ("Many replies without a score", "the missing scores may differ from the others"),
    "replies_cut": ("Many cut replies", "a reply that stops in the middle is scored up to there"),
    "judge_mass": (
        "A judge of low number mass",
        "the judge would often write something other than a number, and its scores do not cover that",
    ),
    "own_scorer": ("A model that scores itself", "a model finds its own words likely"),
    "scale_end": ("Ratings at an end of the scale", "the end of the scale can hide a gap or create one"),
    "not_additive": (
        "Perceivers who use the scale in different ways",
        "that alone can create a gap if the same groups rate high and are rated high",
    ),
    "beyond_scale": (
        "Ratings beyond the scale",
        "the model did not keep to the scale, and a single such rating can outweigh many others",
    ),
    "few_narratives": (
        "Few narratives",
        "the interval rests on how a few narratives differ",
    ),
    "manipulation": (
        "Failed check of the ratings",
        "ratings that do not match the story say nothing about empathy",
    ),
    "manipulation_not_shown": (
        "Inconclusive check of the ratings",
        "whether ratings match the story is not known; more narratives are needed",
    ),
    "intensity_not_followed": (
        "Failed check of how strong emotions are rated",
        "ratings do not match how strong the emotion is, so no gap is ruled out",
    ),
    "written_differs": (
        "Written answers differ",
        "the ratings are read from probabilities, and what the model writes may give another δ",
    ),
    "noise_floor": ("δ within the noise", "it is no larger than what asking again changes"),
    "narratives_repeated": (
        "Narratives that stand several times in the table",
        "every interval is too narrow",
    ),
    "scale_unused": (
        "Ratings near the low end of the scale alone",
        "on a scale that is stated too long every gap looks small",
    ),
    "one_cue": ("One kind of cue", "other cues, such as first names, may give another result"),
    "uneven_cues": (
        "Groups that are told in different ways",
        "a difference between groups may be one between labels, first names and contexts",
    ),
    "unrated_identity": ("An identity without any rating", "δ only covers the others"),
}
"""Codes of remarks that limit claims → title, and what follows."""
LIMITS_OF_REPLIES: Final = LIMITS | {
    "manipulation": (
        "Failed check of the replies",
        "replies that would fit any other story as well say nothing about empathy",
    ),
    "manipulation_not_shown": (
        "Inconclusive check of the replies",
        "whether replies match the story is not known; more narratives are needed",
    ),
}
"""The same of written replies."""
OF_METHOD: Final = frozenset({"one_cue"})
"""Limits of nearly every run: its page says them with the method, since what always stands there warns nobody."""


ALONE: Final = "for these words only"
"""Qualifies a gap whose interval takes identities and their words as fixed, if the verdict uses another one."""
COVERED: Final = {
    "groups": "narratives and groups like these",
    "pairs": "narratives like these, but only these words for these groups",
}
"""What the deciding interval generalises to, by the scope of the estimate."""


@dataclass(frozen=True, slots=True)
class WordedResult:
    """The result of one dimension and variant, in words."""

    verdict: VerdictSentence  # what the data decide
    plain: Markup  # the same in everyday words
    delta: Markup  # δ in points
    spread: Markup  # its interval
    lead: Markup  # the answer in a sentence
    evidence: Markup  # δ, its interval, p and the counts
    excluded: Markup  # what was left out
    control_kind: str  # by which control
    stands_out: bool = False  # whether an emotion, group or pair does
    facts: Markup = _NOTHING  # p, as it is and corrected for the page's gaps
    size: Markup = _NOTHING  # of δ, in percent of the scale and in standard deviations
    # how strongly ratings follow the story without any identity, and what share of that δ is
    response: Markup = _NOTHING
    varies: Markup = _NOTHING  # which emotions, groups and pairs stand out
    control: Markup = _NOTHING  # how much is repetition of words, as far as that was controlled
    written: Markup = _NOTHING  # what the model would most probably write; empty if that adds nothing to its ratings
    opposed: Markup = _NOTHING  # the plain means if they differ in the opposite direction
    raw: Markup = _NOTHING  # the plain means
    bound: Markup = _NOTHING  # the size of gap that is ruled out
    dealt: Markup = _NOTHING  # rank of the true groups among all ways to deal their terms
    power: Markup = _NOTHING  # the smallest gap that could have been found
    scope: Markup = _NOTHING  # what the interval generalises over
    wider: Markup = _NOTHING  # what can be said about other identities
    # the row that the numbers come from: the verdict's, or the gap's if no verdict has an interval
    decided: PlacedRow | None = None
    alone: bool = False  # whether evidence, power and scope are of the gap for these words, which differs from it


def answer(
    own: Results,  # for the mean over dimensions, with the dimensions' families, modes and controls
    identities: Sequence[str] = (),  # wordings that the gap is about; empty for the mean over dimensions
    *,
    scale: str,
    codes: Set[str],  # of the remarks on it and on the run
    refusals_told: bool = False,  # whether a card of their own says how many were refused
    drawn: bool = False,  # whether each narrative was asked about some of the pairs only, by design
    n_left_out: int = 0,  # narratives of the run that the dimension leaves out because they contradict a group
    dimensions: Mapping[str, PlacedRow] | None = None,  # for the mean over dimensions, the headline of each
) -> WordedResult:
    """Put a gap in words."""
    confidence = own.confidence
    gap, verdict = own.row("gap", headline=True, scope="narratives"), own.row("verdicts")
    unvaried = None if dimensions else constant(gap, own)
    control = control_of(own.rows("controls"), several=bool(dimensions))
    in_probabilities = is_of_probabilities(own, codes=codes)
    found = worded(
        verdict,
        in_probabilities=in_probabilities,
        parts=listed([*(["dimension"] if dimensions else []), *kinds_of_parts(own.rows("families"))], last="or"),
    )
    plain = told_plainly(verdict, in_probabilities=in_probabilities)
    excluded = _excluded(gap, own.rows("outcomes"), refusals_told=refusals_told)
    if drawn:
        excluded += _by_design(own)
    if n_left_out:
        excluded += Markup(" ") + contradicting(n_left_out)
    if gap is None or not math.isfinite(gap.number("delta")):
        asked = "no_perceivers" not in codes
        return WordedResult(
            verdict=found,
            plain=plain,
            delta=Markup(MISSING),
            spread=Markup("not estimable" if asked else "not defined"),
            lead=Markup("δ could not be estimated from this run." if asked else "There is no δ in this run."),
            evidence=Markup("The notes and the table of prompts below say what is missing." if asked else ""),
            excluded=excluded if asked else _NOTHING,
            control_kind=control.kind,
        )
    has_interval = math.isfinite(gap.number("ci_low")) and unvaried is None
    decided = gap if verdict is None or not math.isfinite(verdict.number("ci_low")) else verdict
    spread = Markup("{} interval {}").format(coverage(confidence), show_interval(gap)) if has_interval else None
    alone = unvaried is None and _rests_elsewhere(gap, decided)
    facts = _p_values(gap, alpha=1 - confidence) if has_interval else _NOTHING
    of_decided = facts if decided is gap or unvaried is not None else _p_values(decided, alpha=1 - confidence)
    counts = Markup("{} {} and {} {}").format(
        show(gap, "n_narratives", count),
        _noun(gap["n_narratives"], "narrative"),
        show(gap, "n_answers", count),
        _noun(gap["n_answers"], "rating"),
    )
    spread = spread or Markup("no interval")
    raw, opposed = plain_means(gap, free=control.kind == _FREE)
    varies = Variation(_NOTHING)
    if dimensions:
        varies = Variation(of_dimensions(dimensions))
    elif unvaried is None:
        varies = variation(own)
    return WordedResult(
        verdict=found,
        plain=plain,
        delta=show_gap(decided),
        spread=Markup("{} interval {}").format(coverage(confidence), show_interval(decided))
        if decided is not gap and unvaried is None
        else spread,
        facts=of_decided,
        size=say_effect_size(gap, decided) if unvaried is None else _NOTHING,
        response=response_beside(own),
        varies=varies.words,
        stands_out=varies.found,
        written=_NOTHING if dimensions else say_likely_answer(own, codes=codes),
        opposed=raw if opposed else _NOTHING,
        control=control.words if unvaried is None else _NOTHING,
        control_kind=control.kind,
        decided=decided,
        lead=_lead(
            decided, own.key[0], constant=unvaried, in_probabilities=in_probabilities, free=control.kind == _FREE
        ),
        evidence=Markup("{}δ = {} points on the {} scale ({}), from {}.{}").format(
            f"{ALONE.capitalize()}, " if alone else "",
            show_gap(gap),
            scale,
            Markup("; ").join(filter(None, (spread, facts))),
            counts,
            _rests_on(decided, confidence=confidence) if alone else "",
        ),
        raw=raw,
        excluded=_join(excluded, _tipping(own.row("sensitivity", check="tipping_point"))),
        bound=supported(verdict) if has_interval else _NOTHING,
        dealt=dealt(verdict) if has_interval else _NOTHING,
        power=_power(own.row("power"), alone=alone),
        scope=_scope(identities, alone=alone),
        alone=alone,
        wider=_wider(own),
    )


def compared(dimension: str, *, free: bool = False) -> tuple[str, str]:
    """Name the two sides of a gap.

    In an intersection, out-group shares none of the crossed dimensions. An echo-free gap is of pairs without a word in
    common.
    """
    if free:
        return "in-group experiencers in other words than the perceiver's", "out-group experiencers"
    if "+" in dimension:
        return "experiencers who share every crossed dimension with the perceiver", "those who share none"
    return "in-group experiencers", "out-group experiencers"


def _noun(number: float, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _join(*sentences: Markup) -> Markup:
    return Markup(" ").join(sentence for sentence in sentences if sentence)


def _lead(
    gap: PlacedRow, dimension: str, *, constant: Markup | None, in_probabilities: bool, free: bool = False
) -> Markup:
    """Say in a sentence what δ is, or what it is compatible with."""
    if constant is not None:
        return constant + Markup(": such ratings can neither show a gap nor rule one out.")
    delta, low, high = (gap.number(name) for name in ("delta", "ci_low", "ci_high"))
    has_interval = math.isfinite(low) and math.isfinite(high)
    if not has_interval and is_zero(gap):
        said = Markup("{}, {}. Its uncertainty could not be computed.")
        return said.format("Every narrative's gap is 0" if SAME in str(gap["note"]) else "The gap is 0", BEYOND)
    if has_interval and low <= 0.0 <= high:
        words = Markup("The data are compatible with no average gap. Average gaps from {} points are possible.")
        return words.format(show_interval(gap))
    if has_interval and str(gap.get("code", "gap")) != "gap":
        words = Markup("The verdict uses an estimate of {} points ({}) and says why this does not count as a gap.")
        return words.format(show_gap(gap), show_interval(gap))
    inside, outside = compared(dimension, free=free)
    words = Markup("{}, {} were on average rated {} points {} than {}")
    if in_probabilities:
        words = Markup("{}, the model's probabilities put {} on average {} points {} than {}")
    beyond = capital(BEYOND)
    if gap.get("control") == "placebo":
        beyond = f"{beyond}, and after subtracting the gap of invented groups"
    said = words.format(beyond, inside, show(gap, "delta", magnitude), direction(delta), outside)
    return said + Markup("." if has_interval else "; its uncertainty could not be computed.")


def _p_values(gap: PlacedRow, *, alpha: float) -> Markup:
    """Write p, and its value corrected for all headlines of the page."""
    p = show(gap, "p", p_value)
    # A verdict's row lacks the number of p corrected for; with several, correction changes all but the largest p.
    several = gap.number("family_size") > 1 if "family_size" in gap else gap.number("p_adjusted") > gap.number("p")
    if not (math.isfinite(gap.number("p_adjusted")) and several):
        return p
    said = Markup("{}; corrected {}").format(p, show(gap, "p_adjusted", bare_p))
    if gap.number("p") < alpha <= gap.number("p_adjusted"):
        said += Markup(": not found after correction")
    return said


def deciding_gap(row: PlacedRow, *, confidence: float) -> Markup:
    """Write the estimate that a verdict rests on, its interval and what both are of; empty without an interval."""
    if not math.isfinite(row.number("ci_low")):
        return _NOTHING
    measured = is_of_measure(row)
    return Markup("δ = {} {}{} ({} interval {}, for {}; {}).").format(
        show(row, "delta", rounded(row)) if measured else show_gap(row),
        row["unit"] if measured else "points",
        " beyond that of invented groups" if row["control"] == "placebo" else "",
        coverage(confidence),
        show_rounded_interval(row) if measured else show_interval(row),
        COVERED["groups" if row["scope"] == "groups" else "pairs"],
        _p_values(row, alpha=1 - confidence),
    )


def _rests_elsewhere(gap: PlacedRow, decided: PlacedRow) -> bool:
    """Tell whether the verdict rests on other numbers than the gap for these words."""
    return any(
        not math.isclose(gap.number(name), decided.number(name), rel_tol=1e-9, abs_tol=1e-12)
        and not (math.isnan(gap.number(name)) and math.isnan(decided.number(name)))
        for name in ("delta", "ci_low", "ci_high")
    )


def _rests_on(decided: PlacedRow, *, confidence: float) -> Markup:
    """Say which estimate decides, and why its interval is another one."""
    why = Markup("").join(
        Markup(" {}").format(said)
        for said, holds in (
            ("It subtracts the gap of invented groups.", decided["control"] == "placebo"),
            ("Its interval also counts how much δ differs between groups.", decided["scope"] == "groups"),
        )
        if holds
    )
    p = Markup("; {}").format(show(decided, "p", p_value)) if math.isfinite(decided.number("p")) else ""
    return Markup(" The verdict uses {} points ({} interval {}{}).{}").format(
        show_gap(decided), coverage(confidence), show_interval(decided), p, why
    )


def _scope(identities: Sequence[str], *, alone: bool) -> Markup:
    this = f"The interval of δ ({ALONE})" if alone else "This interval"
    if not identities:
        return Markup("{} covers narratives like these, and the identities of these dimensions.").format(this)
    named = Markup(", ").join(Markup("<bdi>{}</bdi>").format(brief(term)) for term in identities[:_IDENTITIES_NAMED])
    rest = len(identities) - _IDENTITIES_NAMED
    return Markup("{} covers narratives like these, and exactly these identities: {}{}.").format(
        this, named, f" and {rest} more" if rest > 0 else ""
    )


def _power(power: PlacedRow | None, *, alone: bool) -> Markup:
    """Say what size of gap the data could have shown."""
    if power is None or not math.isfinite(power.number("detectable_points")):
        return Markup("")
    found = Markup("{} this many narratives, a true gap of {} points would be detected {} of the time").format(
        f"{ALONE.capitalize()}: with" if alone else "With",
        show(power, "detectable_points", magnitude),
        show(power, "power", lambda share: f"{share:.0%}"),
    )
    if not math.isfinite(power.number("detectable_low")):
        return found + Markup(".")
    return found + Markup(
        ", if narratives differ as much as these do. That spread is an estimate: the detectable gap may lie between {} "
        "and {} points ({} interval)."
    ).format(
        show(power, "detectable_low", magnitude),
        show(power, "detectable_high", magnitude),
        coverage(round(1 - power.number("alpha"), 12)),
    )


def _tipping(tipping: PlacedRow | None) -> Markup:
    """Say by how much the missing ratings would have to differ from expectation for δ to be 0."""
    if tipping is None or not math.isfinite(tipping.number("shift_points")):
        return Markup("")
    whose = f" ({OF_RATED})" if OF_RATED in tipping["note"] else ""
    if NO_SHIFT in tipping["note"]:
        return Markup("No common shift of the missing ratings{} on the scale would make δ 0.").format(whose)
    return Markup("If all missing ratings{} were {} points {} than expected, δ would be 0.").format(
        whose, show(tipping, "shift_points", magnitude), direction(tipping.number("shift_points"))
    )


def _wider(own: Results) -> Markup:
    """Say what δ tells about other identities, or that nothing is claimed."""
    wider, left_out = own.row("gap", headline=True, scope="narratives_and_terms"), own.rows("leave_one_out")
    if wider is None:
        return Markup("")
    spread = Markup("")
    if left_out:
        ends = [pick(left_out, key=lambda row: row.number("delta")) for pick in (min, max)]
        spread = Markup(" If one group is left out at a time, δ ranges from {} to {} points.").format(
            *(show(row, "delta", points) for row in ends)
        )
    if not math.isfinite(wider.number("ci_low")):
        return Markup("This run says nothing about other identities: {}.").format(wider["note"]) + spread
    low, high = wider.number("ci_low"), wider.number("ci_high")
    said = "includes 0" if low <= 0.0 <= high else "excludes 0"
    groups = f"these {len(left_out)} groups" if left_out else "these groups"
    return (
        Markup("If {} are a sample of such groups, the {} interval is {} ({}) and {}.").format(
            groups, own.level, show_interval(wider), show(wider, "p", p_value), said
        )
        + spread
    )


def direction(delta: float) -> str:
    """Return "lower" or "higher"."""
    return "lower" if delta < 0 else "higher"


def _excluded(gap: PlacedRow | None, outcomes: Sequence[PlacedRow], *, refusals_told: bool) -> Markup:
    between = [row for row in outcomes if row["pairs"] in ("in_group", "out_group")]
    asked = sum(int(row["n_prompts"]) for row in between)
    missing = asked - sum(int(row["n_rated"]) for row in between)
    if gap is not None and math.isfinite(gap.number("n_missing")):
        missing = int(gap["n_missing"])
    used, narratives = (gap.number(name) if gap else math.nan for name in ("n_narratives", "n_narratives_asked"))
    dropped = narratives - used if math.isfinite(narratives) and math.isfinite(used) else 0
    if not missing and not dropped:
        return (
            Markup("All {} prompts between these identities gave a rating.").format(
                show_sum(between, "n_prompts", count)
            )
            if asked
            else Markup("Every prompt between these identities gave a rating.")
        )
    parts = []
    if missing:
        number = show(gap, "n_missing", count) if gap is not None else Markup(count(missing))
        of = Markup(" of {}").format(show_sum(between, "n_prompts", count)) if asked else ""
        why = Markup(", ").join(
            Markup("{} {}").format(show_sum(between, f"n_{kind}", count), kind)
            for kind in ("refused", "unparseable", "failed", "inexact")
            if any(f"n_{kind}" in row and row.number(f"n_{kind}") > 0 for row in between)
        )
        cause = Markup(" ({})").format(why) if why else ""
        parts.append(
            Markup("{}{} {} between these identities gave no rating{}").format(
                number, of, either(asked or missing, "prompt", "prompts"), cause
            )
        )
    if dropped and gap is not None:
        of_all = Markup("{} {}").format(show(gap, "n_narratives_asked", count), _noun(narratives, "narrative"))
        parts.append(Markup("{} of {} could not be used").format(count(dropped), of_all))
    sentence = Markup("Not used: {}.").format(Markup("; ").join(parts))
    refusals = {row["pairs"]: show(row, "refusal_rate", rate) for row in between if row["n_prompts"]}
    if not refusals_told and len(refusals) == 2 and any(row.number("n_refused") > 0 for row in between):
        sentence += Markup(" Refused: {in_group} of in-group and {out_group} of out-group prompts.").format(**refusals)
    return sentence


def _by_design(own: Results) -> Markup:
    """Say that not all pairs were asked about every narrative, so that their number is not taken for missing ones."""
    sides = ({row["perceiver_group"], row["experiencer_group"]} for row in own.rows("cells"))
    n_pairs = sum(not groups & {*BASELINES} for groups in sides)
    return Markup(" By design, each narrative was asked about only some of the {} pairs.").format(count(n_pairs))


def contradicting(n: int) -> Markup:
    """Say that a dimension asks about fewer narratives than the run has, and why."""
    return Markup("{} {} left out for all groups, because {} one of them.").format(
        count(n),
        either(n, "narrative of the run was", "narratives of the run were"),
        either(n, "it contradicts", "they contradict"),
    )


def describe_gaps(gaps: Sequence[tuple[str, PlacedRow]], *, confidence: float) -> str:
    """Describe the forest plot for readers who cannot see it: each title with its δ and interval."""
    described = []
    for title, gap in gaps:
        within = gap["ci_low"], gap["ci_high"]
        if not math.isfinite(gap["delta"]):
            described.append(f"{title}: not estimable")
        elif not math.isfinite(gap["ci_low"]):
            described.append(f"{title}: {points(gap['delta'])}, no interval")
        else:
            described.append(f"{title}: {beside(*within)(gap['delta'])}, {interval(*within)}")
    start = f"Forest plot of δ in scale points with {coverage(confidence)} intervals and a line at 0."
    return f"{start} {'; '.join(described)}."
