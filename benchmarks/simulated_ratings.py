"""How often each estimate of δ errs on data like a run's own: false positives, coverage and power, by simulation.

The truth is known because it was drawn: ratings of the run's design, with the spread of its narratives, identities and
missing ratings, or with any other spread. This shows whether an interval that covers 95% in theory does so where it
will be used.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from scipy import optimize, special

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import effect_columns
from audit.statistics.controls import Repetition
from audit.statistics.estimates import GapEstimate, t_interval
from audit.statistics.headline import complete_gap, headline_gap
from audit.statistics.incomplete import equal_weight_gap
from audit.statistics.interactions import interaction_variances
from audit.statistics.mixed import MixedFit, fit_mixed
from audit.statistics.narrative_fits import narrative_fits
from audit.statistics.planning import detectable_gap
from audit.statistics.published import published_gap
from audit.statistics.ratings import STATUSES, BoolArray, FloatArray, divide
from audit.statistics.scopes import adjusted_gap, group_scope
from audit.tables.base import Table, count, points, probability, text, word
from audit.tables.shared import KEYS

CALIBRATION: Final = Table(
    "calibration",
    "an estimator on data sets drawn with a known gap",
    {
        **KEYS,
        "delta": points("gap that the data sets were drawn with, of any such narratives and identities, in points"),
        "estimator": word(
            "contrast, mixed or published, as in gap; listwise, mixed_crossed or equal_narratives, as in sensitivity; "
            "or headline, the contrast as speaking of any such identities"
        ),
        "scope": word("what the interval speaks about: narratives or narratives_and_terms; empty for published"),
        "n_datasets": count("data sets drawn"),
        "n_estimable": count(
            "of these, those in which the estimator gives an interval; all that follows is about them"
        ),
        "n_converged": count(
            "of those, the ones whose fit was confirmed to be the optimum; all of them where nothing is fitted"
        ),
        "bias": points(
            "mean of the estimate less its target, in points; the target is the gap of the identities drawn if the "
            "scope is narratives, and delta if it is narratives_and_terms"
        ),
        "sd_estimate": points("standard deviation of the estimate less its target, in points"),
        "mean_se": points("mean standard error that the estimator gives itself, in points"),
        "false_positives": probability(
            "share that rejects the target, by t; for published the share outside its 95% null interval at a delta of "
            "0, else missing"
        ),
        "false_positives_others": probability(
            "share that rejects delta itself: what is got wrong where the test is read as speaking of any such "
            "identities"
        ),
        "coverage": probability("share of t intervals that hold the target"),
        "power": probability("share that rejects a gap of 0; missing at a delta of 0"),
        "monte_carlo_se": probability(
            "standard error of false_positives for a test that holds its level, from the number of data sets"
        ),
        "note": text("why a data set was not estimable, the first one's reason; empty if all were"),
    },
)

ESTIMATORS: Final = (
    ("contrast", "narratives"),
    ("listwise", "narratives"),
    ("mixed", "narratives"),
    ("mixed_crossed", "narratives"),
    ("equal_narratives", "narratives"),
    ("headline", "narratives_and_terms"),
    ("published", ""),
)
"""Estimator and scope of each row, in the table's order."""

_NAN: Final = float("nan")
_REFUSED: Final = STATUSES.index("refused")


