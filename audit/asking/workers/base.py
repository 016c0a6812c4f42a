"""Jobs for a model, the courses that they are steps of, and the worker that is this process.

A *course* is a generator of the writer: it yields a job, is sent its result, stores it, and yields the next one. So one
piece of code handles a shard, whoever asks the model; with several workers, several courses are under way, each at its
own step. A job is a module-level function with small arguments, so that it can be pickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar

from audit.engines.base import AnswerStore, Done, Keeps, Known, OpenModel

T = TypeVar("T")

Do: TypeAlias = Callable[[Any, OpenModel, Done], Any]
"""Asks a model, given what all jobs of a run share, the model, and a callback for the number of prompts done."""


@dataclass(frozen=True)
class Job:
    """A piece of work for one worker."""

    # The part of the run. The engine forgets what came before it, and a server's answers are kept under this name until
    # the part is complete.
    part: str
    do: Do  # picklable with its arguments: a module-level or partial function
    # called in this process whenever a worker begins the job, also a second one; returns progress's callback
    watch: Callable[[], Done]


Course: TypeAlias = Generator[Job, Any, T]
"""Yields jobs, is sent each result, and returns its own. A job's error is raised at its yield."""


class Workers(ABC):
    """The workers that ask one model; a context manager, which closes them. ``n`` is how many there were at first."""

    n: int

    @property
    @abstractmethod
    def known(self) -> Known:
        """What the model is."""

    @abstractmethod
    def run(self, courses: Iterable[Course[T]]) -> Iterator[T]:
        """Run courses, as many at once as there are workers, and yield their results as they end."""

    def ask(self, job: Job) -> Any:
        """Run a single job and return its result."""

        def course() -> Course[Any]:
            return (yield job)

        return next(iter(self.run([course()])))

    @abstractmethod
    def close(self) -> None:
        """Close the workers; a model opened by this process stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Here(Workers):
    """The process of the command as the only worker."""

    def __init__(self, model: OpenModel, shared: object, keep: Callable[[str], AnswerStore]) -> None:
        self.n = 1
        self._model, self._shared, self._keep = model, shared, keep

    @property
    def known(self) -> Known:
        """See :class:`Workers`."""
        return self._model.known

    def run(self, courses: Iterable[Course[T]]) -> Iterator[T]:
        """See :class:`Workers`. Runs one course after another."""
        for course in courses:
            step: Callable[[], Job] = course.__next__
            while True:
                try:
                    job = step()
                except StopIteration as end:
                    yield end.value
                    break
                step = self._step(course, job)

    def _step(self, course: Course[T], job: Job) -> Callable[[], Job]:
        """Run a job, and return the function that resumes its course."""
        engine = self._model.engine
        try:
            engine.forget()
            if isinstance(engine, Keeps):
                engine.keep_in(self._keep(job.part))
            done = job.do(self._shared, self._model, job.watch())
        except Exception as error:
            raised = error
            return lambda: course.throw(raised)
        return lambda: course.send(done)

    def close(self) -> None:
        """See :class:`Workers`."""
        if isinstance(self._model.engine, Keeps):
            self._model.engine.keep_in(None)
