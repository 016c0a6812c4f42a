"""Scores a filled-in questionnaire, renders its report and writes both, without the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from audit.errors import StoreError, recovery
from audit.runs.manifest import Manifest
from audit.runs.manifest import RecordedInventory as Kept
from audit.runs.store import RunFolder
from audit.tasks.base import Published
from audit.tasks.inventory.tables import AFFECT_TABLES, OF_ANSWERS
from audit.tasks.publishing import count_of, not_checked, write_all
from stimuli.inventories import Inventory, Item
from stimuli.narratives import emotion_valence
from stimuli.prompts import Scale

_OTHER = "other"  # the kind of situations whose emotion has no packaged valence


def draw_answers(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Draw the figures of a questionnaire; see :meth:`audit.tasks.base.Task.draw`."""
    from audit.tasks.inventory.figures import draw_inventory

    assert manifest.inventory is not None
    scale = manifest.inventory.scale
    return draw_inventory(tables, low=scale.low, high=scale.high, confidence=manifest.statistics.confidence)


def publish_inventory(folder: RunFolder, manifest: Manifest) -> Published:
    """Analyse a filled-in questionnaire, read from the manifest since the user's file may be gone, and render it."""
    from audit.report.figures.style import page_svgs
    from audit.tasks.inventory.analysis import answer_outcomes, remarks_on_answers, scored_tables
    from audit.tasks.inventory.page import render_inventory

    task, kept = manifest.task, manifest.inventory
    if kept is None:
        said = f"{folder.path}/manifest.json is damaged: the manifest has no inventory"
        raise StoreError(f"{said}; {recovery(folder.path, 'restores it from its copy')}")
    answers = folder.read("answers", n_prompts=manifest.n_prompts, unfinished=manifest.status == "running")
    n_of = count_of(answers["status"])
    manifest = manifest.having(counts={**n_of, "total": len(answers)})
    confidence, affect = manifest.statistics.confidence, task.affect
    tables = scored_tables(
        answers,
        _inventory(kept),
        confidence=confidence,
        kinds=_kinds(answers) if affect else None,
        affect=affect,
        alone=task.presentation == "single",
    )
    tables["inventory_outcomes"] = answer_outcomes(answers)
    remarks = (
        *not_checked(manifest),
        *remarks_on_answers(
            answers, tables, n_prompts=manifest.n_prompts, min_number_mass=manifest.statistics.min_number_mass
        ),
    )
    drawn = draw_answers(manifest, tables)
    figures = page_svgs(drawn)
    html = render_inventory(manifest=manifest, tables=tables, figures=figures, remarks=remarks)
    report = write_all(
        folder,
        manifest,
        tables,
        drawn,
        figures,
        html,
        known=(*OF_ANSWERS, *AFFECT_TABLES.values()) if affect else OF_ANSWERS,
    )
    groups = tables["affect_groups" if affect else "inventory_groups"]
    return Published(folder.path, report, groups, confidence, remarks, html.summary)


def _inventory(kept: Kept) -> Inventory:
    return Inventory(
        name=kept.name,
        source=kept.source,
        scale=Scale(**kept.scale.content),
        instruction=kept.instruction,
        total=kept.total,
        items=tuple(Item(**item) for item in kept.items),
    )


def _kinds(answers: pd.DataFrame) -> dict[str, str]:
    """Return each situation's kind: the valence of its emotion, if known."""
    valence = emotion_valence()
    shown = answers[["narrative_id", "emotion"]].astype(str).drop_duplicates()
    emotion_of = dict(zip(shown["narrative_id"], shown["emotion"], strict=True))
    return {narrative: valence.get(emotion, _OTHER) for narrative, emotion in emotion_of.items()}
