"""The tables of replies: δ of each measure by the analysis of every outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.configuration.analysis_settings import AnalysisSettings
from audit.statistics.anchors import with_adjusted_p
from audit.statistics.cells import are_own_stories
from audit.statistics.controls import Repetition
from audit.statistics.conversations import told_apart_by
from audit.statistics.disparity import disparity_rows
from audit.statistics.disparity_answers import with_limits
from audit.statistics.outcome import Outcome, OutcomeAnalysis, analyse_outcome, spread_of
from audit.statistics.ratings import BASELINES, compact_ratings, without_dimensions
from audit.statistics.remarks import FEW_NARRATIVES, MISSING_SHARE, OWN_STORIES, Remark
from audit.statistics.status_counts import reply_outcome_rows
from audit.statistics.verdict import Limits
from audit.tables.cells import CELLS
from audit.tables.controls import CONTROLS, WORDING_SHARES, WORDINGS
from audit.tables.disparity import DISPARITY
from audit.tables.formatting import count, either, plural, rate
from audit.tables.gap import FAMILIES, GAP, WITHOUT_PERCEIVERS
from audit.tables.ratings import Status
from audit.tables.replies import REPLY_OUTCOMES, SCORED, ReplyStatus
from audit.tables.verdicts import VERDICTS
from audit.tasks.reply.verdicts import PEOPLE, measure_verdicts, measured_gaps, scale_of

_TABLES: Final = (VERDICTS, GAP, DISPARITY, CONTROLS, WORDINGS, WORDING_SHARES, FAMILIES, CELLS, REPLY_OUTCOMES)
_ENDS_IN_SD: Final = {"sd_ci_low": "ci_low", "sd_ci_high": "ci_high"}
_STATUS_OF: Final = {ReplyStatus.REFUSED: Status.REFUSED, ReplyStatus.FAILED: Status.FAILED}


def measure_tables(
    replies: pd.DataFrame,
    outcomes: Sequence[Outcome],
    *,
    seed: int,
    settings: AnalysisSettings,
    valence: Mapping[str, str] | None = None,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
    conversation_of: Callable[[str], str] | None = None,
    repetition: Repetition | None = None,
    limits: Limits | None = None,
) -> dict[str, pd.DataFrame]:
    """Estimate the gap of each measure in each dimension.

    ``seed`` seeds, with the names of dimension and variant, the draws of each: all measures share their sign flips. Of
    ``settings``, the margin and what plans a study are in points, and not used. ``conversation_of`` maps a narrative to
    its conversation. ``repetition`` separates repeated words from groups; sets of invented groups are in ``controls``
    and in no other table. What cannot be estimated is a row of NaN with a note.

    Notes
    -----
    A reply without a number is a prompt without a rating: refused, failed or unparseable to the estimators. δ of a
    measure that is 1 or 0 is a difference of shares, by the same linear estimators. Narratives' own gaps need no model
    of 0 and 1. The mixed model's residuals are then not normal, but a variance that differs in-group goes into that of
    the narratives' gaps. If few narratives hold both a 0 and a 1, neither estimator knows much, and the note says so.

    Utterances of a conversation are not independent. If there are fewer conversations than narratives, se, df, interval
    and p of a gap, and of the contrasts beneath it, are those of
    :func:`~audit.statistics.conversations.over_conversations`.
    """
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    frames: list[pd.DataFrame] = []
    told = repetition or Repetition()
    of_groups = without_dimensions(replies, told.placebo)
    measured = []
    for outcome, found in analyse_outcomes(
        replies, outcomes, seed=seed, settings=settings, conversation_of=conversation_of, repetition=told
    ):
        sd = spread_among(outcome, of_groups)
        rows["gap"] += gap_rows_of(found, sd)
        measured.append(measured_gaps(outcome, found, repetition=told, settings=settings, sd=sd))
        scales = dict.fromkeys(map(str, replies["variant"].unique()), scale_of(outcome))
        disparities = disparity_rows(
            found, scales=scales, settings=settings, repetition=told,
            n_outcomes=n_tested_with(outcome, outcomes),
        )  # fmt: skip
        rows["disparity"] += (_in_sd(row, "disparity", sd) for row in disparities)
        for part in found.parts:
            rows["families"] += part.families(valence, clusters)
            rows["controls"] += part.controls()
            rows["wordings"] += part.wordings()
            rows["wording_shares"] += part.wording_shares()
            frames.append(part.cells())
    rows["gap"] = list(with_adjusted_p(rows["gap"], family_of=family_of))
    rows["verdicts"] = measure_verdicts(measured, limits or Limits(), settings)
    rows["reply_outcomes"] = list(reply_outcome_rows(of_groups))
    frames = [frame for frame in frames if len(frame)]
    made = {name: pd.DataFrame(own) for name, own in rows.items()}
    made |= {"cells": pd.concat(frames, ignore_index=True)} if frames else {}
    tables = {table.name: pd.DataFrame(made.get(table.name), columns=list(table)) for table in _TABLES}
    return tables | {"disparity": with_limits(tables["disparity"], limits or Limits())}


def analyse_outcomes(
    replies: pd.DataFrame,
    outcomes: Sequence[Outcome],
    *,
    seed: int,
    settings: AnalysisSettings,
    conversation_of: Callable[[str], str] | None = None,
    repetition: Repetition | None = None,
) -> Iterator[tuple[Outcome, OutcomeAnalysis]]:
    """Analyse the measures of replies one after the other; see :func:`measure_tables`."""
    asked = compact_ratings(_without_numbers(replies))
    for outcome in outcomes:
        found = analyse_outcome(
            outcome,
            _with_numbers(asked, replies, outcome),
            seed=seed,
            settings=settings,
            repetition=repetition,
            conversation_of=conversation_of,
            replies=replies,
        )
        yield outcome, found


def n_tested_with(outcome: Outcome, outcomes: Sequence[Outcome]) -> int:
    """Count the measures that p of a disparity is corrected for: people's questions apart.

    A measure that is the same in all replies cannot be found to differ, so it does not count.
    """
    together = (each for each in outcomes if each.name.startswith(PEOPLE) == outcome.name.startswith(PEOPLE))
    return max(1, sum(each.values is not None and each.values.nunique() > 1 for each in together))


def spread_among(outcome: Outcome, of_groups: pd.DataFrame) -> float:
    """Return the standard deviation of a measure over replies to real groups."""
    assert outcome.values is not None
    return spread_of(outcome.values, of_groups)


def gap_rows_of(found: OutcomeAnalysis, sd: float) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.GAP`` without the corrected p; ``sd`` is that of :func:`spread_among`."""
    for row in found.gap:
        yield _in_sd(row, "delta", sd)


