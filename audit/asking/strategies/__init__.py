"""How a model is led to empathise before it answers: the calls of a strategy's stages."""
