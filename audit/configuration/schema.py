"""The validated configuration of a run: turns what Hydra composed into frozen objects, or raises a one-line error."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from audit.configuration.analysis_settings import AnalysisSettings
from audit.errors import ConfigError, check_margin
from stimuli.errors import StimulusError, suggest
from stimuli.faults import explain, fault_of, fields_at, nested_models, place_of, shown
from stimuli.identities import Identity
from stimuli.knowledge import RELATIONS
from stimuli.languages import ENGLISH, LanguagePack, load_language
from stimuli.manipulation import NOBODY
from stimuli.pairs import PairsAsked
from stimuli.prompts import PromptVariant, Scale, read_published_variant
from stimuli.strategies import NO_STRATEGY, THOUGHT, Examples, Stage, Strategy

_MOST: Final = 10_000
"""Limit on the values of a list or the names of a mapping."""
_LARGEST: Final = 10**15
"""No count is this large, so a larger number is a slip; some libraries could not hold it."""
_LONGEST_NAME: Final = 100
"""In characters: names become file names."""


class _Strict(BaseModel):
    # Not pydantic's strict mode: command-line settings arrive as text, and 1e3 is a whole number.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def _is_a_name(text: str) -> str:
    return _checked_name(text, may_have="")


def _is_a_name_of_a_hub(text: str) -> str:
    return _checked_name(text, may_have="/")


def _checked_name(text: str, *, may_have: str) -> str:
    """Return ``text`` if it can name a file or folder. Raise ValueError if it is empty, invisible or a path."""
    if len(text) > _LONGEST_NAME:
        raise ValueError(f"has {len(text):,} letters; a name has {_LONGEST_NAME} at most")
    if not text.isprintable() or not text.strip():
        raise ValueError("has a character that cannot be seen; write a name in letters")
    parts = text.split("/")
    if "\\" in text or (len(parts) > 1 and not may_have) or not all(part.strip(". ") for part in parts):
        raise ValueError("is a path, and a name is wanted; leave out slashes, and dots without letters between them")
    return text


Name = Annotated[str, Field(min_length=1), AfterValidator(_is_a_name)]
"""A name that file names are made of."""
ModelName = Annotated[str, Field(min_length=1), AfterValidator(_is_a_name_of_a_hub)]
"""A model's name, which may have the form ``maker/model`` of a hub."""


def _one_or_several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def bare_model(value: object) -> object:
    """Expand a model given by name alone to a mapping."""
    return {"model": value} if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_one_or_several)]
"""A list of words; a single word stands for a list of one."""


MeasureName: TypeAlias = Literal[
    "lexical", "emotion", "lexicon", "diversity", "perplexity", "eq", "regard", "bertscore", "epitome", "judge"
]
"""The measures that can score a reply."""


ThinksIn: TypeAlias = (
    Literal[
        "auto",
        "think",
        "seed",
        "kimi",
        "gpt-oss",
        "gemma",
        "cohere",
        "apertus",
        "mistral",
        "apriel",
        "granite",
        "solar",
        "hunyuan",
        "minimax",
        "plamo",
        "k2",
        "kimi-k3",
        "openthinker",
        "thought",
        "thinking",
    ]
    | tuple[str, str]
)
"""How a model marks its thoughts: a dialect of :mod:`audit.engines.dialects`, or the opening and closing mark."""


_Serialized: TypeAlias = dict[str, Any]


DATE: Final = "2024-07-26"
"""The date that chat templates are given (YYYY-MM-DD): the one that Llama's templates use by default."""


class _Elsewhere(_Strict):
    """Omits newer settings from manifests while they have their defaults, so that old run identities stay valid."""

    _of_servers: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_servers(self, write: SerializerFunctionWrapHandler) -> _Serialized:
        written: _Serialized = write(self)
        fields = type(self).model_fields
        return {n: value for n, value in written.items() if n not in self._of_servers or value != fields[n].default}


class _AtServer(_Elsewhere):
    """A model that may run on a server: its address and the environment variable that holds its key."""

    _of_servers: ClassVar[tuple[str, ...]] = ("base_url", "api_key_env")
    base_url: str | None = None
    api_key_env: str | None = None

    @field_validator("base_url")
    @classmethod
    def _names_a_server_alone(cls, url: str | None) -> str | None:
        if url is None:
            return None
        # The message does not repeat the URL: it may contain a secret.
        try:
            parts = urlsplit(url)
            told = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            told = False
        if not told or re.search(r"\s", url):
            raise ConfigError("base_url: it is no address of a server; write one such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError(
                "base_url: holds more than an address (a user, a password, or what follows ? or #), and would be "
                "written to manifests; leave it out, and name the variable of the environment that holds the key: "
                "api_key_env=NAME"
            )
        return url.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ConfigError(
                "api_key_env: is no name of a variable of the environment (capital letters, digits and _); "
                "export the key as one, and give its name: api_key_env=OPENAI_API_KEY"
            )
        return name


