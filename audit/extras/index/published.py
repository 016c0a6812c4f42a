"""Read what a run has published as rows of the index: its tables, worded by the rules of its page.

Remarks that limit a verdict follow from the tables (:mod:`audit.tasks.limits`). A test compares every verdict here
with the page's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.errors import StoreError, report_command
from audit.extras.index.tables import INDEX
from audit.report.dimensions import keys_of
from audit.report.disparities import who_gets_less, who_is_refused
from audit.report.echo import control_of, controls_of_measures
from audit.report.manifest import view_manifest
from audit.report.numbers import PlacedRow, rows_of
from audit.report.results import Results, with_absent
from audit.report.sentences import LIMITS, LIMITS_OF_REPLIES, answer
from audit.report.verdicts import NO_STEP, STEPS, Step, step_elsewhere, worded
from audit.runs.csv_tables import read_table
from audit.runs.derived import has_table
from audit.runs.differences import choices_of, identity_of
from audit.runs.ledger import GENERATION, check_made
from audit.runs.manifest import Manifest, ManifestError
from audit.runs.store import RunFolder
from audit.statistics.manipulation import deciding
from audit.statistics.remarks import FEW_NARRATIVES
from audit.tables.base import Table
from audit.tables.disparity import DISPARITY, REFUSALS
from audit.tables.formatting import encodable, plural
from audit.tables.gap import GAP, NO_PERCEIVERS
from audit.tables.ratings import DOES_NOT_FOLLOW, FOLLOWS, NOT_SHOWN
from audit.tables.run_of_ratings import TABLES
from audit.tables.run_of_replies import REPLY_TABLES
from audit.tables.shared import OVERALL
from audit.tasks.limits import (
    disparities_as_they_hold,
    limits_of_gap,
    limits_of_run,
    told_response,
    verdicts_as_they_hold,
)
from audit.tasks.outcome import next_command
from audit.tasks.publishing import PAGE
from audit.tasks.registry import task_of
from stimuli.files import read_file

_NUMBERS_ASKED: Final = "numbers and their ends"
ALL_PAIRS: Final = "all"
NO_WORD_IN_COMMON: Final = "without a word in common"
_READ: Final = (
    "verdicts", "judged", "odd_pairs", "gap", "cells", "outcomes", "modes", "families", "heterogeneity", "sensitivity",
    "controls", "missing", "leave_one_out", "equivalence", "power", "manipulation", "variances",
    "disparity",
)  # fmt: skip
"""Tables of a run of ratings from which a verdict and its limits follow."""
_READ_OF_REPLIES: Final = ("verdicts", "measures", "gap", "controls", "manipulation", "disparity")
_EARLIER: Final = "not known: an earlier version analysed this run"


def gap_rows_of_run(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each gap of a run, or why there is none; AuditError if a stored file or answer changed since."""
    manifest = Manifest.read(folder)
    task = task_of(manifest)
    again = f"`{report_command(name)}`"
    page = f"{name}/{PAGE}" if (folder / PAGE).is_file() else ""
    if page:
        check_made(folder, PAGE, remedy=f"{again} makes it again")
    known = {"folder": name, "page": page, "state": "gap", **_of_manifest(manifest)}
    if task.compared_by is None:
        yield known | {"state": "no_gap", "reason": f"a run of task={task.kind} has no gap; its page says what it has"}
        return
    needed = _READ if task.compared_by == "gaps" else _READ_OF_REPLIES
    described = TABLES if task.compared_by == "gaps" else REPLY_TABLES
    if not has_table(folder, GAP.name):
        n = manifest.counts.get("total")
        begun = "" if manifest.status == "complete" else f"the run is not finished{f' ({n:,} asked)' if n else ''}; "
        yield known | {"state": "no_gap", "reason": f"{begun}it has no tables; {again} makes them"}
        return
    _check_generation(folder, manifest, again)
    tables = {each: _table(folder, described[each], again) for each in needed}
    less = _WhoGetsLess(manifest, tables["disparity"], is_known=_answers_who_gets_less(folder))
    made = list(_of_ratings(manifest, tables, less) if needed is _READ else _of_measures(manifest, tables, less))
    if not made:
        yield known | {"state": "no_gap", "reason": "its tables have no gap"}
    yield from (known | row | _next(row, manifest, Path(name)) for row in made)


