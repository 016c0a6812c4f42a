"""Conversations from a user's own corpus, as narratives: whose emotion is asked about, and what in them brought it on.

One narrative is one utterance with what was said before it. Speakers are shown as "Person A", "Person B", so that a
name does not say who they are; names inside an utterance stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, TypeAlias

from stimuli.errors import Faults, StimulusError, suggest
from stimuli.hashes import fingerprint
from stimuli.narratives import EmotionWords, Narrative, Narratives, emotion_words, hash_of
from stimuli.tables import read_cells

BETWEEN_CAUSES: Final = "||"  # stands between several causes of one cell

Shown: TypeAlias = Literal["lines", "turns", "speaker"]

_NEEDED: Final = ("conversation_id", "turn", "speaker", "text", "emotion")
NO_EVIDENCE: Final = "none"  # in a cell of evidence: people marked that no utterance caused the emotion

_MAY_BE_EMPTY: Final = ("emotion", "identity", "cause", "evidence")
_ASKED: Final = "The last line, said by {}, is the one asked about."
_CANDIDATE: Final = "The possible cause is line {}."
_SEPARATORS: Final = re.compile(r"[\s_-]+")


@dataclass(frozen=True)
class Conversations:
    """Utterances to ask about."""

    # One an utterance with an emotion, conversation by conversation and turn by turn, the same text in all wordings:
    # as read_conversations says. narrative_id is conversation_id:turn, emotion the corpus' label.
    narratives: Narratives
    labels: tuple[str, ...]  # the emotions there are, sorted: what a model chooses from
    identities: Mapping[str, str]  # narrative_id → the speaker's own identity, if the corpus has them
    # narrative_id → what brought the emotion on, empty if nothing that was said did; no entries without causes. Of
    # pairs the candidate's text if it is a cause, else empty.
    causes: Mapping[str, tuple[str, ...]]
    sha256: str  # of all of these
    # Label → other words that are read as it in an answer. In no hash, since nothing that is asked depends on them.
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # narrative_id → the utterances that are shown, in order, the one with the emotion last; those with causes alone
    utterances: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def choice(self) -> str:
        """The labels as a prompt names them: ``anger, joy or sadness``."""
        return f"{', '.join(self.labels[:-1])} or {self.labels[-1]}"


@dataclass(frozen=True, slots=True)
class _Utterance:
    place: str
    conversation_id: str
    turn: int
    speaker: str
    text: str
    emotion: str
    identity: str
    causes: tuple[str, ...]
    evidence: tuple[int, ...] | None  # turns of the utterances that caused the emotion; None if nobody marked any

    @property
    def is_asked(self) -> bool:
        """Whether its emotion is asked about: of "!" nobody could tell it."""
        return bool(self.emotion) and _has_word(self.text)


def read_conversations(
    path: Path,
    columns: Mapping[str, str | Sequence[str] | None],
    *,
    history: int | None,  # show at most so many earlier utterances; None shows all
    keep_names: bool = False,  # in place of "Person A" and so on, letters in the order in which they first speak
    synonyms: Mapping[str, Sequence[str]] | None = None,  # label → other words for it, such as joy → happiness
    missing: Sequence[str] = (),  # what stands for an empty cell, such as NA
    shown: Shown = "lines",
    first_speaker: bool = False,  # whether the label is of the conversation, and of who speaks first
    n_later: int = 0,  # of `speaker`: messages after the first that are asked about, too
    pairs: bool = False,  # one narrative for each utterance that is shown as a possible cause; needs `evidence`
) -> Conversations:
    """Read a corpus of conversations whose utterances have emotions, and perhaps causes.

    ``columns`` has the file's column for each of ``conversation_id turn speaker text emotion``, and ``identity``,
    ``cause`` and ``evidence``, or None for the last three. Several columns may identify a conversation. A turn is a
    whole number, and utterances are in its order. An utterance whose emotion is empty, or whose text has no letter or
    digit ("!"), is shown, but not asked about. An identity is its speaker's throughout the conversation. A cause is
    words of this or an earlier utterance; ``||`` stands between several, any of which is right, and an empty cell says
    that there is none. Evidence is the turns of the utterances that caused the emotion, with ``||`` between several;
    ``none`` says that no utterance did, and an empty cell that nobody marked any: with a column of evidence, such an
    utterance is only shown.

    ``shown`` says what a narrative is. ``lines``: lines "speaker: text", the utterance itself last, and a sentence that
    says so. ``turns``: the speaker's first line, with their later ones in ``later`` and what others said between them
    in ``answered``; what others said before it is left out. ``speaker``: one narrative a conversation, its first
    utterance, with ``n_later`` messages of the same speaker in ``later``. Lines that one side says in a row are one
    message.

    With ``pairs`` there is a narrative for each utterance and each possible cause, itself or one of the earlier ones
    that are shown. Its ``narrative_id`` is ``conversation_id:turn.turn``, the candidate's turn last; lines are
    numbered.

    StimulusError if a turn stands twice in its conversation; a speaker has two identities; a cause is in no utterance
    that is shown; evidence is of no turn up to this one; a label is no word, is written in two ways, or is the only
    one; a synonym is of no label, is no word, or is a label or another's.

    Notes
    -----
    RECCON [1]_ asks for a cause's words in one given utterance at a time; here they are asked for once, of all that is
    shown. Its causal entailment asks of each utterance of the history, the target among them, whether it is a cause:
    ``pairs``.

    References
    ----------
    .. [1] Poria et al. (2021), Recognizing Emotion Cause in Conversations, arXiv:2012.11820.
    """
    if history is not None and history < 0:
        raise StimulusError(
            f"stimuli.conversations.history={history} must be at least 0; null shows all earlier utterances"
        )
    named = {ours: theirs for ours, theirs in columns.items() if theirs is not None}
    for ours in _NEEDED:
        if ours not in named:
            raise StimulusError(f"stimuli.conversations.{ours} must name a column of {path}")
    conversations = _conversations(path, named, missing)
    if "evidence" in named:
        conversations = [
            [each if each.evidence is not None else replace(each, emotion="") for each in said]
            for said in conversations
        ]
    if first_speaker:
        conversations = [
            [each if each.speaker == said[0].speaker else replace(each, emotion="") for each in said]
            for said in conversations
        ]
    targets = [each for said in conversations for each in said if each.is_asked]
    labels = _labels(targets, path)
    others = _synonyms(synonyms or {}, labels, path)
    narratives: list[Narrative] = []
    identities: dict[str, str] = {}
    causes: dict[str, tuple[str, ...]] = {}
    utterances: dict[str, tuple[str, ...]] = {}
    faults = Faults(str(path))
    n_short = 0
    for said in conversations:
        shown_as, whose = _names(said, keep_names=keep_names), _identities(said)
        for place, target in enumerate(said):
            if not target.is_asked or (place and shown == "speaker"):
                continue
            window = said[0 if history is None else max(0, place - history) : place + 1]
            if unsaid := sorted({*(target.evidence or ())} - {each.turn for each in said[: place + 1]}):
                faults.add(
                    target.place,
                    f"the evidence {unsaid[0]} is no turn of this conversation up to this one ({target.turn}); give "
                    "turns of this or earlier utterances",
                )
            if pairs:
                for candidate in window:
                    narrative = _narrative(target, _pair(target, candidate, window, shown_as), candidate)
                    narratives.append(narrative)
                    identities[narrative.narrative_id] = whose.get(target.speaker, "")
                    is_cause = candidate.turn in (target.evidence or ())
                    causes[narrative.narrative_id] = (candidate.text,) if is_cause else ()
                continue
            narrative = _narrative(target, _lines(target, window, shown_as))
            if shown != "lines":
                messages = _messages(target, window if shown == "turns" else said)
                own = messages[::2]
                if shown == "speaker" and len(own) <= n_later:
                    n_short += 1
                    continue
                later, answered = (own[1:], messages[1::2]) if shown == "turns" else (own[1 : 1 + n_later], ())
                narrative = replace(_narrative(target, own[0]), later=later, answered=answered)
            narratives.append(narrative)
            identities[narrative.narrative_id] = whose.get(target.speaker, "")
            if "cause" in named:
                try:
                    _check_causes(target, window, said)
                except StimulusError as fault:
                    faults.add(target.place, str(fault).removeprefix(f"{target.place}: "))
                causes[narrative.narrative_id] = target.causes
                utterances[narrative.narrative_id] = tuple(each.text for each in window)
    faults.check()
    if not narratives:
        raise StimulusError(
            f"{path}: in no conversation does the person who begins it write {1 + n_later} messages; use fewer turns"
        )
    of_narratives = hash_of(narratives)
    return Conversations(
        Narratives(
            "conversations",
            tuple(narratives),
            len(narratives),
            of_narratives,
            n_not_asked=sum(bool(each.emotion) and not each.is_asked for said in conversations for each in said),
            n_short=n_short,
        ),
        labels,
        identities,
        causes,
        fingerprint([of_narratives, labels, identities, causes]),
        others,
        utterances,
    )


def _conversations(
    path: Path, columns: Mapping[str, str | Sequence[str]], missing: Sequence[str]
) -> list[list[_Utterance]]:
    """Return the utterances by conversation, in order of first appearance, and by turn."""
    by_id: dict[str, dict[int, _Utterance]] = {}
    faults = Faults(str(path))
    for place, cells in read_cells(path, columns, of="utterances", may_be_empty=_MAY_BE_EMPTY, missing=missing):
        try:
            said = _utterance(place, cells)
        except StimulusError as fault:
            faults.add(place, str(fault))
            continue
        turns = by_id.setdefault(said.conversation_id, {})
        if said.turn in turns:
            faults.add(
                place,
                f"turn {said.turn} of conversation {said.conversation_id!r} occurs twice (also "
                f"{_line(turns[said.turn])}); give each utterance its own turn, or list all columns that identify "
                "a conversation: stimuli.conversations.conversation_id=[A,B]",
            )
        turns.setdefault(said.turn, said)
    faults.check()
    return [[turns[turn] for turn in sorted(turns)] for turns in by_id.values()]


def _utterance(place: str, cells: Mapping[str, str]) -> _Utterance:
    """Return a row's utterance; StimulusError, without its place, if it is none."""
    # Line breaks would make lines of their own, which another speaker could seem to have said.
    line = {name: " ".join(cell.split()) for name, cell in cells.items()}
    if not re.fullmatch(r"[0-9]{1,9}", line["turn"]):
        raise StimulusError(f"the turn {line['turn']!r} is not a whole number; number the turns of each conversation")
    if line["emotion"] and not any(character.isalpha() for character in line["emotion"]):
        raise StimulusError(
            f"the emotion {line['emotion']!r} is not a word that a model could choose; write the name of an emotion"
        )
    causes = [cause.strip() for cause in line.get("cause", "").split(BETWEEN_CAUSES)] if line.get("cause") else []
    for cause in causes:
        if not _has_word(cause):
            raise StimulusError(
                f"the cause {cause!r} has no letter or digit; write words of an utterance, or leave it empty"
            )
    return _Utterance(
        place=place,
        conversation_id=line["conversation_id"],
        turn=int(line["turn"]),
        speaker=line["speaker"],
        text=line["text"],
        emotion=line["emotion"],
        identity=line.get("identity", ""),
        causes=tuple(dict.fromkeys(causes)),
        evidence=_evidence(line.get("evidence", "")),
    )


