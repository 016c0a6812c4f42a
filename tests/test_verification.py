"""`verify` names what of a run is not what was collected or not made of it, changed as a user would change it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import FOUR_RELIGIONS, as_stored, of_before, scripted_models
from test_planted_strategy import Scripted

from audit.errors import StoreError
from audit.extras.integrity.verification import first_table_difference
from audit.runs import ledger
from audit.runs.manifest import JudgementManifest
from audit.runs.store import JudgementFolder
from audit.tables.preference import JUDGED_PAIRS

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[1] / "reports"
ASKED = (
    "model.path=scripted", "elicitation=generate", *FOUR_RELIGIONS, "dimensions=[faith]", "strategy=two-stage",
    "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=1", "statistics.n_permutations=100",
    "elicitation.noise_sample=0", "elicitation.manipulation=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Return a function that runs a command on a scripted model, in one folder and without figures."""
    folder = tmp_path_factory.mktemp("verified")
    with scripted_models(folder) as load:

        def run(*words):
            from audit.__main__ import main

            load(Scripted())
            return main([str(word) for word in words])

        run.folder = folder
        yield run


@pytest.fixture(scope="module")
def once(command):
    """A finished run with stages; not to be written to."""
    assert command("run", *ASKED, "run_dir=once") == 0
    return command.folder / "once"


@pytest.fixture
def run(once, command):
    """A copy of it, named ``run`` in the folder that commands run in."""
    yield Path(shutil.copytree(once, command.folder / "run"))
    shutil.rmtree(command.folder / "run")


def said_by(command, capsys, *words):
    """Run a command; return its exit code, its output's lines and its last remark."""
    capsys.readouterr()
    code = command(*words)
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


def change_ratings(run, change):
    """Change the columns of the stored ratings, and write the file anew as any tool would."""
    path = run / "ratings.parquet"
    table = pq.read_table(path)
    columns = table.to_pydict()
    change(columns)
    pq.write_table(pa.Table.from_pydict(columns, schema=table.schema), path)


# --- What is as it was ------------------------------------------------------------------------------------------------


def test_a_run_that_nobody_touched_is_verified_and_not_written_to(command, run, capsys):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.rglob("*") if path.is_file()}
    code, out, err = said_by(command, capsys, "verify", "run")
    assert (code, out) == (0, ["verified: run"])
    n_tables = len(list((run / "tables").glob("*.csv")))
    of = json.loads((run / "manifest.json").read_text())
    assert err[0].startswith("stored: ")
    assert err[1:] == [
        f"digest: {of['digest']}",
        f"ratings: of {of['n_prompts']} prompts, one each, within 0 to 100",
        "labels: every answer is about the identities and narrative in prompts.json.gz",
        f"generation: manifest, tables and page belong to one analysis, {of['generation']}",
        f"statistics: {n_tables} of {n_tables} tables computed again: equal",
        "page and figures: 1 of 1 file made again: identical to the byte",
    ]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["example", "example-wordings", "example-replies"])
def test_the_committed_examples_are_verified(name, command, capsys):
    code, out, err = said_by(command, capsys, "verify", EXAMPLES / name)
    assert (code, out) == (0, [f"verified: {EXAMPLES / name}"]), err


def test_the_same_answers_analysed_alike_are_one_generation_in_any_folder(command, run):
    def generation():
        return json.loads((run / "manifest.json").read_text())["generation"]

    first = generation()
    assert (run / "tables" / "generation.txt").read_text() == f"{first}\n"
    assert first in (run / "report.html").read_text()
    assert command("report", "run") == 0
    assert generation() == first
    assert command("report", "run", "statistics.confidence=0.9") == 0
    assert generation() != first
    assert command("verify", "run") == 0


# --- What was silent --------------------------------------------------------------------------------------------------


def another_model_s_part(run, command):
    command("run", *ASKED, "model.name=another", "seed=3", "run_dir=other")
    shutil.copy(command.folder / "other" / "ratings.parquet", run)
    shutil.rmtree(command.folder / "other")


def rated(value):
    def change(columns):
        columns["intensity"][5] = value

    return lambda run, command: change_ratings(run, change)


