"""Runs of a series: where each stands in the order, whether they were asked the same, and their gaps along it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.errors import ConfigError
from audit.runs.manifest import Manifest
from audit.runs.model_names import parameters_in
from audit.tables.disparity import REFUSALS
from audit.tables.formatting import encodable
from audit.tables.shared import OVERALL
from stimuli.errors import suggest
from stimuli.tables import read_cells, read_numbers

if TYPE_CHECKING:
    from audit.comparing.run_gaps import RatingGaps
    from audit.statistics.deciding_estimate import DecidedGap
    from audit.statistics.series import SeriesPoint, SeriesTables

WORDS: Final = ("order", "size")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_SHARED: Final = {
    "dimensions": "the dimensions",
    "identities": "the identities",
    "prompt": "the prompt",
    "wording": "the wording of the prompt",
    "language": "the language",
    "strategy": "the strategy",
    "leading": "the strategy",
    "elicitation": "how a rating is got",
    "scale": "the scale",
}
"""What runs of a series share, besides their narratives: choices of :func:`audit.runs.differences.choices_of`."""
DAY: Final = "day"
PER: Final = {"order": "step to the next run", "size": "doubling of the number of parameters"}


@dataclass(frozen=True)
class RunPositions:
    """Where each run of a series stands."""

    by: str  # order, size, or the file that says it
    per: str  # what a trend is for one of: a step to the next run, a doubling, a unit, a day
    positions: Mapping[str, float]  # by folder, as it was given

    def content(self) -> dict[str, Any]:
        """Return it for a manifest."""
        return {"by": encodable(self.by), "per": self.per, "positions": list(self.positions.values())}

    @classmethod
    def again(cls, content: Any, folders: Sequence[Path]) -> RunPositions | None:
        """Return what a manifest recorded, for the same folders; None without a series."""
        if not isinstance(content, Mapping):
            return None
        numbers = content.get("positions")
        known = numbers if isinstance(numbers, list) and len(numbers) == len(folders) else []
        if not known or not all(isinstance(each, int | float) and math.isfinite(each) for each in known):
            raise ConfigError("its series does not have a position for each of its runs")
        return cls(str(content.get("by")), str(content.get("per")), dict(zip(map(str, folders), known, strict=True)))


def positions_of(series: str, manifests: Mapping[Path, Manifest]) -> RunPositions:
    """Place runs as ``series=`` says: ``order``, ``size`` or a table of positions; ConfigError if that cannot be."""
    from audit.statistics.series import positions_fault

    named = f"series={series}"
    folders = list(manifests)
    if series == "order":
        found = RunPositions(series, PER[series], {str(folder): float(n) for n, folder in enumerate(folders, 1)})
    elif series == "size":
        found = RunPositions(series, PER[series], {str(folder): _doublings(folder, manifests) for folder in folders})
    elif not Path(series).is_file():
        near = suggest(series, WORDS).partition("there are: ")[0].strip()
        raise ConfigError(
            f"{named}: must be order, size or a table with the columns run and position, and there is no file of that "
            f"name{f'; {near}' if near else ''}"
        )
    else:
        found = _positions_in(Path(series), folders)
    if fault := positions_fault(list(found.positions.values())):
        raise ConfigError(f"{named}: {fault}; give more runs, or leave out series=")
    return found


def _doublings(folder: Path, manifests: Mapping[Path, Manifest]) -> float:
    """Return the base-2 logarithm of the number of parameters, as recorded, or as the model's name has it."""
    model = manifests[folder].model
    n = model.parameters or parameters_in(model.name_asked)
    if not n:
        raise ConfigError(
            f"series=size: {folder} does not say how many parameters its model {model.name_asked!r} has, in its "
            "manifest or in the model's name; give series=order, or series=FILE with the columns run and position"
        )
    return math.log2(n)


def _positions_in(path: Path, folders: Sequence[Path]) -> RunPositions:
    """Read each run's position, a number or a date, from a table with the columns ``run`` and ``position``."""
    rows = read_cells(path, {"run": "run", "position": "position"}, of="positions of runs")
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        own = [(place, row["position"]) for place, row in rows if _is_of(row["run"], folder)]
        if not own:
            raise ConfigError(f"{path}: has no position for {folder}; add a row with its folder in the column run")
        if len(own) > 1:
            raise ConfigError(f"{own[1][0]}: {folder} has a position already, {own[0][1]}; keep one")
        found[str(folder)] = own[0]
    cells = [cell for _, cell in found.values()]
    if all(_DATE.fullmatch(cell) for cell in cells):
        per, numbers = DAY, [_day(place, cell) for place, cell in found.values()]
    else:
        per = "unit of position"
        numbers, wrong = read_numbers(cells)
        bad = [place for place, number in enumerate(numbers) if math.isnan(number)] or wrong
        if bad:
            place, cell = list(found.values())[bad[0]]
            raise ConfigError(
                f"{place}: position {cell!r} must be a number, or like those of all runs a date such as 2026-11-27"
            )
    return RunPositions(str(path), per, dict(zip(found, numbers, strict=True)))


