"""A user's own formula on the ratings: a mixed model, or least squares with clustered standard errors.

The headline δ needs none of this. It answers questions that only the user has: a covariate, an interaction with the
emotion, another way of clustering.
"""

from __future__ import annotations

import ast
import difflib
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import patsy
from scipy import stats
from scipy.linalg import solve_triangular

from audit.errors import ConfigError, NotEstimableError
from audit.statistics.covariates import FormulaCovariates
from audit.statistics.ratings import BoolArray, FloatArray, IntArray, split_ratings
from audit.tables.formatting import either, plural
from audit.tables.gap import OWN_MODEL

Fit: TypeAlias = Literal["mixed", "ols"]


NUMBERS: Final = ("intensity", "in_group", "n_shared", "number_mass")  # floats in a formula; `in_group` is 1 or 0
LABELS: Final = ("emotion", "perceiver", "experiencer", "perceiver_group", "experiencer_group", "narrative_id")
"""Columns that a formula sees as strings; any of them may be the cluster, as may labels of narratives."""

_NO_COVARIATES: Final = FormulaCovariates(None)
_TRANSFORMS: Final = (
    *("C", "I", "center", "standardize", "scale", "bs", "cr", "cc", "te"),
    *("Treatment", "Sum", "Poly", "Helmert", "Diff"),
)
"""Functions of patsy that a formula may name; ``Q`` is not among them, since no column of ours needs quoting."""
_EXAMPLE: Final = "intensity ~ in_group + C(perceiver) + C(experiencer)"
_DETERMINED: Final = 1e-7
"""A column that keeps less of its norm than this against those before it is determined by them, as in R's ``lm``."""
_DEGENERATE: Final = 1e-6  # a clustered standard error below this share of the ordinary one is a rounding error
_OPTIMISERS: Final = ("bfgs", "nm")
"""On a ridge to the boundary, statsmodels' own second choice, lbfgs, stops short and says that it converged."""
_BOUNDARY: Final = 1e-5  # a variance of random terms below this share of the residual one counts as 0


def own_model_table(
    ratings: pd.DataFrame,
    *,
    formula: str,
    fit: Fit,
    random: str | None,
    cluster: str,
    confidence: float,
    covariates: FormulaCovariates = _NO_COVARIATES,
) -> pd.DataFrame:
    """Fit a user's formula to the ratings of every dimension and variant.

    Every design is laid out before anything is fitted, so that a mistake in the formula costs no time. MixedLM does
    take time: 131 s and 4.3 GB for 2.67 million ratings, where δ's own estimator takes under a second; and in 5 to 10%
    of small fits it fails to converge, which ``converged``, ``singular`` and ``message`` then say.

    The table has a row for each fixed term, (co)variance and residual variance. A fixed term that earlier ones
    determine is left out, as in R's ``lm``, and is NaN. What cannot be fitted is one row of NaN with the reason in
    ``message``; never an exception, and never a warning. A formula, random terms or a cluster that cannot be used raise
    ConfigError.

    Rated prompts between identities are used if no column of the ``formula`` is missing. On its left is one of
    ``NUMBERS``, on the right these, ``LABELS``, ``covariates``, patsy's transforms and numpy's elementwise functions;
    levels are sorted, the first one is the reference. Patsy evaluates a formula as Python, on the user's own command
    line; since formulas are also copied from others, one that names anything else, or an attribute, is refused and
    never evaluated. What the ratings hold, e.g. the wording of an identity, is a value or a name of a column, and is
    not evaluated.

    ``mixed`` is MixedLM by REML, z statistics; standard errors from the Hessian of all parameters, within 0.3% of
    lme4's on ten reference tables. ``random`` are the terms that vary from cluster to cluster, e.g. ``"~ in_group"``:
    correlated, and with an intercept unless ``0 +`` takes it out; None is the intercept alone. ``ols`` is least
    squares, the sandwich with the factor G/(G - 1) · (n - 1)/(n - k) for G clusters, n ratings and k terms, t
    statistics with G - 1 degrees of freedom.
    """
    model = _Model.read(formula, fit=fit, random=random, cluster=cluster, covariates=covariates)
    parts = [
        _FitData.of(covariates.beside(rows, model.columns), dimension, variant, model)
        for dimension, variant, rows in split_ratings(ratings)
    ]
    faults = [part.fault for part in parts if part.n_ratings]
    if faults and all(faults):
        raise ConfigError(f"{model.place} cannot be evaluated on the ratings ({faults[0]}); change the formula")
    rows = [row for part in parts for row in _rows(model, part, confidence=confidence)]
    return pd.DataFrame(rows, columns=list(OWN_MODEL))


