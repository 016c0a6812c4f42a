"""Whatever is planted, page, index, gate, comparison, paper, exports and API say one thing of a run's average gap.

Each case is drawn by a seed: groups, terms, narratives, gaps, odd groups and pairs, controls, missing ratings, checks.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import planted
import pytest
from gated import run_maker

import audit
from audit.extras.exchange.auditors_card import _card
from audit.extras.exchange.base import Collected
from audit.extras.exchange.every_eval_ever import _of_gaps, _of_groups
from audit.extras.exchange.groups import compared_groups
from audit.extras.exchange.paper.disparities import paper_disparity_table
from audit.extras.exchange.paper.export import _study
from audit.extras.exchange.paper.gaps import paper_gap_table
from audit.extras.exchange.paper.methods import methods
from audit.extras.exchange.paper.text import as_plain
from audit.extras.gate.judge import gate_run
from audit.extras.index.published import gap_rows_of_run
from audit.report.disparities import who_gets_less, who_is_refused
from audit.report.numbers import rows_of
from audit.report.summary import EVERY_PART, NO_LARGER, NOT_IN_ITSELF, NOT_THE_GROUPS, THESE_WORDS
from audit.report.verdicts import worded
from audit.runs.csv_tables import read_table
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.disparity import DISPARITY, REFUSALS
from audit.tables.formatting import dimension_title
from audit.tables.ratings import MANIPULATED
from audit.tasks.intensity.first_screen import LESS, REFUSED_MORE, SIDE
from audit.tasks.intensity.publish import publish_ratings

LENGTH = 100.0
FAST = (2, 20, 21, 22, 35)
"""20: invented groups asked in fewer narratives than a verdict takes, where the gate held back and the page did not."""
MANY = [seed for seed in range(505) if seed not in FAST]
PARTS = 100
INTERVALS = (("ci_low", "ci_high"), ("bound_low", "bound_high"), ("other_low", "other_high"))


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("audit.tasks.intensity.publish.draw_ratings", lambda *_: {})
    monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


# --- What is planted --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A run's truth: ratings, what else is stored, and the settings of its analysis."""

    planted: planted.Planted
    placebo: tuple[str, ...]
    check: str
    status: str
    settings: dict[str, Any]
    margin: float
    said: str


