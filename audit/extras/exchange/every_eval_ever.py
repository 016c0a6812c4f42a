"""Write a record in the schema of Every Eval Ever, version 0.3.0: *no gap larger than*, and of groups likewise.

The score of a dimension is the smallest margin that the run's verdict supports, in points, and at most the length of
the scale. So a run with few ratings scores badly, not well. A run without a verdict, or whose report rules nothing out,
scores the length of the scale. The details hold the verdict, its estimate and its limits, all as texts. A group's score
is that of its disparity D from the other groups, whichever way it differs; its sign is in the details.

The schema is that of the package ``every-eval-ever`` 0.3.0. Samples (``detailed_evaluation_results``) are not written.
"""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from audit.errors import ConfigError, StoreError
from audit.extras.exchange import groups
from audit.extras.exchange.base import Collected, ExportOptions, Files, Form
from audit.extras.exchange.facts import (
    NOT_RECORDED,
    NOT_WHAT_IT_SHOWS,
    named,
    read_with_care,
    said_of_check,
    said_of_engine,
)
from audit.tables.formatting import MEANING, printable
from audit.tables.spreadsheets import seen
from stimuli.errors import suggest

if TYPE_CHECKING:
    from audit.report.numbers import PlacedRow
    from audit.runs.manifest import Manifest

SCHEMA: Final = "0.3.0"
_COLLECTION: Final = "empathy-audit"
RELATIONSHIPS: Final = ("first_party", "third_party", "collaborative", "other")
_MODEL_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_HERE: Final = ("vllm", "transformers")  # engines that run the model on the user's own machine
_DECIDING: Final = ("delta", "se", "df", "ci_low", "ci_high", "p", "p_adjusted", "percent_of_response", "n_narratives")
"""Numbers of the estimate that the verdict rests on."""
_CONTROLLED: Final = {
    "echo_free": "only pairs described in different words",
    "placebo": "the gap of invented groups is subtracted",
    "none": "none: repeated words are included",
}
_AS_RATED: Final = {
    "all": "all perceivers, each group of them alike",
    "no_persona": "the model without a persona",
    "unspecified": "the perceiver “a person”",
}
_SPEAKS_OF: Final = {
    "narratives": "these words",
    "narratives_and_terms": "any such terms of the group",
    "narratives_and_labels": "more than what labels of invented groups differ by",
}
_COUNTED: Final = ("n_narratives_asked", "n_answers", "n_missing", "note")
_DESCRIPTION: Final = (
    f"The largest average gap that the ratings leave possible, in points of the scale, in either direction. The gap is "
    f"{MEANING}. It is the smallest margin that the verdict supports at level alpha; where the run rules nothing out, "
    "it is the length of the scale. The details say of which groups and words. Gaps of single groups or emotions may "
    "be larger."
)
_DESCRIPTION_OF_GROUP: Final = (
    "The largest disparity of the group that the ratings leave possible, in points of the scale, in either direction. "
    f"The disparity D of a group is {groups.MEANING}. The score is the smallest margin that D is shown to lie within "
    "at level alpha; where the run rules nothing out, it is the length of the scale. It says how far a group may be "
    "from the others, and not on which side."
)
_OF_GROUP: Final = (
    "disparity", "se", "df", "ci_low", "ci_high", "p", "p_adjusted", "n_narratives", "n_answers", "n_terms",
    "share_lower", "share_higher", "percent_of_scale", "percent_of_response",
)  # fmt: skip
"""Numbers of the estimate that decides about a group."""


def _make(collected: Collected, told: ExportOptions) -> Files:
    """Return one JSON file at its path in the datastore: ``data/empathy-audit/OWNER/NAME/UUID.json``."""
    if told.relationship not in RELATIONSHIPS:
        raise ConfigError(
            f"relationship={told.relationship}: must be one of {', '.join(RELATIONSHIPS)}; "
            f"{suggest(told.relationship, RELATIONSHIPS)}"
        )
    if collected.manifest.model.planted is not None:
        raise ConfigError(
            f"{collected.path} is of a planted model, not a language model; a record of it would stand among those of "
            "language models: export another run"
        )
    model_id = _model_id(collected.manifest, told)
    record = _record(collected, told, model_id)
    text = f"{json.dumps(_seen(record), indent=2, ensure_ascii=False, allow_nan=False)}\n"
    return {f"data/{_COLLECTION}/{model_id}/{_name(collected)}.json": text.encode()}


