"""What identifies a run that is asked, how its folder is named, and what its manifest records before it starts.

A run folder may only be continued by the run it holds: what ratings depend on is compared, key by key, before the model
is loaded and again when its files and engine are known.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.configuration.elicitation import AUTO
from audit.configuration.model import ModelConfig
from audit.configuration.schema import AuditConfig, measured
from audit.engines.hardware import cpu_name
from audit.runs.manifest import Manifest
from audit.runs.model_names import model_name
from audit.runs.planned import Planned, PromptsByIndex
from audit.runs.prompts import PromptsAsked
from audit.runs.provenance import Difference, differences, first_setting_difference, now, states_seen, versions
from stimuli.hashes import fingerprint
from stimuli.identities import Identity
from stimuli.languages import ENGLISH
from stimuli.narratives import Narratives
from stimuli.pairs import DRAW
from stimuli.prompts import Prompt, PromptGrid
from stimuli.strategies import NO_STRATEGY, Strategy

if TYPE_CHECKING:
    from audit.engines.base import Known, OpenModel

READS: Final = "numbers and their ends"
"""What `expected` asks about. Runs of earlier versions name nothing, and took "723" for 72."""
ADDED: Final = "added to what the chat template made"
"""Identity of ``engine.add_special_tokens``; without it nothing is named, as in earlier versions."""
_NEW_TO_ELICITATION: Final = {
    "prefill": "",
    "ends": "exact",
}  # new keys, with the value at which a run counts as the same
_SHARD_SIZES: Final = {"cpu": 128, "server": 1024}  # prompts of a shard, by the engine's device; 4096 for others
_WHO_ASKS: Final = ("server", "batch", "replicas", "hang_s", "ray")
"""Engine settings of how a server is asked, or by which processes; answers do not depend on them."""
_BATCH: Final = 50_000  # prompts of a shard asked by batch: the most that one batch takes
_OWNER: Final = re.compile(r"^[\w.-]+/(?=[\w.-]+(?: |$))")  # of a hub id, at the beginning of a model's name
_MODEL_LETTERS: Final = 140
_DIMENSIONS_NAMED: Final = 3  # dimensions named in a run folder's name, at most
_USUAL: Final = ("geneva", "origin")  # the packaged narratives and prompt, which such a name leaves out
_FOLDER_LETTERS: Final = 190  # of a run folder's name without its hash, at most; file systems take 255
_CHECKS: Final = ("check_sample", "noise_sample", "noise_formats", "manipulation")
"""Elicitation settings of checks asked besides the ratings, which change no rating."""
_SAME_DESIGN: Final = ("narratives", "stimuli", "seed", "engine", "model.name", "model.max_model_len")
"""Settings, or their prefixes, that may differ between runs whose ratings vary alike."""
PLACES: Final = ("path", "own_identities")  # stimuli keys that are paths; the content's hash replaces them
TOLD: Final = (
    "placebo", "placebo_terms", "intensity", "cues", "perceiver_terms", "experiencer_terms", "check_person", "missing",
    "pairs", "perceiver",
)  # fmt: skip
"""Stimuli keys that the identities, the pairs and the narratives' hash replace."""
_ALL_PAIRS: Final = "all"  # pairs of runs that name no draw of pairs, as those of earlier versions


def grid_identity(grid: PromptGrid) -> dict[str, Any]:
    """Return the grid's part of a run's identity: wordings, narratives, identities and dimensions."""
    identities = {
        d.name: [
            *([identity_asked(identity) for identity in side] for side in (d.perceivers, d.experiencers)),
            *(sorted(map(list, pairs)) for pairs in d.in_group_pairs),
        ]
        for d in grid.dimensions
    }
    return {
        "prompt": {"variant": grid.variant.name, "sha256": _wording(grid)},
        "narratives": grid.narratives.sha256,
        "identities": fingerprint(identities),
        "dimensions": [d.name for d in grid.dimensions],
        **({"pairs": DRAW} if grid.sampled else {}),
        **({"left_out": fingerprint(left_out)} if (left_out := grid.left_out) else {}),
    }


def _wording(grid: PromptGrid) -> str:
    """Return the SHA-256 of all wordings of the prompt."""
    if len(grid.wordings) == 1:
        return grid.variant.sha256
    return fingerprint({"wordings": [wording.sha256 for wording in grid.wordings]})


