"""Whether δ, its sign and its verdict depend on the elicitation: one model and question, several elicitations.

The ratings cannot say which elicitation is right. So each is compared with the first, and none are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from audit.comparing.gaps import Measured, change_of, same_dimensions
from audit.comparing.tables import ELICITATION_RANGES, ELICITATIONS
from audit.statistics.families import adjust_p
from audit.tables.shared import OVERALL

_ZERO: Final = 1e-9
"""Share of the scale: a smaller gap is floating-point error and has no sign."""
_CLAIMED: Final = ("claim", "direction", "size", "control", "scope", "parts_beyond", "parts_not_shown")
_GAP: Final = ("delta", "ci_low", "ci_high", "note")
_NONE: Final = ("no_verdict", "no_estimate")
"""Codes of verdicts that say nothing about the gap, so that nothing depends on the elicitation."""


def compared_elicitation_rows(
    runs: Mapping[str, Measured],
    *,
    elicitations: Mapping[str, str],
    verdicts: Mapping[tuple[str, str], Mapping[str, Any]],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.ELICITATIONS``: each run's headline gap beside the first run's, dimension by dimension.

    Parameters
    ----------
    runs
        By label; at least those of the set.
    elicitations
        The name of each run's elicitation, by label; the first is the reference. The runs differ in nothing else: their
        scale, narratives and identities are the same.
    verdicts
        Rows of ``tables.VERDICTS``, by label and dimension.

    Notes
    -----
    The gap is the one that the run's verdict rests on, if that has an interval, so that this table and the run's own
    page agree on the sign. The change is that of :func:`.compare_estimates`, the run's gap minus the
    reference's; p is corrected by Holm over the elicitations of the dimension, each against the reference. The mean
    over dimensions has no row if the runs asked about different dimensions.
    """
    own = {label: runs[label] for label in elicitations}
    reference = next(iter(own))
    for dimension in dict.fromkeys(row["dimension"] for each in own.values() for row in each.gap):
        if dimension == OVERALL and not same_dimensions(own):
            continue
        rows = []
        for label, run in own.items():
            found = next((r for r in run.gap if (r["dimension"], r["scope"]) == (dimension, "narratives")), None)
            if found is None:
                continue
            row: dict[str, Any] = dict.fromkeys(ELICITATIONS, float("nan")) | {name: found[name] for name in _GAP}
            decided = verdicts[label, dimension]
            row |= {"verdict": decided["code"]} | {name: decided[name] for name in _CLAIMED}
            if np.isfinite(decided["ci_low"]):
                row |= {name: decided[name] for name in ("delta", "ci_low", "ci_high")}
            row |= {"run": label, "elicitation": elicitations[label], "dimension": dimension, "reference": reference}
            row |= {"pairs": _pairs(run, dimension), "change_scope": "", "method": ""}
            row |= {"family_size": 0, "n_narratives": 0}
            if label != reference:
                changed, why = change_of(own, label, reference, dimension, confidence=confidence)
                row |= changed | {"note": "; ".join(dict.fromkeys(filter(None, (row["note"], why))))}
            rows.append(row)
        adjusted, size = adjust_p([row["p"] for row in rows], method="Holm")
        for row, p_adjusted in zip(rows, adjusted.tolist(), strict=True):
            of_family = {"p_adjusted": p_adjusted, "method": "Holm", "family_size": size}
            yield row | (of_family if row["run"] != reference else {})


def elicitation_range(
    rows: Sequence[Mapping[str, Any]], *, scale: tuple[float, float], confidence: float
) -> dict[str, Any]:
    """Return a row of ``tables.ELICITATION_RANGES``: how much a dimension's gap varies over elicitations.

    Parameters
    ----------
    rows
        Rows of :func:`compared_elicitation_rows`, of one set and dimension.
    scale
        The two ends of the set's scale, in points.
    confidence
        A difference is found if its corrected p is below 1 − confidence.

    Notes
    -----
    A sign is that of the estimate. Estimates on both sides of 0 may be chance; the sign *reverses* only if two
    intervals exclude 0 on opposite sides. Two verdicts may differ although the gaps hardly do: whether the gaps
    themselves differ is for the paired differences to say. Runs without a verdict are left out of signs and changes:
    their ratings support neither.
    """
    known = [row for row in rows if np.isfinite(row["delta"])]
    decided = [row for row in known if row["verdict"] not in _NONE]
    row: dict[str, Any] = dict.fromkeys(ELICITATION_RANGES, float("nan")) | {
        "reference": rows[0]["reference"],
        "dimension": rows[0]["dimension"],
        "n_elicitations": len(rows),
        "n_estimated": len(known),
        "n_intervals": sum(np.isfinite(row["ci_low"]) for row in known),
        "n_verdicts": len(decided),
        **dict.fromkeys(("lowest_elicitation", "highest_elicitation", "sign", "verdict"), ""),
    }
    counted = decided if rows[0] in decided else []
    tested = [each["p_adjusted"] for each in counted if np.isfinite(each["p_adjusted"])]
    row |= {"n_changes": len(tested), "n_found": sum(p < 1 - confidence for p in tested)}
    if known:
        lowest, highest = (which(known, key=lambda each: each["delta"]) for which in (min, max))
        row |= {"lowest": lowest["delta"], "highest": highest["delta"]}
        row |= {"range": highest["delta"] - lowest["delta"]}
        row |= {"lowest_elicitation": lowest["elicitation"], "highest_elicitation": highest["elicitation"]}
    if len(decided) > 1:
        zero = _ZERO * (scale[1] - scale[0])
        signs = {0 if abs(each["delta"]) <= zero else int(np.sign(each["delta"])) for each in decided}
        opposed = any(each["ci_low"] > 0 for each in decided) and any(each["ci_high"] < 0 for each in decided)
        row["sign"] = "reverses" if opposed else "same" if len(signs) == 1 else "differs"
        row["verdict"] = "same" if len({_claimed(each) for each in decided}) == 1 else "differs"
    return row


def _claimed(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a verdict claims. One that decides nothing makes no claim by control, scope or parts."""
    said = (row["verdict"], row["claim"], row["direction"], row["size"])
    if row["verdict"] not in ("gap", "within"):
        return said
    return (*said, row["control"], row["scope"], bool(row["parts_beyond"]), bool(row["parts_not_shown"]))


def _pairs(run: Measured, dimension: str) -> str:
    """Return which in-group pairs a gap uses: ``echo_free``, ``all_terms`` or ``mixed``."""
    if dimension not in run.estimates:
        return ""
    free = {
        row["dimension"] for row in run.controls
        if row["control"] == "echo_free" and np.isfinite(row["delta"])
    }  # fmt: skip
    asked = run.single_dimensions if dimension == OVERALL else {dimension}
    return "echo_free" if asked <= free else "mixed" if asked & free else "all_terms"
