"""Differences between runs in words, by the codes that their tables store: which run, how much, how sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.report.disparities import because, step_for
from audit.report.numbers import PlacedRow, rounded, show, unbroken
from audit.report.summary import LESS, REFUSED_MORE, ShortAnswer
from audit.report.verdicts import NO_STEP, STEPS, Step, reason_in_words
from audit.tables.disparity import REFUSALS
from audit.tables.formatting import (
    bare_p,
    brief,
    count,
    coverage,
    dimension_title,
    listed,
    plural,
    points,
)

FOUND: Final = ("lower", "higher")
NONE: Final = ("no_verdict", "no_estimate")
CLAIMS: Final = {
    "groups": " between groups",
    "pairs": " in these pairs of words",
    "uncontrolled": ", including repeated words,",
    "": "",
}
"""What a change of δ is of, after "the gap"."""
COMPARABLE: Final = Step("Compare runs that asked about the same narratives and identities.")
_NAMED: Final = 3
_STEPS: Final = 2  # next steps on the first screen


@dataclass(frozen=True)
class PairTable:
    """The columns of a table of differences between two runs."""

    change: str = "delta_change"
    first: str = "first"
    second: str = "second"
    low: str = "ci_low"
    high: str = "ci_high"
    of_first: str = "delta_first"
    of_second: str = "delta_second"
    sign: str = "δ"


DELTAS: Final = PairTable()
STRATEGY_CHANGES: Final = PairTable("delta_change", "run", "reference", "change_low", "change_high", "delta", "")
MEASURE_CHANGES: Final = PairTable("delta_change", "run", "reference", of_first="delta", of_second="reference_delta")
GROUPS: Final = PairTable("disparity_change", of_first="disparity_first", of_second="disparity_second", sign="D")


@dataclass(frozen=True)
class PairAnswer:
    """An answer on differences between runs, with what to do next; empty if that is not known."""

    short: ShortAnswer
    step: Step = NO_STEP


def largest_first(rows: Sequence[PlacedRow], table: PairTable) -> list[PlacedRow]:
    """Return the differences that are shown, the largest first."""
    return sorted((row for row in rows if row["code"] in FOUND), key=lambda row: -abs(row.number(table.change)))


def by_how_much(row: PlacedRow, table: PairTable, *, signed: bool = True) -> Markup:
    """Write a difference to the digits that its interval supports."""
    write = rounded(row, table.low, table.high, signed=signed)
    return show(row, table.change, write if signed else lambda value: write(abs(value)))


def how_sure(row: PlacedRow, table: PairTable, *, confidence: float) -> Markup:
    """Write the interval, p and narratives of a difference, and both runs' own numbers."""
    write = rounded(row, table.low, table.high)
    level = coverage(confidence)
    both = unbroken(show(row, table.low, write), show(row, table.high, write))
    said = Markup("{} interval {}; corrected p {}; {}\N{NO-BREAK SPACE}narratives").format(
        level, both, show(row, "p_adjusted", bare_p), show(row, "n_narratives", count)
    )
    if table.of_second:
        said += Markup("; {} {} and {}").format(
            table.sign, show(row, table.of_first, write), show(row, table.of_second, write)
        )
    return said


def delta_answer(
    rows: Sequence[PlacedRow], *, dimension: str, tail: str, confidence: float, weight: float = 0.0
) -> PairAnswer:
    """Say of one dimension between which runs δ differs."""
    title = dimension_title(dimension)

    def told(row: PlacedRow) -> Markup:
        return Markup("The gap{} is {} in <bdi>{}</bdi> than in <bdi>{}</bdi>{}").format(
            CLAIMS[str(row["claim"])], row["code"], *_runs(row, DELTAS), _nearer(row, DELTAS)
        )

    return _answer(
        rows, DELTAS, title=title, tail=tail, question="side", told=told, what="their gap", confidence=confidence,
        why=_reasons, weight=weight,
    )  # fmt: skip


def group_answer(
    rows: Sequence[PlacedRow], *, dimension: str, confidence: float, titles: Mapping[str, str] | None = None
) -> PairAnswer:
    """Say of one dimension which groups get less, or are refused more, in one run than in another.

    ``titles`` names measures of texts, if ``rows`` are of these.
    """
    refused = rows[0]["outcome"] == REFUSALS and titles is None

    def told(row: PlacedRow) -> Markup:
        words = ", in these words" if row["claim"] == "words" else ""
        how = {"lower": "less often", "higher": "more often"}[row["code"]] if refused else row["code"]
        verb = "is refused" if refused else "is rated" if titles is None else f"has a {titles[str(row['outcome'])]}"
        return Markup(
            "<bdi>{}</bdi> {} {}, compared with the other groups, in <bdi>{}</bdi> than in <bdi>{}</bdi>{}"
        ).format(brief(str(row["group"])), verb, how, *_runs(row, GROUPS), words)

    return _answer(
        rows, GROUPS, title=dimension_title(dimension), tail=REFUSED_MORE if refused else LESS,
        question="refused" if refused else "less", told=told,
        what="whom they refuse more" if refused else "who gets less", confidence=confidence,
        why=because, weight=0.0,
    )  # fmt: skip


