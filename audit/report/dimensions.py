"""Dimensions and variants of a run: their rows, remarks, titles and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pandas as pd
from markupsafe import Markup

from audit.report.section import Note
from audit.tables.formatting import brief, dimension_title

Key = tuple[str, str]  # dimension and variant


class RemarkLike(Protocol):
    """A remark of the statistics on one dimension and variant; both are empty if it is about the whole run."""

    @property
    def dimension(self) -> str: ...  # noqa: D102
    @property
    def variant(self) -> str: ...  # noqa: D102
    @property
    def code(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Limit:
    """A line of the banner: what limits the claims, in which dimensions, and why it matters."""

    title: str
    where: str
    text: str


def keys_of(table: pd.DataFrame) -> list[Key]:
    """Return dimension and variant of each row. Comparisons are between variants, so theirs is empty."""
    variants = table["variant"] if "variant" in table else [""] * len(table)
    return [(str(dimension), str(variant)) for dimension, variant in zip(table["dimension"], variants, strict=True)]


def own_rows(tables: Mapping[str, pd.DataFrame], key: Key) -> dict[str, pd.DataFrame]:
    """Return the rows of one dimension and variant, from each table that has dimensions."""
    return {
        name: table.loc[[found == key for found in keys_of(table)]]
        for name, table in tables.items()
        if "dimension" in table
    }


def title_of(key: Key, *, several: bool) -> str:
    """Name a dimension, with its variant if the run has several."""
    return dimension_title(key[0]) + (f" (variant {brief(key[1])})" if several else "")


def where_noted(remarks: Sequence[RemarkLike], *, several: bool) -> str:
    """Name the dimensions that remarks are about; empty if they are about the whole run."""
    named = (title_of((each.dimension, each.variant), several=several) for each in remarks if each.dimension)
    return ", ".join(dict.fromkeys(named))


def limits_by_text(remarks: Sequence[RemarkLike], titles: Mapping[str, str], *, several: bool) -> Iterator[Limit]:
    """Yield each distinct text of remarks that limit a claim: those whose code has a title."""
    for code, title in titles.items():
        own = [remark for remark in remarks if remark.code == code]
        for text in dict.fromkeys(remark.text for remark in own):
            where = where_noted([remark for remark in own if remark.text == text], several=several)
            yield Limit(title, where, text)


def note_on(remark: RemarkLike) -> Note:
    """Return a remark as a note that names its dimension and variant."""
    where = f"{remark.dimension} {remark.variant}"
    named = Markup(" (<bdi>{}</bdi>)").format(where) if where.strip() else ""
    return Note(Markup("{}{}").format(remark.text, named))