class ModelConfig(_AtServer):
    """A model card: which model it is and how to load it."""

    _of_servers = (*_AtServer._of_servers, "chat_template", "date", "thinks_in")

    name: ModelName
    path: str = Field(min_length=1)
    revision: str | None
    tokenizer: str | None
    dtype: Literal["auto", "bfloat16", "float16", "float32"]
    quantization: str | None
    max_model_len: int = Field(ge=16)
    trust_remote_code: bool
    elicitation: Literal["generate", "expected"]
    chat_template: str | None = Field(default=None, min_length=1)
    date: str = DATE
    thinks_in: ThinksIn = "auto"

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_day(cls, date: object) -> object:
        try:
            told = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(date))) and datetime.fromisoformat(str(date)) is not None
        except ValueError:
            told = False
        if not told:
            raise ConfigError(f"model.date={str(date)[:60]}: is no day; write it as {DATE}")
        return str(date)


class ServerConfig(_Strict):
    """How to call a server; none of this changes an answer.

    ``max_requests`` and ``max_tokens`` limit one session; None means no limit.
    """

    concurrency: int = Field(default=16, ge=1, le=1024)
    timeout_s: float = Field(default=120, gt=0)
    retries: int = Field(default=8, ge=0)
    backoff_s: float = Field(default=0.5, ge=0)
    max_wait_s: float = Field(default=300, ge=0)
    max_requests: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)


HANG_S: Final = 3600.0
"""Default of ``engine.hang_s``, in seconds."""


class RayConfig(_Strict):
    """The Ray cluster to run on; if ``address`` is None, one is started on this machine."""

    address: str | None = None
    num_cpus: int = Field(default=1, ge=1)


class EngineConfig(_Elsewhere):
    """Which library runs the model, and how."""

    _of_servers = ("server", "batch", "replicas", "hang_s", "ray")
    name: Name
    tensor_parallel_size: int = Field(ge=1)
    gpu_memory_utilization: float = Field(gt=0, le=1)
    kv_cache_gib: int = Field(ge=1)
    enforce_eager: bool | None
    block_size: int | None = Field(ge=1)
    device: Literal["auto", "cpu", "cuda", "mps"]
    batch_size: int = Field(ge=1)
    pack_tokens: int | None = Field(default=None, ge=1)
    add_special_tokens: bool = False
    replicas: Annotated[int, Field(ge=1)] | Literal["auto"] = 1
    hang_s: float | None = Field(default=HANG_S, gt=0, allow_inf_nan=False)
    ray: RayConfig | None = None
    server: ServerConfig | None = None
    batch: bool | None = None

    @field_validator("batch")
    @classmethod
    def _of_a_server(cls, batch: bool | None, info: ValidationInfo) -> bool | None:
        if batch and info.data.get("name") != "openai":
            raise ValueError("batches are a server's: they need engine=openai, or a card that sets it")
        return batch or None


class ElicitationConfig(_Strict):
    """How a rating is elicited from the model."""

    method: Literal["auto", "generate", "expected"]
    max_tokens: int = Field(ge=1)
    parser: Literal["scale", "hou2025"]
    max_pruned_points: float = Field(ge=0)
    prefill: str = ""
    check_sample: int = Field(default=0, ge=0)
    noise_sample: int = Field(default=0, ge=0)
    noise_formats: Annotated[
        tuple[Literal["bfloat16", "float16", "float32"], ...], BeforeValidator(_one_or_several)
    ] = ()
    manipulation: int = Field(default=0, ge=0)

    @field_validator("max_pruned_points")
    @classmethod
    def _less_than_the_scale(cls, hundredths: float) -> float:
        check_margin("elicitation.max_pruned_points", hundredths, low=0, high=100)
        return hundredths

    @field_validator("prefill")
    @classmethod
    def _begins_with_words(cls, prefill: str) -> str:
        if prefill and not prefill.strip():
            raise ValueError("white space alone begins no answer; give words, such as 'Number: ', or leave it empty")
        return prefill

    @field_validator("noise_formats")
    @classmethod
    def _of_a_sample(cls, formats: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if formats and not info.data.get("noise_sample"):
            raise ValueError("it is the noise sample that is asked in other formats; give elicitation.noise_sample")
        if len(set(formats)) < len(formats):
            raise ValueError("a format is named twice; name each once")
        return formats


class ThinkingConfig(_Elsewhere):
    """Whether the model thinks before it answers, for how long, and how thoughts are sampled.

    With ``on`` the model ends its thought itself, and if it does not within ``max_tokens`` the answer is missing. With
    ``budget`` the thought is closed there. ``marks`` are the opening and closing mark of a thought, for models whose
    dialect is unknown.
    """

    _of_servers = ("marks",)
    mode: Literal["off", "on", "budget"] = "off"
    marks: tuple[str, str] | None = None
    max_tokens: int = Field(default=1024, ge=1)
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)

    @field_validator("marks")
    @classmethod
    def _can_be_told_apart(cls, marks: tuple[str, str] | None) -> tuple[str, str] | None:
        if marks is not None and (marks[0] == marks[1] or not all(1 < len(each.strip()) < 100 for each in marks)):
            raise ConfigError(
                f"thinking.marks={list(marks)}: give what stands before a thought and what stands after it, two texts "
                "of 2 characters or more that differ, such as ['<think>','</think>']"
            )
        return marks

    @property
    def is_on(self) -> bool:
        """Whether the model is asked to think."""
        return self.mode != "off"

    @property
    def stage(self) -> Stage:
        """The thought's settings, in the form of a strategy's stage."""
        return Stage(THOUGHT, "", self.max_tokens, self.temperature, self.top_p)


