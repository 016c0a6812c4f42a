"""The statistics of the gap: pure functions, tables in and tables out."""
