"""A model as judge of written replies: by a rubric, between two replies, and the judge's own gap."""