class ColumnsConfig(_Strict):
    """Column names in a user's file of narratives; None if the file lacks the column."""

    narrative_id: str | tuple[str, ...] | None
    emotion: str | None
    neutral: str | None
    first_person: str | None
    third_person: str | None
    emotion_noun: str | None
    emotion_adjective: str | None


class ConversationsConfig(_Strict):
    """Column names in a user's corpus (None if absent), how much history is shown, and synonyms of its labels."""

    conversation_id: str | tuple[str, ...]
    turn: str
    speaker: str
    text: str
    emotion: str
    identity: str | None
    cause: str | None
    history: int | None = Field(ge=0)
    keep_names: bool
    synonyms: dict[str, Words] | None = None


class StimuliConfig(_Strict):
    """Which identities and narratives are crossed."""

    source: Literal["geneva", "geneva20", "hou2025", "csv", "conversations"]
    identities: str
    own_identities: Path | None
    unspecified: bool
    no_persona: bool
    path: Path | None
    emotions: Words | None
    situations_per_emotion: int | Literal["all"]
    card_sample: int | Literal["all"] = Field(default="all", exclude=True)
    columns: ColumnsConfig
    conversations: ConversationsConfig | None = None
    placebo: Annotated[int, Field(ge=0)] | Words = 0
    placebo_terms: int = Field(default=1, ge=1)
    intensity: str = "rotate"
    cues: Words | None = None
    perceiver_terms: int | None = None
    experiencer_terms: int | None = None
    check_person: bool = False  # False is what runs did before the check existed
    missing: Words | None = None
    pairs: PairsAsked = "all"


class ScorerConfig(_Strict):
    """A model that scores replies."""

    model: str = Field(min_length=1)
    revision: str | None = None


class HypothesesConfig(_Strict):
    """Hypotheses whose entailment by a reply EQ measures; None means our wording."""

    emotion: Annotated[str, Field(min_length=1)] | None = None
    perspective: Annotated[str, Field(min_length=1)] | None = None
    advice: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _stripped(cls, text: object) -> object:
        return text.strip() if isinstance(text, str) else text


class EqConfig(ScorerConfig):
    """A natural language inference model and its hypotheses."""

    hypotheses: HypothesesConfig = HypothesesConfig()


_Label = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]


class RegardLabelsConfig(_Strict):
    """The classifier's labels for the four classes of regard."""

    negative: _Label
    neutral: _Label
    positive: _Label
    other: _Label

    @model_validator(mode="after")
    def _differ(self) -> Self:
        named = list(self.model_dump().values())
        if twice := [label for label in named if named.count(label) > 1]:
            raise ValueError(f"the label {twice[0]!r} is given for two classes; give each its own")
        return self


class RegardConfig(ScorerConfig):
    """A classifier of regard; if ``labels`` is None, its own label names are used."""

    labels: RegardLabelsConfig | None = None


class BertScoreConfig(ScorerConfig):
    """An encoder that compares replies with reference replies."""

    layer: int | None = Field(default=None, ge=0)
    references: Path | None = None

    @model_validator(mode="after")
    def _layer_is_known(self) -> Self:
        if self.layer is None and not self.model.startswith("embedded:"):
            raise ValueError(
                f"say which layer of {self.model} is compared: measures.bertscore.layer=17 is the authors' choice of "
                "FacebookAI/roberta-large's 24"
            )
        return self


class LexiconConfig(_Strict):
    """A lexicon of words and emotions; if ``path`` is None, the packaged one."""

    path: Path | None = None
    narrative: Literal["text", "emotion"] = "text"


_Classifier = Annotated[ScorerConfig | None, BeforeValidator(bare_model)]


class EpitomeConfig(_Strict):
    """The user's trained classifiers, one for each mechanism, and ``labels`` with the levels of human replies.

    A classifier is a folder, a hub id, or a mapping of ``model`` and ``revision``.
    """

    emotional_reactions: _Classifier = None
    interpretations: _Classifier = None
    explorations: _Classifier = None
    labels: Path | None = None


