"""Strategies as data: what the packaged and own ones ask, and what cannot be asked."""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from runs import FOUR_RELIGIONS

from audit.asking.plan import build_grid
from audit.configuration import composition
from audit.configuration.schema import load_config
from audit.configuration.strategy import StrategyConfig
from audit.errors import ConfigError
from stimuli.errors import StimulusError
from stimuli.strategies import (
    EXAMPLE_PARTS,
    KNOWLEDGE,
    MAX_STAGES,
    Stage,
    Strategy,
    check_strategy,
    example_name,
    strategy_values,
)

CONF = composition.conf_folder()
TALKS = ("talk", "talk-file")  # which ask for replies: tests/test_talk_runs.py
NAMES = sorted(path.stem for path in (CONF / "strategy").glob("*.yaml") if path.stem not in ("base", *TALKS))
ECN_STAGES = ("perspective", "resonance", "reflection", "synthesis")
COE = ("coe-cbt", "coe-dbt", "coe-pct", "coe-rt")
GUIDE = Path(__file__).parents[2] / "docs" / "strategies.md"


@cache
def configure(*overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", list(overrides)), resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return load_config(values)


def packaged(name):
    return configure(f"strategy={name}").strategy.strategy()


@cache
def geneva(*overrides):
    return build_grid(configure(*FOUR_RELIGIONS, "stimuli.situations_per_emotion=all", *overrides))


def stage(name="a", prompt="Say something.", **changes):
    return Stage(name, prompt, **({"max_tokens": 10, "temperature": 0.0, "top_p": 1.0} | changes))


def calls(strategy, values):
    """Return the prompts of all calls, where each stage writes its own name in angle brackets."""
    wrote = [f"<{s.name}>" for s in strategy.stages]
    return [strategy.prompt_of(place, values, wrote[:place]) for place in range(len(wrote))] + [
        strategy.prompt_of(None, values, wrote)
    ]


# --- The packaged strategies -----------------------------------------------------------------------------------------


def test_the_packaged_strategies_are_those_of_the_guide():
    table = GUIDE.read_text(encoding="utf-8").split("## What all have in common")[0]
    first_cells = [
        line.split("|")[1] for line in table.splitlines() if line.startswith("| `") and "strategy=" not in line
    ]
    assert sorted(re.findall(r"`([a-z0-9-]+)`", " ".join(first_cells))) == sorted([*NAMES, *TALKS])
    assert len(NAMES) == 27


def brought_by(strategy):
    """Return knowledge and examples as a run would bring them, each known by its text."""
    n_examples = strategy.examples.n if strategy.examples is not None else 0
    places = itertools.product(EXAMPLE_PARTS, range(n_examples))
    examples = {example_name(part, place): f"<{part} {place}>" for part, place in places}
    return examples | {KNOWLEDGE + relation: f"<{relation}>" for relation in strategy.relations}


@pytest.mark.parametrize("name", NAMES)
def test_a_packaged_strategy_composes_and_fills_with_the_packaged_stimuli(name):
    strategy, grid = packaged(name), geneva("stimuli.no_persona=true")
    check_strategy(strategy, grid)
    assert strategy.name == name
    assert name == "none" or (strategy.source and strategy.deviates)
    for index in range(0, len(grid), 997):
        cell = grid[index]
        values = strategy_values(grid, cell, {cell.narrative.narrative_id: brought_by(strategy)})
        asked = calls(strategy, values)
        for prompt in asked:
            assert values["persona"] in prompt.system  # who the model is, in every call
            for text in (prompt.system, prompt.user, *(text for _, text in prompt.turns)):
                assert text == text.strip()
                assert not set("{}") & set(text)
            assert [role for role, _ in prompt.turns] == ["user", "assistant"] * (len(prompt.turns) // 2)
        assert all("whole number" not in prompt.system for prompt in asked[:-1])
        assert asked[-1].system.startswith(values["system"])
        assert asked[-1].user.endswith(values["question"])  # nothing stands between the question and the answer
        everything = " ".join([asked[-1].system, asked[-1].user, *(text for _, text in asked[-1].turns)])
        reaching = [*(s.name for s in strategy.stages), *strategy.relations]  # all reach the question
        if strategy.examples is not None:
            reaching += [f"{part} {place}" for place in range(strategy.examples.n) for part in ("text", "answer")]
        assert all(f"<{name}>" in everything for name in reaching)


@pytest.mark.parametrize(
    "prompt",
    sorted(p.stem for p in (CONF / "prompt").glob("*.yaml") if p.stem not in ("base", "published", "deployed")),
)
def test_without_a_strategy_every_prompt_is_the_variant_s_own(prompt):
    grid = geneva(f"prompt={prompt}", "stimuli.no_persona=true")
    for index in range(0, len(grid), 499):
        assert packaged("none").prompt_of(None, strategy_values(grid, grid[index]), ()) == grid.prompt(grid[index])


def test_a_configuration_without_a_strategy_has_the_packaged_none():
    assert StrategyConfig() == configure().strategy
    values = configure().model_dump(mode="json")
    del values["strategy"]  # as runs of earlier versions recorded it
    assert load_config(values).strategy.strategy() == packaged("none") == Strategy("none")


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_configuration_gives_the_same_strategy_whatever_the_order_of_its_keys(name):
    values = configure(f"strategy={name}").model_dump(mode="json")
    values["strategy"] = dict(sorted(values["strategy"].items()))
    assert load_config(values).strategy.strategy() == packaged(name)


def test_ecn_has_the_paper_s_stages_and_decoding():
    ecn = packaged("ecn")
    assert [(s.name, s.max_tokens, s.temperature) for s in ecn.stages] == [(name, 200, 0.7) for name in ECN_STAGES]
    assert ecn.history == "all"


@pytest.mark.parametrize("left_out", ECN_STAGES)
def test_an_ablation_is_ecn_without_one_stage_and_the_same_by_the_command_line(left_out):
    ecn, ablated = packaged("ecn"), packaged(f"ecn-no-{left_out}")
    expected = tuple(s for s in ecn.stages if s.name != left_out)
    assert ablated == replace(ecn, name=ablated.name, deviates=ablated.deviates, stages=expected)
    by_hand = configure("strategy=ecn", f"strategy.stages.{left_out}=null").strategy.strategy()
    assert by_hand == replace(ecn, stages=expected)


def test_the_chains_of_empathy_differ_in_the_second_step_alone():
    chains = [packaged(name) for name in COE]
    assert {s.name for c in chains for s in c.stages} == {"emotion", "factors"}
    assert {(s.temperature, s.top_p) for c in chains for s in c.stages} == {(0.9, 1.0)}
    assert len({c.stages[0] for c in chains}) == 1
    assert len({c.stages[1].prompt for c in chains}) == 4
    same = {replace(c, name="", source="", stages=(c.stages[0], replace(c.stages[1], prompt="x"))) for c in chains}
    assert len(same) == 1


def test_a_day_of_the_group_is_described_before_the_situation_is_seen():
    grid = geneva()
    asked = {calls(packaged("perspective"), strategy_values(grid, cell))[0] for cell in grid[:408]}
    assert len(asked) == 1  # one text for 408 narratives of one pair


def test_no_stage_names_the_emotion_but_the_oracle_does():
    for name in NAMES:
        strategy = packaged(name)
        assert not any(word in s.prompt for s in strategy.stages for word in ("{emotion", "{question}", "{system}"))
        assert ("{emotion" in strategy.question) == (name == "two-stage-oracle")


@pytest.mark.parametrize(
    ("name", "n_stages", "added_to_system", "before_the_question"),
    [
        ("basic-empathy", 0, "empathetic", ""),
        ("diversity-aware", 0, "without stereotypes", ""),
        ("two-stage", 1, "", "<infer>"),
        ("two-stage-oracle", 0, "", "The emotion that it brought on: amused."),
        ("empathise-first", 1, "", ""),
        ("perspective-reason", 1, "", "Now be yourself again."),
        ("knowledge-self", 5, "", "<xReact>"),
    ],
)
def test_a_strategy_adds_to_the_last_call_what_it_is_named_after(name, n_stages, added_to_system, before_the_question):
    grid = geneva()
    values = strategy_values(grid, grid[0])
    *stages, final = calls(packaged(name), values)
    assert len(stages) == n_stages
    added = final.system.removeprefix(values["system"])
    assert bool(added) == bool(added_to_system)
    assert added_to_system in added
    before = final.user.removesuffix(values["question"])
    assert bool(before) == bool(before_the_question)
    assert before_the_question in before


def test_packaged_strategies_ask_different_things():
    assert len({packaged(name).sha256 for name in NAMES}) == len(NAMES)


def test_where_a_strategy_comes_from_does_not_change_its_hash():
    ecn = packaged("ecn")
    assert replace(ecn, source="x", deviates="y").sha256 == ecn.sha256
    assert replace(ecn, stages=ecn.stages[::-1]).sha256 != ecn.sha256
    assert replace(ecn, overrun="fail").sha256 != ecn.sha256


# --- A strategy of one's own -----------------------------------------------------------------------------------------


def compose_own(tmp_path, monkeypatch, text, *overrides):
    """Compose a strategy file of a user's own folder, through Hydra as the command line does."""
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mine.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    found = []
    composition.compose(
        [f"--config-dir={tmp_path}", "strategy=mine", *overrides], lambda c: found.append(c.validated())
    )
    return found[0]


def test_the_guide_s_own_example_works(tmp_path, monkeypatch):
    example = re.search(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
    strategy = compose_own(tmp_path, monkeypatch, example).strategy.strategy()
    assert strategy.name == "mine"
    assert [(s.name, s.max_tokens, s.temperature, s.top_p) for s in strategy.stages] == [
        ("needs", 60, 0.0, 1.0),
        ("obstacles", 60, 0.7, 1.0),
    ]
    grid = geneva()
    values = strategy_values(grid, grid[0])
    needs, obstacles, final = calls(strategy, values)
    assert values["narrative"] in needs.user
    assert obstacles.user.startswith("Someone needs this: <needs>\n")
    assert final.user == (
        "Keep in mind what the person needed (<needs>) and what stood in the way (<obstacles>).\n\n"
        + values["question"]
    )
    assert (needs.turns, obstacles.turns, final.turns) == ((), (), ())  # history: none


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: mine\nstages: {a: {promt: x}}", r"strategy\.stages\.a\.promt.*did you mean 'prompt'"),
        ("name: mine\nstages: {a: {prompt: x, temperature: -1}}", r"strategy\.stages\.a\.temperature: .*given: -1"),
        ("name: mine\nstages: {a: {prompt: x, max_tokens: 0}}", r"strategy\.stages\.a\.max_tokens: .*given: 0"),
        ("name: mine\nstages: {a: {prompt: x, top_p: 0}}", r"strategy\.stages\.a\.top_p: .*given: 0"),
        ("name: mine\nstages: [{name: a, prompt: x}, {name: a, prompt: y}]", "two stages are called 'a'"),
        ("name: mine\nstages: [{prompt: x}]", "needs a name"),
        ("name: mine\nhistory: some", r"strategy\.history: .*all or last or none.*given: 'some'"),
        ("name: mine\noverrun: newest", r"strategy\.overrun: .*given: 'newest'"),
        ("name: mine\nquestoin: x", r"strategy\.questoin: unknown option; did you mean 'question'"),
        ("name: mine\nstages: {a: {prompt: '{narrativ}'}}", r"strategy mine: stages\.a\.prompt: unknown placeholder "
         r"\{narrativ\}; did you mean 'narrative'"),
        ("name: mine\nquestion: How much?", "strategy mine: question lacks {question}"),
    ],
)  # fmt: skip
def test_a_file_that_can_not_be_used_is_one_line_with_place_and_value(tmp_path, monkeypatch, text, message):
    with pytest.raises((ConfigError, StimulusError), match=message) as raised:
        compose_own(tmp_path, monkeypatch, text).strategy.strategy()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"stages": (stage("a", "{stage_a}"),)},
            r"stages\.a\.prompt: \{stage_a\} does not exist yet at "
            r"this stage.*none before it",
        ),
        (
            {"stages": (stage("a"), stage("b", "{stage_c}"), stage("c"))},
            r"stages\.b\.prompt: \{stage_c\} does not exist yet at this stage.* those before it are a$",
        ),
        (
            {"stages": (stage("a"), stage("b", "{stage_aa}"))},
            r"unknown placeholder \{stage_aa\}; did you mean 'stage_a'",
        ),
        ({"stages": (stage("a"), stage("a"))}, "two stages are called 'a'"),
        ({"stages": (stage("a b"),)}, "stage 'a b': a name is"),
        ({"stages": (stage("a", " \n"),)}, r"stages\.a\.prompt is empty"),
        ({"stages": (stage("a", "{"),)}, r"stages\.a\.prompt: .*write \{\{ and \}\} for braces"),
        ({"stages": (stage("a", "{experiencer.term}"),)}, r"unknown placeholder \{experiencer\.term\}"),
        ({"stages": (stage("a", "{experiencer!r}"),)}, r"unknown placeholder \{experiencer!r\}"),
        ({"stages": tuple(stage(f"s{k}") for k in range(MAX_STAGES + 1))}, "17 stages are too many; use at most 16"),
        ({"system": "Be kind."}, r"system lacks \{persona\} or \{system\}"),
        ({"stage_system": "Be kind."}, r"stage_system lacks \{persona\} or \{system\}"),
        ({"system": "{system} {stage_a}", "stages": (stage("a"),)}, r"system: unknown placeholder \{stage_a\}"),
        ({"question": "{narrative} {emotion} {low} {high}"}, r"question lacks \{question\}.* no \{experiencer\} or"),
        ({"question": "{experiencer} {emotion} {low} {high}"}, r"no \{narrative\} or \{Narrative\}"),
        ({"question": "{experiencer} {narrative} {low} {high}"}, r"no \{emotion\} or"),
        ({"question": "{experiencer} {narrative} {emotion} {low}"}, r"no \{high\}$"),
        (
            {"stages": (stage("a"),), "history": "none"},
            r"no later call sees stages\.a, .*show it, \{stage_a\}, give more",
        ),
        (
            {
                "stages": (stage("a"), stage("b", "{stage_a}"), stage("c")),
                "question": "{stage_c} {question}",
                "history": "none",
            },
            r"no later call sees stages\.a, ",
        ),
    ],
)
def test_a_strategy_that_can_not_be_asked_is_refused(changes, message):
    with pytest.raises(StimulusError, match=rf"^strategy mine: .*{message}"):
        Strategy("mine", **changes)


