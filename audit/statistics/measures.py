"""δ of each measure of replies, by the estimators of ratings; of a measure of whole corpora, by a jackknife."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from audit.errors import NotEstimableError, attempt
from audit.statistics.cells import NarrativeCube, cell_table
from audit.statistics.comparisons import Labelled
from audit.statistics.contrasts import complete_narratives, in_group_weights
from audit.statistics.controls import Dependent, Repetition
from audit.statistics.conversations import (
    conversations_of,
    gaps_over_conversations,
    noted_over_conversations,
    told_apart_by,
)
from audit.statistics.estimates import GapEstimate, summarise_contrasts
from audit.statistics.families import Over, adjust_p, family_rows
from audit.statistics.ratings import BoolArray, FloatArray, compact_ratings, without_dimensions
from audit.statistics.remarks import FEW_NARRATIVES, MISSING_SHARE, Remark
from audit.statistics.rows import Estimates, Settings, gap_rows, overall_rows
from audit.tables.ratings import Status
from audit.tables.replies import (
    MEASURE_CELLS,
    MEASURE_CONTROLS,
    MEASURE_FAMILIES,
    MEASURE_GAPS,
    REPLY_OUTCOMES,
    SCORED,
    ReplyStatus,
)
from audit.wording import count, either, plural, rate

Corpus: TypeAlias = Callable[[Sequence[str]], tuple[float, FloatArray]]
"""From the texts of a corpus to its number, and to the number without each of them, shape (n_texts,)."""

_ESTIMATORS: Final = ("contrast", "mixed")
_JACKKNIFE: Final = "jackknife"
_PEOPLE: Final = "people_"
"""What the names of people's questions begin with."""
_NO_INTERVAL: Final = "no interval: utterances of a conversation are not independent"
_RENAMED: Final = {"delta_points": "delta", "change_points": "change", "n_ratings": "n_replies"}
_INTERVAL: Final = ("se", "df", "ci_low", "ci_high", "p")
_DEPENDENT: Final = (*_INTERVAL, "p_sign_flip")
_ROUNDING: Final = 1e-12
"""Of a diversity, which is a share, or relative to the largest number: a difference that arithmetic alone makes."""
_STATUS_OF: Final = {ReplyStatus.REFUSED: Status.REFUSED, ReplyStatus.FAILED: Status.FAILED}


@dataclass(frozen=True)
class Measured:
    """What was measured: ``values`` by ``prompt_index``, NaN where a reply has no such number; or a corpus' number."""

    name: str
    values: pd.Series | None = None
    corpus: Corpus | None = None


