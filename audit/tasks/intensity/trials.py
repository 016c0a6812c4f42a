"""Trials choose how ratings are elicited where neither the command nor the model's card says it.

Ways to elicit a rating are tried on narratives without any identity, each about its own emotion and a wrong one: the
response to the story decides, see :func:`audit.statistics.manipulation.best_way`. No δ can enter the choice, and no
narrative of it is one of the run's or of its check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pandas as pd

from audit.asking.elicitation.base import Elicitation
from audit.asking.plan import Plan
from audit.asking.progress import Progress, Say
from audit.asking.workers.base import Job, Workers
from audit.asking.workers.open import open_workers
from audit.configuration.elicitation import AUTO
from audit.configuration.schema import AuditConfig
from audit.engines.base import Done, OpenModel
from audit.errors import ModelError
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.statistics.manipulation import SHOWN, best_way, in_standard_errors, way_row
from audit.tables.ratings import TRIAL_ANSWERS, ElicitedRating
from audit.tasks.intensity.checks import elicitation_of, manipulated_rows
from stimuli.languages import ENGLISH
from stimuli.manipulation import OWN, WRONG, Manipulated, leaning, manipulated
from stimuli.narratives import Narrative, load_narratives
from stimuli.prompts import Prompt, PromptGrid, Question
from stimuli.strategies import strategy_values

Method: TypeAlias = Literal["generate", "expected"]
BEGINNINGS: Final = ("", "Number: ")  # the simplest first
METHODS: Final[tuple[Method, ...]] = ("generate", "expected")
N_NARRATIVES: Final = 12  # two prompts each


@dataclass(frozen=True)
class Way:
    """A way to elicit ratings."""

    method: Method
    begun: str  # what answers are begun with; empty for nothing

    def __str__(self) -> str:
        return self.method + (f', answers begun with "{self.begun}"' if self.begun else "")


def ways(config: AuditConfig) -> list[Way]:
    """List the ways that a configuration leaves open, the simplest first."""
    methods = METHODS if config.open_method else (config.elicitation_method,)
    prefill = config.elicitation.prefill
    return [Way(method, begun) for begun in (BEGINNINGS if prefill == AUTO else (prefill,)) for method in methods]


def source_for(config: AuditConfig) -> str:
    """Return the packaged source of the narratives of trials: not the run's."""
    return "geneva20" if config.stimuli.source == "geneva" else "geneva"


def no_trials(config: AuditConfig) -> str:
    """Say why nothing can be tried; empty if it can."""
    if config.language != ENGLISH:
        return f"the narratives in language={config.language} are the run's own"
    if config.engine.batch:
        return "engine.batch asks all prompts at once"
    return ""


def trial_prompts(plan: Plan) -> list[Manipulated]:
    """Return the narratives of trials, each with its own emotion and a wrong one: the same whatever the run's sample.

    They are of a packaged source that the run does not ask about, so that its check has other narratives, and as many
    are pleasant as unpleasant: else a model that always rates pleasant emotions higher would seem to follow. Strong
    emotions show the most.
    """
    found = load_narratives(source_for(plan.config), situations_per_emotion=2, intensity="strong")
    narratives = replace(found, narratives=tuple(_balanced(found.narratives)))
    grid = PromptGrid(plan.grid.dimensions, narratives, plan.grid.variant)
    asked = manipulated(grid, size=0, seed=0, nobody=plan.config.nobody)
    return [each for each in asked if each.kind in (OWN, WRONG)]


