"""Runs in an order through the command line: a family of sizes with a planted trend, and one without."""

import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from test_comparison import Numbers, table_of

import audit as package
from audit.comparing.comparison import compare_folders
from audit.comparing.series import position_names
from audit.errors import ConfigError
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import RATINGS

pytestmark = pytest.mark.long

GROUPS = ("Hindu", "Muslim", "Jewish", "Buddhist", "Sikh")
BILLION = 10**9
N = 20


def write(
    folder,
    *,
    gap=0.0,
    low=0.0,
    size=0,
    name="toy",
    seed=0,
    sd=2.0,
    scale=(0, 100),
    variant="origin",
    perceivers=GROUPS,
    **more,
):
    """Write a complete run: ``gap`` towards the in-group, ``low`` for Muslims, whoever rates them."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "prompt_index": 0, "dimension": "religion", "variant": variant, "narrative_id": f"n{number}",
            "emotion": "joy", "perceiver": f"a {perceiver}", "experiencer": f"a {experiencer}",
            "perceiver_group": perceiver, "experiencer_group": experiencer, "in_group": perceiver == experiencer,
            "n_shared": int(perceiver == experiencer), "status": "rated",
            "intensity": 50 + gap * (perceiver == experiencer) + low * (experiencer == "Muslim") + rng.normal(0, sd),
            "response": "",
        }
        for number in range(N) for perceiver in perceivers for experiencer in GROUPS
    ]  # fmt: skip
    for index, row in enumerate(rows):
        row |= {"prompt_index": index, **dict.fromkeys(("number_mass", "mode", "spread"))}
        if row["perceiver_group"] not in GROUPS:
            row |= {"perceiver": row["perceiver_group"], "in_group": None, "n_shared": None}
    manifest = {
        "status": "complete", "command": "python -m audit run", "started": "2026-11-22T00:00:00+00:00",
        "n_prompts": len(rows), "shard_size": len(rows), "seed": 0,
        "model": {"name": name, "path": f"embedded:{name}", "parameters": size},
        "elicitation": {"method": "expected"}, "scale": {"low": scale[0], "high": scale[1]},
        "stimuli": {"source": "geneva", "n_narratives": N, "sha256": "geneva"},
        "prompt": {"variant": variant}, "dimensions": ["religion"],
        "config": {"statistics": {"confidence": 0.95, "margin": None, "n_permutations": 200}},
        "identity": {"seed": seed, "name": str(folder.name)},
    }  # fmt: skip
    with RunFolder(folder) as kept:
        kept.write_manifest(Manifest.of(manifest | more))
        kept.write_shard(0, pd.DataFrame(rows, columns=list(RATINGS)))


def family(folder, *runs, **same):
    """Write runs of 1, 4, 16, ... billion parameters, each with what it plants; return their names."""
    for place, planted in enumerate(runs):
        size = planted.pop("size", BILLION * 4**place)
        write(folder / f"r{place}", size=size, name=f"toy {place}", seed=place, **same, **planted)
    return [f"r{place}" for place in range(len(runs))]


@pytest.fixture
def drawn():
    """Ask for it to have figures drawn; other tests do without, which is faster."""


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


def shown(out, name="series"):
    """Return what is shown of each gap: of δ by an empty name."""
    rows = table_of(out, name).to_dict("records")
    found = [row for row in rows if row["code"] in ("falls", "rises")]
    return {row["member"] if row["kind"] == "disparity" else "": row["code"] for row in found}


def headline_of(page):
    """Return the answer in everyday words."""
    return re.sub("<[^>]*>", "", html.unescape(re.search(r'<p class="headline">(.*?)</p>', page)[1]))


def test_runs_that_leave_a_question_open_are_followed_by_the_commands_that_ask_it_again(audit, tmp_path):
    asked = "python -m audit run model={} stimuli.situations_per_emotion=1"
    few = {"emotions": ["joy"], "n_narratives": N, "n_available": 400, "source": "geneva", "sha256": "geneva"}
    for place, name in enumerate(("a", "b")):
        write(tmp_path / name, gap=5, name=name, seed=place, command=asked.format(name), stimuli=few)
    assert audit("report", "a", "b", "run_dir=out") == 0
    page = html.unescape((tmp_path / "out" / "comparison.html").read_text("utf-8"))
    more = [asked.format(name).replace("=1", "=all") for name in ("a", "b")]
    assert "<strong>What next:</strong> Run again with more narratives." in page
    assert '<pre class="command">{}</pre>'.format("\n".join(more)) in page
    write(tmp_path / "c", gap=40, name="c", command=asked.format("c"), stimuli=few)
    assert audit("report", "a", "c", "run_dir=clear") == 0
    assert "situations_per_emotion=all" not in (tmp_path / "clear" / "comparison.html").read_text("utf-8")


def test_a_gap_that_shrinks_with_size_is_found_by_its_slope_for_a_doubling(audit, drawn, tmp_path, capsys):
    runs = family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 4})
    assert audit("report", *runs, "series=size", "run_dir=out") == 0
    printed = capsys.readouterr().out
    assert "falls, nearer to 0" in printed
    out = tmp_path / "out"
    assert shown(out) == {"": "falls"}
    [row] = table_of(out, "series").query("kind == 'average'").to_dict("records")
    assert row["estimate"] == pytest.approx(-2, abs=0.4)  # 4 points less with each two doublings
    assert row["ci_low"] < -2 < row["ci_high"]
    assert (row["size"], row["n_runs"], row["per"]) == ("nearer", 3, "doubling of the number of parameters")
    assert [row["line_first"], row["line_last"]] == pytest.approx([12, 4], abs=1)
    places = table_of(out, "series_runs").query("kind == 'average'")["position"]
    assert places.tolist() == pytest.approx([math.log2(BILLION) + step for step in (0, 2, 4)])
    page = (out / "comparison.html").read_text("utf-8")
    assert "δ falls, nearer to 0" in page
    assert headline_of(page) == (
        "With the number of parameters, the model's own group is rated lower and lower compared with others, "
        "nearer to 0."
    )
    assert (out / "figures" / "series-religion.svg").exists()
    tables = {name: table_of(out, name) for name in ("series", "series_changes")}
    placed = [(at.split(":"), value) for at, value in Numbers(page).found]
    own = [(where, value) for where, value in placed if where[0] in tables]
    assert {where[0] for where, _ in own} == set(tables)
    for (name, row_number, column), value in own:
        # An older pandas reads a last digit otherwise.
        assert float(value) == pytest.approx(tables[name].loc[int(row_number), column], rel=1e-12)


def test_a_disparity_that_shrinks_is_found_of_its_group_alone(audit, tmp_path):
    runs = family(tmp_path, {"low": -20}, {"low": -12}, {"low": -4})
    assert audit("report", *runs, "series=size", "run_dir=out") == 0
    assert shown(tmp_path / "out") == {"Muslim": "rises"}
    rows = table_of(tmp_path / "out", "series").set_index("member")
    assert rows.loc["Muslim", "size"] == "nearer"
    assert rows.loc["Muslim", "estimate"] == pytest.approx(4, abs=0.3)
    assert rows.loc["Sikh", "limits"] == "bystander"  # it falls against the others by a point for a doubling
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "how <bdi>Muslim</bdi> is rated beside the others (D) rises, nearer to 0, in these words" in page
    assert headline_of(page) == (
        "With the number of parameters, Muslim is rated higher and higher compared with others, nearer to 0, in these "
        "words."
    )


def test_a_family_without_a_trend_shows_none(audit, tmp_path):
    runs = family(tmp_path, *({"gap": 5, "low": -10} for _ in range(3)))
    assert audit("report", *runs, "series=size", "run_dir=out") == 0
    assert not shown(tmp_path / "out")
    assert not shown(tmp_path / "out", "series_changes")
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "no trend of δ shown; no trend shown of any group's D" in page
    assert headline_of(page) == "No change with the number of parameters is shown."
    assert "No single step is shown to change a gap." in page


def test_a_jump_is_named_by_its_step(audit, tmp_path):
    runs = family(tmp_path, {"gap": 1}, {"gap": 1}, {"gap": 13}, {"gap": 13})
    assert audit("report", *runs, "series=order", "run_dir=out") == 0
    steps = table_of(tmp_path / "out", "series_changes").query("code in ('falls', 'rises')")
    assert steps[["first", "second", "code"]].to_numpy().tolist() == [["toy 1", "toy 2", "rises"]]
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert re.search(
        r"δ rises by <data [^>]*>12\.\d\d</data> points between <bdi>toy 1</bdi> and <bdi>toy 2</bdi>", page
    )


def test_a_run_without_a_verdict_takes_no_part(audit, tmp_path):
    runs = family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 4}, {"sd": 0.0})
    assert audit("report", *runs, "series=order", "run_dir=four") == 0
    [row] = table_of(tmp_path / "four", "series").query("kind == 'average'").to_dict("records")
    assert (row["code"], row["n_runs"], row["n_left_out"]) == ("falls", 3, 1)
    page = (tmp_path / "four" / "comparison.html").read_text("utf-8")
    assert "Runs without a verdict, which take no part:" in page
    assert audit("report", *runs[1:], "series=order", "run_dir=three") == 0
    rows = table_of(tmp_path / "three", "series")
    assert set(rows["code"]) == {"no_estimate"}
    assert "a trend takes 3 runs with a verdict, and 2 of 3 have one" in set(rows["note"])
    page = (tmp_path / "three" / "comparison.html").read_text("utf-8")
    assert headline_of(page).startswith("We cannot tell whether anything changes along the runs")


def test_two_models_of_one_size_are_averaged(audit, tmp_path):
    runs = family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 8, "size": 4 * BILLION}, {"gap": 4, "size": 16 * BILLION})
    assert audit("report", *runs, "series=size", "run_dir=out") == 0
    out = tmp_path / "out"
    assert shown(out) == {"": "falls"}
    steps = table_of(out, "series_changes").query("kind == 'average'")
    assert steps[["first", "second"]].to_numpy().tolist() == [["toy 0", "toy 1; toy 2"], ["toy 1; toy 2", "toy 3"]]


@pytest.mark.parametrize(
    ("positions", "per", "slope"),
    [(("0", "2", "4"), "unit of position", -2), (("2026-01-01", "2026-01-03", "2026-01-05"), "day", -2)],
)
def test_positions_in_a_file_are_numbers_or_dates(audit, tmp_path, positions, per, slope):
    runs = family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 4})
    (tmp_path / "places.csv").write_text("run,position\n" + "".join(
        f"{run},{place}\n" for run, place in zip((*runs, "another"), (*positions, positions[0]), strict=True)
    ))  # fmt: skip
    assert audit("report", *runs, "series=places.csv", "run_dir=out") == 0
    [row] = table_of(tmp_path / "out", "series").query("kind == 'average'").to_dict("records")
    assert row["per"] == per
    assert row["estimate"] == pytest.approx(slope, abs=0.4)


def test_positions_are_written_as_what_they_are():
    assert position_names([math.log2(7 * BILLION), math.log2(1.35e8)], "doubling of the number of parameters") == {
        math.log2(7 * BILLION): "7B", math.log2(1.35e8): "135M",
    }  # fmt: skip
    assert position_names([730120.0], "day") == {730120.0: "2000-01-01"}
    assert position_names([1.0, 2.5], "unit of position") == {1.0: "1", 2.5: "2.5"}


def test_verify_makes_a_series_again_and_a_changed_file_of_positions_does_not_matter(audit, tmp_path, capsys):
    runs = family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 4})
    places = tmp_path / "places.csv"
    places.write_text("run,position\nr0,1\nr1,2\nr2,7\n")
    assert audit("report", *runs, "series=places.csv", "run_dir=out") == 0
    recorded = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["series"]
    assert recorded == {"by": "places.csv", "per": "unit of position", "positions": [1.0, 2.0, 7.0]}
    places.unlink()
    assert audit("verify", "out") == 0, capsys.readouterr()
    table = tmp_path / "out" / "tables" / "series.csv"
    table.write_text(table.read_text("utf-8").replace("falls", "rises"))
    assert audit("verify", "out") == 1
    assert "tables/series.csv" in capsys.readouterr().out


def test_python_gives_the_same_tables(audit, tmp_path):
    runs = family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 4})
    assert audit("report", *runs, "series=size", "run_dir=out") == 0
    made = package.compare(*runs, series="size", run_dir=tmp_path / "api")
    for name in ("series", "series_changes", "series_runs"):
        assert (tmp_path / "api" / "tables" / f"{name}.csv").read_bytes() == (
            tmp_path / "out" / "tables" / f"{name}.csv"
        ).read_bytes()
        assert len(made.tables[name])


def test_without_series_there_is_none(audit, tmp_path):
    assert audit("report", *family(tmp_path, {"gap": 12}, {"gap": 8}, {"gap": 4}), "run_dir=out") == 0
    assert not (tmp_path / "out" / "tables" / "series.csv").exists()
    assert 'id="series"' not in (tmp_path / "out" / "comparison.html").read_text("utf-8")


def refused(audit, capsys, *words):
    """Give a command that is refused with one line; return it."""
    assert audit("report", *words, "run_dir=out") == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit: ")]
    return line


def test_a_size_that_nobody_knows_is_one_line_with_the_remedy(audit, tmp_path, capsys):
    runs = family(tmp_path, {}, {}, {"size": 0})
    line = refused(audit, capsys, *runs, "series=size")
    assert "series=size: r2 does not say how many parameters its model 'toy 2' has" in line
    assert "series=order" in line
    assert "series=FILE" in line


def test_a_size_may_stand_in_the_models_name(audit, tmp_path):
    for place, name in enumerate(("toy-1B", "toy-4b", "toy-16B")):
        write(tmp_path / f"r{place}", name=name, gap=12 - 4 * place, seed=place)
    assert audit("report", "r0", "r1", "r2", "series=size", "run_dir=out") == 0
    places = table_of(tmp_path / "out", "series_runs").query("kind == 'average'")["position"]
    assert places.tolist() == pytest.approx([math.log2(BILLION) + step for step in (0, 2, 4)])


def test_two_runs_two_places_and_a_misspelt_word_are_one_line(audit, tmp_path, capsys):
    runs = family(tmp_path, {}, {}, {"size": BILLION})
    assert "a series takes 3 runs or more, got 2 runs" in refused(audit, capsys, *runs[:2], "series=order")
    assert "a series takes 3 different positions or more, got 2" in refused(audit, capsys, *runs, "series=size")
    assert "did you mean 'size'?" in refused(audit, capsys, *runs, "series=sise")
    assert "is for several run folders, and none is given" in refused(audit, capsys, "series=size")
    assert "one run folder is given" in refused(audit, capsys, "r0", "series=size")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("r0,1\nr1,2\n", "has no position for r2; add a row"),
        ("r0,1\nr1,2\nr2,3\nr0,4\n", "r0 has a position already, 1; keep one"),
        ("r0,1\nr1,two\nr2,3\n", "position 'two' must be a number"),
        ("r0,2026-01-01\nr1,2026-02-30\nr2,2026-03-01\n", "there is no day '2026-02-30'"),
        ("r0,2026-01-01\nr1,2\nr2,3\n", "position '2026-01-01' must be a number, or like those of all runs a date"),
    ],
)
def test_wrong_positions_are_one_line(audit, tmp_path, capsys, rows, said):
    runs = family(tmp_path, {}, {}, {})
    (tmp_path / "places.csv").write_text(f"run,position\n{rows}")
    line = refused(audit, capsys, *runs, "series=places.csv")
    assert said in line
    assert "places.csv" in line


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"scale": (0, 200)}, "the scale"),
        ({"variant": "persona-1"}, "the prompt"),
        ({"elicitation": {"method": "generate"}}, "how a rating is got"),
        ({"stimuli": {"source": "mine", "n_narratives": N, "sha256": "other"}}, "the narratives"),
    ],
)
def test_runs_that_were_not_asked_the_same_make_no_series(audit, tmp_path, capsys, other, said):
    runs = family(tmp_path, {}, {}, other)
    line = refused(audit, capsys, *runs, "series=order")
    assert "series= takes runs that were asked the same" in line
    assert f"differ in {said}; leave out one of them" in line


def test_replies_make_no_series(audit, tmp_path, capsys):
    runs = family(tmp_path, {}, {}, {}, task={"kind": "reply"})
    assert "series= follows gaps of ratings" in refused(audit, capsys, *runs, "series=order")


def test_a_recorded_series_that_does_not_fit_its_runs_is_refused(tmp_path):
    runs = family(tmp_path, {}, {}, {})
    for positions in ([1, 2], [1, 2, "three"], None):
        with pytest.raises(ConfigError, match="does not have a position for each of its runs"):
            compare_folders(
                [tmp_path / run for run in runs], out=tmp_path / "out", reports_dir=tmp_path,
                series={"by": "order", "per": "day", "positions": positions}, say=lambda line: None,
            )  # fmt: skip


def test_runs_without_a_persona_are_followed_by_their_groups_alone(audit, tmp_path):
    nobody = {"perceivers": ["no persona"]}
    runs = family(tmp_path, {"low": -20}, {"low": -12}, {"low": -4}, **nobody)
    assert audit("report", *runs, "series=size", "run_dir=out") == 0
    assert shown(tmp_path / "out") == {"Muslim": "rises"}
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert "how <bdi>Muslim</bdi> is rated beside the others (D) rises, nearer to 0" in page
    assert "no trend of δ" not in page