def _evidence(cell: str) -> tuple[int, ...] | None:
    """Return the turns of a cell; None if it is empty."""
    if not cell or cell.casefold() == NO_EVIDENCE:
        return () if cell else None
    turns = [turn.strip() for turn in cell.split(BETWEEN_CAUSES)]
    for turn in turns:
        if not re.fullmatch(r"[0-9]{1,9}", turn):
            raise StimulusError(
                f"the evidence {turn!r} is not a turn; write the turns of the utterances that caused the emotion, with "
                f"{BETWEEN_CAUSES} between them, or {NO_EVIDENCE} if none did"
            )
    return tuple(dict.fromkeys(map(int, turns)))


def _labels(targets: Sequence[_Utterance], path: Path) -> tuple[str, ...]:
    """Return the labels, sorted; StimulusError where there is nothing to choose from."""
    first: dict[str, _Utterance] = {}
    for target in targets:
        earlier = first.setdefault(_SEPARATORS.sub(" ", target.emotion.lower()), target)
        if earlier.emotion != target.emotion:
            raise StimulusError(
                f"{target.place}: the emotion {target.emotion!r} is {earlier.emotion!r} on {_line(earlier)}; write it "
                "in one way"
            )
    labels = tuple(sorted(target.emotion for target in first.values()))
    if len(labels) < 2:
        only = f"is {labels[0]!r} throughout" if labels else "is empty throughout"
        raise StimulusError(f"{path}: the emotion {only}; give utterances of at least two emotions")
    return labels


