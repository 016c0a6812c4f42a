"""The plan of a run that fills in a questionnaire: everything known before a model is loaded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Final, Literal, cast, overload

from audit.asking.plan import ENOUGH, enough_for
from audit.asking.run_identity import PLACES, READS, TOLD, asked_model_name, identity_asked, settings_of
from audit.configuration.schema import AuditConfig
from audit.configuration.task import InventoryTask
from audit.errors import ConfigError
from audit.tables.formatting import plural
from audit.tasks.inventory.tables import DEFAULT
from stimuli.hashes import fingerprint
from stimuli.identities import Dimension, Identity, load_dimensions
from stimuli.inventories import Inventory, Presentation, QuestionnaireSheet, load_affect, read_inventory, sheets
from stimuli.narratives import Narrative, Narratives, load_narratives
from stimuli.prompts import Prompt, PromptVariant
from stimuli.strategies import NO_STRATEGY, Strategy

_ORDERS: Final = {"list": 5, "single": 2}
_OF_PERCEIVERS: Final = ("identities", "unspecified", "no_persona")  # settings that matter without a narrative
_TOKENS_AN_ITEM: Final = 32  # room for a line that repeats its item before the answer


@dataclass(frozen=True, slots=True)
class InventoryCell:
    """One place of the grid: who fills in which sheet, imagining what. Without a situation ``narrative`` is None."""

    index: int
    dimension: Dimension
    perceiver: Identity
    narrative: Narrative | None
    sheet: QuestionnaireSheet


class InventoryGrid(Sequence[InventoryCell]):
    """Every perceiver of every dimension with every sheet, by default and in each situation, computed on demand.

    In this order, default first, prompts that begin alike are neighbours. ``variant`` brings the persona, and says
    which wording of the situations is shown.
    """

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        inventory: Inventory,
        shown: Sequence[QuestionnaireSheet],
        narratives: Narratives | None,
        variant: PromptVariant,
    ) -> None:
        self.dimensions = tuple(dimensions)
        self.inventory = inventory
        self.sheets = tuple(shown)
        self.narratives = narratives
        self.variant = variant
        self._situations = (None, *(narratives.narratives if narratives is not None else ()))
        each = len(self._situations) * len(self.sheets)
        self._ends = list(accumulate(len(d.perceivers) * each for d in self.dimensions))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> InventoryCell: ...
    @overload
    def __getitem__(self, index: slice) -> list[InventoryCell]: ...
    def __getitem__(self, index: int | slice) -> InventoryCell | list[InventoryCell]:
        """Return the cell at a place, or the cells of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        n_prompts = len(self)
        if not -n_prompts <= index < n_prompts:
            raise IndexError(f"prompt {index} of {n_prompts}")
        index %= n_prompts
        k = bisect_right(self._ends, index)
        dimension = self.dimensions[k]
        rest, s = divmod(index - (self._ends[k - 1] if k else 0), len(self.sheets))
        p, n = divmod(rest, len(self._situations))
        return InventoryCell(index, dimension, dimension.perceivers[p], self._situations[n], self.sheets[s])

    def prompt(self, cell: InventoryCell) -> Prompt:
        """Return the prompt of one place of the grid."""
        situation = "" if cell.narrative is None else cell.narrative.wording(self.variant.narrative)
        return cell.sheet.prompt(cell.perceiver, persona=self.variant.persona, situation=situation)

    @property
    def wording(self) -> list[Prompt]:
        """The sheets for a nameless perceiver: all of the prompts except identities and situations."""
        nameless = Identity("{perceiver}", "", ())
        situations = ("",) if self.narratives is None else ("", "{narrative}")
        return [
            sheet.prompt(nameless, persona=self.variant.persona, situation=situation)
            for situation in situations
            for sheet in self.sheets
        ]


