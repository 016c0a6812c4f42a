"""Settings: their schema, what each means, and how Hydra composes them."""
