"""The measures of a run's replies: their table, and each one's values for the statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.asking.elicitation.plain_text import answer_of
from audit.runs.manifest import Manifest, Scored
from audit.statistics.outcome import Outcome
from audit.statistics.ratings import without_dimensions
from audit.statistics.remarks import Remark
from audit.tables.ratings import Status
from audit.tables.replies import MEASURES, OF_AGAIN, SCORED, ReplyStatus
from audit.tasks.measures.base import measure_facts
from audit.tasks.measures.choose import CORPORA, JUDGE
from audit.tasks.measures.diversity import distinct
from audit.tasks.measures.epitome import MECHANISMS
from audit.tasks.measures.outcomes import EARLIER, OUTCOMES
from audit.tasks.reply.gaps import remarks_on_replies
from audit.tasks.reply.reply_status import declined_earlier

_UNSCORED: Final = tuple(str(status) for status in Status if status != Status.RATED)
"""Statuses of a judge's answer without a score."""
_COUNTS: Final = ("cut", *_UNSCORED)


def measures_of(
    manifest: Manifest,
    replies: pd.DataFrame,
    scores: pd.DataFrame,
    counts: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
    *,
    stages: pd.DataFrame | None = None,  # of a talk, its earlier replies
    again: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, list[Outcome]]:
    """Describe all measures of a run, absent ones included (``MEASURES``, real groups), and collect their values.

    The outcomes, for :func:`audit.tasks.reply.gaps.measure_tables`, are of all replies. ``counts`` is what each scorer
    counted, if known; see :class:`audit.tasks.measures.base.Counting`. ``again`` are rows of ``ASKED_AGAIN``.
    """
    of_groups = without_dimensions(replies, manifest.placebo)
    asked = of_groups["prompt_index"].to_numpy()
    scored = of_groups.loc[of_groups["status"].isin(SCORED)]
    n_replies = len(scored)
    rows: list[dict[str, Any]] = []
    outcomes: list[Outcome] = []
    for scorer, taken in manifest.scorers.items():
        of_scorer = {name: own for name, own in scores.groupby("measure", observed=True, sort=False)}
        for measure in taken.measures:
            values, repeated = (
                _by_prompt(of_scorer.get(name, scores.iloc[:0]))
                for name in (measure["name"], OF_AGAIN + measure["name"])
            )
            own_values = values[values.index.isin(asked)]
            row = _row(measure, scorer=_named(scorer, taken), n_replies=n_replies, values=own_values)
            rows.append(row | _counted((counts or {}).get(scorer, {}), measure["name"]))
            outcomes.append(_outcome(measure, values=values, again=repeated))
    if manifest.diversity:
        texts = [answer_of(text) for text in scored["text"]]
        for n, diversity in CORPORA.items():
            row = _row(measure_facts(diversity), scorer="a count of words", n_replies=n_replies)
            rows.append(row | {"status": "described", "n_scored": n_replies, "mean": distinct(texts, n)})
    earlier = set() if stages is None or manifest.strategy.n_turns == 1 else declined_earlier(stages)
    for values, repeated, measure in _fates(replies, replies.iloc[:0] if again is None else again, earlier):
        own_values = values[values.index.isin(asked)]
        rows.append(_row(measure, scorer="status of the reply", n_replies=len(own_values), values=own_values))
        outcomes.append(_outcome(measure, values=values, again=repeated))
    for scorer, why in manifest.absent.items():
        blank = dict.fromkeys(MEASURES, "") | dict.fromkeys(("low", "high", "mean", "sd"), np.nan) | _counted({}, "")
        absent = {"measure": scorer, "title": scorer, "status": "absent", "note": why}
        rows.append(blank | absent | {"n_replies": n_replies, "n_scored": 0})
    return pd.DataFrame(rows, columns=list(MEASURES)), outcomes


def of_raters(given: Mapping[str, pd.Series]) -> list[Outcome]:
    """Return people's mean scores as outcomes, from :func:`audit.tasks.people.people_of`."""
    return [Outcome(name, unit="points", values=values) for name, values in given.items()]