class JudgeConfig(_AtServer):
    """A model that scores replies by a rubric; if ``model`` is None, there is no judge."""

    model: str | None
    revision: str | None
    rubric: Name
    rubric_file: Path | None
    method: Literal["expected", "generate"]
    max_tokens: int = Field(ge=1)
    max_model_len: int = Field(ge=16)
    shown_as: str
    own_gap: int = Field(ge=0)


class MeasuresConfig(_Strict):
    """How replies are scored; may change between scorings of the same replies."""

    names: Annotated[tuple[MeasureName, ...], BeforeValidator(_one_or_several)]
    device: str = Field(min_length=1)
    batch_size: int = Field(ge=1)
    download: bool
    eq: EqConfig
    regard: RegardConfig
    perplexity: ScorerConfig
    bertscore: BertScoreConfig
    epitome: EpitomeConfig
    lexicon: LexiconConfig = LexiconConfig()
    judge: JudgeConfig


class ScaleConfig(_Strict):
    """The two ends of the rating scale."""

    low: int
    high: int
    low_label: str
    high_label: str


class OriginalsConfig(_Strict):
    """The prompt texts that the paraphrases were written for; None skips the check."""

    persona: str | None = None
    system: str | None = None
    user: str | None = None


class ParaphrasesConfig(_Strict):
    """Further wordings of a prompt's parts, in order. A part without paraphrases is the same in every wording."""

    originals: OriginalsConfig = OriginalsConfig()
    persona: Words = ()
    system: Words = ()
    user: Words = ()

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The paraphrases of each part that has any, stripped."""
        lists = {name: getattr(self, name) for name in type(self.originals).model_fields}
        return {name: tuple(text.strip() for text in texts) for name, texts in lists.items() if texts}


class TemplateConfig(_Strict):
    """A prompt variant in the toolkit's or the user's wording."""

    kind: Literal["template"]
    name: Name
    persona: str
    system: str
    user: str
    narrative: str
    scale: ScaleConfig
    paraphrases: ParaphrasesConfig = ParaphrasesConfig()


class PublishedConfig(_Strict):
    """A prompt variant in the study's wording, read from the user's copy of its code."""

    kind: Literal["published"]
    variant: str
    path: Path | None


class TaskConfig(_Strict):
    """The settings of what the perceiver is asked to do; :mod:`audit.tasks` analyses the answers."""

    stores: ClassVar[Literal["ratings", "replies", "answers"]]
    """What the model is asked for, and the run's folder that holds it."""
    has_wordings: ClassVar[bool] = False
    """Whether a prompt may be asked in several wordings."""
    has_languages: ClassVar[bool] = False
    """Whether all of its text comes from the prompt, which language packs translate."""
    may_be_led: ClassVar[bool] = False
    """Whether a strategy's ``reply_stage`` may write the answer."""
    kind: str

    @property
    def name(self) -> str:
        """What a run's name and identity add for the task; empty for ratings of intensity."""
        return self.kind

    @property
    def stage(self) -> Stage | None:
        """The settings of the call that writes the answer; None if the answer is not a text."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return the settings that answers depend on beside the prompts."""
        return {"kind": self.kind}

    def variant(self, rates: PromptVariant, labels: str) -> PromptVariant:
        """Derive the task's prompt variant from the one that asks for ratings.

        ``labels`` is that of :meth:`AuditConfig.prompt_variant`.
        """
        return rates


class RatedTask(TaskConfig):
    """The perceiver rates something; all text comes from the prompt."""

    stores = "ratings"
    has_wordings = True
    has_languages = True


class IntensityTask(RatedTask):
    """The perceiver rates the intensity of the experiencer's emotion."""

    kind: Literal["intensity"] = "intensity"

    @property
    def name(self) -> str:
        """Empty, because runs got their names before other tasks existed."""
        return ""


class WrittenTask(TaskConfig):
    """The perceiver writes a text; the persona comes from the prompt."""

    stores = "replies"
    system: str
    user: str
    narrative: Literal["neutral", "first_person", "third_person"] | None
    max_tokens: int = Field(ge=1)
    temperature: float = Field(ge=0, allow_inf_nan=False)
    top_p: float = Field(gt=0, le=1)

    @property
    def stage(self) -> Stage:
        """The length and sampling settings of the text."""
        return Stage(self.kind, "", max_tokens=self.max_tokens, temperature=self.temperature, top_p=self.top_p)

    def identity(self) -> dict[str, Any]:
        """Return ``kind`` and the sampling settings."""
        return self.model_dump(mode="json", include={"kind", "max_tokens", "temperature", "top_p"})

    def variant(self, rates: PromptVariant, labels: str) -> PromptVariant:
        """Return the task's own wording, without a scale."""
        system = self.system.strip()
        if labels:
            system = system.replace("{labels}", labels.replace("{", "{{").replace("}", "}}"))
        return replace(
            rates, system=system, user=self.user.strip(), narrative=self.narrative or rates.narrative, scale=None
        )


