"""Elicitation ``generate``: the model writes its answer at temperature 0, and the intensity is parsed from it.

If the answer was begun for the model, the response is what it wrote after the beginning. "I can" and "'t rate this", or
"I would give it a rating " and "of 72", only make sense together. So the whole answer is read first. If it states no
number and no refusal, the response is read alone: a beginning such as "Intensity of sadness then " has no rating
pattern, but the "72" after it is a rating, and "extremely" is an end of the scale.

In a text that was cut, a number at the end that might go on is not read. A sentence about the person ("The person felt
72 sadness.") only counts in the whole answer, because the beginning might deny it. The published parser reads the
response alone, as it did for the study.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from audit.asking.elicitation.parsing import parse_response_hou2025
from audit.asking.elicitation.phrases import ParsedResponse, read_in_language
from audit.engines.base import Done, Engine, unwatched
from audit.engines.dialects import ends_within_thought
from audit.errors import ConfigError
from audit.tables.ratings import ElicitedRating, Status
from stimuli.languages import Replies, english_replies
from stimuli.prompts import Prompt, Question, Scale


@dataclass(frozen=True)
class GenerateElicitation:
    """Generates a text and parses it."""

    scale: Scale
    max_tokens: int
    parser: Literal["scale", "hou2025"]  # `hou2025` is the published parser with its faults
    replies: Replies | None = None  # how to read answers in the prompts' language; None for English

    @property
    def room(self) -> int:
        """See :class:`audit.asking.elicitation.base.Elicitation`."""
        return self.max_tokens

    def elicit(self, engine: Engine, prompts: Sequence[Prompt], *, done: Done = unwatched) -> list[ElicitedRating]:
        """See :class:`audit.asking.elicitation.base.Elicitation`."""
        outcomes = []
        for prompt, written in zip(prompts, engine.write(prompts, max_tokens=self.max_tokens, done=done), strict=True):
            n_read = written.n_prompt_tokens
            if written.text is None:
                outcomes.append(ElicitedRating(Status.FAILED, n_prompt_tokens=n_read))
                continue
            reading = ParsedResponse(Status.REFUSED, math.nan)
            if not written.refused:
                reading = self._read(written.text, prompt, cut=written.cut)
            outcomes.append(
                ElicitedRating(
                    reading.status, reading.intensity, response=written.text, n_prompt_tokens=n_read, cut=written.cut
                )
            )
        return outcomes

    def _read(self, text: str, prompt: Prompt, *, cut: bool | None) -> ParsedResponse:
        if self.parser == "hou2025":
            return parse_response_hou2025(text)
        read = partial(_read_on, scale=self.scale, replies=self.replies, cut=cut)
        # Earlier assistant turns are not quotations: the model may repeat its own words.
        quoted = (prompt.user, *(text for role, text in prompt.turns if role == "user"))
        if prompt.begun:
            together = read(join_answer(prompt.begun, text), quoted=quoted, question=prompt.question)
            if together.status is not Status.UNPARSEABLE:
                return together
            return read(text, quoted=quoted, question=_unnamed(prompt.question))
        return read(text, quoted=quoted, question=prompt.question)


def _unnamed(question: Question | None) -> Question | None:
    """Remove the person from a question, because sentences about them only count in the whole answer."""
    return None if question is None else replace(question, experiencer="")


def join_answer(begun: str, response: str) -> str:
    """Join beginning and response; a space between them is kept once."""
    return begun + (response.lstrip(" ") if begun.endswith(" ") else response)


def check_begun(begun: str, scale: Scale, replies: Replies | None = None) -> None:
    """Refuse a beginning that reads as a rating or a refusal, since every answer would, or that opens a thought."""
    if ends_within_thought(begun):
        raise ConfigError(
            f"elicitation.prefill={begun!r} opens a thought, and a number within one is no rating; use thinking=on, by "
            "which the model thinks before its answer is begun, and leave the thought's mark out of the beginning"
        )
    bare = begun if replies is not None else _OPEN_END.sub("", begun)
    status = _read_on(bare, scale=scale, quoted=(), question=None, replies=replies, cut=False).status
    if begun and status is not Status.UNPARSEABLE:
        what = "a rating" if status is Status.RATED else "a refusal"
        raise ConfigError(
            f"elicitation.prefill={begun!r} reads as {what} by itself, "
            "so that every answer would; leave the number to the model"
        )


_OPEN_END: Final = re.compile(r"[\s,;]+(?:or|and|but|maybe|perhaps)[\s,]*\Z", re.IGNORECASE)


def _read_on(
    text: str,
    *,
    scale: Scale,
    quoted: Sequence[str],
    question: Question | None,
    replies: Replies | None,
    cut: bool | None,
) -> ParsedResponse:
    replies = english_replies() if replies is None else replies
    return read_in_language(text, replies, scale, quoted=quoted, question=question, cut=cut)
