"""Prompt variants, and the grid that crosses perceivers, experiencers and narratives, one prompt at a time.

The grid is a sequence: prompt ``i`` is computed from ``i``, so 37 million prompts take no more memory than one. Its
order (dimension, wording, perceiver, experiencer, then narratives by emotion) puts prompts that begin alike next to
each other.
"""

from __future__ import annotations

import ast
import string
import warnings
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Final, Self, overload

import numpy as np

from stimuli.errors import StimulusError, suggest
from stimuli.hashes import fingerprint
from stimuli.identities import CASES, EARLIER_TURN, NO_PERSONA, Dimension, Identity
from stimuli.narratives import WORDINGS, Narrative, Narratives
from stimuli.pairs import Mask, is_drawn
from stimuli.person import PLACE
from stimuli.words import capital
from stimuli.yaml_files import may_be_file, read_text, read_verbatim

_PERSONA_FIELDS: Final = frozenset({"perceiver"})
SCALE_FIELDS: Final = frozenset({"low", "high", "low_label", "high_label"})
_EMOTION_FIELDS: Final = frozenset({"emotion", "emotion_noun", "emotion_adjective"})
_SYSTEM_FIELDS: Final = SCALE_FIELDS | _EMOTION_FIELDS | {"persona"}
_USER_FIELDS: Final = SCALE_FIELDS | _EMOTION_FIELDS | {"experiencer", "Experiencer", "narrative", "Narrative"}
VALUE_NAMES: Final = _PERSONA_FIELDS | _SYSTEM_FIELDS | _USER_FIELDS
"""What :meth:`PromptVariant.values` holds; without a scale, not the scale's."""
_IN_CASES: Final = {f"{side}_{case}": side for side in ("perceiver", "experiencer") for case in CASES}
"""Placeholders of language packs: an identity in another grammatical form, and the placeholder that it stands for."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The ends of the rating scale, in points, and what each end is called."""

    low: int
    high: int
    low_label: str = "not at all"
    high_label: str = "extremely"

    def __post_init__(self) -> None:
        """Raise StimulusError unless the ends are whole numbers from 0 up, the lower first."""
        if not 0 <= self.low < self.high <= 1000:
            raise StimulusError(
                f"scale: low={self.low} and high={self.high} must be whole numbers, 0 <= low < high <= 1000"
            )


