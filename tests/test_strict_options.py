"""Every option of a run, given what is no value of it: it is refused in one line, at once, or means what it says."""

from __future__ import annotations

import copy
import math
import time
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from audit.asking.run_identity import default_run_dir
from audit.configuration.composition import _composed_once
from audit.configuration.schema import AuditConfig, load_config, load_statistics, option_types
from audit.errors import AuditError, ConfigError
from audit.report.figures.style import file_stem
from stimuli.errors import StimulusError

WORDS = (
    (),
    ("stimuli=conversations", "task=emotion"),
    ("task=reply", "engine=openai", "model=openai"),
    ("task=inventory", "engine=ray"),
    ("prompt=published", "thinking=budget"),
    ("prompt=deployed",),
    ("strategy=knowledge-comet",),
    ("strategy=few-shot-1",),
    ("strategy=two-stage",),
    ("model=planted",),
)
"""Configurations that together have all options."""
CLASSIFIER = {"model": "a", "revision": None}
MANY = [f"a{place}" for place in range(20_000)]
LONG = "x" * 300
HOSTILE = {
    "true for a number": True,
    "one for true": 1,
    "infinite": math.inf,
    "no number": math.nan,
    "negative": -1,
    "huge": 10**30,
    "huge, with a point": 1e300,
    "a path": "../../x",
    "a path of Windows": "..\\..\\x",
    "long": LONG,
    "many": MANY,
    "the same many times": ["a"] * 20_000,
    "a word": "yes",
    "names": {"a": 1},
    "turned round": "a\u202eb",
    "a control": "a\x1b[2Jb",
    "a NUL": "a\0b",
}
NAMES = ("model.name", "engine.name", "prompt.name", "strategy.name", "measures.judge.rubric")
TEN_SECONDS = 10  # of a busy machine: what took long took 20 s on an idle one


@cache
def composed(words):
    values = OmegaConf.to_container(_composed_once(list(words))[0], resolve=True)
    values.pop("experiment")
    values["measures"]["regard"]["labels"] = {name: name for name in ("negative", "neutral", "positive", "other")}
    for name in ("emotional_reactions", "interpretations", "explorations"):
        values["measures"]["epitome"][name] = dict(CLASSIFIER)
    of_classifier = {"labels": None, "levels": None, "emotion": False, "better": "neither", "mask": True}
    values["measures"]["classifier"] = {"tone": CLASSIFIER | of_classifier}
    if values["engine"].get("name") == "openai":
        values["engine"] |= {"batch": True}
    return values


def holder(values, name):
    """Return the mapping that has an option, and its key in it; None where the values have it not."""
    *path, last = name.split(".")
    for part in path:
        if not isinstance(values, dict):
            return None
        values = values.get(next(iter(values), "") if part == "NAME" else part)
    return (values, last) if isinstance(values, dict) and last in values else None


def at(config, name):
    """Return the value of an option in a configuration."""
    for part in name.split("."):
        config = next(iter(config.values())) if part == "NAME" else getattr(config, part)
    return config


def test_the_configurations_have_all_options():
    lacking = [name for name in option_types() if not any(holder(composed(words), name) for words in WORDS)]
    assert lacking == []


@pytest.mark.parametrize("name", option_types())
def test_an_option_takes_what_it_means_or_refuses_in_one_line_at_once(name):
    for words in WORDS:
        if holder(composed(words), name) is None:
            continue
        for what, value in HOSTILE.items():
            values = copy.deepcopy(composed(words))
            of, key = holder(values, name)
            of[key] = copy.deepcopy(value)
            begun = time.monotonic()
            try:
                config = load_config(values)
            except (AuditError, StimulusError) as error:
                said = str(error)
                assert "\n" not in said
                assert len(said) < 1000, what
            else:
                _check_meant(name, what, value, at(config, name))
            assert time.monotonic() - begun < TEN_SECONDS, what
        return
    pytest.fail(f"no configuration has {name}")


