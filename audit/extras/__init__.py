"""Features built on top of audits: exports, papers, index, gate, forecasts, replication, verification."""
