"""Analyses the ratings of a run, renders its report and writes both, without the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from audit.asking.conversations import what_was_asked
from audit.configuration.analysis_settings import REFUSAL_MARGIN, AnalysisSettings
from audit.report.explorer import Explorer, explore
from audit.runs.manifest import Manifest, RecordedCheck
from audit.runs.store import RunFolder
from audit.tables.formatting import count, either, interval, magnitude, plural, unsigned
from audit.tables.people import PEOPLE_INTENSITIES, RATERS, READINGS
from audit.tables.ratings import ASKED_AGAIN, ASKED_IN_FORMATS, ELICITATION_SAMPLE, MANIPULATED, NARRATIVE_COVARIATES
from audit.tables.stages import GIVEN, STAGES
from audit.tasks.base import Published
from audit.tasks.intensity.released_answers import released_answers
from audit.tasks.limits import (
    OF_TABLE,
    codes_of_run,
    codes_of_table,
    limits_of,
    manipulation_rows_of_run,
    sees_refusals,
    told_response,
)
from audit.tasks.measures.stage_scores import score_run_stages
from audit.tasks.publishing import count_of, on_run, on_thoughts, unfinished, write_all
from stimuli.human import HumanIntensities, read_human
from stimuli.manipulation import LEAST
from stimuli.narratives import emotion_valence

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark
    from audit.statistics.verdict import Limits


def draw_ratings(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Draw the figures of a run of ratings; see :meth:`audit.tasks.base.Task.draw`."""
    from audit.report.figures.gallery import draw_figures

    return draw_figures(
        tables,
        low=manifest.scale.low,
        high=manifest.scale.high,
        confidence=manifest.statistics.confidence,
        margin=manifest.statistics.margin,
        clusters=manifest.clusters,
        replicates=manifest.replicates,
    )


