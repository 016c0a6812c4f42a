"""``task=emotion`` and ``task=cause``: the perceiver names an utterance's emotion, or copies what caused it."""
