"""Export a run in a form. The target folder appears as a whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from audit.errors import ConfigError, StoreError
from audit.extras.exchange.base import Collected, ExportOptions, Form

if TYPE_CHECKING:
    from audit.extras.exchange.base import Files


def export_run(
    path: Path, form: Form, to: Path, told: ExportOptions, *, given: Mapping[str, str], unfinished: bool = False
) -> list[Path]:
    """Write a run, which is only read, in a form to a new or empty folder; return the files."""
    form.check(told, given)
    _check_target(to)
    collected = Collected.read(path, unfinished=unfinished, texts=told.texts)
    if collected.kind not in form.takes:
        raise ConfigError(
            f"{path} is a run of {collected.kind}, and form={form.name} takes {' or '.join(form.takes)}; "
            "form=huggingface takes every kind"
        )
    files = form.make(collected, told)
    _write(to, files)
    return [to / name for name in files]


def _check_target(to: Path) -> None:
    from audit.runs.files import writing

    with writing(to):
        if to.exists() and not to.is_dir():
            raise StoreError(f"to={to} is a file; name a new folder")
        there = next(iter(sorted(to.iterdir())), None) if to.exists() else None
    if there is not None:
        raise StoreError(f"to={to} has files in it ({there.name}); name a new or empty folder")


def _write(to: Path, files: Files) -> None:
    from audit.runs.files import sync_folder, write_atomically, writing

    unfinished = to.with_name(f".{to.name}.unfinished")
    with writing(to):
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            for name, content in files.items():
                (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(unfinished / name, content)
            unfinished.replace(to)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        sync_folder(to.parent)