@pytest.mark.parametrize(
    "changes", [{"stages": (stage(),)}, {"system": "{system} Be kind."}, {"question": "Feel. {question}"}]
)
def test_what_changes_the_prompts_can_not_be_called_none(changes):
    with pytest.raises(StimulusError, match=r"strategy none: changes what is asked; .*strategy\.name=NAME"):
        Strategy("none", **changes)
    Strategy("none", history="last", overrun="fail")  # without stages these say nothing


def test_a_question_of_one_s_own_that_asks_for_a_rating_will_do():
    strategy = Strategy("mine", question="{Narrative} How {emotion} from {low} to {high}?")
    assert strategy.needs == {"system", "Narrative", "emotion", "low", "high"}


def test_a_stage_shown_in_the_question_counts_among_the_needs_as_what_it_uses():
    strategy = Strategy("mine", stages=(stage("a", "{perceiver} {emotion_noun}"),), question="{stage_a} {question}")
    assert strategy.needs == {"persona", "system", "question", "perceiver", "emotion_noun"}


@pytest.mark.parametrize(
    ("template", "overrides", "message"),
    [
        ("{Narrative}", (), r"shows \{Narrative\}, which prompt origin does not"),
        ("{perceiver}", ("stimuli.no_persona=true",), r"shows \{perceiver\}, but with stimuli\.no_persona=true"),
    ],
)
def test_a_strategy_that_shows_what_the_stimuli_lack_is_refused(template, overrides, message):
    with pytest.raises(StimulusError, match=message):
        check_strategy(Strategy("mine", stages=(stage("a", template),)), geneva(*overrides))
    check_strategy(Strategy("mine", stages=(stage("a", template),)), geneva("prompt=named"))


