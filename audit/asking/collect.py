"""Asks the model for the answers that a run is missing, shard by shard and stage by stage, and stores them.

A task defines what an answer is: see :data:`Answer`. :mod:`audit.asking.workers` runs the model, in this process or in
several. Functions here whose first argument is :class:`Shared` run inside the workers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from audit.asking.conversations import prompt_records
from audit.asking.plan import Plan, prompt_columns
from audit.asking.progress import Progress, ProgressPart, Say
from audit.asking.run_identity import as_fed, describe_run, model_difference, plan_difference, with_sight
from audit.asking.shown_prompt import shown_prompt
from audit.asking.workers.base import Course, Here, Job, Workers
from audit.engines.base import unwatched
from audit.errors import StoreError, recovery
from audit.runs.manifest import Manifest
from audit.runs.parts import part_name
from audit.runs.planned import Planned
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.provenance import check_same_model, check_same_run, states_seen
from audit.runs.store import RunFolder
from audit.tables.formatting import brief, plural, printable
from audit.tables.ratings import RATINGS, Status
from audit.tables.stages import GIVEN, STAGES
from stimuli.prompts import Prompt, PromptCell
from stimuli.strategies import strategy_values

if TYPE_CHECKING:
    from audit.asking.strategies.run import StageText
    from audit.engines.base import Done, OpenModel
    from audit.tables.ratings import ElicitedRating
_WRITTEN: Final = ("text", "status", "n_prompt_tokens", "n_tokens", "n_dropped")
"""Columns of ``tables.STAGES`` that later stages need."""


@dataclass(frozen=True)
class PromptBatch:
    """Prompts that are asked together, with what came before each."""

    cells: Sequence[PromptCell]
    values: Sequence[Mapping[str, str]]  # what fills each prompt's templates
    earlier: Sequence[Sequence[StageText]]  # what the strategy's stages wrote: for each stage, one entry a prompt
    # the thought before each answer; `failed` if no answer may follow it; None if the model does not think
    thoughts: Sequence[StageText] | None = None


Answer: TypeAlias = "Callable[[Plan, OpenModel, PromptBatch, Done], dict[str, list[Any]]]"
"""Asks the model and returns the answers as columns. ``Done`` is told how many more prompts are done."""


class Shared:
    """What all jobs of a run share, in whichever process they run."""

    def __init__(self, plan: Plan, given: Mapping[str, Mapping[str, str]]) -> None:
        # given: the strategy's examples and knowledge, by narrative
        self.plan, self.given = plan, given
        self._last: tuple[Sequence[int], list[dict[str, str]]] | None = None

    def asked(self, places: Sequence[int], earlier: Sequence[Sequence[StageText]]) -> PromptBatch:
        """Look up prompts by ``prompt_index``; ``earlier`` holds one list a stage, the thought last."""
        grid = self.plan.grid
        cells = [grid[place] for place in places]
        # A shard's stages come one after another and ask the same prompts.
        if self._last is None or self._last[0] != places:
            self._last = places, [strategy_values(grid, cell, self.given) for cell in cells]
        n_stages = len(self.plan.strategy.stages)
        thoughts = None if len(earlier) <= n_stages else list(earlier[n_stages])
        if thoughts is not None and self.plan.config.thinking.mode == "on":
            thoughts = [replace(each, status="failed") if each.status == "cut" else each for each in thoughts]
        return PromptBatch(cells, self._last[1], earlier[:n_stages], thoughts)

    def beside(self, cells: Sequence[PromptCell]) -> PromptBatch:
        """Build prompts, inside or outside the run's grid, with no stages before them."""
        return PromptBatch(cells, [strategy_values(self.plan.grid, cell) for cell in cells], [])


