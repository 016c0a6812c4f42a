"""Exports prompts for another tool to ask: gives them ids and keeps what an analysis of the answers needs.

``FILE.jsonl`` has the prompts. ``FILE.jsonl.run.json`` beside it has the configuration, the parts of the prompts
(identities with their groups, in-group pairs, narratives, wordings, scale) and the SHA-256 of the prompts' file, so
that nothing is guessed when answers come back.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from audit.asking.plan import Plan
from audit.configuration.elicitation import ElicitationConfig
from audit.configuration.engine import EngineConfig
from audit.configuration.schema import AuditConfig, load_config, load_model
from audit.errors import ConfigError, StoreError
from audit.runs.files import write_atomically
from audit.runs.planned import Planned
from audit.runs.prompts import PromptsAsked
from audit.tables.formatting import plural
from stimuli.files import open_file, read_file
from stimuli.hashes import fingerprint
from stimuli.identities import Dimension, load_dimensions
from stimuli.json_text import parse_json

_FORMAT: Final = 1
_OF_A_MODEL: Final = ("model", "engine", "elicitation", "special_tokens")
"""Keys of a run's identity about the model and how answers are read; prompts do not depend on them."""


def export_id(plan: Planned) -> str:
    """Return the prefix of the ids of a run's prompts, which depends on the prompts only, not on the model."""
    asked = {key: value for key, value in plan.identity().items() if key not in _OF_A_MODEL}
    return fingerprint({**asked, "begun": getattr(plan, "begun", "")})[:12]


def with_ids(records: Iterator[dict[str, Any]], export: str) -> Iterator[dict[str, Any]]:
    """Add to each prompt an id and its chat messages; none if only a model can supply a part of them."""
    for place, record in enumerate(records):
        named = {"id": f"{export}-{place}", **record}
        yield named if "stages" in record else named | {"messages": _messages(record)}


def _messages(record: Mapping[str, Any]) -> list[dict[str, str]]:
    turns = [
        *([("system", record["system"])] if record["system"] else []),
        *record.get("turns", ()),
        ("user", record["user"]),
        *([("assistant", record["begun"])] if record.get("begun") else []),
    ]
    return [{"role": role, "content": text} for role, text in turns]


def file_beside(prompts: Path) -> Path:
    """Return the file beside an export's prompts."""
    return prompts.with_name(f"{prompts.name}.run.json")


def messages_in(prompts: Path) -> list[list[tuple[str, str]]]:
    """Read the role and text of each prompt's messages, in order."""
    try:
        with io.TextIOWrapper(open_file(prompts), encoding="utf-8") as lines:
            return [[(each["role"], each["content"]) for each in json.loads(line)["messages"]] for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"prompts={prompts} cannot be read ({error}); write the prompts again (their ids stay the same)"
        ) from error


@dataclass(frozen=True)
class Export:
    """What is stored beside exported prompts."""

    id: str  # prefix of the prompts' ids
    prompts_sha256: str  # of the file of prompts
    preset: str  # name of the experiment
    config: AuditConfig
    asked: PromptsAsked

    def write(self, prompts: Path) -> None:
        """Write it beside a file of prompts."""
        content = {
            "format": _FORMAT,
            "id": self.id,
            "n_prompts": len(self.asked.grid),
            "prompts_sha256": self.prompts_sha256,
            "preset": self.preset,
            "config": self.config.model_dump(mode="json"),
            "prompts": self.asked.content(),
        }
        write_atomically(file_beside(prompts), f"{json.dumps(content, allow_nan=False)}\n".encode())

    @classmethod
    def read(cls, prompts: Path) -> Self:
        """Read it from beside a file of prompts, and check that the prompts have not changed."""
        beside = file_beside(prompts)
        try:
            with open_file(prompts) as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise StoreError(f"prompts={prompts} cannot be read ({error.strerror or error})") from error
        try:
            content = parse_json(read_file(beside))
            if content["format"] != _FORMAT:
                raise ValueError(
                    f"its format is {content['format']!r}; this version of empathy-audit reads format {_FORMAT}"
                )
            told = {name: content[name] for name in ("id", "prompts_sha256", "preset")}
            if wrong := next((name for name, text in told.items() if not isinstance(text, str)), None):
                raise ValueError(f"its {wrong} is {told[wrong]!r:.40}, but must be text")
            found = cls(
                told["id"],
                told["prompts_sha256"],
                told["preset"],
                load_config(content["config"]),
                PromptsAsked.of(content["prompts"]),
            )
        except FileNotFoundError as error:
            raise StoreError(
                f"prompts={prompts}: there is no {beside.name} beside it, which says what the answers belong to; "
                f"write both with: python -m audit prompts ... out={prompts.name}"
            ) from error
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
            raise StoreError(
                f"{beside} cannot be read ({error}); write the prompts again (their ids stay the same)"
            ) from error
        if sha256 != found.prompts_sha256:
            raise StoreError(
                f"prompts={prompts} is not the file that {beside.name} was written with (SHA-256 {sha256[:12]}, "
                f"not {found.prompts_sha256[:12]}): it has changed; restore it, or write both files again"
            )
        return found

    def plan(self, *, model: str) -> Plan:
        """Build the plan of the run whose answers are read; ``model`` is the model's name."""
        own = self.config
        card = load_model(
            {
                "name": model,
                "path": model,
                "revision": None,
                "tokenizer": None,
                "dtype": "auto",
                "quantization": None,
                "max_model_len": own.model.max_model_len,
                "trust_remote_code": False,
                "elicitation": "generate",
            }
        )
        changes: dict[str, Any] = {
            "model": card,
            # No engine of ours asked; but a judge of the replies may use one.
            "engine": EngineConfig.model_validate(
                {**own.engine.model_dump(exclude={"server", "batch"}), "name": "auto", "add_special_tokens": False}
            ),
            # The other tool did not ask the extra samples of ratings.
            "elicitation": ElicitationConfig(
                method="generate",
                max_tokens=own.elicitation.max_tokens,
                parser=own.elicitation.parser,
                max_pruned_points=own.elicitation.max_pruned_points,
                prefill=own.elicitation.prefill,
            ),
            "run_dir": None,
            "out": None,
        }
        return Plan(own.model_copy(update=changes), self.asked.grid, self.asked.strategy)


