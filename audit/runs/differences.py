"""How runs differ: the choices that their manifests record, and short labels from those that differ."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from audit.configuration.planted import MARK
from audit.runs.manifest import Manifest
from audit.tables.formatting import MISSING, dimension_title, either, encodable, plural, printable, scale_end
from stimuli.hashes import fingerprint
from stimuli.strategies import NO_STRATEGY

_LONGEST: Final = 48  # characters of a choice in a label; the table of runs has all of them
_LONG_MODEL: Final = 24  # characters of a model's name; in labels, a longer one loses words from its end
_OUTSIDE: Final = "outside"  # what outside ratings have for prompt variant and elicitation: unknown, so not a choice
_NOT_ASKED: Final = frozenset({"name", "source", "deviates"})  # keys of a strategy that the model is not asked by

MAIN: Final = ("model", "prompt", "language", "strategy", "narratives", "elicitation")
"""Choices that every label names if they differ: what a reader asks first."""
OTHERS: Final = (
    "seed", "scale", "n_narratives", "engine", "dtype", "quantization", "parser", "device", "dimensions", "server",
    "stated", "path", "revision", "wording", "texts", "identities",
)  # fmt: skip
"""Choices that a label names only if the main ones do not tell two runs apart."""

_IN_WORDS: Final[dict[str, Callable[[str], str]]] = {
    "seed": lambda value: f"seed {value}",
    "scale": lambda value: f"scale {value}",
    "parser": lambda value: f"parser {value}",
    "n_narratives": lambda value: f"{value} narrative{'' if value == '1' else 's'}",
    "revision": lambda value: f"revision {value[-8:]}",
    "wording": lambda value: f"wording {value[:8]}",
    "texts": lambda value: f"narratives {value[:8]}",
    "identities": lambda value: f"identities {value[:8]}",
}
"""How to word a choice whose value alone would not say what it is."""


_SAME: Final = (
    "model", "path", "revision", "dtype", "quantization", "prompt", "language", "wording", "narratives", "n_narratives",
    "texts", "elicitation", "parser", "seed", "scale", "identities", "files", "answering",
)  # fmt: skip
"""Choices that a run and its reference share, so that only the strategy differs."""
_ELICITED: Final = ("elicitation", "parser", "answering")  # choices of how runs were elicited
_SAME_BUT_ELICITED: Final = (*(name for name in _SAME if name not in _ELICITED), "strategy", "leading", "asking")
"""Choices that runs share if only the elicitation differs."""

_HEADS: Final = {
    "narratives": "source of narratives",
    "n_narratives": "number of narratives",
    "path": "model's place",
    "stated": "server's model",
    "wording": "prompt's wording",
    "texts": "narratives' texts",
}
"""Column heads for choices whose name in ``tables.RUNS`` is unclear."""


def identity_of(manifest: Manifest) -> str:
    """Return the SHA-256 of everything a run's ratings depend on; folders with the same one hold the same run."""
    return fingerprint(manifest.identity.content or manifest.content)


def accepted_in(manifests: Mapping[str, Manifest]) -> Iterator[str]:
    """Say which runs, by label, have stored files that changed and were accepted."""
    of = [
        f"{label} ({', '.join(map(printable, manifest.accepted))})"
        for label, manifest in manifests.items()
        if manifest.accepted
    ]
    if of:
        yield (
            f"Files had changed since they were stored, and were accepted as they are: {'; '.join(of)}. Whether those "
            "answers are the models' is not known."
        )


def ends_in(manifests: Mapping[str, Manifest]) -> Iterator[str]:
    """Say which runs, by label, took ends of numbers from a sample although others did not, and how much that moves."""
    reading = {label: each.ends for label, each in manifests.items() if each.elicitation.method == "expected"}
    sampled = {label: ends.systematic_points for label, ends in reading.items() if ends.way == "calibrated"}
    if 0 < len(sampled) < len(reading):
        most = max(sampled.values())
        yield (
            f"Whether numbers end was asked of a sample of prompts in {'; '.join(sampled)}, and of each prompt in the "
            f"other {either(len(reading) - len(sampled), 'run', 'runs')} (elicitation.ends). A change of δ between "
            f"them may be off by up to {most:.2g} points for that."
        )


def _made_by(manifest: Manifest) -> str:
    """Describe what shaped prompts besides the model's own files; empty if nothing did."""
    chat = manifest.identity.content.get("chat")
    chat = chat if isinstance(chat, Mapping) else {}
    said = [
        f"chat template {str(chat['template'])[:8]}" if chat.get("template") else "",
        f"date {chat['date']}" if chat.get("date") else "",
        "BOS once" if chat.get("begins") else "",
    ]
    return "".join(f", {each}" for each in said if each)


