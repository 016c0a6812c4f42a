"""Jobs for a model, the courses that they are steps of, and the worker that is this process itself.

A *course* is a generator of the writer's: it yields a job, is sent what the job returned, writes it, and yields the
next one. So one text says what becomes of a shard, whoever asks the model; and with several workers several courses
are under way, each at its own step. A job is a function of a module with small arguments, so that it can be pickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar

from audit.engines.base import Done, Keeps, Kept, Known, OpenModel

T = TypeVar("T")

Do: TypeAlias = Callable[[Any, OpenModel, Done], Any]
"""Asks a model: takes what all jobs of a run share, the model, and what is told how many more prompts are done."""


@dataclass(frozen=True)
class Job:
    """What a worker does in one piece.

    Attributes
    ----------
    part
        The part of the run that it is, in words: the engine has forgotten what came before it, and a server's answers
        are kept under that name until it is whole.
    do
        Does it; a function of a module, or a partial one, that can be pickled with its arguments.
    watch
        Called when it is begun, and when it is begun anew by another worker; returns what is told how far it is. It
        stays in this process.
    """

    part: str
    do: Do
    watch: Callable[[], Done]


Course: TypeAlias = Generator[Job, Any, T]
"""Yields jobs, is sent what each returned, and returns what it came to. An error of a job is raised at its yield."""


class Workers(ABC):
    """Those who ask one model; use as a context manager, which ends them.

    Attributes
    ----------
    n
        How many there were at first.
    """

    n: int

    @property
    @abstractmethod
    def known(self) -> Known:
        """What the model is."""

    @abstractmethod
    def run(self, courses: Iterable[Course[T]]) -> Iterator[T]:
        """Take courses, as many at a time as there are workers, and yield what each came to, as they end.

        Raises
        ------
        ModelError
            If a job cannot be done, or no worker is left to do it.
        Exception
            Whatever a course raises.
        """

    def ask(self, job: Job) -> Any:
        """Have one job done, and return what it returns."""

        def course() -> Course[Any]:
            return (yield job)

        return next(iter(self.run([course()])))

    @abstractmethod
    def close(self) -> None:
        """End the workers; those of this process keep the model that they opened."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()


class Here(Workers):
    """The process of the command itself, alone.

    Parameters
    ----------
    model
        Asked.
    shared
        What all jobs share.
    keep
        Returns what keeps the answers of a part of the run, for an engine that has them kept.
    """

    def __init__(self, model: OpenModel, shared: object, keep: Callable[[str], Kept]) -> None:
        self.n = 1
        self._model, self._shared, self._keep = model, shared, keep

    @property
    def known(self) -> Known:
        """See :class:`Workers`."""
        return self._model.known

    def run(self, courses: Iterable[Course[T]]) -> Iterator[T]:
        """See :class:`Workers`: one course after another."""
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
        """Do a job, and return what has its course go on."""
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
