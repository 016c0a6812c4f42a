"""The shape of a comparison of runs, for ratings and replies alike: the runs, their caveats, and the files written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.planted import MARK
from audit.runs.differences import accepted_in, ends_in, engine_remarks, identity_of, label_runs
from audit.runs.manifest import Manifest
from audit.tables.base import Table, dictionary
from audit.tables.formatting import dimension_title, encodable, plural

if TYPE_CHECKING:
    from audit.comparing.paper_table import PaperTable
    from audit.comparing.run_gaps import RunGaps
    from audit.comparing.series import RunPositions
    from audit.report.manifest import ExampleView
    from audit.report.results import Results
    from audit.report.summary import RenderedPage, Summary
    from audit.report.verdicts import Step

_PACKAGED: Final = "geneva"
"""Source of the narratives packaged here: their identifiers always stand for the same texts."""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """A run in a comparison: its choices, its prompts by status, what each cost, and the hash of its answers.

    ``verdicts`` are rows of ``tables.VERDICTS``, with the comparison's settings.
    """

    folder: Path
    manifest: Manifest
    choices: Mapping[str, str]
    counts: Mapping[str, int]
    cost: Mapping[str, float]
    sha256: str
    gaps: RunGaps | None = None
    verdicts: tuple[dict[str, Any], ...] = ()

    @property
    def known_gaps(self) -> RunGaps:
        """The run's gaps, once it is analysed."""
        assert self.gaps is not None
        return self.gaps

    def row(self, label: str) -> dict[str, Any]:
        """Return the columns that every table of runs has."""
        return {
            "run": label,
            **self.choices,
            "folder": encodable(str(self.folder)),
            "identity": identity_of(self.manifest),
            "started": self.manifest.started,
            "version": self.manifest.versions.get("empathy-audit", ""),
            "command": self.manifest.command,
            "n_prompts": sum(self.counts.values()),
            **{f"n_{status}": number for status, number in self.counts.items()},
        }


RunT = TypeVar("RunT", bound=ComparedRun)


@dataclass(frozen=True)
class ComparisonContent:
    """The content of a comparison, before it is written."""

    tables: Mapping[str, pd.DataFrame]
    described: Mapping[str, Table]
    confidence: float
    collected: str  # the column of the table `runs` that holds the hash of the collected answers
    remarks: tuple[str, ...]
    left_out: Sequence[str]  # runs that were asked for and failed, in words
    papers: Mapping[str, PaperTable]  # by file stem
    command: str  # makes the comparison again
    page: Callable[[ComparisonContent, Results], RenderedPage]  # renders it with its tables and the figures
    draw: Callable[[], Mapping[str, Any]] = dict
    again: Callable[[Step], Sequence[str]] = lambda step: ()  # the commands that do what a step says, for the runs
    example: ExampleView | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # further entries of the manifest

    def hashes(self) -> list[dict[str, str]]:
        """Return each run's label, folder, identity and hash of its answers, for the manifest."""
        columns = ("run", "folder", "identity", self.collected)
        return [{name: str(row[name]) for name in columns} for row in self.tables["runs"].to_dict("records")]

    def answered(self, first: Summary) -> Summary:
        """Return a first screen with the commands that do what its next step says."""
        return replace(first, commands=tuple(self.again(first.step)))

    def files(self, drawn: Mapping[str, Any]) -> tuple[dict[str, bytes], Summary]:
        """Return all files except the manifest, by path, and the page's first screen."""
        from audit.report.figures.style import figure_files, page_svgs
        from audit.report.results import Results

        figures = page_svgs(drawn)
        content = {
            f"tables/{name}.csv": self.described[name].csv(table) for name, table in self.tables.items() if len(table)
        }
        content["tables/dictionary.csv"] = dictionary(self.described.values())
        for name, figure in drawn.items():
            content |= figure_files(name, figure, figures[name])
        for name, paper in self.papers.items():
            content[f"{name}.md"] = paper.markdown().encode("utf-8", "replace")
            content[f"{name}.tex"] = paper.latex().encode("utf-8", "replace")
        results = Results(self.tables, self.described, self.confidence, figures)
        page = self.page(self, results)
        return content | {"comparison.html": page.encode()}, page.summary