def measure_tables(
    replies: pd.DataFrame,
    measured: Sequence[Measured],
    *,
    seed: int,
    settings: Settings,
    valence: Mapping[str, str] | None = None,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
    conversation_of: Callable[[str], str] | None = None,
    repetition: Repetition | None = None,
) -> dict[str, pd.DataFrame]:
    """Estimate the gap of each measure in each dimension.

    Parameters
    ----------
    replies
        Columns of ``tables.REPLIES``, one row a prompt. Not modified.
    measured
        The measures, in the order of the tables.
    seed
        With the names of dimension and variant it seeds each one's draws: all measures have their signs flipped alike.
    settings
        How, as of ratings; the margin and what plans a study are in points, and not used.
    valence, clusters
        As for :func:`~audit.statistics.analysis.analyse`.
    conversation_of
        Tells the conversation of a narrative that is an utterance of one; None where narratives are no utterances.
    repetition
        What tells repeated words from groups; sets of invented groups are in ``measure_controls`` and in no other
        table.

    Returns
    -------
    dict
        ``measure_gaps``, ``measure_controls``, ``measure_families``, ``measure_cells`` and ``reply_outcomes``,
        unrounded. What can not be estimated is a row of NaN with a note.

    Notes
    -----
    A reply without a number is a prompt without a rating: refused, failed or unparseable to the estimators. δ of a
    measure that is 1 or 0 is a difference of shares, by the same linear estimators: narratives' own gaps need no model
    of 0 and 1; the mixed model's residuals are not normal then, but a variance that differs in-group goes into that of
    the narratives' gaps. Where few narratives hold both a 0 and a 1, neither knows much, and the note says so.

    The number of a corpus, such as the share of distinct words, falls with the size of the corpus: pairs are compared
    on the narratives that all of them have a reply to. Its gap is the contrast δ of the pairs' numbers. With δ₋ₙ the
    same without narrative n in all pairs, its standard error is √((N − 1)/N · Σ(δ₋ₙ − δ̄₋)²) [1]_, which is not too
    small on average whatever the number [2]_. The narratives' pseudo-values δ + (N − 1)(δ̄₋ − δ₋ₙ) have δ as their mean:
    Tukey's own N·δ − (N − 1)·δ₋ₙ would shift it to what an endless corpus has, of which a share of distinct words says
    nothing.

    Utterances of a conversation are not independent. Where there are fewer conversations than narratives, se, df,
    interval and p of a gap, and of the contrasts beneath it, are those of
    :func:`~audit.statistics.conversations.over_conversations`. The number of a corpus has none then: what leaving a
    conversation out does to it is no sum of what leaving its utterances out does.

    References
    ----------
    .. [1] Tukey (1958), Bias and confidence in not quite large samples, Annals of Mathematical Statistics 29, 614.
    .. [2] Efron and Stein (1981), The jackknife estimate of variance, Annals of Statistics 9(3), 586–596.
    """
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    frames: list[pd.DataFrame] = []
    told = repetition or Repetition()
    asked = compact_ratings(_without_numbers(replies))
    of_groups = without_dimensions(replies, told.placebo)
    for measure in measured:
        gap: list[dict[str, Any]] = []
        labelled: defaultdict[str, list[Labelled]] = defaultdict(list)
        found_of: list[tuple[NarrativeCube, Estimates]] = []
        dependent = False
        values = _finite(measure.values) if measure.values is not None else _any_text(replies)
        corpora = None if measure.corpus is None else _Corpora(replies, measure.corpus, settings.confidence)
        controlled = told.controlled(
            _with_numbers(asked, replies, values),
            confidence=settings.confidence,
            gap_of=None if corpora is None else corpora.gap,
            dependent=_dependent(conversation_of, of_corpora=corpora is not None, confidence=settings.confidence),
        )
        for cube, part, controls in controlled:
            dimension, variant = cube.dimension, cube.variant
            units = conversations_of(cube.narrative_ids, conversation_of)
            dependent |= bool(units)
            for row in controls:
                row = row if corpora is None else row | {"estimator": _JACKKNIFE}
                rows["measure_controls"].append(_in_unit(row, measure.name))
            if corpora is not None:
                made = attempt(partial(corpora.gap, cube))
                gap.append(_corpus_row(cube, made))
                estimate = made if isinstance(made, GapEstimate) else None
                cells = corpora.cells(cube)
            else:
                found = Estimates.of(cube, seed=seed, settings=settings, published=False)
                gap += _reply_rows(cube, found, _n_numberless(replies, part), confidence=settings.confidence)
                estimate = found.headline if isinstance(found.headline, GapEstimate) else None
                found_of.append((cube, found))
                cells = cell_table(part).rename(columns={"n_rated": "n_scored"})
                rows["measure_families"] += (
                    _in_unit(row, measure.name)
                    for row in family_rows(
                        cube,
                        confidence=settings.confidence,
                        valence=valence or {},
                        clusters=(clusters or {}).get(dimension, {}),
                        over=_over(units, confidence=settings.confidence) if units else None,
                    )
                )
            frames.append(cells.assign(measure=measure.name))
            if estimate is not None:
                labelled[dimension].append(Labelled(variant, estimate, cube.narrative_ids, (0.0, 1.0)))
        overall = overall_rows(gap, labelled, confidence=settings.confidence)
        gap += [row | {"estimator": _JACKKNIFE} if measure.corpus is not None else row for row in overall]
        if dependent and conversation_of is not None:
            if measure.corpus is not None:
                gap = [_without_interval(row) for row in gap]
            else:
                gap = gaps_over_conversations(gap, found_of, labelled, conversation_of, seed=seed, settings=settings)
        sd = float("nan") if measure.corpus is not None else _sd(values[values.index.isin(of_groups["prompt_index"])])
        rows["measure_gaps"] += (_in_unit(row, measure.name) | _standardised(row, sd) for row in gap)
    _adjust(rows["measure_gaps"])
    frames = [frame for frame in frames if len(frame)]
    cells = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(MEASURE_CELLS))
    return {
        "measure_gaps": _ordered(rows["measure_gaps"], MEASURE_GAPS),
        "measure_controls": _ordered(rows["measure_controls"], MEASURE_CONTROLS),
        "measure_families": _ordered(rows["measure_families"], MEASURE_FAMILIES),
        "measure_cells": _ordered(cells, MEASURE_CELLS),
        "reply_outcomes": _ordered(list(_outcome_rows(of_groups)), REPLY_OUTCOMES),
    }


