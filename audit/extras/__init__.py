"""What stands on audits: exports, papers, the index, the gate, forecasts, replication, verification."""
