"""Asks a model what is missing of a run, shard by shard and stage by stage, and keeps what it answers.

What an answer is, a task says: see :data:`Answer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from audit.config import AuditConfig
from audit.conversations import prompt_records
from audit.errors import StoreError
from audit.plan import Plan, labels
from audit.progress import Progress, Say
from audit.runs.manifest import Manifest
from audit.runs.planned import Planned
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import PromptsAsked
from audit.runs.provenance import (
    check_same_run,
    describe_run,
    first_difference,
    model_identity,
    plan_difference,
    states_seen,
    with_sight,
)
from audit.runs.store import RunFolder
from stimuli.prompts import PromptCell
from stimuli.strategies import strategy_values

if TYPE_CHECKING:
    from audit.elicitation.base import Elicited
    from audit.engines.base import Done, OpenModel
    from audit.strategies.run import Written

ENGINE_LOG: Final = "engine.log"
"""The file of the run folder that takes what the model's library prints while it loads."""
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
    """

    cells: Sequence[PromptCell]
    values: Sequence[Mapping[str, str]]
    earlier: Sequence[Sequence[Written]]


Answer: TypeAlias = "Callable[[Plan, OpenModel, Asked, Done], dict[str, list[Any]]]"
"""Asks a model for the answers to prompts, and returns them as columns; is told how many more are done."""


@dataclass(frozen=True)
class Session:
    """A run whose prompts are all answered, and its model, which may be asked more.

    Attributes
    ----------
    plan, folder, manifest, model
        The run, and whom it asks.
    given
        The examples and knowledge that the strategy brought, by narrative.
    """

    plan: Plan
    folder: RunFolder
    manifest: Manifest
    model: OpenModel
    given: Mapping[str, Mapping[str, str]]

    def again(self, places: Sequence[int]) -> Asked:
        """Return prompts of the run by their ``prompt_index``, with what each stage wrote: it is not asked again."""
        from audit.strategies.run import Written

        plan, folder = self.plan, self.folder
        cells = [plan.grid[place] for place in places]
        asked = [strategy_values(plan.grid, cell, self.given) for cell in cells]
        earlier: list[list[Written]] = []
        shards = sorted({place // self.manifest.shard_size for place in places})
        for number in range(len(plan.strategy.stages)):
            rows = {row["prompt_index"]: row for shard in shards for row in folder.read_stage(shard, number) or []}
            if lacking := [place for place in places if place not in rows]:
                raise StoreError(
                    f"{folder.path}/stages: what stage {number + 1} wrote for prompt {lacking[0]} is gone; give "
                    "elicitation.check_sample=0 elicitation.noise_sample=0, or restore the file"
                )
            earlier.append([Written(**{field: rows[place][field] for field in _WRITTEN}) for place in places])
        return Asked(cells, asked, earlier)

    def beside(self, cells: Sequence[PromptCell]) -> Asked:
        """Return prompts that need not be of the run's grid, before which nothing is asked."""
        return Asked(cells, [strategy_values(self.plan.grid, cell) for cell in cells], [])


def earlier_manifest(plan: Planned, folder: RunFolder) -> Manifest | None:
    """Return the manifest of the run that a folder holds; None in a new one.

    Raises
    ------
    StoreError
        If the folder holds another run, or a damaged manifest, or answers or stages without a manifest.
    """
    manifest = folder.read_manifest()
    if manifest is not None:
        check_same_run(plan_difference(manifest.identity.content, plan), folder.path)
        if manifest.n_prompts != len(plan.grid):
            raise StoreError(
                f"{folder.path}/manifest.json is damaged: it says {manifest.n_prompts:,} prompts, and the run has "
                f"{len(plan.grid):,}; restore the file"
            )
    elif folder.shards(plan.kind) or folder.has_stages():
        raise StoreError(f"{folder.path} has {plan.kind} or stages but no manifest.json; name another run_dir")
    return manifest


