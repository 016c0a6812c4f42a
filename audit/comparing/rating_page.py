"""The page of a comparison of ratings: each dimension's verdicts, strategies, elicitations, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Final, TypeAlias

from markupsafe import Markup

from audit.comparing.base import ComparisonContent
from audit.comparing.disparity_page import DimensionAnswers, answers_of, less_section
from audit.comparing.first_screen import (
    counted_verdicts,
    left_open_by,
    strategy_names,
    summary_of_runs,
    without_perceivers,
)
from audit.comparing.page import (
    COSTS,
    SHOWN_ROWS,
    compared_answer,
    comparison_prose,
    folded_page,
    paper_blocks,
    render_comparison,
)
from audit.comparing.pair_answers import change_in_words
from audit.comparing.series_page import series_findings, series_headline, series_section
from audit.report.disparities import without_reasons
from audit.report.numbers import PlacedRow, show
from audit.report.page import prose
from audit.report.results import Results
from audit.report.section import Block, Captioned, Paragraph, Section, paragraph, present, section
from audit.report.sentences import ALONE, describe_gaps
from audit.report.summary import RenderedPage
from audit.report.table_layout import IfKnown, Named, ShownColumn, number_column, speaks_of, text
from audit.report.tables import COMPARISONS, CONTROLS, MANIPULATION
from audit.report.verdicts import tallied, worded
from audit.tables.formatting import (
    MEANING,
    MISSING,
    count,
    dimension_title,
    either,
    error_rate,
    listed,
    plural,
    points,
    rate,
    unsigned,
)

_LEDE: Final = (
    f"The gap δ is {MEANING}, on average over narratives. Each δ is a property of one model under one prompt and one "
    "set of narratives; the page sets several beside each other and pools none."
)
_OF_GROUPS: Final = "tables/disparity"
"""The table for a paper on who gets less."""
_QUESTION: Final = "How do the runs differ?"
_DIMENSIONS_BESIDE: Final = 2  # most dimensions whose answers stand in the table of runs
_DIFFERENCES: Final[tuple[Named, ...]] = (
    "dimension",
    ShownColumn("gap of the first", change_in_words, words=True),
    *COMPARISONS[1:],
)
"""Columns of differences between runs."""
_NOT_INDEPENDENT: Final = (
    "Runs on the same narratives, or of the same model, are not independent: how many agree in sign is no p value, and "
    "says only how far the finding depends on the choices varied here."
)
_ECHO: Final = (
    "A δ may be the echo of a word, since in-group pairs repeat the perceiver's and out-group pairs do not. Of each "
    "run: δ without a word in common where its terms allow that, in identical words, and of invented groups."
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
_PAIRS: Final = {
    "echo_free": "without a common word",
    "all_terms": "all pairs",
    "mixed": "without a common word where a dimension allows that",
    "": "",
}
"""The in-group pairs of a δ, in the words of the table of controls."""
_BELOW: Final = "Its numbers are below."
_Said: TypeAlias = Mapping[tuple[str, str], Markup]
"""The verdicts on the runs' own pages, by run and dimension."""


