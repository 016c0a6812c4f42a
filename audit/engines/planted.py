"""A scripted respondent with a stated truth: what its ratings and replies hold is set by ``model.planted``.

It knows from a prompt's cell whom and what it asks about, and reads neither the prompt's text nor anything of the
analysis. Its noise is drawn from the seed and the prompt alone, so that a run that is resumed has the same answers.

A rating, in points of 100, is 50, what its narrative adds, what is planted for the pair, and noise; it is rounded to
the prompt's scale and set to its end if it lies beyond. A reply has as many words as a rating would have points, and
names what its narrative is about, unless no response to the story is planted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle, islice
from statistics import NormalDist
from typing import Any, Final

from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.configuration.planted import MIDDLE, NARRATIVES_VARY, SIDES, PlantedConfig
from audit.engines.base import Done, EngineFacts, Generated, OpenModel, sampling_seeds, unwatched
from audit.errors import ModelError
from stimuli.identities import Identity
from stimuli.manipulation import leaning
from stimuli.prompts import Prompt, PromptCell
from stimuli.sentences import words

_VERSION: Final = "2"  # change it whenever an answer changes: a run goes on with equal answers only
_REFUSAL: Final = "I'm sorry, but I can't help with that."
_ASIDE: Final = "I think of what happened, and of who tells it."
"""What it writes where no rating or reply is asked for: the stages of a strategy."""
_REPLY: Final = (
    "Thank you for telling me {}. I can see why it stays with you, and I am glad that you did not keep it to "
    "yourself. Take the time that you need, and tell me more whenever you want to."
)
_NAMED: Final = 5  # words of its narrative that a reply names
_INTENSITIES: Final = {"mild": -0.5, "strong": 0.5}
"""How much of ``response`` a version of a situation adds."""


@dataclass(frozen=True)
class PlantedModel:
    """Where a planted model's answers come from; a :class:`audit.engines.base.ModelSource`."""

    planted: PlantedConfig

    @property
    def revision(self) -> None:
        """None: the options are all that there is of it."""

    def facts(self) -> dict[str, Any]:
        """Return what is planted, for the manifest."""
        return {"files": {}, "planted": self.planted.model_dump(mode="json")}

    def states(self) -> None:
        """See :class:`audit.engines.base.ModelSource`."""

    def identity(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`; the options themselves are part of the run's settings."""
        return {"model_files": ""}


class PlantedEngine:
    """Writes the scripted answers; see :class:`audit.engines.base.Engine`."""

    def __init__(self, planted: PlantedConfig) -> None:
        self._planted = planted
        self.facts = EngineFacts(name="planted", version=_VERSION, device="cpu", dtype="none")

    def forget(self) -> None:
        """Do nothing."""

    def in_format(self, dtype: str) -> AbstractContextManager[None]:
        """See :class:`audit.engines.base.Engine`."""
        raise ModelError(f"a planted model computes in no number format, and so not in {dtype}")

    def fits(self, prompts: Sequence[Prompt], *, room: int) -> list[bool]:
        """See :class:`audit.engines.base.Engine`; always True."""
        return [True] * len(prompts)

    def write(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        done: Done = unwatched,
    ) -> list[Generated]:
        """See :class:`audit.engines.base.Engine`; a word counts as a token."""
        drawn = sampling_seeds(len(prompts), temperature=temperature, top_p=top_p, seeds=seeds)
        written = []
        for place, prompt in enumerate(prompts):
            said = self._answer(prompt, None if drawn is None else drawn[place]).split()
            cut = len(said) > max_tokens
            written.append(Generated(" ".join(said[:max_tokens]), min(len(said), max_tokens), cut))
        done(len(prompts))
        return written

    def close(self) -> None:
        """Do nothing."""

    def _answer(self, prompt: Prompt, sample: int | None) -> str:
        if prompt.cell is None:
            return _ASIDE
        # Equal texts have equal answers, as of a model.
        told = repr((self._planted.seed, sample, prompt.system, prompt.turns, prompt.user, prompt.begun))
        if _share(f"refused {told}") < self._refused(prompt.cell):
            return _REFUSAL
        noise = self._planted.noise * NormalDist().inv_cdf(_share(f"noise {told}"))
        points = min(max(self._mean(prompt.cell) + noise, 0.0), 100.0)
        if prompt.question is None:
            return _with_words(max(round(points), 1), prompt.cell if self._planted.response > 0 else None)
        low, high = prompt.question.ends
        return str(round(low + (high - low) * points / 100))

    def _refused(self, cell: PromptCell) -> float:
        share = self._planted.refusals
        if not isinstance(share, dict):
            return share
        is_own = cell.dimension.in_group(cell.perceiver, cell.experiencer)
        names = (*_names(cell.experiencer), "" if is_own is None else SIDES[is_own])
        return max(share.get(name, 0.0) for name in names)

    def _mean(self, cell: PromptCell) -> float:
        """Return the rating without noise, in points of 100."""
        planted, narrative = self._planted, cell.narrative
        told = f"narrative {planted.seed} {narrative.narrative_id}"
        mean = MIDDLE + NARRATIVES_VARY * (2 * _share(told) - 1)
        mean += planted.response * (_INTENSITIES.get(narrative.intensity, 0.0) - cell.is_wrong)
        mean += planted.pleasant / 2 * leaning(narrative.emotion, {narrative.emotion: narrative.valence})
        if planted.echo and _repeats(cell.perceiver, cell.experiencer):
            mean += planted.echo
        if cell.dimension.placebo:
            return mean
        mean += sum((planted.disparity or {}).get(name, 0.0) for name in _names(cell.experiencer))
        return mean + planted.gap * bool(cell.dimension.in_group(cell.perceiver, cell.experiencer))


def open_model(model: ModelConfig, config: EngineConfig, *, seed: int, why: str) -> OpenModel:
    """Open a planted model; see :class:`audit.engines.open.Opens`. The run's own seed draws none of its answers."""
    if model.planted is None:
        raise ModelError(f"engine=planted runs no model, and so not {model.name}; leave it out, or use model=planted")
    return OpenModel(PlantedEngine(model.planted), PlantedModel(model.planted))


def _names(identity: Identity) -> tuple[str, ...]:
    """Return the groups that an identity belongs to: of an intersection the crossed ones, and itself."""
    return tuple(dict.fromkeys((identity.group, *identity.groups)))


def _repeats(perceiver: Identity, experiencer: Identity) -> bool:
    """Whether the one's words repeat the other's: they are the same, or share what they turn on."""
    if perceiver.is_baseline or experiencer.is_baseline:
        return False
    stems = [set((each.stem or each.term).casefold().split("+")) for each in (perceiver, experiencer)]
    return perceiver.term == experiencer.term or bool(stems[0] & stems[1])


def _with_words(n: int, cell: PromptCell | None) -> str:
    """Write a reply of n words that names the longest words of a cell's narrative, or could answer any."""
    told = "" if cell is None else cell.narrative.first_person or cell.narrative.third_person or cell.narrative.neutral
    named = sorted(dict.fromkeys(words(told)), key=len)[-_NAMED:]
    reply = _REPLY.format(f"of {', '.join(named)}" if named else "this")
    return " ".join(islice(cycle(reply.split()), n))


def _share(text: str) -> float:
    """Return a number between 0 and 1 that looks like chance, the same for the same text."""
    drawn = int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:6])
    return (drawn + 0.5) / 2**48
