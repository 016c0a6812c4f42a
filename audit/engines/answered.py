"""An engine for answers that another stack collected: a file with a line or row for each prompt id.

A line has an id and the model's text under one of the names in :data:`TEXTS`, or it is a line of a batch's output in
the form of OpenAI (chat completions or responses), Anthropic or Gemini, or an answer of Ollama's. Logs of Inspect are
read too; their sample ids are prompt ids. Nothing is guessed: anything unclear ends in one line that says where it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from audit.engines.base import Done, EngineFacts, Generated, OpenModel, storable, unwatched
from audit.engines.endings import SIGNS, ending_of, letters_of
from audit.engines.inspect_log import InspectLog, is_inspect_log, read_inspect_log
from audit.errors import ConfigError, ModelError, StoreError
from stimuli.chat_parts import cell_text, has_refused, joined_parts
from stimuli.errors import StimulusError
from stimuli.files import LARGEST_TABLE, read_file, unpacked_size
from stimuli.hashes import fingerprint
from stimuli.prompts import Prompt
from stimuli.table_files import SUFFIXES, MalformedRowError
from stimuli.tables import open_table

TEXTS: Final = ("text", "response", "output", "completion", "content", "answer")  # names of the model's text in a line
_WHOLE: Final = ("result", "message")  # names of a whole answer in a line without a text: Anthropic, Ollama
_IDS: Final = ("custom_id", "id")  # in a table
_LINE_IDS: Final = (*_IDS, "key")  # in a line; "key" is Gemini's
_WITHOUT: Final = frozenset({"errored", "canceled", "expired"})  # Anthropic's results without an answer
_NO_ERROR: Final = frozenset({"", "none", "null", "nan", "false"})  # in a table's column "error"
_MODELS: Final = ("model", "modelVersion")  # where OpenAI, Anthropic and Ollama, and Gemini name the model
_TABLES: Final = SUFFIXES - {".jsonl", ".ndjson"}
"""Suffixes of tables. JSON lines are read separately, since they may have whole completions."""
_LARGEST_LOG: Final = 4 * LARGEST_TABLE  # bytes of an unpacked log, which repeats every prompt
_SHOWN: Final = 60  # characters of an id to show
Messages: TypeAlias = Sequence[tuple[str, str]]  # (role, text) of what a model is shown, in order


@dataclass(frozen=True)
class FileAnswers:
    """Answers read from a file."""

    texts: Mapping[int, Generated]  # by prompt index; prompts without an answer have no entry
    n_prompts: int
    n_without: int  # lines that say themselves that there is no answer
    n_repeated: int  # lines that repeat an earlier one
    path: Path
    sha256: str
    model: str = ""  # as the file names it; empty if it does not
    by: str = ""  # the stack that asked, as the file names it
    remarks: tuple[str, ...] = ()  # what readers of the answers must know besides

    @property
    def n_unsigned(self) -> int:
        """Texts that the file marks as neither complete nor cut."""
        return sum(text.cut is None for text in self.texts.values())

    @property
    def n_absent(self) -> int:
        """Prompts without a line."""
        return self.n_prompts - len(self.texts) - self.n_without


@dataclass(frozen=True)
class _Answer:
    """An answer in a file: its place in full and in short, its prompt id, the text, and the model."""

    where: str
    spot: str
    id: str
    text: Generated | None
    model: str = ""  # that gave it; empty if the file does not say


def read_answers_file(
    path: Path, *, export: str, n_prompts: int, asked: Callable[[], Sequence[Messages]] | None = None
) -> FileAnswers:
    """Read and check answers from JSON lines (empty ones are skipped), a log of Inspect, or a table.

    A table has ``id`` and a column of :data:`TEXTS`. ``export`` begins the run's prompt ids. A log's messages are
    compared with those that ``asked`` returns, if given.
    """
    name = f"answers={path}"
    try:
        content = read_file(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if (size := unpacked_size(content)) > _LARGEST_LOG:
        raise StoreError(f"{name} unpacks to {size >> 20:,} MiB, and the limit is {_LARGEST_LOG >> 20:,} MiB; split it")
    log = read_inspect_log(path) if is_inspect_log(content) else None
    if log is not None and asked is not None:
        _check_asked(log, name, asked(), export=export)
    texts: dict[int, Generated | None] = {}
    first: dict[int, str] = {}
    model, named = "", ""  # the file's model, and where it is named first
    n_repeated = 0
    if log is not None:
        answers = _of_log(log, name)
    else:
        answers = _of_table(path, name) if path.suffix.lower() in _TABLES else _of_lines(content, name)
    for answer in answers:
        place = _place(answer.id, answer.where, export=export, n_prompts=n_prompts)
        text = answer.text
        if place in texts:
            if texts[place] != text:
                raise ConfigError(
                    f"{answer.where}: prompt {export}-{place} has another answer {first[place]}, but a run has one "
                    "answer per prompt; keep one, and put each further round of answers in its own file and run"
                )
            n_repeated += 1
        if text is not None and answer.model:
            if model and answer.model != model:
                raise ConfigError(
                    f"{answer.where}: is an answer of model {answer.model[:_SHOWN]!r}, but that {named} is of "
                    f"{model[:_SHOWN]!r}; a run has one model: give each its own file and run"
                )
            model, named = answer.model, named or answer.spot
        texts.setdefault(place, text)
        first.setdefault(place, answer.spot)
    found = {place: text for place, text in texts.items() if text is not None}
    if not found:
        takes = f"it needs one line of JSON per prompt: {_FORM}" if log is None else "every sample failed; see the log"
        raise ConfigError(f"{name} has no answer; {takes}")
    sha256 = hashlib.sha256(content).hexdigest()
    read = FileAnswers(found, n_prompts, len(texts) - len(found), n_repeated, path, sha256, model)
    return read if log is None else replace(read, model=log.model, by=log.by, remarks=tuple(_remarks(log)))


def _of_lines(content: bytes, name: str) -> Iterator[_Answer]:
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if raw.strip():
            where = f"{name}: line {number}"
            line = _object(raw, where)
            yield _Answer(where, f"on line {number}", _id(line, where), _text(line, where), _model(line))


def _of_table(path: Path, name: str) -> Iterator[_Answer]:
    try:
        table = open_table(path, (), also=(*_IDS, *TEXTS, *SIGNS), long_cells=True)
        header = [column.casefold() for column in table.header]
        own, text = (_column(header, names, name) for names in (_IDS, TEXTS))
        for number, row in table.rows:
            place = table.place(number)
            if len(row) > len(header):
                raise ConfigError(
                    f"{name}: {place} has {len(row)} cells and the header {len(header)}; put text in quotation marks"
                )
            written, where = row[text] if text < len(row) else "", f"{name}: {place}"
            answer, told = None, dict(zip(header, row, strict=False))  # rows may be shorter than the header
            if written.strip() and told.get("error", "").strip().casefold() in _NO_ERROR:
                answer = _ended(Generated(storable(cell_text(written)), 0, None), told, where)
            yield _Answer(where, f"on {place}", row[own].strip() if own < len(row) else "", answer, _model(told))
    except (StimulusError, MalformedRowError) as error:
        at = f": line {error.line}: " if isinstance(error, MalformedRowError) else ""
        raise StoreError(f"{name}{at}{str(error).removeprefix(str(path))}") from error


def _column(header: Sequence[str], names: Sequence[str], name: str) -> int:
    """Return the position of the one column with one of these names."""
    places = [place for place, column in enumerate(header) if column in names]
    if len(places) != 1:
        raise ConfigError(
            f"{name} needs one column of {', '.join(names)}, and has {len(places)}; its columns are: "
            f"{', '.join(header)[:300] or 'none'}"
        )
    return places[0]


def _of_log(log: InspectLog, name: str) -> Iterator[_Answer]:
    for sample in log.samples:
        where = f"{name}: sample {sample.id[:_SHOWN]!r} of epoch {sample.epoch}"
        written = None if sample.written.text is None else sample.written
        yield _Answer(where, f"in epoch {sample.epoch}", sample.id, written)


def _check_asked(log: InspectLog, name: str, prompts: Sequence[Messages], *, export: str) -> None:
    """Refuse a log whose samples were asked other messages: a solver may have added or changed some."""
    for sample in log.samples:
        where = f"{name}: sample {sample.id[:_SHOWN]!r}"
        if tuple(sample.asked) != tuple(prompts[_place(sample.id, where, export=export, n_prompts=len(prompts))]):
            raise ConfigError(
                f"{where} was not asked with the messages in prompts=; let `inspect eval audit/empathy_gap` send "
                "them unchanged, without another solver"
            )


def _remarks(log: InspectLog) -> Iterator[str]:
    if log.temperature is None:
        yield (
            f"{log.by} was given no temperature: the provider's default was used, and another round may answer "
            "differently"
        )
    elif log.temperature > 0:
        yield (
            f"{log.by} asked at temperature {log.temperature:g}: another round would answer differently, which the "
            "intervals do not include"
        )


_FORM: Final = '{"id": "...", "text": "..."}'


def _object(raw: bytes, where: str) -> dict[str, Any]:
    try:
        line = json.loads(raw.decode("utf-8-sig"))
    except ValueError as error:  # not UTF-8, or no JSON
        raise ConfigError(f"{where} is not JSON ({error}); each line is one object: {_FORM}") from error
    except RecursionError as error:
        raise ConfigError(f"{where} cannot be read as JSON; each line is one object: {_FORM}") from error
    if not isinstance(line, dict):
        raise ConfigError(f"{where} must be a JSON object, but is {_kind(line)}; each line is one object: {_FORM}")
    return line


def _id(line: Mapping[str, Any], where: str) -> str:
    # A batch's line has an id of its own; ours is custom_id.
    named = next((line[name] for name in _LINE_IDS if name in line), None)
    if not isinstance(named, str):
        raise ConfigError(f"{where} has no id; give each answer the id of its prompt: {_FORM}")
    return named


def _place(named: str, where: str, *, export: str, n_prompts: int) -> int:
    """Return the prompt index of an id."""
    own, _, number = named.rpartition("-")
    shown = repr(named[:_SHOWN])
    if own != export:
        raise ConfigError(
            f"{where}: id {shown} belongs to other prompts, with ids from {own[:_SHOWN]!r}; ids in prompts= begin "
            f"{export!r}: give the file of prompts that were asked"
        )
    if not (number.isascii() and number.isdigit() and str(int(number[:12])) == number and int(number) < n_prompts):
        raise ConfigError(f"{where}: no prompt has the id {shown}; ids end in -0 to -{n_prompts - 1}")
    return int(number)


def _text(line: Mapping[str, Any], where: str) -> Generated | None:
    """Return the model's text; None if the line says that there is no answer."""
    if line.get("error"):  # a text beside it is the error's own, or a part of an answer
        return None
    named = [name for name in TEXTS if name in line] or [name for name in _WHOLE if isinstance(line.get(name), dict)]
    if len(named) > 1:
        raise ConfigError(f"{where} has {' and '.join(named)}; keep only the one with the model's text")
    if not named:
        raise ConfigError(f"{where} has no model text; call it {', '.join(TEXTS[:-1])} or {TEXTS[-1]}: {_FORM}")
    given = line[named[0]]
    if given is None:
        return None
    if isinstance(given, str):
        return _ended(Generated(storable(given), 0, None), line, where)
    if isinstance(given, list):
        return _ended(_of_parts(given, f"{where}: {named[0]}"), line, where)
    if not isinstance(given, dict):
        raise ConfigError(f"{where}: {named[0]} is {_kind(given)}, but must be text or a chat completion")
    status = given.get("status_code", 200)
    body = given.get("body", given)
    failed = isinstance(body, dict) and body.get("error")
    if failed or (isinstance(status, int) and status >= 400) or given.get("type") in _WITHOUT:
        return None
    return _ended(_completion(body, f"{where}: {named[0]}"), line, where)


