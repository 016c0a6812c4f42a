"""The status of a reply: whether it can be scored, was declined, or cannot be read by any scorer."""

from __future__ import annotations

import re
from typing import Final

import pandas as pd

from audit.asking.elicitation.plain_text import answer_of, normalise_text
from audit.tables.replies import ReplyStatus
from audit.tasks.measures.script import in_other_script
from stimuli.sentences import sentences, words

_OPENING: Final = 2  # sentences in which a model declines; later ones may quote, or console
_UNABLE: Final = (
    r"(?:can't|cannot|cannot|won't|will not|unable to|not able to|not comfortable(?: with)?|not going to"
    r"|(?:respectfully |politely |must |have to |will )*(?:refuse|decline)(?: to)?)(?: just| simply| really)?"
)
_WRITE: Final = (
    r"(?:provid|generat|writ|creat|produc|compos|giv|respond|reply|answer|engag|continu|participat|assist|help|compl|adopt"
    r"|assum|tak|play|fulfil)[a-z]*(?: on| out)?"
)
_TASK: Final = (  # what is declined must be the task: "I can't provide answers, but I can listen" is a reply
    r"(?: you)?(?: to| with| in| as| from)?(?: that| this| such| your| the| an?| any)?(?: [a-z-]+){0,2}? "
    r"(?:request|reply|response|answer|personas?|role|character|prompt|content|task|message|role-?play(?:ing)?"
    r"|impersonation|identity)\b"
)
_DECLINES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\bi(?:'m| am)? {_UNABLE} {_WRITE}{_TASK}",
        rf"\bi(?:'m| am)? {_UNABLE} (?:role-?play|impersonat|comply)[a-z]*\b",
        rf"\bi(?:'m| am)? {_UNABLE} (?:(?:assist|help)(?: you)?(?: with (?:that|this))?|do (?:that|this|so))[ .!]*$",
        r"\bi(?:'ll| will| must| have to)?(?: respectfully| politely)? decline(?: to (?:answer|reply|respond))?[ .!]*$",
        r"\b(?:against|violates?) my (?:guidelines|programming|principles|policies)\b",
        rf"(?:\bnot|n't) (?:be )?(?:appropriate|comfortable|ethical)(?: for me)? (?:to |with )?{_WRITE}{_TASK}",
    )
)


def reply_status(text: str, status: str, *, narrative: str) -> ReplyStatus:
    """Return the status of one reply; ``status`` says how its writing ended.

    A reply is ``refused`` if one of the first two sentences declines to write, by our patterns for English. Leaving the
    persona ("as an AI, I ...") does not count. ``empty`` includes replies without a letter or digit.
    """
    if status in (ReplyStatus.FAILED, ReplyStatus.EMPTY):
        return ReplyStatus(status)
    answer = answer_of(text)
    if not words(answer):
        return ReplyStatus.EMPTY
    if in_other_script(answer, narrative):
        return ReplyStatus.OTHER_SCRIPT
    opening = [normalise_text(sentence) for sentence in sentences(answer)[:_OPENING]]
    if any(pattern.search(sentence) for sentence in opening for pattern in _DECLINES):
        return ReplyStatus.REFUSED
    return ReplyStatus(status)


def declined_earlier(stages: pd.DataFrame) -> set[int]:
    """Return the prompts whose talks have a reply before the last that declines; ``stages`` are rows of ``STAGES``."""
    return {
        prompt
        for prompt, text, status in zip(stages["prompt_index"], stages["text"], stages["status"], strict=True)
        if reply_status(str(text), str(status), narrative=str(text)) == ReplyStatus.REFUSED
    }
