"""Strategies: ways of leading a model to empathise before it answers the audit's question.

A strategy is data: model calls (*stages*) that come before the question, the history that each call sees, and where the
question comes in. What the stages wrote is inserted by one pass of ``str.format``: braces in it are text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from stimuli.errors import StimulusError
from stimuli.identities import NO_PERSONA
from stimuli.prompts import VALUE_NAMES, Prompt, PromptCell, PromptGrid, placeholders

MAX_STAGES: Final = 16
NO_STRATEGY: Final = "none"
"""The name of the strategy that leaves the prompts as they are, and of no other."""
STAGE: Final = "stage_"
"""Before a stage's name, the placeholder of what it wrote: ``{stage_imagine}``."""

_ASKED: Final = VALUE_NAMES | {"system", "question"}
_RATING: Final = (
    ("narrative", "Narrative"),
    ("experiencer", "Experiencer", "Narrative"),
    ("emotion", "emotion_noun", "emotion_adjective"),
    ("low",),
    ("high",),
)
"""What a question of one's own must show: one of each."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A model call before the question.

    Attributes
    ----------
    name
        Letters, digits and ``_``; its text is ``{stage_NAME}`` in later templates.
    prompt
        Template of its user message.
    max_tokens
        How many tokens it may write; a longer text is cut there.
    temperature
        0 takes the most probable token each time.
    top_p
        Tokens are drawn from the most probable ones that have this probability together.
    """

    name: str
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way of leading a model to its answer.

    Attributes
    ----------
    name
        The strategy, e.g. ``ecn``.
    source
        Where it comes from, in one line.
    deviates
        What is ours or unknown, in one line.
    stages
        The calls before the question, in order; may be none.
    stage_system
        Template of the stages' system message.
    system
        Template of the system message of the call that asks for the rating.
    question
        Template of that call's user message.
    history
        Which earlier calls a call sees as turns: ``all``, the ``last`` one, or ``none``.
    overrun
        What happens where a call does not fit into the model's context: the ``oldest`` earlier calls are left out until
        it fits, or that prompt has to ``fail``.
    """

    name: str
    source: str = ""
    deviates: str = ""
    stages: tuple[Stage, ...] = ()
    stage_system: str = "{persona}"
    system: str = "{system}"
    question: str = "{question}"
    history: Literal["all", "last", "none"] = "all"
    overrun: Literal["oldest", "fail"] = "oldest"

    def __post_init__(self) -> None:
        """Raise StimulusError if a template can not be filled, or nothing would be asked or said of the perceiver."""
        where = f"strategy {self.name}"
        if self.name == NO_STRATEGY and (self.stages or (self.system, self.question) != ("{system}", "{question}")):
            raise StimulusError(f"{where}: changes what is asked; give it a name of its own, strategy.name=NAME")
        names = [stage.name for stage in self.stages]
        if len(names) > MAX_STAGES:
            raise StimulusError(f"{where}: {len(names)} stages are too many; {MAX_STAGES} at most")
        for place, stage in enumerate(self.stages):
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", stage.name):
                raise StimulusError(
                    f"{where}: stage {stage.name!r}: a name is a letter, then letters, digits and underscores"
                )
            if stage.name in names[:place]:
                raise StimulusError(f"{where}: there are two stages {stage.name!r}; give one another name")
            if not stage.prompt.strip():
                raise StimulusError(f"{where}: stages.{stage.name}.prompt is empty; say what the model is asked there")
            self._check(stage.prompt, f"{where}: stages.{stage.name}.prompt", names, names[:place])
        for key in ("stage_system", "system"):
            found = placeholders(getattr(self, key), _ASKED, place=f"{where}: {key}")
            if not found & {"persona", "system"}:
                raise StimulusError(
                    f"{where}: {key} lacks {{persona}} or {{system}}, so the model would not know who it is"
                )
        asked = self._check(self.question, f"{where}: question", names, names)
        if "question" not in asked:
            for needed in _RATING:
                if not asked & set(needed):
                    choice = " or ".join(f"{{{name}}}" for name in needed)
                    raise StimulusError(
                        f"{where}: question lacks {{question}}, the prompt's own, and does not ask for a rating "
                        f"either: it has no {choice}"
                    )

    def _check(self, template: str, place: str, stages: Sequence[str], earlier: Sequence[str]) -> set[str]:
        """Return a template's placeholders; StimulusError for an unknown one, or a stage that is not written yet."""
        used = placeholders(template, _ASKED | {STAGE + name for name in stages}, place=place)
        known = _ASKED | {STAGE + name for name in earlier}
        for name in sorted(used - known):
            before = f"those before it are {', '.join(earlier)}" if earlier else "there is none before it"
            raise StimulusError(
                f"{place}: {{{name}}} is not written yet when it is asked for; a stage can use earlier ones alone, and "
                f"{before}"
            )
        return used

    @property
    def needs(self) -> frozenset[str]:
        """Which of the values' placeholders the templates use, ``system`` and ``question`` among them."""
        known = _ASKED | {STAGE + stage.name for stage in self.stages}
        templates = [self.system, self.question, *(stage.prompt for stage in self.stages)]
        templates += [self.stage_system] if self.stages else []
        return _ASKED & placeholders("".join(templates), known, place=self.name)

    @property
    def sha256(self) -> str:
        """Of everything that changes what the model is asked; where the strategy comes from does not."""
        content = asdict(self)
        del content["source"], content["deviates"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def seen(self, stage: int | None) -> range:
        """Return the places of the earlier calls that a call sees as turns; None is the call that asks the question."""
        n_earlier = len(self.stages) if stage is None else stage
        return range({"all": 0, "last": max(n_earlier - 1, 0), "none": n_earlier}[self.history], n_earlier)

    def prompt_of(self, stage: int | None, values: Mapping[str, str], outputs: Sequence[str]) -> Prompt:
        """Return one call.

        Parameters
        ----------
        stage
            Place of the stage; None for the call that asks the audit's question.
        values
            What :func:`strategy_values` returns.
        outputs
            The texts of all earlier stages, in order.
        """
        filled = dict(values)
        users = []
        for earlier, output in zip(self.stages, outputs, strict=False):
            users.append(earlier.prompt.format(**filled))
            filled[STAGE + earlier.name] = output
        turns = tuple(turn for k in self.seen(stage) for turn in (("user", users[k]), ("assistant", outputs[k])))
        system = (self.system if stage is None else self.stage_system).format(**values)
        user = (self.question if stage is None else self.stages[stage].prompt).format(**filled)
        return Prompt(system=system if values["persona"] else system.strip(), user=user, turns=turns)


def strategy_values(grid: PromptGrid, cell: PromptCell) -> dict[str, str]:
    """Return what stands for each placeholder of a strategy: the variant's values and its own two messages."""
    values = grid.variant.values(cell.perceiver, cell.experiencer, cell.narrative)
    prompt = grid.variant.filled(values)
    return {**values, "system": prompt.system, "question": prompt.user}


def check_strategy(strategy: Strategy, grid: PromptGrid) -> None:
    """Refuse a strategy whose templates show what the stimuli do not have.

    Raises
    ------
    StimulusError
        If an emotion word is missing, ``{Narrative}`` can not be formed, or ``{perceiver}`` would name nobody.
    """
    where = f"strategy {strategy.name} shows"
    for kind in ("noun", "adjective"):
        for narrative in grid.narratives.narratives if f"emotion_{kind}" in strategy.needs else ():
            if not getattr(narrative.words, kind):
                raise StimulusError(
                    f"{where} {{emotion_{kind}}}, but the emotion {narrative.emotion!r} has no {kind}; "
                    f"set stimuli.columns.emotion_{kind}, or use {{emotion}}"
                )
    if "Narrative" in strategy.needs and "Narrative" not in placeholders(grid.variant.user, VALUE_NAMES, place=""):
        raise StimulusError(
            f"{where} {{Narrative}}, which prompt {grid.variant.name} does not; use {{narrative}}, or prompt=named"
        )
    if "perceiver" in strategy.needs and any(p.group == NO_PERSONA for d in grid.dimensions for p in d.perceivers):
        raise StimulusError(
            f"{where} {{perceiver}}, but with stimuli.no_persona=true there is a prompt without one; use {{persona}}"
        )
