"""A model that is a table of probabilities, and its tokenizer, for tests of elicitations."""

import re

import numpy as np

from audit.engines.base import EngineFacts
from audit.engines.chat import ChatTokenizer
from stimuli.prompts import Prompt, Scale

TEN = Scale(0, 10)
HUNDRED = Scale(0, 100)
DIGITS = r"\d|\s|[^\d\s]+"  # SmolLM2, Qwen, Mistral, Gemma: "100" is 1 0 0, a space before is a token of its own
WHOLE = r"\d{1,3}|\s|[^\d\s]+"  # Llama 3: "100" is one token
SPACED = r" ?\d{1,3}|\s|[^\d\s]+"  # GPT-2: " 100" is one token


class FakeTokenizer:
    """Splits a text by a pattern; each piece it meets becomes a token."""

    chat_template = "yes"

    def __init__(self, pattern, *, asks="answer:"):
        self.pattern = re.compile(pattern)
        self.asks = asks  # what a rendered prompt ends with
        self.ids = {}

    def token(self, piece):
        return self.ids.setdefault(piece, len(self.ids))

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [self.token(piece) for piece in self.pattern.findall(text)]}

    def apply_chat_template(self, messages, **_):
        return "".join(f"{m['role']}:{m['content']}\n" for m in messages) + self.asks


class FakeEngine:
    """A model that is a table: for each prompt and tokens after it, the probabilities of what follows.

    It keeps the protocol: rows in the order asked, one length of tails a call, at most 128 tokens asked.
    """

    facts = EngineFacts("fake", "1", "cpu", "float64")

    def __init__(self, table, *, pattern=DIGITS, max_model_len=1000):
        self.max_model_len = max_model_len
        self.tokenizer = ChatTokenizer(FakeTokenizer(pattern), name="fake")
        hf = self.tokenizer.hf
        self.table = {
            tuple(self.tokenizer.encode(self.tokenizer.render(Prompt("s", user)))): {
                tuple(map(hf.token, before)): {hf.token(piece): p for piece, p in after.items()}
                for before, after in answers.items()
            }
            for user, answers in table.items()
        }
        self.asked = []

    def forget(self):
        pass

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        raise NotImplementedError

    def read(self, prompts):
        if prompts:
            yield FakeReading(self, prompts)


class FakeReading:
    """All prompts at once, in an order of its own."""

    def __init__(self, engine, prompts):
        self.places = range(len(prompts))[::-1]
        self.engine = engine
        self.prompts = [prompts[place] for place in self.places]

    def probabilities(self, tails, token_ids):
        assert len(set(token_ids)) == len(token_ids) <= 128
        assert all(len(set(map(tuple, own))) == len(own) for own in tails)
        self.engine.asked.append([len(own) for own in tails][::-1])
        return [
            np.array(
                [[self.engine.table[tuple(prompt)].get(tuple(tail), {}).get(t, 0.0) for t in token_ids] for tail in own]
            ).reshape(len(own), len(token_ids))
            for prompt, own in zip(self.prompts, tails, strict=True)
        ]
