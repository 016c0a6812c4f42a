"""Words for the task of a page of texts."""

from __future__ import annotations

from dataclasses import dataclass

_OF_A_MEASURE = (
    "δ of a measure is how much higher it is in {own} than in {others}, after removing what single identities {do}. It "
    "is an average over narratives, in the measure's unit. It describes this model under this prompt, with these "
    "narratives and this measure."
)


@dataclass(frozen=True, slots=True)
class TaskWords:
    """Words for the task of a page of texts."""

    texts: str  # what was written: replies, or answers
    heading: str  # of a run's page, with braces for the model's name
    question: str  # that the page answers
    to: str  # what the model was asked to do, in a few words, with braces for what it was asked about
    about: tuple[str, str]  # singular and plural of what it was asked about
    asked: str  # what was done, and what δ is of it; see delta_of_measures
    no_better: str  # what the numbers do not say, to stand after "this does not show:"
    gap: str  # for a comparison: its heading
    where: str  # for a comparison: where the gap is
    # Of a model without an identity, if the task can be without perceivers:
    heading_groups: str = ""  # as `heading`
    of_groups: str = ""  # the question that the page answers
    to_groups: str = ""  # as `to`
    asked_groups: str = ""  # what was done, without δ
    read: bool = False  # whether texts were read from a file: `to` and `to_groups` then say what the model did


def delta_of_measures(*, own: str, others: str, do: str) -> str:
    """Say what δ of a measure is."""
    return _OF_A_MEASURE.format(own=own, others=others, do=do)
