"""The common part of tasks whose answers are ratings: asking, checks, and δ in points of the scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from audit.asking.collect import collect, earlier_manifest, end_parts, missing_shards, nothing_to_ask
from audit.asking.conversations import prompt_records
from audit.asking.plan import Plan, make_plan
from audit.asking.progress import Say
from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.schema import AuditConfig
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.base import Table
from audit.tables.ratings import RATINGS
from audit.tables.run_of_ratings import OF_SOME, TABLES
from audit.tasks.base import Published, Task
from audit.tasks.intensity.ask import ask_ratings
from audit.tasks.intensity.calibration import calibrate_ends, wants_ends
from audit.tasks.intensity.checks import (
    check_manipulation,
    checks_of,
    elicitation_of,
    make_checks,
    manipulation_is_missing,
)
from audit.tasks.intensity.publish import draw_ratings, publish_ratings
from audit.tasks.intensity.trials import as_kept, choose, prompts_of
from stimuli.covariates import read_covariates
from stimuli.human import read_human
from stimuli.languages import pack_replies
from stimuli.prompts import Prompt

if TYPE_CHECKING:
    from audit.engines.base import OpenModel


class Ratings(Task[Plan]):
    """The perceiver rates something on the prompt's scale."""

    described: ClassVar[Mapping[str, Table]] = {**TABLES, **OF_SOME}
    collected = RATINGS
    compared_by = "gaps"
    asked_elsewhere = True

    def check_statistics(self, statistics: AnalysisSettings) -> None:
        """Accept all settings."""

    def plan(self, config: AuditConfig) -> Plan:
        """Read everything that the prompts are made of; see :func:`audit.asking.plan.make_plan`."""
        return make_plan(config)

    def check(self, plan: Plan) -> None:
        """Reject an impossible beginning of answers, and human intensities of other narratives."""
        from audit.asking.elicitation.generate import check_begun

        scale, statistics = plan.grid.variant.scale, plan.config.statistics
        assert scale is not None
        if statistics.human is not None:
            ids = [narrative.narrative_id for narrative in plan.grid.narratives.narratives]
            read_human(statistics.human, ids, id_column=statistics.human_id, rating_column=statistics.human_rating)
        if statistics.covariates is not None:
            own = {
                dimension.name: {
                    each.group for each in (*dimension.perceivers, *dimension.experiencers) if not each.is_baseline
                }
                for dimension in plan.grid.dimensions
                if not dimension.placebo
            }
            read_covariates(statistics.covariates).check(own)
        check_begun(plan.begun, scale, pack_replies(plan.config.language))

    def records(self, plan: Plan) -> Iterator[dict[str, Any]]:
        """Yield every prompt; see :func:`audit.asking.conversations.prompt_records`."""
        return prompt_records(plan)

    def collect(
        self, plan: Plan, folder: RunFolder, *, command: str, say: Say, opened: OpenModel | None = None
    ) -> Manifest:
        """Ask for the missing ratings, then for those that check them."""
        scale = plan.grid.variant.scale
        assert scale is not None
        plan = self._settled(plan, folder, say=say)
        config = plan.config
        earlier = earlier_manifest(plan, folder, say=say)
        if earlier is not None and not missing_shards(plan, earlier, folder):
            checked = not manipulation_is_missing(plan, earlier)
            if checked and not any(checks_of(plan, folder, earlier)):
                return nothing_to_ask(plan, folder, earlier, say=say, opened=opened)
        method = config.elicitation_method
        session = collect(
            plan,
            folder,
            earlier,
            partial(ask_ratings, elicitation_of(config, scale, method)),
            how=f"elicitation: {method}",
            writes=method == "generate",
            command=command,
            say=say,
            opened=opened,
            prepare=partial(calibrate_ends, say=say) if wants_ends(config) else None,
        )
        with session.workers as workers:
            manifest = check_manipulation(session, session.manifest)
            manifest = make_checks(session, manifest, say=say)
            return end_parts(manifest, workers, folder, say=say)

    def _settled(self, plan: Plan, folder: RunFolder, *, say: Say) -> Plan:
        """Fill in what a plan leaves to trials: as the folder's run has it, else by trials."""
        if not plan.config.needs_trials:
            return plan
        kept = as_kept(plan, folder.path)
        if kept is not None:
            return kept
        earlier_manifest(plan, folder)  # refuses a folder that cannot be this run's, before anything is asked
        return choose(plan, folder, say=say)

    def before_asking(self, plan: Plan, folder: Path) -> tuple[Plan, Sequence[Prompt]]:
        """See :meth:`Task.before_asking`."""
        if not plan.config.needs_trials:
            return plan, ()
        kept = as_kept(plan, folder)
        return (
            (kept, ()) if kept is not None else (replace(plan, config=plan.config.settled()), tuple(prompts_of(plan)))
        )

    def draw(self, manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Any]:
        """Draw the gaps; see :func:`audit.tasks.intensity.publish.draw_ratings`."""
        return draw_ratings(manifest, tables)

    def publish(self, folder: RunFolder, manifest: Manifest) -> Published:
        """Analyse the ratings and render them; see :func:`audit.tasks.intensity.publish.publish_ratings`."""
        return publish_ratings(folder, manifest)
