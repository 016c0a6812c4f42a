"""Strategies: ways of leading a model to empathise before it answers the audit's question.

A strategy is data: model calls (*stages*) that come before the question, the history that each call sees, examples that
are shown before any of them, knowledge that templates may use, and where the question comes in. What the stages wrote,
examples and knowledge are inserted by one pass of ``str.format``: braces in them are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from stimuli.errors import StimulusError
from stimuli.hashes import fingerprint
from stimuli.identities import NO_PERSONA
from stimuli.narratives import LATER_TURNS
from stimuli.prompts import (
    SCALE_FIELDS,
    VALUE_NAMES,
    DeployedVariant,
    Prompt,
    PromptCell,
    PromptGrid,
    continued,
    earlier_turns,
    placeholders,
    with_turns,
)

MAX_STAGES: Final = 16
THOUGHT: Final = "thought"  # what a model thinks before its answer, where it is asked to: kept as what stages write is
CLOSING: Final = 16  # tokens kept free for the marks that close a thought, and what is tokenised otherwise there
NO_STRATEGY: Final = "none"  # the name of the strategy that leaves the prompts as they are, and of no other
STAGE: Final = "stage_"  # before a stage's name, the placeholder of what it wrote: `{stage_imagine}`
KNOWLEDGE: Final = "knowledge_"
"""Before a relation's name, the placeholder of what is known of the narrative: ``{knowledge_xIntent}``."""
EXAMPLE_PARTS: Final = ("text", "answer", "emotion")  # what an example has; `{example_text}` in its templates
EXAMPLES: Final = "examples"  # the placeholder of all examples in a system message, where they are no turns then
MAX_EXAMPLES: Final = 32

