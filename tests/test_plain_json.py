"""JSON from outside: whatever it is, a value or a ValueError; and every file of ours says so in one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.asking.prompt_export import Export, file_beside
from audit.errors import StoreError
from audit.people.collection import _read_study
from audit.runs.manifest import ComparisonManifest, Manifest
from audit.runs.store import RunFolder
from audit.tables.json_text import parse_json
from audit.tasks.recognition.corpus import FILE as CORPUS
from audit.tasks.recognition.corpus import read_corpus
from audit.tasks.reply.scoring import read_scorer

DEEP = b'{"a":' * 100_000
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@given(PLAIN)
def test_what_was_written_is_read(value):
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEEP, "nested too deeply"),
        (b"[" * 5_000, "nested too deeply"),
        (b'{"n": NaN}', "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b'{"n": 1e400}', "1e400 is too large"),
        (b"9" * 5_000, "4300 digits"),
        (b"\xff", "utf-8"),
        (b"", "Expecting value"),
    ],
)
def test_what_is_no_json_is_a_value_error(text, said):
    with pytest.raises(ValueError, match=said):
        parse_json(text)


def test_a_server_s_nan_is_read_where_that_is_asked_for():
    assert str(parse_json("[NaN, 1e400]", numbers_alone=False)) == "[nan, inf]"


@pytest.mark.parametrize("content", [DEEP, b'{"schema_version": 1, "seed": NaN}', b'{"schema_version": 1, "x": 1e400}'])
def test_a_manifest_of_such_json_ends_in_one_line(content, tmp_path):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read \("):
        Manifest.read(tmp_path)
    assert ComparisonManifest.read_if_there(tmp_path) is None


def test_what_is_no_text_in_a_manifest_is_written_and_read_again(tmp_path):
    # As a folder's name that is no UTF-8 comes from the command line.
    manifest = Manifest.of({"command": "run run_dir=\udcff", "n_prompts": 1, "shard_size": 1})
    (tmp_path / "manifest.json").write_bytes(manifest.to_bytes())
    assert Manifest.read(tmp_path).command == "run run_dir=\udcff"
    assert b"\\udcff" in manifest.to_bytes()


def test_files_beside_a_run_s_tables_that_are_such_json_are_named(tmp_path):
    run = RunFolder(tmp_path)
    (tmp_path / "scores" / "lexical").mkdir(parents=True)
    (tmp_path / "scores" / "lexical" / "scorer.json").write_bytes(DEEP)
    assert read_scorer(run, "lexical") == {}
    (tmp_path / "study.json").write_bytes(DEEP)
    with pytest.raises(StoreError, match=r"study\.json cannot be read"):
        _read_study(tmp_path / "study.json")
    (tmp_path / CORPUS).write_bytes(DEEP)
    with pytest.raises(StoreError, match=r"cannot be read \(it is nested too deeply\)"):
        read_corpus(run)
    (tmp_path / "p.jsonl").write_bytes(b"")
    file_beside(tmp_path / "p.jsonl").write_bytes(DEEP)
    with pytest.raises(StoreError, match=r"p\.jsonl\.run\.json cannot be read \(it is nested too deeply\)"):
        Export.read(tmp_path / "p.jsonl")


@pytest.mark.parametrize(
    "study", [{"seed": 1, "about": ["religion"]}, {"seed": 1, "emotions": "sad"}, {"seed": 1, "about": {"q": 3}}]
)
def test_a_study_that_names_something_else_is_refused(study, tmp_path):
    (tmp_path / "study.json").write_text(json.dumps(study))
    with pytest.raises(StoreError, match=r"study\.json cannot be read \(it (has|names)"):
        _read_study(tmp_path / "study.json")
