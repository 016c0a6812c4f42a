"""What a comparison of runs is made of, whatever their outcome: the runs, what limits them, and what is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import pandas as pd

from audit.runs.differences import identity_of, label_runs
from audit.runs.manifest import Manifest
from audit.tables.base import Table, dictionary
from audit.tables.formatting import dimension_title, encodable, plural
from audit.tables.shared import OVERALL

if TYPE_CHECKING:
    from audit.comparing.paper_table import PaperTable

_PACKAGED: Final = "geneva"
"""Narratives that come with this package: an identifier is one text, whatever else was asked."""


@dataclass(frozen=True)
class ComparedRun:
    """A run that is compared.

    Attributes
    ----------
    folder, manifest
        Where it is, which is only read; and what it says of itself.
    choices
        See :func:`audit.runs.differences.choices_of`.
    counts
        By status, what became of its prompts.
    cost
        What a prompt took; see :func:`audit.comparing.costs.cost_of`.
    sha256
        Of what was collected.
    """

    folder: Path
    manifest: Manifest
    choices: Mapping[str, str]
    counts: Mapping[str, int]
    cost: Mapping[str, float]
    sha256: str

    def row(self, label: str) -> dict[str, Any]:
        """Return what the tables of runs say of it, whatever it collected."""
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
class Compared:
    """What several runs show side by side.

    Attributes
    ----------
    tables, described
        By name, and what describes them.
    shown
        The table that a reader looks at first.
    collected
        The column of the table of runs with the hash of what was collected.
    remarks
        What a reader must know beside it, in words.
    papers
        Tables to paste, by the file without its ending.
    draw
        Draws the figures, by name.
    render
        Renders the page, from figures as SVG by name.
    facts
        What the manifest says besides.
    """

    tables: Mapping[str, pd.DataFrame]
    described: Mapping[str, Table]
    shown: str
    collected: str
    remarks: tuple[str, ...]
    papers: Mapping[str, PaperTable]
    draw: Callable[[], Mapping[str, Any]]
    render: Callable[[Mapping[str, bytes]], str]
    facts: Mapping[str, Any]

    def hashes(self) -> list[dict[str, str]]:
        """Say of each run where it was, and what it held."""
        columns = ("run", "folder", "identity", self.collected)
        return [{name: str(row[name]) for name in columns} for row in self.tables["runs"].to_dict("records")]

    def files(self, drawn: Mapping[str, Any]) -> dict[str, bytes]:
        """Return all files but the manifest: tables, figures, what can be pasted, and the page."""
        from audit.report.figures.style import figure_files, page_svgs

        figures = page_svgs(drawn)
        content = {f"tables/{name}.csv": self.described[name].csv(table) for name, table in self.tables.items()}
        content["tables/dictionary.csv"] = dictionary(self.described.values())
        for name, figure in drawn.items():
            content |= figure_files(name, figure, figures[name])
        for name, paper in self.papers.items():
            content[f"{name}.md"] = paper.markdown().encode("utf-8", "replace")
            content[f"{name}.tex"] = paper.latex().encode("utf-8", "replace")
        return content | {"comparison.html": self.render(figures).encode()}


class RunsCompared(ABC, Generic[RunT]):
    """Reads runs of one kind, and puts them side by side.

    Parameters
    ----------
    manifests
        By folder.
    used
        Values of ``settings``.
    """

    settings: ClassVar[tuple[str, ...]]
    """Settings of an analysis that the comparison has a use for."""

    def __init__(self, manifests: Mapping[Path, Manifest], used: Mapping[str, Any]) -> None:
        self.manifests = manifests
        self.used = used

    def side_by_side(self, *, left_out: Sequence[str], command: str, say: Callable[[str], None]) -> Compared:
        """Read all runs, name them, and compare them.

        Parameters
        ----------
        left_out
            Runs that were asked for and have come to nothing, in words.
        command
            The command line that makes it.
        say
            Takes lines about progress.

        Raises
        ------
        StoreError
            If a run is not complete.
        """
        runs: list[RunT] = []
        for folder, manifest in self.manifests.items():
            runs += self.read(folder)
            say(f"{folder}: {plural(manifest.n_prompts, 'prompt')} read")
        labels = label_runs([run.choices for run in runs], [encodable(run.folder.name) for run in runs])
        return self.compare(dict(zip(labels, runs, strict=True)), left_out=left_out, command=command)

    @abstractmethod
    def read(self, folder: Path) -> Iterable[RunT]:
        """Read what a complete run collected, and keep what is small of it; a prompt variant is a run of its own."""

    @abstractmethod
    def compare(self, runs: Mapping[str, RunT], *, left_out: Sequence[str], command: str) -> Compared:
        """Put runs, by label, side by side."""


def texts_of(choices: Mapping[str, str]) -> str:
    """Say which narratives a run's identifiers stand for."""
    source = choices["narratives"]
    return source if source == _PACKAGED else f"{source} {choices['texts']}"


def other_identities(asked: Mapping[str, Iterable[Sequence[Iterable[str]]]]) -> Iterator[str]:
    """Say of which dimensions the runs asked about different identities.

    Parameters
    ----------
    asked
        By dimension, of each run that asked about it, the perceivers and the experiencers.
    """
    for dimension, sides in asked.items():
        if dimension != OVERALL and len({tuple(map(frozenset, each)) for each in sides}) > 1:
            yield (
                f"{dimension_title(dimension)}: the runs asked about different identities, so a difference between "
                "their δ may be one of the identities."
            )


def other_languages(runs: Mapping[str, ComparedRun]) -> Iterator[str]:
    """Say what is confounded where the runs' prompts are in several languages."""
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


def analysed_otherwise(runs: Mapping[str, ComparedRun], used: Mapping[str, Any]) -> Iterator[str]:
    """Say which runs' own reports were made with other settings."""
    otherwise: dict[tuple[str, str], list[str]] = {}
    for label, run in runs.items():
        own = run.manifest.statistics.content
        other = [name for name in used if name in own and own[name] != used[name]]
        if other:
            said = tuple(", ".join(f"{name} {_setting(of[name])}" for name in other) for of in (own, used))
            otherwise.setdefault((said[0], said[1]), []).append(label)
    for (there, here), labels in otherwise.items():
        yield f"Analysed here with {here}, in the own reports of these runs with {there}: {'; '.join(labels)}."


def which(labels: Sequence[str], runs: Mapping[str, ComparedRun]) -> str:
    """Name some of the runs, or say that it is all of them."""
    return "all runs" if len(labels) == len(runs) else "; ".join(labels)


def _setting(value: Any) -> str:
    return "none" if value is None else f"{value:g}"
