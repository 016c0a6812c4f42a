"""The mean over dimensions: what its verdict names of each dimension, and that it has a value for each narrative."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from audit.statistics.average_gaps import _with_dimensions, limits_of_mean, overall_gaps
from audit.statistics.deciding_estimate import DecidedGap
from audit.statistics.estimates import summarise_contrasts
from audit.statistics.verdict import Limits, decide_verdicts
from audit.tables.shared import OVERALL

SCALE = (0.0, 100.0)


@dataclass(frozen=True)
class Said:
    """What of a verdict is read."""

    dimension: str
    code: str
    size: str = ""
    variant: str = "origin"
    parts_beyond: tuple[str, ...] = ()
    parts_not_shown: tuple[str, ...] = ()


FOUND = (
    Said("religion", "gap", "beyond", parts_beyond=("joy",)),
    Said("nationality", "gap"),
    Said("gender", "within", parts_not_shown=("fear",)),
    Said("class", "undecided"),
    Said("religion+gender", "gap", "beyond"),
    Said("age", "gap", "beyond", variant="persona-1"),
)


def test_dimensions_of_this_variant_are_named_alone_and_no_intersections():
    overall = _with_dimensions(Said(OVERALL, "gap"), FOUND, with_margin=True)
    assert overall.parts_beyond == ("religion", "joy (religion)")
    assert overall.parts_not_shown == ("nationality", "fear (gender)", "class")


def test_without_a_margin_every_gap_that_is_found_is_named():
    overall = _with_dimensions(Said(OVERALL, "gap"), FOUND, with_margin=False)
    assert overall.parts_beyond == ("religion", "joy (religion)", "nationality")
    assert overall.parts_not_shown == ("fear (gender)",)


def test_the_mean_has_a_value_of_each_narrative():
    own = [
        DecidedGap("average", "", name, "origin", made, tuple("abcd"), (0.0, 100.0))
        for name, made in (
            (name, summarise_contrasts(np.array(gaps), rounding=1e-12, confidence=0.95, n_answers=9))
            for name, gaps in (("religion", [1.0, 2, 3, 4]), ("gender", [3.0, 2, 5, 8]))
        )
    ]
    row = dict.fromkeys(("delta", "se", "df", "ci_low", "ci_high", "p", "d_z"), 1.0) | {
        "dimension": OVERALL, "variant": "origin", "scope": "narratives", "note": "", "n_narratives": 4,
        "n_narratives_asked": 4, "n_answers": 18,
    }  # fmt: skip
    [mean] = overall_gaps(SimpleNamespace(gap=[row]), own, {"origin": (0.0, 100.0)}, confidence=0.95)
    assert mean.made.by_narrative.tolist() == [2, 2, 4, 6]
    assert mean.narrative_ids == tuple("abcd")


@pytest.mark.parametrize(
    ("of_religion", "of_gender", "limits"),
    [
        ("abcde", "abcde", set()),
        ("abcde", "abcd", set()),  # 4 of 5 in common
        ("abcd", "abce", {"few_shared"}),  # 3 of 5
        ("abcde", "ab---", {"incomplete_narratives"}),  # gender was asked about all, and has no gap of three
        ("ab", "cd", {"few_shared"}),
    ],
)
def test_a_mean_over_few_of_the_narratives_of_its_dimensions_is_held_back(of_religion, of_gender, limits):
    own = []
    for name, ids in (("religion", of_religion), ("gender", of_gender)):
        gaps = np.where([each == "-" for each in ids], np.nan, np.arange(len(ids), dtype=float))
        made = summarise_contrasts(gaps, rounding=1e-12, confidence=0.95, n_answers=9)
        own.append(DecidedGap("average", "", name, "origin", made, tuple("abcde") if "-" in ids else tuple(ids), SCALE))
    n, n_asked = len({*of_religion} & {*of_gender}), len({*of_religion, *of_gender} - {"-"})
    numbers = dict.fromkeys(("delta", "se", "df", "ci_low", "ci_high", "p", "d_z"), 1.0 if n else math.nan)
    row = numbers | {
        "dimension": OVERALL, "variant": "origin", "scope": "narratives", "note": "" if n else "no narrative",
        "n_narratives": n, "n_narratives_asked": n_asked, "n_answers": 18,
    }  # fmt: skip
    [mean] = overall_gaps(SimpleNamespace(gap=[row]), own, {"origin": SCALE}, confidence=0.95)
    codes = limits_of_mean([frozenset({"noise_floor"}), frozenset()], mean)
    assert codes == limits
    _, [verdict] = decide_verdicts(
        [mean], Limits(codes), margin=None, least_gap=1.0, alpha=0.05, power=0.8
    )  # fmt: skip
    # Nothing is missing that could be looked for: each dimension has its own answer.
    assert (verdict.next_step == "shared_narratives") == (limits == {"few_shared"})
    assert (verdict.code == "no_estimate") == (n == 0)
