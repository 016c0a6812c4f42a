"""Grids for the tests of forms of intensities, and raters who fill them in by script."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from audit.people.lists import rating_lists, rating_questions
from stimuli.identities import Dimension, Identity
from stimuli.narratives import EmotionWords, Narrative, Narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale

USER = (
    "{Experiencer} tells of a situation that brought on {emotion_noun}:\n"
    '"{narrative}"\nFrom {low} to {high}, how much {emotion_noun} did {experiencer} feel? Number:'
)
NOUNS = {"sad": "sadness", "joy": "joy", "fear": "fear", "anger": "anger"}


def variant_of(user=USER, *, high=100, narrative="neutral"):
    return PromptVariant("origin", "You are {perceiver}.", "{persona}", user, narrative, Scale(0, high))


def identities_of(terms, *, unspecified):
    """Return the identities of groups, each with so many terms."""
    found = [Identity(f"a {g} no. {k}" if n > 1 else f"a {g}", g, (g,)) for g, n in terms.items() for k in range(n)]
    return (*found, *([Identity("a person", "unspecified", ())] if unspecified else []))


def dimension_of(name, terms, *, unspecified=False):
    identities = identities_of(terms, unspecified=unspecified)
    return Dimension(name, identities, identities, (frozenset((g, g) for g in terms),), {})


def narratives_of(n, *, text="Text {k}."):
    emotions = list(NOUNS)
    told = tuple(
        Narrative(
            f"n{k}", emotions[k % 4], EmotionWords(NOUNS[emotions[k % 4]], emotions[k % 4]),
            *(text.format(k=k) for _ in range(2)), f"The person {text.format(k=k)}",
        )
        for k in range(n)
    )  # fmt: skip
    return Narratives("csv", told, n, "")


RELIGION = dict.fromkeys(("Buddhist", "Christian", "Hindu", "Muslim"), 1)


def grid_of(*dimensions, n=24, variant=None, **options):
    own = dimensions or (dimension_of("religion", RELIGION),)
    return PromptGrid(own, narratives_of(n, **options), variant or variant_of())


def lists_of(grid, *, n=24, n_lists=None, seed=0):
    return rating_lists(grid, n=n, n_lists=n_lists, seed=seed, salt="salt")


def filled(lists, grid, *, raters, rng, gap=6.0, group_of=None, rater_sd=10.0, residual_sd=8.0):
    """Return each rater's file: lists in turn within a group; narratives and experiencers have levels of their own.

    An intensity is 50 + rater + narrative + experiencer + gap where the rater's group tells it + residual, cut to 0–100
    and rounded: with these numbers few are cut.
    """
    groups = [identity.group for identity in grid.dimensions[0].perceivers if not identity.is_baseline]
    questions, asked = rating_questions(grid, grid.variant.scale, introduction=None)
    (column,) = asked
    key = lists.key.set_index("item_id")
    narrative = {name: rng.normal(0, 9) for name in sorted(set(key["narrative_id"]))}
    experiencer = {name: rng.normal(0, 4) for name in sorted(set(key["experiencer"]))}
    files = {}
    for number in range(raters):
        own, turn = groups[number % len(groups)], number // len(groups)
        name = lists.names[turn % len(lists.names)]
        level = rng.normal(0, rater_sd)
        rows = []
        for item, row in key.loc[key["list"] == name].iterrows():
            value = 50 + level + narrative[row["narrative_id"]] + experiencer[row["experiencer"]]
            value += gap * (row["experiencer_group"] == own) + rng.normal(0, residual_sd)
            rows.append((item, round(float(np.clip(value, 0, 100)))))
        said = own if group_of is None else group_of(number, own)
        files[f"rater{number}"] = pd.DataFrame(rows, columns=["item_id", "intensity"]).assign(**{column: said})
    return files, questions


def saved(folder, files):
    paths = []
    for rater, table in files.items():
        paths.append(folder / f"{rater}.csv")
        paths[-1].write_text(table.to_csv(index=False), "utf-8")
    return paths


def read_bytes(content):
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