SILENT = {
    "a part of another model copied in": (another_model_s_part, "ratings.parquet has changed since it was stored"),
    "one rating set to 99": (rated(99.0), "ratings.parquet has changed since it was stored"),
    "one rating set to 5000": (rated(5000.0), "ratings.parquet has changed since it was stored"),
    "what stages wrote deleted": (
        lambda run, command: (run / "stages.parquet").unlink(),
        "stages.parquet was stored but is gone",
    ),
    "a strategy's text edited": (
        lambda run, command: (run / "stages.parquet").write_bytes((run / "stages.parquet").read_bytes()[:-1] + b"x"),
        "stages.parquet has changed since it was stored",
    ),
    "the model's name edited": (
        lambda run, command: (run / "manifest.json").write_text(
            (run / "manifest.json").read_text().replace('"name": "scripted"', '"name": "a better model"')
        ),
        "manifest.json has changed since it was stored",
    ),
}


@pytest.mark.parametrize("how", SILENT)
def test_what_was_silent_is_named_by_every_command_that_reads_a_run(how, command, run, capsys):
    change, said = SILENT[how]
    change(run, command)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    assert out[0].startswith(f"wrong: {said}")
    before = (run / "report.html").read_bytes()
    for words in (
        ["report", "run"],
        ["run", *ASKED, "run_dir=run"],
        ["gate", "run", "margin=2"],
        ["report", "run", "once", "run_dir=both"],
        ["people", "export", "run"],
        ["consolidate", "run"],
    ):
        code, _, err = said_by(command, capsys, *words)
        assert code == 2, words
        assert err[-1].startswith(f"audit: run/{said}"), words
        assert err[-1].endswith("; `python -m audit verify run` lists everything that is wrong")
    assert (run / "report.html").read_bytes() == before
    assert not (command.folder / "both").exists()


@pytest.mark.model
def test_a_reply_edited_under_its_kept_score_is_named(command, capsys):
    asked = [word for word in ASKED if not word.startswith(("elicitation", "strategy="))]
    assert command("run", *asked, "task=reply", "run_dir=replied") == 0
    run = command.folder / "replied"
    assert said_by(command, capsys, "verify", "replied")[:2] == (0, ["verified: replied"])
    path = run / "replies.parquet"
    table = pq.read_table(path)
    columns = table.to_pydict()
    columns["text"][0] = "I feel with you with all my heart."
    pq.write_table(pa.Table.from_pydict(columns, schema=table.schema), path)
    code, out, _ = said_by(command, capsys, "verify", "replied")
    assert code == 1
    assert out[0].startswith("wrong: replies.parquet has changed since it was stored")
    assert said_by(command, capsys, "report", "replied")[0] == 2


# --- What a new ledger would hide -------------------------------------------------------------------------------------


def test_a_rating_changed_with_its_ledger_is_found_by_the_tables(command, run, capsys):
    rated(99.0)(run, command)
    as_stored(run)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    assert any(line.startswith("wrong: manifest.json comes from an analysis of other answers") for line in out)
    [gap] = [line for line in out if line.startswith("wrong: tables/gap.csv ")]
    assert "differs from what the answers give: delta in row 1 is " in gap
    assert gap.endswith("`python -m audit report run` makes it again")
    assert command("report", "run") == 0  # the remedy
    assert command("verify", "run") == 0


def test_ratings_about_others_than_were_asked_are_found_by_the_prompts(command, run, capsys):
    def swap(columns):
        columns["experiencer_group"][0] = "another group"

    change_ratings(run, swap)
    as_stored(run)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    said = "wrong: ratings.parquet has another experiencer_group for prompt 0 than was asked (prompts.json.gz)"
    assert out[0] == said


def test_ratings_that_are_there_twice_or_beyond_the_scale_are_found(command, run, capsys):
    rated(5000.0)(run, command)
    as_stored(run)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    assert "prompt 5 has the rating 5000 on a scale from 0 to 100 (1 in all" in out[0]

    def twice(columns):
        columns["intensity"][5] = 50.0
        columns["prompt_index"][1] = columns["prompt_index"][0]

    change_ratings(run, twice)
    as_stored(run)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    assert "prompts in" in out[0]


