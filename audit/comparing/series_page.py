"""A series of runs in words: the trend of each gap, its steps, and the runs that take no part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from audit.comparing.page import SHOWN_ROWS, comparison_prose
from audit.comparing.series import PER, position_names
from audit.report.disparities import limit_in_words
from audit.report.numbers import PlacedRow, show, show_interval
from audit.report.results import Results
from audit.report.run_page import page_section
from audit.report.section import Block, Paragraph, Section, section
from audit.report.summary import ShortAnswer
from audit.report.table_layout import ShownColumn
from audit.tables.formatting import bare_p, brief, count, coverage, dimension_title, listed, plural, points
from stimuli.words import capital

_NAMED: Final = 3
_FOUND: Final = ("falls", "rises")
_SIZES: Final = {
    "nearer": ", nearer to 0",
    "farther": ", farther from 0",
    "crosses": ", to the other side of 0",
    "": "",
}
_CODES: Final = {"not_shown": "not shown", "undecided": "undecided", "no_estimate": "no trend"}
_LIMITS: Final = {
    "not_corrected": "not after correction for all tests of this table",
    "bystander": "only because another group changes",
}
_ALONG: Final = {PER["order"]: "along the runs", PER["size"]: "with the number of parameters"}


def series_findings(trends: Sequence[PlacedRow], *, confidence: float, weight: float) -> Iterator[ShortAnswer]:
    """Say for each dimension what changes along the series, for the first screen."""
    for dimension in dict.fromkeys(str(row["dimension"]) for row in trends):
        own = [row for row in trends if row["dimension"] == dimension]
        found = [row for row in own if row["code"] in _FOUND]
        row = max(found or own, key=lambda each: (bool(found) or not each["member"], abs(each.number("estimate"))))
        known = row.number("se") > 0
        yield ShortAnswer(
            dimension_title(dimension),
            _in_short(own),
            number=show(row, "estimate", points) if known else "",
            unit=" points" if known else "",
            spread=Markup("{}, for a {}; {} interval {}").format(
                _gap(row), row["per"], coverage(confidence), show_interval(row)
            )
            if known
            else "",
            kind="gap" if found else "absent" if all(each["code"] == "no_estimate" for each in own) else "undecided",
            anchor="series",
            tail=f", {_ALONG.get(str(row['per']), 'along the series')}",
            weight=weight + len(found),
        )


def series_headline(trends: Sequence[PlacedRow]) -> Markup:
    """Answer in everyday words what changes along the series; empty without one."""
    if not trends:
        return Markup("")
    along = _ALONG.get(str(trends[0]["per"]), "along the series")
    found = [row for row in trends if row["code"] in _FOUND]
    if found:
        row = max(found, key=lambda each: (not each["member"], abs(each.number("estimate"))))
        several = len({row["dimension"] for row in trends}) > 1
        return Markup("{}{}, {} is rated {} compared with others{}{}.{}").format(
            Markup("<bdi>{}</bdi>: ").format(dimension_title(str(row["dimension"]))) if several else "",
            along if several else capital(along),
            Markup("<bdi>{}</bdi>").format(brief(str(row["member"]))) if row["member"] else "the model's own group",
            {"falls": "lower and lower", "rises": "higher and higher"}[str(row["code"])], _SIZES[str(row["size"])],
            _in_words(row), f" {plural(len(found) - 1, 'more trend')} shown, see below." if len(found) > 1 else "",
        )  # fmt: skip
    estimated = [row for row in trends if row["code"] != "no_estimate"]
    if any(row["code"] == "not_shown" for row in estimated):
        return Markup("No change {} is shown.").format(along)
    why = next(filter(None, map(_why, estimated or trends)), "")
    return Markup("We cannot tell whether anything changes {}{}.").format(
        along, Markup(": {}").format(why) if why else ""
    )


def _in_short(rows: Sequence[PlacedRow]) -> Markup:
    """Word the trends of one dimension: δ, then the groups that are found, and how many are not."""
    groups = [row for row in rows if row["member"]]
    # Without perceivers there is no δ, and the groups are what the runs are about.
    told = any(row["code"] != "no_estimate" for row in groups)
    averages = [row for row in rows if not row["member"] and not (told and row["code"] == "no_estimate")]
    found = sorted((row for row in groups if row["code"] in _FOUND), key=lambda row: -abs(row.number("estimate")))
    said = [_worded(row) for row in (*averages, *found[:_NAMED])]
    if len(found) > _NAMED:
        said.append(Markup("{} more groups change").format(count(len(found) - _NAMED)))
    rest = len(groups) - len(found)
    if rest and not found:
        said.append(Markup("no trend shown of any group's D"))
    elif rest:
        said.append(Markup("{} without a trend that is shown").format(plural(rest, "group")))
    return Markup("; ").join(said)


def _gap(row: PlacedRow) -> Markup:
    """Name a gap: δ, or D of a group."""
    return Markup("D of <bdi>{}</bdi>").format(brief(str(row["member"]))) if row["member"] else Markup("δ")


def _worded(row: PlacedRow) -> Markup:
    """Say of one gap what its trend is."""
    code = str(row["code"])
    if code in _FOUND:
        return Markup("{} {}{}{}").format(_gap_in_words(row), code, _SIZES[str(row["size"])], _in_words(row))
    if code == "undecided":
        return Markup("trend of {} undecided: {}").format(_gap(row), _why(row))
    return Markup("no trend of {} {}").format(_gap(row), "shown" if code == "not_shown" else "can be estimated")


def _gap_in_words(row: PlacedRow) -> Markup:
    named = Markup("how <bdi>{}</bdi> is rated beside the others (D)")
    return named.format(brief(str(row["member"]))) if row["member"] else Markup("δ")


def _in_words(row: PlacedRow) -> str:
    """Say that a trend is one of these words alone; of δ, of pairs of words."""
    if row["scope"] != "pairs":
        return ""
    return ", in these words" if row["member"] else ", in these pairs of words"


def _speaks_of(row: PlacedRow) -> str:
    return {"groups": "groups", "pairs": "these words" if row["member"] else "these pairs of words"}.get(
        row["scope"], ""
    )


def _why(row: Mapping[str, Any]) -> str:
    codes = filter(None, str(row["limits"]).split("; ")) if isinstance(row["limits"], str) else ()
    return listed([_LIMITS.get(code) or limit_in_words(code) for code in codes])


def series_section(results: Results) -> Section | None:
    """Show the trends and steps of each dimension, and which runs take no part."""
    trends = results.rows("series")
    if not trends:
        return None
    per = str(trends[0]["per"])
    alpha = 1 - results.confidence
    return page_section(
        "series", "Series", "Does it change along the series?",
        comparison_prose("series", per, results.level),
        *(_of_dimension(str(name), per, results) for name in dict.fromkeys(row["dimension"] for row in trends)),
        _left_out(results),
        comparison_prose("about_series", alpha),
    )  # fmt: skip


def _of_dimension(dimension: str, per: str, results: Results) -> Section | None:
    trends, steps = (results.rows(name, dimension=dimension) for name in ("series", "series_changes"))
    title = dimension_title(dimension)
    gap = ShownColumn("gap", _gap, words=True)
    of = ShownColumn("speaks of", _speaks_of, words=True)
    shows = ShownColumn("what it shows", _shown, words=True)
    why = ShownColumn("what limits it", _why, words=True)
    names = position_names([row.number("position") for row in results.rows("series_runs")], per)
    where = ShownColumn(
        "between",
        lambda row: Markup("<bdi>{}</bdi> and <bdi>{}</bdi>").format(
            brief(str(row["first"])), brief(str(row["second"]))
        ),
        words=True,
    )
    at = ShownColumn("at", lambda row: f"{names[row.number('first_position')]}, {names[row.number('second_position')]}")
    return section(
        Markup("<bdi>{}</bdi>").format(title),
        Paragraph(_in_short(trends) + ".", "verdict"),
        results.picture(
            f"series-{dimension}",
            f"{title}: δ and D of each group at each run's place, with the line of the trend.",
            alt=f"{title}: panels of δ and of each group's D along the series. The numbers are below.",
        ),
        results.table(
            "series", f"Trends, {title}: points for a {per}",
            gap, ("estimate", "trend"), "ci_low", ("p_adjusted", "p, corrected"), shows,
            ("line_first", "line at the first"), ("line_last", "at the last"), of,
            ("n_runs", "runs"), why, "note",
            rows=trends,
        ),
        _alarms(steps),
        section(
            "Each step",
            results.table(
                "series_changes", f"From each place to the next, {title}: points",
                gap, where, at, ("estimate", "change"), "ci_low", ("line_change", "by the line"),
                ("p_adjusted", "p, corrected"), shows, of, why, "note",
                rows=steps[:SHOWN_ROWS],
            ),
            look="folded",
        ),
    )  # fmt: skip


def _shown(row: Mapping[str, Any]) -> str:
    code = str(row["code"])
    return code + _SIZES[str(row.get("size") or "")] if code in _FOUND else _CODES[code]


def _alarms(steps: Sequence[PlacedRow]) -> Block | None:
    """Name the steps in which a gap is shown to change, the surest first."""
    if not steps:
        return None
    found = sorted((row for row in steps if row["code"] in _FOUND), key=lambda row: row.number("p_adjusted"))
    if not found:
        return Paragraph("No single step is shown to change a gap.", "small")
    named = Markup("; ").join(
        Markup("{} {} by {} points between <bdi>{}</bdi> and <bdi>{}</bdi> (corrected p {})").format(
            _gap(row),
            row["code"],
            show(row, "estimate", lambda value: points(abs(value), signed=False)),
            brief(str(row["first"])),
            brief(str(row["second"])),
            show(row, "p_adjusted", bare_p),
        )
        for row in found[:_NAMED]
    )
    rest = len(found) - _NAMED
    more = f"; and {plural(rest, 'more step')}" if rest > 0 else ""
    return Paragraph(Markup("Steps that are shown: {}{}.").format(named, more))


def _left_out(results: Results) -> Block | None:
    """Name the runs that take no part, and why."""
    rows = [row for row in results.rows("series_runs") if not row["takes_part"]]
    said: dict[tuple[str, str, str], None] = {}
    for row in rows:
        codes = str(row["note"]).split("; ")
        said.setdefault((str(row["run"]), str(row["dimension"]), listed([limit_in_words(code) for code in codes])))
    items = [
        Markup("<bdi>{}</bdi>, {}: {}").format(brief(run), dimension_title(dimension), why)
        for run, dimension, why in said
    ]
    return comparison_prose("listed", "Runs without a verdict, which take no part:", items) if items else None
