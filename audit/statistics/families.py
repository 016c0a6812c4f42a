"""The breakdown of δ: gaps of pairs, groups, emotions and clusters, each family corrected for multiplicity.

A family is a set of contrasts that a reader searches for the ones that stand out. p is the t-test's: the sign-flip test
cannot tell small p apart, which a family needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube, degree_columns
from audit.statistics.contrasts import column_weights, in_group_weights
from audit.statistics.estimates import EPSILON, GapEstimate, summarise_contrasts, t_interval
from audit.statistics.headline import headline_gap
from audit.statistics.incomplete import cell_contrasts
from audit.statistics.member_contrasts import changes_of_others, weights_against_rest
from audit.statistics.own_groups import MIN_GROUPS_OF_OWN_GAPS, own_group_weights
from audit.statistics.ratings import UNSPECIFIED, FloatArray, IntArray
from audit.tables.gap import FAMILIES
from audit.tables.shared import OUTCOME

Method: TypeAlias = Literal["Holm", "Benjamini–Hochberg"]
Over: TypeAlias = Callable[[GapEstimate], tuple[GapEstimate, str]]
"""Gives an estimate, which has a contrast for each narrative of the cube, another uncertainty; and a note on it."""


_FIELDS: Final = ("delta", "se", "df", "ci_low", "ci_high", "p", "d_z", "n_narratives", "n_answers")
_CHANGE: Final = ("delta_rest", "change", "change_se", "change_p")
_DUST: Final = 1e-12
TWO_GROUPS: Final = "the gap of the pair: of two groups, no rating tells which one it is from"
_UNDETERMINED: Final = (
    "the pairs of identities cannot tell it from perceiver and experiencer effects and from the rest of the family"
)


@dataclass(frozen=True)
class FamilyMember:
    """One contrast of a family, or the note that says why there is none; and how it differs from the others."""

    estimate: GapEstimate | None = None
    n_pairs: int = 0
    estimator: str = "contrast"
    note: str = ""
    change: GapEstimate | None = None


def family_rows(
    cube: NarrativeCube,  # one dimension or intersection and one variant, baselines included
    *,
    confidence: float,
    valence: Mapping[str, str],  # emotion → its valence, such as `positive`; narratives of other emotions have none
    # group → its cultural cluster; a group without one is alone; no family `cluster` if no group has one
    clusters: Mapping[str, str],
    cues: Mapping[str, str] | None = None,  # wording → label, name or context; no family `cue` without several of them
    over: Over | None = None,  # gives an estimate another uncertainty, if narratives are not independent
) -> Iterator[dict[str, Any]]:
    """Estimate every family of contrasts that breaks δ down.

    Yields rows of ``FAMILIES``, unrounded. A contrast that cannot be estimated is a row of NaN with a note; it does not
    count in its family, nor does one without a p. The t intervals are not corrected for multiplicity.

    Notes
    -----
    With ȳ_ab the mean of a narrative's ratings of perceivers of group a about experiencers of group b, groups and
    clusters in order of appearance:

    - ``pair``: g_ab = (ȳ_aa + ȳ_bb − ȳ_ab − ȳ_ba) / 2 for each two groups, free of main effects. For groups of one
      term their mean is δ. Benjamini–Hochberg [2]_, since it screens a heatmap; all others Holm [1]_.
    - ``group``: γ_a, how much higher perceivers of a rate experiencers of a than their ratings of others and others'
      ratings of them lead one to expect, by least squares on ȳ with all γ at once
      (:func:`~audit.statistics.own_groups.own_group_weights`). Of two groups, g_ab stands for both, with a note.
    - ``emotion``, ``valence``: δ within the narratives of each, where there are two or more.
    - ``cluster``: pairs of different groups in one cluster ("same cluster") and pairs of one group ("same group"), each
      against pairs of different clusters, by least squares beside perceiver and experiencer effects; then, for each
      cluster c with a group outside, the mean of g_ab over a in c and b outside.
    - ``degree``, of an intersection: sharing d dimensions against sharing none, beside effects of identities.
    - ``cue``: δ of the experiencers whose wording tells the group by a label, by a first name, or by what its members
      do.
    - ``uplift``, where the unspecified perceiver u was asked: since δ's weights w sum to 0 over perceivers,
      δ = Σ w_pe (y_pe − y_ue). Its in-group terms are the "in-group uplift", the others the "out-group dampening",
      positive where out-group pairs are rated below u. Only their sum is free of perceiver effects: identities that
      all rate higher than u make an uplift and as negative a dampening.

    ``pair``, ``group`` and ``cluster`` need every group on both sides, and in-group to be one's own group: they are
    left out where perceivers and experiencers have different groups, or ``in_group`` is another relation. Groups of an
    intersection are the crossed ones ("Black Muslim"); pairs that share a part of it count as pairs of two groups.

    Where a rating is missing that a contrast needs, it is estimated from all valid ratings: by
    :func:`~audit.statistics.headline.headline_gap` for ``emotion`` and ``valence``, otherwise as
    :func:`~audit.statistics.incomplete.cell_contrasts` describes.

    How a member differs from the mean of the others stands beside it in ``pair``, ``group`` and ``emotion``. Pairs and
    groups are asked about the same narratives: the difference is a contrast of its own, by the same estimator. Emotions
    have narratives of their own: Welch's t [3]_, see :func:`~audit.statistics.member_contrasts.changes_of_others`.

    References
    ----------
    .. [1] Holm (1979), Scandinavian Journal of Statistics 6(2), 65–70.
    .. [2] Benjamini and Hochberg (1995), Journal of the Royal Statistical Society B 57(1), 289–300.
    .. [3] Welch (1947), Biometrika 34(1/2), 28–35.
    """
    compared = cube.without_baselines()
    if groups_are_in_groups(compared):
        yield from _pair_families(compared, clusters, confidence=confidence, over=over)
    for family, labels in (("emotion", cube.emotions), ("valence", [valence.get(name, "") for name in cube.emotions])):
        members = _of_narratives(compared, labels, confidence=confidence)
        if family == "emotion":
            members = _with_changes_of_others(members, confidence=confidence)
        yield from _rows(cube, family, members, confidence=confidence, over=over)
    if (compared.n_shared != compared.in_group).any():
        degrees = _levels(compared, compared.n_shared, confidence=confidence)
        named = {(str(d), ""): member for d, member in enumerate(degrees, start=1)}
        yield from _rows(cube, "degree", named, confidence=confidence, over=over)
    told = [(cues or {}).get(term, "") for term in compared.experiencers]
    if len(set(filter(None, told))) > 1:
        members = {
            (cue, ""): _of_experiencers(compared, [each == cue for each in told], confidence=confidence)
            for cue in dict.fromkeys(filter(None, told))
        }
        yield from _rows(cube, "cue", members, confidence=confidence, over=over)
    if UNSPECIFIED in cube.perceiver_groups:
        yield from _rows(cube, "uplift", _uplift(cube, confidence=confidence), confidence=confidence, over=over)


def adjust_p(p: npt.ArrayLike, *, method: Method) -> tuple[FloatArray, int]:
    """Correct the p of one family for the number of its tests.

    ``p`` has shape (M,), NaN where there was no test. Returns the adjusted p, NaN in the same places, and the number of
    tests. ``Holm`` controls the chance of any false positive in the family, ``Benjamini–Hochberg`` the expected share
    of false ones among the positives.

    Examples
    --------
    Holm multiplies the smallest p by 3, the next by 2, the largest by 1:

    >>> adjusted, n_tests = adjust_p([0.01, 0.04, 0.02, float("nan")], method="Holm")
    >>> adjusted.round(3).tolist(), n_tests
    ([0.03, 0.04, 0.04, nan], 3)
    """
    adjusted = np.array(p, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(adjusted))
    if method == "Benjamini–Hochberg":
        adjusted[tested] = stats.false_discovery_control(adjusted[tested])
    else:  # statsmodels has it, and collects garbage at every call: a fifth of a second, a hundred times in a sweep
        ordered = tested[np.argsort(adjusted[tested])]
        steps = np.maximum.accumulate(adjusted[ordered] * np.arange(ordered.size, 0, -1))
        adjusted[ordered] = np.minimum(steps, 1.0)
    return adjusted, tested.size


def _rows(
    cube: NarrativeCube,
    family: str,
    members: Mapping[tuple[str, str], FamilyMember],
    *,
    confidence: float,
    method: Method = "Holm",
    over: Over | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one family; ``members`` by name and partner."""
    if over is not None:
        members = {key: _over(member, over) for key, member in members.items()}
    nothing = dict.fromkeys(_FIELDS, float("nan")) | {"n_narratives": 0, "n_answers": 0}
    fields = [
        {field: getattr(member.estimate, field) for field in _FIELDS} if member.estimate else nothing
        for member in members.values()
    ]
    adjusted, size = adjust_p([row["p"] for row in fields], method=method)
    changes = [_change(member) for member in members.values()]
    of_changes, _ = adjust_p([row["change_p"] for row in changes], method="Holm")
    for ((name, partner), member), estimated, p_adjusted, change, change_p in zip(
        members.items(), fields, adjusted, changes, of_changes, strict=True
    ):
        eq_low, eq_high, _ = t_interval(
            estimated["delta"], estimated["se"], estimated["df"], confidence=2 * confidence - 1
        )
        row = {
            "dimension": cube.dimension,
            "variant": cube.variant,
            "family": family,
            "member": name,
            "partner": partner,
            "estimator": member.estimator,
            **estimated,
            "p_adjusted": float(p_adjusted),
            "method": method,
            "family_size": size,
            "n_pairs": member.n_pairs,
            "note": member.note,
            "eq_low": eq_low,
            "eq_high": eq_high,
            **change,
            "change_p_adjusted": float(change_p),
        }
        yield {column: row[column] for column in FAMILIES.without(*OUTCOME)}


