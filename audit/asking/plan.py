"""What a run will ask, as far as it is known before the model is loaded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from audit.asking.run_identity import PLACES, READS, TOLD, asked_model_name, grid_identity, settings_of
from audit.configuration.analysis_settings import USUAL_MARGIN
from audit.configuration.elicitation import AUTO
from audit.configuration.schema import AuditConfig
from audit.errors import ConfigError
from audit.runs.prompts import PromptsAsked
from audit.runs.store import Kind
from audit.tables.formatting import brief, plural
from stimuli.conversations import Conversations, read_conversations
from stimuli.errors import StimulusError, suggest
from stimuli.examples import ExamplePool, check_enough, check_unseen, load_pool
from stimuli.fitting import asked_pairs
from stimuli.identities import Dimension, load_dimensions, load_placebos
from stimuli.knowledge import Knowledge, read_knowledge
from stimuli.languages import LanguagePack
from stimuli.narratives import LATER_TURNS, Narratives, choose_narratives, load_narratives
from stimuli.prompts import DeployedVariant, PromptCell, PromptGrid
from stimuli.strategies import CLOSING, NO_STRATEGY, THOUGHT, Strategy, check_strategy

ENOUGH: Final = "enough"  # the value of stimuli.situations_per_emotion that leaves the number to the margin


@dataclass(frozen=True)
class Plan:
    """The prompts of a run and the strategy that leads the model to them."""

    config: AuditConfig
    grid: PromptGrid
    strategy: Strategy
    pool: ExamplePool | None = None  # of examples; None if the strategy shows none
    knowledge: Knowledge | None = None  # from a user's file; None if there is none or a model infers it
    conversations: Conversations | None = None  # the corpus that the narratives come from
    trials: Mapping[str, Any] | None = None  # the trials that chose the elicitation, for the manifest; None without any
    why_so_many: str = ""  # what the number of narratives was chosen for; empty if the user chose it

    def __post_init__(self) -> None:
        # The configuration knows the scale of templates only: a published prompt brings its own.
        if (scale := self.grid.variant.scale) is not None:
            self.config.statistics.check_on_scale(low=scale.low, high=scale.high)

    @property
    def asked(self) -> PromptsAsked:
        """The prompts as the run's folder keeps them."""
        return PromptsAsked(self.grid, self.strategy)

    @property
    def kind(self) -> Kind:
        """What the model is asked for, and the run's folder that holds it."""
        return self.config.task.stores

    @property
    def named(self) -> tuple[str, ...]:
        """Words for the run folder's name: the task and the source of the narratives."""
        return (*filter(None, [self.config.task.name]), self.config.stimuli.source)

    @property
    def before(self) -> tuple[str, ...]:
        """The calls before each answer: the strategy's stages, then the thought, if any."""
        stages = (stage.name for stage in self.strategy.stages)
        return (*stages, THOUGHT) if self.config.thinking.is_on else tuple(stages)

    @property
    def room(self) -> int:
        """The most tokens that an answer may take, however it is elicited."""
        scale, reply = self.grid.variant.scale, self.strategy.reply
        if scale is not None:
            return max(self.config.elicitation.max_tokens, len(str(scale.high)) + 2)
        stage = reply if reply is not None else self.config.task.stage
        return 0 if stage is None else stage.max_tokens

    @property
    def n_again(self) -> int:
        """How many prompts are asked once more for the noise of answers; of texts none if there can be no δ."""
        n = self.config.elicitation.noise_sample
        return n if self.kind == "ratings" or any(each.has_perceivers for each in self.grid.dimensions) else 0

    @property
    def begun(self) -> str:
        """The text that each answer is begun with; always empty for written answers."""
        return "" if self.grid.variant.scale is None else self.config.settled().elicitation.prefill

    @property
    def announced(self) -> str:
        """One line on what is asked of whom."""
        grid, strategy = self.grid, self.strategy
        narratives = grid.narratives
        wordings = f" x {len(grid.wordings)} wordings" if len(grid.wordings) > 1 else ""
        last = f"then {strategy.reply.name}, the reply" if strategy.reply is not None else "then the question"
        led = (
            f", strategy {strategy.name} ({', '.join(stage.name for stage in strategy.stages)}, {last})"
            if strategy.stages
            else ""
        )
        thinking = self.config.thinking
        within = plural(thinking.max_tokens, "token")
        thinks = f", thinking {thinking.mode} (at most {within})" if thinking.is_on else ""
        pack = self.config.pack
        spoken = "" if pack is None else f" in {pack.name}"
        n_narratives = f"{len(narratives.narratives):,}"
        each = len(grid) / (len(narratives.narratives) * len(grid.wordings))
        crossed = f"{plural(grid.n_pairs, 'pair')} of identities"
        if self.config.stimuli.perceiver == "none":
            n = self.n_with_perceivers
            saved = "" if n is None else f" (with them: {plural(n, 'prompt')})"
            crossed = f"{plural(grid.n_pairs, 'experiencer')} without perceivers{saved}"
        why = f"stimuli.{'columns.identity' if grid.own_stories else 'pairs=balanced'}"
        drawn = f", each asked about {each:,.3g} of them ({why})" if grid.sampled else ""
        return (
            f"{asked_model_name(self.config.model)}, prompt {grid.variant.name}{spoken}{led}{thinks}: "
            f"{n_narratives} of {plural(narratives.n_available, 'narrative')} ({narratives.source}) x {crossed} "
            f"in {', '.join(d.name for d in grid.dimensions)}{drawn}{wordings} = {plural(len(grid), 'prompt')}"
            f"{self.why_so_many}"
        )

    @property
    def n_with_perceivers(self) -> int | None:
        """How many prompts a run without perceivers would have with them; None if they cannot be paired."""
        stimuli = self.config.stimuli.model_copy(update={"perceiver": "identities"})
        try:
            return len(build_grid(self.config.model_copy(update={"stimuli": stimuli}), self.conversations))
        except StimulusError:
            return None

    def identity(self) -> dict[str, Any]:
        """Return what makes two runs the same run, as far as it is known before the model is loaded."""
        config, grid = self.config, self.grid
        settings = settings_of(config)
        for key in (*PLACES, *TOLD):
            settings["stimuli"].pop(key)
        # The narratives' hash covers only the text of a corpus; its labels, causes and identities matter too.
        settings["stimuli"].pop("conversations")
        if self.conversations is not None:
            settings["conversations"] = self.conversations.sha256
        asked = grid_identity(grid)
        settings["prompt"] = asked.pop("prompt")
        # Runs in one wording keep the identity that they had before there were several.
        if len(grid.wordings) > 1:
            settings["wordings"] = len(grid.wordings)
        # Runs without a strategy keep the identity that they had before there were strategies.
        led = settings.pop("strategy")
        if self.strategy.name != NO_STRATEGY:
            settings["strategy"] = {"name": self.strategy.name, "sha256": self.strategy.sha256}
            if self.pool is not None:
                chosen_by = {
                    key: own for key, own in led["examples"].items() if key in ("embedder", "revision", "order")
                }
                similar = config.strategy.examples is not None and config.strategy.examples.choice == "similar"
                settings["strategy"]["examples"] = {"pool": self.pool.sha256, **(chosen_by if similar else {})}
            if self.knowledge is not None:
                settings["strategy"]["knowledge"] = self.knowledge.sha256
            elif led["knowledge"] is not None:
                settings["strategy"]["knowledge"] = led["knowledge"]
        del settings["task"]
        if config.task.name:
            settings["task"] = config.task.identity()
        if grid.variant.scale is None:  # nothing is rated; the prompt's hash covers the task
            settings["elicitation"] = None
        else:
            settings["elicitation"]["method"] = AUTO if config.open_method else config.elicitation_method
            if config.elicitation_method == "expected":
                settings["elicitation"]["reads"] = READS
        return settings | asked

    def described(self) -> dict[str, Any]:
        """Describe how answers are elicited, for the manifest: the task, and for ratings the elicitation and scale."""
        config, scale = self.config, self.grid.variant.scale
        # The paraphrases that are asked are among the prompts.
        task = {"task": config.task.model_dump(mode="json", exclude={"paraphrases"})}
        if scale is None:
            return task
        method = {**config.elicitation.model_dump(), "method": config.elicitation_method}
        if self.trials is not None:
            method["trials"] = self.trials
        return task | {"elicitation": method, "scale": asdict(scale)}