# --- Tables and page --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["mail", "mail/report.html"])
def test_whoever_has_the_page_alone_is_told_to_ask_for_the_folder(command, once, capsys, given):
    mail = command.folder / "mail"
    mail.mkdir(exist_ok=True)
    shutil.copy(once / "report.html", mail)
    code, _, err = said_by(command, capsys, "verify", given)
    assert (code, len(err)) == (2, 1)
    assert "a page alone cannot be checked; ask its sender for the run's folder" in err[0]
    _, _, err = said_by(command, capsys, "verify", "once/report.html")  # here the folder is at hand
    assert "give the run's folder" in err[0]
    assert "sender" not in err[0]


def test_a_table_or_a_page_that_was_changed_is_named_and_made_anew_by_report(command, run, capsys):
    path = run / "tables" / "gap.csv"
    table = pd.read_csv(path)
    table["delta"] = -table["delta"]
    table.to_csv(path, index=False)
    (run / "report.html").write_text((run / "report.html").read_text().replace("points", "marks"))
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    named = [line.split()[1] for line in out]
    assert named[:2] == ["report.html", "tables/gap.csv"]
    assert not any("not compared" in line for line in out)  # the ledger says already that the page was changed
    assert any("differs from what the answers give" in line for line in out)
    import audit

    with pytest.raises(
        audit.AuditError,
        match=r"tables/gap\.csv has changed since it was written.*report .*run` "
        r"makes it again",
    ):
        _ = audit.open_run(run).tables["gap"]
    assert command("report", "run") == 0
    assert said_by(command, capsys, "verify", "run")[:2] == (0, ["verified: run"])


def test_figures_that_were_not_carried_along_are_no_fault(command, once, tmp_path, capsys):
    run = Path(shutil.copytree(EXAMPLES / "example", tmp_path / "run"))
    shutil.rmtree(run / "figures", ignore_errors=True)
    code, out, err = said_by(command, capsys, "verify", run)
    assert (code, out) == (0, [f"verified: {run}"])
    assert any("figures that are missing (`report` draws them again" in line for line in err)


# --- Remedies ---------------------------------------------------------------------------------------------------------


def test_what_is_put_back_or_set_aside_is_well_again(command, run, once, capsys):
    rated(99.0)(run, command)
    shutil.copy(once / "ratings.parquet", run)  # "restore it from a copy"
    assert command("verify", "run") == 0
    rated(99.0)(run, command)
    (run / "ratings.parquet").rename(run / "ratings-aside")  # "set it aside under another name and run ... again"
    code, _, err = said_by(command, capsys, "run", *ASKED, "run_dir=run")
    assert code == 0
    assert "note: run/ratings.parquet was stored but is now missing: it is collected again" in err
    assert (run / "ratings.parquet").read_bytes() == (once / "ratings.parquet").read_bytes()
    assert command("verify", "run") == 0


def test_what_cannot_be_collected_anew_is_accepted_by_a_command_and_the_report_says_so(command, run, capsys):
    (run / "stages.parquet").unlink()
    assert command("run", *ASKED, "run_dir=run") == 2  # its answers are there, so that it is not asked again
    code, out, _ = said_by(command, capsys, "verify", "run", "accept=true")
    assert code == 0
    assert out[0] == "accepted: stages.parquet was stored but is gone"
    assert command("report", "run") == 0
    page = (run / "report.html").read_text()
    said = "1 file of the run had changed since it was stored, and was accepted as it is: stages.parquet."
    assert said in page
    assert "<strong>Files that were changed</strong>" in page  # in the box that is read first
    code, out, err = said_by(command, capsys, "verify", "run")
    assert (code, out) == (0, ["verified: run"])
    assert any(line.startswith("accepted although changed: stages.parquet") for line in err)
    assert said_by(command, capsys, "verify", "run", "accept=true")[1] == ["run: nothing has changed"]


def test_a_page_says_nothing_of_accepted_files_where_none_were(once):
    assert "accepted as" not in (once / "report.html").read_text()


