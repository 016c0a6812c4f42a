"""The calls of a strategy on an engine: one stage for many prompts at a time, then the prompts that ask the question.

Prompts keep the grid's order, so that what their conversations share is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from zlib import crc32

import numpy as np

from audit.engines.base import Answered, Done, Engine, Generated, unwatched
from stimuli.prompts import Prompt
from stimuli.strategies import CLOSING, NO_STRATEGY, Stage, Strategy


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one stage of one prompt.

    Attributes
    ----------
    text
        As the model wrote it; empty where it failed.
    status
        ``written``; ``empty``, nothing but white space; ``cut`` at ``max_tokens``, what there is being kept; or
        ``failed``: not asked, because an earlier stage failed or the conversation is too long, or not answered.
    n_prompt_tokens
        Tokens that the model read; 0 where it was not asked.
    n_tokens
        Tokens that it wrote. A text that several prompts share counts in each.
    n_dropped
        Examples and earlier calls (what was asked, with what was written) left out for want of room.
    """

    text: str
    status: Literal["written", "empty", "cut", "failed"]
    n_prompt_tokens: int
    n_tokens: int
    n_dropped: int


def run_stage(
    strategy: Strategy,
    stage: int,
    engine: Engine,
    *,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[Written]],
    places: Sequence[int],
    seed: int,
    done: Done = unwatched,
) -> list[Written]:
    """Ask one stage of n prompts.

    At temperature 0, conversations that are the same word for word are asked once and share the text.

    Parameters
    ----------
    strategy, stage
        Whose stage, and its place.
    engine
        Asks the model.
    asked
        Each prompt's values, see :func:`stimuli.strategies.strategy_values`.
    earlier
        What the stages before wrote: for each stage one :class:`Written` a prompt.
    places
        Each prompt's ``prompt_index``; with the run's seed and the stage's name it makes the seed of a sampled text,
        which so is the same in whatever batch it is asked.
    seed
        The run's.
    done
        Told how many prompts more have their text, batch by batch.

    Returns
    -------
    list
        One :class:`Written` a prompt, in their order.

    Raises
    ------
    ModelError
        If the model's chat template cannot show the conversation.
    """
    settings = strategy.stages[stage]
    fitted = _fit(strategy, stage, engine, asked=asked, earlier=earlier, room=settings.max_tokens)
    return _write(fitted, settings, engine, places=places, seed=seed, done=done)