class ReplyTask(WrittenTask):
    """The perceiver replies to the experiencer."""

    may_be_led = True
    kind: Literal["reply"]


class RecognitionTask(WrittenTask):
    """The perceiver names the emotion of an utterance, or the words that caused it."""

    kind: Literal["emotion", "cause"]


class InventoryTask(TaskConfig):
    """The perceiver fills in a questionnaire.

    If ``path`` is None, it is the packaged list of affect words. Other settings that are None have defaults.
    """

    stores = "answers"
    kind: Literal["inventory"]
    path: Path | None
    presentation: Literal["single", "list"]
    n_orders: int | None = Field(ge=1)
    affect: bool | None
    method: Literal["auto", "expected", "generate"]
    max_tokens: int | None = Field(ge=1)


class StageConfig(_Strict):
    """A model call of a strategy, before the question."""

    prompt: str
    max_tokens: int = Field(default=200, ge=1)
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)


class ExampleColumnsConfig(_Strict):
    """Column names in a user's pool of examples."""

    example_id: str = "example_id"
    text: str = "text"
    answer: str = "answer"
    emotion: str | None = None


class ExamplesConfig(_Strict):
    """Examples that are shown before the first call; if ``pool`` is None, the packaged ones."""

    n: int
    choice: Literal["random", "similar"]
    user: str
    assistant: str
    pool: Path | None = None
    columns: ExampleColumnsConfig = ExampleColumnsConfig()
    embedder: str = Field(default="embedded:minilm", min_length=1)
    revision: str | None = None

    @model_validator(mode="after")
    def _columns_are_of_a_pool(self) -> Self:
        if self.pool is None and self.columns != ExampleColumnsConfig():
            raise ValueError("columns are those of a file of yours: name it, strategy.examples.pool=FILE")
        return self


class KnowledgeConfig(_Strict):
    """Knowledge about each narrative: read from a user's file, or inferred by a local COMET model."""

    source: Literal["file", "comet"]
    path: str | None = None
    relations: Words = RELATIONS
    revision: str | None = None
    n: int = Field(default=5, ge=1)
    max_tokens: int = Field(default=24, ge=1)

    @model_validator(mode="after")
    def _inferring_is_a_models(self) -> Self:
        for name in ("revision", "n", "max_tokens") if self.source == "file" else ():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={value} is for source=comet; what a file says is taken as it stands")
        return self


class StrategyConfig(_Strict):
    """The calls that lead the model to its answer; none by default.

    ``stages`` maps names to calls, in order; a null stage is skipped. It is serialised as a list, because mappings are
    written sorted. ``reply_stage`` names the last stage if it writes the reply that task=reply asks for, and
    ``reply_prompt`` is that stage's prompt then; empty keeps the stage's own.
    """

    name: Name = NO_STRATEGY
    source: str = ""
    deviates: str = ""
    stages: dict[str, StageConfig | None] = Field(default_factory=dict)
    stage_system: str = "{persona}"
    system: str = "{system}"
    question: str = "{question}"
    history: Literal["all", "last", "none"] = "all"
    overrun: Literal["oldest", "fail"] = "oldest"
    examples: ExamplesConfig | None = None
    knowledge: KnowledgeConfig | None = None
    reply_stage: str | None = None
    reply_prompt: str = ""

    @field_validator("stages", mode="before")
    @classmethod
    def _by_name(cls, stages: object) -> object:
        if not isinstance(stages, (list, tuple)):
            return stages
        named: dict[object, object] = {}
        for stage in stages:
            if not isinstance(stage, Mapping) or not isinstance(stage.get("name"), str):
                raise ValueError("each stage of a list needs a name; or write them as `name: {prompt: ...}`")
            if stage["name"] in named:
                raise ValueError(f"there are two stages {stage['name']!r}; give one another name")
            named[stage["name"]] = {key: value for key, value in stage.items() if key != "name"}
        return named

    @field_serializer("stages")
    def _as_list(self, stages: dict[str, StageConfig | None]) -> list[dict[str, Any]]:
        return [{"name": name, **stage.model_dump()} for name, stage in stages.items() if stage is not None]

    @field_serializer("reply_stage", "reply_prompt")
    def _of_a_stage_that_is_asked(self, value: str | None, field: FieldSerializationInfo) -> str | None:
        # A skipped stage is not in the list, so nothing can name it.
        return self.__class__.model_fields[field.field_name].default if self._writer_is_left_out else value

    @property
    def _writer_is_left_out(self) -> bool:
        return self.reply_stage in self.stages and self.stages[self.reply_stage] is None

    def strategy(self, *, replies: bool = False) -> Strategy:
        """Build the strategy.

        With ``replies``, ``reply_stage`` writes the reply in place of the question, unless that stage is skipped.
        """
        # The last newline of a YAML block is not part of the text, as in prompts.
        kept_apart = {"stages", "examples", "knowledge", "reply_stage", "reply_prompt"}
        fields = {key: value.strip() for key, value in self.model_dump(exclude=kept_apart).items()}
        stages = [
            Stage(name, **{**stage.model_dump(), "prompt": stage.prompt.strip()})
            for name, stage in self.stages.items()
            if stage is not None
        ]
        reply = self._reply(stages)
        if replies and reply is not None:
            stages = stages[:-1]
            fields |= {"system": fields["stage_system"], "question": reply.prompt}
        examples = None
        if self.examples is not None:
            shown = {key: getattr(self.examples, key).strip() for key in ("user", "assistant")}
            examples = Examples(n=self.examples.n, choice=self.examples.choice, **shown)
        relations = self.knowledge.relations if self.knowledge is not None else ()
        return Strategy(
            **fields,
            stages=tuple(stages),
            examples=examples,
            relations=relations,
            reply=reply if replies else None,
        )

    def _reply(self, stages: Sequence[Stage]) -> Stage | None:
        """Return the stage that writes the reply, with its prompt; None if there is none or it is skipped."""
        if self.reply_stage is None:
            if self.reply_prompt.strip():
                raise ConfigError(
                    f"strategy {self.name}: reply_prompt is of a reply_stage, and none is named; name the last stage, "
                    "or leave it out"
                )
            return None
        if self._writer_is_left_out:
            return None
        if not stages or stages[-1].name != self.reply_stage:
            last = f"the last one, {stages[-1].name}, or null" if stages else "null, since there is no stage"
            raise ConfigError(
                f"strategy {self.name}: reply_stage={self.reply_stage} is not the last stage, and later calls would be "
                f"asked for nothing; give {last}"
            )
        return replace(stages[-1], prompt=self.reply_prompt.strip() or stages[-1].prompt)


