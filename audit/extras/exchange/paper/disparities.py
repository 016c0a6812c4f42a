"""Who gets less, for a paper: the table of the disparity D of groups, and its paragraph of the section on methods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from audit.extras.exchange.groups import MEANING, NO_GAP, OF_MEASURES, ComparedGroups, plain
from audit.extras.exchange.paper.base import Study, has_interval, is_finite
from audit.extras.exchange.paper.limits import cautions
from audit.extras.exchange.paper.references import HOLM, HOTELLING, SCHUIRMANN
from audit.extras.exchange.paper.table import (
    ManuscriptRow,
    ManuscriptTable,
    Marks,
    decimals_for,
    df_written,
    format_number,
    interval_written,
    p_written,
)
from audit.extras.exchange.paper.text import Cite, Line, PlainText, Symbol, line, told_names
from audit.report.disparities import answer_in_words, farthest_group, limit_in_words, limits_of_row
from audit.report.numbers import PlacedRow
from audit.tables.formatting import count, dimension_title, error_rate, listed, p_value, unsigned
from stimuli.words import capital

_D, _P, _T = Symbol("D"), Symbol("p"), Symbol("t")
_AS_RATED: Final = {
    "all": "on average over the groups of perceivers, each alike",
    "no_persona": "without a persona",
    "unspecified": "with “a person” as perceiver",
}
"""By whom groups are rated in each view that can decide."""
_SCOPES: Final = {
    "narratives": "the words that were asked",
    "narratives_and_terms": "any such terms of a group: what terms of a group differ by was added to the variance",
    "narratives_and_labels": "more than labels: what labels of invented groups differ by was added to the variance",
}
"""What the deciding interval of a group speaks of."""


def paper_disparity_table(study: Study, number: int) -> ManuscriptTable | None:
    """Lay out the table of groups, a row for each; None if none were compared.

    Of written texts it has, for each measure, the groups that are shown to be lower or higher, or else the one that is
    farthest from the others.
    """
    if not study.compared:
        return None
    marks, rated = Marks(), study.is_rated
    several = len({(each.dimension, each.variant) for each in study.compared}) > 1
    corrected = any(row["family_size"] > 1 for each in study.compared for row in _shown(each, rated))
    head: list[Line] = [
        *([] if rated else [("Measure",), ("Unit",)]), ("Group",), ("Answer",), ("Narratives",),
        ("Ratings" if rated else "Texts",), (_D,), (Symbol("SE"),), (f"{study.level} CI",), (_T,), (Symbol("df"),),
        (_P,), *([line(_P, " corrected")] if corrected else []),
    ]  # fmt: skip
    rows: list[ManuscriptRow] = []
    before = ("", "")
    for each in study.compared:
        place = (each.dimension, each.variant)
        if several and place != before:
            rows.append(ManuscriptRow((_where(study, each), *([()] * (len(head) - 1)))))
        before = place
        shown = _shown(each, rated)
        decimals = decimals_for(row["se"] for row in shown)
        for row in shown:
            cells = _cells(row, marks, decimals, corrected=corrected)
            if not rated:
                cells = (PlainText(study.measure_title(each.outcome)),), (PlainText(str(row["unit"])),), *cells
            rows.append(ManuscriptRow(tuple(cells), int(several)))
    what = "Rated Intensity" if rated else "Measures of Written Texts"
    return ManuscriptTable(
        number=number,
        title=(f"Disparity D in {what}, Each Group Minus the Others",),  # in italics as a whole
        head=tuple(head),
        rows=tuple(rows),
        notes=tuple(_notes(study, corrected=corrected)),
        marked=marks.said,
        n_words=2 if rated else 4,
        label=f"tab:disparity{number}",
    )


def _shown(each: ComparedGroups, rated: bool) -> Sequence[PlacedRow]:
    """Return the groups in the table, the lowest first."""
    farthest = each.said.row or farthest_group(each.rows) or each.rows[0]
    found = each.rows if rated else each.said.found or (farthest,)
    return sorted(found, key=lambda row: (math.isnan(row.number("disparity")), row.number("disparity")))


def _cells(row: PlacedRow, marks: Marks, decimals: int, *, corrected: bool) -> tuple[Line, ...]:
    """Lay out a group; letters refer to what limits its answer, or to why it has none."""
    known = has_interval(row)
    why = str(row["note"] or "") if not known else ""
    limits = [*([why] if why else []), *(limit_in_words(code, row) for code in limits_of_row(row))]
    marked = marks.mark((PlainText(f"{capital('; '.join(limits))}."),)) if limits else None
    disparity, se = row.number("disparity"), row.number("se")
    numbers = [
        count(row.number("n_narratives")),
        count(row.number("n_answers")),
        format_number(disparity, decimals),
        format_number(se if known else math.nan, decimals),
        interval_written(row["ci_low"], row["ci_high"], decimals),
        format_number(disparity / se if known and se > 0 else math.nan, 2),
        df_written(row["df"] if known else math.nan),
        p_written(row["p"] if known else math.nan),
        *([p_written(row["p_adjusted"] if known else math.nan)] if corrected else []),
    ]
    return (
        line(PlainText(str(row["group"])), marked),
        (PlainText(plain(answer_in_words(row))),),
        *((each,) for each in numbers),
    )


def _notes(study: Study, *, corrected: bool) -> Iterator[Line]:
    yield line(_D, f" of a group is {_meaning(study)}.")
    yield line(f"CI is the {study.level} confidence interval of the ", _T, " distribution, not corrected.")
    yield line(_P, " is two-sided.")
    if corrected:
        yield line("Corrected ", _P, " is ", _correction(study), ".")
    if not study.is_rated:
        yield (
            "Shown of each measure: the groups that are lower or higher, or else the one that is farthest from the "
            "others.",
        )
    yield from _spoken_of(study)
    yield from disparity_sentences(study)
    yield ("It does not say which rating is right." if study.is_rated else "Lower is not worse in itself.",)
    if not study.has_perceivers:
        yield (NO_GAP,)
    yield from cautions(study, gaps=False)


def disparity_sentences(study: Study) -> Iterator[Line]:
    """Yield who gets less, in the words of the run's page, with the number that the words are about."""
    alike: dict[str, list[ComparedGroups]] = {}
    for each in study.compared:
        words = plain(each.said.words)
        if study.is_rated:
            bound = plain(each.said.bound)
            more = " ".join(filter(None, (each.number, bound)))
            yield line(
                "Who gets less, of ", _where(study, each), ": ", PlainText(f"{words}.", whole=True),
                *((" ", PlainText(more, whole=True)) if more else ()),
            )  # fmt: skip
        else:
            alike.setdefault(words, []).append(each)
    for each in study.refused:
        said = PlainText(f"{plain(each.said.words)}. {each.number}", whole=True)
        yield line("Refusals, of ", _where(study, each), ": ", said)
    for words, of in alike.items():
        yield line(
            "Who gets less, of ", told_names((study.measure_title(each.outcome) for each in of), quoted=True,
            last=" and "), ": ", PlainText(words, whole=True), ".",
        )  # fmt: skip


