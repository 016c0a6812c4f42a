"""A run as a draft for a paper: one table in three forms with the run's own numbers, whatever its labels are."""

from __future__ import annotations

import io
import math
import re
import shutil
import subprocess
import sys
import time
import zipfile
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted import alone, grouped, ratings_of
from runs import outside_run

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from studies import planted, said, study_of, within

from audit.extras.exchange.paper.export import FORM, _latex, _markdown
from audit.extras.exchange.paper.gaps import paper_gap_table
from audit.extras.exchange.paper.methods import methods
from audit.extras.exchange.paper.references import bibliography
from audit.extras.exchange.paper.text import as_plain, works_in
from audit.extras.exchange.paper.word import word_file
from audit.runs.csv_tables import read_table
from audit.tables.controls import CONTROLS
from audit.tables.gap import GAP
from audit.tables.verdicts import VERDICTS

pytestmark = pytest.mark.long

docx = pytest.importorskip("docx", reason="needs python-docx: pip install 'empathy-audit[word]'")
ROOT = Path(__file__).parents[2]
EXAMPLE, REPLIES = ROOT / "reports" / "example", ROOT / "reports" / "example-replies"
HOSTILE = (
    "R&D_50%#1 \\input{/etc/passwd} $x^2$ ~{}[a](http://evil.example) <script>alert(1)</script> | \x1b[31m\n`*@me*` –"
)
MAIN = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[round]{natbib}
\usepackage{booktabs,graphicx}
\begin{document}
\input{methods}
\input{table}
\bibliographystyle{plainnat}
\bibliography{references}
\end{document}
"""
needs_tex = pytest.mark.skipif(
    shutil.which("pdflatex") is None or shutil.which("bibtex") is None, reason="no TeX is installed"
)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """What tests/figures/test_journal_figures.py draws; here they would take most of the time."""
    monkeypatch.setattr("audit.extras.exchange.paper.figures.journal_files", lambda *_: {})


def number(text):
    """The number that a cell shows."""
    return float(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))


def word_table(path, number=1):
    table = docx.Document(str(path)).tables[number - 1]
    return [[cell.text for cell in row.cells] for row in table.rows]


def markdown_table(text, number=1):
    text = text.split("**Table ")[number]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [[unescape(re.sub(r"</?su[bp]>|\*|&emsp;", "", cell)).replace("\\", "") for cell in row] for row in cells]


def latex_table(text, number=1):
    body = text.split("\\toprule")[number].partition("\\bottomrule")[0]
    rows = [line.removesuffix(" \\\\") for line in body.splitlines() if line.endswith("\\\\")]
    return [[latex_text(cell) for cell in re.split(r"(?<!\\)&", row)] for row in rows]


def latex_text(cell):
    plain = re.sub(r"\\hspace\*\{\d+em\}|\\textsuperscript|\\textit", "", cell.strip())
    for command, letter in {"$-$": "\N{MINUS SIGN}", "$\\delta$": "δ", "$d_{z}$": "dz", "\\textless{}": "<",
                            "\\textgreater{}": ">", "-{}": "-", "--": "–", "''": '"'}.items():  # fmt: skip
        plain = plain.replace(command, letter)
    return re.sub(r"\\([&%$#_])", r"\1", plain).replace("{", "").replace("}", "")


def export(audit, run, to="out"):
    assert audit("export", run, "form=paper", f"to={to}") == 0
    return Path(to)


def published(run, table):
    """Return a table of a committed run, whichever version wrote it."""
    return read_table(table.place(run / "tables"), table)


def shown_as(value, text):
    """Whether a cell shows this value, rounded once to the decimals that it has."""
    decimals = len(text.partition(".")[2])
    return number(text) == pytest.approx(round(float(value), decimals), abs=0.51 * 10**-decimals * 1e-6 + 1e-12)


def test_the_word_table_has_the_numbers_of_the_tables(audit, tmp_path):
    out = export(audit, EXAMPLE)
    head, *rows = word_table(out / "paper.docx")
    assert head == ["Gap", "Narratives", "Ratings", "δ", "SE", "95% CI", "t", "df", "p", "dz"]
    gap = published(EXAMPLE, GAP).query("headline").set_index("scope")
    controls = published(EXAMPLE, CONTROLS).set_index("control")
    names = {
        "religion": gap.loc["narratives"],
        "all pairs": controls.loc["all_terms"],
        "pairs with identical words": controls.loc["same_words"],
        "invented groups, in identical words": controls.loc["placebo"],
        "beyond invented groups": controls.loc["placebo_difference"],
        "any such identities": gap.loc["narratives_and_terms"],
    }
    assert [row[0] for row in rows] == list(names)
    for (_, narratives, ratings, delta, se, interval, t, df, p, d_z), own in zip(rows, names.values(), strict=True):
        assert (int(narratives), int(ratings)) == (own["n_narratives"], own["n_answers"])
        low, high = interval.strip("[]").split(", ")
        pairs = {"delta": delta, "se": se, "ci_low": low, "ci_high": high, "d_z": d_z, "df": df}
        for name, text in pairs.items():
            assert text == "–" if math.isnan(own[name]) else shown_as(own[name], text), (name, text, own[name])
        assert shown_as(own["delta"] / own["se"], t)
        assert p == "< .001" if own["p"] < 0.001 else shown_as(own["p"], f"0{p}")
        # APA: three decimals and no leading zero of p; a leading zero and no plus of what can be beyond 1.
        assert re.fullmatch(r"< \.001|\.\d{3}", p)
        assert re.fullmatch(r"−?\d\.\d{3}", delta)
        # Two digits of the smallest standard error of the table, .0119.
        assert len(se.partition(".")[2]) == 3
    # The last row is the estimate that the verdict rests on: of groups as a sample.
    verdict = published(EXAMPLE, VERDICTS).iloc[0]
    assert verdict["scope"] == "groups"
    for name, text in {"delta": delta, "se": se, "ci_low": low, "ci_high": high, "df": df}.items():
        assert shown_as(verdict[name], text), name


def cells_are(cells, own, *, corrected):
    """Hold all numbers of a row of the table against a row of the run's: each cell, and the dash where none is."""
    has = not math.isnan(own["ci_low"])
    narratives, counted, delta, se, interval, t, df, p, *adjusted, _ = cells
    assert [number(each) for each in (narratives, counted)] == [own["n_narratives"], own["n"]]
    low, high = interval.strip("[]").split(", ") if has else ("–", "–")
    exact = {"delta": delta, "se": se, "ci_low": low, "ci_high": high, "df": df, "t": t}
    for name, text in exact.items():
        value = own["delta"] / own["se"] if name == "t" else own[name]
        if has or (name == "delta" and not math.isnan(value)):
            assert shown_as(value, text), (name, text, value)
        else:
            assert text == "–", name
    for text, value in ((p, own["p"]), *((each, own.get("p_adjusted", math.nan)) for each in adjusted)):
        if not has or math.isnan(value):
            assert text == "–"
        elif value < 0.001:
            assert text == "< .001"
        elif value > 0.999:
            assert text == "> .999"
        else:
            assert re.fullmatch(r"\.\d{3}", text)
            assert shown_as(value, f"0{text}")
    assert len(adjusted) == corrected