def _synonyms(synonyms: Mapping[str, Sequence[str]], labels: Sequence[str], path: Path) -> dict[str, tuple[str, ...]]:
    """Return the synonyms; StimulusError where an answer could not be read by them."""
    of = {_SEPARATORS.sub(" ", label.lower()): label for label in labels}
    for label, words in synonyms.items():
        where = f"stimuli.conversations.synonyms.{label}"
        if label not in labels:
            raise StimulusError(f"{where}: {label!r} is not an emotion in {path}; {suggest(label, labels)}")
        for word in words:
            plain = _SEPARATORS.sub(" ", word.strip().lower())
            if not any(character.isalpha() for character in plain):
                raise StimulusError(f"{where}: {word!r} is not a word that a model could write; leave it out")
            if (other := of.setdefault(plain, label)) != label:
                raise StimulusError(f"{where}: {word!r} is already a synonym of {other!r}; give each word one emotion")
    return {label: tuple(words) for label, words in synonyms.items()}


def _names(said: Sequence[_Utterance], *, keep_names: bool) -> dict[str, str]:
    """Return what each speaker is shown as."""
    speakers = dict.fromkeys(each.speaker for each in said)
    if keep_names:
        return {speaker: speaker for speaker in speakers}
    return {speaker: f"Person {_letters(number)}" for number, speaker in enumerate(speakers, start=1)}