@dataclass(frozen=True, eq=False)
class Truth:
    """The parameters that ratings are drawn from.

    Attributes
    ----------
    level
        Mean rating of an out-group pair, in points.
    perceiver_effects, experiencer_effects
        Shapes (P,) and (E,), in points; the same in every data set.
    pair_sd
        Standard deviation of the effects of pairs, in points, drawn anew in every data set: other identities would
        have others.
    group_gap_sd
        Standard deviation, in points, of the gap beyond δ that all in-group pairs of a perceiver's group share; drawn
        anew in every data set.
    intercept_variance, slope_variance, covariance
        Of the narratives' level and gap, in squared points.
    residual_variance
        Variance of a rating beyond all other effects, in squared points.
    missing_rates
        Shape (P, E), chance that a prompt of the pair gets no rating.
    selective
        From 0 to 1: the correlation of an out-group prompt's inclination to be refused with what it selects on. The
        inclination is normal, and prompts above its 1 − ``missing_rates`` quantile are refused: whatever
        ``selective`` is, the rates stay. At 1 the narratives with the largest gaps, say, lose all out-group ratings.
        In-group prompts are refused independently, and so are all if what is selected on does not vary.
    selects_on
        Its narrative's gap, its narrative's level, or the rating that the prompt would have got, beyond the pair's
        mean: those that would have been high are refused. No estimator can know the last from what was rated.
    perceiver_interaction_variance, experiencer_interaction_variance
        Of a narrative's effect on all ratings by one perceiver, and on all of one experiencer, in squared points.
    """

    level: float
    perceiver_effects: FloatArray
    experiencer_effects: FloatArray
    pair_sd: float
    group_gap_sd: float
    intercept_variance: float
    slope_variance: float
    covariance: float
    residual_variance: float
    missing_rates: FloatArray
    selective: float
    selects_on: Literal["gap", "level", "rating"] = "gap"
    perceiver_interaction_variance: float = 0.0
    experiencer_interaction_variance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("level", "perceiver_effects", "experiencer_effects", "covariance"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} of the truth is {getattr(self, name)}; it must be finite")
        spreads = ("pair_sd", "group_gap_sd", "intercept_variance", "slope_variance", "residual_variance")
        for name in (*spreads, "perceiver_interaction_variance", "experiencer_interaction_variance"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} of the truth is {getattr(self, name)}; it must be 0 or a positive number")
        rates = np.asarray(self.missing_rates)
        outside = rates[~((rates >= 0) & (rates <= 1))]
        if outside.size:
            raise ValueError(f"missing_rates of the truth hold {outside[0]}; rates are shares between 0 and 1")
        if self.selects_on not in ("gap", "level", "rating"):
            raise ValueError(f"selects_on of the truth is {self.selects_on!r}; it is gap, level or rating")
        if not 0 <= self.selective <= 1:
            raise ValueError(f"selective of the truth is {self.selective}; it must be between 0 and 1")
        largest = (self.intercept_variance * self.slope_variance) ** 0.5
        if abs(self.covariance) > largest * (1 + 1e-9):
            raise ValueError(
                f"covariance of the truth is {self.covariance}; variances of {self.intercept_variance} and "
                f"{self.slope_variance} allow {largest:g} at the most"
            )

    @property
    def _factor(self) -> tuple[float, float, float]:
        """Cholesky factor (l11, l21, l22) of the narratives' covariance, in points."""
        l11 = self.intercept_variance**0.5
        l21 = self.covariance / l11 if l11 > 0 else 0.0
        return l11, l21, max(0.0, self.slope_variance - l21**2) ** 0.5


def truth_of(cube: NarrativeCube) -> Truth:
    """Estimate, from the ratings of one dimension or intersection, the truth that data like them are drawn from.

    Baselines are left out.

    Notes
    -----
    The residual variance and those of narrative × perceiver and narrative × experiencer are those of
    :func:`~audit.statistics.interactions.interaction_variances`; that of the gap is the variance of the narratives' own
    gaps less the mean of their noise. The level's is the mixed model's less what interactions add to a narrative's
    mean. Where too few ratings tell of interactions, all are the mixed model's. Its cell means are regressed on
    in-group (and lesser degrees of sharing), perceiver and experiencer, which gives the identities' effects; the
    spreads of pairs and of groups' gaps are fitted to the residuals r by two moments, Σr² and the squared sums of r
    over each group's in-group pairs, less what noise σ²/n adds to each, and not below 0. Lesser degrees of sharing are
    then given no gap.
    Missing ratings are taken to be independent of the narratives' gaps (``selective`` 0): the ratings cannot tell.
    """
    compared = cube.without_baselines()
    fit = fit_mixed(compared)
    asked, rated = compared.status >= 0, ~np.isnan(compared.y)
    n_rated = rated.sum(axis=0)
    means = fit.cell_means
    known = n_rated > 0
    lesser, perceivers, experiencers = (columns[known.ravel()] for columns in effect_columns(compared.columns))
    design = np.column_stack([perceivers, experiencers, compared.in_group[known], lesser])
    inverse = np.linalg.pinv(design, rcond=1e-9)
    by_perceiver, by_experiencer, _ = np.split(inverse @ means[known], np.cumsum(n_rated.shape))
    residual_maker = np.eye(len(design)) - design @ inverse
    pair_variance, group_gap_variance = _spreads_beyond(
        residual_maker,
        means[known],
        noise=fit.residual_variance / n_rated[known],
        members=_members(compared)[known],
    )
    spreads = _spreads_of_narratives(compared, fit)
    return Truth(
        level=float(by_perceiver.mean() + by_experiencer.mean()),
        perceiver_effects=by_perceiver - by_perceiver.mean(),
        experiencer_effects=by_experiencer - by_experiencer.mean(),
        pair_sd=pair_variance**0.5,
        group_gap_sd=group_gap_variance**0.5,
        intercept_variance=spreads["intercept_variance"],
        slope_variance=spreads["slope_variance"],
        covariance=spreads["covariance"],
        residual_variance=spreads["residual_variance"],
        perceiver_interaction_variance=spreads["perceiver_interaction_variance"],
        experiencer_interaction_variance=spreads["experiencer_interaction_variance"],
        missing_rates=np.nan_to_num(divide((asked & ~rated).sum(axis=0), asked.sum(axis=0))),
        selective=0.0,
    )


