"""Elicitation ``generate``: the model writes its answer at temperature 0, and the intensity is parsed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from audit.elicitation.base import Elicited, encode_prompts
from audit.elicitation.parsing import Reading, parse_response, parse_response_hou2025
from audit.engines.base import Done, Engine, unwatched
from audit.schema import Status
from stimuli.prompts import Prompt, Scale


@dataclass(frozen=True)
class GenerateElicitation:
    """Generates a text and parses it.

    Attributes
    ----------
    scale
        What an intensity may be.
    max_tokens
        Length of a response, in tokens.
    parser
        ``scale`` knows the scale and the prompt; ``hou2025`` is the published parsing with its faults.
    """

    scale: Scale
    max_tokens: int
    parser: Literal["scale", "hou2025"]

    @property
    def room(self) -> int:
        """See :class:`audit.elicitation.base.Elicitation`."""
        return self.max_tokens

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[Elicited]:
        """See :class:`audit.elicitation.base.Elicitation`."""
        encoded = encode_prompts(engine, prompts, room=self.max_tokens)
        asked = [ids for ids in encoded if ids is not None]
        answers = iter(engine.generate(asked, max_tokens=self.max_tokens, done=done))
        outcomes = []
        for prompt, ids in zip(prompts, encoded, strict=True):
            if ids is None:
                outcomes.append(Elicited(Status.FAILED))
                continue
            text = next(answers).text
            if text is None:
                outcomes.append(Elicited(Status.FAILED, n_prompt_tokens=len(ids)))
                continue
            reading = self._read(text, prompt)
            outcomes.append(Elicited(reading.status, reading.intensity, response=text, n_prompt_tokens=len(ids)))
        return outcomes

    def _read(self, text: str, prompt: Prompt) -> Reading:
        if self.parser == "hou2025":
            return parse_response_hou2025(text)
        return parse_response(
            text,
            low=self.scale.low,
            high=self.scale.high,
            # What the model is shown to have said is its own: it may say so again.
            quoted=(prompt.user, *(text for role, text in prompt.turns if role == "user")),
            low_label=self.scale.low_label,
            high_label=self.scale.high_label,
        )
