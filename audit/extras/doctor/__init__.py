"""Checks of this machine: what can run here."""
