"""Runs of replies side by side: δ of each measure, its change against a reference, and the change of the replies.

The change of a gap is computed as for ratings: each narrative's two δ are subtracted, so that the narrative's own
effect on both cancels. Beside it stands the change of the measure's mean over all pairs: a run that writes differently
to everybody can change δ without treating groups differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from audit.comparing.gaps import OTHER_TEXTS
from audit.comparing.tables import MEASURE_CHANGES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError, attempt
from audit.statistics.anchors import with_adjusted_p
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import Labelled, compare_estimates, difference, mean_of, over_groups, scope_of
from audit.statistics.contrasts import in_group_weights
from audit.statistics.controls import Repetition
from audit.statistics.conversations import conversations_of, noted_over_conversations
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.families import adjust_p
from audit.statistics.outcome import OWN_UNIT, ROUNDING, DimensionAnalysis, Outcome, is_constant
from audit.statistics.ratings import FloatArray, without_dimensions
from audit.statistics.scopes import slope_variance
from audit.tables.controls import CONTROLS
from audit.tables.gap import GAP
from audit.tables.shared import OVERALL
from audit.tasks.reply.gaps import analyse_outcomes, family_of, gap_rows_of, spread_among

_PROMPT: Final = ["narrative_id", "perceiver", "experiencer"]
_INTERVAL: Final = ("se", "df", "ci_low", "ci_high", "p")
_MEANS: Final = ("mean", "reference_mean", "mean_change", "mean_low", "mean_high")


@dataclass(frozen=True)
class RepliesOfRun:
    """One run's replies and their measures.

    Attributes
    ----------
    replies
        Columns of ``tables.REPLIES``, one row a prompt, of one prompt variant, without invented groups.
    outcomes
        The measures, by name.
    gaps, controls
        Columns of ``tables.GAP``, headlines only, and of ``CONTROLS``.
    own
        The gap narrative by narrative, or why there is none, by measure and dimension.
    conversation_of
        Maps a narrative to its conversation; None if narratives are no utterances.
    """

    replies: pd.DataFrame
    outcomes: Mapping[str, Outcome]
    gaps: pd.DataFrame
    controls: pd.DataFrame
    own: Mapping[str, Mapping[str, Labelled | NotEstimableError]]
    conversation_of: Callable[[str], str] | None = None

    @classmethod
    def of(
        cls,
        replies: pd.DataFrame,
        outcomes: Sequence[Outcome],
        *,
        seed: int,
        settings: AnalysisSettings,
        conversation_of: Callable[[str], str] | None = None,
        repetition: Repetition | None = None,
    ) -> RepliesOfRun:
        """Estimate the run's own gaps. They equal those of its report, given the same seed and settings."""
        told = repetition or Repetition()
        of_groups = without_dimensions(replies, told.placebo)
        gaps: list[dict[str, Any]] = []
        controls: list[dict[str, Any]] = []
        own: dict[str, dict[str, Labelled | NotEstimableError]] = {}
        for outcome, found in analyse_outcomes(
            replies, outcomes, seed=seed, settings=settings, conversation_of=conversation_of, repetition=told
        ):
            gaps += gap_rows_of(found, spread_among(outcome, of_groups))
            controls += (row for part in found.parts for row in part.repetition)
            own[outcome.name] = {part.cube.dimension: _own_gap(part) for part in found.parts}
        headlines = [row for row in with_adjusted_p(gaps, family_of=family_of) if row["headline"]]
        return cls(
            of_groups,
            {each.name: each for each in outcomes},
            pd.DataFrame(headlines, columns=list(GAP)),
            pd.DataFrame(controls, columns=list(CONTROLS)),
            own,
            conversation_of,
        )

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions in order of first appearance."""
        return tuple(map(str, self.replies["dimension"].unique()))

    @property
    def single_dimensions(self) -> tuple[str, ...]:
        """The dimensions that the overall mean covers: all but intersections."""
        return tuple(name for name in self.dimensions if "+" not in name)

    def between(self, dimension: str) -> pd.DataFrame:
        """Return a dimension's prompts between identities, without baselines."""
        rows = self.replies
        return rows.loc[(rows["dimension"] == dimension) & rows["in_group"].notna().to_numpy()]

    def sd(self, measure: str) -> float:
        """Return the standard deviation (n − 1) of a measure over scored replies."""
        return spread_among(self.outcomes[measure], self.replies)

    def gap(self, measure: str, dimension: str, label: str) -> Labelled:
        """Return the run's own gap under this label. NotEstimableError says why there is none."""
        own = self.own[measure][dimension]
        if isinstance(own, NotEstimableError):
            raise NotEstimableError(f"no change, since δ of {label} cannot be estimated: {own}")
        return replace(own, label=label)


