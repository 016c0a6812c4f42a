"""Test a run against a margin, for a release pipeline. Exit codes: 0 within, 1 beyond, 3 undecided."""
