"""What a task is: all that differs between a run that asks for one thing and a run that asks for another.

A task plans a run, asks the model, analyses what it answered and says what people may be asked beside it. The stages
take what they need from a task, and none of them asks which one it is. :data:`audit.tasks.registry.TASKS` has them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import pandas as pd

from audit.configuration.schema import AuditConfig, StatisticsConfig, TaskConfig
from audit.engines.progress import Say
from audit.errors import IN_POINTS, ConfigError
from audit.people.questions import Form
from audit.report.task_words import TaskWords
from audit.runs.manifest import Manifest
from audit.runs.planned import Planned
from audit.runs.store import Kind, RunFolder
from audit.tables.base import Table

if TYPE_CHECKING:
    from audit.engines.base import OpenModel
    from audit.statistics.remarks import Remark


@dataclass(frozen=True)
class Published:
    """What a run ended in.

    Attributes
    ----------
    run_dir
        The run's folder.
    report
        The rendered report.
    gap
        Its first table: ``tables/gap.csv``, see :data:`audit.tables.gap.GAP`; of a run of replies
        ``tables/measure_gaps.csv``, see :data:`audit.tables.replies.MEASURE_GAPS`.
    confidence
        Level of the intervals in ``gap``.
    remarks
        What a reader must know beside it, in plain words.
    lines
        What is printed of ``gap``: lines of cells, the head first.
    controls
        What of each gap is repetition of words, in plain words.
    """

    run_dir: Path
    report: Path
    gap: pd.DataFrame
    confidence: float
    remarks: tuple[Remark, ...]
    lines: Sequence[tuple[str, ...]] = ()
    controls: tuple[str, ...] = ()


P = TypeVar("P", bound=Planned)


class Task(ABC, Generic[P]):
    """What a model is asked to do.

    Attributes
    ----------
    kind
        What ``task=`` and the manifest call it.
    settings
        How its settings are read.
    described
        The tables that an analysis makes of a run, in its ``tables/``, by name.
    collected
        What the model's answers are, as they are kept.
    forms
        What people may be asked beside the model, the usual one first; none where they have nothing to rate.
    words
        What pages of texts say of the task; None where it asks for none.
    asked_to
        What the perceiver is asked to do, as a paper says it after "was asked to"; empty where there is no experiencer.
    compared_by
        What is compared of several runs: their ``gaps`` in points, or those of all ``measures``; None where runs
        cannot stand side by side.
    asked_elsewhere
        Whether answers that another stack collected can be read.
    """

    kind: ClassVar[str]
    settings: ClassVar[type[TaskConfig]]
    described: ClassVar[Mapping[str, Table]]
    collected: ClassVar[Table]
    forms: ClassVar[tuple[Form, ...]] = ()
    words: ClassVar[TaskWords | None] = None
    asked_to: ClassVar[str] = ""
    compared_by: ClassVar[Literal["gaps", "measures"] | None] = None
    asked_elsewhere: ClassVar[bool] = False

    @property
    def stores(self) -> Kind:
        """What the model is asked for, and the folder that it is kept in."""
        return self.settings.stores

    def check_statistics(self, statistics: StatisticsConfig) -> None:
        """Refuse settings of an analysis that the task has no use for: by default those of ratings alone.

        Raises
        ------
        ConfigError
            If there is one.
        """
        for name in ("formula", *IN_POINTS, "human"):
            if getattr(statistics, name) is not None:
                raise ConfigError(
                    f"statistics.{name} is of ratings; a run of replies or of a questionnaire has other units: leave it"
                )

    @abstractmethod
    def plan(self, config: AuditConfig) -> P:
        """Read all that a configuration's prompts are made of, and check that it fits together.

        Raises
        ------
        StimulusError, ConfigError
            If any of it cannot be used.
        """

    def check(self, plan: P) -> None:
        """Refuse what could not be used once the model has answered, before it is asked.

        Raises
        ------
        StimulusError, ConfigError
            If a file or a setting cannot be used.
        """

    @abstractmethod
    def records(self, plan: P) -> Iterator[dict[str, Any]]:
        """Yield every prompt as plain values, in the grid's order: which it is, and its messages."""

    @abstractmethod
    def collect(
        self, plan: P, folder: RunFolder, *, command: str, say: Say, opened: OpenModel | None = None
    ) -> Manifest:
        """Ask what is missing of a run, if anything is, and return the run's manifest.

        Parameters
        ----------
        plan
            What to ask; see :meth:`check`.
        folder
            Where to; entered.
        command
            The command line that asked for it.
        say
            Takes lines about progress.
        opened
            The model, where the task may be ``asked_elsewhere``; None loads the plan's.

        Raises
        ------
        StoreError
            If the folder holds another run, or answers or stages without a manifest.
        AuditError
            Whatever else the user can mend; what was collected before is kept.
        """

    @abstractmethod
    def draw(self, manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Any]:
        """Draw all figures of a run's page that its tables allow, by name."""

    @abstractmethod
    def publish(self, folder: RunFolder, manifest: Manifest) -> Published:
        """Analyse a run and render it; nothing is written, not even the manifest, before all has succeeded.

        Parameters
        ----------
        folder
            The run's; entered.
        manifest
            What it is to say; what the analysis finds is added.

        Raises
        ------
        AuditError
            If what was collected cannot be read or analysed.
        """
