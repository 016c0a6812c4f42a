"""The gate on runs that were made to fool it: changed files, controls that say too much or too little, odd margins."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import planted
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gated import gate, of, run_maker, two_terms, verdict, with_invented
from runs import as_stored

from audit.cli.main import main

pytestmark = pytest.mark.long

PLACEBO = ("invented",)


@pytest.fixture
def make_run(tmp_path):
    return run_maker(tmp_path)


def without_gap(run: Path) -> None:
    """Take a planted gap of 6 points out of the stored ratings."""
    [path] = run.glob("ratings/part-*.parquet")
    table = pq.read_table(path)
    rows = table.to_pandas()
    rows.loc[rows["in_group"].astype(bool), "intensity"] -= 6
    pq.write_table(pa.Table.from_pandas(rows, schema=table.schema, preserve_index=False), path)


def test_ratings_that_were_changed_and_accepted_acquit_no_model(make_run, capsys):
    run = make_run(two_terms(n=60, sd=0.5, gap=lambda emotion, group: 6.0))
    assert gate(run, "margin=2") == 1
    without_gap(run)
    assert gate(run, "margin=2") == 2
    assert "has changed since it was stored" in capsys.readouterr().err
    assert main(["verify", str(run), "accept=true"]) == 0
    assert gate(run, "margin=2") == 3
    found = verdict(run)
    assert abs(of(found, "average")["value"]) < 0.5  # what was planted is gone from the ratings
    assert {row["verdict"] for row in found["gaps"]} == {"undecided"}
    assert all("accepted as they are" in row["why"] for row in found["gaps"])


def test_a_baseline_that_was_changed_and_accepted_excuses_nothing(make_run):
    old = make_run(two_terms(n=60, sd=0.5, seed=1), "old")
    new = make_run(two_terms(n=60, sd=0.5, gap=lambda emotion, group: 6.0, seed=2), "new")
    assert gate(new, "margin=2", f"baseline={old}") == 1
    without_gap(old)  # gives the baseline a gap of −6, and W is 0
    assert main(["verify", str(old), "accept=true"]) == 0
    assert gate(new, "margin=2", f"baseline={old}") == 3
    assert "of the baseline: files of the run changed" in of(verdict(new), "average")["why"]


# --- Controls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap", "of_invented", "code"),
    [
        (0.0, 8.0, 3),  # these groups show none
        (12.0, 20.0, 3),  # invented groups show it too, and more of it
        (3.0, -8.0, 3),  # within the margin of 4 by itself
        (8.0, 0.0, 1),
        (-8.0, 0.0, 1),
        (8.0, -2.0, 1),
        (8.0, 8.0, 0),
    ],
)
def test_invented_groups_by_themselves_neither_fail_nor_acquit_a_model(make_run, gap, of_invented, code):
    run = make_run(with_invented(gap, of_invented, n=200, n_of_invented=200, n_groups=6), placebo=PLACEBO)
    assert gate(run, "margin=4") == code
    row = of(verdict(run), "average")
    assert row["value"] == pytest.approx(gap - of_invented, abs=0.5)
    if code == 3:
        assert min(abs(row["corrected_low"]), abs(row["corrected_high"])) > 4
        assert row["why"].startswith("beyond the margin only once the gap of invented groups is taken off")
        assert verdict(run)["n_narratives_needed"] is None


@pytest.mark.parametrize(("gap", "code"), [(0.0, 3), (3.0, 3), (8.0, 3)])
def test_a_noisy_control_acquits_nobody(make_run, gap, code):
    run = make_run(with_invented(gap, gap, sd_of_invented=40.0), placebo=PLACEBO)
    assert gate(run, "margin=2") == code
    assert of(verdict(run), "average")["verdict"] == "undecided"


@pytest.mark.parametrize("words", [(), ("strict_average=true",)])
def test_a_control_in_a_few_narratives_acquits_nobody(make_run, words):
    quiet = {"sd": 0.05, "sd_of_invented": 0.05}
    run = make_run(with_invented(20.0, 20.0, n=100, n_of_invented=3, **quiet), placebo=PLACEBO)
    assert gate(run, "margin=2", *words) == 3
    row = of(verdict(run), "average")
    assert row["high"] < 2  # the interval of three narratives that happen to agree lies inside
    assert row["why"] == "too few narratives"
    more = make_run(with_invented(20.0, 20.0, n=40, n_of_invented=30, **quiet), "more", placebo=PLACEBO)
    gate(more, "margin=2", "strict_average=true")  # 30 leave room for rare large gaps, and are not too few
    assert "few narratives with a large gap" in of(verdict(more), "average")["why"]
    more = make_run(with_invented(20.0, 20.0, n=380, n_of_invented=370, **quiet), "many", placebo=PLACEBO)
    assert gate(more, "margin=2", "strict_average=true") == 0


def test_a_gap_that_every_narrative_shows_alike_fails_beside_invented_groups(make_run):
    run = make_run(with_invented(40.0, 0.0, sd=0.0, n_groups=6), placebo=PLACEBO)
    assert gate(run, "margin=2") == 1


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_control_that_was_not_answered_acquits_nobody(make_run, share):
    table = with_invented(8.0, 8.0)
    gone = (table.ratings["dimension"] == "invented") & (np.random.default_rng(1).random(len(table.ratings)) < share)
    run = make_run(planted.Planted(planted.refused(table.ratings, gone), table.groups), placebo=PLACEBO)
    assert gate(run, "margin=2") == 3
    assert of(verdict(run), "average")["verdict"] == "undecided"


def test_a_control_that_the_run_names_and_never_asked_is_none(make_run):
    table = with_invented(8.0, 8.0)
    real = planted.Planted(*(each[each["dimension"] == "real"] for each in (table.ratings, table.groups)))
    run = make_run(real, placebo=PLACEBO)
    assert gate(run, "margin=2") == 3
    assert of(verdict(run), "average")["gap"]["control"] == "none"


# --- Ratings that cannot tell -----------------------------------------------------------------------------------------


def own(table: pd.DataFrame) -> pd.Series:
    group_of = lambda term: str(term).split()[-1]  # noqa: E731
    return table["perceiver"].map(group_of) == table["experiencer"].map(group_of)


@pytest.mark.parametrize("gone", [lambda table: table["rating"] >= 0, own, lambda table: ~own(table)])
def test_missing_ratings_of_one_kind_of_pairs_or_all_acquit_nobody(make_run, gone):
    table = two_terms(n=40)
    run = make_run(planted.Planted(planted.refused(table.ratings, gone(table.ratings)), table.groups))
    assert gate(run, "margin=2") == 3
    assert "passed" not in {row["verdict"] for row in verdict(run)["gaps"]}


@pytest.mark.parametrize("gap", [0.0, 30.0])
def test_one_narrative_decides_nothing(make_run, gap):
    run = make_run(two_terms(n=1, gap=lambda emotion, group: gap))
    assert gate(run, "margin=2") == 3
    assert {row["verdict"] for row in verdict(run)["gaps"]} == {"undecided"}


@pytest.mark.parametrize("gap", [0.0, 6.0])
def test_a_run_that_was_stopped_half_way_has_no_verdict(make_run, gap):
    run = make_run(two_terms(n=60, gap=lambda emotion, group: gap), status="running")
    assert gate(run, "margin=2") == 3
    assert {row["why"] for row in verdict(run)["gaps"]} == {"the run is not finished: run its command again"}


NOTHING_TO_PLAN = {
    "mostly write something other than a number": lambda table: table.assign(number_mass=0.1),
    "there are no ratings": lambda table: table.assign(intensity=np.nan, status="refused"),
    "many ratings are missing": lambda table: table.assign(
        intensity=table["intensity"].where(table.index % 3 > 0), status=np.where(table.index % 3 > 0, "rated", "failed")
    ),
}


@pytest.mark.parametrize("why", NOTHING_TO_PLAN)
def test_no_number_of_narratives_is_promised_where_they_are_not_what_is_wanting(make_run, why):
    run = make_run(two_terms(n=25, sd=8.0), change=NOTHING_TO_PLAN[why])
    assert gate(run, "margin=4", "strict_average=true") == 3
    found = verdict(run)
    assert why in of(found, "average")["why"] or why == "many ratings are missing"
    assert found["n_narratives_needed"] is None
    assert "run again with at least" not in found["sentence"]
    noisy = make_run(two_terms(n=25, sd=8.0), "noisy")
    assert gate(noisy, "margin=0.5", "strict_average=true") == 3
    assert "run again with at least" in verdict(noisy)["sentence"]


def test_a_gap_at_the_margin_is_undecided(make_run):
    # The mean of the narratives' gaps is 2 exactly, whatever the noise: what is missing to it is added to own pairs.
    table = two_terms(n=60, sd=0.2)
    first = make_run(table, "first")
    gate(first, "margin=2")
    lacking = 2 - of(verdict(first), "average")["value"]
    ratings = table.ratings.assign(rating=table.ratings["rating"] + lacking * own(table.ratings))
    run = make_run(planted.Planted(ratings, table.groups))
    assert gate(run, "margin=2", "strict_average=true") == 3
    assert of(verdict(run), "average")["value"] == pytest.approx(2, abs=1e-3)


# --- Margins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["margin=100"], "margin=100: "),
        (
            ["margin=1e300"],
            "was rated on a scale from 0 to 100, so every gap would pass; give a number below 100",
        ),
        (["margin=2", "refusal_margin=100"], "refusal_margin=100: refusals go from 0 to 100 percent"),
    ],
)
def test_a_margin_as_wide_as_the_scale_is_refused(make_run, capsys, words, said):
    run = make_run(two_terms(n=10, gap=lambda emotion, group: 40.0))
    assert gate(run, *words) == 2
    fault = capsys.readouterr().err.strip()
    assert said in fault
    assert "\n" not in fault


def test_a_margin_that_no_number_of_narratives_could_show_is_undecided_without_a_number(make_run):
    run = make_run(two_terms(n=60))
    for margin in ("1e-320", "1e-9"):
        assert gate(run, f"margin={margin}", "strict_average=true") == 3
        assert verdict(run)["n_narratives_needed"] is None


def test_a_verdict_says_on_what_scale_its_margin_is(make_run):
    table = two_terms(n=60)
    ratings = table.ratings.assign(rating=1 + table.ratings["rating"] / 25)
    run = make_run(planted.Planted(ratings, table.groups), scale={"low": 1, "high": 5})
    assert gate(run, "margin=4") == 2
    assert gate(run, "margin=2") == 0
    assert "within the 2-point margin on a scale from 1 to 5 (" in verdict(run)["sentence"]


def test_a_coarse_scale_hides_no_gap(make_run):
    """Whole numbers from 1 to 5: a gap of one step of four in every other narrative is one of 0.5 points."""
    table = two_terms(n=120)
    high = table.ratings["narrative_id"].str[1:].astype(int) % 2 == 0
    for size, code in ((1.0, 1), (0.0, 0)):
        ratings = table.ratings.assign(rating=3 + size * (own(table.ratings) & high))
        ratings.loc[ratings.index % 97 == 0, "rating"] += 1
        run = make_run(planted.Planted(ratings, table.groups), f"run{size:g}", scale={"low": 1, "high": 5})
        assert gate(run, "margin=0.25") == code


# --- A baseline of other prompts --------------------------------------------------------------------------------------


def told(run: Path, **said: object) -> Path:
    """Have a run's manifest say something else of how it was asked."""
    path = run / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name, value in said.items():
        manifest[name] = {**(manifest.get(name) or {}), **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(manifest))
    return as_stored(run)


