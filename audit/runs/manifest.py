"""``manifest.json``: what a folder says of itself, for a run, a comparison, judged pairs or choices.

This module alone reads and writes the file. Fields that the code uses are attributes, with a type and with the default
that holds for earlier versions. All other fields are kept too: a manifest is written back field by field in the order
read, except for what was changed.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from audit.configuration.analysis_settings import AnalysisSettings
from audit.configuration.planted import PlantedConfig
from audit.errors import AuditError, StoreError, recovery
from audit.runs import ledger
from audit.runs.model_names import address_of, model_name, stated_by
from audit.tables.controls import ComparedWords
from audit.tables.formatting import brief, printable
from stimuli.covariates import CovariateRow, GroupCovariates
from stimuli.files import read_file
from stimuli.json_text import parse_json
from stimuli.strategies import NO_STRATEGY

SCHEMA_VERSION: Final = 1
FILE: Final = "manifest.json"
COPY: Final = "manifest.copy.json"
"""A copy in a run's folder, written before the manifest itself; ``audit recover`` restores the manifest from it."""
_COLLECTED: Final = ("ratings", "replies", "answers")  # folders of a run's rows; `.parquet` files have the same names
_DOES: Final = "restores it from its copy, or saves what was collected"
_FIRST: Final = "intensity"
"""The task of a manifest that names none: from an earlier version, or of ratings that another tool collected."""
_OF_RUNS: Final = {
    "comparison": "comparison of runs",
    "judgement": "comparison of two runs' replies by a judge",
    "choices": "choice of people between two runs' replies",
}
"""Folders made of several runs, by the manifest's ``kind``."""
_NEEDED: Final = ("n_prompts", "shard_size")
"""Fields that every version wrote, and without which a run can be neither read nor continued."""
_MOST: Final = 10**12  # more prompts than any run has
_SHOULD_BE: Final = (("int", "a number"), ("float", "a number"), ("str", "text"), ("bool", "true or false"),
                     ("list", "a list"), ("tuple", "a list"), ("is_instance", "a path"))  # fmt: skip
"""Expected type in words, by the beginning of pydantic's error type."""

Count: TypeAlias = Annotated[int, Field(strict=True)]
Points: TypeAlias = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
"""A number as in the file: 0 does not become 0.0, which tables would show."""
Words: TypeAlias = Mapping[str, str]
_OfTerms: TypeAlias = Mapping[str, Mapping[str, str]]  # dimension → term or group → text


class ManifestError(AuditError, KeyError):
    """A field is missing from the manifest or has the wrong type; the message names it."""

    def __str__(self) -> str:
        return str(self.args[0])


class DamagedError(StoreError):
    """A run's manifest is unreadable or impossible, or missing although the run's rows are there."""


class _ManifestPart(BaseModel):
    """A part of a manifest: attributes for fields in use, and ``content`` for everything in the file."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())
    _content: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def content(self) -> Mapping[str, Any]:
        """Everything in the file, as parsed JSON."""
        return self._content

    @model_validator(mode="wrap")
    @classmethod
    def _keep(cls, values: Any, make: Any) -> Any:
        """Keep the content read; null means that a field was not recorded."""
        if not isinstance(values, Mapping):
            return make(values)
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        made = make({name: v for name, v in values.items() if v is not None and name in fields})
        made._content = values
        return made


# --- A run -----------------------------------------------------------------------------------------------------------


class Elsewhere(_ManifestPart):
    """Answers collected by another stack, and the number of prompts without an answer."""

    by: str = ""  # the stack, as the user gave it
    n_without_text: Count = 0
    n_without_line: Count = 0
    n_unsigned: Count = 0  # texts that nothing marks as complete or cut


class RecordedServer(_ManifestPart):
    """A server's address, and the model that it says it serves or was made from."""

    base_url: str = ""
    id: str = ""
    root: str = ""


