"""A judge that scores one reply at a time by the criteria of a rubric; each criterion is a measure like any other.

The judge is an instruction-tuned model and is asked as the audited one is: its score of a criterion is the mean of its
distribution over the scale's numbers (``expected``), or the number that it writes (``generate``). It is told the
narrative, the experiencer and the reply; never the perceiver, nor which model wrote the reply. A score is what one
model says under one rubric: it is no person's judgement, and the reply itself can influence it
(:mod:`stimuli.rubrics`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from audit.asking.elicitation.base import Elicitation
from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.generate import GenerateElicitation
from audit.engines.base import OpenModel
from audit.tables.ratings import ElicitedRating, Status
from audit.tasks.measures.base import Measure, Reply
from stimuli.prompts import Scale
from stimuli.rubrics import Rubric

Method: TypeAlias = Literal["expected", "generate"]

BLANK: Final = "blank"  # counts replies of white space only, about which no judge is asked
MAX_TOKENS: Final = 32  # of an answer, for `generate`
CAUTION: Final = (
    "a model's score, not a person's: a judge has leanings of its own (to its own writing, to length, to whom a reply "
    "is to), and a reply may speak to it; see its own gap, and its agreement with people"
)
_PRUNED_SHARE: Final = 0.0005  # of the scale, as the ratings' 0.05 points of 100


def judge_facts(opened: OpenModel, *, model: str) -> dict[str, Any]:
    """Return what tells two judging models apart; ``model`` is the name or path as the user gave it."""
    return {
        "model": model,
        "revision": opened.source.revision,
        **opened.source.facts(),
        "engine": asdict(opened.engine.facts),
    }


def rubric_facts(rubric: Rubric, *, method: Method, max_tokens: int, shown_as: str) -> dict[str, Any]:
    """Return what tells two ways of asking a judge apart."""
    return {
        "rubric": rubric.name,
        "rubric_sha256": rubric.sha256,
        "method": method,
        "max_tokens": max_tokens if method == "generate" else None,
        "shown_as": shown_as,
    }


@dataclass
class RubricJudge:
    """Scores replies by a rubric; an :class:`audit.tasks.measures.base.Scorer`."""

    rubric: Rubric  # each criterion is a measure, judge_RUBRIC_CRITERION
    opened: OpenModel  # only one model is kept open, so open the judge once the audited one is not needed
    model: str  # name or path, as the user gave it
    method: Method
    max_tokens: int = MAX_TOKENS  # of an answer, for `generate`
    # What the judge reads in place of every experiencer, e.g. "a person": then only identities that narrative and reply
    # name can change a score. Empty shows each its own, and scores include the judge's bias towards experiencers.
    shown_as: str = ""
    counts: dict[str, dict[str, float]] = field(init=False, default_factory=dict)
    _elicitations: dict[str, Elicitation] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make an elicitation for each criterion's scale."""
        self.counts = {measure.name: defaultdict(float) for measure in self.measures}
        self._elicitations = {name: self._elicitation(asked.scale) for name, asked in self.rubric.criteria.items()}

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One measure for each criterion, in the rubric's order."""
        return tuple(
            Measure(
                name=f"judge_{self.rubric.name}_{name}",
                title=f"{name.replace('_', ' ').capitalize()}, as {self.model} judges it ({asked.low}–{asked.high})",
                unit="points",
                better="higher",
                source=f"{self.rubric.source}; judge {self.model}",
                caution=CAUTION,
                low=float(asked.low),
                high=float(asked.high),
            )
            for name, asked in self.rubric.criteria.items()
        )

    @property
    def facts(self) -> dict[str, Any]:
        """See :class:`audit.tasks.measures.base.Scorer`."""
        asked = rubric_facts(self.rubric, method=self.method, max_tokens=self.max_tokens, shown_as=self.shown_as)
        return judge_facts(self.opened, model=self.model) | asked

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return the scores in points; NaN if the judge gave none, which ``counts`` records."""
        columns = []
        for name, judged in self.judge(replies).items():
            self._count(self.counts[name], judged)
            scores = [one.intensity if one is not None and one.status is Status.RATED else np.nan for one in judged]
            columns.append(np.array(scores, dtype=np.float64))
        return np.column_stack(columns)

    def judge(self, replies: Sequence[Reply]) -> dict[str, list[ElicitedRating | None]]:
        """Return by measure the judge's answer about each reply, with status, text and mode; None if it is blank."""
        places = [place for place, reply in enumerate(replies) if reply.text.strip()]
        self.opened.engine.forget()
        judged: dict[str, list[ElicitedRating | None]] = {}
        for measure, (name, elicitation) in zip(self.measures, self._elicitations.items(), strict=True):
            prompts = [
                self.rubric.prompt(
                    name,
                    experiencer=self.shown_as or replies[place].experiencer,
                    narrative=replies[place].narrative,
                    reply=replies[place].text,
                )
                for place in places
            ]
            answers = elicitation.elicit(self.opened.engine, prompts) if prompts else []
            by_place = dict(zip(places, answers, strict=True))
            judged[measure.name] = [by_place.get(place) for place in range(len(replies))]
        return judged

    @staticmethod
    def _count(counts: dict[str, float], judged: Sequence[ElicitedRating | None]) -> None:
        for one in judged:
            counts[BLANK if one is None else one.status.value] += 1
            if one is not None and np.isfinite(one.number_mass):
                counts["mass"] += one.number_mass
                counts["with_mass"] += 1

    def _elicitation(self, scale: Scale) -> Elicitation:
        if self.method == "generate":
            return GenerateElicitation(scale, self.max_tokens, "scale")
        return ExpectedElicitation(scale, _PRUNED_SHARE * (scale.high - scale.low))