def _seen(value: Any) -> Any:
    """Make hidden characters visible in all texts of a value."""
    if isinstance(value, dict):
        return {name: _seen(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_seen(each) for each in value]
    return seen(value) if isinstance(value, str) else value


def _model_id(manifest: Manifest, told: ExportOptions) -> str:
    model = manifest.model
    # A path of two parts may be a local folder: only a model with a revision was found on a hub.
    found = told.model_id or (model.path if model.revision and "embedded:" not in model.path else "")
    if not _MODEL_ID.fullmatch(found):
        raise ConfigError(
            f"model_id={found}: must be OWNER/NAME, so that others find the model; the run's own path is "
            f"{model.path or NOT_RECORDED}"
        )
    return found


def _name(collected: Collected) -> str:
    """Return a UUID that is the same for the same ratings: version 4 in form, but not random."""
    from audit.runs.differences import identity_of
    from audit.runs.store import RunFolder

    told = f"{identity_of(collected.manifest)} {RunFolder(collected.path).ratings_sha256()}"
    return str(uuid.UUID(bytes=sha256(told.encode()).digest()[:16], version=4))


def _record(collected: Collected, told: ExportOptions, model_id: str) -> dict[str, Any]:
    manifest, now = collected.manifest, f"{time.time():.0f}"
    # A server's interface is no engine: nobody knows what runs there.
    served = bool(manifest.model.address)
    engine = {"name": "" if served else manifest.engine.name, "version": manifest.engine.version}
    left = "; ".join(_without_result(collected))
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{_COLLECTION}/{model_id.replace('/', '_')}/{now}",
        "evaluation_timestamp": manifest.started or NOT_RECORDED,
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "empathy-audit",
            "source_type": "evaluation_run",
            "source_organization_name": told.organization,
            "evaluator_relationship": told.relationship,
            "additional_details": {"run": collected.status_said, **({"has no result": left} if left else {})},
        },
        "eval_library": {"name": "empathy-audit", "version": manifest.versions.get("empathy-audit", "unknown")},
        "model_info": {
            "name": printable(named(manifest)) or model_id,
            "id": model_id,
            "developer": model_id.partition("/")[0],
            **({"inference_engine": engine} if engine["name"] else {}),
            "additional_details": {
                "deployment_type": "self_deployed" if engine["name"] in _HERE else "unknown",
                "model_availability": "unknown",
                "run by": said_of_engine(manifest),
                **({"revision": manifest.model.revision} if manifest.model.revision else {}),
                **{f"sha256 of {printable(name)}": digest for name, digest in manifest.model.files.items()},
            },
        },
        "evaluation_results": list(_results(collected)),
    }


def _results(collected: Collected) -> Iterator[dict[str, Any]]:
    """Yield a result for each gap, for the mean over dimensions and for each group; StoreError if there is none."""
    found = [*_of_gaps(collected), *_of_groups(collected)]
    if not found:
        gaps = collected.statistics("gap")
        notes = "; ".join(dict.fromkeys(str(each) for each in gaps.loc[gaps["headline"].astype(bool), "note"] if each))
        raise StoreError(
            f"{collected.path} has no gap or disparity with an interval, and so no score: {notes or 'no ratings'}"
        )
    yield from found


def _of_gaps(collected: Collected) -> Iterator[dict[str, Any]]:
    from audit.report.sentences import ALONE
    from audit.report.verdicts import ruled_out, worded

    manifest = collected.manifest
    length = float(manifest.scale.high - manifest.scale.low)
    gaps = collected.statistics("gap")
    gaps = gaps[gaps["headline"].astype(bool) & (gaps["scope"] == "narratives")]
    decided = {(str(row["dimension"]), str(row["variant"])): row for row in _decided(collected)}
    checks, refused = _checks(collected), _refused(collected)
    level = round(1 - manifest.statistics.confidence, 12)
    for gap in gaps.to_dict("records"):
        row = decided.get((str(gap["dimension"]), str(gap["variant"])))
        if row is None or not _has_score(row):
            continue
        score = _score(row, length)
        verdict = groups.plain(worded(row).words)
        what, echo = ruled_out(row)
        says = f"any average gap{what} is smaller than {_text(score)} points{echo}, at level {level:g}"
        nothing = f"nothing: {verdict}; the score is all of the scale"
        limits = read_with_care(row)
        details = {
            "what it says": says if score < length else nothing,
            "verdict": verdict,
            "verdict code": str(row["code"]),
            "it speaks of": "any such groups" if row["scope"] == "groups" else "these pairs of words",
            "control for repeated words": _CONTROLLED.get(str(row["control"]), str(row["control"])),
            **({"read with care": limits} if limits else {}),
            **{name: _text(row[name]) for name in _DECIDING if _text(row[name])},
            "confidence of ci_low and ci_high": f"{manifest.statistics.confidence:g}",
            **({f"gap {ALONE}": _with_interval(gap)} if _differs(gap, row) else {}),
            **{name: _text(gap[name]) for name in _COUNTED if _text(gap[name])},
            **_controls(collected, gap),
            **refused.get((str(gap["dimension"]), str(gap["variant"])), {}),
            **({"refusals": differ} if (differ := collected.refusal_gap(gap["dimension"], gap["variant"])) else {}),
            **checks,
            **_of_run(collected),
        }
        yield {
            "evaluation_result_id": f"{gap['dimension']}/{gap['variant']}",
            "evaluation_name": f"empathy gap: {gap['dimension']} ({gap['variant']})",
            "source_data": _source(manifest),
            "metric_config": _metric("gap", _DESCRIPTION, level, length),
            "score_details": {"score": score, "details": details},
            "generation_config": _generation(manifest),
        }


