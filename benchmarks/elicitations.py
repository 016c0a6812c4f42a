"""Which way to elicit ratings can be trusted: how well each follows what is told, where nobody's identity is.

    python benchmarks/elicitations.py                       # four beginnings of an answer, the embedded model
    python benchmarks/elicitations.py 'Number: ' '' -- model.path=OWNER/NAME stimuli.situations_per_emotion=5

Arguments before ``--`` are texts that the answer is begun with (``elicitation.prefill``), those after it overrides of
``audit run``. Each beginning is asked the same narratives of ``stimuli=geneva20`` without identities: with their own
emotion and with one of the opposite valence, in their mild and in their strong version. No in-group and no out-group is
among them, so that a choice by this table does not look at δ. Printed, for each beginning, as Markdown: the two mean
differences with their 95% intervals over narratives (points), what each is in standard deviations of the differences,
the share of narratives that are ordered as designed, the mean mass on numbers, and prompts a second.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import pandas as pd

BEGINNINGS = ("", "Number: ", "I would say ", "The number is ")
OVERRIDES = (
    "stimuli=geneva20",
    "stimuli.situations_per_emotion=3",
    "stimuli.placebo=0",
    "elicitation.manipulation=1",  # which is all of the run's narratives, and no others
)
COLUMNS = (
    "answer begun with", "check", "narratives", "difference, points", "in SDs", "as designed", "number mass",
    "prompts/s",
)  # fmt: skip


def planned(overrides):
    """Return the plan of a run."""
    from audit.asking.plan import make_plan
    from audit.configuration.composition import compose

    plans = []
    compose([*OVERRIDES, *overrides], lambda composed: plans.append(make_plan(composed.validated())))
    return plans[0]


def ask(engine, plan, asked, begun):
    """Return the answers as ``tables.MANIPULATED`` has them, their mean mass on numbers, and prompts a second."""
    from audit.tasks.intensity.checks import elicitation_of, manipulated_rows
    from stimuli.manipulation import leaning

    scale = plan.grid.variant.scale
    elicitation = elicitation_of(plan.config, scale, plan.config.elicitation_method)
    prompts = [dataclasses.replace(plan.grid.prompt(each.cell), begun=begun) for each in asked]
    elicitation.elicit(engine, prompts[:8])  # what is done once: the tree of numbers, the trial of packs
    engine.forget()
    start = time.perf_counter()
    found = elicitation.elicit(engine, prompts)
    rate = len(prompts) / (time.perf_counter() - start)
    answers = pd.DataFrame(manipulated_rows(asked, found))
    return (
        answers.assign(leaning=answers["emotion"].map(leaning)),
        float(pd.Series([one.number_mass for one in found]).mean()),
        rate,
    )


def main(beginnings, overrides):
    """Print the table."""
    from audit.engines.open import open_model
    from audit.statistics.manipulation import manipulation_rows
    from stimuli.manipulation import manipulated

    plan = planned(overrides)
    asked = list(manipulated(plan.grid, size=plan.config.elicitation.manipulation, seed=plan.config.seed))
    writes = plan.config.elicitation_method != "expected"
    opened = open_model(plan.config.model, plan.config.engine, seed=plan.config.seed, writes=writes)
    facts = opened.engine.facts
    print(f"{facts.name} {facts.version}, {facts.device}, {facts.dtype}; {len(asked)} prompts a beginning\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for begun in beginnings:
        answers, mass, rate = ask(opened.engine, plan, asked, begun)
        scale, settings = plan.grid.variant.scale, plan.config.statistics
        for row in manipulation_rows(
            answers,
            length=scale.high - scale.low,
            least_response=settings.least_response,
            confidence=settings.confidence,
            power=settings.power,
        ):
            in_sds = row["difference"] / (row["se"] * row["n_pairs"] ** 0.5)
            print(
                f"| {f'`{begun}`' if begun else 'nothing'} | {row['check']} | {row['n_pairs']} of {row['n_asked']} "
                f"| {row['difference']:+.2f} ({row['ci_low']:+.2f} to {row['ci_high']:+.2f}), {row['answer']} "
                f"| {in_sds:+.2f} | {row['share_higher']:.0%} | {mass:.2f} | {rate:.1f} |",
                flush=True,
            )  # fmt: skip
    opened.engine.close()


if __name__ == "__main__":
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    main(given[:cut] or BEGINNINGS, given[cut + 1 :])
