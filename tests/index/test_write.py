"""The page and the files of an index: what they hold, what hostile names cannot do, and that nothing is left out."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from gated import two_terms
from indexed import changed, published, without_figures
from planted import Planted, few_narratives

from audit.cli.main import main
from audit.errors import ConfigError, StoreError
from audit.extras.index.find import find_runs
from audit.extras.index.write import write_index

ATTACK = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        case = two_terms(n=24, gap=lambda emotion, group: 6.0)
        return published(tmp_path_factory.mktemp("kept") / "run", Planted(case.ratings, case.groups, {"margin": 2}))


class Page(HTMLParser):
    """The elements of a page, its links, and its numbers with where they stand in the files."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.numbers = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.tags.append(tag)
        if tag == "a" and not own["href"].startswith("#"):
            self.links.append(own["href"])
        if tag == "data":
            self.numbers.append((own["data-at"], own["value"]))


def csv_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))


def copies(run, folder, *names):
    for name in names:
        shutil.copytree(run, folder / name)
    return folder


def test_every_number_of_the_page_is_the_unrounded_one_of_its_file(run, tmp_path):
    made = write_index(copies(run, tmp_path, "a", "deep/er/b"))
    page = Page(made.page.read_text("utf-8"))
    files = {"index": csv_of(made.files[0]), "claims": csv_of(made.files[1])}
    assert len(page.numbers) >= 2 * 5
    for place, value in page.numbers:
        table, line, column = place.split(":")
        assert float(files[table][int(line)][column]) == float(value)


def test_the_same_rows_are_in_the_csv_and_in_the_json(run, tmp_path):
    made = write_index(copies(run, tmp_path, "a", "b"))
    told = json.loads(made.files[2].read_text("utf-8"))
    rows = csv_of(made.files[0])
    assert [row["folder"] for row in rows] == [row["folder"] for row in told["rows"]] == ["a", "b"]
    for row, other in zip(rows, told["rows"], strict=True):
        assert list(row) == list(other) == list(told["columns"]["index"])
        assert float(row["delta"]) == other["delta"]
        assert (row["parameters"], other["parameters"]) == ("", None)
    assert told["groups"][0]["group"] == rows[0]["group"] == "1"


def test_links_lead_to_the_pages_from_wherever_the_index_stands(run, tmp_path):
    folder = copies(run, tmp_path / "runs", "a b", "deep/ü#?%")
    for out in (None, tmp_path / "elsewhere" / "board.html"):
        made = write_index(folder, out=out)
        links = Page(made.page.read_text("utf-8")).links
        assert len(links) == 2 + 3
        assert all((made.page.parent / unquote(link)).is_file() for link in links)


def test_the_same_runs_give_the_same_bytes_from_any_folder(run, tmp_path, monkeypatch):
    folder = copies(run, tmp_path, "a", "b")
    (folder / "b" / "tables" / "gap.csv").write_text("x")
    shutil.rmtree(shutil.copytree(run, folder / "c") / "tables")
    first = write_index(folder)
    before = {path: path.read_bytes() for path in (first.page, *first.files)}
    monkeypatch.chdir(tmp_path)
    write_index(Path())
    assert before == {path: path.read_bytes() for path in before}
    assert str(tmp_path) not in first.page.read_text("utf-8")


def test_nothing_that_cannot_be_shown_is_left_out(run, tmp_path):
    folder = copies(run, tmp_path, "good", "edited", "damaged", "later", "bare", "foreign", "none")
    (folder / "edited" / "tables" / "gap.csv").write_text("dimension\n")
    (folder / "damaged" / "manifest.json").write_text("{")
    changed_version = json.loads((folder / "later" / "manifest.json").read_text("utf-8")) | {"schema_version": 99}
    (folder / "later" / "manifest.json").write_text(json.dumps(changed_version))
    (folder / "bare" / "manifest.json").unlink()
    shutil.copy(run / "ratings.parquet", folder / "foreign" / "answers.parquet")
    shutil.rmtree(folder / "none" / "tables")
    made = write_index(folder)
    rows = {row["folder"]: row for row in made.rows.to_dict("records")}
    assert {name: row["state"] for name, row in rows.items()} == {
        "good": "gap", "none": "no_gap",
        **dict.fromkeys(("edited", "damaged", "later", "bare", "foreign"), "not_read"),
    }  # fmt: skip
    page = made.page.read_text("utf-8")
    for name, said in (
        ("edited", "gap.csv has changed since it was written ("), ("damaged", "cannot be read"), ("later", "upgrade"),
        ("bare", "it has no manifest.json"), ("foreign", "was not stored by this run"), ("none", "it has no tables"),
    ):  # fmt: skip
        assert said in rows[name]["reason"]
        assert said in page
    assert "2 runs: 1 with 1 gap; 1 without a gap to show; 5 folders could not be read." in page