def identity_asked(identity: Identity) -> dict[str, Any]:
    """Return what prompts show of an identity, and its groups; not how its words are compared, which may change."""
    forms = {"forms": identity.forms} if identity.forms else {}
    said = {"said": identity.said, "cue": identity.cue} if identity.said else {}
    return {"term": identity.term, "group": identity.group, "groups": identity.groups, **forms, **said}


def settings_of(config: AuditConfig) -> dict[str, Any]:
    """Return the settings that answers depend on; added special tokens are a key of their own."""
    settings = measured(config)
    del settings["wordings"]  # the prompt's hash covers the wordings
    for key in _WHO_ASKS:
        settings["engine"].pop(key, None)
    settings["model"].pop("api_key_env", None)
    settings["model"].pop("date", None)  # named only for models whose prompts show a date
    if settings["model"]["elicitation"] == AUTO:  # as earlier versions had it; what was asked is a key of its own
        settings["model"]["elicitation"] = "generate"
    if config.model.chat_template is not None:
        from audit.engines.templates import read_template

        template = read_template(config.model.chat_template)
        settings["model"]["chat_template"] = None if template is None else template.sha256
    if settings["engine"].pop("add_special_tokens"):
        settings["special_tokens"] = ADDED
    if not config.thinking.is_on:
        del settings["thinking"]
    for key in _CHECKS:
        del settings["elicitation"][key]
    for key, absent in _NEW_TO_ELICITATION.items():
        if settings["elicitation"][key] == absent:
            del settings["elicitation"][key]
    if config.elicitation_method != "expected":  # no number's end is asked
        settings["elicitation"].pop("ends", None)
    return settings


def plan_difference(earlier: Mapping[str, Any], plan: Planned) -> Difference | None:
    """Return the first setting in which a run's identity differs from a plan's; None if they are the same run."""
    return next(_from_plan(earlier, plan), None)


def design_differences(earlier: Mapping[str, Any], plan: Planned) -> list[Difference]:
    """Return all design settings in which a run differs from a plan: not narratives, seed or engine."""
    return [each for each in _from_plan(earlier, plan) if not each.setting.startswith(_SAME_DESIGN)]


def _from_plan(earlier: Mapping[str, Any], plan: Planned) -> Iterator[Difference]:
    # Identities omit absent parts: the task for ratings, the strategy without one, and so on.
    absent = {"task": None, "strategy": None, "special_tokens": None, "thinking": None}
    now = plan.identity()
    if now["elicitation"] is not None:
        now["elicitation"] = now["elicitation"] | {
            key: None for key in _NEW_TO_ELICITATION if key not in now["elicitation"]
        }
        if "ends" not in (earlier.get("elicitation") or {}):  # begun the exact way, it goes on so
            del now["elicitation"]["ends"]
    now["model"] = {"chat_template": None, **now["model"]}
    if (earlier.get("chat") or {}).get("date") is not None:
        now["chat"] = {"date": plan.config.model.date}
    alike = {"wordings": 1, "language": ENGLISH, "pairs": _ALL_PAIRS, "left_out": None}
    return differences({**alike, **earlier}, {**absent, **alike, **now}, "")


def prompts_difference(earlier: Mapping[str, Any], plan: Planned) -> Difference | None:
    """Return :func:`plan_difference` of what prompts depend on: all but the elicitation."""
    return plan_difference({**earlier, "elicitation": plan.identity().get("elicitation")}, plan)


def kept_difference(earlier: Mapping[str, Any], asked: PromptsAsked) -> Difference | None:
    """Return the first setting in which a run's identity differs from the prompts stored in its folder, or None."""
    led = None if asked.strategy.name == NO_STRATEGY else {"sha256": asked.strategy.sha256}
    alike = {"pairs": _ALL_PAIRS, "left_out": None}
    return first_setting_difference({**alike, **earlier}, {**alike, **grid_identity(asked.grid), "strategy": led})


def model_identity(model: Known) -> dict[str, Any]:
    """Return what ratings depend on in a loaded model: its source and its engine."""
    return {**model.source.identity(), "engine_facts": asdict(model.facts)}


