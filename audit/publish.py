"""Analyses what a run has collected, renders its report and writes both, without the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from audit.conversations import emotions_of, explorer_of, narratives_of, stages_are_told
from audit.measures.choose import JUDGE
from audit.runs.manifest import Check, Manifest, Statistics
from audit.store import ASKED_IN, RunFolder
from audit.tables.base import Table, dictionary
from audit.tables.ratings import Status
from audit.tables.replies import ReplyStatus
from audit.wording import either, interval, plural, points, unsigned
from stimuli.human import HumanIntensities, read_human
from stimuli.narratives import emotion_valence
from stimuli.stereotypes import load_stereotypes

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark
    from audit.statistics.rows import Settings


_OF_CORPORA: Final = frozenset({"emotion", "cause"})
"""Tasks about utterances of a corpus of conversations."""
_CORPUS_GONE: Final = (
    "The run folder has no corpus.json, which accuracy, F1 and exact match need: they are left out. The run's command, "
    "given again, writes it."
)


@dataclass(frozen=True)
class Outcome:
    """What a run ended in.

    Attributes
    ----------
    run_dir
        The run's folder.
    report
        The rendered report.
    gap
        ``tables/gap.csv``, see :data:`audit.tables.gap.GAP`; of a run of replies ``tables/measure_gaps.csv``, see
        :data:`audit.tables.replies.MEASURE_GAPS`.
    confidence
        Level of the intervals in ``gap``.
    remarks
        What a reader must know beside it, in plain words.
    controls
        What of each gap is repetition of words, in plain words.
    """

    run_dir: Path
    report: Path
    gap: pd.DataFrame
    confidence: float
    remarks: tuple[Any, ...]
    controls: tuple[str, ...] = ()


def publish(folder: RunFolder, manifest: Manifest) -> Outcome:
    """Analyse a run and render it; nothing is written, not even the manifest, before all has succeeded.

    Parameters
    ----------
    folder
        The run's; entered.
    manifest
        What it is to say; what the analysis finds is added.

    Raises
    ------
    AuditError
        If what was collected can not be read or analysed.
    """
    return _publish_replies(folder, manifest) if manifest.is_of_replies else _publish_ratings(folder, manifest)


def _publish_ratings(folder: RunFolder, manifest: Manifest) -> Outcome:
    from audit.figures.gallery import draw_figures
    from audit.figures.style import figure_bytes
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

    unfinished = manifest.status == "running"
    ratings = folder.read_ratings(n_prompts=manifest.n_prompts, unfinished=unfinished)
    counts = ratings["status"].value_counts()
    n_of = {str(status): int(counts.get(str(status), 0)) for status in Status}
    manifest = manifest.having(counts={**n_of, "total": len(ratings)})
    low, high = manifest.scale.low, manifest.scale.high
    settings, clusters = manifest.statistics, manifest.clusters
    analysis = analyse(
        ratings,
        scales={str(variant): (low, high) for variant in ratings["variant"].unique()},
        seed=manifest.seed,
        settings=_settings(settings),
        valence=emotion_valence(),
        clusters=clusters,
        repetition=Repetition(manifest.stems, manifest.placebo, manifest.cues),
    )
    of_groups = without_dimensions(ratings, manifest.placebo)
    elicited = elicitation_tables(
        ratings,
        folder.read_answers("elicitation_sample"),
        folder.read_answers("asked_again"),
        confidence=settings.confidence,
        stems=manifest.stems,
        placebo=manifest.placebo,
        notes=manifest.checks.get("elicitation_sample", Check()).notes,
        in_formats={dtype: folder.read_answers(name) for dtype, name in ASKED_IN.items()},
    )
    if elicited.noise is not None:
        varied = manifest.checks.get("asked_again", Check()).varied
        manifest = manifest.having(noise=_finite(asdict(elicited.noise)) | {"varied": varied})
    if elicited.noise_formats or manifest.noise_formats:
        in_formats = {
            name: _finite(asdict(floor)) | {"varied": manifest.checks[f"asked_in_{name}"].varied}
            for name, floor in elicited.noise_formats.items()
        }
        manifest = manifest.having(noise_formats=in_formats)
    stages = folder.read_stages()
    scored, manifest = _score_stages(folder, stages, of_groups, manifest)
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
        *_remarks_on_run(manifest, ratings),
        *_not_followed(followed),
        *_below_noise(tables["gap"], tables["controls"]),
        *analysis.remarks,
        *texts_remarks(on_texts["stage_texts"], confidence=settings.confidence),
    )
    drawn = draw_figures(
        tables,
        low=low,
        high=high,
        confidence=settings.confidence,
        margin=settings.margin,
        clusters=clusters,
    )
    figures = {name: figure_bytes(figure, "svg") for name, figure in drawn.items()}
    html = render_report(
        manifest=manifest,
        tables=tables,
        figures=figures,
        remarks=remarks,
        explorer=explorer_of(folder.path, manifest, of_groups, tables, stages=stages, given=folder.read_given()),
    )
    report = write_all(folder, manifest, tables, drawn, figures, html, known=OF_RATINGS)
    said = tuple(control_lines(tables["controls"]))
    return Outcome(folder.path, report, tables["gap"], settings.confidence, remarks, said)


def _publish_replies(folder: RunFolder, manifest: Manifest) -> Outcome:
    from audit.figures.measures import draw_measures
    from audit.figures.style import figure_bytes
    from audit.judge.own_gap import experiencer_effects
    from audit.measured import levels_of, measures_of, of_raters, reply_remarks
    from audit.raters import people_of
    from audit.recognised import read_corpus, recognised_tables
    from audit.report.replies import render_replies
    from audit.statistics.calls import call_table
    from audit.statistics.controls import Repetition
    from audit.statistics.conversations import told_apart_by
    from audit.statistics.epitome import epitome_table
    from audit.statistics.judged import judged_tables
    from audit.statistics.measures import measure_tables
    from audit.statistics.people import people_tables
    from audit.statistics.ratings import without_dimensions
    from audit.statistics.texts import text_tables, texts_remarks
    from audit.tables.registry import OF_REPLIES

    unfinished = manifest.status == "running"
    replies = folder.read("replies", n_prompts=manifest.n_prompts, unfinished=unfinished)
    counts = replies["status"].value_counts()
    n_of = {str(status): int(counts.get(str(status), 0)) for status in ReplyStatus}
    manifest = manifest.having(counts={**n_of, "total": len(replies)})
    settings, seed = manifest.statistics, manifest.seed
    how = _settings(settings)
    counted = {name: folder.read_score_counts(name) for name in manifest.scorers}
    repetition = Repetition(manifest.stems, manifest.placebo, manifest.cues)
    of_groups = without_dimensions(replies, repetition.placebo)
    measures, measured = measures_of(manifest, replies, folder.read_scores(), counted)
    values = pd.DataFrame({each.name: each.values for each in measured if each.values is not None})
    values = values.drop(columns=[status.value for status in ReplyStatus if status in values])
    human = folder.read_people()
    of_people, given = people_of(manifest.people, human)
    if of_people:
        measures = pd.concat([pd.DataFrame(of_people, columns=list(measures)), measures], ignore_index=True)
    tables = {"measures": measures}
    tables |= measure_tables(
        replies,
        [*of_raters(given), *measured],
        seed=seed,
        settings=how,
        valence=emotion_valence(),
        clusters=manifest.clusters,
        conversation_of=told_apart_by(manifest.stimuli.source),
        repetition=repetition,
    )
    levels = levels_of(manifest.scorers, values)
    tables["epitome"] = epitome_table(of_groups, levels, manifest.epitome_labels, confidence=settings.confidence)
    judged = folder.read_judged()
    if JUDGE not in manifest.scorers:  # of a judge that is not to be had any more
        judged = judged.iloc[:0]
    tables |= judged_tables(
        judged,
        experiencer_effects(judged),
        variant=manifest.prompt.variant,
        seed=seed,
        settings=how,
    )
    assert manifest.task is not None
    kind = manifest.task.kind
    corpus = read_corpus(folder) if kind in _OF_CORPORA else None
    if corpus is not None:
        tables |= recognised_tables(kind, of_groups, values, corpus, seed=seed, confidence=settings.confidence)
    tables |= people_tables(human, values, of_groups, seed=seed, confidence=settings.confidence)
    stages = folder.read_stages()
    scored, manifest = _score_stages(folder, stages, of_groups, manifest)
    on_texts = text_tables(scored, confidence=settings.confidence)
    tables |= {"calls": call_table(of_groups, stages), **on_texts}
    remarks = (
        *_unfinished(manifest, replies),
        *_unscored(manifest, folder),
        *_on_judge(manifest, measures, min_number_mass=settings.min_number_mass),
        *([_on_run("corpus_gone", _CORPUS_GONE)] if kind in _OF_CORPORA and corpus is None else []),
        *reply_remarks(of_groups, manifest),
        *texts_remarks(on_texts["stage_texts"], confidence=settings.confidence),
    )
    drawn = draw_measures(tables, confidence=settings.confidence)
    figures = {name: figure_bytes(figure, "svg") for name, figure in drawn.items()}
    html = render_replies(
        manifest=manifest,
        tables=tables,
        figures=figures,
        remarks=remarks,
        replies=of_groups,
        values=values,
        narratives=narratives_of(folder.path, manifest),
    )
    report = write_all(folder, manifest, tables, drawn, figures, html, known=OF_REPLIES)
    return Outcome(folder.path, report, tables["measure_gaps"], settings.confidence, remarks)


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return numbers as JSON takes them: what is missing is null."""
    return {name: value if value == value else None for name, value in values.items()}


