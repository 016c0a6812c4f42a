"""Runs with a packaged dimension: situations that contradict a group are left out, counted, and missing nowhere."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256

import pytest
from runs import command_fixture
from test_comparison import table_of
from test_planted_strategy import Scripted

from audit.engines.base import Generated
from audit.people.lists import rating_lists
from audit.runs.differences import choices_of, differing_choices
from audit.runs.manifest import Manifest
from audit.runs.prompts import PromptsAsked
from audit.runs.store import RunFolder
from stimuli.fitting import contradictions
from stimuli.identities import load_dimensions
from stimuli.narratives import load_narratives

pytestmark = pytest.mark.long

GAPS = {"age": 9, "religion": 3}
PER_EMOTION = 8
DIMENSIONS = load_dimensions("six-groups", names=["religion", "age"], perceiver_terms=1, cues=["label"])
OF = {each.term.casefold(): (d.name, each.group) for d in DIMENSIONS for each in d.experiencers}
NARRATIVES = load_narratives("geneva", emotions=["sad", "worried"], situations_per_emotion=PER_EMOTION)
N = len(NARRATIVES.narratives)
FITS = [
    narrative.narrative_id
    for narrative, found in zip(NARRATIVES.by_emotion, contradictions(DIMENSIONS[1], NARRATIVES), strict=True)
    if not found
]
WORDS = ("dimensions=[religion,age]", "stimuli.emotions=[sad,worried]", f"stimuli.situations_per_emotion={PER_EMOTION}",
         "stimuli.placebo=1", "stimuli.unspecified=false", "elicitation=generate", "elicitation.prefill=",
         "elicitation.noise_sample=0", "elicitation.manipulation=0",
         "model.path=scripted", "statistics.n_permutations=100")  # fmt: skip


@dataclass
class Planted(Scripted):
    """It rates one's own group higher, in age by more than in religion."""

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated(self.rate(bytes(ids).decode()), 3, False) for ids in prompts]

    def rate(self, text):
        asked = OF.get(re.search(r"you are (an? .+?)\.", text)[1].casefold())
        told = OF.get(re.search(r"user: (.+?) tells of a situation", text)[1].casefold())
        draws = sha256(text.split("\n")[-2].encode()).digest()
        own = GAPS[asked[0]] + draws[1] % 3 - 1 if asked is not None and asked == told else 0
        return str(30 + draws[0] % 40 + own)


command = command_fixture("packs", Planted)


@pytest.fixture(scope="module")
def run(command):
    assert command("run", *WORDS, "run_dir=run") == 0
    return command.folder / "run"


def test_prompts_left_out_are_counted_and_told_in_the_plan_and_by_the_run(run, command, capsys):
    # of a narrative: 12 in-group pairs and 6 x 3 x 2 others; of four invented groups 4 and 4 x 2
    assert 0 < len(FITS) < N
    n_prompts = N * 48 + len(FITS) * 48 + N * 12
    assert json.loads((run / "manifest.json").read_text("utf-8"))["n_prompts"] == n_prompts
    told = (
        f"age: {N - len(FITS)} of {N} narratives ({(N - len(FITS)) * 48} prompts) are left out for all groups, because "
    )
    for words in (["prompts", *WORDS, "out=prompts.jsonl"], ["run", *WORDS, "run_dir=run"]):
        capsys.readouterr()
        assert command(*words) == 0
        [note] = [line for line in capsys.readouterr().err.splitlines() if "are left out" in line]
        assert told in note
        assert "a small child (" in note
    assert len((command.folder / "prompts.jsonl").read_text("utf-8").splitlines()) == n_prompts


def test_a_narrative_is_asked_of_all_groups_of_a_dimension_or_of_none(run):
    asked = PromptsAsked.read(run).grid
    assert sorted(asked.left_out) == ["age"]
    assert set(asked.left_out["age"]) | set(FITS) == {each.narrative_id for each in NARRATIVES.narratives}
    rows = RunFolder(run).read_ratings(n_prompts=len(asked))
    age = rows.loc[rows["dimension"] == "age"]
    assert set(age["narrative_id"]) == set(FITS)
    groups = age.groupby("narrative_id", observed=True)["experiencer_group"].nunique()
    assert groups.tolist() == [6] * len(FITS)
    assert rows.loc[rows["dimension"] == "religion", "narrative_id"].nunique() == N
    told = [(cell.perceiver.term, cell.experiencer.term, cell.narrative.narrative_id) for cell in asked]
    assert told == list(zip(rows["perceiver"], rows["experiencer"], rows["narrative_id"], strict=True))


