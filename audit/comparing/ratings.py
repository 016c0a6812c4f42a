"""The comparison of runs of ratings: gaps, differences between them, and the effects of strategies and elicitations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from audit.comparing.base import ComparedRun, Differences, RunsCompared, texts_of, which
from audit.comparing.series import RunPositions, check_asked_alike, position_names, series_points, tables_of_series
from audit.comparing.tables import COMPARISON_TABLES
from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import NotEstimableError
from audit.runs.differences import (
    choice_table,
    choices_of,
    differing_choices,
    elicitation_sets,
    engine_remarks,
    reference_runs,
    telling_choices,
)
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.disparity import REFUSALS
from audit.tables.formatting import coverage, dimension_title
from audit.tables.ratings import ASKED_AGAIN, MANIPULATED, Status
from audit.tables.shared import OVERALL
from audit.tables.stages import STAGES
from stimuli.stereotypes import load_stereotypes

if TYPE_CHECKING:
    from audit.comparing.run_gaps import RatingGaps
    from audit.statistics.verdict import Limits

_DRAWN: Final = 60
"""Most runs in a figure; the tables have all."""
_GROUPS_DRAWN: Final = 3
_ASIDE: Final = 7
"""Most panels in a row of a figure: the number of variants in the study."""
_UNKNOWN: Final = "outside"
"""Stands for texts that are unknown, as in a table of ratings."""


@dataclass(frozen=True, kw_only=True)
class RatedRun(ComparedRun):
    """A run's ratings in one of its prompt variants.

    ``text_differences`` are numbers of tests and of differences found in the texts of the stages, by dimension and
    variant; ``checks`` codes of what limits all gaps of the run; ``disparity`` the rows of ``gaps.disparity`` as they
    hold, by the rules of the run's own page; ``followed`` those of ``tables.MANIPULATION``.
    """

    gaps: RatingGaps
    text_differences: Mapping[tuple[str, str], tuple[int, int]]
    checks: frozenset[str]
    disparity: tuple[dict[str, Any], ...] = ()
    followed: Sequence[Mapping[str, Any]] = ()


class RatingComparison(RunsCompared[RatedRun]):
    """Compares runs of ratings."""

    described, collected, takes_series = COMPARISON_TABLES, "ratings", True
    settings = ("confidence", "margin", "n_permutations", "min_number_mass", "least_gap", "missing_shift", "power")

    def __init__(
        self, manifests: Mapping[Path, Manifest], used: AnalysisSettings, series: RunPositions | None = None
    ) -> None:
        super().__init__(manifests, used, series)
        # One word list for all runs: that of the first run with stages.
        led = (manifest.statistics.stereotypes for manifest in manifests.values() if manifest.strategy.stages)
        self.lexicon = load_stereotypes(next(led, None))
        self.facts = {"stereotypes": {"source": self.lexicon.source, "sha256": self.lexicon.sha256}}
        if series is not None:
            self.facts["series"] = series.content()
        self.replicates = all(manifest.replicates for manifest in manifests.values())

    def read(self, folder: Path) -> Iterator[RatedRun]:  # noqa: D102
        from audit.asking.conversations import emotions_of, stages_are_told
        from audit.comparing.costs import cost_of
        from audit.comparing.run_gaps import gaps_of_ratings
        from audit.statistics.controls import Repetition
        from audit.statistics.manipulation import response_of
        from audit.statistics.ratings import without_dimensions
        from audit.statistics.text_differences import count_differences, text_tables
        from audit.tasks.limits import (
            codes_of_run,
            manipulation_rows_of_run,
            noise_of_run,
            sees_refusals,
            told_response,
        )
        from audit.tasks.measures.emotion import EmotionScorer, run_vocabulary
        from audit.tasks.measures.text_scores import score_stages

        manifest, used = self.manifests[folder], self.used
        # No lock: a complete run does not change, and may lie in a read-only place.
        stored = RunFolder(folder)
        ratings = stored.ratings_of(manifest)
        digest = stored.ratings_sha256()
        stages = stored.parts(STAGES).frame()
        cost = cost_of(ratings, stages, n_prompts=manifest.n_prompts, seconds=manifest.timings.seconds_per_prompt)
        read = None
        if len(stages) and not stages_are_told(manifest):
            read = EmotionScorer(run_vocabulary(ratings["emotion"].unique(), emotions_of(folder, manifest))).read
        followed = manipulation_rows_of_run(stored.table(MANIPULATED).frame(), manifest, confidence=used.confidence)
        on_run = codes_of_run(followed, manifest, ratings)
        again = stored.table(ASKED_AGAIN).frame()
        noise = noise_of_run(manifest, ratings, again, confidence=used.confidence)
        repetition = Repetition(manifest.stems, manifest.placebo, manifest.cues, manifest.pairs_drawn)
        of_groups = without_dimensions(ratings, repetition.placebo)
        about = score_stages(stages, of_groups, lexicon=self.lexicon, read_emotions=read)
        written = text_tables(about, confidence=used.confidence)["stage_texts"]
        counts = ratings[["variant", "status"]].value_counts().to_dict()
        scale = manifest.scale.low, manifest.scale.high
        used.check_on_scale(low=scale[0], high=scale[1])
        for measured in gaps_of_ratings(
            ratings, scale=scale, seed=manifest.seed, settings=used, repetition=repetition,
            sees_refusals=sees_refusals(manifest, ratings), replicates=self.replicates,
        ):  # fmt: skip
            limits = _limits(measured, on_run, noise)
            yield RatedRun(
                folder=folder,
                manifest=manifest,
                gaps=measured,
                choices=choices_of(manifest, variant=measured.variant),
                counts={str(status): counts.get((measured.variant, str(status)), 0) for status in Status},
                cost=cost,
                text_differences=count_differences(written, confidence=used.confidence),
                sha256=digest,
                verdicts=tuple(_verdicts(measured, limits, used, told_response(followed))),
                checks=frozenset(on_run),
                disparity=measured.disparity_within(limits, response_of(followed)),
                followed=followed,
            )

    def compare(self, runs: Mapping[str, RatedRun], choices: Mapping[str, Mapping[str, str]]) -> Differences:  # noqa: D102
        from audit.comparing.changes import compare_runs, compared_gap_table, specification_rows, strategy_rows
        from audit.comparing.decided import sides_of, with_answers
        from audit.comparing.disparity_changes import disparity_change_rows
        from audit.comparing.first_screen import strategy_names
        from audit.comparing.paper_table import disparity_paper, paper_table, published_paper, strategies_paper
        from audit.comparing.rating_page import rating_page
        from audit.report.numbers import rows_of
        from audit.statistics.anchors import within_scale
        from audit.statistics.unexplained_missing import without_reasons

        used, confidence = self.used, self.used.confidence
        gaps = {label: run.gaps for label, run in runs.items()}
        texts, remarks = _texts(runs)
        references, sides = reference_runs(choices), sides_of(runs)
        led = strategy_rows(
            gaps,
            strategies={label: each["strategy"] for label, each in choices.items()},
            references=references,
            costs={label: run.cost for label, run in runs.items()},
            confidence=confidence,
        )
        refused = any(run.counts[Status.REFUSED] for run in runs.values())

        def told(row: Mapping[str, Any]) -> bool:
            return refused or row["outcome"] != REFUSALS

        tables = self.tables(
            runs,
            comparisons=with_answers(
                compare_runs(gaps, texts=texts, confidence=confidence), sides, confidence=confidence
            ),
            disparity=({"run": label, **row} for label, run in runs.items() for row in run.disparity if told(row)),
            manipulation=({"run": label, **row} for label, run in runs.items() for row in run.followed),
            disparity_changes=filter(
                told,
                disparity_change_rows(
                    gaps, {label: run.disparity for label, run in runs.items()}, texts=texts, confidence=confidence
                ),
            ),
            specifications=specification_rows(gaps),
            strategies=with_answers(led, sides, first="run", second="reference", confidence=confidence),
            **({} if self.series is None else self._along(self.series, runs, choices, texts)),
        )
        tables["gap"] = compared_gap_table(gaps)
        sets = elicitation_sets(choices)
        tables |= _elicitation_tables(gaps, sets, tables["verdicts"], confidence=confidence)
        lengths = {label: abs(each.scale[1] - each.scale[0]) for label, each in gaps.items()}
        tables = within_scale(tables, COMPARISON_TABLES, lengths)
        clusters = _clusters(runs)
        tables["published"] = _by_dimension(runs, "published")
        unmapped: list[str] = []
        if self.replicates:
            tables["published_cells"] = _by_dimension(runs, "published_cells")
            tables["perceiver_map"], unmapped = _perceiver_map(tables["published_cells"], runs, clusters)
        tables["strategies"] = _with_texts(tables["strategies"], runs)
        unexplained = {label: not run.manifest.outside.status_given for label, run in runs.items()}
        tables["runs"] = without_reasons(tables["runs"], of=tables["runs"]["run"].map(unexplained).astype(bool))
        unseen = [
            choices[run]["elicitation"].partition(",")[0] == "expected" or (unexplained[run] and missing > 0)
            for run, missing in zip(tables["strategies"]["run"], tables["strategies"]["missing_share"], strict=True)
        ]
        tables["strategies"].loc[unseen, "refusal_rate"] = float("nan")
        remarks = (*remarks, *_remarks(runs, used))
        for own in sets:
            first, *others = own
            remarks = (*remarks, *engine_remarks(choices, dict.fromkeys(others, first)))
        differing = choice_table(choices, differing_choices(list(choices.values())))
        named = choice_table(choices, telling_choices(list(choices.values())))
        papers = {
            "table": paper_table(tables["gap"], named, confidence=confidence, verdicts=tables["verdicts"]),
            "tables/published": published_paper(tables["published"], tables["gap"], confidence=confidence),
        }
        if len(tables["disparity"]):
            papers["tables/disparity"] = disparity_paper(tables["disparity"], named, confidence=confidence)
        if len(tables["strategies"]):
            names = strategy_names(rows_of(tables["strategies"], "strategies"))
            papers["tables/strategies"] = strategies_paper(tables["strategies"], names, confidence=confidence)

        def draw() -> dict[str, Any]:
            return _draw(tables, gaps, differing, used) | _draw_published(tables, choices, clusters)

        return Differences(tables, references, remarks, papers, partial(rating_page, unmapped=unmapped), draw)

    def _along(
        self,
        series: RunPositions,
        runs: Mapping[str, RatedRun],
        choices: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, str],
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the tables of a series."""
        check_asked_alike({label: run.gaps for label, run in runs.items()}, choices, texts)
        points = [
            point
            for label, run in runs.items()
            for point in series_points(label, series.positions[str(run.folder)], run.gaps, run.verdicts, run.disparity)
        ]
        return tables_of_series(points, series.per, confidence=self.used.confidence)


