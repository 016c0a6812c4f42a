"""Builds run folders through the package, for the tests of what comes out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

from audit.cli.main import main
from audit.engines.base import OpenModel
from audit.engines.local import LocalModel
from audit.engines.open import EngineChoice
from audit.engines.resolve import ModelFiles
from audit.runs.ledger import Ledger
from audit.runs.store import RunFolder
from audit.tasks.pipeline import report_outside

SMALL_IDENTITIES: Final = (
    f"stimuli.own_identities={Path(__file__).with_name('small_identities.yaml')}",
    "stimuli.placebo=0",
    "stimuli.pairs=all",
)
"""Overrides: identities of the tests' own beside the packaged ones, which are more and may change, no invented groups,
and every pair in every narrative. ``dimensions`` is then faith, heritage or both."""
FOUR_RELIGIONS: Final = (*SMALL_IDENTITIES, "dimensions=[faith]")


@contextmanager
def scripted_models(folder: Path, *, figures: bool = False) -> Iterator[Callable[[Any], None]]:
    """Let commands run in a folder on engines that a test scripts: yields what says which one is loaded from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", list(sys.argv))
        patch.setenv("HYDRA_FULL_ERROR", "1")
        if not figures:
            patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
            patch.setattr("audit.comparing.comparison._draw", lambda *_: {})
        patch.setattr("audit.engines.open.choose_engine", lambda *_, **__: EngineChoice("scripted", "a test"))

        def load(engine: Any) -> None:
            opened = OpenModel(engine, LocalModel(ModelFiles(folder, None), {}))
            patch.setattr("audit.engines.open.open_model", lambda *_, **__: opened)

        yield load


def leave_out_figures(patch: pytest.MonkeyPatch) -> None:
    """Let commands draw nothing."""
    patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    patch.setattr("audit.tasks.reply.figures.draw_measures", lambda *_, **__: {})
    patch.setattr("audit.comparing.comparison._draw", lambda *_: {})


def compared_replies(folder: Path, runs: Mapping[str, Sequence[str]], *, compared: Sequence[str]) -> Path:
    """Make ``runs/NAME`` by the words of each command, a comparison of some of them in ``side``, and an index.

    Returns the folder of all.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        leave_out_figures(patch)
        for name, words in runs.items():
            assert main([*words, f"run_dir=runs/{name}"]) == 0
        assert main(["report", *(f"runs/{name}" for name in compared), "run_dir=side"]) == 0
        assert main(["index", "runs"]) == 0
    return folder


def named_in(told: str, *, n: int = 4) -> list[str]:
    """Return the longest words of the story quoted in a prompt, for a scripted reply that answers it.

    None carries a sentiment, so that a reply may hold fewer of them and be no colder.
    """
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    lexicon = SentimentIntensityAnalyzer().lexicon
    story = max(re.findall(r'"([^"]+)"', told), key=len, default=told)
    known = dict.fromkeys(word for word in re.findall(r"\w+", story.lower()) if word not in lexicon)
    return sorted(known, key=len, reverse=True)[:n]


def read_exactly(path: str | Path) -> pd.DataFrame:
    """Read a CSV table to the last digit, which pandas before 3 does only if told to, and from 3.1 warns of."""
    told: dict[str, Any] = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
    return pd.read_csv(path, **told)


def command_fixture(folder: str, engine: Callable[[], Any]) -> Any:
    """Return the fixture ``command`` of a module: runs a command on a scripted model, in one folder, without figures.

    Parameters
    ----------
    folder
        What the folder is named.
    engine
        Makes the model anew for each command.
    """

    @pytest.fixture(scope="module", name="command")
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., int]]:
        place = tmp_path_factory.mktemp(folder)
        with scripted_models(place) as load:

            def run(*words: object) -> int:
                load(engine())
                return main([str(word) for word in words])

            run.folder = place  # type: ignore[attr-defined]
            yield run

    return fixture


def outside_run(folder: Path, ratings: pd.DataFrame, groups: pd.DataFrame, **statistics: Any) -> Path:
    """Analyse ratings as another tool would have collected them, and return the run's folder."""
    ratings.to_csv(folder / "ratings.csv", index=False)
    groups.to_csv(folder / "groups.csv", index=False)
    outcome = report_outside(
        folder / "ratings.csv",
        folder / "groups.csv",
        folder / "run",
        low=0,
        high=100,
        model="a model",
        seed=0,
        statistics=statistics,
        command="python -m audit report ...",
        say=lambda line: None,
    )
    return outcome.run_dir


def in_parts(run: Path) -> Path:
    """Lay a finished run's tables out in parts, byte for byte as they were written; return its folder."""
    with RunFolder(run) as folder:
        for table in folder._tables():
            if table._file.exists():
                counts = table.counts()
                for name in table.names():
                    part = table.read_part(name)
                    assert part is not None
                    table.write(name, part.to_pydict())
                    if counts[name]:
                        content = f"{json.dumps(counts[name], sort_keys=True)}\n"
                        (table._folder / f"{name}.json").write_text(content)
                table._file.unlink()
    return of_before(run)


def of_before(run: Path) -> Path:
    """Leave a run as an earlier version did, which kept no ledger of its files; return its folder."""
    (run / "ledger.jsonl").unlink(missing_ok=True)
    path = run / "manifest.json"
    if path.exists():
        kept = {
            name: value for name, value in json.loads(path.read_text("utf-8")).items() if name not in NEW_WITH_LEDGER
        }
        path.write_text(f"{json.dumps(kept, indent=2, ensure_ascii=False)}\n", "utf-8")
    return run


def as_stored(run: Path) -> Path:
    """Have a run's ledger say that its files are as they were stored, whatever was done to them; return its folder."""
    (run / "ledger.jsonl").unlink(missing_ok=True)
    Ledger(run).take_over()
    return run


NEW_WITH_LEDGER = ("ledger", "generation", "analysed_by")
"""What manifests did not say before there was a ledger."""


def collected(run: Path, *tables: str) -> dict[str, bytes]:
    """Return the files of some of a run's tables by their places, in parts or consolidated."""
    found = {path for name in tables for path in (run / f"{name}.parquet", *(run / name).rglob("[!.]*.*"))}
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(found) if path.is_file()}
