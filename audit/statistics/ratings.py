"""Ratings prepared for statistics: compact, checked, and with each prompt assigned to its pair of identities."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.tables.ratings import Status

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

NO_PERSONA: Final = "no persona"  # group of the perceiver that is given no identity
UNSPECIFIED: Final = "unspecified"  # group of an identity that names no group
BASELINES: Final = (UNSPECIFIED, NO_PERSONA)  # groups that are asked for comparison only, and never count in δ

STATUSES: Final = tuple(status.value for status in Status)
"""The statuses in the order of the columns ``n_rated``, ``n_refused`` and so on."""

_LABELS: Final = (
    "dimension",
    "variant",
    "narrative_id",
    "emotion",
    "perceiver",
    "experiencer",
    "perceiver_group",
    "experiencer_group",
)


def compact_ratings(ratings: pd.DataFrame) -> pd.DataFrame:
    """Keep the columns that statistics read, as categoricals and floats, and check what they hold.

    Every function of this package that takes ratings calls it, and it costs next to nothing on its own output: compact
    once before calling several.

    Labels and ``status`` become categoricals; ``in_group`` (1 or 0), ``n_shared``, ``intensity``, ``mode`` and
    ``pruned_points`` (points) and ``number_mass`` floats, NaN where missing; ``wording`` a whole number, 0 if there is
    none. A response, even one with a number, counts as an intensity only if the status is ``rated``. ValueError if a
    label is missing, a status is unknown, or a prompt is called rated without a finite intensity.
    """
    columns: dict[str, Any] = {name: _categorical(ratings[name]) for name in _LABELS}
    for name, labels in columns.items():
        if name != "emotion" and (labels.codes < 0).any():
            raise ValueError(f"{name} is missing in row {int(np.argmax(labels.codes < 0))} of the ratings")
    columns["status"] = _known_statuses(_categorical(ratings["status"]))
    rated = columns["status"].codes == 0
    intensity = _floats(ratings["intensity"])
    if not np.isfinite(intensity[rated]).all():
        row = int(np.argmax(rated & ~np.isfinite(intensity)))
        raise ValueError(f"row {row} of the ratings has status 'rated' and intensity {intensity[row]}")
    columns["in_group"] = ratings["in_group"].astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan)
    columns["n_shared"] = _floats(ratings["n_shared"])
    columns["intensity"] = np.where(rated, intensity, np.nan)
    columns["number_mass"] = _floats(ratings["number_mass"])
    columns["mode"] = np.where(rated, _floats(ratings["mode"]), np.nan)
    off = _floats(ratings["pruned_points"]) if "pruned_points" in ratings else np.full(len(ratings), np.nan)
    columns["pruned_points"] = np.where(rated, off, np.nan)
    told = _floats(ratings["wording"]) if "wording" in ratings else np.zeros(len(ratings))
    columns["wording"] = np.nan_to_num(told).astype(np.int16)
    return pd.DataFrame(columns, copy=False)


def _categorical(labels: pd.Series) -> pd.Categorical:
    """Categories in order of first appearance, unless the labels are categories already."""
    if isinstance(labels.dtype, pd.CategoricalDtype):
        return pd.Categorical(labels)
    codes, uniques = pd.factorize(labels)
    return pd.Categorical.from_codes(codes, categories=pd.Index(uniques))


def _known_statuses(status: pd.Categorical) -> pd.Categorical:
    used = np.unique(status.codes)
    names = [None if code < 0 else status.categories[code] for code in used]
    unknown = [name for name in names if name not in STATUSES]
    if unknown:
        raise ValueError(f"the ratings hold the status {unknown[0]!r}; there are: {', '.join(STATUSES)}")
    return status.set_categories(list(STATUSES))


def _floats(values: pd.Series) -> FloatArray:
    return np.asarray(values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def split_ratings(ratings: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield dimension, variant and their compacted ratings, in order of first appearance."""
    compact = compact_ratings(ratings)
    dimensions, variants = compact["dimension"].array, compact["variant"].array
    keys = dimensions.codes.astype(np.int64) * len(variants.categories) + variants.codes
    parts, _ = pd.factorize(keys)
    n_parts = int(parts.max(initial=-1)) + 1
    for part in range(n_parts):
        rows = compact if n_parts == 1 else compact.iloc[np.flatnonzero(parts == part)]
        yield str(rows["dimension"].iloc[0]), str(rows["variant"].iloc[0]), rows


