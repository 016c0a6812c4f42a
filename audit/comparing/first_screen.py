"""The first screens of comparisons: what all runs asked, how they differ, and what does not follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from markupsafe import Markup

from audit.comparing.disparity_page import DimensionAnswers, changed, left_open
from audit.comparing.page import counted_alike
from audit.report.effect_size import say_effect_size
from audit.report.numbers import PlacedRow, show, show_interval, unbroken
from audit.report.sentences import ALONE
from audit.report.summary import (
    EVERY_PART,
    NO_GROUPS,
    NO_LARGER,
    NOT_IN_ITSELF,
    NOT_THE_GROUPS,
    THESE_WORDS,
    ShortAnswer,
    Summary,
    summary,
)
from audit.report.verdicts import not_in_a_part, tallied
from audit.tables.formatting import (
    OF_GROUPS_AND_MODELS,
    bare_p,
    count,
    coverage,
    dimension_title,
    either,
    listed,
    plural,
    points,
    unsigned,
)
from audit.tables.gap import NO_PERCEIVERS
from audit.tasks.task_words import TaskWords

DIFFERING: Final = {
    "model": "the model",
    "server": "the server that was asked",
    "stated": "the model that the server says it is",
    "prompt": "the wording of the prompt",
    "wording": "the wording of the prompt",
    "language": "the language",
    "strategy": "what leads the model before the question",
    "leading": "what leads the model before the question",
    "narratives": "the accounts",
    "texts": "the accounts",
    "n_narratives": "the accounts",
    "dimensions": "the identities",
    "identities": "the identities",
    "elicitation": "how the rating is got",
    "generation": "what a reply may be",
    "scale": "the scale",
    "seed": "the seed",
    "dtype": "the precision of the model",
    "quantization": "the compression of the model",
}
"""Columns of the tables of runs that the first screen names if they differ, in plain words."""
BESIDES: Final = {
    "revision": "the files of the model",
    "path": "where the model is from",
    "engine": "the library that runs the model",
    "device": "what the model runs on",
    "parser": "how an answer is read",
    "n_prompts": "how many prompts were asked",
    "version": "the version of empathy-audit",
}
"""Columns that are named only if none of :data:`DIFFERING` differ."""
_ORDER: Final = ("no_verdict", "no_estimate", "gap", "within", "undecided")
"""Verdict codes, in the order in which they are counted."""
NOT_OF_A_SERIES: Final = (
    "that other models of this series, or of another, follow its line",
    "why a gap changes along it: its models differ in more than their place",
)
_NAMED: Final = 2
_RUNS_NAMED: Final = 8


def summary_of_runs(
    runs: Sequence[PlacedRow],
    specifications: Sequence[PlacedRow],
    gaps: Sequence[PlacedRow],
    strategies: Sequence[PlacedRow],
    names: Mapping[str, str],
    verdicts: Sequence[PlacedRow],
    less: Sequence[DimensionAnswers] = (),
    *,
    confidence: float,
    along: Sequence[ShortAnswer] = (),
) -> Summary:
    """Write the first screen of a comparison of ratings.

    Parameters
    ----------
    gaps
        Rows of the table ``gap`` with the scope ``narratives``.
    names
        Each run's strategy, as it is called on the page.
    verdicts
        Rows of the table ``verdicts``: the verdicts on the runs' own pages.
    less
        Who gets less, in each dimension.
    along
        What changes along a series of runs; stands first.
    """
    alpha = 1 - confidence
    alone = without_perceivers(gaps)
    of_nobody = {_place(row) for row in gaps if has_no_perceiver(row)}
    void = without_verdict(verdicts)
    every = [row for row in strategies if math.isfinite(row.number("p_adjusted"))]
    tested = [row for row in every if can_change(row, void)]
    findings = [
        _of_strategies(row, own, strategies, void, alpha=alpha)
        if (own := [each for each in every if each["dimension"] == row["dimension"]])
        else _of_choices(row, [each for each in verdicts if each["dimension"] == row["dimension"]])
        for row in specifications
        if str(row["dimension"]) not in alone
    ]
    if less:
        findings = in_turn([replace(each, question="side") for each in findings], [each.short() for each in less])
    how = _changes(tested, names, alpha=alpha) if every else _agreement(specifications)
    return summary(
        Markup("Each of {} asked a model {} to rate how strongly they felt; {}.").format(
            plural(len(runs), "run"), _asked(len({run for run, *_ in of_nobody}), len(runs)), say_differences(runs)
        ),
        [*along, *findings],
        [
            ("How big", _largest(gaps, verdicts, confidence=confidence)),
            ("How it varies", how),
            ("Between runs", changed(less)),
        ],
        not_concluded=[
            *dict.fromkeys(
                [
                    *_not_concluded([each for each in verdicts if _place(each) not in of_nobody], tested, alpha=alpha),
                    *_left_open(verdicts),
                    *left_open(less),
                    *(NOT_OF_A_SERIES if along else ()),
                ]
            ),
            "which run's ratings are right",
            OF_GROUPS_AND_MODELS,
        ],
        source=sources_of(runs),
        chosen_by=f"{'trends first, then ' if along else ''}how many gaps, or changes of a gap, were found"
        + (", or in how many runs a group gets less or more" if less else ""),
    )


def has_no_perceiver(gap: PlacedRow) -> bool:
    """Whether a run gave the model no group's identity, so that there is no δ."""
    return str(gap["note"]) == NO_PERCEIVERS


