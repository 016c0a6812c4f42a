"""What runs a model: one library each, imported only when it is opened."""
