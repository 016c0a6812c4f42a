"""Lists of narratives for people to rate; each narrative's experiencer rotates over the lists, as in a Latin square."""

from __future__ import annotations

import hashlib
import itertools
import string
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from pydantic import ValidationError

from audit.errors import ConfigError
from audit.people.items import identifiers
from audit.people.questions import Asked, OptionQuestion, Questions, ScaleQuestion
from audit.tables.formatting import count, dimension_title, plural
from stimuli.faults import explain
from stimuli.identities import CROSS, UNSPECIFIED, Dimension, Identity
from stimuli.narratives import Narrative
from stimuli.prompts import SCALE_FIELDS, PromptGrid, Scale
from stimuli.yaml_files import read_yaml

LIST_KEY: Final[dict[str, str]] = {
    "item_id": "what raters know the item by; tells nothing",
    "list": "the list that it stands in; a rater has one",
    "dimension": "what the experiencer's group is one of; empty for the unspecified one, which all dimensions share",
    "narrative_id": "the narrative, unique within its source",
    "emotion": "the narrative's emotion, which the form asks about",
    "experiencer": "wording of the identity that is said to tell it",
    "experiencer_group": "its group",
}
"""Columns of the key of an intensity form, which never goes to raters."""
NORMING_KEY: Final = {name: LIST_KEY[name] for name in ("item_id", "list", "narrative_id", "emotion")}
"""Columns of the key of a norming form, which names no identity."""
FORMS_FILE: Final = Path(__file__).parent / "forms.yaml"
_NARRATIVE: Final = frozenset({"narrative", "Narrative"})
_EXPERIENCER: Final = frozenset({"experiencer", "Experiencer", "Narrative"})
_OURS: Final = '{Experiencer} tells:\n"{narrative}"'


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of items, and the key to them."""

    shown: pd.DataFrame  # all that raters may see, one row an item, in an order that reveals nothing
    key: pd.DataFrame  # columns of LIST_KEY or NORMING_KEY, in the same order
    remarks: tuple[str, ...]  # warnings for the researcher

    @property
    def names(self) -> list[str]:
        """The lists' names, in order."""
        return sorted(self.key["list"].unique())


