"""Measures of texts: words, tone, refusals and scripts."""
