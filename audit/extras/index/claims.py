"""Claims of the literature about gaps, and the runs of a folder that bear on them.

A pair of runs bears on a claim if it differs in what the claim is about, and in nothing else that was recorded. The
difference between the two δ, narrative by narrative, is read from a comparison in the folder made of exactly these
answers. If there is none, the page says how to make it: nothing is computed here. That difference generalises over
narratives only; the direction of each gap comes from the estimate that its run's verdict rests on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from audit.comparing.tables import COMPARED_DELTAS, RUNS
from audit.errors import AuditError
from audit.runs.csv_tables import read_table
from audit.runs.manifest import ComparisonManifest
from audit.runs.store import RunFolder

FOR, AGAINST, CANNOT_TELL = "for", "against", "cannot_tell"
_OF_MODEL: Final = ("model", "path", "revision", "dtype", "quantization", "files")
_OF_PROMPT: Final = ("prompt", "wording")
_ALIKE: Final = (
    *_OF_MODEL, *_OF_PROMPT, "strategy", "leading", "narratives", "n_narratives", "texts", "elicitation", "parser",
    "answering", "asking", "seed", "scale", "identities", "language",
)  # fmt: skip
"""Settings that must be equal in both runs of a pair, except those that the claim varies."""
_RECORDED: Final = ("texts", "identities", "wording")
_LARGER: Final = 1.1  # ratio of parameters of a larger model: an extended vocabulary is no difference in size
_PLAIN: Final = "origin"  # the prompt that the others depart from


@dataclass(frozen=True)
class Entry:
    """A run in one prompt variant."""

    folder: str  # relative path from the page
    path: Path
    choices: Mapping[str, str]  # see audit.runs.differences.choices_of
    parameters: int  # of the model; 0 if unknown
    length: float  # of the scale, in points
    identity: str  # see audit.runs.differences.identity_of
    rows: Mapping[str, Mapping[str, Any]]  # dimension → row of the index


@dataclass(frozen=True)
class Claim:
    """A claim of the literature."""

    name: str  # in the table of claims
    words: str  # the claim, as a sentence
    caution: str  # what a pair that bears on it does not show
    varies: tuple[str, ...]  # settings in which the two runs of a pair may differ
    leads: Callable[[Entry, Entry], bool]  # whether the claim is about the first run, compared with the second
    sign: int  # −1 if the claim says that the gap is smaller in the first run, +1 if larger
    lacking: str  # what the runs lack if no pair bears on the claim


def _is_larger(first: Entry, second: Entry) -> bool:
    return first.parameters >= _LARGER * second.parameters > 0


def _is_stronger_persona(first: Entry, second: Entry) -> bool:
    return first.choices["prompt"].startswith("persona-") and second.choices["prompt"] == _PLAIN


def _is_coarser(first: Entry, second: Entry) -> bool:
    named = first.choices["prompt"].startswith("scale-") and second.choices["prompt"] == _PLAIN
    return named and 0 < first.length < second.length


CLAIMS: Final = (
    Claim(
        "size",
        "The gap is smaller in a larger model.",
        "Two models differ in more than their size: in what they were trained on and how, and they are two. Families "
        "of models of several sizes would tell more.",
        _OF_MODEL,
        _is_larger,
        -1,
        "no two runs are of models of known and different size that were asked alike",
    ),
    Claim(
        "persona",
        "The gap is larger under a persona prompt.",
        "Every prompt here gives the model an identity. persona-1 to persona-3 do so more strongly than origin, and "
        "are compared with it.",
        _OF_PROMPT,
        _is_stronger_persona,
        +1,
        "no two runs differ in nothing but a stronger persona (prompt=persona-1, -2 or -3 against prompt=origin)",
    ),
    Claim(
        "scale",
        "The gap is smaller on a coarse scale.",
        "Gaps on two scales are compared with each other in % of the scale.",
        (*_OF_PROMPT, "scale"),
        _is_coarser,
        -1,
        "no two runs differ in nothing but the scale (prompt=scale-10 against prompt=origin)",
    ),
)
"""Claims of the study whose design is this project's default. They are about the size of gaps, in either direction."""


