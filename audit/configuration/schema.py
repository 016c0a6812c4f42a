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
        description="engine=openai: the name of the variable of the environment that holds the server's key; "
        "null = no key",
    )
    name: ModelName = Field(
        description="a name of yours, which reports put before what was asked; a packaged card's name is not shown"
    )
    path: str = Field(
        min_length=1,
        description="which model: a hub id, a local folder, a GGUF file, embedded:smollm2, or a server's name for "
        "it: docs/models.md",
    )
    revision: str | None = Field(description="a commit, branch or tag of the hub; null = the newest")
    tokenizer: str | None = Field(description="another hub id or folder for the tokenizer; null = the model's own")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        description="the number format that the model runs in; auto = the files' own on a GPU, float32 on a CPU "
        "unless bfloat16 is native and no slower"
    )
    quantization: str | None = Field(description="vllm: awq, gptq, fp8, ...; null = as the model's files say")
    max_model_len: int = Field(ge=16, description="tokens of prompt and answer together, at most")
    trust_remote_code: bool = Field(description="true = code from the model's repository runs on this machine")
    elicitation: Literal["generate", "expected"] = Field(description="what elicitation=auto means for this model")
    chat_template: str | None = Field(
        default=None,
        min_length=1,
        description="null = the model's own; plain = a base model is asked in plain text; or a Jinja file",
    )
    date: str = Field(
        default=DATE,
        description="the day that chat templates are told which print today's date, so that prompts are the same "
        "tomorrow",
    )
    thinks_in: ThinksIn = Field(
        default="auto",
        description="by which marks its thoughts are told from its answers: think, gpt-oss, gemma and others, "
        "docs/thinking.md; auto = as template or vocabulary tell",
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
        description="requests at a time, at most; fewer for as long as the server asks for fewer (429)",
    )
    timeout_s: float = Field(default=120, gt=0, description="seconds that an answer may take")
    retries: int = Field(
        default=8, ge=0, description="how often a request is tried again that fails by a fault that may pass"
    )
    backoff_s: float = Field(
        default=0.5,
        ge=0,
        description="seconds before a request is tried again, twice as long before each further time; the server's "
        "own wish comes first",
    )
    max_wait_s: float = Field(
        default=300,
        ge=0,
        description="seconds that a server may ask to wait; where it asks for more, the run stops and can go on later",
    )
    max_requests: int | None = Field(
        default=None,
        ge=1,
        description="budget of a session, in requests; when it is spent, the run stops, and the same command goes "
        "on; null = no limit",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="budget of a session, in tokens read and written, as the server counts them; null = no limit",
    )


HANG_S: Final = 3600.0
"""Default of ``engine.hang_s``, in seconds."""


class RayConfig(_OptionGroup):
    """The Ray cluster to run on; if ``address`` is None, one is started on this machine."""

    address: str | None = Field(
        default=None,
        description="null = a cluster of this machine, begun for the run; auto = the one that this machine is part of",
    )
    num_cpus: int = Field(default=1, ge=1, description="cores of each worker")


