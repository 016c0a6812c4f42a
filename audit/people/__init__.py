"""People as raters, blind to whose replies they see: their items, their questions and their answers."""
