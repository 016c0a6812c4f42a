"""Words for the task of a page of texts."""

from __future__ import annotations

from dataclasses import dataclass

_OF_A_MEASURE = (
    "δ of a measure is how much higher it is in {own} than in {others}, beyond what single identities {do}: on average "
    "over narratives, in the measure's unit. It is a property of this model under this prompt, these narratives and "
    "this measure."
)


@dataclass(frozen=True, slots=True)
class TaskWords:
    """Words for the task of a page of texts.

    Attributes
    ----------
    texts
        What was written: replies, or answers.
    heading
        Of a run's page, with braces for the model's name.
    question
        That the page answers.
    to
        What the model was asked to do, in a few words, with braces for what it was asked about.
    about
        Singular and plural of what it was asked about.
    asked
        What was done, and what δ is of it; see :func:`delta_of_measures`.
    no_better
        What the numbers do not say, to stand after "not to be concluded:".
    gap, where
        For a comparison: its heading, and where the gap is.
    """

    texts: str
    heading: str
    question: str
    to: str
    about: tuple[str, str]
    asked: str
    no_better: str
    gap: str
    where: str


def delta_of_measures(*, own: str, others: str, do: str) -> str:
    """Say what δ of a measure is.

    ``own`` and ``others`` are the in-group and the out-group in the task's words; ``do`` is what single identities do
    besides the gap.
    """
    return _OF_A_MEASURE.format(own=own, others=others, do=do)