def measure_answer(
    rows: Sequence[PlacedRow], titles: Mapping[str, str], *, dimension: str, tail: str, confidence: float
) -> PairAnswer:
    """Say of one dimension in which measures of texts δ differs from the reference run's."""
    table, title = MEASURE_CHANGES, dimension_title(dimension)
    made = partial(ShortAnswer, title, tail=tail, question="side")
    found, step = largest_first(rows, table), _step(rows, "side")
    found.sort(key=lambda row: row.number("p"))
    tested = [row for row in rows if row["code"] not in NONE]
    if len(found) == 1:
        [row] = found
        words = Markup("The gap{} in {} is {} in <bdi>{}</bdi> than in <bdi>{}</bdi>{}").format(
            CLAIMS[str(row["claim"])], titles[str(row["outcome"])], row["code"], *_runs(row, table), _nearer(row, table)
        )
        spread = Markup("{}; of {}").format(how_sure(row, table, confidence=confidence), plural(len(tested), "test"))
        return PairAnswer(
            made(words, number=by_how_much(row, table), unit=f" {row['unit']}", spread=spread, kind="gap", weight=1.0),
            step,
        )
    if found:
        several = len({_runs(row, table) for row in rows}) > 1
        named = [
            Markup("{} {}{}{} ({} {}, p {})").format(
                row["code"], titles[str(row["outcome"])],
                Markup(" in <bdi>{}</bdi>").format(_runs(row, table)[0]) if several else "", _nearer(row, table),
                by_how_much(row, table), row["unit"], show(row, "p_adjusted", bare_p),
            )
            for row in found[:_NAMED]
        ]  # fmt: skip
        rest = [Markup("{} more").format(count(len(found) - _NAMED))] if len(found) > _NAMED else []
        where = (
            Markup("The gap changes in {} of {} measures and runs")
            if several
            else Markup("The gap changes in {} of {} measures")
        )
        words = where.format(count(len(found)), count(len(rows)))
        return PairAnswer(made(words, spread=Markup("; ").join([*named, *rest]), kind="gap", weight=len(found)), step)
    if not tested:
        return PairAnswer(made(_silent(rows, _reasons), kind="absent"), step)
    undecided = [row for row in tested if row["code"] == "undecided"]
    spread = Markup("{} tested, of {}").format(plural(len(tested), "change"), count(len(rows)))
    if undecided:
        spread += Markup("; {} undecided: {}").format(count(len(undecided)), _reasons(undecided))
    return PairAnswer(made("No change of a gap is shown in any measure", spread=spread, kind="undecided"), step)


def strategy_answer(rows: Sequence[PlacedRow], names: Mapping[str, str], *, tail: str, confidence: float) -> PairAnswer:
    """Say of one dimension what each strategy changes, against the run without; ``rows`` have that run, too."""
    table = STRATEGY_CHANGES
    own = [row for row in rows if row["code"]]
    title, step = dimension_title(str(rows[0]["dimension"])), _step(own, "side")
    made = partial(ShortAnswer, title, tail=tail, question="side")
    found = largest_first(own, table)
    if all(row["code"] in NONE for row in own):
        return PairAnswer(made(_silent(own, _reasons), kind="absent"), step)

    def named(code: str) -> Markup:
        labels = [Markup("<bdi>{}</bdi>").format(names[str(row["run"])]) for row in own if row["code"] == code]
        return Markup(listed(labels)) if len(labels) <= _NAMED else Markup(f"{len(labels)} strategies")

    left = [
        Markup("{}: {}").format(words, named(code))
        for code, words in (("not_shown", "Not shown to change it"), ("undecided", "Undecided"),
                            ("no_verdict", "No verdict"), ("no_estimate", "No answer"))
        if any(row["code"] == code for row in own)
    ]  # fmt: skip
    references = [row for row in rows if row["run"] in {each["reference"] for each in own}]
    if len(references) == 1 and math.isfinite(references[0].number("delta")):
        left.append(Markup("δ without: {}").format(show(references[0], "delta", points)))
    rest = Markup(". ").join(left)
    if len(own) == 1 and found:
        [row] = found
        words = Markup("The gap{} is {} under <bdi>{}</bdi> than without{}").format(
            CLAIMS[str(row["claim"])], row["code"], names[str(row["run"])], _nearer(row, table)
        )
        spread = Markup("{}; {}").format(how_sure(row, table, confidence=confidence), rest)
        return PairAnswer(
            made(words, number=by_how_much(row, table), unit=f" {row['unit']}", spread=spread, kind="gap", weight=1),
            step,
        )
    undecided = [row for row in own if row["code"] == "undecided"]
    if undecided and all(row["code"] in ("undecided", *NONE) for row in own):
        words = Markup("Undecided: {}").format(_reasons(undecided))
        return PairAnswer(made(words, spread=rest, kind="undecided"), step)
    if not found:
        which = "No strategy is" if len(own) > 1 else Markup("<bdi>{}</bdi> is not").format(names[str(own[0]["run"])])
        return PairAnswer(made(Markup("{} shown to change the gap").format(which), spread=rest, kind="undecided"), step)
    parts = [
        Markup("{} under {}").format(
            code,
            Markup(
                listed(
                    [
                        Markup("<bdi>{}</bdi> ({}{})").format(
                            names[str(row["run"])], by_how_much(row, table), _nearer(row, table)
                        )
                        for row in found if row["code"] == code
                    ]
                )
            ),
        )
        for code in FOUND
        if any(row["code"] == code for row in found)
    ]  # fmt: skip
    claims = {CLAIMS[str(row["claim"])] for row in found}
    words = Markup("The gap{} is {}, in {}").format(
        claims.pop() if len(claims) == 1 else "", Markup(" and ").join(parts), found[0]["unit"]
    )
    return PairAnswer(made(words, spread=rest, kind="gap", weight=len(found)), step)