@pytest.fixture
def two_dimensions(tmp_path, monkeypatch):
    """A run of two dimensions with opposite gaps, of which one has groups enough to speak about others."""
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    four, six = alone(4), {f"a kind {k}": f"kind {k}" for k in range(6)}
    ratings = [
        ratings_of(four, n=12, gap=lambda emotion, group: 0.4).assign(dimension="faith"),
        ratings_of(six, n=12, gap=lambda emotion, group: -2.0, seed=3).assign(dimension="nation"),
    ]
    groups = [grouped(four).assign(dimension="faith"), grouped(six).assign(dimension="nation")]
    return outside_run(tmp_path, pd.concat(ratings), pd.concat(groups))


def test_every_number_of_a_table_of_several_dimensions_is_the_tables(audit, two_dimensions):
    head, *rows = word_table(export(audit, two_dimensions) / "paper.docx")
    gap = pd.read_csv(two_dimensions / "tables" / "gap.csv").query("headline")
    gap = gap.rename(columns={"n_answers": "n"}).set_index(["dimension", "scope"])
    of = {
        "faith": ("faith", "narratives"), "nation": ("nation", "narratives"),
        "any such identities": ("nation", "narratives_and_terms"), "mean over dimensions": ("all", "narratives"),
    }  # fmt: skip
    assert head == [
        "Gap", "Narratives", "Ratings", "δ", "SE", "95% CI", "t", "df", "p", "p corrected", "dz"
    ]  # fmt: skip
    assert [row[0] for row in rows] == list(of)
    for (name, *cells), key in zip(rows, of.values(), strict=True):
        own = gap.loc[key]
        cells_are(cells, own, corrected=True)
        assert cells[-1] == "–" if math.isnan(own["d_z"]) else shown_as(own["d_z"], cells[-1]), name
    # One column, one number of decimals; a gap towards the out-group has a true minus.
    for column in (3, 4, 6, -1):
        assert len({len(row[column].partition(".")[2]) for row in rows if row[column] != "–"}) == 1
    assert rows[1][3].startswith("\N{MINUS SIGN}2.")


