"""Collects ratings from people on a run's replies or narratives: writes the forms and imports the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.asking.conversations import grid_of, narratives_of
from audit.errors import ConfigError, StoreError
from audit.people.items import sample_items
from audit.people.lists import (
    LIST_KEY,
    NORMING_KEY,
    Lists,
    emotions_in_order,
    norming_lists,
    norming_questions,
    rating_lists,
    rating_questions,
)
from audit.people.questions import Form, OptionQuestion, Questions, load_questions
from audit.people.ratings import (
    KEY_FILE,
    QUESTIONS_COPY,
    HumanRatings,
    export_files,
    items_file,
    key_file,
    read_human_ratings,
    read_key,
)
from audit.runs.manifest import Manifest, People
from audit.runs.store import RunFolder
from audit.tables.base import Table
from audit.tables.formatting import plural
from audit.tables.people import PEOPLE_INTENSITIES, RATERS, READINGS
from audit.tables.people_of_replies import PEOPLE_SCORES
from audit.tasks.registry import task_of
from stimuli.json_text import parse_json
from stimuli.yaml_files import read_text

FOLDERS: Final[dict[Form, str]] = {"replies": "people", "intensity": "people", "norming": "norming"}
"""The run's subfolder for each form's export."""
_GIVEN: Final[dict[Form, Table]] = {"replies": PEOPLE_SCORES, "intensity": PEOPLE_INTENSITIES, "norming": READINGS}
"""The table of what raters sent back, for each form."""
FORM: Final = "raters/form.html"
STUDY: Final = "study.json"  # what an import needs to know about an export, beside its key and questions
PER_LIST: Final = 24  # default number of narratives a list


def form_of(path: Path, form: str | None) -> Form:
    """Choose the form that people fill in: the one asked for, or else the first of the run's task."""
    own = task_of(Manifest.read(path)).forms
    if not own:
        raise ConfigError(f"{path} has nothing for people to rate; give a run with task=reply or task=intensity")
    found = next((each for each in own if form in (None, each)), None)
    if found is None:
        raise ConfigError(f"form={form}: this run needs form={' or form='.join(own)}")
    return found


def export_items(
    path: Path, *, n: int | None, seed: int, questions: Path | None, mask_experiencer: bool
) -> tuple[Path, tuple[str, ...]]:
    """Draw replies of a complete run for people to rate; return the folder for raters and remarks.

    ``people/`` in the run's folder gets ``key.csv`` and ``questions.yaml``, which stay, and ``raters/``, which goes to
    raters: ``form.html`` and ``items.csv``. Refuses to replace an export that has ratings.
    """
    from audit.report.form import render_form

    manifest = _complete(path)
    asked = load_questions(questions)
    if asked.about or any(isinstance(each, OptionQuestion) for each in asked.questions):
        raise ConfigError(
            f"{questions}: replies are scored with numbers; leave out `about` and questions with `options`, which "
            "are for other forms"
        )
    texts = narratives_of(path, manifest)
    with RunFolder(path) as folder:
        if folder.table(PEOPLE_SCORES).exists():
            raise ConfigError(_HOLDS_RATINGS.format(place=path / FOLDERS["replies"]))
        replies = folder.read("replies", n_prompts=manifest.n_prompts)
        replies = replies.loc[~replies["dimension"].isin(manifest.placebo)]
        shown = replies.assign(narrative=[texts.get(str(name), "") for name in replies["narrative_id"]])
        if not texts:
            raise StoreError(f"{path}: its narratives could not be read again, but raters need them; see its report")
        sample = sample_items(shown, n=n, seed=seed, mask_experiencer=mask_experiencer)
        form = render_form(sample.shown, asked.questions, introduction=asked.introduction)
        for name, content in {**export_files(sample, asked), FORM: form.encode("utf-8", "replace")}.items():
            folder.write_file(f"{FOLDERS['replies']}/{name}", content)
    return path / FOLDERS["replies"] / "raters", sample.remarks


_HOLDS_RATINGS: Final = (
    "{place} holds what raters sent back, which belongs to the items of that export; move it away to draw others"
)


