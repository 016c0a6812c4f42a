"""The tables that pass between stages: their columns, types and units, described once.

A *ratings* table has one row a prompt. *Statistics* tables are what ``tables/*.csv`` holds. Nothing in them is
rounded; a value that does not apply, or can not be estimated, is missing (NaN, an empty CSV field), never 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """What became of one prompt."""

    RATED = "rated"
    """An intensity on the scale was read from the response."""
    REFUSED = "refused"
    """The model declined to rate: missing data, and an outcome of its own."""
    UNPARSEABLE = "unparseable"
    """There was a response, but no single intensity on the scale can be read from it."""
    FAILED = "failed"
    """The engine gave no response (an error, or the prompt is longer than the model's context)."""


RATINGS: Final[dict[str, str]] = {
    "prompt_index": "place of the prompt in the run's grid, from 0; unique",
    "dimension": "what perceiver and experiencer differ in, e.g. religion; 'a+b' is an intersection",
    "variant": "the prompt variant, e.g. origin",
    "narrative_id": "the narrative, unique within its source",
    "emotion": "the emotion asked about",
    "perceiver": "wording of the identity that the model is given; 'no persona' where it is given none",
    "experiencer": "wording of the identity of the person in the narrative",
    "perceiver_group": "group of the perceiver; 'unspecified' for the baseline, 'no persona' without one",
    "experiencer_group": "group of the experiencer; 'unspecified' for the baseline",
    "in_group": "whether perceiver and experiencer share the group in every dimension crossed; missing for baselines",
    "n_shared": "in how many of the crossed dimensions they share the group; 0 or 1 for one; missing for baselines",
    "status": "rated, refused, unparseable or failed",
    "intensity": "in points of the variant's scale; missing unless rated",
    "response": "the model's raw text (`generate`); empty for `expected`",
    "number_mass": "probability that the response is a number of the scale (`expected`); missing for `generate`",
    "mode": "the most probable number of the scale (`expected`), in points",
    "spread": "standard deviation of the distribution over the scale's numbers (`expected`), in points",
}

CELLS: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "perceiver": RATINGS["perceiver"],
    "experiencer": RATINGS["experiencer"],
    "perceiver_group": RATINGS["perceiver_group"],
    "experiencer_group": RATINGS["experiencer_group"],
    "in_group": RATINGS["in_group"],
    "n_shared": RATINGS["n_shared"],
    "mean": "mean intensity over the rated prompts of the pair, in points",
    "sd": "standard deviation (n - 1) of the same, in points; missing below two ratings",
    "n_prompts": "prompts of the pair",
    "n_rated": "of these rated",
    "n_refused": "of these refused",
    "n_unparseable": "of these unparseable",
    "n_failed": "of these failed",
    "refusal_rate": "n_refused / n_prompts",
    "unparseable_rate": "n_unparseable / n_prompts",
}

GAP: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "estimator": "contrast (by-narrative, double-centred) or published (hou2025 arithmetic)",
    "scope": "what the interval speaks about: narratives = these identities, any such narratives; empty for published",
    "delta_points": "gap in scale points: in-group minus out-group",
    "se": "standard error of delta_points, in points",
    "df": "degrees of freedom of the t distribution",
    "ci_low": "lower end of the 95% confidence interval, in points",
    "ci_high": "upper end of the 95% confidence interval, in points",
    "p": "two-sided sign-flip p against a gap of 0",
    "d_z": "delta_points over the standard deviation of the narratives' contrasts; no unit",
    "delta_z": "the published gap, in standard deviations of the matrix's own cells; comparable with nothing else",
    "null_low": "2.5 percentile of delta_z over permuted matrices: a null interval, not a confidence interval",
    "null_high": "97.5 percentile of the same",
    "n_narratives": "narratives that the estimate uses",
    "n_narratives_asked": "narratives that were asked",
    "n_ratings": "ratings that the estimate uses",
    "n_missing": "prompts between the dimension's identities (baselines left out) without a rating",
}

DEGREES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "n_shared": "how many of the crossed dimensions perceiver and experiencer share; contrasted with sharing none",
    "delta_points": "gap in scale points: pairs sharing n_shared minus pairs sharing none",
    "se": GAP["se"],
    "df": GAP["df"],
    "ci_low": GAP["ci_low"],
    "ci_high": GAP["ci_high"],
    "n_pairs": "pairs of identities that share n_shared",
    "n_narratives": GAP["n_narratives"],
}

OUTCOMES: Final[dict[str, str]] = {
    "dimension": RATINGS["dimension"],
    "variant": RATINGS["variant"],
    "pairs": "which pairs are counted: in_group, out_group, baseline (one side unspecified or no persona) or all",
    "n_prompts": "prompts of these pairs",
    "n_rated": "of these rated",
    "n_refused": "of these refused",
    "n_unparseable": "of these unparseable",
    "n_failed": "of these failed",
    "refusal_rate": "n_refused / n_prompts",
    "unparseable_rate": "n_unparseable / n_prompts",
    "floor_share": "share of ratings at the scale's lower end",
    "ceiling_share": "share of ratings at the scale's upper end",
    "mean_number_mass": "mean of number_mass over the prompts that have one (`expected`)",
}

TABLES: Final[dict[str, dict[str, str]]] = {
    "gap": GAP,
    "degrees": DEGREES,
    "cells": CELLS,
    "outcomes": OUTCOMES,
}
"""Each table of ``tables/`` by its file's stem."""
