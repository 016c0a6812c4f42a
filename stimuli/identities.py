"""Who perceives whom: dimensions, their groups and terms, in-group pairs, and intersections of dimensions.

Words: a *dimension* (religion) has *groups* (Muslim), a group one or more *terms* ("a Muslim"). A *perceiver* is the
identity that the model is given, an *experiencer* the one of the person in the narrative. The *unspecified* identity
("a person") is a baseline on both sides, *no persona* one for the perceiver alone; both are outside the gap.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args

import numpy as np
from pydantic import BeforeValidator, StringConstraints, ValidationError, model_validator

from stimuli.errors import StimulusError, suggest
from stimuli.faults import explain, place_of, shown
from stimuli.narratives import supposed_of_any
from stimuli.strict import StrictModel
from stimuli.yaml_files import at_line, read_yaml

UNSPECIFIED: Final = "unspecified"
NO_PERSONA: Final = "no persona"
PLACEBO: Final = "placebo"  # in place of a study in the identities' file: its sets of invented groups
CASES: Final = ("accusative", "dative", "genitive", "instrumental", "locative")
"""Grammatical forms of a term, beside the one that names it, that a template of a language pack may ask for."""
CROSS: Final = "+"  # joins the names of crossed dimensions: `race_ethnicity+religion`
IDENTITIES_FILE: Final = Path(__file__).parent / "data" / "identities.yaml"
PACKS: Final = IDENTITIES_FILE.with_suffix("")  # a folder: a file a dimension, which `dimensions=[NAME]` asks for

Cue = Literal["label", "name", "context"]
"""How a term tells the group: by its label, by a first name that is typical of it, or by what its members do."""
EARLIER_TURN: Final = "earlier_turn"  # the label, told by the user in an earlier turn of the conversation
CUES: Final = (*get_args(Cue), EARLIER_TURN)  # what stimuli.cues takes
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Term(StrictModel):
    term: Word
    stem: Word | None = None
    cue: Cue = "label"
    first_person: Word | None = None  # how somebody says it of themselves


_LINES: Final = ("term", "stem", "first_person")


def _as_term(value: object) -> object:
    if isinstance(value, str):
        value = {"term": value}
    if isinstance(value, dict) and len(value) == 1 and not set(value) & set(_Term.model_fields) and _is_text(value):
        raise ValueError(f"a wording with a colon must be in quotes: '{': '.join(map(str, *value.items()))}'")
    if isinstance(value, dict) and any(len(str(value.get(name)).splitlines()) > 1 for name in _LINES):
        raise ValueError("a wording must be one line; remove the line breaks")
    if not isinstance(value, (dict, _Term)):
        raise ValueError(
            "a wording must be text, or have its text in `term: ...`; put numbers, true and false in quotes"
        )
    return value


def _is_text(value: dict[object, object]) -> bool:
    """Tell whether a mapping may be a text that YAML took for a name and its value."""
    return all(isinstance(key, str) and " " in key for key in value)


class _Group(StrictModel):
    terms: tuple[Annotated[_Term, BeforeValidator(_as_term)], ...]
    adjective: Word | None = None
    noun: Word | None = None
    place: Word | None = None
    cluster: Word | None = None
    contradicts: tuple[Word, ...] = ()  # what packaged situations suppose and nobody, or nearly nobody, of it has

    @model_validator(mode="after")
    def _has_terms(self) -> _Group:
        if not self.terms:
            raise ValueError("a group needs at least one term")
        return self


def _as_group(value: object) -> object:
    if value is None:
        raise ValueError("a group needs at least one term, as a list or under `terms`")
    if isinstance(value, (str, int, float)):
        raise ValueError(f"the wordings of a group must be a list; write [{value}] even if there is only one")
    return {"terms": value} if isinstance(value, (list, tuple)) else value


_Groups = dict[Word, Annotated[_Group, BeforeValidator(_as_group)]]


def _as_in_group(value: object) -> object:
    listed = isinstance(value, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in value)
    if listed and not all(isinstance(name, str) for pair in cast("Sequence[Sequence[object]]", value) for name in pair):
        raise ValueError("names of groups must be text; put numbers, true and false in quotes")
    if value not in ("same_group", "same_cluster") and not listed:
        raise ValueError("must be same_group, same_cluster or a list of [perceiver's group, experiencer's group]")
    return value


_InGroup = Annotated[
    Literal["same_group", "same_cluster"] | tuple[tuple[Word, Word], ...], BeforeValidator(_as_in_group)
]


class _Dimension(StrictModel):
    unspecified: Word = "a person"
    in_group: _InGroup = "same_group"
    groups: _Groups | None = None
    perceivers: _Groups | None = None
    experiencers: _Groups | None = None

    @model_validator(mode="after")
    def _check(self) -> _Dimension:
        if (self.groups is None) == (self.perceivers is None and self.experiencers is None):
            raise ValueError("give either `groups`, or both `perceivers` and `experiencers`")
        self._check_spelling()
        for side in (self.perceiver_groups, self.experiencer_groups):
            if not side:
                raise ValueError("give both `perceivers` and `experiencers`, each with groups")
            owner: dict[str, str] = {}
            for name, group in side.items():
                if name in (UNSPECIFIED, NO_PERSONA):
                    raise ValueError(f"{name!r} is the name of a baseline; rename the group")
                for term in (each.term for each in group.terms):
                    if (same := " ".join(term.split())) == " ".join(self.unspecified.split()):
                        raise ValueError(
                            f"{term!r} in {name!r} is the wording for a person of no group; reword it, or give the "
                            "dimension another text under `unspecified`"
                        )
                    if same in owner:
                        raise ValueError(f"the term {term!r} is in {owner[same]!r} and again in {name!r}; keep one")
                    owner[same] = name
        return self

    def _check_spelling(self) -> None:
        """Refuse names of groups that differ in capitals or white space alone: they are meant to be one group."""
        seen: dict[str, str] = {}
        for name in (*self.perceiver_groups, *self.experiencer_groups):
            first = seen.setdefault(_plain(name), name)
            if name != first:
                raise ValueError(f"the group {name!r} is also written {first!r}; write it one way")

    @property
    def perceiver_groups(self) -> _Groups:
        return (self.groups if self.groups is not None else self.perceivers) or {}

    @property
    def experiencer_groups(self) -> _Groups:
        return (self.groups if self.groups is not None else self.experiencers) or {}

    def in_group_pairs(self) -> frozenset[tuple[str, str]]:
        """Return the pairs (perceiver's group, experiencer's group) that share a group."""
        perceivers, experiencers = self.perceiver_groups, self.experiencer_groups
        if not isinstance(self.in_group, str):
            for perceiver, experiencer in self.in_group:
                for name, known in ((perceiver, perceivers), (experiencer, experiencers)):
                    if name not in known:
                        raise StimulusError(f"in_group names {name!r}: {suggest(name, known)}")
            return frozenset(self.in_group)
        if self.in_group == "same_group":
            return frozenset((name, name) for name in perceivers if name in experiencers)
        for name, group in itertools.chain(perceivers.items(), experiencers.items()):
            if group.cluster is None:
                raise StimulusError(
                    f"in_group is same_cluster, but the group {name!r} has no cluster; add `cluster: NAME` to it"
                )
        return frozenset(
            (p, e)
            for p, perceiver_group in perceivers.items()
            for e, experiencer_group in experiencers.items()
            if perceiver_group.cluster == experiencer_group.cluster
        )


def _plain(text: str) -> str:
    """Return a text without what nobody would tell two groups by: capitals and white space."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True, slots=True)