def model_difference(earlier: Mapping[str, Any], model: Known) -> Difference | None:
    """Return the first setting in which a run's identity differs from a loaded model's, or None."""
    identity = {"chat": None, **model_identity(model)}
    if "rendered" not in (earlier.get("chat") or {}):  # earlier versions did not look at what a server renders
        chat = {name: value for name, value in (identity["chat"] or {}).items() if name != "rendered"}
        identity["chat"] = chat if any(chat.values()) else None
    return first_setting_difference(earlier, identity)


def with_sight(manifest: Manifest, model: Known) -> Manifest:
    """Return the manifest with the model's state today, if it reports one: a server's fingerprints."""
    states = model.source.states()
    seen = list(manifest.model.content.get("seen", ()))
    new = [state for state in states or () if state not in states_seen(manifest)]
    if states is None or (seen and not new):
        return manifest
    return manifest.having(model={**manifest.model.content, "seen": [*seen, {"date": now(), "fingerprints": new}]})


def asked_model_name(model: ModelConfig) -> str:
    """Return the display name of a model that is about to be asked, see :func:`audit.runs.model_names.model_name`."""
    return model_name(model.name, model.path, server={"base_url": model.base_url or ""}, planted=model.planted)


def default_run_dir(plan: Planned, *, within: Path | None = None) -> Path:
    """Return a configuration's run folder, always the same; ``within`` None means ``reports_dir``."""
    model, parent = plan.config.model, within or plan.config.reports_dir
    asked, identity = asked_model_name(model), plan.identity()
    card = Path(model.path).name if model.name == "own" else model.name
    elicitation = {key: value for key, value in (identity.get("elicitation") or {}).items() if value != AUTO}

    def folders(identity: Mapping[str, Any]) -> Iterator[Path]:
        # Earlier versions named folders by the model's card or by what was not asked about: continue in such a folder.
        for name in (card, asked):
            yield parent / _folder_name(name, (*plan.named, plan.grid.variant.name), plan, identity)
        yield parent / _folder_name(_OWNER.sub("", asked), _question(plan), plan, identity)

    if plan.config.needs_trials:
        # Earlier versions had no trials, and wrote the answers: continue such a run, unless `generate` was asked for.
        written = {**identity, "elicitation": {**elicitation, "method": plan.config.elicitation_method}}
        for folder in folders(written):
            if Manifest.part_of(folder, "config", "elicitation").get("method") == AUTO:
                return folder
    elif elicitation.pop("ends", ""):
        # They asked whether numbers end of each prompt: continue so, unless `ends=exact` was asked for.
        for folder in folders({**identity, "elicitation": elicitation}):
            if folder.is_dir() and "ends" not in Manifest.part_of(folder, "config", "elicitation"):
                return folder
    *earlier, named = folders(identity)
    return next((folder for folder in earlier if folder.is_dir()), named)


def _question(plan: Planned) -> Iterator[str]:
    """Yield words for what is asked: the dimensions, and what differs from the packaged narratives and prompt."""
    own = [dimension.name for dimension in plan.grid.dimensions if not dimension.placebo]
    words = own if len(own) <= _DIMENSIONS_NAMED else [f"{len(own)}-dimensions"]
    yield from (word for word in (*words, *plan.named, plan.grid.variant.name) if word not in _USUAL)


def _folder_name(model: str, asked: Iterable[str], plan: Planned, identity: Mapping[str, Any]) -> str:
    config = plan.config
    led = [config.strategy.name] if config.strategy.name != NO_STRATEGY else []
    wordings = [f"{config.wordings}-wordings"] if config.wordings > 1 else []
    spoken = [config.language] if config.language != ENGLISH else []
    words = (model, *asked, *spoken, *wordings, *led)
    model, *others = (re.sub(r"[^A-Za-z0-9._]+", "-", word) for word in words)
    name = "-".join([model[:_MODEL_LETTERS], *others])[:_FOLDER_LETTERS]
    return f"{re.sub('-+', '-', name).strip('-.')}-{fingerprint(identity)[:8]}"


def shard_size_on(device: str) -> int:
    """Return the default number of prompts in a shard for the engine's device."""
    return _SHARD_SIZES.get(device, 4096)


