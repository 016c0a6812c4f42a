"""Asks a sample of a run's prompts how often numbers end, before all others; see :mod:`audit.asking.elicitation.ends`.

The sample is kept with the run. So a rating depends neither on the prompts beside it nor on the order in which they are
asked, and a run that was interrupted goes on with the same shares.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np

from audit.asking.collect import Answer, Session
from audit.asking.plan import Plan
from audit.asking.progress import Progress, Say
from audit.configuration.schema import AuditConfig
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.formatting import plural
from audit.tables.ratings import END_SHARES
from audit.tasks.intensity.ask import ask_ratings, job_of_ends

if TYPE_CHECKING:
    from audit.asking.elicitation.ends import EndSample
    from stimuli.prompts import Scale

_CALIBRATED: Final = "calibrated"
_TRIED: Final = 50  # prompts of a grid of millions that are looked at, for each prompt of the sample


def wants_ends(config: AuditConfig) -> bool:
    """Whether a run is to take ends of numbers from a sample of its prompts."""
    return config.elicitation_method == "expected" and config.elicitation.ends == _CALIBRATED


def ends_of(folder: RunFolder, manifest: Manifest) -> EndSample | None:
    """Return the sample from which a run's ratings take ends of numbers; None if each prompt is asked."""
    from audit.asking.elicitation.ends import EndSample

    return EndSample.of(folder.table(END_SHARES).rows()) if manifest.ends.way == _CALIBRATED else None


def calibrate_ends(session: Session, answer: Answer, *, say: Say) -> tuple[Manifest, Answer]:
    """Ask the sample, unless an earlier session did; return the manifest with it, and how to ask for ratings."""
    from audit.asking.elicitation.expected import ExpectedElicitation

    plan, folder, manifest = session.plan, session.folder, session.manifest
    if "ends" not in manifest.identity.elicitation:  # begun the exact way, as by an earlier version
        return manifest, answer
    scale, points = plan.grid.variant.scale, plan.config.elicitation.max_pruned_points
    assert scale is not None
    lost = manifest.ends.way == _CALIBRATED and not folder.table(END_SHARES).exists()
    if lost or "ends" not in manifest.content:  # else an earlier session decided, perhaps by another version's rules
        manifest = manifest.having(ends=_decide(session, scale, say))
    sample = ends_of(folder, manifest)
    return manifest, answer if sample is None else partial(ask_ratings, ExpectedElicitation.of(scale, points, sample))


def _decide(session: Session, scale: Scale, say: Say) -> dict[str, Any]:
    """Ask and keep the sample, say what it shows, and return the manifest's entry."""
    from audit.asking.elicitation.ends import why_exact

    why, sample = _why_not_asked(session.plan), None
    if not why:
        sample = _ask(session, scale)
        why = "the engine or the model's tokens leave no end to ask for" if sample is None else why_exact(sample, scale)
    noted: dict[str, Any] = {"way": "exact" if why else _CALIBRATED, "why": why}
    if sample is not None:
        session.folder.table(END_SHARES).write(sample.rows())
        moved = sample.moved[0]
        noted["n_prompts"] = len(sample.prompts)
        if len(moved) and np.isfinite(moved).all():
            noted |= {"rms_points": sample.rms, "max_points": float(abs(moved).max())}
            noted["systematic_points"] = sample.systematic
    if why and sample is not None:
        say(f"note: each prompt is asked how often numbers end (elicitation.ends=exact), because {why}")
    elif not why:
        say(
            f"how often numbers end is estimated from {plural(noted['n_prompts'], 'prompt')}; this changes their "
            f"ratings by {noted['rms_points']:.2g} points (root mean square), {noted['max_points']:.2g} at most"
        )
    return noted


def _why_not_asked(plan: Plan) -> str:
    """Say why no sample of a run is asked; empty if one is."""
    from audit.asking.elicitation.ends import SAMPLE, WORTH

    if plan.before:
        return "prompts show what the model wrote before"
    if len(plan.grid) < WORTH * SAMPLE:
        return f"{plural(len(plan.grid), 'prompt')} are too few to save questions (at least {WORTH * SAMPLE})"
    return ""


def _ask(session: Session, scale: Scale) -> EndSample | None:
    from audit.asking.elicitation.ends import SAMPLE
    from audit.asking.elicitation.expected import ExpectedElicitation

    plan = session.plan
    places = _draw(plan, SAMPLE)
    with Progress(SAMPLE, there=0, name="asking how often numbers end") as progress, progress.part(SAMPLE) as part:
        found: EndSample | None = session.workers.ask(job_of_ends(ExpectedElicitation(scale, 0.0), places, part))
    return found


def _draw(plan: Plan, n: int) -> list[int]:
    """Draw n prompts: half in-group, at least a quarter out-group; return their ``prompt_index``, ascending.

    Fewer if there are fewer. Prompts of a baseline, which δ does not compare, are drawn with the others.
    """
    rng = np.random.default_rng([plan.config.seed, crc32(b"ends of numbers")])
    order = rng.permutation(len(plan.grid))[: n * _TRIED]
    drawn: dict[bool | None, list[int]] = {True: [], False: [], None: []}
    for place in order.tolist():
        cell = plan.grid[place]
        drawn[cell.dimension.in_group(cell.perceiver, cell.experiencer)].append(place)
    first = [*drawn[True][: n // 2], *drawn[False][: n // 4]]
    known = {*drawn[True], *first}
    others = [place for place in order.tolist() if place not in known]
    return sorted([*first, *others, *drawn[True][n // 2 :]][:n])