def _below(table: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Return a table with rows of another one beneath its own."""
    return pd.concat([table, more], ignore_index=True) if len(more) else table


def _settings(statistics: Statistics) -> Settings:
    """Return what the estimators take of the configuration's statistics."""
    from audit.statistics.rows import Settings

    return Settings(**{field.name: getattr(statistics, field.name) for field in fields(Settings)})


def _score_stages(
    folder: RunFolder, stages: pd.DataFrame, answers: pd.DataFrame, manifest: Manifest
) -> tuple[pd.DataFrame, Manifest]:
    """Score what stages wrote, and return that and the manifest, which says by which words."""
    from audit.measures.emotion import EmotionScorer, run_vocabulary
    from audit.texts.scores import score_stages

    if stages.empty:
        return score_stages(stages, answers, lexicon=load_stereotypes()), manifest
    lexicon = load_stereotypes(manifest.statistics.stereotypes)
    manifest = manifest.having(stereotypes={"source": lexicon.source, "sha256": lexicon.sha256})
    if stages_are_told(manifest):
        return score_stages(stages, answers, lexicon=lexicon), manifest
    words = emotions_of(folder.path, manifest)
    emotions = EmotionScorer(run_vocabulary(answers["emotion"].unique(), words))
    kept = {"words": {emotion: asdict(own) for emotion, own in words.items()}}
    scored = score_stages(stages, answers, lexicon=lexicon, read_emotions=emotions.read)
    return scored, manifest.having(emotions=emotions.facts | kept)


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


def write_all(
    folder: RunFolder,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    drawn: Mapping[str, Any],
    svg: Mapping[str, bytes],
    html: str,
    *,
    known: Sequence[Table],
) -> Path:
    """Write what an analysis made, in place of an earlier one's, and return where the report is.

    Parameters
    ----------
    folder
        The run's; entered.
    manifest, tables, html
        What the files are to hold.
    drawn, svg
        The figures by name, and the same as SVG.
    known
        All tables that the folder may hold, which ``dictionary.csv`` describes.

    Raises
    ------
    StoreError
        If the disk is full or the place may not be written to.
    """
    from audit.figures.style import figure_files

    described = {table.name: table for table in known}
    files = {name: described[name].csv(table) for name, table in tables.items()}
    folder.write_manifest(manifest)
    for name in ("tables", "figures"):
        folder.clear(name)
    for name, content in files.items():
        folder.write_file(f"tables/{name}.csv", content)
    folder.write_file("tables/dictionary.csv", dictionary(known))
    for name, figure in drawn.items():
        for file, content in figure_files(name, figure, svg[name]).items():
            folder.write_file(file, content)
    return folder.write_file("report.html", html.encode())


def _remarks_on_run(manifest: Manifest, ratings: pd.DataFrame) -> Iterator[Remark]:
    """Say what the run has not asked yet, and what the table of another tool leaves open."""
    yield from _unfinished(manifest, ratings)
    n_unexplained = manifest.counts["unparseable"]
    if not manifest.outside.status_given and n_unexplained:
        yield _on_run(
            "missing_unexplained",
            f"The table of ratings does not say why {plural(n_unexplained, 'rating')} "
            f"{either(n_unexplained, 'is missing: it counts', 'are missing: they count')} as unparseable, "
            "and the refusal gap is not known."
            + ("" if manifest.outside.released else " A column `status` would tell."),
        )


def _unfinished(manifest: Manifest, answers: pd.DataFrame) -> Iterator[Remark]:
    """Say what the run has not asked yet, and what its strategy could not bring."""
    n_missing = manifest.n_prompts - len(answers)
    if n_missing:
        begun = set(map(str, answers["dimension"].unique()))
        untouched = [name for name in manifest.dimensions if name not in begun]
        nothing = f", and none of {', '.join(untouched)}" if untouched else ""
        yield _on_run(
            "unfinished",
            f"{len(answers):,} of {plural(manifest.n_prompts, 'prompt')} {either(len(answers), 'has', 'have')} "
            f"been asked{nothing}; the run's command, given "
            "again, asks the others.",
        )
    n_empty = manifest.strategy.knowledge.n_empty
    if n_empty:
        yield _on_run(
            "knowledge_empty",
            f"COMET inferred nothing for {plural(n_empty, 'relation')} of narratives: prompts show a blank there.",
        )


def _unscored(manifest: Manifest, folder: RunFolder) -> Iterator[Remark]:
    """Say which scorers have not come to all replies yet."""
    there = folder.shards("replies")
    for name in manifest.wanted:
        if name not in manifest.absent and (name not in manifest.scorers or there - folder.scored(name)):
            yield _on_run(
                "unfinished",
                f"{name} has not scored all replies yet: those that it has not count as without a number; the run's "
                "command, given again, goes on.",
            )


def _on_judge(manifest: Manifest, measures: pd.DataFrame, *, min_number_mass: float) -> Iterator[Remark]:
    """Say what limits the scores of a judge, and what its own gap was not asked of."""
    taken = manifest.scorers.get(JUDGE)
    if taken is None:
        return
    own = measures.loc[measures["measure"].isin([each["name"] for each in taken.measures])]
    unsure = own.loc[own["mean_mass"] < min_number_mass].sort_values("mean_mass", kind="stable")
    if len(unsure):
        least = unsure.iloc[0]
        yield _on_run(
            "judge_mass",
            f"On average the judge gives a probability of only {least['mean_mass']:.2f} to answering with a number of "
            f"the scale ({least['title']}): its scores say nothing of the rest of what it would write.",
        )
    for dimension, n in taken.own_gap.left_out.items():
        if n:
            yield _on_run(
                "own_gap_left_out",
                f"Of {dimension}, {plural(n, 'narrative')} can not tell of the judge's own gap: they name whom each of "
                "their replies is to, so that a reply can not be shown as one to somebody else.",
            )


def _not_followed(manipulation: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """Say which manipulation checks the model failed."""
    what = {
        "emotion": "a narrative's own emotion was not found to be rated higher than a wrong one",
        "intensity": "the strong version of a situation was not found to be rated higher than the mild one",
    }
    for row in manipulation:
        if row["passed"] is False:
            yield _on_run(
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
                "points): it can not be told from rounding.",
            )


def _on_run(code: str, text: str) -> Remark:
    from audit.statistics.remarks import Remark

    return Remark(dimension="", variant="", code=code, text=text)
