"""Runs over a cluster."""