def _next(row: Mapping[str, Any], manifest: Manifest, folder: Path) -> dict[str, str]:
    """Return what would decide the first question that a row leaves open, and the command for it."""
    steps: list[Step] = [row["gap_step"] if row["verdict"] else NO_STEP, row.get("less_step", NO_STEP)]
    left = [step for step in steps if step and step.code != "nothing"]
    clear = any(steps) or row.get("less", "") not in ("", "absent")
    step = left[0] if left else Step.of("nothing") if clear else NO_STEP
    said = step.reworded(STEPS.get(step.code, str(step.striptags())))
    if manifest.elicitation.method == "outside":
        said = step_elsewhere(said)
    return {"next_step": str(said), "next_command": next_command(said, manifest, folder)}


def _of_manifest(manifest: Manifest) -> dict[str, Any]:
    model, statistics = manifest.model, manifest.statistics
    unknown = float("nan")
    return {
        "task": manifest.task.kind,
        "status": manifest.status,
        "started": manifest.started,
        "model": encodable(model.name),
        "server": encodable(model.address),
        "parameters": model.parameters or unknown,
        "weights_bytes": model.weights_bytes or unknown,
        "strategy": manifest.strategy.choice,
        "confidence": statistics.confidence,
        "margin": unknown if statistics.margin is None else statistics.margin,
        "identity": identity_of(manifest),
    }


def _check_generation(folder: Path, manifest: Manifest, again: str) -> None:
    """Refuse tables of another analysis than the manifest's. Earlier versions wrote no generation."""
    if not manifest.generation:
        return
    path = folder / GENERATION
    there = read_file(path).decode("utf-8", "replace").strip() if path.is_file() else "none"
    now = RunFolder(folder).generation_of(manifest, manifest.analysed_by)
    if not there == now == manifest.generation:
        raise StoreError(
            f"{folder}: its tables belong to other answers or settings than it has now; {again} makes them again"
        )


def _table(folder: Path, described: Table, again: str) -> pd.DataFrame:
    """Read a published table; empty if it has no rows, or an earlier version did not make it."""
    path = described.place(folder / "tables")
    if not path.is_file():
        return pd.DataFrame(columns=list(described))
    check_made(folder, f"tables/{path.name}", remedy=f"{again} makes it again")
    try:
        return read_table(path, described).reindex(columns=list(described))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({str(error).splitlines()[0]}); {again} makes it again") from error


def _answers_who_gets_less(folder: Path) -> bool:
    """Whether the analysis knew disparities; their table has no file if fewer than two groups were compared."""
    if DISPARITY.place(folder / "tables").is_file():
        return True
    dictionary = folder / "tables" / "dictionary.csv"
    if not dictionary.is_file():
        return False
    try:
        return bool((read_table(dictionary, None)["table"] == DISPARITY.name).any())
    except (OSError, ValueError, KeyError):
        return False


class _WhoGetsLess:
    """Who gets less in a run, by outcome, dimension and variant: what it has stored, in the words of its page."""

    def __init__(self, manifest: Manifest, disparity: pd.DataFrame, *, is_known: bool) -> None:
        self.is_known, self.confidence = is_known, manifest.statistics.confidence
        # An earlier version had fewer columns.
        texts = {
            name: disparity[name].astype(object).where(disparity[name].notna(), "")
            for name, column in DISPARITY.items() if column.type.plain == "text"
        }  # fmt: skip
        table = disparity.assign(**texts, headline=disparity["headline"].map(_is_true).astype(bool))
        self.own: dict[tuple[str, str, str], list[PlacedRow]] = {}
        for row in rows_of(disparities_as_they_hold(table, manifest), DISPARITY.name):
            self.own.setdefault((str(row["outcome"]), str(row["dimension"]), str(row["variant"])), []).append(row)

    def of(self, outcome: str, dimension: str, variant: str, *, alone: bool = False) -> dict[str, Any]:
        """Return the columns that say who gets less; ``alone`` if the model was given no group's identity."""
        blank = dict.fromkeys(("verdict", "verdict_words", "control", "control_words"), "") if alone else {}
        if not self.is_known:
            return blank | {"less_words": _EARLIER}
        rows = self.own.get((outcome, dimension, variant), [])
        refusals = self.own.get((REFUSALS, dimension, variant), []) if outcome == "intensity" else []
        refused = who_is_refused(refusals, confidence=self.confidence)
        found = who_gets_less(rows, confidence=self.confidence, of="rated" if outcome == "intensity" else "")
        known: dict[str, Any] = blank | {"less": found.kind, "less_words": str(found.words.striptags())}
        claims = {str(row["claim"]) for row in found.found}
        known |= {"less_claim": claims.pop() if len(claims) == 1 else "", "less_step": found.step}
        known["refused_words"] = "" if refused is None else str(refused.words.striptags())
        if found.row is None or not found.number:
            return known
        columns = {"disparity": "disparity", "disparity_low": "ci_low", "disparity_high": "ci_high"}
        if alone:
            columns |= {name: name for name in ("n_narratives", "n_answers")}
        numbers = {name: found.row.number(column) for name, column in columns.items()}
        return known | {"less_group": str(found.row["group"])} | numbers