def export_lists(
    path: Path, form: Form, *, n: int | None, n_lists: int | None, seed: int, introduction: Path | None
) -> tuple[Path, tuple[str, ...]]:
    """Draw narratives of a complete run of ratings for people to rate; return the folder for raters and remarks.

    ``people/`` or ``norming/`` in the run's folder gets ``key.csv``, ``questions.yaml`` and ``study.json``, which stay,
    and ``raters/``, which goes to raters: an HTML page and a spreadsheet for each list. Refuses runs that are not in
    English, and to replace an export that has ratings.
    """
    from audit.report.form import SITUATIONS, render_form

    manifest = _complete(path)
    if not manifest.language.is_english:
        raise ConfigError(
            f"{path}: its prompts are in {manifest.language.name}, but the form is in English; use a run with "
            "language=en, so that people rate the same narratives in English"
        )
    grid, why_not = grid_of(path, manifest)
    if grid is None or grid.variant.scale is None:
        raise StoreError(f"{path}: its narratives could not be read again, but raters need them: {why_not}")
    first = None if introduction is None else read_text(introduction)
    n = PER_LIST if n is None else n
    with RunFolder(path) as folder:
        if folder.table(_GIVEN[form]).exists():
            raise ConfigError(_HOLDS_RATINGS.format(place=path / FOLDERS[form]))
        salt = folder.ratings_sha256()
        study: dict[str, Any] = {"form": form, "seed": seed, "n": n}
        if form == "norming":
            lists = norming_lists(grid, n=n, n_lists=n_lists, seed=seed, salt=salt)
            asked = norming_questions(grid, grid.variant.scale, introduction=first)
            study["emotions"] = emotions_in_order(grid)
        else:
            lists = rating_lists(grid, n=n, n_lists=n_lists, seed=seed, salt=salt)
            asked, study["about"] = rating_questions(grid, grid.variant.scale, introduction=first)
        folder.clear(f"{FOLDERS[form]}/raters")
        for name, content in _files_of(lists, asked, study).items():
            folder.write_file(f"{FOLDERS[form]}/{name}", content)
        for name in lists.names:
            shown = lists.shown.loc[lists.shown["list"] == name].drop(columns="list")
            page = render_form(
                shown, asked.questions, introduction=asked.introduction, about=asked.about, words=SITUATIONS
            )
            folder.write_file(f"{FOLDERS[form]}/raters/{name}.html", page.encode("utf-8", "replace"))
            folder.write_file(f"{FOLDERS[form]}/raters/{name}.csv", items_file(shown, asked))
    return path / FOLDERS[form] / "raters", lists.remarks


def _files_of(lists: Lists, asked: Questions, study: Mapping[str, Any]) -> dict[str, bytes]:
    """Build the files that stay with the researcher."""
    return {
        KEY_FILE: key_file(lists.key),
        QUESTIONS_COPY: asked.to_yaml().encode("utf-8", "replace"),
        STUDY: f"{json.dumps(study, indent=2, sort_keys=True)}\n".encode(),
    }


