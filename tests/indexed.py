"""Folders of published runs whose truth is planted, for the tests of the index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from planted import Planted
from runs import as_stored

from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tasks.pipeline import report_outside

RECORDED: Mapping[str, Any] = {
    "stimuli.sha256": "a" * 64, "prompt.sha256": "b" * 64, "identity.identities": "c" * 64,
}  # fmt: skip
"""What a table of another tool leaves open, and a run of ours records."""


def without_figures(patch: pytest.MonkeyPatch) -> None:
    """Leave figures out, which the index does not read and which take longest."""
    patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    patch.setattr("audit.comparing.comparison._draw", lambda *_: {})


def published(folder: Path, planted: Planted, *, model: str = "a model", high: float = 100, **said: Any) -> Path:
    """Analyse planted ratings in a run folder, have its manifest say more, and return the folder.

    Parameters
    ----------
    folder
        The run's. The files of ratings lie beside it and are removed.
    planted
        The ratings, the groups and the settings.
    model
        What the model is called.
    high
        The upper end of the scale.
    said
        What the manifest says besides: ``__`` stands for a dot, as in ``model__parameters=10``.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    files = [folder.parent / f".{kind}.csv" for kind in ("ratings", "groups")]
    for file, table in zip(files, (planted.ratings, planted.groups), strict=True):
        table.to_csv(file, index=False)
    report_outside(
        *files, folder, low=0, high=high, model=model, seed=0,
        statistics=dict(planted.settings),
        command="python -m audit report ...", say=lambda line: None,
    )  # fmt: skip
    for file in files:
        file.unlink()
    return changed(folder, **{**{name.replace(".", "__"): value for name, value in RECORDED.items()}, **said})


def changed(run: Path, **said: Any) -> Path:
    """Have a run's manifest say something else, as if it had been stored and published so; return its folder."""
    content = json.loads((run / "manifest.json").read_text("utf-8"))
    for name, value in said.items():
        *above, last = name.split("__")
        place = content
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
    (run / "manifest.json").write_text(json.dumps(content), "utf-8")
    as_stored(run)
    made = [*run.glob("tables/*.csv"), run / "report.html"]
    files = {path.relative_to(run).as_posix(): path.read_bytes() for path in made if path.is_file()}
    with RunFolder(run) as folder:
        manifest = Manifest.of(content)
        manifest = folder.stamped(manifest, manifest.analysed_by).having(**_kept(content))
        files["tables/generation.txt"] = f"{manifest.generation}\n".encode()
        folder.publish(manifest, files)
    return run


def _kept(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: content[name] for name in ("accepted",) if name in content}
