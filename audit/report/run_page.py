"""The page of a run, whatever its task: the answer first, the task's own sections, and how the run can be checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup

from audit.report.dimensions import Limit
from audit.report.downloads import pack_tables
from audit.report.glossary import words
from audit.report.manifest import ManifestView
from audit.report.page import isolated, prose, render_page
from audit.report.section import Block, Card, Section, paragraph, present, section
from audit.report.summary import RenderedPage, Summary

MAX_DOWNLOADS = 500_000
"""Bytes for all embedded tables together."""
OTHER_PROMPTS = Markup("To get all prompts, run <code>python -m audit prompts</code> with the run's options.")


def render_run(
    view: ManifestView,
    summary: Summary,
    sections: Sequence[Section | None],
    *,
    title: str,
    heading: str,
    kicker: str,
    tables: Mapping[str, pd.DataFrame],  # to download
    cite: Markup,  # how to cite the run
    asked: Sequence[str] = (),  # what else stands beneath the heading
    styles: tuple[str, ...] = (),  # besides those of all pages
    scripts: tuple[str, ...] = (),
    max_downloads: int = MAX_DOWNLOADS,
) -> RenderedPage:
    """Render a run's page; the task's sections begin with :func:`answer_section`."""
    downloads, packed = pack_tables(tables, max_bytes=max_downloads)
    see = Markup(' <a href="#example-prompt">See one prompt</a>')
    outside = view.of_another_tool
    page = render_page(
        "run.html.j2",
        styles=("style.css", *styles),
        scripts=("page.js", *scripts, "downloads.js"),
        title=title,
        heading=heading,
        kicker=f"empathy-audit {kicker}, {'analysed on' if outside else 'run of'} {view.date}",
        asked=[summary.asked + (see if view.has_prompt else Markup("")), *asked],
        sections=present(
            *sections,
            page_section("downloads", "Downloads", "Downloads", prose("run_parts", "downloads", downloads)),
            page_section(
                "reproduce",
                "Reproduce",
                "How to reproduce and cite it",
                prose("run_parts", "reproduce", view, outside),
                cite,
                section("The manifest", prose("run_parts", "manifest", view), anchor="manifest", look="folded"),
            ),
        ),
        packed=Markup(packed),
    )
    return RenderedPage.of(page, summary)


def page_section(anchor: str, label: str, title: str, *content: Block | Markup | None) -> Section:
    """Return a section of the page, which the contents list by its ``label``."""
    return Section(title, present(*content), anchor=anchor, label=label, look="page")


def answer_section(
    question: str,
    summary: Summary,
    lede: str,
    *content: Block | None,
    limits: Sequence[Limit],
    cards: Sequence[Card],
    none: str,  # in place of the findings if there are none
    of: str = "data",  # what the limits are about
    folded: str = "",  # unfolds the answers and remarks; empty to show them
) -> Section:
    """Return the first section: the summary, what the number is, its limits, an answer a dimension, and remarks."""
    beneath = prose("macros", "cards", cards), *content
    return page_section(
        "answer", "Answer", question,
        prose("macros", "summarise", summary, none), paragraph(lede, "lede"), prose("macros", "banner", limits, of),
        *([section(folded, *beneath, look="folded")] if folded else beneath),
    )  # fmt: skip


def asked_section(
    view: ManifestView,
    facts: Mapping[str, str],
    about: str = "",
    others: Markup = OTHER_PROMPTS,
    *more: Block | None,
) -> Section:
    """Return the section on how the model was asked, and what the numbers mean."""
    known = [(name, value) for name, value in facts.items() if value]
    asked = prose("run_parts", "asked", view, known, about, others)
    glossary = section("Words of this page", words(), anchor="words", look="folded")
    return page_section("asked", "Method", "Method", asked, *more, glossary)


def source_of(view: ManifestView) -> Markup:
    """Name what the numbers are of, for a page that is passed on."""
    said = Markup(
        "{}, revision {}; prompt {}; narratives: {}; {} {}; empathy-audit {}. "
        '<a href="#words">How to read this page</a>'
    )
    when = "analysed on" if view.of_another_tool else "run of"
    return said.format(
        *map(isolated, (view.model, view.revision, view.variant, view.stimuli)), when, view.date, view.version
    )


def led_by(view: ManifestView) -> Markup:
    """Name the strategy, to follow the model's name; empty without one."""
    if view.strategy in ("", "none"):
        return Markup("")
    return Markup(", led by the strategy {},").format(isolated(view.strategy))