class AuditConfig(_Elsewhere):
    """Everything that a run depends on."""

    _of_servers = ("language",)

    model: ModelConfig
    engine: EngineConfig
    stimuli: StimuliConfig
    prompt: TemplateConfig | PublishedConfig = Field(discriminator="kind")
    task: IntensityTask | ReplyTask | RecognitionTask | InventoryTask = Field(
        default=IntensityTask(), discriminator="kind"
    )
    elicitation: ElicitationConfig
    thinking: ThinkingConfig = ThinkingConfig()
    statistics: AnalysisSettings
    measures: MeasuresConfig | None = None
    strategy: StrategyConfig = StrategyConfig()
    dimensions: Words | None
    language: str = ENGLISH
    wordings: int = Field(default=1, ge=1)
    seed: int = Field(ge=0, lt=2**32)
    run_dir: Path | None
    reports_dir: Path
    shard_size: int | None = Field(ge=1)
    out: Path | None

    @model_validator(mode="after")
    def _points_lie_on_the_scale(self) -> Self:
        if self.task.stores == "ratings" and isinstance(self.prompt, TemplateConfig):
            scale = self.prompt.scale
            self.statistics.check_on_scale(low=scale.low, high=scale.high)
        return self

    @model_validator(mode="before")
    @classmethod
    def _marks_are_of_the_model(cls, asked: Any) -> Any:
        """Copy ``thinking.marks`` to the model's card, because engines only get the card."""
        thinking, model = (asked.get(name) for name in ("thinking", "model")) if isinstance(asked, Mapping) else (0, 0)
        marks = thinking.get("marks") if isinstance(thinking, Mapping) else None
        if not isinstance(marks, (list, tuple)) or len(marks) != 2 or not isinstance(model, Mapping):
            return asked
        named = model.get("thinks_in", "auto")
        if named != "auto" and list(named) != list(marks):
            raise ConfigError(
                f"thinking.marks={list(marks)} and model.thinks_in={named} both name the marks of thoughts; give one"
            )
        return {**asked, "model": {**model, "thinks_in": tuple(marks)}}

    @property
    def elicitation_method(self) -> Literal["generate", "expected"]:
        """The elicitation, with ``auto`` resolved by the model's card."""
        return self.model.elicitation if self.elicitation.method == "auto" else self.elicitation.method

    @property
    def pack(self) -> LanguagePack | None:
        """The language pack of the prompts; None for English. Raises StimulusError if there is no such pack."""
        return load_language(self.language)

    @property
    def nobody(self) -> Identity:
        """The experiencer of prompts that name no identity."""
        return NOBODY if self.pack is None else self.pack.identity(NOBODY)

    def prompt_variant(self, labels: str = "") -> PromptVariant:
        """Build the prompt variant.

        ``labels`` fills ``{labels}`` in a task's system message: the emotions to choose from.
        """
        if self.wordings > 1 and not self.task.has_wordings:
            raise ConfigError(
                f"wordings={self.wordings}: task={self.task.kind} has one wording, only ratings have several; leave "
                "wordings=1"
            )
        variant = self.task.variant(self._variant_that_rates(), labels)
        return variant if self.pack is None else self.pack.variant(variant)

    def prompt_wordings(self, labels: str = "") -> tuple[PromptVariant, ...]:
        """Build the prompt variant in all its wordings, the original first.

        Refuses more wordings than there are, and paraphrases of another original.
        """
        original = self.prompt_variant(labels)
        if self.wordings == 1:
            return (original,)
        asked = f"wordings={self.wordings}"
        if isinstance(self.prompt, PublishedConfig):
            raise ConfigError(f"{asked}: prompt=published has one wording, the study's; leave wordings=1")
        own = self.prompt.paraphrases
        most = 1 + min(map(len, own.parts.values()), default=0)
        if self.wordings > most:
            has = "no paraphrases" if most == 1 else f"{most - 1} paraphrases"
            raise ConfigError(
                f"{asked}: prompt {original.name} has {has}, so that wordings={most} is the most; give more of them in "
                "prompt.paraphrases"
            )
        for part in own.parts:
            of = getattr(own.originals, part)
            if of is not None and of.strip() != getattr(original, part):
                raise ConfigError(
                    f"{asked}: prompt.{part} is not the wording that prompt.paraphrases.{part} are paraphrases of; "
                    f"give those of yours with prompt.paraphrases.originals.{part}=null, or leave wordings=1"
                )
        return original, *(
            original.reworded(number, **{part: texts[number - 1] for part, texts in own.parts.items()})
            for number in range(1, self.wordings)
        )

    def _variant_that_rates(self) -> PromptVariant:
        match self.prompt:
            case PublishedConfig():
                if self.prompt.path is None:
                    raise ConfigError(
                        "prompt=published needs prompt.path: const.py in your copy of the study's repository"
                    )
                return read_published_variant(self.prompt.variant, self.prompt.path)
            case template:
                fields = template.model_dump(exclude={"kind", "scale", "paraphrases"})
                # A YAML block ends with a newline that is not part of the prompt.
                stripped = {name: text.strip() for name, text in fields.items()}
                return PromptVariant(**stripped, scale=Scale(**template.scale.model_dump()))


