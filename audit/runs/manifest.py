"""What a folder says of itself: ``manifest.json`` of a run, of a comparison, of judged pairs, of choices.

The file is read and written here alone. What the code asks of a manifest is an attribute, with its type and with the
default that holds where an earlier version did not write it. What nobody asks for is kept all the same: a manifest is
written back as it was read, field by field and in the same order, but for what was changed.
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
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from audit.errors import AuditError, StoreError, recovery
from audit.runs import ledger
from audit.runs.model_names import address_of, model_name, stated_by
from audit.tables.json_text import parse_json
from stimuli.files import read_file

SCHEMA_VERSION: Final = 1
FILE: Final = "manifest.json"
COPY: Final = "manifest.copy.json"
"""The same once more in a run's folder, written before it; ``audit recover`` restores the manifest from it."""
_COLLECTED: Final = ("ratings", "replies", "answers")
"""What a run's folder holds, or ``.parquet`` files of that name."""
_DOES: Final = "restores it from its copy, or saves what was collected"
_FIRST: Final = "intensity"
"""The task of a run whose manifest names none: an earlier version wrote it, or another tool collected the ratings."""
_OF_RUNS: Final = {
    "comparison": "comparison of runs",
    "judgement": "comparison of two runs' replies by a judge",
    "choices": "choice of people between two runs' replies",
}
"""What folders hold that are made of runs, by what their manifests say in ``kind``."""
_NEEDED: Final = ("n_prompts", "shard_size")
"""What every version wrote, and no run can be read or gone on with without."""
_MOST: Final = 10**12
"""Prompts that no run has."""
_SHOULD_BE: Final = (("int", "a number"), ("float", "a number"), ("str", "text"), ("bool", "true or false"),
                     ("list", "a list"), ("tuple", "a list"))  # fmt: skip
"""What is expected where a value has another type, by how the error's type begins."""

Count: TypeAlias = Annotated[int, Field(strict=True)]
Points: TypeAlias = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
"""A number as the file has it: 0 does not become 0.0, which tables would show."""
Words: TypeAlias = Mapping[str, str]
_OfTerms: TypeAlias = Mapping[str, Mapping[str, str]]
"""Dimension → wording, or group → what is said of it."""


class ComparedWords(dict[str, str]):
    """Stems by wording, of an earlier version: a wording without one shares a stem where its letters are alike.

    It is for the numbers of runs of such versions. Now every stem is stated where it is needed.
    """


class ManifestError(AuditError, KeyError):
    """The manifest lacks what is asked of it, or has it in another type; names the key and what there is."""

    def __str__(self) -> str:
        return str(self.args[0])


class DamagedError(StoreError):
    """A run's manifest is not there though the run is, or cannot be read, or says what no manifest says."""


class _Part(BaseModel):
    """A part of a manifest: attributes for what is read, and ``content``, all that the file says there."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())
    _content: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def content(self) -> Mapping[str, Any]:
        """All that the file says, as JSON has it."""
        return self._content

    @model_validator(mode="wrap")
    @classmethod
    def _keep(cls, values: Any, make: Any) -> Any:
        """Keep what was read; null stands for what was not recorded."""
        if not isinstance(values, Mapping):
            return make(values)
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        made = make({name: v for name, v in values.items() if v is not None and name in fields})
        made._content = values
        return made


# --- A run -----------------------------------------------------------------------------------------------------------


class Elsewhere(_Part):
    """Of answers that another stack collected: which, as the user says, and how many prompts have none.

    ``n_unsigned`` counts texts of which nothing says whether they are whole.
    """

    by: str = ""
    n_without_text: Count = 0
    n_without_line: Count = 0
    n_unsigned: Count = 0


class Server(_Part):
    """Where a model was asked, and which model the server said that it is, or is made of."""

    base_url: str = ""
    id: str = ""
    root: str = ""


class Model(_Part):
    """The model that was asked: by which card, where it lies, and the SHA-256 of its files by name.

    ``parameters`` and ``weights_bytes`` are 0 where they were not recorded, see :func:`audit.engines.size.size_of`.
    ``elsewhere`` is None unless another stack asked it; ``not_checked`` says why a command that found all answers there
    could not tell whether the model is still the same.
    """

    card: str = Field(default="", alias="name")
    path: str = ""
    revision: str = ""
    dtype: str = ""
    server: Server = Server()
    files: Words = {}
    parameters: Count = 0
    weights_bytes: Count = 0
    elsewhere: Elsewhere | None = None
    not_checked: str = ""

    @property
    def name(self) -> str:
        """What the model is called wherever it is shown, see :func:`audit.runs.model_names.model_name`."""
        return self._named(full=True)

    @property
    def name_asked(self) -> str:
        """The same without which model the server says that it is."""
        return self._named(full=False)

    @property
    def stated(self) -> str:
        """Which model the server says that it is, in words; empty if it says no more than what was asked for."""
        return stated_by(self.path, self._at)

    @property
    def address(self) -> str:
        """The server's address; empty of any other model."""
        return address_of(self.server.base_url)

    def _named(self, *, full: bool) -> str:
        # A folder or a file on this machine has no revision of the hub's.
        on_hub = self.elsewhere is not None or (bool(self.revision) and not self.revision.startswith("gguf:"))
        is_hub_id = None if on_hub else False
        return model_name(self.card, self.path, is_hub_id=is_hub_id, server=self._at, full=full)

    @property
    def _at(self) -> dict[str, str]:
        return {"base_url": self.server.base_url, "id": self.server.id, "root": self.server.root}


