"""Talks of several turns: how a measure changes from the first reply to the last, and who gets less in which turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.runs.manifest import Manifest
from audit.statistics.controls import Repetition
from audit.statistics.disparity import disparity_rows
from audit.statistics.outcome import Outcome
from audit.tables.disparity import deciding_rows
from audit.tables.replies import TURNS
from audit.tasks.measures.base import CHANGE, of_turn
from audit.tasks.reply.gaps import analyse_outcomes
from audit.tasks.reply.verdicts import scale_of


def turn_table(
    replies: pd.DataFrame,
    disparity: pd.DataFrame,
    scores: pd.DataFrame,
    manifest: Manifest,
    *,
    settings: AnalysisSettings,
    conversation_of: Callable[[str], str] | None,
    repetition: Repetition,
) -> pd.DataFrame:
    """Return D of each group in each turn of a talk, for every measure whose change was scored: rows of ``TURNS``.

    Those of the last turn are rows of ``disparity``. Nothing is corrected for the number of turns: the change is what
    is tested.
    """
    n_turns = manifest.strategy.n_turns
    measures = [each for taken in manifest.scorers.values() for each in taken.measures]
    names = {each["name"] for each in measures}
    changing = [each for each in measures if CHANGE.format(each["name"]) in names]
    by_name = {str(name): own for name, own in scores.groupby("measure", observed=True, sort=False)}
    outcomes = list(_outcomes(changing, by_name, n_turns))
    rows: list[dict[str, Any]] = []
    found = analyse_outcomes(
        replies, [each for _, _, each in outcomes], seed=manifest.seed, settings=settings,
        conversation_of=conversation_of, repetition=repetition,
    )  # fmt: skip
    for (name, turn, outcome), (_, analysed) in zip(outcomes, found, strict=True):
        scales = dict.fromkeys(map(str, replies["variant"].unique()), scale_of(outcome))
        made = disparity_rows(analysed, scales=scales, settings=settings, repetition=repetition)
        rows += _rows(made, name, turn, replies, outcome.values)
    for each in changing:
        own = by_name.get(each["name"], scores.iloc[:0]).set_index("prompt_index")["value"]
        last = disparity.loc[disparity["outcome"] == each["name"]].to_dict("records")
        rows += _rows(last, each["name"], n_turns, replies, own)
    order = {each["name"]: place for place, each in enumerate(changing)}
    rows.sort(key=lambda row: (row["dimension"], row["variant"], order[row["outcome"]], row["turn"]))
    return pd.DataFrame(rows, columns=list(TURNS))


def _outcomes(
    measures: Sequence[Mapping[str, Any]], scores: Mapping[str, pd.DataFrame], n_turns: int
) -> Iterator[tuple[str, int, Outcome]]:
    """Yield each measure in each turn but the last, which the run's own measures are of."""
    for each in measures:
        ends = each["low"], each["high"]
        scale = None if None in ends else (float(ends[0]), float(ends[1]))
        for turn in range(1, n_turns):
            name = of_turn(each["name"], turn)
            if name in scores:
                own = scores[name]
                values = pd.Series(own["value"].to_numpy(np.float64), index=own["prompt_index"].to_numpy())
                yield each["name"], turn, Outcome(name, unit=each["unit"], values=values, scale=scale)


def _rows(made: Any, name: str, turn: int, replies: pd.DataFrame, values: pd.Series | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each group whose disparity decides who gets less in a turn."""
    assert values is not None
    known = replies.assign(value=replies["prompt_index"].map(values)).dropna(subset="value")
    for row in deciding_rows([row for row in made if not row["invented"]]):
        place = known.loc[(known["dimension"] == row["dimension"]) & (known["variant"] == row["variant"])]
        own = place.loc[place["experiencer_group"] == row["group"], "value"]
        yield {
            **{column: row[column] for column in TURNS if column in row},
            "outcome": name,
            "turn": turn,
            "n_replies": len(own),
            "mean": float(own.mean()) if len(own) else np.nan,
        }
