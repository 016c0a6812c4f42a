"""A run as CSV, for SPSS and as a data set: the numbers are those of the run, and what must not go out stays in."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from runs import as_stored, in_parts, read_exactly

sys.path.insert(0, str(Path(__file__).parent))
from given import ASKED, FORMULA, GIVEN, write_answers

from audit.extras.exchange.asked import AskedRatings
from audit.extras.exchange.registry import FORMS
from audit.runs.manifest import Manifest
from audit.runs.prompts import FILE, PromptsAsked
from audit.runs.store import RunFolder
from audit.tables.ratings import RATINGS
from audit.tables.spreadsheets import as_it_was

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EEE = ("organization=A lab", "relationship=third_party", "model_id=a/model")
OPTIONS = {"every-eval-ever": EEE}
WITHOUT_TEXTS = [name for name in RATINGS if name != "response"]
needs_word = pytest.mark.skipif(
    importlib.util.find_spec("docx") is None, reason="needs python-docx: pip install 'empathy-audit[word]'"
)
needs_spss = pytest.mark.skipif(
    importlib.util.find_spec("pyreadstat") is None, reason="needs pyreadstat: pip install 'empathy-audit[spss]'"
)
NEEDS = {"spss": needs_spss, "paper": needs_word}


@pytest.fixture(scope="module")
def made(audit_in, tmp_path_factory):
    """A finished run in `run`, with the prompts and answers that it was made of."""
    folder = tmp_path_factory.mktemp("made")
    assert audit_in(folder, "prompts", *ASKED, "out=p.jsonl") == 0
    write_answers(folder / "p.jsonl", folder / "a.jsonl")
    assert audit_in(folder, *GIVEN) == 0
    return folder


@pytest.fixture
def there(made, audit, tmp_path):
    """The same in the test's own folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def unfinished(there):
    """The same run, as it is where it was ended before its last shard; returns how many prompts are missing."""
    run = in_parts(there / "run")
    last = max(run.glob("ratings/part-*.parquet"))
    n_missing = len(pd.read_parquet(last))
    last.unlink()
    rewrite(run, status="running")
    return n_missing


def rewrite(run, **changes):
    path = Path(run) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    as_stored(Path(run))


def ratings(run="run"):
    return RunFolder(Path(run)).read("ratings", n_prompts=Manifest.read(Path(run)).n_prompts, unfinished=True)


def same(written, rows):
    """Hold a table that was read back against the run's rows, number by number."""
    assert list(written.columns) == list(rows.columns)
    for name in rows:
        own = rows[name].astype(object).where(rows[name].notna(), None).tolist()
        theirs = written[name].astype(object).where(written[name].notna(), None).tolist()
        if RATINGS[name].type in ("word", "text"):
            own, theirs = ([each or "" for each in values] for values in (own, theirs))
        assert theirs == own, name


def refused(audit, capsys, *words):
    capsys.readouterr()
    assert audit("export", *words) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_csv_has_the_numbers_of_the_run_and_missing_stays_missing(there, audit):
    assert audit("export", "run", "form=csv", "to=out/csv", "texts=true") == 0
    assert sorted(path.name for path in Path("out/csv").iterdir()) == ["ABOUT.md", "dictionary.csv", "ratings.csv"]
    own = ratings()
    written = as_it_was(pd.read_csv("out/csv/ratings.csv", dtype={"response": "str"}, keep_default_na=True))
    same(written, own)
    missing = written[written["status"] != "rated"]
    assert set(missing["status"]) == {"refused", "unparseable"}
    assert missing["intensity"].isna().all()
    assert (written["response"] == FORMULA).any()
    assert f",'{FORMULA}" in Path("out/csv/ratings.csv").read_text(encoding="utf-8")
    raw = pd.read_csv("out/csv/ratings.csv", dtype=str, keep_default_na=False)
    # R's read.csv takes True for a text, and pandas reads both.
    assert raw["in_group"].tolist() == [{True: "TRUE", False: "FALSE"}.get(each, "") for each in own["in_group"]]
    columns = pd.read_csv("out/csv/dictionary.csv").set_index("column")
    assert columns.loc["intensity", "unit"] == "points"
    assert list(columns.index) == list(RATINGS)