def _letters(number: int) -> str:
    """Write a number from 1 as a spreadsheet's column: A ... Z, AA, AB ..."""
    more, last = divmod(number - 1, 26)
    return (_letters(more) if more else "") + chr(ord("A") + last)


def _identities(said: Sequence[_Utterance]) -> dict[str, str]:
    """Return each speaker's identity, where one is given."""
    first: dict[str, _Utterance] = {}
    for each in said:
        if not each.identity:
            continue
        earlier = first.setdefault(each.speaker, each)
        if earlier.identity != each.identity:
            raise StimulusError(
                f"{each.place}: the identity of speaker {each.speaker!r} is {each.identity!r} here and "
                f"{earlier.identity!r} on {_line(earlier)}; give a speaker one identity in a conversation"
            )
    return {speaker: each.identity for speaker, each in first.items()}


def _lines(target: _Utterance, shown: Sequence[_Utterance], shown_as: Mapping[str, str]) -> str:
    lines = [f"{shown_as[each.speaker]}: {each.text}" for each in shown]
    return "\n".join([*lines, "", _ASKED.format(shown_as[target.speaker])])


def _pair(target: _Utterance, candidate: _Utterance, shown: Sequence[_Utterance], shown_as: Mapping[str, str]) -> str:
    lines = [f"{number}. {shown_as[each.speaker]}: {each.text}" for number, each in enumerate(shown, start=1)]
    asked = _ASKED.format(shown_as[target.speaker])
    return "\n".join([*lines, "", f"{asked} {_CANDIDATE.format(shown.index(candidate) + 1)}"])


def _messages(target: _Utterance, said: Sequence[_Utterance]) -> tuple[str, ...]:
    """Return what the target's speaker says, and what is answered, in turn: from their first line on."""
    sides = [(own, "\n".join(each.text for each in each_of)) for own, each_of in
             groupby(said, key=lambda each: each.speaker == target.speaker)]  # fmt: skip
    return tuple(text for _, text in (sides if sides[0][0] else sides[1:]))


def _narrative(target: _Utterance, text: str, candidate: _Utterance | None = None) -> Narrative:
    words = emotion_words().get(target.emotion, EmotionWords("", ""))
    of = "" if candidate is None else f".{candidate.turn}"
    return Narrative(f"{target.conversation_id}:{target.turn}{of}", target.emotion, words, text, text, text)


def _check_causes(target: _Utterance, shown: Sequence[_Utterance], said: Sequence[_Utterance]) -> None:
    """Raise StimulusError for a cause that cannot be found in what is shown, whatever its case."""
    for cause in target.causes:
        if any(_holds(each, cause) for each in shown):
            continue
        missing = f"{target.place}: the cause {cause!r} is in no shown utterance"
        holding = [each for each in said if _holds(each, cause)]
        if not holding:
            raise StimulusError(f"{missing}; copy the words from this or an earlier utterance of the conversation")
        hidden = [each for each in holding if each.turn < target.turn]
        if not hidden:
            raise StimulusError(f"{missing}, but occurs later ({_line(holding[0])}); use words said up to this turn")
        n_before = sum(hidden[-1].turn <= each.turn < target.turn for each in said)
        raise StimulusError(
            f"{missing}, but earlier ({_line(hidden[-1])}); set stimuli.conversations.history={n_before} or null"
        )


def _holds(said: _Utterance, cause: str) -> bool:
    return cause.casefold() in said.text.casefold()


def _has_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _line(said: _Utterance) -> str:
    """Say where an utterance stands, within the file that a message has named."""
    return said.place.rpartition(": ")[2]
