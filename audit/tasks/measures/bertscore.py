"""BERTScore: similarity of a reply to reference replies to the same narrative."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.engines.bertscore import BertScorer
from audit.tasks.measures.base import Measure, Reply
from stimuli.errors import StimulusError
from stimuli.tables import read_cells

_SOURCE: Final = "Zhang et al. 2020, arXiv:1904.09675; without idf, not rescaled"
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
    """Takes precision, recall and F1 of each reply against the references of its narrative.

    :class:`audit.engines.bertscore.BertScorer` has the formula, the handling of several references, and the parameters.
    ``references`` holds reference replies by narrative, see :func:`read_references`.
    """

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
    def measures(self) -> tuple[Measure, ...]:
        """See :class:`audit.tasks.measures.base.Scorer`."""
        return MEASURES

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
    """Return each narrative's reference replies, in the file's order, without duplicates.

    Parameters
    ----------
    path
        A CSV file with the columns ``narrative_id`` and ``reference``, one row a reference; a narrative may have
        several.
    narrative_ids
        Those of the run; references to other narratives are left out.
    """
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
