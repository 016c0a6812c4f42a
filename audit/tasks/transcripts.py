"""Read replies that nobody asked for here: logs of a deployed assistant, or replies that another tool collected.

One file has the replies, one row each or whole conversations; another maps words to groups. Neither is trusted: any
inconsistency ends in one line that names the file, the line and the remedy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from audit.engines.endings import ending_of
from audit.engines.inspect_log import is_inspect_log, read_inspect_log
from audit.errors import ConfigError, StoreError
from audit.runs.manifest import Manifest
from audit.runs.outside import ABSENT, ReadTable, outside_manifest, read_groups, read_table, stems_of, words_of
from audit.tables.formatting import brief
from audit.tables.replies import ReplyStatus
from stimuli.chat_parts import joined_parts
from stimuli.errors import StimulusError, suggest
from stimuli.files import read_file
from stimuli.identities import NO_PERSONA, UNSPECIFIED
from stimuli.mentions import ARTICLE, either
from stimuli.table_files import MalformedRowError, TableFile
from stimuli.tables import open_table

_OF_GROUP: Final = ("group", "experiencer")  # either names the group that writes, or a word for it
_LABELS: Final = ("match_id", "conversation", "perceiver", *ABSENT)
_TEXTS: Final = ("id", "system", "model", "date", "status", "finish_reason")
COLUMNS: Final = ("message", "reply", *_OF_GROUP, *_LABELS, *_TEXTS, "term", "stem")
"""Our names of the columns of both files."""
_STATUSES: Final = tuple(status.value for status in ReplyStatus)
_SYSTEM: Final = ("system", "developer")
_MOST: Final = 200  # words for groups; each is a column beside every message
_MASK: Final = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, eq=False)
class Transcripts:
    """Replies with the messages that they answer, n rows in file order."""

    # dimension, variant, narrative_id, emotion, perceiver, experiencer, perceiver_group, experiencer_group, id,
    # conversation, message, reply, system, model, date, and status ("" if the file does not tell it)
    rows: pd.DataFrame
    matched: bool  # whether rows have a match id, which is then the narrative_id
    n_unequal: int  # matches in which more differs than the words for the groups
    n_untold: int  # replies that were left out, because their messages tell no group, or several
    n_repeated: int  # chats, or matches, with the messages of an earlier one
    emotion_given: bool
    files: Mapping[str, Any]  # for the manifest
    stems: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def terms(self) -> tuple[str, ...]:
        """All words for perceivers and experiencers."""
        return tuple(dict.fromkeys([*self.rows["perceiver"], *self.rows["experiencer"]]))

    @property
    def n_groups(self) -> int:
        """Groups that are replied to."""
        return int(self.rows["experiencer_group"].nunique())

    @property
    def drawn(self) -> list[str]:
        """Return the dimensions in which not every message was written by every group: the others are not missing."""
        return [
            str(name)
            for name, own in self.rows.groupby("dimension", sort=False)
            if len(own)
            < own[["variant", "narrative_id"]].drop_duplicates().shape[0]
            * own["perceiver"].nunique()
            * own["experiencer"].nunique()
        ]

    def manifest(self, *, command: str, seed: int, model: str | None) -> Manifest:
        """Return the manifest of a run folder with these replies, in one shard."""
        rows, named = self.rows, [name for name in self.rows["model"].unique() if name]
        said = named[0] if len(named) == 1 else f"{len(named)} models" if named else Path(self.files["replies"]).name
        n_matches = rows["narrative_id"].nunique() if self.matched else 0
        return outside_manifest(
            command=command,
            seed=seed,
            model=model or said,
            scale=None,
            source=Path(self.files["replies"]).name,
            variants=list(rows["variant"].unique()),
            dimensions=list(rows["dimension"].unique()),
            emotions=list(rows["emotion"].unique()),
            n_narratives=rows["narrative_id"].nunique(),
            n_prompts=len(rows),
            missing=(),
            n_missing_codes=0,
            files={
                **self.files, "matched": self.matched, "n_unequal": self.n_unequal, "n_matches": n_matches,
                "n_untold": self.n_untold, "n_repeated": self.n_repeated,
            },
        ).having(stems_stated=True, stems=self.stems, pairs_drawn=self.drawn)  # fmt: skip


def read_transcripts(replies: Path, groups: Path | None, *, columns: Mapping[str, str] | None = None) -> Transcripts:
    """Read and check replies that were not asked for here.

    ``replies`` is a table (delimited text, a spreadsheet, Parquet, SPSS's ``.sav``, JSON lines) with ``message`` and
    ``reply``; JSON lines in which ``messages`` is a list of ``{role, content}``; or a log of Inspect. Each answer of
    the assistant is a reply, and an ``id`` of several turns counts as one conversation.

    ``group`` (or ``experiencer``) names the group that writes, or a word for it that ``groups`` maps (``term``,
    ``group`` and, optionally, ``stem`` and ``dimension``). Without such a column the terms are looked for in the
    messages of each conversation up to the reply; replies to messages that tell no group or several are left out and
    counted.

    With ``match_id``, replies of one match are compared. Further columns that are read: ``conversation``,
    ``perceiver``, ``dimension``, ``variant``, ``emotion``, ``system``, ``model``, ``date``, and ``status`` or
    ``finish_reason``. ``columns`` maps our names to those of the files.
    """
    named = dict(sorted((columns or {}).items()))
    if other := next((ours for ours in named if ours not in COLUMNS), None):
        raise ConfigError(f"columns={other}:{named[other]} is for ratings=FILE; {suggest(other, COLUMNS)}")
    table = read_table(
        "replies", replies, ("message", "reply"), (*_OF_GROUP, *_LABELS, *_TEXTS), (), named,
        opened=_opened(replies, named),
    )  # fmt: skip
    mapping = (
        None if groups is None else read_table("groups", groups, ("term", "group"), ("dimension", "stem"), (), named)
    )
    rows = pd.DataFrame({
        name: _column(table, name, absent=absent)
        for name, absent in {
            "match_id": "", "perceiver": NO_PERSONA, **ABSENT, "message": "", "system": "", "model": "", "date": "",
        }.items()
    })  # fmt: skip
    given = table.columns.get("id", [""] * table.n_rows)
    rows["id"] = [own or str(number) for own, number in zip(given, table.numbers, strict=True)]
    rows["conversation"] = _column(table, "conversation", absent="")
    rows["reply"], rows["status"] = table.columns["reply"], _statuses(table)
    table.check()
    matched = "match_id" in table.columns
    if "perceiver" in table.columns and not matched:
        raise ConfigError(
            f"{table.name} has a column 'perceiver' but no 'match_id': without matches, who the model was told to be "
            "cannot be told from what it was asked; add match_id, or leave the column out"
        )
    rows["narrative_id"] = rows["match_id"] if matched else rows["id"]
    told = _told(table, mapping, rows)
    known = np.array([term is not None for term in told])
    if not known.any():
        raise ConfigError(
            f"{table.name}: no message has a term of {mapping.name if mapping else 'groups='}; add a column 'group', "
            "or terms that the messages have"
        )
    rows["experiencer"] = told
    places: list[int] = np.flatnonzero(known).tolist()
    rows = rows.loc[known].reset_index(drop=True)
    by_dimension = mapping is not None and "dimension" in mapping.columns
    group_of = {} if mapping is None else read_groups(mapping, by_dimension=by_dimension)
    for side in ("perceiver", "experiencer"):
        rows[f"{side}_group"] = _groups(table, mapping, rows, side, group_of, places, by_dimension=by_dimension)
    if (n := rows["experiencer"].nunique()) > _MOST:
        raise ConfigError(
            f"{table.name}: {n:,} words for groups are more than {_MOST} that can be compared; give groups, not texts"
        )
    _check_once(table, rows, places, matched=matched)
    asked = _without_groups(rows, [term for _, term in group_of])
    n_unequal = _n_unequal(rows, asked) if matched else 0
    if n_unequal and "perceiver" in table.columns:
        raise ConfigError(
            f"{table.name}: in {n_unequal:,} of the matches more differs than the words for the groups, so δ would not "
            "be of the groups; give equal messages, or leave the column 'perceiver' out"
        )
    rows["conversation"], n_repeated = _units(rows, asked["message"])
    return Transcripts(
        rows=rows,
        matched=matched,
        n_unequal=n_unequal,
        n_untold=int((~known).sum()),
        n_repeated=n_repeated,
        emotion_given="emotion" in table.columns,
        files={
            "replies": str(replies),
            "replies_sha256": table.sha256,
            "groups": "" if groups is None else str(groups),
            "groups_sha256": "" if mapping is None else mapping.sha256,
            "status_given": "status" in table.columns,
            **({"columns": named} if named else {}),
        },
        stems={} if mapping is None else stems_of(mapping, list(rows["dimension"].unique())),
    )


# --- Files -----------------------------------------------------------------------------------------------------------


def _opened(path: Path, named: Mapping[str, str]) -> TableFile | None:
    """Open a log of Inspect, or JSON lines with conversations, as a table of replies; None if it is another table."""
    name = f"replies={path}"
    try:
        content = read_file(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if is_inspect_log(content):
        return _of_log(path, content)
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        return None
    try:
        lines = open_table(path, ["messages"], every=True)
        if "messages" not in lines.header or named.get("reply", "reply") in lines.header:
            return None
        return _of_conversations(lines, name)
    except (StimulusError, MalformedRowError) as error:
        at = f" (line {error.line}: {error})" if isinstance(error, MalformedRowError) else f": {error}"
        raise StoreError(f"{name} cannot be read{at}") from error


def _of_log(path: Path, content: bytes) -> TableFile:
    log = read_inspect_log(path, option="replies")
    found = []
    for number, sample in enumerate(log.samples, start=1):
        said = [text for role, text in sample.asked if role == "user"]
        lost = {"status": ReplyStatus.FAILED.value} if sample.written.text is None else {}
        cut = {"status": ReplyStatus.CUT.value} if sample.written.cut else {}
        found.append((number, {
            **sample.metadata, "id": sample.id if sample.epoch == 1 else f"{sample.id}:{sample.epoch}",
            "message": said[-1] if said else "", "reply": sample.written.text or "", "model": log.model,
            "system": "\n\n".join(text for role, text in sample.asked if role in _SYSTEM), **cut, **lost,
        }))  # fmt: skip
    return _as_table(found, hashlib.sha256(content).hexdigest(), "sample")


def _of_conversations(lines: TableFile, name: str) -> TableFile:
    """Lay out conversations, one row for each answer of the assistant."""
    found = []
    for number, row in lines.rows:
        cells = dict(zip(lines.header, row, strict=False))
        where = f"{name}: {lines.place(number)}"
        beside = _parsed(cells.pop("metadata", ""), dict, where) if cells.get("metadata") else {}
        cells = {key: value if isinstance(value, str) else str(value) for key, value in beside.items()} | cells
        turns = list(_turns(_parsed(cells.pop("messages"), list, where), where))
        if not turns:
            raise ConfigError(f"{where}: no message of the user is followed by one of the assistant; leave it out")
        own = cells.get("id") or str(number)
        for turn, (system, message, reply) in enumerate(turns, start=1):
            several = {"id": f"{own}:{turn}"} if len(turns) > 1 else {"id": own}
            if len(turns) > 1 and cells.get("match_id"):
                several["match_id"] = f"{cells['match_id']}:{turn}"
            of = {"conversation": cells.get("conversation") or own, "message": message, "reply": reply}
            found.append((number, cells | of | several | {"system": system}))
    return _as_table(found, lines.sha256, lines.counts)


def _turns(messages: Sequence[Any], where: str) -> Iterator[tuple[str, str, str]]:
    """Yield each answer of the assistant, after the system prompt and what the user wrote since the answer before."""
    system, said = [], []
    for place, each in enumerate(messages, start=1):
        role = each.get("role") if isinstance(each, Mapping) else None
        content = each.get("content") if isinstance(each, Mapping) else None
        text = content if isinstance(content, str) else joined_parts(content)
        if role in _SYSTEM and text is not None:
            system.append(text)
        elif role == "user" and text is not None:
            said.append(text)
        elif role == "assistant" and (text is not None or content is None):
            if said and text:  # a call of a tool has no text
                yield "\n\n".join(system), "\n\n".join(said), text
                said = []
        elif role not in ("tool", "function"):
            raise ConfigError(
                f"{where}: message {place} is not one of system, user or assistant with a text; write each as "
                '{"role": "user", "content": "..."}'
            )


def _parsed(cell: str, kind: type, where: str) -> Any:
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        form = '{"messages": [{"role": "user", "content": "..."}, ...]}'
        raise ConfigError(f"{where}: messages must be a list and metadata an object, as in {form}")
    return found


def _as_table(found: Sequence[tuple[int, Mapping[str, str]]], sha256: str, counts: str) -> TableFile:
    header = list(dict.fromkeys(name for _, cells in found for name in cells))
    return TableFile(
        header, iter([(n, [cells.get(name, "") for name in header]) for n, cells in found]), sha256, counts
    )


# --- Columns ---------------------------------------------------------------------------------------------------------


def _column(table: ReadTable, name: str, *, absent: str) -> list[str]:
    """Return a column's cells; of labels that the file has, none may be empty."""
    if name in (*_LABELS, "message"):
        return [str(each) for each in words_of(table, name, absent=absent)]
    return table.columns.get(name, [absent] * table.n_rows)


def _statuses(table: ReadTable) -> list[str]:
    """Return each reply's status where the file tells it, else an empty text."""
    if "status" in table.columns:
        given = table.columns["status"]
        unknown = np.array([bool(cell) and cell not in _STATUSES for cell in given])
        table.note(
            unknown, lambda row: f"unknown status {brief(given[row])!r}; {suggest(brief(given[row]), _STATUSES)}"
        )
        return given
    endings = [ending_of({"finish_reason": cell or None}) for cell in table.columns.get("finish_reason", ())]
    strange = np.array([bool(each.unknown) for each in endings], dtype=np.bool_)
    table.note(strange, lambda row: f"{endings[row].unknown} is no known ending; write stop, length, or leave it empty")
    cut, declined = ReplyStatus.CUT.value, ReplyStatus.REFUSED.value
    told = [declined if each.declined else cut if each.cut else "" for each in endings]
    return told or [""] * table.n_rows


def _told(table: ReadTable, mapping: ReadTable | None, rows: pd.DataFrame) -> list[str | None]:
    """Return the word for the group that each row's message is from; None if the messages tell none, or several."""
    given = [name for name in _OF_GROUP if name in table.columns]
    if len(given) > 1:
        raise ConfigError(f"{table.name} has columns 'group' and 'experiencer', which say the same; keep one")
    if given:
        found = list(map(str, words_of(table, given[0])))
        table.check()
        return list(found)
    if mapping is None or "dimension" in mapping.columns:
        remedy = "leave out the dimension in groups=" if mapping is not None else "give groups=FILE with words for them"
        raise ConfigError(f"{table.name} has no column 'group'; add one, or, to find groups in messages, {remedy}")
    group_of = {term: group for (_, term), group in read_groups(mapping, by_dimension=False).items()}
    folded = {ARTICLE.sub("", term).casefold(): term for term in group_of}
    pattern = re.compile(rf"(?<!\w)(?:{either(folded)})(?!\w)", re.IGNORECASE)
    heard: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by conversation: the first term of each group
    told: list[str | None] = []
    for conversation, message in zip(rows["conversation"], rows["message"], strict=True):
        own = heard[conversation] if conversation else {}
        for match in pattern.finditer(message):
            term = folded.get(match[0].casefold(), "")
            if not term:  # a letter whose cases are not one another's
                continue
            own.setdefault(group_of[term], term)
        told.append(next(iter(own.values())) if len(own) == 1 else None)
    return told


def _groups(
    table: ReadTable,
    mapping: ReadTable | None,
    rows: pd.DataFrame,
    side: str,
    group_of: Mapping[tuple[str, str], str],
    places: Sequence[int],
    *,
    by_dimension: bool,
) -> list[str]:
    """Return the group of each row's perceiver or experiencer: as mapped, else its own name."""
    found = []
    groups = set(group_of.values())
    for row, (dimension, term) in enumerate(zip(rows["dimension"], rows[side], strict=True)):
        group = group_of.get((dimension if by_dimension else "", term))
        if group is None and term.casefold() in (NO_PERSONA, UNSPECIFIED):
            group = term.casefold()
        if group is None and mapping is not None and term not in groups:
            raise ConfigError(
                f"{mapping.name}: has no group for the term {brief(term)!r} (first: {table.place(places[row])} of "
                f"{table.name}); add it, or correct its wording: {suggest(brief(term), [name for _, name in group_of])}"
            )
        found.append(group or term)
    return found


def _check_once(table: ReadTable, rows: pd.DataFrame, places: Sequence[int], *, matched: bool) -> None:
    key = ["dimension", "variant", "narrative_id", "perceiver", "experiencer"] if matched else ["id"]
    again = rows.duplicated(key).to_numpy()
    first = rows.loc[~again].assign(place=np.asarray(places)[~again]).set_index(key)["place"]
    wrong = np.zeros(table.n_rows, dtype=np.bool_)
    wrong[np.asarray(places)[again]] = True
    of_place = {int(place): row for row, place in enumerate(places)}

    def fault(place: int) -> str:
        row = rows.iloc[of_place[place]]
        values = tuple(row[name] for name in key)
        where = table.place(int(first.loc[values if len(values) > 1 else values[0]]))
        if matched:
            return (
                f"match {brief(row['narrative_id'])!r} has another reply to {brief(row['experiencer'])!r} on {where}; "
                "give each pair its own match_id"
            )
        return f"the id {brief(row['id'])!r} is on {where} already; give each reply its own id"

    table.refuse(wrong, fault)


def _without_groups(rows: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Return messages and system prompts with the words for the groups masked."""
    words = {ARTICLE.sub("", term) for term in (*terms, *rows["experiencer"], *rows["experiencer_group"])}
    named = re.compile(rf"(?<!\w)(?:(?:an?|the)\s+)?(?:{either(words)})(?!\w)", re.IGNORECASE)
    return rows[["message", "system"]].map(lambda text: " ".join(named.sub(_MASK, text).split()))


def _n_unequal(rows: pd.DataFrame, asked: pd.DataFrame) -> int:
    """Count the matches in which more differs than the words for the groups: also when they were asked."""
    match = rows["dimension"] + "\0" + rows["variant"] + "\0" + rows["narrative_id"]
    days = days_of(rows["date"]).groupby(match)
    apart = days.max() - days.min() > 1  # a run may pass midnight
    texts = asked["message"] + "\0" + asked["system"] + "\0" + rows["model"]
    return int((apart | (texts.groupby(match).nunique() > 1)).sum())


def days_of(dates: pd.Series) -> pd.Series:
    """Return dates as days since 2000; NaN for what is no date."""
    found = pd.to_datetime(dates.astype(str), errors="coerce", utc=True, format="mixed")
    return (found - pd.Timestamp("2000-01-01", tz="UTC")) / pd.Timedelta(days=1)


def _units(rows: pd.DataFrame, asked: pd.Series) -> tuple[list[str], int]:
    """Return what each row's narrative counts together with, and how many units repeat the messages of another.

    Narratives that share a conversation are one unit. So are chats in which the same was written but for the words for
    the groups: the same question again, or a copy of the chat, tells nothing of other questions.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    narrative, names = pd.factorize(rows["narrative_id"])
    # without a conversation, a row is one by itself
    own = np.where(rows["conversation"] == "", "\0" + rows["narrative_id"], rows["conversation"])
    conversation, found = pd.factorize(own)
    n = len(names) + len(found)
    links = coo_array((np.ones(len(rows)), (narrative, len(names) + conversation)), shape=(n, n))
    n_apart, unit = connected_components(links, directed=False)
    written = asked.groupby(unit[narrative]).agg(frozenset)
    alike, different = pd.factorize(written)  # whose index is 0 to n_apart - 1
    return list(rows.groupby(alike[unit[narrative]])["narrative_id"].transform("first")), n_apart - len(different)
