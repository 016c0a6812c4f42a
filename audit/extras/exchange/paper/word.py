"""Set methods, tables and references in Word. The same input gives the same bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from audit.extras.exchange.paper.methods import MethodsSection
from audit.extras.exchange.paper.references import Reference
from audit.extras.exchange.paper.table import ManuscriptTable
from audit.extras.exchange.paper.text import Italic as _Italic
from audit.extras.exchange.paper.text import Line, as_plain, line, reference_line, runs_of

_FONT: Final = "Times New Roman"
_TEXT, _TABLE, _NOTE = 12, 10, 10  # font sizes, in points
_INDENT: Final = 0.5
_ACROSS: Final = 9.0  # width of a landscape page between the margins of the default template, in inches
_LETTER: Final = 0.078
"""In inches: width of a letter in the table, both margins of a cell, and the least width of a column of names."""
_CELL_MARGINS: Final = 0.17
_LEAST: Final = 1.0
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # time of all entries of the zip file, so that its bytes do not change


def word_file(
    sections: Sequence[MethodsSection],
    tables: Sequence[ManuscriptTable],
    works: Sequence[Reference],
    *,
    title: str,
    made: datetime,
) -> bytes:
    """Return a Word document with each table on a landscape page, dated ``made`` so that its bytes do not change."""
    import docx
    from docx.enum.section import WD_ORIENT, WD_SECTION

    document = docx.Document()
    _style(document)
    properties = document.core_properties
    properties.title, properties.author, properties.comments = title, "", ""
    properties.created = properties.modified = made.replace(tzinfo=None)
    properties.last_modified_by = ""
    _heading(document, "Method", level=1)
    for section in sections:
        _heading(document, section.title, level=2)
        _paragraph(document, section.text(), first=_INDENT)
    _heading(document, "References", level=1)
    for work in works:
        _paragraph(document, reference_line(work), left=_INDENT, first=-_INDENT)
    page = document.add_section(WD_SECTION.NEW_PAGE)
    page.orientation = WD_ORIENT.LANDSCAPE
    page.page_width, page.page_height = page.page_height, page.page_width
    for place, table in enumerate(tables):
        if place:
            document.add_page_break()
        _paragraph(document, (f"Table {table.number}",), bold=True, keep=True)
        _paragraph(document, table.title, italic=True, keep=True)
        _table(document, table)
        general, *marked = table.all_notes()
        for note in (line(_Italic("Note."), " ", general), *marked):
            _paragraph(document, note, size=_NOTE, spacing=1.0)
    buffer = io.BytesIO()
    document.save(buffer)
    return _without_times(buffer.getvalue())


def _without_times(content: bytes) -> bytes:
    """Rewrite a zip file so that all entries have one time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(name), compresslevel=6)
    return buffer.getvalue()


def _style(document: Any) -> None:
    from docx.shared import Inches, Pt, RGBColor

    for name, size in (("Normal", _TEXT), ("Heading 1", _TEXT), ("Heading 2", _TEXT)):
        style = document.styles[name]
        style.font.name, style.font.size = _FONT, Pt(size)
        _fonts_of(style.element.get_or_add_rPr())
        style.font.color.rgb = RGBColor(0, 0, 0)
        style.font.bold = name != "Normal"
        style.paragraph_format.space_before = style.paragraph_format.space_after = Pt(0)
    section = document.sections[0]
    section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = Inches(1)


def _fonts_of(properties: Any) -> None:
    """Set the font of every script, since a theme's font would otherwise replace that of headings."""
    from docx.oxml.ns import qn

    fonts = properties.get_or_add_rFonts()
    for script in ("ascii", "hAnsi", "cs", "eastAsia"):
        fonts.set(qn(f"w:{script}"), _FONT)
        theme = qn(f"w:{script}Theme") if script != "cs" else qn("w:cstheme")
        if theme in fonts.attrib:
            del fonts.attrib[theme]


def _heading(document: Any, text: str, *, level: int) -> None:
    from docx.enum.text import WD_ALIGN_PARAGRAPH

    paragraph = document.add_heading(text, level=level)
    paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER if level == 1 else WD_ALIGN_PARAGRAPH.LEFT
    paragraph.paragraph_format.line_spacing = 2.0