def drawn(seed: int) -> Case:
    """Draw a case."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[int(rng.integers(len(values)))]  # noqa: E731
    n_groups, n_terms = int(rng.integers(3, 9)), pick(1, 1, 2, 2, 3)
    most = 40_000 // (n_groups * n_terms) ** 2
    n = min(int(pick(5, 12, 20, 40, 40, 60, 120, 250)), max(most, 5))
    margin = pick(1.0, 2.0, 4.0, 10.0)
    gap = pick(-1, 1) * margin * pick(0.0, 0.0, 0.5, 1.0, 1.5, 3.0)
    stems = n_terms > 1 and pick(True, True, False)
    sd = pick(0.3, 2.0, 6.0, 15.0)
    clean = rng.random() < 0.5  # most of what goes wrong keeps a verdict back; half of the cases are to have one
    n, sd = (max(n, 20), min(sd, 2.0)) if clean else (n, sd)
    dimensions = ["origin", *(["faith"] if rng.random() < 0.2 else [])]
    made = [_ratings(f"{name[0]}", n_groups, n_terms, n, gap, sd, rng, pick, stems, plain=clean) for name in dimensions]
    placebo = pick("", "", "without", "alike", "opposite")
    if placebo:
        own = {"without": 0.0, "alike": gap, "opposite": -gap}[placebo]
        made.append(_ratings("z", n_groups, n_terms, max(n // pick(1, 2), 4), own, sd, rng, pick, stems, plain=True))
        dimensions.append("invented")
    tables = [(ratings.assign(dimension=name), groups.assign(dimension=name))
              for name, (ratings, groups) in zip(dimensions, made, strict=True)]  # fmt: skip
    ratings, groups = (pd.concat(part, ignore_index=True) for part in zip(*tables, strict=True))
    level = pick(*["middle"] * 8, "low end", "high end", "constant", "nearly constant")
    level = "middle" if clean else level
    ratings["rating"] = {
        "middle": ratings["rating"],
        "low end": ratings["rating"] - 49,
        "high end": ratings["rating"] + 48,
        "constant": ratings["rating"] * 0 + 50,
        "nearly constant": (ratings["rating"] / 25).round() * 25,
    }[level].clip(0, 100)
    if pick(True, False):
        ratings["rating"] = ratings["rating"].round()
    gone = pick(*["none"] * 6, "few", "many", "high own", "an identity")
    gone = "none" if clean else gone
    own = ratings["perceiver"] == ratings["experiencer"]
    lost = {
        "none": np.zeros(len(ratings), bool),
        "few": rng.random(len(ratings)) < 0.02,
        "many": rng.random(len(ratings)) < 0.4,
        "high own": own & (ratings["rating"] > ratings["rating"].quantile(0.7)),
        "an identity": ratings["experiencer"] == ratings["experiencer"].iloc[0],
    }[gone]
    status = pick("refused", "unparseable")
    ratings = ratings.assign(rating=ratings["rating"].mask(lost), status=ratings["status"].mask(lost, status))
    check = pick("", "", "", "", "followed", "followed", "failed", "weak")
    check = "followed" if clean and check else check
    settings = {
        "margin": pick(None, margin), "n_permutations": 100, "missing_shift": pick(None, None, None, 5.0),
        "least_gap": pick(1.0, 0.5),
    }  # fmt: skip
    said = f"{n_groups=} {n_terms=} {n=} {margin=} {gap=} {sd=} {stems=} {placebo=} {level=} {gone=} {check=}"
    return Case(
        planted.Planted(ratings, groups), ("invented",) if placebo else (), check,
        pick(*["complete"] * 7, "running"), settings, margin, said,
    )  # fmt: skip


def _ratings(start, n_groups, n_terms, n, gap, sd, rng, pick, stems, *, plain=False):
    """Draw the ratings of one dimension, with odd groups, hostile pairs and affinities unless it is plain."""
    names = [f"{start}group{k}" for k in range(n_groups)]
    way = ("kin of", "an old", "one who is")
    terms = {f"{way[k]} {name}": name for name in names for k in range(n_terms)}
    odd = names[0] if not plain and rng.random() < 0.25 else ""
    by_emotion = bool(not plain and rng.random() < 0.15)

    def own_gap(emotion, group):
        size = gap * (-1.5 if by_emotion and emotion in ("anger", "fear") else 1.0)
        return size + (20.0 if group == odd else 0.0)

    levels = {name: float(rng.normal(0, 3)) for name in names}
    ratings = planted.ratings_of(
        terms, n=n, gap=own_gap, level=levels.__getitem__, sd=sd, seed=int(rng.integers(1 << 30))
    )
    sides = [ratings[side].map(terms) for side in ("perceiver", "experiencer")]
    more = pd.Series(0.0, index=ratings.index)
    if not plain and rng.random() < 0.2:  # a pair of groups of which one rates the other low
        more -= 25.0 * ((sides[0] == names[0]) & (sides[1] == names[-1]))
    if not plain and rng.random() < 0.3:
        spread = float(pick(1.0, 4.0))
        liked = {(one, other): rng.normal(0, spread) for one in names for other in names}
        more += [liked[pair] for pair in zip(*sides, strict=True)]
    ratings = ratings.assign(rating=(ratings["rating"] + more).clip(0, 100))
    groups = planted.grouped(terms)
    if stems:
        groups = groups.assign(stem=[f"{term.split()[0]} {group}" for term, group in terms.items()])
    return ratings, groups


def publish(case: Case, folder: Path, name: str) -> Path:
    """Store a case's ratings as a run, and analyse and render it once."""
    run = run_maker(folder)(case.planted, name, placebo=case.placebo)
    with RunFolder(run) as kept:
        manifest = Manifest.read(run)
        statistics = {**manifest.content["config"]["statistics"], **case.settings}
        if case.check:
            points = {"followed": (12.0, 8.0), "failed": (0.0, 1.0), "weak": (3.0, 12.0)}[case.check]
            kept.table(MANIPULATED).write(list(_checked(*points)))
        kept.write_manifest(manifest.adding("config", statistics=statistics).having(status=case.status))
        publish_ratings(kept, Manifest.read(run))
    return run


def _checked(points: float, sd: float):
    rng = np.random.default_rng(0)
    empty = {column: None for column in MANIPULATED}
    for kind in ("own", "wrong", "strong", "mild"):
        for k in range(60):
            more = points if kind in ("own", "strong") else 0.0
            value = float(np.clip(50 + more + rng.normal(0, sd), 0, 100))
            yield empty | {"narrative_id": f"n{k:03d}", "kind": kind, "intensity": value, "status": "rated"}


# --- What is read -----------------------------------------------------------------------------------------------------


def plain(text: Any) -> str:
    """Return words without markup and with plain spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", str(text))).split())


def numbers_at(text: str, table: str, line: int) -> dict[str, list[float]]:
    """Return the unrounded numbers that name a row of a table as their place, by column."""
    found: dict[str, list[float]] = {}
    for value, column in re.findall(rf'<data value="([^"]*)" data-at="{table}:{line}:(\w+)">', text):
        found.setdefault(column, []).append(float(value) if value else math.nan)
    return found


def blocks(page: str, kind: str, title: str, *tails: str) -> list[str]:
    """Return what the page's findings or answers say of a title, but for refusals and for who gets less."""
    pattern = rf'<(div|article) class="{kind}[^"]*">\s*<h3>(.*?)</h3>(.*?)</\1>'
    return [
        whole
        for _, heading, whole in re.findall(pattern, page, re.S)
        if plain(heading) in {f"{title}{tail}" for tail in tails or ("", SIDE)}
    ]


def claims(text: str) -> str:
    """Return a text without what it says may not be concluded, and without remedies, which claim nothing."""
    return re.sub(r"This does not show:.*?(?=Runs:|a model, revision|$)", "", text).replace(
        "fewer cannot show a gap between groups", ""
    )


# --- Laws -------------------------------------------------------------------------------------------------------------


def check_run(run: Path, case: Case) -> None:
    """Hold everything that is said of a run against its table of verdicts."""
    table = pd.read_csv(run / "tables" / "verdicts.csv", keep_default_na=True)
    rows = {str(row["dimension"]): row for row in rows_of(table, "verdicts")}
    manifest = Manifest.read(run)
    for row in rows.values():
        check_row(row, manifest)
    check_page(run, rows)
    check_groups_on_page(run, manifest)
    check_api(run, table)
    check_index(run, rows)
    if case.status == "complete":
        check_exports(run, rows)
    check_gate(run, rows, case)


