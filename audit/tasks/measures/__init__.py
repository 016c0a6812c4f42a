"""Measures of written replies: from a narrative and a reply to numbers."""