def disparity_methods(study: Study) -> Iterator[Line]:
    """Yield what D is, how it was estimated, corrected and told from words, and what decides."""
    if not study.compared:
        return
    rows = [row for each in study.compared for row in each.rows]
    yield line("The disparity ", _D, f" of a group is {_meaning(study)}.")
    if study.has_perceivers:
        yield line(Symbol("δ"), " leaves out what all perceivers do alike; ", _D, " is what it leaves out.")
    else:
        yield (NO_GAP,)
    kinds = {str(row["estimator"]) for row in rows}
    values = "ratings" if study.is_rated else "values"
    if "contrast" in kinds:
        error = "errors clustered by conversation" if study.over_conversations else "their standard error"
        yield line(_D, f" is the mean of the narratives' own contrasts, with {error}.")
    if "pairs" in kinds:
        yield line(
            f"Where {values} were missing or were not asked for, ", _D, " is by least squares on effects of narrative "
            "× perceiver and of all pairs, with standard errors clustered by narrative (CR2).",
        )  # fmt: skip
    if any(map(has_interval, rows)):
        yield line(f"Its {study.level} interval is of the ", _T, " distribution, and not corrected.")
    if any(row["family_size"] > 1 for row in rows):
        yield line("Corrected ", _P, " values are ", _correction(study), " ", Cite((HOLM,)), ".")
    yield from _spoken_of(study)
    yield from _tested_at_once(study)
    alpha = error_rate(study.manifest.statistics.confidence)
    ends = ", and if ratings are not at an end of the scale" if study.is_rated else ""
    yield line(
        "A group is called lower or higher if its corrected ", _P, f" is at most {alpha}, also without the group that "
        f"differs most from the others and with missing {values} at their worst{ends}.",
    )  # fmt: skip
    margins = {row.number("margin") for row in rows if is_finite(row["margin"])}
    if margins:
        yield line(
            f"A difference of less than {unsigned(min(margins))} points counted as too small to matter. A group "
            "differs by more if its interval, corrected for the number of groups, lies beyond that, and by less if two "
            "one-sided tests show it ", Cite((SCHUIRMANN,)), ".",
        )  # fmt: skip


