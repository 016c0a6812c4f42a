"""Run folders: what a run keeps, and what the folder says of itself."""