class Identity:
    """One identity of one side of a dimension."""

    term: str  # the wording that a prompt shows ("a Latina"); for no persona its name, which no prompt shows
    group: str  # what the term belongs to; for an intersection the groups joined; for a baseline its name
    groups: tuple[str, ...]  # the group in each crossed dimension, in their order; empty for a baseline
    # What the term turns on, in one spelling; several are joined by +. Terms share a stem if one of theirs is the same.
    # None where the term is the only one of its group, and in what earlier versions wrote.
    stem: str | None = None
    cue: Literal[Cue, "earlier_turn"] = "label"  # how the term tells the group
    forms: tuple[tuple[str, str], ...] = ()  # in further CASES, if a language pack words it: case and wording
    said: str = ""  # what the user says of themselves, where they and not the prompt tell who they are

    @property
    def is_baseline(self) -> bool:
        """Whether this is the unspecified identity or no persona: shown, but outside the gap."""
        return not self.groups


@dataclass(frozen=True)
class Dimension:
    """What perceiver and experiencer may differ in; one dimension of a study or several crossed."""

    name: str  # e.g. religion, or race_ethnicity+religion for an intersection
    perceivers: tuple[Identity, ...]  # baselines last, as of experiencers
    experiencers: tuple[Identity, ...]
    # for each crossed dimension the pairs (perceiver's group, experiencer's group) that share a group
    in_group_pairs: tuple[frozenset[tuple[str, str]], ...]
    clusters: Mapping[str, str]  # the cultural cluster of each group that has one
    placebo: bool = False  # whether its groups are invented, or trivial: what δ is held against, and no δ of its own
    # by group, what it contradicts of what packaged situations suppose; see stimuli.fitting
    contradicts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def stems(self) -> dict[str, str]:
        """The stem of each term that has one."""
        return {each.term: each.stem for each in (*self.perceivers, *self.experiencers) if each.stem is not None}

    @property
    def states_stems(self) -> bool:
        """Whether stems say which in-group pairs repeat a word; of an earlier version's file they may not."""
        told = self.stems
        return all(
            own.term == other.term or (own.term in told and other.term in told)
            for own, other in self.pairs()
            if self.in_group(own, other)
        )

    @property
    def has_perceivers(self) -> bool:
        """Whether the model is given an identity; else no group is its own."""
        return any(each.groups for each in self.perceivers)

    @property
    def cues(self) -> dict[str, str]:
        """How each term of a group tells it."""
        return {each.term: each.cue for each in (*self.perceivers, *self.experiencers) if not each.is_baseline}

    def n_shared(self, perceiver: Identity, experiencer: Identity) -> int | None:
        """Return in how many crossed dimensions the two share a group; None if either is a baseline."""
        if perceiver.is_baseline or experiencer.is_baseline:
            return None
        pairs = zip(perceiver.groups, experiencer.groups, strict=True)
        return sum(pair in shared for pair, shared in zip(pairs, self.in_group_pairs, strict=True))

    def in_group(self, perceiver: Identity, experiencer: Identity) -> bool | None:
        """Return whether the two share the group in every crossed dimension; None if either is a baseline."""
        n_shared = self.n_shared(perceiver, experiencer)
        return None if n_shared is None else n_shared == len(self.in_group_pairs)

    def pairs(self) -> Iterator[tuple[Identity, Identity]]:
        """Yield every (perceiver, experiencer), experiencers running fastest."""
        return itertools.product(self.perceivers, self.experiencers)