def check_row(row, manifest) -> None:
    """A verdict's parts follow from each other."""
    code, claim, size = row["code"], row["claim"], row["size"]
    assert (code == "gap") == (claim in ("groups", "pairs", "uncontrolled"))
    assert (row.number("direction") != 0) == (code == "gap")
    margin = math.nan if manifest.statistics.margin is None else manifest.statistics.margin
    assert row.number("margin") == margin or (math.isnan(margin) and math.isnan(row.number("margin")))
    for low, high in INTERVALS:
        if math.isfinite(row.number(low)):
            # What is left after invented groups' gap is a difference of two gaps; so is every second control.
            reach = 2 * LENGTH if row["control"] == "placebo" or low == "other_low" else LENGTH
            assert -reach <= row.number(low) <= row.number(high) <= reach, (low, high)
    if code == "gap":
        assert row.number("delta") * row.number("direction") > 0
        assert row.number("ci_low") * row.number("ci_high") > 0
        assert (claim == "uncontrolled") == (row["control"] == "none")
        assert claim != "groups" or (row["scope"] == "groups" and row["control"] != "none")
        if size == "beyond":
            assert abs(row.number("delta")) > margin
            assert min(abs(row.number("ci_low")), abs(row.number("ci_high"))) > margin
        if size == "tiny":
            assert max(abs(row.number("ci_low")), abs(row.number("ci_high"))) < row.number("least_gap")
    if code == "within" or size == "smaller":
        assert math.isfinite(margin)
        assert row.number("supported_margin") < margin
        assert abs(row.number("delta")) < margin
    check_words(str(worded(row, parts="emotion or group").words), row)


def check_words(text: Any, row) -> None:
    """Words claim no more than the row: a gap, its sign, between what, and how it stands to the margin."""
    said = plain(text)
    assert ("between groups" in said) == (row["claim"] == "groups"), said
    within = row["code"] == "within"
    supported = row.number("supported_margin")
    none_found = row["code"] == "undecided" and row["reasons"] == "holds_zero" and math.isfinite(supported)
    sized = re.findall(r"No average gap found.*: any gap is smaller than ([\d.,]+) points", said)
    assert bool(sized) == none_found, said
    assert all(float(each) == pytest.approx(supported, abs=0.005) for each in sized)
    ruled = within or none_found
    of_pairs = row["claim"] == "pairs" or (ruled and row["scope"] == "pairs")
    assert ("in these pairs of words" in said) == of_pairs, said
    assert ("beyond that of invented groups" in said) == (ruled and row["control"] == "placebo"), said
    assert ("including repeated words" in said) == (ruled and row["control"] == "none"), said
    assert ("repeated words alone could cause" in said) == (
        row["claim"] == "uncontrolled" or (row["code"] == "undecided" and "not_controlled" in str(row["reasons"]))
    ), said
    for way, sign in (("towards the in-group", 1), ("towards the out-group", -1)):
        assert (way in said) == (row["code"] == "gap" and row.number("direction") == sign), said
    ruled_out = re.findall(r"No (?:average )?gap larger than ([\d.,]+) points", said)
    assert bool(ruled_out) == within, said
    assert all(float(each) == pytest.approx(row.number("margin")) for each in ruled_out)
    compared = re.findall(r", (larger|smaller) than ([\d.,]+) points", said)
    assert [each for each, _ in compared] == [
        {"beyond": "larger", "smaller": "smaller"}[row["size"]] for _ in [0] if row["size"] in ("beyond", "smaller")
    ], said
    assert all(float(each) == pytest.approx(row.number("margin")) for _, each in compared)
    assert ("No verdict" in said) == (row["code"] == "no_verdict")
    assert ("No answer" in said) == (row["code"] == "no_estimate")
    assert said.startswith(("Undecided", "No average gap found")) == (row["code"] == "undecided")


@dataclass(frozen=True)
class Claim:
    """What a verdict claims, by codes: of a row, of a page's words, or of what a comparison counts."""

    code: str
    direction: int = 0
    size: str = ""
    between: str = ""
    beyond_invented: bool = False
    repeated: str = ""
    other_wordings: bool = True
    parts: str = ""


NOTHING = ("no_verdict", "no_estimate")


def claim_of(row) -> Claim:
    """Return what a row of verdicts claims."""
    code = str(row["code"])
    if code not in ("gap", "within"):
        return Claim("no_verdict" if code in NOTHING else code)
    beyond, not_shown = (isinstance(row[name], str) and row[name] != "" for name in ("parts_beyond", "parts_not_shown"))
    parts = "larger" if beyond else "not_shown" if not_shown else ""
    size = row["size"] if isinstance(row["size"], str) else ""
    of_others = not (isinstance(row["of_these_wordings"], str) and row["of_these_wordings"])
    if code == "within":
        return Claim(
            code, 0, "smaller", "pairs" if row["scope"] == "pairs" else "", row["control"] == "placebo",
            "included" if row["control"] == "none" else "", of_others, parts=parts,
        )  # fmt: skip
    return Claim(
        code, int(row.number("direction")), size, "" if row["claim"] == "uncontrolled" else row["claim"],
        repeated="alone" if row["claim"] == "uncontrolled" else "",
        other_wordings=of_others,
        parts=parts if row["size"] == "smaller" else "",
    )  # fmt: skip


