"""Analyses the ratings that a run has collected, renders its report and writes both, without the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from audit.conversations import explorer_of
from audit.publish import count_of, estimated_by, on_run, on_thoughts, score_stages, unfinished, write_all
from audit.runs.manifest import Check, Manifest, Statistics
from audit.runs.store import ASKED_IN, RunFolder
from audit.tasks.base import Published
from audit.wording import (
    SCOPES,
    bare_p,
    count,
    coverage,
    dimension_title,
    either,
    interval,
    p_value,
    plural,
    points,
    unsigned,
)
from stimuli.human import HumanIntensities, read_human
from stimuli.narratives import emotion_valence

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark


def draw_ratings(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Draw the figures of a run of ratings; see :meth:`audit.tasks.base.Task.draw`."""
    from audit.figures.gallery import draw_figures

    return draw_figures(
        tables,
        low=manifest.scale.low,
        high=manifest.scale.high,
        confidence=manifest.statistics.confidence,
        margin=manifest.statistics.margin,
        clusters=manifest.clusters,
    )


def publish_ratings(folder: RunFolder, manifest: Manifest) -> Published:
    """Analyse a run of ratings and render it; see :meth:`audit.tasks.base.Task.publish`."""
    from audit.figures.style import page_svgs
    from audit.report.controlled import control_lines
    from audit.report.render import render_report
    from audit.statistics.analysis import analyse
    from audit.statistics.calls import call_table
    from audit.statistics.controls import Repetition
    from audit.statistics.elicitation import elicitation_tables
    from audit.statistics.manipulation import manipulation_rows
    from audit.statistics.norming import norming_table
    from audit.statistics.people import human_table
    from audit.statistics.people_gap import people_gap_tables
    from audit.statistics.ratings import without_dimensions
    from audit.statistics.texts import text_tables, texts_remarks
    from audit.tables.ratings import MANIPULATION
    from audit.tables.registry import OF_RATINGS

    ratings = folder.ratings_of(manifest, unfinished=manifest.status == "running")
    n_of = count_of(ratings["status"])
    manifest = manifest.having(counts={**n_of, "total": len(ratings)})
    low, high = manifest.scale.low, manifest.scale.high
    settings, clusters = manifest.statistics, manifest.clusters
    analysis = analyse(
        ratings,
        scales={str(variant): (low, high) for variant in ratings["variant"].unique()},
        seed=manifest.seed,
        settings=estimated_by(settings),
        valence=emotion_valence(),
        clusters=clusters,
        repetition=Repetition(manifest.stems, manifest.placebo, manifest.cues),
    )
    of_groups = without_dimensions(ratings, manifest.placebo)
    elicited = elicitation_tables(
        ratings,
        _of_these(ratings, folder.read_answers("elicitation_sample")),
        _of_these(ratings, folder.read_answers("asked_again")),
        confidence=settings.confidence,
        stems=manifest.stems,
        placebo=manifest.placebo,
        notes=manifest.checks.get("elicitation_sample", Check()).notes,
        in_formats={dtype: _of_these(ratings, folder.read_answers(name)) for dtype, name in ASKED_IN.items()},
    )
    if elicited.noise is not None:
        varied = manifest.checks.get("asked_again", Check()).varied
        manifest = manifest.having(noise=_finite(asdict(elicited.noise)) | {"varied": varied})
    if elicited.noise_formats or manifest.noise_formats:
        in_formats = {
            name: _finite(asdict(floor)) | {"varied": manifest.checks.get(f"asked_in_{name}", Check()).varied}
            for name, floor in elicited.noise_formats.items()
        }
        manifest = manifest.having(noise_formats=in_formats)
    stages = folder.read_stages()
    scored, manifest = score_stages(folder, stages, of_groups, manifest)
    on_texts = text_tables(scored, confidence=settings.confidence)
    human = _human(settings, ratings)
    beside = human_table(
        analysis.tables["narratives"],
        human.mean if human is not None else {},
        seed=manifest.seed,
        confidence=settings.confidence,
    )
    if human is not None:
        manifest = manifest.having(human={name: value for name, value in asdict(human).items() if name != "mean"})
    tables = {**analysis.tables, "elicitation": elicited.elicitation}
    tables["controls"] = _below(tables["controls"], elicited.controls)
    followed = list(manipulation_rows(folder.read_manipulated(), confidence=settings.confidence))
    tables["manipulation"] = pd.DataFrame(followed, columns=list(MANIPULATION))
    tables |= {"calls": call_table(of_groups, stages), **on_texts, "human": beside}
    tables |= people_gap_tables(
        folder.read_people("intensity"),
        folder.read_people("raters"),
        of_groups,
        confidence=settings.confidence,
        stems=manifest.stems,
    )
    tables["norming"] = norming_table(folder.read_people("norming"), low=low, high=high)
    remarks = (
        *_remarkson_run(manifest, ratings),
        *_not_followed(followed),
        *_below_noise(tables["gap"], tables["controls"]),
        *analysis.remarks,
        *on_thoughts(stages, of_groups, manifest),
        *texts_remarks(on_texts["stage_texts"], confidence=settings.confidence),
    )
    drawn = draw_ratings(manifest, tables)
    figures = page_svgs(drawn)
    html = render_report(
        manifest=manifest,
        tables=tables,
        figures=figures,
        remarks=remarks,
        explorer=explorer_of(folder.path, manifest, of_groups, tables, stages=stages, given=folder.read_given()),
    )
    report = write_all(folder, manifest, tables, drawn, figures, html, known=OF_RATINGS)
    said = tuple(control_lines(tables["controls"]))
    lines = _lines(tables["gap"], confidence=settings.confidence)
    return Published(folder.path, report, tables["gap"], settings.confidence, remarks, lines, said)