def _is_of(cell: str, folder: Path) -> bool:
    return cell == folder.name or Path(cell).resolve() == folder.resolve()


def _day(place: str, cell: str) -> float:
    try:
        return float(date.fromisoformat(cell).toordinal())
    except ValueError as error:
        raise ConfigError(f"{place}: there is no day {cell!r}; give year, month and day, such as 2026-11-27") from error


def position_names(positions: Sequence[float], per: str) -> dict[float, str]:
    """Say what each position is: a place, a number of parameters, a number or a day."""
    named: dict[str, Callable[[float], str]] = {
        PER["size"]: _parameters,
        DAY: lambda day: date.fromordinal(int(day)).isoformat(),
    }
    return {each: named.get(per, "{:g}".format)(each) for each in positions}


def _parameters(doublings: float) -> str:
    n = 2.0**doublings
    return f"{n / 1e9:.3g}B" if n >= 1e9 else f"{n / 1e6:.3g}M"


def check_asked_alike(
    runs: Mapping[str, RatingGaps], choices: Mapping[str, Mapping[str, str]], texts: Mapping[str, str]
) -> None:
    """Refuse runs that were not asked the same: along them a gap could change for other reasons than the model.

    ``choices`` are those of :func:`audit.runs.differences.choices_of`, ``texts`` what narrative identifiers stand for.
    """
    first, *others = choices
    for other in others:
        told = next((words for name, words in _SHARED.items() if choices[other][name] != choices[first][name]), "")
        if not told and _terms_and_groups(runs[other]) != _terms_and_groups(runs[first]):
            told = "the identities"
        told = told or ("the narratives" if texts[other] != texts[first] else "")
        if told:
            raise ConfigError(
                f"series= takes runs that were asked the same, and {first} and {other} differ in {told}; leave out one "
                "of them, or leave out series="
            )


def _terms_and_groups(run: RatingGaps) -> tuple[Any, ...]:
    """Return who was asked about whom; another tool's ratings have no hash of it."""
    terms = {name: tuple(map(frozenset, sides)) for name, sides in run.identities.items()}
    return terms, {(gap.dimension, gap.member) for gap in run.disparities}


def point_of(run: str, gap: DecidedGap, code: str, reasons: str, *, position: float = 0.0) -> SeriesPoint:
    """Return a gap of a run with what allows no verdict on it and what holds it back, by its answer as it holds."""
    from audit.statistics.series import SeriesPoint
    from audit.statistics.verdict import HELD_BACK

    codes = [*filter(None, reasons.split("; "))]
    void = (*codes, *(() if codes else (code,))) if code in ("no_verdict", "no_estimate") else ()
    held = tuple(each for each in codes if each in HELD_BACK)
    return SeriesPoint(run, position, gap, void, tuple(dict.fromkeys((*held, *gap.held_back))))


def series_points(
    run: str,
    position: float,
    gaps: RatingGaps,
    verdicts: Sequence[Mapping[str, Any]],
    answers: Sequence[Mapping[str, Any]],
) -> list[SeriesPoint]:
    """Return the deciding gaps of a run of a series: δ of each dimension, and each group's disparity.

    ``verdicts`` are the run's rows of ``tables.VERDICTS`` and ``answers`` those of ``tables.DISPARITY`` that decide, as
    both hold with all that limits the run.
    """
    of_groups = {(row["dimension"], row["member"]): (row["code"], str(row["limits"])) for row in answers
                 if row["outcome"] != REFUSALS}  # fmt: skip
    of_averages = {row["dimension"]: (row["code"], str(row["reasons"])) for row in verdicts}
    made = [(gap, of_averages[gap.dimension]) for gap in gaps.deciding if gap.dimension in of_averages
            and gap.dimension != OVERALL]  # fmt: skip
    made += [(gap, of_groups[gap.dimension, gap.member]) for gap in gaps.disparities if gap.kind == "disparity"]
    return [point_of(run, gap, *answer, position=position) for gap, answer in made]


def tables_of_series(points: Sequence[SeriesPoint], per: str, *, confidence: float) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the three tables of a series."""
    from audit.statistics.series import series_tables

    made: SeriesTables = series_tables(points, confidence=confidence)
    return {
        "series": [{**row, "per": per} for row in made.trends],
        "series_changes": made.changes,
        "series_runs": made.points,
    }