def test_a_run_of_an_earlier_version_is_not_called_verified_before_it_has_a_ledger(command, run, capsys):
    of_before(run)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    assert out[0].startswith("wrong: ledger.jsonl is missing, as in runs of an earlier version")
    assert command("report", "run") == 0
    code, out, err = said_by(command, capsys, "verify", "run")
    assert (code, out) == (0, ["verified: run"])
    assert any(line.startswith("unknown: what happened to ") for line in err)


def test_a_ledger_that_is_deleted_is_no_way_out(command, run, capsys):
    rated(99.0)(run, command)
    (run / ledger.FILE).unlink()
    code, _, err = said_by(command, capsys, "report", "run")
    assert code == 2
    assert "ledger.jsonl is gone" in err[-1]
    assert said_by(command, capsys, "verify", "run")[0] == 1


def spoilt(path):
    path.write_bytes(b"spoilt\n")


REMEDIES = {
    "recover": [["recover", "run"], ["run", *ASKED, "run_dir=run"]],
    "accept": [["verify", "run", "accept=true"], ["report", "run"]],
    "again": [["run", *ASKED, "run_dir=run"]],
}
FOLLOWED = [
    ("manifest.json", spoilt, "recover"), ("manifest.json", Path.unlink, "recover"),
    ("prompts.json.gz", spoilt, "recover"), ("prompts.json.gz", Path.unlink, "accept"),
    ("stages.parquet", spoilt, "recover"), ("stages.parquet", Path.unlink, "accept"),
    ("ratings.parquet", spoilt, "recover"), ("ratings.parquet", Path.unlink, "again"),
    ("ledger.jsonl", spoilt, "recover"), ("ledger.jsonl", Path.unlink, "recover"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "remedy"), FOLLOWED)
def test_what_is_said_to_help_helps_when_it_is_followed(name, change, remedy, command, run, capsys):
    change(run / name)
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    assert out[0].startswith(f"wrong: {name} ")
    told = {"recover": "python -m audit recover run", "accept": "accept=true", "again": "run the same command again"}
    assert told[remedy] in out[0]
    for words in REMEDIES[remedy]:
        assert command(*words) == 0, words
    assert said_by(command, capsys, "verify", "run")[:2] == (0, ["verified: run"])


# --- What was accepted is said wherever numbers are shown -------------------------------------------------------------


def test_what_was_accepted_is_said_by_gate_comparison_and_exports_before_any_report_is_made(command, run, capsys):
    folder = command.folder
    assert command("run", *ASKED, "seed=3", "run_dir=other") == 0
    held = "files of the run changed after they were stored and were accepted as they are"
    assert held not in "\n".join(said_by(command, capsys, "gate", "run", "margin=50")[1])
    assert said_by(command, capsys, "verify", "run", "accept=true")[1] == ["run: nothing has changed"]
    change_ratings(run, lambda columns: columns["intensity"].__setitem__(5, 99.0))
    assert command("verify", "run", "accept=true") == 0
    said = "FILES HAD CHANGED since they were stored, and were accepted as they are (ratings.parquet)"
    for form in ("card", "csv"):
        assert command("export", "run", f"form={form}", f"to={form}", *(["texts=true"] if form == "csv" else [])) == 0
        written = "".join(path.read_text() for path in (folder / form).rglob("*.md"))
        assert said.replace("(", "&#40;").replace(")", "&#41;") in written or said in written, form
        shutil.rmtree(folder / form)
    code, out, _ = said_by(command, capsys, "gate", "run", "margin=50")
    assert code == 3  # the data cannot tell, whatever the gap is
    assert held in "\n".join(out)
    assert command("report", "run", "other", "run_dir=both") == 0
    page = (folder / "both" / "comparison.html").read_text()
    assert "Files had changed since they were stored, and were accepted as they are: " in page
    assert "(ratings.parquet)" in page
    for name in ("both", "other"):
        shutil.rmtree(folder / name)


def test_figures_and_tables_are_not_accepted_but_made_anew(command, run, capsys):
    (run / "tables" / "gap.csv").write_text("dimension\n")
    assert said_by(command, capsys, "verify", "run", "accept=true")[1] == [
        "run: nothing that was collected has changed; for tables and pages, run `python -m audit report run`"
    ]
    assert "accepted" not in json.loads((run / "manifest.json").read_text())
    assert said_by(command, capsys, "verify", "run")[0] == 1
    assert command("report", "run") == 0
    assert said_by(command, capsys, "verify", "run")[:2] == (0, ["verified: run"])
    assert "Files that were changed" not in (run / "report.html").read_text()


