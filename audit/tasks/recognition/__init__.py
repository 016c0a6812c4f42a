"""The perceiver names the emotion of an utterance of a conversation, or copies the words that brought it on."""