@dataclass(frozen=True)
class ComparisonClaims:
    """Differences of one comparison, without those whose runs' answers have changed since."""

    folder: str  # relative path from the page
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]]  # (dimension, folder and prompt of each run) → row


def read_comparison(path: Path, name: str, entries: Sequence[Entry]) -> tuple[ComparisonClaims | None, str]:
    """Read the differences of a comparison between ``entries`` whose answers are the same; or why there are none."""
    try:
        if ComparisonManifest.read_if_there(path) is None:
            return None, "its manifest cannot be read"
        runs, compared = (
            read_table(path / "tables" / f"{each.name}.csv", each).reindex(columns=list(each))
            for each in (RUNS, COMPARED_DELTAS)
        )
    except FileNotFoundError:
        return None, ""  # runs of replies, which no claim is about
    except (OSError, ValueError, AuditError) as error:
        return None, f"cannot be read ({str(error).splitlines()[0]})"
    known: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        known.setdefault((entry.identity, entry.choices["prompt"]), []).append(entry)
    of_label = {}
    for row in runs.to_dict("records"):
        same = known.get((str(row.get("identity")), str(row.get("prompt"))), [])
        # If a run was made twice, take the folder with these answers.
        there = [one for one in same if RunFolder(one.path).ratings_sha256() == row.get("ratings")]
        if there:
            of_label[row["run"]] = there[0]
    rows: dict[tuple[Any, ...], Mapping[str, Any]] = {
        (row["dimension"], *_place(of_label[row["first"]]), *_place(of_label[row["second"]])): {
            str(name): value for name, value in row.items()
        }
        for row in compared.to_dict("records")
        if row["first"] in of_label and row["second"] in of_label
    }
    lost = len(runs) - len(of_label)
    return ComparisonClaims(
        name, rows
    ), f"{lost} of its {len(runs)} runs are not in this folder as it compared them" if lost else ""


def claim_rows(entries: Sequence[Entry], comparisons: Sequence[ComparisonClaims]) -> Iterator[dict[str, Any]]:
    """Yield a row for each claim, pair of runs that bears on it, and dimension; copies of a run are skipped."""
    entries = [first for first, *_ in with_same_answers(entries)]
    for claim in CLAIMS:
        for first, second in _pairs(claim, entries):
            for dimension in (name for name in first.rows if name in second.rows):
                yield _row(claim, dimension, first, second, comparisons)


