"""Engines on other machines, each started over ssh, and the checks of what they send."""
