"""Tables of replies for the tests of what raters see, and the files that they send back."""

from __future__ import annotations

import itertools

import pandas as pd

from audit.people.items import sample_items
from audit.people.questions import Questions, ScaleQuestion

TERMS = ("a Muslim", "a Hindu", "a Jew")
QUESTIONS = Questions(
    introduction="Judge each reply.\n\nTake your time.",
    questions=tuple(
        ScaleQuestion(name=name, text=f"How {name}?", low=low, high=5, low_label="not", high_label="very")
        for name, low in (("warm", 1), ("clear", 0))
    ),
)


def replies_of(*, narratives=3, terms=TERMS, dimensions=("religion",), text="Reply {index}."):
    """Return a reply of every perceiver to every experiencer and narrative, the baseline's too."""
    rows = [
        (dimension, "reply", f"n{k}", "joy", p, e, p == e if "a person" not in (p, e) else pd.NA)
        for dimension in dimensions for p, e in itertools.product((*terms, "a person"), repeat=2)
        for k in range(narratives)
    ]  # fmt: skip
    names = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "in_group"]
    replies = pd.DataFrame(rows, columns=names).astype({"in_group": "boolean"})
    replies.insert(0, "prompt_index", range(len(replies)))
    return replies.assign(
        status="written",
        text=[text.format(index=index) for index in replies.index],
        narrative=[
            f"{e[:1].upper()}{e[1:]} lost key no. {k[1:]}." for e, k in replies[["experiencer", "narrative_id"]].values
        ],
    )


def sampled(n, **options):
    return sample_items(replies_of(**options), n=n, seed=0)


def write(folder, table, name="anna.csv", **options):
    """Write a rater's file and return its path; missing scores become empty cells."""
    table.to_csv(folder / name, index=False, **options)
    return folder / name
