"""Ratings by pair of identities, by narrative and by bin, and the published heatmap."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Table, cell_sds, count, flag, in_row_unit, points, probability, share, word
from audit.tables.shared import KEYS, OUTCOME, PROMPT, RATES, SIDES, TALLY

CELLS: Final = Table(
    "cells",
    "a perceiver and an experiencer",
    {
        **OUTCOME,
        **KEYS,
        **SIDES,
        "mean": in_row_unit(
            "mean over the pair's ratings, or of the measure over its replies; of diversity, of the replies taken "
            "together; where narratives were asked about a draw of the pairs, free of the narratives' levels (least "
            "squares on narratives and pairs)"
        ),
        "sd": in_row_unit("standard deviation (n - 1) of the same; missing below two of them, and of diversity"),
        "n_prompts": count("prompts of the pair"),
        **TALLY,
        "n_rated": count("of these rated, or whose reply has a number"),
        "n_refused": TALLY["n_refused"].adding("; missing of replies, as are the next, of which reply_outcomes tells"),
        **RATES,
    },
    former={"measure": "outcome", "n_scored": "n_rated"},
    former_file="measure_cells",
)

CELL_EMOTIONS: Final = Table(
    "cell_emotions",
    "a perceiver, an experiencer and an emotion",
    {
        **KEYS,
        "perceiver": SIDES["perceiver"],
        "experiencer": SIDES["experiencer"],
        "emotion": PROMPT["emotion"],
        "mean": points("mean intensity over the rated prompts of the pair and emotion, in points"),
        "sd": points("standard deviation (n - 1) of its ratings, in points; missing below two ratings"),
        "n_prompts": count("prompts of the pair and emotion"),
        **TALLY,
    },
)

NARRATIVES: Final = Table(
    "narratives",
    "a narrative",
    {
        **KEYS,
        "narrative_id": PROMPT["narrative_id"],
        "emotion": PROMPT["emotion"],
        "contrast_points": points(
            "the narrative's own gap in points, by least squares on in-group, perceiver and experiencer within it: "
            "what the headline is the (weighted) mean of; missing where its ratings do not determine it"
        ),
        "mean": points("mean intensity over its rated prompts, in points"),
        "n_prompts": count("prompts of the narrative, baselines included"),
        "n_rated": count("of these rated"),
    },
)

DISTRIBUTIONS: Final = Table(
    "distributions",
    "a bin of ratings",
    {
        **KEYS,
        "pairs": word("which pairs are counted: in_group, out_group or baseline (one side unspecified or no persona)"),
        "low": points("lower end of the bin, in points"),
        "high": points(
            "upper end of the bin, in points; the scale's own ends are bins with low = high; ratings beyond an end "
            "have a bin of their own, from that end to the farthest of them, if there are any"
        ),
        "n_ratings": count(
            "ratings in the bin: at the end of the scale, beyond it, or else from low up to, and without, high"
        ),
        "share": share("n_ratings over the ratings of these pairs"),
    },
)

PUBLISHED_CELLS: Final = Table(
    "published_cells",
    "a cell of the published heatmap",
    {
        **KEYS,
        "perceiver": SIDES["perceiver"],
        "experiencer": SIDES["experiencer"],
        "z": cell_sds(
            "the cell's mean, rounded to 2 decimals as published, in standard deviations of all cells of the matrix, "
            "those of the unspecified identity among them, about their mean"
        ),
        "p_perceiver": probability(
            "p of the published paired t-test against the perceiver's own cell; no test of intergroup bias"
        ),
        "p_experiencer": probability("p of the same against the experiencer's own cell"),
        "shown": flag(
            "whether the published heatmap shows the cell: both p below 0.05 / (identities + 1)^2, or an identity's "
            "own cell, or a baseline"
        ),
        "n_narratives": count(
            "narratives that z and both p are of: those with a rating in every cell of the matrix; the published gap "
            "is of those with one in every cell between identities"
        ),
    },
)

NULL: Final = Table(
    "null",
    "a bin of published gaps of shuffled matrices",
    {
        **KEYS,
        "low": cell_sds("lower end of the bin, in the unit of delta_z"),
        "high": cell_sds("upper end of the bin; belongs to the next one, but for the last"),
        "n_shuffles": count("shuffled matrices whose published gap lies in the bin"),
    },
)
