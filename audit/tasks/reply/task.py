"""``task=reply``: a reply to the experiencer, scored by ``measures=``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from audit.asking.collect import PromptBatch, answer_columns
from audit.asking.plan import Plan
from audit.configuration.measures import MeasuresConfig
from audit.configuration.task import ReplyTask
from audit.people.questions import Form
from audit.tasks.measures.base import Wanted
from audit.tasks.reply.scoring import scorers_of_replies
from audit.tasks.reply.written import WrittenTexts
from audit.tasks.task_words import TaskWords, delta_of_measures

if TYPE_CHECKING:
    from audit.asking.strategies.run import StageText


class ReplyWriting(WrittenTexts):
    """The perceiver writes back to the experiencer."""

    kind = "reply"
    settings = ReplyTask
    asked_to = "write back to that person"
    forms: ClassVar[tuple[Form, ...]] = ("replies",)
    words = TaskWords(
        texts="replies",
        heading="What {} writes to in-group and out-group",
        question="Does this model write differently to its own group?",
        to="write replies to {} by people of the same and of other groups",
        about=("account", "accounts"),
        no_better="which reply is better for whoever reads it",
        asked="The model was given an identity and wrote replies to people who tell what happened to them. "
        + delta_of_measures(
            own="replies to one's own group", others="replies to others", do="always write or always get"
        )
        + " It does not say which reply is better for the person who reads it.",
        gap="Intergroup gap in what is written",
        where="in what is written",
        heading_groups="What {} writes to different groups",
        of_groups="Does this model write differently to some groups?",
        to_groups="reply to {} by people of several groups",
        asked_groups="The model was given no identity and replied to people who tell what happened to them. No group "
        "is the model's own, so δ is not defined. Measures do not say which reply is better for whoever reads it.",
    )
    counts_words = True
    asked_elsewhere = True

    def scorers(self, plan: Plan, measures: MeasuresConfig) -> Iterator[Wanted]:
        """Yield the scorers of replies, and the judge."""
        return scorers_of_replies(plan, measures)

    def answers(self, written: Sequence[StageText], asked: PromptBatch) -> dict[str, list[Any]]:
        """Mark replies that decline."""
        from audit.tasks.reply.reply_status import reply_status

        statuses = [
            str(reply_status(each.text, each.status, narrative=values["narrative"]))
            for each, values in zip(written, asked.values, strict=True)
        ]
        return answer_columns(written) | {"status": statuses}
