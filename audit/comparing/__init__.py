"""Runs side by side: what sets them apart, their gaps, what changes, and one page."""