def _limits(measured: RatingGaps, on_run: set[str], noise: Mapping[tuple[str, ...], float]) -> Limits:
    """Return what limits a run's verdicts in one prompt variant, by the rules of its own page."""
    from audit.tasks.limits import limits_of

    on_place: dict[tuple[str, ...], set[str]] = {}
    for remark in measured.remarks:
        on_place.setdefault((remark.dimension, remark.variant), set()).add(remark.code)
    for row in measured.gap:
        place = str(row["dimension"]), str(row["variant"])
        if row["scope"] == "narratives" and abs(row["delta"]) < 2 * noise.get(place, 0.0):
            on_place.setdefault(place, set()).add("noise_floor")
    return limits_of(on_run, on_place)


def _verdicts(
    measured: RatingGaps, limits: Limits, used: AnalysisSettings, response: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Yield the verdicts of a run in one prompt variant."""
    assert measured.averages is not None
    _, found = measured.averages.verdicts(limits, margin=used.margin, response=response)
    yield from (each.row() for each in found)


def _elicitation_tables(
    gaps: Mapping[str, RatingGaps], sets: Sequence[Mapping[str, str]], verdicts: pd.DataFrame, *, confidence: float
) -> dict[str, pd.DataFrame]:
    """Compare the elicitations of each set, by dimension."""
    from audit.comparing.changes import elicitation_range, elicitation_rows

    decided = {
        (str(row["run"]), str(row["dimension"])): {str(name): value for name, value in row.items()}
        for row in verdicts.to_dict("records")
    }
    rows: dict[str, list[dict[str, Any]]] = {"elicitations": [], "elicitation_ranges": []}
    for own in sets:
        made = list(elicitation_rows(gaps, elicitations=own, verdicts=decided, confidence=confidence))
        rows["elicitations"] += made
        for dimension in dict.fromkeys(row["dimension"] for row in made):
            of_it = [row for row in made if row["dimension"] == dimension]
            scale = gaps[next(iter(own))].scale
            rows["elicitation_ranges"].append(elicitation_range(of_it, scale=scale, confidence=confidence))
    return {name: pd.DataFrame(own, columns=list(COMPARISON_TABLES[name])) for name, own in rows.items()}


def _clusters(runs: Mapping[str, RatedRun]) -> dict[str, dict[str, str]]:
    """Return each group's cultural cluster by dimension. If runs differ, the first run decides."""
    clusters: dict[str, dict[str, str]] = {}
    for run in runs.values():
        for dimension, own in run.manifest.clusters.items():
            clusters[dimension] = {**own, **clusters.get(dimension, {})}
    return clusters


def _by_dimension(runs: Mapping[str, RatedRun], name: str) -> pd.DataFrame:
    """Make a table of the published study from the rows that each run has, dimension by dimension."""
    rows = [
        {"run": label, "model": run.choices["model"], "prompt": run.choices["prompt"], **row}
        for label, run in runs.items()
        for row in getattr(run.gaps, name)
    ]
    place = {dimension: number for number, dimension in enumerate(dict.fromkeys(row["dimension"] for row in rows))}
    rows.sort(key=lambda row: place[row["dimension"]])
    return pd.DataFrame(rows, columns=list(COMPARISON_TABLES[name]))


def _perceiver_map(
    cells: pd.DataFrame, runs: Mapping[str, RatedRun], clusters: Mapping[str, Mapping[str, str]]
) -> tuple[pd.DataFrame, list[str]]:
    """Place each run's perceivers in the plane. The second value says where that failed, and why."""
    from audit.statistics.tsne import map_perceivers

    rows: list[dict[str, Any]] = []
    why: dict[tuple[str, str], list[str]] = {}
    for key, own in cells.groupby(["dimension", "run"], sort=False):
        dimension, label = map(str, key)
        known = {"run": label, "dimension": dimension}
        seed = runs[label].manifest.seed
        try:
            places = list(map_perceivers(own, clusters=clusters.get(dimension, {}), seed=seed))
        except NotEstimableError as error:
            why.setdefault((dimension, str(error)), []).append(label)
        else:
            rows += [known | row for row in places]
    said = [
        f"{dimension_title(dimension)} ({which(labels, runs)}): {reason}."
        for (dimension, reason), labels in why.items()
    ]
    return pd.DataFrame(rows, columns=list(COMPARISON_TABLES["perceiver_map"])), said


def _draw_published(
    tables: Mapping[str, pd.DataFrame],
    choices: Mapping[str, Mapping[str, str]],
    clusters: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Draw the published study's figures for each dimension: heatmaps and perceiver map."""
    from audit.report.figures.perceiver_map import plot_perceiver_map
    from audit.report.figures.published_grid import plot_published_grid

    drawn: dict[str, Any] = {}
    if len(choices) > _DRAWN:
        return drawn
    cells, places = tables["published_cells"], tables["perceiver_map"]
    for dimension, own in cells.groupby("dimension", sort=False):
        columns = _panels_aside(choices, list(dict.fromkeys(own["run"])))
        if own["z"].notna().any():
            drawn[f"published-{dimension}"] = plot_published_grid(
                own, clusters=clusters.get(str(dimension)), n_columns=columns
            )
        placed = places.loc[places["dimension"] == dimension]
        if len(placed):
            columns = _panels_aside(choices, list(dict.fromkeys(placed["run"])))
            drawn[f"perceiver-map-{dimension}"] = plot_perceiver_map(placed, n_columns=columns)
    return drawn


def _panels_aside(choices: Mapping[str, Mapping[str, str]], labels: Sequence[str]) -> int | None:
    """Return the panels in a row if runs are models crossed with prompts, one row a model; else None."""
    pairs = [(choices[label]["model"], choices[label]["prompt"]) for label in labels]
    models, prompts = (list(dict.fromkeys(each)) for each in zip(*pairs, strict=True))
    crossed = pairs == [(model, prompt) for model in models for prompt in prompts]
    return len(prompts) if crossed and 1 < len(prompts) <= _ASIDE else None


def _with_texts(strategies: pd.DataFrame, runs: Mapping[str, RatedRun]) -> pd.DataFrame:
    """Add how many differences between groups each strategy's texts show; overall, the sum over dimensions."""
    counts = []
    for label, of in zip(strategies["run"], strategies["dimension"], strict=True):
        found = {name: own for (name, variant), own in runs[label].text_differences.items()
                 if variant == runs[label].gaps.variant}  # fmt: skip
        shown = [own for name, own in found.items() if name == of or (of == OVERALL and "+" not in name)]
        counts.append([sum(own[place] for own in shown) for place in (0, 1)])
    columns = pd.DataFrame(counts, columns=["n_text_tests", "n_text_differences"], index=strategies.index)
    return strategies.assign(**columns)


def _draw(
    tables: Mapping[str, pd.DataFrame], runs: Mapping[str, RatingGaps], told: pd.DataFrame, used: AnalysisSettings
) -> dict[str, Any]:
    """Draw the runs on one axis, each dimension's curve, differences from the first run, and strategies."""
    from audit.comparing.changes import in_one_unit
    from audit.report.figures.forests import plot_comparisons
    from audit.report.figures.series import plot_series
    from audit.report.figures.specification import plot_specification
    from audit.report.figures.strategies import plot_strategies

    drawn: dict[str, Any] = {}
    confidence = used.confidence
    gap, comparisons = tables["gap"], tables["comparisons"]
    scales = {label: each.scale for label, each in runs.items()}
    if len(runs) <= _DRAWN:
        drawn |= _draw_runs(tables, scales, used)
    curves = tables["specifications"]
    for dimension in curves.loc[(curves["n_estimated"] > 1) & (curves["n_runs"] <= _DRAWN), "dimension"]:
        in_unit, unit = in_one_unit(gap.loc[gap["dimension"] == dimension], scales)
        curve = in_unit.rename(columns={"run": "label"}).join(told, on="label")
        drawn[f"specification-{dimension}"] = plot_specification(
            curve, unit="scale points" if unit == "points" else unit
        )
    of_first = comparisons.loc[(comparisons["first"] == next(iter(runs))) & comparisons["delta_change"].notna()]
    for of_unit, rows in of_first.iloc[: 2 * _DRAWN].groupby("unit", sort=True):
        drawn["comparisons" if of_unit == "points" else "comparisons-percent"] = plot_comparisons(
            rows.reset_index(drop=True), confidence=confidence
        )
    along = tables["series"]
    for dimension in along.loc[along["estimate"].notna(), "dimension"].unique() if len(runs) <= _DRAWN else ():
        of_runs = tables["series_runs"]
        drawn[f"series-{dimension}"] = plot_series(
            of_runs.loc[of_runs["dimension"] == dimension].reset_index(drop=True),
            along.loc[along["dimension"] == dimension].reset_index(drop=True),
            position_names(of_runs["position"].tolist(), str(along["per"].iloc[0])),
            confidence=confidence,
        )
    strategies = tables["strategies"]
    for dimension in strategies["dimension"].unique():
        rows = strategies.loc[strategies["dimension"] == dimension]
        if len(rows) <= _DRAWN and rows["delta"].notna().any():
            drawn[f"strategies-{dimension}"] = plot_strategies(
                rows.reset_index(drop=True), unit=str(rows["unit"].iloc[0]), confidence=confidence
            )
    return drawn


def _draw_runs(
    tables: Mapping[str, pd.DataFrame], scales: Mapping[str, tuple[float, float]], used: AnalysisSettings
) -> dict[str, Any]:
    """Draw what each run's verdict rests on, and D of the groups that are shown to differ between runs."""
    from audit.comparing.pair_answers import FOUND
    from audit.report.figures.forests import plot_runs

    one_scale = len(set(scales.values())) == 1
    unit = "scale points" if one_scale else "% of the scale"
    factor = {label: 1.0 if one_scale else 100 / abs(high - low) for label, (low, high) in scales.items()}
    verdicts, disparity, changes = (tables[name] for name in ("verdicts", "disparity", "disparity_changes"))
    found = changes.loc[changes["code"].isin(FOUND)]
    largest = found.loc[found["disparity_change"].astype(float).abs().sort_values(ascending=False).index]
    groups = list(dict.fromkeys(zip(largest["outcome"], largest["dimension"], largest["group"], strict=True)))
    places = {place: number for number, place in enumerate(groups[:_GROUPS_DRAWN])}
    keys = zip(disparity["outcome"], disparity["dimension"], disparity["group"], strict=True)
    own = [places.get(key, -1) for key in keys]
    answers = verdicts[["run", "dimension", "response"]].assign(
        shown=(verdicts["response_low"].astype(float) > 0) & (verdicts["code"] != "no_verdict")
    )
    of_groups = disparity.assign(place=own).query("place >= 0").sort_values("place", kind="stable")
    of_groups = of_groups.merge(answers.drop_duplicates(["run", "dimension"]), on=["run", "dimension"], how="left")
    several = verdicts["dimension"].nunique() > 1
    drawn: dict[str, Any] = {}
    for name, rows, estimate, whose, codes, axis in (
        ("gaps", verdicts.assign(shown=answers["shown"]), "delta", "dimension", ("gap",), f"δ in {unit}"),
        ("groups", of_groups, "disparity", "group", FOUND, f"D in {unit} (the group minus the others)"),
    ):
        if not rows[estimate].notna().any():
            continue
        by = rows["run"].map(factor).where(rows["outcome"] == "intensity", 1.0).astype(float)
        named = rows[whose].astype(str).map(dimension_title if whose == "dimension" else str)
        drawn[name] = plot_runs(
            pd.DataFrame(
                {
                    "of": named if several or whose == "group" else "",
                    "name": rows["run"],
                    "estimate": rows[estimate].astype(float) * by,
                    "low": rows["ci_low"].astype(float) * by,
                    "high": rows["ci_high"].astype(float) * by,
                    "filled": rows["code"].isin(codes),
                    "response": (rows["response"].astype(float) * by).where(
                        rows["shown"].eq(True) & (rows["outcome"] == "intensity")
                    ),
                }
            ).reset_index(drop=True),
            axis=f"{axis} and its {coverage(used.confidence)} interval, not corrected",
            margin=used.margin if one_scale else None,
        )
    return drawn


def _texts(runs: Mapping[str, RatedRun]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what each run's narrative identifiers stand for, and remarks on what was assumed.

    A table of another tool has no texts. Its narratives count as those of a run of ours that has all of its identifiers
    with the same emotions: prompts exported for another tool come back so.
    """
    texts: dict[str, str] = {}
    for label, run in runs.items():
        texts[label] = texts_of(run.choices) if run.choices["texts"] else _UNKNOWN
    known = {label: run.gaps.emotions for label, run in runs.items() if texts[label] != _UNKNOWN}
    trusted: dict[str, str] = {}
    for label, run in runs.items():
        if texts[label] == _UNKNOWN:
            own = run.gaps.emotions.items()
            trusted[label] = next((other for other, theirs in known.items() if own <= theirs.items()), "")
    said = [
        f"The texts behind the narratives of {label} were not recorded; they are taken to be those of {other}, which "
        "has the same identifiers and emotions."
        for label, other in trusted.items()
        if other
    ]
    if sum(not other for other in trusted.values()) > 1:
        said.append(
            "The texts behind the narratives of outside ratings were not recorded: where two such runs have the same "
            "identifiers, they are taken to be the same narratives."
        )
    return texts | {label: texts[other] for label, other in trusted.items() if other}, tuple(said)


def _remarks(runs: Mapping[str, RatedRun], used: AnalysisSettings) -> Iterator[str]:
    """Yield what limits the comparison."""
    from audit.comparing.changes import same_dimensions
    from audit.report.sentences import LIMITS

    measured = {label: run.gaps for label, run in runs.items()}
    one_scale = len({each.scale for each in measured.values()}) == 1
    if not one_scale:
        yield "The runs have different scales: where they meet, δ is in % of the scale's length."
        if used.margin is not None:
            yield "The margin is in points of each run's own scale."
    if not same_dimensions(measured):
        yield (
            "The runs asked about different dimensions, so their means over all dimensions are not compared: they "
            "would be means of different things."
        )
    for code, (title, why) in LIMITS.items():
        limited = [
            label
            for label, each in measured.items()
            if code in {remark.code for remark in each.remarks} | runs[label].checks
        ]
        if limited:
            yield f"{title} ({which(limited, runs)}): {why}."
