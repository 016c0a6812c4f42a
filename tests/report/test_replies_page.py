"""The page of a run of replies: its numbers against the tables, hostile texts, what a browser says of it, its size."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from test_numbers import Numbers, files_of, read, value_in

from audit.configuration.analysis_settings import AnalysisSettings
from audit.report.figures.style import figure_bytes
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.replies import RATIONALES, REPLIES
from audit.tables.run_of_replies import REPLY_TABLES
from audit.tasks.measures.base import Measure
from audit.tasks.pipeline import report_run
from audit.tasks.reply.figures import draw_measures
from audit.tasks.reply.page import render_replies
from audit.tasks.reply.scoring import write_scores
from audit.tasks.reply.task import ReplyWriting

ATTACK = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">{{7*7}}</script>'
TERMS = {"Jew": ["a Jew"], "Sikh": ["a Sikh", "a Khalsa Sikh"], "Jain": ["a Jain"], "Copt": ["a Copt"]}
OTHERS = {"Hindu": ["a Hindu"], "unspecified": ["a person"]}
LOOKS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


def replies_of(groups, *, n=8, dimensions=("religion", "nationality"), tail=""):
    """Replies of these groups' terms to n narratives, of each status some in the first two."""
    rng = np.random.default_rng(0)
    terms = [(term, group) for group, own in groups.items() for term in own]
    rows = [
        (f"{dimension}{tail}", f"origin{tail}", f"n{k}{tail}", f"{('joy', 'fear')[k % 2]}{tail}", p, e, pg, eg)
        for dimension in dimensions for k in range(n) for p, pg in terms for e, eg in terms
    ]  # fmt: skip
    names = ["dimension", "variant", "narrative_id", "emotion"]
    names += ["perceiver", "experiencer", "perceiver_group", "experiencer_group"]
    table = pd.DataFrame(rows, columns=names).assign(prompt_index=range(len(rows)))
    between = (table[["perceiver_group", "experiencer_group"]] != "unspecified").all(axis=1)
    inside = table["perceiver_group"] == table["experiencer_group"]
    words = np.array(["sorry", "glad", "you", "must", "feel", "it", "was", "hard", "call", "me"])
    table["text"] = [" ".join(rng.choice(words, rng.integers(3, 12))) + tail for _ in rows]
    table["status"] = "written"
    first = table.index[table["narrative_id"].isin([f"n0{tail}", f"n1{tail}"])]
    for place, status in enumerate(("cut", "empty", "refused", "other_script", "failed")):
        table.loc[first[place * 7 :: 40], "status"] = status
    return table.assign(
        in_group=inside.astype("boolean").where(between),
        n_shared=inside.astype("Int8").where(between),
        n_tokens=9,
        n_prompt_tokens=50,
        n_dropped=0,
        wording=0,
    )[list(REPLIES)]


def write_run(folder, replies, *, tail="", measures=3, narratives=None, **change):
    """Write a run's folder as collecting and scoring leave it: the first measure has a gap, the last is always 1."""
    rng = np.random.default_rng(1)
    taken = [Measure(f"m{k}", f"Measure {k}{tail}", f"points{tail}", "higher", f"by us{tail}") for k in range(measures)]
    taken += [Measure("always", "Always", "share of replies", "neither", "by us", f"no news{tail}", 0, 1)]
    scored = replies.loc[replies["status"].isin(["written", "cut"])]
    values = rng.normal(0, 1, (len(scored), measures + 1)) * 10.0 ** -np.arange(measures + 1)
    values[:, 0] += 2.0 * scored["in_group"].fillna(False).to_numpy(bool)
    values[:, -1] = 1.0
    scores = pd.DataFrame(
        {
            "prompt_index": scored["prompt_index"].repeat(measures + 1),
            "measure": np.array([measure.name for measure in taken] * len(scored), dtype=object),
            "value": values.ravel(),
        }
    )
    described = [
        {name: None if value in (np.inf, -np.inf) else value for name, value in dataclasses.asdict(measure).items()}
        for measure in taken
    ]
    manifest = {
        "status": "complete",
        "command": f"python -m audit run task=reply{tail}",
        "started": "2026-01-01T00:00:00+00:00",
        "n_prompts": len(replies),
        "shard_size": len(replies),
        "seed": 0,
        "model": {"name": f"a model{tail}"},
        "task": {"kind": "reply", "max_tokens": 20, "temperature": 0.0},
        "stimuli": {"source": f"a source{tail}"},
        "prompt": {"variant": "origin"},
        "dimensions": sorted(set(replies["dimension"])),
        "clusters": {},
        "config": {"statistics": AnalysisSettings().model_dump(mode="json")},
        "scorers": {f"counts{tail}": {"facts": {"model": f"a scorer{tail}"}, "measures": described}},
        "absent": {f"eq{tail}": f"its model is not here{tail}"},
        "diversity": True,
    }  # fmt: skip
    with RunFolder(folder) as run:
        run.write_shard(0, replies, "replies")
        write_scores(run, "counts", 0, scores, {})
        run.write_manifest(Manifest.of(manifest | change))
    return report_run(folder).report


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A run of two dimensions with all statuses, baselines, and a group of two terms; enough groups for both scopes."""
    return write_run(tmp_path_factory.mktemp("page") / "run", replies_of(TERMS | OTHERS, n=24))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run in which everything that a user or a model can word is an attack."""
    groups = {f"{group}{ATTACK}": [f"{term}{ATTACK}" for term in own] for group, own in TERMS.items()}
    replies = replies_of(groups, n=3, tail=ATTACK)
    told = dict.fromkeys(set(replies["narrative_id"]), f"It happened to me{ATTACK}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.tasks.reply.written.narratives_of", lambda folder, manifest: told)
        return write_run(tmp_path_factory.mktemp("hostile") / "run", replies, tail=ATTACK, preset=ATTACK)


