"""Scores the replies of a run, shard by shard. What the same scorer has scored is not scored again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pandas as pd

from audit.asking.elicitation.plain_text import answer_of
from audit.asking.plan import Plan
from audit.asking.progress import Progress, Say
from audit.configuration.measures import JudgeConfig, MeasuresConfig
from audit.configuration.model import ModelConfig
from audit.configuration.schema import AuditConfig
from audit.engines.resolve import check_model_folder, find_folder, first_line
from audit.errors import ConfigError, ModelError
from audit.runs.manifest import Manifest
from audit.runs.model_names import model_name
from audit.runs.parquet import concatenate
from audit.runs.parts import part_name
from audit.runs.store import RunFolder
from audit.statistics.ratings import FloatArray
from audit.tables.formatting import plural
from audit.tables.ratings import ASKED_AGAIN
from audit.tables.replies import OF_AGAIN, OF_MESSAGE, OWN_GAP_RATINGS, RATIONALES, SCORED, SCORES
from audit.tables.stages import STAGES
from audit.tasks.measures.base import Counting, Marking, Reply, Scorer, Wanted, change_of, measure_facts, of_turn
from audit.tasks.measures.choose import DIVERSITY, JUDGE, wanted_scorers
from audit.tasks.measures.classified import wanted_classifiers
from audit.tasks.measures.epitome import MECHANISMS
from audit.tasks.reply.given_scores import NAME as GIVEN
from audit.tasks.reply.given_scores import wanted_scores
from audit.tasks.reply.reply_status import reply_status
from stimuli.errors import in_one_line
from stimuli.files import read_file
from stimuli.identities import Dimension
from stimuli.json_text import parse_json
from stimuli.narratives import Narrative
from stimuli.rubrics import load_rubric
from stimuli.strategies import strategy_values
from stimuli.strategy_labels import read_levels

if TYPE_CHECKING:
    from audit.tasks.reply.judge.rubric import RubricJudge

_SCORER: Final = "scores/{}/scorer.json"
"""Describes a scorer, beside its scores."""
_OF_REPLIES_ALONE: Final = (JUDGE, GIVEN)
"""Scorers that say nothing of the messages before the replies."""
_TOLD: Final = "the strategy or the prompt tells the model the emotion, so naming it shows no understanding"


ReplyOf: TypeAlias = Callable[[int, str], Reply]  # from the place of a prompt and the text that was written
TurnOf: TypeAlias = Callable[[int, str, int], Reply]  # the same, and the turn of a talk, from 1


@dataclass(frozen=True)
class Scoring:
    """What scores a run's replies, as far as it is known before any model is loaded."""

    wanted: tuple[Wanted, ...]
    reply_of: ReplyOf  # of a talk: the last one
    levels: Mapping[str, Mapping[str, int]]  # EPITOME's levels of people's replies by narrative and mechanism
    counts_words: bool  # whether the words of all replies are counted
    judge: JudgeConfig
    seed: int
    dimensions: tuple[Dimension, ...] = ()  # in which a judge's own gap is measured
    messages: Sequence[str] = ()  # by place, if they are scored too, for replies to be adjusted by
    n_turns: int = 1  # replies of a talk, all of which are scored
    turn_of: TurnOf | None = None  # of a talk
    required: Sequence[str] = ()  # scorers without which the run ends
    named: bool = False  # whether absent scorers and licences have been named


Scorers: TypeAlias = Callable[[Plan, MeasuresConfig], Iterator[Wanted]]  # a task's function that yields its scorers
Trials: TypeAlias = Callable[[MeasuresConfig], Iterator[Wanted]]  # the same for one plan


def plan_scoring(plan: Plan, scorers: Scorers, *, counts_words: bool = False) -> Scoring:
    """Read everything that scoring depends on, so that errors show before the model is asked."""
    config = plan.config.measures
    if config is None:
        raise ConfigError("task=reply needs measures: give measures=default")
    return Scoring(
        tuple(scorers(plan, config)),
        partial(_reply, plan),
        _levels(plan, config),
        counts_words and DIVERSITY in config.names,
        config.judge,
        plan.config.seed,
        plan.grid.dimensions,
        n_turns=plan.strategy.n_turns,
        turn_of=partial(_reply, plan) if plan.strategy.is_talk else None,
        required=config.required,
    )


