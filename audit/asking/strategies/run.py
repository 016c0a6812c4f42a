"""Runs a strategy's calls on an engine: one stage for many prompts at a time, then the question.

Prompts stay in the grid's order, so that engines read a shared beginning once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from zlib import crc32

import numpy as np

from audit.engines.base import AnswersOfRun, Done, Engine, Generated, unwatched
from stimuli.prompts import Prompt, PromptCell, earlier_turns
from stimuli.strategies import CLOSING, NO_STRATEGY, Stage, Strategy


@dataclass(frozen=True, slots=True)
class StageText:
    """What one stage wrote for one prompt."""

    text: str  # as written; empty if it failed
    # `empty`: only white space; `cut` at max_tokens and kept; `failed`: not answered, or not asked because an earlier
    # stage failed or the conversation is too long
    status: Literal["written", "empty", "cut", "failed"]
    n_prompt_tokens: int  # 0 if it was not asked
    n_tokens: int  # written; a text that several prompts share counts in each
    n_dropped: int  # examples and earlier calls that were left out because they did not fit


def run_stage(
    strategy: Strategy,
    stage: int,
    engine: Engine,
    *,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[StageText]],
    places: Sequence[int],
    seed: int,
    cells: Sequence[PromptCell] = (),  # of a talk: whom each prompt is about, for a scripted respondent
    done: Done = unwatched,
) -> list[StageText]:
    """Ask one stage for n prompts; at temperature 0, conversations that are identical are asked once.

    Each prompt's place (``prompt_index``), the run's seed and the stage's name seed a sampled text, which then does not
    depend on the batch.
    """
    settings = strategy.stages[stage]
    fitted = _fit(strategy, stage, engine, asked=asked, earlier=earlier, room=settings.max_tokens)
    return _write(_told(fitted, cells), settings, engine, places=places, seed=seed, done=done)


def write_thoughts(
    strategy: Strategy,
    engine: Engine,
    *,
    settings: Stage,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[StageText]],
    room: int,
    begun: str = "",
    places: Sequence[int],
    seed: int,
    done: Done = unwatched,
) -> list[StageText]:
    """Have the model think about n prompts; it sees all that the call for the answer shows.

    A thought is ``cut`` if the model did not end it itself, whatever it wrote. ``room`` is the most tokens of the
    answer, ``begun`` its beginning.
    """
    wanted = settings.max_tokens + room + CLOSING
    fitted = _fit(strategy, None, engine, asked=asked, earlier=earlier, room=wanted, begun=begun, thinks=True)
    return _write(fitted, settings, engine, places=places, seed=seed, done=done)


def write_replies(
    strategy: Strategy,
    engine: Engine,
    *,
    settings: Stage,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[StageText]],
    thoughts: Sequence[StageText] | None = None,
    cells: Sequence[PromptCell],
    seed: int,
    done: Done = unwatched,
) -> list[StageText]:
    """Ask the audit's question after all stages, for tasks whose answer is a text."""
    fitted = _fit(strategy, None, engine, asked=asked, earlier=earlier, thoughts=thoughts, room=settings.max_tokens)
    places = [cell.index for cell in cells]
    return _write(_told(fitted, cells), settings, engine, places=places, seed=seed, done=done)


def _told(fitted: Sequence[_Call | None], cells: Sequence[PromptCell]) -> list[_Call | None]:
    """Add to each prompt whom it is about, if that is told, for a scripted respondent."""
    if not cells:
        return [*fitted]
    return [
        call and replace(call, prompt=replace(call.prompt, cell=cell)) for call, cell in zip(fitted, cells, strict=True)
    ]


def _write(
    fitted: Sequence[_Call | None], settings: Stage, engine: Engine, *, places: Sequence[int], seed: int, done: Done
) -> list[StageText]:
    """Run the calls; identical ones only once, unless each needs a text of its own."""
    sampled = settings.temperature > 0
    apart = sampled or isinstance(engine, AnswersOfRun)
    keys = [
        None if call is None else place if apart else call.prompt for place, call in zip(places, fitted, strict=True)
    ]
    calls = {key: call for key, call in zip(keys, fitted, strict=True) if key is not None and call is not None}
    if not calls:
        return [StageText("", "failed", 0, 0, 0) for _ in fitted]
    generated = engine.write(
        [call.prompt for call in calls.values()],
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seeds=[_seed(seed, settings.name, place) for place in calls if isinstance(place, int)] if sampled else None,
        done=_spread(done, len(calls), len(fitted)),
    )
    texts = dict(zip(calls, generated, strict=True))
    return [
        StageText("", "failed", 0, 0, 0) if key is None or call is None else _written(call, texts[key])
        for key, call in zip(keys, fitted, strict=True)
    ]