def test_every_number_is_the_one_in_its_table_rounded(page):
    numbers = Numbers(page.read_text("utf-8"))
    files = files_of(page.parent)
    assert len(numbers.found) > 500
    used = set()
    for exact, places, text in numbers.found:
        used |= {place.split(":")[0] for place in places.split()}
        there = value_in(files, places)
        assert (there is None) == (exact == ""), places
        if there is None:
            assert text == "\N{EN DASH}", places
            continue
        assert float(exact) == pytest.approx(there, rel=1e-15), places
        written, half = read(text)
        if "<" in text or ">" in text:
            assert (there < written) if "<" in text else (there > written), (places, text)
            continue
        assert abs(written - there) <= half * (1 + 1e-9), (places, text, there)
    assert used == {"verdicts", "measures", "gap", "disparity", "families", "cells", "reply_outcomes"}
    assert numbers.stray == []


def test_each_measure_of_each_dimension_has_its_row_and_the_answer_names_those_that_show_a_gap(page):
    html = page.read_text("utf-8")
    gaps = pd.read_csv(page.parent / "tables/gap.csv")
    narrow = gaps.index[gaps["headline"] & (gaps["scope"] == "narratives")]
    assert set(gaps.loc[narrow, "dimension"]) == {"religion", "nationality", "all"}
    for line in narrow:
        assert f'gap:{line}:delta"' in html
    cards = re.findall(r'<article class="answer (\w+)">(.*?)</article>', html, re.DOTALL)
    assert [(kind, ": who gets less?" in card) for kind, card in cards] == [
        ("gap", False), ("undecided", True), ("gap", False), ("undecided", True), ("gap", False),
    ]  # fmt: skip
    for card in (card for kind, card in cards if kind == "gap"):
        assert re.findall(r"<li>(.*?):", card) == ["Measure 0"]
        assert "A gap, which repeated words alone could cause, in 1 measure<" in card
        assert "1 more could not be tested" in card  # that is always 1


def test_each_column_of_a_table_of_gaps_holds_what_its_head_says(page):
    html = page.read_text("utf-8")
    [table] = re.findall(r'<table aria-label="religion: δ of each measure, in its own unit.*?</table>', html, re.DOTALL)
    head = re.findall(r"<th[^>]*>([^<]*)</th>", table.split("</thead>")[0])
    row = re.split("<t[hd]", re.findall(r"<tr>.*?</tr>", table, re.DOTALL)[1])[1:]
    places = [re.findall(r'data-at="gap:\d+:(\w+)"', cell) for cell in row]
    assert dict(zip(head, places, strict=True)) == {
        "measure": [], "δ": ["delta"], "95% interval": ["ci_low", "ci_high"], "p": ["p"],
        "corrected p": ["p_adjusted"], "δ in SD": ["delta_sd"], "narratives": ["n_narratives", "n_narratives_asked"],
        "replies": ["n_answers"], "missing": ["n_missing"], "estimator": [], "note": [],
    }  # fmt: skip
    assert ">Measure 0<" in row[0]
    assert ">points<" in row[0]
    assert ">contrast<" in row[9]