def _answer(
    rows: Sequence[PlacedRow],
    table: PairTable,
    *,
    title: str,
    tail: str,
    question: str,
    told: Callable[[PlacedRow], Markup],
    what: str,
    confidence: float,
    why: Callable[[Sequence[PlacedRow]], str],
    weight: float,
) -> PairAnswer:
    found = largest_first(rows, table)
    pairs = list(dict.fromkeys(_runs(row, table) for row in rows))
    made = partial(ShortAnswer, title, tail=tail, question=question)
    step = _step(rows, question)
    if len(found) == 1 or (found and len(pairs) == 1):
        row, *others = found
        more = Markup("; also: {}").format(_few(others, table)) if others else Markup("")
        rest = _rest(rows, pairs, table) if len(pairs) > 1 else Markup("")
        return PairAnswer(
            made(
                told(row) + (rest and Markup("; {}").format(rest)), number=by_how_much(row, table),
                unit=f" {row['unit']}", spread=how_sure(row, table, confidence=confidence) + more, kind="gap",
                weight=weight + len(found),
            ),
            step,
        )  # fmt: skip
    if found:
        differing = {_runs(row, table) for row in found}
        words = Markup("{} of {} pairs of runs differ in {}").format(count(len(differing)), count(len(pairs)), what)
        return PairAnswer(made(words, spread=_few(found, table), kind="gap", weight=weight + len(found)), step)
    told_apart = [row for row in rows if row["code"] not in NONE]
    if not told_apart:
        return PairAnswer(made(_silent(rows, why), kind="absent"), step)
    undecided = [row for row in told_apart if row["code"] == "undecided"]
    if len(undecided) == len(told_apart):
        return PairAnswer(made(Markup("Undecided: {}").format(why(undecided)), kind="undecided"), step)
    which = Markup("<bdi>{}</bdi> and <bdi>{}</bdi> are").format(*pairs[0]) if len(pairs) == 1 else "No two runs are"
    lead = "not " if len(pairs) == 1 else ""
    words = Markup("{} {}shown to differ in {}").format(which, lead, what)
    if len(pairs) > 1 and (rest := _rest(rows, pairs, table)):
        words += Markup("; {}").format(rest)
    far = max(told_apart, key=lambda row: _reach(row, table))
    spread = Markup("")
    if math.isfinite(_reach(far, table)):
        size = rounded(far, table.low, table.high, signed=False)
        end = table.low if -far.number(table.low) > far.number(table.high) else table.high
        spread = Markup("Differences of up to {} {} are possible ({} interval)").format(
            show(far, end, lambda value: size(abs(value))), far["unit"], coverage(confidence)
        )
    return PairAnswer(made(words, spread=spread, kind="undecided"), step)


def change_in_words(row: PlacedRow) -> str:
    """Say in short what a difference of δ shows, and what limits it."""
    code, said = str(row["code"]), {"groups": "between groups", "pairs": "in these pairs of words"}
    words = code.replace("_", " ")
    if code in FOUND:
        return f"{words}, {said.get(str(row['claim']), 'including repeated words')}"
    why = listed([reason_in_words(each, row) for each in codes_of(row)])
    return f"{words}: {why}" if why else words


