import base64
import copy
import hashlib
import math
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest

from audit.report.echo import NOT_CONTROLLED
from audit.report.numbers import rows_of
from audit.report.results import Results
from audit.report.table_layout import IfKnown, ShownTable, lay_out
from audit.runs.manifest import Manifest, ManifestError
from audit.statistics.verdict import Code, Verdict
from audit.tables.cells import CELLS
from audit.tables.formatting import BEYOND, interval, points
from audit.tables.gap import GAP
from audit.tables.ratings import OUTCOMES
from audit.tables.replies import EPITOME
from audit.tables.run_of_ratings import TABLES
from audit.tasks.intensity.page import render_report
from stimuli.words import capital

SVG = b'<?xml version="1.0"?><svg width="360pt" height="270pt" xmlns="http://www.w3.org/2000/svg"></svg>'
ATTACK = "<script>alert(1)</script>"
TERMS = [("a Hindu", "Hindu"), ("a Muslim", "Muslim"), ("a person", "unspecified")]
MANIFEST: dict[str, Any] = {
    "schema_version": 1,
    "command": "python -m audit run model=smollm2",
    "started": "2026-11-21T14:02:11+00:00",
    "finished": "2026-11-21T15:40:02+00:00",
    "config": {"model": {"name": "smollm2"}, "statistics": {"confidence": 0.95}},
    "seed": 20250301,
    "model": {
        "name": "SmolLM2-135M",
        "path": "/models/smollm2",
        "revision": "12fd25f",
        "files": {"model.safetensors": "5af571cb"},
        "dtype": "float32",
    },
    "engine": {"name": "vllm", "version": "0.32.0", "device": "cpu"},
    "elicitation": {"method": "expected"},
    "scale": {"low": 0, "high": 100, "low_label": "not at all", "high_label": "extremely"},
    "stimuli": {"source": "geneva", "n_narratives": 408, "emotions": ["sad", "tense"], "sha256": "f2ca1bb6"},
    "prompt": {"variant": "origin", "sha256": "0a4d55a8"},
    "dimensions": ["religion"],
    "counts": {"rated": 3672, "refused": 0, "unparseable": 0, "failed": 0, "total": 3672},
    "timings": {"load_s": 11.832161, "elicit_s": 703.2, "prompts_per_s": 5.2219},
    "versions": {"empathy-audit": "0.1.0", "numpy": "2.3.5"},
    "hardware": {"cpus": 2},
    "example_prompt": {"system": "You are a Muslim.", "user": 'A Hindu says: "My sister was late."'},
}


@dataclass(frozen=True)
class Note:
    dimension: str
    variant: str
    code: str
    text: str


def row_of(table: str, **values: object) -> dict[str, object]:
    """Make a row of religion in the variant origin; what is not said is NaN, and there is no note."""
    known = {"dimension": "religion", "variant": "origin", "note": "", "partner": ""}
    named = {name: value for name, value in known.items() if name in TABLES[table]}
    return dict.fromkeys(TABLES[table], math.nan) | named | values


def gap_row(**values: object) -> dict[str, object]:
    contrast = {
        "estimator": "contrast",
        "scope": "narratives",
        "headline": True,
        "delta": 0.494,
        "se": 0.187,
        "df": 407.0,
        "ci_low": 0.124,
        "ci_high": 0.863,
        "p": 0.0118,
        "d_z": 0.131,
        "n_narratives": 408,
        "n_narratives_asked": 408,
        "n_answers": 1632,
        "n_missing": 0,
    }
    return row_of("gap", **(contrast | values))


def wider_row(**values: object) -> dict[str, object]:
    return gap_row(scope="narratives_and_terms", df=4, ci_low=0.02, ci_high=0.97, p=0.044, d_z=math.nan) | values


def left_out(*gaps: float, **values: object) -> list[dict[str, object]]:
    return [row_of("leave_one_out", group=f"g{k}", delta=gap, **values) for k, gap in enumerate(gaps)]


def published_row(**values: object) -> dict[str, object]:
    nothing = dict.fromkeys(["delta", "se", "df", "ci_low", "ci_high", "p", "d_z"], math.nan)
    return gap_row(
        estimator="published", scope=None, headline=False, **nothing, delta_z=0.61, null_low=-0.94, null_high=1.02,
        note="10,000 random shuffles",
    ) | values  # fmt: skip


def cell_rows(terms: list[tuple[str, str]] = TERMS, **values: object) -> list[dict[str, object]]:
    rows = []
    for row, (perceiver, p_group) in enumerate(terms):
        for column, (experiencer, e_group) in enumerate(terms):
            baseline = "unspecified" in (p_group, e_group)
            named = {
                "dimension": "religion",
                "variant": "origin",
                "perceiver": perceiver,
                "experiencer": experiencer,
                "perceiver_group": p_group,
                "experiencer_group": e_group,
                "in_group": None if baseline else p_group == e_group,
                "mean": 60.0 + row + 3 * column,
                "n_prompts": 408,
                "n_rated": 408,
            }
            rows.append(dict.fromkeys(CELLS, 0) | named | values)
    return rows


def outcome_rows(**values: object) -> list[dict[str, object]]:
    return [
        dict.fromkeys(OUTCOMES, 0)
        | {"dimension": "religion", "variant": "origin", "pairs": pairs, "n_prompts": 816, "n_rated": 816}
        | {"mean_number_mass": 0.0734}
        | values
        for pairs in ("in_group", "out_group")
    ]


def verdict_row(code: Code = "undecided", **values: Any) -> dict[str, object]:
    """Make the row of a verdict on religion in the variant origin."""
    return Verdict(**({"dimension": "religion", "variant": "origin", "code": code} | values)).row()


def verdict_on(gap: dict[str, Any]) -> dict[str, object]:
    """Make the row of what one gap without a control comes to, without a margin."""
    numbers = {name: gap[name] for name in ("dimension", "variant", "delta", "ci_low", "ci_high", "p")}
    if not math.isfinite(gap["ci_low"]):
        return verdict_row("no_estimate", reasons=("no_interval",), **numbers)
    if gap["ci_low"] <= 0 <= gap["ci_high"]:
        return verdict_row("undecided", reasons=("holds_zero",), next_step="margin", **numbers)
    sign = 1 if gap["delta"] > 0 else -1
    return verdict_row("gap", claim="uncontrolled", direction=sign, reasons=("not_controlled",), **numbers)


def judged_row(kind: str, member: str, outcome: str, *reasons: str, delta: float, margin: float = 0.0):
    found = {"kind": kind, "member": member, "outcome": outcome, "reasons": "; ".join(reasons), "margin": margin}
    return row_of("judged", **found, delta=delta, low=delta - 0.5, high=delta + 0.5)


def tables(**replaced: list[dict[str, object]]) -> dict[str, pd.DataFrame]:
    rows = {"gap": [gap_row(), published_row()], "cells": cell_rows(), "outcomes": outcome_rows()} | replaced
    decided = [verdict_on(row) for row in rows["gap"] if row["headline"] and row["scope"] == "narratives"]
    rows = {"verdicts": decided} | rows
    return {name: pd.DataFrame(rows.get(name, []), columns=list(columns)) for name, columns in TABLES.items()}


FIGURES = {"gaps": SVG, "cells-religion-origin": SVG, "interaction-religion-origin": SVG}


def render(**given: Any) -> str:
    parts = {"manifest": MANIFEST, "tables": tables(), "figures": FIGURES} | given
    return render_report(**(parts | {"manifest": Manifest.of(parts["manifest"])}))


