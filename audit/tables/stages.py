"""What strategies add to a prompt, and what a model writes before it answers."""

from __future__ import annotations

from typing import Final

from audit.tables.base import (
    INT32,
    INT64,
    Storage,
    Table,
    count,
    flag,
    in_row_unit,
    number,
    probability,
    spelt_out,
    text,
    tokens,
    whole,
    word,
)
from audit.tables.shared import FAMILY_SIZE, HOLM, KEYS, P_OF_NO_DIFFERENCE, PROMPT

THEME: Final = "theme_"  # prefix of a stereotype theme's name: a score of texts, and a measure of `STAGE_TEXTS`

STAGES: Final = Table(
    "stages",
    "a prompt and stage of a strategy",
    {
        "prompt_index": PROMPT["prompt_index"],
        "stage": word(
            "the strategy's model call, before the one that asks for the rating; or thought, what the model thought "
            "right before its answer"
        ),
        "text": text("what the model wrote, verbatim; empty where it failed"),
        "status": word(
            "written, empty (white space alone), cut (at max_tokens; what there is was used) or failed; a thought is "
            "cut where the model did not end it itself, and used with thinking=budget alone"
        ),
        "n_prompt_tokens": tokens("tokens that the model read; 0 where it was not asked", type=INT64),
        "n_tokens": tokens("tokens that it wrote; a text that several prompts share counts in each", type=INT64),
        "n_dropped": count(
            "examples and earlier calls left out of the conversation, the oldest first, for want of room"
        ),
    },
    kept=Storage("stages.parquet", "stages"),
)

GIVEN: Final = Table(
    "given",
    "an example or a piece of knowledge that a strategy brought to a narrative",
    spelt_out(
        {
            "narrative_id": PROMPT["narrative_id"],
            "kind": word("example, shown before the first call, or knowledge, which templates show"),
            "place": whole(
                "of the example among those shown, or of the relation, from 0; of similar examples the nearest is last",
                type=INT32,
            ),
            "name": word("the example's identifier in its pool, or the relation"),
            "text": text("the example's situation, or what is known"),
            "answer": text("what the model is shown to have answered; empty for knowledge"),
            "emotion": word("the example's emotion, where its pool tells it"),
            "similarity": number(
                "cosine of the sentence embeddings of example and narrative; missing unless it was chosen by it"
            ),
        }
    ),
    kept=Storage("given.parquet"),
)

CALLS: Final = Table(
    "calls",
    "a model call of prompts, by dimension and variant",
    {
        **KEYS,
        "call": word("the strategy's stage, or thought, or question, the call that asks for the rating"),
        "place": whole("of the call among those of a prompt, from 0"),
        "n_prompts": count("prompts whose ratings are there"),
        "n_written": count("texts that came to an end of their own; of the question, prompts with a response"),
        "n_cut": count(
            "texts cut at max_tokens, of which the beginning was used, and thoughts that the model did not end itself; "
            "of the question, responses that were cut; missing where that is not known"
        ),
        "n_empty": count("texts of white space alone; missing for the question"),
        "n_failed": count(
            "prompts in which it failed, or was not asked since an earlier call failed or there was no room"
        ),
        "mean_prompt_tokens": tokens("tokens that the model read, mean over the prompts in which it was asked"),
        "mean_tokens": tokens("tokens that it wrote, likewise; missing for the question"),
        "n_shortened": count(
            "prompts in which examples or earlier calls were left out of what it read, for want of room"
        ),
    },
)

STAGE_TEXTS: Final = Table(
    "stage_texts",
    "a measure of a stage's texts about a group",
    {
        **KEYS,
        "stage": STAGES["stage"],
        "measure": word(
            "what is scored in a text: n_words (length), sentiment (VADER's compound score, mean over sentences), "
            "stereotype_words (words of the lexicon), refused (a phrase that declines the task), emotion_named (a word "
            "for any emotion of the vocabulary, not negated), emotion_accuracy (of the texts that name an emotion, "
            "those that name the narrative's own, among others or alone), or theme_NAME, the lexicon's words of one "
            "theme, which are described and not tested"
        ),
        "group": word("the experiencer's group that the texts are about; baselines are left out"),
        "unit": word(
            "unit of the measure: words; compound, from -1 to 1; per 100 words; % of texts; or % of texts that name an "
            "emotion"
        ),
        "mean": in_row_unit(
            "mean over the texts about the group, in the row's unit: over its terms, the perceivers, then the units"
        ),
        "mean_others": in_row_unit(
            "the same, of the other groups' means, in the row's unit; each of them counts alike"
        ),
        "difference": in_row_unit("mean minus mean_others, in the row's unit (of % percentage points)"),
        "se": in_row_unit("standard error of difference, in the row's unit"),
        "df": number("degrees of freedom of the t distribution, n_units - 1"),
        "ci_low": in_row_unit("lower end of the confidence interval of difference; not corrected for multiplicity"),
        "ci_high": in_row_unit("upper end of the same"),
        "p": P_OF_NO_DIFFERENCE,
        "p_adjusted": probability(
            "p corrected for all tests of the dimension and variant: of every stage, measure and group"
        ),
        "method": HOLM,
        "family_size": FAMILY_SIZE,
        "constant": flag("whether all units give the same difference, other than 0: then there is nothing to test"),
        "units": word(
            "what the t-test takes for independent: narratives; or perceivers, where a pair's text does not depend on "
            "the narrative. Those that share more than half of their texts count as one"
        ),
        "n_units": count("units that difference uses"),
        "n_texts": count("distinct texts about the group, without empty and failed ones"),
        "n_empty": count("prompts whose text about the group has no word: 0 words, not refused, and no other number"),
        "n_failed": count("prompts whose text about the group failed: missing in every measure"),
        "n_scored": count(
            "of n_texts, those with a number of the measure: a text that names no emotion has no emotion_accuracy, one "
            "in another script than the Latin has neither; difference uses perceivers with a number about every group"
        ),
        "note": text("why there is no difference or no interval, or what limits it, in words; else empty"),
    },
)

MARKED_WORDS: Final = Table(
    "marked_words",
    "a word that texts about a group have more than others",
    {
        **KEYS,
        "stage": STAGES["stage"],
        "group": STAGE_TEXTS["group"],
        "word": word(
            "one of the 15 words at most, the most marked first, that texts about the group have more than others"
        ),
        "n_group": count("how often the distinct texts about the group have it"),
        "n_others": count(
            "how often the distinct texts about the other groups have it, each group's counted by themselves"
        ),
        "log_odds": number(
            "its log odds in the group's texts less those in the others', by a Dirichlet prior; natural log"
        ),
        "z": number(
            "log_odds over its standard error, if words were independent: descriptive, since words of one text are not"
        ),
        "p_adjusted": probability(
            "two-sided p of z, corrected for the words tested by Holm; too small for the same reason"
        ),
        "family_size": count("words tested: those in 3 distinct texts or more, without the words of the identities"),
    },
)
