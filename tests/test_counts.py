"""Counts on the terminal and on the page: one of a thing is singular, and what was refused is no rating."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from planted import Planted, alone, grouped, ratings_of, refused

from audit.runs.manifest import Manifest
from audit.tables.formatting import either, plural
from audit.tasks.inventory.analysis import remarks_on_answers
from audit.tasks.measures.choose import JUDGE
from audit.tasks.reply.written import _on_judge

NOUNS = "ratings|narratives|prompts|groups|emotions|pairs|tests|runs|items|replies|terms|shuffles|perceivers|codes"
SEVERAL_OF_ONE = re.compile(rf"(?<![\d.,−])\b1 ({NOUNS})\b|\bof 1 ({NOUNS})\b|(?<![\d.,])\b1 \w+ (are|were|have)\b")


@pytest.fixture
def quick(monkeypatch):
    """Leave out figures, which take most of the time."""
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


def text_of(page):
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"</?(data|bdi|dfn|strong|em|a|sub|code|i)\b[^>]*>", "", text)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_one_of_a_thing_is_singular_on_terminal_and_page(audit, tmp_path, capsys, quick):
    """One narrative of which one rating is missing: no other count can be of more things than the words say."""
    ratings = ratings_of(alone(4), n=1)
    planted = Planted(refused(ratings, pd.Series(ratings.index == 3)), grouped(alone(4)))
    assert audit("report", *planted.write(tmp_path / "one")) == 0
    told = " ".join("".join(capsys.readouterr()).split())
    assert "15 ratings of 16 prompts on a scale from 0 to 100" in told
    page = text_of(tmp_path / "one" / "run" / "report.html").replace("n_emotions 1 emotions", "")  # of the manifest
    assert "Only 0 of 1 narrative (0%) have a rating" in page
    assert "This file contains all 16 prompts of 1 narrative" in page
    for text in (told, page):
        assert [text[max(each.start() - 40, 0) : each.end()] for each in SEVERAL_OF_ONE.finditer(text)] == []


def test_what_was_refused_is_counted_as_prompts_and_not_as_ratings(audit, tmp_path, capsys, quick):
    gone = np.zeros(320, dtype=bool)
    gone[np.random.default_rng(0).choice(320, 80, replace=False)] = True
    for name, seed in (("a", 0), ("b", 1)):
        ratings = ratings_of(alone(4), n=20, seed=seed)
        planted = Planted(refused(ratings, pd.Series(gone)), grouped(alone(4)))
        assert audit("report", *planted.write(tmp_path / name)) == 0
    assert audit("report", "a/run", "b/run", "run_dir=both") == 0
    told = " ".join("".join(capsys.readouterr()).split())
    pages = [text_of(tmp_path / place) for place in ("a/run/report.html", "b/run/report.html", "both/comparison.html")]
    assert told.count("240 ratings of 320 prompts on a scale") == 2
    assert told.count("320 prompts read") == 2
    for text in (told, *pages):
        assert re.search(r"\b320 (ratings|replies)", text) is None
    assert "narratives ratings, including filled ones share" in pages[0]


def test_nouns_and_verbs_go_with_their_counts():
    assert [plural(n, "reply") for n in (0, 1, 2)] == ["0 replies", "1 reply", "2 replies"]
    assert [plural(n, "prompt") for n in (0, 1, 1200)] == ["0 prompts", "1 prompt", "1,200 prompts"]
    assert [either(n, "has", "have") for n in (0, 1, 2)] == ["have", "has", "have"]


def test_a_low_probability_of_numbers_is_told_without_a_claim_that_other_thresholds_make_false():
    """With min_number_mass 0.9, 0.7 of what a model would write is low, and no lesser part of it."""
    answers = pd.DataFrame(
        {
            "prompt_index": [0, 1],
            "dimension": "religion",
            "variant": "origin",
            "answer": [3.0, 4.0],
            "number_mass": [0.7, 0.7],
        }
    )
    [remark] = remarks_on_answers(answers, {}, n_prompts=2, min_number_mass=0.9)
    assert remark.text == (
        "The model answers with a number of the scale with a probability of only 0.70 on average. The scores say "
        "nothing about its other answers."
    )
    measures = pd.DataFrame({"measure": ["m"], "mean_mass": [0.7], "title": ["warmth"]})
    told = {"name": "m", "title": "warmth", "unit": "points", "better": "higher", "source": "s"}
    [remark] = _on_judge(Manifest.of({"scorers": {JUDGE: {"measures": [told]}}}), measures, min_number_mass=0.9)
    assert remark.text.endswith("0.70 on average (warmth). Its scores say nothing about its other answers.")