# --- Ratings ---------------------------------------------------------------------------------------------------------


def _of_ratings(manifest: Manifest, tables: Mapping[str, pd.DataFrame], less: _WhoGetsLess) -> Iterator[dict[str, Any]]:
    try:
        view = view_manifest(manifest)
    except ManifestError as error:
        raise StoreError(str(error)) from error
    known = with_absent(tables, TABLES)
    gap = known["gap"]
    headline = gap.loc[gap["headline"].map(_is_true) & (gap["scope"] == "narratives")]
    known["verdicts"] = verdicts_as_they_hold(known["verdicts"], manifest)
    known["gap"] = gap.assign(headline=gap["headline"].map(_is_true))
    on_run = list(limits_of_run(manifest, known))
    results = Results(known, TABLES, view.confidence)
    measured = [key for key in dict.fromkeys(key for name in ("gap", "cells") for key in keys_of(known[name]))
                if key[0] != OVERALL]  # fmt: skip
    for key in measured:
        decided = known["verdicts"].loc[[found == key for found in keys_of(known["verdicts"])]]
        if len(decided):
            on_gap = [code for code in str(decided["limits"].iloc[0]).split("; ") if code]
        else:
            on_gap = list(limits_of_gap(*key, known, manifest))
        # Show the deciding numbers, as the run's page does.
        deciding = decided.to_dict("records")[0] if len(decided) else {}
        row = _first(headline, key)
        shown = deciding if math.isfinite(deciding.get("ci_low", math.nan)) else row
        found = answer(results.of(key, ""), scale=view.scale, codes={*on_run, *on_gap})
        outcomes = known["outcomes"].loc[[found == key for found in keys_of(known["outcomes"])]]
        asked = outcomes.loc[outcomes["pairs"].isin(["in_group", "out_group"]), "n_prompts"].sum()
        missing = row.get("n_missing", math.nan)
        choices = choices_of(manifest, variant=key[1])
        yield {
            "prompt": key[1],
            "dimension": key[0],
            "outcome": "intensity",
            "unit": "points",
            "delta": shown.get("delta", math.nan),
            **{name: shown.get(name, math.nan) for name in ("ci_low", "ci_high", "p", "p_adjusted", "n_narratives")},
            "n_answers": row.get("n_answers", math.nan),
            "n_missing": missing,
            "missing_share": missing / asked if asked else math.nan,
            "verdict": found.verdict.kind,
            "verdict_words": str(found.verdict.words.striptags()),
            "claim": deciding.get("claim", ""),
            "gap_step": found.verdict.step,
            "control": found.control_kind,
            "control_words": str(found.control.striptags()),
            "manipulation": _manipulation(known["manipulation"]),
            **told_response(known["manipulation"]),
            "limits": "; ".join(LIMITS[code][0] for code in LIMITS if code in (*on_run, *on_gap)),
            "pairs": NO_WORD_IN_COMMON if found.control_kind == "echo_free" else ALL_PAIRS,
            **less.of("intensity", *key, alone=row.get("note") == NO_PERCEIVERS),
            **_asked(manifest, choices),
        }


def _asked(manifest: Manifest, choices: Mapping[str, str]) -> dict[str, str]:
    """Return what must agree for two gaps to be comparable, as far as the manifest records it."""
    earlier = manifest.elicitation.method == "expected" and (
        manifest.identity.elicitation.get("reads") != _NUMBERS_ASKED
    )
    how = [choices["elicitation"], choices["parser"] and f"parser {choices['parser']}"]
    how += ["of an earlier version, which did not ask whether numbers end"] if earlier else []
    return {
        "scale": choices["scale"],
        "narratives": choices["narratives"],
        "texts": choices["texts"],
        "elicitation": ", ".join(filter(None, how)),
        "language": choices["language"],
        "identities": choices["identities"],
        "reason": "",
    }