def check_own_model(
    formula: str,
    *,
    fit: Fit,
    random: str | None,
    cluster: str,
    covariates: FormulaCovariates = _NO_COVARIATES,
) -> None:
    """Check what can be checked of a formula without ratings; ConfigError names the remedy in one line."""
    _Model.read(formula, fit=fit, random=random, cluster=cluster, covariates=covariates)


@dataclass(frozen=True, eq=False)
class _Model:
    """A formula that has been read and names only what it may; ``columns`` are those that it needs of each rating."""

    formula: str
    fit: Fit
    response: str
    fixed: Sequence[Any]
    random: Sequence[Any]
    cluster: str
    columns: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"statistics.formula={self.formula!r}"

    @classmethod
    def read(cls, formula: str, *, fit: Fit, random: str | None, cluster: str, covariates: FormulaCovariates) -> _Model:
        """Read the formula; ConfigError if it cannot be used."""
        place = f"statistics.formula={formula!r}"
        reserved = {*NUMBERS, *LABELS, *_TRANSFORMS, "np"}
        if taken := next((name for name in covariates.of_groups if name in reserved), ""):
            raise ConfigError(
                f"{place}: the covariate {taken!r} has the name of another column or function of formulas; rename it "
                "in the table of statistics.covariates"
            )
        # A table of ratings may have a column `scale`, which then means patsy's function.
        labels = (*LABELS, *(name for name in covariates.labels if name not in reserved))
        known = (*NUMBERS, *(name for name in covariates.numbers if name not in reserved), *labels)
        left, fixed = _read_terms(formula, place, example=_EXAMPLE)
        response = left[0].name() if len(left) == 1 else ""
        if response not in NUMBERS:
            raise ConfigError(
                f"{place}: the left side must be a numeric column, as in {_EXAMPLE!r}; {_suggest(response, NUMBERS)}"
            )
        if not fixed:
            raise ConfigError(f"{place}: the right side has no term; write it as {_EXAMPLE!r}")
        if fit == "ols" and random is not None:
            raise ConfigError(
                f"statistics.random={random!r}: statistics.fit=ols has no random terms; leave it out, or use "
                "statistics.fit=mixed"
            )
        random_place = f"statistics.random={random!r}"
        left, varying = _read_terms("~ 1" if random is None else random, random_place, example="~ in_group")
        if left or not varying:
            raise ConfigError(f"{random_place}: needs a term, and nothing left of '~'; write it as '~ in_group'")
        if cluster not in labels:
            raise ConfigError(
                f"statistics.cluster={cluster!r} with {place}: unknown column to cluster by; "
                f"{_suggest(cluster, labels)}"
            )
        named = {response, cluster, *_names(fixed, place, known), *_names(varying, random_place, known)}
        columns = tuple(name for name in known if name in named)
        return cls(formula, fit, response, fixed, varying if fit == "mixed" else (), cluster, columns)


