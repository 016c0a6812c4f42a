"""A table whose headings are not ours: one message has the options that read it, as they are typed."""

import csv
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from audit.errors import ConfigError
from audit.runs.outside import COLUMNS, read_outside
from stimuli.headings import guess_columns

TEXTS = ("I opened a letter and my hands shook.", "I lost my keys and I stood in the rain.")
VIGNETTES = (  # headings, with the places of identifier, emotion and text
    (("ID", "Emotion", "Vignette"), (0, 1, 2)),
    (("Story text", "Feeling", "Vignette No."), (2, 1, 0)),
    (("Nr", "Gefühl", "Geschichte"), (0, 1, 2)),
    (("item", "condition", "emotion_label", "text_en", "text_de"), (0, 2, 3)),
    (("author", 'target "emotion"', "scenario", "story_id", "null"), (3, 1, 2)),
)
RATED = (  # headings, with the places of perceiver, experiencer, narrative and rating
    (("speaker", "target", "item", "score"), (0, 1, 2, 3)),
    (("Rating, 0-100: mean", "Rater", "Target group", "Story ID"), (1, 2, 3, 0)),
    (("persona", "experiencer identity", "vignette", "intensity_rating"), (0, 1, 2, 3)),
    (("Bewerter", "Person", "Geschichte", "Wert"), (0, 1, 2, 3)),
    (("year", "Perceiver", "target_identity", "scenario id", "score"), (1, 2, 3, 4)),
    (("Rater", "Person", "Story", "Feeling", "Score"), (0, 1, 2, 4)),
)


def table(path: Path, header: tuple[str, ...], places: tuple[int, ...], rows: list[tuple[object, ...]]) -> str:
    """Write a table whose columns stand at some places under a header; return the file's name."""
    filled = [["x"] * len(header) for _ in rows]
    for cells, row in zip(filled, rows, strict=True):
        for place, cell in zip(places, row, strict=True):
            cells[place] = cell
    if path.suffix == ".xlsx":
        pytest.importorskip("python_calamine", reason="needs python-calamine: pip install 'empathy-audit[excel]'")
        book = pytest.importorskip("openpyxl").Workbook()
        for row in (header, *filled):
            book.active.append(row)
        book.save(path)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *filled])
    return path.name


def told(message: str) -> list[str]:
    """The options that a message tells, as a shell reads them."""
    return shlex.split(message.strip().splitlines()[-1].partition("which is which: ")[2])


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@pytest.mark.parametrize(("header", "places"), VIGNETTES)
def test_the_options_that_are_told_read_the_narratives(audit, capsys, header, places, suffix):
    rows = [("n1", "sad", TEXTS[0]), ("n2", "angry", TEXTS[1])]
    name = table(Path(f"mine{suffix}"), header, places, rows)
    asked = ("prompts", "stimuli=csv", f"stimuli.path={name}", "stimuli.situations_per_emotion=1", "out=p.jsonl")
    assert audit(*asked) == 2
    more = told(capsys.readouterr().err)
    assert len(more) == 3
    assert audit(*asked, *more) == 0
    assert all(text in Path("p.jsonl").read_text("utf-8") for text in TEXTS)


@pytest.mark.long
@pytest.mark.parametrize(("header", "places"), RATED)
def test_the_option_that_is_told_reads_the_ratings_and_the_groups(audit, capsys, header, places):
    rows = [
        (f"a {p}", f"a {e}", f"n{n}", 50 + 7 * n + (p == e) * (n % 3 + 1)) for p in "XY" for e in "XY" for n in range(4)
    ]
    groups = [("a X", "X"), ("a Y", "Y")]
    files = table(Path("r.xlsx"), header, places, rows), table(Path("g.csv"), ("label", "team"), (0, 1), groups)
    ours = (
        table(Path("ours.csv"), ("perceiver", "experiencer", "narrative_id", "rating"), (0, 1, 2, 3), rows),
        table(Path("groups.csv"), ("term", "group"), (0, 1), groups),
    )
    asked = ("report", f"ratings={files[0]}", f"groups={files[1]}", "low=0", "high=100", "run_dir=run")
    assert audit(*asked) == 2
    more = told(capsys.readouterr().err)  # of both files
    assert audit(*asked, *more) == 0
    wanted = read_outside(*map(Path, ours), low=0, high=100).ratings
    columns = ["perceiver", "experiencer", "narrative_id", "in_group", "intensity"]
    found = pd.read_parquet("run/ratings.parquet")[columns]
    pd.testing.assert_frame_equal(found.astype(str), wanted[columns].astype(str))
    capsys.readouterr()
    assert audit(*asked, *more, "columns=rating:year") == 2  # given twice
    assert audit(*asked, more[0].replace("narrative_id:", "narrative_id:no such ")) == 2
    assert "no such column" in capsys.readouterr().err


