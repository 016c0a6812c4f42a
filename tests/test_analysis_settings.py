"""The settings of an analysis are declared once, and those that a manifest of any version holds are read back."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from audit.configuration.analysis_settings import MOST_PERMUTATIONS, AnalysisSettings
from audit.configuration.packaged import conf_folder
from audit.configuration.schema import load_statistics
from audit.errors import ConfigError
from audit.runs.manifest import SCHEMA_VERSION, Manifest, ManifestError

HERE = Path(__file__).parent
FIRST = (
    "n_permutations", "confidence", "margin", "wanted", "power", "min_number_mass", "formula", "fit", "random",
    "cluster", "stereotypes", "human", "human_id", "human_rating",
)  # fmt: skip
"""What versions before ``least_gap``, ``missing_shift`` and ``least_response`` recorded, in their order."""
positive = st.floats(0, exclude_min=True, allow_infinity=False) | st.integers(1, 1000)
text = st.text(st.characters(codec="utf-8"), min_size=1)
VALUES = {
    "n_permutations": st.integers(100, MOST_PERMUTATIONS * 10),
    "confidence": st.floats(0.5, 1, exclude_min=True, exclude_max=True),
    **dict.fromkeys(("margin", "least_gap", "missing_shift", "wanted"), positive),
    "power": st.floats(0.5, 1, exclude_max=True),
    "min_number_mass": st.floats(0, 1) | st.sampled_from([0, 1]),
    "least_response": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "fit": st.sampled_from(["mixed", "ols"]),
    **dict.fromkeys(
        ("formula", "random", "cluster", "stereotypes", "human", "human_id", "human_rating"), text
    ),
}  # fmt: skip
"""What a manifest may hold for each setting; null, too, where nothing was asked for."""


@st.composite
def recorded(draw: st.DrawFn) -> dict[str, object]:
    """Draw what some version recorded: some of the settings in some order, some null, and names of no setting."""
    names = draw(st.permutations([*VALUES]).flatmap(lambda every: st.integers(0, len(every)).map(lambda n: every[:n])))
    content = {name: draw(st.none() | VALUES[name]) for name in names}
    return content | dict.fromkeys(draw(st.lists(st.sampled_from(["n_bootstrap", "seed"]), unique=True)), 3)


def as_json(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


@given(recorded())
def test_what_any_version_recorded_is_read_back_and_written_as_it_was(content):
    manifest = Manifest.of({"config": {"statistics": content, "own": 1}})
    read, usual = manifest.statistics, AnalysisSettings()
    for name in AnalysisSettings.model_fields:
        value = content.get(name)
        expected = getattr(usual, name) if value is None else value
        found = getattr(read, name)
        assert found == Path(expected) if isinstance(found, Path) else as_json(found) == expected, name
    assert manifest.config.recorded == content
    written = json.loads(manifest.to_bytes())
    assert written == {"schema_version": SCHEMA_VERSION, "config": {"statistics": content, "own": 1}}
    assert list(written["config"]["statistics"]) == list(content)  # in the order read


@given(recorded())
def test_settings_that_are_stored_and_read_back_are_the_same(content):
    settings = AnalysisSettings.recorded(content)
    kept = json.loads(Manifest.of({}).adding("config", statistics=settings.model_dump(mode="json")).to_bytes())
    assert Manifest.of(kept).statistics == settings
    assert list(kept["config"]["statistics"]) == list(AnalysisSettings.model_fields)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"margin": "2"}, "margin is '2', but must be a number"),
        ({"margin": "2", "power": 3}, "margin is '2', but must be a number"),
        ({"n_permutations": True}, "n_permutations is True, but must be a number"),
        ({"human": 5}, "human is 5, but must be a path"),
        ("margin=2", " is 'margin=2', but must be a JSON object"),
    ],
)
def test_what_no_version_recorded_is_named(content, said):
    with pytest.raises(ManifestError, match=rf"the manifest's config\.statistics\.?{said}"):
        Manifest.of({"config": {"statistics": content}})


def test_bounds_hold_for_what_is_asked_and_not_for_what_was_recorded():
    """A run folder opens for ever, whatever its version allowed; a new analysis says what it cannot take."""
    content = {"margin": 0, "confidence": 0.5, "n_permutations": 99, "fit": "lasso", "human_id": "", "power": 0.9}
    manifest = Manifest.of({"config": {"statistics": content}})
    read = manifest.statistics
    assert {name: getattr(read, name) for name in content} == content
    assert read.model_fields_set == set(content)
    with pytest.raises(ConfigError, match=r"statistics\.(margin|confidence|n_permutations|fit|human_id)"):
        load_statistics(manifest.config.recorded)


def test_old_runs_open_with_the_settings_that_they_lack_at_their_defaults():
    """Runs of two earlier versions; see ``old_runs/README.md``."""
    n = 0
    for packed in sorted((HERE / "old_runs").glob("*.tar.xz")):
        with tarfile.open(packed) as archive:
            for member in archive.getmembers():
                if member.name.endswith("/manifest.json"):
                    content = json.load(archive.extractfile(member))
                    if "kind" not in content:
                        assert tuple(content["config"]["statistics"]) == FIRST
                        assert Manifest.of(content).statistics == AnalysisSettings()
                        n += 1
    assert n == 11


def test_permutations_have_an_upper_limit_for_who_asks_and_none_for_who_asked_before():
    assert AnalysisSettings.recorded({"n_permutations": MOST_PERMUTATIONS + 1}).n_permutations == 10_000_001
    with pytest.raises(ConfigError, match="n_permutations=10000001: at most 10,000,000"):
        load_statistics({"n_permutations": MOST_PERMUTATIONS + 1})


def test_the_packaged_configuration_has_the_settings_with_their_defaults_in_their_order():
    """A new setting is a field and this file's line; a run that Hydra composes is analysed as one that is read."""
    packaged = yaml.safe_load((conf_folder() / "statistics" / "default.yaml").read_text("utf-8"))
    assert packaged == AnalysisSettings().model_dump(mode="json")
    assert list(packaged) == list(AnalysisSettings.model_fields)


def test_settings_in_points_are_marked_once():
    assert AnalysisSettings.in_points() == {"margin": False, "least_gap": False, "missing_shift": True, "wanted": False}


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        AnalysisSettings().confidence = 0.9
    with pytest.raises(ValidationError):
        AnalysisSettings(confidnce=0.9)


def test_the_error_rate_is_one_less_the_coverage_without_dust():
    assert 1 - 0.9 != 0.1  # 0.09999999999999998
    assert AnalysisSettings(confidence=0.9).alpha == 0.1
