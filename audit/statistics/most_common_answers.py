"""The most common number that a model answers, and the share of prompts in which it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from audit.statistics.cells import NarrativeCube


def mode_rows(cube: NarrativeCube) -> Iterator[dict[str, Any]]:
    """Yield the row of ``MODES``: how much the most probable number, or else the rating, varies between prompts."""
    compared = cube.without_baselines()
    rated = ~np.isnan(compared.y)
    for of, numbers in (("mode", compared.mode[rated]), ("intensity", compared.y[rated])):
        known = numbers[~np.isnan(numbers)]
        if known.size:
            values, counts = np.unique(known, return_counts=True)
            most = int(counts.argmax())
            yield {
                "dimension": cube.dimension,
                "variant": cube.variant,
                "of": of,
                "value": float(values[most]),
                "share": float(counts[most]) / known.size,
                "n_values": values.size,
                "n": known.size,
            }
            return