@cache
def _packaged() -> dict[str, dict[str, object]]:
    return {name: body for name, body in read_yaml(IDENTITIES_FILE).items() if name != PLACEBO}


@cache
def _placebos() -> dict[str, _Dimension]:
    return _parse(read_yaml(IDENTITIES_FILE)[PLACEBO], place=f"{IDENTITIES_FILE.name}: {PLACEBO}")


def packs() -> tuple[str, ...]:
    """Return the names of the packaged dimensions that have a file of their own.

    Examples
    --------
    >>> packs()[:3]
    ('age', 'caste', 'disability')
    """
    return tuple(sorted(path.stem for path in PACKS.glob("*.yaml")))


@cache
def _pack(name: str) -> _Dimension:
    path = PACKS / f"{name}.yaml"
    return _parse(read_yaml(path), place=path.name)[name]


def load_placebos(
    wanted: int | Sequence[str], *, n_terms: int, seed: int, perceivers: bool = True, disclosed: bool = False
) -> tuple[Dimension, ...]:
    """Return dimensions of groups that do not exist, or do not matter: what δ is held against.

    ``wanted`` is how many sets of invented groups, drawn without replacement, or which, by name.

    Examples
    --------
    >>> [invented] = load_placebos(["invented_1"], n_terms=1, seed=0)
    >>> [each.term for each in invented.perceivers]
    ['a Veltan', 'a Dorr', 'a Kessolti', 'an Omlunder']
    >>> invented.placebo
    True
    """
    known = _placebos()
    invented = [name for name in known if name.startswith("invented")]
    if isinstance(wanted, int):
        if not 0 <= wanted <= len(invented):
            raise StimulusError(
                f"stimuli.placebo={wanted}: there are {len(invented)} sets of invented groups; ask for at most "
                "that many"
            )
        drawn = np.random.default_rng([seed, zlib.crc32(PLACEBO.encode())]).choice(len(invented), wanted, replace=False)
        names = [invented[place] for place in sorted(drawn.tolist())]
    else:
        names = list(wanted)
    dimensions = []
    for name in names:
        if name not in known:
            raise StimulusError(f"stimuli.placebo names {name!r}: {suggest(name, known)}")
        if names.count(name) > 1:
            raise StimulusError(f"stimuli.placebo lists {name!r} twice; keep one")
        groups = known[name].groups or {}
        fewest = min(len(group.terms) for group in groups.values())
        if not 1 <= n_terms <= fewest:
            raise StimulusError(
                f"stimuli.placebo_terms={n_terms}: the groups of {name} have {fewest}; ask for 1 to {fewest}"
            )
        few = {key: group.model_copy(update={"terms": group.terms[:n_terms]}) for key, group in groups.items()}
        part = known[name].model_copy(update={"groups": few})
        built = _build(
            name, [part], [name], unspecified=False, no_persona=False, perceivers=perceivers, disclosed=disclosed
        )
        dimensions.append(replace(built, placebo=True))
    return tuple(dimensions)


