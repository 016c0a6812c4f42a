"""Differences between runs in words, by the codes that their tables store: which run, how much, how sure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Final

from markupsafe import Markup

from audit.report.disparities import because, limit_in_words, step_for
from audit.report.numbers import PlacedRow, rounded, show, unbroken
from audit.report.summary import LESS, REFUSED_MORE, ShortAnswer
from audit.report.verdicts import CLAIMED_PLAINLY, NO_STEP, Step, is_of_measure, reason_in_words, step_of
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
from audit.tables.shared import OVERALL

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
_RATINGS: Final = "intensity"  # the outcome of tables that have no such column
SIDES: Final = "how the model takes sides"
_LESS: Final = "who gets less"
_REFUSED: Final = "whom they refuse more"
_WRITTEN: Final = "what the model writes to its own group"
"""What runs may differ in, in everyday words."""
_CLAIMED: Final = CLAIMED_PLAINLY | {"words": ", in these words"}
_NAMED: Final = 3
_JOINT: Final = ", "  # between the parts of a run's label


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
    # The upper ends of the intervals that the runs' own verdicts rest on, by outcome, dimension and run.
    highs: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    def beside(self, verdicts: Sequence[PlacedRow]) -> PairTable:
        """Return the same, beside the runs' own verdicts."""
        highs = {
            (str(row["outcome"]), str(row["dimension"]), str(row["run"])): row.number("ci_high") for row in verdicts
        }
        return replace(self, highs=highs)


DELTAS: Final = PairTable()
STRATEGY_CHANGES: Final = PairTable("delta_change", "run", "reference", "change_low", "change_high", "delta", "")
MEASURE_CHANGES: Final = PairTable("delta_change", "run", "reference", of_first="delta", of_second="reference_delta")
GROUPS: Final = PairTable("disparity_change", of_first="disparity_first", of_second="disparity_second", sign="D")


@dataclass(frozen=True)
class PairAnswer:
    """An answer on differences between runs, with what to do next; empty if that is not known."""

    short: ShortAnswer
    step: Step = NO_STEP
    differ_in: str = ""  # what the runs may differ in, in everyday words
    found: str = ""  # the difference in everyday words; empty if none is shown
    why: str = ""  # why that is open; empty if a difference is found, or not shown


def headline(answers: Sequence[PairAnswer]) -> Markup:
    """Answer in everyday words whether the runs differ, what was found first."""
    answers = [each for each in answers if each.short.title != dimension_title(OVERALL)]
    n_dimensions = len({each.short.title for each in answers})
    said, left = [], []
    for differ_in in dict.fromkeys(each.differ_in for each in answers):
        own = [each for each in answers if each.differ_in == differ_in]
        if found := [each for each in own if each.found]:
            where = Markup("<bdi>{}</bdi>: ").format(found[0].short.title) if n_dimensions > 1 else Markup("")
            said.append(where + found[0].found)
            if rest := found[1:]:
                other = Markup("<bdi>{}</bdi>, too").format(rest[0].short.title)
                elsewhere = other if len(rest) == 1 else f"{len(rest)} other dimensions, too, see below"
                said.append(Markup("Runs differ in {} in {}.").format(differ_in, elsewhere))
        else:
            left.append(own)
    # Beside a difference in one of several dimensions, that another question has no answer is told below.
    return Markup(" ").join([*said, *(() if said and n_dimensions > 1 else _none_found(left, n_dimensions))])


