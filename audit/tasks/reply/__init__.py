"""``task=reply``: the perceiver replies to the experiencer; measures, analysis and page."""
