"""Asks a model what a run plans: prompts, strategies, workers, and how a rating is got."""
