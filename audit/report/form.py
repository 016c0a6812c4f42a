"""The form in which people rate texts: one HTML file that works from a disk, keeps answers, and saves them as CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import pandas as pd

from audit.report.page import render_page
from stimuli.hashes import fingerprint

SHOWN: Final = ("item_id", "person", "narrative", "reply", "emotion")
"""Columns of the items that the page holds. Only ``item_id`` and ``narrative`` are required."""


@dataclass(frozen=True)
class Words:
    """Words for the page and its items."""

    title: str
    one: str  # singular of an item
    many: str
    told: str  # heading of an item's narrative


REPLIES: Final = Words("Rating replies", "reply", "replies", "What the person told")
SITUATIONS: Final = Words("Reading situations", "situation", "situations", "The situation")


@runtime_checkable
class OptionField(Protocol):
    """A question answered by one of its options."""

    @property
    def name(self) -> str:
        """Column of its answers."""

    @property
    def text(self) -> str:
        """What raters read."""

    @property
    def options(self) -> tuple[str, ...]:
        """The answers, in order."""


class ScaleField(Protocol):
    """A question answered by a whole number from ``low`` to ``high``."""

    @property
    def name(self) -> str:
        """Column of its answers."""

    @property
    def text(self) -> str:
        """What raters read."""

    @property
    def entry(self) -> str:
        """``scale`` for numbers to click, ``number`` for an input field."""

    @property
    def low(self) -> int:
        """Lower end of the scale, in points."""

    @property
    def high(self) -> int:
        """Upper end of the scale, in points."""

    @property
    def low_label(self) -> str:
        """Label of the lower end."""

    @property
    def high_label(self) -> str:
        """Label of the upper end."""


def render_form(
    items: pd.DataFrame,
    questions: Sequence[ScaleField | OptionField],
    *,
    introduction: str = "",
    about: Sequence[OptionField] = (),
    words: Words = REPLIES,
) -> str:
    """Return the form as one page: nothing is fetched, and nothing is sent.

    The column ``emotion`` of ``items`` fills ``{emotion}`` in the questions' texts. ``about`` is asked about the rater,
    once, before the first item; an answer is required.

    Notes
    -----
    Answers are kept in the browser's localStorage under the form, which is told by the SHA-256 of its content, and
    the rater's ID. Several raters may get one file: each has an order of its own, by a Fisher–Yates shuffle with
    Mulberry32, seeded by FNV-1a (32 bits) of "FORM/RATER". The CSV has a row for every item in the order of ``items``,
    with ``rater``, ``item_id`` and a column for each question, empty where nothing was answered; then one for each
    question about the rater.
    """
    if items.empty or not questions:
        raise ValueError("a form needs an item and a question")
    if items["item_id"].duplicated().any():
        raise ValueError("two items have the same item_id")
    shown = items[[name for name in SHOWN if name in items.columns]].astype(str)
    content = {
        "questions": [_content(question) for question in questions],
        "items": shown.to_dict("records"),
        **({"about": [_content(question) for question in about]} if about else {}),
        "words": {"one": words.one, "many": words.many},
    }
    form = fingerprint(content)[:16]
    payload = json.dumps({"form": form, **content}, separators=(",", ":")).replace("<", r"\u003c")
    return render_page(
        "form.html.j2",
        styles=("style.css", "form.css"),
        scripts=("form.js",),
        payload=payload,
        paragraphs=[part.strip() for part in re.split(r"\n\s*\n", introduction) if part.strip()],
        words=words,
        about=[{"name": question.name, "text": question.text, "options": question.options} for question in about],
        numbers=any(not isinstance(question, OptionField) and question.entry == "number" for question in questions),
        n_items=len(shown),
        n_questions=len(questions),
    )  # fmt: skip


def _content(question: ScaleField | OptionField) -> dict[str, object]:
    if isinstance(question, OptionField):
        return {"name": question.name, "text": question.text, "options": list(question.options)}
    return {
        "name": question.name,
        "text": question.text,
        "entry": question.entry,
        "low": question.low,
        "high": question.high,
        "low_label": question.low_label,
        "high_label": question.high_label,
    }
