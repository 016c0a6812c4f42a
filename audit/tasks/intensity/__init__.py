"""What tasks have in common whose answers are ratings: how they are asked for, checked and published."""
