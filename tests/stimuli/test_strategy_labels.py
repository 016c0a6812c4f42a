import pytest

from stimuli.errors import StimulusError
from stimuli.strategy_labels import read_levels


def test_levels_of_the_runs_narratives_are_read(tmp_path):
    path = tmp_path / "levels.csv"
    path.write_text("narrative_id,explorations,interpretations\na,2,0\nother,9,x\n")
    assert read_levels(path, ["a", "b"], ["explorations"]) == {"a": {"explorations": 2}}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,3\n", "line 2: explorations is '3', but a level must be 0, 1 or 2"),
        ("a,1\na,1\n", "narrative identifier 'a' occurs twice"),
        ("x,1\n", "has none of this run's 2 narratives"),
    ],
)
def test_a_file_that_can_not_be_used_is_named(rows, said, tmp_path):
    path = tmp_path / "levels.csv"
    path.write_text("narrative_id,explorations\n" + rows)
    with pytest.raises(StimulusError, match=said):
        read_levels(path, ["a", "b"], ["explorations"])