def missing_shards(plan: Planned, manifest: Manifest, folder: RunFolder) -> list[int]:
    """Return the numbers of the shards that are not there yet."""
    n_shards = -(-manifest.n_prompts // manifest.shard_size)
    return sorted(set(range(n_shards)) - folder.shards(plan.kind))


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
    """Load the model, do the shards that are missing, and return the run with its model.

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
        As of :func:`load_model`; the stages of a strategy are written whatever the answer is.
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
    from audit.strategies.given import give, given_sha256, values_of

    config = plan.config
    given = folder.read_given() if earlier is not None else []
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
        folder.write_given(given)
    model, load_s = (
        (opened, 0.0)
        if opened is not None
        else load_model(config, folder, writes=writes or bool(plan.strategy.stages), how=how, say=say)
    )
    if earlier is None:
        first = next(prompt_records(plan, given))
        example = {name: value for name, value in first.items() if name in ("system", "turns", "user", "begun")}
        manifest = describe_run(plan, model, example=example, given=brought, command=command)
    else:
        check_same_run(first_difference(earlier.identity.content, model_identity(model)), folder.path)
        manifest = earlier
    if earlier is None or not (folder.path / PROMPTS).exists():  # a run of an earlier version goes on
        folder.write_file(PROMPTS, PromptsAsked(plan.grid, plan.strategy).to_bytes())
    by_narrative = values_of(given)
    manifest = with_sight(manifest, model)
    manifest = ask_timed(manifest, folder, load_s, _ask_shards(plan, by_narrative, model, answer, folder, manifest))
    return Session(plan, folder, manifest, model, by_narrative)


def begin_part(model: OpenModel, folder: RunFolder, part: str) -> None:
    """Have a model asked for another part of a run: it forgets the one before, and what it answers is kept at once.

    Parameters
    ----------
    part
        Its name: of a run that goes on, the part that was begun has it again.
    """
    from audit.engines.base import Keeps

    model.engine.forget()
    if isinstance(model.engine, Keeps):
        model.engine.keep_in(folder.part_begun(part))


def end_parts(manifest: Manifest, model: OpenModel, folder: RunFolder, *, say: Say) -> Manifest:
    """Drop what was kept of parts, all of which are whole, and return the manifest with what was seen of the model."""
    from audit.engines.base import Keeps

    if isinstance(model.engine, Keeps):
        model.engine.keep_in(None)
        folder.drop_part_begun()
    manifest = with_sight(manifest, model)
    if len(states := states_seen(manifest)) > 1:
        say(
            f"the server told {len(states)} fingerprints in the course of this run ({', '.join(states)}): its answers "
            "may not be all of one model"
        )
    return manifest


def load_model(config: AuditConfig, folder: RunFolder, *, writes: bool, how: str, say: Say) -> tuple[OpenModel, float]:
    """Load the model of a run, and return it with the seconds that it took.

    Parameters
    ----------
    config
        The model and its engine.
    folder
        The run's; takes what the model's library prints.
    writes
        Whether the model writes texts, see :func:`audit.engines.open.choose_engine`.
    how
        How an answer is got, for the line that says what was loaded.
    say
        Takes lines about progress.

    Raises
    ------
    ModelError
        If the model or the engine cannot be loaded.
    """
    # Imported here: torch, transformers and vLLM take seconds, and a complete run needs none of them.
    from audit.engines.base import token_reader
    from audit.engines.open import choose_engine, open_model

    choice = choose_engine(config.engine, writes=writes)
    say(f"loading {config.model.path} by {choice.name}, which reports to {folder.path / ENGINE_LOG} ...")
    clock = time.perf_counter()
    with folder.output_in(ENGINE_LOG):
        model = open_model(config.model, config.engine, seed=config.seed, writes=writes)
    load_s = time.perf_counter() - clock
    facts = model.engine.facts
    say(f"{facts.name} {facts.version} on {facts.device}, {facts.dtype}; {how}")
    if model.why:
        say(f"why: {model.why}")
    if config.engine.add_special_tokens:
        say(token_reader(model.engine, remedy="use engine.add_special_tokens=false").tokenizer.say_added())
    return model, load_s


def ask_timed(manifest: Manifest, folder: RunFolder, load_s: float, asked: Iterator[int]) -> Manifest:
    """Count the session, ask what is missing, and return the manifest with how long it took.

    A shard that an earlier session had begun is not timed: that session took a part of its time.

    Parameters
    ----------
    manifest
        The run's; written before anything is asked.
    folder
        The run's; entered.
    load_s
        What loading the model took, in seconds.
    asked
        Asks a shard at a time, and says how many prompts those were; 0 of a shard that was begun before.
    """
    manifest = manifest.having(n_sessions=manifest.n_sessions + 1)
    folder.write_manifest(manifest)
    n_prompts, elicit_s, clock = 0, 0.0, time.perf_counter()
    timings: Mapping[str, float] = manifest.timings.content
    for n_whole in asked:
        timings = {}
        took, clock = time.perf_counter() - clock, time.perf_counter()
        n_prompts += n_whole
        elicit_s += took if n_whole else 0.0
    timings = {**timings, "load_s": load_s}  # a session that asks no prompt of the run leaves the others
    if n_prompts:
        timings |= {"elicit_s": elicit_s, "n_prompts": n_prompts, "prompts_per_s": n_prompts / elicit_s}
    return manifest.having(timings=timings)


def shards_to_ask(plan: Planned, folder: RunFolder, manifest: Manifest) -> Iterator[tuple[int, range, Progress]]:
    """Yield the shards that are missing: number, places of the grid, and what is told of the prompts that are done."""
    n_prompts, size = len(plan.grid), manifest.shard_size
    missing = {
        number: range(number * size, min((number + 1) * size, n_prompts))
        for number in missing_shards(plan, manifest, folder)
    }
    n_missing = sum(map(len, missing.values()))
    with Progress(n_prompts, there=n_prompts - n_missing, n_calls=1 + len(plan.strategy.stages)) as progress:
        for number, places in missing.items():
            with progress.part(len(places)):
                yield number, places, progress


def _ask_shards(
    plan: Plan,
    given: Mapping[str, Mapping[str, str]],
    model: OpenModel,
    answer: Answer,
    folder: RunFolder,
    manifest: Manifest,
) -> Iterator[int]:
    """Do the shards that are missing, stage by stage, and yield how many prompts those were; 0 of one begun before."""
    from audit.engines.base import Answered

    grid = plan.grid
    for number, places, progress in shards_to_ask(plan, folder, manifest):
        cells = grid[places.start : places.stop]
        begun = folder.has_stages(number)
        asked = [strategy_values(grid, cell, given) for cell in cells]
        earlier = _lead(plan, cells, asked, model, folder, number, progress)
        begin_part(model, folder, f"shard {number}")
        if isinstance(model.engine, Answered):
            model.engine.at(places)
        answers = answer(plan, model, Asked(cells, asked, earlier), progress.done)
        folder.write_shard(number, _cell_columns(cells, grid.variant.name) | answers, plan.kind)
        yield 0 if begun else len(places)


def _lead(
    plan: Plan,
    cells: Sequence[PromptCell],
    asked: Sequence[Mapping[str, str]],
    model: OpenModel,
    folder: RunFolder,
    shard: int,
    progress: Progress,
) -> list[list[Written]]:
    """Ask the stages of one shard that have not been asked, and return what all of them wrote."""
    from audit.strategies.run import Written, run_stage

    strategy, seed = plan.strategy, plan.config.seed
    places = [cell.index for cell in cells]
    earlier: list[list[Written]] = []
    for number, stage in enumerate(strategy.stages):
        kept = folder.read_stage(shard, number)
        own = [(place, stage.name) for place in places]
        if kept is not None and [(row["prompt_index"], row["stage"]) for row in kept] != own:
            raise StoreError(
                f"{folder.path}/stages: what shard {shard} holds as stage {number + 1} is not {stage.name} of its "
                "prompts, so it is not of this run; name another run_dir"
            )
        if kept is None:
            begin_part(model, folder, f"shard {number}, stage {stage.name}")
            written = run_stage(
                strategy,
                number,
                model.engine,
                asked=asked,
                earlier=earlier,
                places=places,
                seed=seed,
                done=progress.stage(stage.name),
            )
            kept = [
                {"prompt_index": place, "stage": stage.name, **asdict(each)}
                for place, each in zip(places, written, strict=True)
            ]
            folder.write_stage(shard, number, kept)
        else:
            progress.skip()
        earlier.append([Written(**{field: row[field] for field in _WRITTEN}) for row in kept])
    return earlier


def _cell_columns(cells: Sequence[PromptCell], variant: str) -> dict[str, list[Any]]:
    """Return the columns that say which prompts rows are of."""
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
