import contextlib
import io
import math
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from drawn import (
    cells,
    comparisons,
    distributions,
    family,
    gaps,
    many,
    narratives,
    null,
    published,
    runs,
    texts,
    unrated,
)
from fontTools.ttLib import TTFont
from matplotlib import font_manager, image
from matplotlib.figure import Figure

from audit.report.figures import style
from audit.report.figures.distributions import plot_contrasts, plot_null, plot_ratings
from audit.report.figures.forests import plot_comparisons, plot_family, plot_gaps
from audit.report.figures.heatmaps import plot_cells, plot_interaction, plot_missing, plot_published
from audit.report.figures.specification import plot_specification
from audit.report.figures.style import drawable, figure_bytes

FIGURES: dict[str, Callable[[], Figure]] = {
    "cells": lambda: plot_cells(unrated(cells()), low=0, high=100, clusters={"Hindu": "East", "Muslim": "East"}),
    "interaction": lambda: plot_interaction(cells()),
    "published": lambda: plot_published(cells(), published(cells()), masked=True),
    "missing": lambda: plot_missing(cells()),
    "gaps": lambda: plot_gaps(gaps(("religion", "origin", 0.5, 0.1, 0.9)), margin=1),
    "family": lambda: plot_family(family({"sad": 0.1, "calm": math.nan}), family="emotion", confidence=0.95),
    "comparisons": lambda: plot_comparisons(comparisons(0.1, 0.2), confidence=0.95),
    "contrasts": lambda: plot_contrasts(narratives(np.sin(np.arange(500)))),
    "ratings": lambda: plot_ratings(distributions(in_group=[1, 2, 3, 4], out_group=[4, 3, 2, 1]), low=0, high=100),
    "null": lambda: plot_null(null([1, 2, 3]), delta_z=0.1, null_low=-0.5, null_high=0.4),
    "specification": lambda: plot_specification(runs([0.1, 0.3], prompt=["origin", "persona"]), unit="points"),
}
HOSTILE = [
    r"$\frac$",
    "<script>alert(1)</script>",
    'a" style="fill:red" b',
    "x" * 100_000 + "\x00\u202e",
    "word " * 20_000,
    " ",
    "日本人",
    "هذا نص عربي",
    "שלום",
    "हिन्दी",
    "ꙮ",
    "\N{GRINNING FACE} \N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}",
    "a\tb\nc\x1b[31m",
    "&amp; ]]> --",
]


def hostile_figures() -> list[Figure]:
    terms = [(text, f"group {text}") for text in HOSTILE]
    clusters = {group: f"cluster {group}" for _, group in terms[::2]}
    return [
        plot_cells(cells(terms), low=0, high=100, clusters=clusters),
        plot_family(family(dict.fromkeys(HOSTILE, 0.1)), family="emotion", confidence=0.95),
        plot_gaps(gaps(*((text, text, 0.1, 0.0, 0.2) for text in HOSTILE))),
        plot_specification(runs(np.arange(len(HOSTILE))).assign(label=HOSTILE), unit="points"),
        plot_specification(runs(np.arange(len(HOSTILE)), **{HOSTILE[3]: HOSTILE}), unit="points"),
    ]


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
@pytest.mark.parametrize("name", FIGURES)
def test_same_table_gives_same_bytes(name, kind) -> None:
    figure = FIGURES[name]()
    first = figure_bytes(figure, kind)
    assert first == figure_bytes(figure, kind)
    assert first == figure_bytes(FIGURES[name](), kind)


@pytest.mark.process
def test_another_process_gives_the_same_bytes() -> None:
    script = (
        "import hashlib; from test_style import FIGURES, figure_bytes\n"
        "for name in ('cells', 'contrasts'):\n"
        "    for kind in ('svg', 'png', 'pdf'):\n"
        "        print(hashlib.sha256(figure_bytes(FIGURES[name](), kind)).hexdigest())"
    )
    here = str(Path(__file__).parent)
    path = os.pathsep.join([here, str(Path(here).parents[1])])
    hashed = [
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
        ).stdout
        for seed in ("1", "2")
    ]
    assert hashed[0] == hashed[1]
    assert len(hashed[0].split()) == 6


