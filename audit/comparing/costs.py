"""What a prompt of a run cost (calls, tokens, time), and how the requested replies ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from audit.comparing.changes import same_dimensions
from audit.comparing.run_gaps import ReplyGaps
from audit.comparing.tables import REPLY_COSTS
from audit.tables.replies import SCORED, ReplyStatus
from audit.tables.shared import OVERALL


def cost_of(prompts: pd.DataFrame, stages: pd.DataFrame, *, n_prompts: int, seconds: float) -> dict[str, float]:
    """Return the mean cost of a run's prompts, by the names of ``tables.STRATEGIES``; NaN for what was not recorded.

    ``prompts`` has ``prompt_index``, ``status``, ``n_prompt_tokens`` and ``n_dropped``, one row a prompt; the last two
    are missing if unknown, or if the prompt was not asked. ``seconds`` are those of the run's last session.
    """
    read = prompts.loc[prompts["n_prompt_tokens"] > 0, "n_prompt_tokens"]
    # Older runs may have asked a prompt without counting its tokens.
    unasked = (prompts["status"].astype(str) == "failed") & ~(prompts["n_prompt_tokens"] > 0)
    shortened = prompts["n_dropped"] > 0
    cost = {
        "n_calls": 1.0 - float(unasked.sum()) / n_prompts,
        "n_prompt_tokens": 0.0,
        "n_tokens": 0.0,
        "n_question_tokens": float(read.mean()) if len(read) else float("nan"),
    }
    if not stages.empty:
        # A stage after a failed one was not asked, and read nothing.
        cost["n_calls"] += int((stages["n_prompt_tokens"] > 0).sum()) / n_prompts
        cost |= {name: float(stages[name].sum()) / n_prompts for name in ("n_prompt_tokens", "n_tokens")}
        shortened |= prompts["prompt_index"].isin(stages.loc[stages["n_dropped"] > 0, "prompt_index"])
    cost["shortened_share"] = float(shortened.mean()) if prompts["n_dropped"].notna().any() else float("nan")
    return cost | {"seconds": seconds}


def cost_rows(
    runs: Mapping[str, ReplyGaps], *, references: Mapping[str, str], costs: Mapping[str, Mapping[str, float]]
) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.REPLY_COSTS`` without ``strategy``: how each run's prompts ended, and what they cost.

    Each run has a row for each dimension, and one over all dimensions, intersections left out, if there are several.
    Changes are against the run's reference. ``costs`` holds the result of :func:`cost_of` by run.
    """
    shares = {label: _shares(run) for label, run in runs.items()}
    for label, own in shares.items():
        replies = runs[label].replies
        tokens = replies.loc[replies["status"].isin(SCORED), "n_tokens"]
        for dimension, found in own.items():
            reference = references.get(label, "")
            # Means over all dimensions compare only if the dimensions are the same.
            pair = {name: runs[name] for name in (label, reference) if name}
            alike = bool(reference) and (dimension != OVERALL or same_dimensions(pair))
            before = shares[reference].get(dimension, {}) if alike else {}
            changes = {
                name.replace("_share", "_change"): value - before.get(name, float("nan"))
                for name, value in found.items()
                if name.endswith("_share")
            }
            row = {"run": label, "reference": reference, "dimension": dimension, **found, **changes, **costs[label]}
            row["n_reply_tokens"] = float(tokens.mean()) if len(tokens) else float("nan")
            yield {column: row.get(column, "") for column in REPLY_COSTS}


def _shares(run: ReplyGaps) -> dict[str, dict[str, float]]:
    """Return, by dimension, the number of prompts between identities and the share with each status."""
    parts = {dimension: run.between(dimension)["status"].astype(str) for dimension in run.identities}
    if len(run.single_dimensions) > 1:
        parts[OVERALL] = pd.concat([parts[name] for name in run.single_dimensions])
    return {
        dimension: {
            "n_prompts": len(status),
            **{f"{each}_share": float((status == each.value).mean()) for each in ReplyStatus},
        }
        for dimension, status in parts.items()
    }
