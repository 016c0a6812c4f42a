"""The validated configuration of a run: turns what Hydra composed into frozen objects, or raises a one-line error.

A field's description is what ``audit options`` says of the option.
"""

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


class _OptionGroup(BaseModel):
    # Not pydantic's strict mode: command-line settings arrive as text, and 1e3 is a whole number.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def _is_a_name(text: str) -> str:
    return _checked_name(text, may_have="")


def _is_a_name_of_a_hub(text: str) -> str:
    return _checked_name(text, may_have="/")


def _checked_name(text: str, *, may_have: str) -> str:
    """Return ``text`` if it can name a file or folder. Raise ValueError if it is empty, invisible or a path."""
    if len(text) > _LONGEST_NAME:
        raise ValueError(f"has {len(text):,} letters; use at most {_LONGEST_NAME}")
    if not text.isprintable() or not text.strip():
        raise ValueError("has an invisible character; write the name in letters")
    parts = text.split("/")
    if "\\" in text or (len(parts) > 1 and not may_have) or not all(part.strip(". ") for part in parts):
        raise ValueError("must be a name, but is a path; leave out slashes, and dots without letters between them")
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


class _Elsewhere(_OptionGroup):
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
            raise ConfigError("base_url: is not a server's address; write one such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError(
                "base_url: has more than an address (a user, a password, or text after ? or #), and manifests "
                "would record it; leave that out, and put the key in an environment variable: api_key_env=NAME"
            )
        return url.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ConfigError(
                "api_key_env: is not the name of an environment variable (capital letters, digits and _); export "
                "the key, and give the variable's name: api_key_env=OPENAI_API_KEY"
            )
        return name


class ModelConfig(_AtServer):
    """A model card: which model it is and how to load it."""

    _of_servers = (*_AtServer._of_servers, "chat_template", "date", "thinks_in")

    base_url: str | None = Field(
        default=None,
        description="engine=openai: the server's address, such as http://localhost:8000/v1; model.path is then the "
        "model's name there",
    )
    api_key_env: str | None = Field(
        default=None,
        description="engine=openai: the environment variable with the server's key; null = no key",
    )
    name: ModelName = Field(
        description="your own name for the model, shown first in reports; a packaged card's name is not shown"
    )
    path: str = Field(
        min_length=1,
        description="the model: a hub id, a local folder, a GGUF file, embedded:smollm2, or its name at a server: "
        "docs/models.md",
    )
    revision: str | None = Field(description="a commit, branch or tag of the hub; null = the newest")
    tokenizer: str | None = Field(description="another hub id or folder for the tokenizer; null = the model's own")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        description="the number format that the model runs in; auto = the files' own on a GPU; on a CPU float32, "
        "unless bfloat16 is native and no slower"
    )
    quantization: str | None = Field(description="vllm: awq, gptq, fp8, ...; null = as in the model's files")
    max_model_len: int = Field(ge=16, description="maximum tokens of prompt and answer together")
    trust_remote_code: bool = Field(description="true = run code from the model's repository on this machine")
    elicitation: Literal["generate", "expected"] = Field(description="the meaning of elicitation=auto for this model")
    chat_template: str | None = Field(
        default=None,
        min_length=1,
        description="null = the model's own; plain = plain text, for a base model; or a Jinja file",
    )
    date: str = Field(
        default=DATE,
        description="the date for chat templates that print today's date, so that prompts do not change from day to "
        "day",
    )
    thinks_in: ThinksIn = Field(
        default="auto",
        description="the marks that separate its thoughts from its answers: think, gpt-oss, gemma and others "
        "(docs/thinking.md); auto = found in its template or vocabulary",
    )

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_day(cls, date: object) -> object:
        try:
            told = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(date))) and datetime.fromisoformat(str(date)) is not None
        except ValueError:
            told = False
        if not told:
            raise ConfigError(f"model.date={str(date)[:60]}: is not a date; write it as {DATE}")
        return str(date)


class ServerConfig(_OptionGroup):
    """How to call a server; none of this changes an answer."""

    concurrency: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="maximum requests at a time; lowered while the server asks for fewer (429)",
    )
    timeout_s: float = Field(default=120, gt=0, description="time limit for an answer, in seconds")
    retries: int = Field(default=8, ge=0, description="number of retries after a temporary failure")
    backoff_s: float = Field(
        default=0.5,
        ge=0,
        description="seconds before the first retry, doubled for each further one; the server's own Retry-After comes "
        "first",
    )
    max_wait_s: float = Field(
        default=300,
        ge=0,
        description="longest wait that a server may ask for, in seconds; if it asks for more, the run stops and can be "
        "continued later",
    )
    max_requests: int | None = Field(
        default=None,
        ge=1,
        description="maximum requests per session; then the run stops, and the same command continues it; null = no "
        "limit",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="maximum tokens per session, read and written, as the server counts them; null = no limit",
    )


