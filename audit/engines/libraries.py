"""Whether the libraries are installed that run models on this machine: the extra ``local``, docs/install.md."""

from __future__ import annotations

import importlib.util

from audit.errors import ModelAbsentError


def need_libraries(asked: str, *names: str, otherwise: str = "") -> None:
    """Raise ModelAbsentError unless libraries, by default torch and transformers, are installed.

    ``otherwise`` is what the user can do in place of installing them.
    """
    lacking = [name for name in names or ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if lacking:
        raise ModelAbsentError(
            f"{asked}: running a model on this machine needs {', '.join(lacking)}: pip install 'empathy-audit[local]'"
            f"{otherwise}"
        )
