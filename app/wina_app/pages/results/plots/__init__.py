"""Linked plots of the selected runs."""
