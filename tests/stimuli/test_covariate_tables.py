"""A user's numbers of groups: what is read is written out by hand beside the file."""

import hashlib
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stimuli.covariates import read_covariates
from stimuli.errors import StimulusError

RELIGIONS = {"religion": {"Hindu", "Muslim", "Jew", "Sikh"}}
PAIRS = """\
perceiver_group,experiencer_group,distance,trade
Hindu,Muslim,1.5,3
Muslim,Hindu,,4
Hindu,Jew,2,NA
"""


def written(folder, text, name="groups.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_of_groups_are_read_with_the_file_s_hash(tmp_path):
    path = written(tmp_path, "group;size;share\nHindu;1,5;0,2\nMuslim;;0,3\n")
    read = read_covariates(path)
    assert (read.names, read.of_pairs, read.where) == (("size", "share"), False, str(path))
    assert read.numbers("size", "religion") == {("Hindu",): 1.5}
    assert read.numbers("share", "anything") == {("Hindu",): 0.2, ("Muslim",): 0.3}
    assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_pair_in_one_order_holds_in_both_unless_the_other_is_empty(tmp_path):
    read = read_covariates(written(tmp_path, PAIRS))
    assert read.numbers("distance", "religion") == {
        ("Hindu", "Muslim"): 1.5,  # the other order is there, and empty: not known
        ("Hindu", "Jew"): 2, ("Jew", "Hindu"): 2,
    }  # fmt: skip
    assert read.numbers("trade", "religion") == {("Hindu", "Muslim"): 3, ("Muslim", "Hindu"): 4}


def test_a_dimension_tells_groups_of_one_name_apart(tmp_path):
    read = read_covariates(written(tmp_path, "dimension,group,size\nrace,Jew,1\nreligion,Jew,2\n"))
    assert (read.numbers("size", "race"), read.numbers("size", "religion")) == ({("Jew",): 1}, {("Jew",): 2})
    assert read.numbers("size", "nation") == {}
    read.check({"race": {"Jew", "Black"}, "religion": {"Jew", "Hindu"}})


def test_parquet_is_read_as_csv_is(tmp_path):
    path = tmp_path / "groups.parquet"
    pq.write_table(pa.table({"group": ["Hindu", "Muslim"], "size": [1.5, None]}), path)
    read = read_covariates(path)
    assert read.numbers("size", "religion") == {("Hindu",): 1.5}
    assert math.isnan(read.rows[1].numbers[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty|is empty; write the names"),
        ("group,size\n", "has a header but no groups; write one per row"),
        ("grp,size\nHindu,1\n", "no column 'group' .*'perceiver_group' and 'experiencer_group'.*there are: grp, size"),
        ("perceiver_group,distance\nHindu,1\n", "no column 'experiencer_group'; there are: distance"),
        ("group,perceiver_group,x\nHindu,Hindu,1\n", "has the columns 'group' and 'perceiver_group'; .* file of their"),
        ("group\nHindu\n", "has no column of numbers; add one, such as 'distance'"),
        ("group,size\nHindu,big\nJew,1\n", "line 2: size is 'big', but must be a number, or empty .*leave out columns"),
        ("group,size\nHindu,inf\n", "line 2: size is 'inf'"),
        ("group,size\nHindu,1\nJew,2\nHindu,1\n", "line 4: 'Hindu' is in line 2 already; keep one"),
        (PAIRS + "Hindu,Muslim,9,9\n", "line 5: 'Hindu' and 'Muslim' is in line 2 already; keep one"),
        ("group,size\n,1\n", "line 2: the cell in column 'group' is empty; fill it"),
        ("group,size,size\nHindu,1,2\n", "2 columns are called 'size'"),
        ("group,cultural distance\nHindu,1\n", "cannot name the column 'cultural distance'; call it 'cultural_dist"),
        ("group,2020\nHindu,1\n", "cannot name the column '2020'; call it 'x_2020'"),
        ("group,class\nHindu,1\n", "cannot name the column 'class'; call it 'x_class'"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_with_place_and_remedy(text, said, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(StimulusError, match=said) as caught:
        read_covariates(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "group,size\nHindu,1\nMuslm,2\nJew,3\n",
            "line 3: the run has no group 'Muslm'; did you mean 'Muslim'? If not",
        ),
        ("group,size\nhindu,1\nJew,3\n", "line 2: the run has no group 'hindu'; did you mean 'Hindu'?"),
        (
            "group,size\nFrance,1\nIran,2\n",
            "no row is of this run's groups (the file's first is 'France', the run has ",
        ),
        (
            "dimension,group,size\nreligon,Jew,1\n",
            "line 2: the run has no dimension 'religon'; did you mean 'religion'?",
        ),
        (
            "perceiver_group,experiencer_group,d\nHindu,Jews,1\nJews,Sikh,2\n",
            "line 2: the run has no group 'Jews'; did",
        ),
    ],
)
def test_a_misspelt_group_is_named(text, said, tmp_path):
    with pytest.raises(StimulusError) as caught:
        read_covariates(written(tmp_path, text)).check(RELIGIONS)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "group,size\nHindu,1\nMuslim,2\nFrance,3\n",  # other groups than the run's, and not all of those
        "group,size\nHindu,1\nMuslm,2\nMuslim,\n",  # a group that is called so, as the empty cell says
        "dimension,group,size\nreligion,Jew,1\nnation,Iran,3\n",
    ],
)
def test_a_file_may_have_more_or_fewer_groups_than_the_run(text, tmp_path):
    read_covariates(written(tmp_path, text)).check(RELIGIONS)