@dataclass(frozen=True)
class InventoryPlan:
    """The prompts of a run that fills in a questionnaire."""

    config: AuditConfig
    grid: InventoryGrid
    presentation: Presentation  # one item a prompt, or a list
    n_orders: int  # that each perceiver sees
    method: Literal["expected", "generate"]
    max_tokens: int | None  # of a written answer; None if nothing is written
    strategy: Strategy  # always the empty one; the manifest has a place for it
    before = ()  # nothing is asked before the items
    n_again = 0  # items are asked once

    @property
    def room(self) -> int:
        """Tokens that an answer may take."""
        return self.max_tokens or 0

    @property
    def kind(self) -> Literal["answers"]:
        """What the model is asked for."""
        return "answers"

    @property
    def affect(self) -> bool:
        """Whether answers by default are compared with those in situations."""
        return self.grid.narratives is not None

    @property
    def named(self) -> tuple[str, ...]:
        """Words for the run folder's name: the task and the questionnaire."""
        return self.config.task.kind, self.grid.inventory.name

    @property
    def announced(self) -> str:
        """What is asked of whom, in a line."""
        grid, imagined = self.grid, self.grid.narratives
        situations = (
            "" if imagined is None else f" x {len(imagined.narratives) + 1:,} situations, the default one of them"
        )
        return (
            f"{asked_model_name(self.config.model)}, prompt {grid.variant.name}: {grid.inventory.name} "
            f"({plural(len(grid.inventory.items), 'item')}, "
            f"presentation {self.presentation}, {plural(self.n_orders, 'order')}: "
            f"{plural(len(grid.sheets), 'sheet')}){situations} x "
            f"perceivers in {', '.join(d.name for d in grid.dimensions)} = {plural(len(grid), 'prompt')}"
        )

    def identity(self) -> dict[str, Any]:
        """Return what makes two runs the same. The key is left out, since answers are kept as given."""
        config, grid = self.config, self.grid
        settings = settings_of(config)
        stimuli = settings["stimuli"]
        left_out = (*PLACES, *TOLD, "conversations")
        kept = [key for key in stimuli if key not in left_out] if self.affect else _OF_PERCEIVERS
        wording = [{key: value for key, value in asdict(each).items() if key != "begun"} for each in grid.wording]
        items = [[item.item_id for item in sheet.items] for sheet in grid.sheets]
        shown = grid.variant.narrative if self.affect else None
        del settings["strategy"]
        expected = self.method == "expected"
        identities = {d.name: [identity_asked(identity) for identity in d.perceivers] for d in grid.dimensions}
        return settings | {
            "stimuli": {key: stimuli[key] for key in kept},
            "prompt": {
                "variant": grid.variant.name,
                "sha256": fingerprint({"wording": wording, "items": items, "narrative": shown}),
            },
            "elicitation": {"max_pruned_points": config.elicitation.max_pruned_points, "reads": READS}
            if expected
            else None,
            "task": {"kind": config.task.kind, "inventory": grid.inventory.name, **self._filled_in},
            "narratives": None if grid.narratives is None else grid.narratives.sha256,
            "identities": fingerprint(identities),
            "dimensions": [d.name for d in grid.dimensions],
        }

    def described(self) -> dict[str, Any]:
        """Return the manifest's entries on the task, and the questionnaire with its key."""
        return {"task": {"kind": self.config.task.kind, **self._filled_in}, "inventory": self.questionnaire}

    @property
    def questionnaire(self) -> dict[str, Any]:
        """The questionnaire with its key, so that scoring needs no other file."""
        inventory = self.grid.inventory
        return {**asdict(inventory), "n_items": len(inventory.items), "sha256": inventory.sha256}

    @property
    def _filled_in(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("presentation", "n_orders", "affect", "method", "max_tokens")}


