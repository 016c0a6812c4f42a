"""Runs with a user's numbers of groups and of narratives: the command, the folder, the page, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

from audit.api import empathy_gap
from audit.cli.main import main
from audit.errors import ConfigError
from audit.runs.manifest import Manifest
from audit.tables.gap import COVARIATES, OWN_MODEL
from stimuli.covariates import read_covariates
from stimuli.errors import StimulusError

GROUPS = {f"a {name}": name for name in ("Hindu", "Muslim", "Jew", "Sikh", "Jain")}
DISTANCE = np.array([
    [0, 7, 2, 9, 4],
    [1, 0, 6, 3, 8],
    [5, 2, 0, 4, 7],
    [9, 1, 8, 0, 3],
    [2, 6, 4, 5, 0],
])  # fmt: skip
QUIET = ("low=0", "high=100", "statistics.n_permutations=100")  # fewer than the 120 orders of five groups


def planted(slope=1.0, n=12, **columns):
    """Ratings as another tool has them: out-group pairs fall by slope times their distance."""
    rng, names = np.random.default_rng(4), list(GROUPS)
    rows = [
        {
            "perceiver": names[p],
            "experiencer": names[e],
            "narrative_id": f"n{i}",
            "rating": 50 + i / 2 + 2 * p + e - slope * DISTANCE[p, e] + 5 * (p == e) + rng.normal(0, 1),
        }
        | {name: values[i % len(values)] for name, values in columns.items()}
        for i in range(n)
        for p in range(5)
        for e in range(5)
    ]
    return pd.DataFrame(rows)


def distances(path):
    names = list(GROUPS.values())
    rows = [(names[a], names[b], DISTANCE[a, b]) for a in range(5) for b in range(5) if a != b]
    pd.DataFrame(rows, columns=["perceiver_group", "experiencer_group", "distance"]).to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"term": GROUPS.keys(), "group": GROUPS.values()}).to_csv("g.csv", index=False)
    return tmp_path


def report(ratings, *more, run_dir="out"):
    ratings.to_csv("r.csv", index=False)
    return main(["report", "ratings=r.csv", "groups=g.csv", f"run_dir={run_dir}", *QUIET, *more])


def table_of(run, name="covariates"):
    return pd.read_csv(Path(run) / "tables" / f"{name}.csv")


def bytes_of(run):
    return {path.name: path.read_bytes() for path in sorted(Path(run, "tables").glob("*.csv"))}


def test_a_run_shows_whether_the_gap_grows_and_keeps_the_numbers(here):
    distances(here / "d.csv")
    assert report(planted(), "statistics.covariates=d.csv") == 0
    row = table_of("out").iloc[0]
    assert (row["covariate"], row["of"], row["answer"]) == ("distance", "pairs", "grows")
    assert row["ci_low"] < 1 < row["ci_high"]
    assert row["slope"] == pytest.approx(1, abs=0.1)
    assert list(table_of("out").columns) == list(COVARIATES)
    page = Path("out/report.html").read_text()
    assert "grow with the numbers in statistics.covariates?" in page
    assert f'data-at="covariates:0:slope">{row["slope"]:+.2f}' in page
    told = Manifest.read(Path("out")).covariates
    assert told.given == read_covariates(Path("d.csv"))
    dictionary = table_of("out", "dictionary")
    described = dictionary[dictionary["table"] == "covariates"]
    assert described["column"].tolist() == list(COVARIATES)
    assert described.set_index("column")["unit"]["slope"] == "points per unit"
    assert main(["verify", "out"]) == 0


def test_without_the_option_nothing_of_it_is_written(here):
    assert report(planted()) == 0
    assert not Path("out/tables/covariates.csv").exists()
    assert not Path("out/narrative_covariates.parquet").exists()
    assert "covariates" not in Manifest.read(Path("out")).content
    assert "grow with the numbers" not in Path("out/report.html").read_text()


def test_no_slope_is_not_called_one(here):
    distances(here / "d.csv")
    assert report(planted(slope=0), "statistics.covariates=d.csv") == 0
    assert table_of("out")["answer"].tolist() == ["not_shown"]
    assert "not shown" in Path("out/report.html").read_text()


def test_the_numbers_recorded_count_until_the_file_is_named_again(here):
    file = distances(here / "d.csv")
    assert report(planted(), "statistics.covariates=d.csv") == 0
    first, generation = bytes_of("out"), Manifest.read(Path("out")).generation
    file.unlink()
    assert main(["report", "out"]) == 0
    assert bytes_of("out") == first
    assert Manifest.read(Path("out")).generation == generation
    other = pd.DataFrame({"group": GROUPS.values(), "size": [5, 1, 3, 2, 4]})
    other.to_csv(file, index=False)
    assert main(["report", "out"]) == 0
    assert bytes_of("out") == first
    assert main(["report", "out", "statistics.covariates=d.csv"]) == 0
    assert table_of("out")[["covariate", "of"]].values.tolist() == [["size", "groups"], ["size", "disparity"]]
    assert Manifest.read(Path("out")).generation != generation
    assert main(["report", "out", "statistics.covariates=null"]) == 0
    assert not Path("out/tables/covariates.csv").exists()
    assert Manifest.read(Path("out")).covariates.given is None


def test_the_same_seed_gives_the_same_bytes(here):
    distances(here / "d.csv")
    for run_dir in ("one", "two"):
        assert report(planted(), "statistics.covariates=d.csv", run_dir=run_dir) == 0
    assert bytes_of("one") == bytes_of("two")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("group,size\nHindu,1\nMuslm,2\nJew,3\n", "the run has no group 'Muslm'; did you mean 'Muslim'?"),
        ("group,size\nHindu,large\n", "line 2: size is 'large', but must be a number"),
        ("group,size\nHindu,1\nHindu,2\n", "line 3: 'Hindu' is in line 2 already; keep one"),
        ("", "the file is empty|is empty; write the names of the columns"),
        (None, "is not a file; check its name"),
        ("group,size\nIran,1\n", "no row is of this run's groups"),
    ],
)
def test_a_file_that_cannot_be_used_ends_in_one_line(here, capsys, text, said):
    if text is not None:
        Path("d.csv").write_text(text)
    assert report(planted(n=2), "statistics.covariates=d.csv") == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert any(each in line for each in said.split("|"))
    assert "d.csv" in line
    assert not Path("out/report.html").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("group,size\nHindu,1\nMuslim,2\nJew,4\nSikh,8\n", "left out, since a number is missing: Jain"),
        ("group,size\n" + "".join(f"{name},2\n" for name in GROUPS.values()), "it is 2 in all groups"),
    ],
)
def test_what_the_groups_cannot_show_is_a_note(here, text, said):
    Path("d.csv").write_text(text)
    assert report(planted(), "statistics.covariates=d.csv") == 0
    assert said in table_of("out")["note"][0]
    assert said in Path("out/report.html").read_text()


# --- A formula -------------------------------------------------------------------------------------------------------


def test_a_formula_names_distances_and_columns_of_the_ratings(here, capsys):
    distances(here / "d.csv")
    ratings = planted(words=[10, 30, 20, 50], genre=["news", "diary", "diary"], model=["m"]).assign(
        order=range(300), text=["x" * 120] * 300, **{"with space": 1}
    )
    formula = "statistics.formula=intensity ~ distance + words + C(genre) + C(perceiver) + C(experiencer)"
    given = ("statistics.covariates=d.csv", formula, "statistics.fit=ols", "statistics.cluster=genre")
    assert report(ratings, *given) == 0
    err = capsys.readouterr().err
    assert "covariates of narratives, for statistics.formula: words, genre" in err
    for said in (
        "'with space': a formula cannot name it", "'order': it differs within the narrative 'n0'",
        "'text': a cell has more than 100 characters", "'model': it is the same in all narratives",
    ):  # fmt: skip
        assert said in err
    table = table_of("out", "own_model").set_index("term")
    assert list(table.reset_index()[list(OWN_MODEL)].columns) == list(OWN_MODEL)
    assert table.loc["distance", "estimate"] == pytest.approx(-1, abs=0.1)
    assert table.loc["distance", "n_clusters"] == 2
    # Levels rise by half a point a narrative: words and genre take what they can of it.
    assert {"words", "C(genre)[T.news]"} <= set(table.index)
    kept = bytes_of("out")
    Path("d.csv").unlink()
    Path("r.csv").unlink()
    assert main(["report", "out"]) == 0
    assert bytes_of("out") == kept
    assert main(["report", "out", "statistics.formula=intensity ~ wrds", "statistics.cluster=narrative_id"]) == 2
    assert "unknown column or function 'wrds'; did you mean 'words'?" in capsys.readouterr().err


def test_our_own_columns_are_no_covariates(here):
    """A table that a run exported has perceiver_group, n_shared and others, which a formula sees by themselves."""
    assert report(planted().assign(n_shared=1, perceiver_group="x", number_mass=0.5, response="words")) == 0
    assert not Path("out/narrative_covariates.parquet").exists()


def test_covariates_of_narratives_are_read_from_parquet_too(here):
    ratings = planted(words=[1.5, 2, 4])
    ratings.to_parquet("r.parquet")
    formula = ("statistics.formula=intensity ~ words", "statistics.fit=ols")
    assert main(["report", "ratings=r.parquet", "groups=g.csv", "run_dir=packed", *QUIET, *formula]) == 0
    assert report(ratings, *formula) == 0
    packed, text = table_of("packed", "own_model"), table_of("out", "own_model")
    assert packed["estimate"].tolist() == text["estimate"].tolist()


def test_a_data_frame_has_both(here):
    distances(here / "d.csv")
    found = empathy_gap(
        planted(words=[1, 5, 2]), GROUPS, low=0, high=100, n_permutations=200, covariates=here / "d.csv",
        formula="intensity ~ words + distance", fit="ols",
    )  # fmt: skip
    assert found.tables["covariates"]["answer"].tolist() == ["grows"]
    assert {"words", "distance"} <= set(found.tables["own_model"]["term"])
    Path("d.csv").write_text("group,size\nHind,1\nJew,2\n")
    with pytest.raises(StimulusError, match="did you mean 'Hindu'"):
        empathy_gap(planted(n=2), GROUPS, low=0, high=100, covariates=here / "d.csv")


# --- A run that asks -------------------------------------------------------------------------------------------------


def test_a_run_is_refused_before_the_model_is_loaded(tmp_path, capsys):
    file = tmp_path / "sizes.csv"
    file.write_text("group,size\nHindu,1\nMuslims,2\nChristian,3\n")
    words = ["run", f"run_dir={tmp_path / 'run'}", "model.path=nowhere", *FOUR_RELIGIONS]
    assert main([*words, f"statistics.covariates={file}"]) == 2
    assert "line 3: the run has no group 'Muslims'; did you mean 'Muslim'?" in capsys.readouterr().err
    file.write_text("group,size\nHindu,1\nMuslim,2\nChristian,3\n")
    formula = "statistics.formula='intensity ~ experiencer_sise'"
    assert main([*words, f"statistics.covariates={file}", formula]) == 2
    assert "unknown column or function 'experiencer_sise'; did you mean 'experiencer_size'?" in capsys.readouterr().err
    assert main([*words, "task=reply", f"statistics.covariates={file}"]) == 2
    assert "statistics.covariates is for runs of ratings" in capsys.readouterr().err


def test_a_finished_run_gets_covariates_later(finished_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run("stages"), run)
    file = tmp_path / "sizes.csv"
    file.write_text("group,size\nHindu,1\nMuslim,5\nChristian,3\nJew,2\n")
    assert main(["report", str(run), f"statistics.covariates={file}"]) == 0
    row = table_of(run).iloc[0]
    assert (row["of"], row["covariate"], row["dimension"]) == ("groups", "size", "religion")
    assert row["n_groups"] + row["note"].count(", ") >= 3
    recorded = json.loads((run / "manifest.json").read_text())["covariates"]
    assert recorded["rows"][0] == {"place": "line 2", "dimension": "", "groups": ["Hindu"], "numbers": [1.0]}


def test_a_lost_file_of_covariates_is_written_again_from_the_ratings(here, capsys):
    ratings = planted(words=[1, 5, 2])
    formula = ("statistics.formula=intensity ~ words", "statistics.fit=ols")
    assert report(ratings, *formula) == 0
    kept = bytes_of("out")
    Path("out/narrative_covariates.parquet").unlink()
    assert main(["report", "out"]) == 2
    assert "narrative_covariates.parquet" in capsys.readouterr().err
    assert report(ratings, *formula) == 0
    assert bytes_of("out") == kept


def test_replication_takes_no_covariates(tmp_path, capsys):
    (tmp_path / "study").mkdir()
    assert main(["replicate", str(tmp_path / "study"), "statistics.covariates=x.csv"]) == 2
    assert "statistics.covariates is for one run" in capsys.readouterr().err


def test_a_wrong_table_of_a_data_frame_is_one_error():
    with pytest.raises(ConfigError, match="unknown column or function 'distance'"):
        empathy_gap(planted(n=2), GROUPS, low=0, high=100, formula="intensity ~ distance")
