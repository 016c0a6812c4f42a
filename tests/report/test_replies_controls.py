"""What the page of replies says of a gap: between groups, not told apart from invented ones, or not controlled."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import test_replies_page
from markupsafe import Markup
from planted import claims_of
from test_replies_page import replies_of, write_run

from audit.report.echo import NOT_CONTROLLED

ONE = {"Hindu": ["a Hindu"], "Muslim": ["a Muslim"], "Sikh": ["a Sikh"], "Jain": ["a Jain"]}
TWO = {"Hindu": ["a Hindu", "a follower of the Gita"], "Muslim": ["a Muslim", "a follower of Islam"],
       "Sikh": ["a Sikh", "one who keeps the five Ks"]}  # fmt: skip
FIVE = TWO | {"Jain": ["a Jain", "one who follows Mahavira"], "Parsi": ["a Parsi", "a follower of Zarathustra"]}
"""As few groups as a gap between groups can be said of."""
SEVERAL = {name: terms[:1] for name, terms in FIVE.items()}
INVENTED = {"Veltan": ["a Veltan"], "Dorrish": ["a Dorrish person"], "Kessari": ["a Kessari"], "Oml": ["an Oml"]}


def page_of(folder, groups, *, group=0.0, words=0.0, invented=None):
    """Return the text of a page on a run whose first measure has such a gap and such an echo."""
    parts = [replies_of(groups, n=24, dimensions=("religion",))]
    if invented is not None:
        parts.append(replies_of(INVENTED, n=24, dimensions=("invented_1",)))
    replies = pd.concat(parts, ignore_index=True).assign(prompt_index=lambda table: np.arange(len(table)))
    replies["status"] = "written"
    same = (replies["perceiver"] == replies["experiencer"]).to_numpy()
    real = (replies["dimension"] == "religion").to_numpy()
    inside = replies["in_group"].to_numpy(bool)
    # What write_run plants of its own is taken off again: 2 points in-group.
    planted = np.where(real, group * inside + words * same, (invented or 0.0) * same) - 2.0 * inside
    told = {} if invented is None else {"placebo": ["invented_1"]}
    with pytest.MonkeyPatch.context() as patch:
        write = test_replies_page.write_scores

        def changed(folder, scorer, number, scores, counts):
            first = scores["measure"] == "m0"
            values = scores["value"] + np.where(first, planted[scores["prompt_index"]], 0.0)
            write(folder, scorer, number, scores.assign(value=values), counts)

        patch.setattr(test_replies_page, "write_scores", changed)
        report = write_run(folder / "run", replies, diversity=False, dimensions=["religion"], **told)
    page = report.read_text("utf-8")
    page = re.sub(r"<(style|script)[^>]*>.*?</\1>", " ", claims_of(page), flags=re.S)
    return " ".join(Markup(re.sub(r"<[^>]+>", " ", page)).unescape().split())


def first_screen(text):
    return text.partition("Evidence: whose side?")[0]


def test_a_gap_of_pairs_without_a_common_word_is_one_between_groups(tmp_path):
    screen = first_screen(page_of(tmp_path, FIVE, group=3.0))
    assert "A gap between groups in 1 measure" in screen
    assert "δ counts only pairs described in different words, if a measure allows it" in screen
    assert NOT_CONTROLLED.rstrip(".") not in screen


def test_of_three_groups_a_gap_is_one_in_these_pairs_of_words(tmp_path):
    text = first_screen(page_of(tmp_path, TWO, group=3.0))
    assert "A gap in these pairs of words in 1 measure" in text
    assert "3 groups are too few to speak about others" in text
    assert "gap between groups" not in text


def test_an_echo_is_no_gap(tmp_path):
    text = page_of(tmp_path, TWO, words=3.0)
    assert "No gap is found" in first_screen(text)
    assert "Groups or repeated words?" in text
    assert re.search(r"Measure 0 pairs with identical words \+[23]\.\d+", text)


def test_what_invented_groups_show_too_is_no_gap_between_groups(tmp_path):
    screen = first_screen(page_of(tmp_path, ONE, group=3.0, invented=3.0))
    assert "Not distinguishable from invented groups: Measure 0, " in screen
    assert "gap between groups" not in screen
    assert "Veltan" not in screen


def test_what_goes_beyond_invented_groups_is_a_gap_between_groups(tmp_path):
    screen = first_screen(page_of(tmp_path, SEVERAL, group=3.0, invented=0.0))
    assert "A gap between groups in 1 measure" in screen


def test_without_controls_a_gap_is_not_called_one_between_groups(tmp_path):
    text = page_of(tmp_path, ONE, group=3.0)
    assert "A gap, which repeated words alone could cause, in 1 measure" in first_screen(text)
    assert "gap between groups" not in text
    assert NOT_CONTROLLED.rstrip(".") in first_screen(text)
    assert "Groups or repeated words?" not in text