def remarks_on_replies(
    replies: pd.DataFrame, *, source: str, files: Mapping[str, str], scorers: Mapping[str, Mapping[str, str]]
) -> Iterator[Remark]:
    """Yield what a reader must know before trusting the gaps of measures.

    Parameters
    ----------
    replies
        Columns of ``tables.REPLIES``.
    source
        Where the narratives are from.
    files
        SHA-256 of the files of the model that wrote the replies, by name.
    scorers
        The same of each scorer's model, by the scorer.
    """
    conversation_of = told_apart_by(source)
    for (dimension, variant), own in replies.groupby(["dimension", "variant"], observed=True, sort=False):
        between = own.loc[own["in_group"].notna().to_numpy()]
        status = between["status"].astype(str)
        n_missing = int((~status.isin(SCORED)).sum())
        for code, n, text in (
            (
                "replies_missing",
                n_missing,
                "{} of {} between identities {} refused, empty, failed or in another script",
            ),
            ("replies_cut", int((status == ReplyStatus.CUT.value).sum()), "{} of {} between identities {} cut"),
        ):
            if n > MISSING_SHARE * len(between):
                said = text.format(count(n), plural(len(between), "prompt"), either(n, "was", "were"))
                yield Remark(str(dimension), str(variant), code, f"{said} ({rate(n / len(between))}).")
        names = between["narrative_id"].astype(str).drop_duplicates()
        units = names if conversation_of is None else names.map(conversation_of)
        kind, n_units = "narrative" if conversation_of is None else "conversation", units.nunique()
        if n_units < FEW_NARRATIVES:
            yield Remark(
                str(dimension),
                str(variant),
                "few_narratives",
                f"Each δ comes from {plural(n_units, kind)}: its interval leans on how these few differ, and takes it "
                f"that such {kind}s' gaps are spread about normally.",
            )
    weights = weights_of(files)
    for scorer, own_files in scorers.items():
        if weights & weights_of(own_files):
            yield Remark(
                "",
                "",
                "own_scorer",
                f"The model that took {scorer} is the one that wrote the replies: its numbers say how the model sees "
                "its own words.",
            )


def weights_of(files: Mapping[str, str]) -> set[str]:
    """Return the hashes of a model's weights."""
    return {digest for name, digest in files.items() if name.endswith((".safetensors", ".bin", ".gguf"))}


def _without_numbers(replies: pd.DataFrame) -> pd.DataFrame:
    """Take each prompt as one that asked for a rating and got none."""
    status = replies["status"].astype(str).map(lambda name: _STATUS_OF.get(ReplyStatus(name), Status.UNPARSEABLE).value)
    blank = pd.Series(np.nan, index=replies.index)
    return replies.assign(status=status, intensity=blank, number_mass=blank, mode=blank)


