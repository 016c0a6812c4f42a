"""Export a run for a paper: tables, methods and references for Word, LaTeX and Markdown, and figures."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from audit.errors import ConfigError
from audit.extras.exchange.base import Collected, ExportOptions, Files, Form
from audit.extras.exchange.facts import UNNAMED, about, named
from audit.tables.formatting import printable

if TYPE_CHECKING:
    from audit.extras.exchange.paper.base import Study
    from audit.extras.exchange.paper.methods import MethodsSection

_OF_RATINGS: Final = ("gap", "controls", "manipulation", "families", "cells")
_OF_LIMITS: Final = (
    "outcomes", "missing", "sensitivity", "variances", "heterogeneity", "equivalence", "verdicts", "judged",
    "odd_pairs",
)  # fmt: skip
"""Tables that limit a gap. A run of an earlier version may lack one, which then counts as empty."""
_OF_REPLIES: Final = ("gap", "measures", "controls")
_DECIDED: Final = ("verdicts", "manipulation")  # of measures; runs of earlier versions have none
NO_WORD: Final = "paper.docx needs python-docx: pip install 'empathy-audit[word]'"
_UNKNOWN: Final = datetime(2000, 1, 1, tzinfo=UTC)  # date of a run whose manifest has none
_FILES: Final = """\
`paper.docx` has methods, references and the tables for Word. `methods.tex`, `table.tex` and `references.bib` are the
same for LaTeX: `\\input` them (packages fontenc with T1, booktabs, graphicx and natbib). `methods.md` and `table.md`
are the same in Markdown.
`figures/` has each figure in the widths of one and of two columns, as PDF and as PNG with 600 dots an inch.

All of it is a draft to edit. It says what the run recorded, and no more: why these groups, narratives and emotions were
chosen, and what the numbers mean, is yours to write. Look every reference up before you cite it."""


def _make(collected: Collected, told: ExportOptions) -> Files:
    """Return the files of a paper, and ``ABOUT.md``."""
    from audit.extras.exchange.paper.disparities import paper_disparity_table
    from audit.extras.exchange.paper.gaps import paper_gap_table
    from audit.extras.exchange.paper.methods import methods
    from audit.extras.exchange.paper.references import bibliography
    from audit.extras.exchange.paper.text import works_in
    from audit.extras.exchange.paper.word import word_file

    study = _study(collected)
    if study.gaps.empty and not study.compared:
        raise ConfigError(f"{collected.path} has no gap and no groups to report; use form=csv to export the answers")
    of_gaps = [] if study.is_of_groups_alone or study.gaps.empty else [paper_gap_table(study)]
    of_groups = paper_disparity_table(study, number=len(of_gaps) + 1)
    tables = [*of_gaps, *([of_groups] if of_groups is not None else [])]
    sections = methods(study)
    works = works_in(section.text() for section in sections)
    figures, left_out = _figures(study)
    title = f"Empathy audit: {named(collected.manifest) or UNNAMED}"[:200]
    word: dict[str, bytes] = {}
    if importlib.util.find_spec("docx") is not None:
        word["paper.docx"] = word_file(sections, tables, works, title=printable(title), made=_made(collected))
    else:
        left_out += f"\n\nThe file for Word is not there: {NO_WORD}."
    return {
        **word,
        "table.md": "\n".join(table.markdown() for table in tables).encode(),
        "table.tex": "\n".join(table.latex() for table in tables).encode(),
        "methods.md": _markdown(sections, works).encode(),
        "methods.tex": _latex(sections).encode(),
        "references.bib": bibliography(works).encode(),
        **figures,
        "ABOUT.md": about(collected, files=_FILES + left_out).encode(),
    }


def _study(collected: Collected) -> Study:
    import pandas as pd

    from audit.extras.exchange.paper.base import Study
    from audit.runs.derived import tables_of
    from audit.tables.run_of_ratings import TABLES
    from audit.tables.run_of_replies import REPLY_TABLES
    from audit.tasks.registry import task_of

    rated = collected.kind == "ratings"
    tables = {name: collected.statistics(name) for name in (_OF_RATINGS if rated else _OF_REPLIES)}
    decided = _OF_LIMITS if rated else _DECIDED
    there = tables_of(collected.path, decided)
    tables |= {"disparity": collected.disparity, "refusals": collected.refusals}
    for name in decided:
        found = collected.statistics(name) if name in there else pd.DataFrame()
        tables[name] = found.reindex(columns=list((TABLES if rated else REPLY_TABLES)[name]))
    asked_to = task_of(collected.manifest).asked_to
    return Study(collected.manifest, collected.kind, collected.rows, collected.n_missing, asked_to, tables)


def _markdown(sections: tuple[MethodsSection, ...], works: tuple) -> str:  # type: ignore[type-arg]
    from audit.extras.exchange.paper.text import as_markdown, reference_line

    lines = ["# Method", ""]
    for section in sections:
        lines += [f"## {section.title}", "", as_markdown(section.text()), ""]
    lines += ["# References", ""]
    for work in works:
        lines += [as_markdown(reference_line(work)), ""]
    return "\n".join(lines)


def _latex(sections: tuple[MethodsSection, ...]) -> str:
    from audit.extras.exchange.paper.text import as_latex

    lines = ["% In the preamble: \\usepackage[T1]{fontenc} \\usepackage[round]{natbib}", "\\section*{Method}", ""]
    for section in sections:
        lines += [f"\\subsection*{{{section.title}}}", as_latex(section.text()), ""]
    return "\n".join(lines)


def _figures(study: Study) -> tuple[Mapping[str, bytes], str]:
    """Return the figures' files, and sentences on figures that do not fit a width."""
    from audit.extras.exchange.paper.figures import WIDTHS, draw_for_journal, journal_files

    manifest = study.manifest
    files: dict[str, bytes] = {}
    lines: list[str] = []
    for millimetres in WIDTHS:
        drawn = draw_for_journal(
            study.tables,
            millimetres=millimetres,
            low=manifest.scale.low,
            high=manifest.scale.high,
            confidence=manifest.statistics.confidence,
            margin=manifest.statistics.margin,
            clusters=manifest.clusters,
        )
        files |= journal_files(drawn.figures, millimetres)
        lines += _left_out(drawn.left_out, millimetres)
    return files, "".join(f"\n\n{text}" for text in lines)


def _left_out(names: Mapping[str, str], millimetres: int) -> Iterator[str]:
    from audit.tables.formatting import in_markdown

    for name, why in names.items():
        yield f"The figure {in_markdown(name)} is not there in {millimetres} mm: {in_markdown(why)}."


def _made(collected: Collected) -> datetime:
    for time in (str(collected.manifest.content.get("finished") or ""), collected.manifest.started):
        try:
            return datetime.fromisoformat(time)
        except ValueError:
            continue
    return _UNKNOWN


FORM: Final = Form(
    "paper",
    "for a paper: tables (APA), methods, references for Word, LaTeX and Markdown; figures 89 and 183 mm wide",
    ("ratings", "replies"),
    _make,
)
