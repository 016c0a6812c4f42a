"""Composes validated configurations from command-line words with Hydra, for one run or a sweep.

Only this module imports Hydra. Its errors are reworded, and its own command line is not used.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.configuration.options import choices as choices
from audit.configuration.options import choices_with, offered, option_rows
from audit.configuration.options import conf_folder as conf_folder
from audit.configuration.overrides import (
    Options,
    Parse,
    arranged,
    check_lengths,
    check_of_hydra,
    check_texts,
    did_you_mean,
    given_twice,
    several_values,
    stands_for,
    why_unread,
)
from audit.configuration.packaged import read_packaged
from audit.configuration.peers import written_here
from stimuli.errors import in_one_line

if TYPE_CHECKING:
    from audit.configuration.schema import AuditConfig

_SHOWN: Final = ("stimuli", "prompt", "task", "strategy", "elicitation", "thinking", "measures")
"""Groups whose texts are shown to models."""


@dataclass(frozen=True)
class Composed:
    """A configuration as Hydra composed it, not yet validated."""

    number: int | None  # its place in a sweep; None outside a sweep
    overrides: tuple[str, ...]
    preset: str  # the experiment chosen, or "defaults"
    _values: Any
    own_files: tuple[Path, ...] = ()  # the files of `--config-dir` that it uses

    def validated(self) -> AuditConfig:
        """Resolve and validate the configuration."""
        from omegaconf import OmegaConf
        from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

        from audit.configuration.schema import load_config
        from audit.errors import ConfigError

        try:
            _check_no_environment(self._values)
            values = OmegaConf.to_container(self._values, resolve=True, throw_on_missing=True)
        except MissingMandatoryValue as error:
            raise ConfigError(
                f"{error.full_key} must be set: {error.full_key}=VALUE{_meaning(str(error.full_key))}"
            ) from error
        except OmegaConfBaseException as error:
            raise ConfigError(stands_for(str(error), self.overrides) or in_one_line(error)) from error
        assert isinstance(values, dict)
        values.pop("experiment", None)
        try:
            return load_config({str(key): value for key, value in values.items()})
        except ConfigError as error:
            raise ConfigError(self._placed(str(error))) from error

    def _placed(self, fault: str) -> str:
        """Prefix an error with the user's file and line that caused it, if one did."""
        from stimuli.yaml_files import line_of

        name = fault.partition(":")[0]
        if any(word.lstrip("+").startswith(f"{name}=") for word in self.overrides):
            return fault
        group, *keys = name.split(".")
        for file in self.own_files:
            for path in ([keys] if file.parent.name == group and keys else []) + [[group, *keys]]:
                if (line := line_of(file, path)) is not None:
                    return f"{file}: line {line}: {fault}"
        return fault