def _spreads_of_narratives(compared: NarrativeCube, fit: MixedFit) -> dict[str, float]:
    """Variances of narratives and ratings, in squared points, by their names in a truth."""
    level, gap, residual = fit.intercept_variance, fit.slope_variance, fit.residual_variance
    found = interaction_variances(compared)
    by_perceiver, by_experiencer = (np.nan_to_num(found.perceiver), np.nan_to_num(found.experiencer))
    fits = narrative_fits(compared)
    told = fits.information > 0
    if not np.isnan(found.residual) and np.count_nonzero(told) > 1:
        residual = found.residual
        gap = max(0.0, float(fits.gaps[told].var(ddof=1) - fits.noise[told].mean()))
        n_perceivers, n_experiencers = compared.in_group.shape
        of_means = by_perceiver / n_perceivers + by_experiencer / n_experiencers
        level = max(0.0, level - of_means + (by_perceiver + by_experiencer) / compared.in_group.size)
    most = (level * gap) ** 0.5
    return {
        "intercept_variance": level,
        "slope_variance": gap,
        "covariance": float(np.clip(fit.covariance, -most, most)),
        "residual_variance": residual,
        "perceiver_interaction_variance": float(by_perceiver),
        "experiencer_interaction_variance": float(by_experiencer),
    }


def _members(compared: NarrativeCube) -> FloatArray:
    """Mark the in-group pairs of each perceiver's group, shape (P, E, G)."""
    groups = np.array(compared.perceiver_groups)
    names = np.array(list(dict.fromkeys(compared.perceiver_groups)))
    members: FloatArray = (compared.in_group[:, :, None] & (groups[:, None, None] == names)).astype(np.float64)
    return members


def _spreads_beyond(
    residual_maker: FloatArray, means: FloatArray, *, noise: FloatArray, members: FloatArray
) -> tuple[float, float]:
    """Variances of pair effects and of groups' gaps by two moments of the residual cell means, in squared points."""
    df = float(np.trace(residual_maker))
    if df < 0.5:
        return 0.0, 0.0
    residuals, sums = residual_maker @ means, residual_maker @ members
    shared = members.T @ sums
    moments = np.array([[df, np.trace(shared)], [np.trace(shared), (shared**2).sum()]])
    found = np.array([residuals @ residuals, ((members.T @ residuals) ** 2).sum()])
    owed = np.array([np.diag(residual_maker) @ noise, (sums**2).sum(axis=1) @ noise])
    (pair_variance, group_gap_variance), _ = optimize.nnls(moments, found - owed)
    return float(pair_variance), float(group_gap_variance)


