import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.report.manifest import ManifestError, read_manifest
from audit.report.render import render_report
from audit.schema import CELLS, DEGREES, GAP, OUTCOMES, RATINGS

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


def gap_row(**values: object) -> dict[str, object]:
    contrast = {
        "dimension": "religion",
        "variant": "origin",
        "estimator": "contrast",
        "scope": "narratives",
        "delta_points": 0.494,
        "se": 0.187,
        "df": 407.0,
        "ci_low": 0.124,
        "ci_high": 0.863,
        "p": 0.0118,
        "d_z": 0.131,
        "n_narratives": 408,
        "n_narratives_asked": 408,
        "n_ratings": 1632,
        "n_missing": 0,
    }
    return dict.fromkeys(GAP, math.nan) | contrast | values


def published_row(**values: object) -> dict[str, object]:
    nothing = dict.fromkeys(["delta_points", "se", "df", "ci_low", "ci_high", "p", "d_z"], math.nan)
    return gap_row(
        estimator="published", scope=None, **nothing, delta_z=0.61, null_low=-0.94, null_high=1.02
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


def tables(**replaced: list[dict[str, object]]) -> dict[str, pd.DataFrame]:
    rows = {"gap": [gap_row(), published_row()], "cells": cell_rows(), "outcomes": outcome_rows(), "degrees": []}
    columns = {"gap": GAP, "cells": CELLS, "outcomes": OUTCOMES, "degrees": DEGREES}
    return {name: pd.DataFrame((rows | replaced)[name], columns=list(columns[name])) for name in columns}


FIGURES = {"gaps": SVG, "cells-religion-origin": SVG, "interaction-religion-origin": SVG}


def render(**given: Any) -> str:
    return render_report(**({"manifest": MANIFEST, "tables": tables(), "figures": FIGURES} | given))


class Page(HTMLParser):
    """Tags with their attributes, and the text that is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.shown: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if "style" not in self.open:
            self.shown.append(text)

    @property
    def text(self) -> str:
        return " ".join("".join(self.shown).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def text_of(**given: Any) -> str:
    return Page(render(**given)).text


def test_answer_has_gap_interval_p_and_counts() -> None:
    text = text_of()
    assert "In-group experiencers were rated 0.49 points higher than out-group experiencers." in text
    assert "δ = +0.49 points on the 0–100 scale (95% interval +0.12 to +0.86; p = .012)" in text
    assert "from 408 narratives and 1,632 ratings." in text
    assert "Nothing was left out" in text
    assert "Scope: these identities (a Hindu, a Muslim), and any such narratives." in text
    assert "It says nothing of other identities." in text


def test_interval_that_includes_zero_is_no_claim_of_no_bias() -> None:
    text = text_of(tables=tables(gap=[gap_row(delta_points=0.12, ci_low=-0.2, ci_high=0.44, p=0.4)]))
    assert "The data are compatible with no gap, and with gaps from −0.20 to +0.44 points." in text
    assert "were rated 0.12" not in text
    for overclaim in ("unbiased", "debiased", "no bias", "solved", "fair"):
        assert overclaim not in text


def test_negative_gap_is_rated_lower_with_a_true_minus() -> None:
    text = text_of(tables=tables(gap=[gap_row(delta_points=-0.5, ci_low=-0.9, ci_high=-0.1)]))
    assert "In-group experiencers were rated 0.50 points lower than out-group experiencers." in text
    assert "δ = −0.50 points" in text
    assert "95% interval −0.90 to −0.10" in text


def test_small_gap_keeps_two_significant_digits_and_zero_no_sign() -> None:
    small = gap_row(delta_points=-0.0034, ci_low=-0.0071, ci_high=0.00031)
    text = text_of(tables=tables(gap=[small]))
    assert "δ = −0.0034 points" in text
    assert "−0.0071 to +0.00031" in text
    text = text_of(tables=tables(gap=[gap_row(delta_points=-1e-17)]))
    assert "δ = 0.00 points" in text
    assert "−0.00 " not in text


def test_every_dimension_and_variant_has_its_sentence() -> None:
    gap = [
        gap_row(dimension=dimension, variant=variant, delta_points=delta)
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
    assert "they are not adjusted for there being 3 of them" in text


def test_gap_that_is_not_estimable_says_so_and_why() -> None:
    nothing = dict.fromkeys(["delta_points", "se", "df", "ci_low", "ci_high", "p", "d_z"], math.nan)
    row = gap_row(**nothing, n_narratives=0, n_ratings=0, n_missing=1632)
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
    assert "The interaction was not drawn" in text
    assert "no rating" in text
    assert "nan" not in text.lower()


def test_gap_without_interval_says_that_certainty_is_unknown() -> None:
    row = gap_row(ci_low=math.nan, ci_high=math.nan, se=math.nan, df=math.nan, p=math.nan, d_z=math.nan, n_narratives=1)
    text = text_of(tables=tables(gap=[row]))
    assert "how certain that is could not be computed" in text
    assert "(no interval; p not available), from 1 narrative and" in text


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
    degree = {"dimension": name, "variant": "origin", "n_shared": 1, "delta_points": 0.21, "se": 0.1, "df": 407}
    degree |= {"ci_low": 0.01, "ci_high": 0.41, "n_pairs": 36, "n_narratives": 408}
    text = text_of(
        tables=tables(
            gap=[gap_row(dimension=name)],
            cells=cell_rows(dimension=name),
            outcomes=outcome_rows(dimension=name),
            degrees=[degree],
        )
    )
    assert "race/ethnicity × religion" in text
    assert "Experiencers who share every crossed dimension with the perceiver were rated 0.49 points higher" in text
    assert "Gap by the number of shared dimensions" in text
    assert "+0.01 to +0.41" in text


def test_published_statistic_is_shown_as_no_confidence_interval() -> None:
    text = text_of()
    assert "δz = +0.61; null interval −0.94 to +1.02." in text
    assert "not comparable across models, dimensions or designs" in text
    assert "it is no confidence interval" in text
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
    assert text.index("Only a few narratives.") < text.index("In-group experiencers were rated 0.49")
    assert text.index("In-group experiencers were rated 0.49") < text.index("Many ratings at 100.")
    assert "A dimension that has no table. (nationality origin)" in text


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
    examples = pd.DataFrame(
        [dict.fromkeys(RATINGS, "x") | {"response": "no </style></pre><b>", "intensity": math.nan, "dimension": name}]
    ).assign(number_mass=math.nan, mode=math.nan, spread=math.nan)
    page = render(
        manifest=manifest,
        tables=tables(
            gap=[gap_row(dimension=name), published_row(dimension=name)],
            cells=cell_rows(terms, dimension=name),
            outcomes=outcome_rows(dimension=name),
        ),
        figures={"gaps": SVG, f"cells-{name}-origin": SVG, f"interaction-{name}-origin": SVG},
        remarks=[Note(name, "origin", ATTACK, ATTACK), Note(ATTACK, ATTACK, ATTACK, ATTACK)],
        examples=examples,
    )
    parsed = Page(page)  # also checks that every tag is closed in order
    assert {tag for tag, _ in parsed.tags}.isdisjoint({"script", "b", "iframe", "object", "link", "base", "form"})
    assert len(parsed.all("style")) == 1
    assert len(parsed.all("img")) == 3
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert ATTACK in parsed.text
    assert r"$\frac$" in parsed.text
    assert "no </style></pre><b>" in parsed.text


def test_page_asks_the_network_for_nothing() -> None:
    page = render()
    parsed = Page(page)
    policies = [meta["content"] for meta in parsed.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
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
    gaps, cells, interaction = (image["alt"] for image in images)
    assert "religion: +0.49, +0.12 to +0.86" in gaps
    assert "from 60.0 (perceiver a Hindu, experiencer a Hindu) to 68.0" in cells
    assert "3 perceivers in rows" in cells
    assert "2 perceivers in rows" in interaction


def test_contents_lead_to_headings_with_unique_ids() -> None:
    parsed = Page(render())
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"][1:] for attributes in parsed.all("a") if attributes["href"].startswith("#")]
    assert len(links) >= 8
    assert set(links) <= set(ids)


def test_cells_table_marks_in_group_missing_and_sparse() -> None:
    rows = cell_rows()
    rows[1] |= {"mean": math.nan, "n_rated": 0}
    rows[3] |= {"n_rated": 100}
    page = render(tables=tables(cells=rows))
    assert page.count('class="framed"') == 2
    assert "<td>no rating</td>" in page
    assert "<td>61.0*</td>" in page


def test_elicitation_is_explained_in_words() -> None:
    assert "the rating is the mean of that distribution" in text_of()
    generate = MANIFEST | {"elicitation": {"method": "generate"}}
    assert "at temperature 0" in text_of(manifest=generate)
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


@pytest.mark.parametrize("method", ["expected", "generate"])
def test_examples_are_shown_verbatim(method: str) -> None:
    row = dict.fromkeys(RATINGS) | {
        "perceiver": "a Hindu",
        "status": "rated",
        "intensity": 68.25,
        "dimension": "religion",
    }
    row |= {"response": "68 of  100"} if method == "generate" else {"response": "", "number_mass": 0.07, "spread": 12.3}
    text = text_of(examples=pd.DataFrame([row]))
    assert "68.25" in text
    assert ("response, verbatim" in text) == (method == "generate")
    assert ("number mass" in text) or method == "generate"


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
    with pytest.raises(ManifestError, match=r"scale.low is 'zero', and should be a number"):
        read_manifest(MANIFEST | {"scale": {"low": "zero", "high": 100}})


def test_everything_else_of_the_manifest_may_be_missing() -> None:
    least = {"model": {"name": "m"}, "scale": {"low": 0, "high": 10}, "elicitation": {"method": "generate"}}
    text = text_of(manifest=least, figures={}, tables={"gap": tables()["gap"]})
    assert "not recorded" in text
    assert "An example prompt was not recorded." in text
    assert "The heatmap of the cells was not drawn." in text
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


@pytest.mark.parametrize(
    "change", [lambda t: t.astype({"in_group": "boolean"}), lambda t: t.assign(mean=np.float32(61))]
)
def test_dtypes_of_the_cells_do_not_matter(change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    given = tables()
    given["cells"] = change(given["cells"])
    assert "no rating" not in text_of(tables=given).split("How it was asked")[0].split("Dimension by dimension")[1]