def _manipulation(table: pd.DataFrame) -> str:
    """Return the outcome of the deciding manipulation check."""
    return {FOLLOWS: "passed", DOES_NOT_FOLLOW: "failed", NOT_SHOWN: "not shown"}.get(str(deciding(table)), "not made")


# --- Measures of texts -----------------------------------------------------------------------------------------------


def _of_measures(
    manifest: Manifest, tables: Mapping[str, pd.DataFrame], less: _WhoGetsLess
) -> Iterator[dict[str, Any]]:
    gap = tables["gap"]
    units = {str(row["measure"]): row for row in tables["measures"].to_dict("records")}
    rows = gap.loc[gap["headline"].map(_is_true) & (gap["scope"] == "narratives") & (gap["dimension"] != OVERALL)]
    controls = {
        key: controls_of_measures(own) for key, own in tables["controls"].groupby(["dimension", "variant"], sort=False)
    }
    verdicts = verdicts_as_they_hold(tables["verdicts"], manifest)
    decided = {(row["dimension"], row["variant"], row["outcome"]): row for row in rows_of(verdicts, "verdicts")}
    for row in rows.to_dict("records"):
        measure = str(row["outcome"])
        verdict = decided.get((row["dimension"], row["variant"], row["outcome"]))
        said = worded(verdict)
        # Show the deciding numbers, as the run's page does.
        shown = row if verdict is None or not math.isfinite(verdict.number("ci_low")) else verdict
        told = units.get(measure, {})
        control = controls.get((row["dimension"], row["variant"]), {}).get(measure) or control_of(rows_of(gap[:0], ""))
        choices = choices_of(manifest, variant=str(row["variant"]))
        yield {
            "prompt": str(row["variant"]),
            "dimension": row["dimension"],
            "outcome": str(told.get("title", measure)),
            "unit": str(told.get("unit", "")),
            **{name: shown[name] for name in ("delta", "ci_low", "ci_high", "p", "p_adjusted", "n_narratives")},
            "n_answers": row["n_answers"],
            "n_missing": row["n_missing"],
            "verdict": said.kind,
            "verdict_words": str(said.words.striptags()),
            "claim": "" if verdict is None else verdict["claim"],
            "gap_step": said.step,
            "control": control.kind,
            "control_words": str(control.words.striptags()),
            "manipulation": _manipulation(tables["manipulation"]) if len(tables["manipulation"]) else "",
            "limits": "; ".join(_limits_of_measures(manifest, row, verdict)),
            "pairs": NO_WORD_IN_COMMON if control.kind == "echo_free" else ALL_PAIRS,
            **less.of(measure, str(row["dimension"]), str(row["variant"]), alone=row["note"] == NO_PERCEIVERS),
            **_asked(manifest, choices),
            "scale": "",
            "elicitation": _writing(manifest),
        }


def _limits_of_measures(manifest: Manifest, row: Mapping[Any, Any], verdict: Mapping[Any, Any] | None) -> Iterator[str]:
    if verdict is not None and math.isfinite(row["ci_low"]):
        codes = str(verdict["limits"]).split("; ")
        yield from (title for code, (title, _) in LIMITS_OF_REPLIES.items() if code in codes)
        return
    if manifest.accepted:
        yield LIMITS["accepted"][0]
    if manifest.status != "complete":
        yield LIMITS["unfinished"][0]
    if math.isnan(row["ci_low"]):
        yield LIMITS["no_interval"][0] if math.isfinite(row["delta"]) else LIMITS["not_estimable"][0]
    elif row["n_narratives"] < FEW_NARRATIVES:
        yield LIMITS["few_narratives"][0]


def _writing(manifest: Manifest) -> str:
    task = manifest.task
    length = plural(task.max_tokens, "token") if task.max_tokens else ""
    how = [f"at most {length}" if length else "", f"temperature {task.temperature:g}", f"top_p {task.top_p:g}"]
    return f"{task.kind}: {', '.join(filter(None, how))}"


def _first(table: pd.DataFrame, key: tuple[str, str]) -> Mapping[Any, Any]:
    rows = table.loc[[found == key for found in keys_of(table)]].to_dict("records")
    return rows[0] if rows else {}


def _is_true(value: object) -> bool:
    return str(value) == "True"


def whole_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in missing columns of the index: empty for texts, NaN for numbers."""
    empty = {name: "" if column.type.plain == "text" else math.nan for name, column in INDEX.items()}
    return empty | {name: row[name] for name in row if name in INDEX}