def _paragraph(
    document: Any,
    pieces: Line,
    *,
    bold: bool = False,
    italic: bool = False,
    keep: bool = False,
    left: float = 0.0,
    first: float = 0.0,
    size: int = _TEXT,
    spacing: float = 2.0,
) -> None:
    from docx.shared import Inches

    paragraph = document.add_paragraph()
    _write(paragraph, pieces, size=size, bold=bold, italic=italic)
    layout = paragraph.paragraph_format
    layout.line_spacing, layout.keep_with_next = spacing, keep
    layout.left_indent, layout.first_line_indent = Inches(left), Inches(first)


def _write(paragraph: Any, pieces: Line, *, size: int, bold: bool = False, italic: bool = False) -> None:
    from docx.shared import Pt

    for piece in runs_of(pieces):
        run = paragraph.add_run(piece.text)
        run.bold, run.italic = bold, italic != piece.italic
        run.font.size, run.font.subscript, run.font.superscript = Pt(size), piece.sub, piece.raised


def _table(document: Any, table: ManuscriptTable) -> None:
    from docx.enum.table import WD_TABLE_ALIGNMENT
    from docx.enum.text import WD_ALIGN_PARAGRAPH
    from docx.oxml import OxmlElement
    from docx.shared import Inches

    rows = [table.head, *(row.cells for row in table.rows)]
    depths = [0, *(row.depth for row in table.rows)]
    laid = document.add_table(rows=len(rows), cols=len(table.head))
    laid.alignment, laid.autofit = WD_TABLE_ALIGNMENT.CENTER, False
    widths = _widths(table)
    for column, width in zip(laid.columns, widths, strict=True):
        column.width = Inches(width)
    for place, (cells, depth, own) in enumerate(zip(rows, depths, laid.rows, strict=True)):
        for column, (pieces, cell) in enumerate(zip(cells, own.cells, strict=True)):
            cell.width = Inches(widths[column])
            [paragraph] = cell.paragraphs
            _write(paragraph, pieces, size=_TABLE)
            paragraph.alignment = WD_ALIGN_PARAGRAPH.LEFT if column < table.n_words else WD_ALIGN_PARAGRAPH.RIGHT
            # Keep the heading with the first row and the notes with the last; a page may end in between.
            paragraph.paragraph_format.keep_with_next = place == 0 or place == len(rows) - 1
            if column == 0:
                paragraph.paragraph_format.left_indent = Inches(0.2 * depth)
            _rule(cell, top=place == 0, bottom=place in (0, len(rows) - 1))
        properties = own._tr.get_or_add_trPr()
        properties.append(OxmlElement("w:cantSplit"))
        if place == 0:
            properties.append(OxmlElement("w:tblHeader"))


def _widths(table: ManuscriptTable) -> list[float]:
    """Return column widths in inches: as long as needed for numbers; names share the rest."""
    rows = [table.head, *(row.cells for row in table.rows)]
    longest = [max(len(as_plain(cells[column])) for cells in rows) for column in range(len(table.head))]
    needed = [_LETTER * n + _CELL_MARGINS for n in longest]
    words = range(table.n_words)
    room = _ACROSS - sum(needed[table.n_words :])
    asked = sum(needed[column] for column in words)
    if asked > room:  # names wrap
        for column in words:
            needed[column] = max(needed[column] * room / asked, _LEAST)
    return needed


def _rule(cell: Any, *, top: bool, bottom: bool) -> None:
    """Draw a cell's horizontal rules. APA has one above the heading, one below it, and one at the end."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    borders = OxmlElement("w:tcBorders")
    for edge, there in (("top", top), ("bottom", bottom)):
        if there:
            rule = OxmlElement(f"w:{edge}")
            for name, value in (("val", "single"), ("sz", "6"), ("space", "0"), ("color", "000000")):
                rule.set(qn(f"w:{name}"), value)
            borders.append(rule)
    if len(borders):
        cell._tc.get_or_add_tcPr().append(borders)
