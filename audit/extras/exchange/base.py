"""Base of all exports: the run to write, the user's options, and the form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from audit.errors import ConfigError, StoreError, report_command
from audit.extras.exchange import groups
from audit.runs.ledger import check_made
from audit.tables.base import Table
from audit.tables.formatting import in_markdown, plural, printable

if TYPE_CHECKING:
    import pandas as pd

    from audit.runs.manifest import Manifest
    from audit.runs.store import Kind

_TEXT: Final = "response"  # column of the model's text in ratings and answers; exports of replies always have it


@dataclass(frozen=True)
class ExportOptions:
    """Options that some forms take; empty if not given."""

    texts: bool = False  # export the model's texts along with ratings
    license: str = ""  # of the published data
    organization: str = ""  # who ran the evaluation
    relationship: str = ""  # how they relate to the model's maker
    model_id: str = ""  # the model as OWNER/NAME, if the manifest does not say it


@dataclass(frozen=True, eq=False)
class Collected:
    """The answers of a run."""

    path: Path
    manifest: Manifest
    kind: Kind  # ratings, replies, or answers to a questionnaire
    table: Table  # describes the columns of rows
    rows: pd.DataFrame  # in grid order
    n_missing: int  # prompts that have not been asked yet

    @classmethod
    def read(cls, path: Path, *, unfinished: bool, texts: bool) -> Self:
        """Read a run folder, which may be read-only; StoreError if prompts are missing, unless ``unfinished``."""
        from audit.runs.manifest import Manifest
        from audit.runs.store import RunFolder
        from audit.tasks.registry import task_of

        manifest = Manifest.read(path)
        task, n_prompts = task_of(manifest), manifest.n_prompts
        kind, table = task.stores, task.collected
        folder, running = RunFolder(path), manifest.status == "running"
        if kind == "ratings":
            rows = folder.ratings_of(manifest, unfinished=running)
        else:
            rows = folder.read(kind, n_prompts=n_prompts, unfinished=running)
        n_missing = n_prompts - int(rows["prompt_index"].nunique())
        if running and not unfinished:
            left = (
                f"{n_missing:,} of {plural(n_prompts, 'prompt')} are missing" if n_missing else "its checks are missing"
            )
            raise StoreError(
                f"{path} is not finished: {left}; run its command again, or use unfinished=true to export it "
                "marked as unfinished"
            )
        if _TEXT in table and not texts:
            table = Table(table.name, table.row, table.without(_TEXT))
            rows = rows.drop(columns=_TEXT)
        return cls(path, manifest, kind, table, rows, n_missing)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of files that were changed after they were stored, and accepted as they are."""
        return self.manifest.accepted

    @property
    def asked_by_others(self) -> bool:
        """Whether another tool asked, so that its method is unknown."""
        return self.manifest.of_another_tool or self.manifest.model.elsewhere is not None

    @property
    def status_said(self) -> str:
        """Sentence on who asked, whether the run is finished, how much is missing, and which files were changed."""
        n_prompts, model = self.manifest.n_prompts, self.manifest.model
        said = f"finished: all of {plural(n_prompts, 'prompt')} were asked"
        if self.manifest.of_another_tool:
            what = "reply" if self.manifest.outside.replies else "row"
            said = f"{plural(n_prompts, what)} read from a file: nothing was asked by this tool"
        elif model.elsewhere is not None:
            said += " elsewhere, which was not checked"
        if model.planted is not None:
            said += f"; PLANTED: {model.planted.note.removesuffix('.')}"
        if self.manifest.outside.observational:
            said += "; OBSERVATIONAL: what the groups wrote differs, and that may be why replies differ"
        if self.manifest.status == "running":
            said = f"NOT FINISHED: {self.n_missing:,} of {plural(n_prompts, 'prompt')} are missing"
        if names := ", ".join(map(printable, self.accepted)):
            said += (
                f"; FILES HAD CHANGED since they were stored, and were accepted as they are ({names}): whether the "
                "answers are the model's is not known"
            )
        return said

    @property
    def status_in_markdown(self) -> str:
        """``status_said`` for Markdown, with names of files and groups escaped: anybody can choose them."""
        named = self.accepted or self.manifest.model.planted is not None
        return in_markdown(self.status_said) if named else self.status_said

    @property
    def became(self) -> dict[str, int]:
        """Prompts by status. Missing ratings of another tool without a status are counted as of unknown reason."""
        counts = self.rows["status"].astype(str).value_counts()
        rated = int(counts.get("rated", 0))
        if self.kind == "ratings" and not self.manifest.outside.status_given and rated < len(self.rows):
            return {"rated": rated, "without a rating for a reason that nobody told": len(self.rows) - rated}
        return {str(status): int(n) for status, n in counts.items()}

    @property
    def is_limited(self) -> bool:
        """Whether readers must see ``status_said`` first."""
        manifest = self.manifest
        return manifest.status == "running" or bool(self.accepted) or manifest.model.planted is not None

    def statistics(self, name: str) -> pd.DataFrame:
        """Return a table of the run's last report, if it is of these rows; files accepted since withdraw verdicts."""
        from audit.runs.derived import derived_table, place_of
        from audit.tasks.limits import disparities_as_they_hold, verdicts_as_they_hold
        from audit.tasks.registry import task_of

        described = task_of(self.manifest).described.get(name)
        path = place_of(self.path, name, described)
        try:
            if path.exists():
                check_made(self.path, f"tables/{path.name}", remedy=f"make it again: {self._report}")
            read = derived_table(self.path, name, described)
        except FileNotFoundError as error:
            raise StoreError(f"{self.path} has no tables/{name}.csv; to make it: {self._report}") from error
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self.path}/tables/{name}.csv cannot be read ({error}); make it again: {self._report}"
            ) from error
        counted = self.manifest.counts.get("total", len(self.rows))
        if counted != len(self.rows):
            raise StoreError(
                f"{self.path} was analysed with {counted:,} rows, but now has {len(self.rows):,}; analyse it "
                f"again: {self._report}"
            )
        if name == "verdicts":
            return verdicts_as_they_hold(read, self.manifest)
        return disparities_as_they_hold(read, self.manifest) if name == "disparity" else read

    @property
    def disparity(self) -> pd.DataFrame:
        """How far groups are from each other; empty if an earlier version analysed the run, or its task has none."""
        from audit.tables.disparity import without_refusals

        return without_refusals(self._disparities)

    @property
    def refusals(self) -> pd.DataFrame:
        """The same of how often groups are refused, in a run of ratings; empty if nothing was refused."""
        from audit.tables.disparity import REFUSALS

        return self._disparities.loc[self._disparities["outcome"] == REFUSALS]

    def refusal_gap(self, dimension: str, variant: str) -> str:
        """Say that refusals of ratings differ between in-group and out-group; empty if that is not found or known."""
        from audit.runs.derived import has_table

        if self.kind != "ratings" or not has_table(self.path, "missing"):
            return ""
        return groups.refusal_gap(self.statistics("missing"), dimension, variant, manifest=self.manifest)

    @cached_property
    def _disparities(self) -> pd.DataFrame:
        import pandas as pd

        from audit.runs.derived import has_table
        from audit.tables.disparity import DISPARITY

        if self.kind not in ("ratings", "replies") or not has_table(self.path, DISPARITY.name):
            return pd.DataFrame(columns=list(DISPARITY))
        return self.statistics(DISPARITY.name)

    @property
    def has_perceivers(self) -> bool:
        """Whether the model was given identities of groups, without which there is no gap δ."""
        from audit.report.cell_matrix import BASELINES

        if "perceiver_group" not in self.rows or self.rows.empty:
            return True
        return not self.rows["perceiver_group"].astype(str).isin(list(BASELINES)).all()

    @property
    def _report(self) -> str:
        return report_command(self.path)


Files: TypeAlias = Mapping[str, bytes]  # path in the target folder → content


@dataclass(frozen=True)
class Form:
    """A form of export."""

    name: str  # the value of `form=`
    summary: str  # one line for the help
    takes: tuple[Kind, ...]  # kinds of runs that it can write
    make: Callable[[Collected, ExportOptions], Files]
    options: tuple[str, ...] = ()  # fields of ExportOptions that it takes
    needed: Mapping[str, str] | None = None  # required options, each with its purpose

    def check(self, told: ExportOptions, given: Mapping[str, str]) -> None:
        """Refuse an option that this form does not take, and a missing one that it needs."""
        for name in given:
            if name not in self.options:
                takes = f"it takes {', '.join(self.options)}" if self.options else "it takes none such"
                raise ConfigError(f"{name}= is not of form={self.name}; {takes}")
        for name, purpose in (self.needed or {}).items():
            if not getattr(told, name):
                raise ConfigError(f"{name}= must be given for form={self.name}: {purpose}")
