"""The judge's own gap: how its score of the same reply changes with the experiencer's identity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.estimates import INTERVAL, summarise_contrasts
from audit.statistics.families import adjust_p
from audit.statistics.outcome import Outcome, analyse_outcome
from audit.statistics.ratings import compact_ratings
from audit.tables.replies import JUDGE_EFFECTS, JUDGE_GAP
from audit.tasks.reply.judge.own_gap import ExperiencerEffects

_SCORE = Outcome("score", unit="points", rated=True)


def judged_tables(
    judged: pd.DataFrame, effects: Iterable[ExperiencerEffects], *, variant: str, seed: int, settings: AnalysisSettings
) -> dict[str, pd.DataFrame]:
    """Estimate the judge's own gap, and its effect of each experiencer, by dimension and measure.

    Empty if nothing was judged again. The intervals of effects are t intervals over narratives, and their p is
    corrected (Holm) for the experiencers.
    """
    gap: list[dict[str, Any]] = []
    if len(judged):
        found = analyse_outcome(_SCORE, compact_ratings(judged), seed=seed, settings=settings)
        gap = [
            row | {"outcome": row["variant"], "variant": variant}
            for row in found.gap
            if row["estimator"] != "published"
        ]
    rows: list[dict[str, Any]] = []
    for each in effects:
        own = [
            _effect(each, place, confidence=settings.confidence)
            for place in range(len(each.experiencers))
            if not each.baseline[place]
        ]
        adjusted, _ = adjust_p([row["p"] for row in own], method="Holm")
        rows += [row | {"variant": variant, "p_adjusted": float(p)} for row, p in zip(own, adjusted, strict=True)]
    return {
        "judge_gap": pd.DataFrame(gap, columns=list(JUDGE_GAP)),
        "judge_effects": pd.DataFrame(rows, columns=list(JUDGE_EFFECTS)),
    }


def _effect(effects: ExperiencerEffects, place: int, *, confidence: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "dimension": effects.dimension,
        "outcome": effects.variant,
        "experiencer": effects.experiencers[place],
        "group": effects.groups[place],
        "effect": np.nan,
        **dict.fromkeys(INTERVAL, np.nan),
        "n_narratives": len(effects.by_narrative),
        "n_replies": effects.n_replies,
        "note": "",
    }
    if not len(effects.by_narrative):
        return row | {"note": "no reply has a score as one to every experiencer"}
    own = np.ascontiguousarray(effects.by_narrative[:, place])
    made = summarise_contrasts(own, rounding=1e-9, confidence=confidence, n_answers=effects.n_replies)
    estimate = {name: getattr(made, name) for name in INTERVAL}
    return row | {"effect": made.delta, "note": made.not_estimable} | estimate
