"""``task=inventory``: the perceiver fills in a questionnaire; plan, asking, scores and page."""