def test_a_folder_that_cannot_be_searched_is_named(run, tmp_path, monkeypatch):
    folder = copies(run, tmp_path, "a")
    (folder / "shut").mkdir()
    scandir = os.scandir

    def refusing(path):
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    rows = write_index(folder).rows.set_index("folder")
    assert rows.loc["shut", "reason"] == "shut cannot be searched (Permission denied)"


def test_links_of_the_disk_are_followed_once(run, tmp_path):
    copies(run, tmp_path / "elsewhere", "run")
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    assert [found.path.relative_to(folder).as_posix() for found in find_runs(folder)] == ["linked/run"]


def test_hostile_names_are_text_everywhere(run, tmp_path):
    folder = tmp_path / "=1+1 <b>"
    name = "x\" onload=alert(1) '<svg onload=alert(1)>"
    copies(run, folder, name, "javascript:alert(1)", "=cmd()")
    changed(folder / name, model__name=ATTACK)
    changed(folder / "=cmd()", model__name="=HYPERLINK(1)\u202egnorw")
    (folder / "javascript:alert(1)" / "tables" / "gap.csv").write_text(ATTACK)
    made = write_index(folder)
    text = made.page.read_text("utf-8")
    page = Page(text)
    assert page.tags.count("script") == 2
    assert not {"img", "b"} & set(page.tags)
    assert page.tags.count("svg") == len(made.rows.loc[made.rows["state"] == "gap"])  # the drawn intervals
    assert not any(link.startswith("javascript:") for link in page.links)
    assert "\u202e" not in text
    rows = csv_of(made.files[0])
    assert {row["folder"] for row in rows} == {name, "javascript:alert(1)", "'=cmd()"}
    assert all(not value.startswith(("=", "+", "@")) for row in rows for value in row.values())


def test_a_name_that_is_no_text_is_listed(run, tmp_path):
    shutil.copytree(run, tmp_path / os.fsdecode(b"no\xfftext"))
    made = write_index(tmp_path)
    [link, *_] = Page(made.page.read_text("utf-8")).links
    assert link == "no%FFtext/report.html"
    assert json.loads(made.files[2].read_text("utf-8"))["rows"][0]["folder"] == "no?text"


def test_how_many_intervals_leave_out_0_by_chance_is_said_of_several(run, tmp_path):
    page = write_index(copies(run, tmp_path, "a")).page.read_text("utf-8")
    assert "by chance" not in page
    page = write_index(copies(run, tmp_path, *map(str, range(9)))).page.read_text("utf-8")
    # 10 intervals of 95%: 10 × .05
    assert "there being 10 of them: if there were no gap anywhere, about 0.5 of them would leave out 0" in page


def test_models_side_by_side_are_in_no_order_but_that_of_their_folders(run, tmp_path):
    folder = copies(run, tmp_path, "b", "a")
    changed(folder / "a", model__name="worse")
    page = write_index(folder).page.read_text("utf-8")
    assert "2 models, in the order of their folders." in page
    assert page.index('href="a/') < page.index('href="b/')
    shutil.rmtree(folder / "a")
    assert "models, in the order" not in write_index(folder).page.read_text("utf-8")


def test_a_size_is_said_where_it_was_recorded(run, tmp_path):
    folder = copies(run, tmp_path, "a", "b")
    changed(folder / "a", model__parameters=134_515_008, model__weights_bytes=538_090_408)
    text = re.sub(r"<[^>]*>", "", write_index(folder).page.read_text("utf-8"))
    assert text.count("134.5 million parameters, 538.1 MB") == 1
    assert text.count("not recorded") == 1


