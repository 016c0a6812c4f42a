"""What the explorer's script reads, as one JSON text: cells, emotions, and as many ratings as one file can hold.

Every number in it is already written by `audit.wording`, so that the script never rounds. Tables are packed by column:
a list of the values that occur, in ascending order, and for each row the place in it, in as few characters as do.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.grid import BASELINES
from audit.schema import Status
from audit.wording import MISSING as NOTHING
from audit.wording import brief, count, fixed, interval, p_value, plural, points, rate, scale_end

ALPHABET: Final = "".join(chr(code) for code in range(32, 127) if chr(code) not in '"\\<>&')
"""What a place is written in: printable, one byte each, and never escaped."""
KEYS: Final = ["dimension", "variant", "perceiver", "experiencer"]
STEPS: Final = 40
"""Steps between a palette's ends; a cell's step is its place in it, -1 for none."""
_LONGEST_TEXT: Final = 20_000

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Asked:
    """What one prompt was: its system and user message, and the narrative's text in it."""

    system: str
    user: str
    narrative: str


def steps(values: pd.Series[Any], low: float, high: float) -> IntArray:
    """Return each value's step between the palette's ends, from 0 to `STEPS`; -1 for a missing one."""
    share = np.clip((values.to_numpy(dtype=float) - low) / (high - low), 0, 1)
    return np.where(np.isnan(share), -1, np.round(np.nan_to_num(share) * STEPS)).astype(np.int64)


def _pack(n_rows: Sequence[int], **columns: tuple[npt.ArrayLike, Sequence[object] | None]) -> dict[str, object]:
    """Pack columns of rows that come in groups; equal stretches of groups, of which there are many, are kept once."""
    ends = np.cumsum([0, *n_rows])
    return {"n": list(map(int, n_rows)), "columns": {name: _column(*column, ends) for name, column in columns.items()}}


