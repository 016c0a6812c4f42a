"""Verify that folders hold what was collected and computed, and repair damaged ones."""
