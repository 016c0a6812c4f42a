"""What a page is made of: cards and sections of paragraphs, tables and figures, in the order in which they are shown.

A page's module names what it shows once, in one list, by the functions below: they leave out what there is nothing of.
``macros.html.j2`` writes the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from audit.report.page import Picture
from audit.report.table_layout import Table


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``look`` is its class in the style sheet."""

    kind: ClassVar[str] = "paragraph"
    text: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark that stands out, after the ``word`` that says what it is."""

    kind: ClassVar[str] = "note"
    text: str
    word: str = "Note"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; ``look`` is its class in the style sheet."""

    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]
    look: str = ""


@dataclass(frozen=True, slots=True)
class Captioned:
    """A table or a figure, and what it shows."""

    content: Table | Picture
    caption: str

    @property
    def kind(self) -> str:
        """Which of the two it is."""
        return "table" if isinstance(self.content, Table) else "picture"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and what stands beneath it.

    Attributes
    ----------
    title
        The heading.
    content
        What stands beneath it, in order.
    anchor
        What links name; empty where nothing links to it.
    label
        What the page's contents call it; empty where they do not list it.
    look
        ``page`` for a section of the page, ``part`` for a part of one, ``heading`` and ``subheading`` for these alone,
        ``folded`` and ``open`` for what a reader can unfold and fold, ``pair`` for figures side by side, without a
        heading; any other is the class of a box in the style sheet.
    """

    kind: ClassVar[str] = "section"
    title: str
    content: tuple[Block, ...]
    anchor: str = ""
    label: str = ""
    look: str = "heading"


Block = Paragraph | Note | Bullets | Captioned | Section
"""What a section holds."""


@dataclass(frozen=True, slots=True)
class Card:
    """An answer of the first screen.

    Attributes
    ----------
    title
        What it is about.
    content
        The answer.
    kind
        Of its verdict, as the style sheet has it; empty without a verdict.
    anchor
        Where the page says more of it; empty if nowhere.
    tail
        What stands after the title.
    """

    title: str
    content: tuple[Block, ...]
    kind: str = ""
    anchor: str = ""
    tail: str = ""


def present(*blocks: Block | None) -> tuple[Block, ...]:
    """Return what there is."""
    return tuple(block for block in blocks if block is not None)


def paragraph(text: str, look: str = "") -> Paragraph | None:
    """Return a paragraph; None where nothing is said."""
    return Paragraph(text, look) if text else None


def bullets(items: Iterable[str], look: str = "") -> Bullets | None:
    """Return a list; None where there is nothing to list."""
    listed = tuple(items)
    return Bullets(listed, look) if listed else None


def captioned(content: Table | Picture | None, caption: str) -> Captioned | None:
    """Return a table or a figure with its caption; None where there is none, or no row."""
    if content is None or (isinstance(content, Table) and not content.rows):
        return None
    return Captioned(content, caption)


def section(
    title: str, *content: Block | None, anchor: str = "", label: str = "", look: str = "heading"
) -> Section | None:
    """Return a section of what there is; None where there is nothing."""
    there = present(*content)
    return Section(title, there, anchor=anchor, label=label, look=look) if there else None
