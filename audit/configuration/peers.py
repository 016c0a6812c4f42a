"""What options and commands are called in similar tools, and how to write them here.

The names are those of lm-evaluation-harness, Inspect, promptfoo, HELM, garak, vLLM and of clients of chat APIs. They
are looked for before names that look alike: ``--limit`` looks like no option of ours, and means one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

_OPTIONS: Final[Mapping[str, str]] = {
    "stimuli.situations_per_emotion=": "limit n n_samples num_samples max_samples samples num_examples num_prompts",
    "model.path=": "model_name model_id model_path model_name_or_path pretrained checkpoint hf_model deployment",
    "model.base_url=": "api_base api_url url endpoint host",
    "engine=": "backend provider target_type model_type",
    "model.dtype=": "precision",
    "model.quantization=": "quantize",
    "model.max_model_len=": "max_length context_length",
    "engine.tensor_parallel_size=": "tp gpus num_gpus n_gpus tensor_parallel",
    "engine.gpu_memory_utilization=": "gpu_memory",
    "engine.server.concurrency=": "max_connections max_concurrency num_concurrent num_workers workers num_threads j",
    "engine.server.timeout_s=": "timeout",
    "engine.server.retries=": "max_retries",
    "engine.server.max_requests=": "budget",
    "elicitation.max_tokens=": "max_new_tokens max_gen_toks max_completion_tokens",
    "run_dir=": "o output output_dir output_path output_folder log_dir results_dir save_dir",
    "task=": "tasks scenario",
    "stimuli=csv stimuli.path=": "dataset data data_path input input_file narratives vignettes",
    "dimensions=": "groups demographics identities",
    "prompt=": "template prompt_template variant prompt_variant",
    "language=": "lang locale",
    "statistics.margin=": "margin threshold tolerance max_gap fail_threshold",
    "statistics.confidence=": "ci confidence_level",
    "statistics.n_permutations=": "permutations n_perm n_perms",
}
"""What to write here, up to its value, and what the option is called elsewhere."""

_INSTEAD: Final[Mapping[str, str]] = {
    "python -m audit plan, which asks nothing and says what a run would ask": "dry_run dryrun estimate count",
    "the same command again, which continues an interrupted run": "resume continue use_cache",
    "another run_dir=FOLDER, since nothing that was collected is overwritten": "overwrite force no_cache",
    "--config-dir=FOLDER with files such as FOLDER/prompt/mine.yaml": "config config_file config_path",
    "export NAME=..., then model.api_key_env=NAME: a key is read from the environment only": "api_key key token",
    "nothing: engine.log in the run folder has all messages": "verbose v debug log_level verbosity",
    "nothing: a run asks no questions": "yes y quiet q",
}
"""What to write or do for options that have no equal here."""

_COMMANDS: Final[Mapping[str, str]] = {
    "run": "eval evaluate audit start test redteam probe resume retry",
    "plan": "estimate cost dry-run",
    "report": "view show open render compare analyse analyze summarize summarise score diff",
    "options": "list ls models list-models config info describe tasks",
    "gate": "check ci assert",
    "init": "new create setup",
    "doctor": "env health debug",
}
"""Our commands, and what they are called elsewhere."""


def _by_name(table: Mapping[str, str]) -> dict[str, str]:
    return {name: meant for meant, names in table.items() for name in names.split()}


_OPTION_OF: Final = _by_name(_OPTIONS)
_INSTEAD_OF: Final = _by_name(_INSTEAD)
COMMAND_OF: Final[Mapping[str, str]] = _by_name(_COMMANDS)
"""Our command, by its name in other tools."""


def written_here(name: str, value: str = "") -> str:
    """Say how an option of another tool is written here, for the middle of a message; empty if it is not known.

    Examples
    --------
    >>> written_here("--limit", "5")
    'write stimuli.situations_per_emotion=5; '
    >>> written_here("dry-run")
    'write python -m audit plan, which asks nothing and says what a run would ask; '
    >>> written_here("frobnicate")
    ''
    """
    bare = _bare(name)
    if bare in _INSTEAD_OF:
        return f"write {_INSTEAD_OF[bare]}; "
    return f"write {_OPTION_OF[bare]}{shlex.quote(value) if value else 'VALUE'}; " if bare in _OPTION_OF else ""


def option_here(name: str) -> str | None:
    """Return the option that another tool's name means here; None if it is not known."""
    meant = _OPTION_OF.get(_bare(name))
    return meant.split()[-1].rstrip("=") if meant else None


def _bare(name: str) -> str:
    return name.lstrip("-").lower().replace("-", "_")