def test_two_digits_of_half_the_interval_are_shown(page):
    """Measure 2 has a hundredth of the spread of measure 0."""
    gaps = pd.read_csv(page.parent / "tables/gap.csv")
    shown = {places: text for _, places, text in Numbers(page.read_text("utf-8")).found}
    for measure, decimals in (("m0", 2), ("m2", 4)):
        own = (gaps["outcome"] == measure) & gaps["headline"] & (gaps["scope"] == "narratives")
        [line] = gaps.index[own & (gaps["dimension"] == "all")]
        half = (gaps.loc[line, "ci_high"] - gaps.loc[line, "ci_low"]) / 2
        assert 10 ** -(decimals - 1) <= half < 10 ** -(decimals - 2)
        for column in ("delta", "ci_low", "ci_high"):
            assert len(shown[f"gap:{line}:{column}"].split(".")[1]) == decimals


def test_what_is_absent_and_what_a_number_must_not_be_taken_for_is_said(page):
    html = page.read_text("utf-8")
    assert "<summary>Not measured: eq</summary>" in html
    assert "<strong>eq</strong>: <bdi>its model is not here</bdi>" in html
    assert "<strong>Always</strong>: No news.</li>" in html
    assert "every reply between identities has the same number, 1" in html
    assert "Many replies without a measure" not in html  # three in a hundred


def test_the_table_of_measures_says_which_way_is_better_if_one_is(page):
    html = page.read_text("utf-8")
    better = pd.read_csv(page.parent / "tables/measures.csv").query("status != 'absent'")["better"].value_counts()
    said = {"higher": "higher is better", "lower": "lower is better", "neither": "neither is better"}
    assert {name: html.count(words) for name, words in said.items()} == {name: better.get(name, 0) for name in said}
    assert better["higher"] >= 3
    assert better["neither"] >= 1


def test_hostile_words_are_escaped_wherever_they_stand(hostile):
    html = hostile.read_text("utf-8")
    for raw in ("<script>window", "<img src=x", 'onerror="window'):
        assert raw not in html
    assert html.count("<script") == 2  # the tables' and the page's own
    escaped = "&lt;script&gt;window.hacked=1&lt;/script&gt;"
    for word in ("a Jew", "Measure 0", "points", "by us", "No news", "a scorer", "eq", "its model is not here",
                 "It happened to me", "religion", "a model", "a source", "task=reply"):  # fmt: skip
        assert f"{word}{escaped}" in html, word
    assert re.search(rf"<pre>[a-z ]+{re.escape(escaped)}", html)  # a reply


def test_the_same_run_gives_the_same_bytes(page):
    before = page.read_bytes()
    assert report_run(page.parent).report.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda replies: replies.assign(status="refused"),
        lambda replies: replies.loc[replies["narrative_id"] == "n0"],
        lambda replies: replies.loc[replies["perceiver_group"] == "Jew"],
        lambda replies: replies.loc[replies["in_group"].isna()],
        lambda replies: replies.iloc[:1],
    ],
    ids=["all refused", "one narrative", "one perceiver", "baselines only", "one prompt"],
)
def test_a_poor_run_has_a_page_too(change, tmp_path):
    replies = change(replies_of(TERMS | OTHERS, n=3, dimensions=["religion"]))
    html = write_run(tmp_path / "run", replies.assign(prompt_index=range(len(replies)))).read_text("utf-8")
    assert "Nothing could be tested" in html
    assert not re.search(r"\bnan\b", html)


def large_tables(*, n_dimensions, n_measures, n_groups):
    """Tables of many measures and pairs, each row with a p of its own."""
    rng = np.random.default_rng(0)
    dimensions = [f"dimension {k}" for k in range(n_dimensions)]
    names = [f"m{k}" for k in range(n_measures)]
    groups = [f"group {k}" for k in range(n_groups)]

    def crossed(table, **levels):
        rows = pd.MultiIndex.from_product(levels.values(), names=levels.keys()).to_frame(index=False)
        numbers = [name for name in REPLY_TABLES[table] if name not in rows]
        rows = rows.join(pd.DataFrame(rng.random((len(rows), len(numbers))), columns=numbers))
        return rows.assign(variant="origin")[list(REPLY_TABLES[table])]

    gaps = crossed("gap", dimension=dimensions, outcome=names, scope=["narratives", "narratives_and_terms"])
    verdicts = crossed("verdicts", dimension=dimensions, outcome=names).assign(
        reasons="", control="none", scope="groups"
    )
    verdicts["code"] = np.where(verdicts["p_adjusted"] < 0.05, "gap", "undecided")
    verdicts = verdicts.assign(
        claim=np.where(verdicts["code"] == "gap", "groups", ""), size="", of_these_wordings="", next_step="nothing",
        margin=np.nan, direction=1,
    )  # fmt: skip
    families = crossed("families", dimension=dimensions, outcome=names, family=["group"], member=groups)
    cells = crossed("cells", dimension=dimensions, outcome=names, perceiver=groups, experiencer=groups)
    measures = crossed("measures", measure=names)
    words = dict.fromkeys(("unit", "scorer", "source", "caution", "note"), "some words")
    return {
        "measures": measures.assign(**words, title=[f"Measure {k}" for k in range(n_measures)], better="higher",
                                    status="scored").drop(columns="variant", errors="ignore"),
        "verdicts": verdicts,
        "gap": gaps.assign(headline=True, estimator="mixed", note="some words", n_narratives=12),
        "families": families,
        "cells": cells,
        "reply_outcomes": crossed("reply_outcomes", dimension=dimensions, pairs=["all"]),
        **{name: pd.DataFrame(columns=list(REPLY_TABLES[name])) for name in ("calls", "stage_texts", "marked_words")},
    }  # fmt: skip


