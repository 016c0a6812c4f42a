"""What runs say of a claim: comparisons of planted runs, made by the project's own command, are the oracle."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from gated import with_invented
from indexed import changed, published, without_figures
from planted import Planted, alone, grouped, ratings_of

from audit.api import compare
from audit.extras.index.claims import CLAIMS, _said
from audit.extras.index.write import write_index
from audit.tasks.pipeline import report_run

pytestmark = pytest.mark.long

SLIGHTLY = 5.95  # a gap whose difference from 6 has, with its seed, a p below .05 and above .05 / 10
SMALL, LARGE = {"model__parameters": 1_000_000}, {"model__parameters": 9_000_000}


def planted_gap(size, *, seed=0, scale=1.0, variant="origin"):
    groups = alone(4)
    ratings = ratings_of(groups, n=40, gap=lambda emotion, group: size, seed=seed)
    ratings = ratings.assign(rating=ratings["rating"] * scale, variant=variant)
    return Planted(ratings, grouped(groups))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return runs to copy from: of a gap of 6, of 2, of −6; asked with a stronger persona, and on a coarse scale."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        published(folder / "six", planted_gap(6.0), identity__name="six", model__name="m")
        published(folder / "two", planted_gap(2.0, seed=1), identity__name="two", model__name="m")
        published(folder / "minus", planted_gap(-6.0, seed=2), identity__name="minus", model__name="m")
        published(
            folder / "persona", planted_gap(6.0, seed=3, variant="persona-1"), identity__name="persona",
            model__name="m", prompt__variant="persona-1", prompt__sha256="e" * 64,
        )  # fmt: skip
        published(
            folder / "coarse", planted_gap(6.0, seed=4, scale=0.1, variant="scale-10"), high=10,
            identity__name="coarse", model__name="m", prompt__variant="scale-10", prompt__sha256="f" * 64,
        )  # fmt: skip
        yield folder


def lay(kept, tmp_path, *names, **said):
    """Copy runs to a folder, with what their manifests are to say besides."""
    for name in names:
        shutil.copytree(kept / name, tmp_path / name)
        if name in said:
            changed(tmp_path / name, **said[name])
    return tmp_path


def beside(folder, *names):
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        return compare(*(folder / name for name in names), run_dir=folder / "comparison")


def claims_of(folder, name):
    made = write_index(folder)
    text = made.page.read_text("utf-8")
    return made.claims.loc[made.claims["claim"] == name].to_dict("records"), text


@pytest.mark.parametrize(
    ("large", "small", "says", "change"), [("two", "six", "for", -4.0), ("six", "two", "against", 4.0)]
)
def test_a_pair_of_sizes_decides_by_the_paired_interval(kept, tmp_path, large, small, says, change):
    folder = lay(kept, tmp_path, large, small, **{large: LARGE, small: SMALL})
    beside(folder, small, large)
    [row], page = claims_of(folder, "size")
    assert (row["first"], row["second"], row["says"], row["why"]) == (large, small, says, "")
    own = pd.read_csv(folder / "comparison" / "tables" / "comparisons.csv", dtype=str).iloc[0]
    assert row["delta_change"] == -float(own["delta_change"])  # there the smaller model stands first
    assert (row["ci_low"], row["ci_high"]) == (-float(own["ci_high"]), -float(own["ci_low"]))
    assert row["flipped"]
    assert row["delta_change"] == pytest.approx(change, abs=0.5)
    told = "1 as claimed, 0 the other way" if says == "for" else "0 as claimed, 1 the other way"
    assert told in page


def test_a_gap_that_goes_down_and_away_from_0_is_larger_not_smaller(kept, tmp_path):
    """−6 against −2 planted as −6 and a third of it: lower is the larger gap."""
    folder = lay(kept, tmp_path, "minus", minus=LARGE)
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        published(folder / "less", planted_gap(-2.0, seed=5), identity__name="less", model__name="m", **SMALL)
    beside(folder, "minus", "less")
    [row], _ = claims_of(folder, "size")
    assert row["delta_change"] < 0
    assert row["says"] == "against"


def test_two_gaps_of_different_ways_cannot_tell(kept, tmp_path):
    folder = lay(kept, tmp_path, "six", "minus", six=SMALL, minus=LARGE)
    beside(folder, "six", "minus")
    [row], page = claims_of(folder, "size")
    assert (row["says"], "go different ways" in row["why"]) == ("cannot_tell", True)
    assert "These runs cannot tell: 1 pair of runs bears on it, and none of them decides." in page


def test_an_interval_that_holds_0_cannot_tell(kept, tmp_path):
    folder = lay(kept, tmp_path, "six", "persona")
    beside(folder, "six", "persona")  # both of 6
    [row], _ = claims_of(folder, "persona")
    assert (row["first"], row["says"], row["why"]) == (
        "persona",
        "cannot_tell",
        "the interval of the difference holds 0",
    )


def test_a_difference_that_its_comparison_does_not_show_is_no_evidence(kept, tmp_path):
    """Between 5 runs there are 10 differences: one whose p is below .05 is shown alone, and not among them."""
    folder = lay(kept, tmp_path, "six", six=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        published(folder / "large", planted_gap(SLIGHTLY, seed=7), identity__name="large", model__name="m", **LARGE)
        for n in range(3):
            published(folder / f"same{n}", planted_gap(6.0, seed=8 + n), identity__name=f"same{n}", model__name="m")
    beside(folder, "six", "large")
    [row], _ = claims_of(folder, "size")
    assert row["says"] == "for"
    shutil.rmtree(folder / "comparison")
    beside(folder, "six", "large", "same0", "same1", "same2")
    [among], page = claims_of(folder, "size")
    assert (among["ci_low"], among["ci_high"]) == (row["ci_low"], row["ci_high"])
    assert not among["ci_low"] <= 0 <= among["ci_high"]
    assert (among["says"], among["why"]) == (
        "cannot_tell",
        "in comparison, the difference is not shown after correction",
    )
    assert "These runs cannot tell" in page


def test_a_coarse_scale_is_compared_in_percent_of_the_scale(kept, tmp_path):
    folder = lay(kept, tmp_path, "two", "coarse")
    beside(folder, "two", "coarse")  # 2 of 100 against .6 of 10
    [row], _ = claims_of(folder, "scale")
    assert (row["first"], row["unit"], row["says"]) == ("coarse", "% of the scale", "against")
    assert row["delta_first"] == pytest.approx(6.0, abs=0.5)


def test_without_a_comparison_the_page_says_what_makes_it_and_the_command_does(kept, tmp_path, monkeypatch):
    folder = lay(kept, tmp_path, "two", "six", two=LARGE, six=SMALL)
    [row], page = claims_of(folder, "size")
    assert (row["says"], row["comparison"]) == ("cannot_tell", "")
    command = "python -m audit report six two run_dir=comparison-of-claims"
    assert command in page
    monkeypatch.chdir(folder)
    without_figures(monkeypatch)
    from audit.cli.main import main

    assert main(command.split()[3:]) == 0
    [row], page = claims_of(folder, "size")
    assert (row["says"], row["comparison"]) == ("for", "comparison-of-claims")
    assert command not in page


def test_a_comparison_of_other_answers_than_are_there_now_is_not_used(kept, tmp_path):
    folder = lay(kept, tmp_path, "two", "six", two=LARGE, six=SMALL)
    beside(folder, "six", "two")
    shutil.rmtree(folder / "two")
    shutil.copytree(kept / "minus", folder / "two")
    changed(folder / "two", identity__name="two", **LARGE)  # the same run by name, with other answers
    [row], page = claims_of(folder, "size")
    assert (row["says"], row["comparison"]) == ("cannot_tell", "")
    assert "1 of its 2 runs are not in this folder as it compared them" in page


@pytest.mark.parametrize(
    "other",
    [
        {"stimuli__sha256": "9" * 64},
        {"identity__identities": "9" * 64},
        {"seed": 5},
        {"stimuli__sha256": ""},
        {"elicitation__method": "generate", "language__name": "German", "language__code": "de"},
    ],
)
def test_a_pair_that_differs_in_more_than_its_size_bears_on_nothing(kept, tmp_path, other):
    folder = lay(kept, tmp_path, "two", "six", two={**LARGE, **other}, six=SMALL)
    rows, page = claims_of(folder, "size")
    assert rows == []
    assert (
        "These runs cannot tell: no two runs are of models of known and different size that were asked alike." in page
    )


def test_models_of_unknown_size_bear_on_nothing(kept, tmp_path):
    rows, _ = claims_of(lay(kept, tmp_path, "two", "six", two=LARGE), "size")
    assert rows == []


def test_a_run_whose_page_gives_no_verdict_cannot_tell(tmp_path):
    """The committed example fails its manipulation check: its page gives no verdict, whatever δ is."""
    example = Path(__file__).parents[2] / "reports" / "example"
    for name, size in (("one", SMALL), ("other", LARGE)):
        shutil.copytree(example, tmp_path / name)
        changed(tmp_path / name, identity__name=name, **size)
    [row], _ = claims_of(tmp_path, "size")
    assert row["says"] == "cannot_tell"
    run, _, why = row["why"].partition(": ")
    assert run in {"one", "other"}
    assert why == "No verdict: the ratings do not match the story"


def asked(method="generate", **language):
    """A run of ours, of which the language is known."""
    return {"elicitation__method": method, **{f"language__{name}": value for name, value in language.items()}}


def test_a_prompt_in_another_language_is_no_persona_and_its_gap_stands_apart(kept, tmp_path):
    """Prompt and wording may differ in this claim, and the wording of a German prompt always does."""
    german = asked(name="German", code="de")
    folder = lay(kept, tmp_path, "six", "persona", six=asked(), persona=german)
    rows, _ = claims_of(folder, "persona")
    assert rows == []
    made = write_index(folder)
    assert made.rows["language"].tolist() == ["German", "English"] or made.rows["language"].tolist() == [
        "English",
        "German",
    ]
    assert len(made.groups) == 2
    page = made.page.read_text("utf-8")
    assert "(other language of the prompts)" in page
    assert "German" in page
    changed(folder / "persona", **asked(name="English", code="en"))
    assert [row["first"] for row in claims_of(folder, "persona")[0]] == ["persona"]


def test_a_few_more_parameters_make_no_larger_model(kept, tmp_path):
    """A vocabulary with some words more has a few parameters more."""
    folder = lay(kept, tmp_path, "two", "six", two={"model__parameters": 1_090_000}, six=SMALL)
    assert claims_of(folder, "size")[0] == []
    changed(folder / "two", model__parameters=1_100_001)
    assert [row["first"] for row in claims_of(folder, "size")[0]] == ["two"]


def shared(size, seed):
    """A gap that differs a lot between narratives, in the same way in every run."""
    made = planted_gap(size, seed=seed)
    ratings = made.ratings
    of = {name: 8 * value for name, value in zip(sorted(set(ratings["narrative_id"])), SPREAD, strict=True)}
    own = ratings["perceiver"] == ratings["experiencer"]
    moved = ratings["rating"] + ratings["narrative_id"].map(of).where(own, 0.0)
    return Planted(ratings.assign(rating=moved), made.groups)


SPREAD = [(-1) ** place * (1 + place % 3) / 3 for place in range(40)]
"""Their sum is near 0."""


def two_sizes(folder, low, high):
    """Publish a large model's run and a small one's, and compare them."""
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        published(folder / "low", low, identity__name="low", model__name="m", **LARGE)
        published(folder / "high", high, identity__name="high", model__name="m", **SMALL)
    beside(folder, "low", "high")


def test_a_sure_difference_of_gaps_whose_way_is_not_sure_does_not_say_which_is_the_smaller(tmp_path):
    """.5 and 1.5 with an error of 1 each: it could be −1.5 and −.5, of which the second is the smaller."""
    two_sizes(tmp_path, shared(0.5, 1), shared(1.5, 2))
    [row], _ = claims_of(tmp_path, "size")
    assert row["ci_low"] < row["ci_high"] < 0, "the paired difference is sure"
    assert row["delta_first"] > 0
    assert (row["says"], row["why"]) == (
        "cannot_tell",
        "which way the two gaps go is not certain enough to say which of them is the smaller",
    )


def of_six_groups(size, seed):
    """A gap that differs a lot between six groups, in the same way in every run."""
    groups = alone(6)
    of = dict(zip(groups.values(), (-9.0, 9.0, -6.0, 6.0, -3.0, 3.0), strict=True))
    return Planted(ratings_of(groups, n=40, gap=lambda emotion, group: size + of[group], seed=seed), grouped(groups))


def test_gaps_that_are_sure_over_narratives_alone_and_not_over_groups_do_not_say_which_is_the_smaller(tmp_path):
    """1 and 3, of groups that differ by 7 points: over such groups either gap could go the other way."""
    two_sizes(tmp_path, of_six_groups(1.0, 1), of_six_groups(3.0, 2))
    for name in ("low", "high"):
        narrow = pd.read_csv(tmp_path / name / "tables" / "gap.csv").query("headline and scope == 'narratives'").iloc[0]
        assert narrow["ci_low"] > 0, "over narratives alone it is sure"
    [row], page = claims_of(tmp_path, "size")
    assert row["ci_low"] < row["ci_high"] < 0
    assert (row["says"], row["why"]) == (
        "cannot_tell",
        "which way the two gaps go is not certain enough to say which of them is the smaller",
    )
    assert "The difference is the paired one of a comparison in this folder; with fewer than five groups" in page


def test_a_comparison_of_an_earlier_version_which_knew_no_groups_says_nothing():
    """The row would say that the first is the smaller, by an interval over narratives alone."""
    entry = SimpleNamespace(folder="run", length=100.0, rows={"d": {
        "verdict": "gap", "manipulation": "not made", "folder": "run", "delta": 3.0, "ci_low": 2.0, "ci_high": 4.0,
    }})  # fmt: skip
    numbers = {"delta_first": 1.0, "delta_second": 3.0, "ci_low": -2.5, "ci_high": -1.5}
    [claim] = [each for each in CLAIMS if each.name == "size"]
    pair = (entry, entry)
    of = {scope: _said(claim, numbers, {"unit": "points"} | scope_row, pair, "d") for scope, scope_row in (
        ("earlier", {}), ("missing", {"scope": math.nan}),
        ("groups", {"scope": "groups", "code": "lower"}), ("pairs", {"scope": "pairs", "code": "lower"}),
        ("unanswered", {"scope": "groups", "code": ""}),
    )}  # fmt: skip
    assert of["earlier"] == of["missing"] == of["unanswered"]
    assert of["earlier"][0] == "cannot_tell"
    assert of["groups"] == of["pairs"]
    assert of["groups"][0] in ("for", "against")


def test_a_gap_that_goes_the_other_way_beyond_invented_groups_is_held_against_nothing(tmp_path):
    """2 and 4 with 8 of invented groups: the verdicts rest on −6 and −4, of which the first is the larger."""
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        for name, gap, sd, size in (("low", 2.0, 1.0, LARGE), ("high", 4.0, 1.1, SMALL)):
            case = with_invented(gap, 8.0, sd=sd)
            run = published(tmp_path / name, case, placebo=["invented"], identity__name=name, model__name="m", **size)
            report_run(run)
            changed(run)
    beside(tmp_path, "low", "high")
    [row], _ = claims_of(tmp_path, "size")
    assert row["dimension"] == "real"
    assert row["delta_first"] == pytest.approx(2.0, abs=0.5)
    assert row["ci_high"] < 0, "the paired difference is sure"
    assert (row["says"], row["why"]) == (
        "cannot_tell",
        "low: the gap that its verdict rests on goes another way than the one compared",
    )


def test_a_copy_of_a_run_is_not_counted_again(kept, tmp_path):
    folder = lay(kept, tmp_path, "two", "six", two=LARGE, six=SMALL)
    beside(folder, "six", "two")
    shutil.copytree(folder / "six", folder / "backup")
    rows, page = claims_of(folder, "size")
    assert [(row["first"], row["says"]) for row in rows] == [("two", "for")]
    assert "1 pair of runs bears on it: 1 as claimed" in page
    assert "not in this folder as it compared them" not in page


def test_a_comparison_finds_the_answers_that_it_is_of_though_the_run_was_made_again(kept, tmp_path):
    """The same command gave other answers in the second folder, which comes later in the order."""
    folder = lay(kept, tmp_path, "two", "six", two=LARGE, six=SMALL)
    beside(folder, "six", "two")
    shutil.copytree(kept / "minus", folder / "z-again")
    changed(folder / "z-again", identity__name="six", **SMALL)
    rows, page = claims_of(folder, "size")
    assert {row["second"]: row["says"] for row in rows} == {"six": "for", "z-again": "cannot_tell"}
    assert "not in this folder as it compared them" not in page


def test_a_pair_of_two_dimensions_is_one_pair(kept, tmp_path):
    def twice(size, seed):
        made = planted_gap(size, seed=seed)
        both = [made.ratings.assign(dimension=name) for name in ("faith", "nation")]
        groups = [made.groups.assign(dimension=name) for name in ("faith", "nation")]
        return Planted(pd.concat(both), pd.concat(groups))

    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        published(tmp_path / "two", twice(2.0, 1), identity__name="two", model__name="m", **LARGE)
        published(tmp_path / "six", twice(6.0, 0), identity__name="six", model__name="m", **SMALL)
    beside(tmp_path, "two", "six")
    rows, page = claims_of(tmp_path, "size")
    assert len(rows) == 2
    assert "1 pair of runs bears on it, with 2 differences: 2 as claimed, 0 the other way, 0 cannot tell." in page
