"""Ratings from outside: whether two terms of a group share a word is stated by the table of groups, or not known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from runs import outside_run
from test_comparison import table_of

pytestmark = pytest.mark.long

TERMS = {
    "Dane": ("a Dane", "a Danish citizen"),
    "Pole": ("a Pole", "a Polish citizen"),
    "Welsh": ("a Welshman", "of Wales"),
}
GAP, ECHO = 2.0, 6.0


@pytest.fixture(scope="module")
def ratings():
    """A gap between groups, and an echo wherever a pair has the same stem, in whatever words: all of them."""
    rng = np.random.default_rng(0)
    of = {term: group for group, terms in TERMS.items() for term in terms}
    rows = [
        {"narrative_id": f"n{n}", "perceiver": p, "experiencer": e,
         "rating": round(40 + 2 * (n % 5) + (GAP + ECHO) * (of[p] == of[e]) + rng.normal(0, 1), 3)}
        for n, p, e in product(range(8), of, of)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def groups(stem=None):
    rows = [{"term": term, "group": group} for group, terms in TERMS.items() for term in terms]
    table = pd.DataFrame(rows)
    return table if stem is None else table.assign(stem=[stem(row["term"], row["group"]) for row in rows])


def echo_free(run):
    return table_of(run, "controls").set_index("control").loc["echo_free"]


def test_without_stems_there_is_no_echo_free_gap_and_the_page_says_why_and_what_to_do(ratings, tmp_path):
    """Four letters would find no common stem in Dane and Danish, and take the echo for a gap of 8 points."""
    run = outside_run(tmp_path, ratings, groups(), n_permutations=100)
    row = echo_free(run)
    assert np.isnan(row["delta_points"])
    assert row["note"].startswith("no stem is stated for 'a Dane' and 5 more")
    page = (run / "report.html").read_text("utf-8")
    assert "No stem is stated for" in page
    assert "a column stem in groups=FILE" in page


def test_the_remedy_works_with_one_stem_a_group_and_with_two(ratings, tmp_path):
    (tmp_path / "one").mkdir()
    same = outside_run(tmp_path / "one", ratings, groups(lambda _, group: group), n_permutations=100)
    assert echo_free(same)["note"] == "every two terms of a group share a word or its stem"
    (tmp_path / "two").mkdir()
    other = outside_run(tmp_path / "two", ratings, groups(lambda term, _: term), n_permutations=100)
    assert echo_free(other)["delta_points"] == pytest.approx(GAP + ECHO, abs=1)