def import_ratings(path: Path, form: Form, files: Sequence[Path]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read what raters sent back and store it in the run's folder; return entries for the manifest and remarks."""
    _complete(path)
    place = path / FOLDERS[form]
    if not (place / KEY_FILE).is_file():
        how = " form=norming" if form == "norming" else ""
        raise StoreError(
            f"{place} has no {KEY_FILE}: export the items first, python -m audit people export {path}{how}"
        )
    questions = load_questions(place / QUESTIONS_COPY)
    if form != "replies":
        return _import_lists(path, form, files, questions)
    key = read_key(place / KEY_FILE)
    with RunFolder(path) as folder:
        replies = folder.read("replies", n_prompts=Manifest.read(path).n_prompts)
    text_of = dict(zip(replies["prompt_index"], replies["text"].astype(str), strict=True))
    shown = {item: text_of[index] for item, index in zip(key["item_id"], key["prompt_index"], strict=True)}
    human = read_human_ratings(files, key=key, questions=questions, shown=shown)
    table = human.table.merge(key[["item_id", "prompt_index"]], on="item_id", how="left", validate="many_to_one")
    asked = [each.model_dump(include={"name", "text", "low", "high"}) for each in questions.questions]
    with RunFolder(path) as folder:
        folder.table(PEOPLE_SCORES).write_csv(table)
    return _found(human, key) | {"questions": asked}, human.remarks


def _import_lists(
    path: Path, form: Form, files: Sequence[Path], questions: Questions
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Import ratings as :func:`import_ratings` does, from a form whose items come in lists."""
    place = path / FOLDERS[form]
    study = _read_study(place / STUDY)
    own = NORMING_KEY if form == "norming" else LIST_KEY
    key = read_key(place / KEY_FILE, own, may_be_empty=("dimension",))
    human = read_human_ratings(files, key=key, questions=questions)
    wide = human.table.pivot(index=["rater", "item_id"], columns="question", values="score").reset_index()
    table = wide.merge(key, on="item_id", how="left", validate="many_to_one")
    remarks = human.remarks
    with RunFolder(path) as folder:
        if form == "norming":
            emotions = study["emotions"]
            felt = ["" if at != at else emotions[int(at)] for at in table["felt"]]
            folder.table(READINGS).write_csv(table.assign(felt=felt))
        else:
            members = _members(human, study["about"])
            folder.table(RATERS).write_csv(members)
            folder.table(PEOPLE_INTENSITIES).write_csv(table)
            silent = members.loc[members["group"] == ""].groupby("dimension").size()
            remarks = (*remarks, *(f"{plural(n, 'rater')} left out {name}" for name, n in silent.items()))
    return _found(human, key) | {"form": form, "seed": study["seed"]}, remarks


def _found(human: HumanRatings, key: pd.DataFrame) -> dict[str, Any]:
    return {"files": dict(human.files), "n_raters": human.n_raters, "n_items": len(key)}


def _members(human: HumanRatings, about: Mapping[str, str]) -> pd.DataFrame:
    """List each rater's answer for each dimension; empty if left out."""
    rows = [
        (rater, dimension, given.get(name, ""))
        for rater, given in human.about.items()
        for name, dimension in about.items()
    ]
    return pd.DataFrame(rows, columns=["rater", "dimension", "group"], dtype=object)


def _read_study(path: Path) -> dict[str, Any]:
    try:
        study = parse_json(read_text(path))
        if not isinstance(study, dict) or "seed" not in study or not {"about", "emotions"} & set(study):
            raise ValueError("it lacks fields that an export writes")
        about, emotions = study.get("about", {}), study.get("emotions", [])
        if not isinstance(about, dict) or not isinstance(emotions, list):
            raise ValueError("it has fields that no export writes")
        if not all(isinstance(text, str) for text in (*about.values(), *emotions)):
            raise ValueError("it has a dimension or an emotion that is not text")
    except ValueError as error:
        raise StoreError(f"{path} cannot be read ({error}); export the items again") from error
    return study


def _complete(path: Path) -> Manifest:
    manifest = Manifest.read(path)
    if manifest.status != "complete":
        n = plural(manifest.n_prompts, "prompt")
        raise StoreError(f"{path} is not finished; run its command again until all {n} are answered and scored")
    return manifest


def people_of(people: People, human: pd.DataFrame) -> tuple[list[dict[str, Any]], dict[str, pd.Series]]:
    """Turn each question into a measure: its row of the table of measures, and its mean over raters by prompt."""
    rows: list[dict[str, Any]] = []
    values: dict[str, pd.Series] = {}
    for asked in people.questions:
        own = human.loc[human["question"] == asked.name].dropna(subset="score")
        mean = own.groupby("prompt_index")["score"].mean()
        name = f"people_{asked.name}"
        values[name] = mean
        rows.append(
            {
                "measure": name,
                "title": f"people: {asked.name.replace('_', ' ')}",
                "unit": "points",
                "better": "higher",
                "low": float(asked.low),
                "high": float(asked.high),
                "scorer": plural(people.n_raters, "rater"),
                "source": f"asked: {asked.text}",
                "caution": "the mean over the raters of a reply; see how far they agree",
                "status": "scored",
                "n_replies": people.n_items,
                "n_scored": len(mean),
                "mean": float(mean.mean()) if len(mean) else float("nan"),
                "sd": float(mean.std(ddof=1)) if len(mean) > 1 else float("nan"),
                "note": "",
            }
        )
    return rows, values
