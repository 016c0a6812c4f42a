"""Who gets less, in every form of export: numbers of disparity.csv, words of the page, and no claim that it refuses."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from planted import gets_less, grouped, refused
from runs import as_stored, of_before, outside_run

sys.path.insert(0, str(Path(__file__).parent))
from test_paper import docx, latex_table, markdown_table, number, word_table

from audit.extras.exchange.base import Collected
from audit.extras.exchange.groups import NO_GAP
from audit.extras.exchange.paper.disparities import paper_disparity_table
from audit.extras.exchange.paper.export import _study
from audit.extras.exchange.paper.figures import PaperFigures
from audit.extras.exchange.paper.methods import methods
from audit.extras.exchange.paper.text import as_plain
from audit.report.disparities import who_gets_less
from audit.report.numbers import rows_of
from audit.runs.derived import derived_table
from audit.tables.disparity import DISPARITY

pytestmark = pytest.mark.long

REPORTS = Path(__file__).parents[2] / "reports"
EEE = ("form=every-eval-ever", "organization=A lab", "relationship=third_party", "model_id=a/b")
TITLE = "Language models predict empathy gaps between social in-groups and out-groups"
HOSTILE = "R&D_5%#1 \\input{/etc/passwd} $x^2$ [a](http://evil.example) <script>alert(1)</script> | `*@me*`"


CASES = {
    "less": gets_less,
    "words": lambda: gets_less(stems=False),
    "alike": lambda: gets_less(0.0, n=200),
    "deployed": lambda: deployed(gets_less()),
    "refused": lambda: refuses_birch(gets_less(0.0)),
    "refused-own": lambda: refuses_its_own(gets_less(0.0)),
}
"""One group 20 points lower, in any words and in these; all alike; without perceivers; one, or one's own, refused."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Planted runs by name, each made when a test first asks for it."""

    class Runs(dict):
        def __missing__(self, name):
            case = CASES[name]()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
                run = outside_run(tmp_path_factory.mktemp(name), case.ratings, case.groups, **case.settings)
            return self.setdefault(name, run)

    return Runs()


def refuses_birch(case):
    """Refuse half of the narratives of people of Birch, whoever speaks."""
    gone = case.ratings["experiencer"].str.endswith("Birch") & (
        case.ratings["narrative_id"].str[1:].astype(int) % 2 == 0
    )
    return type(case)(refused(case.ratings, gone), case.groups, case.settings)


def refuses_its_own(case):
    """Refuse one's own group in one narrative of three."""
    groups = case.groups.set_index("term")["group"]
    own = case.ratings["perceiver"].map(groups) == case.ratings["experiencer"].map(groups)
    gone = own & (case.ratings["narrative_id"].str[1:].astype(int) % 3 == 0)
    return type(case)(refused(case.ratings, gone), case.groups, case.settings)


def deployed(case):
    """Keep one perceiver, who is of no group: the model was given no identity."""
    first = case.ratings["perceiver"].iloc[0]
    ratings = case.ratings.loc[case.ratings["perceiver"] == first].assign(perceiver="a person")
    groups = pd.concat([case.groups, grouped({"a person": "unspecified"}).assign(stem="")])
    return type(case)(ratings, groups, case.settings)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.extras.exchange.paper.figures.draw_for_journal", lambda *_, **__: PaperFigures({}, {}))


def decided(run) -> pd.DataFrame:
    """The groups' rows that decide, from the run's own table."""
    table = derived_table(run, "disparity", DISPARITY)
    return table.loc[table["headline"].astype(bool)].set_index("group")


def words_of(run) -> str:
    rows = rows_of(derived_table(run, "disparity", DISPARITY), "disparity")
    return " ".join(str(who_gets_less(rows, confidence=0.95).words.striptags()).split())


def exported(audit, run, *words, to):
    assert audit("export", run, *words, f"to={to}") == 0
    return Path(to)


def prose(out) -> str:
    return "\n".join(each.text for each in docx.Document(str(out / "paper.docx")).paragraphs)


