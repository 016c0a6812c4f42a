"""Pages of a judge whose preferences are planted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape

import numpy as np
import pandas as pd

from audit.comparing.preference.page import render_judgement
from audit.comparing.preference.statistics import preference_table, remarks_on_preference
from audit.runs.manifest import JudgementManifest
from audit.tables.preference import JUDGED_PAIRS

GROUPS = ("Hindu", "Muslim", "Sikh")
ATTACK = '<img src=x onerror="window.hacked=1">'


def judged(
    prefers: Callable[[int, bool], float],
    *,
    n: int = 20,
    dimension: str = "religion",
    sd: float = 0.02,
    seed: int = 0,
    text: str = "",
    **columns: object,
) -> pd.DataFrame:
    """Return judged pairs of every perceiver and experiencer in n narratives.

    Parameters
    ----------
    prefers
        The preference for the first run by the narrative's place and whether the pair is in-group; NaN was not read.
    sd
        Of its noise.
    text
        Stands behind each reply and narrative.
    columns
        Values of other columns.
    """
    rng = np.random.default_rng(seed)
    keys = [(k, one, other) for k in range(n) for one in GROUPS for other in GROUPS]
    preference = np.array([prefers(k, one == other) for k, one, other in keys]) + rng.normal(0, sd, len(keys))
    read = ~np.isnan(preference)
    rows = pd.DataFrame(
        {
            "pair": range(len(keys)),
            "narrative_id": [f"n{k}" for k, _, _ in keys],
            "dimension": dimension,
            "emotion": "joy",
            "criterion": "empathy",
            "perceiver": [f"a {one}" for _, one, _ in keys],
            "experiencer": [f"a {other}" for _, _, other in keys],
            "perceiver_group": [one for _, one, _ in keys],
            "experiencer_group": [other for _, _, other in keys],
            "in_group": pd.array([one == other for _, one, other in keys], dtype="boolean"),
            "n_shared": pd.array([int(one == other) for _, one, other in keys], dtype="Int8"),
            "same_text": False,
            "preference": preference,
            "consistent": pd.array(np.where(read, True, None), dtype="boolean"),
            "first_place": np.where(read, 0.5, np.nan),
            "given_mass": np.where(read, 0.9, np.nan),
            "swapped_mass": np.where(read, 0.9, np.nan),
            "given_status": np.where(read, "rated", "unparseable"),
            "swapped_status": np.where(read, "rated", "unparseable"),
            "given_response": "",
            "swapped_response": "",
            "given_chose_first": preference,
            "swapped_chose_first": 1 - preference,
        }
    ).assign(**columns)
    table = rows.reindex(columns=list(JUDGED_PAIRS))
    return table.assign(text_1=f"A warm reply.{text}", text_2=f"I see.{text}")


def judged_page(*parts: pd.DataFrame, labels: Sequence[str] = ("one", "two"), which: str = "Which is warmer?") -> str:
    """Render the page of some dimensions' pairs."""
    pairs = pd.concat(parts, ignore_index=True)
    preference = preference_table(pairs, confidence=0.95)
    first, second = labels
    asked = {"model": "a judge", "method": "expected", "rubric": "empathy", "rubric_file": "empathy.yaml"}
    asked |= {"rubric_source": "ours", "criterion": "empathy", "which": which}
    engine = {"name": "scripted", "version": "1", "device": "cpu", "dtype": "float32"}
    judge = {"model": "a judge", "revision": "", "engine": engine}
    manifest = JudgementManifest.of(
        {"status": "complete", "asked": asked, "judge": judge, "confidence": 0.95, "command": "python -m audit judge"}
    )
    return render_judgement(
        preference, pairs, labels=(first, second), manifest=manifest, remarks=(),
        narratives={str(name): f"What happened to {name}." for name in pairs["narrative_id"]},
        limits=list(remarks_on_preference(preference)),
    )  # fmt: skip


def words_of(page: str) -> str:
    """Return what a reader sees of a page, or of a part of one."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"</?(data|bdi|dfn|strong|em|a|sub|code|i)\b[^>]*>", "", text)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def first_screen(page: str) -> str:
    """Return what stands above the button that prints it, as text."""
    return words_of(page.partition('<p class="print-one"')[0])


def cards_of(page: str) -> str:
    """Return what the cards beneath it say, as text."""
    return words_of(page.partition('<div class="cards">')[2].partition("</section>")[0])
