"""What a run has published, as rows of the index: its tables, and what its page says of them by the page's own rules.

The tables have no column for the remarks that a page makes. Those that bear on a verdict follow from the tables, by the
bounds of :mod:`audit.statistics.remarks`, and a test holds every verdict here against the page's.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.choices import choices_of, identity_of
from audit.errors import StoreError
from audit.grid import BASELINES
from audit.publish import PAGE
from audit.report.controlled import control_of, controls_of_measures
from audit.report.dimensions import keys_of
from audit.report.manifest import view_manifest
from audit.report.numbers import rows_of
from audit.report.rated import Rated
from audit.report.sentences import LIMITS
from audit.runs.ledger import GENERATION, check_made
from audit.runs.manifest import Manifest, ManifestError
from audit.runs.store import RunFolder
from audit.statistics.remarks import COMPLETE_SHARE, FEW_NARRATIVES, MISSING_SHARE, REFUSAL_GAP
from audit.statistics.scale_ends import END_SHARE
from audit.tables.base import Table
from audit.tables.index import INDEX
from audit.tables.registry import REPLY_TABLES, TABLES
from audit.tables.shared import OVERALL
from audit.tables.spreadsheets import as_it_was
from audit.tasks.registry import task_of
from audit.wording import encodable, plural

_NUMBERS_ASKED: Final = "numbers and their ends"
ALL_PAIRS: Final = "all"
NO_WORD_IN_COMMON: Final = "without a word in common"
_READ: Final = (
    "gap", "cells", "outcomes", "modes", "families", "heterogeneity", "sensitivity", "controls", "missing",
    "leave_one_out", "equivalence", "power", "manipulation", "variances",
)  # fmt: skip
"""Tables of a run of ratings that a verdict and what limits it are made of."""
_READ_OF_REPLIES: Final = ("measures", "measure_gaps", "measure_controls")


@dataclass(frozen=True)
class _Remark:
    """A remark of which only its code is known; see :class:`audit.report.dimensions.RemarkLike`."""

    code: str
    dimension: str = ""
    variant: str = ""
    text: str = ""


def rows_of_run(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one run: a gap each, or one that says why there is none.

    Parameters
    ----------
    folder
        The run's; it is only read.
    name
        The folder as the index calls it.

    Raises
    ------
    AuditError
        If the run cannot be read, something in it is not what was stored or written, or its tables are of other
        answers than are stored now.
    """
    manifest = Manifest.read(folder)
    task = task_of(manifest)
    again = f"`{shlex.join(['python', '-m', 'audit', 'report', name])}`"
    page = f"{name}/{PAGE}" if (folder / PAGE).is_file() else ""
    if page:
        check_made(folder, PAGE, remedy=f"{again} makes it anew")
    known = {"folder": name, "page": page, "state": "gap", **_of_manifest(manifest)}
    if task.compared_by is None:
        yield known | {"state": "no_gap", "reason": f"a run of task={task.kind} has no gap; its page says what it has"}
        return
    needed = _READ if task.compared_by == "gaps" else _READ_OF_REPLIES
    described = TABLES if task.compared_by == "gaps" else REPLY_TABLES
    if not (folder / "tables" / f"{'gap' if needed is _READ else 'measure_gaps'}.csv").is_file():
        n = manifest.counts.get("total")
        begun = "" if manifest.status == "complete" else f"the run is not finished{f' ({n:,} asked)' if n else ''}; "
        yield known | {"state": "no_gap", "reason": f"{begun}it has no tables; {again} makes them"}
        return
    _check_generation(folder, manifest, again)
    tables = {each: _table(folder, described[each], again) for each in needed}
    made = list(_of_ratings(manifest, tables) if needed is _READ else _of_measures(manifest, tables))
    if not made:
        yield known | {"state": "no_gap", "reason": "its tables have no gap"}
    yield from (known | row for row in made)