class Model(_ManifestPart):
    """The model that was asked; a count is 0 if it was not recorded."""

    card: str = Field(default="", alias="name")
    path: str = ""
    revision: str = ""
    dtype: str = ""
    server: RecordedServer = RecordedServer()
    files: Words = {}  # SHA-256 by name
    parameters: Count = 0
    weights_bytes: Count = 0
    elsewhere: Elsewhere | None = None  # None unless another stack asked the model
    planted: PlantedConfig | None = None  # what a scripted respondent's answers hold; None for a language model
    not_checked: str = ""  # why a command that found nothing left to ask could not check that the model is unchanged
    same_answer: str = ""  # what a server wrote after each of two unlike prompts; empty if it wrote two texts

    @property
    def name(self) -> str:
        """The model's display name, see :func:`audit.runs.model_names.model_name`."""
        return self._named(full=True)

    @property
    def name_asked(self) -> str:
        """The display name without the model that the server states."""
        return self._named(full=False)

    @property
    def stated(self) -> str:
        """The model that the server states, in words; empty if that adds nothing to the name asked for."""
        return stated_by(self.path, self._at)

    @property
    def same_answer_said(self) -> str:
        """A warning if the server's text may not depend on the prompt; else empty."""
        if not self.same_answer:
            return ""
        return (
            "the server gave the same answer to two unlike questions, which number comes after 41 and what colour the "
            f"sky has: “{brief(printable(self.same_answer))}”. Its answers may not depend on what it is asked: ask it "
            "both by hand."
        )

    @property
    def address(self) -> str:
        """The server's address; empty for other models."""
        return address_of(self.server.base_url)

    def _named(self, *, full: bool) -> str:
        # Local folders and files have no hub revision.
        on_hub = self.elsewhere is not None or (bool(self.revision) and not self.revision.startswith("gguf:"))
        is_hub_id = None if on_hub else False
        return model_name(self.card, self.path, is_hub_id=is_hub_id, server=self._at, full=full, planted=self.planted)

    @property
    def _at(self) -> dict[str, str]:
        return {"base_url": self.server.base_url, "id": self.server.id, "root": self.server.root}


class RecordedEngine(_ManifestPart):
    """What ran the model."""

    name: str = ""
    version: str = ""
    device: str = ""
    dtype: str = ""

    @property
    def said(self) -> str:
        """The engine and its version. For ``openai`` it names the interface: the server's software is unknown."""
        return f"{'OpenAI-compatible server' if self.name == 'openai' else self.name} {self.version}".strip()


class Trial(_ManifestPart):
    """A way to elicit ratings that was tried, as ``audit.tables.ratings.TRIALS`` describes it."""

    method: str
    begun: str
    chosen: bool
    n_asked: Count = 0
    n_pairs: Count = 0
    mean_higher: Points | None = None
    mean_lower: Points | None = None
    difference: Points | None = None
    se: Points | None = None
    standard_errors: Points | None = None
    share_higher: Points | None = None
    number_mass: Points | None = None
    note: str = ""


class Trials(_ManifestPart):
    """The trials that chose the elicitation: the source of their narratives, and all ways tried, in order."""

    source: str = ""
    tried: tuple[Trial, ...] = ()
    left_out: str = ""  # why nothing was tried


class RecordedElicitation(_ManifestPart):
    """How ratings were obtained: ``expected``, ``generate`` or ``outside``; the prefill and the parser."""

    method: str = ""
    prefill: str = ""
    parser: str = ""
    trials: Trials | None = None  # None if the elicitation was stated

    @property
    def keeps_scale(self) -> bool:
        """Whether ratings must lie on the scale: the published parser and released files allow others."""
        return self.parser != "hou2025" and self.method != "outside"


class RecordedEnds(_ManifestPart):
    """Whether numbers' ends were calibrated on a sample of the run's prompts, for ``elicitation.ends=calibrated``."""

    way: Literal["exact", "calibrated"] = "exact"  # how ratings were obtained in the end
    why: str = ""  # why the exact way was taken although the other was asked for
    n_prompts: Count = 0  # prompts of the sample
    # The sample's ratings by the other prompts' shares, less the exact ones, in points: root mean square, largest, and
    # the largest difference between in-group and out-group that the 99% interval has.
    rms_points: Points = math.nan
    max_points: Points = math.nan
    systematic_points: Points = math.nan


class RecordedScale(_ManifestPart):
    """The ends of the scale, in points, and their labels."""

    low: Points = math.nan
    high: Points = math.nan
    low_label: str = ""
    high_label: str = ""


class RecordedTask(_ManifestPart):
    """The task; sampling settings apply to written texts, the last four fields to questionnaires."""

    kind: str = ""
    max_tokens: Count | None = None
    temperature: Points = 0
    top_p: Points = 1
    presentation: str = ""
    method: str = ""
    n_orders: Count = 1
    affect: bool = False