def thinking_of(manifest: Manifest) -> str:
    """Say after a comma how long the model thought before answering and how it was sampled; empty if it did not."""
    thinking = manifest.config.thinking
    if not thinking.is_on:
        return ""
    how = [
        plural(thinking.max_tokens, "token"),
        f"temperature {thinking.temperature:g}" if thinking.temperature else "",
        f"top_p {thinking.top_p:g}" if thinking.temperature and thinking.top_p < 1 else "",
    ]
    within = "" if thinking.mode == "on" else f", {thinking.mode}"
    return f", thinking{within} ({', '.join(filter(None, how))})"


def choices_of(manifest: Manifest, *, variant: str) -> dict[str, str]:
    """Return a run's choices in one prompt variant, by the names of ``tables.RUNS``; empty if not recorded.

    Further keys: ``briefly``, the elicitation without what answers were begun with, which puzzles a reader of a label;
    ``settings``, the strategy's settings as JSON, so that labels of runs with one strategy can name the
    difference; ``files`` and ``answering``, hashes of the model's files and of all settings of the answers, which a
    reference must share; ``asking``, a hash of what defines an answer whatever the elicitation.
    """
    model, engine, elicitation, scale = manifest.model, manifest.engine, manifest.elicitation, manifest.scale
    n_narratives = manifest.stimuli.n_narratives
    leading, settings = _led(manifest)
    thinking = thinking_of(manifest)
    found = {
        "model": model.name_asked,
        "server": model.address,
        "stated": model.stated,
        "prompt": variant,
        "language": "" if elicitation.method == _OUTSIDE else manifest.language.name,
        "strategy": manifest.strategy.choice,
        "narratives": manifest.stimuli.source,
        "elicitation": elicitation.method
        + (f", begun {elicitation.prefill!r}" if elicitation.prefill else "")
        + thinking,
        "briefly": elicitation.method + thinking,
        "scale": "" if math.isnan(scale.low) else f"{scale_end(scale.low)}{MISSING}{scale_end(scale.high)}",
        "seed": str(manifest.seed),
        "engine": engine.said
        + (" with special tokens added" if manifest.identity.special_tokens else "")
        + _made_by(manifest),
        "device": engine.device,
        "dtype": model.dtype,
        "quantization": manifest.config.quantization,
        "parser": elicitation.parser if elicitation.method == "generate" else "",
        "path": model.path,
        "revision": model.revision,
        "dimensions": ", ".join(map(dimension_title, manifest.dimensions)),
        "n_narratives": "" if n_narratives is None else str(n_narratives),
        "wording": manifest.prompt.sha256,
        "texts": manifest.stimuli.sha256,
        "identities": _identities(manifest),
        "leading": leading,
        "settings": settings,
        "files": manifest.identity.model_files,
        "answering": _answering(manifest),
        "asking": fingerprint(_asked(manifest)),
    }
    return {name: encodable(value) for name, value in found.items()}


def _identities(manifest: Manifest) -> str:
    """Return a hash of identities and of the pairs and narratives asked; of the identities alone if all were asked."""
    identities, drawn = manifest.identity.identities, list(manifest.pairs_drawn)
    left_out = manifest.identity.content.get("left_out")  # a hash of the narratives that contradict a group
    some = ({"pairs_drawn": drawn} if drawn else {}) | ({"left_out": left_out} if left_out else {})
    return fingerprint({"identities": identities, **some}) if some else identities


