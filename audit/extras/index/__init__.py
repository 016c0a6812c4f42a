"""Reads what runs of a folder have published, and lays it out on one page; computes nothing of it again."""