def packaged_terms() -> dict[str, frozenset[str]]:
    """Return the terms of each packaged study, with the unspecified identity's.

    Examples
    --------
    >>> "a Muslim" in packaged_terms()["geneva"]
    True
    """
    found = {}
    for study, body in _packaged().items():
        dimensions = _parse(body, place=study).values()
        groups = [g for d in dimensions for side in (d.perceiver_groups, d.experiencer_groups) for g in side.values()]
        terms = (term.term for group in groups for term in group.terms)
        found[study] = frozenset([*terms, *(dimension.unspecified for dimension in dimensions)])
    return found


def pack_terms() -> dict[str, dict[str, str]]:
    """Return the terms of each of :func:`packs` and how each tells its group, with the unspecified identity's.

    Examples
    --------
    >>> pack_terms()["gender"]["a person named Jennifer"]
    'name'
    """
    found = {}
    for name in packs():
        pack = _pack(name)
        groups = (pack.perceiver_groups | pack.experiencer_groups).values()
        found[name] = {pack.unspecified: "label"} | {each.term: each.cue for group in groups for each in group.terms}
    return found


def _parse(content: object, *, place: str, path: Path | None = None) -> dict[str, _Dimension]:
    """Return the dimensions that a mapping says; ``path`` is the user's file that it is of, whose lines are named."""
    if not isinstance(content, dict) or not content:
        raise StimulusError(f"{place}: has no dimension; write at least one: a name, with its groups below it")
    dimensions: dict[str, _Dimension] = {}
    for name, body in content.items():
        where = at_line(path, name) if path is not None and isinstance(name, str) else place
        if not isinstance(name, str):
            raise StimulusError(
                f"{where}: the dimension name {shown(name)} is not text; put it in quotes (YAML reads yes, no, on "
                "and off as true and false)"
            )
        if not name or any(c in name for c in f"{CROSS}/\\ "):
            raise StimulusError(f"{where}: the dimension name {name!r} must be a word without {CROSS!r}, '/' or spaces")
        if not isinstance(body, dict) or name in _Dimension.model_fields:
            raise StimulusError(
                f"{where}: {name!r} is not a dimension; write a dimension's name at the left edge, below it "
                "`groups:`, and below that the groups"
            )
        stripped = [str(key) for side in body.values() if isinstance(side, dict) for key in side]
        if twice := next((key for key in stripped if key != key.strip()), None):
            raise StimulusError(f"{where}: {name}: the name {twice!r} begins or ends with a space; remove the space")
        try:
            dimensions[name] = _Dimension.model_validate(body)
        except ValidationError as error:
            where = at_line(path, name, *place_of(error, body)) if path is not None else place
            raise StimulusError(f"{where}: {name}: {explain(error, _Dimension, body)}") from error
        _check_stems(dimensions[name], name, place=place, path=path)
        _check_contradicted(dimensions[name], name, place=place, path=path)
    return dimensions


def _check_contradicted(dimension: _Dimension, name: str, *, place: str, path: Path | None) -> None:
    """Refuse a contradiction of what no packaged situation supposes: a slip would leave nothing out."""
    for side in ("groups", "perceivers", "experiencers"):
        for group, body in (getattr(dimension, side) or {}).items():
            for supposes in body.contradicts:
                if supposes not in (known := supposed_of_any()):
                    where = place if path is None else at_line(path, name, side, group)
                    raise StimulusError(
                        f"{where}: {name}: {group!r} contradicts {supposes!r}, which no packaged situation supposes; "
                        f"{suggest(supposes, known)}"
                    )