_NAME: Final = r"[A-Za-z][A-Za-z0-9_]*"
_IS_A_NAME: Final = "a name is a letter, then letters, digits and underscores"
_ASKED: Final = VALUE_NAMES | {"system", "question"}
_EMOTION: Final = ("emotion", "emotion_noun", "emotion_adjective")
_RATING: Final = (
    ("narrative", "Narrative"),
    ("experiencer", "Experiencer", "Narrative"),
    _EMOTION,
    ("low",),
    ("high",),
)
"""What a question of one's own must show: one of each."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A model call before the question."""

    name: str  # letters, digits and _; its text is {stage_NAME} in later templates
    prompt: str  # template of its user message
    max_tokens: int  # it may write; a longer text is cut there
    temperature: float  # 0 takes the most probable token each time
    top_p: float  # tokens are drawn from the most probable ones that have this probability together


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples that are shown as turns before the first call, or in the last call's system message: few-shot."""

    n: int  # how many
    # random, or the most similar ones; either way chosen for the narrative, whoever is asked about it
    choice: Literal["random", "similar"]
    user: str  # template of an example's user message, with {example_text}
    assistant: str  # template of what the model is shown to have answered, with {example_answer}

    def turns(self, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield role and text of each turn; ``values`` has the examples' parts by :func:`example_name`."""
        for place in range(self.n):
            own = {f"example_{part}": values[example_name(part, place)] for part in EXAMPLE_PARTS}
            own["example_number"] = str(place + 1)
            yield "user", self.user.format(**values, **own)
            yield "assistant", self.assistant.format(**values, **own)


def example_name(part: str, place: int) -> str:
    """Return by what name the values of a prompt hold a part of the example at a place."""
    return f"example_{place}_{part}"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way of leading a model to its answer."""

    name: str  # e.g. ecn
    source: str = ""  # where it comes from, in one line
    deviates: str = ""  # what is ours or unknown, in one line
    stages: tuple[Stage, ...] = ()  # the calls before the question, in order; may be none
    stage_system: str = "{persona}"  # template of the stages' system message
    system: str = "{system}"  # template of the system message of the call that asks for the rating
    question: str = "{question}"  # template of that call's user message
    history: Literal["all", "last", "none"] = "all"  # which earlier calls a call sees as turns
    # What happens where a call does not fit into the model's context: examples and earlier calls are left out, the
    # `oldest` first, until it fits, or that prompt has to `fail`.
    overrun: Literal["oldest", "fail"] = "oldest"
    examples: Examples | None = None  # what every call sees before all else
    relations: tuple[str, ...] = ()  # what is known of each narrative: placeholders without knowledge_
    # Where a stage writes the reply that is asked for: how it does, with `question` for its prompt and `system` for its
    # system message. None asks for the reply, or for a rating, by the prompt's own question.
    reply: Stage | None = None
    # Whether the calls are the turns of a talk with the person of the narrative: what each writes is a reply.
    is_talk: bool = False

    def __post_init__(self) -> None:
        """Raise StimulusError if a template cannot be filled, a stage is for nothing, or nobody is the perceiver."""
        where = f"strategy {self.name}"
        asks_more = self.stages or self.examples or (self.system, self.question) != ("{system}", "{question}")
        if self.name == NO_STRATEGY and asks_more:
            raise StimulusError(f"{where}: changes what is asked; give it its own name, strategy.name=NAME")
        names = [stage.name for stage in self.stages]
        if len(names) > MAX_STAGES:
            raise StimulusError(f"{where}: {len(names)} stages are too many; use at most {MAX_STAGES}")
        for place, stage in enumerate(self.stages):
            if not re.fullmatch(_NAME, stage.name):
                raise StimulusError(f"{where}: stage {stage.name!r}: {_IS_A_NAME}")
            if stage.name in names[:place]:
                raise StimulusError(f"{where}: two stages are called {stage.name!r}; rename one")
            if not stage.prompt.strip():
                raise StimulusError(f"{where}: stages.{stage.name}.prompt is empty; write what the model is asked")
            self._check(stage.prompt, f"{where}: stages.{stage.name}.prompt", names, names[:place])
        for key in ("stage_system", "system"):
            known = _ASKED | {EXAMPLES} if key == "system" and self.examples is not None else _ASKED
            found = placeholders(getattr(self, key), known, place=f"{where}: {key}")
            if not found & {"persona", "system"}:
                raise StimulusError(
                    f"{where}: {key} lacks {{persona}} or {{system}}, so the model would not know who it is"
                )
        if self.examples is not None:
            _check_examples(self.examples, where)
        asked = self._check(self.question, f"{where}: question", names, names)
        if "question" not in asked and self.reply is None:
            for needed in _RATING:
                if not asked & set(needed):
                    choice = " or ".join(f"{{{name}}}" for name in needed)
                    raise StimulusError(
                        f"{where}: question lacks {{question}}, the prompt's own, and does not ask for a rating "
                        f"either: it has no {choice}"
                    )
        reaching = self._reaching()
        if unseen := next((name for place, name in enumerate(names) if place not in reaching), None):
            raise StimulusError(
                f"{where}: no later call sees stages.{unseen}, so it would have no effect: show it, "
                f"{{{STAGE}{unseen}}}, give more history, or leave it out, stages.{unseen}=null"
            )
        for relation in self.relations:
            if not re.fullmatch(_NAME, relation):
                raise StimulusError(f"{where}: knowledge.relations: {relation!r}: {_IS_A_NAME}")
            if not any(f"{{{KNOWLEDGE}{relation}}}" in template for template in self._templates):
                raise StimulusError(
                    f"{where}: no template shows {{{KNOWLEDGE}{relation}}}; leave {relation} out of knowledge.relations"
                )

    @property
    def _templates(self) -> list[str]:
        """What may show a placeholder, but for the examples."""
        stages = [self.stage_system, *(stage.prompt for stage in self.stages)] if self.stages else []
        return [self.system, self.question, *stages]

    def _reaching(self) -> set[int]:
        """Return the places of the stages that the question sees: as turns, in its text, or through later ones."""
        reaching: set[int] = set()
        for place in (None, *reversed(range(len(self.stages)))):
            if place is None or place in reaching:
                template = self.question if place is None else self.stages[place].prompt
                shown = (at for at, each in enumerate(self.stages) if f"{{{STAGE}{each.name}}}" in template)
                reaching.update(self.seen(place), shown)
        return reaching

    @property
    def _known(self) -> frozenset[str]:
        """The placeholders that need no stage."""
        later = LATER_TURNS if self.is_talk else ()
        return _ASKED | {KNOWLEDGE + relation for relation in self.relations} | {*later}

    def _check(self, template: str, place: str, stages: Sequence[str], earlier: Sequence[str]) -> set[str]:
        """Return a template's placeholders; StimulusError for an unknown one, or a stage that is not written yet."""
        used = placeholders(template, self._known | {STAGE + name for name in stages}, place=place)
        known = self._known | {STAGE + name for name in earlier}
        for name in sorted(used - known):
            before = f"those before it are {', '.join(earlier)}" if earlier else "there is none before it"
            raise StimulusError(
                f"{place}: {{{name}}} does not exist yet at this stage; a stage can only use earlier ones, and {before}"
            )
        return used

    @property
    def n_turns(self) -> int:
        """How many replies a talk has; 1 if it is none."""
        return len(self.stages) + 1 if self.is_talk else 1

    @property
    def n_later(self) -> int:
        """How many of a narrative's later messages the strategy shows."""
        return max((place for place, name in enumerate(LATER_TURNS, start=1) if name in self.needs), default=0)

    @property
    def brings(self) -> bool:
        """Whether there are examples or knowledge to bring to each narrative."""
        return self.examples is not None or bool(self.relations)

    @property
    def needs(self) -> frozenset[str]:
        """Which of the values' placeholders the templates use, ``system`` and ``question`` among them."""
        known = self._known | {STAGE + stage.name for stage in self.stages} | {EXAMPLES}
        return _ASKED.union(LATER_TURNS) & placeholders("".join(self._templates), known, place=self.name)

    def tells_emotion(self, grid: PromptGrid) -> bool:
        """Say whether the model is told the narrative's emotion, by the strategy or by the prompt itself."""
        return not (self.needs | grid.variant.emotion_fields).isdisjoint(_EMOTION)

    @property
    def sha256(self) -> str:
        """Of everything that changes what the model is asked; where the strategy comes from does not."""
        content = asdict(self)
        del content["source"], content["deviates"]
        # A strategy without them is the one that it was before there were any.
        content = {
            key: value
            for key, value in content.items()
            if value or key not in ("examples", "relations", "reply", "is_talk")
        }
        return fingerprint(content)

    def seen(self, stage: int | None) -> range:
        """Return the places of the earlier calls that a call sees as turns; None is the call that asks the question."""
        n_earlier = len(self.stages) if stage is None else stage
        return range({"all": 0, "last": max(n_earlier - 1, 0), "none": n_earlier}[self.history], n_earlier)

    def example_turns(self, values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return role and text of the turns that show examples; none where the system message shows them."""
        if self.examples is None or f"{{{EXAMPLES}}}" in self.system:
            return ()
        return tuple(self.examples.turns(values))

    def said(self, values: Mapping[str, str]) -> list[str]:
        """Return what the person of a talk writes, message by message, without the words around the narrative."""
        later = (*(stage.prompt for stage in self.stages[1:]), self.question)
        return [values["narrative"], *(template.format(**values) for template in later)]

    def prompt_of(self, stage: int | None, values: Mapping[str, str], outputs: Sequence[str]) -> Prompt:
        """Return the call of a stage, or of the audit's question (None), after the texts of all earlier stages."""
        filled = dict(values)
        users = []
        for earlier, output in zip(self.stages, outputs, strict=False):
            users.append(earlier.prompt.format(**filled))
            filled[STAGE + earlier.name] = output
        said = tuple(turn for k in self.seen(stage) for turn in (("user", users[k]), ("assistant", outputs[k])))
        examples = "\n".join(text for _, text in self.examples.turns(values)) if self.examples is not None else ""
        system = (self.system if stage is None else self.stage_system).format(**values, **{EXAMPLES: examples})
        user = (self.question if stage is None else self.stages[stage].prompt).format(**filled)
        turns = self.example_turns(values) + earlier_turns(values) + said
        return Prompt(system=system if values["persona"] else system.strip(), user=user, turns=turns)


def _check_examples(examples: Examples, where: str) -> None:
    if not 1 <= examples.n <= MAX_EXAMPLES:
        raise StimulusError(
            f"{where}: examples.n={examples.n}: must be 1 to {MAX_EXAMPLES}; use examples=null for none"
        )
    known = SCALE_FIELDS | {f"example_{part}" for part in (*EXAMPLE_PARTS, "number")}
    for key, part in (("user", "text"), ("assistant", "answer")):
        place = f"{where}: examples.{key}"
        if f"example_{part}" not in placeholders(getattr(examples, key), known, place=place):
            raise StimulusError(f"{place} lacks {{example_{part}}}, so all examples would look alike")


def strategy_values(
    grid: PromptGrid, cell: PromptCell, given: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, str]:
    """Return what stands for each placeholder of a strategy: the variant's values and its own two messages.

    ``given`` has, by narrative, its knowledge by placeholder, and the parts of its examples by :func:`example_name`.
    """
    variant = grid.wordings[cell.wording]
    values = variant.values(cell.perceiver, cell.experiencer, cell.narrative)
    prompt = continued(variant.filled(values), cell.narrative)
    own = given[cell.narrative.narrative_id] if given else {}
    later = dict(zip(LATER_TURNS, cell.narrative.later, strict=False)) if not cell.narrative.answered else {}
    return {**values, **own, **later, **with_turns(prompt)}


def check_strategy(strategy: Strategy, grid: PromptGrid) -> None:
    """Refuse a strategy whose templates show what the stimuli do not have."""
    where = f"strategy {strategy.name} shows"
    if grid.variant.scale is None:
        if "question" not in strategy.needs and strategy.reply is None:
            raise StimulusError(f"strategy {strategy.name} asks for a rating, but this task has none")
        shown = strategy.examples.user + strategy.examples.assistant if strategy.examples is not None else ""
        for name in sorted(SCALE_FIELDS):
            if name in strategy.needs or f"{{{name}}}" in shown:
                raise StimulusError(f"{where} {{{name}}}, but this task has no rating scale")
    for narrative in grid.narratives.narratives:
        n_later = 0 if narrative.answered else len(narrative.later)
        if narrative.answered and (alone := sorted(strategy.needs & {"narrative", "Narrative"})):
            raise StimulusError(
                f"{where} {{{alone[0]}}}, which with stimuli.conversations.shown=turns is the first message alone; use "
                "stimuli.conversations.shown=lines, or a strategy that shows {question} alone"
            )
        if strategy.n_later > n_later:
            raise StimulusError(
                f"{where} {{{LATER_TURNS[n_later]}}}, but narrative {narrative.narrative_id!r} has "
                f"{n_later} later messages; name their columns, stimuli.columns.turns=[A,B], with a text "
                "in each row, or use strategy=talk, which has its own"
            )
    for kind in ("noun", "adjective"):
        for narrative in grid.narratives.narratives if f"emotion_{kind}" in strategy.needs else ():
            if not getattr(narrative.words, kind):
                raise StimulusError(
                    f"{where} {{emotion_{kind}}}, but the emotion {narrative.emotion!r} has no {kind}; "
                    f"set stimuli.columns.emotion_{kind}, or use {{emotion}}"
                )
    if isinstance(grid.variant, DeployedVariant):
        if "question" not in strategy.needs or (strategy.reply is not None and not strategy.is_talk):
            raise StimulusError(
                f"strategy {strategy.name} asks in its own words, without those in which the user says who they are; "
                f"with prompt {grid.variant.name} use strategy=none, or one whose question has {{question}}"
            )
        for name in sorted(strategy.needs & {"experiencer", "Experiencer", "Narrative"}):
            raise StimulusError(
                f"{where} {{{name}}}, but with prompt {grid.variant.name} the user says who they are; use "
                "strategy=none, or one that shows {question} alone"
            )
    elif "Narrative" in strategy.needs and "Narrative" not in placeholders(grid.variant.user, VALUE_NAMES, place=""):
        raise StimulusError(
            f"{where} {{Narrative}}, which prompt {grid.variant.name} does not; use {{narrative}}, or prompt=named"
        )
    if "perceiver" in strategy.needs and any(p.group == NO_PERSONA for d in grid.dimensions for p in d.perceivers):
        raise StimulusError(
            f"{where} {{perceiver}}, but with stimuli.no_persona=true some prompts have none; use {{persona}}"
        )
