"""Reads an intensity from a model's free text, or says why it cannot.

A wrong number accuses or acquits a model; a missing one is only missing. When in doubt, a response is unparseable.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import islice

from audit.asking.elicitation.phrases import ParsedResponse, is_refusal, read_response
from audit.asking.elicitation.plain_text import answer_of, normalise_text
from audit.tables.ratings import Status
from stimuli.languages import english_replies
from stimuli.prompts import Question

_HOU_INTEGER = re.compile(r"\b\d+\b")


def parse_response(
    response: str,  # text inside <think> and similar marks, and turns that the model invents, are skipped
    *,
    low: float,
    high: float,
    quoted: Sequence[str] = (),  # texts whose numbers, with the same words around, the response may repeat
    low_label: str | None = None,  # a response that consists of the words for an end is that end
    high_label: str | None = None,
    question: Question | None = None,
    cut: bool | None = False,
) -> ParsedResponse:
    """Read the intensity that a response states on the scale from ``low`` to ``high``; it is never clipped.

    ``question`` names the emotion and the people: the emotion's words label a rating, like "rating" does. If None, the
    common names of emotions do, and a sentence about somebody's feeling is not read as a rating. If the response was
    ``cut`` at its length limit, a number at its end, which might go on, is not read; None means unknown: a number that
    ends a sentence without a full stop is not read.

    Notes
    -----
    - Decoration comes off first: markup, quotes, code, boxes, tables, JSON, line breaks inside a sentence. A bound
      ("> 70") is no rating.
    - A sentence states a rating if a pattern matches all of it. Every other number must be explained: it describes the
      scale, is quoted, is a time, an age or a count, or is denied. Otherwise the response is unparseable.
    - A last sentence that calls its number the rating outweighs unexplained numbers before it, and one that calls it
      final outweighs other ratings. Otherwise two different ratings count as none.
    - Unknown marks around a text make a response unparseable, because they may enclose a thought.
    - "8/10", "80 of 100" and "85%" are shares of the scale: ``low + share * (high - low)``. A fraction of ``high`` is
      already in points. Denominators other than 5, 10, 20, 100 and ``high`` are not read.
    - A range that is the answer ("70-80") is its midpoint, unless a single rating inside it is also stated. The scale's
      own ends ("0 to 100", "1 to 100") are no range. If another scale is named, only fractions are read.
    - "7,5" is 7.5; "1,000" is a thousand. Bounds ("over 90", "90+") and lists ("40 or 60") are not one rating.
    - "The person felt 100 cheerfulness." is a rating if it is the whole response, names the experiencer in the prompt's
      words or as "the person", and names the emotion in question. Anything else in the response makes it a mention:
      another number, a bound, a negation, a reason, another emotion. Pronouns may refer to somebody else.
    - A refusal is a refusing phrase without a rating of its own: "I can't put a number on it, but about 80" is
      rated, "I cannot rate the 2 people" is refused; two contradicting ratings are unparseable, not refused.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"low and high must be finite, low below high; got low={low!r}, high={high!r}")
    return read_response(
        response,
        english_replies(),
        (low, high),
        labels=(low_label, high_label),
        quoted=quoted,
        question=question,
        cut=cut,
    )


def parse_response_hou2025(response: str) -> ParsedResponse:
    r"""Read an intensity as the released code of [1]_ does, faults included.

    The integers are the matches of ``\b\d+\b``. The first is the intensity, or the second if the first is outside
    0-100. If that is outside too, or there is none, the rating is missing; so is any response that begins with "I
    cannot", "I can't" (straight apostrophe) or "I'm not rating".

    Notes
    -----
    Its faults stay, so that published figures can be reproduced: answers up to 100 are accepted on the 10-point
    scale; "7.5" is 7; "-20" is 20; "On a scale from 0 to 100, I'd say 90" is 0; any other refusal that mentions
    "2 people" is 2. The published code has one kind of missing; here its prefixes count as refused, the rest as
    unparseable.

    References
    ----------
    .. [1] Hou, Daumé III and Rudinger (NAACL 2025), arXiv:2503.01030, released code.
    """
    if response.startswith(("I cannot", "I can't", "I'm not rating")):
        return ParsedResponse(Status.REFUSED, math.nan)
    for match in islice(_HOU_INTEGER.finditer(response), 2):
        digits = "".join(str(unicodedata.decimal(c)) for c in match.group()).lstrip("0") or "0"
        if len(digits) <= 3 and int(digits) <= 100:  # the length first: int() refuses very long strings
            return ParsedResponse(Status.RATED, float(digits))
    return ParsedResponse(Status.UNPARSEABLE, math.nan)


def holds_refusal(text: str) -> bool:
    """Tell whether a text has a phrase that declines the task, anywhere outside the model's thinking."""
    return is_refusal(normalise_text(answer_of(text)), ())