def make_inventory_plan(config: AuditConfig) -> InventoryPlan:
    """Read everything that a questionnaire's prompts are made of, and check that it fits together."""
    task = cast(InventoryTask, config.task)
    strategy = config.strategy.strategy()
    if strategy.name != NO_STRATEGY or strategy.stages or strategy.brings:
        raise ConfigError(f"strategy={strategy.name}: task=inventory asks nothing before its items; use strategy=none")
    if config.thinking.is_on:
        raise ConfigError(
            f"thinking={config.thinking.mode}: task=inventory asks for numbers without a thought before them; use "
            "thinking=off"
        )
    method = _method(config, task)
    n_orders = _ORDERS[task.presentation] if task.n_orders is None else task.n_orders
    inventory = load_affect() if task.path is None else read_inventory(task.path)
    shown = sheets(inventory, presentation=task.presentation, n_orders=n_orders, seed=config.seed)
    stimuli = config.stimuli
    dimensions = load_dimensions(
        stimuli.identities,
        own=stimuli.own_identities,
        names=config.dimensions,
        unspecified=stimuli.unspecified,
        no_persona=stimuli.no_persona,
    )
    variant = config.prompt_variant()
    narratives = None
    if task.path is None if task.affect is None else task.affect:
        narratives = _situations(config, variant)
        if stimuli.situations_per_emotion == ENOUGH:  # as for ratings on a scale of 100: a questionnaire has no gate
            config, _ = enough_for(config, narratives, length=100.0)
            narratives = _situations(config, variant)
    grid = InventoryGrid(dimensions, inventory, shown, narratives, variant)
    max_tokens = None
    if method == "generate":
        of_item = config.elicitation.max_tokens
        usual = of_item if task.presentation == "single" else _TOKENS_AN_ITEM * len(inventory.items)
        max_tokens = task.max_tokens or usual
    return InventoryPlan(config, grid, task.presentation, n_orders, method, max_tokens, strategy)


def _method(config: AuditConfig, task: InventoryTask) -> Literal["expected", "generate"]:
    """Choose between ``expected`` and ``generate``. Lists can only be written."""
    if task.presentation == "list":
        asked = task.method if task.method != "auto" else config.elicitation.method
        if asked == "expected":
            which = "task.method" if task.method == "expected" else "elicitation"
            raise ConfigError(
                f"task.presentation=list needs a model that writes its answers, but {which}=expected reads the "
                f"probabilities of one number; use task.presentation=single, or {which}=generate"
            )
        return "generate"
    method = config.elicitation_method if task.method == "auto" else task.method
    if method == "generate" and config.elicitation.parser != "scale":
        raise ConfigError(
            f"elicitation.parser={config.elicitation.parser} reads the study's ratings; task=inventory needs "
            "elicitation.parser=scale"
        )
    return method


def _situations(config: AuditConfig, variant: PromptVariant) -> Narratives:
    stimuli = config.stimuli
    if stimuli.source == "conversations":
        raise ConfigError("task=inventory uses situations, not conversations; use stimuli=geneva, hou2025 or csv")
    per_emotion = stimuli.situations_per_emotion
    narratives = load_narratives(
        stimuli.source,
        path=stimuli.path,
        columns=stimuli.columns.model_dump(),
        emotions=stimuli.emotions,
        situations_per_emotion=per_emotion if isinstance(per_emotion, int) else None,
        seed=config.seed,
        missing=stimuli.missing or (),
    )
    narratives.check_wording(variant.narrative, asked_by=f"task=inventory with prompt {variant.name}")
    if any(each.narrative_id == DEFAULT for each in narratives.narratives):
        raise ConfigError(
            f"a narrative is called {DEFAULT!r}, which is reserved for answers without a narrative; rename it"
        )
    return narratives


def label_columns(cell: InventoryCell, variant: str) -> dict[str, Any]:
    """Return the columns of the table of answers that identify a row's prompt."""
    return {
        "dimension": cell.dimension.name,
        "variant": variant,
        "perceiver": cell.perceiver.term,
        "perceiver_group": cell.perceiver.group,
        "narrative_id": DEFAULT if cell.narrative is None else cell.narrative.narrative_id,
        "emotion": "" if cell.narrative is None else cell.narrative.emotion,
        "order": cell.sheet.order,
    }


def inventory_records(plan: InventoryPlan) -> Iterator[dict[str, Any]]:
    """Yield every prompt as plain values, in the grid's order: its identifiers, items and messages."""
    for cell in plan.grid:
        prompt = plan.grid.prompt(cell)
        yield label_columns(cell, plan.grid.variant.name) | {
            "items": [item.item_id for item in cell.sheet.items],
            "system": prompt.system,
            "user": prompt.user,
        }
