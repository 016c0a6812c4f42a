"""The calls of a strategy, one by one, on an engine that keeps what it was asked and writes what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from runs import FOUR_RELIGIONS

from audit.asking.plan import build_grid
from audit.asking.strategies.run import StageText, final_prompts, run_stage
from audit.configuration.composition import conf_folder
from audit.configuration.schema import load_config
from audit.engines.base import Generated
from audit.engines.local import TokenEngine
from stimuli.strategies import Stage, Strategy, strategy_values


@dataclass
class Call:
    """One call of the engine: the texts it was given, and the settings."""

    texts: list[str]
    settings: dict[str, object]


@dataclass
class Scripted(TokenEngine):
    """An engine whose tokens are bytes. ``says(text)`` gives what it writes after a text, or None."""

    says: object = lambda text: "Yes."
    max_model_len: int = 100_000
    calls: list[Call] = field(default_factory=list)

    template = None

    @property
    def tokenizer(self):
        return self

    def render(self, prompt):
        messages = [("system", prompt.system)] if prompt.system else []
        return "\n".join(f"{role}: {text}" for role, text in [*messages, *prompt.turns, ("user", prompt.user)])

    def encode(self, text):
        return list(text.encode())

    def encode_prompts(self, prompts):
        return [self.encode(self.render(prompt)) for prompt in prompts]

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        texts = [bytes(ids).decode() for ids in prompts]
        settings = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seeds": seeds}
        self.calls.append(Call(texts, settings))
        written = [self.says(text) for text in texts]
        return [
            Generated(None, 0, False)
            if text is None
            else Generated(text[:max_tokens], len(text), len(text) > max_tokens)
            for text in written
        ]


def configure(*overrides):
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", list(overrides)), resolve=True, throw_on_missing=True)
    values.pop("experiment", None)
    return load_config(values)


def stage(name="a", prompt="Say something of {experiencer}.", **changes):
    return Stage(name, prompt, **({"max_tokens": 50, "temperature": 0.0, "top_p": 1.0} | changes))


def values(experiencer="a Hindu", question="How much?"):
    return {"persona": "Me.", "system": "Me.\nRate.", "experiencer": experiencer, "question": question}


def wrote(text="Yes.", status="written"):
    return StageText(text, status, 5, 4, 0)


def run_all(strategy, engine, asked, *, places=None, seed=0, room=10):
    """Run every stage, each with what those before it wrote, and return that and the prompts that ask the question."""
    earlier = []
    for place in range(len(strategy.stages)):
        earlier.append(
            run_stage(
                strategy, place, engine, asked=asked, earlier=earlier, places=places or range(len(asked)), seed=seed
            )
        )
    asked_last = final_prompts(strategy, engine, asked=asked, earlier=earlier, room=room)
    return earlier, [last and last[0] for last in asked_last]


# --- ECN, call by call -----------------------------------------------------------------------------------------------


def test_ecn_asks_four_calls_in_order_each_seeing_all_earlier_ones():
    config = configure("strategy=ecn", *FOUR_RELIGIONS)
    grid = build_grid(config)
    cell = grid[40]  # a Buddhist is given what happened to somebody else
    who, what = cell.experiencer.term, cell.narrative.neutral
    assert who == "a Muslim" != cell.perceiver.term
    answers = iter(["Temples and work.", "It stirs grief.", "It was a loss.", "I hear you."])
    engine = Scripted(lambda _: next(answers))
    earlier, (final,) = run_all(config.strategy.strategy(), engine, [strategy_values(grid, cell)], places=[40])

    heard = [call.texts for call in engine.calls]
    assert [len(texts) for texts in heard] == [1, 1, 1, 1]
    asked = [
        (f"Imagine for a moment that you are {who}.", "what makes you proud?"),
        (f'A Muslim was in this situation:\n"{what}"\n', "which does it stir in you?"),
        (f'Think about {who} in this situation:\n"{what}"\n', "what might others overlook?"),
        (f'Bring together what you think of {who} in this situation:\n"{what}"\n', "advice that they could act on."),
    ]
    conversation = "system: For this task you are a Buddhist."
    for k, ((begins, ends), (text,)) in enumerate(zip(asked, heard, strict=True)):
        assert text.startswith(f"{conversation}\nuser: {begins}"), f"call {k + 1} does not continue the earlier ones"
        assert text.endswith(ends)
        own = text.removeprefix(f"{conversation}\nuser: ")
        assert "assistant:" not in own
        assert engine.calls[k].settings.items() >= {"max_tokens": 200, "temperature": 0.7, "top_p": 1.0}.items()
        conversation = f"{text}\nassistant: {earlier[k][0].text}"
    assert [texts[0].text for texts in earlier] == [
        "Temples and work.", "It stirs grief.", "It was a loss.", "I hear you.",
    ]  # fmt: skip

    alone = grid.prompt(cell)
    assert (final.system, final.user) == (alone.system, alone.user)  # the audit's own question, unchanged
    shown = engine.render(replace(final, system="For this task you are a Buddhist."))
    assert shown == f"{conversation}\nuser: {alone.user}"


@pytest.mark.parametrize("left_out", range(4))
def test_an_ablation_of_ecn_asks_the_other_three_calls(left_out):
    def first_lines(name):
        config = configure(f"strategy={name}", *FOUR_RELIGIONS)
        grid, engine = build_grid(config), Scripted()
        run_all(config.strategy.strategy(), engine, [strategy_values(grid, grid[40])])
        return [call.texts[0].rpartition("user: ")[2] for call in engine.calls]

    names = ("perspective", "resonance", "reflection", "synthesis")
    whole = first_lines("ecn")
    assert first_lines(f"ecn-no-{names[left_out]}") == whole[:left_out] + whole[left_out + 1 :]


def test_without_a_strategy_no_call_is_made():
    engine = Scripted(max_model_len=1)  # nothing fits, and that is for the elicitation to say
    earlier, (final,) = run_all(Strategy("none"), engine, [values()])
    assert (earlier, engine.calls) == ([], [])
    assert (final.system, final.user, final.turns) == ("Me.\nRate.", "How much?", ())


# --- What is shared, and what is drawn -------------------------------------------------------------------------------


def test_at_temperature_0_the_same_conversation_is_asked_once_in_the_grid_s_order():
    engine = Scripted(lambda text: f"Of {text.rpartition('of ')[2]}")
    asked = [values(e) for e in ("a Hindu", "a Jew", "a Hindu", "a Sikh", "a Jew")]
    ((*texts,),), _ = run_all(Strategy("mine", stages=(stage(),)), engine, asked)
    (call,) = engine.calls
    assert call.texts == [f"system: Me.\nuser: Say something of {e}." for e in ("a Hindu", "a Jew", "a Sikh")]
    assert [t.text for t in texts] == ["Of a Hindu.", "Of a Jew.", "Of a Hindu.", "Of a Sikh.", "Of a Jew."]
    assert call.settings["seeds"] is None


def test_a_later_stage_is_shared_only_where_the_earlier_texts_are_the_same_too():
    seen = iter(["one", "two", "x", "y"])
    engine = Scripted(lambda _: next(seen))
    strategy = Strategy("mine", stages=(stage("a", temperature=1.0), stage("b")))
    run_all(strategy, engine, [values(), values()])
    assert [len(call.texts) for call in engine.calls] == [2, 2]


def test_sampled_texts_have_a_seed_each_that_depends_on_run_stage_and_place_alone():
    stages = (stage("a", temperature=0.7), stage("b", temperature=0.7))
    strategy = Strategy("mine", stages=stages, history="none", question="{stage_a} {stage_b} {question}")

    def seeds(places, seed=0):
        engine = Scripted()
        run_all(strategy, engine, [values()] * len(places), places=places, seed=seed)
        return [dict(zip(places, call.settings["seeds"], strict=True)) for call in engine.calls]

    first, second = seeds(range(100))
    assert len({*first.values(), *second.values(), *seeds(range(100), seed=1)[0].values()}) == 300
    again, _ = seeds([99, 3, 17])  # an interrupted run, in other batches
    assert again == {place: first[place] for place in (99, 3, 17)}
    assert all(0 <= value < 2**63 for value in first.values())


# --- What goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Well.", ("Well.", "written", 5)),
        ("", ("", "empty", 0)),
        (" \n ", (" \n ", "empty", 3)),
        ("x" * 60, ("x" * 50, "cut", 60)),  # max_tokens is 50
        (" " * 60, (" " * 50, "empty", 60)),
        (None, ("", "failed", 0)),
    ],
)
def test_what_became_of_a_text_is_said(written, expected):
    engine = Scripted(lambda _: written)
    ((text,),), (final,) = run_all(Strategy("mine", stages=(stage(),)), engine, [values()])
    assert (text.text, text.status, text.n_tokens) == expected
    assert text.n_prompt_tokens == len("system: Me.\nuser: Say something of a Hindu.")
    assert (final is None) == (written is None)  # the run goes on with an empty or a cut text


def test_after_a_failed_stage_neither_later_ones_nor_the_question_are_asked_and_the_others_are():
    engine = Scripted(lambda text: None if text.endswith("a Jew.") else "Yes.")
    strategy = Strategy("mine", stages=(stage("a"), stage("b", "And then, {experiencer}?")))
    (first, second), finals = run_all(strategy, engine, [values("a Jew"), values("a Sikh")])
    assert [t.status for t in first] == ["failed", "written"]
    assert second[0] == StageText("", "failed", 0, 0, 0)
    assert second[1].status == "written"
    assert [len(call.texts) for call in engine.calls] == [2, 1]
    assert [final is None for final in finals] == [True, False]


THREE = (stage("a", "First?"), stage("b", "Second?"), stage("c", "Third?"))
ALL = "system: Me.\nuser: First?\nassistant: Yes.\nuser: Second?\nassistant: Yes.\nuser: Third?"
"""The longest call of the three stages; 50 tokens of answer come on top."""


@pytest.mark.parametrize(
    ("room", "n_dropped", "heard"),
    [
        (len(ALL) + 50, 0, ALL),
        (len(ALL) + 49, 1, "system: Me.\nuser: Second?\nassistant: Yes.\nuser: Third?"),
        (len("system: Me.\nuser: Second?\nassistant: Yes.\nuser: Third?") + 49, 2, "system: Me.\nuser: Third?"),
    ],
)
def test_the_oldest_calls_are_left_out_until_it_fits_and_counted(room, n_dropped, heard):
    engine = Scripted()
    engine.max_model_len = room
    (*_, (third,)), _ = run_all(Strategy("mine", stages=THREE), engine, [values()])
    assert (third.n_dropped, third.status) == (n_dropped, "written")
    assert engine.calls[2].texts == [heard]
    assert third.n_prompt_tokens == len(heard)


def test_what_fits_in_no_way_is_not_asked():
    engine = Scripted(max_model_len=len("system: Me.\nuser: Third?") + 49)
    earlier = [[wrote()], [wrote()]]
    (third,) = run_stage(
        Strategy("mine", stages=THREE), 2, engine, asked=[values()], earlier=earlier, places=[0], seed=0
    )
    assert third == StageText("", "failed", 0, 0, 0)
    assert engine.calls == []


def test_a_strategy_may_fail_where_it_does_not_fit():
    engine = Scripted(max_model_len=len(ALL) + 49)
    strategy = Strategy("mine", stages=THREE, overrun="fail")
    (first, second, third), (final,) = run_all(strategy, engine, [values()])
    assert [texts[0].status for texts in (first, second, third)] == ["written", "written", "failed"]
    assert final is None


def test_the_question_s_conversation_is_shortened_too_and_what_was_left_out_can_be_counted():
    strategy = Strategy("mine", stages=THREE)
    earlier = [[wrote()]] * 3
    whole = strategy.prompt_of(None, values(), ["Yes."] * 3)
    engine = Scripted(max_model_len=len(Scripted().render(whole)) + 9)
    ((final, n_dropped),) = final_prompts(strategy, engine, asked=[values()], earlier=earlier, room=10)
    assert (final.system, final.user, final.turns) == (whole.system, whole.user, whole.turns[2:])
    assert n_dropped == 1
    engine.max_model_len += 1
    assert final_prompts(strategy, engine, asked=[values()], earlier=earlier, room=10) == [(whole, 0)]
    engine.max_model_len = len("system: Me.\nRate.\nuser: How much?") + 9
    assert final_prompts(strategy, engine, asked=[values()], earlier=earlier, room=10) == [None]


@pytest.mark.parametrize("earlier", [[], [[wrote()]], [[wrote()], [wrote(), wrote()]]])
def test_earlier_texts_must_be_those_of_all_earlier_stages(earlier):
    with pytest.raises(ValueError, match="must hold 2 stages of 1 texts each"):
        run_stage(Strategy("mine", stages=THREE), 2, Scripted(), asked=[values()], earlier=earlier, places=[0], seed=0)


# --- A real engine ---------------------------------------------------------------------------------------------------


def test_sampled_stages_are_the_same_in_other_batches_on_a_real_engine(open_engine, tiny_model):
    engine = open_engine(tiny_model)
    try:
        strategy = Strategy(
            "mine", stages=(stage("a", temperature=0.7, max_tokens=8), stage("b", temperature=0.9, max_tokens=8))
        )
        asked = [values(e) for e in ("a Hindu", "a Hindu", "a Jew")]
        together, _ = run_all(strategy, engine, asked, places=[4, 5, 6])
        alone, (final,) = run_all(strategy, engine, asked[1:2], places=[5])
    finally:
        engine.close()
    assert [texts[1] for texts in together] == [texts[0] for texts in alone]
    assert together[0][0].text != together[0][1].text  # one conversation, drawn twice
    assert [text for _, text in final.turns][1::2] == [texts[0].text for texts in alone]