@pytest.mark.long
def test_of_many_measures_and_pairs_the_page_shows_those_of_the_smallest_p_and_stays_small():
    tables = large_tables(n_dimensions=5, n_measures=30, n_groups=21)
    figures = {name: figure_bytes(each, "svg") for name, each in draw_measures(tables, confidence=0.95).items()}
    manifest = {"model": {"name": "a model"}, "task": {"kind": "reply", "max_tokens": 9, "temperature": 0.0}, "seed": 0}
    manifest |= {"config": {"statistics": {"confidence": 0.95}}}
    html = render_replies(
        manifest=Manifest.of(manifest), tables=tables, figures=figures, remarks=[], replies=replies_of(TERMS, n=1),
        values=pd.DataFrame(), rationales=pd.DataFrame(columns=list(RATIONALES)), narratives={},
        words=ReplyWriting.words,
    )  # fmt: skip
    assert len(figures) == 5
    assert len(html.encode()) < 3_000_000
    gaps = tables["gap"]
    narrow = gaps.loc[gaps["scope"] == "narratives"]
    n_shown = (tables["verdicts"]["code"] == "gap").groupby(tables["verdicts"]["dimension"]).sum()
    verdicts = ["No gap is found" if n == 0 else f"A gap between groups in {n} measure{'s' * (n > 1)}" for n in n_shown]
    cards = html.partition('id="print-summary"')[2]
    assert re.findall('<p class="verdict">(.*?)</p>', cards) == verdicts
    assert (narrow["p"] < 0.05).groupby(narrow["dimension"]).sum().tolist() != n_shown.tolist()
    first = narrow.loc[narrow["dimension"] == "dimension 0"]
    least = first.loc[first["p"].idxmin(), "outcome"]
    lines = re.findall(r'data-at="cells:(\d+):mean"', html)
    of_cells = tables["cells"].loc[list(map(int, lines))].query("dimension == 'dimension 0'")["outcome"]
    assert set(of_cells) == {least}
    assert len(of_cells) == 21 * 21
    assert "The 29 others are in" in html


@pytest.fixture(scope="module")
def chromium():
    browser = pytest.importorskip("browser")
    if browser.CHROMIUM is None:
        pytest.skip("there is no chromium on this machine; name one in CHROMIUM")
    with browser.launched() as launched:
        yield launched


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_reader_can_read_everything_and_nothing_is_fetched(chromium, page, width, scheme):
    from browser import open_all, opened, sideways, violations

    with opened(chromium, page, width=width, color_scheme=scheme) as shown:
        assert sideways(shown) == 0
        open_all(shown)
        assert violations(shown) == []
        assert sideways(shown) == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_words_run_nothing(chromium, hostile, width):
    from browser import open_all, opened, sideways

    with opened(chromium, hostile, width=width) as shown:
        open_all(shown)
        assert shown.evaluate("window.hacked") is None
        assert shown.locator("[onerror], script[src], img:not([src^='data:image/svg+xml;base64,'])").count() == 0
        # A model's name is one that anybody may have chosen: of a long one its beginning stands on the page.
        named = f"a model{ATTACK}"
        heading = f"What {named[:80]}… ({len(named)} characters) writes to in-group and out-group"
        assert shown.locator("h1").inner_text() == heading
        assert sideways(shown) == 0


@pytest.mark.browser
def test_the_first_screen_answers(chromium, page):
    from browser import opened

    with opened(chromium, page) as shown:
        ends = shown.locator(".asked, .headline, .finding > *, .scale, .summary .next").evaluate_all(
            "(all) => all.map((each) => each.getBoundingClientRect().bottom)"
        )
        # Who was asked; the answer; name and verdict of each of three; the axis and what next.
        assert len(ends) >= 2 + 3 * 2 + 2
        assert max(ends) <= 900
