"""Which of two runs' replies is better, according to a model as judge or to people."""
