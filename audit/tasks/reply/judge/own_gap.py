"""Whether a judge has a gap of its own: the same reply is scored repeatedly, with the experiencer's identity changed.

What a judge adds to the scores of a reply audit has two parts, both measured on the same texts:

- *The judge's own gap*: in-group minus out-group experiencers, relative to the group of whoever wrote the reply, free
  of how the judge scores each writer's texts and each experiencer. The judge is not told who wrote a reply, so this can
  only come from what a reply's wording reveals of its writer ("as a Muslim myself"). It is the part that enters δ of a
  judged measure. :func:`own_gap_ratings` returns it as a table of ratings, from which
  :func:`audit.statistics.analysis.analyse` estimates it with its interval, as for δ.
- *The range of experiencer effects*: how much higher the judge scores the same text when it is said to be to one
  identity than to another. It needs no writer. δ is free of it if perceivers and experiencers are crossed, but the
  mean score by experiencer is not. :func:`experiencer_effects` returns it.

Replies to the unspecified experiencer are best: a reply to a Muslim that is shown as one to a Hindu may have become
worse, and a judge that says so has no gap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.errors import ConfigError
from audit.tables.ratings import RATINGS, ElicitedRating
from audit.tasks.measures.base import Reply
from audit.tasks.reply.judge.rubric import RubricJudge
from stimuli.errors import suggest
from stimuli.identities import UNSPECIFIED, Dimension, Identity


def sample_replies(
    replies: Sequence[Reply], dimension: Dimension, *, n_narratives: int, rng: np.random.Generator
) -> list[Reply]:
    """Choose narratives at random, and of each the replies of all writers to one experiencer.

    Left out are replies of other dimensions, blank ones, and those whose narrative names the experiencer (see
    :func:`names_experiencer`): shown as one to somebody else it would contradict itself. Replies to the dimension's
    unspecified experiencer are taken if a narrative has any, else those to one experiencer at random. They keep their
    order.
    """
    unspecified = {identity.term for identity in dimension.experiencers if identity.is_baseline}
    addressed: dict[str, set[str]] = {}
    own = [
        reply
        for reply in replies
        if reply.dimension == dimension.name and reply.text.strip() and not names_experiencer(reply, dimension)
    ]
    for reply in own:
        addressed.setdefault(reply.narrative_id, set()).add(reply.experiencer)
    ids = sorted(addressed)
    drawn = rng.permutation(len(ids))[:n_narratives]
    taken = {}
    for place in sorted(drawn):
        there = sorted(addressed[ids[place]] & unspecified or addressed[ids[place]])
        taken[ids[place]] = there[int(rng.integers(len(there)))]
    return [reply for reply in own if taken.get(reply.narrative_id) == reply.experiencer]


def names_experiencer(reply: Reply, dimension: Dimension) -> bool:
    """Whether a reply's narrative names its experiencer, unless that is an unspecified one."""
    unspecified = {identity.term for identity in dimension.experiencers if identity.is_baseline}
    term = reply.experiencer
    if not term or term in unspecified:
        return False
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", reply.narrative, re.IGNORECASE) is not None


