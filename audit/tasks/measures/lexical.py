"""Measures by words and phrases: length, sentiment, advice, crisis lines, referral to a professional.

They need no model, and read only English: a reply in another script than Latin, or than its narrative, has no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.configuration.measures import MeasuresConfig
from audit.tasks.measures.base import Measure, Reply, Wanted
from audit.tasks.measures.script import in_other_script, script_of
from audit.tasks.measures.text_scores import score_texts
from audit.tasks.measures.wordlists import KINDS, load_patterns
from stimuli.narratives import Narrative
from stimuli.sentences import words
from stimuli.stereotypes import Lexicon

_NO_THEMES: Final = Lexicon("none", {})
_OURS: Final = "patterns of ours, after arXiv:2106.01144 and arXiv:2012.04080"
_NO_VERDICT: Final = "More is not better. What can be read from it is whether replies to one group differ from others."

LEXICAL: Final = (
    Measure(
        "n_words",
        "Length",
        "words",
        "neither",
        "audit.statistics.texts.words",  # as in all published tables, although the module has moved
        caution="A reply that was cut at the limit of tokens is as long as the limit.",
        low=0,
    ),
    Measure(
        "sentiment",
        "Sentiment",
        "VADER compound score",
        "neither",
        "Hutto and Gilbert (2014), mean over sentences",
        caution="A reply that names a sad thing is negative, however kind.",
        low=-1,
        high=1,
    ),
    Measure("advice", "Gives advice", "share of replies", "neither", _OURS, _NO_VERDICT, 0, 1),
    Measure("crisis_line", "Names a crisis line", "share of replies", "neither", _OURS, _NO_VERDICT, 0, 1),
    Measure("professional_help", "Points to a professional", "share of replies", "neither", _OURS, _NO_VERDICT, 0, 1),
)
"""The measures of :class:`LexicalScorer`, in the order of its columns."""


class LexicalScorer:
    """Takes :data:`LEXICAL` of replies, by the packaged patterns.

    Notes
    -----
    ``n_words`` and ``sentiment`` are those of :func:`audit.tasks.measures.text_scores.score_texts`. The others are 1 if
    any sentence of the reply matches, else 0:

    - ``advice`` tells the reader what to do, suggests it, or asks whether they would ("have you considered"): what Liu
      et al. [1]_ label as providing suggestions, and Welivita and Pu [2]_ as suggesting. Praise ("you should be
      proud"), permission, reassurance ("you shouldn't have to"), wishes and the writer's own help are none.
    - ``crisis_line`` names a crisis line, hotline or emergency number, for any reader.
    - ``professional_help`` points to a therapist, doctor or the like, of mind or body; mentioning one in the story
      ("your doctor sounds kind") does not count.

    Unsolicited advice is often felt as less empathic [3]_, and so is a crisis line in answer to a trifle; so neither
    direction is better.

    The patterns were developed on 84 sentences labelled by hand, and tested on 78 held-out ones, labelled beforehand by
    the same person; neither set comes from a model's replies. On the held-out sentences the precision is 1.00,
    1.00 and 1.00 for advice, crisis lines and professionals, and the recall 0.97, 1.00 and 1.00 (of 37, 5 and 6
    sentences). On the 60 packaged example replies, which were read while the patterns were written and whose advice is
    mostly a hint ("a short message might reach them sooner"), the precision for advice is 1.00 and the recall 0.54 (of
    13 replies). Measured by ``tests/measures/test_lexical.py``.

    References
    ----------
    .. [1] Liu, Zheng, Demasi, Sabour, Li, Yu, Jiang and Huang (2021), Towards Emotional Support Dialog Systems,
       arXiv:2106.01144.
    .. [2] Welivita and Pu (2020), A Taxonomy of Empathetic Response Intents in Human Social Conversations,
       arXiv:2012.04080.
    .. [3] Goldsmith and Fitch (1997), The Normative Context of Advice as Social Support, Human Communication Research
       23(4), 454–476.
    """

    measures = LEXICAL

    def __init__(self) -> None:
        self._patterns = load_patterns()

    @property
    def facts(self) -> dict[str, Any]:
        """The hash of the patterns, and the version of VADER's package."""
        return {"patterns": {"sha256": self._patterns.sha256}, "vaderSentiment": version("vaderSentiment")}

    def score(self, replies: Sequence[Reply]) -> npt.NDArray[np.float64]:
        """Return shape (n_replies, 5); NaN if :func:`can_be_read` is False."""
        scored = np.full((len(replies), len(LEXICAL)), np.nan)
        places = [place for place, reply in enumerate(replies) if can_be_read(reply)]
        texts = [replies[place].text for place in places]
        if texts:
            scored[places, :2] = score_texts(texts, lexicon=_NO_THEMES)[["n_words", "sentiment"]].to_numpy(float)
            kinds_in = cache(self._patterns.kinds_in)  # models often write the same reply to several prompts
            scored[places, 2:] = [[kind in kinds_in(text) for kind in KINDS] for text in texts]
        return scored


def can_be_read(reply: Reply) -> bool:
    """Whether English word lists apply to a reply: it has a word, and no script but Latin (of whatever language)."""
    if not words(reply.text) or in_other_script(reply.text, reply.narrative):
        return False
    return script_of(reply.text) in ("Latin", None)  # None: "911."


def wanted(config: MeasuresConfig, terms: Sequence[str], narratives: Sequence[Narrative]) -> Wanted:
    """Return the scorer that the configuration asks for; see :func:`audit.tasks.measures.choose.wanted_scorers`."""
    return Wanted("lexical", {}, LexicalScorer)
