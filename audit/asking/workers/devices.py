"""Assigns devices to the workers of this machine: GPUs of their own, or a share of the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from audit.configuration.schema import EngineConfig
from audit.errors import WorkerError
from audit.tables.formatting import plural

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Share:
    """What one worker computes on."""

    on: str  # for messages
    environment: dict[str, str]  # variables to set before it imports anything


def shares(engine: EngineConfig, name: str) -> list[Share]:
    """Return the devices of each worker; WorkerError if there are too few GPUs."""
    from audit.engines.hardware import has_gpu
    from audit.engines.transformers import choose_device

    wanted = engine.replicas
    device = choose_device(engine.device) if name == "transformers" else "cuda" if has_gpu() else "cpu"
    if device == "cuda":
        return of_gpus(visible_gpus(), wanted, each=engine.tensor_parallel_size)
    if device == "mps" and wanted not in (1, "auto"):
        raise WorkerError(f"engine.replicas={wanted}: this machine has one GPU ({device}); leave engine.replicas=1")
    return of_cpu(1 if wanted == "auto" else wanted)


def of_gpus(gpus: Sequence[str], wanted: int | str, *, each: int) -> list[Share]:
    """Give each worker ``each`` GPUs; with ``auto``, make as many workers as the GPUs allow."""
    most = len(gpus) // each
    n = most if wanted == "auto" else int(wanted)
    if not 1 <= n <= most:
        raise WorkerError(
            f"engine.replicas={wanted} x engine.tensor_parallel_size={each} takes {plural(max(n, 1) * each, 'GPU')}, "
            f"and this machine shows {len(gpus)}"
            + (f" ({VISIBLE}={os.environ[VISIBLE]})" if VISIBLE in os.environ else "")
            + f"; at most {most} fit"
        )
    slices = [",".join(gpus[k * each : (k + 1) * each]) for k in range(n)]
    return [Share(f"GPU {own}", {VISIBLE: own}) for own in slices]


def of_cpu(n: int) -> list[Share]:
    """Share out the CPU's threads: those that this process may use, or ``OMP_NUM_THREADS``."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(told) if told.isdigit() and int(told) else _n_cpus()
    own = str(max(1, threads // n))
    # By default vLLM binds every worker's threads to the same cores.
    environment = {"OMP_NUM_THREADS": own, "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    return [Share(f"CPU, {plural(int(own), 'thread')}", environment)] * n


def visible_gpus() -> list[str]:
    """List the GPUs that this process may use, in the form of ``CUDA_VISIBLE_DEVICES``: numbers, UUIDs or MIG ids."""
    from audit.engines.hardware import count_gpus

    n = count_gpus()
    if VISIBLE not in os.environ:
        return [str(number) for number in range(n)]
    return [name.strip() for name in os.environ[VISIBLE].split(",")][:n]


def _n_cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
