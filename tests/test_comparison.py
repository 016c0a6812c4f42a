"""Several run folders to one page, through the command line: real files, no model."""

import json
import os
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup
from runs import as_stored

from audit.comparing.tables import COMPARISON_TABLES
from audit.errors import ModelError
from audit.report.summary import Summary
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import MANIPULATED, RATINGS
from audit.tasks.base import Published

pytestmark = pytest.mark.long

GROUPS = ("Hindu", "Muslim")
STATISTICS = {"confidence": 0.95, "margin": None, "n_permutations": 200}
FILES = {
    "comparison.html", "manifest.json", "table.md", "table.tex", "tables/runs.csv", "tables/gap.csv",
    "tables/comparisons.csv", "tables/specifications.csv", "tables/dictionary.csv",
}  # fmt: skip


def write_run(
    folder, *, seed=0, variant="origin", dimensions=("religion",), scale=(0, 100), n=6, source="geneva", **more
):
    """Write a complete run of two groups, n narratives and random ratings; return its folder."""
    rng = np.random.default_rng(seed)
    low, high = scale
    rows = [
        {
            "dimension": dimension,
            "variant": variant,
            "narrative_id": f"n{narrative}",
            "emotion": "joy",
            "perceiver": f"a {perceiver}",
            "experiencer": f"a {experiencer}",
            "perceiver_group": perceiver,
            "experiencer_group": experiencer,
            "in_group": perceiver == experiencer,
            "n_shared": int(perceiver == experiencer),
            "status": "rated",
            "intensity": low + (high - low) * rng.uniform(),
            "response": "",
        }
        for dimension in dimensions
        for narrative in range(n)
        for perceiver in GROUPS
        for experiencer in GROUPS
    ]
    for index, row in enumerate(rows):
        row |= {"prompt_index": index, **dict.fromkeys(("number_mass", "mode", "spread"))}
    manifest = {
        "status": "complete",
        "command": "python -m audit run",
        "started": "2026-11-22T00:00:00+00:00",
        "n_prompts": len(rows),
        "shard_size": len(rows),
        "seed": seed,
        "model": {"name": "smollm2", "path": "embedded:smollm2"},
        "elicitation": {"method": "expected"},
        "scale": {"low": low, "high": high},
        "stimuli": {"source": source, "n_narratives": n, "sha256": f"{source} {n}"},
        "prompt": {"variant": variant},
        "dimensions": list(dimensions),
        "config": {"statistics": STATISTICS},
        "identity": {"seed": seed, "variant": variant, "dimensions": list(dimensions), "source": source},
    }
    with RunFolder(folder) as kept:
        kept.write_manifest(Manifest.of(manifest | more))
        kept.write_shard(0, pd.DataFrame(rows, columns=list(RATINGS)))
    return folder


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def table_of(folder, name):
    return pd.read_csv(folder / "tables" / f"{name}.csv")


