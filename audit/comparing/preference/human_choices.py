"""People choose between two runs' replies: what raters are sent, and what comes back, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from audit.comparing.preference.human_gap import preference_of_people
from audit.comparing.preference.judging import JudgeSettings, model_of, paired_replies, run_labels, two_runs
from audit.comparing.preference.pairs import (
    SIDES_FILE,
    choices_made,
    load_pair_questions,
    pair_files,
    read_sides,
    sample_pairs,
)
from audit.errors import ConfigError, StoreError
from audit.people.measure_agreement import people_tables
from audit.people.ratings import KEY_FILE, QUESTIONS_COPY, read_human_ratings, read_key
from audit.report.form import render_form
from audit.runs.differences import identity_of
from audit.runs.manifest import ChoicesManifest
from audit.runs.provenance import versions
from audit.runs.store import ChoicesFolder
from audit.tables.base import by_name, dictionary
from audit.tables.formatting import printable
from audit.tables.people_of_replies import AGREEMENT
from audit.tables.preference import CHOICES, PEOPLE_PREFERENCE
from stimuli.hashes import fingerprint

FORM = "raters/form.html"


PEOPLE_PREFERENCE_TABLES: Final = by_name(CHOICES, PEOPLE_PREFERENCE)
"""Tables of a folder in which people choose between the replies of two runs."""


@dataclass(frozen=True)
class PeopleChoices:
    """People's choices between two runs' replies, and their analysis."""

    path: Path  # the folder that holds `tables`
    labels: tuple[str, str]
    preference: pd.DataFrame  # columns of PEOPLE_PREFERENCE
    confidence: float  # of the intervals
    remarks: tuple[str, ...]


def holds_choices(path: Path) -> bool:
    """Whether :func:`export_pairs` made this folder."""
    return ChoicesManifest.read_if_there(path) is not None


def export_pairs(
    folders: Sequence[Path],  # of two complete runs of replies, which are only read
    *,
    n: int | None,
    seed: int,
    questions: Path | None,  # a YAML file; None: the packaged one
    mask_experiencer: bool,
    out: Path | None,  # None: a name made of the runs and the draw, in `reports_dir`
    reports_dir: Path,
    say: Callable[[str], None],
) -> Path:
    """Draw pairs of two runs' replies for people to choose from. Return the folder that goes to raters."""
    if len(folders) != 2:
        raise ConfigError(f"people export takes one run folder, or two to choose between, got {len(folders)}")
    asked = load_pair_questions(questions)
    runs = two_runs(folders)
    paired, remarks = paired_replies(*runs, JudgeSettings(model=None))
    paired = paired.assign(narrative=paired["narrative_id"].map(runs[0].narratives))
    sample = sample_pairs(paired, n=n, seed=seed, mask_experiencer=mask_experiencer)
    identity: dict[str, Any] = {
        "runs": [identity_of(run.manifest) for run in runs],
        "replies": [fingerprint({"text": run.replies["text"].tolist()}) for run in runs],
        "drawn": {"n": n, "seed": seed, "mask_experiencer": mask_experiencer},
        "questions": fingerprint({"yaml": asked.to_yaml()}),
    }
    folder = ChoicesFolder(out or reports_dir / f"choices-{fingerprint(identity)[:8]}")
    folder.check()
    with folder:
        there = ChoicesManifest.read_if_there(folder.path)
        if there is not None and there.identity.content != identity:
            raise StoreError(
                f"run_dir={folder.path} holds other pairs, or other questions; name another folder, or none"
            )
        if folder.has_choices():
            raise ConfigError(
                f"{folder.path} holds what raters sent back, which belongs to the pairs of that export; name another "
                "folder"
            )
        labels = run_labels(runs)
        said: dict[str, Any] = {
            "status": "exported",
            "identity": identity,
            "confidence": runs[0].manifest.statistics.confidence,
            "runs": [
                {
                    "run": label,
                    "folder": printable(str(run.folder)),
                    "model": model_of(run),
                }
                for label, run in zip(labels, runs, strict=True)
            ],
            "n_pairs": len(sample.sides),
            "versions": versions(),
        }
        folder.write_manifest(ChoicesManifest.of(said))
        form = render_form(sample.items.shown, asked.questions, introduction=asked.introduction)
        for name, content in {**pair_files(sample, asked), FORM: form.encode("utf-8", "replace")}.items():
            folder.write_file(name, content)
    for text in (*remarks, *sample.remarks):
        say(text)
    return folder.path / "raters"


def import_choices(path: Path, files: Sequence[Path]) -> PeopleChoices:
    """Read raters' choices, keep them in the folder of :func:`export_pairs`, and estimate the preference.

    ``files`` are the CSV files of all raters; they replace choices of an earlier import.
    """
    with ChoicesFolder(path) as folder:
        manifest = ChoicesManifest.read_if_there(path)
        if manifest is None:
            raise StoreError(f"{path} holds no pairs: export them first, python -m audit people export RUN_A RUN_B")
        key, sides = read_key(path / KEY_FILE), read_sides(path / SIDES_FILE)
        questions = load_pair_questions(path / QUESTIONS_COPY)
        human = read_human_ratings(files, key=key, questions=questions)
        choices = choices_made(human, key, sides, questions)
        confidence = float(manifest.confidence)
        preference = preference_of_people(choices, confidence=confidence)
        scores = human.table.merge(key[["item_id", "prompt_index"]], on="item_id", validate="many_to_one")
        of_pairs = pd.DataFrame(index=pd.Index(key["prompt_index"], name="prompt_index"))
        seed = manifest.identity.drawn.seed
        agreement = people_tables(scores, of_pairs, key, seed=seed, confidence=confidence)["agreement"]
        tables = {"choices": choices, "preference": preference, "agreement": agreement}
        known = {**PEOPLE_PREFERENCE_TABLES, "agreement": AGREEMENT}
        folder.clear("tables")
        for name, table in tables.items():
            folder.write_file(f"tables/{name}.csv", known[name].csv(table))
        folder.write_file("dictionary.csv", dictionary(known.values()))
        folder.write_manifest(manifest.having(status="complete", files=dict(human.files), n_raters=human.n_raters))
    first, second = (run.run for run in manifest.runs)
    return PeopleChoices(path, (first, second), preference, confidence, human.remarks)