def test_every_number_of_a_table_of_measures_is_the_tables(audit):
    head, *rows = word_table(export(audit, REPLIES) / "paper.docx")
    gaps = published(REPLIES, GAP).query("headline and scope == 'narratives'")
    units = pd.read_csv(REPLIES / "tables" / "measures.csv").set_index("measure")["unit"]
    assert head[-2:] == ["p corrected", "δ in SD"]
    for (_, unit, *cells), own in zip(rows, gaps.rename(columns={"n_answers": "n"}).to_dict("records"), strict=True):
        assert unit == units.get(own["outcome"], "–")
        cells_are(cells, own, corrected=True)
        assert cells[-1] == "–" if math.isnan(own["delta_sd"]) else shown_as(own["delta_sd"], cells[-1])


@pytest.mark.parametrize("run", [EXAMPLE, REPLIES], ids=lambda run: run.name)
def test_the_word_file_has_the_sentences_of_the_section_on_methods(audit, run):
    """Whose numbers tests/paper/test_methods.py holds against the manifest and the tables."""
    text = [each.text for each in docx.Document(str(export(audit, run) / "paper.docx")).paragraphs]
    sections = methods(study_of(run.name))
    assert [as_plain(section.text()) for section in sections] == [
        text[place + 1] for place, each in enumerate(text) if each in {section.title for section in sections}
    ]


def test_word_latex_and_markdown_have_one_table(audit, tmp_path):
    for run in (EXAMPLE, REPLIES):
        out = export(audit, run, f"of-{run.name}")
        markdown, latex = ((out / f"table.{form}").read_text("utf-8") for form in ("md", "tex"))
        for number in (1, 2):
            word = word_table(out / "paper.docx", number)
            assert markdown_table(markdown, number) == word
            assert latex_table(latex, number) == word
        assert len(set(re.findall(r"\\label\{(.*?)\}", latex))) == markdown.count("**Table ") == 2


def test_a_table_of_replies_has_the_measures_and_says_why_one_has_no_interval(audit, tmp_path):
    out = export(audit, REPLIES)
    head, *rows = word_table(out / "paper.docx")
    gaps = published(REPLIES, GAP).query("headline and scope == 'narratives'")
    measures = pd.read_csv(REPLIES / "tables" / "measures.csv").set_index("measure")
    assert head[:4] == ["Measure", "Unit", "Narratives", "Texts"]
    assert len(rows) == len(gaps)
    for row, own in zip(rows, gaps.to_dict("records"), strict=True):
        title = measures["title"].get(own["outcome"], own["outcome"])
        assert re.fullmatch(re.escape(title) + "[a-z]?", row[0])
        has = not math.isnan(own["ci_low"])
        assert (row[6] != "–") == has
        assert (row[0] != title) == (not has), "a letter leads to why"
        if has:
            assert shown_as(own["delta"], row[4])
            assert shown_as(own["se"], row[5])
            assert shown_as(own["delta_sd"], row[-1]) if not math.isnan(own["delta_sd"]) else row[-1] == "–"
    text = "\n".join(each.text for each in docx.Document(str(out / "paper.docx")).paragraphs)
    assert "a Every reply between identities has the same number, 0." in text


