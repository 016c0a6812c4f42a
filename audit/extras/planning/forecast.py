"""Forecast what a run takes before it is asked: prompts, tokens, time, money, disk, and the gap that it can detect.

Counts are exact: the prompts that the run asks, tokenised by the model's own tokenizer and chat template. What depends
on what a model writes has bounds. Time is extrapolated from a *probe*: the run's own code asks a few of its shards,
spread over the grid, in a temporary folder. The detectable gap follows from the spread of an earlier run.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from audit.asking.progress import Progress, Say
from audit.asking.run_identity import default_run_dir, design_differences, shard_size_on
from audit.configuration.schema import AuditConfig
from audit.errors import StoreError, report_command
from audit.runs.ledger import check_made
from audit.runs.planned import Planned, PromptsByIndex
from audit.runs.store import Kind, RunFolder
from audit.statistics.planning import detectable_by, narratives_to_find
from audit.tables.formatting import plural
from audit.tables.shared import OVERALL
from audit.tasks.base import Task
from stimuli.errors import in_one_line
from stimuli.manipulation import manipulated
from stimuli.prompts import Prompt, PromptGrid
from stimuli.strategies import CLOSING, THOUGHT

if TYPE_CHECKING:
    import pandas as pd

    from audit.asking.elicitation.numbers import NumberTree
    from audit.engines.chat import ChatTokenizer

_ENCODED: Final = 4096  # prompts tokenised per batch
_PROBED: Final = 4  # Shards of a probe. The first warms up the model.
_PROBED_PROMPTS: Final = 32  # prompts per shard in the first round of a probe
_IN_WORDS: Final = 8  # prompts answered in words in a probe, if a sample of probabilities is checked in words
ANALYSIS_S: Final = (9.0, 7e-6)
"""Seconds for statistics and page: a constant, and more per prompt. See docs/performance.md."""
BYTES: Final = {"ratings": 55, "replies": 400, "answers": 60, "stages": 55}  # on disk per row, without its texts
BYTES_OF_TOKEN: Final = 2.0
BYTES_OF_REPORT: Final = 1_500_000
_BRACKETS: Final = re.compile(r"\[what stage (?P<stage>.+?) writes\]")


@dataclass(frozen=True)
class Calls:
    """Calls of one kind, e.g. the run's own prompts or one stage of a strategy."""

    what: str  # the kind, in words
    n: int
    n_left: int  # not answered yet
    # Of the calls left, without what stages write; None if only the server can count them. A written text is tokenised
    # again as part of a later prompt, at about the same length.
    tokens_read: int | None
    tokens_read_most: int | None  # with every written text at its longest
    tokens_written_most: int
    exact: bool = True  # whether n is exact; else it is an upper bound
    within: bool = False  # whether their time is part of the run's own prompts, as with a strategy's stages
    n_characters: int = 0  # of the prompts left, without what stages write
    shown_most: int = 0  # the most tokens that stages add to the prompts left

    @property
    def read_most(self) -> int:
        """Upper bound of tokens read; for a server's model, estimated at two characters a token."""
        if self.tokens_read_most is None:
            # Four characters a token is a rule of thumb for English; two leaves room.
            return self.n_characters // 2 + self.shown_most
        return self.tokens_read_most


@dataclass(frozen=True)
class Probe:
    """Timings of a probe."""

    load_s: float  # seconds until the model was loaded and warm, beyond what the same prompts take later
    n: int  # prompts that were timed
    rates: tuple[float, ...]  # prompts per second of each timed shard
    words_per_s: float | None  # prompts per second when answered in words, beside `expected`; None if none are

    @property
    def per_s(self) -> float:
        """Prompts per second: the harmonic mean, since shards have one size."""
        return len(self.rates) / sum(1 / rate for rate in self.rates)


