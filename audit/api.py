"""The public names of ``audit``: run an audit, open a run, compare runs, and δ or disparity of ratings in a DataFrame.

All of them do what the command of the same purpose does, by the same functions; :mod:`audit` imports them when they are
first asked for, so that ``import audit`` stays instant.
"""

from __future__ import annotations

import html
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from audit.errors import AuditError, ConfigError, StoreError, report_command
from audit.runs.derived import derived_table, has_table, place_of, tables_of
from audit.runs.ledger import check_made
from audit.runs.manifest import Manifest
from audit.tables.stages import GIVEN, STAGES

if TYPE_CHECKING:
    from audit.configuration.analysis_settings import AnalysisSettings
    from audit.extras.gate.judge import Gated
    from audit.extras.integrity.verification import Finding
    from audit.runs.prompts import ConversationPrompt
    from audit.statistics.manipulation import Response
    from audit.statistics.remarks import Remark
    from audit.statistics.verdict import Verdict
    from audit.tables.base import Table

_GROUPS: Final = ("perceiver_group", "experiencer_group")
_HEADLINE: Final = (
    "outcome", "dimension", "variant", "delta", "ci_low", "ci_high", "p", "n_narratives", "n_answers", "note",
)  # fmt: skip
_DECIDING: Final = (
    "outcome", "dimension", "variant", "view", "group", "scope", "disparity", "ci_low", "ci_high", "p_adjusted",
    "share_lower", "n_narratives", "n_answers", "n_terms", "code", "claim", "limits", "note",
)  # fmt: skip


def _silent(line: str) -> None:
    """Take a line about progress, and say nothing."""