def test_replies_about_several_dimensions_are_laid_out_by_dimension():
    replies = study_of("example-replies")
    gaps = replies.tables["gap"]
    both = planted(replies, tables={"gap": pd.concat([gaps, gaps.assign(dimension="nationality")])})
    table = paper_gap_table(both)
    assert {len(row.cells) for row in table.rows} == {len(table.head)}
    assert [as_plain(row.cells[0]) for row in table.rows if not row.depth] == [
        "religion, origin",
        "nationality, origin",
    ]


def test_the_document_is_set_in_apa_style(audit, tmp_path):
    """Three horizontal rules and no vertical one, number in bold and title in italics, symbols in italics."""
    document = docx.Document(str(export(audit, EXAMPLE) / "paper.docx"))
    number_of = next(each for each in document.paragraphs if each.text == "Table 1")
    title = next(each for each in document.paragraphs if each.text.startswith("Gap δ in Rated"))
    assert all(run.bold for run in number_of.runs)
    assert all(run.italic for run in title.runs)
    table = document.tables[0]
    borders = [
        [
            {
                edge.tag.rpartition("}")[2]
                for edge in cell._tc.iter()
                if edge.tag.endswith(("}top", "}bottom", "}left", "}right"))
                and edge.getparent().tag.endswith("tcBorders")
            }
            for cell in row.cells
        ]
        for row in table.rows
    ]
    last = len(borders) - 1
    for place, row in enumerate(borders):
        expected = {"top", "bottom"} if place == 0 else {"bottom"} if place == last else set()
        assert all(cell == expected for cell in row)
    italic = {run.text: run.italic for cell in table.rows[0].cells for run in cell.paragraphs[0].runs}
    assert {name for name, said in italic.items() if said} == {"SE", "t", "df", "p", "d", "z"}
    assert not italic["δ"], "Greek letters stand upright"
    assert document.styles["Normal"].font.name == "Times New Roman"
    width, height = document.sections[-1].page_width, document.sections[-1].page_height
    assert width > height
    assert sum(column.width for column in table.columns) <= width - 2 * document.sections[-1].left_margin
    assert [each.text for each in document.paragraphs if each.style.name == "Heading 1"] == ["Method", "References"]


def test_the_same_run_gives_the_same_bytes_at_another_time(audit, tmp_path, monkeypatch):
    first = export(audit, EXAMPLE, "first")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    monkeypatch.setattr(time, "localtime", lambda *_: time.struct_time((2031, 5, 6, 7, 8, 10, 1, 126, 0)))
    second = export(audit, EXAMPLE, "second")
    names = sorted(path.name for path in first.iterdir())
    assert names == ["ABOUT.md", "methods.md", "methods.tex", "paper.docx", "references.bib", "table.md", "table.tex"]
    assert {name: (first / name).read_bytes() for name in names} == {n: (second / n).read_bytes() for n in names}
    entries = zipfile.ZipFile(io.BytesIO((first / "paper.docx").read_bytes())).infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}


def hostile():
    """The example, of which everything that a user or a model can name is made to break a page."""
    study = study_of()
    gap = study.tables["gap"].copy()
    headline = gap["headline"].astype(bool) & (gap["scope"] == "narratives")
    bare = gap.loc[headline].assign(dimension=HOSTILE, ci_low=np.nan, ci_high=np.nan, note=HOSTILE)
    gap = pd.concat([gap, bare, bare.assign(variant=HOSTILE)], ignore_index=True)
    rows = study.rows.assign(dimension=HOSTILE)
    told = {"source": HOSTILE, "emotions": [HOSTILE], "sha256": HOSTILE}
    return planted(
        study,
        tables={"gap": gap},
        rows=rows,
        dimensions=[HOSTILE],
        accepted=[HOSTILE],
        **within(study, "model", name=HOSTILE, path=HOSTILE, revision=HOSTILE, not_checked=HOSTILE),
        **within(study, "engine", version=HOSTILE, device=HOSTILE, dtype=HOSTILE),
        **within(study, "strategy", name=HOSTILE, source=HOSTILE, deviates=HOSTILE, stages=[HOSTILE]),
        **within(study, "stimuli", **told),
        **within(study, "prompt", variant=HOSTILE, sha256=HOSTILE),
        **within(study, "scale", low_label=HOSTILE, high_label=HOSTILE),
        **within(study, "elicitation", prefill=HOSTILE),
        **within(study, "noise", varied=HOSTILE),
        **within(study, "versions", **{"empathy-audit": HOSTILE}),
        analysed_by={"empathy-audit": HOSTILE, "numpy": HOSTILE, "scipy": HOSTILE},
    )


