"""What a run would take and what it could find, before it is asked."""
