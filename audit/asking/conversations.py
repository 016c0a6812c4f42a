"""Reconstructs a run's prompts and what was written before them: for export before the run, and for its report.

A run's folder keeps the parts of its prompts, see :mod:`audit.runs.prompts`. For runs of earlier versions they are
rebuilt from the configuration, as long as that gives the same prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from audit.asking.plan import Plan, make_plan, prompt_columns
from audit.asking.run_identity import kept_difference, prompts_difference
from audit.asking.strategies.given import preview, values_of
from audit.configuration.schema import load_config
from audit.errors import AuditError, StoreError
from audit.runs.manifest import Manifest
from audit.runs.prompts import FILE as PROMPTS
from audit.runs.prompts import CallShown, ConversationPrompt, PromptsAsked
from audit.tables.formatting import plural
from stimuli.errors import StimulusError, in_one_line
from stimuli.narratives import EmotionWords
from stimuli.prompts import PromptGrid, earlier_turns
from stimuli.strategies import THOUGHT, Strategy, strategy_values


def prompt_records(plan: Plan, given: Sequence[Mapping[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
    """Yield every prompt of a run as plain values, in the grid's order: its labels and the messages of its last call.

    Strategies with stages add ``stages``, the messages of each. What only a model can supply is named in brackets: the
    texts of stages, and similar examples and inferred knowledge unless ``given`` has them.
    """
    brought = values_of(preview(plan) if given is None else given)
    strategy = plan.strategy
    texts = [f"[what stage {stage.name} writes]" for stage in strategy.stages]
    for cell in plan.grid:
        values = strategy_values(plan.grid, cell, brought)
        record: dict[str, Any] = prompt_columns(cell, plan.grid.variant.name)
        if len(plan.grid.wordings) > 1:
            record["wording"] = cell.wording
        for place, stage in enumerate(strategy.stages):
            prompt = strategy.prompt_of(place, values, texts[:place])
            call = {"stage": stage.name, "system": prompt.system, "turns": prompt.turns, "user": prompt.user}
            record.setdefault("stages", []).append(call)
        last = strategy.prompt_of(None, values, texts)
        asked = {"system": last.system} | ({"turns": last.turns} if last.turns else {}) | {"user": last.user}
        yield record | asked | ({"begun": plan.begun} if plan.begun else {})


def what_was_asked(
    folder: Path, manifest: Manifest, answers: pd.DataFrame, *, stages: pd.DataFrame, given: Sequence[Mapping[str, Any]]
) -> tuple[Callable[[int], ConversationPrompt] | None, str]:
    """Return a function from ``prompt_index`` to the prompt, or None and why the prompts are lost."""
    kept, why_not = _asked_of(folder, manifest)
    if kept is None:
        return None, why_not
    grid, strategy = kept.grid, kept.strategy
    written = _texts_of(stages)
    brought = values_of(given)
    if strategy.brings and not brought:
        return None, "the run folder's given.parquet, with examples and knowledge, is gone"
    thinking = manifest.config.thinking
    thinks = thinking.mode if thinking.is_on else ""
    dropped = answers.loc[answers["n_dropped"].fillna(0) > 0].set_index("prompt_index")["n_dropped"].to_dict()

    def asked(place: int) -> ConversationPrompt:
        cell = grid[place]
        values = strategy_values(grid, cell, brought)
        narrative = cell.narrative.wording(grid.variant.narrative, experiencer=cell.experiencer.term)
        return _conversation(values, strategy, written(place), narrative, int(dropped.get(place, 0)), thinks=thinks)

    return asked, ""


def narratives_of(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Map identifiers to narratives as the prompts showed them; empty if the prompts are lost."""
    grid, _ = grid_of(folder, manifest)
    if grid is None:
        return {}
    return {each.narrative_id: each.wording(grid.variant.narrative) for each in grid.narratives.narratives}


def grid_of(folder: Path, manifest: Manifest) -> tuple[PromptGrid | None, str]:
    """Return the run's prompts, or None and why they are lost."""
    asked, why_not = _asked_of(folder, manifest)
    return (None, why_not) if asked is None else (asked.grid, "")


def emotions_of(folder: Path, manifest: Manifest) -> dict[str, EmotionWords]:
    """Map each emotion of the run to its words; empty if the prompts are lost."""
    kept = manifest.emotions.words
    if kept:  # the file of narratives may have moved since
        return {emotion: EmotionWords(**words) for emotion, words in kept.items()}
    grid, _ = grid_of(folder, manifest)
    return {} if grid is None else {each.emotion: each.words for each in grid.narratives.narratives}


def stages_are_told(manifest: Manifest) -> bool:
    """Tell whether a stage is shown the emotion, also through the question: then naming the emotion shows nothing."""
    led = manifest.config.strategy
    shown = [led.get("stage_system") or "", *(stage["prompt"] for stage in led.get("stages") or ())]
    return any(mark in template for template in shown for mark in ("{emotion", "{question}"))


