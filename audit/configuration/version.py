"""The version of this package, which files that it writes name."""

__version__ = "0.1.0"