def without_perceivers(gaps: Sequence[PlacedRow]) -> frozenset[str]:
    """Return the dimensions in which no run gave the model a group's identity."""
    asked = {str(row["dimension"]) for row in gaps if not has_no_perceiver(row)}
    return frozenset(str(row["dimension"]) for row in gaps) - asked


def in_turn(side: Sequence[ShortAnswer], less: Sequence[ShortAnswer]) -> list[ShortAnswer]:
    """Put who gets less in a dimension beneath whose side a model takes in it."""
    titles = dict.fromkeys(each.title for each in (*side, *less))
    return [each for title in titles for each in (*side, *less) if each.title == title]


def _asked(n_without: int, n_runs: int) -> str:
    if not n_without:
        return "to speak as one person, to read accounts by people of the same and of other groups, and"
    if n_without == n_runs:
        return "without giving it an identity, to read accounts by people of several groups, and"
    return "to speak as one person, or gave it no identity, to read accounts by people of several groups, and"


def strategy_names(strategies: Sequence[PlacedRow]) -> dict[str, str]:
    """Return each run's name on the page: its strategy if that is unique, else its label."""
    strategy = {str(row["run"]): str(row["strategy"]) for row in strategies}
    return strategy if len(set(strategy.values())) == len(strategy) else {run: run for run in strategy}


def say_differences(runs: Sequence[PlacedRow]) -> str:
    """Say which choices the runs differ in."""
    for choices in (DIFFERING, BESIDES):
        differ = [words for name, words in choices.items() if len({str(row[name]) for row in runs if name in row}) > 1]
        if differ:
            return f"they differ in {listed(list(dict.fromkeys(differ)))}"
    return "they differ in nothing that was recorded of how they were asked"


def sources_of(runs: Sequence[PlacedRow]) -> Markup:
    """Name the runs that a printed page is about."""
    named = Markup(", ").join(Markup("<bdi>{}</bdi>").format(row["run"]) for row in runs[:_RUNS_NAMED])
    more = f" and {len(runs) - _RUNS_NAMED} more" if len(runs) > _RUNS_NAMED else ""
    return Markup("Runs: {}{}.").format(named, more)


def tally(rows: Sequence[PlacedRow], column: str, *, alpha: float) -> tuple[int, int, int]:
    """Count tested changes in ``column``: lower, higher, and undecided (corrected p not below ``alpha``)."""
    found = [row for row in rows if row.number("p_adjusted") < alpha]
    lower = sum(row.number(column) < 0 for row in found)
    return lower, len(found) - lower, len(rows) - len(found)


def told_tally(rows: Sequence[PlacedRow], column: str, *, alpha: float) -> str:
    """Write that count: "1 lower · 2 higher · 5 undecided"."""
    kinds = ("lower", "higher", "undecided")
    counted = zip(tally(rows, column, alpha=alpha), kinds, strict=True)
    return " \N{MIDDLE DOT} ".join(f"{n}\N{NO-BREAK SPACE}{kind}" for n, kind in counted)


