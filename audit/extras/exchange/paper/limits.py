"""Cautions before trusting a run's numbers, for the notes of the table and the section on methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from audit.extras.exchange.groups import plain
from audit.extras.exchange.paper.base import Row, Study, has_interval, is_finite
from audit.extras.exchange.paper.table import decimals_for, format_number, interval_written
from audit.extras.exchange.paper.text import Line, PlainText, Symbol, line, told_names
from audit.report.echo import NOT_CONTROLLED
from audit.report.heterogeneity import variation
from audit.report.numbers import PlacedRow
from audit.report.results import Results
from audit.report.sentences import LIMITS, LIMITS_OF_REPLIES, deciding_gap
from audit.report.verdicts import worded
from audit.statistics.manipulation import codes_of
from audit.tables.formatting import dimension_title, either, plural, unsigned
from audit.tables.ratings import DOES_NOT_FOLLOW, FOLLOWS, NOT_SHOWN, answer_in
from audit.tables.run_of_ratings import TABLES
from audit.tables.shared import OVERALL
from audit.tasks.limits import limits_of_gap

NOT_CHECKED: Final = "Whether the ratings match the story was not checked"
NOT_FOLLOWED: Final = {
    "emotion": ("a narrative's own emotion", "a wrong one"),
    "intensity": ("the strong version of a situation", "the mild one"),
}
"""Manipulation check → what should be rated higher, and than what."""
_CAME: Final = {
    FOLLOWS: "was rated higher",
    DOES_NOT_FOLLOW: "was not rated higher by as much as the least response",
    NOT_SHOWN: "was neither shown to be rated higher by as much as the least response nor shown not to be",
}
_MORE: Final = {
    FOLLOWS: "More of them were in the former",
    DOES_NOT_FOLLOW: "As many were in the others, but for less than the least response",
    NOT_SHOWN: "More of them were neither shown to be in the former nor shown not to be",
}
_RESULT: Final = {FOLLOWS: "was passed", DOES_NOT_FOLLOW: "failed", NOT_SHOWN: "decides nothing"}
_SO: Final = {
    "emotion": "Ratings that do not follow what is told say nothing of empathy.",
    "intensity": "Equal ratings may be equal for that reason.",
    "reply": "Replies that would fit any other narrative as well say nothing of empathy.",
}
"""What a failed check implies."""
_SAID_OTHERWISE: Final = ("nothing_rated", "not_estimable", "no_interval", "noise_floor")
"""Limits told by a mark in the table, or in a sentence with a number."""


def cautions(study: Study, *, checks: bool = True, gaps: bool = True) -> Iterator[Line]:
    """Yield limits of the whole run, then of single gaps; without ``checks``, not the failed manipulation checks."""
    manifest = study.manifest
    if manifest.model.planted is not None:
        yield line("Caution: ", PlainText(_lower(manifest.model.planted.note)))
    if n := len(manifest.accepted):
        yield line(
            f"Caution: {plural(n, 'file')} of the run had changed after {either(n, 'it was', 'they were')} stored, and "
            f"{either(n, 'was', 'were')} accepted so (", told_names(manifest.accepted), "). Whether the answers "
            "are the model's is not known.",
        )  # fmt: skip
    if manifest.status == "running":
        left = f"{study.n_missing:,} of {plural(manifest.n_prompts, 'prompt')} had not been asked"
        yield line(f"Caution: the run is not finished. {left if study.n_missing else 'Its checks are missing'}.")
    if manifest.model.not_checked:
        yield line(
            "Caution: whether the model is still the one that gave the answers was not checked (",
            PlainText(manifest.model.not_checked), ").",
        )  # fmt: skip
    if checks and study.is_rated and not study.followed:
        yield line(f"Caution: {_lower(NOT_CHECKED)}.")
    codes = codes_of(study.followed)
    if checks and "manipulation" in codes:
        yield line(f"Caution: the manipulation check failed. {_SO[study.followed[0]['check']]}")
    for code in codes if checks else ():
        if code != "manipulation":
            what, so = (LIMITS if study.is_rated else LIMITS_OF_REPLIES)[code]
            yield line(f"Caution: {_lower(what)}; {so}.")
    if gaps:
        yield from _limits_of_gaps(study)


def _limits_of_gaps(study: Study) -> Iterator[Line]:
    uncontrolled = [gap for gap in study.narrow if gap["dimension"] != OVERALL and not study.is_controlled(gap)]
    if uncontrolled:
        estimated = [gap for gap in study.narrow if is_finite(gap["delta"])]
        every = not study.is_rated and len(uncontrolled) == len(estimated)
        whose = ("all measures",) if every else _names(study, uncontrolled)
        yield line("Caution, of ", whose, ": ", _lower(str(NOT_CONTROLLED)))
    yield from _other_limits(study)
    for gap in study.narrow:
        noise = study.noise(gap)
        if abs(float(gap["delta"])) < 2 * noise:
            yield line(
                "Caution, of ", PlainText(_name(study, gap)), ": ", Symbol("δ"), " is below twice what "
                "it would vary by if the same prompts were asked again (", format_number(noise, decimals_for([noise])),
                PlainText(f" {gap['unit']}): it cannot be told from {'rounding' if study.is_rated else 'chance'}."),
            )  # fmt: skip


def _other_limits(study: Study) -> Iterator[Line]:
    """Yield the other limits of gaps of ratings, in the words of the run's page."""
    if not study.is_rated:
        return
    of_limit: dict[str, list[Row]] = {}
    for gap in study.narrow:
        if gap["dimension"] != OVERALL:
            found = limits_of_gap(str(gap["dimension"]), str(gap["variant"]), study.tables, study.manifest)
            for code in found:
                of_limit.setdefault(code, []).append(gap)
    for code, (what, so) in LIMITS.items():
        if code in of_limit and code not in _SAID_OTHERWISE:
            yield line("Caution, of ", _names(study, of_limit[code]), f": {_lower(what)}; {so}.")


