"""What readers make of the narratives, without any identity: the emotion, its intensity, and how plausible it is."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from audit.tables.people import NORMING

MIN_READERS: Final = 5
"""Readers below whom a narrative counts as not normed yet."""
MIN_SHARE: Final = 0.5
"""Share of readers who choose the designed emotion below which a narrative is flagged."""
MIN_INTENSITY: Final = 0.25
"""Mean intensity, as a share of the scale's length, below which a narrative is flagged."""
MIN_PLAUSIBILITY: Final = 4.0
"""Mean plausibility (1 to 7) below which a narrative is flagged: the middle of the scale."""


def norming_table(given: pd.DataFrame, *, low: float, high: float) -> pd.DataFrame:
    """Describe each narrative by what its readers said, and flag those that few readers take as they were meant.

    Parameters
    ----------
    given
        One row for each reader and narrative of the reader's list: ``rater``, ``narrative_id``, ``emotion`` (the
        designed one), ``felt`` (the one that was chosen, empty where it was left out), ``intensity`` and
        ``plausibility``, NaN likewise. Not modified.
    low, high
        Ends of the intensity's scale, in points.

    Returns
    -------
    pandas.DataFrame
        Columns of ``tables.NORMING``, unrounded; no rows without readers. The thresholds are ours, and conventions.
    """
    rows = []
    for name, own in given.groupby("narrative_id", sort=True):
        chosen = own.loc[own["felt"] != ""]
        intensity, plausibility = own["intensity"].dropna(), own["plausibility"].dropna()
        row: dict[str, Any] = {
            "narrative_id": str(name),
            "emotion": str(own["emotion"].iloc[0]),
            "n": len(chosen),
            "share_designed": float((chosen["felt"] == chosen["emotion"]).mean()),
            "most_chosen": str(chosen["felt"].value_counts().index[0]) if len(chosen) else "",
            "n_intensity": len(intensity),
            "mean_intensity": float(intensity.mean()),
            "sd_intensity": float(intensity.std(ddof=1)),
            "n_plausibility": len(plausibility),
            "mean_plausibility": float(plausibility.mean()),
        }
        share = (row["mean_intensity"] - low) / (high - low)
        flags = {
            "few readers": min(len(chosen), len(intensity), len(plausibility)) < MIN_READERS,
            "emotion": row["share_designed"] < MIN_SHARE,
            "intensity": share < MIN_INTENSITY,
            "plausibility": row["mean_plausibility"] < MIN_PLAUSIBILITY,
        }
        rows.append(row | {"flags": ", ".join(flag for flag, raised in flags.items() if raised)})
    return pd.DataFrame(rows, columns=list(NORMING))
