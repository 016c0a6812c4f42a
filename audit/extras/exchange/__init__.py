"""Runs in the forms of others: asked by Inspect, and written as data sets, records and cards."""