def _check_stems(dimension: _Dimension, name: str, *, place: str, path: Path | None) -> None:
    """Refuse in-group pairs of other words that do not say whether they share one.

    Letters do not tell it: Jew and Jewish, Dane and Danish share a stem, Austrian and Australian do not.
    """
    try:
        pairs = dimension.in_group_pairs()
    except StimulusError:  # told where the dimension is built
        return
    for own, other in sorted(pairs):
        sides = ((own, dimension.perceiver_groups[own]), (other, dimension.experiencer_groups[other]))
        terms = [(group, term) for group, body in sides for term in body.terms]
        several = len({term.term for _, term in terms}) > 1
        if several and (found := next(((group, term) for group, term in terms if term.stem is None), None)):
            group, lacking = found
            side = "groups" if dimension.groups else "perceivers" if group == own else "experiencers"
            where = place if path is None else at_line(path, name, side, group)
            raise StimulusError(
                f"{where}: {name}: the term {lacking.term!r} needs a stem, because {group!r} has other wordings "
                f"too; write {{term: {_in_yaml(lacking.term)}, stem: WORD}}, with the same WORD for terms that "
                "share a word in any form (Jew, Jewish), and another WORD for the others"
            )


def _in_yaml(text: str) -> str:
    """Return a text as it stands in a mapping in braces."""
    return text if re.fullmatch(r"[^\W_][\w '’.-]*", text) and ": " not in text else f'"{text}"'


def load_dimensions(
    study: str,  # of data/identities.yaml
    *,
    own: Path | None = None,  # a user's YAML file of further dimensions, in the form of the packaged file's
    # which, in this order, of these or of :func:`packs`; a+b crosses two; None: all of the study's and the user's
    names: Sequence[str] | None = None,
    unspecified: bool = True,
    no_persona: bool = False,
    perceivers: bool = True,  # whether the model is given identities; else "no persona" is the only perceiver
    disclosed: bool = False,  # whether the user says who they are
    cues: Sequence[str] | None = None,  # keep only terms that tell their group by these
    perceiver_terms: int | None = None,  # let perceivers have the first so many terms of each group
    experiencer_terms: int | None = None,
) -> tuple[Dimension, ...]:
    """Return the dimensions of a packaged study, of a user's own file and of :func:`packs`, and intersections of them.

    Examples
    --------
    >>> [religion] = load_dimensions("geneva", names=["religion"], perceiver_terms=1, experiencer_terms=1)
    >>> [each.term for each in religion.perceivers]
    ['a Buddhist', 'a Christian', 'a Hindu', 'a Muslim', 'a person']
    >>> first = religion.perceivers[0]
    >>> [religion.in_group(first, other) for other in religion.experiencers]  # None: "a person" has no group
    [True, False, False, False, None]
    """
    packaged = _packaged()
    if study not in packaged:
        raise StimulusError(f"stimuli.identities={study!r}: {suggest(study, packaged)}")
    place = f"{IDENTITIES_FILE.name}: {study}"
    known = _parse(packaged[study], place=place)
    places = dict.fromkeys(known, place)
    if own is not None:
        added = _parse(read_yaml(own), place=str(own), path=own)
        for name in added:
            if name in known:
                raise StimulusError(f"{own}: the dimension {name!r} is one of {study}'s; give yours another name")
            if name in _placebos():
                raise StimulusError(f"{own}: {name!r} is a packaged set of invented groups; give yours another name")
        known |= added
        places |= {name: at_line(own, name) for name in added}
    wanted = list(names) if names is not None else list(known)
    # A dimension of the study or of the user's own file goes before a packaged one of the same name.
    for name in {part for each in wanted for part in each.split(CROSS)} & {*packs()} - {*known}:
        known[name], places[name] = _pack(name), f"{PACKS.name}/{name}.yaml"
    if not wanted:
        raise StimulusError(f"dimensions is empty; {suggest('', {*known, *packs()})}")
    dimensions: list[Dimension] = []
    for name in wanted:
        if wanted.count(name) > 1:
            raise StimulusError(f"dimensions lists {name!r} twice; keep one")
        parts = name.split(CROSS)
        for part in parts:
            if part not in known:
                raise StimulusError(f"dimensions: {part!r} is not a dimension; {suggest(part, {*known, *packs()})}")
        if len(set(parts)) < len(parts):
            raise StimulusError(f"dimensions: {name!r} crosses a dimension with itself; give two different ones")
        try:
            dimensions.append(
                _build(
                    name,
                    [
                        _with_terms(known[part], cues=cues, limits=(perceiver_terms, experiencer_terms))
                        for part in parts
                    ],
                    parts,
                    unspecified=unspecified,
                    no_persona=no_persona,
                    perceivers=perceivers,
                    disclosed=disclosed,
                    cues=cues,
                )
            )
        except StimulusError as error:
            where = ", ".join(dict.fromkeys(places[part] for part in parts))
            raise StimulusError(f"{where}: dimension {name!r}: {error}") from error
    return tuple(dimensions)


