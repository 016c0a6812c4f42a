"""Who gets less in which measure of replies, on planted numbers: what is found, of whom, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from test_replies_controls import FIVE, INVENTED, ONE
from test_replies_page import replies_of

from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.numbers import rows_of
from audit.statistics.controls import Repetition
from audit.statistics.outcome import Outcome
from audit.tables.replies import MEASURES
from audit.tasks.reply.first_screen import CombinedVerdict, combined
from audit.tasks.reply.gaps import measure_tables
from audit.tasks.reply.measure_disparities import (
    CombinedDisparity,
    MeasureAnswer,
    combined_disparity,
)

Planted = Callable[[pd.DataFrame], np.ndarray]
ATTACK = '<script>alert("1")</script>'


@dataclass(frozen=True)
class Made:
    """What was found in planted replies: of groups, of δ, and the tables."""

    groups: CombinedDisparity
    gaps: CombinedVerdict
    disparity: pd.DataFrame
    measures: pd.DataFrame

    @property
    def found(self) -> dict[str, dict[str, str]]:
        """By measure, which groups are lower or higher."""
        return {
            each.name: {str(row["group"]): str(row["code"]) for row in each.said.found} for each in self.groups.found
        }

    def answer(self, name: str) -> MeasureAnswer:
        return next(each for each in self.groups.answers if each.name == name)

    def limits(self, name: str) -> set[str]:
        return {code for row in self.answer(name).groups for code in str(row["limits"]).split("; ")}


def made_of(
    planted: Mapping[str, Planted],
    *,
    groups: Mapping[str, list[str]] = FIVE,
    n: int = 24,
    sd: float = 1.0,
    invented: bool = False,
    silent: Planted | None = None,  # which replies were refused
) -> Made:
    """Analyse replies of which each measure is noise and what is planted; ``refused`` is measured if some were."""
    parts = [replies_of(groups, n=n, dimensions=("religion",))]
    parts += [replies_of(INVENTED, n=n, dimensions=("invented_1",))] if invented else []
    replies = pd.concat(parts, ignore_index=True).assign(prompt_index=lambda table: range(len(table)), status="written")
    refused = np.zeros(len(replies), dtype=bool) if silent is None else silent(replies).astype(bool)
    replies.loc[refused, "status"] = "refused"
    index = replies["prompt_index"]
    outcomes = []
    for place, (name, plant) in enumerate(planted.items()):
        values = plant(replies) + sd * np.random.default_rng(place).normal(0, 1, len(replies))
        outcomes.append(Outcome(name, unit="words", values=pd.Series(np.where(refused, np.nan, values), index=index)))
    if refused.any():
        shares = pd.Series(refused.astype(float), index=index)
        outcomes.append(Outcome("refused", unit="share of replies", values=shares, scale=(0.0, 1.0)))
    stems = {term: term for terms in groups.values() for term in terms}
    tables = measure_tables(
        replies, outcomes, seed=0, settings=AnalysisSettings(n_permutations=100),
        repetition=Repetition({"religion": stems}, placebo=("invented_1",) if invented else ()),
    )  # fmt: skip
    measures = pd.DataFrame(
        [
            dict.fromkeys(MEASURES, "")
            | {"measure": each.name, "title": f"Measure {each.name}", "unit": each.unit, "better": "neither"}
            for each in outcomes
        ]
    )
    named = {str(row["measure"]): row for row in rows_of(measures, "measures")}
    own = [row for row in rows_of(tables["disparity"], "disparity") if row["dimension"] == "religion"]
    verdicts = [row for row in rows_of(tables["verdicts"], "verdicts") if row["dimension"] == "religion"]
    return Made(
        combined_disparity(own, named, confidence=0.95), combined(verdicts, named, confidence=0.95),
        tables["disparity"], measures,
    )  # fmt: skip


def nothing(table: pd.DataFrame) -> np.ndarray:
    return np.zeros(len(table))


def to(group: str, by: float) -> Planted:
    """Plant that replies to one group have this much more, whoever writes them."""
    return lambda table: by * (table["experiencer_group"] == group).to_numpy(float)


def test_a_group_that_gets_shorter_replies_is_named_with_the_measure_and_by_how_much() -> None:
    """Replies to Muslims have 19 words fewer: D = −19 of them, and +19/4 of each other, who are not named for it."""
    made = made_of({"length": to("Muslim", -19.0), "other": nothing})
    assert made.found == {"length": {"Muslim": "lower"}}
    assert (made.groups.kind, made.groups.n_tested, made.gaps.found) == ("gap", 2, ())
    row = made.answer("length").said.row
    assert row is not None
    assert row["disparity"] == pytest.approx(-19, abs=0.5)
    assert row["ci_low"] < -19 < row["ci_high"]
    assert row["claim"] == "group"
    # Of five groups a fifth of all replies lacks 19 words: the spread is √(19² · 0.2 · 0.8 + 1) = 7.66.
    assert row["disparity_sd"] == pytest.approx(-19 / 7.66, rel=0.03)
    assert row["disparity_sd"] / row["disparity"] == pytest.approx(row["sd_ci_low"] / row["ci_low"])
    others = [each for each in made.answer("length").groups if each["group"] != "Muslim"]
    assert [each["disparity"] for each in others] == pytest.approx([19 / 4] * 4, abs=0.5)
    assert all("bystander" in each["limits"] for each in others)
    told = made.groups.in_short("95%")
    assert f'data-at="disparity:{row.line}:disparity"' in told
    assert "Muslim" in told
    assert "Hindu" not in told


def test_where_groups_get_the_same_no_measure_is_named_and_none_is_said_to_be_equal() -> None:
    made = made_of({"a": nothing, "b": nothing, "c": nothing})
    assert made.found == {}
    assert (made.groups.kind, made.groups.n_tested, made.groups.counted) == ("undecided", 3, " (3 compared)")
    assert made.groups.in_short("95%") == ""
    codes = {row["code"] for each in made.groups.answers for row in each.groups}
    assert codes == {"not_shown"}


def test_a_gap_of_the_own_group_is_no_group_that_gets_less() -> None:
    def own(table: pd.DataFrame) -> np.ndarray:
        return 3 * table["in_group"].to_numpy(bool).astype(float)

    made = made_of({"a": own})
    assert len(made.gaps.found) == 1
    assert made.found == {}


def test_of_one_term_a_group_the_words_may_be_what_is_lower() -> None:
    made = made_of({"length": to("Muslim", -19.0), "more": to("Jain", 5.0), "other": nothing}, groups=ONE)
    assert made.found == {"length": {"Muslim": "lower"}, "more": {"Jain": "higher"}}
    assert {row["claim"] for each in made.groups.found for row in each.said.found} == {"words"}
    assert made.limits("length") >= {"one_term"}


def test_invented_groups_tell_a_group_from_its_only_word() -> None:
    made = made_of({"length": to("Muslim", -19.0)}, groups=ONE, invented=True)
    assert [row["claim"] for each in made.groups.found for row in each.said.found] == ["group"]
    loud = made_of({"length": lambda t: to("Muslim", -3.0)(t) + 9 * to("Veltan", 1.0)(t)}, groups=ONE, invented=True)
    assert loud.found == {}
    assert made_of({"length": to("Muslim", -3.0)}, groups=ONE).found == {"length": {"Muslim": "lower"}}


def test_refusals_are_an_outcome_of_their_own_and_stand_first() -> None:
    """Half of the replies to Muslims are refused: D = +0.5. What they would have been could be anything."""

    def half(table: pd.DataFrame) -> np.ndarray:
        draws = np.random.default_rng(9).random(len(table))
        return (table["experiencer_group"] == "Muslim").to_numpy() & (draws < 0.5)

    made = made_of({"length": nothing}, silent=half)
    assert made.found == {"refused": {"Muslim": "higher"}}
    assert made.answer("refused").said.row["disparity"] == pytest.approx(0.5, abs=0.05)
    few = made_of({"length": to("Jain", -30.0)}, silent=half)
    assert [each.name for each in few.groups.found] == ["refused", "length"]  # although length differs by more SD
    assert abs(few.answer("length").said.row["disparity_sd"]) > abs(few.answer("refused").said.row["disparity_sd"])


def test_a_group_that_gets_no_reply_at_all_is_told() -> None:
    """It is the same in every narrative, so there is no test; and nothing is known of the length of such replies."""
    made = made_of({"length": nothing}, silent=lambda table: to("Muslim", 1.0)(table) > 0)
    assert made.found == {}
    [refused] = made.groups.unvaried
    assert (refused.name, refused.unvaried["group"]) == ("refused", "Muslim")
    assert refused.unvaried["disparity"] == pytest.approx(1.0)
    assert made.groups.in_short("95%")
    assert {row["code"] for row in made.answer("length").groups} == {"undecided"}
    assert made.limits("length") >= {"unrated_identity"}
    assert "Muslim" not in {row["group"] for row in made.answer("length").groups}


def test_what_differs_alike_in_every_narrative_is_told_and_not_tested() -> None:
    made = made_of({"length": to("Muslim", -19.0), "same": nothing}, sd=0.0)
    assert (made.groups.kind, made.groups.n_tested, made.found) == ("absent", 0, {})
    assert [each.name for each in made.groups.unvaried] == ["length"]
    row = made.answer("length").unvaried
    assert row is not None
    assert (row["group"], row["disparity"]) == ("Muslim", pytest.approx(-19))
    assert f'data-at="disparity:{row.line}:disparity"' in made.groups.in_short("95%")
    assert not made.answer("same").differs


def test_of_many_measures_the_largest_stand_first_and_the_others_are_named() -> None:
    sizes = {"a": -2.0, "b": -9.0, "c": 4.0, "d": -3.0}
    made = made_of({name: to("Muslim", by) for name, by in sizes.items()} | {"e": nothing})
    assert [each.name for each in made.groups.found] == ["b", "c", "d", "a"]
    assert made.found["c"] == {"Muslim": "higher"}
    assert (made.groups.n_tested, made.answer("e").said.found) == (5, ())
    told = made.groups.in_short("95%")
    assert told.count("<strong>") == 1
    assert all(f"Measure {name}" in told for name in sizes)


def test_p_is_corrected_for_the_groups_of_all_measures() -> None:
    """A gap that is found in one measure alone, and not among ten: Holm over five groups, times the measures."""
    one = {"a": to("Muslim", -0.45)}
    alone = made_of(one)
    many = made_of(one | {f"b{k}": nothing for k in range(9)})
    assert alone.found == {"a": {"Muslim": "lower"}}
    p = [
        next(row["p_adjusted"] for row in each.answer("a").groups if row["group"] == "Muslim") for each in (alone, many)
    ]
    assert p[1] == pytest.approx(min(10 * p[0], 1))


@pytest.mark.parametrize("n", [1, 5])
def test_few_narratives_find_nothing(n: int) -> None:
    made = made_of({"length": to("Muslim", -19.0)}, n=n)
    assert made.found == {}
    assert made.groups.kind in ("undecided", "absent")


def test_names_of_anybody_s_are_words_and_no_markup() -> None:
    hostile = {f"{name}{ATTACK}": [f"{term}{ATTACK}" for term in terms] for name, terms in FIVE.items()}
    made = made_of({f"m{ATTACK}": to(f"Muslim{ATTACK}", -19.0), "b": to(f"Muslim{ATTACK}", -9.0)}, groups=hostile)
    assert len(made.groups.found) == 2
    for told in (made.groups.in_short("95%"), made.groups.lead, *made.groups.lines("95%")):
        assert "<script" not in told
    assert "&lt;script" in made.groups.in_short("95%")
    assert "&amp;lt;" not in made.groups.in_short("95%")


def test_every_number_of_a_measure_in_sd_is_of_replies_to_real_groups() -> None:
    """Replies to invented groups have nine words more or less: these widen no spread."""
    loud: Planted = lambda t: 9 * to("Veltan", 1.0)(t) - 9 * to("Oml", 1.0)(t) + to("Muslim", -19.0)(t)  # noqa: E731
    made = made_of({"length": loud}, groups=ONE, invented=True)
    row = next(row for row in made.answer("length").groups if row["group"] == "Muslim")
    # √(19² · 0.25 · 0.75 + 1) = 8.29
    assert row["disparity_sd"] == pytest.approx(-19 / 8.29, rel=0.03)
    assert math.isfinite(row["sd_ci_high"])