def rating_lists(grid: PromptGrid, *, n: int, n_lists: int | None, seed: int, salt: str) -> Lists:
    """Draw narratives for intensity ratings; each list has another group's experiencer tell them.

    ``n`` is the number of narratives a list, fewer if the run has fewer or if all groups share fewer evenly.
    ``n_lists`` of None takes as many lists as it takes for every narrative to meet every experiencer. ``salt`` must be
    known only to those who have the run: it keys the identifiers.

    Notes
    -----
    A *condition* is a group of a dimension, or the unspecified experiencer. Of C conditions, the narrative at place j
    has condition (j + l) mod C in list l: a Latin square, in which a rater reads each narrative once and, with a
    multiple of C narratives, each condition equally often; over C lists each narrative has each condition once. A
    group's terms rotate: in the b-th round of C lists, the narrative at place j has term number b + ⌊j/C⌋ (modulo the
    group's terms). So after as many rounds as the largest group has terms, each narrative has met each term. Narratives
    of one emotion are adjacent, so that each group tells each emotion about equally often in every list.
    """
    conditions = _conditions(grid.dimensions)
    n_rounds = max(len(terms) for _, _, terms in conditions)
    full = len(conditions) * n_rounds
    n_lists = full if n_lists is None else n_lists
    if n < 1:
        raise ConfigError(f"n={n}: give the number of narratives per list, at least 1")
    if not 1 <= n_lists <= full:
        raise ConfigError(
            f"lists={n_lists}: the run has {count(full)} different lists; give 1 to {count(full)}: several raters may "
            "have the same list"
        )
    rng = np.random.default_rng(seed)
    # A narrative that contradicts a group of some dimension is told by nobody: conditions take narratives in turn.
    left_out = {name for names in grid.left_out.values() for name in names}
    narratives = [each for each in grid.narratives.narratives if each.narrative_id not in left_out]
    if not narratives:
        raise ConfigError(
            "every narrative of the run contradicts a group of some dimension, so people cannot be asked about all "
            "groups; export from a run with one dimension"
        )
    available = min(n, len(narratives))
    even = available - available % len(conditions)
    chosen = _drawn(narratives, even or available, rng)
    order = [conditions[place] for place in rng.permutation(len(conditions))]
    template = shown_template(grid.variant.user)
    rows = []
    for number, (place, narrative) in itertools.product(range(n_lists), enumerate(chosen)):
        dimension, group, terms = order[(place + number) % len(order)]
        experiencer = terms[(number // len(order) + place // len(order)) % len(terms)]
        values = grid.variant.values(experiencer, experiencer, narrative)
        rows.append(
            {
                "list": f"list-{number + 1:0{len(str(n_lists))}d}",
                "dimension": dimension,
                "narrative_id": narrative.narrative_id,
                "emotion": narrative.emotion,
                "experiencer": experiencer.term,
                "experiencer_group": group,
                "narrative": (template or _OURS).format(**values),
                "noun": narrative.words.noun or narrative.emotion,
            }
        )
    table = _identified(rows, f"{salt}\0{seed}")
    shown = table[["item_id", "list", "narrative", "noun"]].rename(columns={"noun": "emotion"})
    return Lists(
        shown,
        table[list(LIST_KEY)],
        tuple(
            _remarks(
                chosen,
                n=n,
                n_lists=n_lists,
                full=full,
                n_conditions=len(conditions),
                worded=template is not None,
                example=rows[0]["narrative"],
            )
        ),
    )


def norming_lists(grid: PromptGrid, *, n: int, n_lists: int | None, seed: int, salt: str) -> Lists:
    """Deal a run's narratives, without any identity, into lists for people to say what is felt in them."""
    narratives = grid.narratives.narratives
    if n < 1:
        raise ConfigError(f"n={n}: give the number of narratives per list, at least 1")
    full = -(-len(narratives) // n)
    n_lists = full if n_lists is None else n_lists
    if not 1 <= n_lists <= full:
        raise ConfigError(
            f"lists={n_lists}: the run's {plural(len(narratives), 'narrative')} fill {count(full)} lists of {n}; give "
            "a number from 1 to that, or another n"
        )
    rng = np.random.default_rng(seed)
    chosen = _drawn(narratives, min(n * n_lists, len(narratives)), rng)
    # Dealt in turn, neighbouring narratives of one emotion go to different lists.
    rows = [
        {
            "list": f"list-{place % n_lists + 1:0{len(str(n_lists))}d}",
            "narrative_id": narrative.narrative_id,
            "emotion": narrative.emotion,
            "narrative": narrative.wording(grid.variant.narrative),
        }
        for place, narrative in enumerate(chosen)
    ]
    table = _identified(rows, f"{salt}\0{seed}\0norming")
    said = (
        f"{plural(len(chosen), 'narrative')} of {count(len(narratives))} in {plural(n_lists, 'list')}, without identity"
    )
    return Lists(table[["item_id", "list", "narrative"]], table[list(NORMING_KEY)], (said,))


def rating_questions(grid: PromptGrid, scale: Scale, *, introduction: str | None) -> tuple[Questions, dict[str, str]]:
    """Build the questions of the intensity form; also map those about the rater to the dimension that they ask for."""
    words = _forms()["intensity"]
    groups: dict[str, dict[str, None]] = {}
    for dimension in _real(grid.dimensions):
        for place, name in enumerate(dimension.name.split(CROSS)):
            own = groups.setdefault(name, {})
            own.update(dict.fromkeys(each.groups[place] for each in dimension.perceivers if not each.is_baseline))
    about: list[OptionQuestion] = []
    asked: dict[str, str] = {}
    for name, own in groups.items():
        column = f"about_{len(about) + 1}"
        asked[column] = name
        text = words["about"].replace("{dimension}", dimension_title(name))
        options = (*own, words["none"], words["not_said"])
        about.append(_choice(column, text, options, of=f"the groups of {name}"))
    questions = Questions(
        introduction=words["introduction"] if introduction is None else introduction,
        questions=(_intensity(words["question"], scale),),
        about=tuple(about),
    )
    return questions, asked


def norming_questions(grid: PromptGrid, scale: Scale, *, introduction: str | None) -> Questions:
    """Build the norming form's questions on each narrative: its emotion, its intensity and its plausibility."""
    words = _forms()["norming"]
    options = tuple(_nouns(grid.narratives.narratives).values())
    if len(options) < 2:
        raise ConfigError(
            f"the run's narratives are all of one emotion, {options[0]!r}, so raters would have nothing to choose "
            "from; use a run with several emotions"
        )
    asked: tuple[Asked, ...] = (
        _choice("felt", words["emotion"], options, of="the run's emotions"),
        _intensity(words["intensity"], scale),
        ScaleQuestion(name="plausibility", **words["plausibility"]),
    )
    return Questions(introduction=words["introduction"] if introduction is None else introduction, questions=asked)


def emotions_in_order(grid: PromptGrid) -> list[str]:
    """Return the run's emotions in the order in which the norming form offers them."""
    return list(_nouns(grid.narratives.narratives))


def shown_template(user: str) -> str | None:
    """Cut a user message down to who tells the narrative, and the narrative; None if it does not name both."""
    lines = user.split("\n")
    last = max((place for place, line in enumerate(lines) if _fields(line) & _NARRATIVE), default=-1)
    kept = "\n".join(line for line in lines[: last + 1] if not _fields(line) & SCALE_FIELDS).strip()
    found = _fields(kept)
    return kept if found & _NARRATIVE and found & _EXPERIENCER else None


def _fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def _choice(name: str, text: str, options: tuple[str, ...], *, of: str) -> OptionQuestion:
    try:
        return OptionQuestion(name=name, text=text, options=options)
    except ValidationError as error:
        raise ConfigError(f"{of} cannot be shown to raters: {explain(error)}; reword it in the run") from error


def _intensity(text: str, scale: Scale) -> ScaleQuestion:
    return ScaleQuestion(
        name="intensity",
        text=text,
        entry="scale" if scale.high <= 10 else "number",
        low=scale.low,
        high=scale.high,
        low_label=scale.low_label,
        high_label=scale.high_label,
    )


@cache
def _forms() -> dict[str, Any]:
    return read_yaml(FORMS_FILE)


def _real(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """Return the dimensions whose groups people can belong to."""
    return [each for each in dimensions if not each.placebo]


def _conditions(dimensions: Sequence[Dimension]) -> list[tuple[str, str, tuple[Identity, ...]]]:
    """List each kind of experiencer as dimension, group and terms; an unspecified wording has no dimension."""
    found: dict[tuple[str, str, str], list[Identity]] = defaultdict(list)
    for dimension in _real(dimensions):
        for each in dimension.experiencers:
            where = ("", UNSPECIFIED, each.term) if each.is_baseline else (dimension.name, each.group, "")
            if each not in found[where]:
                found[where].append(each)
    return [(dimension, group, tuple(terms)) for (dimension, group, _), terms in found.items()]


def _drawn(narratives: Sequence[Narrative], n: int, rng: np.random.Generator) -> list[Narrative]:
    """Draw narratives as evenly over emotions as possible; those of one emotion stay together."""
    by_emotion: dict[str, list[Narrative]] = defaultdict(list)
    for place in rng.permutation(len(narratives)):
        by_emotion[narratives[place].emotion].append(narratives[place])
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_emotion.values()))
    rank = {emotion: place for place, emotion in enumerate(by_emotion)}
    chosen = itertools.islice((each for each in turns if each is not None), n)
    return sorted(chosen, key=lambda each: rank[each.emotion])


def _identified(rows: Sequence[dict[str, str]], secret: str) -> pd.DataFrame:
    """Give each row an identifier that reveals nothing, and sort by it."""
    table = pd.DataFrame(rows)
    things = ["\0".join((row["list"], row["narrative_id"])) for row in rows]
    made = identifiers(things, secret=hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest())
    return table.assign(item_id=made).sort_values("item_id", ignore_index=True)


def _nouns(narratives: Sequence[Narrative]) -> dict[str, str]:
    """Return the noun of each emotion; the emotions' names if nouns are missing or not unique."""
    nouns = {each.emotion: each.words.noun for each in narratives}
    return nouns if all(nouns.values()) and len(set(nouns.values())) == len(nouns) else {name: name for name in nouns}


def _remarks(
    chosen: Sequence[Narrative], *, n: int, n_lists: int, full: int, n_conditions: int, worded: bool, example: str
) -> list[str]:
    said = [
        f"{plural(n_lists, 'list')} of the same {plural(len(chosen), 'narrative')}, each told by one of "
        f"{plural(n_conditions, 'group')} (the unspecified one counts as one); give raters of each group the lists in "
        "turn, one list a rater"
    ]
    if len(chosen) % n_conditions:
        said.append(
            f"{plural(len(chosen), 'narrative')} cannot be shared evenly by {plural(n_conditions, 'group')}: a rater "
            "does not read all groups equally often"
        )
    elif len(chosen) < n:
        said.append(
            f"n={n} was asked for: {count(len(chosen))} is the largest number that the run has narratives for and all "
            "groups share evenly"
        )
    if n_lists < full:
        said.append(
            f"{count(full)} lists are needed for every narrative to be told by everyone; with {count(n_lists)} some "
            "narratives are not rated with some"
        )
    if not worded:
        said.append("the prompt says who tells the narrative in the line that asks for a number: raters read our words")
    said.append(f"an item reads: {' / '.join(example.split(chr(10)))}")
    return said
