"""Asks the model what a run plans: prompts, strategies, workers and elicitation."""