def _with_terms(part: _Dimension, *, cues: Sequence[str] | None, limits: tuple[int | None, int | None]) -> _Dimension:
    """Return a dimension with some of its terms; StimulusError if a group has none left."""
    if cues is None and limits == (None, None):
        return part
    for side_name, limit in zip(("perceiver", "experiencer"), limits, strict=True):
        if limit is not None and limit < 1:
            raise StimulusError(f"stimuli.{side_name}_terms={limit} must be at least 1; null takes all")
    for cue in cues or ():
        if cue not in CUES:
            raise StimulusError(f"stimuli.cues names {cue!r}: {suggest(cue, CUES)}")
    wanted = {"label" if cue == EARLIER_TURN else cue for cue in cues or ()}

    def side(groups: _Groups, limit: int | None) -> _Groups:
        kept = {}
        for name, group in groups.items():
            terms = tuple(term for term in group.terms if cues is None or term.cue in wanted)[:limit]
            if not terms:
                there = list(dict.fromkeys(term.cue for term in group.terms))
                raise StimulusError(
                    f"stimuli.cues={list(cues or ())}: the terms of {name!r} show their group by {there}; give one of "
                    "these, or null for all"
                )
            kept[name] = group.model_copy(update={"terms": terms})
        return kept

    sides = {
        "groups": None,
        "perceivers": side(part.perceiver_groups, limits[0]),
        "experiencers": side(part.experiencer_groups, limits[1]),
    }
    return part.model_copy(update=sides)


def _build(
    name: str,
    parts: list[_Dimension],
    part_names: list[str],
    *,
    unspecified: bool,
    no_persona: bool,
    perceivers: bool = True,
    disclosed: bool = False,
    cues: Sequence[str] | None = None,
) -> Dimension:
    sides: list[list[Identity]] = []
    groups = [p.perceiver_groups for p in parts], [p.experiencer_groups for p in parts]
    for of_experiencers, side in zip((False, True), groups, strict=True):
        if not (of_experiencers or perceivers):
            sides.append([])
            continue
        says = disclosed and of_experiencers
        if len(parts) == 1:
            identities = [
                Identity(t.term, g, (g,), t.stem, t.cue, said=_said(t.term, t.cue, t.first_person) if says else "")
                for g, group in side[0].items()
                for t in group.terms
            ]
        else:
            identities = _intersections(side, part_names)
            if says:
                identities = [replace(each, said=_said(each.term, each.cue)) for each in identities]
        if says and EARLIER_TURN in (cues or ()):
            identities = list(_also_told_earlier(identities, keep="label" in (cues or ())))
        if unspecified:
            wordings = {part.unspecified for part in parts}
            if len(wordings) > 1:
                raise StimulusError(
                    f"its dimensions word the unspecified identity differently: {sorted(wordings)}; give them the same "
                    "`unspecified`, or leave it out with stimuli.unspecified=false"
                )
            identities.append(Identity(wordings.pop(), UNSPECIFIED, ()))
        sides.append(identities)
    if no_persona or not perceivers:
        sides[0].append(Identity(NO_PERSONA, NO_PERSONA, ()))
    for identities in sides:
        owner: dict[str, str] = {}
        for identity in identities:
            if identity.term in owner:
                raise StimulusError(
                    f"{owner[identity.term]!r} and {identity.group!r} are both worded {identity.term!r}; reword one"
                )
            owner[identity.term] = identity.group
    dimension = Dimension(
        name=name,
        perceivers=tuple(sides[0]),
        experiencers=tuple(sides[1]),
        in_group_pairs=tuple(part.in_group_pairs() for part in parts),
        clusters={
            group: body.cluster
            for part in parts
            for group, body in (part.perceiver_groups | part.experiencer_groups).items()
            if body.cluster is not None
        },
        contradicts={
            group: frozenset(body.contradicts)
            for part in parts
            for group, body in part.experiencer_groups.items()
            if body.contradicts
        },
    )
    if perceivers:
        _check_pairs(dimension)
    elif len({each.groups for each in dimension.experiencers if not each.is_baseline}) < 2:
        raise StimulusError("it has one group, which no other can be compared with; add a second group")
    return dimension