def test_an_export_takes_no_number_from_a_table_that_was_changed(command, run, capsys):
    path = run / "tables" / "gap.csv"
    table = pd.read_csv(path)
    table["delta"] += 1
    table.to_csv(path, index=False)
    told = ["organization=us", "relationship=third_party", "model_id=a/b"]
    code, _, err = said_by(command, capsys, "export", "run", "form=every-eval-ever", "to=eee", *told)
    assert code == 2
    assert ("run/tables/gap.csv has changed since it was written (its SHA-256 differs); make it again: ") in err[-1]


def test_a_page_that_no_ledger_vouches_for_is_held_against_the_one_that_is_made_again(command, run, capsys):
    (run / "report.html").write_text((run / "report.html").read_text().replace("points", "marks"))
    as_stored(run)  # a new ledger, of what was collected alone
    code, out, _ = said_by(command, capsys, "verify", "run")
    assert code == 1
    [said] = [line for line in out if "report.html" in line]
    assert said.startswith(
        "wrong: report.html differs from what the answers give, and is in no ledger; `python -m audit "
    )
    assert command("report", "run") == 0
    assert command("verify", "run") == 0


def test_the_digest_is_told_so_that_it_can_be_kept_elsewhere(command, run, capsys):
    kept = json.loads((run / "manifest.json").read_text())["digest"]
    assert f"digest: {kept}" in said_by(command, capsys, "verify", "run")[2]
    assert command("report", "run") == 0
    assert said_by(command, capsys, "verify", "run", f"expect={kept}")[:2] == (0, ["verified: run"])


# --- Comparisons ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(command, once):
    """Two runs and their comparison; not to be written to."""
    place = command.folder / "sides"
    assert command("run", *ASKED, "seed=3", "run_dir=sides/one") == 0
    shutil.copytree(once, place / "two")
    assert command("report", "sides/one", "sides/two", "run_dir=sides/both") == 0
    yield place
    shutil.rmtree(place)


def test_a_comparison_is_made_again_from_its_runs(command, compared, capsys):
    before = {path: path.read_bytes() for path in compared.rglob("*") if path.is_file()}
    code, out, err = said_by(command, capsys, "verify", "sides/both")
    assert (code, out) == (0, ["verified: sides/both"])
    n = len(list((compared / "both" / "tables").glob("*.csv")))
    assert err == [
        "a comparison has no ledger, so all of it is made again from its runs",
        "runs: 2 of 2 have the answers that were compared, as their ledgers say",
        f"statistics: {n} of {n} tables computed again: equal",
        "page and figures: 7 of 7 files made again: identical",
    ]
    assert {path: path.read_bytes() for path in compared.rglob("*") if path.is_file()} == before


def other_answers(place):
    change_ratings(place / "one", lambda columns: columns["intensity"].__setitem__(5, 99.0))
    as_stored(place / "one")


OF_COMPARISONS = {
    "a number of a table": (
        lambda place: (place / "both" / "tables" / "gap.csv").write_text("a\n1\n"),
        "wrong: tables/gap.csv differs from what the runs give: its columns are a; ",
    ),
    "its page": (
        lambda place: (place / "both" / "comparison.html").write_text("<p>No gap.</p>"),
        "wrong: comparison.html differs from what the runs give; ",
    ),
    "no page": (lambda place: (place / "both" / "comparison.html").unlink(), "wrong: comparison.html is gone; "),
    "a table that it has not": (
        lambda place: (place / "both" / "tables" / "more.csv").write_text("a\n1\n"),
        "wrong: tables/more.csv is not of this comparison; move it out of the folder",
    ),
    "other answers of a run, with a new ledger": (other_answers, "wrong: manifest.json has other answers than "),
    "a run that was changed": (
        lambda place: (place / "one" / "ratings.parquet").write_bytes(b"x"),
        "wrong: manifest.json names runs that cannot be compared now: sides/one/ratings.parquet has changed",
    ),
    "a run that is gone": (
        lambda place: (place / "one").rename(place / "gone"),
        "wrong: manifest.json names runs that are missing (sides/one): whether it matches them is unknown; ",
    ),
}