class EngineConfig(_Elsewhere):
    """Which library runs the model, and how."""

    _of_servers = ("server", "batch", "replicas", "hang_s", "ray")
    name: Name = Field(
        description="which library runs the model; set by engine=, and of engine=ray: auto, vllm or transformers"
    )
    tensor_parallel_size: int = Field(ge=1, description="vllm: GPUs that share the model")
    gpu_memory_utilization: float = Field(
        gt=0, le=1, description="vllm: the share of a GPU's memory that is used, 0 to 1"
    )
    kv_cache_gib: int = Field(ge=1, description="vllm on a CPU: memory for the keys and values, in GiB")
    enforce_eager: bool | None = Field(description="vllm: true = no compilation; null = on a CPU true, on a GPU false")
    block_size: int | None = Field(
        ge=1, description="vllm: tokens of a cache block; null = 32 on a CPU, vLLM's own choice on a GPU"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        description="transformers: where the model runs: cuda, mps or cpu; auto = the best that there is"
    )
    batch_size: int = Field(ge=1, description="transformers: prompts of a forward pass")
    pack_tokens: int | None = Field(
        default=None,
        ge=1,
        description="transformers with elicitation=expected: tokens that are read at once; null = 1536 on a CPU, "
        "8192 elsewhere",
    )
    add_special_tokens: bool = Field(
        default=False,
        description="true = the tokenizer adds its own special tokens to the text that the chat template made, as "
        "vLLM does to a prompt that it is handed as a string: a model whose template writes the token "
        "that begins a text (BOS) then reads it twice. It is how the published study asked; every engine"
        " does the same, and the run says what was added.",
    )
    replicas: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default=1,
        description="How many processes of this machine share the run, each with the model and with GPUs of its own "
        "(tensor_parallel_size of them); auto = as many as there are GPUs for, on a CPU one; with "
        "engine=ray as many as the cluster has room for: docs/scale.md",
    )
    hang_s: float | None = Field(
        default=HANG_S,
        gt=0,
        allow_inf_nan=False,
        description="with several processes: seconds within which one must answer a prompt, or it is stopped; null ="
        " never",
    )
    ray: RayConfig | None = Field(
        default=None, description="the Ray cluster that shares the run; null unless engine=ray"
    )
    server: ServerConfig | None = Field(default=None, description="how the server is asked; null unless engine=openai")
    batch: bool | None = Field(
        default=None,
        description="openai: true = by the batch interface (/v1/batches), often cheaper, answered within a day: "
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
        description="how ratings are got: expected = the mean of the model's distribution over the scale's numbers; "
        "generate = it writes, and the number is read; auto = the model card's choice"
    )
    max_tokens: int = Field(ge=1, description="generate: tokens of an answer, at most")
    parser: Literal["scale", "hou2025"] = Field(
        description="generate: how the number is read: scale (knows the scale's ends) or hou2025 (as the study did)"
    )
    max_pruned_points: float = Field(
        ge=0,
        description="expected: how far an intensity may be off for numbers that were not asked, in hundredths of the"
        " scale; 0 = all are asked",
    )
    prefill: str = Field(
        default="",
        description='what the model is made to begin its answer with, e.g. "Number: "; empty = it begins as it likes',
    )
    check_sample: int = Field(
        default=0,
        ge=0,
        description="expected: how many prompts are also answered in words, to tell whether both say the same; 0 = "
        "none",
    )
    noise_sample: int = Field(
        default=0,
        ge=0,
        description="how many prompts are asked again in another order, to tell what rounding does to ratings; 0 = "
        "none",
    )
    noise_formats: Annotated[
        tuple[Literal["bfloat16", "float16", "float32"], ...], BeforeValidator(_one_or_several)
    ] = Field(
        default=(),
        description="other number formats in which the noise sample is asked too, e.g. [bfloat16]; slow on a CPU; "
        "transformers only",
    )
    manipulation: int = Field(
        default=0,
        ge=0,
        description="how many narratives are also asked without identities, with their own emotion and with a wrong "
        "one: at least so many, all of the run's and more of its source; 0 = none",
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
        description="what stands before a thought and after it, such as ['<think>','</think>']; null = as "
        "model.thinks_in says",
    )
    max_tokens: int = Field(
        default=1024,
        ge=1,
        description="tokens of a thought, at most; then on = the answer is missing, budget = the thought is closed "
        "and the model answers",
    )
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 takes the likeliest token at each step; above 0 tokens are drawn: some cards advise 0.6 with "
        "top_p 0.95",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above temperature 0, only the smallest set of likeliest tokens that has this probability is "
        "drawn from",
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
        description="stimuli=csv: the column with an identifier of each narrative; [a,b] where several make one "
        "together"
    )
    emotion: str | None = Field(description="stimuli=csv: the column with the emotion that each narrative is about")
    neutral: str | None = Field(
        description="stimuli=csv: the column with the text as its writer tells it, for prompts that show it in a "
        "neutral way"
    )
    first_person: str | None = Field(
        description="stimuli=csv: the column with the text in the first person (I ...); null = the file has none"
    )
    third_person: str | None = Field(
        description="stimuli=csv: the column with the text in the third person; null = the file has none"
    )
    emotion_noun: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s noun, as in "how much anger"; null = emotion_noun, '
        "if the file has it, or else a word of ours"
    )
    emotion_adjective: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s adjective, as in "how angry"; null = '
        "emotion_adjective, if the file has it, or else a word of ours"
    )


