"""What engines are asked for: texts of all of them, tokens of those that have any; and which engines there are."""

from __future__ import annotations

import pytest

from audit.asking.elicitation.expected import ExpectedElicitation
from audit.engines.base import EngineFacts, Generated, OpenModel, token_reader
from audit.engines.open import ENGINES, choose_engine
from audit.errors import ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.reply.judge.pairwise import judge_pairs
from stimuli.prompts import Prompt, Scale
from stimuli.rubrics import load_rubric


class Writes:
    """An engine that writes, and has no tokens."""

    facts = EngineFacts("elsewhere", "1", "server", "")

    def forget(self):
        pass

    def fits(self, prompts, *, room):
        return [True for _ in prompts]

    def write(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        return [Generated("A", 1, False) for _ in prompts]


def test_probabilities_are_refused_in_one_line_that_names_engine_and_remedy():
    with pytest.raises(ModelError) as refused:
        ExpectedElicitation(Scale(0, 10), 0.1).elicit(Writes(), [Prompt("", "How sad?")])
    assert str(refused.value) == (
        "engine=elsewhere writes text but does not return token probabilities; use elicitation=generate"
    )


def test_a_judge_without_tokens_is_asked_in_words_and_refused_otherwise():
    reply = {"narrative_id": "n", "dimension": "faith", "emotion": "sad", "experiencer": "a Hindu", "narrative": "It."}
    pair = tuple(
        Reply(**reply, **{name: "" for name in Reply.__dataclass_fields__ if name not in (*reply, "text")}, text=text)
        for text in ("One.", "Two.")
    )
    asked = {"opened": OpenModel(Writes(), None), "rubric": load_rubric("epitome"), "criterion": "explorations"}
    judged = judge_pairs([pair], method="generate", **asked)
    assert judged["first_place"].tolist() == [1.0]
    with pytest.raises(ModelError, match="use method=generate"):
        judge_pairs([pair], method="expected", **asked)


def test_what_reads_tokens_is_the_engine_itself(tiny_model, open_engine):
    engine = open_engine(tiny_model)
    assert token_reader(engine, remedy="") is engine


def test_texts_are_those_after_the_prompts_tokens_and_one_that_is_too_long_is_not_asked(tiny_model, open_engine):
    engine = open_engine(tiny_model)
    prompts = [Prompt("", "How sad?"), Prompt("", "How sad? " * 500), Prompt("Be calm.", "How glad?")]
    told = []
    written = engine.write(prompts, max_tokens=6, done=told.append)
    ids = engine.tokenizer.encode_prompts([prompts[0], prompts[2]])
    assert [each.text for each in (written[0], written[2])] == [
        each.text for each in engine.generate(ids, max_tokens=6)
    ]
    assert [each.n_prompt_tokens for each in written] == [len(ids[0]), None, len(ids[1])]
    assert written[1] == Generated(None, 0, False)
    assert engine.fits(prompts, room=6) == [True, False, True]
    assert sum(told) == 2
    room = engine.max_model_len - len(ids[0])
    assert engine.fits(prompts[:1], room=room) == [True]
    assert engine.fits(prompts[:1], room=room + 1) == [False]


def test_the_seed_of_a_text_stays_with_its_prompt_where_another_is_left_out(tiny_model, open_engine):
    engine = open_engine(tiny_model)
    short, long = Prompt("", "How sad?"), Prompt("", "How sad? " * 500)
    sampled = {"max_tokens": 12, "temperature": 1.0}
    alone = engine.write([short], seeds=[5], **sampled)
    assert engine.write([long, short], seeds=[4, 5], **sampled)[1:] == alone


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_every_engine_of_the_registry_has_a_way_to_open_a_model(name):
    assert callable(ENGINES[name]())


def test_an_engine_that_is_none_is_refused_with_those_that_there_are(tiny_config):
    _, config = tiny_config("x")
    with pytest.raises(ModelError, match=r"engine\.name=vlm: unknown engine; did you mean 'vllm'"):
        choose_engine(config.model_copy(update={"name": "vlm"}), writes=True)
