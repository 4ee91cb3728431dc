"""Charts and tables of the Latency page."""