def check_scorers(scoring: Scoring, trials: Trials, config: MeasuresConfig, *, say: Say) -> Scoring:
    """Open every scorer before a reply is paid for. One that cannot be used is named at once, and counts as absent.

    Raises ModelError if it is one of ``measures.required``.
    """
    # On the CPU: the audited model gets the GPU to itself, and a process that has used one cannot be forked.
    tried = trials(config.model_copy(update={"device": "cpu"}))
    wanted = tuple(map(partial(_checked, required=scoring.required, say=say), scoring.wanted, tried))
    return replace(scoring, wanted=wanted, named=True)


def _checked(wanted: Wanted, trial: Wanted, *, required: Sequence[str], say: Say) -> Wanted:
    """Return a scorer as it was wanted, or absent if a trial shows that it cannot be used."""
    absent = wanted.absent
    if not absent:
        try:
            opened = trial.open() if trial.check is None else trial.check()
        except ModelError as error:
            absent = in_one_line(error)
        else:
            _say_licences(wanted.name, getattr(opened, "facts", {}), say)
    _check_required(wanted.name, absent, required)
    if absent:
        say(f"note: {wanted.name} is not measured: {absent}")
    return replace(wanted, absent=absent)


def _check_required(name: str, absent: str, required: Sequence[str]) -> None:
    if absent and name in required:
        raise ModelError(f"measures.required has {name}, which cannot be used: {absent}")


def _say_licences(name: str, facts: Mapping[str, Any], say: Say) -> None:
    for model, licence in _licences(facts):
        if re.search(r"\bnc\b", licence):
            say(f"note: {name}: the licence of {model} is {licence}, which excludes commercial use")