def _none_found(questions: Sequence[Sequence[PairAnswer]], n_dimensions: int) -> Iterator[Markup]:
    """Yield what is said of questions for which no difference is found, those with the same reason together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for own in questions:
        kinds, whys = {each.short.kind for each in own}, list(dict.fromkeys(each.why for each in own))
        # That a run could not be judged is told only if none could: else it was looked for.
        kind = kinds.pop() if len(kinds) == 1 else "undecided"
        why = whys[0] if kind == "absent" or len(whys) == 1 else ""
        alike.setdefault((kind, why), []).append(own[0].differ_in)
    for (kind, why), names in alike.items():
        differ_in = " or in ".join(names)
        where = f", in any of {n_dimensions} dimensions" if n_dimensions > 1 and kind != "absent" else ""
        if kind == "absent":
            yield Markup("We cannot tell whether these runs differ in {}: {}.").format(differ_in, why)
        elif why:
            yield Markup("We cannot tell yet whether these runs differ in {}{}: {}.").format(differ_in, where, why)
        else:
            yield Markup("No difference between these runs is shown in {}{}.").format(differ_in, where)


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
    rows: Sequence[PlacedRow], verdicts: Sequence[PlacedRow], *, dimension: str, tail: str, confidence: float
) -> PairAnswer:
    """Say of one dimension between which runs δ differs; ``verdicts`` are the runs' own."""
    title, table = dimension_title(dimension), DELTAS.beside(verdicts)

    def told(row: PlacedRow) -> Markup:
        return Markup("The gap{} is {} {}{}").format(
            CLAIMS[str(row["claim"])], row["code"], _in_runs(row, table), _nearer(row, table)
        )

    def plain(row: PlacedRow) -> Markup:
        return _plain_change(row, table, _in_runs(row, table))

    return _answer(
        rows, table, title=title, tail=tail, question="side", told=told, plain=plain, what="their gap",
        differ_in=SIDES, confidence=confidence, why=_reasons,
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
        return Markup("<bdi>{}</bdi> {} {}, compared with the other groups, {}{}").format(
            brief(str(row["group"])), verb, how, _in_runs(row, GROUPS), words
        )

    return _answer(
        rows, GROUPS, title=dimension_title(dimension), tail=REFUSED_MORE if refused else LESS,
        question="refused" if refused else "less", told=told, plain=told,
        what=_REFUSED if refused else _LESS, differ_in=_REFUSED if refused else _LESS, confidence=confidence,
        why=because,
    )  # fmt: skip


def measure_answer(
    rows: Sequence[PlacedRow],
    titles: Mapping[str, str],
    verdicts: Sequence[PlacedRow],
    *,
    dimension: str,
    tail: str,
    confidence: float,
) -> PairAnswer:
    """Say of one dimension in which measures of texts δ differs from the reference run's."""
    table, title = MEASURE_CHANGES.beside(verdicts), dimension_title(dimension)
    made = partial(ShortAnswer, title, tail=tail, question="side")
    found = sorted(largest_first(rows, table), key=lambda row: row.number("p"))
    answered = partial(PairAnswer, step=_step(rows, "side"), differ_in=_WRITTEN)
    tested = [row for row in rows if row["code"] not in NONE]
    if len(found) == 1:
        [row] = found
        words = Markup("The gap{} in {} is {} {}{}").format(
            CLAIMS[str(row["claim"])], titles[str(row["outcome"])], row["code"], _in_runs(row, table),
            _nearer(row, table),
        )  # fmt: skip
        spread = Markup("{}; of {}").format(how_sure(row, table, confidence=confidence), plural(len(tested), "test"))
        return answered(
            made(words, number=by_how_much(row, table), unit=f" {row['unit']}", spread=spread, kind="gap", weight=1.0),
            found=Markup("{} for the model's own group, compared with others, is {} {}{}.").format(
                titles[str(row["outcome"])], row["code"], _in_runs(row, table), CLAIMED_PLAINLY[str(row["claim"])]
            ),
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
        short = made(words, spread=Markup("; ").join([*named, *rest]), kind="gap", weight=len(found))
        return answered(short, found=words + ".")
    if not tested:
        return answered(made(_silent(rows, _reasons), kind="absent"), why=_why_silent(rows, _reasons))
    undecided = [row for row in tested if row["code"] == "undecided"]
    spread = Markup("{} tested, of {}").format(plural(len(tested), "change"), count(len(rows)))
    if undecided:
        spread += Markup("; {} undecided: {}").format(count(len(undecided)), _reasons(undecided))
    return answered(
        made("No change of a gap is shown in any measure", spread=spread, kind="undecided"),
        why=_main_reason(undecided) if len(undecided) == len(tested) else "",
    )


def strategy_answer(
    rows: Sequence[PlacedRow],
    names: Mapping[str, str],
    verdicts: Sequence[PlacedRow],
    *,
    tail: str,
    confidence: float,
) -> PairAnswer:
    """Say of one dimension what each strategy changes, against the run without; ``rows`` have that run, too."""
    table = STRATEGY_CHANGES.beside(verdicts)
    own = [row for row in rows if row["code"]]
    title = dimension_title(str(rows[0]["dimension"]))
    made = partial(ShortAnswer, title, tail=tail, question="side")
    answered = partial(PairAnswer, step=_step(own, "side"), differ_in=SIDES)
    found = largest_first(own, table)
    if all(row["code"] in NONE for row in own):
        return answered(made(_silent(own, _reasons), kind="absent"), why=_why_silent(own, _reasons))

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
        [row] = references
        left.append(Markup("δ without a strategy: {} {}").format(show(row, "delta", points), row["unit"]))
    rest = Markup(". ").join(left)
    if len(own) == 1 and found:
        [row] = found
        words = Markup("The gap{} is {} under <bdi>{}</bdi> than without{}").format(
            CLAIMS[str(row["claim"])], row["code"], names[str(row["run"])], _nearer(row, table)
        )
        spread = Markup("{}; {}").format(how_sure(row, table, confidence=confidence), rest)
        return answered(
            made(words, number=by_how_much(row, table), unit=f" {row['unit']}", spread=spread, kind="gap", weight=1),
            found=_plain_change(row, table, Markup("under <bdi>{}</bdi> than without").format(names[str(row["run"])]))
            + ".",
        )
    undecided = [row for row in own if row["code"] == "undecided"]
    if undecided and all(row["code"] in ("undecided", *NONE) for row in own):
        words = Markup("Undecided: {}").format(_reasons(undecided))
        return answered(made(words, spread=rest, kind="undecided"), why=_main_reason(undecided))
    if not found:
        which = "No strategy is" if len(own) > 1 else Markup("<bdi>{}</bdi> is not").format(names[str(own[0]["run"])])
        return answered(made(Markup("{} shown to change the gap").format(which), spread=rest, kind="undecided"))
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
    plain = Markup("{} of {} strategies change {}{}.").format(
        count(len(found)), count(len(own)), SIDES, _claimed_alike(found)
    )
    return answered(made(words, spread=rest, kind="gap", weight=len(found)), found=plain)


def _answer(
    rows: Sequence[PlacedRow],
    table: PairTable,
    *,
    title: str,
    tail: str,
    question: str,
    told: Callable[[PlacedRow], Markup],
    plain: Callable[[PlacedRow], Markup],  # the same in everyday words
    what: str,
    differ_in: str,  # the same
    confidence: float,
    why: Callable[[Sequence[PlacedRow]], str],
) -> PairAnswer:
    found = largest_first(rows, table)
    pairs = list(dict.fromkeys(_runs(row, table) for row in rows))
    made = partial(ShortAnswer, title, tail=tail, question=question)
    answered = partial(PairAnswer, step=_step(rows, question), differ_in=differ_in)
    if len(found) == 1 or (found and len(pairs) == 1):
        row, *others = found
        more = Markup("; also: {}").format(_few(others, table)) if others else Markup("")
        rest = _rest(rows, pairs, table) if len(pairs) > 1 else Markup("")
        return answered(
            made(
                told(row) + (rest and Markup("; {}").format(rest)), number=by_how_much(row, table),
                unit=f" {row['unit']}", spread=how_sure(row, table, confidence=confidence) + more, kind="gap",
                weight=len(found),
            ),
            found=plain(row) + ".",
        )  # fmt: skip
    if found:
        differing = {_runs(row, table) for row in found}
        words = Markup("{} of {} pairs of runs differ in {}").format(count(len(differing)), count(len(pairs)), "{}")
        return answered(
            made(words.format(what), spread=_few(found, table), kind="gap", weight=len(found)),
            found=words.format(differ_in) + _claimed_alike(found) + ".",
        )
    told_apart = [row for row in rows if row["code"] not in NONE]
    if not told_apart:
        return answered(made(_silent(rows, why), kind="absent"), why=_why_silent(rows, why))
    undecided = [row for row in told_apart if row["code"] == "undecided"]
    if len(undecided) == len(told_apart):
        return answered(
            made(Markup("Undecided: {}").format(why(undecided)), kind="undecided"), why=_main_reason(undecided)
        )
    which = Markup("<bdi>{}</bdi> and <bdi>{}</bdi> are").format(*pairs[0]) if len(pairs) == 1 else "No two runs are"
    lead = "not " if len(pairs) == 1 else ""
    # Of many pairs, the title says what they would differ in if the page has two questions.
    differ = "differ" if tail and len(pairs) > 1 else f"differ in {what}"
    words = Markup("{} {}shown to {}").format(which, lead, differ)
    if len(pairs) > 1 and (rest := _rest(rows, pairs, table)):
        words += Markup("; {}").format(rest)
    far = max(told_apart, key=lambda row: _reach(row, table))
    spread = Markup("")
    if math.isfinite(_reach(far, table)):
        size = rounded(far, table.low, table.high, signed=False)
        end = table.low if -far.number(table.low) > far.number(table.high) else table.high
        spread = Markup("May differ by up to {} {} ({} interval; {} in both runs)").format(
            show(far, end, lambda value: size(abs(value))), far["unit"], coverage(confidence),
            show(far, "n_narratives", lambda n: plural(n, "narrative")),
        )  # fmt: skip
        if any("missing" in codes_of(row) for row in told_apart):
            spread += Markup("; by more where ratings are missing")
    return answered(made(words, spread=spread, kind="undecided"))


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
    """Say which way 0 is if both gaps are shown to be towards the out-group: the lower one of these is the larger."""
    first, second = _own(row, table)
    place = str(row["outcome"]) if "outcome" in row else _RATINGS, str(row["dimension"])
    own = [table.highs.get((*place, str(row[name])), math.nan) for name in (table.first, table.second)]
    # Where one of the two may be on the other side of 0, which is the larger is no question of their difference.
    if not (max(first, second) < 0 and all(high < 0 for high in own)):
        return ""
    return ", farther from 0" if row["code"] == "lower" else ", nearer to 0"


def _own(row: PlacedRow, table: PairTable) -> tuple[float, float]:
    """Return what is compared, of either run."""
    first = row.number(table.of_first)
    return first, row.number(table.of_second) if table.of_second else first - row.number(table.change)


def _across(row: PlacedRow, table: PairTable, run: str) -> Markup:
    """Give both runs' own numbers, that of ``run`` first, if 0 lies between them: their difference alone hides that."""
    own = _own(row, table)
    if not min(own) < 0 < max(own):
        return Markup("")
    write = rounded(row, table.low, table.high)
    shown = [write(each) for each in (own if run == _runs(row, table)[0] else own[::-1])]
    return Markup("{} {} and {}; ").format(table.sign, *shown)


def _runs(row: PlacedRow, table: PairTable) -> tuple[str, str]:
    return brief(str(row[table.first])), brief(str(row[table.second]))


def _in_runs(row: PlacedRow, table: PairTable) -> Markup:
    """Name the two runs of a difference: what their labels begin with in common stands once."""
    first, second = _runs(row, table)
    both = zip(first.split(_JOINT), second.split(_JOINT), strict=False)
    common = _JOINT.join(one for one, _ in takewhile(lambda parts: parts[0] == parts[1], both))
    if common and all(label.startswith(common + _JOINT) for label in (first, second)):
        rest = (label.removeprefix(common + _JOINT) for label in (first, second))
        return Markup("in <bdi>{}</bdi> with <bdi>{}</bdi> than with <bdi>{}</bdi>").format(common, *rest)
    return Markup("in <bdi>{}</bdi> than in <bdi>{}</bdi>").format(first, second)


def _reach(row: PlacedRow, table: PairTable) -> float:
    ends = [abs(row.number(name)) for name in (table.low, table.high)]
    return max(ends) if all(map(math.isfinite, ends)) else -math.inf


def _few(rows: Sequence[PlacedRow], table: PairTable) -> Markup:
    """Name the first differences, and how many more there are; a run that all have in common is named once."""
    named = rows[:_NAMED]
    shared = _shared_run(named, table)
    if shared and not any("group" in row or _nearer(row, table) for row in named):
        code, run, others = shared
        than = [
            Markup("in <bdi>{}</bdi> by {}").format(other, _size_and_p(row, table, run))
            for other, row in zip(others, named, strict=True)
        ]
        said = [Markup("{} in <bdi>{}</bdi> than {}").format(code, run, Markup(", ").join(than))]
    else:
        said = [
            Markup("{}{} {} by {}").format(
                Markup("<bdi>{}</bdi>: ").format(brief(str(row["group"]))) if "group" in row else "",
                row["code"], _in_runs(row, table), _size_and_p(row, table, _runs(row, table)[0]),
            )
            for row in named
        ]  # fmt: skip
    rest = len(rows) - _NAMED
    return Markup("; ").join([*said, *([Markup("{} more").format(count(rest))] if rest > 0 else [])])


def _size_and_p(row: PlacedRow, table: PairTable, run: str) -> Markup:
    return Markup("{} {}{} ({}p {})").format(
        by_how_much(row, table, signed=False), row["unit"], "" if "group" in row else _nearer(row, table),
        _across(row, table, run), show(row, "p_adjusted", bare_p),
    )  # fmt: skip


def _shared_run(rows: Sequence[PlacedRow], table: PairTable) -> tuple[str, str, list[str]] | None:
    """Return whether one run is lower or higher than all others that the rows name, that run, and those others."""
    if len(rows) < 2:
        return None
    seen = []  # each row from either of its runs
    for row in rows:
        (first, second), code = _runs(row, table), str(row["code"])
        other_way = FOUND[1 - FOUND.index(code)]
        seen.append({(code, first): second, (other_way, second): first})
    common = [side for side in seen[0] if all(side in each for each in seen)]
    return (*common[0], [each[common[0]] for each in seen]) if common else None


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


def _plain_change(row: PlacedRow, table: PairTable, where: Markup) -> Markup:
    """Tell a change of δ in everyday words; ``where`` names the two runs."""
    return Markup("Compared with others, people of the model's own group are rated {} {} {} {}{}").format(
        by_how_much(row, table, signed=False), row["unit"], row["code"], where, CLAIMED_PLAINLY[str(row["claim"])]
    )


def _claimed_alike(rows: Sequence[PlacedRow]) -> str:
    """Qualify differences that are counted, if one claim holds for all."""
    claims = {str(row["claim"]) for row in rows}
    return _CLAIMED.get(claims.pop(), "") if len(claims) == 1 else ""


def _silent(rows: Sequence[PlacedRow], why: Callable[[Sequence[PlacedRow]], str]) -> Markup:
    start = "No verdict" if any(row["code"] == "no_verdict" for row in rows) else "No answer"
    return Markup("{}: {}").format(start, _why_silent(rows, why))


def _why_silent(rows: Sequence[PlacedRow], why: Callable[[Sequence[PlacedRow]], str]) -> str:
    """Say why no pair of runs has an answer."""
    if any(row["code"] == "no_verdict" for row in rows):
        return why(rows)
    noted = next((str(row["note"]) for row in rows if row["note"]), "")
    return noted or why(rows) or "no two runs can be compared"


def _reasons(rows: Sequence[PlacedRow]) -> str:
    """Say why the answers on δ are open, each reason once; of those that allow no verdict the first."""
    said = list(dict.fromkeys(reason_in_words(code, row) for row in rows for code in codes_of(row)))
    return listed(said[:1] if any(row["code"] == "no_verdict" for row in rows) else said)


def _main_reason(rows: Sequence[PlacedRow]) -> str:
    """Say what limits most of the answers, those on groups too."""
    counted = Counter(code for row in rows for code in codes_of(row))
    code = next((code for code, _ in counted.most_common(1)), "")
    return code and (limit_in_words if "group" in rows[0] else reason_in_words)(code, rows[0])


def _step(rows: Sequence[PlacedRow], question: str) -> Step:
    """Say what to do next: what would decide the answers that are open."""
    codes = {str(row["code"]) for row in rows}
    found = bool(codes & {*FOUND})
    # That some groups are not shown to differ is no question left open where others are.
    order = ("no_verdict", "undecided", "no_estimate", *(() if found and question != "side" else ("not_shown",)))
    worst = next((code for code in order if code in codes), "")
    open_ones = [row for row in rows if row["code"] in ((worst,) if worst else FOUND)]
    # Where the runs share narratives but their difference has no spread, none of our steps helps.
    comparable = NO_STEP if any(row.number("n_narratives") > 1 for row in open_ones) else COMPARABLE
    if question == "side":
        steps = [step_of(row) for row in open_ones if row["next_step"] != "nothing"]
        return steps[0] if steps else comparable if worst else Step.of("nothing")
    limits = [code for row in open_ones for code in codes_of(row)]
    rest = {"not_shown": Step.of("more_narratives"), "": Step.of("nothing")}
    of_measure = is_of_measure(rows[0]) and rows[0]["outcome"] != REFUSALS
    return step_for(limits, of_measure=of_measure) or rest.get(worst, comparable)


def next_step(answers: Sequence[PairAnswer]) -> Step:
    """Say what to do next: what would decide most of the answers that are open; nothing, if all are clear."""
    steps = [each.step for each in answers]
    left = [step for step in steps if step and step.code != "nothing"]
    if left:
        return max(left, key=left.count)
    return Step.of("nothing") if all(steps) else NO_STEP