@needs_spss
def test_spss_has_the_numbers_labels_and_missing_values_of_the_schema(there, audit):
    import pyreadstat

    assert audit("export", "run", "form=spss", "to=sav", "texts=true") == 0
    own = ratings()
    written, told = pyreadstat.read_sav("sav/ratings.sav", apply_value_formats=False, user_missing=True)
    labels = told.variable_value_labels
    assert labels["status"] == {1: "rated", 2: "refused", 3: "unparseable", 4: "failed", 5: "inexact"}
    assert labels["in_group"] == {0: "out-group", 1: "in-group"}
    known = {name: written[name].map(labels[name]) for name in ("status", "in_group")}
    truth = known["in_group"].map({"in-group": True, "out-group": False})
    same(written.assign(status=known["status"], in_group=truth), own)
    assert written.loc[written["status"] != 1, "intensity"].isna().all()
    assert told.column_names_to_labels["intensity"] == f"{RATINGS['intensity'].meaning} (points)"
    assert all(len(label.encode()) <= 255 for label in told.column_labels)
    assert told.missing_ranges["emotion"] == [{"lo": "", "hi": ""}]
    assert "intensity" not in told.missing_ranges  # system-missing: no number stands for a refusal
    assert (told.variable_measure["intensity"], told.variable_measure["status"]) == ("scale", "nominal")
    assert told.notes[0] == "model: a/model"
    assert max(len(line.encode()) for line in told.notes) <= 80


@needs_spss
def test_a_text_that_spss_cannot_hold_is_named_and_the_remedy_works(there, audit, capsys):
    long = ratings()
    with RunFolder(Path("run")) as folder:
        folder.clear("ratings")
        folder.write_shard(0, long.assign(response="long " * 7_000))
    said = refused(audit, capsys, "run", "form=spss", "to=sav", "texts=true")
    assert (
        "column response has a text of 35,000 bytes, but SPSS keeps at most 32,767; leave texts= out, or use form=csv"
        in said
    )
    assert audit("export", "run", "form=spss", "to=sav") == 0
    assert audit("export", "run", "form=csv", "to=csv", "texts=true") == 0


ARROW = {"string": "string", "bool": "bool", "int8": "int8", "int32": "int32", "int64": "int64", "double": "float64"}