def _check_meant(name, what, given, taken):
    """Whatever is taken is what was written: no number of another kind, and no name that leads elsewhere."""
    if isinstance(taken, str) and not isinstance(given, str):  # a class of a classifier may be called by a number
        assert taken == str(given), what
        return
    if isinstance(given, bool):
        assert taken is given, what
    if isinstance(given, int) and not isinstance(given, bool):
        assert not isinstance(taken, bool), what
        assert abs(given) <= 10**15, what
    assert not (isinstance(given, float) and not math.isfinite(given)), what
    assert given is not MANY, what
    if isinstance(given, list):
        assert len(given) <= 10_000, what
    if name in NAMES:
        assert what in ("a word",), what
    if isinstance(taken, Path):
        assert "\0" not in str(taken)
        assert max(map(len, taken.parts)) <= 255


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("wordings=true", "wordings: must be a whole number (given: true)"),
        ("seed=true", "seed: must be a whole number (given: true)"),
        ("elicitation.max_pruned_points=inf", "elicitation.max_pruned_points: must be a finite number"),
        ("statistics.margin=101", "statistics.margin=101: no gap on a scale from 0 to 100 can be that large"),
        ("statistics.margin=100", "statistics.margin=100: no gap on a scale from 0 to 100 can be that large"),
        ("statistics.wanted=100.5", "statistics.wanted=100.5: no gap on a scale from 0 to 100 can be that large"),
        ("statistics.least_gap=101", "statistics.least_gap=101: no gap on a scale from 0 to 100 can be that large"),
        (
            "statistics.missing_shift=1000",
            "statistics.missing_shift=1000: no two ratings on a scale from 0 to 100 can differ",
        ),
        ("elicitation.max_pruned_points=101", "elicitation.max_pruned_points=101: no gap on a scale from 0 to 100"),
        ("prompt.name=../../x", "prompt.name: must be a name"),
        ("strategy.name=/x", "strategy.name: must be a name"),
        ("model.name=a/../../b", "model.name: must be a name"),
        (f"prompt.name={LONG}", "prompt.name: has 300 letters; use at most 100"),
        (f"run_dir={LONG}", "is too long for a file name"),
        (f"model.path={LONG}", "is too long for a file name"),
        ("hydra.run.dir=../../x", "hydra.run.dir=../../x is one of Hydra's own settings and has no effect here"),
        ("hydra.sweep.dir=/tmp/x", "is one of Hydra's own"),
        ("hydra.output_subdir=../x", "is one of Hydra's own"),
        ("+hydra.job_logging={handlers:{file:{filename:/tmp/x}}}", "is one of Hydra's own"),
        ("hydra/job_logging=default", "is one of Hydra's own"),
        (f"stimuli.emotions=[{','.join(MANY)}]", "is too long for the command line"),
        (f"dimensions=[{','.join(MANY)}]", "is too long for the command line"),
        (f"prompt.user='{'x' * 200_000}'", "is too long for the command line"),
    ],
)
def test_on_the_command_line_it_ends_at_once_in_one_line_and_code_2(word, said, audit, capsys):
    begun = time.monotonic()
    assert audit("run", word) == 2
    assert time.monotonic() - begun < 3 * TEN_SECONDS
    *_, last = capsys.readouterr().err.splitlines()
    assert said in last
    assert list(Path().iterdir()) == []


def test_a_long_text_in_quotes_is_a_text(audit, capsys):
    text = "Say, " * 3000
    assert audit("run", f"prompt.user='{text}'", "prompt.name=../x") == 2
    assert "is a path" in capsys.readouterr().err


def test_a_margin_is_held_against_the_scale_that_is_asked_on():
    values = copy.deepcopy(composed(()))
    values["statistics"]["margin"] = 9
    assert load_config(values).statistics.margin == 9
    values["prompt"]["scale"] |= {"low": 0, "high": 9}
    with pytest.raises(ConfigError, match=r"statistics\.margin=9: no gap on a scale from 0 to 9"):
        load_config(values)
    assert load_statistics(values["statistics"]).margin == 9  # what is asked is not known here


@pytest.mark.parametrize(
    ("name", "most"), [("margin", 8.9), ("least_gap", 8.9), ("wanted", 8.9), ("missing_shift", 9.0)]
)
def test_every_setting_in_points_is_held_against_the_scale(name, most):
    """A gap may be less than the whole scale, a rating at most as far from another."""
    from audit.api import empathy_gap
    from audit.asking.plan import Plan

    values = copy.deepcopy(composed(()))
    values["prompt"]["scale"] |= {"low": 0, "high": 9}
    values["statistics"][name] = most
    config = load_config(values)
    beyond = config.statistics.model_copy(update={name: most + 0.1})
    values["statistics"][name] = most + 0.1
    with pytest.raises(ConfigError, match=rf"statistics\.{name}=9(\.1)?: "):
        load_config(values)
    scale = type("Scale", (), {"low": 0, "high": 9})
    grid = type("Grid", (), {"variant": type("Variant", (), {"scale": scale})})
    with pytest.raises(ConfigError, match=rf"statistics\.{name}="):  # the scale of a published prompt
        Plan(config.model_copy(update={"statistics": beyond}), grid, None)
    told = pd.DataFrame(
        [("a", other, f"n{n}", n % 9) for other in "ab" for n in range(12)],
        columns=["perceiver", "experiencer", "narrative_id", "rating"],
    )
    with pytest.raises(ConfigError, match=rf"statistics\.{name}="):
        empathy_gap(told, {"a": "a", "b": "b"}, low=0, high=9, **{name: most + 0.1})


def test_what_is_pruned_is_less_than_the_scale_whatever_that_is():
    values = copy.deepcopy(composed(()))
    values["prompt"]["scale"] |= {"low": 0, "high": 9}
    values["elicitation"]["max_pruned_points"] = 99.9
    assert load_config(values).elicitation.max_pruned_points == 99.9
    values["elicitation"]["max_pruned_points"] = 100
    with pytest.raises(ConfigError, match=r"elicitation\.max_pruned_points=100: "):
        load_config(values)


def test_words_of_settings_are_read_as_what_they_say():
    values = composed(())["statistics"]
    assert load_statistics(values | {"confidence": "0.9", "n_permutations": "200"}).confidence == 0.9
    for word in ("inf", "nan", "true", "1e999"):
        with pytest.raises(ConfigError, match=r"statistics\.margin: must be a (finite )?number"):
            load_statistics(values | {"margin": word})


class _Plan:
    def __init__(self, config):
        self.config, self.named = config, ("x" * 90,) * 5
        self.grid = type("Grid", (), {"variant": type("Variant", (), {"name": "y" * 90}), "dimensions": ()})

    def identity(self):
        return {}


def test_a_folder_s_name_fits_on_every_disk():
    config: AuditConfig = load_config(copy.deepcopy(composed(())))
    assert len(default_run_dir(_Plan(config)).name) < 200


def test_a_figure_s_file_has_a_name_that_a_disk_takes_and_no_other_has():
    one, other = (file_stem(f"matrix-{LONG}{end}-../../x") for end in "ab")
    assert one != other
    assert max(len(one), len(other)) < 200
    assert "/" not in one
