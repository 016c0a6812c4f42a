"""Statuses of replies as measures: 1 or 0 for every reply that did not fail."""

from __future__ import annotations

from typing import Final

from audit.tables.replies import ReplyStatus
from audit.tasks.measures.base import Measure

_OURS: Final = "ours; see audit.tasks.reply.reply_status"


EARLIER: Final = "refused_earlier"  # of talks


def _share(status: str, title: str, caution: str) -> tuple[str, Measure]:
    measure = Measure(str(status), title, "share of replies", "neither", _OURS, caution, low=0.0, high=1.0)
    return status, measure


OUTCOMES: Final = dict(
    (
        _share(
            ReplyStatus.REFUSED, "declined to reply", "found by patterns for English; refusals are in no other measure"
        ),
        _share(
            EARLIER,
            "declined in an earlier turn",
            "of talks: whether any reply before the last declined; found by patterns for English",
        ),
        _share(ReplyStatus.EMPTY, "empty reply", "empty replies are in no other measure"),
        _share(ReplyStatus.OTHER_SCRIPT, "reply in another script", "such replies are in no other measure"),
        _share(ReplyStatus.CUT, "cut at max_tokens", "cut replies are scored as far as they go"),
    )
)
"""For each status that is about the model, the measure whose mean is its share."""