def test_columns_of_both_files_are_told_at_once_and_other_faults_of_the_second_later(tmp_path):
    rows = [("a X", "a Y", "n1", 10), ("a Y", "a Y", "n1", 20)]
    ratings, groups = tmp_path / "r.csv", tmp_path / "g.csv"
    table(ratings, ("persona", "target", "item", "score"), (0, 1, 2, 3), rows)
    groups.write_text("label,team\n", "utf-8")  # no rows
    both = r"r\.csv: no columns .*; groups=.*g\.csv: no columns 'term', 'group'; .*columns=perceiver:persona,.*,term:"
    with pytest.raises(ConfigError, match=both):
        read_outside(ratings, groups)
    groups.write_text("term,group\n", "utf-8")
    with pytest.raises(ConfigError, match=r"r\.csv: no columns") as caught:
        read_outside(ratings, groups)
    assert "g.csv" not in str(caught.value)


@pytest.fixture
def both(tmp_path):
    """Ratings with two columns of numbers, and groups."""
    rows = [("a X", "a Y", "n1", 10, 90), ("a Y", "a Y", "n1", 20, 80)]
    header = ("perceiver", "experiencer", "narrative_id", "rating", "second")
    table(tmp_path / "r.csv", header, (0, 1, 2, 3, 4), rows)
    table(tmp_path / "g.csv", ("term", "group"), (0, 1), [("a X", "X"), ("a Y", "Y")])
    return tmp_path / "r.csv", tmp_path / "g.csv"


def test_a_column_that_the_user_names_goes_before_one_that_is_called_so(both):
    read = read_outside(*both, low=0, high=100, columns={"rating": "Second"})
    assert read.ratings["intensity"].tolist() == [90.0, 80.0]
    assert "rating" not in read.narratives["covariate"].tolist()


def test_a_dimension_may_be_called_otherwise_in_one_of_the_files(tmp_path):
    header = ("perceiver", "experiencer", "narrative_id", "rating", "dimension")
    rows = [("a X", "a Y", "n1", 10, "team"), ("a Y", "a Y", "n1", 20, "team")]
    groups = [("a X", "X", "team"), ("a Y", "Y", "team"), ("a Y", "Z", "other")]
    table(tmp_path / "r.csv", header, (0, 1, 2, 3, 4), rows)
    table(tmp_path / "g.csv", ("term", "group", "Of"), (0, 1, 2), groups)
    files = tmp_path / "r.csv", tmp_path / "g.csv"
    read = read_outside(*files, low=0, high=100, columns={"dimension": "Of"}).ratings
    assert read["dimension"].tolist() == ["team", "team"]
    assert read["experiencer_group"].tolist() == ["Y", "Y"]
    table(tmp_path / "r.csv", header[:4], (0, 1, 2, 3), [row[:4] for row in rows])
    with pytest.raises(ConfigError, match="columns=dimension:Of: no such column"):
        read_outside(*files, low=0, high=100, columns={"dimension": "Of"})


def test_other_columns_make_another_run(both):
    from audit.runs.outside import describe_outside

    one, other, same = (
        describe_outside(read_outside(*both, low=0, high=100, columns=columns), command="x").identity.content
        for columns in ({}, {"rating": "second"}, {"rating": "second"})
    )
    assert one != other
    assert other == same
    assert "columns" not in one["outside"]  # as earlier versions wrote it


def test_a_column_that_is_not_there_is_named_with_what_is_there(both):
    with pytest.raises(ConfigError, match="columns=rating:secnd: no such column; did you mean 'second'"):
        read_outside(*both, low=0, high=100, columns={"rating": "secnd"})


@pytest.mark.parametrize("text", ["", "rating", "rating:", "score:rating", "rating:a,rating:b", ":a"])
def test_what_names_no_column_ends_in_one_line(audit, capsys, text):
    assert audit("report", "ratings=r.csv", "groups=g.csv", "run_dir=run", f"columns={text}") == 2
    assert "must be OURS:YOURS" in capsys.readouterr().err.splitlines()[-1]


def test_what_cannot_be_guessed_is_left_to_the_user():
    assert guess_columns(["emotion", "neutral"], ["a", "b", "c"]) == {"emotion": "COLUMN", "neutral": "COLUMN"}
    assert guess_columns(["narrative_id", "emotion"], ["void", "Item no"]) == {
        "narrative_id": "Item no",
        "emotion": "void",
    }


def test_the_page_on_ratings_in_a_table_names_the_columns_that_are_read():
    page = (Path(__file__).parents[1] / "docs" / "elsewhere.md").read_text("utf-8")
    rows = page.partition("## Ratings in a table")[2].partition("\n- ")[0].splitlines()
    named = [name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert {*named} - {"ratings", "groups"} == {*COLUMNS}
