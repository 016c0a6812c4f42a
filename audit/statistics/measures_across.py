"""Runs of replies side by side: δ of each measure, what changes in it against a reference, and in the replies at all.

The change of a gap is that of ratings: the two δ of a narrative are subtracted, so that what the narrative brings to
both drops out. Beside it stands the change of the measure's mean over all pairs: a run that writes otherwise to
everybody can change δ without telling groups apart otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError
from audit.statistics.across_runs import OTHER_TEXTS
from audit.statistics.cells import NarrativeCube
from audit.statistics.comparisons import Labelled, compare, difference, overall_row
from audit.statistics.contrasts import complete_narratives, in_group_weights
from audit.statistics.controls import Repetition
from audit.statistics.conversations import conversations_of, noted_over_conversations
from audit.statistics.echo import without_echo
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.families import adjust_p
from audit.statistics.headline import headline_gap
from audit.statistics.measures import Corpus, Measured, measure_tables
from audit.statistics.ratings import FloatArray, compact_ratings, split_ratings, without_dimensions
from audit.statistics.rows import Settings
from audit.tables.ratings import Status
from audit.tables.replies import SCORED
from audit.tables.reply_comparison import MEASURE_CHANGES
from audit.tables.shared import OVERALL
from audit.wording import either, plural

_ROUNDING: Final = 1e-12
"""Relative to the largest number: a difference that arithmetic alone makes."""
_UNIT: Final = (0.0, 1.0)
"""Stands for a measure's scale, so that its differences stay in its own unit."""
_PROMPT: Final = ["narrative_id", "perceiver", "experiencer"]
_INTERVAL: Final = ("se", "df", "ci_low", "ci_high", "p")
_NO_INTERVAL: Final = "no interval: utterances of a conversation are not independent"
_MEANS: Final = ("mean", "reference_mean", "mean_change", "mean_low", "mean_high")


@dataclass(frozen=True)
class RepliesOfRun:
    """One run's replies and what was measured of them.

    Attributes
    ----------
    replies
        Columns of ``tables.REPLIES``, one row a prompt, of one prompt variant, without invented groups.
    measured
        By name, the measures' values.
    gaps, controls
        Columns of ``tables.MEASURE_GAPS``, headlines alone, and of ``MEASURE_CONTROLS``.
    conversation_of
        Tells the conversation of a narrative that is an utterance of one; None where narratives are no utterances.
    """

    replies: pd.DataFrame
    measured: Mapping[str, Measured]
    gaps: pd.DataFrame
    controls: pd.DataFrame
    conversation_of: Callable[[str], str] | None = None
    repetition: Repetition = field(default_factory=Repetition)

    @classmethod
    def of(
        cls,
        replies: pd.DataFrame,
        measured: Sequence[Measured],
        *,
        seed: int,
        settings: Settings,
        conversation_of: Callable[[str], str] | None = None,
        repetition: Repetition | None = None,
    ) -> RepliesOfRun:
        """Estimate the run's own gaps, as its report does with the same seed and settings."""
        told = repetition or Repetition()
        tables = measure_tables(
            replies, measured, seed=seed, settings=settings, conversation_of=conversation_of, repetition=told
        )
        gaps = tables["measure_gaps"]
        headlines = gaps.loc[gaps["headline"].astype(bool)].reset_index(drop=True)
        return cls(
            without_dimensions(replies, told.placebo),
            {each.name: each for each in measured},
            headlines,
            tables["measure_controls"],
            conversation_of,
            told,
        )

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions in order of first appearance."""
        return tuple(map(str, self.replies["dimension"].unique()))

    @property
    def single_dimensions(self) -> tuple[str, ...]:
        """Those that the mean over all of them is of: no intersections."""
        return tuple(name for name in self.dimensions if "+" not in name)

    def between(self, dimension: str) -> pd.DataFrame:
        """Return the prompts of a dimension between its identities, baselines left out."""
        rows = self.replies
        return rows.loc[(rows["dimension"] == dimension) & rows["in_group"].notna().to_numpy()]

    def sd(self, measure: str) -> float:
        """Return the standard deviation (n − 1) of a measure among scored replies; NaN of a corpus or without any."""
        values = self.measured[measure].values
        if values is not None:
            values = values[values.index.isin(self.replies["prompt_index"])].dropna()
        known = np.empty(0) if values is None else values.to_numpy(dtype=np.float64)
        known = known[np.isfinite(known)]
        if known.size < 2 or np.ptp(known) <= _ROUNDING * np.abs(known).max():
            return float("nan")
        return float(known.std(ddof=1))

    def cubes(self, measure: str) -> dict[str, NarrativeCube]:
        """Lay a measure's numbers out by dimension, baselines left out; of a corpus 0 where a reply belongs to it.

        δ of a cube is echo-free where its terms allow that, as the run's own.
        """
        own = self.measured[measure]
        if own.values is None:
            numbers = np.where(self.replies["status"].isin(SCORED), 0.0, np.nan)
        else:
            numbers = self.replies["prompt_index"].map(own.values).to_numpy(dtype=np.float64)
        known = np.isfinite(numbers)
        asked = compact_ratings(
            self.replies.assign(
                status=np.where(known, Status.RATED.value, Status.UNPARSEABLE.value),
                intensity=np.where(known, numbers, np.nan),
                number_mass=np.nan,
                mode=np.nan,
            )
        )
        return {
            dimension: without_echo(
                NarrativeCube.from_ratings(part, dimension=dimension, variant=variant),
                self.repetition.stems.get(dimension, {}),
            )
            for dimension, variant, part in split_ratings(asked)
        }


_Gaps: TypeAlias = dict[str, tuple[NarrativeCube, Labelled | NotEstimableError]]
"""By dimension, a measure's numbers, baselines left out, and its gap."""


