"""The page of a comparison of ratings: the answer over all runs first, then each run, then the differences.

Like a run's report it is self-contained and escaped, has no script except for the table of contents, and links every
number to its place in ``tables/``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Final

import pandas as pd
from markupsafe import Markup

from audit.comparing.elicitations_page import elicitation_sections
from audit.comparing.first_screen import (
    can_change,
    counted_verdicts,
    in_pairs,
    summary_of_runs,
    told_tally,
    without_verdict,
)
from audit.comparing.paper_table import PaperTable
from audit.comparing.tables import RUNS
from audit.report.manifest import ExampleView
from audit.report.numbers import PlacedRow, rows_of, show
from audit.report.page import picture, render_page
from audit.report.section import (
    Block,
    Captioned,
    Card,
    Note,
    Paragraph,
    Section,
    captioned,
    paragraph,
    present,
    section,
)
from audit.report.sentences import ALONE, describe_gaps
from audit.report.table_layout import (
    ShownColumn,
    ShownTable,
    interval_column,
    number_column,
    speaks_of,
    statistics_table,
)
from audit.report.tables import comparisons_table, controls_table
from audit.tables.formatting import (
    MEANING,
    bare_p,
    count,
    coverage,
    dimension_title,
    either,
    mean_count,
    plural,
    points,
    rate,
    unsigned,
)
from audit.tables.formatting import interval as write_interval

_SHOWN: Final = 200
"""Most differences between runs other than the first on the page; the file has all."""
_NO_CHANGES: Final = (
    "Changes of runs whose own page gives no verdict are in the table and not counted: ratings that cannot carry a "
    "verdict cannot show that a strategy changes anything."
)
_HASHES: Final = ("identity", "ratings", "replies", "texts", "wording", "leading", "identities", "revision")
_HEADS: Final = {
    "path": "model's place",
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
_ECHO: Final = (
    "A δ may be the echo of a word, since in-group pairs repeat the perceiver's and out-group pairs do not. Of each "
    "run: δ without a word in common where its terms allow that, in the very same words, and of invented groups."
)
_HEATMAPS: Final = (
    "the published heatmap of each run, masked as published. The mask compares cells with identities' own cells and is "
    "no test of a gap between groups. One scale of colours, in standard deviations of each run's own cells: equal "
    "colours of two runs are not equal points."
)
_MAPS: Final = (
    "each run's perceivers by t-SNE of their rows of the heatmap; perplexity and seed stand below. It is a picture and "
    "claims nothing: t-SNE shows clumps in noise, too, and distances between clumps mean nothing. The study's own "
    "perplexity is not known to us."
)


def render_comparison(
    *,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    paper: PaperTable,
    worth: PaperTable | None = None,
    published: PaperTable | None = None,
    unmapped: Sequence[str] = (),
    remarks: Sequence[str],
    left_out: Sequence[str],
    confidence: float,
    command: str,
    example: ExampleView | None = None,
) -> str:
    """Render the page of a comparison, as HTML that can be encoded as UTF-8.

    Parameters
    ----------
    tables
        The tables of ``tables.COMPARISON_TABLES`` by name.
    figures
        SVG by name: ``gaps``, ``comparisons``, ``comparisons-percent``, ``specification-<dimension>``,
        ``strategies-<dimension>``, ``published-<dimension>`` and ``perceiver-map-<dimension>``. Missing figures are
        left out.
    worth
        What strategies change and cost, as a table for a paper; None without strategies to compare.
    published
        The table of the published study; None leaves the section out.
    unmapped
        Why dimensions have no map of perceivers, in words.
    left_out
        Runs that were asked for and failed, in words.
    command
        Makes the page again.
    example
        A prompt of the first run.
    """
    level = coverage(confidence)
    runs = rows_of(tables["runs"], "runs")
    shared, different, hashes = run_facts(runs, list(RUNS))
    shown = [
        (f"{dimension_title(str(row['dimension']))}, {row['run']}", row)
        for row in rows_of(tables["gap"], "gap")
        if row["scope"] == "narratives"
    ]
    specifications = rows_of(tables["specifications"], "specifications")
    verdicts = rows_of(tables["verdicts"], "verdicts")
    controls = controls_table(tables["controls"], level=level, titles=("dimension", "run"))
    return render_page(
        "comparison.html.j2",
        meaning=MEANING,
        summary=summary_of_runs(
            runs,
            specifications,
            [row for _, row in shown],
            rows_of(tables["strategies"], "strategies"),
            strategy_names(tables["strategies"]),
            verdicts,
            confidence=confidence,
        ),
        example=example,
        answers=[
            _answer(row, [each for each in verdicts if each["dimension"] == row["dimension"]]) for row in specifications
        ],
        curves=present(*(_curve(row, figures, level=level) for row in specifications)),
        strategies=list(
            _strategies(tables["strategies"], figures, without_verdict(verdicts), level=level, alpha=1 - confidence)
        ),
        elicitations=list(
            elicitation_sections(tables["elicitations"], tables["elicitation_ranges"], verdicts, confidence=confidence)
        ),
        n_runs=len(runs),
        without=[(title, str(row["note"])) for title, row in shown if row["note"]],
        gaps=present(
            captioned(
                picture(figures, "gaps", describe_gaps(shown, confidence=confidence)),
                f"δ {ALONE} and its {level} interval in each run, in points of the scale. An interval that crosses the "
                "line at 0 is compatible with no average gap. Whether two runs differ is not to be read from whether "
                "their intervals overlap: the paired differences say it.",
            )
        ),
        controls=present(
            Paragraph(Markup(_ECHO), "small") if controls.rows else None,
            captioned(
                controls, "Group or words: what of each δ is there without repeated words, or with invented groups"
            ),
        ),
        differences=_differences(tables["comparisons"], figures, first=str(runs[0]["run"]), level=level),
        paper=paper,
        strategies_paper=worth,
        published=published,
        heatmaps=list(_pictures(tables["published"], figures, "published-", _describe_heatmaps, _HEATMAPS)),
        maps=list(_pictures(tables["published"], figures, "perceiver-map-", _describe_map, _MAPS)),
        unmapped=unmapped,
        shared=shared,
        different=different,
        hashes=hashes,
        notes=[Note(text) for text in remarks],
        left_out=[Note(text, "Left out") for text in left_out],
        level=level,
        command=command,
    )


def _answer(row: PlacedRow, verdicts: Sequence[PlacedRow]) -> Card:
    """Say for one dimension what the runs' verdicts are, and how far δ ranges."""
    content = present(Paragraph(_lead(row, verdicts), "verdict"), paragraph(_spread(row)))
    return Card(dimension_title(str(row["dimension"])), content)


