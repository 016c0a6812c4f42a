"""One run's rows for the published study's table and heatmaps, by dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from audit.comparing.tables import COMPARED_CELLS, COMPARED_PUBLISHED
from audit.errors import NotEstimableError
from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import complete_narratives
from audit.statistics.estimate_rows import published_cell_rows
from audit.statistics.published import PublishedGap, released_matrix


def published_row(cube: NarrativeCube, published: PublishedGap | NotEstimableError) -> dict[str, Any]:
    """Return a dimension's row of ``tables.COMPARED_PUBLISHED``, without the columns that name the run.

    ``cube`` holds the ratings of one dimension and variant with baselines.

    Notes
    -----
    The study drops a narrative from δ_z if a rating is missing between identities, and from the heatmap if one is
    missing with the unspecified identity too; shares are of the narratives asked. A perceiver without a persona is in
    neither matrix.
    """
    n_asked = len(cube.narrative_ids)
    compared = cube.without_baselines()
    n_left = int(complete_narratives(compared).sum()) if compared.in_group.size else 0
    n_heatmap = int(released_matrix(cube)[0].sum())
    row: dict[str, Any] = dict.fromkeys(COMPARED_PUBLISHED, float("nan")) | {
        "dimension": cube.dimension,
        "n_narratives_asked": n_asked,
        "n_narratives": n_left,
        "excluded_share": 1 - n_left / n_asked,
        "n_narratives_heatmap": n_heatmap,
        "excluded_share_heatmap": 1 - n_heatmap / n_asked,
        "n_answers": 0,
    }
    if isinstance(published, NotEstimableError):
        row |= {"note": str(published)}
    else:
        row |= {name: getattr(published, name) for name in ("delta_z", "null_low", "null_high", "n_answers")}
        row |= {"note": published.null}
    return {name: value for name, value in row.items() if name not in ("run", "model", "prompt")}


def compared_cell_rows(cube: NarrativeCube) -> Iterator[dict[str, Any]]:
    """Yield rows of ``tables.COMPARED_CELLS`` without ``run``, one for each pair asked.

    ``cube`` holds the ratings of one dimension and variant with baselines.
    """
    sides = (cube.perceivers, cube.experiencers)
    of_perceiver, of_experiencer = ({name: place for place, name in enumerate(side)} for side in sides)
    for row in published_cell_rows(cube):
        p, e = of_perceiver[row["perceiver"]], of_experiencer[row["experiencer"]]
        baseline = cube.baseline_perceiver[p] or cube.baseline_experiencer[e]
        known = row | {
            "perceiver_group": cube.perceiver_groups[p],
            "experiencer_group": cube.experiencer_groups[e],
            "in_group": None if baseline else bool(cube.in_group[p, e]),
        }
        yield {column: known[column] for column in COMPARED_CELLS if column != "run"}