def describe_run(
    plan: Planned,
    model: Known,
    *,
    example: Mapping[str, Any],
    given: Mapping[str, Any],
    command: str,
    same_answer: str | None = None,  # of two unlike prompts; "" if their texts differ, None if they were not asked
) -> Manifest:
    """Return a new run's manifest: everything known before it starts."""
    checked = "two unlike prompts get different texts" if same_answer == "" else model.checked
    config, grid = plan.config, plan.grid
    facts = model.facts
    identity = plan.identity()
    content = {
        "status": "running",
        "command": command,
        "started": now(),
        "n_sessions": 0,
        "n_prompts": len(grid),
        "shard_size": config.shard_size or (_BATCH if config.engine.batch else shard_size_on(facts.device)),
        "seed": config.seed,
        "model": {
            "name": config.model.name,
            "path": config.model.path,
            "revision": model.source.revision,
            "dtype": facts.dtype,
            **model.source.facts(),
            **({"same_answer": same_answer} if same_answer else {}),
        },
        "engine": asdict(facts),
        "engine_why": model.why,
        **({"engine_checked": checked} if checked else {}),
        **plan.described(),
        **_describe_language(config),
        "stimuli": _describe_narratives(grid.narratives),
        "prompt": identity["prompt"],
        "strategy": {**_describe_strategy(plan.strategy), **given},
        "dimensions": identity["dimensions"],
        "clusters": {d.name: dict(d.clusters) for d in grid.dimensions if d.clusters},
        "stems_stated": all(d.states_stems for d in grid.dimensions),
        "stems": {d.name: d.stems for d in grid.dimensions if d.stems},
        "cues": {d.name: d.cues for d in grid.dimensions if not d.placebo},
        "placebo": [d.name for d in grid.dimensions if d.placebo],
        **({"pairs_drawn": list(drawn)} if (drawn := getattr(grid, "sampled", None)) else {}),
        **({"left_out": {name: len(those) for name, those in left.items()}} if (left := _left_out(grid)) else {}),
        "versions": versions(),
        "hardware": {
            "machine": platform.machine(),
            "system": platform.system(),
            "cpu": cpu_name(),
            "cpus": os.cpu_count(),
        },
        "example_prompt": dict(example),
        "config": config.model_dump(mode="json"),
        "identity": identity | model_identity(model),
    }
    return Manifest.of(content)


def _left_out(grid: PromptsByIndex) -> dict[str, tuple[str, ...]]:
    """Return the narratives that dimensions leave out; grids of questionnaires have no such narratives."""
    return grid.left_out if isinstance(grid, PromptGrid) else {}


def as_fed(model: OpenModel, example: Mapping[str, Any]) -> dict[str, str]:
    """Return an example as the model reads it, ``fed``, and the special tokens that the tokenizer adds."""
    from audit.engines.base import token_reader

    tokenizer = token_reader(model.engine, remedy="use engine.add_special_tokens=false").tokenizer
    turns = tuple((role, text) for role, text in example.get("turns", ()))
    prompt = Prompt(example["system"], example["user"], turns, example.get("begun", ""))
    return {"fed": tokenizer.as_fed(prompt), "special_tokens": tokenizer.say_added()}


def _describe_language(config: AuditConfig) -> dict[str, Any]:
    pack = config.pack
    if pack is None:  # runs in English name none, as before packs existed
        return {}
    return {
        "language": {"code": pack.code, "name": pack.name, "reviewed": pack.reviewed, "policy": pack.policy,
                     "sha256": pack.sha256}
    }  # fmt: skip


def _describe_narratives(narratives: Narratives | None) -> dict[str, Any]:
    if narratives is None:
        return {"source": "none", "n_narratives": 0}
    return {
        "source": narratives.source,
        "n_narratives": len(narratives.narratives),
        "n_available": narratives.n_available,
        "n_emotions": len(narratives.emotions),
        "emotions": list(narratives.emotions),
        **({"valence": narratives.valence} if narratives.valence else {}),
        "sha256": narratives.sha256,
    }


def _describe_strategy(strategy: Strategy) -> dict[str, Any]:
    return {
        "name": strategy.name,
        "source": strategy.source,
        "deviates": strategy.deviates,
        "stages": [stage.name for stage in strategy.stages],
        **({"reply": strategy.reply.name} if strategy.reply is not None else {}),
        **({"n_turns": strategy.n_turns} if strategy.is_talk else {}),
        "sha256": strategy.sha256,
    }