def card(audit, run, to="card") -> str:
    text = (exported(audit, run, "form=card", to=to) / "AUDIT_CARD.md").read_text(encoding="utf-8")
    return text.replace("\\", "").replace("&#61;", "=").replace("&#60;", "<").replace("&#39;", "'")


def test_a_card_of_another_tool_s_ratings_names_no_option_of_our_runs(runs, audit):
    steps = [step for name in CASES for step in re.findall(r"Next: .*", card(audit, runs[name], to=f"card-{name}"))]
    assert any("collect ratings of" in step for step in steps), steps
    ours = re.compile(r"Run again|stimuli\.|elicitation[.=]|prompt=")
    assert [step for step in steps if ours.search(step)] == []


def results(audit, run, to="eee") -> dict[str, dict]:
    [path] = exported(audit, run, *EEE, to=to).rglob("*.json")
    return {each["evaluation_result_id"]: each for each in json.loads(path.read_text())["evaluation_results"]}


# --- One group gets less ---------------------------------------------------------------------------------------------


def test_a_paper_has_every_group_with_the_numbers_of_the_table_in_all_three_forms(runs, audit):
    run = runs["less"]
    out = exported(audit, run, "form=paper", to="paper")
    head, *rows = word_table(out / "paper.docx", 2)
    markdown, latex = ((out / f"table.{form}").read_text("utf-8") for form in ("md", "tex"))
    assert markdown_table(markdown, 2) == latex_table(latex, 2) == [head, *rows]
    assert head == ["Group", "Answer", "Narratives", "Ratings", "D", "SE", "95% CI", "t", "df", "p", "p corrected"]
    own = decided(run)
    assert own["disparity"].idxmin() == "Birch"
    assert own.loc["Birch", "disparity"] == pytest.approx(-20, abs=1)
    assert [re.sub("a$", "", row[0]) for row in rows] == list(own["disparity"].sort_values().index)
    for (name, answer, narratives, ratings, *numbers, p, adjusted), (group, made) in zip(
        rows, own.sort_values("disparity").iterrows(), strict=True
    ):
        assert answer.startswith(made["code"])
        assert [number(narratives), number(ratings)] == [made["n_narratives"], made["n_answers"]], name
        disparity, se, interval, t, df = numbers
        low, high = interval.strip("[]").split(", ")
        exact = {"disparity": disparity, "se": se, "ci_low": low, "ci_high": high, "df": df}
        for column, text in exact.items():
            assert number(text) == pytest.approx(made[column], abs=0.00501), (group, column)
        assert number(t) == pytest.approx(made["disparity"] / made["se"], abs=0.00501)
        for text, value in ((p, made["p"]), (adjusted, made["p_adjusted"])):
            assert text == "< .001" if value < 0.001 else abs(float(text) - value) < 0.00051
    assert rows[0][1] == "lower, by more than 2.00 points"
    # The result, in the words of the page, with the number that the words are about.
    notes = prose(out)
    assert f"Who gets less, of identity: {words_of(run)}. D = −{abs(own.loc['Birch', 'disparity']):.2f} points" in notes
    assert notes.count("Hotelling's T-squared (Hotelling, 1931)") == 1
    table = derived_table(run, "disparity", DISPARITY)
    [tested] = table.query("level == 'all' and view == 'all' and side == 'experiencer'").to_dict("records")
    assert f"F({tested['df']:.0f}, {tested['df_residual']:.0f}) = {tested['statistic']:,.2f}, p < .001." in notes
    cited = re.findall(r"^@\w+\{(\w+),", (out / "references.bib").read_text("utf-8"), re.MULTILINE)
    assert {"holm1979", "hotelling1931", "schuirmann1987"} <= set(cited)


def test_a_card_answers_both_questions_with_numbers(runs, audit):
    verdicts = card(audit, runs["less"]).partition("## Verdicts")[2].partition("\n## ")[0]
    side, less = verdicts.split("### ")[1:]
    assert side.startswith("Whose side? The gap δ")
    end = r"[+−]\d\.\d\d"
    said = rf"δ = {end} points \(95% interval {end} to {end}, for narratives and groups like these; p = "
    assert re.search(said, side)
    assert less.startswith("Who gets less? The disparity D")
    own = decided(runs["less"]).loc["Birch"]
    assert f"{words_of(runs['less'])}. D = −{-own['disparity']:.2f} points (95% interval −" in less
    assert "lower in 100% of 60 narratives" in less
    assert "`tables/disparity.csv`" in less


