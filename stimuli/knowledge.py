"""Commonsense knowledge of each narrative from a user's file: a text for each relation, whoever is asked about it.

The five relations are those that arXiv:2310.05140 takes from COMET; where their texts come from is the user's choice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stimuli.errors import StimulusError
from stimuli.narratives import Narratives
from stimuli.tables import check_unique, read_cells
from stimuli.yaml_files import may_be_file

RELATIONS: Final = ("xIntent", "xNeed", "xWant", "xEffect", "xReact")
"""What the person of a narrative meant to do, needed before, wants now, undergoes and feels; a file may have others."""

_REMEDY: Final = "strategy.knowledge.relations, and out of the templates that show it"


@dataclass(frozen=True)
class Knowledge:
    """What is known of the narratives of a run."""

    source: str  # the path of the file as it was given
    # for each narrative's identifier, in the order of the run, the text of each relation that was asked for
    texts: Mapping[str, Mapping[str, str]]
    sha256: str  # of texts: of what is used, not of the file


def read_knowledge(path: Path, narratives: Narratives, relations: Sequence[str]) -> Knowledge:
    """Return the knowledge of the narratives of a run from a CSV or TSV file.

    It has the column ``narrative_id`` and one for each relation. It may hold further columns, and narratives that the
    run does not ask about, whose cells may be empty.
    """
    if not may_be_file(path):
        raise StimulusError(
            f"strategy.knowledge.path={path} is not a file; it is a CSV with narrative_id and relations"
        )
    columns = {name: name for name in ("narrative_id", *relations)}
    also = f"add a column for each relation, or take one out of {_REMEDY}"
    rows = read_cells(path, columns, of="knowledge", may_be_empty=relations, remedy=also)
    check_unique((cells["narrative_id"] for _, cells in rows), of="narrative", place=str(path))
    known = {cells["narrative_id"]: (place, cells) for place, cells in rows}
    asked = [narrative.narrative_id for narrative in narratives.narratives]
    absent = [narrative_id for narrative_id in asked if narrative_id not in known]
    if absent:
        raise StimulusError(
            f"{path}: {len(absent)} of the {len(asked)} narratives of this run are not there (first: {absent[0]!r}); "
            "add a row for each, or ask fewer narratives"
        )
    texts: dict[str, dict[str, str]] = {}
    digest = hashlib.sha256()
    for narrative_id in asked:
        place, cells = known[narrative_id]
        for relation in relations:
            if not cells[relation]:
                raise StimulusError(
                    f"{place}: narrative {narrative_id!r} has no text for the relation {relation}; fill the cell, or "
                    f"take the relation out of {_REMEDY}"
                )
        texts[narrative_id] = {relation: cells[relation] for relation in relations}
        digest.update(json.dumps([narrative_id, list(texts[narrative_id].items())]).encode() + b"\n")
    return Knowledge(str(path), texts, digest.hexdigest())
