"""Runs several workers at once: a free worker takes the next job, and also the job of a worker that died.

A worker that died is not restarted: the lack of memory or faulty GPU that ended it is still there and would cost the
same shard's time twice. The others carry on. Running the same command again starts all of them afresh.
"""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from audit.asking.progress import Say, beside_bars
from audit.asking.workers.base import Course, Do, Job, Workers
from audit.engines.base import Done, Known, unwatched
from audit.errors import AuditError, WorkerError

T = TypeVar("T")

BEATS: Final = 120.0  # seconds without a sign of life after which a worker is stopped; it sends one about every second
LEAST_LOOK: Final = 1.0  # longest wait between two checks for silent workers, in seconds
MOST_ENDED: Final = 2  # the run ends after one job has ended this many workers


@dataclass(frozen=True)
class Beat:
    """A sign of life."""


@dataclass(frozen=True)
class Ready:
    """A worker has opened the model; ``name``, if any, renames the worker."""

    known: Known
    name: str = ""


@dataclass(frozen=True)
class Progressed:
    """``n`` more prompts of a job are done."""

    job: int
    n: int


@dataclass(frozen=True)
class JobDone:
    """A job is done."""

    job: int
    answer: Any


@dataclass(frozen=True)
class Raised:
    """A job, or opening the model if ``job`` is None, ended in an error that the user can fix or an engine limit."""

    job: int | None
    error: Exception


@dataclass(frozen=True)
class Ended:
    """A worker has died, with the reason."""

    why: str


Event = Beat | Ready | Progressed | JobDone | Raised | Ended  # a message about a worker
Post = Callable[[Event], None]  # takes the messages about one worker; may be called from any thread


class Worker(ABC):
    """One worker, as the writer sees it; messages call it by its ``name``, its number and devices."""

    name: str

    @abstractmethod
    def start(self, post: Post) -> None:
        """Start it; its messages go to ``post``, the last one being :class:`Ended`."""

    @abstractmethod
    def send(self, number: int, do: Do) -> None:
        """Hand it a job without waiting."""

    @abstractmethod
    def end(self) -> None:
        """Let an idle worker free its resources and exit."""

    @abstractmethod
    def stop(self) -> None:
        """Kill it and its children at once, whatever it does; it may have died before."""


class _Task(Generic[T]):
    """A course and the job that it waits for."""

    def __init__(self, course: Course[T], job: Job) -> None:
        self.course, self.job = course, job
        self.ended: list[str] = []  # why workers died at this job
        self.done: Done = unwatched


