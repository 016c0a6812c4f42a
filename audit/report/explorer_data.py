"""Data of the explorer's script, as one compressed text: cells, emotions, and as many ratings as a file can hold.

`audit.report.explorer_columns` packs tables, and `audit.report.prompts` packs prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from audit.asking.conversations import ConversationPrompt
from audit.report.cell_matrix import BASELINES
from audit.report.explorer_columns import (
    LONGEST_TEXT,
    IntArray,
    code_names,
    compact_json,
    compressed,
    natural_order,
    pack_columns,
    shorten,
    write_numbers,
)
from audit.report.prompts import SHORTEST_CUT, Prompts, packed_calls, shown_frame
from audit.tables.formatting import brief, count, fixed, interval, p_value, plural, points, rate, scale_end
from audit.tables.ratings import Status

KEYS: Final = ["dimension", "variant", "perceiver", "experiencer"]
_SHRINKS: Final = 0.5  # size of JSON after gzip and base64, about: the search for a fit starts there
_FULL: Final = 0.85  # share of the byte limit from which no more narratives are tried
STEPS: Final = 40  # Number of steps of a palette. A cell stores its step, -1 for none.


def steps(values: pd.Series[Any], low: float, high: float) -> IntArray:
    """Return each value's step between the palette's ends, from 0 to `STEPS`; -1 for a missing value."""
    share = np.clip((values.to_numpy(dtype=float) - low) / (high - low), 0, 1)
    return np.where(np.isnan(share), -1, np.round(np.nan_to_num(share) * STEPS)).astype(np.int64)


def packed_cells(
    cells: pd.DataFrame,
    parts: Sequence[tuple[str, str]],  # dimension and variant of each heatmap
    families: pd.DataFrame | None,
    *,
    decimals: int,  # of the interaction
    level: str,  # coverage of the families' intervals, as text
) -> dict[str, object]:
    """Pack the cells, in their table's order, with the ``…_step`` of each coloured column."""
    in_group = cells["in_group"].astype("boolean")
    baseline = cells["perceiver_group"].isin(BASELINES) | cells["experiencer_group"].isin(BASELINES)
    place = {part: at for at, part in enumerate(parts)}
    gaps, gap_of = _gaps_of_groups(families, level=level)
    groups = zip(
        *(cells[name] for name in ("dimension", "variant", "perceiver_group", "experiencer_group")), strict=True
    )
    counts = ["n_prompts", "n_rated", "n_refused", "n_unparseable", "n_failed"]
    if "n_inexact" in cells and cells["n_inexact"].any():
        counts.append("n_inexact")
    return pack_columns(
        [len(cells)],
        part=([place[part] for part in zip(cells["dimension"], cells["variant"], strict=True)], None),
        kind=(np.where(baseline, 2, np.where(in_group.fillna(False), 0, 1)), None),
        perceiver=code_names(cells["perceiver"]),
        experiencer=code_names(cells["experiencer"]),
        perceiver_group=code_names(cells["perceiver_group"]),
        experiencer_group=code_names(cells["experiencer_group"]),
        mean=write_numbers(cells["mean"], lambda value: fixed(value, decimals=2)),
        sd=write_numbers(cells["sd"], lambda value: fixed(value, decimals=2)),
        **{name: write_numbers(cells[name], count) for name in counts},
        refused=write_numbers(cells["refusal_rate"], rate),
        z=write_numbers(cells["z"], lambda value: fixed(value, decimals=2, signed=True)),
        p_perceiver=write_numbers(cells["p_perceiver"], p_value),
        p_experiencer=write_numbers(cells["p_experiencer"], p_value),
        shown=(cells["shown"].fillna(False).astype(int), None),
        interaction=write_numbers(cells["interaction"], lambda value: fixed(value, decimals=decimals, signed=True)),
        missing=write_numbers(cells["missing"], rate),
        **{
            f"{name}_step": (cells[f"{name}_step"] + 1, range(-1, STEPS + 1))
            for name in ("mean", "z", "interaction", "missing")
        },
        gap=([gap_of.get((d, v, frozenset((p, e))), 0) for d, v, p, e in groups], gaps),
    )


