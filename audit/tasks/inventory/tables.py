"""Tables of runs that fill in a questionnaire: answers, scores, and what narratives change in them."""

from __future__ import annotations

from typing import Final

from audit.tables.answers import ANSWERS
from audit.tables.base import Table, by_name, count, number, points, probability, text, word
from audit.tables.shared import FAMILY_SIZE, HOLM, KEYS, PROMPT, SIDES

DEFAULT: Final = "default"  # stands for a narrative if nothing was imagined

_PERCEIVER: Final = {name: SIDES[name] for name in ("perceiver", "perceiver_group")}

INVENTORY_OUTCOMES: Final = Table(
    "inventory_outcomes",
    "what happened to a group's items",
    {
        "dimension": ANSWERS["dimension"],
        "variant": ANSWERS["variant"],
        "perceiver_group": ANSWERS["perceiver_group"],
        "imagined": word("default (nothing), or evoked (a situation)"),
        "n_asked": count("answers asked for"),
        "n_rated": count("of these with an answer"),
        "n_refused": count("of these declined"),
        "n_unparseable": count("of these without one clear number of the scale"),
        "n_failed": count("of these without a response"),
        "n_inexact": count("of these known less closely than elicitation.max_pruned_points allows"),
        "mean_number_mass": probability("mean number mass, between 0 and 1; missing where nothing has one"),
    },
)

_INTERVAL: Final = {
    "df": number("degrees of freedom of the t distribution, after Welch and Satterthwaite"),
    "ci_low": points("lower end of the t interval, cut at the scale's end; not corrected for multiplicity"),
    "ci_high": points("upper end of the same"),
}

INVENTORY_GROUPS: Final = Table(
    "inventory_groups",
    "a group's score of a subscale",
    {
        "dimension": ANSWERS["dimension"],
        "variant": ANSWERS["variant"],
        "inventory": word("name of the inventory"),
        "subscale": word("the subscale; total for all items, where the inventory has a total score"),
        "perceiver_group": word("group of the perceivers"),
        "score": points("score of the group's mean answers, in points of an item's scale, reverse items turned round"),
        "se": points(
            "standard error of score in points: over items and orders; over items alone where each was shown alone, "
            "since the two directions of the scale are no sample"
        ),
        **_INTERVAL,
        "n_items_used": count("items with an answer of all the group's perceivers in at least one order"),
        "n_items": count("items of the subscale"),
        "n_orders": count("orders in which they were shown"),
        "n_perceivers": count("perceivers of the group that it uses: those with any answer"),
        "note": text("why there is no number or no interval, or what limits it, in words; else empty"),
    },
)

_LABELS: Final = {
    "dimension": word("what the perceivers differ in, e.g. religion"),
    "variant": KEYS["variant"],
    "inventory": word("name of the inventory"),
    "subscale": word("the subscale; total for all items, where the inventory has a total score"),
}


_TEST: Final = {
    "df": number(
        "degrees of freedom of the t distribution, after Welch and Satterthwaite; the replications less 1 where se "
        "is over one kind of them"
    ),
    "ci_low": points("lower end of the t interval; not corrected for multiplicity"),
    "ci_high": points("upper end of the same"),
    "p": probability(
        "two-sided p of the t-test against 0; missing for the second of two groups, whose test is the first one's"
    ),
    "p_adjusted": probability("p corrected for its family"),
    "method": HOLM,
    "family_size": FAMILY_SIZE,
}

_COMPARED: Final = {
    "perceiver_group": word("group of the perceivers"),
    "compared_with": word(
        "no persona, unspecified, or other groups (the mean of the dimension's other groups, each counted alike, "
        "baselines left out)"
    ),
    "mean": points(
        "mean of the group: over its perceivers, then over what the difference uses; in points of an item's scale"
    ),
    "mean_compared": points("the same of what it is compared with"),
    "difference": points("mean minus mean_compared, in points"),
}

_SE_ORDERS: Final = points(
    "the same over orders; missing with one order, and where items were shown alone, and then no part of se"
)

_N_PERCEIVERS: Final = count("perceivers of the group that it uses: those with a score")

_NOTE: Final = text("why there is no number or no interval, or what limits it, in words; else empty")

_ORDERS: Final = {
    "n_items": count("items of the subscale"),
    "n_orders": count("orders in which they were shown to any perceiver"),
}

