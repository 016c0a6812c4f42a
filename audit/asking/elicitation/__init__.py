"""How ratings are elicited: by parsing a generated text, or as an expected value."""