def _of_manifest(manifest: Manifest) -> dict[str, Any]:
    model, statistics = manifest.model, manifest.statistics
    unknown = float("nan")
    return {
        "task": manifest.task.kind,
        "status": manifest.status,
        "started": manifest.started,
        "model": encodable(model.name),
        "parameters": model.parameters or unknown,
        "weights_bytes": model.weights_bytes or unknown,
        "strategy": manifest.strategy.name or "none",
        "confidence": statistics.confidence,
        "margin": unknown if statistics.margin is None else statistics.margin,
        "identity": identity_of(manifest),
    }


def _check_generation(folder: Path, manifest: Manifest, again: str) -> None:
    """Refuse tables of another analysis than the manifest's; an earlier version wrote no generation."""
    if not manifest.generation:
        return
    path = folder / GENERATION
    there = path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else "none"
    now = RunFolder(folder).stamped(manifest, manifest.analysed_by).generation
    if not there == now == manifest.generation:
        raise StoreError(
            f"{folder}: its tables are of other answers or settings than it has now; {again} makes them anew"
        )


def _table(folder: Path, described: Table, again: str) -> pd.DataFrame:
    """Return a published table; one that an earlier version did not make is empty."""
    path = folder / "tables" / f"{described.name}.csv"
    if not path.is_file():
        return pd.DataFrame(columns=list(described))
    check_made(folder, f"tables/{path.name}", remedy=f"{again} makes it anew")
    try:
        return read_table(path, described)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({str(error).splitlines()[0]}); {again} makes it anew") from error


def read_table(path: Path, described: Table) -> pd.DataFrame:
    """Return a table with its texts as they were: a group called "NA" is a group, and no text is missing."""
    texts = {name for name, column in described.items() if column.type.plain == "text"}
    others = [name for name in pd.read_csv(path, nrows=0).columns if name not in texts]
    table = pd.read_csv(
        path, dtype=dict.fromkeys(texts, "str"), keep_default_na=False, na_values={name: [""] for name in others}
    )
    return as_it_was(table.reindex(columns=list(described)))


# --- Ratings ---------------------------------------------------------------------------------------------------------


def _of_ratings(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    try:
        view = view_manifest(manifest)
    except ManifestError as error:
        raise StoreError(str(error)) from error
    known = {name: tables.get(name, pd.DataFrame(columns=list(columns))) for name, columns in TABLES.items()}
    gap = known["gap"]
    headline = gap.loc[gap["headline"].map(_is_true) & (gap["scope"] == "narratives")]
    known["gap"] = gap.assign(headline=gap["headline"].map(_is_true))
    on_run = list(_codes_of_run(manifest, known))
    measured = [key for key in dict.fromkeys(key for name in ("gap", "cells") for key in keys_of(known[name]))
                if key[0] != OVERALL]  # fmt: skip
    for key in measured:
        codes = [*on_run, *_codes_of(key, known, manifest)]
        remarks = [_Remark(code, *(key if place else ("", ""))) for code, place in codes]
        rated = Rated(key, "", known, {}, remarks, drawn=set(), view=view, several=False)
        row = _first(headline, key)
        outcomes = known["outcomes"].loc[[found == key for found in keys_of(known["outcomes"])]]
        asked = outcomes.loc[outcomes["pairs"].isin(["in_group", "out_group"]), "n_prompts"].sum()
        missing = row.get("n_missing", math.nan)
        choices = choices_of(manifest, variant=key[1])
        yield {
            "prompt": key[1],
            "dimension": key[0],
            "outcome": "intensity",
            "unit": "points",
            "delta": row.get("delta_points", math.nan),
            **{name: row.get(name, math.nan) for name in ("ci_low", "ci_high", "p", "p_adjusted", "n_narratives")},
            "n_answers": row.get("n_ratings", math.nan),
            "n_missing": missing,
            "missing_share": missing / asked if asked else math.nan,
            "verdict": rated.answer.verdict.kind,
            "verdict_words": str(rated.answer.verdict.words.striptags()),
            "control": rated.answer.control_kind,
            "control_words": str(rated.answer.control.striptags()),
            "manipulation": _manipulation(known["manipulation"]),
            "limits": "; ".join(LIMITS[code][0] for code in LIMITS if code in {code for code, _ in codes}),
            "pairs": NO_WORD_IN_COMMON if rated.answer.control_kind == "echo_free" else ALL_PAIRS,
            **_asked(manifest, choices),
        }


def _asked(manifest: Manifest, choices: Mapping[str, str]) -> dict[str, str]:
    """Say in what two gaps must be alike to be held against each other, as far as the manifest tells."""
    earlier = manifest.elicitation.method == "expected" and (
        manifest.identity.elicitation.get("reads") != _NUMBERS_ASKED
    )
    how = [choices["elicitation"], choices["parser"] and f"parser {choices['parser']}"]
    how += [] if manifest.language.is_english else [f"in {manifest.language.said}"]
    how += ["of an earlier version, which did not ask whether numbers end"] if earlier else []
    return {
        "scale": choices["scale"],
        "narratives": choices["narratives"],
        "texts": choices["texts"],
        "elicitation": ", ".join(filter(None, how)),
        "identities": choices["identities"],
        "reason": "",
    }


def _codes_of_run(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, bool]]:
    """Yield codes of remarks on the whole run, each with False."""
    if manifest.accepted:
        yield "accepted", False
    if manifest.status != "complete":
        yield "unfinished", False
    if (tables["manipulation"]["passed"].map(str) == "False").any():
        yield "manipulation", False


