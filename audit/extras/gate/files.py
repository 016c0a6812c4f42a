"""Write the verdict as files: JSON for programs, JUnit XML for a pipeline, Markdown for a pull request.

Names of groups, emotions, models and folders come from users, so each format escapes what it would act on: JSON as
ASCII, XML after replacing characters that XML cannot hold, Markdown and the HTML in it by entities.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from audit.extras.gate.judge import Gated, Judged, gap_name, sentence, undecided_reasons
from audit.runs.differences import identity_of
from audit.runs.files import write_atomically, writing
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.formatting import brief, in_markdown, printable

if TYPE_CHECKING:
    from audit.statistics.deciding_estimate import DecidedGap

SCHEMA_VERSION: Final = 1  # Version of `verdict.json`. A later version may lack fields of this one.
_WORDS: Final = {"passed": "within", "failed": "beyond", "undecided": "undecided"}
_OURS: Final = {
    "verdict.json": b'"kind": "empathy-audit gate verdict"',
    "junit.xml": b'name="empathy-audit gate"',
    "summary.md": b"Empathy gaps of ",
}
"""The files, each with bytes in its beginning that mark it as ours."""
_BEGINNING: Final = 1024
_NARROW: Final = 0.05  # half the width of an interval that two decimals do not show


def withdraw_verdict(folder: Path) -> None:
    """Remove an earlier verdict from a folder. Files of the same names that another program wrote stay."""
    with writing(folder):
        for name, mark in _OURS.items():
            path = folder / name
            if not path.is_file():
                continue
            with path.open("rb") as file:
                ours = mark in file.read(_BEGINNING)
            if ours:
                path.unlink()


def write_verdict(gated: Gated, folder: Path, *, version: str) -> list[Path]:
    """Write ``summary.md``, ``junit.xml`` and, last, ``verdict.json``, each atomically; return their paths."""
    contents = {
        "summary.md": markdown(gated).encode(),
        "junit.xml": junit(gated),
        "verdict.json": (json.dumps(verdict_json(gated, version=version), indent=2, allow_nan=False) + "\n").encode(
            "ascii"
        ),
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # If this is stopped between two files, an old verdict must not lie beside a new summary.
        (folder / "verdict.json").unlink(missing_ok=True)
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def verdict_json(gated: Gated, *, version: str) -> dict[str, Any]:
    """Return the content of ``verdict.json``; docs/gate.md describes every field."""
    return {
        "kind": "empathy-audit gate verdict",
        "schema_version": SCHEMA_VERSION,
        "empathy_audit": version,
        "verdict": gated.verdict,
        "exit_code": gated.code,
        "sentence": sentence(gated),
        "margin_points": gated.margin,
        "refusal_margin_pp": gated.refusal_margin,
        "alpha": gated.alpha,
        "power": gated.power,
        "strict_average": gated.strict_average,
        "n_narratives": gated.n_narratives,
        "n_narratives_needed": _number(gated.n_needed),
        "run": _run(gated.manifest, gated.path, gated.ratings_sha256, gated.measure),
        "baseline": None
        if gated.baseline is None or gated.baseline_path is None
        else _run(gated.baseline, gated.baseline_path, gated.baseline_sha256, gated.measure),
        "untested": list(gated.untested),
        "notes": list(gated.notes),
        "gaps": [_row(row, unit=_unit(gated)) for row in gated.rows],
    }


def junit(gated: Gated) -> bytes:
    """Write JUnit XML: a gap is a test case, a failure if beyond the margin, skipped if undecided or not tested."""
    n_of = {name: sum(row.verdict == name for row in gated.rows) for name in ("failed", "undecided")}
    counts = {
        "tests": str(len(gated.rows) + len(gated.untested)),
        "failures": str(n_of["failed"]),
        "errors": "0",
        "skipped": str(n_of["undecided"] + len(gated.untested)),
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "empathy-audit gate", **counts})
    for row in gated.rows:
        gap = row.held.gap
        attributes = {"classname": _xml(f"{gap.dimension}.{gap.variant}"), "name": _xml(gap_name(gap)), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        if row.verdict != "passed":
            tag = "failure" if row.verdict == "failed" else "skipped"
            cells = cells_of(row)
            said = row.why or f"{cells['gap']}, corrected interval {cells['corrected']}, margin {cells['margin']}"
            ElementTree.SubElement(case, tag, {"message": _xml(said)})
    for name in gated.untested:
        case = ElementTree.SubElement(suite, "testcase", {"classname": _xml(name), "name": _xml(name), "time": "0"})
        ElementTree.SubElement(case, "skipped", {"message": "nothing of it could be tested"})
    ElementTree.SubElement(suite, "system-out").text = _xml(sentence(gated))
    ElementTree.indent(suites)
    written: str = ElementTree.tostring(suites, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{written}\n".encode()


def markdown(gated: Gated) -> str:
    """Write a summary for a pull request: the sentence, notes, and all gaps, those that did not pass first."""
    mark = {"passed": "✅", "failed": "❌", "undecided": "⚠️"}
    order = {"failed": 0, "undecided": 1, "passed": 2}
    model = gated.manifest.model.name
    lines = [f"### {mark[gated.verdict]} Empathy gaps of {in_markdown(model)}", "", in_markdown(sentence(gated)), ""]
    lines += [f"- {in_markdown(said)}" for said in gated.notes] + ([""] if gated.notes else [])
    head = headings(gated)
    lines += [f"| {' | '.join(head.values())} |", f"|{'---|' * len(head)}"]
    for row in sorted(gated.rows, key=lambda each: order[each.verdict]):
        cells = cells_of(row, undecided_reasons(gated))
        lines.append(f"| {' | '.join(in_markdown(cells[name]) for name in head)} |")
    unit = in_markdown(_unit(gated))
    lines += ["", f"δ is in-group minus out-group, D a group minus the others, in {unit}; pp: percentage points."]
    reasons = undecided_reasons(gated)
    lines += ["", *(f"{place}. {in_markdown(said)}" for place, said in enumerate(reasons, start=1))] if reasons else []
    lines += ["", f"Digest of the run: `{RunFolder(gated.path).digest(gated.manifest)}`"]
    return "\n".join(lines) + "\n"


def headings(gated: Gated) -> dict[str, str]:
    """Return the heading of each column in the table of gaps."""
    inside = 1 - (2 if gated.baseline is None else 1) * gated.alpha
    return {
        "what": "δ or D",
        "gap": "value" if gated.baseline is None else "|value| less the baseline's",
        "inside": f"{inside:.0%} interval",
        "corrected": "corrected interval",
        "margin": "margin",
        "verdict": "verdict",
    }


def cells_of(row: Judged, reasons: Sequence[str] = ()) -> dict[str, str]:
    """Return a row of the table of gaps, keyed as :func:`headings`. Names are not escaped."""
    held = row.held
    unit = " pp" if held.gap.is_of_refusals else ""
    return {
        "what": brief(gap_name(held.gap)),
        "gap": _shown(held.value, held.low, held.high),
        "inside": _interval(held.low, held.high),
        "corrected": _interval(held.beyond_low, held.beyond_high),
        "margin": f"{'' if held.baseline is not None else '±'}{held.margin:g}{unit}",
        "verdict": f"{_WORDS[row.verdict]}{f' ({reasons.index(row.why) + 1})' if row.why in reasons else ''}",
    }


def _shown(value: float, low: float, high: float) -> str:
    """Write a number beside an interval: two decimals, or two digits of half of a narrower interval's width."""
    half = (high - low) / 2
    decimals = 1 - math.floor(math.log10(half)) if 0 < half < _NARROW else 2
    return format(value, f"+.{decimals}f").replace("-", "−") if math.isfinite(value) else "none"