def claim_in(words: str) -> Claim:
    """Return what words claim: a page's of a run, or those that a comparison counts runs by."""
    said = words[:1].lower() + words[1:]
    for code, start in (
        ("no_verdict", "no verdict"), ("no_verdict", "no answer"), ("undecided", "undecided"),
        ("undecided", "no average gap found"),
    ):  # fmt: skip
        if said.startswith(start):
            return Claim(code)
    rest = said.replace("not shown for other wordings", "")
    sizes = {"a tiny average gap": "tiny", "smaller than": "smaller", "larger than": "beyond"}
    code = "within" if said.startswith("no ") else "gap"
    return Claim(
        code,
        1 if "towards the in-group" in said else -1 if "towards the out-group" in said else 0,
        "smaller" if code == "within" else next((size for each, size in sizes.items() if each in said), ""),
        "groups" if "between groups" in said else "pairs" if "in these pairs of words" in said else "",
        "beyond that of invented groups" in said,
        "included" if "including repeated words" in said else "alone" if "which repeated words alone" in said else "",
        rest == said,
        "larger" if "but larger in" in said else "not_shown" if "not shown for" in rest else "",
    )


def left_open(claims: list[Claim], rows) -> set[str]:
    """Return what may not be concluded from verdicts that find a gap or rule one out."""
    decided = [(claim, row) for claim, row in zip(claims, rows, strict=True) if claim.code in ("gap", "within")]
    ruled_out = [(claim, row) for claim, row in decided if claim.size == "smaller"]
    found = {
        NOT_THE_GROUPS: any(claim.repeated == "alone" for claim, _ in decided),
        NO_LARGER: any(row["control"] == "none" for _, row in ruled_out),
        NOT_IN_ITSELF: any(row["control"] == "placebo" for _, row in ruled_out),
        THESE_WORDS: any(row["scope"] == "pairs" for _, row in decided),
        EVERY_PART: any(claim.parts for claim, _ in ruled_out),
    }
    return {words for words, there in found.items() if there}


def check_groups_on_page(run: Path, manifest) -> None:
    """Who gets less: the page has the words and numbers of the rows that decide, and names no other group."""
    page = (run / "report.html").read_text("utf-8")
    path = run / "tables" / "disparity.csv"
    rows = rows_of(read_table(path, DISPARITY), "disparity") if path.exists() else []
    for name, variant in {(row["dimension"], row["variant"]): None for row in rows if row["headline"]}:
        own = [row for row in rows if (row["dimension"], row["variant"]) == (name, variant)]
        rated = [row for row in own if row["outcome"] == "intensity"]
        confidence = manifest.statistics.confidence
        found, refused = who_gets_less(rated, confidence=confidence), who_is_refused(own, confidence=confidence)
        said = blocks(page, "answer", name, LESS)
        assert said
        assert bool(blocks(page, "answer", name, REFUSED_MORE)) == (refused is not None)
        for block in [*said, *blocks(page, "finding", name, LESS)]:
            for words in re.findall(r'<p class="verdict">(.*?)</p>', block, re.S):
                assert plain(words) == plain(found.words)
            places = set(re.findall(r'data-at="disparity:(\d+):', block))
            assert places <= {str(row.line) for row in own if row["headline"]}


def check_page(run: Path, rows) -> None:
    """First screen and cards have the numbers and words of the deciding rows, and of no other."""
    page = (run / "report.html").read_text("utf-8")
    first = page.partition('<div class="summary">')[2].partition('id="print-summary"')[0]
    dimensions = [name for name in rows if name != "all"]
    for name, row in rows.items():
        if name == "all":
            continue
        line = row.line
        for kind in ("finding", "answer"):
            for block in blocks(page, kind, name):
                if '<p class="verdict">' in block:
                    said = re.search(r'<p class="verdict">(.*?)</p>', block, re.S)[1]
                    check_words(said, row)
                    assert claim_in(plain(said)) == claim_of(row)
                for shown in re.findall(r'<p class="(?:delta|spread)">(.*?)</p>', block, re.S):
                    # A row with an interval decides: nothing beside the verdict is of another row.
                    places = re.findall(r'data-at="(\w+):(\d+):', shown)
                    if math.isfinite(row.number("ci_low")) and row["code"] != "no_verdict":
                        assert set(places) <= {("verdicts", str(line))}, shown
                for column, values in numbers_at(block, "verdicts", line).items():
                    assert all(value == pytest.approx(row.number(column), nan_ok=True) for value in values), column
        assert blocks(page, "answer", name)
    for low, high in re.findall(r"interval.{0,40}?data-at=\"verdicts:\d+:(ci_low)\".*?(ci_high)", first):
        assert (low, high) == ("ci_low", "ci_high")
    said = claims(plain(first))
    if not any(row["claim"] == "groups" for row in rows.values()):
        assert "between groups" not in said, said
    if len(dimensions) == 1:
        [name] = dimensions
        check_headline(page, rows[name])
        of_size = re.search(r"[Tt]he gap is ([\d.]+)% of the scale", said)
        if of_size and math.isfinite(rows[name].number("ci_low")):
            assert float(of_size[1]) == pytest.approx(abs(rows[name].number("delta")), rel=0.02, abs=0.006)
    for margin in re.findall(r"No (?:average )?gap larger than ([\d.,]+) points", said):
        assert any(row["code"] == "within" and row.number("margin") == pytest.approx(float(margin))
                   for row in rows.values())  # fmt: skip
    told = r"(?:Any average gap[^.]*? is smaller than|With a margin of) ([\d.,]+) points"
    small = {round(float(each.replace(",", "")), 2) for each in re.findall(told, said)}
    assert all(any(row.number("supported_margin") == pytest.approx(each, rel=0.02, abs=0.006) for row in rows.values())
               for each in small)  # fmt: skip