def card_of(folder):
    _, head, page = Path(folder, "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), page


def test_a_data_set_has_a_card_whose_head_is_true_of_its_files(there, audit, capsys):
    assert audit("export", "run", "form=huggingface", "to=hf") == 0
    assert "the card says that the licence is unknown" in capsys.readouterr().err
    head, page = card_of("hf")
    assert head["license"] == "unknown"
    features = {each["config_name"]: each["features"] for each in head["dataset_info"]}
    files = {each["config_name"]: each["data_files"] for each in head["configs"]}
    tables = ("ratings", "gap", "verdicts", "disparity")
    assert files == {name: [{"split": "test", "path": f"data/{name}.parquet"}] for name in tables}
    for name, [file] in files.items():
        schema = pq.read_schema(Path("hf", file["path"]))
        assert [(each.name, ARROW[str(each.type)]) for each in schema] == [
            (each["name"], each["dtype"]) for each in features[name]
        ]
    same(pd.read_parquet("hf/data/ratings.parquet"), ratings()[WITHOUT_TEXTS])
    gap, made = pd.read_parquet("hf/data/gap.parquet"), read_exactly("run/tables/gap.csv")
    for name in ("delta", "se", "n_narratives"):
        np.testing.assert_array_equal(gap[name].to_numpy(float), made[name].to_numpy(float))
    disparity, made = pd.read_parquet("hf/data/disparity.parquet"), read_exactly("run/tables/disparity.csv")
    assert disparity["group"].tolist() == made["group"].fillna("").tolist()
    np.testing.assert_array_equal(disparity["disparity"].to_numpy(float), made["disparity"].to_numpy(float))
    assert f"A row is a prompt that asks for a rating. {len(ratings())} rows." in page
    assert "must not be used as such" in page
    assert "There are none: neither the narratives" in page


def test_metrics_of_a_log_are_the_gap_and_the_disparities_of_the_report(there):
    """What the Inspect task shows, without Inspect: estimates from ratings alone, by their place in the prompts."""
    asked, rows = AskedRatings.read(Path("p.jsonl")), ratings()
    rated = rows.loc[rows["status"] == "rated"]
    given = dict(zip(rated["prompt_index"].astype(int), rated["intensity"].astype(float), strict=True))
    disparity = pd.read_csv("run/tables/disparity.csv")
    decided = disparity[
        disparity["headline"].astype(bool) & (disparity["view"] == "all") & (disparity["outcome"] == "intensity")
    ]
    found = asked.disparities(given, confidence=0.95)
    assert len(decided) == 4
    for row in decided.to_dict("records"):
        for column, name in {"disparity": "disparity", "se": "stderr", "ci_low": "low", "ci_high": "high"}.items():
            assert found[f"{row['dimension']} {row['group']} {name}"] == pytest.approx(row[column], abs=1e-9)
        assert found[f"{row['dimension']} {row['group']} narratives"] == row["n_narratives"]
    assert len(found) == 4 * 5, "invented groups have none"
    assert decided["disparity"].abs().max() > 0.1
    gap = pd.read_csv("run/tables/gap.csv").query("headline and scope == 'narratives'").iloc[0]
    assert asked.gaps(given, confidence=0.95)[f"{gap['dimension']} delta"] == pytest.approx(gap["delta"], abs=1e-9)
    assert asked.disparities({}, confidence=0.95) == {}


def test_a_licence_and_texts_are_said_in_the_card(there, audit, capsys):
    assert audit("export", "run", "form=huggingface", "to=hf", "texts=true", "license=cc-by-4.0") == 0
    assert "licence is unknown" not in capsys.readouterr().err
    head, page = card_of("hf")
    assert head["license"] == "cc-by-4.0"
    assert "`response` is what the model wrote, verbatim. A model may repeat in it what it was told" in page
    same(pd.read_parquet("hf/data/ratings.parquet"), ratings())


def test_replies_are_a_data_set_and_the_card_warns_of_their_texts(audit, tmp_path):
    run = ROOT / "reports" / "example-replies"
    assert audit("export", run, "form=huggingface", "to=hf", "license=apache-2.0") == 0
    head, page = card_of("hf")
    assert [each["config_name"] for each in head["configs"]] == ["replies", "gap", "verdicts", "disparity"]
    assert "`text` is what the model wrote, verbatim" in page
    written = pd.read_parquet("hf/data/replies.parquet")
    assert written["text"].tolist() == pd.read_parquet(run / "replies.parquet")["text"].tolist()


@pytest.mark.parametrize("form", [pytest.param(name, marks=NEEDS.get(name, ())) for name in FORMS])
def test_no_narrative_goes_out_though_the_model_repeats_it(form, there, audit):
    asked = PromptsAsked.of(json.loads(gzip.decompress(Path("run", FILE).read_bytes())))
    told = asked.grid.narratives.narratives
    narratives = [text for each in told for text in (each.neutral, each.first_person) if text]
    assert len(narratives) >= 6
    repeated = ratings()["response"]
    assert any(text in response for text in narratives for response in repeated)
    assert any(text in Path("run/manifest.json").read_text(encoding="utf-8") for text in narratives)
    assert audit("export", "run", f"form={form}", "to=out", *OPTIONS.get(form, ())) == 0
    written = "\n".join(map(readable, filter(Path.is_file, Path("out").rglob("*"))))
    assert "refused" in written
    assert not [text for text in narratives if text[:40] in written]


@pytest.fixture(autouse=True)
def figures_drawn_elsewhere(monkeypatch):
    """A paper's figures, which tests/exchange/test_paper.py draws, take most of its time."""
    monkeypatch.setattr("audit.extras.exchange.paper.figures.journal_files", lambda *_: {})


def readable(path):
    """Return all texts of a file that was written."""
    if path.suffix == ".docx":
        import docx

        document = docx.Document(str(path))
        cells = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
        return "\n".join([*(each.text for each in document.paragraphs), *cells])
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_csv()
    if path.suffix == ".sav":
        import pyreadstat

        table, told = pyreadstat.read_sav(path)
        return f"{table.to_csv()} {told.notes} {told.variable_value_labels}"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", [pytest.param(name, marks=NEEDS.get(name, ())) for name in FORMS])
def test_an_unfinished_run_is_refused_or_says_how_much_is_missing(form, unfinished, audit, capsys):
    words = ("run", f"form={form}", "to=out", *OPTIONS.get(form, ()))
    n_prompts = Manifest.read(Path("run")).n_prompts
    missing = f"{unfinished} of {n_prompts} prompts are missing"
    said = refused(audit, capsys, *words)
    assert (
        f"run is not finished: {missing}; run its command again, or use unfinished=true to export it "
        "marked as unfinished"
    ) in said
    assert not Path("out").exists()
    assert audit("report", "run") == 0  # of what there is
    assert audit("export", *words, "unfinished=true") == 0
    written = "\n".join(map(readable, filter(Path.is_file, Path("out").rglob("*"))))
    assert f"NOT FINISHED: {missing}" in written
    # The other remedy, followed.
    assert audit(*GIVEN) == 0
    assert audit("export", *words[:2], "to=whole", *words[3:]) == 0


def test_statistics_that_are_not_there_or_not_of_these_rows_are_refused_with_what_makes_them(there, audit, capsys):
    words = ("run", "form=every-eval-ever", "to=out", *EEE)
    counts = Manifest.read(Path("run")).counts
    rewrite("run", counts=dict(counts) | {"total": 7})
    said = refused(audit, capsys, *words)
    assert f"run was analysed with 7 rows, but now has {counts['total']}; analyse it again: " in said
    assert audit(*shlex.split(said.partition("again: ")[2])[3:]) == 0
    shutil.rmtree("run/tables")
    said = refused(audit, capsys, *words)
    assert "run has no tables/verdicts.csv; to make it: python -m audit report run" in said
    assert audit(*shlex.split(said.partition("make it: ")[2])[3:]) == 0
    assert audit("export", *words) == 0


def test_a_folder_that_holds_other_files_is_left_as_it_is(there, audit, capsys):
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    said = refused(audit, capsys, "run", "form=csv", "to=out")
    assert "to=out is not empty (it has mine.txt); give a new or empty folder" in said
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]
    assert "to=out/mine.txt is a file; give a new folder" in refused(
        audit, capsys, "run", "form=csv", "to=out/mine.txt"
    )
    Path("out/mine.txt").unlink()
    assert audit("export", "run", "form=csv", "to=out") == 0
    assert "to=out is not empty (it has ABOUT.md)" in refused(audit, capsys, "run", "form=csv", "to=out")


