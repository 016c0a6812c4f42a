"""The common part of tasks whose answers are texts with scores: writing, scoring, analysis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from audit.asking.collect import (
    PromptBatch,
    Session,
    answer_columns,
    collect,
    earlier_manifest,
    end_parts,
    missing_shards,
    nothing_to_ask,
)
from audit.asking.conversations import narratives_of, prompt_records
from audit.asking.plan import Plan, make_plan
from audit.asking.progress import Say
from audit.configuration.measures import MeasuresConfig
from audit.configuration.schema import AuditConfig
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.base import Table
from audit.tables.formatting import plural
from audit.tables.people_of_replies import PEOPLE_SCORES
from audit.tables.ratings import ASKED_AGAIN, MANIPULATION
from audit.tables.replies import OF_AGAIN, OWN_GAP_RATINGS, RATIONALES, REPLIES, ReplyStatus
from audit.tables.run_of_replies import OF_REPLIES, REPLY_TABLES
from audit.tables.stages import STAGES
from audit.tasks.asked_again import VARIED, ask_missing
from audit.tasks.base import Published, Rated, Task
from audit.tasks.measures.base import Wanted
from audit.tasks.measures.choose import JUDGE
from audit.tasks.measures.outcomes import OUTCOMES
from audit.tasks.measures.stage_scores import score_run_stages
from audit.tasks.publishing import on_run, on_thoughts, unfinished, write_all
from audit.tasks.reply.observed import Observed
from audit.tasks.reply.scoring import check_scorers, plan_scoring, read_scores, score_counts, score_replies
from audit.tasks.reply.verdict_limits import limits_of_measures, unscored_remarks, unsure_measures
from audit.tasks.task_words import TaskWords
from stimuli.narratives import emotion_valence
from stimuli.strategies import Stage

if TYPE_CHECKING:
    from audit.asking.strategies.run import StageText
    from audit.engines.base import Done, OpenModel
    from audit.statistics.remarks import Remark


class WrittenTexts(Task[Plan]):
    """The perceiver writes a text, and scorers take measures of it."""

    words: ClassVar[TaskWords]
    described: ClassVar[Mapping[str, Table]] = REPLY_TABLES
    collected = REPLIES
    compared_by = "measures"
    counts_words: ClassVar[bool] = False  # whether the words of all texts are counted, if measures.names asks for that

    @abstractmethod
    def scorers(self, plan: Plan, measures: MeasuresConfig) -> Iterator[Wanted]:
        """Yield the scorers of a run's texts."""

    def answers(self, written: Sequence[StageText], asked: PromptBatch) -> dict[str, list[Any]]:
        """Return the written texts as columns of ``tables.REPLIES``."""
        return answer_columns(written)

    def keep(self, plan: Plan, folder: RunFolder) -> None:
        """Write what the analysis needs besides the texts; by default nothing."""

    def words_of(self, manifest: Manifest) -> TaskWords:
        """Return the words for a run's page."""
        return self.words

    def tables(
        self, folder: RunFolder, manifest: Manifest, replies: pd.DataFrame, values: pd.DataFrame
    ) -> tuple[Mapping[str, pd.DataFrame], Sequence[Remark]]:
        """Return the task's own tables, and remarks on them; by default none."""
        return {}, ()

    def plan(self, config: AuditConfig) -> Plan:
        """Read everything that the prompts are made of; see :func:`audit.asking.plan.make_plan`."""
        return make_plan(config)

    def check(self, plan: Plan) -> None:
        """Reject measures that cannot be taken."""
        plan_scoring(plan, self.scorers)

    def records(self, plan: Plan) -> Iterator[dict[str, Any]]:
        """Yield every prompt; see :func:`audit.asking.conversations.prompt_records`."""
        return prompt_records(plan)

    def collect(
        self, plan: Plan, folder: RunFolder, *, command: str, say: Say, opened: OpenModel | None = None
    ) -> Manifest:
        """Ask for the missing texts, and score those without scores."""
        scoring = plan_scoring(plan, self.scorers, counts_words=self.counts_words)
        earlier = earlier_manifest(plan, folder, say=say)
        if earlier is not None and not missing_shards(plan, earlier, folder) and not self._again(plan, folder, earlier):
            manifest = nothing_to_ask(plan, folder, earlier, say=say, opened=opened)
        else:
            assert plan.config.measures is not None
            scoring = check_scorers(scoring, partial(self.scorers, plan), plan.config.measures, say=say)
            session = collect(
                plan,
                folder,
                earlier,
                self._write,
                how="written replies",
                writes=True,
                command=command,
                say=say,
                opened=opened,
            )
            with session.workers as workers:
                manifest = end_parts(self._ask_again(session), workers, folder, say=say)
        self.keep(plan, folder)
        manifest = score_replies(scoring, folder, manifest, say=say)
        return manifest.adding("config", measures=plan.config.model_dump(mode="json")["measures"])

    def _again(self, plan: Plan, folder: RunFolder, manifest: Manifest) -> list[int]:
        """Return the prompts to ask once more, by ``prompt_index``; none if all were."""
        from audit.asking.elicitation.sample import choose_again

        if not plan.n_again:
            return []
        replies = folder.read("replies", n_prompts=manifest.n_prompts)
        answered = replies.loc[replies["status"] != ReplyStatus.FAILED.value]
        places: list[int] = choose_again(answered, size=plan.n_again, seed=plan.config.seed).tolist()
        there = set(folder.table(ASKED_AGAIN).frame()["prompt_index"])
        return [] if manifest.checks.get(ASKED_AGAIN.name) and there.issuperset(places) else places

    def _ask_again(self, session: Session) -> Manifest:
        """Ask the sample once more, and return the manifest with it; the texts of a strategy's stages are kept."""
        places = self._again(session.plan, session.folder, session.manifest)
        if not places:
            return session.manifest
        ask_missing(
            session,
            ASKED_AGAIN,
            places,
            partial(session.again, partial(self._write, again=True)),
            lambda made: [
                {"status": status, "intensity": None, "response": text}
                for status, text in zip(made["status"], made["text"], strict=True)
            ],
            title="asking a sample again",
        )
        varied = f"seed, {VARIED}" if self._stage(session.plan).temperature > 0 else VARIED
        asked = {"n_prompts": len(places), "varied": varied}
        return session.manifest.adding("checks", **{ASKED_AGAIN.name: asked})

    def _stage(self, plan: Plan) -> Stage:
        """Return the settings of the call that writes the text."""
        settings = plan.strategy.reply or plan.config.task.stage
        assert settings is not None
        return settings

    def _write(
        self, plan: Plan, model: OpenModel, asked: PromptBatch, done: Done, *, again: bool = False
    ) -> dict[str, list[Any]]:
        """Ask for texts; see :data:`audit.asking.collect.Answer`. Asked ``again``, sampled texts have another seed."""
        from audit.asking.strategies.run import write_replies

        settings = self._stage(plan)
        if again:
            settings = replace(settings, name=f"{settings.name} again")
        written = write_replies(
            plan.strategy,
            model.engine,
            settings=settings,
            asked=asked.values,
            earlier=asked.earlier,
            thoughts=asked.thoughts,
            cells=asked.cells,
            seed=plan.config.seed,
            done=done,
        )
        return self.answers(written, asked) | {"wording": [cell.wording for cell in asked.cells]}

    def rated_by(self, folder: RunFolder, manifest: Manifest, measure: str) -> Rated:
        """See :meth:`audit.tasks.base.Task.rated_by`."""
        from audit.statistics.outcome import Outcome
        from audit.tasks.reply.gaps import ratings_of

        replies = folder.read("replies", n_prompts=manifest.n_prompts, unfinished=manifest.status == "running")
        scores = read_scores(folder)
        followed, unanswered = self.check_stories(folder, manifest, replies)
        own, repeated = (
            scores.loc[scores["measure"] == name].set_index("prompt_index")["value"].astype("float64")
            for name in (measure, OF_AGAIN + measure)
        )
        again = folder.table(ASKED_AGAIN).frame()
        return Rated(
            ratings=ratings_of(replies, Outcome(measure, unit="points", values=own)),
            followed=followed,
            again=again.assign(intensity=again["prompt_index"].map(repeated)),
            limits=frozenset(remark.code for remark in unscored_remarks(manifest, folder)),
            unanswered=frozenset((each.dimension, each.group) for each in unanswered),
        )

    def draw(self, manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Any]:
        """Draw the gaps of measures."""
        from audit.tasks.reply.figures import draw_measures

        return draw_measures(tables, confidence=manifest.statistics.confidence)

    def publish(self, folder: RunFolder, manifest: Manifest) -> Published:
        """Analyse the texts and their scores, and render them; see :meth:`audit.tasks.base.Task.publish`."""
        from audit.people.measure_agreement import people_tables
        from audit.report.figures.style import page_svgs
        from audit.statistics.calls import call_table
        from audit.statistics.controls import Repetition
        from audit.statistics.conversations import told_apart_by
        from audit.statistics.ratings import without_dimensions
        from audit.statistics.text_differences import text_tables, texts_remarks
        from audit.tasks.people import people_of
        from audit.tasks.reply.epitome import epitome_table
        from audit.tasks.reply.gaps import measure_tables
        from audit.tasks.reply.judge.gap import judged_tables
        from audit.tasks.reply.judge.own_gap import experiencer_effects
        from audit.tasks.reply.measure_values import levels_of, measures_of, of_raters, reply_remarks
        from audit.tasks.reply.page import render_replies
        from audit.tasks.reply.story_check import story_codes, story_remarks, unanswered_remarks
        from audit.tasks.reply.turns import turn_table

        replies = folder.read("replies", n_prompts=manifest.n_prompts, unfinished=manifest.status == "running")
        counts = replies["status"].value_counts()
        n_of = {str(status): int(counts.get(str(status), 0)) for status in ReplyStatus}
        manifest = manifest.having(counts={**n_of, "total": len(replies)})
        settings, seed = manifest.statistics, manifest.seed
        counted = {name: score_counts(folder, name) for name in manifest.scorers}
        repetition = Repetition(manifest.stems, manifest.placebo, manifest.cues, manifest.pairs_drawn)
        of_groups = without_dimensions(replies, repetition.placebo)
        scores = read_scores(folder)
        stages, again = folder.parts(STAGES).frame(), folder.table(ASKED_AGAIN).frame()
        measures, measured = measures_of(manifest, replies, scores, counted, stages=stages, again=again)
        observed = Observed.of(folder, manifest, replies)
        values = pd.DataFrame({each.name: each.values for each in measured if each.values is not None})
        values = values.drop(columns=[name for name in OUTCOMES if name in values])
        human = folder.table(PEOPLE_SCORES).frame()
        of_people, given = people_of(manifest.people, human)
        if of_people:
            measures = pd.concat([pd.DataFrame(of_people, columns=list(measures)), measures], ignore_index=True)
        unscored = (*unfinished(manifest, replies), *unscored_remarks(manifest, folder))
        followed, unanswered = self.check_stories(folder, manifest, replies)
        tables = {"measures": measures, "manipulation": pd.DataFrame(followed, columns=list(MANIPULATION))}
        tables |= measure_tables(
            replies,
            [*of_raters(given), *(measured if observed is None else observed.outcomes(measured, scores))],
            seed=seed,
            settings=settings,
            valence=emotion_valence() | dict(manifest.stimuli.valence),
            clusters=manifest.clusters,
            conversation_of=told_apart_by(manifest.stimuli.source) if observed is None else observed.conversation_of,
            repetition=repetition,
            limits=limits_of_measures(
                manifest,
                measures,
                {*story_codes(followed, manifest), *(remark.code for remark in unscored)},
                unanswered,
                min_number_mass=settings.min_number_mass,
            ),
        )
        if manifest.strategy.n_turns > 1:
            tables["turns"] = turn_table(
                replies, tables["disparity"], scores, manifest, settings=settings,
                conversation_of=told_apart_by(manifest.stimuli.source), repetition=repetition,
            )  # fmt: skip
        levels = levels_of(manifest.scorers, values)
        tables["epitome"] = epitome_table(of_groups, levels, manifest.epitome_labels, confidence=settings.confidence)
        judged = folder.parts(OWN_GAP_RATINGS).frame()
        if JUDGE not in manifest.scorers:  # left by a judge that the run no longer uses
            judged = judged.iloc[:0]
        tables |= judged_tables(
            judged, experiencer_effects(judged), variant=manifest.prompt.variant, seed=seed, settings=settings
        )
        own, own_remarks = self.tables(folder, manifest, of_groups, values)
        tables |= own
        tables |= people_tables(human, values, of_groups, seed=seed, confidence=settings.confidence)
        # The turns of a talk are replies, and scored as such.
        of_stages = stages if manifest.strategy.n_turns == 1 else stages.iloc[:0]
        scored, manifest = score_run_stages(folder, of_stages, of_groups, manifest)
        on_texts = text_tables(scored, confidence=settings.confidence)
        tables |= {"calls": call_table(of_groups, stages), **on_texts}
        remarks = (
            *unscored,
            *story_remarks(followed, manifest),
            *unanswered_remarks(unanswered, manifest),
            *(() if observed is None else observed.remarks()),
            *_on_judge(manifest, measures, min_number_mass=settings.min_number_mass),
            *own_remarks,
            *reply_remarks(of_groups, manifest),
            *on_thoughts(stages, of_groups, manifest),
            *texts_remarks(on_texts["stage_texts"], confidence=settings.confidence),
        )
        drawn = self.draw(manifest, tables)
        figures = page_svgs(drawn)
        html = render_replies(
            manifest=manifest,
            tables=tables,
            figures=figures,
            remarks=remarks,
            replies=of_groups,
            values=values,
            rationales=folder.parts(RATIONALES).frame(),
            narratives=narratives_of(folder.path, manifest) if observed is None else observed.messages,
            words=self.words_of(manifest),
        )
        report = write_all(folder, manifest, tables, drawn, figures, html, known=OF_REPLIES)
        return Published(folder.path, report, tables["gap"], settings.confidence, remarks, html.summary)


def _on_judge(manifest: Manifest, measures: pd.DataFrame, *, min_number_mass: float) -> Iterator[Remark]:
    """Remark on a judge's unreliable scores, and on narratives that its own gap leaves out."""
    taken = manifest.scorers.get(JUDGE)
    if taken is None:
        return
    unsure = unsure_measures(manifest, measures, min_number_mass=min_number_mass)
    if len(unsure):
        least = unsure.iloc[0]
        yield on_run(
            "judge_mass",
            f"The judge answers with a number of the scale with a probability of only {least['mean_mass']:.2f} on "
            f"average ({least['title']}). Its scores say nothing about its other answers.",
        )
    for dimension, n in taken.own_gap.left_out.items():
        if n:
            yield on_run(
                "own_gap_left_out",
                f"{dimension}: {plural(n, 'narrative')} could not be used for the judge's own gap. They name the "
                f"person whom each reply is to, so a reply cannot be shown as a reply to someone else.",
            )
