"""A run's manifest for the report: values as words, and everything else section by section."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import yaml

from audit.runs.manifest import Manifest, ManifestError, Noise, RecordedEnds
from audit.tables.formatting import brief, count, scale_end

NOT_RECORDED: Final = "not recorded"

_SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "model": ("name", "path", "revision", "dtype", "files"),
    "engine": ("name", "version", "device"),
    "elicitation": ("method",),
    "scale": ("low", "high", "low_label", "high_label"),
    "stimuli": ("source", "n_narratives", "n_emotions", "emotions", "sha256", "license"),
    "prompt": ("variant", "sha256"),
    "counts": ("rated", "refused", "unparseable", "failed", "total"),
    "timings": ("load_s", "elicit_s", "prompts_per_s"),
    "versions": (),
    "hardware": (),
}
"""Sections of the manifest, each with the keys that are shown as "not recorded" if absent."""
_OF_RATINGS: Final = frozenset({"elicitation", "scale"})
_RUN: Final = ("schema_version", "started", "finished", "seed", "dimensions")
_ELSEWHERE: Final = frozenset(
    {"config", "command", "report_command", "example_prompt", "identity", "ledger", "shard_size"}
)
"""Shown in their own places, or (``identity``) a repetition of the configuration that resuming a run compares, or
(``ledger``, ``shard_size``) how the run was stored, which changes no result.
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """A section of the manifest as shown: names, dotted if nested, and values."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ManifestView:
    """Values of the manifest for the report; texts that the run did not record read "not recorded"."""

    model: str
    method: str  # `expected`, `generate` or another elicitation; for a run without ratings, its task
    parser: str  # what read the answers that the model wrote
    begun: str  # the prefilled start of the model's answers
    asks_ends: bool  # whether `expected` asked if numbers end; earlier versions did not
    ends: RecordedEnds  # whether numbers' ends were calibrated on a sample
    confidence: float  # 0.95 if not recorded
    margin: float | None  # gap that counts as too small to matter, in points; None if none was chosen
    drawn: frozenset[str]  # dimensions in which each narrative was asked about some of the pairs only
    left_out: Mapping[str, int]  # by dimension, how many narratives it leaves out because they contradict a group
    low: float  # ends of the scale, in points; NaN in a run without ratings
    high: float
    low_label: str  # what the ends mean, e.g. "not at all"
    high_label: str
    stimuli: str  # source of the narratives
    n_narratives: int  # that the run asks about; 0 if not recorded
    n_available: int  # narratives in that source; 0 if not recorded
    language: str  # for prompts not in English
    language_code: str
    language_reviewed: str  # who reviewed its pack
    language_policy: str  # how the pack words people
    variant: str
    strategy: str
    strategy_source: str
    strategy_deviates: str  # how the strategy deviates from its source
    date: str  # day on which the run started, ISO 8601
    revision: str  # of the model
    version: str  # of empathy-audit
    emotions: tuple[str, ...]
    system_prompt: str
    turns: tuple[tuple[str, str], ...]  # role and text of each turn between system and user prompt
    user_prompt: str
    command: str
    report_command: str  # the command that analysed the run anew with other settings
    digest: str  # SHA-256 of prompts and answers
    preset: str  # the chosen experiment, or a substitute if there is none
    replicates: bool  # whether the run is of the published study
    config: str  # the composed configuration, as YAML
    human: str  # the file of people's intensities
    noise: Noise | None  # what asking again changed; None if no rating was elicited again
    noise_formats: Mapping[str, Noise]
    facts: tuple[Facts, ...]  # everything else, section by section

    @property
    def scale(self) -> str:
        """The scale's name, e.g. "0–100"."""
        return f"{scale_end(self.low)}\N{EN DASH}{scale_end(self.high)}"

    @property
    def of_another_tool(self) -> bool:
        """Whether another tool collected what the page shows."""
        return self.method == "outside"

    @property
    def has_prompt(self) -> bool:
        """Whether an example prompt was recorded."""
        return bool(self.system_prompt or self.user_prompt)