class ConversationsConfig(_OptionGroup):
    """Column names in a user's corpus (None if absent), how much history is shown, and synonyms of its labels."""

    conversation_id: str | tuple[str, ...] = Field(
        description="the column that says which conversation an utterance belongs to; [a,b] where several tell it "
        "together"
    )
    turn: str = Field(description="the column with an utterance's place in its conversation: whole numbers, in order")
    speaker: str = Field(description="the column with the name of who speaks")
    text: str = Field(description="the column with what is said")
    emotion: str = Field(
        description="the column with the label of the emotion; an utterance whose cell is empty is shown and not "
        "asked about"
    )
    identity: str | None = Field(
        description="the column that says who the speaker is, in the corpus' own words: answers are then scored by "
        "it, too; null = none"
    )
    cause: str | None = Field(
        description="the column with the words that brought the emotion on; || between several, an empty cell for "
        "none; null = none"
    )
    history: int | None = Field(ge=0, description="how many earlier utterances are shown, at most; null = all")
    keep_names: bool = Field(description="true = speakers keep their names; false = they are Person A, Person B")
    synonyms: dict[str, Words] | None = Field(
        default=None,
        description="words that are read as a label in answers, e.g. {joy: [happiness, happy]}; a label's own forms "
        "are read anyway",
    )


class StimuliConfig(_OptionGroup):
    """Which identities and narratives are crossed."""

    source: Literal["geneva", "geneva20", "hou2025", "csv", "conversations"] = Field(
        description="where the narratives come from; set by stimuli="
    )
    identities: str = Field(
        description="which packaged identities: six-groups, geneva (four groups), wide or hou2025; personas and "
        "us-them belong to experiment="
    )
    own_identities: Path | None = Field(
        description="a YAML file of yours that adds dimensions; null = none: docs/use.md"
    )
    unspecified: bool = Field(description='true = "a person" is asked about too, as a baseline on both sides')
    no_persona: bool = Field(description="true = each question is also asked without any persona")
    path: Path | None = Field(
        description="the file or folder with the narratives, for stimuli=hou2025, csv and conversations"
    )
    emotions: Words | None = Field(description="only narratives of these emotions, e.g. [sad,happy]; null = all")
    situations_per_emotion: int | Literal["all"] = Field(
        description="a sample of so many narratives of each emotion, drawn by the seed; all = no sample"
    )
    card_sample: int | Literal["all"] = Field(
        default="all",
        exclude=True,
        description="situations_per_emotion with a model's card that asks for a sample (smollm2); all = none, as of "
        "a file of yours",
    )
    columns: ColumnsConfig
    conversations: ConversationsConfig | None = Field(
        default=None,
        description="the columns of your corpus, and what of it is shown; null unless stimuli=conversations",
    )
    placebo: Annotated[int, Field(ge=0)] | Words = Field(
        default=0,
        description="how many sets of invented groups δ is held against, drawn by the seed; or their names, e.g. "
        "[trivial]; 0 = none",
    )
    placebo_terms: int = Field(default=1, ge=1, description="how many terms of each invented group are asked about")
    intensity: str = Field(
        default="rotate",
        description="of stimuli=geneva20: mild, middle or strong; rotate = each situation in one of them, by turns",
    )
    cues: Words | None = Field(
        default=None,
        description="only terms that tell their group in these ways: label, name (typical first names), context; "
        "null = all terms",
    )
    perceiver_terms: int | None = Field(
        default=None, description="perceivers have the first so many terms of each group; null = all"
    )
    experiencer_terms: int | None = Field(
        default=None,
        description="experiencers have the first so many terms of each group; null = all; with 1 on both sides every"
        " in-group pair repeats its words",
    )
    check_person: bool = Field(  # False is what runs did before the check existed
        default=False,
        description='of stimuli=csv: true = texts are checked: told by the person ("I ..."), or in the third person '
        "with {experiencer}; false = they are as the prompt says",
    )
    missing: Words | None = Field(
        default=None,
        description='what stands for an empty cell in a file of yours, e.g. [NA, "-"]; null = nothing does, for a '
        "group may be called so",
    )
    pairs: PairsAsked = Field(
        default="all",
        description="which pairs each narrative is asked about: balanced = every in-group pair, and of the other "
        "groups half or 3, by turns; all = every pair",
    )