def _codes_of(
    key: tuple[str, str], tables: Mapping[str, pd.DataFrame], manifest: Manifest
) -> Iterator[tuple[str, bool]]:
    """Yield codes of remarks on one dimension and variant, each with True."""
    own = {name: table.loc[[found == key for found in keys_of(table)]] for name, table in tables.items()
           if "dimension" in table}  # fmt: skip
    by_pairs = {str(row["pairs"]): row for row in own["outcomes"].to_dict("records")}
    total = by_pairs.get("all", {})
    between = [row for pairs, row in by_pairs.items() if pairs in ("in_group", "out_group")]
    n_prompts, n_rated = (sum(row[name] for row in between) for name in ("n_prompts", "n_rated"))
    refusals = own["missing"].loc[own["missing"]["outcome"] == "refused"]
    gap = _first(own["gap"].loc[own["gap"]["headline"] & (own["gap"]["scope"] == "narratives")], key)
    found = {
        "nothing_rated": total.get("n_rated") == 0,
        "unrated_identity": bool(n_rated) and _has_unrated(own["cells"]),
        "many_missing": MISSING_SHARE * n_prompts < n_prompts - n_rated < n_prompts,
        "beyond_scale": total.get("n_below_scale", 0) + total.get("n_above_scale", 0) > 0,
        "scale_end": n_rated > 0 and any(
            sum(row[end] * row["n_rated"] for row in between if row["n_rated"]) / n_rated >= END_SHARE
            for end in ("floor_share", "ceiling_share")
        ),
        "number_mass": total.get("mean_number_mass", math.nan) < manifest.statistics.min_number_mass,
        "refusal_gap": any(map(_differs, refusals.to_dict("records"))),
        "not_converged": bool((own["variances"]["converged"].map(str) == "False").any()),
        "one_cue": _has_one_cue(own["cells"], manifest.cues.get(key[0], {})),
    }  # fmt: skip
    if n_rated:
        found |= _codes_of_estimate(gap, own)
    yield from ((code, True) for code, holds in found.items() if holds)