def test_an_emotion_word_that_the_narratives_lack_is_named():
    grid = geneva()
    lacking = tuple(replace(n, words=replace(n.words, adjective="")) for n in grid.narratives.narratives)
    poor = type(grid)(grid.dimensions, replace(grid.narratives, narratives=lacking), grid.variant)
    with pytest.raises(StimulusError, match=r"\{emotion_adjective\}, but the emotion 'amused' has no adjective"):
        check_strategy(Strategy("mine", stages=(stage("a", "{emotion_adjective}"),)), poor)
    check_strategy(Strategy("mine", stages=(stage("a", "{emotion_noun}"),)), poor)


def test_two_stage_names_the_32_labels_of_empathetic_dialogues_where_it_is_told_to():
    words = (
        "afraid angry annoyed anticipating anxious apprehensive ashamed caring confident content devastated "
        "disappointed disgusted embarrassed excited faithful furious grateful guilty hopeful impressed jealous joyful "
        "lonely nostalgic prepared proud sad sentimental surprised terrified trusting"
    )
    labels = words.split()
    assert len(labels) == 32
    [infer], [free] = packaged("two-stage-32").stages, packaged("two-stage").stages
    assert re.search(r"names of emotions: (.*)\.\n", infer.prompt)[1].split(", ") == labels
    assert replace(infer, prompt=free.prompt) == free
    assert packaged("two-stage-32").question == packaged("two-stage").question


