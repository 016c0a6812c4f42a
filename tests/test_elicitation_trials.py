"""Where neither command nor card says how ratings are elicited, trials choose: by the response to the story alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from runs import FOUR_RELIGIONS, scripted_models
from test_planted_strategy import Scripted, uniform

from audit.asking.plan import make_plan
from audit.asking.run_identity import default_run_dir
from audit.cli.main import main
from audit.engines.base import Generated, TopTokens
from audit.errors import ModelError
from audit.statistics.manipulation import best_way
from audit.tasks.intensity.trials import prompts_of, trial_prompts, ways
from stimuli.manipulation import LEAST, manipulated
from stimuli.narratives import emotion_valence, geneva20_versions, load_narratives

pytestmark = pytest.mark.long

SMALL = (
    "model.path=scripted", *FOUR_RELIGIONS, "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=3",
    "stimuli.unspecified=false", "elicitation.noise_sample=0", "elicitation.check_sample=0",
    "elicitation.manipulation=6", "statistics.n_permutations=100",
)  # fmt: skip
PLAIN, BEGUN = ("generate", ""), ("expected", "Number: ")
TRIED = "leave open how ratings are obtained"  # on the page


class Follows:
    """Rates own emotions high in the ways that it is told, 50 in all others; may lack probabilities or beginnings."""

    facts = Scripted.facts
    max_model_len = 100_000

    def __init__(self, *ways, by=40.0, goes_on=True, reads=True):
        self.ways, self.by, self.goes_on, self.reads = set(ways), by, goes_on, reads
        self.asked = []
        self.down = False
        told = [*load_narratives("geneva").narratives, *geneva20_versions()]
        self.own = {each.neutral: each.words.noun for each in told}

    def forget(self):
        pass

    close = forget

    def fits(self, prompts, *, room):
        return [True] * len(prompts)

    def rate(self, prompt, method):
        if self.down:
            raise ModelError("no answer")
        if prompt.begun and not self.goes_on:
            raise ModelError("this server does not continue an answer; leave elicitation.prefill empty")
        self.asked.append((method, prompt.begun, prompt.user))
        narrative = re.search(r'^"(.+)"$', prompt.user, re.MULTILINE)[1]
        feels = f"how much {self.own[narrative]} did" in prompt.user
        by = self.by if (method, prompt.begun) in self.ways else 0.0
        return str(round(50 + by * (feels - 0.5) + 8 * uniform(prompt.user, method, prompt.begun) * bool(by)))

    def write(self, prompts, *, max_tokens, done, **_):
        done(len(prompts))
        return [Generated(self.rate(each, "generate"), 2, False, 100) for each in prompts]

    def top(self, prompts, *, n_tokens, done):
        if not self.reads:
            raise ModelError("returns no logprobs; use elicitation=generate")
        done(len(prompts))
        written = [self.rate(each, "expected") for each in prompts]
        return [TopTokens((number,), ({number: 1.0},), 100) for number in written]


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the command on a scripted model, and returns the folder, or the exit code."""
    with scripted_models(tmp_path) as load:

        def run_on(engine, *words, code=0):
            load(engine)
            assert main(["run", *SMALL, "run_dir=run", *words]) == code
            return tmp_path / "run"

        yield run_on


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def page_of(folder):
    return (folder / "report.html").read_text()


def asked_outside_the_run(engine, *, run_of="geneva"):
    """Return how often the engine was asked about another source's narratives, by method and beginning."""
    own = {each.neutral for each in load_narratives(run_of).narratives}
    outside = [way[:2] for way in engine.asked if re.search(r'^"(.+)"$', way[2], re.MULTILINE)[1] not in own]
    return {way: outside.count(way) for way in outside}


ALL = {(method, begun): 24 for begun in ("", "Number: ") for method in ("generate", "expected")}


