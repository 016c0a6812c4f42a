"""The HTML report: pages made from tables and figures."""
