"""Asks for ratings, and for the ratings that check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from audit.asking.collect import PromptBatch, Session, Shared, answer_columns
from audit.asking.plan import Plan
from audit.asking.progress import ProgressPart
from audit.asking.workers.base import Job
from audit.errors import ModelError
from audit.tables.ratings import ElicitedRating, Status
from stimuli.prompts import Prompt, PromptCell, Question

if TYPE_CHECKING:
    from audit.asking.elicitation.base import Elicitation
    from audit.asking.elicitation.ends import EndSample
    from audit.asking.elicitation.expected import ExpectedElicitation
    from audit.asking.strategies.run import StageText
    from audit.engines.base import Done, OpenModel


def ask_ratings(
    elicitation: Elicitation, plan: Plan, model: OpenModel, asked: PromptBatch, done: Done
) -> dict[str, list[Any]]:
    """Ask for ratings, and return them as columns; see :data:`audit.asking.collect.Answer`."""
    outcomes, n_dropped = _elicited(elicitation, plan, model, asked, done)
    wording = [cell.wording for cell in asked.cells]
    return answer_columns(outcomes) | {"n_dropped": n_dropped, "wording": wording}


def again(
    session: Session, elicitation: Elicitation, places: Sequence[int], part: ProgressPart, dtype: str = ""
) -> Job:
    """Return a job that asks prompts of a run once more, in the order of ``places`` (their ``prompt_index``)."""
    name = f"check {type(elicitation).__name__} {dtype} {list(places)}"
    earlier = session.earlier(places)
    return Job(name, partial(_again, elicitation=elicitation, places=places, earlier=earlier, dtype=dtype), part.call)


def job_outside_grid(elicitation: Elicitation, cells: Sequence[PromptCell], part: ProgressPart, name: str) -> Job:
    """Return a job that asks a run's model prompts outside its grid, under a name unique among its parts."""
    return Job(name, partial(_beside, elicitation=elicitation, cells=cells), part.call)


def job_of_ends(elicitation: ExpectedElicitation, places: Sequence[int], part: ProgressPart) -> Job:
    """Return a job that asks a sample of a run's prompts how often numbers end; its result may be None."""
    name = f"ends of numbers, prompts {list(places)}"
    return Job(name, partial(_calibrate, elicitation=elicitation, places=places), part.call)


def _calibrate(
    shared: Shared, model: OpenModel, done: Done, *, elicitation: ExpectedElicitation, places: Sequence[int]
) -> EndSample | None:
    from audit.asking.elicitation.ends import Sampled

    asked = shared.asked(places, [])
    found = [
        (prompt[0], Sampled(cell.index, cell.dimension.in_group(cell.perceiver, cell.experiencer)))
        for prompt, cell in zip(_prompts(elicitation, shared.plan, model, asked), asked.cells, strict=True)
        if prompt is not None
    ]
    if not found:
        return None
    prompts, sampled = zip(*found, strict=True)
    return elicitation.calibrate(model.engine, prompts, sampled, done=done)


def _again(
    shared: Shared,
    model: OpenModel,
    done: Done,
    *,
    elicitation: Elicitation,
    places: Sequence[int],
    earlier: Sequence[Sequence[StageText]],
    dtype: str,
) -> list[ElicitedRating]:
    asked = shared.asked(places, earlier)
    if not dtype:
        return _elicited(elicitation, shared.plan, model, asked, done)[0]
    try:
        with model.engine.in_format(dtype):
            return _elicited(elicitation, shared.plan, model, asked, done)[0]
    except RuntimeError as error:  # a format may fail for any reason; the rest of the run stands
        raise ModelError(str(error)) from error


def _beside(
    shared: Shared, model: OpenModel, done: Done, *, elicitation: Elicitation, cells: Sequence[PromptCell]
) -> list[ElicitedRating]:
    return _elicited(elicitation, shared.plan, model, shared.beside(cells), done)[0]


def _elicited(
    elicitation: Elicitation, plan: Plan, model: OpenModel, asked: PromptBatch, done: Done
) -> tuple[list[ElicitedRating], list[int | None]]:
    """Return each prompt's outcome, and how much of it was dropped; a prompt that cannot be asked has failed."""
    prompts = _prompts(elicitation, plan, model, asked)
    whole = [prompt[0] for prompt in prompts if prompt is not None]
    answers = iter(elicitation.elicit(model.engine, whole, done=done) if whole else [])
    outcomes = [ElicitedRating(Status.FAILED) if prompt is None else next(answers) for prompt in prompts]
    return outcomes, [None if prompt is None else prompt[1] for prompt in prompts]


def _prompts(
    elicitation: Elicitation, plan: Plan, model: OpenModel, asked: PromptBatch
) -> list[tuple[Prompt, int] | None]:
    """Return each prompt in full, with how much of it was dropped; None if it cannot be asked."""
    from audit.asking.strategies.run import final_prompts

    prompts = final_prompts(
        plan.strategy,
        model.engine,
        asked=asked.values,
        earlier=asked.earlier,
        thoughts=asked.thoughts,
        room=elicitation.room,
        begun=plan.begun,
    )
    return [
        None if found is None else (replace(found[0], question=Question.of(values), cell=cell), found[1])
        for found, values, cell in zip(prompts, asked.values, asked.cells, strict=True)
    ]