def why_not_elsewhere(plan: Planned, *, kind: str, readable: bool) -> str:
    """Say why the answers to a run's prompts cannot be read from a file; empty if they can."""
    strategy = plan.strategy
    if not readable:
        return f"answers to task={kind} cannot be read from a file; only task=intensity and task=reply can"
    if plan.config.thinking.is_on:
        return f"thinking={plan.config.thinking.mode} asks after the model's own thought, which does not exist yet"
    if strategy.stages:
        return f"strategy {strategy.name} asks after the model's own earlier texts, shown in brackets here"
    if strategy.brings:
        return f"strategy {strategy.name} uses examples or knowledge, which are chosen when a run starts"
    return ""


def sample_of(plan: Planned) -> str:
    """Say which part of all possible prompts a run leaves out, and how to include it; empty if nothing."""
    config, narratives = plan.config, plan.grid.narratives
    stimuli = config.stimuli
    left_out, remedies = [], []
    if narratives is not None and len(narratives.narratives) < narratives.n_available:
        left_out.append(f"{len(narratives.narratives):,} of {plural(narratives.n_available, 'narrative')}")
        remedies.append("stimuli.situations_per_emotion=all")
    asked = [dimension for dimension in plan.grid.dimensions if not dimension.placebo]
    whole = _dimensions(config)
    if config.dimensions is not None and (others := {d.name for d in whole} - {d.name for d in asked}):
        left_out.append(f"{len(whole) - len(others)} of {plural(len(whole), 'dimension')}")
        remedies.append("dimensions=null")
    named = _dimensions(config, names=[dimension.name for dimension in asked])
    for side, most in (("perceiver", stimuli.perceiver_terms), ("experiencer", stimuli.experiencer_terms)):
        if side == "perceiver" and stimuli.perceiver == "none":
            continue
        n_asked, n_all = (sum(len(_terms(each, side)) for each in several) for several in (asked, named))
        if most is not None and n_asked < n_all:
            left_out.append(f"{n_asked} of {n_all} identities as {side}s")
            remedies.append(f"stimuli.{side}_terms=null")
    if not stimuli.unspecified:
        left_out.append("no unspecified baseline")
        remedies.append("stimuli.unspecified=true")
    if drawn := getattr(plan.grid, "drawn", None):
        left_out.append(f"in each narrative some pairs of {', '.join(drawn)}")
        remedies.append("stimuli.pairs=all")
    return f"a sample: {', '.join(left_out)}; for all of them: {' '.join(remedies)}" if left_out else ""


def _dimensions(config: AuditConfig, names: list[str] | None = None) -> tuple[Dimension, ...]:
    stimuli = config.stimuli
    return load_dimensions(
        stimuli.identities,
        own=stimuli.own_identities,
        names=names,
        unspecified=False,
        perceivers=stimuli.perceiver != "none",
        disclosed=config.prompt.kind == "deployed",
        cues=stimuli.cues,
    )


def _terms(dimension: Dimension, side: str) -> list[str]:
    """Return the wordings of a side's groups, without baselines."""
    sides = dimension.perceivers if side == "perceiver" else dimension.experiencers
    return [each.term for each in sides if each.groups]
