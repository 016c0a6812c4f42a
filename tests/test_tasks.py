"""Tasks by their names: what a manifest says of its run's task, and what the settings of each make of a run."""

from __future__ import annotations

import pytest
from test_provenance import FOUR_RELIGIONS, config_of, manifest_of

from audit.configuration.schema import load_statistics
from audit.errors import ConfigError, StoreError
from audit.runs.manifest import Manifest
from audit.tasks.registry import TASKS, task_of


@pytest.mark.parametrize("content", [{}, {"task": None}])
def test_a_manifest_that_names_no_task_is_one_of_intensities(content):
    assert task_of(Manifest.of(content)) is TASKS["intensity"]


@pytest.mark.parametrize("kind", TASKS)
def test_a_manifest_that_names_a_task_is_one_of_it(kind):
    assert task_of(Manifest.of({"task": {"kind": kind}})).kind == kind


def test_a_task_that_is_not_known_is_named_with_those_that_are():
    with pytest.raises(StoreError, match=r"^the run is of task='joy', .* it knows intensity, reply, emotion, cause"):
        task_of(Manifest.of({"task": {"kind": "joy"}}))


def test_a_new_run_of_ratings_names_its_task_and_is_known_by_its_prompts_alone():
    manifest = manifest_of(*FOUR_RELIGIONS)
    assert manifest["task"] == {"kind": "intensity"}
    assert "task" not in manifest["identity"]
    written = manifest_of(*FOUR_RELIGIONS, "task=reply")
    assert written["identity"]["task"] == {"kind": "reply", "max_tokens": 200, "temperature": 0.0, "top_p": 1.0}


@pytest.mark.parametrize("name", ["margin", "least_gap", "missing_shift", "wanted"])
@pytest.mark.parametrize("kind", TASKS)
def test_settings_of_ratings_are_refused_by_all_other_tasks(kind, name):
    points = load_statistics({**config_of(*FOUR_RELIGIONS).statistics.model_dump(), name: 2})
    if kind == "intensity":
        TASKS[kind].check_statistics(points)
    else:
        with pytest.raises(ConfigError, match=rf"statistics\.{name} is for runs of ratings"):
            TASKS[kind].check_statistics(points)
