"""People who rate a run's replies: what they are sent, and what comes back, kept in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.conversations import narratives_of
from audit.errors import ConfigError, StoreError
from audit.people.items import sample_items
from audit.people.questions import load_questions
from audit.people.ratings import export_files, read_human_ratings, read_key
from audit.store import RunFolder, is_of_replies, read_manifest
from audit.wording import plural

FOLDER: Final = "people"
"""Where in the run's folder an export lies."""
FORM: Final = "raters/form.html"


def export_items(
    path: Path, *, n: int | None, seed: int, questions: Path | None, mask_experiencer: bool
) -> tuple[Path, tuple[str, ...]]:
    """Draw replies of a complete run for people to rate, and write what they are sent.

    Parameters
    ----------
    path
        The run's folder; ``people/`` in it gets ``key.csv`` and ``questions.yaml``, which stay, and ``raters/``, which
        goes to raters: ``form.html`` and ``items.csv``.
    n, seed, mask_experiencer
        As of :func:`audit.people.items.sample_items`.
    questions
        A YAML file of questions; None is the packaged ones.

    Returns
    -------
    tuple
        The folder that goes to raters, and what is to be known of it, in words.

    Raises
    ------
    ConfigError
        If the run is none of replies, nothing can be drawn, or ratings of an earlier export are there.
    StoreError
        If the folder is none of a complete run's.
    """
    from audit.report.form import render_form

    manifest = _of_replies(path)
    asked = load_questions(questions)
    texts = narratives_of(manifest)
    with RunFolder(path) as folder:
        if folder.has_people():
            raise ConfigError(
                f"{path}/{FOLDER} holds what raters sent back, which belongs to the items of that export; move it away "
                "to draw others"
            )
        replies = folder.read("replies", n_prompts=manifest["n_prompts"])
        shown = replies.assign(narrative=[texts.get(str(name), "") for name in replies["narrative_id"]])
        if not texts:
            raise StoreError(f"{path}: the narratives could not be read again, and raters need them; see its report")
        sample = sample_items(shown, n=n, seed=seed, mask_experiencer=mask_experiencer)
        form = render_form(sample.shown, asked.questions, introduction=asked.introduction)
        for name, content in {**export_files(sample, asked), FORM: form.encode("utf-8", "replace")}.items():
            folder.write_file(f"{FOLDER}/{name}", content)
    return path / FOLDER / "raters", sample.remarks


def import_ratings(path: Path, files: Sequence[Path]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read what raters sent back, and keep it in the run's folder; ratings of an earlier import are replaced.

    Parameters
    ----------
    path
        The run's folder, with an export.
    files
        The raters' CSV files, all of them.

    Returns
    -------
    tuple
        What the manifest says of it (``files``, ``n_raters``, ``questions``), and what was counted, in words.

    Raises
    ------
    ConfigError, StimulusError
        If a file can not be used; see :func:`audit.people.ratings.read_human_ratings`.
    StoreError
        If the folder is none of a complete run's, or has no export.
    """
    _of_replies(path)
    place = path / FOLDER
    if not (place / "key.csv").is_file():
        raise StoreError(f"{place} has no key.csv: export the items first, python -m audit people export {path}")
    key = read_key(place / "key.csv")
    questions = load_questions(place / "questions.yaml")
    human = read_human_ratings(files, key=key, questions=questions)
    table = human.table.merge(key[["item_id", "prompt_index"]], on="item_id", how="left", validate="many_to_one")
    asked = [{"name": each.name, "text": each.text, "low": each.low, "high": each.high} for each in questions.questions]
    found = {"files": dict(human.files), "n_raters": human.n_raters, "n_items": len(key), "questions": asked}
    with RunFolder(path) as folder:
        folder.write_people(table[["rater", "prompt_index", "question", "score"]])
    return found, human.remarks


def _of_replies(path: Path) -> Mapping[str, Any]:
    manifest = read_manifest(path)
    if not is_of_replies(manifest) or manifest["task"]["kind"] != "reply":
        raise ConfigError(f"{path} has no replies to rate: it is no run of them; task=reply makes one")
    if manifest.get("status") != "complete":
        n = plural(manifest["n_prompts"], "prompt")
        raise StoreError(f"{path} is not finished; give its command again until all {n} are answered and scored")
    return manifest


def people_of(manifest: Mapping[str, Any], human: pd.DataFrame) -> tuple[list[dict[str, Any]], dict[str, pd.Series]]:
    """Return each question as a measure: its row of the table of measures, and its mean over raters by prompt.

    Parameters
    ----------
    manifest
        The run's, with ``people``; see :func:`import_ratings`.
    human
        Columns rater, prompt_index, question and score, NaN where a rater left it out.
    """
    rows: list[dict[str, Any]] = []
    values: dict[str, pd.Series] = {}
    people = manifest.get("people", {})
    for asked in people.get("questions", []):
        own = human.loc[human["question"] == asked["name"]].dropna(subset="score")
        mean = own.groupby("prompt_index")["score"].mean()
        name = f"people_{asked['name']}"
        values[name] = mean
        rows.append(
            {
                "measure": name,
                "title": f"people: {asked['name'].replace('_', ' ')}",
                "unit": "points",
                "better": "higher",
                "low": float(asked["low"]),
                "high": float(asked["high"]),
                "scorer": plural(people["n_raters"], "rater"),
                "source": f"asked: {asked['text']}",
                "caution": "the mean over the raters of a reply; see how far they agree",
                "status": "scored",
                "n_replies": people["n_items"],
                "n_scored": len(mean),
                "mean": float(mean.mean()) if len(mean) else float("nan"),
                "sd": float(mean.std(ddof=1)) if len(mean) > 1 else float("nan"),
                "note": "",
            }
        )
    return rows, values
