"""``task=emotion``, ``cause`` and ``entailment``: what a model finds in a user's corpus of conversations.

The answer is a label, words of the conversation, or yes or no: it is not searched for refusals, and its words are not
counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from audit.asking.elicitation.plain_text import answer_of
from audit.asking.plan import Plan
from audit.configuration.measures import MeasuresConfig
from audit.configuration.schema import AuditConfig
from audit.configuration.task import RecognitionTask
from audit.errors import ConfigError
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tasks.measures.base import Wanted
from audit.tasks.publishing import on_run
from audit.tasks.recognition.corpus import Corpus, keep_corpus, read_corpus, read_replies
from audit.tasks.recognition.scorer import CAUSES, CauseEntailment, CauseSpans, EmotionRecognition, says_yes
from audit.tasks.reply.written import WrittenTexts
from audit.tasks.task_words import TaskWords, delta_of_measures
from stimuli.conversations import Conversations
from stimuli.hashes import fingerprint

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark

_OF_SPEAKERS: Final = delta_of_measures(
    own="answers about speakers of one's own group", others="answers about others", do="get right or wrong throughout"
)
_CORPUS_GONE: Final = (
    "The run folder has no corpus.json, which accuracy, F1 and exact match need: they are left out. The run's command, "
    "given again, writes it."
)


class Recognition(WrittenTexts):
    """The perceiver writes down what it finds in the last utterance of a conversation."""

    settings = RecognitionTask

    @abstractmethod
    def scorer(self, conversations: Conversations) -> Wanted:
        """Return the scorer that compares the answers with the corpus."""

    @abstractmethod
    def recognised(
        self, replies: pd.DataFrame, values: pd.DataFrame, corpus: Corpus, *, seed: int, confidence: float
    ) -> tuple[Mapping[str, pd.DataFrame], Sequence[Remark]]:
        """Return tables of how well the model did, overall, by speaker, experiencer, perceiver and pairs.

        The remarks say whether it did better than guesses.
        """

    def plan(self, config: AuditConfig) -> Plan:
        """Read everything that the prompts are made of. Reject stimuli that are no conversations."""
        if config.stimuli.source != "conversations":
            raise ConfigError(
                f"task={self.kind} asks about conversations, but stimuli.source is {config.stimuli.source}; give "
                "stimuli=conversations stimuli.path=FILE"
            )
        return super().plan(config)

    def scorers(self, plan: Plan, measures: MeasuresConfig) -> Iterator[Wanted]:
        """Yield the one scorer; other measures apply to replies only."""
        yield self.scorer(_corpus_of(plan))

    def keep(self, plan: Plan, folder: RunFolder) -> None:
        """Keep what the tables need of the corpus: the file is the user's, and may move."""
        keep_corpus(_corpus_of(plan), plan, folder)

    def tables(
        self, folder: RunFolder, manifest: Manifest, replies: pd.DataFrame, values: pd.DataFrame
    ) -> tuple[Mapping[str, pd.DataFrame], Sequence[Remark]]:
        """Return how well the model did, if the folder keeps what that takes of the corpus."""
        corpus = read_corpus(folder)
        if corpus is None:
            return {}, (on_run("corpus_gone", _CORPUS_GONE),)
        confidence = manifest.statistics.confidence
        return self.recognised(replies, values, corpus, seed=manifest.seed, confidence=confidence)


class Emotion(Recognition):
    """The perceiver names the emotion of an utterance, choosing from the corpus' labels."""

    kind = "emotion"
    asked_to = "name the emotion of that utterance"
    words = TaskWords(
        texts="answers",
        heading="How {} recognises the emotions of in-group and out-group",
        question="Does this model recognise the emotions of in-group and out-group alike?",
        to="name the emotion in {} said by people of the same and of other groups",
        about=("thing", "things"),
        no_better="that the label of the corpus is what anybody felt",
        asked="The model, given an identity, named the emotion of an utterance that it was told is said by somebody "
        f"of an identity. {_OF_SPEAKERS}",
        gap="Intergroup gap in the recognition of emotions",
        where="in what is recognised",
    )

    def plan(self, config: AuditConfig) -> Plan:
        """Plan the run. Reject prompts that reveal the emotion."""
        plan = super().plan(config)
        if plan.strategy.tells_emotion(plan.grid):
            raise ConfigError(
                f"strategy {plan.strategy.name}, or task.user, reveals the emotion, which task=emotion asks for; "
                "leave it out"
            )
        return plan

    def scorer(self, conversations: Conversations) -> Wanted:
        """Return the scorer that reads labels."""
        labels, synonyms = list(conversations.labels), conversations.synonyms
        asked: dict[str, Any] = {"labels": labels}
        if synonyms:
            asked["synonyms"] = {label: list(words) for label, words in synonyms.items()}
        return Wanted("recognition", asked, partial(EmotionRecognition, labels, synonyms))

    def recognised(
        self, replies: pd.DataFrame, values: pd.DataFrame, corpus: Corpus, *, seed: int, confidence: float
    ) -> tuple[Mapping[str, pd.DataFrame], Sequence[Remark]]:
        """Return accuracy, F1 and confusions; see :func:`audit.tasks.recognition.statistics.recognition_tables`."""
        from audit.tasks.recognition.guesses import one_label_remarks
        from audit.tasks.recognition.statistics import recognition_tables

        own = read_replies(replies, corpus)
        read = EmotionRecognition(corpus.labels, corpus.synonyms).read([answer_of(text) for text in own["text"]])
        answers = own.assign(gold=own["emotion"].astype(str), predicted=pd.Series(read, index=own.index, dtype=object))
        tables = recognition_tables(answers, seed=seed, labels=corpus.labels, confidence=confidence)
        return tables, tuple(one_label_remarks(tables))