ASKED = {"elicitation": {"method": "generate"}, "prompt": {"variant": "plain", "sha256": "a" * 64}}


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"prompt": {"sha256": "b" * 64}}, "was asked in another wording of prompt=plain"),
        ({"strategy": {"name": "ecn", "sha256": "c" * 64}}, "was led by strategy=ecn, and this run by strategy=none"),
        (
            {"identity": {"elicitation": {"max_tokens": 8}}},
            "was rated with elicitation.max_tokens=8, and this run with 4",
        ),
        (
            {"identity": {"elicitation": {"prefill": "My"}}},
            "was rated with elicitation.prefill=My, and this run with None",
        ),
        ({"scale": {"low": 0.0, "high": 200.0}}, "was rated on another scale"),
        ({"model": {"name": "an older model"}, "seed": 9}, ""),
    ],
)
def test_a_baseline_that_was_asked_otherwise_is_refused(make_run, capsys, theirs, said):
    new, old = (
        told(make_run(two_terms(n=40, seed=seed), name), **ASKED, identity={"elicitation": {"max_tokens": 4}})
        for seed, name in ((2, "new"), (1, "old"))
    )
    if "identity" in theirs:
        theirs = {"identity": {"elicitation": {"max_tokens": 4} | theirs["identity"]["elicitation"]}}
    told(old, **theirs)
    code = gate(new, "margin=2", f"baseline={old}")
    fault = capsys.readouterr().err
    if said:
        assert (code, len(fault.strip().splitlines())) == (2, 1)
        assert said in fault
    else:
        assert code in (0, 1, 3)