def publish_ratings(folder: RunFolder, manifest: Manifest) -> Published:
    """Analyse a run of ratings and render it; see :meth:`audit.tasks.base.Task.publish`."""
    from audit.people.gap import people_gap_tables
    from audit.people.measure_agreement import human_table
    from audit.people.norming import norming_table
    from audit.report.figures.style import page_svgs
    from audit.statistics.analysis import analyse
    from audit.statistics.anchors import within_scale
    from audit.statistics.average_gaps import judged_rows
    from audit.statistics.calls import call_table
    from audit.statistics.controls import Repetition
    from audit.statistics.disparity_answers import beside_response, with_limits
    from audit.statistics.elicitation import elicitation_tables
    from audit.statistics.manipulation import response_of
    from audit.statistics.ratings import groups_by_dimension, without_dimensions
    from audit.statistics.remarks import written_differs
    from audit.statistics.text_differences import text_tables, texts_remarks
    from audit.tables.ratings import MANIPULATION, TRIALS
    from audit.tables.run_of_ratings import TABLES, described_in
    from audit.tables.verdicts import JUDGED, VERDICTS
    from audit.tasks.intensity.page import render_report

    ratings = folder.ratings_of(manifest, unfinished=manifest.status == "running")
    explained = manifest.outside.status_given
    n_of = count_of(ratings["status"])
    if not explained and n_of["rated"] < len(ratings):
        # The table does not say why a rating is missing, so refusals and failures cannot be counted.
        n_of = {name: n_of[name] for name in ("rated", "unparseable")}
    manifest = manifest.having(counts={**n_of, "total": len(ratings)})
    low, high = manifest.scale.low, manifest.scale.high
    settings, clusters = manifest.statistics, manifest.clusters
    of_groups = without_dimensions(ratings, manifest.placebo)
    covariates = manifest.covariates.given
    if covariates is not None and manifest.status == "complete":  # else groups may not have been asked about yet
        covariates.check(groups_by_dimension(of_groups))
    analysis = analyse(
        ratings,
        scales={str(variant): (low, high) for variant in ratings["variant"].unique()},
        seed=manifest.seed,
        settings=settings,
        valence=emotion_valence() | dict(manifest.stimuli.valence),
        clusters=clusters,
        repetition=Repetition(manifest.stems, manifest.placebo, manifest.cues, manifest.pairs_drawn),
        sees_refusals=sees_refusals(manifest, ratings),
        reasons_known=explained,
        replicates=manifest.replicates,
        covariates=covariates,
        narratives=folder.table(NARRATIVE_COVARIATES).frame(),
    )
    elicited = elicitation_tables(
        ratings,
        _of_these(ratings, folder.table(ELICITATION_SAMPLE).frame()),
        _of_these(ratings, folder.table(ASKED_AGAIN).frame()),
        confidence=settings.confidence,
        stems=manifest.stems,
        placebo=manifest.placebo,
        notes=manifest.checks.get("elicitation_sample", RecordedCheck()).notes,
        in_formats={
            dtype: _of_these(ratings, folder.table(table).frame()) for dtype, table in ASKED_IN_FORMATS.items()
        },
    )
    if elicited.noise is not None:
        varied = manifest.checks.get("asked_again", RecordedCheck()).varied
        manifest = manifest.having(noise=_finite(asdict(elicited.noise)) | {"varied": varied})
    if elicited.noise_formats or manifest.noise_formats:
        in_formats = {
            name: _finite(asdict(floor)) | {"varied": manifest.checks.get(f"asked_in_{name}", RecordedCheck()).varied}
            for name, floor in elicited.noise_formats.items()
        }
        manifest = manifest.having(noise_formats=in_formats)
    stages = folder.parts(STAGES).frame()
    scored, manifest = score_run_stages(folder, stages, of_groups, manifest)
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
    without = {(remark.dimension, remark.variant) for remark in analysis.remarks if remark.code == "no_perceivers"}
    places = zip(elicited.controls["dimension"], elicited.controls["variant"], strict=True)
    asked_as = [place not in without for place in places]  # else what asking again changes is no δ
    tables["controls"] = _below(tables["controls"], elicited.controls.loc[asked_as])
    tables = within_scale(tables, TABLES, dict.fromkeys(ratings["variant"].unique(), abs(high - low)))
    followed = manipulation_rows_of_run(folder.table(MANIPULATED).frame(), manifest)
    tables["manipulation"] = pd.DataFrame(followed, columns=list(MANIPULATION))
    if manifest.elicitation.trials is not None:
        tried = [each.model_dump() for each in manifest.elicitation.trials.tried]
        tables["trials"] = pd.DataFrame(tried, columns=list(TRIALS))
    tables |= {"calls": call_table(of_groups, stages), **on_texts, "human": beside}
    tables |= people_gap_tables(
        folder.table(PEOPLE_INTENSITIES).frame(),
        folder.table(RATERS).frame(),
        of_groups,
        confidence=settings.confidence,
        stems=manifest.stems,
    )
    tables["norming"] = norming_table(folder.table(READINGS).frame(), low=low, high=high)
    on_released: tuple[Remark, ...] = ()
    if manifest.outside.released and explained:
        tables["reading_rules"], on_released = released_answers(ratings, low=low, high=high)
    remarks = (
        *_remarks_on_run(manifest, ratings),
        *on_released,
        *_not_followed(followed, manifest),
        *_below_noise(tables["gap"], tables["controls"]),
        *analysis.remarks,
        *written_differs(elicited.elicitation.to_dict("records"), length=abs(high - low)),
        *on_thoughts(stages, of_groups, manifest),
        *texts_remarks(on_texts["stage_texts"], confidence=settings.confidence),
    )
    of_table = OF_TABLE & {remark.code for remark in remarks}
    limits = _limits(codes_of_run(followed, manifest) | of_table, remarks)
    tables["disparity"] = beside_response(with_limits(tables["disparity"], limits), response_of(followed))
    judged, verdicts = analysis.averages.verdicts(
        limits,
        margin=settings.margin,
        refusal_margin=REFUSAL_MARGIN,
        response=told_response(followed),
    )
    tables["verdicts"] = pd.DataFrame([each.row() for each in verdicts], columns=list(VERDICTS))
    tables["judged"] = pd.DataFrame(judged_rows(judged), columns=list(JUDGED))
    drawn = draw_ratings(manifest, tables)
    figures = page_svgs(drawn)
    html = render_report(
        manifest=manifest,
        tables=tables,
        figures=figures,
        remarks=remarks,
        explorer=_explorer(folder.path, manifest, of_groups, tables, stages=stages, given=folder.table(GIVEN).rows()),
    )
    report = write_all(folder, manifest, tables, drawn, figures, html, known=described_in(tables))
    return Published(folder.path, report, tables["gap"], settings.confidence, remarks, html.summary)


