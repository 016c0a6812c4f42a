"""Which of two runs' replies a judge or people prefer."""

from __future__ import annotations

from typing import Final

from audit.tables.base import Storage, Table, count, flag, number, probability, share, spelt_out, text, whole, word
from audit.tables.shared import DF, FAMILY_SIZE, KEYS, SIDES

PAIRS: Final = Table(
    "pairs",
    "a pair of replies that a judge compared",
    {
        "pair": whole("place of the pair among those compared, from 0"),
        "narrative_id": word("the narrative that both reply to"),
        "dimension": word("what perceiver and experiencer differ in"),
        "emotion": word("the narrative's emotion"),
        "criterion": word("what they were compared by"),
        "preference": share(
            "for the first system's reply, from 0 to 1: mean over both orders; missing unless both were read"
        ),
        "consistent": flag("whether both orders prefer the same reply, or none; missing likewise"),
        "first_place": share(
            "how far the reply that stood first was chosen, from 0 to 1: mean over both orders; 0.5 is no leaning to a "
            "place; missing likewise"
        ),
        "given_chose_first": share(
            "the first system's reply standing first: how far the reply that stood first was chosen; for `generate` 1, "
            "0, or 0.5 for a tie"
        ),
        "given_status": word("rated, refused, unparseable or failed"),
        "given_mass": probability("probability that the answer is A or B at all (`expected`)"),
        "given_response": text("the judge's raw text (`generate`)"),
        "swapped_chose_first": share(
            "the second system's reply standing first: how far the reply that stood first was chosen"
        ),
        "swapped_status": word("as given_status"),
        "swapped_mass": probability("as given_mass"),
        "swapped_response": text("as given_response"),
    },
)
"""Columns of :func:`audit.tasks.reply.judge.pairwise.judge_pairs`."""

_PLACE: Final = ("pair", "narrative_id", "dimension", "emotion")

JUDGED_PAIRS: Final = Table(
    "pairs",
    "a pair of replies of two runs",
    spelt_out(
        {
            **PAIRS.pick(*_PLACE),
            "pair": whole("place of the pair among those of both runs, from 0"),
            **SIDES,
            "first_prompt_index": whole("prompt_index of the first run's reply in its run"),
            "second_prompt_index": whole("prompt_index of the second run's reply in its run"),
            "first_reply": word("status of the first run's reply; only replies that were written or cut are compared"),
            "second_reply": word("status of the second run's reply"),
            "same_text": flag("whether both replies have the same words: they are compared, and cannot be preferred"),
            **PAIRS.without(*_PLACE),
            "given_status": word("rated, refused, unparseable or failed; empty where the pair was not asked about"),
        }
    ),
    kept=Storage("pairs.parquet", "parts"),
)

PREFERENCE: Final = Table(
    "preference",
    "a judge's preference for one of two runs",
    {
        "dimension": KEYS["dimension"],
        "criterion": PAIRS["criterion"],
        "pairs": word(
            "which pairs the row is of: in_group, out_group, baseline (one side unspecified or no persona) or all; or "
            "gap, in-group minus out-group by the contrast of δ"
        ),
        "preference": share(
            "how far the first run's reply is preferred, from 0 to 1 (`generate`: the share, a tie counting half): "
            "mean over narratives of their pairs' mean; of gap the difference"
        ),
        "se": share("its standard error over narratives"),
        "df": DF,
        "ci_low": share("lower end of the t interval, which is not cut at 0 and 1"),
        "ci_high": share("upper end of the same"),
        "p": probability("two-sided p of the t-test against one half; of gap against 0"),
        "p_adjusted": probability("p corrected over dimensions (Holm), for each kind of row by itself"),
        "family_size": count("dimensions that were corrected for: those with a p"),
        "position_bias": share(
            "how far the reply that stood first was chosen, minus 0.5: mean over narratives; missing for gap, as are "
            "the next four"
        ),
        "bias_low": share("lower end of its t interval"),
        "bias_high": share("upper end of the same"),
        "inconsistent": share("share of the pairs read in which the two orders prefer different replies"),
        "mean_mass": probability(
            "probability that the answer is A or B at all, mean over both orders of the pairs read (`expected`)"
        ),
        "n_pairs": count("pairs of both runs, compared or not"),
        "n_no_reply": count(
            "of these, pairs that were not asked about, since one reply or both were not written or cut"
        ),
        "n_unread": count("of those asked about, pairs without a choice in one order or both"),
        "n_refused": count("single answers in which the judge declined"),
        "n_unparseable": count("single answers without a choice that can be read"),
        "n_failed": count("single answers that the judge's engine did not give"),
        "n_same_text": count("pairs read whose replies have the same words"),
        "n_read": count("pairs read in both orders: those that the row is from"),
        "n_narratives": count("narratives of these"),
        "note": text("why there is no estimate or interval, and what else limits it, in words; else empty"),
    },
)

CHOICES: Final = Table(
    "choices",
    "a rater's choice between two replies",
    {
        "rater": word("who chose; a name's control characters are escaped"),
        "item_id": word("what raters know the pair by"),
        "question": word("what they were asked"),
        **JUDGED_PAIRS.pick("dimension", "narrative_id", "emotion", *SIDES),
        "chose": share(
            "1 where the first run's reply was chosen, 0 where the second's, 0.5 for a tie; missing if left out"
        ),
        "chose_place": share(
            "1 where the reply that stood first was chosen, 0 where the other, 0.5 for a tie; missing likewise"
        ),
    },
)

PAIR_SIDES: Final = Table(
    "sides",
    "a pair that raters choose from",
    {
        "item_id": CHOICES["item_id"],
        "first": whole("1 where the first run's reply stands first, 2 where the second's does"),
        **CHOICES.pick("perceiver_group", "experiencer_group", "n_shared"),
    },
)

PEOPLE_PREFERENCE: Final = Table(
    "preference",
    "people's preference for one of two runs",
    {
        "dimension": KEYS["dimension"],
        "question": CHOICES["question"],
        "pairs": word(
            "which pairs of replies the row is of: all, in_group or out_group; or gap, in-group minus out-group within "
            "each rater's narrative, free of single perceivers and experiencers"
        ),
        "share": share(
            "how far people choose the first run's reply, from 0 to 1, a tie counting half: mean over narratives of "
            "their raters' means; of gap the difference"
        ),
        "se": share("its standard error over raters and narratives; of one rater over narratives alone"),
        "df": number("its degrees of freedom"),
        "ci_low": share("lower end of the t interval, which is not cut at 0 and 1"),
        "ci_high": share("upper end of the same"),
        "p": probability("two-sided p of the t-test against one half; of gap against 0"),
        "p_adjusted": probability("p corrected over dimensions and questions (Holm), for each kind of row by itself"),
        "family_size": FAMILY_SIZE,
        "var_raters": number(
            "variance between raters' means, less what is chance in them; missing where it cannot be told"
        ),
        "var_narratives": number("variance between narratives' means, likewise"),
        "position_bias": share(
            "how far the reply that stood first was chosen, minus 0.5; missing for gap, as are the next two"
        ),
        "bias_low": share("lower end of its t interval, of the same kind"),
        "bias_high": share("upper end of the same"),
        "n_raters": count("raters that the row is from"),
        "n_narratives": count("narratives that it is from"),
        "n_pairs": count("pairs of replies that somebody chose from"),
        "n_choices": count("choices that were made"),
        "n_ties": count("of these, ties"),
        "n_left_out": count("choices that raters left out: missing, and never a tie"),
        "note": text("why there is no estimate or interval, and what else limits it, in words; else empty"),
    },
)