@dataclass(frozen=True, slots=True)
class Question:
    """Whose emotion a rating is asked of, in the prompt's own words: an answer may repeat them."""

    experiencer: str  # the person in the narrative
    emotions: tuple[str, ...]  # the emotion's noun and adjective, those that there are
    perceiver: str = ""  # who the model is to be; empty where it has no persona
    ends: tuple[int, int] = (0, 100)  # of the rating scale

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Self:
        """Return whose emotion a prompt with these placeholders asks about."""
        words = (values["emotion_noun"], values["emotion_adjective"])
        ends = int(values["low"]), int(values["high"])
        return cls(values["experiencer"], tuple(filter(None, words)), values.get("perceiver", ""), ends)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked: a system and a user message, either of which may be empty of identity."""

    system: str  # may be empty
    user: str  # the last message, which the model answers
    turns: tuple[tuple[str, str], ...] = ()  # what was said between the two: role (user or assistant) and text
    begun: str = ""  # what the model is made to begin its answer with
    question: Question | None = None  # whose emotion is asked about; no part of what the model reads
    thinks: bool = False  # whether the model writes its thought now, and not yet its answer
    thought: str | None = None  # what it has thought before its answer; None where it has not
    # Whom it asks about, for a scripted respondent. The model does not read it, and equal texts stay equal prompts.
    cell: PromptCell | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PromptVariant:
    """A way of asking: templates, the narrative's wording and, where a rating is asked for, the scale.

    Examples
    --------
    >>> from stimuli.identities import load_dimensions
    >>> from stimuli.narratives import EmotionWords, Narrative
    >>> asked = PromptVariant(
    ...     name="mine",
    ...     persona="You are {perceiver}.",
    ...     system="{persona} Answer with a number from {low} to {high}.",
    ...     user="{Experiencer} says: {narrative} How much {emotion_noun} did they feel?",
    ...     narrative="first_person",
    ...     scale=Scale(0, 10),
    ... )
    >>> lost = Narrative("lost-1", "sad", EmotionWords("sadness", "sad"), "", "I lost my dog.", "")
    >>> [religion] = load_dimensions("geneva", names=["religion"], perceiver_terms=1, experiencer_terms=1)
    >>> prompt = asked.fill(religion.perceivers[0], religion.experiencers[1], lost)
    >>> prompt.system
    'You are a Buddhist. Answer with a number from 0 to 10.'
    >>> prompt.user
    'A Christian says: I lost my dog. How much sadness did they feel?'
    """

    name: str  # e.g. persona-1; the value of the column `variant`
    persona: str  # the sentence that gives the model its identity, with {perceiver}; left out where there is no persona
    system: str  # with {persona}, and the scale's and emotion's placeholders
    # With {experiencer} (or {Experiencer} to begin a sentence) and {narrative} ({Narrative} has the experiencer in
    # place of a leading "The person", unless the text says where they stand).
    user: str
    narrative: str  # which wording of the narratives is shown
    # None where no rating of an emotion is asked for: templates then need not name the emotion, and cannot show a scale
    scale: Scale | None

    def __post_init__(self) -> None:
        """Raise StimulusError if a template cannot be filled, or would not say who feels, what and how much."""
        self._check_narrative_wording()
        unscaled = SCALE_FIELDS if self.scale is None else frozenset[str]()
        persona = in_any_case(self.persona, _PERSONA_FIELDS, place=f"prompt {self.name}: persona")
        system = placeholders(self.system, _SYSTEM_FIELDS - unscaled, place=f"prompt {self.name}: system")
        user = in_any_case(self.user, _USER_FIELDS - unscaled, place=f"prompt {self.name}: user")
        self._need(
            (("perceiver",), "persona", persona),
            (("persona",), "system", system),
            (("narrative", "Narrative"), "user", user),
            (("experiencer", "Experiencer", "Narrative"), "user", user),
            *([(tuple(sorted(_EMOTION_FIELDS)), "system or user", system | user)] if self.scale else []),
        )
        if "Narrative" in user and self.narrative != "third_person":
            raise StimulusError(f"prompt {self.name}: {{Narrative}} needs narrative: third_person")

    def _check_narrative_wording(self) -> None:
        if self.narrative not in WORDINGS:
            raise StimulusError(
                f"prompt {self.name}: narrative={self.narrative!r} is not a wording; "
                f"{suggest(self.narrative, WORDINGS)}"
            )

    def _need(self, *shown: tuple[Sequence[str], str, Collection[str]]) -> None:
        """Refuse a template that shows none of the placeholders that it needs: these, where, and those found there."""
        for needed, where, found in shown:
            if not set(found) & set(needed):
                choice = " or ".join(f"{{{name}}}" for name in needed)
                remedy = "; an assistant's own system prompt goes with prompt=deployed" if where == "system" else ""
                raise StimulusError(f"prompt {self.name}: {where} lacks the placeholder {choice}{remedy}")

    @property
    def emotion_fields(self) -> frozenset[str]:
        """Which of the emotion's placeholders the templates use."""
        return (_placeholders(self.system) | _placeholders(self.user)) & _EMOTION_FIELDS

    @property
    def cases(self) -> dict[str, frozenset[str]]:
        """The grammatical forms, beside the one that names it, in which the templates show each side's identity."""
        shown = {name for text in (self.persona, self.user) for _, name, _, _ in string.Formatter().parse(text) if name}
        return {
            side: frozenset(name.removeprefix(f"{side}_") for name in shown if _IN_CASES.get(name) == side)
            for side in ("perceiver", "experiencer")
        }

    @property
    def sha256(self) -> str:
        """Of everything that the variant puts into prompts."""
        return fingerprint(asdict(self))

    def reworded(self, number: int, **templates: str) -> PromptVariant:
        """Return the variant in another wording (its number from 1) of some of its templates.

        Each of ``persona``, ``system`` and ``user`` shows what the original shows, in other words; the experiencer may
        begin a sentence or not. StimulusError if it does not show the same placeholders.
        """

        def of(template: str, place: str) -> set[str]:
            return {name.replace("Exp", "exp") for name in placeholders(template, VALUE_NAMES, place=place)}

        for part, template in templates.items():
            place = f"prompt {self.name}: paraphrase {number} of {part}"
            shown, original = of(template, place), of(getattr(self, part), f"prompt {self.name}: {part}")
            for name in sorted(original - shown):
                raise StimulusError(f"{place} lacks the placeholder {{{name}}}, which the original shows")
            for name in sorted(shown - original):
                raise StimulusError(f"{place} shows {{{name}}}, which the original does not")
        persona, system, user = (templates.get(part, getattr(self, part)) for part in ("persona", "system", "user"))
        return replace(self, persona=persona, system=system, user=user)

    def values(self, perceiver: Identity, experiencer: Identity, narrative: Narrative) -> dict[str, str]:
        """Return what stands for each placeholder; ``persona`` is empty where the model is given no identity."""
        text = narrative.wording(self.narrative, experiencer=experiencer.term)
        has_own = PLACE.search(getattr(narrative, self.narrative)) is not None
        return {
            "perceiver": perceiver.term,
            "persona": "" if perceiver.group == NO_PERSONA else self._persona(perceiver),
            **({} if self.scale is None else _shown(self.scale)),
            "emotion": narrative.emotion,
            "emotion_noun": narrative.words.noun,
            "emotion_adjective": narrative.words.adjective,
            "experiencer": experiencer.term,
            "Experiencer": capital(experiencer.term),
            "narrative": text,
            "Narrative": text if has_own else capital(experiencer.term) + text.removeprefix(_THE_PERSON),
            **{f"experiencer_{case}": form for case, form in experiencer.forms},
        }

    def _persona(self, perceiver: Identity) -> str:
        forms = {f"perceiver_{case}": form for case, form in perceiver.forms}
        return self.persona.format(perceiver=perceiver.term, **forms)

    def fill(self, perceiver: Identity, experiencer: Identity, narrative: Narrative) -> Prompt:
        """Return the prompt for one perceiver, experiencer and narrative."""
        return continued(self.filled(self.values(perceiver, experiencer, narrative)), narrative)

    def filled(self, values: Mapping[str, str]) -> Prompt:
        """Return the prompt that these values make."""
        system = self.system.format(**values)
        return Prompt(system=system if values["persona"] else system.strip(), user=self.user.format(**values))