def rating_page(content: ComparisonContent, results: Results, *, unmapped: Sequence[str] = ()) -> RenderedPage:
    """Render the page; ``unmapped`` says why dimensions have no map of perceivers."""
    specifications, strategies = results.rows("specifications"), results.rows("strategies")
    narrow = results.rows("gap", scope="narratives")
    less, alone = answers_of(results), without_perceivers(narrow)
    trends, weight = results.rows("series"), float(len(results.rows("runs")))
    first = content.answered(
        summary_of_runs(
            results,
            along=list(series_findings(trends, confidence=results.confidence, weight=weight)),
            along_plainly=series_headline(trends),
        )
    )
    whose = [row for row in specifications if str(row["dimension"]) not in alone]
    whole = bool(whose) or not less  # else δ is of nobody, and the page is about D alone
    curves = present(*(_curve(row, results) for row in specifications))
    differences = _differences(results)
    sections = [
        compared_answer(
            content, results, first, _QUESTION, _drawn_runs(results),
            columns=list(_by_itself(results, alone, less)), none="No run has a gap.",
        ),
        series_section(results),
        folded_page(
            "differences", "Gaps between runs", "How the gap differs between runs", comparison_prose("differences"),
            *differences, _absent("No two runs have a δ of the same dimension.", differences),
        ) if whole else None,
        less_section(results, less) if less else None,
        _worth(content, results, strategy_names(strategies)) if strategies else None,
        _elicitations(results) if results.rows("elicitation_ranges") else None,
        _checked(results),
        folded_page(
            "side", "Each run", "Each run by itself", Paragraph(_LEDE, "small"), Paragraph(_NOT_INDEPENDENT, "small"),
            *(block for row in whose for block in _answer(row, results.rows("verdicts", dimension=row["dimension"]))),
            *_limited(narrow), *_controls(results), comparison_prose("curve") if curves else None, *curves,
            _absent("There is no dimension with a δ in two runs, or there are too many runs to draw.", curves),
        ) if whole else None,
        folded_page(
            "paper", "Table for a paper", "The table for a paper",
            *(paper_blocks(content.papers["table"]) if whole else ()),
            comparison_prose("paper_of_ratings") if whole else None,
            *(paper_blocks(content.papers[_OF_GROUPS]) if _OF_GROUPS in content.papers else ()),
        ),
        _published(content, results, unmapped) if results.rows("published") and whole else None,
    ]  # fmt: skip
    return render_comparison(
        content, results, first, sections, gap="Intergroup empathy gap" if whole else "Who gets less",
        kicker="empathy-audit comparison", texts="ratings", limits=comparison_prose("limits_of_ratings", results.level),
    )  # fmt: skip


def _drawn_runs(results: Results) -> Block | None:
    """Show the runs on one axis: δ behind each verdict and, where groups differ between runs, their D."""
    shown = [
        (f"{dimension_title(str(row['dimension']))}, {row['run']}", row)
        for row in results.rows("verdicts") if math.isfinite(row.number("delta"))
    ]  # fmt: skip
    return section(
        "",
        results.picture(
            "gaps",
            "Each run by itself: what its verdict rests on. Whether two runs differ is told by their difference, not "
            "by two intervals.",
            alt=describe_gaps(shown, confidence=results.confidence),
        ),
        results.picture(
            "groups", "The groups whose D differs between runs, in each run.",
            alt=f"Forest plot of D of these groups, run by run, with a line at 0. {_BELOW}",
        ),
        look="pair",
    )  # fmt: skip


def _by_itself(results: Results, alone: Set[str], less: Sequence[DimensionAnswers]) -> Iterator[ShownColumn]:
    """Yield the columns of the table of runs that say what each run decides, of few dimensions."""
    dimensions = list(dict.fromkeys(str(row["dimension"]) for row in results.rows("gap")))
    if len(dimensions) > _DIMENSIONS_BESIDE:
        return
    several = len(dimensions) > 1
    for dimension in dimensions:
        said = {str(row["run"]): tallied(row)[1] for row in results.rows("verdicts", dimension=dimension)}
        where = f"{dimension_title(dimension)}: " if several else ""
        if dimension not in alone:
            yield ShownColumn(f"{where}gap", partial(_said_of, said=said), words=True)
        for own in (each for each in less if each.dimension == dimension):
            told = {
                run: Markup("; ").join(without_reasons(each) for each in (words, own.refused.get(run)) if each)
                for run, words in own.by_run.items()
            }
            yield ShownColumn(f"{where}who gets less?", partial(_said_of, said=told), words=True)


def _said_of(row: PlacedRow, said: Mapping[str, Markup]) -> Markup:
    words = said.get(str(row["run"]), Markup(MISSING))
    return words[:1].upper() + words[1:] if "<" not in words[:1] else words


def _checked(results: Results) -> Section | None:
    """Show the check of every run, and which runs were not checked."""
    made = results.rows("manipulation")
    left = [row["run"] for row in results.rows("runs") if row["run"] not in {each["run"] for each in made}]
    return folded_page(
        "check", "Check", "Do the ratings match the story?",
        results.table("manipulation", "Ratings without any identity, in each run", text("run", "run"), *MANIPULATION),
        Paragraph(Markup("Not checked: {}.").format(_named(left)), "small") if left else None,
    )  # fmt: skip


def _absent(text: str, blocks: Sequence[Block]) -> Paragraph | None:
    return None if blocks else Paragraph(text, "absent")


