"""How models mark the thought that they write before an answer: the tags of each family, and how they are told apart.

A thought stands between two marks, and the answer begins after the second. They are as the families' own chat templates
write them: ``<think>`` of Qwen3 and DeepSeek-R1, ``<seed:think>`` of Seed-OSS, ``◁think▷`` of Kimi, and the channels of
gpt-oss, in which a thought is a message of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from audit.config import ThinksIn
from audit.errors import ModelError


@dataclass(frozen=True, slots=True)
class Dialect:
    """The marks of a thought.

    Attributes
    ----------
    name
        What ``model.thinks_in`` calls it.
    marks
        Any of them, in a chat template or as one token of the vocabulary, tells that a model thinks so.
    opens, begins
        What stands before a thought, and the white space after that where the template writes none.
    closes
        What the model writes to end it.
    answers
        What stands between that and the answer.
    """

    name: ThinksIn
    marks: tuple[str, ...]
    opens: str
    closes: str
    begins: str = ""
    answers: str = ""

    def opened(self, text: str) -> str:
        """Return a rendered prompt, up to where the thought begins: opened by its template, or else here."""
        return text if text.rstrip().endswith(self.opens) else text + self.opens + self.begins

    def at_once(self, text: str) -> str:
        """Return a rendered prompt with an empty thought at its end, unless its template wrote one."""
        if text.rstrip().endswith((self.closes, self.closes + self.answers)):
            return text
        return f"{self.opened(text)}{self.begins}{self.closes}{self.answers}"

    def after(self, text: str, thought: str) -> str:
        """Return a rendered prompt with a thought, up to where the answer begins."""
        return f"{self.opened(text)}{thought}{self.closes}{self.answers}"


THINK: Final = Dialect("think", ("<think>", "</think>"), "<think>", "</think>", "\n", "\n\n")
DIALECTS: Final = (
    Dialect(
        "gpt-oss",
        ("<|channel|>",),
        "<|channel|>analysis<|message|>",
        "<|end|>",
        answers="<|start|>assistant<|channel|>final<|message|>",
    ),
    Dialect("seed", ("<seed:think>", "</seed:think>"), "<seed:think>", "</seed:think>", answers="\n"),
    Dialect("kimi", ("◁think▷", "◁/think▷"), "◁think▷", "◁/think▷"),
    THINK,
)
"""All of them; a model is taken for the first of which it has a mark."""


def dialect_of(asked: ThinksIn, template: str, is_token: Callable[[str], bool]) -> Dialect | None:
    """Return the dialect that a model thinks in; None where nothing tells that it thinks.

    Parameters
    ----------
    asked
        ``model.thinks_in``.
    template
        Its chat template; empty where it cannot be read.
    is_token
        Whether a text is one token of its vocabulary.
    """
    if asked != "auto":
        return next(each for each in DIALECTS if each.name == asked)
    in_template = (each for each in DIALECTS if any(mark in template for mark in each.marks))
    return next(in_template, None) or next((each for each in DIALECTS if any(map(is_token, each.marks))), None)


def no_dialect(name: str) -> ModelError:
    """Return what is raised of a model that is asked to think and has no marks to do it with."""
    known = ", ".join(each.name for each in DIALECTS)
    return ModelError(
        f"model {name}: neither its chat template nor its vocabulary tells how it marks a thought, so that it is taken "
        f"for a model that does not think; use thinking=off, or say which marks it was trained with: model.thinks_in= "
        f"one of {known}"
    )
