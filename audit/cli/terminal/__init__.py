"""What every command stands on: its words, its output, its exit code."""
