"""How a rating is got from an engine: a generated text that is parsed, or an expected value."""