def _check_no_environment(values: Any) -> None:
    """Refuse texts that would show a model or server an environment variable, which may be a key."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from omegaconf.resolvers import oc

    from audit.errors import ConfigError

    # Prompt files may come from anybody, and may reach a variable through another option: all texts are resolved once.
    asked: list[str] = []

    def refuse(name: str, *_: object) -> str:
        asked.append(name)
        return ""

    OmegaConf.register_new_resolver("oc.env", refuse, replace=True)
    try:
        for group in _SHOWN:
            try:
                OmegaConf.to_container(values[group], resolve=True)
            except OmegaConfBaseException:
                continue  # reported when everything is resolved
            if asked:
                raise ConfigError(
                    f"{group}: shows ${{oc.env:{asked[0]}}}, a variable of your environment, which may be secret; "
                    "prompts cannot contain one: write the value itself, if others may see it"
                )
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def compose(overrides: list[str], task: Callable[[Composed], None], *, say: Callable[[str], None] = print) -> None:
    """Compose the configuration, or each of a sweep, and call ``task`` with it."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # get exceptions from Hydra, not text and exit code 1
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from audit.errors import ConfigError

    gone: list[BrokenPipeError | RecursionError] = []
    begun = False

    def job(composed: Any, of_hydra: Any) -> None:
        nonlocal begun
        begun = True
        experiment = of_hydra.runtime.choices.get("experiment", "none")
        try:
            if said := _preset_in_words(of_hydra, composed, words):
                say(said)
            task(
                Composed(
                    number=int(of_hydra.job.num) if of_hydra.mode == RunMode.MULTIRUN else None,
                    overrides=tuple(of_hydra.overrides.task),
                    preset="defaults" if experiment in (None, "none") else str(experiment),
                    _values=composed,
                    own_files=tuple(
                        file
                        for folder in _folders(words)
                        for group, choice in of_hydra.runtime.choices.items()
                        if (file := folder / str(group) / f"{choice}.yaml").is_file()
                    ),
                )
            )
        except (BrokenPipeError, RecursionError) as error:  # Hydra would report the first, and raises the second too
            gone.append(error)

    options = _options()
    overrides = arranged(overrides, options)
    check_lengths(overrides)
    check_of_hydra(overrides)
    words = _normalise(overrides)
    parser = OverridesParser.create()
    _check_folders(words)
    _check_parsed(words, parser)

    def parse(word: str) -> Any | None:
        try:
            return parser.parse_override(word)
        except (HydraException, ValueError, RecursionError):  # the last two if it crashes on a word
            return None

    for text in given_twice(words):
        say(f"note: {text}")
    check_texts(words, parse, options)
    _check_choices(words, parse)
    if any(word.startswith("--cfg") for word in words):
        print("# What each option means: python -m audit options")
    try:
        if any(word.startswith("-") or "hydra" in word for word in words):
            sys.argv = ["audit", *words]
            hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="audit")(
                lambda composed: job(composed, HydraConfig.get())
            )()
        else:
            job(*_composed_once(words))
    except RecursionError as error:
        raise ConfigError(f"the defaults of {_chosen(overrides)} form a loop; remove one of them") from error
    except YAMLError as error:
        said = _not_yaml(words) or f"a file of --config-dir is not YAML: {in_one_line(error)}"
        raise ConfigError(said) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explain(error, words, parse, options)) from error
    except (ValueError, TypeError, AssertionError, LookupError, AttributeError) as error:
        if begun:  # raised by the task, not by composing
            raise
        said = in_one_line(error) or "its defaults are none"
        own = next((word for word in words if word.lstrip("+~").startswith("hydra")), None)
        if own is not None:
            raise ConfigError(
                f"{own} is one of Hydra's own settings, and Hydra cannot use this value ({said}); leave it out"
            ) from error
        raise ConfigError(f"{_chosen(overrides)} cannot be composed: {said}; correct the file named") from error
    if gone:
        raise gone[0]


def _preset_in_words(of_hydra: Any, composed: Any, words: Sequence[str]) -> str:
    """Say what a preset sets, and what the user sets instead; empty without one."""
    from omegaconf import OmegaConf

    name = of_hydra.runtime.choices.get("preset") or "none"
    places = [folder / "preset" / f"{name}.yaml" for folder in (*_folders(words), conf_folder())]
    file = next((place for place in places if place.is_file()), None)
    if name == "none" or file is None:
        return ""
    given = {word.lstrip("+").partition("=")[0] for word in of_hydra.overrides.task}
    keys = read_packaged(file).values
    options = [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]
    typed = {key: f"{key}={str(OmegaConf.select(composed, key)).lower()}" for key in options}
    by_preset = " ".join(each for key, each in typed.items() if key not in given)
    by_user = " ".join(each for key, each in typed.items() if key in given)
    return f"preset={name}: {by_preset or 'nothing'}" + (f"; set by you: {by_user}" if by_user else "")


def _chosen(overrides: Sequence[str]) -> str:
    """Name the choices that may have caused an error in a file."""
    chosen = [override for override in overrides if override.lstrip("+").partition("=")[0] in choices()]
    return " or ".join(chosen) or "a file of --config-dir"


