"""An answer that is begun for the model: what is read after it, what is parsed, and which run it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scripted_model import DIGITS, SPACED, FakeTokenizer

from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.generate import GenerateElicitation, check_begun
from audit.engines.base import EngineFacts, Generated
from audit.engines.chat import ChatTokenizer
from audit.engines.local import TokenEngine
from audit.errors import ConfigError
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Scale

TEN = Scale(0, 10)
HUNDRED = Scale(0, 100)
ASKS = "answer:\n"
BEGINNINGS = ("Number: ", "I would say ", "The number is", "Number:\n")


class Table:
    """A model that is a table of what follows the text that it was given, piece by piece."""

    facts = EngineFacts("fake", "1", "cpu", "float64")
    max_model_len = 1000

    def __init__(self, follows, *, pattern):
        self.tokenizer = ChatTokenizer(FakeTokenizer(pattern, asks=ASKS), name="fake")
        hf = self.tokenizer.hf
        self.table = {
            tuple(piece for text in before for piece in self.tokenizer.encode(text)): {
                hf.token(piece): p for piece, p in after.items()
            }
            for before, after in follows.items()
        }

    def read(self, prompts):
        self.prompts = prompts
        self.places = range(len(prompts))
        yield self

    def probabilities(self, tails, token_ids):
        return [
            np.array([[self.table.get((*prompt, *tail), {}).get(t, 0.0) for t in token_ids] for tail in own])
            for prompt, own in zip(self.prompts, tails, strict=True)
        ]


ASKED = "system:s\nuser:q\nanswer:\n"


@pytest.mark.model
def test_a_space_that_the_tokenizer_keeps_apart_is_given_and_the_number_comes_after_it():
    # After the space: "7" .6, then "2" .5 (72: .3), and the end .5 (7: .3); "I" .4. mass .6, mean (21.6 + 2.1) / .6
    given = (ASKED, "Number:", " ")
    engine = Table({given: {"7": 0.6, "I": 0.4}, (*given, "7"): {"2": 0.5, ".": 0.5}}, pattern=DIGITS)
    [outcome] = ExpectedElicitation(HUNDRED, 0.0).elicit(engine, [Prompt("s", "q", begun="Number: ")])
    assert outcome.number_mass == pytest.approx(0.6, abs=1e-12)
    assert outcome.intensity == pytest.approx(23.7 / 0.6, abs=1e-12)
    assert outcome.n_prompt_tokens == len(engine.tokenizer.encode(f"{ASKED}Number: "))


@pytest.mark.model
def test_a_space_that_the_tokenizer_joins_to_the_number_is_left_to_the_model():
    # "Number: 52" is "Number:" and " 52": given a space, a model would be asked for tokens that nobody ever wrote.
    given = (ASKED, "Number:")
    engine = Table({given: {" 52": 0.5, " 40": 0.2, "52": 0.1}, (*given, " "): {" 9": 1.0, "9": 1.0}}, pattern=SPACED)
    assert engine.tokenizer.encode("Number: 52") == [engine.tokenizer.hf.token(piece) for piece in ("Number:", " 52")]
    [outcome] = ExpectedElicitation(Scale(0, 60), 0.0).elicit(engine, [Prompt("s", "q", begun="Number: ")])
    assert outcome.number_mass == pytest.approx(0.8, abs=1e-12)
    assert outcome.intensity == pytest.approx((26 + 8 + 5.2) / 0.8, abs=1e-12)


@pytest.mark.model
def test_nothing_is_begun_where_nothing_is_asked_for():
    tokenizer = ChatTokenizer(FakeTokenizer(SPACED, asks=ASKS), name="fake")
    assert tokenizer.render(Prompt("s", "q")) == tokenizer.render(Prompt("s", "q", begun="")) == ASKED


def _rendered(hf, prompt):
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return hf.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + prompt.begun


PROMPTS = [
    ("Judge from 0 to 100.", "A Muslim tells of a situation. How much joy? Number:"),
    ("You are a Christian. Judge from 0 to 100.", "A person tells of a loss. How much joy?"),
]


@pytest.mark.parametrize("packs", [True, False], ids=["packed", "whole"])
@pytest.mark.parametrize("model", ["tiny_model", "number_model"])
@pytest.mark.parametrize("begun", BEGINNINGS)
def test_what_is_read_after_a_beginning_is_what_plain_forward_passes_say(model, begun, packs, request, open_engine):
    # Oracle: transformers alone, in double precision, each number's whole text as the tokenizer has it, one at a time.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = request.getfixturevalue(model)
    prompts = [Prompt(system, user, begun=begun) for system, user in PROMPTS]
    engine = open_engine(folder)
    engine._packs = packs
    outcomes = ExpectedElicitation(TEN, 0.0).elicit(engine, prompts)
    hf = AutoTokenizer.from_pretrained(str(folder))
    double = AutoModelForCausalLM.from_pretrained(str(folder)).double().eval()
    digits = hf.convert_tokens_to_ids(list("0123456789"))

    def encode(text):
        return hf(text, add_special_tokens=False)["input_ids"]

    for prompt, outcome in zip(prompts, outcomes, strict=True):
        text = _rendered(hf, prompt)
        start = len(encode(text))
        distribution = np.zeros(11)
        for number in range(11):
            for space in ("", " "):
                ids = encode(f"{text}{space}{number}")
                if ids[:start] != encode(text):
                    continue  # two spaces may be a token
                with torch.inference_mode():
                    after = double(torch.tensor([ids])).logits[0, start - 1 :].softmax(-1).numpy()
                probability = math.prod(after[k, ids[start + k]] for k in range(len(ids) - start))
                if encode(f"{text}{space}{number}5")[:-1] == ids:
                    probability *= 1 - after[-1, digits].sum()
                distribution[number] += probability
        mean = distribution @ np.arange(11) / distribution.sum()
        assert outcome.number_mass == pytest.approx(distribution.sum(), abs=1e-6)
        assert outcome.intensity == pytest.approx(mean, abs=1e-5)
    plain = ExpectedElicitation(TEN, 0.0).elicit(engine, [Prompt(*PROMPTS[0])])
    assert abs(plain[0].intensity - outcomes[0].intensity) > 1e-3  # the beginning was read


def test_what_is_written_after_a_beginning_is_what_plain_forward_passes_write(tiny_model, open_engine):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompts = [Prompt(system, user, begun=begun) for begun in BEGINNINGS for system, user in PROMPTS]
    outcomes = GenerateElicitation(HUNDRED, 8, "scale").elicit(open_engine(tiny_model), prompts)
    hf = AutoTokenizer.from_pretrained(str(tiny_model))
    model = AutoModelForCausalLM.from_pretrained(str(tiny_model)).eval()
    for prompt, outcome in zip(prompts, outcomes, strict=True):
        ids = hf(_rendered(hf, prompt), add_special_tokens=False)["input_ids"]
        written = []
        while len(written) < 8 and hf.eos_token_id not in written:
            with torch.inference_mode():
                written.append(int(model(torch.tensor([[*ids, *written]])).logits[0, -1].argmax()))
        assert outcome.response == hf.decode(written, skip_special_tokens=True)
        assert outcome.n_prompt_tokens == len(ids)


def test_prompts_with_a_beginning_share_nothing_with_those_that_have_another(tiny_model, open_engine):
    tokenizer = open_engine(tiny_model).tokenizer
    prompts = [Prompt(system, user, begun=begun) for begun in ("", *BEGINNINGS) for system, user in PROMPTS]
    for order in (prompts, prompts[::-1], prompts):
        assert tokenizer.encode_prompts(order) == [tokenizer.encode(tokenizer.render(prompt)) for prompt in order]


class Says(TokenEngine):
    """An engine that answers with one text."""

    max_model_len = 1000

    class tokenizer:
        template = None

        @staticmethod
        def encode_prompts(prompts):
            return [[1] for _ in prompts]

    def __init__(self, text):
        self.text = text

    def generate(self, prompts, **_):
        return [Generated(self.text, 5, False) for _ in prompts]


@pytest.mark.parametrize(
    ("begun", "response", "parser", "status", "intensity"),
    [
        ("Number: ", "72", "scale", Status.RATED, 72),
        ("Number: ", " 72.", "scale", Status.RATED, 72),
        ("I would say", "72", "scale", Status.RATED, 72),  # sentencepiece decodes the space away
        ("I would give it a rating ", "of 72", "scale", Status.RATED, 72),  # alone, "of 72" states nothing
        ("Intensity of sadness then ", "72", "scale", Status.RATED, 72),  # together, nothing is stated
        ("Number: ", "extremely", "scale", Status.RATED, 100),
        ("Number: ", "72 people were there", "scale", Status.UNPARSEABLE, math.nan),
        ("I can", "'t rate this.", "scale", Status.REFUSED, math.nan),
        ("On a scale from 0 to 100, I would say ", "80", "scale", Status.RATED, 80),
        ("On a scale from 0 to 100, I would say ", "it was strong.", "scale", Status.UNPARSEABLE, math.nan),
        ("On a scale from 0 to 100, I would say ", "80", "hou2025", Status.RATED, 80),  # and not 0
    ],
)
def test_beginning_and_response_are_read_together_and_the_response_alone_where_that_says_nothing(
    begun, response, parser, status, intensity
):
    [outcome] = GenerateElicitation(HUNDRED, 16, parser).elicit(Says(response), [Prompt("", "q", begun=begun)])
    assert outcome.status is status
    assert outcome.intensity == pytest.approx(intensity, nan_ok=True)
    assert outcome.response == response  # what the model wrote, and no more


@pytest.mark.parametrize(
    ("begun", "reads"), [("I would say 80, or ", "a rating"), ("I cannot rate this ", "a refusal")]
)
def test_a_beginning_that_answers_by_itself_is_refused(begun, reads):
    with pytest.raises(ConfigError, match=rf"elicitation\.prefill='.*' reads as {reads} on its own.*leave the number"):
        check_begun(begun, HUNDRED)


@pytest.mark.parametrize(
    "begun", ["<think>\n", "<think>so</think> <think>", "Number: <seed:think>", "◁think▷",
              "<|channel|>analysis<|message|>", "<|channel|>final<|message|>5<|channel|>analysis<|message|>"]
)  # fmt: skip
def test_a_beginning_that_opens_a_thought_is_refused(begun):
    # "30, or perhaps 60" after it would be rated 30.
    with pytest.raises(ConfigError, match=r"^elicitation\.prefill='.*' opens a thought, .*; use thinking=on") as raised:
        check_begun(begun, HUNDRED)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("closed", ["<think>\n\n</think>\n\nNumber: ", "</think>", "<|channel|>final<|message|>"])
def test_a_beginning_that_closes_a_thought_is_taken_and_what_comes_after_it_is_read(closed):
    check_begun(closed, HUNDRED)
    [outcome] = GenerateElicitation(HUNDRED, 16, "scale").elicit(Says("72"), [Prompt("", "q", begun=closed)])
    assert outcome.intensity == 72


@pytest.mark.parametrize("begun", ["", *BEGINNINGS, "On a scale from 0 to 100, I would say "])
def test_a_beginning_that_answers_nothing_is_taken(begun):
    check_begun(begun, HUNDRED)
