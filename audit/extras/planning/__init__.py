"""What a run would take, what it could find, and whether this machine can ask it: before it is asked."""