class Engine(_Part):
    """What ran the model."""

    name: str = ""
    version: str = ""
    device: str = ""
    dtype: str = ""

    @property
    def said(self) -> str:
        """The engine and its version. The interface by which a server is asked says nothing of who runs it."""
        return f"{'OpenAI-compatible server' if self.name == 'openai' else self.name} {self.version}".strip()


class Elicitation(_Part):
    """How a rating is got: ``expected``, ``generate`` or ``outside``; what answers were begun with, what read them."""

    method: str = ""
    prefill: str = ""
    parser: str = ""

    @property
    def keeps_scale(self) -> bool:
        """Whether no rating can lie beyond the scale: the published parser takes such, and so do released files."""
        return self.parser != "hou2025" and self.method != "outside"


class Scale(_Part):
    """The ends of the scale in points, and what they are called."""

    low: Points = math.nan
    high: Points = math.nan
    low_label: str = ""
    high_label: str = ""


class Task(_Part):
    """What a run asks for; settings of a text that is written, the last four of a questionnaire."""

    kind: str = ""
    max_tokens: Count | None = None
    temperature: Points = 0
    top_p: Points = 1
    presentation: str = ""
    method: str = ""
    n_orders: Count = 1
    affect: bool = False


class ItemTold(_Part):
    """An item of a questionnaire, see :class:`stimuli.inventories.Item`."""

    item_id: str
    text: str
    subscale: str
    reverse: bool = False


class MeasureTold(_Part):
    """A measure that a scorer takes, see :class:`audit.tasks.measures.base.Measure`."""

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    source: str
    caution: str = ""
    low: Points | None = None
    high: Points | None = None


class WordsTold(_Part):
    """The words of an emotion, see :class:`stimuli.narratives.EmotionWords`."""

    noun: str
    adjective: str


def _told_as(part: type[_Part]) -> Any:
    """Return the type of what is read as plain values, and has what a part has."""

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


class Inventory(_Part):
    """A questionnaire with its key, so that scoring needs no other file."""

    name: str = ""
    source: str = ""
    scale: Scale = Scale()
    instruction: str = ""
    total: bool = False
    items: tuple[_Item, ...] = ()


class Stimuli(_Part):
    """Where the narratives come from, how many were taken of how many, and the SHA-256 of what they tell."""

    source: str = ""
    n_narratives: Count | None = None
    n_available: Count | None = None
    emotions: tuple[str, ...] = ()
    sha256: str = ""


class Language(_Part):
    """The language of the prompts, who has read its pack, how it words people, and the SHA-256 of the pack's file."""

    code: str = "en"
    name: str = "English"
    reviewed: str = ""
    policy: str = ""
    sha256: str = ""

    @property
    def is_english(self) -> bool:
        """Whether it is the language that this package is written in, of which there is no pack."""
        return self.code == "en"

    @property
    def said(self) -> str:
        """The language and by what it was put into the prompts, in words."""
        return self.name if self.is_english else f"{self.name} (language pack {self.code})"