def _answer(row: PlacedRow, verdicts: Sequence[PlacedRow]) -> tuple[Block, ...]:
    """Say for one dimension what the runs' verdicts are, and how far δ ranges."""
    title = Markup("<bdi>{}</bdi>").format(dimension_title(str(row["dimension"])))
    open_ones = "; ".join(left_open_by(verdicts))
    content = section(
        title,
        Paragraph(_lead(row, verdicts), "verdict"),
        paragraph(f"These verdicts do not show: {open_ones}." if open_ones else ""),
        paragraph(_spread(row)),
    )
    return present(content)


def _lead(row: PlacedRow, verdicts: Sequence[PlacedRow]) -> Markup:
    """Count the runs' verdicts."""
    if not row["n_estimated"]:
        return Markup("δ could not be estimated in any of the runs.")
    runs = either(row["n_runs"], "run", "runs")
    return Markup("Verdicts of {} {}, as on their own pages: {}.").format(
        show(row, "n_runs", count), runs, counted_verdicts(verdicts)
    )


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
        either(row["n_same_sign"], "has", "have"),
    )


def _limited(narrow: Sequence[PlacedRow]) -> tuple[Block, ...]:
    """Say what limits a δ or its interval, run by run."""
    limited = [
        Markup("<bdi>{}, {}</bdi>: {}").format(dimension_title(str(row["dimension"])), row["run"], row["note"])
        for row in narrow if row["note"]
    ]  # fmt: skip
    return (comparison_prose("listed", "What limits a δ or its interval:", limited),) if limited else ()


def _controls(results: Results) -> tuple[Block, ...]:
    return present(
        Paragraph(_ECHO, "small") if results.rows("controls") else None,
        results.table(
            "controls", "Group or words: what of each δ is there without repeated words, or with invented groups",
            "dimension", text("run", "run"), *CONTROLS,
        ),
    )  # fmt: skip


def _curve(row: PlacedRow, results: Results) -> Captioned | None:
    """Show the specification curve of one dimension; None if it was not drawn."""
    title = dimension_title(str(row["dimension"]))
    alt = (
        f"Specification curve of {title}: δ of {plural(row['n_estimated'], 'run')} in order, in {row['unit']}, from "
        f"{points(row['lowest'])} to {points(row['highest'])}; beneath it the choices of each run."
    )
    return results.picture(
        f"specification-{row['dimension']}",
        f"Specification curve of {title}: δ {ALONE} of each run with its {results.level} interval, and what the runs "
        "differ in.",
        alt=alt,
    )


def _differences(results: Results) -> tuple[Block, ...]:
    """Show the paired differences: those from the first run as figure and table, the others folded away."""
    first = str(results.rows("runs")[0]["run"])
    own = results.rows("comparisons", first=first)
    others = [row for row in results.rows("comparisons") if row["first"] != first]
    n, more = len(others), ""
    if n > SHOWN_ROWS:
        more = f": the first {SHOWN_ROWS} of {n}; all are in tables/comparisons.csv"
    return present(
        *(
            results.picture(
                name,
                f"δ of the first run minus that of each other, in {unit}, on the narratives that both have.",
                alt=f"Forest plot of paired differences of δ in {unit}, with a line at 0. {_BELOW}",
            )
            for name, unit in (("comparisons", "points"), ("comparisons-percent", "% of the scale"))
        ),
        results.table("comparisons", f"Differences from the first run, {first}", *_DIFFERENCES, rows=own),
        section(
            "The other pairs",
            results.table(
                "comparisons", f"Differences between the other runs{more}", *_DIFFERENCES, rows=others[:SHOWN_ROWS]
            ),
            look="folded",
        ),
    )


# --- The published study ---------------------------------------------------------------------------------------------


def _published(content: ComparisonContent, results: Results, unmapped: Sequence[str]) -> Section | None:
    """Show the published study's table and figures."""
    dimensions = dict.fromkeys(str(row["dimension"]) for row in results.rows("published"))
    drawn = present(
        *(
            results.picture(f"{name}-{dimension}", f"{dimension_title(dimension)}: {caption}", alt=alt)
            for name, caption, alt in (
                (
                    "published",
                    _HEATMAPS,
                    "The published heatmap of each run, perceivers in rows, experiencers in columns, one scale of "
                    "colours; every value is in tables/published_cells.csv.",
                ),
                (
                    "perceiver-map",
                    _MAPS,
                    "Perceivers as points in the plane by t-SNE, a panel a run; every place is in "
                    "tables/perceiver_map.csv.",
                ),
            )
            for dimension in dimensions
        )
    )
    return folded_page(
        "published", "As the study shows it", "As the study shows it", comparison_prose("published", bool(drawn)),
        *paper_blocks(content.papers["tables/published"]), *drawn,
        comparison_prose("listed", "Without a map of perceivers by t-SNE:", unmapped) if unmapped else None,
        comparison_prose("about_published", bool(drawn)),
    )  # fmt: skip