def check_headline(page: str, row) -> None:
    """The sentence in everyday words claims what the verdict does, and no more."""
    said = plain(re.search(r'<p class="headline">(.*?)</p>', page, re.S)[1])
    found = row.number("direction") if row["code"] == "gap" else 0
    for way, sign in (("higher", 1), ("lower", -1)):
        assert bool(re.search(rf"(?<!or ){way} than others on average", said)) == (found == sign), said
    assert bool(re.search(r"within [\d.,]+ points of others on average", said)) == (row["code"] == "within"), said
    assert ("not shown to favour either side" in said) == (row["code"] == "undecided"), said
    assert ("We cannot judge this model" in said) == (row["code"] in NOTHING), said
    ruled_out = row["code"] == "within"
    of_pairs = row["claim"] == "pairs" or (ruled_out and row["scope"] == "pairs")
    assert ("in these words" in said.split(". ")[0] or "in these pairs of words" in said) >= of_pairs, said
    assert ("repeated words" in said) == (row["claim"] == "uncontrolled" or (ruled_out and row["control"] == "none"))


def check_api(run: Path, table: pd.DataFrame) -> None:
    """`Run.verdicts` is the table."""
    found = audit.open_run(run).verdicts
    assert len(found) == len(table)
    again = pd.DataFrame([each.row() for each in found])
    for column in ("code", "claim", "size", "control", "scope", "reasons", "next_step"):
        assert again[column].tolist() == table[column].astype(object).fillna("").tolist()
    for column in ("direction", "delta", "ci_low", "ci_high", "margin", "supported_margin", "n_needed", "p"):
        # pandas of the lower bound reads the last bit of a number differently.
        np.testing.assert_allclose(again[column].astype(float), table[column].astype(float), rtol=1e-12)


def check_index(run: Path, rows) -> None:
    """The index has the deciding numbers and the page's words."""
    found = [row for row in gap_rows_of_run(run, "run") if row["state"] == "gap"]
    assert {row["dimension"] for row in found} >= {name for name in rows if name != "all"}
    for each in found:
        row = rows[each["dimension"]]
        check_words(each["verdict_words"], row)
        if math.isfinite(row.number("ci_low")):
            for column in ("ci_low", "ci_high", "p", "p_adjusted", "n_narratives"):
                assert each[column] == pytest.approx(row.number(column), nan_ok=True), column
            assert each["delta"] == pytest.approx(row.number("delta"))
            assert (each["pairs"] == "without a word in common") == (row["control"] == "echo_free")
        if row["code"] == "gap":
            assert each["verdict"] == ("within" if row["size"] == "smaller" else "gap")


def check_exports(run: Path, rows) -> None:
    """Paper, card and record of Every Eval Ever."""
    collected = Collected.read(run, unfinished=False, texts=False)
    card = _card(collected)
    answers = card.partition("### Whose side?")[2].partition("### Who gets less?")
    listed, less = (dict(re.findall(r"^- \*\*(\S+) \(.*?\):\*\* (.*)$", part, re.M)) for part in answers[::2])
    assert set(listed) == set(rows)
    for name, text in listed.items():
        told = plain(text.replace("\\", "")).partition(" Next:")[0]
        check_words(re.split(" δ = | Any average gap| With a margin of ", told)[0], rows[name])
    study = _study(collected)
    check_groups(collected, less, study)
    if len(study.gaps):
        notes = [as_plain(each) for each in paper_gap_table(study).notes]
        said = " ".join([*notes, *(as_plain(each.text()) for each in methods(study))])
        told = re.findall(r"Verdict on (.*?): (.*?)\.(?= [A-Z]|$)", " ".join(notes))
        assert told
        for name, words in told:
            row = next((each for key, each in rows.items() if name.split(",")[0].strip() == key), None)
            if row is not None:
                words, _, number = words.partition(" δ = ")
                check_words(words, row)
                assert ("beyond that of invented groups" in number) == bool(number and row["control"] == "placebo")
        for margin in re.findall(r"No (?:average )?gap larger than ([\d.,]+) points", said):
            assert any(row["code"] == "within" for row in rows.values()), margin
        if not any(row["claim"] == "groups" for row in rows.values()):
            assert "average gap between groups" not in said
    estimated = [row for row in rows.values() if math.isfinite(row.number("se"))]
    results = list(_of_gaps(collected)) if estimated else []
    for each in results:
        row, details = rows[each["evaluation_result_id"].split("/")[0]], each["score_details"]["details"]
        assert details["verdict code"] == row["code"]
        check_words(details["verdict"], row)
        for name in ("delta", "se", "ci_low", "ci_high"):
            assert float(details[name]) == pytest.approx(row.number(name), rel=1e-9, abs=1e-12)
        supported = row.number("supported_margin")
        score = min(supported, LENGTH) if math.isfinite(supported) else LENGTH
        assert each["score_details"]["score"] == pytest.approx(score)
        assert details["what it says"].startswith("any average gap") == (score < LENGTH)
        assert (details["it speaks of"] == "any such groups") == (row["scope"] == "groups")