def levels_of(scorers: Mapping[str, Scored], values: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return EPITOME's levels by source, ``classifier`` or ``judge``, for the table of mechanisms.

    ``values`` has one column a measure, indexed by ``prompt_index``. A judge's criterion counts as the mechanism of the
    same name if its scale is EPITOME's.
    """
    rubric = scorers.get(JUDGE, Scored()).facts.rubric
    ends = {each["name"]: (each["low"], each["high"]) for taken in scorers.values() for each in taken.measures}
    found: dict[str, pd.DataFrame] = {}
    for by, prefix in (("classifier", "epitome"), ("judge", f"judge_{rubric}")):
        names = {f"{prefix}_{mechanism}": mechanism for mechanism in MECHANISMS}
        own = values[[name for name in names if name in values and ends.get(name) == (0, 2)]].rename(columns=names)
        if len(own.columns):
            found[by] = own
    return found


def reply_remarks(replies: pd.DataFrame, manifest: Manifest) -> Iterator[Remark]:
    """Yield what limits the gaps of a run's measures."""
    yield from remarks_on_replies(
        replies,
        source=manifest.stimuli.source,
        files=manifest.model.files,
        scorers={name: taken.facts.files for name, taken in manifest.scorers.items()},
        drawn=manifest.pairs_drawn,
    )


def _row(measure: Mapping[str, Any], *, scorer: str, n_replies: int, values: pd.Series | None = None) -> dict[str, Any]:
    known = pd.Series(dtype=np.float64) if values is None else values.dropna()
    return {
        "measure": measure["name"],
        **{name: measure[name] for name in ("title", "unit", "better", "source", "caution")},
        **{name: np.nan if measure[name] is None else measure[name] for name in ("low", "high")},
        "scorer": scorer,
        "status": "scored",
        "n_replies": n_replies,
        "n_scored": len(known),
        "mean": float(known.mean()) if len(known) else np.nan,
        "sd": float(known.std(ddof=1)) if len(known) > 1 else np.nan,
        "note": "",
    }


def _counted(counts: Mapping[str, Mapping[str, float]], measure: str) -> dict[str, float]:
    """Return what a scorer counted for a measure, or for all of its measures; NaN for what it does not count."""
    own = {**counts.get("", {}), **counts.get(measure, {})}
    if own.keys() & {Status.RATED.value, *_UNSCORED, "blank"}:  # a judge's counts, which have no entry for 0
        own = {**dict.fromkeys(_UNSCORED, 0.0), **own}
    mass = own["mass"] / own["with_mass"] if own.get("with_mass") else np.nan
    return {f"n_{name}": own.get(name, np.nan) for name in _COUNTS} | {"mean_mass": mass}


def _named(scorer: str, taken: Scored) -> str:
    """Name the model that took a measure; without a model, the scorer."""
    return taken.facts.name or taken.facts.model or scorer


def _outcome(measure: Mapping[str, Any], *, values: pd.Series, again: pd.Series) -> Outcome:
    low, high = measure["low"], measure["high"]
    scale = None if low is None or high is None else (float(low), float(high))
    repeated = again if len(again) else None
    return Outcome(measure["name"], unit=measure["unit"], values=values, scale=scale, again=repeated)


def _by_prompt(scores: pd.DataFrame) -> pd.Series:
    """Return the numbers of one measure by ``prompt_index``; one that is not finite is missing."""
    values = pd.Series(scores["value"].to_numpy(dtype=np.float64), index=scores["prompt_index"].to_numpy())
    return values.where(np.isfinite(values))


def _fates(
    replies: pd.DataFrame, again: pd.DataFrame, declined: Collection[int]
) -> Iterator[tuple[pd.Series, pd.Series, dict[str, Any]]]:
    """Yield as measures the statuses that occur among replies, and refusals in any case.

    ``declined`` are the prompts to which an earlier reply of the talk refused; earlier replies are not asked again.
    """

    def shown(rows: pd.DataFrame, outcome: str) -> pd.Series:
        answered = rows.loc[rows["status"] != ReplyStatus.FAILED.value]
        has_it = (answered["status"].astype(str) == str(outcome)).to_numpy(dtype=np.float64)
        return pd.Series(has_it, index=answered["prompt_index"].to_numpy())

    for outcome, measure in OUTCOMES.items():
        values, repeated = shown(replies, outcome), shown(again, outcome)
        if outcome == EARLIER:
            values, repeated = values.where(~values.index.isin(declined), 1.0), repeated.iloc[:0]
        if values.any() or outcome == ReplyStatus.REFUSED:
            yield values, repeated, measure_facts(measure)