class ItemTold(_ManifestPart):
    """A questionnaire item, see :class:`stimuli.inventories.Item`."""

    item_id: str
    text: str
    subscale: str
    reverse: bool = False


class MeasureTold(_ManifestPart):
    """A scorer's measure, see :class:`audit.tasks.measures.base.Measure`."""

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    source: str
    caution: str = ""
    low: Points | None = None
    high: Points | None = None


class WordsTold(_ManifestPart):
    """The words of an emotion, see :class:`stimuli.narratives.EmotionWords`."""

    noun: str
    adjective: str


def _told_as(part: type[_ManifestPart]) -> Any:
    """Return a type that stays a plain mapping and is validated as ``part``."""

    def checked(values: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            part.model_validate(values)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(_explain(fault).replace("the manifest's ", "its ")) from error
        return values

    return Annotated[Mapping[str, Any], AfterValidator(checked)]


_Item: TypeAlias = _told_as(ItemTold)  # type: ignore[valid-type]
_Measure: TypeAlias = _told_as(MeasureTold)  # type: ignore[valid-type]
_Words: TypeAlias = _told_as(WordsTold)  # type: ignore[valid-type]


class RecordedInventory(_ManifestPart):
    """A questionnaire with its key, so that scoring needs no other file."""

    name: str = ""
    source: str = ""
    scale: RecordedScale = RecordedScale()
    instruction: str = ""
    total: bool = False
    items: tuple[_Item, ...] = ()


class Stimuli(_ManifestPart):
    """The source of the narratives, how many of how many were taken, and the SHA-256 of their content."""

    source: str = ""
    n_narratives: Count | None = None
    n_available: Count | None = None
    emotions: tuple[str, ...] = ()
    valence: Mapping[str, str] = {}  # of emotions of which the source itself gives it
    sha256: str = ""


class Language(_ManifestPart):
    """The prompts' language, its pack's reviewer, policy for wording people, and the SHA-256 of the pack's file."""

    code: str = "en"
    name: str = "English"
    reviewed: str = ""
    policy: str = ""
    sha256: str = ""

    @property
    def is_english(self) -> bool:
        """Whether the prompts are in English, for which there is no language pack."""
        return self.code == "en"

    @property
    def said(self) -> str:
        """The language in words, with its language pack."""
        return self.name if self.is_english else f"{self.name} (language pack {self.code})"


class PromptAsked(_ManifestPart):
    """The prompt variant, and the SHA-256 of its wording."""

    variant: str = ""
    sha256: str = ""


class RecordedKnowledge(_ManifestPart):
    """How many narratives the model inferred nothing from."""

    n_empty: Count = 0


class RecordedStrategy(_ManifestPart):
    """The strategy that led the model to its answer: name, source and stages."""

    name: str = ""
    source: str = ""
    deviates: str = ""
    stages: tuple[str, ...] = ()
    n_turns: int = 1  # of a talk, in which every call of the strategy writes a reply
    sha256: str = ""
    given_sha256: str = ""
    knowledge: RecordedKnowledge = RecordedKnowledge()

    @property
    def choice(self) -> str:
        """Its name as ``strategy=`` takes it, also for runs that had none."""
        return self.name or NO_STRATEGY


class ExampleCall(_ManifestPart):
    """One prompt's last call; ``turns`` are (role, text) between the system message and the user message."""

    system: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    user: str = ""
    begun: str = ""


class RunIdentity(_ManifestPart):
    """What makes two runs the same run; :mod:`audit.runs.provenance` compares its ``content`` key by key."""

    strategy: Mapping[str, Any] = {}
    identities: str = ""
    special_tokens: str | None = None
    model_files: str = ""
    elicitation: Mapping[str, Any] = {}
    task: Mapping[str, Any] | None = None


class Thinking(_ManifestPart):
    """Whether the model thought before answering (``on`` or ``budget``), its token limit and sampling settings."""

    mode: str = "off"
    max_tokens: Count = 0
    temperature: Points = 0
    top_p: Points = 1

    @property
    def is_on(self) -> bool:
        """Whether the model thought."""
        return self.mode != "off"


class Config(_ManifestPart):
    """The fields in use of the composed configuration; ``content`` is all of it, for ``load_config``."""

    engine: Mapping[str, Any] = {}
    strategy: Mapping[str, Any] = {}
    statistics: Annotated[AnalysisSettings, BeforeValidator(AnalysisSettings.recorded)] = AnalysisSettings()
    thinking: Thinking = Thinking()

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The settings of the analysis as they are in the file."""
        return self.content.get("statistics") or {}

    @property
    def quantization(self) -> str:
        """Quantization on the model's card; for ratings that were read, ``model`` is only a name."""
        card = self.content.get("model")
        return str(card.get("quantization") or "") if isinstance(card, Mapping) else ""


class Timings(_ManifestPart):
    """The last session: seconds to load the model, and seconds and number of prompts for asking."""

    load_s: Points | None = None
    elicit_s: Points = math.nan
    n_prompts: Count = 0

    @property
    def seconds_per_prompt(self) -> float:
        """NaN if not recorded."""
        return self.elicit_s / (self.n_prompts or math.nan)


class RecordedCheck(_ManifestPart):
    """A check asked besides the ratings."""

    n_prompts: Count = 0
    n_wanted: Count = 0  # narratives that the check needs at least; 0 from earlier versions
    n_available: Count = 0  # narratives in the source; 0 from earlier versions
    varied: str = ""  # what was varied
    notes: Words = {}
    refused: str = ""  # why it was not made


class Noise(_ManifestPart):
    """Differences, in points, between answers to prompts that were asked again, and their number."""

    n: Count = 0
    rms_points: Points = math.nan
    max_points: Points = math.nan
    varied: str = ""


class ScorerFacts(_ManifestPart):
    """A scorer's model, the SHA-256 of its files, and a judge's rubric."""

    name: str = ""
    model: str = ""
    files: Words = {}
    rubric: str = ""


class OwnGap(_ManifestPart):
    """Narratives used to measure a judge's own gap, and the number left out by dimension."""

    n_narratives: Count = 0
    left_out: Mapping[str, Count] = {}


class Scored(_ManifestPart):
    """A scorer's settings, facts and measures."""

    asked: Mapping[str, Any] = {}
    facts: ScorerFacts = ScorerFacts()
    measures: tuple[_Measure, ...] = ()
    own_gap: OwnGap = OwnGap()


class RecordedQuestion(_ManifestPart):
    """A question to raters about a reply, and the ends of its scale."""

    name: str = ""
    text: str = ""
    low: Points = math.nan
    high: Points = math.nan


class People(_ManifestPart):
    """Numbers of raters and items in a run, and the raters' questions."""

    n_raters: Count = 0
    n_items: Count = 0
    questions: tuple[RecordedQuestion, ...] = ()


class Human(_ManifestPart):
    """The source of people's intensities."""

    where: str = ""


class RecordedCovariate(_ManifestPart):
    """A row of a user's table of covariates, see :class:`stimuli.covariates.CovariateRow`."""

    place: str = ""
    dimension: str = ""
    groups: tuple[str, ...]
    numbers: tuple[Points | None, ...]


class RecordedCovariates(_ManifestPart):
    """The numbers of groups that a user gave, so that the run can be analysed again without the file."""

    where: str = ""
    sha256: str = ""
    names: tuple[str, ...] = ()
    rows: tuple[RecordedCovariate, ...] = ()

    @property
    def given(self) -> GroupCovariates | None:
        """The covariates; None if none were given."""
        if not self.rows:
            return None
        rows = tuple(
            CovariateRow(row.place, row.dimension, row.groups, tuple(math.nan if n is None else n for n in row.numbers))
            for row in self.rows
        )
        return GroupCovariates(self.names, rows, self.where, self.sha256)


class EmotionsRead(_ManifestPart):
    """Words by which emotions were found in texts: fields of ``stimuli.narratives.EmotionWords``, by emotion."""

    words: Mapping[str, _Words] = {}


class Outside(_ManifestPart):
    """What another tool collected: whether a study released ratings, and whether they have a status column."""

    released: bool = False
    status_given: bool = True
    replies: str = ""  # the file of replies; empty of ratings
    matched: bool = True  # whether replies to several groups belong together by a match id
    n_unequal: Count = 0  # matches in which more differs than the words for the groups
    n_matches: Count = 0
    n_untold: Count = 0  # replies that were left out because their messages tell no group, or several
    n_repeated: Count = 0  # chats, or matches, with the messages of an earlier one

    @property
    def observational(self) -> bool:
        """Whether nobody chose which group writes what."""
        return bool(self.replies) and not (self.matched and not self.n_unequal)


class _Written(_ManifestPart):
    """A whole manifest."""

    kind_written: ClassVar[str] = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return a manifest with this content; raise ManifestError if a field has the wrong type."""
        kind = {"kind": cls.kind_written} if cls.kind_written else {}
        try:
            return cls.model_validate({"schema_version": SCHEMA_VERSION, **kind, **content})
        except ValidationError as error:
            raise ManifestError(_explain(error.errors(include_url=False)[0])) from error

    def having(self, **changes: Any) -> Self:
        """Return the manifest with changed fields: a present field keeps its place, a new one comes last."""
        return self.of({**self.content, **changes})

    def adding(self, field: str, **entries: Any) -> Self:
        """Return the manifest with more entries in a mapping field."""
        return self.having(**{field: {**(self.content.get(field) or {}), **entries}})

    def to_bytes(self) -> bytes:
        """Return the file's bytes. NaN and infinity raise ValueError, since JSON has neither."""
        text = json.dumps(self.content, indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode("utf-8", "backslashreplace")  # keeps paths that are not UTF-8, escaped


class Manifest(_Written):
    """What a run is and what happened to it. If not recorded, text is empty and a count is 0."""

    status: str = ""  # running or complete
    ledger: Count = 0  # 1 if the folder has a ledger of its files, see audit.runs.ledger
    # short hash of what the tables and the page were made from, and the packages that computed them; see
    # audit.runs.store.RunFolder.stamped
    generation: str = ""
    analysed_by: Words = {}
    digest: str = ""  # SHA-256 of what was asked and answered when the page was made; see audit.runs.digest
    accepted: tuple[str, ...] = ()  # names of stored files that had changed and were accepted as they are
    # the command of the run, of a later analysis with other settings, and the experiment's name
    command: str = ""
    report_command: str = ""
    preset: str = ""
    started: str = ""  # ISO 8601
    n_sessions: Count = 0
    # prompts of the whole run and of one shard
    n_prompts: Count = 0
    shard_size: Count = 0
    seed: Count = 0
    model: Model = Model()
    engine: RecordedEngine = RecordedEngine()
    elicitation: RecordedElicitation = RecordedElicitation()
    ends: RecordedEnds = RecordedEnds()
    scale: RecordedScale = RecordedScale()
    task: RecordedTask = RecordedTask(kind=_FIRST)
    inventory: RecordedInventory | None = None  # None unless the run filled in a questionnaire
    language: Language = Language()
    stimuli: Stimuli = Stimuli()
    prompt: PromptAsked = PromptAsked()
    strategy: RecordedStrategy = RecordedStrategy()
    # dimensions, placebo, pairs_drawn, left_out: all dimensions, in order; those made of invented groups; those that
    # asked about a random draw of pairs for each narrative, so that other pairs are missing by design; and how many
    # narratives a dimension did not ask about, because they contradict a group
    dimensions: tuple[str, ...] = ()
    # clusters, stems, cues: by dimension: each group's cultural cluster, each term's stem, and how a term tells its
    # group
    clusters: _OfTerms = {}
    # Whether stems has every stem that marks a repeated word. False in manifests of earlier versions, which compared
    # words: then stems has ComparedWords.
    stems_stated: bool = False
    stems: _OfTerms = Field(default={}, validate_default=True)
    cues: _OfTerms = {}
    placebo: tuple[str, ...] = ()
    pairs_drawn: tuple[str, ...] = ()
    left_out: Mapping[str, Count] = {}
    versions: Words = {}
    hardware: Mapping[str, Any] = {}
    example_prompt: ExampleCall = ExampleCall()
    config: Config = Config()
    identity: RunIdentity = RunIdentity()
    counts: Mapping[str, Count] = {}
    timings: Timings = Timings()
    checks: Mapping[str, RecordedCheck] = {}
    noise: Noise = Noise()
    noise_formats: Mapping[str, Noise] = {}
    # scorers that ran, scorers asked for, and the reason why one could not run
    scorers: Mapping[str, Scored] = {}
    wanted: tuple[str, ...] = ()
    absent: Words = {}
    diversity: bool = False  # whether words are counted over all replies
    epitome_labels: Mapping[str, Mapping[str, Count]] = {}  # levels of people's replies: narrative → mechanism → level
    people: People = People()
    human: Human = Human()
    covariates: RecordedCovariates = RecordedCovariates()
    emotions: EmotionsRead = EmotionsRead()
    outside: Outside = Outside()

    @field_validator("stems")
    @classmethod
    def _compared(cls, stems: _OfTerms, info: ValidationInfo) -> _OfTerms:
        """Read stems of an earlier version as that version did."""
        if info.data.get("stems_stated"):
            return stems
        names = dict.fromkeys([*info.data.get("dimensions", ()), *stems])
        return {name: ComparedWords(stems.get(name, {})) for name in names}

    @property
    def statistics(self) -> AnalysisSettings:
        """The settings of the analysis; what the run's version did not record has its default."""
        return self.config.statistics

    @property
    def real_dimensions(self) -> tuple[str, ...]:
        """The dimensions, in order, without those of invented groups."""
        return tuple(name for name in self.dimensions if name not in self.placebo)

    @property
    def of_another_tool(self) -> bool:
        """Whether another tool collected the ratings or replies, and this one only read them."""
        return self.elicitation.method == "outside" or bool(self.outside.replies)

    @property
    def replicates(self) -> bool:
        """Whether the run is of the published study: of its released results, or asked anew as it asked."""
        return self.outside.released or self.preset == "replication"

    @classmethod
    def read(cls, folder: Path, *, file: str = FILE, check: bool = True) -> Self:
        """Read a run folder's manifest and check the stored files against the ledger.

        ``accepted`` includes changed files that were accepted since the last analysis. Raises DamagedError if the
        manifest is missing or damaged, StoreError if this is no run folder, a later version's, or a stored file was
        changed, lost or swapped.
        """
        path = folder / file
        try:
            content = parse_json(read_file(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            said = f"{folder} is not a run folder: it has no {file}"
            if not _has_collected(folder):
                raise StoreError(f"{said}; {_which(folder)}") from error
            raise DamagedError(f"{said}; but it has collected answers: {recovery(folder, _DOES)}") from error
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedError(f"{path} cannot be read ({error}); {recovery(folder, _DOES)}") from error
        kind = content.get("kind") if isinstance(content, dict) else None
        if isinstance(kind, str) and kind in _OF_RUNS:
            raise StoreError(f"{folder} is not a run folder: it has a {_OF_RUNS[kind]}")
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version != SCHEMA_VERSION:
            said = f"{path} has schema_version {version!r}; this version of empathy-audit reads {SCHEMA_VERSION}"
            if isinstance(version, int) and version > SCHEMA_VERSION:
                raise StoreError(f"{said}: upgrade empathy-audit")
            raise DamagedError(f"{said}; {recovery(folder, _DOES)}")
        try:
            manifest = cls.of(content)
            for name in _NEEDED:
                if content.get(name) is None:
                    raise ManifestError(f"the manifest has no {name}")
                if not 1 <= getattr(manifest, name) < _MOST:
                    raise ManifestError(f"the manifest's {name} is {content[name]}, but must be at least 1")
            if ("elicitation" in content or "scale" in content) and not manifest.scale.low < manifest.scale.high:
                raise ManifestError(f"the manifest's scale is {content.get('scale')!r}, but low must be below high")
        except ManifestError as error:
            raise DamagedError(f"{path} is damaged: {error}; {recovery(folder, _DOES)}") from error
        return manifest.checked(folder)[0] if check else manifest

    def checked(self, folder: Path, *, may_lack: Callable[[str], bool] | None = None) -> tuple[Self, tuple[str, ...]]:
        """Check a run's files against its ledger; return the manifest with accepted files, and the lost ones."""
        found = ledger.check(folder, needed=bool(self.ledger), may_lack=may_lack)
        return self.accepting(found.accepted), found.lacking

    def accepting(self, names: Sequence[str]) -> Self:
        """Return the manifest with more names of accepted files."""
        every = list(dict.fromkeys((*self.accepted, *names)))
        return self if every == list(self.accepted) else self.having(accepted=every)

    @staticmethod
    def content_of(folder: Path) -> Mapping[str, Any]:
        """Return the file's content whatever is wrong with it; empty if it cannot be read."""
        try:
            content = json.loads(read_file(folder / FILE))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    @classmethod
    def part_of(cls, folder: Path, *names: str) -> Mapping[str, Any]:
        """Return a part of :meth:`content_of`, by the names that lead to it; empty if there is none."""
        part: Any = cls.content_of(folder)
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part if isinstance(part, dict) else {}

    def complete(self, *, finished: str) -> Self:
        """Return the manifest of a finished run; the time of the first finish stays."""
        return self.of({"finished": finished, **self.content, "status": "complete"})


# --- What is made of runs --------------------------------------------------------------------------------------------


class RunNamed(_ManifestPart):
    """The name of one of several runs."""

    run: str = ""


class OfRuns(_Written):
    """The manifest of a folder made from several runs."""

    command: str = ""
    runs: tuple[RunNamed, ...] = ()
    confidence: Points = 0.95
    versions: Words = {}

    @classmethod
    def read_if_there(cls, folder: Path) -> Self | None:
        """Return the manifest; None if there is none of this kind. Raises StoreError if it is damaged."""
        try:
            content = parse_json(read_file(folder / FILE))
        except (OSError, ValueError):
            return None
        if not isinstance(content, dict) or content.get("kind") != cls.kind_written:
            return None
        try:
            return cls.of(content)
        except ManifestError as error:
            raise StoreError(
                f"{folder / FILE} is damaged: {error}; restore it from a copy, or choose another folder"
            ) from error


class ComparisonManifest(OfRuns):
    """A comparison of runs."""

    kind_written = "comparison"


class Judge(_ManifestPart):
    """The model that compared replies, and the SHA-256 of its files."""

    revision: str = ""
    engine: RecordedEngine = RecordedEngine()
    files: Words = {}


class JudgeAsked(_ManifestPart):
    """How a judge was asked."""

    model: str = ""
    method: str = ""
    rubric: str = ""
    rubric_file: str = ""
    rubric_source: str = ""
    criterion: str = ""
    which: str = ""


class JudgementManifest(OfRuns):
    """Two runs' replies, compared by a model; ``judge`` is None until that is loaded."""

    kind_written = "judgement"
    identity: Mapping[str, Any] = {}
    asked: JudgeAsked = JudgeAsked()
    judge: Judge | None = None


class RecordedDraw(_ManifestPart):
    """How pairs were drawn for people."""

    seed: Count = 0


class PairsIdentity(_ManifestPart):
    """The identity of an export of pairs; its ``content`` is compared as a whole."""

    drawn: RecordedDraw = RecordedDraw()


class ChoicesManifest(OfRuns):
    """Two runs' replies, between which people choose."""

    kind_written = "choices"
    identity: PairsIdentity = PairsIdentity()


def _has_collected(folder: Path) -> bool:
    """Whether a folder without a manifest is a run's all the same."""
    there = (folder / name for kind in _COLLECTED for name in (kind, f"{kind}.parquet"))
    return (folder / COPY).exists() or any(path.exists() for path in there)


def _pages(place: Path) -> list[Path]:
    """Return a page that was given in place of a folder, or the pages in a folder that has nothing else."""
    inside = [place] if place.is_file() else list(place.glob("*"))
    return inside if all(each.suffix == ".html" for each in inside) else []


def _which(folder: Path) -> str:
    """Suggest the folder that was meant if this one is no run's."""
    try:
        # Whoever got the page by mail has no more to give.
        if any(page.suffix == ".html" and not page.with_name(FILE).exists() for page in _pages(folder)):
            return "a page alone cannot be checked; ask its sender for the run's folder"
        if not folder.is_dir():
            is_file = folder.exists()
            return "it is a file; give the run's folder" if is_file else "the folder does not exist; check its name"
        inside = sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))
    except OSError:
        return "check its name"
    if inside:
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        return (
            f"it has runs in it ({inside[0]}{more}); give one of them, such as {shlex.quote(str(folder / inside[0]))}"
        )
    return 'give the folder that the run printed as "run folder"'


def _explain(fault: ErrorDetails) -> str:
    """Say in one line which field is wrong, its value, and what is expected."""
    # For a union of number types pydantic appends the type it tried to the place.
    place = [str(name) for name in fault["loc"]]
    if place and (place[-1] in ("int", "float", "str") or place[-1].startswith("constrained-")):
        place.pop()
    if fault["type"] == "value_error":
        return f"the manifest's {'.'.join(place)} is damaged: {fault['ctx']['error']}"
    if fault["type"] == "missing":
        return f"the manifest has no {'.'.join(place)}"
    if fault["type"] == "literal_error":
        return f"the manifest's {'.'.join(place)} is {fault['input']!r}, but must be {fault['ctx']['expected']}"
    should = next((name for begin, name in _SHOULD_BE if fault["type"].startswith(begin)), "a JSON object")
    return f"the manifest's {'.'.join(place)} is {fault['input']!r}, but must be {should}"
