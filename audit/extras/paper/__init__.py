"""What of a run goes into a paper: a table, a section on methods, and references, as authors write them."""
