"""Same group, or same words: the part of δ that is there without any repetition of a word.

Where every in-group pair repeats the perceiver's words in the experiencer, a gap may be the echo of a word. Groups of
several terms tell the two apart: a pair may repeat the *same words*, share a *stem* in other words ("a Hindu", "a Hindu
person"), or have no word in common ("a Muslim", "a person who follows Islam"). The last is the echo-free gap. Stems are
stated by whoever words the terms: spelling does not tell them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Self

import numpy as np

from audit.errors import NotEstimableError
from audit.runs.manifest import ComparedWords
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import column_weights
from audit.statistics.ratings import BoolArray, FloatArray
from audit.tables.controls import NO_STEM

_FRAME: Final = frozenset(
    {
        "a", "an", "the", "and", "or", "not", "no", "any", "of", "from", "in", "at", "on", "to", "with", "by",
        "as", "who", "whose", "that", "this", "person", "people", "people's", "someone", "somebody", "one",
        "individual", "man", "woman", "men", "women", "human", "being", "is", "are", "was", "were", "am", "has",
        "have", "had", "does", "do", "did", "born", "raised", "grew", "up", "lives", "living", "comes", "came",
        "grown", "follower", "follows", "follow", "following", "member", "members", "believer", "believes",
        "believe", "belongs", "belong", "practises", "practices", "practising", "practicing", "identifies",
        "identify", "named", "called", "describes", "roots", "root", "descent", "ancestry", "ancestors",
        "ancestor", "background", "heritage", "origin", "origins", "family", "families", "parents", "faith", "united",
        "religion", "nationality", "citizen", "native", "community",
    }
)  # fmt: skip
"""Words that frame a term and name no group."""
_ARTICLES: Final = frozenset({"a", "an", "the"})
_ALIKE: Final = 4  # words of at least so many letters, the first of them equal, count as one stem: Hindu, Hinduism


@dataclass(frozen=True, eq=False)
class Overlap:
    """What two wordings have in common, shape (P, E) each."""

    same_words: BoolArray  # the experiencer's wording is the perceiver's own
    same_stem: BoolArray  # they share a stem, or a word that is not part of the frame, in other words
    same_form: BoolArray  # their frames are the same: "a person who follows …"

    @classmethod
    def of(cls, perceivers: Sequence[str], experiencers: Sequence[str], stems: Mapping[str, str]) -> Self:
        """Compare the wordings of identities; ``perceivers`` has length P, ``experiencers`` length E.

        ``stems`` has each wording's stem, if stated, or several joined by ``+``: two such wordings share a stem just
        when one of theirs is the same. A wording without a stem shares none.
        :class:`~audit.runs.manifest.ComparedWords` are from a run of an earlier version, whose numbers rest on
        comparing words where no stem is stated: equal words, or words of four letters or more with the same first four,
        share a stem; articles, "person", "who" and other words of the frame are left out.
        """
        compared = isinstance(stems, ComparedWords)
        sides = [
            [_SplitWording.of(term, stems.get(term), compared) for term in terms]
            for terms in (perceivers, experiencers)
        ]

        def compare(shares: str) -> BoolArray:
            return np.array([[getattr(p, shares)(e) for e in sides[1]] for p in sides[0]], dtype=bool).reshape(
                len(perceivers), len(experiencers)
            )

        same = compare("repeats")
        return cls(same, compare("shares_stem") & ~same, compare("has_form_of"))


@dataclass(frozen=True, slots=True)
class _SplitWording:
    """A wording split into its words, stem and form."""

    text: str
    stem: str | None
    words: tuple[str, ...]
    form: tuple[str, ...]
    compared: bool

    @classmethod
    def of(cls, term: str, stem: str | None, compared: bool) -> Self:
        parts, words = _words(term), _words(term if stem is None else stem)
        frame = [part if part in _FRAME else "…" for part in parts if part not in _ARTICLES]
        form = tuple(part for part, _ in groupby(frame))
        return cls(
            " ".join(parts).casefold(),
            stem,
            tuple(each.casefold() for each in words if each not in _FRAME),
            form,
            compared,
        )

    def repeats(self, other: _SplitWording) -> bool:
        return self.text == other.text

    def shares_stem(self, other: _SplitWording) -> bool:
        if self.stem is not None and other.stem is not None:
            own, others = self.stem.casefold(), other.stem.casefold()
            return own == others if self.compared else bool(_stems(own) & _stems(others))
        return self.compared and any(_alike(one, another) for one in self.words for another in other.words)

    def has_form_of(self, other: _SplitWording) -> bool:
        return self.form == other.form


def _words(text: str) -> list[str]:
    """Split a wording into lower-case words; an "A" that is no article, as in "group A", stays as it is."""
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text)
    return [word if place and word == "A" else word.casefold() for place, word in enumerate(words)]


def _stems(stated: str) -> set[str]:
    """Split the stated stems of a wording: europe+america are two."""
    return {" ".join(each.split()) for each in stated.split("+")}


def _alike(one: str, another: str) -> bool:
    return one == another or (min(len(one), len(another)) >= _ALIKE and one[:_ALIKE] == another[:_ALIKE])


def echo_free(cube: NarrativeCube, stems: Mapping[str, str]) -> NarrativeCube:
    """Return the cube whose δ is the echo-free gap: of in-group pairs without a word in common, against other groups.

    NotEstimableError if in-group pairs all share a word, it is not stated whether they do, or the pairs do not tell the
    group from the words. ``stems`` as for :meth:`Overlap.of`.

    Notes
    -----
    Within each narrative, least squares of y on S (same words), W (same stem in other words), F (same form), G
    (in-group), perceiver and experiencer: the coefficient of G is the echo-free gap, those of S and W what repeating
    adds to it. F must be there, since pairs without a word in common mostly differ in form too, while half of the
    out-group pairs do not: a model that merely prefers like forms would seem to have a gap.
    """
    overlap, in_group = _overlap(cube, stems)
    if (cube.n_shared != cube.in_group).any():
        raise NotEstimableError("an intersection words each crossed group in one way")
    if not isinstance(stems, ComparedWords):
        _check_stated(cube, in_group & ~overlap.same_words, stems)
    without = in_group & ~overlap.same_words & ~overlap.same_stem
    if not without.any():
        raise NotEstimableError("every two terms of a group share a word or its stem")
    groups = np.array(cube.perceiver_groups, dtype=object)
    asked = dict.fromkeys(groups[in_group.any(axis=1)])
    lacking = [str(group) for group in asked if not without[groups == group].any()]
    if lacking:
        raise NotEstimableError(f"every two terms share a word or its stem in the groups {', '.join(lacking)}")
    nuisance = _told(overlap.same_form, overlap.same_words, overlap.same_stem)
    free = replace(cube, nuisance=nuisance, echoing=overlap.same_words | overlap.same_stem)
    _check(free)
    return free


def _check_stated(cube: NarrativeCube, other_words: BoolArray, stems: Mapping[str, str]) -> None:
    """Refuse in-group pairs of other words that may share one, because their stems are not stated."""
    rows, columns = np.nonzero(other_words)
    terms = dict.fromkeys([*(cube.perceivers[row] for row in rows), *(cube.experiencers[each] for each in columns)])
    lacking = [term for term in terms if term not in stems]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise NotEstimableError(
            f"{NO_STEM} {lacking[0]!r}{more}, so that these terms may repeat a word of their group; state it "
            "for all terms of groups that have several (a column stem in groups=FILE, or `stem:` in "
            "stimuli.own_identities), and analyse again"
        )


def without_echo(cube: NarrativeCube, stems: Mapping[str, str]) -> NarrativeCube:
    """Return the cube whose δ is echo-free, or the cube itself if its terms do not allow that."""
    try:
        return echo_free(cube, stems)
    except NotEstimableError:
        return cube


def echo_of_words(cube: NarrativeCube, stems: Mapping[str, str]) -> NarrativeCube:
    """Return the cube whose δ is the echo: what the very same words add to being of the same group.

    It is estimated beside same form and, if some in-group pairs have no word in common, same stem: else it is what the
    words add to the stem. NotEstimableError if groups have one term each, so that in-group pairs all repeat it.
    """
    overlap, in_group = _overlap(cube, stems)
    repeated = overlap.same_words & in_group
    if not (in_group & ~repeated).any():
        raise NotEstimableError("each group has one term, which all its pairs repeat")
    some_free = bool((in_group & ~overlap.same_words & ~overlap.same_stem).any())
    beside = [overlap.same_form, in_group, *([overlap.same_stem] if some_free else [])]
    return _targeting(cube, repeated, _told(*beside))


def same_words_cube(cube: NarrativeCube, stems: Mapping[str, str]) -> NarrativeCube:
    """Return the cube whose δ is that of in-group pairs that repeat the same words, against other groups.

    Only in this can real and invented groups be compared: invented ones have no terms without a word in common.
    NotEstimableError if no pair repeats its words, or the pairs do not tell them apart.
    """
    overlap, in_group = _overlap(cube, stems)
    repeated = overlap.same_words & in_group
    if not repeated.any():
        raise NotEstimableError("no perceiver and experiencer have the same wording")
    return _targeting(cube, repeated, _told(overlap.same_form, in_group & ~repeated, overlap.same_stem & ~in_group))


def _overlap(cube: NarrativeCube, stems: Mapping[str, str]) -> tuple[Overlap, BoolArray]:
    """Compare the cube's wordings, with baselines sharing nothing, and mark the in-group pairs."""
    overlap = Overlap.of(cube.perceivers, cube.experiencers, stems)
    compared = ~(cube.baseline_perceiver[:, None] | cube.baseline_experiencer)
    return Overlap(*(each & compared for each in (overlap.same_words, overlap.same_stem, overlap.same_form))), (
        cube.in_group & compared
    )


def _targeting(cube: NarrativeCube, target: BoolArray, nuisance: FloatArray | None) -> NarrativeCube:
    found = replace(cube, in_group=target, n_shared=target.astype(np.int64), nuisance=nuisance)
    _check(found)
    return found


def _told(*columns: BoolArray) -> FloatArray | None:
    """Stack the columns that any pair has; None if there are none."""
    kept = [column for column in columns if column.any()]
    return np.stack(kept).astype(np.float64) if kept else None


def _check(cube: NarrativeCube) -> None:
    compared = cube.without_baselines()
    if not compared.in_group.size:
        raise NotEstimableError("the ratings hold baselines only: no perceiver and experiencer have groups to compare")
    column_weights(compared.columns)