def _limits(on_run: set[str], remarks: Sequence[Remark]) -> Limits:
    """Return what limits the gaps: all of them, by codes that gate and comparison share; single ones, by remarks."""
    on_place: dict[tuple[str, ...], set[str]] = {}
    for remark in remarks:
        if remark.dimension:
            on_place.setdefault((remark.dimension, remark.variant), set()).add(remark.code)
    return limits_of(on_run, on_place)


def _of_these(ratings: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Keep the answers to prompts that have a rating: in an unfinished run some may be asked anew."""
    return answers[answers["prompt_index"].isin(ratings["prompt_index"])].reset_index(drop=True)


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return numbers for JSON, NaN as null."""
    return {name: value if value == value else None for name, value in values.items()}


def _below(table: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Append the rows of another table."""
    return pd.concat([table, more], ignore_index=True) if len(more) else table


def _human(statistics: AnalysisSettings, ratings: pd.DataFrame) -> HumanIntensities | None:
    """Read the intensities that people gave, if there are any."""
    if statistics.human is None:
        return None
    return read_human(
        statistics.human,
        set(map(str, ratings["narrative_id"].unique())),
        id_column=statistics.human_id,
        rating_column=statistics.human_rating,
    )


def _remarks_on_run(manifest: Manifest, ratings: pd.DataFrame) -> Iterator[Remark]:
    """Remark on prompts not asked yet, texts cut short, and what another tool's table leaves open."""
    yield from unfinished(manifest, ratings)
    cut = ratings["cut"].fillna(False).astype(bool)
    if n_cut := int(cut.sum()):
        n_unread = int((cut & (ratings["status"].astype(str) != "rated")).sum())
        by = "the tool that asked allowed" if manifest.model.elsewhere is not None else "elicitation.max_tokens allows"
        yield on_run(
            "responses_cut",
            f"{plural(n_cut, 'response')} of {len(ratings):,} {either(n_cut, 'was', 'were')} cut: longer than {by}. "
            f"{n_unread:,} of these {either(n_unread, 'has', 'have')} no rating"
            + (
                ". Allow more tokens."
                if manifest.elicitation.parser == "hou2025"  # reads a number wherever the text ends
                else ", because a number that may continue after the cut is not read. Allow more tokens."
            ),
        )
    yield from on_table(manifest, ratings)
    n_unexplained = manifest.counts.get("unparseable", 0)
    if not manifest.outside.status_given and n_unexplained:
        yield on_run(
            "missing_unexplained",
            f"The table of ratings does not say why {plural(n_unexplained, 'rating')} "
            f"{either(n_unexplained, 'is', 'are')} missing. So the number of refusals and the refusal gap are not "
            f"known." + ("" if manifest.outside.released else " Add a column `status` to tell."),
        )


def on_table(manifest: Manifest, ratings: pd.DataFrame) -> Iterator[Remark]:
    """Warn that another tool's table may repeat narratives, or be on another scale."""
    from audit.statistics.remarks import n_repeated

    codes = {*codes_of_table(manifest, ratings)}
    if "scale_unused" in codes:
        low, high = manifest.scale.low, manifest.scale.high
        yield on_run(
            "scale_unused",
            f"All ratings lie between {ratings['intensity'].min():g} and {ratings['intensity'].max():g}, and the scale "
            f"is said to go from {low:g} to {high:g}. If they were given on a shorter scale, state its ends (low=, "
            "high=): on a scale that is stated too long every gap looks small.",
        )
    if "narratives_repeated" in codes:
        n, n_twice = ratings["narrative_id"].nunique(), n_repeated(ratings)
        yield on_run(
            "narratives_repeated",
            f"{n_twice:,} of {plural(n, 'narrative')} {either(n_twice, 'has', 'have')} exactly the same ratings as "
            "another one. If the table contains a narrative several times, all intervals are too narrow: remove the "
            "duplicates.",
        )


def _not_followed(followed: Sequence[Mapping[str, Any]], manifest: Manifest) -> Iterator[Remark]:
    """Remark on checks of what ratings follow that failed or were inconclusive, if that limits the gaps."""
    from audit.statistics.manipulation import CHECKS, codes_of

    by_check = {str(row["check"]): row for row in followed}
    n_available = manifest.checks.get("manipulation", RecordedCheck()).n_available or math.inf
    for code in codes_of(followed):
        check = "intensity" if code == "intensity_not_followed" else next(name for name in CHECKS if name in by_check)
        yield on_run(code, _on_check(by_check[check], code, n_available=n_available))


def _on_check(row: Mapping[str, Any], code: str, *, n_available: float) -> str:
    """Return the remark on one check."""
    if not row["n_pairs"]:
        return f"It is not known whether ratings match the story: {row['note']}."
    higher, lower = {
        "emotion": ("a story's own emotion", "a wrong one"),
        "intensity": ("the strong version of a situation", "the mild one"),
    }[row["check"]]
    spread = f" ({interval(row['ci_low'], row['ci_high'])})" if row["ci_low"] == row["ci_low"] else ""
    apart = row["difference"]
    told = (
        f"Without any identity, {higher} was rated {magnitude(apart)} points {'lower' if apart < 0 else 'higher'} "
        f"than {lower}{spread}, over {plural(row['n_pairs'], 'narrative')}"
    )
    least = f"{unsigned(row['least_response'])} points"
    if code == "manipulation":
        so = "Such ratings say nothing about empathy."
        return f"Ratings do not match the story. {told}; more than {least} is required. {so}"
    if code == "intensity_not_followed":
        so = "Equal ratings may be due to that, so no gap is ruled out. A gap that was found is still a gap."
        return f"Ratings do not match how strong the emotion is. {told}; more than {least} is required. {so}"
    said = f"It is not clear whether ratings match the story. {told}; more than {least} is required"
    n = row["n_needed"]
    if n != n:
        return f"{said} ({row['note']})." if row["note"] else f"{said}."
    if row["ci_low"] <= 0:  # more narratives tell whether ratings follow, and make none do so
        said += (
            ". They may not depend on the story at all: look at the answers, and change the prompt (prompt=) or how "
            "ratings are obtained (elicitation=) first"
        )
    said += f". {plural(n, 'narrative')} would decide"
    if n > n_available:
        return f"{said}, but this source has only {count(n_available)}: use a larger one."
    n = max(n, LEAST + 1)  # today's default alone makes no run of an earlier version ask again
    return f"{said}: give the same command again with elicitation.manipulation={n:.0f}."


def _below_noise(gap: pd.DataFrame, controls: pd.DataFrame) -> Iterator[Remark]:
    """Remark on gaps smaller than what asking again would change."""
    from audit.statistics.remarks import Remark

    of_noise = controls.loc[controls["control"] == "noise"].set_index(["dimension", "variant"])["se"]
    for row in gap.loc[gap["headline"].astype(bool) & (gap["scope"] == "narratives")].to_dict("records"):
        noise = of_noise.get((row["dimension"], row["variant"]), float("nan"))
        if abs(row["delta"]) < 2 * noise:
            yield Remark(
                row["dimension"],
                row["variant"],
                "noise_floor",
                f"δ is less than twice what it would change by if the same prompts were asked again ({unsigned(noise)} "
                "points). It cannot be told from rounding.",
            )


def _explorer(
    folder: Path,
    manifest: Manifest,
    ratings: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    *,
    stages: pd.DataFrame,
    given: Sequence[Mapping[str, Any]],
) -> Explorer:
    """Pack the part of the report that readers can explore, with the prompts if they are known."""
    asked, why_not = what_was_asked(folder, manifest, ratings, stages=stages, given=given)
    return explore(
        ratings,
        tables,
        low=manifest.scale.low,
        high=manifest.scale.high,
        seed=manifest.seed,
        asked=asked,
        clusters=manifest.clusters,
        confidence=manifest.statistics.confidence,
        no_prompts=why_not,
    )
