"""Runs on clusters: array jobs in a queue, engines on the nodes of a Ray cluster."""