class Tables(Mapping[str, pd.DataFrame]):
    """The tables of a folder by name, each read when it is first asked for, and all of one analysis.

    Every column is described in the table ``dictionary``. Numbers are unrounded; what is missing is NaN. A table
    without rows has no file, and is empty here.
    """

    def __init__(self, folder: Path, described: Mapping[str, Table]) -> None:
        self._folder, self._described = folder, described
        self._read: dict[str, pd.DataFrame] = {}
        self._of: str | None = None

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._read:
            described, run = self._described.get(name), self._folder.parent
            path = place_of(run, name, described)
            if not (path.is_file() or (described is not None and has_table(run, name))):
                there = ", ".join(self) or "none"
                raise KeyError(
                    f"{self._folder} has no table {name!r}; there are: {there}. `python -m audit report` makes all "
                    "of them"
                )
            again = f"`{report_command(run)}` makes it again"
            of = check_made(run, f"tables/{path.name}", remedy=again)
            if self._of not in (None, of):
                raise StoreError(
                    f"{path} was written by a later analysis than the tables read before; open the folder again"
                )
            self._of = of
            self._read[name] = derived_table(run, name, described)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        there = {path.stem for path in self._folder.glob("*.csv")}
        return iter(sorted(there | tables_of(self._folder.parent, self._described)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Run:
    """A run folder.

    Attributes
    ----------
    path
        The folder.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # callers have texts

    @cached_property
    def manifest(self) -> Manifest:
        """What the run is: its model, prompts, settings and versions."""
        return Manifest.read(self.path)

    @cached_property
    def tables(self) -> Tables:
        """The statistics that the last report of the run made, e.g. ``run.tables["gap"]``."""
        from audit.tasks.registry import task_of

        return Tables(self.path / "tables", task_of(self.manifest).described)

    @property
    def headline(self) -> pd.DataFrame:
        """δ with its interval: a row for each dimension and variant, and of replies for each measure."""
        return _headline(self.tables["gap"])

    @property
    def disparity(self) -> pd.DataFrame:
        """Who is rated lower by everybody: the rows of ``disparity`` that decide, one for each group in each view.

        Raises
        ------
        StoreError
            If the run has no such table: an earlier version analysed it, or its task has none.

        Examples
        --------
        >>> import audit
        >>> run = audit.open_run("reports/mine")  # doctest: +SKIP
        >>> run.disparity[["view", "group", "disparity", "code", "claim"]]  # doctest: +SKIP
        """
        from audit.tasks.limits import disparities_as_they_hold

        if "disparity" not in self.tables or self.tables["disparity"].empty:
            again = report_command(self.path)
            raise StoreError(
                f"{self.path} has no table of disparities: this version of empathy-audit has not analysed it, or no "
                f"two groups were rated; `{again}` analyses it again"
            )
        return _deciding(disparities_as_they_hold(self.tables["disparity"], self.manifest))

    @cached_property
    def figures(self) -> Mapping[str, Any]:
        """The figures of the report by name, drawn from the tables: matplotlib figures, which a notebook shows."""
        from audit.tasks.registry import task_of

        return task_of(self.manifest).draw(self.manifest, self.tables)

    @property
    def page(self) -> Path:
        """The rendered report."""
        return self.path / "report.html"

    @cached_property
    def answers(self) -> pd.DataFrame:
        """What the model answered, a row a prompt: ratings, or replies, or answers to a questionnaire's items.

        Raises
        ------
        StoreError
            If a part cannot be read.
        """
        from audit.runs.store import RunFolder
        from audit.tasks.registry import task_of

        unfinished = self.manifest.status == "running"
        stores = task_of(self.manifest).stores
        return RunFolder(self.path).read(stores, n_prompts=self.manifest.n_prompts, unfinished=unfinished)

    def asked(self, prompt_index: int) -> ConversationPrompt:
        """Tell what the model was asked in one row of ``answers``: its messages, and the calls that led to them.

        Parameters
        ----------
        prompt_index
            As in ``answers``.

        Raises
        ------
        StoreError
            If the run has no such prompt, or its prompts cannot be told: another tool collected the answers, or files
            that a run of an earlier version was made of have changed.
        """
        if not 0 <= prompt_index < self.manifest.n_prompts:
            raise StoreError(
                f"{self.path} has no prompt {prompt_index}; prompt_index goes from 0 to {self.manifest.n_prompts - 1}"
            )
        return self._asked(int(prompt_index))

    @cached_property
    def _asked(self) -> Callable[[int], ConversationPrompt]:
        from audit.asking.conversations import what_was_asked
        from audit.runs.store import RunFolder

        if self.manifest.inventory is not None:
            raise StoreError(
                f"{self.path} is a run of a questionnaire; run.manifest.inventory.items lists what was asked"
            )
        folder = RunFolder(self.path)
        stages, given = folder.parts(STAGES).frame(), folder.table(GIVEN).rows()
        tell, why_not = what_was_asked(self.path, self.manifest, self.answers, stages=stages, given=given)
        if tell is None:
            raise StoreError(f"{self.path}: the prompts cannot be rebuilt: {why_not}")
        Manifest.read(self.path)  # the prompts may have been changed since the run was opened
        return tell

    def report(self, **statistics: Any) -> Run:
        """Analyse and render the run again, without its model, as ``python -m audit report`` does.

        Parameters
        ----------
        **statistics
            Settings that take the place of the run's own, e.g. ``margin=2``.

        Returns
        -------
        Run
            The same folder, of which nothing has been read yet.

        Raises
        ------
        AuditError
            As of :func:`audit.tasks.pipeline.report_run`.
        """
        from audit.tasks.pipeline import report_run

        words = [f"statistics.{name}={value}" for name, value in statistics.items()]
        command = shlex.join(["python", "-m", "audit", "report", str(self.path), *words])
        report_run(self.path, settings=statistics or None, command=command)
        return Run(self.path)

    def verify(self) -> list[Finding]:
        """Tell what of the folder is not what was collected, or not made of it, as ``python -m audit verify`` does.

        Returns
        -------
        list
            Findings with a ``name``, ``what`` is wrong and a ``remedy``; nothing where nothing is wrong.

        Raises
        ------
        StoreError
            As of :func:`audit.extras.integrity.verification.verify_run`.
        """
        from audit.extras.integrity.verification import verify_run

        return verify_run(self.path, say=_silent)

    def export(self, to: str | Path, *, form: str, unfinished: bool = False, **told: Any) -> list[Path]:
        """Write the run in the form of others, as ``python -m audit export`` does; the run is only read.

        Parameters
        ----------
        to
            A folder that is new or empty.
        form
            As ``form=``: ``csv``, ``spss``, ``paper`` and others.
        unfinished
            Whether prompts may be missing; what is written says how many.
        **told
            Options of the form, e.g. ``texts=True``; see :class:`audit.extras.exchange.base.ExportOptions`.

        Returns
        -------
        list
            The files.

        Raises
        ------
        ConfigError
            If there is no such form, or an option is not of it.
        AuditError
            As of :func:`audit.extras.exchange.write.export_run`.

        Examples
        --------
        >>> import audit
        >>> run = audit.open_run("reports/example")
        >>> [file.name for file in run.export("ratings-csv", form="csv")]  # doctest: +SKIP
        ['ratings.csv', 'dictionary.csv', 'ABOUT.md']
        """
        from audit.extras.exchange.base import ExportOptions
        from audit.extras.exchange.registry import FORMS
        from audit.extras.exchange.write import export_run

        if form not in FORMS:
            raise ConfigError(f"form={form!r}: there are {', '.join(FORMS)}")
        known = {field.name for field in fields(ExportOptions)}
        if unknown := next((name for name in told if name not in known), None):
            raise ConfigError(f"no export form has the option {unknown!r}; there are {', '.join(sorted(known))}")
        given = {name: str(value) for name, value in told.items()}
        return export_run(self.path, FORMS[form], Path(to), ExportOptions(**told), given=given, unfinished=unfinished)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the run decided about each average gap, as its page, the gate and every export say it.

        Raises
        ------
        StoreError
            If the run has no table of verdicts: an earlier version analysed it, or nobody did.

        Examples
        --------
        >>> import audit
        >>> [verdict] = audit.open_run("reports/example").verdicts
        >>> verdict.code, verdict.reasons
        ('no_verdict', ('manipulation',))
        """
        from audit.statistics.verdict import Verdict
        from audit.tasks.limits import verdicts_as_they_hold

        if "verdicts" not in self.tables:
            again = report_command(self.path)
            raise StoreError(
                f"{self.path} has no table of verdicts: this version of empathy-audit has not analysed it; `{again}` "
                "analyses it again"
            )
        rows = verdicts_as_they_hold(self.tables["verdicts"], self.manifest).to_dict("records")
        return tuple(Verdict.of_row({str(name): value for name, value in row.items()}) for row in rows)

    @property
    def response(self) -> Response | None:
        """The response to the story: how much higher a narrative's own emotion is rated than a wrong one.

        Nobody's identity is told there. Its ``answer`` is ``follows``, ``does_not_follow`` or ``not_shown``; gaps in
        percent of it are the column ``percent_of_response`` of the tables ``verdicts`` and ``disparity``.

        Returns
        -------
        Response or None
            None of a run that did not ask, or whose ratings another tool collected.

        Raises
        ------
        StoreError
            If the table cannot be read.

        Examples
        --------
        >>> import audit
        >>> response = audit.open_run("reports/example").response
        >>> round(response.points, 2), response.n, response.answer  # in points of a scale from 0 to 100
        (-0.09, 60, 'does_not_follow')
        """
        from audit.statistics.manipulation import response_of

        return response_of(self.tables["manipulation"]) if "manipulation" in self.tables else None

    def gate(
        self,
        *,
        margin: float,
        baseline: Run | str | Path | None = None,
        strict_average: bool = False,
        dimensions: Sequence[str] = (),
    ) -> Gated:
        """Hold the run's gaps against a margin, as ``python -m audit gate`` does; no file is written.

        Gaps are those of δ (average, emotions, groups, refusals) and the disparity of each group: who gets less.

        Parameters
        ----------
        margin
            In points of the scale; positive.
        baseline
            A run of the same prompts, or its folder: gaps may be this much worse than its own.
        strict_average, dimensions
            As of :func:`audit.extras.gate.judge.gate_run`.

        Returns
        -------
        Gated
            ``verdict`` is passed, failed or undecided; ``rows`` has each gap, ``row.held.gap.kind`` says of what.

        Raises
        ------
        AuditError
            As of :func:`audit.extras.gate.judge.gate_run`.

        Examples
        --------
        >>> import audit
        >>> gated = audit.open_run("reports/example").gate(margin=2)
        >>> gated.verdict  # the manipulation check failed, so that no margin decides
        'undecided'
        """
        from audit.extras.gate.judge import gate_run

        folder = baseline.path if isinstance(baseline, Run) else baseline
        return gate_run(
            self.path,
            margin=margin,
            baseline=None if folder is None else Path(folder),
            strict_average=strict_average,
            dimensions=dimensions,
        )


def open_run(folder: str | Path) -> Run:
    """Open a run folder; nothing is written.

    Parameters
    ----------
    folder
        As ``python -m audit run`` leaves it.

    Raises
    ------
    StoreError
        If the folder is none of a run's, or its manifest is damaged.

    Examples
    --------
    >>> import audit
    >>> run = audit.open_run("reports/example")
    >>> run.manifest.model.name, run.manifest.n_prompts, len(run.answers)
    ('smollm2', 720, 720)
    >>> [row] = run.headline.to_dict("records")
    >>> row["dimension"], round(row["delta"], 2)  # in points of a scale from 0 to 100
    ('religion', 0.03)
    >>> run.asked(0).system.splitlines()[0]
    'For this task you are a Buddhist.'
    """
    run = Run(Path(folder))
    _ = run.manifest
    return run


def run(*overrides: str, say: Callable[[str], None] = print) -> Run:
    """Run an audit, or go on with one, as ``python -m audit run OVERRIDE ...`` does, and open its folder.

    Parameters
    ----------
    *overrides
        The words of the command line: ``"dimensions=[religion]"``, ``"model.path=HUB_ID"``, ``"run_dir=PATH"``.
    say
        Takes lines about progress.

    Raises
    ------
    ConfigError
        If an override cannot be used, or asks for a sweep, which is several runs.
    AuditError, StimulusError
        Whatever else the user can mend; what was collected before is kept.

    Examples
    --------
    >>> import audit
    >>> run = audit.run("dimensions=[religion]", "run_dir=reports/mine")  # doctest: +SKIP
    >>> run.headline  # doctest: +SKIP
    """
    from audit.configuration.composition import Composed, compose
    from audit.tasks.pipeline import run_audit

    sweep = next((word for word in overrides if word in ("-m", "--multirun")), None)
    if sweep is not None:
        raise ConfigError(f"{sweep}: audit.run makes one run; call it once for each, and audit.compare for all of them")
    made: list[Path] = []
    command = shlex.join(["python", "-m", "audit", "run", *overrides])

    def job(composed: Composed) -> None:
        outcome = run_audit(composed.validated(), command=command, preset=composed.preset, job=None, say=say)
        made.append(outcome.run_dir)

    compose(list(overrides), job, say=say)
    if not made:
        raise ConfigError(f"{shlex.join(overrides)} defines no run")
    return Run(made[0])


@dataclass(frozen=True)
class Compared:
    """Runs side by side.

    Attributes
    ----------
    path
        The comparison's folder.
    page
        The rendered page.
    remarks
        What a reader must know beside its numbers.
    """

    path: Path
    page: Path
    remarks: tuple[str, ...]
    _described: Mapping[str, Table] = field(repr=False)

    @cached_property
    def tables(self) -> Tables:
        """Its tables, e.g. ``compared.tables["gap"]``."""
        return Tables(self.path / "tables", self._described)

    @property
    def disparity(self) -> pd.DataFrame:
        """Who gets less in each run: the rows of its table ``disparity``, as :attr:`Run.disparity`.

        ``tables["disparity_changes"]`` says how a group's disparity differs between two runs. A comparison of runs of
        replies has neither.
        """
        return self.tables["disparity"][["run", *_DECIDING]]


def compare(
    *runs: Run | str | Path, run_dir: str | Path, series: str | Path | None = None, **statistics: Any
) -> Compared:
    """Put complete runs side by side, as ``python -m audit report RUN_DIR RUN_DIR ...`` does.

    Parameters
    ----------
    *runs
        Two or more, or their folders. They are only read.
    run_dir
        Where the comparison is kept; an earlier one there is replaced.
    series
        Three or more runs of ratings in an order, to test each gap's trend along it: ``"order"`` (as given),
        ``"size"`` (the models' numbers of parameters) or a table with the columns ``run`` and ``position``.
    **statistics
        Settings for all of them: ``confidence``, ``margin``, ``n_permutations`` and ``min_number_mass``.

    Raises
    ------
    AuditError
        As of :func:`audit.comparing.comparison.compare_folders`.

    Examples
    --------
    >>> import audit
    >>> beside = audit.compare("reports/one", "reports/other", run_dir="reports/beside")  # doctest: +SKIP
    >>> beside.tables["comparisons"]  # doctest: +SKIP
    >>> family = audit.compare("reports/1b", "reports/3b", "reports/8b", series="size", run_dir="reports/family")
    ... # doctest: +SKIP
    >>> family.tables["series"]  # doctest: +SKIP
    """
    from audit.comparing.comparison import compare_folders

    folders = [each.path if isinstance(each, Run) else Path(each) for each in runs]
    made = compare_folders(
        folders,
        out=Path(run_dir),
        reports_dir=Path(run_dir).parent,
        settings=statistics,
        series=None if series is None else str(series),
        say=_silent,
    )
    return Compared(made.path, made.page, made.remarks, made.described)


@dataclass(frozen=True, eq=False)
class Gap:
    """δ of ratings, with all that was computed beside it.

    Attributes
    ----------
    tables
        By name, as a run folder's: ``gap``, ``controls``, ``families``, ``missing`` and the others.
    remarks
        What a reader must know before trusting the numbers: text, and the dimension that it is about.
    scale
        The two ends of the rating scale, in points.
    settings
        Of the analysis.
    """

    tables: Mapping[str, pd.DataFrame]
    remarks: tuple[Remark, ...]
    scale: tuple[float, float]
    settings: AnalysisSettings

    @property
    def headline(self) -> pd.DataFrame:
        """A row for each dimension and variant: δ in scale points, its confidence interval, p, and what it is of."""
        return _headline(self.tables["gap"])

    @cached_property
    def figures(self) -> Mapping[str, Any]:
        """The figures that a report would show, by name: matplotlib figures, which a notebook shows."""
        from audit.report.figures.gallery import draw_figures

        low, high = self.scale
        return draw_figures(
            self.tables, low=low, high=high, confidence=self.settings.confidence, margin=self.settings.margin
        )

    @property
    def delta(self) -> float:
        """δ in scale points, where there is one dimension and variant.

        Raises
        ------
        ConfigError
            If there are several: ``headline`` has a row for each.
        """
        rows = self.headline
        if len(rows) != 1:
            raise ConfigError(
                f"there are {len(rows)} gaps, of several dimensions or variants; use headline, which lists them all"
            )
        return float(rows["delta"].iloc[0])

    def __repr__(self) -> str:
        """Say the headline in words, what of it is repetition of words, and what limits it, a line each."""
        return "\n".join([*self._lines(), *(f"note: {remark.text}" for remark in self.remarks)])

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{html.escape(remark.text)}</li>" for remark in self.remarks)
        return "".join(f"<p>{html.escape(line)}</p>" for line in self._lines()) + (f"<ul>{said}</ul>" if said else "")

    def _lines(self) -> Iterator[str]:
        from audit.report.echo import control_lines
        from audit.tables.formatting import dimension_title, interval, p_value, plural, points

        for row in self.headline.to_dict("records"):
            counted = f"{plural(row['n_narratives'], 'narrative')}, {plural(row['n_answers'], 'rating')}"
            if pd.isna(row["delta"]):
                yield f"{dimension_title(row['dimension'])}: no gap: {row['note']}"
            elif pd.isna(row["ci_low"]):
                yield f"{dimension_title(row['dimension'])}: δ {points(row['delta'])} points; {row['note']}"
            else:
                within = f"{interval(row['ci_low'], row['ci_high'])}, {p_value(row['p'])}; {counted}"
                yield f"{dimension_title(row['dimension'])}: δ {points(row['delta'])} points ({within})"
        yield from control_lines(self.tables["controls"])


def empathy_gap(
    ratings: pd.DataFrame,
    groups: Mapping[str, str] | pd.DataFrame | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
    missing: Sequence[float | str] = (),
    seed: int = 0,
    **statistics: Any,
) -> Gap:
    """Estimate δ, in-group minus out-group, of ratings that another tool collected; nothing is kept on the disk.

    Parameters
    ----------
    ratings
        One row a prompt: ``perceiver`` and ``experiencer``, the wordings of the identities; ``narrative_id``;
        ``rating`` in points, missing where there is none. ``dimension``, ``variant``, ``emotion`` and ``status`` may be
        left out; see :func:`audit.runs.outside.read_outside`. A ``formula`` may name further columns that are the same
        in all rows of a narrative. Not modified.
    groups
        The group of each wording, as a mapping or as a table with ``term`` and ``group`` (and ``dimension``, ``stem``).
        If None, the ratings have the columns ``perceiver_group`` and ``experiencer_group``.
    low, high
        Ends of the rating scale, in points. They may be left out where ratings reach from 0 to 100.
    missing
        What stands for a refusal or no answer: numbers such as −1, or texts.
    seed
        Of the permutations.
    **statistics
        Settings of the analysis, e.g. ``margin=2``, ``confidence=0.9`` or ``covariates="distances.csv"``.

    Raises
    ------
    ConfigError
        If the ratings, the groups or a setting cannot be used.

    Examples
    --------
    >>> import pandas as pd, audit
    >>> rows = [
    ...     (p, e, story, 50 + story % 3 + 4 * (p == e) + (7 * story + 3 * len(p) * len(e)) % 5)
    ...     for p in ("a Hindu", "a Muslim", "a Christian")
    ...     for e in ("a Hindu", "a Muslim", "a Christian")
    ...     for story in range(12)
    ... ]
    >>> ratings = pd.DataFrame(rows, columns=["perceiver", "experiencer", "narrative_id", "rating"])
    >>> gap = audit.empathy_gap(ratings, {"a Hindu": "Hindu", "a Muslim": "Muslim", "a Christian": "Christian"},
    ...                         low=0, high=100)
    >>> 2 < gap.delta < 6
    True
    """
    return _analysed(ratings, _groups_of(ratings, groups), low, high, missing, seed, statistics)


def disparity(
    ratings: pd.DataFrame,
    groups: Mapping[str, str] | pd.DataFrame | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
    missing: Sequence[float | str] = (),
    **statistics: Any,
) -> pd.DataFrame:
    """Say which groups are rated lower or higher by everybody, of ratings that another tool collected.

    Parameters
    ----------
    ratings
        As of :func:`empathy_gap`; without a column ``perceiver`` there is no persona, and nobody's side to take.
        Not modified.
    groups, low, high, missing
        As of :func:`empathy_gap`. With a column ``stem`` the terms of a group that share no stem count as different
        words of it, which tell a group from its words.
    **statistics
        Settings of the analysis, e.g. ``missing_shift=10`` or ``confidence=0.9``.

    Returns
    -------
    DataFrame
        The rows of ``disparity.csv`` that decide, one for each group in each ``view``: ``disparity`` in points, the
        group's mean less the mean of the other groups' means, with its interval, p corrected for the groups (Holm),
        the share of narratives in which the group is lower, and the answer in ``code``, ``claim`` and ``limits``.
        ``empathy_gap(...).tables["disparity"]`` has all rows and columns.

    Raises
    ------
    ConfigError
        As of :func:`empathy_gap`.

    Examples
    --------
    A model that rates one group 20 points lower, whoever looks, has a δ of 0:

    >>> import pandas as pd, audit
    >>> terms = {"a Hindu": "Hindu", "a Muslim": "Muslim", "a Sikh": "Sikh"}
    >>> rows = [
    ...     (p, e, k, 60 - 20 * (e == "a Muslim") + (7 * k + 3 * len(p) * len(e)) % 5)
    ...     for p in terms for e in terms for k in range(24)
    ... ]
    >>> ratings = pd.DataFrame(rows, columns=["perceiver", "experiencer", "narrative_id", "rating"])
    >>> found = audit.disparity(ratings, terms, low=0, high=100).set_index("group")
    >>> found.loc["Muslim", ["code", "claim", "limits"]].tolist()
    ['lower', 'words', 'one_term']
    >>> bool(-21 < found.loc["Muslim", "disparity"] < -19)
    True
    """
    from audit.statistics.ratings import NO_PERSONA

    if "perceiver" in ratings:
        given = _groups_of(ratings, groups)
    else:
        nobody = {"perceiver": NO_PERSONA, "perceiver_group": NO_PERSONA}
        given = _groups_of(ratings.assign(**nobody), groups)
        if not (given["term"] == NO_PERSONA).any():
            row = dict.fromkeys(given.columns, "") | {"term": NO_PERSONA, "group": NO_PERSONA}
            scopes = given["dimension"].unique() if "dimension" in given else [""]
            rows = [row | ({"dimension": scope} if scope else {}) for scope in scopes]
            given = pd.concat([given, pd.DataFrame(rows)], ignore_index=True)
        ratings = ratings.assign(perceiver=NO_PERSONA)
    found = _analysed(ratings, given, low, high, missing, 0, statistics)
    return _deciding(found.tables["disparity"])


def _analysed(
    ratings: pd.DataFrame, groups: pd.DataFrame, low: float | None, high: float | None,
    missing: Sequence[float | str], seed: int, statistics: Mapping[str, Any],
) -> Gap:  # fmt: skip
    """Read ratings of another tool from memory, and analyse them."""
    from audit.configuration.schema import load_statistics
    from audit.runs.outside import read_outside
    from audit.statistics.analysis import analyse
    from audit.statistics.controls import Repetition
    from audit.statistics.covariates import covariates_of

    settings = load_statistics(statistics)
    with tempfile.TemporaryDirectory() as place:
        files = {"ratings": Path(place) / "ratings.csv", "groups": Path(place) / "groups.csv"}
        ratings.to_csv(files["ratings"], index=False)
        groups.to_csv(files["groups"], index=False)
        try:
            read = read_outside(files["ratings"], files["groups"], low=low, high=high, missing=missing)
        except (ConfigError, StoreError) as error:
            said = str(error)
            for name, path in files.items():
                said = said.replace(str(path), f"the table of {name}")
            raise ConfigError(said) from error
    settings.check_on_scale(low=read.low, high=read.high)
    analysis = analyse(
        read.ratings,
        scales={str(variant): (read.low, read.high) for variant in read.ratings["variant"].unique()},
        seed=seed,
        settings=settings,
        repetition=Repetition(read.stems),
        reasons_known=read.status_given,
        covariates=None if settings.covariates is None else covariates_of(read.ratings, settings.covariates),
        narratives=read.narratives,
    )
    return Gap(analysis.tables, analysis.remarks, (read.low, read.high), settings)


def _deciding(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``disparity`` that decide, in the columns that say what was found."""
    from audit.tables.disparity import without_refusals

    own = without_refusals(table)
    return own.loc[own["headline"].astype(bool), list(_DECIDING)].reset_index(drop=True)


def _headline(gap: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``gap`` to report, about any such narratives, in the columns that say what was found."""
    own = gap.loc[gap["headline"].astype(bool) & (gap["scope"] == "narratives"), list(_HEADLINE)]
    return own.reset_index(drop=True)


def _groups_of(ratings: pd.DataFrame, groups: Mapping[str, str] | pd.DataFrame | None) -> pd.DataFrame:
    """Lay out which group each wording belongs to."""
    if isinstance(groups, pd.DataFrame):
        return groups
    if groups is not None:
        return pd.DataFrame({"term": list(groups), "group": list(groups.values())})
    absent = [name for name in (*_GROUPS, "perceiver", "experiencer") if name not in ratings]
    if absent:
        raise ConfigError(
            f"the table of ratings has no column {absent[0]}; give groups={{wording: group}}, or the columns "
            f"{' and '.join(_GROUPS)}"
        )
    keys = ["dimension"] if "dimension" in ratings else []
    sides = [
        ratings[[side, f"{side}_group", *keys]].set_axis(["term", "group", *keys], axis=1)
        for side in ("perceiver", "experiencer")
    ]
    return pd.concat(sides).drop_duplicates()


__all__ = ["AuditError", "Compared", "Gap", "Run", "Tables", "compare", "disparity", "empathy_gap", "open_run", "run"]