def _check_pairs(dimension: Dimension) -> None:
    """Refuse a dimension whose pairs are all in-group, or none."""
    verdicts: set[bool | None] = set()
    for perceiver, experiencer in dimension.pairs():
        verdicts.add(dimension.in_group(perceiver, experiencer))
        if verdicts >= {True, False}:
            return
    which = "every" if True in verdicts else "no"
    remedy = (
        "add a second group"
        if True in verdicts
        else "give perceivers and experiencers groups of the same names, or list pairs in in_group"
    )
    raise StimulusError(f"{which} pair is in-group, so no gap can be computed; {remedy}")


def _also_told_earlier(identities: Sequence[Identity], *, keep: bool) -> Iterator[Identity]:
    """Yield each label as one that the user gave in an earlier turn; ``keep`` it as it is, too."""
    for each in identities:
        if each.cue != "label":
            yield each
            continue
        if keep:
            yield each
        yield replace(each, term=f"{each.term} (in an earlier turn)", cue=EARLIER_TURN)


def _said(term: str, cue: str, first_person: str | None = None) -> str:
    """Return what a user of an identity says of themselves.

    Examples
    --------
    >>> _said("a Muslim", "label"), _said("a Black person", "label"), _said("a person from Lagos", "label")
    ('I am a Muslim.', 'I am Black.', 'I am from Lagos.')
    >>> _said("a person named Khadija", "name"), _said("a person whose family observes Ramadan", "context")
    ('My name is Khadija.', 'My family observes Ramadan.')
    """
    if first_person is not None:
        return first_person
    if cue == "label":
        plain = re.fullmatch(r"an? person ((?:from|of) .+)|an? (.+) person", term)
        return f"I am {next(filter(None, plain.groups())) if plain else term}."
    pattern = r"an? [\w-]+ (?:named|called) (.+)" if cue == "name" else r"an? [\w-]+ whose (.+)"
    if (found := re.fullmatch(pattern, term)) is None:
        raise StimulusError(
            f"the term {term!r} does not say how a user tells it of themselves; add first_person to it, as in "
            f"{{term: {_in_yaml(term)}, cue: {cue}, first_person: I ...}}"
        )
    return f"My name is {found[1]}." if cue == "name" else f"My {found[1]}."


def _intersections(side: Sequence[_Groups], part_names: Sequence[str]) -> list[Identity]:
    """Word every combination of one group per dimension: adjectives, one noun, then ``from PLACE``."""
    head = next((k for k in reversed(range(len(side))) if all(g.noun for g in side[k].values())), None)
    identities = []
    for combination in itertools.product(*(groups.items() for groups in side)):
        before, noun, after = [], "person", []
        for k, (group_name, group) in enumerate(combination):
            if k == head and group.noun:
                noun = group.noun
            elif all(g.place for g in side[k].values()):
                after.append(f"from {group.place}")
            elif group.adjective:
                before.append(group.adjective)
            else:
                raise StimulusError(
                    f"the group {group_name!r} of {part_names[k]} has no `adjective` or `place`, so it cannot be "
                    "combined with another dimension; add one to its entry"
                )
        groups = tuple(group_name for group_name, _ in combination)
        identities.append(Identity(_with_article(" ".join([*before, noun, *after])), " + ".join(groups), groups))
    return identities


def _with_article(phrase: str) -> str:
    return str(_articles().a(phrase))


@cache
def _articles() -> Any:
    # Imported here: it takes a second or more, and only intersections need it.
    import inflect

    engine = inflect.engine()
    engine.defan(r"(?:8\d*|1[18])\b.*")  # an 80-year-old, which it would give "a"
    engine.defa(r"Uighur.*")
    return engine
