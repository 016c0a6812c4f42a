"""Prompts that another stack asks: an id for each, what is kept beside them, and what of all there is they are.

``FILE.jsonl`` has the prompts, ``FILE.jsonl.run.json`` beside it all that an analysis of their answers needs: the
configuration, the parts of the prompts (identities with their groups, in-group pairs, narratives, wordings, scale) and
the SHA-256 of the prompts' file. So nothing is guessed when answers come back.
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
from audit.configuration.schema import (
    AuditConfig,
    ElicitationConfig,
    EngineConfig,
    fingerprint,
    load_config,
    load_model,
)
from audit.errors import ConfigError, StoreError
from audit.runs.files import write_atomically
from audit.runs.planned import Planned
from audit.runs.prompts import PromptsAsked
from audit.tables.formatting import plural
from audit.tables.json_text import parse_json
from stimuli.files import open_file, read_file
from stimuli.identities import Dimension, load_dimensions

_FORMAT: Final = 1
_OF_A_MODEL: Final = ("model", "engine", "elicitation", "special_tokens")
"""Keys of a run's identity that say who is asked, and how an answer is read: prompts are the same for all."""


def export_id(plan: Planned) -> str:
    """Return what the ids of a run's prompts begin with: the same for the same prompts, whoever is asked."""
    asked = {key: value for key, value in plan.identity().items() if key not in _OF_A_MODEL}
    return fingerprint({**asked, "begun": getattr(plan, "begun", "")})[:12]


def with_ids(records: Iterator[dict[str, Any]], export: str) -> Iterator[dict[str, Any]]:
    """Yield prompts with an id each, and with their messages as other stacks take them.

    What an answer is begun with is a last message of the assistant. A prompt that shows what only a model can tell has
    no messages: it cannot be asked as it stands.
    """
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
    """Return where an export keeps what its prompts' file does not say."""
    return prompts.with_name(f"{prompts.name}.run.json")


def messages_in(prompts: Path) -> list[list[tuple[str, str]]]:
    """Return role and text of the messages of each prompt of a file, in their order.

    Raises
    ------
    StoreError
        If it cannot be read.
    """
    try:
        with io.TextIOWrapper(open_file(prompts), encoding="utf-8") as lines:
            return [[(each["role"], each["content"]) for each in json.loads(line)["messages"]] for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"prompts={prompts} cannot be read ({error}); write the prompts anew, their ids stay"
        ) from error


@dataclass(frozen=True)
class Export:
    """What was written beside prompts.

    Attributes
    ----------
    id
        What the prompts' ids begin with.
    prompts_sha256
        Of the file of prompts.
    preset
        The experiment that it is.
    config
        What the prompts were made of.
    asked
        The prompts.
    """

    id: str
    prompts_sha256: str
    preset: str
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
        """Return what was written beside a file of prompts.

        Raises
        ------
        StoreError
            If there is no such file, it cannot be read, or the prompts were changed since.
        """
        beside = file_beside(prompts)
        try:
            with open_file(prompts) as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise StoreError(f"prompts={prompts} cannot be read ({error.strerror or error})") from error
        try:
            content = parse_json(read_file(beside))
            if content["format"] != _FORMAT:
                raise ValueError(f"it has format {content['format']!r}; this version of empathy-audit reads {_FORMAT}")
            told = {name: content[name] for name in ("id", "prompts_sha256", "preset")}
            if wrong := next((name for name, text in told.items() if not isinstance(text, str)), None):
                raise ValueError(f"its {wrong} is {told[wrong]!r:.40}, and should be text")
            found = cls(
                told["id"],
                told["prompts_sha256"],
                told["preset"],
                load_config(content["config"]),
                PromptsAsked.of(content["prompts"]),
            )
        except FileNotFoundError as error:
            raise StoreError(
                f"prompts={prompts}: there is no {beside.name} beside it, which says whose answers they are; write "
                f"both by: python -m audit prompts ... out={prompts.name}"
            ) from error
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
            raise StoreError(f"{beside} cannot be read ({error}); write the prompts anew, their ids stay") from error
        if sha256 != found.prompts_sha256:
            raise StoreError(
                f"prompts={prompts} is not the file that {beside.name} was written with (SHA-256 {sha256[:12]}, not "
                f"{found.prompts_sha256[:12]}): it was changed; restore it, or write both anew"
            )
        return found

    def plan(self, *, model: str) -> Plan:
        """Return the plan of the run whose answers are read.

        Parameters
        ----------
        model
            What the model is called.
        """
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
            # Whoever asked, it was no engine of ours; a judge of the replies may be run by one.
            "engine": EngineConfig.model_validate(
                {**own.engine.model_dump(exclude={"server", "batch"}), "name": "auto", "add_special_tokens": False}
            ),
            # What is asked beside the ratings was not.
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
    """Return why the answers to a run's prompts cannot be read from a file; empty where they can be.

    Parameters
    ----------
    plan
        The run's.
    kind, readable
        The task's name, and whether its answers can be read at all.
    """
    strategy = plan.strategy
    if not readable:
        return f"answers of task={kind} are not read from a file; task=intensity and task=reply are"
    if plan.config.thinking.is_on:
        return f"thinking={plan.config.thinking.mode} asks after a thought of the model's own, which is not there yet"
    if strategy.stages:
        return f"strategy {strategy.name} asks after what the model itself writes before, which stands in brackets here"
    if strategy.brings:
        return f"strategy {strategy.name} brings examples or knowledge, which are settled when a run begins"
    return ""


def sample_of(plan: Planned) -> str:
    """Return what a run's prompts leave out of all there is, and how to have all; empty where that is nothing."""
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
    return f"a sample: {', '.join(left_out)}; to have all: {' '.join(remedies)}" if left_out else ""


def _dimensions(config: AuditConfig, names: list[str] | None = None) -> tuple[Dimension, ...]:
    """Return dimensions with all their terms."""
    stimuli = config.stimuli
    own = stimuli.own_identities
    return load_dimensions(stimuli.identities, own=own, names=names, unspecified=False, cues=stimuli.cues)


def _terms(dimension: Dimension, side: str) -> list[str]:
    """Return the wordings of a side's groups, without baselines."""
    sides = dimension.perceivers if side == "perceiver" else dimension.experiencers
    return [each.term for each in sides if each.groups]