class ScorerConfig(_OptionGroup):
    """A model that scores replies."""

    model: str = Field(min_length=1)
    revision: str | None = Field(default=None, description="of a hub id: branch, tag or commit; a folder has none")


class HypothesesConfig(_OptionGroup):
    """Hypotheses whose entailment by a reply EQ measures; None means our wording."""

    emotion: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply responds to the emotion; null = ours"
    )
    perspective: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply takes the person's perspective; null = ours"
    )
    advice: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the sentence that says that the reply gives advice; null = ours"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _stripped(cls, text: object) -> object:
        return text.strip() if isinstance(text, str) else text


class EqConfig(ScorerConfig):
    """A natural language inference model and its hypotheses."""

    model: str = Field(min_length=1, description="the model of natural language inference: a folder or hub id")
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
        description="its names of the classes, e.g. {negative: L0, neutral: L1, positive: L2, other: L3}; null = "
        "such names",
    )


class PerplexityConfig(ScorerConfig):
    """A language model that measures perplexity."""

    model: str = Field(
        min_length=1,
        description="the model that perplexity is measured by: embedded:smollm2, a folder or hub id",
    )


class BertScoreConfig(ScorerConfig):
    """An encoder that compares replies with reference replies."""

    model: str = Field(
        min_length=1, description="the encoder that compares replies: embedded:minilm, a folder or hub id"
    )
    layer: int | None = Field(
        default=None,
        ge=0,
        description="which layer of the encoder is compared, 0 being its embeddings; null = 5, for the packaged one;"
        " others need a number",
    )
    references: Path | None = Field(
        default=None,
        description="a CSV file of yours with narrative_id and reference, the replies to compare with; null = none",
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
        description="your lexicon: word, emotion, 0 or 1 with tabs between them, as NRC's; null = ours, of the "
        "emotions' names alone",
    )
    narrative: Literal["text", "emotion"] = Field(
        default="text",
        description="what a reply is held against: its narrative's text, or emotion, the words for the narrative's "
        "emotion",
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
        description="a CSV file with narrative_id and a column for each mechanism: the level, 0 to 2, that people "
        "gave each reply; null = none",
    )