def _codes_of_estimate(gap: Mapping[Any, Any], own: Mapping[str, pd.DataFrame]) -> dict[str, bool]:
    delta, se = gap.get("delta_points", math.nan), gap.get("se", math.nan)
    if math.isnan(delta):
        return {"not_estimable": True}
    complete = own["sensitivity"].loc[own["sensitivity"]["check"] == "listwise", "n_narratives"]
    n_complete = float(complete.iloc[0]) if len(complete) and math.isfinite(complete.iloc[0]) else 0.0
    noise = own["controls"].loc[own["controls"]["control"] == "noise", "se"]
    return {
        "no_interval": math.isnan(se),
        "few_narratives": math.isfinite(se) and gap["n_narratives"] < FEW_NARRATIVES,
        "incomplete_narratives": n_complete < COMPLETE_SHARE * gap["n_narratives_asked"],
        "noise_floor": bool(len(noise)) and abs(delta) < 2 * float(noise.iloc[0]),
    }


def _has_unrated(cells: pd.DataFrame) -> bool:
    """Whether an identity that is compared has no rating, as one who rates or one who is rated."""
    compared = cells.loc[~cells["perceiver_group"].isin(BASELINES) & ~cells["experiencer_group"].isin(BASELINES)]
    return any((compared.groupby(side)["n_rated"].sum() == 0).any() for side in ("perceiver", "experiencer"))


def _has_one_cue(cells: pd.DataFrame, cues: Mapping[str, str]) -> bool:
    """Whether all wordings tell their group in one way."""
    return len({cues[term] for side in ("perceiver", "experiencer") for term in cells[side] if term in cues}) == 1


def _differs(refusals: Mapping[Any, Any]) -> bool:
    """Whether refusals of in-group and out-group differ by more than an accident and by enough to matter."""
    certain = refusals["n_narratives"] > 1 and not refusals["ci_low"] <= 0.0 <= refusals["ci_high"]
    return bool(certain and abs(refusals["gap_pp"]) > REFUSAL_GAP)


def _manipulation(table: pd.DataFrame) -> str:
    passed = table["passed"].map(str)
    if (passed == "False").any():
        return "failed"
    return "passed" if (passed == "True").any() else "not made"


# --- Measures of texts -----------------------------------------------------------------------------------------------


def _of_measures(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    gap = tables["measure_gaps"]
    units = {str(row["measure"]): row for row in tables["measures"].to_dict("records")}
    rows = gap.loc[gap["headline"].map(_is_true) & (gap["scope"] == "narratives") & (gap["dimension"] != OVERALL)]
    controls = {
        key: controls_of_measures(own)
        for key, own in tables["measure_controls"].groupby(["dimension", "variant"], sort=False)
    }
    for row in rows.to_dict("records"):
        measure = str(row["measure"])
        told = units.get(measure, {})
        control = controls.get((row["dimension"], row["variant"]), {}).get(measure) or control_of(rows_of(gap[:0], ""))
        choices = choices_of(manifest, variant=str(row["variant"]))
        yield {
            "prompt": str(row["variant"]),
            "dimension": row["dimension"],
            "outcome": str(told.get("title", measure)),
            "unit": str(told.get("unit", "")),
            **{name: row[name] for name in ("delta", "ci_low", "ci_high", "p", "p_adjusted", "n_narratives")},
            "n_answers": row["n_replies"],
            "n_missing": row["n_missing"],
            "verdict": "",
            "verdict_words": "",
            "control": control.kind,
            "control_words": str(control.words.striptags()),
            "manipulation": "",
            "limits": "; ".join(_limits_of_measures(manifest, row)),
            "pairs": NO_WORD_IN_COMMON if control.kind == "echo_free" else ALL_PAIRS,
            **_asked(manifest, choices),
            "scale": "",
            "elicitation": _writing(manifest),
        }


def _limits_of_measures(manifest: Manifest, row: Mapping[Any, Any]) -> Iterator[str]:
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
    """Return a row with all columns of the index: texts that are not known are empty, numbers missing."""
    empty = {name: "" if column.type.plain == "text" else math.nan for name, column in INDEX.items()}
    return empty | {name: row[name] for name in row if name in INDEX}