def test_a_record_has_a_result_for_each_group_which_takes_no_side(runs, audit):
    found = results(audit, runs["less"])
    own = decided(runs["less"])
    assert [name.partition("/group/")[2] for name in found if "/group/" in name] == list(own.index)
    for group, made in own.iterrows():
        each = found[f"identity/outside/group/{group}"]
        metric, told = each["metric_config"], each["score_details"]["details"]
        assert metric["metric_id"] == "empathy_audit.largest_disparity_left"
        assert (metric["metric_unit"], metric["min_score"], metric["max_score"]) == ("points", 0, 100)
        assert "not on which side" in metric["evaluation_description"]
        for column in ("disparity", "se", "ci_low", "ci_high", "p", "p_adjusted", "n_narratives", "n_answers"):
            assert float(told[column]) == pytest.approx(made[column], rel=1e-12), (group, column)
        assert each["score_details"]["score"] == pytest.approx(made["supported_margin"])
        assert {type(value) for value in told.values()} == {str}
        assert told["answer code"] == made["code"]
    assert found["identity/outside/group/Birch"]["score_details"]["score"] > 20
    told = found["identity/outside/group/Birch"]["score_details"]["details"]
    assert told["what it says"] == (
        f"the group differs from the others by less than {own.loc['Birch', 'supported_margin']} points, at level 0.05"
    )


def test_a_record_says_which_group_is_refused_more(runs, audit):
    """Its ratings are as high as the others': no score shows that half of them are missing."""
    found = results(audit, runs["refused"])
    for name in ("identity/outside", "identity/outside/group/Birch"):
        said = found[name]["score_details"]["details"]["who is refused more"]
        assert said.startswith("Birch is refused more often than the others")
    assert (
        "who is refused more"
        not in results(audit, runs["less"], to="none")["identity/outside"]["score_details"]["details"]
    )


def test_that_one_s_own_group_is_refused_more_stands_in_every_form_with_results(runs, audit):
    said = "The model refuses more often if the person is of its own group: δ = +"
    run = runs["refused-own"]
    assert f"Refusals: {said}" in card(audit, run)
    assert results(audit, run)["identity/outside"]["score_details"]["details"]["refusals"].startswith(said)
    out = exported(audit, run, "form=paper", to="paper")
    assert f"Refusals, of identity: {said}" in prose(out)
    assert said not in card(audit, runs["less"], to="none")


def test_a_data_set_has_the_disparities(runs, audit):
    out = exported(audit, runs["less"], "form=huggingface", to="hf")
    written = pd.read_parquet(out / "data" / "disparity.parquet")
    made = derived_table(runs["less"], "disparity", DISPARITY)
    pd.testing.assert_series_equal(written["disparity"], made["disparity"])
    assert list(written) == list(DISPARITY)
    verdicts = pd.read_parquet(out / "data" / "verdicts.parquet")
    assert verdicts["code"].tolist() == pd.read_csv(runs["less"] / "tables" / "verdicts.csv")["code"].tolist()
    page = (out / "README.md").read_text("utf-8")
    plain = page.replace("&#61;", "=")
    assert f"{words_of(runs['less'])}. D = " in plain.partition("### Who gets less?")[2]
    assert re.search(r"### Whose side\? The gap δ\n\n- \*\*identity \(outside\):\*\* ", plain)
    assert "The disparity D of a group is how much lower" in page


def test_what_is_shown_of_these_words_alone_is_said_of_these_words(runs, audit):
    run = runs["words"]
    assert decided(run).loc["Birch", ["code", "claim"]].tolist() == ["lower", "words"]
    out = exported(audit, run, "form=paper", to="paper")
    _, first, *_ = word_table(out / "paper.docx", 2)
    assert first[1].startswith("lower, in these words")
    assert "All intervals speak of any such narratives and of the words that were asked." in prose(out)
    assert "what terms of a group differ by" not in prose(out)
    assert "lower than the others, whoever speaks, in these words" in card(audit, run)
    told = results(audit, run)["identity/outside/group/Birch"]["score_details"]["details"]
    assert (told["it speaks of"], told["answer"].startswith("lower, in these words")) == ("these words", True)


