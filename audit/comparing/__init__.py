"""The comparison of runs: how they differ, their gaps, what changes, and one page."""