def _gaps_of_groups(
    families: pd.DataFrame | None, *, level: str
) -> tuple[list[object], dict[tuple[str, str, frozenset[str]], int]]:
    """Describe the gap of each pair of groups; return the descriptions and their positions by pair."""
    gaps: list[object] = [None]
    place: dict[tuple[str, str, frozenset[str]], int] = {}
    rows = [] if families is None else families.loc[families["family"] == "pair"].to_dict("records")
    for row in rows:
        place[row["dimension"], row["variant"], frozenset((row["member"], row["partner"]))] = len(gaps)
        if not math.isfinite(row["delta"]):
            said = f"not estimated. {row['note']}"
        else:
            evidence = [f"{points(row['delta'])} points"]
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
    """Return the position of each row's cell; ValueError if a pair is not among the cells."""
    known = pd.MultiIndex.from_frame(cells[KEYS].astype(object))
    places = known.get_indexer(pd.MultiIndex.from_frame(rows[KEYS].astype(object)))
    if (places < 0).any():
        row = rows.iloc[int((places < 0).argmax())]
        raise ValueError(f"the pair {tuple(str(row[key]) for key in KEYS)} is not among the cells")
    return places.astype(np.int64)


def packed_emotions(emotions: pd.DataFrame, cells: pd.DataFrame, *, low: float, high: float) -> dict[str, object]:
    """Pack the table of emotions within cells, in the cells' order; the bars' lengths are percent of the scale."""
    places = _places(emotions, cells)
    rows = emotions.iloc[np.lexsort((code_names(emotions["emotion"])[0], places))]
    return pack_columns(
        np.bincount(places, minlength=len(cells)).tolist(),
        emotion=code_names(rows["emotion"]),
        mean=write_numbers(rows["mean"], lambda value: fixed(value, decimals=2)),
        length=(steps(rows["mean"], low, high) + 1, [round(100 * step / STEPS) for step in range(-1, STEPS + 1)]),
        n_rated=write_numbers(rows["n_rated"], count),
        n_prompts=write_numbers(rows["n_prompts"], count),
    )


# --- Ratings ---------------------------------------------------------------------------------------------------------


def fit_ratings(
    ratings: pd.DataFrame,
    cells: pd.DataFrame,
    parts: Sequence[tuple[str, str]],
    narratives: pd.DataFrame | None,  # None if the narratives' own contrasts are unknown
    asked: Callable[[int], ConversationPrompt] | None,
    fixed_part: Mapping[str, object],  # content of the text that does not depend on the ratings
    *,
    seed: int,
    max_ratings: int,
    max_bytes: int,
) -> tuple[pd.DataFrame, str]:
    """Include as many narratives as fit; return their ratings and the whole text."""
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
    # A text shared by several ratings is stored once, so each counts a share of its size.
    length = np.array([len(str(text)) for text in texts], dtype=float).clip(max=LONGEST_TEXT)
    share = (length / np.bincount(response, minlength=len(texts)).clip(min=1))[response]
    size = np.cumsum(np.bincount(held["rank"], weights=5 + share, minlength=n_taken))
    codes_of = Prompts(asked)

    def packed(n: int) -> tuple[pd.DataFrame, str]:
        own = held.loc[held["rank"] < n].sort_values(["cell", "prompt_index"])
        return own, compressed(compact_json({**fixed_part, **_packed_ratings(own, cells, parts, narratives, codes_of)}))

    too_many = n_taken + 1
    n = _n_that_fit(held, codes_of, size, max_bytes=int(max_bytes / _SHRINKS))
    best = None
    while True:
        own, text = packed(n)
        if len(text) > max_bytes and n > 0:
            too_many = n
            if best is not None:
                return best
            n = min(int(n * max_bytes / len(text) * 0.97), n - 1)
            continue
        best = own, text
        more = min(max(int(n * max_bytes / len(text) * 0.97), n + 1), too_many - 1)
        if more <= n or len(text) > _FULL * max_bytes:
            return best
        n = more


def _n_that_fit(held: pd.DataFrame, prompts: Prompts, size: npt.NDArray[Any], *, max_bytes: int) -> int:
    """Estimate how many narratives fit, from the cumulative ``size`` of their ratings and the texts of their calls."""
    n_taken = int(np.searchsorted(size, max_bytes, side="right"))
    if prompts.asked is None:
        return n_taken
    # With very many pairs, the calls of one narrative alone exceed the limit: shortened texts are better than none.
    first = held.loc[held["rank"] == 0, "prompt_index"].tolist()
    while prompts.longest > SHORTEST_CUT and prompts.bytes_of_calls(first, anew=True) > max_bytes / 2:
        prompts.longest //= 2
    n_bytes = 0
    for rank, (_, index) in enumerate(held.groupby("rank")["prompt_index"]):
        n_bytes += prompts.bytes_of_calls(index.tolist(), anew=rank == 0)
        if n_bytes == 0 or rank == n_taken:  # no strategy, or all narratives fit
            break
        if size[rank] + n_bytes > max_bytes:
            return rank
    return n_taken