_Model = TypeVar("_Model", bound=BaseModel)


def load_config(composed: Mapping[str, Any]) -> AuditConfig:
    """Validate a composed configuration. A ConfigError names the key and the value."""
    return _in_its_language(_validate(AuditConfig, composed))


def _in_its_language(config: AuditConfig) -> AuditConfig:
    """Translate the beginning of answers; refuse settings whose text exists in English only."""
    if config.language == ENGLISH:
        return config
    asked = f"language={config.language}"
    try:
        pack = config.pack
        assert pack is not None
        begun = pack.beginning(config.elicitation.prefill)
    except StimulusError as error:
        raise ConfigError(str(error)) from error
    english = {
        f"task={config.task.kind}": not config.task.has_languages,
        "prompt=published": isinstance(config.prompt, PublishedConfig),
        f"strategy={config.strategy.name}": config.strategy.name != NO_STRATEGY,
        f"wordings={config.wordings}": config.wordings > 1,
        "elicitation.parser=hou2025": config.elicitation.parser == "hou2025",
        "model.chat_template=plain": config.model.chat_template == "plain",
    }
    for setting, is_asked in english.items():
        if is_asked:
            raise ConfigError(
                f"{setting} is in English alone, and {asked} would mix the two; leave it out, or set language=en"
            )
    return config.model_copy(update={"elicitation": config.elicitation.model_copy(update={"prefill": begun})})


def load_model(values: Mapping[str, Any]) -> ModelConfig:
    """Validate a model card, given by names without ``model.``."""
    return _validate(ModelConfig, values, "model")


def load_statistics(values: Mapping[str, Any]) -> AnalysisSettings:
    """Validate settings of an analysis, given by names without ``statistics.``; others have their defaults."""
    return _validate(AnalysisSettings, values, "statistics")


def _validate(model: type[_Model], values: Mapping[str, Any], *part: str) -> _Model:
    """Build a model of the configuration or of one part; a ConfigError gives the full name of the option."""
    _check_kinds((model,), values, part)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = fault_of(error)
        if fault["type"] == "extra_forbidden":
            *place, key = map(str, place_of(error, values))
            nearest = suggest(key, fields_at(model, place))
            raise ConfigError(f"{'.'.join([*part, *place, key])}: there is no such option; {nearest}") from error
        raise ConfigError("".join(f"{name}." for name in part) + explain(error, model, values)) from error