def embedded_fonts(pdf):
    """Return the TrueType fonts of a PDF."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    unpacked = []
    for stream in streams:
        with contextlib.suppress(zlib.error):
            unpacked.append(zlib.decompress(stream))
    return [TTFont(io.BytesIO(data)) for data in unpacked if data.startswith(b"\x00\x01\x00\x00")]


def test_a_pdf_embeds_the_outlines_that_it_would_have_with_layout_tables(monkeypatch) -> None:
    def glyphs(font):
        outlines = {name: font["glyf"][name].getCoordinates(font["glyf"]) for name in font.getGlyphOrder()}
        return outlines, font["hmtx"].metrics, font["head"].unitsPerEm

    ours = embedded_fonts(figure_bytes(FIGURES["gaps"](), "pdf"))
    monkeypatch.setattr("audit.report.figures.style._embedding_outlines", contextlib.nullcontext)
    whole = embedded_fonts(figure_bytes(FIGURES["gaps"](), "pdf"))
    assert len(ours) == len(whole) > 0
    assert all("GSUB" in font for font in whole)
    assert not any({"GSUB", "GPOS"} & set(font.keys()) for font in ours)
    for own, other in zip(ours, whole, strict=True):
        kept, there = glyphs(own), glyphs(other)
        assert kept[0].items() <= there[0].items()
        assert kept[1].items() <= there[1].items()
        assert kept[2] == there[2]


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_cut_off_at_the_edges(name) -> None:
    picture = image.imread(io.BytesIO(figure_bytes(FIGURES[name](), "png")), format="png")
    edge = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (edge[:, :3] == 1).all()


@pytest.mark.parametrize("name", FIGURES)
def test_no_letter_is_too_small_to_print(name) -> None:
    figure = FIGURES[name]()
    written = [found for found in figure.findobj(matplotlib.text.Text) if found.get_text() and found.get_visible()]
    assert min(found.get_fontsize() for found in written) >= 7


@pytest.mark.parametrize("name", FIGURES)
def test_pyplot_does_not_know_the_figures(name) -> None:
    FIGURES[name]()
    assert matplotlib.pyplot.get_fignums() == []


def test_users_matplotlibrc_does_not_matter() -> None:
    first = figure_bytes(FIGURES["cells"](), "svg")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path", "font.family": "serif"}):
        assert figure_bytes(FIGURES["cells"](), "svg") == first


def test_tables_are_left_alone() -> None:
    table, members = cells(), family({"sad": 0.1, "calm": 0.3})
    before = table.copy(), members.copy()
    plot_cells(table, low=0, high=100, clusters={"Hindu": "East"})
    plot_interaction(table)
    plot_published(table, published(table), masked=True)
    plot_family(members, family="emotion", confidence=0.95)
    pd.testing.assert_frame_equal(table, before[0])
    pd.testing.assert_frame_equal(members, before[1])


def test_text_of_an_svg_is_text_in_a_font_that_others_have() -> None:
    svg = figure_bytes(FIGURES["gaps"](), "svg").decode()
    written = [
        "".join(found.itertext()) for found in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "+0.50  [+0.10 to +0.90]" in written
    assert "'DejaVu Sans',Verdana" in svg
    assert "Noto Sans CJK" not in svg  # what this machine has is not what a reader has


def test_large_matrix_is_small_enough_to_embed() -> None:
    assert len(figure_bytes(plot_cells(cells(many(21)), low=0, high=100), "svg")) < 120_000


def test_pdf_has_no_date() -> None:
    assert b"CreationDate" not in figure_bytes(FIGURES["gaps"](), "pdf")


def test_wordings_are_plain_text_however_hostile() -> None:
    start = time.process_time()  # what else the machine does is none of the figures' doing
    figures = hostile_figures()
    written = [texts(figure) for figure in figures]
    for figure, own in zip(figures, written, strict=True):
        assert max(map(len, own)) < 200
        assert max(figure.get_size_inches()) < 16
        svg = figure_bytes(figure, "svg")
        root = ElementTree.fromstring(svg)
        assert {found.tag for found in root.iter() if "script" in str(found.tag)} == set()
        figure_bytes(figure, "pdf")
    assert r"$\frac$" in written[0]
    assert time.process_time() - start < 20


def test_attributes_in_a_wording_stay_words() -> None:
    svg = figure_bytes(plot_gaps(gaps(('a" style="fill:red" b', "origin", 0.1, 0.0, 0.2))), "svg").decode()
    written = [
        "".join(found.itertext()) for found in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert 'a" style="fill:red" b' in written


def test_script_without_a_font_is_drawn_as_boxes_without_a_warning(monkeypatch) -> None:
    only = [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", only)
    monkeypatch.setattr(style, "_families", style._families.__wrapped__)  # not what it found before
    for kind in ("svg", "png", "pdf"):
        assert figure_bytes(plot_cells(cells([(text, text) for text in HOSTILE[6:12]]), low=0, high=100), kind)


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("a person from the United Kingdom", "a person\nfrom the…"),
        ("short", "short"),
        ("x" * 50, "xxxxxxxxxx\nxxxxxxxxx…"),
        ("a\x00b\u202ec", "a b c"),
        ("$5", r"\$5"),
        ("", ""),
    ],
)
def test_wordings_are_wrapped_and_cut(text, drawn) -> None:
    assert drawable(text, width=10, lines=2) == drawn


def test_wordings_are_cut_before_they_are_wrapped() -> None:
    start = time.monotonic()
    drawable("a word " * 2_000_000, width=10, lines=2)
    assert time.monotonic() - start < 0.5


def test_one_line_of_a_long_word_shows_its_beginning() -> None:
    assert drawable("x" * 100_000, width=6, lines=1) == "xxxxx…"
