"""``task=intensity``, and the common part of tasks whose answers are ratings: asking, checks, analysis, page."""