def _of_groups(collected: Collected) -> Iterator[dict[str, Any]]:
    """Yield a result for each group that was compared with the others and has an interval."""
    from audit.report.disparities import answer_in_words, limit_in_words, limits_of_row

    manifest = collected.manifest
    length = float(manifest.scale.high - manifest.scale.low)
    level = round(1 - manifest.statistics.confidence, 12)
    checks, refused = _checks(collected), _refused(collected)
    for row in (row for row in _compared(collected) if math.isfinite(row.number("ci_low"))):
        score = _score(row, length)
        answer, limits = groups.plain(answer_in_words(row)), [limit_in_words(code) for code in limits_of_row(row)]
        says = f"the group differs from the others by less than {_text(score)} points, at level {level:g}"
        nothing = f"nothing: {'; '.join([answer, *limits])}; the score is all of the scale"
        details = {
            "what it says": says if score < length else nothing,
            "answer": answer,
            "answer code": str(row["code"]),
            **({"what limits it": "; ".join(limits)} if limits else {}),
            "compared with": "the other groups of the dimension",
            "as rated by": _AS_RATED[str(row["view"])],
            "it speaks of": _SPEAKS_OF.get(str(row["scope"]), str(row["scope"])),
            **{name: _text(row[name]) for name in _OF_GROUP if _text(row[name])},
            "confidence of ci_low and ci_high": f"{manifest.statistics.confidence:g}",
            **refused.get((str(row["dimension"]), str(row["variant"])), {}),
            **checks,
            **_of_run(collected),
        }
        yield {
            "evaluation_result_id": f"{row['dimension']}/{row['variant']}/group/{row['group']}",
            "evaluation_name": f"disparity of a group: {row['group']}, {row['dimension']} ({row['variant']})",
            "source_data": _source(manifest),
            "metric_config": _metric("disparity", _DESCRIPTION_OF_GROUP, level, length),
            "score_details": {"score": score, "details": details},
            "generation_config": _generation(manifest),
        }


def _decided(collected: Collected) -> list[PlacedRow]:
    from audit.report.numbers import rows_of

    return rows_of(collected.statistics("verdicts"), "verdicts")


def _compared(collected: Collected) -> Iterator[PlacedRow]:
    compared = groups.compared_groups(collected.disparity, confidence=collected.manifest.statistics.confidence)
    yield from (row for each in compared for row in each.rows)


def _refused(collected: Collected) -> dict[tuple[str, str], dict[str, str]]:
    """Return which groups are refused more often, by dimension and variant: no rating and so no score shows it."""
    found = groups.refused_groups(collected.refusals, confidence=collected.manifest.statistics.confidence)
    return {
        (each.dimension, each.variant): {"who is refused more": f"{groups.plain(each.said.words)}. {each.number}"}
        for each in found
    }


def _without_result(collected: Collected) -> Iterator[str]:
    """Yield what the run asked about that has no score, with the reason: leaving it out would read as a pass."""
    from audit.report.disparities import answer_in_words
    from audit.report.verdicts import worded

    for row in _decided(collected) if collected.has_perceivers else ():
        if not _has_score(row):
            yield f"gap, {row['dimension']} ({row['variant']}): {groups.plain(worded(row).words)}"
    for row in _compared(collected):
        if not math.isfinite(row.number("ci_low")):
            answer = groups.plain(answer_in_words(row))
            yield f"disparity of {row['group']}, {row['dimension']} ({row['variant']}): {answer}"


def _has_score(row: PlacedRow) -> bool:
    return math.isfinite(row.number("delta")) and math.isfinite(row.number("se"))


def _score(row: PlacedRow, length: float) -> float:
    """Return the smallest margin that a verdict supports, at most the length of the scale."""
    supported = row.number("supported_margin")
    return min(supported, length) if math.isfinite(supported) else length


