"""The mean over dimensions: what its verdict names of each dimension, and that it has a value for each narrative."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from audit.statistics.average_gaps import _with_dimensions, limits_of_mean, overall_gaps
from audit.statistics.deciding_estimate import DecidedGap
from audit.statistics.estimates import summarise_contrasts
from audit.tables.shared import OVERALL


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


def test_a_mean_over_few_of_the_narratives_of_its_dimensions_is_held_back():
    # Of four narratives, two dimensions share those that are not NaN: their gaps alone make the mean.
    for n_shared, limits in ((4, set()), (3, {"incomplete_narratives"})):
        gaps = np.array([1.0, 2, 3, 4])
        made = summarise_contrasts(
            np.where(np.arange(4) < n_shared, gaps, np.nan), rounding=1e-12, confidence=0.95, n_answers=9
        )
        mean = DecidedGap("average", "", OVERALL, "origin", made, tuple("abcd"), (0.0, 100.0))
        assert made.n_narratives == n_shared
        assert limits_of_mean([frozenset({"noise_floor"}), frozenset()], mean) == limits
