"""Turns the configured measures into scorers. Each scorer is opened only when it is needed.

A new scorer is a module with a function ``wanted`` in this folder, a line in :data:`SCORERS`, and its name in
``MeasureName`` of :mod:`audit.configuration.schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from audit.configuration.schema import MeasuresConfig
from audit.tasks.measures import bertscore, emotion, epitome, eq, lexical, lexicon, perplexity, regard
from audit.tasks.measures.base import Measure, Wanted
from stimuli.narratives import Narrative

JUDGE: Final = "judge"  # a scorer by an instruction-tuned model; audit.tasks.reply.scoring opens it
DIVERSITY: Final = "diversity"  # measures of all replies taken together, which need no scorer and have no gap
_DIST_CAUTION: Final = "falls with the number and the length of the replies taken together"
CORPORA: Final = {
    n: Measure(
        f"dist_{n}",
        f"Dist-{n}: distinct {what} of all, over all replies together",
        f"share of {what}",
        "higher",
        "Li et al. (2016), arXiv:1510.03055",
        _DIST_CAUTION,
        low=0.0,
        high=1.0,
    )
    for n, what in ((1, "words"), (2, "pairs of neighbouring words"))
}
"""The measures of all replies taken together, by n of their n-grams."""


SCORERS: Final[dict[str, Callable[[MeasuresConfig, Sequence[str], Sequence[Narrative]], Wanted]]] = {
    "lexical": lexical.wanted,
    "emotion": emotion.wanted,
    "lexicon": lexicon.wanted,
    "perplexity": perplexity.wanted,
    "eq": eq.wanted,
    "regard": regard.wanted,
    "bertscore": bertscore.wanted,
    "epitome": epitome.wanted,
}
"""All scorers by their names in ``measures.names``. Their modules import no model; it is loaded when one is opened."""


def wanted_scorers(
    config: MeasuresConfig, *, terms: Sequence[str], narratives: Sequence[Narrative]
) -> Iterator[Wanted]:
    """Yield the configured scorers in order, except ``diversity`` and ``judge``; ``terms`` are masked for regard."""
    for name in dict.fromkeys(config.names):
        if name in SCORERS:
            yield SCORERS[name](config, terms, narratives)