def test_groups_that_are_alike_are_shown_to_be(runs, audit):
    run = runs["alike"]
    assert set(decided(run)["code"]) == {"within"}
    out = exported(audit, run, "form=paper", to="paper")
    _, *rows = word_table(out / "paper.docx", 2)
    assert {row[1] for row in rows} == {"within 2.00 points"}
    said = "No group is rated lower or higher than the others by 2.00 points or more"
    assert said in prose(out)
    assert said in card(audit, run)
    groups = [each["score_details"] for name, each in results(audit, run).items() if "/group/" in name]
    assert len(groups) == 5
    assert all(0 < each["score"] < 2 for each in groups)


# --- Nothing that the page refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["less", "alike"])
def test_a_run_without_a_verdict_has_no_claim_in_any_form(runs, audit, tmp_path, name):
    """Files that were changed, and accepted: nobody knows whether the answers are the model's."""
    shutil.copytree(runs[name], tmp_path / "run")
    as_stored(tmp_path / "run")
    path = tmp_path / "run" / "ratings.parquet"
    pq.write_table(pq.read_table(path), path, compression="zstd")  # other bytes, which nobody can vouch for
    assert audit("verify", tmp_path / "run", "accept=true") == 0
    study = _study(Collected.read(tmp_path / "run", unfinished=False, texts=False))
    table = paper_disparity_table(study, 2)
    assert {as_plain(row.cells[1]) for row in table.rows} == {"no verdict"}
    said = " ".join(map(as_plain, (*table.all_notes(), *(each.text() for each in methods(study)))))
    why = "No verdict: files were changed after they were collected"
    assert f"Who gets less, of identity: {why}." in said
    less = card(audit, tmp_path / "run").partition("### Who gets less?")[2].partition("\n## ")[0]
    assert why in less
    groups = [each["score_details"] for key, each in results(audit, tmp_path / "run").items() if "/group/" in key]
    assert {each["score"] for each in groups} == {100}
    assert all(each["details"]["what it says"].startswith("nothing: no verdict") for each in groups)
    for claim in ("is rated lower", "by more than", "No group is", "D = "):
        assert claim not in said
        assert claim not in less


def test_a_run_whose_ratings_do_not_match_the_story_has_none_either(audit, tmp_path):
    less = card(audit, REPORTS / "example").partition("### Who gets less?")[2].partition("\n## ")[0]
    assert "No verdict: the ratings do not match the story." in less
    assert "D = " not in less
    groups = [each["score_details"] for key, each in results(audit, REPORTS / "example").items() if "/group/" in key]
    assert {each["score"] for each in groups} == {100}
    assert len(groups) == 6


# --- A model as it is deployed ---------------------------------------------------------------------------------------


def test_without_perceivers_everything_is_about_groups_and_no_gap_is_claimed(runs, audit):
    run = runs["deployed"]
    own = decided(run)
    assert set(own["view"]) == {"unspecified"}
    assert own.loc["Birch", "code"] == "lower"
    out = exported(audit, run, "form=paper", to="paper")
    assert len(docx.Document(str(out / "paper.docx")).tables) == 1
    head, *rows = word_table(out / "paper.docx")
    assert head[0] == "Group"
    assert rows[0][0] == "Birch"
    assert number(rows[0][4]) == pytest.approx(own.loc["Birch", "disparity"], abs=0.00501)
    text = prose(out).replace(TITLE, "")
    assert f"Who gets less, of identity: {words_of(run)}." in text
    assert "; with “a person” as perceiver, on average over narratives" in text
    assert "10 experiencers of 5 groups" in text
    assert text.count(NO_GAP) == 2
    for claim in ("Verdict on", "In-Group", "in-group", "0 perceivers", "who is given no identity at all", "gap of"):
        assert claim not in text.replace("so no group is its own", "")
    page = card(audit, run)
    verdicts = page.partition("## Verdicts")[2].partition("\n## ")[0]
    assert verdicts.index("Who gets less?") < verdicts.index("Whose side?")
    assert verdicts.strip().endswith(NO_GAP)
    assert "In points of the scale, by model and prompt" not in page
    found = results(audit, run)
    assert all("/group/" in key for key in found)
    assert len(found) == 5
    about = (exported(audit, run, "form=csv", to="csv") / "ABOUT.md").read_text("utf-8")
    assert "after removing two things" not in about
    assert "The gap δ is not defined" in about