INVENTORY_SCORES: Final = Table(
    "inventory_scores",
    "a perceiver's score of a subscale",
    {
        **_LABELS,
        **_PERCEIVER,
        "score": points(
            "mean over items of the items' means over orders, in points of an item's scale, reverse items turned "
            "round; times n_items it is the sum that manuals use"
        ),
        "se_items": points("standard error over items: were they others of the kind, shown in these orders"),
        "se_orders": points(
            "standard error over orders: were these items shown in others; missing with one order, and where items "
            "were shown alone, whose two orders (directions of the scale) are all that there are"
        ),
        "sd_within_items": points(
            "standard deviation of one item's answers over orders, pooled over items, in points; 0 where an answer "
            "depends on the item alone"
        ),
        **_ORDERS,
        "n_items_used": count("items with an answer in at least one order"),
        "n_orders_used": count("orders with answers enough to count in se_orders; 0 where items were shown alone"),
        "n_asked": count("answers asked for: items times orders"),
        "n_answered": count("answers that there are"),
        "note": _NOTE,
    },
)

INVENTORY_DIFFERENCES: Final = Table(
    "inventory_differences",
    "a group's score against others'",
    {
        **_LABELS,
        **_COMPARED,
        "se": points(
            "standard error of difference in points: over items and orders, the root of the sum of the next two's "
            "squares; over items alone where each was shown alone"
        ),
        "se_items": points(
            "standard error of the same over items; of an item shown alone the mean over the scale's directions"
        ),
        "se_orders": _SE_ORDERS,
        **_TEST,
        **_ORDERS,
        "n_items_used": count("items with an answer of all that are compared in one order at least"),
        "n_perceivers": _N_PERCEIVERS,
        "note": _NOTE,
    },
)

AFFECT_NARRATIVES: Final = Table(
    "affect_narratives",
    "a perceiver's score with a narrative, and without",
    {
        **_LABELS,
        **_PERCEIVER,
        "narrative_id": PROMPT["narrative_id"],
        "default": points(
            "score without a narrative, in points, from the items and orders that were answered both times"
        ),
        "evoked": points("score while the narrative is imagined, from the same"),
        "change": points("evoked minus default, in points; missing where too few items were answered both times"),
    },
)

AFFECT_CHANGES: Final = Table(
    "affect_changes",
    "what narratives of a kind change in a perceiver's score",
    {
        **_LABELS,
        **_PERCEIVER,
        "narratives": word(
            "the kind of the narratives, such as their valence or emotion; all where none were told apart"
        ),
        "default": points("mean of default over the narratives used, in points"),
        "evoked": points("mean of evoked over the same"),
        "change": points("evoked minus default, in points"),
        "se": points(
            "standard error of change in points, over narratives and what they share with the default: the orders, or "
            "the items where each was shown alone; root of the sum of the next three's squares"
        ),
        "se_narratives": points("standard error of the same over narratives, which share the default"),
        "se_items": points("the same over items, where each was shown alone; else missing, and no part of se"),
        "se_orders": _SE_ORDERS,
        **_TEST,
        "n_narratives": count("narratives that it uses"),
        "n_narratives_asked": count("narratives of the kind"),
        "note": _NOTE,
    },
)

AFFECT_DIFFERENCES: Final = Table(
    "affect_differences",
    "a group's change against others'",
    {
        **_LABELS,
        "narratives": AFFECT_CHANGES["narratives"],
        **{
            name: column.reworded("mean of the group", "mean change (evoked minus default) of the group")
            for name, column in _COMPARED.items()
        },
        "se": AFFECT_CHANGES["se"].reworded("change", "difference"),
        "se_narratives": AFFECT_CHANGES["se_narratives"].reworded("default", "defaults"),
        "se_items": AFFECT_CHANGES["se_items"],
        "se_orders": _SE_ORDERS,
        **_TEST,
        "n_narratives": count("narratives in which all that are compared have a change"),
        "n_narratives_asked": AFFECT_CHANGES["n_narratives_asked"],
        "n_perceivers": _N_PERCEIVERS.reworded("score", "change"),
        "note": _NOTE,
    },
)

AFFECT_GROUPS: Final = Table(
    "affect_groups",
    "what narratives of a kind change in the score of a group's mean answers",
    AFFECT_CHANGES.without("perceiver"),
)

INVENTORY_TABLES: Final = by_name(INVENTORY_SCORES, INVENTORY_DIFFERENCES, INVENTORY_GROUPS, INVENTORY_OUTCOMES)
"""Tables of every filled-in questionnaire."""

AFFECT_TABLES: Final = by_name(AFFECT_NARRATIVES, AFFECT_CHANGES, AFFECT_DIFFERENCES, AFFECT_GROUPS)
"""Further tables if situations are imagined."""

OF_ANSWERS: Final = (ANSWERS, *INVENTORY_TABLES.values())  # all tables in the run's folder except AFFECT_TABLES
