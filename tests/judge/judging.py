"""A scripted judge: its tokens are bytes, and what it answers is a function of the text that it reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import NormalDist

import numpy as np

from audit.engines.base import EngineFacts, Generated, OpenModel
from audit.engines.local import LocalModel, TokenEngine
from audit.engines.resolve import ModelFiles


def draw(sd, *words):
    """Return a normal draw that is always the same for the same words."""
    uniform = (int.from_bytes(sha256("|".join(words).encode()).digest()[:6]) + 0.5) / 2**48
    return NormalDist(0, sd).inv_cdf(uniform)


def around(score):
    """Return a distribution over the two whole numbers next to a score, of which it is the mean."""
    low = int(score // 1)
    return {str(low): 1 - (score - low), str(low + 1): score - low}


def shown(text):
    """Return what a judge reads: the experiencer, and the quoted blocks (narrative, then replies)."""
    experiencer = re.search(r"user: (.+) tells of a situation:", text)[1]
    blocks = re.findall(r"(?:^> ?.*\n?)+", text, re.MULTILINE)
    return experiencer, [re.sub(r"^> ?", "", block, flags=re.MULTILINE).strip() for block in blocks]


@dataclass(eq=False)
class Scripted(TokenEngine):
    """``answer(text)`` gives what the judge says: a text, None, or the probabilities of texts."""

    answer: object
    max_model_len: int = 100_000
    texts: list[str] = field(default_factory=list)
    n_forgotten: int = 0
    facts = EngineFacts("scripted", "1", "cpu", "float32")
    name = "scripted"

    template = None

    @property
    def tokenizer(self):
        return self

    def render(self, prompt):
        return f"system: {prompt.system}\nuser: {prompt.user}\nassistant:"

    def encode(self, text):
        return list(text.encode())

    def encode_prompts(self, prompts):
        return [self.encode(self.render(prompt)) for prompt in prompts]

    def continuation(self, text, continuation):
        return tuple(continuation.encode())

    def forget(self):
        self.n_forgotten += 1

    def answers(self, ids):
        text = bytes(ids).decode()
        self.texts.append(text)
        said = self.answer(text)
        return said if isinstance(said, dict) else {said: 1.0}

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        said = [max(answers, key=answers.get) for answers in map(self.answers, prompts)]
        return [Generated(text if text is None else text[:max_tokens], 1, False) for text in said]

    def read(self, prompts):
        if prompts:
            yield ScriptedReading([self.answers(ids) for ids in prompts])


@dataclass
class ScriptedReading:
    """All prompts at once, by what is answered to each."""

    answers: list[dict[str, float]]

    @property
    def places(self):
        return range(len(self.answers))

    def probabilities(self, tails, token_ids):
        """The probability of a byte after a tail: that of the answers that go on so, of those that begin so."""
        tables = []
        for answers, own in zip(self.answers, tails, strict=True):
            said = {text.encode(): p for text, p in answers.items()}

            def begins(head, said=said):
                return sum(p for text, p in said.items() if text.startswith(head))

            tables.append(
                np.array(
                    [
                        [begins(bytes([*tail, token])) / (begins(bytes(tail)) or 1) for token in token_ids]
                        for tail in own
                    ]
                ).reshape(len(own), len(token_ids))
            )
        return tables


def opened(answer, **settings):
    """Return a loaded judge that answers so; its engine keeps what it read."""
    return OpenModel(
        Scripted(answer, **settings), LocalModel(ModelFiles(Path("judge"), "a revision"), {"weights": "a hash"})
    )
