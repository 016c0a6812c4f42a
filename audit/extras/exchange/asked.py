"""Exported prompts for a tool that asks them: messages, how to read an answer, and δ so far.

Answers are read by the same elicitation that `report` uses, and δ is the report's headline: least squares within each
narrative, echo-free if the terms allow it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Self

import pandas as pd

from audit.asking.collect import cell_columns
from audit.asking.elicitation.generate import GenerateElicitation
from audit.asking.plan import Plan
from audit.asking.prompt_export import Export
from audit.engines.answered import AnsweredEngine, FileAnswers
from audit.engines.base import Generated
from audit.errors import ConfigError, NotEstimableError, attempt
from audit.tables.controls import ComparedWords
from audit.tables.ratings import ElicitedRating, Status
from stimuli.files import open_file
from stimuli.languages import pack_replies
from stimuli.prompts import Prompt, Question
from stimuli.strategies import strategy_values

_FEWEST_PERMUTATIONS: Final = 100  # of the published form, which no metric shows


@dataclass(frozen=True)
class AskedRatings:
    """Prompts that ask for ratings, as ``prompts out=FILE.jsonl`` wrote them."""

    path: Path
    export: Export  # the file written beside it
    plan: Plan  # the run that the answers will become

    @classmethod
    def read(cls, prompts: Path) -> Self:
        """Read a file of prompts and what was written beside it; StoreError if they were changed since."""
        export = Export.read(prompts)
        plan = export.plan(model="asked elsewhere")
        if plan.grid.variant.scale is None:
            raise ConfigError(
                f"prompts={prompts} are of task={plan.config.task.kind} and ask for no rating, which this task "
                "needs; collect the answers with another tool, then run `python -m audit report answers=FILE`"
            )
        return cls(prompts, export, plan)

    @property
    def max_tokens(self) -> int:
        """Longest answer, in tokens."""
        return self.plan.config.elicitation.max_tokens

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the prompts as in the file: ``id``, ``messages`` and labels."""
        with io.TextIOWrapper(open_file(self.path), encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def place(self, name: str) -> int:
        """Return the ``prompt_index`` of a prompt from its id."""
        return int(name.rpartition("-")[2])

    def read_answer(self, place: int, written: Generated) -> ElicitedRating:
        """Read an answer to the prompt at ``place``, its ``prompt_index``. A text of None stands for no answer."""
        engine = AnsweredEngine(FileAnswers({place: written}, len(self.plan.grid), 0, 0, self.path, ""), by="")
        engine.at([place])
        return self._elicitation.elicit(engine, [self._prompt(place)])[0]

    def gaps(self, intensities: Mapping[int, float], *, confidence: float) -> dict[str, float]:
        """Estimate δ in each dimension from the ratings so far, in points by ``prompt_index``.

        For each dimension ``D``: ``D delta`` and, if they can be computed, ``D stderr``, ``D low`` and ``D high``, all
        in points, and ``D narratives``, their number. What cannot be estimated has no entry, nor have invented groups,
        which are a control.
        """
        from audit.statistics.cells import NarrativeCube
        from audit.statistics.echo import without_echo
        from audit.statistics.headline import headline_gap
        from audit.statistics.ratings import split_ratings

        dimensions = {each.name: each for each in self.plan.grid.dimensions if not each.placebo}
        found: dict[str, float] = {}
        if not intensities:
            return found
        for name, variant, part in split_ratings(self._rows(intensities)):
            if name not in dimensions:
                continue
            cube = NarrativeCube.from_ratings(part, dimension=name, variant=variant, baselines=True)
            asked = dimensions[name]
            free = without_echo(cube, asked.stems if asked.states_stems else ComparedWords(asked.stems))
            gap = attempt(partial(headline_gap, free, confidence=confidence))
            if isinstance(gap, NotEstimableError):
                continue
            told = {"delta": gap.delta, "stderr": gap.se, "low": gap.ci_low, "high": gap.ci_high}
            found |= {f"{name} {key}": value for key, value in told.items() if value == value}
            found[f"{name} narratives"] = gap.n_narratives
        return found

    def disparities(self, intensities: Mapping[int, float], *, confidence: float) -> dict[str, float]:
        """Estimate each group's disparity D from the ratings so far, in points by ``prompt_index``.

        For each dimension ``D`` and group ``G``: ``D G disparity`` and, if they can be computed, ``D G stderr``,
        ``D G low``, ``D G high`` and ``D G narratives``, by the estimate on which the report's answer rests.
        """
        from audit.configuration.analysis_settings import AnalysisSettings
        from audit.statistics.controls import Repetition
        from audit.statistics.disparity import disparity_gaps
        from audit.statistics.estimates import GapEstimate
        from audit.statistics.outcome import INTENSITY, analyse_outcome
        from audit.statistics.ratings import compact_ratings

        scale = self.plan.grid.variant.scale
        if not intensities or scale is None:
            return {}
        dimensions = self.plan.grid.dimensions
        settings = AnalysisSettings(confidence=confidence, n_permutations=_FEWEST_PERMUTATIONS)
        told = Repetition(
            {each.name: each.stems if each.states_stems else ComparedWords(each.stems) for each in dimensions},
            [each.name for each in dimensions if each.placebo],
        )
        rows = compact_ratings(self._rows(intensities))
        outcome = analyse_outcome(INTENSITY, rows, seed=0, settings=settings, repetition=told)
        scales = {self.plan.grid.variant.name: (float(scale.low), float(scale.high))}
        found: dict[str, float] = {}
        for gap in disparity_gaps(outcome, scales=scales, settings=settings, repetition=told):
            made = gap.made
            if isinstance(made, GapEstimate):
                values = {"disparity": made.delta, "stderr": made.se, "low": made.ci_low, "high": made.ci_high}
                start = f"{gap.dimension} {gap.member}"
                found |= {f"{start} {key}": value for key, value in values.items() if value == value}
                found[f"{start} narratives"] = made.n_narratives
        return found

    def _rows(self, intensities: Mapping[int, float]) -> pd.DataFrame:
        """Return ratings with the columns of ``tables.RATINGS``, in grid order."""
        grid = self.plan.grid
        cells = [grid[place] for place in sorted(intensities)]
        rows = pd.DataFrame(cell_columns(cells, grid.variant.name))
        values = [intensities[cell.index] for cell in cells]
        wording = [cell.wording for cell in cells]
        return rows.assign(status=Status.RATED.value, intensity=values, number_mass=None, mode=None, wording=wording)

    def _prompt(self, place: int) -> Prompt:
        """Return a prompt with what a parser needs. Strategies with stages are never exported."""
        values = strategy_values(self.plan.grid, self.plan.grid[place])
        last = self.plan.strategy.prompt_of(None, values, ())
        return replace(last, begun=self.plan.begun, question=Question.of(values))

    @cached_property
    def _elicitation(self) -> GenerateElicitation:
        scale, settings = self.plan.grid.variant.scale, self.plan.config.elicitation
        assert scale is not None
        return GenerateElicitation(scale, settings.max_tokens, settings.parser, pack_replies(self.plan.config.language))
