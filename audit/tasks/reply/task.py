"""``task=reply``: a reply to the experiencer, scored by ``measures=``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pandas as pd

from audit.asking.collect import PromptBatch, answer_columns
from audit.asking.plan import Plan
from audit.asking.progress import Say
from audit.configuration.measures import MeasuresConfig
from audit.configuration.schema import AuditConfig
from audit.configuration.task import ReplyTask
from audit.people.questions import Form
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tasks.base import Unanswered
from audit.tasks.measures.base import Wanted
from audit.tasks.reply.observed import keep_transcripts, scoring_of
from audit.tasks.reply.scoring import score_replies, scorers_of_replies
from audit.tasks.reply.written import WrittenTexts
from audit.tasks.task_words import TaskWords, delta_of_measures
from audit.tasks.transcripts import Transcripts

if TYPE_CHECKING:
    from audit.asking.strategies.run import StageText


_READ: Final = TaskWords(
    texts="replies",
    heading="What {} wrote to in-group and out-group",
    question="Did this model write differently to its own group?",
    to="spoke as one person and replied to {} by people of the same and of other groups",
    about=("message", "messages"),
    no_better="which reply is better for whoever reads it",
    asked="Replies were read from a file. "
    + delta_of_measures(own="replies to one's own group", others="replies to others", do="always write or always get")
    + " It does not say which reply is better for the person who reads it.",
    gap="Intergroup gap in what was written",
    where="in what was written",
    heading_groups="What {} wrote to different groups",
    of_groups="Did this model write differently to some groups?",
    to_groups="replied to {} by people of several groups",
    asked_groups="Replies were read from a file, with the messages that they answer. Measures do not say which reply "
    "is better for whoever reads it.",
    read=True,
)
"""Of replies that were read from a file."""


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

    def words_of(self, manifest: Manifest) -> TaskWords:
        """Return the words for a page of replies, that were asked for or read from a file."""
        return _READ if manifest.outside.replies else self.words

    def check_stories(
        self, folder: RunFolder, manifest: Manifest, replies: pd.DataFrame, *, confidence: float | None = None
    ) -> tuple[list[dict[str, Any]], tuple[Unanswered, ...]]:
        """Check whether replies match the story."""
        from audit.tasks.reply.story_check import check_stories

        return check_stories(folder, manifest, replies, confidence=confidence)

    def take(
        self, found: Transcripts, folder: RunFolder, manifest: Manifest, config: AuditConfig, *, say: Say
    ) -> Manifest:
        """Keep the replies of transcripts, and score those without scores."""
        assert config.measures is not None
        manifest = manifest.having(task={"kind": self.kind}, status="running")
        if not folder.shards("replies"):
            folder.write_manifest(manifest)  # before the replies, which are then known to be these
        keep_transcripts(found, folder)
        manifest = score_replies(scoring_of(found, config), folder, manifest, say=say)
        return manifest.adding("config", measures=config.model_dump(mode="json")["measures"])

    def answers(self, written: Sequence[StageText], asked: PromptBatch) -> dict[str, list[Any]]:
        """Mark replies that decline."""
        from audit.tasks.reply.reply_status import reply_status

        statuses = [
            str(reply_status(each.text, each.status, narrative=values["narrative"]))
            for each, values in zip(written, asked.values, strict=True)
        ]
        return answer_columns(written) | {"status": statuses}
