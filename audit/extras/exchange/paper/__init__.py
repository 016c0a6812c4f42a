"""Parts of a paper about a run: a table, a section on methods, and references, as authors write them."""
