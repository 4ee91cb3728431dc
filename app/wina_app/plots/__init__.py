"""Plots, their export and their colour maps."""