class Numbers(HTMLParser):
    """Every number of a page, with its place and its unrounded value."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "data":
            self.found.append((dict(attrs)["data-at"], dict(attrs)["value"]))


@pytest.fixture
def drawn():
    """Ask for it to have figures drawn; other tests do without, which is faster."""


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


@pytest.fixture
def two(tmp_path):
    """Folders A and B of two runs in the folder that the test runs in."""
    return [write_run(tmp_path / name, variant=variant) for name, variant in (("A", "origin"), ("B", "persona-1"))]


def test_several_folders_make_one_page_with_its_tables_and_figures(audit, drawn, two, tmp_path, capsys):
    assert audit("report", "A", "B", "run_dir=out") == 0
    out, _ = capsys.readouterr()
    compared, answer, *_, path = out.splitlines()
    assert compared.endswith("; they differ in the wording of the prompt.")
    assert answer.startswith("answer:   religion: No answer: the difference is the same in all 6 narratives")
    assert path.startswith("report:   out/comparison.html (")
    files = files_of(tmp_path / "out")
    assert set(files) > FILES
    assert {f"figures/{name}.{form}" for name in ("gaps", "specification-religion", "comparisons")
            for form in ("svg", "png", "pdf")} <= set(files)  # fmt: skip
    assert not [name for name in files if "perceiver" in name or "published_cells" in name or "/published-" in name]
    for name, columns in COMPARISON_TABLES.items():
        if f"tables/{name}.csv" in files:
            assert list(table_of(tmp_path / "out", name)) == [*columns, *columns.former]
            assert len(table_of(tmp_path / "out", name))
    dictionary = table_of(tmp_path / "out", "dictionary")
    assert set(zip(dictionary["table"], dictionary["column"], strict=True)) == {
        (name, column) for name, columns in COMPARISON_TABLES.items() for column in (*columns, *columns.former)
    }


def test_every_number_of_the_page_is_the_one_in_its_file(audit, two, tmp_path):
    assert audit("report", "A", "B", "run_dir=out", "statistics.margin=2") == 0
    numbers = Numbers((tmp_path / "out" / "comparison.html").read_text("utf-8")).found
    assert len(numbers) > 30
    for place, value in numbers:
        name, line, column = place.split(":")
        written = pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv", dtype=str, keep_default_na=False)
        assert written[column][int(line)] == value, place


@pytest.mark.every_format
def test_the_same_runs_give_the_same_bytes_and_nothing_of_an_earlier_comparison_stays(audit, drawn, two, tmp_path):
    assert audit("report", "A", "B", "run_dir=out") == 0
    once = files_of(tmp_path / "out")
    for stale in ("tables", "figures"):
        (tmp_path / "out" / stale / "of-another-comparison.csv").write_text("x")
    assert audit("report", "A", "B", "run_dir=out") == 0
    assert files_of(tmp_path / "out") == once


def test_runs_are_only_read_even_where_nothing_may_be_written(audit, two):
    before = [files_of(folder) for folder in two]
    for folder in two:
        (folder / ".lock").unlink()
        folder.chmod(0o555)
    assert audit("report", "A", "B") == 0
    for folder in two:
        folder.chmod(0o755)
    assert [files_of(folder) | {".lock": b""} for folder in two] == before


def test_without_a_name_the_folder_is_that_of_these_runs(audit, two, tmp_path):
    assert audit("report", "A", "B") == 0
    shutil.move(tmp_path / "A", tmp_path / "elsewhere")
    assert audit("report", "elsewhere", "B") == 0
    [folder] = (tmp_path / "reports").iterdir()
    assert len(folder.name.removeprefix("comparison-")) == 8
    assert audit("report", "B", "elsewhere") == 0
    assert len(list((tmp_path / "reports").iterdir())) == 2


def test_the_manifest_says_which_runs_with_which_hashes(audit, two, tmp_path):
    assert audit("report", "A", "B", "run_dir=out", "statistics.confidence=0.9") == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["command"] == "python -m audit report A B run_dir=out statistics.confidence=0.9"
    assert manifest["settings"] == {
        "confidence": 0.9, "margin": None, "n_permutations": 200, "min_number_mass": 0.5, "least_gap": None,
        "missing_shift": None, "power": 0.8,
    }  # fmt: skip
    assert [run["folder"] for run in manifest["runs"]] == ["A", "B"]
    assert len({run["identity"] for run in manifest["runs"]}) == 2
    assert all(len(run["ratings"]) == 64 for run in manifest["runs"])
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "Analysed here with confidence 0.9, in the own reports of these runs with confidence 0.95" in page


def test_runs_on_other_texts_are_not_paired_and_the_page_says_so(audit, two, tmp_path, capsys):
    write_run(tmp_path / "C", source="csv", n=6)
    write_run(tmp_path / "D", source="geneva", n=4, seed=4)  # a sample of the same packaged narratives
    assert audit("report", "A", "C", "D", "run_dir=out") == 0
    rows = {(row["first"], row["second"]): row for row in table_of(tmp_path / "out", "comparisons").to_dict("records")}
    notes = [str(row["note"]) for row in rows.values()]
    assert [note.startswith("the two were asked about different narratives") for note in notes] == [True, False, True]
    assert [row["n_narratives"] for row in rows.values()] == [0, 4, 0]
    assert "asked about different narratives" in (tmp_path / "out" / "comparison.html").read_text("utf-8")


@pytest.mark.parametrize(("n", "paired"), [(4, 4), (8, 0)])
def test_a_table_of_another_tool_is_paired_where_its_narratives_are_all_known(audit, two, tmp_path, n, paired):
    stimuli = {"source": "gpt.csv", "n_narratives": n}
    write_run(
        tmp_path / "C", n=n, seed=3, model={"name": "gpt.csv"}, stimuli=stimuli, elicitation={"method": "outside"}
    )
    assert audit("report", "A", "C", "run_dir=out") == 0
    assert table_of(tmp_path / "out", "comparisons")["n_narratives"].tolist() == [paired]
    assert ("they are taken to be those of" in (tmp_path / "out" / "comparison.html").read_text("utf-8")) == bool(
        paired
    )


def test_what_differs_beside_the_choices_is_said(audit, drawn, two, tmp_path):
    write_run(tmp_path / "C", variant="scale-10", scale=(0, 10), dimensions=("religion", "age"))
    write_run(tmp_path / "D", dimensions=("religion", "nation"))
    assert audit("report", "A", "C", "D", "run_dir=out", "statistics.margin=1") == 0
    page = Markup((tmp_path / "out" / "comparison.html").read_text("utf-8")).unescape()
    assert "The runs have different scales" in page
    assert "The margin is in points of each run's own scale." in page
    assert "their means over all dimensions are not compared" in page
    assert "different identities" not in page
    assert "% of the scale" in (tmp_path / "out" / "figures" / "gaps.svg").read_text("utf-8")
    assert set(table_of(tmp_path / "out", "specifications")["dimension"]) == {"religion", "age", "nation"}


# --- What cannot be compared ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("A A", "A and A are the same folder; give each run once"),
        ("A B/../A", "A and B/../A are the same folder; give each run once"),
        ("A again", "A and again hold the same run; give each run once"),
        ("A nowhere", "nowhere is not a run folder: it has no manifest.json"),
        ("A other", "other is not a run folder: it has no manifest.json"),
        ("A done", "done is not a run folder: it has a comparison of runs"),
        ("done", "done is not a run folder: it has a comparison of runs"),
        ("A half", "half holds 0 of 24 prompts in 0 rows; run the command in its manifest.json again to complete it"),
        (
            "A B run_dir=other",
            "run_dir=other has files that do not belong to a comparison; give an empty or new folder",
        ),
        ("A B run_dir=A", "run_dir=A has files that do not belong to a comparison; give an empty or new folder"),
        ("A B run_dir=a-file", "run_dir=a-file is a file; give a"),
        ("A B statistics.wanted=2", "statistics.wanted: a comparison of runs has no use for it; it takes confidence, "),
        ("A B statistics.confidence=2", "statistics.confidence: must be below 1 (given: '2')"),
        (
            "A B statistics.margn=1",
            "statistics.margn: report does not take this option; did you mean 'statistics.margin'?",
        ),
        (
            "A B ratings=a-file",
            "report needs run folders, ratings=FILE, replies=FILE or answers=FILE, and only one of these; got A B "
            "ratings=a-file",
        ),
        (
            "A run_dir=new",
            "run_dir=new is for ratings=FILE, replies=FILE, answers=FILE or several run folders, but one run folder is "
            "given, A; ",
        ),
    ],
)
def test_what_can_not_be_compared_ends_in_one_line_and_writes_nothing(audit, two, tmp_path, capsys, arguments, line):
    shutil.copytree(tmp_path / "A", tmp_path / "again")
    shutil.copytree(tmp_path / "A", tmp_path / "half")
    manifest = json.loads((tmp_path / "half" / "manifest.json").read_text())
    (tmp_path / "half" / "manifest.json").write_text(json.dumps(manifest | {"identity": {"seed": 9}}))
    (tmp_path / "half" / "ratings" / "part-000000.parquet").unlink()
    as_stored(tmp_path / "half")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    (tmp_path / "a-file").write_text("x")
    assert audit("report", "A", "B", "run_dir=done") == 0
    capsys.readouterr()
    before = files_of(tmp_path)
    assert audit("report", *arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith(f"audit: {line}")
    assert len(err.splitlines()) == (2 if "half" in arguments else 1)  # nothing long begins before a refusal
    assert files_of(tmp_path) == before


def test_a_comparison_with_a_file_of_the_users_in_it_is_refused(audit, two, tmp_path):
    assert audit("report", "A", "B", "run_dir=out") == 0
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = files_of(tmp_path / "out")
    assert audit("report", "A", "B", "run_dir=out", "statistics.margin=1") == 2
    assert files_of(tmp_path / "out") == before


# --- The end of a sweep ----------------------------------------------------------------------------------------------


@pytest.fixture
def sweep(audit, monkeypatch):
    """Return a function that runs a sweep in which the model is not asked: a seed of 13 fails."""

    def run_audit(config, *, command, preset, job, say):
        if config.seed == 13:
            raise ModelError("the model ran away")
        folder = (config.run_dir or config.reports_dir) / f"{config.prompt.name}-{config.seed}"
        if not folder.exists():
            write_run(folder, variant=config.prompt.name, seed=config.seed)
        page = folder / "report.html"
        gap, first = pd.DataFrame({"headline": [False]}), Summary("", (), 0, (), "", "")
        return Published(run_dir=folder, report=page, gap=gap, confidence=0.95, remarks=(), summary=first)

    monkeypatch.setattr("audit.tasks.pipeline.run_audit", run_audit)
    return lambda *overrides: audit("run", "-m", "reports_dir=reports", *overrides)


def test_a_sweep_ends_with_its_runs_side_by_side(sweep, tmp_path, capsys):
    assert sweep("run_dir=s", "prompt=origin,named") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("report:   s/comparison/comparison.html (")
    assert table_of(tmp_path / "s" / "comparison", "runs")["run"].tolist() == ["origin", "named"]
    manifest = json.loads((tmp_path / "s" / "comparison" / "manifest.json").read_text())
    assert manifest["command"] == "python -m audit report s/origin-0 s/named-0 run_dir=s/comparison"
    once = files_of(tmp_path / "s" / "comparison")
    assert sweep("run_dir=s", "prompt=origin,named") == 0
    assert files_of(tmp_path / "s" / "comparison") == once


def test_the_command_of_a_sweep_s_page_makes_the_same_tables(sweep, audit, tmp_path):
    assert sweep("run_dir=s", "prompt=origin,named") == 0
    before = files_of(tmp_path / "s" / "comparison")
    manifest = json.loads(before["manifest.json"])
    assert audit(*manifest["command"].split()[3:]) == 0
    assert files_of(tmp_path / "s" / "comparison") == before


def test_without_a_run_dir_a_sweep_s_comparison_lies_beside_its_runs(sweep, tmp_path):
    assert sweep("prompt=origin,named") == 0
    [folder] = (tmp_path / "reports").glob("comparison-*")
    assert (folder / "comparison.html").exists()


def test_jobs_that_failed_are_left_out_and_named(sweep, tmp_path, capsys):
    assert sweep("run_dir=s", "prompt=origin,named", "seed=0,13") == 2
    assert table_of(tmp_path / "s" / "comparison", "runs")["run"].tolist() == ["origin", "named"]
    page = (tmp_path / "s" / "comparison" / "comparison.html").read_text("utf-8")
    for name in ("origin", "named"):
        assert f"prompt={name} seed=13: the model ran away" in page
    assert capsys.readouterr().out.splitlines()[-1].startswith("report:   s/comparison/comparison.html (")


@pytest.mark.parametrize("overrides", ["seed=0,13", "statistics.margin=1,2", "seed=0"])
def test_a_sweep_that_ends_with_one_run_compares_nothing_and_says_so(sweep, tmp_path, capsys, overrides):
    assert sweep("run_dir=s", overrides) == (2 if "13" in overrides else 0)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "note: no comparison was made (it needs 2 finished runs): this sweep ended with 1"
    )
    assert os.listdir(tmp_path / "s") == ["origin-0"]


def test_what_limits_some_runs_is_said_of_them(audit, tmp_path):
    folders = [write_run(tmp_path / f"{n}", variant=variant, n=n) for n, variant in ((19, "origin"), (20, "persona-1"))]
    assert audit("report", *map(str, folders), "run_dir=out") == 0
    assert "Few narratives (origin" in (tmp_path / "out" / "comparison.html").read_text("utf-8")


@pytest.mark.parametrize("failed", [True, False])
def test_a_run_that_failed_its_manipulation_check_has_no_verdict_beside_others(tmp_path, failed):
    """Planted: a narrative's own emotion is rated 5 points lower than a wrong one, or higher."""
    from audit.api import compare
    from audit.comparing.comparison import compare_folders

    own, wrong = (40, 45) if failed else (45, 40)
    names = "origin", "persona-1"
    runs = [write_run(tmp_path / name, variant=name, seed=seed, n=24) for seed, name in enumerate(names)]
    with RunFolder(runs[1]) as kept:
        kept.table(MANIPULATED).write(
            {
                "narrative_id": f"n{k}", "kind": kind, "emotion": "joy", "status": "rated",
                "intensity": float(rating + k % 2 * (kind == "own")), "response": "",
            }
            for k in range(24)
            for kind, rating in (("own", own), ("wrong", wrong))
        )  # fmt: skip
    runs.append(write_run(tmp_path / "other", variant="origin", seed=2, n=24, model={"name": "other", "path": "other"}))

    def next_of(*folders):
        how = {
            "out": tmp_path / "beside",
            "reports_dir": tmp_path,
            "settings": {"margin": 99},
            "say": lambda line: None,
        }
        return compare_folders(folders, **how).summary.commands

    # Only the run whose own check failed is asked again, and not with a prompt that its model has been asked with.
    assert next_of(*runs[1:]) == (
        ("python -m audit run prompt=origin",) if failed else
        ("python -m audit run stimuli.situations_per_emotion=all",)
    )  # fmt: skip
    assert not failed or next_of(*runs[:2]) == ()
    made = compare(*runs[:2], run_dir=tmp_path / "beside", margin=99)
    said = "Failed check of the ratings (persona-1): ratings that do not match the story say nothing about empathy."
    assert (said in made.remarks) == failed
    table = made.tables["verdicts"].set_index("run")
    assert table["code"].to_dict() == {"origin": "within", "persona-1": "no_verdict" if failed else "within"}
    assert failed == (table["reasons"]["persona-1"] == "manipulation")
    head, _, *lines = (made.path / "table.md").read_text("utf-8").splitlines()
    place = [cell.strip() for cell in head.split("|")].index("verdict")
    verdicts = [line.split("|")[place].strip() for line in lines]
    within = "No average gap larger than 99.00 points in these pairs of words, including repeated words"
    assert [words.partition(":")[0] for words in verdicts] == [within, "No verdict" if failed else within]