@pytest.mark.long
def test_two_hundred_runs_take_a_minute_or_two_at_most(run, tmp_path):
    folder = copies(run, tmp_path, *(f"run{place:03d}" for place in range(200)))
    began = time.process_time()
    made = write_index(folder)
    assert time.process_time() - began < 120  # 60 s on two cores of 2.5 GHz, 0.3 s a run
    assert len(made.rows) == 200
    assert len(made.page.read_bytes()) < 1_000_000


def test_of_a_run_that_is_asked_meanwhile_what_there_is_is_shown(run, tmp_path):
    folder = copies(run, tmp_path, "a")
    changed(folder / "a", status="running")
    page = write_index(folder).page.read_text("utf-8")
    assert "The run is not finished" in page


def test_three_narratives_are_a_limit(tmp_path, monkeypatch):
    without_figures(monkeypatch)
    published(tmp_path / "few", few_narratives())
    assert "Few narratives" in write_index(tmp_path).page.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nowhere", "nowhere is not a folder"),
        ("empty", "empty has no run"),
        ("runs/a", "runs/a is itself a run; give the folder it is in"),
        ("runs out=board.txt", "out=board.txt: must be the name of a page"),
        ("runs out=runs/a/index.html", "is inside a run's folder, which must hold only the run's files; choose"),
        ("other", "other/index.html exists and is not an index that this command wrote; choose"),
        ("", "index needs one folder of runs, got none"),
        ("runs sort=delta", "sort: index does not take this option"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, capsys, words, said):
    copies(run, tmp_path, "runs/a", "other/a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "index.html").write_text("<title>ours</title>")
    monkeypatch.chdir(tmp_path)
    assert main(["index", *words.split()]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert (tmp_path / "other" / "index.html").read_text() == "<title>ours</title>"


def test_the_command_says_what_it_wrote_and_what_it_could_not_read(run, tmp_path, monkeypatch, capsys):
    folder = copies(run, tmp_path / "runs", "a", "b\x1b[31m")
    (folder / "b\x1b[31m" / "tables" / "gap.csv").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert main(["index", "runs"]) == 0
    found = capsys.readouterr()
    assert "1 run, 1 folder not read" in found.out
    assert found.out.splitlines()[-1] == "index: runs/index.html"
    assert "note: b\\x1b[31m: " in found.err
    assert "\x1b" not in found.out + found.err
    assert main(["index", "runs"]) == 0  # its own page may be replaced


def test_a_place_that_cannot_be_written_to_is_said(run, tmp_path):
    copies(run, tmp_path, "runs/a")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written \(.*\); choose another page with out="):
        write_index(tmp_path / "runs", out=tmp_path / "file" / "index.html")


def test_a_comparison_is_linked_and_is_no_run(run, tmp_path, monkeypatch):
    without_figures(monkeypatch)
    from audit.api import compare

    folder = copies(run, tmp_path, "a", "b")
    changed(folder / "b", identity__name="other")
    compare(folder / "a", folder / "b", run_dir=folder / "both")
    made = write_index(folder)
    page = made.page.read_text("utf-8")
    assert "both/comparison.html" in Page(page).links
    assert "comparison of 2 runs" in page
    assert set(made.rows["folder"]) == {"a", "b"}
    with pytest.raises(ConfigError, match="is itself a comparison"):
        write_index(folder / "both")


@pytest.mark.long
def test_commands_of_its_notes_are_said_to_be_given_in_the_folder_of_the_runs(run, tmp_path, monkeypatch, capsys):
    runs = tmp_path / "my runs"
    shutil.copytree(run, runs / "a")
    shutil.rmtree(runs / "a" / "tables")
    said = f"note: run the commands in these notes in the folder of the runs: cd '{runs}'\n"
    assert main(["index", str(runs)]) == 0
    err = capsys.readouterr().err
    assert "`python -m audit report a` makes them" in err
    assert said in err
    monkeypatch.chdir(runs)  # the remedy, followed
    assert main(["index", "."]) == 0
    assert "cd " not in capsys.readouterr().err
    assert main(["report", "a"]) == 0
