"""The outcome of each call of a strategy: texts written, cut, empty and failed, prompts shortened, and tokens used."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from audit.tables.ratings import Status
from audit.tables.stages import CALLS

QUESTION: Final = "question"  # the name of the call that asks for the rating


def call_table(ratings: pd.DataFrame, stages: pd.DataFrame) -> pd.DataFrame:
    """Count the outcomes of each call: by dimension and variant its stages in order, then the question.

    Empty if there are neither stages nor lengths of prompts nor cut responses, as for ratings that another tool
    collected. Stages of prompts that are not in ``ratings`` (those of an unfinished run) do not count.
    """
    keys = ["dimension", "variant"]
    is_told = ratings["n_prompt_tokens"].notna().any() or ("cut" in ratings and ratings["cut"].fillna(False).any())
    if not is_told and stages.empty:
        return pd.DataFrame(columns=list(CALLS))
    labelled = stages.merge(ratings[["prompt_index", *keys]], on="prompt_index", how="inner", validate="many_to_one")
    rows: list[dict[str, Any]] = []
    for (dimension, variant), part in ratings.groupby(keys, sort=False, observed=True):
        label = {"dimension": dimension, "variant": variant}
        own = labelled.loc[(labelled["dimension"] == dimension) & (labelled["variant"] == variant)]
        calls = list(own.groupby("stage", sort=False, observed=True))
        rows += [
            label | {"call": stage, "place": place} | _of_stage(texts) for place, (stage, texts) in enumerate(calls)
        ]
        rows.append(label | {"call": QUESTION, "place": len(calls)} | _of_question(part))
    return pd.DataFrame(rows, columns=list(CALLS))


def _of_stage(texts: pd.DataFrame) -> dict[str, Any]:
    counts = texts["status"].value_counts()
    read = texts.loc[texts["n_prompt_tokens"] > 0]
    return {
        "n_prompts": len(texts),
        **{f"n_{status}": int(counts.get(status, 0)) for status in ("written", "cut", "empty", "failed")},
        "mean_prompt_tokens": _mean(read["n_prompt_tokens"]),
        "mean_tokens": _mean(read["n_tokens"]),
        "n_shortened": int((texts["n_dropped"] > 0).sum()),
    }


def _of_question(prompts: pd.DataFrame) -> dict[str, Any]:
    n_failed = int((prompts["status"] == Status.FAILED).sum())
    return {
        "n_prompts": len(prompts),
        "n_written": len(prompts) - n_failed,
        "n_cut": int(prompts["cut"].sum()) if "cut" in prompts and prompts["cut"].notna().any() else np.nan,
        "n_empty": np.nan,
        "n_failed": n_failed,
        "mean_prompt_tokens": _mean(prompts["n_prompt_tokens"].dropna()),
        "mean_tokens": np.nan,
        "n_shortened": int((prompts["n_dropped"].fillna(0) > 0).sum()),
    }


def _mean(counts: pd.Series[Any]) -> float:
    return float(counts.mean()) if len(counts) else float("nan")
