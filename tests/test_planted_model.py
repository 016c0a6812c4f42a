"""``model=planted`` gives what is planted, says on every surface what it is, and is what ``selftest`` checks."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import leave_out_figures

from audit.asking.plan import make_plan
from audit.cli import selftest
from audit.configuration.composition import compose
from audit.configuration.planted import MARK, PlantedConfig
from audit.engines.open import open_model
from audit.engines.planted import PlantedEngine
from audit.errors import ConfigError, ModelError
from audit.runs.manifest import Manifest
from stimuli.manipulation import leaning, manipulated
from stimuli.prompts import Question

ROOT = Path(__file__).resolve().parents[1]
QUIET = {"noise": 0}


def config_of(*overrides):
    """Return the validated configuration of a planted model."""
    found = []
    compose(["model=planted", "stimuli.pairs=all", *overrides], lambda composed: found.append(composed.validated()))
    return found[0]


@pytest.fixture(scope="module")
def grid():
    """All pairs of six religions in two terms each, and of invented groups, in eight narratives."""
    config = config_of("stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=4", "stimuli.perceiver_terms=2")
    return make_plan(config).grid


def prompts_of(grid, cells, *, rated=True):
    """Return the prompts of cells as the pipeline asks them."""
    for cell in cells:
        variant = grid.wordings[cell.wording]
        values = variant.values(cell.perceiver, cell.experiencer, cell.narrative)
        prompt = variant.filled(values)
        yield prompt.__class__(prompt.system, prompt.user, question=Question.of(values) if rated else None, cell=cell)


def answers(grid, *, rated=True, **planted):
    """Return what a planted model writes to each prompt of the grid, beside whom it was asked about."""
    cells = list(grid)
    engine = PlantedEngine(PlantedConfig(**planted))
    written = engine.write(list(prompts_of(grid, cells, rated=rated)), max_tokens=200)
    return pd.DataFrame([
        {
            "invented": cell.dimension.placebo, "narrative": cell.narrative.narrative_id,
            "own": cell.dimension.in_group(cell.perceiver, cell.experiencer), "perceiver": cell.perceiver.term,
            "experiencer": cell.experiencer.term, "group": cell.experiencer.group, "text": each.text,
        }
        for cell, each in zip(cells, written, strict=True)
    ])  # fmt: skip


def ratings(grid, **planted):
    table = answers(grid, **planted)
    return table.assign(rating=table["text"].where(table["text"].str.fullmatch(r"\d+")).astype(float))


def higher(table, where, value="rating"):
    """Return by how much the rows at ``where`` are higher than the others, and the standard error."""
    here, there = table.loc[where, value].dropna(), table.loc[~where, value].dropna()
    return here.mean() - there.mean(), np.hypot(here.std() / len(here) ** 0.5, there.std() / len(there) ** 0.5)


# --- What is planted is in the answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [5, -3, 0])
def test_the_gap_is_of_the_own_group_and_not_of_invented_groups(grid, gap):
    # Without noise, ratings of a narrative take two values, whose difference is the gap: a whole number, so rounding
    # adds nothing.
    table = ratings(grid, gap=gap, **QUIET)
    real = table[~table["invented"]]
    per_pair = real.groupby(["narrative", "own"])["rating"].agg(["min", "max"])
    assert (per_pair["min"] == per_pair["max"]).all()
    assert higher(real, real["own"])[0] == pytest.approx(gap)
    assert (table[table["invented"]].groupby("narrative")["rating"].nunique() == 1).all()


def test_noise_has_the_standard_deviation_that_is_stated_and_moves_no_mean(grid):
    # The SD of the noise of 1,152 ratings has a standard error of 4 / sqrt(2 * 1152) = 0.08. Rounding adds a variance
    # of 1/12: sqrt(16 + 1/12) = 4.01.
    with_noise, without = (ratings(grid, gap=5, noise=noise) for noise in (4, 0))
    real = ~with_noise["invented"]
    assert (with_noise["rating"] - without["rating"])[real].std() == pytest.approx(4.01, abs=0.35)
    found, se = higher(with_noise[real], with_noise["own"][real])
    assert abs(found - 5) < 4 * se < 2


def test_a_disparity_is_of_the_group_whoever_perceives(grid):
    table = ratings(grid, disparity={"Muslim": -20, "Sikh": 7}, **QUIET)
    real = table[~table["invented"]]
    means = real.groupby(["perceiver", "group"])["rating"].mean().unstack()
    rest = means.drop(columns=["Muslim", "Sikh"])
    assert (rest.nunique(axis=1) == 1).all()
    assert (means["Muslim"] - rest.iloc[:, 0]).tolist() == pytest.approx([-20] * len(means))
    assert (means["Sikh"] - rest.iloc[:, 0]).tolist() == pytest.approx([7] * len(means))


def test_the_echo_is_of_words_alone_and_of_invented_groups_too(grid):
    table = ratings(grid, echo=10, **QUIET)
    level = table.groupby("narrative")["rating"].transform("min")
    more = table["rating"] - level
    assert set(more[table["perceiver"] == table["experiencer"]]) == {10}
    other_words = table["own"] & (table["perceiver"] != table["experiencer"])
    assert set(more[other_words & ~table["invented"]]) == {0}  # the two terms of a religion share no word
    assert table[table["invented"] & (table["perceiver"] == table["experiencer"])].shape[0] > 0


def test_pleasant_emotions_are_rated_higher_whatever_happened(grid):
    asked = list(manipulated(grid, size=20, seed=0))
    engine = PlantedEngine(PlantedConfig(response=0, pleasant=20, **QUIET))
    prompts = list(prompts_of(grid, [each.cell for each in asked]))
    ratings = [int(written.text) for written in engine.write(prompts, max_tokens=9)]
    of_kind = {kind: [] for kind in (1, 0, -1)}
    for each, rating in zip(asked, ratings, strict=True):
        of_kind[leaning(each.cell.narrative.emotion, {})].append(rating)
    assert np.mean(of_kind[1]) - np.mean(of_kind[-1]) == pytest.approx(20, abs=1)


def test_the_response_tells_a_wrong_emotion_from_the_own_and_strong_from_mild(grid):
    for source, kinds in (("geneva", {"wrong": -30}), ("geneva20", {"mild": -15, "strong": 15})):
        config = config_of(f"stimuli={source}", "stimuli.situations_per_emotion=1")
        asked = list(manipulated(make_plan(config).grid, size=20, seed=0))
        engine = PlantedEngine(PlantedConfig(response=30, **QUIET))
        prompts = list(prompts_of(make_plan(config).grid, [each.cell for each in asked]))
        found = pd.DataFrame([
            {"narrative": each.narrative_id, "kind": each.kind, "intensity": each.cell.narrative.intensity,
             "rating": int(written.text)}
            for each, written in zip(asked, engine.write(prompts, max_tokens=9), strict=True)
        ])  # fmt: skip
        if source == "geneva":
            both = found.pivot(index="narrative", columns="kind", values="rating")
            assert (both["wrong"] - both["own"]).tolist() == pytest.approx([-30] * len(both), abs=1)
        else:
            means = found[found["kind"] != "wrong"].groupby("intensity")["rating"].mean()
            assert means["strong"] - means["mild"] == pytest.approx(kinds["strong"] - kinds["mild"], abs=8)


@pytest.mark.parametrize(("refusals", "rate"), [
    (0.2, lambda table: {"all": 0.2}),
    ({"Muslim": 0.3}, lambda table: {"Muslim": 0.3}),
    ({"out_group": 0.25, "in_group": 0.05}, lambda table: {False: 0.25, True: 0.05}),
])  # fmt: skip
def test_refusals_have_the_share_that_is_stated(grid, refusals, rate):
    table = ratings(grid, refusals=refusals)
    refused = table["rating"].isna()
    expected = rate(table)
    keys = {"all": slice(None)} | {name: table["group"] == name for name in set(table["group"])}
    keys |= {own: (table["own"] == own) & ~table["invented"] for own in (True, False)}
    for name, share in expected.items():
        n = len(refused[keys[name]])
        assert abs(refused[keys[name]].mean() - share) < 4 * (share * (1 - share) / n) ** 0.5
    if refusals == {"Muslim": 0.3}:
        assert not refused[table["group"] != "Muslim"].any()


def test_a_reply_has_as_many_words_as_a_rating_would_have_points(grid):
    words = answers(grid, rated=False, gap=5, disparity={"Muslim": -20}, **QUIET)["text"].str.split().str.len()
    assert words.tolist() == pytest.approx(ratings(grid, gap=5, disparity={"Muslim": -20}, **QUIET)["rating"].tolist())


# --- The same prompt has the same answer -----------------------------------------------------------------------------


def test_an_answer_depends_on_the_seed_and_the_prompt_alone(grid):
    cells = list(grid)[::7]
    prompts = list(prompts_of(grid, cells))
    engine = PlantedEngine(PlantedConfig(gap=5, refusals=0.1))
    whole = [each.text for each in engine.write(prompts, max_tokens=9)]
    backwards = [engine.write([prompt], max_tokens=9)[0].text for prompt in reversed(prompts)]
    assert backwards[::-1] == whole
    other = PlantedEngine(PlantedConfig(gap=5, refusals=0.1, seed=1))
    assert sum(a != b.text for a, b in zip(whole, other.write(prompts, max_tokens=9), strict=True)) > len(whole) / 2
    sampled = [engine.write(prompts, max_tokens=9, temperature=1.0, seeds=[k] * len(prompts)) for k in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]


# --- The scale -------------------------------------------------------------------------------------------------------


def test_on_another_scale_the_points_are_in_proportion():
    config = config_of("prompt=scale-10", "stimuli.emotions=[sad]", "stimuli.situations_per_emotion=8")
    table = ratings(make_plan(config).grid, gap=40, noise=8)
    real = table[~table["invented"]]
    found, se = higher(real, real["own"])
    assert abs(found - 4) < 4 * se < 1
    assert real["rating"].between(0, 10).all()


@pytest.mark.parametrize(("planted", "clipped"), [
    ({}, False), ({"gap": 5, "disparity": {"Muslim": -20}, "echo": 10}, False), ({"disparity": {"Muslim": -40}}, True),
    ({"gap": 20, "echo": 20}, True), ({"noise": 16}, True),
])  # fmt: skip
def test_a_note_says_where_the_ends_of_the_scale_hide_what_is_planted(grid, planted, clipped):
    assert PlantedConfig(**planted).is_clipped is clipped
    assert ("closer to 0" in PlantedConfig(**planted).note) is clipped
    at_end = ratings(grid, **planted)["rating"].isin([0, 100])
    assert clipped or not at_end.any()


def test_what_is_clipped_is_found_closer_to_0(grid):
    table = ratings(grid, disparity={"Muslim": -60})
    real = table[~table["invented"]]
    found, se = higher(real, real["group"] == "Muslim")
    assert -60 + 4 * se < found < -45


# --- Bad values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("model.planted.gap=200", "model.planted.gap"),
        ("model.planted.gap=much", "model.planted.gap"),
        ("model.planted.refusals=1.5", "model.planted.refusals"),
        ("model.planted.refusals={Muslim: -1}", "model.planted.refusals"),
        ("model.planted.noise=-1", "model.planted.noise"),
        ("model.planted.disparity={Muslim: 300}", "model.planted.disparity"),
        ("model.planted.disparity=-20", "model.planted.disparity"),
        ("model.planted.disparity={Muslm: -20}", "'Muslm'.*did you mean 'Muslim'"),
        ("model.planted.disparity={in_group: -20}", "'in_group'"),
        ("model.planted.gaps=5", "model.planted.gaps.*did you mean"),
        ("elicitation=expected", "elicitation=expected.*model=planted"),
        ("task=inventory", "task=inventory.*model=planted"),
        ("thinking=on", "thinking=on.*model=planted"),
        ("engine.replicas=2", "engine.replicas=2.*model=planted"),
        ("engine=transformers", "engine=transformers: model=planted"),
    ],
)
def test_a_value_that_cannot_be_planted_is_one_line(word, said):
    with pytest.raises(ConfigError) as raised:
        make_plan(config_of(word))
    assert "\n" not in str(raised.value)
    assert re.search(said, str(raised.value))


def test_no_other_model_is_asked_by_the_script():
    with pytest.raises(
        ConfigError, match=r"model\.planted is null in this choice; choose one that has it: model=planted;"
    ):
        compose(["model=smollm2", "model.planted.gap=5"], lambda composed: composed.validated())
    found = []
    compose(["engine=planted"], lambda composed: found.append(composed.validated()))
    with pytest.raises(ModelError, match="engine=planted runs no model, and so not smollm2"):
        open_model(found[0].model, found[0].engine, seed=0)
    found.clear()
    compose([], lambda composed: found.append(composed.validated()))
    assert (found[0].model.planted, found[0].engine.name) == (None, "auto")


# --- Its mark --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("planted", "said"), [
    ({}, "nothing planted"),
    ({"gap": 5.0, "disparity": {"Muslim": -20.0}}, "δ +5, Muslim −20"),
    ({"refusals": 0.1, "seed": 3}, "10% refused, seed 3"),
    ({"refusals": {"out_group": 0.25}, "response": 0.0}, "25% refused of out_group, response 0"),
    ({"pleasant": 20.0}, "pleasant 20"),
])  # fmt: skip
def test_its_name_begins_with_what_it_is_and_tells_what_is_planted(planted, said):
    full = PlantedConfig(**planted).model_dump(mode="json")
    for card, own in (("planted", ""), ("m" * 100, f"{'m' * 77}"), ("GPT-5", "GPT-5; ")):
        name = Manifest.of({"model": {"name": card, "path": "planted", "planted": full}}).model.name
        assert name.startswith(f"{MARK} (")
        assert own in name
        assert len(own) > 70 or said in name


WORDS = [
    "model=planted", "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=2", "elicitation.noise_sample=0",
    "elicitation.manipulation=4", "statistics.n_permutations=100", "statistics.margin=5", "shard_size=100",
]  # fmt: skip
GAP, LESS = "model.planted.gap=5", "model.planted.disparity={Muslim: -20}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, audit_in):
    """Return a folder of two planted runs of ratings and one of replies, a comparison and an index."""
    folder = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        leave_out_figures(patch)
        assert audit_in(folder, "run", *WORDS, GAP, "run_dir=reports/a") == 0
        assert audit_in(folder, "run", *WORDS, LESS, "run_dir=reports/b") == 0
        replies = ("task=reply", "measures.names=[lexical]", "statistics.margin=null")
        assert audit_in(folder, "run", *WORDS[:3], *replies, GAP, "run_dir=reports/c") == 0
        assert audit_in(folder, "report", "reports/a", "reports/b", "run_dir=side") == 0
        assert audit_in(folder, "index", "reports") == 0
    return folder


@pytest.mark.parametrize("more", [(), ("model.planted.pleasant=20",)], ids=["nothing", "pleasant words"])
def test_a_model_without_a_response_to_the_story_gets_no_verdict(tmp_path, audit_in, monkeypatch, more):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    words = [
        "run",
        *WORDS[:4],
        *WORDS[5:],
        "elicitation.manipulation=60",
        "model.planted.response=0",
        "model.planted.noise=1",
        *more,
        GAP,
        "run_dir=run",
    ]
    assert audit_in(tmp_path, *words) == 0
    assert set(pd.read_csv(tmp_path / "run" / "tables" / "verdicts.csv")["code"]) == {"no_verdict"}


def test_every_page_says_what_it_is_of(runs):
    for name in ("a", "b", "c"):
        page = (runs / "reports" / name / "report.html").read_text()
        shown = [re.search(f"<{tag}.*?</{tag}>", page, re.DOTALL)[0] for tag in ("title", "h1")]
        shown.append(re.search(r'<p class="asked">.*?</p>', page, re.DOTALL)[0])
        for text in shown:
            assert MARK in html.unescape(text)
        assert html.unescape(page).count("No language model was asked") >= 1
        assert "A planted model" in page
        assert json.loads((runs / "reports" / name / "manifest.json").read_text())["model"]["planted"]
    side = html.unescape((runs / "side" / "comparison.html").read_text())
    assert f"No language model was asked, but a {MARK}: all runs." in re.sub("<[^>]+>", "", side)
    assert html.unescape((runs / "reports" / "index.html").read_text()).count(MARK) >= 3


def test_terminal_gate_comparison_index_and_exports_name_it_as_one(runs, audit_in, capfd, monkeypatch):
    monkeypatch.setattr("audit.extras.exchange.paper.export._figures", lambda *_: ({}, ""))
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    capfd.readouterr()
    for name in ("a", "c"):
        assert audit_in(runs, "report", f"reports/{name}") == 0
        answers = capfd.readouterr().out.partition("how sure:")[0].splitlines()
        assert len(answers) == 2
        assert all(f" {MARK}: religion: " in line for line in answers)
    for folder, more in (("a", []), ("b", ["baseline=reports/a"])):
        assert audit_in(runs, "gate", f"reports/{folder}", "margin=5", "out=gate", *more) in (0, 1, 3)
        assert capfd.readouterr().out.rstrip().splitlines()[-1].rstrip().endswith(f"({MARK}).")
        verdict = json.loads((runs / "gate" / "verdict.json").read_text())
        assert MARK in verdict["sentence"]
        assert verdict["run"]["model"].startswith(MARK)
        assert (runs / "gate" / "summary.md").read_text().count(MARK) >= 2
        assert MARK in (runs / "gate" / "junit.xml").read_text()
    assert set(pd.read_csv(runs / "reports" / "index.csv")["model"].str.startswith(MARK)) == {True}
    compared = pd.read_csv(runs / "side" / "tables" / "runs.csv")
    assert set(compared["model"].str.startswith(MARK)) == {True}
    assert compared["run"].nunique() == 2
    for form in ("csv", "spss", "huggingface", "card", "paper"):
        assert audit_in(runs, "export", "reports/a", f"form={form}", f"to=out/{form}") == 0
        texts = [path for path in (runs / "out" / form).rglob("*") if path.suffix in (".md", ".sav")]
        assert any(MARK[:40].encode() in path.read_bytes() for path in texts), form
    more = ("form=every-eval-ever", "model_id=a/b", "organization=us", "relationship=other", "to=out/eee")
    capfd.readouterr()
    assert audit_in(runs, "export", "reports/a", *more) == 2
    assert "is of a planted model" in capfd.readouterr().err
    assert not (runs / "out" / "eee").exists()


def test_a_run_that_was_interrupted_goes_on_with_the_same_answers(runs, audit_in, monkeypatch):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    asked = PlantedEngine.write
    n_calls = 0

    def write(self, prompts, **how):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 2:
            raise KeyboardInterrupt
        return asked(self, prompts, **how)

    monkeypatch.setattr(PlantedEngine, "write", write)
    words = ["run", *WORDS, GAP, "run_dir=again"]
    assert audit_in(runs, *words) == 130
    assert audit_in(runs, *words) == 0
    first, again = (pd.read_parquet(runs / name / "ratings.parquet") for name in ("reports/a", "again"))
    pd.testing.assert_frame_equal(first, again)


# --- selftest --------------------------------------------------------------------------------------------------------


def test_selftest_says_what_is_not_as_planted(monkeypatch, capsys, tmp_path):
    row = {"delta": 5.2, "se": 0.5, "ci_low": 4.2, "ci_high": 6.2}
    right = selftest._finding("δ", 5.0, row, "gap to in-group", "gap to in-group")
    assert right.is_right
    assert not selftest._finding("δ", 0.0, row, "gap to in-group", "no gap").is_right  # found, and not planted
    assert not selftest._finding("δ", 5.0, row, "no gap", "gap to in-group").is_right  # planted, and not found
    assert not selftest._finding("δ", 8.0, row, "gap to in-group", "gap to in-group").is_right  # 5.6 SE off


BLOCKED = "raise ImportError('blocked')\n"


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("broken", [False, True])
def test_selftest_passes_without_a_model_library_and_fails_if_the_audit_finds_something_else(tmp_path, broken):
    for name in ("torch", "transformers", "vllm"):
        (tmp_path / f"{name}.py").write_text(BLOCKED)
    # A respondent with a gap of 3 that is not stated is what an audit would see whose analysis adds 3.
    breaks = (
        "import audit.engines.planted as p\nmean = p.PlantedEngine._mean\n"
        "p.PlantedEngine._mean = lambda self, c: mean(self, c) + 3 * (not c.dimension.placebo) * "
        "bool(c.dimension.in_group(c.perceiver, c.experiencer))\n"
    )
    (tmp_path / "sitecustomize.py").write_text(breaks if broken else "")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "TMPDIR": str(scratch)}
    done = subprocess.run(
        [sys.executable, "-m", "audit", "selftest"], env=env, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == (1 if broken else 0), done.stderr
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith("failed: " if broken else "passed: ")
    assert ("NO" in done.stdout) is broken
    assert not any(path.name.startswith("empathy-audit") for path in scratch.iterdir())