class PromptAsked(_Part):
    """The prompt variant, and the SHA-256 of its wording."""

    variant: str = ""
    sha256: str = ""


class Knowledge(_Part):
    """How often a model inferred nothing of a narrative."""

    n_empty: Count = 0


class Strategy(_Part):
    """How the model was led to its answer: a name, where it is from, the names of its stages."""

    name: str = ""
    source: str = ""
    deviates: str = ""
    stages: tuple[str, ...] = ()
    sha256: str = ""
    given_sha256: str = ""
    knowledge: Knowledge = Knowledge()


class Example(_Part):
    """One prompt's last call; ``turns`` are role and text of what stands between system and user message."""

    system: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    user: str = ""
    begun: str = ""


class Identity(_Part):
    """What makes two runs the same run; its ``content`` is compared, key by key, by :mod:`audit.runs.provenance`."""

    strategy: Mapping[str, Any] = {}
    identities: str = ""
    special_tokens: str | None = None
    model_files: str = ""
    elicitation: Mapping[str, Any] = {}
    task: Mapping[str, Any] | None = None


class Statistics(_Part):
    """The settings of the run's analysis, as :class:`audit.configuration.schema.StatisticsConfig` describes them."""

    n_permutations: Count = 10_000
    confidence: Points = 0.95
    margin: Points | None = None
    least_gap: Points | None = None
    missing_shift: Points | None = None
    wanted: Points | None = None
    power: Points = 0.8
    min_number_mass: Points = 0.5
    least_response: Points = 0.01
    formula: str | None = None
    fit: str = "mixed"
    random: str | None = None
    cluster: str = "narrative_id"
    stereotypes: Path | None = None
    human: Path | None = None
    human_id: str = "narrative_id"
    human_rating: str = "intensity"


class Thinking(_Part):
    """Whether the model thought before its answers, ``on`` or ``budget``, in how many tokens at most, and how drawn."""

    mode: str = "off"
    max_tokens: Count = 0
    temperature: Points = 0
    top_p: Points = 1

    @property
    def is_on(self) -> bool:
        """Whether it thought."""
        return self.mode != "off"


class Config(_Part):
    """What is read of the composed configuration; ``content`` is all of it, as ``load_config`` takes it."""

    engine: Mapping[str, Any] = {}
    strategy: Mapping[str, Any] = {}
    statistics: Statistics = Statistics()
    thinking: Thinking = Thinking()

    @property
    def quantization(self) -> str:
        """What the model's card says of it; of ratings that were read, ``model`` is no card but a name."""
        card = self.content.get("model")
        return str(card.get("quantization") or "") if isinstance(card, Mapping) else ""


class Timings(_Part):
    """How long the last session took: seconds to load the model, seconds and number of the prompts that it asked."""

    load_s: Points | None = None
    elicit_s: Points = math.nan
    n_prompts: Count = 0

    @property
    def seconds_per_prompt(self) -> float:
        """NaN where it was not recorded."""
        return self.elicit_s / (self.n_prompts or math.nan)


class Check(_Part):
    """What was asked beside the ratings: what asking again varied, what limits the sample, why it was not made.

    ``n_wanted`` are the narratives that the check was to have at least, ``n_available`` those that the source had; 0
    where an earlier version noted none.
    """

    n_prompts: Count = 0
    n_wanted: Count = 0
    n_available: Count = 0
    varied: str = ""
    notes: Words = {}
    refused: str = ""


class Noise(_Part):
    """What prompts differed by when they were asked again: how many, and the differences in points."""

    n: Count = 0
    rms_points: Points = math.nan
    max_points: Points = math.nan
    varied: str = ""


class ScorerFacts(_Part):
    """What a scorer is: the model that it asks, the SHA-256 of its files, a judge's rubric."""

    name: str = ""
    model: str = ""
    files: Words = {}
    rubric: str = ""


class OwnGap(_Part):
    """Of how many narratives a judge was asked for its own gap, and how many were no use in each dimension."""

    n_narratives: Count = 0
    left_out: Mapping[str, Count] = {}


