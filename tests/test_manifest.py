"""A manifest is attributes to who reads it, and comes back to the file as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.errors import StoreError
from audit.runs.manifest import (
    SCHEMA_VERSION,
    ChoicesManifest,
    ComparedWords,
    ComparisonManifest,
    JudgementManifest,
    Manifest,
    ManifestError,
)

COMMITTED = sorted(Path(__file__).parents[1].glob("reports/*/*/manifest.json"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}")
def test_committed_folders_are_read_and_would_be_written_as_they_are(path):
    folder = path.parent
    read = ComparisonManifest.read_if_there(folder) or Manifest.read(folder)
    assert read.to_bytes() == path.read_bytes()
    assert read.command.startswith("python -m audit ")


def test_what_nobody_reads_is_kept_at_any_depth_and_fields_keep_their_places():
    content = {"z": 1, "model": {"x": {"y": [1, None]}, "name": "m"}, "seed": 3, "config": {"own": True}}
    changed = Manifest.of(content).adding("config", statistics={"margin": 2}).having(seed=4, preset="none")
    assert (
        changed.to_bytes()
        == (
            json.dumps(
                {"schema_version": SCHEMA_VERSION, **content, "seed": 4, "preset": "none"}
                | {"config": {"own": True, "statistics": {"margin": 2}}},
                indent=2,
            )
            + "\n"
        ).encode()
    )
    assert (changed.model.name, changed.statistics.margin, changed.seed) == ("m", 2, 4)


def test_what_was_not_recorded_and_what_is_null_have_the_declared_defaults():
    for content in (
        {},
        {"strategy": None, "model": {"revision": None, "files": None}, "clusters": None, "checks": None},
    ):
        manifest = Manifest.of(content)
        assert (manifest.model.revision, manifest.model.files, manifest.strategy.name) == ("", {}, "")
        assert (manifest.clusters, manifest.placebo, manifest.checks, manifest.inventory) == ({}, (), {}, None)
        assert manifest.task.kind == "intensity"
        assert (manifest.statistics.confidence, manifest.statistics.margin) == (0.95, None)
        assert manifest.timings.seconds_per_prompt != manifest.timings.seconds_per_prompt
        assert manifest.outside.status_given


def test_a_whole_number_stays_one():
    scale = Manifest.of({"scale": {"low": 0, "high": 10.5}}).scale
    assert (repr(scale.low), repr(scale.high)) == ("0", "10.5")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"scale": {"low": "zero"}}, "scale.low is 'zero', but must be a number"),
        ({"n_prompts": True}, "n_prompts is True, but must be a number"),
        ({"model": 3}, "model is 3, but must be a JSON object"),
        ({"dimensions": "faith"}, "dimensions is 'faith', but must be a list"),
        ({"clusters": {"faith": 3}}, "clusters.faith is 3, but must be a JSON object"),
        ({"command": 3}, "command is 3, but must be text"),
        ({"scorers": {"judge": {"own_gap": {"left_out": {"f": "y"}}}}}, "left_out.f is 'y', but must be a number"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_named(content, said, tmp_path):
    with pytest.raises(ManifestError, match=said):
        Manifest.of(content)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION, **content}))
    with pytest.raises(StoreError, match=said) as raised:
        Manifest.read(tmp_path)
    assert str(raised.value).startswith(f"{path} is damaged: the manifest's ")


@pytest.mark.parametrize("kind", [ComparisonManifest, JudgementManifest, ChoicesManifest])
def test_a_folder_made_of_runs_is_told_from_others(kind, tmp_path):
    assert kind.read_if_there(tmp_path) is None
    (tmp_path / "manifest.json").write_bytes(kind.of({"command": "c", "runs": [{"run": "A"}]}).to_bytes())
    read = kind.read_if_there(tmp_path)
    assert read is not None
    assert [run.run for run in read.runs] == ["A"]
    others = {ComparisonManifest, JudgementManifest, ChoicesManifest} - {kind}
    assert [other.read_if_there(tmp_path) for other in others] == [None, None]
    with pytest.raises(StoreError, match="is not a run folder: it has a "):
        Manifest.read(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"kind": kind.kind_written, "confidence": "high"}))
    with pytest.raises(StoreError, match="is damaged: the manifest's confidence is 'high', but must be a number"):
        kind.read_if_there(tmp_path)


MEASURE = {
    "name": "n_words", "title": "Length", "unit": "words", "better": "neither", "source": "ours", "caution": "",
    "low": 0, "high": None,
}  # fmt: skip
ITEM = {"item_id": "a", "text": "I am well.", "subscale": "s", "reverse": False}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"scorers": {"lexical": {"measures": [{**MEASURE, "low": [[1]]}]}}},
            "0 is damaged: its low is [[1]], but must",
        ),
        (
            {"scorers": {"lexical": {"measures": [{**MEASURE, "better": -1}]}}},
            "its better is -1, but must be 'higher', ",
        ),
        (
            {"scorers": {"lexical": {"measures": [MEASURE, {"name": "x"}]}}},
            "measures.1 is damaged: the manifest has no tit",
        ),
        ({"inventory": {"items": [{**ITEM, "text": None}]}}, "items.0 is damaged: the manifest has no text"),
        (
            {"inventory": {"items": [{**ITEM, "reverse": "often"}]}},
            "its reverse is 'often', but must be true or false",
        ),
        ({"n_prompts": 10**30}, "n_prompts is 1000000000000000000000000000000, but must be at least 1"),
        ({"n_prompts": -1}, "n_prompts is -1, but must be at least 1"),
        ({"scale": {"low": 5, "high": 5}}, "scale is {'low': 5, 'high': 5}, but low must be below high"),
    ],
)
def test_what_no_manifest_says_is_named_with_the_command_that_restores_it(content, said, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION, "n_prompts": 1, "shard_size": 1, **content}))
    with pytest.raises(StoreError) as raised:
        Manifest.read(tmp_path)
    assert said in str(raised.value)
    assert str(raised.value).endswith(
        f"; python -m audit recover {tmp_path} restores it from its copy, or saves what was collected"
    )


def test_measures_and_items_are_read_as_plain_values():
    manifest = Manifest.of({"scorers": {"lexical": {"measures": [MEASURE]}}, "inventory": {"items": [ITEM]}})
    assert manifest.scorers["lexical"].measures == (MEASURE,)
    assert manifest.inventory.items == (ITEM,)


@pytest.mark.parametrize("text", ['{"seed": NaN}', '{"seed": -Infinity}', '{"seed": 1e999}', "[" * 100_000, "9" * 5000])
def test_numbers_that_are_none_and_endless_nesting_are_one_line(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest.json cannot be read \(.*python -m audit recover ") as raised:
        Manifest.read(tmp_path)
    assert len(str(raised.value).splitlines()) == 1
    assert ComparisonManifest.read_if_there(tmp_path) is None


def test_a_path_that_is_no_utf_8_is_kept_as_it_was(tmp_path):
    (tmp_path / "manifest.json").write_bytes(
        Manifest.of({"n_prompts": 1, "shard_size": 1, "command": "report a\udcff"}).to_bytes()
    )
    (tmp_path / "manifest.json").read_text(encoding="utf-8")
    assert Manifest.read(tmp_path).command == "report a\udcff"


def test_a_folder_of_runs_is_told_from_a_run_and_one_of_them_is_named(tmp_path):
    (tmp_path / "b c").mkdir()
    (tmp_path / "b c" / "manifest.json").write_text("{}", "utf-8")
    with pytest.raises(StoreError, match=r"it has runs in it \(b c\); give one of them, such as '.*/b c'$"):
        Manifest.read(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.json").write_text("{}", "utf-8")
    with pytest.raises(
        StoreError,
        match=r"it has runs in it \(a and 1 more\); give one of them, such as "
        r".*/a$",
    ):
        Manifest.read(tmp_path)


def test_stems_of_an_earlier_version_are_compared_as_that_version_did_and_stated_ones_are_taken_as_they_are():
    """Earlier manifests had the stems of some terms and left the others to their letters, in all dimensions."""
    content = {"dimensions": ["religion", "age"], "stems": {"religion": {"a Hindu": "hindu"}}}
    before, now = Manifest.of(content), Manifest.of({"stems_stated": True, **content})
    assert {name: type(each) for name, each in before.stems.items()} == dict.fromkeys(
        ["religion", "age"], ComparedWords
    )
    assert before.stems["religion"] == {"a Hindu": "hindu"}
    assert dict(now.stems) == content["stems"]
    assert not isinstance(now.stems["religion"], ComparedWords)
    assert before.having(status="complete").content["stems"] == content["stems"]  # what the file says stays
