"""Whether folders hold what was collected and made of it, and how damaged ones are put right."""
