"""Workers on the machines of a Ray cluster.

Ray finds the machines, assigns each worker its GPUs and reports lost ones. It places a relay: an actor that starts the
same process as :mod:`audit.asking.workers.local` on its machine and passes messages on. So each model has a process of
its own, is watched in the same way, and its end comes with the same reason and log.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from audit.asking.progress import Say
from audit.asking.workers.base import Do
from audit.asking.workers.local import END_WITHIN, LocalWorker
from audit.asking.workers.pool import Ended, Event, Post, Raised, Ready, Worker, WorkerPool
from audit.asking.workers.serve import Opening
from audit.configuration.engine import EngineConfig
from audit.errors import ModelError, WorkerError
from audit.tables.formatting import plural
from audit.tables.version import __version__
from stimuli.errors import in_one_line

LISTEN_FOR: Final = 1.0  # longest wait of a relay for a message, in seconds
STOP_WITHIN: Final = 5.0  # seconds that a relay has to end its worker before it is killed itself


class Relay:
    """The actor that starts a worker on its machine and passes on messages in both directions."""

    def __init__(self, number: int, version: str, environment: Mapping[str, str], opening: bytes) -> None:
        self._node = os.uname().nodename
        self._events: queue.Queue[Event] = queue.Queue()
        self._worker: LocalWorker | None = None
        if version != __version__:
            said = (
                f"node {self._node} has empathy-audit {__version__}, but this machine has {version}; install the same "
                "version"
            )
            self._events.put(Raised(None, WorkerError(said)))
            return
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        on = f"node {self._node}, {f'GPU {gpus}' if gpus else 'CPU'}, actor {os.getpid()}"
        log = Path(tempfile.mkdtemp(prefix="empathy-audit-")) / f"engine-{number}.log"
        self._worker = LocalWorker(number, on, environment, opening, log=log, stream=log.open("ab"))
        self._worker.start(self._events.put)

    def hand(self, message: bytes) -> None:
        """Pass on a message; see :class:`audit.asking.workers.local.LocalWorker`."""
        assert self._worker is not None
        self._worker.hand(message)

    def end(self) -> None:
        """Let the worker end."""
        if self._worker is not None:
            self._worker.end()

    def stop(self) -> None:
        """Stop the worker."""
        if self._worker is not None:
            self._worker.stop()

    def hear(self) -> bytes:
        """Return the worker's messages since the last call, pickled; waits briefly for one."""
        heard: list[Event] = []
        with contextlib.suppress(queue.Empty):
            heard.append(self._events.get(timeout=LISTEN_FOR))
            while True:
                heard.append(self._events.get_nowait())
        return pickle.dumps([self._named(event) for event in heard])

    def _named(self, event: Event) -> Event:
        """Add the machine to messages that may depend on it."""
        if isinstance(event, Ready) and self._worker is not None:
            return replace(event, name=self._worker.name)
        if isinstance(event, Raised) and isinstance(event.error, ModelError) and event.job is None:
            return Raised(None, ModelError(f"node {self._node}: {event.error}"))
        return event


class RayWorker(Worker):
    """A worker that Ray places, on ``num_cpus`` CPUs and ``num_gpus`` GPUs."""

    def __init__(
        self, ray: Any, number: int, environment: Mapping[str, str], opening: bytes, *, num_cpus: int, num_gpus: int
    ) -> None:
        self.name = f"replica {number} (not placed yet)"
        self._ray, self._number = ray, number
        self._made = (number, __version__, dict(environment), opening)
        # one call waits for messages while another hands over a job
        self._options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_restarts": 0, "max_concurrency": 2}
        self._actor: Any = None

    def start(self, post: Post) -> None:
        """See :class:`Worker`."""
        self._actor = self._ray.remote(Relay).options(**self._options).remote(*self._made)
        threading.Thread(target=self._listen, args=(post,), daemon=True).start()

    def _listen(self, post: Post) -> None:
        while True:
            try:
                heard: list[Event] = pickle.loads(self._ray.get(self._actor.hear.remote()))
            except Exception as error:  # whatever Ray raises for a lost actor or cluster
                post(Ended(in_one_line(error)[:300] or type(error).__name__))
                return
            for event in heard:
                post(event)
            if any(isinstance(event, Ended) for event in heard):
                return

    def send(self, number: int, do: Do) -> None:
        """See :class:`Worker`."""
        self._actor.hand.remote(pickle.dumps((number, do)))

    def end(self) -> None:
        """See :class:`Worker`."""
        self._finish("end", 2 * END_WITHIN)

    def stop(self) -> None:
        """See :class:`Worker`."""
        self._finish("stop", STOP_WITHIN)

    def _finish(self, how: str, within: float) -> None:
        """Let the relay end its worker, then kill the relay."""
        if self._actor is None:
            return
        # The relay may have gone or not be placed yet, and the cluster may have gone.
        with contextlib.suppress(Exception):
            self._ray.get(getattr(self._actor, how).remote(), timeout=within)
        with contextlib.suppress(Exception):
            self._ray.kill(self._actor)