@pytest.mark.parametrize("how", OF_COMPARISONS)
def test_a_comparison_that_is_not_what_its_runs_give_is_named(how, command, compared, capsys):
    kept = shutil.copytree(compared, command.folder / "kept")
    change, said = OF_COMPARISONS[how]
    try:
        change(compared)
        code, out, _ = said_by(command, capsys, "verify", "sides/both")
        assert code == 1
        assert any(line.startswith(said) for line in out), out
    finally:
        shutil.rmtree(compared)
        Path(kept).rename(compared)


# --- Judged pairs and choices -----------------------------------------------------------------------------------------


def judged(place):
    with JudgementFolder(place) as folder:
        folder.write_manifest(JudgementManifest.of({"identity": {"a": 1}}))
        folder.write_file("parts/part-000000.parquet", b"pairs")
        folder.write_file("tables/preference.csv", b"a\n1\n")
    return place


def test_judged_pairs_are_checked_and_each_remedy_works(command, tmp_path, capsys):
    place = judged(tmp_path / "judged")
    code, out, err = said_by(command, capsys, "verify", place)
    assert (code, out) == (0, [f"verified: {place}"])
    assert err[-1].startswith("not checked: whether its tables match the judge's answers; run the same ")
    (place / "parts" / "part-000000.parquet").write_bytes(b"others")
    code, out, _ = said_by(command, capsys, "verify", place)
    remedy = "restore it from a copy, or move it out of the folder and give the same judge command again"
    assert code == 1
    assert remedy in out[0]
    with pytest.raises(StoreError, match=remedy), JudgementFolder(place):
        pass
    (place / "parts" / "part-000000.parquet").rename(tmp_path / "aside")  # the remedy: the pairs are asked anew
    with JudgementFolder(place) as folder:
        assert folder.parts(JUDGED_PAIRS).numbers() == set()
    (tmp_path / "aside").write_bytes(b"pairs")
    shutil.copy(tmp_path / "aside", place / "parts" / "part-000000.parquet")
    with JudgementFolder(place):
        pass
    (place / "tables" / "preference.csv").write_bytes(b"a\n2\n")
    assert said_by(command, capsys, "verify", place)[1] == [
        "wrong: tables/preference.csv has changed since it was stored (its SHA-256 differs); the "
        "command that made it, `judge` or `people import`, makes it again"
    ]


def test_a_ledger_of_judged_pairs_that_is_deleted_is_noticed(command, tmp_path, capsys):
    place = judged(tmp_path / "judged")
    (place / ledger.FILE).unlink()
    assert said_by(command, capsys, "verify", place)[0] == 1
    with pytest.raises(StoreError, match=r"ledger\.jsonl is gone"), JudgementFolder(place):
        pass


# --- Tables that differ by rounding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "made", "said"),
    [
        ("a,b\n1.0,x\n", "a,b\n1.0,x\n", ""),
        ("a\n1.0000000001\n", "a\n1.0\n", ""),
        ("a\n1.00001\n", "a\n1.0\n", "a in row 1 is '1.00001' instead of '1.0'"),
        ("a\n1e-9\n", "a\n0.0\n", ""),
        ("a\n-0.5\n", "a\n0.5\n", "a in row 1 is '-0.5' instead of '0.5'"),
        ("a\n\n", "a\n0.0\n", "it has 0 rows instead of 1"),
        ("a,b\n,1\n", "a,b\n0.0,1\n", "a in row 1 is '' instead of '0.0'"),
        ("a,b\nnan,1\n", "a,b\nnan,1\n", ""),
        ("a\nno gap\n", "a\na gap\n", "a in row 1 is 'no gap' instead of 'a gap'"),
        ("a\n1\n", "b\n1\n", "its columns are a"),
        ("", "a\n1\n", "it cannot be read as a table"),
    ],
)
def test_tables_are_alike_but_for_rounding(kept, made, said):
    assert first_table_difference(kept.encode(), made.encode()) == said
