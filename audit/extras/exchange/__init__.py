"""Exchange runs with other tools: ask through Inspect, write data sets, records and cards."""