def _texts_of(stages: pd.DataFrame) -> Callable[[int], dict[str, _Stage]]:
    """Return a function from ``prompt_index`` to the prompt's stages, reading only the rows it needs."""
    ordered = stages.sort_values("prompt_index", kind="stable")
    places = ordered["prompt_index"].to_numpy()
    names, texts, statuses = (ordered[name].to_numpy(dtype=object) for name in ("stage", "text", "status"))
    n_read, n_dropped = (ordered[name].to_numpy() for name in ("n_prompt_tokens", "n_dropped"))

    def written(place: int) -> dict[str, _Stage]:
        rows = range(*np.searchsorted(places, [place, place + 1]).tolist())
        return {names[k]: _Stage(texts[k], statuses[k], bool(n_read[k]), int(n_dropped[k])) for k in rows}

    return written


_TOO_LONG: Final = "failed: it does not fit into the model's context"
_THOUGHTS: Final = {
    ("written", "on"): "",
    ("written", "budget"): "",
    ("empty", "on"): "the model thought nothing",
    ("empty", "budget"): "the model thought nothing",
    ("cut", "on"): "the model did not end it",
    ("cut", "budget"): "the model did not end it; it was closed there",
    ("failed", "on"): "failed: no thought",
    ("failed", "budget"): "failed: no thought",
}
"""The note on a thought, by its status and the thinking mode."""


class _Stage(NamedTuple):
    """What the run folder has on one stage of one prompt."""

    text: str
    status: str
    was_asked: bool
    n_dropped: int


def _conversation(
    values: Mapping[str, str],
    strategy: Strategy,
    written: Mapping[str, _Stage],
    narrative: str,
    n_dropped: int,
    *,
    thinks: str,
) -> ConversationPrompt:
    """Reconstruct one prompt with all that was asked and written before it."""
    # A stage without a row is unknown to templates that show it.
    texts = [
        written[stage.name].text if stage.name in written else f"[what stage {stage.name} wrote]"
        for stage in strategy.stages
    ]
    last = strategy.prompt_of(None, values, texts)
    turns = [text for _, text in strategy.example_turns(values)]
    calls = [
        CallShown(f"example {place}", user, answer, note="shown beforehand", example=True)
        for place, (user, answer) in enumerate(zip(turns[::2], turns[1::2], strict=True), start=1)
    ]
    earlier = [text for _, text in earlier_turns(values)]
    calls += [
        CallShown("earlier turn", user, answer, note="shown beforehand: the model did not write it")
        for user, answer in zip(earlier[::2], earlier[1::2], strict=True)
    ]
    failed = False
    for place, stage in enumerate(strategy.stages):
        if failed:
            calls.append(CallShown(stage.name, "", "", note="not asked, since an earlier call failed"))
            continue
        asked = strategy.prompt_of(place, values, texts[:place])
        system = None if asked.system == last.system else asked.system
        if (row := written.get(stage.name)) is None:
            calls.append(CallShown(stage.name, asked.user, "", note="not in the run folder", system=system))
            continue
        failed = row.status == "failed"
        note = {
            "written": "",
            "empty": "nothing but white space was written",
            "cut": f"cut at {plural(stage.max_tokens, 'token')}",
            "failed": "failed: no answer" if row.was_asked else _TOO_LONG,
        }[row.status]
        said = "; ".join(filter(None, [note, _left_out(row.n_dropped)]))
        calls.append(CallShown(stage.name, asked.user, row.text, note=said, system=system))
    note = "the question was not asked, since an earlier call failed" if failed else _left_out(n_dropped)
    if thinks and not failed:
        row = written.get(THOUGHT)
        if row is None:
            calls.append(CallShown(THOUGHT, "", "", note="not in the run folder"))
        else:
            said = _THOUGHTS[row.status, thinks] if row.was_asked or row.status != "failed" else _TOO_LONG
            said = "; ".join(filter(None, [said, _left_out(row.n_dropped)]))
            calls.append(CallShown(THOUGHT, "", row.text, note=said))
            if row.status == "failed":
                note = "no answer was asked for, since the thought before it failed"
            elif row.status == "cut" and thinks == "on":
                note = "no answer was asked for, since the thought before it did not end"
    return ConversationPrompt(system=last.system, user=last.user, narrative=narrative, calls=tuple(calls), note=note)


def _left_out(n_dropped: int) -> str:
    if n_dropped == 0:
        return ""
    if n_dropped == 1:
        return "1 example or earlier call did not fit and was left out"
    return f"{n_dropped} examples or earlier calls did not fit and were left out"


def _asked_of(folder: Path, manifest: Manifest) -> tuple[PromptsAsked | None, str]:
    """Read a run's prompts from its folder, or rebuild them; else say why neither is possible."""
    if manifest.elicitation.method == "outside":
        return None, "another tool collected the ratings"
    try:
        kept = PromptsAsked.read(folder)
    except StoreError as error:
        return None, in_one_line(error)
    if kept is not None:
        other = kept_difference(manifest.identity.content, kept)
        return (kept, "") if other is None else (None, f"those in {PROMPTS} are not of this run ({other})")
    try:
        plan = make_plan(load_config(manifest.config.content))
        difference = prompts_difference(manifest.identity.content, plan)
        reason = "" if difference is None else str(difference)
    except (AuditError, StimulusError) as error:
        reason = in_one_line(error)
    if reason:
        return None, f"they could not be built again ({reason})"
    return plan.asked, ""