def _curve(row: PlacedRow, figures: Mapping[str, bytes], *, level: str) -> Captioned | None:
    """Show the specification curve of one dimension; None if it was not drawn."""
    title = dimension_title(str(row["dimension"]))
    alt = (
        f"Specification curve of {title}: δ of {plural(row['n_estimated'], 'run')} in order, each with its {level} "
        f"interval, in {row['unit']}, from {points(row['lowest'])} to {points(row['highest'])}; beneath it the choices "
        "of each run."
    )
    return captioned(
        picture(figures, f"specification-{row['dimension']}", alt),
        f"Specification curve of {title}: δ {ALONE} of each run with its {level} interval, and what the runs differ "
        "in.",
    )


def _lead(row: PlacedRow, verdicts: Sequence[PlacedRow]) -> Markup:
    """Count the runs' verdicts."""
    if not row["n_estimated"]:
        return Markup("δ could not be estimated in any of the runs.")
    runs = either(row["n_runs"], "run", "runs")
    return Markup("Verdicts of {} {}, as on their own pages: {}.").format(
        show(row, "n_runs", count), runs, counted_verdicts(verdicts)
    )


def _verb(row: PlacedRow, column: str, plural_form: str) -> str:
    """Return the verb, singular if the count is 1."""
    singular = {"are": "is", "have": "has", "show": "shows"}
    return plural_form if row[column] != 1 else singular[plural_form]


def _spread(row: PlacedRow) -> Markup:
    """Say how far δ ranges over the runs, and how many agree in sign."""
    if not row["n_estimated"]:
        return Markup("")
    if row["n_estimated"] == 1:
        return Markup("δ {} is {} in <bdi>{}</bdi>, in {}; there is no other to set it against.").format(
            ALONE, show(row, "median", points), row["lowest_run"], row["unit"]
        )
    lowest, highest, median = (show(row, name, points) for name in ("lowest", "highest", "median"))
    sentence = Markup("δ {} goes from {} (<bdi>{}</bdi>) to {} (<bdi>{}</bdi>), median {}, in {}. ").format(
        ALONE, lowest, row["lowest_run"], highest, row["highest_run"], median, row["unit"]
    )
    return sentence + Markup("{} of {} ({}) {} the median's sign.").format(
        show(row, "n_same_sign", count),
        show(row, "n_estimated", count),
        show(row, "share_same_sign", rate),
        _verb(row, "n_same_sign", "have"),
    )