HANG_S: Final = 3600.0
"""Default of ``engine.hang_s``, in seconds."""


class RayConfig(_OptionGroup):
    """The Ray cluster to run on; if ``address`` is None, one is started on this machine."""

    address: str | None = Field(
        default=None,
        description="null = start a cluster on this machine for the run; auto = the cluster that this machine belongs "
        "to",
    )
    num_cpus: int = Field(default=1, ge=1, description="CPU cores per worker")


class EngineConfig(_Elsewhere):
    """Which library runs the model, and how."""

    _of_servers = ("server", "batch", "replicas", "hang_s", "ray")
    name: Name = Field(
        description="the library that runs the model; set by engine=, and for engine=ray: auto, vllm or transformers"
    )
    tensor_parallel_size: int = Field(ge=1, description="vllm: number of GPUs that share the model")
    gpu_memory_utilization: float = Field(gt=0, le=1, description="vllm: the share of GPU memory to use, 0 to 1")
    kv_cache_gib: int = Field(ge=1, description="vllm on a CPU: memory for the keys and values, in GiB")
    enforce_eager: bool | None = Field(description="vllm: true = no compilation; null = on a CPU true, on a GPU false")
    block_size: int | None = Field(
        ge=1, description="vllm: tokens per cache block; null = 32 on a CPU, vLLM's own choice on a GPU"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        description="transformers: where the model runs: cuda, mps or cpu; auto = the best available"
    )
    batch_size: int = Field(ge=1, description="transformers: prompts per forward pass")
    pack_tokens: int | None = Field(
        default=None,
        ge=1,
        description="transformers with elicitation=expected: tokens to read at once; null = 1536 on a CPU, 8192 "
        "elsewhere",
    )
    add_special_tokens: bool = Field(
        default=False,
        description="true = the tokenizer adds its own special tokens to the text that the chat template made, as "
        "vLLM does for prompts given as strings. A model whose template already writes the begin-of-text token (BOS) "
        "then reads it twice. The published study asked this way. All engines do the same, and the run records what "
        "was added.",
    )
    replicas: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default=1,
        description="Number of processes on this machine that share the run, each with its own copy of the model and "
        "its own GPUs (tensor_parallel_size each); auto = as many as the GPUs allow, 1 on a CPU; with engine=ray, as "
        "many as fit on the cluster: docs/scale.md",
    )
    hang_s: float | None = Field(
        default=HANG_S,
        gt=0,
        allow_inf_nan=False,
        description="with several processes: stop one that answers no prompt for this many seconds; null = never",
    )
    ray: RayConfig | None = Field(
        default=None, description="the Ray cluster that runs the models; null unless engine=ray"
    )
    server: ServerConfig | None = Field(
        default=None, description="how requests are sent to the server; null unless engine=openai"
    )
    batch: bool | None = Field(
        default=None,
        description="openai: true = use the batch interface (/v1/batches), often cheaper, answered within a day: "
        "docs/endpoints.md",
    )

    @field_validator("batch")
    @classmethod
    def _of_a_server(cls, batch: bool | None, info: ValidationInfo) -> bool | None:
        if batch and info.data.get("name") != "openai":
            raise ValueError("batches need a server: use engine=openai, or a model card that sets it")
        return batch or None


