"""The interface of a task: everything in which a run that asks for one thing differs from a run that asks for another.

A task plans a run, asks the model, analyses the answers, and says what people can be asked. The stages use this
interface and never ask which task it is. :data:`audit.tasks.registry.TASKS` lists all tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import pandas as pd

from audit.asking.progress import Say
from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.schema import AuditConfig
from audit.configuration.task import TaskConfig
from audit.errors import ConfigError
from audit.people.questions import Form
from audit.runs.manifest import Manifest
from audit.runs.planned import Planned
from audit.runs.store import Kind, RunFolder
from audit.tables.base import Table
from audit.tasks.task_words import TaskWords
from stimuli.prompts import Prompt

if TYPE_CHECKING:
    from audit.engines.base import OpenModel
    from audit.report.summary import Summary
    from audit.statistics.remarks import Remark
    from audit.tasks.transcripts import Transcripts


@dataclass(frozen=True)
class Unanswered:
    """Replies to some experiencers that do not match the story, in a run whose replies match it on average."""

    dimension: str
    group: str  # empty of one's own group, or of the other groups: then δ compares replies with canned ones
    whom: str  # in words
    row: Mapping[str, Any]  # of ``MANIPULATION``


@dataclass(frozen=True)
class Published:
    """The analysis of a run, as it was written."""

    run_dir: Path
    report: Path
    gap: pd.DataFrame  # the main table, see audit.tables.gap.GAP
    confidence: float  # of the intervals in gap
    remarks: tuple[Remark, ...]
    summary: Summary  # the first screen of the report


@dataclass(frozen=True)
class Rated:
    """A run's ratings, or its texts as ratings whose intensity is a measure, with what the gate must know of them."""

    ratings: pd.DataFrame
    followed: Sequence[Mapping[str, Any]]  # of `MANIPULATION`
    again: pd.DataFrame  # of `ASKED_AGAIN`
    limits: frozenset[str] = frozenset()  # codes
    unanswered: frozenset[tuple[str, str]] = frozenset()
    """Dimension and name of groups whose texts do not match the story, where others do; the name is empty if they are
    those that δ compares with the others."""


P = TypeVar("P", bound=Planned)


class Task(ABC, Generic[P]):
    """What a model is asked to do."""

    kind: ClassVar[str]  # in `task=` and the manifest
    settings: ClassVar[type[TaskConfig]]
    described: ClassVar[Mapping[str, Table]]  # the tables in a run's tables/, by name
    collected: ClassVar[Table]  # the table that holds the model's answers
    forms: ClassVar[tuple[Form, ...]] = ()  # what people can be asked, the usual form first
    words: ClassVar[TaskWords | None] = None  # for pages of texts
    asked_to: ClassVar[str] = ""  # how a paper would go on after "was asked to"; empty if there is no experiencer
    # gaps in points, or the gaps of all measures; None if runs cannot be compared
    compared_by: ClassVar[Literal["gaps", "measures"] | None] = None
    asked_elsewhere: ClassVar[bool] = False  # whether answers collected by another tool can be read

    @property
    def stores(self) -> Kind:
        """What the model is asked for, which also names the folder of its answers."""
        return self.settings.stores

    def check_statistics(self, statistics: AnalysisSettings) -> None:
        """Raise ConfigError for settings of the analysis that the task cannot use; here, those of ratings."""
        for name in ("formula", *statistics.in_points(), "covariates", "human", "sensitivity"):
            if getattr(statistics, name) not in (None, False):
                raise ConfigError(
                    f"statistics.{name} is for runs of ratings; leave it out for a run of replies or of a questionnaire"
                )

    @abstractmethod
    def plan(self, config: AuditConfig) -> P:
        """Read everything that the prompts are made of, and check that it fits together."""

    def check(self, plan: P) -> None:
        """Raise an error, before the model is asked, for settings or files that would be useless afterwards."""

    def before_asking(self, plan: P, folder: Path) -> tuple[P, Sequence[Prompt]]:
        """Return a plan as far as its run's folder settles it, and the prompts that are asked to settle the rest."""
        return plan, ()

    @abstractmethod
    def records(self, plan: P) -> Iterator[dict[str, Any]]:
        """Yield every prompt as plain values, in the grid's order: its identifiers and its messages."""

    @abstractmethod
    def collect(
        self, plan: P, folder: RunFolder, *, command: str, say: Say, opened: OpenModel | None = None
    ) -> Manifest:
        """Ask for all that the run still lacks, and return its manifest; after an error earlier answers are kept."""

    def rated_by(self, folder: RunFolder, manifest: Manifest, measure: str) -> Rated:
        """Return texts as ratings whose intensity is a measure. Only tasks whose runs have measures."""
        raise NotImplementedError(self.kind)

    def check_stories(
        self, folder: RunFolder, manifest: Manifest, replies: pd.DataFrame, *, confidence: float | None = None
    ) -> tuple[list[dict[str, Any]], tuple[Unanswered, ...]]:
        """Return rows of ``MANIPULATION`` on whether texts match what is told, and to whom not; by default none."""
        return [], ()

    def take(
        self, found: Transcripts, folder: RunFolder, manifest: Manifest, config: AuditConfig, *, say: Say
    ) -> Manifest:
        """Keep what was read from a file of transcripts, measure it, and return the manifest."""
        raise ConfigError(f"task={self.kind} reads no transcripts; only task=reply does")

    @abstractmethod
    def draw(self, manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Any]:
        """Draw all figures of a run's page that its tables allow, by name."""

    @abstractmethod
    def publish(self, folder: RunFolder, manifest: Manifest) -> Published:
        """Analyse a run and render it. Nothing is written, not even the manifest, until everything has succeeded."""
