"""The page of a comparison, whatever its outcomes: the answer first, the outcome's own sections, and the runs.

Like a run's report it is self-contained and escaped, has no script except for the table of contents, and links every
number to its place in ``tables/``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from markupsafe import Markup

from audit.comparing.base import ComparisonContent
from audit.comparing.paper_table import PaperTable
from audit.report.numbers import PlacedRow, show
from audit.report.page import isolated, prose, render_page
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Block, Captioned, Note, Section, bullets, captioned, present, section
from audit.report.summary import RenderedPage, Summary
from audit.report.table_layout import Named, ShownColumn, ShownTable, named, number_column, statistics_table
from audit.runs.differences import MAIN
from audit.tables.formatting import CROSS, count, mean_count, unsigned

DIFFERING: Final = {
    "model": "the model",
    "server": "the server that was asked",
    "stated": "the model that the server says it is",
    "prompt": "the wording of the prompt",
    "wording": "the wording of the prompt",
    "language": "the language",
    "strategy": "what leads the model before the question",
    "leading": "what leads the model before the question",
    "narratives": "the accounts",
    "texts": "the accounts",
    "n_narratives": "the accounts",
    "dimensions": "the identities",
    "identities": "the identities",
    "elicitation": "how the rating is got",
    "generation": "what a reply may be",
    "scale": "the scale",
    "seed": "the seed",
    "dtype": "the precision of the model",
    "quantization": "the compression of the model",
}
"""Columns of the tables of runs that the first screen names if they differ, in plain words."""
BESIDES: Final = {
    "revision": "the files of the model",
    "path": "where the model is from",
    "engine": "the library that runs the model",
    "device": "what the model runs on",
    "parser": "how an answer is read",
    "n_prompts": "how many prompts were asked",
    "version": "the version of empathy-audit",
}
"""Columns that are named only if none of :data:`DIFFERING` differ."""
SHOWN_ROWS: Final = 200
"""Most rows of a long table on the page; the files have all."""
COSTS: Final[tuple[Named, ...]] = (
    number_column("calls", "n_calls", mean_count), ("n_prompt_tokens", "tokens read by stages"),
    ("n_tokens", "written by stages"), ("n_question_tokens", "read by the question"),
    ("shortened_share", "shortened"), number_column("seconds", "seconds", unsigned),
)  # fmt: skip
"""Columns of what an answer costs."""
comparison_prose: Final = partial(prose, "audit.comparing:prose")
_SHORT_COLUMNS: Final = 6  # most columns of what differs in the table of runs on the first screen
_HASH_OF: Final = {
    "wording": "prompt", "texts": "narratives", "identities": "dimensions", "leading": "strategy", "stated": "model",
    "path": "model", "revision": "model", "n_prompts": "dimensions",
}  # fmt: skip
"""What a column follows from: where that differs, too, it alone is named."""
_HASHES: Final = ("identity", "ratings", "replies", "texts", "wording", "leading", "identities", "revision")
_HEADS: Final = {
    "path": "model's place",
    "server": "server (base_url)",
    "stated": "server's model",
    "texts": "narratives (SHA-256)",
    "wording": "prompt's wording (SHA-256)",
    "leading": "strategy (SHA-256)",
    "identities": "identities (SHA-256)",
    "identity": "run (SHA-256)",
    "ratings": "ratings (SHA-256)",
    "replies": "replies (SHA-256)",
    "version": "empathy-audit",
    "n_narratives": "narratives",
}
"""Headings of columns of ``runs`` whose names are unclear."""


def render_comparison(
    content: ComparisonContent,
    results: Results,
    summary: Summary,
    sections: Sequence[Section | None],  # the outcome's own, in order, beginning with `compared_answer`
    *,
    gap: str,  # for the heading
    kicker: str,
    texts: str,  # what the runs collected
    limits: Markup,  # what the page does not show
) -> RenderedPage:
    """Render the page, as HTML that can be encoded as UTF-8."""
    see = Markup(' <a href="#asked">See one prompt</a>') if content.example else Markup("")
    heading = f"{gap}: {len(results.rows('runs'))} runs side by side"
    whose = "Each run's own report has its prompts."
    page = render_page(
        "run.html.j2",
        title=heading,
        heading=heading,
        kicker=kicker,
        asked=[summary.asked + see],
        sections=present(
            *sections,
            page_section("limits", "Limits", "What this does not show", limits),
            folded_page("asked", "Prompt", "How it was asked", comparison_prose("example", content.example, whose))
            if content.example
            else None,
            _runs(results),
            page_section(
                "reproduce", "Reproduce", "How to reproduce it", comparison_prose("command", content.command, texts)
            ),
        ),
    )
    return RenderedPage.of(page, summary)


def compared_answer(
    content: ComparisonContent,
    results: Results,
    summary: Summary,
    question: str,
    *drawn: Block | None,
    columns: Sequence[ShownColumn] = (),  # of the table of runs, after what differs
    none: str,
) -> Section:
    """Return the first section: the answer, the runs on one axis, what differs between them, and what limits it."""
    left_out = [Note(isolated(text), "Left out") for text in content.left_out]
    runs = results.rows("runs")
    names = [
        name
        for name in (*DIFFERING, *BESIDES)
        if name in results.declared["runs"] and name not in _told_by(runs) and len({str(row[name]) for row in runs}) > 1
    ]
    if len(names) == 1 and names[0] in MAIN and all(str(row["run"]).startswith(str(row[names[0]])) for row in runs):
        names = []  # the runs' labels say it in full
    short = [ShownColumn(_head(name), partial(_short, column=name), words=True) for name in names]
    told = statistics_table(runs, ShownColumn("run", lambda row: named(row["run"])), *short[:_SHORT_COLUMNS], *columns)
    return page_section(
        "answer", "Answer", question, prose("macros", "summarise", summary, none), *left_out, *drawn,
        captioned(told, "What differs between the runs, and what each says by itself" if columns
                  else "What differs between the runs"),
        section("What limits this comparison", bullets(map(isolated, content.remarks), "small")),
    )  # fmt: skip


def _told_by(runs: Sequence[PlacedRow]) -> set[str]:
    """Return hashes that need no column, since the choice that they are of differs itself."""
    return {of for of, choice in _HASH_OF.items() if len({str(row[choice]) for row in runs if choice in row}) > 1}


def _short(row: PlacedRow, column: str) -> Markup:
    """Write a choice in short: of a hash, its beginning."""
    value = str(row[column])
    return named(value[:8] if column in _HASHES and value else value or "not recorded")


def folded_page(anchor: str, label: str, title: str, *content: Block | None) -> Section | None:
    """Return a section of the page whose content is folded; None if it is empty."""
    inner = section(f"{label}: show", *content, look="folded")
    return None if inner is None else page_section(anchor, label, title, inner)


def paper_blocks(paper: PaperTable) -> tuple[Block, ...]:
    """Show a table for a paper, and the same to paste as Markdown and LaTeX."""
    table, n_rows = paper.table, len(paper.table.rows)
    more = f" The first {SHOWN_ROWS} of {n_rows} rows." if n_rows > SHOWN_ROWS else ""
    shown = ShownTable(table.head, table.rows[:SHOWN_ROWS], words=table.words)
    return Captioned(shown, paper.caption + more), prose("macros", "paste", paper)


def _runs(results: Results) -> Section:
    """Show what was recorded of the runs: what differs, what all share and, apart because they are long, hashes."""
    runs = results.rows("runs")
    chosen = [name for name in results.declared["runs"] if name != "run"]
    alike = {name for name in chosen if len({str(row[name]) for row in runs}) == 1}
    shared = [(_head(name), _cell(runs[0], column=name)) for name in chosen if name in alike and str(runs[0][name])]
    long = [name for name in (*_HASHES, "command") if name in chosen]
    differing = [name for name in chosen if name not in (*long, *alike)]
    hashes = [name for name in long if name not in alike]
    hashed = "SHA-256 of what each run is made of, the model's revision, and the command that collected it"
    return page_section(
        "runs", "Runs", "The runs",
        section(
            "What was recorded, with hashes and commands",
            captioned(_facts(runs, differing), "What differs between the runs"),
            comparison_prose("shared", shared),
            captioned(_facts(runs, hashes), hashed) if hashes else None,
            look="folded",
        ),
    )  # fmt: skip


def _facts(runs: Sequence[PlacedRow], names: Sequence[str]) -> ShownTable:
    columns = (ShownColumn(_head(name), partial(_cell, column=name), words=not _is_count(name)) for name in names)
    return statistics_table(runs, ShownColumn("run", lambda row: str(row["run"])), *columns)


def _head(column: str) -> str:
    return _HEADS.get(column, column.removeprefix("n_").replace("_", " "))


def _is_count(column: str) -> bool:
    return column.startswith("n_") and column != "n_narratives"  # n_narratives is a choice, and may be unknown


def _cell(row: PlacedRow, column: str) -> Markup:
    return show(row, column, count) if _is_count(column) else isolated(str(row[column]) or "not recorded")


def counted_alike(said: Iterable[Markup]) -> Markup:
    """Count what is said of runs, in the order given: "2 × no verdict · 1 × undecided"."""
    alike: dict[Markup, list[Markup]] = {}
    for words in said:
        # Equal numbers of two runs link to different cells, so compare the text without its markup.
        alike.setdefault(Markup(words.striptags()), []).append(words)
    return Markup(" \N{MIDDLE DOT} ").join(
        Markup("{}\N{NO-BREAK SPACE}{} {}").format(count(len(each)), CROSS, each[0]) for each in alike.values()
    )