class ElicitationConfig(_OptionGroup):
    """How a rating is elicited from the model."""

    method: Literal["auto", "generate", "expected"] = Field(
        description="how ratings are obtained: expected = the mean of the model's distribution over the scale's "
        "numbers; generate = the number is read from what the model writes; auto = the model card's choice"
    )
    max_tokens: int = Field(ge=1, description="generate: maximum tokens of an answer")
    parser: Literal["scale", "hou2025"] = Field(
        description="generate: how the number is read: scale (checks the scale's ends) or hou2025 (the study's parser)"
    )
    max_pruned_points: float = Field(
        ge=0,
        description="expected: largest error of an intensity from skipping unlikely numbers, in hundredths of the "
        "scale; 0 = skip none",
    )
    prefill: str = Field(
        default="",
        description='text that begins every answer, e.g. "Number: "; empty = none',
    )
    check_sample: int = Field(
        default=0,
        ge=0,
        description="expected: number of prompts that are also answered in words, to check whether both agree; 0 = "
        "none",
    )
    noise_sample: int = Field(
        default=0,
        ge=0,
        description="number of prompts that are asked again in another order, to measure rounding; 0 = none",
    )
    noise_formats: Annotated[
        tuple[Literal["bfloat16", "float16", "float32"], ...], BeforeValidator(_one_or_several)
    ] = Field(
        default=(),
        description="other number formats for the noise sample, e.g. [bfloat16]; slow on a CPU; transformers only",
    )
    manipulation: int = Field(
        default=0,
        ge=0,
        description="least number of narratives that are also asked without identities, about their own emotion and a "
        "wrong one (all of the run's, and more from its source); 0 = none",
    )

    @field_validator("max_pruned_points")
    @classmethod
    def _less_than_the_scale(cls, hundredths: float) -> float:
        check_margin("elicitation.max_pruned_points", hundredths, low=0, high=100)
        return hundredths

    @field_validator("prefill")
    @classmethod
    def _begins_with_words(cls, prefill: str) -> str:
        if prefill and not prefill.strip():
            raise ValueError("must not be white space only; give words, such as 'Number: ', or leave it empty")
        return prefill

    @field_validator("noise_formats")
    @classmethod
    def _of_a_sample(cls, formats: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if formats and not info.data.get("noise_sample"):
            raise ValueError(
                "other formats are asked in the noise sample, which is empty; set elicitation.noise_sample"
            )
        if len(set(formats)) < len(formats):
            raise ValueError("a format is given twice; keep one")
        return formats


class ThinkingConfig(_Elsewhere):
    """Whether the model thinks before it answers, for how long, and how thoughts are sampled."""

    _of_servers = ("marks",)
    mode: Literal["off", "on", "budget"] = Field(
        default="off",
        description="off = no thought; on = the model ends its thought itself; budget = its thought is closed after "
        "max_tokens",
    )
    marks: tuple[str, str] | None = Field(
        default=None,
        description="the marks before and after a thought, such as ['<think>','</think>']; null = those of "
        "model.thinks_in",
    )
    max_tokens: int = Field(
        default=1024,
        ge=1,
        description="maximum tokens of a thought; then, for on, the answer is missing; for budget, the thought is "
        "closed and the model answers",
    )
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 = the most likely token at each step; above 0 = sampled: some cards advise 0.6 with top_p 0.95",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above temperature 0, sample from the smallest set of tokens with this probability",
    )

    @field_validator("marks")
    @classmethod
    def _can_be_told_apart(cls, marks: tuple[str, str] | None) -> tuple[str, str] | None:
        if marks is not None and (marks[0] == marks[1] or not all(1 < len(each.strip()) < 100 for each in marks)):
            raise ConfigError(
                f"thinking.marks={list(marks)}: must be the mark before a thought and the mark after it, two "
                "different texts of at least 2 characters, such as ['<think>','</think>']"
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


class ColumnsConfig(_OptionGroup):
    """Column names in a user's file of narratives; None if the file lacks the column."""

    narrative_id: str | tuple[str, ...] | None = Field(
        description="stimuli=csv: the column with the narrative's identifier; [a,b] if several columns identify it "
        "together"
    )
    emotion: str | None = Field(description="stimuli=csv: the column with the emotion that each narrative is about")
    neutral: str | None = Field(
        description="stimuli=csv: the column with the text as its writer tells it, for prompts with the neutral wording"
    )
    first_person: str | None = Field(
        description="stimuli=csv: the column with the text in the first person (I ...); null = the file has none"
    )
    third_person: str | None = Field(
        description="stimuli=csv: the column with the text in the third person; null = the file has none"
    )
    emotion_noun: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s noun, as in "how much anger"; null = emotion_noun, '
        "if the file has it, else a packaged word"
    )
    emotion_adjective: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s adjective, as in "how angry"; null = '
        "emotion_adjective, if the file has it, else a packaged word"
    )


class ConversationsConfig(_OptionGroup):
    """Column names in a user's corpus (None if absent), how much history is shown, and synonyms of its labels."""

    conversation_id: str | tuple[str, ...] = Field(
        description="the column with the conversation's identifier; [a,b] if several columns identify it together"
    )
    turn: str = Field(
        description="the column with the utterance's position in its conversation: whole numbers, in order"
    )
    speaker: str = Field(description="the column with the speaker's name")
    text: str = Field(description="the column with the utterance")
    emotion: str = Field(
        description="the column with the emotion label; utterances without a label are shown but not asked about"
    )
    identity: str | None = Field(
        description="the column with the speaker's identity, in the corpus' own words, so that answers are also "
        "scored by identity; null = none"
    )
    cause: str | None = Field(
        description="the column with the words that caused the emotion; separate several with ||, leave the cell "
        "empty for none; null = no column"
    )
    history: int | None = Field(ge=0, description="maximum number of earlier utterances to show; null = all")
    keep_names: bool = Field(description="true = speakers keep their names; false = Person A, Person B")
    synonyms: dict[str, Words] | None = Field(
        default=None,
        description="words in answers that count as a label, e.g. {joy: [happiness, happy]}; forms of the label "
        "itself count anyway",
    )


