"""What is asked: identities, narratives and prompt variants. Imports nothing from ``audit``."""