@dataclass(frozen=True)
class Forecast:
    """What a run will take; see :func:`forecast`."""

    folder: Path
    calls: tuple[Calls, ...]  # by kind; the run's own prompts come first
    n_too_long: int | None  # prompts that exceed the model's context, and so will fail; None if unknown
    n_characters: int  # of all calls left, without what stages write
    seconds: float | None  # total time expected; None without a probe
    low_s: float | None  # at the rate of the probe's fastest shard
    high_s: float | None  # at that of its slowest
    # What does not grow with the narratives: loading, what is asked beside the ratings, part of the analysis; 0 without
    # a probe.
    fixed_s: float
    grows_s: float  # what does, for a run that begins anew
    probe: Probe | None
    bytes_on_disk: int  # an estimate
    # By elicitation.ends, the most requests to vLLM a prompt; empty without vLLM, or if no probabilities are read.
    requests: Mapping[str, int]

    @property
    def tokens_read(self) -> tuple[int, int] | None:
        """Lower and upper bound over all calls; None if unknown."""
        if any(each.tokens_read is None for each in self.calls):
            return None
        return sum(each.tokens_read or 0 for each in self.calls), sum(each.tokens_read_most or 0 for each in self.calls)

    @property
    def tokens_written_most(self) -> int:
        """Upper bound over all calls."""
        return sum(each.tokens_written_most for each in self.calls)

    def money(self, of_input: float, of_output: float) -> tuple[float, float, float]:
        """Return upper bounds of the price (given for a million tokens): of calls left, of checks, of all anew."""

        def price(each: Calls) -> float:
            return (each.read_most * of_input + each.tokens_written_most * of_output) / 1e6

        own = sum(price(each) for each in self.calls if each.within or each is self.calls[0])
        beside = sum(price(each) for each in self.calls) - own
        n, n_left = self.calls[0].n, self.calls[0].n_left
        return own + beside, beside, own * n / n_left if n_left else 0.0


def forecast(task: Task[Any], plan: Planned, *, probe_s: float, count_tokens: bool, say: Say) -> Forecast:
    """Forecast what is left of a run, and what it takes, with a probe of ``probe_s`` seconds, if not 0."""
    config = plan.config
    folder = config.run_dir or default_run_dir(plan)
    plan, trials = task.before_asking(plan, folder)
    config = plan.config
    left = _left(plan, folder)
    tokenizer = _tokenizer(config, say) if count_tokens else None
    counted = _count(task, plan, left, tokenizer, say=say)
    probe = None
    calls = (
        *counted.calls,
        *_trials(trials, counted.calls[0], tokenizer, config.elicitation.max_tokens),
        *_checks_of_server(config, counted.calls[0]),
    )
    if probe_s and calls[0].n_left and not config.engine.batch:
        probe = _probe(task, plan, probe_s, words=any(each.what == IN_WORDS for each in calls), say=say)
    seconds = low = high = None
    fixed = grows = 0.0
    if probe is not None:
        n_workers = _n_workers(config, calls[0].n_left)
        seconds, low, high = (
            _seconds(calls, probe, rate, n_workers=n_workers)
            for rate in (probe.per_s, max(probe.rates), min(probe.rates))
        )
        grows = calls[0].n / probe.per_s / n_workers + ANALYSIS_S[1] * calls[0].n
        fixed = seconds - calls[0].n_left / probe.per_s / n_workers - ANALYSIS_S[1] * calls[0].n
    return Forecast(
        folder, calls, counted.n_too_long, sum(each.n_characters for each in calls), seconds, low, high, fixed, grows,
        probe, _bytes(plan, calls), counted.requests,
    )  # fmt: skip


