"""The first screen of an index: in a sentence what its runs found, and what would decide most of what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from audit.errors import command_line, report_command
from audit.report.verdicts import STEPS
from audit.tables.formatting import first_few, listed
from audit.tasks.outcome import asked_before

_FOUND: Final = ("gap", "within")
_RULED_OUT: Final = ("none", "average")
_SILENT: Final = ("", "absent")
_WEAK: Final = {
    ("uncontrolled", "claim"): "which repeated words alone could cause",
    ("pairs", "claim"): "in these words alone",
}
_WEAK_LESS: Final = {
    ("words", "less_claim"): "in these words alone",
    ("observational", "less_claim"): "in observational data",
}
"""What the claims of rows, and their columns, leave of a finding."""
_HERE: Final = " In this page's folder:"  # where commands find the folders that they name
_COMPARED: Final = 12  # most runs of a command
_NAMED: Final = 2  # most runs that the sentence names
_Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class IndexStep:
    """What to do next, and the commands that do it, run by run."""

    words: str
    commands: tuple[str, ...] = ()


def runs_of(rows: Sequence[_Row]) -> dict[str, list[_Row]]:
    """Return the rows that have an answer, by the run's folder."""
    runs: dict[str, list[_Row]] = {}
    for row in rows:
        if row["state"] == "gap":
            runs.setdefault(str(row["folder"]), []).append(row)
    return runs


def answer_in_words(rows: Sequence[_Row]) -> str:
    """Say how many runs found what, by their own pages, and which if they are few; empty if none has an answer."""
    runs = runs_of(rows)
    if not runs:
        return ""
    said, n = list(_found(runs)), len(runs)
    n_silent = sum(map(_is_silent, runs.values()))
    if n == 1:
        nothing = ["found no gap, and no group that gets less or more than the others"]
        return f"This run {'cannot be judged' if n_silent else listed(said or nothing)}."
    if n_silent == n:
        return f"None of {n} runs can be judged."
    silent = [f"{n_silent} cannot be judged"] if n_silent else []
    if said:
        return f"Of {n} runs, {'; '.join([*said, *silent])}."
    none = f"None of {n} runs found a gap, or a group that gets less or more than the others"
    return f"{'; '.join([none, *silent])}."


def _found(runs: Mapping[str, Sequence[_Row]]) -> Iterator[str]:
    """Yield how many runs found a gap, a group that gets less, one that is refused more, or ruled a gap out."""
    for column, words, claims in (
        ("verdict", "found a gap between the model's own group and others", _WEAK),
        ("less", "found a group that gets less or more than the others", _WEAK_LESS),
    ):
        found = {name: own for name, run in runs.items() if (own := [row for row in run if row[column] in _FOUND])}
        doubts = [
            but if n == len(found) else f"{but} in {n} of them"
            for (claim, name), but in claims.items()
            if (n := sum(all(row[name] == claim for row in own) for own in found.values()))
        ]
        if found:
            yield _counted([*found], runs, words) + (f" ({'; '.join(doubts)})" if doubts else "")
    if refused := [name for name, run in runs.items() if any(row["refused_words"] for row in run)]:
        yield _counted(refused, runs, "found a group that is refused more than the others")
    ruled_out = [
        name
        for name, run in runs.items()
        if (told := {str(row["verdict"]) for row in run} - {""}) and told <= {*_RULED_OUT}
    ]
    if ruled_out:
        yield _counted(ruled_out, runs, "found no average gap larger than its margin")


def _is_silent(run: Sequence[_Row]) -> bool:
    return all(row["verdict"] in _SILENT and row["less"] in _SILENT and not row["refused_words"] for row in run)


def _counted(found: Sequence[str], runs: Collection[str], words: str) -> str:
    if len(runs) == 1:
        return words
    named = f" ({listed(found)})" if len(found) <= _NAMED else ""
    return f"{len(found)}{named} {words}"


def next_of_runs(rows: Sequence[_Row], *, compared: bool, run_dir: str) -> IndexStep:
    """Say what to do next: what would decide most runs that leave a question open; if none does, compare them.

    ``compared`` says whether there is a comparison already; ``run_dir`` is where one would be made.
    """
    runs = runs_of(rows)
    steps = {run: _step(own) for run, own in runs.items()}
    left = Counter(step for step in steps.values() if step and step != STEPS["nothing"])
    if left:
        [(step, n)] = left.most_common(1)
        own = [run for run in runs if steps[run] == step]
        left_rows = [row for run in own for row in runs[run] if row["next_step"] == step]
        commands = [
            row["next_command"] for row in left_rows
            if step != STEPS["other_model"] or not asked_before(str(row["next_command"]), row, rows)
        ]  # fmt: skip
        named = first_few(own, _NAMED if n <= _NAMED else 1)
        where = f" ({n} of {len(runs)} runs: {named})" if len(runs) > 1 else ""
        made = tuple(dict.fromkeys(filter(None, map(str, commands))))
        place = _HERE if any(each.startswith((command_line("report"), command_line("gate"))) for each in made) else ""
        return IndexStep(f"{step}{where}{place}", made)
    if not all(steps.values()) or not steps:
        return IndexStep("")
    alike = _comparable(rows)
    if compared or not alike:
        return IndexStep(STEPS["nothing"])
    words = "Compare the runs that asked alike: only their difference tells whether two differ."
    return IndexStep(words + _HERE, (report_command(*alike[:_COMPARED], run_dir=run_dir),))


def _step(run: Sequence[_Row]) -> str:
    """Return what would decide most of a run's open answers; empty if that is not known."""
    steps = Counter(str(row["next_step"]) for row in run if row["next_step"])
    left = Counter({step: n for step, n in steps.items() if step != STEPS["nothing"]})
    return next((step for step, _ in (left or steps).most_common(1)), "")


def _comparable(rows: Sequence[_Row]) -> list[str]:
    """Return the folders of the first group with gaps of several runs."""
    groups: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["state"] == "gap":
            groups.setdefault(str(row["group"]), {})[str(row["folder"])] = None
    return next((list(folders) for folders in groups.values() if len(folders) > 1), [])