@dataclass(frozen=True)
class Session:
    """A run whose prompts are all answered, and the workers that can still ask its model more."""

    plan: Plan
    folder: RunFolder
    manifest: Manifest
    workers: Workers

    def earlier(self, places: Sequence[int]) -> list[list[StageText]]:
        """Read what each stage wrote for prompts, given by ``prompt_index``, instead of asking again."""
        from audit.asking.strategies.run import StageText

        plan, folder = self.plan, self.folder
        earlier: list[list[StageText]] = []
        shards = sorted({place // self.manifest.shard_size for place in places})
        for number in range(len(plan.before)):
            rows = {row["prompt_index"]: row for shard in shards for row in _stage_of(folder, shard, number) or []}
            if lacking := [place for place in places if place not in rows]:
                raise StoreError(
                    f"{folder.path}/stages: the text that stage {number + 1} wrote for prompt {lacking[0]} is "
                    "missing; give elicitation.check_sample=0 elicitation.noise_sample=0, or restore the file"
                )
            earlier.append([StageText(**{field: rows[place][field] for field in _WRITTEN}) for place in places])
        return earlier

    def again(self, answer: Answer, places: Sequence[int], part: ProgressPart) -> Job:
        """Return a job that asks prompts of the run once more, in the order of ``places`` (their ``prompt_index``)."""
        ask = partial(_answer, answer=answer, places=places, earlier=self.earlier(places))
        return Job(f"asked again {list(places)}", ask, part.call)


def earlier_manifest(plan: Planned, folder: RunFolder, *, say: Say | None = None) -> Manifest | None:
    """Read the manifest of a folder's run; None if new. Refuses another run, damage, or answers without a manifest."""
    manifest, gone = folder.read_lacking()
    if manifest is not None:
        check_same_run(plan_difference(manifest.identity.content, plan), folder.path)
        if manifest.n_prompts != len(plan.grid):
            raise StoreError(
                f"{folder.path}/manifest.json is damaged: it lists {manifest.n_prompts:,} prompts, but the run has "
                f"{len(plan.grid):,}; {recovery(folder.path, 'restores it from its copy')}"
            )
        if say is not None:
            for name in gone:
                say(f"note: {folder.path / name} was stored but is now missing: it is collected again")
    elif folder.shards(plan.kind) or folder.parts(STAGES).names():
        does = "restores it from its copy, or saves what was collected"
        raise StoreError(
            f"{folder.path} has {plan.kind} or stages but no manifest.json; {recovery(folder.path, does)}, or "
            "choose another run_dir"
        )
    return manifest


def missing_shards(plan: Planned, manifest: Manifest, folder: RunFolder) -> dict[int, range]:
    """Map the number of each shard that is not stored to its places in the grid, in order."""
    n, size = manifest.n_prompts, manifest.shard_size
    left = sorted(set(range(-(-n // size))) - folder.shards(plan.kind))
    return {number: range(number * size, min((number + 1) * size, n)) for number in left}


def nothing_to_ask(
    plan: Planned, folder: RunFolder, manifest: Manifest, *, say: Say, opened: OpenModel | None = None
) -> Manifest:
    """Report that nothing is left to ask; StoreError if the model (or its files, if not ``opened``) changed."""
    from audit.engines.unchanged import compare_model

    unknown = ""
    if opened is not None:
        check_same_model(model_difference(manifest.identity.content, opened.known), folder.path)
    else:
        asked, model = manifest.model, plan.config.model
        compared = compare_model(model, revision=asked.revision, files=asked.files)
        changed = f"model.path={model.path} has changed since ({compared.changed})" if compared.changed else ""
        check_same_model(changed, folder.path)
        unknown = compared.unknown
    told = f", not checked against the model ({unknown})" if unknown else ""
    say(f"all {len(plan.grid):,} prompts are already answered{told}; analysing")
    return _seen_as(manifest, unknown)


def _seen_as(manifest: Manifest, unknown: str) -> Manifest:
    """Note in the manifest why the model could not be compared; drop the note if ``unknown`` is empty."""
    model = {name: value for name, value in manifest.model.content.items() if name != "not_checked"}
    return manifest.having(model={**model, **({"not_checked": unknown} if unknown else {})})


def collect(
    plan: Plan,
    folder: RunFolder,
    earlier: Manifest | None,
    answer: Answer,
    *,
    how: str,
    writes: bool,
    command: str,
    say: Say,
    opened: OpenModel | None = None,
    prepare: Callable[[Session, Answer], tuple[Manifest, Answer]] | None = None,
) -> Session:
    """Open the model, ask the missing shards, and return the session; after an error, what was collected is kept.

    ``prepare`` may ask the model for something that the answers depend on; it returns the manifest and what to ask.
    """
    from audit.asking.strategies.given import give, given_sha256, values_of
    from audit.asking.workers.open import open_workers

    config = plan.config
    given = folder.table(GIVEN).rows() if earlier is not None else []
    brought: dict[str, Any] = {}
    gone = plan.strategy.brings and not given
    if gone:
        given, brought = give(plan, say=say)
    shown = earlier.strategy.given_sha256 if earlier is not None else ""
    if shown and given_sha256(given) != shown:
        raise StoreError(
            f"{folder.path}/given.parquet is "
            + ("missing, and the examples or knowledge to show now differ" if gone else "not of this run: it differs")
            + " from what the first prompts were shown; choose another run_dir"
        )
    if gone:
        folder.table(GIVEN).write(given)
    by_narrative = values_of(given)
    shared = Shared(plan, by_narrative)
    workers: Workers
    if opened is not None:
        workers, load_s = Here(opened, shared, folder.part_begun), 0.0
    else:
        workers, load_s = open_workers(
            config,
            folder,
            shared,
            writes=writes or bool(plan.before),
            how=how,
            n_shards=None if earlier is None else len(missing_shards(plan, earlier, folder)),
            say=say,
        )
    try:
        if plan.config.thinking.is_on:
            workers.ask(Job("whether it thinks", _can_think, lambda: unwatched))
        first = next(prompt_records(plan, given))
        example = {name: value for name, value in first.items() if name in ("system", "turns", "user", "begun")}
        manifest = manifest_of(plan, folder, earlier, workers, example=example, given=brought, command=command, say=say)
        if opened is None:
            for line in shown_prompt(example):
                say(line)
        if earlier is None or not (folder.path / PROMPTS).exists():  # a run of an earlier version
            folder.write_file(PROMPTS, plan.asked.to_bytes())
        if prepare is not None:
            manifest, answer = prepare(Session(plan, folder, manifest, workers), answer)
        manifest = ask_shards(
            plan, folder, manifest, workers, partial(_ask_shard, plan, folder, answer, say), load_s=load_s, say=say
        )
    except BaseException:
        workers.close()
        raise
    return Session(plan, folder, manifest, workers)


def manifest_of(
    plan: Planned,
    folder: RunFolder,
    earlier: Manifest | None,
    workers: Workers,
    *,
    example: Mapping[str, Any],
    given: Mapping[str, Any],
    command: str,
    say: Say,
) -> Manifest:
    """Describe a new run once its model is loaded, or check that an earlier run's model is the same."""
    fed: dict[str, str] = {}
    if plan.config.engine.add_special_tokens:
        fed = workers.ask(Job("the example", partial(_fed, example=example), lambda: unwatched))
        say(fed["special_tokens"])
    if earlier is None:
        same = workers.ask(Job("whether it reads", _same_answer, lambda: unwatched))
        manifest = describe_run(
            plan, workers.known, example={**example, **fed}, given=given, command=command, same_answer=same
        )
        if warning := manifest.model.same_answer_said:
            say(f"warning: {warning}")
    else:
        check_same_model(model_difference(earlier.identity.content, workers.known), folder.path)
        manifest = _seen_as(earlier, "")
    return with_sight(manifest, workers.known)


def _can_think(shared: object, model: OpenModel, done: Done) -> None:
    """Refuse a model that is not known to think before the strategy's stages are asked and paid for."""
    model.engine.fits([Prompt("", "x", thinks=True)], room=1)


def _same_answer(shared: object, model: OpenModel, done: Done) -> str | None:
    """Ask whether a server's text depends on the prompt, where it shows no probabilities of chosen tokens."""
    from audit.engines.chat_completions import ChatEngine

    return model.engine.same_answer() if isinstance(model.engine, ChatEngine) else None


def _fed(shared: object, model: OpenModel, done: Done, *, example: Mapping[str, Any]) -> dict[str, str]:
    return as_fed(model, example)


def end_parts(manifest: Manifest, workers: Workers, folder: RunFolder, *, say: Say) -> Manifest:
    """Close the workers, drop unfinished parts, and add what was seen of the model to the manifest."""
    workers.close()
    folder.drop_part_begun()
    manifest = with_sight(manifest, workers.known)
    if len(states := states_seen(manifest)) > 1:
        say(
            f"the server reported {len(states)} fingerprints during this run ({', '.join(states)}), so its answers "
            "may come from more than one model"
        )
    return manifest


def ask_shards(
    plan: Planned,
    folder: RunFolder,
    manifest: Manifest,
    workers: Workers,
    ask: Callable[[int, range, ProgressPart], Course[bool]],
    *,
    load_s: float,
    say: Say,
) -> Manifest:
    """Ask the missing shards; return the manifest with this session counted and timed.

    The manifest is written before anything is asked. ``ask`` runs one shard and returns whether this session asked all
    of it. Shards that an earlier session had begun are not timed, because part of their time was spent there.
    """
    manifest = manifest.having(n_sessions=manifest.n_sessions + 1)
    folder.write_manifest(manifest)
    n_prompts, size = manifest.n_prompts, manifest.shard_size
    missing = missing_shards(plan, manifest, folder)
    if workers.n > len(missing) > 0:
        say(
            f"note: {plural(len(missing), 'shard')} of {size:,} prompts for {workers.n} workers, so some are idle; "
            f"in a new run_dir, shard_size={-(-n_prompts // workers.n)} gives all of them work"
        )
    timings: Mapping[str, float] = manifest.timings.content
    n_asked, of_whole, of_all, clock = 0, 0.0, 0.0, time.perf_counter()
    there = n_prompts - sum(map(len, missing.values()))
    with Progress(n_prompts, there=there, n_calls=1 + len(plan.before)) as progress:

        def shard(number: int, places: range) -> Course[tuple[int, float]]:
            start = time.perf_counter()
            with progress.part(len(places)) as part:
                whole = yield from ask(number, places, part)
            return len(places) if whole else 0, time.perf_counter() - start

        for n_whole, took in workers.run(shard(number, places) for number, places in missing.items()):
            timings = {}
            n_asked += n_whole
            of_whole += took if n_whole else 0.0
            of_all += took
    timings = {**timings, "load_s": load_s}  # a session that asks no prompt of the run keeps the earlier timings
    if n_asked:
        # Shards may overlap, so each gets its share of the wall time.
        elicit_s = (time.perf_counter() - clock) * of_whole / of_all
        timings |= {"elicit_s": elicit_s, "n_prompts": n_asked, "prompts_per_s": n_asked / elicit_s}
        if workers.n > 1:
            timings["replicas"] = workers.n
    return manifest.having(timings=timings)


def _ask_shard(
    plan: Plan, folder: RunFolder, answer: Answer, say: Say, number: int, places: range, part: ProgressPart
) -> Course[bool]:
    """Ask one shard, stage by stage; return whether none of it was stored before."""
    grid = plan.grid
    begun = part_name(number, 0) in folder.parts(STAGES)
    earlier = yield from _lead(plan, folder, number, places, part)
    ask = partial(_answer, answer=answer, places=places, earlier=earlier)
    answers = yield Job(f"shard {number}", ask, part.call)
    folder.write_shard(number, cell_columns(grid[places.start : places.stop], grid.variant.name) | answers, plan.kind)
    if number == 0 and plan.kind == RATINGS.name and (said := _none_rated(answers)):
        say(said)
    return not begun


def _none_rated(answers: Mapping[str, Sequence[Any]]) -> str:
    """Warn that the first answers have no rating, before all others are paid for; empty if one has."""
    counted = Counter(map(str, answers["status"]))
    if Status.RATED in counted:
        return ""
    why = ", ".join(f"{n:,} {status}" for status, n in counted.most_common())
    written = next((each for each in answers["response"] if each), "")
    such = f", such as “{brief(printable(written))}”" if written else ""
    return (
        f"warning: none of the first {len(answers['status']):,} answers has a rating ({why}{such}); Ctrl-C ends the "
        "run. Then change prompt= or elicitation="
    )


def _stage_of(folder: RunFolder, shard: int, number: int) -> list[dict[str, Any]] | None:
    """Read what one stage wrote for one shard, in prompt order; None if it is not stored."""
    part = folder.parts(STAGES).read_part(part_name(shard, number))
    rows: list[dict[str, Any]] | None = None if part is None else part.to_pylist()
    return rows


def _lead(
    plan: Plan, folder: RunFolder, shard: int, places: range, part: ProgressPart
) -> Course[list[list[StageText]]]:
    """Ask those stages of a shard that are not stored, and return what all of them wrote."""
    from audit.asking.strategies.run import StageText

    earlier: list[list[StageText]] = []
    for number, name in enumerate(plan.before):
        kept = _stage_of(folder, shard, number)
        own = [(place, name) for place in places]
        if kept is not None and [(row["prompt_index"], row["stage"]) for row in kept] != own:
            raise StoreError(
                f"{folder.path}/stages: what shard {shard} holds as stage {number + 1} is not {name} of its "
                f"prompts, so it does not belong to this run; {recovery(folder.path, 'sets it aside')}, or choose "
                "another run_dir"
            )
        if kept is None:
            job = partial(_write_stage, number=number, places=places, earlier=list(earlier))
            written = yield Job(f"shard {shard}, stage {name}", job, partial(part.call, name))
            kept = [
                {"prompt_index": place, "stage": name, **asdict(each)}
                for place, each in zip(places, written, strict=True)
            ]
            folder.parts(STAGES).write(part_name(shard, number), kept)
        else:
            part.skip()
        earlier.append([StageText(**{field: row[field] for field in _WRITTEN}) for row in kept])
    return earlier


def _answer(
    shared: Shared,
    model: OpenModel,
    done: Done,
    *,
    answer: Answer,
    places: Sequence[int],
    earlier: Sequence[Sequence[StageText]],
) -> dict[str, list[Any]]:
    from audit.engines.base import AnswersOfRun

    if isinstance(model.engine, AnswersOfRun):
        model.engine.at(places)
    return answer(shared.plan, model, shared.asked(places, earlier), done)


def _write_stage(
    shared: Shared, model: OpenModel, done: Done, *, number: int, places: range, earlier: Sequence[Sequence[StageText]]
) -> list[StageText]:
    from audit.asking.strategies.run import run_stage, write_thoughts

    plan = shared.plan
    asked = shared.asked(places, earlier)
    values = asked.values
    if number < len(plan.strategy.stages):
        return run_stage(
            plan.strategy,
            number,
            model.engine,
            asked=values,
            earlier=earlier,
            places=places,
            seed=plan.config.seed,
            cells=asked.cells if plan.strategy.is_talk else (),
            done=done,
        )
    return write_thoughts(
        plan.strategy,
        model.engine,
        settings=plan.config.thinking.stage,
        asked=values,
        earlier=earlier,
        room=plan.room,
        begun=plan.begun,
        places=places,
        seed=plan.config.seed,
        done=done,
    )


def cell_columns(cells: Sequence[PromptCell], variant: str) -> dict[str, list[Any]]:
    """Build the columns of ``tables.RATINGS`` that identify the prompts."""
    columns: dict[str, list[Any]] = {}
    # Narratives vary fastest, so the columns of a pair are computed once for many rows.
    for _, run in groupby(cells, key=lambda cell: (id(cell.dimension), id(cell.perceiver), id(cell.experiencer))):
        of_pair = list(run)
        first = of_pair[0]
        pair = {
            **prompt_columns(first, variant),
            "perceiver_group": first.perceiver.group,
            "experiencer_group": first.experiencer.group,
            "in_group": first.dimension.in_group(first.perceiver, first.experiencer),
            "n_shared": first.dimension.n_shared(first.perceiver, first.experiencer),
        }
        for name, value in pair.items():
            columns.setdefault(name, []).extend([value] * len(of_pair))
    return columns | {
        "prompt_index": [cell.index for cell in cells],
        "narrative_id": [cell.narrative.narrative_id for cell in cells],
        "emotion": [cell.narrative.emotion for cell in cells],
    }


def answer_columns(answers: Sequence[ElicitedRating] | Sequence[StageText]) -> dict[str, list[Any]]:
    """Turn answers into columns, one for each field."""
    columns: dict[str, list[Any]] = {}
    for field in fields(answers[0]):
        own = [getattr(answer, field.name) for answer in answers]
        # Missing is NaN in Python and null in the table.
        columns[field.name] = [None if value != value else value for value in own]
    return columns | {"status": [str(status) for status in columns["status"]]}