def _in_sd(row: Mapping[str, Any], estimate: str, sd: float) -> dict[str, Any]:
    """Add to a row its estimate and interval in standard deviations of the measure."""
    return {**row, **{name: row[of] / sd for name, of in ({f"{estimate}_sd": estimate} | _ENDS_IN_SD).items()}}


def family_of(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return the gaps that p is corrected with: those of all measures of the dimension.

    People's questions are a family of their own, so that importing them leaves the other corrected p unchanged.
    """
    return row["dimension"], row["variant"], row["outcome"].startswith(PEOPLE)


def remarks_on_replies(
    replies: pd.DataFrame,
    *,
    source: str,
    files: Mapping[str, str],
    scorers: Mapping[str, Mapping[str, str]],
    drawn: Collection[str] = (),  # dimensions that asked about some pairs only
) -> Iterator[Remark]:
    """Yield what limits the gaps of measures."""
    conversation_of = told_apart_by(source)
    for (dimension, variant), own in replies.groupby(["dimension", "variant"], observed=True, sort=False):
        perceivers, experiencers = (own[f"{side}_group"].isin(BASELINES).all() for side in ("perceiver", "experiencer"))
        whose = not perceivers or experiencers
        between = own.loc[own["in_group"].notna() if whose else ~own["experiencer_group"].isin(BASELINES)]
        status = between["status"].astype(str)
        n_missing = int((~status.isin(SCORED)).sum())
        for code, n, text in (
            (
                "replies_missing",
                n_missing,
                "{} of {} between identities {} refused, empty, failed or in another script",
            ),
            ("replies_cut", int((status == ReplyStatus.CUT.value).sum()), "{} of {} between identities {} cut"),
        ):
            if n > MISSING_SHARE * len(between):
                said = text.format(count(n), plural(len(between), "prompt"), either(n, "was", "were"))
                yield Remark(str(dimension), str(variant), code, f"{said} ({rate(n / len(between))}).")
        names = between["narrative_id"].astype(str).drop_duplicates()
        units = names if conversation_of is None else names.map(conversation_of)
        kind, n_units = "narrative" if conversation_of is None else "conversation", units.nunique()
        if dimension in drawn and are_own_stories(between):
            kind = "story set"
            n_units = int(between.groupby("experiencer", observed=True)["narrative_id"].nunique().max())
            yield Remark(str(dimension), str(variant), "own_stories", OWN_STORIES)
        if not whose:
            yield Remark(str(dimension), str(variant), "no_perceivers", WITHOUT_PERCEIVERS)
        elif n_units < FEW_NARRATIVES:
            yield Remark(
                str(dimension),
                str(variant),
                "few_narratives",
                f"Each δ comes from only {plural(n_units, kind)}. Its interval rests on how these differ, and assumes "
                f"that gaps are roughly normally distributed over {kind}s.",
            )
    weights = weights_of(files)
    for scorer, own_files in scorers.items():
        if weights & weights_of(own_files):
            yield Remark(
                "",
                "",
                "own_scorer",
                f"The model that scored {scorer} also wrote the replies. Its scores show how the model sees its own "
                "words.",
            )


def weights_of(files: Mapping[str, str]) -> set[str]:
    """Return the hashes of a model's weights."""
    return {digest for name, digest in files.items() if name.endswith((".safetensors", ".bin", ".gguf"))}


def ratings_of(replies: pd.DataFrame, outcome: Outcome) -> pd.DataFrame:
    """Return replies as ratings whose intensity is a measure; a reply without a number is one without a rating."""
    return _with_numbers(_without_numbers(replies), replies, outcome)


def _without_numbers(replies: pd.DataFrame) -> pd.DataFrame:
    """Treat each prompt as one that asked for a rating and got none."""
    status = replies["status"].astype(str).map(lambda name: _STATUS_OF.get(ReplyStatus(name), Status.UNPARSEABLE).value)
    blank = pd.Series(np.nan, index=replies.index)
    return replies.assign(status=status, intensity=blank, number_mass=blank, mode=blank)


def _with_numbers(asked: pd.DataFrame, replies: pd.DataFrame, outcome: Outcome) -> pd.DataFrame:
    """Use each reply's number as the intensity."""
    assert outcome.values is not None
    numbers = replies["prompt_index"].map(outcome.values).to_numpy(dtype=np.float64)
    known = np.isfinite(numbers)
    return asked.assign(
        status=asked["status"].mask(known, Status.RATED.value), intensity=np.where(known, numbers, np.nan)
    )