def test_what_a_label_holds_is_text_in_markdown():
    study = hostile()
    sections = methods(study)
    for text in (_markdown(sections, works_in(s.text() for s in sections)), paper_gap_table(study).markdown()):
        assert "R&#38;D" in text
        assert "<script" not in text
        assert "](http" not in text
        assert "@me" not in text
        assert "\x1b" not in text
        assert "http://" not in text
    rows = [line for line in paper_gap_table(study).markdown().splitlines() if line.startswith("| ")]
    assert {row.count(" | ") for row in rows} == {9}


def test_what_a_label_holds_is_text_in_latex():
    study = hostile()
    sections = methods(study)
    works = works_in(section.text() for section in sections)
    for text in (_latex(sections), paper_gap_table(study).latex(), bibliography(works)):
        assert "\\input" not in text
        assert "\x1b" not in text
    for text in (_latex(sections), paper_gap_table(study).latex()):
        assert "R\\&D\\_50\\%\\#1" in text
        assert "\\textbackslash{}input\\{/etc/passwd\\}" in text.replace("\\allowbreak{}", "")
        unescaped = re.sub(r"\\[\\{}&%$#_]", "", text)
        assert unescaped.count("{") == unescaped.count("}")
    body = paper_gap_table(study).latex().partition("\\toprule")[2].partition("\\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith("\\\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {9}
    bib = bibliography(works)
    assert bib.count("{") == bib.count("}")


def test_what_a_label_holds_is_text_in_word():
    study = hostile()
    sections = methods(study)
    content = word_file(sections, [paper_gap_table(study)], works_in(s.text() for s in sections), title="a", made=FIXED)
    document = docx.Document(io.BytesIO(content))
    text = "\n".join(each.text for each in document.paragraphs)
    assert "R&D_50%#1 \\input{/etc/passwd} $x^2$" in text
    assert "\\x1b[31m" in text
    with zipfile.ZipFile(io.BytesIO(content)) as zipped:
        assert not [name for name in zipped.namelist() if "hyperlink" in name.lower()]
        assert b'Target="http' not in zipped.read("word/_rels/document.xml.rels")


def german():
    """A run in German, whose quotation marks are other ones."""
    study = study_of()
    return planted(
        study,
        language={"code": "de", "name": "German", "sha256": "d" * 64, "reviewed": "„niemand“ hat es gelesen, ‚ja‘"},
        **within(study, "scale", low_label="überhaupt nicht", high_label="äußerst"),
        **within(study, "elicitation", prefill="Zahl: „"),
    )


FIXED = pd.Timestamp("2026-01-02T03:04:05").to_pydatetime()


@needs_tex
@pytest.mark.parametrize(
    "make",
    [study_of, lambda: study_of("example-replies"), hostile, lambda: german()],
    ids=["ratings", "replies", "hostile", "german"],
)
def test_the_latex_files_compile(make, tmp_path):
    study = make()
    sections = methods(study)
    works = works_in(section.text() for section in sections)
    files = {"methods": _latex(sections), "table": paper_gap_table(study).latex(), "main": MAIN}
    for name, text in files.items():
        (tmp_path / f"{name}.tex").write_text(text, encoding="utf-8")
    (tmp_path / "references.bib").write_text(bibliography(works), encoding="utf-8")
    tex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "main"]
    for command in (tex, ["bibtex", "main"], tex, tex):
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
        assert ran.returncode == 0, ran.stdout[-2000:]
    assert (tmp_path / "main.pdf").stat().st_size > 10_000
    log = (tmp_path / "main.log").read_text(encoding="utf-8", errors="replace")
    assert "Citation" not in log, "every work that is cited is in the references"