# --- A stage that writes the reply ----------------------------------------------------------------------------------

REPLIES = ("task=reply", "measures.names=[lexical]", "dimensions=[religion]")


def reply_strategy(*overrides):
    config = configure(*REPLIES, *overrides)
    return config.strategy.strategy(answer=config.task.stage)


def test_ecn_replies_by_its_fourth_stage_and_rates_after_it():
    replies, ratings = reply_strategy("strategy=ecn"), packaged("ecn")
    assert [stage.name for stage in ratings.stages] == list(ECN_STAGES)
    assert (ratings.reply, ratings.question) == (None, "{question}")
    assert [stage.name for stage in replies.stages] == list(ECN_STAGES[:3])
    assert replies.stages == ratings.stages[:3]
    assert (replies.reply.name, replies.reply.temperature, replies.reply.max_tokens) == ("synthesis", 0.7, 200)
    assert (replies.system, replies.question) == ("{persona}", replies.reply.prompt)
    assert "{question}" not in replies.question
    assert "Answer them" in replies.question
    assert replies.sha256 != ratings.sha256


def test_where_a_rating_is_asked_the_reply_s_stage_changes_nothing():
    plain = configure("strategy=ecn", "strategy.reply_stage=null", "strategy.reply_prompt=''").strategy.strategy()
    assert plain.sha256 == packaged("ecn").sha256


