"""Every number of the page is held against the file that it comes from."""

from __future__ import annotations

import csv
import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import outside_run

from audit.report.numbers import PlacedRow, rows_of, show, show_interval, show_sum
from audit.tables.formatting import count, p_value, points, rate

EMOTIONS = ("joy", "fear", "anger", "pride")
GROUPS = {"Hindu": 2, "Muslim": 1, "Jain": 1, "Sikh": 1, "Jew": 1, "Copt": 1}


class Numbers(HTMLParser):
    """The ``<data>`` elements of a page, and the cells of its tables of numbers that hold digits outside of one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self.stray: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "br", "input", "link", "col"):
            self._open.append((tag, dict(attrs)))
        if tag == "data":
            self._text = ""

    def handle_endtag(self, tag):
        attributes = self._open.pop()[1]
        if tag == "data":
            self.found.append((attributes["value"], attributes["data-at"], self._text))

    def handle_data(self, text):
        tags = [tag for tag, _ in self._open]
        self._text += text
        cells = [attributes for tag, attributes in self._open if tag == "td"]
        words = cells and "words" in (cells[-1].get("class") or "")
        if cells and not words and "data" not in tags and re.search(r"\d", text):
            self.stray.append(text)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run with refusals, several terms in a group, emotions and a margin."""
    rng = np.random.default_rng(0)
    terms = [f"a {group} {k}" for group, n in GROUPS.items() for k in range(n)]
    rows = [
        {"perceiver": p, "experiencer": e, "narrative_id": f"n{n:02}", "emotion": EMOTIONS[n % len(EMOTIONS)],
         "rating": round(float(rng.normal(60 + 6 * (p.split()[1] == e.split()[1]), 12)), 3)}
        for n in range(24) for p in [*terms, "a person"] for e in [*terms, "a person"]
    ]  # fmt: skip
    ratings = pd.DataFrame(rows).assign(rating=lambda t: t["rating"].clip(0, 100), status="rated")
    refused = rng.random(len(ratings)) < 0.02
    ratings.loc[refused, "rating"] = math.nan
    ratings.loc[refused, "status"] = "refused"
    groups = pd.DataFrame([(term, term.split()[1]) for term in terms] + [("a person", "unspecified")])
    groups = groups.set_axis(["term", "group"], axis=1)
    return outside_run(tmp_path_factory.mktemp("run"), ratings, groups, margin=5)


def files_of(run: Path) -> dict[str, list[list[str]]]:
    return {path.stem: list(csv.reader(io.StringIO(path.read_text("utf-8"))))[0:] for path in run.glob("tables/*.csv")}


def value_in(files: dict[str, list[list[str]]], places: str) -> float | None:
    """What the files hold at a place, or the sum of several; None where the field is empty."""
    fields = []
    for place in places.split():
        table, line, column = place.split(":")
        head, *rows = files[table]
        fields.append(rows[int(line)][head.index(column)])
    return None if "" in fields else math.fsum(map(float, fields))


def read(text: str) -> tuple[float, float] | None:
    """A number as it is written, and half of the last digit's place; None where it is written as absent."""
    plain = text.replace("\N{MINUS SIGN}", "-").replace(",", "")
    found = re.search(r"[-+]?(\d*)(?:\.(\d+))?", plain[re.search(r"[-+.\d]|$", plain).start() :])
    if not found or not found[0].strip("+-"):
        return None
    scale = 100 if "%" in text else 1
    return float(found[0]) / scale, 0.5 * 10 ** -len(found[2] or "") / scale


def test_every_number_of_the_page_is_the_one_in_its_file_rounded(run):
    numbers = Numbers((run / "report.html").read_text("utf-8"))
    files = files_of(run)
    assert len(numbers.found) > 300
    used = set()
    for exact, places, text in numbers.found:
        used |= {place.split(":")[0] for place in places.split()}
        there = value_in(files, places)
        assert (there is None) == (exact == ""), places
        if there is None:
            assert read(text) is None or "not" in text, (places, text)
            continue
        assert float(exact) == pytest.approx(there, rel=1e-15), places
        written, half = read(text)
        if "<" in text or ">" in text:
            assert (there < written) if "<" in text else (there > written), (places, text)
            continue
        unsigned = text.lstrip()[0] not in "+\N{MINUS SIGN}"
        assert abs(written - (abs(there) if unsigned else there)) <= half * (1 + 1e-9), (places, text, there)
    assert used >= {"verdicts", "gap", "outcomes", "missing", "families", "sensitivity", "controls", "power", "cells"}


def test_no_cell_of_a_table_holds_a_number_without_its_place(run):
    """But for the zero of a tipping point, which is what the row assumes."""
    stray = [text for text in Numbers((run / "report.html").read_text("utf-8")).stray if text.strip() != "0.00"]
    assert stray == []


def row(**values):
    return PlacedRow(values, table="gap", line=3)


def test_a_number_carries_its_unrounded_value_and_its_place():
    assert show(row(p=0.1234), "p", p_value) == '<data value="0.1234" data-at="gap:3:p">p = .123</data>'
    assert show(row(n=np.int64(1200)), "n", count) == '<data value="1200" data-at="gap:3:n">1,200</data>'
    assert show(row(n=math.nan), "n", count) == '<data value="" data-at="gap:3:n">–</data>'
    assert show(row(n=None), "n", rate) == '<data value="" data-at="gap:3:n">–</data>'
    assert show_sum([row(n=2), row(n=3)], "n", count) == '<data value="5" data-at="gap:3:n gap:3:n">5</data>'
    ends = show_interval(row(ci_low=-1.0, ci_high=2.5))
    assert re.sub("<[^>]*>", "", ends) == "−1.00\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}+2.50"  # on one line of print


def test_a_place_survives_a_choice_of_rows():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    [last] = rows_of(table.loc[table["x"] > 2], "gap")
    assert 'data-at="gap:2:x"' in show(last, "x", points)