def test_planted_gaps_come_out_of_the_narratives_that_were_asked_and_nothing_is_missing(run):
    gap = table_of(run, "gap")
    narrow = gap[gap["headline"] & (gap["scope"] == "narratives")].set_index("dimension")
    assert narrow.loc["age", "delta"] == pytest.approx(GAPS["age"], abs=1)
    assert narrow.loc["religion", "delta"] == pytest.approx(GAPS["religion"], abs=1)
    assert narrow.loc["age", ["n_narratives", "n_narratives_asked", "n_missing"]].tolist() == [len(FITS)] * 2 + [0]
    assert narrow.loc["religion", "n_narratives"] == N
    # the mean over dimensions, of narratives that both asked about; in a narrative age has 6 points more: 9 - 3
    assert narrow.loc["all", "delta"] == pytest.approx(narrow.loc["age", "delta"] - 3)
    assert narrow.loc["all", "n_narratives"] == len(FITS)
    missing = table_of(run, "missing")
    assert (missing["n_with_outcome"] == 0).all()
    limits = table_of(run, "verdicts").set_index("dimension")["limits"].fillna("").str.split("; ")
    for dimension in ("age", "religion"):
        assert not {"incomplete_narratives", "many_missing"} & {*limits[dimension]}
    # The mean is over the few narratives that both have, which need not be like the others of religion.
    assert "few_shared" in limits["all"]


def test_the_report_says_how_many_narratives_were_left_out_and_why(run):
    page = " ".join(re.sub(r"<[^>]+>", "", (run / "report.html").read_text("utf-8")).split())
    assert f"{N - len(FITS)} narratives of the run were left out for all groups, because they contradict one" in page
    assert json.loads((run / "manifest.json").read_text("utf-8"))["left_out"] == {"age": N - len(FITS)}


def test_the_paper_says_how_many_narratives_a_dimension_left_out(run, command):
    assert command("export", "run", "form=paper", "to=paper") == 0
    methods = " ".join((command.folder / "paper" / "methods.md").read_text("utf-8").split())
    assert f"In age, {N - len(FITS)} narratives were left out for all groups, because they contradict one" in methods


def test_a_plan_like_the_run_counts_the_narratives_of_each_dimension(run, command, monkeypatch):
    from audit.asking.plan import make_plan
    from audit.configuration.schema import load_config
    from audit.extras.planning.forecast import detectable

    config = load_config(json.loads((run / "manifest.json").read_text("utf-8"))["config"])
    power = table_of(run, "power").set_index("dimension")
    found = {gap.dimension: gap for gap in detectable(run, make_plan(config)) if gap.scope == "narratives"}
    assert {name: gap.n_narratives for name, gap in found.items()} == {
        "religion": N,
        "age": len(FITS),
        "all": len(FITS),
    }
    for name in ("religion", "age"):
        assert found[name].points == pytest.approx(power.loc[name, "detectable_points"])


def test_people_are_given_no_narrative_that_contradicts_a_group(run):
    lists = rating_lists(PromptsAsked.read(run).grid, n=100, n_lists=None, seed=0, salt="s")
    assert set(lists.key["narrative_id"]) <= set(FITS)
    assert set(lists.key["experiencer_group"]) >= {"Seventies", "Muslim"}


def test_other_facts_of_situations_make_another_run(run, command, capsys, monkeypatch):
    monkeypatch.setattr("stimuli.fitting.supposed", lambda source: {FITS[0]: frozenset({"a small child"})})
    assert command("run", *WORDS, "run_dir=run") == 2
    assert "left_out is" in capsys.readouterr().err


def test_a_run_that_left_out_other_situations_is_told_from_this_one(run):
    recorded = json.loads((run / "manifest.json").read_text("utf-8"))
    others = recorded | {"identity": recorded["identity"] | {"left_out": "0" * 64}}
    compared = [choices_of(Manifest.of(each), variant="origin") for each in (recorded, others)]
    assert differing_choices(compared) == ["identities"]


def test_a_dimension_that_leaves_nothing_out_is_the_run_that_it_was(command):
    words = [word for word in WORDS if not word.startswith("dimensions")]
    assert command("run", *words, "dimensions=[religion]", "run_dir=religion") == 0
    manifest = json.loads((command.folder / "religion" / "manifest.json").read_text("utf-8"))
    assert "left_out" not in manifest
    assert "left_out" not in manifest["identity"]


def test_all_pairs_of_a_pack_are_complete_narratives(command):
    words = [word for word in WORDS if not word.startswith("dimensions")]
    assert command("run", *words, "dimensions=[age]", "stimuli.pairs=all", "run_dir=all") == 0
    manifest = json.loads((command.folder / "all" / "manifest.json").read_text("utf-8"))
    assert "pairs_drawn" not in manifest
    assert "pairs" not in manifest["identity"]
    gap = table_of(command.folder / "all", "gap").query("dimension == 'age'")
    assert gap.loc[gap["estimator"] == "published", "delta_z"].notna().all()
    assert command("report", "run", "all", "run_dir=both") == 0