class StimuliConfig(_OptionGroup):
    """Which identities and narratives are crossed."""

    source: Literal["geneva", "geneva20", "hou2025", "csv", "conversations"] = Field(
        description="where the narratives come from; set by stimuli="
    )
    identities: str = Field(
        description="the packaged identities: six-groups, geneva (four groups), wide or hou2025; personas and us-them "
        "belong to experiment="
    )
    own_identities: Path | None = Field(
        description="your own YAML file with more dimensions (docs/stimuli.md); null = none"
    )
    unspecified: bool = Field(description='true = also ask about "a person", as a baseline on both sides')
    no_persona: bool = Field(description="true = also ask each question without a persona")
    path: Path | None = Field(
        description="the file or folder with the narratives, for stimuli=hou2025, csv and conversations"
    )
    emotions: Words | None = Field(description="only narratives of these emotions, e.g. [sad,happy]; null = all")
    situations_per_emotion: int | Literal["all"] = Field(
        description="number of narratives per emotion, sampled with the seed; all = no sample"
    )
    card_sample: int | Literal["all"] = Field(
        default="all",
        exclude=True,
        description="situations_per_emotion for model cards that ask for a sample (smollm2); all = no sample",
    )
    columns: ColumnsConfig
    conversations: ConversationsConfig | None = Field(
        default=None,
        description="the columns of your corpus, and what to show of it; null unless stimuli=conversations",
    )
    placebo: Annotated[int, Field(ge=0)] | Words = Field(
        default=0,
        description="number of sets of invented groups to compare δ with, sampled with the seed; or their names, e.g. "
        "[trivial]; 0 = none",
    )
    placebo_terms: int = Field(default=1, ge=1, description="number of terms per invented group")
    intensity: str = Field(
        default="rotate",
        description="stimuli=geneva20: mild, middle or strong; rotate = each situation in one of them, in turn",
    )
    cues: Words | None = Field(
        default=None,
        description="use only terms that show their group in these ways: label, name (typical first names), context; "
        "null = all terms",
    )
    perceiver_terms: int | None = Field(
        default=None, description="number of terms per group for perceivers (the first ones); null = all"
    )
    experiencer_terms: int | None = Field(
        default=None,
        description="number of terms per group for experiencers (the first ones); null = all; with 1 on both sides, "
        "every in-group pair repeats its words",
    )
    check_person: bool = Field(  # False is what runs did before the check existed
        default=False,
        description='of stimuli=csv: true = texts are checked: told by the person ("I ..."), or in the third person '
        "with {experiencer}; false = do not check",
    )
    missing: Words | None = Field(
        default=None,
        description='text that means an empty cell in your file, e.g. [NA, "-"]; null = none, because a '
        "group may be called so",
    )
    pairs: PairsAsked = Field(
        default="all",
        description="the pairs asked about each narrative: balanced = every in-group pair, and half or 3 of the other "
        "groups, in turn; all = every pair",
    )


class ScorerConfig(_OptionGroup):
    """A model that scores replies."""

    model: str = Field(min_length=1)
    revision: str | None = Field(default=None, description="for a hub id: branch, tag or commit")


class HypothesesConfig(_OptionGroup):
    """Hypotheses whose entailment by a reply EQ measures; None means our wording."""

    emotion: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the sentence that says that the reply responds to the emotion; null = the packaged one",
    )
    perspective: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the sentence that says that the reply takes the person's perspective; null = the packaged one",
    )
    advice: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply gives advice; null = the packaged one"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _stripped(cls, text: object) -> object:
        return text.strip() if isinstance(text, str) else text


class EqConfig(ScorerConfig):
    """A natural language inference model and its hypotheses."""

    model: str = Field(min_length=1, description="the natural language inference model: a folder or hub id")
    hypotheses: HypothesesConfig = Field(
        default=HypothesesConfig(),
        description="sentences about a reply, which it entails or contradicts; null = ours, see docs/replies.md",
    )


_Label = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]


class RegardLabelsConfig(_OptionGroup):
    """The classifier's labels for the four classes of regard."""

    negative: _Label
    neutral: _Label
    positive: _Label
    other: _Label

    @model_validator(mode="after")
    def _differ(self) -> Self:
        named = list(self.model_dump().values())
        if twice := [label for label in named if named.count(label) > 1]:
            raise ValueError(f"the label {twice[0]!r} is given to two classes; give each class its own label")
        return self


class RegardConfig(ScorerConfig):
    """A classifier of regard; if ``labels`` is None, its own label names are used."""

    model: str = Field(min_length=1, description="the classifier of regard: a folder or hub id")
    labels: RegardLabelsConfig | None = Field(
        default=None,
        description="its names for the classes, e.g. {negative: L0, neutral: L1, positive: L2, other: L3}; null = "
        "these names",
    )