def _differences(
    comparisons: pd.DataFrame, figures: Mapping[str, bytes], *, first: str, level: str
) -> tuple[Block, ...]:
    """Show the paired differences: those from the first run as figure and table, the others folded away."""
    of_first = comparisons["first"] == first
    own, others = comparisons.loc[of_first], comparisons.loc[~of_first]
    more = f": the first {_SHOWN} of {len(others)}; all are in tables/comparisons.csv" if len(others) > _SHOWN else ""
    return present(
        *(
            captioned(
                picture(figures, name, _describe_differences(own, unit)),
                f"δ of the first run minus that of each other, in {unit}, on the narratives that both have.",
            )
            for name, unit in (("comparisons", "points"), ("comparisons-percent", "% of the scale"))
        ),
        captioned(comparisons_table(own, level=level), f"Differences from the first run, {first}"),
        section(
            "The other pairs",
            captioned(
                comparisons_table(others.iloc[:_SHOWN], level=level), f"Differences between the other runs{more}"
            ),
            look="folded",
        ),
    )


def _describe_differences(comparisons: pd.DataFrame, unit: str) -> str:
    """Write the alternative text of the forest plot of differences."""
    said = [
        f"{dimension_title(str(row['dimension']))}, {row['first']} less {row['second']}: {points(row['delta_change'])}"
        + (f", {write_interval(row['ci_low'], row['ci_high'])}" if math.isfinite(row["ci_low"]) else "")
        for row in comparisons.to_dict("records")
        if row["unit"] == unit and math.isfinite(row["delta_change"])
    ]
    return f"Forest plot of paired differences of δ in {unit}, with a line at 0. {'; '.join(said)}."


def _pictures(
    published: pd.DataFrame,
    figures: Mapping[str, bytes],
    start: str,
    describe: Callable[[str, Sequence[PlacedRow]], str],
    caption: str,
) -> Iterator[Captioned]:
    """Yield the published study's figures of one kind, one a dimension."""
    for dimension, rows in published.groupby("dimension", sort=False):
        title = dimension_title(str(dimension))
        drawn = picture(figures, f"{start}{dimension}", describe(title, rows_of(rows, "published")))
        if drawn is not None:
            yield Captioned(drawn, f"{title}: {caption}")


def _describe_heatmaps(title: str, rows: Sequence[PlacedRow]) -> str:
    said = "; ".join(f"{row['run']}: δ_z {points(row.number('delta_z'))}" for row in rows)
    return (
        f"{title}: the published heatmap of {plural(len(rows), 'run')}, perceivers in rows, experiencers in columns, "
        f"one scale of colours; every value is in tables/published_cells.csv. {said}."
    )


def _describe_map(title: str, rows: Sequence[PlacedRow]) -> str:
    return (
        f"{title}: perceivers as points in the plane by t-SNE, a panel a run; every place is in "
        "tables/perceiver_map.csv."
    )


def _strategies(
    strategies: pd.DataFrame, figures: Mapping[str, bytes], void: Set[tuple[str, str]], *, level: str, alpha: float
) -> Iterator[Section]:
    """Yield what the strategies changed, one section a dimension."""
    names = strategy_names(strategies)
    for dimension, own in strategies.groupby("dimension", sort=False):
        rows = rows_of(own, "strategies")
        by_run = {str(row["run"]): row for row in rows}
        title = dimension_title(str(dimension))
        said = "; ".join(
            f"{names[run]}: δ {points(row.number('delta'))}"
            + (f", change {points(row.number('delta_change'))}" if math.isfinite(row.number("delta_change")) else "")
            for run, row in by_run.items()
        )
        alt = f"{title}, strategies in rows: δ with a dashed line at δ under none, its change, and its cost. {said}."
        every = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
        tested = [row for row in every if can_change(row, void)]
        content = present(
            captioned(
                picture(figures, f"strategies-{dimension}", alt),
                f"δ {ALONE} under each strategy (dashed: under none), its paired change against none, and the cost of "
                "a rating. A filled mark has a corrected p below the level.",
            ),
            Paragraph(_tallied(tested, names, alpha=alpha), "lead") if tested else None,
            paragraph(_NO_CHANGES, "small") if len(tested) < len(every) else None,
            captioned(_changes_table(rows, names, level=level), f"What the strategies change, {title}"),
            captioned(_costs_table(rows, names), f"What a rating costs under each, {title}"),
        )
        yield Section(Markup("<bdi>{}</bdi>").format(title), content)


def strategy_names(strategies: pd.DataFrame) -> dict[str, str]:
    """Return each run's name on the page: its strategy if that is unique, else its label."""
    strategy = dict(zip(strategies["run"].astype(str), strategies["strategy"].astype(str), strict=True))
    return strategy if len(set(strategy.values())) == len(strategy) else {run: run for run in strategy}