def test_the_way_that_follows_the_story_is_chosen_kept_and_shown_and_a_resumed_run_takes_it_unasked(run, capsys):
    engine = Follows(BEGUN)
    folder = run(engine)
    assert asked_outside_the_run(engine) == ALL
    manifest = manifest_of(folder)
    assert (manifest["elicitation"]["method"], manifest["elicitation"]["prefill"]) == BEGUN
    assert manifest["identity"]["elicitation"]["prefill"] == manifest["example_prompt"]["begun"] == "Number: "
    trials = manifest["elicitation"]["trials"]
    assert trials["source"] == "geneva20"
    assert {(each["method"], each["begun"]): each["chosen"] for each in trials["tried"]} == {
        way: way == BEGUN for way in ALL
    }
    answers = pd.read_parquet(folder / "trial_answers.parquet")
    wide = answers.pivot(index=["method", "begun", "narrative_id"], columns="kind", values="intensity")
    differences = (wide["own"] - wide["wrong"]).groupby(["method", "begun"]).mean()
    table = pd.read_csv(folder / "tables" / "trials.csv", keep_default_na=False)
    assert table["n_pairs"].tolist() == [12] * 4
    for row, kept in zip(table.to_dict("records"), trials["tried"], strict=True):
        assert float(row["difference"]) == pytest.approx(differences[row["method"], row["begun"]])
        assert float(row["difference"]) == kept["difference"]
    assert table["chosen"].astype(str).tolist() == ["False", "False", "False", "True"]
    said = capsys.readouterr().err
    assert "trying 4 ways" in said
    assert 'expected, answers begun with "Number: " (chosen)' in said
    page = page_of(folder)
    assert TRIED in page
    assert "trials: tried" not in page  # the manifest's part of the page leaves them to the table
    dictionary = pd.read_csv(folder / "tables" / "dictionary.csv")
    assert {"trials", "trial_answers"} <= set(dictionary["table"])

    again = Follows(PLAIN)  # would choose another way
    (folder / "ratings.parquet").unlink()
    assert run(again) == folder
    assert {way[:2] for way in again.asked} == {BEGUN}
    assert manifest_of(folder)["elicitation"]["trials"] == trials


def test_what_the_command_states_is_obeyed_and_only_the_rest_is_tried(run, tmp_path):
    stated = Follows(BEGUN)
    folder = run(stated, "elicitation=generate", "run_dir=a")
    folder = tmp_path / "a"
    assert {way[:2] for way in stated.asked} == {PLAIN}
    assert "trials" not in manifest_of(folder)["elicitation"]
    assert TRIED not in page_of(folder)
    assert not (folder / "trial_answers.parquet").exists()
    assert "trials" not in set(pd.read_csv(folder / "tables" / "dictionary.csv")["table"])

    half = Follows(BEGUN, ("expected", "I say "))
    run(half, "elicitation.prefill='I say '", "run_dir=b")
    assert asked_outside_the_run(half) == {("generate", "I say "): 24, ("expected", "I say "): 24}
    found = manifest_of(tmp_path / "b")["elicitation"]
    assert (found["method"], found["prefill"]) == ("expected", "I say ")

    other = Follows(PLAIN, BEGUN)
    run(other, "elicitation=expected", "elicitation.prefill=auto", "run_dir=c")
    assert asked_outside_the_run(other) == {("expected", ""): 24, ("expected", "Number: "): 24}
    found = manifest_of(tmp_path / "c")["elicitation"]
    assert (found["method"], found["prefill"]) == BEGUN


def test_ways_that_the_engine_cannot_do_are_named_and_the_others_chosen_from(run, tmp_path):
    engine = Follows(BEGUN, PLAIN, goes_on=False, reads=False)
    tried = manifest_of(run(engine))["elicitation"]["trials"]["tried"]
    assert [each["chosen"] for each in tried] == [True, False, False, False]
    assert [bool(each["note"]) for each in tried] == [False, True, True, True]
    assert "returns no logprobs" in tried[1]["note"]
    assert "does not continue" in tried[2]["note"]
    assert "does not continue" in page_of(tmp_path / "run")