class JudgeConfig(_AtServer):
    """A model that scores replies by a rubric; if ``model`` is None, there is no judge."""

    base_url: str | None = Field(
        default=None,
        description="the address of an OpenAI-compatible server; measures.judge.model is then the model's name there",
    )
    api_key_env: str | None = Field(
        default=None,
        description="the name of the variable of the environment that holds the server's key",
    )
    model: str | None = Field(
        description="the judge: a folder or hub id; null = none; embedded:smollm2 shows that it works, and judges "
        "nothing"
    )
    revision: str | None = Field(description="of a hub id: branch, tag or commit; a folder has none")
    rubric: Name = Field(description="the rubric: empathy, epitome, or one of rubric_file")
    rubric_file: Path | None = Field(
        description="a YAML file with rubrics of yours; null = the packaged ones: docs/replies.md"
    )
    method: Literal["expected", "generate"] = Field(
        description="how scores are got: expected = the mean of its next-token distribution over the scale; generate"
        " = the number that it writes"
    )
    max_tokens: int = Field(ge=1, description="generate: tokens of an answer, at most")
    max_model_len: int = Field(ge=16, description="tokens of what the judge reads and writes together, at most")
    shown_as: str = Field(
        description="what the judge reads in place of every experiencer, e.g. a person; empty shows each its own"
    )
    own_gap: int = Field(
        ge=0,
        description="how many narratives whose replies are judged again as replies to every experiencer, to see the "
        "judge's own gap; 0 = none",
    )


class MeasuresConfig(_OptionGroup):
    """How replies are scored; may change between scorings of the same replies."""

    names: Annotated[tuple[MeasureName, ...], BeforeValidator(_one_or_several)] = Field(
        description="which measures score the replies"
    )
    device: str = Field(
        min_length=1, description="where the scorers run: cpu, or cuda where the model under audit leaves room"
    )
    batch_size: int = Field(
        ge=1, description="texts that eq, regard and epitome read at once; it alters nothing but rounding"
    )
    download: bool = Field(description="true = scorers that are not on this machine are fetched from the hub")
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
    low_label: str = Field(description="what the lower end means, as the model is told")
    high_label: str = Field(description="what the upper end means, as the model is told")


class OriginalsConfig(_OptionGroup):
    """The prompt texts that the paraphrases were written for; None skips the check."""

    persona: str | None = Field(
        default=None, description="the persona that the paraphrases are of; null = it is not checked"
    )
    system: str | None = Field(
        default=None, description="the system message that the paraphrases are of; null = it is not checked"
    )
    user: str | None = Field(
        default=None, description="the question that the paraphrases are of; null = it is not checked"
    )


