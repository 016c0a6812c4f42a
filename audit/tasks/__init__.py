"""The tasks that a model can be given: a folder or module each, independent of the others."""