class RayPool(WorkerPool):
    """Workers of a cluster; disconnects from it when they end."""

    def close(self) -> None:
        """See :class:`WorkerPool`."""
        super().close()
        import ray

        ray.shutdown()


def check_installed(engine: EngineConfig) -> Any:
    """Import Ray; raises WorkerError if it is not installed, or the model is on a server, which needs none."""
    if engine.name == "openai":
        raise WorkerError("engine=ray runs models on the cluster's machines; for a server, use engine=openai")
    try:
        import ray
    except ImportError as error:
        raise WorkerError("engine=ray: Ray is not installed; pip install 'empathy-audit[ray]'") from error
    return ray


def connect(engine: EngineConfig) -> Any:
    """Connect Ray to the configured cluster, or start one on this machine."""
    assert engine.ray is not None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns that its default will change
    ray = check_installed(engine)
    address = engine.ray.address
    here = {} if address is not None or "RAY_ADDRESS" in os.environ else _of_this_machine()
    try:
        ray.init(**{"address": address, **here}, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # gRPC and Ray raise many kinds
        why = in_one_line(error)[:200]
        raise WorkerError(
            f"engine.ray.address={address}: no Ray cluster can be reached there ({why}); give the address of a "
            "running cluster, or null for this machine"
        ) from error
    return ray


def _of_this_machine() -> dict[str, Any]:
    """Return the settings of a cluster on this machine, whose workers find the same packages as this process."""
    found = os.pathsep.join(path for path in sys.path if path)
    return {"address": "local", "include_dashboard": False, "runtime_env": {"env_vars": {"PYTHONPATH": found}}}


def share_out(ray: Any, engine: EngineConfig, wanted: int | str) -> tuple[int, int]:
    """Return how many workers the cluster is to have and how many GPUs each gets; WorkerError if it is too small."""
    assert engine.ray is not None
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return fit(nodes, engine, wanted)


def fit(nodes: Sequence[Mapping[str, float]], engine: EngineConfig, wanted: int | str) -> tuple[int, int]:
    """Compute :func:`share_out` from the machines' resources. A worker's GPUs are all on one machine."""
    assert engine.ray is not None
    on_gpus = engine.device in ("auto", "cuda") and any(node.get("GPU", 0) for node in nodes)
    each, kind = (engine.tensor_parallel_size, "GPU") if on_gpus else (engine.ray.num_cpus, "CPU")
    most = sum(int(node.get(kind, 0)) // each for node in nodes)
    n = most if wanted == "auto" else int(wanted)
    if not 1 <= n <= most:
        setting = "engine.tensor_parallel_size" if on_gpus else "engine.ray.num_cpus"
        raise WorkerError(
            f"engine.replicas={wanted}: Ray's cluster has room for {most} of {setting}={each} on its {kind}s; ask "
            f"for at most {most}, or add machines"
        )
    return n, each if on_gpus else 0


def open_pool(
    ray: Any, opening: Opening, engine: EngineConfig, *, n_shards: int | None, say: Say, shown: str
) -> WorkerPool:
    """Have workers on a cluster open a model; the cluster is disconnected when they end."""
    assert engine.ray is not None
    try:
        n, gpus = share_out(ray, engine, engine.replicas)
        n = min(n, max(n_shards, 1)) if n_shards is not None else n
        # Resolve the folder here, since a worker may start elsewhere.
        folder = Path(opening.model.path).expanduser()
        path = str(folder.resolve()) if folder.is_dir() else opening.model.path
        pickled = pickle.dumps(replace(opening, model=opening.model.model_copy(update={"path": path})))
        cpus = engine.ray.num_cpus
        environment = {} if gpus else {"OMP_NUM_THREADS": str(cpus), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        say(f"loading {shown} in {plural(n, 'actor')} of a Ray cluster ...")
        workers = [
            RayWorker(ray, number, environment, pickled, num_cpus=cpus, num_gpus=gpus) for number in range(1, n + 1)
        ]
    except BaseException:
        ray.shutdown()
        raise
    return RayPool(workers, hang_s=engine.hang_s, say=say)
