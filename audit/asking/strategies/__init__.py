"""The calls of a strategy's stages, which lead the model before it answers."""