def _tallied(tested: Sequence[PlacedRow], names: Mapping[str, str], *, alpha: float) -> Markup:
    """Say under how many strategies δ is lower or higher than without, and name them."""
    tally = told_tally(tested, "delta_change", alpha=alpha)
    said = Markup("δ against none{}: {}").format(in_pairs(tested, "change_scope"), tally)
    found = [row for row in tested if row.number("p_adjusted") < alpha]
    for word, own in (
        ("Lower", [row for row in found if row.number("delta_change") < 0]),
        ("Higher", [row for row in found if row.number("delta_change") >= 0]),
    ):
        if own:
            each = Markup(", ").join(
                Markup("<bdi>{}</bdi> {}").format(names[str(row["run"])], show(row, "delta_change", points))
                for row in own
            )
            said += Markup(". {}: {}").format(word, each)
    return said + Markup(" (p corrected for {}). Undecided is not unchanged.").format(plural(len(tested), "test"))


def _changes_table(rows: Sequence[PlacedRow], names: Mapping[str, str], *, level: str) -> ShownTable:
    """Show δ, its change, and side effects; number mass and notes only if there are any."""
    with_mass = any(math.isfinite(row.number("mean_number_mass")) for row in rows)
    return statistics_table(
        rows,
        ShownColumn("strategy", lambda row: names[str(row["run"])]),
        number_column(f"δ {ALONE}, {rows[0]['unit']}", "delta", points),
        interval_column(level),
        number_column("change", "delta_change", points),
        interval_column(level, "change_low", "change_high"),
        number_column("p, corrected", "p_adjusted", bare_p),
        speaks_of("change_scope"),
        number_column("mean rating, points", "mean_rating", unsigned),
        number_column("its change", "mean_change", points),
        number_column("refused", "refusal_rate", rate),
        number_column("no rating", "missing_share", rate),
        *([number_column("number mass", "mean_number_mass", rate)] if with_mass else []),
        note="note",
    )


def _costs_table(rows: Sequence[PlacedRow], names: Mapping[str, str]) -> ShownTable:
    """Show the cost of a rating under each strategy."""
    return statistics_table(
        rows,
        ShownColumn("strategy", lambda row: names[str(row["run"])]),
        number_column("calls", "n_calls", mean_count),
        number_column("tokens read by stages", "n_prompt_tokens", mean_count),
        number_column("written by stages", "n_tokens", mean_count),
        number_column("read by the question", "n_question_tokens", mean_count),
        number_column("shortened", "shortened_share", rate),
        number_column("seconds", "seconds", unsigned),
        ShownColumn("differences between groups in its texts", _texts),
    )


def _texts(row: PlacedRow) -> Markup:
    """Write how many tests of stereotype words and sentiment found a difference."""
    if not row["n_text_tests"]:
        return Markup("not testable") if row.number("n_tokens") > 0 else Markup("no texts")
    return Markup("{} of {}").format(show(row, "n_text_differences", count), show(row, "n_text_tests", count))


def run_facts(
    runs: Sequence[PlacedRow], columns: Sequence[str]
) -> tuple[list[tuple[str, Markup]], ShownTable, ShownTable]:
    """Lay out what was recorded of the runs, in the order of ``columns``.

    Returns what all runs share, by name; what differs; and, apart because they are long, differing hashes and commands.
    """
    chosen = [name for name in columns if name != "run"]
    alike = {name for name in chosen if len({str(row[name]) for row in runs}) == 1}
    shared = [(_head(name), _cell(runs[0], name)) for name in chosen if name in alike and str(runs[0][name])]
    long = (*_HASHES, "command")
    return (
        shared,
        _facts(runs, [name for name in chosen if name not in (*long, *alike)]),
        _facts(runs, [name for name in long if name in chosen and name not in alike]),
    )


def _facts(runs: Sequence[PlacedRow], names: Sequence[str]) -> ShownTable:
    columns = (ShownColumn(_head(name), partial(_cell, column=name), words=not _is_count(name)) for name in names)
    return statistics_table(runs, ShownColumn("run", lambda row: str(row["run"])), *columns)


def _head(column: str) -> str:
    return _HEADS.get(column, column.removeprefix("n_").replace("_", " "))


def _is_count(column: str) -> bool:
    return column.startswith("n_") and column != "n_narratives"  # n_narratives is a choice, and may be unknown


def _cell(row: PlacedRow, column: str) -> Markup:
    if _is_count(column):
        return show(row, column, count)
    return Markup("<bdi>{}</bdi>").format(str(row[column]) or "not recorded")
