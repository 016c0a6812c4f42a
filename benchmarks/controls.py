"""Count how often the controlling row finds gaps whose making is known: repeated words, or groups; in Markdown tables.

Run as ``python benchmarks/controls.py [n_datasets]`` where the project is installed (or with ``PYTHONPATH=.``); 1,000
data sets of each row if not told otherwise. Of each, the row that controls it is read, over narratives alone. Its
narratives differ in level, gap and echo; perceivers, experiencers and pairs of like form have effects of their own.
"""

import math
import sys
from dataclasses import replace

import numpy as np
from scipy import stats

from audit.statistics.cells import NarrativeCube
from audit.statistics.contrasts import column_weights
from audit.statistics.controls import control_rows
from audit.statistics.echo import Overlap, echo_free
from stimuli.identities import Dimension, load_dimensions, load_placebos

N_DATASETS = 1_000
SEED = 16
RATING_SD, LEVEL_SD, GAP_SD, ECHO_SD, FORM, MAIN_SD = 4.0, 6.0, 1.5, 1.0, 1.0, 3.0
RELIGION = load_dimensions("geneva", names=["religion"], unspecified=False)[0]
LABELS = load_dimensions("geneva", names=["religion"], unspecified=False, cues=["label"], perceiver_terms=1)[0]
[INVENTED] = load_placebos(1, n_terms=1, seed=0)


def first_terms(dimension: Dimension) -> Dimension:
    """Return a dimension with the first term of each group on both sides."""
    kept = tuple({each.group: each for each in reversed(dimension.perceivers)}.values())
    return replace(dimension, perceivers=kept, experiencers=kept)


def cube_of(dimension, effects, rng, *, group, echo, rating_sd=RATING_SD):
    """Draw ratings of a dimension; ``effects`` are those of the narratives, which its placebo shares."""
    perceivers, experiencers = dimension.perceivers, dimension.experiencers
    overlap = Overlap.of([p.term for p in perceivers], [e.term for e in experiencers], dimension.stems)
    same = np.array([[p.group == e.group for e in experiencers] for p in perceivers])
    level, gap, repetition = effects
    shape = len(level), *same.shape
    y = 50 + level[:, None, None] + rng.normal(0, MAIN_SD, (1, shape[1], 1)) + rng.normal(0, MAIN_SD, (1, 1, shape[2]))
    y = y + rng.normal(0, rating_sd, shape) + FORM * overlap.same_form
    y += (group + gap if group is not None else 0 * gap)[:, None, None] * same
    y += (echo + repetition if echo else 0 * repetition)[:, None, None] * overlap.same_words
    nothing = np.full(shape, np.nan)
    return NarrativeCube(
        dimension=dimension.name,
        variant="origin",
        y=y,
        status=np.zeros(shape, dtype=np.int8),
        number_mass=nothing,
        mode=nothing,
        n_shared=same.astype(np.int64),
        in_group=same,
        asked=np.ones(shape[1:], dtype=np.bool_),
        baseline_perceiver=np.zeros(shape[1], dtype=np.bool_),
        baseline_experiencer=np.zeros(shape[2], dtype=np.bool_),
        narrative_ids=tuple(range(len(level))),
        emotions=("",) * len(level),
        perceivers=tuple(p.term for p in perceivers),
        experiencers=tuple(e.term for e in experiencers),
        perceiver_groups=tuple(p.group for p in perceivers),
        experiencer_groups=tuple(e.group for e in experiencers),
    )


def leaves_out_zero(cube, placebo, *, stems):
    """Whether the interval of the row that controls these ratings leaves out 0."""
    placebos = {} if placebo is None else {"invented": placebo}
    found = control_rows(cube, stems=stems, placebos=placebos, placebo_stems={}, confidence=0.95, n_missing=0)
    rows = {row["control"]: row for row in found if math.isfinite(row["ci_low"])}
    control = next(name for name in ("echo_free", "placebo_difference", "all_terms") if name in rows)
    return not rows[control]["ci_low"] <= 0 <= rows[control]["ci_high"]


def planned_power(dimension, n, gap, rating_sd):
    """Chance that the planning gives a gap: of a t-test on n narratives with the true variances."""
    cube = cube_of(dimension, np.zeros((3, n)), np.random.default_rng(0), group=0.0, echo=0.0)
    weights = column_weights(echo_free(cube, dimension.stems).columns)[-1]
    se = ((GAP_SD**2 + rating_sd**2 * (weights**2).sum()) / n) ** 0.5
    t = stats.t.isf(0.025, n - 1)
    return float(stats.nct.sf(t, n - 1, gap / se) + stats.nct.cdf(-t, n - 1, gap / se))


def count(dimension, placebo, n, *, group, echo, n_datasets, rating_sd=RATING_SD):
    """Return the share of data sets in which the controlling row leaves out 0."""
    rng = np.random.default_rng([SEED, n, len(dimension.perceivers), round(10 * echo)])
    n_found = 0
    for _ in range(n_datasets):
        effects = rng.standard_normal((3, n)) * [[LEVEL_SD], [GAP_SD], [ECHO_SD]]
        cube = cube_of(dimension, effects, rng, group=group, echo=echo, rating_sd=rating_sd)
        invented = None if placebo is None else cube_of(placebo, effects, rng, group=None, echo=echo)
        n_found += leaves_out_zero(cube, invented, stems=dimension.stems)
    return f"{100 * n_found / n_datasets:.1f}%"


def main(n_datasets: int) -> None:
    """Print how often the controlling row leaves out 0, and for planning how often it was to."""
    designs = {
        "two terms without a common word": (RELIGION, None),
        "the same, perceivers with one": (LABELS, None),
        "one term; invented groups": (first_terms(RELIGION), INVENTED),
        "one term; nothing else": (first_terms(RELIGION), None),
    }
    print("| terms | narratives | group's gap | echo | leaves out 0 |\n|---|---|---|---|---|")
    for name, (dimension, placebo) in designs.items():
        for n in (12, 100):
            for group, echo in ((None, 2.0), (0.0, 2.0), (1.5, 2.0)):
                share = count(dimension, placebo, n, group=group, echo=echo, n_datasets=n_datasets)
                spread = "none" if group is None else f"{group:g}, SD {GAP_SD:g}"
                print(f"| {name} | {n} | {spread} | {echo:g} | {share} |", flush=True)
    print("\n| terms | SD of a rating | found | planned |\n|---|---|---|---|")
    for name, dimension in (("two terms", RELIGION), ("perceivers with one", LABELS)):
        for sd in (8.0, 12.0, 16.0):
            found = count(dimension, None, 100, group=1.5, echo=2.0, n_datasets=n_datasets, rating_sd=sd)
            print(f"| {name} | {sd:g} | {found} | {100 * planned_power(dimension, 100, 1.5, sd):.1f}% |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else N_DATASETS)
