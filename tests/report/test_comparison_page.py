import base64
import hashlib
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

from audit.comparing.base import ComparisonContent
from audit.comparing.paper_table import paper_table, with_interval
from audit.comparing.rating_page import rating_page
from audit.comparing.tables import COMPARISON_TABLES
from audit.report.numbers import PlacedRow
from audit.report.page import asset
from audit.report.results import Results
from audit.report.summary import EVERY_PART, NO_LARGER, NOT_IN_ITSELF, NOT_THE_GROUPS, THESE_WORDS
from audit.statistics.verdict import Verdict
from audit.tables.formatting import points

NAN = math.nan
SVG = b'<?xml version="1.0"?><svg width="360pt" height="270pt" xmlns="http://www.w3.org/2000/svg"></svg>'
ATTACK = "<script>alert(1)</script>"


def row_of(table, **values):
    return {name: NAN for name in COMPARISON_TABLES[table]} | values


def run_row(label, **values):
    texts = {name: "" for name in COMPARISON_TABLES["runs"] if not name.startswith("n_")}
    return row_of("runs", **texts, n_prompts=900, n_rated=890, n_refused=10, n_unparseable=0, n_failed=0) | {
        "run": label,
        "prompt": label,
        "model": "smollm2",
        **values,
    }


def gap_row(label, delta=-0.694321, **values):
    known = {
        "run": label, "dimension": "religion", "scope": "narratives", "delta": delta, "ci_low": delta - 0.2,
        "ci_high": delta + 0.2, "p": 0.0123, "p_adjusted": 0.0246, "family_size": 2, "percent_of_scale": delta,
        "delta_sd": -0.21, "d_z": -1.5, "n_narratives": 12, "n_answers": 190, "missing_share": 0.01,
        "verdict": "undecided", "note": "",
    }  # fmt: skip
    return row_of("gap", **(known | values))


def control_row(label, control="same_words", **values):
    known = {
        "run": label, "dimension": "religion", "variant": "origin", "control": control, "estimator": "contrast",
        "scope": "narratives", "headline": False, "delta": 0.812345, "ci_low": 0.5, "ci_high": 1.1, "p": 0.0002,
        "n_narratives": 11, "n_answers": 170, "note": "",
    }  # fmt: skip
    return row_of("controls", **(known | values))


def verdict_row(label, code="undecided", **values):
    known = {"dimension": "religion", "variant": "origin", "code": code, "reasons": ("holds_zero",)}
    return {"run": label} | Verdict(**(known | values)).row()


def specification_row(**values):
    known = {
        "dimension": "religion", "unit": "points", "n_runs": 2, "n_estimated": 2, "n_no_interval": 0, "median": -0.45,
        "lowest": -0.694321, "highest": -0.25, "lowest_run": "origin", "highest_run": "persona-1", "n_same_sign": 2,
        "share_same_sign": 1.0, "n_above": 0, "share_above": 0.0, "n_below": 1, "share_below": 0.5, "n_compatible": 1,
    }  # fmt: skip
    return row_of("specifications", **(known | values))


def comparison_row(**values):
    known = {
        "dimension": "religion", "first": "origin", "second": "persona-1", "unit": "points", "delta_first": -0.694321,
        "delta_second": -0.25, "delta_change": -0.444321, "ci_low": -0.8, "ci_high": -0.1, "p": 0.02,
        "p_adjusted": 0.04, "method": "Holm", "family_size": 2, "n_narratives": 12, "note": "", "code": "lower",
        "claim": "groups", "limits": "", "next_step": "nothing",
    }  # fmt: skip
    return row_of("comparisons", **(known | values))


def tables_of(first="origin", second="persona-1", specification=None, **columns):
    rows = {
        "runs": [run_row(first), run_row(second)],
        "gap": [gap_row(first, **columns), gap_row(second, **{"delta": -0.25, **columns})],
        "verdicts": [verdict_row(first), verdict_row(second)],
        "controls": [control_row(first), control_row(second, "placebo", delta=0.4, note="of one set")],
        "comparisons": [comparison_row(first=first, second=second)],
        "specifications": [specification or specification_row(lowest_run=first, highest_run=second)],
    }
    return {name: pd.DataFrame(rows.get(name), columns=list(columns)) for name, columns in COMPARISON_TABLES.items()}


def told_of(tables):
    return pd.DataFrame({"prompt": tables["runs"]["run"].tolist()}, index=tables["runs"]["run"])


