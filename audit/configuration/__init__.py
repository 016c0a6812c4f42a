"""Settings: their schema, their meanings, and how Hydra composes them."""