class PerplexityConfig(ScorerConfig):
    """A language model that measures perplexity."""

    model: str = Field(
        min_length=1,
        description="the model that measures perplexity: embedded:smollm2, a folder or hub id",
    )


class BertScoreConfig(ScorerConfig):
    """An encoder that compares replies with reference replies."""

    model: str = Field(
        min_length=1, description="the encoder that compares replies: embedded:minilm, a folder or hub id"
    )
    layer: int | None = Field(
        default=None,
        ge=0,
        description="the layer of the encoder to compare (0 = its embeddings); null = 5 for the packaged encoder; "
        "others need a number",
    )
    references: Path | None = Field(
        default=None,
        description="your own CSV file with narrative_id and reference, the replies to compare with; null = none",
    )

    @model_validator(mode="after")
    def _layer_is_known(self) -> Self:
        if self.layer is None and not self.model.startswith("embedded:"):
            raise ValueError(
                f"{self.model} needs a layer to compare; for FacebookAI/roberta-large, the authors chose "
                "measures.bertscore.layer=17 of 24"
            )
        return self


class LexiconConfig(_OptionGroup):
    """A lexicon of words and emotions; if ``path`` is None, the packaged one."""

    path: Path | None = Field(
        default=None,
        description="your lexicon: word, emotion, 0 or 1, separated by tabs, as in NRC's; null = the packaged one, of "
        "the emotions' names only",
    )
    narrative: Literal["text", "emotion"] = Field(
        default="text",
        description="what a reply is compared with: text = its narrative's text; emotion = the words for the "
        "narrative's emotion",
    )


_Classifier = Annotated[ScorerConfig | None, BeforeValidator(bare_model)]


class EpitomeConfig(_OptionGroup):
    """The user's trained classifiers, one for each mechanism, and ``labels`` with the levels of human replies.

    A classifier is a folder, a hub id, or a mapping of ``model`` and ``revision``.
    """

    emotional_reactions: _Classifier = Field(
        default=None, description="your classifier of emotional reactions: a folder or hub id; null = none"
    )
    interpretations: _Classifier = Field(
        default=None, description="your classifier of interpretations: a folder or hub id; null = none"
    )
    explorations: _Classifier = Field(
        default=None, description="your classifier of explorations: a folder or hub id; null = none"
    )
    labels: Path | None = Field(
        default=None,
        description="a CSV file with narrative_id and a column for each mechanism, with the level from 0 to 2 that "
        "people gave each reply; null = none",
    )


class JudgeConfig(_AtServer):
    """A model that scores replies by a rubric; if ``model`` is None, there is no judge."""

    base_url: str | None = Field(
        default=None,
        description="the address of an OpenAI-compatible server; measures.judge.model is then the model's name there",
    )
    api_key_env: str | None = Field(
        default=None,
        description="the environment variable with the server's key",
    )
    model: str | None = Field(
        description="the judge: a folder or hub id; null = none; embedded:smollm2 only tests the set-up"
    )
    revision: str | None = Field(description="for a hub id: branch, tag or commit")
    rubric: Name = Field(description="the rubric: empathy, epitome, or one from rubric_file")
    rubric_file: Path | None = Field(
        description="your own YAML file of rubrics (docs/replies.md); null = the packaged ones"
    )
    method: Literal["expected", "generate"] = Field(
        description="how scores are obtained: expected = the mean of its next-token distribution over the scale; "
        "generate = the number that it writes"
    )
    max_tokens: int = Field(ge=1, description="generate: maximum tokens of an answer")
    max_model_len: int = Field(ge=16, description="maximum tokens that the judge reads and writes together")
    shown_as: str = Field(
        description="text that the judge reads instead of every experiencer, e.g. a person; empty = the experiencer "
        "itself"
    )
    own_gap: int = Field(
        ge=0,
        description="number of narratives whose replies are judged again as replies to every experiencer, to measure "
        "the judge's own gap; 0 = none",
    )


class MeasuresConfig(_OptionGroup):
    """How replies are scored; may change between scorings of the same replies."""

    names: Annotated[tuple[MeasureName, ...], BeforeValidator(_one_or_several)] = Field(
        description="the measures that score the replies"
    )
    device: str = Field(
        min_length=1, description="the device of the scorers: cpu, or cuda if the audited model leaves room"
    )
    batch_size: int = Field(ge=1, description="texts that eq, regard and epitome read at once; changes only rounding")
    download: bool = Field(description="true = download missing scorers from the hub")
    eq: EqConfig
    regard: RegardConfig
    perplexity: PerplexityConfig
    bertscore: BertScoreConfig
    epitome: EpitomeConfig = Field(
        description="your own trained classifiers, one a mechanism: a folder or hub id, or {model: OWNER/NAME, "
        "revision: v1}"
    )
    lexicon: LexiconConfig = Field(
        default=LexiconConfig(), description="how near a reply's emotion words are to its narrative's"
    )
    judge: JudgeConfig = Field(
        description="a model that scores each reply by a rubric, asked by the run's engine after all replies are "
        "written"
    )