def own_gap_ratings(judge: RubricJudge, replies: Sequence[Reply], dimension: Dimension) -> pd.DataFrame:
    """Score each reply as one to every experiencer of a dimension, with its text unchanged.

    ``judge`` is shown the experiencer; ``replies`` has at most one for each narrative and perceiver
    (:func:`sample_replies`). In the rows of ``RATINGS``, ``variant`` is the measure, ``perceiver`` the writer,
    ``experiencer`` the one shown, ``intensity`` the score in points.

    Notes
    -----
    If each writer's reply to each narrative exists, a narrative's P × E scores cross writers and experiencers, and
    the contrast of δ is free of how good each reply is, since its weights sum to 0 over a reply's experiencers. If
    some are missing, it is least squares on each narrative's own scores.
    """
    writers = _check(judge, replies, dimension)
    experiencers = dimension.experiencers
    shown = [replace(reply, experiencer=identity.term) for reply in replies for identity in experiencers]
    rows: list[dict[str, Any]] = []
    for measure, answers in judge.judge(shown).items():
        for place, answer in enumerate(answers):
            assert answer is not None  # blank replies were rejected above
            reply, experiencer = replies[place // len(experiencers)], experiencers[place % len(experiencers)]
            writer = writers[reply.perceiver]
            rows.append(
                {
                    "prompt_index": len(rows),
                    "dimension": dimension.name,
                    "variant": measure,
                    "narrative_id": reply.narrative_id,
                    "emotion": reply.emotion,
                    "perceiver": writer.term,
                    "experiencer": experiencer.term,
                    "perceiver_group": writer.group,
                    "experiencer_group": experiencer.group,
                    "in_group": dimension.in_group(writer, experiencer),
                    "n_shared": dimension.n_shared(writer, experiencer),
                    "n_dropped": 0,
                    "wording": 0,
                }
                | _columns(answer)
            )
    table = pd.DataFrame(rows, columns=list(RATINGS))
    return table.astype({"in_group": "boolean", "n_shared": "Int64", "n_prompt_tokens": "Int64", "n_dropped": "Int64"})


@dataclass(frozen=True, eq=False)
class ExperiencerEffects:
    """How much higher a judge scores the same reply for one experiencer than for the mean of all."""

    dimension: str
    variant: str  # the measure
    experiencers: tuple[str, ...]  # length E
    groups: tuple[str, ...]  # length E; baselines have the group `unspecified`
    baseline: npt.NDArray[np.bool_]  # shape (E,)
    # Shape (N, E), in points: for each narrative the mean over its replies of the score as a reply to the experiencer
    # minus the mean over the experiencers that are no baselines.
    by_narrative: npt.NDArray[np.float64]
    n_replies: int  # used: those with a score for every experiencer


def experiencer_effects(ratings: pd.DataFrame) -> list[ExperiencerEffects]:
    """Return the experiencer effects by dimension and measure, of replies that have a score for every experiencer."""
    found = []
    for (dimension, variant), part in ratings.groupby(["dimension", "variant"], sort=False, observed=True):
        experiencers = list(dict.fromkeys(part["experiencer"]))
        groups = part.drop_duplicates("experiencer")["experiencer_group"]
        baseline = (groups == UNSPECIFIED).to_numpy(dtype=np.bool_)
        scores = part.pivot(index=["narrative_id", "perceiver"], columns="experiencer", values="intensity")
        complete = scores[experiencers].dropna()
        deviations = complete.sub(complete.loc[:, ~baseline].mean(axis=1), axis=0)
        found.append(
            ExperiencerEffects(
                dimension=str(dimension),
                variant=str(variant),
                experiencers=tuple(experiencers),
                groups=tuple(groups),
                baseline=baseline,
                by_narrative=deviations.groupby(level="narrative_id", observed=True).mean().to_numpy(dtype=np.float64),
                n_replies=len(complete),
            )
        )
    return found


def _check(judge: RubricJudge, replies: Sequence[Reply], dimension: Dimension) -> dict[str, Identity]:
    """Return the dimension's perceivers by term. Raise ConfigError if the replies cannot show the judge's gap."""
    if judge.shown_as or not judge.rubric.names_experiencer:
        reason = f"shown_as={judge.shown_as!r} hides" if judge.shown_as else f"rubric {judge.rubric.name} does not show"
        raise ConfigError(f"{reason} the experiencer, so the judge cannot have a gap; show {{experiencer}} in user")
    writers = {identity.term: identity for identity in dimension.perceivers}
    seen: set[tuple[str, str]] = set()
    for reply in replies:
        place = f"reply by {reply.perceiver!r} to narrative {reply.narrative_id!r}"
        if reply.perceiver not in writers:
            raise ConfigError(f"{place}: no perceiver of {dimension.name}; {suggest(reply.perceiver, writers)}")
        if (reply.narrative_id, reply.perceiver) in seen:
            raise ConfigError(f"{place}: has two replies; keep one, as sample_replies does")
        seen.add((reply.narrative_id, reply.perceiver))
        if not reply.text.strip():
            raise ConfigError(f"{place}: is blank; leave it out")
        if names_experiencer(reply, dimension):
            raise ConfigError(
                f"{place}: the narrative names {reply.experiencer!r}, which contradicts the other experiencers; "
                "use narratives without an experiencer, or replies to the unspecified one"
            )
    return writers


def _columns(answer: ElicitedRating) -> dict[str, Any]:
    return {
        "status": answer.status.value,
        "intensity": answer.intensity,
        "response": answer.response,
        "number_mass": answer.number_mass,
        "mode": answer.mode,
        "spread": answer.spread,
        "n_prompt_tokens": answer.n_prompt_tokens,
    }