def rendered(tables=None, figures=None, **changes):
    tables = tables or tables_of()
    papers = {"table": paper_table(tables["gap"], told_of(tables), confidence=0.95, verdicts=tables["verdicts"])}
    content = ComparisonContent(
        tables=tables, described=COMPARISON_TABLES, confidence=0.95, collected="ratings", remarks=(),
        left_out=(), papers=papers, command="python -m audit report A B", page=rating_page,
    )  # fmt: skip
    if figures is None:
        figures = {"gaps": SVG, "specification-religion": SVG, "comparisons": SVG}
    return rating_page(replace(content, **changes), Results(tables, COMPARISON_TABLES, 0.95, figures))


class Page(HTMLParser):
    """Tags, text, and every number with its unrounded value and its place."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.numbers = [], [], []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.numbers.append([dict(attrs)["data-at"], dict(attrs)["value"], ""])

    def handle_data(self, data):
        self.words.append(data)
        if self.tags and self.tags[-1][0] == "data" and self.numbers and not self.numbers[-1][2]:
            self.numbers[-1][2] = data


def test_the_controls_say_of_which_pairs_and_runs_without_them_have_no_table():
    text = Page(rendered()).text
    assert "religion origin pairs with identical words" in text
    assert "religion persona-1 the same for invented groups" in text
    assert "of one set" in text
    without = tables_of()
    without["controls"] = without["controls"].iloc[:0]
    assert "invented groups" not in Page(rendered(without)).text


def test_every_number_is_the_one_in_its_table():
    tables = tables_of()
    numbers = Page(rendered(tables)).numbers
    assert len(numbers) > 30
    for place, value, _ in numbers:
        name, line, column = place.split(":")
        exact = tables[name][column].iloc[int(line)]
        assert float(value or "nan") == pytest.approx(exact, abs=0, nan_ok=True), place
    # No strategies differ here; tests/test_mitigation.py reads their table, tests/test_replication.py the study's, and
    # tests/test_elicitations_compared.py those of elicitations.
    of_others = {
        "strategies",
        "published",
        "published_cells",
        "perceiver_map",
        "elicitations",
        "elicitation_ranges",
        "verdicts",
        "manipulation",  # tests/test_story_surfaces.py
        "series",  # tests/test_series_runs.py
        "series_changes",
        "series_runs",
        "disparity",  # tests/report/test_compared_groups.py reads these
        "disparity_changes",
    }
    assert {place.split(":")[0] for place, *_ in numbers} == set(tables) - of_others
    [(_, _, shown)] = [each for each in numbers if each[0] == "controls:0:delta"]
    assert shown == points(0.812345) == "+0.81"
    [(_, _, shown)] = [each for each in numbers if each[0] == "gap:0:delta"]
    assert shown == points(-0.694321) == "−0.69"


@pytest.mark.parametrize(
    ("changes", "lead", "spread"),
    [
        (
            {},
            "Verdicts of 2 runs, as on their own pages: 2 × undecided.",
            "δ for these words only goes from −0.69 ( origin ) to −0.25 ( persona-1 ), median −0.45 , in "
            "points. 2 of 2 ( 100% ) have the median's sign.",
        ),
        (
            {"n_runs": 6, "n_estimated": 5, "n_below": 1, "n_above": 2, "n_compatible": 1, "n_no_interval": 1}
            | {"dimension": "age+religion", "share_same_sign": 0.4},
            "Verdicts of 6 runs, as on their own pages: 2 × undecided.",
            "( 40.0% ) have the median's sign.",
        ),
        (
            {"n_estimated": 1, "n_below": 0, "n_compatible": 1, "median": 0.1},
            "Verdicts of 2 runs, as on their own pages: 2 × undecided.",
            "δ for these words only is +0.10 in origin , in points; there is no other to set it against.",
        ),
        (
            {"n_runs": 1, "n_estimated": 1, "n_compatible": 0},
            "Verdicts of 1 run, as on their own pages: 2 × undecided.",
            "",
        ),
        ({"n_estimated": 0, "n_below": 0, "n_compatible": 0}, "δ could not be estimated in any of the runs.", ""),
    ],
)
def test_the_answer_says_how_many_runs_show_which_gap(changes, lead, spread):
    tables = tables_of(specification=specification_row(**changes))
    tables["verdicts"]["dimension"] = changes.get("dimension", "religion")
    text = Page(rendered(tables)).text
    spaced = re.compile(r"\s+(?=[,.)])|(?<=\()\s+")
    assert spaced.sub("", lead) in spaced.sub("", text)
    assert spaced.sub("", spread) in spaced.sub("", text)


def test_verdicts_of_each_kind_are_counted():
    kinds = [
        {"code": "gap", "claim": "groups", "direction": -1}, {"code": "gap", "claim": "groups", "direction": 1},
        {"code": "gap", "claim": "pairs", "direction": 1}, {"code": "gap", "claim": "uncontrolled", "direction": -1},
        {"code": "gap", "claim": "groups", "direction": 1, "size": "tiny"},
        {"code": "gap", "claim": "groups", "direction": 1, "size": "smaller", "margin": 1.0, "parts_beyond": ("joy",)},
        {"code": "within", "margin": 1.0, "control": "echo_free", "scope": "groups"},
        {"code": "within", "margin": 1.0, "control": "echo_free", "scope": "groups"},
        {"code": "within", "margin": 1.0, "control": "placebo", "scope": "pairs"},
        {"code": "within", "margin": 1.0, "control": "none", "scope": "pairs", "parts_not_shown": ("joy", "fear")},
        {"code": "undecided"}, {"code": "no_verdict", "reasons": ("constant",)},
        {"code": "no_estimate", "reasons": ("no_interval",)},
    ]  # fmt: skip
    tables = tables_of()
    rows = [verdict_row(f"run {place}", **kind) for place, kind in enumerate(kinds)]
    tables["verdicts"] = pd.DataFrame(rows, columns=list(COMPARISON_TABLES["verdicts"]))
    said = (
        "2 × no verdict · 1 × an average gap between groups, towards the out-group · 1 × an average gap towards the "
        "out-group, which repeated words alone could cause · 1 × an average gap between groups, towards the in-group · "
        "1 × an average gap in these pairs of words, towards the in-group · 1 × a tiny average gap between groups, "
        "towards the in-group · 1 × an average gap between groups, towards the in-group, smaller than 1.00 points, but "
        "larger in some part · 2 × no average gap larger than 1.00 points · 1 × no average gap larger than 1.00 points "
        "in these pairs of words beyond that of invented groups · 1 × no average gap larger than 1.00 points in these "
        "pairs of words, including repeated words; not shown for every part · 1 × undecided."
    )
    text = " ".join(Page(rendered(tables, papers={"table": paper_of("A")})).text.split())
    assert said in re.sub(r" (?=[,.;])", "", text)
    [left_open] = re.findall(r"These verdicts do not show: (.*?)\.", text)
    for claim in (NO_LARGER, NOT_IN_ITSELF, NOT_THE_GROUPS, THESE_WORDS, EVERY_PART):
        assert claim in left_open, claim


def test_the_page_is_safe_and_asks_nobody_for_anything():
    label = f"{ATTACK} $&amp;"
    html = rendered(tables_of(label), remarks=(ATTACK,), left_out=(ATTACK,), command=ATTACK)
    page = Page(html)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert asset("page.js") in html
    assert page.text.count(label) > 3
    assert all(value.startswith("data:") for _, found in page.tags for name, value in found.items() if name == "src")
    [policy] = [found["content"] for tag, found in page.tags if tag == "meta" and "http-equiv" in found]
    digest = base64.b64encode(hashlib.sha256(asset("page.js").encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}'; img-src data:;")
    assert not [found for tag, found in page.tags if tag == "link" or any(name.startswith("on") for name in found)]


def test_what_was_left_out_and_what_limits_it_are_said():
    text = Page(rendered(remarks=("Mind the scales.",), left_out=("prompt=named: no such file",))).text
    assert "Left out prompt=named: no such file" in text
    assert "What limits this comparison Mind the scales." in text
    assert "how many agree in sign is no p value" in text


def test_the_first_run_s_differences_stand_before_the_others():
    tables = tables_of()
    other = comparison_row(first="persona-1", second="named")
    tables["comparisons"] = pd.DataFrame([comparison_row(), other, comparison_row(second="named")])
    html = rendered(tables)
    assert html.index("Differences from the first run, origin") < html.index("The other pairs")
    assert html.index("The other pairs") < html.index("Differences between the other runs")


def test_a_run_without_a_gap_is_named_with_the_reason():
    text = Page(rendered(tables_of(delta=NAN, ci_low=NAN, ci_high=NAN, note="nothing was rated"))).text
    assert "religion, origin : nothing was rated" in text


@pytest.mark.parametrize("absent", ["gaps", "specification-religion", "comparisons"])
def test_an_absent_figure_is_left_out(absent):
    figures = {name: SVG for name in ("gaps", "specification-religion", "comparisons") if name != absent}
    assert sum(tag == "img" for tag, _ in Page(rendered(figures=figures)).tags) == 2


# --- The table for a paper -------------------------------------------------------------------------------------------


def paper_of(*labels, confidence=0.95, decided=None, **columns):
    gap = pd.DataFrame([gap_row(label, **columns) for label in labels])
    verdicts = pd.DataFrame(
        [verdict_row(label, **(decided or {})) for label in labels], columns=list(COMPARISON_TABLES["verdicts"])
    )
    told = pd.DataFrame({"model": labels}, index=list(labels))
    return paper_table(gap, told, confidence=confidence, verdicts=verdicts)


def test_the_paper_table_rounds_and_names_its_columns():
    decided = {
        "delta": -0.5, "ci_low": -1.2, "ci_high": 0.2, "p": 0.15, "p_adjusted": 0.3, "scope": "groups",
        "control": "echo_free",
    }  # fmt: skip
    head, _, *lines = paper_of("A", "B", margin=2.0, decided=decided).markdown().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *lines)]
    assert cells[0] == [
        "model", "dimension", "verdict", "δ, points [95% CI]", "p", "p, corrected", "speaks of", "δ, % of scale",
        "δ, SD", "δ for these words only [95% CI]", "its p, corrected", r"d\_z", "n narratives", "n ratings",
        "missing",
    ]  # fmt: skip
    # −0.5 beside −0.694321, which is −0.694321% and −0.21 SD: −0.5%, and −0.21 · 0.5 / 0.694321 SD.
    assert cells[1] == [
        "A", "religion", "Undecided: compatible with no average gap", "−0.50 [−1.20, +0.20]", ".150", ".300", "groups",
        "−0.50", "−0.15", "−0.69 [−0.89, −0.49]", ".025", "−1.50", "12", "190", "1.0%",
    ]  # fmt: skip
    assert len(cells) == 3


def test_the_margin_s_column_is_there_only_with_a_margin_and_a_gap_without_interval_stands_alone():
    table = paper_of("A", ci_low=NAN, ci_high=NAN, p=NAN)
    assert "margin" not in table.markdown()
    assert "| −0.69 " in table.markdown()
    cells = [cell.strip() for cell in table.markdown().splitlines()[2].strip("|").split("|")]
    assert cells[3:9] == ["–"] * 6  # no verdict has an interval: nothing stands in its place


LATEX = [
    ("&", r"\&"), ("%", r"\%"), ("$", r"\$"), ("#", r"\#"), ("_", r"\_"), ("{", r"\{"), ("}", r"\}"),
    ("~", r"\textasciitilde{}"), ("^", r"\^{}"), ("\\", r"\textbackslash{}"), ("[3pt]", "{[}3pt{]}"), ("*", "{*}"),
    ("−", "$-$"), ("a\nb", "a b"), ("a\x00b", "a b"), (r"\input{x}", r"\textbackslash{}input\{x\}"), ("1e5", "1e5"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "written"), LATEX)
def test_latex_takes_no_command_from_a_label(given, written):
    lines = paper_of(given).latex().splitlines()
    [row] = [line for line in lines if "religion" in line]
    assert row.split(" & religion")[0].strip() == written
    assert lines[1].startswith(r"\begin{tabular}")
    assert row.endswith(r"\\")
    unescaped = re.sub(r"\\[&%$#_{}]", "", row)
    assert unescaped.count("&") == 14  # between its fifteen columns
    assert "%" not in unescaped


def test_latex_is_a_booktabs_table_that_plain_pdflatex_reads():
    text = paper_of("A").latex()
    for command in (r"\begin{tabular}", r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"):
        assert text.count(command) == 1
    assert r"$\delta$, points {[}95\% CI{]}" in text
    assert "$d_z$" in text
    assert "$-$0.69 {[}$-$0.89, $-$0.49{]}" in text
    assert text.isascii()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a|b", r"a\|b"),
        ("*a* _b_ `c`", r"\*a\* \_b\_ \`c\`"),
        ("[x](javascript:1)", r"[x\](javascript:1)"),
        (ATTACK, r"\<script>alert(1)\</script>"),
        ("&lt; <b", r"\&lt; \<b"),
        ("a\\|b", r"a\\\|b"),
        ("a\r\nb", "a b"),
        ("< 5", "< 5"),
    ],
)
def test_markdown_takes_no_mark_from_a_label(given, written):
    [row] = [line for line in paper_of(given).markdown().splitlines() if "religion" in line]
    assert row.startswith(f"| {written} ")
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 16  # around its fifteen columns


@pytest.mark.parametrize(
    ("delta", "low", "high", "shown"),
    [
        (1.0789, 0.9508, 1.2071, "+1.08 [+0.95, +1.21]"),
        (0.0072652, -0.0023616, 0.0168920, "+0.007 [\N{MINUS SIGN}0.002, +0.017]"),
        (2.8124, 2.8121, 2.8127, "+2.8124 [+2.8121, +2.8127]"),
        (0.25, math.nan, math.nan, "+0.25"),
    ],
)
def test_a_gap_and_its_interval_have_one_number_of_decimals(delta, low, high, shown):
    row = PlacedRow({"delta": delta, "ci_low": low, "ci_high": high}, table="gap", line=0)
    assert with_interval(row, "delta").striptags() == shown