def _check_kinds(models: Sequence[type[BaseModel]], values: Mapping[Any, Any], place: Sequence[str]) -> None:
    """Refuse what pydantic would convert silently (true for a number, 1 for true) and what is too large or long.

    ``models`` are the alternatives that ``values`` may belong to, ``place`` the names that lead to them. Unknown names
    are left to pydantic.
    """
    for name, value in values.items():
        annotations = [of.model_fields[name].annotation for of in models if name in of.model_fields]
        if not annotations:
            continue
        full = ".".join([*place, str(name)])
        if fault := _wrong_kind(_leaves_of(annotations), value):
            raise ConfigError(f"{full}: {fault} (given: {shown(value)})")
        if isinstance(value, str) and (Path in _leaves_of(annotations) or name == "path"):
            if "\0" in value:
                raise ConfigError(f"{full}: holds a NUL character, which no path has; write the path again")
            if not (name == "path" and values.get("base_url")):  # a server's model is an id, not a path
                _check_path(full, value)
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        if len(value) > _MOST:
            raise ConfigError(f"{full}: has {len(value):,} values; at most {_MOST:,} may be given")
        inside = [nested for annotation in annotations for nested in nested_models(annotation)]
        is_by_name = any(dict in _origins(annotation) for annotation in annotations)
        of_names = value.items() if isinstance(value, Mapping) and is_by_name else [("", value)]
        for own, each in of_names:
            if isinstance(each, Mapping):
                _check_kinds(inside, each, [*place, str(name), *([str(own)] if own else [])])


def _leaves_of(annotations: Sequence[Any]) -> frozenset[Any]:
    return frozenset().union(*map(_leaves, annotations))


def _check_path(name: str, text: str) -> None:
    """Refuse a path with a part that is too long for a file name."""
    if longest := next((part for part in re.split(r"[/\\]", text) if len(part.encode("utf-8", "replace")) > 255), ""):
        raise ConfigError(f"{name}: {longest[:40]!r}... is longer than the name of a file can be; shorten it")


def _wrong_kind(kinds: frozenset[Any], value: object) -> str:
    """Say what is wanted instead of a value; empty if the value is fine."""
    if isinstance(value, bool):
        wanted = "" if bool in kinds else "a number is wanted" if float in kinds else "a whole number is wanted"
        return wanted if {int, float} & kinds else ""
    if bool in kinds and isinstance(value, (int, float, str)):
        return "true or false is wanted"
    if {int, float} & kinds and isinstance(value, (int, float)):
        if not math.isfinite(value):
            return "a number is wanted that is not infinite"
        return f"a number of at most {_LARGEST:,} is wanted" if abs(value) > _LARGEST else ""
    return ""


def _leaves(annotation: Any) -> frozenset[Any]:
    """Collect the plain types that an annotation allows outside a list."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _leaves(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return frozenset().union(*map(_leaves, get_args(annotation)))
    return frozenset() if origin is not None else frozenset({annotation})


def _origins(annotation: Any) -> set[Any]:
    """Collect the collection types that an annotation allows."""
    inside = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ()
    return {get_origin(annotation), *(origin for each in inside for origin in _origins(each))}


def option_names() -> list[str]:
    """Return the full name of every option, e.g. ``model.dtype``."""
    return sorted(option_types())


def option_types() -> dict[str, frozenset[str]]:
    """Map each option's full name to what it takes: ``path``, ``text``, ``list``, ``names`` or ``other``.

    ``model.path`` may also be a hub id, so it takes text and a path.
    """
    found: dict[str, frozenset[str]] = {}

    def collect(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            full = prefix + name
            kinds = frozenset(_kinds(field.annotation)) | ({"path"} if full == "model.path" else set())
            found[full] = found.get(full, frozenset()) | kinds
            by_name = "NAME." if get_origin(field.annotation) is dict else ""
            for nested in nested_models(field.annotation):
                collect(nested, f"{full}.{by_name}")

    collect(AuditConfig, "")
    return found


def _kinds(annotation: Any) -> Iterator[str]:
    """Yield the kinds of values that an annotation allows."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin is Literal:
        yield from ("text" for value in get_args(annotation) if isinstance(value, str))
    elif origin in (tuple, list, Sequence):
        yield "list"
    elif origin in (dict, Mapping):
        yield "names"
    elif origin is not None:
        for each in get_args(annotation):
            yield from _kinds(each)
    elif annotation is not type(None):
        yield {str: "text", Path: "path"}.get(annotation, "other")


NOT_MEASURED: Final = frozenset({"statistics", "measures", "run_dir", "reports_dir", "out", "shard_size"})
"""Keys that change neither a prompt nor its answer."""


def measured(config: AuditConfig) -> dict[str, Any]:
    """Return the part of the configuration that answers depend on, as plain values."""
    return config.model_dump(mode="json", exclude=set(NOT_MEASURED))


def fingerprint(content: Mapping[str, Any]) -> str:
    """Hash plain values with SHA-256, independently of key order."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
