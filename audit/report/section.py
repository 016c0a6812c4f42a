"""Building blocks of a page: cards and sections of paragraphs, tables and figures, in the order shown.

A page's module lists its content once, with the functions below, which leave out what is empty. ``macros.html.j2``
renders the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from audit.report.page import Picture
from audit.report.table_layout import ShownTable


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``look`` is its CSS class."""

    kind: ClassVar[str] = "paragraph"
    text: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark that stands out; ``word`` before it says what it is."""

    kind: ClassVar[str] = "note"
    text: str
    word: str = "Note"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; ``look`` is its CSS class."""

    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]
    look: str = ""


@dataclass(frozen=True, slots=True)
class Captioned:
    """A table or a figure, with its caption."""

    content: ShownTable | Picture
    caption: str

    @property
    def kind(self) -> str:
        """``table`` or ``picture``."""
        return "table" if isinstance(self.content, ShownTable) else "picture"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its content."""

    kind: ClassVar[str] = "section"
    title: str
    content: tuple[Block, ...]
    anchor: str = ""  # target of links; empty if nothing links to it
    label: str = ""  # its entry in the table of contents; empty if it has none
    # `page` for a section of the page, `part` for a part of one, `heading` and `subheading` for a mere heading,
    # `folded` for content that readers can unfold, `pair` for figures side by side without a heading; anything else is
    # the CSS class of a box
    look: str = "heading"


Block = Paragraph | Note | Bullets | Captioned | Section | Markup  # what a section holds; HTML stands as it is


@dataclass(frozen=True, slots=True)
class Card:
    """An answer on the first screen."""

    title: str
    content: tuple[Block, ...]
    kind: str = ""  # CSS class of its verdict; empty if it has none
    anchor: str = ""  # where the page says more about it; empty if nowhere
    tail: str = ""  # text after the title


def present(*blocks: Block | None) -> tuple[Block, ...]:
    """Drop blocks that are None."""
    return tuple(block for block in blocks if block is not None)


def paragraph(text: str, look: str = "") -> Paragraph | None:
    """Return a paragraph; None if the text is empty."""
    return Paragraph(text, look) if text else None


def bullets(items: Iterable[str], look: str = "") -> Bullets | None:
    """Return a list; None if it is empty."""
    listed = tuple(items)
    return Bullets(listed, look) if listed else None


def captioned(content: ShownTable | Picture | None, caption: str) -> Captioned | None:
    """Return a table or figure with its caption; None if there is none, or the table has no row."""
    if content is None or (isinstance(content, ShownTable) and not content.rows):
        return None
    return Captioned(content, caption)


def section(
    title: str, *content: Block | None, anchor: str = "", label: str = "", look: str = "heading"
) -> Section | None:
    """Return a section with the blocks that are not None; None if there are none."""
    there = present(*content)
    return Section(title, there, anchor=anchor, label=label, look=look) if there else None
