"""Readers' judgement of the narratives, without any identity: the emotion, its intensity and its plausibility."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from audit.tables.people import NORMING

MIN_READERS: Final = 5  # with fewer readers a narrative counts as not normed yet
MIN_SHARE: Final = 0.5  # flags narratives for which fewer readers than this share chose the designed emotion
MIN_INTENSITY: Final = 0.25  # flags narratives with a lower mean intensity, as a share of the scale's length
MIN_PLAUSIBILITY: Final = 4.0  # flags narratives with a mean plausibility (1 to 7) below the middle of the scale


def norming_table(given: pd.DataFrame, *, low: float, high: float) -> pd.DataFrame:
    """Summarise what readers said of each narrative, and flag those that few read as designed, by our thresholds."""
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
