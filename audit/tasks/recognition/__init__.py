"""``emotion`` names an utterance's, ``cause`` copies its words, ``entailment`` judges a line."""