def _balanced(narratives: Sequence[Narrative]) -> Iterator[Narrative]:
    """Yield half of the narratives of each valence, of as many emotions as there are."""
    n_before: Counter[str] = Counter()
    turns: dict[int, list[Narrative]] = {}  # the first narrative of each emotion, then the second
    for each in narratives:
        turns.setdefault(n_before[each.emotion], []).append(each)
        n_before[each.emotion] += 1
    in_turn = [each for turn in sorted(turns) for each in turns[turn]]
    for side in (1, -1):
        yield from [each for each in in_turn if leaning(each.emotion) == side][: N_NARRATIVES // 2]


def prompts_of(plan: Plan) -> Iterator[Prompt]:
    """Yield every prompt of the trials of a new run that leaves something open: none if nothing can be tried."""
    if not no_trials(plan.config):
        for way in ways(plan.config):
            yield from _begun(plan, trial_prompts(plan), way)


def _begun(plan: Plan, asked: Sequence[Manipulated], way: Way) -> list[Prompt]:
    grid = plan.grid
    return [
        replace(grid.prompt(each.cell), begun=way.begun, question=Question.of(strategy_values(grid, each.cell)))
        for each in asked
    ]


def as_kept(plan: Plan, folder: Path) -> Plan | None:
    """Return the plan with the elicitation of the run that a folder holds; None if it holds none."""
    kept = Manifest.part_of(folder, "identity", "elicitation")
    method = kept.get("method")
    return _settled(plan, Way(method, str(kept.get("prefill") or ""))) if method in METHODS else None


def _settled(plan: Plan, way: Way, trials: Mapping[str, Any] | None = None) -> Plan:
    return replace(plan, config=plan.config.settled(way.method, way.begun), trials=trials)


def choose(plan: Plan, folder: RunFolder, *, say: Say) -> Plan:
    """Try the ways that a plan leaves open, store the answers, and return the plan with the one that follows best."""
    own, why_not = ways(plan.config), no_trials(plan.config)
    if why_not:
        say(f"elicitation: {own[0]}; nothing was tried, because {why_not}")
        return _settled(plan, own[0], {"left_out": why_not})
    asked = trial_prompts(plan)
    n = len(asked)
    say(f"elicitation=auto: trying {len(own)} ways to get a rating, {n} prompts without identities each ...")
    workers, _ = open_workers(
        plan.config, folder, None, writes=False, how="trials of the elicitation", n_shards=1, say=say
    )
    with workers:
        tried = list(_try(plan, workers, own, asked))
    folder.table(TRIAL_ANSWERS).write([answer for _, answers in tried for answer in answers])
    chosen = best_way([row for row, _ in tried])
    rows = [{**row, "chosen": place == chosen} for place, (row, _) in enumerate(tried)]
    for way, row in zip(own, rows, strict=True):
        say(f"  {_told(row)}: {way}{' (chosen)' if row['chosen'] else ''}")
    if in_standard_errors(rows[chosen]) < SHOWN:
        say(f"note: no way of asking is shown to follow the story ({n // 2} narratives); the check asks about more")
    say("to choose yourself, in another run folder: elicitation=expected or generate, elicitation.prefill=TEXT")
    return _settled(plan, own[chosen], {"source": source_for(plan.config), "tried": rows})


def _told(row: Mapping[str, Any]) -> str:
    """Say a way's response in one phrase."""
    if row["difference"] is None:
        return str(row["note"])
    sure = "" if row["standard_errors"] is None else f" ({row['standard_errors']:+.1f} standard errors)"
    note = f"; {row['note']}" if row["note"] else ""
    return f"own emotion {row['difference']:+.2f} points above a wrong one{sure}{note}"


def _try(
    plan: Plan, workers: Workers, own: Sequence[Way], asked: Sequence[Manipulated]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the row and the answers of each way; one that an engine cannot do has no answers, and says why."""
    scale, statistics = plan.grid.variant.scale, plan.config.statistics
    assert scale is not None
    works: Way | None = None

    def ask(way: Way, n: int, name: str) -> list[ElicitedRating]:
        elicitation = elicitation_of(plan.config, scale, way.method)
        prompts = _begun(plan, asked[:n], way)
        with progress.part(n) as part:
            found: list[ElicitedRating] = workers.ask(
                Job(name, partial(_elicited, elicitation=elicitation, prompts=prompts), part.call)
            )
        return found

    with Progress(len(own) * len(asked), name="trying elicitations") as progress:
        for place, way in enumerate(own):
            answers: list[dict[str, Any]] = []
            why_not = ""
            try:
                found = ask(way, len(asked), f"trial {place} of the elicitation")
            except NotImplementedError:  # an engine that reads only probabilities, or only writes
                why_not = f"the engine has no elicitation={way.method}"
            except ModelError as error:
                if works is None:
                    raise
                ask(works, 1, f"whether the model still answers after trial {place}")  # else the error is not the way's
                why_not = str(error).strip().split("\n")[0]
            else:
                works = works or way
                answers = [
                    {"method": way.method, "begun": way.begun, **row, "number_mass": each.number_mass}
                    for row, each in zip(manipulated_rows(asked, found), found, strict=True)
                ]
            table = pd.DataFrame(answers, columns=list(TRIAL_ANSWERS))
            table["leaning"] = table["emotion"].map(leaning)  # of packaged narratives
            row = way_row(table, n_asked=len(asked) // 2, min_number_mass=statistics.min_number_mass, why_not=why_not)
            yield {"method": way.method, "begun": way.begun, "chosen": False, **row}, answers


def _elicited(
    shared: object, model: OpenModel, done: Done, *, elicitation: Elicitation, prompts: Sequence[Prompt]
) -> list[ElicitedRating]:
    return elicitation.elicit(model.engine, prompts, done=done)
