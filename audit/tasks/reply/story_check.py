"""Whether replies match the story: they share more words with the narrative that they answer than with another one.

It needs no further calls and no model. The words must be the reply's own: an echo of the message is no answer to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from audit.asking.conversations import narratives_of
from audit.asking.elicitation.plain_text import answer_of
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.statistics.conversations import told_apart_by
from audit.statistics.manipulation import codes_of, manipulation_rows
from audit.statistics.ratings import BASELINES, without_dimensions
from audit.statistics.remarks import Remark
from audit.statistics.verdict import UNANSWERED
from audit.tables.formatting import brief, interval, plural, unsigned
from audit.tables.ratings import DOES_NOT_FOLLOW, Status
from audit.tables.replies import SCORED, TRANSCRIPTS
from audit.tables.stages import STAGES
from audit.tasks.base import Unanswered
from audit.tasks.measures.regard import MASK, IdentityMask
from audit.tasks.measures.script import script_of
from audit.tasks.publishing import on_run
from audit.tasks.reply.observed import Observed
from stimuli.narratives import emotion_valence
from stimuli.sentences import words

_STEM: Final = 5  # letters of a word that count, so that most inflected forms of a word are the same word
_UNSPACED: Final = frozenset({"Han", "Thai", "Lao", "Khmer", "Myanmar"})  # scripts without spaces between words
_COPIED: Final = {False: 5, True: 10}  # words in a row, or pairs of letters without spaces, that are a copy
_KIND: Final = 4  # narratives of one emotion, or of one valence, that are compared among themselves
_LEAST: Final = 3  # narratives that have an interval: with two, leaving one out leaves nothing to compare
_DUST: Final = 1e-9  # a smaller difference of shares is floating-point error
_POINTS: Final = 100.0  # shares are in percentage points
_NOTES: Final = {
    "no narrative was rated both times": "too few stories of one kind have replies in words of their own",
    "fewer than half of the narratives were rated both times": "fewer than half of the stories have replies in words "
    "of their own, that is, without what is copied word for word, and others of their kind to be compared with",
}
"""What the check of ratings notes → what that means of replies."""


@dataclass(frozen=True)
class Story:
    """What one narrative, or all of one conversation, tells, and the replies to it."""

    name: str
    emotion: str
    texts: Sequence[str]
    replies: Sequence[str]


def check_stories(
    folder: RunFolder, manifest: Manifest, replies: pd.DataFrame, *, confidence: float | None = None
) -> tuple[list[dict[str, Any]], tuple[Unanswered, ...]]:
    """Return rows of ``MANIPULATION`` on a run's replies, and to whom they fail though they pass on average.

    Both are empty if what was told is lost. None for ``confidence`` takes that of the run's analysis.
    """
    if not (told := _told(folder, manifest, replies)):
        return [], ()
    texts = _texts(folder, manifest, without_dimensions(replies, manifest.placebo))
    rows = _rows(texts, told, manifest, manifest.statistics.confidence if confidence is None else confidence)
    passed = rows and "manipulation" not in codes_of(rows)
    return rows, tuple(_unanswered(texts, told, manifest)) if passed else ()


def _rows(
    texts: pd.DataFrame, told: Mapping[str, Sequence[str]], manifest: Manifest, confidence: float
) -> list[dict[str, Any]]:
    settings = manifest.statistics
    terms = dict.fromkeys(map(str, [*texts["perceiver"].unique(), *texts["experiencer"].unique()]))
    shares = story_shares(_stories(texts, told), terms=list(terms))
    known = shares["status"] == Status.RATED.value
    rows = manipulation_rows(
        shares,
        length=_POINTS,
        least_response=settings.least_response,
        confidence=confidence,
        power=settings.power,
    )
    return [
        row
        | {"share_higher": float(shares.loc[known, "is_higher"].mean()), "note": _NOTES.get(row["note"], row["note"])}
        for row in rows
    ]


def _unanswered(texts: pd.DataFrame, told: Mapping[str, Sequence[str]], manifest: Manifest) -> Iterator[Unanswered]:
    """Yield the groups whose replies do not match the story; intervals are corrected (Bonferroni) for their number."""
    known = texts.loc[~texts["experiencer_group"].isin(BASELINES)]
    parts = [*known.groupby(["dimension", "experiencer_group"], observed=True, sort=False)]
    parts += [*known.dropna(subset="in_group").groupby(["dimension", "in_group"], observed=True, sort=False)]
    confidence = 1 - (1 - manifest.statistics.confidence) / max(len(parts), 1)
    for (dimension, name), own in parts:
        for row in _rows(own, told, manifest, confidence):
            if row["answer"] == DOES_NOT_FOLLOW:
                whom = {True: "one's own group", False: "other groups"}.get(name, "")
                yield Unanswered(str(dimension), "" if whom else str(name), whom or brief(str(name)), row)


def unanswered_remarks(found: Sequence[Unanswered], manifest: Manifest) -> Iterator[Remark]:
    """Name the groups whose replies do not match the story."""
    for each in found:
        yield Remark(
            each.dimension,
            manifest.prompt.variant,
            UNANSWERED,
            f"Replies to {each.whom} do not match the story: {unsigned(each.row['mean_higher'])}% of their own words "
            f"are in the story that they answer, and {unsigned(each.row['mean_lower'])}% in another one. What is "
            "measured of them says little about what happened to that person.",
        )


def story_codes(rows: Sequence[Mapping[str, Any]], manifest: Manifest) -> tuple[str, ...]:
    """Return codes of what the check limits; none of transcripts, which are what people got, whatever it answers."""
    return () if manifest.outside.replies else codes_of(rows)


def story_remarks(rows: Sequence[Mapping[str, Any]], manifest: Manifest) -> Iterator[Remark]:
    """Yield what the check calls for."""
    for code in codes_of(rows):
        [row] = rows
        if not row["n_pairs"]:
            if not manifest.outside.replies:
                yield on_run(code, f"It is not known whether replies match the story: {row['note']}.")
            continue
        spread = f" ({interval(row['ci_low'], row['ci_high'])})" if row["ci_low"] == row["ci_low"] else ""
        found = (
            f"{unsigned(row['mean_higher'])}% of a reply's own words are in the story that it answers, and "
            f"{unsigned(row['mean_lower'])}% in another one: a difference of {unsigned(row['difference'])} percentage "
            f"points{spread}, over {plural(row['n_pairs'], 'narrative')}; more than {unsigned(row['least_response'])} "
            "is required"
        )
        if manifest.outside.replies:
            if code == "manipulation":
                yield on_run("replies_alike", f"Replies would fit other messages as well. {found.rpartition(';')[0]}.")
        elif code == "manipulation":
            yield on_run(code, f"Replies do not match the story: they would fit any other as well. {found}.")
        else:
            so = f" ({row['note']})" if row["note"] else ""
            needed = row["n_needed"]
            so += f". {plural(needed, 'narrative')} would decide" if needed == needed else ""
            yield on_run(code, f"It is not clear whether replies match the story. {found}{so}.")


def story_shares(stories: Sequence[Story], *, terms: Sequence[str]) -> pd.DataFrame:
    """Return what share of a reply's words is in its own story, and in another one, in percent: two rows a story.

    The columns are those of ``MANIPULATED`` that :func:`~audit.statistics.manipulation.manipulation_rows` reads, and
    ``is_higher``: whether the story's replies share more words with it than with the others. ``terms`` are masked.

    Notes
    -----
    Let S_ik be the share of the distinct words of a reply to story i that are in story k, averaged over the replies.
    The difference is U = mean S_ii − mean S_ik over i ≠ k. Stories with many common words raise S_ik of all replies,
    and long replies lower all their shares; both cancel in the symmetric kernel
    h(i, k) = ½(S_ii − S_ik + S_kk − S_ki), of which U is the mean over pairs. A t interval over the jackknife's
    pseudo-values, U + 2(n − 1)/(n − 2) · (h_i − U) with h_i the mean of h(i, k) over k [1]_, is one over stories. Of
    replies that are the same whatever happened every h is 0.

    Only stories of one kind are compared, so that pleasant words in replies to pleasant stories are no match.

    References
    ----------
    .. [1] Arvesen (1969), Jackknifing U-statistics, Annals of Mathematical Statistics 40(6), 2076–2100.
    """
    mask = IdentityMask(terms)
    words_of = cache(lambda text: _words(mask(text).replace(MASK, " ")))
    vocabulary: dict[str, int] = {}
    told_by: dict[frozenset[int], list[Story]] = {}  # texts in the same words cannot be told apart
    for story in stories:
        # In a fixed order, as are the words of replies: sums of numbers in another order differ in the last digit.
        own = sorted({word for text in story.texts for word in words_of(text)})
        told_by.setdefault(frozenset(vocabulary.setdefault(word, len(vocabulary)) for word in own), []).append(story)
    shares: list[dict[int, float]] = []
    answered: list[bool] = []
    for alike in told_by.values():
        written = [
            found
            for story in alike
            for text in story.replies
            if (found := _own_words(words_of(text), [words_of(each) for each in story.texts]))
        ]
        share: defaultdict[int, float] = defaultdict(float)
        for found in written:
            for word in sorted(found & vocabulary.keys()):
                share[vocabulary[word]] += _POINTS / (len(found) * len(written))
        shares.append(share)
        answered.append(bool(written))
    in_story = _matrix([dict.fromkeys(own, 1.0) for own in told_by], len(vocabulary))
    in_replies = _matrix(shares, len(vocabulary))
    own = in_replies.multiply(in_story).sum(axis=1)
    kinds = _kinds([alike[0].emotion for alike in told_by.values()])
    apart, higher = np.full((2, len(told_by)), np.nan)
    for kind in dict.fromkeys(kinds):
        rows = np.array([row for row, each in enumerate(kinds) if each == kind and answered[row]], dtype=np.int64)
        if (n := len(rows)) < _LEAST:
            continue
        mine, read, told = own[rows], in_replies[rows], in_story[rows]
        in_others = (told.sum(axis=0) @ read.T - mine) / (n - 1)
        of_others = (read.sum(axis=0) @ told.T - mine) / (n - 1)
        h = (mine - in_others - of_others + (mine.sum() - mine) / (n - 1)) / 2
        values = h.mean() + 2 * (n - 1) / (n - 2) * (h - h.mean())
        apart[rows] = np.where(np.abs(values) < _DUST, 0.0, values)
        higher[rows] = mine > in_others + _DUST
    known = ~np.isnan(apart)
    status = np.where(known, Status.RATED.value, Status.UNPARSEABLE.value)
    rows_of = pd.DataFrame({"narrative_id": [alike[0].name for alike in told_by.values()], "status": status})
    return pd.concat(
        rows_of.assign(kind=kind, intensity=np.where(known, values, np.nan), is_higher=higher)
        for kind, values in (("own_story", own), ("other_story", own - apart))
    )


def _kinds(emotions: Sequence[str]) -> list[str]:
    """Return what stories are compared within: their emotion, else its valence, if enough have it; else all others."""
    kinds = list(emotions)
    for broader in (emotion_valence(), {}):
        n_of = Counter(kinds)
        kinds = [kind if n_of[kind] >= _KIND else broader.get(kind, "") for kind in kinds]
    return kinds


def _matrix(rows: Sequence[Mapping[int, float]], n_columns: int) -> csr_array:
    values = np.array([value for row in rows for value in row.values()], dtype=np.float64)
    places = np.array([place for row in rows for place in row], dtype=np.int64)
    ends = np.cumsum([0, *map(len, rows)])
    return csr_array((values, places, ends), shape=(len(rows), n_columns))


def _words(text: str) -> list[str]:
    """Split a text into the words that are compared, in order; a script without spaces into pairs of letters."""
    found = words(text)
    if script_of(text) in _UNSPACED:
        return [word[place : place + 2] for word in found for place in range(max(len(word) - 1, 1))]
    return [word[:_STEM] for word in found]


def _own_words(reply: Sequence[str], told: Sequence[Sequence[str]]) -> set[str]:
    """Return the distinct words of a reply, without what it copies of the story word for word."""
    n = _COPIED[all(len(word) <= 2 for word in reply)]
    runs = {tuple(text[place : place + n]) for text in told for place in range(len(text) - n + 1)}
    copied = {
        at
        for place in range(len(reply) - n + 1)
        if tuple(reply[place : place + n]) in runs
        for at in range(place, place + n)
    }
    return {word for place, word in enumerate(reply) if place not in copied}


def _told(folder: RunFolder, manifest: Manifest, replies: pd.DataFrame) -> dict[str, list[str]]:
    """Map narratives to what was told: one text, or the messages of a match of transcripts; empty if that is lost."""
    if not manifest.outside.replies:
        return {name: [text] for name, text in narratives_of(folder.path, manifest).items()}
    messages = folder.table(TRANSCRIPTS).frame().set_index("prompt_index")["message"].astype(str)
    told: dict[str, list[str]] = {}
    for name, message in zip(
        replies["narrative_id"].astype(str), messages.reindex(replies["prompt_index"]), strict=True
    ):
        told.setdefault(name, []).append(message)
    return told


def _texts(folder: RunFolder, manifest: Manifest, replies: pd.DataFrame) -> pd.DataFrame:
    """Return replies with their ``text`` alone, of a talk that of all turns, and the ``unit`` that they count with."""
    observed = Observed.of(folder, manifest, replies)
    unit_of = told_apart_by(manifest.stimuli.source) if observed is None else observed.conversation_of
    texts = replies["text"].astype(str).map(answer_of)
    if manifest.strategy.n_turns > 1:
        stages = folder.parts(STAGES).frame()
        earlier = stages.groupby("prompt_index")["text"].agg("\n".join)
        texts = replies["prompt_index"].map(earlier).fillna("") + "\n" + texts
    names = replies["narrative_id"].astype(str)
    written = texts.where(replies["status"].astype(str).isin(SCORED), "")
    return replies.assign(narrative_id=names, unit=names if unit_of is None else names.map(unit_of), text=written)


def _stories(texts: pd.DataFrame, told: Mapping[str, Sequence[str]]) -> list[Story]:
    """Return the stories of a run, or its conversations."""
    return [
        Story(
            str(unit),
            str(own["emotion"].iloc[0]),
            [text for name in own["narrative_id"].unique() for text in told.get(name, ())],
            [reply for reply in own["text"] if reply],
        )
        for unit, own in texts.groupby("unit", sort=False)
    ]