def telling_choices(choices: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the choices for labels: main ones that differ, then others until all runs are told apart, if possible."""
    choices = _told(choices)
    chosen = [name for name in MAIN if len({_part(name, each) for each in choices} - {""}) > 1]
    for name in OTHERS:
        if _n_different([*chosen, name], choices) > _n_different(chosen, choices):
            chosen.append(name)
    return chosen


def differing_choices(choices: Sequence[Mapping[str, str]]) -> list[str]:
    """Return all choices that differ, except those that partition the runs like an earlier one."""
    choices = _told(choices)
    kept: dict[tuple[int, ...], str] = {}
    for name in (*MAIN, *OTHERS):
        values = [_part(name, each) for each in choices]
        kept.setdefault(tuple(values.index(value) for value in values), name)
    return [name for partition, name in kept.items() if any(partition)]


def label_runs(choices: Sequence[Mapping[str, str]], folders: Sequence[str]) -> list[str]:
    """Return a short, distinct label for each run; ``folders`` are used if the choices do not suffice."""
    models = _models_in_short({each["model"] for each in choices})
    choices = [{**each, "model": models[each["model"]]} for each in choices]
    labels = _labels([{**each, "elicitation": each["briefly"]} for each in choices])
    if len(set(labels)) < len(labels) or not all(labels):
        labels = _labels(choices)
    if len(set(labels)) < len(labels) or not all(labels):
        labels = [short(folder) for folder in folders]
    if len(set(labels)) < len(labels) or not all(labels):
        labels = [f"run {number}" for number in range(1, len(labels) + 1)]
    return labels


def _models_in_short(names: Collection[str]) -> dict[str, str]:
    """Return each model's name for labels: of a long one, its first words, unless another name begins with them."""
    in_short = {}
    for name in names:
        model = re.split(r" at | \(", name)[0]
        ends = [*(found.start() for found in re.finditer(r"[-_]|\.gguf$", model)), len(model)]
        others = [other for other in names if other != name]
        distinct = [
            name[:end]
            for end in ends
            if 2 * end >= _LONG_MODEL and not any(other.startswith(name[:end]) for other in others)
        ]
        fitting = [each for each in distinct if len(each) <= _LONG_MODEL]
        in_short[name] = name if len(name) <= _LONG_MODEL else [name, *distinct[:1], *fitting][-1]
    return in_short


def _labels(choices: Sequence[Mapping[str, str]]) -> list[str]:
    names, told = telling_choices(choices), _told(choices)
    return [", ".join(dict.fromkeys(filter(None, (_part(name, each) for name in names)))) for each in told]


def choice_table(choices: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> pd.DataFrame:
    """Return the named choices of runs, a row a label, worded for a table or figure; of planted models always names."""
    each_run = _told(list(choices.values()))
    # Such a table is pasted without the page that says what the runs have in common.
    if "model" not in names and any(run["model"].startswith(MARK) for run in each_run):
        names = ["model", *names]
    told = pd.DataFrame(
        {_HEADS.get(name, name): [_part(name, run) or MISSING for run in each_run] for name in names},
        index=list(choices),
    )
    if told.empty or told.duplicated().any():
        told.insert(0, "run", list(choices))
    return told


def reference_runs(choices: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return for each run with a strategy the run without one that differs in nothing else, by label.

    The label is empty if there is none; among several, the one that shares most of the other choices is taken. Empty if
    the runs do not differ in strategy.
    """
    if len({(each["strategy"], each["leading"]) for each in choices.values()}) < 2:
        return {}
    plain = {label: each for label, each in choices.items() if each["strategy"] == NO_STRATEGY}
    found = {}
    for label, each in choices.items():
        if label in plain:
            continue
        alike = [name for name, other in plain.items() if all(each[key] == other[key] for key in _SAME)]
        found[label] = max(alike, key=lambda name: sum(each[key] == plain[name][key] for key in OTHERS), default="")
    return found


def elicitation_sets(choices: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    """Return sets of runs that differ only in elicitation: for each set of two or more, label → elicitation in words.

    Among several runs of one elicitation, the one that shares most of the other choices with the first is taken.
    """
    alike: dict[tuple[str, ...], dict[tuple[str, ...], list[str]]] = {}
    for label, each in choices.items():
        elicited = alike.setdefault(tuple(each[name] for name in _SAME_BUT_ELICITED), {})
        elicited.setdefault(tuple(each[name] for name in _ELICITED), []).append(label)
    found = []
    for elicited in alike.values():
        if len(elicited) > 1:
            first = choices[next(iter(elicited.values()))[0]]
            kept = [
                max(own, key=lambda label: sum(choices[label][key] == first[key] for key in OTHERS))
                for own in elicited.values()
            ]
            found.append(_elicitations({label: choices[label] for label in kept}))
    return found


def _elicitations(choices: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Name each run's elicitation, with its parser and a hash of its settings if needed to tell runs apart."""
    names = {label: each["elicitation"] for label, each in choices.items()}
    for name, words in (("parser", "parser {}"), ("answering", "settings {:.8}")):
        if len(set(names.values())) < len(names):
            names = {
                label: ", ".join(filter(None, (said, choices[label][name] and words.format(choices[label][name]))))
                for label, said in names.items()
            }
    return names


def engine_remarks(choices: Mapping[str, Mapping[str, str]], references: Mapping[str, str]) -> Iterator[str]:
    """Say which runs used another engine than their reference (from :func:`reference_runs`)."""
    for label, reference in references.items():
        if reference:
            ours, theirs = (
                ", ".join(filter(None, (choices[run][name] for name in ("engine", "device"))))
                for run in (label, reference)
            )
            if ours != theirs:
                yield (
                    f"{label} was run by {ours}, and {reference}, which it is compared with, by {theirs}: a part of "
                    "the change may be the engine's."
                )


def short(text: str) -> str:
    """Return a text on one line, with its middle left out if it is long."""
    line = " ".join(text.split())
    half = _LONGEST // 2 - 1
    return line if len(line) <= _LONGEST else f"{line[:half]} \N{HORIZONTAL ELLIPSIS} {line[-half:]}"


def _led(manifest: Manifest) -> tuple[str, str]:
    """Return the SHA-256 of what a run's strategy asks, and its settings as JSON; empty if not recorded."""
    if manifest.strategy.choice == NO_STRATEGY:
        return "", ""
    leading = manifest.strategy.sha256
    named = manifest.identity.strategy
    brought = {key: named[key] for key in ("examples", "knowledge") if key in named}
    if brought:
        leading = fingerprint({"strategy": leading, **brought})
    recorded = manifest.config.strategy
    if not recorded:
        return leading, ""
    settings = {key: value for key, value in recorded.items() if key not in _NOT_ASKED}
    settings["stages"] = {stage["name"]: stage for stage in settings.get("stages") or ()}
    # A file counts by its content, not its path.
    if "examples" in brought:
        settings["examples"] = {**(settings.get("examples") or {}), "pool": brought["examples"]["pool"][:8]}
    if isinstance(brought.get("knowledge"), str):
        settings["knowledge"] = {**(settings.get("knowledge") or {}), "path": brought["knowledge"][:8]}
    return leading, json.dumps(settings)


def _answering(manifest: Manifest) -> str:
    """Return the SHA-256 of the settings that shape answers, without those that the method does not read."""
    unread = {"max_tokens", "parser"} if manifest.elicitation.method == "expected" else {"max_pruned_points"}
    # Ends that a sample tells are the same within a bound, which a remark names.
    read = {key: value for key, value in manifest.identity.elicitation.items() if key not in {*unread, "ends"}}
    thinking = manifest.identity.content.get("thinking")
    return fingerprint({"elicitation": read, **_asked(manifest), **({"thinking": thinking} if thinking else {})})


def _asked(manifest: Manifest) -> dict[str, Any]:
    """Return the parts of a prompt besides wording and elicitation: the task and special tokens."""
    return {"task": manifest.identity.task, "special_tokens": manifest.identity.special_tokens}


def _told(choices: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the choices; if runs share a strategy but not its settings, its name says what differs."""
    told: dict[tuple[str, str], str] = {}
    for name in {each["strategy"] for each in choices}:
        settings = {each["leading"]: each["settings"] for each in choices if each["strategy"] == name}
        if len(settings) > 1:
            told |= {(name, leading): words for leading, words in _name_settings(name, settings).items()}
    return [{**each, "strategy": told.get((each["strategy"], each["leading"]), each["strategy"])} for each in choices]


def _name_settings(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return, by SHA-256, the strategy's name with its distinctive settings, or else with that SHA-256."""
    departures = _departures([json.loads(each or "{}") for each in settings.values()])
    named = [", ".join([name, *own]) for own in departures]
    unclear = not all(settings.values()) or len(set(named)) < len(named)
    return {
        leading: f"{name}, strategy {leading[:8]}" if leading and (unclear or len(words) > _LONGEST) else words
        for leading, words in zip(settings, named, strict=True)
    }


def _departures(settings: Sequence[Mapping[str, Any]], place: str = "") -> list[list[str]]:
    """Name the leaves of each settings that differ, except for a value that more than half of them have."""
    named: list[list[str]] = [[] for _ in settings]
    lacking: list[list[str]] = [[] for _ in settings]
    for name in sorted({name for each in settings for name in each}):
        values = [each.get(name) for each in settings]
        inside = {number: value for number, value in enumerate(values) if isinstance(value, Mapping)}
        deeper = dict(zip(inside, _departures([*inside.values()], f"{place}{name}."), strict=True)) if inside else {}
        for number, value in enumerate(values):
            if number in deeper:
                named[number] += deeper[number]
            elif inside:
                lacking[number].append(name)
            elif 2 * values.count(value) <= len(values):
                named[number].append(f"{place}{name} {_plain(value)}")
    for own, names in zip(named, lacking, strict=True):
        if names:
            own.insert(0, f"{place.rstrip('.')} without {', '.join(names)}".strip())
    return named


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _part(name: str, choices: Mapping[str, str]) -> str:
    value = "" if choices[name] == _OUTSIDE else choices[name]
    return short(_IN_WORDS[name](value) if value and name in _IN_WORDS else value)


def _n_different(names: Sequence[str], choices: Sequence[Mapping[str, str]]) -> int:
    return len({tuple(_part(name, each) for name in names) for each in choices})
