"""Answers in a log of Inspect: what a model wrote to each sample, whose ids are our prompts'."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.engines.base import Generated, storable
from audit.engines.endings import ending_of
from audit.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from inspect_ai.model import ModelOutput

_HEADER: Final = "header.json"
_BEGUN: Final = "_journal/start.json"
"""What an archive of Inspect has, once it has ended and from its beginning."""
_NOT_NEEDED: Final = {"events", "events_data", "store", "timelines", "scores"}


@dataclass(frozen=True)
class Sampled:
    """One sample of a log.

    Attributes
    ----------
    id, epoch
        The prompt's, and which round of answers it is of.
    written
        What the model wrote; without a text where there is no answer.
    asked
        Role and text of each message that the model was shown.
    """

    id: str
    epoch: int
    written: Generated
    asked: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class InspectLog:
    """A log, and what it says of itself.

    Attributes
    ----------
    model, by
        The model's name, and Inspect with its version.
    temperature
        That was asked for; None where nothing was said.
    samples
        In the order of the log.
    """

    model: str
    by: str
    temperature: float | None
    samples: Sequence[Sampled]


def is_inspect_log(content: bytes) -> bool:
    """Tell whether the bytes of a file are an archive of Inspect, whatever the file is called."""
    if not content.startswith(b"PK"):
        return False
    try:
        names = set(zipfile.ZipFile(io.BytesIO(content)).namelist())
    except zipfile.BadZipFile:
        return False
    return bool(names & {_HEADER, _BEGUN})


def read_inspect_log(path: Path) -> InspectLog:
    """Read a log of the format ``.eval``, finished or not.

    Raises
    ------
    ConfigError
        If Inspect is not installed.
    StoreError
        If the log cannot be read.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise ConfigError(
            f"answers={path} is a log of Inspect, which reads it: pip install 'empathy-audit[inspect]'"
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
            )
            for sample in log.samples or ()
        ]
    except Exception as error:  # whatever the library says of damage
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StoreError(f"answers={path} is no log of Inspect that can be read ({said})") from error
    version = log.eval.packages.get("inspect_ai", "")
    return InspectLog(log.eval.model, f"Inspect {version}".strip(), settings.temperature, samples)


def generated(output: ModelOutput) -> Generated:
    """Return what a model wrote, as our engines give it; a text that is None stands for no answer.

    Thoughts that the provider sets apart are no part of the text. Whoever declined by a filter has refused.
    """
    if not output.choices:
        return Generated(None, 0, False)
    choice = output.choices[0]
    ending = ending_of({"stop_reason": choice.stop_reason})
    return Generated(storable(choice.message.text), 0, ending.at_worst, None, ending.declined)


def _shown(sample: Any) -> Iterator[tuple[str, str]]:
    """Yield what the model was shown before it answered."""
    n_answers = 1 if sample.output.choices else 0
    for message in sample.messages[: len(sample.messages) - n_answers]:
        yield message.role, message.text
