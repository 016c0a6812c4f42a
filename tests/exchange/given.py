"""A run of ratings of which some are missing, made of planted answers, for the tests of what it is written as."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from runs import FOUR_RELIGIONS

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
from hostile import rating_of

ASKED = (
    "model.path=tiny", "stimuli.situations_per_emotion=3", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS,
    "stimuli.placebo=1", "statistics.n_permutations=100", "elicitation=generate", "elicitation.noise_sample=0",
    "elicitation.manipulation=0", "elicitation.prefill=", "shard_size=40",
)  # fmt: skip
FORMULA = "=HYPERLINK(1)"
GIVEN = ("report", "answers=a.jsonl", "prompts=p.jsonl", "run_dir=run", "model=a/model", "by=ask.py")


def answer(system, user):
    """Rate, refuse, ramble or repeat the whole question, by the prompt alone."""
    number = rating_of(f"{system}\n{user}")
    said = {
        0: "I'm sorry, but I cannot rate this.",
        1: FORMULA,
        2: f"{user}\n\nRating: {number}",
    }
    return said.get(number % 17, str(number))


def write_answers(prompts, answers, *, leave_out=()):
    """Answer a file of prompts, but for some places."""
    lines = [json.loads(line) for line in Path(prompts).read_text(encoding="utf-8").splitlines()]
    with Path(answers).open("w", encoding="utf-8") as written:
        for place, each in enumerate(lines):
            if place not in leave_out:
                written.write(json.dumps({"id": each["id"], "text": answer(each["system"], each["user"])}) + "\n")
    return lines