def test_a_model_that_stops_answering_ends_the_command_and_is_no_way_that_failed(run, tmp_path):
    class Breaks(Follows):
        def top(self, prompts, **how):
            self.down = True
            return super().top(prompts, **how)

    run(Breaks(PLAIN), code=2)
    assert not (tmp_path / "run" / "manifest.json").exists()
    folder = run(Follows(PLAIN))  # the same command
    assert manifest_of(folder)["elicitation"]["method"] == "generate"


def test_a_model_that_follows_in_every_way_is_asked_in_the_simplest(run):
    found = manifest_of(run(Follows(*ALL)))["elicitation"]
    assert (found["method"], found["prefill"]) == PLAIN


def test_a_model_that_follows_in_no_way_is_asked_in_the_simplest_and_it_is_said(run, capsys, tmp_path):
    folder = run(Follows())
    assert "no way of asking is shown to follow the story" in capsys.readouterr().err
    assert "No way was shown to follow the story" in page_of(folder)
    run(Follows(BEGUN), "run_dir=other")
    assert "no way of asking is shown to follow the story" not in capsys.readouterr().err
    assert "No way was shown to follow the story" not in page_of(tmp_path / "other")
    found = manifest_of(folder)["elicitation"]
    assert (found["method"], found["prefill"]) == PLAIN
    assert {each["difference"] for each in found["trials"]["tried"]} == {0.0}
    [check] = pd.read_csv(folder / "tables" / "manipulation.csv").to_dict("records")
    assert check["answer"] == "does_not_follow"


# --- What is asked --------------------------------------------------------------------------------------------------


def planned(*words):
    from audit.configuration.composition import compose

    found = []
    compose(["model.path=x", *words], lambda each: found.append(each.validated()))
    return make_plan(found[0])


@pytest.mark.parametrize("source", ["geneva", "geneva20"])
def test_narratives_of_trials_are_neither_the_runs_nor_its_checks_and_name_no_identity(source):
    plan = planned(f"stimuli={source}")
    asked = trial_prompts(plan)
    assert len(asked) == 24
    assert len({each.narrative_id for each in asked}) == 12
    assert {each.kind for each in asked} == {"own", "wrong"}
    pleasant = [emotion_valence()[each.cell.narrative.emotion] == "positive" for each in asked]
    of_kind = {
        kind: [p for p, each in zip(pleasant, asked, strict=True) if each.kind == kind] for kind in ("own", "wrong")
    }
    assert {kind: sum(those) for kind, those in of_kind.items()} == {"own": 6, "wrong": 6}
    told = {each.neutral for each in (*plan.grid.narratives.narratives, *plan.grid.narratives.others)}
    checked = {each.cell.narrative.neutral for each in manipulated(plan.grid, size=10 * LEAST, seed=0)}
    assert not {each.cell.narrative.neutral for each in asked} & (told | checked)
    terms = {
        each.term for dimension in plan.grid.dimensions for each in (*dimension.perceivers, *dimension.experiencers)
    }
    terms -= {"a person"}
    shown = [f"{each.system} {each.user}" for each in prompts_of(plan)]
    assert len(shown) == 96
    assert not [term for term in terms if any(term in text for text in shown)]
    smaller = planned(f"stimuli={source}", "stimuli.situations_per_emotion=1", "seed=3", "dimensions=[religion]")
    assert [each.user for each in prompts_of(smaller)] == [each.user for each in prompts_of(plan)]


def test_cards_that_state_an_elicitation_and_other_tasks_try_nothing():
    from audit.configuration.composition import compose

    for words in (
        ["model=smollm2"], ["model=openai", "model.path=x"], ["model=ollama", "model.path=x"], ["task=reply"],
        ["model=llama-cpp", "model.path=x"], ["model=vllm-serve", "model.path=x"], ["model=gemma3-270m"],
        ["model.path=x", "task=reply"], ["model.path=x", "elicitation=expected"], ["model.path=x", "task=emotion"],
    ):  # fmt: skip
        found = []
        compose(words, lambda each, found=found: found.append(each.validated()))
        assert not found[0].needs_trials, words
        assert found[0].elicitation.prefill != "auto", words
    assert planned().config.needs_trials
    assert len(ways(planned().config)) == 4