class ParaphrasesConfig(_OptionGroup):
    """Further wordings of a prompt's parts, in order. A part without paraphrases is the same in every wording."""

    originals: OriginalsConfig = OriginalsConfig()
    persona: Words = Field(default=(), description="other wordings of the persona, in their order, for wordings=")
    system: Words = Field(default=(), description="other wordings of the system message, in their order, for wordings=")
    user: Words = Field(default=(), description="other wordings of the question, in their order, for wordings=")

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The paraphrases of each part that has any, stripped."""
        lists = {name: getattr(self, name) for name in type(self.originals).model_fields}
        return {name: tuple(text.strip() for text in texts) for name, texts in lists.items() if texts}


class TemplateConfig(_OptionGroup):
    """A prompt variant in the toolkit's or the user's wording."""

    kind: Literal["template"] = Field(description="what sort of prompt it is; set by prompt=")
    name: Name = Field(description="what the prompt is called in reports")
    persona: str = Field(description="how the model is told who it is; placeholder {perceiver}")
    system: str = Field(description="the system message; {persona} stands for the persona")
    user: str = Field(
        description="the question; {experiencer}, {narrative}, {emotion_noun} and so on stand for what is asked about"
    )
    narrative: str = Field(
        description="which wording of the narratives is shown: neutral, first_person or third_person"
    )
    scale: ScaleConfig
    paraphrases: ParaphrasesConfig = ParaphrasesConfig()


class PublishedConfig(_OptionGroup):
    """A prompt variant in the study's wording, read from the user's copy of its code."""

    kind: Literal["published"]
    variant: str = Field(
        description="which prompt of the study: origin, persona-1, persona-2, persona-3, 1-person, 3-person or 10-scale"
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

    kind: Literal["intensity"] = Field(default="intensity", description="what the model is asked to do; set by task=")

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
    user: str = Field(description="the question; {experiencer}, {narrative} and so on stand for what is asked about")
    narrative: Literal["neutral", "first_person", "third_person"] | None = Field(
        description="which wording of the narratives is shown: neutral, first_person or third_person; null = the "
        "prompt's"
    )
    max_tokens: int = Field(
        ge=1,
        description="tokens of an answer, at most; of an inventory null = elicitation.max_tokens for single, 32 an "
        "item for list",
    )
    temperature: float = Field(
        ge=0, allow_inf_nan=False, description="0 takes the likeliest token at each step; above 0 tokens are drawn"
    )
    top_p: float = Field(
        gt=0, le=1, description="above temperature 0, tokens are drawn from the smallest set that has this probability"
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
        description="single = one item a prompt; list = all items in one prompt, which takes a model that writes"
    )
    n_orders: int | None = Field(
        ge=1,
        description="list: in how many orders the items are asked; single: of how many orders of the scale's ends, "
        "at most 2; null = 5 for list, 2 for single",
    )
    affect: bool | None = Field(
        description="true = it is also asked while a situation of stimuli= is imagined (after arXiv:2308.03656); "
        "null = true where path is null"
    )
    method: Literal["auto", "expected", "generate"] = Field(
        description="expected or generate, as of ratings; auto = elicitation= for single, generate for list"
    )
    max_tokens: int | None = Field(ge=1)


class StageConfig(_OptionGroup):
    """A model call of a strategy, before the question."""

    prompt: str = Field(
        description="what this call asks; the prompt's placeholders, and {stage_NAME} for what an earlier stage wrote"
    )
    max_tokens: int = Field(default=200, ge=1, description="tokens that it writes, at most")
    temperature: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="0 takes the likeliest token at each step; above 0 tokens are drawn",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="above temperature 0, tokens are drawn from the smallest set that has this probability",
    )


class ExampleColumnsConfig(_OptionGroup):
    """Column names in a user's pool of examples."""

    example_id: str = Field(default="example_id", description="your pool's column with an identifier of each example")
    text: str = Field(default="text", description="your pool's column with the situation")
    answer: str = Field(default="answer", description="your pool's column with the answer to it")
    emotion: str | None = Field(
        default=None, description="your pool's column with the emotion, for {example_emotion}; null = none"
    )


class ExamplesConfig(_OptionGroup):
    """Examples that are shown before the first call; if ``pool`` is None, the packaged ones."""

    n: int = Field(description="how many examples are shown")
    choice: Literal["random", "similar"] = Field(
        description="which examples are shown: similar = those whose text is most like the narrative; random = any"
    )
    user: str = Field(description="how an example is shown; {example_text} stands for its situation")
    assistant: str = Field(description="how the answer of an example is shown; {example_answer} stands for it")
    pool: Path | None = Field(default=None, description="a CSV file of yours with examples; null = the packaged ones")
    columns: ExampleColumnsConfig = ExampleColumnsConfig()
    embedder: str = Field(
        default="embedded:minilm",
        min_length=1,
        description="the model that tells how alike texts are: embedded:minilm, a folder, or a hub id",
    )
    revision: str | None = Field(default=None, description="of an embedder on the hub: branch, tag or commit")

    @model_validator(mode="after")
    def _columns_are_of_a_pool(self) -> Self:
        if self.pool is None and self.columns != ExampleColumnsConfig():
            raise ValueError("columns need your own file; give it: strategy.examples.pool=FILE")
        return self


