"""Engines that run a model: one library each, imported only when opened."""

import os

# What libraries read when they are imported, or before they use a GPU; here, because every import of torch or vLLM is
# in this folder. A process that has begun to use a GPU cannot be forked: GPUs are counted by NVML, which begins
# nothing, and vLLM spawns its processes. Triton would shorten float32 products to TF32.
ENVIRONMENT = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "TRITON_F32_DEFAULT": "ieee",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