def _tested_at_once(study: Study) -> Iterator[Line]:
    """Yield the test of all groups at once, of ratings."""
    if not study.is_rated:
        return
    table = study.tables["disparity"]
    for each in study.compared:
        own = table.loc[
            (table["level"] == "all") & (table["side"] == "experiencer") & (table["view"] == each.view)
            & (table["dimension"] == each.dimension) & (table["variant"] == each.variant)
            & ~table["invented"].astype(bool)
        ]  # fmt: skip
        for row in own.to_dict("records"):
            if is_finite(row["p"]):
                p = p_value(float(row["p"])).removeprefix("p ")
                yield line(
                    "Whether the groups of ", _where(study, each), " differ at all was tested by Hotelling's ",
                    Symbol("T"), "-squared ", Cite((HOTELLING,)), ": ", Symbol("F"),
                    f"({df_written(row['df'])}, {df_written(row['df_residual'])}) = "
                    f"{format_number(row['statistic'], 2)}, ", _P, f" {p}.",
                )  # fmt: skip


def _spoken_of(study: Study) -> Iterator[Line]:
    """Yield what intervals speak of besides narratives: words alone, or more than these words."""
    by_scope: dict[str, list[str]] = {}
    for each in study.compared:
        for row in filter(has_interval, each.rows):
            name = str(row["group"]) if study.is_rated else study.measure_title(each.outcome)
            by_scope.setdefault(str(row["scope"]), []).append(name)
    for scope, names in by_scope.items():
        whose = line("Intervals of ", told_names(names, quoted=not study.is_rated, last=" and "))
        yield line(
            *(whose if len(by_scope) > 1 else ("All intervals",)), f" speak of any such narratives and of "
            f"{_SCOPES[scope]}.",
        )  # fmt: skip


def _correction(study: Study) -> str:
    """Say for what p values are corrected."""
    if study.is_rated:
        return "for the groups of a dimension by Holm's method"
    return "for the groups of a dimension by Holm's method, and for the number of measures by Bonferroni's"


def _meaning(study: Study) -> str:
    """Define D: what is compared, in the view that decides, and in which unit."""
    views = listed(list(dict.fromkeys(_AS_RATED[each.view] for each in study.compared)), last="or")
    if study.is_rated:
        return f"{MEANING}; {views}, on average over narratives, in points of the scale"
    return f"{OF_MEASURES}; {views}, on average over narratives, in the measure's unit"


def _where(study: Study, each: ComparedGroups) -> Line:
    several = len({one.variant for one in study.compared}) > 1
    title = dimension_title(each.dimension)
    return (PlainText(f"{title} ({each.variant})" if several else title),)