def _model(told: Mapping[str, Any], depth: int = 3) -> str:
    """Return the model that a line, or the whole answer in it, names; empty if none."""
    own = next((name for name in map(told.get, _MODELS) if isinstance(name, str) and name.strip()), "")
    inner = [told.get(name) for name in (*TEXTS, *_WHOLE, "body")] if depth else []
    inside = (_model(each, depth - 1) for each in inner if isinstance(each, dict))
    return " ".join(storable(own).split()) or next(filter(None, inside), "")


def _ended(written: Generated, told: Mapping[str, Any], where: str) -> Generated:
    """Return a text with how it ended, from everything beside it."""
    ending = ending_of(told)
    if ending.unknown:
        raise ConfigError(
            f"{where} has {ending.unknown}, which is not a known ending: write stop if the text is complete, "
            "length if it was cut, or leave it empty if you do not know"
        )
    return replace(written, cut=ending.cut, refused=written.refused or ending.declined)


def _completion(body: Any, where: str) -> Generated:
    """Return the text of a chat completion, or of another provider's whole answer."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if isinstance(body, dict) and choices is None and (written := _of_provider(body, where)) is not None:
        return written
    if not (isinstance(choices, list) and choices):
        raise ConfigError(f"{where} is not a chat completion (it has no choices); give only the model's text: {_FORM}")
    if len(choices) > 1:
        raise ConfigError(f"{where} has {len(choices)} choices, but a run has one answer per prompt; ask with n=1")
    choice = choices[0] if isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ConfigError(f"{where} has a choice without a message; give only the model's text: {_FORM}")
    text, declined = message.get("content"), message.get("refusal")
    if isinstance(text, list):
        written = _of_parts(text, f"{where} has a message whose content")
        return replace(written, refused=written.refused or bool(declined))
    if not isinstance(text, str):
        # No text: reasoning used all tokens, or the answer is a tool call.
        text = declined if isinstance(declined, str) else ""
    return Generated(storable(text), 0, None, None, bool(declined))


def _of_provider(body: Mapping[str, Any], where: str) -> Generated | None:
    """Return the text of an answer without choices; None if it is in no known form."""
    feedback = body.get("promptFeedback")
    if isinstance(body.get("candidates"), list) or (isinstance(feedback, dict) and feedback.get("blockReason")):
        candidates = body.get("candidates") or [{}]  # Gemini: without any, the prompt was blocked
        if len(candidates) > 1:
            raise ConfigError(
                f"{where} has {len(candidates)} candidates, but a run has one answer per prompt; ask for one"
            )
        content = candidates[0].get("content") if isinstance(candidates[0], dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        return replace(_of_parts(parts or [], f"{where}.candidates"), refused=not body.get("candidates"))
    if isinstance(body.get("message"), dict):  # Ollama's answer, Anthropic's result
        return _of_provider(body["message"], f"{where}.message")
    for name in ("content", "output"):
        value = body.get(name)
        if isinstance(value, list) and (value or letters_of(str(body.get("type", body.get("object")))) in _ANSWERS):
            return _of_parts(value, f"{where}.{name}")
        if isinstance(value, str) and "role" in body:
            return Generated(storable(value), 0, None)
    return None


_ANSWERS: Final = frozenset({"message", "response"})  # what Anthropic and OpenAI call an answer, which may be empty


def _of_parts(parts: list[Any], where: str) -> Generated:
    """Return the text of a message that is a list of parts."""
    text = joined_parts(parts)
    if text is None:
        raise ConfigError(f"{where}: is a list with a part that is not text; keep only the model's text")
    return Generated(storable(text), 0, None, None, has_refused(parts))


def _kind(value: object) -> str:
    names = {list: "a list", bool: "true or false", str: "a text", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")


@dataclass(frozen=True)
class AskedElsewhere:
    """A model that another stack asked; a :class:`audit.engines.base.ModelSource`."""

    name: str  # as the user gave it; nothing verifies it
    by: str  # the stack, as the user gave it
    answers: FileAnswers
    prompts_sha256: str  # of the file of prompts
    revision = None  # unknown

    def facts(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        answers = self.answers
        told = {
            "by": self.by,
            "answers": str(answers.path),
            "answers_sha256": answers.sha256,
            "prompts_sha256": self.prompts_sha256,
            "n_answers": len(answers.texts),
            "n_without_text": answers.n_without,
            "n_without_line": answers.n_absent,
            "n_repeated": answers.n_repeated,
            "n_unsigned": answers.n_unsigned,
        }
        return {"files": {}, "elsewhere": told}

    def states(self) -> None:
        """See :class:`audit.engines.base.ModelSource`."""

    def identity(self) -> dict[str, Any]:
        """See :class:`audit.engines.base.ModelSource`."""
        model = {"name": self.name, "by": self.by}
        return {"answers": self.answers.sha256, "model_files": fingerprint(model)}


class AnsweredEngine:
    """Returns the stored answer to each prompt; see :class:`audit.engines.base.Engine`."""

    def __init__(self, answers: FileAnswers, *, by: str) -> None:
        self._answers = answers
        self._places: Sequence[int] = ()
        self.facts = EngineFacts(name="elsewhere", version=by, device="elsewhere", dtype="unknown")

    def at(self, places: Sequence[int]) -> None:
        """See :class:`audit.engines.base.AnswersOfRun`."""
        self._places = places

    def forget(self) -> None:
        """Do nothing."""

    def in_format(self, dtype: str) -> AbstractContextManager[None]:
        """See :class:`audit.engines.base.Engine`."""
        raise ModelError(f"answers collected elsewhere cannot be asked again in {dtype}")

    def fits(self, prompts: Sequence[Prompt], *, room: int) -> list[bool]:
        """See :class:`audit.engines.base.Engine`; always True, since the prompts have been asked."""
        return [True] * len(prompts)

    def write(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seeds: Sequence[int] | None = None,
        done: Done = unwatched,
    ) -> list[Generated]:
        """See :class:`audit.engines.base.Engine`; a prompt without an answer has no text."""
        places, self._places = self._places, ()
        if len(prompts) != len(places):
            raise ModelError(
                f"{len(prompts)} prompts are asked, and answers to {len(places)} were read: this is a fault of "
                "empathy-audit, not of the answers"
            )
        done(len(prompts))
        missing = Generated(None, 0, False)
        return [self._answers.texts.get(place, missing) for place in places]

    def close(self) -> None:
        """Do nothing."""


def answered_model(name: str, by: str, answers: FileAnswers, *, prompts_sha256: str) -> OpenModel:
    """Return the model whose answers were read."""
    source = AskedElsewhere(name, by, answers, prompts_sha256)
    return OpenModel(AnsweredEngine(answers, by=by), source, "its answers were collected elsewhere")