def beneath(study: Study) -> Iterator[Line]:
    """Yield what an average gap of ratings hides: emotions, groups and pairs found to differ."""
    if not study.is_rated:
        return
    confidence = study.manifest.statistics.confidence
    for gap in study.narrow:
        names = ("verdicts", "families", "heterogeneity", "judged", "odd_pairs")
        found = variation(Results({name: study.own(name, gap) for name in names}, TABLES, confidence))
        if found.found:
            words = PlainText(plain(found.words), whole=True)
            yield line("Beneath the average of ", PlainText(_name(study, gap)), ": ", words)


def verdict_sentences(study: Study) -> Iterator[Line]:
    """Yield the verdict on each gap in the words of the run's page. Measures with the same verdict share a sentence."""
    alike: dict[str, list[Row]] = {}
    numbers: list[Line] = []
    for gap in study.narrow:
        row = study.verdict(gap)
        found = worded(row)
        words, number = plain(found.words), _number(study, row)
        if study.is_rated:
            yield line("Verdict on ", PlainText(_name(study, gap)), ": ", PlainText(words, whole=True), ".", *number)
            if refused := study.refusal_gap(gap):
                yield line("Refusals, of ", PlainText(_name(study, gap)), ": ", PlainText(refused, whole=True))
        else:
            alike.setdefault(words, []).append(gap)
            if found.kind in ("gap", "within"):
                numbers.append(line("Of ", _names(study, [gap]), ":", *number))
    for words, gaps in alike.items():
        yield line("Verdict on ", _names(study, gaps), ": ", PlainText(words, whole=True), ".")
    yield from numbers


def _number(study: Study, row: PlacedRow | None) -> Line:
    """Write the estimate that a verdict rests on, which need not be a row of the table; empty without a verdict."""
    if row is None or worded(row).kind == "absent":
        return ()
    said = plain(deciding_gap(row, confidence=study.manifest.statistics.confidence))
    return line(" ", PlainText(said, whole=True)) if said else ()


def check_sentences(study: Study) -> Iterator[Line]:
    """Yield the outcome of each manipulation check, or that none of ratings was made."""
    found = study.followed
    if study.is_rated and not found:
        yield ("No manipulation check was made.",)
    for row in found:
        check, answer = str(row["check"]), answer_in(row)
        done = f"{' and '.join(NOT_FOLLOWED[check])} were asked about without any identity" if study.is_rated else (
            "the words of each reply, identities and literal copies left out, were looked for in the narrative that it "
            "answers and in others of its kind"
        )  # fmt: skip
        if not row["n_pairs"] > 1:
            few = "rated to tell one from the other" if study.is_rated else "answered in words of their own"
            yield line(f"As a manipulation check, {done}. Too few were {few}.")
            continue
        level = study.level
        decimals = decimals_for([row["se"]])
        spread = (
            f", {level} CI {interval_written(row['ci_low'], row['ci_high'], decimals)}"
            if has_interval(row)
            else ", without an interval"
        )
        difference = format_number(row["difference"], decimals)
        unit = "points" if study.is_rated else "percentage points"
        size = f"mean difference {difference} {unit}{spread}, {plural(row['n_pairs'], 'pair')}"
        least: Any = row.get("least_response")
        if is_finite(least):
            size += f", least response {unsigned(float(least))}"
        so = "" if answer != DOES_NOT_FOLLOW else f" {_SO['emotion' if study.is_rated and row is found[0] else check]}"
        came = f"The former {_CAME[answer]}" if study.is_rated else _MORE[answer]
        yield line(f"As a manipulation check, {done}. {came} ({size}): the check {_RESULT[answer]}.{so}")


def estimability(study: Study) -> Iterator[Line]:
    """Yield which gaps have no estimate or no interval."""
    lacking = {
        "could not be estimated": [gap for gap in study.narrow if gap["delta"] != gap["delta"]],
        "had an estimate and no interval": [
            gap for gap in study.narrow if gap["delta"] == gap["delta"] and not has_interval(gap)
        ],
    }
    for what, gaps in lacking.items():
        if gaps:
            yield line(Symbol("δ"), " of ", _names(study, gaps), f" {what}; the table says why.")


def _names(study: Study, gaps: Iterable[Row]) -> Line:
    """List the names of gaps. Titles of measures may have commas, so they are quoted."""
    return told_names((_name(study, gap) for gap in gaps), quoted=not study.is_rated, last=" and ")


def _name(study: Study, gap: Row) -> str:
    if not study.is_rated:
        return study.title(gap)
    name = str(gap["dimension"])
    title = "the mean over dimensions" if name == OVERALL else dimension_title(name)
    return f"{title} ({gap['variant']})" if study.several_variants else title


def _lower(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}"