def simulate(
    truth: Truth, cube: NarrativeCube, *, delta: float, rng: np.random.Generator
) -> tuple[NarrativeCube, float]:
    """Draw ratings of a cube's design.

    The cube gives the identities, the narratives and the prompts that were asked; its own ratings are not used, and
    baselines are left out. ``delta`` is the gap over all such narratives and identities, in points. ``rng`` draws the
    identities' effects, the narratives, the ratings and the refusals, in that order.

    Returns the cube of drawn ratings, refused where one is missing; and the gap of *these* identities, in points: delta
    plus the in-group coefficient of the effects of pairs and groups that were drawn.
    """
    compared = cube.without_baselines()
    n, n_perceivers, n_experiencers = compared.y.shape
    shapes = np.shape(truth.perceiver_effects) + np.shape(truth.experiencer_effects), np.shape(truth.missing_rates)
    if shapes != (compared.y.shape[1:],) * 2:
        raise ValueError(
            f"the truth has {shapes[0]} identities and rates of {shapes[1]} pairs; the design has "
            f"{n_perceivers} perceivers and {n_experiencers} experiencers"
        )
    if not np.isfinite(delta):
        raise ValueError(f"delta is {delta}; it is a gap in points, such as 0 or 1.5")
    asked, in_group = compared.status >= 0, compared.in_group
    members = _members(compared)
    beyond = truth.pair_sd * rng.standard_normal(in_group.shape)
    beyond += members @ (truth.group_gap_sd * rng.standard_normal(members.shape[2]))
    can_be_rated = asked.any(axis=0) & (truth.missing_rates < 1)
    target = delta + adjusted_gap(np.where(can_be_rated, beyond, np.nan), compared.columns)

    l11, l21, l22 = truth._factor
    scores = rng.standard_normal((n, 2))
    intercepts, slopes = l11 * scores[:, 0], scores @ (l21, l22)
    y = rng.standard_normal(compared.y.shape)
    y *= truth.residual_variance**0.5
    y += truth.level + truth.perceiver_effects[:, None] + truth.experiencer_effects + beyond + delta * in_group
    y += intercepts[:, None, None] + slopes[:, None, None] * in_group
    for variance, shape in (
        (truth.perceiver_interaction_variance, (n, n_perceivers, 1)),
        (truth.experiencer_interaction_variance, (n, 1, n_experiencers)),
    ):
        if variance > 0:
            y += variance**0.5 * rng.standard_normal(shape)
    status = np.where(asked, 0, -1).astype(np.int8)
    if np.any(truth.missing_rates > 0):
        status[asked & _refuse(truth, y, intercepts, slopes, in_group, rng=rng)] = _REFUSED
    y[status != 0] = np.nan
    unknown = np.broadcast_to(np.nan, y.shape)
    return replace(compared, y=y, status=status, number_mass=unknown, mode=unknown, of_wordings=None), target


def _selected_on(truth: Truth, y: FloatArray, intercepts: FloatArray, slopes: FloatArray) -> FloatArray | None:
    """Return what out-group refusals select on, with variance 1, broadcast to y; None if it does not vary."""
    match truth.selects_on:
        case "gap":
            values, variance = slopes[:, None, None], truth.slope_variance
        case "level":
            values, variance = intercepts[:, None, None], truth.intercept_variance
        case "rating":
            variance = truth.intercept_variance + truth.residual_variance
            variance += truth.perceiver_interaction_variance + truth.experiencer_interaction_variance
            values = y - y.mean(axis=0)
    return values / variance**0.5 if variance > 0 else None


def _refuse(
    truth: Truth,
    y: FloatArray,
    intercepts: FloatArray,
    slopes: FloatArray,
    in_group: BoolArray,
    *,
    rng: np.random.Generator,
) -> BoolArray:
    """Draw which prompts are refused, shape (N, P, E)."""
    inclination = rng.standard_normal(y.shape)
    on = _selected_on(truth, y, intercepts, slopes)
    if truth.selective > 0 and on is not None:
        outside = ~in_group
        inclination[:, outside] *= (1 - truth.selective**2) ** 0.5
        inclination[:, outside] += truth.selective * np.broadcast_to(on, y.shape)[:, outside]
    return np.asarray(inclination > -special.ndtri(truth.missing_rates))