def with_same_answers(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries, those together that are copies: of one identity, with the same answers."""
    n_of = Counter((entry.identity, entry.choices["prompt"]) for entry in entries)
    alike: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        key = (entry.identity, entry.choices["prompt"])
        answers = RunFolder(entry.path).ratings_sha256() if n_of[key] > 1 else ""
        alike.setdefault((*key, answers), []).append(entry)
    return list(alike.values())


def _pairs(claim: Claim, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    alike: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        if all(entry.choices[name] for name in _RECORDED):  # what was not recorded equals nothing else
            key = tuple(entry.choices[name] for name in _ALIKE if name not in claim.varies)
            alike.setdefault(key, []).append(entry)
    for own in alike.values():
        yield from (pair for pair in permutations(own, 2) if claim.leads(*pair))


def _row(
    claim: Claim, dimension: str, first: Entry, second: Entry, comparisons: Sequence[ComparisonClaims]
) -> dict[str, Any]:
    found, row, flipped = _difference(dimension, first, second, comparisons)
    known: dict[str, Any] = {
        "claim": claim.name, "dimension": dimension, "first": first.folder, "second": second.folder,
        "comparison": found, "unit": str(row.get("unit", "")), "flipped": flipped,
    }  # fmt: skip
    names = ("delta_first", "delta_second", "delta_change", "ci_low", "ci_high", "n_narratives")
    numbers = {name: float(row.get(name, math.nan)) for name in names}
    if flipped:
        numbers |= {
            "delta_first": numbers["delta_second"], "delta_second": numbers["delta_first"],
            "delta_change": -numbers["delta_change"],
            "ci_low": -numbers["ci_high"], "ci_high": -numbers["ci_low"],
        }  # fmt: skip
    said, why = _said(claim, numbers, {**row, "comparison": found}, (first, second), dimension)
    return {**known, **numbers, "says": said, "why": why}


def _difference(
    dimension: str, first: Entry, second: Entry, comparisons: Sequence[ComparisonClaims]
) -> tuple[str, Mapping[str, Any], bool]:
    """Find a pair of runs in the comparisons: folder, row, and whether the row has them in reverse order."""
    for compared in comparisons:
        for pair, flipped in (((first, second), False), ((second, first), True)):
            row = compared.rows.get((dimension, *_place(pair[0]), *_place(pair[1])))
            if row is not None:
                return compared.folder, row, flipped
    return "", {}, False


def _said(
    claim: Claim, numbers: Mapping[str, float], row: Mapping[str, Any], pair: tuple[Entry, Entry], dimension: str
) -> tuple[str, str]:
    """Return what a pair says about a claim, and why it cannot tell.

    Notes
    -----
    |δ₁| < |δ₂| holds if δ₂ − δ₁ and δ₂ + δ₁ have the sign of δ₂. The comparison has an interval of the former. That of
    the latter is no wider than the two gaps' own intervals added, whatever they have in common.
    """
    for each in (entry.rows[dimension] for entry in pair):
        if not each["verdict"]:
            return CANNOT_TELL, f"{each['folder']}: the model was given no group's identity, so there is no δ"
        if each["verdict"] == "absent":
            return CANNOT_TELL, f"{each['folder']}: {each['verdict_words']}"
        if each["manipulation"] == "not shown":
            return CANNOT_TELL, f"{each['folder']}: its ratings were not shown to follow the story"
    if not row:
        return CANNOT_TELL, "no comparison in this folder has the difference"
    low, high = numbers["ci_low"], numbers["ci_high"]
    if not (math.isfinite(low) and math.isfinite(high)):
        return CANNOT_TELL, str(row.get("note") or "the difference has no interval")
    if row.get("scope") not in ("groups", "pairs") or row.get("code") in ("", None):
        return CANNOT_TELL, "an earlier version compared the two, over narratives alone: compare them anew"
    if not numbers["delta_first"] * numbers["delta_second"] > 0:
        return (
            CANNOT_TELL,
            "the two gaps go different ways, and which is the smaller is no question of their difference",
        )
    for entry, name in zip(pair, ("delta_first", "delta_second"), strict=True):
        if not float(entry.rows[dimension]["delta"]) * numbers[name] > 0:
            return (
                CANNOT_TELL,
                f"{entry.folder}: the gap that its verdict rests on goes another way than the one compared",
            )
    if low <= 0.0 <= high:
        return CANNOT_TELL, "the interval of the difference holds 0"
    if row["code"] not in ("lower", "higher"):  # what the comparison does not show is no evidence here
        left = "not shown after correction" if row["code"] == "not_shown" else "left undecided"
        return CANNOT_TELL, f"in {row['comparison']}, the difference is {left}"
    if not _one_way(pair, dimension):
        return CANNOT_TELL, "which way the two gaps go is not certain enough to say which of them is the smaller"
    grows = (low > 0) == (numbers["delta_second"] > 0)
    return (FOR if grows == (claim.sign > 0) else AGAINST), ""


def _one_way(pair: tuple[Entry, Entry], dimension: str) -> bool:
    """Tell whether two gaps, as shares of their scales, have one direction: the interval of their sum excludes 0."""
    low, high = (
        math.fsum(float(entry.rows[dimension][end]) / entry.length for entry in pair) for end in ("ci_low", "ci_high")
    )
    return low > 0 or high < 0


def _place(entry: Entry) -> tuple[str, str]:
    return entry.folder, entry.choices["prompt"]