def in_pairs(rows: Sequence[PlacedRow], column: str) -> str:
    """Say how many changes hold for "these pairs of words" only, by a column that holds the scope."""
    n = sum(row[column] == "pairs" for row in rows)
    if not n:
        return ""
    return " in these pairs of words" if n == len(rows) else f" ({n} of them in these pairs of words)"


def without_verdict(verdicts: Sequence[PlacedRow]) -> frozenset[tuple[str, str]]:
    """Return the runs and dimensions that have no verdict on the run's own page."""
    none = ("no_verdict", "no_estimate")
    return frozenset((str(row["run"]), str(row["dimension"])) for row in verdicts if row["code"] in none)


def can_change(row: PlacedRow, void: Set[tuple[str, str]]) -> bool:
    """Whether a strategy's change may be reported: its run and the reference both have a verdict."""
    dimension = str(row["dimension"])
    return not {(str(row["run"]), dimension), (str(row["reference"]), dimension)} & void


def _of_strategies(
    row: PlacedRow,
    every: Sequence[PlacedRow],
    strategies: Sequence[PlacedRow],
    void: Set[tuple[str, str]],
    *,
    alpha: float,
) -> ShortAnswer:
    """Say for one dimension under how many strategies δ is lower or higher than without."""
    own = [each for each in every if can_change(each, void)]
    if not own:
        title = dimension_title(str(row["dimension"]))
        return ShortAnswer(title, "No verdict on any change: the runs' own pages give none", kind="absent")
    none = len(every) - len(own)
    told = told_tally(own, "delta_change", alpha=alpha)
    told += f" \N{MIDDLE DOT} {none}\N{NO-BREAK SPACE}no verdict" if none else ""
    lower, higher, _ = tally(own, "delta_change", alpha=alpha)
    references = {each["reference"] for each in own}
    without = [
        each for each in strategies if each["dimension"] == row["dimension"] and each["run"] in references
    ]  # fmt: skip
    ends = [pick(own, key=lambda each: each.number("delta")) for pick in (min, max)]
    reach = show(own[0], "delta", points)
    if len(own) > 1:
        reach = unbroken(*(show(each, "delta", points) for each in ends))
    spread = Markup("{} {} with").format(reach, row["unit"])
    if len(without) == 1 and math.isfinite(without[0].number("delta")):
        spread = Markup("{} {} without, {} with").format(show(without[0], "delta", points), row["unit"], reach)
    return ShortAnswer(
        dimension_title(str(row["dimension"])),
        told,
        spread=Markup("δ {}: {}").format(ALONE, spread),
        kind="gap" if lower or higher else "undecided",
        tail=f": {len(own)} {either(len(own), 'strategy', 'strategies')} tested{in_pairs(own, 'change_scope')}",
        weight=lower + higher,
    )


def counted_verdicts(verdicts: Sequence[PlacedRow]) -> Markup:
    """Count the runs' verdicts in one dimension, in the words of the runs' own pages."""
    ordered = sorted(verdicts, key=lambda row: (_ORDER.index(row["code"]), row.number("direction")))
    return counted_alike(tallied(row)[1] for row in ordered)


def _of_choices(row: PlacedRow, verdicts: Sequence[PlacedRow]) -> ShortAnswer:
    """Say for one dimension what the runs' verdicts are, and how far δ ranges."""
    title = dimension_title(str(row["dimension"]))
    if not row["n_estimated"] or not verdicts:
        return ShortAnswer(title, "No run has a δ", kind="absent")
    kinds = [tallied(each)[0] for each in verdicts]
    kind = kinds[0] if len(set(kinds)) == 1 else "gap" if "gap" in kinds else "undecided"
    n_found = sum(each["code"] == "gap" for each in verdicts)
    return ShortAnswer(title, counted_verdicts(verdicts), spread=_reach(row, verdicts), kind=kind, weight=n_found)


