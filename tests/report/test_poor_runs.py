"""Runs that cannot answer: the report renders all the same, and says what is missing."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from runs import outside_run

TERMS = ("a Hindu", "a Muslim", "a Jain")


def ratings_of(n, *, perceivers=TERMS, experiencers=TERMS, refused=lambda row: False):
    rng = np.random.default_rng(0)
    rows = [
        {"perceiver": p, "experiencer": e, "narrative_id": f"n{k}", "rating": round(rng.uniform(0, 100), 2)}
        for k in range(n)
        for p in perceivers
        for e in experiencers
    ]
    table = pd.DataFrame(rows).assign(status="rated")
    gone = table.apply(refused, axis=1)
    return table.assign(rating=table["rating"].mask(gone), status=table["status"].mask(gone, "refused"))


@pytest.mark.parametrize(
    ("ratings", "said"),
    [
        (ratings_of(6, refused=lambda row: True), ["No rating", "None of 54 prompts has a rating (54 refused"]),
        (
            ratings_of(6, refused=lambda row: row["perceiver"] == row["experiencer"]),
            [
                "No δ",
                "no rated pair of identities is in-group",
                "Refused: 100% of in-group and 0% of out-group prompts.",
            ],
        ),
        (ratings_of(1), ["No interval", "one narrative says nothing about how narratives differ"]),
        (
            ratings_of(6, perceivers=TERMS[:1]),
            ["No δ", "the 1 × 3 pairs of identities cannot tell in-group from the identity itself"],
        ),
        (ratings_of(6, perceivers=TERMS[:1], experiencers=TERMS[1:2]), ["No δ", "nothing is in-group"]),
        (
            ratings_of(6, refused=lambda row: row["perceiver"] == "a Jain"),
            [
                "An identity without any rating",
                "The perceiver 'a Jain' has no rating at all, so δ only covers the others.",
            ],
        ),
    ],
    ids=["no rating", "no in-group rating", "one narrative", "one perceiver", "one pair", "a silent perceiver"],
)
def test_the_report_of_a_run_that_can_not_answer_says_why(tmp_path, ratings, said):
    groups = pd.DataFrame({"term": TERMS, "group": [term.split()[1] for term in TERMS]})
    page = (outside_run(tmp_path, ratings, groups) / "report.html").read_text("utf-8")
    text = " ".join(re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL).split())
    text = re.sub(r" (?=[.,;)%])", "", text.replace("&#39;", "'"))
    for words in said:
        assert words in text
    assert re.search(r"\b(nan|None|inf)\b(?! of)", text) is None
