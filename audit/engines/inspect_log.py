"""Answers in a log of Inspect: what a model wrote for each sample, whose ids are our prompt ids."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.engines.base import Generated, storable
from audit.engines.endings import ending_of
from audit.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from inspect_ai.model import ModelOutput

_HEADER: Final = "header.json"
_BEGUN: Final = "_journal/start.json"  # the member of an archive that is there from the start
_NOT_NEEDED: Final = {"events", "events_data", "store", "timelines", "scores"}


@dataclass(frozen=True)
class Sampled:
    """One sample of a log."""

    id: str  # the prompt's
    epoch: int  # the round of answers
    written: Generated  # without a text if there is no answer
    asked: tuple[tuple[str, str], ...]  # role and text of each message shown to the model
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class InspectLog:
    """A log and its metadata."""

    model: str
    by: str  # Inspect with its version
    temperature: float | None  # None if unknown
    samples: Sequence[Sampled]


def is_inspect_log(content: bytes) -> bool:
    """Whether a file's bytes are an Inspect archive, whatever its name."""
    if not content.startswith(b"PK"):
        return False
    try:
        names = set(zipfile.ZipFile(io.BytesIO(content)).namelist())
    except zipfile.BadZipFile:
        return False
    return bool(names & {_HEADER, _BEGUN})


def read_inspect_log(path: Path, *, option: str = "answers") -> InspectLog:
    """Read a log of the format ``.eval``, finished or not; ``option`` is the one that named it."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise ConfigError(
            f"{option}={path} is an Inspect log; to read it: pip install 'empathy-audit[inspect]'"
        ) from error
    try:
        log = read_eval_log(path, resolve_attachments="core", format="eval", exclude_fields=_NOT_NEEDED)
        settings = log.eval.model_generate_config.merge(log.plan.config)
        samples = [
            Sampled(
                id=str(sample.id),
                epoch=sample.epoch,
                written=Generated(None, 0, False) if sample.error is not None else generated(sample.output),
                asked=tuple(_shown(sample)),
                metadata={str(name): str(value) for name, value in (sample.metadata or {}).items()},
            )
            for sample in log.samples or ()
        ]
    except Exception as error:  # the library raises anything on damage
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StoreError(f"{option}={path} cannot be read as an Inspect log ({said})") from error
    version = log.eval.packages.get("inspect_ai", "")
    return InspectLog(log.eval.model, f"Inspect {version}".strip(), settings.temperature, samples)


def generated(output: ModelOutput) -> Generated:
    """Return a model's output in our form, without thoughts; None is no answer, a stop by a filter a refusal."""
    if not output.choices:
        return Generated(None, 0, False)
    choice = output.choices[0]
    ending = ending_of({"stop_reason": choice.stop_reason})
    return Generated(storable(choice.message.text), 0, ending.at_worst, None, ending.declined)


def _shown(sample: Any) -> Iterator[tuple[str, str]]:
    """Yield the messages that the model saw before it answered."""
    n_answers = 1 if sample.output.choices else 0
    for message in sample.messages[: len(sample.messages) - n_answers]:
        yield message.role, message.text