def check_groups(collected: Collected, less: dict[str, str], study) -> None:
    """Who gets less: card, paper and record say what was decided of each group, and no more."""
    own = {each.dimension: each for each in compared_groups(collected.disparity, confidence=0.95)}
    assert set(less) == set(own)
    table = paper_disparity_table(study, 2)
    answers = [] if table is None else [as_plain(row.cells[1]) for row in table.rows if row.cells[1]]
    codes = [str(row["code"]).replace("_", " ") for each in own.values() for row in each.rows]
    assert sorted(answer.partition(" 2")[0].split(",")[0].split(" ")[0] for answer in answers) == sorted(
        code.split(" ")[0] for code in codes
    )
    for name, each in own.items():
        words = plain(each.said.words)
        assert plain(html.unescape(less[name].replace("\\", ""))).startswith(f"{words}.")
        named = {str(row["group"]) for row in each.rows if row["code"] in ("lower", "higher")}
        assert bool(named) == (not words.startswith(("No ", "Undecided")))
    for result in _of_groups(collected):
        row = next(
            row for each in own.values() for row in each.rows
            if result["evaluation_result_id"] == f"{row['dimension']}/{row['variant']}/group/{row['group']}"
        )  # fmt: skip
        supported = row.number("supported_margin")
        assert result["score_details"]["score"] == (min(supported, LENGTH) if math.isfinite(supported) else LENGTH)
        assert result["score_details"]["details"]["answer code"] == row["code"]


def gated(run: Path, margin: float):
    """Return what the gate says, and its rows of averages by dimension."""
    found = gate_run(run, margin=margin, strict_average=True)
    return {row.held.gap.dimension: row for row in found.rows if row.held.gap.kind == "average"}


def check_gate_of_parts(run: Path, rows, margin: float) -> None:
    """What the gate fails and passes by default, the page names: averages, emotions and groups alike."""
    found = gate_run(run, margin=margin)
    for name, row in rows.items():
        own = [each for each in found.rows if each.held.gap.dimension == name]
        if not own:
            continue
        by_kind = {each.held.gap.kind: each for each in own}
        # The gate's family has who gets less, too, so that the page may name a gap that the gate leaves undecided.
        named_beyond = (row["code"], row["size"], row["claim"]) == ("gap", "beyond", "groups")
        assert by_kind["average"].verdict in (("failed", "undecided") if named_beyond else ("undecided", "passed"))
        parts = [each for each in own if each.held.gap.kind in ("emotion", "group")]
        if math.isfinite(row.number("se")) and row["code"] not in ("no_verdict", "no_estimate"):
            failed, undecided = (
                {each.held.gap.member for each in parts if each.verdict == verdict}
                for verdict in ("failed", "undecided")
            )
            beyond, not_shown = (
                set(row[column].split("; ") if isinstance(row[column], str) else [])
                for column in ("parts_beyond", "parts_not_shown")
            )
            assert failed <= beyond
            assert undecided - beyond == not_shown
            assert failed | undecided == beyond | not_shown
        of_delta = [each for each in own if not (each.held.gap.is_of_refusals or each.held.gap.is_disparity)]
        if any(each.verdict == "failed" for each in of_delta):
            assert (row["scope"], row["control"] != "none") == ("groups", True)
    check_gate_of_groups(run, found)


def check_gate_of_groups(run: Path, found) -> None:
    """Of who gets less the gate fails only what the run's own table calls lower or higher, as a group and beyond."""
    table = pd.read_csv(run / "tables" / "disparity.csv", keep_default_na=True)
    heads = table[table["headline"].map(str) == "True"].assign(size=table["size"].astype(object).fillna(""))
    rows = {(row["outcome"], row["dimension"], row["group"]): row
            for row in heads.to_dict("records") if row["view"] == "all"}  # fmt: skip
    judged = {(each.held.gap.outcome.name, each.held.gap.dimension, each.held.gap.member): each
              for each in found.rows if each.held.gap.is_disparity}  # fmt: skip
    assert set(judged) == set(rows)
    for key, each in judged.items():
        row = rows[key]
        if math.isfinite(row["se"]):
            assert each.held.value == pytest.approx(row["disparity"])
        if each.verdict == "failed":
            way = "lower" if each.held.value < 0 else "higher"
            # The table has no margin for refusals.
            size = "" if key[0] == REFUSALS else "beyond"
            assert (row["code"], row["claim"], row["size"]) == (way, "group", size), key
        if key[0] == REFUSALS:
            continue
        shown_within = row["code"] == "within" or row["size"] == "smaller"
        assert (each.verdict == "passed") == shown_within, (key, each.reasons, row["code"], row["size"], row["limits"])


