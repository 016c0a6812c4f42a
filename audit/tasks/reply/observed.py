"""Replies that were read from a file: what a run keeps of them besides, and what their differences are adjusted for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pandas as pd

from audit.configuration.measures import MeasuresConfig
from audit.configuration.schema import AuditConfig
from audit.engines.base import storable
from audit.runs.manifest import Manifest
from audit.runs.outside import ratings_table
from audit.runs.store import RunFolder
from audit.statistics.outcome import Outcome
from audit.tables.formatting import brief, count, either, listed, plural
from audit.tables.replies import OF_MESSAGE, REPLIES, TRANSCRIPTS, ReplyStatus
from audit.tables.shared import PROMPT
from audit.tasks.measures.base import Reply, Wanted
from audit.tasks.measures.choose import DIVERSITY
from audit.tasks.publishing import on_run
from audit.tasks.reply.reply_status import reply_status
from audit.tasks.reply.scoring import Scoring, reads_emotion, wanted_of
from audit.tasks.transcripts import Transcripts, days_of
from stimuli.emotion_names import emotion_words
from stimuli.narratives import EmotionWords, Narrative
from stimuli.sentences import words

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark

_FEW: Final = 20  # replies: a system prompt or model with fewer counts with the other rare ones
_SHOWN: Final = 1_000  # characters of a message on the page
_NO_EMOTION: Final = "the file of replies has no column emotion"


def reply_rows(found: Transcripts) -> pd.DataFrame:
    """Return transcripts as rows of ``tables.REPLIES``; a status that the file does not tell is read from the text."""
    rows = found.rows
    groups = list(dict.fromkeys([*rows["perceiver_group"], *rows["experiencer_group"]]))
    table = ratings_table(
        {name: pd.Categorical(rows[name], categories=rows[name].unique())
         for name in ("dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer")},
        [np.array([groups.index(each) for each in rows[f"{side}_group"]]) for side in ("perceiver", "experiencer")],
        groups,
        intensity=np.full(len(rows), math.nan),
        status=np.zeros(len(rows), dtype=np.int8),
    )  # fmt: skip
    texts = [storable(text) for text in rows["reply"]]
    status = [
        # as of a run's own replies: a text that declines is refused, however it ended
        told if told not in ("", ReplyStatus.WRITTEN, ReplyStatus.CUT)
        else str(reply_status(text, told or ReplyStatus.WRITTEN, narrative=message))
        for told, text, message in zip(rows["status"], texts, rows["message"], strict=True)
    ]  # fmt: skip
    nothing = {"n_prompt_tokens": 0, "n_tokens": 0, "n_dropped": 0, "wording": 0}
    return table[list(PROMPT)].assign(status=status, text=texts, **nothing)[list(REPLIES)]


def scoring_of(found: Transcripts, config: AuditConfig) -> Scoring:
    """Return what scores transcripts; messages are scored too unless replies are matched."""
    assert config.measures is not None
    rows = found.rows.to_dict("records")

    def reply_of(place: int, text: str) -> Reply:
        row = rows[place]
        return Reply(
            text, row["message"], row["narrative_id"], row["emotion"], row["dimension"], row["perceiver"],
            row["experiencer"], place,
        )  # fmt: skip

    return Scoring(
        tuple(wanted_of_transcripts(found, config, config.measures)),
        reply_of,
        {},
        DIVERSITY in config.measures.names,
        config.measures.judge,
        config.seed,
        messages=() if found.matched else tuple(found.rows["message"]),
        required=config.measures.required,
    )


def wanted_of_transcripts(found: Transcripts, config: AuditConfig, measures: MeasuresConfig) -> Iterator[Wanted]:
    """Yield the scorers of transcripts; those that need an emotion are absent if the file names none."""
    first = found.rows.drop_duplicates("narrative_id")
    narratives = [
        Narrative(name, emotion, emotion_words().get(emotion, EmotionWords(emotion, emotion)), text, "", "")
        for name, emotion, text in zip(first["narrative_id"], first["emotion"], first["message"], strict=True)
    ]
    n_replies = len(found.rows)
    for wanted in wanted_of(config, measures, terms=found.terms, narratives=narratives, n_replies=n_replies):
        yield replace(wanted, absent=_NO_EMOTION) if reads_emotion(wanted) and not found.emotion_given else wanted


def keep_transcripts(found: Transcripts, folder: RunFolder) -> None:
    """Write the replies of transcripts, and what else was read with them."""
    if not folder.shards("replies"):
        folder.write_shard(0, reply_rows(found), "replies")
    kept = found.rows[[name for name in TRANSCRIPTS if name != "prompt_index"]].map(storable)
    folder.table(TRANSCRIPTS).write(
        [
            {"prompt_index": place, **dict(zip(kept.columns, row, strict=True))}
            for place, row in enumerate(kept.to_numpy())
        ]
    )


@dataclass(frozen=True, eq=False)
class Observed:
    """The transcripts of a run's folder."""

    manifest: Manifest
    told: pd.DataFrame  # rows of TRANSCRIPTS, indexed by narrative_id

    @classmethod
    def of(cls, folder: RunFolder, manifest: Manifest, replies: pd.DataFrame) -> Self | None:
        """Read them; None for a run whose replies were asked for."""
        if not manifest.outside.replies:
            return None
        told = folder.table(TRANSCRIPTS).frame()
        names = replies.set_index("prompt_index")["narrative_id"].astype(str)
        return cls(manifest, told.assign(narrative_id=told["prompt_index"].map(names)).set_index("narrative_id"))

    @property
    def conversation_of(self) -> Callable[[str], str]:
        """What the replies to a narrative count together with."""
        of = self.told["conversation"].astype(str).groupby(level=0).first().to_dict()
        return lambda name: of[name]

    @property
    def messages(self) -> dict[str, str]:
        """The first message of each narrative, shortened if it is long."""
        return {
            str(name): brief(str(text), at_most=_SHOWN)
            for name, text in self.told["message"].astype(str).groupby(level=0).first().items()
        }

    def outcomes(self, measured: list[Outcome], scores: pd.DataFrame) -> list[Outcome]:
        """Mark outcomes as observational where they are, and adjust them where replies are not matched."""
        outside = self.manifest.outside
        marked = [replace(each, observational=outside.observational) for each in measured]
        if outside.matched:
            return marked
        base = self._base()
        of_messages = scores.pivot_table(index="prompt_index", columns="measure", values="value", observed=True)
        of_messages = of_messages.reindex(self.told["prompt_index"]).set_axis(self.told.index)
        found = []
        for each in marked:
            name = f"{OF_MESSAGE}{each.name}"
            own = _known(of_messages[[name]]) if name in of_messages else base[[]]
            found.append(replace(each, covariates=base.join(own)))
        return found

    def _base(self) -> pd.DataFrame:
        """Return what every measure is adjusted for, by narrative: length of the message, and how it was asked."""
        n_words = self.told["message"].map(lambda text: len(words(str(text)))).astype(np.float64)
        columns = [n_words.rename("words"), n_words.map(math.log1p).rename("log_words")]
        for name in ("system", "model"):
            own = self.told[name].astype(str)
            known = own.where(own.map(own.value_counts()) >= _FEW, "")
            columns += [(known == each).astype(np.float64).rename(f"{name}_{n}") for n, each in
                        enumerate(sorted(known.unique())[1:])]  # fmt: skip
        return pd.concat([*columns, _known(days_of(self.told["date"]).to_frame("days"))], axis=1)

    def remarks(self) -> Iterator[Remark]:
        """Yield what limits what such replies show."""
        outside = self.manifest.outside
        if outside.n_untold:
            yield on_run(
                "untold",
                f"{plural(outside.n_untold, 'reply')} left out: the messages before them tell no group, or several.",
            )
        if outside.n_repeated:
            n, several = outside.n_repeated, "matches" if outside.matched else "chats"
            yield on_run(
                "repeated_messages",
                f"{count(n)} of the {several} {either(n, 'repeats', 'repeat')} the messages of an earlier one, but for "
                f"the words for the groups. Such {several} count as one.",
            )
        if not outside.matched:
            base = self._base()
            named = {"system_0": "the system prompt", "model_0": "the model", "days": "the date"}
            also = [words for name, words in named.items() if name in base and base[name].nunique() > 1]
            yield on_run(
                "observational",
                "Nobody chose which group writes what. D of each measure is adjusted, by least squares, for "
                f"{listed(['the length of the message', 'the same measure of the message', *also])}. Other differences "
                "between what the groups write may be why replies differ.",
            )
        elif outside.n_unequal:
            yield on_run(
                "observational",
                f"In {count(outside.n_unequal)} of {count(outside.n_matches)} "
                f"{either(outside.n_matches, 'match', 'matches')} the messages, the system prompts or the models "
                "differ in more than the words for the groups, or the dates by more than a day. That may be why "
                "replies differ.",
            )
        if outside.matched and (n := self._n_alike()):
            yield on_run(
                "group_untold",
                f"In {count(n)} of {count(outside.n_matches)} {either(outside.n_matches, 'match', 'matches')} all "
                "groups have the same messages and system prompts to the letter, so the file does not show what told "
                "the model the group.",
            )

    def _n_alike(self) -> int:
        """Count matches of several replies in which nothing tells the groups apart."""
        asked = self.told["message"].astype(str) + "\0" + self.told["system"].astype(str)
        matches = asked.groupby(level=0)
        return int(((matches.nunique() == 1) & (matches.size() > 1)).sum())


def _known(numbers: pd.DataFrame) -> pd.DataFrame:
    """Fill what is missing with the mean, and mark it in a column of its own."""
    [name] = numbers.columns
    lacking = numbers[name].isna()
    filled = numbers[name].fillna(numbers[name].mean()).fillna(0.0)
    return pd.DataFrame({name: filled, f"no_{name}": lacking.astype(np.float64)})