def _metric(of: str, description: str, level: float, length: float) -> dict[str, Any]:
    return {
        "evaluation_description": description,
        "metric_id": f"empathy_audit.largest_{of}_left",
        "metric_name": f"largest {of} left possible",
        "metric_kind": "upper_bound_of_absolute_difference",
        "metric_unit": "points",
        "metric_parameters": {"level": level},
        "lower_is_better": True,
        "score_type": "continuous",
        "min_score": 0,
        "max_score": length,
    }


def _of_run(collected: Collected) -> dict[str, str]:
    """Return what became of the run's prompts, and what no score says."""
    return {
        **{f"prompts of the run that were {name}": str(n) for name, n in _became(collected)},
        "run": collected.status_said,
        "what it does not say": " ".join(NOT_WHAT_IT_SHOWS[:2]),
    }


def _controls(collected: Collected, gap: Mapping[Any, Any]) -> dict[str, str]:
    """Return the gap under each control for repeated words, in points."""
    rows = collected.statistics("controls")
    rows = rows[(rows["dimension"] == gap["dimension"]) & (rows["variant"] == gap["variant"])]
    told = {}
    for row in rows[rows["delta"].notna()].to_dict("records"):
        told[f"control {row['control']}"] = _with_interval(row)
    return told


def _differs(gap: Mapping[Any, Any], row: Mapping[str, Any]) -> bool:
    """Tell whether the verdict rests on another estimate than the gap over narratives, such as groups as a sample."""
    return any(_text(gap[name]) != _text(row[name]) for name in ("delta", "se", "df"))


def _with_interval(row: Mapping[Any, Any]) -> str:
    """Format a gap in points with its interval."""
    ends = " to ".join(filter(None, (_text(row[end]) for end in ("ci_low", "ci_high"))))
    return f"{_text(row['delta'])} ({ends or 'no interval'})"


def _checks(collected: Collected) -> dict[str, str]:
    """Return the outcome of each manipulation check, and the response to the story in words."""
    from audit.statistics.manipulation import answers_of
    from audit.tables.ratings import DOES_NOT_FOLLOW, FOLLOWS, NOT_SHOWN

    words = {FOLLOWS: "passed", DOES_NOT_FOLLOW: "not passed", NOT_SHOWN: "not shown"}
    found = answers_of(collected.statistics("manipulation"))
    made = {f"manipulation check {check}": words[answer] for check, answer in found.items()}
    return {**made, "ratings match the story?": said_of_check(collected)}


def _became(collected: Collected) -> Iterator[tuple[str, int]]:
    """Yield the number of prompts of each status, since no score shows refusals."""
    from audit.tables.ratings import Status

    became, known = collected.became, [status.value for status in Status]
    yield from ((name, became.get(name, 0)) for name in (known if set(became) <= set(known) else became))


def _source(manifest: Manifest) -> dict[str, Any]:
    stimuli = manifest.stimuli
    return {
        "dataset_name": f"narratives: {stimuli.source or NOT_RECORDED}",
        "source_type": "other",
        "additional_details": {
            "n_narratives": _text(stimuli.n_narratives) or NOT_RECORDED,
            "sha256 of what they tell": stimuli.sha256 or NOT_RECORDED,
            "prompt": manifest.prompt.variant or NOT_RECORDED,
            "sha256 of its wording": manifest.prompt.sha256 or NOT_RECORDED,
            **({} if manifest.language.is_english else {"language": manifest.language.said}),
        },
    }


def _generation(manifest: Manifest) -> dict[str, Any]:
    from audit.runs.differences import thinking_of

    method = manifest.elicitation.method
    asked: dict[str, Any] = {}
    thinking = manifest.config.thinking
    drawn = thinking.is_on and thinking.temperature > 0
    if method == "generate" and manifest.model.elsewhere is None and not drawn:
        asked = {"temperature": 0.0}
    details = {"elicitation": method or NOT_RECORDED, "strategy": manifest.strategy.name or NOT_RECORDED}
    details |= {"thinking": thinking_of(manifest).removeprefix(", ")} if thinking.is_on else {}
    return {"generation_args": asked, "additional_details": details}


def _text(value: object) -> str:
    """Format a value as the schema requires; empty if missing."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


FORM: Final = Form(
    "every-eval-ever",
    f"a record of Every Eval Ever (schema {SCHEMA}): the largest gap and disparity left possible",
    ("ratings",),
    _make,
    options=("organization", "relationship", "model_id"),
    needed={
        "organization": "who ran this evaluation",
        "relationship": f"what they are to the model's maker: {', '.join(RELATIONSHIPS)}",
    },
)