class ScaleConfig(_OptionGroup):
    """The two ends of the rating scale."""

    low: int = Field(description="the lower end of the rating scale")
    high: int = Field(description="the upper end of the rating scale")
    low_label: str = Field(description="the meaning of the lower end, in the prompt")
    high_label: str = Field(description="the meaning of the upper end, in the prompt")


class OriginalsConfig(_OptionGroup):
    """The prompt texts that the paraphrases were written for; None skips the check."""

    persona: str | None = Field(default=None, description="the persona that the paraphrases reword; null = not checked")
    system: str | None = Field(
        default=None, description="the system message that the paraphrases reword; null = not checked"
    )
    user: str | None = Field(default=None, description="the question that the paraphrases reword; null = not checked")


class ParaphrasesConfig(_OptionGroup):
    """Further wordings of a prompt's parts, in order. A part without paraphrases is the same in every wording."""

    originals: OriginalsConfig = OriginalsConfig()
    persona: Words = Field(default=(), description="other wordings of the persona, in order, for wordings=")
    system: Words = Field(default=(), description="other wordings of the system message, in order, for wordings=")
    user: Words = Field(default=(), description="other wordings of the question, in order, for wordings=")

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The paraphrases of each part that has any, stripped."""
        lists = {name: getattr(self, name) for name in type(self.originals).model_fields}
        return {name: tuple(text.strip() for text in texts) for name, texts in lists.items() if texts}


class TemplateConfig(_OptionGroup):
    """A prompt variant in the toolkit's or the user's wording."""

    kind: Literal["template"] = Field(description="the kind of prompt; set by prompt=")
    name: Name = Field(description="the prompt's name in reports")
    persona: str = Field(description="the text that tells the model who it is; placeholder {perceiver}")
    system: str = Field(description="the system message; {persona} stands for the persona")
    user: str = Field(
        description="the question; {experiencer}, {narrative}, {emotion_noun} and other placeholders are filled in"
    )
    narrative: str = Field(description="the wording of the narratives: neutral, first_person or third_person")
    scale: ScaleConfig
    paraphrases: ParaphrasesConfig = ParaphrasesConfig()


class PublishedConfig(_OptionGroup):
    """A prompt variant in the study's wording, read from the user's copy of its code."""

    kind: Literal["published"]
    variant: str = Field(
        description="the study's prompt: origin, persona-1, persona-2, persona-3, 1-person, 3-person or 10-scale"
    )
    path: Path | None = Field(description="const.py in your copy of the study's repository")


class TaskConfig(_OptionGroup):
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

    kind: Literal["intensity"] = Field(default="intensity", description="the task of the model; set by task=")

    @property
    def name(self) -> str:
        """Empty, because runs got their names before other tasks existed."""
        return ""


class WrittenTask(TaskConfig):
    """The perceiver writes a text; the persona comes from the prompt."""

    stores = "replies"
    system: str = Field(
        description="the system message; {persona} stands for the persona, and in task=emotion {labels} for the labels"
    )
    user: str = Field(description="the question; {experiencer}, {narrative} and other placeholders are filled in")
    narrative: Literal["neutral", "first_person", "third_person"] | None = Field(
        description="the wording of the narratives: neutral, first_person or third_person; null = the prompt's"
    )
    max_tokens: int = Field(
        ge=1,
        description="maximum tokens of an answer; for task=inventory, null = elicitation.max_tokens for single, 32 "
        "per item for list",
    )
    temperature: float = Field(
        ge=0, allow_inf_nan=False, description="0 = the most likely token at each step; above 0 = sampled"
    )
    top_p: float = Field(
        gt=0, le=1, description="above temperature 0, sample from the smallest set of tokens with this probability"
    )

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
    path: Path | None = Field(
        description="the file of your inventory (name, source, scale, instruction, total, items); null = the "
        "packaged affect words"
    )
    presentation: Literal["single", "list"] = Field(
        description="single = one item per prompt; list = all items in one prompt, for models that write their answers"
    )
    n_orders: int | None = Field(
        ge=1,
        description="list: number of orders of the items; single: number of orders of the scale's ends, at most 2; "
        "null = 5 for list, 2 for single",
    )
    affect: bool | None = Field(
        description="true = also ask while a situation of stimuli= is imagined (after arXiv:2308.03656); null = true "
        "if path is null"
    )
    method: Literal["auto", "expected", "generate"] = Field(
        description="expected or generate, as for ratings; auto = elicitation= for single, generate for list"
    )
    max_tokens: int | None = Field(ge=1)


class StageConfig(_OptionGroup):
    """A model call of a strategy, before the question."""

    prompt: str = Field(
        description="the text of this call; takes the prompt's placeholders, and {stage_NAME} for the text of an "
        "earlier stage"
    )
    max_tokens: int = Field(default=200, ge=1, description="maximum tokens to write")
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 = the most likely token at each step; above 0 = sampled",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above temperature 0, sample from the smallest set of tokens with this probability",
    )


class ExampleColumnsConfig(_OptionGroup):
    """Column names in a user's pool of examples."""

    example_id: str = Field(default="example_id", description="your pool's column with the example's identifier")
    text: str = Field(default="text", description="your pool's column with the situation")
    answer: str = Field(default="answer", description="your pool's column with the answer to it")
    emotion: str | None = Field(
        default=None, description="your pool's column with the emotion, for {example_emotion}; null = none"
    )