def view_manifest(manifest: Manifest, *, rated: bool = True, shown: Mapping[str, object] | None = None) -> ManifestView:
    """Select the report's values from a manifest.

    ``shown`` replaces the manifest's content among ``facts``, if a part of it is shown elsewhere. ManifestError if a
    value without which the report's sentences have no meaning is missing: ``model.name`` or, for ratings, the scale or
    the elicitation.
    """
    model, scale, elicitation, strategy = manifest.model, manifest.scale, manifest.elicitation, manifest.strategy
    spoken = manifest.language
    example, noise, statistics = manifest.example_prompt, manifest.noise, manifest.statistics
    required: dict[str, object] = {"model.name": model.card}
    if rated:
        required |= {"elicitation.method": elicitation.method, "scale.low": scale.low, "scale.high": scale.high}
    else:
        required |= {"task.kind": manifest.task.kind}
    for path, found in required.items():
        if found == "" or found != found:
            raise ManifestError(_lacking(manifest, path))
    content = manifest.content if shown is None else shown
    if model.card not in ("", model.name):
        content = {**content, "model": {"name": model.name, "card": model.card, **_without(model.content, "name")}}
    return ManifestView(
        model=model.name,
        method=elicitation.method if rated else "outside" if manifest.outside.replies else manifest.task.kind,
        parser=_text(elicitation.parser, absent=""),
        begun=_text(elicitation.prefill, absent=""),
        asks_ends=bool(manifest.identity.elicitation.get("reads")),
        ends=manifest.ends,
        confidence=statistics.confidence,
        margin=statistics.margin,
        drawn=frozenset(manifest.pairs_drawn),
        left_out=manifest.left_out,
        low=scale.low,
        high=scale.high,
        low_label=_text(scale.low_label, absent=""),
        high_label=_text(scale.high_label, absent=""),
        stimuli=_text(manifest.stimuli.source),
        n_narratives=manifest.stimuli.n_narratives or 0,
        n_available=manifest.stimuli.n_available or 0,
        language="" if spoken.is_english else _text(spoken.name),
        language_code=_text(spoken.code),
        language_reviewed=_text(spoken.reviewed),
        language_policy=_text(spoken.policy),
        variant=_text(manifest.prompt.variant),
        strategy=_text(strategy.name, absent=""),
        strategy_source=_text(strategy.source, absent=""),
        strategy_deviates=_text(strategy.deviates, absent=""),
        date=_day(_text(manifest.started)),
        revision=_text(model.revision),
        version=_text(manifest.versions.get("empathy-audit", "")),
        emotions=manifest.stimuli.emotions,
        system_prompt=_text(example.system, absent=""),
        turns=tuple((role, _show(text)) for role, text in example.turns),
        user_prompt=_text(example.user, absent=""),
        command=_text(manifest.command),
        report_command=_text(manifest.report_command, absent=""),
        digest=manifest.digest,
        preset=_text(manifest.preset),
        replicates=manifest.replicates,
        config=_config(manifest.config.content),
        human=_text(manifest.human.where, absent=""),
        noise=noise if _is_known(noise) else None,
        noise_formats={name: own for name, own in manifest.noise_formats.items() if _is_known(own)},
        facts=tuple(_facts(content, rated=rated)),
    )


@dataclass(frozen=True, slots=True)
class ExampleView:
    """One prompt in full, with the names of `ManifestView`."""

    system_prompt: str
    turns: tuple[tuple[str, str], ...]
    user_prompt: str
    begun: str
    language: str
    language_code: str


def example_view(manifest: Manifest) -> ExampleView | None:
    """Return a run's example prompt; None if none was recorded."""
    example, spoken = manifest.example_prompt, manifest.language
    if not (example.system or example.user):
        return None
    turns = tuple((role, _show(text)) for role, text in example.turns)
    system, user, begun = (_text(part, absent="") for part in (example.system, example.user, example.begun))
    language = "" if spoken.is_english else _text(spoken.name)
    return ExampleView(system, turns, user, begun, language, _text(spoken.code))


def _without(content: Mapping[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in content.items() if key != name}


def _lacking(manifest: Manifest, path: str) -> str:
    """Say what the manifest lacks, and what it has in that section."""
    name = path.partition(".")[0]
    section = manifest.content.get(name)
    known = ", ".join(map(str, section)) if isinstance(section, Mapping) and section else "nothing"
    return f"the manifest has no {path}, which the report needs; {name} has: {known}"


def _is_known(noise: Noise) -> bool:
    return bool(noise.n) and math.isfinite(noise.rms_points + noise.max_points)


def _text(found: str, absent: str = NOT_RECORDED) -> str:
    return _show(found) if found else absent


def _show(found: object) -> str:
    """Format a value of the manifest. Floats are timings and the like, for which six digits suffice."""
    if found is None or found == "":
        return NOT_RECORDED
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, int):
        return count(found) if abs(found) >= 10_000 else str(found)
    if isinstance(found, float):
        return f"{found:,.6g}"
    if isinstance(found, Sequence) and not isinstance(found, str):
        return ", ".join(map(_show, found)) if found else "none"
    return brief(str(found), at_most=1_000)


def _day(started: str) -> str:
    try:
        return datetime.fromisoformat(started).date().isoformat()
    except ValueError:
        return started


def _config(config: Mapping[str, object]) -> str:
    if not config:
        return ""
    shown = {name: value for name, value in config.items() if name != "shard_size"}
    plain = json.loads(json.dumps(shown, default=str))
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100))


def _facts(content: Mapping[str, object], *, rated: bool) -> Iterator[Facts]:
    seed = content.get("seed")
    # A seed is a name, not an amount: no thousands separator.
    run = {**{name: content.get(name) for name in _RUN}, "seed": None if seed is None else str(seed)}
    others = {name: value for name, value in content.items() if name not in {*_RUN, *_SECTIONS, *_ELSEWHERE}}
    plain = {name: value for name, value in others.items() if not isinstance(value, Mapping)}
    yield Facts("run", tuple(_leaves({**run, **plain})))
    expected_here = {name: keys for name, keys in _SECTIONS.items() if rated or name not in _OF_RATINGS}
    for section, expected in {**expected_here, **{name: () for name in others if name not in plain}}.items():
        found = content.get(section)
        values = dict(found) if isinstance(found, Mapping) else {} if found is None else {section: found}
        shown = {**dict.fromkeys(expected), **values}
        yield Facts(section, tuple(_leaves(shown)) or ((section, NOT_RECORDED),))


def _leaves(values: Mapping[str, object], *, above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, above=f"{above}{name}: ")
        else:
            yield f"{above}{name}", _show(value) if not isinstance(value, Mapping) else "none"