def test_a_language_pack_has_no_narratives_but_the_runs_so_nothing_is_tried(run, tmp_path):
    engine = Follows(BEGUN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Follows, "rate", lambda self, prompt, method: self.asked.append((method, prompt.begun)) or "50")
        run(engine, "language=de", "dimensions=[religion]", "stimuli.own_identities=null", "run_dir=de")
    assert set(engine.asked) == {PLAIN}
    manifest = manifest_of(tmp_path / "de")
    assert "language=de" in manifest["elicitation"]["trials"]["left_out"]
    assert "No ways were tried" in page_of(tmp_path / "de")


# --- Folders and plans ----------------------------------------------------------------------------------------------


def test_an_open_choice_has_a_folder_of_its_own_and_a_run_of_earlier_versions_goes_on_as_it_was(tmp_path):
    place = f"reports_dir={tmp_path}"
    plain, open_ = planned("elicitation=generate", place), planned(place)
    assert plain.identity()["model"]["elicitation"] == "generate"  # as it has always been
    assert default_run_dir(plain) != default_run_dir(open_)
    folder = tmp_path / f"x-geneva-origin-{default_run_dir(plain).name[-8:]}"  # as earlier versions named it
    folder.mkdir()
    for method, continues in (("generate", False), ("auto", True)):
        (folder / "manifest.json").write_text(json.dumps({"config": {"elicitation": {"method": method}}}))
        assert (default_run_dir(open_) == folder) == continues


def test_plan_counts_the_prompts_of_trials_until_the_run_has_chosen(run, capsys):
    counted = ("tokens=0", "probe=0", "run_dir=run", *SMALL)
    assert main(["plan", *counted]) == 0
    assert re.search(r"to choose the elicitation\D+96", capsys.readouterr().out)
    run(Follows(BEGUN), "stimuli.emotions=[sad,happy]")
    (Path("run") / "ratings.parquet").unlink()  # so that something is left to ask
    assert main(["plan", *counted]) == 0
    assert "to choose" not in capsys.readouterr().out


# --- Tiny models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", ["engine.replicas=1", pytest.param("engine.replicas=2", marks=[pytest.mark.process, pytest.mark.long])]
)
def test_a_model_without_a_card_is_tried_in_four_ways_and_asked_in_the_chosen_one(how, number_model, audit, tmp_path):
    words = [each for each in SMALL if each != "model.path=scripted"]
    words = [f"model.path={number_model}", *words, "elicitation.max_tokens=6", "engine=transformers"]
    assert audit("run", *words, "engine.device=cpu", "run_dir=run", how) == 0
    folder = tmp_path / "run"
    found = manifest_of(folder)["elicitation"]
    tried = found["trials"]["tried"]
    [chosen] = [each for each in tried if each["chosen"]]
    assert (found["method"], found["prefill"]) == (chosen["method"], chosen["begun"])
    assert best_way(tried) == tried.index(chosen)
    answers = pd.read_parquet(folder / "trial_answers.parquet")
    assert answers.groupby(["method", "begun"], observed=True).size().tolist() == [24] * 4
    read = answers.loc[answers["method"] == "expected"]
    assert read["number_mass"].notna().all()
    assert TRIED in page_of(folder)


def test_a_model_that_rates_pleasant_emotions_higher_whatever_is_told_does_not_follow(run):
    class Likes(Follows):
        def rate(self, prompt, method):
            super().rate(prompt, method)
            words = {each.words.noun: each.emotion for each in load_narratives("geneva20").narratives}
            noun = re.search(r"how much (.+) did", prompt.user)[1]
            likes = (method, prompt.begun) in self.ways
            return "80" if likes and emotion_valence().get(words.get(noun, "")) == "positive" else "20"

    tried = manifest_of(run(Likes(BEGUN)))["elicitation"]["trials"]["tried"]
    assert [each["difference"] for each in tried] == pytest.approx([0.0] * 4)