def _reach(row: PlacedRow, verdicts: Sequence[PlacedRow]) -> Markup:
    """Give the range of δ over runs: the δ behind the verdict, if each run has one in the same unit."""
    decided = [each for each in verdicts if math.isfinite(each.number("ci_low"))]
    if row["unit"] == "points" and len(decided) == row["n_estimated"]:
        ends = [show(pick(decided, key=lambda each: each.number("delta")), "delta", points) for pick in (min, max)]
        which = "δ"
    else:
        ends = [show(row, name, points) for name in ("lowest", "highest")]
        which = f"δ {ALONE}"
    return Markup("{}: {}, in {}").format(which, unbroken(*ends) if row["n_estimated"] > 1 else ends[0], row["unit"])


def _largest(gaps: Sequence[PlacedRow], verdicts: Sequence[PlacedRow], *, confidence: float) -> Markup:
    """Name the run with the largest gap relative to its scale, by the gap behind its verdict if there is one."""
    decided = {_place(row): row for row in verdicts if math.isfinite(row.number("ci_low"))}
    sized = [
        (gap, decided.get(_place(gap)), size)
        for gap in gaps
        if (size := say_effect_size(gap, decided.get(_place(gap))))
    ]
    if not sized:
        return Markup("")
    gap, row, size = max(sized, key=lambda each: abs(_in_percent(*each[:2])))
    which = "the largest δ" if row is not None else f"the largest δ, {ALONE}"
    said = Markup("{}, of <bdi>{}</bdi> in {}, is {}").format(
        which, gap["run"], dimension_title(str(gap["dimension"])), size
    )
    if row is None:
        return said + "."
    return said + Markup(" ({} interval {} points).").format(coverage(confidence), show_interval(row))


def _place(row: PlacedRow) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("run", "dimension", "variant"))


def _in_percent(gap: PlacedRow, decided: PlacedRow | None) -> float:
    """Return the deciding gap in percent of the scale, converted by the ratio of the headline gap."""
    percent, delta = gap.number("percent_of_scale"), gap.number("delta")
    return percent / delta * decided.number("delta") if decided is not None and delta else percent