class ExamplesConfig(_OptionGroup):
    """Examples that are shown before the first call; if ``pool`` is None, the packaged ones."""

    n: int = Field(description="number of examples")
    choice: Literal["random", "similar"] = Field(
        description="how to choose examples: similar = those most similar to the narrative; random = at random"
    )
    user: str = Field(description="the text that shows an example; {example_text} is its situation")
    assistant: str = Field(description="the text that shows an example's answer; {example_answer} is the answer")
    pool: Path | None = Field(default=None, description="your own CSV file with examples; null = the packaged ones")
    columns: ExampleColumnsConfig = ExampleColumnsConfig()
    embedder: str = Field(
        default="embedded:minilm",
        min_length=1,
        description="the model that measures how similar texts are: embedded:minilm, a folder, or a hub id",
    )
    revision: str | None = Field(default=None, description="for a hub id: branch, tag or commit")

    @model_validator(mode="after")
    def _columns_are_of_a_pool(self) -> Self:
        if self.pool is None and self.columns != ExampleColumnsConfig():
            raise ValueError("columns need your own file; give it: strategy.examples.pool=FILE")
        return self


class KnowledgeConfig(_OptionGroup):
    """Knowledge about each narrative: read from a user's file, or inferred by a local COMET model."""

    source: Literal["file", "comet"] = Field(
        description="the source of the knowledge: file = your own file; comet = a COMET model on this machine"
    )
    path: str | None = Field(
        default=None,
        description="the CSV file with narrative_id and a column for each relation; for source=comet, the model's "
        "folder or hub id",
    )
    relations: Words = Field(
        default=RELATIONS, description="the relations known about each narrative, for {knowledge_RELATION}"
    )
    revision: str | None = Field(default=None, description="for a hub id: branch, tag or commit")
    n: int = Field(
        default=5, ge=1, description="number of inferences to join per relation, the most likely of a beam search"
    )
    max_tokens: int = Field(default=24, ge=1, description="maximum tokens of an inference")

    @model_validator(mode="after")
    def _inferring_is_a_models(self) -> Self:
        for name in ("revision", "n", "max_tokens") if self.source == "file" else ():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={value} is for source=comet (a file is used as it is); leave it out")
        return self


