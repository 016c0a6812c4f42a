"""Perplexity: how predictable a reply is to a named causal language model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import MeasuresConfig
from audit.engines.likelihood import LikelihoodModel
from audit.tasks.measures.base import Measure, Reply, Wanted
from stimuli.narratives import Narrative

_SOURCE: Final = (
    "exp of the mean token NLL per text, as Hugging Face's evaluate; arXiv:2511.18696 averages it over texts"
)
_CAUTION: Final = (
    "a low value says that the named scorer finds the text predictable, not that the text is empathic or well written; "
    "a scorer that is the audited model favours its own words"
)

MEASURES: Final = (
    Measure(
        name="perplexity",
        title="Perplexity",
        unit="perplexity of the named scorer",
        better="neither",
        source=_SOURCE,
        caution=f"{_CAUTION}; a few odd texts can swamp its mean",
        low=1.0,
    ),
    Measure(
        name="log_perplexity",
        title="Log perplexity",
        unit="nats per token of the named scorer",
        better="neither",
        source="mean token NLL, the logarithm of the perplexity",
        caution=_CAUTION,
        low=0.0,
    ),
)


class PerplexityScorer:
    """Takes the perplexity of each reply by itself, without the narrative before it, and its logarithm.

    Perplexity is exp(NLL / n), NLL the sum of −log p over the reply's n scored tokens;
    :class:`audit.engines.likelihood.LikelihoodModel` says which these are, and has the parameters. The mean over
    replies is the mean of perplexities, not the perplexity of all replies as one text. It depends on the scorer's
    vocabulary: values of two scorers cannot be compared.
    """

    measures = MEASURES

    def __init__(
        self,
        model: str = "embedded:smollm2",
        *,
        revision: str | None = None,
        device: str = "cpu",
        download: bool = False,
    ) -> None:
        self._scorer = LikelihoodModel(model, revision=revision, device=device, download=download)

    @property
    def facts(self) -> dict[str, Any]:
        """The scorer's facts; ``files`` tells whether it is the audited model itself."""
        return self._scorer.facts

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """See :class:`audit.tasks.measures.base.Scorer`.

        A perplexity too large for a float64 is NaN; its logarithm is not.
        """
        likelihoods = self._scorer.score([reply.text for reply in replies])
        mean = likelihoods.nll / np.where(likelihoods.n_tokens > 0, likelihoods.n_tokens, 1)
        within = np.where(mean < np.log(np.finfo(np.float64).max), mean, np.nan)
        return np.column_stack([np.exp(within), mean])


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    own = config.perplexity
    scorer = partial(PerplexityScorer, own.model, revision=own.revision, device=config.device, download=config.download)
    return Wanted("perplexity", own.model_dump(mode="json"), scorer)
