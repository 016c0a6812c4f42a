"""What was written, as numbers: words, tone and refusals of texts."""