class Page(HTMLParser):
    """Tags with their attributes, and the text that is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.shown: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        if tag == "table":
            self.tables[dict(attrs)["aria-label"] or ""] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if not {"style", "script"} & {*self.open}:
            self.shown.append(text)
        if {"th", "td"} & {*self.open}:
            self.rows[-1][-1] += text.replace("\N{NO-BREAK SPACE}", " ")

    @property
    def rows(self) -> list[list[str]]:
        """Rows of the table that is being read."""
        return list(self.tables.values())[-1]

    @property
    def text(self) -> str:
        return " ".join("".join(self.shown).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def text_of(**given: Any) -> str:
    return Page(render(**given)).text


def table_of(caption: str, **given: Any) -> list[list[str]]:
    """Return the cells of the one table whose caption begins so, its head first."""
    [rows] = [rows for label, rows in Page(render(**given)).tables.items() if caption in label]
    return rows


def test_answer_has_gap_interval_p_and_counts() -> None:
    text = text_of()
    assert (
        f"{capital(BEYOND)}, in-group experiencers were on average rated 0.49 points higher than out-group ex" in text
    )
    assert "δ = +0.49 points on the 0–100 scale (95% interval +0.12 to +0.86; p = .012)" in text
    assert "from 408 narratives and 1,632 ratings." in text
    assert "prompts between these identities gave a rating." in text
    covers = "This interval covers narratives like these, and exactly these identities: a Hindu, a Muslim."
    assert f"These identities. {covers}" in text


def test_interval_that_includes_zero_is_no_claim_of_no_bias() -> None:
    text = text_of(tables=tables(gap=[gap_row(delta=0.12, ci_low=-0.2, ci_high=0.44, p=0.4)]))
    assert "The data are compatible with no average gap. Average gaps from −0.20 to +0.44 points are possible." in text
    assert "rated 0.12" not in text
    for overclaim in ("unbiased", "debiased", "no bias", "solved", "fair"):
        assert overclaim not in text


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_that_decides_stands_beside_the_verdict_whatever_other_tables_say(level: float) -> None:
    """The two one-sided tests go by a narrower interval: on the first screen there is one level."""
    row = gap_row(delta=0.1, ci_low=-0.09, ci_high=0.29, p=0.3)
    tost = equivalence_row(margin=0.25, largest_gap=0.24, verdict="no gap larger than the margin", level=2 * level - 1)
    found = verdict_row(reasons=("margin_open",), delta=0.12, ci_low=-0.11, ci_high=0.35, margin=0.25,
                        supported_margin=0.33)  # fmt: skip
    manifest = MANIFEST | {"config": {"statistics": {"confidence": level}}}
    given = tables(gap=[row], equivalence=[tost], verdicts=[found])
    page = Page(render(manifest=manifest, tables=given)).text
    screen = page[: page.index("Evidence: whose side?")]
    assert f"Undecided at a margin of 0.25 points +0.12 points {100 * level:.0f}% interval −0.11 to +0.35" in screen
    assert "No average gap" not in screen
    assert set(re.findall(r"(\d+)% (?:t )?interval", screen)) == {f"{100 * level:.0f}"}
    assert (
        "Any average gap in these pairs of words is smaller than 0.33 points, including repeated words, even if" in page
    )
    assert "0.24 points" not in page


@pytest.mark.parametrize(
    ("control", "scope", "how"),
    [
        ("placebo", "pairs", " It subtracts the gap of invented groups."),
        ("echo_free", "groups", " Its interval also counts how much δ differs between groups."),
        (
            "placebo",
            "groups",
            " It subtracts the gap of invented groups. Its interval also counts how much δ differs between groups.",
        ),
        ("none", "pairs", ""),
    ],
)
def test_where_a_verdict_rests_on_another_estimate_the_gap_over_narratives_alone_is_called_so(
    control: str, scope: str, how: str
) -> None:
    others = verdict_row(delta=0.3, ci_low=-0.1, ci_high=0.7, control=control, scope=scope)
    text = text_of(tables=tables(gap=[gap_row()], verdicts=[others]))
    said = "For these words only, δ = +0.49 points on the 0–100 scale (95% interval +0.12 to +0.86; p = .012)"
    rest = text.partition(f"{said}, from ")[2]
    assert f" The verdict uses +0.30 points (95% interval −0.10 to +0.70).{how} " in rest
    assert "The interval of δ (for these words only) covers narratives like these, and exactly these identi" in rest
    assert "What each verdict rests on: δ with its 95% interval, in points of the 0–100 scale." in text
    assert "these identities, for these words only" in text
    assert "“For these words only”: the verdict uses another estimate, which stands beside the verdict." in text
    # Where the verdict's numbers are the gap's, there is nothing to tell apart.
    assert "these words only" not in text_of().lower()


def test_the_verdict_is_the_interval_s_and_flips_of_signs_decide_nothing() -> None:
    """Planted: of two narratives the sign-flip p is never below .5, whatever the interval says."""
    row = gap_row(p=0.0118, p_sign_flip=0.5)
    text = text_of(tables=tables(gap=[row], equivalence=[equivalence_row(verdict="gap")]))
    assert "An average gap towards the in-group" in text


def test_negative_gap_is_rated_lower_with_a_true_minus() -> None:
    text = text_of(tables=tables(gap=[gap_row(delta=-0.5, ci_low=-0.9, ci_high=-0.1)]))
    assert "in-group experiencers were on average rated 0.50 points lower than out-group experiencers." in text
    assert "δ = −0.50 points" in text
    assert "95% interval −0.90 to −0.10" in text


def test_small_gap_keeps_two_significant_digits_and_zero_no_sign() -> None:
    small = gap_row(delta=-0.0034, ci_low=-0.0071, ci_high=0.00031)
    text = text_of(tables=tables(gap=[small]))
    assert "δ = −0.0034 points" in text
    assert "−0.0071 to +0.00031" in text
    text = text_of(tables=tables(gap=[gap_row(delta=-1e-17)]))
    assert "δ = 0.00 points" in text
    assert "−0.00 " not in text


def test_every_dimension_and_variant_has_its_sentence() -> None:
    gap = [
        gap_row(dimension=dimension, variant=variant, delta=delta)
        for dimension, variant, delta in (
            ("religion", "origin", 0.31),
            ("religion", "persona-1", 0.32),
            ("race_ethnicity", "origin", 0.33),
        )
    ]
    text = text_of(tables=tables(gap=gap))
    for title, delta in (
        ("religion (variant origin)", "0.31"),
        ("religion (variant persona-1)", "0.32"),
        ("race/ethnicity (variant origin)", "0.33"),
    ):
        assert title in text
        assert f"δ = +{delta} points on the 0–100 scale (95% interval +0.12 to +0.86; p = .012), from 408" in text
    assert "corrected p is for all 3 gaps" in text


def test_gap_that_is_not_estimable_says_so_and_why() -> None:
    nothing = dict.fromkeys(["delta", "se", "df", "ci_low", "ci_high", "p", "d_z"], math.nan)
    row = gap_row(**nothing, n_narratives=0, n_answers=0, n_missing=1632)
    outcomes = outcome_rows(
        n_rated=0, n_refused=816, refusal_rate=1.0, floor_share=math.nan, ceiling_share=math.nan
    )  # fmt: skip
    why = Note("religion", "origin", "nothing_rated", "None of 3672 prompts has a rating.")
    text = text_of(
        tables=tables(gap=[row], cells=cell_rows(mean=math.nan, n_rated=0, n_refused=408), outcomes=outcomes),
        figures={"cells-religion-origin": SVG},
        remarks=[why],
    )
    assert "δ could not be estimated from this run." in text
    assert "None of 3672 prompts has a rating." in text
    assert "1,632 of 1,632 prompts between these identities gave no rating (1,632 refused)" in text
    assert "408 of 408 narratives could not be used" in text
    assert "Refused: 100% of in-group and 100% of out-group prompts." in text
    assert "No answer" in text
    assert re.search(r"\bnan\b", text.lower()) is None


def test_gap_without_interval_says_that_certainty_is_unknown() -> None:
    row = gap_row(ci_low=math.nan, ci_high=math.nan, se=math.nan, df=math.nan, p=math.nan, d_z=math.nan, n_narratives=1)
    text = text_of(tables=tables(gap=[row]))
    assert "its uncertainty could not be computed" in text
    assert "(no interval), from 1 narrative and" in text
    assert "No answer: δ has no interval" in text


def test_what_was_left_out_is_counted_by_cause() -> None:
    outcomes = [
        outcome_rows(n_refused=8, n_unparseable=2, refusal_rate=8 / 816)[0],
        outcome_rows(n_refused=30, n_failed=1, refusal_rate=30 / 816)[1],
    ]
    row = gap_row(n_missing=41, n_narratives=390)
    text = text_of(tables=tables(gap=[row], outcomes=outcomes))
    assert "41 of 1,632 prompts between these identities gave no rating (38 refused, 2 unparseable, 1 failed)" in text
    assert "18 of 408 narratives could not be used" in text
    assert "Refused: 1.0% of in-group and 3.7% of out-group prompts." in text


def test_intersection_compares_sharing_all_with_sharing_none() -> None:
    name = "race_ethnicity+religion"
    degree = row_of("families", dimension=name, family="degree", member="1", delta=0.21, ci_low=0.01)
    degree |= {"ci_high": 0.41, "p": 0.04, "p_adjusted": 0.04, "method": "Holm", "family_size": 1, "n_narratives": 408}
    given = tables(
        gap=[gap_row(dimension=name)],
        cells=cell_rows(dimension=name),
        outcomes=outcome_rows(dimension=name),
        families=[degree],
    )
    text = text_of(tables=given)
    assert "race/ethnicity × religion" in text
    said = "experiencers who share every crossed dimension with the perceiver were on average rated 0.49 points higher"
    assert f"{said} than those who share none" in text
    head, row = table_of(": Gap by the number of shared dimensions", tables=given)
    assert head[:2] == ["shared dimensions", "gap, points"]
    assert row == ["1", "+0.21", "+0.01 to +0.41", ".040", ".040", "408"]


def test_published_statistic_is_shown_as_no_confidence_interval() -> None:
    text = text_of()
    assert "δz = +0.61; null interval −0.94 to +1.02 (10,000 random shuffles)." in text
    assert "Do not compare it across models, dimensions or designs" in text
    assert "It is not a confidence interval" in text
    assert "for replication" not in text_of(tables=tables(gap=[gap_row(), published_row(delta_z=math.nan)]))


def test_coverage_follows_the_configuration() -> None:
    manifest = MANIFEST | {"config": {"statistics": {"confidence": 0.9}}}
    text = text_of(manifest=manifest)
    assert "90% interval +0.12 to +0.86" in text
    assert "95% interval" not in text


def test_remarks_stand_with_their_dimension_and_none_is_lost() -> None:
    remarks = [
        Note("religion", "origin", "scale_end", "Many ratings at 100."),
        Note("", "", "small_run", "Only a few narratives."),
        Note("nationality", "origin", "gone", "A dimension that has no table."),
    ]
    text = text_of(remarks=remarks)
    assert text.index("Only a few narratives.") < text.index("Evidence: whose side?")
    assert text.index("Read with care") < text.index("Ratings at an end of the scale (religion): Many ratings at 100.")
    assert text.rindex("Many ratings at 100.") > text.index("Evidence: whose side?")
    assert "A dimension that has no table. (nationality origin)" in text


# --- Both scopes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "said"),
    [
        (0.02, "interval is +0.02 to +0.97 (p = .044) and excludes 0."),
        (-0.3, "interval is −0.30 to +0.97 (p = .044) and includes 0."),
    ],
)
def test_five_groups_speak_of_any_such_identities_too(low: float, said: str) -> None:
    given = tables(gap=[gap_row(), wider_row(ci_low=low)], leave_one_out=left_out(0.5, 0.41, 0.58, 0.49, 0.55))
    text = text_of(tables=given)
    assert f"Any such identities. If these 5 groups are a sample of such groups, the 95% {said}" in text
    assert "If one group is left out at a time, δ ranges from +0.41 to +0.58 points." in text
    assert "Nothing is claimed" not in text
    _, *rows = table_of("In-group minus out-group", tables=given)
    assert [row[:4] for row in rows] == [
        ["religion", "these identities", "+0.49", "+0.12 to +0.86"],
        ["religion", "any such identities", "+0.49", f"{points(low)} to +0.97"],
    ]
    _, *rows = table_of("How each gap was estimated", tables=given)
    assert [row[2:4] for row in rows] == [["0.19", "407"], ["0.19", "4"]]
    assert "is corrected for all" not in text  # two scopes are one gap


def test_four_groups_claim_nothing_of_others_but_show_how_each_matters() -> None:
    why = "4 groups are too few to speak about others"
    nothing = dict.fromkeys(["se", "df", "ci_low", "ci_high", "p"], math.nan)
    given = tables(gap=[gap_row(), wider_row(**nothing, note=why)], leave_one_out=left_out(-0.02, 0.6, 0.5, 0.4))
    text = text_of(tables=given)
    assert f"Any such identities. This run says nothing about other identities: {why}." in text
    assert "If one group is left out at a time, δ ranges from −0.02 to +0.60 points." in text
    head, own, wider = table_of("In-group minus out-group", tables=given)
    assert (head[-1], own[-1], wider[-1]) == ("note", "", why)
    assert wider[3:6] == ["–"] * 3


def test_a_headline_with_ratings_missing_is_told_as_any_other_is() -> None:
    holed = [gap_row(delta=0.51, n_missing=41, n_answers=1591), gap_row(headline=False, estimator="mixed")]
    given = tables(gap=holed)
    assert "δ = +0.51 points" in text_of(tables=given)
    assert "from 408 narratives and 1,591 ratings." in text_of(tables=given)
    assert "by the mixed model" not in text_of(tables=given)
    [row] = table_of("In-group minus out-group", tables=given)[1:]
    assert (row[0], row[2]) == ("religion", "+0.51")


def test_mean_over_dimensions_has_a_row_and_no_section() -> None:
    given = tables(gap=[gap_row(), gap_row(dimension="nationality", delta=0.3), gap_row(dimension="all", delta=0.4)])
    page = Page(render(tables=given))
    assert [row[0] for row in page.tables["In-group minus out-group, with both intervals"][1:]] == [
        "religion",
        "nationality",
        "all dimensions",
    ]
    assert "all dimensions: +0.40, +0.12 to +0.86" in page.all("img")[0]["alt"]
    assert "corrected p is for all 3 gaps" in page.text
    anchors = [attributes["href"] for attributes in page.all("a") if attributes["href"].startswith("#part-")]
    assert sorted(set(anchors)) == ["#part-1", "#part-2"]
    assert "δ = +0.40" not in page.text


# --- How large a gap --------------------------------------------------------------------------------------------------


def equivalence_row(**values: object) -> dict[str, object]:
    found = {"estimator": "contrast", "scope": "narratives", "level": 0.9, "largest_gap": 0.8, "verdict": "undecided"}
    return row_of("equivalence", **(found | values))


def test_largest_gap_and_detectable_gap_are_said_of_the_headline() -> None:
    others = [equivalence_row(scope="narratives_and_terms", largest_gap=9.0), equivalence_row(estimator="mixed")]
    power = row_of("power", detectable_points=0.525, power=0.8)
    known = verdict_on(gap_row()) | {"supported_margin": 0.86, "control": "echo_free", "scope": "groups"}
    text = text_of(tables=tables(equivalence=[*others, equivalence_row()], power=[power], verdicts=[known]))
    assert "The gate would pass this gap at a margin of 0.86 points or more, even if a few narratives" in text
    assert "0.80" not in text
    assert "With this many narratives, a true gap of 0.53 points would be detected 80% of the time." in text
    known = power | {"detectable_low": 0.4, "detectable_high": 0.812, "alpha": 0.05}
    text_too = text_of(tables=tables(equivalence=[equivalence_row()], power=[known]))
    assert "the detectable gap may lie between 0.40 and 0.81 points (95% interval)." in text_too
    assert "No margin was set" in text
    assert "9.00" not in text


COMPATIBLE: dict[str, float] = {"delta": 0.1, "ci_low": -0.3, "ci_high": 0.5, "p": 0.4}
FOUND: dict[str, Any] = {"code": "gap", "claim": "groups", "direction": 1, "margin": 1.0}
WITHIN: dict[str, Any] = {"code": "within", "margin": 1.0, "control": "echo_free", "scope": "groups"}
OPEN: dict[str, Any] = {"code": "undecided", "margin": 1.0}


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (WITHIN, "No gap larger than 1.00 points, on average or in any emotion or group"),
        (WITHIN | {"parts_not_shown": ("sad",)}, "No average gap larger than 1.00 points; not shown for sad"),
        (
            WITHIN | {"parts_beyond": ("sad",), "parts_not_shown": tuple("ABCD")},
            "No average gap larger than 1.00 points, but larger in sad; not shown for A, B and 2 more",
        ),
        (
            WITHIN | {"scope": "pairs"},
            "No gap larger than 1.00 points in these pairs of words, on average or in any emotion or group",
        ),
        (
            WITHIN | {"control": "none"},
            "No gap larger than 1.00 points, on average or in any emotion or group, including repeated words",
        ),
        (
            WITHIN | {"control": "placebo", "scope": "pairs", "parts_not_shown": ("sad",)},
            "No average gap larger than 1.00 points in these pairs of words beyond that of invented groups; not shown "
            "for sad",
        ),
        (
            WITHIN | {"of_these_wordings": "why"},
            "No gap larger than 1.00 points, on average or in any emotion or group; not shown for other wordings",
        ),
        (
            WITHIN | {"of_these_wordings": "why", "parts_not_shown": ("sad",)},
            "No average gap larger than 1.00 points; not shown for sad; not shown for other wordings",
        ),
        (OPEN | {"reasons": ("margin_open",)}, "Undecided at a margin of 1.00 points"),
        (
            OPEN
            | {"margin": math.nan, "reasons": ("holds_zero",), "supported_margin": 1.5, "of_these_wordings": "why"}
            | {"scope": "groups", "control": "echo_free"},
            "No average gap found: any gap is smaller than 1.50 points; not shown for other wordings",
        ),
        (OPEN | {"reasons": ("few_narratives",)}, "Undecided at a margin of 1.00 points: too few narratives"),
        (
            {"code": "undecided", "reasons": ("not_corrected",)},
            "Undecided: no gap remains after correction for all gaps of the run",
        ),
        (
            OPEN | {"reasons": ("bounded",)},
            "Undecided at a margin of 1.00 points: ratings are known only within bounds, and that could change the "
            "answer",
        ),
        (FOUND, "An average gap between groups, towards the in-group"),
        (FOUND | {"direction": -1, "size": "beyond"},
         "An average gap between groups, towards the out-group, larger than 1.00 points"),
        (FOUND | {"size": "smaller", "parts_not_shown": ("sad",)},
         "An average gap between groups, towards the in-group, smaller than 1.00 points; not shown for sad"),
        (FOUND | {"size": "tiny", "claim": "pairs"},
         "A tiny average gap in these pairs of words, towards the in-group"),
        (FOUND | {"claim": "uncontrolled"},
         "An average gap towards the in-group, which repeated words alone could cause"),
        (FOUND | {"of_these_wordings": "why"},
         "An average gap between groups, towards the in-group; not shown for other wordings"),
        ({"code": "no_verdict", "reasons": ("number_mass",)},
         "No verdict: the model would mostly write something other than a number"),
        ({"code": "no_estimate", "reasons": ("not_estimable",)}, "No answer: δ cannot be estimated"),
    ],
)  # fmt: skip
def test_a_verdict_is_said_as_it_was_decided(verdict: dict[str, Any], said: str) -> None:
    members = [row_of("families", family=family, member=family) for family in ("emotion", "group")]
    given = tables(gap=[gap_row(**COMPATIBLE)], verdicts=[verdict_row(**COMPATIBLE, **verdict)], families=members)
    assert f"religion {said} +0.10 points" in text_of(tables=given)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("nothing", "No further run is needed: the answer is clear."),
        ("more_narratives", "To decide, run again with at least 900 narratives (this run has 408)."),
        ("margin", "too small to matter (statistics.margin=POINTS), or run again with at least 900 narratives (this "
                   "run"),
        ("missing_shift", "set how far they may be from the expected ratings (statistics.missing_shift=POINTS)."),
        ("narrower_bounds", "Run again in a new folder with narrower bounds on ratings (elicitation.max_pruned"),
        ("finish", "Give the same command again: the run continues where it stopped."),
        ("other_scale", "Use another scale or prompt, so that fewer ratings are at an end of the scale."),
        ("other_elicitation", "Read some answers on the page, then change the prompt (prompt=) or how ratings are"),
        ("other_model", "If the check still fails, this model cannot be judged."),
        ("ask_again", "Run again in a new folder."),
    ],
)  # fmt: skip
def test_the_next_step_is_said(step: str, said: str) -> None:
    row = verdict_row(**COMPATIBLE, reasons=("margin_open",), next_step=step, n_needed=900.0, n_narratives=408)
    assert said in text_of(tables=tables(gap=[gap_row(**COMPATIBLE)], verdicts=[row]))
    if step == "more_narratives":
        unknown = text_of(tables=tables(gap=[gap_row(**COMPATIBLE)], verdicts=[row | {"n_needed": math.nan}]))
        assert "Run again with more narratives." in unknown


@pytest.mark.parametrize("step", ["nothing", "margin", "more_narratives", "other_scale"])
def test_an_inconclusive_check_is_decided_before_anything_else(step: str) -> None:
    values = {"reasons": ("margin_open",), "next_step": step, "n_needed": 3285.0, "n_narratives": 24}
    for limits, first in (("one_cue; manipulation_not_shown", step != "other_scale"), ("one_cue", False)):
        row = verdict_row(**COMPATIBLE, **values) | {"limits": limits}
        text = text_of(tables=tables(gap=[gap_row(**COMPATIBLE)], verdicts=[row]))
        assert ("What next: First find out whether the ratings match the story" in text) == first
        assert ("3,285 narratives" in text) == (not first and step in ("margin", "more_narratives"))


@pytest.mark.parametrize(("there", "said"), [(408, True), (900, False), (None, False)])
def test_more_narratives_than_the_source_has_are_not_asked_for_without_saying_so(there, said) -> None:
    for step in ("margin", "more_narratives"):
        row = verdict_row(**COMPATIBLE, reasons=("margin_open",), next_step=step, n_needed=900.0, n_narratives=24)
        text = text_of(
            manifest=MANIFEST | {"stimuli": MANIFEST["stimuli"] | {"n_narratives": 24, "n_available": there}},
            tables=tables(gap=[gap_row(**COMPATIBLE)], verdicts=[row]),
        )
        assert ("has 408: for more, use narratives of your own (stimuli=csv)." in text) == said


def test_narratives_that_would_decide_are_those_of_a_dimension_if_dimensions_have_unequal_numbers_of_them() -> None:
    for n_others, said in (
        (60, "What next: nationality: To decide, run again with at least 282 narratives (this run has 60)."),
        (25, "What next: To decide, run again with at least 282 narratives (this run has 25)."),
    ):
        own = (("religion", 25, 205), ("nationality", n_others, 282))
        text = text_of(
            tables=tables(
                gap=[gap_row(**COMPATIBLE, dimension=name, n_narratives_asked=n) for name, n, _ in own],
                verdicts=[
                    verdict_row(**COMPATIBLE, dimension=name, reasons=("margin_open",), next_step="more_narratives",
                                n_needed=float(needed), n_narratives=n)
                    for name, n, needed in own
                ],
            )
        )  # fmt: skip
        assert said in text


def test_a_run_of_an_earlier_version_has_no_verdict() -> None:
    text = text_of(tables=tables(verdicts=[]))
    assert "religion No verdict: an earlier version analysed this run +0.49 points" in text


def test_without_a_part_that_was_looked_at_no_verdict_is_about_all_of_them() -> None:
    text = text_of(tables=tables(gap=[gap_row(**COMPATIBLE)], verdicts=[verdict_row(**COMPATIBLE, **WITHIN)]))
    assert "No average gap larger than 1.00 points +0.10" in text


@pytest.mark.parametrize(("rank", "said"), [(1, "the true one gives the largest gap."), (12, "11 give a larger gap")])
def test_the_place_of_the_true_dealing_is_said(rank: int, said: str) -> None:
    row = verdict_on(gap_row()) | {"rank": rank, "n_dealings": 24}
    assert f"Of 24 ways to assign the terms to groups, {said}" in text_of(tables=tables(verdicts=[row]))


@pytest.mark.parametrize(("rank", "said"), [(1, "none gives a larger gap"), (12, "11 give a larger gap")])
def test_dealings_that_were_drawn_are_not_said_to_be_all(rank: int, said: str) -> None:
    """Of eight groups there are 40,320; "Of 1,000 ways to deal the terms" was said where 999 of them were drawn."""
    row = verdict_on(gap_row()) | {"rank": rank, "n_dealings": 1_000}
    text = text_of(tables=tables(verdicts=[row]))
    assert f"Of 999 random ways to assign the terms to groups, {said} than the true one." in text
    assert "Of 1,000 ways" not in text


def test_the_corrected_p_is_named_and_what_it_takes_back_is_said() -> None:
    dimensions = ("religion", "race_ethnicity", "nationality", "age")
    gap = [gap_row(dimension=dimension) for dimension in dimensions]

    def corrected(p: float) -> str:
        of_all = gap_row(dimension="all")
        verdicts = [*(verdict_on(row) | {"p_adjusted": p} for row in gap), verdict_on(of_all) | {"p_adjusted": 0.0118}]
        return text_of(tables=tables(gap=[*gap, of_all], verdicts=verdicts))

    text = corrected(0.047)
    assert text.count("p = .012; corrected .047 ") == len(dimensions)
    assert "p = .012; corrected .012" not in text
    assert "corrected p (Holm) is for the 4 average gaps of the run, without the mean over dimensions." in text
    assert "p = .012; corrected .059: not found after correction" in corrected(0.059)
    alone = text_of(tables=tables(gap=[gap_row()], verdicts=[verdict_on(gap_row()) | {"p_adjusted": 0.0118}]))
    assert f"Test of δ against 0: p = .012. {NOT_CONTROLLED} All " in alone
    assert "corrected" not in alone[: alone.index("Evidence: whose side?")]


def test_size_is_in_percent_of_the_scale_and_in_standard_deviations_and_never_d_z() -> None:
    text = text_of(tables=tables(gap=[gap_row(percent_of_scale=0.494, delta_sd=0.0312)]))
    screen = text[: text.index("Evidence: whose side?")]
    assert "0.49% of the scale; 0.03 times the spread (SD) of the ratings of one narrative" in screen
    assert "dz" not in screen


@pytest.mark.parametrize(("inside", "outside", "opposed"), [(46.0, 51.1, True), (51.1, 46.0, False), (50, 50, False)])
def test_plain_means_that_say_the_opposite_stand_on_the_first_screen(
    inside: float, outside: float, opposed: bool
) -> None:
    text = text_of(tables=tables(gap=[gap_row(raw_in=inside, raw_out=outside)]))
    screen, beneath = text.split("Evidence: whose side?")
    said = f"The plain means point the other way: {inside:.2f} in-group and {outside:.2f} out-group."
    assert (said in screen) == (said in beneath) == opposed
    assert (f"Plain means: {inside:.2f} in-group and {outside:.2f} out-group." in beneath) != opposed


def mode_row(**values: object) -> dict[str, object]:
    return row_of("modes", **({"of": "mode", "value": 0.0, "share": 0.993, "n_values": 4, "n": 900} | values))


@pytest.mark.parametrize(
    ("row", "said", "probabilities"),
    [
        (mode_row(), "The most probable number is 0 in 99.3% of 900 prompts.", True),
        (mode_row(n_values=1, share=1.0), "The most probable number is 0 in 100% of 900 prompts.", True),
        (mode_row(share=0.6), "", False),
        (mode_row(of="intensity", value=50.0, share=0.95), "The rating is 50 in 95.0% of 900 prompts.", False),
        (mode_row(of="intensity", share=0.6), "", False),
    ],
)
def test_what_the_model_would_nearly_always_write_is_said(
    row: dict[str, object], said: str, probabilities: bool
) -> None:
    text = text_of(tables=tables(modes=[row]))
    assert ("which repeated words alone could cause, in the model's probabilities" in text) == probabilities
    assert ("the model's probabilities put in-group experiencers on average 0.49 points higher" in text) == (
        probabilities
    )
    assert (said or "The most probable number") in text if said else "The most probable number" not in text
    assert ("The rating is" in text) == said.startswith("The rating")


def test_a_low_number_mass_is_said_in_the_card() -> None:
    note = Note("religion", "origin", "number_mass", "Little.")
    whole = dict.fromkeys(OUTCOMES, 0) | {"dimension": "religion", "variant": "origin", "pairs": "all"}
    outcomes = [*outcome_rows(), whole | {"mean_number_mass": 0.141}]
    void = verdict_row("no_verdict", reasons=("number_mass",), delta=0.49, ci_low=0.12, ci_high=0.86)
    text = text_of(tables=tables(outcomes=outcomes, verdicts=[void]), remarks=[note])
    screen = text[: text.index("Evidence: whose side?")]
    assert "The model answers with a number at all with a probability of 14.1% on average." in screen
    assert "No verdict: the model would mostly write something other than a number" in screen


@pytest.mark.parametrize(
    ("row", "gap", "verdict"),
    [
        (mode_row(of="intensity", value=50.0, share=1.0, n_values=1), {}, "Every rating was 50"),
        (mode_row(share=0.5), {"sd_within": 0.0}, "Within each narrative all ratings are the same"),
    ],
)
def test_a_model_that_does_not_tell_identities_apart_has_no_gap_of_zero(
    row: dict[str, object], gap: dict[str, float], verdict: str
) -> None:
    nothing = {"delta": 0.0, "ci_low": 0.0, "ci_high": 0.0, "se": 0.0, "p": math.nan}
    void = verdict_row("no_verdict", reasons=("constant",))
    text = text_of(tables=tables(gap=[gap_row(**nothing, **gap)], modes=[row], verdicts=[void]))
    assert "religion No verdict: all identities were rated alike 0.00 points no interval" in text
    assert f"{verdict}: such ratings can neither show a gap nor rule one out." in text
    for claim in ("0.00 points higher", "ruled out", "No gap larger", "compatible with no"):
        assert claim not in text[: text.index("Evidence: whose side?")]


# --- How it varies ----------------------------------------------------------------------------------------------------


def differing(family: str, member: str, delta: float, p: float, **values: object) -> dict[str, object]:
    """Return a member that lies by `delta`, within a half, and differs from the rest by a corrected p."""
    found = {"ci_low": delta - 0.5, "ci_high": delta + 0.5, "p_adjusted": p, "change_p_adjusted": p}
    return family_row(family, member, **(found | {"delta": delta, "delta_rest": 0.0, "change": delta}
                                         | values))  # fmt: skip


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (
            [judged_row("emotion", "sad", "undecided", "margin_open", delta=0.1)],
            "No pair of groups stands out, and no gap was found for any single emotion. There may still be one.",
        ),
        (
            [judged_row("emotion", "glad", "beyond", delta=5.0, margin=4.0),
             judged_row("emotion", "sad", "beyond", delta=-7.5, margin=4.0)],
            "Beyond the margin of 4.00 points: sad −7.50 and glad +5.00.",
        ),
        (
            [judged_row("group", name, "beyond", delta=6.0 + k) for k, name in enumerate("abcde")],
            "With their own gap: e +10.00, d +9.00 and 3 more.",
        ),
        (
            [judged_row("group", "a", "undecided", "not_controlled", delta=6.0),
             judged_row("emotion", "sad", "undecided", "pairs_alone", delta=5.0),
             judged_row("group", "b", "undecided", "not_controlled", "missing", delta=9.0)],
            "With their own gap, which repeated words alone could cause: a +6.00. "
            "With their own gap, in these pairs of words: sad +5.00. ",
        ),
        ([], "Differences between emotions or groups could not be tested."),
    ],
)  # fmt: skip
def test_parts_with_a_gap_of_their_own_are_named(judged: list[dict[str, object]], said: str) -> None:
    text = text_of(tables=tables(judged=judged))
    assert said in text[: text.index("Evidence: whose side?")]


def test_emotions_that_differ_from_the_rest_are_named_unless_their_own_gap_is() -> None:
    rows = [differing("emotion", "sad", -7.5, 0.06), differing("emotion", "glad", 5.0, 0.001)]
    assert "Different from the other emotions: glad +5.00 (rest 0.00)." in text_of(tables=tables(families=rows))
    own = judged_row("emotion", "glad", "beyond", delta=5.0)
    text = text_of(tables=tables(families=rows, judged=[own]))
    assert "With their own gap: glad +5.00." in text
    assert "Different from the other emotions" not in text[: text.index("Evidence: whose side?")]


def test_pairs_that_stand_out_are_named_first() -> None:
    odd = [
        row_of("odd_pairs", perceiver_group="Hindu", experiencer_group=other, delta=delta)
        for other, delta in (("Muslim", -9.0), ("Jain", 4.0))
    ]
    text = text_of(tables=tables(odd_pairs=odd, judged=[judged_row("group", "Jain", "beyond", delta=6.0)]))
    assert "Pairs that stand out: Hindu rating Muslim −9.00 and Hindu rating Jain +4.00. With their own" in text


def test_emotions_that_differ_only_together_are_said_to() -> None:
    test = row_of("heterogeneity", over="emotion", n_members=2, statistic=4.0, df=1.0, df_residual=10.0, p=0.01)
    rows = [differing("emotion", "sad", 0.3, 0.2)]
    text = text_of(tables=tables(families=rows, heterogeneity=[test | {"p_adjusted": 0.02}]))
    assert "The gaps differ between emotions (corrected p = .020), but no single emotion stands out." in text
    head, row = table_of("is the gap the same in all emotions", tables=tables(families=rows, heterogeneity=[test]))
    assert (head[0], row[:5]) == ("over all", ["emotions", "2", "4.00", "1 and 10", ".010"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("grows", "yes"), ("shrinks", "no, it shrinks"), ("not_shown", "not shown"),
        ("too_few_groups", "not shown: too few groups to show it"), ("", "not known"),
        ("higher", "yes: rated higher"), ("lower", "no: rated lower"),
    ],
)  # fmt: skip
def test_whether_the_gap_grows_with_a_covariate_is_said_by_its_code(answer: str, said: str) -> None:
    row = row_of("covariates", covariate="distance", of="pairs", answer=answer, slope=0.5, ci_low=0.2, ci_high=0.8,
                 per_sd=1.25, p=0.012, p_adjusted=0.024, p_least=1 / 120, n_groups=5, n_narratives=40)  # fmt: skip
    head, cells = table_of("or the disparity, grow with the numbers", tables=tables(covariates=[row]))
    of = "the gap: how much lower out-group pairs are rated"
    assert (head[1:3], cells[:5]) == (["what", "does it grow?"], ["distance", of, said, "+0.50", "+0.20 to +0.80"])
    assert cells[5:10] == ["+1.25", ".012", ".024", ".008", "5"]
    for of, words in (("groups", "the gap: each group's own"), ("disparity", "the disparity of each group")):
        assert words in text_of(tables=tables(covariates=[row | {"of": of}]))
    assert "grow with the numbers" not in text_of()


def test_the_mean_over_dimensions_names_its_parts_and_those_it_hides() -> None:
    gap = [
        gap_row(dimension=name, delta=delta, ci_low=delta - 0.3, ci_high=delta + 0.3)
        for name, delta in (("religion", 2.0), ("nationality", -2.0), ("all", 0.0))
    ]
    found = [
        *(verdict_on(row) for row in gap[:2]),
        verdict_row(dimension="all", **WITHIN, delta=0.0, ci_low=-0.3, ci_high=0.3,
                    parts_beyond=("religion", "nationality"), parts_not_shown=("sad (religion)",)),
    ]  # fmt: skip
    text = text_of(tables=tables(gap=gap, verdicts=found))
    screen = text[: text.index("Evidence: whose side?")]
    said = (
        "No average gap larger than 1.00 points, but larger in religion and nationality; not shown for sad (religion)"
    )
    assert f"{said} 0.00 points" in screen
    assert "The mean of religion +2.00 and nationality −2.00." in screen


# --- Missing ratings --------------------------------------------------------------------------------------------------


def missing_row(outcome: str, **values: object) -> dict[str, object]:
    found = {"rate_in_group": 0.01, "rate_out_group": 0.125, "gap_pp": -11.5, "ci_low": -13.0, "ci_high": -10.0}
    found |= {"p": 1e-9, "n_narratives": 408, "n_prompts": 1632, "n_with_outcome": 100}
    return row_of("missing", outcome=outcome, **(found | values))


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (
            {},
            "The model refuses less often if the person is of its own group −11.50 percentage points 95% interval "
            "−13.00 to −10.00",
        ),
        (
            {"rate_in_group": 0.2},
            "A refusal gap, after removing how often each identity is refused −11.50 percentage points",
        ),
        ({"ci_high": 1.0, "p": 0.2}, "Undecided: compatible with no refusal gap −11.50 percentage points"),
        ({"ci_high": 1.0, "n_with_outcome": 16}, ""),
        ({"n_with_outcome": 0}, ""),
        (
            {"ci_low": math.nan, "ci_high": math.nan},
            "Refused: 1.0% of in-group and 12.5% of out-group prompts; the gap has no interval −11.50 perc",
        ),
    ],
)
def test_a_refusal_gap_is_a_verdict_of_a_card_of_its_own(values: dict[str, float], verdict: str) -> None:
    page = Page(render(tables=tables(missing=[missing_row("refused", **values)])))
    screen = page.text[: page.text.index("Evidence: whose side?")]
    assert len(page.all("article")) == 1 + bool(verdict)
    assert (f"religion: refusals {verdict}" in screen) == bool(verdict)
    assert ("Refused: " in screen) == bool(verdict)


def test_refusal_gap_is_shown_in_percentage_points() -> None:
    rows = [missing_row("refused"), missing_row("failed", n_with_outcome=0), missing_row("missing", n_with_outcome=120)]
    head, refused, either = table_of("missing ratings, as shares", tables=tables(missing=rows))
    assert head[3] == "gap, percentage points"
    assert refused == ["refused", "1.0%", "12.5%", "−11.50", "−13.00 to −10.00", "< .001", "408"]
    assert either[0] == "no rating, for any reason"  # and none of what never happened


def test_nothing_missing_needs_no_table_of_it() -> None:
    assert "ratings that are missing" not in text_of(tables=tables(missing=[missing_row("refused", n_with_outcome=0)]))


def check_row(check: str, **values: object) -> dict[str, object]:
    found = {"delta": 0.5, "ci_low": 0.1, "ci_high": 0.9, "p": 0.03, "n_narratives": 300, "n_answers": 1200}
    return row_of("sensitivity", check=check, **(found | values))


def test_other_assumptions_are_named_with_their_gap_and_share() -> None:
    rows = [
        check_row("listwise", share=0.75),
        check_row("within_narratives"),
        check_row("worst_case_low", delta=-4.6, ci_low=-6, ci_high=-3.2, share=0.114),
        check_row("number_mass_above", share=0.2),
        check_row("ranks", note="a reason"),
    ]
    head, listwise, within, worst, mass, ranks = table_of("δ under other", tables=tables(sensitivity=rows))
    assert head[-2:] == ["share", "note"]
    assert listwise == ["only complete narratives", "+0.50", "+0.10 to +0.90", ".030", "300", "1,200",
                        "75.0% of narratives are complete", ""]  # fmt: skip
    assert within[-2:] == ["", ""]
    assert worst[0] == "all missing ratings at the end that lowers δ most"
    assert (worst[1], worst[2], worst[6]) == ("−4.60", "−6.00 to −3.20", "11.4% of prompts without a rating")
    assert mass[6] == "20.0% of ratings kept"
    assert (ranks[0], ranks[-1]) == ("ranks within each narrative (percentile points)", "a reason")


@pytest.mark.parametrize(
    ("shift", "said", "gap"),
    [
        (11.74, "all missing ratings 11.74 points higher than expected", "0.00"),
        (-3.0, "all missing ratings 3.00 points lower than expected", "0.00"),
        (math.nan, "all missing ratings shifted until δ is 0", "–"),
    ],
)
def test_tipping_point_is_a_shift_in_words_and_no_gap(shift: float, said: str, gap: str) -> None:
    row = check_row("tipping_point", delta=math.nan, shift_points=shift, share=0.1)
    given = tables(sensitivity=[row])
    assert table_of("δ under other", tables=given)[1][:2] == [said, gap]
    in_words = f"If all missing ratings were {said.removeprefix('all missing ratings ')}, δ would be 0."
    assert (in_words in text_of(tables=given)) == math.isfinite(shift)


def test_no_shift_on_the_scale_is_said_so() -> None:
    why = "no shift on the scale explains δ away"
    row = check_row("tipping_point", delta=math.nan, shift_points=250.0, share=0.1, note=why)
    given = tables(sensitivity=[row])
    assert "No common shift of the missing ratings on the scale would make δ 0." in text_of(tables=given)
    assert table_of("δ under other", tables=given)[1][-1] == why


def test_checks_about_missing_ratings_are_spared_where_none_is_missing() -> None:
    checks = ["listwise", "within_narratives", "worst_case_low", "worst_case_high", "tipping_point"]
    rows = [check_row(check, share=float(check == "listwise")) for check in checks]
    shown = [row[0] for row in table_of("δ under other", tables=tables(sensitivity=rows))[1:]]
    assert shown == ["least squares within narratives"]


# --- Beneath δ --------------------------------------------------------------------------------------------------------


def family_row(family: str, member: str, **values: object) -> dict[str, object]:
    found = {"delta": 0.3, "ci_low": 0.1, "ci_high": 0.5, "p": 0.002, "p_adjusted": 0.02, "n_narratives": 408}
    found |= {"method": "Holm", "family_size": 2}
    return row_of("families", family=family, member=member, **(found | values))


def test_each_family_has_its_table_with_its_correction() -> None:
    rows = [
        family_row("group", "Hindu"),
        family_row("group", "Muslim", p_adjusted=math.nan),
        family_row("emotion", "sad"),
    ]
    text = text_of(tables=tables(families=rows))
    assert text.index("δ of each emotion") < text.index("Each group's own gap")
    title = "Each group's own gap: how much higher it rates its own than expected from its other ratings"
    head, hindu, muslim = table_of(f"{title} (p corrected by Holm for 2 tests)", tables=tables(families=rows))
    assert head == ["group", "gap, points", "95% interval", "p", "corrected p", "narratives"]
    assert hindu == ["Hindu", "+0.30", "+0.10 to +0.50", ".002", ".020", "408"]
    assert muslim[4] == "–"


@pytest.mark.parametrize(("n", "n_shown"), [(20, 20), (21, 20)])
def test_of_many_pairs_those_of_the_smallest_p_are_shown_and_the_cut_is_said(n: int, n_shown: int) -> None:
    # The pairs come with the largest p first; the first of them is the one to be cut.
    pairs = [family_row("pair", f"a{k}", partner="b", p=(n - k) / 100, method="Benjamini–Hochberg") for k in range(n)]
    given = tables(families=pairs)
    _, *rows = table_of("Gaps of pairs of groups (p corrected by Benjamini–Hochberg", tables=given)
    assert [row[0] for row in rows] == [f"a{k} and b" for k in range(n - 1, n - 1 - n_shown, -1)]
    cut = "the 20 of 21 with the smallest p; all are in tables/families.csv"
    assert (cut in text_of(tables=given)) == (n == 21)


def hostile(value: object) -> object:
    """Put an attack on every text of a manifest, names included."""
    if isinstance(value, dict):
        return {f"{name}{ATTACK}" if name.endswith(".safetensors") else name: hostile(v) for name, v in value.items()}
    if isinstance(value, list):
        return [hostile(v) for v in value]
    return f"{value}{ATTACK}\"'&" if isinstance(value, str) else value


def test_everything_from_outside_is_escaped() -> None:
    manifest: Any = hostile(copy.deepcopy(MANIFEST))
    terms = [(ATTACK, "A"), (r"$\frac$", "B"), ('"><img src=x onerror=alert(1)>', "C")]
    name = f"religion{ATTACK}"
    page = render(
        manifest=manifest,
        tables=tables(
            gap=[gap_row(dimension=name), published_row(dimension=name)],
            cells=cell_rows(terms, dimension=name),
            outcomes=outcome_rows(dimension=name),
            leave_one_out=left_out(0.4, dimension=name),
            families=[
                family_row("pair", ATTACK, partner="</td><b>", dimension=name, note=ATTACK),
                family_row("group", ATTACK, dimension=name),
            ],
            missing=[missing_row("refused", dimension=name, note=ATTACK)],
            sensitivity=[row_of("sensitivity", dimension=name, check=ATTACK, note=ATTACK)],
        ),
        figures={"gaps": SVG, f"cells-{name}-origin": SVG, f"interaction-{name}-origin": SVG},
        remarks=[Note(name, "origin", ATTACK, ATTACK), Note(ATTACK, ATTACK, ATTACK, ATTACK)],
    )
    parsed = Page(page)  # also checks that every tag is closed in order
    assert {tag for tag, _ in parsed.tags}.isdisjoint({"b", "iframe", "object", "link", "base", "form"})
    assert len(parsed.all("style")) == 1
    assert parsed.all("script") == [{"type": "application/json", "id": "downloads-data"}, {}]
    assert len(parsed.all("img")) == 3
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert ATTACK in parsed.text
    assert f"{ATTACK} and </td><b>" in parsed.text
    assert r"$\frac$" in parsed.text


def test_names_in_a_verdict_are_escaped() -> None:
    gap = [gap_row(dimension=name, delta=0.0, ci_low=-0.3, ci_high=0.3) for name in (ATTACK, "b", "all")]
    found = [
        verdict_row("within", dimension=name, margin=1.0, delta=0.0, ci_low=-0.3, ci_high=0.3,
                    parts_beyond=(ATTACK,), parts_not_shown=(ATTACK,))
        for name in (ATTACK, "b", "all")
    ]  # fmt: skip
    judged = [judged_row("group", ATTACK, "beyond", delta=5.0, margin=1.0) | {"dimension": ATTACK}]
    odd = row_of("odd_pairs", dimension=ATTACK, perceiver_group=ATTACK, experiencer_group=ATTACK, delta=5.0)
    members = [differing("emotion", ATTACK, 5.0, 0.001) | {"dimension": ATTACK}]
    page = Page(render(tables=tables(gap=gap, verdicts=found, families=members, judged=judged, odd_pairs=[odd])))
    assert page.all("script") == [{"type": "application/json", "id": "downloads-data"}, {}]
    assert f"larger in {ATTACK}; not shown for {ATTACK}" in page.text
    assert f"Pairs that stand out: {ATTACK} rating {ATTACK} +5.00." in page.text
    assert f"Beyond the margin of 1.00 points: {ATTACK} +5.00." in page.text


def test_page_asks_the_network_for_nothing() -> None:
    page = render()
    parsed = Page(page)
    policies = [meta["content"] for meta in parsed.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policies == [
        f"default-src 'none'; script-src 'sha256-{digest}'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    ]
    assert parsed.tags.index(("style", {})) > next(k for k, tag in enumerate(parsed.tags) if "http-equiv" in tag[1])
    for tag, attributes in parsed.tags:
        assert attributes.get("src", "data:").startswith("data:image/svg+xml;base64,") or "src" not in attributes
        link = attributes.get("href", "#")
        assert link.startswith("#") or (tag == "a" and link == "https://arxiv.org/abs/2503.01030")
        assert not attributes.keys() & {"srcset", "action", "poster", "background"}
    assert "url(" not in page
    assert "@import" not in page


def test_figures_have_descriptions_and_sizes() -> None:
    images = Page(render()).all("img")
    assert [image["width"] for image in images] == ["480", "480", "480"]
    alts = [image["alt"] for image in images]
    assert "religion: +0.49, +0.12 to +0.86" in alts[0]
    assert [alt.rpartition(" ")[2] for alt in alts[1:]] == ["tables/cells.csv."] * 2


def test_figures_that_do_not_fit_are_named_and_those_of_all_dimensions_come_before_details() -> None:
    big = SVG + b" " * 3000
    names = ["gaps", "cells-religion-origin", "interaction-religion-origin"]
    page = render(figures=dict.fromkeys(names, big), max_figures=9000)
    assert len(Page(page).all("img")) == 2
    assert "Too large for this page: cells-religion-origin." in Page(page).text


def test_a_figure_that_could_not_be_drawn_is_named() -> None:
    text = text_of(figures={"gaps": SVG, "cells-religion-origin": SVG})
    assert "Not drawn, because ratings are missing: interaction." in text
    replicated = {**MANIFEST, "preset": "replication"}
    text = text_of(figures={"gaps": SVG, "cells-religion-origin": SVG}, manifest=replicated)
    assert "Not drawn, because ratings are missing: interaction, published, published-masked." in text


def test_contents_lead_to_headings_with_unique_ids() -> None:
    parsed = Page(render())
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"][1:] for attributes in parsed.all("a") if attributes["href"].startswith("#")]
    assert len(links) >= 8
    assert set(links) <= set(ids)


def test_elicitation_is_explained_in_words() -> None:
    asked = MANIFEST | {"identity": {"elicitation": {"reads": "numbers and their ends"}}}
    assert "the rating is the mean of that distribution" in text_of(manifest=asked)
    assert "no other digit follows it: 7 is not the beginning of 72" in text_of(manifest=asked)
    assert "counts as 8" not in text_of(manifest=asked)
    earlier = text_of()  # a run of a version that did not ask whether numbers end
    assert "80 on a scale that ends at 10 counts as 8" in earlier
    assert "not the beginning of" not in earlier
    generate = MANIFEST | {"elicitation": {"method": "generate"}}
    assert "one intensity on the scale (0–100) was read" in text_of(manifest=generate)
    study = text_of(manifest=MANIFEST | {"elicitation": {"method": "generate", "parser": "hou2025"}})
    assert "first whole number of the text, or the second where the first is above 100" in study
    assert "one intensity on the scale" not in study
    outside = text_of(manifest=MANIFEST | {"elicitation": {"method": "outside"}})
    assert "Elicitationanother tool, 0–100" in outside
    assert "on the same files with the versions and the seed of the manifest" in outside
    assert "ratings by another tool, analysed on 2026-11-21" in outside
    assert "model's files" not in outside
    other = MANIFEST | {"elicitation": {"method": "own {weird}"}}
    assert "no description of the method 'own {weird}'" in text_of(manifest=other)


def test_prompt_manifest_command_and_citation_are_shown() -> None:
    text = text_of()
    for shown in (
        "You are a Muslim.",
        'A Hindu says: "My sister was late."',
        "from not at all to extremely",
        "files: model.safetensors",
        "5af571cb",
        "20250301",
        "703.2",
        "python -m audit run model=smollm2",
        "revision 12fd25f",
        "version 0.1.0",
        "confidence: 0.95",
        "run of 2026-11-21",
    ):
        assert shown in text


def without(*path: str) -> dict[str, Any]:
    manifest = copy.deepcopy(MANIFEST)
    inner = manifest
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return manifest


@pytest.mark.parametrize("path", [("model", "name"), ("scale", "low"), ("scale", "high"), ("elicitation", "method")])
def test_manifest_without_a_required_key_is_a_clear_error(path: tuple[str, str]) -> None:
    with pytest.raises(ManifestError, match=f"the manifest has no {'.'.join(path)}, which the report needs"):
        render(manifest=without(*path))
    with pytest.raises(KeyError):
        render(manifest=without(path[0]))


def test_scale_that_is_no_number_is_a_clear_error() -> None:
    with pytest.raises(ManifestError, match=r"scale.low is 'zero', but must be a number"):
        Manifest.of(MANIFEST | {"scale": {"low": "zero", "high": 100}})


def test_everything_else_of_the_manifest_may_be_missing() -> None:
    least = {"model": {"name": "m"}, "scale": {"low": 0, "high": 10}, "elicitation": {"method": "generate"}}
    text = text_of(manifest=least, figures={}, tables={"gap": tables()["gap"]})
    assert "not recorded" in text
    assert "No example prompt was recorded." in text
    assert "on the 0–10 scale" in text


def test_gap_table_is_required() -> None:
    with pytest.raises(ManifestError, match="needs the table 'gap'"):
        render(tables={"cells": tables()["cells"]})


def test_run_without_any_gap_says_so() -> None:
    assert "No dimension was measured." in text_of(tables=tables(gap=[], cells=[], outcomes=[]), figures={})


def test_names_that_are_not_utf8_can_still_be_written() -> None:
    page = render(manifest=MANIFEST | {"command": "audit path=\udcff"})
    assert "audit path=?" in page
    page.encode("utf-8")


def test_report_is_the_same_for_the_same_input_and_leaves_it_alone() -> None:
    given = tables()
    before = copy.deepcopy(given)
    assert render(tables=given) == render(tables=given)
    for name, table in given.items():
        pd.testing.assert_frame_equal(table, before[name])


def test_a_table_is_shown_by_naming_it_and_its_columns() -> None:
    given = pd.DataFrame([row_of("wording_shares", part="rest", sd=0.125, share=0.5, levels=4, note="")] * 2)
    results = Results({"wording_shares": given}, TABLES, 0.9, title="religion")
    shown = results.table("wording_shares", "what varies", ("part", "of what"), "sd", "share", "levels", "note")
    assert shown is not None
    assert shown.caption == "religion: what varies"
    assert isinstance(shown.content, ShownTable)
    assert shown.content.head == ("of what", "SD", "share", "levels")  # a note that no row has is left out
    cells = [(re.sub("<[^>]*>", "", cell), *re.findall('"([^"]*)"', cell)) for cell in shown.content.rows[1]]
    assert cells == [
        ("rest",), ("0.12", "0.125", "wording_shares:1:sd"), ("50.0%", "0.5", "wording_shares:1:share"),
        ("4", "4", "wording_shares:1:levels"),
    ]  # fmt: skip
    assert results.table("wording_shares", "what varies", "sd", rows=[]) is None
    assert results.table("controls", "absent", "delta") is None


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"delta": 1.5, "ci_low": -0.25, "ci_high": 3.25}, ("+1.50", "−0.25 to +3.25")),
        ({"delta": math.nan, "ci_low": math.nan, "ci_high": math.nan}, ("–", "–")),
    ],
)
def test_an_interval_is_written_as_the_number_that_it_is_of(values: dict[str, float], shown: tuple[str, str]) -> None:
    rows = rows_of(pd.DataFrame([row_of("gap", outcome="intensity", **values)]), "gap")
    laid = lay_out(GAP, rows, ["dimension", "delta", "ci_low"], level="90%")
    assert laid.head == ("dimension", "δ, points", "90% interval")
    assert tuple(re.sub("<[^>]*>", "", cell).replace("\xa0", " ") for cell in laid.rows[0][1:]) == shown


def test_an_interval_of_a_share_has_no_plus_and_one_of_a_measure_two_digits_of_its_width() -> None:
    of_share = pd.DataFrame([{"by": "judge", "share": 0.25, "ci_low": 0.125, "ci_high": 0.375}])
    laid = lay_out(EPITOME, rows_of(of_share, "epitome"), ["by", "share", "ci_low"], level="95%")
    assert [re.sub("<[^>]*>", "", cell).replace("\xa0", " ") for cell in laid.rows[0]] == [
        "judge", "25.0%", "12.5% to 37.5%"
    ]  # fmt: skip
    # Half the width is 30: two digits of it are whole numbers.
    of_measure = pd.DataFrame([{"outcome": "words", "delta": 12.34, "ci_low": -17.66, "ci_high": 42.34}])
    laid = lay_out(GAP, rows_of(of_measure, "gap"), ["outcome", "delta", "ci_low"], level="95%")
    assert laid.head == ("outcome", "δ", "95% interval")
    assert [re.sub("<[^>]*>", "", cell).replace("\xa0", " ") for cell in laid.rows[0][1:]] == ["+12", "−18 to +42"]


def test_a_column_that_is_shown_if_known_is_left_out_without_a_number() -> None:
    def heads(**values: float) -> tuple[str, ...]:
        rows = rows_of(pd.DataFrame([row_of("outcomes", **values)]), "outcomes")
        columns = ["pairs", IfKnown("mean_number_mass"), IfKnown("n_inexact", unless_zero=True)]
        return lay_out(OUTCOMES, rows, columns, level="95%").head

    assert heads(mean_number_mass=math.nan, n_inexact=0) == ("pairs",)
    assert heads(mean_number_mass=0.0, n_inexact=3) == ("pairs", "mean number mass", "inexact")


GERMAN = {
    "language": {"code": "de", "name": "German", "reviewed": "no native speaker read it", "policy": "with Person"}
}


def test_a_run_in_another_language_says_so_on_the_first_screen_and_where_it_is_cited() -> None:
    shown = text_of(manifest=MANIFEST | GERMAN)
    said = (
        "This measures the model in German, with the prompts of the language pack de (no native speaker read it). A "
        "translation differs from the English prompts in more than the language, and does not represent a culture."
    )
    assert said in shown
    assert shown.index("This measures the model in German") < shown.index("An average gap")
    assert "come from the language pack de: with Person." in shown
    assert "prompt variant: origin, in German, ratings by" in shown


def test_a_run_in_english_says_nothing_of_a_language() -> None:
    shown = text_of()
    for sentence in ("This measures the model in", "language pack", ", in English, ratings"):
        assert sentence not in shown
    assert " lang=" not in render().partition("<body>")[2]


def test_what_a_manifest_says_of_its_language_is_escaped() -> None:
    hostile = {"language": dict.fromkeys(("code", "name", "reviewed", "policy"), ATTACK)}
    assert ATTACK not in render(manifest=MANIFEST | hostile)


def check_of_story(answer: str, difference: float, low: float, high: float) -> dict[str, object]:
    numbers = {"difference": difference, "ci_low": low, "ci_high": high, "share_higher": 0.5, "least_response": 1.0}
    return row_of("manipulation", check="emotion", answer=answer, n_asked=60, n_pairs=60, **numbers)


@pytest.mark.parametrize(
    ("answer", "difference", "low", "high", "said"),
    [
        ("does_not_follow", 0.28, -0.14, 0.69, "failed. A story's own emotion was rated 0.28 points higher"),
        ("does_not_follow", -3.0, -4.0, -2.0, "failed. A story's own emotion was rated 3.00 points lower"),
        ("not_shown", 1.5, 0.5, 2.5, "inconclusive. A story's own emotion was rated 1.50 points higher"),
        ("follows", 12.0, 9.0, 15.0, "passed. A story's own emotion was rated 12.00 points higher"),
    ],
)
def test_the_first_screen_has_the_check_with_its_number_and_what_is_required(
    answer: str, difference: float, low: float, high: float, said: str
) -> None:
    text = text_of(tables=tables(manipulation=[check_of_story(answer, difference, low, high)]))
    spread = f"(95% interval {interval(low, high)})"
    screen = text.partition("Print this summary")[0]
    assert f"Check: {said} than a wrong one {spread}; required: more than 1.00." in screen
    assert "Not checked: whether the ratings match the story." in text_of().partition("Print this summary")[0]


@pytest.mark.parametrize(("difference", "explained"), [(0.494, False), (0.9, True)])
def test_plain_means_that_differ_by_another_number_than_delta_say_why(difference: float, explained: bool) -> None:
    text = text_of(tables=tables(gap=[gap_row(raw_in=60.0 + difference, raw_out=60.0)]))
    assert "Plain means: 60." in text
    assert ("Their difference is not δ: it still includes how high each perceiver" in text) == explained
    assert "pairs that repeat a word" not in text  # they are in this δ, too


@pytest.mark.parametrize("drawn", [True, False])
def test_pairs_that_were_not_asked_by_design_are_not_said_to_be_all(drawn: bool) -> None:
    manifest = MANIFEST | ({"pairs_drawn": ["religion"]} if drawn else {})
    text = text_of(manifest=manifest)
    n_pairs = sum(row["in_group"] is not None for row in cell_rows())
    assert "All 1,632 prompts between these identities gave a rating." in text
    assert (f"By design, each narrative was asked about only some of the {n_pairs} pairs." in text) == drawn


@pytest.mark.parametrize("code", ["no_verdict", "undecided"])
def test_without_a_verdict_tables_of_parts_are_said_to_be_no_findings(code: Code) -> None:
    verdict = verdict_row(code, reasons=("manipulation",) if code == "no_verdict" else ("holds_zero",))
    text = text_of(tables=tables(verdicts=[verdict], families=[family_row("group", "Hindu")]))
    said = "Without a verdict, no gap of a pair, emotion or group counts as a finding."
    assert (said in text) == (code == "no_verdict")


@pytest.mark.parametrize(("scope", "low"), [("narratives_and_terms", 0.02), ("narratives_and_terms", math.nan)])
def test_two_intervals_of_one_gap_are_told_apart_if_there_are_two(scope: str, low: float) -> None:
    wide = wider_row(scope=scope, ci_low=low, ci_high=low + 1)
    why = "Their intervals and p differ because the second also counts how δ changes when one group is left out."
    assert (why in text_of(tables=tables(gap=[gap_row(), wide]))) == math.isfinite(low)
    assert why not in text_of()


@pytest.mark.parametrize(("used", "said"), [(28, True), (33, False)])
def test_written_ratings_that_show_no_gap_are_told_from_those_rated(used: int, said: bool) -> None:
    written = row_of("elicitation", method="generate", n_prompts=44, n_rated=33, n_refused=0, n_unparseable=11,
                     n_answers=33, mean_difference=78.4)  # fmt: skip
    control = row_of("controls", control="elicitation", n_answers=used, headline=False)
    text = text_of(tables=tables(elicitation=[written], controls=[control]))
    assert "In the 33 prompts with both ratings, the written one is 78.40 points higher on average." in text
    told = (
        "δ of the written ratings uses 28 of these 33: the others are in narratives with too few ratings to show a gap."
    )
    assert (told in text) == said


def test_a_check_of_intensities_alone_is_said_in_its_own_words() -> None:
    row = check_of_story("follows", 12.0, 9.0, 15.0) | {"check": "intensity"}
    text = text_of(tables=tables(manipulation=[row]))
    assert "Check: passed. The strong version of a situation was rated 12.00 points higher than the mild one (" in text
    assert "Do the ratings match the story?" not in text.partition("Evidence: whose side?")[0]