class Cause(Recognition):
    """The perceiver is told the emotion of an utterance and copies the words that caused it."""

    kind = "cause"
    asked_to = "copy the words that brought on the emotion"
    words = TaskWords(
        texts="answers",
        heading="How {} finds what moves in-group and out-group",
        question="Does this model find what brought on the emotions of in-group and out-group alike?",
        to="copy the words that brought on the emotion in {} said by people of the same and of other groups",
        about=("thing", "things"),
        no_better="that the words marked in the corpus are the cause",
        asked="The model, given an identity, copied the words that brought on the emotion of an utterance that it was "
        f"told is said by somebody of an identity. {_OF_SPEAKERS}",
        gap="Intergroup gap in the finding of causes",
        where="in what is found",
    )

    def plan(self, config: AuditConfig) -> Plan:
        """Plan the run. Reject a corpus without causes."""
        plan = super().plan(config)
        if not _corpus_of(plan).causes:
            raise ConfigError("task=cause needs a column of causes: stimuli.conversations.cause=COLUMN")
        return plan

    def scorer(self, conversations: Conversations) -> Wanted:
        """Return the scorer that compares words."""
        asked = {"causes": fingerprint({name: list(own) for name, own in conversations.causes.items()})}
        return Wanted("causes", asked, partial(CauseSpans, conversations.causes))

    def recognised(
        self, replies: pd.DataFrame, values: pd.DataFrame, corpus: Corpus, *, seed: int, confidence: float
    ) -> tuple[Mapping[str, pd.DataFrame], Sequence[Remark]]:
        """Return exact match and F1, if causes are scored."""
        from audit.tasks.recognition.guesses import span_remarks
        from audit.tasks.recognition.statistics import cause_table

        measures = [measure.name for measure in CAUSES]
        if not set(measures) <= set(values):
            return {}, ()
        own = read_replies(replies, corpus)
        exact, f1 = (own["prompt_index"].map(values[name]) for name in measures)
        marked = [corpus.marked.get(str(name), False) for name in own["narrative_id"]]
        answers = own.assign(exact=exact, f1=f1, marked=marked)
        tables = {"recognition_causes": cause_table(answers, seed=seed, confidence=confidence)}
        return tables, tuple(span_remarks(answers, corpus.guesses, confidence=confidence))


class Entailment(Recognition):
    """The perceiver is told the emotion of an utterance and says of one utterance whether it is a cause."""

    kind = "entailment"
    asked_to = "say of one line whether it brought on the emotion"
    words = TaskWords(
        texts="answers",
        heading="How {} tells what moves in-group and out-group",
        question="Does this model tell what brought on the emotions of in-group and out-group alike?",
        to="tell whether a line brought on the emotion in {} said by people of the same and of other groups",
        about=("thing", "things"),
        no_better="that the utterances marked in the corpus are the cause",
        asked="The model, given an identity, said of one utterance at a time whether it brought on the emotion of "
        f"another, or its own, that it was told is said by somebody of an identity. {_OF_SPEAKERS}",
        gap="Intergroup gap in the recognition of causes",
        where="in which causes are recognised",
    )

    def scorer(self, conversations: Conversations) -> Wanted:
        """Return the scorer that reads yes and no."""
        is_cause = {name: bool(own) for name, own in conversations.causes.items()}
        return Wanted("entailment", {"causes": fingerprint(is_cause)}, partial(CauseEntailment, is_cause))

    def recognised(
        self, replies: pd.DataFrame, values: pd.DataFrame, corpus: Corpus, *, seed: int, confidence: float
    ) -> tuple[Mapping[str, pd.DataFrame], Sequence[Remark]]:
        """Return precision, recall and F1; see :func:`audit.tasks.recognition.statistics.entailment_table`."""
        from audit.tasks.recognition.guesses import yes_remarks
        from audit.tasks.recognition.statistics import entailment_table

        own = read_replies(replies, corpus)
        answers = own.assign(
            is_cause=[corpus.marked[str(name)] for name in own["narrative_id"]],
            said=pd.array([says_yes(text) for text in own["text"]], dtype="boolean"),
        )
        tables = {"recognition_entailment": entailment_table(answers, seed=seed, confidence=confidence)}
        return tables, tuple(yes_remarks(answers, confidence=confidence))


def _corpus_of(plan: Plan) -> Conversations:
    assert plan.conversations is not None
    return plan.conversations