def write_thoughts(
    strategy: Strategy,
    engine: Engine,
    *,
    settings: Stage,
    asked: Sequence[Mapping[str, str]],
    earlier: Sequence[Sequence[Written]],
    room: int,
    begun: str = "",
    places: Sequence[int],
    seed: int,
    done: Done = unwatched,
) -> list[Written]:
    """Have the model think of n prompts before it answers: it is shown all that the answer's call shows.

    Parameters
    ----------
    settings
        How the thought is written; its prompt is not read.
    room
        Tokens that the answer may take.
    begun
        What the model is going to be made to begin its answer with.
    strategy, engine, asked, earlier, places, seed, done
        As for :func:`run_stage`.

    Returns
    -------
    list
        One :class:`Written` a prompt; ``cut`` where the model did not end its thought itself, whatever it wrote.

    Raises
    ------
    ModelError
        If it cannot be told how the model thinks, or its chat template cannot show the conversation.
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
    earlier: Sequence[Sequence[Written]],
    thoughts: Sequence[Written] | None = None,
    places: Sequence[int],
    seed: int,
    done: Done = unwatched,
) -> list[Written]:
    """Ask the audit's question of n prompts, after all stages, where the answer is a text.

    Parameters
    ----------
    settings
        How the text is written; its prompt is not read. Its name is part of the seed of a sampled text.
    thoughts
        What the model thought before each, see :func:`write_thoughts`; None where it does not think.
    strategy, engine, asked, earlier, places, seed, done
        As for :func:`run_stage`.

    Raises
    ------
    ModelError
        If the model's chat template cannot show the conversation.
    """
    fitted = _fit(strategy, None, engine, asked=asked, earlier=earlier, thoughts=thoughts, room=settings.max_tokens)
    return _write(fitted, settings, engine, places=places, seed=seed, done=done)


def _write(
    fitted: Sequence[_Call | None], settings: Stage, engine: Engine, *, places: Sequence[int], seed: int, done: Done
) -> list[Written]:
    """Ask the calls; those that are the same word for word once, unless each has a text of its own."""
    sampled = settings.temperature > 0
    apart = sampled or isinstance(engine, Answered)
    keys = [
        None if call is None else place if apart else call.prompt for place, call in zip(places, fitted, strict=True)
    ]
    calls = {key: call for key, call in zip(keys, fitted, strict=True) if key is not None and call is not None}
    if not calls:
        return [Written("", "failed", 0, 0, 0) for _ in fitted]
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
        Written("", "failed", 0, 0, 0) if key is None or call is None else _written(call, texts[key])
        for key, call in zip(keys, fitted, strict=True)
    ]


def _spread(done: Done, n_calls: int, n_prompts: int) -> Done:
    """Return what tells of prompts where it is told of calls, each of which may be that of several prompts."""
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
    earlier: Sequence[Sequence[Written]],
    thoughts: Sequence[Written] | None = None,
    room: int,
    begun: str = "",
) -> list[tuple[Prompt, int] | None]:
    """Return the prompts that ask the audit's question after all stages; None where it cannot be asked.

    It cannot where a stage or a thought failed, or where the conversation does not fit and cannot be shortened. Beside
    each stands how many examples and earlier calls were left out. Where nothing comes before the question every prompt
    is returned: the elicitation itself fails what is too long.

    Parameters
    ----------
    strategy, engine, asked, earlier
        As for :func:`run_stage`.
    thoughts
        As for :func:`write_replies`.
    room
        Tokens that the answer may take.
    begun
        What the model is made to begin its answer with.
    """
    if thoughts is None and strategy.name == NO_STRATEGY:
        return [(Prompt(values["system"], values["question"], begun=begun), 0) for values in asked]
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
    earlier: Sequence[Sequence[Written]],
    thoughts: Sequence[Written] | None = None,
    room: int,
    begun: str = "",
    thinks: bool = False,
) -> list[_Call | None]:
    """Return each prompt's call, without its oldest questions and answers where it does not fit with them.

    None where an earlier stage failed, or there is no room for it without any of them. A thought is asked for where its
    answer fits too, with all that stands between the two; and an answer in the conversation that its thought was
    written in, whatever that was left without.
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
        # A thought of no words, closed: what the answer's call has beside the thought itself.
        whole = [replace(prompt, thinks=False, thought="") if thinks else prompt for prompt in left.values()]
        fits = engine.fits(whole, room=room)
        for (place, prompt), there_is_room in zip(list(left.items()), fits, strict=True):
            if there_is_room:
                calls[place] = _Call(prompt, n_dropped)
                del left[place]
            elif strategy.overrun == "oldest" and prompt.turns:
                left[place] = _without(prompt, 1)
            else:
                del left[place]
        n_dropped += 1
    return calls


def _without(prompt: Prompt, n_dropped: int) -> Prompt:
    """Return a prompt without its oldest questions and answers."""
    return replace(prompt, turns=prompt.turns[2 * n_dropped :])


def _closed(thought: Written | None) -> str | None:
    """Return a thought as it is closed: one that was cut ends its line."""
    return None if thought is None else thought.text + ("\n" if thought.status == "cut" else "")


def _written(call: _Call, generated: Generated) -> Written:
    n_read = generated.n_prompt_tokens or 0
    if generated.text is None:
        return Written("", "failed", n_read, generated.n_tokens, call.n_dropped)
    status: Literal["written", "empty", "cut"] = "cut" if generated.cut else "written"
    # A thought that did not end is no ground for an answer, however little of it there is.
    if not generated.text.strip() and not (generated.cut and call.prompt.thinks):
        status = "empty"
    return Written(generated.text, status, n_read, generated.n_tokens, call.n_dropped)


def _seed(seed: int, stage: str, place: int) -> int:
    """Return the seed of one sampled text: apart for each prompt and stage, whatever else is asked."""
    return int(np.random.SeedSequence([seed, crc32(stage.encode()), place]).generate_state(1, np.uint64)[0] >> 1)
