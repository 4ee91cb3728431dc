"""Comparing runs with statistics."""
