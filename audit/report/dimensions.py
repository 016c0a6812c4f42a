"""Dimensions and variants of a run: which rows and remarks are of one, what it is called, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pandas as pd
from markupsafe import Markup

from audit.report.section import Note
from audit.tables.formatting import brief, dimension_title

Key = tuple[str, str]
"""A dimension and a variant."""


class RemarkLike(Protocol):
    """A note of the statistics on one dimension and variant; both empty if it is on the whole run."""

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
    """A line of the banner: what keeps the data from carrying a claim, in which dimensions, and why that matters."""

    title: str
    where: str
    text: str


def keys_of(table: pd.DataFrame) -> list[Key]:
    """Dimension and variant of each row; comparisons, which are between variants, have none."""
    variants = table["variant"] if "variant" in table else [""] * len(table)
    return [(str(dimension), str(variant)) for dimension, variant in zip(table["dimension"], variants, strict=True)]


def own_rows(tables: Mapping[str, pd.DataFrame], key: Key) -> dict[str, pd.DataFrame]:
    """Rows of one dimension and variant of each table that has dimensions."""
    return {
        name: table.loc[[found == key for found in keys_of(table)]]
        for name, table in tables.items()
        if "dimension" in table
    }


def title_of(key: Key, *, several: bool) -> str:
    """Name a dimension, and where a run has several variants, the variant."""
    return dimension_title(key[0]) + (f" (variant {brief(key[1])})" if several else "")


def where_noted(remarks: Sequence[RemarkLike], *, several: bool) -> str:
    """Name the dimensions that remarks are on; empty if they are on the whole run."""
    named = (title_of((each.dimension, each.variant), several=several) for each in remarks if each.dimension)
    return ", ".join(dict.fromkeys(named))


def limits_by_text(remarks: Sequence[RemarkLike], titles: Mapping[str, str], *, several: bool) -> Iterator[Limit]:
    """Yield each text of a remark that limits a claim, once.

    Parameters
    ----------
    remarks
        Those with a code that has no title are left out.
    titles
        Code → what it is called, in the order to show.
    several
        Whether the run has several variants.
    """
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
