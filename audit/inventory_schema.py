"""The tables of runs that fill in a questionnaire, but for its scores: columns, types and units, described once."""

from __future__ import annotations

from typing import Final

from audit.schema import RATINGS

DEFAULT: Final = "default"
"""In place of a narrative: nothing was imagined."""

ANSWERS: Final[dict[str, str]] = {
    "prompt_index": "the prompt's place in the run's order, from 0; with presentation list each of its items has a row",
    "dimension": "what the perceivers differ in, e.g. religion",
    "variant": "name of the prompt variant, whose persona is given",
    "perceiver": RATINGS["perceiver"],
    "perceiver_group": RATINGS["perceiver_group"],
    "narrative_id": "the situation that the perceiver imagines; default where there is none",
    "emotion": "the situation's emotion; empty where there is none",
    "order": "number of the order, from 0: the file's own, then random ones; of items shown alone 0 describes the "
    "scale from its low end, 1 from its high end",
    "place": "the item's place in the prompt, from 1",
    "item_id": "which item",
    "status": "rated (there is an answer), refused, unparseable or failed",
    "answer": "in points of the scale, as it was given and not keyed; missing unless rated",
    "response": "the model's text, verbatim; of a list the whole of it in each row; empty where nothing was written",
    "number_mass": RATINGS["number_mass"],
    "n_prompt_tokens": RATINGS["n_prompt_tokens"],
}

INVENTORY_OUTCOMES: Final[dict[str, str]] = {
    "dimension": ANSWERS["dimension"],
    "variant": ANSWERS["variant"],
    "perceiver_group": ANSWERS["perceiver_group"],
    "imagined": "default (nothing), or evoked (a situation)",
    "n_asked": "answers asked for",
    "n_rated": "of these with an answer",
    "n_refused": "of these declined",
    "n_unparseable": "of these without one clear number of the scale",
    "n_failed": "of these without a response",
    "mean_number_mass": "mean number mass, between 0 and 1; missing where nothing has one",
}

_INTERVAL: Final = {
    "df": "degrees of freedom of the t distribution, after Welch and Satterthwaite",
    "ci_low": "lower end of the t interval, cut at the scale's end; not corrected for multiplicity",
    "ci_high": "upper end of the same",
}

INVENTORY_GROUPS: Final[dict[str, str]] = {
    "dimension": ANSWERS["dimension"],
    "variant": ANSWERS["variant"],
    "inventory": "name of the inventory",
    "subscale": "the subscale; total for all items, where the inventory has a total score",
    "perceiver_group": "group of the perceivers",
    "score": "score of the group's mean answers, in points of an item's scale, reverse items turned round",
    "se": "standard error of score in points: over items and orders; over items alone where each was shown alone, "
    "since the two directions of the scale are no sample",
    **_INTERVAL,
    "n_items_used": "items with an answer of all the group's perceivers in at least one order",
    "n_items": "items of the subscale",
    "n_orders": "orders in which they were shown",
    "n_perceivers": "perceivers of the group that it uses: those with any answer",
    "note": "why there is no number or no interval, or what limits it, in words; else empty",
}