def _read_terms(text: str, place: str, *, example: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the terms left and right of the tilde."""
    try:
        described = patsy.ModelDesc.from_formula(text)
    except Exception as error:  # patsy passes on whatever Python's tokenizer raises
        raise ConfigError(f"{place} cannot be read ({_reason(error)}); write it as {example!r}") from error
    return described.lhs_termlist, described.rhs_termlist


def _names(terms: Iterable[Any], place: str, columns: Sequence[str]) -> set[str]:
    """Return the columns that the terms name; ConfigError if they name anything but columns and allowed functions."""
    found: set[str] = set()
    for factor in (factor for term in terms for factor in term.factors):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Python's compiler, about odd but valid code
                tree = ast.parse(factor.code, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(f"{place} cannot be read ({_reason(error)}); write it as {_EXAMPLE!r}") from error
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not _is_elementwise(node):
                raise ConfigError(
                    f"{place}: {ast.unparse(node)!r} cannot be used in a formula; use columns, "
                    f"{', '.join(_TRANSFORMS)} and numpy's elementwise functions, e.g. np.log"
                )
            if isinstance(node, ast.Name):
                if node.id not in ("np", *columns, *_TRANSFORMS):
                    known = (*columns, *_TRANSFORMS)
                    raise ConfigError(f"{place}: unknown column or function {node.id!r}; {_suggest(node.id, known)}")
                found.add(node.id)
    return found.intersection(columns)


def _is_elementwise(node: ast.Attribute) -> bool:
    of_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
    return of_numpy and isinstance(getattr(np, node.attr, None), np.ufunc)


def _suggest(name: str, options: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, options, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"there are: {', '.join(options)}"


def _reason(error: BaseException) -> str:
    """Return an exception's message in one line."""
    # PatsyError's own text repeats the formula on a line of its own, with a caret under it.
    return _one_line(str(getattr(error, "message", error)) or type(error).__name__)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


# --- The ratings of one dimension and variant, as a formula sees them ------------------------------------------------

_KEEP_ALL: Final = patsy.NAAction(on_NA="raise", NA_types=[])
"""Rows with missing values are left out before patsy sees a column."""


@dataclass(frozen=True, eq=False)
class _FitData:
    """The data of one fit: columns as plain arrays, each rating's cluster, and the layout of its designs."""

    dimension: str
    variant: str
    columns: dict[str, npt.NDArray[Any]]
    clusters: IntArray
    n_excluded: int
    layouts: tuple[Any, ...] = ()
    fault: str = ""  # why there is no layout: the formula cannot be evaluated on these ratings

    @property
    def n_ratings(self) -> int:
        return len(self.clusters)

    @property
    def n_clusters(self) -> int:
        return int(self.clusters.max(initial=-1)) + 1

    @classmethod
    def of(cls, rows: pd.DataFrame, dimension: str, variant: str, model: _Model) -> _FitData:
        """Take the ratings that the model can use and lay out its designs on them."""
        between = rows["in_group"].notna().to_numpy()
        used = between & rows["intensity"].notna().to_numpy()
        for name in model.columns:
            used &= rows[name].notna().to_numpy()
        columns = {name: _plain(rows[name], used) for name in model.columns}
        clusters = np.unique(rows[model.cluster].array.codes[used], return_inverse=True)[1].astype(np.int64)
        n_excluded = int(np.count_nonzero(between & ~used))
        layouts: tuple[Any, ...] = ()
        fault = ""
        if len(clusters):
            # Only np: a formula must see neither our names nor a caller's.
            environment = patsy.EvalEnvironment([{"np": np}])
            terms = [list(model.fixed), list(model.random)]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the same evaluation warns again when it is fitted
                    layouts = tuple(
                        patsy.design_matrix_builders(terms, lambda: iter([columns]), environment, NA_action=_KEEP_ALL)
                    )
            except Exception as error:  # whatever the formula's own Python raises
                fault = _reason(error)
        return cls(dimension, variant, columns, clusters, n_excluded, layouts, fault)

    def design(self, layout: Any) -> _Design:
        """Build the design matrix; NotEstimableError if that fails, or if it holds a number that is not finite."""
        if not layout.factor_infos:  # patsy cannot tell the length of an intercept alone
            return _Design(tuple(layout.column_names), np.ones((self.n_ratings, 1)))
        try:
            (matrix,) = patsy.build_design_matrices([layout], self.columns, NA_action=_KEEP_ALL)
        except Exception as error:  # as above
            raise NotEstimableError(_reason(error)) from error
        values = np.asarray(matrix, dtype=np.float64)
        if len(values) != self.n_ratings:
            raise NotEstimableError(f"the terms have {len(values)} values for {self.n_ratings} ratings")
        for name, column in zip(layout.column_names, values.T, strict=True):
            n_wrong = np.count_nonzero(~np.isfinite(column))
            if n_wrong:
                raise NotEstimableError(f"{name} is not a finite number in {n_wrong} of {self.n_ratings} ratings")
        return _Design(tuple(layout.column_names), values)


def _plain(labels: pd.Series, used: BoolArray) -> npt.NDArray[Any]:
    """Floats, or strings as an array of objects, which compare with each other as a user expects."""
    if not isinstance(labels.dtype, pd.CategoricalDtype):
        return labels.to_numpy(dtype=np.float64)[used]
    names = np.array([str(name) for name in labels.cat.categories], dtype=object)
    plain: npt.NDArray[Any] = names[labels.array.codes[used]]
    return plain


@dataclass(frozen=True, eq=False)
class _Design:
    """A design matrix, shape (n_ratings, k), and the names of its columns."""

    names: tuple[str, ...]
    values: FloatArray

    def triangle(self) -> FloatArray:
        """R of the QR decomposition: shape (min(n_ratings, k), k), with the same inner products of columns."""
        return np.asarray(np.linalg.qr(self.values, mode="r"))

    def determined(self) -> BoolArray:
        """Whether the columns before it determine each column; shape (k,)."""
        triangle = self.triangle()
        basis = np.zeros((len(triangle), 0))
        determined = np.zeros(len(self.names), dtype=np.bool_)
        for place, column in enumerate(triangle.T):
            rest = column - basis @ (basis.T @ column)
            rest -= basis @ (basis.T @ rest)  # once more, for what rounding left
            norm = float(np.linalg.norm(rest))
            determined[place] = norm <= _DETERMINED * float(np.linalg.norm(column))
            if not determined[place]:
                basis = np.column_stack([basis, rest / norm])
        return determined

    def keep(self, columns: BoolArray) -> _Design:
        if columns.all():
            return self
        return _Design(tuple(np.array(self.names, dtype=object)[columns]), self.values[:, columns])


# --- Fitting ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Fitted:
    """Estimates of the fixed terms that were kept, with the variances and notes of the fit."""

    estimate: FloatArray
    se: FloatArray
    df: float
    residual: float
    converged: bool
    singular: bool
    variances: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _rows(model: _Model, part: _FitData, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield one part's rows of ``OWN_MODEL``; a single row of NaN if it cannot be fitted."""
    fitted: _Fitted | None = None
    names: tuple[str, ...] = ()
    determined = np.zeros(0, dtype=np.bool_)
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fixed = _fixed_design(part)
            names, determined = fixed.names, fixed.determined()
            notes += _left_out("fixed", fixed, determined)
            fitted = _fit(model, part, fixed.keep(~determined))
            notes += fitted.notes
        except NotEstimableError as error:
            notes.append(f"not fitted: {error}")
    notes += [str(warning.message) for warning in caught]
    singular = bool(determined.any()) or (fitted is not None and fitted.singular)
    common = {
        "dimension": part.dimension,
        "variant": part.variant,
        "formula": model.formula,
        "fit": model.fit,
        "n_ratings": part.n_ratings,
        "n_clusters": part.n_clusters,
        "n_excluded": part.n_excluded,
        "converged": fitted is not None and fitted.converged,
        "singular": singular,
        "message": "; ".join(dict.fromkeys(_one_line(note) for note in notes)),
    }
    if fitted is None:
        yield {**common, "term": None, "component": "fixed"}
        return
    # A term left out, and each (co)variance, has no test: NaN throughout.
    spread = np.full((2, len(names)), np.nan)
    spread[:, ~determined] = fitted.estimate, fitted.se
    for name, estimate, se in zip(names, *spread.tolist(), strict=True):
        yield {**common, "term": name, "component": "fixed", **_test(estimate, se, df=fitted.df, confidence=confidence)}
    for name, variance in fitted.variances:
        yield {**common, "term": name, "component": "random", "estimate": variance}
    yield {**common, "term": "residual", "component": "residual", "estimate": fitted.residual}


def _test(estimate: float, se: float, *, df: float, confidence: float) -> dict[str, float]:
    """Test and interval of one fixed term, by t or, with infinite degrees of freedom, z."""
    statistic = estimate / se if se > 0 else math.nan
    margin = float(stats.t.ppf((1 + confidence) / 2, df)) * se
    return {
        "estimate": estimate,
        "se": se,
        "statistic": statistic,
        "df": df if math.isfinite(df) and math.isfinite(se) else math.nan,
        "p": 2 * float(stats.t.sf(abs(statistic), df)),
        "ci_low": estimate - margin,
        "ci_high": estimate + margin,
    }


def _fixed_design(part: _FitData) -> _Design:
    """Build the design of the fixed terms; NotEstimableError if there are too few ratings or clusters for any fit."""
    if part.fault:
        raise NotEstimableError(f"the formula cannot be evaluated on these ratings ({part.fault})")
    if part.n_clusters < 2:
        raise NotEstimableError(
            f"{plural(part.n_ratings, 'rating')} in {plural(part.n_clusters, 'cluster')}; two clusters are needed"
        )
    return part.design(part.layouts[0])


def _left_out(kind: str, design: _Design, determined: BoolArray) -> list[str]:
    """Return a note on the columns that a rank-deficient design is fitted without; empty if it has full rank."""
    names = [name for name, out in zip(design.names, determined, strict=True) if out]
    if not names:
        return []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"rank deficient: earlier {kind} terms determine {', '.join(names[:3])}{more}, left out"]


def _fit(model: _Model, part: _FitData, fixed: _Design) -> _Fitted:
    n_terms = len(fixed.names)
    if part.n_ratings <= n_terms:
        raise NotEstimableError(
            f"{plural(part.n_ratings, 'rating')} {either(part.n_ratings, 'does', 'do')} not determine "
            f"{plural(n_terms, 'term')} and a residual variance"
        )
    response = np.asarray(part.columns[model.response], dtype=np.float64)
    if model.fit == "ols":
        return _fit_ols(response, fixed, part)
    return _fit_mixed(response, fixed, part)


def _fit_ols(response: FloatArray, fixed: _Design, part: _FitData) -> _Fitted:
    # Imported here: statsmodels is slow, and only a user's own formula needs it.
    from statsmodels.regression.linear_model import OLS

    try:
        results = OLS(response, fixed.values).fit(cov_type="cluster", cov_kwds={"groups": part.clusters})
        estimate, se = np.array(results.params), np.array(results.bse)
        ordinary = np.sqrt(results.mse_resid * np.diag(results.normalized_cov_params))
        residual, left = float(results.mse_resid), float(results.ssr)
    except Exception as error:  # a linear-algebra failure has many types
        raise NotEstimableError(_reason(error)) from error
    notes = []
    if left <= 1e-20 * float(response @ response):
        se[:] = np.nan
        notes.append("the terms fit the ratings exactly: there is no standard error")
    # Where clusters are fitted exactly, e.g. an emotion with one narrative, their scores are 0 and so is the sandwich.
    degenerate = se <= _DEGENERATE * ordinary
    if degenerate.any():
        se[degenerate] = np.nan
        notes.append(
            f"no standard error for {plural(int(np.count_nonzero(degenerate)), 'term')}: the formula fits their "
            "clusters exactly"
        )
    if part.n_clusters <= len(fixed.names):
        notes.append(
            f"{plural(part.n_clusters, 'cluster')} for {plural(len(fixed.names), 'term')}: the standard error of a "
            "term that varies only between clusters is too small"
        )
    return _Fitted(estimate, se, part.n_clusters - 1.0, residual, converged=True, singular=False, notes=notes)


def _fit_mixed(response: FloatArray, fixed: _Design, part: _FitData) -> _Fitted:
    from statsmodels.regression.mixed_linear_model import MixedLM

    random = part.design(part.layouts[1])
    determined = random.determined()
    notes = _left_out("random", random, determined)
    random = random.keep(~determined)
    _refuse_confounded(fixed, random, part.clusters)
    try:
        fitter = MixedLM(response, fixed.values, groups=part.clusters, exog_re=random.values)
        results = fitter.fit(reml=True, method=list(_OPTIMISERS), maxiter=500)
        estimate, se = np.array(results.fe_params), np.array(results.bse_fe)
        covariance, residual = np.array(results.cov_re), float(results.scale)
        smallest = float(np.linalg.eigvalsh(results.cov_re_unscaled)[0])
        converged = bool(results.converged and np.isfinite(se).all() and np.isfinite(results.bse_re).all())
    except Exception as error:  # as above
        raise NotEstimableError(_reason(error)) from error
    on_boundary = smallest < _BOUNDARY
    if on_boundary:
        notes.append("singular: a variance of the random terms is 0, or a correlation 1")
    if not converged:
        notes.append("not converged: do not rely on these numbers")
    variances = [
        (f"var({a})" if i == j else f"cov({b}, {a})", float(covariance[i, j]))
        for i, a in enumerate(random.names)
        for j, b in enumerate(random.names[: i + 1])
    ]
    return _Fitted(estimate, se, math.inf, residual, converged, on_boundary or bool(determined.any()), variances, notes)


def _refuse_confounded(fixed: _Design, random: _Design, clusters: IntArray) -> None:
    """Raise NotEstimableError where fixed terms determine a random term in every cluster.

    Its variance is then not in the likelihood: MixedLM returns its starting value, 1, and calls it converged.
    """
    order = np.argsort(clusters, kind="stable")
    starts = np.searchsorted(clusters[order], np.arange(int(clusters.max()) + 1))
    rows = np.split(order, starts[1:])
    # Shape (k_fixed, n_clusters, k_random): each cluster's random columns, zero elsewhere, against the fixed ones.
    products = np.stack([fixed.values[row].T @ random.values[row] for row in rows], axis=1)
    explained = solve_triangular(fixed.triangle(), products.reshape(len(fixed.names), -1), trans="T")
    share = np.square(explained).reshape(products.shape).sum(axis=(0, 1)) / np.square(random.values).sum(axis=0)
    confounded = [name for name, part in zip(random.names, share, strict=True) if part > 1 - _DETERMINED]
    if confounded:
        raise NotEstimableError(
            f"the fixed terms leave nothing of the random {', '.join(confounded)} in any cluster; take it out of "
            "statistics.random, or take out the fixed terms that tell every cluster from the others"
        )
