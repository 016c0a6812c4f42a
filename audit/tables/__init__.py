"""The tables that pass between stages and that folders hold; each column is described once."""
