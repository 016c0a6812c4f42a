"""Lay out the table of a run's gaps: δ by dimension with its controls, or by measure of written texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from audit.extras.exchange.paper.base import CONTROL_ROWS, OF_MEASURES, Row, Study, has_interval, is_finite
from audit.extras.exchange.paper.limits import beneath, cautions, verdict_sentences
from audit.extras.exchange.paper.table import ManuscriptRow as Laid
from audit.extras.exchange.paper.table import (
    ManuscriptTable,
    Marks,
    decimals_for,
    df_written,
    format_number,
    interval_written,
    p_written,
    row_of,
)
from audit.extras.exchange.paper.text import Line, PlainText, Symbol, line, told_names
from audit.tables.formatting import MEANING, MISSING, count, dimension_title, listed, scale_end
from audit.tables.shared import OVERALL
from stimuli.words import capital

_CONTROLS: Final = {
    "all_terms": "all pairs",
    "same_words": "pairs with identical words",
    "placebo": "invented groups, in identical words",
    "placebo_difference": "beyond invented groups",
    "wording": "any such wordings",
}
_DELTA, _P = Symbol("δ"), Symbol("p")


def paper_gap_table(study: Study) -> ManuscriptTable:
    """Lay out the table of a run's gaps.

    For ratings, a row is a dimension, with its controls and wider scopes beneath; for written texts, a measure. A gap
    that was not estimable keeps its row, and a letter says why.
    """
    return _of_ratings(study) if study.is_rated else _of_measures(study)


def _of_ratings(study: Study) -> ManuscriptTable:
    marks = Marks()
    gaps = study.narrow
    listed = [(gap, study.controls(gap)) for gap in gaps]
    every = [*gaps, *study.wider, *(own[name] for _, own in listed for name in CONTROL_ROWS if name in own)]
    decimals = decimals_for(row["se"] for row in every)
    corrected = any(is_finite(gap["family_size"]) and gap["family_size"] > 1 for gap in gaps)
    several = study.several_variants
    wider = {(row["dimension"], row["variant"]): row for row in study.wider}
    rows: list[Laid] = []
    for gap, controls in listed:
        name = line(_title(gap), *((", ", PlainText(str(gap["variant"]))) if several else ()))
        rows.append(_laid(name, gap, marks, decimals, corrected))
        for control in _controls_of(study, gap, controls):
            rows.append(_laid((_CONTROLS[control],), controls[control], marks, decimals, corrected, depth=1))
        if (beyond := wider.get((gap["dimension"], gap["variant"]))) is not None:
            rows.append(_laid(("any such identities",), beyond, marks, decimals, corrected, depth=1))
    last = (line(_P, " corrected"),) if corrected else ()
    return ManuscriptTable(
        number=1,
        title=("Gap ", _DELTA, " in Rated Intensity, In-Group Minus Out-Group"),
        head=(
            ("Gap",), ("Narratives",), ("Ratings",), (_DELTA,), (Symbol("SE"),), (f"{study.level} CI",),
            (Symbol("t"),), (Symbol("df"),), (_P,), *last, (Symbol("d", "z"),),
        ),
        rows=tuple(rows),
        notes=tuple(_notes_of_ratings(study, corrected=corrected)),
        marked=marks.said,
    )  # fmt: skip


def _controls_of(study: Study, gap: Row, controls: Mapping[str, Row]) -> Iterator[str]:
    """Yield the controls shown beneath a gap: those of other pairs than its own, or of other groups."""
    for control in CONTROL_ROWS:
        if control not in controls or (control == "all_terms" and not study.is_free(gap)):
            continue
        # If all in-group pairs repeat their words, the gap is that of the very same words, and is shown already.
        again = math.isclose(float(controls[control]["delta"]), float(gap["delta"]), rel_tol=1e-9)
        if not (again and control == "same_words" and "placebo" not in controls):
            yield control


def _of_measures(study: Study) -> ManuscriptTable:
    marks = Marks()
    told = study.tables["measures"].set_index("measure")
    gaps = study.narrow
    several = len({(gap["dimension"], gap["variant"]) for gap in gaps}) > 1
    corrected = any(is_finite(gap["family_size"]) and gap["family_size"] > 1 for gap in gaps)
    last = (line(_P, " corrected"),) if corrected else ()
    head: tuple[Line, ...] = (
        ("Measure",),
        ("Unit",),
        ("Narratives",),
        ("Texts",),
        (_DELTA,),
        (Symbol("SE"),),
        (f"{study.level} CI",),
        (Symbol("t"),),
        (Symbol("df"),),
        (_P,),
        *last,
        line(_DELTA, " in ", Symbol("SD")),
    )
    rows: list[Laid] = []
    earlier: tuple[Any, Any] | None = None
    for gap in gaps:
        place = (gap["dimension"], gap["variant"])
        if several and place != earlier:
            rows.append(row_of(line(_title(gap), ", ", PlainText(str(gap["variant"]))), [""] * (len(head) - 1)))
        earlier = place
        name = str(gap["outcome"])
        title, unit = told.loc[name, ["title", "unit"]] if name in told.index else (name, MISSING)
        laid = _laid(line(PlainText(str(title))), gap, marks, decimals_for([gap["se"]]), corrected, depth=int(several))
        in_sd = format_number(gap["delta_sd"], 2)
        rows.append(Laid((laid.cells[0], (PlainText(str(unit)),), *laid.cells[1:-1], (in_sd,)), laid.depth))
    return ManuscriptTable(
        number=1,
        title=("Gap ", _DELTA, " in Measures of Written Texts, In-Group Minus Out-Group"),
        head=head,
        rows=tuple(rows),
        notes=tuple(_notes_of_measures(study, corrected=corrected)),
        marked=marks.said,
        n_words=2,
    )


def _laid(name: Line, gap: Row, marks: Marks, decimals: int, corrected: bool, *, depth: int = 0) -> Laid:
    """Lay out the row of a gap. If it lacks an estimate or an interval, a letter refers to the reason."""
    note = str(gap.get("note") or "")
    known = has_interval(gap)
    marked = (marks.mark((PlainText(_sentence(note)),)),) if note and not known else ()
    delta, se = (float(gap[each]) for each in ("delta", "se"))
    # Without an interval, the standard error has no t distribution.
    t = delta / se if known and se > 0 else math.nan
    cells = [
        count(float(gap["n_narratives"])),
        count(float(gap["n_answers"])),
        format_number(delta, decimals),
        format_number(se if known else math.nan, decimals),
        interval_written(gap["ci_low"], gap["ci_high"], decimals),
        format_number(t, 2),
        df_written(gap["df"]) if known else MISSING,
        p_written(gap["p"]) if known else MISSING,
        *([p_written(gap["p_adjusted"]) if "p_adjusted" in gap else MISSING] if corrected else []),
        format_number(gap["d_z"] if known else math.nan, 2),
    ]
    return row_of(line(*name, *marked), cells, depth=depth)


def _notes_of_ratings(study: Study, *, corrected: bool) -> Iterator[Line]:
    scale = study.manifest.scale
    yield line(
        _DELTA, f" is {MEANING}; in points of a scale from {scale_end(scale.low)} to {scale_end(scale.high)}, on "
        "average over narratives.",
    )  # fmt: skip
    yield line(f"CI is the {study.level} confidence interval of the ", Symbol("t"), " distribution, not corrected.")
    yield line(_P, " is two-sided.")
    if corrected:
        yield line("Corrected ", _P, " is by Holm's method, over all gaps but means over dimensions and controls.")
    yield line(Symbol("d", "z"), " is ", _DELTA, " over the standard deviation of the narratives' own gaps.")
    free = [dimension_title(str(gap["dimension"])) for gap in study.narrow if study.is_free(gap)]
    if free:
        yield line(
            "Of ", told_names(free, last=" and "), ", ", _DELTA, " is of pairs that have no word in common; rows "
            "beneath it that name words are of other pairs.",
        )  # fmt: skip
    yield from _scope(study)
    yield from verdict_sentences(study)
    yield from beneath(study)
    yield from cautions(study)


def _notes_of_measures(study: Study, *, corrected: bool) -> Iterator[Line]:
    yield line(
        _DELTA, f" is {OF_MEASURES}; in the measure's unit, on average over narratives.",
    )  # fmt: skip
    yield line(f"CI is the {study.level} confidence interval of the ", Symbol("t"), " distribution, not corrected.")
    yield line(_P, " is two-sided.")
    if corrected:
        yield line("Corrected ", _P, " is by Holm's method, over the measures of a dimension.")
    yield line(_DELTA, " in ", Symbol("SD"), " is over the measure's standard deviation among all scored texts.")
    yield from _scope(study)
    yield from verdict_sentences(study)
    yield from cautions(study)


def _scope(study: Study) -> Iterator[Line]:
    wider = [
        *(["identities"] if study.wider and study.is_rated else []),
        *(["wordings"] if any("wording" in study.controls(gap) for gap in study.narrow) else []),
    ]
    but = f", but for the rows of any such {listed(wider, last='or')}" if wider else ""
    of = "conversations" if study.over_conversations else "narratives"
    yield line(f"All rows speak of the identities that were asked and of any such {of}{but}.")


def _title(gap: Row) -> Line:
    name = str(gap["dimension"])
    return ("mean over dimensions",) if name == OVERALL else (PlainText(dimension_title(name)),)


def _sentence(note: str) -> str:
    return f"{capital(note)}{'' if note.endswith('.') else '.'}"