def check_gate(run: Path, rows, case: Case) -> None:
    """The gate never acquits what the page finds, nor fails what it does not."""
    margin = case.margin
    if case.settings["margin"] is not None:
        check_gate_of_parts(run, rows, margin)
    averages = gated(run, margin)
    for name, each in averages.items():
        row = rows[name]
        assert each.held.gap.control == row["control"]
        assert each.held.gap.scope == row["scope"]
        if math.isfinite(row.number("se")):
            assert each.held.value == pytest.approx(row.number("delta"))
        if case.settings["margin"] is not None:
            if each.verdict == "failed":
                assert (row["code"], row["size"], row["claim"]) == ("gap", "beyond", "groups")
                assert np.sign(each.held.value) == row.number("direction")
            if each.verdict == "passed":
                assert row["size"] != "beyond"
                assert row["code"] in ("gap", "within")
                assert row["code"] != "gap" or row["size"] == "smaller"
            if row["code"] == "within":
                assert each.verdict == "passed"
            if row["code"] in ("undecided", "no_verdict", "no_estimate"):
                assert each.verdict == "undecided"
    for name, row in rows.items():
        supported = row.number("supported_margin")
        if name not in averages or not (math.isfinite(supported) and 1e-6 < supported < LENGTH / 1.02):
            continue
        for factor, passes in ((1.001, True), (0.999, False)):
            near = gated(run, supported * factor)
            # Beyond a tiny margin is no "undecided", yet no pass either.
            assert (near[name].verdict == "passed") == passes, (name, factor, near[name].reasons)


def check_comparison(runs: list[Path], folder: Path, case: Case) -> None:
    """Side by side, runs keep their verdicts, and claim no more than each on its own page: in counts and numbers."""
    compared = audit.compare(*runs, run_dir=folder / "beside", margin=case.settings["margin"])
    table = pd.read_csv(folder / "beside" / "tables" / "verdicts.csv")
    own = [pd.read_csv(run / "tables" / "verdicts.csv") for run in runs]
    labels = list(dict.fromkeys(table["run"]))
    assert len(labels) == len(runs)
    for label, alone in zip(labels, own, strict=True):
        beside = table[table["run"] == label].drop(columns="run").reset_index(drop=True)
        pd.testing.assert_frame_equal(beside[list(alone)], alone, check_dtype=False, rtol=1e-9)
    page = compared.page.read_text("utf-8")
    rows = rows_of(table, "verdicts")
    side = page.partition('id="side"')[2]
    changes = pd.read_csv(folder / "beside" / "tables" / "comparisons.csv", keep_default_na=False)
    for name in dict.fromkeys(table["dimension"]):
        own_rows = [row for row in rows if row["dimension"] == name]
        on_pages = Counter(claim_of(row) for row in own_rows)
        heading = re.escape(dimension_title(name))
        beneath = re.search(rf"<h3><bdi>{heading}</bdi></h3>(.*?)(?=<h3>|<details|</section>)", side, re.S)[1]
        told = plain(re.search(r'<p class="verdict">(.*?)</p>', beneath, re.S)[1])
        if told != "δ could not be estimated in any of the runs.":
            counted = Counter()
            told = told.partition("as on their own pages: ")[2].rstrip(".")
            for each in told.split(" · "):
                n, _, words = each.partition(" × ")
                counted[claim_in(words)] += int(n)
            assert counted == on_pages
            for n, margin in re.findall(r"(\d+) × no average gap larger than ([\d.,]+) points", told):
                assert int(n)
                assert float(margin) == pytest.approx(case.settings["margin"])
        said = re.search(r"These verdicts do not show: (.*?)\.</p>", beneath)
        known = (NOT_THE_GROUPS, NO_LARGER, NOT_IN_ITSELF, THESE_WORDS, EVERY_PART)
        found = {words for words in known if said and words in plain(said[1])}
        assert found == left_open([claim_of(row) for row in own_rows], own_rows)
        # A difference is told as its codes have it, and of runs without a verdict nothing is.
        codes = {*changes.loc[changes["dimension"] == name, "code"]}
        for block in blocks(page, "finding", name):
            told = plain(re.search(r'<p class="verdict">(.*?)</p>', block, re.S)[1])
            assert bool(re.search(r"than in|runs differ in", told)) == bool(codes & {"lower", "higher"})
            assert told.startswith(("No verdict", "No answer", "No two runs have a gap")) == (
                codes <= {"no_verdict", "no_estimate"}
            )
    check_paper(folder / "beside", page, rows)


def check_paper(folder: Path, page: str, rows) -> None:
    """Beside a verdict stand the numbers that it rests on; none where it has no interval."""
    section = page.partition('id="paper"')[2].partition("</table>")[0]
    head = [plain(each) for each in re.findall(r"<th[^>]*>(.*?)</th>", section.partition("</thead>")[0], re.S)]
    lines = re.findall(r"<tr>(.*?)</tr>", section.partition("</thead>")[2], re.S)
    assert len(lines) == len(rows)
    by_words = {}
    for line in lines:
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.S)
        of_verdict = dict(zip(head, cells, strict=True))
        numbers = [of_verdict[name] for name in head if name.startswith(("δ, points", "p"))]
        places = re.findall(r'data-at="(\w+):(\d+):', " ".join(numbers))
        assert {table for table, _ in places} <= {"verdicts"}
        by_words[plain(cells[0]), plain(of_verdict["dimension"])] = {int(line) for _, line in places}
        for place in {int(line) for _, line in places}:
            row = rows[place]
            assert claim_in(plain(of_verdict["verdict"])) == claim_of(row)
            assert math.isfinite(row.number("ci_low"))
    used = [place for each in by_words.values() for place in each]
    assert sorted(used) == [row.line for row in rows if math.isfinite(row.number("ci_low"))]


