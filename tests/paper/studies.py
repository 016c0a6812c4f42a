"""Runs of which a paper is written: committed examples, and what is planted in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from audit.extras.exchange.base import Collected
from audit.extras.exchange.paper.base import Study
from audit.extras.exchange.paper.export import _study
from audit.extras.exchange.paper.methods import methods
from audit.extras.exchange.paper.text import as_plain

REPORTS = Path(__file__).parents[2] / "reports"


def study_of(name: str = "example") -> Study:
    """Read a committed run."""
    return _study(Collected.read(REPORTS / name, unfinished=False, texts=False))


def planted(study: Study, *, tables=(), rows=None, **changes) -> Study:
    """Change fields of the manifest, whole tables, or rows."""
    return replace(
        study,
        manifest=study.manifest.having(**changes),
        tables={**study.tables, **dict(tables)},
        rows=study.rows if rows is None else rows,
    )


def within(study: Study, field: str, **values) -> dict:
    """Change entries of one of the manifest's fields."""
    return {field: {**study.manifest.content.get(field, {}), **values}}


def said(study: Study) -> str:
    """The whole section on methods, as text."""
    return "\n".join(f"{each.title}: {as_plain(each.text())}" for each in methods(study))
