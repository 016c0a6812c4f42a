"""The CPU and GPUs of this machine: the CPU's name, and what torch sees."""

from __future__ import annotations

import platform
from pathlib import Path


def torch_sees() -> tuple[str, int, list[str]]:
    """Return torch's CPU instruction set, its number of threads, and its GPUs with memory and CUDA version."""
    import torch

    gpus = [torch.cuda.get_device_properties(number) for number in range(count_gpus())]
    return (
        torch.backends.cpu.get_cpu_capability(),
        torch.get_num_threads(),
        [f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB, CUDA {torch.version.cuda}" for gpu in gpus],
    )


def has_gpu() -> bool:
    """Whether torch sees a GPU of NVIDIA's or AMD's on this machine, without initialising any."""
    return count_gpus() > 0


def count_gpus() -> int:
    """Return the number of GPUs available to torch in this process, without initialising any."""
    import torch

    return int(torch.cuda.device_count())


def cpu_name() -> str:
    """Return what the CPU calls itself, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
