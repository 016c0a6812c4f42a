"""The part of a conversation corpus that a run's folder keeps, to tell how well its utterances were read.

The corpus is the user's own file and may move, so labels and speakers are copied.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

import pandas as pd

from audit.asking.plan import Plan
from audit.errors import StoreError
from audit.runs.store import RunFolder
from audit.tables.replies import SCORED
from audit.tasks.recognition.scorer import span_guesses
from stimuli.conversations import Conversations
from stimuli.files import read_file
from stimuli.json_text import parse_json

FILE: Final = "corpus.json"  # path in a run's folder


@dataclass(frozen=True)
class Corpus:
    """What is known of a run's utterances besides their emotions."""

    labels: tuple[str, ...]  # that a model chose from
    synonyms: dict[str, tuple[str, ...]]  # other words that are read as a label
    identities: dict[str, str]  # the speaker's own identity by narrative_id; absent if the corpus has none
    marked: dict[str, bool]  # whether people marked a cause, by narrative_id; absent if the corpus has no causes
    # F1 with the marked words of what could be copied without reading, by guess and narrative_id; empty without any
    guesses: dict[str, dict[str, float]]


def keep_corpus(corpus: Conversations, plan: Plan, folder: RunFolder) -> None:
    """Write what the tables of a run on conversations need of its corpus."""
    asked = [narrative.narrative_id for narrative in plan.grid.narratives.narratives]
    kept = Corpus(
        labels=corpus.labels,
        synonyms=dict(corpus.synonyms),
        identities={name: corpus.identities[name] for name in asked if corpus.identities[name]},
        marked={name: bool(corpus.causes[name]) for name in asked if name in corpus.causes},
        guesses=span_guesses(corpus, asked),
    )
    fields = {name: value for name, value in asdict(kept).items() if name != "guesses" or value}
    folder.write_file(FILE, f"{json.dumps(fields, indent=1, ensure_ascii=True)}\n".encode())


def read_corpus(folder: RunFolder) -> Corpus | None:
    """Return what :func:`keep_corpus` wrote; None if there is nothing."""
    path = folder.path / FILE
    if not path.exists():
        return None
    try:
        kept = parse_json(read_file(path))
        return Corpus(
            labels=tuple(kept["labels"]),
            synonyms={label: tuple(words) for label, words in kept["synonyms"].items()},
            identities=dict(kept["identities"]),
            marked=dict(kept["marked"]),
            guesses={name: dict(of_each) for name, of_each in kept.get("guesses", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} cannot be read ({error}); rename it and run the same command again, which writes it again"
        ) from error


def read_replies(replies: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """Return the scored replies, with the speaker's ``identity``. The others are missing, not wrong."""
    own = replies.loc[replies["status"].isin(SCORED).to_numpy()]
    return own.assign(identity=[corpus.identities.get(str(name), "") for name in own["narrative_id"]])