@dataclass(frozen=True)
class _Change:
    """What two runs have of a measure in one dimension: both gaps, and the two means narrative by narrative."""

    gaps: tuple[Labelled, Labelled] | NotEstimableError
    means: tuple[Labelled, Labelled] | None
    n_both: int


def change_rows(
    runs: Mapping[str, RepliesOfRun],
    *,
    references: Mapping[str, str],
    comparable: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Subtract the gaps of measures, each run's from its reference's, narrative by narrative.

    Parameters
    ----------
    runs
        By label.
    references
        By the label of a run that is compared, the label of the one that it is compared with.
    comparable
        By the label of a run that is compared, the measures that both have by the same scorer, in their order.
    texts
        By label, what the narratives' identifiers stand for: only runs in which it is the same are paired.
    confidence
        Coverage of the t intervals, between 0 and 1.

    Yields
    ------
    dict
        A row of ``tables.MEASURE_CHANGES`` but ``strategy`` and ``unit``, dimension by dimension, unrounded. What
        can not be estimated is a row of NaN with a note. The mean over all dimensions has rows where both runs asked
        about the same ones.

    Notes
    -----
    The change is that of :func:`audit.statistics.comparisons.compare`, of each narrative's own gaps. p is corrected by
    Holm over all changes of a dimension: of every measure, and of every run against its reference.

    The number of a corpus depends on which narratives it holds. So both runs' corpora are taken over the narratives
    that are complete in both, and the difference of the two jackknifed gaps is that of their pseudo-values, see
    :func:`audit.statistics.measures.measure_tables`; likewise of the mean over pairs.

    The change of the mean is of the pairs of a narrative that have a number in both runs, so that it does not move
    because other replies are missing; its t interval is over narratives.

    Of utterances the uncertainty is that of their conversations, as of a run's own gaps; see
    :func:`audit.statistics.conversations.over_conversations`. The number of a corpus has no interval then.
    """
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    known: dict[tuple[str, str], _Gaps] = {}  # a reference is that of several runs
    for label, reference in references.items():
        pair, names = (runs[label], runs[reference]), (label, reference)
        for measure in comparable[label]:
            for name, run in zip(names, pair, strict=True):
                if (name, measure) not in known:
                    known[name, measure] = _gaps_of(run, measure, name, confidence=confidence)
            gaps = known[label, measure], known[reference, measure]
            for dimension, change in _changes(pair, gaps, measure, names, confidence=confidence).items():
                if texts[label] != texts[reference]:
                    row = _blank(OTHER_TEXTS)
                else:
                    row = _row(change, dimension, measure, pair, confidence=confidence)
                whose = {"run": label, "reference": reference, "dimension": dimension, "measure": measure}
                rows[dimension].append(row | whose | _of_own_gaps(pair, names, measure, dimension, note=row["note"]))
    for dimension in sorted(rows, key=lambda name: name == OVERALL):
        family = rows[dimension]
        adjusted, size = adjust_p([row["p"] for row in family], method="Holm")
        for row, p in zip(family, adjusted.tolist(), strict=True):
            yield row | {"p_adjusted": p, "method": "Holm", "family_size": size}


def _changes(
    pair: tuple[RepliesOfRun, RepliesOfRun],
    gaps: tuple[_Gaps, _Gaps],
    measure: str,
    labels: tuple[str, str],
    *,
    confidence: float,
) -> dict[str, _Change]:
    """Estimate both gaps and means of a measure in each dimension that both runs have, and over all of them."""
    run, reference = pair
    made: dict[str, _Change] = {}
    for dimension in run.dimensions:
        if dimension not in reference.dimensions:
            continue
        (cube, own), (other_cube, other) = (each[dimension] for each in gaps)
        if run.measured[measure].corpus is not None:
            made[dimension] = _corpora(pair, measure, (cube, other_cube), labels, confidence=confidence)
            continue
        failed = next((each for each in (own, other) if isinstance(each, NotEstimableError)), None)
        both = failed or (own, other)
        means, n_both = _matched(pair, measure, dimension, labels, confidence=confidence)
        made[dimension] = _Change(both, means, n_both)  # type: ignore[arg-type]
    single = run.single_dimensions
    if len(single) > 1 and set(single) == set(reference.single_dimensions):
        made[OVERALL] = _overall({name: made[name] for name in single}, labels, confidence=confidence)
    return made


def _gaps_of(run: RepliesOfRun, measure: str, label: str, *, confidence: float) -> _Gaps:
    """Estimate a run's gap of a measure in each dimension, or say why not; the gap of a corpus is not needed."""
    found: _Gaps = {}
    for dimension, cube in run.cubes(measure).items():
        try:
            estimate = _gap(cube, confidence=confidence)
        except NotEstimableError as error:
            why = NotEstimableError(f"no change, since δ of {label} can not be estimated: {error}")
            found[dimension] = cube, why
        else:
            found[dimension] = cube, Labelled(label, estimate, cube.narrative_ids, _UNIT)
    return found


def _gap(cube: NarrativeCube, *, confidence: float) -> GapEstimate:
    """Estimate δ as of ratings; where all numbers are the same it is 0, which no model can be fitted to."""
    compared = cube.without_baselines()
    known = compared.y[~np.isnan(compared.y)]
    if not known.size:
        raise NotEstimableError("no reply between identities has a number")
    if np.ptp(known) > _ROUNDING * np.abs(known).max():
        return headline_gap(cube, confidence=confidence)
    in_group_weights(compared)  # or says why nothing can be compared
    none = np.where(np.isnan(compared.y).all(axis=(1, 2)), np.nan, 0.0)
    return summarise_contrasts(none, rounding=0.0, confidence=confidence, n_ratings=known.size)


def _matched(
    pair: tuple[RepliesOfRun, RepliesOfRun], measure: str, dimension: str, labels: Sequence[str], *, confidence: float
) -> tuple[tuple[Labelled, Labelled] | None, int]:
    """Return both runs' means by narrative, over the pairs that have a number in both, and how many these are."""
    sides = []
    for run in pair:
        rows = run.between(dimension)
        values = run.measured[measure].values
        assert values is not None
        numbers = rows["prompt_index"].map(values).to_numpy(dtype=np.float64)
        side = rows[_PROMPT].astype(str).assign(number=numbers)
        sides.append(side.loc[np.isfinite(numbers)])
    both = sides[0].merge(sides[1], on=_PROMPT, suffixes=("", "_reference"), validate="1:1")
    if both.empty:
        return None, 0
    means = both.groupby("narrative_id", sort=False)[["number", "number_reference"]].mean()
    least = _ROUNDING * float(both[["number", "number_reference"]].abs().max(axis=None))
    return _by_narrative(means.to_numpy(dtype=np.float64).T, tuple(means.index), labels, least, confidence), len(both)


def _by_narrative(
    means: FloatArray, narrative_ids: tuple[Any, ...], labels: Sequence[str], rounding: float, confidence: float
) -> tuple[Labelled, Labelled]:
    """Lay two runs' numbers, shape (2, N), out as estimates."""
    first, second = (
        Labelled(
            label,
            summarise_contrasts(own, rounding=rounding, confidence=confidence, n_ratings=0),
            narrative_ids,
            _UNIT,
        )
        for label, own in zip(labels, means, strict=True)
    )
    return first, second


def _corpora(
    pair: tuple[RepliesOfRun, RepliesOfRun],
    measure: str,
    cubes: Sequence[NarrativeCube],
    labels: Sequence[str],
    *,
    confidence: float,
) -> _Change:
    """Take both runs' corpora over the narratives that are complete in both."""
    compared = [cube.without_baselines() for cube in cubes]
    of_each = [
        {name for name, there in zip(cube.narrative_ids, complete_narratives(cube), strict=True) if there}
        for cube in compared
    ]
    names = tuple(name for name in compared[0].narrative_ids if name in of_each[0] & of_each[1])
    if len(names) < 2:
        reason = (
            f"{plural(len(names), 'narrative')} {either(len(names), 'has', 'have')} a reply to every pair in "
            "both: too few to take the replies together"
        )
        return _Change(NotEstimableError(reason), None, 0)
    gaps, means = [], []
    for run, cube in zip(pair, compared, strict=True):
        corpus = run.measured[measure].corpus
        assert corpus is not None
        try:
            weights = in_group_weights(cube)
        except NotEstimableError as error:
            return _Change(error, None, 0)
        numbers = _corpus_numbers(cube, run.between(cube.dimension), corpus, names)
        gaps.append(_pseudo_values(*numbers, weights))
        means.append(_pseudo_values(*numbers, np.full_like(weights, 1 / weights.size)))
    if not np.isfinite([*gaps, *means]).all():
        return _Change(NotEstimableError("a pair's replies, or all of them but one, have no such number"), None, 0)
    rounding = len(names) * _ROUNDING
    return _Change(
        _by_narrative(np.array(gaps), names, labels, rounding, confidence),
        _by_narrative(np.array(means), names, labels, rounding, confidence),
        len(names) * compared[0].in_group.size,
    )


def _corpus_numbers(
    cube: NarrativeCube, replies: pd.DataFrame, corpus: Corpus, names: Sequence[Any]
) -> tuple[FloatArray, FloatArray]:
    """Return each pair's number over these narratives, shape (P, E), and without each of them, (N, P, E)."""
    place = {name: k for k, name in enumerate(names)}
    whole = np.full(cube.in_group.shape, np.nan)
    without = np.full((len(names), *whole.shape), np.nan)
    own = replies.loc[replies["narrative_id"].isin(names)]
    for (perceiver, experiencer), texts in own.groupby(["perceiver", "experiencer"], observed=True, sort=False):
        p, e = cube.perceivers.index(perceiver), cube.experiencers.index(experiencer)
        whole[p, e], left = corpus(texts["text"].tolist())
        without[[place[name] for name in texts["narrative_id"]], p, e] = left
    return whole, without


def _pseudo_values(whole: FloatArray, without: FloatArray, weights: FloatArray) -> FloatArray:
    """Return a narrative's pseudo-value of a weighted sum over pairs; their mean is the sum over all narratives."""
    total, left = (whole * weights).sum(), (without * weights).sum(axis=(1, 2))
    pseudo: FloatArray = total + (len(without) - 1) * (left.mean() - left)
    pseudo[np.abs(pseudo) <= len(without) * _ROUNDING] = 0.0
    return pseudo


def _overall(parts: Mapping[str, _Change], labels: Sequence[str], *, confidence: float) -> _Change:
    """Average the dimensions' gaps and means, each dimension with the same weight."""
    gaps: tuple[Labelled, Labelled] | NotEstimableError
    failed = next((part.gaps for part in parts.values() if isinstance(part.gaps, NotEstimableError)), None)
    if failed is not None:
        gaps = failed
    else:
        try:
            gaps = _average([part.gaps for part in parts.values()], labels, confidence=confidence)  # type: ignore[misc]
        except NotEstimableError as error:
            gaps = error
    means = [part.means for part in parts.values() if part.means is not None]
    averaged = None
    if len(means) == len(parts):
        try:
            averaged = _average(means, labels, confidence=confidence)
        except NotEstimableError:
            averaged = None
    return _Change(gaps, averaged, sum(part.n_both for part in parts.values()))


def _average(
    pairs: Sequence[tuple[Labelled, Labelled]], labels: Sequence[str], *, confidence: float
) -> tuple[Labelled, Labelled]:
    found = []
    for side, label in enumerate(labels):
        parts = {str(place): pair[side] for place, pair in enumerate(pairs)}
        ids = {place: each.narrative_ids for place, each in parts.items()}
        mean = overall_row({place: each.estimate for place, each in parts.items()}, ids, confidence=confidence)
        asked = tuple(dict.fromkeys(key for own in ids.values() for key in own))
        found.append(Labelled(label, mean, asked, _UNIT))
    return found[0], found[1]


def _row(
    change: _Change, dimension: str, measure: str, pair: Sequence[RepliesOfRun], *, confidence: float
) -> dict[str, Any]:
    subtract = partial(
        _subtracted,
        dimension=dimension,
        conversation_of=pair[0].conversation_of,
        of_corpora=pair[0].measured[measure].corpus is not None,
        confidence=confidence,
    )
    row = _blank("") | {"n_both": change.n_both}
    if isinstance(change.gaps, NotEstimableError):
        row["note"] = str(change.gaps)
    else:
        found = subtract(change.gaps)
        copied = ("delta_change", "se", "df", "ci_low", "ci_high", "p", "n_narratives", "note")
        row |= {name: found[name] for name in copied}
        row |= {"delta": found["delta_first"], "reference_delta": found["delta_second"]}
    if change.means is not None:
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
    of_corpora: bool,
    confidence: float,
) -> dict[str, Any]:
    """Compare two estimates narrative by narrative; of utterances, with the uncertainty of their conversations."""
    [found] = compare(pair, dimension=dimension, confidence=confidence)
    try:
        change, shared = difference(*pair, confidence=confidence)
    except NotEstimableError:
        return found
    units = conversations_of(shared, conversation_of)
    if not units or not np.isfinite(found["se"]):
        return found
    if of_corpora:
        return found | dict.fromkeys(_INTERVAL, float("nan")) | {"note": _NO_INTERVAL}
    over, note = noted_over_conversations(change, units, confidence=confidence)
    return found | {name: getattr(over, name) for name in _INTERVAL} | {"note": note}


def _blank(note: str) -> dict[str, Any]:
    return dict.fromkeys(MEASURE_CHANGES, float("nan")) | {"n_narratives": 0, "n_both": 0, "note": note}


def _of_own_gaps(
    pair: Sequence[RepliesOfRun], labels: Sequence[str], measure: str, dimension: str, *, note: str
) -> dict[str, Any]:
    """Return what of a row is of each run's own gap: its replies, those without a number, and its note."""
    row: dict[str, Any] = {}
    notes: dict[str, list[str]] = {}
    columns = (("n_replies", "n_missing"), ("reference_replies", "reference_missing"))
    for run, label, (used, missing) in zip(pair, labels, columns, strict=True):
        of_measure = (run.gaps["measure"] == measure) & (run.gaps["scope"] == "narratives")
        [own] = run.gaps.loc[of_measure & (run.gaps["dimension"] == dimension)].to_dict("records")
        row |= {used: int(own["n_replies"]), missing: int(own["n_missing"])}
        if own["note"] and str(own["note"]) not in note:
            notes.setdefault(str(own["note"]), []).append(label)
    of_runs = [f"{' and '.join(names)}: {said}" for said, names in notes.items()]
    return row | {"note": "; ".join(filter(None, (note, *of_runs)))}
