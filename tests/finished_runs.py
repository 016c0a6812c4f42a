"""Finished runs that files of tests share, each made once in a session by the worker that needs it first.

A test takes one by the fixture ``finished_run``, or ``finished_model_run`` where a model makes it, and reads it or
works in a copy: that nothing was written to it is checked at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from drawing import every_format
from runs import FOUR_RELIGIONS, scripted_models

from audit.cli.main import main

Words = tuple[str, ...]

QUIET: Final = ("elicitation.noise_sample=0", "elicitation.manipulation=0")
RATINGS: Final = (
    "engine=transformers", "engine.device=cpu", "elicitation=expected", "elicitation.max_pruned_points=0.05",
    "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]", *FOUR_RELIGIONS, "elicitation.check_sample=0",
    *QUIET, "statistics.n_permutations=200", "shard_size=7",
)  # fmt: skip
"""50 prompts: 5 perceivers, 5 experiencers, 2 narratives."""
STAGES: Final = (
    "model.path=scripted", "elicitation=generate", "dimensions=[religion]", "stimuli.unspecified=true",
    "stimuli.emotions=[sad,happy]", "stimuli.situations_per_emotion=1", "stimuli.perceiver_terms=1",
    "stimuli.experiencer_terms=1", "stimuli.placebo=[invented_1]", "stimuli.placebo_terms=1",
    "statistics.n_permutations=100", *QUIET, "stimuli.identities=geneva", "stimuli.pairs=all",
)  # fmt: skip
TINY: Final = ("engine=transformers", "engine.device=cpu", "model.name=tiny", "model.dtype=float32")
REPLIES: Final = (
    "task=reply", *TINY, *FOUR_RELIGIONS, "stimuli.emotions=[sad,happy]", "stimuli.unspecified=false",
    "stimuli.situations_per_emotion=1", "task.max_tokens=12", "statistics.n_permutations=200", "shard_size=10",
    "measures.names=[lexical,emotion,diversity,epitome,bertscore]",
)  # fmt: skip
JUDGED: Final = (
    "task=reply", *TINY, *FOUR_RELIGIONS, "stimuli.unspecified=false", "task.max_tokens=8",
    "measures.names=[lexical,judge]", "measures.judge.max_model_len=2048", "shard_size=20",
)  # fmt: skip
"""Without narratives, and without the judge's model."""
FOUR_SAD: Final = ("stimuli.emotions=[sad]", "stimuli.situations_per_emotion=4")
AFFECT: Final = (
    "task=inventory", *TINY, "shard_size=40", *FOUR_RELIGIONS, "stimuli.unspecified=false",
    "stimuli.emotions=[sad,happy]", "elicitation=expected", "stimuli.situations_per_emotion=1",
)  # fmt: skip


def scripted() -> Any:
    """Return the scripted model of ``test_planted_strategy``."""
    from test_planted_strategy import Scripted

    return Scripted()


@dataclass(frozen=True)
class Recipe:
    """How a run is made.

    Attributes
    ----------
    words
        What ``run`` is given besides the folder; of a model's run its folder is given, too.
    engine
        Makes a scripted model; None: a tiny model makes the run.
    judge
        Whether the tiny model is its own judge.
    drawn
        Whether figures are drawn, in every format.
    """

    words: Words
    engine: Callable[[], Any] | None = None
    judge: bool = False
    drawn: bool = False

    def command(self, model: Path | None) -> list[str]:
        """Return the words of the command."""
        of_model = [] if model is None else [f"model.path={model}", *([f"measures.judge.model={model}"] * self.judge)]
        return ["run", *of_model, *self.words, "run_dir=run"]


RUNS: Final[Mapping[str, Recipe]] = {
    "ratings": Recipe(RATINGS, drawn=True),
    "stages": Recipe((*STAGES, "strategy=two-stage", "shard_size=20", "elicitation.noise_sample=4"), engine=scripted),
    "replies": Recipe(REPLIES),
    "judged-replies": Recipe((*JUDGED, *FOUR_SAD, "measures.judge.own_gap=2"), judge=True),
    "affect": Recipe(AFFECT, drawn=True),
}


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this session see."""
    own = factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that ``make`` fills, in this process or in another one that was first."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            begun = place.with_name(f"{place.name}.begun")
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            make(begun)
            begun.rename(place)
    return place


def digests(folder: Path) -> dict[str, str]:
    """Return what all files of a folder hold, by their places; whoever opens a run takes its lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def library(folder: Path, audit_in: Callable[..., int], model: Path | None) -> Iterator[Callable[[str], Path]]:
    """Yield what gives the folder of a run by name, and check at the end that each is as it was made."""
    taken: set[str] = set()

    def digests_of(name: str) -> Path:
        return folder / f"{name}.digests.json"

    def made(name: str) -> Path:
        taken.add(name)
        return made_once(folder / name, lambda place: make(name, place)) / "run"

    def make(name: str, place: Path) -> None:
        recipe = RUNS[name]
        if recipe.engine is None:
            with every_format() if recipe.drawn else _without_figures():
                assert audit_in(place, *recipe.command(model)) == 0
        else:
            with scripted_models(place) as load:
                load(recipe.engine())
                assert main(recipe.command(model)) == 0
        digests_of(name).write_text(json.dumps(digests(place / "run")), "utf-8")

    yield made
    changed = [name for name in sorted(taken) if digests(made(name)) != json.loads(digests_of(name).read_text("utf-8"))]
    assert not changed, f"tests wrote to finished runs that others read: {changed}; let them take a copy"


@contextlib.contextmanager
def _without_figures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
        patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
        yield