@pytest.mark.parametrize("without", ["strategy=ecn-no-synthesis", "strategy.stages.synthesis=null"])
def test_without_its_reply_s_stage_ecn_asks_the_question_and_reads_its_own_record(without):
    overrides = [without] if without.startswith("strategy=") else ["strategy=ecn", without]
    whole = configure(*REPLIES, *overrides)
    config, answer = whole.strategy, whole.task.stage
    strategy = config.strategy(answer=answer)
    assert [stage.name for stage in strategy.stages] == list(ECN_STAGES[:3])
    assert (strategy.reply, strategy.question) == (None, "{question}")
    assert StrategyConfig(**config.model_dump(mode="json")).strategy(answer=answer) == strategy


def test_a_stage_without_a_prompt_for_replies_is_asked_its_own():
    whole = packaged("ecn")
    assert reply_strategy("strategy=ecn", "strategy.reply_prompt=''").question == whole.stages[3].prompt


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["strategy.reply_stage=reflection"], "reply_stage=reflection is not the last stage"),
        (["strategy.reply_stage=sythesis"], "give the last one, synthesis, or null"),
        (["strategy.reply_stage=null"], "reply_prompt needs reply_stage, which is not set; set it to"),
    ],
)
@pytest.mark.parametrize("replies", [True, False])
def test_a_reply_s_stage_that_can_not_be_used_is_one_line(overrides, message, replies):
    config = configure("strategy=ecn", *overrides).strategy
    with pytest.raises(ConfigError, match=message) as error:
        config.strategy(answer=configure(*REPLIES).task.stage if replies else None)
    assert "\n" not in str(error.value)


