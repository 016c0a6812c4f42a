"""``task=reply``: a reply to the experiencer, what is measured of it, and the page of it."""