def _interval(low: float, high: float) -> str:
    if not math.isfinite(low) and not math.isfinite(high):
        return "none"
    return " to ".join(_shown(end, low, high) for end in (low, high))


def _run(manifest: Manifest, path: Path, sha256: str, measure: str) -> dict[str, Any]:
    return {
        "folder": path.name,
        "identity_sha256": identity_of(manifest),
        "ratings_sha256": sha256,
        "digest": RunFolder(path).digest(manifest),
        "model": manifest.model.name,
        "model_files": dict(manifest.model.files),
        "revision": manifest.model.revision,
        "dimensions": list(manifest.dimensions),
        "invented_groups": list(manifest.placebo),
        "narratives_sha256": manifest.stimuli.sha256,
        "elicitation": manifest.elicitation.method,
        "thinking": manifest.config.thinking.model_dump() if manifest.config.thinking.is_on else None,
        **({"measure": measure} if measure else {}),
        "scale": [manifest.scale.low, manifest.scale.high],
        "seed": manifest.seed,
        "status": manifest.status,
        "collected_by": dict(manifest.versions),
    }


def _unit(gated: Gated) -> str:
    """Return the unit of the measure that was tested; points of ratings."""
    measures = (each for taken in gated.manifest.scorers.values() for each in taken.measures)
    return next((str(each["unit"]) for each in measures if each["name"] == gated.measure), "points")


def _row(row: Judged, *, unit: str) -> dict[str, Any]:
    held, gap = row.held, row.held.gap
    return {
        "dimension": gap.dimension,
        "variant": gap.variant,
        "kind": gap.kind,
        "member": gap.member,
        "unit": "percentage points" if gap.is_of_refusals else unit,
        "scope": gap.scope,
        "verdict": row.verdict,
        "why": row.why,
        "margin": held.margin,
        "value": _number(held.value),
        "gap": _estimate(gap),
        "baseline_gap": None if held.baseline is None else _estimate(held.baseline),
        "low": _number(held.low),
        "high": _number(held.high),
        "corrected_low": _number(held.beyond_low),
        "corrected_high": _number(held.beyond_high),
        "corrected_level": _number(held.beyond_level),
        "p_beyond": _number(held.p_beyond),
        "p_beyond_adjusted": _number(held.p_adjusted),
        "n_narratives_needed": _number(held.n_needed),
    }


def _estimate(gap: DecidedGap) -> Mapping[str, Any]:
    control = {"control": gap.control}
    if isinstance(gap.made, Exception):
        return control | {"delta": None, "se": None, "df": None, "n_narratives": 0, "note": str(gap.made)}
    return control | {
        "delta": _number(gap.made.delta),
        "se": _number(gap.made.se),
        "df": _number(gap.made.df),
        "n_narratives": gap.made.n_narratives,
        "note": gap.made.not_estimable,
    }


def _number(value: float) -> float | None:
    """Return a number for JSON: null if it is not finite."""
    return float(value) if math.isfinite(value) else None


def _xml(text: str) -> str:
    """Replace characters that XML 1.0 cannot hold, and control characters."""
    return printable(text)


def gap_table_rows(gated: Gated) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of gaps, the heading first; a number in brackets is that of a reason."""
    head = headings(gated)
    yield tuple(head.values())
    for row in gated.rows:
        cells = cells_of(row, undecided_reasons(gated))
        yield tuple(cells[name] for name in head)