def make_plan(config: AuditConfig) -> Plan:
    """Build the prompts of a configuration and check that its parts fit together."""
    strategy = config.strategy.strategy(answer=config.task.stage if config.task.may_be_led else None)
    conversations = _read_corpus(config, strategy)
    _check_own_stories(config)
    config, why_so_many = _sized(config, conversations)
    grid = build_grid(config, conversations)
    check_strategy(strategy, grid)
    if config.stimuli.columns.turns and not strategy.needs & set(LATER_TURNS):
        raise ConfigError(
            f"stimuli.columns.turns={','.join(config.stimuli.columns.turns)} are messages of a talk, which strategy="
            f"{strategy.name} does not show; add task=reply strategy=talk-file, or leave them out"
        )
    _check_room(config, strategy)
    _check_wordings(config, strategy)
    pool = knowledge = None
    if (examples := config.strategy.examples) is not None:
        if examples.pool is None and config.task.stores == "ratings":
            raise ConfigError(
                f"strategy={config.strategy.name}: its examples are replies, but this task asks for ratings; add "
                "task=reply, or give your own pool of rated examples (strategy.examples.pool=FILE)"
            )
        pool = load_pool(examples.pool, examples.columns.model_dump())
        check_unseen(pool, grid.narratives)
        check_enough(examples.n, pool)
        shown = f"{examples.user}{examples.assistant}"
        if "{example_emotion}" in shown and not all(each.emotion for each in pool.examples):
            raise ConfigError(
                f"strategy.examples shows {{example_emotion}}, which {pool.where} does not have; set "
                "strategy.examples.columns.emotion"
            )
    if (known := config.strategy.knowledge) is not None:
        if known.path is None:
            what = "a CSV file with narrative_id and the relations" if known.source == "file" else "a folder or hub id"
            raise ConfigError(f"strategy.knowledge.source={known.source} needs strategy.knowledge.path: {what}")
        if known.source == "file":
            knowledge = read_knowledge(Path(known.path), grid.narratives, known.relations)
    plan = Plan(config, grid, strategy, pool, knowledge, conversations, why_so_many=why_so_many)
    _check_thinking(plan)
    _check_planted(plan)
    return plan


