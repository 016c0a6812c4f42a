"""What a run keeps: its folder, and what the folder says of itself."""
