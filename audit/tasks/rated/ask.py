"""Asks for ratings, and for those that check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from audit.collect import Asked, Session, answer_columns, begin_part
from audit.plan import Plan
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, PromptCell, Question

if TYPE_CHECKING:
    from audit.elicitation.base import Elicitation, Elicited
    from audit.engines.base import Done, OpenModel


def ask_ratings(
    elicitation: Elicitation, plan: Plan, model: OpenModel, asked: Asked, done: Done
) -> dict[str, list[Any]]:
    """Ask for ratings by an elicitation, and return them as columns; see :data:`audit.collect.Answer`."""
    outcomes, n_dropped = _elicited(elicitation, plan, model, asked, done)
    wording = [cell.wording for cell in asked.cells]
    return answer_columns(outcomes) | {"n_dropped": n_dropped, "wording": wording}


def ask_again(
    session: Session, elicitation: Elicitation, places: Sequence[int], done: Done, dtype: str
) -> list[Elicited]:
    """Ask prompts of a run once more; see :data:`audit.tasks.rated.checks.Ask`."""
    engine, asked = session.model.engine, session.again(places)
    begin_part(session.model, session.folder, f"check {type(elicitation).__name__} {dtype} {list(places)}")
    with engine.in_format(dtype) if dtype else nullcontext():
        return _elicited(elicitation, session.plan, session.model, asked, done)[0]


def ask_beside(session: Session, elicitation: Elicitation, cells: Sequence[PromptCell], done: Done) -> list[Elicited]:
    """Ask a run's model prompts that need not be of its grid."""
    begin_part(session.model, session.folder, "check without identities")
    return _elicited(elicitation, session.plan, session.model, session.beside(cells), done)[0]


def _elicited(
    elicitation: Elicitation, plan: Plan, model: OpenModel, asked: Asked, done: Done
) -> tuple[list[Elicited], list[int | None]]:
    """Return what became of prompts, and how much of each was dropped; one that cannot be asked has failed."""
    from audit.elicitation.base import Elicited
    from audit.strategies.run import final_prompts

    prompts = final_prompts(
        plan.strategy,
        model.engine,
        asked=asked.values,
        earlier=asked.earlier,
        room=elicitation.room,
        begun=plan.config.elicitation.prefill,
    )
    whole: list[Prompt] = [
        replace(found[0], question=_question(values))
        for found, values in zip(prompts, asked.values, strict=True)
        if found is not None
    ]
    answers = iter(elicitation.elicit(model.engine, whole, done=done) if whole else [])
    outcomes = [Elicited(Status.FAILED) if prompt is None else next(answers) for prompt in prompts]
    return outcomes, [None if prompt is None else prompt[1] for prompt in prompts]


def _question(values: Mapping[str, str]) -> Question:
    """Return whose emotion a prompt of these values asks about."""
    words = (values["emotion_noun"], values["emotion_adjective"])
    return Question(values["experiencer"], tuple(filter(None, words)))
