"""The package's version, which is stored in the files that it writes."""

__version__ = "0.1.0"