def test_what_cannot_be_written_whole_is_not_there_at_all(there, audit, capsys, monkeypatch):
    import audit.runs.files as files

    write, n = files.write_atomically, []

    def full(path, content):
        n.append(path)
        if len(n) == 2:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(files, "write_atomically", full)
    said = refused(audit, capsys, "run", "form=csv", "to=out")
    assert "No space left on device" in said
    assert not Path("out").exists()
    assert not list(there.glob(".out*"))
    n.append(None)
    assert audit("export", "run", "form=csv", "to=out") == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "to=out"), "form= must be given to choose the form of the export"),
        (("run", "form=csv"), "to= must be given to choose the folder to write to"),
        (("run", "form=cvs", "to=out"), "form=cvs: must be csv or spss or huggingface or .* did you mean 'csv'"),
        (("run", "form=csv", "to=out", "license=mit"), "license= is not of form=csv; it takes texts"),
        (("run", "form=card", "to=out", "texts=true"), "texts= is not of form=card; it takes none such"),
        (("run", "form=huggingface", "to=out", "license="), "license= is empty; give a value, or leave it out"),
        (("run", "form=csv", "to=out", "texts=yes"), "texts=yes: must be true or false"),
        (("nowhere", "form=csv", "to=out"), "nowhere is not a run folder"),
        (("form=csv", "to=out"), "export needs one run folder, got none"),
        (
            (ROOT / "reports" / "example-replies", "form=csv", "to=out"),
            "is a run of replies, and form=csv takes ratings",
        ),
    ],
)
def test_what_cannot_be_exported_ends_in_one_line(words, says, there, audit, capsys):
    assert re.search(says, refused(audit, capsys, *words))
    assert not Path("out").exists()


def test_a_number_that_no_answer_is_read_as_is_not_exported(there, audit, capsys):
    """The store's own check of the scale holds here too."""
    rows = ratings()
    rows.loc[rows.index[rows["status"] == "rated"][0], "intensity"] = 5_000.0
    with RunFolder(Path("run")) as folder:
        folder.clear("ratings")
        folder.write_shard(0, rows)
    assert "prompt 0 has the rating 5000 on a scale from 0 to 100" in refused(
        audit, capsys, "run", "form=csv", "to=out"
    )
