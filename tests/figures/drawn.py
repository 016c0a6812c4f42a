"""Tables for the figures, by the words of audit/tables, and what can be read back from a drawn figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.text import Text

from audit.report.figures.style import drawing

Terms = Sequence[tuple[str, str]]
RELIGION: Terms = [
    ("a Buddhist", "Buddhist"),
    ("a Christian", "Christian"),
    ("a Hindu", "Hindu"),
    ("a Muslim", "Muslim"),
]
BASELINE = ("a person", "unspecified")
ONE = {"dimension": "religion", "variant": "origin"}


def cells(perceivers: Terms = RELIGION, experiencers: Terms | None = None, *, baseline: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    extra = [BASELINE] if baseline else []
    rows = []
    for perceiver, p_group in [*perceivers, *extra]:
        for experiencer, e_group in [*(perceivers if experiencers is None else experiencers), *extra]:
            outside = "unspecified" in (p_group, e_group)
            rows.append(
                {
                    **ONE,
                    "perceiver": perceiver,
                    "experiencer": experiencer,
                    "perceiver_group": p_group,
                    "experiencer_group": e_group,
                    "in_group": None if outside else p_group == e_group,
                    "mean": rng.uniform(50, 60),
                    "n_prompts": 408,
                    "n_rated": 408,
                    "n_refused": 0,
                    "refusal_rate": 0.0,
                }
            )
    return pd.DataFrame(rows)


def unrated(table: pd.DataFrame, row: int = 1) -> pd.DataFrame:
    table = table.copy()
    table.loc[row, ["mean", "n_rated"]] = [math.nan, 0]
    return table


def many(n: int) -> Terms:
    return [(f"a person from country {k}", f"country {k}") for k in range(n)]


def published(table: pd.DataFrame) -> pd.DataFrame:
    """z rises by 0.1 a cell from −1; every second one is shown."""
    own = table[["dimension", "variant", "perceiver", "experiencer"]]
    return own.assign(z=np.arange(len(own)) / 10 - 1, shown=np.arange(len(own)) % 2 == 0)


def gaps(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    columns = ["dimension", "variant", "delta", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns).assign(
        estimator="contrast", scope="narratives", headline=True, code="gap"
    )


def family(members: Mapping[str, float], *, name: str = "emotion", p: float = 0.2) -> pd.DataFrame:
    delta = np.array(list(members.values()), dtype=float)
    return pd.DataFrame(
        {
            **ONE,
            "family": name,
            "member": list(members),
            "partner": "",
            "delta": delta,
            "ci_low": delta - 0.5,
            "ci_high": delta + 0.5,
            "p_adjusted": p,
            "method": "Holm",
            "note": "",
        }
    )


def disparities(groups: Mapping[str, float], *, lower: Sequence[str] = (), invented: int = 0) -> pd.DataFrame:
    """How far groups lie below or above the others, over all perceivers, then invented groups at ±1."""
    names = [*groups, *(f"invented {k}" for k in range(invented))]
    disparity = np.array([*groups.values(), *((-1.0) ** k for k in range(invented))], dtype=float)
    own = np.arange(len(names)) < len(groups)
    return pd.DataFrame(
        {
            **ONE,
            "side": "experiencer",
            "view": "all",
            "level": "group",
            "group": names,
            "invented": ~own,
            "scope": "narratives",
            "headline": own,
            "disparity": disparity,
            "ci_low": disparity - 0.5,
            "ci_high": disparity + 0.5,
            "code": [
                "lower" if name in lower else "not_shown" if real else "" for name, real in zip(names, own, strict=True)
            ],
        }
    )


def comparisons(*changes: float, unit: str = "points") -> pd.DataFrame:
    change = np.array(changes, dtype=float)
    return pd.DataFrame(
        {
            "dimension": "religion",
            "first": [f"persona-{k}" for k in range(len(changes))],
            "second": "origin",
            "unit": unit,
            "delta_change": change,
            "ci_low": change - 0.25,
            "ci_high": change + 0.25,
            "p_adjusted": 0.01,
            "method": "Holm",
            "note": "",
        }
    )


def narratives(contrasts: Sequence[float]) -> pd.DataFrame:
    return pd.DataFrame({**ONE, "narrative_id": [str(k) for k in range(len(contrasts))], "contrast_points": contrasts})


def distributions(**counts: Sequence[int]) -> pd.DataFrame:
    """Ratings at 0, from 0 to 50, from 50 to 100, and at 100, for each kind of pair."""
    rows = [
        {**ONE, "pairs": pairs, "low": low, "high": high, "n_ratings": n, "share": n / sum(own)}
        for pairs, own in counts.items()
        for (low, high), n in zip([(0.0, 0.0), (0.0, 50.0), (50.0, 100.0), (100.0, 100.0)], own, strict=True)
    ]
    return pd.DataFrame(rows)


def null(counts: Sequence[int]) -> pd.DataFrame:
    """Bins of half a unit from −1."""
    low = np.arange(len(counts)) / 2 - 1
    return pd.DataFrame({**ONE, "low": low, "high": low + 0.5, "n_shuffles": counts})


def runs(deltas: Sequence[float], **choices: Sequence[str]) -> pd.DataFrame:
    delta = np.array(deltas, dtype=float)
    table = {"label": [f"run {k}" for k in range(len(delta))], "delta": delta}
    return pd.DataFrame({**table, "ci_low": delta - 1, "ci_high": delta + 1, **choices})


def texts(figure: Figure) -> list[str]:
    """All that is written, as it is shown: an escaped dollar is a dollar."""
    with drawing():
        figure.canvas.draw()
    return [found.get_text().replace(r"\$", "$") for found in figure.findobj(Text) if found.get_text()]  # type: ignore[attr-defined]


def marked(figure: Figure, gid: str) -> list[Artist]:
    """The artists that carry a name, in the order in which they were drawn."""
    return figure.findobj(lambda artist: artist.get_gid() == gid)


def offsets(figure: Figure, gid: str) -> list[list[float]]:
    """Where the marks of a name stand."""
    return [place for found in marked(figure, gid) for place in found.get_offsets().tolist()]  # type: ignore[attr-defined]