def _lines(gap: pd.DataFrame, *, confidence: float) -> list[tuple[str, ...]]:
    """Return what is printed of the gaps that stand in headlines."""
    head = ("dimension", "variant", "speaks of", "average gap (points)", f"{coverage(confidence)} interval")
    lines: list[tuple[str, ...]] = [(*head, "p", "corrected p", "from")]
    for row in gap[gap["headline"]].to_dict("records"):
        estimated = row["se"] == row["se"]
        counts = (
            f"{count(row['n_narratives'])} of {plural(row['n_narratives_asked'], 'narrative')}, "
            f"{plural(row['n_missing'], 'rating')} missing"
        )
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["variant"],
                SCOPES[row["scope"]],
                points(row["delta_points"]),
                interval(row["ci_low"], row["ci_high"]) if estimated else "none",
                p_value(row["p"]) if estimated else "none",
                bare_p(row["p_adjusted"]),
                counts if row["scope"] == "narratives" else row["note"] or plural(row["df"] + 1, "group"),
            )
        )
    return lines


def _of_these(ratings: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers to prompts that have a rating: of a run that is not finished some may be asked anew."""
    return answers[answers["prompt_index"].isin(ratings["prompt_index"])].reset_index(drop=True)


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return numbers as JSON takes them: what is missing is null."""
    return {name: value if value == value else None for name, value in values.items()}


def _below(table: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Return a table with rows of another one beneath its own."""
    return pd.concat([table, more], ignore_index=True) if len(more) else table


def _human(statistics: Statistics, ratings: pd.DataFrame) -> HumanIntensities | None:
    """Read the intensities that people gave, where there are any."""
    if statistics.human is None:
        return None
    return read_human(
        statistics.human,
        set(map(str, ratings["narrative_id"].unique())),
        id_column=statistics.human_id,
        rating_column=statistics.human_rating,
    )


def _remarkson_run(manifest: Manifest, ratings: pd.DataFrame) -> Iterator[Remark]:
    """Say what the run has not asked yet, and what the table of another tool leaves open."""
    yield from unfinished(manifest, ratings)
    n_unexplained = manifest.counts["unparseable"]
    if not manifest.outside.status_given and n_unexplained:
        yield on_run(
            "missing_unexplained",
            f"The table of ratings does not say why {plural(n_unexplained, 'rating')} "
            f"{either(n_unexplained, 'is missing: it counts', 'are missing: they count')} as unparseable, "
            "and the refusal gap is not known."
            + ("" if manifest.outside.released else " A column `status` would tell."),
        )


def _not_followed(manipulation: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """Say which manipulation checks the model failed."""
    what = {
        "emotion": "a narrative's own emotion was not found to be rated higher than a wrong one",
        "intensity": "the strong version of a situation was not found to be rated higher than the mild one",
    }
    for row in manipulation:
        if row["passed"] is False:
            yield on_run(
                "manipulation",
                f"Without any identity, {what[row['check']]}: {points(row['difference'])} points on average "
                f"({interval(row['ci_low'], row['ci_high'])}) over {plural(row['n_pairs'], 'narrative')}. Ratings "
                "that do not follow what is told say nothing of empathy.",
            )


def _below_noise(gap: pd.DataFrame, controls: pd.DataFrame) -> Iterator[Remark]:
    """Say which gaps are smaller than what asking again would change."""
    from audit.statistics.remarks import Remark

    of_noise = controls.loc[controls["control"] == "noise"].set_index(["dimension", "variant"])["se"]
    for row in gap.loc[gap["headline"].astype(bool) & (gap["scope"] == "narratives")].to_dict("records"):
        noise = of_noise.get((row["dimension"], row["variant"]), float("nan"))
        if abs(row["delta_points"]) < 2 * noise:
            yield Remark(
                row["dimension"],
                row["variant"],
                "noise_floor",
                f"δ is below twice what it would vary by if the same prompts were asked again ({unsigned(noise)} "
                "points): it cannot be told from rounding.",
            )