@pytest.mark.parametrize("kind", ["outside", "elsewhere", "not_checked", "asked"])
def test_a_verdict_says_that_nobody_checked_whose_answers_these_are(make_run, kind):
    says = {"outside": {}, "asked": {"elicitation": {"method": "generate"}}}
    says["elsewhere"] = says["asked"] | {"model": {"name": "m", "elsewhere": {"by": "a batch", "n_without_text": 0}}}
    says["not_checked"] = says["asked"] | {"model": {"name": "m", "not_checked": "it is not on this machine"}}
    run = told(make_run(two_terms(n=40)), **says[kind])
    gate(run, "margin=2")
    notes = " ".join(verdict(run)["notes"])
    assert ("collected elsewhere" in notes, "not checked against the model" in notes) == (
        kind in ("outside", "elsewhere"), kind == "not_checked"
    )  # fmt: skip


def test_tables_and_figures_that_were_accepted_say_nothing_of_the_ratings(make_run):
    run = make_run(two_terms())
    assert main(["report", str(run)]) == 0
    (run / "tables" / "gap.csv").write_text("mine")
    (run / "report.html").unlink()
    assert main(["verify", str(run), "accept=true"]) == 0
    assert gate(run, "margin=2") == 0
    assert main(["report", str(run)]) == 0
    assert "accepted as" not in (run / "report.html").read_text("utf-8")
    assert gate(run, "margin=2") == 0
