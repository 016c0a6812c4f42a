"""A judge that says which of two replies to one narrative is better, asked twice with their order swapped.

A judge that favours a place is asked once with each reply in it, so that the bias cancels in the preference and is
reported separately as position bias (arXiv:2310.05140 compares models' replies with people's in this way; swapping the
order follows Zheng et al. 2023, arXiv:2306.05685).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.asking.elicitation.parsing import holds_refusal
from audit.asking.elicitation.plain_text import answer_of, normalise_text, split_words
from audit.engines.base import Engine, OpenModel, TokenReader, encode_prompts, next_token_probabilities, token_reader
from audit.engines.chat import ChatTokenizer
from audit.errors import ModelError
from audit.tables.preference import PAIRS
from audit.tables.ratings import Status
from audit.tasks.measures.base import Reply
from audit.tasks.reply.judge.rubric import Method
from stimuli.prompts import Prompt
from stimuli.rubrics import Rubric

Path: TypeAlias = tuple[int, ...]

MAX_TOKENS: Final = 16  # of an answer, for `generate`
_ANSWERS: Final = {"expected": "A or B", "generate": "A, B or tie"}
_CHOSE_FIRST: Final = {"a": 1.0, "b": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """A judge's answer to one order of two replies; its fields are columns of :data:`audit.tables.preference.PAIRS`."""

    status: Status
    chose_first: float = np.nan
    mass: float = np.nan
    response: str = ""


def judge_pairs(
    pairs: Sequence[tuple[Reply, Reply]],
    *,
    opened: OpenModel,
    rubric: Rubric,
    criterion: str,
    method: Method,
) -> pd.DataFrame:
    """Ask a judge which of two replies, to one narrative and experiencer, is better, each pair in both orders.

    ``expected`` takes P(A) / (P(A) + P(B)), whatever would follow the letter; ``generate`` reads an answer that is A, B
    or tie and nothing else. An order without a choice is missing, never 0.5.
    """
    prompts = []
    for place, (first, second) in enumerate(pairs):
        if (first.narrative, first.experiencer) != (second.narrative, second.experiencer):
            raise ValueError(
                f"pair {place}: the replies answer different narratives or experiencers; pair replies to the same ones"
            )
        if not (first.text.strip() and second.text.strip()):
            raise ValueError(f"pair {place}: a reply is blank; leave such pairs out and count them")
        for a, b in ((first, second), (second, first)):
            prompts.append(
                rubric.pair_prompt(
                    criterion,
                    experiencer=a.experiencer,
                    narrative=a.narrative,
                    first=a.text,
                    second=b.text,
                    answers=_ANSWERS[method],
                )
            )
    opened.engine.forget()
    answers = (_expected if method == "expected" else _generated)(opened.engine, prompts)
    rows = []
    for place, (first, _) in enumerate(pairs):
        given, swapped = answers[2 * place : 2 * place + 2]
        rows.append(
            {
                "pair": place,
                "narrative_id": first.narrative_id,
                "dimension": first.dimension,
                "emotion": first.emotion,
                "criterion": criterion,
                "preference": (given.chose_first + 1 - swapped.chose_first) / 2,
                "consistent": _consistent(given.chose_first, 1 - swapped.chose_first),
                "first_place": (given.chose_first + swapped.chose_first) / 2,
            }
            | {
                f"{order}_{name}": value
                for order, answer in (("given", given), ("swapped", swapped))
                for name, value in (asdict(answer) | {"status": answer.status.value}).items()
            }
        )
    judged = pd.DataFrame(rows, columns=list(PAIRS))
    return judged.astype({"consistent": "boolean"})


def answer_tokens(tokenizer: ChatTokenizer, answers: Sequence[str], *, before: str) -> dict[Path, str]:
    """Return the token paths that spell each answer after a rendered prompt, with and without a space before."""
    spelt = [
        (path, answer)
        for space in ("", " ")
        for answer in answers
        if (path := tokenizer.continuation(before, f"{space}{answer}"))
    ]
    spellings = dict(spelt)
    clashes = any(spellings[path] != answer for path, answer in spelt) or any(
        one != other and one == other[: len(one)] for one in spellings for other in spellings
    )
    if clashes or set(spellings.values()) != set(answers):
        raise ModelError(
            f"judge {tokenizer.name}: its tokenizer does not tell the answers {' and '.join(answers)} apart, so "
            "their probabilities cannot be read; use method=generate"
        )
    return spellings


def _expected(engine: Engine, prompts: Sequence[Prompt]) -> list[JudgeAnswer]:
    if not prompts:
        return []
    reader = token_reader(engine, remedy="use method=generate")
    spellings = answer_tokens(reader.tokenizer, ("A", "B"), before=reader.tokenizer.render(prompts[0]))
    encoded = encode_prompts(reader, prompts, room=max(map(len, spellings)))
    fitting = {place: ids for place, ids in enumerate(encoded) if ids is not None}
    answers = [JudgeAnswer(Status.FAILED) for _ in prompts]
    for place, shares in zip(fitting, _probabilities(reader, list(fitting.values()), spellings), strict=True):
        mass = float(shares.sum())
        if mass > 0:
            answers[place] = JudgeAnswer(Status.RATED, chose_first=float(shares[0]) / mass, mass=min(mass, 1.0))
        else:
            answers[place] = JudgeAnswer(Status.UNPARSEABLE, mass=0.0)
    return answers


def _probabilities(
    reader: TokenReader, prompts: list[list[int]], spellings: dict[Path, str]
) -> npt.NDArray[np.float64]:
    """Return shape (n_prompts, 2): the probability of A and of B, over all their spellings."""
    reached: dict[Path, npt.NDArray[np.float64]] = {(): np.ones(len(prompts))}
    for depth in range(max(map(len, spellings)) if prompts else 0):
        going_on = [path for path in spellings if len(path) > depth]
        begun = sorted({path[:depth] for path in going_on})
        tokens = sorted({path[depth] for path in going_on})
        tables = np.stack(next_token_probabilities(reader, prompts, [begun] * len(prompts), tokens))
        for path in going_on:
            row, column = begun.index(path[:depth]), tokens.index(path[depth])
            reached[path[: depth + 1]] = reached[path[:depth]] * tables[:, row, column]
    shares = [
        np.sum([reached[path] for path, spelt in spellings.items() if spelt == answer], axis=0) for answer in ("A", "B")
    ]
    return np.column_stack(shares) if prompts else np.empty((0, 2))


def _generated(engine: Engine, prompts: Sequence[Prompt]) -> list[JudgeAnswer]:
    return [
        JudgeAnswer(Status.REFUSED, response=written.text or "") if written.refused else _read(written.text)
        for written in engine.write(prompts, max_tokens=MAX_TOKENS)
    ]


def _read(text: str | None) -> JudgeAnswer:
    """Read an answer that is exactly A, B or tie, in any case and with any marks and punctuation."""
    if text is None:
        return JudgeAnswer(Status.FAILED)
    words = split_words(normalise_text(answer_of(text)))
    if len(words) == 1 and words[0] in _CHOSE_FIRST:
        return JudgeAnswer(Status.RATED, chose_first=_CHOSE_FIRST[words[0]], response=text)
    return JudgeAnswer(Status.REFUSED if holds_refusal(text) else Status.UNPARSEABLE, response=text)


def _consistent(given: float, swapped: float) -> bool | None:
    """Whether two preferences for the same reply lie on one side of 0.5."""
    if np.isnan(given) or np.isnan(swapped):
        return None
    return bool(np.sign(given - 0.5) == np.sign(swapped - 0.5))
