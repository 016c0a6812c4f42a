"""Group gaps that may be compared with each other, and say how two groups differ.

Gaps belong to one group if they agree in outcome, unit, dimension, identities, scale, narratives, elicitation and
in-group pairs. Model, prompt and strategy may differ: a difference between such gaps is attributed to them. A property
that a run did not record equals nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from audit.tables.formatting import MISSING, brief, dimension_title, listed, plural

ASPECTS: Final = {
    "outcome": "outcome",
    "unit": "unit",
    "scale": "scale",
    "texts": "narratives",
    "elicitation": "elicitation",
    "language": "language of the prompts",
    "identities": "identities",
    "pairs": "scope (which in-group pairs)",
}
"""Columns in which the rows of a group agree → the words for readers if two groups differ in one."""
_RECORDED: Final = ("texts", "identities")
"""Runs of other tools or early versions lack these hashes; nobody knows whether two such runs agree."""
_NAMED: Final = 4
_USUAL: Final = "English"  # language of prompts that is not mentioned


@dataclass(frozen=True)
class Group:
    """Gaps that may be compared with each other. Groups are numbered from 1."""

    number: int
    rows: tuple[Mapping[str, Any], ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What its rows have in common."""
        first = self.rows[0]
        return (str(first["dimension"]), *(str(first[name]) for name in ASPECTS))

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """What its runs did not record, in words."""
        return tuple(ASPECTS[name] for name in _RECORDED if not self.rows[0][name])

    @property
    def title(self) -> str:
        """Dimension and outcome, in words."""
        first = self.rows[0]
        outcome = "" if first["outcome"] == "intensity" else f": {brief(str(first['outcome']))}"
        return f"{dimension_title(str(first['dimension']))}{outcome}"


def groups_of(rows: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Group the rows that have a gap: by dimension, then in order of first appearance."""
    sets: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["state"] == "gap":
            alone = str(row["folder"]) if any(not row[name] for name in _RECORDED) else ""
            key = (str(row["dimension"]), *(str(row[name]) for name in ASPECTS), alone)
            sets.setdefault(key, []).append(row)
    order = {name: place for place, name in enumerate(dict.fromkeys(key[0] for key in sets))}
    ordered = sorted(sets.items(), key=lambda item: order[item[0][0]])
    return [Group(number, tuple(own)) for number, (_, own) in enumerate(ordered, start=1)]


def numbered(rows: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return all rows with the numbers of their groups, group by group; rows without a gap come last."""
    own = [dict(row) | {"group": str(group.number)} for group in groups for row in group.rows]
    return own + [dict(row) | {"group": ""} for row in rows if row["state"] != "gap"]


def differences(group: Group, groups: Sequence[Group]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the number of each other group of the same dimension and outcome, and how it differs, in words."""
    first = group.rows[0]
    for other in groups:
        theirs = other.rows[0]
        if other.number == group.number or any(theirs[name] != first[name] for name in ("dimension", "outcome")):
            continue
        found = [words for name, words in ASPECTS.items() if str(first[name]) != str(theirs[name])]
        unknown = [ASPECTS[name] for name in _RECORDED if not (first[name] and theirs[name])]
        found = [*(words for words in found if words not in unknown), *(f"{words}, not recorded" for words in unknown)]
        yield other.number, tuple(found)


def not_comparable(group: Group, groups: Sequence[Group]) -> str:
    """Say which other groups of the dimension and outcome cannot be compared with this one, and why."""
    told = list(differences(group, groups))
    said = [f"set {number} (other {'; '.join(why)})" for number, why in told[:_NAMED]]
    if len(told) > _NAMED:
        said.append(f"{plural(len(told) - _NAMED, 'more set')}")
    return f"Cannot be compared with {listed(said)}." if said else ""


def common_settings(group: Group) -> list[tuple[str, str]]:
    """Return what the gaps of a group have in common, as names and values."""
    first = group.rows[0]
    return [
        ("Unit", str(first["unit"]) or MISSING),
        *([("Scale", str(first["scale"]))] if first["scale"] else []),
        ("Narratives", f"{brief(str(first['narratives'])) or 'of unknown source'}, {_hash(first['texts'])}"),
        ("How asked", brief(str(first["elicitation"]), at_most=200) or "not recorded"),
        *([("Language", str(first["language"]))] if first["language"] not in ("", _USUAL) else []),
        ("Identities", _hash(first["identities"])),
        ("In-group pairs", str(first["pairs"])),
    ]


def _hash(sha256: object) -> str:
    return f"SHA-256 {str(sha256)[:8]}" if sha256 else "SHA-256 not recorded"
