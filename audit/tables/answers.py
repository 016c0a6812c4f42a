"""The answers to the items of a questionnaire, as a run collects them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from audit.tables.base import INT32, Storage, Table, points, text, whole, word
from audit.tables.ratings import RATINGS
from audit.tables.shared import SIDES

ANSWERS: Final = Table(
    "answers",
    "an item that was asked",
    {
        "prompt_index": whole(
            "the prompt's place in the run's order, from 0; with presentation list each of its items has a row"
        ),
        "dimension": word("what the perceivers differ in, e.g. religion"),
        "variant": word("name of the prompt variant, whose persona is given"),
        **{name: SIDES[name] for name in ("perceiver", "perceiver_group")},
        "narrative_id": word("the situation that the perceiver imagines; default where there is none"),
        "emotion": word("the situation's emotion; empty where there is none"),
        "order": whole(
            "number of the order, from 0: the file's own, then random ones; of items shown alone 0 describes the scale "
            "from its low end, 1 from its high end",
            type=INT32,
        ),
        "place": whole("the item's place in the prompt, from 1", type=INT32),
        "item_id": word("which item"),
        "status": word("rated (there is an answer), refused, unparseable, failed or inexact"),
        "answer": points("in points of the scale, as it was given and not keyed; missing unless rated"),
        "response": text(
            "the model's text, verbatim; of a list the whole of it in each row; empty where nothing was written"
        ),
        "number_mass": RATINGS["number_mass"],
        "n_prompt_tokens": replace(RATINGS["n_prompt_tokens"], since=1),
    },
    kept=Storage("answers.parquet", "answers"),
)