_Pair: TypeAlias = tuple[Labelled, Labelled] | NotEstimableError
"""A number of two runs, narrative by narrative, or why there is none."""


@dataclass(frozen=True)
class _Change:
    """Both runs' gaps and means of a measure in one dimension; ``n_both`` counts pairs scored in both."""

    gaps: _Pair
    means: _Pair
    n_both: int


def change_rows(
    runs: Mapping[str, RepliesOfRun],
    *,
    references: Mapping[str, str],
    comparable: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Subtract each reference's gaps from those of the runs compared with it, narrative by narrative.

    Parameters
    ----------
    references
        By the label of each compared run, the label of its reference.
    comparable
        By the label of each compared run, the measures that both runs scored the same way, in their order.
    texts
        What the narrative identifiers stand for, by label: only runs with equal values are paired.

    Yields
    ------
    dict
        A row of ``tables.MEASURE_CHANGES`` without ``strategy``, dimension by dimension, unrounded. What cannot be
        estimated is a row of NaN with a note. The overall mean has rows if both runs asked about the same dimensions.

    Notes
    -----
    The change is that of :func:`.compare_estimates`, of each narrative's own gaps. p is corrected by
    Holm over all changes of a dimension: of every measure, and of every run against its reference.

    The change of the mean uses a narrative's pairs that have a number in both runs, so that missing replies do not move
    it; its t interval is over narratives.

    For utterances the uncertainty is that of their conversations, as for a run's own gaps; see
    :func:`audit.statistics.conversations.over_conversations`.
    """
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for label, reference in references.items():
        pair, names = (runs[label], runs[reference]), (label, reference)
        for measure in comparable[label]:
            for dimension, change in _changes(pair, measure, names, confidence=confidence).items():
                if texts[label] != texts[reference]:
                    row = _blank(OTHER_TEXTS)
                else:
                    row = _row(change, dimension, measure, pair, confidence=confidence)
                whose = {"run": label, "reference": reference, "dimension": dimension}
                named = runs[label].outcomes[measure].named(whose)
                rows[dimension].append(row | named | _of_own_gaps(pair, names, measure, dimension, note=row["note"]))
    for dimension in sorted(rows, key=lambda name: name == OVERALL):
        family = rows[dimension]
        adjusted, size = adjust_p([row["p"] for row in family], method="Holm")
        for row, p in zip(family, adjusted.tolist(), strict=True):
            yield row | {"p_adjusted": p, "method": "Holm", "family_size": size}


def _changes(
    pair: tuple[RepliesOfRun, RepliesOfRun], measure: str, labels: tuple[str, str], *, confidence: float
) -> dict[str, _Change]:
    """Estimate both runs' gaps and means of a measure in each shared dimension, and overall."""
    run, reference = pair
    made: dict[str, _Change] = {}
    for dimension in run.dimensions:
        if dimension not in reference.dimensions:
            continue
        gaps = attempt(partial(_gaps, pair, measure, dimension, labels))
        means, n_both = _matched(pair, measure, dimension, labels, confidence=confidence)
        made[dimension] = _Change(gaps, means, n_both)
    single = run.single_dimensions
    if len(single) > 1 and set(single) == set(reference.single_dimensions):
        made[OVERALL] = _overall({name: made[name] for name in single}, confidence=confidence)
    return made


def _gaps(
    pair: tuple[RepliesOfRun, RepliesOfRun], measure: str, dimension: str, labels: tuple[str, str]
) -> tuple[Labelled, Labelled]:
    first, second = (run.gap(measure, dimension, label) for run, label in zip(pair, labels, strict=True))
    return first, second


def _own_gap(part: DimensionAnalysis) -> Labelled | NotEstimableError:
    """Return δ from the narratives' own gaps. If all numbers are equal, δ is 0 and no model can be fitted."""
    compared = part.cube.without_baselines()
    known = ~np.isnan(compared.y)
    made = part.estimates.contrast
    if not known.any():
        made = NotEstimableError("no reply between identities has a number")
    elif is_constant(compared.y):
        made = attempt(partial(_no_gap, compared, confidence=part.settings.confidence))
    if isinstance(made, NotEstimableError):
        return made
    return Labelled("", made, part.cube.narrative_ids, OWN_UNIT, part.estimates.without("contrast"))


def _no_gap(compared: NarrativeCube, *, confidence: float) -> GapEstimate:
    in_group_weights(compared)  # raises NotEstimableError if nothing can be compared
    known = ~np.isnan(compared.y)
    none = np.where(known.any(axis=(1, 2)), 0.0, np.nan)
    return summarise_contrasts(none, rounding=0.0, confidence=confidence, n_answers=int(known.sum()))


def _matched(
    pair: tuple[RepliesOfRun, RepliesOfRun], measure: str, dimension: str, labels: Sequence[str], *, confidence: float
) -> tuple[_Pair, int]:
    """Return both runs' means by narrative over the pairs scored in both, and the number of these pairs."""
    sides = []
    for run in pair:
        rows = run.between(dimension)
        values = run.outcomes[measure].values
        assert values is not None
        numbers = rows["prompt_index"].map(values).to_numpy(dtype=np.float64)
        side = rows[_PROMPT].astype(str).assign(number=numbers)
        sides.append(side.loc[np.isfinite(numbers)])
    both = sides[0].merge(sides[1], on=_PROMPT, suffixes=("", "_reference"), validate="1:1")
    if both.empty:
        return NotEstimableError("no prompt has a number in both"), 0
    means = both.groupby("narrative_id", sort=False)[["number", "number_reference"]].mean()
    least = ROUNDING * float(both[["number", "number_reference"]].abs().max(axis=None))
    return _by_narrative(means.to_numpy(dtype=np.float64).T, tuple(means.index), labels, least, confidence), len(both)


def _by_narrative(
    means: FloatArray, narrative_ids: tuple[Any, ...], labels: Sequence[str], rounding: float, confidence: float
) -> tuple[Labelled, Labelled]:
    """Turn two runs' numbers by narrative, shape (2, N), into estimates."""
    first, second = (
        Labelled(
            label,
            summarise_contrasts(own, rounding=rounding, confidence=confidence, n_answers=0),
            narrative_ids,
            OWN_UNIT,
        )
        for label, own in zip(labels, means, strict=True)
    )
    return first, second


def _overall(parts: Mapping[str, _Change], *, confidence: float) -> _Change:
    """Average gaps and means over dimensions, with equal weights."""
    return _Change(
        attempt(partial(_average, {name: part.gaps for name, part in parts.items()}, confidence=confidence)),
        attempt(partial(_average, {name: part.means for name, part in parts.items()}, confidence=confidence)),
        sum(part.n_both for part in parts.values()),
    )


def _average(pairs: Mapping[str, _Pair], *, confidence: float) -> tuple[Labelled, Labelled]:
    """Average each run over dimensions. Raise NotEstimableError if a dimension has no number."""
    sides: tuple[dict[str, Labelled], dict[str, Labelled]] = ({}, {})
    for dimension, pair in pairs.items():
        if isinstance(pair, NotEstimableError):
            raise pair
        for side, each in zip(sides, pair, strict=True):
            side[dimension] = each
    return mean_of(sides[0], confidence=confidence), mean_of(sides[1], confidence=confidence)


def _row(
    change: _Change, dimension: str, measure: str, pair: Sequence[RepliesOfRun], *, confidence: float
) -> dict[str, Any]:
    subtract = partial(
        _subtracted,
        dimension=dimension,
        conversation_of=pair[0].conversation_of,
        confidence=confidence,
    )
    row = _blank("") | {"n_both": change.n_both}
    if isinstance(change.gaps, NotEstimableError):
        row["note"] = str(change.gaps)
    else:
        found = subtract(change.gaps)
        copied = ("delta_change", "scope", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "note")
        row |= {name: found[name] for name in copied}
        row |= {"delta": found["delta_first"], "reference_delta": found["delta_second"]}
    if not isinstance(change.means, NotEstimableError):
        found = subtract(change.means)
        numbers = ("delta_first", "delta_second", "delta_change", "ci_low", "ci_high")
        row |= {name: found[number] for name, number in zip(_MEANS, numbers, strict=True)}
    in_sd = {"change_sd": "delta_change", "sd_ci_low": "ci_low", "sd_ci_high": "ci_high"}
    in_sd |= {"mean_sd": "mean_change", "mean_sd_low": "mean_low", "mean_sd_high": "mean_high"}
    sd = pair[1].sd(measure)
    return row | {name: row[of] / sd for name, of in in_sd.items()}


def _subtracted(
    pair: tuple[Labelled, Labelled],
    *,
    dimension: str,
    conversation_of: Callable[[str], str] | None,
    confidence: float,
) -> dict[str, Any]:
    """Compare two estimates narrative by narrative; for utterances, with the uncertainty of their conversations."""
    [found] = compare_estimates(pair, dimension=dimension, confidence=confidence)
    try:
        change, shared = difference(*pair, confidence=confidence)
    except NotEstimableError:
        return found
    units = conversations_of(shared, conversation_of)
    if not units or not np.isfinite(found["se"]):
        return found
    over, note = noted_over_conversations(change, units, confidence=confidence)
    # Differences between utterances partly cancel in their conversation's mean, so its slopes vary less.
    slopes = min(slope_variance(over), over.se**2)
    wide = over_groups(over, *pair, confidence=confidence, slopes=slopes)
    return found | {name: getattr(wide, name) for name in _INTERVAL} | {"scope": scope_of(wide, over), "note": note}


def _blank(note: str) -> dict[str, Any]:
    return dict.fromkeys(MEASURE_CHANGES, float("nan")) | {"scope": "", "n_narratives": 0, "n_both": 0, "note": note}


def _of_own_gaps(
    pair: Sequence[RepliesOfRun], labels: Sequence[str], measure: str, dimension: str, *, note: str
) -> dict[str, Any]:
    """Return the columns about each run's own gap: its replies, those without a number, and its note."""
    row: dict[str, Any] = {}
    notes: dict[str, list[str]] = {}
    columns = (("n_answers", "n_missing"), ("reference_answers", "reference_missing"))
    for run, label, (used, missing) in zip(pair, labels, columns, strict=True):
        of_measure = (run.gaps["outcome"] == measure) & (run.gaps["scope"] == "narratives")
        [own] = run.gaps.loc[of_measure & (run.gaps["dimension"] == dimension)].to_dict("records")
        row |= {used: int(own["n_answers"]), missing: int(own["n_missing"])}
        if own["note"] and str(own["note"]) not in note:
            notes.setdefault(str(own["note"]), []).append(label)
    of_runs = [f"{' and '.join(names)}: {said}" for said, names in notes.items()]
    return row | {"note": "; ".join(filter(None, (note, *of_runs)))}