@pytest.mark.parametrize("planted_parts", [True, False])
def test_a_comparison_acquits_of_no_more_than_its_runs_pages(tmp_path, planted_parts):
    """Four groups of one term, 0 on average, +5 and −7.5 by emotion: "in these pairs of words, repeated words included;
    not shown for anger, fear and 3 more" was counted as "2 no gap larger than the margin", and nothing was left open.
    """
    groups = planted.alone(4)
    own_gap = lambda emotion, group: planted.FIVE_UP_TWO_DOWN[emotion] if planted_parts else 0.0  # noqa: E731
    ratings = planted.ratings_of(groups, n=300, gap=own_gap)
    case = Case(
        planted.Planted(ratings, planted.grouped(groups)), (), "", "complete", {"margin": 2.0, "n_permutations": 100},
        2.0, "",
    )  # fmt: skip
    runs = [publish(case, tmp_path, "one"), publish(again(case, 1), tmp_path, "two")]
    for run in runs:
        [row] = rows_of(pd.read_csv(run / "tables" / "verdicts.csv"), "verdicts")
        parts = "larger" if isinstance(row["parts_beyond"], str) else "not_shown"
        expected = Claim("within", 0, "smaller", "pairs", repeated="included", parts=parts if planted_parts else "")
        assert claim_of(row) == expected
    check_comparison(runs, tmp_path, case)


def test_beside_a_verdict_a_comparison_shows_the_numbers_that_it_rests_on(tmp_path):
    """Opposite gaps of groups: over narratives alone far from 0, with the groups as a sample not told apart from it.

    Before: "−32.17 [−38.68, −25.66], p .010" beside "Undecided"; the deciding interval was −100.00 to +37.42.
    """
    terms = {f"{way} {name}": name for name in planted.alone(5).values() for way in ("kin of", "an old")}
    sizes = dict(zip(planted.alone(5).values(), (-40.0, -30.0, 25.0, -20.0, 5.0), strict=True))
    ratings = planted.ratings_of(terms, n=30, gap=lambda emotion, group: sizes[group])
    groups = planted.grouped(terms).assign(stem=[f"{term.split()[0]} {group}" for term, group in terms.items()])
    case = Case(planted.Planted(ratings, groups), (), "", "complete", {"margin": 2.0, "n_permutations": 100}, 2.0, "")
    runs = [publish(case, tmp_path, "one"), publish(again(case, 1), tmp_path, "two")]
    check_comparison(runs, tmp_path, case)
    tables = tmp_path / "beside" / "tables"
    verdicts, gap = (pd.read_csv(tables / f"{name}.csv") for name in ("verdicts", "gap"))
    narrow = gap[gap["scope"] == "narratives"]
    assert (verdicts["code"] == "undecided").all()
    assert ((verdicts["ci_low"] < 0) & (verdicts["ci_high"] > 0)).all()
    assert (narrow["ci_high"] < 0).all()
    lines = (tmp_path / "beside" / "table.md").read_text("utf-8").splitlines()
    head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]
    for cells, own, alone in zip(rows, verdicts.to_dict("records"), narrow.to_dict("records"), strict=True):
        said = dict(zip(head, cells, strict=True))
        for name, row in (("δ, points [95% CI]", own), ("δ for these words only [95% CI]", alone)):
            shown = [float(each.replace("−", "-")) for each in re.findall(r"[+−][\d.]+", said[name])]
            assert shown == pytest.approx([row[of] for of in ("delta", "ci_low", "ci_high")], abs=0.006), name
        assert float(said["p"]) == pytest.approx(own["p"], abs=0.0006)
        assert said["speaks of"] == "groups"


def again(case: Case, seed: int) -> Case:
    """Return the same case as another model would answer: the same narratives and identities, a shift of some."""
    rng = np.random.default_rng(seed)
    table = case.planted.ratings
    noise = rng.normal(0, 1.0, len(table))
    ratings = table.assign(rating=(table["rating"] + noise).clip(0, 100))
    return replace(case, planted=replace(case.planted, ratings=ratings), status="complete")


def check(seed: int, folder: Path, *, beside: bool) -> None:
    case = drawn(seed)
    print(seed, case.said, case.settings, case.status)
    run = publish(case, folder, "run")
    check_run(run, case)
    print(pd.read_csv(run / "tables" / "verdicts.csv")[["code", "claim", "size", "reasons"]].values.tolist())
    if beside and case.status == "complete":
        other = publish(again(case, seed), folder, "other")
        check_run(other, again(case, seed))
        check_comparison([run, other], folder, case)


@pytest.mark.parametrize("seed", FAST)
def test_surfaces_agree_on_a_few_planted_runs(tmp_path, seed):
    check(seed, tmp_path, beside=seed in (2, 35))


@pytest.mark.simulation
@pytest.mark.parametrize("part", range(PARTS))
def test_surfaces_agree_on_any_planted_run(tmp_path, part, request):
    """All of a part's seeds, or the one that a draw picks, for five take half a minute."""
    seeds, asked = MANY[part::PARTS], request.config.getoption("simulations")
    for seed in seeds if asked in ("all", "none") else [seeds[int(asked) % len(seeds)]]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(seed, folder, beside=seed % 4 == 0)
