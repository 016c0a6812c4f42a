"""BERTScore: similarity of a reply to reference replies to the same narrative."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import MeasuresConfig
from audit.engines.bertscore import BertScorer
from audit.tasks.measures.base import Measure, Reply, Wanted
from stimuli.errors import StimulusError
from stimuli.hashes import fingerprint
from stimuli.narratives import Narrative
from stimuli.tables import read_cells

_SOURCE: Final = "Zhang et al. 2020, arXiv:1904.09675; without idf, not rescaled"
_NO_REFERENCES: Final = (
    "it needs reference replies: measures.bertscore.references=FILE, a CSV with narrative_id, reference"
)
_CAUTION: Final = (
    "nearness to the references is not empathy, and the references may be nearer to some identities' way of speaking; "
    "not rescaled, so values of two models or layers cannot be compared"
)

MEASURES: Final = (
    Measure("bertscore_precision", "BERTScore precision", "cosine", "higher", _SOURCE, _CAUTION, -1.0, 1.0),
    Measure("bertscore_recall", "BERTScore recall", "cosine", "higher", _SOURCE, _CAUTION, -1.0, 1.0),
    Measure("bertscore_f1", "BERTScore F1", "harmonic mean of cosines", "higher", _SOURCE, _CAUTION, 0.0, 1.0),
)


class BertScoreScorer:
    """Takes precision, recall and F1 of each reply against the references of its narrative."""

    measures = MEASURES

    def __init__(
        self,
        references: Mapping[str, Sequence[str]],
        *,
        model: str = "embedded:minilm",
        layer: int | None = None,
        revision: str | None = None,
        device: str = "cpu",
        download: bool = False,
    ) -> None:
        self._references = {narrative_id: tuple(own) for narrative_id, own in references.items()}
        self._scorer = BertScorer(model, layer=layer, revision=revision, device=device, download=download)

    @property
    def facts(self) -> dict[str, Any]:
        """The scorer's facts, with the SHA-256 and the number of the references."""
        written = json.dumps(self._references, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
        return self._scorer.facts | {
            "references": hashlib.sha256(written).hexdigest(),
            "n_references": sum(map(len, self._references.values())),
        }

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """``cut``: scored replies that were truncated for the model, or had a truncated reference."""
        return {"": Counter(cut=self._scorer.n_cut)}

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """See :class:`audit.tasks.measures.base.Scorer`. A reply to a narrative without references is NaN."""
        references = [self._references.get(reply.narrative_id, ()) for reply in replies]
        return self._scorer.score([reply.text for reply in replies], references)


def read_references(path: Path, narrative_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return each narrative's reference replies, in the order of a CSV file with ``narrative_id`` and ``reference``."""
    rows = read_cells(path, {"narrative_id": "narrative_id", "reference": "reference"}, of="references")
    known = set(narrative_ids)
    found: dict[str, dict[str, None]] = {}
    for _, cells in rows:
        if cells["narrative_id"] in known:
            found.setdefault(cells["narrative_id"], {})[cells["reference"]] = None
    if not found:
        own = f"such as {min(known)!r}" if known else "and this run has none"
        raise StimulusError(
            f"{path}: none of its {len(rows)} references belongs to a narrative of this run (the first: "
            f"{rows[0][1]['narrative_id']!r}); give the narratives' identifiers, {own}"
        )
    return {narrative_id: tuple(own) for narrative_id, own in found.items()}


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    own = config.bertscore
    narrative_ids = [narrative.narrative_id for narrative in narratives]
    references = {} if own.references is None else read_references(own.references, narrative_ids)
    asked = own.model_dump(mode="json", exclude={"references"})
    asked["references"] = fingerprint({name: list(texts) for name, texts in references.items()})
    absent = "" if own.references else _NO_REFERENCES
    if own.references and not references:
        absent = f"measures.bertscore.references={own.references} has no reference to any narrative of this run"
    scorer = partial(
        BertScoreScorer,
        references,
        model=own.model,
        layer=own.layer,
        revision=own.revision,
        device=config.device,
        download=config.download,
    )
    return Wanted("bertscore", asked, scorer, absent)
