"""A measure of a run's replies beside people: agreement, error by group, and gaps corrected by people's scores."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import stats

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import ConfigError, NotEstimableError, StoreError, attempt
from audit.people.measure_agreement import people_tables
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import in_group_weights
from audit.statistics.controls import Repetition
from audit.statistics.conversations import told_apart_by
from audit.statistics.disparity_estimates import RatedView, rated_views
from audit.statistics.echo import without_echo
from audit.statistics.estimates import GapEstimate
from audit.statistics.families import adjust_p, estimate_contrasts
from audit.statistics.headline import headline_gap
from audit.statistics.outcome import Outcome
from audit.statistics.prediction_powered import Corrected, LabelledSample, Linear, Strata, correct, stratified
from audit.statistics.ratings import BASELINES, FloatArray, IntArray, without_dimensions
from audit.tables.base import Table, dictionary
from audit.tables.disparity import deciding_view
from audit.tables.formatting import brief, plural
from audit.tables.ratings import Status
from audit.tables.validation import CORRECTED_GAPS, LABELLED_REPLIES, MEASURE_ERRORS, VALIDATION_TABLES
from audit.tasks.registry import task_of
from audit.tasks.reply.gaps import ratings_of
from audit.tasks.reply.measure_values import measures_of
from audit.tasks.reply.scoring import read_scores
from stimuli.errors import StimulusError, suggest
from stimuli.tables import read_cells, read_numbers

_NAN: Final = float("nan")
_RATERS, _BOTH = "raters", "people and the measure"  # whose agreement a row of the table `agreement` is of
_NO_SPREAD: Final = "the scores do not show how narratives differ in it"
_OF_GAP: Final = ("estimate", "se", "df", "ci_low", "ci_high", "p")


@dataclass(frozen=True)
class Validation:
    """A measure beside people's scores of the same replies."""

    page: Path
    measure: Mapping[str, Any]  # its row of ``tables.MEASURES``
    tables: Mapping[str, pd.DataFrame]  # those of ``tables.VALIDATION_TABLES``
    confidence: float
    remarks: tuple[str, ...]


def validate_measure(
    path: Path, *, labels: Path, measure: str | None, question: str | None, command: str
) -> Validation:
    """Compare a measure of a complete run's replies with people's scores; write ``validation/MEASURE`` in its folder.

    ``labels`` has people's scores of a random sample of the replies: see :func:`read_labels`. ConfigError if the run,
    the measure or the labels cannot be used, or no gap can be corrected.
    """
    from audit.comparing.validation_page import render_validation

    manifest = Manifest.read(path)
    if "replies" not in task_of(manifest).forms:
        raise ConfigError(f"{path} is a run of task={manifest.task.kind}, which has no replies; task=reply makes one")
    if manifest.outside.replies:
        raise ConfigError(
            f"{path} has replies that were read from a file; judge validate takes those that a run asked for"
        )
    if manifest.status != "complete":
        raise StoreError(f"{path} is not finished; give its command again until all replies are there and scored")
    with RunFolder(path) as folder:
        every = folder.read("replies", n_prompts=manifest.n_prompts)
        replies = without_dimensions(every, manifest.placebo)
        described, outcomes = measures_of(manifest, every, read_scores(folder))
        outcome = _chosen(outcomes, described, measure)
        about = {
            str(name): value for name, value in described.loc[described["measure"] == outcome.name].iloc[0].items()
        }
        given = read_labels(labels, question=question, outcome=outcome, replies=every)
        repetition = Repetition(manifest.stems, manifest.placebo, manifest.cues, manifest.pairs_drawn)
        tables = validation_tables(
            replies,
            outcome,
            given,
            settings=manifest.statistics,
            seed=manifest.seed,
            repetition=repetition,
            source=manifest.stimuli.source,
        )
        gaps = tables["corrected_gaps"]
        if not gaps["estimate"].notna().any():
            raise ConfigError(f"labels={labels}: no gap can be corrected: {gaps['note'].iloc[0]}")
        remarks = (
            *_remarks(given, outcome, replies),
            *_unlike(tables["labelled_replies"], manifest.statistics),
            *_of_raters(given, replies, manifest.statistics),
            *_unordered(tables["human_correlations"]),
        )
        page = render_validation(
            tables, about, remarks=remarks, confidence=manifest.statistics.confidence, command=command
        )
        place = f"validation/{re.sub(r'[^a-z0-9_]', '_', outcome.name)}"  # a manifest that somebody sent names it
        folder.clear(place)
        for name, table in tables.items():
            folder.write_file(f"{place}/tables/{name}.csv", VALIDATION_TABLES[name].csv(table))
        folder.write_file(f"{place}/dictionary.csv", dictionary(VALIDATION_TABLES.values()))
        written = folder.write_file(f"{place}/validation.html", page.encode())
    return Validation(written, about, tables, manifest.statistics.confidence, remarks)