def _draw(ids: Sequence[object], codes: npt.NDArray[Any], emotion: pd.Series[Any], *, seed: int) -> IntArray:
    """Return the narratives in drawn order: balanced over emotions, and independent of the order of the rows."""
    first = pd.Series(emotion.to_numpy(dtype=object)).groupby(codes).first().reindex(range(len(ids)))
    listed = pd.DataFrame({"id": list(map(str, ids)), "emotion": first.to_numpy()})
    shuffled = listed.sort_values("id").sample(frac=1, random_state=np.random.default_rng(seed))
    turn = shuffled.groupby("emotion", sort=False).cumcount()
    return np.asarray(turn.sort_values(kind="stable").index, dtype=np.int64)


def _packed_ratings(
    held: pd.DataFrame,
    cells: pd.DataFrame,
    parts: Sequence[tuple[str, str]],
    narratives: pd.DataFrame | None,
    prompts: Prompts,
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
        "intensity": write_numbers(held["intensity"], lambda value: fixed(value, decimals=2)),
        "number_mass": write_numbers(held["number_mass"], rate),
        "mode": write_numbers(held["mode"], scale_end),
    }
    response, texts = pd.factorize(held["response"].fillna("").astype(object))
    columns["response"] = (response, [shorten(str(text)) for text in texts])
    written = np.zeros(len(held), dtype=np.int64)
    calls: dict[str, object] = {}
    if prompts.asked is not None:
        system, frame, written, conversation, note = prompts.codes(index.tolist()).T
        columns["system"] = (system, [shorten(text) for text in prompts.systems])
        columns["frame"] = (frame, [shown_frame(frame) for frame in prompts.frames])
        if any(prompts.notes):
            columns["note"] = (note, list(prompts.notes))
        used, places = np.unique(conversation, return_inverse=True)
        known = list(prompts.conversations)
        conversations = [known[place] for place in used]
        if any(conversations):
            columns["calls"] = (places, None)
            calls = {"calls": packed_calls(conversations, prompts.longest)}
    texts_of = list(prompts.texts)
    shown = held.assign(text=written)[["narrative_id", "emotion", "text"]].astype(
        {"narrative_id": object, "emotion": object}
    )
    unique = shown.drop_duplicates()
    order = sorted(range(len(unique)), key=lambda at: natural_order(str(unique["narrative_id"].iloc[at])))
    unique = unique.iloc[order]
    narrative = pd.MultiIndex.from_frame(unique).get_indexer(pd.MultiIndex.from_frame(shown))
    listed = [[brief(str(i)), brief(str(e)), shorten(texts_of[t]) if texts_of else None]
              for i, e, t in unique.itertuples(index=False)]  # fmt: skip
    columns["narrative"] = (narrative, None)
    return {
        "narratives": listed,
        "first": first.tolist(),
        "ratings": pack_columns(n_rows.tolist(), **columns),
        **calls,
        "contrasts": None if narratives is None else _packed_contrasts(narratives, unique, parts),
    }


def _packed_contrasts(
    narratives: pd.DataFrame, unique: pd.DataFrame, parts: Sequence[tuple[str, str]]
) -> dict[str, object]:
    """Pack the contrasts of the narratives in the file."""
    place = {str(name): at for at, name in reversed(list(enumerate(unique["narrative_id"])))}
    part = {key: at for at, key in enumerate(parts)}
    rows = narratives.loc[narratives["narrative_id"].astype(str).isin(place)]
    rows = rows.assign(
        part=[part[key] for key in zip(rows["dimension"], rows["variant"], strict=True)],
        place=rows["narrative_id"].astype(str).map(place).astype(np.int64),
    ).sort_values(["part", "place"])
    return pack_columns(
        np.bincount(rows["part"], minlength=len(parts)).tolist(),
        narrative=(rows["place"], None),
        contrast=write_numbers(rows["contrast_points"], points),
        mean=write_numbers(rows["mean"], lambda value: fixed(value, decimals=2)),
        n_rated=write_numbers(rows["n_rated"], count),
        n_prompts=write_numbers(rows["n_prompts"], count),
    )


def sample_sentence(ratings: pd.DataFrame, held: pd.DataFrame, *, seed: int) -> str:
    """Say which of the ratings are in the file."""
    n_narratives, n_held = ratings["narrative_id"].nunique(), held["narrative_id"].nunique()
    if n_held == n_narratives:
        return f"This file contains all {plural(len(ratings), 'prompt')} of {plural(n_narratives, 'narrative')}"
    return (
        f"This file contains the prompts of {count(n_held)} of {plural(n_narratives, 'narrative')} ({count(len(held))} "
        f"of {count(len(ratings))}), drawn at random, evenly over emotions (seed {seed}). The run folder's ratings "
        "contain all"
    )