def test_a_run_of_another_tool_says_what_is_not_known_of_it(audit, tmp_path):
    groups = alone(3)
    ratings = ratings_of(groups, n=8, gap=lambda emotion, group: 4.0)
    ratings.loc[:4, ["rating", "status"]] = [None, "refused"]
    run = outside_run(tmp_path, ratings, grouped(groups))
    out = export(audit, run)
    text = (out / "methods.md").read_text("utf-8")
    assert "The ratings were not collected by us: another tool did so" in text
    assert "It is said to be of the model a model." in text
    assert f"Of {len(ratings)} prompts, {len(ratings) - 5} gave a rating and 5 were refused." in text
    assert "The identities that were rated: of identity, 3 perceivers and 3 experiencers of 3 groups." in text
    assert "Whether the ratings match the story was not checked." in text
    assert "Caution: whether the ratings match the story was not checked." in (out / "table.md").read_text("utf-8")
    assert "manipulation" not in text
    assert "seed" not in text
    repeated = "Caution, of identity: repeated words are not controlled: in-group pairs repeat the perceiver's words"
    assert repeated in text
    assert repeated in (out / "table.md").read_text("utf-8")
    own = pd.read_csv(run / "tables" / "gap.csv").query("headline and scope == 'narratives'").iloc[0]
    [row] = [row for row in word_table(out / "paper.docx") if row[0] == "identity"]
    assert shown_as(own["delta"], row[3])


def test_a_table_without_the_reason_why_a_rating_is_missing_says_so(tmp_path):
    study = study_of()
    told = planted(study, outside={"status_given": False}, **within(study, "elicitation", method="outside"))
    rows = study.rows.copy()
    rows["status"] = rows["status"].astype(str)
    rows.loc[rows.index[:3], "status"] = "unparseable"
    assert f"{len(rows) - 3} gave a rating and 3 have no rating, and the table does not say why." in said(
        planted(told, rows=rows)
    )


def test_a_table_that_was_changed_is_refused_with_the_remedy(audit, capsys, tmp_path):
    run = shutil.copytree(EXAMPLE, tmp_path / "run")
    table = run / "tables" / "gap.csv"
    table.write_text(table.read_text("utf-8").replace(",0.", ",0.9", 1), encoding="utf-8")
    assert audit("export", run, "form=paper", "to=out") == 2
    assert "gap.csv has changed since it was written (its SHA-256 differs)" in capsys.readouterr().err
    assert not Path("out").exists()


def test_without_python_docx_all_else_is_written_and_a_line_says_what_to_install(audit, capsys, tmp_path, monkeypatch):
    whole = export(audit, EXAMPLE)
    assert "python-docx" not in (whole / "ABOUT.md").read_text("utf-8")
    monkeypatch.setitem(sys.modules, "docx", None)
    capsys.readouterr()
    assert audit("export", EXAMPLE, "form=paper", "to=without") == 0
    assert "paper.docx needs python-docx: pip install 'empathy-audit[word]'" in capsys.readouterr().err
    assert "paper.docx needs python-docx" in Path("without/ABOUT.md").read_text("utf-8")
    names = {path.relative_to(whole) for path in whole.rglob("*.*")} - {Path("paper.docx")}
    assert {path.relative_to("without") for path in Path("without").rglob("*.*")} == names
    for name in names - {Path("ABOUT.md")}:
        assert (whole / name).read_bytes() == Path("without", name).read_bytes(), name


def test_a_figure_without_room_is_named_with_its_reason(audit, tmp_path):
    about = (export(audit, EXAMPLE) / "ABOUT.md").read_text("utf-8")
    assert (
        "The figure interaction-religion-origin is not there in 89 mm: 6 rows and 12 columns have no room with letters "
        "of 7 points." in about
    )
    assert "in 183 mm" not in about


def test_the_form_takes_ratings_and_texts_and_no_questionnaires():
    assert FORM.takes == ("ratings", "replies")