@dataclass(frozen=True)
class Differences:
    """How runs of one kind differ.

    ``references`` holds the reference of each run that has one; ``remarks`` are those of this kind of runs alone. The
    other attributes are those of :class:`ComparisonContent`.
    """

    tables: Mapping[str, pd.DataFrame]
    references: Mapping[str, str]
    remarks: tuple[str, ...]
    papers: Mapping[str, PaperTable]
    page: Callable[[ComparisonContent, Results], RenderedPage]
    draw: Callable[[], Mapping[str, Any]]


class RunsCompared(ABC, Generic[RunT]):
    """Compares runs of one kind: reads each folder, then sets the runs side by side."""

    settings: ClassVar[tuple[str, ...]]
    """Settings of the analysis that the comparison uses."""
    described: ClassVar[Mapping[str, Table]]
    collected: ClassVar[str]
    takes_series: ClassVar[bool] = False
    """Whether it can follow gaps along a series of runs."""

    def __init__(
        self, manifests: Mapping[Path, Manifest], used: AnalysisSettings, series: RunPositions | None = None
    ) -> None:
        self.manifests = manifests
        self.used = used
        self.series = series
        self.facts: dict[str, Any] = {}

    def side_by_side(self, *, left_out: Sequence[str], command: str, say: Callable[[str], None]) -> ComparisonContent:
        """Read all runs, label them by what sets them apart, and compare them.

        ``left_out`` describes runs that were asked for and failed. Raises StoreError if a run is incomplete.
        """
        from audit.report.manifest import example_view

        each: list[RunT] = []
        for folder, manifest in self.manifests.items():
            each += self.read(folder)
            say(f"{folder}: {plural(manifest.n_prompts, 'prompt')} read")
        labels = label_runs([run.choices for run in each], [encodable(run.folder.name) for run in each])
        runs = self.analysed(dict(zip(labels, each, strict=True)))
        choices = {label: run.choices for label, run in runs.items()}
        found = self.compare(runs, choices)
        on_runs = remarks_on_runs(runs, self.used, self.settings)
        return ComparisonContent(
            tables=found.tables,
            described=self.described,
            confidence=self.used.confidence,
            collected=self.collected,
            remarks=(*found.remarks, *on_runs, *engine_remarks(choices, found.references)),
            left_out=left_out,
            papers=found.papers,
            command=command,
            page=found.page,
            draw=found.draw,
            again=partial(self.again, runs=list(runs.values())),
            example=example_view(next(iter(runs.values())).manifest),
            facts=self.facts,
        )

    def again(self, step: Step, *, runs: Sequence[RunT]) -> Sequence[str]:
        """Return the commands that do what a step says, each once; none if nothing is left to do."""
        from audit.tasks.outcome import asked_before, next_command

        if step.code == "nothing":
            return ()
        if step.code == "other_model":  # only where a run's own check fails, and with a prompt that is not here yet
            failed = [run for run in runs if any(row["next_step"] == step.code for row in run.verdicts)]
            made = [(run, next_command(step, run.manifest, run.folder, sweep=True)) for run in failed]
            asked = [run.choices for run in runs]
            commands = [command for run, command in made if not asked_before(command, run.choices, asked)]
        else:
            commands = [next_command(step, each, folder, sweep=True) for folder, each in self.manifests.items()]
        return list(filter(None, dict.fromkeys(commands)))

    def tables(self, runs: Mapping[str, RunT], **rows: Iterable[Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
        """Make all tables: the runs, their verdicts and controls, and of further rows; others are empty."""
        known: dict[str, Iterable[Mapping[str, Any]]] = {
            "runs": [run.row(label) | {self.collected: run.sha256} for label, run in runs.items()],
            "verdicts": [{"run": label, **row} for label, run in runs.items() for row in run.verdicts],
            "controls": [{"run": label, **row} for label, run in runs.items() for row in run.known_gaps.controls],
            **rows,
        }
        return {
            name: pd.DataFrame(list(known.get(name, ())), columns=list(columns))
            for name, columns in self.described.items()
        }

    @abstractmethod
    def read(self, folder: Path) -> Iterable[RunT]:
        """Read a complete run, one ComparedRun for each prompt variant.

        Keep only what is small: the next run is read while this one is held.
        """

    def analysed(self, runs: Mapping[str, RunT]) -> Mapping[str, RunT]:
        """Analyse what can only be analysed once all runs are read; by default nothing."""
        return runs

    @abstractmethod
    def compare(self, runs: Mapping[str, RunT], choices: Mapping[str, Mapping[str, str]]) -> Differences:
        """Compare runs, given by label."""


def texts_of(choices: Mapping[str, str]) -> str:
    """Return what a run's narrative identifiers stand for: equal only if the same identifier means the same text."""
    source = choices["narratives"]
    return source if source == _PACKAGED else f"{source} {choices['texts']}"


def remarks_on_runs(runs: Mapping[str, ComparedRun], used: AnalysisSettings, names: Sequence[str]) -> Iterator[str]:
    """Yield what limits a comparison of any runs; ``names`` are the settings that it uses."""
    manifests = {label: run.manifest for label, run in runs.items()}
    yield from accepted_in(manifests)
    yield from ends_in(manifests)
    if planted := [label for label, run in runs.items() if run.manifest.model.planted is not None]:
        yield f"No language model was asked, but a {MARK}: {which(planted, runs)}."
    yield from _other_languages(runs)
    identities = [run.known_gaps.identities for run in runs.values()]
    for dimension in dict.fromkeys(name for each in identities for name in each):
        asked = [each[dimension] for each in identities if dimension in each]
        if len({tuple(map(frozenset, sides)) for sides in asked}) > 1:
            yield (
                f"{dimension_title(dimension)}: the runs asked about different identities, so a difference between "
                "their δ may be one of the identities."
            )
    yield from _analysed_otherwise(runs, used, names)


def _other_languages(runs: Mapping[str, ComparedRun]) -> Iterator[str]:
    """Warn that language and translation are confounded if the prompts are in several languages."""
    spoken: dict[str, list[str]] = {}
    for label, run in runs.items():
        if run.choices["language"]:
            spoken.setdefault(run.choices["language"], []).append(label)
    if len(spoken) > 1:
        named = "; ".join(f"{language}: {', '.join(labels)}" for language, labels in spoken.items())
        yield (
            f"The runs are in several languages ({named}). Narratives of one identifier are translations of each other "
            "and count as the same. A difference between δ of two languages confounds the language with the "
            "translation: with the wording of prompts, narratives, identities and emotions, and with how answers are "
            "read. It does not show what the language does, nor what a culture does."
        )


def _analysed_otherwise(runs: Mapping[str, ComparedRun], used: AnalysisSettings, names: Sequence[str]) -> Iterator[str]:
    """Name the runs whose own reports used other settings of the analysis."""
    otherwise: dict[tuple[str, str], list[str]] = {}
    for label, run in runs.items():
        own = run.manifest.statistics
        recorded = own.model_fields_set
        other = [name for name in names if name in recorded and getattr(own, name) != getattr(used, name)]
        if other:
            said = tuple(", ".join(f"{name} {_setting(getattr(of, name))}" for name in other) for of in (own, used))
            otherwise.setdefault((said[0], said[1]), []).append(label)
    for (there, here), labels in otherwise.items():
        yield f"Analysed here with {here}, in the own reports of these runs with {there}: {'; '.join(labels)}."


def which(labels: Sequence[str], runs: Mapping[str, ComparedRun]) -> str:
    """Name the runs, or say "all runs"."""
    return "all runs" if len(labels) == len(runs) else "; ".join(labels)


def _setting(value: Any) -> str:
    return "none" if value is None else f"{value:g}"