class Scored(_Part):
    """What a scorer was asked, what it is, and which measures it takes."""

    asked: Mapping[str, Any] = {}
    facts: ScorerFacts = ScorerFacts()
    measures: tuple[_Measure, ...] = ()
    own_gap: OwnGap = OwnGap()


class Question(_Part):
    """What raters were asked of a reply, and the ends of its scale."""

    name: str = ""
    text: str = ""
    low: Points = math.nan
    high: Points = math.nan


class People(_Part):
    """What people gave a run."""

    n_raters: Count = 0
    n_items: Count = 0
    questions: tuple[Question, ...] = ()


class Human(_Part):
    """Where people's intensities are from."""

    where: str = ""


class EmotionsRead(_Part):
    """The words by which emotions were found in texts: fields of ``stimuli.narratives.EmotionWords``, by emotion."""

    words: Mapping[str, _Words] = {}


class Outside(_Part):
    """Of ratings that another tool collected: whether they are a study's results, and tell why one is missing."""

    released: bool = False
    status_given: bool = True


class _Written(_Part):
    """A whole manifest."""

    kind_written: ClassVar[str] = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return a manifest with that content.

        Raises
        ------
        ManifestError
            If a field has another type than it should.
        """
        kind = {"kind": cls.kind_written} if cls.kind_written else {}
        try:
            return cls.model_validate({"schema_version": SCHEMA_VERSION, **kind, **content})
        except ValidationError as error:
            raise ManifestError(_explain(error.errors(include_url=False)[0])) from error

    def having(self, **changes: Any) -> Self:
        """Return the manifest with other fields: a field that is there keeps its place, a new one is the last."""
        return self.of({**self.content, **changes})

    def adding(self, field: str, **entries: Any) -> Self:
        """Return the manifest with more entries in a field that has names and values."""
        return self.having(**{field: {**(self.content.get(field) or {}), **entries}})

    def to_bytes(self) -> bytes:
        """Return what the file holds.

        Raises
        ------
        ValueError
            If a number is NaN or infinite: JSON has none.
        """
        text = json.dumps(self.content, indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode("utf-8", "backslashreplace")  # a path that is no UTF-8 stays one, escaped


class Manifest(_Written):
    """What a run is and what became of it. Where nothing was recorded, text is empty and a count is 0.

    Attributes
    ----------
    status
        ``running`` or ``complete``.
    ledger
        1 where the folder has a ledger of its files, see :mod:`audit.runs.ledger`.
    generation, analysed_by
        What the tables and the page were made of, in a few letters, and the packages that computed them; see
        :meth:`audit.runs.store.RunFolder.stamped`.
    digest
        SHA-256 of what was asked and answered when the page was made; see :mod:`audit.runs.digest`.
    accepted
        Names of stored files that had changed, and were accepted as they are.
    command, report_command, preset
        What asked for it, what analysed it anew with other settings, and the experiment that it is.
    started
        When, ISO 8601.
    n_sessions, n_prompts, shard_size
        Sessions so far, prompts of the whole run, and prompts of a shard.
    seed
        Of all that is drawn.
    task
        What was asked for.
    inventory
        None unless a questionnaire was filled in.
    dimensions, placebo, pairs_drawn
        The dimensions in their order; which are sets of invented groups; and in which each narrative was asked about a
        draw of pairs, so that others are missing by design.
    clusters, stems, cues
        By dimension: the cultural cluster of groups, and of wordings the stem and how they tell their group.
    stems_stated
        Whether every stem that tells a repeated word is in ``stems``. Where it is not, an earlier version wrote the
        manifest, which compared words: then ``stems`` has :class:`ComparedWords`.
    scorers, wanted, absent
        What scored replies, what was asked for, and why what could not be had.
    diversity
        Whether words of all replies are counted.
    epitome_labels
        Levels of people's replies: narrative → mechanism → level.
    versions, hardware
        The packages and the machine.
    """

    status: str = ""
    ledger: Count = 0
    generation: str = ""
    analysed_by: Words = {}
    digest: str = ""
    accepted: tuple[str, ...] = ()
    command: str = ""
    report_command: str = ""
    preset: str = ""
    started: str = ""
    n_sessions: Count = 0
    n_prompts: Count = 0
    shard_size: Count = 0
    seed: Count = 0
    model: Model = Model()
    engine: Engine = Engine()
    elicitation: Elicitation = Elicitation()
    scale: Scale = Scale()
    task: Task = Task(kind=_FIRST)
    inventory: Inventory | None = None
    language: Language = Language()
    stimuli: Stimuli = Stimuli()
    prompt: PromptAsked = PromptAsked()
    strategy: Strategy = Strategy()
    dimensions: tuple[str, ...] = ()
    clusters: _OfTerms = {}
    stems_stated: bool = False
    stems: _OfTerms = Field(default={}, validate_default=True)
    cues: _OfTerms = {}
    placebo: tuple[str, ...] = ()
    pairs_drawn: tuple[str, ...] = ()
    versions: Words = {}
    hardware: Mapping[str, Any] = {}
    example_prompt: Example = Example()
    config: Config = Config()
    identity: Identity = Identity()
    counts: Mapping[str, Count] = {}
    timings: Timings = Timings()
    checks: Mapping[str, Check] = {}
    noise: Noise = Noise()
    noise_formats: Mapping[str, Noise] = {}
    scorers: Mapping[str, Scored] = {}
    wanted: tuple[str, ...] = ()
    absent: Words = {}
    diversity: bool = False
    epitome_labels: Mapping[str, Mapping[str, Count]] = {}
    people: People = People()
    human: Human = Human()
    emotions: EmotionsRead = EmotionsRead()
    outside: Outside = Outside()

    @field_validator("stems")
    @classmethod
    def _compared(cls, stems: _OfTerms, info: ValidationInfo) -> _OfTerms:
        """Let what an earlier version wrote be read as that version did."""
        if info.data.get("stems_stated"):
            return stems
        names = dict.fromkeys([*info.data.get("dimensions", ()), *stems])
        return {name: ComparedWords(stems.get(name, {})) for name in names}

    @property
    def statistics(self) -> Statistics:
        """The settings of the analysis."""
        return self.config.statistics

    @classmethod
    def read(cls, folder: Path, *, file: str = FILE, check: bool = True) -> Self:
        """Return a run folder's manifest, if all that was stored in the folder is as its ledger says.

        What had changed and was accepted is in ``accepted``, also where no analysis has said so yet.

        Parameters
        ----------
        folder
            The run's.
        file
            The manifest, or its copy.
        check
            Whether the files are held against the ledger.

        Raises
        ------
        DamagedError
            If it is gone, not readable or damaged.
        StoreError
            If the folder is none of a run's, the manifest is of a later version, or a stored file was changed, is gone,
            or is another run's.
        """
        path = folder / file
        try:
            content = parse_json(read_file(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            said = f"{folder} is not a run folder: it has no {file}"
            if not _has_collected(folder):
                raise StoreError(f"{said}; {_which(folder)}") from error
            raise DamagedError(f"{said}; but it holds what was collected: {recovery(folder, _DOES)}") from error
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedError(f"{path} cannot be read ({error}); {recovery(folder, _DOES)}") from error
        kind = content.get("kind") if isinstance(content, dict) else None
        if isinstance(kind, str) and kind in _OF_RUNS:
            raise StoreError(f"{folder} is not a run folder: it holds a {_OF_RUNS[kind]}")
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
                    raise ManifestError(f"the manifest's {name} is {content[name]}, and should be 1 or more")
            if ("elicitation" in content or "scale" in content) and not manifest.scale.low < manifest.scale.high:
                raise ManifestError(f"the manifest's scale is {content.get('scale')!r}, and should have low below high")
        except ManifestError as error:
            raise DamagedError(f"{path} is damaged: {error}; {recovery(folder, _DOES)}") from error
        return manifest.checked(folder)[0] if check else manifest

    def checked(self, folder: Path, *, may_lack: Callable[[str], bool] | None = None) -> tuple[Self, tuple[str, ...]]:
        """Hold a run's files against its ledger, and return the manifest with what was accepted, and what is gone.

        Parameters
        ----------
        folder
            The run's.
        may_lack
            Tells of a stored file that is gone whether that may be.

        Raises
        ------
        StoreError
            If a stored file was changed, is gone and may not be, or is another run's.
        """
        found = ledger.check(folder, needed=bool(self.ledger), may_lack=may_lack)
        return self.accepting(found.accepted), found.lacking

    def accepting(self, names: Sequence[str]) -> Self:
        """Return the manifest that says of files that they had changed and were accepted, beside what it says."""
        every = list(dict.fromkeys((*self.accepted, *names)))
        return self if every == list(self.accepted) else self.having(accepted=every)

    @staticmethod
    def content_of(folder: Path) -> Mapping[str, Any]:
        """Return what the file says, whatever is wrong with it; nothing where it cannot be read."""
        try:
            content = json.loads(read_file(folder / FILE))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def complete(self, *, finished: str) -> Self:
        """Return the manifest of a run in which nothing is left to ask; the time of the first end stays."""
        return self.of({"finished": finished, **self.content, "status": "complete"})


# --- What is made of runs --------------------------------------------------------------------------------------------


class RunNamed(_Part):
    """What one of several runs is called."""

    run: str = ""


class OfRuns(_Written):
    """What a folder that is made of several runs says of itself."""

    command: str = ""
    runs: tuple[RunNamed, ...] = ()
    confidence: Points = 0.95
    versions: Words = {}

    @classmethod
    def read_if_there(cls, folder: Path) -> Self | None:
        """Return the manifest; None where there is none of this kind.

        Raises
        ------
        StoreError
            If it is damaged.
        """
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
                f"{folder / FILE} is damaged: {error}; put a copy of it back, or name another folder"
            ) from error


class ComparisonManifest(OfRuns):
    """Runs side by side."""

    kind_written = "comparison"


class Judge(_Part):
    """The model that compared replies: what is shown of it, and the SHA-256 of its files."""

    revision: str = ""
    engine: Engine = Engine()
    files: Words = {}


class JudgeAsked(_Part):
    """How a judge was asked."""

    model: str = ""
    method: str = ""
    rubric: str = ""
    rubric_file: str = ""
    rubric_source: str = ""
    criterion: str = ""
    which: str = ""


class JudgementManifest(OfRuns):
    """Replies of two runs, compared by a model; ``judge`` is None until it was loaded."""

    kind_written = "judgement"
    identity: Mapping[str, Any] = {}
    asked: JudgeAsked = JudgeAsked()
    judge: Judge | None = None


class Drawn(_Part):
    """How pairs were drawn for people."""

    seed: Count = 0


class PairsIdentity(_Part):
    """What an export of pairs is; its ``content`` is compared as a whole."""

    drawn: Drawn = Drawn()


class ChoicesManifest(OfRuns):
    """Replies of two runs, between which people choose."""

    kind_written = "choices"
    identity: PairsIdentity = PairsIdentity()


def _has_collected(folder: Path) -> bool:
    """Tell whether a folder without a manifest is a run's all the same."""
    there = (folder / name for kind in _COLLECTED for name in (kind, f"{kind}.parquet"))
    return (folder / COPY).exists() or any(path.exists() for path in there)