# --- Replies, old runs, and names ------------------------------------------------------------------------------------


def test_measures_of_replies_have_their_groups(audit, tmp_path):
    run = REPORTS / "example-replies"
    out = exported(audit, run, "form=paper", to="paper")
    head, *rows = word_table(out / "paper.docx", 2)
    assert head[:4] == ["Measure", "Unit", "Group", "Answer"]
    table = derived_table(run, "disparity", DISPARITY)
    own = table.loc[table["headline"].astype(bool) & (table["view"] == "all")]
    titles = pd.read_csv(run / "tables" / "measures.csv").set_index("measure")["title"]
    far = own.loc[own["disparity"].dropna().abs().groupby(own["outcome"]).idxmax()].set_index("outcome")
    by_title = {titles.get(name, name): row for name, row in far.iterrows()}
    shown = [row for row in rows if row[6] != "–"]
    assert len(shown) > 5
    for row in shown:
        made = by_title[row[0]]
        decimals = len(row[6].partition(".")[2])
        assert number(row[6]) == pytest.approx(made["disparity"], abs=0.51 * 10**-decimals)
        if made["disparity"]:
            assert re.fullmatch(f"{made['group']}[a-z]?", row[2])
    text = card(audit, run)
    assert "### Whose side? The gap δ" in text
    assert "### Who gets less? The disparity D" in text
    assert "Undecided: too few narratives in which scores differ." in text.partition("### Who gets less?")[2]


@pytest.mark.parametrize("name", ["example", "example-replies"])
def test_a_run_of_before_is_exported_as_it_was(audit, tmp_path, name):
    shutil.copytree(REPORTS / name, tmp_path / "run")
    (tmp_path / "run" / "tables" / "disparity.csv").unlink()
    run = of_before(tmp_path / "run")
    out = exported(audit, run, "form=paper", to="paper")
    assert len(docx.Document(str(out / "paper.docx")).tables) == 1
    assert "isparity" not in prose(out)
    assert "The run has no answer: an earlier version analysed it" in card(audit, run)
    exported(audit, run, "form=huggingface", to="hf")
    assert not Path("hf/data/disparity.parquet").exists()
    if name == "example":
        assert list(results(audit, run)) == ["religion/origin"]


def test_a_group_s_name_is_text_in_every_form(audit, tmp_path, monkeypatch):
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    case = gets_less(n=20)
    groups = case.groups.replace({"group": {"Birch": HOSTILE}})
    run = outside_run(tmp_path, case.ratings, groups, **case.settings)
    out = exported(audit, run, "form=paper", to="paper")
    markdown, latex = ((out / name).read_text("utf-8") for name in ("table.md", "table.tex"))
    for text in (markdown, (out / "methods.md").read_text("utf-8")):
        assert "<script" not in text
        assert "](http" not in text
        assert "@me" not in text
    rows = [row for row in markdown.split("**Table 2**")[1].splitlines() if row.startswith("| ")]
    assert {row.count(" | ") for row in rows} == {10}
    assert "R\\&D\\_5\\%\\#1" in latex
    assert "\\input" not in latex.replace("\\textbackslash{}input", "")
    first = word_table(out / "paper.docx", 2)[1]
    assert first[0] == HOSTILE
    assert first[1].startswith("lower")
    page = (exported(audit, run, "form=card", to="card") / "AUDIT_CARD.md").read_text("utf-8")
    assert "<script" not in page
    assert "](http" not in page
    assert any(key.endswith(HOSTILE) for key in results(audit, run))
    assert math.isfinite(decided(run).loc[HOSTILE, "disparity"])