class _State:
    """What is known of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.heard = self.moved = time.monotonic()
        self.known: Known | None = None
        self.job: int | None = None  # number of its current job
        self.task: _Task[Any] | None = None  # the job's task; None if nobody waits for the answer any more


class WorkerPool(Workers):
    """Several workers; one that answers no prompt for ``hang_s`` seconds is stopped."""

    def __init__(self, workers: Sequence[Worker], *, hang_s: float | None, say: Say) -> None:
        self.n = len(workers)
        self._hang_s, self._say = hang_s, beside_bars(say)
        self._events: queue.Queue[tuple[_State, Event]] = queue.Queue()
        self._states = [_State(worker) for worker in workers]
        self._n_jobs = 0
        self._last = ""
        self._known: Known | None = None
        try:
            for state in self._states:
                state.worker.start(partial(self._post, state))
            self._wait_for_all()
        except BaseException:
            self.close()
            raise

    @property
    def known(self) -> Known:
        """See :class:`Workers`."""
        assert self._known is not None
        return self._known

    def _post(self, state: _State, event: Event) -> None:
        self._events.put((state, event))

    def _wait_for_all(self) -> None:
        """Wait until each worker opened the model or died: answers of another model could not be told from the rest."""
        while any(state.known is None for state in self._states):
            state, event = self._next_event()
            match event:
                case Ready(known, name):
                    state.known, state.worker.name = known, name or state.worker.name
                    self._check_same(state, known)
                case Raised(_, error):
                    raise error
                case Ended(why):
                    self._bury(state, why, at="while it opened the model")
                case _:
                    pass
        if self._known is None:
            raise self._nobody()

    def _check_same(self, state: _State, known: Known) -> None:
        """Raise WorkerError if a worker's model differs from the others'."""
        if self._known is None:
            self._known = known
            return
        said, here = ({**asdict(each.facts), **each.source.identity()} for each in (self._known, known))
        other = next(each for each in self._states if each.known is not None)
        for name, value in said.items():
            if here.get(name) != value:
                raise WorkerError(
                    f"the workers do not run the same model: {name} is {value!r} in {other.worker.name} and "
                    f"{here.get(name)!r} in {state.worker.name}; give every worker the same files, packages and devices"
                )

    def run(self, courses: Iterable[Course[T]]) -> Iterator[T]:
        """See :class:`Workers`."""
        coming, waiting = deque(courses), deque[_Task[T]]()
        if not self._states:
            raise self._nobody()
        try:
            while True:
                yield from self._hand_out(waiting, coming)
                if not (waiting or coming or any(state.task for state in self._states)):
                    return
                state, event = self._next_event()
                task = state.task
                match event:
                    case Progressed(number, n) if task is not None and number == state.job:
                        task.done(n)
                    case JobDone(number, _) | Raised(number, _) if number == state.job:
                        state.job = state.task = None
                        if task is not None:
                            yield from self._go_on(task, event, waiting)
                    case Ended(why):
                        self._bury(state, why, at=f"at {task.job.part}" if task is not None else "")
                        if task is not None:
                            waiting.appendleft(task)
                            task.ended.append(f"{state.worker.name}: {why}")
                            self._check_goes_on(task)
                        if not self._states:
                            raise self._nobody()
                    case _:
                        pass
        finally:
            for state in self._states:
                if state.task is not None:
                    waiting.append(state.task)
                state.task = None
            for left in waiting:
                left.course.close()

    def _hand_out(self, waiting: deque[_Task[T]], coming: deque[Course[T]]) -> Iterator[T]:
        """Give free workers the waiting jobs, then new courses; yield the results of courses without jobs."""
        for state in self._states:
            while state.job is None and not waiting and coming:
                course = coming.popleft()
                try:
                    waiting.append(_Task(course, next(course)))
                except StopIteration as end:
                    yield end.value
            if state.job is None and waiting:
                task = waiting.popleft()
                self._n_jobs += 1
                state.job, state.task, task.done = self._n_jobs, task, task.job.watch()
                state.heard = state.moved = time.monotonic()
                state.worker.send(self._n_jobs, task.job.do)

    def _go_on(self, task: _Task[T], event: JobDone | Raised, waiting: deque[_Task[T]]) -> Iterator[T]:
        """Resume a course with its job's answer or error: queue its next job first, or yield its result."""
        course = task.course
        try:
            task.job = course.send(event.answer) if isinstance(event, JobDone) else course.throw(event.error)
        except StopIteration as end:
            yield end.value
        else:
            task.ended = []
            waiting.appendleft(task)

    def _next_event(self) -> tuple[_State, Event]:
        """Return the next message; a worker that has gone silent counts as ended."""
        while True:
            if (hung := self._hung()) is not None:
                return hung
            try:
                state, event = self._events.get(timeout=LEAST_LOOK)
            except queue.Empty:
                continue
            if state not in self._states:  # it was given up
                continue
            state.heard = time.monotonic()
            if not isinstance(event, Beat):
                state.moved = state.heard
                return state, event

    def _hung(self) -> tuple[_State, Event] | None:
        """Stop a worker that has been silent for too long, and return that as its end."""
        now, limit = time.monotonic(), self._hang_s
        if limit is None:
            return None
        for state in self._states:
            # Importing a library or reading weights may block a whole process.
            at_work = state.job is not None
            why = ""
            if now - state.heard > (min(BEATS, limit) if at_work else limit):
                why = f"it did not respond for {now - state.heard:.0f} s"
            elif at_work and now - state.moved > limit:
                why = f"it answered no prompt within {now - state.moved:.0f} s (engine.hang_s={limit:g})"
            if why and self._events.empty():
                state.worker.stop()
                return state, Ended(f"{why}, and it was stopped")
        return None

    def _bury(self, state: _State, why: str, *, at: str) -> None:
        """Remove a dead worker, and tell the user."""
        state.worker.stop()
        self._states.remove(state)
        self._last = f"{state.worker.name}: {why}"
        left = f"{len(self._states)} of {self.n} go on" if self._states else "none is left"
        self._say(f"note: {state.worker.name} has ended{f' {at}' if at else ''}: {why}; {left}")

    def _check_goes_on(self, task: _Task[Any]) -> None:
        """Raise WorkerError if a job has ended too many workers."""
        if len(task.ended) >= MOST_ENDED:
            raise WorkerError(
                f"{task.job.part} ended {len(task.ended)} workers one after another ({'; '.join(task.ended)}) and "
                "is not tried again; what was collected is kept: fix the cause, then run the same command to continue"
            )

    def _nobody(self) -> AuditError:
        return WorkerError(
            f"all {self.n} workers have ended (last: {self._last}); what was collected is kept: run the same "
            "command to continue"
        )

    def close(self) -> None:
        """See :class:`Workers`."""
        states, self._states = self._states, []
        idle = [state for state in states if state.known is not None and state.job is None]
        ends = [*(s.worker.end for s in idle), *(s.worker.stop for s in states if s not in idle)]
        if ends:
            with ThreadPoolExecutor(len(ends)) as together:
                for each in [together.submit(end) for end in ends]:
                    each.result()