def without_dimensions(ratings: pd.DataFrame, names: Collection[str]) -> pd.DataFrame:
    """Leave out dimensions, such as sets of invented groups."""
    return ratings.loc[~ratings["dimension"].isin(list(names))] if names else ratings


def groups_by_dimension(ratings: pd.DataFrame) -> dict[str, set[str]]:
    """Return the groups of each dimension, baselines left out."""
    between = ratings[ratings["in_group"].notna().to_numpy()]
    found: dict[str, set[str]] = {}
    for side in ("perceiver_group", "experiencer_group"):
        for dimension, group in between[["dimension", side]].drop_duplicates().itertuples(index=False):
            found.setdefault(str(dimension), set()).add(str(group))
    return found


def count_statuses(status: pd.Series, group: IntArray, *, n_groups: int) -> IntArray:
    """Count compacted statuses: shape (``n_groups``, 5), columns in the order of ``STATUSES``."""
    codes = status.array.codes
    return np.bincount(group * len(STATUSES) + codes, minlength=n_groups * len(STATUSES)).reshape(n_groups, -1)


def divide(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> FloatArray:
    """Divide, and leave NaN where the denominator is not positive: a share of nothing is missing, not 0."""
    ratio = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=ratio, where=np.asarray(denominator) > 0)
    return ratio


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pair of each prompt of one dimension and variant, and what is true of each pair."""

    perceivers: tuple[str, ...]
    experiencers: tuple[str, ...]
    perceiver_groups: tuple[str, ...]
    experiencer_groups: tuple[str, ...]
    pair: IntArray  # one element a prompt, an index into the flattened (P, E) matrices
    n_prompts: IntArray
    n_shared: FloatArray  # NaN, as in_group, at baselines and at pairs that were never asked
    in_group: FloatArray

    @classmethod
    def of(cls, part: pd.DataFrame) -> Self:
        """Assign the compacted ratings of one dimension and variant; ValueError if a pair has two values."""
        perceiver_codes, perceivers = axis_codes(part["perceiver"])
        experiencer_codes, experiencers = axis_codes(part["experiencer"])
        shape = len(perceivers), len(experiencers)
        pair = perceiver_codes * shape[1] + experiencer_codes
        truths = {}
        for name in ("n_shared", "in_group"):
            of_prompt = part[name].to_numpy()
            of_pair = np.full(shape[0] * shape[1], np.nan)
            of_pair[pair] = of_prompt
            conflict = ~np.equal(of_pair[pair], of_prompt) & ~(np.isnan(of_pair[pair]) & np.isnan(of_prompt))
            if conflict.any():
                row = int(np.argmax(conflict))
                who = f"{perceivers[perceiver_codes[row]]!r} and {experiencers[experiencer_codes[row]]!r}"
                raise ValueError(f"the pair {who} has more than one value of {name}")
            truths[name] = of_pair.reshape(shape)
        return cls(
            perceivers=perceivers,
            experiencers=experiencers,
            perceiver_groups=label_of_code(part["perceiver_group"], perceiver_codes, shape[0]),
            experiencer_groups=label_of_code(part["experiencer_group"], experiencer_codes, shape[1]),
            pair=pair,
            n_prompts=np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape),
            **truths,
        )


def axis_codes(labels: pd.Series) -> tuple[IntArray, tuple[str, ...]]:
    """Codes of the rows and the labels that they stand for, in order of first appearance."""
    codes, uniques = pd.factorize(labels.array)
    return codes.astype(np.int64), tuple(np.asarray(uniques, dtype=object).tolist())


def label_of_code(labels: pd.Series, codes: IntArray, n_codes: int) -> tuple[str, ...]:
    """One label for each code; all rows of a code have the same label."""
    label_codes = np.zeros(n_codes, dtype=np.int64)
    label_codes[codes] = labels.array.codes
    names = labels.array.categories
    return tuple(names[code] if code >= 0 else "" for code in label_codes)
