"""A run held against a margin, for a release pipeline: 0 within, 1 beyond, 3 where the data cannot tell."""