@dataclass(frozen=True, slots=True)
class DeployedVariant(PromptVariant):
    """A way of asking a model as it is deployed: no identity is given to it, and the user says who they are.

    ``persona`` is the deployer's own system prompt with its braces doubled, see :func:`as_template`, and may be empty.

    Examples
    --------
    >>> from stimuli.identities import load_dimensions
    >>> from stimuli.narratives import EmotionWords, Narrative
    >>> asked = DeployedVariant(
    ...     name="deployed",
    ...     persona=as_template("You are Lia, the {friendly} assistant."),
    ...     system="{persona}",
    ...     user="{disclosure} {narrative}",
    ...     narrative="neutral",
    ...     scale=None,
    ...     earlier_user="Hello! {disclosure}",
    ...     earlier_assistant="Hello! How can I help?",
    ... )
    >>> lost = Narrative("lost-1", "sad", EmotionWords("sadness", "sad"), "I lost my dog.", "", "")
    >>> [religion] = load_dimensions("geneva", names=["religion"], perceivers=False, disclosed=True)
    >>> prompt = asked.fill(religion.perceivers[0], religion.experiencers[0], lost)
    >>> prompt.system, prompt.user
    ('You are Lia, the {friendly} assistant.', 'I am a Buddhist. I lost my dog.')
    """

    earlier_user: str  # what the user says in an earlier turn, with {disclosure}: of identities that are told there
    earlier_assistant: str  # what the model is shown to have answered

    def __post_init__(self) -> None:
        """Raise StimulusError if a template cannot be filled, or would not say who the user is and what happened."""
        self._check_narrative_wording()
        unscaled = SCALE_FIELDS if self.scale is None else frozenset[str]()
        known = (_EMOTION_FIELDS | SCALE_FIELDS | {"disclosure", "narrative"}) - unscaled
        user = placeholders(self.user, known, place=f"prompt {self.name}: the user's message")
        earlier = placeholders(self.earlier_user, {"disclosure"}, place=f"prompt {self.name}: earlier.user")
        placeholders(self.earlier_assistant, (), place=f"prompt {self.name}: earlier.assistant")
        self._need(
            (("disclosure",), "message", user),
            (("narrative",), "message", user),
            (("disclosure",), "earlier.user", earlier),
            *([(tuple(sorted(_EMOTION_FIELDS)), "question", user)] if self.scale else []),
        )

    def values(self, perceiver: Identity, experiencer: Identity, narrative: Narrative) -> dict[str, str]:
        """Return what stands for each placeholder; ``persona`` is the system prompt, and the earlier turn is filled."""
        earlier = experiencer.cue == EARLIER_TURN
        return {
            **PromptVariant.values(self, perceiver, experiencer, narrative),
            "persona": self.persona.format(),
            "disclosure": "" if earlier else experiencer.said,
            "earlier_user": self.earlier_user.format(disclosure=experiencer.said) if earlier else "",
            "earlier_assistant": self.earlier_assistant.format() if earlier else "",
        }

    def filled(self, values: Mapping[str, str]) -> Prompt:
        """Return the prompt that these values make: the system prompt as it is."""
        user, told = self.user.format(**values), values["earlier_user"]
        turns = (("user", told), ("assistant", values["earlier_assistant"])) if told else ()
        return Prompt(values["persona"], user if values["disclosure"] else user.lstrip(), turns)


