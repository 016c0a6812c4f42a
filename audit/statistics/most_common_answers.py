"""What a model would nearly always write: the most common number, and in how many prompts it is the one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from audit.statistics.cells import NarrativeCube


def mode_rows(cube: NarrativeCube) -> Iterator[dict[str, Any]]:
    """Say how much the most probable number, or where there is none the rating, varies between prompts.

    Parameters
    ----------
    cube
        Ratings of one dimension or intersection and one variant; baselines are left out.

    Yields
    ------
    dict
        The row of ``tables.MODES``; none where no prompt between identities has a rating.
    """
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
