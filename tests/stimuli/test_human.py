import pytest

from stimuli.errors import StimulusError
from stimuli.human import read_human


def written(folder, text, name="human.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(path, ids=("a", "b"), **columns):
    named = {"id_column": "narrative_id", "rating_column": "intensity"} | columns
    return read_human(path, ids, **named)


def test_several_readers_are_averaged_and_what_is_empty_is_missing(tmp_path):
    path = written(tmp_path, "narrative_id,intensity,reader\na,4,x\na,5,y\nb,,x\nother,nonsense,x\na,,z\n")
    human = read(path)
    assert human.mean == {"a": 4.5}
    assert (human.n_ratings, human.n_empty) == (2, 2)


def test_other_columns_and_tabs(tmp_path):
    path = written(tmp_path, "text_id\tjudged\n215\t-1.5\n", "generation.tsv")
    assert read(path, ["215"], id_column="text_id", rating_column="judged").mean == {"215": -1.5}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "narrative_id,intensity\nx,3\n",
            r"names none of this run's 2 narratives .* first is 'x'.*statistics.human_id",
        ),
        ("narrative_id,intensity\na,much\n", r"line 2: intensity is 'much', but must be a number"),
        ("narrative_id,intensity\na,inf\n", r"line 2: intensity is 'inf'"),
        ("narrative_id,rating\na,3\n", r"no column 'intensity' .*set statistics.human_id and statistics.human_rating"),
    ],
)
def test_a_file_that_can_not_be_used_is_named_with_place_and_remedy(content, said, tmp_path):
    with pytest.raises(StimulusError, match=said):
        read(written(tmp_path, content))


@pytest.mark.parametrize(("cell", "mean"), [("3,5", 3.5), ("-0,25", -0.25), ("3.5", 3.5), ("4,0000", 4.0)])
def test_a_decimal_comma_is_read(cell, mean, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(f"narrative_id;intensity\na;{cell}\n")
    assert read_human(path, ["a"], id_column="narrative_id", rating_column="intensity").mean == {"a": mean}


def test_three_digits_after_a_comma_may_be_thousands_and_are_refused(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("narrative_id;intensity\na;1,000\n")
    with pytest.raises(StimulusError, match="intensity is '1,000', but must be a number"):
        read_human(path, ["a"], id_column="narrative_id", rating_column="intensity")