def _spread(done: Done, n_calls: int, n_prompts: int) -> Done:
    """Convert progress in calls to progress in prompts, several of which may share a call."""
    answered = told = 0

    def spread(n: int) -> None:
        nonlocal answered, told
        answered += n
        now = answered * n_prompts // n_calls
        done(now - told)
        told = now

    return spread


def final_prompts(
    strategy: Strategy,
    engine: Engine,
    *,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[StageText]],
    thoughts: Sequence[StageText] | None = None,
    room: int,
    begun: str = "",
) -> list[tuple[Prompt, int] | None]:
    """Build the prompts that ask the audit's question after all stages, each with the number of dropped turns.

    None if a stage or thought failed, or if the conversation does not fit and cannot be shortened. If nothing comes
    before the question, every prompt is returned: the elicitation itself fails those that are too long.
    """
    if thoughts is None and strategy.name == NO_STRATEGY:
        return [(Prompt(values["system"], values["question"], earlier_turns(values), begun), 0) for values in asked]
    if thoughts is None and not strategy.stages and strategy.examples is None:
        return [(replace(strategy.prompt_of(None, values, ()), begun=begun), 0) for values in asked]
    return [
        None if call is None else (call.prompt, call.n_dropped)
        for call in _fit(
            strategy, None, engine, asked=asked, earlier=earlier, thoughts=thoughts, room=room, begun=begun
        )
    ]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that fits into the model's context."""

    prompt: Prompt
    n_dropped: int


def _fit(
    strategy: Strategy,
    stage: int | None,
    engine: Engine,
    *,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[StageText]],
    thoughts: Sequence[StageText] | None = None,
    room: int,
    begun: str = "",
    thinks: bool = False,
) -> list[_Call | None]:
    """Build each prompt's call, dropping the oldest questions and answers until it fits.

    None if an earlier stage failed, or if it does not fit even without them. A thought is only asked for if its answer
    fits too, with the marks between them. The answer then gets the conversation in which its thought was written.
    """
    wanted = len(strategy.stages) if stage is None else stage
    if len(earlier) != wanted or any(len(stage_written) != len(asked) for stage_written in earlier):
        raise ValueError(f"earlier must hold {wanted} stages of {len(asked)} texts each")
    calls: list[_Call | None] = [None] * len(asked)
    left: dict[int, Prompt] = {}
    for place, values in enumerate(asked):
        written = [texts[place] for texts in earlier]
        thought = None if thoughts is None else thoughts[place]
        if not any(text.status == "failed" for text in (*written, *filter(None, [thought]))):
            asking = strategy.prompt_of(stage, values, [text.text for text in written])
            left[place] = replace(asking, begun=begun, thinks=thinks, thought=_closed(thought))
    if thoughts is not None:
        shown = {place: _without(prompt, thoughts[place].n_dropped) for place, prompt in left.items()}
        fits = engine.fits(list(shown.values()), room=room)
        for (place, prompt), there_is_room in zip(shown.items(), fits, strict=True):
            calls[place] = _Call(prompt, thoughts[place].n_dropped) if there_is_room else None
        return calls
    n_dropped = 0
    while left:
        # An empty thought, closed: what the answer's call has in addition to the thought itself.
        whole = [replace(prompt, thinks=False, thought="") if thinks else prompt for prompt in left.values()]
        fits = engine.fits(whole, room=room)
        for (place, prompt), there_is_room in zip(list(left.items()), fits, strict=True):
            if there_is_room:
                calls[place] = _Call(prompt, n_dropped)
                del left[place]
            # Without the turn in which the user told who they are, the question would be nobody's.
            elif strategy.overrun == "oldest" and prompt.turns and not earlier_turns(asked[place]):
                left[place] = _without(prompt, 1)
            else:
                del left[place]
        n_dropped += 1
    return calls


def _without(prompt: Prompt, n_dropped: int) -> Prompt:
    """Drop the oldest questions and answers of a prompt."""
    return replace(prompt, turns=prompt.turns[2 * n_dropped :])


def _closed(thought: StageText | None) -> str | None:
    """Return a thought ready to be closed: one that was cut ends its line."""
    return None if thought is None else thought.text + ("\n" if thought.status == "cut" else "")


def _written(call: _Call, generated: Generated) -> StageText:
    n_read = generated.n_prompt_tokens or 0
    if generated.text is None:
        return StageText("", "failed", n_read, generated.n_tokens, call.n_dropped)
    status: Literal["written", "empty", "cut"] = "cut" if generated.cut else "written"
    # A thought that did not end is no basis for an answer, however little of it there is.
    if not generated.text.strip() and not (generated.cut and call.prompt.thinks):
        status = "empty"
    return StageText(generated.text, status, n_read, generated.n_tokens, call.n_dropped)


def _seed(seed: int, stage: str, place: int) -> int:
    """Seed one sampled text: different for each prompt and stage, whatever else is asked."""
    return int(np.random.SeedSequence([seed, crc32(stage.encode()), place]).generate_state(1, np.uint64)[0] >> 1)
