"""What groups of options have in common: names, lists, and settings that earlier versions had not."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

_LONGEST_NAME: Final = 100
"""In characters: names become file names."""


class OptionGroup(BaseModel):
    """Options that stand under one name; unknown ones are refused."""

    # Not pydantic's strict mode: command-line settings arrive as text, and 1e3 is a whole number.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def _checked_name(text: str, *, of_hub: bool) -> str:
    """Return ``text`` if it can name a file or folder. Raise ValueError if it is empty, invisible or a path."""
    if len(text) > _LONGEST_NAME:
        raise ValueError(f"has {len(text):,} letters; use at most {_LONGEST_NAME}")
    if not text.isprintable() or not text.strip():
        raise ValueError("has an invisible character; write the name in letters")
    parts = text.split("/")
    if "\\" in text or (len(parts) > 1 and not of_hub) or not all(part.strip(". ") for part in parts):
        raise ValueError("must be a name, but is a path; leave out slashes, and dots without letters between them")
    return text


Name = Annotated[str, Field(min_length=1), AfterValidator(partial(_checked_name, of_hub=False))]
"""A name that file names are made of."""
ModelName = Annotated[str, Field(min_length=1), AfterValidator(partial(_checked_name, of_hub=True))]
"""A model's name, which may have the form ``maker/model`` of a hub."""


def one_or_several(value: object) -> object:
    """Take one text for a list of one."""
    return (value,) if isinstance(value, str) else value


def bare_model(value: object) -> object:
    """Expand a model given by name alone to a mapping."""
    return {"model": value} if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(one_or_several)]
"""A list of words; a single word stands for a list of one."""
Temperature = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False, description="0 = the most likely token at each step; above 0 = sampled"),
]
TopP = Annotated[
    float,
    Field(gt=0, le=1, description="above temperature 0, sample from the smallest set of tokens with this probability"),
]
_Serialized: TypeAlias = dict[str, Any]


class GroupWithNewOptions(OptionGroup):
    """Omits newer settings from manifests while they have their defaults, so that old run identities stay valid."""

    _of_servers: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_servers(self, write: SerializerFunctionWrapHandler) -> _Serialized:
        written: _Serialized = write(self)
        fields = type(self).model_fields
        return {n: value for n, value in written.items() if n not in self._of_servers or value != fields[n].default}