def _composed_once(words: list[str]) -> tuple[Any, Any]:
    """Compose one configuration and Hydra's own settings; ``hydra.main`` composes twice, to detect a sweep."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import open_dict

    with initialize_config_dir(version_base="1.3", config_dir=str(conf_folder()), job_name="audit"):
        composed = hydra_compose("audit", words, return_hydra_config=True)
    of_hydra = composed.hydra
    with open_dict(composed):
        del composed["hydra"]
    return composed, of_hydra


def _normalise(overrides: Sequence[str]) -> list[str]:
    """Read ``+model=x`` as ``model=x``, ``model.path`` without a card as ``model=own``; classifiers need no plus."""
    groups = choices()
    plain = []
    for override in overrides:
        name, sign, value = override.partition("=")
        bare = name.lstrip("+")
        # Hydra adds names of the user's only where it is told to.
        named = sign and f"{bare}.".startswith("measures.classifier.")
        plain.append(f"{'++' if named else ''}{bare}{sign}{value}" if named or (sign and bare in groups) else override)
    chosen = {override.partition("=")[0] for override in plain}
    if "model.path" in chosen and "model" not in chosen:
        plain.append("model=own")
    # Hydra's parser accepts flags only before the overrides.
    flags = list(dict.fromkeys(word for word in plain if word.startswith("-")))
    return [*flags, *(word for word in plain if word not in flags)]


def _options() -> Options:
    """List what overrides may name."""
    from audit.configuration.schema import option_types

    return Options(offered(), option_types())


def _check_folders(words: Sequence[str]) -> None:
    """Refuse a file in a user's config folder that is too large for OmegaConf."""
    from stimuli.yaml_files import check_size

    for place in _folders(words):
        for path in sorted(place.glob("**/*.yaml")):
            check_size(path)


def _not_yaml(words: Sequence[str]) -> str:
    """Explain what is wrong with the user's first file that is not YAML; empty if all are."""
    from stimuli.errors import StimulusError
    from stimuli.yaml_files import read_yaml

    for place in _folders(words):
        for path in sorted(place.glob("**/*.yaml")):
            try:
                read_yaml(path)
            except StimulusError as error:
                return str(error)
    return ""


def _folders(words: Sequence[str]) -> list[Path]:
    """Return the user's config folders, from ``--config-dir`` or ``-cd``."""
    flags = [(flag.partition("="), value) for flag, value in zip_longest(words, words[1:], fillvalue="")]
    return [Path(joined if sign else value) for (name, sign, joined), value in flags if name in ("--config-dir", "-cd")]


def _check_parsed(words: Sequence[str], parser: Any) -> None:
    """Refuse an override that crashes Hydra's parser; one that it rejects properly is left to it."""
    from hydra.errors import HydraException

    from audit.errors import ConfigError

    for word in words:
        if word.startswith("-"):
            continue
        try:
            parser.parse_override(word)
        except HydraException:
            continue
        except (ValueError, RecursionError) as error:
            what = "is nested too deeply" if isinstance(error, RecursionError) else "has a number with too many digits"
            raise ConfigError(f"{word[:60]}...: {what}; a value is a word, a number or a short list") from error


def _check_choices(words: Sequence[str], parse: Parse) -> None:
    """Refuse a choice that is no name: Hydra would merge a list under its last name."""
    from hydra.core.override_parser.types import ChoiceSweep, RangeSweep

    from audit.errors import ConfigError

    groups = offered()
    for word in words:
        if word.startswith("-") or word.partition("=")[0] not in groups or (parsed := parse(word)) is None:
            continue
        name, given = parsed.key_or_group, parsed.value()
        if isinstance(given, RangeSweep):
            values: Sequence[Any] = [given.start]
        elif isinstance(given, ChoiceSweep):
            values = given.list
        else:
            values = [] if parsed.is_sweep_override() or parsed.is_delete() else [given]
        for value in values:
            if isinstance(value, list):
                each = ",".join(map(str, value))
                raise ConfigError(f"{word}: must be one choice, not a list; run -m {name}={each} runs each")
            if not isinstance(value, str):
                raise ConfigError(f"{word}: unknown choice; there are: {', '.join(groups[name])}")


