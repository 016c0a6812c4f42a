"""A model as judge of written replies: by a rubric, between two replies, and whether the judge itself has a gap."""
