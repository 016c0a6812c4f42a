"""What of a conversation an answer may repeat and still be read: its own words, never those that it was told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from audit.asking.elicitation.generate import GenerateElicitation
from audit.engines.base import Generated
from audit.engines.local import TokenEngine
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Question, Scale

SAYS = "I would rate it 70."


class Repeating(TokenEngine):
    """An engine that answers with one text; its tokens are characters."""

    max_model_len = 1000
    tokenizer = SimpleNamespace(encode_prompts=lambda prompts: [list(prompt.user) for prompt in prompts], template=None)

    def __init__(self, says=SAYS):
        self.says = says

    def generate(self, prompts, **_):
        return [Generated(self.says, 5, False) for _ in prompts]


@pytest.mark.parametrize(
    ("turns", "status"),
    [
        ((("user", "How much?"), ("assistant", SAYS)), Status.RATED),
        ((("user", SAYS), ("assistant", "I see.")), Status.UNPARSEABLE),
        ((), Status.RATED),
    ],
)
def test_what_the_model_was_shown_to_say_it_may_say_again(turns, status):
    asked = Prompt(system="", user="And how much now?", turns=turns)
    [outcome] = GenerateElicitation(Scale(0, 100), 16, "scale").elicit(Repeating(), [asked])
    assert outcome.status is status
    assert outcome.n_prompt_tokens == len(asked.user)


@pytest.mark.parametrize(
    ("begun", "says", "parser", "intensity"),
    [
        ("", "A Hindu felt 70 joy.", "scale", 70),
        ("A Hindu felt ", "70 joy.", "scale", 70),
        ("It is not so that ", "a Hindu felt 70 joy.", "scale", None),
        ("Not true: ", "A Hindu felt 70 joy.", "scale", None),
        ("", "A Muslim felt 70 joy.", "scale", None),
        ("", "A Muslim felt 70 joy.", "hou2025", 70),
    ],
)
def test_a_rating_told_of_the_experiencer_is_read_of_the_whole_answer(begun, says, parser, intensity):
    asked = Prompt("", "How much joy?", begun=begun, question=Question("a Hindu", ("joy", "joyful")))
    [outcome] = GenerateElicitation(Scale(0, 100), 16, parser).elicit(Repeating(says), [asked])
    assert (outcome.status is Status.RATED) == (intensity is not None)
    assert intensity is None or outcome.intensity == intensity