def _bytes(plan: Planned, calls: Sequence[Calls]) -> int:
    """Estimate the disk space of the finished run: rows, texts at their longest, and the report."""
    rows = BYTES[plan.kind] * calls[0].n + BYTES["stages"] * sum(each.n for each in calls if each.within)
    # Ratings read from probabilities have no text, except a strategy's stages and a sample.
    read_off = plan.config.elicitation_method == "expected" and plan.kind != "replies"
    texts = [each for each in calls if not (read_off and each.what in (PROMPTS, AGAIN, WITHOUT)) and each.n_left]
    tokens = sum(each.tokens_written_most * each.n / each.n_left for each in texts)
    return int(rows + BYTES_OF_TOKEN * tokens + BYTES_OF_REPORT)


def _seconds(calls: Sequence[Calls], probe: Probe, rate: float, *, n_workers: int) -> float:
    """Return the time of loading, all calls, statistics and page."""
    total = probe.load_s + ANALYSIS_S[0] + ANALYSIS_S[1] * calls[0].n
    for each in calls:
        if not each.within:
            per_s = probe.words_per_s if each.what == IN_WORDS and probe.words_per_s else rate
            total += each.n_left / per_s / n_workers
    return total


def _n_workers(config: AuditConfig, n_left: int) -> int:
    """Return the speed-up of the workers over the probe's one process, as far as it can be told here.

    Workers on a CPU share the threads that the probe has to itself, and a cluster's machines cannot be seen from here.
    """
    from audit.asking.workers.devices import VISIBLE, shares
    from audit.engines.open import choose_engine

    engine = config.engine
    if engine.replicas == 1 or engine.ray is not None:
        return 1
    own = shares(engine, choose_engine(engine, writes=config.elicitation_method == "generate").name)
    n_shards = -(-n_left // (config.shard_size or shard_size_on("cuda")))
    return min(len(own), n_shards) if VISIBLE in own[0].environment else 1


# --- What is there ---------------------------------------------------------------------------------------------------


def _left(plan: Planned, path: Path) -> list[range]:
    """Return the unanswered places of the grid, in order."""
    from audit.asking.collect import earlier_manifest, missing_shards

    if path.exists():
        folder = RunFolder(path)
        folder.check()
        if (manifest := earlier_manifest(plan, folder)) is not None:
            return list(missing_shards(plan, manifest, folder).values())
    return [range(len(plan.grid))]


# --- Counting --------------------------------------------------------------------------------------------------------

PROMPTS: Final = "prompts"
IN_WORDS: Final = "answered in words"
AGAIN: Final = "asked again"
WITHOUT: Final = "without identities"
TRIALS: Final = "to choose the elicitation"
READS: Final = "to check the server"


@dataclass(frozen=True)
class _Counted:
    calls: tuple[Calls, ...]
    n_too_long: int | None
    requests: Mapping[str, int]


def _count(
    task: Task[Any], plan: Planned, places: Sequence[range], tokenizer: ChatTokenizer | None, *, say: Say
) -> _Counted:
    config = plan.config
    stages = plan.strategy.stages
    lengths = {stage.name: stage.max_tokens for stage in stages}
    room = _room(plan)
    n = len(plan.grid)
    n_left = sum(map(len, places))
    least, most = np.zeros(1 + len(stages), dtype=np.int64), np.zeros(1 + len(stages), dtype=np.int64)
    thinking, before_thoughts = config.thinking, np.zeros(2, dtype=np.int64)
    n_characters, shown = least.copy(), least.copy()
    n_too_long, room_to_fit, requests = 0, None, {}
    longest = config.model.max_model_len
    if tokenizer is not None:
        say(f"counting the tokens of {n_left:,} prompts ...")
    with Progress(n_left, unit="prompts", name="counting") as progress:
        left = _at(task.records(plan), places)
        for records in _batched(left):
            for number in range(len(stages) + 1):
                last = number == len(stages)
                asked = [_message(record, number, last=last) for record in records]
                n_characters[number] += sum(map(_letters, (prompt for prompt, _ in asked)))
                more = np.array([sum(lengths[name] for name in names) for _, names in asked])
                shown[number] += more.sum()
                if tokenizer is None:
                    continue
                if last and thinking.is_on:
                    sizes = _sizes(tokenizer, [replace(prompt, thinks=True) for prompt, _ in asked])
                    before_thoughts += sizes.sum(), (sizes + more).sum()
                    asked = [(replace(prompt, thought=""), names) for prompt, names in asked]
                    more = more + thinking.max_tokens + 1  # closing a thought adds a line break
                sizes = _sizes(tokenizer, [prompt for prompt, _ in asked])
                least[number] += sizes.sum()
                most[number] += (sizes + more).sum()
                if last:
                    if room_to_fit is None:
                        tree = _tree(plan, tokenizer, asked[0][0])
                        room_to_fit = room if tree is None else tree.room
                        requests = {} if tree is None else _requests(config, tree)
                    wanted = thinking.max_tokens + plan.room + CLOSING if thinking.is_on else room_to_fit
                    n_too_long += int((sizes + wanted > longest).sum())
            progress.done(len(records))
    known = tokenizer is not None
    calls = [
        Calls(
            PROMPTS, n, n_left,
            int(least[-1]) if known else None, int(most[-1]) if known else None, n_left * room,
            n_characters=int(n_characters[-1]),
            shown_most=int(shown[-1]) + (n_left * (thinking.max_tokens + 1) if thinking.is_on else 0),
        )
    ]  # fmt: skip
    for number, stage in enumerate(stages):
        calls.append(
            Calls(
                f"stage {stage.name}", n, n_left, int(least[number]) if known else None,
                int(most[number]) if known else None, n_left * stage.max_tokens, exact=False, within=True,
                n_characters=int(n_characters[number]), shown_most=int(shown[number]),
            )
        )  # fmt: skip
    if thinking.is_on:
        calls.append(
            Calls(
                THOUGHT, n, n_left, int(before_thoughts[0]) if known else None,
                int(before_thoughts[1]) if known else None, n_left * thinking.max_tokens, exact=False, within=True,
                n_characters=int(n_characters[-1]), shown_most=int(shown[-1]),
            )
        )  # fmt: skip
    calls.extend(_beside(plan, calls[0], tokenizer, room))
    return _Counted(tuple(calls), n_too_long if known and not stages else None, requests)


def _beside(plan: Planned, prompts: Calls, tokenizer: ChatTokenizer | None, room: int) -> Iterator[Calls]:
    """Yield the calls that check the answers: in words, asked again, and without identities; the second of replies."""
    config = plan.config
    # If no prompt is left, the checks beside them are assumed to be done too.
    if not isinstance(plan.grid, PromptGrid) or not prompts.n_left:
        return
    mean = None if prompts.tokens_read is None else prompts.tokens_read / prompts.n_left
    elicitation = config.elicitation
    rated = plan.kind == "ratings"
    n_in_words = elicitation.check_sample if rated and config.elicitation_method == "expected" else 0
    formats = 1 + (len(elicitation.noise_formats) if rated else 0)
    for what, n, own_room in (
        (IN_WORDS, n_in_words, elicitation.max_tokens),
        (AGAIN, plan.n_again * formats, room),
    ):
        n = min(n, prompts.n * formats)
        if n:
            about = None if mean is None else round(n * mean)
            yield Calls(
                what, n, n, about, about, n * own_room, exact=False,
                n_characters=round(n * prompts.n_characters / prompts.n_left),
                shown_most=round(n * prompts.shown_most / prompts.n_left),
            )  # fmt: skip
    led = bool(plan.before) or plan.strategy.brings
    if rated and elicitation.manipulation and not led:
        asked = [
            each.cell
            for each in manipulated(plan.grid, size=elicitation.manipulation, seed=config.seed, nobody=config.nobody)
        ]
        shown = [replace(plan.grid.prompt(cell), begun=elicitation.prefill) for cell in asked]
        sizes = None if tokenizer is None else sum(map(len, tokenizer.encode_prompts(shown)))
        yield Calls(
            WITHOUT, len(asked), len(asked), sizes, sizes, len(asked) * room, n_characters=sum(map(_letters, shown))
        )


def _trials(prompts: Sequence[Prompt], own: Calls, tokenizer: ChatTokenizer | None, max_tokens: int) -> Iterator[Calls]:
    """Yield the calls that choose the elicitation, if there are any."""
    if prompts and own.n_left:
        n = len(prompts)
        sizes = None if tokenizer is None else sum(map(len, tokenizer.encode_prompts(prompts)))
        yield Calls(TRIALS, n, n, sizes, sizes, n * max_tokens, n_characters=sum(map(_letters, prompts)))


def _checks_of_server(config: AuditConfig, own: Calls) -> Iterator[Calls]:
    """Yield the calls that show whether a server reads its prompts: of a new run, unless it is asked by tokens."""
    from audit.engines.proof import PROMPTS as ASKED
    from audit.engines.proof import ROOM

    if config.engine.name == "openai" and own.n_left == own.n:
        n = len(ASKED)
        yield Calls(READS, n, n, None, None, n * ROOM, exact=False, n_characters=sum(map(_letters, ASKED)))


def _room(plan: Planned) -> int:
    """Return the most tokens that an answer takes."""
    from audit.asking.elicitation.expected import ExpectedElicitation

    config = plan.config
    if plan.strategy.reply is not None:
        return plan.strategy.reply.max_tokens
    scale = plan.grid.variant.scale
    if config.elicitation_method == "expected" and scale is not None:
        # A server may give probabilities only for tokens that it writes.
        return ExpectedElicitation.of(scale, 1).room if config.model.base_url is not None else 1
    return getattr(config.task, "max_tokens", None) or config.elicitation.max_tokens


def _tree(plan: Planned, tokenizer: ChatTokenizer, prompt: Prompt) -> NumberTree | None:
    """Return the numbers that are asked about after a prompt; None if probabilities are not read."""
    from audit.asking.elicitation.numbers import number_tree

    scale = plan.grid.variant.scale
    if plan.config.elicitation_method != "expected" or scale is None:
        return None
    return number_tree(tokenizer, scale, before=tokenizer.render(prompt))


def _requests(config: AuditConfig, tree: NumberTree) -> dict[str, int]:
    """Return the most requests a prompt by ``elicitation.ends``, if vLLM is asked: the number of them is its speed."""
    from audit.engines.open import choose_engine

    engine = config.engine
    if engine.name != "vllm" and (engine.name != "auto" or choose_engine(engine, writes=False).name != "vllm"):
        return {}
    ways = dict.fromkeys((config.elicitation.ends, "exact"))  # a run whose ends vary is asked the exact way
    return {way: tree.n_asked(calibrated=way == "calibrated") for way in ways}


def _letters(prompt: Prompt) -> int:
    return len(prompt.system) + len(prompt.user) + sum(len(text) for _, text in prompt.turns) + len(prompt.begun)


def _message(record: Mapping[str, Any], number: int, *, last: bool) -> tuple[Prompt, list[str]]:
    """Return a call's prompt without what a model writes into it, and the stages whose texts it shows."""
    shown = record if last else record["stages"][number]
    names: list[str] = []

    def bare(text: str) -> str:
        names.extend(found["stage"] for found in _BRACKETS.finditer(text))
        return _BRACKETS.sub("", text)

    turns = tuple((role, bare(text)) for role, text in shown.get("turns", ()))
    begun = record.get("begun", "") if last else ""
    return Prompt(bare(shown["system"]), bare(shown["user"]), turns=turns, begun=begun), names


def _sizes(tokenizer: ChatTokenizer, prompts: Sequence[Prompt]) -> npt.NDArray[np.int64]:
    return np.array([len(ids) for ids in tokenizer.encode_prompts(prompts)], dtype=np.int64)


def _at(records: Iterator[dict[str, Any]], places: Sequence[range]) -> Iterator[dict[str, Any]]:
    """Yield the records at the given places, which must ascend."""
    begin = 0
    for own in places:
        yield from islice(records, own.start - begin, own.stop - begin)
        begin = own.stop


def _batched(records: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(records, _ENCODED)):
        yield batch


def _tokenizer(config: AuditConfig, say: Say) -> ChatTokenizer | None:
    """Load the model's tokenizer without its weights; None for a server's model and a planted one."""
    from audit.engines.chat import ChatTokenizer
    from audit.engines.resolve import hush, resolve_model, say_unpacking

    if config.model.base_url is not None or config.engine.name in ("openai", "planted"):
        return None
    hush(f"model.path={config.model.path}")
    if unpacking := say_unpacking(config.model):
        say(unpacking)
    return ChatTokenizer.of(config.model, config.engine, resolve_model(config.model, weights=False).folder)


# --- Probing ---------------------------------------------------------------------------------------------------------


class _EnoughError(Exception):
    """Ends the run of a probe once its shards are asked."""


class _ProbeFolder(RunFolder):
    """A run folder that reports all shards but a few as done, and ends the run once these are asked."""

    def __init__(self, path: Path, asked: Iterable[int], of: int, *, seconds: float, progress: Progress) -> None:
        super().__init__(path)
        self._progress = progress
        self._asked, self._of, self._limit = set(asked), of, seconds
        self._began = self._clock = time.perf_counter()
        self.load_s = 0.0
        self.took: list[tuple[int, float]] = []

    def shards(self, kind: Kind = "ratings") -> set[int]:
        return set(range(self._of)) - self._asked if self.load_s else set()

    def write_manifest(self, manifest: Any) -> None:
        super().write_manifest(manifest)
        self._clock = time.perf_counter()
        self.load_s = self._clock - self._began

    def write_shard(self, number: int, rows: Any, kind: Kind = "ratings") -> None:
        now = time.perf_counter()
        self.took.append((number, now - self._clock))
        self._clock = now
        self._progress.done(1)
        late = now - self._began - self.load_s > self._limit
        if len(self.took) == len(self._asked) or (late and len(self.took) >= 2):
            raise _EnoughError


def _probe(task: Task[Any], plan: Planned, seconds: float, *, words: bool, say: Say) -> Probe:
    """Time a few shards of a run in a temporary folder."""
    n = len(plan.grid)
    size, load_s, spent = min(_PROBED_PROMPTS, n), 0.0, 0.0
    took: list[tuple[int, float]] = []
    say(f"probing: a few of the {n:,} prompts are asked as in the run, for about {seconds:.0f} s ...")
    while True:
        found = _asked(task, plan, size, seconds - spent, n_shards=_PROBED)
        load_s = load_s if took else found.load_s
        took = [(min(size, n - number * size), own) for number, own in found.took]
        spent += sum(own for _, own in took)
        if spent > seconds / 3 or size * _PROBED >= n or size >= 4096:
            break
        size = min(size * 4, max(n // _PROBED, 1), 4096)
    timed = took[1:] if len(took) > 1 else took
    # The first shard also warms up the model: its extra time counts as loading.
    if len(took) > 1:
        per_prompt = sum(own for _, own in timed) / sum(k for k, _ in timed)
        load_s += max(0.0, took[0][1] - took[0][0] * per_prompt)
    in_words = None
    if words:
        config = plan.config
        spoken = config.model_copy(update={"elicitation": config.elicitation.model_copy(update={"method": "generate"})})
        say("probing: a few prompts answered in words ...")
        found = _asked(task, task.plan(spoken), min(_IN_WORDS, n), seconds, n_shards=1)
        in_words = sum(min(_IN_WORDS, n) for _ in found.took) / sum(own for _, own in found.took)
    return Probe(load_s, sum(k for k, _ in timed), tuple(k / own for k, own in timed), in_words)


def _asked(task: Task[Any], plan: Planned, size: int, seconds: float, *, n_shards: int) -> _ProbeFolder:
    n = -(-len(plan.grid) // size)
    whole = max(n - 1, 1) if len(plan.grid) % size else n  # the last shard may be smaller
    numbers = sorted({round((k + 0.5) * whole / n_shards - 0.5) for k in range(n_shards)})
    engine = plan.config.engine.model_copy(update={"replicas": 1, "ray": None})
    small = task.plan(plan.config.model_copy(update={"shard_size": size, "engine": engine, "run_dir": None}))
    scratch = Path(tempfile.mkdtemp(prefix="audit-probe-"))
    try:
        with (
            Progress(
                len(numbers), unit=f"parts of {plural(min(size, len(plan.grid)), 'prompt')}", name="probing"
            ) as progress,
            _ProbeFolder(scratch / "run", numbers, n, seconds=seconds, progress=progress) as folder,
            # The run's own progress counts all prompts, most of which are not asked here.
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            contextlib.redirect_stderr(nowhere),
            contextlib.suppress(_EnoughError),
        ):
            task.collect(small, folder, command="plan", say=lambda line: None)
        return folder
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


WORDED: Final = "wordings"  # scope of gaps over any such wordings; its rows are in `tables/controls.csv`

# --- What gap could be found -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detectable:
    """The smallest gap that a run would detect in one scope."""

    dimension: str
    variant: str
    scope: str  # as in tables/gap.csv, or WORDED
    points: float  # in points of the scale
    n_narratives: int  # of the planned run
    n_for_wanted: float | None  # to detect statistics.wanted; None if that is not set, inf if no number suffices


def unlike(run: Path, plan: Planned) -> list[str]:
    """List the settings besides narratives that differ from an earlier run's and may change how ratings spread."""
    manifest = RunFolder(run).read_manifest()
    if manifest is None:
        raise StoreError(f"like={run} has no manifest.json, so it is not a run; give a run folder")
    scale, there = plan.grid.variant.scale, manifest.scale
    if scale is not None and (there.low, there.high) != (scale.low, scale.high) and not math.isnan(there.low):
        raise StoreError(
            f"like={run}: its ratings are from {there.low:g} to {there.high:g}, but this plan's go from "
            f"{scale.low:g} to {scale.high:g}; give a run on the same scale"
        )
    return [each.setting for each in design_differences(manifest.identity.content, plan)]


def _gaps_of(run: Path) -> pd.DataFrame:
    """Return a run's headline gaps and, if it has several wordings, the rows that generalise over wordings."""
    import pandas as pd

    from audit.runs.csv_tables import read_table
    from audit.tables.controls import CONTROLS
    from audit.tables.gap import GAP

    columns = ["dimension", "variant", "scope", "se", "df", "n_narratives"]
    path, of_controls = (table.place(run / "tables") for table in (GAP, CONTROLS))
    again = f"`{report_command(run)}` makes it again"
    for place in (path, of_controls):
        if place.exists():
            check_made(run, f"tables/{place.name}", remedy=again)
    try:
        rows = read_table(path, GAP)
        if len(rows) and not (rows["outcome"] == "intensity").any():
            raise StoreError(f"like={run} is a run of replies, whose gaps are not in points; give a run of ratings")
        rows = rows.loc[rows["headline"].astype(bool), columns]
        path = of_controls
        if path.is_file():
            controls = read_table(path, CONTROLS)
            worded = controls.loc[controls["control"] == "wording", columns]
            rows = pd.concat([rows, worded.assign(scope=WORDED)]) if len(worded) else rows
    except (OSError, ValueError, KeyError) as error:
        why = getattr(error, "strerror", None) or in_one_line(error)
        raise StoreError(f"{path} cannot be read ({why}); {again}") from error
    return rows


def _n_left_out(grid: PromptsByIndex, dimension: str) -> int:
    """Count the narratives that a dimension does not ask about; for the mean over dimensions, that any leaves out."""
    if not isinstance(grid, PromptGrid):
        return 0
    return len({name for of, names in grid.left_out.items() if dimension in (of, OVERALL) for name in names})


def detectable(run: Path, plan: Planned) -> list[Detectable]:
    """Compute the smallest gap that a run detects if its ratings spread as in an earlier run of the same design.

    The standard error splits into a part that shrinks with more narratives, se₁²·N₁/N, and a rest: nothing in the scope
    of these identities; in wider scopes, how much identities or wordings differ. The rest belongs to the earlier run's
    identities and wordings, so their number must be that of the plan.
    """
    rows = _gaps_of(run)
    asked = {dimension.name for dimension in plan.grid.dimensions} | {OVERALL}
    rows = rows.loc[rows["dimension"].isin(asked)]
    statistics = plan.config.statistics
    power, alpha = statistics.power, 1 - statistics.confidence
    n_of_run = 0 if plan.grid.narratives is None else len(plan.grid.narratives.narratives)
    found = []
    for (dimension, variant), own in rows.groupby(["dimension", "variant"], sort=False):
        n = n_of_run - _n_left_out(plan.grid, str(dimension))
        if isinstance(plan.grid, PromptGrid) and plan.grid.own_stories:
            n = min(plan.grid.n_sets(each) for each in asked - {OVERALL} if str(dimension) in (each, OVERALL))
        narrow = own.loc[own["scope"] == "narratives"]
        if narrow.empty or not (narrow["se"].iloc[0] > 0) or n < 2:
            continue
        se, n_then = float(narrow["se"].iloc[0]), float(narrow["n_narratives"].iloc[0])
        for row in own.to_dict("records"):
            if not row["se"] > 0:
                continue
            rest = max(float(row["se"]) ** 2 - se**2, 0.0)
            alone = row["scope"] == "narratives"
            df = n - 1 if alone else max(float(row["df"]), 1.0)
            now = math.sqrt(rest + se**2 * n_then / n)
            wanted = statistics.wanted
            enough = None
            if wanted is not None:
                if alone:
                    enough = narratives_to_find(wanted, se * math.sqrt(n_then), power=power, alpha=alpha)
                else:
                    per_se = detectable_by(1.0, df, power=power, alpha=alpha)
                    spare = (wanted / per_se) ** 2 - rest
                    enough = math.inf if spare <= 0 else max(2, math.ceil(se**2 * n_then / spare))
                if math.isfinite(enough) and n < n_of_run:  # of the run's narratives this dimension asks about a part
                    enough = math.ceil(enough * n_of_run / n)
            found.append(
                Detectable(
                    str(dimension), str(variant), str(row["scope"]),
                    detectable_by(now, df, power=power, alpha=alpha), n, enough,
                )
            )  # fmt: skip
    return found


def subset(plan: Planned, share: float) -> str:
    """Name the override that takes a share of the narratives, or what else makes a run smaller."""
    assert plan.grid.narratives is not None
    by_emotion = Counter(each.emotion for each in plan.grid.narratives.narratives)
    most, n = max(by_emotion.values()), sum(by_emotion.values())
    # Emotions with fewer narratives keep all: find the largest number whose sum is within the share.
    each = max(
        (k for k in range(1, most + 1) if sum(min(k, own) for own in by_emotion.values()) <= share * n), default=0
    )
    if share >= 1:
        return "everything fits"
    if each:
        kept = sum(min(each, own) for own in by_emotion.values())
        return f"stimuli.situations_per_emotion={each} fits ({plural(kept, 'narrative')} of {n:,})"
    return (
        f"not even 1 narrative of each of {plural(len(by_emotion), 'emotion')} fits; choose fewer emotions, "
        "stimuli.emotions=[...], or fewer identities: dimensions=[...], stimuli.experiencer_terms=1"
    )