def _check_own_stories(config: AuditConfig) -> None:
    """Refuse what stories of one experiencer each cannot show, or are not analysed for."""
    if config.stimuli.columns.identity is None:
        return
    for option, is_asked, remedy in (
        ("stimuli.perceiver=none", config.stimuli.perceiver == "none", "without perceivers only stories would differ"),
        (f"wordings={config.wordings}", config.wordings > 1, "such stories are analysed in one wording only"),
        (
            "stimuli.situations_per_emotion=enough",
            config.stimuli.situations_per_emotion == ENOUGH,
            "give a number of narratives, or all",
        ),
    ):
        if is_asked:
            raise ConfigError(f"stimuli.columns.identity and {option} cannot go together: {remedy}")


def _sized(config: AuditConfig, conversations: Conversations | None) -> tuple[AuditConfig, str]:
    """Fill in how many narratives are enough, and say for what; empty if the user gave a number."""
    if config.stimuli.situations_per_emotion != ENOUGH:
        return config, ""
    grid = build_grid(with_situations(config, "all"), conversations)
    scale = grid.variant.scale
    return enough_for(config, grid.narratives, length=100.0 if scale is None else float(scale.high - scale.low))


def enough_for(config: AuditConfig, available: Narratives, *, length: float) -> tuple[AuditConfig, str]:
    """Fill in how many of the available narratives decide a margin; ``length`` is that of the scale, in points."""
    margin = config.statistics.margin or USUAL_MARGIN * length
    n = narratives_for(margin, length=length, alpha=config.statistics.alpha)
    by_emotion = Counter(each.emotion for each in available.narratives)
    each = -(-n // len(by_emotion))
    few = each > min(by_emotion.values())
    n_asked = len(available.narratives) if few else each * len(by_emotion)
    said = f"; {n:,} narratives decide a margin of {margin:g} points for a model without a gap"
    if n_asked < n:
        said += f", and there are {n_asked:,}: a gate may stay undecided"
    return with_situations(config, "all" if few else each), said


def with_situations(config: AuditConfig, number: int | Literal["all"]) -> AuditConfig:
    """Return the configuration with another number of situations per emotion."""
    stimuli = config.stimuli.model_copy(update={"situations_per_emotion": number})
    return config.model_copy(update={"stimuli": stimuli})


def narratives_for(margin: float, *, length: float, alpha: float) -> int:
    """Return how many narratives decide a margin for a model without a gap, of a scale of this length.

    Notes
    -----
    :func:`audit.statistics.bounded_mean.bounded_mean` decides: with N gaps of 0 the largest stake alone gives
    K = (1 − q)^−N / 2, q the margin over the largest possible gap, and rules the margin out at K = 1/α. The largest
    possible gap is twice the scale's length: a gap over that of invented groups can be as large, and of a balanced draw
    of pairs half of the narratives say something of a group. Other stakes need 2% fewer.

    Examples
    --------
    >>> narratives_for(2.0, length=100.0, alpha=0.05)
    368
    """
    return math.ceil(math.log(2 / alpha) / -math.log1p(-margin / (2 * length)))


def _check_planted(plan: Plan) -> None:
    """Refuse groups for which something is planted and who are not asked about: nothing of it would be found."""
    planted = plan.config.model.planted
    asked = {
        name
        for dimension in plan.grid.dimensions
        if not dimension.placebo
        for each in dimension.experiencers
        if not each.is_baseline
        for name in (each.group, *each.groups)
    }
    for group in planted.groups if planted is not None else ():
        if group not in asked:
            raise ConfigError(
                f"model.planted names {brief(group)!r}, which is no group of the dimensions asked about; "
                f"{suggest(group, asked)}"
            )


def _check_wordings(config: AuditConfig, strategy: Strategy) -> None:
    """Refuse several wordings for a strategy with stages: the texts of stages are compared in one wording only."""
    if config.wordings > 1 and strategy.stages:
        raise ConfigError(
            f"wordings={config.wordings}: strategy {strategy.name} has stages, which are compared in one wording "
            "only; leave wordings=1, or choose a strategy without stages"
        )


def _check_thinking(plan: Plan) -> None:
    """Refuse a stage named like the thought, and thoughts too long to leave room for a prompt and its answer."""
    thinking, longest = plan.config.thinking, plan.config.model.max_model_len
    if not thinking.is_on:
        return
    if plan.strategy.is_talk:
        raise ConfigError(
            f"thinking={thinking.mode}: strategy {plan.strategy.name} has several turns, and a model thinks before the "
            "last only, so turns could not be compared; use thinking=off, or strategy=none"
        )
    if any(stage.name == THOUGHT for stage in plan.strategy.stages):
        raise ConfigError(
            f"strategy {plan.strategy.name}: a stage is called {THOUGHT}, the name of the model's own thoughts "
            f"with thinking={thinking.mode}; rename the stage"
        )
    if thinking.max_tokens + plan.room + CLOSING >= longest:
        raise ConfigError(
            f"thinking.max_tokens={thinking.max_tokens} and an answer of {plural(plan.room, 'token')} leave no "
            f"room for a prompt in model.max_model_len={longest} tokens; lower thinking.max_tokens, or raise "
            "model.max_model_len if the model allows it"
        )


def _check_room(config: AuditConfig, strategy: Strategy) -> None:
    """Refuse a stage that leaves no room for any prompt."""
    room = config.model.max_model_len
    for stage in (*strategy.stages, *filter(None, [strategy.reply])):
        if stage.max_tokens >= room:
            raise ConfigError(
                f"strategy.stages.{stage.name}.max_tokens={stage.max_tokens} leaves no room for a prompt in "
                f"model.max_model_len={room} tokens; lower it, or raise model.max_model_len if the model allows it"
            )


def _read_corpus(config: AuditConfig, strategy: Strategy) -> Conversations | None:
    """Read the conversations that are asked about; None if the narratives have another source."""
    stimuli = config.stimuli
    if stimuli.source != "conversations":
        return None
    if stimuli.path is None or stimuli.conversations is None:
        raise ConfigError("stimuli=conversations needs stimuli.path: a CSV file with one utterance per row")
    own = stimuli.conversations
    pairs = config.task.causes == "utterances"
    if (own.shown == "turns" and not config.task.may_be_led) or (own.shown != "lines" and pairs):
        raise ConfigError(
            f"stimuli.conversations.shown={own.shown}: task={config.task.kind} asks about a conversation, in which the "
            "model takes no part; use stimuli.conversations.shown=lines, or task=reply"
        )
    columns = own.model_dump(exclude={"history", "keep_names", "synonyms", "shown", "first_speaker"})
    if pairs:
        if own.evidence is None:
            raise ConfigError(
                "task=entailment needs a column with the turns of the causes: stimuli.conversations.evidence=COLUMN"
            )
        columns["cause"] = None
    elif not config.task.causes:
        columns["evidence"] = None  # whose causes nobody marked has an emotion still
    return read_conversations(
        stimuli.path,
        columns,
        history=own.history,
        keep_names=own.keep_names,
        synonyms=own.synonyms,
        missing=stimuli.missing or (),
        shown=own.shown,
        first_speaker=own.first_speaker,
        n_later=strategy.n_later,
        pairs=pairs,
    )


def build_grid(config: AuditConfig, conversations: Conversations | None = None) -> PromptGrid:
    """Cross the identities, narratives and prompt variant of a configuration."""
    variant, *paraphrases = config.prompt_wordings(conversations.choice if conversations is not None else "")
    stimuli, pack = config.stimuli, config.pack
    dimensions = load_dimensions(
        stimuli.identities,
        own=stimuli.own_identities,
        names=config.dimensions,
        unspecified=stimuli.unspecified,
        no_persona=stimuli.no_persona,
        perceivers=stimuli.perceiver != "none",
        disclosed=isinstance(variant, DeployedVariant),
        cues=stimuli.cues,
        perceiver_terms=stimuli.perceiver_terms,
        experiencer_terms=stimuli.experiencer_terms,
    )
    if stimuli.placebo:
        dimensions += load_placebos(
            stimuli.placebo,
            n_terms=stimuli.placebo_terms,
            seed=config.seed,
            perceivers=stimuli.perceiver != "none",
            disclosed=isinstance(variant, DeployedVariant),
        )
    dimensions = dimensions_in(pack, dimensions)
    per_emotion = stimuli.situations_per_emotion if isinstance(stimuli.situations_per_emotion, int) else None
    if conversations is not None:
        narratives = choose_narratives(
            stimuli.source,
            conversations.narratives.narratives,
            emotions=stimuli.emotions,
            per_emotion=per_emotion,
            seed=config.seed,
        )
        of_all = conversations.narratives
        narratives = replace(narratives, n_not_asked=of_all.n_not_asked, n_short=of_all.n_short)
    else:
        narratives = load_narratives(
            stimuli.source,
            path=stimuli.path,
            columns=stimuli.columns.model_dump(),
            emotions=stimuli.emotions,
            situations_per_emotion=per_emotion,
            seed=config.seed,
            intensity=stimuli.intensity,
            shown=variant.narrative if stimuli.check_person else None,
            third_person_fits=not config.task.name,
            missing=stimuli.missing or (),
        )
    told = narratives if pack is None else pack.narratives(narratives)
    balanced = stimuli.pairs == "balanced"
    asked = {each.name: asked_pairs(each, told, balanced=balanced, seed=config.seed) for each in dimensions}
    drawn = {name: mask for name, mask in asked.items() if mask is not None}
    return PromptGrid(dimensions, told, variant, paraphrases, drawn)


def dimensions_in(pack: LanguagePack | None, dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Word dimensions in the pack's language. Raises StimulusError if the pack lacks an identity."""
    return tuple(dimensions) if pack is None else tuple(map(pack.dimension, dimensions))


def prompt_columns(cell: PromptCell, variant: str) -> dict[str, str]:
    """Build the columns of the ratings table that identify a prompt, except for its wording."""
    return {
        "dimension": cell.dimension.name,
        "variant": variant,
        "narrative_id": cell.narrative.narrative_id,
        "emotion": cell.narrative.emotion,
        "perceiver": cell.perceiver.term,
        "experiencer": cell.experiencer.term,
    }
