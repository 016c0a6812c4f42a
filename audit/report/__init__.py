"""The HTML report: tables and figures in, one string out."""
