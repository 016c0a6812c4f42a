"""empathy-audit: measures whether a model that speaks as one group feels less with another."""

__version__ = "0.1.0"
