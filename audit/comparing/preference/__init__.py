"""Which of two runs' replies is better: as a model judges, and as people choose."""