# --- What a call holds -----------------------------------------------------------------------------------------------

VALUES = {"persona": "You are a Latina.", "system": "You are a Latina.\nRate.", "question": "How much?", "low": "0"}
THREE = (stage("a", "First."), stage("b", "Second."), stage("c", "Third."))


@pytest.mark.parametrize(
    ("history", "turns"),
    [
        ("all", ("First.", "A", "Second.", "B", "Third.", "C")),
        ("last", ("Third.", "C")),
        ("none", ()),
    ],
)
def test_history_says_which_earlier_calls_are_turns(history, turns):
    strategy = Strategy("mine", stages=THREE, history=history, question="{question} {stage_a} {stage_b} {stage_c}")
    assert tuple(text for _, text in strategy.prompt_of(None, VALUES, ("A", "B", "C")).turns) == turns
    assert strategy.prompt_of(0, VALUES, ()).turns == ()
    assert len(strategy.seen(None)) == len(turns) // 2


@pytest.mark.parametrize(
    ("stages", "history", "question"),
    [
        (THREE, "last", "{question}"),  # each sees the one before it
        ((stage("a"), stage("b", "{stage_a}")), "none", "{stage_b} {question}"),
        ((stage("a"), stage("b", "{stage_a}")), "last", "{question}"),
    ],
)
def test_a_stage_may_reach_the_question_through_another(stages, history, question):
    assert Strategy("mine", stages=stages, history=history, question=question).stages == stages


def test_what_a_model_wrote_is_never_filled_again():
    strategy = Strategy(
        "mine", stages=(stage("a"), stage("b", "You said: {stage_a}")), question="{stage_a}|{stage_b}|{question}"
    )
    wrote = ("{low} {{x}} {0.__class__} %s", "}{stage_a}{")
    final = strategy.prompt_of(None, VALUES, wrote)
    assert final.user == f"{wrote[0]}|{wrote[1]}|How much?"
    assert [text for _, text in final.turns] == ["Say something.", wrote[0], f"You said: {wrote[0]}", wrote[1]]


def test_without_a_persona_the_stages_have_no_system_message():
    strategy = Strategy("mine", stages=THREE, system="{system}\nBe kind.")
    values = VALUES | {"persona": "", "system": "Rate."}
    assert strategy.prompt_of(0, values, ()).system == ""
    assert strategy.prompt_of(None, values, ("", "", "")).system == "Rate.\nBe kind."


def test_examples_as_released_stand_numbered_in_the_system_message_with_its_labels():
    strategy = packaged("few-shot-released")
    cell = (grid := geneva())[0]
    values = strategy_values(grid, cell, {cell.narrative.narrative_id: brought_by(strategy)})
    [prompt] = calls(strategy, values)
    assert prompt.turns == ()
    assert prompt.user == values["question"]
    shown = "\n".join(f"Instance {k + 1}:\nassistant: <text {k}>\nuser: <answer {k}>" for k in range(5))
    assert prompt.system.endswith(f"\n\n{shown}")
    assert strategy.sha256 != packaged("few-shot-5").sha256


def test_only_the_system_message_of_the_question_holds_examples():
    shown = packaged("few-shot-5").examples
    with pytest.raises(StimulusError, match=r"system: unknown placeholder \{examples\}"):
        Strategy("mine", system="{system} {examples}")
    with pytest.raises(StimulusError, match=r"stage_system: unknown placeholder \{examples\}"):
        Strategy("mine", stages=(stage(),), stage_system="{persona} {examples}", examples=shown)
