"""The risk of running a model's programs."""

RISK = (
    "The model's programs run in a sandbox without network, files or other processes, but a sandbox may have holes: "
    "consent only where nothing of value would be lost."
)
"""Shown with every request for consent to run a model's programs."""