class KnowledgeConfig(_OptionGroup):
    """Knowledge about each narrative: read from a user's file, or inferred by a local COMET model."""

    source: Literal["file", "comet"] = Field(
        description="where the knowledge comes from: file = a file of yours; comet = a COMET model on this machine"
    )
    path: str | None = Field(
        default=None,
        description="the CSV file with a column narrative_id and one for each relation; of source=comet the folder "
        "or hub id of the model",
    )
    relations: Words = Field(
        default=RELATIONS, description="which relations are known of each narrative, for {knowledge_RELATION}"
    )
    revision: str | None = Field(default=None, description="of a model on the hub: branch, tag or commit")
    n: int = Field(
        default=5, ge=1, description="how many inferences of a relation are joined, the likeliest of a beam search"
    )
    max_tokens: int = Field(default=24, ge=1, description="tokens of an inference, at most")

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

    name: Name = Field(default=NO_STRATEGY, description="what the strategy is called in reports")
    source: str = Field(default="", description="where the strategy comes from, as the report says it")
    deviates: str = Field(default="", description="in what it differs from its source, as the report says it")
    stages: dict[str, StageConfig | None] = Field(
        default_factory=dict,
        description="The calls before the question, in their order: NAME: {prompt, max_tokens, temperature, top_p}; "
        "NAME: null leaves one out. What each writes has to reach the question: as a turn (history), as "
        "{stage_NAME}, or through a later stage.",
    )
    stage_system: str = Field(
        default="{persona}",
        description="the system message of the stages; the prompt's own {system} asks for a number and nothing more",
    )
    system: str = Field(
        default="{system}", description="the system message of the question; {system} stands for the prompt's own"
    )
    question: str = Field(
        default="{question}",
        description="the question after the stages; {question} stands for the prompt's own, {stage_NAME} for what a "
        "stage wrote",
    )
    history: Literal["all", "last", "none"] = Field(
        default="all",
        description="which earlier calls, with what was written to them, a call is shown as turns: all, last or none",
    )
    overrun: Literal["oldest", "fail"] = Field(
        default="oldest",
        description="What happens where a call does not fit into the model's context: oldest = examples and earlier "
        "calls are left out, the oldest first, until it fits, and are counted; fail = nothing more is "
        "asked.",
    )
    examples: ExamplesConfig | None = Field(
        default=None,
        description="the examples that are shown before the first call, as in few-shot-1.yaml; null = none",
    )
    knowledge: KnowledgeConfig | None = Field(
        default=None,
        description="what is known of each narrative, for {knowledge_RELATION}, as in knowledge-file.yaml; null = none",
    )
    reply_stage: str | None = Field(
        default=None,
        description="The last stage, where what it writes is the reply that task=reply asks for, so that no further "
        "call asks for one. Of ratings, and where that stage is left out, the question is asked after "
        "the stages.",
    )
    reply_prompt: str = Field(
        default="", description="what the reply_stage is asked where it writes the reply; empty = its own prompt"
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
        description="which dimensions of the identities are compared, e.g. [religion]; a+b crosses two; null = all"
    )
    language: str = Field(
        default=ENGLISH,
        description="the language that prompts are in: en or de, a language pack: docs/languages.md; tasks, "
        "strategies and wordings without a text in it are refused",
    )
    wordings: int = Field(
        default=1,
        ge=1,
        description="in how many wordings each prompt is asked: 1 = the original alone; 8 = with 7 paraphrases of "
        "it; 9 is the most that are packaged",
    )
    seed: int = Field(
        ge=0,
        lt=2**32,
        description="the random seed of what is drawn: the sample of narratives, the invented groups, the "
        "permutations, what the engine draws",
    )
    run_dir: Path | None = Field(
        description="the folder that the run is kept in; null = a folder of reports_dir, named after the configuration"
    )
    reports_dir: Path = Field(description="the folder that holds the runs whose run_dir is null")
    shard_size: int | None = Field(
        ge=1, description="prompts that are asked and saved at a time; null = 128 on a CPU, 4096 on a GPU"
    )
    out: Path | None = Field(
        description="`prompts` only: a file instead of standard output; beside it lies what `report answers=` needs:"
        " docs/elsewhere.md"
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