def codes_of(row: PlacedRow) -> list[str]:
    """Return the codes of what limits a row's answer."""
    return [*filter(None, str(row["limits"]).split("; "))] if isinstance(row["limits"], str) else []


def _nearer(row: PlacedRow, table: PairTable) -> str:
    """Say which way 0 is if both gaps are towards the out-group: the lower one of these is the larger."""
    first = row.number(table.of_first)
    second = row.number(table.of_second) if table.of_second else first - row.number(table.change)
    if not max(first, second) < 0:
        return ""
    return ", farther from 0" if row["code"] == "lower" else ", nearer to 0"


def _runs(row: PlacedRow, table: PairTable) -> tuple[str, str]:
    return brief(str(row[table.first])), brief(str(row[table.second]))


def _reach(row: PlacedRow, table: PairTable) -> float:
    ends = [abs(row.number(name)) for name in (table.low, table.high)]
    return max(ends) if all(map(math.isfinite, ends)) else -math.inf


def _few(rows: Sequence[PlacedRow], table: PairTable) -> Markup:
    """Name the first differences, and how many more there are."""
    said = [
        Markup("{}{} in <bdi>{}</bdi> than in <bdi>{}</bdi> by {} {}{} (p {})").format(
            Markup("<bdi>{}</bdi>: ").format(brief(str(row["group"]))) if "group" in row else "",
            row["code"], *_runs(row, table), by_how_much(row, table, signed=False),
            row["unit"], "" if "group" in row else _nearer(row, table), show(row, "p_adjusted", bare_p),
        )
        for row in rows[:_NAMED]
    ]  # fmt: skip
    rest = len(rows) - _NAMED
    return Markup("; ").join([*said, *([Markup("{} more").format(count(rest))] if rest > 0 else [])])


def _rest(rows: Sequence[PlacedRow], pairs: Sequence[tuple[str, str]], table: PairTable) -> Markup:
    """Say of how many pairs of runs nothing is shown, and on how many there is no verdict."""
    codes: dict[tuple[str, str], set[str]] = {pair: set() for pair in pairs}
    for row in rows:
        codes[_runs(row, table)].add(str(row["code"]))
    left = [own for own in codes.values() if not own & {*FOUND}]
    none = sum(own <= {*NONE} for own in left)
    open_ones = len(left) - none
    parts = []
    if open_ones and len(left) < len(pairs):
        parts.append(f"{plural(open_ones, 'other pair')} not shown to differ")
    if none:
        parts.append(f"no verdict on {plural(none, 'pair')}")
    return Markup("; ".join(parts))


def _silent(rows: Sequence[PlacedRow], why: Callable[[Sequence[PlacedRow]], str]) -> Markup:
    said = why(rows)
    if any(row["code"] == "no_verdict" for row in rows):
        return Markup("No verdict: {}").format(said)
    noted = next((str(row["note"]) for row in rows if row["note"]), "")
    return Markup("No answer: {}").format(noted or said or "no two runs can be compared")


def _reasons(rows: Sequence[PlacedRow]) -> str:
    """Say why the answers on δ are open, each reason once; of those that allow no verdict the first."""
    said = list(dict.fromkeys(reason_in_words(code, row) for row in rows for code in codes_of(row)))
    return listed(said[:1] if any(row["code"] == "no_verdict" for row in rows) else said)


def _step(rows: Sequence[PlacedRow], question: str) -> Step:
    """Say what to do next: what would decide the answers that are open."""
    codes = {str(row["code"]) for row in rows}
    found = bool(codes & {*FOUND})
    # That some groups are not shown to differ is no question left open where others are.
    order = ("no_verdict", "undecided", "no_estimate", *(() if found and question != "side" else ("not_shown",)))
    worst = next((code for code in order if code in codes), "")
    open_ones = [row for row in rows if row["code"] in ((worst,) if worst else FOUND)]
    if question == "side":
        steps = [str(row["next_step"]) for row in open_ones if row["next_step"] != "nothing"]
        return Step.of(steps[0]) if steps else COMPARABLE if worst else Step.of("nothing")
    limits = [code for row in open_ones for code in codes_of(row)]
    rest = {"not_shown": Step.of("more_narratives"), "": Step.of("nothing")}
    return step_for(limits) or rest.get(worst, COMPARABLE)


def next_steps(answers: Sequence[PairAnswer]) -> Step:
    """Say what to do next, of all answers: nothing, if all are clear."""
    steps = list(dict.fromkeys(each.step for each in answers))
    left = [step for step in steps if step and step != STEPS["nothing"]]
    left = [step for step in left if not any(step in other for other in left if other != step)]
    return Step(Markup(" ").join(left[:_STEPS] or ([] if "" in steps else steps)))
