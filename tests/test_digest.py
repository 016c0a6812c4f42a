"""A run's digest depends on what was asked and answered, and on nothing else of its files."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import as_stored, of_before
from test_ledger import every, run  # noqa: F401  fixtures
from test_store import row
from test_verification import ASKED, change_ratings, command, once, rated, said_by  # noqa: F401  fixtures
from test_verification import run as analysed  # noqa: F401

from audit.extras.integrity.recover import recover
from audit.runs.digest import rows_sha256
from audit.runs.ledger import FILE as LEDGER
from audit.runs.manifest import Manifest
from audit.runs.parquet import schema_of
from audit.runs.store import RunFolder
from audit.tables.ratings import RATINGS

EXAMPLES = Path(__file__).parents[1] / "reports"
OLD = Path(__file__).parent / "old_runs" / "6ac1d94.tar.xz"


def digest_in(folder):
    return RunFolder(folder).digest(Manifest.read(folder))


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


# --- What it does not depend on ---------------------------------------------------------------------------------------


def test_parts_and_one_file_of_them_have_the_same_digest(run):  # noqa: F811
    before = digest_in(run)
    with RunFolder(run) as folder:
        folder.consolidate()
    assert (run / "ratings.parquet").exists()
    assert digest_in(run) == before


@pytest.mark.parametrize("how", [{"compression": "none"}, {"use_dictionary": False}, {"row_group_size": 1}])
def test_the_encoding_of_parquet_is_no_part_of_it(how, analysed):  # noqa: F811
    before = digest_in(analysed)
    path = analysed / "ratings.parquet"
    content = path.read_bytes()
    pq.write_table(pq.read_table(path), path, **how)
    assert path.read_bytes() != content
    as_stored(analysed)
    assert digest_in(analysed) == before


def test_gzip_s_own_bytes_are_no_part_of_it(analysed):  # noqa: F811
    before = digest_in(analysed)
    path = analysed / "prompts.json.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=7))
    as_stored(analysed)
    assert digest_in(analysed) == before


def test_a_report_a_recovery_and_a_copy_leave_it_as_it_was(command, analysed, tmp_path):  # noqa: F811
    before = digest_in(analysed)
    assert manifest_of(analysed)["digest"] == before
    assert command("report", "run", "statistics.confidence=0.9", "statistics.margin=2") == 0
    assert manifest_of(analysed)["digest"] == before
    (analysed / "manifest.json").unlink()
    recover(analysed)
    assert command("report", "run") == 0
    assert manifest_of(analysed)["digest"] == before
    assert digest_in(shutil.copytree(analysed, tmp_path / "copy")) == before


def test_a_column_that_a_later_version_adds_and_that_says_nothing_changes_nothing():
    rows = pa.Table.from_pylist([row(k, pruned_points=None, wording=0) for k in (0, 1)], schema=schema_of(RATINGS))
    without = RATINGS.without("pruned_points", "wording")
    earlier = type(RATINGS)(RATINGS.name, RATINGS.row, without)
    assert rows_sha256(rows, RATINGS) == rows_sha256(rows.drop(["pruned_points", "wording"]), earlier)


def test_what_is_missing_and_zero_have_one_form_each():
    def of(value):
        return rows_sha256(pa.Table.from_pylist([row(0, intensity=value), row(1)], schema=schema_of(RATINGS)), RATINGS)

    assert of(None) == of(float("nan"))
    assert of(0.0) == of(-0.0)
    assert len({of(None), of(0.0), of(1.0), of(1.0 + 2**-52)}) == 4


# --- What it does depend on -------------------------------------------------------------------------------------------


def one_more(text):
    return f"{text}."


CHANGED = {
    "intensity": lambda columns: columns["intensity"].__setitem__(3, 41.0),
    "status": lambda columns: columns["status"].__setitem__(3, "failed"),
    "response": lambda columns: columns["response"].__setitem__(3, one_more(columns["response"][3])),
    "perceiver": lambda columns: columns["perceiver"].__setitem__(3, "another"),
}


@pytest.mark.parametrize("how", CHANGED)
def test_any_value_of_an_answer_changes_it(how, analysed):  # noqa: F811
    before = digest_in(analysed)
    change_ratings(analysed, CHANGED[how])
    as_stored(analysed)
    assert digest_in(analysed) != before


@pytest.mark.parametrize("field", ["model", "seed", "scale", "dimensions", "placebo", "identity"])
def test_what_the_manifest_says_was_asked_changes_it(field, analysed):  # noqa: F811
    before = digest_in(analysed)
    content = manifest_of(analysed)
    other = {
        "model": {**content["model"], "name": "a better model"},
        "seed": content["seed"] + 1,
        "scale": {**content["scale"], "high": 1000},
        "dimensions": [*content["dimensions"], "another"],
        "placebo": ["another"],
        "identity": {**content["identity"], "prompt": {"variant": "another"}},
    }
    (analysed / "manifest.json").write_text(json.dumps({**content, field: other[field]}))
    as_stored(analysed)
    assert digest_in(analysed) != before


# --- Where it is shown and checked ------------------------------------------------------------------------------------


def test_page_card_and_gate_show_the_digest_that_verify_checks(command, analysed, capsys):  # noqa: F811
    digest = digest_in(analysed)
    assert digest in (analysed / "report.html").read_text()
    assert command("export", "run", "form=card", "to=card") == 0
    assert digest in (command.folder / "card" / "AUDIT_CARD.md").read_text()
    assert command("gate", "run", "margin=50", "out=gated") in (0, 1, 3)
    assert json.loads((command.folder / "gated" / "verdict.json").read_text())["run"]["digest"] == digest
    assert digest in (command.folder / "gated" / "summary.md").read_text()
    code, out, err = said_by(command, capsys, "verify", "run", f"expect={digest}")
    assert (code, out) == (0, ["verified: run"])
    assert f"digest: {digest}, as expected" in err
    assert said_by(command, capsys, "verify", "run", f"expect={digest.upper()}")[0] == 0


@pytest.mark.parametrize("how", ["a rating", "a rating, and all that was made of it"])
def test_a_run_that_was_made_anew_whole_is_not_the_expected_one(how, command, analysed, capsys):  # noqa: F811
    digest = digest_in(analysed)
    rated(99.0)(analysed, command)
    as_stored(analysed)
    if how != "a rating":  # nothing in the folder tells
        assert command("report", "run") == 0
        assert command("verify", "run") == 0
    code, out, _ = said_by(command, capsys, "verify", "run", f"expect={digest}")
    assert code == 1
    said = f"wrong: digest is {digest_in(analysed)}, not the expected {digest}"
    assert any(line.startswith(said) for line in out)
    assert "verified: run" not in out


@pytest.mark.parametrize("how", ["unreadable, with its ledger", "changed, beside its ledger"])
def test_a_run_that_cannot_be_read_is_not_the_expected_one(how, command, analysed, capsys):  # noqa: F811
    digest = digest_in(analysed)
    (analysed / "ratings.parquet").write_bytes(b"")
    if how.startswith("unreadable"):
        as_stored(analysed)
    code, out, err = said_by(command, capsys, "verify", "run", f"expect={digest}")
    assert code == 1
    assert out[0].startswith("wrong: ")
    assert not any("as expected" in line or line.startswith("verified") for line in (*out, *err))


def test_a_run_without_a_ledger_is_held_against_the_expected_digest(command, analysed, capsys):  # noqa: F811
    digest = digest_in(analysed)
    of_before(analysed)
    assert f"digest: {digest}, as expected" in said_by(command, capsys, "verify", "run", f"expect={digest}")[2]
    rated(99.0)(analysed, command)
    assert "wrong: digest is " in "\n".join(said_by(command, capsys, "verify", "run", f"expect={digest}")[1])


@pytest.mark.parametrize(
    "given", ["", "9f2c", "9f2c" * 15, "9f2c" * 16 + "0", "g" * 64, "sha256:" + "9f2c" * 16, "9f2c" * 15 + "9f2\u0663"]
)
def test_a_short_form_of_a_digest_proves_nothing_and_is_refused(given, command, analysed, capsys):  # noqa: F811
    code, out, err = said_by(command, capsys, "verify", "run", f"expect={given}")
    assert (code, out) == (2, [])
    assert err[-1].startswith(f"audit: expect={given}: ")


def test_accepting_and_expecting_are_two_commands_and_a_comparison_has_no_digest(command, analysed, capsys):  # noqa: F811
    digest = digest_in(analysed)
    assert said_by(command, capsys, "verify", "run", f"expect={digest}", "accept=true")[0] == 2
    assert command("run", *ASKED, "seed=3", "run_dir=third") == 0
    assert command("report", "run", "third", "run_dir=both") == 0
    code, _, err = said_by(command, capsys, "verify", "both", f"expect={digest}")
    for made in ("both", "third"):
        shutil.rmtree(command.folder / made)
    assert code == 2
    assert err[-1].startswith("audit: expect=: both is made of several runs")


@pytest.mark.parametrize("name", ["example", "example-own", "example-replies", "example-wordings"])
def test_the_committed_examples_have_a_digest(name):
    assert b'"after"' not in (EXAMPLES / name / LEDGER).read_bytes()
    assert len(digest_in(EXAMPLES / name)) == 64


def test_a_ledger_that_is_chained_as_earlier_ones_were_holds(tmp_path):
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    old = tmp_path / "example-own"
    assert b'"after"' in (old / LEDGER).read_bytes()
    assert len(digest_in(old)) == 64
