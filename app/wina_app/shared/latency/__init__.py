"""Latency charts of the Latency and Results pages."""