def _which(folder: Path) -> str:
    """Return what may be meant where a folder is none of a run's."""
    try:
        if not folder.is_dir():
            is_file = folder.exists()
            return "it is a file; name the run's folder" if is_file else "there is no such folder; check its name"
        inside = sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))
    except OSError:
        return "check its name"
    if inside:
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        return f"it holds runs ({inside[0]}{more}); name one of them, such as {shlex.quote(str(folder / inside[0]))}"
    return 'name the folder that the run called its "run folder"'


def _explain(fault: ErrorDetails) -> str:
    """Say in a line which field is wrong, what it is, and what it should be."""
    # A number that may be whole or not is tried as both, and the last name is which.
    place = [str(name) for name in fault["loc"]]
    if place and (place[-1] in ("int", "float", "str") or place[-1].startswith("constrained-")):
        place.pop()
    if fault["type"] == "value_error":
        return f"the manifest's {'.'.join(place)} is damaged: {fault['ctx']['error']}"
    if fault["type"] == "missing":
        return f"the manifest has no {'.'.join(place)}"
    if fault["type"] == "literal_error":
        return f"the manifest's {'.'.join(place)} is {fault['input']!r}, and should be {fault['ctx']['expected']}"
    should = next((name for begin, name in _SHOULD_BE if fault["type"].startswith(begin)), "names with values")
    return f"the manifest's {'.'.join(place)} is {fault['input']!r}, and should be {should}"