def calibrate(
    cube: NarrativeCube,
    truth: Truth,
    *,
    deltas: Sequence[float],
    n_datasets: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_permutations: int = 1_000,
    estimators: Sequence[tuple[str, str]] = ESTIMATORS,
    say: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Count how often each estimator of the report errs on data sets drawn from a truth; columns of ``CALIBRATION``.

    Parameters
    ----------
    deltas
        Gaps to draw with, in points: 0 for false positives, others for power.
    n_datasets
        An interrupt ends the count early: the table is then about the data sets that were done, if there are any.
    rng
        Each data set draws from a child of its own, so the first data sets are the same however many there are.
    confidence
        Coverage of the intervals, and 1 less the level of the tests; the published null interval always has 95%.
    n_permutations
        Shuffles of the published null, unless there are fewer in all.
    say
        Told after each data set how many are done, and of how many.

    Notes
    -----
    All deltas share the data sets. A gap that is added to every in-group rating adds itself to every estimate in
    points and changes no standard error, so one fit serves all deltas; the published δ_z, which it does change, is
    computed for each. A fit that was not confirmed counts like the others, since the report shows it too.
    """
    if not (len(deltas) and np.isfinite(deltas).all()):
        raise ValueError(f"deltas are {list(deltas)}; give one or more gaps in points, such as 0 and 1")
    if n_datasets < 1:
        raise ValueError(f"n_datasets is {n_datasets}; it must be at least 1")
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; it must be at least 1")
    unknown = [pair for pair in estimators if pair not in ESTIMATORS]
    if unknown:
        raise ValueError(f"estimators hold {unknown[0]}; there are: {', '.join(map(str, ESTIMATORS))}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it is a share between 0 and 1, such as 0.95")
    judged = []
    try:
        for child in rng.spawn(n_datasets):
            drawn, target = simulate(truth, cube, delta=0.0, rng=child)
            judge = _Judge(drawn, target, tuple(deltas), confidence, n_permutations, child)
            judged.append(judge.verdicts([estimator for estimator, _ in estimators]))
            if say is not None:
                say(len(judged), n_datasets)
    except KeyboardInterrupt:
        if not judged:
            raise
    rows = [
        {"dimension": cube.dimension, "variant": cube.variant}
        | _summary(delta, place, [verdicts[row] for verdicts in judged], estimator, scope, alpha=1 - confidence)
        for place, delta in enumerate(deltas)
        for row, (estimator, scope) in enumerate(estimators)
    ]
    return pd.DataFrame(rows, columns=list(CALIBRATION))


def calibrate_ratings(
    ratings: pd.DataFrame,
    *,
    n_datasets: int,
    delta: float | None,
    seed: int,
    confidence: float,
    power: float,
    say: Callable[[int, int], None] | None = None,
    repetition: Repetition | None = None,
) -> pd.DataFrame:
    """Calibrate the estimators on data like each dimension and variant of a run; columns of ``CALIBRATION``.

    A dimension and variant whose δ cannot be estimated is one row with the reason in ``note``. An interrupt ends the
    calibration early and returns the rows of what was done.

    ``ratings`` has one row a prompt. ``delta`` is the gap for power, in points; None takes the smallest one that the
    run's narratives detect with ``power``. Each dimension and variant is seeded with ``seed`` and its own names, so
    that the order does not matter. ``say`` is told how many data sets are done, and of how many. ``repetition`` tells
    repeated words from groups; sets of invented groups are left out.
    """
    told = repetition or Repetition()
    parts = [cube for cube, *_ in told.controlled(ratings, confidence=confidence)]
    tables: list[pd.DataFrame] = []
    for place, cube in enumerate(parts):
        dimension, variant = cube.dimension, cube.variant
        rng = np.random.default_rng([seed, zlib.crc32(f"{dimension}\n{variant}".encode())])

        def tell(done: int, n: int, before: int = place * n_datasets) -> None:
            if say is not None:
                say(before + done, len(parts) * n)

        try:
            headline = headline_gap(cube, confidence=confidence)
            truth = truth_of(cube)
            gap = delta
            if gap is None:
                se, n = headline.se, headline.n_narratives
                if np.isnan(se):
                    raise NotEstimableError(headline.not_estimable)
                gap = detectable_gap(se * n**0.5, n, power=power, alpha=1 - confidence)
            made = calibrate(
                cube, truth, deltas=(0.0, gap), n_datasets=n_datasets, rng=rng, confidence=confidence, say=tell
            )
        except NotEstimableError as error:
            row = {"dimension": dimension, "variant": variant, "n_datasets": 0, "note": str(error)}
            made = pd.DataFrame([row], columns=list(CALIBRATION))
        except KeyboardInterrupt:  # before the first data set of this dimension and variant
            if not tables:
                raise
            break
        tables.append(made)
        if 0 < made["n_datasets"].max() < n_datasets:  # interrupted
            break
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(CALIBRATION))


@dataclass(frozen=True)
class _Verdict:
    """One estimator's result on one data set. Rates are 0 or 1 here, NaN where the question does not apply."""

    note: str = ""
    converged: bool = True
    error: float = _NAN
    se: float = _NAN
    covered: float = _NAN
    wrong: tuple[float, ...] = ()  # by delta, as are the next two
    wrong_of_others: tuple[float, ...] = ()
    found: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class _Judge:
    """A data set that was drawn with a gap of 0, judged by every estimator and for every delta."""

    cube: NarrativeCube
    target: float
    deltas: tuple[float, ...]
    confidence: float
    n_permutations: int
    rng: np.random.Generator

    def verdicts(self, estimators: Sequence[str]) -> list[_Verdict]:
        """Judge the data set by each of these estimators, in their order."""
        makers: dict[str, Callable[[], _Verdict]] = {
            "contrast": lambda: self._by_t(headline_gap(self.cube, confidence=self.confidence), self.target),
            "listwise": lambda: self._by_t(complete_gap(self.cube, confidence=self.confidence), self.target),
            "mixed": lambda: self._by_fit(fit_mixed(self.cube)),
            "mixed_crossed": lambda: self._by_fit(fit_mixed(self.cube, crossed=True)),
            "equal_narratives": self._equal_narratives,
            "headline": self._headline,
            "published": self._published,
        }
        return [self._try(makers[estimator]) for estimator in estimators]

    @staticmethod
    def _try(judge: Callable[[], _Verdict]) -> _Verdict:
        try:
            return judge()
        except NotEstimableError as error:
            return _Verdict(note=str(error))

    def _by_fit(self, fit: MixedFit) -> _Verdict:
        return replace(self._by_t(fit.estimate(confidence=self.confidence), self.target), converged=fit.converged)

    def _equal_narratives(self) -> _Verdict:
        return self._by_t(equal_weight_gap(self.cube, confidence=self.confidence), self.target)

    def _headline(self) -> _Verdict:
        headline = headline_gap(self.cube, confidence=self.confidence)
        return self._by_t(group_scope(self.cube, headline, confidence=self.confidence).estimate, 0.0)

    def _by_t(self, estimate: GapEstimate, target: float) -> _Verdict:
        """Judge an estimate by its own t interval."""
        if not np.isfinite(estimate.se):
            return _Verdict(note=estimate.not_estimable or "its standard error cannot be estimated")

        def rejects(gap: float) -> float:
            *_, p = t_interval(estimate.delta_points - gap, estimate.se, estimate.df, confidence=self.confidence)
            return float(p < 1 - self.confidence)

        return _Verdict(
            error=estimate.delta_points - target,
            se=estimate.se,
            covered=float(estimate.ci_low <= target <= estimate.ci_high),
            wrong=(rejects(target),) * len(self.deltas),
            wrong_of_others=(rejects(0.0),) * len(self.deltas),
            found=tuple(rejects(-delta) if delta else _NAN for delta in self.deltas),
        )

    def _published(self) -> _Verdict:
        outside = tuple(self._is_outside(delta) for delta in self.deltas)
        at_zero = tuple(_NAN if delta else share for delta, share in zip(self.deltas, outside, strict=True))
        elsewhere = tuple(share if delta else _NAN for delta, share in zip(self.deltas, outside, strict=True))
        return _Verdict(wrong=at_zero, wrong_of_others=at_zero, found=elsewhere)

    def _is_outside(self, delta: float) -> float:
        """1 if δ_z lies outside its null interval once delta is added to the in-group ratings, else 0."""
        cube = replace(self.cube, y=self.cube.y + delta * self.cube.in_group) if delta else self.cube
        gap = published_gap(cube, rng=self.rng, n_permutations=self.n_permutations)
        return float(not gap.null_low <= gap.delta_z <= gap.null_high)


def _summary(
    delta: float, place: int, verdicts: list[_Verdict], estimator: str, scope: str, *, alpha: float
) -> dict[str, Any]:
    """One estimator's row of ``CALIBRATION`` at one delta, without dimension and variant."""
    estimable = [verdict for verdict in verdicts if not verdict.note]
    n = len(estimable)

    def mean(values: Iterator[float]) -> float:
        return float(divide(np.array(sum(values)), np.array(n)))

    errors = np.array([verdict.error for verdict in estimable])
    return {
        "delta": float(delta),
        "estimator": estimator,
        "scope": scope,
        "n_datasets": len(verdicts),
        "n_estimable": n,
        "n_converged": sum(verdict.converged for verdict in estimable),
        "bias": mean(verdict.error for verdict in estimable),
        "sd_estimate": float(errors.std(ddof=1)) if n > 1 else _NAN,
        "mean_se": mean(verdict.se for verdict in estimable),
        "false_positives": mean(verdict.wrong[place] for verdict in estimable),
        "false_positives_others": mean(verdict.wrong_of_others[place] for verdict in estimable),
        "coverage": mean(verdict.covered for verdict in estimable),
        "power": mean(verdict.found[place] for verdict in estimable),
        "monte_carlo_se": (alpha * (1 - alpha) / n) ** 0.5 if n else _NAN,
        "note": next((verdict.note for verdict in verdicts if verdict.note), ""),
    }