def _explain(error: Exception, words: Sequence[str], parse: Parse, options: Options) -> str:
    """Explain in our own words which override Hydra rejected."""
    from stimuli.errors import suggest

    sweeps = "--multirun" in words
    for place, word in enumerate(words):
        if word.startswith("-"):
            continue
        if (parsed := parse(word)) is None:
            return why_unread(word, words[place + 1 :], parse, options)
        name = parsed.key_or_group
        if not name:
            return f"{word!r} is not an option: nothing stands before the equals sign; write KEY=VALUE"
        if parsed.is_sweep_override() and not sweeps:
            return several_values(word, name, word.partition("=")[2], options, parse)
        if name in options.groups:
            for value in parsed.sweep_string_iterator() if parsed.is_sweep_override() else [parsed.value()]:
                own = any(place.joinpath(name, f"{value}.yaml").is_file() for place in _folders(words))
                if isinstance(value, str) and value not in options.groups[name] and not own:
                    said = suggest(value, options.groups[name])
                    if name == "model":  # there are too many cards for one line
                        near, _, _ = said.partition("there are: ")
                        said = f"{near}python -m audit options model lists all cards; {_uncarded(value)}"
                    return f"{name}={value}: unknown choice; {said}"
        if "Could not append" in str(error) and word.startswith("+") and name in options.takes:
            return f"{word}: {name} is already an option; leave out the plus sign: {shlex.quote(word.lstrip('+'))}"
        if parsed.is_delete():
            return f"{word}: options cannot be removed; {name}=null empties an option that may be empty"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    key = _unknown_key(lines)
    if key is not None:
        group, _, choice = key.partition(".")
        if choice in options.groups.get(group, ()):
            return f"{key}: unknown option; did you mean {group}={choice}?"
        given = next((word.partition("=")[2] for word in words if word.lstrip("+").startswith(f"{key}=")), "")
        return f"{key}: unknown option; {_near_option(key, given)}see python -m audit options"
    if (said := stands_for(str(error), words)) or not lines:
        return said
    merged = next((word for word in words if lines[0] == f"Error merging override {word}"), None)
    if merged is not None:
        return f"{merged}: its value has the wrong type; python -m audit options lists every option and its values"
    return " ".join(lines)


def _meaning(key: str) -> str:
    """Return an option's meaning in brackets; empty if the name is one that the user chose."""
    meaning = next((row.meaning for row in option_rows() if row.name == key), "")
    return f" ({meaning})" if meaning else ""


def _uncarded(model: str) -> str:
    """Say how a model without a card is given."""
    if "/" in model or Path(model).exists():
        return f"a model without a card: {shlex.quote(f'model.path={model}')}"
    return f"a model without a card: model.path=OWNER/NAME, behind an API: model=openai model.path={shlex.quote(model)}"


def _unknown_key(lines: Sequence[str]) -> str | None:
    import re

    for line in lines:
        found = re.search(r"Could not override '([^']+)'|Key '([^']+)' is not in struct", line)
        if found:
            return found[1] or found[2]
    return None


def _near_option(key: str, value: str) -> str:
    from audit.configuration.schema import option_names

    names = option_names()
    if key in names:
        of = key.rpartition(".")[0]
        if of in choices():
            return (
                f"the {of}= chosen does not have it; choose another {of}=, or, in a sweep over {of}= where only "
                f"some have it, write ++{key}=VALUE; "
            )
        group = key.partition(".")[0]
        if having := choices_with(group, key):
            return f"{of} is null in this choice; choose one that has it: {group}={' or '.join(having)}; "
        return f"{of} is null in this choice; choose another one, or give all of its values; "
    return written_here(key, value) or did_you_mean(key, names)
