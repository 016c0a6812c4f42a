"""Engines that run a model: one library each, imported only when opened."""