def _change(member: FamilyMember) -> dict[str, float]:
    """How a member differs from the mean of the others, by column of ``FAMILIES``; NaN without others."""
    if member.estimate is None or member.change is None:
        return dict.fromkeys(_CHANGE, float("nan"))
    change = member.change
    rest = member.estimate.delta - change.delta
    return dict(zip(_CHANGE, (rest, change.delta, change.se, change.p), strict=True))


def _over(member: FamilyMember, over: Over) -> FamilyMember:
    if member.change is not None and not member.change.not_estimable:
        member = replace(member, change=over(member.change)[0])
    if member.estimate is None or member.estimate.not_estimable:
        return member
    estimate, note = over(member.estimate)
    return replace(member, estimate=estimate, note="; ".join(filter(None, (member.note, note))))


def groups_are_in_groups(compared: NarrativeCube) -> bool:
    """Whether both sides have the same groups, and in-group means the same group."""
    perceiver_groups, experiencer_groups = (
        np.array(groups, dtype=object) for groups in (compared.perceiver_groups, compared.experiencer_groups)
    )
    same = (perceiver_groups[:, None] == experiencer_groups)[compared.asked]
    return set(perceiver_groups) == set(experiencer_groups) and bool((same == compared.in_group[compared.asked]).all())


def _pair_families(
    compared: NarrativeCube, clusters: Mapping[str, str], *, confidence: float, over: Over | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the families that are made of the gaps of two groups: pairs, groups and clusters."""
    groups = tuple(dict.fromkeys(compared.perceiver_groups))
    if len(groups) < 2:
        return
    pairs = np.array(list(combinations(range(len(groups)), 2)))
    weights = _weights_of_pairs(compared, groups, pairs)

    def against_others(inside: npt.ArrayLike) -> FloatArray:
        first, second = np.asarray(inside)[pairs].T
        average: FloatArray = weights[first != second].mean(axis=0)
        return average

    names = [(groups[a], groups[b]) for a, b in pairs]
    members = _estimate_with_rest(compared.y, weights, confidence=confidence)
    yield from _rows(
        compared,
        "pair",
        dict(zip(names, members, strict=True)),
        confidence=confidence,
        method="Benjamini–Hochberg",
        over=over,
    )
    yield from _rows(compared, "group", _own_groups(compared, confidence=confidence), confidence=confidence, over=over)

    cluster_of = [clusters.get(group, "") for group in groups]
    known = [cluster for cluster in dict.fromkeys(cluster_of) if cluster and set(cluster_of) != {cluster}]
    if any(cluster_of):
        members = _levels(compared, _closeness(compared, clusters), confidence=confidence)
        if known:
            of_cluster = [against_others([own == cluster for own in cluster_of]) for cluster in known]
            members += estimate_contrasts(compared.y, np.stack(of_cluster), confidence=confidence)
        names_of = ["same cluster", "same group", *known]
        yield from _rows(compared, "cluster", _named(names_of, members), confidence=confidence, over=over)


def _weights_of_pairs(compared: NarrativeCube, groups: Sequence[str], pairs: IntArray) -> FloatArray:
    """Weights, shape (pairs, P, E), of the gap of each two groups."""
    if compared.nuisance is not None:
        return np.stack([_pair_weights(compared, {groups[a], groups[b]}) for a, b in pairs])
    perceivers, experiencers = (
        _differences(labels, groups, pairs) for labels in (compared.perceiver_groups, compared.experiencer_groups)
    )
    return perceivers[:, :, None] * experiencers[:, None, :] / 2


def _pair_weights(compared: NarrativeCube, pair: Set[str]) -> FloatArray:
    """Weights, shape (P, E), of the gap of two groups beside what their terms share; NaN if that cannot be told."""
    rows, columns = (
        np.flatnonzero([group in pair for group in groups])
        for groups in (compared.perceiver_groups, compared.experiencer_groups)
    )
    cells = np.ix_(rows, columns)
    weights = np.zeros(compared.in_group.shape)
    try:
        weights[cells] = column_weights(compared.columns[:, cells[0], cells[1]])[-1]
    except NotEstimableError:
        weights[cells] = np.nan
    weights[np.abs(weights) < _DUST] = 0.0
    return weights


def _own_groups(compared: NarrativeCube, *, confidence: float) -> dict[tuple[str, str], FamilyMember]:
    """Each group's own gap; of two groups, the gap of their pair for both."""
    groups = tuple(dict.fromkeys(compared.perceiver_groups))
    if len(groups) < MIN_GROUPS_OF_OWN_GAPS:
        weights = _weights_of_pairs(compared, groups, np.array([[0, 1]]))
        [member] = estimate_contrasts(compared.y, weights, confidence=confidence)
        noted = replace(member, note="; ".join(filter(None, (member.note, TWO_GROUPS))))
        return _named(groups, [noted] * len(groups))
    weights = _own_weights(compared, groups)
    return _named(groups, _estimate_with_rest(compared.y, weights, confidence=confidence))


def _own_weights(compared: NarrativeCube, groups: Sequence[str]) -> FloatArray:
    return own_group_weights(
        groups,
        compared.perceiver_groups,
        compared.experiencer_groups,
        rated=~np.asarray(np.isnan(compared.y).all(axis=0)),
        nuisance=compared.nuisance,
    )


def own_group_gaps(compared: NarrativeCube, *, confidence: float, only: str | None = None) -> dict[str, GapEstimate]:
    """Estimate each group's own gap, narrative by narrative: the family ``group`` of :func:`family_rows`.

    The cube has no baselines. A group whose gap the ratings do not determine is absent; so are all if there are fewer
    than three groups, or in-group does not mean the same group on both sides.
    """
    if not groups_are_in_groups(compared) or len(set(compared.perceiver_groups)) < MIN_GROUPS_OF_OWN_GAPS:
        return {}
    if only is not None:
        groups = tuple(dict.fromkeys(compared.perceiver_groups))
        [member] = estimate_contrasts(
            compared.y, _own_weights(compared, groups)[[groups.index(only)]], confidence=confidence
        )
        return {} if member.estimate is None else {only: member.estimate}
    members = _own_groups(compared, confidence=confidence)
    return {name: member.estimate for (name, _), member in members.items() if member.estimate is not None}


def _estimate_with_rest(y: FloatArray, weights: FloatArray, *, confidence: float) -> list[FamilyMember]:
    """Contrasts by weights, each with its difference from the mean of the others that can be estimated."""
    members = estimate_contrasts(y, weights, confidence=confidence)
    there = [place for place, member in enumerate(members) if member.estimate is not None]
    if len(there) > 1:
        changes = estimate_contrasts(y, weights_against_rest(weights[there]), confidence=confidence)
        for place, change in zip(there, changes, strict=True):
            members[place] = replace(members[place], change=change.estimate)
    return members


def _with_changes_of_others(
    members: dict[tuple[str, str], FamilyMember], *, confidence: float
) -> dict[tuple[str, str], FamilyMember]:
    """Give each emotion its difference from the other emotions, which have other narratives."""
    estimates = {key: member.estimate for key, member in members.items() if member.estimate is not None}
    changes = changes_of_others(estimates, confidence=confidence)
    return {key: replace(member, change=changes.get(key)) for key, member in members.items()}


def _differences(labels: Sequence[str], groups: Sequence[str], pairs: npt.NDArray[np.int64]) -> FloatArray:
    """Weights, shape (pairs, identities), of the mean of the first group's identities less that of the second's.

    Those of perceivers times those of experiencers are the weights of ȳ_aa + ȳ_bb − ȳ_ab − ȳ_ba.
    """
    belongs = np.array([[label == group for label in labels] for group in groups], dtype=np.float64)
    means = belongs / belongs.sum(axis=1, keepdims=True)
    differences: FloatArray = means[pairs[:, 0]] - means[pairs[:, 1]]
    return differences


def _closeness(compared: NarrativeCube, clusters: Mapping[str, str]) -> npt.NDArray[np.int64]:
    """How close the groups of each pair are, shape (P, E): 2 for one group, 1 for one cluster, 0 for others."""
    return np.array(
        [
            [
                2 if p == e else int(p in clusters and clusters[p] == clusters.get(e))
                for e in compared.experiencer_groups
            ]
            for p in compared.perceiver_groups
        ]
    )


def _levels(compared: NarrativeCube, level: npt.NDArray[np.int64], *, confidence: float) -> list[FamilyMember]:
    """Contrast each level from 1 with level 0, beside perceiver and experiencer effects."""
    levels = degree_columns(level)
    try:
        weights = column_weights(levels if compared.nuisance is None else np.concatenate([compared.nuisance, levels]))
    except NotEstimableError:
        return [FamilyMember(note=_UNDETERMINED)] * int(level.max())
    weights = weights[-len(levels) :]
    # The pseudo-inverse leaves dust where a weight is 0, and a missing rating there must not cost the narrative.
    weights[np.abs(weights) < _DUST] = 0.0
    return estimate_contrasts(compared.y, weights, confidence=confidence)


def _uplift(cube: NarrativeCube, *, confidence: float) -> dict[tuple[str, str], FamilyMember]:
    """Split δ in two parts, each against the unspecified perceiver."""
    names = "in-group uplift", "out-group dampening"
    compared = cube.without_baselines()
    try:
        w = in_group_weights(compared)
    except NotEstimableError as error:
        return _named(names, [FamilyMember(note=str(error))] * 2)
    identities = np.ix_(
        np.arange(2), np.flatnonzero(~cube.baseline_perceiver), np.flatnonzero(~cube.baseline_experiencer)
    )
    weights = np.zeros((2, *cube.in_group.shape))
    weights[identities] = np.where(compared.in_group, w, 0.0), np.where(compared.in_group, 0.0, w)
    weights[:, cube.perceiver_groups.index(UNSPECIFIED)] = -weights.sum(axis=1)
    weights[np.abs(weights) < _DUST] = 0.0
    return _named(names, estimate_contrasts(cube.y, weights, confidence=confidence))


def _named(names: Iterable[str], members: Iterable[FamilyMember]) -> dict[tuple[str, str], FamilyMember]:
    """Members that have no partner, by name."""
    return {(name, ""): member for name, member in zip(names, members, strict=True)}


def _of_narratives(
    compared: NarrativeCube, labels: Sequence[str], *, confidence: float
) -> dict[tuple[str, str], FamilyMember]:
    """δ within the narratives of each label; empty for one label. Narratives without a label are left out."""
    names = [name for name in dict.fromkeys(labels) if name]
    members = {}
    for name in names if len(names) > 1 else ():
        chosen = np.array([label == name for label in labels])
        part = compared.of_narratives(chosen)
        try:
            headline = headline_gap(part, confidence=confidence)
        except NotEstimableError as error:
            members[name, ""] = FamilyMember(note=str(error))
            continue
        n_pairs = int(np.count_nonzero((~np.isnan(part.y)).any(axis=0)))
        members[name, ""] = FamilyMember(headline.among(chosen), n_pairs, note=headline.not_estimable)
    return members


def _of_experiencers(compared: NarrativeCube, chosen: Sequence[bool], *, confidence: float) -> FamilyMember:
    """δ of the chosen experiencers."""
    part = compared.select(np.ones(len(compared.perceivers), dtype=bool), np.array(chosen))
    try:
        estimate = headline_gap(part, confidence=confidence)
    except NotEstimableError as error:
        return FamilyMember(note=str(error))
    return FamilyMember(estimate, int(np.count_nonzero((~np.isnan(part.y)).any(axis=0))), note=estimate.not_estimable)


def estimate_contrasts(
    y: FloatArray, weights: FloatArray, *, confidence: float, levels: IntArray | None = None
) -> list[FamilyMember]:
    """Contrasts by weights, shape (M, P, E): narrative by narrative, or from all valid ratings where one is missing.

    Weights of NaN mark a contrast that the pairs do not determine. ``levels``, shape (P · E,), is as of
    :func:`~audit.statistics.incomplete.cell_contrasts`.
    """
    ratings, determined = y.reshape(len(y), -1), ~np.asarray(np.isnan(weights).any(axis=(1, 2)))
    w = np.where(determined[:, None, None], weights, 0.0).reshape(len(weights), -1)
    needed, missing = w != 0, np.isnan(ratings)
    incomplete = needed @ missing.any(axis=0)
    filled = np.where(missing, 0.0, ratings) if missing.any() else ratings
    contrasts = w @ filled.T
    largest = max(float(filled.max(initial=0.0)), -float(filled.min(initial=0.0)))
    rounding = needed.sum(axis=1) * EPSILON * np.abs(w).sum(axis=1) * largest
    contrasts[np.abs(contrasts) <= rounding[:, None]] = 0.0
    of_cells = cell_contrasts(ratings, w[incomplete], levels) if incomplete.any() else None
    rows = np.cumsum(incomplete) - 1
    n_answers = needed @ np.count_nonzero(~missing, axis=0)
    members = []
    for m, n_pairs in enumerate(needed.sum(axis=1).tolist()):
        estimator = "contrast" if of_cells is None or not incomplete[m] else "pairs"
        if not determined[m]:
            members.append(FamilyMember(note=_UNDETERMINED))
        elif of_cells is None or not incomplete[m]:
            estimate = summarise_contrasts(
                contrasts[m], rounding=float(rounding[m]), confidence=confidence, n_answers=int(n_answers[m])
            )
            members.append(FamilyMember(estimate, n_pairs, estimator, estimate.not_estimable))
        elif np.isnan(of_cells.delta[rows[m]]):
            reason = f"the ratings of the {n_pairs} pairs of identities that it needs do not determine it"
            members.append(FamilyMember(n_pairs=n_pairs, estimator=estimator, note=reason))
        else:
            estimate = of_cells.estimate(
                rows[m],
                rounding=float(rounding[m]) * ratings.size**0.5,
                confidence=confidence,
                n_answers=int(n_answers[m]),
            )
            members.append(FamilyMember(estimate, n_pairs, estimator, estimate.not_estimable))
    return members