def continued(prompt: Prompt, narrative: Narrative) -> Prompt:
    """Return the prompt with what was answered and said after the narrative, if that is to be shown as turns."""
    if not narrative.answered:
        return prompt
    said = (prompt.user, *narrative.later)
    turns = tuple(
        turn
        for text, answer in zip(said[:-1], narrative.answered, strict=True)
        for turn in (("user", text), ("assistant", answer))
    )
    return replace(prompt, turns=prompt.turns + turns, user=said[-1])


def with_turns(prompt: Prompt) -> dict[str, str]:
    """Return a prompt's messages as values of a strategy, which :func:`earlier_turns` reads."""
    turns = {f"earlier_{place}": text for place, (_, text) in enumerate(prompt.turns)}
    return {"system": prompt.system, "question": prompt.user, **turns}


def earlier_turns(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the turns before a prompt's question, of the user and the assistant in turn, by its values."""
    turns: list[tuple[str, str]] = []
    while (text := values.get(f"earlier_{len(turns)}")) is not None:
        turns.append((("user", "assistant")[len(turns) % 2], text))
    return tuple(turns)


def as_template(text: str) -> str:
    """Return the template that is filled to this text, whatever it holds."""
    return text.replace("{", "{{").replace("}", "}}")


def read_system_prompt(path: Path | None) -> str:
    """Return the text of a deployer's system prompt, to the byte; empty if there is no file."""
    if path is None:
        return ""
    if not may_be_file(path):
        raise StimulusError(
            f"prompt.system={path} is not a file; give the file with your assistant's system prompt, or leave it out"
        )
    text = read_verbatim(path)
    if not text.strip():
        raise StimulusError(f"prompt.system={path} is empty; to ask without a system prompt, leave it out")
    return text


@lru_cache
def _shown(scale: Scale) -> dict[str, str]:
    return {key: str(value) for key, value in asdict(scale).items()}


_THE_PERSON: Final = "The person"


def placeholders(template: str, known: Collection[str], *, place: str) -> set[str]:
    """Return the placeholders of a template; StimulusError, which names the place, if one is not ``known``.

    Examples
    --------
    >>> sorted(placeholders("{experiencer} says: {narrative}", {"experiencer", "narrative"}, place="mine"))
    ['experiencer', 'narrative']
    >>> placeholders("{narative}", {"narrative"}, place="mine")
    Traceback (most recent call last):
    stimuli.errors.StimulusError: mine: unknown placeholder {narative}; did you mean 'narrative'? there are: narrative
    """
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise StimulusError(f"{place}: {error}; write {{{{ and }}}} for braces") from error
    found: set[str] = set()
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if name not in known or spec or conversion:
            shown = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise StimulusError(f"{place}: unknown placeholder {{{shown}}}; {suggest(name, known)}")
        found.add(name)
    return found


def in_any_case(template: str, known: Collection[str], *, place: str) -> set[str]:
    """Return the placeholders of a template, where an identity in another grammatical form counts as the identity.

    Examples
    --------
    >>> in_any_case("Du spielst die Rolle {perceiver_genitive}.", {"perceiver"}, place="mine")
    {'perceiver'}
    """
    cased = {name for name, side in _IN_CASES.items() if side in known}
    try:
        found = placeholders(template, {*known, *cased}, place=place)
    except StimulusError:
        found = placeholders(template, known, place=place)  # its message names what most templates may show
    return {_IN_CASES.get(name, name) for name in found}


# --- The study's own wording, from the user's copy of its repository -------------------------------------------------

PUBLISHED_VARIANTS: Final = ("origin", "persona-1", "persona-2", "persona-3", "1-person", "3-person", "10-scale")


def read_published_variant(variant: str, path: Path) -> PromptVariant:
    """Return a prompt variant in the exact wording of Hou et al. (2025), read from the user's copy of ``const.py``.

    The file is parsed to its syntax tree and never run.
    """
    if variant not in PUBLISHED_VARIANTS:
        raise StimulusError(f"prompt.variant={variant!r}: {suggest(variant, PUBLISHED_VARIANTS)}")
    strings = _module_strings(path)

    def wording(name: str, fields: Mapping[str, str]) -> str:
        if name not in strings:
            raise StimulusError(
                f"{path}: has no module-level string {name!r}, which variant {variant} needs; {suggest(name, strings)}"
            )
        placeholders(strings[name], frozenset(fields), place=f"{path}: {name}")
        return "".join(
            as_template(literal) + (f"{{{fields[field]}}}" if field is not None else "")
            for literal, field, _, _ in string.Formatter().parse(strings[name])
        )

    number = variant.removeprefix("persona-") if variant.startswith("persona-") else "0"
    suffix = {"1-person": "_1_person", "3-person": "_3_person"}.get(variant, "")
    ten = variant == "10-scale"
    return PromptVariant(
        name=f"published-{variant}",
        persona=wording(f"persona_prompt_{number}", {"persona": "perceiver"}),
        system=wording("system_prompt_1" if ten else "system_prompt_0", {"persona_prompt": "persona"}),
        user=wording(
            f"crowd_enVent_user_input{suffix}",
            {"experiencer": "experiencer", "sent": "narrative", "emotion": "emotion_noun"},
        ),
        narrative={"_1_person": "first_person", "_3_person": "third_person"}.get(suffix, "neutral"),
        scale=Scale(0, 10 if ten else 100),
    )


def _module_strings(path: Path) -> dict[str, str]:
    if not may_be_file(path):
        raise StimulusError(f"prompt.path={path} is not a file; give const.py from the study's repository")
    text = read_text(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in a file that is not ours
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise StimulusError(f"{path}: is not Python ({error})") from error
    found: dict[str, str] = {}
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            continue
        value = None if isinstance(node, ast.AugAssign) else _string(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if not isinstance(target, ast.Name):
                continue
            # What is later changed in a way that cannot be read must not be taken for the wording.
            if value is None:
                found.pop(target.id, None)
            else:
                found[target.id] = value
    return found


def _string(node: ast.expr | None) -> str | None:
    """Return the value of a string literal, or of several joined by ``+``; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _string(node.left), _string(node.right)
        return left + right if left is not None and right is not None else None
    return None


# --- Crossing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PromptCell:
    """One place of the grid: whose prompt it is, and in which wording; 0 is the original."""

    index: int
    dimension: Dimension
    perceiver: Identity
    experiencer: Identity
    narrative: Narrative
    wording: int = 0
    is_wrong: bool = False  # whether the narrative's emotion is one that it does not tell of: see stimuli.manipulation


class PromptGrid(Sequence[PromptCell]):
    """The perceivers with experiencers, narratives and wordings of every dimension, computed on demand.

    Wordings vary slowest within a dimension: a wording's system message is what its prompts begin with. Then vary
    perceivers, experiencers, and fastest narratives, an emotion's together. Number 0 of the wordings is the ``variant``
    itself, the others are ``paraphrases``. ``drawn`` has, by dimension, which pairs each narrative is asked about,
    shape (P, E, N); all of a dimension that is not named. StimulusError if a narrative lacks the wording or the emotion
    word that a template shows.

    Examples
    --------
    >>> from stimuli.identities import load_dimensions
    >>> from stimuli.narratives import load_narratives
    >>> asked = PromptVariant(
    ...     name="mine",
    ...     persona="You are {perceiver}.",
    ...     system="{persona}",
    ...     user="{Experiencer} says: {narrative} How {emotion} were they, from {low} to {high}?",
    ...     narrative="first_person",
    ...     scale=Scale(0, 10),
    ... )
    >>> religions = load_dimensions("geneva", names=["religion"], perceiver_terms=1, experiencer_terms=1)
    >>> sad = load_narratives("geneva", emotions=["sad"], situations_per_emotion=2)
    >>> grid = PromptGrid(religions, sad, asked)
    >>> len(religions[0].perceivers), len(religions[0].experiencers), grid.n_pairs, len(grid)
    (5, 5, 25, 50)
    >>> grid[0].perceiver.term, grid[0].experiencer.term, grid.prompt(grid[0]).system
    ('a Buddhist', 'a Buddhist', 'You are a Buddhist.')
    """

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        narratives: Narratives,
        variant: PromptVariant,
        paraphrases: Sequence[PromptVariant] = (),
        drawn: Mapping[str, Mask] | None = None,
    ) -> None:
        self.dimensions = tuple(dimensions)
        self.drawn = dict(drawn or {})
        self.variant = variant
        self.wordings = (variant, *paraphrases)
        self.narratives = narratives
        for wording in self.wordings:
            self._check(wording)
        self._by_emotion = narratives.by_emotion
        for d in self.dimensions:
            shape = len(d.perceivers), len(d.experiencers), len(self._by_emotion)
            if d.name in self.drawn and self.drawn[d.name].shape != shape:
                raise ValueError(f"{d.name}: {self.drawn[d.name].shape} pairs are sampled from {shape}")
        # places of a drawn dimension's prompts among all pairs and narratives
        self._places = {name: np.flatnonzero(mask) for name, mask in self.drawn.items()}
        self._sizes = [self._n_asked(d) * len(self.wordings) for d in self.dimensions]
        self._ends = list(accumulate(self._sizes))

    def _n_asked(self, dimension: Dimension) -> int:
        """How many prompts a dimension has in one wording."""
        if dimension.name in self._places:
            return len(self._places[dimension.name])
        return len(dimension.perceivers) * len(dimension.experiencers) * len(self._by_emotion)

    def _check(self, variant: PromptVariant) -> None:
        """Refuse narratives that lack what a variant shows."""
        narratives = self.narratives
        narratives.check_wording(variant.narrative, asked_by=f"prompt {variant.name}")
        for narrative in narratives.narratives:
            _check_narrative(narrative, variant)
        for side, cases in variant.cases.items():
            for dimension in self.dimensions:
                for identity in dimension.perceivers if side == "perceiver" else dimension.experiencers:
                    lacking = cases - {case for case, _ in identity.forms}
                    if lacking and identity.group != NO_PERSONA:
                        raise StimulusError(
                            f"prompt {variant.name} shows {{{side}_{min(lacking)}}}, but {identity.term!r} has no "
                            f"{min(lacking)}; such forms come from a language pack: see docs/languages.md"
                        )

    def can_show(self, narrative: Narrative) -> bool:
        """Whether a prompt can be made of a narrative that need not be the grid's."""
        try:
            _check_narrative(narrative, self.variant)
        except StimulusError:
            return False
        return bool(narrative.wording(self.variant.narrative))

    def __len__(self) -> int:
        """Return the number of prompts."""
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> PromptCell: ...
    @overload
    def __getitem__(self, index: slice) -> list[PromptCell]: ...
    def __getitem__(self, index: int | slice) -> PromptCell | list[PromptCell]:
        """Return the cell at a place, or the cells of a slice."""
        if isinstance(index, slice):
            return [self._cell(i) for i in range(*index.indices(len(self)))]
        n_prompts = len(self)
        if not -n_prompts <= index < n_prompts:
            raise IndexError(f"prompt {index} of {n_prompts}")
        return self._cell(index % n_prompts)

    def _cell(self, index: int) -> PromptCell:
        k = bisect_right(self._ends, index)
        dimension = self.dimensions[k]
        wording, place = divmod(index - (self._ends[k] - self._sizes[k]), self._n_asked(dimension))
        if dimension.name in self._places:
            place = int(self._places[dimension.name][place])
        pair, n = divmod(place, len(self._by_emotion))
        p, e = divmod(pair, len(dimension.experiencers))
        perceiver, experiencer = dimension.perceivers[p], dimension.experiencers[e]
        return PromptCell(index, dimension, perceiver, experiencer, self._by_emotion[n], wording)

    def prompt(self, cell: PromptCell) -> Prompt:
        """Return the text of one place of the grid."""
        return self.wordings[cell.wording].fill(cell.perceiver, cell.experiencer, cell.narrative)

    @property
    def sampled(self) -> tuple[str, ...]:
        """The dimensions of which some narrative is asked about some pairs only."""
        return tuple(name for name, mask in self.drawn.items() if is_drawn(mask))

    @property
    def own_stories(self) -> bool:
        """Whether each narrative is the story of one experiencer; see :func:`stimuli.fitting.own_stories`."""
        return any(each.identity for each in self.narratives.narratives)

    def n_sets(self, dimension: str) -> int:
        """How many sets of own stories, one of each experiencer, a gap of the dimension is the mean of."""
        return int(self.drawn[dimension].any(axis=0).sum(axis=1).max())

    @property
    def left_out(self) -> dict[str, tuple[str, ...]]:
        """By dimension, the narratives that it does not ask about; see :mod:`stimuli.fitting`."""
        found = {name: np.flatnonzero(~mask.any(axis=(0, 1))) for name, mask in self.drawn.items()}
        return {
            name: tuple(self._by_emotion[place].narrative_id for place in places)
            for name, places in found.items()
            if len(places)
        }

    @property
    def n_pairs(self) -> int:
        """How many pairs of identities are crossed, over all dimensions."""
        return sum(len(d.perceivers) * len(d.experiencers) for d in self.dimensions)


def _check_narrative(narrative: Narrative, variant: PromptVariant) -> None:
    """Refuse a narrative that lacks what a variant puts into prompts beside its text."""
    for shown in sorted(variant.emotion_fields - {"emotion"}):  # the same one is named in every process
        kind = shown.removeprefix("emotion_")
        if not getattr(narrative.words, kind):
            raise StimulusError(
                f"prompt {variant.name} shows {{{shown}}}, but the emotion {narrative.emotion!r} has no "
                f"{kind}; set stimuli.columns.{shown}, or use a prompt with {{emotion}}"
            )
    told = narrative.third_person
    if "Narrative" in _placeholders(variant.user) and not (PLACE.search(told) or told.startswith(f"{_THE_PERSON} ")):
        raise StimulusError(
            f"prompt {variant.name} puts the experiencer in place of {_THE_PERSON!r}, with which the third_person "
            f"text of {narrative.narrative_id!r} does not begin; begin it that way, write {{experiencer}} for the "
            "person, or choose another prompt"
        )


@lru_cache(maxsize=64)
def _placeholders(template: str) -> frozenset[str]:
    """Return the names that a template shows."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name)