# --- Strategies ------------------------------------------------------------------------------------------------------


def _worth(content: ComparisonContent, results: Results, names: Mapping[str, str]) -> Section | None:
    """Show what the strategies changed, and what they cost."""
    dimensions = dict.fromkeys(row["dimension"] for row in results.rows("strategies"))
    paper = content.papers["tables/strategies"]
    return folded_page(
        "worth", "Is it worth it?", "Is it worth it?", comparison_prose("worth"),
        *(_strategies(str(dimension), results, names) for dimension in dimensions),
        prose("macros", "paste", paper, "All of it in one table, as Markdown", paper.caption),
        comparison_prose("about_worth"),
    )  # fmt: skip


def _strategies(dimension: str, results: Results, names: Mapping[str, str]) -> Section | None:
    """Show what the strategies changed in one dimension."""
    rows, title = results.rows("strategies", dimension=dimension), dimension_title(dimension)
    strategy = ShownColumn("strategy", lambda row: names[str(row["run"])])
    judged = {str(row["run"]): row for row in results.rows("verdicts", dimension=dimension)}

    def response(row: PlacedRow) -> Markup:
        """Write how much higher a story's own emotion is rated: it falls, too, if all ratings come closer."""
        own = judged.get(str(row["run"]))
        return Markup(MISSING) if own is None else show(own, "response", points)

    checked = any(math.isfinite(row.number("response")) for row in judged.values())
    return section(
        Markup("<bdi>{}</bdi>").format(title),
        results.picture(
            f"strategies-{dimension}",
            f"δ {ALONE} under each strategy (dashed: under none), its paired change against none, and the cost of a "
            "rating. A filled mark has a corrected p below the level.",
            alt=f"{title}, strategies in rows: δ, its change, and its cost. {_BELOW}",
        ),
        results.table(
            "strategies", f"What the strategies change, {title}",
            strategy, ShownColumn("gap", change_in_words, words=True),
            ("delta", f"δ {ALONE}, {rows[0]['unit']}"), "ci_low", ("delta_change", "change"), "change_low",
            ("p_adjusted", "p, corrected"), ("mean_rating", "mean rating, points"),
            number_column("its change", "mean_change", points),
            *([ShownColumn("response to the story, points", response)] if checked else []), ("refusal_rate", "refused"),
            ("missing_share", "no rating"), IfKnown("mean_number_mass", "number mass"), "note",
            rows=rows,
        ),
        results.table(
            "strategies", f"What a rating costs under each, {title}",
            strategy, *COSTS, ShownColumn("differences between groups in its texts", _texts),
            rows=rows,
        ),
    )  # fmt: skip


def _texts(row: PlacedRow) -> Markup:
    """Write how many tests of stereotype words and sentiment found a difference."""
    if not row["n_text_tests"]:
        return Markup("not testable") if row.number("n_tokens") > 0 else Markup("no texts")
    return Markup("{} of {}").format(show(row, "n_text_differences", count), show(row, "n_text_tests", count))


# --- Elicitations ----------------------------------------------------------------------------------------------------


def _elicitations(results: Results) -> Section | None:
    """Show whether the answer depends on the elicitation, for each set of runs and dimension."""
    return folded_page(
        "elicitations", "Elicitations", "Does it depend on how the rating is got?", comparison_prose("elicitations"),
        *_sets(results), comparison_prose("about_elicitations"),
    )  # fmt: skip


