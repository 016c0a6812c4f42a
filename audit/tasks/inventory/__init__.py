"""The perceiver fills in a questionnaire: what is asked, how answers are collected, and what is written of them."""