class StrategyConfig(_OptionGroup):
    """The calls that lead the model to its answer; none by default.

    ``stages`` maps names to calls, in order; a null stage is skipped. It is serialised as a list, because mappings are
    written sorted. ``reply_stage`` names the last stage if it writes the reply that task=reply asks for, and
    ``reply_prompt`` is that stage's prompt then; empty keeps the stage's own.
    """

    name: Name = Field(default=NO_STRATEGY, description="the strategy's name in reports")
    source: str = Field(default="", description="the strategy's source, for the report")
    deviates: str = Field(default="", description="how it differs from its source, for the report")
    stages: dict[str, StageConfig | None] = Field(
        default_factory=dict,
        description="The calls before the question, in order: NAME: {prompt, max_tokens, temperature, top_p}; NAME: "
        "null leaves one out. Each text must reach the question: as a turn (history), as {stage_NAME}, or through a "
        "later stage.",
    )
    stage_system: str = Field(
        default="{persona}",
        description="the system message of the stages; the prompt's own {system} asks for a number only",
    )
    system: str = Field(
        default="{system}", description="the system message of the question; {system} stands for the prompt's own"
    )
    question: str = Field(
        default="{question}",
        description="the question after the stages; {question} stands for the prompt's own, {stage_NAME} for the text "
        "of a stage",
    )
    history: Literal["all", "last", "none"] = Field(
        default="all",
        description="the earlier calls and their answers that a call is shown as turns: all, last or none",
    )
    overrun: Literal["oldest", "fail"] = Field(
        default="oldest",
        description="If a call does not fit into the model's context: oldest = leave out examples and earlier calls, "
        "the oldest first, until it fits, and count them; fail = stop asking.",
    )
    examples: ExamplesConfig | None = Field(
        default=None,
        description="the examples shown before the first call, as in few-shot-1.yaml; null = none",
    )
    knowledge: KnowledgeConfig | None = Field(
        default=None,
        description="knowledge about each narrative, for {knowledge_RELATION}, as in knowledge-file.yaml; null = none",
    )
    reply_stage: str | None = Field(
        default=None,
        description="The last stage, if its text is the reply that task=reply asks for, so that no further call is "
        "made. For ratings, or if that stage is left out, the question follows the stages.",
    )
    reply_prompt: str = Field(
        default="", description="the prompt of reply_stage if it writes the reply; empty = its own prompt"
    )

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
                raise ValueError(f"two stages are called {stage['name']!r}; rename one")
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
                    f"strategy {self.name}: reply_prompt needs reply_stage, which is not set; set it to the last "
                    "stage, or leave reply_prompt out"
                )
            return None
        if self._writer_is_left_out:
            return None
        if not stages or stages[-1].name != self.reply_stage:
            last = f"the last one, {stages[-1].name}, or null" if stages else "null, since there is no stage"
            raise ConfigError(
                f"strategy {self.name}: reply_stage={self.reply_stage} is not the last stage, so later calls would "
                f"have no effect; give {last}"
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
    dimensions: Words | None = Field(
        description="the identity dimensions to compare, e.g. [religion]; a+b crosses two; null = all"
    )
    language: str = Field(
        default=ENGLISH,
        description="the language of the prompts: en, or the language pack de (docs/languages.md); tasks, strategies "
        "and wordings without a text in it are refused",
    )
    wordings: int = Field(
        default=1,
        ge=1,
        description="number of wordings of each prompt: 1 = only the original; 8 = the original and 7 paraphrases; 9 "
        "= all packaged wordings",
    )
    seed: int = Field(
        ge=0,
        lt=2**32,
        description="the random seed: sample of narratives, invented groups, permutations, the engine's sampling",
    )
    run_dir: Path | None = Field(
        description="the folder of the run; null = a folder in reports_dir, named after the configuration"
    )
    reports_dir: Path = Field(description="the folder for runs without run_dir")
    shard_size: int | None = Field(
        ge=1, description="number of prompts that are asked and saved at a time; null = 128 on a CPU, 4096 on a GPU"
    )
    out: Path | None = Field(
        description="`prompts` only: write to this file instead of standard output, and FILE.run.json, which `report "
        "answers=` needs (docs/elsewhere.md)"
    )

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
                f"thinking.marks={list(marks)} and model.thinks_in={named} both set the marks of thoughts; keep one"
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
                f"wordings={self.wordings}: task={self.task.kind} has one wording (only ratings have several); "
                "leave wordings=1"
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
                f"{asked}: prompt {original.name} has {has}, so wordings can be at most {most}; add more to "
                "prompt.paraphrases"
            )
        for part in own.parts:
            of = getattr(own.originals, part)
            if of is not None and of.strip() != getattr(original, part):
                raise ConfigError(
                    f"{asked}: prompt.{part} is not the wording that prompt.paraphrases.{part} paraphrases; give "
                    f"your own paraphrases with prompt.paraphrases.originals.{part}=null, or leave wordings=1"
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
                f"{setting} is in English only, and {asked} would mix two languages; leave it out, or set language=en"
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
            raise ConfigError(f"{'.'.join([*part, *place, key])}: unknown option; {nearest}") from error
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
                raise ConfigError(f"{full}: has a NUL character, which no path can have; write the path again")
            if not (name == "path" and values.get("base_url")):  # a server's model is an id, not a path
                _check_path(full, value)
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        if len(value) > _MOST:
            raise ConfigError(f"{full}: has {len(value):,} values; give at most {_MOST:,}")
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
        raise ConfigError(f"{name}: {longest[:40]!r}... is too long for a file name; shorten it")


def _wrong_kind(kinds: frozenset[Any], value: object) -> str:
    """Say what is wanted instead of a value; empty if the value is fine."""
    if isinstance(value, bool):
        wanted = "" if bool in kinds else "must be a number" if float in kinds else "must be a whole number"
        return wanted if {int, float} & kinds else ""
    if bool in kinds and isinstance(value, (int, float, str)):
        return "must be true or false"
    if {int, float} & kinds and isinstance(value, (int, float)):
        if not math.isfinite(value):
            return "must be a finite number"
        return f"must be at most {_LARGEST:,}" if abs(value) > _LARGEST else ""
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
