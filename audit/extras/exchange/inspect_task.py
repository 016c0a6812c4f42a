"""The Inspect task ``audit/empathy_gap``: `inspect eval` asks our prompts of any provider that Inspect supports.

Inspect loads this module by the entry point in ``pyproject.toml``; no other module imports it. Messages are sent as
``prompts out=FILE.jsonl`` wrote them, and answers are read as `report` reads them, so the log's scores are the ratings
of the run that ``report answers=LOG.eval`` makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, mean, metric, scorer
from inspect_ai.solver import TaskState, generate

from audit.engines.inspect_log import generated
from audit.errors import AuditError
from audit.extras.exchange.asked import AskedRatings
from audit.tables.ratings import Status
from audit.tables.version import __version__
from stimuli.errors import StimulusError

_CONFIDENCE: Final = 0.95
_ROLES: Final = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
_REASONS: Final = {
    Status.REFUSED: "refusal",
    Status.UNPARSEABLE: "invalid_response_format",
    Status.FAILED: "no_response",
    Status.INEXACT: "invalid_response_format",
}
"""Why a prompt has no rating, in Inspect's vocabulary."""
_NOT_LABELS: Final = ("id", "messages", "system", "turns", "user", "begun")
_GOES_ON: Final = {"add_generation_prompt": False, "continue_final_message": True}


@task
def empathy_gap(prompts: str = "", begun: Literal["", "vllm", "native"] = "") -> Task:
    """Ask prompts that ``python -m audit prompts ... out=FILE.jsonl`` wrote, once each, at temperature 0.

    ``begun`` says how the provider continues a prefilled answer, if the prompts have one: ``vllm`` asks a vLLM server
    to, ``native`` relies on the provider to do so, as Anthropic does.
    """
    asked = _asked(prompts)
    return Task(
        dataset=MemoryDataset(
            [_sample(record) for record in asked.records()], name=f"empathy-audit {asked.export.id}", location=prompts
        ),
        solver=generate(),
        scorer=[intensity(prompts), outcome(prompts)],
        config=GenerateConfig(
            temperature=0.0, max_tokens=asked.max_tokens, extra_body=_extra_body(asked.plan.begun, begun)
        ),
        fail_on_error=False,  # a prompt without an answer is counted as missing; the others are still asked
        version=__version__,
        metadata={"prompts_sha256": asked.export.prompts_sha256},
    )


@metric
def delta() -> Metric:
    """δ in scale points in each dimension: in-group minus out-group, with its standard error and 95% interval.

    Uses the estimator of the report's headline, for these words only: a verdict may rest on a wider interval.
    Invented groups, a control, have no δ. Unscored samples are missing, never 0.
    """
    return _estimates(AskedRatings.gaps)


@metric
def disparity() -> Metric:
    """Each group's disparity D in scale points: the group minus the others, whoever perceives, as the report has it.

    Without perceivers there is no δ, and this is the result.
    """
    return _estimates(AskedRatings.disparities)


def _estimates(estimate: Callable[..., dict[str, float]]) -> Metric:
    # Inspect reads the annotation of `scores`: without it, it hands over another type.
    def estimated(scores: list[SampleScore]) -> Value:
        if not scores:
            return {}
        asked = _asked(str((scores[0].score.metadata or {})["prompts"]))
        rated = {asked.place(str(each.sample_id)): each.score.as_float() for each in scores}
        return dict(estimate(asked, rated, confidence=_CONFIDENCE))

    return estimated


@scorer(metrics=[delta(), disparity(), mean()])
def intensity(prompts: str) -> Scorer:
    """Read a rating in points of the scale; a prompt without a rating is unscored."""

    async def read(state: TaskState, target: Target) -> Score:
        status, points = _read(prompts, state)
        told = {"status": status.value, "prompts": prompts}
        if status is Status.RATED:
            return Score(value=points, answer=state.output.completion, metadata=told)
        return Score.unscored(reason=_REASONS[status], answer=state.output.completion, metadata=told)

    return read


@scorer(metrics={"*": [mean()]})
def outcome(prompts: str) -> Scorer:
    """Classify a prompt as rated, refused, unparseable, failed or inexact; the means are the shares of each."""

    async def read(state: TaskState, target: Target) -> Score:
        status, _ = _read(prompts, state)
        return Score(value={each.value: int(each is status) for each in Status}, answer=state.output.completion)

    return read


def _read(prompts: str, state: TaskState) -> tuple[Status, float]:
    asked = _asked(prompts)
    found = asked.read_answer(asked.place(str(state.sample_id)), generated(state.output))
    return found.status, found.intensity


@cache
def _asked(prompts: str) -> AskedRatings:
    if not prompts:
        raise PrerequisiteError(
            "audit/empathy_gap needs the prompts to ask: write them with `python -m audit prompts ... "
            "out=FILE.jsonl`, then give -T prompts=FILE.jsonl"
        )
    try:
        return AskedRatings.read(Path(prompts))
    except (AuditError, StimulusError) as error:
        raise PrerequisiteError(str(error)) from error


def _sample(record: dict[str, Any]) -> Sample:
    labels = {name: value for name, value in record.items() if name not in _NOT_LABELS}
    messages: list[ChatMessage] = [_ROLES[each["role"]](content=each["content"]) for each in record["messages"]]
    return Sample(id=record["id"], input=messages, metadata=labels)


def _extra_body(text: str, begun: str) -> dict[str, Any] | None:
    """Return the extra request fields that make a provider continue a prefilled answer."""
    if begun not in ("", "vllm", "native"):
        raise PrerequisiteError(f"-T begun={begun}: must be vllm or native")
    if not text:
        return None
    if not begun:
        raise PrerequisiteError(
            f"the answers are begun with {text!r}, the last message, and many providers do not continue it: give "
            "-T begun=vllm for a vLLM server, -T begun=native for a server that continues it by itself, or write "
            "the prompts with elicitation.prefill="
        )
    return _GOES_ON if begun == "vllm" else None