def _chosen(outcomes: Sequence[Outcome], described: pd.DataFrame, measure: str | None) -> Outcome:
    """Return the measure that is asked for, or the only one of a judge."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    if measure is None:
        judged = [name for name in by_name if name.startswith("judge_")]
        if len(judged) != 1:
            raise ConfigError(f"measure= must say which measure people scored; {suggest('', by_name)}")
        [measure] = judged
    if measure not in by_name:
        absent = dict(described.loc[described["status"] == "absent", ["measure", "note"]].to_numpy())
        why = f"it was not measured: {absent[measure]}" if measure in absent else suggest(measure, by_name)
        raise ConfigError(f"measure={measure}: the run has no such measure; {why}")
    return by_name[measure]


# --- Labels ----------------------------------------------------------------------------------------------------------


def read_labels(path: Path, *, question: str | None, outcome: Outcome, replies: pd.DataFrame) -> pd.DataFrame:
    """Read people's scores of replies: ``rater``, ``prompt_index`` and ``score``, one row a score.

    A CSV or Excel file has the columns ``prompt_index``, ``score`` and, if several people scored, ``rater``. Its column
    ``reply_sha256``, if there is one, has the SHA-256 of the reply that was scored, in UTF-8: labels of another run's
    replies are refused, of which without it nothing tells but an index that the run does not have. A file
    with a column ``question``, such as the run's ``people/ratings.csv``, is of several questions: ``question`` chooses
    one. Rows without a score are left out. StimulusError for a score off the measure's scale, a prompt that the run
    does not have, a reply that is another one, and two scores by one rater.
    """
    rows = read_cells(
        path, {"prompt_index": "prompt_index", "score": "score"}, of="labels", may_be_empty=("score",),
        may_be_missing=("rater", "question", "reply_sha256"), numbers=("score",),
        remedy="prompt_index is that of replies.parquet",
    )  # fmt: skip
    asked = dict.fromkeys(cells["question"] for _, cells in rows)
    if question is None and len(asked) > 1:
        raise ConfigError(f"labels={path}: holds several questions; choose one with question=: {', '.join(asked)}")
    if question is not None and question not in asked:
        raise ConfigError(f"question={question}: labels={path} has no such question; {suggest(question, asked)}")
    rows = [(place, cells) for place, cells in rows if cells["score"] and question in (None, cells["question"])]
    known = dict(zip(replies["prompt_index"].astype(int), replies["text"].fillna("").astype(str), strict=True))
    scores, wrong = read_numbers([cells["score"] for _, cells in rows])
    low, high = outcome.scale or (-np.inf, np.inf)
    seen: dict[tuple[str, int], str] = {}
    for number, ((place, cells), score) in enumerate(zip(rows, scores, strict=True)):
        index = cells["prompt_index"]
        if not (index.isascii() and index.isdigit() and int(index) in known):
            raise StimulusError(f"{place}: prompt_index {brief(index)!r} is of no reply of this run")
        told = cells["reply_sha256"].lower()
        if told and told != hashlib.sha256(known[int(index)].encode("utf-8", "surrogatepass")).hexdigest():
            raise StimulusError(
                f"{place}: reply_sha256 is not of this run's reply to prompt_index {index}: people scored another "
                "text; give the labels of this run"
            )
        if number in wrong:
            raise StimulusError(f"{place}: score {brief(cells['score'])!r} is not a number; correct or empty it")
        if not low <= score <= high:
            raise StimulusError(
                f"{place}: score {score:g} is beyond {low:g} to {high:g}, the scale of {outcome.name}: people must "
                "score on the measure's scale"
            )
        if other := seen.get(key := (cells["rater"], int(index))):
            who = f"by {brief(cells['rater'])}" if cells["rater"] else "without a rater"
            raise StimulusError(f"{place}: a second score of prompt_index {index} {who} (the first: {other}); keep one")
        seen[key] = place
    if not seen:
        raise StimulusError(f"{path}: has no score")
    return pd.DataFrame(
        {"rater": [rater for rater, _ in seen], "prompt_index": [index for _, index in seen], "score": scores}
    )


def _remarks(given: pd.DataFrame, outcome: Outcome, replies: pd.DataFrame) -> Iterator[str]:
    """Count what people scored, and what of it is in no gap; ``replies`` are those to real groups."""
    labelled = set(given["prompt_index"])
    n_raters = plural(given["rater"].nunique(), "rater")
    yield f"{plural(len(given), 'score')} of {plural(len(labelled), 'reply')} by {n_raters}."
    assert outcome.values is not None
    values = outcome.values.dropna()
    of_both = values.loc[values.index.isin(labelled)]
    if len(of_both):
        people = given.groupby("prompt_index")["score"].mean().loc[of_both.index]
        yield (
            f"People's scores are {people.min():.3g} to {people.max():.3g}, those of {outcome.name} for the same "
            f"replies {of_both.min():.3g} to {of_both.max():.3g}: both must be on one scale."
        )
    between = set(
        replies.loc[replies["in_group"].notna() | ~replies["experiencer_group"].isin(BASELINES), "prompt_index"]
    )
    for n, what in (
        (len(labelled - between), "to somebody without a group, or of an invented one"),
        (len((labelled & between) - set(values.index)), "without a score of the measure"),
    ):
        if n:
            yield f"In no gap: {plural(n, 'labelled reply')} {what}."


def _unlike(compared: pd.DataFrame, settings: AnalysisSettings) -> Iterator[str]:
    """Warn if labelled replies do not look like a random sample."""
    adjusted, _ = adjust_p(compared["p"].to_numpy(dtype=np.float64), method="Holm")
    for row, p in zip(compared.to_dict("records"), adjusted, strict=True):
        if p < settings.alpha:
            what = {
                "score": "mean the measure's score",
                "spread": "mean how far the measure's score is from its mean,",
                "place": "mean place in the run",
                "delta": "the measure's δ",
                "disparity": f"the measure's D of {brief(str(row['group']))}",
            }[row["what"]]
            yield (
                f"{row['dimension']}: the labelled replies do not look like a random sample: {what} "
                f"{row['labelled']:.3g} of these and {row['all']:.3g} of all. If chance did not choose them, the "
                "corrected gaps may be wrong."
            )


def _of_raters(given: pd.DataFrame, replies: pd.DataFrame, settings: AnalysisSettings) -> Iterator[str]:
    """Warn if some raters scored other groups than the others did: how severe they are would look like a gap."""
    about = given.merge(replies[["prompt_index", "experiencer_group", "in_group"]], on="prompt_index")
    for column, what in (("experiencer_group", "groups that are replied to"), ("in_group", "in-group and out-group")):
        counts = pd.crosstab(about["rater"], about[column].astype(object))
        if min(counts.shape) < 2:
            continue
        found = stats.chi2_contingency(counts, correction=False)
        if found.pvalue < settings.alpha / 2:
            rater, group = np.unravel_index((counts.to_numpy() - found.expected_freq).argmax(), counts.shape)
            who, name = (str(each) for each in (counts.index[rater], counts.columns[group]))
            whom = {"True": "in-group", "False": "out-group"}.get(name, f"to {brief(name)}")
            n, usual = counts.to_numpy()[rater, group], found.expected_freq[rater, group]
            yield (
                f"Raters scored unlike shares of {what}: {brief(who) or 'one'} scored {n} replies {whom}, and "
                f"{usual:.0f} if all had alike shares. If some raters are more severe than others, the corrected gaps "
                "are wrong: have each reply scored by all, or draw at random who scores which."
            )


def _unordered(correlated: pd.DataFrame) -> Iterator[str]:
    """Warn if the measure does not order replies as people do, as labels of other replies would show."""
    for row in correlated.loc[(correlated["emotion"] == "all") & ~(correlated["rho_low"] > 0)].to_dict("records"):
        if np.isfinite(row["rho_low"]):
            yield (
                f"The measure is not shown to order replies as people do: Spearman's ρ {row['rho']:.2f} "
                f"({row['rho_low']:.2f} to {row['rho_high']:.2f}). The labels may be of other replies, or people may "
                "have scored something else."
            )


# --- Statistics ------------------------------------------------------------------------------------------------------


def validation_tables(
    replies: pd.DataFrame,
    outcome: Outcome,
    given: pd.DataFrame,
    *,
    settings: AnalysisSettings,
    seed: int,
    repetition: Repetition,
    source: str,
) -> dict[str, pd.DataFrame]:
    """Return the tables of ``tables.VALIDATION_TABLES`` of one measure.

    ``replies`` are those to real groups, ``given`` the scores of :func:`read_labels`, and ``source`` that of the
    narratives: utterances are clustered by conversation.
    """
    people = given.groupby("prompt_index")["score"].mean()
    assert outcome.values is not None
    values = outcome.values.dropna()
    ratings = ratings_of(replies, outcome)
    parts = [
        _Part.of(
            own,
            repetition.cube_of(own, dimension=str(dimension), variant=str(variant), baselines=True),
            repetition.stems.get(str(dimension), {}),
            people,
            outcome,
            source,
            settings,
        )
        for (dimension, variant), own in ratings.groupby(["dimension", "variant"], observed=True, sort=False)
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        "corrected_gaps": [row for part in parts for row in part.gaps()],
        "measure_errors": [row for part in parts for row in part.errors()],
        "labelled_replies": [row for part in parts for row in part.compared()],
    }
    told = (CORRECTED_GAPS, MEASURE_ERRORS, LABELLED_REPLIES)
    tables = {each.name: pd.DataFrame(rows[each.name], columns=list(each)) for each in told}
    labels = given.assign(question=_RATERS)
    by_people = people_tables(
        labels, pd.DataFrame({outcome.name: values}), replies, seed=seed, confidence=settings.confidence
    )
    both = people.index.intersection(values.index)
    pair = pd.concat(
        pd.DataFrame({"rater": who, "prompt_index": both, "score": scores.loc[both].to_numpy(), "question": _BOTH})
        for who, scores in (("people", people), ("measure", values))
    )
    with_measure = people_tables(pair, pd.DataFrame(), replies, seed=seed, confidence=settings.confidence)
    tables["agreement"] = pd.concat([by_people["agreement"], with_measure["agreement"]], ignore_index=True)
    tables["human_correlations"] = by_people["human_correlations"]
    return {name: tables[name] for name in VALIDATION_TABLES}


@dataclass(frozen=True, eq=False)
class _Part:
    """One dimension and variant: all scored replies, and those of them that people scored."""

    cube: NarrativeCube  # with baselines; its δ is echo-free if the terms allow that
    scored: pd.DataFrame  # ratings with a score, ``place`` in the run and ``people``, NaN without labels
    clusters: IntArray  # shape (N,): the narrative's own number, or its conversation's
    outcome: Outcome
    settings: AnalysisSettings

    @classmethod
    def of(
        cls, prompts: pd.DataFrame, cube: NarrativeCube, stems: Mapping[str, str], people: pd.Series, outcome: Outcome,
        source: str, settings: AnalysisSettings,
    ) -> _Part:  # fmt: skip
        """Join the scores of people and of the measure."""
        scored = prompts.loc[prompts["status"] == Status.RATED.value]
        place = scored["prompt_index"].rank().to_numpy() - 1
        scored = scored.assign(place=place / max(len(scored) - 1, 1), people=scored["prompt_index"].map(people))
        unit_of = told_apart_by(source) or str
        clusters = pd.factorize(np.array([unit_of(str(name)) for name in cube.narrative_ids], dtype=object))[0]
        return cls(without_echo(cube, stems), scored, clusters.astype(np.int64), outcome, settings)

    @cached_property
    def view(self) -> RatedView | None:
        """The view that decides who gets less; None if fewer than two groups are compared."""
        views = {view.name: view for view in rated_views(self.cube) if view.side == "experiencer"}
        return views.get(deciding_view(views))

    def gaps(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``CORRECTED_GAPS``."""
        if self.cube.has_perceivers:
            compared = self.cube.without_baselines()
            yield from self._gap_rows(
                [("delta", "", attempt(lambda: headline_gap(compared, confidence=self.settings.confidence)))],
                attempt(lambda: in_group_weights(compared)[None]),
                compared,
            )
        if self.view is not None:
            weights = self.view.cells(self.view.of_groups)
            found = estimate_contrasts(
                self.view.y, weights, confidence=self.settings.confidence, levels=self.view.levels
            )
            made = [
                ("disparity", group, member.estimate or NotEstimableError(member.note))
                for group, member in zip(self.view.groups, found, strict=True)
            ]
            yield from self._gap_rows(made, weights, self.view.cube)

    def _gap_rows(
        self,
        made: Sequence[tuple[str, str, GapEstimate | NotEstimableError]],
        weights: FloatArray | NotEstimableError,
        cube: NarrativeCube,
    ) -> list[dict[str, Any]]:
        """Return the rows of some gaps; p is corrected for those of one estimator."""
        rows: list[dict[str, Any]] = []
        for number, (gap, group, judged) in enumerate(made):
            row = self._row(CORRECTED_GAPS) | {"gap": gap, "group": group}
            row |= dict.fromkeys(("n_replies", "n_narratives", "n_labels", "n_labelled_narratives", "n_strata"), 0)
            try:
                if isinstance(judged, NotEstimableError):
                    raise judged
                if isinstance(weights, NotEstimableError):
                    raise weights
                row |= {"n_replies": judged.n_answers, "n_narratives": judged.n_narratives}
                sample, strata = stratified(self._labelled(cube), weights[number].ravel(), _strata_of(cube))
            except NotEstimableError as error:
                rows.append(row | {"estimator": "ppi_tuned", "headline": True, "note": str(error)})
                continue
            row |= {
                "n_labels": sample.people.size,
                "n_labelled_narratives": np.unique(sample.clusters).size,
                "n_strata": strata.weights.size,
            }
            found = correct(judged, self.clusters, sample, strata, confidence=self.settings.confidence)
            for estimator, each in found.items():
                known = {"estimator": estimator, "headline": estimator == "ppi_tuned", "tuning": each.tuning}
                known |= {name: getattr(each, name) for name in _OF_GAP}
                rows.append(row | known | {"note": "" if each.se > 0 else _NO_SPREAD})
        for estimator in dict.fromkeys(row["estimator"] for row in rows):
            _with_holm([row for row in rows if row["estimator"] == estimator])
        return rows

    def errors(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``MEASURE_ERRORS``."""
        if self.view is not None:
            weights = self.view.cells(self.view.of_groups)
            means = self.view.cells(self.view.members[: len(self.view.groups)])
            rows = [
                self._error(self.view.cube, own, mean) | {"pairs": "experiencer", "group": group}
                for group, own, mean in zip(self.view.groups, weights, means, strict=True)
            ]
            yield from (self._itself(row, rows) for row in _with_holm(rows, alpha=self.settings.alpha))
        if self.cube.has_perceivers:
            compared = self.cube.without_baselines()
            own = attempt(lambda: in_group_weights(compared))
            if not isinstance(own, NotEstimableError):
                row = self._error(compared, own, None) | {"pairs": "in_group", "group": ""}
                yield from _with_holm([row], alpha=self.settings.alpha)

    def _itself(self, row: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Take back what is found of a group only because a group on the other side, which is farther off, is there."""
        assert self.view is not None
        farther = [
            place
            for place, other in enumerate(rows)
            if other["difference"] * row["difference"] < 0 and abs(other["difference"]) > abs(row["difference"])
        ]
        if row["code"] not in ("higher", "lower") or not farther or len(rows) < 3:
            return row
        weights = self.view.without(self.view.groups.index(row["group"]), farther) @ self.view.members
        rest = self._error(self.view.cube, self.view.cells(weights[None])[0], None)
        if rest["p"] < self.settings.alpha and rest["difference"] * row["difference"] > 0:
            return row
        named = ", ".join(brief(rows[place]["group"]) for place in farther)
        return row | {"code": "not_shown", "note": f"it differs only because {named} differs"}

    def _error(self, cube: NarrativeCube, weights: FloatArray, mean: FloatArray | None) -> dict[str, Any]:
        row = self._row(MEASURE_ERRORS) | {"code": "no_estimate", "n_labels": 0}
        try:
            sample, strata = stratified(self._labelled(cube), weights.ravel(), _strata_of(cube))
        except NotEstimableError as error:
            return row | {"note": str(error)}
        positive = strata.of_cell[np.flatnonzero(weights.ravel() > 0)]
        row["n_labels"] = int(np.isin(strata.of_cell[sample.cells], positive).sum())
        confidence, off = self.settings.confidence, sample.judge - sample.people

        def estimated(of: Strata) -> Corrected:
            linear = Linear.of_sample(off, sample, of, int(self.clusters.max()) + 1)
            return Corrected.of(linear, _NAN, confidence=confidence)

        found = estimated(strata)
        row |= {"difference": found.estimate, **{name: getattr(found, name) for name in _OF_GAP[1:]}}
        if mean is not None:
            there = strata.of_cell >= 0
            of_mean = np.bincount(strata.of_cell[there], weights=mean.ravel()[there], minlength=strata.weights.size)
            own = estimated(replace(strata, weights=np.asarray(of_mean, dtype=np.float64)))
            row |= {"error": own.estimate, "error_low": own.ci_low, "error_high": own.ci_high}
        return row | {"code": "not_shown", "note": "" if found.se > 0 else _NO_SPREAD}

    def compared(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``LABELLED_REPLIES``."""
        cube = self.cube.without_baselines() if self.cube.has_perceivers or self.view is None else self.view.cube
        every, labelled = self._sample(cube, self.scored), self._labelled(cube)
        if not (every.cells.size and labelled.cells.size):
            return
        sides = np.unravel_index(np.arange(cube.in_group.size), cube.in_group.shape)
        marks: list[tuple[str, str, FloatArray]] = []
        for what, groups, side in (
            ("experiencer", cube.experiencer_groups, sides[1]), ("perceiver", cube.perceiver_groups, sides[0]),
        ):  # fmt: skip
            own = np.array(groups, dtype=object)[side]
            marks += [(what, name, (own == name).astype(np.float64)) for name in dict.fromkeys(groups)]
        marks += [("in_group", "", cube.in_group.ravel().astype(np.float64))] if self.cube.has_perceivers else []
        for what, name, mark in marks:
            there = mark[labelled.cells]
            yield self._row(LABELLED_REPLIES) | {
                "what": what, "group": name, "labelled": float(there.mean()),
                "all": float(mark[every.cells].mean()), "n_labels": int(there.sum()),
            }  # fmt: skip
        uniform = np.full(cube.in_group.size, 1 / cube.in_group.size)
        means = [(what, "", uniform, cube) for what in ("score", "spread", "place")]
        # Low scores chosen of one group and high ones of another may leave the mean as it is, and alter the gaps.
        if self.cube.has_perceivers:
            own_gap = attempt(lambda: in_group_weights(cube))
            means += [] if isinstance(own_gap, NotEstimableError) else [("delta", "", own_gap, cube)]
        if self.view is not None:
            of_groups = self.view.cells(self.view.of_groups)
            means += [
                ("disparity", name, own, self.view.cube) for name, own in zip(self.view.groups, of_groups, strict=True)
            ]
        for what, name, weights, of in means:
            row = self._row(LABELLED_REPLIES) | {"what": what, "group": name}
            yield row | self._mean(what, weights.ravel(), of)

    def _mean(self, what: str, weights: FloatArray, cube: NarrativeCube) -> dict[str, Any]:
        """Compare a mean or a gap in the labelled replies with that in all."""
        labelled, every = self._labelled(cube), self._sample(cube, self.scored)
        try:
            _, strata = stratified(labelled, weights, _strata_of(cube))
        except NotEstimableError:
            return {"n_labels": labelled.cells.size}
        own, of_all = (each.part(strata.of_cell[each.cells] >= 0) for each in (labelled, every))
        n_clusters, mean = int(self.clusters.max()) + 1, of_all.judge.mean()

        def scores(of: _Replies) -> FloatArray:
            return of.place if what == "place" else np.abs(of.judge - mean) if what == "spread" else of.judge

        in_sample, in_all = (Linear.of_sample(scores(each), each, strata, n_clusters) for each in (own, of_all))
        found = Corrected.of(in_sample.plus(in_all, -1.0), _NAN, confidence=self.settings.confidence)
        return {"labelled": in_sample.value, "all": in_all.value, "p": found.p, "n_labels": own.cells.size}

    def _labelled(self, cube: NarrativeCube) -> _Replies:
        return self._sample(cube, self.scored.loc[self.scored["people"].notna()])

    def _sample(self, cube: NarrativeCube, rows: pd.DataFrame) -> _Replies:
        """Place replies among the cells of a cube; those to or by others are left out."""
        perceivers, experiencers, narratives = (
            rows[column].astype(object).map({name: k for k, name in enumerate(names)}).to_numpy(dtype=np.float64)
            for column, names in (
                ("perceiver", cube.perceivers), ("experiencer", cube.experiencers), ("narrative_id", cube.narrative_ids)
            )
        )  # fmt: skip
        there = ~np.isnan(perceivers) & ~np.isnan(experiencers)
        cells = perceivers[there] * len(cube.experiencers) + experiencers[there]
        own = rows.loc[there]
        return _Replies(
            people=own["people"].to_numpy(dtype=np.float64),
            judge=own["intensity"].to_numpy(dtype=np.float64),
            cells=cells.astype(np.int64),
            clusters=self.clusters[narratives[there].astype(np.int64)],
            place=own["place"].to_numpy(dtype=np.float64),
        )

    def _row(self, table: Table) -> dict[str, Any]:
        """Return an empty row of a table, with its place."""
        row = dict.fromkeys(table, _NAN) | {"dimension": self.cube.dimension, "variant": self.cube.variant}
        return self.outcome.named(row | ({"note": "", "family_size": 0} if "note" in table else {}))


@dataclass(frozen=True, eq=False)
class _Replies(LabelledSample):
    """Replies with their place in the run, from 0 to 1, shape (n,)."""

    place: FloatArray


def _strata_of(cube: NarrativeCube) -> tuple[list[str], list[str]]:
    """Return what tells the cells of a stratum, finest first: both groups, or the experiencer's alone."""
    pairs = [(own, other) for own in cube.perceiver_groups for other in cube.experiencer_groups]
    return [f"{own} to {other}" for own, other in pairs], [f"replies to {other}" for _, other in pairs]


def _with_holm(rows: list[dict[str, Any]], *, alpha: float = _NAN) -> list[dict[str, Any]]:
    """Correct the p of a family; with ``alpha``, say which errors are found."""
    adjusted, size = adjust_p([row["p"] for row in rows], method="Holm")
    for row, p in zip(rows, adjusted.tolist(), strict=True):
        row |= {"p_adjusted": p, "family_size": size}
        if p < alpha:
            row["code"] = "higher" if row["difference"] > 0 else "lower"
    return rows
