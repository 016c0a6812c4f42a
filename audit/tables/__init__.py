"""The tables that pass between stages and that folders hold: every column is described once, in the module it is of."""