def _sets(results: Results) -> Iterator[Section | None]:
    said = {(str(row["run"]), str(row["dimension"])): worded(row).words for row in results.rows("verdicts")}
    ranges = results.rows("elicitation_ranges")
    several = len({row["reference"] for row in ranges}) > 1
    for whole in ranges:
        own = results.rows("elicitations", reference=whole["reference"], dimension=whole["dimension"])
        title = dimension_title(str(whole["dimension"])) + (f", beside {whole['reference']}" if several else "")
        verdict = ShownColumn("verdict", lambda row: said[str(row["run"]), str(row["dimension"])], words=True)
        n = ShownColumn(
            "narratives", lambda row: show(row, "n_narratives", count) if row["run"] != row["reference"] else ""
        )
        yield section(
            Markup("<bdi>{}</bdi>").format(title),
            Paragraph(_sentence(whole, own, said), "verdict"),
            paragraph(_range(whole, own, confidence=results.confidence)),
            results.table(
                "elicitations", f"δ by elicitation, {title}: each against the first, {own[0]['elicitation']}",
                "elicitation", text("run", "run"),
                ShownColumn("in-group pairs", _pairs, words=True), "delta", "ci_low", speaks_of("scope"), verdict,
                ("delta_change", "less the first"), "change_low", ("p_adjusted", "p, corrected"),
                speaks_of("change_scope"), n, "note",
                rows=own,
            ),
        )  # fmt: skip


def _sentence(whole: PlacedRow, rows: Sequence[PlacedRow], said: _Said) -> Markup:
    """Say whether the sign or the verdict depends on the elicitation."""
    by_verdict: dict[Markup, list[str]] = {}
    for row in rows:
        by_verdict.setdefault(said[str(row["run"]), str(row["dimension"])], []).append(str(row["elicitation"]))
    found = Markup(" ").join(
        Markup("With {}: {}{}.").format("each" if len(by_verdict) == 1 else _named(names), words[0].lower(), words[1:])
        for words, names in by_verdict.items()
    )
    if not whole["sign"]:
        lacking = "Whether the sign of δ or the verdict depends on the elicitation is not known: of {} {} a verdict. {}"
        return Markup(lacking).format(
            show(whole, "n_elicitations", count),
            Markup("{} {}").format(show(whole, "n_verdicts", count), either(whole["n_verdicts"], "has", "have")),
            found,
        )
    chance = "which may be chance, since no two intervals leave out 0 on opposite sides"
    depends = {
        ("same", "same"): "Neither the sign of δ nor the verdict depends on the elicitation",
        ("same", "differs"): "The verdict depends on the elicitation, the sign of δ does not",
        ("differs", "same"): f"The sign of δ differs between elicitations, {chance}; the verdict does not",
        ("differs", "differs"): f"The sign of δ differs between elicitations, {chance}, and so does the verdict",
        ("reverses", "same"): "The sign of δ depends on the elicitation, the verdict does not",
        ("reverses", "differs"): "Both the sign of δ and the verdict depend on the elicitation",
    }[str(whole["sign"]), str(whole["verdict"])]
    return Markup("{}. {}").format(depends, found)


def _range(whole: PlacedRow, rows: Sequence[PlacedRow], *, confidence: float) -> Markup:
    """Say how far δ ranges, and whether paired differences confirm it."""
    if not whole["n_estimated"]:
        return Markup("")
    said = Markup("δ goes from {} (<bdi>{}</bdi>) to {} (<bdi>{}</bdi>), a range of {} points over {} {}.").format(
        show(whole, "lowest", points),
        whole["lowest_elicitation"],
        show(whole, "highest", points),
        whole["highest_elicitation"],
        show(whole, "range", unsigned),
        show(whole, "n_estimated", count),
        either(whole["n_estimated"], "elicitation", "elicitations"),
    )
    if not whole["n_changes"]:
        return said + Markup(" No paired difference has a p.")
    said += Markup(" Of {} paired {} from <bdi>{}</bdi>, {} {} found (corrected p below {}).").format(
        show(whole, "n_changes", count),
        either(whole["n_changes"], "difference", "differences"),
        rows[0]["elicitation"],
        show(whole, "n_found", count),
        either(whole["n_found"], "is", "are"),
        error_rate(confidence),
    )
    if not whole["n_found"] and "differs" in (whole["sign"], whole["verdict"]):
        said += Markup(" So that δ itself depends on the elicitation is not shown.")
    return said


def _named(names: Sequence[object]) -> Markup:
    return Markup(listed([Markup("<bdi>{}</bdi>").format(name) for name in names]))


def _pairs(row: PlacedRow) -> str:
    """Name the in-group pairs of a gap, and whether the gap of invented groups was subtracted."""
    beyond = ", beyond invented groups" if row["control"] == "placebo" else ""
    return _PAIRS[str(row["pairs"])] + beyond
