"""Ratings of another tool: the oracle of every table is written out by hand beside the file it is read from."""

import csv
import hashlib
import json
import math
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import ConfigError, StoreError
from audit.report.manifest import view_manifest
from audit.runs.manifest import Manifest
from audit.runs.outside import describe_outside, read_outside
from audit.runs.store import RunFolder
from audit.statistics.cells import NarrativeCube
from audit.tables.ratings import RATINGS

RATED = """\
perceiver,experiencer,narrative_id,rating
a Muslim,a Muslim,n1,80
a Muslim,a Hindu,n1,60.5
a Hindu,a Muslim,n1,
a Hindu,a Hindu,n1,70
a person,a Hindu,n1,0
"""
FULL = """\
narrative_id,status,emotion,rating,variant,experiencer,perceiver,dimension,response
n1,rated,joy,100,origin,a Hindu,a Muslim,religion,"100, I think"
n1,refused,joy,,origin,a Muslim,a Hindu,religion,no
n2,failed,anger,,origin,a Hindu,a Hindu,religion,
n2,unparseable,anger,,brief,a Hindu,a Hindu,religion,"a
line"
"""
GROUPS = """\
term,group
a Muslim,Muslim
a Hindu,Hindu
a person,unspecified
never asked,Other
"""
HEADER = "perceiver,experiencer,narrative_id,rating"
ROW = "a Muslim,a Hindu,n1,60"


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return a function that writes both files, text or bytes, and reads them."""
    monkeypatch.chdir(tmp_path)

    def written(ratings=RATED, groups=GROUPS, *, suffix=".csv", low=0.0, high=100.0, missing=()):
        paths = Path(f"r{suffix}"), Path("g.csv")
        for path, content in zip(paths, (ratings, groups), strict=True):
            if content is not None:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_outside(*paths, low=low, high=high, missing=missing)

    return written


def lines(*rows, header=HEADER):
    return "\n".join([header, *rows]) + "\n"


# --- What comes out --------------------------------------------------------------------------------------------------


def test_the_least_file_becomes_a_whole_table(read):
    outside = read()
    ratings = outside.ratings
    assert list(ratings.columns) == list(RATINGS)
    expected = {
        "prompt_index": [0, 1, 2, 3, 4],
        "dimension": ["identity"] * 5,
        "variant": ["outside"] * 5,
        "emotion": ["not given"] * 5,
        "perceiver": ["a Muslim", "a Muslim", "a Hindu", "a Hindu", "a person"],
        "perceiver_group": ["Muslim", "Muslim", "Hindu", "Hindu", "unspecified"],
        "experiencer_group": ["Muslim", "Hindu", "Muslim", "Hindu", "Hindu"],
        "in_group": [True, False, False, True, pd.NA],
        "n_shared": [1, 0, 0, 1, pd.NA],
        "status": ["rated", "rated", "unparseable", "rated", "rated"],
        "response": [""] * 5,
    }
    assert {name: ratings[name].tolist() for name in expected} == expected
    assert ratings["intensity"].fillna(-1).tolist() == [80, 60.5, -1, 70, 0]
    assert ratings[["number_mass", "mode", "spread"]].isna().all(axis=None)
    assert not outside.status_given


def test_every_optional_column_is_taken_and_others_are_not(read):
    outside = read(FULL)
    ratings = outside.ratings
    assert outside.status_given
    assert ratings["status"].tolist() == ["rated", "refused", "failed", "unparseable"]
    assert ratings["emotion"].tolist() == ["joy", "joy", "anger", "anger"]
    assert ratings["variant"].tolist() == ["origin", "origin", "origin", "brief"]
    assert set(ratings["dimension"]) == {"religion"}
    assert set(ratings["response"]) == {""}


@pytest.mark.parametrize("content", [RATED, FULL])
def test_the_table_is_the_one_that_a_run_folder_gives_back(content, read, tmp_path):
    ratings = read(content).ratings
    rows = ratings.astype(object).where(ratings.notna(), None).to_dict("records")
    with RunFolder(tmp_path / "run") as folder:
        folder.write_shard(0, rows)
        pd.testing.assert_frame_equal(folder.read_ratings(n_prompts=len(ratings)), ratings)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_and_tabs_read_as_commas_do_and_decimals_may_have_a_comma_between_semicolons(delimiter, read):
    from_commas = read().ratings
    content = RATED.replace(",", delimiter)
    assert "60.5" in content
    for text in (content, content.replace("60.5", "60,5")) if delimiter == ";" else (content,):
        pd.testing.assert_frame_equal(read(text).ratings, from_commas)


def test_a_comma_is_decimal_between_tabs_and_in_quotes_unless_it_may_part_thousands(read):
    from_commas = read().ratings
    for text in (RATED.replace(",", "\t").replace("60.5", "60,5"), RATED.replace("60.5", '"60,5"')):
        pd.testing.assert_frame_equal(read(text).ratings, from_commas)
    for text in (RATED.replace("60.5", '"1,234"'), RATED.replace("60.5", '"60,5"').replace(",80", ",80.5")):
        with pytest.raises(
            ConfigError,
            match=r"line 3: the rating .(60,5|1,234). is not a number; write "
            r"it as",
        ):
            read(text)


def test_parquet_reads_as_the_csv_does(read, tmp_path):
    from_csv = read(FULL)
    table = pd.read_csv(tmp_path / "r.csv")
    forms = {
        "words": table,
        "rows of a longer table": table.set_index(pd.Index([7, 3, 3, 5])),
        "categories": table.astype({"perceiver": "category", "status": "category"}),
        "text ratings": table.astype({"rating": "string"}),
        "an index": table.set_index(["perceiver", "experiencer", "narrative_id"])[["rating", "status", "emotion",
                                                                                  "variant", "dimension"]],
    }  # fmt: skip
    for form in forms.values():
        # A folder named like a column must not become one.
        path = tmp_path / "variant=other" / "ratings.parquet"
        path.parent.mkdir(exist_ok=True)
        form.to_parquet(path)
        from_parquet = read_outside(path, tmp_path / "g.csv", low=0, high=100)
        pd.testing.assert_frame_equal(from_parquet.ratings, from_csv.ratings)
        assert from_parquet.status_given


def test_numbers_of_narratives_are_names(read, tmp_path):
    columns = {"perceiver": ["a Hindu"] * 2, "experiencer": "a Hindu", "narrative_id": [7, 12], "rating": [1, 2]}
    pd.DataFrame(columns).to_parquet(tmp_path / "r.parquet")
    assert read(None, suffix=".parquet").ratings["narrative_id"].tolist() == ["7", "12"]
    assert read(lines("a Hindu,a Hindu,007,1")).ratings["narrative_id"].tolist() == ["007"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + RATED.encode(),
        RATED.replace("\n", "\r\n"),
        RATED.replace("\n", "\n\n  \n"),
        RATED.replace("rating\n", " Rating \n").replace(",80\n", ', "80 " \n').replace('"80 "', " 80 "),
        RATED.replace("a Muslim,", " a Muslim ,", 1),
        RATED.replace("n1,\n", "n1\n"),  # a spreadsheet leaves out empty cells at the end of a line
        RATED.replace("n1,\n", "n1,  \n"),
        "\n" + RATED,
    ],
)
def test_the_habits_of_spreadsheets_and_editors_change_nothing(content, read):
    pd.testing.assert_frame_equal(read(content).ratings, read().ratings)


def test_words_that_pandas_would_call_missing_are_identities(read):
    groups = "term,group\nNone,NA\nnan,null\n"
    ratings = read(lines("None,nan,NA,1", "nan,nan,NA,2"), groups).ratings
    assert ratings["perceiver"].tolist() == ["None", "nan"]
    assert ratings["perceiver_group"].tolist() == ["NA", "null"]
    assert ratings["narrative_id"].tolist() == ["NA", "NA"]
    assert ratings["in_group"].tolist() == [False, True]


def test_a_term_may_belong_to_another_group_in_another_dimension(read):
    header = f"dimension,{HEADER}"
    groups = "dimension,term,group\nregion,x,North\nregion,y,North\nage,x,old\nage,y,young\nage,z,unspecified\n"
    ratings = read(lines("region,x,y,n1,1", "age,x,y,n1,2", "age,z,x,n1,3", header=header), groups).ratings
    assert ratings["in_group"].tolist() == [True, False, pd.NA]
    assert ratings["perceiver_group"].tolist() == ["North", "old", "unspecified"]
    assert ratings["experiencer_group"].tolist() == ["North", "young", "old"]


def test_the_baseline_is_known_in_capitals(read):
    assert read(groups=GROUPS.replace("unspecified", "Unspecified")).ratings["in_group"].isna().tolist() == [
        False, False, False, False, True,
    ]  # fmt: skip


def test_statistics_take_the_table(read):
    cube = NarrativeCube.from_ratings(read().ratings, dimension="identity", variant="outside")
    assert (cube.perceivers, cube.experiencers) == (("a Muslim", "a Hindu"), ("a Muslim", "a Hindu"))
    # As in RATED, the baseline left out: 80, 60.5; missing, 70.
    assert cube.y[0].tolist()[0] == [80, 60.5]
    assert math.isnan(cube.y[0, 1, 0])
    assert cube.y[0, 1, 1] == 70
    assert cube.in_group.tolist() == [[True, False], [False, True]]


def test_one_group_of_perceivers_is_read(read):
    assert read(lines(ROW)).ratings["in_group"].tolist() == [False]


def test_a_long_file_keeps_its_rows_apart(read):
    # Longer than the parser's piece of 256 KiB, with lines that lack their last cell only near the end.
    rows = [f"a Muslim,a Hindu,narrative-{n},{n % 101}" for n in range(20_000)]
    rows += [f"a Hindu,a Hindu,narrative-{n}" for n in range(20_000)]
    ratings = read(lines(*rows)).ratings
    assert ratings["intensity"][:20_000].tolist() == [n % 101 for n in range(20_000)]
    assert ratings["intensity"][20_000:].isna().all()
    assert ratings["narrative_id"].tolist() == [f"narrative-{n}" for n in range(20_000)] * 2


# --- The manifest ----------------------------------------------------------------------------------------------------


def test_the_manifest_says_what_a_report_needs(read, tmp_path):
    outside = read(FULL)
    manifest = json.loads(describe_outside(outside, command="audit report ...", seed=3, model="theirs").to_bytes())
    view = view_manifest(Manifest.of(manifest))
    assert (view.model, view.method, view.low, view.high) == ("theirs", "outside", 0, 100)
    assert (view.stimuli, view.variant, view.emotions) == ("r.csv", "origin, brief", ("joy", "anger"))
    assert manifest["n_prompts"] == manifest["shard_size"] == 4
    assert (manifest["seed"], manifest["status"], manifest["dimensions"]) == (3, "complete", ["religion"])
    assert manifest["stimuli"]["n_narratives"] == 2
    for which in ("ratings", "groups"):
        digest = hashlib.sha256((tmp_path / f"{which[0]}.csv").read_bytes()).hexdigest()
        assert manifest["outside"][f"{which}_sha256"] == manifest["identity"]["outside"][which] == digest


def test_what_nobody_told_is_not_recorded(read):
    view = view_manifest(describe_outside(read(), command=""))
    assert (view.model, view.emotions, view.low_label) == ("r.csv", (), "")
    assert dict(next(facts.rows for facts in view.facts if facts.title == "engine"))["name"] == "not recorded"


# --- What is refused -------------------------------------------------------------------------------------------------


def refused(error, read, words, **files):
    with pytest.raises(error) as caught:
        read(**files)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"ratings": None}, ["ratings=r.csv", "is not a file"]),
        ({"groups": None}, ["groups=g.csv", "is not a file"]),
        ({"ratings": ""}, ["ratings=r.csv is empty"]),
        ({"ratings": "\n \n"}, ["ratings=r.csv is empty"]),
        ({"ratings": RATED.encode() + b"a Hind\xfc,x,n,1\n"}, ["ratings=r.csv: line 7", "not UTF-8", "0xfc"]),
        ({"groups": b"term,gro\xfcp\n"}, ["groups=g.csv: line 1", "not UTF-8"]),
        ({"ratings": RATED.encode() + b"a Hin\0du,x,n,1\n"}, ["ratings=r.csv: line 7", "NUL"]),
        ({"suffix": ".parquet"}, ["ratings=r.parquet cannot be read as Parquet", "write it again"]),
        ({"suffix": ".parquet", "ratings": ""}, ["ratings=r.parquet cannot be read as Parquet"]),
        ({"ratings": '"' + "x" * 200_000 + '"\n'}, ["ratings=r.csv cannot be read as CSV", "field larger"]),
    ],
)
def test_a_file_that_can_not_be_read_is_one_line(files, words, read):
    refused(StoreError, read, words, **files)


def rated(*values):
    """Rows of one pair, one a narrative, with these ratings."""
    return lines(*(f"a Muslim,a Hindu,n{place},{value}" for place, value in enumerate(values)))


@pytest.mark.parametrize("ends", [{"low": None, "high": None}, {"high": None}, {"low": None}])
def test_ratings_from_1_to_7_do_not_tell_their_scale(read, ends):
    with pytest.raises(ConfigError) as raised:
        read(rated(1, 4, 7), **({"low": 1.0, "high": 7.0} | ends))
    [line] = str(raised.value).splitlines()
    assert ("the ratings go from 1 to 7, which does not show where the scale ends; give its ends with low=") in line
    assert "missing=" not in line


@pytest.mark.parametrize(
    ("values", "code"),
    [((-1, 1, 4, 7), "-1"), ((1, -1, 0, 100), "-1"), ((1, 7, -99), "-99"), ((1, 7, 999), "999"), ((-1, -1), "-1")],
)
def test_a_code_is_named_and_never_taken_for_an_end(read, values, code):
    with pytest.raises(ConfigError) as raised:
        read(rated(*values), low=None, high=None)
    [line] = str(raised.value).splitlines()
    assert f"{code} is likely a code for a refusal or a missing answer: if so, add missing={code}" in line
    assert f"low={code}" not in line
    assert f"high={code}" not in line
    assert f"from {code}" not in line
    assert f"to {code}" not in line


@pytest.mark.parametrize("ends", [{"low": None, "high": None}, {"low": 1.0, "high": 7.0}])
def test_the_remedy_keeps_the_codes_that_were_given(read, ends):
    with pytest.raises(ConfigError, match=r"-99 is likely a code .* add missing=\[-1,-99\]"):
        read(rated(1, 7, -1, -99), **ends, missing=[-1.0])


def test_codes_in_another_order_or_twice_are_the_same_run(read):
    ends = {"low": 1.0, "high": 7.0}
    given = [read(rated(1, 7, -1, -99), **ends, missing=codes) for codes in ([-1.0, -99.0], [-99.0, -1.0, -99.0])]
    first, second = (describe_outside(outside, command="c").identity.content for outside in given)
    assert first == second
    assert given[1].missing == (-1, -99)


def test_a_scale_about_0_holds_minus_1(read):
    with pytest.raises(ConfigError, match="the ratings go from -3 to 3") as raised:
        read(rated(-3, -1, 0, 3), low=None, high=None)
    assert "code" not in str(raised.value)
    assert read(rated(-3, -1, 0, 3), low=-3.0, high=3.0).n_missing_codes == 0
    assert read(rated(-1, 0, 1), low=-1.0, high=1.0).ratings["intensity"].tolist() == [-1, 0, 1]


def test_ratings_that_reach_both_ends_need_none(read):
    outside = read(rated(0, 55, 100), low=None, high=None)
    assert (outside.low, outside.high) == (0, 100)
    assert read(rated("", ""), low=None, high=None).ratings["intensity"].isna().all()


def test_codes_become_missing_ratings_of_the_row_s_status(read):
    content = lines(
        "a Muslim,a Hindu,n1,1,rated", "a Muslim,a Hindu,n2,-1,refused", "a Muslim,a Hindu,n3,-99.0,failed",
        "a Muslim,a Hindu,n4,7,rated", header=f"{HEADER},status",
    )  # fmt: skip
    outside = read(content, low=1.0, high=7.0, missing=[-1.0, -99.0])
    assert outside.ratings["intensity"].fillna(0).tolist() == [1, 0, 0, 7]
    assert outside.ratings["status"].tolist() == ["rated", "refused", "failed", "rated"]
    assert (outside.missing, outside.n_missing_codes) == ((-1, -99), 2)
    bare = read(rated(1, -1, 7), low=1.0, high=7.0, missing=[-1.0])
    assert bare.ratings["status"].tolist() == ["rated", "unparseable", "rated"]
    described = describe_outside(outside, command="c").content
    assert described["identity"]["outside"]["missing"] == [-1, -99]
    assert described["outside"]["n_missing_codes"] == 2


def test_a_file_that_may_not_be_read_is_one_line(read, monkeypatch):
    read()

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(StoreError, match=r"ratings=r\.csv cannot be read \(Permission denied\)"):
        read_outside(Path("r.csv"), Path("g.csv"), low=0, high=100)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"suffix": ".docx"}, ["ratings=r.docx", "'.docx'", ".csv, .tsv or .txt", ".parquet", "(.xlsx)", ".sav"]),
        ({"suffix": ""}, ["ratings=r", "no suffix"]),
        ({"low": 100.0}, ["low=100 high=100", "low must be below high"]),
        ({"high": math.inf}, ["high=inf"]),
        ({"low": math.nan}, ["low=nan"]),
        # Columns.
        ({"ratings": lines(header=HEADER.replace("perceiver", "perciever"))},
         ["no column 'perceiver'", "did you mean 'perciever'?"]),
        ({"ratings": lines(header=HEADER.replace(",", "|"))},
         ["no columns 'perceiver', 'experiencer'", "separate the cells by commas, semicolons or tabs"]),
        ({"ratings": lines(header=f"{HEADER},Rating")}, ["2 columns are called 'rating'", "keep one"]),
        ({"ratings": lines()}, ["ratings=r.csv", "no rows"]),
        ({"groups": "term,group\n"}, ["groups=g.csv", "no rows"]),
        ({"groups": "term,groups\na,b\n"}, ["groups=g.csv", "no column 'group'", "did you mean 'groups'?"]),
        # Cells.
        ({"ratings": lines(ROW, "a Muslim,a Hindu,n2,1,5")}, ["line 3 has 5 cells and the header 4", "with a point"]),
        ({"ratings": lines("a Muslim,a Hindu,n2,1,5", ROW)}, ["line 2 has 5 cells and the header 4"]),
        ({"ratings": lines(ROW, '"a Hindu,a Hindu,n1,5', ROW)}, ["opens on line 3", "never closed"]),
        ({"ratings": lines(ROW, ",a Hindu,n1,5")}, ["line 3", "the perceiver is empty", "fill it"]),
        ({"ratings": lines(ROW, "a Hindu,  ,n1,5")}, ["line 3", "the experiencer is empty"]),
        ({"ratings": lines('"a\nMuslim",a Hindu,n1,4', "", "a Hindu,a Hindu,,5")}, ["line 5", "narrative_id is empty"]),
        ({"ratings": lines(f"{ROW},", header=f"{HEADER},emotion")}, ["line 2", "the emotion is empty"]),
        ({"groups": f"{GROUPS}x,\n"}, ["groups=g.csv: line 6", "the group is empty"]),
        # Ratings.
        *(
            ({"ratings": lines(ROW, f"a Hindu,a Hindu,n1,{cell}", "a Hindu,a Hindu,n2,n/a")},
             ["ratings=r.csv: line 3 (and 1 more)", f"the rating {shown!r} is not a number", "leave it empty"])
            for cell, shown in [("n/a", "n/a"), ('"1,234"', "1,234"), ("0x10", "0x10"), ("inf", "inf"),
                                ("1_0", "1_0"), ("True", "True"), ("1e999", "1e999")]
        ),
        ({"ratings": lines(ROW, "a Hindu,a Hindu,n1,-inf")}, ["line 3", "'-inf' is not a number"]),
        ({"ratings": lines(ROW, "a Hindu,a Hindu,n1,100.5", "a Hindu,a Hindu,n2,-1")},
         ["line 3 (and 1 more)", "100.5 is outside the scale from 0 to 100", "low= and high=", "add missing=-1"]),
        ({"ratings": lines(ROW, "a Hindu,a Hindu,n1,-1", "a Hindu,a Hindu,n2,-99")},
         ["line 3 (and 1 more)", "-1 and -99 are likely codes", "add missing=[-1,-99]"]),
        ({"ratings": lines(ROW, "a Hindu,a Hindu,n1,-1"), "missing": [-99.0]}, ["missing=-99", "no such rating"]),
        ({"ratings": lines(ROW, "a Hindu,a Hindu,n1,5"), "missing": [5.0]},
         ["missing=5", "must lie outside the scale from 0 to 100"]),
        ({"missing": [math.nan]}, ["missing=nan"]),
        ({"ratings": lines(f"{ROW},rated", "a Hindu,a Hindu,n1,-1,rated", header=f"{HEADER},status"),
          "missing": [-1.0]}, ["line 3", "'rated'", "its rating -1 counts as missing"]),
        ({"low": 1.0, "high": 7.0}, ["line 2 (and 3 more)", "80 is outside the scale from 1 to 7"]),
        # Statuses.
        ({"ratings": lines(f"{ROW},Refused", header=f"{HEADER},status")},
         ["line 2", "unknown status 'Refused'", "did you mean 'refused'?"]),
        ({"ratings": lines(f"{ROW},", header=f"{HEADER},status")}, ["line 2", "the status is empty"]),
        ({"ratings": lines(f"{ROW},refused", header=f"{HEADER},status")}, ["line 2", "'refused'", "the rating 60"]),
        ({"ratings": lines("a Muslim,a Hindu,n1,,rated", header=f"{HEADER},status")},
         ["line 2", "'rated'", "it has no rating"]),
        # Prompts and narratives.
        ({"ratings": lines(ROW, "a Hindu,a Hindu,n1,5", "a Muslim ,a Hindu,n1,7")},
         ["line 4", "line 2 already", "narrative_id 'n1'", "perceiver 'a Muslim'", "experiencer 'a Hindu'",
          "dimension 'identity'", "variant 'outside'", "keep one"]),
        ({"ratings": lines(f"{ROW},joy", "a Hindu,a Hindu,n1,5,fear", header=f"{HEADER},emotion")},
         ["line 3", "'n1'", "'fear' here and 'joy' before"]),
        # Groups.
        ({"ratings": lines("a Hindu,a Hindu,n1,5", "a Muslm,a Hindu,n1,5", "a Muslm,a Muslm,n1,6", "Jew,a Hindu,n1,1")},
         ["groups=g.csv", "no group for the term 'a Muslm' (and for 1 more)", "2 rows", "ratings=r.csv (first: line 3)",
          "did you mean 'a Muslim'?"]),
        ({"groups": f"{GROUPS}a Hindu,Hindu\na Hindu,Indian\n"},
         ["groups=g.csv: line 7", "'a Hindu'", "'Indian' here", "'Hindu' on line 3"]),
        # Else "a Hindu" and "a follower of Krishna" would be of two groups, and their pair one between groups.
        ({"groups": f"{GROUPS}a follower of Krishna, hindu \n"},
         ["groups=g.csv: line 6", "the group 'hindu' is written 'Hindu' on line 3", "in one way"]),
        ({"groups": "term,group,stem\na Muslim,Muslim,muslim\na Hindu,Hindu,hindu\na person,unspecified,\n"
          "a Muslim,Muslim,islam\n"},
         ["groups=g.csv: line 5", "stem of 'a Muslim'", "'islam' here", "'muslim' before", "keep one"]),
        ({"groups": GROUPS.replace("unspecified", "no persona")},
         ["groups=g.csv: line 4", "'no persona'", "'unspecified' if it is a baseline"]),
        ({"groups": "term,group,dimension\na Hindu,Hindu,religion\n"}, ["column 'dimension'", "both, or remove it"]),
        ({"ratings": FULL, "groups": "term,group,dimension\na Hindu,Hindu,religions\n"},
         ["line 2 (and 3 more)", "no dimension 'religion'", "did you mean 'religions'?"]),
        ({"ratings": FULL, "groups": "term,group,dimension\na Hindu,Hindu,religion\na Muslim,x,y\n"},
         ["'a Muslim' in dimension 'religion'", "2 rows", "there are: a Hindu"]),
    ],
)  # fmt: skip
def test_what_does_not_add_up_is_one_line(files, words, read):
    refused(ConfigError, read, words, **files)


def test_a_column_twice_in_parquet_is_one_line(read, tmp_path):
    pq.write_table(pa.table([["a"], ["b"]], names=["rating", "rating"]), tmp_path / "r.parquet")
    refused(StoreError, read, ["ratings=r.parquet", "rating"], ratings=None, suffix=".parquet")


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("rating", [5.0, math.inf], ["row 2", "'inf' is not a number"]),
        ("rating", ["5", "n/a"], ["row 2", "'n/a' is not a number"]),
        ("rating", [True, False], ["row 1", "'True' is not a number"]),
        ("perceiver", ["a Hindu", None], ["row 2", "the perceiver is empty"]),
        ("narrative_id", ["n1", "n1"], ["row 2", "on row 1 already"]),
    ],
)
def test_parquet_is_held_to_the_same(column, values, words, read, tmp_path):
    table = pd.DataFrame(
        {"perceiver": "a Hindu", "experiencer": "a Hindu", "narrative_id": ["n1", "n2"], "rating": 1.0}
    )
    table.assign(**{column: values}).to_parquet(tmp_path / "r.parquet")
    refused(ConfigError, read, words, ratings=None, suffix=".parquet")


def test_a_missing_value_in_parquet_is_a_missing_rating(read, tmp_path):
    table = pd.DataFrame({"perceiver": "a Hindu", "experiencer": "a Hindu", "narrative_id": list("abc")})
    table.assign(rating=[1.0, math.nan, None]).to_parquet(tmp_path / "r.parquet")
    assert read(None, suffix=".parquet").ratings["status"].tolist() == ["rated", "unparseable", "unparseable"]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), min_size=1, max_size=6
    )
)
def test_any_wording_survives_the_file(terms):
    terms = list(dict.fromkeys(filter(None, (term.strip() for term in terms)))) or ["x"]
    with tempfile.TemporaryDirectory() as folder:
        ratings, groups = Path(folder, "r.csv"), Path(folder, "g.csv")
        for path, rows in {
            ratings: [HEADER.split(","), *([term, terms[0], "n1", 1] for term in terms)],
            groups: [["term", "group"], *([term, term] for term in terms)],
        }.items():
            with path.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows(rows)
        read = read_outside(ratings, groups, low=0, high=1).ratings
    assert read["perceiver"].tolist() == terms
    assert read["in_group"].tolist() == [term == terms[0] for term in terms]


def test_a_term_twice_in_one_group_is_no_contradiction(read):
    pd.testing.assert_frame_equal(read(groups=f"{GROUPS}a Hindu,Hindu\n").ratings, read().ratings)


# --- A spreadsheet ---------------------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path, monkeypatch):
    """Return a function that writes the rows of a CSV as sheets of a workbook, numbers as numbers, and reads them."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbooks, is not installed")
    pytest.importorskip("python_calamine", reason="needs python-calamine: pip install 'empathy-audit[excel]'")
    monkeypatch.chdir(tmp_path)

    def cell(text):
        try:
            return float(text)
        except ValueError:
            return text or None

    def written(sheets, groups=GROUPS, *, above=0):
        for path, of in (("r.xlsx", sheets), ("g.xlsx", {"groups": groups})):
            book = openpyxl.Workbook()
            book.remove(book.active)
            for name, content in of.items():
                sheet = book.create_sheet(name)
                for row, values in enumerate(csv.reader(content.splitlines()), start=above + 1):
                    for column, value in enumerate(values, start=1):
                        sheet.cell(row, column, cell(value))
            book.save(path)
        return read_outside(Path("r.xlsx"), Path("g.xlsx"), low=0, high=100)

    return written


@pytest.mark.parametrize("content", [RATED, FULL])
def test_a_workbook_gives_the_table_of_the_same_rows_as_csv(content, workbook, read):
    """The oracle is the file of CSV with the same cells."""
    pd.testing.assert_frame_equal(workbook({"notes": "a,b\nc,d", "all": content}).ratings, read(content).ratings)


def test_a_fault_in_a_workbook_names_the_row_that_the_spreadsheet_shows(workbook):
    """Two rows above the header, and one that is empty among the others."""
    with pytest.raises(ConfigError, match=r"ratings=r\.xlsx: row 6: the rating 'much' is not a number"):
        workbook({"all": lines(ROW, "", "a Hindu,a Hindu,n1,much")}, above=2)


def test_a_workbook_without_the_columns_or_that_is_none_is_refused(workbook, read):
    with pytest.raises(StoreError, match=r"ratings=r\.xlsx: no sheet has all of the columns 'perceiver'"):
        workbook({"one": "a,b\nc,d", "two": "e\nf"})
    with pytest.raises(StoreError, match=r"ratings=r\.xlsx: cannot be read"):
        read(suffix=".xlsx")
