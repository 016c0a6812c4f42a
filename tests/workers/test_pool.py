"""What becomes of jobs when workers answer, raise, die, or are heard of no more; the workers are scripted."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from audit.asking.workers.base import Job
from audit.asking.workers.pool import Beat, Ended, JobDone, Progressed, Raised, Ready, Worker, WorkerPool
from audit.engines.base import EngineFacts, Known
from audit.engines.local import LocalModel
from audit.engines.progress import Progress
from audit.engines.resolve import ModelFiles
from audit.errors import ModelError, WorkerError


def known(dtype="float32", **files):
    return Known(EngineFacts("scripted", "1", "cpu", dtype), LocalModel(ModelFiles(Path(), None), files), "a test")


class Scripted(Worker):
    """Does what a test says with each job, in a thread of its own as a process would."""

    def __init__(self, name, act, model=None):
        self.name, self.act = name, act
        self.model = known() if model is None else model
        self.stopped = self.let_end = False
        self.got = []

    def start(self, post):
        self.post = post
        post(Ready(self.model) if isinstance(self.model, Known) else self.model)

    def send(self, number, do):
        self.got.append(do)
        threading.Thread(target=self.act, args=(self, number, do)).start()

    def end(self):
        self.let_end = True

    def stop(self):
        self.stopped = True


def answers(worker, number, do):
    worker.post(Progressed(number, 1))
    worker.post(JobDone(number, (worker.name, do)))


def dies(worker, number, do):
    worker.post(Progressed(number, 1))
    worker.post(Ended("signal SIGKILL"))


def says_nothing(worker, number, do):
    pass


def only(name, act, otherwise=answers):
    """Act so on one job, and otherwise on others."""
    return lambda worker, number, do: (act if do == name else otherwise)(worker, number, do)


@pytest.fixture
def said():
    return []


@pytest.fixture
def pool(said):
    """Return a function that makes a pool of workers that act as given."""
    made = []

    def make(*acts, hang_s=60.0, models=()):
        workers = [Scripted(f"worker {k}", act) for k, act in enumerate(acts, start=1)]
        for worker, model in zip(workers, models, strict=False):
            worker.model = model
        made.append(WorkerPool(workers, hang_s=hang_s, say=said.append))
        return made[-1], workers

    yield make
    for each in made:
        each.close()


def course(name, written, n_steps=1, progress=None):
    """Do a shard in some steps; what each returned is written."""
    for step in range(n_steps):
        job = f"{name}.{step}" if n_steps > 1 else name
        written.append((name, (yield Job(job, job, lambda: lambda n: None))[1]))
    return name


def test_courses_are_done_once_each_and_their_steps_in_order(pool):
    workers, [first, second] = pool(answers, answers)
    written = []
    ended = list(workers.run(course(name, written, n_steps=3) for name in "abcdef"))
    assert sorted(ended) == list("abcdef")
    for name in "abcdef":
        assert [job for of, job in written if of == name] == [f"{name}.{step}" for step in range(3)]
    assert first.got
    assert second.got
    assert workers.ask(Job("one", "one", lambda: lambda n: None))[1] == "one"


def test_what_a_dead_worker_left_another_one_takes_over_and_it_is_named(pool, said):
    workers, [_, second] = pool(dies, answers)
    written = []
    assert sorted(workers.run(course(name, written) for name in "abc")) == list("abc")
    assert sorted(written) == [("a", "a"), ("b", "b"), ("c", "c")]
    assert sorted(second.got) == ["a", "b", "c"]
    assert said == ["note: worker 1 has ended at a: signal SIGKILL; 1 of 2 go on"]


def test_a_shard_that_ends_two_workers_is_named_and_not_tried_by_a_third(pool):
    acts = only("b", dies)
    workers, _ = pool(acts, acts, acts)
    written = []
    with pytest.raises(WorkerError, match=r"b ended 2 workers one after another \(worker \d: signal SIGKILL; worker"):
        list(workers.run(course(name, written) for name in "abcdefgh"))
    assert sum(worker.got.count("b") for worker in _) == 2


def test_without_workers_the_run_ends_and_says_that_it_can_go_on(pool):
    workers, _ = pool(dies)
    for _ in range(2):  # and it does not end as if all were done, when it is asked more
        with pytest.raises(WorkerError, match=r"all 1 .*SIGKILL.*same command to continue"):
            list(workers.run([course("a", [])]))


def test_a_worker_that_is_heard_of_no_more_is_stopped_and_its_shard_taken_over(pool, said):
    workers, [first, _] = pool(says_nothing, answers, hang_s=0.3)
    assert sorted(workers.run(course(name, []) for name in "ab")) == list("ab")
    assert first.stopped
    assert said[0].startswith("note: worker 1 has ended at a: it did not respond for ")


def lives(seconds, ends):
    """Beat for a while, and then do something."""

    def act(worker, number, do):
        over = threading.Event()
        for _ in range(int(seconds / 0.05)):
            worker.post(Beat())
            if ends == "progress":
                worker.post(Progressed(number, 1))
            over.wait(0.05)
        answers(worker, number, do)

    return act


def test_a_worker_that_lives_and_answers_nothing_is_stopped_too(pool, said):
    workers, [first, _] = pool(lives(3, "nothing"), answers, hang_s=0.5)
    assert sorted(workers.run(course(name, []) for name in "ab")) == list("ab")
    assert first.stopped
    assert "it answered no prompt within" in said[0]
    assert "engine.hang_s=0.5" in said[0]


def test_a_slow_shard_that_goes_on_is_waited_for(pool, said):
    workers, [first] = pool(lives(1.5, "progress"), hang_s=0.5)
    assert list(workers.run([course("a", [])])) == ["a"]
    assert not first.stopped
    assert said == []


def test_a_worker_is_waited_for_without_end_where_that_is_asked(pool):
    workers, [first] = pool(lives(0.6, "nothing"), hang_s=None)
    assert list(workers.run([course("a", [])])) == ["a"]
    assert not first.stopped


def test_at_the_end_who_is_idle_may_end_and_who_is_not_is_stopped(pool):
    workers, both = pool(answers, only("b", says_nothing))
    courses = workers.run(course(name, []) for name in "ab")
    assert next(courses) == "a"
    workers.close()
    assert [(each.let_end, each.stopped) for each in both] == [(True, False), (False, True)]


def raises(error):
    return lambda worker, number, do: worker.post(Raised(number, error))


def test_an_error_of_the_user_s_ends_the_run_once_and_no_worker(pool, said):
    workers, _ = pool(*[raises(ModelError("the template cannot show it"))] * 2)
    with pytest.raises(ModelError, match="the template cannot show it"):
        list(workers.run(course(name, []) for name in "abc"))
    assert said == []


def test_what_a_run_that_was_given_up_had_asked_is_not_taken_for_an_answer_to_another(pool):
    """A check that an engine cannot make is left out, and the next one asked by the same workers."""
    go_on = threading.Event()

    def late(worker, number, do):
        go_on.wait(5)
        answers(worker, number, do)

    workers, _ = pool(only("a", raises(NotImplementedError("cannot write")), only("b", late)), only("b", late))
    with pytest.raises(NotImplementedError):
        list(workers.run(course(name, []) for name in "ab"))
    written = []
    threading.Timer(0.3, go_on.set).start()
    assert sorted(workers.run(course(name, written) for name in "cde")) == list("cde")
    assert sorted(written) == [("c", "c"), ("d", "d"), ("e", "e")]


def test_an_error_is_raised_where_the_job_was_yielded(pool):
    workers, _ = pool(only("a", raises(NotImplementedError("cannot write"))))

    def careful():
        try:
            yield Job("a", "a", lambda: lambda n: None)
        except NotImplementedError:
            return (yield Job("b", "b", lambda: lambda n: None))

    assert list(workers.run([careful()])) == [("worker 1", "b")]


def test_workers_with_other_models_are_refused_before_anything_is_asked():
    for other, said in (
        (known(dtype="bfloat16"), "dtype is 'float32' in worker 1 and 'bfloat16' in worker 2"),
        (known(weights="other"), "model_files is"),
    ):
        workers = [Scripted("worker 1", answers), Scripted("worker 2", answers, other)]
        with pytest.raises(WorkerError, match="the workers do not run the same model") as refused:
            WorkerPool(workers, hang_s=None, say=lambda line: None)
        assert said in str(refused.value)
        assert [worker.got for worker in workers] == [[], []]
        assert all(worker.stopped or worker.let_end for worker in workers)


def test_a_model_that_cannot_be_opened_ends_the_run_and_a_worker_that_dies_of_it_does_not():
    failed, said = Raised(None, ModelError("no weights")), []
    workers = [Scripted("worker 1", answers, failed), Scripted("worker 2", answers, failed)]
    with pytest.raises(ModelError, match="no weights"):
        WorkerPool(workers, hang_s=None, say=said.append)
    assert said == []
    assert all(worker.stopped for worker in workers)
    workers = [Scripted("worker 1", answers, Ended("signal SIGKILL")), Scripted("worker 2", answers)]
    with WorkerPool(workers, hang_s=None, say=said.append) as pool:
        assert list(pool.run([course("a", [])])) == ["a"]
    assert said == ["note: worker 1 has ended while it opened the model: signal SIGKILL; 1 of 2 go on"]


def test_what_a_dead_worker_had_answered_of_a_shard_is_not_counted_twice(pool):
    def half(worker, number, do):
        worker.post(Progressed(number, 7))
        worker.post(Ended("signal SIGKILL"))

    def whole(worker, number, do):
        worker.post(Progressed(number, 4))
        seen.append(None)
        worker.post(JobDone(number, ("x", do)))

    seen, stream = [], io.StringIO()
    workers, _ = pool(half, only("b", says_nothing, whole), hang_s=60)
    shown = []
    with Progress(10, stream=stream) as progress:

        def counted():
            with progress.part(10) as part:

                def watch():
                    done = part.call()

                    def told(n):
                        done(n)
                        shown.append(str(progress).split(",")[0])

                    return told

                yield Job("a", "a", watch)

        list(workers.run([counted()]))
    assert shown == ["7 of 10 prompts", "4 of 10 prompts"]