def _licences(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the models of a scorer that state a licence, and the licence."""
    if "licence" in facts:
        yield facts["name"], facts["licence"]
    for own in facts.values():
        if isinstance(own, Mapping):
            yield from _licences(own)


def score_replies(scoring: Scoring, folder: RunFolder, manifest: Manifest, *, say: Say) -> Manifest:
    """Score the replies that lack scores. Return the manifest with the scorers.

    Missing replies are not scored: refused, empty, in another script or failed. A model's thinking, and turns that it
    invents, are not part of the reply. The run is not complete while anything is scored. A scorer that fails counts as
    absent, so that the replies have their page; its scores so far are kept, as are those of an earlier one of its name.
    Raises ModelError if a scorer of ``measures.required`` cannot be opened.
    """
    for wanted in scoring.wanted:
        _check_required(wanted.name, wanted.absent, scoring.required)
    replies = folder.read("replies", n_prompts=manifest.n_prompts)
    scored = replies.loc[replies["status"].isin(SCORED)]
    names = [wanted.name for wanted in scoring.wanted]
    scorers = {name: taken.content for name, taken in manifest.scorers.items() if name in names}
    absent = {wanted.name: wanted.absent for wanted in scoring.wanted if wanted.absent}
    manifest = manifest.having(scorers=scorers, wanted=names, absent=absent)
    for wanted in scoring.wanted:
        again = _narratives_again(scoring.judge) if wanted.name == JUDGE and scoring.dimensions else 0
        manifest = _without(manifest, wanted.name)
        if not wanted.absent:
            manifest = _take(wanted, again, scored, scoring, folder, manifest, say=say)
    manifest = manifest.having(epitome_labels=scoring.levels)
    for name, why in manifest.absent.items():
        if not (scoring.named and name in absent):
            say(f"note: {name} is not measured: {why}")
    return manifest.having(diversity=scoring.counts_words)


def _without(manifest: Manifest, name: str) -> Manifest:
    """Return the manifest without a scorer. Scorers that are done with all replies are added back at the end."""
    others = {other: taken.content for other, taken in manifest.scorers.items() if other != name}
    return manifest.having(scorers=others)


def _take(
    wanted: Wanted,
    again: int,
    replies: pd.DataFrame,
    scoring: Scoring,
    folder: RunFolder,
    manifest: Manifest,
    *,
    say: Say,
) -> Manifest:
    """Have one scorer score what it lacks; an earlier one's scores stay until the new one has been opened."""
    name = wanted.name
    taken = read_scorer(folder, name)
    same = taken.get("asked") == wanted.asked
    missing, unjudged = _left(scoring, folder, name, again, taken if same else {})
    if same and not missing and not unjudged and _unscored_again(folder, name, taken).empty:
        if name == JUDGE:
            _note_own_gap(folder, taken, again)
            write_scorer(folder, name, taken)
        return manifest.adding("scorers", **{name: taken})
    say(f"scoring {plural(len(replies), 'reply')}: {name} ...")
    try:
        scorer = wanted.open()
    except ModelError as error:
        _check_required(name, why := in_one_line(error), scoring.required)
        return manifest.adding("absent", **{name: why})
    if not scoring.named:
        _say_licences(name, scorer.facts, say)
    facts = json.loads(json.dumps(scorer.facts))  # as read back from the manifest
    if not same or taken["facts"] != facts:  # another scorer, or other weights under the same name
        taken = {}
        missing, unjudged = _left(scoring, folder, name, again, taken)
    manifest = manifest.having(status="running")
    folder.write_manifest(manifest)
    if not taken:
        folder.clear(f"scores/{name}")
        taken = {"asked": wanted.asked, "facts": facts, "measures": _measures(scorer, name, scoring)}
        if isinstance(scorer, Marking):
            folder.clear("rationales")
            taken |= {"marks": True} if scorer.marks else {}
    if name == JUDGE:
        _note_own_gap(folder, taken, again)
    write_scorer(folder, name, taken)
    folder.write_manifest(manifest.adding("scorers", **{name: taken}))
    try:
        _score(scorer, name, replies, scoring, folder, missing, size=manifest.shard_size)
        _score_again(scorer, name, scoring, folder, _unscored_again(folder, name, taken), size=manifest.shard_size)
        for number in unjudged:
            _judge_again(cast("RubricJudge", scorer), replies, scoring, folder, number, taken, say=say)
    except (ModelError, MemoryError, RuntimeError) as error:  # torch raises the last, as when a GPU is full
        why = in_one_line(error) if isinstance(error, ModelError) else f"it failed ({first_line(error)})"
        return manifest.adding("absent", **{name: why})
    return manifest.adding("scorers", **{name: taken})


def _left(
    scoring: Scoring, folder: RunFolder, name: str, again: int, taken: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    """Return the shards and dimensions that a scorer has left; all if ``taken`` is empty: then it is another one."""
    done = folder.parts(SCORES, name).numbers() if taken else set()
    if taken and taken.get("marks"):
        done &= folder.parts(RATIONALES).numbers()
    as_asked = taken and taken.get("own_gap", {}).get("n_narratives") == again
    judged = folder.parts(OWN_GAP_RATINGS).numbers() if as_asked else set()
    dimensions = set(range(len(scoring.dimensions))) if again else set()
    return sorted(folder.shards("replies") - done), sorted(dimensions - judged)


def _measures(scorer: Scorer, name: str, scoring: Scoring) -> list[dict[str, Any]]:
    """Describe what a scorer measures: of a talk also by how much each measure changes."""
    changes = map(change_of, scorer.measures) if _scores_turns(scoring, name) else ()
    return [measure_facts(each) for each in (*scorer.measures, *changes)]


def _scores_turns(scoring: Scoring, name: str) -> bool:
    """Whether a scorer scores the earlier replies of a talk: a file of scores has those of the last alone."""
    return scoring.turn_of is not None and name != GIVEN


def _note_own_gap(folder: RunFolder, taken: dict[str, Any], again: int) -> None:
    """Note how many narratives the judge's own gap uses; answers for another number are deleted."""
    if taken.get("own_gap", {}).get("n_narratives") != again:
        folder.clear("judged")
        taken["own_gap"] = {"n_narratives": again, "left_out": {}}


def _levels(plan: Plan, config: MeasuresConfig) -> dict[str, dict[str, int]]:
    """Read the levels of people's replies for the mechanisms that are scored."""
    own = config.epitome
    if own.labels is None:
        return {}
    scored = {name for name in MECHANISMS if "epitome" in config.names and getattr(own, name)}
    if JUDGE in config.names and config.judge.model:
        criteria = load_rubric(config.judge.rubric, config.judge.rubric_file).criteria
        scored |= {name for name, asked in criteria.items() if name in MECHANISMS and (asked.low, asked.high) == (0, 2)}
    if not scored:
        raise ConfigError(
            f"measures.epitome.labels={own.labels} needs levels to compare with; give classifiers in "
            "measures.epitome, or a judge with measures.judge.rubric=epitome"
        )
    ids = [narrative.narrative_id for narrative in plan.grid.narratives.narratives]
    return read_levels(own.labels, ids, sorted(scored))


def scorers_of_replies(plan: Plan, config: MeasuresConfig) -> Iterator[Wanted]:
    """Yield the scorers of replies; those of whether one names the emotion are absent if the model is told it."""
    terms = dict.fromkeys(
        identity.term for d in plan.grid.dimensions for side in (d.perceivers, d.experiencers) for identity in side
    )
    told = plan.strategy.tells_emotion(plan.grid)
    narratives = plan.grid.narratives.narratives
    for wanted in wanted_of(plan.config, config, terms=list(terms), narratives=narratives, n_replies=len(plan.grid)):
        yield replace(wanted, absent=_TOLD) if told and reads_emotion(wanted) else wanted


def wanted_of(
    run: AuditConfig,
    config: MeasuresConfig,
    *,
    terms: Sequence[str],
    narratives: Sequence[Narrative],
    n_replies: int,
) -> Iterator[Wanted]:
    """Yield the configured scorers, and the judge."""
    yield from wanted_scorers(config, terms=terms, narratives=narratives)
    yield from wanted_classifiers(config, terms, narratives)
    if config.scores is not None:
        yield wanted_scores(config.scores, n_prompts=n_replies)
    if JUDGE in config.names:
        yield _wanted_judge(run, config.judge)


def reads_emotion(wanted: Wanted) -> bool:
    """Whether a scorer is of the emotion that a reply names."""
    return wanted.name == "emotion" or wanted.asked.get("narrative") == "emotion" or "emotion" in wanted.asked


def _wanted_judge(run: AuditConfig, config: JudgeConfig) -> Wanted:
    rubric = load_rubric(config.rubric, config.rubric_file)
    asked = config.model_dump(mode="json", exclude={"rubric_file", "own_gap", "api_key_env"}) | {
        "rubric_sha256": rubric.sha256
    }
    absent = "" if config.model else (
        "it needs a model that follows instructions: measures.judge.model=FOLDER_OR_HUB_ID, and likely "
        "measures.judge.method=generate"
    )  # fmt: skip
    return Wanted(JUDGE, asked, partial(_open_judge, run, config), absent, partial(_check_judge, run, config))


def _check_judge(run: AuditConfig, config: JudgeConfig) -> None:
    """Raise ModelError if the files of a judge on this machine are not there; a server is asked when it judges."""
    assert config.model is not None
    is_file = os.path.isfile(os.path.expanduser(config.model))  # a GGUF file
    if config.base_url is None and not config.model.startswith("embedded:") and not is_file:
        find_folder(
            config.model,
            asked=f"judge {config.model}",
            revision=config.revision,
            check=partial(check_model_folder, name=config.model),
            download=run.measures is not None and run.measures.download,
        )


def _open_judge(run: AuditConfig, config: JudgeConfig) -> Scorer:
    from audit.engines.open import judging_engine, open_model
    from audit.engines.server import Key
    from audit.tasks.reply.judge.rubric import RubricJudge

    assert config.model is not None
    _check_judge(run, config)
    Key.of(config.api_key_env, "measures.judge.api_key_env")
    card = ModelConfig(
        name=model_name("", config.model),
        path=config.model,
        revision=config.revision,
        tokenizer=None,
        dtype="auto",
        quantization=None,
        max_model_len=config.max_model_len,
        trust_remote_code=False,
        elicitation=config.method,
        base_url=config.base_url,
        api_key_env=config.api_key_env,
    )
    # The judge uses its own chat template, whatever the judged model used.
    engine = judging_engine(run.engine, served=config.base_url is not None)
    opened = open_model(card, engine, seed=run.seed, writes=config.method == "generate")
    return RubricJudge(
        load_rubric(config.rubric, config.rubric_file),
        opened,
        config.model,
        config.method,
        max_tokens=config.max_tokens,
        shown_as=config.shown_as,
    )


def _narratives_again(config: JudgeConfig) -> int:
    """Return how many narratives the judge's own gap uses: none if the judge does not see the experiencer."""
    sees = not config.shown_as and load_rubric(config.rubric, config.rubric_file).names_experiencer
    return config.own_gap if sees else 0


def _judge_again(
    judge: RubricJudge,
    replies: pd.DataFrame,
    scoring: Scoring,
    folder: RunFolder,
    number: int,
    taken: dict[str, Any],
    *,
    say: Say,
) -> None:
    """Ask for a judge's own gap; replies to narratives that name the experiencer are left out and counted."""
    from audit.tasks.reply.judge.own_gap import names_experiencer, own_gap_ratings, sample_replies

    dimension = scoring.dimensions[number]
    say(f"measuring the judge's own gap in {dimension.name} ...")
    own = replies.loc[(replies["dimension"] == dimension.name) & (replies["wording"] == 0)]
    read = [scoring.reply_of(place, text) for place, text in zip(own["prompt_index"], own["text"], strict=True)]
    of_use = {reply.narrative_id for reply in read if not names_experiencer(reply, dimension)}
    taken["own_gap"]["left_out"][dimension.name] = len({reply.narrative_id for reply in read} - of_use)
    write_scorer(folder, JUDGE, taken)
    rng = np.random.default_rng(np.random.SeedSequence([scoring.seed, number]))
    chosen = sample_replies(read, dimension, n_narratives=taken["own_gap"]["n_narratives"], rng=rng)
    folder.parts(OWN_GAP_RATINGS).write(part_name(number), own_gap_ratings(judge, chosen, dimension))


def _score(
    scorer: Scorer,
    name: str,
    replies: pd.DataFrame,
    scoring: Scoring,
    folder: RunFolder,
    missing: list[int],
    *,
    size: int,
) -> None:
    shard_of = replies["prompt_index"] // size
    measures = [measure.name for measure in scorer.measures]
    n_missing = int(shard_of.isin(missing).sum())
    with Progress(len(replies), there=len(replies) - n_missing, unit="replies", name=name) as progress:
        for number in missing:
            own = replies.loc[shard_of == number]
            read = [scoring.reply_of(place, text) for place, text in zip(own["prompt_index"], own["text"], strict=True)]
            before = _counts(scorer)
            marks: list[tuple[int, str, int, int]] = []
            if not read:
                scores = np.empty((0, len(measures)))
            elif isinstance(scorer, Marking):
                scores, marks = scorer.score_and_mark(read)
            else:
                scores = scorer.score(read)
            counted = _since(before, _counts(scorer))
            table = _long(own["prompt_index"].to_numpy(), measures, scores)
            if scoring.messages and name not in _OF_REPLIES_ALONE:
                places = range(number * size, min((number + 1) * size, len(scoring.messages)))
                of_messages = scorer.score([Reply(text=scoring.messages[place]) for place in places])
                named = [OF_MESSAGE + each for each in measures]
                table = pd.concat([table, _long(np.array(places), named, of_messages)], ignore_index=True)
            if _scores_turns(scoring, name):
                table = pd.concat([table, *_of_turns(scorer, scoring, folder, number, own, scores)], ignore_index=True)
            if isinstance(scorer, Marking) and scorer.marks:
                folder.parts(RATIONALES).write(part_name(number), _rationales(marks, own, read))
            write_scores(folder, name, number, table, counted)
            progress.done(len(own))


def _unscored_again(folder: RunFolder, name: str, taken: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of ``ASKED_AGAIN`` whose reply a scorer has not scored; a file of scores has none."""
    again = folder.table(ASKED_AGAIN).frame()
    again = again.loc[again["status"].isin(SCORED) & (name != GIVEN)]
    if again.empty:
        return again
    scores = folder.parts(SCORES, name).frame()
    scored = scores.loc[scores["measure"] == OF_AGAIN + taken["measures"][0]["name"], "prompt_index"]
    return again.loc[~again["prompt_index"].isin(scored)]


def _score_again(
    scorer: Scorer, name: str, scoring: Scoring, folder: RunFolder, again: pd.DataFrame, *, size: int
) -> None:
    """Score replies to prompts that were asked once more, and keep the scores beside those of the first replies."""
    parts, measures = folder.parts(SCORES, name), [measure.name for measure in scorer.measures]
    counts = parts.counts()
    with Progress(len(again), unit="replies", name=f"{name}, asked again") as progress:
        for number, own in again.groupby(again["prompt_index"] // size):
            part, places = part_name(int(number)), own["prompt_index"].to_numpy()
            rows = parts.read_part(part)
            assert rows is not None
            kept = rows.to_pandas()
            scores = scorer.score([scoring.reply_of(*each) for each in zip(places, own["response"], strict=True)])
            made = [_long(places, [OF_AGAIN + each for each in measures], scores)]
            if _scores_turns(scoring, name):  # the first turn was not asked again
                first = kept.pivot(index="prompt_index", columns="measure", values="value")
                first = first.reindex(index=places, columns=[of_turn(each, 1) for each in measures])
                changes = [OF_AGAIN + change_of(each).name for each in scorer.measures]
                made.append(_long(places, changes, scores - first.to_numpy(dtype=np.float64)))
            write_scores(folder, name, int(number), pd.concat([kept, *made], ignore_index=True), counts[part])
            progress.done(len(own))


def _of_turns(
    scorer: Scorer, scoring: Scoring, folder: RunFolder, number: int, replies: pd.DataFrame, scores: FloatArray
) -> Iterator[pd.DataFrame]:
    """Score the earlier replies of a shard's talks; then yield by how much its last ``replies`` differ from the first.

    An earlier reply that was refused, is empty or in another script has no score, and its talk no change.
    """
    assert scoring.turn_of is not None
    names = [measure.name for measure in scorer.measures]
    first = pd.DataFrame(columns=names, dtype=np.float64)
    for turn in range(1, scoring.n_turns):
        part = folder.parts(STAGES).read_part(part_name(number, turn - 1))
        read: list[Reply] = []
        for row in part.to_pylist() if part is not None else ():
            reply = scoring.turn_of(row["prompt_index"], row["text"], turn)
            if reply_status(row["text"], row["status"], narrative=reply.narrative).value in SCORED:
                read.append(reply)
        made = scorer.score(read) if read else np.empty((0, len(names)))
        places = np.array([reply.prompt_index for reply in read], dtype=np.int64)
        yield _long(places, [of_turn(name, turn) for name in names], made)
        if turn == 1:
            first = pd.DataFrame(made, index=places, columns=names)
    last = replies["prompt_index"].to_numpy()
    yield _long(last, [change_of(each).name for each in scorer.measures], scores - first.reindex(last).to_numpy())


def _rationales(marks: list[tuple[int, str, int, int]], replies: pd.DataFrame, read: list[Reply]) -> pd.DataFrame:
    """Return marks as rows of ``RATIONALES``: their places are in the scored answer, not yet in the reply's text."""
    texts = replies["text"].tolist()
    begins = [text.find(reply.text) for text, reply in zip(texts, read, strict=True)]
    rows = [
        (replies["prompt_index"].iloc[place], measure, begins[place] + start, begins[place] + end)
        for place, measure, start, end in marks
        if begins[place] >= 0
    ]
    return pd.DataFrame(rows, columns=list(RATIONALES))


def _long(places: np.ndarray[Any, Any], measures: Sequence[str], scores: FloatArray) -> pd.DataFrame:
    """Lay out scores, shape (n, M), one row a number."""
    return pd.DataFrame(
        {
            "prompt_index": np.repeat(places, len(measures)),
            "measure": pd.Categorical([*measures] * len(places), categories=[*measures]),
            "value": scores.ravel(),
        }
    )


def write_scores(
    folder: RunFolder, name: str, number: int, scores: pd.DataFrame, counts: Mapping[str, Mapping[str, float]]
) -> None:
    """Write a scorer's scores of one shard (columns of ``SCORES``), and what it counted."""
    # As words in the order of their appearance: then the same rows are the same bytes, however they were put together.
    named = pd.Categorical(scores["measure"], categories=scores["measure"].unique())
    folder.parts(SCORES, name).write(part_name(number), scores.assign(measure=named), counts)


def read_scores(folder: RunFolder) -> pd.DataFrame:
    """Return all scores, ordered by scorer and shard; empty if there are none."""
    tables = (folder.parts(SCORES, name).read() for name in folder.names(SCORES))
    scores: pd.DataFrame = concatenate(tables, SCORES).to_pandas()
    return scores


def score_counts(folder: RunFolder, name: str) -> dict[str, dict[str, float]]:
    """Return what a scorer counted over all its shards; empty if it counts nothing."""
    total: dict[str, dict[str, float]] = {}
    for counts in folder.parts(SCORES, name).counts().values():
        for measure, own in counts.items():
            of_measure = total.setdefault(measure, {})
            for what, n in own.items():
                of_measure[what] = of_measure.get(what, 0) + n
    return total


def write_scorer(folder: RunFolder, name: str, taken: Mapping[str, Any]) -> None:
    """Describe a scorer beside its scores, so that they stay its own even if the manifest no longer names it."""
    folder.write_file(_SCORER.format(name), f"{json.dumps(taken, indent=2, sort_keys=True)}\n".encode())


def read_scorer(folder: RunFolder, name: str) -> dict[str, Any]:
    """Return what :func:`write_scorer` wrote; empty if the file is absent or unreadable."""
    place = _SCORER.format(name)
    try:
        taken = parse_json(read_file(folder.path / place))
    except (OSError, ValueError):
        return {}
    folder.confirm(place)
    return taken if isinstance(taken, dict) else {}


def _counts(scorer: Scorer) -> dict[str, dict[str, float]]:
    counts = scorer.counts if isinstance(scorer, Counting) else {}
    return {measure: dict(own) for measure, own in counts.items()}


def _since(
    before: Mapping[str, Mapping[str, float]], now: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return what was counted since an earlier state."""
    return {
        measure: {what: n - before.get(measure, {}).get(what, 0) for what, n in own.items()}
        for measure, own in now.items()
    }


def _reply(plan: Plan, place: int, text: str, turn: int | None = None) -> Reply:
    """Return a reply of a run; of a talk the last one, or that of a turn, after all that was said before it."""
    cell = plan.grid[place]
    said = [cell.narrative.wording(plan.grid.variant.narrative, experiencer=cell.experiencer.term)]
    if cell.narrative.answered:
        said = ["\n".join([*said, *cell.narrative.later])]
    if plan.strategy.is_talk:
        said += plan.strategy.said(strategy_values(plan.grid, cell))[1:]
    return Reply(
        text=answer_of(text),
        narrative="\n".join(said[:turn]),
        narrative_id=cell.narrative.narrative_id,
        emotion=cell.narrative.emotion,
        dimension=cell.dimension.name,
        perceiver=cell.perceiver.term,
        experiencer=cell.experiencer.term,
        prompt_index=place,
    )
