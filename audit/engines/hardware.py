"""What torch sees of this machine: its processor and its GPUs."""

from __future__ import annotations


def torch_sees() -> tuple[str, int, list[str]]:
    """Return what torch uses of the CPU, how many threads, and which GPUs it sees, with memory and CUDA's version."""
    import torch

    gpus = [torch.cuda.get_device_properties(number) for number in range(count_gpus())]
    return (
        torch.backends.cpu.get_cpu_capability(),
        torch.get_num_threads(),
        [f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB, CUDA {torch.version.cuda}" for gpu in gpus],
    )


def has_gpu() -> bool:
    """Whether this machine has a GPU that torch computes on."""
    import torch

    return bool(torch.cuda.is_available())


def count_gpus() -> int:
    """Return how many GPUs torch may compute on in this process; none of them is touched."""
    import torch

    return int(torch.cuda.device_count())