def _with_numbers(asked: pd.DataFrame, replies: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """Give each prompt the number of its reply in place of an intensity."""
    numbers = replies["prompt_index"].map(values).to_numpy(dtype=np.float64)
    status = asked["status"].mask(~np.isnan(numbers), Status.RATED.value)
    return asked.assign(status=status, intensity=numbers)


def _finite(values: pd.Series) -> pd.Series:
    return values.where(np.isfinite(values))


def _any_text(replies: pd.DataFrame) -> pd.Series:
    """Give each prompt a number where its reply belongs to a corpus."""
    return pd.Series(np.where(_is_scored(replies), 0.0, np.nan), index=replies["prompt_index"].to_numpy())


def _is_scored(replies: pd.DataFrame) -> BoolArray:
    return np.asarray(replies["status"].isin(SCORED), dtype=np.bool_)


def _n_numberless(replies: pd.DataFrame, part: pd.DataFrame) -> tuple[int, int]:
    """Count the scored replies between identities: those without a number, and all."""
    scored = _is_scored(replies)[part.index] & part["in_group"].notna().to_numpy()
    return int((scored & part["intensity"].isna().to_numpy()).sum()), int(scored.sum())


def _n_missing(compared: NarrativeCube) -> int:
    return int((np.isnan(compared.y) & (compared.status >= 0)).sum())


def _reply_rows(
    cube: NarrativeCube, found: Estimates, numberless: tuple[int, int], *, confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a measure of replies, each with what else a reader must know of it."""
    compared = cube.without_baselines()
    remark = _remark(compared.y, *numberless)
    constant = _is_constant(compared.y)
    for row in gap_rows(cube, found, confidence=confidence, n_missing=_n_missing(compared)):
        if row["estimator"] not in _ESTIMATORS:
            continue
        # Signs of 0 flipped are 0 again: a p of 1 that tested nothing, and would count as one test more.
        untested = {"p_sign_flip": float("nan")} if row["delta_points"] == 0 and np.isnan(row["se"]) else {}
        yield row | untested | {"note": remark if constant else "; ".join(filter(None, (row["note"], remark)))}


def _is_constant(numbers: FloatArray) -> bool:
    known = numbers[~np.isnan(numbers)]
    return bool(known.size) and _same(known)


def _same(numbers: FloatArray) -> bool:
    """Whether numbers differ by floating-point arithmetic alone."""
    return float(np.ptp(numbers)) <= _ROUNDING * float(np.abs(numbers).max())


def _dependent(
    conversation_of: Callable[[str], str] | None, *, of_corpora: bool, confidence: float
) -> Dependent | None:
    """Return what takes utterances of a conversation for what they are in a control; None where there are none."""
    if conversation_of is None:
        return None

    def over(estimate: GapEstimate, narrative_ids: Sequence[Any]) -> tuple[GapEstimate, str]:
        units = conversations_of(narrative_ids, conversation_of)
        if not units:
            return estimate, ""
        if of_corpora:
            unknown = float("nan")
            blank = replace(estimate, se=unknown, df=unknown, ci_low=unknown, ci_high=unknown, p=unknown)
            return replace(blank, not_estimable=_NO_INTERVAL), ""
        return noted_over_conversations(estimate, units, confidence=confidence)

    return over


def _over(conversations: Sequence[str], *, confidence: float) -> Over:
    return partial(noted_over_conversations, conversations=conversations, confidence=confidence)


def _without_interval(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what would take utterances of a conversation for independent."""
    if np.isnan(row["se"]) and np.isnan(row["p"]):
        return dict(row)
    note = "; ".join(filter(None, (row["note"], _NO_INTERVAL)))
    return {**row, **dict.fromkeys(_DEPENDENT, float("nan")), "note": note}


def _remark(y: FloatArray, n_without: int, n_scored: int) -> str:
    """Say, of shape (N, P, E), that replies hardly differ in a measure, or that many have no such number."""
    flat = y.reshape(len(y), -1)
    known = [own[~np.isnan(own)] for own in flat]
    n_known = sum(own.size > 0 for own in known)
    n_differ = sum(own.size > 0 and not _same(own) for own in known)
    said = []
    if _is_constant(flat):
        said.append(f"every reply between identities has the same number, {flat[~np.isnan(flat)][0]:g}")
    elif n_differ < min(FEW_NARRATIVES, n_known / 2):
        said.append(f"only in {count(n_differ)} of {plural(n_known, 'narrative')} do replies differ in it")
    if n_without > MISSING_SHARE * n_scored:
        said.append(f"{rate(n_without / n_scored)} of the replies have no such number: δ speaks of the others")
    return "; ".join(said)


@dataclass(frozen=True, eq=False)
class _Corpora:
    """The replies of each pair of identities taken together, and the gap of the number that they have as a whole."""

    replies: pd.DataFrame
    number: Corpus
    confidence: float
    known: dict[tuple[str, str], _Numbers] = field(default_factory=dict)

    def gap(self, cube: NarrativeCube) -> GapEstimate:
        """Estimate δ of the cube's pairs by a jackknife over narratives; NotEstimableError says why not."""
        numbers = self._numbers(cube)
        n = len(numbers.without)
        kept = np.ix_(~cube.baseline_perceiver, ~cube.baseline_experiencer)
        weights = in_group_weights(cube.without_baselines())
        if n < 2:
            raise NotEstimableError(
                f"{n} of {plural(numbers.complete.size, 'narrative')} {either(n, 'has', 'have')} a reply to every pair "
                "of identities: too few to take the replies together"
            )
        between, left = numbers.whole[kept], np.stack([one[kept] for one in numbers.without])
        if np.isnan(between).any() or np.isnan(left).any():
            raise NotEstimableError("a pair's replies, or all of them but one, have no such number")
        rounding = n * _ROUNDING
        delta, delta_without = float((weights * between).sum()), (left * weights).sum(axis=(1, 2))
        pseudo = np.full(numbers.complete.size, np.nan)
        pseudo[numbers.complete] = delta + (n - 1) * (delta_without.mean() - delta_without)
        pseudo[np.abs(pseudo) <= rounding] = 0.0
        made = summarise_contrasts(pseudo, rounding=rounding, confidence=self.confidence, n_ratings=n * weights.size)
        if not made.not_estimable:
            return made
        return replace(made, not_estimable=f"leaving out any of {n} narratives leaves the same gap: no interval")

    def cells(self, cube: NarrativeCube) -> pd.DataFrame:
        """Describe the corpus of each pair of identities, baselines too."""
        return self._numbers(cube).cells

    def _numbers(self, cube: NarrativeCube) -> _Numbers:
        key = cube.dimension, cube.variant
        if key not in self.known:
            self.known[key] = self._counted(cube)
        return self.known[key]

    def _counted(self, cube: NarrativeCube) -> _Numbers:
        complete = complete_narratives(cube.without_baselines())
        names = [name for name, there in zip(cube.narrative_ids, complete, strict=True) if there]
        replies = self.replies
        own = replies.loc[
            (replies["dimension"] == cube.dimension)
            & (replies["variant"] == cube.variant)
            & replies["narrative_id"].isin(names)
        ]
        place = {name: k for k, name in enumerate(names)}
        shape = cube.in_group.shape
        whole, without = np.full(shape, np.nan), np.full((len(place), *shape), np.nan)
        cells = []
        for (perceiver, experiencer), texts in own.groupby(["perceiver", "experiencer"], observed=True, sort=False):
            p, e = cube.perceivers.index(perceiver), cube.experiencers.index(experiencer)
            there = texts.loc[_is_scored(texts)]
            if len(there):
                whole[p, e], left = self.number(there["text"].tolist())
                without[[place[name] for name in there["narrative_id"]], p, e] = left
            first = texts.iloc[0]
            cells.append(
                {name: first[name] for name in ("dimension", "variant", "perceiver", "experiencer")}
                | {name: first[name] for name in ("perceiver_group", "experiencer_group", "in_group", "n_shared")}
                | {"mean": whole[p, e], "sd": np.nan, "n_prompts": len(texts), "n_scored": len(there)}
            )
        described = (
            pd.DataFrame(cells).astype({"in_group": "boolean", "n_shared": "Int64"}) if cells else pd.DataFrame()
        )
        return _Numbers(complete, whole, without, described)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers of corpora: which narratives are complete, shape (N,); of each pair over these, shape (P, E), and without
    each of them, shape (n_complete, P, E); and the pairs in words.
    """

    complete: BoolArray
    whole: FloatArray
    without: FloatArray
    cells: pd.DataFrame


def _corpus_row(cube: NarrativeCube, made: GapEstimate | NotEstimableError) -> dict[str, Any]:
    compared = cube.without_baselines()
    row: dict[str, Any] = {
        "dimension": cube.dimension,
        "variant": cube.variant,
        "estimator": _JACKKNIFE,
        "scope": "narratives",
        "headline": True,
        "n_narratives_asked": len(cube.narrative_ids),
        "n_missing": _n_missing(compared),
    }
    names = ("delta_points", "se", "df", "ci_low", "ci_high", "p", "d_z")
    if isinstance(made, NotEstimableError):
        counts = {"n_narratives": 0, "n_ratings": 0}
        return row | dict.fromkeys(names, float("nan")) | counts | {"note": str(made)}
    counts = {"n_narratives": made.n_narratives, "n_ratings": made.n_ratings}
    n_left_out = len(cube.narrative_ids) - made.n_narratives
    left_out = f"{plural(n_left_out, 'narrative')} without a reply to every pair left out" if n_left_out else ""
    note = "; ".join(filter(None, (made.not_estimable, left_out)))
    return row | {name: getattr(made, name) for name in names} | counts | {"note": note}


def _in_unit(row: Mapping[str, Any], measure: str) -> dict[str, Any]:
    return {"measure": measure} | {_RENAMED.get(name, name): value for name, value in row.items()}


def _sd(values: pd.Series) -> float:
    known = values.dropna().to_numpy(dtype=np.float64)
    return float(known.std(ddof=1)) if known.size > 1 and not _same(known) else float("nan")


def _standardised(row: Mapping[str, Any], sd: float) -> dict[str, float]:
    names = {"delta_sd": "delta_points", "sd_ci_low": "ci_low", "sd_ci_high": "ci_high"}
    return {name: row[of] / sd for name, of in names.items()}


def _adjust(gaps: list[dict[str, Any]]) -> None:
    """Correct, in place, the p of headlines within narratives over the measures of each dimension.

    People's questions are a family of their own, so that importing them leaves the others' corrected p as it was.
    """
    families: defaultdict[tuple[str, str, bool], list[dict[str, Any]]] = defaultdict(list)
    for row in gaps:
        row |= {"p_adjusted": float("nan"), "family_size": float("nan")}
        if row["headline"] and row["scope"] == "narratives":
            families[row["dimension"], row["variant"], row["measure"].startswith(_PEOPLE)].append(row)
    for family in families.values():
        adjusted, size = adjust_p([row["p"] for row in family], method="Holm")
        for row, p in zip(family, adjusted, strict=True):
            row |= {"p_adjusted": float(p), "family_size": size}


def _outcome_rows(replies: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (dimension, variant), own in replies.groupby(["dimension", "variant"], observed=True, sort=False):
        inside = own["in_group"].astype("boolean")
        kinds = {
            "in_group": inside.fillna(False),
            "out_group": ~inside.fillna(True),
            "baseline": inside.isna(),
            "all": pd.Series(True, index=own.index),
        }
        for pairs, chosen in kinds.items():
            rows = own.loc[chosen.to_numpy(dtype=bool)]
            status = rows["status"].astype(str)
            texts = rows.loc[status.isin(SCORED).to_numpy()]
            yield {
                "dimension": dimension,
                "variant": variant,
                "pairs": pairs,
                "n_prompts": len(rows),
                **{f"n_{name}": int((status == name.value).sum()) for name in ReplyStatus},
                "mean_tokens": float(texts["n_tokens"].mean()) if len(texts) else float("nan"),
            }


def _ordered(rows: pd.DataFrame | list[dict[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns))
