"""Narratives that are each the story of one experiencer: what is asked, and what δ and D are of them.

The oracle of δ is planted: every story has its own level, every perceiver rates everybody higher or lower, and only the
in-group bonus is δ. Stories of one group are rated 20 points higher by everybody, which is the story's doing.
"""

import csv

import numpy as np
import pandas as pd
import pytest
from planted import decided
from runs import FOUR_RELIGIONS

from audit.asking.plan import make_plan
from audit.configuration.composition import compose
from audit.errors import ConfigError
from audit.statistics.analysis import analyse
from audit.statistics.controls import Repetition
from stimuli.errors import StimulusError

GROUPS = ("Buddhist", "Christian", "Hindu", "Muslim")


def stories(path, *, n=3, more=(), emotions=("joy", "anger"), groups=GROUPS):
    """Write n stories of each group and emotion, and more (emotion, whose)."""
    rows = [(emotion, whose) for emotion in emotions for whose in groups for _ in range(n)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["narrative_id", "emotion", "text", "who"])
        for k, (emotion, whose) in enumerate([*rows, *more]):
            writer.writerow([f"s{k}", emotion, f"I opened letter {k}.", whose])
    return path


def overrides(path, *more):
    return [
        "model=planted",
        "stimuli.situations_per_emotion=all",
        "stimuli=csv",
        f"stimuli.path={path}",
        "stimuli.columns.identity=who",
        *FOUR_RELIGIONS,
        *more,
    ]


def plan_of(path, *more):
    found = []
    compose(overrides(path, *more), lambda composed: found.append(make_plan(composed.validated())))
    return found[0]


def test_a_story_is_asked_of_every_perceiver_with_its_own_experiencer_alone(tmp_path):
    grid = plan_of(stories(tmp_path / "s.csv", more=[("joy", "Hindu")])).grid
    asked = pd.DataFrame(
        [(c.narrative.narrative_id, c.narrative.identity, c.perceiver.term, c.experiencer.group) for c in grid],
        columns=["narrative", "whose", "perceiver", "experiencer"],
    )
    assert (asked["whose"] == asked["experiencer"]).all()
    n_perceivers = len(grid.dimensions[0].perceivers)
    assert set(asked.groupby("narrative")["perceiver"].nunique()) == {n_perceivers}
    assert len(grid) == 2 * 4 * 3 * n_perceivers
    assert grid.left_out == {"faith": ("s24",)}  # the Hindu's fourth: no other group has one
    assert grid.n_sets("faith") == 2 * 3
    assert "each asked about" in plan_of(tmp_path / "s.csv").announced


def test_situations_per_emotion_are_of_each_group(tmp_path):
    grid = plan_of(stories(tmp_path / "s.csv"), "stimuli.situations_per_emotion=2").grid
    assert grid.n_sets("faith") == 2 * 2
    assert len(grid.narratives.narratives) == 2 * 4 * 2


def test_a_story_of_a_term_is_asked_with_this_term(tmp_path):
    grid = plan_of(stories(tmp_path / "s.csv", groups=("a Buddhist", *GROUPS[1:]))).grid
    assert {c.experiencer.term for c in grid if c.experiencer.group == "Buddhist"} == {"a Buddhist"}


def test_whose_story_it_is_makes_another_run(tmp_path):
    first = plan_of(stories(tmp_path / "a.csv")).identity()
    other = plan_of(stories(tmp_path / "b.csv", groups=GROUPS[::-1])).identity()
    assert first["narratives"] != other["narratives"]


@pytest.mark.parametrize(
    ("made", "more", "said"),
    [
        ({"groups": GROUPS[:3]}, [], "no narrative is a story of 'Muslim' (faith); add some, or leave"),
        ({}, ["stimuli.placebo=1"], "set stimuli.placebo=0"),
        ({}, ["stimuli.perceiver=none"], "stimuli.columns.identity and stimuli.perceiver=none cannot go together"),
        ({}, ["stimuli.situations_per_emotion=enough"], "enough cannot go together: give a number"),
        ({}, ["wordings=8"], "wordings=8 cannot go together"),
    ],
)
def test_what_stories_of_one_group_each_can_not_do_is_said(tmp_path, made, more, said):
    with pytest.raises((ConfigError, StimulusError)) as fault:
        plan_of(stories(tmp_path / "s.csv", **made), *more)
    assert said in str(fault.value)


