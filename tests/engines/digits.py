"""A server of the tests' own that tells the likeliest tokens of a planted distribution, digit by digit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hostile import Hostile

END = ""
"""How the token that ends an answer is shown, as llama.cpp's server shows it."""
HEADER = 5
"""Tokens of a template that a new message takes."""


@dataclass
class Digits(Hostile):
    """Writes the numbers of ``numbers(text)``, which returns probabilities by number, with a token for each digit.

    Attributes
    ----------
    goes_on
        Whether the last message, if it is the assistant's, is gone on with; else a new one begins after it.
    told
        Likeliest tokens that are told at each place, at most.
    context
        Tokens of a prompt that are read; what stands before them is cut without a word. None cuts nothing.
    spoilt
        Makes something else of a place's list of tokens.
    """

    numbers: Any = lambda text: {50: 1.0}
    goes_on: bool = True
    told: int = 20
    context: int | None = None
    spoilt: Any = lambda text, listed: listed

    def whole(self, body, text):
        messages = body["messages"]
        begun = ""
        if messages[-1]["role"] == "assistant":
            begun, messages = messages[-1]["content"], messages[:-1]
        asked = "\n".join(each["content"] for each in messages)
        n_read = sum(len(each["content"].split()) + HEADER for each in messages) + len(begun)
        if begun and not self.goes_on:
            n_read, begun = n_read + HEADER, ""
        written, listed = "", []
        most = body.get("max_tokens", 16)
        while len(listed) < most:
            table = self.after(asked, begun + written)
            token = max(table, key=table.get)
            listed.append(self.place(asked, table, token, body.get("top_logprobs", 0)))
            written += token
            if token == END:
                break
        n_read = n_read if self.context is None else min(n_read, self.context)
        choice = {"index": 0, "message": {"role": "assistant", "content": written}, "finish_reason": "stop"}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": listed}
        usage = {"prompt_tokens": n_read, "completion_tokens": len(listed), "total_tokens": n_read + len(listed)}
        return {"model": self.name, "choices": [choice], "usage": usage, "system_fingerprint": self.fingerprint}

    def after(self, asked, begun):
        """Return the probabilities of the next token."""
        masses: dict[str, float] = {}
        for number, mass in self.numbers(asked).items():
            if str(number).startswith(begun):
                following = str(number)[len(begun) : len(begun) + 1]
                masses[following] = masses.get(following, 0.0) + mass
        total = sum(masses.values())
        return {token: mass / total for token, mass in masses.items()} if total else {END: 1.0}

    def place(self, asked, table, token, n):
        likely = sorted(table.items(), key=lambda each: -each[1])[: min(n, self.told)]
        listed = [{"token": text, "logprob": math.log(p), "bytes": list(text.encode())} for text, p in likely if p > 0]
        return {"token": token, "logprob": math.log(table[token]), "top_logprobs": self.spoilt(asked, listed)}