def _column(places: npt.ArrayLike, values: Sequence[object] | None, ends: IntArray) -> dict[str, object]:
    """Pack one column: places in the values, of which those that occur are kept, or numbers from 0 themselves."""
    codes = np.asarray(places, dtype=np.int64)
    kept = None
    if values is not None:
        used, codes = np.unique(codes, return_inverse=True)
        kept = [values[place] for place in used]
    width, base, largest = 0, len(ALPHABET), int(codes.max(initial=0))
    while largest >= base**width:
        width += 1
    letters = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
    digits = [letters[codes // base**power % base] for power in reversed(range(width))]
    text = np.stack(digits, axis=1).tobytes().decode() if width else ""
    stretches: dict[str, int] = {}
    at = [stretches.setdefault(text[a * width : b * width], len(stretches)) for a, b in pairwise(ends.tolist())]
    return {"of": kept, "w": width, "s": list(stretches), "at": at}


def _written(values: pd.Series[Any], write: Callable[[float], str]) -> tuple[IntArray, list[object]]:
    """Write numbers; the texts are in the numbers' order, what is missing comes last."""
    numbers = values.to_numpy(dtype=float, na_value=math.nan)
    unique, places = np.unique(numbers, return_inverse=True)
    texts: list[object] = [NOTHING if math.isnan(value) else write(value) for value in unique.tolist()]
    new = np.array([at == 0 or text != texts[at - 1] for at, text in enumerate(texts)], dtype=np.int64)
    return (np.cumsum(new) - 1)[places].astype(np.int64), [
        text for text, is_new in zip(texts, new, strict=True) if is_new
    ]


def _named(values: pd.Series[Any]) -> tuple[IntArray, list[object]]:
    """Code names, in the order that people look them up in."""
    codes, names = pd.factorize(values.astype(object))
    return _sorted_codes(codes, list(map(str, names)))


def _sorted_codes(codes: npt.NDArray[Any], names: list[str]) -> tuple[IntArray, list[object]]:
    order = sorted(range(len(names)), key=lambda place: _natural(names[place]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[codes], [brief(names[place]) for place in order]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sort t2 before t10."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]", name)
    return [(True, int(p), p) if p[0] in "0123456789" else (False, 0, p.casefold()) for p in pieces] + [
        (False, 0, name)
    ]


def packed_cells(
    cells: pd.DataFrame,
    parts: Sequence[tuple[str, str]],
    families: pd.DataFrame | None,
    *,
    decimals: int,
    level: str,
) -> dict[str, object]:
    """Pack the cells, in their table's order.

    Parameters
    ----------
    cells
        The table of cells, with ``z``, ``p_perceiver``, ``p_experiencer``, ``shown``, ``interaction`` and ``missing``,
        and the ``…_step`` of all that are coloured.
    parts
        Dimension and variant of each heatmap.
    families
        The table of that name; None where there is none.
    decimals
        Of the interaction.
    level
        Coverage of the families' intervals, as it is written.
    """
    in_group = cells["in_group"].astype("boolean")
    baseline = cells["perceiver_group"].isin(BASELINES) | cells["experiencer_group"].isin(BASELINES)
    place = {part: at for at, part in enumerate(parts)}
    gaps, gap_of = _gaps_of_groups(families, level=level)
    groups = zip(
        *(cells[name] for name in ("dimension", "variant", "perceiver_group", "experiencer_group")), strict=True
    )
    counts = ("n_prompts", "n_rated", "n_refused", "n_unparseable", "n_failed")
    return _pack(
        [len(cells)],
        part=([place[part] for part in zip(cells["dimension"], cells["variant"], strict=True)], None),
        kind=(np.where(baseline, 2, np.where(in_group.fillna(False), 0, 1)), None),
        perceiver=_named(cells["perceiver"]),
        experiencer=_named(cells["experiencer"]),
        perceiver_group=_named(cells["perceiver_group"]),
        experiencer_group=_named(cells["experiencer_group"]),
        mean=_written(cells["mean"], lambda value: fixed(value, decimals=2)),
        sd=_written(cells["sd"], lambda value: fixed(value, decimals=2)),
        **{name: _written(cells[name], count) for name in counts},
        refused=_written(cells["refusal_rate"], rate),
        z=_written(cells["z"], lambda value: fixed(value, decimals=2, signed=True)),
        p_perceiver=_written(cells["p_perceiver"], p_value),
        p_experiencer=_written(cells["p_experiencer"], p_value),
        shown=(cells["shown"].fillna(False).astype(int), None),
        interaction=_written(cells["interaction"], lambda value: fixed(value, decimals=decimals, signed=True)),
        missing=_written(cells["missing"], rate),
        **{
            f"{name}_step": (cells[f"{name}_step"] + 1, range(-1, STEPS + 1))
            for name in ("mean", "z", "interaction", "missing")
        },
        gap=([gap_of.get((d, v, frozenset((p, e))), 0) for d, v, p, e in groups], gaps),
    )


def _gaps_of_groups(
    families: pd.DataFrame | None, *, level: str
) -> tuple[list[object], dict[tuple[str, str, frozenset[str]], int]]:
    """Put the gap of each two groups in words: the two names, and what is said of them."""
    gaps: list[object] = [None]
    place: dict[tuple[str, str, frozenset[str]], int] = {}
    rows = [] if families is None else families.loc[families["family"] == "pair"].to_dict("records")
    for row in rows:
        place[row["dimension"], row["variant"], frozenset((row["member"], row["partner"]))] = len(gaps)
        if not math.isfinite(row["delta_points"]):
            said = f"not estimated. {row['note']}"
        else:
            evidence = [f"{points(row['delta_points'])} points"]
            if math.isfinite(row["ci_low"]):
                evidence.append(f"{level} interval {interval(row['ci_low'], row['ci_high'])}")
            if math.isfinite(row["p"]):
                evidence.append(p_value(row["p"]))
            if math.isfinite(row["p_adjusted"]):
                tests = plural(row["family_size"], "test")
                evidence.append(f"{p_value(row['p_adjusted'])} when corrected for {tests} ({row['method']})")
            said = "; ".join(evidence) + (f". {row['note']}" if row["note"] else "")
        gaps.append([brief(str(row["member"])), brief(str(row["partner"])), said])
    return gaps, place


def _places(rows: pd.DataFrame, cells: pd.DataFrame) -> IntArray:
    """Return the cell of each row."""
    known = pd.MultiIndex.from_frame(cells[KEYS].astype(object))
    places = known.get_indexer(pd.MultiIndex.from_frame(rows[KEYS].astype(object)))
    if (places < 0).any():
        row = rows.iloc[int((places < 0).argmax())]
        raise ValueError(f"the pair {tuple(str(row[key]) for key in KEYS)} is not among the cells")
    return places.astype(np.int64)


def packed_emotions(emotions: pd.DataFrame, cells: pd.DataFrame, *, low: float, high: float) -> dict[str, object]:
    """Pack the table of emotions within cells, in the cells' order; the bars' lengths are percent of the scale.

    Raises
    ------
    ValueError
        If a row's pair is not among the cells.
    """
    places = _places(emotions, cells)
    rows = emotions.iloc[np.lexsort((_named(emotions["emotion"])[0], places))]
    return _pack(
        np.bincount(places, minlength=len(cells)).tolist(),
        emotion=_named(rows["emotion"]),
        mean=_written(rows["mean"], lambda value: fixed(value, decimals=2)),
        length=(steps(rows["mean"], low, high) + 1, [round(100 * step / STEPS) for step in range(-1, STEPS + 1)]),
        n_rated=_written(rows["n_rated"], count),
        n_prompts=_written(rows["n_prompts"], count),
    )


# --- Ratings ---------------------------------------------------------------------------------------------------------


def fit_ratings(
    ratings: pd.DataFrame,
    cells: pd.DataFrame,
    parts: Sequence[tuple[str, str]],
    narratives: pd.DataFrame | None,
    asked: Callable[[int], Asked] | None,
    fixed_part: Mapping[str, object],
    *,
    seed: int,
    max_ratings: int,
    max_bytes: int,
) -> tuple[pd.DataFrame, str]:
    """Take as many narratives as fit, and return their ratings and the whole text.

    Parameters
    ----------
    ratings, narratives
        The tables of that name; no narratives where the narratives' own contrasts are not known.
    cells, parts
        As in `packed_cells`.
    asked
        Gives the prompt of a ``prompt_index``; None where prompts are not known.
    fixed_part
        What the text holds whatever ratings it holds.
    seed
        Of the draw.
    max_ratings, max_bytes
        Most ratings, and most bytes of the text.

    Raises
    ------
    ValueError
        If a rating's pair is not among the cells.
    """
    narrative = ratings["narrative_id"].astype("category").cat
    ids, codes = list(narrative.categories), narrative.codes.to_numpy()
    order = _draw(ids, codes, ratings["emotion"], seed=seed)
    n_rows = np.bincount(codes, minlength=len(ids))
    n_taken = int(np.searchsorted(np.cumsum(n_rows[order]), max_ratings, side="right"))
    rank = np.empty(len(ids), dtype=np.int64)
    rank[order] = np.arange(len(ids))
    taken = rank[codes] < n_taken
    held = ratings.loc[taken]
    held = held.assign(cell=_places(held, cells), rank=rank[codes[taken]])
    response, texts = pd.factorize(held["response"].fillna("").astype(object))
    # A text that several ratings share is kept once, and counts a share to each.
    length = np.array([len(str(text)) for text in texts], dtype=float).clip(max=_LONGEST_TEXT)
    share = (length / np.bincount(response, minlength=len(texts)).clip(min=1))[response]
    size = np.cumsum(np.bincount(held["rank"], weights=5 + share, minlength=n_taken))
    n_taken = int(np.searchsorted(size, max_bytes, side="right"))
    codes_of = _Prompts(asked)
    while True:
        held = held.loc[held["rank"] < n_taken].sort_values(["cell", "prompt_index"])
        text = _json({**fixed_part, **_packed_ratings(held, cells, parts, narratives, codes_of)})
        n_bytes = len(text.encode())
        if n_bytes <= max_bytes or n_taken == 0:
            return held, text
        n_taken = min(int(n_taken * max_bytes / n_bytes * 0.97), n_taken - 1)


def _draw(ids: Sequence[object], codes: npt.NDArray[Any], emotion: pd.Series[Any], *, seed: int) -> IntArray:
    """Return the narratives in the order of the draw: evenly over emotions, whatever the order of the rows."""
    first = pd.Series(emotion.to_numpy(dtype=object)).groupby(codes).first().reindex(range(len(ids)))
    listed = pd.DataFrame({"id": list(map(str, ids)), "emotion": first.to_numpy()})
    shuffled = listed.sort_values("id").sample(frac=1, random_state=np.random.default_rng(seed))
    turn = shuffled.groupby("emotion", sort=False).cumcount()
    return np.asarray(turn.sort_values(kind="stable").index, dtype=np.int64)


class _Prompts:
    """Systems, frames of the user message about the narrative, and narratives' texts: each kept once."""

    def __init__(self, asked: Callable[[int], Asked] | None) -> None:
        self.asked = asked
        self.systems: dict[str, int] = {}
        self.frames: dict[tuple[str, str, int], int] = {}
        self.texts: dict[str, int] = {}
        self._seen: dict[int, tuple[int, int, int]] = {}

    def codes(self, prompts: Sequence[int]) -> IntArray:
        """Return shape (n, 3): system, frame and narrative's text of each prompt."""
        return np.array([self._code(prompt) for prompt in prompts], dtype=np.int64).reshape(-1, 3)

    def _code(self, prompt: int) -> tuple[int, int, int]:
        if prompt not in self._seen:
            assert self.asked is not None
            was = self.asked(prompt)
            frame = _frame(was.user, was.narrative)
            self._seen[prompt] = (
                self.systems.setdefault(was.system, len(self.systems)),
                self.frames.setdefault(frame, len(self.frames)),
                self.texts.setdefault(was.narrative, len(self.texts)),
            )
        return self._seen[prompt]


def _frame(user: str, narrative: str) -> tuple[str, str, int]:
    """Cut the narrative out of a message: what precedes and follows it, and how much of its beginning is not there.

    Counted in UTF-16 units, as a script does; -1 where the narrative is not in the message, which is then kept whole.
    A template may put other words ("a Muslim") in place of the narrative's first ones ("The person").
    """
    starts = [0, *(found.end() - 1 for found, _ in zip(re.finditer(r"\S\s", narrative), range(3), strict=False))]
    for start in starts if narrative else ():
        before, found, after = user.partition(narrative[start:])
        if found:
            return before, after, len(narrative[:start].encode("utf-16-le", "surrogatepass")) // 2
    return user, "", -1


def _packed_ratings(
    held: pd.DataFrame,
    cells: pd.DataFrame,
    parts: Sequence[tuple[str, str]],
    narratives: pd.DataFrame | None,
    prompts: _Prompts,
) -> dict[str, object]:
    index = held["prompt_index"].to_numpy(dtype=np.int64)
    n_rows = np.bincount(held["cell"], minlength=len(cells))
    first = np.zeros(len(cells), dtype=np.int64)
    first[n_rows > 0] = index[(np.cumsum(n_rows) - n_rows)[n_rows > 0]]
    columns: dict[str, tuple[npt.ArrayLike, Sequence[object] | None]] = {
        "offset": (index - first[held["cell"]], None),
        "status": (
            held["status"].astype(pd.CategoricalDtype(list(map(str, Status)))).cat.codes,
            list(map(str, Status)),
        ),
        "intensity": _written(held["intensity"], lambda value: fixed(value, decimals=2)),
        "number_mass": _written(held["number_mass"], rate),
        "mode": _written(held["mode"], scale_end),
    }
    response, texts = pd.factorize(held["response"].fillna("").astype(object))
    columns["response"] = (response, [_cut(str(text)) for text in texts])
    written = np.zeros(len(held), dtype=np.int64)
    if prompts.asked is not None:
        system, frame, written = prompts.codes(index.tolist()).T
        columns["system"] = (system, [_cut(text) for text in prompts.systems])
        columns["frame"] = (frame, [[_cut(before), _cut(after), start] for before, after, start in prompts.frames])
    texts_of = list(prompts.texts)
    shown = held.assign(text=written)[["narrative_id", "emotion", "text"]].astype(
        {"narrative_id": object, "emotion": object}
    )
    unique = shown.drop_duplicates()
    order = sorted(range(len(unique)), key=lambda at: _natural(str(unique["narrative_id"].iloc[at])))
    unique = unique.iloc[order]
    narrative = pd.MultiIndex.from_frame(unique).get_indexer(pd.MultiIndex.from_frame(shown))
    listed = [[brief(str(i)), brief(str(e)), _cut(texts_of[t]) if texts_of else None]
              for i, e, t in unique.itertuples(index=False)]  # fmt: skip
    columns["narrative"] = (narrative, None)
    return {
        "narratives": listed,
        "first": first.tolist(),
        "ratings": _pack(n_rows.tolist(), **columns),
        "contrasts": None if narratives is None else _packed_contrasts(narratives, unique, parts),
    }


def _packed_contrasts(
    narratives: pd.DataFrame, unique: pd.DataFrame, parts: Sequence[tuple[str, str]]
) -> dict[str, object]:
    """Pack the narratives' own contrasts, of those in the file."""
    place = {str(name): at for at, name in reversed(list(enumerate(unique["narrative_id"])))}
    part = {key: at for at, key in enumerate(parts)}
    rows = narratives.loc[narratives["narrative_id"].astype(str).isin(place)]
    rows = rows.assign(
        part=[part[key] for key in zip(rows["dimension"], rows["variant"], strict=True)],
        place=rows["narrative_id"].astype(str).map(place).astype(np.int64),
    ).sort_values(["part", "place"])
    return _pack(
        np.bincount(rows["part"], minlength=len(parts)).tolist(),
        narrative=(rows["place"], None),
        contrast=_written(rows["contrast_points"], points),
        mean=_written(rows["mean"], lambda value: fixed(value, decimals=2)),
        n_rated=_written(rows["n_rated"], count),
        n_prompts=_written(rows["n_prompts"], count),
    )


def _cut(text: str) -> object:
    """Return a text, or of a long one its beginning and its length."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return [text[:_LONGEST_TEXT], f"cut here: {plural(len(text), 'character')}"]


def _json(content: Mapping[str, object]) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)


def sample_sentence(ratings: pd.DataFrame, held: pd.DataFrame, *, seed: int) -> str:
    """Say which of the ratings are held."""
    n_narratives, n_held = ratings["narrative_id"].nunique(), held["narrative_id"].nunique()
    if n_held == n_narratives:
        return f"all {plural(len(ratings), 'rating')} of {plural(n_narratives, 'narrative')} are in this file"
    return (
        f"ratings of {count(n_held)} of {plural(n_narratives, 'narrative')} ({count(len(held))} of "
        f"{count(len(ratings))}) are in this file, drawn at random, evenly over emotions (seed {seed}); "
        "all are in ratings/"
    )
