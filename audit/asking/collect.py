"""Asks a model what is missing of a run, shard by shard and stage by stage, and keeps what it answers.

What an answer is, a task says: see :data:`Answer`. Who asks the model, :mod:`audit.asking.workers` knows: this process,
or several. What runs in those are the functions here whose first argument is :class:`Shared`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from audit.asking.conversations import prompt_records
from audit.asking.plan import Plan, labels
from audit.asking.shown_prompt import shown_prompt
from audit.asking.workers.base import Course, Here, Job, Workers
from audit.engines.base import unwatched
from audit.engines.progress import Part, Progress, Say
from audit.errors import StoreError, recovery
from audit.runs.manifest import Manifest
from audit.runs.parts import part_name
from audit.runs.planned import Planned
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import PromptsAsked
from audit.runs.provenance import (
    as_fed,
    check_same_model,
    check_same_run,
    describe_run,
    model_difference,
    plan_difference,
    states_seen,
    with_sight,
)
from audit.runs.store import RunFolder
from audit.tables.formatting import plural
from audit.tables.stages import GIVEN, STAGES
from stimuli.prompts import Prompt, PromptCell
from stimuli.strategies import strategy_values

if TYPE_CHECKING:
    from audit.asking.elicitation.base import Elicited
    from audit.asking.strategies.run import Written
    from audit.engines.base import Done, OpenModel
_WRITTEN: Final = ("text", "status", "n_prompt_tokens", "n_tokens", "n_dropped")
"""Columns of ``tables.STAGES`` that a later stage needs."""


@dataclass(frozen=True)
class Asked:
    """Prompts that are asked together, with what is known of each.

    Attributes
    ----------
    cells
        Who is asked about whom.
    values
        What its templates show.
    earlier
        What the strategy's stages wrote, a list a prompt, or none for any of them.
    thoughts
        What the model thought before each answer; one that the answer may not go on from has failed. None where it is
        not asked to think.
    """

    cells: Sequence[PromptCell]
    values: Sequence[Mapping[str, str]]
    earlier: Sequence[Sequence[Written]]
    thoughts: Sequence[Written] | None = None


Answer: TypeAlias = "Callable[[Plan, OpenModel, Asked, Done], dict[str, list[Any]]]"
"""Asks a model for the answers to prompts, and returns them as columns; is told how many more are done."""


class Shared:
    """What all jobs of a run share, wherever they are done.

    Parameters
    ----------
    plan
        What is asked.
    given
        The examples and knowledge that the strategy brought, by narrative.
    answer
        Asks for answers.
    """

    def __init__(self, plan: Plan, given: Mapping[str, Mapping[str, str]], answer: Answer) -> None:
        self.plan, self.given, self.answer = plan, given, answer
        self._last: tuple[Sequence[int], list[dict[str, str]]] | None = None

    def asked(self, places: Sequence[int], earlier: Sequence[Sequence[Written]]) -> Asked:
        """Return prompts of the run by their ``prompt_index``, with what each stage wrote, a thought being the last."""
        grid = self.plan.grid
        cells = [grid[place] for place in places]
        # The stages of a shard come one after another, and are of the same prompts.
        if self._last is None or self._last[0] != places:
            self._last = places, [strategy_values(grid, cell, self.given) for cell in cells]
        n_stages = len(self.plan.strategy.stages)
        thoughts = None if len(earlier) <= n_stages else list(earlier[n_stages])
        if thoughts is not None and self.plan.config.thinking.mode == "on":
            thoughts = [replace(each, status="failed") if each.status == "cut" else each for each in thoughts]
        return Asked(cells, self._last[1], earlier[:n_stages], thoughts)

    def beside(self, cells: Sequence[PromptCell]) -> Asked:
        """Return prompts that need not be of the run's grid, before which nothing is asked."""
        return Asked(cells, [strategy_values(self.plan.grid, cell) for cell in cells], [])


