"""Scores of what a run's model wrote before its answers, with the word lists that the run's manifest names."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from audit.asking.conversations import emotions_of, stages_are_told
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tasks.measures.emotion import EmotionScorer, run_vocabulary
from audit.tasks.measures.text_scores import score_stages
from stimuli.stereotypes import load_stereotypes
from stimuli.strategies import THOUGHT


def score_run_stages(
    folder: RunFolder, stages: pd.DataFrame, answers: pd.DataFrame, manifest: Manifest
) -> tuple[pd.DataFrame, Manifest]:
    """Score the texts of stages. Return the scores, and the manifest with the word lists used."""
    # A thought repeats the question with its group and emotion, so its words say little about the model's view of them.
    stages = stages.loc[stages["stage"] != THOUGHT]
    if stages.empty:
        return score_stages(stages, answers, lexicon=load_stereotypes()), manifest
    lexicon = load_stereotypes(manifest.statistics.stereotypes)
    manifest = manifest.having(stereotypes={"source": lexicon.source, "sha256": lexicon.sha256})
    if stages_are_told(manifest):
        return score_stages(stages, answers, lexicon=lexicon), manifest
    words = emotions_of(folder.path, manifest)
    emotions = EmotionScorer(run_vocabulary(answers["emotion"].unique(), words))
    kept = {"words": {emotion: asdict(own) for emotion, own in words.items()}}
    scored = score_stages(stages, answers, lexicon=lexicon, read_emotions=emotions.read)
    return scored, manifest.having(emotions=emotions.facts | kept)
