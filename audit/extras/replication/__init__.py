"""The published study's released results, analysed as runs."""