def rated(*, gap, level, n_sets=12, seed=0):
    """Return ratings of own stories: perceivers' levels of up to 30 points, stories' of 10 (SD), and a planted gap."""
    rng = np.random.default_rng(seed)
    own = dict(zip(GROUPS, rng.uniform(-15, 15, 4), strict=True))
    rows = []
    for emotion in ("joy", "anger"):
        for group in GROUPS:
            for k in range(n_sets):
                story = 50 + rng.normal(0, 10) + level.get(group, 0)
                for perceiver in GROUPS:
                    y = story + own[perceiver] + gap * (perceiver == group) + rng.normal(0, 1)
                    rows.append((f"{emotion}-{group}-{k}", emotion, perceiver, group, perceiver == group, y))
    table = pd.DataFrame(rows, columns=["narrative_id", "emotion", "perceiver", "experiencer", "in_group", "intensity"])
    return table.assign(
        dimension="faith", variant="v", wording=0, number_mass=1.0, mode=table["intensity"],
        perceiver_group=table["perceiver"], status="rated",
        experiencer_group=table["experiencer"], n_shared=table["in_group"].astype(int),
    )  # fmt: skip


ALONE = Repetition(drawn=("faith",))


def test_a_narrative_of_the_cube_is_a_set_of_one_story_of_each_group():
    cube = ALONE.cube_of(rated(gap=0, level={}), dimension="faith", variant="v")
    assert cube.own_stories
    assert cube.y.shape == (24, 4, 4)
    assert not np.isnan(cube.y).any()
    assert cube.narrative_ids[:2] == ("joy 1", "joy 2")
    assert cube.emotions == ("joy",) * 12 + ("anger",) * 12


def test_ratings_of_several_groups_in_a_narrative_are_no_own_stories():
    table = rated(gap=0, level={})
    several = table.assign(narrative_id=table["narrative_id"].str.replace("Hindu", "Muslim"))
    cube = ALONE.cube_of(several, dimension="faith", variant="v")
    assert not cube.own_stories
    assert len(cube.narrative_ids) == 72


@pytest.mark.parametrize("gap", [0.0, 5.0])
def test_delta_is_free_of_stories_and_d_has_no_verdict_on_them(gap):
    table = rated(gap=gap, level={"Hindu": 20.0})
    analysis = decided(analyse(table, scales={"v": (0, 100)}, seed=1, repetition=ALONE), margin=2)
    row = analysis.tables["gap"].query("headline and scope == 'narratives'").iloc[0]
    # by hand: in each set the own-group mean minus the others', perceivers' and columns' means taken off first
    y = ALONE.cube_of(table, dimension="faith", variant="v").y
    free = y - y.mean(axis=1, keepdims=True) - y.mean(axis=2, keepdims=True) + y.mean(axis=(1, 2), keepdims=True)
    own = np.eye(4, dtype=bool)
    by_set = free[:, own].mean(axis=1) - free[:, ~own].mean(axis=1)
    assert row["delta"] == pytest.approx(by_set.mean())
    assert row["se"] == pytest.approx(by_set.std(ddof=1) / 24**0.5)
    assert row["n_narratives"] == 24
    assert row["delta"] == pytest.approx(gap, abs=0.5)
    disparity = analysis.tables["disparity"].query("code != ''").set_index("group")
    # what everybody rates higher is the Hindus' stories: it is found as a number, and there is no verdict on it
    assert disparity.loc["Hindu", "disparity"] == pytest.approx(20, abs=8)
    assert set(disparity["code"]) == {"undecided"}
    assert all("own_stories" in limits.split("; ") for limits in disparity["limits"])
    assert "own_stories" in {remark.code for remark in analysis.remarks}


def test_a_model_with_a_gap_is_found_from_end_to_end(audit, tmp_path):
    path = stories(tmp_path / "s.csv", n=15, more=[("joy", "Muslim")])
    assert audit("run", *overrides(path, "model.planted.gap=5", "run_dir=run", "statistics.margin=2")) == 0
    gap = pd.read_csv(tmp_path / "run" / "tables" / "gap.csv").query("headline and scope == 'narratives'").iloc[0]
    assert gap["delta"] == pytest.approx(5, abs=1)
    assert gap["n_narratives"] == 30
    disparity = pd.read_csv(tmp_path / "run" / "tables" / "disparity.csv").query(
        "outcome == 'intensity' and code.notna()"
    )
    assert set(disparity["group"]) == {*GROUPS}
    assert set(disparity["code"]) == {"undecided"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Each narrative is the story of one group" in page
    assert audit("verify", "run") == 0


@pytest.mark.model
def test_replies_have_the_same_sets_and_the_same_reserve(audit, tmp_path):
    path = stories(tmp_path / "s.csv", n=2)
    more = ("task=reply", "stimuli.columns.first_person=text", "run_dir=run")
    assert audit("run", *overrides(path, *more)) == 0
    tables = {name: pd.read_csv(tmp_path / "run" / "tables" / f"{name}.csv") for name in ("gap", "disparity")}
    assert set(tables["gap"].query("outcome == 'n_words' and scope == 'narratives'")["n_narratives"]) == {4}
    decided_on = tables["disparity"].query("outcome == 'n_words' and code.notna()")
    assert set(decided_on["code"]) == {"undecided"}
    assert decided_on["limits"].str.contains("own_stories").all()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Each narrative is the story of one group" in page
    assert "from only 4 story sets" in page
