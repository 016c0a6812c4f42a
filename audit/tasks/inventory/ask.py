"""Has a model fill in the missing part of a questionnaire, shard by shard, and keeps its answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from audit.asking.collect import ask_shards, earlier_manifest, end_parts, manifest_of, missing_shards, nothing_to_ask
from audit.asking.shown_prompt import shown_prompt
from audit.asking.workers.base import Course, Job
from audit.engines.progress import ProgressPart, Say
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.ratings import Status
from audit.tasks.inventory.plan import InventoryCell, InventoryPlan, label_columns
from stimuli.inventories import read_list_answers

if TYPE_CHECKING:
    from audit.asking.elicitation.base import Elicitation
    from audit.engines.base import Done, Engine, OpenModel

_LAST_NUMBER: Final = re.compile(r"[0-9][0-9.,/]*\s*\Z")  # may be incomplete in a cut text: "1" of "10"


def collect_answers(plan: InventoryPlan, folder: RunFolder, *, command: str, say: Say) -> Manifest:
    """Ask for all answers that the run still lacks; see :meth:`audit.tasks.base.Task.collect`."""
    earlier = earlier_manifest(plan, folder, say=say)
    if earlier is not None:
        earlier = earlier.having(inventory=plan.questionnaire)  # the key may have been corrected since
        if not missing_shards(plan, earlier, folder):
            return nothing_to_ask(plan, folder, earlier, say=say)
    from audit.asking.workers.open import open_workers

    workers, load_s = open_workers(
        plan.config,
        folder,
        plan,
        writes=plan.method == "generate",
        how=f"answers: {plan.method}",
        n_shards=None if earlier is None else len(missing_shards(plan, earlier, folder)),
        say=say,
    )
    with workers:
        prompt = plan.grid.prompt(plan.grid[0])
        example = {"system": prompt.system, "user": prompt.user}
        manifest = manifest_of(plan, folder, earlier, workers, example=example, given={}, command=command, say=say)
        for line in shown_prompt(example):
            say(line)
        manifest = ask_shards(
            plan, folder, manifest, workers, partial(_ask_shard, plan, folder), load_s=load_s, say=say
        )
        return end_parts(manifest, workers, folder, say=say)


def _ask_shard(plan: InventoryPlan, folder: RunFolder, number: int, places: range, part: ProgressPart) -> Course[bool]:
    rows = yield Job(f"shard {number}", partial(_answer, places=places), part.call)
    folder.write_shard(number, rows, plan.kind)
    return True


def _answer(plan: InventoryPlan, model: OpenModel, done: Done, *, places: range) -> list[dict[str, Any]]:
    """Return the answers of some places of the grid. Runs in a worker, see :mod:`audit.asking.workers`."""
    ask = _elicited(plan) if plan.presentation == "single" else partial(_written, plan)
    return list(ask(model.engine, plan.grid[places.start : places.stop], done))


_Ask: TypeAlias = Callable[["Engine", Sequence[InventoryCell], "Done"], Iterator[dict[str, Any]]]


def _elicited(plan: InventoryPlan) -> _Ask:
    """Return a function that asks for one answer a prompt, elicited as ratings are."""
    from audit.asking.elicitation.expected import ExpectedElicitation
    from audit.asking.elicitation.generate import GenerateElicitation

    scale = plan.grid.inventory.scale
    elicitation: Elicitation
    if plan.max_tokens is None:
        elicitation = ExpectedElicitation.of(scale, plan.config.elicitation.max_pruned_points)
    else:
        elicitation = GenerateElicitation(scale, plan.max_tokens, "scale")

    def ask(engine: Engine, cells: Sequence[InventoryCell], done: Done) -> Iterator[dict[str, Any]]:
        found = elicitation.elicit(engine, [plan.grid.prompt(cell) for cell in cells], done=done)
        for cell, each in zip(cells, found, strict=True):
            yield _row(
                plan,
                cell,
                0,
                status=each.status,
                answer=each.intensity,
                response=each.response,
                number_mass=None if math.isnan(each.number_mass) else each.number_mass,
                n_prompt_tokens=each.n_prompt_tokens,
            )

    return ask


def _written(
    plan: InventoryPlan, engine: Engine, cells: Sequence[InventoryCell], done: Done
) -> Iterator[dict[str, Any]]:
    """Ask for whole lists, and read them item by item."""
    from audit.asking.elicitation.parsing import parse_response
    from audit.asking.elicitation.plain_text import answer_of

    assert plan.max_tokens is not None
    low, high = plan.grid.inventory.scale.low, plan.grid.inventory.scale.high
    prompts = [plan.grid.prompt(cell) for cell in cells]
    texts = engine.write(prompts, max_tokens=plan.max_tokens, done=done)
    for cell, prompt, written in zip(cells, prompts, texts, strict=True):
        items = cell.sheet.items
        text = written.text
        answers: list[float | None] = [None] * len(items)
        unread = Status.FAILED
        if text is not None:
            kept = _LAST_NUMBER.sub("", text) if written.cut else text
            answers = read_list_answers(answer_of(kept), len(items), low, high, texts=[item.text for item in items])
            unread = Status.UNPARSEABLE
            # A refusal without any answer is one of all items; next to answers, a line that refuses is unparseable.
            if not any(answer is not None for answer in answers):
                read = parse_response(text, low=low, high=high, quoted=[prompt.user])
                declined = written.refused or read.status is Status.REFUSED
                unread = Status.REFUSED if declined else Status.UNPARSEABLE
        for place, answer in enumerate(answers):
            yield _row(
                plan,
                cell,
                place,
                status=unread if answer is None else Status.RATED,
                answer=math.nan if answer is None else answer,
                response=text or "",
                number_mass=None,
                n_prompt_tokens=written.n_prompt_tokens,
            )


def _row(
    plan: InventoryPlan, cell: InventoryCell, place: int, *, status: Status, answer: float, **more: object
) -> dict[str, Any]:
    return {
        "prompt_index": cell.index,
        **label_columns(cell, plan.grid.variant.name),
        "place": place + 1,
        "item_id": cell.sheet.items[place].item_id,
        "status": str(status),
        "answer": None if math.isnan(answer) else answer,
        **more,
    }