@dataclass(frozen=True)
class Session:
    """A run whose prompts are all answered, and who asks its model, which may be asked more.

    Attributes
    ----------
    plan, folder, manifest, workers
        The run, and who asks. Their jobs share a :class:`Shared`.
    """

    plan: Plan
    folder: RunFolder
    manifest: Manifest
    workers: Workers

    def earlier(self, places: Sequence[int]) -> list[list[Written]]:
        """Return what each stage wrote for prompts, by their ``prompt_index``: it is not asked again."""
        from audit.asking.strategies.run import Written

        plan, folder = self.plan, self.folder
        earlier: list[list[Written]] = []
        shards = sorted({place // self.manifest.shard_size for place in places})
        for number in range(len(plan.before)):
            rows = {row["prompt_index"]: row for shard in shards for row in _stage_of(folder, shard, number) or []}
            if lacking := [place for place in places if place not in rows]:
                raise StoreError(
                    f"{folder.path}/stages: what stage {number + 1} wrote for prompt {lacking[0]} is gone; give "
                    "elicitation.check_sample=0 elicitation.noise_sample=0, or restore the file"
                )
            earlier.append([Written(**{field: rows[place][field] for field in _WRITTEN}) for place in places])
        return earlier


def earlier_manifest(plan: Planned, folder: RunFolder, *, say: Say | None = None) -> Manifest | None:
    """Return the manifest of the run that a folder holds; None in a new one.

    Parameters
    ----------
    plan
        What the run asks.
    folder
        Need not be entered.
    say
        Takes a line for each stored file that is gone, and is collected anew.

    Raises
    ------
    StoreError
        If the folder holds another run, or a damaged manifest, or answers or stages without a manifest.
    """
    manifest, gone = folder.read_lacking()
    if manifest is not None:
        check_same_run(plan_difference(manifest.identity.content, plan), folder.path)
        if manifest.n_prompts != len(plan.grid):
            raise StoreError(
                f"{folder.path}/manifest.json is damaged: it says {manifest.n_prompts:,} prompts, and the run has "
                f"{len(plan.grid):,}; {recovery(folder.path, 'restores it from its copy')}"
            )
        if say is not None:
            for name in gone:
                say(f"note: {folder.path / name} was stored, and is gone: it is collected anew")
    elif folder.shards(plan.kind) or folder.parts(STAGES).names():
        does = "restores it from its copy, or saves what was collected"
        raise StoreError(
            f"{folder.path} has {plan.kind} or stages but no manifest.json; {recovery(folder.path, does)}, or name "
            "another run_dir"
        )
    return manifest


def missing_shards(plan: Planned, manifest: Manifest, folder: RunFolder) -> dict[int, range]:
    """Return the shards that are not there yet, in their order: the places of the grid by their numbers."""
    n, size = manifest.n_prompts, manifest.shard_size
    left = sorted(set(range(-(-n // size))) - folder.shards(plan.kind))
    return {number: range(number * size, min((number + 1) * size, n)) for number in left}


def nothing_to_ask(
    plan: Planned, folder: RunFolder, manifest: Manifest, *, say: Say, opened: OpenModel | None = None
) -> Manifest:
    """Say that all prompts are there, if the model is still the one that was asked, and return the manifest with that.

    Parameters
    ----------
    plan, folder, manifest
        A run of which nothing is missing.
    say
        Takes the line.
    opened
        The model, if it is loaded; else its files or its revision are looked at, and nothing is loaded.

    Raises
    ------
    StoreError
        If the model has changed since: what is there is no answer of the one that is asked for.
    """
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
    say(f"all {len(plan.grid):,} prompts are there already{told}; analysing")
    return _seen_as(manifest, unknown)


def _seen_as(manifest: Manifest, unknown: str) -> Manifest:
    """Return the manifest that says why the model could not be told to be the same; nothing where it could."""
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
) -> Session:
    """Have the model loaded, do the shards that are missing, and return the run with who asks its model.

    Parameters
    ----------
    plan
        What to ask.
    folder
        Where to; entered.
    earlier
        What :func:`earlier_manifest` returns.
    answer
        Asks for answers.
    how, writes
        As of :func:`audit.asking.workers.open.open_workers`; the stages of a strategy are written whatever the answer
        is.
    command
        The command line that asked for it.
    say
        Takes lines about progress.
    opened
        The model, if it is not to be loaded.

    Raises
    ------
    AuditError
        Whatever the user can mend; what was collected before is kept.
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
            + ("gone, and what would be brought now is not" if gone else "not of this run: it is not")
            + " what the first prompts were shown; name another run_dir"
        )
    if gone:
        folder.table(GIVEN).write(given)
    by_narrative = values_of(given)
    shared = Shared(plan, by_narrative, answer)
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
        if earlier is None or not (folder.path / PROMPTS).exists():  # a run of an earlier version goes on
            folder.write_file(PROMPTS, PromptsAsked(plan.grid, plan.strategy).to_bytes())
        manifest = ask_shards(
            plan, folder, manifest, workers, partial(_ask_shard, plan, folder), load_s=load_s, say=say
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
    """Return the manifest of a run whose model is loaded: that of a new one, or the earlier one.

    Parameters
    ----------
    plan, folder, earlier
        The run.
    workers
        Who asks its model.
    example, given, command
        As of :func:`audit.runs.provenance.describe_run`.
    say
        Takes the line that says which special tokens are added, if any are.

    Raises
    ------
    StoreError
        If the earlier one is of another model, or of another engine.
    """
    fed: dict[str, str] = {}
    if plan.config.engine.add_special_tokens:
        fed = workers.ask(Job("the example", partial(_fed, example=example), lambda: unwatched))
        say(fed["special_tokens"])
    if earlier is None:
        manifest = describe_run(plan, workers.known, example={**example, **fed}, given=given, command=command)
    else:
        check_same_model(model_difference(earlier.identity.content, workers.known), folder.path)
        manifest = _seen_as(earlier, "")
    return with_sight(manifest, workers.known)


def _can_think(shared: object, model: OpenModel, done: Done) -> None:
    """Refuse a model that is not known to think, before a strategy's stages are asked, and paid for."""
    model.engine.fits([Prompt("", "x", thinks=True)], room=1)


def _fed(shared: object, model: OpenModel, done: Done, *, example: Mapping[str, Any]) -> dict[str, str]:
    return as_fed(model, example)


def end_parts(manifest: Manifest, workers: Workers, folder: RunFolder, *, say: Say) -> Manifest:
    """End the workers and what was kept of parts, all of which are whole; return the manifest with what was seen."""
    workers.close()
    folder.drop_part_begun()
    manifest = with_sight(manifest, workers.known)
    if len(states := states_seen(manifest)) > 1:
        say(
            f"the server told {len(states)} fingerprints in the course of this run ({', '.join(states)}): its answers "
            "may not be all of one model, nor its prompts of one day"
        )
    return manifest


def ask_shards(
    plan: Planned,
    folder: RunFolder,
    manifest: Manifest,
    workers: Workers,
    ask: Callable[[int, range, Part], Course[bool]],
    *,
    load_s: float,
    say: Say,
) -> Manifest:
    """Count the session, do the shards that are missing, and return the manifest with how long it took.

    A shard that an earlier session had begun is not timed: that session took a part of its time.

    Parameters
    ----------
    plan, folder
        The run; its folder is entered.
    manifest
        The run's; written before anything is asked.
    workers
        Who asks.
    ask
        The course of one shard, of its number, its places in the grid and its part of the progress; returns whether
        all of it was asked.
    load_s
        What loading the model took, in seconds.
    say
        Takes lines about progress.
    """
    manifest = manifest.having(n_sessions=manifest.n_sessions + 1)
    folder.write_manifest(manifest)
    n_prompts, size = manifest.n_prompts, manifest.shard_size
    missing = missing_shards(plan, manifest, folder)
    if workers.n > len(missing) > 0:
        say(
            f"note: {plural(len(missing), 'shard')} of {size:,} prompts for {workers.n} workers, so that some have "
            f"nothing to do; in a new run_dir, shard_size={-(-n_prompts // workers.n)} has work for all of them"
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
    timings = {**timings, "load_s": load_s}  # a session that asks no prompt of the run leaves the others
    if n_asked:
        elicit_s = (time.perf_counter() - clock) * of_whole / of_all  # of several at once, each has its share
        timings |= {"elicit_s": elicit_s, "n_prompts": n_asked, "prompts_per_s": n_asked / elicit_s}
        if workers.n > 1:
            timings["replicas"] = workers.n
    return manifest.having(timings=timings)


def _ask_shard(plan: Plan, folder: RunFolder, number: int, places: range, part: Part) -> Course[bool]:
    """Do one shard, stage by stage, and return whether none of it was there."""
    grid = plan.grid
    begun = part_name(number, 0) in folder.parts(STAGES)
    earlier = yield from _lead(plan, folder, number, places, part)
    answers = yield Job(f"shard {number}", partial(_answer, places=places, earlier=earlier), part.call)
    folder.write_shard(number, cell_columns(grid[places.start : places.stop], grid.variant.name) | answers, plan.kind)
    return not begun


def _stage_of(folder: RunFolder, shard: int, number: int) -> list[dict[str, Any]] | None:
    """Return what one stage wrote for one shard, in the prompts' order; None where it is not there."""
    part = folder.parts(STAGES).read_part(part_name(shard, number))
    rows: list[dict[str, Any]] | None = None if part is None else part.to_pylist()
    return rows


def _lead(plan: Plan, folder: RunFolder, shard: int, places: range, part: Part) -> Course[list[list[Written]]]:
    """Ask the stages of one shard that have not been asked, and return what all of them wrote."""
    from audit.asking.strategies.run import Written

    earlier: list[list[Written]] = []
    for number, name in enumerate(plan.before):
        kept = _stage_of(folder, shard, number)
        own = [(place, name) for place in places]
        if kept is not None and [(row["prompt_index"], row["stage"]) for row in kept] != own:
            raise StoreError(
                f"{folder.path}/stages: what shard {shard} holds as stage {number + 1} is not {name} of its "
                f"prompts, so it is not of this run; {recovery(folder.path, 'sets it aside')}, or name another run_dir"
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
        earlier.append([Written(**{field: row[field] for field in _WRITTEN}) for row in kept])
    return earlier


def _answer(
    shared: Shared, model: OpenModel, done: Done, *, places: range, earlier: Sequence[Sequence[Written]]
) -> dict[str, list[Any]]:
    from audit.engines.base import Answered

    if isinstance(model.engine, Answered):
        model.engine.at(places)
    return shared.answer(shared.plan, model, shared.asked(places, earlier), done)


def _write_stage(
    shared: Shared, model: OpenModel, done: Done, *, number: int, places: range, earlier: Sequence[Sequence[Written]]
) -> list[Written]:
    from audit.asking.strategies.run import run_stage, write_thoughts

    plan = shared.plan
    values = shared.asked(places, earlier).values
    if number < len(plan.strategy.stages):
        return run_stage(
            plan.strategy,
            number,
            model.engine,
            asked=values,
            earlier=earlier,
            places=places,
            seed=plan.config.seed,
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
    """Return the columns of ``tables.RATINGS`` that say which prompts rows are of."""
    columns: dict[str, list[Any]] = {}
    # Narratives run fastest: what is of the pair alone is found once for many rows.
    for _, run in groupby(cells, key=lambda cell: (id(cell.dimension), id(cell.perceiver), id(cell.experiencer))):
        of_pair = list(run)
        first = of_pair[0]
        pair = {
            **labels(first, variant),
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


def answer_columns(answers: Sequence[Elicited] | Sequence[Written]) -> dict[str, list[Any]]:
    """Return the columns that say what became of prompts."""
    columns: dict[str, list[Any]] = {}
    for field in fields(answers[0]):
        own = [getattr(answer, field.name) for answer in answers]
        # NaN is how Python says missing; the table has nulls.
        columns[field.name] = [None if value != value else value for value in own]
    return columns | {"status": [str(status) for status in columns["status"]]}