def _changes(tested: Sequence[PlacedRow], names: Mapping[str, str], *, alpha: float) -> Markup:
    """Name the largest changes found."""
    found = sorted(
        (row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: -abs(row.number("delta_change"))
    )
    if not found:
        return Markup("no strategy was found to change δ; that does not show that none does.")
    said = Markup("; ").join(
        Markup("<bdi>{}</bdi> ({}): δ {} by {} {}{}, p {}").format(
            names[str(row["run"])],
            dimension_title(str(row["dimension"])),
            "lower" if row.number("delta_change") < 0 else "higher",
            show(row, "delta_change", lambda value: points(abs(value), signed=False)),
            row["unit"],
            in_pairs([row], "change_scope"),
            show(row, "p_adjusted", bare_p),
        )
        for row in found[:_NAMED]
    )
    rest = len(found) - _NAMED
    more = f"; and {rest} more" if rest > 0 else ""
    return said + Markup("{} (p corrected).").format(more)


def _agreement(specifications: Sequence[PlacedRow]) -> Markup:
    """Say in which dimension the runs agree least on the sign of δ."""
    known = [row for row in specifications if row["n_estimated"] > 1]
    if not known:
        return Markup("")
    row = min(known, key=lambda each: each.number("share_same_sign"))
    where = Markup("in {}, ").format(dimension_title(str(row["dimension"]))) if len(known) > 1 else Markup("")
    return Markup("{}{} of {} runs {} a δ {} with the sign of their median; that is no test.").format(
        where,
        show(row, "n_same_sign", count),
        show(row, "n_estimated", count),
        either(row["n_same_sign"], "has", "have"),
        ALONE,
    )


def _not_concluded(verdicts: Sequence[PlacedRow], tested: Sequence[PlacedRow], *, alpha: float) -> Iterator[str]:
    if tested:
        yield "that a δ nearer to 0 is less bias"
        if tally(tested, "delta_change", alpha=alpha)[2]:
            yield "that an undecided strategy changes nothing"
    of_strategies = {row["dimension"] for row in tested}
    if any(row["code"] == "undecided" for row in verdicts if row["dimension"] not in of_strategies):
        yield "that an undecided run has no gap"
    if any(row["code"] in ("no_verdict", "no_estimate") for row in verdicts):
        yield "anything from runs without a verdict"


def _left_open(verdicts: Sequence[PlacedRow]) -> Iterator[str]:
    """Yield what verdicts leave open, by control, scope and parts, even if they find a gap or rule one out."""
    if any("controls_disagree" in str(row["reasons"]) for row in verdicts):
        yield NO_GROUPS
    found = [row for row in verdicts if row["code"] == "gap"]
    ruled_out = [row for row in verdicts if row["code"] == "within" or row["size"] == "smaller"]
    if any(row["control"] == "none" for row in found):
        yield NOT_THE_GROUPS
    if any(row["control"] == "none" for row in ruled_out):
        yield NO_LARGER
    if any(row["control"] == "placebo" for row in ruled_out):
        yield NOT_IN_ITSELF
    if any(row["scope"] == "pairs" for row in (*found, *ruled_out)):
        yield THESE_WORDS
    if any(not_in_a_part(row) for row in ruled_out):
        yield EVERY_PART


def summary_of_changes(
    runs: Sequence[PlacedRow],
    changes: Sequence[PlacedRow],
    titles: Mapping[str, str],
    *,
    words: TaskWords,
    confidence: float,
    less: str = "",  # which groups get less or more than in the reference
) -> Summary:
    """Write the first screen of a comparison of replies.

    ``runs`` and ``changes`` are rows of the tables ``runs`` and ``measure_changes``; ``titles`` names each measure.
    """
    alpha = 1 - confidence
    tested = [row for row in changes if math.isfinite(row.number("p_adjusted"))]
    findings = []
    for dimension in dict.fromkeys(str(row["dimension"]) for row in changes):
        own = [row for row in tested if row["dimension"] == dimension]
        if not own:
            findings.append(ShortAnswer(dimension_title(dimension), "Nothing could be tested", kind="absent"))
            continue
        lower, higher, _ = tally(own, "delta_change", alpha=alpha)
        n_untested = sum(row["dimension"] == dimension for row in changes) - len(own)
        lacking = f"; {count(n_untested)} not tested" if n_untested else ""
        tests = plural(len(own), "test") + in_pairs(own, "scope")
        told = f"δ: {told_tally(own, 'delta_change', alpha=alpha)} (of {tests}, corrected{lacking})"
        kind = "gap" if lower or higher else "undecided"
        findings.append(ShortAnswer(dimension_title(dimension), told, kind=kind, weight=lower + higher))
    found = sorted((row for row in tested if row.number("p_adjusted") < alpha), key=lambda row: row.number("p"))
    sized = [row for row in found if math.isfinite(row.number("change_sd"))]
    several = len(findings) > 1
    size = Markup("")
    if sized:
        row = max(sized, key=lambda each: abs(each.number("change_sd")))
        size = Markup(
            "the largest change that is found, of {}{} in <bdi>{}</bdi>, is {} times the spread (SD) of that measure "
            "over the {} of <bdi>{}</bdi>."
        ).format(
            titles[row["outcome"]],
            _where(row, several=several),
            row["run"],
            show(row, "change_sd", lambda value: unsigned(abs(value))),
            words.texts,
            row["reference"],
        )
    named = Markup("; ").join(
        Markup("<bdi>{}</bdi>, {}{}: {}").format(
            row["run"],
            titles[row["outcome"]],
            _where(row, several=several),
            "lower" if row.number("delta_change") < 0 else "higher",
        )
        for row in found[:_NAMED]
    )
    rest = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    none = Markup("no δ was found to change; that does not show that none does.") if tested else Markup("")
    return summary(
        Markup("Each of {} asked a model to speak as one person and to {}; {}.").format(
            plural(len(runs), "run"), words.to.format(words.about[1]), say_differences(runs)
        ),
        findings,
        [
            ("How big", size),
            ("How it varies", Markup("{}{}.").format(named, rest) if found else none),
            ("Who gets less", less),
        ],
        not_concluded=[
            "that a δ nearer to 0 is less bias",
            *(["that an undecided measure is unchanged"] if len(found) < len(tested) else []),
            words.no_better,
            OF_GROUPS_AND_MODELS,
        ],
        source=sources_of(runs),
        chosen_by="how many changes were found",
    )


def _where(row: PlacedRow, *, several: bool) -> str:
    """Name the dimension in brackets if there are several."""
    return f" ({dimension_title(str(row['dimension']))})" if several else ""
